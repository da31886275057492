// SPDX-License-Identifier: Apache-2.0
// The cut-through L3 switch at 10G: N ports, a host port, N x N FIFOs, no packet buffer.
//
// The core clock is the transmit clock of all ports; with AsyncRx each port has its receive clock.
// Every port has its own lookup, so that no frame waits for another's. The host's frames enter
// without FCS and name their port; frames for the host carry verdict and port of arrival.
//
// Latency   : preamble in to preamble out, both on the pins, in lane 0, output free, clocks equal:
//             8 + LookupLatency cycles for IPv4, 10 + LookupLatency for IPv6, 3 more with AsyncRx
//             (2 to 3 by the phase of the clocks); the same for every frame and table. Lane 4 on
//             one side makes it half a cycle more.
// Clock     : clk_i; clk_rx_i for the pins of each receiver. rst_i and rst_rx_i must overlap.
// Handshake : s_host and m_host are AXI4-Streams without FCS. s_host: tuser is the port, read with
//             the first beat. m_host: tuser is {bad, port of arrival, verdict}. Table writes:
//             always ready. cnt_o follows cnt_idx_i at once; the counters wrap.
// Drops     : whole frames, counted by port and reason.
// Source    : dissertation chapter 5, figures 5.5 to 5.8.
module fibnic_switch #(
  /// Network ports, 2 to 16.
  parameter int unsigned N = 4,
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Entries of the next-hop table; a power of two.
  parameter int unsigned NextHops = 4096,
  /// Edges from a lookup's request to its answer.
  parameter int unsigned LookupLatency = 6,
  /// Receive clocks unrelated to the core clock.
  parameter bit AsyncRx = 1'b0,
  localparam int unsigned Counters = 32,
  localparam int unsigned CntW = $clog2(N * Counters)
) (
  input  logic                                 clk_i,
  input  logic                                 rst_i,
  input  logic                [   N-1:0]       clk_rx_i,
  input  logic                [   N-1:0]       rst_rx_i,
  input  logic                [   N-1:0][63:0] xgmii_rxd_i,
  input  logic                [   N-1:0][ 7:0] xgmii_rxc_i,
  output logic                [   N-1:0][63:0] xgmii_txd_o,
  output logic                [   N-1:0][ 7:0] xgmii_txc_o,
  /// MAC addresses of the ports, first byte on the wire on top.
  input  logic                [   N-1:0][47:0] port_mac_i,
  input  logic                [    63:0]       s_host_tdata_i,
  input  logic                [     7:0]       s_host_tkeep_i,
  input  logic                                 s_host_tvalid_i,
  output logic                                 s_host_tready_o,
  input  logic                                 s_host_tlast_i,
  input  logic                [     3:0]       s_host_tuser_i,
  output logic                [    63:0]       m_host_tdata_o,
  output logic                [     7:0]       m_host_tkeep_o,
  output logic                                 m_host_tvalid_o,
  input  logic                                 m_host_tready_i,
  output logic                                 m_host_tlast_o,
  output logic                [     8:0]       m_host_tuser_o,
  input  logic                                 wr_valid_i,
  output logic                                 wr_ready_o,
  input  fibnic_pkg::fib_wr_t                  wr_i,
  /// {port, counter}: 0 to 13 verdict_e, 14 full, 15 spoiled, 16 on: tx_stat_t from bit 0, then
  /// rx_stat_t from bit 0.
  input  logic                [CntW-1:0]       cnt_idx_i,
  output logic                [    31:0]       cnt_o
);
  import fibnic_pkg::*;
  import eth_pkg::*;

  localparam int unsigned PortW = $clog2(N);

  typedef struct packed {
    beat_t    beat;
    verdict_e verdict;
    logic     last;
  } host_beat_t;

  // [output][input]; the host is the last of each.
  logic [N-1:0][N:0] req, start, active, next;
  beat_t [N-1:0][N:0] beat;
  logic [N-1:0][N:0] room, w_start, w_valid;
  beat_t [N-1:0] w_beat;
  logic [N-1:0] host_req, host_start, host_active, host_next;
  host_beat_t [N-1:0]               host_beat;
  logic       [N-1:0][Counters-1:0] pulse;
  logic [N-1:0] host_room, host_w_start, host_w_valid;
  logic host_first_q, host_take;
  logic [3:0] host_port, host_port_q;
  beat_t host_w_beat;

  assign wr_ready_o = 1'b1;

  for (genvar p = 0; p < int'(N); p++) begin : gen_port
    logic hdr_valid, beat_valid, beat_pop, brief_valid, brief, brief_pop, rsp_valid;
    hdr_t        hdr;
    lookup_req_t lookup_req;
    lookup_rsp_t lookup_rsp;
    beat_t       rx_beat;
    verdict_e    verdict;
    host_beat_t  to_host;
    port_stat_t  stat;
    rx_stat_t rx_stat, rx_stat_core;
    tx_stat_t tx_stat;

    port_rx #(
      .MaxFrame(MaxFrame),
      .AsyncRx (AsyncRx)
    ) u_rx (
      .clk_rx_i     (clk_rx_i[p]),
      .rst_rx_i     (rst_rx_i[p]),
      .xgmii_rxd_i  (xgmii_rxd_i[p]),
      .xgmii_rxc_i  (xgmii_rxc_i[p]),
      .stat_o       (rx_stat),
      .clk_i,
      .rst_i,
      .mac_i        (port_mac_i[p]),
      .hdr_valid_o  (hdr_valid),
      .hdr_o        (hdr),
      .req_o        (lookup_req),
      .beat_valid_o (beat_valid),
      .beat_o       (rx_beat),
      .beat_pop_i   (beat_pop),
      .brief_valid_o(brief_valid),
      .brief_o      (brief),
      .brief_pop_i  (brief_pop)
    );

    lookup_stub #(
      .Latency(LookupLatency)
    ) u_lookup (
      .clk_i,
      .rst_i,
      .req_valid_i(hdr_valid),
      .req_i      (lookup_req),
      .rsp_valid_o(rsp_valid),
      .rsp_o      (lookup_rsp),
      .wr_valid_i,
      .wr_i
    );

    rewrite #(
      .N            (N),
      .NextHops     (NextHops),
      .LookupLatency(LookupLatency)
    ) u_rewrite (
      .clk_i,
      .rst_i,
      .port_mac_i,
      .hdr_valid_i  (hdr_valid),
      .hdr_i        (hdr),
      .beat_valid_i (beat_valid),
      .beat_i       (rx_beat),
      .beat_pop_o   (beat_pop),
      .brief_valid_i(brief_valid),
      .brief_i      (brief),
      .brief_pop_o  (brief_pop),
      .rsp_valid_i  (rsp_valid),
      .rsp_i        (lookup_rsp),
      .wr_valid_i,
      .wr_i,
      .room_i       (room[p]),
      .w_start_o    (w_start[p]),
      .w_valid_o    (w_valid[p]),
      .beat_o       (w_beat[p]),
      .verdict_o    (verdict),
      .stat_o       (stat)
    );

    for (genvar o = 0; o < int'(N); o++) begin : gen_out
      forward_fifo #(
        .MaxFrame(MaxFrame)
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
        .next_i   (next[o][p])
      );
    end

    assign to_host.beat    = w_beat[p];
    assign to_host.verdict = verdict;
    assign to_host.last    = w_beat[p].last;

    forward_fifo #(
      .data_t    (host_beat_t),
      .MaxFrame  (MaxFrame),
      .CutThrough(1'b0)
    ) u_to_host (
      .clk_i,
      .rst_i,
      .room_o   (room[p][N]),
      .w_start_i(w_start[p][N]),
      .w_valid_i(w_valid[p][N]),
      .wdata_i  (to_host),
      .req_o    (host_req[p]),
      .start_i  (host_start[p]),
      .active_o (host_active[p]),
      .rdata_o  (host_beat[p]),
      .next_i   (host_next[p])
    );

    forward_fifo #(
      .MaxFrame  (MaxFrame),
      .CutThrough(1'b0)
    ) u_from_host (
      .clk_i,
      .rst_i,
      .room_o   (host_room[p]),
      .w_start_i(host_w_start[p]),
      .w_valid_i(host_w_valid[p]),
      .wdata_i  (host_w_beat),
      .req_o    (req[p][N]),
      .start_i  (start[p][N]),
      .active_o (active[p][N]),
      .rdata_o  (beat[p][N]),
      .next_i   (next[p][N])
    );

    port_tx #(
      .N(N + 1)
    ) u_tx (
      .clk_i,
      .rst_i,
      .req_i      (req[p]),
      .start_o    (start[p]),
      .active_i   (active[p]),
      .beat_i     (beat[p]),
      .next_o     (next[p]),
      .xgmii_txd_o(xgmii_txd_o[p]),
      .xgmii_txc_o(xgmii_txc_o[p]),
      .stat_o     (tx_stat)
    );

    if (AsyncRx) begin : gen_stat_async
      for (genvar i = 0; i < $bits(rx_stat_t); i++) begin : gen_bit
        pulse_cdc u_cdc (
          .src_clk_i  (clk_rx_i[p]),
          .src_rst_i  (rst_rx_i[p]),
          .src_pulse_i(rx_stat[i]),
          .dst_clk_i  (clk_i),
          .dst_rst_i  (rst_i),
          .dst_pulse_o(rx_stat_core[i])
        );
      end
    end else begin : gen_stat_sync
      assign rx_stat_core = rx_stat;
    end

    assign pulse[p] = Counters'({rx_stat_core, tx_stat, stat});
  end

  // Frames for the host, one after another.
  logic       [N-1:0] host_grant;
  host_beat_t         out_beat;
  logic [PortW-1:0] out_port_q, host_grant_idx;

  arb_rr #(
    .N(N)
  ) u_host_arb (
    .clk_i,
    .rst_i,
    .req_i      (host_req),
    .ack_i      (host_active == '0),
    .lock_i     (1'b0),
    .gnt_o      (host_grant),
    .gnt_idx_o  (host_grant_idx),
    .gnt_valid_o()
  );

  assign host_start = host_active == '0 ? host_grant : '0;
  assign host_next  = host_active & {N{m_host_tready_i}};

  always_ff @(posedge clk_i) if (|host_start) out_port_q <= host_grant_idx;

  always_comb begin
    out_beat = '0;
    for (int unsigned i = 0; i < N; i++) if (host_active[i]) out_beat |= host_beat[i];
  end

  assign m_host_tvalid_o = |host_active;
  assign m_host_tdata_o = out_beat.beat.data;
  assign m_host_tkeep_o = out_beat.beat.keep;
  assign m_host_tlast_o = out_beat.last;
  assign m_host_tuser_o = {out_beat.beat.bad, 4'(out_port_q), 4'(out_beat.verdict)};

  // Frames of the host. One to a port that does not exist is taken and forgotten.
  assign host_port = host_first_q ? s_host_tuser_i : host_port_q;
  assign s_host_tready_o = !host_first_q || int'(host_port) >= int'(N) ||
      host_room[host_port[PortW-1:0]];
  assign host_take = s_host_tvalid_i && s_host_tready_o;
  assign host_w_beat = '{
          data: s_host_tdata_i,
          keep: s_host_tkeep_i,
          last: s_host_tlast_i,
          bad: 1'b0
      };

  for (genvar p = 0; p < int'(N); p++) begin : gen_from
    assign host_w_valid[p] = host_take && host_port == 4'(p);
    assign host_w_start[p] = host_w_valid[p] && host_first_q;
  end

  always_ff @(posedge clk_i) begin
    if (host_take) host_port_q <= host_port;
    if (rst_i) host_first_q <= 1'b1;
    else if (host_take) host_first_q <= s_host_tlast_i;
  end

  // Counters.
  logic [N*Counters-1:0][31:0] cnt_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      cnt_q <= '0;
    end else begin
      for (int unsigned p = 0; p < N; p++) begin
        for (int unsigned i = 0; i < Counters; i++) begin
          cnt_q[p*Counters+i] <= cnt_q[p*Counters+i] + 32'(pulse[p][i]);
        end
      end
    end
  end

  assign cnt_o = cnt_q[cnt_idx_i];

`ifndef SYNTHESIS
  initial begin
    assert (N >= 2 && N <= 16)
    else $fatal(1, "fibnic_switch: 2 to 16 ports");
    // A faster answer would come before the end of a frame of 63 bytes is known.
    assert (LookupLatency >= (AsyncRx ? 2 : 5))
    else $fatal(1, "fibnic_switch: runts would leave");
  end
`endif
endmodule
