// SPDX-License-Identifier: Apache-2.0
// Carries single-cycle pulses from one clock to another.
//
// Latency : the pulse comes out right after the second dst_clk_i edge that follows the source edge
//           (SyncStages edges in general), and lasts one cycle.
// Clock   : src_clk_i (src_rst_i), dst_clk_i (dst_rst_i); both resets must overlap.
// Drops   : pulses closer together than one dst_clk_i period are lost: keep them apart, or use a
//           FIFO.
// Source  : common practice, toggle and edge detector.
module pulse_cdc #(
  /// Flip-flops in series.
  parameter int unsigned SyncStages = 2
) (
  input  logic src_clk_i,
  input  logic src_rst_i,
  input  logic src_pulse_i,
  input  logic dst_clk_i,
  input  logic dst_rst_i,
  output logic dst_pulse_o
);
  logic toggle_q, toggle_sync, last_q;

  always_ff @(posedge src_clk_i) begin
    if (src_rst_i) toggle_q <= 1'b0;
    else if (src_pulse_i) toggle_q <= !toggle_q;
  end

  sync_ff #(
    .Stages(SyncStages)
  ) u_sync (
    .clk_i(dst_clk_i),
    .d_i  (toggle_q),
    .q_o  (toggle_sync)
  );

  always_ff @(posedge dst_clk_i) begin
    if (dst_rst_i) last_q <= 1'b0;
    else last_q <= toggle_sync;
  end

  assign dst_pulse_o = toggle_sync != last_q;
endmodule
