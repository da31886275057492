// SPDX-License-Identifier: Apache-2.0
// Counters of the switch: what happened on each port, and how often each rule of the access list
// decided on each port.
//
// Latency   : idx_i to cnt_o: 2 edges. A pulse shows after at most 32 * N + 4 edges.
// Clock     : clk_i, rst_i synchronous. Hits of rules count from Rules edges after reset on.
// Handshake : none. Counters wrap. What idx_i names and is not there reads 0.
// Drops     : never.
// Source    : dissertation section 5.1.2.4: a frame without room is dropped; here it is counted.
module switch_counters #(
  /// Network ports, up to 16.
  parameter int unsigned N = 4,
  /// Rules of the access list; a power of two, or 0 for none.
  parameter int unsigned AclRules = 64,
  localparam int unsigned Events = 32,
  localparam int unsigned RuleW = AclRules > 1 ? $clog2(AclRules) : 1
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  input  logic [N-1:0][Events-1:0] pulse_i,
  /// A rule decided on a frame of the port.
  input  logic [N-1:0]             acl_hit_i,
  input  logic [N-1:0][ RuleW-1:0] acl_rule_i,
  /// {access list, port[3:0], counter[6:0]}.
  input  logic [ 11:0]             idx_i,
  output logic [ 31:0]             cnt_o
);
  localparam int unsigned Count = N * Events;
  localparam int unsigned IdxW = $clog2(Count);
  localparam int unsigned EventW = $clog2(Events);

  logic acl, known_q, acl_q;
  logic [3:0] port, port_q;
  logic [6:0] index;
  logic [31:0] event_count, cnt_q;
  logic [N-1:0][31:0] rule_count;

  assign {acl, port, index} = idx_i;
  assign cnt_o              = cnt_q;

  event_counters #(
    .Count(Count)
  ) u_events (
    .clk_i,
    .rst_i,
    .pulse_i(Count'(pulse_i)),
    .idx_i  (IdxW'({port, index[EventW-1:0]})),
    .cnt_o  (event_count)
  );

  if (AclRules > 0) begin : gen_rules
    for (genvar p = 0; p < int'(N); p++) begin : gen_port
      rule_counters #(
        .Rules(AclRules)
      ) u_rules (
        .clk_i,
        .rst_i,
        .hit_i (acl_hit_i[p]),
        .rule_i(acl_rule_i[p]),
        .idx_i (index[RuleW-1:0]),
        .cnt_o (rule_count[p])
      );
    end
  end else begin : gen_no_rules
    assign rule_count = '0;
  end

  always_ff @(posedge clk_i) begin
    port_q  <= port;
    acl_q   <= acl;
    known_q <= int'(port) < int'(N) && int'(index) < (acl ? int'(AclRules) : int'(Events));
    cnt_q   <= event_count;
    if (acl_q) begin
      for (int unsigned p = 0; p < N; p++) if (port_q == 4'(p)) cnt_q <= rule_count[p];
    end
    if (!known_q) cnt_q <= '0;
  end

`ifndef SYNTHESIS
  initial begin
    assert (AclRules == 0 || (AclRules & (AclRules - 1)) == 0)
    else $fatal(1, "switch_counters: a power of two of rules");
  end
`endif
endmodule
