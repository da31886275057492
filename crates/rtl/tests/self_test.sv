// SPDX-License-Identifier: Apache-2.0
// Small top that proves the bridge between Rust and Verilated models; not part of any design.
//
// Latency : 1 cycle of clk_i for sum_o; same_o is combinational.
// Clock   : clk_i; rst_i is synchronous and active high.
// Source  : ours.
module self_test (
  /// Clock.
  input  logic         clk_i,
  /// Synchronous reset, active high.
  input  logic         rst_i,
  /// Fails an assertion at the next clock edge.
  input  logic         fail_i,
  /// Ends the simulation at the next clock edge.
  input  logic         finish_i,
  /// Added to the sum in every cycle.
  input  logic [ 63:0] add_i,
  /// A narrow input, returned at once.
  input  logic [  4:0] nibble_i,
  /// A wide input whose last lane is not full, returned upside down.
  input  logic [149:0] wide_i,
  /// Sum of all add_i since reset.
  output logic [ 63:0] sum_o,
  /// nibble_i.
  output logic [  4:0] same_o,
  /// wide_i with its last bit first.
  output logic [149:0] reversed_o
);

  logic [63:0] sum_q;

  assign sum_o  = sum_q;
  assign same_o = nibble_i;

  for (genvar i = 0; i < 150; i++) begin : gen_reverse
    assign reversed_o[i] = wide_i[149-i];
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      sum_q <= '0;
    end else begin
      sum_q <= sum_q + add_i;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) !fail_i)
  else $error("self_test: asked to fail with nibble %0d", nibble_i);

  always_ff @(posedge clk_i) begin
    if (finish_i) begin
      $finish;
    end
  end
`endif

endmodule
