// SPDX-License-Identifier: Apache-2.0
// The NIC of two functions for 1G Ethernet: engines and MAC, with flat ports. One cable for the host's network interface
// (function 0, BAR 0) and for remote memory (function 1, BARs 0 and 2).
//
// Latency   : as in nic_shell.
// Clock     : clk_pcie_i 250 MHz (slower with PcieLongestPs), clk_net_i 125 MHz, asynchronous to each other.
// Handshake : TLP streams valid/ready; s_tlp_tuser_i is {function, BAR hit}, as shell_pkg has it.
//             With both busy outputs low, no input valid and 32 cycles of the slower clock gone,
//             the clocks may stop: only now_us_i can then change anything.
// Drops     : every TLP and frame that is dropped is counted.
// Source    : own; docs/shell.md.
module nic_shell_1g #(
  /// Pages in BAR 2; a power of two.
  parameter int unsigned Pages = 262144,
  /// PC ID table entries; a power of two.
  parameter int unsigned PcIds = 256,
  /// Shared-region table entries; a power of two.
  parameter int unsigned Regions = 256,
  /// Stores and loads that can wait for the network side.
  parameter int unsigned TxSlots = 16,
  /// Operations from the network that can wait for the PCIe side.
  parameter int unsigned RxSlots = 32,
  /// Loads that can wait for their completion.
  parameter int unsigned LoadTags = 32,
  /// DMA reads that can wait for their completion.
  parameter int unsigned DmaTags = 8,
  /// Cycles of a page map look-up.
  parameter int unsigned PageMapLatency = 2,
  /// Cycles of a PC ID table look-up.
  parameter int unsigned PcIdLatency = 1,
  /// Sessions; a power of two.
  parameter int unsigned Sessions = 64,
  /// Frames that all sessions together may have in flight; a power of two.
  parameter int unsigned SendSlots = 128,
  /// Sessions can be sealed.
  parameter bit Auth = 1'b1,
  /// Longest period that clk_pcie_i ever has, tolerance and spread spectrum included.
  parameter int unsigned PcieLongestPs = 4025,
  /// Packets of the interface on their way from memory to the wire; a power of two from 4 to 16.
  parameter int unsigned RingSlots = 16,
  /// Longest frame without FCS, bytes; 9014 at most.
  parameter int unsigned RingMaxBytes = 1514,
  /// Words of 8 bytes of the interface's receive buffer; a power of two.
  parameter int unsigned RingRxWords = 2048,
  /// DMA reads of the interface in flight; a power of two, 16 at most.
  parameter int unsigned RingReadTags = 16
) (
  input  logic        clk_pcie_i,
  input  logic        rst_pcie_i,
  input  logic        clk_net_i,
  input  logic        rst_net_i,
  /// Function-level resets, of clk_pcie_i, function 0 in bit 0: up while one is in process; a pulse tells its end.
  input  logic [ 1:0] flr_i,
  output logic [ 1:0] flr_done_o,
  /// Bus and device number; the function number is not looked at.
  input  logic [15:0] completer_id_i,
  /// What the host has set, as in pcie_pkg, sampled by clk_pcie_i. A NIC that is told
  /// nothing: 1, 2, 0, 1. For function 1; function 0 has a register.
  input  logic [ 2:0] cfg_max_payload_i,
  input  logic [ 2:0] cfg_max_read_i,
  input  logic        cfg_rcb_128_i,
  input  logic        cfg_bus_master_i,
  /// Time for time-outs, microseconds, wrapping; sampled by clk_pcie_i.
  input  logic [31:0] now_us_i,
  /// The PHY has a link; asynchronous.
  input  logic        link_up_i,
  input  logic [63:0] s_tlp_tdata_i,
  input  logic [ 7:0] s_tlp_tkeep_i,
  input  logic        s_tlp_tvalid_i,
  input  logic        s_tlp_tlast_i,
  input  logic [ 5:0] s_tlp_tuser_i,
  output logic        s_tlp_tready_o,
  output logic [63:0] m_tlp_tdata_o,
  output logic [ 7:0] m_tlp_tkeep_o,
  output logic        m_tlp_tvalid_o,
  output logic        m_tlp_tlast_o,
  input  logic        m_tlp_tready_i,
  output logic [ 7:0] gmii_txd_o,
  output logic        gmii_tx_en_o,
  output logic        gmii_tx_er_o,
  input  logic [ 7:0] gmii_rxd_i,
  input  logic        gmii_rx_dv_i,
  input  logic        gmii_rx_er_i,
  output logic        busy_pcie_o,
  output logic        busy_net_o
);
  axis_if #(
    .DataW(64),
    .UserW(6)
  ) s_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) rx ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) tx ();

  // As the root complex sees them, before and behind the gates of a reset.
  axis_if #(
    .DataW(64),
    .UserW(6)
  ) host_down ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) host_up ();
  logic rst_pcie, rst_net, give_up, busy_nic_pcie;
  pcie_pkg::pcie_cfg_t pcie_cfg;

  assign pcie_cfg = '{
          max_payload: cfg_max_payload_i,
          max_read: cfg_max_read_i,
          rcb_128: cfg_rcb_128_i,
          bus_master: cfg_bus_master_i
      };

  ordered_reset u_resets (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .rst_pcie_o (rst_pcie),
    .rst_net_o  (rst_net),
    .busy_pcie_i(busy_nic_pcie),
    .give_up_o  (give_up),
    .s_down     (host_down),
    .m_down     (s_tlp),
    .s_up       (m_tlp),
    .m_up       (host_up)
  );

  eth_pkg::rx_stat_t rx_stat;
  eth_pkg::tx_stat_t tx_stat;
  logic start, ready_start, busy_nic_net, busy_rx, busy_tx;

  assign host_down.tdata  = s_tlp_tdata_i;
  assign host_down.tkeep  = s_tlp_tkeep_i;
  assign host_down.tvalid = s_tlp_tvalid_i;
  assign host_down.tlast  = s_tlp_tlast_i;
  assign host_down.tuser  = s_tlp_tuser_i;
  assign s_tlp_tready_o   = host_down.tready;

  assign m_tlp_tdata_o    = host_up.tdata;
  assign m_tlp_tkeep_o    = host_up.tkeep;
  assign m_tlp_tvalid_o   = host_up.tvalid;
  assign m_tlp_tlast_o    = host_up.tlast;
  assign host_up.tready   = m_tlp_tready_i;

  nic_shell #(
    .Pages         (Pages),
    .PcIds         (PcIds),
    .Regions       (Regions),
    .TxSlots       (TxSlots),
    .RxSlots       (RxSlots),
    .LoadTags      (LoadTags),
    .DmaTags       (DmaTags),
    .PageMapLatency(PageMapLatency),
    .PcIdLatency   (PcIdLatency),
    .Sessions      (Sessions),
    .SendSlots     (SendSlots),
    .Auth          (Auth),
    .PcieLongestPs (PcieLongestPs),
    .NetShortestPs (7995),
    .RingSlots     (RingSlots),
    .RingMaxBytes  (RingMaxBytes),
    .RingRxWords   (RingRxWords),
    .RingReadTags  (RingReadTags)
  ) u_nic (
    .clk_pcie_i,
    .rst_pcie_i   (rst_pcie),
    .clk_net_i,
    .rst_net_i    (rst_net),
    .flr_i,
    .flr_done_o,
    .completer_id_i,
    .pcie_cfg_i   (pcie_cfg),
    .now_us_i,
    .give_up_i    (give_up),
    .link_up_i,
    .s_tlp,
    .m_tlp,
    .s_eth        (rx),
    .rx_stat_i    (rx_stat),
    .start_o      (start),
    .ready_start_i(ready_start),
    .m_eth        (tx),
    .tx_stat_i    (tx_stat),
    .busy_pcie_o  (busy_nic_pcie),
    .busy_net_o   (busy_nic_net)
  );

  gmii_rx #(
    .MaxFrame(RingMaxBytes + 4)
  ) u_rx (
    .clk_i (clk_net_i),
    .rst_i (rst_net),
    .gmii_rxd_i,
    .gmii_rx_dv_i,
    .gmii_rx_er_i,
    .m_axis(rx),
    .stat_o(rx_stat),
    .busy_o(busy_rx)
  );

  gmii_tx u_tx (
    .clk_i        (clk_net_i),
    .rst_i        (rst_net),
    .start_i      (start),
    .ready_start_o(ready_start),
    .s_axis       (tx),
    .gmii_txd_o,
    .gmii_tx_en_o,
    .gmii_tx_er_o,
    .stat_o       (tx_stat),
    .busy_o       (busy_tx)
  );

  assign busy_net_o  = busy_nic_net || busy_rx || busy_tx || rst_net;
  assign busy_pcie_o = busy_nic_pcie || rst_pcie;

  logic unused;
  assign unused = ^host_up.tuser;
endmodule
