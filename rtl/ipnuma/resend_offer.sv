// SPDX-License-Identifier: Apache-2.0
// Offers frames that must be sent again to the frame builder: one that is offered or being sent,
// and the one behind it.
//
// Latency   : 2 cycles from take_i to valid_o when empty; the next frame is offered in the cycle
//             after pop_i.
// Clock     : clk_i (network).
// Handshake : take_i only with room_o. valid_o stays until pop_i once lock_i is high; lock_i may be
//             combinational from valid_o.
// Drops     : frames that are not locked go away when their session is reset, goes back or is lost,
//             or when they are acknowledged: their slot may be used again.
// Source    : ours.
module resend_offer
  import resend_pkg::*;
#(
  /// Sessions; a power of two.
  parameter int unsigned Sessions = 64,
  localparam int unsigned SessionW = $clog2(Sessions)
) (
  input  logic    clk_i,
  input  logic    rst_i,
  /// Room for one more.
  output logic    room_o,
  /// Nothing is here.
  output logic    empty_o,
  input  logic    take_i,
  input  resent_t take_frame_i,

  /// The session goes back.
  input logic                back_i,
  /// Frame `head` of the session is acknowledged.
  input logic                acked_i,
  input logic [         7:0] acked_number_i,
  input logic [SessionW-1:0] session_i,
  input logic                reset_i,
  input logic [SessionW-1:0] reset_index_i,
  /// The slot being written has no descriptor yet.
  input logic                copying_i,

  output logic    read_o,
  output slot_t   read_slot_o,
  output logic    valid_o,
  output resent_t frame_o,
  input  logic    lock_i,
  input  logic    pop_i,

  /// Pacing: the frame begins; these sessions' frame will not begin.
  output logic                arm_o,
  output logic [Sessions-1:0] release_o
);
  logic next_valid_q, valid_q, locked_q;
  resent_t next_q, frame_q;
  logic drop_next, drop_frame, move;

  logic [SessionW-1:0] next_session, session;
  assign next_session = next_q.session[SessionW-1:0];
  assign session      = frame_q.session[SessionW-1:0];

  always_comb begin
    drop_next  = reset_i && next_session == reset_index_i;
    drop_frame = reset_i && session == reset_index_i;
    if (next_session == session_i) begin
      drop_next |= back_i || (acked_i && next_q.sequence_number[7:0] == acked_number_i);
    end
    if (session == session_i) begin
      drop_frame |= back_i || (acked_i && frame_q.sequence_number[7:0] == acked_number_i);
    end
    drop_next &= next_valid_q;
    drop_frame &= valid_q && !lock_i;
  end
  assign move = next_valid_q && !drop_next && (!valid_q || pop_i || drop_frame) && !copying_i;

  assign room_o = !next_valid_q;
  assign empty_o = !next_valid_q && !valid_q;
  assign read_o = move;
  assign read_slot_o = next_q.slot;
  assign valid_o = valid_q;
  assign frame_o = frame_q;
  assign arm_o = lock_i && !locked_q && frame_q.pace != '0;
  assign release_o = (Sessions'(drop_next && next_q.pace != '0) << next_session) |
      (Sessions'(drop_frame && frame_q.pace != '0) << session);

  always_ff @(posedge clk_i) begin
    if (take_i) next_q <= take_frame_i;
    if (move) frame_q <= next_q;
    if (rst_i) begin
      next_valid_q <= 1'b0;
      valid_q      <= 1'b0;
      locked_q     <= 1'b0;
    end else if (take_i || next_valid_q || valid_q) begin
      next_valid_q <= take_i || (next_valid_q && !move && !drop_next);
      valid_q      <= move || (valid_q && !pop_i && !drop_frame);
      locked_q     <= lock_i && !pop_i;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) take_i |-> room_o)
  else $error("resend_offer: no room for a frame");
  assert property (@(posedge clk_i) disable iff (rst_i) (lock_i || pop_i) |-> valid_o)
  else $error("resend_offer: a frame is sent that is not offered");
`endif
endmodule
