// SPDX-License-Identifier: Apache-2.0
// The resets of a NIC, and a gate for each of its TLP streams. Whichever side is reset, both are.
//
// A reset of the network side comes in order: nothing new is taken from the root complex, what it asked for is answered
// and what came from the network is delivered, for PatienceEdges at most; TLPs under way end; then both sides are reset.
// So the root complex waits for nothing that is gone, and neither it nor the NIC ever sees half a TLP.
//
// What the CPU asked for may stand behind stores that cannot leave, to a peer that does not answer: give_up_o comes when
// half of the patience is over, and the NIC drops them, which the reset would do anyway. The other half is for the loads
// that are dropped with them to time out.
//
// Latency   : resets as in reset_pair; 0 cycles for TLPs, a combinational path each way. give_up_o ends behind the edge that
//             begins rst_net_o.
// Clock     : clk_pcie_i, clk_net_i; unrelated. With one of them stopped a reset does not end.
// Handshake : TLP streams valid/ready; during a reset nothing is taken or offered.
// Drops     : what the NIC holds; of a reset of the network side only what is still there after PatienceEdges.
// Source    : ours.
module ordered_reset #(
  /// Edges of clk_pcie_i that the NIC has to answer what it was asked: half of them are longer than loads are waited for
  /// by default.
  parameter int unsigned PatienceEdges = 65536
) (
  input  logic       clk_pcie_i,
  input  logic       rst_pcie_i,
  input  logic       clk_net_i,
  input  logic       rst_net_i,
  /// For the NIC, and whether its PCIe side has something left to do.
  output logic       rst_pcie_o,
  output logic       rst_net_o,
  input  logic       busy_pcie_i,
  /// Of clk_net_i: what waits for its peer does so in vain.
  output logic       give_up_o,
  /// From the root complex, and on to the NIC.
         axis_if.snk s_down,
         axis_if.src m_down,
  /// From the NIC, and on to the root complex.
         axis_if.snk s_up,
         axis_if.src m_up
);
  localparam int unsigned PatienceW = $clog2(PatienceEdges);

  logic stop, stopped_down, stopped_up, drained_q, give_up_q;
  logic [PatienceW-1:0] waited_q;
  logic                 patience_over;
  assign patience_over = waited_q == PatienceW'(PatienceEdges - 1);

  always_ff @(posedge clk_pcie_i) begin
    if (!stop || rst_pcie_i) begin
      drained_q <= 1'b0;
      waited_q  <= '0;
    end else begin
      // A TLP that is offered already may be what waits.
      if (!patience_over) waited_q <= waited_q + 1'b1;
      if (stopped_down && (!busy_pcie_i || patience_over)) drained_q <= 1'b1;
    end
  end

  // It ends after the reset has begun, and crosses as fast: the NIC never acts upon its end.
  always_ff @(posedge clk_pcie_i) begin
    give_up_q <= stop && !rst_pcie_o && (give_up_q || waited_q == PatienceW'(PatienceEdges / 2));
  end

  sync_ff u_sync_give_up (
    .clk_i(clk_net_i),
    .d_i  (give_up_q),
    .q_o  (give_up_o)
  );

  reset_pair u_pair (
    .a_clk_i (clk_pcie_i),
    .a_rst_i (rst_pcie_i),
    .a_rst_o (rst_pcie_o),
    .a_stop_o(stop),
    .a_rest_i(stopped_down && stopped_up),
    .b_clk_i (clk_net_i),
    .b_rst_i (rst_net_i),
    .b_rst_o (rst_net_o)
  );

  packet_gate u_down (
    .clk_i    (clk_pcie_i),
    .rst_i    (rst_pcie_i),
    .stop_i   (stop),
    .stopped_o(stopped_down),
    .s_axis   (s_down),
    .m_axis   (m_down)
  );

  packet_gate u_up (
    .clk_i    (clk_pcie_i),
    .rst_i    (rst_pcie_i),
    .stop_i   (stop && (drained_q || rst_pcie_o)),
    .stopped_o(stopped_up),
    .s_axis   (s_up),
    .m_axis   (m_up)
  );
endmodule
