// SPDX-License-Identifier: Apache-2.0
// The forwarding decision of one input port, and the frame as it leaves: MAC addresses, TTL or hop
// limit, and header checksum rewritten. The egress is a tag beside the frame, set with its first
// beat, where the preamble was.
//
// Frames for the host keep their bytes. A frame that is still arriving can't be called back: if it
// turns out bad, its last beat says so and the MAC spoils its FCS.
//
// Latency   : hdr_valid_i in cycle 0: w_start_o with the first beat in cycle LookupLatency + 1,
//             if the frame before it has passed.
// Clock     : clk_i.
// Handshake : as port_rx gives and forward_fifo takes; the lookup answers
//             after LookupLatency edges.
// Drops     : whole frames, one pulse in stat_o for each; see verdict_e, and stat_o.full.
// Source    : dissertation section 5.1.2.1, figure 5.5; RFC 1624 equation 3; RFC 1812 section 5.3.
module rewrite #(
  /// Network ports.
  parameter int unsigned N = 4,
  /// Entries of the next-hop table; a power of two.
  parameter int unsigned NextHops = 4096,
  /// Edges from a lookup's request to its answer.
  parameter int unsigned LookupLatency = 6
) (
  input  logic                                  clk_i,
  input  logic                                  rst_i,
  input  logic                    [N-1:0][47:0] port_mac_i,
  // From the receiver.
  input  logic                                  hdr_valid_i,
  input  fibnic_pkg::hdr_t                      hdr_i,
  input  logic                                  beat_valid_i,
  input  fibnic_pkg::beat_t                     beat_i,
  output logic                                  beat_pop_o,
  input  logic                                  brief_valid_i,
  input  logic                                  brief_i,
  output logic                                  brief_pop_o,
  // Answers of the lookup, and its table writes.
  input  logic                                  rsp_valid_i,
  input  fibnic_pkg::lookup_rsp_t               rsp_i,
  input  logic                                  wr_valid_i,
  // Words of other memories are wider and have more of them.
  // verilator lint_off UNUSEDSIGNAL
  input  fibnic_pkg::fib_wr_t                   wr_i,
  // verilator lint_on UNUSEDSIGNAL
  // To the FIFOs; bit N is the host's.
  input  logic                    [  N:0]       room_i,
  output logic                    [  N:0]       w_start_o,
  output logic                    [  N:0]       w_valid_o,
  output fibnic_pkg::beat_t                     beat_o,
  /// Of the frame of beat_o.
  output fibnic_pkg::verdict_e                  verdict_o,
  output fibnic_pkg::port_stat_t                stat_o
);
  import fibnic_pkg::*;

  localparam int unsigned NextHopW = $clog2(NextHops);
  localparam int unsigned Plans = 4;

  // What to do with a frame.
  typedef struct packed {
    verdict_e    verdict;
    logic        v6;
    logic [3:0]  port;
    logic [47:0] mac;
  } plan_t;

  // Headers on their way along the lookup, the next hop and the verdict.
  logic      [LookupLatency:0] hdr_valid_q;
  hdr_t      [LookupLatency:0] hdr_q;
  hdr_t                        hdr;
  logic                        rsp_miss_q;
  logic      [            4:0] rsp_port_q;
  next_hop_t                   next_hop;
  logic      [            4:0] code;
  plan_t plan_new, plan;

  // Plans that wait for the frame before theirs to pass.
  plan_t wait_q[Plans];
  logic [$clog2(Plans)-1:0] wait_wptr_q, wait_rptr_q;
  logic [$clog2(Plans):0] wait_count_q;
  logic plan_valid, push, pull;

  // The frame that passes.
  logic start, run_q, brief, last;
  logic [2:0] idx, idx_q;  // beat; stays at 4
  logic [N:0] target, select, select_q;
  logic [1:0] owed_q;  // frames passed whose brief_i was not popped
  verdict_e verdict, verdict_q;
  logic [47:0] mac, mac_q, source;
  logic [3:0] port, port_q;
  logic v6, v6_q;
  logic [15:0] sum_in, sum_out;

  always_ff @(posedge clk_i) begin
    hdr_q[0] <= hdr_i;
    for (int unsigned i = 1; i <= LookupLatency; i++) hdr_q[i] <= hdr_q[i-1];
    rsp_miss_q <= !rsp_i.hit || rsp_i.punt;
    rsp_port_q <= rsp_i.port;
    if (rst_i) begin
      hdr_valid_q <= '0;
    end else begin
      hdr_valid_q[0] <= hdr_valid_i;
      for (int unsigned i = 1; i <= LookupLatency; i++) hdr_valid_q[i] <= hdr_valid_q[i-1];
    end
  end

  ram_1r1w #(
    .data_t(next_hop_t),
    .Depth (NextHops)
  ) u_next_hops (
    .clk_i,
    .we_i   (wr_valid_i && wr_i.mem == MemNextHop),
    .waddr_i(wr_i.addr[NextHopW-1:0]),
    .wdata_i(wr_i.data[$bits(next_hop_t)-1:0]),
    .re_i   (rsp_valid_i),
    .raddr_i(rsp_i.next_hop[NextHopW-1:0]),
    .rdata_o(next_hop)
  );

  assign hdr  = hdr_q[LookupLatency];
  // Port and MAC address of a next hop come from one word: they never belong to different routes.
  assign code = rsp_port_q[4] ? rsp_port_q : next_hop.port;

  always_comb begin
    plan_new.v6      = hdr.v6;
    plan_new.port    = code[3:0];
    plan_new.mac     = next_hop.mac;
    plan_new.verdict = VForward;
    if (hdr.brief) plan_new.verdict = VDropRunt;
    else if (hdr.mac_group) plan_new.verdict = VHostLink;
    else if (!hdr.mac_mine) plan_new.verdict = VDropNotMine;
    else if (!hdr.v4 && !hdr.v6) plan_new.verdict = VHostNotIp;
    else if (hdr.bad_header) plan_new.verdict = VDropHeader;
    else if (hdr.martian) plan_new.verdict = VDropMartian;
    else if (hdr.local_only) plan_new.verdict = VHostLocal;
    else if (hdr.options) plan_new.verdict = VHostOptions;
    else if (hdr.expires) plan_new.verdict = VHostExpires;
    else if (rsp_miss_q) plan_new.verdict = VHostNoRoute;
    else if (rsp_port_q == PortHost) plan_new.verdict = VHostRoute;
    else if (rsp_port_q == PortDiscard) plan_new.verdict = VDropRoute;
    else if (rsp_port_q[4]) plan_new.verdict = VHostNoRoute;
    else if (!next_hop.resolved) plan_new.verdict = VHostNeighbour;
    else if (int'(code) >= int'(N)) plan_new.verdict = VHostNoRoute;
  end

  assign plan_valid = hdr_valid_q[LookupLatency] || wait_count_q != '0;
  assign plan       = wait_count_q == '0 ? plan_new : wait_q[wait_rptr_q];
  assign start      = plan_valid && !run_q && beat_valid_i;
  assign pull       = start && wait_count_q != '0;
  assign push       = hdr_valid_q[LookupLatency] && !(start && wait_count_q == '0);

  always_ff @(posedge clk_i) begin
    if (push) wait_q[wait_wptr_q] <= plan_new;
    if (start) begin
      mac_q     <= plan.mac;
      port_q    <= plan.port;
      v6_q      <= plan.v6;
      verdict_q <= verdict;
    end
    if (rst_i) begin
      wait_wptr_q  <= '0;
      wait_rptr_q  <= '0;
      wait_count_q <= '0;
    end else begin
      wait_wptr_q  <= wait_wptr_q + $clog2(Plans)'(push);
      wait_rptr_q  <= wait_rptr_q + $clog2(Plans)'(pull);
      wait_count_q <= wait_count_q + ($clog2(Plans) + 1)'(push) - ($clog2(Plans) + 1)'(pull);
    end
  end

  assign beat_pop_o  = start || (run_q && beat_valid_i);
  assign last        = beat_pop_o && beat_i.last;
  assign brief       = brief_valid_i && owed_q == '0 && brief_i;
  assign brief_pop_o = brief_valid_i && (last || owed_q != '0);
  assign idx         = start ? 3'd0 : idx_q;
  assign verdict     = start ? (brief ? VDropRunt : plan.verdict) : verdict_q;

  always_comb begin
    target = '0;
    unique case (plan.verdict)
      VForward: for (int unsigned i = 0; i < N; i++) target[i] = plan.port == 4'(i);
      VDropNotMine, VDropHeader, VDropMartian, VDropRoute, VDropRunt: ;
      default: target[N] = 1'b1;
    endcase
    if (brief) target = '0;
  end

  assign select    = start ? target & room_i : select_q;
  assign w_start_o = start ? select : '0;
  assign w_valid_o = beat_pop_o ? select : '0;

  always_ff @(posedge clk_i) begin
    if (start) select_q <= select;
    if (rst_i) begin
      run_q  <= 1'b0;
      idx_q  <= '0;
      owed_q <= '0;
    end else begin
      if (beat_pop_o) begin
        run_q <= !beat_i.last;
        idx_q <= idx == 3'd4 ? 3'd4 : idx + 1'b1;
      end
      owed_q <= owed_q + 2'(last) - 2'(brief_pop_o);
    end
  end

  // The frame as it leaves. Byte 0 is in the low lane.
  assign mac  = start ? plan.mac : mac_q;
  assign port = start ? plan.port : port_q;
  assign v6   = start ? plan.v6 : v6_q;

  always_comb begin
    source = '0;
    for (int unsigned i = 0; i < N; i++) if (port == 4'(i)) source |= port_mac_i[i];
  end

  // HC' = ~(~HC + ~m + m') with m' = m - 0x0100.
  always_comb begin
    logic [16:0] sum;
    sum_in  = {beat_i.data[7:0], beat_i.data[15:8]};
    sum     = 17'({1'b0, ~sum_in}) + 17'h0feff;
    sum_out = ~(sum[15:0] + 16'(sum[16]));
  end

  always_comb begin
    beat_o = beat_i;
    if (verdict == VForward) begin
      unique case (idx)
        3'd0: begin
          for (int unsigned i = 0; i < 6; i++) beat_o.data[8*i+:8] = mac[8*(5-i)+:8];
          beat_o.data[63:48] = {source[39:32], source[47:40]};
        end
        3'd1: for (int unsigned i = 0; i < 4; i++) beat_o.data[8*i+:8] = source[8*(3-i)+:8];
        3'd2:
        if (v6) beat_o.data[47:40] = beat_i.data[47:40] - 8'd1;
        else beat_o.data[55:48] = beat_i.data[55:48] - 8'd1;
        3'd3: if (!v6) beat_o.data[15:0] = {sum_out[7:0], sum_out[15:8]};
        default: ;
      endcase
    end
  end

  assign verdict_o = verdict;

  always_comb begin
    stat_o         = '0;
    stat_o.spoiled = last && beat_i.bad && |select;
    if (start) begin
      stat_o.verdict[verdict] = 1'b1;
      stat_o.full             = |(target & ~room_i);
    end
  end

`ifndef SYNTHESIS
  logic started_q;
  always_ff @(posedge clk_i) begin
    started_q <= !rst_i && run_q && !(beat_pop_o && beat_i.last);
    if (!rst_i) begin
      a_latency :
      assert (rsp_valid_i == hdr_valid_q[LookupLatency-1])
      else $error("the lookup does not keep its latency");
      a_plans :
      assert (!push || wait_count_q != ($clog2(Plans) + 1)'(Plans))
      else $error("a plan found no room");
      a_steady :
      assert (!(started_q && run_q) || beat_valid_i)
      else $error("a frame that passes must not stall");
    end
  end
`endif
endmodule
