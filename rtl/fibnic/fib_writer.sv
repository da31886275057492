// SPDX-License-Identifier: Apache-2.0
// Takes write lists for the lookup's memories in order, one word a cycle, and waits where the list
// says that lookups under way must end first.
//
// Latency : one edge from wr_i to wr_o. After a drain marker wr_ready_o is low for DrainCycles
//           cycles, so that the next word is written after every lookup that began before the
//           words in front of the marker were there has ended.
// Clock   : clk_i, rst_i synchronous.
// Drops   : words for memories that do not exist pass without effect.
// Source  : crates/fib (Op::Drain).
module fib_writer
  import fib_pkg::*;
#(
  /// Cycles of the longest lookup, with what reads tables behind it.
  parameter int unsigned DrainCycles = 20
) (
  input  logic    clk_i,
  input  logic    rst_i,
  input  logic    wr_valid_i,
  output logic    wr_ready_o,
  input  fib_wr_t wr_i,
  output logic    wr_valid_o,
  output fib_wr_t wr_o
);
  localparam int unsigned CountW = $clog2(DrainCycles + 1);

  logic    [CountW-1:0] wait_q;
  logic                 valid_q;
  fib_wr_t              wr_q;
  logic                 take;

  assign wr_ready_o = wait_q == '0;
  assign take       = wr_valid_i && wr_ready_o;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wait_q  <= '0;
      valid_q <= 1'b0;
    end else begin
      valid_q <= take && wr_i.mem != MemDrain;
      if (take && wr_i.mem == MemDrain) begin
        wait_q <= CountW'(DrainCycles);
      end else if (wait_q != '0) begin
        wait_q <= wait_q - 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) wr_q <= wr_i;

  assign wr_valid_o = valid_q;
  assign wr_o       = wr_q;
endmodule
