// SPDX-License-Identifier: Apache-2.0
// Sending side of a 10G port: the MAC, which computes the FCS anew from the bytes it sends.
//
// Latency   : mac_i.start to start of frame in the output register: 1 edge.
// Clock     : clk_i, rst_i synchronous.
// Handshake : see to_mac_t and from_mac_t.
// Drops     : never.
// Source    : dissertation section 5.1.2.4.
module port_tx_10g
  import fibnic_pkg::*;
#(
  /// Frames can leave with a VLAN tag.
  parameter bit Vlan = 1'b0
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  // Without a VLAN stage nothing is set here.
  // verilator lint_off UNUSEDSIGNAL
  input  port_cfg_t                cfg_i,
  // verilator lint_on UNUSEDSIGNAL
  input  to_mac_t                  mac_i,
  output from_mac_t                mac_o,
  output logic              [63:0] xgmii_txd_o,
  output logic              [ 7:0] xgmii_txc_o,
  output eth_pkg::tx_stat_t        stat_o,
  output logic                     busy_o
);
  axis_if out ();

  to_mac_t   to_line;
  from_mac_t from_line;

  if (Vlan) begin : gen_vlan
    vlan_tag u_tag (
      .clk_i,
      .rst_i,
      .tag_i(cfg_i.tag_out),
      .vid_i(cfg_i.vid_out),
      .s_i  (mac_i),
      .s_o  (mac_o),
      .m_o  (to_line),
      .m_i  (from_line)
    );
  end else begin : gen_no_vlan
    assign to_line = mac_i;
    assign mac_o   = from_line;
  end

  assign out.tdata       = to_line.beat.data;
  assign out.tkeep       = to_line.beat.keep;
  assign out.tlast       = to_line.beat.last;
  assign out.tuser       = to_line.beat.bad;
  assign out.tvalid      = to_line.valid;
  assign from_line.ready = out.tready;

  xgmii_tx u_mac (
    .clk_i,
    .rst_i,
    .start_i      (to_line.start),
    .ready_start_o(from_line.ready_start),
    .s_axis       (out),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o,
    .busy_o
  );
endmodule
