// SPDX-License-Identifier: Apache-2.0
// Sending side of a port in the core: round robin over the FIFOs that hold frames for it.
//
// Latency   : req_i to mac_o.start: combinational, if the line is free.
// Clock     : clk_i, rst_i synchronous.
// Handshake : as forward_fifo reads; to_mac_t and from_mac_t say the MAC's side.
// Drops     : never.
// Source    : dissertation section 5.1.2.4.
module egress
  import fibnic_pkg::*;
#(
  /// FIFOs.
  parameter int unsigned N = 5
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic      [N-1:0] req_i,
  output logic      [N-1:0] start_o,
  input  logic      [N-1:0] active_i,
  input  beat_t     [N-1:0] beat_i,
  output logic      [N-1:0] next_o,
  output to_mac_t           mac_o,
  input  from_mac_t         mac_i
);
  logic [N-1:0] grant;

  arb_rr #(
    .N(N)
  ) u_arb (
    .clk_i,
    .rst_i,
    .req_i,
    .ack_i      (mac_i.ready_start),
    .lock_i     (1'b0),
    .gnt_o      (grant),
    .gnt_idx_o  (),
    .gnt_valid_o()
  );

  assign start_o = grant & {N{mac_i.ready_start}};
  assign next_o  = active_i & {N{mac_i.ready}};

  always_comb begin
    mac_o.start = |start_o;
    mac_o.valid = |active_i;
    mac_o.beat  = '0;
    for (int unsigned i = 0; i < N; i++) if (active_i[i]) mac_o.beat |= beat_i[i];
  end

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
