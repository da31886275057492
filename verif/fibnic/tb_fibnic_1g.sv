// SPDX-License-Identifier: Apache-2.0
// Flat ports around the 1G switch, four ports, small tables.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_fibnic_1g #(
  parameter int unsigned MaxFrame = 9216,
  parameter bit AsyncRx = 1'b1,
  parameter int unsigned Lookups = 4,
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

  input  logic [7:0] gmii_rxd_0_i,
  input  logic       gmii_rx_dv_0_i,
  input  logic       gmii_rx_er_0_i,
  output logic [7:0] gmii_txd_0_o,
  output logic       gmii_tx_en_0_o,
  output logic       gmii_tx_er_0_o,
  input  logic [7:0] gmii_rxd_1_i,
  input  logic       gmii_rx_dv_1_i,
  input  logic       gmii_rx_er_1_i,
  output logic [7:0] gmii_txd_1_o,
  output logic       gmii_tx_en_1_o,
  output logic       gmii_tx_er_1_o,
  input  logic [7:0] gmii_rxd_2_i,
  input  logic       gmii_rx_dv_2_i,
  input  logic       gmii_rx_er_2_i,
  output logic [7:0] gmii_txd_2_o,
  output logic       gmii_tx_en_2_o,
  output logic       gmii_tx_er_2_o,
  input  logic [7:0] gmii_rxd_3_i,
  input  logic       gmii_rx_dv_3_i,
  input  logic       gmii_rx_er_3_i,
  output logic [7:0] gmii_txd_3_o,
  output logic       gmii_tx_en_3_o,
  output logic       gmii_tx_er_3_o,

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
  output logic         busy_o,
  /// Of port 0, as the dissertation counts its stages: a byte at the parser, and a frame's first
  /// write into a FIFO.
  output logic         stage_first_o,
  output logic         stage_last_o
);
  logic [3:0] clk_rx;
  assign clk_rx = one_clock_i ? {4{clk_i}} : {clk_rx_3_i, clk_rx_2_i, clk_rx_1_i, clk_rx_0_i};

  fibnic_1g #(
    .N            (4),
    .MaxFrame     (MaxFrame),
    .NextHops     (64),
    .AsyncRx      (AsyncRx),
    .Lookups      (Lookups),
    .AclRules     (4),
    .Vlan         (Sram22 == 0),
    .Sram22       (Sram22),
    .Sram22IndexW (16),
    .V4Leaves     (8192),
    .V4Groups     (16),
    .V4Hosts      (256),
    .V6Nodes1     (64),
    .V6Nodes2     (256),
    .V6Nodes3     (512),
    .V6Nodes4     (512),
    .V6Nodes5     (512),
    .V6Nodes6     (512),
    .V6Nodes7     (64),
    .V6Leaves     (4096),
    .V6Hosts      (256),
    .V6TcamEntries(32)
  ) u_switch (
    .clk_i,
    .rst_i,
    .clk_rx_i    (clk_rx),
    .rst_rx_i,
    .gmii_rxd_i  ({gmii_rxd_3_i, gmii_rxd_2_i, gmii_rxd_1_i, gmii_rxd_0_i}),
    .gmii_rx_dv_i({gmii_rx_dv_3_i, gmii_rx_dv_2_i, gmii_rx_dv_1_i, gmii_rx_dv_0_i}),
    .gmii_rx_er_i({gmii_rx_er_3_i, gmii_rx_er_2_i, gmii_rx_er_1_i, gmii_rx_er_0_i}),
    .gmii_txd_o  ({gmii_txd_3_o, gmii_txd_2_o, gmii_txd_1_o, gmii_txd_0_o}),
    .gmii_tx_en_o({gmii_tx_en_3_o, gmii_tx_en_2_o, gmii_tx_en_1_o, gmii_tx_en_0_o}),
    .gmii_tx_er_o({gmii_tx_er_3_o, gmii_tx_er_2_o, gmii_tx_er_1_o, gmii_tx_er_0_o}),
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
    .busy_o
  );

  assign stage_first_o = u_switch.gen_port[0].u_rx.rx_dv;
  assign stage_last_o  = |u_switch.u_core.w_start[0];
endmodule
