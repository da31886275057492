// SPDX-License-Identifier: Apache-2.0
// Receiving side of a 1G port: crossing to the core's clock, MAC, VLAN tag, header parser.
//
// All but the first bytes of gmii_elastic is in the core's clock. The FCS is checked and cut off. A
// frame waits here for its verdict, so that only its address hurries.
//
// Latency   : preamble on the pins in cycle 0 and clocks equal, behind gmii_elastic: cycle V = 3 (1
//             without AsyncRx). rx_o.req4 in V + 40, rx_o.req6 in V + 47, hdr_valid in V + 42 or V +
//             62; the first beat is there in V + 28, 8 cycles later with Vlan. acl_valid: at the
//             latest in V + 45 or V + 65. A byte that gmii_elastic holds up adds a cycle.
// Clock     : clk_rx_i (pins), clk_i (the rest).
// Reset     : rst_rx_i and rst_i need not overlap. Of a reset of the receive side all but gmii_elastic sees
//             a frame that ends with an error.
// Handshake : see from_rx_t and header_parse_1g. end_valid comes when the last beat was put. At
//             most Beats beats and Frames frames may wait.
// Drops     : never; frames with a bad preamble don't get past the MAC, which counts them.
// Source    : dissertation section 5.1.2.1.
module port_rx_1g
  import fibnic_pkg::*;
#(
  /// Longest frame with FCS, bytes; a VLAN tag counts.
  parameter int unsigned MaxFrame = 9216,
  /// Beats that may wait for their verdict; a power of two.
  parameter int unsigned Beats = 64,
  /// Frames that may wait for their verdict; a power of two.
  parameter int unsigned Frames = 64,
  /// Receive clock unrelated to the core clock; without it clk_rx_i must be clk_i.
  parameter bit AsyncRx = 1'b1,
  /// 1: frames may have to come with a VLAN tag (cfg_i.tag_in).
  parameter bit Vlan = 1'b0
) (
  input  logic                    clk_rx_i,
  input  logic                    rst_rx_i,
  input  logic              [7:0] gmii_rxd_i,
  input  logic                    gmii_rx_dv_i,
  input  logic                    gmii_rx_er_i,
  input  logic                    clk_i,
  input  logic                    rst_i,
  /// Set before traffic; what changes meanwhile may be misread once.
  input  port_cfg_t               cfg_i,
  output from_rx_t                rx_o,
  // Nothing of a port is left in the core for a reset to wait for.
  // verilator lint_off UNUSEDSIGNAL
  input  to_rx_t                  rx_i,
  // verilator lint_on UNUSEDSIGNAL
  output eth_pkg::rx_stat_t       stat_o,
  /// A frame is in here. Mixes both clocks: for simulators that skip idle time.
  output logic                    busy_o
);
  import eth_pkg::*;

  localparam int unsigned FcsBytes = 4;
  localparam int unsigned TagBytes = 4;
  localparam int unsigned MacHeaderBytes = 14;
  localparam int unsigned CountW = $clog2(MaxFrame / 8 + 2);
  localparam int unsigned LengthW = 17;
  // Edges from a pointer to the other side of a FIFO, and more.
  localparam int unsigned ClearEdges = 4;

  logic en, rx_dv, rx_er;
  logic      [7:0] rxd;
  port_cfg_t       cfg;
  hdr_t            hdr;
  logic had_tag, elastic_busy, mac_busy, vlan_busy, beats_busy;

  axis_if mac ();  // as the MAC gives it
  axis_if all ();  // with what IP says of its length
  axis_if frame ();  // without the tag

  logic [3:0] mac_bytes, bytes;
  logic [CountW-1:0] count_q;  // full beats of the frame in front
  logic [LengthW-1:0] wire_bytes, wanted;
  logic short_ip, brief;

  beat_t hold_q, put;
  logic hold_valid_q, tail_q, tail_brief_q, put_valid, ends_ready;
  end_t                  ending;
  logic                  clear;
  logic [ClearEdges-1:0] clear_q;

  // Without its stage there is no VLAN.
  always_comb begin
    cfg        = cfg_i;
    cfg.tag_in = cfg_i.tag_in && Vlan;
  end

  gmii_elastic #(
    .MaxFrame(MaxFrame),
    .AsyncRx (AsyncRx)
  ) u_elastic (
    .clk_rx_i,
    .rst_rx_i,
    .gmii_rxd_i,
    .gmii_rx_dv_i,
    .gmii_rx_er_i,
    .clk_i,
    .rst_i,
    .valid_o(en),
    .rxd_o  (rxd),
    .rx_dv_o(rx_dv),
    .rx_er_o(rx_er),
    .busy_o (elastic_busy)
  );

  header_parse_1g u_parse (
    .clk_i,
    .rst_i,
    .cfg_i       (cfg),
    .en_i        (en),
    .gmii_rxd_i  (rxd),
    .gmii_rx_dv_i(rx_dv),
    .gmii_rx_er_i(rx_er),
    .req4_o      (rx_o.req4),
    .req6_o      (rx_o.req6),
    .addr_o      (rx_o.addr),
    .hdr_valid_o (rx_o.hdr_valid),
    .hdr_o       (hdr),
    .acl_valid_o (rx_o.acl_valid),
    .acl_o       (rx_o.acl),
    .tagged_o    (had_tag)
  );

  assign rx_o.hdr   = hdr;
  assign rx_o.clear = 1'b0;

  gmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_mac (
    .clk_i,
    .rst_i,
    .en_i        (en),
    .gmii_rxd_i  (rxd),
    .gmii_rx_dv_i(rx_dv),
    .gmii_rx_er_i(rx_er),
    .m_axis      (mac),
    .stat_o,
    .busy_o      (mac_busy)
  );

  // A frame shorter than its IP packet is as bad as one with a wrong FCS; longer is padding.
  assign mac_bytes = keep_bytes(mac.tkeep);
  assign wire_bytes = LengthW'({count_q, 3'd0}) + LengthW'(mac_bytes);
  assign wanted     = LengthW'(hdr.length) + LengthW'(MacHeaderBytes + FcsBytes) +
      (had_tag ? LengthW'(TagBytes) : '0);
  assign short_ip = (hdr.v4 || hdr.v6) && wire_bytes < wanted;

  always_ff @(posedge clk_i) begin
    if (rst_i) count_q <= '0;
    else if (mac.tvalid) count_q <= mac.tlast ? '0 : count_q + 1'b1;
  end

  assign mac.tready = 1'b1;
  assign all.tdata  = mac.tdata;
  assign all.tkeep  = mac.tkeep;
  assign all.tvalid = mac.tvalid;
  assign all.tlast  = mac.tlast;
  assign all.tuser  = mac.tuser || short_ip;

  if (Vlan) begin : gen_vlan
    vlan_untag u_untag (
      .clk_i,
      .rst_i,
      .tag_i     (cfg.tag_in),
      .vid_i     (cfg.vid_in),
      .s_axis    (all),
      .m_axis    (frame),
      // The parser has found out by itself.
      .vlan_bad_o(),
      .brief_o   (brief),
      .busy_o    (vlan_busy)
    );
  end else begin : gen_plain
    assign frame.tdata  = all.tdata;
    assign frame.tkeep  = all.tkeep;
    assign frame.tvalid = all.tvalid;
    assign frame.tlast  = all.tlast;
    assign frame.tuser  = all.tuser;
    assign all.tready   = frame.tready;
    assign brief        = wire_bytes < LengthW'(MinFrame);
    assign vlan_busy    = 1'b0;
  end

  assign frame.tready = 1'b1;
  assign bytes        = keep_bytes(frame.tkeep);

  // One beat is held back until it is known whether the FCS begins in it.
  always_comb begin
    put       = hold_q;
    put_valid = 1'b0;
    if (tail_q) begin
      put_valid = 1'b1;
    end else if (frame.tvalid) begin
      put_valid = hold_valid_q || (frame.tlast && bytes <= 4'(FcsBytes));
      if (frame.tlast && bytes <= 4'(FcsBytes)) begin
        put.keep = bytes_keep(4'(8 - FcsBytes) + bytes);
        put.last = 1'b1;
        put.bad  = frame.tuser[0];
      end
    end
  end

  assign ending.bad   = put.bad;
  assign ending.brief = tail_q ? tail_brief_q : brief;

  always_ff @(posedge clk_i) begin
    if (frame.tvalid) begin
      hold_q.data  <= frame.tdata;
      hold_q.keep  <= frame.tlast ? bytes_keep(bytes - 4'(FcsBytes)) : '1;
      hold_q.last  <= frame.tlast;
      hold_q.bad   <= frame.tlast && frame.tuser[0];
      tail_brief_q <= brief;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      hold_valid_q <= 1'b0;
      tail_q       <= 1'b0;
    end else begin
      tail_q <= 1'b0;
      if (frame.tvalid) begin
        hold_valid_q <= !frame.tlast;
        tail_q       <= frame.tlast && bytes > 4'(FcsBytes);
      end
    end
  end

  // The FIFO's pointers pass through synchronisers: with a reset of one edge old ones would come out of them. No beat
  // comes for longer than that.
  assign clear = rst_i || |clear_q;

  always_ff @(posedge clk_i) begin
    clear_q <= {clear_q[ClearEdges-2:0], rst_i};
  end

  beat_fifo #(
    .Depth(Beats)
  ) u_beats (
    .wclk_i  (clk_i),
    .wrst_i  (clear),
    .wvalid_i(put_valid),
    .wdata_i (put),
    .wbusy_o (beats_busy),
    .rclk_i  (clk_i),
    .rrst_i  (clear),
    .rvalid_o(rx_o.beat_valid),
    .rdata_o (rx_o.beat),
    .rready_i(rx_i.beat_pop)
  );

  sync_fifo #(
    .data_t(end_t),
    .Depth (Frames)
  ) u_ends (
    .clk_i,
    .rst_i,
    .wdata_i (ending),
    .wvalid_i(put_valid && put.last),
    .wready_o(ends_ready),
    .rdata_o (rx_o.ending),
    .rvalid_o(rx_o.end_valid),
    .rready_i(rx_i.end_pop),
    .count_o ()
  );

  assign busy_o = elastic_busy || mac_busy || vlan_busy || hold_valid_q || tail_q || beats_busy ||
      rx_o.hdr_valid || rx_o.acl_valid || rx_o.beat_valid || rx_o.end_valid;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_ends :
      assert (ends_ready || !(put_valid && put.last))
      else $error("the end of a frame found no room");
      a_tail :
      assert (!(tail_q && frame.tvalid))
      else $error("a frame on the heels of another");
    end
  end
`endif
endmodule
