// SPDX-License-Identifier: Apache-2.0
// Synchroniser: brings a bit (or bits that change one at a time) into the clock domain of clk_i.
//
// Latency : Stages edges of clk_i.
// Clock   : clk_i; d_i may come from any clock.
// Source  : common practice; the attribute keeps the stages adjacent and unshared.
module sync_ff #(
  /// Bits; more than one only for Gray codes or independent flags.
  parameter int unsigned Width = 1,
  /// Flip-flops in series.
  parameter int unsigned Stages = 2,
  /// All ones when the device comes up; else it comes up as the technology does.
  parameter bit UpAsOnes = 1'b0
) (
  input  logic             clk_i,
  input  logic [Width-1:0] d_i,
  output logic [Width-1:0] q_o
);
  (* async_reg = "true" *) logic [Stages-1:0][Width-1:0] stage_q;

  always_ff @(posedge clk_i) stage_q <= {stage_q[Stages-2:0], d_i};

  assign q_o = stage_q[Stages-1];

  if (UpAsOnes) begin : gen_up_as_ones
    initial stage_q = '1;
  end

`ifndef SYNTHESIS
  initial
    assert (Stages >= 2)
    else $fatal(1, "sync_ff needs two stages or more");
`endif
endmodule
