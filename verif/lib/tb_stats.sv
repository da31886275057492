// SPDX-License-Identifier: Apache-2.0
// Flat ports around stats_ram.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_stats #(
  parameter int unsigned Count = 5,
  parameter int unsigned Width = 32,
  localparam int unsigned IndexW = $clog2(Count)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic [ Count-1:0] event_i,
  input  logic              read_i,
  input  logic [IndexW-1:0] index_i,
  output logic              valid_o,
  output logic [ Width-1:0] value_o,
  output logic              busy_o
);
  stats_ram #(
    .Count(Count),
    .Width(Width)
  ) u_stats (
    .*
  );
endmodule
