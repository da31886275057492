// SPDX-License-Identifier: Apache-2.0
// The descriptor-ring NIC without its MAC: TLP streams on one side, Ethernet streams on the other.
//
// It is the conventional NIC that IP-NUMA is compared with: the CPU writes TAIL, the NIC reads a
// descriptor and then the packet; received frames are written to buffers, and an interrupt tells.
//
// Latency   : TAIL's last beat in to the descriptor's read 6 cycles of clk_pcie_i; the descriptor's
//             last beat to the packet's read 5; the packet's last beat to the frame's start 3, and 3
//             to 4 of clk_net_i; a frame's last byte to the first DMA write 1 of clk_net_i, and 3 to 4
//             of clk_pcie_i.
// Clock     : clk_pcie_i, clk_net_i, asynchronous to each other.
// Handshake : streams as axis_if says; s_eth ignores tready, m_eth is announced by start_o as the
//             transmitters ask for it.
// Drops     : every TLP and frame that is dropped is counted (ring_pkg has the counters).
// Source    : dissertation section 3.2.2, figure 3.5; docs/ring-nic.md.
module ring_nic
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import reg_bus_pkg::*;
  import ring_pkg::*;
  import ring_types_pkg::*;
#(
  /// Packets that can be on their way from memory to the wire; a power of two from 4 to 16.
  parameter int unsigned Slots = 16,
  /// Longest frame without FCS, bytes; 9014 at most.
  parameter int unsigned MaxBytes = 1514,
  /// Words of 8 bytes of the receive buffer; a power of two.
  parameter int unsigned RxWords = 2048,
  /// DMA reads in flight; a power of two, 16 at most.
  parameter int unsigned ReadTags = 16
) (
  input  logic                     clk_pcie_i,
  input  logic                     rst_pcie_i,
  input  logic                     clk_net_i,
  input  logic                     rst_net_i,
  input  logic              [15:0] completer_id_i,
  /// Time for time-outs, microseconds, wrapping; sampled by clk_pcie_i.
  input  logic              [31:0] now_us_i,
  /// The PHY has a link; asynchronous.
  input  logic                     link_up_i,
  /// The own MAC address, in clk_net_i.
  output logic              [47:0] mac_o,
  /// From the root complex; tuser is the BAR hit.
         axis_if.snk               s_tlp,
  /// To the root complex.
         axis_if.src               m_tlp,
  /// From the receiver, FCS included; tuser is 1 with the tlast of a bad frame.
         axis_if.snk               s_eth,
  input  eth_pkg::rx_stat_t        rx_stat_i,
  /// To the transmitter, without FCS.
  output logic                     start_o,
  input  logic                     ready_start_i,
         axis_if.src               m_eth,
  input  eth_pkg::tx_stat_t        tx_stat_i,
  output logic                     busy_pcie_o,
  output logic                     busy_net_o
);
  // A packet may begin with any byte of its first word.
  localparam int unsigned SlotWords = 2 ** $clog2((MaxBytes + 7) / 8 + 1);
  localparam int unsigned SlotWordW = $clog2(SlotWords);
  localparam int unsigned SlotW = $clog2(Slots);
  localparam int unsigned RxWordW = $clog2(RxWords);

  logic [PCIE_COUNTERS-1:0] pcie_event;
  logic [ NET_COUNTERS-1:0] net_event;

  // ---- Registers ---------------------------------------------------------------------------------
  reg_req_t req, net_req, far_req;
  reg_rsp_t rsp, net_rsp, far_rsp;
  logic far_busy, busy_registers, busy_net_registers, link;
  logic tx_run, rx_run, tx_restart, rx_restart;
  logic [63:0] tx_base, rx_base, msi_address;
  logic [15:0] tx_mask, rx_mask, tx_tail, rx_tail, tx_head, rx_head, msi_moderation_us;
  logic [31:0] msi_data, write_data, read_timeout_us;
  logic armed_write, rx_arm, tx_arm, large_payload;
  logic [1:0] max_read;
  logic [2:0] armed, cause;
  logic [47:0] mac;
  logic        promiscuous;
  logic tx_idle, rx_idle, tx_fault, rx_fault, tx_waiting, rx_waiting;

  ring_registers #(
    .Slots   (Slots),
    .MaxBytes(MaxBytes)
  ) u_registers (
    .clk_i(clk_pcie_i),
    .rst_i(rst_pcie_i),
    .req_i(req),
    .rsp_o(rsp),
    .net_req_o(net_req),
    .net_rsp_i(net_rsp),
    .event_i(pcie_event),
    .status_i({rx_fault, tx_fault, rx_idle && !rx_waiting, tx_idle && !tx_waiting, link}),
    .tx_head_i(tx_head),
    .rx_head_i(rx_head),
    .armed_i(armed),
    .cause_i(cause),
    .tx_run_o(tx_run),
    .rx_run_o(rx_run),
    .tx_base_o(tx_base),
    .rx_base_o(rx_base),
    .tx_mask_o(tx_mask),
    .rx_mask_o(rx_mask),
    .tx_tail_o(tx_tail),
    .rx_tail_o(rx_tail),
    .tx_restart_o(tx_restart),
    .rx_restart_o(rx_restart),
    .msi_address_o(msi_address),
    .msi_data_o(msi_data),
    .msi_moderation_us_o(msi_moderation_us),
    .armed_write_o(armed_write),
    .rx_arm_o(rx_arm),
    .tx_arm_o(tx_arm),
    .write_data_o(write_data),
    .read_timeout_us_o(read_timeout_us),
    .large_payload_o(large_payload),
    .max_read_o(max_read),
    .busy_o(busy_registers)
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

  ring_net_registers u_net_registers (
    .clk_i        (clk_net_i),
    .rst_i        (rst_net_i),
    .req_i        (far_req),
    .rsp_o        (far_rsp),
    .event_i      (net_event),
    .mac_o        (mac),
    .promiscuous_o(promiscuous),
    .busy_o       (busy_net_registers)
  );
  assign mac_o = mac;

  sync_ff u_link (
    .clk_i(clk_pcie_i),
    .d_i  (link_up_i),
    .q_o  (link)
  );

  // ---- From and to the root complex --------------------------------------------------------------
  axis_if #(
    .DataW(64),
    .UserW(3)
  ) host_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) write_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) completer_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) error_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) read_tlp ();

  reg_op_t reg_op;
  logic reg_op_valid, reg_op_ready, reg_read_ok;
  logic cpl_pay_even_we, cpl_pay_odd_we, cpl_valid;
  logic [4:0] pay_even_idx, pay_odd_idx;
  logic [31:0] pay_even_data, pay_odd_data;
  cpl_head_t        cpl_head;
  cpl_error_t       cpl_error       [2];
  logic       [1:0] cpl_error_ready;
  cpl_error_t       rx_error;
  logic rx_error_valid, refusal_q;
  logic busy_tlp_rx, busy_completer, busy_cpl_error, busy_read, busy_write, busy_interrupt;
  logic busy_tx_fetch, busy_rx_fetch;

  // There are no pages here: what hits another BAR is not supported.
  assign host_tlp.tdata  = s_tlp.tdata;
  assign host_tlp.tkeep  = s_tlp.tkeep;
  assign host_tlp.tvalid = s_tlp.tvalid;
  assign host_tlp.tlast  = s_tlp.tlast;
  assign host_tlp.tuser  = s_tlp.tuser == BAR_REGISTERS ? BAR_REGISTERS : BAR_NONE;
  assign s_tlp.tready    = host_tlp.tready;

  tlp_rx #(
    .Pages     (1),
    // Registers alone are written; what is read is never kept waiting.
    .PostedData(32),
    .CplWords  (16)
  ) u_tlp_rx (
    .clk_i                (clk_pcie_i),
    .rst_i                (rst_pcie_i),
    .s_axis               (host_tlp),
    .reg_op_o             (reg_op),
    .reg_op_valid_o       (reg_op_valid),
    .reg_op_ready_i       (reg_op_ready),
    .reg_read_ok_i        (reg_read_ok),
    .page_look_o          (),
    .page_op_o            (),
    .page_first_o         (),
    .page_end_o           (),
    .page_active_o        (),
    .page_store_ready_i   (1'b1),
    .page_load_ready_i    (!refusal_q),
    .page_pay_even_we_o   (),
    .page_pay_odd_we_o    (),
    .page_pay_even_idx_o  (),
    .page_pay_even_data_o (),
    .page_pay_odd_idx_o   (),
    .page_pay_odd_data_o  (),
    .cpl_pay_even_we_o    (cpl_pay_even_we),
    .cpl_pay_odd_we_o     (cpl_pay_odd_we),
    .cpl_pay_even_idx_o   (pay_even_idx),
    .cpl_pay_even_data_o  (pay_even_data),
    .cpl_pay_odd_idx_o    (pay_odd_idx),
    .cpl_pay_odd_data_o   (pay_odd_data),
    .cpl_active_o         (),
    .cpl_valid_o          (cpl_valid),
    .cpl_head_o           (cpl_head),
    .cpl_ready_i          (1'b1),
    .rx_error_o           (rx_error),
    .rx_error_valid_o     (rx_error_valid),
    .cnt_tlp_page_beyond_o(),
    .cnt_tlp_unsupported_o(pcie_event[CNT_TLP_UNSUPPORTED]),
    .cnt_tlp_poisoned_o   (pcie_event[CNT_TLP_POISONED]),
    .cnt_tlp_malformed_o  (pcie_event[CNT_TLP_MALFORMED]),
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
    .hold_i                  (1'b0),
    .cnt_tlp_register_write_o(pcie_event[CNT_TLP_REGISTER_WRITE]),
    .cnt_tlp_register_read_o (pcie_event[CNT_TLP_REGISTER_READ]),
    .cnt_register_refused_o  (pcie_event[CNT_REGISTER_REFUSED]),
    .busy_o                  (busy_completer)
  );

  // One refusal at a time; a read waits for the one before it.
  always_ff @(posedge clk_pcie_i) begin
    if (rx_error_valid) cpl_error[0] <= rx_error;
    if (rst_pcie_i) refusal_q <= 1'b0;
    else if (rx_error_valid) refusal_q <= 1'b1;
    else if (cpl_error_ready[0]) refusal_q <= 1'b0;
  end
  assign cpl_error[1] = '0;
  cpl_error u_cpl_error (
    .clk_i        (clk_pcie_i),
    .rst_i        (rst_pcie_i),
    .completer_id_i,
    .error_i      (cpl_error),
    .error_valid_i({1'b0, refusal_q}),
    .error_ready_o(cpl_error_ready),
    .m_axis       (error_tlp),
    .busy_o       (busy_cpl_error)
  );

  // Writes first: no completion of the CPU's reads may pass them. DMA reads wait for no more than 15
  // TLPs of the others.
  tlp_tx u_tlp_tx (
    .clk_i   (clk_pcie_i),
    .rst_i   (rst_pcie_i),
    .s_first (write_tlp),
    .s_second(completer_tlp),
    .s_third (error_tlp),
    .s_fourth(read_tlp),
    .m_axis  (m_tlp)
  );

  // ---- DMA ---------------------------------------------------------------------------------------
  // Descriptors first: packets can use up all tags, and then nothing would be known of the next ones.
  read_op_t read_op[3];
  logic [2:0] read_valid, read_ready;
  read_data_t read_data;
  read_done_t read_done;
  write_op_t  write_op  [3];
  logic [2:0] write_valid, write_done;
  logic                    rx_re;
  logic [1:0][RxWordW-1:0] rx_word;
  logic [1:0][       31:0] rx_data;

  dma_read #(
    .Tags(ReadTags)
  ) u_read (
    .clk_i            (clk_pcie_i),
    .rst_i            (rst_pcie_i),
    .completer_id_i,
    .now_us_i,
    .timeout_us_i     (read_timeout_us),
    .op_i             (read_op),
    .op_valid_i       (read_valid),
    .op_ready_o       (read_ready),
    .m_tlp            (read_tlp),
    .cpl_pay_even_we_i(cpl_pay_even_we),
    .cpl_pay_odd_we_i (cpl_pay_odd_we),
    .pay_even_idx_i   (pay_even_idx),
    .pay_even_data_i  (pay_even_data),
    .pay_odd_idx_i    (pay_odd_idx),
    .pay_odd_data_i   (pay_odd_data),
    .cpl_valid_i      (cpl_valid),
    .cpl_head_i       (cpl_head),
    .data_o           (read_data),
    .done_o           (read_done),
    .cnt_completion_o (pcie_event[CNT_TLP_COMPLETION]),
    .cnt_unexpected_o (pcie_event[CNT_TLP_COMPLETION_UNEXPECTED]),
    .cnt_timeout_o    (pcie_event[CNT_DMA_READ_TIMEOUT]),
    .cnt_failed_o     (pcie_event[CNT_DMA_READ_FAILED]),
    .busy_o           (busy_read)
  );
  assign pcie_event[CNT_RX_DESCRIPTOR_READ] = read_valid[0] && read_ready[0];
  assign pcie_event[CNT_TX_PACKET_READ]     = read_valid[2] && read_ready[2];
  assign pcie_event[CNT_TX_DESCRIPTOR_READ] = read_valid[1] && read_ready[1];

  dma_write #(
    .N          (3),
    .BufferWords(RxWords)
  ) u_write (
    .clk_i             (clk_pcie_i),
    .rst_i             (rst_pcie_i),
    .completer_id_i,
    .large_i           (large_payload),
    .op_i              (write_op),
    .op_valid_i        (write_valid),
    .done_o            (write_done),
    .buffer_re_o       (rx_re),
    .buffer_word_o     (rx_word),
    .buffer_data_i     (rx_data),
    .m_tlp             (write_tlp),
    .cnt_packet_write_o(pcie_event[CNT_RX_PACKET_WRITE]),
    .busy_o            (busy_write)
  );
  assign pcie_event[CNT_TX_WRITE_BACK] = write_done[1];

  // ---- Send --------------------------------------------------------------------------------------
  order_t tx_order;
  logic tx_order_valid, tx_order_take;
  send_t send, send_net;
  logic send_valid, send_ready, send_valid_net, send_take;
  logic sent, sent_valid, sent_ready, sent_room;
  logic                 tx_re;
  logic [    SlotW-1:0] tx_slot;
  logic [SlotWordW-1:0] tx_word;
  logic [         63:0] tx_data;
  logic                 busy_send;

  descriptor_fetch #(
    .Reader(ForTxDescriptors)
  ) u_tx_descriptors (
    .clk_i     (clk_pcie_i),
    .rst_i     (rst_pcie_i),
    .run_i     (tx_run),
    .base_i    (tx_base),
    .mask_i    (tx_mask),
    .tail_i    (tx_tail),
    .restart_i (tx_restart),
    .op_o      (read_op[1]),
    .op_valid_o(read_valid[1]),
    .op_ready_i(read_ready[1]),
    .data_i    (read_data),
    .done_i    (read_done),
    .order_o   (tx_order),
    .valid_o   (tx_order_valid),
    .take_i    (tx_order_take),
    .empty_o   (),
    .waiting_o (tx_waiting),
    .fault_o   (tx_fault),
    .busy_o    (busy_tx_fetch)
  );

  packet_fetch #(
    .Slots   (Slots),
    .MaxBytes(MaxBytes)
  ) u_packets (
    .clk_i        (clk_pcie_i),
    .rst_i        (rst_pcie_i),
    .run_i        (tx_run),
    .max_read_i   (max_read),
    .base_i       (tx_base),
    .mask_i       (tx_mask),
    .restart_i    (tx_restart),
    .order_i      (tx_order),
    .order_valid_i(tx_order_valid),
    .order_take_o (tx_order_take),
    .op_o         (read_op[2]),
    .op_valid_o   (read_valid[2]),
    .op_ready_i   (read_ready[2]),
    .done_i       (read_done),
    .send_o       (send),
    .send_valid_o (send_valid),
    .send_ready_i (send_ready),
    .sent_valid_i (sent_valid),
    .sent_ready_o (sent_ready),
    .write_o      (write_op[1]),
    .write_valid_o(write_valid[1]),
    .write_done_i (write_done[1]),
    .head_o       (tx_head),
    .idle_o       (tx_idle),
    .cnt_bad_o    (pcie_event[CNT_TX_DESCRIPTOR_BAD]),
    .cnt_lost_o   (pcie_event[CNT_TX_PACKET_LOST]),
    .cnt_packet_o (pcie_event[CNT_TX_PACKET])
  );

  tx_buffer #(
    .Slots    (Slots),
    .SlotWords(SlotWords)
  ) u_tx_buffer (
    .clk_pcie_i,
    .data_i(read_data),
    .clk_net_i,
    .re_i  (tx_re),
    .slot_i(tx_slot),
    .word_i(tx_word),
    .data_o(tx_data)
  );

  async_fifo #(
    .data_t(send_t),
    .Depth (Slots)
  ) u_send (
    .wclk_i  (clk_pcie_i),
    .wrst_i  (rst_pcie_i),
    .wdata_i (send),
    .wvalid_i(send_valid),
    .wready_o(send_ready),
    .wcount_o(),
    .rclk_i  (clk_net_i),
    .rrst_i  (rst_net_i),
    .rdata_o (send_net),
    .rvalid_o(send_valid_net),
    .rready_i(send_take)
  );

  packet_send #(
    .Slots    (Slots),
    .SlotWords(SlotWords)
  ) u_packet_send (
    .clk_i        (clk_net_i),
    .rst_i        (rst_net_i),
    .send_i       (send_net),
    .send_valid_i (send_valid_net),
    .send_take_o  (send_take),
    .sent_o       (sent),
    .buffer_re_o  (tx_re),
    .buffer_slot_o(tx_slot),
    .buffer_word_o(tx_word),
    .buffer_data_i(tx_data),
    .start_o,
    .ready_start_i,
    .m_eth,
    .busy_o       (busy_send)
  );

  // As deep as there are slots, so it always has room.
  async_fifo #(
    .data_t(logic),
    .Depth (Slots)
  ) u_sent (
    .wclk_i  (clk_net_i),
    .wrst_i  (rst_net_i),
    .wdata_i (1'b0),
    .wvalid_i(sent),
    .wready_o(sent_room),
    .wcount_o(),
    .rclk_i  (clk_pcie_i),
    .rrst_i  (rst_pcie_i),
    .rdata_o (),
    .rvalid_o(sent_valid),
    .rready_i(sent_ready)
  );

  // ---- Receive -----------------------------------------------------------------------------------
  order_t rx_order;
  logic rx_order_valid, rx_order_take, rx_order_none;
  frame_t frame;
  logic frame_valid, frame_take, free_valid, free_ready, busy_rx_buffer;
  logic [13:0] free_word;

  descriptor_fetch #(
    .Reader(ForRxDescriptors)
  ) u_rx_descriptors (
    .clk_i     (clk_pcie_i),
    .rst_i     (rst_pcie_i),
    .run_i     (rx_run),
    .base_i    (rx_base),
    .mask_i    (rx_mask),
    .tail_i    (rx_tail),
    .restart_i (rx_restart),
    .op_o      (read_op[0]),
    .op_valid_o(read_valid[0]),
    .op_ready_i(read_ready[0]),
    .data_i    (read_data),
    .done_i    (read_done),
    .order_o   (rx_order),
    .valid_o   (rx_order_valid),
    .take_i    (rx_order_take),
    .empty_o   (rx_order_none),
    .waiting_o (rx_waiting),
    .fault_o   (rx_fault),
    .busy_o    (busy_rx_fetch)
  );

  rx_buffer #(
    .Words(RxWords)
  ) u_rx_buffer (
    .clk_net_i,
    .rst_net_i,
    .mac_i         (mac),
    .promiscuous_i (promiscuous),
    .s_eth,
    .cnt_good_o    (net_event[CNT_RX_GOOD]),
    .cnt_not_mine_o(net_event[CNT_RX_NOT_MINE]),
    .cnt_overflow_o(net_event[CNT_RX_OVERFLOW]),
    .busy_net_o    (busy_rx_buffer),
    .clk_pcie_i,
    .rst_pcie_i,
    .frame_o       (frame),
    .frame_valid_o (frame_valid),
    .frame_take_i  (frame_take),
    .free_word_i   (free_word),
    .free_valid_i  (free_valid),
    .free_ready_o  (free_ready),
    .re_i          (rx_re),
    .word_i        (rx_word),
    .data_o        (rx_data)
  );

  rx_dma u_rx_dma (
    .clk_i        (clk_pcie_i),
    .rst_i        (rst_pcie_i),
    .run_i        (rx_run),
    .base_i       (rx_base),
    .mask_i       (rx_mask),
    .restart_i    (rx_restart),
    .order_i      (rx_order),
    .order_valid_i(rx_order_valid),
    .order_none_i (rx_order_none || rx_fault),
    .order_take_o (rx_order_take),
    .frame_i      (frame),
    .frame_valid_i(frame_valid),
    .frame_take_o (frame_take),
    .free_word_o  (free_word),
    .free_valid_o (free_valid),
    .free_ready_i (free_ready),
    .write_o      (write_op[0]),
    .write_valid_o(write_valid[0]),
    .write_done_i (write_done[0]),
    .head_o       (rx_head),
    .idle_o       (rx_idle),
    .cnt_packet_o (pcie_event[CNT_RX_PACKET]),
    .cnt_none_o   (pcie_event[CNT_RX_NO_DESCRIPTOR]),
    .cnt_long_o   (pcie_event[CNT_RX_TOO_LONG])
  );

  // ---- Interrupts --------------------------------------------------------------------------------
  ring_interrupt u_interrupt (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .now_us_i,
    .moderation_us_i(msi_moderation_us),
    .address_i      (msi_address),
    .data_i         (msi_data),
    .rx_head_i      (rx_head),
    .tx_head_i      (tx_head),
    .link_i         (link),
    .rx_arm_i       (rx_arm),
    .tx_arm_i       (tx_arm),
    .index_i        (write_data[15:0]),
    .armed_write_i  (armed_write),
    .armed_i        (write_data[2:0]),
    .armed_o        (armed),
    .cause_o        (cause),
    .write_o        (write_op[2]),
    .write_valid_o  (write_valid[2]),
    .write_done_i   (write_done[2]),
    .cnt_msi_o      (pcie_event[CNT_MSI]),
    .busy_o         (busy_interrupt)
  );

  // ---- Counters of the network side --------------------------------------------------------------
  assign net_event[CNT_TX_FRAME] = tx_stat_i.good;
  assign net_event[CNT_TX_UNDERRUN] = tx_stat_i.underrun;
  assign net_event[CNT_RX_FRAMES] = |rx_stat_i;
  assign net_event[CNT_RX_BAD_FCS] = rx_stat_i.bad_fcs;
  assign net_event[CNT_RX_RUNT] = rx_stat_i.runt;
  assign net_event[CNT_RX_GIANT] = rx_stat_i.giant;
  assign net_event[CNT_RX_PHY_ERROR] = rx_stat_i.error;
  assign net_event[CNT_RX_BAD_PREAMBLE] = rx_stat_i.bad_preamble;

  assign busy_pcie_o = busy_tlp_rx || busy_completer || busy_cpl_error || busy_read || busy_write ||
      busy_interrupt || busy_tx_fetch || busy_rx_fetch || !tx_idle || frame_valid || sent_valid ||
      (tx_run && tx_order_valid) || tx_restart || rx_restart || busy_registers;
  assign busy_net_o = far_busy || busy_send || busy_rx_buffer || busy_net_registers;

`ifndef SYNTHESIS
  always_ff @(posedge clk_net_i) begin
    if (!rst_net_i) begin
      a_sent :
      assert (!sent || sent_room)
      else $error("more packets have left than there are slots");
    end
  end
`endif
  logic unused;
  assign unused = ^{tx_stat_i.spoiled, write_data[31:16], cpl_error_ready[1]};
endmodule
