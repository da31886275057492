// SPDX-License-Identifier: Apache-2.0
// Pointers of a ring of slots that is filled in one clock domain and emptied in another, slot by slot or by
// groups of slots; no storage.
//
// The filler writes into slot w_slot_o at leisure; w_take_i finishes it, and the pointer that the reader
// sees (the token) moves at that very edge, or TokenDelay edges later when a slot's last parts come late.
// The reader has a group in front of it: the first slot, and those behind it that it has joined to it.
// What it has emptied goes back to the filler one slot a cycle: a Gray code must not jump.
//
// Latency   : the token is usable, combinationally (r_valid_o, r_next_valid_o), right after the second
//             r_clk_i edge that follows its own edge. A popped slot is free after the second w_clk_i
//             edge, the others of its group a cycle of r_clk_i later each.
// Clock     : w_clk_i fills, r_clk_i empties; both resets must overlap.
// Handshake : w_take_i only with w_free_o, r_pop_i only with r_valid_o, r_join_i only with
//             r_next_valid_o and not with r_pop_i. Marks are for readers without groups.
// Drops     : never.
// Source    : common practice, Gray-coded pointers.
module slot_ring #(
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
  /// Last slot of the group; r_slot_o until another is joined to it.
  output logic [SlotW-1:0] r_last_o,
  /// Slot r_next_o, behind the group, is full.
  output logic             r_next_valid_o,
  output logic [SlotW-1:0] r_next_o,
  /// Slot r_next_o joins the group.
  input  logic             r_join_i,
  /// The first slot is empty now; with r_group_i the whole group is. What is left becomes no group.
  input  logic             r_pop_i,
  input  logic             r_group_i,
  /// Pulse: the slots that are full now are marked; r_marked_o from the next cycle on, until they are empty.
  input  logic             r_mark_i,
  output logic             r_marked_o,
  /// Slots are still to be given back.
  output logic             r_busy_o
);
  if (Slots < 2 || (Slots & (Slots - 1)) != 0) begin : gen_no_slots
    $fatal(1, "slot_ring needs a power of two of slots, two or more");
  end

  function automatic logic [SlotW:0] to_gray(logic [SlotW:0] bin);
    return bin ^ (bin >> 1);
  endfunction

  function automatic logic [SlotW:0] from_gray(logic [SlotW:0] gray);
    for (int unsigned i = 0; i <= SlotW; i++) from_gray[i] = ^(gray >> i);
  endfunction

  logic [SlotW:0] fill_q;  // slots taken
  logic [SlotW:0] token_q, token_d, token_gray_q, token_sync;
  logic [SlotW:0] read_q, read_d, read_gray_q;  // first slot of the group
  logic [SlotW:0] last_q, next;
  logic [SlotW:0] freed_q, freed_d, freed_gray_q, freed_sync;
  logic [SlotW:0] used;
  logic           token;
  logic [SlotW:0] mark_gray_q;  // behind the last slot that is marked
  logic           marked_q;

  if (TokenDelay == 0) begin : gen_at_once
    assign token = w_take_i;
  end else begin : gen_later
    logic [TokenDelay-1:0] take_q;
    always_ff @(posedge w_clk_i) begin
      if (w_rst_i) take_q <= '0;
      else take_q <= TokenDelay'({take_q, w_take_i});
    end
    assign token = take_q[TokenDelay-1];
  end

  assign used     = fill_q - from_gray(freed_sync);
  assign w_free_o = !used[SlotW];
  assign w_busy_o = |used;
  assign w_slot_o = fill_q[SlotW-1:0];
  assign token_d  = token_q + (SlotW + 1)'(token);

  always_ff @(posedge w_clk_i) begin
    if (w_rst_i) begin
      fill_q       <= '0;
      token_q      <= '0;
      token_gray_q <= '0;
    end else begin
      fill_q       <= fill_q + (SlotW + 1)'(w_take_i);
      token_q      <= token_d;
      token_gray_q <= to_gray(token_d);
    end
  end

  assign next           = last_q + 1'b1;
  assign r_valid_o      = read_gray_q != token_sync;
  assign r_next_valid_o = r_valid_o && to_gray(next) != token_sync;
  assign r_slot_o       = read_q[SlotW-1:0];
  assign r_last_o       = last_q[SlotW-1:0];
  assign r_next_o       = next[SlotW-1:0];
  assign r_busy_o       = freed_q != read_q;
  assign r_marked_o     = marked_q && read_gray_q != mark_gray_q;

  always_comb begin
    read_d = read_q;
    if (r_pop_i) read_d = r_group_i ? next : read_q + 1'b1;
    // It follows at most one slot a cycle.
    freed_d = freed_q;
    if (freed_q != read_d) freed_d = freed_q + 1'b1;
  end

  always_ff @(posedge r_clk_i) begin
    if (r_rst_i) begin
      read_q       <= '0;
      read_gray_q  <= '0;
      last_q       <= '0;
      freed_q      <= '0;
      freed_gray_q <= '0;
    end else begin
      read_q       <= read_d;
      read_gray_q  <= to_gray(read_d);
      freed_q      <= freed_d;
      freed_gray_q <= to_gray(freed_d);
      if (r_pop_i) last_q <= read_d;
      else if (r_join_i) last_q <= next;
    end
  end

  always_ff @(posedge r_clk_i) begin
    if (r_mark_i) mark_gray_q <= token_sync;
    if (r_rst_i) marked_q <= 1'b0;
    else marked_q <= r_mark_i || r_marked_o;
  end

  sync_ff #(
    .Width(SlotW + 1)
  ) u_sync_token (
    .clk_i(r_clk_i),
    .d_i  (token_gray_q),
    .q_o  (token_sync)
  );

  sync_ff #(
    .Width(SlotW + 1)
  ) u_sync_freed (
    .clk_i(w_clk_i),
    .d_i  (freed_gray_q),
    .q_o  (freed_sync)
  );

`ifndef SYNTHESIS
  assert property (@(posedge w_clk_i) disable iff (w_rst_i) w_take_i |-> w_free_o)
  else $error("slot_ring: a slot was taken that is not free");
  assert property (@(posedge r_clk_i) disable iff (r_rst_i) r_pop_i |-> r_valid_o)
  else $error("slot_ring: an empty slot was popped");
  assert property (@(posedge r_clk_i) disable iff (r_rst_i) r_join_i |-> r_next_valid_o && !r_pop_i)
  else $error("slot_ring: an empty slot was joined to a group");
  // The end of the mark would be passed over.
  assert property (@(posedge r_clk_i) disable iff (r_rst_i)
      r_marked_o || r_mark_i |-> !r_join_i && !(r_pop_i && r_group_i))
  else $error("slot_ring: a group while slots are marked");
`endif
endmodule
