// SPDX-License-Identifier: Apache-2.0
// What a command of the application does to a connection, and how a connection begins.
//
// Latency : combinational, from registers of toe_controller.
// Source  : RFC 9293 sections 3.9.1 and 3.10, RFC 5681 section 3.1, RFC 6298 section 2.
module toe_command
  import toe_pkg::*;
#(
  parameter int unsigned RxBytes = 65536,
  parameter int unsigned Mss = 1460,
  /// First timeout for a retransmission, in microseconds.
  parameter int unsigned FirstRtoUs = 1000000
) (
  input  us_t      now_i,
  /// A SYN begins the connection, else the command acts.
  input  logic     accept_i,
  input  header_t  header_i,
  input  command_t command_i,
  input  seq_t     isn_i,
  input  conn_t    conn_i,
  output conn_t    conn_o,
  output want_t    want_o,
  output logic     send_o,
  output logic     changed_o
);
  // Fallback of RFC 9293 MUST-15.
  localparam logic [15:0] DefaultMss = 16'd536;

  conn_t fresh;
  logic [15:0] offered, peer_mss;
  logic [31:0] window;

  assign offered  = header_i.values.mss_valid ? header_i.values.mss : DefaultMss;
  assign peer_mss = offered < 16'd64 ? 16'd64 : offered > 16'(Mss) ? 16'(Mss) : offered;
  assign window   = conn_i.rcv_read + RxBytes - conn_i.rcv_nxt;

  always_comb begin
    fresh             = '0;
    fresh.state       = accept_i ? SynReceived : SynSent;
    fresh.passive     = accept_i;
    fresh.mac         = accept_i ? header_i.src_mac : command_i.mac;
    fresh.ip          = accept_i ? header_i.src_ip : command_i.ip;
    fresh.peer_port   = accept_i ? header_i.src_port : command_i.peer_port;
    fresh.local_port  = accept_i ? header_i.dst_port : command_i.local_port;
    fresh.rcv_nxt     = header_i.seq + 1'b1;
    fresh.rcv_read    = header_i.seq + 1'b1;
    fresh.last_ack    = header_i.seq;
    fresh.times_ok    = accept_i ? header_i.values.times_valid : 1'b1;
    fresh.time_recent = header_i.values.time_value;
    fresh.sack_ok     = accept_i ? header_i.values.sack_ok : 1'b1;
    fresh.scale_ok    = accept_i ? header_i.values.scale_valid : 1'b1;
    fresh.snd_scale   = header_i.values.scale;
    fresh.mss         = accept_i ? peer_mss : 16'(Mss);
    fresh.snd_una     = isn_i;
    fresh.snd_nxt     = isn_i + 1'b1;
    fresh.snd_max     = isn_i + 1'b1;
    fresh.snd_end     = isn_i + 1'b1;
    fresh.snd_wnd     = 32'(header_i.window);
    fresh.wl1         = header_i.seq;
    fresh.wl2         = isn_i;
    fresh.cwnd        = 32'(fresh.mss) << 2;
    fresh.ssthresh    = '1;
    fresh.recover     = isn_i;
    fresh.rto         = us_t'(FirstRtoUs);
    fresh.timing      = 1'b1;
    fresh.timed_seq   = isn_i;
    fresh.timed_at    = now_i;
  end

  always_comb begin
    conn_o    = conn_i;
    want_o    = '0;
    send_o    = 1'b0;
    changed_o = 1'b0;
    if (accept_i || command_i.kind == Connect) begin
      conn_o        = fresh;
      want_o.resend = 1'b1;
      send_o        = 1'b1;
      changed_o     = !accept_i;
    end else begin
      unique case (command_i.kind)
        Close: begin
          send_o         = 1'b1;
          conn_o.fin_out = 1'b1;
          unique case (conn_i.state)
            SynSent: conn_o.state = Closed;
            SynReceived: ;
            Established: conn_o.state = FinWait1;
            CloseWait: conn_o.state = LastAck;
            default: conn_o.fin_out = conn_i.fin_out;
          endcase
          changed_o = 1'b1;
        end
        Abort: begin
          want_o.reset = conn_i.state != Closed && conn_i.state != SynSent &&
              conn_i.state != TimeWait;
          conn_o.state = Closed;
          changed_o = 1'b1;
        end
        Read: begin
          conn_o.rcv_read = conn_i.rcv_read + command_i.amount;
          // The window opens again when it is worth a segment (RFC 9293 section 3.8.6.2.2).
          want_o.ack      = window < 32'(Mss) && window + command_i.amount >= 32'(Mss);
          send_o          = want_o.ack;
        end
        Write: begin
          send_o = conn_i.state != Closed && !conn_i.fin_out;
          if (send_o) conn_o.snd_end = conn_i.snd_end + command_i.amount;
        end
        default: ;
      endcase
    end
  end

  // Not every field of a header and a command says something here.
  logic unused;
  assign unused = ^{header_i, command_i};
endmodule
