// SPDX-License-Identifier: Apache-2.0
// What the example register promises, for any inputs: an offered word stays until it is taken, and
// comes out as it went in.
//
// Clock  : clk_i.
// Source : ours.
module stream_register_proof (
  /// Clock.
  input logic       clk_i,
  /// Reset, free.
  input logic       rst_i,
  /// Word in, free.
  input logic [7:0] data_i,
  /// Word offered, free.
  input logic       valid_i,
  /// Word taken, free.
  input logic       ready_i
);

  logic [7:0] data_o;
  logic valid_o, ready_o;

  stream_register #(.Width(8)) u_dut (.*);

  // Registered history instead of $past and |=>, which the synthesis front end does not take.
  logic held_q, known_q;
  logic [7:0] expected_q;

  initial begin
    held_q  = 1'b0;
    known_q = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    held_q <= !rst_i && valid_o && !ready_i;
    if (rst_i) begin
      known_q <= 1'b0;
    end else if (valid_i && ready_o) begin
      known_q    <= 1'b1;
      expected_q <= data_i;
    end else if (ready_i) begin
      known_q <= 1'b0;
    end
    if (held_q) begin
      a_offer_stays : assert (valid_o);
    end
    if (known_q) begin
      a_same_word : assert (valid_o && data_o == expected_q);
    end
  end

endmodule
