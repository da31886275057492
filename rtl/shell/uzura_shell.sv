// SPDX-License-Identifier: Apache-2.0
// The network interface and the RDMA engine behind one PCI Express link and one Ethernet port, without the MAC:
// function 0 is ring_nic, function 1 uzura_nic. As nic_shell, with the other engine: one device, two drivers.
//
// The port is one station. Software gives the engine the interface's MAC and IP address; RoCEv2 frames to them
// never reach the interface (frame_steer). ARP and connection set-up are the interface's. A function-level reset is one
// engine's alone, as in nic_shell.
//
// Latency   : of both engines, and 1 cycle of clk_pcie_i for each TLP of theirs, 1 for each of the root complex
//             and 2 more for each of its completions: without these registers the two engines in one stream miss
//             250 MHz. RoCEv2 may wait for one TLP, and for one frame, of the other that has begun.
// Clock     : clk_pcie_i, clk_net_i, asynchronous to each other.
// Handshake : streams as axis_if says; s_eth ignores tready, m_eth is announced by start_o as the transmitters ask for it.
// Drops     : every TLP and frame that is dropped is counted by an engine.
// Source    : own; docs/uzura.md, docs/shell.md.
module uzura_shell
  import shell_pkg::*;
#(
  /// Of uzura_nic, see there.
  parameter int unsigned MemW = 10,
  parameter int unsigned ReadTags = 16,
  /// Of ring_nic: Slots, MaxBytes, RxWords and ReadTags there.
  parameter int unsigned RingSlots = 16,
  parameter int unsigned RingMaxBytes = 1514,
  parameter int unsigned RingRxWords = 2048,
  parameter int unsigned RingReadTags = 16
) (
  input  logic                     clk_pcie_i,
  input  logic                     rst_pcie_i,
  input  logic                     clk_net_i,
  input  logic                     rst_net_i,
  /// Function-level resets, of function 0 in bit 0, and pulses at their ends; see function_reset.
  input  logic              [ 1:0] flr_i,
  output logic              [ 1:0] flr_done_o,
  /// Bus and device number; the function number is not looked at.
  input  logic              [15:0] completer_id_i,
  /// Time for time-outs, microseconds, wrapping; sampled by clk_pcie_i.
  input  logic              [31:0] now_us_i,
  /// The PHY has a link; asynchronous.
  input  logic                     link_up_i,
  /// From the root complex; tuser is hit_t.
         axis_if.snk               s_tlp,
  /// To the root complex.
         axis_if.src               m_tlp,
  /// From the receiver, FCS included; tuser is 1 with the tlast of a bad frame.
         axis_if.snk               s_eth,
  input  eth_pkg::rx_stat_t        rx_stat_i,
  /// To the transmitter, without FCS.
  output logic                     start_o,
  input  logic                     ready_start_i,
         axis_if.src               m_eth,
  input  eth_pkg::tx_stat_t        tx_stat_i,
  output logic                     busy_pcie_o,
  output logic                     busy_net_o
);
  axis_if #(
    .DataW(64),
    .UserW(3)
  )
      ring_routed (), uzura_routed (), ring_gate (), uzura_gate (), ring_down (), uzura_down ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  )
      ring_up (),
      uzura_up (),
      ring_ended (),
      uzura_ended (),
      ring_out (),
      uzura_out (),
      wire_rx (),
      steered_rx (),
      ring_rx (),
      uzura_rx (),
      ring_tx (),
      uzura_tx ();

  logic              [47:0] uzura_mac;
  logic              [31:0] uzura_ip;
  eth_pkg::rx_stat_t        ring_rx_stat;
  eth_pkg::tx_stat_t        ring_tx_stat;
  logic ring_start, ring_ready_start, uzura_start, uzura_ready_start;
  logic busy_router, busy_frames;
  logic [3:0] busy_slice;
  logic busy_ring_pcie, busy_ring_net, busy_uzura_pcie, busy_uzura_net;
  logic rst_ring_pcie, rst_ring_net, rst_uzura_pcie, rst_uzura_net;
  logic [1:0] busy_reset_pcie, busy_reset_net;

  // ---- PCI Express -------------------------------------------------------------------------------
  tlp_router u_router (
    .clk_i              (clk_pcie_i),
    .rst_i              (rst_pcie_i),
    .device_id_i        (completer_id_i),
    .s_axis             (s_tlp),
    .m_first            (ring_routed),
    .m_second           (uzura_routed),
    .first_completion_o (),
    .second_completion_o(),
    .busy_o             (busy_router)
  );

  tlp_slice #(
    .UserW(3)
  ) u_ring_down (
    .clk_i (clk_pcie_i),
    .rst_i (rst_pcie_i),
    .s_axis(ring_routed),
    .m_axis(ring_gate),
    .busy_o(busy_slice[0])
  );
  tlp_slice #(
    .UserW(3)
  ) u_uzura_down (
    .clk_i (clk_pcie_i),
    .rst_i (rst_pcie_i),
    .s_axis(uzura_routed),
    .m_axis(uzura_gate),
    .busy_o(busy_slice[1])
  );
  tlp_slice u_ring_up (
    .clk_i (clk_pcie_i),
    .rst_i (rst_pcie_i),
    .s_axis(ring_ended),
    .m_axis(ring_out),
    .busy_o(busy_slice[2])
  );
  tlp_slice u_uzura_up (
    .clk_i (clk_pcie_i),
    .rst_i (rst_pcie_i),
    .s_axis(uzura_ended),
    .m_axis(uzura_out),
    .busy_o(busy_slice[3])
  );

  tlp_arbiter u_tlps (
    .clk_i   (clk_pcie_i),
    .rst_i   (rst_pcie_i),
    .s_first (uzura_out),
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
    .s_down             (ring_gate),
    .s_down_completion_i(is_completion(ring_gate.tdata[7:0])),
    .m_down             (ring_down),
    .s_up               (ring_up),
    .m_up               (ring_ended),
    .busy_pcie_o        (busy_reset_pcie[0]),
    .busy_net_o         (busy_reset_net[0])
  );

  function_reset u_uzura_reset (
    .clk_pcie_i,
    .rst_pcie_i,
    .clk_net_i,
    .rst_net_i,
    .flr_i              (flr_i[1]),
    .done_o             (flr_done_o[1]),
    .rst_pcie_o         (rst_uzura_pcie),
    .rst_net_o          (rst_uzura_net),
    .busy_pcie_i        (busy_uzura_pcie),
    .give_up_o          (),
    .s_down             (uzura_gate),
    .s_down_completion_i(is_completion(uzura_gate.tdata[7:0])),
    .m_down             (uzura_down),
    .s_up               (uzura_up),
    .m_up               (uzura_ended),
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
    .UdpPort(uzura_pkg::RocePort)
  ) u_steer (
    .clk_i (clk_net_i),
    .rst_i (rst_net_i),
    .mac_i (uzura_mac),
    .ip_i  (uzura_ip),
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

  frame_skip u_uzura_skip (
    .clk_i       (clk_net_i),
    .rst_i       (rst_net_i),
    .engine_rst_i(rst_uzura_net),
    .s_axis      (wire_rx),
    .m_axis      (uzura_rx)
  );

  frame_arbiter u_frames (
    .clk_i               (clk_net_i),
    .rst_i               (rst_net_i),
    .first_rst_i         (rst_uzura_net),
    .second_rst_i        (rst_ring_net),
    .first_start_i       (uzura_start),
    .first_ready_start_o (uzura_ready_start),
    .s_first             (uzura_tx),
    .first_stat_o        (),
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
    .mac_o         (),
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

  uzura_nic #(
    .MemW    (MemW),
    .ReadTags(ReadTags)
  ) u_uzura (
    .clk_pcie_i,
    .rst_pcie_i    (rst_uzura_pcie),
    .clk_net_i,
    .rst_net_i     (rst_uzura_net),
    .completer_id_i({completer_id_i[15:3], FN_UZURA}),
    .now_us_i,
    .link_up_i,
    .mac_o         (uzura_mac),
    .ip_o          (uzura_ip),
    .s_tlp         (uzura_down),
    .m_tlp         (uzura_up),
    .s_eth         (uzura_rx),
    .start_o       (uzura_start),
    .ready_start_i (uzura_ready_start),
    .m_eth         (uzura_tx),
    .busy_pcie_o   (busy_uzura_pcie),
    .busy_net_o    (busy_uzura_net)
  );
  assign busy_pcie_o = busy_router || |busy_slice || busy_ring_pcie || busy_uzura_pcie ||
      |busy_reset_pcie;
  assign busy_net_o = busy_frames || busy_ring_net || busy_uzura_net || |busy_reset_net;

  logic unused;
  assign unused = ^completer_id_i[2:0];
endmodule
