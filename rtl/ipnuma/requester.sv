// SPDX-License-Identifier: Apache-2.0
// Sending side of IP-NUMA: loads and stores to the page window become frames to build, in TLP
// order.
//
// A store's slot is handed over (its token moves) at its TLP's last beat, ahead of the look-ups in
// page map and PC ID table; a load's when its tag is allocated, and later page TLPs wait for that.
// Stores without permission are taken out of the slots on the network side without a frame; loads
// without permission never get there.
//
// Latency   : 0 cycles of clk_pcie_i from a store's last beat to its token, or TokenDelay;
//             PageMapLatency + PcIdLatency for a load. Token to valid_o: right after the second
//             clk_net_i edge.
// Clock     : clk_pcie_i, clk_net_i.
// Handshake : page_first_i and page_end_i only while page_store_ready_o or page_load_ready_o stood
//             at beat 1.
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
  /// Slots; a power of two.
  parameter int unsigned Slots = 16,
  /// Cycles of a page map look-up, 1..4.
  parameter int unsigned PageMapLatency = 2,
  /// Cycles of a PC ID table look-up, 1..4.
  parameter int unsigned PcIdLatency = 1,
  /// Shortest period of clk_pcie_i.
  parameter int unsigned PciePeriodPs = 4000,
  /// Shortest period of clk_net_i.
  parameter int unsigned NetPeriodPs = 6400,
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

  // From tlp_rx.
  input  logic                     page_look_i,
  input  tlp_pkg::page_op_t        page_op_i,
  input  logic                     page_first_i,
  input  logic                     page_end_i,
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
  output logic        alloc_o,
  output load_t       alloc_load_o,
  input  logic        alloc_ok_i,
  input  logic  [7:0] alloc_tag_i,

  /// Completion of a refused load or read.
  output cpl_error_t cpl_error_o,
  output logic       cpl_error_valid_o,
  input  logic       cpl_error_ready_i,

  output logic cnt_tlp_store_o,
  output logic cnt_tlp_load_o,
  output logic cnt_tlp_store_unmapped_o,
  output logic cnt_tlp_load_unmapped_o,
  output logic cnt_load_no_tag_o,
  output logic busy_pcie_o,

  // To the frame builder, on clk_net_i.
  output logic             valid_o,
  output logic             permitted_o,
  output tx_frame_t        frame_o,
  input  logic      [ 4:0] pay_idx_i,
  output logic      [63:0] pay_word_o,
  input  logic             pop_i,
  output logic             busy_net_o
);
  localparam int unsigned SlotW = $clog2(Slots);

  // The token's way takes two whole clk_net_i periods at least until the start of the frame is
  // sampled, three until its first word is. Permission must have been stable for one clk_pcie_i
  // period before the former, the peer's address before the latter.
  localparam int unsigned PageMapPs = (PageMapLatency + 1) * PciePeriodPs;
  localparam int unsigned PeerPs = (PageMapLatency + PcIdLatency + 1) * PciePeriodPs;
  localparam int unsigned PagePs = 2 * NetPeriodPs;
  localparam int unsigned PageLatePs = PageMapPs > PagePs ? PageMapPs - PagePs : 0;
  localparam int unsigned PeerLatePs = PeerPs > 3 * NetPeriodPs ? PeerPs - 3 * NetPeriodPs : 0;
  localparam int unsigned LatePs = PageLatePs > PeerLatePs ? PageLatePs : PeerLatePs;
  localparam int unsigned TokenDelay = (LatePs + PciePeriodPs - 1) / PciePeriodPs;

  // Stages of a look-up behind beat 1.
  localparam int unsigned Stages = PageMapLatency + PcIdLatency;
  typedef struct packed {
    logic             is_load;
    logic [SlotW-1:0] slot;
    logic             permitted;  // from stage PageMapLatency on
  } look_t;

  logic  [Stages-1:0] look_valid_q;
  look_t              look_q       [Stages];
  look_t              peer_stage;
  logic page_here, peer_here, permitted;
  logic slot_free, take, take_load;
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

  logic  page_op_is_load;  // it is a load that ends now
  logic  load_q;  // a load waits for its look-ups
  load_t load_info_q;
  logic load_done, load_denied, load_no_tag;
  logic       error_valid_q;
  cpl_error_t error_q;

  // Look-ups.
  page_map #(
    .Pages      (Pages),
    .ReadLatency(PageMapLatency)
  ) u_page_map (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .look_i         (page_look_i),
    .page_i         (page_op_i.page[PageW-1:0]),
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
    .ReadLatency(PcIdLatency)
  ) u_pc_id_table (
    .clk_i          (clk_pcie_i),
    .rst_i          (rst_pcie_i),
    .look_i         (page_here),
    .pc_id_i        (page.pc_id),
    .permitted_o    (permitted),
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
    else look_valid_q <= Stages'({look_valid_q, page_first_i});
  end

  always_ff @(posedge clk_pcie_i) begin
    if (page_first_i) begin
      look_q[0].is_load   <= page_op_i.is_load && page_end_i;
      look_q[0].slot      <= slot;
      look_q[0].permitted <= 1'b0;
    end
  end
  for (genvar i = 1; i < int'(Stages); i++) begin : gen_look
    always_ff @(posedge clk_pcie_i) begin
      if (look_valid_q[i-1]) begin
        look_q[i] <= look_q[i-1];
        if (i == int'(PageMapLatency)) look_q[i].permitted <= permitted;
      end
    end
  end

  // Gateway rule.
  assign peer_mac    = ((peer.ip ^ ip_i) & netmask_i) != '0 ? gateway_mac_i : peer.mac;

  // Loads: their end is their beat 1, so the look-up that says is_load is theirs.
  assign load_done   = peer_here && peer_stage.is_load;
  assign load_denied = load_done && !peer_stage.permitted;
  assign load_no_tag = load_done && peer_stage.permitted && !alloc_ok_i;
  assign take_load   = load_done && peer_stage.permitted && alloc_ok_i;
  assign alloc_o     = take_load;
  always_comb begin
    alloc_load_o         = load_info_q;
    alloc_load_o.peer_ip = peer.ip;
  end

  // Loads end at beat 1, where page_op_i is valid.
  assign page_op_is_load    = page_first_i && page_op_i.is_load;
  assign take               = (page_end_i && !page_op_is_load) || take_load;
  assign page_store_ready_o = slot_free && !load_q;
  assign page_load_ready_o  = slot_free && !load_q && !error_valid_q;

  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) begin
      load_q        <= 1'b0;
      error_valid_q <= 1'b0;
    end else begin
      if (page_end_i && page_op_is_load) load_q <= 1'b1;
      else if (load_done) load_q <= 1'b0;

      if (rx_error_valid_i || load_denied || load_no_tag) error_valid_q <= 1'b1;
      else if (cpl_error_ready_i) error_valid_q <= 1'b0;
    end
    if (page_end_i && page_op_is_load) begin
      load_info_q <= '{
          requester_id: page_op_i.requester_id,
          tag: page_op_i.tag,
          tc: page_op_i.tc,
          byte_count:
          read_byte_count
          (
              {3'd0, page_op_i.length}, page_op_i.first_be, page_op_i.last_be
          ),
          lower_address: {page_op_i.offset[6:2], first_byte(page_op_i.first_be)},
          peer_ip: '0
      };
    end
    if (rx_error_valid_i) begin
      error_q <= rx_error_i;
    end else if (load_denied || load_no_tag) begin
      error_q <= '{
          requester_id: load_info_q.requester_id,
          tag: load_info_q.tag,
          tc: load_info_q.tc,
          status: load_denied ? CPL_UR : CPL_CA,
          byte_count: load_info_q.byte_count,
          lower_address: load_info_q.lower_address
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
    .op_we_i        (page_first_i),
    .op_i           (page_op_i),
    .tag_we_i       (take_load),
    .tag_i          (alloc_tag_i),
    .page_we_i      (page_here),
    .page_slot_i    (look_q[PageMapLatency-1].slot),
    .page_i         (page),
    .permitted_i    (permitted),
    .peer_we_i      (peer_here),
    .peer_slot_i    (peer_stage.slot),
    .peer_mac_i     (peer_mac),
    .peer_ip_i      (peer.ip),
    .peer_port_i    (peer.source_port),
    .peer_compact_i (peer.compact),
    .ask_slot_i     (end_slot_q[PageMapLatency]),
    .ask_permitted_o(end_permitted),
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
    .pay_idx_i,
    .pay_word_o,
    .pop_i,
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

  assign busy_pcie_o = |look_valid_q || |end_q || load_q || error_valid_q || slots_busy;

`ifndef SYNTHESIS
  initial begin
    assert (PageMapLatency >= 1 && PageMapLatency <= 4 && PcIdLatency >= 1 && PcIdLatency <= 4)
    else $fatal(1, "requester: look-ups take 1 to 4 cycles");
    assert (PageMapPs <= 2 * NetPeriodPs + TokenDelay * PciePeriodPs &&
            PeerPs <= 3 * NetPeriodPs + TokenDelay * PciePeriodPs)
    else $fatal(1, "requester: the token would be ahead of the look-ups");
  end
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      rx_error_valid_i |-> !error_valid_q && !load_q)
  else $error("requester: a refusal came while another was under way");
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
