// SPDX-License-Identifier: Apache-2.0
// Sequence numbers of the receiver: per session the number of the frame that comes next, where a received
// frame stands to it, and the acknowledgements that go back.
//
// A frame carries 16 bits of its 32-bit number. The receiver takes the number nearest to the expected one,
// and folds its upper half into the end code, so that a frame of 65,536 ago does not pass for the next.
// A session begins at a number that its peers have agreed upon: who has not seen its frames has to guess 32 bits.
//
// Latency : 1 cycle from judge_i to order_o and fold_o, which stay to the next; a frame taken counts from the
//           cycle after taken_i.
// Clock   : clk_i (network).
// Source  : dissertation section 4.3.2; docs/wire-format.md.
module rx_sequence
  import ipnuma_pkg::*;
  import rx_pkg::*;
#(
  /// Sessions; a power of two, 256 at most.
  parameter int unsigned Sessions = 64,
  localparam int unsigned IndexW = $clog2(Sessions)
) (
  input logic clk_i,
  input logic rst_i,

  /// Time until an acknowledgement goes alone, in ticks; frames until it does.
  input logic [7:0] ack_ticks_i,
  input logic [7:0] ack_every_i,

  /// A session begins anew, with this number.
  input logic        reset_i,
  input logic [ 7:0] reset_index_i,
  input logic [31:0] reset_start_i,

  /// A frame's number.
  input  logic            judge_i,
  input  logic     [ 7:0] judge_session_i,
  input  logic     [15:0] judge_number_i,
  output order_e          order_o,
  output logic     [15:0] fold_o,
  /// The frame that is expected was refused before, see refusal_table.
  output logic            held_o,
  output refusal_t        refusal_o,

  /// From the verdict on the frame judged last.
  input logic     [ 7:0] session_i,
  input logic            taken_i,
  input logic            refuse_i,
  input refusal_t        refuse_as_i,
  input logic            again_i,
  input logic            gap_i,
  input logic     [15:0] number_i,

  /// Acknowledgement for a data frame of this session: one waits, it should go soon, its number; it went
  /// (pulse in the cycle in which the number was read).
  input  logic [ 7:0] ack_session_i,
  output logic        ack_pending_o,
  output logic        ack_urgent_o,
  output logic [31:0] ack_value_o,
  input  logic        ack_taken_i,

  /// Control frames, see ack_source; what they ask the peers for, see rx_share.
  input  logic      [11:0] interval_i,
  output logic             ctl_valid_o,
  output tx_frame_t        ctl_frame_o,
  input  logic             ctl_lock_i,
  input  logic             ctl_pop_i,
  output logic             dst_read_o,
  output logic      [ 7:0] dst_session_o,
  input  logic             dst_done_i,
  input  logic      [47:0] dst_mac_i,
  input  logic      [31:0] dst_ip_i,

  /// For the registers.
  input  logic [ 7:0] status_index_i,
  output logic [31:0] status_expected_o,
  output logic        busy_o
);
  logic [31:0] number_q[Sessions];  // next expected, of sessions that have begun
  logic [IndexW-1:0] judged, session, ctl_session, riding, status;

  assign judged  = judge_session_i[IndexW-1:0];
  assign session = session_i[IndexW-1:0];
  assign riding  = ack_session_i[IndexW-1:0];
  assign status  = status_index_i[IndexW-1:0];

  // ---- Judgement ---------------------------------------------------------------------------------
  logic [31:0] expected, next_q;
  logic [15:0] difference, fold_q;
  order_e order_q;

  assign expected   = number_q[judged];
  assign difference = judge_number_i - expected[15:0];

  always_ff @(posedge clk_i) begin
    if (judge_i) begin
      order_q <= difference == '0 ? InOrder : difference[15] ? Old : Ahead;
      // Old with more low bits, ahead with less: the number is on the other side of a multiple of 65,536.
      fold_q  <= expected[31:16];
      if (difference[15]) begin
        if (judge_number_i > expected[15:0]) fold_q <= expected[31:16] - 1'b1;
      end else begin
        if (judge_number_i < expected[15:0]) fold_q <= expected[31:16] + 1'b1;
      end
      next_q <= expected + 1'b1;
    end
  end

  assign order_o = order_q;
  assign fold_o  = fold_q;

  refusal_table #(
    .Sessions(Sessions)
  ) u_refusals (
    .clk_i,
    .rst_i,
    .reset_i,
    .reset_index_i  (reset_index_i[IndexW-1:0]),
    .judge_i,
    .judge_session_i(judged),
    .held_o,
    .refusal_o,
    .refuse_i,
    .refuse_as_i,
    .taken_i,
    .session_i      (session)
  );

  // ---- Next expected -----------------------------------------------------------------------------
  // One write a cycle, so a beginning waits for a frame that counts just then; the next one comes later. A frame that is
  // looked up in the session as it is now is judged later, too.
  logic              begin_q;
  logic [IndexW-1:0] begin_index_q;
  logic [      31:0] begin_start_q;

  always_ff @(posedge clk_i) begin
    if (taken_i) number_q[session] <= next_q;
    else if (begin_q) number_q[begin_index_q] <= begin_start_q;
  end

  always_ff @(posedge clk_i) begin
    if (reset_i) begin
      begin_index_q <= reset_index_i[IndexW-1:0];
      begin_start_q <= reset_start_i;
    end
    if (rst_i) begin_q <= 1'b0;
    else if (reset_i) begin_q <= 1'b1;
    else if (!taken_i) begin_q <= 1'b0;
  end

  assign ack_value_o       = number_q[riding];
  assign status_expected_o = number_q[status];

  // ---- Acknowledgements --------------------------------------------------------------------------
  logic [Sessions-1:0] want, nack;
  logic [31:0] ctl_expected;
  logic sent, ledger_busy, source_busy;

  ack_ledger #(
    .Sessions(Sessions)
  ) u_ledger (
    .clk_i,
    .rst_i,
    .ack_ticks_i,
    .ack_every_i,
    .reset_i,
    .reset_index_i (reset_index_i[IndexW-1:0]),
    .session_i     (session),
    .taken_i,
    .again_i,
    .gap_i,
    .number_i,
    .ride_session_i(riding),
    .ride_pending_o(ack_pending_o),
    .ride_urgent_o (ack_urgent_o),
    .ride_taken_i  (ack_taken_i),
    .sent_session_i(ctl_session),
    .sent_i        (sent),
    .want_o        (want),
    .nack_o        (nack),
    .busy_o        (ledger_busy)
  );

  assign ctl_expected = number_q[ctl_session];

  ack_source #(
    .Sessions(Sessions)
  ) u_source (
    .clk_i,
    .rst_i,
    .want_i       (want),
    .nack_i       (nack),
    .reset_i,
    .reset_index_i(reset_index_i[IndexW-1:0]),
    .session_o    (ctl_session),
    .expected_i   (ctl_expected),
    .interval_i,
    .sent_o       (sent),
    .dst_read_o,
    .dst_done_i,
    .dst_mac_i,
    .dst_ip_i,
    .valid_o      (ctl_valid_o),
    .frame_o      (ctl_frame_o),
    .lock_i       (ctl_lock_i),
    .pop_i        (ctl_pop_i),
    .busy_o       (source_busy)
  );

  assign dst_session_o = 8'(ctl_session);
  assign busy_o        = ledger_busy || source_busy;

  // More sessions than there are have been sorted out before.
  logic unused;
  assign unused = ^{judge_session_i, session_i, ack_session_i, status_index_i, reset_index_i};

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_settled :
      assert (!judge_i || !taken_i)
      else $error("a number was judged before the last one counted");
      a_taken :
      assert (!taken_i || order_q == InOrder)
      else $error("a frame was taken that is not the next");
      a_begun :
      assert (!begin_q || !(reset_i && taken_i))
      else $error("a session begins before another one has");
    end
  end
`endif
endmodule
