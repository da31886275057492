// SPDX-License-Identifier: Apache-2.0
// A port of the RFC 2544 instrument at 10G, with its MACs.
//
// Latency   : a register read: 1 edge. Stamps are those of the pins: a loop of wire reads as 0.
// Clock     : clk_i, 156.25 MHz, for both directions.
// Handshake : registers as tester_registers; XGMII.
// Drops     : none; what the MAC refuses is counted.
// Source    : RFC 2544.
module tester_port_10g #(
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216
) (
  input  logic                    clk_i,
  input  logic                    rst_i,
  /// Cycles of clk_i, common to all ports; runs while any of them is busy.
  input  tester_pkg::now_t        now_i,
  input  logic                    wr_i,
  input  tester_pkg::reg_t        addr_i,
  input  logic             [63:0] wdata_i,
  output logic             [63:0] rdata_o,
  input  logic             [63:0] xgmii_rxd_i,
  input  logic             [ 7:0] xgmii_rxc_i,
  output logic             [63:0] xgmii_txd_o,
  output logic             [ 7:0] xgmii_txc_o,
  output logic                    busy_o
);
  import eth_pkg::*;

  localparam int unsigned CycleBytes = 8;

  axis_if tx ();
  axis_if rx ();
  logic start, ready_start, tx_busy, rx_busy;
  tx_stat_t tx_stat;
  rx_stat_t rx_stat;

  // A start is in lane 0 or lane 4.
  function automatic logic starts(logic [7:0] data, logic control);
    return control && data == XgmiiStart;
  endfunction

  logic tx_half, rx_half;
  assign tx_half = starts(xgmii_txd_o[39:32], xgmii_txc_o[4]);
  assign rx_half = starts(xgmii_rxd_i[39:32], xgmii_rxc_i[4]);

  tester_port #(
    .CycleBytes(CycleBytes)
  ) u_port (
    .clk_i,
    .rst_i,
    .now_i,
    .wr_i,
    .addr_i,
    .wdata_i,
    .rdata_o,
    .start_o      (start),
    .ready_start_i(ready_start),
    .m_axis       (tx),
    .tx_stat_i    (tx_stat),
    .tx_busy_i    (tx_busy),
    .tx_first_i   (tx_half || starts(xgmii_txd_o[7:0], xgmii_txc_o[0])),
    .tx_half_i    (tx_half),
    .s_axis       (rx),
    .rx_stat_i    (rx_stat),
    .rx_busy_i    (rx_busy),
    .rx_first_i   (rx_half || starts(xgmii_rxd_i[7:0], xgmii_rxc_i[0])),
    .rx_half_i    (rx_half),
    .busy_o
  );

  xgmii_tx u_tx (
    .clk_i,
    .rst_i,
    .start_i      (start),
    .ready_start_o(ready_start),
    .s_axis       (tx),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o       (tx_stat),
    .busy_o       (tx_busy)
  );

  xgmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_rx (
    .clk_i,
    .rst_i,
    .xgmii_rxd_i,
    .xgmii_rxc_i,
    .m_axis(rx),
    .stat_o(rx_stat),
    .busy_o(rx_busy)
  );
endmodule
