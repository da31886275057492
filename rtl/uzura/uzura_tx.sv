// SPDX-License-Identifier: Apache-2.0
// Requester: looks at send queues, fetches their entries, and sends packet after packet; sends what
// the responder owes between them. Data are read beside it (uzura_gather).
//
// Of a request with several segments the parts that a packet needs are looked up one after the other; it
// goes on its way when all of them may be read.
//
// A look holds the QP for some cycles only, never while an entry is fetched: what has changed in the
// meantime is seen when the QP is taken again.
//
// Latency   : docs/uzura.md, locked by the bench.
// Clock     : clk_i.
// Handshake : valid/ready towards everything.
// Drops     : never. Requests that cannot be done end with an error completion, which stops the QP.
// Source    : InfiniBand Architecture Specification, 9.7 and 10.8; UZURA document, section 5.
module uzura_tx
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
#(
  /// log2 of the payload buffer's words, behind uzura_gather.
  parameter int unsigned BufferW = 11,
  /// Packets of one message before another QP has its turn.
  parameter int unsigned Burst   = 8
) (
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic        [        31:0] now_us_i,
  input  logic                       stop_i,
  output logic                       idle_o,
  // Scheduler.
  input  logic                       work_valid_i,
  input  logic        [     QpW-1:0] work_qp_i,
  output logic                       work_take_o,
  output logic                       end_o,
  output logic                       end_again_o,
  output logic                       end_waits_o,
  output logic        [     QpW-1:0] qp_o,
  // State of the QP.
  output logic                       acquire_o,
  input  logic                       granted_i,
  input  cfg_t                       cfg_i,
  input  ctx_t                       ctx_i,
  output logic                       release_o,
  output logic                       write_o,
  output ctx_t                       ctx_o,
  input  logic                       released_i,
  output logic                       sent_write_o,
  output logic        [QpW+OutW-1:0] sent_addr_o,
  output sent_t                      sent_o,
  // Doorbells.
  input  logic        [        15:0] sq_index_i,
  input  logic        [        15:0] rq_index_i,
  output logic        [        15:0] copy_index_o,
  input  logic                       copy_here_i,
  output logic        [         3:0] copy_word_o,
  input  logic        [        63:0] copy_data_i,
  // What the responder owes.
  input  owe_t                       owe_i,
  input  logic                       owe_valid_i,
  output logic                       owe_take_o,
  // Host memory.
  output logic                       resolve_start_o,
  output access_t                    resolve_o,
  input  logic                       resolve_done_i,
  input  logic                       resolve_ok_i,
  input  logic        [        63:0] first_pa_i,
  input  logic        [        12:0] first_bytes_i,
  input  logic        [        63:0] second_pa_i,
  input  logic        [        12:0] second_bytes_i,
  output rd_req_t                    m_rd_o,
  output logic                       m_rd_valid_o,
  input  logic                       m_rd_ready_i,
  input  rd_data_t                   s_rd_i,
  input  logic                       s_rd_valid_i,
  // Payload.
  output logic        [        12:0] piece_bytes_o,
  output logic                       piece_last_o,
  output logic                       piece_inline_o,
  output logic                       piece_valid_o,
  input  logic                       piece_ready_i,
  output logic        [        63:0] inline_data_o,
  output logic                       inline_valid_o,
  input  logic                       inline_ready_i,
  /// A word of payload has left the buffer.
  input  logic                       payload_pop_i,
  output packet_t                    packet_o,
  output logic                       packet_valid_o,
  input  logic                       packet_ready_i,
  output completion_t                cqe_o,
  output logic                       cqe_valid_o,
  input  logic                       cqe_ready_i,
  /// The QP in error has completed all that it had, and receives from an SRQ.
  output logic                       ended_o,
  output logic                       cnt_packet_o,
  output logic                       cnt_rewind_o,
  output logic                       cnt_timeout_o,
  output logic                       cnt_bad_wqe_o,
  output logic                       cnt_inline_o
);
  localparam int unsigned Words = WqeHeadBytes / 8;
  localparam int unsigned BufferWords = 1 << BufferW;

  typedef enum logic [4:0] {
    Idle,
    Acquire,
    Load,
    Decide,
    Copy,            // the entry from a doorbell
    CopyData,
    Fetch,           // the entry by DMA
    FetchWait,
    FetchData,
    FetchDataWait,
    Acquire2,
    Load2,
    Plan,
    Resolve,
    Segment,         // the next part of several segments
    SegmentResolve,
    Keep,            // where it lies
    KeepSecond,
    Fail,
    Emit,            // the packet
    EmitFirst,       // its data
    EmitSecond,
    EmitKept,
    EmitInline,
    Complete,
    Store,
    OweLoad,
    OwePlan,
    OweResolve
  } state_e;

  state_e           state_q;
  logic   [QpW-1:0] qp_q;
  ctx_t             ctx_q;
  logic [Words-1:0][63:0] head_q, data_q;
  logic [               15:0] index_q;  // of the entry that is held
  logic [                4:0] word_q;
  logic [$clog2(Burst+1)-1:0] burst_q;
  logic owe_q, owe_turn_q, again_q, write_q, here_q;
  logic                fetch_q;  // let go of the QP, and fetch
  logic                more_q;  // then the next packet of the message
  logic                done_q;  // complete it
  logic                sent_q;
  logic    [     23:0] sent_last_q;
  status_e             status_q;
  logic    [BufferW:0] free_q;
  packet_t             packet_q;
  logic bytes_inline_q, hold_q;
  completion_t cqe_q;
  wqe_t        wqe;
  assign wqe = wqe_t'(head_q);

  // ---- The next packet of the entry ---------------------------------------------------------------
  logic bad_op, bad_length, last, touch, listed, planned;
  logic    [31:0] offset;
  packet_t        packet;
  logic [23:0] psns, last_psn;
  access_t access;

  uzura_plan u_plan (
    .wqe_i       (wqe),
    .cfg_i,
    .ctx_i       (ctx_q),
    .qp_i        (qp_q),
    .bad_op_o    (bad_op),
    .bad_length_o(bad_length),
    .packet_o    (packet),
    .last_o      (last),
    .psns_o      (psns),
    .last_psn_o  (last_psn),
    .access_o    (access),
    .touch_o     (touch),
    .listed_o    (listed),
    .offset_o    (offset)
  );

  // ---- What an answer to a READ is made of --------------------------------------------------------
  logic [31:0] owe_off_q, owe_rest;
  logic [12:0] owe_bytes;
  logic owe_last, owe_failed_q;
  packet_t owe_packet;
  access_t owe_access;
  assign owe_rest = owe_i.length - owe_off_q;
  assign owe_last = owe_i.kind != OweRead || owe_rest <= 32'(mtu_bytes(cfg_i.mtu)) || owe_failed_q;
  assign owe_bytes = owe_i.kind != OweRead || owe_failed_q ? '0 :
      owe_last ? owe_rest[12:0] : mtu_bytes(
      cfg_i.mtu
  );
  assign owe_access = '{
          key: owe_i.key,
          pd: cfg_i.pd,
          va: owe_i.va + 64'(owe_off_q),
          bytes: 32'(owe_bytes),
          need: 4'b0100,
          translate: 1'b1
      };
  always_comb begin
    owe_packet          = '0;
    owe_packet.path     = '{mac: cfg_i.mac, ip: cfg_i.ip, port: cfg_i.port};
    owe_packet.qpn      = cfg_i.dqpn;
    owe_packet.psn      = owe_i.psn + 24'(owe_off_q >> mtu_log2(cfg_i.mtu));
    owe_packet.msn      = owe_i.msn;
    owe_packet.syndrome = owe_i.syndrome;
    owe_packet.swap     = owe_i.va;
    owe_packet.bytes    = owe_bytes;
    unique case (owe_i.kind)
      OweAtomic: owe_packet.opcode = RcAtomicAcknowledge;
      OweRead: begin
        unique case ({
          owe_off_q == '0, owe_last
        })
          2'b11:   owe_packet.opcode = RcReadResponseOnly;
          2'b10:   owe_packet.opcode = RcReadResponseFirst;
          2'b01:   owe_packet.opcode = RcReadResponseLast;
          default: owe_packet.opcode = RcReadResponseMid;
        endcase
        if (owe_failed_q) begin
          owe_packet.opcode   = RcAcknowledge;
          owe_packet.syndrome = SynNakAccess;
        end
      end
      default:   owe_packet.opcode = RcAcknowledge;
    endcase
  end

  // ---- Decisions on a QP ----------------------------------------------------------------------------
  logic dead, outstanding, late, window_full, begins, blocked, rnr_over;
  assign dead = ctx_q.error || cfg_i.state == QpError;
  assign outstanding = ctx_q.una_psn != ctx_q.max_psn;
  assign late = !(32'(now_us_i - ctx_q.deadline) >> 31 != '0);
  assign rnr_over = ctx_q.rnr_wait && late;
  assign begins = ctx_q.next_psn == ctx_q.next_first;
  assign window_full = 24'(ctx_q.next_psn - ctx_q.una_psn) >= 24'(Window) ||
      (begins && 16'(ctx_q.sq_next - ctx_q.sq_una) >= 16'(Outstanding));
  assign blocked = !cfg_i.ud && ((is_read_or_atomic(
      wqe.op
  ) && ctx_q.reads >= cfg_i.rd_atomic) || (wqe.fence && begins && ctx_q.reads != '0));

  // ---- Several segments -----------------------------------------------------------------------------
  typedef struct packed {
    logic [63:0] pa;
    logic [12:0] bytes;
  } place_t;
  // Each segment may lie on two pages.
  localparam int unsigned Places = 2 * MaxUdSegments;

  logic [3:0] list_word;
  logic [63:0] list_q, segment_va;
  logic [31:0] segment_key, segment_bytes;
  logic segment_valid, segment_short, segment_last, segment_last_q, listed_q;
  logic place_valid, place_take;
  place_t place, place_in;
  logic    [$clog2(Places+1)-1:0] places;
  access_t                        segment;

  // The first one is in the entry's first half, and so is a datagram's sixth one.
  always_ff @(posedge clk_i) begin
    unique case (list_word)
      4'd0:    list_q <= wqe.laddr;
      4'd1:    list_q <= {wqe.descriptor[31:0], wqe.lkey};
      4'd10:   list_q <= wqe.raddr;
      4'd11:   list_q <= {wqe.descriptor[63:32], wqe.rkey};
      default: list_q <= data_q[3'(list_word-4'd2)];
    endcase
  end
  uzura_segments u_segments (
    .clk_i,
    .rst_i,
    .start_i (planned && touch && listed),
    .offset_i(offset),
    .bytes_i (access.bytes),
    .count_i (wqe.more + 3'd1),
    .word_o  (list_word),
    .word_i  (list_q),
    .valid_o (segment_valid),
    .short_o (segment_short),
    .va_o    (segment_va),
    .key_o   (segment_key),
    .bytes_o (segment_bytes),
    .before_o(),
    .last_o  (segment_last),
    .take_i  (state_q == Segment)
  );
  assign segment = '{
          key: segment_key,
          pd: cfg_i.pd,
          va: segment_va,
          bytes: segment_bytes,
          need: access.need,
          translate: access.translate
      };
  assign place_in = state_q == Keep ? {first_pa_i, first_bytes_i} : {second_pa_i, second_bytes_i};
  sync_fifo #(
    .data_t(place_t),
    .Depth (Places)
  ) u_places (
    .clk_i,
    .rst_i   (rst_i || state_q == Fail),
    .wdata_i (place_in),
    .wvalid_i(state_q inside {Keep, KeepSecond}),
    .wready_o(),
    .rdata_o (place),
    .rvalid_o(place_valid),
    .rready_i(place_take),
    .count_o (places)
  );

  logic [63:0] entry_addr;
  assign entry_addr = cfg_i.sq_base +
      {41'd0, ctx_q.sq_next & 16'((17'd1 << cfg_i.sq_log2) - 17'd1), 7'd0};

  function automatic completion_t completion(logic [CqW-1:0] cq, logic [QpW-1:0] qp,
                                             logic [15:0] index, status_e status);
    completion            = '0;
    completion.cq         = cq;
    completion.cqe.qpn    = 24'(qp);
    completion.cqe.index  = index;
    completion.cqe.status = status;
  endfunction

  // The QP stops with its oldest request.
  function automatic ctx_t stopped(ctx_t c);
    stopped         = c;
    stopped.error   = 1'b1;
    stopped.sq_una  = c.sq_una + 16'd1;
    stopped.sq_next = c.sq_una + 16'd1;
  endfunction

  ctx_t after;  // the packet
  always_comb begin
    after          = ctx_q;
    after.next_psn = ctx_q.next_psn + psns;
    if (!is_before(after.next_psn, ctx_q.max_psn)) after.max_psn = after.next_psn;
    if (!outstanding) after.deadline = now_us_i + timeout_us(cfg_i.timeout);
    if (last) begin
      after.sq_next    = ctx_q.sq_next + 16'd1;
      after.next_first = after.next_psn;
      if (is_read_or_atomic(wqe.op)) after.reads = ctx_q.reads + 4'd1;
    end
    if (cfg_i.ud) begin
      after.sq_una    = after.sq_next;
      after.una_psn   = after.next_psn;
      after.una_first = after.next_psn;
    end
  end

  logic room;
  assign room = free_q >= (BufferW + 1)'((packet_q.bytes + 13'd7) >> 3);

  // ---- Outputs ----------------------------------------------------------------------------------
  logic pick_owe;
  assign pick_owe = owe_valid_i && (owe_turn_q || !work_valid_i);
  assign work_take_o = state_q == Idle && !stop_i && !pick_owe && work_valid_i;
  assign qp_o = qp_q;
  assign acquire_o = state_q inside {Acquire, Acquire2};
  assign release_o = state_q == Store && !owe_q && hold_q;
  assign write_o = write_q;
  assign ctx_o = ctx_q;
  assign end_o = state_q == Store && !owe_q && (!hold_q || released_i);
  assign end_again_o = again_q && !more_q && !fetch_q;
  assign end_waits_o = (outstanding && cfg_i.timeout != '0) || ctx_q.rnr_wait;
  assign idle_o = state_q == Idle && !owe_valid_i;
  assign copy_index_o = ctx_q.sq_next;
  assign copy_word_o = word_q[3:0];
  assign planned = state_q == Plan && !bad_op && !bad_length && !blocked && !dead &&
      index_q == ctx_q.sq_next && !window_full && !ctx_q.rnr_wait;
  assign resolve_start_o = (planned && touch && !listed) ||
      (state_q == Segment && segment_valid) || (state_q == OwePlan && owe_bytes != '0);
  assign resolve_o = owe_q ? owe_access : state_q == Segment ? segment : access;
  assign packet_o = packet_q;
  assign packet_valid_o = state_q == Emit && room;
  assign piece_bytes_o   = state_q == EmitSecond ? second_bytes_i :
      state_q == EmitKept ? place.bytes : bytes_inline_q ? packet_q.bytes : first_bytes_i;
  assign piece_last_o = state_q == EmitKept ? places == 1 :
      state_q == EmitSecond || bytes_inline_q || second_bytes_i == '0;
  assign piece_inline_o = bytes_inline_q;
  // A piece is announced with its read, in one cycle.
  assign piece_valid_o = state_q inside {EmitFirst, EmitSecond, EmitKept} &&
      (bytes_inline_q || m_rd_ready_i);
  assign place_take = state_q == EmitKept && piece_ready_i && m_rd_ready_i;
  assign inline_data_o = data_q[word_q[2:0]];
  assign inline_valid_o = state_q == EmitInline;
  assign cqe_o = cqe_q;
  assign cqe_valid_o = state_q == Complete;
  assign owe_take_o = state_q == Store && owe_q && owe_last;

  always_comb begin
    m_rd_o       = '{addr: entry_addr, bytes: 13'(WqeHeadBytes), cookie: ReadWqe};
    m_rd_valid_o = state_q inside {Fetch, FetchData};
    if (state_q == FetchData) m_rd_o.addr = entry_addr + 64'(WqeHeadBytes);
    if (state_q == EmitFirst) begin
      m_rd_o       = '{addr: first_pa_i, bytes: first_bytes_i, cookie: ReadPayload};
      m_rd_valid_o = !bytes_inline_q && piece_ready_i;
    end
    if (state_q == EmitSecond) begin
      m_rd_o       = '{addr: second_pa_i, bytes: second_bytes_i, cookie: ReadPayload};
      m_rd_valid_o = piece_ready_i;
    end
    if (state_q == EmitKept) begin
      m_rd_o       = '{addr: place.pa, bytes: place.bytes, cookie: ReadPayload};
      m_rd_valid_o = piece_ready_i;
    end
  end

  logic arrived;
  assign arrived = s_rd_valid_i && s_rd_i.cookie == ReadWqe;
  logic second_half;
  assign second_half = wqe.in_line || wqe.more != '0;

  // The sent packet's request, for what comes back.
  assign sent_write_o = state_q == Store && !owe_q && hold_q && write_q && !dead && sent_q;
  assign sent_addr_o = {qp_q, index_q[OutW-1:0]};
  assign sent_o = '{
          op: wqe.op,
          signaled: wqe.signaled,
          more: wqe.more,
          last_psn: sent_last_q,
          laddr: wqe.laddr,
          lkey: wqe.lkey,
          length: wqe.length
      };

  // ---- States -----------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    ended_o       <= 1'b0;
    cnt_packet_o  <= packet_valid_o && packet_ready_i;
    cnt_rewind_o  <= 1'b0;
    cnt_timeout_o <= 1'b0;
    cnt_bad_wqe_o <= 1'b0;
    cnt_inline_o  <= 1'b0;
    unique case (state_q)
      Idle: begin
        again_q      <= 1'b0;
        write_q      <= 1'b0;
        hold_q       <= 1'b0;
        sent_q       <= 1'b0;
        owe_failed_q <= 1'b0;
        burst_q      <= '0;
        owe_q        <= pick_owe;
        if (!stop_i || owe_valid_i) begin
          if (pick_owe) begin
            qp_q       <= owe_i.qp;
            owe_turn_q <= 1'b0;
            state_q    <= OweLoad;
          end else if (work_valid_i && !stop_i) begin
            qp_q       <= work_qp_i;
            owe_turn_q <= 1'b1;
            state_q    <= Acquire;
          end
        end
      end
      Acquire: if (granted_i) state_q <= Load;
      Load: begin
        ctx_q   <= ctx_i;
        hold_q  <= 1'b1;
        state_q <= Decide;
      end
      Decide: begin
        word_q  <= '0;
        here_q  <= copy_here_i;
        index_q <= ctx_q.sq_next;
        state_q <= Store;
        if (dead) begin
          // One entry a look: of the send queue, then the one of a message that has begun to come in, then of
          // the receive queue. An SRQ's entries are everybody's.
          again_q <= 1'b1;
          write_q <= 1'b1;
          state_q <= Complete;
          if (ctx_q.sq_una != sq_index_i) begin
            cqe_q         <= completion(cfg_i.scq, qp_q, ctx_q.sq_una, StFlushed);
            ctx_q.sq_una  <= ctx_q.sq_una + 16'd1;
            ctx_q.una_psn <= ctx_q.max_psn;
          end else if (ctx_q.message == InSend) begin
            cqe_q             <= completion(cfg_i.rcq, qp_q, ctx_q.rq_next - 16'd1, StFlushed);
            cqe_q.cqe.is_recv <= 1'b1;
            ctx_q.message     <= NoMessage;
          end else if (ctx_q.rq_next != rq_index_i && !cfg_i.has_srq) begin
            cqe_q             <= completion(cfg_i.rcq, qp_q, ctx_q.rq_next, StFlushed);
            cqe_q.cqe.is_recv <= 1'b1;
            ctx_q.rq_next     <= ctx_q.rq_next + 16'd1;
          end else begin
            ended_o        <= cfg_i.has_srq;
            again_q        <= 1'b0;
            ctx_q.una_psn  <= ctx_q.max_psn;
            ctx_q.rnr_wait <= 1'b0;
            state_q        <= Store;
          end
        end else if (cfg_i.state == QpRts) begin
          if (rnr_over) begin
            ctx_q.rnr_wait <= 1'b0;
            ctx_q.deadline <= now_us_i + timeout_us(cfg_i.timeout);
            write_q        <= 1'b1;
            again_q        <= 1'b1;
          end else if (ctx_q.rnr_wait) begin
            again_q <= 1'b0;
          end else if (outstanding && late && cfg_i.timeout != '0) begin
            write_q       <= 1'b1;
            again_q       <= 1'b1;
            cnt_timeout_o <= 1'b1;
            if (ctx_q.retries == '0) begin
              cqe_q   <= completion(cfg_i.scq, qp_q, ctx_q.sq_una, StRetry);
              ctx_q   <= stopped(ctx_q);
              state_q <= Complete;
            end else begin
              cnt_rewind_o   <= 1'b1;
              ctx_q          <= rewind(ctx_q);
              ctx_q.retries  <= ctx_q.retries - 1'b1;
              ctx_q.rewound  <= 1'b1;
              ctx_q.deadline <= now_us_i + timeout_us(cfg_i.timeout);
            end
          end else if (ctx_q.sq_next != sq_index_i && !window_full) begin
            // Let go first; the entry comes meanwhile.
            again_q <= 1'b1;
            state_q <= Store;
            fetch_q <= 1'b1;
          end
        end
      end
      Copy: begin
        // A word comes one edge after its number; the copy must be there to the last.
        word_q <= word_q + 1'b1;
        here_q <= here_q && copy_here_i;
        if (word_q != '0) head_q[3'(word_q-5'd1)] <= copy_data_i;
        if (word_q == 5'(Words)) begin
          cnt_inline_o <= here_q && copy_here_i;
          if (!(here_q && copy_here_i)) begin
            word_q  <= '0;
            state_q <= Fetch;
          end else begin
            state_q <= second_half ? CopyData : Acquire2;
          end
        end
      end
      CopyData: begin
        word_q                  <= word_q + 1'b1;
        here_q                  <= here_q && copy_here_i;
        data_q[3'(word_q-5'd1)] <= copy_data_i;
        if (word_q == 5'(2 * Words)) begin
          word_q  <= '0;
          state_q <= here_q && copy_here_i ? Acquire2 : Fetch;
        end
      end
      Fetch: if (m_rd_ready_i) state_q <= FetchWait;
      FetchWait:
      if (arrived) begin
        head_q[word_q[2:0]] <= s_rd_i.bad ? '1 : s_rd_i.data;
        word_q              <= word_q + 1'b1;
        if (s_rd_i.last) begin
          word_q  <= '0;
          state_q <= second_half ? FetchData : Acquire2;
        end
      end
      FetchData: if (m_rd_ready_i) state_q <= FetchDataWait;
      FetchDataWait:
      if (arrived) begin
        data_q[word_q[2:0]] <= s_rd_i.data;
        word_q              <= word_q + 1'b1;
        // Half an entry is none.
        if (s_rd_i.bad) head_q[0] <= '1;
        if (s_rd_i.last) begin
          word_q  <= '0;
          state_q <= Acquire2;
        end
      end
      Acquire2: if (granted_i) state_q <= Load2;
      Load2: begin
        ctx_q   <= ctx_i;
        hold_q  <= 1'b1;
        write_q <= 1'b0;
        again_q <= 1'b1;
        sent_q  <= 1'b0;
        state_q <= Plan;
      end
      Plan: begin
        packet_q       <= packet;
        bytes_inline_q <= wqe.in_line;
        listed_q       <= listed;
        word_q         <= '0;
        if (dead || index_q != ctx_q.sq_next || window_full || ctx_q.rnr_wait) begin
          // Something has happened since: look again, or wait for news.
          again_q <= dead || index_q != ctx_q.sq_next;
          state_q <= Store;
        end else if (bad_op || bad_length) begin
          cnt_bad_wqe_o <= 1'b1;
          status_q      <= bad_op ? StLocalQpOp : StLocalLength;
          state_q       <= Fail;
        end else if (blocked) begin
          again_q <= 1'b0;
          state_q <= Store;
        end else begin
          state_q <= !touch ? Emit : listed ? Segment : Resolve;
        end
      end
      Resolve:
      if (resolve_done_i) begin
        status_q <= StLocalProt;
        state_q  <= resolve_ok_i ? Emit : Fail;
      end
      Segment: begin
        // The next one is looked for while this one is asked about.
        status_q       <= StLocalLength;
        segment_last_q <= segment_last;
        if (segment_valid) state_q <= SegmentResolve;
        else if (segment_short) state_q <= Fail;
      end
      SegmentResolve: begin
        status_q <= StLocalProt;
        if (resolve_done_i) begin
          state_q <= !resolve_ok_i ? Fail : packet_q.bytes != '0 ? Keep :
              segment_last_q ? Emit : Segment;
        end
      end
      Keep: state_q <= second_bytes_i != '0 ? KeepSecond : segment_last_q ? Emit : Segment;
      KeepSecond: state_q <= segment_last_q ? Emit : Segment;
      Fail: begin
        // What went before ends before; the receiver's news bring us here again.
        again_q <= 1'b0;
        state_q <= Store;
        if (ctx_q.sq_una == ctx_q.sq_next) begin
          cqe_q   <= completion(cfg_i.scq, qp_q, ctx_q.sq_una, status_q);
          ctx_q   <= stopped(ctx_q);
          again_q <= 1'b1;
          write_q <= 1'b1;
          state_q <= Complete;
        end
      end
      Emit:
      if (room && packet_ready_i) begin
        state_q <= packet_q.bytes == '0 ? Store : listed_q ? EmitKept : EmitFirst;
        if (!owe_q) begin
          ctx_q        <= after;
          write_q      <= 1'b1;
          sent_q       <= !cfg_i.ud;
          sent_last_q  <= last_psn;
          burst_q      <= burst_q + 1'b1;
          more_q       <= !last && burst_q < ($bits(burst_q))'(Burst - 1);
          done_q       <= cfg_i.ud && wqe.signaled;
          cqe_q        <= completion(cfg_i.scq, qp_q, ctx_q.sq_next, StSuccess);
          cqe_q.cqe.op <= wqe.op;
          if (packet_q.bytes == '0 && cfg_i.ud && wqe.signaled) state_q <= Complete;
        end
      end
      EmitFirst:
      if (piece_ready_i && (bytes_inline_q || m_rd_ready_i)) begin
        state_q <= bytes_inline_q ? EmitInline : second_bytes_i != '0 ? EmitSecond :
            done_q ? Complete : Store;
      end
      EmitSecond: if (piece_ready_i && m_rd_ready_i) state_q <= done_q ? Complete : Store;
      EmitKept:
      if (piece_ready_i && m_rd_ready_i && places == 1) state_q <= done_q ? Complete : Store;
      EmitInline:
      if (inline_ready_i) begin
        word_q <= word_q + 1'b1;
        if ({5'(word_q + 1'b1), 3'd0} >= 8'(packet_q.bytes)) state_q <= done_q ? Complete : Store;
      end
      Complete:
      if (cqe_ready_i) begin
        done_q  <= 1'b0;
        state_q <= Store;
      end
      Store:
      if (owe_q) begin
        owe_off_q <= owe_last ? '0 : owe_off_q + 32'(owe_bytes);
        state_q   <= Idle;
      end else if (!hold_q || released_i) begin
        hold_q  <= 1'b0;
        more_q  <= 1'b0;
        fetch_q <= 1'b0;
        state_q <= fetch_q ? (here_q ? Copy : Fetch) : more_q ? Acquire2 : Idle;
      end
      OweLoad: state_q <= OwePlan;
      OwePlan: begin
        packet_q       <= owe_packet;
        bytes_inline_q <= 1'b0;
        listed_q       <= 1'b0;
        state_q        <= owe_bytes != '0 ? OweResolve : Emit;
      end
      OweResolve:
      if (resolve_done_i) begin
        owe_failed_q <= !resolve_ok_i;
        state_q      <= resolve_ok_i ? Emit : OwePlan;
      end
      default: state_q <= Idle;
    endcase
    free_q <= free_q + (BufferW + 1)'(payload_pop_i) - (packet_valid_o && packet_ready_i ?
        (BufferW + 1)'((packet_q.bytes + 13'd7) >> 3) : '0);
    if (rst_i) begin
      ended_o    <= 1'b0;
      free_q     <= (BufferW + 1)'(BufferWords);
      state_q    <= Idle;
      owe_turn_q <= 1'b0;
      owe_off_q  <= '0;
      fetch_q    <= 1'b0;
      more_q     <= 1'b0;
      done_q     <= 1'b0;
    end
  end

  logic unused;
  assign unused = ^{owe_i.qp, place_valid};
endmodule
