// SPDX-License-Identifier: Apache-2.0
// async_fifo, for any two clocks: the pointers never pass each other, whatever the synchronisers hold
// at the time, Gray codes change one bit at a time, and a slot is not written while it is readable.
//
// Both clocks are free inputs of a model with a finer step than either. Registers start at zero,
// which is what an overlapping reset leaves.
//
// Clock  : wclk_i, rclk_i.
// Source : ours.
module lib_async_fifo_proof #(
  localparam int unsigned Depth = 4
) (
  input logic       wclk_i,
  input logic [3:0] wdata_i,
  input logic       wvalid_i,
  input logic       rclk_i,
  input logic       rready_i
);
  typedef logic [2:0] ptr_t;

  logic [3:0] rdata_o;
  logic wready_o, rvalid_o;
  ptr_t wcount_o;

  async_fifo #(
    .data_t(logic [3:0]),
    .Depth (Depth)
  ) u_dut (
    .wrst_i(1'b0),
    .rrst_i(1'b0),
    .*
  );

  function automatic ptr_t from_gray(ptr_t gray);
    return {gray[2], gray[2] ^ gray[1], gray[2] ^ gray[1] ^ gray[0]};
  endfunction

  ptr_t w, w1, w2, r, r1, r2;
  // Steps between neighbours in the order r2, r1, r, w2, w1, w, each modulo twice the depth.
  logic [5:0] span;

  assign w = u_dut.wptr_q;
  assign w1 = from_gray(u_dut.u_sync_wptr.stage_q[0]);
  assign w2 = from_gray(u_dut.u_sync_wptr.stage_q[1]);
  assign r = u_dut.rptr_q;
  assign r1 = from_gray(u_dut.u_sync_rptr.stage_q[0]);
  assign r2 = from_gray(u_dut.u_sync_rptr.stage_q[1]);
  assign span = 6'(ptr_t'(r1 - r2)) + 6'(ptr_t'(r - r1)) + 6'(ptr_t'(w2 - r)) +
      6'(ptr_t'(w1 - w2)) + 6'(ptr_t'(w - w1));

  function automatic logic one_bit(ptr_t a, ptr_t b);
    return ((a ^ b) & ((a ^ b) - 3'd1)) == '0;
  endfunction

  always_comb begin
    a_order : assert (span <= 6'(Depth));
    a_wgray : assert (from_gray(u_dut.wgray_q) == w);
    a_rgray : assert (from_gray(u_dut.rgray_q) == r);
    a_wstep : assert (one_bit(u_dut.wgray_q, u_dut.to_gray(u_dut.wptr_d)));
    a_rstep : assert (one_bit(u_dut.rgray_q, u_dut.to_gray(u_dut.rptr_d)));
    a_count : assert (wcount_o >= ptr_t'(w - r) && wcount_o <= 3'(Depth));
    // A word is offered only when there is one, and the slot being written is not the one offered.
    a_no_empty_read : assert (!rvalid_o || w != r);
    a_no_overwrite : assert (!(wvalid_i && wready_o && rvalid_o) || w[1:0] != r[1:0]);
  end
endmodule
