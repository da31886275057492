// SPDX-License-Identifier: Apache-2.0
// AXI4-Stream bundle used between all blocks; byte 0 is in the low lane.
//
// Latency   : none, wires.
// Clock     : that of the modules at both ends.
// Handshake : a beat moves at an edge with tvalid and tready; tvalid never waits for tready, and an
//             offered beat stays until taken. A source that says so (MAC receive) ignores tready.
// Source    : AMBA AXI-Stream; tuser carries what its owner documents.
interface axis_if #(
  /// Bits of tdata, a multiple of 8.
  parameter int unsigned DataW = 64,
  /// Bits of tuser.
  parameter int unsigned UserW = 1
);
  // Not every user looks at every signal.
  // verilator lint_off UNUSEDSIGNAL
  // verilator lint_off UNDRIVEN
  logic [  DataW-1:0] tdata;
  logic [DataW/8-1:0] tkeep;
  logic               tvalid;
  logic               tready;
  logic               tlast;
  logic [  UserW-1:0] tuser;
  // verilator lint_on UNDRIVEN
  // verilator lint_on UNUSEDSIGNAL

  modport src(output tdata, tkeep, tvalid, tlast, tuser, input tready);
  modport snk(input tdata, tkeep, tvalid, tlast, tuser, output tready);
  modport mon(input tdata, tkeep, tvalid, tready, tlast, tuser);
endinterface
