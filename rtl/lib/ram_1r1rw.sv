// SPDX-License-Identifier: Apache-2.0
// Memory with a read port and a read-write port on one clock; infers true dual-port block RAM.
//
// Latency : ReadLatency edges from a_addr_i with a_re_i to a_rdata_o; the same from b_re_i to
//           b_rdata_o. A new address may come every edge. A read of the word written at the same
//           edge gives the old one.
// Clock   : clk_i.
// Source  : common practice.
module ram_1r1rw #(
  /// Type of a word.
  parameter type data_t = logic [63:0],
  /// Words.
  parameter int unsigned Depth = 512,
  /// Edges from address to data, 1..4.
  parameter int unsigned ReadLatency = 1,
  localparam int unsigned AddrW = Depth > 1 ? $clog2(Depth) : 1
) (
  input  logic              clk_i,
  input  logic              a_re_i,
  input  logic  [AddrW-1:0] a_addr_i,
  output data_t             a_rdata_o,
  input  logic              b_we_i,
  input  logic              b_re_i,
  input  logic  [AddrW-1:0] b_addr_i,
  input  data_t             b_wdata_i,
  output data_t             b_rdata_o
);
  localparam int unsigned Width = $bits(data_t);

  data_t mem_q[Depth];
  // Packed: tools take an array of words for a second memory, and then find no block RAM.
  logic [ReadLatency-1:0][Width-1:0] a_q, b_q;

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

  always_ff @(posedge clk_i) begin
    if (a_re_i) a_q[0] <= mem_q[a_addr_i];
  end

  always_ff @(posedge clk_i) begin
    if (b_we_i) mem_q[b_addr_i] <= b_wdata_i;
    if (b_re_i) b_q[0] <= mem_q[b_addr_i];
  end

  for (genvar i = 1; i < int'(ReadLatency); i++) begin : gen_stage
    always_ff @(posedge clk_i) begin
      a_q[i] <= a_q[i-1];
      b_q[i] <= b_q[i-1];
    end
  end

  assign a_rdata_o = data_t'(a_q[ReadLatency-1]);
  assign b_rdata_o = data_t'(b_q[ReadLatency-1]);
endmodule
