// SPDX-License-Identifier: Apache-2.0
// Frames on their way from the PCIe clock to the network clock, each whole when it is committed.
//
// Latency   : from commit_i's edge to valid_o right after the second clk_net_i edge that follows; 1
//             cycle of clk_net_i from pay_idx_i to pay_word_o.
// Clock     : clk_pcie_i writes, clk_net_i reads.
// Handshake : payload may be written and a frame committed while slot_free_o; payload goes to the
//             slot that the next commit_i finishes. pop_i only with valid_o.
// Drops     : never.
// Source    : ours.
module tx_slots #(
  /// Slots; a power of two from 2.
  parameter int unsigned Slots = 16,
  /// What is said of a frame.
  parameter type frame_t = ipnuma_pkg::tx_frame_t
) (
  input  logic          clk_pcie_i,
  input  logic          rst_pcie_i,
  output logic          slot_free_o,
  input  frame_t        frame_i,
  input  logic          commit_i,
  input  logic          pay_even_we_i,
  input  logic   [ 4:0] pay_even_idx_i,
  input  logic   [31:0] pay_even_data_i,
  input  logic          pay_odd_we_i,
  input  logic   [ 4:0] pay_odd_idx_i,
  input  logic   [31:0] pay_odd_data_i,
  output logic          busy_pcie_o,

  input  logic          clk_net_i,
  input  logic          rst_net_i,
  output logic          valid_o,
  output frame_t        frame_o,
  /// Always 1: what was committed may be sent.
  output logic          permitted_o,
  input  logic   [ 4:0] pay_idx_i,
  output logic   [63:0] pay_word_o,
  input  logic          pop_i,
  output logic          busy_net_o
);
  localparam int unsigned SlotW = $clog2(Slots);

  logic [SlotW-1:0] w_slot, r_slot;
  frame_t frame_q[Slots];

  slot_pointer #(
    .Slots(Slots)
  ) u_pointer (
    .w_clk_i  (clk_pcie_i),
    .w_rst_i  (rst_pcie_i),
    .w_free_o (slot_free_o),
    .w_slot_o (w_slot),
    .w_take_i (commit_i),
    .w_busy_o (busy_pcie_o),
    .r_clk_i  (clk_net_i),
    .r_rst_i  (rst_net_i),
    .r_valid_o(valid_o),
    .r_slot_o (r_slot),
    .r_pop_i  (pop_i)
  );

  slot_payload #(
    .Slots(Slots)
  ) u_payload (
    .w_clk_i      (clk_pcie_i),
    .w_slot_i     (w_slot),
    .w_even_we_i  (pay_even_we_i),
    .w_even_idx_i (pay_even_idx_i),
    .w_even_data_i(pay_even_data_i),
    .w_odd_we_i   (pay_odd_we_i),
    .w_odd_idx_i  (pay_odd_idx_i),
    .w_odd_data_i (pay_odd_data_i),
    .r_clk_i      (clk_net_i),
    .r_re_i       (valid_o),
    .r_slot_i     (r_slot),
    .r_idx_i      (pay_idx_i),
    .r_word_o     (pay_word_o)
  );

  always_ff @(posedge clk_pcie_i) begin
    if (commit_i) frame_q[w_slot] <= frame_i;
  end

  assign frame_o     = frame_q[r_slot];
  assign permitted_o = 1'b1;
  assign busy_net_o  = valid_o;

`ifndef SYNTHESIS
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      pay_even_we_i || pay_odd_we_i |-> slot_free_o)
  else $error("tx_slots: payload for a slot that is not free");
`endif
endmodule
