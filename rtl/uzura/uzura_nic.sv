// SPDX-License-Identifier: Apache-2.0
// The UZURA engine as a NIC without its MAC: TLP streams on one side, Ethernet streams on the other.
//
// The engine runs on the network's clock. Between the clocks lie queues: doorbells and completed reads towards the engine,
// reads, writes and events towards the host. BAR 0 has registers, BAR 2 the doorbell pages, 4 KB for each process.
//
// Latency   : a store's last beat in to the engine's doorbell 5 cycles of clk_pcie_i and 2 to 3 of clk_net_i; a read from
//             the engine to its TLP's first beat 1 of clk_net_i and 4 to 5 of clk_pcie_i; its last data in to the engine's first
//             beat 4 of clk_pcie_i and 4 to 5 of clk_net_i. A frame waits until it is whole.
// Clock     : clk_pcie_i, clk_net_i, asynchronous to each other.
// Handshake : streams as axis_if says; s_eth is watched, m_eth is announced by start_o as the transmitters ask for it.
// Drops     : every TLP and frame that is dropped is counted.
// Source    : own; docs/uzura.md.
module uzura_nic
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import reg_bus_pkg::*;
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
  import uzura_nic_pkg::*;
#(
  /// log2 of the words of the translation table, see uzura.
  parameter int unsigned MemW = 10,
  /// log2 of the words of the buffer for received packets: by default all that one peer may send ahead.
  parameter int unsigned RxBufferW = 13,
  /// DMA reads in flight; a power of two, 16 at most.
  parameter int unsigned ReadTags = 16,
  /// Words of 8 bytes of the buffer for DMA writes; a power of two.
  parameter int unsigned WriteWords = 1024,
  /// A microsecond is TickParts / TickCycles cycles of clk_net_i.
  parameter int unsigned TickParts = 625,
  parameter int unsigned TickCycles = 4
) (
  input  logic              clk_pcie_i,
  input  logic              rst_pcie_i,
  input  logic              clk_net_i,
  input  logic              rst_net_i,
  input  logic       [15:0] completer_id_i,
  /// Time for time-outs of DMA reads, microseconds, wrapping; sampled by clk_pcie_i. The engine counts its own, which
  /// stands still while nothing of it waits and the clock is stopped.
  input  logic       [31:0] now_us_i,
  /// The PHY has a link; asynchronous.
  input  logic              link_up_i,
  /// The own addresses, in clk_net_i.
  output logic       [47:0] mac_o,
  output logic       [31:0] ip_o,
  /// From the root complex; tuser is the BAR hit.
         axis_if.snk        s_tlp,
  /// To the root complex.
         axis_if.src        m_tlp,
  /// From the receiver, FCS included; tuser is 1 with the tlast of a bad frame.
         axis_if.mon        s_eth,
  /// To the transmitter, without FCS.
  output logic              start_o,
  input  logic              ready_start_i,
         axis_if.src        m_eth,
  output logic              busy_pcie_o,
  output logic              busy_net_o
);
  localparam int unsigned Doors = 16;
  localparam int unsigned Chunks = 32;
  localparam int unsigned SlotW = $clog2(ReadTags);
  localparam int unsigned WordW = $clog2(WriteWords);
  localparam int unsigned TickW = $clog2(TickParts + TickCycles);

  logic [PcieCounters-1:0] pcie_event;

  // ---- Registers ----------------------------------------------------------------------------------
  reg_req_t req, net_req, far_req;
  reg_rsp_t rsp, net_rsp, far_rsp;
  logic [63:0] msi_address;
  logic [31:0] msi_data, read_timeout_us;
  logic [15:0] msi_moderation_us;
  logic [ 1:0] max_read;
  logic interrupt, link, busy_registers, far_busy;

  uzura_nic_registers u_registers (
    .clk_i              (clk_pcie_i),
    .rst_i              (rst_pcie_i),
    .req_i              (req),
    .rsp_o              (rsp),
    .net_req_o          (net_req),
    .net_rsp_i          (net_rsp),
    .event_i            (pcie_event),
    .link_i             (link),
    .msi_address_o      (msi_address),
    .msi_data_o         (msi_data),
    .msi_moderation_us_o(msi_moderation_us),
    .interrupt_o        (interrupt),
    .read_timeout_us_o  (read_timeout_us),
    .max_read_o         (max_read),
    .busy_o             (busy_registers)
  );

  reg_cdc u_reg_cdc (
    .src_clk_i (clk_pcie_i),
    .src_rst_i (rst_pcie_i),
    .src_req_i (net_req),
    .src_rsp_o (net_rsp),
    .dst_clk_i (clk_net_i),
    .dst_rst_i (rst_net_i),
    .dst_req_o (far_req),
    .dst_rsp_i (far_rsp),
    .dst_busy_o(far_busy)
  );

  sync_ff u_link (
    .clk_i(clk_pcie_i),
    .d_i  (link_up_i),
    .q_o  (link)
  );

  // ---- From and to the root complex ---------------------------------------------------------------
  axis_if #(
    .DataW(64),
    .UserW(1)
  )
      write_tlp (), completer_tlp (), error_tlp (), read_tlp ();

  reg_op_t reg_op;
  page_op_t page_op, page_op_q;
  logic reg_op_valid, reg_op_ready, reg_read_ok;
  logic page_first, page_end, store_ready, page_even_we, page_odd_we;
  logic [4:0] page_even_idx, page_odd_idx;
  logic [31:0] page_even_data, page_odd_data;
  logic cpl_even_we, cpl_odd_we, cpl_valid;
  logic [4:0] cpl_even_idx, cpl_odd_idx;
  logic [31:0] cpl_even_data, cpl_odd_data;
  cpl_head_t        cpl_head;
  cpl_error_t       cpl_error       [2];
  logic       [1:0] cpl_error_ready;
  cpl_error_t rx_error, rx_error_q, refusal_q, load_error;
  logic rx_error_valid, rx_error_valid_q, refused_q, load_end_q;
  logic [11:0] load_count;
  logic        hold_q;  // a write of the engine was on its way
  logic busy_tlp_rx, busy_completer, busy_cpl_error, busy_stores, busy_write;

  tlp_rx #(
    .Pages     (64),
    .PostedData(64),
    .CplWords  (128 * ReadTags)
  ) u_tlp_rx (
    .clk_i                (clk_pcie_i),
    .rst_i                (rst_pcie_i),
    .s_axis               (s_tlp),
    .reg_op_o             (reg_op),
    .reg_op_valid_o       (reg_op_valid),
    .reg_op_ready_i       (reg_op_ready),
    .reg_read_ok_i        (reg_read_ok),
    .page_look_o          (),
    .page_op_o            (page_op),
    .page_first_o         (page_first),
    .page_end_o           (page_end),
    .page_active_o        (),
    .page_store_ready_i   (store_ready),
    .page_load_ready_i    (!refused_q),
    .page_pay_even_we_o   (page_even_we),
    .page_pay_odd_we_o    (page_odd_we),
    .page_pay_even_idx_o  (page_even_idx),
    .page_pay_even_data_o (page_even_data),
    .page_pay_odd_idx_o   (page_odd_idx),
    .page_pay_odd_data_o  (page_odd_data),
    .cpl_pay_even_we_o    (cpl_even_we),
    .cpl_pay_odd_we_o     (cpl_odd_we),
    .cpl_pay_even_idx_o   (cpl_even_idx),
    .cpl_pay_even_data_o  (cpl_even_data),
    .cpl_pay_odd_idx_o    (cpl_odd_idx),
    .cpl_pay_odd_data_o   (cpl_odd_data),
    .cpl_active_o         (),
    .cpl_valid_o          (cpl_valid),
    .cpl_head_o           (cpl_head),
    .cpl_ready_i          (1'b1),
    .rx_error_o           (rx_error),
    .rx_error_valid_o     (rx_error_valid),
    .cnt_tlp_page_beyond_o(pcie_event[CntTlpPageBeyond]),
    .cnt_tlp_unsupported_o(pcie_event[CntTlpUnsupported]),
    .cnt_tlp_poisoned_o   (pcie_event[CntTlpPoisoned]),
    .cnt_tlp_malformed_o  (pcie_event[CntTlpMalformed]),
    .busy_o               (busy_tlp_rx)
  );

  completer u_completer (
    .clk_i                   (clk_pcie_i),
    .rst_i                   (rst_pcie_i),
    .completer_id_i,
    .op_i                    (reg_op),
    .op_valid_i              (reg_op_valid),
    .op_ready_o              (reg_op_ready),
    .read_ok_o               (reg_read_ok),
    .req_o                   (req),
    .rsp_i                   (rsp),
    .m_axis                  (completer_tlp),
    .answer_o                (),
    // What the engine had written before it answered goes first: the command that ends is seen behind it. It is
    // here two cycles before the answer is kept.
    .hold_i                  (hold_q),
    .cnt_tlp_register_write_o(pcie_event[CntTlpRegisterWrite]),
    .cnt_tlp_register_read_o (pcie_event[CntTlpRegisterRead]),
    .cnt_register_refused_o  (pcie_event[CntRegisterRefused]),
    .busy_o                  (busy_completer)
  );

  always_ff @(posedge clk_pcie_i) hold_q <= busy_write;

  // Doorbell pages can't be read. One refusal at a time; a read waits for the one before it. It is made a cycle
  // behind the TLP's end: the next one that may be refused has a word in front of the one that asks.
  assign load_count = read_byte_count(
      {3'd0, page_op_q.length}, page_op_q.first_be, page_op_q.last_be
  );
  assign load_error = '{
          requester_id: page_op_q.requester_id,
          tag: page_op_q.tag,
          tc: page_op_q.tc,
          attr: page_op_q.attr,
          locked: 1'b0,
          status: CPL_UR,
          byte_count: load_count,
          lower_address: {page_op_q.offset[6:2], first_byte(page_op_q.first_be)}
      };
  always_ff @(posedge clk_pcie_i) begin
    if (page_first) page_op_q <= page_op;
    rx_error_q <= rx_error;
    if (rx_error_valid_q) refusal_q <= rx_error_q;
    else if (load_end_q) refusal_q <= load_error;
    if (rst_pcie_i) begin
      rx_error_valid_q <= 1'b0;
      load_end_q       <= 1'b0;
      refused_q        <= 1'b0;
    end else begin
      rx_error_valid_q <= rx_error_valid;
      load_end_q       <= page_end && (page_first ? page_op.is_load : page_op_q.is_load);
      if (rx_error_valid_q || load_end_q) refused_q <= 1'b1;
      else if (cpl_error_ready[0]) refused_q <= 1'b0;
    end
  end
  assign cpl_error[0] = refusal_q;
  assign cpl_error[1] = '0;
  cpl_error u_cpl_error (
    .clk_i        (clk_pcie_i),
    .rst_i        (rst_pcie_i),
    .completer_id_i,
    .error_i      (cpl_error),
    .error_valid_i({1'b0, refused_q}),
    .error_ready_o(cpl_error_ready),
    .m_axis       (error_tlp),
    .busy_o       (busy_cpl_error)
  );

  // Writes first: no completion of the CPU's reads may pass them.
  tlp_tx u_tlp_tx (
    .clk_i   (clk_pcie_i),
    .rst_i   (rst_pcie_i),
    .s_first (write_tlp),
    .s_second(completer_tlp),
    .s_third (error_tlp),
    .s_fourth(read_tlp),
    .m_axis  (m_tlp)
  );

  // ---- Doorbells ----------------------------------------------------------------------------------
  door_t door, far_door;
  logic door_valid, door_ready, far_door_valid, far_door_ready;

  uzura_stores u_stores (
    .clk_i        (clk_pcie_i),
    .rst_i        (rst_pcie_i),
    .op_i         (page_op),
    .first_i      (page_first),
    .end_i        (page_end),
    .store_ready_o(store_ready),
    .even_we_i    (page_even_we),
    .odd_we_i     (page_odd_we),
    .even_idx_i   (page_even_idx),
    .even_data_i  (page_even_data),
    .odd_idx_i    (page_odd_idx),
    .odd_data_i   (page_odd_data),
    .door_o       (door),
    .door_valid_o (door_valid),
    .door_ready_i (door_ready),
    .cnt_refused_o(pcie_event[CntStoreRefused]),
    .busy_o       (busy_stores)
  );

  async_fifo #(
    .data_t(door_t),
    .Depth (Doors)
  ) u_doors (
    .wclk_i  (clk_pcie_i),
    .wrst_i  (rst_pcie_i),
    .wdata_i (door),
    .wvalid_i(door_valid),
    .wready_o(door_ready),
    .wcount_o(),
    .rclk_i  (clk_net_i),
    .rrst_i  (rst_net_i),
    .rdata_o (far_door),
    .rvalid_o(far_door_valid),
    .rready_i(far_door_ready)
  );

  logic reg_valid, reg_write, reg_rvalid, busy_port;
  logic [18:0] reg_addr;
  logic [63:0] reg_wdata, reg_rdata;
  uzura_register_port u_port (
    .clk_i       (clk_net_i),
    .rst_i       (rst_net_i),
    .req_i       (far_req),
    .rsp_o       (far_rsp),
    .door_i      (far_door),
    .door_valid_i(far_door_valid),
    .door_ready_o(far_door_ready),
    .valid_o     (reg_valid),
    .write_o     (reg_write),
    .addr_o      (reg_addr),
    .wdata_o     (reg_wdata),
    .rvalid_i    (reg_rvalid),
    .rdata_i     (reg_rdata),
    .busy_o      (busy_port)
  );

  // ---- DMA reads ----------------------------------------------------------------------------------
  read_t far_read, read;
  logic far_read_valid, far_read_ready, read_valid, read_ready;
  logic [OrderW-1:0] order, written;
  logic [63:0] rd_addr;
  logic [12:0] rd_bytes;
  logic [ 2:0] rd_cookie;
  piece_t piece, far_piece;
  logic piece_valid, piece_ready, far_piece_valid, far_piece_take, freed, far_freed, busy_read;
  logic [      1:0]       slot_we;
  logic [SlotW-1:0]       slot;
  logic [      1:0][ 5:0] slot_word;
  logic [      1:0][31:0] slot_data;
  logic slot_re, rd_valid, rd_ready, busy_stream;
  logic     [ 3:0] far_slot;
  logic     [ 5:0] far_word;
  logic     [63:0] far_data;
  rd_data_t        rd;

  assign far_read = '{addr: rd_addr, bytes: rd_bytes, cookie: rd_cookie, behind: order};
  async_fifo #(
    .data_t(read_t),
    .Depth (4)
  ) u_reads (
    .wclk_i  (clk_net_i),
    .wrst_i  (rst_net_i),
    .wdata_i (far_read),
    .wvalid_i(far_read_valid),
    .wready_o(far_read_ready),
    .wcount_o(),
    .rclk_i  (clk_pcie_i),
    .rrst_i  (rst_pcie_i),
    .rdata_o (read),
    .rvalid_o(read_valid),
    .rready_i(read_ready)
  );

  uzura_dma_read #(
    .Tags(ReadTags)
  ) u_dma_read (
    .clk_i            (clk_pcie_i),
    .rst_i            (rst_pcie_i),
    .completer_id_i,
    .now_us_i,
    .timeout_us_i     (read_timeout_us),
    .max_read_i       (max_read),
    .read_i           (read),
    .read_valid_i     (read_valid),
    .read_ready_o     (read_ready),
    .written_i        (written),
    .m_tlp            (read_tlp),
    .cpl_pay_even_we_i(cpl_even_we),
    .cpl_pay_odd_we_i (cpl_odd_we),
    .pay_even_idx_i   (cpl_even_idx),
    .pay_even_data_i  (cpl_even_data),
    .pay_odd_idx_i    (cpl_odd_idx),
    .pay_odd_data_i   (cpl_odd_data),
    .cpl_valid_i      (cpl_valid),
    .cpl_head_i       (cpl_head),
    .we_o             (slot_we),
    .slot_o           (slot),
    .word_o           (slot_word),
    .data_o           (slot_data),
    .piece_o          (piece),
    .piece_valid_o    (piece_valid),
    .piece_ready_i    (piece_ready),
    .freed_i          (freed),
    .cnt_read_o       (pcie_event[CntDmaRead]),
    .cnt_completion_o (pcie_event[CntTlpCompletion]),
    .cnt_unexpected_o (pcie_event[CntTlpCompletionUnexpected]),
    .cnt_timeout_o    (pcie_event[CntDmaReadTimeout]),
    .cnt_failed_o     (pcie_event[CntDmaReadFailed]),
    .busy_o           (busy_read)
  );

  for (genvar b = 0; b < 2; b++) begin : gen_slots
    ram_2clk #(
      .data_t  (logic [31:0]),
      .Depth   (ReadTags * PieceWords),
      .InitZero(1'b0)
    ) u_ram (
      .wclk_i (clk_pcie_i),
      .we_i   (slot_we[b]),
      .waddr_i({slot, slot_word[b]}),
      .wdata_i(slot_data[b]),
      .rclk_i (clk_net_i),
      .re_i   (slot_re),
      .raddr_i({far_slot[SlotW-1:0], far_word}),
      .rdata_o(far_data[32*b+:32])
    );
  end

  async_fifo #(
    .data_t(piece_t),
    .Depth (ReadTags)
  ) u_pieces (
    .wclk_i  (clk_pcie_i),
    .wrst_i  (rst_pcie_i),
    .wdata_i (piece),
    .wvalid_i(piece_valid),
    .wready_o(piece_ready),
    .wcount_o(),
    .rclk_i  (clk_net_i),
    .rrst_i  (rst_net_i),
    .rdata_o (far_piece),
    .rvalid_o(far_piece_valid),
    .rready_i(far_piece_take)
  );

  // As deep as there are slots, so it always has room.
  logic freed_room;
  async_fifo #(
    .data_t(logic),
    .Depth (ReadTags)
  ) u_freed (
    .wclk_i  (clk_net_i),
    .wrst_i  (rst_net_i),
    .wdata_i (1'b0),
    .wvalid_i(far_freed),
    .wready_o(freed_room),
    .wcount_o(),
    .rclk_i  (clk_pcie_i),
    .rrst_i  (rst_pcie_i),
    .rdata_o (),
    .rvalid_o(freed),
    .rready_i(1'b1)
  );

  uzura_read_stream u_stream (
    .clk_i        (clk_net_i),
    .rst_i        (rst_net_i),
    .piece_i      (far_piece),
    .piece_valid_i(far_piece_valid),
    .piece_take_o (far_piece_take),
    .freed_o      (far_freed),
    .re_o         (slot_re),
    .slot_o       (far_slot),
    .word_o       (far_word),
    .data_i       (far_data),
    .rd_o         (rd),
    .rd_valid_o   (rd_valid),
    .rd_ready_i   (rd_ready),
    .busy_o       (busy_stream)
  );

  // ---- DMA writes and interrupts --------------------------------------------------------------------
  logic [63:0] wr_addr, wr_data, stage_data;
  logic [12:0] wr_bytes;
  logic wr_valid, wr_ready, wr_data_last, wr_data_valid, wr_data_ready, event_valid, alarm;
  logic stage_we, far_chunk_valid, far_chunk_ready, chunk_valid, chunk_take, arrived, busy_stage;
  logic [WordW-1:0] stage_word, done_word, freed_word;
  logic done_valid, done_ready, freed_word_valid, write_re;
  logic [1:0][WordW-1:0] write_word;
  logic [1:0][     31:0] write_data;
  chunk_t far_chunk, chunk;
  logic msi_valid, msi_done, busy_msi;

  uzura_write_stage #(
    .Words(WriteWords)
  ) u_stage (
    .clk_i        (clk_net_i),
    .rst_i        (rst_net_i),
    .wr_addr_i    (wr_addr),
    .wr_bytes_i   (wr_bytes),
    .wr_valid_i   (wr_valid),
    .wr_ready_o   (wr_ready),
    .data_i       (wr_data),
    .data_last_i  (wr_data_last),
    .data_valid_i (wr_data_valid),
    .data_ready_o (wr_data_ready),
    .event_i      (event_valid || alarm),
    .order_o      (order),
    .we_o         (stage_we),
    .waddr_o      (stage_word),
    .wdata_o      (stage_data),
    .chunk_o      (far_chunk),
    .chunk_valid_o(far_chunk_valid),
    .chunk_ready_i(far_chunk_ready),
    .freed_word_i (freed_word),
    .freed_valid_i(freed_word_valid),
    .busy_o       (busy_stage)
  );

  for (genvar b = 0; b < 2; b++) begin : gen_writes
    ram_2clk #(
      .data_t  (logic [31:0]),
      .Depth   (WriteWords),
      .InitZero(1'b0)
    ) u_ram (
      .wclk_i (clk_net_i),
      .we_i   (stage_we),
      .waddr_i(stage_word),
      .wdata_i(stage_data[32*b+:32]),
      .rclk_i (clk_pcie_i),
      .re_i   (write_re),
      .raddr_i(write_word[b]),
      .rdata_o(write_data[b])
    );
  end

  async_fifo #(
    .data_t(chunk_t),
    .Depth (Chunks)
  ) u_chunks (
    .wclk_i  (clk_net_i),
    .wrst_i  (rst_net_i),
    .wdata_i (far_chunk),
    .wvalid_i(far_chunk_valid),
    .wready_o(far_chunk_ready),
    .wcount_o(),
    .rclk_i  (clk_pcie_i),
    .rrst_i  (rst_pcie_i),
    .rdata_o (chunk),
    .rvalid_o(chunk_valid),
    .rready_i(chunk_take)
  );

  async_fifo #(
    .data_t(logic [WordW-1:0]),
    .Depth (4)
  ) u_done (
    .wclk_i  (clk_pcie_i),
    .wrst_i  (rst_pcie_i),
    .wdata_i (done_word),
    .wvalid_i(done_valid),
    .wready_o(done_ready),
    .wcount_o(),
    .rclk_i  (clk_net_i),
    .rrst_i  (rst_net_i),
    .rdata_o (freed_word),
    .rvalid_o(freed_word_valid),
    .rready_i(1'b1)
  );

  uzura_dma_write #(
    .Words(WriteWords)
  ) u_dma_write (
    .clk_i        (clk_pcie_i),
    .rst_i        (rst_pcie_i),
    .completer_id_i,
    .chunk_i      (chunk),
    .chunk_valid_i(chunk_valid),
    .chunk_take_o (chunk_take),
    .event_o      (arrived),
    .msi_address_i(msi_address),
    .msi_data_i   (msi_data),
    .msi_valid_i  (msi_valid),
    .msi_done_o   (msi_done),
    .re_o         (write_re),
    .word_o       (write_word),
    .data_i       (write_data),
    .freed_word_o (done_word),
    .freed_valid_o(done_valid),
    .freed_ready_i(done_ready),
    .m_tlp        (write_tlp),
    .written_o    (written),
    .cnt_write_o  (pcie_event[CntDmaWrite]),
    .busy_o       (busy_write)
  );

  msi u_msi (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .now_us_i,
    .moderation_us_i(msi_moderation_us),
    .on_arrival_i   (interrupt),
    .on_event_i     (1'b0),
    .arrival_i      (arrived),
    .event_i        (1'b0),
    .valid_o        (msi_valid),
    .take_i         (msi_done),
    .busy_o         (busy_msi)
  );
  assign pcie_event[CntMsi] = msi_done;

  // ---- The engine ---------------------------------------------------------------------------------
  logic [     31:0] now_us_q;
  logic [TickW-1:0] tick_q;
  logic [63:0] rx_data, tx_data;
  logic [7:0] rx_keep, tx_keep;
  logic rx_valid, rx_last, rx_bad, tx_valid, tx_last, tx_ready, busy_engine, busy_trim, busy_hold;
  logic [63:0] line_data;
  logic [ 7:0] line_keep;
  logic line_valid, line_last, line_bad, tx_own, back_ready, hold_ready, busy_back;
  logic tick;

  assign tick = tick_q >= TickW'(TickParts - TickCycles);
  always_ff @(posedge clk_net_i) begin
    if (rst_net_i) begin
      tick_q   <= '0;
      now_us_q <= '0;
    end else begin
      tick_q   <= tick ? tick_q - TickW'(TickParts - TickCycles) : tick_q + TickW'(TickCycles);
      now_us_q <= now_us_q + 32'(tick);
    end
  end

  uzura_rx_trim u_trim (
    .clk_i     (clk_net_i),
    .rst_i     (rst_net_i),
    .s_eth,
    .m_tdata_o (line_data),
    .m_tkeep_o (line_keep),
    .m_tvalid_o(line_valid),
    .m_tlast_o (line_last),
    .m_tuser_o (line_bad),
    .busy_o    (busy_trim)
  );

  assign tx_ready = tx_own ? back_ready : hold_ready;
  uzura_loopback u_loopback (
    .clk_i        (clk_net_i),
    .rst_i        (rst_net_i),
    .s_tdata_i    (tx_data),
    .s_tkeep_i    (tx_keep),
    .s_tvalid_i   (tx_valid && tx_own),
    .s_tlast_i    (tx_last),
    .s_tready_o   (back_ready),
    .line_tdata_i (line_data),
    .line_tkeep_i (line_keep),
    .line_tvalid_i(line_valid),
    .line_tlast_i (line_last),
    .line_tuser_i (line_bad),
    .m_tdata_o    (rx_data),
    .m_tkeep_o    (rx_keep),
    .m_tvalid_o   (rx_valid),
    .m_tlast_o    (rx_last),
    .m_tuser_o    (rx_bad),
    .busy_o       (busy_back)
  );

  uzura #(
    .MemW     (MemW),
    .RxBufferW(RxBufferW)
  ) u_engine (
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .now_us_i        (now_us_q),
    .mac_o,
    .ip_o,
    .reg_valid_i     (reg_valid),
    .reg_ready_o     (),
    .reg_write_i     (reg_write),
    .reg_addr_i      (reg_addr),
    .reg_wdata_i     (reg_wdata),
    .reg_rvalid_o    (reg_rvalid),
    .reg_rdata_o     (reg_rdata),
    .rd_addr_o       (rd_addr),
    .rd_bytes_o      (rd_bytes),
    .rd_cookie_o     (rd_cookie),
    .rd_valid_o      (far_read_valid),
    .rd_ready_i      (far_read_ready),
    .rd_data_i       (rd.data),
    .rd_data_cookie_i(rd.cookie),
    .rd_data_last_i  (rd.last),
    .rd_data_bad_i   (rd.bad),
    .rd_data_valid_i (rd_valid),
    .rd_data_ready_o (rd_ready),
    .wr_addr_o       (wr_addr),
    .wr_bytes_o      (wr_bytes),
    .wr_valid_o      (wr_valid),
    .wr_ready_i      (wr_ready),
    .wr_data_o       (wr_data),
    .wr_data_last_o  (wr_data_last),
    .wr_data_valid_o (wr_data_valid),
    .wr_data_ready_i (wr_data_ready),
    .rx_tdata_i      (rx_data),
    .rx_tkeep_i      (rx_keep),
    .rx_tvalid_i     (rx_valid),
    .rx_tlast_i      (rx_last),
    .rx_tuser_i      (rx_bad),
    .tx_tdata_o      (tx_data),
    .tx_tkeep_o      (tx_keep),
    .tx_tvalid_o     (tx_valid),
    .tx_tlast_o      (tx_last),
    .tx_own_o        (tx_own),
    .tx_tready_i     (tx_ready),
    .event_valid_o   (event_valid),
    .event_cq_o      (),
    .alarm_o         (alarm),
    .busy_o          (busy_engine)
  );

  uzura_frame_hold u_hold (
    .clk_i     (clk_net_i),
    .rst_i     (rst_net_i),
    .s_tdata_i (tx_data),
    .s_tkeep_i (tx_keep),
    .s_tvalid_i(tx_valid && !tx_own),
    .s_tlast_i (tx_last),
    .s_tready_o(hold_ready),
    .start_o,
    .ready_start_i,
    .m_eth,
    .busy_o    (busy_hold)
  );

  assign busy_pcie_o = busy_tlp_rx || busy_completer || busy_cpl_error || busy_stores ||
      busy_registers || read_valid || busy_read || freed || busy_write || busy_msi || arrived ||
      rx_error_valid_q || load_end_q || refused_q;
  assign busy_net_o = far_busy || busy_port || busy_stream || busy_stage || freed_word_valid ||
      busy_trim || busy_back || busy_engine || busy_hold || far_read_valid;

`ifndef SYNTHESIS
  always_ff @(posedge clk_net_i) begin
    if (!rst_net_i) begin
      a_freed :
      assert (!far_freed || freed_room)
      else $error("more pieces have been read than there are slots");
    end
  end
`endif
  logic unused;
  assign unused = ^{cpl_error_ready[1], far_slot, page_op_q};
endmodule
