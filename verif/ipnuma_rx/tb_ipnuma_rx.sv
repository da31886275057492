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
  localparam int unsigned RegionW = $clog2(Regions)
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

  input  logic               region_cfg_write_i,
  input  logic [RegionW-1:0] region_cfg_index_i,
  input  logic [      255:0] region_cfg_entry_i,
  input  logic               region_cfg_read_i,
  output logic [      255:0] region_cfg_entry_o,
  output logic               region_cfg_read_done_o,

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
  input  logic       [31:0] read_timeout_us_i,
  input  logic       [31:0] now_us_i,
  input  logic              alloc_i,
  input  load_t             alloc_load_i,
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
  ) frames ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(3)
  ) s_tlp ();

  assign frames.tready = 1'b1;
  assign held_last_o   = frames.tvalid && frames.tlast;

  if (Gmii) begin : gen_gmii
    gmii_rx u_mac (
      .clk_i       (clk_net_i),
      .rst_i       (rst_net_i),
      .gmii_rxd_i,
      .gmii_rx_dv_i,
      .gmii_rx_er_i(1'b0),
      .m_axis      (frames),
      .stat_o      (mac_stat_o),
      .busy_o      ()
    );
  end else begin : gen_xgmii
    xgmii_rx u_mac (
      .clk_i (clk_net_i),
      .rst_i (rst_net_i),
      .xgmii_rxd_i,
      .xgmii_rxc_i,
      .m_axis(frames),
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
    .page_look_o          (),
    .page_op_o            (),
    .page_first_o         (),
    .page_end_o           (),
    .page_store_ready_i   (1'b1),
    .page_load_ready_i    (1'b1),
    .page_pay_even_we_o   (),
    .page_pay_odd_we_o    (),
    .pay_even_idx_o       (even_idx),
    .pay_even_data_o      (even_data),
    .pay_odd_idx_o        (odd_idx),
    .pay_odd_data_o       (odd_data),
    .cpl_pay_even_we_o    (even_we),
    .cpl_pay_odd_we_o     (odd_we),
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

  assign net_counts_o[10:0]  = '0;
  assign net_counts_o[30:29] = '0;
  assign pcie_counts_o[6:0]  = '0;
  assign pcie_counts_o[10:9] = '0;
  assign pcie_counts_o[12]   = '0;
  assign pcie_counts_o[19]   = '0;

  server #(
    .Regions(Regions),
    .RxSlots(RxSlots)
  ) u_server (
    .s_frames                        (frames),
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
    .cnt_dma_write_o                 (pcie_counts_o[CNT_DMA_WRITE]),
    .cnt_dma_read_o                  (pcie_counts_o[CNT_DMA_READ]),
    .cnt_dma_read_timeout_o          (pcie_counts_o[CNT_DMA_READ_TIMEOUT]),
    .*
  );
endmodule
