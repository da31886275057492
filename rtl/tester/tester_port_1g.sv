// SPDX-License-Identifier: Apache-2.0
// A port of the RFC 2544 instrument at 1G, with its MACs.
//
// Latency   : a register read: 1 edge. Stamps are those of the pins: a loop of wire reads as 0.
// Clock     : clk_i, 125 MHz, for both directions.
// Handshake : registers as tester_registers; GMII.
// Drops     : none; what the MAC refuses is counted.
// Source    : RFC 2544; dissertation section 5.3.
module tester_port_1g #(
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
  input  logic             [ 7:0] gmii_rxd_i,
  input  logic                    gmii_rx_dv_i,
  input  logic                    gmii_rx_er_i,
  output logic             [ 7:0] gmii_txd_o,
  output logic                    gmii_tx_en_o,
  output logic                    gmii_tx_er_o,
  output logic                    busy_o
);
  import eth_pkg::*;

  localparam int unsigned CycleBytes = 1;

  axis_if tx ();
  axis_if rx ();
  logic start, ready_start, tx_busy, rx_busy;
  logic tx_en_q, rx_dv_q;
  tx_stat_t tx_stat;
  rx_stat_t rx_stat;

  always_ff @(posedge clk_i) begin
    tx_en_q <= !rst_i && gmii_tx_en_o;
    rx_dv_q <= !rst_i && gmii_rx_dv_i;
  end

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
    .tx_first_i   (gmii_tx_en_o && !tx_en_q),
    .tx_half_i    (1'b0),
    .s_axis       (rx),
    .rx_stat_i    (rx_stat),
    .rx_busy_i    (rx_busy || rx_dv_q),
    .rx_first_i   (gmii_rx_dv_i && !rx_dv_q),
    .rx_half_i    (1'b0),
    .busy_o
  );

  gmii_tx u_tx (
    .clk_i,
    .rst_i,
    .start_i      (start),
    .ready_start_o(ready_start),
    .s_axis       (tx),
    .gmii_txd_o,
    .gmii_tx_en_o,
    .gmii_tx_er_o,
    .stat_o       (tx_stat),
    .busy_o       (tx_busy)
  );

  gmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_rx (
    .clk_i,
    .rst_i,
    .gmii_rxd_i,
    .gmii_rx_dv_i,
    .gmii_rx_er_i,
    .m_axis(rx),
    .stat_o(rx_stat),
    .busy_o(rx_busy)
  );
endmodule
