// SPDX-License-Identifier: Apache-2.0
// Two 10G NICs of two functions with their XGMII back to back, under the pins of two_nics as far as its test of latencies
// uses them: all requests are function 1's.
//
// Latency   : the wires between the NICs have none; with shift_i they have half a word more than A
//             has, so that frames start in the other lane.
// Clock     : a_clk_pcie_i, b_clk_pcie_i, clk_net_i (both NICs).
// Handshake : as the NICs'.
// Drops     : none.
// Source    : own; test bench only.
module two_shells #(
  /// Pages of both NICs.
  parameter int unsigned Pages = 262144,
  /// PC ID table entries of both NICs.
  parameter int unsigned PcIds = 256,
  /// Shared-region table entries of both NICs.
  parameter int unsigned Regions = 256
) (
  input  logic        clk_net_i,
  input  logic        rst_i,
  input  logic        shift_i,
  input  logic        a_clk_pcie_i,
  input  logic [63:0] a_s_tlp_tdata_i,
  input  logic [ 7:0] a_s_tlp_tkeep_i,
  input  logic        a_s_tlp_tvalid_i,
  input  logic        a_s_tlp_tlast_i,
  input  logic [ 2:0] a_s_tlp_tuser_i,
  output logic        a_s_tlp_tready_o,
  output logic [63:0] a_m_tlp_tdata_o,
  output logic [ 7:0] a_m_tlp_tkeep_o,
  output logic        a_m_tlp_tvalid_o,
  output logic        a_m_tlp_tlast_o,
  input  logic        a_m_tlp_tready_i,
  input  logic        b_clk_pcie_i,
  input  logic [63:0] b_s_tlp_tdata_i,
  input  logic [ 7:0] b_s_tlp_tkeep_i,
  input  logic        b_s_tlp_tvalid_i,
  input  logic        b_s_tlp_tlast_i,
  input  logic [ 2:0] b_s_tlp_tuser_i,
  output logic        b_s_tlp_tready_o,
  output logic [63:0] b_m_tlp_tdata_o,
  output logic [ 7:0] b_m_tlp_tkeep_o,
  output logic        b_m_tlp_tvalid_o,
  output logic        b_m_tlp_tlast_o,
  input  logic        b_m_tlp_tready_i,
  /// Not here: two_nics has a generator.
  input  logic [31:0] gen_stores_i,
  input  logic [ 7:0] gen_pause_i,
  output logic        busy_o
);
  localparam logic [15:0] IdA = 16'h0100;
  localparam logic [15:0] IdB = 16'h0000;

  logic [63:0] a_txd, b_txd, b_rxd;
  logic [7:0] a_txc, b_txc, b_rxc;
  logic [31:0] half_data_q;
  logic [ 3:0] half_ctrl_q;
  logic [ 3:0] busy;

  always_ff @(posedge clk_net_i) begin
    half_data_q <= a_txd[63:32];
    half_ctrl_q <= a_txc[7:4];
  end
  assign b_rxd = shift_i ? {a_txd[31:0], half_data_q} : a_txd;
  assign b_rxc = shift_i ? {a_txc[3:0], half_ctrl_q} : a_txc;

  nic_shell_10g #(
    .Pages  (Pages),
    .PcIds  (PcIds),
    .Regions(Regions)
  ) u_a (
    .clk_pcie_i       (a_clk_pcie_i),
    .rst_pcie_i       (rst_i),
    .clk_net_i,
    .rst_net_i        (rst_i),
    .flr_i            ('0),
    .flr_done_o       (),
    .completer_id_i   (IdA),
    .cfg_max_payload_i(3'd1),
    .cfg_max_read_i   (3'd2),
    .cfg_rcb_128_i    (1'b0),
    .cfg_bus_master_i (1'b1),
    .now_us_i         ('0),
    .link_up_i        (1'b1),
    .s_tlp_tdata_i    (a_s_tlp_tdata_i),
    .s_tlp_tkeep_i    (a_s_tlp_tkeep_i),
    .s_tlp_tvalid_i   (a_s_tlp_tvalid_i),
    .s_tlp_tlast_i    (a_s_tlp_tlast_i),
    .s_tlp_tuser_i    ({shell_pkg::FN_IPNUMA, a_s_tlp_tuser_i}),
    .s_tlp_tready_o   (a_s_tlp_tready_o),
    .m_tlp_tdata_o    (a_m_tlp_tdata_o),
    .m_tlp_tkeep_o    (a_m_tlp_tkeep_o),
    .m_tlp_tvalid_o   (a_m_tlp_tvalid_o),
    .m_tlp_tlast_o    (a_m_tlp_tlast_o),
    .m_tlp_tready_i   (a_m_tlp_tready_i),
    .xgmii_txd_o      (a_txd),
    .xgmii_txc_o      (a_txc),
    .xgmii_rxd_i      (b_txd),
    .xgmii_rxc_i      (b_txc),
    .busy_pcie_o      (busy[0]),
    .busy_net_o       (busy[1])
  );

  nic_shell_10g #(
    .Pages  (Pages),
    .PcIds  (PcIds),
    .Regions(Regions)
  ) u_b (
    .clk_pcie_i       (b_clk_pcie_i),
    .rst_pcie_i       (rst_i),
    .clk_net_i,
    .rst_net_i        (rst_i),
    .flr_i            ('0),
    .flr_done_o       (),
    .completer_id_i   (IdB),
    .cfg_max_payload_i(3'd1),
    .cfg_max_read_i   (3'd2),
    .cfg_rcb_128_i    (1'b0),
    .cfg_bus_master_i (1'b1),
    .now_us_i         ('0),
    .link_up_i        (1'b1),
    .s_tlp_tdata_i    (b_s_tlp_tdata_i),
    .s_tlp_tkeep_i    (b_s_tlp_tkeep_i),
    .s_tlp_tvalid_i   (b_s_tlp_tvalid_i),
    .s_tlp_tlast_i    (b_s_tlp_tlast_i),
    .s_tlp_tuser_i    ({shell_pkg::FN_IPNUMA, b_s_tlp_tuser_i}),
    .s_tlp_tready_o   (b_s_tlp_tready_o),
    .m_tlp_tdata_o    (b_m_tlp_tdata_o),
    .m_tlp_tkeep_o    (b_m_tlp_tkeep_o),
    .m_tlp_tvalid_o   (b_m_tlp_tvalid_o),
    .m_tlp_tlast_o    (b_m_tlp_tlast_o),
    .m_tlp_tready_i   (b_m_tlp_tready_i),
    .xgmii_txd_o      (b_txd),
    .xgmii_txc_o      (b_txc),
    .xgmii_rxd_i      (b_rxd),
    .xgmii_rxc_i      (b_rxc),
    .busy_pcie_o      (busy[2]),
    .busy_net_o       (busy[3])
  );

  assign busy_o = |busy;

  logic unused;
  assign unused = ^{gen_stores_i, gen_pause_i};
endmodule
