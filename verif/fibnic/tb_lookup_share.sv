// SPDX-License-Identifier: Apache-2.0
// Flat wrapper of the shared lookup.
//
// Latency : that of lookup_share, on latency4_o and latency6_o.
// Clock   : clk_i.
// Source  : bench only.
module tb_lookup_share
  import fib_pkg::*;
#(
  parameter int unsigned ByteDelay = 0
) (
  input  logic                clk_i,
  input  logic                rst_i,
  input  logic [  3:0]        v4_valid_i,
  input  logic [  3:0]        v6_valid_i,
  input  logic [  3:0][127:0] addr_i,
  output logic [  3:0]        v4_valid_o,
  output logic [  3:0][ 18:0] v4_answer_o,
  output logic [  3:0]        v6_valid_o,
  output logic [  3:0][ 18:0] v6_answer_o,
  input  logic                wr_valid_i,
  output logic                wr_ready_o,
  input  logic [196:0]        wr_i,
  output logic [  7:0]        latency4_o,
  output logic [  7:0]        latency6_o
);
  lookup_share #(
    .N        (4),
    .ByteDelay(ByteDelay)
  ) dut (
    .clk_i,
    .rst_i,
    .v4_valid_i,
    .v6_valid_i,
    .addr_i,
    .v4_valid_o,
    .v4_answer_o,
    .v6_valid_o,
    .v6_answer_o,
    .wr_valid_i,
    .wr_ready_o,
    .wr_i
  );

  assign latency4_o = 8'(dut.LatencyV4);
  assign latency6_o = 8'(dut.LatencyV6);
endmodule
