// SPDX-License-Identifier: Apache-2.0
// Flat wrapper of gmii_elastic.
module tb_gmii_elastic #(
  parameter int unsigned MaxFrame = 9216,
  parameter bit AsyncRx = 1'b1
) (
  input  logic       clk_rx_i,
  input  logic       rst_rx_i,
  input  logic [7:0] gmii_rxd_i,
  input  logic       gmii_rx_dv_i,
  input  logic       gmii_rx_er_i,
  input  logic       clk_i,
  input  logic       rst_i,
  output logic       valid_o,
  output logic [7:0] rxd_o,
  output logic       rx_dv_o,
  output logic       rx_er_o,
  output logic       busy_o
);
  gmii_elastic #(
    .MaxFrame(MaxFrame),
    .AsyncRx (AsyncRx)
  ) u_dut (
    .clk_rx_i,
    .rst_rx_i,
    .gmii_rxd_i,
    .gmii_rx_dv_i,
    .gmii_rx_er_i,
    .clk_i,
    .rst_i,
    .valid_o,
    .rxd_o,
    .rx_dv_o,
    .rx_er_o,
    .busy_o
  );
endmodule
