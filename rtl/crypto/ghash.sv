// SPDX-License-Identifier: Apache-2.0
// The hash of GCM: takes a block, adds it to the sum, multiplies the sum by the hash key.
//
// Latency   : 2 cycles from valid_i to sum_o, which then stays; between them it is not valid. The
//             same for all blocks and keys.
// Clock     : clk_i.
// Handshake : valid_i at most in every second cycle.
// Drops     : never.
// Source    : NIST SP 800-38D, section 6.4; 64 coefficients a cycle, lowest powers first.
module ghash
  import aes_pkg::*;
  import gcm_pkg::*;
(
  input  logic   clk_i,
  input  logic   rst_i,
  input  logic   valid_i,
  /// The sum so far is taken as 0.
  input  logic   first_i,
  input  block_t block_i,
  input  block_t key_i,
  output block_t sum_o,
  output logic   busy_o
);
  logic second_q;  // this cycle does the upper half
  logic [63:0] rest_q, digit;
  block_t sum_q, key_q, added, product;

  // Only worked out when there is something to multiply.
  always_comb begin
    added   = block_i ^ (first_i ? '0 : sum_q);
    digit   = second_q ? rest_q : added[127:64];
    product = '0;
    if (valid_i || second_q) product = multiply_digit(digit, second_q ? key_q : key_i);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) second_q <= 1'b0;
    else second_q <= valid_i;

    if (valid_i) begin
      rest_q <= added[63:0];
      key_q  <= times_x64(key_i);
      sum_q  <= product;
    end else if (second_q) begin
      sum_q <= sum_q ^ product;
    end
  end

  assign sum_o  = sum_q;
  assign busy_o = second_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_apart :
      assert (!(valid_i && second_q))
      else $error("ghash: a block came while one was multiplied");
    end
  end
`endif
endmodule
