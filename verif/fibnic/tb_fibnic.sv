// SPDX-License-Identifier: Apache-2.0
// Flat ports around the switch, four ports.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_fibnic #(
  parameter int unsigned MaxFrame = 9216,
  parameter int unsigned ReadLatency = 1,
  parameter int unsigned Lookups = 4,
  parameter int unsigned Waiting = 4,
  parameter bit AsyncRx = 1'b1,
  parameter bit Vlan = 1'b0,
  parameter int unsigned Sram22 = 0
) (
  input logic       clk_i,
  input logic       rst_i,
  /// Of each receive side alone.
  input logic [3:0] rst_rx_i,
  /// All receivers on clk_i; else on their own clocks.
  input logic       one_clock_i,
  input logic       clk_rx_0_i,
  input logic       clk_rx_1_i,
  input logic       clk_rx_2_i,
  input logic       clk_rx_3_i,

  input  logic [63:0] xgmii_rxd_0_i,
  input  logic [ 7:0] xgmii_rxc_0_i,
  output logic [63:0] xgmii_txd_0_o,
  output logic [ 7:0] xgmii_txc_0_o,
  input  logic [63:0] xgmii_rxd_1_i,
  input  logic [ 7:0] xgmii_rxc_1_i,
  output logic [63:0] xgmii_txd_1_o,
  output logic [ 7:0] xgmii_txc_1_o,
  input  logic [63:0] xgmii_rxd_2_i,
  input  logic [ 7:0] xgmii_rxc_2_i,
  output logic [63:0] xgmii_txd_2_o,
  output logic [ 7:0] xgmii_txc_2_o,
  input  logic [63:0] xgmii_rxd_3_i,
  input  logic [ 7:0] xgmii_rxc_3_i,
  output logic [63:0] xgmii_txd_3_o,
  output logic [ 7:0] xgmii_txc_3_o,

  input  logic [63:0] s_host_tdata_i,
  input  logic [ 7:0] s_host_tkeep_i,
  input  logic        s_host_tvalid_i,
  output logic        s_host_tready_o,
  input  logic        s_host_tlast_i,
  input  logic [ 3:0] s_host_tuser_i,
  output logic [63:0] m_host_tdata_o,
  output logic [ 7:0] m_host_tkeep_o,
  output logic        m_host_tvalid_o,
  input  logic        m_host_tready_i,
  output logic        m_host_tlast_o,
  output logic [ 9:0] m_host_tuser_o,

  input  logic         wr_valid_i,
  output logic         wr_ready_o,
  input  logic [  4:0] wr_mem_i,
  input  logic [ 23:0] wr_addr_i,
  input  logic [167:0] wr_data_i,
  input  logic [ 11:0] cnt_idx_i,
  output logic [ 31:0] cnt_o,
  output logic [  3:0] check_o,
  output logic [  3:0] local_fault_o,
  output logic [  3:0] remote_fault_o,
  output logic         busy_o
);
  logic [3:0] clk_rx;
  assign clk_rx = one_clock_i ? {4{clk_i}} : {clk_rx_3_i, clk_rx_2_i, clk_rx_1_i, clk_rx_0_i};

  fibnic_10g #(
    .N            (4),
    .MaxFrame     (MaxFrame),
    .NextHops     (64),
    .ReadLatency  (ReadLatency),
    .AsyncRx      (AsyncRx),
    .Lookups      (Lookups),
    .Waiting      (Waiting),
    .Vlan         (Vlan),
    .Sram22       (Sram22),
    .Sram22IndexW (16),
    .V4Leaves     (1024),
    .V6Leaves     (1024),
    .V6TcamEntries(4),
    .AclRules     (4)
  ) u_switch (
    .clk_i,
    .rst_i,
    .clk_rx_i   (clk_rx),
    .rst_rx_i,
    .xgmii_rxd_i({xgmii_rxd_3_i, xgmii_rxd_2_i, xgmii_rxd_1_i, xgmii_rxd_0_i}),
    .xgmii_rxc_i({xgmii_rxc_3_i, xgmii_rxc_2_i, xgmii_rxc_1_i, xgmii_rxc_0_i}),
    .xgmii_txd_o({xgmii_txd_3_o, xgmii_txd_2_o, xgmii_txd_1_o, xgmii_txd_0_o}),
    .xgmii_txc_o({xgmii_txc_3_o, xgmii_txc_2_o, xgmii_txc_1_o, xgmii_txc_0_o}),
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
    .check_o,
    .local_fault_o,
    .remote_fault_o,
    .busy_o
  );

  // busy_o is honest: once it is low and nothing comes in, nothing goes out.
  logic idle_in, idle_out, quiet_q;
  assign idle_in = &{xgmii_rxc_3_i, xgmii_rxc_2_i, xgmii_rxc_1_i, xgmii_rxc_0_i} &&
      !s_host_tvalid_i && !wr_valid_i;
  assign idle_out = &{xgmii_txc_3_o, xgmii_txc_2_o, xgmii_txc_1_o, xgmii_txc_0_o} &&
      !m_host_tvalid_o;

  always_ff @(posedge clk_i) begin
    quiet_q <= !rst_i && idle_in && (quiet_q || !busy_o);
    if (!rst_i) begin
      a_busy :
      assert (!quiet_q || idle_out)
      else $error("something came out of a switch that was not busy");
    end
  end
endmodule
