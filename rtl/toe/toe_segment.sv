// SPDX-License-Identifier: Apache-2.0
// What a verified segment does to its connection.
//
// First the distances of its numbers from the connection's, then what follows from them alone, then the
// verdict: acceptable or not, reset, SYN, acknowledgement, payload into order or behind a hole, FIN.
//
// Latency : 2 edges from conn_i to what the verdict is made of, then conn_o and the rest are combinational;
//           conn_i and header_i stay until then.
// Clock   : clk_i.
// Drops   : payload that would need a fifth gap, payload outside the window.
// Source  : RFC 9293 section 3.10.7, RFC 5961, RFC 7323 section 5, RFC 2018, RFC 5681, RFC 6582.
module toe_segment
  import toe_pkg::*;
#(
  /// Bytes of a connection's receive buffer; a power of two.
  parameter int unsigned RxBytes = 65536,
  /// Payload out of order is kept.
  parameter bit Reassembly = 1'b1,
  /// Least timeout for a retransmission, and how long TIME-WAIT lasts, in microseconds.
  parameter int unsigned MinRtoUs = 200000,
  parameter int unsigned LingerUs = 60000000,
  localparam int unsigned WindowW = $clog2(RxBytes) + 1
) (
  input  logic           clk_i,
  input  us_t            now_i,
  input  conn_t          conn_i,
  input  header_t        header_i,
  output conn_t          conn_o,
  output want_t          want_o,
  /// More may be sent.
  output logic           send_o,
  output logic           opened_o,
  output logic           reset_o,
  output logic           changed_o,
  // Payload to place: first byte, counted from the segment's first one, and number.
  output logic    [31:0] skip_o,
  output logic    [31:0] bytes_o,
  output logic           cnt_paws_o,
  output logic           cnt_challenge_o,
  output logic           cnt_no_gap_o
);
  localparam us_t MinRto = us_t'(MinRtoUs);
  localparam us_t MaxRto = 32'd60000000;

  // ---- Distances -----------------------------------------------------------------------------------
  typedef struct packed {
    logic [31:0]           first;        // from rcv_nxt, signed
    logic [31:0]           behind;       // of the payload
    logic [31:0]           length;       // with SYN and FIN
    logic [31:0]           window;
    logic [Gaps-1:0][31:0] gap_first;
    logic [Gaps-1:0][31:0] gap_behind;
    logic                  old_time;
    logic                  new_time;
    logic [31:0]           acked;        // new bytes that it acknowledges, signed
    logic                  ack_ahead;    // it acknowledges what was not sent
    logic                  ack_old;
    logic                  window_news;
    logic [31:0]           peer_window;
    us_t                   round_trip;
  } distance_t;

  distance_t d, q;

  always_comb begin
    d.first  = header_i.seq - conn_i.rcv_nxt;
    d.behind = d.first + 32'(header_i.bytes);
    d.length = 32'(header_i.bytes) + 32'(header_i.flags.syn) + 32'(header_i.flags.fin);
    d.window = conn_i.rcv_read + RxBytes - conn_i.rcv_nxt;
    for (int unsigned i = 0; i < Gaps; i++) begin
      d.gap_first[i]  = conn_i.gaps[i].first - conn_i.rcv_nxt;
      d.gap_behind[i] = conn_i.gaps[i].behind - conn_i.rcv_nxt;
    end
    d.old_time = conn_i.times_ok && header_i.values.times_valid &&
        precedes(header_i.values.time_value, conn_i.time_recent);
    d.new_time = conn_i.times_ok && header_i.values.times_valid && !d.old_time &&
        !precedes(conn_i.last_ack, header_i.seq);
    d.acked = header_i.ack - conn_i.snd_una;
    d.ack_ahead = precedes(conn_i.snd_max, header_i.ack);
    d.ack_old = d.acked[31];
    d.window_news = precedes(conn_i.wl1, header_i.seq) ||
        (conn_i.wl1 == header_i.seq && !precedes(header_i.ack, conn_i.wl2));
    d.peer_window = header_i.flags.syn || !conn_i.scale_ok ? 32'(header_i.window) :
        32'(header_i.window) << conn_i.snd_scale;
    d.round_trip = now_i - conn_i.timed_at;
  end
  always_ff @(posedge clk_i) q <= d;

  // ---- What follows ----------------------------------------------------------------------------------
  typedef struct packed {
    logic              acceptable;
    logic              no_window;
    // Payload into the receive buffer; numbers count from rcv_nxt.
    logic [31:0] from;
    logic [31:0]       upto;
    logic [31:0]       merged_from;   // with the gaps that it touches
    logic [31:0]       merged_upto;
    logic [Gaps-1:0]   kept;
    logic              fresh;
    logic              in_order;
    logic              stored;
    logic              whole;
    // Acknowledgement.
    logic              news;
    logic              none;          // it acknowledges what was acknowledged
    logic              duplicate;
    logic              third;
    logic              partial;
    logic              ahead_nxt;     // of snd_nxt, which a timeout has taken back
    logic              timed;
    logic              all;
    logic              fin_acked;
    // Windows of congestion, by what the segment is.
    logic [31:0]       half;
    logic [31:0]       cwnd_third;
    logic [31:0]       cwnd_partial;
    logic [31:0]       cwnd_grown;
    logic              grows;
    us_t               srtt;
    us_t               rttvar;
  } weight_t;

  weight_t w, w_q;

  logic [31:0] last, mss, flight;
  logic [Gaps-1:0] touched, lowest, highest;
  logic slow;
  us_t  deviation;

  assign last = q.first + q.length - 1'b1;
  assign mss = 32'(conn_i.mss);
  assign flight = conn_i.snd_max - conn_i.snd_una;
  assign slow = conn_i.cwnd < conn_i.ssthresh;
  assign deviation = q.round_trip > conn_i.srtt ? q.round_trip - conn_i.srtt :
      conn_i.srtt - q.round_trip;

  always_comb begin
    w.no_window = q.window == '0;
    // A closed window is no reason to ignore what an in-order segment says beside its payload.
    w.acceptable = q.first < q.window || (q.length != '0 && last < q.window) ||
        (w.no_window && q.first == '0);

    w.from = q.first[31] ? '0 : q.first;
    w.upto = q.behind[31] ? '0 : (q.behind > q.window ? q.window : q.behind);
    for (int unsigned i = 0; i < Gaps; i++) begin
      touched[i] = conn_i.gap_valid[i] && q.gap_first[i] <= w.upto && q.gap_behind[i] >= w.from;
    end
    // The outermost of those that it touches, all compared with all at once.
    for (int unsigned i = 0; i < Gaps; i++) begin
      lowest[i]  = touched[i] && q.gap_first[i] < w.from;
      highest[i] = touched[i] && q.gap_behind[i] > w.upto;
      for (int unsigned k = 0; k < Gaps; k++) begin
        if (k != i && touched[k]) begin
          if (q.gap_first[k] < q.gap_first[i] || (k < i && q.gap_first[k] == q.gap_first[i]))
            lowest[i] = 1'b0;
          if (q.gap_behind[k] > q.gap_behind[i] || (k < i && q.gap_behind[k] == q.gap_behind[i]))
            highest[i] = 1'b0;
        end
      end
    end
    w.merged_from = |lowest ? '0 : w.from;
    w.merged_upto = |highest ? '0 : w.upto;
    for (int unsigned i = 0; i < Gaps; i++) begin
      if (lowest[i]) w.merged_from |= q.gap_first[i];
      if (highest[i]) w.merged_upto |= q.gap_behind[i];
    end
    w.fresh = w.upto > w.from;
    w.in_order = w.from == '0;
    w.stored = w.fresh && (w.in_order || (Reassembly && (|touched || !(&conn_i.gap_valid))));
    w.kept = conn_i.gap_valid & ~touched;
    // Nothing is missing before the segment's end, all of it found room, nothing is behind it.
    w.whole = w.in_order && q.behind <= q.window && highest == '0;

    w.news = !q.acked[31] && q.acked != '0 && !q.ack_ahead;
    w.none = q.acked == '0;
    w.duplicate = w.none && flight != '0 && header_i.bytes == '0 && !header_i.flags.fin &&
        q.peer_window == conn_i.snd_wnd;
    w.third = w.duplicate && conn_i.dups == 2'd2 && !conn_i.recovering &&
        !precedes(header_i.ack, conn_i.recover);
    w.partial = w.news && conn_i.recovering && precedes(header_i.ack, conn_i.recover);
    w.ahead_nxt = precedes(conn_i.snd_nxt, header_i.ack);
    w.timed = conn_i.timing && precedes(conn_i.timed_seq, header_i.ack);
    w.all = header_i.ack == conn_i.snd_max;
    w.fin_acked = conn_i.fin_out && header_i.ack == conn_i.snd_end + 1'b1 && !q.ack_ahead;

    w.half = flight >> 1 < mss << 1 ? mss << 1 : flight >> 1;
    w.cwnd_third = w.half + mss + (mss << 1);
    // RFC 6582: deflate by what was acknowledged, inflate by a segment.
    w.cwnd_partial = (conn_i.cwnd > q.acked ? conn_i.cwnd - q.acked : '0) + mss;
    // Slow start; else about a segment a round trip, without a division: the window is a number of segments.
    w.cwnd_grown = conn_i.cwnd +
        (slow ? (q.acked < mss ? q.acked : mss) : mss >> segments_log2(conn_i.cwnd));
    w.grows = slow || conn_i.cwnd[31:24] == '0;
    w.srtt = conn_i.measured ? conn_i.srtt - (conn_i.srtt >> 3) + (q.round_trip >> 3) :
        q.round_trip;
    w.rttvar = conn_i.measured ? conn_i.rttvar - (conn_i.rttvar >> 2) + (deviation >> 2) :
        q.round_trip >> 1;
  end
  always_ff @(posedge clk_i) w_q <= w;

  // ---- Payload into the receive buffer ---------------------------------------------------------------
  logic  [Gaps-1:0] shift;
  conn_t            placed;

  // A gap moves up if all before it stay.
  assign shift = {&w_q.kept[2:0], &w_q.kept[1:0], w_q.kept[0], 1'b0};

  always_comb begin
    placed = conn_i;
    if (w_q.stored && w_q.in_order) begin
      placed.rcv_nxt   = conn_i.rcv_nxt + w_q.merged_upto;
      placed.gap_valid = w_q.kept;
    end else if (w_q.stored) begin
      // The latest first (RFC 2018 section 4); the others move up to where one is gone.
      placed.gaps[0] = '{
          first: conn_i.rcv_nxt + w_q.merged_from,
          behind: conn_i.rcv_nxt + w_q.merged_upto
      };
      placed.gap_valid[0] = 1'b1;
      for (int unsigned i = 1; i < Gaps; i++) begin
        if (shift[i]) placed.gaps[i] = conn_i.gaps[i-1];
        placed.gap_valid[i] = shift[i] ? w_q.kept[i-1] : w_q.kept[i];
      end
    end
  end

  // ---- Acknowledgement -----------------------------------------------------------------------------
  conn_t answered;
  us_t   rto;

  assign rto = w_q.srtt + (w_q.rttvar << 2);

  always_comb begin
    answered = placed;
    if (w_q.news) begin
      answered.snd_una = header_i.ack;
      if (w_q.ahead_nxt) answered.snd_nxt = header_i.ack;
      answered.dups  = '0;
      answered.tries = '0;
      if (w_q.timed) begin
        answered.timing   = 1'b0;
        answered.measured = 1'b1;
        answered.srtt     = w_q.srtt;
        answered.rttvar   = w_q.rttvar;
        answered.rto      = rto < MinRto ? MinRto : rto > MaxRto ? MaxRto : rto;
      end
      answered.timer_on = !w_q.all;
      answered.timer_at = now_i + answered.rto;
      if (w_q.partial) begin
        answered.cwnd = w_q.cwnd_partial;
      end else if (conn_i.recovering) begin
        answered.recovering = 1'b0;
        answered.cwnd       = conn_i.ssthresh;
      end else if (w_q.grows) begin
        answered.cwnd = w_q.cwnd_grown;
      end
    end else if (w_q.duplicate) begin
      if (conn_i.dups != 2'd3) answered.dups = conn_i.dups + 1'b1;
      if (w_q.third) begin
        answered.recovering = 1'b1;
        answered.recover    = conn_i.snd_max;
        answered.ssthresh   = w_q.half;
        answered.cwnd       = w_q.cwnd_third;
        answered.timing     = 1'b0;
      end else if (conn_i.recovering) begin
        answered.cwnd = conn_i.cwnd + 32'(conn_i.mss);
      end
    end
    if (!q.ack_ahead && !q.ack_old && q.window_news) begin
      answered.snd_wnd = q.peer_window;
      answered.wl1     = header_i.seq;
      answered.wl2     = header_i.ack;
    end
    if (q.new_time) answered.time_recent = header_i.values.time_value;
  end

  /// Rounds a window of full segments of about 1 KiB to a power of two.
  function automatic logic [4:0] segments_log2(logic [31:0] bytes);
    logic [4:0] out;
    out = '0;
    for (int unsigned i = 11; i < 24; i++) if (bytes[i]) out = 5'(i - 10);
    return out;
  endfunction

  // ---- The verdict ---------------------------------------------------------------------------------
  logic fin, receives, challenge, paws, syn_answer, syn_crossing;
  state_e state;
  assign fin = header_i.flags.fin && w_q.whole && !w_q.no_window;
  assign receives     = conn_i.state == Established || conn_i.state == FinWait1 ||
      conn_i.state == FinWait2;
  assign paws = q.old_time && !header_i.flags.rst;
  assign syn_answer = header_i.flags.syn && header_i.flags.ack && w_q.news;
  assign syn_crossing = header_i.flags.syn && !header_i.flags.ack;

  // The state after the acknowledgement and before the FIN.
  always_comb begin
    state = conn_i.state;
    unique case (conn_i.state)
      SynReceived: state = conn_i.fin_out ? FinWait1 : Established;
      FinWait1: if (w_q.fin_acked) state = FinWait2;
      Closing: if (w_q.fin_acked) state = TimeWait;
      LastAck: if (w_q.fin_acked) state = Closed;
      default: ;
    endcase
  end

  always_comb begin
    conn_o          = conn_i;
    want_o          = '0;
    send_o          = 1'b0;
    opened_o        = 1'b0;
    reset_o         = 1'b0;
    changed_o       = 1'b0;
    skip_o          = '0;
    bytes_o         = '0;
    cnt_paws_o      = 1'b0;
    cnt_challenge_o = 1'b0;
    cnt_no_gap_o    = 1'b0;
    challenge       = 1'b0;
    if (conn_i.state == SynSent) begin
      if (header_i.flags.ack && (q.ack_ahead || q.acked[31] || w_q.none)) begin
        want_o.reset = !header_i.flags.rst;
      end else if (header_i.flags.rst) begin
        if (header_i.flags.ack) begin
          conn_o.state = Closed;
          reset_o      = 1'b1;
          changed_o    = 1'b1;
        end
      end else if (syn_answer || syn_crossing) begin
        conn_o             = syn_answer ? answered : conn_i;
        conn_o.gap_valid   = '0;
        conn_o.state       = syn_answer ? Established : SynReceived;
        conn_o.rcv_nxt     = header_i.seq + 1'b1;
        conn_o.rcv_read    = header_i.seq + 1'b1;
        conn_o.last_ack    = header_i.seq;
        conn_o.times_ok    = header_i.values.times_valid;
        conn_o.time_recent = header_i.values.time_value;
        conn_o.sack_ok     = header_i.values.sack_ok;
        conn_o.scale_ok    = header_i.values.scale_valid;
        conn_o.snd_scale   = header_i.values.scale;
        conn_o.snd_wnd     = 32'(header_i.window);
        conn_o.wl1         = header_i.seq;
        conn_o.wl2         = header_i.ack;
        if (header_i.values.mss_valid && header_i.values.mss < conn_i.mss) begin
          conn_o.mss = header_i.values.mss < 16'd64 ? 16'd64 : header_i.values.mss;
        end
        opened_o      = syn_answer;
        changed_o     = 1'b1;
        want_o.ack    = syn_answer;
        want_o.resend = syn_crossing;
        send_o        = 1'b1;
      end
    end else if (!w_q.acceptable || paws) begin
      want_o.ack = !header_i.flags.rst;
      cnt_paws_o = paws;
    end else if (header_i.flags.rst) begin
      // RFC 5961 section 3: only the very next number resets.
      challenge = q.first != '0;
      if (!challenge) begin
        conn_o.state = Closed;
        reset_o      = 1'b1;
        changed_o    = 1'b1;
      end
    end else if (header_i.flags.syn) begin
      challenge = 1'b1;
    end else if (header_i.flags.ack && q.ack_ahead) begin
      // RFC 5961 section 5, and RFC 9293 for a connection that is not open yet.
      want_o.reset = conn_i.state == SynReceived;
      want_o.ack   = conn_i.state != SynReceived;
    end else if (header_i.flags.ack && !(conn_i.state == SynReceived && !w_q.news)) begin
      conn_o        = answered;
      conn_o.state  = state;
      opened_o      = conn_i.state == SynReceived;
      want_o.resend = w_q.third || w_q.partial;
      send_o        = 1'b1;
      changed_o     = w_q.news;
      if (!receives && conn_i.state != SynReceived) begin
        conn_o.rcv_nxt   = conn_i.rcv_nxt;
        conn_o.gap_valid = conn_i.gap_valid;
      end else begin
        if (w_q.stored) begin
          skip_o    = w_q.from - q.first;
          bytes_o   = w_q.upto - w_q.from;
          changed_o = 1'b1;
        end
        cnt_no_gap_o = w_q.fresh && !w_q.stored;
        if (header_i.bytes != '0) begin
          // At once if something is missing, was missing, or two segments are owed (RFC 5681).
          want_o.ack = !w_q.stored || !w_q.in_order || |conn_i.gap_valid || conn_i.owed != '0;
          if (conn_i.owed == '0) conn_o.owed_since = now_i;
          conn_o.owed = 2'd1;
        end
        if (fin) begin
          conn_o.rcv_nxt = placed.rcv_nxt + 1'b1;
          want_o.ack     = 1'b1;
          changed_o      = 1'b1;
          unique case (state)
            FinWait1: conn_o.state = Closing;
            FinWait2: conn_o.state = TimeWait;
            default:  conn_o.state = CloseWait;
          endcase
        end
      end
      if (conn_o.state == TimeWait) begin
        conn_o.timer_on = 1'b1;
        conn_o.timer_at = now_i + us_t'(LingerUs);
      end
      if (conn_o.state != conn_i.state) changed_o = 1'b1;
    end
    if (challenge) begin
      want_o.ack      = 1'b1;
      cnt_challenge_o = 1'b1;
    end
  end

  // Of the window only so many bits can differ from zero.
  logic unused;
  assign unused = ^{header_i, WindowW[0]};
endmodule
