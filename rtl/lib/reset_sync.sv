// SPDX-License-Identifier: Apache-2.0
// Reset synchroniser: asserts at once, releases in step with clk_i.
//
// Latency : release is seen Stages edges after arst_i falls; assertion is asynchronous.
// Clock   : clk_i.
// Source  : common practice.
module reset_sync #(
  /// Flip-flops in series.
  parameter int unsigned Stages = 3
) (
  input  logic clk_i,
  /// Asynchronous reset, active high.
  input  logic arst_i,
  /// Reset for the domain of clk_i, active high.
  output logic rst_o
);
  (* async_reg = "true" *) logic [Stages-1:0] stage_q;

  always_ff @(posedge clk_i or posedge arst_i) begin
    if (arst_i) stage_q <= '1;
    else stage_q <= {stage_q[Stages-2:0], 1'b0};
  end

  assign rst_o = stage_q[Stages-1];
endmodule
