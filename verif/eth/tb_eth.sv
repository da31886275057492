// SPDX-License-Identifier: Apache-2.0
// Flat ports around the MACs and the ARP responder; all share one clock, each test uses its part.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_eth #(
  parameter int unsigned MaxFrame = 1518,
  parameter bit EnableDic = 1'b1
) (
  input logic clk_i,
  input logic rst_i,

  input  logic [63:0] xgmii_rxd_i,
  input  logic [ 7:0] xgmii_rxc_i,
  output logic [63:0] xrx_tdata_o,
  output logic [ 7:0] xrx_tkeep_o,
  output logic        xrx_tvalid_o,
  output logic        xrx_tlast_o,
  output logic        xrx_tuser_o,
  output logic [ 5:0] xrx_stat_o,
  output logic        xrx_busy_o,

  input  logic        grx_en_i,
  input  logic [ 7:0] gmii_rxd_i,
  input  logic        gmii_rx_dv_i,
  input  logic        gmii_rx_er_i,
  output logic [63:0] grx_tdata_o,
  output logic [ 7:0] grx_tkeep_o,
  output logic        grx_tvalid_o,
  output logic        grx_tlast_o,
  output logic        grx_tuser_o,
  output logic [ 5:0] grx_stat_o,
  output logic        grx_busy_o,

  input  logic        xtx_start_i,
  output logic        xtx_ready_start_o,
  input  logic [63:0] xtx_tdata_i,
  input  logic [ 7:0] xtx_tkeep_i,
  input  logic        xtx_tvalid_i,
  output logic        xtx_tready_o,
  input  logic        xtx_tlast_i,
  input  logic        xtx_tuser_i,
  output logic [63:0] xgmii_txd_o,
  output logic [ 7:0] xgmii_txc_o,
  output logic [ 2:0] xtx_stat_o,
  output logic        xtx_busy_o,

  input  logic        gtx_start_i,
  output logic        gtx_ready_start_o,
  input  logic [63:0] gtx_tdata_i,
  input  logic [ 7:0] gtx_tkeep_i,
  input  logic        gtx_tvalid_i,
  output logic        gtx_tready_o,
  input  logic        gtx_tlast_i,
  input  logic        gtx_tuser_i,
  output logic [ 7:0] gmii_txd_o,
  output logic        gmii_tx_en_o,
  output logic        gmii_tx_er_o,
  output logic [ 2:0] gtx_stat_o,
  output logic        gtx_busy_o,

  input  logic [31:0] ip_i,
  input  logic [47:0] mac_i,
  output logic [63:0] arp_tdata_o,
  output logic [ 7:0] arp_tkeep_o,
  output logic        arp_tvalid_o,
  input  logic        arp_tready_i,
  output logic        arp_tlast_o,
  output logic        arp_reply_o,
  output logic        arp_drop_o,
  output logic        arp_busy_o
);
  axis_if xrx ();
  axis_if grx ();
  axis_if xtx ();
  axis_if gtx ();
  axis_if arp ();

  assign xrx_tdata_o  = xrx.tdata;
  assign xrx_tkeep_o  = xrx.tkeep;
  assign xrx_tvalid_o = xrx.tvalid;
  assign xrx_tlast_o  = xrx.tlast;
  assign xrx_tuser_o  = xrx.tuser;
  assign xrx.tready   = 1'b1;

  assign grx_tdata_o  = grx.tdata;
  assign grx_tkeep_o  = grx.tkeep;
  assign grx_tvalid_o = grx.tvalid;
  assign grx_tlast_o  = grx.tlast;
  assign grx_tuser_o  = grx.tuser;
  assign grx.tready   = 1'b1;

  assign xtx.tdata    = xtx_tdata_i;
  assign xtx.tkeep    = xtx_tkeep_i;
  assign xtx.tvalid   = xtx_tvalid_i;
  assign xtx.tlast    = xtx_tlast_i;
  assign xtx.tuser    = xtx_tuser_i;
  assign xtx_tready_o = xtx.tready;

  assign gtx.tdata    = gtx_tdata_i;
  assign gtx.tkeep    = gtx_tkeep_i;
  assign gtx.tvalid   = gtx_tvalid_i;
  assign gtx.tlast    = gtx_tlast_i;
  assign gtx.tuser    = gtx_tuser_i;
  assign gtx_tready_o = gtx.tready;

  assign arp_tdata_o  = arp.tdata;
  assign arp_tkeep_o  = arp.tkeep;
  assign arp_tvalid_o = arp.tvalid;
  assign arp_tlast_o  = arp.tlast;
  assign arp.tready   = arp_tready_i;

  xgmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_xgmii_rx (
    .clk_i,
    .rst_i,
    .xgmii_rxd_i,
    .xgmii_rxc_i,
    .m_axis(xrx),
    .stat_o(xrx_stat_o),
    .busy_o(xrx_busy_o)
  );

  gmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_gmii_rx (
    .clk_i,
    .rst_i,
    .en_i  (grx_en_i),
    .gmii_rxd_i,
    .gmii_rx_dv_i,
    .gmii_rx_er_i,
    .m_axis(grx),
    .stat_o(grx_stat_o),
    .busy_o(grx_busy_o)
  );

  xgmii_tx #(
    .EnableDic(EnableDic)
  ) u_xgmii_tx (
    .clk_i,
    .rst_i,
    .start_i      (xtx_start_i),
    .ready_start_o(xtx_ready_start_o),
    .s_axis       (xtx),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o       (xtx_stat_o),
    .busy_o       (xtx_busy_o)
  );

  gmii_tx u_gmii_tx (
    .clk_i,
    .rst_i,
    .start_i      (gtx_start_i),
    .ready_start_o(gtx_ready_start_o),
    .s_axis       (gtx),
    .gmii_txd_o,
    .gmii_tx_en_o,
    .gmii_tx_er_o,
    .stat_o       (gtx_stat_o),
    .busy_o       (gtx_busy_o)
  );

  arp_responder u_arp (
    .clk_i,
    .rst_i,
    .ip_i,
    .mac_i,
    .s_axis (xrx),
    .m_axis (arp),
    .reply_o(arp_reply_o),
    .drop_o (arp_drop_o),
    .busy_o (arp_busy_o)
  );
endmodule
