// SPDX-License-Identifier: Apache-2.0
// Time of a frame's first bit on the pins, in half cycles.
//
// The same module looks at the pins of transmitter and receiver, so that a loop of n cycles of wire
// reads as 2 n, and a plain wire as 0.
//
// Latency : 1 edge from the pins to stamp_o; it stays until the next frame starts.
// Clock   : clk_i.
// Source  : RFC 1242, section 3.8: latency of bit-forwarding devices.
module frame_stamp (
  input  logic               clk_i,
  input  logic               rst_i,
  /// Cycles of clk_i, common to all ports.
  input  tester_pkg::now_t   now_i,
  /// The preamble's first byte is on the pins.
  input  logic               start_i,
  /// It is in the second half of the cycle.
  input  logic               half_i,
  output tester_pkg::stamp_t stamp_o,
  /// A stamp is new.
  output logic               valid_o
);
  import tester_pkg::*;

  stamp_t stamp_q;
  logic   valid_q;

  always_ff @(posedge clk_i) begin
    if (start_i) stamp_q <= {now_i, half_i};
    valid_q <= start_i && !rst_i;
  end

  assign stamp_o = stamp_q;
  assign valid_o = valid_q;
endmodule
