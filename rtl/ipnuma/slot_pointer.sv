// SPDX-License-Identifier: Apache-2.0
// Pointers of a ring of slots that is filled in one clock domain and emptied in another, one slot at a time;
// no storage.
//
// Latency   : as in slot_ring: the token is usable, combinationally (r_valid_o), right after the second
//             r_clk_i edge that follows its own edge. A popped slot is free after the second w_clk_i edge.
// Clock     : w_clk_i fills, r_clk_i empties; both resets must overlap.
// Handshake : w_take_i only with w_free_o, r_pop_i only with r_valid_o.
// Drops     : never.
// Source    : common practice, Gray-coded pointers.
module slot_pointer #(
  /// Slots; a power of two from 2.
  parameter int unsigned Slots = 16,
  /// w_clk_i edges from w_take_i to the token.
  parameter int unsigned TokenDelay = 0,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             w_clk_i,
  input  logic             w_rst_i,
  /// Slot w_slot_o may be filled.
  output logic             w_free_o,
  output logic [SlotW-1:0] w_slot_o,
  input  logic             w_take_i,
  /// A slot is in use, as the filler knows it.
  output logic             w_busy_o,

  input  logic             r_clk_i,
  input  logic             r_rst_i,
  /// Slot r_slot_o is full.
  output logic             r_valid_o,
  output logic [SlotW-1:0] r_slot_o,
  input  logic             r_pop_i
);
  slot_ring #(
    .Slots     (Slots),
    .TokenDelay(TokenDelay)
  ) u_ring (
    .w_clk_i,
    .w_rst_i,
    .w_free_o,
    .w_slot_o,
    .w_take_i,
    .w_busy_o,
    .r_clk_i,
    .r_rst_i,
    .r_valid_o,
    .r_slot_o,
    .r_last_o      (),
    .r_next_valid_o(),
    .r_next_o      (),
    .r_join_i      (1'b0),
    .r_pop_i,
    .r_group_i     (1'b0),
    .r_mark_i      (1'b0),
    .r_marked_o    (),
    .r_busy_o      ()
  );
endmodule
