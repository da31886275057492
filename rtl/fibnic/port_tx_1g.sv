// SPDX-License-Identifier: Apache-2.0
// Sending side of a 1G port: the VLAN tag, and the MAC, which computes the FCS anew from the bytes it
// sends.
//
// Latency   : mac_i.start to the first byte of the preamble in the output register: 1 edge.
// Clock     : clk_i, rst_i synchronous.
// Handshake : see to_mac_t and from_mac_t.
// Drops     : never.
// Source    : dissertation section 5.1.2.4.
module port_tx_1g
  import fibnic_pkg::*;
#(
  /// 1: frames may have to leave with a VLAN tag (cfg_i.tag_out).
  parameter bit Vlan = 1'b0
) (
  input  logic                    clk_i,
  input  logic                    rst_i,
  // Without a VLAN stage nothing is set here.
  // verilator lint_off UNUSEDSIGNAL
  input  port_cfg_t               cfg_i,
  // verilator lint_on UNUSEDSIGNAL
  input  to_mac_t                 mac_i,
  output from_mac_t               mac_o,
  output logic              [7:0] gmii_txd_o,
  output logic                    gmii_tx_en_o,
  output logic                    gmii_tx_er_o,
  output eth_pkg::tx_stat_t       stat_o,
  output logic                    busy_o
);
  to_mac_t   to_mac;
  from_mac_t from_mac;

  axis_if out ();

  if (Vlan) begin : gen_vlan
    vlan_tag u_tag (
      .clk_i,
      .rst_i,
      .tag_i(cfg_i.tag_out),
      .vid_i(cfg_i.vid_out),
      .s_i  (mac_i),
      .s_o  (mac_o),
      .m_o  (to_mac),
      .m_i  (from_mac)
    );
  end else begin : gen_plain
    assign to_mac = mac_i;
    assign mac_o  = from_mac;
  end

  assign out.tdata      = to_mac.beat.data;
  assign out.tkeep      = to_mac.beat.keep;
  assign out.tlast      = to_mac.beat.last;
  assign out.tuser      = to_mac.beat.bad;
  assign out.tvalid     = to_mac.valid;
  assign from_mac.ready = out.tready;

  gmii_tx u_mac (
    .clk_i,
    .rst_i,
    .start_i      (to_mac.start),
    .ready_start_o(from_mac.ready_start),
    .s_axis       (out),
    .gmii_txd_o,
    .gmii_tx_en_o,
    .gmii_tx_er_o,
    .stat_o,
    .busy_o
  );
endmodule
