// SPDX-License-Identifier: Apache-2.0
// The resets of one function of a shell: those of the shell, and function-level ones, by which the other function loses
// nothing.
//
// A function-level reset comes in order: the function gets no requests any more, but the completions of its reads; it
// answers what it was asked and delivers what came from the network, for PatienceEdges at most; its last TLP ends; then both of
// its sides are reset. What the root complex sends to it meanwhile is dropped (tlp_discard), since the other function's
// TLPs stand behind it. The shell's own resets act at once, on everything.
//
// Latency   : 0 cycles for TLPs. done_o some 20 edges of both clocks behind flr_i where the function has nothing to do, and
//             PatienceEdges more at most.
// Clock     : clk_pcie_i, clk_net_i; unrelated. With one of them stopped a reset does not end.
// Handshake : flr_i is up from the host's write to the end of the reset; done_o is one pulse, behind which it falls. The next
//             reset begins when it has been down.
// Drops     : what the function still holds, and what is sent to it meanwhile.
// Source    : PCI Express Base 2.0, 6.6.2 (function-level reset).
module function_reset #(
  /// Edges of clk_pcie_i that the function has to answer what it was asked; see ordered_reset.
  parameter int unsigned PatienceEdges = 65536
) (
  input  logic       clk_pcie_i,
  /// Of the shell.
  input  logic       rst_pcie_i,
  input  logic       clk_net_i,
  input  logic       rst_net_i,
  /// Of clk_pcie_i.
  input  logic       flr_i,
  output logic       done_o,
  /// For the function, and whether its PCIe side has something left to do.
  output logic       rst_pcie_o,
  output logic       rst_net_o,
  input  logic       busy_pcie_i,
  /// Of clk_net_i: what waits for its peer does so in vain.
  output logic       give_up_o,
  /// From the root complex, and on to the function; its first beat is a completion's.
  input  logic       s_down_completion_i,
         axis_if.snk s_down,
         axis_if.src m_down,
  /// From the function, and on to the root complex.
         axis_if.snk s_up,
         axis_if.src m_up,
  /// A reset is under way.
  output logic       busy_pcie_o,
  output logic       busy_net_o
);
  localparam int unsigned PatienceW = $clog2(PatienceEdges);

  typedef enum logic [2:0] {
    StRun,
    StDrain,  // requests are dropped; what the function holds goes where it should
    StStop,   // the last TLP of each direction ends
    StReset,
    StDone    // the block has been told
  } state_e;

  state_e                 state_q;
  logic   [PatienceW-1:0] waited_q;
  logic reset_q, done_q, give_up_q, stopped_down, stopped_up, own_rst_pcie, own_rst_net;
  logic patience_over;
  assign patience_over = waited_q == PatienceW'(PatienceEdges - 1);

  always_ff @(posedge clk_pcie_i) begin
    done_q  <= 1'b0;
    reset_q <= 1'b0;
    if (state_q != StDrain) waited_q <= '0;
    else if (!patience_over) waited_q <= waited_q + 1'b1;
    // It ends after the reset has begun, and crosses as fast: the function never acts upon its end.
    give_up_q <= (give_up_q || waited_q == PatienceW'(PatienceEdges / 2)) && !own_rst_pcie;
    if (rst_pcie_i) begin
      state_q   <= StRun;
      give_up_q <= 1'b0;
    end else begin
      unique case (state_q)
        StRun:   if (flr_i && !own_rst_pcie) state_q <= StDrain;
        // A TLP that is offered already may be what waits.
        StDrain: if ((stopped_down && !busy_pcie_i) || patience_over) state_q <= StStop;
        StStop: begin
          if (stopped_down && stopped_up) begin
            state_q <= StReset;
            reset_q <= 1'b1;
          end
        end
        StReset: begin
          if (!reset_q && !own_rst_pcie) begin
            state_q <= StDone;
            done_q  <= 1'b1;
          end
        end
        default: if (!flr_i) state_q <= StRun;
      endcase
    end
  end

  tlp_discard u_down (
    .clk_i       (clk_pcie_i),
    .rst_i       (rst_pcie_i),
    .requests_i  (state_q == StDrain),
    .all_i       (state_q inside {StStop, StReset}),
    .completion_i(s_down_completion_i),
    .stopped_o   (stopped_down),
    .s_axis      (s_down),
    .m_axis      (m_down)
  );

  packet_gate u_up (
    .clk_i    (clk_pcie_i),
    .rst_i    (rst_pcie_i),
    .stop_i   (state_q inside {StStop, StReset}),
    .stopped_o(stopped_up),
    .s_axis   (s_up),
    .m_axis   (m_up)
  );

  sync_ff u_give_up (
    .clk_i(clk_net_i),
    .d_i  (give_up_q),
    .q_o  (give_up_o)
  );

  reset_pair u_pair (
    .a_clk_i (clk_pcie_i),
    .a_rst_i (rst_pcie_i || reset_q),
    .a_rst_o (own_rst_pcie),
    .a_stop_o(),
    .a_rest_i(1'b1),
    .b_clk_i (clk_net_i),
    .b_rst_i (rst_net_i),
    .b_rst_o (own_rst_net)
  );

  // The shell's resets begin here in the cycle in which they begin for what the functions share.
  assign rst_pcie_o  = rst_pcie_i || own_rst_pcie;
  assign rst_net_o   = rst_net_i || own_rst_net;
  assign done_o      = done_q;
  assign busy_pcie_o = !(state_q inside {StRun, StDone}) || done_q || rst_pcie_o;
  assign busy_net_o  = rst_net_o;
endmodule
