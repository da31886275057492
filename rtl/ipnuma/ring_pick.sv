// SPDX-License-Identifier: Apache-2.0
// The first set bit behind a place, else the lowest.
//
// Both are looked for at once, each in two steps: the first group that has a bit, and in every group its
// first bit. So the depth grows with the logarithm of N, and no carry runs over all bits.
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
  // Bits of a group, and groups.
  localparam int unsigned Width = N > 8 ? 8 : N;
  localparam int unsigned Groups = N / Width;
  localparam int unsigned WidthW = Width > 1 ? $clog2(Width) : 1;

  typedef logic [IndexW-1:0] index_t;

  typedef struct packed {
    logic   any;
    index_t index;
  } found_t;

  function automatic found_t lowest(logic [N-1:0] set);
    logic [Groups-1:0] some, lowest_group;
    logic   [Groups-1:0][WidthW-1:0] place;
    index_t                          group;
    logic                            found;
    for (int unsigned g = 0; g < Groups; g++) begin
      some[g]  = |set[g*Width+:Width];
      place[g] = '0;
      found    = 1'b0;
      for (int unsigned i = 0; i < Width; i++) begin
        if (set[g*Width+i] && !found) place[g] |= WidthW'(i);
        found |= set[g*Width+i];
      end
    end
    lowest_group = some & (~some + 1'b1);
    lowest       = '{any: |some, index: '0};
    for (int unsigned g = 0; g < Groups; g++) begin
      group = index_t'(g * Width);
      if (lowest_group[g]) lowest.index |= group | index_t'(place[g]);
    end
  endfunction

  logic [N-1:0] behind;
  found_t next, wrapped;

  always_comb begin
    for (int unsigned i = 0; i < N; i++) behind[i] = index_t'(i) > after_i;
  end

  assign next    = lowest(set_i & behind);
  assign wrapped = lowest(set_i);
  assign any_o   = wrapped.any;
  assign index_o = next.any ? next.index : wrapped.index;
endmodule
