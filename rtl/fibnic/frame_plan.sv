// SPDX-License-Identifier: Apache-2.0
// The forwarding decision of one input port: puts the header of a frame, the answers of the lookup
// and of the access list, and the next hop together.
//
// Headers wait in the order of arrival; the answers to both families and to the access list each
// wait for their header, since they take different times. What does not wait falls through, so that
// a frame alone pays only its own lookup. Verdicts, the first that applies: VDropRunt, VDropVlan,
// VHostLink, VDropNotMine, VHostNotIp, VDropHeader, VDropMartian, VDropAcl, VHostLocal,
// VHostOptions, VHostExpires, VHostNoRoute, VHostRoute, VDropRoute, VHostNeighbour, VHostNoRoute
// (egress not there), VHostMtu, VForward. rewrite puts VDropBad behind VDropRunt.
//
// Latency   : answer of the lookup in cycle 0: plan_valid_o in cycle 2, if no frame before it waits
//             and the access list has answered by then. Frames without a lookup: header in cycle 0,
//             plan in cycle 4. The second of each is a register that the clock needs: behind the next
//             hop's memory, the MTU and the verdict; and behind the header's sum.
// Clock     : clk_i, rst_i synchronous.
// Handshake : one header, one answer of the access list, and an answer of the lookup if v4 or v6 and
//             not brief, for each frame; none can wait. plan_pop_i takes the plan.
// Drops     : never. A header waits at most Waiting - 2 cycles, since all answers are there by
//             then and one plan is made a cycle; at most one of a kind comes a cycle: Waiting words
//             are enough. Plans wait for their frames, of which at most Plans are held.
// Source    : dissertation section 5.1.2.1; RFC 1812 section 5.3.
module frame_plan
  import fibnic_pkg::*;
#(
  /// Network ports.
  parameter int unsigned N = 4,
  /// Entries of the next-hop table; a power of two.
  parameter int unsigned NextHops = 4096,
  /// Rules of the access list.
  parameter int unsigned AclRules = 64,
  /// Longest time from a header to the last of its answers, cycles, and 2 more.
  parameter int unsigned Waiting = 32,
  /// Frames that are held.
  parameter int unsigned Plans = 64,
  localparam int unsigned RuleW = AclRules > 1 ? $clog2(AclRules) : 1
) (
  input  logic                               clk_i,
  input  logic                               rst_i,
  input  logic             [    N-1:0][15:0] mtu_i,
  input  logic                               hdr_valid_i,
  input  hdr_t                               hdr_i,
  input  logic                               v4_valid_i,
  input  fib_pkg::answer_t                   v4_answer_i,
  input  logic                               v6_valid_i,
  input  fib_pkg::answer_t                   v6_answer_i,
  input  logic                               acl_valid_i,
  input  logic                               acl_deny_i,
  input  logic                               acl_hit_i,
  input  logic             [RuleW-1:0]       acl_rule_i,
  input  logic                               wr_valid_i,
  // Words of other memories are wider and have more of them.
  // verilator lint_off UNUSEDSIGNAL
  input  fib_pkg::fib_wr_t                   wr_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic                               plan_valid_o,
  output plan_t                              plan_o,
  input  logic                               plan_pop_i,
  /// Pulse: a rule decided on a frame.
  output logic                               acl_hit_o,
  output logic             [RuleW-1:0]       acl_rule_o,
  /// Headers or plans are held.
  output logic                               busy_o
);
  import fib_pkg::*;

  localparam int unsigned IndexW = $clog2(NextHops);

  typedef struct packed {
    logic             deny;
    logic             hit;
    logic [RuleW-1:0] rule;
  } acl_answer_t;

  // Stage 0: what is left of the checksum.
  hdr_t        summed_q;
  logic        summed_valid_q;
  logic [15:0] folded;

  // Stage 1: the oldest header meets the answer of its lookup.
  logic head_valid, head_pop, heads_ready;
  hdr_t head;
  logic needs4, needs6, v4_valid, v6_valid, take;
  answer_t v4_answer, v6_answer;
  // A build may have fewer next hops than a leaf can name.
  // verilator lint_off UNUSEDSIGNAL
  answer_t route;
  // verilator lint_on UNUSEDSIGNAL

  // Stage 2: the next hop is there, and the access list.
  logic valid_q, make;
  // The sum was checked when it came.
  // verilator lint_off UNUSEDSIGNAL
  hdr_t               hdr_q;
  // verilator lint_on UNUSEDSIGNAL
  // The next hop was read by then.
  // verilator lint_off UNUSEDSIGNAL
  answer_t            route_q;
  // verilator lint_on UNUSEDSIGNAL
  next_hop_t          next_hop;
  logic               acl_valid;
  acl_answer_t        acl;
  logic               judged;  // got as far as the access list
  logic        [15:0] mtu;
  plan_t              plan;

  // Stage 3: it is told.
  plan_t              plan_q;
  logic plan_valid_q, acl_hit_q;
  logic [RuleW-1:0] acl_rule_q;

  // Ten words carry nine at most: where a fold carries again, less than 0xffff is left either way.
  assign folded = hdr_i.checksum[15:0] + 16'(hdr_i.checksum[19:16]);

  always_ff @(posedge clk_i) begin
    summed_q            <= hdr_i;
    summed_q.bad_header <= hdr_i.bad_header || folded != '1;
    summed_valid_q      <= !rst_i && hdr_valid_i;
  end

  sync_fifo #(
    .data_t(hdr_t),
    .Depth (Waiting)
  ) u_headers (
    .clk_i,
    .rst_i,
    .wdata_i (summed_q),
    .wvalid_i(summed_valid_q),
    .wready_o(heads_ready),
    .rdata_o (head),
    .rvalid_o(head_valid),
    .rready_i(head_pop),
    .count_o ()
  );

  through_fifo #(
    .data_t(answer_t),
    .Depth (Waiting)
  ) u_v4 (
    .clk_i,
    .rst_i,
    .wvalid_i(v4_valid_i),
    .wdata_i (v4_answer_i),
    .rvalid_o(v4_valid),
    .rdata_o (v4_answer),
    .rready_i(head_pop && needs4)
  );

  through_fifo #(
    .data_t(answer_t),
    .Depth (Waiting)
  ) u_v6 (
    .clk_i,
    .rst_i,
    .wvalid_i(v6_valid_i),
    .wdata_i (v6_answer_i),
    .rvalid_o(v6_valid),
    .rdata_o (v6_answer),
    .rready_i(head_pop && needs6)
  );

  through_fifo #(
    .data_t(acl_answer_t),
    .Depth (Waiting)
  ) u_acl (
    .clk_i,
    .rst_i,
    .wvalid_i(acl_valid_i),
    .wdata_i ('{deny: acl_deny_i, hit: acl_hit_i, rule: acl_rule_i}),
    .rvalid_o(acl_valid),
    .rdata_o (acl),
    .rready_i(valid_q)
  );

  assign make     = valid_q && acl_valid;
  assign take     = !valid_q || make;
  assign needs4   = head.v4 && !head.brief;
  assign needs6   = head.v6 && !head.brief;
  assign head_pop = head_valid && take && (!needs4 || v4_valid) && (!needs6 || v6_valid);
  assign route    = head.v6 ? v6_answer : v4_answer;

  ram_1r1w #(
    .data_t(next_hop_t),
    .Depth (NextHops)
  ) u_next_hops (
    .clk_i,
    .we_i   (wr_valid_i && wr_i.mem == MemNextHop),
    .waddr_i(wr_i.addr[IndexW-1:0]),
    .wdata_i(wr_i.data[$bits(next_hop_t)-1:0]),
    .re_i   (head_pop),
    .raddr_i(route.next_hop[IndexW-1:0]),
    .rdata_o(next_hop)
  );

  always_ff @(posedge clk_i) begin
    if (head_pop) begin
      hdr_q   <= head;
      route_q <= route;
    end
    if (rst_i) valid_q <= 1'b0;
    else valid_q <= head_pop || (valid_q && !make);
  end

  // Port and MAC address of a next hop come from one word: they never belong to different routes.
  always_comb begin
    mtu = '0;
    for (int unsigned i = 0; i < N; i++) if (next_hop.port == 5'(i)) mtu |= mtu_i[i];
  end

  always_comb begin
    plan.v6      = hdr_q.v6;
    plan.port    = next_hop.port[3:0];
    plan.mac     = next_hop.mac;
    judged       = 1'b0;
    plan.verdict = VForward;
    if (hdr_q.brief) plan.verdict = VDropRunt;
    else if (hdr_q.vlan_bad) plan.verdict = VDropVlan;
    else if (hdr_q.mac_group) plan.verdict = VHostLink;
    else if (!hdr_q.mac_mine) plan.verdict = VDropNotMine;
    else if (!hdr_q.v4 && !hdr_q.v6) plan.verdict = VHostNotIp;
    else if (hdr_q.bad_header) plan.verdict = VDropHeader;
    else if (hdr_q.martian) plan.verdict = VDropMartian;
    else begin
      judged = 1'b1;
      if (acl.deny) plan.verdict = VDropAcl;
      else if (hdr_q.local_only) plan.verdict = VHostLocal;
      else if (hdr_q.options) plan.verdict = VHostOptions;
      else if (hdr_q.expires) plan.verdict = VHostExpires;
      else if (!route_q.hit) plan.verdict = VHostNoRoute;
      else if (route_q.punt && route_q.port == PortHost[3:0]) plan.verdict = VHostRoute;
      else if (route_q.punt) plan.verdict = VHostNoRoute;
      else if (route_q.discard) plan.verdict = VDropRoute;
      else if (!next_hop.resolved) plan.verdict = VHostNeighbour;
      else if (int'(next_hop.port) >= int'(N)) plan.verdict = VHostNoRoute;
      else if (hdr_q.length > mtu) plan.verdict = VHostMtu;
    end
  end

  always_ff @(posedge clk_i) begin
    plan_q       <= plan;
    acl_rule_q   <= acl.rule;
    plan_valid_q <= !rst_i && make;
    acl_hit_q    <= !rst_i && make && judged && acl.hit;
  end

  assign acl_hit_o  = acl_hit_q;
  assign acl_rule_o = acl_rule_q;

  through_fifo #(
    .data_t(plan_t),
    .Depth (Plans)
  ) u_plans (
    .clk_i,
    .rst_i,
    .wvalid_i(plan_valid_q),
    .wdata_i (plan_q),
    .rvalid_o(plan_valid_o),
    .rdata_o (plan_o),
    .rready_i(plan_pop_i)
  );

  assign busy_o = summed_valid_q || head_valid || valid_q || plan_valid_q || plan_valid_o;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_header :
      assert (heads_ready || !summed_valid_q)
      else $error("a header waited longer than was reckoned with");
      a_family :
      assert (!hdr_valid_i || !(hdr_i.v4 && hdr_i.v6))
      else $error("a frame of both families");
    end
  end
`endif
endmodule
