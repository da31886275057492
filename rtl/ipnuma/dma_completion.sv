// SPDX-License-Identifier: Apache-2.0
// Loads of others that read our host's memory: their DMA tags, and the completions on their way from the
// root complex back to the network.
//
// A completion's data go to a frame slot while it arrives; its good end commits the frame. A load that is read in
// parts (server_dma) is one read to the network: the byte count of a part's completion is raised by what the parts
// behind it will bring.
//
// With QuarantineLog2 a tag whose read timed out, or was out at a reset, is in quarantine, see tag_pool.
//
// Latency   : from cpl_valid_i's edge to frame_valid_o 1 cycle of clk_pcie_i more than in tx_slots.
// Clock     : clk_pcie_i; the frames are read with clk_net_i.
// Handshake : cpl_ready_o is looked at before a completion's data begin (cpl_active_i from there to its end).
// Drops     : completions that nobody waits for; counted.
// Source    : docs/architecture.md, docs/wire-format.md.
module dma_completion
  import ipnuma_pkg::*;
  import rx_pkg::*;
  import tlp_pkg::*;
  import wire_pkg::*;
#(
  /// Reads in flight; 8 at most.
  parameter int unsigned DmaTags = 8,
  /// Frames that wait for the transmitter.
  parameter int unsigned Slots = 4,
  /// Time-outs of quarantine, as a power of two; 8 is 25.6 ms with the default time-out, of the 50 ms that a host may
  /// take at most. None by default: while all tags are in quarantine a load holds up the stores behind it.
  parameter int unsigned QuarantineLog2 = 0
) (
  input logic        clk_pcie_i,
  input logic        rst_pcie_i,
  input logic [31:0] now_us_i,
  input logic [31:0] read_timeout_us_i,

  /// From server_dma: a load is about to be read.
  input  logic          alloc_i,
  input  rx_op_t        alloc_op_i,
  /// Of it and all parts behind it, and of those alone; 0: there are none.
  input  logic   [11:0] alloc_byte_count_i,
  input  logic   [ 8:0] alloc_behind_i,
  input  logic   [ 6:0] alloc_lower_address_i,
  output logic          alloc_ok_o,
  output logic   [ 7:0] alloc_tag_o,
  /// It is being offered.
  input  logic          alloc_keep_i,
  /// Pulse: a read with parts behind it has ended; it failed.
  output logic          part_done_o,
  output logic          part_failed_o,

  /// From tlp_rx.
  input  logic             cpl_pay_even_we_i,
  input  logic             cpl_pay_odd_we_i,
  input  logic      [ 4:0] pay_even_idx_i,
  input  logic      [31:0] pay_even_data_i,
  input  logic      [ 4:0] pay_odd_idx_i,
  input  logic      [31:0] pay_odd_data_i,
  input  logic             cpl_valid_i,
  input  cpl_head_t        cpl_head_i,
  input  logic             cpl_active_i,
  output logic             cpl_ready_o,

  output logic cnt_tlp_completion_o,
  output logic cnt_tlp_completion_unexpected_o,
  output logic cnt_dma_read_timeout_o,
  output logic busy_pcie_o,

  /// Frames for the network.
  input  logic             clk_net_i,
  input  logic             rst_net_i,
  output logic             frame_valid_o,
  output tx_frame_t        frame_o,
  output logic             frame_permitted_o,
  input  logic      [ 4:0] frame_pay_idx_i,
  output logic      [63:0] frame_pay_word_o,
  input  logic             frame_pop_i,
  output logic             busy_net_o
);
  localparam int unsigned GenerationW = 2;
  localparam int unsigned TagW = GenerationW + $clog2(DmaTags);

  // What is remembered of a load: where its data go, and what a completion without data says.
  typedef struct packed {
    reply_to_t   peer;
    session_t    session;
    logic [5:0]  epoch;
    logic [7:0]  net_tag;
    logic [15:0] load_number;
    logic [11:0] byte_count;
    logic [6:0]  lower_address;
    logic [8:0]  behind;
  } read_t;

  logic [TagW-1:0] take_tag;
  read_t taken, read, expired_read, about;
  logic tag_live, tag_late, whole_tag, live, late, ends, expired, expire, expiring_q, pool_busy;
  logic      cpl_valid_q;
  cpl_head_t cpl_q;
  logic length_ok, commit, slot_free, slots_busy;
  logic      [6:0] data_dw;
  cpl_head_t       head;
  tx_frame_t       frame;
  logic expected_q, unexpected_q, timeout_q;

  assign taken = '{
          peer: alloc_op_i.peer,
          session: alloc_op_i.session,
          epoch: alloc_op_i.epoch,
          net_tag: alloc_op_i.net_tag,
          load_number: alloc_op_i.load_number,
          byte_count: alloc_byte_count_i,
          lower_address: alloc_lower_address_i,
          behind: alloc_behind_i
      };

  // A completion's own cycle is the one behind its end.
  always_ff @(posedge clk_pcie_i) begin
    cpl_q <= cpl_head_i;
    if (rst_pcie_i) cpl_valid_q <= 1'b0;
    else cpl_valid_q <= cpl_valid_i;
  end

  assign length_ok = !cpl_q.has_data || (cpl_q.length != '0 && cpl_q.length <= 10'(MAX_DATA_DW));
  assign data_dw = cpl_q.has_data ? cpl_q.length[6:0] : '0;
  assign whole_tag = 8'(cpl_q.tag[TagW-1:0]) == cpl_q.tag;
  assign live = tag_live && whole_tag && length_ok;
  assign late = tag_late && whole_tag && length_ok;
  assign ends = completion_ends(cpl_q.status, cpl_q.byte_count, data_dw, cpl_q.lower_address[1:0]);

  tag_pool #(
    .Tags          (DmaTags),
    .GenerationW   (GenerationW),
    .QuarantineLog2(QuarantineLog2),
    .data_t        (read_t)
  ) u_pool (
    .clk_i         (clk_pcie_i),
    .rst_i         (rst_pcie_i),
    .now_us_i,
    .timeout_us_i  (read_timeout_us_i),
    .take_i        (alloc_i),
    .take_data_i   (taken),
    .take_ok_o     (alloc_ok_o),
    .take_tag_o    (take_tag),
    .keep_i        (alloc_keep_i),
    .tag_i         (cpl_q.tag[TagW-1:0]),
    .whole_i       (1'b1),
    .live_o        (tag_live),
    .data_o        (read),
    .free_i        (cpl_valid_q && live && ends),
    .late_o        (tag_late),
    .late_free_i   (cpl_valid_q && late && ends),
    .expired_o     (expired),
    .expired_data_o(expired_read),
    .expire_i      (expire),
    .used_o        (),
    .generation_o  (),
    .busy_o        (pool_busy)
  );

  assign alloc_tag_o = 8'(take_tag);

  // A time-out's frame must not take the slot that a completion's data are going to: first no further
  // completion is let in, and then the slot is used as soon as none is under way.
  assign cpl_ready_o = slot_free && !expiring_q && !cpl_valid_q;
  assign expire = expired && expiring_q && slot_free && !cpl_active_i && !cpl_valid_i &&
      !cpl_valid_q;

  always_comb begin
    head            = cpl_q;
    head.byte_count = cpl_q.byte_count + 12'(read.behind);
    about           = read;
    if (expire) begin
      head = '{
          has_data: 1'b0,
          status: CPL_CA,
          byte_count: expired_read.byte_count,
          lower_address: expired_read.lower_address,
          length: '0,
          tag: '0
      };
      about = expired_read;
    end
    frame = '0;
    frame.kind = KIND_TLP;
    frame.session = about.session;
    frame.dst_mac = about.peer.mac;
    frame.dst_ip = about.peer.ip;
    frame.src_port = about.session.valid ? {2'd0, about.epoch, 8'd0} : UDP_PORT;
    frame.data_dw = head.has_data ? head.length[6:0] : '0;
    frame.head = {
      32'd0,
      cpl_pkg::cpl_header(
        head.has_data ? TLP_CPLD : TLP_CPL,
        head.length,
        3'd0,
        2'd0,
        16'd0,
        head.status,
        head.byte_count,
        about.load_number,
        about.net_tag,
        head.lower_address
      )
    };
    commit = expire || (cpl_valid_q && live);
  end

  assign part_done_o   = (expire && expired_read.behind != '0) ||
      (cpl_valid_q && live && ends && read.behind != '0);
  assign part_failed_o = expire || cpl_q.status != CPL_SC;

  tx_slots #(
    .Slots  (Slots),
    .frame_t(tx_frame_t)
  ) u_slots (
    .clk_pcie_i,
    .rst_pcie_i,
    .slot_free_o    (slot_free),
    .frame_i        (frame),
    .commit_i       (commit),
    .pay_even_we_i  (cpl_pay_even_we_i),
    .pay_even_idx_i (pay_even_idx_i),
    .pay_even_data_i(pay_even_data_i),
    .pay_odd_we_i   (cpl_pay_odd_we_i),
    .pay_odd_idx_i  (pay_odd_idx_i),
    .pay_odd_data_i (pay_odd_data_i),
    .busy_pcie_o    (slots_busy),
    .clk_net_i,
    .rst_net_i,
    .valid_o        (frame_valid_o),
    .frame_o        (frame_o),
    .permitted_o    (frame_permitted_o),
    .pay_idx_i      (frame_pay_idx_i),
    .pay_word_o     (frame_pay_word_o),
    .pop_i          (frame_pop_i),
    .busy_net_o     (busy_net_o)
  );

  always_ff @(posedge clk_pcie_i) begin
    if (rst_pcie_i) begin
      expiring_q   <= 1'b0;
      expected_q   <= 1'b0;
      unexpected_q <= 1'b0;
      timeout_q    <= 1'b0;
    end else begin
      expiring_q   <= expired && !expire;
      expected_q   <= cpl_valid_q && live;
      unexpected_q <= cpl_valid_q && !live;
      timeout_q    <= expire;
    end
  end

  assign cnt_tlp_completion_o = expected_q;
  assign cnt_tlp_completion_unexpected_o = unexpected_q;
  assign cnt_dma_read_timeout_o = timeout_q;
  assign busy_pcie_o = pool_busy || slots_busy || expiring_q || cpl_valid_q ||
      expected_q || unexpected_q || timeout_q;

`ifndef SYNTHESIS
  initial
    assert (DmaTags <= 8)
    else $fatal(1, "dma_completion: the tag does not fit its 5 bits");
`endif
  // Only the fields that a reply needs are remembered.
  logic unused;
  assign unused = ^{alloc_op_i.kind, alloc_op_i.address, alloc_op_i.data_dw, alloc_op_i.status,
                    alloc_op_i.byte_count, alloc_op_i.lower_address, alloc_op_i.notify,
                    alloc_op_i.length, alloc_op_i.first_be, alloc_op_i.last_be, head.tag,
                    about.byte_count, about.lower_address, about.behind};
endmodule
