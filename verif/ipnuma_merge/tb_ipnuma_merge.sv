// SPDX-License-Identifier: Apache-2.0
// Bench top of the requester with what belongs to its loads: TLPs in, frames to build out, completions back.
// The bench takes the frames as the frame builder would.
//
// Latency   : that of the modules.
// Clock     : clk_pcie_i, clk_net_i.
// Handshake : as in the modules. Drops: as in the modules.
// Source    : ours.
module tb_ipnuma_merge
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import wire_pkg::*;
#(
  parameter int unsigned Pages = 64,
  parameter int unsigned PcIds = 16,
  parameter int unsigned Sessions = 8,
  parameter int unsigned Slots = 16,
  parameter int unsigned LoadTags = 4,
  parameter int unsigned PageMapLatency = 2,
  parameter int unsigned PcIdLatency = 1,
  parameter bit Slow = 1'b0
) (
  input  logic                     clk_pcie_i,
  input  logic                     rst_pcie_i,
  input  logic                     clk_net_i,
  input  logic                     rst_net_i,
  input  logic [             31:0] now_us_i,
  input  logic [             31:0] read_timeout_us_i,
  input  logic [             15:0] load_retry_us_i,
  input  logic                     merge_i,
  input  logic                     settings_write_i,
  input  logic                     mark_i,
  input  logic [             15:0] mark_pc_id_i,
  input  logic [             15:0] mark_cookie_i,
  output logic                     mark_ready_o,
  input  logic [             63:0] s_tlp_tdata_i,
  input  logic [              7:0] s_tlp_tkeep_i,
  input  logic                     s_tlp_tvalid_i,
  input  logic                     s_tlp_tlast_i,
  input  logic [              2:0] s_tlp_tuser_i,
  output logic                     s_tlp_tready_o,
  input  logic                     page_cfg_write_i,
  input  logic [$clog2(Pages)-1:0] page_cfg_index_i,
  input  logic [             63:0] page_cfg_entry_i,
  input  logic                     pcid_cfg_write_i,
  input  logic [$clog2(PcIds)-1:0] pcid_cfg_index_i,
  input  logic [            127:0] pcid_cfg_entry_i,
  output logic                     valid_o,
  output logic                     permitted_o,
  output logic                     mark_o,
  output logic [             15:0] mark_session_o,
  output logic [             15:0] mark_cookie_o,
  output logic                     frame_compact_o,
  output logic [              8:0] frame_session_o,
  output logic [             15:0] frame_pc_id_o,
  output logic [             47:0] frame_mac_o,
  output logic [             11:0] frame_tag_o,
  output logic [            127:0] frame_head_o,
  output logic [             39:0] frame_address_o,
  output logic [              1:0] frame_trail_o,
  output logic [              6:0] frame_data_dw_o,
  input  logic [              4:0] pay_idx_i,
  output logic [             63:0] pay_word_o,
  input  logic                     lock_i,
  input  logic                     pop_i,
  output logic                     cnt_tx_merged_o,
  // A completion from the network, held until taken; its data are DWs counted from a base.
  input  logic                     cpl_valid_i,
  input  logic [              7:0] cpl_tag_i,
  input  logic [             15:0] cpl_number_i,
  input  logic [              2:0] cpl_status_i,
  input  logic [             11:0] cpl_bytes_i,
  input  logic [              6:0] cpl_lower_i,
  input  logic [              6:0] cpl_dw_i,
  input  logic [             31:0] cpl_ip_i,
  input  logic [              8:0] cpl_session_i,
  input  logic [             31:0] cpl_base_i,
  output logic                     cpl_pop_o,
  output logic [             63:0] m_tlp_tdata_o,
  output logic [              7:0] m_tlp_tkeep_o,
  output logic                     m_tlp_tvalid_o,
  output logic                     m_tlp_tlast_o,
  /// Completions without data: {requester's, time-outs'}, status and tag.
  output logic [              1:0] error_valid_o,
  output logic [              2:0] error_status_o,
  output logic [              7:0] error_tag_o,
  /// Pulses: {repeated, unexpected, completed, timeout, retry, no_tag, load_unmapped,
  /// store_unmapped, load, store}
  output logic [              9:0] cnt_o,
  output logic                     slot_free_o,
  /// TLPs wait in front of the requester.
  output logic                     busy_rx_o,
  output logic                     busy_pcie_o,
  output logic                     busy_net_o
);
  axis_if #(
    .DataW(64),
    .UserW(3)
  ) s_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();

  assign s_tlp.tdata    = s_tlp_tdata_i;
  assign s_tlp.tkeep    = s_tlp_tkeep_i;
  assign s_tlp.tvalid   = s_tlp_tvalid_i;
  assign s_tlp.tlast    = s_tlp_tlast_i;
  assign s_tlp.tuser    = s_tlp_tuser_i;
  assign s_tlp_tready_o = s_tlp.tready;
  assign m_tlp_tdata_o  = m_tlp.tdata;
  assign m_tlp_tkeep_o  = m_tlp.tkeep;
  assign m_tlp_tvalid_o = m_tlp.tvalid;
  assign m_tlp_tlast_o  = m_tlp.tlast;
  assign m_tlp.tready   = 1'b1;

  logic page_look, page_first, page_end, page_active, store_ready, load_ready, even_we, odd_we;
  logic [4:0] even_idx, odd_idx;
  logic [31:0] even_data, odd_data;
  page_op_t   page_op;
  cpl_error_t rx_error;
  logic rx_error_valid, busy_rx, busy_req, busy_tags, busy_dma;

  tlp_rx #(
    .Pages(Pages)
  ) u_tlp_rx (
    .clk_i                (clk_pcie_i),
    .rst_i                (rst_pcie_i),
    .s_axis               (s_tlp),
    .reg_op_o             (),
    .reg_op_valid_o       (),
    .reg_op_ready_i       (1'b1),
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
    .page_pay_even_idx_o  (even_idx),
    .page_pay_even_data_o (even_data),
    .page_pay_odd_idx_o   (odd_idx),
    .page_pay_odd_data_o  (odd_data),
    .cpl_pay_even_we_o    (),
    .cpl_pay_odd_we_o     (),
    .cpl_pay_even_idx_o   (),
    .cpl_pay_even_data_o  (),
    .cpl_pay_odd_idx_o    (),
    .cpl_pay_odd_data_o   (),
    .cpl_active_o         (),
    .cpl_valid_o          (),
    .cpl_head_o           (),
    .cpl_ready_i          (1'b1),
    .rx_error_o           (rx_error),
    .rx_error_valid_o     (rx_error_valid),
    .cnt_tlp_page_beyond_o(),
    .cnt_tlp_unsupported_o(),
    .cnt_tlp_poisoned_o   (),
    .cnt_tlp_malformed_o  (),
    .busy_o               (busy_rx)
  );

  tx_frame_t frame;
  logic alloc, alloc_ok, retry_valid, retry_ready, req_error_valid, tag_error_valid;
  load_t    alloc_load;
  session_t alloc_session;
  page_op_t alloc_op, retry_op;
  logic [7:0] alloc_tag, retry_tag;
  logic [15:0] alloc_number, retry_number;
  cpl_error_t req_error, tag_error;

  requester #(
    .Pages         (Pages),
    .PcIds         (PcIds),
    .Sessions      (Sessions),
    .Slots         (Slots),
    .PageMapLatency(PageMapLatency),
    .PcIdLatency   (PcIdLatency),
    .NetShortestPs (Slow ? 7995 : 6395)
  ) u_requester (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .ip_i                    (32'h0A000001),
    .netmask_i               (32'hFFFFFF00),
    .gateway_mac_i           (48'h02FF000000FE),
    .merge_i,
    .settings_write_i,
    .mark_i,
    .mark_pc_id_i,
    .mark_cookie_i,
    .mark_ready_o,
    .page_look_i             (page_look),
    .page_op_i               (page_op),
    .page_first_i            (page_first),
    .page_end_i              (page_end),
    .page_active_i           (page_active),
    .page_store_ready_o      (store_ready),
    .page_load_ready_o       (load_ready),
    .page_pay_even_we_i      (even_we),
    .page_pay_odd_we_i       (odd_we),
    .pay_even_idx_i          (even_idx),
    .pay_even_data_i         (even_data),
    .pay_odd_idx_i           (odd_idx),
    .pay_odd_data_i          (odd_data),
    .rx_error_i              (rx_error),
    .rx_error_valid_i        (rx_error_valid),
    .page_cfg_write_i,
    .page_cfg_index_i,
    .page_cfg_entry_i        (page_cfg_entry_i),
    .page_cfg_read_i         (1'b0),
    .page_cfg_entry_o        (),
    .page_cfg_read_done_o    (),
    .pcid_cfg_write_i,
    .pcid_cfg_index_i,
    .pcid_cfg_entry_i        (pcid_cfg_entry_i),
    .pcid_cfg_read_i         (1'b0),
    .pcid_cfg_entry_o        (),
    .pcid_cfg_read_done_o    (),
    .alloc_o                 (alloc),
    .alloc_load_o            (alloc_load),
    .alloc_session_o         (alloc_session),
    .alloc_op_o              (alloc_op),
    .alloc_ok_i              (alloc_ok),
    .alloc_tag_i             (alloc_tag),
    .alloc_number_i          (alloc_number),
    .retry_valid_i           (retry_valid),
    .retry_tag_i             (retry_tag),
    .retry_number_i          (retry_number),
    .retry_op_i              (retry_op),
    .retry_ready_o           (retry_ready),
    .cpl_error_o             (req_error),
    .cpl_error_valid_o       (req_error_valid),
    .cpl_error_ready_i       (1'b1),
    .cnt_tlp_store_o         (cnt_o[0]),
    .cnt_tlp_load_o          (cnt_o[1]),
    .cnt_tlp_store_unmapped_o(cnt_o[2]),
    .cnt_tlp_load_unmapped_o (cnt_o[3]),
    .cnt_load_no_tag_o       (cnt_o[4]),
    .cnt_load_retry_o        (cnt_o[5]),
    .busy_pcie_o             (busy_req),
    .valid_o,
    .permitted_o,
    .frame_o                 (frame),
    .mark_o,
    .mark_session_o,
    .mark_cookie_o,
    .pay_idx_i,
    .pay_word_o,
    .lock_i,
    .pop_i,
    .cnt_tx_merged_o,
    .busy_net_o
  );
  assign frame_compact_o = frame.compact;
  assign frame_session_o = frame.session;
  assign frame_pc_id_o   = frame.pc_id;
  assign frame_mac_o     = frame.dst_mac;
  assign frame_tag_o     = frame.tag;
  assign frame_head_o    = frame.head;
  assign frame_address_o = frame.address;
  assign frame_trail_o   = frame.trail;
  assign frame_data_dw_o = frame.data_dw;

  logic load_live, load_repeated, load_take, load_look, load_hold;
  load_t   load;
  answer_t load_answer;
  rx_op_t op, dma_op;
  logic dma_take, taken_q;
  logic [ 4:0] word_idx;
  logic [63:0] word_q;

  always_comb begin
    op               = '0;
    op.kind          = RX_COMPLETION;
    op.net_tag       = cpl_tag_i;
    op.load_number   = cpl_number_i;
    op.status        = cpl_status_i;
    op.byte_count    = cpl_bytes_i;
    op.lower_address = cpl_lower_i;
    op.data_dw       = cpl_dw_i;
    op.length        = 10'(cpl_dw_i);
    op.peer.ip       = cpl_ip_i;
    op.session       = cpl_session_i;
  end
  // What is offered stays until it is popped, and is taken once.
  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) taken_q <= 1'b0;
    else taken_q <= (taken_q || dma_take) && !cpl_pop_o;
  end
  always_ff @(posedge clk_pcie_i) begin
    word_q <= {cpl_base_i + 32'({word_idx, 1'b1}), cpl_base_i + 32'({word_idx, 1'b0})};
  end

  load_tags #(
    .LoadTags(LoadTags)
  ) u_load_tags (
    .clk_i               (clk_pcie_i),
    .rst_i               (rst_pcie_i),
    .now_us_i,
    .read_timeout_us_i,
    .load_retry_us_i,
    .alloc_i             (alloc),
    .alloc_load_i        (alloc_load),
    .alloc_session_i     (alloc_session),
    .alloc_op_i          (alloc_op),
    .alloc_ok_o          (alloc_ok),
    .alloc_tag_o         (alloc_tag),
    .alloc_number_o      (alloc_number),
    .retry_valid_o       (retry_valid),
    .retry_tag_o         (retry_tag),
    .retry_number_o      (retry_number),
    .retry_op_o          (retry_op),
    .retry_ready_i       (retry_ready),
    .op_i                (dma_op),
    .look_i              (load_look),
    .live_o              (load_live),
    .load_o              (load),
    .answer_o            (load_answer),
    .repeated_o          (load_repeated),
    .take_i              (load_take),
    .hold_i              (load_hold),
    .cpl_error_o         (tag_error),
    .cpl_error_valid_o   (tag_error_valid),
    .cpl_error_ready_i   (1'b1),
    .cnt_load_timeout_o  (cnt_o[6]),
    .cnt_load_completed_o(cnt_o[7]),
    .busy_o              (busy_tags)
  );
  assign error_valid_o  = {req_error_valid, tag_error_valid};
  assign error_status_o = req_error_valid ? req_error.status : tag_error.status;
  assign error_tag_o    = req_error_valid ? req_error.tag : tag_error.tag;

  server_dma u_dma (
    .clk_i                           (clk_pcie_i),
    .rst_i                           (rst_pcie_i),
    .completer_id_i                  (16'h0100),
    .cfg_i                           (pcie_pkg::PCIE_CFG_DEFAULT),
    .valid_i                         (cpl_valid_i && !taken_q),
    .op_i                            (op),
    .take_o                          (dma_take),
    .pay_idx_o                       (word_idx),
    .pay_word_i                      (word_q),
    .pop_o                           (cpl_pop_o),
    .op_o                            (dma_op),
    .dma_alloc_o                     (),
    .dma_keep_o                      (),
    .dma_byte_count_o                (),
    .dma_behind_o                    (),
    .dma_lower_address_o             (),
    .part_done_i                     (1'b0),
    .part_failed_i                   (1'b0),
    .dma_alloc_ok_i                  (1'b0),
    .dma_alloc_tag_i                 (8'd0),
    .load_look_o                     (load_look),
    .load_live_i                     (load_live),
    .load_i                          (load),
    .load_answer_i                   (load_answer),
    .load_repeated_i                 (load_repeated),
    .load_take_o                     (load_take),
    .load_hold_o                     (load_hold),
    .arrival_o                       (),
    .m_tlp                           (m_tlp),
    .cnt_dma_write_o                 (),
    .cnt_dma_read_o                  (),
    .cnt_load_completion_unexpected_o(cnt_o[8]),
    .cnt_load_completion_repeated_o  (cnt_o[9]),
    .busy_o                          (busy_dma)
  );

  assign slot_free_o = store_ready;
  assign busy_rx_o   = busy_rx;
  assign busy_pcie_o = busy_rx || busy_req || busy_tags || busy_dma;
endmodule
