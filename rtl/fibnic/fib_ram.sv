// SPDX-License-Identifier: Apache-2.0
// Memory of wide words: columns of at most 64 bits side by side, written and read as one.
//
// Latency : ReadLatency edges from raddr_i with re_i to rdata_o, as ram_1r1w. A read and a write of
//           one address at the same edge read the old word, whole.
// Clock   : clk_i.
// Source  : common practice. Simulators spell out the initial zeros of wider words one by one,
//           which makes a directory of 2^18 words take minutes to compile.
module fib_ram #(
  /// Type of a word.
  parameter type data_t = logic [85:0],
  /// Words.
  parameter int unsigned Depth = 512,
  /// Edges from address to data, 1..4.
  parameter int unsigned ReadLatency = 1,
  localparam int unsigned AddrW = Depth > 1 ? $clog2(Depth) : 1
) (
  input  logic              clk_i,
  input  logic              we_i,
  input  logic  [AddrW-1:0] waddr_i,
  input  data_t             wdata_i,
  input  logic              re_i,
  input  logic  [AddrW-1:0] raddr_i,
  output data_t             rdata_o
);
  localparam int unsigned Width = $bits(data_t);
  localparam int unsigned Columns = (Width + 63) / 64;

  logic [Width-1:0] wdata, rdata;

  assign wdata   = wdata_i;
  assign rdata_o = data_t'(rdata);

  for (genvar c = 0; c < int'(Columns); c++) begin : gen_column
    localparam int unsigned ColumnW = c + 1 == int'(Columns) ? Width - 64 * (Columns - 1) : 64;

    ram_1r1w #(
      .data_t     (logic [ColumnW-1:0]),
      .Depth      (Depth),
      .ReadLatency(ReadLatency)
    ) u_column (
      .clk_i,
      .we_i,
      .waddr_i,
      .wdata_i(wdata[64*c+:ColumnW]),
      .re_i,
      .raddr_i,
      .rdata_o(rdata[64*c+:ColumnW])
    );
  end
endmodule
