// SPDX-License-Identifier: Apache-2.0
// The sender of sessions, small (2 sessions, 4 slots, short ticks), from reset on.
//
// A saturated sender or one of few frames, one peer, and a network that loses frames and replies as
// it likes; the session may be begun anew at any time, once.
//
// Promises: a slot is given back only when an acknowledgement beyond its frame came, or when its
// session ended; no more frames are in flight than the window; numbers have no gaps; a frame that
// is not acknowledged keeps its slot, and it is what goes out again under its number.
//
// With FAIR (of Losses + 1 copies of a frame one arrives, and of so many replies; the session
// stays): as long as frames are in flight, one of them is acknowledged within Bound cycles, and as
// long as new ones wait and none is in flight, one starts; the peer is never given up.
//
// With DEAF (the network loses what it likes, for ever; the session stays): the same, or the peer is
// given up and all its slots are free within Bound cycles.
//
// It does not do that one of two frames on the line arrives: that may always be the second one.
//
// Clock  : clk_i.
// Source : dissertation section 3.3.4.
module resend_proof
  import ipnuma_pkg::*;
  import resend_pkg::*;
  import wire_pkg::*;
#(
  parameter int unsigned Window = 3,
  parameter int unsigned Slots = 4,
  /// The time-out; a tick is 2 cycles.
  parameter int unsigned Ticks = 12,
  /// How often it is doubled at first, and for a long round trip; 0: not measured.
  parameter int unsigned Stretch = 0,
  /// Time-outs until the peer is lost.
  parameter int unsigned Limit = 255,
  /// The slowest pace; 0: none.
  parameter int unsigned Slowest = 14,
  /// New frames at most; 7: without an end.
  parameter int unsigned Frames = 7,
  /// With FAIR: copies of a frame, or replies, that are lost running.
  parameter int unsigned Losses = 1,
  /// With FAIR or DEAF: cycles without progress.
  parameter int unsigned Bound = 200
) (
  input logic       clk_i,
  /// New frames.
  input logic [2:0] frames_i,
  /// Number of the frame that is followed.
  input logic [2:0] which_i,
  /// The session is written once more.
  input logic       reset_i,
  /// What the network loses.
  input logic       lose_i,
  input logic       lose_reply_i
);
  logic begun_q, rst;
  initial begun_q = 1'b0;
  always_ff @(posedge clk_i) begun_q <= 1'b1;
  assign rst = !begun_q;

  // ---- The design ------------------------------------------------------------------------------
  logic [1:0] open, given_up, valid_q;
  logic start_q, resent_valid, lock, pop, ack_valid, reset;
  logic [31:0] start_number, resent_number;
  ack_t      ack;
  tx_frame_t resent_frame;

  resend #(
    .Sessions  (2),
    .SendSlots (Slots),
    .TickCycles(2)
  ) u_dut (
    .clk_i,
    .rst_i           (rst),
    .resend_ticks_i  (16'(Ticks)),
    .resend_limit_i  (8'(Limit)),
    .backoff_i       (4'd0),
    .stretch_i       (4'(Stretch)),
    .window_i        (8'(Window)),
    .pace_frames_i   (8'd1),
    .pace_up_i       (4'd3),
    .pace_max_i      (12'(Slowest)),
    .pace_down_i     (4'd0),
    .pace_ticks_i    (16'd40),
    .valid_i         (valid_q),
    .reset_i         (reset),
    .reset_index_i   (8'd0),
    .reset_start_i   ('0),
    .give_up_i       (1'b0),
    .open_o          (open),
    .lost_o          (given_up),
    .start_i         (start_q),
    .start_session_i (8'd0),
    .start_sequence_o(start_number),
    .copy_frame_we_i (start_q),
    .copy_frame_i    ('0),
    .copy_we_i       (1'b0),
    .copy_idx_i      ('0),
    .copy_word_i     ('0),
    .rs_valid_o      (resent_valid),
    .rs_frame_o      (resent_frame),
    .rs_sequence_o   (resent_number),
    .rs_lock_i       (lock),
    .pay_idx_i       ('0),
    .pay_word_o      (),
    .rs_pop_i        (pop),
    .ack_valid_i     (ack_valid),
    .ack_i           (ack),
    .refused_valid_i (1'b0),
    .refused_i       ('0),
    .mark_valid_i    (1'b0),
    .mark_session_i  ('0),
    .mark_cookie_i   ('0),
    .mark_ready_o    (),
    .event_valid_o   (),
    .event_o         (),
    .event_ready_i   (1'b1),
    .status_read_i   (1'b0),
    .status_index_i  ('0),
    .status_done_o   (),
    .status_o        (),
    .cnt_tx_timeout_o(),
    .busy_o          ()
  );

  // ---- The builder: a frame is 8 words; then anything may be next -------------------------------
  logic [3:0] word_q;  // 8: idle; word 0 is on the stream at 0
  logic again_q, again_next_q, idle, fire_new, fire_again, last;
  assign idle = word_q[3];
  // A frame is sent as soon as there is one, in turn; so many new ones as was chosen at first.
  logic [2:0] left_q;
  logic       more;
  assign more       = left_q != '0 && open[0];
  assign fire_again = idle && resent_valid && (again_next_q || !more);
  assign fire_new   = idle && !fire_again && more;
  always_ff @(posedge clk_i) begin
    if (rst) left_q <= frames_i > 3'(Frames) ? 3'(Frames) : frames_i;
    else if (fire_new && left_q != '1) left_q <= left_q - 1'b1;  // 7: without an end
  end
  assign last = word_q == 4'd7;
  assign lock = fire_again || (!idle && again_q);
  assign pop  = last && again_q;

  always_ff @(posedge clk_i) begin
    start_q <= 1'b0;
    if (rst) word_q <= 4'd8;
    else if (fire_new || fire_again) begin
      word_q       <= 4'd0;
      again_q      <= fire_again;
      again_next_q <= !fire_again;
      start_q      <= fire_new;
    end else if (!idle) word_q <= word_q + 1'b1;
  end

  // ---- Sessions and replies --------------------------------------------------------------------
  logic [2:0] ack_gap_q;  // a reply is a frame, too
`ifdef FAIR
  localparam bit Fair = 1'b1;
`else
  localparam bit Fair = 1'b0;
`endif
`ifdef DEAF
  localparam bit Begins = 1'b0;
`else
  localparam bit Begins = !Fair;
`endif
  logic once_q, twice_q, old_q, reply_q, reply_nack_q, lost, reply_lost;
  logic [31:0] expected_q, number, last_gap_q;
  logic            gap_q;
  logic [7:0][1:0] gone_q;  // by number: so many copies were lost running
  logic [1:0]      reply_gone_q;
  // The session is written first, and without FAIR at any time once more.
  assign reset      = begun_q && (!once_q || (Begins && !twice_q && reset_i));
  assign lost       = lose_i && !(Fair && gone_q[number[2:0]] == 2'(Losses));
  assign reply_lost = lose_reply_i && !(Fair && reply_gone_q == 2'(Losses));
  assign number     = again_q ? resent_number : start_number;
  always_comb begin
    ack                 = '0;
    ack.sequence_number = expected_q;
    ack.nack            = reply_nack_q;
  end
  assign ack_valid = reply_q && ack_gap_q == '0 && !reply_lost && !reset;

  always_ff @(posedge clk_i) begin
    if (rst) begin
      once_q       <= 1'b0;
      twice_q      <= 1'b0;
      old_q        <= 1'b0;
      gone_q       <= '0;
      reply_gone_q <= '0;
      reply_q      <= 1'b0;
      reply_nack_q <= 1'b0;
      expected_q   <= '0;
      gap_q        <= 1'b0;
      valid_q      <= '0;
      ack_gap_q    <= '0;
    end else begin
      if (ack_gap_q != '0) ack_gap_q <= ack_gap_q - 1'b1;
      if (reply_q && ack_gap_q == '0) begin
        reply_q      <= 1'b0;
        reply_nack_q <= 1'b0;
        if (Fair) reply_gone_q <= ack_valid ? '0 : reply_gone_q + 1'b1;
        ack_gap_q <= '1;
      end
      if (last) begin
        // The peer: in order, or before, or a gap, for which it asks once.
        if (Fair) gone_q[number[2:0]] <= lost ? gone_q[number[2:0]] + 1'b1 : '0;
        old_q <= 1'b0;
        if (!lost && !old_q) begin
          if (number == expected_q) begin
            expected_q <= expected_q + 1'b1;
            gap_q      <= 1'b0;
            reply_q    <= 1'b1;
          end else if (32'(number - expected_q) >= 32'h8000_0000) begin
            reply_q <= 1'b1;
          end else begin
            gap_q      <= 1'b1;
            last_gap_q <= number;
            if (!gap_q || number <= last_gap_q) begin
              reply_q      <= 1'b1;
              reply_nack_q <= 1'b1;
            end
          end
        end
      end
      if (reset) begin
        // The peer is written with it; what is under way is of before.
        once_q       <= 1'b1;
        twice_q      <= once_q;
        valid_q      <= 2'b01;
        old_q        <= fire_new || fire_again || (!idle && !last);
        expected_q   <= '0;
        gap_q        <= 1'b0;
        reply_q      <= 1'b0;
        reply_nack_q <= 1'b0;
      end
    end
  end

  // ---- What is promised: each session from the outside --------------------------------------------
  logic [1:0][31:0] una_q, nxt_q, highest_q;  // highest number ever acknowledged
  logic takes, starts, ends, ended;
  assign takes  = u_dut.step && !u_dut.is_dead;
  assign starts = u_dut.nxt_write && !u_dut.init;
  assign ends   = u_dut.init;
  assign ended  = given_up[0] && valid_q[0] && u_dut.u_slots.used_q == '0;

  // The frame that is followed.
  logic [2:0] which_q;
  logic watch_q, watch_session_q;
  logic [31:0] watch_number_q;
  logic [ 1:0] watch_slot_q;
  logic [ 9:0] age_q;

  always_ff @(posedge clk_i) begin
    if (rst) begin
      which_q   <= which_i;
      una_q     <= '0;
      nxt_q     <= '0;
      highest_q <= '0;
      watch_q   <= 1'b0;
    end else begin
      if (takes) una_q[u_dut.who_q] <= una_q[u_dut.who_q] + 1'b1;
      if (starts) nxt_q[u_dut.who_q] <= nxt_q[u_dut.who_q] + 1'b1;
      if (ends) begin
        una_q[u_dut.who_q] <= '0;
        nxt_q[u_dut.who_q] <= '0;
      end
      if (ack_valid && ack.sequence_number > highest_q[ack.session[0]]) begin
        highest_q[ack.session[0]] <= ack.sequence_number;
      end

      if (takes || ended || (una_q[0] == nxt_q[0] && (starts || left_q == '0))) age_q <= '0;
      else age_q <= age_q + 1'b1;
      if (watch_q) begin
        if (takes && u_dut.who_q == watch_session_q &&
            una_q[watch_session_q] == watch_number_q) begin
          watch_q <= 1'b0;
        end
      end else if (starts && nxt_q[u_dut.who_q] == {29'd0, which_q} &&
                   !u_dut.reset_q[u_dut.who_q]) begin
        watch_q         <= 1'b1;
        watch_session_q <= u_dut.who_q;
        watch_number_q  <= nxt_q[u_dut.who_q];
        watch_slot_q    <= u_dut.start_slot_q;
      end
      if (reset) watch_q <= 1'b0;
    end
  end

`ifdef DEAF
  always_ff @(posedge clk_i) begin
    if (begun_q && !rst) a_ends : assert (age_q < 10'(Bound));
  end
`elsif FAIR
  always_ff @(posedge clk_i) begin
    if (begun_q && !rst) begin
      a_delivered : assert (age_q < 10'(Bound));
      a_not_lost : assert (!(given_up[0] && valid_q[0]));
      a_in_window : assert (nxt_q[0] - una_q[0] <= 32'(Window));
    end
  end
`else
  always_ff @(posedge clk_i) begin
    if (begun_q && !rst) begin
      if (takes) begin
        a_una : assert (u_dut.state_q.una == una_q[u_dut.who_q]);
        a_acknowledged : assert (una_q[u_dut.who_q] < highest_q[u_dut.who_q]);
        a_in_flight : assert (una_q[u_dut.who_q] != nxt_q[u_dut.who_q]);
      end
      a_window : assert (nxt_q[0] - una_q[0] <= 32'(Window) && nxt_q[1] - una_q[1] <= 32'(Window));
      a_slots : assert (u_dut.u_slots.used_q <= 3'd4);
      if (u_dut.u_slots.free_i) a_taken : assert (u_dut.u_slots.used_q != '0);
      if (u_dut.u_slots.alloc_i) a_room : assert (u_dut.u_slots.used_q != 3'd4);
      if (watch_q) begin
        if (start_q) a_keeps : assert (u_dut.alloc_slot != watch_slot_q);
        if (u_dut.u_slots.free_i && !(takes && u_dut.who_q == watch_session_q &&
                                      una_q[watch_session_q] == watch_number_q) &&
            !(u_dut.is_dead && u_dut.who_q == watch_session_q)) begin
          a_not_freed : assert (u_dut.u_slots.free_slot_i != watch_slot_q);
        end
        if (lock && word_q == 4'd8 && u_dut.resent.session[0] == watch_session_q &&
            resent_number == watch_number_q) begin
          a_same_frame : assert (u_dut.resent.slot[1:0] == watch_slot_q);
        end
        if (starts && u_dut.who_q == watch_session_q) begin
          a_new_number : assert (nxt_q[watch_session_q] != watch_number_q);
        end
      end
      if (starts) a_number : assert (u_dut.sum_q == nxt_q[u_dut.who_q]);
    end
  end
`endif
endmodule
