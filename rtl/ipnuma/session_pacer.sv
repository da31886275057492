// SPDX-License-Identifier: Apache-2.0
// Keeps sessions from sending before their pace lets them.
//
// A session is held until its frame has begun and then armed with the cycles to wait, or armed at
// once. Armed sessions are looked at one a cycle, in turn.
//
// Latency : blocked_o from the next cycle on; it goes away some 3 cycles behind its time, and as
//           many more as there are armed sessions.
// Clock   : clk_i (network); its clock stands still while no session is armed.
// Drops   : never.
// Source  : ours; sends by an interval instead of a window, since a switch without buffers loses the
//           second frame of any burst.
module session_pacer #(
  /// Sessions; a power of two.
  parameter int unsigned Sessions = 64,
  localparam int unsigned SessionW = $clog2(Sessions)
) (
  input  logic                clk_i,
  input  logic                rst_i,
  /// Block without an end.
  input  logic                hold_i,
  input  logic [SessionW-1:0] hold_session_i,
  /// Block for so many cycles. Not both in one cycle.
  input  logic                arm_i,
  input  logic [SessionW-1:0] arm_session_i,
  input  logic [        11:0] arm_cycles_i,
  /// End a block, several at once.
  input  logic [Sessions-1:0] release_i,
  output logic [Sessions-1:0] blocked_o,
  output logic                busy_o
);
  logic [Sessions-1:0] held_q, armed_q, hold, arm, expire;
  logic [13:0] now_q;
  logic [13:0] due_q [Sessions];
  logic [SessionW-1:0] look_q, look_d;
  logic look_valid_q;
  logic any;

  ring_pick #(
    .N(Sessions)
  ) u_pick (
    .set_i  (armed_q),
    .after_i(look_q),
    .any_o  (any),
    .index_o(look_d)
  );

  function automatic logic [Sessions-1:0] bit_of(logic on, logic [SessionW-1:0] index);
    return Sessions'(on) << index;
  endfunction

  assign hold      = bit_of(hold_i, hold_session_i);
  assign arm       = bit_of(arm_i, arm_session_i);
  // A session that is armed again at this edge begins anew.
  assign expire    = bit_of(look_valid_q && 14'(now_q - due_q[look_q]) < 14'h2000, look_q);
  assign blocked_o = held_q | armed_q;
  assign busy_o    = |armed_q;

  always_ff @(posedge clk_i) begin
    if (arm_i) due_q[arm_session_i] <= now_q + 14'(arm_cycles_i);
    if (any) begin
      now_q  <= now_q + 1'b1;
      look_q <= look_d;
    end
    if (rst_i) begin
      held_q       <= '0;
      armed_q      <= '0;
      look_valid_q <= 1'b0;
      now_q        <= '0;
      look_q       <= '0;
    end else if (hold_i || arm_i || any || |held_q || look_valid_q) begin
      held_q       <= (held_q & ~release_i & ~arm) | hold;
      armed_q      <= (armed_q & ~release_i & ~expire) | arm;
      look_valid_q <= any;
    end
  end
endmodule
