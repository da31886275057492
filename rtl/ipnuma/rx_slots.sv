// SPDX-License-Identifier: Apache-2.0
// Accepted operations on their way from the network clock to the PCIe clock. Data are written while the
// frame arrives, before anybody knows its verdict; only the token says that they count.
//
// Latency   : from commit_i's edge to valid_o right after the second clk_pcie_i edge that follows; op_o is
//             combinational from there; 1 cycle of clk_pcie_i from pay_idx_i to pay_word_o.
// Clock     : clk_net_i writes, clk_pcie_i reads.
// Handshake : pairs may be written and a slot committed while free_o; pop_i only with valid_o.
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
  output logic          valid_o,
  output rx_op_t        op_o,
  input  logic   [ 4:0] pay_idx_i,
  output logic   [63:0] pay_word_o,
  input  logic          pop_i
);
  localparam int unsigned SlotW = $clog2(Slots);

  logic [SlotW-1:0] w_slot, r_slot;
  rx_op_t op_q[Slots];

  slot_pointer #(
    .Slots(Slots)
  ) u_pointer (
    .w_clk_i  (clk_net_i),
    .w_rst_i  (rst_net_i),
    .w_free_o (free_o),
    .w_slot_o (w_slot),
    .w_take_i (commit_i),
    .w_busy_o (busy_net_o),
    .r_clk_i  (clk_pcie_i),
    .r_rst_i  (rst_pcie_i),
    .r_valid_o(valid_o),
    .r_slot_o (r_slot),
    .r_pop_i  (pop_i)
  );

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
    .r_re_i       (valid_o),
    .r_slot_i     (r_slot),
    .r_idx_i      (pay_idx_i),
    .r_word_o     (pay_word_o)
  );

  always_ff @(posedge clk_net_i) begin
    if (commit_i) op_q[w_slot] <= op_i;
  end

  assign op_o = op_q[r_slot];

`ifndef SYNTHESIS
  assert property (@(posedge clk_net_i) disable iff (rst_net_i) pair_we_i || commit_i |-> free_o)
  else $error("rx_slots: a slot that is not free was written");
`endif
endmodule
