// SPDX-License-Identifier: Apache-2.0
// Flat wrapper of fib_lookup with small tables.
module tb_fib_lookup
  import fib_pkg::*;
#(
  parameter int unsigned ReadLatency = 2,
  parameter int unsigned SumRegister = 0,
  parameter int unsigned OutRegister = 0,
  parameter int unsigned ByteDelay   = 0
) (
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic         v4_valid_i,
  input  logic [ 31:0] v4_addr_i,
  output logic         v4_valid_o,
  output logic [ 18:0] v4_answer_o,
  input  logic         v6_valid_i,
  input  logic [127:0] v6_addr_i,
  output logic         v6_valid_o,
  output logic [ 18:0] v6_answer_o,
  input  logic         wr_valid_i,
  output logic         wr_ready_o,
  input  logic [196:0] wr_i
);
  fib_lookup #(
    .V4Leaves     (4096),
    .V4Groups     (64),
    .V4Hosts      (4),
    .V6Nodes      ('{512, 512, 256, 256, 256, 256, 256}),
    .V6Leaves     (8192),
    .V6Hosts      (4),
    .V6TcamEntries(32),
    .ReadLatency  (ReadLatency),
    .SumRegister  (SumRegister),
    .OutRegister  (OutRegister),
    .ByteDelay    (ByteDelay),
    .DrainExtra   (0)
  ) dut (
    .clk_i,
    .rst_i,
    .v4_valid_i,
    .v4_addr_i,
    .v4_valid_o,
    .v4_answer_o,
    .v6_valid_i,
    .v6_addr_i,
    .v6_valid_o,
    .v6_answer_o,
    .wr_valid_i,
    .wr_ready_o,
    .wr_i
  );
endmodule
