// SPDX-License-Identifier: Apache-2.0
// What time does to a connection: delayed acknowledgement, retransmission, probe, TIME-WAIT.
//
// Latency : combinational, from registers of toe_controller.
// Source  : RFC 6298 section 5, RFC 5681 section 3.1, RFC 9293 section 3.8.
module toe_timer
  import toe_pkg::*;
#(
  /// Longest delay of an acknowledgement, in microseconds.
  parameter int unsigned DelayUs = 50,
  /// Retransmissions before a connection is given up.
  parameter int unsigned MaxTries = 12
) (
  input  us_t   now_i,
  input  conn_t conn_i,
  output conn_t conn_o,
  output want_t want_o,
  output logic  send_o,
  output logic  reset_o,
  output logic  changed_o,
  output logic  cnt_timeout_o
);
  localparam us_t MaxRto = 32'd60000000;

  logic due, owes, probing;
  logic [31:0] flight, half, mss;
  assign due     = conn_i.timer_on && !precedes(now_i, conn_i.timer_at) && conn_i.state != Closed;
  assign owes    = conn_i.owed != '0 && now_i - conn_i.owed_since >= us_t'(DelayUs);
  assign flight  = conn_i.snd_max - conn_i.snd_una;
  assign mss     = 32'(conn_i.mss);
  assign half    = flight >> 1 < mss << 1 ? mss << 1 : flight >> 1;
  assign probing = conn_i.snd_wnd == '0 && conn_i.state != SynSent && conn_i.state != SynReceived;

  always_comb begin
    conn_o        = conn_i;
    want_o        = '0;
    want_o.ack    = owes && conn_i.state != Closed;
    send_o        = want_o.ack;
    reset_o       = 1'b0;
    changed_o     = 1'b0;
    cnt_timeout_o = 1'b0;
    if (due && conn_i.state == TimeWait) begin
      conn_o.state    = Closed;
      conn_o.timer_on = 1'b0;
      changed_o       = 1'b1;
    end else if (due && conn_i.tries == 4'(MaxTries)) begin
      conn_o.state    = Closed;
      conn_o.timer_on = 1'b0;
      reset_o         = 1'b1;
      changed_o       = 1'b1;
    end else if (due) begin
      cnt_timeout_o     = 1'b1;
      // A peer that answers with a closed window is alive.
      conn_o.tries      = probing ? conn_i.tries : conn_i.tries + 1'b1;
      conn_o.rto        = conn_i.rto >= MaxRto >> 1 ? MaxRto : conn_i.rto << 1;
      conn_o.timer_at   = now_i + conn_o.rto;
      conn_o.timing     = 1'b0;
      conn_o.recovering = 1'b0;
      conn_o.dups       = '0;
      conn_o.recover    = conn_i.snd_max;
      conn_o.snd_nxt    = conn_i.snd_una;
      if (!probing) begin
        conn_o.ssthresh = half;
        conn_o.cwnd     = mss;
      end
      want_o.probe  = probing;
      want_o.resend = !probing && (conn_i.state == SynSent || conn_i.state == SynReceived);
      send_o        = 1'b1;
    end
  end
endmodule
