// SPDX-License-Identifier: Apache-2.0
// Accepted operations on their way from the network clock to the PCIe clock. Data are written while the
// frame arrives, before anybody knows its verdict; only the token says that they count.
//
// The reader takes an operation into registers of its own, and the one behind it is offered at once; the slot, and
// so the data, of what it took stay until it pops it.
//
// Latency   : from commit_i's edge to valid_o right after the second clk_pcie_i edge that follows; op_o is
//             combinational from there; 1 cycle of clk_pcie_i from pay_idx_i to pay_word_o.
// Clock     : clk_net_i writes, clk_pcie_i reads.
// Handshake : pairs may be written and a slot committed while free_o; take_i only with valid_o, and not while an
//             operation is taken unless pop_i lets it go; pop_i only then.
// Drops     : never; the writer counts what finds no slot.
// Source    : ours.
module rx_slots
  import ipnuma_pkg::*;
#(
  /// Slots; a power of two from 2.
  parameter int unsigned Slots = 32
) (
  input  logic          clk_net_i,
  input  logic          rst_net_i,
  output logic          free_o,
  input  logic          pair_we_i,
  input  logic   [ 4:0] pair_idx_i,
  input  logic   [63:0] pair_i,
  input  logic          commit_i,
  input  rx_op_t        op_i,
  output logic          busy_net_o,

  input  logic          clk_pcie_i,
  input  logic          rst_pcie_i,
  /// Another operation than the one that was taken.
  output logic          valid_o,
  output rx_op_t        op_o,
  input  logic          take_i,
  /// Data of the one that was taken.
  input  logic   [ 4:0] pay_idx_i,
  output logic   [63:0] pay_word_o,
  input  logic          pop_i,
  /// See slot_ring.
  input  logic          mark_i,
  output logic          marked_o
);
  localparam int unsigned SlotW = $clog2(Slots);

  logic [SlotW-1:0] w_slot, first, next, ahead_q, taken_slot_q;
  logic first_valid, next_valid, taken_q;
  rx_op_t op_q[Slots];

  slot_ring #(
    .Slots(Slots)
  ) u_ring (
    .w_clk_i       (clk_net_i),
    .w_rst_i       (rst_net_i),
    .w_free_o      (free_o),
    .w_slot_o      (w_slot),
    .w_take_i      (commit_i),
    .w_busy_o      (busy_net_o),
    .r_clk_i       (clk_pcie_i),
    .r_rst_i       (rst_pcie_i),
    .r_valid_o     (first_valid),
    .r_slot_o      (first),
    .r_last_o      (),
    .r_next_valid_o(next_valid),
    .r_next_o      (next),
    .r_join_i      (1'b0),
    .r_pop_i       (pop_i),
    .r_group_i     (1'b0),
    .r_mark_i      (mark_i),
    .r_marked_o    (marked_o),
    .r_busy_o      ()
  );

  assign valid_o = taken_q ? next_valid : first_valid;
  assign op_o    = op_q[ahead_q];

  // What the reader makes of an operation it does in the cycle that takes it, so its slot is a register.
  always_ff @(posedge clk_pcie_i) begin
    if (take_i) taken_slot_q <= ahead_q;
    if (rst_pcie_i) begin
      taken_q <= 1'b0;
      ahead_q <= '0;
    end else begin
      taken_q <= take_i || (taken_q && !pop_i);
      ahead_q <= ahead_q + SlotW'(take_i);
    end
  end

  slot_payload #(
    .Slots(Slots)
  ) u_payload (
    .w_clk_i      (clk_net_i),
    .w_slot_i     (w_slot),
    .w_even_we_i  (pair_we_i),
    .w_even_idx_i (pair_idx_i),
    .w_even_data_i(pair_i[31:0]),
    .w_odd_we_i   (pair_we_i),
    .w_odd_idx_i  (pair_idx_i),
    .w_odd_data_i (pair_i[63:32]),
    .r_clk_i      (clk_pcie_i),
    .r_re_i       (taken_q),
    .r_slot_i     (taken_slot_q),
    .r_idx_i      (pay_idx_i),
    .r_word_o     (pay_word_o)
  );

  always_ff @(posedge clk_net_i) begin
    if (commit_i) op_q[w_slot] <= op_i;
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_net_i) disable iff (rst_net_i) pair_we_i || commit_i |-> free_o)
  else $error("rx_slots: a slot that is not free was written");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      take_i |-> valid_o && (!taken_q || pop_i))
  else $error("rx_slots: an operation was taken before the one in front was popped");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      ahead_q == (taken_q ? next : first))
  else $error("rx_slots: the operation that is offered is not the next one");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i) pop_i |-> taken_q)
  else $error("rx_slots: an operation was popped that was not taken");
`endif
endmodule
