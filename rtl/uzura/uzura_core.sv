// SPDX-License-Identifier: Apache-2.0
// The UZURA engine: doorbells and DMA on one side, RoCEv2 frames on the other, between them 64 queue
// pairs. docs/uzura.md has its picture, descriptors and ports.
//
// Latency   : docs/uzura.md, locked by the bench.
// Clock     : clk_i, all of it.
// Handshake : valid/ready on each port but rx_*, which is always taken. Reads of host memory do not pass
//             writes that were taken before them.
// Drops     : received frames, each counted; never what the host has asked for.
// Source    : UZURA document, figure 8.
module uzura_core
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
#(
  /// log2 of the words of the card's translation table.
  parameter int unsigned MemW = 10,
  /// Edges from mem_re_o to mem_rdata_i.
  parameter int unsigned MemLatency = 1,
  /// log2 of the words of the buffer for payload to be sent.
  parameter int unsigned BufferW = 11,
  /// log2 of the words of the buffer for received packets; it holds one for each 64 words.
  parameter int unsigned RxBufferW = 11,
  parameter int unsigned ScanCycles = 64
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic [    31:0] now_us_i,
  /// The own addresses.
  output logic [    47:0] mac_o,
  output logic [    31:0] ip_o,
  // Registers: {0, page, offset} doorbells, {1, 0, offset} the kernel's.
  input  logic            reg_valid_i,
  output logic            reg_ready_o,
  input  logic            reg_write_i,
  input  logic [    18:0] reg_addr_i,
  input  logic [    63:0] reg_wdata_i,
  output logic            reg_rvalid_o,
  output logic [    63:0] reg_rdata_o,
  // DMA reads.
  output logic [    63:0] rd_addr_o,
  output logic [    12:0] rd_bytes_o,
  output logic [     2:0] rd_cookie_o,
  output logic            rd_valid_o,
  input  logic            rd_ready_i,
  input  logic [    63:0] rd_data_i,
  input  logic [     2:0] rd_data_cookie_i,
  input  logic            rd_data_last_i,
  input  logic            rd_data_bad_i,
  input  logic            rd_data_valid_i,
  output logic            rd_data_ready_o,
  // DMA writes.
  output logic [    63:0] wr_addr_o,
  output logic [    12:0] wr_bytes_o,
  output logic            wr_valid_o,
  input  logic            wr_ready_i,
  output logic [    63:0] wr_data_o,
  output logic            wr_data_last_o,
  output logic            wr_data_valid_o,
  input  logic            wr_data_ready_i,
  // Frames without FCS.
  input  logic [    63:0] rx_tdata_i,
  input  logic [     7:0] rx_tkeep_i,
  input  logic            rx_tvalid_i,
  input  logic            rx_tlast_i,
  input  logic            rx_tuser_i,
  output logic [    63:0] tx_tdata_o,
  output logic [     7:0] tx_tkeep_o,
  output logic            tx_tvalid_o,
  output logic            tx_tlast_o,
  /// With tx_tvalid_o: the frame is for this engine itself.
  output logic            tx_own_o,
  input  logic            tx_tready_i,
  // A completion queue that was armed has something new.
  output logic            event_valid_o,
  output logic [ CqW-1:0] event_cq_o,
  /// An SRQ is below its limit, a QP that has one has ended, or a CQ had no room: the registers say which.
  output logic            alarm_o,
  // The card's translation table.
  output logic            mem_re_o,
  output logic [MemW-1:0] mem_raddr_o,
  input  logic [    63:0] mem_rdata_i,
  output logic            mem_we_o,
  output logic [MemW-1:0] mem_waddr_o,
  output logic [    63:0] mem_wdata_o,
  output logic            busy_o
);
  localparam int unsigned Owed = 32;
  localparam int unsigned Orders = 4;
  localparam int unsigned CompletionsHeld = 8;

  // ---- Registers ----------------------------------------------------------------------------------
  cfg_t           half_cfg[2];
  logic [QpW-1:0] half_qp [2];
  ctx_t ctx, half_ctx[2];
  logic [Counters-1:0] count;
  logic [        47:0] mac;
  logic [31:0] ip, forget_entry;
  logic [63:0] host_table, cq_base;
  logic stop, quiet, qp_write, qp_init, qp_read, qp_resume;
  logic region_write, cq_write, forget, flush, flush_busy;
  logic [QpW-1:0] qp;
  cfg_t           qp_cfg;
  logic [23:0] sq_psn, rq_psn;
  logic    [RegionW-1:0] region_index;
  region_t               region;
  logic    [    CqW-1:0] cq;
  logic    [        4:0] cq_log2;
  logic srq_write, srq_begin, srq_event, srq_take, qp_ended;
  logic     [  SrqW-1:0] srq_number;
  srq_cfg_t              srq_cfg;
  srq_t                  srq;
  logic     [  Srqs-1:0] srq_below;
  logic     [PlaceW-1:0] srq_link;
  logic     [   CqW-1:0] overflow_cq;

  assign reg_ready_o = 1'b1;
  assign mac_o       = mac;
  assign ip_o        = ip;
  uzura_registers u_registers (
    .clk_i,
    .rst_i,
    .write_i       (reg_valid_i && reg_write_i && reg_addr_i[18]),
    .read_i        (reg_valid_i && !reg_write_i),
    .addr_i        (reg_addr_i[11:0]),
    .wdata_i       (reg_wdata_i),
    .rvalid_o      (reg_rvalid_o),
    .rdata_o       (reg_rdata_o),
    .count_i       (count),
    .mac_o         (mac),
    .ip_o          (ip),
    .host_table_o  (host_table),
    .stop_o        (stop),
    .quiet_i       (quiet),
    .qp_write_o    (qp_write),
    .qp_init_o     (qp_init),
    .qp_read_o     (qp_read),
    .qp_resume_o   (qp_resume),
    .qp_o          (qp),
    .qp_cfg_o      (qp_cfg),
    .qp_sq_psn_o   (sq_psn),
    .qp_rq_psn_o   (rq_psn),
    .region_write_o(region_write),
    .region_index_o(region_index),
    .region_o      (region),
    .cq_write_o    (cq_write),
    .cq_o          (cq),
    .cq_base_o     (cq_base),
    .cq_log2_o     (cq_log2),
    .srq_write_o   (srq_write),
    .srq_begin_o   (srq_begin),
    .srq_o         (srq_number),
    .srq_cfg_o     (srq_cfg),
    .srq_below_i   (srq_below),
    .srq_event_i   (srq_event),
    .ended_i       (qp_ended),
    .ended_qp_i    (half_qp[0]),
    .overflow_i    (count[CntCqOverflow]),
    .overflow_cq_i (overflow_cq),
    .alarm_o,
    .held_i        (ctx.message == InSend),
    .held_index_i  (ctx.rq_next - 16'd1),
    .forget_o      (forget),
    .forget_entry_o(forget_entry),
    .flush_o       (flush),
    .flush_busy_i  (flush_busy)
  );

  logic ring, seen, seen_arm, copy_here;
  logic [1:0] bells, refusals;
  logic [QpW-1:0] ring_qp;
  logic [CqW-1:0] seen_cq;
  logic [15:0] seen_index, seen_known, tx_sq_index, tx_rq_index, rx_rq_index, copy_index;
  logic [ 3:0] copy_word;
  logic [63:0] copy_data;

  uzura_doorbell u_doorbell (
    .clk_i,
    .rst_i,
    .write_i       (reg_valid_i && reg_write_i && !reg_addr_i[18]),
    .addr_i        (reg_addr_i[17:0]),
    .wdata_i       (reg_wdata_i),
    .cfg_write_i   (qp_write),
    .init_i        (qp_init),
    .cfg_qp_i      (qp),
    .cfg_page_i    (qp_cfg.page),
    .cfg_used_i    (qp_cfg.state != QpReset),
    .ring_o        (ring),
    .ring_qp_o     (ring_qp),
    .seen_o        (seen),
    .seen_cq_o     (seen_cq),
    .seen_index_o  (seen_index),
    .seen_known_o  (seen_known),
    .seen_arm_o    (seen_arm),
    .tx_qp_i       (half_qp[0]),
    .tx_sq_index_o (tx_sq_index),
    .tx_rq_index_o (tx_rq_index),
    .rx_qp_i       (half_qp[1]),
    .rx_rq_index_o (rx_rq_index),
    .tx_index_i    (copy_index),
    .here_o        (copy_here),
    .read_word_i   (copy_word),
    .read_data_o   (copy_data),
    .cnt_doorbell_o(bells[0]),
    .cnt_refused_o (refusals[0])
  );

  uzura_srq u_srq (
    .clk_i,
    .rst_i,
    .write_i       (reg_valid_i && reg_write_i && !reg_addr_i[18]),
    .addr_i        (reg_addr_i[17:0]),
    .wdata_i       (reg_wdata_i),
    .cfg_write_i   (srq_write),
    .begin_i       (srq_begin),
    .cfg_srq_i     (srq_number),
    .cfg_i         (srq_cfg),
    .look_i        (half_cfg[1].srq),
    .srq_o         (srq),
    .take_i        (srq_take),
    .link_i        (srq_link),
    .below_o       (srq_below),
    .event_o       (srq_event),
    .cnt_doorbell_o(bells[1]),
    .cnt_refused_o (refusals[1])
  );
  // A store is for one of the two.
  assign count[CntDoorbell]        = |bells;
  assign count[CntDoorbellRefused] = |refusals;

  // ---- State of the queue pairs -------------------------------------------------------------------
  logic [1:0] acquire, granted, let_go, write_back, released;
  logic sent_write;
  logic [QpW+OutW-1:0] sent_waddr, sent_raddr;
  sent_t sent_wdata, sent_rdata;

  uzura_context u_context (
    .clk_i,
    .rst_i,
    .cfg_write_i(qp_write),
    .init_i     (qp_init),
    .cfg_qp_i   (qp),
    .cfg_i      (qp_cfg),
    .read_i     (qp_read),
    .resume_i   (qp_resume),
    .sq_psn_i   (sq_psn),
    .rq_psn_i   (rq_psn),
    .acquire_i  (acquire),
    .qp_i       (half_qp),
    .granted_o  (granted),
    .cfg_o      (half_cfg),
    .ctx_o      (ctx),
    .release_i  (let_go),
    .write_i    (write_back),
    .ctx_i      (half_ctx),
    .released_o (released)
  );

  ram_1r1w #(
    .data_t(sent_t),
    .Depth (Qps * Outstanding)
  ) u_sent (
    .clk_i,
    .we_i   (sent_write),
    .waddr_i(sent_waddr),
    .wdata_i(sent_wdata),
    .re_i   (1'b1),
    .raddr_i(sent_raddr),
    .rdata_o(sent_rdata)
  );

  // ---- Host memory --------------------------------------------------------------------------------
  rd_req_t rd_req[3], rd_out;
  logic [2:0] rd_valid, rd_ready;
  rd_data_t rd_data;
  logic gather_ready, access_busy, dma_busy;
  wr_req_t wr_req[2], wr_out;
  logic [1:0] wr_valid, wr_ready, data_valid, data_ready;
  beat_t data[2], data_out;
  access_t access[2], resolve[2];
  logic [1:0] access_second, access_valid, access_ready, resolve_start, resolve_done, resolve_ok;
  logic answer_valid, end_key_valid;
  answer_t answer;
  logic [63:0] first_pa[2], second_pa[2];
  logic [12:0] first_bytes[2], second_bytes[2];
  logic [31:0] end_key;
  logic [15:0] end_pd;

  assign rd_data = '{
          data: rd_data_i,
          cookie: rd_data_cookie_i,
          last: rd_data_last_i,
          bad: rd_data_bad_i
      };
  assign rd_data_ready_o = rd_data.cookie != ReadPayload || gather_ready;
  assign {rd_addr_o, rd_bytes_o, rd_cookie_o} = rd_out;
  assign {wr_addr_o, wr_bytes_o} = wr_out;
  assign wr_data_o = data_out.data;
  assign wr_data_last_o = data_out.last;
  assign count[CntReadBad] = rd_data_valid_i && rd_data_ready_o && rd_data_last_i && rd_data_bad_i;

  uzura_dma u_dma (
    .clk_i,
    .rst_i,
    .rd_i          (rd_req),
    .rd_valid_i    (rd_valid),
    .rd_ready_o    (rd_ready),
    .m_rd_o        (rd_out),
    .m_rd_valid_o  (rd_valid_o),
    .m_rd_ready_i  (rd_ready_i),
    .wr_i          (wr_req),
    .wr_valid_i    (wr_valid),
    .wr_ready_o    (wr_ready),
    .data_i        (data),
    .data_valid_i  (data_valid),
    .data_ready_o  (data_ready),
    .m_wr_o        (wr_out),
    .m_wr_valid_o  (wr_valid_o),
    .m_wr_ready_i  (wr_ready_i),
    .m_data_o      (data_out),
    .m_data_valid_o(wr_data_valid_o),
    .m_data_ready_i(wr_data_ready_i),
    .busy_o        (dma_busy)
  );

  uzura_access #(
    .MemW      (MemW),
    .MemLatency(MemLatency)
  ) u_access (
    .clk_i,
    .rst_i,
    .host_table_i  (host_table),
    .cfg_write_i   (region_write),
    .cfg_index_i   (region_index),
    .cfg_region_i  (region),
    .end_i         (end_key_valid),
    .end_key_i     (end_key),
    .end_pd_i      (end_pd),
    .flush_i       (flush),
    .forget_i      (forget),
    .forget_entry_i(forget_entry),
    .flush_busy_o  (flush_busy),
    .req_i         (access),
    .req_second_i  (access_second),
    .req_valid_i   (access_valid),
    .req_ready_o   (access_ready),
    .answer_valid_o(answer_valid),
    .answer_o      (answer),
    .mem_re_o,
    .mem_raddr_o,
    .mem_rdata_i,
    .mem_we_o,
    .mem_waddr_o,
    .mem_wdata_o,
    .m_rd_o        (rd_req[2]),
    .m_rd_valid_o  (rd_valid[2]),
    .m_rd_ready_i  (rd_ready[2]),
    .s_rd_i        (rd_data),
    .s_rd_valid_i  (rd_data_valid_i),
    .cnt_denied_o  (count[CntAccessDenied]),
    .cnt_miss_o    (count[CntTableMiss]),
    .cnt_fault_o   (count[CntTableFault]),
    .busy_o        (access_busy)
  );

  for (genvar i = 0; i < 2; i++) begin : gen_resolve
    uzura_resolve #(
      .Asker(1'(i))
    ) u_resolve (
      .clk_i,
      .rst_i,
      .start_i       (resolve_start[i]),
      .access_i      (resolve[i]),
      .done_o        (resolve_done[i]),
      .ok_o          (resolve_ok[i]),
      .first_pa_o    (first_pa[i]),
      .first_bytes_o (first_bytes[i]),
      .second_pa_o   (second_pa[i]),
      .second_bytes_o(second_bytes[i]),
      .req_o         (access[i]),
      .req_second_o  (access_second[i]),
      .req_valid_o   (access_valid[i]),
      .req_ready_i   (access_ready[i]),
      .answer_valid_i(answer_valid),
      .answer_i      (answer)
    );
  end

  // ---- Requester ------------------------------------------------------------------------------------
  logic work_valid, work_take, look_end, look_again, look_waits, kick, work_busy, tx_idle;
  logic [QpW-1:0] work_qp;
  owe_t owe_in, owe;
  logic owe_in_valid, owe_in_ready, owe_valid, owe_take;
  logic [12:0] piece_bytes;
  logic piece_last, piece_inline, piece_valid, piece_ready, inline_valid, inline_ready;
  logic [63:0] inline_data;
  packet_t order_in, order;
  logic order_in_valid, order_in_ready, order_valid, order_ready;
  completion_t tx_cqe, rx_cqe, cqe;
  logic tx_cqe_valid, tx_cqe_ready, rx_cqe_valid, cqe_valid, cqe_ready, cqe_room;
  typedef struct packed {
    logic  bad;
    beat_t beat;
  } payload_t;
  payload_t gathered, payload;
  logic gathered_valid, gathered_ready, payload_valid, payload_ready, gather_busy, header_busy;
  logic [1:0] rewinds;

  uzura_scheduler #(
    .ScanCycles(ScanCycles)
  ) u_scheduler (
    .clk_i,
    .rst_i,
    .ring_i   (ring),
    .ring_qp_i(ring_qp),
    .kick_i   (kick),
    .kick_qp_i(half_qp[1]),
    .again_i  (look_again),
    .end_i    (look_end),
    .waits_i  (look_waits),
    .end_qp_i (half_qp[0]),
    .valid_o  (work_valid),
    .qp_o     (work_qp),
    .take_i   (work_take),
    .busy_o   (work_busy)
  );

  uzura_tx #(
    .BufferW(BufferW)
  ) u_tx (
    .clk_i,
    .rst_i,
    .now_us_i,
    .stop_i         (stop),
    .idle_o         (tx_idle),
    .work_valid_i   (work_valid),
    .work_qp_i      (work_qp),
    .work_take_o    (work_take),
    .end_o          (look_end),
    .end_again_o    (look_again),
    .end_waits_o    (look_waits),
    .qp_o           (half_qp[0]),
    .acquire_o      (acquire[0]),
    .granted_i      (granted[0]),
    .cfg_i          (half_cfg[0]),
    .ctx_i          (ctx),
    .release_o      (let_go[0]),
    .write_o        (write_back[0]),
    .ctx_o          (half_ctx[0]),
    .released_i     (released[0]),
    .sent_write_o   (sent_write),
    .sent_addr_o    (sent_waddr),
    .sent_o         (sent_wdata),
    .sq_index_i     (tx_sq_index),
    .rq_index_i     (tx_rq_index),
    .copy_index_o   (copy_index),
    .copy_here_i    (copy_here),
    .copy_word_o    (copy_word),
    .copy_data_i    (copy_data),
    .owe_i          (owe),
    .owe_valid_i    (owe_valid),
    .owe_take_o     (owe_take),
    .resolve_start_o(resolve_start[0]),
    .resolve_o      (resolve[0]),
    .resolve_done_i (resolve_done[0]),
    .resolve_ok_i   (resolve_ok[0]),
    .first_pa_i     (first_pa[0]),
    .first_bytes_i  (first_bytes[0]),
    .second_pa_i    (second_pa[0]),
    .second_bytes_i (second_bytes[0]),
    .m_rd_o         (rd_req[0]),
    .m_rd_valid_o   (rd_valid[0]),
    .m_rd_ready_i   (rd_ready[0]),
    .s_rd_i         (rd_data),
    .s_rd_valid_i   (rd_data_valid_i),
    .piece_bytes_o  (piece_bytes),
    .piece_last_o   (piece_last),
    .piece_inline_o (piece_inline),
    .piece_valid_o  (piece_valid),
    .piece_ready_i  (piece_ready),
    .inline_data_o  (inline_data),
    .inline_valid_o (inline_valid),
    .inline_ready_i (inline_ready),
    .payload_pop_i  (payload_valid && payload_ready),
    .packet_o       (order_in),
    .packet_valid_o (order_in_valid),
    .packet_ready_i (order_in_ready),
    .cqe_o          (tx_cqe),
    .cqe_valid_o    (tx_cqe_valid),
    .cqe_ready_i    (tx_cqe_ready),
    .ended_o        (qp_ended),
    .cnt_packet_o   (count[CntTxPacket]),
    .cnt_rewind_o   (rewinds[0]),
    .cnt_timeout_o  (count[CntTxTimeout]),
    .cnt_bad_wqe_o  (count[CntTxBadWqe]),
    .cnt_inline_o   (count[CntInlineTaken])
  );
  // Two at one edge count once.
  assign count[CntTxRewind] = |rewinds;

  uzura_gather u_gather (
    .clk_i,
    .rst_i,
    .piece_bytes_i (piece_bytes),
    .piece_last_i  (piece_last),
    .piece_inline_i(piece_inline),
    .piece_valid_i (piece_valid),
    .piece_ready_o (piece_ready),
    .s_rd_i        (rd_data),
    .s_rd_valid_i  (rd_data_valid_i && rd_data.cookie == ReadPayload),
    .s_rd_ready_o  (gather_ready),
    .inline_data_i (inline_data),
    .inline_valid_i(inline_valid),
    .inline_ready_o(inline_ready),
    .beat_o        (gathered.beat),
    .bad_o         (gathered.bad),
    .beat_valid_o  (gathered_valid),
    .beat_ready_i  (gathered_ready),
    .busy_o        (gather_busy)
  );
  uzura_fifo #(
    .data_t(payload_t),
    .Depth (1 << BufferW)
  ) u_payload (
    .clk_i,
    .rst_i,
    .wdata_i (gathered),
    .wvalid_i(gathered_valid),
    .wready_o(gathered_ready),
    .rdata_o (payload),
    .rvalid_o(payload_valid),
    .rready_i(payload_ready)
  );
  sync_fifo #(
    .data_t(packet_t),
    .Depth (Orders)
  ) u_orders (
    .clk_i,
    .rst_i,
    .wdata_i (order_in),
    .wvalid_i(order_in_valid),
    .wready_o(order_in_ready),
    .rdata_o (order),
    .rvalid_o(order_valid),
    .rready_i(order_ready),
    .count_o ()
  );
  roce_header u_header (
    .clk_i,
    .rst_i,
    .mac_i          (mac),
    .ip_i           (ip),
    .packet_i       (order),
    .packet_valid_i (order_valid),
    .packet_ready_o (order_ready),
    .payload_i      (payload.beat),
    .payload_bad_i  (payload.bad),
    .payload_valid_i(payload_valid),
    .payload_ready_o(payload_ready),
    .m_tdata_o      (tx_tdata_o),
    .m_tkeep_o      (tx_tkeep_o),
    .m_tvalid_o     (tx_tvalid_o),
    .m_tlast_o      (tx_tlast_o),
    .m_own_o        (tx_own_o),
    .m_tready_i     (tx_tready_i),
    .busy_o         (header_busy)
  );

  // ---- Receiver -------------------------------------------------------------------------------------
  logic [63:0] parsed_data, buffer_data, place_data;
  logic parsed_data_valid, parsed_valid, parsed_drop, head_valid, head_take, buffer_re;
  packet_t parsed, head;
  logic [RxBufferW-1:0] head_base, buffer_addr;
  logic [12:0] place_from;
  logic place_start, place_word, place_done, place_busy, rx_idle, parser_busy, buffer_busy;

  roce_parser u_parser (
    .clk_i,
    .rst_i,
    .mac_i          (mac),
    .ip_i           (ip),
    .s_tdata_i      (rx_tdata_i),
    .s_tkeep_i      (rx_tkeep_i),
    .s_tvalid_i     (rx_tvalid_i),
    .s_tlast_i      (rx_tlast_i),
    .s_tuser_i      (rx_tuser_i),
    .payload_o      (parsed_data),
    .payload_valid_o(parsed_data_valid),
    .packet_o       (parsed),
    .packet_valid_o (parsed_valid),
    .drop_o         (parsed_drop),
    .cnt_other_o    (count[CntRxOther]),
    .cnt_broken_o   (count[CntRxBroken]),
    .cnt_malformed_o(count[CntRxMalformed]),
    .busy_o         (parser_busy)
  );
  uzura_rx_buffer #(
    .BufferW(RxBufferW),
    .Packets(1 << (RxBufferW - 6))
  ) u_buffer (
    .clk_i,
    .rst_i,
    .payload_i      (parsed_data),
    .payload_valid_i(parsed_data_valid),
    .packet_i       (parsed),
    .packet_valid_i (parsed_valid),
    .drop_i         (parsed_drop),
    .head_o         (head),
    .head_valid_o   (head_valid),
    .head_base_o    (head_base),
    .take_i         (head_take),
    .re_i           (buffer_re),
    .raddr_i        (buffer_addr),
    .rdata_o        (buffer_data),
    .cnt_overflow_o (count[CntRxOverflow]),
    .busy_o         (buffer_busy)
  );
  uzura_rx u_rx (
    .clk_i,
    .rst_i,
    .now_us_i,
    .stop_i          (stop),
    .idle_o          (rx_idle),
    .head_i          (head),
    .head_valid_i    (head_valid),
    .head_take_o     (head_take),
    .qp_o            (half_qp[1]),
    .acquire_o       (acquire[1]),
    .granted_i       (granted[1]),
    .cfg_i           (half_cfg[1]),
    .ctx_i           (ctx),
    .release_o       (let_go[1]),
    .write_o         (write_back[1]),
    .ctx_o           (half_ctx[1]),
    .released_i      (released[1]),
    .sent_addr_o     (sent_raddr),
    .sent_i          (sent_rdata),
    .rq_index_i      (rx_rq_index),
    .srq_i           (srq),
    .srq_take_o      (srq_take),
    .srq_link_o      (srq_link),
    .kick_o          (kick),
    .resolve_start_o (resolve_start[1]),
    .resolve_o       (resolve[1]),
    .resolve_done_i  (resolve_done[1]),
    .resolve_ok_i    (resolve_ok[1]),
    .first_pa_i      (first_pa[1]),
    .end_o           (end_key_valid),
    .end_key_o       (end_key),
    .end_pd_o        (end_pd),
    .place_start_o   (place_start),
    .place_word_o    (place_word),
    .place_from_o    (place_from),
    .place_data_o    (place_data),
    .place_done_i    (place_done),
    .m_rd_o          (rd_req[1]),
    .m_rd_valid_o    (rd_valid[1]),
    .m_rd_ready_i    (rd_ready[1]),
    .s_rd_i          (rd_data),
    .s_rd_valid_i    (rd_data_valid_i),
    .owe_o           (owe_in),
    .owe_valid_o     (owe_in_valid),
    .owe_ready_i     (owe_in_ready),
    .cqe_o           (rx_cqe),
    .cqe_valid_o     (rx_cqe_valid),
    .cqe_ready_i     (cqe_room),
    .cnt_packet_o    (count[CntRxPacket]),
    .cnt_no_qp_o     (count[CntRxNoQp]),
    .cnt_duplicate_o (count[CntRxDuplicate]),
    .cnt_sequence_o  (count[CntRxSequence]),
    .cnt_invalid_o   (count[CntRxInvalid]),
    .cnt_access_o    (count[CntRxAccess]),
    .cnt_operation_o (count[CntRxOperation]),
    .cnt_not_ready_o (count[CntRxNotReady]),
    .cnt_ghost_o     (count[CntRxGhost]),
    .cnt_rewind_o    (rewinds[1]),
    .cnt_congestion_o(count[CntRxCongestion])
  );
  uzura_scatter #(
    .BufferW(RxBufferW)
  ) u_scatter (
    .clk_i,
    .rst_i,
    .start_i       (place_start),
    .immediate_i   (place_word),
    .word_i        (place_data),
    .base_i        (head_base),
    .from_i        (place_from),
    .first_pa_i    (first_pa[1]),
    .first_bytes_i (first_bytes[1]),
    .second_pa_i   (second_pa[1]),
    .second_bytes_i(second_bytes[1]),
    .done_o        (place_done),
    .busy_o        (place_busy),
    .buffer_re_o   (buffer_re),
    .buffer_addr_o (buffer_addr),
    .buffer_data_i (buffer_data),
    .m_wr_o        (wr_req[0]),
    .m_wr_valid_o  (wr_valid[0]),
    .m_wr_ready_i  (wr_ready[0]),
    .m_data_o      (data[0]),
    .m_data_valid_o(data_valid[0]),
    .m_data_ready_i(data_ready[0])
  );
  sync_fifo #(
    .data_t(owe_t),
    .Depth (Owed)
  ) u_owed (
    .clk_i,
    .rst_i,
    .wdata_i (owe_in),
    .wvalid_i(owe_in_valid),
    .wready_o(owe_in_ready),
    .rdata_o (owe),
    .rvalid_o(owe_valid),
    .rready_i(owe_take),
    .count_o ()
  );

  // ---- Completions: the receiver's go first -----------------------------------------------------
  assign tx_cqe_ready = cqe_room && !rx_cqe_valid;
  sync_fifo #(
    .data_t(completion_t),
    .Depth (CompletionsHeld)
  ) u_completions (
    .clk_i,
    .rst_i,
    .wdata_i (rx_cqe_valid ? rx_cqe : tx_cqe),
    .wvalid_i(rx_cqe_valid || tx_cqe_valid),
    .wready_o(cqe_room),
    .rdata_o (cqe),
    .rvalid_o(cqe_valid),
    .rready_i(cqe_ready),
    .count_o ()
  );
  logic completer_busy;
  uzura_completer u_completer (
    .clk_i,
    .rst_i,
    .cfg_write_i   (cq_write),
    .cfg_cq_i      (cq),
    .cfg_base_i    (cq_base),
    .cfg_log2_i    (cq_log2),
    .seen_i        (seen),
    .seen_cq_i     (seen_cq),
    .seen_index_i  (seen_index),
    .seen_known_i  (seen_known),
    .seen_arm_i    (seen_arm),
    .in_i          (cqe),
    .in_valid_i    (cqe_valid),
    .in_ready_o    (cqe_ready),
    .m_wr_o        (wr_req[1]),
    .m_wr_valid_o  (wr_valid[1]),
    .m_wr_ready_i  (wr_ready[1]),
    .m_data_o      (data[1]),
    .m_data_valid_o(data_valid[1]),
    .m_data_ready_i(data_ready[1]),
    .event_o       (event_valid_o),
    .event_cq_o    (event_cq_o),
    .cnt_cqe_o     (count[CntCqe]),
    .cnt_error_o   (count[CntCqeError]),
    .cnt_overflow_o(count[CntCqOverflow]),
    .overflow_cq_o (overflow_cq),
    .busy_o        (completer_busy)
  );

  // What a command changes nobody uses: no packet is judged, no data are read or written.
  assign quiet = tx_idle && rx_idle && !access_busy && !gather_busy && !dma_busy &&
      !completer_busy && !place_busy;
  assign busy_o = !quiet || stop || work_busy || parser_busy || buffer_busy || header_busy ||
      flush_busy || payload_valid || order_valid;
  logic unused;
  assign unused = ^{data_out.bytes, reg_addr_i};
endmodule
