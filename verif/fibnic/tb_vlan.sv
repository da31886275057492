// SPDX-License-Identifier: Apache-2.0
// Both VLAN stages beside the MACs they belong to, flat: each test uses its part.
//
// Latency : none of its own.
// Clock   : clk_i, for all.
// Source  : bench only.
module tb_vlan #(
  localparam int unsigned MaxFrame = 9216
) (
  input logic        clk_i,
  input logic        rst_i,
  input logic        tag_i,
  input logic [11:0] vid_i,

  input  logic [63:0] xgmii_rxd_i,
  input  logic [ 7:0] xgmii_rxc_i,
  input  logic [ 7:0] gmii_rxd_i,
  input  logic        gmii_rx_dv_i,
  input  logic        gmii_rx_er_i,
  /// {valid, last} of the MACs: 10G, 1G.
  output logic [ 1:0] mac_o       [2],
  /// {busy, valid, last, bad, vlan_bad, brief, keep, data} behind the stages.
  output logic [77:0] rx_o        [2],

  input  logic        start_i      [2],
  output logic        ready_start_o[2],
  /// {valid, last, bad, keep, data}.
  input  logic [74:0] tx_i         [2],
  output logic        ready_o      [2],
  output logic [63:0] xgmii_txd_o,
  output logic [ 7:0] xgmii_txc_o,
  output logic [ 7:0] gmii_txd_o,
  output logic        gmii_tx_en_o,
  output logic        gmii_tx_er_o,
  /// tx_stat_t of both.
  output logic [ 2:0] stat_o       [2]
);
  import fibnic_pkg::*;

  axis_if mac_rx[2] ();
  axis_if rx[2] ();
  axis_if mac_tx[2] ();

  xgmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_xgmii_rx (
    .clk_i,
    .rst_i,
    .xgmii_rxd_i,
    .xgmii_rxc_i,
    .m_axis(mac_rx[0]),
    .stat_o(),
    .busy_o()
  );

  gmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_gmii_rx (
    .clk_i,
    .rst_i,
    .gmii_rxd_i,
    .gmii_rx_dv_i,
    .gmii_rx_er_i,
    .m_axis(mac_rx[1]),
    .stat_o(),
    .busy_o()
  );

  for (genvar i = 0; i < 2; i++) begin : gen_rate
    logic vlan_bad, brief, busy;
    to_mac_t s, m;
    from_mac_t s_back, m_back;

    assign mac_o[i] = {mac_rx[i].tvalid, mac_rx[i].tlast};

    vlan_untag u_untag (
      .clk_i,
      .rst_i,
      .tag_i,
      .vid_i,
      .s_axis    (mac_rx[i]),
      .m_axis    (rx[i]),
      .vlan_bad_o(vlan_bad),
      .brief_o   (brief),
      .busy_o    (busy)
    );

    assign rx[i].tready = 1'b1;
    assign rx_o[i] = {
      busy, rx[i].tvalid, rx[i].tlast, rx[i].tuser, vlan_bad, brief, rx[i].tkeep, rx[i].tdata
    };

    assign s.start = start_i[i];
    assign {s.valid, s.beat.last, s.beat.bad, s.beat.keep, s.beat.data} = tx_i[i];
    assign ready_start_o[i] = s_back.ready_start;
    assign ready_o[i] = s_back.ready;

    vlan_tag u_tag (
      .clk_i,
      .rst_i,
      .tag_i,
      .vid_i,
      .s_i(s),
      .s_o(s_back),
      .m_o(m),
      .m_i(m_back)
    );

    assign mac_tx[i].tvalid = m.valid;
    assign mac_tx[i].tdata  = m.beat.data;
    assign mac_tx[i].tkeep  = m.beat.keep;
    assign mac_tx[i].tlast  = m.beat.last;
    assign mac_tx[i].tuser  = m.beat.bad;
    assign m_back.ready     = mac_tx[i].tready;
  end

  xgmii_tx u_xgmii_tx (
    .clk_i,
    .rst_i,
    .start_i      (gen_rate[0].m.start),
    .ready_start_o(gen_rate[0].m_back.ready_start),
    .s_axis       (mac_tx[0]),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o       (stat_o[0]),
    .busy_o       ()
  );

  gmii_tx u_gmii_tx (
    .clk_i,
    .rst_i,
    .start_i      (gen_rate[1].m.start),
    .ready_start_o(gen_rate[1].m_back.ready_start),
    .s_axis       (mac_tx[1]),
    .gmii_txd_o,
    .gmii_tx_en_o,
    .gmii_tx_er_o,
    .stat_o       (stat_o[1]),
    .busy_o       ()
  );
endmodule
