// SPDX-License-Identifier: Apache-2.0
// One column of the access list: for each value of a nibble, which rules can still match.
//
// A write replaces the bit of one rule in the word that is being read; the other rules' bits go
// back as they were, so that a memory without a write enable for each bit will do.
//
// Latency : combinational from nibble_i to row_o. A write counts after its edge.
// Clock   : clk_i. Not reset: a rule's bits mean nothing until all of them are written.
// Source  : common practice (a ternary match from small memories).
module acl_column #(
  /// Rules.
  parameter int unsigned Rules = 64
) (
  input  logic                        clk_i,
  /// The nibble is looked at; without it row_o means nothing.
  input  logic                        read_i,
  input  logic [acl_pkg::NibbleW-1:0] nibble_i,
  output logic [           Rules-1:0] row_o,
  /// With read_i: the bit of the rules in rules_i becomes bit_i.
  input  logic                        write_i,
  input  logic [           Rules-1:0] rules_i,
  input  logic                        bit_i
);
  logic [Rules-1:0] rows_q[acl_pkg::Entries];

  // Costs no time in simulation while nothing is read, and no gates.
  always_comb begin
    row_o = 'x;
    if (read_i) row_o = rows_q[nibble_i];
  end

  always_ff @(posedge clk_i) begin
    if (write_i) rows_q[nibble_i] <= (row_o & ~rules_i) | (rules_i & {Rules{bit_i}});
  end
endmodule
