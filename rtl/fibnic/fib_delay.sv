// SPDX-License-Identifier: Apache-2.0
// Shift register of any length, zero included, for what has to wait for a memory.
//
// Latency : Cycles edges.
// Clock   : clk_i. Not reset: a valid bit goes through fib_valid instead.
// Source  : common practice.
module fib_delay #(
  /// Type of the data.
  parameter type data_t = logic,
  /// Edges from data_i to data_o.
  parameter int unsigned Cycles = 1
) (
  input  logic  clk_i,
  input  data_t data_i,
  output data_t data_o
);
  if (Cycles == 0) begin : gen_wire
    // The clock has nothing to do here.
    logic unused_clk;
    assign unused_clk = clk_i;
    assign data_o     = data_i;
  end else begin : gen_stages
    localparam int unsigned Width = $bits(data_t);
    logic [Cycles-1:0][Width-1:0] stage_q;

    always_ff @(posedge clk_i) begin
      stage_q[0] <= data_i;
      for (int unsigned i = 1; i < Cycles; i++) stage_q[i] <= stage_q[i-1];
    end

    assign data_o = data_t'(stage_q[Cycles-1]);
  end
endmodule
