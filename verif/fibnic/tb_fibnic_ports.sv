// SPDX-License-Identifier: Apache-2.0
// Flat ports around the switch at 10G, for any number of network ports and any room in its FIFOs.
//
// Latency : none of its own.
// Clock   : clk_i, also of all receivers.
// Source  : bench only.
module tb_fibnic_ports #(
  parameter int unsigned N = 16,
  parameter int unsigned MaxFrame = 9216,
  parameter int unsigned Waiting = 4,
  parameter int unsigned FifoFrames = 2,
  parameter int unsigned Lookups = N
) (
  input logic clk_i,
  input logic rst_i,

  input  logic [63:0] xgmii_rxd_i[N],
  input  logic [ 7:0] xgmii_rxc_i[N],
  output logic [63:0] xgmii_txd_o[N],
  output logic [ 7:0] xgmii_txc_o[N],

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
  output logic         busy_o
);
  logic [N-1:0][63:0] rxd, txd;
  logic [N-1:0][7:0] rxc, txc;

  for (genvar p = 0; p < int'(N); p++) begin : gen_pins
    assign rxd[p]         = xgmii_rxd_i[p];
    assign rxc[p]         = xgmii_rxc_i[p];
    assign xgmii_txd_o[p] = txd[p];
    assign xgmii_txc_o[p] = txc[p];
  end

  fibnic_10g #(
    .N            (N),
    .MaxFrame     (MaxFrame),
    .NextHops     (64),
    .AsyncRx      (1'b0),
    .Lookups      (Lookups),
    .AclRules     (0),
    .StoreAndCheck(0),
    .Waiting      (Waiting),
    .FifoFrames   (FifoFrames),
    .V4Leaves     (1024),
    .V6Leaves     (1024),
    .V6TcamEntries(4)
  ) u_switch (
    .clk_i,
    .rst_i,
    .clk_rx_i      ({N{clk_i}}),
    .rst_rx_i      ('0),
    .xgmii_rxd_i   (rxd),
    .xgmii_rxc_i   (rxc),
    .xgmii_txd_o   (txd),
    .xgmii_txc_o   (txc),
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
    .check_o       (),
    .local_fault_o (),
    .remote_fault_o(),
    .busy_o
  );
endmodule
