// SPDX-License-Identifier: Apache-2.0
// Many counters of events in one memory: each event is held for at most one round of a sweep that
// adds what is held to the memory, one counter a cycle.
//
// Latency   : idx_i to cnt_o: 1 edge. A pulse shows after at most Count + 2 edges.
// Clock     : clk_i, rst_i synchronous. Reset clears; the memory itself follows within Count edges.
// Handshake : none; every counter may count in every cycle.
// Drops     : never.
// Source    : common practice; a register and an adder for each counter would be ten times as large.
module event_counters #(
  /// Counters.
  parameter int unsigned Count = 128,
  localparam int unsigned IdxW = $clog2(Count)
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic [Count-1:0] pulse_i,
  input  logic [ IdxW-1:0] idx_i,
  output logic [     31:0] cnt_o
);
  // Bits of an event count that waits for the sweep: one event a cycle for a round.
  localparam int unsigned HeldW = $clog2(Count) + 1;

  logic [Count-1:0][HeldW-1:0] held_q;
  logic [IdxW-1:0] sweep_q, write_q;
  logic [HeldW-1:0] add_q;
  logic [31:0] old, new_count, shown;
  logic swept_q, swept_late_q, write_valid_q, clear_q;

  assign new_count = (swept_late_q ? old : '0) + 32'(add_q);
  assign cnt_o     = clear_q ? '0 : shown;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      sweep_q       <= '0;
      write_q       <= '0;
      add_q         <= '0;
      swept_q       <= 1'b0;
      swept_late_q  <= 1'b0;
      write_valid_q <= 1'b0;
      clear_q       <= 1'b1;
      held_q        <= '0;
    end else begin
      if (sweep_q == IdxW'(Count - 1)) begin
        sweep_q <= '0;
        swept_q <= 1'b1;
      end else begin
        sweep_q <= sweep_q + 1'b1;
      end
      write_q       <= sweep_q;
      write_valid_q <= 1'b1;
      swept_late_q  <= swept_q;
      clear_q       <= !swept_late_q;
      if (pulse_i != '0) begin
        for (int unsigned i = 0; i < Count; i++) begin
          if (pulse_i[i]) held_q[i] <= held_q[i] + 1'b1;
        end
      end
      add_q           <= held_q[sweep_q];
      held_q[sweep_q] <= HeldW'(pulse_i[sweep_q]);
    end
  end

  ram_1r1w #(
    .data_t  (logic [31:0]),
    .Depth   (Count),
    .InitZero(1'b0)
  ) u_sum (
    .clk_i,
    .we_i   (write_valid_q),
    .waddr_i(write_q),
    .wdata_i(new_count),
    .re_i   (1'b1),
    .raddr_i(sweep_q),
    .rdata_o(old)
  );

  ram_1r1w #(
    .data_t  (logic [31:0]),
    .Depth   (Count),
    .InitZero(1'b0)
  ) u_shown (
    .clk_i,
    .we_i   (write_valid_q),
    .waddr_i(write_q),
    .wdata_i(new_count),
    .re_i   (1'b1),
    .raddr_i(idx_i),
    .rdata_o(shown)
  );

`ifndef SYNTHESIS
  initial begin
    assert (Count >= 4)
    else $fatal(1, "event_counters: at least 4, a counter is read before it is written again");
  end

  always_ff @(posedge clk_i) begin
    if (!rst_i && pulse_i != '0) begin
      for (int unsigned i = 0; i < Count; i++) begin
        a_held :
        assert (!pulse_i[i] || held_q[i] != '1 || sweep_q == IdxW'(i))
        else $error("more events than can wait for the sweep");
      end
    end
  end
`endif
endmodule
