// SPDX-License-Identifier: Apache-2.0
// The cut-through L3 switch at 10G: fibnic_core with XGMII MACs, flat ports.
//
// The core clock is the transmit clock of all ports; with AsyncRx each port has its receive clock.
//
// Latency   : preamble in to preamble out, both on the pins, in lane 0, output free, clocks equal:
//             9 + L cycles for IPv4, 11 + L for IPv6, L being the lookup's latency of the family
//             (fib_lookup: ReadLatency 1: 3 and 9, ReadLatency 2: 6 and 18); 3 more with AsyncRx (2
//             to 3 by the phase of the clocks), N - 1 more with one lookup for all, 1 more with
//             Vlan. With Sram22 L is 19: 28 and 30 cycles. Lane 4 on one side makes it half a cycle
//             more. The same for every frame and table.
// Clock     : clk_i; clk_rx_i for the pins of each receiver.
// Reset     : rst_i of all, rst_rx_i of each receive side alone: see port_reset.
// Handshake : s_host and m_host are AXI4-Streams without FCS. s_host: tuser is the port, read with
//             the first beat. m_host: tuser is {bad, port of arrival[3:0], verdict[4:0]}, bad with
//             the last beat. Writes: valid/ready. cnt_idx_i is {access list, port[3:0], index[6:0]},
//             cnt_o follows two edges later. busy_o: something may still come out without new
//             input; mixes the clocks, for simulators that skip idle time.
// Drops     : whole frames, counted by port and reason; without room in the FIFO to their output
//             see forward_fifo. IPv4 behind IPv6 at line rate loses none if the lookup of IPv6
//             takes less than 10 * Waiting cycles more (ReadLatency 1: 6, 2: 12); with more, frames
//             that waited for it may leave as a burst that finds no room.
// Source    : dissertation chapter 5, figures 5.5 to 5.8.
module fibnic_10g #(
  /// Network ports, 2 to 16.
  parameter int unsigned N = 4,
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Entries of the next-hop table; a power of two.
  parameter int unsigned NextHops = 4096,
  /// Edges from address to data of each memory of the lookup.
  parameter int unsigned ReadLatency = 1,
  /// Registers of the lookup for speed, see fib_lookup.
  parameter int unsigned SumRegister = 0,
  parameter int unsigned OutRegister = 0,
  /// Receive clocks unrelated to the core clock; without it all clk_rx_i are clk_i.
  parameter bit AsyncRx = 1'b1,
  /// Lookups: N, or 1 for all ports, which then are 7 at most.
  parameter int unsigned Lookups = N,
  /// Rules of the access list; 0 for none.
  parameter int unsigned AclRules = 64,
  /// 0: ports never store and check, and hold less.
  parameter int unsigned StoreAndCheck = 1,
  /// Frames that may wait for an output, of each input, beside one that is being sent; 1 is the
  /// dissertation's.
  parameter int unsigned Waiting = 4,
  /// Memory for them, in frames of the longest size.
  parameter int unsigned FifoFrames = 2,
  /// Ports can take off and put on VLAN tags: one cycle more.
  parameter bit Vlan = 1'b0,
  /// 1: the dissertation's lookup, IPv4 from an SRAM, IPv6 from the TCAM.
  parameter int unsigned Sram22 = 0,
  /// Address bits of its SRAM: 22 for 4 MB.
  parameter int unsigned Sram22IndexW = 22,
  // Sizes of the tables, as fib_lookup has them.
  parameter int unsigned V4Leaves = 4096,
  parameter int unsigned V4Groups = 16,
  parameter int unsigned V4Hosts = 256,
  parameter int unsigned V6Nodes1 = 256,
  parameter int unsigned V6Nodes2 = 256,
  parameter int unsigned V6Nodes3 = 256,
  parameter int unsigned V6Nodes4 = 256,
  parameter int unsigned V6Nodes5 = 256,
  parameter int unsigned V6Nodes6 = 256,
  parameter int unsigned V6Nodes7 = 256,
  parameter int unsigned V6Leaves = 4096,
  parameter int unsigned V6Hosts = 256,
  parameter int unsigned V6TcamEntries = 32
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic [N-1:0]       clk_rx_i,
  input  logic [N-1:0]       rst_rx_i,
  input  logic [N-1:0][63:0] xgmii_rxd_i,
  input  logic [N-1:0][ 7:0] xgmii_rxc_i,
  output logic [N-1:0][63:0] xgmii_txd_o,
  output logic [N-1:0][ 7:0] xgmii_txc_o,
  // Frames of the host.
  input  logic [ 63:0]       s_host_tdata_i,
  input  logic [  7:0]       s_host_tkeep_i,
  input  logic               s_host_tvalid_i,
  output logic               s_host_tready_o,
  input  logic               s_host_tlast_i,
  input  logic [  3:0]       s_host_tuser_i,
  // Frames for the host.
  output logic [ 63:0]       m_host_tdata_o,
  output logic [  7:0]       m_host_tkeep_o,
  output logic               m_host_tvalid_o,
  input  logic               m_host_tready_i,
  output logic               m_host_tlast_o,
  output logic [  9:0]       m_host_tuser_o,
  /// One word of a memory, fib_pkg::memory_e.
  input  logic               wr_valid_i,
  output logic               wr_ready_o,
  input  logic [  4:0]       wr_mem_i,
  input  logic [ 23:0]       wr_addr_i,
  input  logic [167:0]       wr_data_i,
  input  logic [ 11:0]       cnt_idx_i,
  output logic [ 31:0]       cnt_o,
  /// The port stores and checks now.
  output logic [N-1:0]       check_o,
  /// What the line says of the link: nothing comes here; the other side does not receive.
  output logic [N-1:0]       local_fault_o,
  output logic [N-1:0]       remote_fault_o,
  output logic               busy_o
);
  import fibnic_pkg::*;
  import eth_pkg::*;

  localparam int unsigned V6Nodes[fib_pkg::V6Levels-1] = '{
      V6Nodes1,
      V6Nodes2,
      V6Nodes3,
      V6Nodes4,
      V6Nodes5,
      V6Nodes6,
      V6Nodes7
  };

  port_cfg_t   [N-1:0] cfg;
  from_rx_t    [N-1:0] from_rx;
  to_rx_t      [N-1:0] to_rx;
  to_mac_t     [N-1:0] to_mac;
  from_mac_t   [N-1:0] from_mac;
  rx_stat_t    [N-1:0] rx_stat;
  tx_stat_t    [N-1:0] tx_stat;
  link_fault_t [N-1:0] fault;
  logic [N-1:0] rx_busy, tx_busy;

  for (genvar p = 0; p < int'(N); p++) begin : gen_port
    port_rx_10g #(
      .MaxFrame(MaxFrame),
      .Beats   (beats_held(MaxFrame, StoreAndCheck)),
      .Frames  (frames_held(MaxFrame, StoreAndCheck)),
      .AsyncRx (AsyncRx),
      .Vlan    (Vlan)
    ) u_rx (
      .clk_rx_i   (clk_rx_i[p]),
      .rst_rx_i   (rst_rx_i[p]),
      .xgmii_rxd_i(xgmii_rxd_i[p]),
      .xgmii_rxc_i(xgmii_rxc_i[p]),
      .clk_i,
      .rst_i,
      .cfg_i      (cfg[p]),
      .rx_o       (from_rx[p]),
      .rx_i       (to_rx[p]),
      .stat_o     (rx_stat[p]),
      .fault_o    (fault[p]),
      .busy_o     (rx_busy[p])
    );

    port_tx_10g #(
      .Vlan(Vlan)
    ) u_tx (
      .clk_i,
      .rst_i,
      .cfg_i      (cfg[p]),
      .fault_i    (fault[p]),
      .mac_i      (to_mac[p]),
      .mac_o      (from_mac[p]),
      .xgmii_txd_o(xgmii_txd_o[p]),
      .xgmii_txc_o(xgmii_txc_o[p]),
      .stat_o     (tx_stat[p]),
      .busy_o     (tx_busy[p])
    );

    assign local_fault_o[p]  = fault[p].here;
    assign remote_fault_o[p] = fault[p].remote;
  end

  fibnic_core #(
    .N            (N),
    .MaxFrame     (MaxFrame),
    .NextHops     (NextHops),
    .Lookups      (Lookups),
    .AclRules     (AclRules),
    .StoreAndCheck(StoreAndCheck),
    .Waiting      (Waiting),
    .FifoFrames   (FifoFrames),
    .BeatCycles   (1),
    .ClockHz      (156_250_000),
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
    .Sram22       (Sram22),
    .Sram22IndexW (Sram22IndexW)
  ) u_core (
    .clk_i,
    .rst_i,
    .cfg_o    (cfg),
    .rx_i     (from_rx),
    .rx_o     (to_rx),
    .mac_o    (to_mac),
    .mac_i    (from_mac),
    .rx_stat_i(rx_stat),
    .tx_stat_i(tx_stat),
    .busy_i   (rx_busy | tx_busy),
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
    .wr_valid_i,
    .wr_ready_o,
    .wr_i     ({wr_mem_i, wr_addr_i, wr_data_i}),
    .cnt_idx_i,
    .cnt_o,
    .check_o,
    .busy_o
  );
endmodule
