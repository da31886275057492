// SPDX-License-Identifier: Apache-2.0
// Valid bits of a pipeline: every stage at once, reset to "nothing there".
//
// Latency : valid_o[n] is valid_i n edges ago; valid_o[0] is valid_i itself.
// Clock   : clk_i, rst_i synchronous.
// Source  : common practice.
module fib_valid #(
  /// Stages behind the first.
  parameter int unsigned Cycles = 1
) (
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic            valid_i,
  output logic [Cycles:0] valid_o
);
  logic [Cycles-1:0] stage_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      stage_q <= '0;
    end else begin
      stage_q <= valid_o[Cycles-1:0];
    end
  end

  assign valid_o = {stage_q, valid_i};
endmodule
