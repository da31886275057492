// SPDX-License-Identifier: Apache-2.0
// Doorbells: a page of 4 KB for each process, in which it can reach its own QPs only.
//
//   0x000  send queue:       {inline[63], 0, QP[37:32], 0, index[15:0]}; index is behind the last entry
//   0x008  receive queue:    the same without inline
//   0x010  completion queue: {arm[63], 0, CQ[37:32], known[31:16], index[15:0]}: read up to here; armed for
//          what comes behind those that are known
//   0x800  128 bytes: a copy of the send queue's last entry with its data, for an inline doorbell
//
// Latency   : a doorbell to ring_o 1 edge.
// Clock     : clk_i.
// Handshake : none; every write is taken. read_* is the requester's: a word 1 edge after its number.
// Drops     : doorbells for a QP of another page; counted.
// Source    : UZURA document, section 5 (start register mapped into the process).
module uzura_doorbell
  import uzura_qp_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           write_i,
  input  logic [   17:0] addr_i,
  input  logic [   63:0] wdata_i,
  /// Which page a QP belongs to; its indices begin at 0 with init_i.
  input  logic           cfg_write_i,
  input  logic           init_i,
  input  logic [QpW-1:0] cfg_qp_i,
  input  logic [    5:0] cfg_page_i,
  input  logic           cfg_used_i,
  output logic           ring_o,
  output logic [QpW-1:0] ring_qp_o,
  output logic           seen_o,
  output logic [CqW-1:0] seen_cq_o,
  output logic [   15:0] seen_index_o,
  output logic [   15:0] seen_known_o,
  output logic           seen_arm_o,
  input  logic [QpW-1:0] tx_qp_i,
  output logic [   15:0] tx_sq_index_o,
  output logic [   15:0] tx_rq_index_o,
  input  logic [QpW-1:0] rx_qp_i,
  output logic [   15:0] rx_rq_index_o,
  /// Is the entry tx_index_i of tx_qp_i here? It may be overwritten at any time.
  input  logic [   15:0] tx_index_i,
  output logic           here_o,
  input  logic [    3:0] read_word_i,
  output logic [   63:0] read_data_o,
  output logic           cnt_doorbell_o,
  output logic           cnt_refused_o
);
  localparam int unsigned Pages = 64;
  localparam logic [8:0] OffsetSend = 9'h000;
  localparam logic [8:0] OffsetReceive = 9'h001;
  localparam logic [8:0] OffsetCompletion = 9'h002;

  logic [15:0] sq_q[Qps], rq_q[Qps];
  logic [    5:0] page_q [Qps];
  logic [Qps-1:0] used_q;
  logic [    5:0] page;
  logic [    8:0] word;
  logic [QpW-1:0] qp;
  logic own, bell, copy;

  assign page = addr_i[17:12];
  assign word = addr_i[11:3];
  assign qp   = wdata_i[32+:QpW];
  assign own  = used_q[qp] && page_q[qp] == page;
  assign bell = write_i && word inside {OffsetSend, OffsetReceive};
  assign copy = write_i && word[8:4] == 5'h10;

  // ---- The copies -------------------------------------------------------------------------------
  logic [Pages-1:0] here_q;
  logic [  QpW-1:0] here_qp_q   [Pages];
  logic [     15:0] here_index_q[Pages];
  logic [      5:0] tx_page;
  assign tx_page = page_q[tx_qp_i];
  assign here_o  = here_q[tx_page] && here_qp_q[tx_page] == tx_qp_i &&
      here_index_q[tx_page] == tx_index_i;

  ram_1r1w #(
    .data_t(logic [63:0]),
    .Depth (16 * Pages)
  ) u_copies (
    .clk_i,
    .we_i   (copy),
    .waddr_i({page, word[3:0]}),
    .wdata_i(wdata_i),
    .re_i   (1'b1),
    .raddr_i({tx_page, read_word_i}),
    .rdata_o(read_data_o)
  );

  always_ff @(posedge clk_i) begin
    if (bell && own && word == OffsetSend && wdata_i[63]) begin
      here_qp_q[page]    <= qp;
      here_index_q[page] <= wdata_i[15:0] - 16'd1;
    end
    if (rst_i) begin
      here_q <= '0;
    end else begin
      if (bell && own && word == OffsetSend && wdata_i[63]) here_q[page] <= 1'b1;
      if (copy) here_q[page] <= 1'b0;
      // Indices begin anew, and an old copy must not be taken for a new one.
      if (init_i) here_q[cfg_page_i] <= 1'b0;
    end
  end

  // ---- Indices ----------------------------------------------------------------------------------
  logic [QpW-1:0] index_at;
  logic [   15:0] index_to;
  assign index_at      = init_i ? cfg_qp_i : qp;
  assign index_to      = init_i ? '0 : wdata_i[15:0];
  assign tx_sq_index_o = sq_q[tx_qp_i];
  assign tx_rq_index_o = rq_q[tx_qp_i];
  assign rx_rq_index_o = rq_q[rx_qp_i];

  always_ff @(posedge clk_i) begin
    if (init_i || (bell && own && word == OffsetSend)) sq_q[index_at] <= index_to;
    if (init_i || (bell && own && word == OffsetReceive)) rq_q[index_at] <= index_to;
    if (cfg_write_i) page_q[cfg_qp_i] <= cfg_page_i;
    ring_qp_o    <= qp;
    seen_cq_o    <= wdata_i[32+:CqW];
    seen_index_o <= wdata_i[15:0];
    seen_known_o <= wdata_i[31:16];
    seen_arm_o   <= wdata_i[63];
    if (rst_i) begin
      used_q         <= '0;
      ring_o         <= 1'b0;
      seen_o         <= 1'b0;
      cnt_doorbell_o <= 1'b0;
      cnt_refused_o  <= 1'b0;
    end else begin
      if (cfg_write_i) used_q[cfg_qp_i] <= cfg_used_i;
      ring_o         <= bell && own;
      seen_o         <= write_i && word == OffsetCompletion;
      cnt_doorbell_o <= bell && own;
      cnt_refused_o  <= bell && !own;
    end
  end
  logic unused;
  assign unused = ^{addr_i[2:0], wdata_i};
endmodule
