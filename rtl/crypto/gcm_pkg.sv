// SPDX-License-Identifier: Apache-2.0
// Arithmetic and block layouts of AES-GCM. Blocks are byte strings, first byte in the most
// significant bits: bit 127 is the coefficient of x^0 in the field of GHASH.
//
// Source  : NIST SP 800-38D, sections 6.3, 6.4 and 7.
package gcm_pkg;
  import aes_pkg::*;

  // x^128 = 1 + x + x^2 + x^7: what 64 coefficients from x^128 on come to.
  function automatic block_t fold(logic [63:0] top);
    return {top, 64'd0} ^ {1'b0, top, 63'd0} ^ {2'b0, top, 62'd0} ^ {7'b0, top, 57'd0};
  endfunction

  // Times x^64.
  function automatic block_t times_x64(block_t a);
    return {64'd0, a[127:64]} ^ fold(a[63:0]);
  endfunction

  // Products without carries, bit i being the coefficient of y^i. Three products of half the width
  // make one (Karatsuba).
  function automatic logic [31:0] multiply16(logic [15:0] a, logic [15:0] b);
    multiply16 = '0;
    for (int unsigned i = 0; i < 16; i++) begin
      multiply16 ^= ({16'd0, b} << i) & {32{a[i]}};
    end
  endfunction

  function automatic logic [63:0] multiply32(logic [31:0] a, logic [31:0] b);
    logic [31:0] low, high, middle;
    low    = multiply16(a[15:0], b[15:0]);
    high   = multiply16(a[31:16], b[31:16]);
    middle = multiply16(a[31:16] ^ a[15:0], b[31:16] ^ b[15:0]) ^ low ^ high;
    return {high, low} ^ {16'd0, middle, 16'd0};
  endfunction

  function automatic logic [127:0] multiply64(logic [63:0] a, logic [63:0] b);
    logic [63:0] low, high, middle;
    low    = multiply32(a[31:0], b[31:0]);
    high   = multiply32(a[63:32], b[63:32]);
    middle = multiply32(a[63:32] ^ a[31:0], b[63:32] ^ b[31:0]) ^ low ^ high;
    return {high ^ {32'd0, middle[63:32]}, low ^ {middle[31:0], 32'd0}};
  endfunction

  // The product of 64 coefficients, from x^0 on, and a block. The coefficients being upside down, a
  // product of words ends one place too low.
  function automatic block_t multiply_digit(logic [63:0] digit, block_t a);
    logic [127:0] first, second;
    first  = multiply64(digit, a[127:64]);
    second = multiply64(digit, a[63:0]);
    return {first[126:0], 1'b0} ^ {64'd0, second[126:63]} ^ fold({second[62:0], 1'b0});
  endfunction

  // Counter block; 1 makes the mask of the tag, 2 and on the key stream.
  function automatic block_t counter_block(logic [95:0] nonce, logic [31:0] number);
    return {nonce, number};
  endfunction

  // Last block of GHASH, from lengths in bytes.
  function automatic block_t length_block(logic [15:0] aad_bytes, logic [15:0] text_bytes);
    return {45'd0, aad_bytes, 3'd0, 45'd0, text_bytes, 3'd0};
  endfunction

  // Byte string (first byte on top) to stream word order (first byte in [7:0]), and back.
  function automatic block_t swap(block_t a);
    for (int unsigned i = 0; i < 16; i++) swap[8*i+:8] = a[8*(15-i)+:8];
  endfunction
endpackage
