// SPDX-License-Identifier: Apache-2.0
// Resets both sides of a design with two clocks whenever one of them is reset. Crossings between them want resets that
// overlap: a pointer that begins anew on one side only replays what was read before.
//
// A reset of b waits until a is at rest: a has nothing half given or half taken then. Neither side ever acts upon what the
// other's reset did to its pointers: a is reset first, and what leaves it with that reset leaves an edge after the word that
// resets b, through as many flip-flops, of which the word's last one is b's reset.
//
// Latency   : a_rst_o 1 edge after a_rst_i; a_stop_o SyncStages + 1 edges after b has taken b_rst_i, and a_rst_o 1 edge after
//             a_rest_i. b_rst_o SyncStages of b's edges after a_rst_o. Both last for as long as a_rst_i and b_rst_i.
// Clock     : a_clk_i and b_clk_i, unrelated. With one of them stopped a reset does not end.
// Handshake : a_stop_o: a begins nothing new; a_rest_i: it is at rest. A reset of a itself does not wait for that.
// Drops     : never; resets that come during one are part of it, or followed by another.
// Source    : ours; four-phase handshake.
module reset_pair #(
  /// Flip-flops in series; a crossing between the two sides has as many or more.
  parameter int unsigned SyncStages = 2
) (
  input  logic a_clk_i,
  input  logic a_rst_i,
  output logic a_rst_o,
  output logic a_stop_o,
  input  logic a_rest_i,
  input  logic b_clk_i,
  input  logic b_rst_i,
  output logic b_rst_o
);
  // Edges of a for which both sides are in reset at least.
  localparam int unsigned HoldEdges = 8;
  localparam int unsigned HoldW = $clog2(HoldEdges);

  typedef enum logic [1:0] {
    StRun,
    StStop,
    StHold,
    StRelease
  } state_e;

  // ---- Side a, which sees to the order -----------------------------------------------------------
  state_e state_q, state_d;
  logic again_q, again_d, wanted, answered;
  logic ask_q, a_rst_q, stop_q;
  logic [HoldW-1:0] held_q;

  // ---- Side b ------------------------------------------------------------------------------------
  logic want_q, asked, answer_q, b_reset_q;

  // A board comes up as if a reset had been asked for.
  initial begin
    state_q   = StHold;
    again_q   = 1'b0;
    ask_q     = 1'b1;
    a_rst_q   = 1'b1;
    stop_q    = 1'b1;
    held_q    = '0;
    want_q    = 1'b0;
    answer_q  = 1'b0;
    b_reset_q = 1'b0;
  end

  sync_ff #(
    .Stages(SyncStages)
  ) u_sync_want (
    .clk_i(a_clk_i),
    .d_i  (want_q),
    .q_o  (wanted)
  );

  sync_ff #(
    .Stages(SyncStages)
  ) u_sync_answer (
    .clk_i(a_clk_i),
    .d_i  (answer_q),
    .q_o  (answered)
  );

  sync_ff #(
    .Stages  (SyncStages),
    .UpAsOnes(1'b1)
  ) u_sync_ask (
    .clk_i(b_clk_i),
    .d_i  (ask_q),
    .q_o  (asked)
  );

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StRun: begin
        if (a_rst_i || again_q) state_d = StHold;
        else if (wanted) state_d = StStop;
      end
      StStop:  if (a_rest_i || a_rst_i) state_d = StHold;
      StHold:  if (&held_q && !a_rst_i && !wanted) state_d = StRelease;
      default: if (!answered) state_d = again_q ? StHold : StRun;
    endcase
    again_d = state_d != StHold && (again_q || a_rst_i);
  end

  always_ff @(posedge a_clk_i) begin
    state_q <= state_d;
    again_q <= again_d;
    ask_q   <= state_d == StHold;
    a_rst_q <= state_d == StHold;
    stop_q  <= state_d != StRun || again_d;
    if (state_q != StHold || !answered) held_q <= '0;
    else if (!(&held_q)) held_q <= held_q + 1'b1;
  end

  always_ff @(posedge b_clk_i) begin
    want_q    <= b_rst_i || (want_q && !b_reset_q);
    b_reset_q <= asked;
    answer_q  <= asked && b_reset_q;
  end

  assign a_rst_o  = a_rst_q;
  assign a_stop_o = stop_q;
  assign b_rst_o  = asked;
endmodule
