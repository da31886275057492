// SPDX-License-Identifier: Apache-2.0
// Sending side of a 10G port: round robin over the FIFOs that hold frames for it, and the MAC.
// The MAC computes the FCS anew from the bytes it sends.
//
// Latency   : req_i to start of frame in the output register: 1 edge, if the line is free.
// Clock     : clk_i.
// Handshake : as forward_fifo reads.
// Drops     : never.
// Source    : dissertation section 5.1.2.4.
module port_tx #(
  /// FIFOs.
  parameter int unsigned N = 5
) (
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  logic              [N-1:0] req_i,
  output logic              [N-1:0] start_o,
  input  logic              [N-1:0] active_i,
  input  fibnic_pkg::beat_t [N-1:0] beat_i,
  output logic              [N-1:0] next_o,
  output logic              [ 63:0] xgmii_txd_o,
  output logic              [  7:0] xgmii_txc_o,
  output eth_pkg::tx_stat_t         stat_o
);
  import fibnic_pkg::*;

  axis_if out ();

  logic  [N-1:0] grant;
  logic          ready;
  beat_t         beat;

  arb_rr #(
    .N(N)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i,
    .ack_i      (ready),
    .lock_i     (1'b0),
    .gnt_o      (grant),
    .gnt_idx_o  (),
    .gnt_valid_o()
  );

  assign start_o = grant & {N{ready}};

  always_comb begin
    beat = '0;
    for (int unsigned i = 0; i < N; i++) if (active_i[i]) beat |= beat_i[i];
  end

  assign out.tdata  = beat.data;
  assign out.tkeep  = beat.keep;
  assign out.tlast  = beat.last;
  assign out.tuser  = beat.bad;
  assign out.tvalid = |active_i;
  assign next_o     = active_i & {N{out.tready}};

  xgmii_tx u_mac (
    .clk_i,
    .rst_i,
    .start_i      (|start_o),
    .ready_start_o(ready),
    .s_axis       (out),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o,
    .busy_o       ()
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_one :
      assert ($onehot0(active_i))
      else $error("two frames at once");
    end
  end
`endif
endmodule
