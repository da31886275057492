// SPDX-License-Identifier: Apache-2.0
// Initial sequence numbers: a clock of 4 us plus a keyed mix of the connection's addresses.
//
// The mix is two rounds of add, rotate, xor a step; it keeps strangers from guessing by looking at
// other connections, but is no proven pseudorandom function.
//
// Latency : 3 edges from ip_i and ports_i to isn_o.
// Clock   : clk_i.
// Source  : RFC 6528.
module toe_isn
  import toe_pkg::*;
(
  input  logic        clk_i,
  input  us_t         now_i,
  input  logic [63:0] secret_i,
  input  logic [31:0] ip_i,
  input  logic [31:0] ports_i,
  output seq_t        isn_o
);
  function automatic logic [31:0] rotate(logic [31:0] word, int unsigned by);
    return word << by | word >> (32 - by);
  endfunction
  function automatic logic [63:0] round(logic [63:0] in);
    logic [31:0] a, b;
    {a, b} = in;
    a += b;
    b = rotate(b, 13) ^ a;
    a = rotate(a, 16) + b;
    b = rotate(b, 7) ^ a;
    return {a, b};
  endfunction

  logic [63:0] first_q, second_q;
  always_ff @(posedge clk_i) begin
    first_q  <= round(round(secret_i ^ {ip_i, ports_i}));
    second_q <= round(round(first_q ^ {secret_i[31:0], secret_i[63:32]}));
  end
  always_ff @(posedge clk_i) isn_o <= second_q[63:32] + second_q[31:0] + (now_i >> 2);
endmodule
