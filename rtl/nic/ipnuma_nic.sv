// SPDX-License-Identifier: Apache-2.0
// The IP-NUMA NIC without its MAC: TLP streams on one side, Ethernet streams on the other.
//
// Latency   : figures in docs/architecture.md, "Latency budget".
// Clock     : clk_pcie_i, clk_net_i, asynchronous to each other; any faster than PcieLongestPs, slower than NetShortestPs.
// Handshake : streams as axis_if says; s_eth ignores tready, m_eth is announced by start_o as transmitters ask.
// Drops     : every TLP and frame that is dropped is counted (wire_pkg has the counters).
// Source    : dissertation chapter 3; docs/architecture.md.
module ipnuma_nic
  import ipnuma_pkg::*;
  import reg_bus_pkg::*;
  import tlp_pkg::*;
  import wire_pkg::*;
#(
  /// Pages in BAR 2; a power of two.
  parameter int unsigned Pages = 262144,
  /// PC ID table entries; a power of two.
  parameter int unsigned PcIds = 256,
  /// Shared-region table entries; a power of two.
  parameter int unsigned Regions = 256,
  /// Stores and loads that can wait for the network side.
  parameter int unsigned TxSlots = 16,
  /// Operations from the network that can wait for the PCIe side.
  parameter int unsigned RxSlots = 32,
  /// Loads that can wait for their completion.
  parameter int unsigned LoadTags = 32,
  /// DMA reads that can wait for their completion.
  parameter int unsigned DmaTags = 8,
  /// Cycles of a page map look-up.
  parameter int unsigned PageMapLatency = 2,
  /// Cycles of a PC ID table look-up.
  parameter int unsigned PcIdLatency = 1,
  /// Sessions; a power of two from 2 to 256.
  parameter int unsigned Sessions = 64,
  /// Frames that all sessions together may have in flight; a power of two.
  parameter int unsigned SendSlots = 128,
  /// Sessions can be sealed.
  parameter bit Auth = 1'b1,
  /// Longest period that clk_pcie_i ever has, tolerance and spread spectrum included.
  parameter int unsigned PcieLongestPs = 4025,
  /// Shortest period that clk_net_i ever has, tolerance included.
  parameter int unsigned NetShortestPs = 6395
) (
  input  logic                       clk_pcie_i,
  input  logic                       rst_pcie_i,
  input  logic                       clk_net_i,
  input  logic                       rst_net_i,
  input  logic                [15:0] completer_id_i,
  /// What the host has set; sampled by clk_pcie_i.
  input  pcie_pkg::pcie_cfg_t        pcie_cfg_i,
  /// Time for time-outs, microseconds, wrapping; sampled by clk_pcie_i.
  input  logic                [31:0] now_us_i,
  /// Of clk_net_i: sessions send no new stores and loads any more; a reset follows.
  input  logic                       give_up_i,
  /// The PHY has a link; asynchronous.
  input  logic                       link_up_i,
  /// Own addresses, and whether to answer ARP requests for them; of clk_net_i.
  output logic                [47:0] mac_o,
  output logic                [31:0] ip_o,
  input  logic                       arp_answer_i,
  /// From the root complex; tuser is the BAR hit.
         axis_if.snk                 s_tlp,
  /// To the root complex.
         axis_if.src                 m_tlp,
  /// From the receiver, FCS included; tuser is 1 with the tlast of a bad frame.
         axis_if.snk                 s_eth,
  input  eth_pkg::rx_stat_t          rx_stat_i,
  /// To the transmitter, without FCS.
  output logic                       start_o,
  input  logic                       ready_start_i,
         axis_if.src                 m_eth,
  input  eth_pkg::tx_stat_t          tx_stat_i,
  output logic                       busy_pcie_o,
  output logic                       busy_net_o
);
  localparam int unsigned PageW = $clog2(Pages);
  localparam int unsigned PcIdW = $clog2(PcIds);
  localparam int unsigned RegionW = $clog2(Regions);
  localparam int unsigned SessionW = $clog2(Sessions);

  // ---- Registers ---------------------------------------------------------------------------------
  reg_req_t req, net_req, far_req;
  reg_rsp_t rsp, net_rsp, far_rsp;
  logic far_busy, busy_registers, busy_net_registers;

  logic [PCIE_COUNTERS-1:0] pcie_event;
  logic [ NET_COUNTERS-1:0] net_event;
  logic [             47:0] gateway_mac;
  logic [31:0] ip_pcie, netmask, read_timeout_us;
  logic [7:0] epoch_net;

  // What governs sessions, in the clock where it is used.
  logic       auth;
  logic [15:0] resend_ticks, resend_limit;
  logic [ 7:0] ack_ticks;
  logic [27:0] window;
  logic [31:0] pace;
  logic session_write, session_read, session_read_done, key_write, status_read, status_done;
  logic [SessionW-1:0] session_index, key_index, status_index;
  session_entry_t session_wentry, session_rentry;
  key_entry_t        key_wentry;
  logic       [31:0] status_expected;
  session_status_t status, status_sender;

  logic merge, settings_write, flush_valid, flush_ready, event_restart;
  logic register_answer, stores_before;  // registers are read behind the stores before: a fence
  logic [15:0] load_retry_us, flush_pc_id, flush_cookie, msi_moderation_us, error_sequence;
  logic [63:0] event_base, msi_address, error_address;
  logic [4:0] event_log2;
  logic [31:0] event_tail, msi_data, error_ip;
  logic [1:0] msi_control;

  logic page_write, page_read, page_read_done;
  logic [PageW-1:0] page_index;
  page_map_entry_t page_wentry, page_rentry;
  logic pc_id_write, pc_id_read, pc_id_read_done;
  logic [PcIdW-1:0] pc_id_index;
  pc_id_entry_t pc_id_wentry, pc_id_rentry;
  logic region_hold, region_write, region_read, region_read_done;
  logic [RegionW-1:0] region_index;
  region_entry_t region_wentry, region_rentry;

  logic error_valid;
  logic [7:0] error_code, error_op;

  nic_registers #(
    .Pages   (Pages),
    .PcIds   (PcIds),
    .Regions (Regions),
    .Sessions(Sessions),
    .Auth    (Auth)
  ) u_registers (
    .clk_i              (clk_pcie_i),
    .rst_i              (rst_pcie_i),
    .req_i              (req),
    .rsp_o              (rsp),
    .net_req_o          (net_req),
    .net_rsp_i          (net_rsp),
    .event_i            (pcie_event),
    .page_write_o       (page_write),
    .page_read_o        (page_read),
    .page_index_o       (page_index),
    .page_entry_o       (page_wentry),
    .page_entry_i       (page_rentry),
    .page_read_done_i   (page_read_done),
    .pc_id_write_o      (pc_id_write),
    .pc_id_read_o       (pc_id_read),
    .pc_id_index_o      (pc_id_index),
    .pc_id_entry_o      (pc_id_wentry),
    .pc_id_entry_i      (pc_id_rentry),
    .pc_id_read_done_i  (pc_id_read_done),
    .mac_o              (),
    .ip_o               (ip_pcie),
    .netmask_o          (netmask),
    .gateway_mac_o      (gateway_mac),
    .epoch_o            (),
    .read_timeout_us_o  (read_timeout_us),
    .load_retry_us_o    (load_retry_us),
    .merge_o            (merge),
    .settings_write_o   (settings_write),
    .flush_valid_o      (flush_valid),
    .flush_pc_id_o      (flush_pc_id),
    .flush_cookie_o     (flush_cookie),
    .flush_ready_i      (flush_ready),
    .event_base_o       (event_base),
    .event_log2_o       (event_log2),
    .event_restart_o    (event_restart),
    .event_tail_o       (event_tail),
    .msi_address_o      (msi_address),
    .msi_data_o         (msi_data),
    .msi_moderation_us_o(msi_moderation_us),
    .msi_control_o      (msi_control),
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

  net_registers #(
    .Regions (Regions),
    .Sessions(Sessions)
  ) u_net_registers (
    .clk_i              (clk_net_i),
    .rst_i              (rst_net_i),
    .req_i              (far_req),
    .rsp_o              (far_rsp),
    .event_i            (net_event),
    .region_write_o     (region_write),
    .region_read_o      (region_read),
    .region_index_o     (region_index),
    .region_entry_o     (region_wentry),
    .region_entry_i     (region_rentry),
    .region_read_done_i (region_read_done),
    .region_hold_i      (region_hold),
    .error_valid_i      (error_valid),
    .error_code_i       (error_code),
    .error_op_i         (error_op),
    .error_sequence_i   (error_sequence),
    .error_address_i    (error_address),
    .error_ip_i         (error_ip),
    .mac_o              (mac_o),
    .ip_o               (ip_o),
    .epoch_o            (epoch_net),
    .auth_o             (auth),
    .resend_ticks_o     (resend_ticks),
    .ack_ticks_o        (ack_ticks),
    .resend_limit_o     (resend_limit),
    .window_o           (window),
    .pace_o             (pace),
    .session_write_o    (session_write),
    .session_read_o     (session_read),
    .session_index_o    (session_index),
    .session_entry_o    (session_wentry),
    .session_entry_i    (session_rentry),
    .session_read_done_i(session_read_done),
    .key_write_o        (key_write),
    .key_index_o        (key_index),
    .key_entry_o        (key_wentry),
    .status_read_o      (status_read),
    .status_index_o     (status_index),
    .status_i           (status),
    .status_done_i      (status_done),
    .busy_o             (busy_net_registers)
  );

  // ---- From the root complex ---------------------------------------------------------------------
  reg_op_t reg_op;
  logic reg_op_valid, reg_op_ready, reg_read_ok;

  logic page_look, page_first, page_end, page_active, page_store_ready, page_load_ready;
  page_op_t page_op;
  logic page_pay_even_we, page_pay_odd_we, cpl_pay_even_we, cpl_pay_odd_we;
  logic [4:0] page_pay_even_idx, page_pay_odd_idx, cpl_pay_even_idx, cpl_pay_odd_idx;
  logic [31:0] page_pay_even_data, page_pay_odd_data, cpl_pay_even_data, cpl_pay_odd_data;
  logic cpl_valid, cpl_ready, cpl_active;
  cpl_head_t  cpl_head;
  cpl_error_t rx_error;
  logic       rx_error_valid;

  // Port 0 is the requester (with the receiver's), port 1 the load tags'.
  cpl_error_t cpl_error      [2];
  logic [1:0] cpl_error_valid, cpl_error_ready;

  logic busy_tlp_rx, busy_requester_pcie, busy_requester_net, busy_completer, busy_cpl_error;

  tlp_rx #(
    .Pages(Pages)
  ) u_tlp_rx (
    .clk_i                (clk_pcie_i),
    .rst_i                (rst_pcie_i),
    .s_axis               (s_tlp),
    .reg_op_o             (reg_op),
    .reg_op_valid_o       (reg_op_valid),
    .reg_op_ready_i       (reg_op_ready),
    .reg_read_ok_i        (reg_read_ok),
    .page_look_o          (page_look),
    .page_op_o            (page_op),
    .page_first_o         (page_first),
    .page_end_o           (page_end),
    .page_active_o        (page_active),
    .page_store_ready_i   (page_store_ready),
    .page_load_ready_i    (page_load_ready),
    .page_pay_even_we_o   (page_pay_even_we),
    .page_pay_odd_we_o    (page_pay_odd_we),
    .page_pay_even_idx_o  (page_pay_even_idx),
    .page_pay_even_data_o (page_pay_even_data),
    .page_pay_odd_idx_o   (page_pay_odd_idx),
    .page_pay_odd_data_o  (page_pay_odd_data),
    .cpl_pay_even_we_o    (cpl_pay_even_we),
    .cpl_pay_odd_we_o     (cpl_pay_odd_we),
    .cpl_pay_even_idx_o   (cpl_pay_even_idx),
    .cpl_pay_even_data_o  (cpl_pay_even_data),
    .cpl_pay_odd_idx_o    (cpl_pay_odd_idx),
    .cpl_pay_odd_data_o   (cpl_pay_odd_data),
    .cpl_valid_o          (cpl_valid),
    .cpl_head_o           (cpl_head),
    .cpl_ready_i          (cpl_ready),
    .cpl_active_o         (cpl_active),
    .rx_error_o           (rx_error),
    .rx_error_valid_o     (rx_error_valid),
    .cnt_tlp_page_beyond_o(pcie_event[CNT_TLP_PAGE_BEYOND]),
    .cnt_tlp_unsupported_o(pcie_event[CNT_TLP_UNSUPPORTED]),
    .cnt_tlp_poisoned_o   (pcie_event[CNT_TLP_POISONED]),
    .cnt_tlp_malformed_o  (pcie_event[CNT_TLP_MALFORMED]),
    .busy_o               (busy_tlp_rx)
  );

  axis_if #(
    .DataW(64),
    .UserW(1)
  )
      completer_tlp (), error_tlp (), dma_tlp (), notice_tlp ();

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
    .answer_o                (register_answer),
    .hold_i                  (stores_before && pcie_cfg_i.bus_master),
    .cnt_tlp_register_write_o(pcie_event[CNT_TLP_REGISTER_WRITE]),
    .cnt_tlp_register_read_o (pcie_event[CNT_TLP_REGISTER_READ]),
    .cnt_register_refused_o  (pcie_event[CNT_REGISTER_REFUSED]),
    .busy_o                  (busy_completer)
  );

  cpl_error u_cpl_error (
    .clk_i        (clk_pcie_i),
    .rst_i        (rst_pcie_i),
    .completer_id_i,
    .error_i      (cpl_error),
    .error_valid_i(cpl_error_valid),
    .error_ready_o(cpl_error_ready),
    .m_axis       (error_tlp),
    .busy_o       (busy_cpl_error)
  );

  tlp_tx u_tlp_tx (
    .clk_i   (clk_pcie_i),
    .rst_i   (rst_pcie_i),
    .s_first (dma_tlp),
    .s_second(completer_tlp),
    .s_third (error_tlp),
    .s_fourth(notice_tlp),
    .m_axis  (m_tlp)
  );

  // ---- Stores and loads to frames ----------------------------------------------------------------
  logic alloc, alloc_ok;
  load_t          alloc_load;
  logic     [7:0] alloc_tag;
  session_t       alloc_session;
  page_op_t       alloc_op;
  logic retry_valid, retry_ready;
  logic [7:0] retry_tag;
  logic [15:0] alloc_number, retry_number;
  page_op_t retry_op;

  // Sources of frames: 0 stores and loads, 1 completions, 2 refusals, 3 acknowledgements, 4 what is sent again.
  logic [4:0] frame_valid, frame_permitted, frame_lock, frame_pop;
  tx_frame_t [4:0]       frame;
  logic      [4:0]       frame_pay_idx;
  logic      [4:0][63:0] frame_pay_word;

  // Sessions, sender.
  logic mark, mark_valid, mark_ready;
  logic [15:0] mark_session, mark_cookie;
  logic [7:0] tx_session, tx_sending;
  logic [15:0] tx_port;
  logic [Sessions-1:0] session_valid, session_sealed, session_open, session_lost;
  logic       session_reset;
  logic [7:0] session_reset_index;
  logic new_frame, copy_frame_we, copy_we;
  logic [31:0] new_sequence, resend_sequence, session_reset_start;
  tx_frame_t        copy_frame;
  logic      [ 4:0] copy_idx;
  logic      [63:0] copy_word;
  logic ack_pending, ack_urgent, ack_taken;
  logic [31:0] ack_value;
  logic ack_valid, refused_valid;
  ack_t     ack;
  refused_t refused;
  logic session_event_valid, session_event_ready, notice_valid, notice_ready;
  event_t session_event, notice;
  logic arrival;

  requester #(
    .Pages         (Pages),
    .PcIds         (PcIds),
    .Sessions      (Sessions),
    .Slots         (TxSlots),
    .PageMapLatency(PageMapLatency),
    .PcIdLatency   (PcIdLatency),
    .PcieLongestPs (PcieLongestPs),
    .NetShortestPs (NetShortestPs)
  ) u_requester (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .ip_i                    (ip_pcie),
    .netmask_i               (netmask),
    .gateway_mac_i           (gateway_mac),
    .merge_i                 (merge),
    .settings_write_i        (settings_write),
    .mark_i                  (flush_valid && flush_ready),
    .mark_pc_id_i            (flush_pc_id),
    .mark_cookie_i           (flush_cookie),
    .mark_ready_o            (flush_ready),
    .page_look_i             (page_look),
    .page_op_i               (page_op),
    .page_first_i            (page_first),
    .page_end_i              (page_end),
    .page_active_i           (page_active),
    .page_store_ready_o      (page_store_ready),
    .page_load_ready_o       (page_load_ready),
    .page_pay_even_we_i      (page_pay_even_we),
    .page_pay_odd_we_i       (page_pay_odd_we),
    .pay_even_idx_i          (page_pay_even_idx),
    .pay_even_data_i         (page_pay_even_data),
    .pay_odd_idx_i           (page_pay_odd_idx),
    .pay_odd_data_i          (page_pay_odd_data),
    .rx_error_i              (rx_error),
    .rx_error_valid_i        (rx_error_valid),
    .page_cfg_write_i        (page_write),
    .page_cfg_index_i        (page_index),
    .page_cfg_entry_i        (page_wentry),
    .page_cfg_read_i         (page_read),
    .page_cfg_entry_o        (page_rentry),
    .page_cfg_read_done_o    (page_read_done),
    .pcid_cfg_write_i        (pc_id_write),
    .pcid_cfg_index_i        (pc_id_index),
    .pcid_cfg_entry_i        (pc_id_wentry),
    .pcid_cfg_read_i         (pc_id_read),
    .pcid_cfg_entry_o        (pc_id_rentry),
    .pcid_cfg_read_done_o    (pc_id_read_done),
    .alloc_o                 (alloc),
    .alloc_load_o            (alloc_load),
    .alloc_session_o         (alloc_session),
    .alloc_op_o              (alloc_op),
    .alloc_number_i          (alloc_number),
    .alloc_ok_i              (alloc_ok),
    .alloc_tag_i             (alloc_tag),
    .retry_valid_i           (retry_valid),
    .retry_tag_i             (retry_tag),
    .retry_op_i              (retry_op),
    .retry_number_i          (retry_number),
    .retry_ready_o           (retry_ready),
    .cpl_error_o             (cpl_error[0]),
    .cpl_error_valid_o       (cpl_error_valid[0]),
    .cpl_error_ready_i       (cpl_error_ready[0]),
    .cnt_tlp_store_o         (pcie_event[CNT_TLP_STORE]),
    .cnt_tlp_load_o          (pcie_event[CNT_TLP_LOAD]),
    .cnt_tlp_store_unmapped_o(pcie_event[CNT_TLP_STORE_UNMAPPED]),
    .cnt_tlp_load_unmapped_o (pcie_event[CNT_TLP_LOAD_UNMAPPED]),
    .cnt_load_no_tag_o       (pcie_event[CNT_LOAD_NO_TAG]),
    .cnt_load_retry_o        (pcie_event[CNT_LOAD_RETRY]),
    .busy_pcie_o             (busy_requester_pcie),
    .busy_net_o              (busy_requester_net),
    .valid_o                 (frame_valid[0]),
    .permitted_o             (frame_permitted[0]),
    .frame_o                 (frame[0]),
    .mark_o                  (mark),
    .mark_session_o          (mark_session),
    .mark_cookie_o           (mark_cookie),
    .pay_idx_i               (frame_pay_idx),
    .pay_word_o              (frame_pay_word[0]),
    .lock_i                  (frame_lock[0]),
    .pop_i                   (frame_pop[0]),
    .cnt_tx_merged_o         (net_event[CNT_TX_MERGED])
  );

  logic built_start, built_sealed, built_ready_start, built_lost, no_key, no_key_q;
  logic frame_start, frame_ready_start, busy_builder, busy_resend, busy_seal, busy_mux, busy_arp;

  // As built, and as they leave: sealed if their session is.
  axis_if #(
    .DataW(64),
    .UserW(1)
  )
      built (), frames (), arp ();

  frame_builder #(
    .PcIds   (PcIds),
    .Sessions(Sessions)
  ) u_frame_builder (
    .clk_i              (clk_net_i),
    .rst_i              (rst_net_i),
    .mac_i              (mac_o),
    .ip_i               (ip_o),
    .epoch_i            (epoch_net),
    .src_valid_i        (frame_valid),
    .src_permitted_i    (frame_permitted),
    .src_frame_i        (frame),
    .src_pay_idx_o      (frame_pay_idx),
    .src_pay_word_i     (frame_pay_word),
    .src_lock_o         (frame_lock),
    .src_pop_o          (frame_pop),
    .mark_i             (mark),
    .mark_valid_o       (mark_valid),
    .mark_ready_i       (mark_ready),
    .session_o          (tx_session),
    .sending_o          (tx_sending),
    .session_port_i     (tx_port),
    .session_valid_i    (session_valid),
    .session_sealed_i   (session_sealed),
    .open_i             (session_open),
    .lost_i             (session_lost),
    .resend_start_o     (new_frame),
    .start_sequence_i   (new_sequence),
    .rs_sequence_i      (resend_sequence),
    .copy_frame_we_o    (copy_frame_we),
    .copy_frame_o       (copy_frame),
    .copy_we_o          (copy_we),
    .copy_idx_o         (copy_idx),
    .copy_word_o        (copy_word),
    .ack_pending_i      (ack_pending),
    .ack_urgent_i       (ack_urgent),
    .ack_value_i        (ack_value[15:0]),
    .ack_taken_o        (ack_taken),
    .start_o            (built_start),
    .start_sealed_o     (built_sealed),
    .ready_start_i      (built_ready_start),
    .m_axis             (built),
    .cnt_tx_store_o     (net_event[CNT_TX_STORE]),
    .cnt_tx_load_o      (net_event[CNT_TX_LOAD]),
    .cnt_tx_completion_o(net_event[CNT_TX_COMPLETION]),
    .cnt_tx_error_o     (net_event[CNT_TX_ERROR]),
    .cnt_tx_ack_o       (net_event[CNT_TX_ACK]),
    .cnt_tx_nack_o      (net_event[CNT_TX_NACK]),
    .cnt_tx_void_o      (net_event[CNT_TX_VOID]),
    .cnt_tx_resend_o    (net_event[CNT_TX_RESEND]),
    .cnt_tx_lost_o      (built_lost),
    .busy_o             (busy_builder)
  );

  resend #(
    .Sessions (Sessions),
    .SendSlots(SendSlots)
  ) u_resend (
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .resend_ticks_i  (resend_ticks),
    .resend_limit_i  (resend_limit[7:0]),
    .backoff_i       (resend_limit[11:8]),
    .stretch_i       (resend_limit[15:12]),
    .window_i        (window[7:0]),
    .pace_frames_i   (window[23:16]),
    .pace_up_i       (window[27:24]),
    .pace_max_i      (pace[11:0]),
    .pace_down_i     (pace[15:12]),
    .pace_ticks_i    (pace[31:16]),
    .valid_i         (session_valid),
    .reset_i         (session_reset),
    .reset_index_i   (session_reset_index),
    .reset_start_i   (session_reset_start),
    .give_up_i,
    .open_o          (session_open),
    .lost_o          (session_lost),
    .start_i         (new_frame),
    .start_session_i (tx_sending),
    .start_sequence_o(new_sequence),
    .copy_frame_we_i (copy_frame_we),
    .copy_frame_i    (copy_frame),
    .copy_we_i       (copy_we),
    .copy_idx_i      (copy_idx),
    .copy_word_i     (copy_word),
    .rs_valid_o      (frame_valid[4]),
    .rs_frame_o      (frame[4]),
    .rs_sequence_o   (resend_sequence),
    .rs_lock_i       (frame_lock[4]),
    .pay_idx_i       (frame_pay_idx),
    .pay_word_o      (frame_pay_word[4]),
    .rs_pop_i        (frame_pop[4]),
    .ack_valid_i     (ack_valid),
    .ack_i           (ack),
    .refused_valid_i (refused_valid),
    .refused_i       (refused),
    .mark_valid_i    (mark_valid),
    .mark_session_i  (mark_session),
    .mark_cookie_i   (mark_cookie),
    .mark_ready_o    (mark_ready),
    .event_valid_o   (session_event_valid),
    .event_o         (session_event),
    .event_ready_i   (session_event_ready),
    .status_read_i   (status_read),
    .status_index_i  (8'(status_index)),
    .status_done_o   (status_done),
    .status_o        (status_sender),
    .cnt_tx_timeout_o(net_event[CNT_TX_TIMEOUT]),
    .busy_o          (busy_resend)
  );

  seal #(
    .Sessions(Sessions),
    .Auth    (Auth)
  ) u_seal (
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .fb_start_i      (built_start),
    .fb_ready_start_o(built_ready_start),
    .fb_sealed_i     (built_sealed),
    .fb_session_i    (tx_session),
    .fb_port_i       (tx_port),
    .s_frames        (built),
    .start_o         (frame_start),
    .ready_start_i   (frame_ready_start),
    .m_axis          (frames),
    .key_write_i     (key_write),
    .key_index_i     (8'(key_index)),
    .key_entry_i     (key_wentry),
    .cnt_no_key_o    (no_key),
    .busy_o          (busy_seal)
  );

  // What the sealer drops is counted with what the builder drops, a cycle later if they coincide.
  always_ff @(posedge clk_net_i) begin
    if (rst_net_i) no_key_q <= 1'b0;
    else no_key_q <= no_key || (no_key_q && built_lost);
  end
  assign net_event[CNT_TX_LOST] = built_lost || no_key_q;

  always_comb begin
    status          = status_sender;
    status.expected = status_expected;
  end

  tx_mux u_tx_mux (
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .fb_start_i      (frame_start),
    .fb_ready_start_o(frame_ready_start),
    .s_frames        (frames),
    .s_arp           (arp),
    .start_o,
    .ready_start_i,
    .m_axis          (m_eth),
    .cnt_tx_arp_o    (net_event[CNT_TX_ARP]),
    .busy_o          (busy_mux)
  );

  // ---- Frames to operations ----------------------------------------------------------------------
  logic busy_unseal, busy_server_pcie, busy_server_net;
  // The same stream for two watchers, and what is left of it when seals are open.
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) received ();
  axis_if #(
    .DataW(64),
    .UserW(2)
  ) opened ();

  assign received.tdata  = s_eth.tdata;
  assign received.tkeep  = s_eth.tkeep;
  assign received.tvalid = s_eth.tvalid;
  assign received.tlast  = s_eth.tlast;
  assign received.tuser  = s_eth.tuser;
  assign received.tready = 1'b1;
  assign s_eth.tready    = 1'b1;

  unseal #(
    .Sessions(Sessions),
    .Auth    (Auth)
  ) u_unseal (
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .enable_i        (auth),
    .mac_i           (mac_o),
    .ip_i            (ip_o),
    .session_valid_i (session_valid),
    .session_sealed_i(session_sealed),
    .s_axis          (received),
    .m_axis          (opened),
    .key_write_i     (key_write),
    .key_index_i     (8'(key_index)),
    .key_entry_i     (key_wentry),
    .cnt_bad_seal_o  (net_event[CNT_RX_BAD_SEAL]),
    .busy_o          (busy_unseal)
  );

  assign opened.tready = 1'b1;  // the receiver never waits

  arp_responder u_arp_responder (
    .clk_i  (clk_net_i),
    .rst_i  (rst_net_i),
    .ip_i   (arp_answer_i ? ip_o : '0),
    .mac_i  (mac_o),
    .s_axis (received),
    .m_axis (arp),
    .reply_o(),
    .drop_o (net_event[CNT_ARP_DROPPED]),
    .busy_o (busy_arp)
  );

  server #(
    .Regions   (Regions),
    .RxSlots   (RxSlots),
    .LoadTags  (LoadTags),
    .DmaTags   (DmaTags),
    .Sessions  (Sessions),
    .BeatCycles(beat_cycles(NetShortestPs))
  ) u_server (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .s_frames                        (opened),
    .mac_i                           (mac_o),
    .ip_i                            (ip_o),
    .region_cfg_hold_o               (region_hold),
    .region_cfg_write_i              (region_write),
    .region_cfg_index_i              (region_index),
    .region_cfg_entry_i              (region_wentry),
    .region_cfg_read_i               (region_read),
    .region_cfg_entry_o              (region_rentry),
    .region_cfg_read_done_o          (region_read_done),
    .session_cfg_write_i             (session_write),
    .session_cfg_index_i             (session_index),
    .session_cfg_entry_i             (session_wentry),
    .session_cfg_read_i              (session_read),
    .session_cfg_entry_o             (session_rentry),
    .session_cfg_read_done_o         (session_read_done),
    .session_valid_o                 (session_valid),
    .session_sealed_o                (session_sealed),
    .session_reset_o                 (session_reset),
    .session_reset_index_o           (session_reset_index),
    .session_reset_start_o           (session_reset_start),
    .ack_ticks_i                     (ack_ticks),
    .ack_every_i                     (window[15:8]),
    .status_index_i                  (8'(status_index)),
    .status_expected_o               (status_expected),
    .tx_session_i                    (tx_session),
    .tx_port_o                       (tx_port),
    .ack_session_i                   (tx_sending),
    .ack_pending_o                   (ack_pending),
    .ack_urgent_o                    (ack_urgent),
    .ack_value_o                     (ack_value),
    .ack_taken_i                     (ack_taken),
    .ctl_valid_o                     (frame_valid[3]),
    .ctl_frame_o                     (frame[3]),
    .ctl_lock_i                      (frame_lock[3]),
    .ctl_pop_i                       (frame_pop[3]),
    .ack_valid_o                     (ack_valid),
    .ack_o                           (ack),
    .refused_valid_o                 (refused_valid),
    .refused_o                       (refused),
    .deny_valid_o                    (frame_valid[2]),
    .deny_frame_o                    (frame[2]),
    .deny_pop_i                      (frame_pop[2]),
    .cpl_frame_valid_o               (frame_valid[1]),
    .cpl_frame_o                     (frame[1]),
    .cpl_frame_permitted_o           (frame_permitted[1]),
    .cpl_frame_pay_idx_i             (frame_pay_idx),
    .cpl_frame_pay_word_o            (frame_pay_word[1]),
    .cpl_frame_pop_i                 (frame_pop[1]),
    .err_valid_o                     (error_valid),
    .err_code_o                      (error_code),
    .err_op_o                        (error_op),
    .err_sequence_o                  (error_sequence),
    .err_address_o                   (error_address),
    .err_ip_o                        (error_ip),
    .cnt_rx_not_mine_o               (net_event[CNT_RX_NOT_MINE]),
    .cnt_rx_arp_o                    (net_event[CNT_RX_ARP]),
    .cnt_rx_not_ipnuma_o             (net_event[CNT_RX_NOT_IPNUMA]),
    .cnt_rx_bad_ip_checksum_o        (net_event[CNT_RX_BAD_IP_CHECKSUM]),
    .cnt_rx_bad_magic_o              (net_event[CNT_RX_BAD_MAGIC]),
    .cnt_rx_bad_tlp_o                (net_event[CNT_RX_BAD_TLP]),
    .cnt_rx_bad_length_o             (net_event[CNT_RX_BAD_LENGTH]),
    .cnt_rx_bad_key_o                (net_event[CNT_RX_BAD_KEY]),
    .cnt_rx_bad_end_code_o           (net_event[CNT_RX_BAD_END_CODE]),
    .cnt_rx_bad_source_o             (net_event[CNT_RX_BAD_SOURCE]),
    .cnt_rx_bad_rights_o             (net_event[CNT_RX_BAD_RIGHTS]),
    .cnt_rx_bad_bounds_o             (net_event[CNT_RX_BAD_BOUNDS]),
    .cnt_rx_store_o                  (net_event[CNT_RX_STORE]),
    .cnt_rx_load_o                   (net_event[CNT_RX_LOAD]),
    .cnt_rx_completion_o             (net_event[CNT_RX_COMPLETION]),
    .cnt_rx_error_report_o           (net_event[CNT_RX_ERROR_REPORT]),
    .cnt_rx_overflow_o               (net_event[CNT_RX_OVERFLOW]),
    .cnt_rx_bad_session_o            (net_event[CNT_RX_BAD_SESSION]),
    .cnt_rx_duplicate_o              (net_event[CNT_RX_DUPLICATE]),
    .cnt_rx_gap_o                    (net_event[CNT_RX_GAP]),
    .cnt_rx_void_o                   (net_event[CNT_RX_VOID]),
    .cnt_rx_ack_o                    (net_event[CNT_RX_ACK]),
    .cnt_deny_dropped_o              (net_event[CNT_DENY_DROPPED]),
    .busy_net_o                      (busy_server_net),
    .completer_id_i,
    .pcie_cfg_i,
    .read_timeout_us_i               (read_timeout_us),
    .now_us_i,
    .alloc_i                         (alloc),
    .alloc_load_i                    (alloc_load),
    .alloc_session_i                 (alloc_session),
    .alloc_op_i                      (alloc_op),
    .alloc_number_o                  (alloc_number),
    .alloc_ok_o                      (alloc_ok),
    .alloc_tag_o                     (alloc_tag),
    .load_retry_us_i                 (load_retry_us),
    .retry_valid_o                   (retry_valid),
    .retry_tag_o                     (retry_tag),
    .retry_op_o                      (retry_op),
    .retry_number_o                  (retry_number),
    .retry_ready_i                   (retry_ready),
    .arrival_o                       (arrival),
    .cpl_error_o                     (cpl_error[1]),
    .cpl_error_valid_o               (cpl_error_valid[1]),
    .cpl_error_ready_i               (cpl_error_ready[1]),
    .mark_i                          (register_answer),
    .marked_o                        (stores_before),
    .m_tlp                           (dma_tlp),
    .cpl_pay_even_we_i               (cpl_pay_even_we),
    .cpl_pay_odd_we_i                (cpl_pay_odd_we),
    .pay_even_idx_i                  (cpl_pay_even_idx),
    .pay_even_data_i                 (cpl_pay_even_data),
    .pay_odd_idx_i                   (cpl_pay_odd_idx),
    .pay_odd_data_i                  (cpl_pay_odd_data),
    .cpl_valid_i                     (cpl_valid),
    .cpl_head_i                      (cpl_head),
    .cpl_ready_o                     (cpl_ready),
    .cpl_active_i                    (cpl_active),
    .cnt_tlp_completion_o            (pcie_event[CNT_TLP_COMPLETION]),
    .cnt_tlp_completion_unexpected_o (pcie_event[CNT_TLP_COMPLETION_UNEXPECTED]),
    .cnt_load_timeout_o              (pcie_event[CNT_LOAD_TIMEOUT]),
    .cnt_load_completed_o            (pcie_event[CNT_LOAD_COMPLETED]),
    .cnt_load_completion_unexpected_o(pcie_event[CNT_LOAD_COMPLETION_UNEXPECTED]),
    .cnt_load_completion_repeated_o  (pcie_event[CNT_LOAD_COMPLETION_REPEATED]),
    .cnt_dma_write_o                 (pcie_event[CNT_DMA_WRITE]),
    .cnt_dma_read_o                  (pcie_event[CNT_DMA_READ]),
    .cnt_dma_read_timeout_o          (pcie_event[CNT_DMA_READ_TIMEOUT]),
    .busy_pcie_o                     (busy_server_pcie)
  );

  // These need no permission; refusals carry no payload but zeros, acknowledgements none.
  assign frame_permitted[4:2] = '1;
  assign frame_pay_word[3:2]  = '0;

  // ---- What the host is told ---------------------------------------------------------------------
  logic busy_events, busy_notice_net, busy_notice_pcie, notice_lost, report_lost;

  net_events u_net_events (
    .clk_i            (clk_net_i),
    .rst_i            (rst_net_i),
    .link_up_i,
    .session_valid_i  (session_event_valid),
    .session_event_i  (session_event),
    .session_ready_o  (session_event_ready),
    .report_valid_i   (error_valid && !refused_valid && session_valid == '0),  // see server.sv
    .report_code_i    (error_code),
    .report_op_i      (error_op),
    .report_sequence_i(error_sequence),
    .report_address_i (error_address),
    .event_valid_o    (notice_valid),
    .event_o          (notice),
    .event_ready_i    (notice_ready),
    .cnt_event_lost_o (report_lost),
    .busy_o           (busy_events)
  );

  host_notice u_host_notice (
    .clk_net_i,
    .rst_net_i,
    .event_valid_i      (notice_valid),
    .event_i            (notice),
    .event_ready_o      (notice_ready),
    .cnt_event_lost_o   (notice_lost),
    .busy_net_o         (busy_notice_net),
    .clk_pcie_i,
    .rst_pcie_i,
    .completer_id_i,
    .bus_master_i       (pcie_cfg_i.bus_master),
    .now_us_i,
    .event_base_i       (event_base),
    .event_log2_i       (event_log2),
    .event_restart_i    (event_restart),
    .event_tail_i       (event_tail),
    .msi_address_i      (msi_address),
    .msi_data_i         (msi_data),
    .msi_moderation_us_i(msi_moderation_us),
    .msi_control_i      (msi_control),
    .arrival_i          (arrival),
    .m_tlp              (notice_tlp),
    .cnt_event_written_o(pcie_event[CNT_EVENT_WRITTEN]),
    .cnt_msi_o          (pcie_event[CNT_MSI]),
    .busy_pcie_o        (busy_notice_pcie)
  );
  assign net_event[CNT_EVENT_LOST] = report_lost || notice_lost;

  // ---- The MAC's counters ------------------------------------------------------------------------
  assign net_event[CNT_RX_FRAMES] = |rx_stat_i;
  assign net_event[CNT_RX_BAD_FCS] = rx_stat_i.bad_fcs;
  assign net_event[CNT_RX_RUNT] = rx_stat_i.runt;
  assign net_event[CNT_RX_GIANT] = rx_stat_i.giant;
  assign net_event[CNT_RX_PHY_ERROR] = rx_stat_i.error;
  assign net_event[CNT_RX_BAD_PREAMBLE] = rx_stat_i.bad_preamble;
  assign net_event[CNT_TX_UNDERRUN] = tx_stat_i.underrun;

  assign busy_pcie_o = busy_tlp_rx || busy_requester_pcie || busy_completer || busy_cpl_error
                       || busy_server_pcie || busy_notice_pcie || busy_registers || m_tlp.tvalid;
  assign busy_net_o = busy_requester_net || busy_builder || busy_resend || busy_seal ||
      busy_unseal || busy_mux || busy_arp || busy_server_net || busy_events || busy_notice_net ||
      far_busy || busy_net_registers;

  logic unused;
  assign unused = ^{tx_stat_i.good, tx_stat_i.spoiled, frame_lock[2:1], ack_value[31:16]};
endmodule
