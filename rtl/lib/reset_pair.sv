// SPDX-License-Identifier: Apache-2.0
// Resets both sides of a design with two clocks whenever one of them is reset. Crossings between them want resets that
// overlap: a pointer that begins anew on one side only replays what was read before.
//
// Side a can be shut off from the world, and is while this lasts: first it comes to rest, then side b is reset, then side a
// as well; what a makes of b's pointers in between reaches nobody. b, which cannot be shut off, never sees a's change.
//
// Latency   : a_stop_o 1 edge after a_rst_i, or SyncStages + 1 edges after b has taken b_rst_i; the resets when a is at rest
//             and the other side has answered. They last for as long as a_rst_i and b_rst_i.
// Clock     : a_clk_i and b_clk_i, unrelated. With one of them stopped a reset does not end.
// Handshake : between a_stop_o and its end a takes and gives nothing; a_rest_i: it has nothing half given or half taken. A
//             reset of a itself does not wait for that.
// Drops     : never; resets that come during one are part of it, or followed by another.
// Source    : ours; four-phase handshake.
module reset_pair #(
  /// Flip-flops in series.
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
  // Edges that both sides are in reset, so that what crosses is seen to be.
  localparam int unsigned HoldEdges = 8;
  localparam int unsigned HoldW = $clog2(HoldEdges);

  typedef enum logic [2:0] {
    StRun,
    StStop,
    StAsk,
    StHold,
    StRelease
  } state_e;

  // ---- Side a, which sees to the order -----------------------------------------------------------
  state_e state_q, state_d;
  logic again_q, wanted, answered;
  logic ask_q, a_rst_q, stop_q;
  logic [HoldW-1:0] held_q;

  // ---- Side b ------------------------------------------------------------------------------------
  logic want_q, asked, answer_q, b_rst_q, b_reset_q;

  // A board comes up as if a reset had been asked for.
  initial begin
    state_q   = StAsk;
    again_q   = 1'b0;
    ask_q     = 1'b1;
    a_rst_q   = 1'b1;
    stop_q    = 1'b1;
    held_q    = '0;
    want_q    = 1'b0;
    answer_q  = 1'b0;
    b_rst_q   = 1'b1;
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
    .Stages(SyncStages)
  ) u_sync_ask (
    .clk_i(b_clk_i),
    .d_i  (ask_q),
    .q_o  (asked)
  );

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StRun:   if (a_rst_i || again_q || wanted) state_d = StStop;
      StStop:  if (a_rest_i || a_rst_i || again_q) state_d = StAsk;
      StAsk:   if (answered) state_d = StHold;
      StHold:  if (&held_q && !a_rst_i && !wanted) state_d = StRelease;
      default: if (!answered) state_d = StRun;
    endcase
  end

  always_ff @(posedge a_clk_i) begin
    state_q <= state_d;
    again_q <= state_d != StHold && (again_q || a_rst_i);
    ask_q   <= state_d inside {StAsk, StHold};
    stop_q  <= state_d != StRun || again_q || a_rst_i;
    // When a board comes up it stays as it is until the other side is in reset.
    a_rst_q <= state_d == StHold || (a_rst_q && state_d == StAsk);
    if (state_q != StHold) held_q <= '0;
    else if (!(&held_q)) held_q <= held_q + 1'b1;
  end

  always_ff @(posedge b_clk_i) begin
    want_q    <= b_rst_i || (want_q && !b_reset_q);
    b_reset_q <= asked && b_rst_q;
    answer_q  <= asked && b_reset_q;
    b_rst_q   <= asked || (b_rst_q && !b_reset_q);
  end

  assign a_rst_o  = a_rst_q;
  assign a_stop_o = stop_q;
  assign b_rst_o  = b_rst_q;
endmodule
