// SPDX-License-Identifier: Apache-2.0
// Answers "are all my stores up to here delivered?": a mark counts down the frames of its session
// that were sent before it and are not acknowledged, and becomes an event.
//
// Latency   : 1 cycle from the last acked_i to event_valid_o.
// Clock     : clk_i (network).
// Handshake : insert_i only with room_o. event_o holds until event_ready_i; marks of one session
//             answer in their order.
// Drops     : never.
// Source    : ours.
module flush_marks
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Marks that wait.
  parameter int unsigned Depth = 8
) (
  input  logic          clk_i,
  input  logic          rst_i,
  output logic          room_o,
  input  logic          insert_i,
  /// The session cannot answer.
  input  logic          insert_failed_i,
  input  logic   [15:0] insert_session_i,
  input  logic   [15:0] insert_cookie_i,
  /// Frames that must be acknowledged first.
  input  logic   [ 7:0] insert_left_i,
  /// A frame of session_i is acknowledged.
  input  logic          acked_i,
  /// session_i will acknowledge nothing any more.
  input  logic          failed_i,
  input  logic   [15:0] session_i,
  output logic          event_valid_o,
  output event_t        event_o,
  input  logic          event_ready_i,
  output logic          busy_o
);
  typedef struct packed {
    logic        valid;
    logic        failed;
    logic [15:0] session;
    logic [15:0] cookie;
    logic [7:0]  left;
  } mark_t;

  // The oldest first; no gaps.
  mark_t [Depth-1:0] mark_q, mark_d;
  logic [Depth-1:0] done, lowest, kept;
  mark_t answer;
  logic  pop;

  always_comb begin
    for (int unsigned i = 0; i < Depth; i++) begin
      done[i] = mark_q[i].valid && (mark_q[i].failed || mark_q[i].left == '0);
    end
    lowest = done & (~done + 1'b1);
    kept   = lowest - 1'b1;  // the marks in front of the one that answers
    answer = '0;
    for (int unsigned i = 0; i < Depth; i++) if (lowest[i]) answer |= mark_q[i];
  end

  assign room_o        = !mark_q[Depth-1].valid;
  assign busy_o        = mark_q[0].valid;
  assign event_valid_o = |done;
  assign pop           = event_valid_o && event_ready_i;
  always_comb begin
    event_o        = '0;
    event_o.code   = answer.failed ? EVENT_FLUSH_FAILED : EVENT_FLUSHED;
    event_o.number = answer.cookie;
    event_o.who    = answer.session;
  end

  always_comb begin
    mark_d = mark_q;
    for (int unsigned i = 0; i < Depth; i++) begin
      if (mark_q[i].session == session_i) begin
        if (acked_i && mark_q[i].left != '0) mark_d[i].left = mark_q[i].left - 1'b1;
        if (failed_i && mark_q[i].left != '0) mark_d[i].failed = 1'b1;
      end
    end
    if (pop) begin
      for (int unsigned i = 0; i < Depth; i++) begin
        if (!kept[i]) mark_d[i] = i + 1 < Depth ? mark_d[i+1] : '0;
      end
    end
    if (insert_i) begin
      for (int unsigned i = 0; i < Depth; i++) begin
        if (!mark_d[i].valid && (i == 0 || mark_d[i-1].valid)) begin
          mark_d[i] = '{
              valid: 1'b1,
              failed: insert_failed_i,
              session: insert_session_i,
              cookie: insert_cookie_i,
              left: insert_left_i
          };
          break;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) mark_q <= '0;
    else if (busy_o || insert_i) mark_q <= mark_d;
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) insert_i |-> room_o)
  else $error("flush_marks: no room for a mark");
`endif
endmodule
