// SPDX-License-Identifier: Apache-2.0
// Receiving side of a 10G port: MAC, header parser, and the way to the core's clock.
//
// The FCS is checked and cut off. A frame waits here for its verdict, so that only the few bits of
// its header hurry. With AsyncRx the receive clock is unrelated to the core's, up to 200 ppm apart;
// without it clk_rx_i must be clk_i.
//
// Latency   : preamble on the pins in cycle 0: rx_o.hdr_valid in cycle 6 (IPv4) or 8 (IPv6) without
//             AsyncRx, in cycle 9 or 11 with it and equal clocks, all one cycle later with Vlan. The
//             first beat is there by then; the end of a frame of 63 bytes 4 cycles later than its
//             header without AsyncRx, else 3; that of a longer one with its last beat,
//             or later.
// Clock     : clk_rx_i (pins), clk_i (the rest).
// Handshake : see from_rx_t. At most Beats beats may wait.
// Reset     : rst_rx_i and rst_i need not overlap, see port_reset. A reset of the receive side ends a
//             frame of which a beat has come as one with an error; one that has none is not counted.
// Drops     : what comes from rst_rx_i on until the port has been cleared; see port_reset for the rest.
// Source    : dissertation section 5.1.2.1.
module port_rx_10g
  import fibnic_pkg::*;
#(
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Beats that may wait for their verdict; a power of two.
  parameter int unsigned Beats = 64,
  /// Frames that may wait for their verdict; a power of two.
  parameter int unsigned Frames = 64,
  /// Receive clock unrelated to the core clock.
  parameter bit AsyncRx = 1'b1,
  /// VLAN tags can be taken off: one cycle more.
  parameter bit Vlan = 1'b0
) (
  input  logic                     clk_rx_i,
  input  logic                     rst_rx_i,
  input  logic              [63:0] xgmii_rxd_i,
  input  logic              [ 7:0] xgmii_rxc_i,
  input  logic                     clk_i,
  input  logic                     rst_i,
  /// A frame is judged by what held between two frames, up to 16 cycles ago.
  // verilator lint_off UNUSEDSIGNAL
  input  port_cfg_t                cfg_i,
  // verilator lint_on UNUSEDSIGNAL
  output from_rx_t                 rx_o,
  input  to_rx_t                   rx_i,
  /// Pulses, in the core's clock.
  output eth_pkg::rx_stat_t        stat_o,
  output link_fault_t              fault_o,
  /// A frame is in here. Mixes both clocks: for simulators that skip idle time.
  output logic                     busy_o
);
  import eth_pkg::*;

  localparam int unsigned InfoDepth = 8;
  localparam int unsigned FcsBytes = 4;
  localparam int unsigned MacHeaderBytes = 14;
  localparam int unsigned CountW = $clog2(MaxFrame / 8 + 2);
  localparam int unsigned LengthW = 17;

  typedef struct packed {
    hdr_t         hdr;
    logic [127:0] addr;
  } info_t;

  /// What the receive side needs of port_cfg_t.
  typedef struct packed {
    logic [47:0] mac;
    logic        tag_in;
    logic [11:0] vid_in;
  } settings_t;

  axis_if mac ();  // as the MAC gives it
  axis_if raw ();  // each frame with an end
  axis_if frame ();  // without the tag

  settings_t settings;
  // Without a VLAN stage there is one setting.
  // verilator lint_off UNUSEDSIGNAL
  settings_t settings_rx;
  // verilator lint_on UNUSEDSIGNAL
  logic      settings_known;

  logic down, deaf, idle, clear_rx, clear, reset_busy, fault_busy;
  link_fault_t fault;
  logic open_q, closed_q;  // a frame's end has not come; a reset took its place

  logic vlan_bad, brief, vlan_busy;
  info_t info, info_core;
  logic info_valid, info_valid_core, acl_valid, acl_valid_core;
  acl_key_t acl, acl_core;
  rx_stat_t stat, mac_stat;
  beat_t hold_q, put;
  logic hold_valid_q, tail_q, put_valid, bad, mac_busy, beats_busy, crossing;
  end_t ending, tail_end_q;
  logic end_now, end_put;
  logic [       3:0] bytes;
  logic [CountW-1:0] count_q;  // full beats of the frame so far
  logic [LengthW-1:0] length, length_q;  // frame with MAC header and FCS, as IP says
  logic [LengthW-1:0] received;

  xgmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_mac (
    .clk_i (clk_rx_i),
    .rst_i (deaf),
    .xgmii_rxd_i,
    .xgmii_rxc_i,
    .m_axis(mac),
    .stat_o(mac_stat),
    .busy_o(mac_busy)
  );

  xgmii_fault u_fault (
    .clk_i   (clk_rx_i),
    .rst_i   (down),
    .xgmii_rxd_i,
    .xgmii_rxc_i,
    .local_o (fault.here),
    .remote_o(fault.remote),
    .busy_o  (fault_busy)
  );

  // Never both: a flag that is late makes a word of idle.
  sync_ff u_sync_local (
    .clk_i,
    .d_i(fault.here),
    .q_o(fault_o.here)
  );

  sync_ff u_sync_remote (
    .clk_i,
    .d_i(fault.remote),
    .q_o(fault_o.remote)
  );

  port_reset u_reset (
    .clk_rx_i,
    .rst_rx_i,
    .down_o  (down),
    .rst_rx_o(clear_rx),
    .clk_i,
    .rst_i,
    .rst_o   (clear),
    .idle_i  (idle),
    .open_i  (rx_i.open),
    .busy_o  (reset_busy)
  );

  assign idle = rx_i.idle && !rx_o.hdr_valid && !rx_o.acl_valid && !rx_o.beat_valid &&
      !rx_o.end_valid;

  // Nothing is received before there are settings to judge it by.
  assign deaf = down || !settings_known;
  assign settings = '{mac: cfg_i.mac, tag_in: cfg_i.tag_in, vid_in: cfg_i.vid_in};

  // In the cycle in which deaf rises the MAC still has a beat, which does not count any more.
  assign mac.tready = 1'b1;
  assign raw.tdata = mac.tdata;
  assign raw.tkeep = mac.tkeep;
  assign raw.tvalid = deaf ? open_q : mac.tvalid;
  assign raw.tlast = mac.tlast || deaf;
  assign raw.tuser = mac.tuser || deaf;

  always_ff @(posedge clk_rx_i) begin
    if (clear_rx) begin
      open_q   <= 1'b0;
      closed_q <= 1'b0;
    end else begin
      if (raw.tvalid) open_q <= !raw.tlast;
      closed_q <= deaf && open_q;
    end
  end

  always_comb begin
    stat       = mac_stat;
    stat.error = mac_stat.error || closed_q;
  end

  assign frame.tready = 1'b1;

  if (Vlan) begin : gen_vlan
    vlan_untag u_untag (
      .clk_i     (clk_rx_i),
      .rst_i     (clear_rx),
      .tag_i     (settings_rx.tag_in),
      .vid_i     (settings_rx.vid_in),
      .s_axis    (raw),
      .m_axis    (frame),
      .vlan_bad_o(vlan_bad),
      .brief_o   (brief),
      .busy_o    (vlan_busy)
    );
  end else begin : gen_no_vlan
    assign raw.tready   = frame.tready;
    assign frame.tdata  = raw.tdata;
    assign frame.tkeep  = raw.tkeep;
    assign frame.tvalid = raw.tvalid;
    assign frame.tlast  = raw.tlast;
    assign frame.tuser  = raw.tuser;
    assign vlan_bad     = 1'b0;
    assign brief        = received < LengthW'(MinFrame);
    assign vlan_busy    = 1'b0;
  end

  header_parse u_parse (
    .clk_i      (clk_rx_i),
    .rst_i      (clear_rx),
    .mac_i      (settings_rx.mac),
    .vlan_bad_i (vlan_bad),
    .frame,
    .valid_o    (info_valid),
    .hdr_o      (info.hdr),
    .addr_o     (info.addr),
    .acl_valid_o(acl_valid),
    .acl_o      (acl)
  );

  // How the frame ends.
  assign bytes    = keep_bytes(frame.tkeep);
  assign received = LengthW'({count_q, 3'd0}) + LengthW'(bytes);
  assign bad      = frame.tuser[0] || received < length;

  // Not before the last beat: they cross apart, and if the clock stood between the two a stored frame
  // would leave without it. Only a runt's hurries: nothing of it leaves.
  assign end_now  = frame.tvalid && frame.tlast && (brief || bytes <= 4'(FcsBytes));
  assign end_put  = end_now || (tail_q && !tail_end_q.brief);
  assign ending   = end_now ? '{brief: brief, bad: bad} : tail_end_q;

  // Not IP: nothing is too short.
  always_comb begin
    length = length_q;
    if (info_valid) begin
      length = '0;
      if (info.hdr.v4 || info.hdr.v6)
        length = LengthW'(info.hdr.length) + LengthW'(MacHeaderBytes + FcsBytes);
    end
  end

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
        put.bad  = bad;
      end
    end
  end

  always_ff @(posedge clk_rx_i) begin
    length_q   <= length;
    tail_end_q <= '{brief: brief, bad: bad};
    if (frame.tvalid) begin
      hold_q.data <= frame.tdata;
      hold_q.keep <= frame.tlast ? bytes_keep(bytes - 4'(FcsBytes)) : '1;
      hold_q.last <= frame.tlast;
      hold_q.bad  <= frame.tlast && bad;
    end
  end

  always_ff @(posedge clk_rx_i) begin
    if (clear_rx) begin
      hold_valid_q <= 1'b0;
      tail_q       <= 1'b0;
      count_q      <= '0;
    end else begin
      tail_q <= 1'b0;
      if (frame.tvalid) begin
        hold_valid_q <= !frame.tlast;
        tail_q       <= frame.tlast && bytes > 4'(FcsBytes);
        count_q      <= frame.tlast ? '0 : count_q + 1'b1;
      end
    end
  end

  beat_fifo #(
    .Depth(Beats)
  ) u_beats (
    .wclk_i  (clk_rx_i),
    .wrst_i  (clear_rx),
    .wvalid_i(put_valid),
    .wdata_i (put),
    .wbusy_o (beats_busy),
    .rclk_i  (clk_i),
    .rrst_i  (clear),
    .rvalid_o(rx_o.beat_valid),
    .rdata_o (rx_o.beat),
    .rready_i(rx_i.beat_pop)
  );

  assign rx_o.hdr_valid = info_valid_core;
  assign rx_o.hdr = info_core.hdr;
  assign rx_o.addr = info_core.addr;
  assign rx_o.req4 = info_valid_core && info_core.hdr.v4;
  assign rx_o.req6 = info_valid_core && info_core.hdr.v6;
  assign rx_o.acl_valid = acl_valid_core;
  assign rx_o.acl = acl_core;
  assign rx_o.clear = clear;
  assign busy_o = mac_busy || vlan_busy || hold_valid_q || tail_q || beats_busy || crossing ||
      rx_o.beat_valid || rx_o.end_valid || reset_busy || deaf ||
      fault_busy;

  if (AsyncRx) begin : gen_async
    localparam int unsigned InfoCountW = $clog2(InfoDepth) + 1;
    logic info_ready, acl_ready, ends_ready, stat_ready;
    logic [InfoCountW-1:0] info_count, acl_count, stat_count;
    logic info_held, acl_held, ends_held, stat_held;
    settings_t settings_sent, settings_q;
    logic settings_valid, between, known_q;

    // What has changed since the last frame is taken over between two of them.
    assign between        = !raw.tvalid && !open_q;
    assign settings_rx    = settings_q;
    assign settings_known = known_q;

    req_ack_cdc #(
      .data_t(settings_t)
    ) u_settings (
      .src_clk_i  (clk_i),
      .src_rst_i  (clear),
      .src_data_i (settings),
      .src_valid_i(1'b1),
      .src_ready_o(),
      .dst_clk_i  (clk_rx_i),
      .dst_rst_i  (clear_rx),
      .dst_data_o (settings_sent),
      .dst_valid_o(settings_valid),
      .dst_ready_i(between)
    );

    always_ff @(posedge clk_rx_i) begin
      if (settings_valid && between) settings_q <= settings_sent;
      if (clear_rx) known_q <= 1'b0;
      else if (settings_valid && between) known_q <= 1'b1;
    end
    rx_stat_t stat_core;

    async_fifo #(
      .data_t(info_t),
      .Depth (InfoDepth)
    ) u_info (
      .wclk_i  (clk_rx_i),
      .wrst_i  (clear_rx),
      .wdata_i (info),
      .wvalid_i(info_valid),
      .wready_o(info_ready),
      .wcount_o(info_count),
      .rclk_i  (clk_i),
      .rrst_i  (clear),
      .rdata_o (info_core),
      .rvalid_o(info_held),
      .rready_i(1'b1)
    );

    async_fifo #(
      .data_t(acl_key_t),
      .Depth (InfoDepth)
    ) u_acl (
      .wclk_i  (clk_rx_i),
      .wrst_i  (clear_rx),
      .wdata_i (acl),
      .wvalid_i(acl_valid),
      .wready_o(acl_ready),
      .wcount_o(acl_count),
      .rclk_i  (clk_i),
      .rrst_i  (clear),
      .rdata_o (acl_core),
      .rvalid_o(acl_held),
      .rready_i(1'b1)
    );

    async_fifo #(
      .data_t(end_t),
      .Depth (Frames)
    ) u_ends (
      .wclk_i  (clk_rx_i),
      .wrst_i  (clear_rx),
      .wdata_i (ending),
      .wvalid_i(end_put),
      .wready_o(ends_ready),
      .wcount_o(),
      .rclk_i  (clk_i),
      .rrst_i  (clear),
      .rdata_o (rx_o.ending),
      .rvalid_o(ends_held),
      .rready_i(rx_i.end_pop)
    );

    async_fifo #(
      .data_t(rx_stat_t),
      .Depth (InfoDepth)
    ) u_stat (
      .wclk_i  (clk_rx_i),
      .wrst_i  (clear_rx),
      .wdata_i (stat),
      .wvalid_i(|stat),
      .wready_o(stat_ready),
      .wcount_o(stat_count),
      .rclk_i  (clk_i),
      .rrst_i  (clear),
      .rdata_o (stat_core),
      .rvalid_o(stat_held),
      .rready_i(1'b1)
    );

    // Until the receive side is cleared, too, its pointers are those of old words.
    assign info_valid_core = info_held && !clear;
    assign acl_valid_core  = acl_held && !clear;
    assign rx_o.end_valid  = ends_held && !clear;
    assign stat_o          = stat_core & {$bits(rx_stat_t) {stat_held && !clear}};
    assign crossing        = info_count != '0 || acl_count != '0 || stat_count != '0;

`ifndef SYNTHESIS
    always_ff @(posedge clk_rx_i) begin
      if (!clear_rx && !clear) begin
        a_info :
        assert (info_ready || !info_valid)
        else $error("a header found no room");
        a_acl :
        assert (acl_ready || !acl_valid)
        else $error("a key found no room");
        a_ends :
        assert (ends_ready || !end_put)
        else $error("the end of a frame found no room");
        a_stat :
        assert (stat_ready || stat == '0)
        else $error("a count found no room");
      end
    end
`endif
  end else begin : gen_sync
    logic ends_ready;

    assign info_valid_core = info_valid;
    assign info_core       = info;
    assign acl_valid_core  = acl_valid;
    assign acl_core        = acl;
    assign stat_o          = stat;
    assign crossing        = 1'b0;
    assign settings_rx     = settings;
    assign settings_known  = 1'b1;

    sync_fifo #(
      .data_t(end_t),
      .Depth (Frames)
    ) u_ends (
      .clk_i,
      .rst_i   (clear),
      .wdata_i (ending),
      .wvalid_i(end_put),
      .wready_o(ends_ready),
      .rdata_o (rx_o.ending),
      .rvalid_o(rx_o.end_valid),
      .rready_i(rx_i.end_pop),
      .count_o ()
    );

`ifndef SYNTHESIS
    always_ff @(posedge clk_i) begin
      if (!clear) begin
        a_ends :
        assert (ends_ready || !end_put)
        else $error("the end of a frame found no room");
      end
    end
`endif
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_rx_i) begin
    if (!clear_rx) begin
      a_tail :
      assert (!(tail_q && frame.tvalid))
      else $error("a frame on the heels of another");
    end
  end
`endif
endmodule
