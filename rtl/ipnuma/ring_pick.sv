// SPDX-License-Identifier: Apache-2.0
// The first set bit behind a place, else the lowest.
//
// Latency : combinational.
// Source  : common practice; arb_rr keeps its turn itself, here the caller does.
module ring_pick #(
  /// Bits; a power of two.
  parameter int unsigned N = 64,
  localparam int unsigned IndexW = N > 1 ? $clog2(N) : 1
) (
  input  logic [     N-1:0] set_i,
  input  logic [IndexW-1:0] after_i,
  output logic              any_o,
  /// 0 if no bit is set.
  output logic [IndexW-1:0] index_o
);
  logic [N-1:0] here, behind, from, lowest;

  // Bits whose index has bit b set.
  function automatic logic [N-1:0] having(logic [4:0] b);
    for (int unsigned i = 0; i < N; i++) having[i] = i[b];
  endfunction

  assign here   = {{N - 1{1'b0}}, 1'b1} << after_i;
  assign behind = ~(here | (here - 1'b1));
  assign from   = |(set_i & behind) ? set_i & behind : set_i;
  assign lowest = from & (~from + 1'b1);
  assign any_o  = |set_i;

  for (genvar b = 0; b < int'(IndexW); b++) begin : gen_bit
    localparam logic [N-1:0] Having = having(5'(b));
    assign index_o[b] = |(lowest & Having);
  end
endmodule
