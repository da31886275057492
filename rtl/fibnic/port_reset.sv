// SPDX-License-Identifier: Apache-2.0
// Resets of a port with two clocks: whichever side is reset, all that crosses begins anew on both.
//
// A reset of the receive side (a link lost, a PHY reset) shuts it. What it had begun to hand over is ended, as bad,
// within CloseEdges; the core's side passes on what has crossed until nothing of the port is left there; then both
// sides are cleared, and the port receives again. A reset of the core clears both at once.
//
// Latency   : down_o 1 edge after rst_rx_i; with nothing left in the core some 50 edges from there until it receives.
// Clock     : clk_rx_i, clk_i, unrelated. With one of them stopped a reset does not end.
// Handshake : down_o: no frame begins, one under way is ended; it lasts for as long as rst_rx_i, and until both sides are
//             cleared. idle_i: nothing of the port is left; open_i: a frame has begun to leave, and not ended.
// Drops     : what is in the core after PatienceEdges: pointers that do not fit, from a clock that was none.
// Source    : ours.
module port_reset #(
  /// Edges of clk_i: longer than the longest frame takes that was stored.
  parameter int unsigned PatienceEdges = 16384
) (
  input  logic clk_rx_i,
  input  logic rst_rx_i,
  output logic down_o,
  /// Clears the receive side.
  output logic rst_rx_o,
  input  logic clk_i,
  input  logic rst_i,
  /// Clears the core's side.
  output logic rst_o,
  input  logic idle_i,
  input  logic open_i,
  /// A reset is under way. Mixes both clocks: for simulators that skip idle time.
  output logic busy_o
);
  // Edges of the receive clock from down_o to the last word that it hands over, and more.
  localparam int unsigned CloseEdges = 8;
  // Edges for which nothing is left: words on their way between two FIFOs show as nothing meanwhile.
  localparam int unsigned QuietEdges = 16;
  localparam int unsigned QuietW = $clog2(QuietEdges);
  localparam int unsigned PatienceW = $clog2(PatienceEdges);

  logic [CloseEdges-1:0] late_q;
  logic down_q, ask;
  logic asked_q;  // a clearing is to come
  logic stop, rest;
  logic [   QuietW-1:0] quiet_q;
  logic [PatienceW-1:0] waited_q;

  initial begin
    late_q  = '0;
    down_q  = 1'b1;
    asked_q = 1'b0;
  end

  // One that comes while the receive side is being cleared is part of that.
  assign ask = late_q[CloseEdges-2] && !late_q[CloseEdges-1] && !rst_rx_o;

  always_ff @(posedge clk_rx_i) begin
    late_q  <= {late_q[CloseEdges-2:0], rst_rx_i};
    asked_q <= (ask || asked_q) && !rst_rx_o;
    down_q  <= rst_rx_i || |late_q || asked_q || rst_rx_o;
  end

  always_ff @(posedge clk_i) begin
    if (!stop || rst_i) begin
      quiet_q  <= '0;
      waited_q <= '0;
    end else begin
      if (!idle_i) quiet_q <= '0;
      else if (!(&quiet_q)) quiet_q <= quiet_q + 1'b1;
      if (!(&waited_q)) waited_q <= waited_q + 1'b1;
    end
  end

  assign rest = &quiet_q || (&waited_q && !open_i);

  reset_pair u_pair (
    .a_clk_i (clk_i),
    .a_rst_i (rst_i),
    .a_rst_o (rst_o),
    .a_stop_o(stop),
    .a_rest_i(rest),
    .b_clk_i (clk_rx_i),
    .b_rst_i (ask),
    .b_rst_o (rst_rx_o)
  );

  assign down_o = down_q;
  assign busy_o = down_q || stop;
endmodule
