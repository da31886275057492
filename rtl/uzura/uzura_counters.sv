// SPDX-License-Identifier: Apache-2.0
// The engine's event counters: 32 bits each, wrapping, read by index. A register with an adder for each
// is large (stats_ram is not), but answers a read in every cycle, as doorbells behind it want.
//
// Latency : an event is in the value right after its edge; value_o follows index_i combinationally.
// Clock   : clk_i; nothing changes without an event.
// Drops   : never; all counters may count at one edge.
// Source  : own; names and indices are those of uzura_qp_pkg.
module uzura_counters #(
  /// Number of counters.
  parameter int unsigned Count = 20,
  localparam int unsigned IndexW = Count > 1 ? $clog2(Count) : 1
) (
  input  logic              clk_i,
  input  logic              rst_i,
  /// One bit a counter: counts one at each edge where it is high.
  input  logic [ Count-1:0] event_i,
  input  logic [IndexW-1:0] index_i,
  /// The counter at index_i; 0 beyond the last.
  output logic [      31:0] value_o
);
  logic [31:0] count_q[Count];

  for (genvar i = 0; i < int'(Count); i++) begin : gen_counter
    always_ff @(posedge clk_i) begin
      if (rst_i) count_q[i] <= '0;
      else if (event_i[i]) count_q[i] <= count_q[i] + 1'b1;
    end
  end

  always_comb begin
    value_o = '0;
    for (int unsigned i = 0; i < Count; i++) begin
      if (index_i == IndexW'(i)) value_o = count_q[i];
    end
  end
endmodule
