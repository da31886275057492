// SPDX-License-Identifier: Apache-2.0
// Flat wrapper of acl.
module tb_acl #(
  parameter int unsigned Rules   = 64,
  parameter int unsigned Latency = 2,
  localparam int unsigned RuleW  = Rules > 1 ? $clog2(Rules) : 1
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [      3:0] port_i,
  input  logic             valid_i,
  input  logic [    297:0] key_i,
  output logic             valid_o,
  /// {deny, hit, rule}.
  output logic [RuleW+1:0] answer_o,
  input  logic             wr_valid_i,
  output logic             wr_ready_o,
  input  logic [    196:0] wr_i
);
  acl #(
    .Rules  (Rules),
    .Latency(Latency)
  ) dut (
    .clk_i,
    .rst_i,
    .port_i,
    .valid_i,
    .key_i,
    .valid_o,
    .deny_o(answer_o[RuleW+1]),
    .hit_o (answer_o[RuleW]),
    .rule_o(answer_o[RuleW-1:0]),
    .wr_valid_i,
    .wr_ready_o,
    .wr_i
  );
endmodule
