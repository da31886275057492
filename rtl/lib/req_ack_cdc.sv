// SPDX-License-Identifier: Apache-2.0
// Carries one word at a time from one clock to another, with an acknowledgement; for registers, not
// for data.
//
// Latency   : taken at a source edge, offered right after the second dst_clk_i edge that follows;
//             the source is ready again two source edges after the destination took it.
// Clock     : src_clk_i (src_rst_i), dst_clk_i (dst_rst_i); both resets must overlap.
// Handshake : valid/ready on both sides.
// Drops     : never.
// Source    : common practice, two-phase handshake.
module req_ack_cdc #(
  /// Type of a word.
  parameter type data_t = logic [31:0],
  /// Flip-flops in series.
  parameter int unsigned SyncStages = 2
) (
  input  logic  src_clk_i,
  input  logic  src_rst_i,
  input  data_t src_data_i,
  input  logic  src_valid_i,
  output logic  src_ready_o,
  input  logic  dst_clk_i,
  input  logic  dst_rst_i,
  output data_t dst_data_o,
  output logic  dst_valid_o,
  input  logic  dst_ready_i
);
  data_t data_q;
  logic req_q, req_sync, ack_q, ack_sync;

  assign src_ready_o = req_q == ack_sync;

  always_ff @(posedge src_clk_i) begin
    if (src_valid_i && src_ready_o) data_q <= src_data_i;
    if (src_rst_i) req_q <= 1'b0;
    else if (src_valid_i && src_ready_o) req_q <= !req_q;
  end

  sync_ff #(
    .Stages(SyncStages)
  ) u_sync_req (
    .clk_i(dst_clk_i),
    .d_i  (req_q),
    .q_o  (req_sync)
  );

  sync_ff #(
    .Stages(SyncStages)
  ) u_sync_ack (
    .clk_i(src_clk_i),
    .d_i  (ack_q),
    .q_o  (ack_sync)
  );

  assign dst_valid_o = req_sync != ack_q;
  assign dst_data_o  = data_q;

  always_ff @(posedge dst_clk_i) begin
    if (dst_rst_i) ack_q <= 1'b0;
    else if (dst_valid_o && dst_ready_i) ack_q <= req_sync;
  end
endmodule
