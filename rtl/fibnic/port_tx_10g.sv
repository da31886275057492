// SPDX-License-Identifier: Apache-2.0
// Sending side of a 10G port: the MAC, which computes the FCS anew from the bytes it sends.
//
// Latency   : mac_i.start to start of frame in the output register: 1 edge.
// Clock     : clk_i, rst_i synchronous.
// Handshake : see to_mac_t and from_mac_t.
// Drops     : what the MAC sends while there is a link fault: remote faults leave instead of it while nothing is
//             received here, else idle; then nothing until a frame begins, in either lane. The MAC counts its frames
//             all the same.
// Source    : dissertation section 5.1.2.4; IEEE 802.3 subclause 46.3.4.
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
  input  link_fault_t              fault_i,
  input  to_mac_t                  mac_i,
  output from_mac_t                mac_o,
  output logic              [63:0] xgmii_txd_o,
  output logic              [ 7:0] xgmii_txc_o,
  output eth_pkg::tx_stat_t        stat_o,
  output logic                     busy_o
);
  // Two columns each.
  localparam logic [63:0] RemoteFaultWord = {2{32'h0200009c}};
  localparam logic [7:0] RemoteFaultControl = {2{4'b0001}};
  // Control characters of a word in which a frame starts in lane 4.
  localparam logic [7:0] StartLane4 = 8'h1f;

  axis_if out ();

  logic [63:0] txd;
  logic [ 7:0] txc;
  logic mac_busy, mute, mute_q, fault_q, tell_q;
  logic      starts;  // in lane 4

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
    .xgmii_txd_o  (txd),
    .xgmii_txc_o  (txc),
    .stat_o,
    .busy_o       (mac_busy)
  );

  // A start in lane 0 has a word without a frame in front of it, one in lane 4 perhaps only half a word.
  assign starts = !fault_q && txc == StartLane4;
  assign mute   = mute_q && !starts;

  always_ff @(posedge clk_i) begin
    tell_q  <= fault_i.here;
    fault_q <= fault_i.here || fault_i.remote;
    if (rst_i) mute_q <= 1'b0;
    else mute_q <= fault_i.here || fault_i.remote || (mute && !(&txc));
  end

  always_comb begin
    xgmii_txd_o = txd;
    xgmii_txc_o = txc;
    if (mute) begin
      xgmii_txd_o = tell_q ? RemoteFaultWord : eth_pkg::XgmiiIdleWord;
      xgmii_txc_o = tell_q ? RemoteFaultControl : '1;
    end
  end

  assign busy_o = mac_busy || mute_q;
endmodule
