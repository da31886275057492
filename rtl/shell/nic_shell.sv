// SPDX-License-Identifier: Apache-2.0
// Two engines behind one PCI Express link and one Ethernet port, without the MAC: function 0 is the host's network
// interface (ring_nic), function 1 its window to remote memory (ipnuma_nic).
//
// One device with two functions, not one function with both register maps: each driver finds its own device, binds to it
// unmodified, and has its own interrupts, requester ID and DMA rights. Each engine has tags of its own, since completions are
// told apart by the function. A function-level reset is one engine's alone (function_reset): the other loses no TLP and no
// frame by it; of what the network brings meanwhile the engine sees whole frames only (frame_skip).
//
// The port is one station. Software gives both engines the same MAC address, and IP-NUMA the interface's IP address;
// frames to IP-NUMA's UDP port there never reach the interface (frame_steer). ARP has one answer: while the MAC addresses
// are equal the host's kernel gives it, and IP-NUMA's responder is silent. With another address, or as long as
// no driver has told the interface one, IP-NUMA answers for itself.
//
// Latency   : of both engines, and none here, but 2 cycles of clk_pcie_i for each completion of the root complex, and 1 for each
//             TLP of the interface: without that register what IP-NUMA offers decides within a cycle what the ring does.
//             IP-NUMA may wait for one TLP, and for one frame, of the other that has begun.
// Clock     : clk_pcie_i, clk_net_i, asynchronous to each other.
// Handshake : streams as axis_if says; s_eth ignores tready, m_eth is announced by start_o as the transmitters ask for it.
// Drops     : every TLP and frame that is dropped is counted by an engine.
// Source    : own; docs/shell.md.
module nic_shell
  import shell_pkg::*;
#(
  /// Of ipnuma_nic, see there.
  parameter int unsigned Pages = 262144,
  parameter int unsigned PcIds = 256,
  parameter int unsigned Regions = 256,
  parameter int unsigned TxSlots = 16,
  parameter int unsigned RxSlots = 32,
  parameter int unsigned LoadTags = 32,
  parameter int unsigned DmaTags = 8,
  parameter int unsigned PageMapLatency = 2,
  parameter int unsigned PcIdLatency = 1,
  parameter int unsigned Sessions = 64,
  parameter int unsigned SendSlots = 128,
  parameter bit Auth = 1'b1,
  parameter int unsigned PcieLongestPs = 4025,
  parameter int unsigned NetShortestPs = 6395,
  /// Of ring_nic: Slots, MaxBytes, RxWords and ReadTags there.
  parameter int unsigned RingSlots = 16,
  parameter int unsigned RingMaxBytes = 1514,
  parameter int unsigned RingRxWords = 2048,
  parameter int unsigned RingReadTags = 16
) (
  input  logic                       clk_pcie_i,
  input  logic                       rst_pcie_i,
  input  logic                       clk_net_i,
  input  logic                       rst_net_i,
  /// Of ipnuma_nic, see there.
  input  logic                       give_up_i,
  /// Function-level resets, of function 0 in bit 0, and pulses at their ends; see function_reset.
  input  logic                [ 1:0] flr_i,
  output logic                [ 1:0] flr_done_o,
  /// Bus and device number; the function number is not looked at.
  input  logic                [15:0] completer_id_i,
  /// What the host has set for function 1; sampled by clk_pcie_i. Function 0 has a register for that.
  input  pcie_pkg::pcie_cfg_t        pcie_cfg_i,
  /// Time for time-outs, microseconds, wrapping; sampled by clk_pcie_i.
  input  logic                [31:0] now_us_i,
  /// The PHY has a link; asynchronous.
  input  logic                       link_up_i,
  /// From the root complex; tuser is hit_t.
         axis_if.snk                 s_tlp,
  /// To the root complex.
         axis_if.src                 m_tlp,
  /// From the receiver, FCS included; tuser is 1 with the tlast of a bad frame.
         axis_if.snk                 s_eth,
  input  eth_pkg::rx_stat_t          rx_stat_i,
  /// To the transmitter, without FCS.
  output logic                       start_o,
  input  logic                       ready_start_i,
         axis_if.src                 m_eth,
  input  eth_pkg::tx_stat_t          tx_stat_i,
  output logic                       busy_pcie_o,
  output logic                       busy_net_o
);
  axis_if #(
    .DataW(64),
    .UserW(3)
  )
      ring_routed (), ipnuma_routed (), ring_down (), ipnuma_down ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  )
      ring_up (),
      ipnuma_up (),
      ring_ended (),
      ring_out (),
      ipnuma_out (),
      wire_rx (),
      steered_rx (),
      ring_rx (),
      ipnuma_rx (),
      ring_tx (),
      ipnuma_tx ();

  logic [47:0] ring_mac, ipnuma_mac;
  logic              [31:0] ipnuma_ip;
  logic                     arp_answer_q;
  eth_pkg::rx_stat_t        ring_rx_stat;
  eth_pkg::tx_stat_t ring_tx_stat, ipnuma_tx_stat;
  logic ring_start, ring_ready_start, ipnuma_start, ipnuma_ready_start;
  logic busy_router, busy_frames, busy_slice, ring_completion, ipnuma_completion;
  logic busy_ring_pcie, busy_ring_net, busy_ipnuma_pcie, busy_ipnuma_net;
  logic rst_ring_pcie, rst_ring_net, rst_ipnuma_pcie, rst_ipnuma_net, give_up;
  logic [1:0] busy_reset_pcie, busy_reset_net;

  // ---- PCI Express -------------------------------------------------------------------------------
  tlp_router u_router (
    .clk_i              (clk_pcie_i),
    .rst_i              (rst_pcie_i),
    .device_id_i        (completer_id_i),
    .s_axis             (s_tlp),
    .m_first            (ring_routed),
    .m_second           (ipnuma_routed),
    .first_completion_o (ring_completion),
    .second_completion_o(ipnuma_completion),
    .busy_o             (busy_router)
  );

  tlp_arbiter u_tlps (
    .clk_i   (clk_pcie_i),
    .rst_i   (rst_pcie_i),
    .s_first (ipnuma_out),
    .s_second(ring_out),
    .m_axis  (m_tlp)
  );

  function_reset u_ring_reset (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .flr_i              (flr_i[0]),
    .done_o             (flr_done_o[0]),
    .rst_pcie_o         (rst_ring_pcie),
    .rst_net_o          (rst_ring_net),
    .busy_pcie_i        (busy_ring_pcie),
    .give_up_o          (),
    .s_down             (ring_routed),
    .s_down_completion_i(ring_completion),
    .m_down             (ring_down),
    .s_up               (ring_up),
    .m_up               (ring_ended),
    .busy_pcie_o        (busy_reset_pcie[0]),
    .busy_net_o         (busy_reset_net[0])
  );

  tlp_slice u_ring_up (
    .clk_i (clk_pcie_i),
    .rst_i (rst_pcie_i),
    .s_axis(ring_ended),
    .m_axis(ring_out),
    .busy_o(busy_slice)
  );

  function_reset u_ipnuma_reset (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .flr_i              (flr_i[1]),
    .done_o             (flr_done_o[1]),
    .rst_pcie_o         (rst_ipnuma_pcie),
    .rst_net_o          (rst_ipnuma_net),
    .busy_pcie_i        (busy_ipnuma_pcie),
    .give_up_o          (give_up),
    .s_down             (ipnuma_routed),
    .s_down_completion_i(ipnuma_completion),
    .m_down             (ipnuma_down),
    .s_up               (ipnuma_up),
    .m_up               (ipnuma_out),
    .busy_pcie_o        (busy_reset_pcie[1]),
    .busy_net_o         (busy_reset_net[1])
  );

  // ---- Ethernet ----------------------------------------------------------------------------------
  assign wire_rx.tdata  = s_eth.tdata;
  assign wire_rx.tkeep  = s_eth.tkeep;
  assign wire_rx.tvalid = s_eth.tvalid;
  assign wire_rx.tlast  = s_eth.tlast;
  assign wire_rx.tuser  = s_eth.tuser;
  assign wire_rx.tready = 1'b1;
  assign s_eth.tready   = 1'b1;

  frame_steer #(
    .UdpPort(wire_pkg::UDP_PORT)
  ) u_steer (
    .clk_i (clk_net_i),
    .rst_i (rst_net_i),
    .mac_i (ipnuma_mac),
    .ip_i  (ipnuma_ip),
    .s_axis(wire_rx),
    .rx_stat_i,
    .m_axis(steered_rx),
    .stat_o(ring_rx_stat)
  );
  assign steered_rx.tready = 1'b1;

  frame_skip u_ring_skip (
    .clk_i       (clk_net_i),
    .rst_i       (rst_net_i),
    .engine_rst_i(rst_ring_net),
    .s_axis      (steered_rx),
    .m_axis      (ring_rx)
  );

  frame_skip u_ipnuma_skip (
    .clk_i       (clk_net_i),
    .rst_i       (rst_net_i),
    .engine_rst_i(rst_ipnuma_net),
    .s_axis      (wire_rx),
    .m_axis      (ipnuma_rx)
  );

  frame_arbiter u_frames (
    .clk_i               (clk_net_i),
    .rst_i               (rst_net_i),
    .first_rst_i         (rst_ipnuma_net),
    .second_rst_i        (rst_ring_net),
    .first_start_i       (ipnuma_start),
    .first_ready_start_o (ipnuma_ready_start),
    .s_first             (ipnuma_tx),
    .first_stat_o        (ipnuma_tx_stat),
    .second_start_i      (ring_start),
    .second_ready_start_o(ring_ready_start),
    .s_second            (ring_tx),
    .second_stat_o       (ring_tx_stat),
    .start_o,
    .ready_start_i,
    .m_axis              (m_eth),
    .tx_stat_i,
    .busy_o              (busy_frames)
  );

  always_ff @(posedge clk_net_i) arp_answer_q <= ipnuma_mac != ring_mac;

  // ---- Engines -----------------------------------------------------------------------------------
  ring_nic #(
    .Slots   (RingSlots),
    .MaxBytes(RingMaxBytes),
    .RxWords (RingRxWords),
    .ReadTags(RingReadTags)
  ) u_ring (
    .clk_pcie_i,
    .rst_pcie_i    (rst_ring_pcie),
    .clk_net_i,
    .rst_net_i     (rst_ring_net),
    .completer_id_i({completer_id_i[15:3], FN_RING}),
    .now_us_i,
    .link_up_i,
    .mac_o         (ring_mac),
    .s_tlp         (ring_down),
    .m_tlp         (ring_up),
    .s_eth         (ring_rx),
    .rx_stat_i     (ring_rx_stat),
    .start_o       (ring_start),
    .ready_start_i (ring_ready_start),
    .m_eth         (ring_tx),
    .tx_stat_i     (ring_tx_stat),
    .busy_pcie_o   (busy_ring_pcie),
    .busy_net_o    (busy_ring_net)
  );

  ipnuma_nic #(
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
    .NetShortestPs (NetShortestPs)
  ) u_ipnuma (
    .clk_pcie_i,
    .rst_pcie_i    (rst_ipnuma_pcie),
    .clk_net_i,
    .rst_net_i     (rst_ipnuma_net),
    .completer_id_i({completer_id_i[15:3], FN_IPNUMA}),
    .pcie_cfg_i,
    .now_us_i,
    .give_up_i     (give_up_i || give_up),
    .link_up_i,
    .mac_o         (ipnuma_mac),
    .ip_o          (ipnuma_ip),
    .arp_answer_i  (arp_answer_q),
    .s_tlp         (ipnuma_down),
    .m_tlp         (ipnuma_up),
    .s_eth         (ipnuma_rx),
    .rx_stat_i,
    .start_o       (ipnuma_start),
    .ready_start_i (ipnuma_ready_start),
    .m_eth         (ipnuma_tx),
    .tx_stat_i     (ipnuma_tx_stat),
    .busy_pcie_o   (busy_ipnuma_pcie),
    .busy_net_o    (busy_ipnuma_net)
  );

  assign busy_pcie_o = busy_router || busy_slice || busy_ring_pcie || busy_ipnuma_pcie ||
      |busy_reset_pcie;
  assign busy_net_o = busy_frames || busy_ring_net || busy_ipnuma_net || |busy_reset_net;

  logic unused;
  assign unused = ^completer_id_i[2:0];
endmodule
