// SPDX-License-Identifier: Apache-2.0
// Which slots of the send buffer are free, and which slot follows which in a session's chain.
//
// Latency   : alloc_slot_o is the slot that the next alloc_i takes; next_o is combinational.
// Clock     : clk_i (network).
// Handshake : alloc_i only with any_o. A freed slot may be taken again in the next cycle.
// Drops     : never.
// Source    : ours; slots that were never used are counted up, so that the ring of freed ones
//             needs no filling at reset.
module send_slots #(
  /// Slots; a power of two, at most 256.
  parameter int unsigned Slots = 128,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  /// A slot is free.
  output logic             any_o,
  input  logic             alloc_i,
  output logic [SlotW-1:0] alloc_slot_o,
  input  logic             free_i,
  input  logic [SlotW-1:0] free_slot_i,
  /// link_to_i follows link_from_i.
  input  logic             link_i,
  input  logic [SlotW-1:0] link_from_i,
  input  logic [SlotW-1:0] link_to_i,
  input  logic [SlotW-1:0] look_i,
  /// What follows look_i.
  output logic [SlotW-1:0] next_o,
  /// No slot is taken.
  output logic             empty_o
);
  logic [SlotW-1:0] freed_q[Slots];
  logic [SlotW-1:0] next_q [Slots];
  logic [SlotW-1:0] write_q, read_q;
  logic [SlotW:0] fresh_q, used_q;
  logic is_fresh;

  assign is_fresh     = !fresh_q[SlotW];
  assign any_o        = !used_q[SlotW];
  assign empty_o      = used_q == '0;
  assign alloc_slot_o = is_fresh ? fresh_q[SlotW-1:0] : freed_q[read_q];
  assign next_o       = next_q[look_i];

  always_ff @(posedge clk_i) begin
    if (free_i) freed_q[write_q] <= free_slot_i;
    if (link_i) next_q[link_from_i] <= link_to_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      write_q <= '0;
      read_q  <= '0;
      fresh_q <= '0;
      used_q  <= '0;
    end else if (alloc_i || free_i) begin
      if (free_i) write_q <= write_q + 1'b1;
      if (alloc_i && is_fresh) fresh_q <= fresh_q + 1'b1;
      if (alloc_i && !is_fresh) read_q <= read_q + 1'b1;
      if (alloc_i && !free_i) used_q <= used_q + 1'b1;
      if (free_i && !alloc_i) used_q <= used_q - 1'b1;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) alloc_i |-> any_o)
  else $error("send_slots: no slot is free");
  assert property (@(posedge clk_i) disable iff (rst_i) free_i |-> !empty_o)
  else $error("send_slots: more slots freed than taken");
`endif
endmodule
