// SPDX-License-Identifier: Apache-2.0
// The receiving half of the NIC: frames from the network become TLPs for the root complex, and what has to
// be answered becomes frames for the transmitter.
//
// Latency   : last word of a frame held by the MAC's receiver -> its slot's token register 1 edge of
//             clk_net_i; from there two edges of clk_pcie_i to the first beat of a DMA write on m_tlp.
// Clock     : clk_net_i for frames, clk_pcie_i for TLPs; unrelated.
// Handshake : s_frames can't wait. alloc_i only with alloc_ok_o.
// Drops     : frames that are not accepted; each has exactly one cnt_rx_*_o pulse.
// Source    : dissertation sections 3.3 and 4.2; docs/architecture.md.
module server
  import ipnuma_pkg::*;
  import rx_pkg::*;
  import wire_pkg::*;
#(
  /// Entries of the shared-region table; a power of two.
  parameter int unsigned Regions = 256,
  /// Operations between the two clocks; a power of two.
  parameter int unsigned RxSlots = 32,
  /// The CPU's loads in flight; a power of two, 32 at most.
  parameter int unsigned LoadTags = 32,
  /// DMA reads in flight; a power of two, 8 at most.
  parameter int unsigned DmaTags = 8,
  localparam int unsigned RegionW = $clog2(Regions)
) (
  input logic clk_pcie_i,
  input logic rst_pcie_i,
  input logic clk_net_i,
  input logic rst_net_i,

  // ---- Network side ---------------------------------------------------------------------------
  /// The MAC's receive stream.
        axis_if.mon        s_frames,
  input logic       [47:0] mac_i,
  input logic       [31:0] ip_i,

  input  logic                        region_cfg_write_i,
  input  logic          [RegionW-1:0] region_cfg_index_i,
  input  region_entry_t               region_cfg_entry_i,
  input  logic                        region_cfg_read_i,
  output region_entry_t               region_cfg_entry_o,
  output logic                        region_cfg_read_done_o,

  /// Refusals, for the frame builder.
  output logic      deny_valid_o,
  output tx_frame_t deny_frame_o,
  input  logic      deny_pop_i,

  /// Completions of loads that we served, for the frame builder.
  output logic             cpl_frame_valid_o,
  output tx_frame_t        cpl_frame_o,
  output logic             cpl_frame_permitted_o,
  input  logic      [ 4:0] cpl_frame_pay_idx_i,
  output logic      [63:0] cpl_frame_pay_word_o,
  input  logic             cpl_frame_pop_i,

  /// An error report came (pulse).
  output logic        err_valid_o,
  output logic [ 7:0] err_code_o,
  output logic [ 7:0] err_op_o,
  output logic [15:0] err_sequence_o,
  output logic [63:0] err_address_o,
  output logic [31:0] err_ip_o,

  output logic cnt_rx_not_mine_o,
  output logic cnt_rx_arp_o,
  output logic cnt_rx_not_ipnuma_o,
  output logic cnt_rx_bad_ip_checksum_o,
  output logic cnt_rx_bad_magic_o,
  output logic cnt_rx_bad_tlp_o,
  output logic cnt_rx_bad_length_o,
  output logic cnt_rx_bad_key_o,
  output logic cnt_rx_bad_end_code_o,
  output logic cnt_rx_bad_source_o,
  output logic cnt_rx_bad_rights_o,
  output logic cnt_rx_bad_bounds_o,
  output logic cnt_rx_store_o,
  output logic cnt_rx_load_o,
  output logic cnt_rx_completion_o,
  output logic cnt_rx_error_report_o,
  output logic cnt_rx_overflow_o,
  output logic cnt_deny_dropped_o,
  output logic busy_net_o,

  // ---- PCIe side ------------------------------------------------------------------------------
  input logic [15:0] completer_id_i,
  input logic [31:0] read_timeout_us_i,
  input logic [31:0] now_us_i,

  /// Tags for the requester's loads.
  input  logic             alloc_i,
  input  load_t            alloc_load_i,
  output logic             alloc_ok_o,
  output logic       [7:0] alloc_tag_o,
  /// Loads that nobody answered.
  output cpl_error_t       cpl_error_o,
  output logic             cpl_error_valid_o,
  input  logic             cpl_error_ready_i,

  axis_if.src m_tlp,

  /// Completions from the root complex, see tlp_rx.
  input  logic                      cpl_pay_even_we_i,
  input  logic                      cpl_pay_odd_we_i,
  input  logic               [ 4:0] pay_even_idx_i,
  input  logic               [31:0] pay_even_data_i,
  input  logic               [ 4:0] pay_odd_idx_i,
  input  logic               [31:0] pay_odd_data_i,
  input  logic                      cpl_valid_i,
  input  tlp_pkg::cpl_head_t        cpl_head_i,
  input  logic                      cpl_active_i,
  output logic                      cpl_ready_o,

  output logic cnt_tlp_completion_o,
  output logic cnt_tlp_completion_unexpected_o,
  output logic cnt_load_timeout_o,
  output logic cnt_load_completed_o,
  output logic cnt_load_completion_unexpected_o,
  output logic cnt_dma_write_o,
  output logic cnt_dma_read_o,
  output logic cnt_dma_read_timeout_o,
  output logic busy_pcie_o
);
  // ---- Network side ---------------------------------------------------------------------------
  logic lookup, check, first, last, good, end_ok;
  logic           [15:0] lookup_key;
  region_op_t            check_op;
  logic           [11:0] region_tag;
  region_result_t        region;
  logic pair_valid, claim, slot_free, slot_q;
  logic [ 4:0] pair_idx;
  logic [63:0] pair;
  verdict_e headers, verdict;
  rx_head_t op;
  error_report_t report_c, report;
  logic commit, deny_valid, count;
  rx_op_t commit_op;
  deny_t  deny;
  logic parser_busy, region_busy, slots_busy, deny_busy, cpl_busy_net;

  frame_parser u_parser (
    .clk_i       (clk_net_i),
    .rst_i       (rst_net_i),
    .s_frames,
    .mac_i,
    .ip_i,
    .lookup_o    (lookup),
    .lookup_key_o(lookup_key),
    .check_o     (check),
    .check_op_o  (check_op),
    .tag_i       (region_tag),
    .first_o     (first),
    .pair_valid_o(pair_valid),
    .pair_idx_o  (pair_idx),
    .pair_o      (pair),
    .claim_o     (claim),
    .last_o      (last),
    .good_o      (good),
    .verdict_o   (headers),
    .end_ok_o    (end_ok),
    .op_o        (op),
    .report_o    (report_c),
    .busy_o      (parser_busy)
  );

  shared_region #(
    .Regions(Regions)
  ) u_region (
    .clk_i          (clk_net_i),
    .rst_i          (rst_net_i),
    .cfg_write_i    (region_cfg_write_i),
    .cfg_index_i    (region_cfg_index_i),
    .cfg_entry_i    (region_cfg_entry_i),
    .cfg_read_i     (region_cfg_read_i),
    .cfg_entry_o    (region_cfg_entry_o),
    .cfg_read_done_o(region_cfg_read_done_o),
    .clear_i        (first),
    .lookup_i       (lookup),
    .lookup_key_i   (lookup_key),
    .check_i        (check),
    .check_op_i     (check_op),
    .end_i          (last),
    .tag_o          (region_tag),
    .result_o       (region),
    .busy_o         (region_busy)
  );

  // A frame's slot is chosen once: one that gets free under way came too late for the first data.
  always_ff @(posedge clk_net_i) begin
    if (claim) slot_q <= slot_free;
  end

  rx_verdict u_verdict (
    .clk_i         (clk_net_i),
    .rst_i         (rst_net_i),
    .last_i        (last && good),
    .headers_i     (headers),
    .end_ok_i      (end_ok),
    .op_i          (op),
    .report_i      (report_c),
    .region_i      (region),
    .slot_i        (slot_q),
    .commit_o      (commit),
    .commit_op_o   (commit_op),
    .deny_valid_o  (deny_valid),
    .deny_o        (deny),
    .report_valid_o(err_valid_o),
    .report_o      (report),
    .count_o       (count),
    .verdict_o     (verdict)
  );

  assign err_code_o               = report.code;
  assign err_op_o                 = report.op;
  assign err_sequence_o           = report.sequence_number;
  assign err_address_o            = report.address;
  assign err_ip_o                 = report.ip;

  assign cnt_rx_not_mine_o        = count && verdict == NotMine;
  assign cnt_rx_arp_o             = count && verdict == Arp;
  assign cnt_rx_not_ipnuma_o      = count && verdict == NotIpnuma;
  assign cnt_rx_bad_ip_checksum_o = count && verdict == BadIpChecksum;
  assign cnt_rx_bad_magic_o       = count && verdict == BadMagic;
  assign cnt_rx_bad_tlp_o         = count && verdict == BadTlp;
  assign cnt_rx_bad_length_o      = count && verdict == BadLength;
  assign cnt_rx_bad_key_o         = count && verdict == BadKey;
  assign cnt_rx_bad_end_code_o    = count && verdict == BadEndCode;
  assign cnt_rx_bad_source_o      = count && verdict == BadSource;
  assign cnt_rx_bad_rights_o      = count && verdict == BadRights;
  assign cnt_rx_bad_bounds_o      = count && verdict == BadBounds;
  assign cnt_rx_store_o           = count && verdict == Store;
  assign cnt_rx_load_o            = count && verdict == Load;
  assign cnt_rx_completion_o      = count && verdict == Completion;
  assign cnt_rx_error_report_o    = count && verdict == ErrorReport;
  assign cnt_rx_overflow_o        = count && verdict == Overflow;

  deny_queue u_deny (
    .clk_i             (clk_net_i),
    .rst_i             (rst_net_i),
    .valid_i           (deny_valid),
    .deny_i            (deny),
    .valid_o           (deny_valid_o),
    .frame_o           (deny_frame_o),
    .pop_i             (deny_pop_i),
    .cnt_deny_dropped_o(cnt_deny_dropped_o),
    .busy_o            (deny_busy)
  );

  assign busy_net_o = parser_busy || region_busy || slots_busy || count ||
      deny_valid || err_valid_o || deny_busy || cpl_busy_net;

  // ---- Across -----------------------------------------------------------------------------------
  logic op_valid, op_pop;
  rx_op_t        rx_op;
  logic   [ 4:0] pay_idx;
  logic   [63:0] pay_word;

  rx_slots #(
    .Slots(RxSlots)
  ) u_slots (
    .clk_net_i,
    .rst_net_i,
    .free_o    (slot_free),
    .pair_we_i (pair_valid && slot_q),
    .pair_idx_i(pair_idx),
    .pair_i    (pair),
    .commit_i  (commit),
    .op_i      (commit_op),
    .busy_net_o(slots_busy),
    .clk_pcie_i,
    .rst_pcie_i,
    .valid_o   (op_valid),
    .op_o      (rx_op),
    .pay_idx_i (pay_idx),
    .pay_word_o(pay_word),
    .pop_i     (op_pop)
  );

  // ---- PCIe side ------------------------------------------------------------------------------
  logic dma_alloc, dma_alloc_ok, load_live, load_done, load_hold;
  logic  [7:0] dma_alloc_tag;
  load_t       load;
  logic dma_busy, tags_busy, cpl_busy_pcie;

  server_dma u_dma (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .completer_id_i,
    .valid_i        (op_valid),
    .op_i           (rx_op),
    .pay_idx_o      (pay_idx),
    .pay_word_i     (pay_word),
    .pop_o          (op_pop),
    .dma_alloc_o    (dma_alloc),
    .dma_alloc_ok_i (dma_alloc_ok),
    .dma_alloc_tag_i(dma_alloc_tag),
    .load_live_i    (load_live),
    .load_i         (load),
    .load_done_o    (load_done),
    .load_hold_o    (load_hold),
    .m_tlp,
    .cnt_dma_write_o,
    .cnt_dma_read_o,
    .cnt_load_completion_unexpected_o,
    .busy_o         (dma_busy)
  );

  load_tags #(
    .LoadTags(LoadTags)
  ) u_load_tags (
    .clk_i    (clk_pcie_i),
    .rst_i    (rst_pcie_i),
    .now_us_i,
    .read_timeout_us_i,
    .alloc_i,
    .alloc_load_i,
    .alloc_ok_o,
    .alloc_tag_o,
    .tag_i    (rx_op.net_tag),
    .peer_ip_i(rx_op.peer.ip),
    .live_o   (load_live),
    .load_o   (load),
    .done_i   (load_done),
    .hold_i   (load_hold),
    .cpl_error_o,
    .cpl_error_valid_o,
    .cpl_error_ready_i,
    .cnt_load_timeout_o,
    .cnt_load_completed_o,
    .busy_o   (tags_busy)
  );

  dma_completion #(
    .DmaTags(DmaTags)
  ) u_dma_completion (
    .clk_pcie_i,
    .rst_pcie_i,
    .now_us_i,
    .read_timeout_us_i,
    .alloc_i          (dma_alloc),
    .alloc_op_i       (rx_op),
    .alloc_ok_o       (dma_alloc_ok),
    .alloc_tag_o      (dma_alloc_tag),
    .cpl_pay_even_we_i,
    .cpl_pay_odd_we_i,
    .pay_even_idx_i,
    .pay_even_data_i,
    .pay_odd_idx_i,
    .pay_odd_data_i,
    .cpl_valid_i,
    .cpl_head_i,
    .cpl_active_i,
    .cpl_ready_o,
    .cnt_tlp_completion_o,
    .cnt_tlp_completion_unexpected_o,
    .cnt_dma_read_timeout_o,
    .busy_pcie_o      (cpl_busy_pcie),
    .clk_net_i,
    .rst_net_i,
    .frame_valid_o    (cpl_frame_valid_o),
    .frame_o          (cpl_frame_o),
    .frame_permitted_o(cpl_frame_permitted_o),
    .frame_pay_idx_i  (cpl_frame_pay_idx_i),
    .frame_pay_word_o (cpl_frame_pay_word_o),
    .frame_pop_i      (cpl_frame_pop_i),
    .busy_net_o       (cpl_busy_net)
  );

  assign busy_pcie_o = dma_busy || tags_busy || cpl_busy_pcie;
endmodule
