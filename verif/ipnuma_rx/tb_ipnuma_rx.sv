// SPDX-License-Identifier: Apache-2.0
// Flat ports around the receiving half: a MAC receiver, `server`, and tlp_rx for the completions of
// the root complex.
//
// Latency : none of its own.
// Clock   : clk_net_i, clk_pcie_i.
// Source  : bench only.
module tb_ipnuma_rx
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// 1: gmii_rx (8 bits), 0: xgmii_rx.
  parameter bit Gmii = 1'b0,
  parameter int unsigned Regions = 16,
  parameter int unsigned RxSlots = 32,
  parameter int unsigned Sessions = 16,
  localparam int unsigned RegionW = $clog2(Regions),
  localparam int unsigned SessionW = $clog2(Sessions)
) (
  input  logic        clk_pcie_i,
  input  logic        rst_pcie_i,
  input  logic        clk_net_i,
  input  logic        rst_net_i,
  input  logic [63:0] xgmii_rxd_i,
  input  logic [ 7:0] xgmii_rxc_i,
  input  logic [ 7:0] gmii_rxd_i,
  input  logic        gmii_rx_dv_i,
  input  logic [47:0] mac_i,
  input  logic [31:0] ip_i,
  output logic [ 5:0] mac_stat_o,
  /// Last beat of a frame held (for latency).
  output logic        held_last_o,
  output logic        arrival_o,

  input  logic               region_cfg_write_i,
  input  logic [RegionW-1:0] region_cfg_index_i,
  input  logic [      255:0] region_cfg_entry_i,
  input  logic               region_cfg_read_i,
  output logic [      255:0] region_cfg_entry_o,
  output logic               region_cfg_read_done_o,

  input  logic                     session_cfg_write_i,
  input  logic      [SessionW-1:0] session_cfg_index_i,
  input  logic      [       255:0] session_cfg_entry_i,
  input  logic                     session_cfg_read_i,
  output logic      [       255:0] session_cfg_entry_o,
  output logic                     session_cfg_read_done_o,
  output logic      [Sessions-1:0] session_valid_o,
  output logic      [Sessions-1:0] session_sealed_o,
  output logic                     session_reset_o,
  output logic      [         7:0] session_reset_index_o,
  output logic      [        31:0] session_reset_start_o,
  input  logic      [         7:0] ack_ticks_i,
  input  logic      [         7:0] ack_every_i,
  input  logic      [         7:0] status_index_i,
  output logic      [        31:0] status_expected_o,
  input  logic      [         7:0] tx_session_i,
  output logic      [        15:0] tx_port_o,
  input  logic      [         7:0] ack_session_i,
  output logic                     ack_pending_o,
  output logic                     ack_urgent_o,
  output logic      [        31:0] ack_value_o,
  input  logic                     ack_taken_i,
  output logic                     ctl_valid_o,
  output tx_frame_t                ctl_frame_o,
  input  logic                     ctl_lock_i,
  input  logic                     ctl_pop_i,
  output logic                     ack_valid_o,
  output ack_t                     ack_o,
  output logic                     refused_valid_o,
  output refused_t                 refused_o,

  output logic             deny_valid_o,
  output tx_frame_t        deny_frame_o,
  input  logic             deny_pop_i,
  output logic             cpl_frame_valid_o,
  output tx_frame_t        cpl_frame_o,
  output logic             cpl_frame_permitted_o,
  input  logic      [ 4:0] cpl_frame_pay_idx_i,
  output logic      [63:0] cpl_frame_pay_word_o,
  input  logic             cpl_frame_pop_i,

  output logic                     err_valid_o,
  /// {code, op, sequence, address, ip}
  output logic [            127:0] err_o,
  /// Pulses, by wire_pkg::net_counter_e.
  output logic [ NET_COUNTERS-1:0] net_counts_o,
  output logic [PCIE_COUNTERS-1:0] pcie_counts_o,
  output logic                     busy_net_o,
  output logic                     busy_pcie_o,

  input  logic       [15:0] completer_id_i,
  input  logic       [ 2:0] cfg_max_payload_i,
  input  logic       [ 2:0] cfg_max_read_i,
  input  logic              cfg_bus_master_i,
  input  logic       [31:0] read_timeout_us_i,
  input  logic       [31:0] now_us_i,
  input  logic              alloc_i,
  input  load_t             alloc_load_i,
  input  session_t          alloc_session_i,
  output logic              alloc_ok_o,
  output logic       [ 7:0] alloc_tag_o,
  output cpl_error_t        cpl_error_o,
  output logic              cpl_error_valid_o,
  input  logic              cpl_error_ready_i,

  output logic [63:0] m_tlp_tdata_o,
  output logic [ 7:0] m_tlp_tkeep_o,
  output logic        m_tlp_tvalid_o,
  output logic        m_tlp_tlast_o,
  input  logic        m_tlp_tready_i,
  input  logic [63:0] s_tlp_tdata_i,
  input  logic [ 7:0] s_tlp_tkeep_i,
  input  logic        s_tlp_tvalid_i,
  input  logic        s_tlp_tlast_i,
  output logic        s_tlp_tready_o
);
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) received ();
  axis_if #(
    .DataW(64),
    .UserW(2)
  ) frames ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(3)
  ) s_tlp ();

  // A frame from a source MAC address with the group bit counts as one that came sealed.
  logic sealed_q, begun_q;
  always_ff @(posedge clk_net_i) begin
    if (rst_net_i) begin
      begun_q <= 1'b0;
    end else if (received.tvalid) begin
      begun_q <= !received.tlast;
      if (!begun_q) sealed_q <= received.tdata[48];
    end
  end
  assign received.tready = 1'b1;
  assign frames.tdata    = received.tdata;
  assign frames.tkeep    = received.tkeep;
  assign frames.tvalid   = received.tvalid;
  assign frames.tlast    = received.tlast;
  assign frames.tuser    = {sealed_q, received.tuser};
  assign frames.tready   = 1'b1;
  assign held_last_o     = received.tvalid && received.tlast;

  if (Gmii) begin : gen_gmii
    gmii_rx u_mac (
      .clk_i       (clk_net_i),
      .rst_i       (rst_net_i),
      .gmii_rxd_i,
      .gmii_rx_dv_i,
      .gmii_rx_er_i(1'b0),
      .m_axis      (received),
      .stat_o      (mac_stat_o),
      .busy_o      ()
    );
  end else begin : gen_xgmii
    xgmii_rx u_mac (
      .clk_i (clk_net_i),
      .rst_i (rst_net_i),
      .xgmii_rxd_i,
      .xgmii_rxc_i,
      .m_axis(received),
      .stat_o(mac_stat_o),
      .busy_o()
    );
  end

  assign m_tlp_tdata_o  = m_tlp.tdata;
  assign m_tlp_tkeep_o  = m_tlp.tkeep;
  assign m_tlp_tvalid_o = m_tlp.tvalid;
  assign m_tlp_tlast_o  = m_tlp.tlast;
  assign m_tlp.tready   = m_tlp_tready_i;
  assign s_tlp.tdata    = s_tlp_tdata_i;
  assign s_tlp.tkeep    = s_tlp_tkeep_i;
  assign s_tlp.tvalid   = s_tlp_tvalid_i;
  assign s_tlp.tlast    = s_tlp_tlast_i;
  assign s_tlp.tuser    = BAR_NONE;
  assign s_tlp_tready_o = s_tlp.tready;

  pcie_pkg::pcie_cfg_t cfg;
  assign cfg = '{
          max_payload: cfg_max_payload_i,
          max_read: cfg_max_read_i,
          rcb_128: 1'b0,
          bus_master: cfg_bus_master_i
      };

  tlp_rules #(
    .AtSource(1'b1)
  ) u_rules (
    .clk_i   (clk_pcie_i),
    .rst_i   (rst_pcie_i),
    .cfg_i   (cfg),
    .tdata_i (m_tlp.tdata),
    .tkeep_i (m_tlp.tkeep),
    .tvalid_i(m_tlp.tvalid),
    .tready_i(m_tlp.tready),
    .tlast_i (m_tlp.tlast)
  );

  logic even_we, odd_we, cpl_valid, cpl_active, cpl_ready;
  logic [4:0] even_idx, odd_idx;
  logic [31:0] even_data, odd_data;
  tlp_pkg::cpl_head_t cpl_head;

  tlp_rx u_tlp_rx (
    .clk_i                (clk_pcie_i),
    .rst_i                (rst_pcie_i),
    .s_axis               (s_tlp),
    .reg_op_o             (),
    .reg_op_valid_o       (),
    .reg_op_ready_i       (1'b1),
    .reg_read_ok_i        (1'b1),
    .page_look_o          (),
    .page_active_o        (),
    .page_op_o            (),
    .page_first_o         (),
    .page_end_o           (),
    .page_store_ready_i   (1'b1),
    .page_load_ready_i    (1'b1),
    .page_pay_even_we_o   (),
    .page_pay_odd_we_o    (),
    .page_pay_even_idx_o  (),
    .page_pay_even_data_o (),
    .page_pay_odd_idx_o   (),
    .page_pay_odd_data_o  (),
    .cpl_pay_even_we_o    (even_we),
    .cpl_pay_odd_we_o     (odd_we),
    .cpl_pay_even_idx_o   (even_idx),
    .cpl_pay_even_data_o  (even_data),
    .cpl_pay_odd_idx_o    (odd_idx),
    .cpl_pay_odd_data_o   (odd_data),
    .cpl_valid_o          (cpl_valid),
    .cpl_head_o           (cpl_head),
    .cpl_ready_i          (cpl_ready),
    .cpl_active_o         (cpl_active),
    .rx_error_o           (),
    .rx_error_valid_o     (),
    .cnt_tlp_page_beyond_o(),
    .cnt_tlp_unsupported_o(),
    .cnt_tlp_poisoned_o   (),
    .cnt_tlp_malformed_o  (pcie_counts_o[CNT_TLP_MALFORMED]),
    .busy_o               ()
  );

  // What others count.
  assign net_counts_o[CNT_RX_BAD_PREAMBLE:0]                 = '0;
  assign net_counts_o[CNT_RX_BAD_SESSION-1:CNT_ARP_DROPPED]  = '0;
  assign net_counts_o[NET_COUNTERS-1:CNT_RX_BAD_SEAL]        = '0;
  assign pcie_counts_o[CNT_TLP_REGISTER_READ:0]              = '0;
  assign pcie_counts_o[CNT_TLP_POISONED:CNT_TLP_UNSUPPORTED] = '0;
  assign pcie_counts_o[CNT_LOAD_NO_TAG]                      = '0;
  assign pcie_counts_o[CNT_REGISTER_REFUSED]                 = '0;
  assign pcie_counts_o[CNT_LOAD_RETRY]                       = '0;
  assign pcie_counts_o[PCIE_COUNTERS-1:CNT_EVENT_WRITTEN]    = '0;

  server #(
    .Regions (Regions),
    .RxSlots (RxSlots),
    .Sessions(Sessions)
  ) u_server (
    .s_frames                        (frames),
    .region_cfg_hold_o               (),
    .mark_i                          (1'b0),
    .marked_o                        (),
    .err_code_o                      (err_o[127:120]),
    .err_op_o                        (err_o[119:112]),
    .err_sequence_o                  (err_o[111:96]),
    .err_address_o                   (err_o[95:32]),
    .err_ip_o                        (err_o[31:0]),
    .cnt_rx_not_mine_o               (net_counts_o[CNT_RX_NOT_MINE]),
    .cnt_rx_arp_o                    (net_counts_o[CNT_RX_ARP]),
    .cnt_rx_not_ipnuma_o             (net_counts_o[CNT_RX_NOT_IPNUMA]),
    .cnt_rx_bad_ip_checksum_o        (net_counts_o[CNT_RX_BAD_IP_CHECKSUM]),
    .cnt_rx_bad_magic_o              (net_counts_o[CNT_RX_BAD_MAGIC]),
    .cnt_rx_bad_tlp_o                (net_counts_o[CNT_RX_BAD_TLP]),
    .cnt_rx_bad_length_o             (net_counts_o[CNT_RX_BAD_LENGTH]),
    .cnt_rx_bad_key_o                (net_counts_o[CNT_RX_BAD_KEY]),
    .cnt_rx_bad_end_code_o           (net_counts_o[CNT_RX_BAD_END_CODE]),
    .cnt_rx_bad_source_o             (net_counts_o[CNT_RX_BAD_SOURCE]),
    .cnt_rx_bad_rights_o             (net_counts_o[CNT_RX_BAD_RIGHTS]),
    .cnt_rx_bad_bounds_o             (net_counts_o[CNT_RX_BAD_BOUNDS]),
    .cnt_rx_store_o                  (net_counts_o[CNT_RX_STORE]),
    .cnt_rx_load_o                   (net_counts_o[CNT_RX_LOAD]),
    .cnt_rx_completion_o             (net_counts_o[CNT_RX_COMPLETION]),
    .cnt_rx_error_report_o           (net_counts_o[CNT_RX_ERROR_REPORT]),
    .cnt_rx_overflow_o               (net_counts_o[CNT_RX_OVERFLOW]),
    .cnt_deny_dropped_o              (net_counts_o[CNT_DENY_DROPPED]),
    .cnt_rx_bad_session_o            (net_counts_o[CNT_RX_BAD_SESSION]),
    .cnt_rx_duplicate_o              (net_counts_o[CNT_RX_DUPLICATE]),
    .cnt_rx_gap_o                    (net_counts_o[CNT_RX_GAP]),
    .cnt_rx_void_o                   (net_counts_o[CNT_RX_VOID]),
    .cnt_rx_ack_o                    (net_counts_o[CNT_RX_ACK]),
    .alloc_op_i                      ('0),
    .alloc_number_o                  (),
    .load_retry_us_i                 ('0),
    .retry_valid_o                   (),
    .retry_tag_o                     (),
    .retry_number_o                  (),
    .retry_op_o                      (),
    .retry_ready_i                   (1'b0),
    .arrival_o                       (arrival_o),
    .pcie_cfg_i                      (cfg),
    .m_tlp                           (m_tlp),
    .cpl_pay_even_we_i               (even_we),
    .cpl_pay_odd_we_i                (odd_we),
    .pay_even_idx_i                  (even_idx),
    .pay_even_data_i                 (even_data),
    .pay_odd_idx_i                   (odd_idx),
    .pay_odd_data_i                  (odd_data),
    .cpl_valid_i                     (cpl_valid),
    .cpl_head_i                      (cpl_head),
    .cpl_active_i                    (cpl_active),
    .cpl_ready_o                     (cpl_ready),
    .cnt_tlp_completion_o            (pcie_counts_o[CNT_TLP_COMPLETION]),
    .cnt_tlp_completion_unexpected_o (pcie_counts_o[CNT_TLP_COMPLETION_UNEXPECTED]),
    .cnt_load_timeout_o              (pcie_counts_o[CNT_LOAD_TIMEOUT]),
    .cnt_load_completed_o            (pcie_counts_o[CNT_LOAD_COMPLETED]),
    .cnt_load_completion_unexpected_o(pcie_counts_o[CNT_LOAD_COMPLETION_UNEXPECTED]),
    .cnt_load_completion_repeated_o  (pcie_counts_o[CNT_LOAD_COMPLETION_REPEATED]),
    .cnt_dma_write_o                 (pcie_counts_o[CNT_DMA_WRITE]),
    .cnt_dma_read_o                  (pcie_counts_o[CNT_DMA_READ]),
    .cnt_dma_read_timeout_o          (pcie_counts_o[CNT_DMA_READ_TIMEOUT]),
    .*
  );
endmodule
