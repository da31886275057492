// SPDX-License-Identifier: Apache-2.0
// Flat ports around a tester of each speed, with a cable of known length from each to itself.
//
// Latency : none of its own.
// Clock   : clk_i, for both.
// Source  : bench only.
module tb_tester (
  input  logic        clk_i,
  input  logic        rst_i,
  output logic [46:0] now_o,

  /// The transmitters' pins go to the receivers, delay_i cycles and half_i half cycles later.
  input logic       loop_i,
  input logic [3:0] delay_i,
  input logic       half_i,

  input  logic        x_wr_i,
  input  logic [11:0] x_addr_i,
  input  logic [63:0] x_wdata_i,
  output logic [63:0] x_rdata_o,
  input  logic [63:0] xgmii_rxd_i,
  input  logic [ 7:0] xgmii_rxc_i,
  output logic [63:0] xgmii_txd_o,
  output logic [ 7:0] xgmii_txc_o,
  output logic        x_first_o,
  output logic        x_half_o,
  output logic        x_busy_o,

  input  logic        g_wr_i,
  input  logic [11:0] g_addr_i,
  input  logic [63:0] g_wdata_i,
  output logic [63:0] g_rdata_o,
  input  logic [ 7:0] gmii_rxd_i,
  input  logic        gmii_rx_dv_i,
  input  logic        gmii_rx_er_i,
  output logic [ 7:0] gmii_txd_o,
  output logic        gmii_tx_en_o,
  output logic        gmii_tx_er_o,
  output logic        g_busy_o
);
  localparam int unsigned MaxDelay = 15;
  localparam logic [7:0] Start = 8'hFB;

  logic [      46:0]       now_q;
  logic [MaxDelay:0][71:0] x_line;
  logic [MaxDelay:0][ 9:0] g_line;
  logic [MaxDelay:1][71:0] x_line_q;
  logic [MaxDelay:1][ 9:0] g_line_q;
  logic [71:0] x_word, x_late;
  logic [ 9:0] g_word;
  logic [35:0] x_hold_q;

  assign x_line = {x_line_q, xgmii_txc_o, xgmii_txd_o};
  assign g_line = {g_line_q, gmii_tx_er_o, gmii_tx_en_o, gmii_txd_o};
  assign x_word = x_line[delay_i];
  assign g_word = g_line[delay_i];
  assign x_late = half_i ? {x_word[67:64], x_hold_q[35:32], x_word[31:0], x_hold_q[31:0]} : x_word;

  always_ff @(posedge clk_i) begin
    now_q    <= rst_i ? '0 : now_q + 1'b1;
    x_line_q <= x_line[MaxDelay-1:0];
    g_line_q <= g_line[MaxDelay-1:0];
    x_hold_q <= {x_word[71:68], x_word[63:32]};
  end

  assign now_o     = now_q;
  assign x_half_o  = xgmii_txc_o[4] && xgmii_txd_o[39:32] == Start;
  assign x_first_o = x_half_o || (xgmii_txc_o[0] && xgmii_txd_o[7:0] == Start);

  tester_port_10g u_10g (
    .clk_i,
    .rst_i,
    .now_i      (now_q),
    .wr_i       (x_wr_i),
    .addr_i     (x_addr_i),
    .wdata_i    (x_wdata_i),
    .rdata_o    (x_rdata_o),
    .xgmii_rxd_i(loop_i ? x_late[63:0] : xgmii_rxd_i),
    .xgmii_rxc_i(loop_i ? x_late[71:64] : xgmii_rxc_i),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .busy_o     (x_busy_o)
  );

  tester_port_1g u_1g (
    .clk_i,
    .rst_i,
    .now_i       (now_q),
    .wr_i        (g_wr_i),
    .addr_i      (g_addr_i),
    .wdata_i     (g_wdata_i),
    .rdata_o     (g_rdata_o),
    .gmii_rxd_i  (loop_i ? g_word[7:0] : gmii_rxd_i),
    .gmii_rx_dv_i(loop_i ? g_word[8] : gmii_rx_dv_i),
    .gmii_rx_er_i(loop_i ? g_word[9] : gmii_rx_er_i),
    .gmii_txd_o,
    .gmii_tx_en_o,
    .gmii_tx_er_o,
    .busy_o      (g_busy_o)
  );
endmodule
