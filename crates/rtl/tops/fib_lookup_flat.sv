// SPDX-License-Identifier: Apache-2.0
// fib_lookup with plain vectors as ports and scalars as parameters, for the Rust tests.
//
// Latency : that of fib_lookup; latency_v4_o and latency_v6_o say it.
// Clock   : clk_i, rst_i synchronous.
// Drops   : never.
// Source  : ours.
module fib_lookup_flat
  import fib_pkg::*;
#(
  parameter int unsigned V4Leaves = 4096,
  parameter int unsigned V4Groups = 16,
  parameter int unsigned V4Hosts = 256,
  parameter int unsigned V6Nodes1 = 256,
  parameter int unsigned V6Nodes2 = 256,
  parameter int unsigned V6Nodes3 = 256,
  parameter int unsigned V6Nodes4 = 256,
  parameter int unsigned V6Nodes5 = 256,
  parameter int unsigned V6Nodes6 = 256,
  parameter int unsigned V6Nodes7 = 256,
  parameter int unsigned V6Leaves = 4096,
  parameter int unsigned V6Hosts = 256,
  parameter int unsigned V6TcamEntries = 32,
  parameter int unsigned ReadLatency = 2
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             v4_valid_i,
  input  logic [     31:0] v4_addr_i,
  output logic             v4_valid_o,
  /// fib_pkg::answer_t.
  output logic [     18:0] v4_answer_o,
  input  logic             v6_valid_i,
  input  logic [    127:0] v6_addr_i,
  output logic             v6_valid_o,
  output logic [     18:0] v6_answer_o,
  input  logic             wr_valid_i,
  output logic             wr_ready_o,
  input  logic [      4:0] wr_mem_i,
  input  logic [     23:0] wr_addr_i,
  input  logic [WordW-1:0] wr_data_i,
  /// Edges from an address to its answer.
  output logic [      7:0] latency_v4_o,
  output logic [      7:0] latency_v6_o
);
  fib_wr_t wr;

  assign wr           = '{mem: memory_e'(wr_mem_i), addr: wr_addr_i, data: wr_data_i};
  assign latency_v4_o = 8'(v4_latency(ReadLatency, 0, 0));
  assign latency_v6_o = 8'(v6_latency(ReadLatency, 0, 0));

  fib_lookup #(
    .V4Leaves     (V4Leaves),
    .V4Groups     (V4Groups),
    .V4Hosts      (V4Hosts),
    .V6Nodes      ('{V6Nodes1, V6Nodes2, V6Nodes3, V6Nodes4, V6Nodes5, V6Nodes6, V6Nodes7}),
    .V6Leaves     (V6Leaves),
    .V6Hosts      (V6Hosts),
    .V6TcamEntries(V6TcamEntries),
    .ReadLatency  (ReadLatency)
  ) u_lookup (
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
    .wr_i(wr)
  );
endmodule
