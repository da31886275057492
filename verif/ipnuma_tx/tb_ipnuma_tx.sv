// SPDX-License-Identifier: Apache-2.0
// Bench top of the sending chain: TLPs in, tables and load tags at hand, XGMII or GMII out; completions of
// DMA reads and refusals come in as frames. Sessions are always open and count their frames here.
//
// Latency   : that of the chain.
// Clock     : clk_pcie_i, clk_net_i.
// Handshake : as in the modules. Drops: as in the modules.
// Source    : ours.
module tb_ipnuma_tx
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import wire_pkg::*;
#(
  parameter int unsigned Pages = 1024,
  parameter int unsigned PcIds = 16,
  parameter int unsigned Sessions = 16,
  parameter int unsigned Slots = 16,
  parameter int unsigned PageMapLatency = 2,
  parameter int unsigned PcIdLatency = 1,
  parameter bit Gmii = 1'b0,
  parameter int unsigned PcieLongestPs = 4025
) (
  input  logic                          clk_pcie_i,
  input  logic                          rst_pcie_i,
  input  logic                          clk_net_i,
  input  logic                          rst_net_i,
  input  logic [                  47:0] mac_i,
  input  logic [                  31:0] ip_i,
  input  logic [                  31:0] netmask_i,
  input  logic [                  47:0] gateway_mac_i,
  input  logic [                   7:0] epoch_i,
  input  logic                          merge_i,
  /// In every session.
  input  logic                          ack_pending_i,
  input  logic                          ack_urgent_i,
  input  logic [                  15:0] ack_value_i,
  input  logic [                  63:0] s_tlp_tdata_i,
  input  logic [                   7:0] s_tlp_tkeep_i,
  input  logic                          s_tlp_tvalid_i,
  input  logic                          s_tlp_tlast_i,
  input  logic [                   2:0] s_tlp_tuser_i,
  output logic                          s_tlp_tready_o,
  output logic [   $bits(reg_op_t)-1:0] reg_op_o,
  output logic                          reg_op_valid_o,
  input  logic                          reg_op_ready_i,
  output logic                          cpl_pay_even_we_o,
  output logic                          cpl_pay_odd_we_o,
  output logic [                   4:0] pay_even_idx_o,
  output logic [                  31:0] pay_even_data_o,
  output logic [                   4:0] pay_odd_idx_o,
  output logic [                  31:0] pay_odd_data_o,
  output logic                          cpl_valid_o,
  output logic [ $bits(cpl_head_t)-1:0] cpl_head_o,
  input  logic                          cpl_ready_i,
  input  logic                          page_cfg_write_i,
  input  logic [     $clog2(Pages)-1:0] page_cfg_index_i,
  input  logic [                  63:0] page_cfg_entry_i,
  input  logic                          page_cfg_read_i,
  output logic [                  63:0] page_cfg_entry_o,
  output logic                          page_cfg_read_done_o,
  input  logic                          pcid_cfg_write_i,
  input  logic [     $clog2(PcIds)-1:0] pcid_cfg_index_i,
  input  logic [                 127:0] pcid_cfg_entry_i,
  input  logic                          pcid_cfg_read_i,
  output logic [                 127:0] pcid_cfg_entry_o,
  output logic                          pcid_cfg_read_done_o,
  output logic                          alloc_o,
  output logic [     $bits(load_t)-1:0] alloc_load_o,
  input  logic                          alloc_ok_i,
  input  logic [                   7:0] alloc_tag_i,
  output logic [$bits(cpl_error_t)-1:0] cpl_error_o,
  output logic                          cpl_error_valid_o,
  input  logic                          cpl_error_ready_i,
  /// Pulses on clk_pcie_i: {malformed, poisoned, unsupported, page_beyond, no_tag, load_unmapped,
  /// store_unmapped, load, store}
  output logic [                   8:0] cnt_pcie_o,
  /// Pulses on clk_net_i: {merged, arp, error, completion, load, store}
  output logic [                   5:0] cnt_net_o,
  output logic                          slot_free_o,
  input  logic                          slot_commit_i,
  input  logic [ $bits(tx_frame_t)-1:0] slot_frame_i,
  input  logic                          slot_pay_even_we_i,
  input  logic                          slot_pay_odd_we_i,
  input  logic [                   4:0] slot_pay_idx_i,
  input  logic [                  31:0] slot_pay_even_i,
  input  logic [                  31:0] slot_pay_odd_i,
  input  logic                          deny_valid_i,
  input  logic [ $bits(tx_frame_t)-1:0] deny_frame_i,
  output logic                          deny_pop_o,
  input  logic [                  63:0] s_arp_tdata_i,
  input  logic [                   7:0] s_arp_tkeep_i,
  input  logic                          s_arp_tvalid_i,
  input  logic                          s_arp_tlast_i,
  output logic                          s_arp_tready_o,
  output logic [                  63:0] xgmii_txd_o,
  output logic [                   7:0] xgmii_txc_o,
  output logic [                   7:0] gmii_txd_o,
  output logic                          gmii_tx_en_o,
  output logic                          gmii_tx_er_o,
  output logic                          busy_pcie_o,
  output logic                          busy_net_o
);
  axis_if #(
    .DataW(64),
    .UserW(3)
  ) s_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) frames ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) arp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) mac ();

  assign s_tlp.tdata    = s_tlp_tdata_i;
  assign s_tlp.tkeep    = s_tlp_tkeep_i;
  assign s_tlp.tvalid   = s_tlp_tvalid_i;
  assign s_tlp.tlast    = s_tlp_tlast_i;
  assign s_tlp.tuser    = s_tlp_tuser_i;
  assign s_tlp_tready_o = s_tlp.tready;
  assign arp.tdata      = s_arp_tdata_i;
  assign arp.tkeep      = s_arp_tkeep_i;
  assign arp.tvalid     = s_arp_tvalid_i;
  assign arp.tlast      = s_arp_tlast_i;
  assign arp.tuser      = '0;
  assign s_arp_tready_o = arp.tready;

  logic page_look, page_first, page_end, page_active, store_ready, load_ready, even_we, odd_we;
  logic [4:0] page_pay_even_idx, page_pay_odd_idx;
  logic [31:0] page_pay_even_data, page_pay_odd_data;
  page_op_t   page_op;
  cpl_error_t rx_error;
  logic       rx_error_valid;
  logic busy_rx, busy_req, busy_slots, busy_req_net, busy_slots_net, busy_fb, busy_mux, busy_mac;

  tlp_rx #(
    .Pages(Pages)
  ) u_tlp_rx (
    .clk_i                (clk_pcie_i),
    .rst_i                (rst_pcie_i),
    .s_axis               (s_tlp),
    .reg_op_o             (reg_op_o),
    .reg_op_valid_o,
    .reg_op_ready_i,
    .reg_read_ok_i        (1'b1),
    .page_look_o          (page_look),
    .page_op_o            (page_op),
    .page_first_o         (page_first),
    .page_end_o           (page_end),
    .page_active_o        (page_active),
    .page_store_ready_i   (store_ready),
    .page_load_ready_i    (load_ready),
    .page_pay_even_we_o   (even_we),
    .page_pay_odd_we_o    (odd_we),
    .page_pay_even_idx_o  (page_pay_even_idx),
    .page_pay_even_data_o (page_pay_even_data),
    .page_pay_odd_idx_o   (page_pay_odd_idx),
    .page_pay_odd_data_o  (page_pay_odd_data),
    .cpl_pay_even_we_o,
    .cpl_pay_odd_we_o,
    .cpl_pay_even_idx_o   (pay_even_idx_o),
    .cpl_pay_even_data_o  (pay_even_data_o),
    .cpl_pay_odd_idx_o    (pay_odd_idx_o),
    .cpl_pay_odd_data_o   (pay_odd_data_o),
    .cpl_active_o         (),
    .cpl_valid_o,
    .cpl_head_o           (cpl_head_o),
    .cpl_ready_i,
    .rx_error_o           (rx_error),
    .rx_error_valid_o     (rx_error_valid),
    .cnt_tlp_page_beyond_o(cnt_pcie_o[5]),
    .cnt_tlp_unsupported_o(cnt_pcie_o[6]),
    .cnt_tlp_poisoned_o   (cnt_pcie_o[7]),
    .cnt_tlp_malformed_o  (cnt_pcie_o[8]),
    .busy_o               (busy_rx)
  );

  logic [4:0] src_valid, src_permitted, src_lock, src_pop;
  tx_frame_t [4:0]       src_frame;
  logic      [4:0][63:0] src_pay_word;
  logic      [4:0]       pay_idx;

  session_t              alloc_session;
  requester #(
    .Pages         (Pages),
    .PcIds         (PcIds),
    .Sessions      (Sessions),
    .Slots         (Slots),
    .PageMapLatency(PageMapLatency),
    .PcIdLatency   (PcIdLatency),
    .PcieLongestPs (PcieLongestPs),
    .NetShortestPs (Gmii ? 7995 : 6395)
  ) u_requester (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .ip_i,
    .netmask_i,
    .gateway_mac_i,
    .merge_i,
    .settings_write_i        (1'b0),
    .mark_i                  (1'b0),
    .mark_pc_id_i            ('0),
    .mark_cookie_i           ('0),
    .mark_ready_o            (),
    .page_look_i             (page_look),
    .page_op_i               (page_op),
    .page_first_i            (page_first),
    .page_end_i              (page_end),
    .page_active_i           (page_active),
    .page_store_ready_o      (store_ready),
    .page_load_ready_o       (load_ready),
    .page_pay_even_we_i      (even_we),
    .page_pay_odd_we_i       (odd_we),
    .pay_even_idx_i          (page_pay_even_idx),
    .pay_even_data_i         (page_pay_even_data),
    .pay_odd_idx_i           (page_pay_odd_idx),
    .pay_odd_data_i          (page_pay_odd_data),
    .rx_error_i              (rx_error),
    .rx_error_valid_i        (rx_error_valid),
    .page_cfg_write_i,
    .page_cfg_index_i,
    .page_cfg_entry_i        (page_cfg_entry_i),
    .page_cfg_read_i,
    .page_cfg_entry_o        (page_cfg_entry_o),
    .page_cfg_read_done_o,
    .pcid_cfg_write_i,
    .pcid_cfg_index_i,
    .pcid_cfg_entry_i        (pcid_cfg_entry_i),
    .pcid_cfg_read_i,
    .pcid_cfg_entry_o        (pcid_cfg_entry_o),
    .pcid_cfg_read_done_o,
    .alloc_o,
    .alloc_load_o            (alloc_load_o),
    .alloc_session_o         (alloc_session),
    .alloc_op_o              (),
    .alloc_ok_i,
    .alloc_tag_i,
    .alloc_number_i          (alloc_session.valid ? 16'hA55A : 16'd0),
    .retry_valid_i           (1'b0),
    .retry_tag_i             ('0),
    .retry_number_i          ('0),
    .retry_op_i              ('0),
    .retry_ready_o           (),
    .cpl_error_o             (cpl_error_o),
    .cpl_error_valid_o,
    .cpl_error_ready_i,
    .cnt_tlp_store_o         (cnt_pcie_o[0]),
    .cnt_tlp_load_o          (cnt_pcie_o[1]),
    .cnt_tlp_store_unmapped_o(cnt_pcie_o[2]),
    .cnt_tlp_load_unmapped_o (cnt_pcie_o[3]),
    .cnt_load_no_tag_o       (cnt_pcie_o[4]),
    .cnt_load_retry_o        (),
    .busy_pcie_o             (busy_req),
    .valid_o                 (src_valid[0]),
    .permitted_o             (src_permitted[0]),
    .frame_o                 (src_frame[0]),
    .mark_o                  (),
    .mark_session_o          (),
    .mark_cookie_o           (),
    .pay_idx_i               (pay_idx),
    .pay_word_o              (src_pay_word[0]),
    .lock_i                  (src_lock[0]),
    .pop_i                   (src_pop[0]),
    .cnt_tx_merged_o         (cnt_net_o[5]),
    .busy_net_o              (busy_req_net)
  );

  tx_slots #(
    .Slots(4)
  ) u_slots (
    .clk_pcie_i,
    .rst_pcie_i,
    .slot_free_o,
    .frame_i        (slot_frame_i),
    .commit_i       (slot_commit_i),
    .pay_even_we_i  (slot_pay_even_we_i),
    .pay_even_idx_i (slot_pay_idx_i),
    .pay_even_data_i(slot_pay_even_i),
    .pay_odd_we_i   (slot_pay_odd_we_i),
    .pay_odd_idx_i  (slot_pay_idx_i),
    .pay_odd_data_i (slot_pay_odd_i),
    .busy_pcie_o    (busy_slots),
    .clk_net_i,
    .rst_net_i,
    .valid_o        (src_valid[1]),
    .frame_o        (src_frame[1]),
    .permitted_o    (src_permitted[1]),
    .pay_idx_i      (pay_idx),
    .pay_word_o     (src_pay_word[1]),
    .pop_i          (src_pop[1]),
    .busy_net_o     (busy_slots_net)
  );

  assign src_valid[2]       = deny_valid_i;
  assign src_permitted[2]   = 1'b1;
  assign src_frame[2]       = deny_frame_i;
  assign src_pay_word[2]    = 64'hDEAD_BEEF_DEAD_BEEF;
  assign deny_pop_o         = src_pop[2];

  // Sources of sessions alone: test_frame_builder.py has them.
  assign src_valid[4:3]     = '0;
  assign src_permitted[4:3] = '1;
  assign src_frame[4:3]     = '0;
  assign src_pay_word[4:3]  = '0;

  // Sessions: a port and a number for each frame; the numbers wrap soon.
  logic [7:0] session;
  logic       resend_start;
  logic [31:0] start_sequence_q, count_q[Sessions];
  always_ff @(posedge clk_net_i) begin
    if (rst_net_i) begin
      for (int unsigned i = 0; i < Sessions; i++) count_q[i] <= 32'hFFFF_FFF0 + i;
    end else if (resend_start) begin
      start_sequence_q                       <= count_q[session[$clog2(Sessions)-1:0]];
      count_q[session[$clog2(Sessions)-1:0]] <= count_q[session[$clog2(Sessions)-1:0]] + 1'b1;
    end
  end

  logic fb_start, fb_ready, start, ready_start;
  frame_builder #(
    .PcIds   (PcIds),
    .Sessions(Sessions)
  ) u_builder (
    .clk_i              (clk_net_i),
    .rst_i              (rst_net_i),
    .mac_i,
    .ip_i,
    .epoch_i,
    .src_valid_i        (src_valid),
    .src_permitted_i    (src_permitted),
    .src_frame_i        (src_frame),
    .src_pay_idx_o      (pay_idx),
    .src_pay_word_i     (src_pay_word),
    .src_lock_o         (src_lock),
    .src_pop_o          (src_pop),
    .mark_i             (1'b0),
    .mark_valid_o       (),
    .mark_ready_i       (1'b0),
    .session_o          (session),
    .sending_o          (),
    .session_port_i     ({2'b11, 6'h15, session ^ 8'h5A}),
    .session_valid_i    ('1),
    .session_sealed_i   ('0),
    .open_i             ('1),
    .lost_i             ('0),
    .resend_start_o     (resend_start),
    .start_sequence_i   (start_sequence_q),
    .rs_sequence_i      ('0),
    .copy_frame_we_o    (),
    .copy_frame_o       (),
    .copy_we_o          (),
    .copy_idx_o         (),
    .copy_word_o        (),
    .ack_pending_i,
    .ack_urgent_i,
    .ack_value_i,
    .ack_taken_o        (),
    .start_o            (fb_start),
    .start_sealed_o     (),
    .ready_start_i      (fb_ready),
    .m_axis             (frames),
    .cnt_tx_store_o     (cnt_net_o[0]),
    .cnt_tx_load_o      (cnt_net_o[1]),
    .cnt_tx_completion_o(cnt_net_o[2]),
    .cnt_tx_error_o     (cnt_net_o[3]),
    .cnt_tx_ack_o       (),
    .cnt_tx_nack_o      (),
    .cnt_tx_void_o      (),
    .cnt_tx_resend_o    (),
    .cnt_tx_lost_o      (),
    .busy_o             (busy_fb)
  );

  tx_mux u_mux (
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .fb_start_i      (fb_start),
    .fb_ready_start_o(fb_ready),
    .s_frames        (frames),
    .s_arp           (arp),
    .start_o         (start),
    .ready_start_i   (ready_start),
    .m_axis          (mac),
    .cnt_tx_arp_o    (cnt_net_o[4]),
    .busy_o          (busy_mux)
  );

  if (Gmii) begin : gen_1g
    gmii_tx u_mac (
      .clk_i        (clk_net_i),
      .rst_i        (rst_net_i),
      .start_i      (start),
      .ready_start_o(ready_start),
      .s_axis       (mac),
      .gmii_txd_o,
      .gmii_tx_en_o,
      .gmii_tx_er_o,
      .stat_o       (),
      .busy_o       (busy_mac)
    );
    assign xgmii_txd_o = '0;
    assign xgmii_txc_o = '0;
  end else begin : gen_10g
    xgmii_tx u_mac (
      .clk_i        (clk_net_i),
      .rst_i        (rst_net_i),
      .start_i      (start),
      .ready_start_o(ready_start),
      .s_axis       (mac),
      .xgmii_txd_o,
      .xgmii_txc_o,
      .stat_o       (),
      .busy_o       (busy_mac)
    );
    assign gmii_txd_o   = '0;
    assign gmii_tx_en_o = 1'b0;
    assign gmii_tx_er_o = 1'b0;
  end

  assign busy_pcie_o = busy_rx || busy_req || busy_slots;
  assign busy_net_o  = busy_req_net || busy_slots_net || busy_fb || busy_mux || busy_mac;
endmodule
