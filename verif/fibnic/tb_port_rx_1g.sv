// SPDX-License-Identifier: Apache-2.0
// Flat ports around the receiving side of a 1G port.
//
// Latency : none of its own.
// Clock   : clk_rx_i, clk_i.
// Source  : bench only.
module tb_port_rx_1g
  import fibnic_pkg::*;
#(
  parameter int unsigned MaxFrame = 1518,
  parameter int unsigned Vlan = 1
) (
  input  logic         clk_rx_i,
  input  logic         clk_i,
  input  logic         rst_i,
  input  logic [  7:0] gmii_rxd_i,
  input  logic         gmii_rx_dv_i,
  input  logic         gmii_rx_er_i,
  input  logic [ 47:0] mac_i,
  input  logic         tag_i,
  input  logic [ 11:0] vid_i,
  output logic         req4_o,
  output logic         req6_o,
  output logic [127:0] addr_o,
  output logic         hdr_valid_o,
  output logic [ 26:0] hdr_o,
  output logic         acl_valid_o,
  output logic [297:0] acl_o,
  output logic         beat_valid_o,
  output logic [ 63:0] data_o,
  output logic [  7:0] keep_o,
  output logic         last_o,
  output logic         bad_o,
  input  logic         beat_pop_i,
  output logic         end_valid_o,
  output logic         end_bad_o,
  output logic         end_brief_o,
  input  logic         end_pop_i,
  output logic [  5:0] stat_o,
  output logic         busy_o
);
  port_cfg_t cfg;
  // Nothing of a port at 1G is held in the core.
  // verilator lint_off UNUSEDSIGNAL
  from_rx_t  rx;
  // verilator lint_on UNUSEDSIGNAL
  to_rx_t    pops;

  always_comb begin
    cfg        = '0;
    cfg.mac    = mac_i;
    cfg.tag_in = tag_i;
    cfg.vid_in = vid_i;
  end

  assign pops         = '{beat_pop: beat_pop_i, end_pop: end_pop_i, idle: 1'b1, open: 1'b0};
  assign req4_o       = rx.req4;
  assign req6_o       = rx.req6;
  assign addr_o       = rx.addr;
  assign hdr_valid_o  = rx.hdr_valid;
  assign hdr_o        = 27'(rx.hdr);
  assign acl_valid_o  = rx.acl_valid;
  assign acl_o        = rx.acl;
  assign beat_valid_o = rx.beat_valid;
  assign data_o       = rx.beat.data;
  assign keep_o       = rx.beat.keep;
  assign last_o       = rx.beat.last;
  assign bad_o        = rx.beat.bad;
  assign end_valid_o  = rx.end_valid;
  assign end_bad_o    = rx.ending.bad;
  assign end_brief_o  = rx.ending.brief;

  port_rx_1g #(
    .MaxFrame(MaxFrame),
    .Vlan    (Vlan)
  ) u_dut (
    .clk_rx_i,
    .rst_rx_i(rst_i),
    .gmii_rxd_i,
    .gmii_rx_dv_i,
    .gmii_rx_er_i,
    .clk_i,
    .rst_i,
    .cfg_i   (cfg),
    .rx_o    (rx),
    .rx_i    (pops),
    .stat_o,
    .busy_o
  );
endmodule
