// SPDX-License-Identifier: Apache-2.0
// Carries register accesses to another clock, and their answers back.
//
// A far clock that stands does not hold the asker up: after Patience edges he is told no, with all ones for data, and so
// is whoever asks next until the clock is back. What had crossed by then is carried out late, and its answer is nobody's.
//
// Latency   : two synchronisers there and two back; for registers, not for data.
// Clock     : src_clk_i (src_rst_i) asks, dst_clk_i (dst_rst_i) answers; both resets must overlap.
// Handshake : register bus on both sides, one access at a time.
// Drops     : accesses that find no answer in time; the asker sees `ok` low.
// Source    : own.
module reg_cdc
  import reg_bus_pkg::*;
#(
  /// Edges of src_clk_i that an answer may take: more than any access takes with both clocks there, and less than the
  /// host's completion timeout.
  parameter int unsigned Patience = 16384
) (
  input  logic     src_clk_i,
  input  logic     src_rst_i,
  input  reg_req_t src_req_i,
  output reg_rsp_t src_rsp_o,
  input  logic     dst_clk_i,
  input  logic     dst_rst_i,
  output reg_req_t dst_req_o,
  input  reg_rsp_t dst_rsp_i,
  /// High, in the far clock, while an answer is on its way back.
  output logic     dst_busy_o
);
  localparam int unsigned WaitW = $clog2(Patience);

  logic             sent_q;
  logic             owed_q;  // an answer is to come that nobody waits for
  logic [WaitW-1:0] waited_q;
  logic given_up_q, answered;
  logic src_ready, src_take, src_offer;
  logic rsp_valid, rsp_ready;
  reg_req_t req_word;
  reg_rsp_t rsp_word;
  logic     req_valid;

  // One crossing for each access: the request stays offered until the answer is back.
  assign src_offer = src_req_i.valid && !sent_q && !owed_q && !given_up_q;
  assign src_take  = src_offer && src_ready;
  assign answered  = rsp_valid && !owed_q;

  always_ff @(posedge src_clk_i) begin
    if (src_rst_i) begin
      sent_q     <= 1'b0;
      owed_q     <= 1'b0;
      given_up_q <= 1'b0;
      waited_q   <= '0;
    end else begin
      // Told no with the edge after the last one waited for, unless the answer has come with it.
      given_up_q <= src_req_i.valid && !answered && !given_up_q && waited_q == WaitW'(Patience - 1);
      waited_q <= src_req_i.valid && !answered && !given_up_q ? waited_q + 1'b1 : '0;
      if (src_take) sent_q <= 1'b1;
      else if (rsp_valid || given_up_q) sent_q <= 1'b0;
      if (rsp_valid) owed_q <= 1'b0;
      else if (given_up_q && sent_q) owed_q <= 1'b1;
    end
  end

  always_comb begin
    src_rsp_o      = rsp_word;
    src_rsp_o.done = answered;
    if (given_up_q && !answered) src_rsp_o = '{done: 1'b1, ok: 1'b0, rdata: '1};
  end

  req_ack_cdc #(
    .data_t(reg_req_t)
  ) u_request (
    .src_clk_i,
    .src_rst_i,
    .src_data_i (src_req_i),
    .src_valid_i(src_offer),
    .src_ready_o(src_ready),
    .dst_clk_i,
    .dst_rst_i,
    .dst_data_o (req_word),
    .dst_valid_o(req_valid),
    .dst_ready_i(dst_rsp_i.done)
  );

  always_comb begin
    dst_req_o       = req_word;
    dst_req_o.valid = req_valid;
  end

  req_ack_cdc #(
    .data_t(reg_rsp_t)
  ) u_response (
    .src_clk_i  (dst_clk_i),
    .src_rst_i  (dst_rst_i),
    .src_data_i (dst_rsp_i),
    .src_valid_i(dst_rsp_i.done),
    .src_ready_o(rsp_ready),
    .dst_clk_i  (src_clk_i),
    .dst_rst_i  (src_rst_i),
    .dst_data_o (rsp_word),
    .dst_valid_o(rsp_valid),
    .dst_ready_i(1'b1)
  );

  assign dst_busy_o = req_valid || !rsp_ready;

`ifndef SYNTHESIS
  initial
    assert (Patience >= 64)
    else $fatal(1, "reg_cdc: an answer takes longer than Patience");
  always_ff @(posedge dst_clk_i) begin
    // An answer can't meet an answer: the next request comes only after the last answer arrived.
    assert (dst_rst_i || !dst_rsp_i.done || rsp_ready)
    else $error("answer while one is on its way");
  end
`endif
endmodule
