// SPDX-License-Identifier: Apache-2.0
// GHASH for proofs that do not depend on it: anything may come out at any time.
module ghash
  import aes_pkg::*;
(
  input  logic   clk_i,
  input  logic   rst_i,
  input  logic   valid_i,
  input  logic   first_i,
  input  block_t block_i,
  input  block_t key_i,
  output block_t sum_o,
  output logic   busy_o
);
endmodule
