// SPDX-License-Identifier: Apache-2.0
// When the first timer of all connections is due.
//
// One connection is looked at an edge, turn after turn: what is told is the first of the last whole turn.
//
// Latency : a connection that is written counts in alarm_o 2 * Conns + 2 edges later at the latest.
// Clock   : clk_i.
// Drops   : never.
// Source  : own.
module toe_alarm
  import toe_pkg::*;
#(
  parameter int unsigned Conns = 16,
  /// Longest delay of an acknowledgement, in microseconds.
  parameter int unsigned DelayUs = 50
) (
  input  logic     clk_i,
  input  logic     rst_i,
  input  logic     write_i,
  input  conn_id_t id_i,
  input  conn_t    conn_i,
  output alarm_t   alarm_o
);
  localparam int unsigned IdW = Conns > 1 ? $clog2(Conns) : 1;

  // ---- What is due of the connection that was written, an edge behind it --------------------------
  logic write_q, timer_q, owes_q, late;
  logic [IdW-1:0] id_q;
  us_t timer_at_q, owed_at_q;

  always_ff @(posedge clk_i) begin
    write_q    <= write_i && !rst_i;
    id_q       <= id_i[IdW-1:0];
    timer_q    <= conn_i.timer_on && conn_i.state != Closed;
    owes_q     <= conn_i.owed != '0 && conn_i.state != Closed;
    timer_at_q <= conn_i.timer_at;
    owed_at_q  <= conn_i.owed_since + us_t'(DelayUs);
  end
  assign late = timer_q && precedes(timer_at_q, owed_at_q);

  logic [Conns-1:0] armed_q;
  us_t              due_q   [Conns];
  always_ff @(posedge clk_i) begin
    if (rst_i) armed_q <= '0;
    else if (write_q) armed_q[id_q] <= timer_q || owes_q;
    if (write_q) due_q[id_q] <= owes_q && !late ? owed_at_q : timer_at_q;
  end

  // ---- Turns ---------------------------------------------------------------------------------------
  logic [IdW-1:0] at_q;
  alarm_t first_q, here, first;
  assign here = '{armed: armed_q[at_q], at: due_q[at_q]};
  always_comb begin
    first = first_q;
    if (at_q == '0) first = here;
    else if (here.armed && (!first_q.armed || precedes(here.at, first_q.at))) first = here;
  end
  always_ff @(posedge clk_i) begin
    first_q <= first;
    if (rst_i) begin
      at_q    <= '0;
      alarm_o <= '0;
    end else begin
      at_q <= at_q == IdW'(Conns - 1) ? '0 : at_q + 1'b1;
      if (at_q == IdW'(Conns - 1)) alarm_o <= first;
    end
  end

  // Numbers of connections are wider than the smallest build needs, and most of a connection is no time.
  logic unused;
  assign unused = ^{id_i, conn_i};
endmodule
