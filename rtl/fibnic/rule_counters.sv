// SPDX-License-Identifier: Apache-2.0
// Hits of each rule on one port, in a memory.
//
// Latency   : idx_i to cnt_o: 1 edge. A hit shows 2 edges after hit_i.
// Clock     : clk_i, rst_i synchronous. Reset clears the memory, a word an edge.
// Handshake : a rule may be hit in every cycle: plans that waited for one before them are made in
//             cycles running.
// Drops     : hits while the memory is being cleared.
// Source    : common practice.
module rule_counters #(
  /// Rules; a power of two.
  parameter int unsigned Rules = 64,
  localparam int unsigned RuleW = Rules > 1 ? $clog2(Rules) : 1
) (
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             hit_i,
  input  logic [RuleW-1:0] rule_i,
  input  logic [RuleW-1:0] idx_i,
  output logic [     31:0] cnt_o
);
  logic hit_q, again_q, cleared_q, we;
  logic [RuleW-1:0] rule_q, clear_q, waddr;
  logic [31:0] old, wdata, wdata_q;

  assign we    = hit_q || !cleared_q;
  assign waddr = cleared_q ? rule_q : clear_q;
  // The memory does not have the last hit yet when the same rule is hit again at once.
  assign wdata = !cleared_q ? '0 : again_q ? wdata_q + 1'b1 : old + 1'b1;

  always_ff @(posedge clk_i) begin
    rule_q  <= rule_i;
    wdata_q <= wdata;
    again_q <= hit_q && rule_q == rule_i;
    if (rst_i) begin
      hit_q     <= 1'b0;
      cleared_q <= 1'b0;
      clear_q   <= '0;
    end else begin
      hit_q   <= hit_i && cleared_q;
      clear_q <= clear_q + 1'b1;
      if (clear_q == '1) cleared_q <= 1'b1;
    end
  end

  ram_1r1w #(
    .data_t  (logic [31:0]),
    .Depth   (Rules),
    .InitZero(1'b0)
  ) u_sum (
    .clk_i,
    .we_i   (we),
    .waddr_i(waddr),
    .wdata_i(wdata),
    .re_i   (hit_i),
    .raddr_i(rule_i),
    .rdata_o(old)
  );

  ram_1r1w #(
    .data_t  (logic [31:0]),
    .Depth   (Rules),
    .InitZero(1'b0)
  ) u_shown (
    .clk_i,
    .we_i   (we),
    .waddr_i(waddr),
    .wdata_i(wdata),
    .re_i   (1'b1),
    .raddr_i(idx_i),
    .rdata_o(cnt_o)
  );
endmodule
