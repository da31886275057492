// SPDX-License-Identifier: Apache-2.0
// Memory with one write port and one read port, each on its own clock; infers block RAM.
//
// Latency : ReadLatency edges of rclk_i from raddr_i with re_i to rdata_o. A word being written
//           while it is read may come out mixed: the user keeps the two apart (pointer or valid bit
//           across clocks).
// Clock   : wclk_i writes, rclk_i reads.
// Source  : common practice.
module ram_2clk #(
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
  input  logic              wclk_i,
  input  logic              we_i,
  input  logic  [AddrW-1:0] waddr_i,
  input  data_t             wdata_i,
  input  logic              rclk_i,
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

  always_ff @(posedge wclk_i) begin
    if (we_i) mem_q[waddr_i] <= wdata_i;
  end

  always_ff @(posedge rclk_i) begin
    if (re_i) read_q[0] <= mem_q[raddr_i];
  end

  for (genvar i = 1; i < int'(ReadLatency); i++) begin : gen_stage
    always_ff @(posedge rclk_i) read_q[i] <= read_q[i-1];
  end

  assign rdata_o = data_t'(read_q[ReadLatency-1]);
endmodule
