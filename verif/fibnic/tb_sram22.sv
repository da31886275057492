// SPDX-License-Identifier: Apache-2.0
// Flat wrapper of sram22_lookup, with an SRAM for 8.0.0.0/6 alone.
module tb_sram22
  import fib_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic         v4_valid_i,
  input  logic [ 31:0] v4_addr_i,
  output logic         v4_valid_o,
  output logic [ 17:0] v4_leaf_o,
  input  logic         wr_valid_i,
  input  logic [196:0] wr_i
);
  sram22_lookup #(
    .IndexW(16)
  ) dut (
    .clk_i,
    .rst_i,
    .valid_i(v4_valid_i),
    .addr_i (v4_addr_i),
    .valid_o(v4_valid_o),
    .leaf_o (v4_leaf_o),
    .wr_valid_i,
    .wr_i
  );
endmodule
