// SPDX-License-Identifier: Apache-2.0
// Memory with one write and one read port on one clock; infers block RAM (or URAM).
//
// Latency : ReadLatency edges from raddr_i with re_i to rdata_o; a new address may come every edge.
//           A read and a write of one address at the same edge read the old word.
// Clock   : clk_i.
// Source  : common practice; the latency is a parameter so that larger or external memories fit.
module ram_1r1w #(
  /// Type of a word.
  parameter type data_t = logic [63:0],
  /// Words.
  parameter int unsigned Depth = 512,
  /// Edges from address to data, 1..4.
  parameter int unsigned ReadLatency = 1,
  /// Contents start as zeros.
  parameter bit InitZero = 1'b1,
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

  data_t                              mem_q  [Depth];
  // Packed: tools take an array of words for a second memory, and then find no block RAM.
  logic  [ReadLatency-1:0][Width-1:0] read_q;

  if (InitZero) begin : gen_init
`ifdef VERILATOR
    // It spells the pattern below out, one statement a word.
    initial begin
      for (int unsigned i = 0; i < Depth; i++) mem_q[i] = '0;
    end
`elsif WITHOUT_MEMORY_INIT
    // For a look at structure and size: large memories take the front end of synthesis minutes.
`else
    initial mem_q = '{default: '0};
`endif
  end

  always_ff @(posedge clk_i) begin
    if (we_i) mem_q[waddr_i] <= wdata_i;
    if (re_i) read_q[0] <= mem_q[raddr_i];
  end

  for (genvar i = 1; i < int'(ReadLatency); i++) begin : gen_stage
    always_ff @(posedge clk_i) read_q[i] <= read_q[i-1];
  end

  assign rdata_o = data_t'(read_q[ReadLatency-1]);
endmodule
