// SPDX-License-Identifier: Apache-2.0
// The receiving half of the NIC: frames from the network become TLPs for the root complex, and what has to
// be answered becomes frames for the transmitter.
//
// Latency   : last word of a frame held by the MAC's receiver -> its slot's token register 2 edges of
//             clk_net_i; from there three edges of clk_pcie_i to the first beat of a DMA write on m_tlp.
// Clock     : clk_net_i for frames, clk_pcie_i for TLPs; unrelated.
// Handshake : s_frames can't wait. alloc_i only with alloc_ok_o. Control frames: see ack_source.
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
  /// Sessions; a power of two, 256 at most.
  parameter int unsigned Sessions = 64,
  /// Cycles of clk_net_i that 8 bytes take on the line.
  parameter int unsigned BeatCycles = 1,
  localparam int unsigned RegionW = $clog2(Regions),
  localparam int unsigned SessionW = $clog2(Sessions)
) (
  input logic clk_pcie_i,
  input logic rst_pcie_i,
  input logic clk_net_i,
  input logic rst_net_i,

  // ---- Network side ---------------------------------------------------------------------------
  /// The receive stream of 2 bits of tuser; with tlast: [0] the frame is bad, [1] it came sealed.
        axis_if.mon        s_frames,
  input logic       [47:0] mac_i,
  input logic       [31:0] ip_i,

  /// A frame is being judged by the table: an entry written now would not hold for it.
  output logic                        region_cfg_hold_o,
  input  logic                        region_cfg_write_i,
  input  logic          [RegionW-1:0] region_cfg_index_i,
  input  region_entry_t               region_cfg_entry_i,
  input  logic                        region_cfg_read_i,
  output region_entry_t               region_cfg_entry_o,
  output logic                        region_cfg_read_done_o,

  input  logic                          session_cfg_write_i,
  input  logic           [SessionW-1:0] session_cfg_index_i,
  input  session_entry_t                session_cfg_entry_i,
  input  logic                          session_cfg_read_i,
  output session_entry_t                session_cfg_entry_o,
  output logic                          session_cfg_read_done_o,
  output logic           [Sessions-1:0] session_valid_o,
  output logic           [Sessions-1:0] session_sealed_o,
  /// Pulse in the cycle of session_cfg_write_i: this session begins anew.
  output logic                          session_reset_o,
  output logic           [         7:0] session_reset_index_o,
  output logic           [        31:0] session_reset_start_o,
  /// Time until an acknowledgement goes alone, in ticks of 16 cycles; frames until it does.
  input  logic           [         7:0] ack_ticks_i,
  input  logic           [         7:0] ack_every_i,
  /// Sequence number that a session expects next, combinational.
  input  logic           [         7:0] status_index_i,
  output logic           [        31:0] status_expected_o,

  /// Source port for a session's frames, combinational.
  input  logic      [ 7:0] tx_session_i,
  output logic      [15:0] tx_port_o,
  /// Acknowledgement that a data frame to this session can take along, combinational; ack_taken_i is a pulse
  /// in the cycle in which ack_value_o is read.
  input  logic      [ 7:0] ack_session_i,
  output logic             ack_pending_o,
  output logic             ack_urgent_o,
  output logic      [31:0] ack_value_o,
  input  logic             ack_taken_i,
  /// ACK and NACK frames, for the frame builder.
  output logic             ctl_valid_o,
  output tx_frame_t        ctl_frame_o,
  input  logic             ctl_lock_i,
  input  logic             ctl_pop_i,
  /// What the peers say about our frames (pulses).
  output logic             ack_valid_o,
  output ack_t             ack_o,
  output logic             refused_valid_o,
  output refused_t         refused_o,

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
  output logic err_valid_o,  // of anybody: where there are sessions only theirs are events
  output logic [7:0] err_code_o,
  output logic [7:0] err_op_o,
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
  output logic cnt_rx_bad_session_o,
  output logic cnt_rx_duplicate_o,
  output logic cnt_rx_gap_o,
  output logic cnt_rx_void_o,
  output logic cnt_rx_ack_o,
  output logic cnt_deny_dropped_o,
  output logic busy_net_o,

  // ---- PCIe side ------------------------------------------------------------------------------
  input logic                [15:0] completer_id_i,
  input pcie_pkg::pcie_cfg_t        pcie_cfg_i,
  input logic                [31:0] read_timeout_us_i,
  input logic                [31:0] now_us_i,

  /// Tags for the requester's loads.
  input  logic                     alloc_i,
  input  load_t                    alloc_load_i,
  output logic                     alloc_ok_o,
  input  session_t                 alloc_session_i,
  input  tlp_pkg::page_op_t        alloc_op_i,
  output logic              [ 7:0] alloc_tag_o,
  output logic              [15:0] alloc_number_o,
  /// Loads of sessions to be sent again, see load_tags.
  input  logic              [15:0] load_retry_us_i,
  output logic                     retry_valid_o,
  output logic              [ 7:0] retry_tag_o,
  output logic              [15:0] retry_number_o,
  output tlp_pkg::page_op_t        retry_op_o,
  input  logic                     retry_ready_i,
  /// Loads that nobody answered.
  output cpl_error_t               cpl_error_o,
  output logic                     cpl_error_valid_o,
  input  logic                     cpl_error_ready_i,

  /// Pulse: what has been accepted by now is marked; marked_o from the next cycle on, until its TLPs have left.
  input  logic mark_i,
  output logic marked_o,

         axis_if.src m_tlp,
  /// Pulse: a store to a region that asks for an interrupt has left on m_tlp.
  output logic       arrival_o,

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
  output logic cnt_load_completion_repeated_o,
  output logic cnt_dma_write_o,
  output logic cnt_dma_read_o,
  output logic cnt_dma_read_timeout_o,
  output logic busy_pcie_o
);
  // ---- Network side ---------------------------------------------------------------------------
  logic lookup, check, first, last, good, unsealed, end_ok, end_but_tag;
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
  logic parser_busy, region_busy, slots_busy, deny_busy, cpl_busy_net, table_busy, sequence_busy;

  logic session_look, session_ok, session_sealed;
  logic [ 5:0] session_epoch;
  logic [15:0] session_port;
  logic [31:0] session_ip;
  logic        judge;
  logic [ 7:0] judge_session;
  logic [15:0] judge_number, fold;
  order_e        order;
  logic   [ 7:0] news_session;
  logic   [15:0] news_number;
  logic held, taken, again, gap, refuse, share_busy;
  logic [11:0] interval;
  refusal_t refusal, refuse_as;
  logic dst_read, dst_done;
  logic [ 7:0] dst_session;
  logic [47:0] dst_mac;
  logic [31:0] dst_ip;

  frame_parser u_parser (
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .s_frames,
    .mac_i,
    .ip_i,
    .session_look_o  (session_look),
    .session_port_o  (session_port),
    .session_ip_o    (session_ip),
    .session_sealed_i(session_sealed),
    .judge_o         (judge),
    .judge_session_o (judge_session),
    .judge_number_o  (judge_number),
    .fold_i          (fold),
    .lookup_o        (lookup),
    .lookup_key_o    (lookup_key),
    .check_o         (check),
    .check_op_o      (check_op),
    .tag_i           (region_tag),
    .first_o         (first),
    .pair_valid_o    (pair_valid),
    .pair_idx_o      (pair_idx),
    .pair_o          (pair),
    .claim_o         (claim),
    .last_o          (last),
    .good_o          (good),
    .unsealed_o      (unsealed),
    .verdict_o       (headers),
    .end_ok_o        (end_ok),
    .end_but_tag_o   (end_but_tag),
    .op_o            (op),
    .report_o        (report_c),
    .busy_o          (parser_busy)
  );

  session_table #(
    .Sessions(Sessions)
  ) u_sessions (
    .clk_i            (clk_net_i),
    .rst_i            (rst_net_i),
    .cfg_write_i      (session_cfg_write_i),
    .cfg_index_i      (session_cfg_index_i),
    .cfg_entry_i      (session_cfg_entry_i),
    .cfg_read_i       (session_cfg_read_i),
    .cfg_entry_o      (session_cfg_entry_o),
    .cfg_read_done_o  (session_cfg_read_done_o),
    .look_i           (session_look),
    .look_port_i      (session_port),
    .look_ip_i        (session_ip),
    .ok_o             (session_ok),
    .sealed_o         (session_sealed),
    .epoch_o          (session_epoch),
    .dst_read_i       (dst_read),
    .dst_session_i    (dst_session),
    .dst_done_o       (dst_done),
    .dst_mac_o        (dst_mac),
    .dst_ip_o         (dst_ip),
    .tx_session_i,
    .tx_port_o,
    .valid_o          (session_valid_o),
    .sealed_sessions_o(session_sealed_o),
    .reset_o          (session_reset_o),
    .reset_index_o    (session_reset_index_o),
    .reset_start_o    (session_reset_start_o),
    .busy_o           (table_busy)
  );

  rx_share #(
    .Sessions  (Sessions),
    .BeatCycles(BeatCycles)
  ) u_share (
    .clk_i     (clk_net_i),
    .rst_i     (rst_net_i),
    .beat_i    (s_frames.tvalid),
    .last_i    (s_frames.tlast),
    .half_i    (!s_frames.tkeep[4]),
    .frame_i   (taken || again || gap),
    .session_i (news_session[SessionW-1:0]),
    .interval_o(interval),
    .busy_o    (share_busy)
  );

  rx_sequence #(
    .Sessions(Sessions)
  ) u_sequence (
    .clk_i          (clk_net_i),
    .rst_i          (rst_net_i),
    .ack_ticks_i,
    .ack_every_i,
    .reset_i        (session_reset_o),
    .reset_index_i  (session_reset_index_o),
    .reset_start_i  (session_reset_start_o),
    .judge_i        (judge),
    .judge_session_i(judge_session),
    .judge_number_i (judge_number),
    .order_o        (order),
    .fold_o         (fold),
    .held_o         (held),
    .refusal_o      (refusal),
    .session_i      (news_session),
    .taken_i        (taken),
    .refuse_i       (refuse),
    .refuse_as_i    (refuse_as),
    .again_i        (again),
    .gap_i          (gap),
    .number_i       (news_number),
    .ack_session_i,
    .ack_pending_o,
    .ack_urgent_o,
    .ack_value_o,
    .ack_taken_i,
    .interval_i     (interval),
    .ctl_valid_o,
    .ctl_frame_o,
    .ctl_lock_i,
    .ctl_pop_i,
    .dst_read_o     (dst_read),
    .dst_session_o  (dst_session),
    .dst_done_i     (dst_done),
    .dst_mac_i      (dst_mac),
    .dst_ip_i       (dst_ip),
    .status_index_i,
    .status_expected_o,
    .busy_o         (sequence_busy)
  );

  shared_region #(
    .Regions(Regions)
  ) u_region (
    .clk_i          (clk_net_i),
    .rst_i          (rst_net_i),
    .cfg_hold_o     (region_cfg_hold_o),
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
    .clk_i           (clk_net_i),
    .rst_i           (rst_net_i),
    .last_i          (last && good),
    .headers_i       (headers),
    .end_ok_i        (end_ok),
    .end_but_tag_i   (end_but_tag),
    .op_i            (op),
    .report_i        (report_c),
    .region_i        (region),
    .slot_i          (slot_q),
    .session_ok_i    (session_ok),
    .session_sealed_i(session_sealed),
    .session_epoch_i (session_epoch),
    .unsealed_i      (unsealed),
    .order_i         (order),
    .fold_i          (fold),
    .held_i          (held),
    .refusal_i       (refusal),
    .reset_i         (session_reset_o),
    .reset_index_i   (session_reset_index_o),
    .commit_o        (commit),
    .commit_op_o     (commit_op),
    .deny_valid_o    (deny_valid),
    .deny_o          (deny),
    .refuse_o        (refuse),
    .refuse_as_o     (refuse_as),
    .report_valid_o  (err_valid_o),
    .report_o        (report),
    .session_o       (news_session),
    .taken_o         (taken),
    .again_o         (again),
    .number_o        (news_number),
    .gap_o           (gap),
    .ack_valid_o,
    .ack_o,
    .refused_valid_o,
    .refused_o,
    .count_o         (count),
    .verdict_o       (verdict)
  );

  assign err_code_o               = report.code;
  assign err_op_o                 = report.op;
  assign err_sequence_o           = report.sequence_number[15:0];
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
  assign cnt_rx_bad_session_o     = count && verdict == BadSession;
  assign cnt_rx_duplicate_o       = count && verdict == Duplicate;
  assign cnt_rx_gap_o             = count && verdict == Gap;
  assign cnt_rx_void_o            = count && verdict == Void;
  assign cnt_rx_ack_o             = count && verdict == Ack;

  deny_queue u_deny (
    .clk_i             (clk_net_i),
    .rst_i             (rst_net_i),
    // Anybody can ask for an answer to a stranger, larger than the question: who has sessions needs none.
    .valid_i           (deny_valid && (deny.session.valid || session_valid_o == '0)),
    .deny_i            (deny),
    .valid_o           (deny_valid_o),
    .frame_o           (deny_frame_o),
    .pop_i             (deny_pop_i),
    .cnt_deny_dropped_o(cnt_deny_dropped_o),
    .busy_o            (deny_busy)
  );

  assign busy_net_o = parser_busy || region_busy || slots_busy || count ||
      deny_valid || err_valid_o || deny_busy || cpl_busy_net || table_busy || sequence_busy ||
      share_busy;

  // ---- Across -----------------------------------------------------------------------------------
  logic op_valid, op_take, op_pop;
  rx_op_t rx_op, dma_op;
  logic [ 4:0] pay_idx;
  logic [63:0] pay_word;

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
    .take_i    (op_take),
    .pay_idx_i (pay_idx),
    .pay_word_o(pay_word),
    .pop_i     (op_pop),
    .mark_i,
    .marked_o
  );

  // ---- PCIe side ------------------------------------------------------------------------------
  logic dma_alloc, dma_alloc_ok, load_live, load_repeated, load_take, load_look, load_hold;
  logic dma_keep, part_done, part_failed;
  logic    [ 7:0] dma_alloc_tag;
  logic    [11:0] dma_byte_count;
  logic    [ 8:0] dma_behind;
  logic    [ 6:0] dma_lower_address;
  load_t          load;
  answer_t        load_answer;
  logic dma_busy, tags_busy, cpl_busy_pcie;

  server_dma u_dma (
    .clk_i              (clk_pcie_i),
    .rst_i              (rst_pcie_i),
    .completer_id_i,
    .cfg_i              (pcie_cfg_i),
    .valid_i            (op_valid),
    .op_i               (rx_op),
    .take_o             (op_take),
    .pay_idx_o          (pay_idx),
    .pay_word_i         (pay_word),
    .pop_o              (op_pop),
    .op_o               (dma_op),
    .dma_alloc_o        (dma_alloc),
    .dma_keep_o         (dma_keep),
    .dma_byte_count_o   (dma_byte_count),
    .dma_behind_o       (dma_behind),
    .dma_lower_address_o(dma_lower_address),
    .dma_alloc_ok_i     (dma_alloc_ok),
    .dma_alloc_tag_i    (dma_alloc_tag),
    .part_done_i        (part_done),
    .part_failed_i      (part_failed),
    .load_look_o        (load_look),
    .load_live_i        (load_live),
    .load_i             (load),
    .load_answer_i      (load_answer),
    .load_repeated_i    (load_repeated),
    .load_take_o        (load_take),
    .load_hold_o        (load_hold),
    .m_tlp,
    .arrival_o,
    .cnt_dma_write_o,
    .cnt_dma_read_o,
    .cnt_load_completion_unexpected_o,
    .cnt_load_completion_repeated_o,
    .busy_o             (dma_busy)
  );

  load_tags #(
    .LoadTags(LoadTags)
  ) u_load_tags (
    .clk_i     (clk_pcie_i),
    .rst_i     (rst_pcie_i),
    .now_us_i,
    .read_timeout_us_i,
    .load_retry_us_i,
    .alloc_i,
    .alloc_load_i,
    .alloc_session_i,
    .alloc_op_i,
    .alloc_ok_o,
    .alloc_tag_o,
    .alloc_number_o,
    .retry_valid_o,
    .retry_tag_o,
    .retry_number_o,
    .retry_op_o,
    .retry_ready_i,
    .op_i      (dma_op),
    .look_i    (load_look),
    .live_o    (load_live),
    .load_o    (load),
    .answer_o  (load_answer),
    .repeated_o(load_repeated),
    .take_i    (load_take),
    .hold_i    (load_hold),
    .cpl_error_o,
    .cpl_error_valid_o,
    .cpl_error_ready_i,
    .cnt_load_timeout_o,
    .cnt_load_completed_o,
    .busy_o    (tags_busy)
  );

  dma_completion #(
    .DmaTags(DmaTags)
  ) u_dma_completion (
    .clk_pcie_i,
    .rst_pcie_i,
    .now_us_i,
    .read_timeout_us_i,
    .alloc_i              (dma_alloc),
    .alloc_op_i           (dma_op),
    .alloc_byte_count_i   (dma_byte_count),
    .alloc_behind_i       (dma_behind),
    .alloc_lower_address_i(dma_lower_address),
    .alloc_ok_o           (dma_alloc_ok),
    .alloc_tag_o          (dma_alloc_tag),
    .alloc_keep_i         (dma_keep),
    .part_done_o          (part_done),
    .part_failed_o        (part_failed),
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
    .busy_pcie_o          (cpl_busy_pcie),
    .clk_net_i,
    .rst_net_i,
    .frame_valid_o        (cpl_frame_valid_o),
    .frame_o              (cpl_frame_o),
    .frame_permitted_o    (cpl_frame_permitted_o),
    .frame_pay_idx_i      (cpl_frame_pay_idx_i),
    .frame_pay_word_o     (cpl_frame_pay_word_o),
    .frame_pop_i          (cpl_frame_pop_i),
    .busy_net_o           (cpl_busy_net)
  );

  assign busy_pcie_o = dma_busy || tags_busy || cpl_busy_pcie;
endmodule
