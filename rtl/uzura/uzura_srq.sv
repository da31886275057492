// SPDX-License-Identifier: Apache-2.0
// Shared receive queues: which entry is next, and how many there are, for the QPs that receive from one
// queue.
//
// An entry is a place in host memory, the last word of which names the place of the one behind it. So places
// become free in any order, and a message that never ends holds its own place only.
//
//   0x018 of a doorbell page: {0, SRQ[35:32], 0, index[15:0]}; index counts the entries posted so far
//
// Latency   : look_i to srq_o 2 edges; take_i to srq_o 3; take_i to event_o 4, if so few are left.
// Clock     : clk_i.
// Handshake : none. take_i takes the entry of look_i, which stays for 4 edges more; cfg_* only while nobody
//             looks. A queue that was not set is empty.
// Drops     : doorbells for an SRQ of another page; counted.
// Source    : InfiniBand Architecture Specification, 10.2.9.
module uzura_srq
  import uzura_qp_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_i,
  // Doorbells.
  input  logic                  write_i,
  input  logic     [      17:0] addr_i,
  input  logic     [      63:0] wdata_i,
  /// The host sets one, and its limit; with begin_i it is empty.
  input  logic                  cfg_write_i,
  input  logic                  begin_i,
  input  logic     [  SrqW-1:0] cfg_srq_i,
  input  srq_cfg_t              cfg_i,
  // The receiver.
  input  logic     [  SrqW-1:0] look_i,
  output srq_t                  srq_o,
  input  logic                  take_i,
  /// The place of the entry behind it.
  input  logic     [PlaceW-1:0] link_i,
  /// Fewer entries than the limit are left; it stays until the limit is set again.
  output logic     [  Srqs-1:0] below_o,
  output logic                  event_o,
  output logic                  cnt_doorbell_o,
  output logic                  cnt_refused_o
);
  localparam logic [8:0] OffsetShared = 9'h003;
  // Edges from take_i until what is left is known.
  localparam int unsigned Settle = 3;

  logic [Srqs-1:0] used_q, armed_q;
  logic [5:0] page_q[Srqs];
  logic [15:0] posted_q[Srqs], taken_q[Srqs];
  logic [PlaceW-1:0] place_q  [Srqs];
  logic [  SrqW-1:0] bell_srq;
  logic bell, own, few;
  assign bell_srq = wdata_i[32+:SrqW];
  assign bell     = write_i && addr_i[11:3] == OffsetShared;
  assign own      = used_q[bell_srq] && page_q[bell_srq] == addr_i[17:12];

  // ---- The one that is looked at ------------------------------------------------------------------
  srq_cfg_t looked;
  logic [15:0] at_posted_q, at_taken_q, left_q;
  logic [PlaceW-1:0] at_place_q, offset;
  logic              at_used_q;
  logic [Settle-1:0] settle_q;

  ram_1r1w #(
    .data_t(srq_cfg_t),
    .Depth (Srqs)
  ) u_settings (
    .clk_i,
    .we_i   (cfg_write_i),
    .waddr_i(cfg_srq_i),
    .wdata_i(cfg_i),
    .re_i   (1'b1),
    .raddr_i(look_i),
    .rdata_o(looked)
  );
  assign offset = at_place_q & PlaceW'((17'd1 << looked.log2) - 17'd1);
  assign few    = settle_q[Settle-1] && armed_q[look_i] && left_q < looked.limit;

  always_ff @(posedge clk_i) begin
    at_posted_q  <= posted_q[look_i];
    at_taken_q   <= taken_q[look_i];
    at_place_q   <= place_q[look_i];
    at_used_q    <= used_q[look_i];
    left_q       <= at_posted_q - at_taken_q;
    srq_o.empty  <= at_posted_q == at_taken_q || !at_used_q;
    srq_o.listed <= looked.listed;
    srq_o.pd     <= looked.pd;
    srq_o.place  <= offset;
    srq_o.addr   <= looked.base + (64'({offset, 5'd0}) << looked.listed);
  end

  // ---- Entries --------------------------------------------------------------------------------------
  logic [SrqW-1:0] take_at, post_at;
  assign take_at = cfg_write_i ? cfg_srq_i : look_i;
  assign post_at = cfg_write_i ? cfg_srq_i : bell_srq;

  always_ff @(posedge clk_i) begin
    if (take_i || (cfg_write_i && begin_i)) begin
      taken_q[take_at] <= cfg_write_i ? '0 : taken_q[look_i] + 16'd1;
      place_q[take_at] <= cfg_write_i ? '0 : link_i;
    end
    if ((bell && own) || (cfg_write_i && begin_i))
      posted_q[post_at] <= cfg_write_i ? '0 : wdata_i[15:0];
    if (cfg_write_i) page_q[cfg_srq_i] <= cfg_i.page;
    event_o        <= few;
    cnt_doorbell_o <= bell && own;
    cnt_refused_o  <= bell && !own;
    settle_q       <= {settle_q[Settle-2:0], take_i};
    if (few) begin
      armed_q[look_i] <= 1'b0;
      below_o[look_i] <= 1'b1;
    end
    if (cfg_write_i) begin
      used_q[cfg_srq_i]  <= cfg_i.used;
      armed_q[cfg_srq_i] <= cfg_i.limit != '0;
      below_o[cfg_srq_i] <= 1'b0;
    end
    if (rst_i) begin
      used_q         <= '0;
      armed_q        <= '0;
      below_o        <= '0;
      settle_q       <= '0;
      event_o        <= 1'b0;
      cnt_doorbell_o <= 1'b0;
      cnt_refused_o  <= 1'b0;
    end
  end
  logic unused;
  assign unused = ^{addr_i[2:0], wdata_i, looked};
endmodule
