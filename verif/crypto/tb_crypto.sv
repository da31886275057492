// SPDX-License-Identifier: Apache-2.0
// Bench top of the parts of AES-GCM, side by side.
//
// Latency   : that of the parts. Clock: clk_i.
// Handshake : as in the parts. Drops: none.
// Source    : ours.
module tb_crypto (
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic         aes_valid_i,
  output logic         aes_ready_o,
  input  logic [127:0] aes_key_i,
  input  logic [127:0] aes_block_i,
  input  logic [ 15:0] aes_user_i,
  output logic         aes_soon_o,
  output logic [ 15:0] aes_soon_user_o,
  output logic         aes_done_o,
  output logic [127:0] aes_block_o,
  output logic [ 15:0] aes_user_o,
  output logic         aes_busy_o,
  input  logic         hash_valid_i,
  input  logic         hash_first_i,
  input  logic [127:0] hash_block_i,
  input  logic [127:0] hash_key_i,
  output logic [127:0] hash_sum_o,
  output logic         hash_busy_o
);
  aes_pipe #(
    .user_t(logic [15:0])
  ) u_aes (
    .clk_i,
    .rst_i,
    .valid_i    (aes_valid_i),
    .ready_o    (aes_ready_o),
    .key_i      (aes_key_i),
    .block_i    (aes_block_i),
    .user_i     (aes_user_i),
    .soon_o     (aes_soon_o),
    .soon_user_o(aes_soon_user_o),
    .done_o     (aes_done_o),
    .block_o    (aes_block_o),
    .user_o     (aes_user_o),
    .busy_o     (aes_busy_o)
  );

  ghash u_ghash (
    .clk_i,
    .rst_i,
    .valid_i(hash_valid_i),
    .first_i(hash_first_i),
    .block_i(hash_block_i),
    .key_i  (hash_key_i),
    .sum_o  (hash_sum_o),
    .busy_o (hash_busy_o)
  );
endmodule
