// SPDX-License-Identifier: Apache-2.0
// The next segment that a connection may send, if any.
//
// Latency : combinational, from registers of toe_controller.
// Source  : RFC 9293 section 3.8, RFC 5681, RFC 6298 section 5, RFC 2018 section 4, RFC 7323.
module toe_transmit
  import toe_pkg::*;
#(
  parameter int unsigned RxBytes = 65536,
  /// Largest segment that is received.
  parameter int unsigned Mss = 1460
) (
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

  logic [31:0] window, flight, unsent, room, mss, length, again, rx_window, rx_scaled;
  logic syn, open, fin_sent, fin_now, fin_again, worth, data, sack_first;

  function automatic logic [31:0] least(logic [31:0] a, logic [31:0] b);
    return a < b ? a : b;
  endfunction

  assign syn = conn_i.state == SynSent || conn_i.state == SynReceived;
  assign open = !syn && conn_i.state != Closed;
  assign window = least(conn_i.snd_wnd, conn_i.cwnd);
  assign flight = conn_i.snd_nxt - conn_i.snd_una;
  assign fin_sent = precedes(conn_i.snd_end, conn_i.snd_nxt);
  assign unsent = fin_sent ? '0 : conn_i.snd_end - conn_i.snd_nxt;
  assign room = window > flight ? window - flight : '0;
  assign mss = 32'(conn_i.mss) - (conn_i.times_ok ? TimesBytes : '0);
  assign length = least(least(unsent, room), mss);
  // Silly window avoidance: a full segment, or all there is, or nothing is under way.
  assign worth = length != '0 && (length == mss || length == unsent || flight == '0);
  assign fin_now = conn_i.fin_out && !fin_sent && open && length == unsent;
  assign sack_first = want_i.ack && |conn_i.gap_valid;
  assign data = open && !sack_first && (worth || fin_now);
  assign again = least(
      least(conn_i.snd_end - conn_i.snd_una, mss), conn_i.snd_max - conn_i.snd_una
  );
  assign fin_again = conn_i.fin_out && conn_i.snd_una + again == conn_i.snd_end && precedes(
      conn_i.snd_end, conn_i.snd_max
  );

  assign rx_window = conn_i.rcv_read + RxBytes - conn_i.rcv_nxt;
  assign rx_scaled = conn_i.scale_ok && !syn ? rx_window >> Scale : rx_window;

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
    order_o.window      = rx_scaled > 32'hFFFF ? 16'hFFFF : rx_scaled[15:0];
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
      order_o.bytes     = again[14:0];
      order_o.flags.fin = fin_again;
      conn_o.timing     = 1'b0;
    end else if (data) begin
      valid_o           = 1'b1;
      more_o            = 1'b1;
      want_o            = '0;
      order_o.bytes     = length[14:0];
      order_o.flags.psh = length == unsent && length != '0;
      order_o.flags.fin = fin_now;
      conn_o.snd_nxt    = conn_i.snd_nxt + length + 32'(fin_now);
      if (!conn_i.timing && conn_i.snd_nxt == conn_i.snd_max) begin
        conn_o.timing    = 1'b1;
        conn_o.timed_seq = conn_i.snd_nxt;
        conn_o.timed_at  = now_i;
      end
      if (precedes(conn_i.snd_max, conn_o.snd_nxt)) conn_o.snd_max = conn_o.snd_nxt;
    end else if (open && want_i.probe && unsent != '0) begin
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
    if (!conn_i.timer_on && open && unsent != '0 && flight == '0 && conn_i.snd_wnd == '0) begin
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
