// SPDX-License-Identifier: Apache-2.0
// Slots of the requester. A slot is written in parts as they become known: the operation at the
// TLP's words, the page part and the permission with the page map's answer, the peer part with the
// PC ID table's. The token may be ahead of the look-ups; the last look-up is done before the reader
// can have use for its part.
//
// Stores that go on where the one before them ended are a group (store_groups says which). While a
// frame waits for its start, the stores of its group whose tokens have come are joined to it, one a
// cycle; with lock_i the frame is what it is then, and one pop takes all of it. A lone store waits
// for nobody. A flush mark takes a slot like a store, behind all that came before it.
//
// Latency   : from take_i's edge to valid_o right after the second clk_net_i edge that follows
//             (TokenDelay more edges of clk_pcie_i in front); 1 cycle of clk_net_i from pay_idx_i
//             to pay_word_o.
// Clock     : clk_pcie_i writes, clk_net_i reads.
// Handshake : parts of slot w_slot_o are written while slot_free_o; take_i finishes it. permitted_o
//             and the session are settled when valid_o is first sampled, the rest of frame_o's peer
//             part one clk_net_i cycle later. pop_i only with valid_o: with lock_i for the whole
//             frame, else for the first slot alone.
// Drops     : never.
// Source    : ours; staged slots make the pointer's trip through the synchroniser hide the
//             look-ups. Groups: dissertation section 4.3.2.
module request_slots
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Slots; a power of two from 2.
  parameter int unsigned Slots = 16,
  /// clk_pcie_i edges from take_i to the token.
  parameter int unsigned TokenDelay = 0,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic                          clk_pcie_i,
  input  logic                          rst_pcie_i,
  output logic                          slot_free_o,
  output logic              [SlotW-1:0] w_slot_o,
  input  logic                          take_i,
  /// Stores that wait anyway may go in one frame.
  input  logic                          merge_i,
  /// Settings change: no group reaches across.
  input  logic                          break_i,
  /// Operation part, into slot w_slot_o.
  input  logic                          op_we_i,
  // The page goes to the page map, what a completion needs to the load tags.
  // verilator lint_off UNUSEDSIGNAL
  input  tlp_pkg::page_op_t             op_i,
  // verilator lint_on UNUSEDSIGNAL
  /// With take_i: the slot is a flush mark's.
  input  logic                          mark_we_i,
  input  logic              [     15:0] mark_session_i,
  input  logic              [     15:0] mark_cookie_i,
  /// Network tag and number of a load, into slot w_slot_o.
  input  logic                          tag_we_i,
  input  logic              [      7:0] tag_i,
  input  logic              [     15:0] load_number_i,
  /// Page part.
  input  logic                          page_we_i,
  input  logic              [SlotW-1:0] page_slot_i,
  input  page_map_entry_t               page_i,
  input  logic                          permitted_i,
  /// Frames to this PC ID belong to a session.
  input  logic                          session_i,
  /// Peer part.
  input  logic                          peer_we_i,
  input  logic              [SlotW-1:0] peer_slot_i,
  input  logic              [     47:0] peer_mac_i,
  input  logic              [     31:0] peer_ip_i,
  input  logic              [     15:0] peer_port_i,
  input  logic                          peer_compact_i,
  /// Permission of a slot whose look-up is done.
  input  logic              [SlotW-1:0] ask_slot_i,
  output logic                          ask_permitted_o,
  /// A page TLP's second word is there, taken or not.
  input  logic                          look_i,
  input  logic                          pay_even_we_i,
  input  logic              [      4:0] pay_even_idx_i,
  input  logic              [     31:0] pay_even_data_i,
  input  logic                          pay_odd_we_i,
  input  logic              [      4:0] pay_odd_idx_i,
  input  logic              [     31:0] pay_odd_data_i,
  output logic                          busy_pcie_o,

  input  logic             clk_net_i,
  input  logic             rst_net_i,
  output logic             valid_o,
  output logic             permitted_o,
  output tx_frame_t        frame_o,
  /// What is valid is a mark, and no frame.
  output logic             mark_o,
  output logic      [15:0] mark_session_o,
  output logic      [15:0] mark_cookie_o,
  input  logic      [ 4:0] pay_idx_i,
  output logic      [63:0] pay_word_o,
  /// From the choice of the frame to its last beat.
  input  logic             lock_i,
  input  logic             pop_i,
  /// Pulse for each store that travels in another's frame.
  output logic             cnt_tx_merged_o,
  output logic             busy_net_o
);
  // What the frame needs of the TLP, with the question of a compact form answered as far as the TLP
  // decides.
  typedef struct packed {
    logic             is_load;
    logic             compactable;
    logic             follows;      // goes on where the slot before it ends
    logic [SlotW-1:0] place;        // of the payload
    logic [1:0]       skip;         // bytes not written at the start of the first DW
    logic [1:0]       trail;        // and at the end of the last
    logic [11:0]      offset;
    logic [6:0]       length;
    logic [3:0]       first_be;
    logic [3:0]       last_be;
  } op_part_t;

  typedef struct packed {
    logic [47:0] mac;
    logic [31:0] ip;
    logic [15:0] port;
    logic        compact;
  } peer_part_t;

  op_part_t               op_q  [Slots];
  page_map_entry_t        page_q[Slots];
  peer_part_t             peer_q[Slots];
  logic            [23:0] tag_q [Slots];  // load number, tag
  logic            [31:0] mark_q[Slots];
  logic [Slots-1:0] permitted_q, session_q, is_mark_q;

  // First and last of the frame's slots; of the last one only its end matters.
  // verilator lint_off UNUSEDSIGNAL
  op_part_t op, last;
  // verilator lint_on UNUSEDSIGNAL
  logic [SlotW-1:0] r_slot, r_last, r_next;
  logic next_valid, join_next, ring_busy, ring_free, break_q;
  logic             locked_q;  // a frame ends some cycles behind its choice
  logic             follows;
  logic [SlotW-1:0] place;
  logic [5:0] base, base_q;  // first DW of the store that is coming
  logic [6:0] length, length_q;
  logic taking, accepted_q;

  slot_ring #(
    .Slots     (Slots),
    .TokenDelay(TokenDelay)
  ) u_ring (
    .w_clk_i       (clk_pcie_i),
    .w_rst_i       (rst_pcie_i),
    .w_free_o      (ring_free),
    .w_slot_o,
    .w_take_i      (take_i),
    .w_busy_o      (busy_pcie_o),
    .r_clk_i       (clk_net_i),
    .r_rst_i       (rst_net_i),
    .r_valid_o     (valid_o),
    .r_slot_o      (r_slot),
    .r_last_o      (r_last),
    .r_next_valid_o(next_valid),
    .r_next_o      (r_next),
    .r_join_i      (join_next),
    .r_pop_i       (pop_i),
    .r_group_i     (locked_q),
    .r_mark_i      (1'b0),
    .r_marked_o    (),
    .r_busy_o      (ring_busy)
  );

  // A slot that is taken makes the next one free a cycle later at the earliest: sooner no TLP can want it.
  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) slot_free_o <= 1'b0;
    else slot_free_o <= ring_free && !take_i;
  end

  // Who changes settings holds page TLPs back until two cycles later.
  always_ff @(posedge clk_pcie_i) break_q <= break_i;

  store_groups #(
    .Places(Slots)
  ) u_groups (
    .clk_i       (clk_pcie_i),
    .rst_i       (rst_pcie_i),
    .merge_i,
    .break_i     (break_q),
    .first_i     (op_we_i),
    .op_i,
    .contiguous_i(op_i.run.is_run),
    .full_start_i(op_i.run.skip == '0),
    .full_end_i  (op_i.run.trail == '0),
    .take_i,
    .take_store_i(!mark_we_i && !tag_we_i),
    .follows_o   (follows),
    .place_o     (place)
  );

  // ---- Payload: written only for a TLP that is accepted so far, and no DW beyond its length, since
  // its place may hold other stores.
  always_comb begin
    base   = base_q;
    length = length_q;
    if (op_we_i) begin
      base   = op_i.offset[7:2];
      length = op_i.length;
    end
  end
  assign taking = look_i ? op_we_i : accepted_q;

  always_ff @(posedge clk_pcie_i) begin
    if (look_i) accepted_q <= op_we_i;
    if (op_we_i) begin
      base_q   <= op_i.offset[7:2];
      length_q <= op_i.length;
    end
  end

  store_payload #(
    .Places(Slots)
  ) u_payload (
    .w_clk_i      (clk_pcie_i),
    .w_place_i    (place),
    .w_base_i     (base),
    .w_even_we_i  (pay_even_we_i && taking && {1'b0, pay_even_idx_i, 1'b0} < length),
    .w_even_idx_i (pay_even_idx_i),
    .w_even_data_i(pay_even_data_i),
    .w_odd_we_i   (pay_odd_we_i && taking && {1'b0, pay_odd_idx_i, 1'b1} < length),
    .w_odd_idx_i  (pay_odd_idx_i),
    .w_odd_data_i (pay_odd_data_i),
    .r_clk_i      (clk_net_i),
    .r_re_i       (valid_o),
    .r_place_i    (op.place),
    .r_base_i     (op.offset[7:2]),
    .r_idx_i      (pay_idx_i),
    .r_word_o     (pay_word_o)
  );

  always_ff @(posedge clk_pcie_i) begin
    if (op_we_i) begin
      op_q[w_slot_o] <= '{
          is_load: op_i.is_load,
          compactable: op_i.run.is_run && !op_i.is_load,
          follows: follows,
          place: place,
          skip: op_i.run.skip,
          trail: op_i.run.trail,
          offset: op_i.offset,
          length: op_i.length,
          first_be: op_i.first_be,
          last_be: op_i.last_be
      };
    end
    if (op_we_i || mark_we_i) is_mark_q[w_slot_o] <= mark_we_i;
    if (mark_we_i) mark_q[w_slot_o] <= {mark_session_i, mark_cookie_i};
    if (tag_we_i) tag_q[w_slot_o] <= {load_number_i, tag_i};
    if (page_we_i) begin
      page_q[page_slot_i]      <= page_i;
      permitted_q[page_slot_i] <= permitted_i;
      session_q[page_slot_i]   <= session_i;
    end
    if (peer_we_i) begin
      peer_q[peer_slot_i] <= '{
          mac: peer_mac_i,
          ip: peer_ip_i,
          port: peer_port_i,
          compact: peer_compact_i
      };
    end
  end
  assign ask_permitted_o = permitted_q[ask_slot_i];

  // ---- The frame: the slot at the read pointer and those joined to it ------------------------------
  // Until the frame is chosen it grows. What follows does so with the slot before it, never a mark.
  assign join_next = next_valid && !lock_i && !pop_i && op_q[r_next].follows && !is_mark_q[r_next];

  page_map_entry_t        page;
  peer_part_t             peer;
  logic            [15:0] key;
  logic            [31:0] offset;
  logic                   joined;
  logic            [23:0] tag;
  logic            [ 6:0] dws;
  assign op = op_q[r_slot];
  assign last = op_q[r_last];
  assign page = page_q[r_slot];
  assign peer = peer_q[r_slot];
  assign key = page.remote_page[35:20];
  assign offset = {page.remote_page[19:0], op.offset};
  assign tag = op.is_load ? tag_q[r_slot] : '0;
  assign joined = r_last != r_slot;
  // From the first DW of the first store to the last one of the last, 64 at most.
  assign dws = joined ? last.offset[8:2] + last.length - op.offset[8:2] : op.length;

  assign mark_o = is_mark_q[r_slot];
  assign {mark_session_o, mark_cookie_o} = mark_q[r_slot];

  assign permitted_o = permitted_q[r_slot] && !is_mark_q[r_slot];
  assign frame_o.compact = peer.compact && op.compactable &&
      key[15:COMPACT_KEY_W] == '0 && offset[31:COMPACT_OFFSET_W] == '0;
  assign frame_o.control = 1'b0;
  assign frame_o.session = '{valid: session_q[r_slot], index: page.pc_id[7:0]};
  assign frame_o.kind = KIND_TLP;
  assign frame_o.sequenced = 1'b1;
  assign frame_o.pc_id = page.pc_id;
  assign frame_o.dst_mac = peer.mac;
  assign frame_o.dst_ip = peer.ip;
  assign frame_o.src_port = peer.port;
  assign frame_o.tag = page.tag;
  assign frame_o.address = {key[COMPACT_KEY_W-1:0], offset[COMPACT_OFFSET_W-1:2], op.skip};
  assign frame_o.trail = last.trail;
  assign frame_o.data_dw = op.is_load ? '0 : dws;
  assign frame_o.zero_data = 1'b0;
  // TLP header of four DWs, byte 0 in the low lane.
  assign frame_o.head = {
    offset[7:0],
    offset[15:8],
    offset[23:16],
    offset[31:24],
    key[7:0],
    key[15:8],
    16'd0,
    {joined ? 4'hF >> last.trail : op.last_be, op.first_be},
    tag[7:0],
    tag[15:8],
    tag[23:16],
    {1'b0, dws},
    16'd0,
    (op.is_load ? TLP_MRD64 : TLP_MWR64)
  };

  // ---- Counting ----------------------------------------------------------------------------------
  logic [SlotW-1:0] followers;
  logic [SlotW+1:0] merged_q, merged;  // followers that were sent, still to be counted
  assign followers       = r_last - r_slot;
  assign merged          = merged_q - (SlotW + 2)'(cnt_tx_merged_o);
  assign cnt_tx_merged_o = merged_q != '0;
  always_ff @(posedge clk_net_i) begin
    locked_q <= !rst_net_i && lock_i && !pop_i;
    if (rst_net_i) merged_q <= '0;
    else if (pop_i && locked_q) merged_q <= merged + (SlotW + 2)'(followers);
    else if (cnt_tx_merged_o) merged_q <= merged;
  end

  assign busy_net_o = valid_o || ring_busy || cnt_tx_merged_o;

`ifndef SYNTHESIS
  // A reset comes to the PCIe side first: until it is here, too, tokens mean nothing.
  // Each part must have been in place for a whole clk_pcie_i cycle when clk_net_i samples what
  // depends on it.
  logic [Slots-1:0] page_here_q, page_settled_q, peer_here_q, peer_settled_q;
  logic seen_q;
  always_ff @(posedge clk_pcie_i) begin
    page_settled_q <= page_here_q;
    peer_settled_q <= peer_here_q;
    if (page_we_i) page_here_q[page_slot_i] <= 1'b1;
    if (peer_we_i) peer_here_q[peer_slot_i] <= 1'b1;
    if (op_we_i || mark_we_i) begin
      page_here_q[w_slot_o]    <= 1'b0;
      page_settled_q[w_slot_o] <= 1'b0;
      peer_here_q[w_slot_o]    <= 1'b0;
      peer_settled_q[w_slot_o] <= 1'b0;
    end
  end
  always_ff @(posedge clk_net_i) seen_q <= valid_o && !pop_i && !rst_net_i;

  assert property (@(posedge clk_net_i) disable iff (rst_net_i || rst_pcie_i)
      valid_o && !mark_o |-> page_settled_q[r_slot])
  else $error("request_slots: the token was ahead of the permission");
  assert property (@(posedge clk_net_i) disable iff (rst_net_i || rst_pcie_i)
      valid_o && seen_q && !mark_o |-> peer_settled_q[r_slot])
  else $error("request_slots: the token was ahead of the peer's address");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      op_we_i || tag_we_i || mark_we_i || pay_even_we_i || pay_odd_we_i |-> slot_free_o)
  else $error("request_slots: a slot was written that is not free");
  assert property (@(posedge clk_net_i) disable iff (rst_net_i || rst_pcie_i)
      valid_o && seen_q && !pop_i && !(join_next && !lock_i) |=> $stable(
      {frame_o, permitted_o, mark_o}
  ))
  else $error("request_slots: a frame changed while it was used");
  assert property (@(posedge clk_net_i) disable iff (rst_net_i || rst_pcie_i)
      pop_i |-> locked_q == lock_i)
  else $error("request_slots: a frame was chosen and popped in one cycle");
  assert property (@(posedge clk_net_i) disable iff (rst_net_i || rst_pcie_i)
      valid_o && joined |-> dws <= 7'(MAX_DATA_DW) && dws > op.length && op.compactable &&
      page_q[r_last] == page && permitted_q[r_last] == permitted_q[r_slot])
  else $error("request_slots: a group of stores that do not belong together");
  assert property (@(posedge clk_pcie_i) disable iff (rst_pcie_i)
      mark_we_i |-> take_i && !op_we_i && !tag_we_i && !pay_even_we_i && !pay_odd_we_i)
  else $error("request_slots: a mark within another operation");
`endif
endmodule
