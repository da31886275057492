// SPDX-License-Identifier: Apache-2.0
// AES for proofs that do not depend on it: anything may come out at any time.
module aes_pipe
  import aes_pkg::*;
#(
  parameter type user_t = logic
) (
  input  logic   clk_i,
  input  logic   rst_i,
  input  logic   valid_i,
  output logic   ready_o,
  input  block_t key_i,
  input  block_t block_i,
  input  user_t  user_i,
  output logic   soon_o,
  output user_t  soon_user_o,
  output logic   done_o,
  output block_t block_o,
  output user_t  user_o,
  output logic   busy_o
);
endmodule
