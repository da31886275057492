// SPDX-License-Identifier: Apache-2.0
// Ways from one clock to another, right and wrong, for the test of tools/crossings.
//
// Latency : none of interest.
// Clock   : clk_a_i, clk_b_i.
// Source  : bench only.
module crossing_cases (
  input  logic       clk_a_i,
  input  logic       clk_b_i,
  input  logic       a_i,
  input  logic [1:0] a_pair_i,
  input  logic [5:0] a_six_i,
  output logic       b_good_o,
  output logic       b_raw_o,
  output logic       b_logic_o,
  output logic       b_wide_o,
  output logic       a_parity_o,
  output logic [1:0] b_pair_o
);
  logic held_q, other_q, raw_q, far_q, parity_q;
  logic [1:0] word_q;

  always_ff @(posedge clk_a_i) begin
    held_q   <= a_i;
    other_q  <= a_pair_i[0];
    word_q   <= a_pair_i;
    parity_q <= ^a_six_i;
  end

  always_ff @(posedge clk_b_i) begin
    raw_q <= held_q;
    far_q <= ^word_q && raw_q;
  end

  sync_ff u_good (
    .clk_i(clk_b_i),
    .d_i  (held_q),
    .q_o  (b_good_o)
  );

  sync_ff u_logic (
    .clk_i(clk_b_i),
    .d_i  (held_q && other_q),
    .q_o  (b_logic_o)
  );

  sync_ff #(
    .Width(2)
  ) u_word (
    .clk_i(clk_b_i),
    .d_i  (word_q),
    .q_o  (b_pair_o)
  );

  assign b_raw_o    = raw_q;
  assign b_wide_o   = far_q;
  assign a_parity_o = parity_q;
endmodule
