// SPDX-License-Identifier: Apache-2.0
// Sending side of IP-NUMA: loads and stores to the page window become frames to build, in TLP
// order.
//
// A store's slot is handed over (its token moves) at its TLP's last word, ahead of the look-ups in
// page map and PC ID table; a load's when its tag is allocated, and later page TLPs wait for that.
// Stores without permission are taken out of the slots on the network side without a frame; loads
// without permission never get there.
//
// A flush mark waits until what came before it has its slot, then takes one itself; page TLPs wait
// for it. A load that is to be sent again goes in between two page TLPs, with the tag that it has,
// through the look-ups like a new one.
//
// Latency   : 0 cycles of clk_pcie_i from a store's last word to its token, or TokenDelay;
//             PageMapLatency + PcIdLatency for a load. Token to valid_o: right after the second
//             clk_net_i edge.
// Clock     : clk_pcie_i, clk_net_i.
// Handshake : page_first_i and page_end_i only while page_store_ready_o or page_load_ready_o stood
//             at its second word. mark_i only with mark_ready_o and while page TLPs wait for a register
//             write. retry_valid_i may be withdrawn in any cycle.
// Drops     : stores and loads to unmapped pages, loads without a free tag: counted, loads
//             completed in error.
// Source    : dissertation section 3.3.1; the early token is ours.
module requester
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Pages in BAR 2; a power of two.
  parameter int unsigned Pages = 262144,
  /// PC ID table entries; a power of two.
  parameter int unsigned PcIds = 256,
  /// Sessions; a power of two from 2 to 256.
  parameter int unsigned Sessions = 64,
  /// Slots; a power of two.
  parameter int unsigned Slots = 16,
  /// Cycles of a page map look-up, 1..4.
  parameter int unsigned PageMapLatency = 2,
  /// Cycles of a PC ID table look-up, 1..4.
  parameter int unsigned PcIdLatency = 1,
  /// Longest period that clk_pcie_i ever has, tolerance and spread spectrum included.
  parameter int unsigned PcieLongestPs = 4025,
  /// Shortest period that clk_net_i ever has, tolerance included.
  parameter int unsigned NetShortestPs = 6395,
  /// clk_pcie_i edges by which the token is held back; elaboration fails if they are too few.
  parameter int unsigned TokenDelay = requester_pkg::token_delay(
      PcieLongestPs, NetShortestPs, PageMapLatency, PcIdLatency
  ),
  localparam int unsigned PageW = $clog2(Pages),
  localparam int unsigned PcIdW = $clog2(PcIds)
) (
  input logic clk_pcie_i,
  input logic rst_pcie_i,
  input logic clk_net_i,
  input logic rst_net_i,

  input logic [31:0] ip_i,
  input logic [31:0] netmask_i,
  input logic [47:0] gateway_mac_i,
  /// Stores that wait anyway may go in one frame.
  input logic        merge_i,
  /// Pulse: a register was written. Stores before and after it are never sent in one frame.
  input logic        settings_write_i,

  /// A flush mark to put behind all stores and loads so far.
  input  logic        mark_i,
  input  logic [15:0] mark_pc_id_i,
  input  logic [15:0] mark_cookie_i,
  output logic        mark_ready_o,

  // From tlp_rx.
  input  logic                     page_look_i,
  input  tlp_pkg::page_op_t        page_op_i,
  input  logic                     page_first_i,
  input  logic                     page_end_i,
  /// A page TLP is behind its second word.
  input  logic                     page_active_i,
  output logic                     page_store_ready_o,
  output logic                     page_load_ready_o,
  input  logic                     page_pay_even_we_i,
  input  logic                     page_pay_odd_we_i,
  input  logic              [ 4:0] pay_even_idx_i,
  input  logic              [31:0] pay_even_data_i,
  input  logic              [ 4:0] pay_odd_idx_i,
  input  logic              [31:0] pay_odd_data_i,
  input  cpl_error_t               rx_error_i,
  input  logic                     rx_error_valid_i,

  // Table windows.
  input  logic                        page_cfg_write_i,
  input  logic            [PageW-1:0] page_cfg_index_i,
  input  page_map_entry_t             page_cfg_entry_i,
  input  logic                        page_cfg_read_i,
  output page_map_entry_t             page_cfg_entry_o,
  output logic                        page_cfg_read_done_o,
  input  logic                        pcid_cfg_write_i,
  input  logic            [PcIdW-1:0] pcid_cfg_index_i,
  input  pc_id_entry_t                pcid_cfg_entry_i,
  input  logic                        pcid_cfg_read_i,
  output pc_id_entry_t                pcid_cfg_entry_o,
  output logic                        pcid_cfg_read_done_o,

  // Load tags.
  output logic                     alloc_o,
  output load_t                    alloc_load_o,
  /// Of which session it is, if of any; the operation, since it may have to be sent again then.
  output session_t                 alloc_session_o,
  output tlp_pkg::page_op_t        alloc_op_o,
  input  logic                     alloc_ok_i,
  input  logic              [ 7:0] alloc_tag_i,
  input  logic              [15:0] alloc_number_i,
  /// A load to be sent again, with the tag that it has.
  input  logic                     retry_valid_i,
  input  logic              [ 7:0] retry_tag_i,
  input  logic              [15:0] retry_number_i,
  input  tlp_pkg::page_op_t        retry_op_i,
  output logic                     retry_ready_o,

  /// Completion of a refused load or read.
  output cpl_error_t cpl_error_o,
  output logic       cpl_error_valid_o,
  input  logic       cpl_error_ready_i,

  output logic cnt_tlp_store_o,
  output logic cnt_tlp_load_o,
  output logic cnt_tlp_store_unmapped_o,
  output logic cnt_tlp_load_unmapped_o,
  output logic cnt_load_no_tag_o,
  output logic cnt_load_retry_o,
  output logic busy_pcie_o,

  // To the frame builder, on clk_net_i.
  output logic             valid_o,
  output logic             permitted_o,
  output tx_frame_t        frame_o,
  /// What is valid is a flush mark, and no frame.
  output logic             mark_o,
  output logic      [15:0] mark_session_o,
  output logic      [15:0] mark_cookie_o,
  input  logic      [ 4:0] pay_idx_i,
  output logic      [63:0] pay_word_o,
  /// From the choice of the frame to its last beat: it must not grow.
  input  logic             lock_i,
  input  logic             pop_i,
  output logic             cnt_tx_merged_o,
  output logic             busy_net_o
);
  localparam int unsigned SlotW = $clog2(Slots);

  if (TokenDelay < requester_pkg::token_delay(
          PcieLongestPs, NetShortestPs, PageMapLatency, PcIdLatency
      )) begin : gen_unsafe
    $fatal(1, "requester: the token would be ahead of the look-ups; raise TokenDelay");
  end
  if (PcieLongestPs < 1000 || PcieLongestPs > 100_000 || NetShortestPs < 1000 ||
      NetShortestPs > 100_000) begin : gen_no_period
    $fatal(1, "requester: PcieLongestPs and NetShortestPs are periods in ps, 1 to 100 ns");
  end

  // Stages of a look-up behind the second word.
  localparam int unsigned Stages = PageMapLatency + PcIdLatency;
  typedef struct packed {
    logic             is_load;
    logic             again;      // a load that is sent again
    logic [SlotW-1:0] slot;
    logic             permitted;  // from stage PageMapLatency on
    session_t         session;    // likewise
  } look_t;

  logic  [Stages-1:0] look_valid_q;
  look_t              look_q       [Stages];
  look_t              peer_stage;
  logic page_here, peer_here, permitted, session;
  logic slot_free, take, take_load, take_again;
  logic [SlotW-1:0] slot;
  page_map_entry_t page;
  // Reserved bits mean nothing, the valid bit is in `permitted`.
  // verilator lint_off UNUSEDSIGNAL
  pc_id_entry_t peer;
  // verilator lint_on UNUSEDSIGNAL
  logic [47:0] peer_mac;
  logic slots_busy;

  logic [PageMapLatency:0] end_q;  // stores that ended, until they are counted
  logic [SlotW-1:0] end_slot_q[PageMapLatency+1];
  logic end_permitted, counting;

  logic              page_op_is_load;  // it is a load that ends now
  logic              load_q;  // a load waits for its look-ups
  load_t             load_info;
  tlp_pkg::page_op_t load_op_q;
  logic load_done, load_denied, load_no_tag;
  logic              error_valid_q;
  cpl_error_t        error_q;

  // What starts: a load to be sent again, or else a page TLP.
  tlp_pkg::page_op_t op;
  logic look, first;
  logic                     again_wanted_q;  // one is offered: no page TLP begins
  logic                     again_q;
  tlp_pkg::page_op_t        again_op_q;
  logic              [ 7:0] again_tag_q;
  logic              [15:0] again_number_q;

  // A flush mark.
  logic mark_q, mark_take;
  logic [15:0] mark_pc_id_q, mark_cookie_q;

  // It goes before page TLPs, which may come in an endless row; and from a register: what is to be sent again is
  // found by an arbiter, too late in the cycle for page TLPs to ask for it.
  assign retry_ready_o = again_wanted_q && slot_free && !load_q && !mark_q && !page_active_i &&
      !again_q;
  always_ff @(posedge clk_pcie_i) begin
    again_wanted_q <= !rst_pcie_i && retry_valid_i;
    again_q        <= !rst_pcie_i && retry_valid_i && retry_ready_o;
    again_op_q     <= retry_op_i;
    // Byte enables that are a run matter to stores: load tags need not keep it.
    again_op_q.run <= '0;
    if (retry_valid_i && retry_ready_o) begin
      again_tag_q    <= retry_tag_i;
      again_number_q <= retry_number_i;
    end
  end
  assign op    = again_q ? again_op_q : page_op_i;
  assign look  = page_look_i || again_q;
  assign first = page_first_i || again_q;

  // Look-ups.
  page_map #(
    .Pages      (Pages),
    .ReadLatency(PageMapLatency)
  ) u_page_map (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .look_i         (look),
    .page_i         (op.page[PageW-1:0]),
    .entry_o        (page),
    .cfg_write_i    (page_cfg_write_i),
    .cfg_index_i    (page_cfg_index_i),
    .cfg_entry_i    (page_cfg_entry_i),
    .cfg_read_i     (page_cfg_read_i),
    .cfg_entry_o    (page_cfg_entry_o),
    .cfg_read_done_o(page_cfg_read_done_o)
  );

  pc_id_table #(
    .PcIds      (PcIds),
    .Sessions   (Sessions),
    .ReadLatency(PcIdLatency)
  ) u_pc_id_table (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .look_i         (page_here),
    .pc_id_i        (page.pc_id),
    .permitted_o    (permitted),
    .session_o      (session),
    .entry_o        (peer),
    .cfg_write_i    (pcid_cfg_write_i),
    .cfg_index_i    (pcid_cfg_index_i),
    .cfg_entry_i    (pcid_cfg_entry_i),
    .cfg_read_i     (pcid_cfg_read_i),
    .cfg_entry_o    (pcid_cfg_entry_o),
    .cfg_read_done_o(pcid_cfg_read_done_o)
  );

  assign page_here  = look_valid_q[PageMapLatency-1];
  assign peer_here  = look_valid_q[Stages-1];
  assign peer_stage = look_q[Stages-1];

  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) look_valid_q <= '0;
    else look_valid_q <= Stages'({look_valid_q, first});
  end

  always_ff @(posedge clk_pcie_i) begin
    if (first) begin
      look_q[0] <= '{
          is_load: again_q || (page_op_i.is_load && page_end_i),
          again: again_q,
          slot: slot,
          permitted: 1'b0,
          session: '0
      };
    end
  end
  for (genvar i = 1; i < int'(Stages); i++) begin : gen_look
    always_ff @(posedge clk_pcie_i) begin
      if (look_valid_q[i-1]) begin
        look_q[i] <= look_q[i-1];
        if (i == int'(PageMapLatency)) begin
          look_q[i].permitted <= permitted;
          look_q[i].session   <= '{valid: session, index: page.pc_id[7:0]};
        end
      end
    end
  end

  // Gateway rule.
  assign peer_mac = ((peer.ip ^ ip_i) & netmask_i) != '0 ? gateway_mac_i : peer.mac;

  // Loads: their end is their second word, so the look-up that says is_load is theirs.
  assign load_done = peer_here && peer_stage.is_load;
  assign load_denied = load_done && !peer_stage.again && !peer_stage.permitted;
  assign load_no_tag = load_done && !peer_stage.again && peer_stage.permitted && !alloc_ok_i;
  assign take_load = load_done && !peer_stage.again && peer_stage.permitted && alloc_ok_i;
  // One that is not permitted any more waits for its time-out.
  assign take_again = load_done && peer_stage.again && peer_stage.permitted;
  assign alloc_o = take_load;
  assign alloc_session_o = peer_stage.session;
  assign alloc_op_o = load_op_q;
  assign load_info = '{
          requester_id: load_op_q.requester_id,
          tag: load_op_q.tag,
          tc: load_op_q.tc,
          attr: load_op_q.attr,
          byte_count:
          read_byte_count
          (
              {3'd0, load_op_q.length}, load_op_q.first_be, load_op_q.last_be
          ),
          lower_address: {load_op_q.offset[6:2], first_byte(load_op_q.first_be)},
          peer_ip: '0
      };
  always_comb begin
    alloc_load_o         = load_info;
    alloc_load_o.peer_ip = peer.ip;
  end

  // Loads end at the second word, where page_op_i is valid.
  assign page_op_is_load = page_first_i && page_op_i.is_load;
  assign take = (page_end_i && !page_op_is_load) || take_load || take_again || mark_take;
  assign page_store_ready_o = slot_free && !load_q && !mark_q && !again_wanted_q && !again_q;
  assign page_load_ready_o = page_store_ready_o && !error_valid_q;

  // A register write holds page TLPs back, and the mark does from there on.
  assign mark_ready_o = !mark_q;
  assign mark_take = mark_q && slot_free && !load_q && !again_q;
  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) mark_q <= 1'b0;
    else mark_q <= mark_i || (mark_q && !mark_take);
    if (mark_i) begin
      mark_pc_id_q  <= mark_pc_id_i;
      mark_cookie_q <= mark_cookie_i;
    end
  end

  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) begin
      load_q        <= 1'b0;
      error_valid_q <= 1'b0;
    end else begin
      if (again_q || (page_end_i && page_op_is_load)) load_q <= 1'b1;
      else if (load_done) load_q <= 1'b0;

      if (rx_error_valid_i || load_denied || load_no_tag) error_valid_q <= 1'b1;
      else if (cpl_error_ready_i) error_valid_q <= 1'b0;
    end
    if (page_end_i && page_op_is_load) load_op_q <= page_op_i;
    if (rx_error_valid_i) begin
      error_q <= rx_error_i;
    end else if (load_denied || load_no_tag) begin
      error_q <= '{
          requester_id: load_info.requester_id,
          tag: load_info.tag,
          tc: load_info.tc,
          attr: load_info.attr,
          locked: 1'b0,
          status: load_denied ? CPL_UR : CPL_CA,
          byte_count: load_info.byte_count,
          lower_address: load_info.lower_address
      };
    end
  end
  assign cpl_error_o       = error_q;
  assign cpl_error_valid_o = error_valid_q;

  request_slots #(
    .Slots     (Slots),
    .TokenDelay(TokenDelay)
  ) u_slots (
    .clk_pcie_i,
    .rst_pcie_i,
    .slot_free_o    (slot_free),
    .w_slot_o       (slot),
    .take_i         (take),
    .merge_i,
    .break_i        (settings_write_i || page_cfg_write_i || pcid_cfg_write_i),
    .op_we_i        (first),
    .op_i           (op),
    .mark_we_i      (mark_take),
    .mark_session_i (mark_pc_id_q),
    .mark_cookie_i  (mark_cookie_q),
    .tag_we_i       (take_load || take_again),
    .tag_i          (take_again ? again_tag_q : alloc_tag_i),
    .load_number_i  (take_again ? again_number_q : alloc_number_i),
    .page_we_i      (page_here),
    .page_slot_i    (look_q[PageMapLatency-1].slot),
    .page_i         (page),
    .permitted_i    (permitted),
    .session_i      (session),
    .peer_we_i      (peer_here),
    .peer_slot_i    (peer_stage.slot),
    .peer_mac_i     (peer_mac),
    .peer_ip_i      (peer.ip),
    .peer_port_i    (peer.source_port),
    .peer_compact_i (peer.compact),
    .ask_slot_i     (end_slot_q[PageMapLatency]),
    .ask_permitted_o(end_permitted),
    .look_i         (page_look_i),
    .pay_even_we_i  (page_pay_even_we_i),
    .pay_even_idx_i,
    .pay_even_data_i,
    .pay_odd_we_i   (page_pay_odd_we_i),
    .pay_odd_idx_i,
    .pay_odd_data_i,
    .busy_pcie_o    (slots_busy),
    .clk_net_i,
    .rst_net_i,
    .valid_o,
    .permitted_o,
    .frame_o,
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

  // A store is counted when its look-up must be over; its slot can't have been used again by then.
  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) end_q <= '0;
    else end_q <= (PageMapLatency + 1)'({end_q, page_end_i && !page_op_is_load});
  end
  always_ff @(posedge clk_pcie_i) begin
    if (page_end_i) end_slot_q[0] <= slot;
  end
  for (genvar i = 1; i <= int'(PageMapLatency); i++) begin : gen_end
    always_ff @(posedge clk_pcie_i) begin
      if (end_q[i-1]) end_slot_q[i] <= end_slot_q[i-1];
    end
  end

  assign counting = end_q[PageMapLatency];
  assign cnt_tlp_store_o = counting && end_permitted;
  assign cnt_tlp_store_unmapped_o = counting && !end_permitted;
  assign cnt_tlp_load_o = take_load;
  assign cnt_tlp_load_unmapped_o = load_denied;
  assign cnt_load_no_tag_o = load_no_tag;
  assign cnt_load_retry_o = take_again;

  assign busy_pcie_o = |look_valid_q || |end_q || again_q || load_q || error_valid_q || mark_q ||
      slots_busy;

`ifndef SYNTHESIS
  initial begin
    assert (PageMapLatency >= 1 && PageMapLatency <= 4 && PcIdLatency >= 1 && PcIdLatency <= 4)
    else $fatal(1, "requester: look-ups take 1 to 4 cycles");
  end
  logic resends_q;  // what waits is a load that is sent again: it makes no refusal
  always_ff @(posedge clk_pcie_i) if (!load_q) resends_q <= again_q;
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      rx_error_valid_i |-> !error_valid_q && (!load_q || resends_q))
  else $error("requester: a refusal came while another was under way");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      mark_i |-> mark_ready_o && !page_first_i && !page_active_i)
  else $error("requester: a mark came within a page TLP, or while another waits");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      again_q |-> !(page_first_i || page_end_i))
  else $error("requester: a load is sent again within a page TLP");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      mark_q |-> !(page_first_i || page_end_i))
  else $error("requester: a page TLP overtook a mark");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      load_q |-> !(page_first_i || page_end_i))
  else $error("requester: a page TLP overtook a load");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      cpl_error_valid_o && !cpl_error_ready_i |=> cpl_error_valid_o && $stable(
      cpl_error_o
  ))
  else $error("requester: a refusal was withdrawn");
`endif
endmodule
