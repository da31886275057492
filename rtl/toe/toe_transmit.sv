// SPDX-License-Identifier: Apache-2.0
// The next segment that a connection may send, if any.
//
// First distances, then how much, then the segment.
//
// Latency : 2 edges from conn_i and want_i, which stay; from then on combinational.
// Clock   : clk_i.
// Source  : RFC 9293 section 3.8, RFC 5681, RFC 6298 section 5, RFC 2018 section 4, RFC 7323.
module toe_transmit
  import toe_pkg::*;
#(
  parameter int unsigned RxBytes = 65536,
  /// Largest segment that is received.
  parameter int unsigned Mss = 1460
) (
  input  logic     clk_i,
  input  us_t      now_i,
  input  conn_id_t id_i,
  input  conn_t    conn_i,
  input  want_t    want_i,
  output conn_t    conn_o,
  output order_t   order_o,
  output logic     valid_o,
  /// Another one may follow.
  output logic     more_o,
  /// Wishes that remain.
  output want_t    want_o
);
  localparam int unsigned WindowW = $clog2(RxBytes) + 1;
  localparam int unsigned Scale = WindowW > 16 ? WindowW - 16 : 0;
  localparam logic [31:0] TimesBytes = 32'd12;

  function automatic logic [31:0] least(logic [31:0] a, logic [31:0] b);
    return a < b ? a : b;
  endfunction

  // ---- Distances -----------------------------------------------------------------------------------
  logic [31:0] window_q, flight_q, rest, unsent_q, mss_q, old_q, sent_q, rx_window, rx_scaled;
  logic syn, open, past, fin_sent_q;

  assign syn       = conn_i.state == SynSent || conn_i.state == SynReceived;
  assign open      = !syn && conn_i.state != Closed;
  assign past      = precedes(conn_i.snd_end, conn_i.snd_nxt);
  assign rest      = conn_i.snd_end - conn_i.snd_nxt;
  assign rx_window = conn_i.rcv_read + RxBytes - conn_i.rcv_nxt;
  assign rx_scaled = conn_i.scale_ok && !syn ? rx_window >> Scale : rx_window;
  always_ff @(posedge clk_i) begin
    window_q   <= least(conn_i.snd_wnd, conn_i.cwnd);
    flight_q   <= conn_i.snd_nxt - conn_i.snd_una;
    fin_sent_q <= past;
    unsent_q   <= past ? '0 : rest;
    mss_q      <= 32'(conn_i.mss) - (conn_i.times_ok ? TimesBytes : '0);
    old_q      <= conn_i.snd_end - conn_i.snd_una;
    sent_q     <= conn_i.snd_max - conn_i.snd_una;
  end

  // ---- How much ------------------------------------------------------------------------------------
  logic [31:0] room, length_d, length_q, again_d;
  logic [14:0] again_q;
  logic [15:0] told_window_q;
  logic worth_q, fin_now_q, fin_again_q, sack_first, data;

  assign room       = window_q > flight_q ? window_q - flight_q : '0;
  assign length_d   = least(least(unsent_q, room), mss_q);
  assign again_d    = least(least(old_q, mss_q), sent_q);
  assign sack_first = want_i.ack && |conn_i.gap_valid;
  always_ff @(posedge clk_i) begin
    length_q <= length_d;
    again_q <= again_d[14:0];
    // Silly window avoidance: a full segment, or all there is, or nothing is under way.
    worth_q <= length_d != '0 && (length_d == mss_q || length_d == unsent_q || flight_q == '0);
    fin_now_q <= conn_i.fin_out && !fin_sent_q && open && length_d == unsent_q;
    // The last byte that was given goes again, and the FIN had gone behind it.
    fin_again_q <= conn_i.fin_out && again_d == old_q && precedes(old_q, sent_q);
    told_window_q <= rx_scaled > 32'hFFFF ? 16'hFFFF : rx_scaled[15:0];
  end

  // ---- The segment ---------------------------------------------------------------------------------
  assign data = open && !sack_first && (worth_q || fin_now_q);

  always_comb begin
    order_o             = '0;
    order_o.mac         = conn_i.mac;
    order_o.ip          = conn_i.ip;
    order_o.peer_port   = conn_i.peer_port;
    order_o.local_port  = conn_i.local_port;
    order_o.conn        = id_i;
    order_o.seq         = conn_i.snd_nxt;
    order_o.ack         = conn_i.rcv_nxt;
    order_o.flags.ack   = conn_i.state != SynSent;
    order_o.window      = told_window_q;
    order_o.times_valid = conn_i.times_ok;
    order_o.time_value  = now_i >> 10;
    order_o.time_echo   = conn_i.state == SynSent ? '0 : conn_i.time_recent;
    conn_o              = conn_i;
    want_o              = want_i;
    valid_o             = 1'b0;
    more_o              = 1'b0;
    if (syn) begin
      valid_o             = want_i.resend;
      want_o              = '0;
      order_o.seq         = conn_i.snd_una;
      order_o.flags.syn   = 1'b1;
      order_o.mss_valid   = 1'b1;
      order_o.mss         = 16'(Mss);
      order_o.scale_valid = conn_i.scale_ok;
      order_o.scale       = 4'(Scale);
      order_o.sack_ok     = conn_i.sack_ok;
      conn_o.snd_nxt      = conn_i.snd_una + 1'b1;
      conn_o.snd_max      = conn_i.snd_una + 1'b1;
    end else if (open && want_i.resend && conn_i.snd_una != conn_i.snd_max) begin
      valid_o           = 1'b1;
      more_o            = 1'b1;
      want_o.resend     = 1'b0;
      order_o.seq       = conn_i.snd_una;
      order_o.bytes     = again_q;
      order_o.flags.fin = fin_again_q;
      conn_o.timing     = 1'b0;
    end else if (data) begin
      valid_o           = 1'b1;
      more_o            = 1'b1;
      want_o            = '0;
      order_o.bytes     = length_q[14:0];
      order_o.flags.psh = length_q == unsent_q && length_q != '0;
      order_o.flags.fin = fin_now_q;
      conn_o.snd_nxt    = conn_i.snd_nxt + length_q + 32'(fin_now_q);
      if (!conn_i.timing && conn_i.snd_nxt == conn_i.snd_max) begin
        conn_o.timing    = 1'b1;
        conn_o.timed_seq = conn_i.snd_nxt;
        conn_o.timed_at  = now_i;
      end
      if (precedes(conn_i.snd_max, conn_o.snd_nxt)) conn_o.snd_max = conn_o.snd_nxt;
    end else if (open && want_i.probe && unsent_q != '0) begin
      valid_o        = 1'b1;
      want_o         = '0;
      order_o.bytes  = 15'd1;
      conn_o.snd_nxt = conn_i.snd_nxt + 1'b1;
      if (precedes(conn_i.snd_max, conn_o.snd_nxt)) conn_o.snd_max = conn_o.snd_nxt;
    end else begin
      valid_o     = open && want_i.ack;
      more_o      = sack_first;
      want_o      = '0;
      // Not snd_nxt, which a timeout takes back: the peer has more, and would find the number old and
      // not look at the acknowledgement.
      order_o.seq = conn_i.snd_max;
      if (conn_i.sack_ok) begin
        order_o.sack       = conn_i.gaps;
        order_o.sack_valid = conn_i.gap_valid;
        // Beside time stamps there is room for three: the oldest goes.
        if (conn_i.times_ok && &conn_i.gap_valid) order_o.sack_valid[Gaps-1] = 1'b0;
      end
    end
    // A closed window is asked about as if the question had been lost before (RFC 9293 section 3.8.6.1).
    if (!conn_i.timer_on && open && unsent_q != '0 && flight_q == '0 && conn_i.snd_wnd == '0) begin
      conn_o.timer_on = 1'b1;
      conn_o.timer_at = now_i + conn_i.rto;
    end
    if (valid_o) begin
      if (order_o.bytes != '0 || order_o.flags.syn || order_o.flags.fin) begin
        conn_o.timer_on = 1'b1;
        if (!conn_i.timer_on || want_i.resend) conn_o.timer_at = now_i + conn_i.rto;
      end
      conn_o.owed     = '0;
      conn_o.last_ack = conn_i.rcv_nxt;
    end
  end
endmodule
