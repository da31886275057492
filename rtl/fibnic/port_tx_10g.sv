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
(
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

  assign out.tdata   = mac_i.beat.data;
  assign out.tkeep   = mac_i.beat.keep;
  assign out.tlast   = mac_i.beat.last;
  assign out.tuser   = mac_i.beat.bad;
  assign out.tvalid  = mac_i.valid;
  assign mac_o.ready = out.tready;

  xgmii_tx u_mac (
    .clk_i,
    .rst_i,
    .start_i      (mac_i.start),
    .ready_start_o(mac_o.ready_start),
    .s_axis       (out),
    .xgmii_txd_o,
    .xgmii_txc_o,
    .stat_o,
    .busy_o
  );
endmodule
