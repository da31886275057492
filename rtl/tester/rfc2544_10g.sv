// SPDX-License-Identifier: Apache-2.0
// The rig of RFC 2544 at 10G: a switch with a tester at each of its ports.
//
// Between testers and switch is a plain wire: a latency that the testers read is the switch's, from
// pins to pins. The switch's host, write and counter ports are led out.
//
// Latency   : t_rdata_o follows t_addr_i by 1 edge; else the parts'.
// Clock     : clk_i, also the receive clock of every port.
// Handshake : testers: {port[3:0], register[11:0]}, as tester_bus; switch: as fibnic_10g.
// Drops     : the switch's, which the testers find.
// Source    : RFC 2544 section 6 (a tester with a port at each end); dissertation section 5.3.
module rfc2544_10g #(
  /// Ports of the switch, a tester at each, 2 to 16.
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
  /// With the crossing from the receive clocks, which are all clk_i here.
  parameter bit AsyncRx = 1'b1,
  /// Lookups: N, or 1 for all ports.
  parameter int unsigned Lookups = N,
  /// Rules of the access list; 0 for none.
  parameter int unsigned AclRules = 64,
  /// 0: ports never store and check, and hold less.
  parameter int unsigned StoreAndCheck = 1,
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
  input  logic         clk_i,
  input  logic         rst_i,
  // Registers of the testers.
  input  logic         t_wr_i,
  input  logic [ 15:0] t_addr_i,
  input  logic [ 63:0] t_wdata_i,
  output logic [ 63:0] t_rdata_o,
  // Frames of the switch's host.
  input  logic [ 63:0] s_host_tdata_i,
  input  logic [  7:0] s_host_tkeep_i,
  input  logic         s_host_tvalid_i,
  output logic         s_host_tready_o,
  input  logic         s_host_tlast_i,
  input  logic [  3:0] s_host_tuser_i,
  // Frames for the host.
  output logic [ 63:0] m_host_tdata_o,
  output logic [  7:0] m_host_tkeep_o,
  output logic         m_host_tvalid_o,
  input  logic         m_host_tready_i,
  output logic         m_host_tlast_o,
  output logic [  9:0] m_host_tuser_o,
  /// One word of a memory of the switch, fib_pkg::memory_e.
  input  logic         wr_valid_i,
  output logic         wr_ready_o,
  input  logic [  4:0] wr_mem_i,
  input  logic [ 23:0] wr_addr_i,
  input  logic [167:0] wr_data_i,
  input  logic [ 11:0] cnt_idx_i,
  output logic [ 31:0] cnt_o,
  output logic [N-1:0] check_o,
  /// Of the switch or a tester.
  output logic         busy_o
);
  import tester_pkg::*;

  logic [N-1:0][63:0] to_switch_d, from_switch_d;
  logic [N-1:0][7:0] to_switch_c, from_switch_c;
  logic [N-1:0][63:0] rdata;
  logic [N-1:0] wr, tester_busy;
  logic switch_busy;
  reg_t addr;
  now_t now;

  assign busy_o = switch_busy || |tester_busy;

  tester_bus #(
    .N(N)
  ) u_bus (
    .clk_i,
    .rst_i,
    .wr_i        (t_wr_i),
    .addr_i      (t_addr_i),
    .rdata_o     (t_rdata_o),
    .port_wr_o   (wr),
    .port_addr_o (addr),
    .port_rdata_i(rdata),
    .busy_i      (busy_o),
    .now_o       (now)
  );

  for (genvar p = 0; p < int'(N); p++) begin : gen_port
    tester_port_10g #(
      .MaxFrame(MaxFrame)
    ) u_tester (
      .clk_i,
      .rst_i,
      .now_i      (now),
      .wr_i       (wr[p]),
      .addr_i     (addr),
      .wdata_i    (t_wdata_i),
      .rdata_o    (rdata[p]),
      .xgmii_rxd_i(from_switch_d[p]),
      .xgmii_rxc_i(from_switch_c[p]),
      .xgmii_txd_o(to_switch_d[p]),
      .xgmii_txc_o(to_switch_c[p]),
      .busy_o     (tester_busy[p])
    );
  end

  fibnic_10g #(
    .N            (N),
    .MaxFrame     (MaxFrame),
    .NextHops     (NextHops),
    .ReadLatency  (ReadLatency),
    .SumRegister  (SumRegister),
    .OutRegister  (OutRegister),
    .AsyncRx      (AsyncRx),
    .Lookups      (Lookups),
    .AclRules     (AclRules),
    .StoreAndCheck(StoreAndCheck),
    .Vlan         (Vlan),
    .Sram22       (Sram22),
    .Sram22IndexW (Sram22IndexW),
    .V4Leaves     (V4Leaves),
    .V4Groups     (V4Groups),
    .V4Hosts      (V4Hosts),
    .V6Nodes1     (V6Nodes1),
    .V6Nodes2     (V6Nodes2),
    .V6Nodes3     (V6Nodes3),
    .V6Nodes4     (V6Nodes4),
    .V6Nodes5     (V6Nodes5),
    .V6Nodes6     (V6Nodes6),
    .V6Nodes7     (V6Nodes7),
    .V6Leaves     (V6Leaves),
    .V6Hosts      (V6Hosts),
    .V6TcamEntries(V6TcamEntries)
  ) u_switch (
    .clk_i,
    .rst_i,
    .clk_rx_i      ({N{clk_i}}),
    .rst_rx_i      ({N{rst_i}}),
    .xgmii_rxd_i   (to_switch_d),
    .xgmii_rxc_i   (to_switch_c),
    .xgmii_txd_o   (from_switch_d),
    .xgmii_txc_o   (from_switch_c),
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
    .wr_mem_i,
    .wr_addr_i,
    .wr_data_i,
    .cnt_idx_i,
    .cnt_o,
    .local_fault_o (),
    .remote_fault_o(),
    .check_o,
    .busy_o        (switch_busy)
  );
endmodule
