// SPDX-License-Identifier: Apache-2.0
// Offers the frame builder a control frame, ACK or NACK, for one session after the other that wants one.
//
// Latency   : 3 cycles from want_i to valid_o, when nothing else is under way.
// Clock     : clk_i (network).
// Handshake : valid_o holds until pop_i once lock_i was high in a cycle with it. Until then it may go away:
//             when the acknowledgement left with another frame, or the session begins anew. What is sent
//             is what holds in the first cycle of lock_i.
// Drops     : never.
// Source    : docs/wire-format.md, control frames.
module ack_source
  import ipnuma_pkg::*;
  import wire_pkg::*;
#(
  /// Sessions; a power of two.
  parameter int unsigned Sessions = 64,
  localparam int unsigned IndexW = $clog2(Sessions)
) (
  input logic clk_i,
  input logic rst_i,

  input  logic [Sessions-1:0] want_i,
  input  logic [Sessions-1:0] nack_i,
  input  logic                reset_i,
  input  logic [  IndexW-1:0] reset_index_i,
  /// The session's next expected number, combinational from session_o.
  output logic [  IndexW-1:0] session_o,
  input  logic [        31:0] expected_i,
  /// What the peer is asked for, see rx_share.
  input  logic [        11:0] interval_i,
  /// Its control frame begins (pulse).
  output logic                sent_o,

  /// Where the session's peer is, see session_table.
  output logic        dst_read_o,
  input  logic        dst_done_i,
  input  logic [47:0] dst_mac_i,
  input  logic [31:0] dst_ip_i,

  output logic      valid_o,
  output tx_frame_t frame_o,
  input  logic      lock_i,
  input  logic      pop_i,
  output logic      busy_o
);
  typedef enum logic [1:0] {
    StIdle,
    StAddress,
    StOffer,
    StSend
  } state_e;

  state_e              state_q;
  logic   [IndexW-1:0] session_q;
  logic   [      47:0] mac_q;
  logic   [      31:0] ip_q;
  logic [31:0] number_q, number;
  logic [11:0] interval_q;
  logic nack_q, nack, gone;
  logic [IndexW-1:0] next;
  logic              any;

  // Those behind the last one served come first.
  ring_pick #(
    .N(Sessions)
  ) u_pick (
    .set_i  (want_i),
    .after_i(session_q),
    .any_o  (any),
    .index_o(next)
  );

  assign gone   = !want_i[session_q] || (reset_i && reset_index_i == session_q);
  assign sent_o = state_q == StOffer && lock_i;

  always_ff @(posedge clk_i) begin
    if (state_q == StIdle && any) session_q <= next;
    if (state_q == StAddress) begin
      mac_q <= dst_mac_i;
      ip_q  <= dst_ip_i;
    end
    if (sent_o) begin
      number_q   <= expected_i;
      nack_q     <= nack_i[session_q];
      interval_q <= interval_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= StIdle;
    end else begin
      unique case (state_q)
        StIdle:  if (any) state_q <= StAddress;
        StAddress: begin
          if (gone) state_q <= StIdle;
          else if (dst_done_i) state_q <= StOffer;
        end
        StOffer: begin
          if (lock_i) state_q <= StSend;
          else if (gone) state_q <= StIdle;
        end
        default: if (pop_i) state_q <= StIdle;
      endcase
    end
  end

  assign session_o  = session_q;
  assign dst_read_o = state_q == StAddress;
  assign valid_o    = state_q inside {StOffer, StSend};
  assign number     = state_q == StSend ? number_q : expected_i;
  assign nack       = state_q == StSend ? nack_q : nack_i[session_q];

  always_comb begin
    frame_o         = '0;
    frame_o.compact = 1'b1;
    frame_o.control = 1'b1;
    frame_o.session = '{valid: 1'b1, index: 8'(session_q)};
    frame_o.pc_id   = 16'(session_q);
    frame_o.dst_mac = mac_q;
    frame_o.dst_ip  = ip_q;
    frame_o.address = {number, 8'd0};
    frame_o.tag     = state_q == StSend ? interval_q : interval_i;
    frame_o.trail   = nack ? CONTROL_NACK : CONTROL_ACK;
  end

  assign busy_o = state_q != StIdle;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) pop_i |-> state_q == StSend)
  else $error("ack_source: a frame was taken that is not being sent");
  assert property (@(posedge clk_i) disable iff (rst_i) lock_i |-> valid_o)
  else $error("ack_source: nothing there to send");
`endif
endmodule
