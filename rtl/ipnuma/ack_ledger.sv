// SPDX-License-Identifier: Apache-2.0
// What each session's peer has yet to be told: frames that wait for their acknowledgement, whether one must
// be sent now, whether a frame is missing.
//
// A frame waits for a frame of ours to take its acknowledgement along. It goes alone when ack_every_i frames
// wait, when one has waited for ack_ticks_i to twice that (a lone one: ack_ticks_i), or when a frame came
// again. One clock for all sessions: at each of its ends those that waited at the end before have waited long
// enough. It stands still when nobody waits.
//
// Latency : want_o 1 cycle after taken_i, again_i, gap_i; pending_o, urgent_o combinational.
// Clock   : clk_i (network).
// Source  : ours. A gap is told once until the next frame in order, and again when the sender has gone back
//           and the missing frame was lost again: its numbers begin anew.
module ack_ledger
  import wire_pkg::*;
#(
  /// Sessions; a power of two.
  parameter int unsigned Sessions = 64,
  localparam int unsigned IndexW = $clog2(Sessions)
) (
  input logic clk_i,
  input logic rst_i,

  /// Ticks, frames.
  input logic [7:0] ack_ticks_i,
  input logic [7:0] ack_every_i,

  /// A session begins anew.
  input logic              reset_i,
  input logic [IndexW-1:0] reset_index_i,

  /// From the verdict.
  input logic [IndexW-1:0] session_i,
  input logic              taken_i,
  input logic              again_i,
  input logic              gap_i,
  /// Number of the frame behind the gap.
  input logic [      15:0] number_i,

  /// A frame of ours, to this session, can take the acknowledgement along; it does (pulse).
  input  logic [IndexW-1:0] ride_session_i,
  output logic              ride_pending_o,
  output logic              ride_urgent_o,
  input  logic              ride_taken_i,

  /// The control frame of this session begins (pulse).
  input  logic [  IndexW-1:0] sent_session_i,
  input  logic                sent_i,
  /// Sessions that want a control frame, and those for which it is a NACK.
  output logic [Sessions-1:0] want_o,
  output logic [Sessions-1:0] nack_o,
  output logic                busy_o
);
  localparam int unsigned TimerW = 8 + $clog2(SESSION_TICK_CYCLES);

  // Waiting at all; since the last end of the clock; half of the frames that make it go alone; to be sent.
  logic [Sessions-1:0] pending_q, old_q, many_q, want_ack_q, want_nack_q, gap_told_q;
  logic [ 7:0] count_q  [Sessions];  // of the waiting, when there are any
  logic [15:0] gap_at_q [Sessions];  // the last frame behind the gap, when it was told
  logic [15:0] gap_step;
  logic        gap_new;
  logic [7:0] count_next, count_more, half;
  logic many, enough;
  logic running_q, ends, still_pending;
  logic [TimerW-1:0] timer_q, period;

  // ---- Clock -------------------------------------------------------------------------------------
  assign period = {ack_ticks_i, {(TimerW - 8) {1'b0}}} - 1'b1;
  assign ends   = running_q && timer_q == '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      running_q <= 1'b0;
    end else begin
      if (running_q) begin
        timer_q <= ends ? period : timer_q - 1'b1;
        if (pending_q == '0) running_q <= 1'b0;
      end
      if (taken_i) begin
        running_q <= 1'b1;
        if (!running_q) timer_q <= period;
      end
    end
  end

  // ---- Frames that wait --------------------------------------------------------------------------
  assign still_pending = pending_q[session_i] &&
      !(ride_taken_i && ride_session_i == session_i) && !(sent_i && sent_session_i == session_i);
  // Both cases are ready when it is known whether the acknowledgement leaves just now.
  assign count_more = count_q[session_i] == '1 ? '1 : count_q[session_i] + 1'b1;
  assign count_next = still_pending ? count_more : 8'd1;
  assign half = {1'b0, ack_every_i[7:1]};
  assign many = still_pending ? count_more >= half : 8'd1 >= half;
  assign enough = still_pending ? count_more >= ack_every_i : 8'd1 >= ack_every_i;

  always_ff @(posedge clk_i) begin
    if (taken_i) count_q[session_i] <= count_next;
    if (gap_i) gap_at_q[session_i] <= number_i;
  end

  // Not beyond the last one: the sender went back.
  assign gap_step = number_i - gap_at_q[session_i];
  assign gap_new  = !gap_told_q[session_i] || gap_step == '0 || gap_step[15];

  // What is written last holds.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      pending_q   <= '0;
      old_q       <= '0;
      many_q      <= '0;
      want_ack_q  <= '0;
      want_nack_q <= '0;
      gap_told_q  <= '0;
    end else begin
      if (ends) begin
        want_ack_q <= want_ack_q | old_q;
        old_q      <= pending_q;
      end
      if (ride_taken_i) begin
        pending_q[ride_session_i]  <= 1'b0;
        old_q[ride_session_i]      <= 1'b0;
        many_q[ride_session_i]     <= 1'b0;
        want_ack_q[ride_session_i] <= 1'b0;
      end
      if (sent_i) begin
        pending_q[sent_session_i]   <= 1'b0;
        old_q[sent_session_i]       <= 1'b0;
        many_q[sent_session_i]      <= 1'b0;
        want_ack_q[sent_session_i]  <= 1'b0;
        want_nack_q[sent_session_i] <= 1'b0;
      end
      if (taken_i) begin
        pending_q[session_i]   <= 1'b1;
        want_nack_q[session_i] <= 1'b0;
        gap_told_q[session_i]  <= 1'b0;
        if (!running_q) old_q[session_i] <= 1'b1;
        if (many) many_q[session_i] <= 1'b1;
        if (enough || ack_ticks_i == '0) want_ack_q[session_i] <= 1'b1;
      end
      if (again_i) want_ack_q[session_i] <= 1'b1;
      if (gap_i) begin
        gap_told_q[session_i] <= 1'b1;
        if (gap_new) want_nack_q[session_i] <= 1'b1;
      end
      if (reset_i) begin
        pending_q[reset_index_i]   <= 1'b0;
        old_q[reset_index_i]       <= 1'b0;
        many_q[reset_index_i]      <= 1'b0;
        want_ack_q[reset_index_i]  <= 1'b0;
        want_nack_q[reset_index_i] <= 1'b0;
        gap_told_q[reset_index_i]  <= 1'b0;
      end
    end
  end

  assign ride_pending_o = pending_q[ride_session_i] || want_ack_q[ride_session_i];
  assign ride_urgent_o  = old_q[ride_session_i] || many_q[ride_session_i] ||
      want_ack_q[ride_session_i];
  assign want_o = want_ack_q | want_nack_q;
  assign nack_o = want_nack_q;
  assign busy_o = running_q || want_o != '0;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_one :
      assert (32'(taken_i) + 32'(again_i) + 32'(gap_i) <= 1)
      else $error("more than one piece of news of a frame");
    end
  end
`endif
endmodule
