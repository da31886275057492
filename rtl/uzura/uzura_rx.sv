// SPDX-License-Identifier: Apache-2.0
// Receiver: judges the packet at the head of the buffer, places its payload, completes what it ends,
// and says what is owed for it. Both the responder and the requester's half that reads answers.
//
// A packet is judged, placed and answered before the next one is looked at: what it changes it changes
// once, and in the order of its PSN. Where a queue's buffers have several segments, part after part of
// the payload is asked for and placed; if one may not be, those before it stay placed.
//
// Latency   : docs/uzura.md, locked by the bench.
// Clock     : clk_i.
// Handshake : valid/ready towards everything.
// Drops     : packets for no QP (CntRxNoQp), out of order, repeated, or answers to nothing; counted.
// Source    : InfiniBand Architecture Specification, 9.7.
module uzura_rx
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
  import uzura_rx_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic        [        31:0] now_us_i,
  input  logic                       stop_i,
  output logic                       idle_o,
  input  packet_t                    head_i,
  input  logic                       head_valid_i,
  output logic                       head_take_o,
  // State of the QP.
  output logic        [     QpW-1:0] qp_o,
  output logic                       acquire_o,
  input  logic                       granted_i,
  input  cfg_t                       cfg_i,
  input  ctx_t                       ctx_i,
  output logic                       release_o,
  output logic                       write_o,
  output ctx_t                       ctx_o,
  input  logic                       released_i,
  output logic        [QpW+OutW-1:0] sent_addr_o,
  input  sent_t                      sent_i,
  input  logic        [        15:0] rq_index_i,
  /// The next entry of the shared receive queue of cfg_i, if it has one, from the state Judge on.
  input  srq_t                       srq_i,
  output logic                       srq_take_o,
  output logic        [  PlaceW-1:0] srq_link_o,
  /// The requester has news of this QP.
  output logic                       kick_o,
  // Host memory.
  output logic                       resolve_start_o,
  output access_t                    resolve_o,
  input  logic                       resolve_done_i,
  input  logic                       resolve_ok_i,
  input  logic        [        63:0] first_pa_i,
  output logic                       end_o,
  output logic        [        31:0] end_key_o,
  output logic        [        15:0] end_pd_o,
  output logic                       place_start_o,
  output logic                       place_word_o,
  /// Bytes of the payload that lie before what is placed.
  output logic        [        12:0] place_from_o,
  output logic        [        63:0] place_data_o,
  input  logic                       place_done_i,
  output rd_req_t                    m_rd_o,
  output logic                       m_rd_valid_o,
  input  logic                       m_rd_ready_i,
  input  rd_data_t                   s_rd_i,
  input  logic                       s_rd_valid_i,
  output owe_t                       owe_o,
  output logic                       owe_valid_o,
  input  logic                       owe_ready_i,
  output completion_t                cqe_o,
  output logic                       cqe_valid_o,
  input  logic                       cqe_ready_i,
  output logic                       cnt_packet_o,
  output logic                       cnt_no_qp_o,
  output logic                       cnt_duplicate_o,
  output logic                       cnt_sequence_o,
  output logic                       cnt_invalid_o,
  output logic                       cnt_access_o,
  output logic                       cnt_operation_o,
  output logic                       cnt_not_ready_o,
  output logic                       cnt_ghost_o,
  output logic                       cnt_rewind_o,
  output logic                       cnt_congestion_o
);
  localparam int unsigned GrhBytes = 40;  // in front of UD messages
  // Where the length of the first one of several segments is in a send queue's entry, and all behind it.
  localparam int unsigned ListFrom = 56;
  localparam rights_t NeedLocal = 4'b0001;
  localparam rights_t NeedWrite = 4'b0010;
  localparam rights_t NeedRead = 4'b0100;
  localparam rights_t NeedAtomic = 4'b1000;


  state_e                state_q;
  packet_t               p;  // the head, from the edge on at which it is begun with
  logic        [QpW-1:0] qp_q;
  ctx_t                  ctx_q;
  sent_t                 sent_q;  // 2 edges behind its address
  rqe_t                  rqe_q;
  owe_t                  owe_q;
  completion_t           cqe_q;
  logic do_owe_q, do_cqe_q, write_q, kick_q, requester_q, gap_q, progress_q, retire_q;
  logic [23:0] target_q;
  logic [63:0] before_q;  // what an atomic found
  logic [ 2:0] look_q;
  logic second_word_q, looked_q, placing_q;
  logic        list_end_q;  // the entry has come
  logic        segment_last_q;
  logic        listed_q;  // what is placed has several segments
  logic        took_q;  // an entry of the receive queue
  logic        broken_q;  // the entry could not be read
  logic        several_q;  // an entry has several segments
  logic [ 2:0] most_q;  // of its segments
  logic [63:0] after_atomic;

  // ---- The packet -------------------------------------------------------------------------------
  // What it is, is registered with it: the buffer's memory and the decoding cost no decision time.
  logic send, write, read, atomic, first, last, imm, inv, response, read_response, ud;
  logic head_send, head_write, head_read, head_atomic, head_first, head_last, head_imm, head_inv;
  logic head_response, head_read_response, head_ud;
  uzura_decode u_decode (
    .opcode_i       (head_i.opcode),
    .send_o         (head_send),
    .write_o        (head_write),
    .read_o         (head_read),
    .atomic_o       (head_atomic),
    .first_o        (head_first),
    .last_o         (head_last),
    .imm_o          (head_imm),
    .inv_o          (head_inv),
    .response_o     (head_response),
    .read_response_o(head_read_response),
    .ud_o           (head_ud)
  );
  always_ff @(posedge clk_i) begin
    if (state_q == Idle) begin
      p             <= head_i;
      send          <= head_send;
      write         <= head_write;
      read          <= head_read;
      atomic        <= head_atomic;
      first         <= head_first;
      last          <= head_last;
      imm           <= head_imm;
      inv           <= head_inv;
      response      <= head_response;
      read_response <= head_read_response;
      ud            <= head_ud;
    end
  end

  logic [12:0] mtu;
  logic known, fits, in_sequence, begins, needs_rqe, rq_empty, permitted;
  rights_t granted;
  assign mtu = mtu_bytes(cfg_i.mtu);
  assign known = p.qpn < 24'(Qps) && cfg_i.state inside {QpRtr, QpRts} && cfg_i.ud == ud &&
      (ud ? p.key == cfg_i.qkey : p.path.ip == cfg_i.ip);
  // Packets that are not the last are full, the last one of several is not empty.
  assign fits = last ? p.bytes <= mtu && (first || p.bytes != '0) : p.bytes == mtu;
  assign begins = first || read || atomic;
  assign in_sequence = begins ? ctx_q.message == NoMessage :
      ctx_q.message == (send ? InSend : InWrite);
  assign needs_rqe = ud || (send && first) || (write && imm);
  assign rq_empty = cfg_i.has_srq ? srq_i.empty : ctx_q.rq_next == rq_index_i;
  assign granted = rights_t'(cfg_i.rights);
  assign permitted = write ? granted.remote_write : read ? granted.remote_read :
      atomic ? granted.remote_atomic : 1'b1;

  // ---- Replies of atomics -------------------------------------------------------------------------
  replay_t replay;
  logic    replay_write;
  assign replay_write = state_q == Update && atomic;
  ram_1r1w #(
    .data_t(replay_t),
    .Depth (Qps * Replays)
  ) u_replays (
    .clk_i,
    .we_i   (replay_write),
    .waddr_i({qp_q, ctx_q.replay_next}),
    .wdata_i('{psn: p.psn, value: before_q}),
    .re_i   (1'b1),
    .raddr_i({qp_q, look_q[1:0]}),
    .rdata_o(replay)
  );

  // ---- What comes back ----------------------------------------------------------------------------
  logic [23:0] from_una, sent_left;
  logic ghost, is_nak, is_rnr, entry_waits, entry_ends, read_last, answer_fits;
  logic [31:0] read_off, read_rest;
  assign from_una = p.psn - ctx_q.una_psn;
  assign ghost = from_una >= 24'(ctx_q.max_psn - ctx_q.una_psn) || ctx_q.error;
  assign is_rnr = p.opcode == RcAcknowledge && p.syndrome[7:5] == SynRnr;
  assign is_nak = p.opcode == RcAcknowledge && p.syndrome[7:5] == SynNakSequence[7:5];
  assign entry_waits = is_read_or_atomic(sent_q.op);
  assign sent_left = sent_q.last_psn - ctx_q.una_psn;  // packets behind the oldest
  assign entry_ends = 24'(target_q - ctx_q.una_psn) > sent_left;
  assign read_off = 32'(24'(ctx_q.una_psn - ctx_q.una_first)) << mtu_log2(cfg_i.mtu);
  assign read_rest = sent_q.length - read_off;
  assign read_last = ctx_q.una_psn == sent_q.last_psn;
  assign answer_fits = read_response ? sent_q.op == WrRead &&
      p.bytes == (read_last ? read_rest[12:0] : mtu) &&
      read_last == (p.opcode inside {RcReadResponseLast, RcReadResponseOnly}) :
      sent_q.op inside {WrCompareSwap, WrFetchAdd};

  function automatic ctx_t advanced(ctx_t c, logic [23:0] last_psn, logic waits);
    advanced           = c;
    advanced.una_psn   = last_psn + 24'd1;
    advanced.una_first = last_psn + 24'd1;
    advanced.sq_una    = c.sq_una + 16'd1;
    if (waits && c.reads != '0) advanced.reads = c.reads - 4'd1;
  endfunction

  // Progress: the clock begins anew, and what was to be sent again may be no more.
  function automatic ctx_t refreshed(ctx_t c, logic [2:0] retries, logic [2:0] rnr_retries,
                                     logic [31:0] deadline);
    refreshed             = c;
    refreshed.retries     = retries;
    refreshed.rnr_retries = rnr_retries;
    refreshed.rewound     = 1'b0;
    refreshed.deadline    = deadline;
    if (is_before(c.next_psn, c.una_psn)) refreshed = rewind(refreshed);
  endfunction

  function automatic ctx_t stopped(ctx_t c);
    stopped        = c;
    stopped.error  = 1'b1;
    stopped.sq_una = c.sq_una + 16'd1;
  endfunction

  function automatic completion_t ended(logic [CqW-1:0] cq, logic [QpW-1:0] qp, logic [15:0] index,
                                        status_e status);
    ended            = '0;
    ended.cq         = cq;
    ended.cqe.qpn    = 24'(qp);
    ended.cqe.index  = index;
    ended.cqe.status = status;
  endfunction

  function automatic completion_t received(logic [CqW-1:0] cq, logic [QpW-1:0] qp,
                                           logic [15:0] next, status_e status);
    received             = ended(cq, qp, next - 16'd1, status);
    received.cqe.is_recv = 1'b1;
  endfunction

  // ---- Several segments ---------------------------------------------------------------------------
  // Those of a receive buffer stay here from a message's first packet to its last one; those of a READ
  // are fetched for each packet, in front of them the length of the first one.
  logic in_list, read_in_list, segment_start, segment_valid, segment_short, segment_last;
  logic [3:0] list_to_q, list_from;
  logic [2:0] list_at;
  logic [63:0] list_data, list_head_q, segment_va;
  logic [31:0] segment_key, segment_bytes, first_bytes_q, more_q;
  logic [12:0] segment_before;
  logic        list_front_q;
  logic [32:0] room;
  logic        arrived;
  assign arrived = s_rd_valid_i && s_rd_i.cookie == ReadRx;
  assign in_list = (send || ud) && several_q;
  always_ff @(posedge clk_i) begin
    several_q <= cfg_i.has_srq ? srq_i.listed : cfg_i.rq_segments != '0;
    most_q    <= cfg_i.has_srq ? 3'(SrqSegments) : 3'd1 << cfg_i.rq_segments;
  end
  assign read_in_list = read_response && sent_q.more != '0;
  assign segment_start = (state_q == Place && in_list && p.bytes != '0) ||
      (state_q == RqeWait && list_end_q && requester_q);
  // A READ's first segment is not in the list.
  assign list_at = requester_q ? 3'(list_from - 4'd2) : list_from[2:0];
  assign room = 33'(rqe_q.length) + 33'(more_q);

  ram_1r1w #(
    .data_t(logic [63:0]),
    .Depth (2 * Qps * 8)
  ) u_lists (
    .clk_i,
    .we_i   (arrived && state_q == RqeWait && !(requester_q && list_to_q == '0)),
    .waddr_i({requester_q, qp_q, 3'(list_to_q - 4'(requester_q))}),
    // What could not be read has no valid key.
    .wdata_i(s_rd_i.bad ? '1 : s_rd_i.data),
    .re_i   (1'b1),
    .raddr_i({requester_q, qp_q, list_at}),
    .rdata_o(list_data)
  );
  always_ff @(posedge clk_i) begin
    list_front_q <= requester_q && list_from < 4'd2;
    list_head_q  <= list_from[0] ? {first_bytes_q, sent_q.lkey} : sent_q.laddr;
  end
  uzura_segments u_segments (
    .clk_i,
    .rst_i,
    .start_i (segment_start),
    .offset_i(requester_q ? read_off : ud ? 32'(GrhBytes) : ctx_q.got),
    .bytes_i (32'(p.bytes)),
    .count_i (requester_q ? sent_q.more + 3'd1 : most_q),
    .word_o  (list_from),
    .word_i  (list_front_q ? list_head_q : list_data),
    .valid_o (segment_valid),
    .short_o (segment_short),
    .va_o    (segment_va),
    .key_o   (segment_key),
    .bytes_o (segment_bytes),
    .before_o(segment_before),
    .last_o  (segment_last),
    .take_i  (state_q == Segment)
  );

  // ---- Host memory ----------------------------------------------------------------------------------
  access_t whole, part;
  always_comb begin
    whole = '{
        key: p.key,
        pd: cfg_i.pd,
        va: p.va,
        bytes: atomic ? 32'd8 : p.length,
        need: write ? NeedWrite : read ? NeedRead : NeedAtomic,
        translate: atomic
    };
    part = '{
        key: ctx_q.key,
        pd: cfg_i.pd,
        va: ctx_q.va,
        bytes: 32'(p.bytes),
        need: write ? NeedWrite : NeedLocal,
        translate: 1'b1
    };
    // A buffer belongs to its queue's domain.
    if (cfg_i.has_srq && !write && !requester_q) part.pd = srq_i.pd;
    if (requester_q) begin
      part.key = sent_q.lkey;
      part.va  = sent_q.laddr + (read_response ? 64'(read_off) : '0);
      if (!read_response) part.bytes = 32'd8;
    end
    if (state_q == Segment) begin
      part.key   = segment_key;
      part.va    = segment_va;
      part.bytes = segment_bytes;
    end
  end

  logic region_needed;
  assign region_needed = atomic || (((write && first) || read) && p.length != '0);
  assign resolve_start_o = (state_q == Accept && permitted && region_needed) ||
      (state_q == Again && read && p.length != '0) ||
      (state_q == Place && p.bytes != '0 && !in_list) ||
      (state_q == AnswerPlace && !read_in_list) ||
      (state_q == Segment && segment_valid);
  assign resolve_o = state_q inside {Accept, Again} ? whole : part;
  assign place_start_o = state_q inside {Write, AtomicWrite} && !placing_q;
  assign place_word_o = state_q == AtomicWrite || (requester_q && !read_response);
  assign place_data_o = state_q == AtomicWrite ? after_atomic : p.swap;
  assign after_atomic = p.opcode == RcFetchAdd ? before_q + p.swap :
      before_q == p.compare ? p.swap : before_q;

  always_comb begin
    m_rd_o = '{
        addr:
        cfg_i.rq_base
        + (
        {44'd0, ctx_q.rq_next & 16'((17'd1 << cfg_i.rq_log2) - 17'd1), 4'd0} << cfg_i.rq_segments
        ),
        bytes: 13'(SegmentBytes) << cfg_i.rq_segments,
        cookie: ReadRx
    };
    if (cfg_i.has_srq) begin
      m_rd_o.addr = srq_i.addr;
      m_rd_o.bytes = srq_i.listed ? 13'(SrqSegments * SegmentBytes + LinkBytes) :
          13'(SegmentBytes + LinkBytes);
    end
    if (requester_q) begin
      m_rd_o.addr = cfg_i.sq_base + 64'(ListFrom) +
          {41'd0, ctx_q.sq_una & 16'((17'd1 << cfg_i.sq_log2) - 17'd1), 7'd0};
      m_rd_o.bytes = 13'(WqeBytes - ListFrom);
    end
    if (state_q == AtomicRead) begin
      m_rd_o.addr  = first_pa_i;
      m_rd_o.bytes = 13'd8;
    end
  end
  assign m_rd_valid_o = state_q inside {Rqe, AtomicRead};

  // ---- Outputs ----------------------------------------------------------------------------------
  assign idle_o       = state_q == Idle;
  assign qp_o         = qp_q;
  assign acquire_o    = state_q == Acquire;
  assign release_o    = state_q == Store;
  assign write_o      = write_q;
  assign ctx_o        = ctx_q;
  assign sent_addr_o  = {qp_q, ctx_q.sq_una[OutW-1:0]};
  assign kick_o       = state_q == Store && released_i && kick_q;
  assign owe_o        = owe_q;
  assign owe_valid_o  = state_q == Owe;
  assign cqe_o        = cqe_q;
  assign cqe_valid_o  = state_q inside {Complete, AnswerCqe} && do_cqe_q;
  assign head_take_o  = (state_q == Store && released_i) || (state_q == Cfg && looked_q && !known);
  assign srq_take_o   = state_q == Accept && needs_rqe && cfg_i.has_srq;
  assign end_o        = state_q == Update && send && last && inv;
  assign end_key_o    = p.imm;
  assign end_pd_o     = cfg_i.pd;

  // ---- States -----------------------------------------------------------------------------------
  always_ff @(posedge clk_i) sent_q <= sent_i;
  always_ff @(posedge clk_i) begin
    cnt_packet_o     <= head_take_o;
    cnt_no_qp_o      <= 1'b0;
    cnt_duplicate_o  <= 1'b0;
    cnt_sequence_o   <= 1'b0;
    cnt_invalid_o    <= 1'b0;
    cnt_access_o     <= 1'b0;
    cnt_operation_o  <= 1'b0;
    cnt_not_ready_o  <= 1'b0;
    cnt_ghost_o      <= 1'b0;
    cnt_rewind_o     <= 1'b0;
    cnt_congestion_o <= head_take_o && p.ce;
    unique case (state_q)
      Idle: begin
        qp_q          <= head_i.qpn[QpW-1:0];
        do_owe_q      <= 1'b0;
        do_cqe_q      <= 1'b0;
        write_q       <= 1'b0;
        kick_q        <= 1'b0;
        requester_q   <= head_response;
        gap_q         <= 1'b0;
        progress_q    <= 1'b0;
        retire_q      <= 1'b0;
        placing_q     <= 1'b0;
        looked_q      <= 1'b0;
        took_q        <= 1'b0;
        listed_q      <= 1'b0;
        place_from_o  <= '0;
        look_q        <= '0;
        second_word_q <= 1'b0;
        if (head_valid_i && !stop_i) state_q <= Cfg;
      end
      // What the host has set comes one edge later.
      Cfg: begin
        // The answer must find room: the requester, which makes it, may wait for this QP.
        looked_q <= 1'b1;
        if (looked_q && (owe_ready_i || !known)) begin
          state_q     <= known ? Acquire : Idle;
          cnt_no_qp_o <= !known;
        end
      end
      Acquire: if (granted_i) state_q <= Load;
      Load: begin
        ctx_q   <= ctx_i;
        state_q <= Judge;
      end
      Judge: begin
        owe_q <= '{
            kind: OweAck,
            qp: qp_q,
            psn: ctx_q.epsn,
            msn: ctx_q.msn,
            syndrome: SynAck,
            va: p.va,
            key: p.key,
            length: p.length
        };
        state_q <= Store;
        if (response) begin
          cnt_ghost_o <= ghost || cfg_i.state != QpRts;
          target_q    <= p.psn + 24'(p.opcode == RcAcknowledge && !is_nak && !is_rnr);
          if (!ghost && cfg_i.state == QpRts) begin
            write_q <= 1'b1;
            kick_q  <= 1'b1;
            state_q <= Answer;
          end
        end else if (ctx_q.error) begin
          cnt_ghost_o <= 1'b1;
        end else if (ud) begin
          cnt_not_ready_o <= rq_empty;
          if (!rq_empty) state_q <= Rqe;
        end else if (is_before(p.psn, ctx_q.epsn)) begin
          cnt_duplicate_o <= 1'b1;
          state_q         <= Again;
        end else if (p.psn != ctx_q.epsn) begin
          // One NAK for a gap.
          cnt_sequence_o <= 1'b1;
          ctx_q.nak_sent <= 1'b1;
          write_q        <= 1'b1;
          owe_q.syndrome <= SynNakSequence;
          if (!ctx_q.nak_sent) state_q <= Owe;
        end else begin
          ctx_q.nak_sent <= 1'b0;
          state_q        <= Sequence;
        end
      end

      // ---- Repeated ---------------------------------------------------------------------------
      Again: begin
        owe_q.psn <= ctx_q.epsn - 24'd1;
        state_q   <= p.ack_req ? Owe : Store;
        if (read) begin
          owe_q.kind <= OweRead;
          owe_q.psn  <= p.psn;
          state_q    <= p.length != '0 ? Region : Owe;
        end
        if (atomic) state_q <= AgainAtomic;
      end
      AgainAtomic: begin
        // The result for number n comes with number n + 1.
        look_q        <= look_q + 1'b1;
        second_word_q <= 1'b1;
        if (second_word_q && 3'(look_q - 3'd1) < ctx_q.replays && replay.psn == p.psn) begin
          owe_q.kind <= OweAtomic;
          owe_q.psn  <= p.psn;
          owe_q.va   <= replay.value;
          state_q    <= Owe;
        end else if (look_q == 3'(Replays)) begin
          state_q <= Store;
        end
      end

      // ---- Expected ---------------------------------------------------------------------------
      Sequence: begin
        write_q        <= 1'b1;
        owe_q.syndrome <= SynNakInvalid;
        if (!in_sequence || ((send || write) && !fits) ||
            (write && !first && 32'(p.bytes) > ctx_q.left) ||
            (write && !first && last && 32'(p.bytes) != ctx_q.left) ||
            (write && first && last && 32'(p.bytes) != p.length) ||
            (write && first && !last && p.length <= 32'(mtu)) ||
            ((read || (write && first)) && p.length[31]) ||
            (atomic && p.va[2:0] != '0)) begin
          state_q <= Nak;
        end else if (needs_rqe && rq_empty) begin
          cnt_not_ready_o <= 1'b1;
          ctx_q.nak_sent  <= 1'b1;
          owe_q.syndrome  <= {SynRnr, cfg_i.min_rnr};
          state_q         <= Owe;
        end else if (!permitted) begin
          owe_q.syndrome <= SynNakAccess;
          state_q        <= Nak;
        end else begin
          state_q <= needs_rqe ? Rqe : Accept;
        end
      end
      Rqe: begin
        list_to_q  <= '0;
        list_end_q <= 1'b0;
        more_q     <= '0;
        broken_q   <= 1'b0;
        if (m_rd_ready_i) state_q <= RqeWait;
      end
      RqeWait: begin
        if (arrived) begin
          list_to_q <= list_to_q + 1'b1;
          if (list_to_q == '0) first_bytes_q <= s_rd_i.bad ? '0 : s_rd_i.data[31:0];
          if (list_to_q == '0) rqe_q.addr <= s_rd_i.data;
          if (list_to_q == 4'd1) {rqe_q.length, rqe_q.lkey} <= s_rd_i.bad ? '1 : s_rd_i.data;
          list_end_q <= s_rd_i.last;
          srq_link_o <= s_rd_i.data[PlaceW-1:0];
          broken_q   <= broken_q || s_rd_i.bad;
          if (s_rd_i.last && !requester_q && !in_list) state_q <= Accept;
        end
        // The room of the whole buffer: a segment's a cycle later.
        more_q <= arrived && list_to_q[0] && list_to_q != 4'd1 ? s_rd_i.data[63:32] : '0;
        if (in_list && more_q != '0) rqe_q.length <= room[32] ? '1 : room[31:0];
        if (list_end_q) state_q <= requester_q ? Segment : Accept;
        if (!requester_q && cfg_i.has_srq) begin
          // Of an SRQ's entry that cannot be read nobody knows what is behind it: it is not taken.
          owe_q.syndrome <= SynNakOperation;
          state_q        <= !list_end_q ? RqeWait : !broken_q ? Accept : ud ? Store : Nak;
        end
      end
      Accept: begin
        took_q <= needs_rqe;
        // Of an SRQ it is the place behind the one taken, so that both are completed in the same way.
        if (needs_rqe) ctx_q.rq_next <= (cfg_i.has_srq ? srq_i.place : ctx_q.rq_next) + 16'd1;
        if ((send && first) || ud) begin
          ctx_q.va <= rqe_q.addr + (ud ? 64'(GrhBytes) : '0);
          ctx_q.key <= rqe_q.lkey;
          ctx_q.left <= ud && rqe_q.length < 32'(GrhBytes) ? '0 :
              rqe_q.length - (ud ? 32'(GrhBytes) : '0);
          ctx_q.got <= '0;
        end
        if (write && first) begin
          ctx_q.va   <= p.va;
          ctx_q.key  <= p.key;
          ctx_q.left <= p.length;
          ctx_q.got  <= '0;
        end
        owe_q.syndrome <= SynAck;
        if (ud) write_q <= 1'b1;
        state_q <= region_needed ? Region : read ? Update : Place;
      end
      Region:
      if (resolve_done_i) begin
        if (is_before(p.psn, ctx_q.epsn)) begin
          // Repeated: what it may not read now it reads no more.
          state_q <= resolve_ok_i && permitted ? Owe : Store;
        end else if (!resolve_ok_i) begin
          owe_q.syndrome <= SynNakAccess;
          state_q        <= Nak;
        end else begin
          state_q <= atomic ? AtomicRead : read ? Update : Place;
        end
      end
      Place: begin
        listed_q <= in_list;
        state_q  <= p.bytes == '0 ? Update : in_list ? Segment : Resolve;
        if (32'(p.bytes) > ctx_q.left) begin
          // Longer than the receive buffer.
          do_cqe_q       <= 1'b1;
          cqe_q          <= received(cfg_i.rcq, qp_q, ctx_q.rq_next, StLocalLength);
          owe_q.syndrome <= SynNakInvalid;
          state_q        <= !in_list ? Long : ud ? Complete : Nak;
        end
      end
      // The question is on its way: its answer must not reach the next one.
      Long:       if (resolve_done_i) state_q <= ud ? Complete : Nak;
      Segment, Resolve:
      if (segment_valid && state_q == Segment) begin
        // The next one is looked for while this one is asked about and written.
        place_from_o   <= segment_before;
        segment_last_q <= segment_last;
        state_q        <= Resolve;
      end else if (resolve_done_i || (segment_short && state_q == Segment)) begin
        if (resolve_done_i && resolve_ok_i) begin
          state_q <= Write;
        end else if (requester_q) begin
          do_cqe_q <= 1'b1;
          cqe_q    <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StLocalProt);
          ctx_q    <= stopped(ctx_q);
          state_q  <= Complete;
        end else begin
          do_cqe_q       <= !write;
          cqe_q          <= received(cfg_i.rcq, qp_q, ctx_q.rq_next, StLocalProt);
          owe_q.syndrome <= write ? SynNakAccess : SynNakOperation;
          state_q        <= ud ? Complete : Nak;
        end
      end
      Write: begin
        placing_q <= 1'b1;
        if (place_done_i) begin
          placing_q <= 1'b0;
          state_q   <= listed_q && !segment_last_q ? Segment : requester_q ? AnswerDone : Update;
        end
      end
      AtomicRead: if (m_rd_ready_i) state_q <= AtomicWait;
      AtomicWait:
      if (arrived) begin
        before_q       <= s_rd_i.data;
        owe_q.syndrome <= s_rd_i.bad ? SynNakOperation : SynAck;
        state_q        <= s_rd_i.bad ? Nak : AtomicWrite;
      end
      AtomicWrite: begin
        placing_q <= 1'b1;
        if (place_done_i) state_q <= Update;
      end
      Update: begin
        ctx_q.epsn    <= ctx_q.epsn + (read ? packets(p.length, cfg_i.mtu) : 24'd1);
        ctx_q.va      <= ctx_q.va + 64'(p.bytes);
        ctx_q.left    <= ctx_q.left - 32'(p.bytes);
        ctx_q.got     <= ctx_q.got + 32'(p.bytes);
        ctx_q.message <= read || atomic || last || ud ? NoMessage : send ? InSend : InWrite;
        if (!ud && (read || atomic || last)) begin
          ctx_q.msn <= ctx_q.msn + 24'd1;
          owe_q.msn <= ctx_q.msn + 24'd1;
        end
        if (atomic) begin
          ctx_q.replay_next <= ctx_q.replay_next + 1'b1;
          if (ctx_q.replays != 3'(Replays)) ctx_q.replays <= ctx_q.replays + 1'b1;
          owe_q.kind <= OweAtomic;
          owe_q.va   <= before_q;
        end
        if (read) owe_q.kind <= OweRead;
        do_owe_q <= !ud && (read || atomic || p.ack_req);
        if (ud || (send && last) || (write && imm)) begin
          do_cqe_q          <= 1'b1;
          cqe_q             <= received(cfg_i.rcq, qp_q, ctx_q.rq_next, StSuccess);
          cqe_q.solicited   <= p.solicited;
          cqe_q.cqe.op      <= p.opcode;
          cqe_q.cqe.bytes   <= ctx_q.got + 32'(p.bytes) + (ud ? 32'(GrhBytes) : '0);
          cqe_q.cqe.has_imm <= imm;
          cqe_q.cqe.imm     <= p.imm;
          cqe_q.cqe.has_inv <= inv;
          cqe_q.cqe.key     <= ud ? p.path.ip : p.imm;
          cqe_q.cqe.src_qpn <= ud ? p.length[23:0] : '0;
        end
        state_q <= Complete;
      end
      Nak: begin
        // The QP stops; what it has begun to receive is lost.
        cnt_invalid_o   <= owe_q.syndrome == SynNakInvalid;
        cnt_access_o    <= owe_q.syndrome == SynNakAccess;
        cnt_operation_o <= owe_q.syndrome == SynNakOperation;
        if (!do_cqe_q && (ctx_q.message == InSend || took_q)) begin
          do_cqe_q <= 1'b1;
          cqe_q    <= received(cfg_i.rcq, qp_q, ctx_q.rq_next, StFlushed);
        end
        ctx_q.error   <= 1'b1;
        ctx_q.message <= NoMessage;
        do_owe_q      <= 1'b1;
        kick_q        <= 1'b1;
        state_q       <= Complete;
      end

      // ---- Answers ----------------------------------------------------------------------------
      Answer:     state_q <= AnswerRead;
      AnswerRead: state_q <= AnswerCheck;
      AnswerCheck: begin
        state_q <= AnswerAct;
        if (ctx_q.una_psn != target_q) begin
          if (entry_waits) begin
            gap_q <= 1'b1;
          end else if (entry_ends) begin
            progress_q   <= 1'b1;
            do_cqe_q     <= sent_q.signaled;
            cqe_q        <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StSuccess);
            cqe_q.cqe.op <= sent_q.op;
            ctx_q        <= advanced(ctx_q, sent_q.last_psn, entry_waits);
            state_q      <= AnswerCqe;
          end else begin
            progress_q    <= 1'b1;
            ctx_q.una_psn <= target_q;
          end
        end
      end
      AnswerCqe:
      if (!do_cqe_q || cqe_ready_i) begin
        do_cqe_q <= 1'b0;
        // More of them, or what the packet itself is about.
        state_q  <= retire_q ? AnswerAct : Answer;
        retire_q <= 1'b0;
        if (retire_q) requester_q <= 1'b0;
      end
      AnswerAct: begin
        state_q <= Store;
        if (progress_q)
          ctx_q <= refreshed(
              ctx_q, cfg_i.retry, cfg_i.rnr_retry, now_us_i + timeout_us(cfg_i.timeout)
          );
        progress_q <= 1'b0;
        if (progress_q && requester_q) begin
          state_q <= AnswerAct;  // once more, with what has changed
        end else if (!requester_q) begin
          // An answer has been taken: nothing else is in the packet.
          state_q <= Store;
        end else if (gap_q) begin
          if (!ctx_q.rewound) begin
            cnt_rewind_o  <= 1'b1;
            ctx_q         <= rewind(ctx_q);
            ctx_q.rewound <= 1'b1;
          end
        end else if (is_rnr) begin
          do_cqe_q <= ctx_q.rnr_retries == '0;
          cqe_q    <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StRnrRetry);
          if (ctx_q.rnr_retries == '0) begin
            ctx_q   <= stopped(ctx_q);
            state_q <= Complete;
          end else begin
            cnt_rewind_o   <= 1'b1;
            ctx_q          <= rewind(ctx_q);
            ctx_q.rnr_wait <= 1'b1;
            ctx_q.deadline <= now_us_i + rnr_us(p.syndrome[4:0]);
            if (ctx_q.rnr_retries != '1) ctx_q.rnr_retries <= ctx_q.rnr_retries - 1'b1;
          end
        end else if (is_nak && ctx_q.rnr_wait && p.syndrome == SynNakSequence) begin
          // Some say so of each packet behind the one that they were not ready for: it is sent again anyhow.
        end else if (is_nak) begin
          if (p.syndrome == SynNakSequence && ctx_q.retries != '0) begin
            cnt_rewind_o  <= 1'b1;
            ctx_q         <= rewind(ctx_q);
            ctx_q.retries <= ctx_q.retries - 1'b1;
          end else begin
            do_cqe_q <= 1'b1;
            ctx_q    <= stopped(ctx_q);
            state_q  <= Complete;
            unique case (p.syndrome)
              SynNakSequence: cqe_q <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StRetry);
              SynNakInvalid:  cqe_q <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StRemInvalid);
              SynNakAccess:   cqe_q <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StRemAccess);
              default:        cqe_q <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StRemOperation);
            endcase
          end
        end else if (p.opcode != RcAcknowledge) begin
          if (answer_fits) begin
            state_q <= read_response && p.bytes == '0 ? AnswerDone : AnswerPlace;
          end else begin
            do_cqe_q <= 1'b1;
            cqe_q    <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StBadResponse);
            ctx_q    <= stopped(ctx_q);
            state_q  <= Complete;
          end
        end
      end
      AnswerPlace: begin
        listed_q <= read_in_list;
        state_q  <= read_in_list ? Rqe : Resolve;
      end
      AnswerDone: begin
        progress_q    <= 1'b1;
        ctx_q.una_psn <= ctx_q.una_psn + 24'd1;
        retire_q      <= 1'b1;
        state_q       <= AnswerCqe;
        if (!read_response || read_last) begin
          do_cqe_q        <= sent_q.signaled;
          cqe_q           <= ended(cfg_i.scq, qp_q, ctx_q.sq_una, StSuccess);
          cqe_q.cqe.op    <= sent_q.op;
          cqe_q.cqe.bytes <= sent_q.length;
          ctx_q           <= advanced(ctx_q, sent_q.last_psn, entry_waits);
        end
      end

      // ---- The end --------------------------------------------------------------------------------
      Complete:
      if (!do_cqe_q || cqe_ready_i) begin
        do_cqe_q <= 1'b0;
        state_q  <= do_owe_q ? Owe : Store;
      end
      Owe: if (owe_ready_i) state_q <= Store;
      Store: if (released_i) state_q <= Idle;
      default: state_q <= Idle;
    endcase
    if (rst_i) state_q <= Idle;
  end
  // The parser's business, or the region table's.
  logic unused;
  assign unused = ^{cfg_i, p.path.mac, p.path.port, p.msn, granted.local_write, read_rest[31:13]};
endmodule
