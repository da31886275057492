// SPDX-License-Identifier: Apache-2.0
// Flat ports around toe_emit, and the two banks of payload that toe_fetch would have filled.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_toe_emit
  import toe_pkg::*;
#(
  parameter int unsigned WordW = 8
) (
  input  logic                      clk_i,
  input  logic                      rst_i,
  input  logic [              47:0] mac_i,
  input  logic [              31:0] ip_i,
  input  logic [$bits(order_t)-1:0] sheet_i,
  input  logic [              31:0] sum_i,
  input  logic                      bank_i,
  input  logic                      sheet_valid_i,
  output logic                      sheet_ready_o,
  /// Fills a bank.
  input  logic                      we_i,
  input  logic [           WordW:0] waddr_i,
  input  logic [              63:0] wdata_i,
  output logic [              63:0] tdata_o,
  output logic [               7:0] tkeep_o,
  output logic                      tvalid_o,
  output logic                      tlast_o,
  input  logic                      tready_i
);
  axis_if m_eth ();
  assign tdata_o      = m_eth.tdata;
  assign tkeep_o      = m_eth.tkeep;
  assign tvalid_o     = m_eth.tvalid;
  assign tlast_o      = m_eth.tlast;
  assign m_eth.tready = tready_i;

  logic             rd_bank;
  logic [WordW-1:0] rd_word;
  logic [     63:0] rd_data;

  toe_emit #(
    .WordW(WordW)
  ) u_emit (
    .clk_i,
    .rst_i,
    .mac_i,
    .ip_i,
    .sheet_i,
    .sum_i,
    .bank_i,
    .sheet_valid_i,
    .sheet_ready_o,
    .rd_bank_o(rd_bank),
    .rd_word_o(rd_word),
    .rd_data_i(rd_data),
    .m_eth
  );

  ram_1r1w #(
    .data_t  (logic [63:0]),
    .Depth   (2 << WordW),
    .InitZero(1'b0)
  ) u_payload (
    .clk_i,
    .we_i,
    .waddr_i,
    .wdata_i,
    .re_i   (1'b1),
    .raddr_i({rd_bank, rd_word}),
    .rdata_o(rd_data)
  );
endmodule
