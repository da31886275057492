// SPDX-License-Identifier: Apache-2.0
// The switch without its MACs: lookups, access lists, plans, rewriting, N x N FIFOs and a host port,
// no packet buffer. Both speeds use it.
//
// Every port has its own lookup, so that no frame waits for another's; with Lookups = 1 all share
// one, which costs N - 1 cycles. At 10G no more than 7 can.
//
// Latency   : request of the lookup (last byte of the address, ByteDelay = 0) in cycle 0: first beat
//             at mac_o (start) in cycle L + 2, L being fib_lookup's or lookup_share's latency of the
//             family, if frames before have passed and the output is free; the same for every frame
//             and table.
// Clock     : clk_i, rst_i synchronous; the transmit clock of all ports.
// Handshake : rx and mac: see fibnic_pkg. s_host, m_host: see host_port. Writes: valid/ready, one
//             word of any memory; cnt_o: see switch_counters. busy_o: something is under way here, or
//             was 16 cycles ago, or busy_i says so.
// Drops     : whole frames, counted by port and reason.
// Source    : dissertation chapter 5, figures 5.5 to 5.8.
module fibnic_core
  import fibnic_pkg::*;
  import fib_pkg::*;
  import eth_pkg::*;
#(
  /// Network ports, 2 to 16.
  parameter int unsigned N = 4,
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Entries of the next-hop table; a power of two.
  parameter int unsigned NextHops = 4096,
  /// Lookups: N, or 1 for all ports; where a beat takes a cycle, for 7 at most.
  parameter int unsigned Lookups = N,
  /// Rules of the access list; 0 for none.
  parameter int unsigned AclRules = 64,
  /// Edges of the access list, 1 or 2.
  parameter int unsigned AclLatency = 2,
  /// 0: ports never store and check, and beats_held() is small.
  parameter int unsigned StoreAndCheck = 1,
  /// Frames that may wait for an output, of each input, beside one that is being sent.
  parameter int unsigned Waiting = 4,
  /// Memory for them, in frames of the longest size.
  parameter int unsigned FifoFrames = 2,
  /// Cycles a beat on the line.
  parameter int unsigned BeatCycles = 1,
  /// Frequency of clk_i, of which the host's frames a second are made.
  parameter int unsigned ClockHz = 156_250_000,
  // As fib_lookup has them.
  parameter int unsigned V4Leaves = 4096,
  parameter int unsigned V4Groups = 16,
  parameter int unsigned V4Hosts = 256,
  parameter int unsigned V6Nodes[V6Levels-1] = '{256, 256, 256, 256, 256, 256, 256},
  parameter int unsigned V6Leaves = 4096,
  parameter int unsigned V6Hosts = 256,
  parameter int unsigned V6TcamEntries = 32,
  parameter int unsigned ReadLatency = 1,
  parameter int unsigned SumRegister = 0,
  parameter int unsigned OutRegister = 0,
  parameter int unsigned ByteDelay = 0,
  parameter int unsigned Sram22 = 0,
  parameter int unsigned Sram22IndexW = 22
) (
  input  logic              clk_i,
  input  logic              rst_i,
  // Ports.
  output port_cfg_t [N-1:0] cfg_o,
  input  from_rx_t  [N-1:0] rx_i,
  output to_rx_t    [N-1:0] rx_o,
  output to_mac_t   [N-1:0] mac_o,
  input  from_mac_t [N-1:0] mac_i,
  input  rx_stat_t  [N-1:0] rx_stat_i,
  input  tx_stat_t  [N-1:0] tx_stat_i,
  /// A port or its MAC holds something.
  input  logic      [N-1:0] busy_i,
  // Host.
  input  logic      [ 63:0] s_host_tdata_i,
  input  logic      [  7:0] s_host_tkeep_i,
  input  logic              s_host_tvalid_i,
  output logic              s_host_tready_o,
  input  logic              s_host_tlast_i,
  input  logic      [  3:0] s_host_tuser_i,
  output logic      [ 63:0] m_host_tdata_o,
  output logic      [  7:0] m_host_tkeep_o,
  output logic              m_host_tvalid_o,
  input  logic              m_host_tready_i,
  output logic              m_host_tlast_o,
  output logic      [  9:0] m_host_tuser_o,
  // Tables, settings, counters.
  input  logic              wr_valid_i,
  output logic              wr_ready_o,
  input  fib_wr_t           wr_i,
  input  logic      [ 11:0] cnt_idx_i,
  output logic      [ 31:0] cnt_o,
  output logic      [N-1:0] check_o,
  output logic              busy_o
);
  localparam int unsigned RuleW = AclRules > 1 ? $clog2(AclRules) : 1;
  // The longest lookup, from its request to its answer.
  localparam int unsigned Longest = larger(
      v4_latency(
          ReadLatency, SumRegister, ByteDelay, Sram22
      ),
      v6_latency(
          ReadLatency, SumRegister, ByteDelay, Sram22)
  ) + OutRegister + (Lookups == N ? 0 : N - 1);
  // A header and its key come 4 cycles after the request at most, the access list takes 2.
  localparam int unsigned LookupCycles = Longest + 8;
  // An answer waits for those of frames in front.
  localparam int unsigned DrainExtra = 16;
  localparam int unsigned LingerW = 4;
  // At 10G the shortest IPv6 frame asks 8 cycles before an IPv4 frame right behind it, and a crossing may
  // take one of them: by then the port must have had its turn.
  localparam int unsigned MostShared = BeatCycles == 1 ? 7 : 16;

  if (N < 2 || N > 16) begin : gen_no_ports
    $fatal(1, "fibnic_core: 2 to 16 ports");
  end
  if (Lookups != N && Lookups != 1) begin : gen_no_lookups
    $fatal(1, "fibnic_core: one lookup, or one for each port");
  end
  if (Lookups != N && N > MostShared) begin : gen_too_many_share
    $fatal(1, "fibnic_core: at 10G no more than 7 ports share a lookup");
  end

  port_cfg_t [N-1:0]       cfg;
  logic      [N-1:0][47:0] macs;
  logic      [N-1:0][15:0] mtus;

  // Writes go to lookups and access lists, which may hold them up, and one edge later to all else.
  logic lookup_ready, acl_ready;
  logic    [N-1:0] acl_ready_each;
  logic            wr_valid_q;
  fib_wr_t         wr_q;

  logic [N-1:0] req4, req6, v4_valid, v6_valid;
  logic [N-1:0][127:0] addr;
  answer_t [N-1:0] v4_answer, v6_answer;

  // [output][input]; the host is the last of each.
  logic [N-1:0][N:0] req, start, active, next;
  beat_t [N-1:0][N:0] beat;
  logic [N-1:0][N:0] room, w_start, w_valid;
  beat_t    [N-1:0] w_beat;
  verdict_e [N-1:0] w_verdict;

  logic [N-1:0] to_host_room, to_host_start, to_host_valid;
  logic [N-1:0] from_host_req, from_host_start, from_host_active, from_host_next;
  beat_t [N-1:0]            from_host_beat;

  logic  [N-1:0][     31:0] pulse;
  logic  [N-1:0]            acl_hit;
  logic  [N-1:0][RuleW-1:0] acl_rule;

  logic [N-1:0] plan_busy, rewrite_busy;
  logic [N-1:0][N-1:0] fifo_busy;
  logic host_busy, active_now;
  logic [LingerW-1:0] linger_q;

  assign cfg_o      = cfg;

  assign acl_ready  = &acl_ready_each;
  assign wr_ready_o = lookup_ready && acl_ready;

  always_ff @(posedge clk_i) begin
    wr_q       <= wr_i;
    wr_valid_q <= !rst_i && wr_valid_i && wr_ready_o;
  end

  port_settings #(
    .N       (N),
    .MaxFrame(MaxFrame)
  ) u_settings (
    .clk_i,
    .rst_i,
    .wr_valid_i(wr_valid_q),
    .wr_i      (wr_q),
    .cfg_o     (cfg)
  );

  if (Lookups == N) begin : gen_lookups
    logic [N-1:0] wr_ready;
    assign lookup_ready = wr_ready[0];

    for (genvar p = 0; p < int'(N); p++) begin : gen_lookup
      fib_lookup #(
        .V4Leaves     (V4Leaves),
        .V4Groups     (V4Groups),
        .V4Hosts      (V4Hosts),
        .V6Nodes      (V6Nodes),
        .V6Leaves     (V6Leaves),
        .V6Hosts      (V6Hosts),
        .V6TcamEntries(V6TcamEntries),
        .ReadLatency  (ReadLatency),
        .SumRegister  (SumRegister),
        .OutRegister  (OutRegister),
        .ByteDelay    (ByteDelay),
        .Sram22       (Sram22),
        .Sram22IndexW (Sram22IndexW),
        .DrainExtra   (DrainExtra)
      ) u_lookup (
        .clk_i,
        .rst_i,
        .v4_valid_i (req4[p]),
        .v4_addr_i  (addr[p][127:96]),
        .v4_valid_o (v4_valid[p]),
        .v4_answer_o(v4_answer[p]),
        .v6_valid_i (req6[p]),
        .v6_addr_i  (addr[p]),
        .v6_valid_o (v6_valid[p]),
        .v6_answer_o(v6_answer[p]),
        .wr_valid_i (wr_valid_i && acl_ready),
        .wr_ready_o (wr_ready[p]),
        .wr_i
      );
    end

`ifndef SYNTHESIS
    always_ff @(posedge clk_i) begin
      if (!rst_i) begin
        a_step :
        assert (wr_ready == '0 || wr_ready == '1)
        else $error("the lookups are out of step");
      end
    end
`endif
  end else begin : gen_shared
    lookup_share #(
      .N            (N),
      .V4Leaves     (V4Leaves),
      .V4Groups     (V4Groups),
      .V4Hosts      (V4Hosts),
      .V6Nodes      (V6Nodes),
      .V6Leaves     (V6Leaves),
      .V6Hosts      (V6Hosts),
      .V6TcamEntries(V6TcamEntries),
      .ReadLatency  (ReadLatency),
      .SumRegister  (SumRegister),
      .OutRegister  (OutRegister),
      .ByteDelay    (ByteDelay),
      .Sram22       (Sram22),
      .Sram22IndexW (Sram22IndexW),
      .DrainExtra   (DrainExtra)
    ) u_lookup (
      .clk_i,
      .rst_i,
      .v4_valid_i (req4),
      .v6_valid_i (req6),
      .addr_i     (addr),
      .v4_valid_o (v4_valid),
      .v4_answer_o(v4_answer),
      .v6_valid_o (v6_valid),
      .v6_answer_o(v6_answer),
      .wr_valid_i (wr_valid_i && acl_ready),
      .wr_ready_o (lookup_ready),
      .wr_i
    );
  end

  for (genvar p = 0; p < int'(N); p++) begin : gen_port
    logic acl_valid, acl_deny, acl_match;
    logic [RuleW-1:0] acl_first;
    logic plan_valid, plan_pop, store, change;
    logic  rst;
    plan_t plan;
    port_stat_t stat, counted;
    logic refused;

    assign rst     = rst_i || rx_i[p].clear;

    assign req4[p] = rx_i[p].req4;
    assign req6[p] = rx_i[p].req6;
    assign addr[p] = rx_i[p].addr;
    assign macs[p] = cfg[p].mac;
    assign mtus[p] = cfg[p].mtu;

    if (AclRules == 0) begin : gen_permit
      assign acl_valid         = rx_i[p].acl_valid;
      assign acl_deny          = 1'b0;
      assign acl_match         = 1'b0;
      assign acl_first         = '0;
      assign acl_ready_each[p] = 1'b1;
    end else begin : gen_acl
      acl #(
        .Rules  (AclRules),
        .Latency(AclLatency)
      ) u_acl (
        .clk_i,
        .rst_i,
        .port_i    (4'(p)),
        .valid_i   (rx_i[p].acl_valid),
        .key_i     (rx_i[p].acl),
        .valid_o   (acl_valid),
        .deny_o    (acl_deny),
        .hit_o     (acl_match),
        .rule_o    (acl_first),
        .wr_valid_i(wr_valid_i && wr_ready_o),
        .wr_ready_o(acl_ready_each[p]),
        .wr_i
      );
    end

    frame_plan #(
      .N       (N),
      .NextHops(NextHops),
      .AclRules(AclRules),
      .Waiting (LookupCycles),
      .Plans   (frames_held(MaxFrame, StoreAndCheck))
    ) u_plan (
      .clk_i,
      .rst_i       (rst),
      .mtu_i       (mtus),
      .hdr_valid_i (rx_i[p].hdr_valid),
      .hdr_i       (rx_i[p].hdr),
      .v4_valid_i  (v4_valid[p]),
      .v4_answer_i (v4_answer[p]),
      .v6_valid_i  (v6_valid[p]),
      .v6_answer_i (v6_answer[p]),
      .acl_valid_i (acl_valid),
      .acl_deny_i  (acl_deny),
      .acl_hit_i   (acl_match),
      .acl_rule_i  (acl_first),
      .wr_valid_i  (wr_valid_q),
      .wr_i        (wr_q),
      .plan_valid_o(plan_valid),
      .plan_o      (plan),
      .plan_pop_i  (plan_pop),
      .acl_hit_o   (acl_hit[p]),
      .acl_rule_o  (acl_rule[p]),
      .busy_o      (plan_busy[p])
    );

    if (StoreAndCheck != 0) begin : gen_check
      check_mode u_check (
        .clk_i,
        .rst_i,
        .mode_i  (check_e'(cfg[p].check)),
        .on_i    (cfg[p].check_on),
        .off_i   (cfg[p].check_off),
        .end_i   (rx_o[p].end_pop),
        .bad_i   (rx_i[p].ending.bad),
        .store_o (store),
        .change_o(change)
      );
    end else begin : gen_never
      assign store  = 1'b0;
      assign change = 1'b0;
    end

    assign check_o[p] = store;

    rewrite #(
      .N         (N),
      .BeatCycles(BeatCycles)
    ) u_rewrite (
      .clk_i,
      .rst_i       (rst),
      .mac_i       (macs),
      .store_i     (store),
      .plan_valid_i(plan_valid),
      .plan_i      (plan),
      .plan_pop_o  (plan_pop),
      .beat_valid_i(rx_i[p].beat_valid),
      .beat_i      (rx_i[p].beat),
      .beat_pop_o  (rx_o[p].beat_pop),
      .end_valid_i (rx_i[p].end_valid),
      .end_i       (rx_i[p].ending),
      .end_pop_o   (rx_o[p].end_pop),
      .room_i      (room[p]),
      .w_start_o   (w_start[p]),
      .w_valid_o   (w_valid[p]),
      .beat_o      (w_beat[p]),
      .verdict_o   (w_verdict[p]),
      .stat_o      (stat),
      .open_o      (rx_o[p].open),
      .busy_o      (rewrite_busy[p])
    );

    assign rx_o[p].idle = !plan_busy[p] && !rewrite_busy[p];

    for (genvar o = 0; o < int'(N); o++) begin : gen_out
      forward_fifo #(
        .MaxFrame(MaxFrame),
        .Waiting (Waiting),
        .Frames  (FifoFrames)
      ) u_fifo (
        .clk_i,
        .rst_i,
        .room_o   (room[p][o]),
        .w_start_i(w_start[p][o]),
        .w_valid_i(w_valid[p][o]),
        .wdata_i  (w_beat[p]),
        .req_o    (req[o][p]),
        .start_i  (start[o][p]),
        .active_o (active[o][p]),
        .rdata_o  (beat[o][p]),
        .next_i   (next[o][p]),
        .busy_o   (fifo_busy[p][o])
      );
    end

    // What is forwarded does not pass here. The verdict is the frame's, whatever becomes of it.
    host_policer #(
      .ClockHz(ClockHz)
    ) u_policer (
      .clk_i,
      .rst_i,
      .police_i (cfg[p].police),
      .offer_i  (|(stat.verdict & ToHost)),
      .room_i   (to_host_room[p]),
      .room_o   (room[p][N]),
      .refused_o(refused)
    );

    always_comb begin
      counted      = stat;
      counted.full = stat.full && !refused;
    end

    assign to_host_start[p]   = w_start[p][N];
    assign to_host_valid[p]   = w_valid[p][N];
    assign req[p][N]          = from_host_req[p];
    assign active[p][N]       = from_host_active[p];
    assign beat[p][N]         = from_host_beat[p];
    assign from_host_start[p] = start[p][N];
    assign from_host_next[p]  = next[p][N];

    egress #(
      .N(N + 1)
    ) u_egress (
      .clk_i,
      .rst_i,
      .req_i   (req[p]),
      .start_o (start[p]),
      .active_i(active[p]),
      .beat_i  (beat[p]),
      .next_o  (next[p]),
      .mac_o   (mac_o[p]),
      .mac_i   (mac_i[p])
    );

    assign pulse[p] = 32'({refused, change, rx_stat_i[p], tx_stat_i[p], counted});
  end

  host_port #(
    .N         (N),
    .MaxFrame  (MaxFrame),
    .Waiting   (Waiting),
    .FifoFrames(FifoFrames)
  ) u_host (
    .clk_i,
    .rst_i,
    .s_host_tdata_i,
    .s_host_tkeep_i,
    .s_host_tvalid_i,
    .s_host_tready_o,
    .s_host_tlast_i,
    .s_host_tuser_i,
    .m_host_tdata_o,
    .m_host_tkeep_o,
    .m_host_tvalid_o,
    .m_host_tready_i,
    .m_host_tlast_o,
    .m_host_tuser_o,
    .room_o     (to_host_room),
    .w_start_i  (to_host_start),
    .w_valid_i  (to_host_valid),
    .w_beat_i   (w_beat),
    .w_verdict_i(w_verdict),
    .req_o      (from_host_req),
    .start_i    (from_host_start),
    .active_o   (from_host_active),
    .beat_o     (from_host_beat),
    .next_i     (from_host_next),
    .busy_o     (host_busy)
  );

  switch_counters #(
    .N       (N),
    .AclRules(AclRules)
  ) u_counters (
    .clk_i,
    .rst_i,
    .pulse_i   (pulse),
    .acl_hit_i (acl_hit),
    .acl_rule_i(acl_rule),
    .idx_i     (cnt_idx_i),
    .cnt_o
  );

  // Words on their way between two of these show as nothing for some cycles: hence the linger.
  assign active_now = rst_i || |busy_i || |plan_busy || |rewrite_busy || |fifo_busy || host_busy ||
      s_host_tvalid_i || wr_valid_i || !wr_ready_o;
  assign busy_o = active_now || linger_q != '0;

  always_ff @(posedge clk_i) begin
    if (active_now) linger_q <= '1;
    else if (linger_q != '0) linger_q <= linger_q - 1'b1;
  end

`ifndef SYNTHESIS
  initial begin
    assert (NextHops <= 1 << NextHopW)
    else $fatal(1, "fibnic_core: more next hops than a leaf can name");
  end
`endif
endmodule
