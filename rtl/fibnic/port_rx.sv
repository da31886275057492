// SPDX-License-Identifier: Apache-2.0
// Receiving side of a 10G port: MAC, header parser, and the way to the core's clock.
//
// The FCS is checked and cut off. A frame waits in beats_o for its verdict, so that only the few
// bits of its header hurry. With AsyncRx the receive clock is unrelated to the core's, up to
// 200 ppm apart; without it clk_rx_i must be clk_i.
//
// Latency   : preamble on the pins in cycle 0: hdr_valid_o in cycle 6 (IPv4) or 8 (IPv6) without
//             AsyncRx, in cycle 9 or 11 with it and equal clocks. The first beat is in beats_o by
//             then.
// Clock     : clk_rx_i (pins, stat_o), clk_i (the rest).
// Handshake : hdr_valid_o is a pulse, one per frame. Beats: first word falls through, beat_pop_i
//             takes it. brief_valid_o: the end of the oldest frame whose end was not popped is
//             known; brief_o: it was shorter than 64 bytes.
// Drops     : never.
// Source    : dissertation section 5.1.2.1.
module port_rx #(
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Beats that may wait for their verdict; a power of two.
  parameter int unsigned Beats = 64,
  /// Receive clock unrelated to the core clock.
  parameter bit AsyncRx = 1'b0
) (
  input  logic                           clk_rx_i,
  input  logic                           rst_rx_i,
  input  logic                    [63:0] xgmii_rxd_i,
  input  logic                    [ 7:0] xgmii_rxc_i,
  output eth_pkg::rx_stat_t              stat_o,
  input  logic                           clk_i,
  input  logic                           rst_i,
  input  logic                    [47:0] mac_i,
  output logic                           hdr_valid_o,
  output fibnic_pkg::hdr_t               hdr_o,
  output fibnic_pkg::lookup_req_t        req_o,
  output logic                           beat_valid_o,
  output fibnic_pkg::beat_t              beat_o,
  input  logic                           beat_pop_i,
  output logic                           brief_valid_o,
  output logic                           brief_o,
  input  logic                           brief_pop_i
);
  import fibnic_pkg::*;
  import eth_pkg::*;

  typedef struct packed {
    hdr_t        hdr;
    lookup_req_t req;
  } info_t;

  axis_if frame ();

  info_t info;
  logic  info_valid;
  beat_t hold_q, put;
  logic hold_valid_q, tail_q, put_valid, beats_ready, briefs_ready, brief;
  logic [3:0] bytes;
  logic [3:0] count_q;  // full beats of the frame so far; stays at 8

  xgmii_rx #(
    .MaxFrame(MaxFrame)
  ) u_mac (
    .clk_i (clk_rx_i),
    .rst_i (rst_rx_i),
    .xgmii_rxd_i,
    .xgmii_rxc_i,
    .m_axis(frame),
    .stat_o,
    .busy_o()
  );

  assign frame.tready = 1'b1;

  header_parse u_parse (
    .clk_i  (clk_rx_i),
    .rst_i  (rst_rx_i),
    .mac_i,
    .frame,
    .valid_o(info_valid),
    .hdr_o  (info.hdr),
    .req_o  (info.req)
  );

  assign bytes = keep_bytes(frame.tkeep);
  // 64 bytes are eight full beats.
  assign brief = !(count_q == 4'd8 || (count_q == 4'd7 && bytes == 4'd8));

  // One beat is held back until it is known whether the FCS begins in it.
  always_comb begin
    put       = hold_q;
    put_valid = 1'b0;
    if (tail_q) begin
      put_valid = 1'b1;
    end else if (frame.tvalid) begin
      put_valid = hold_valid_q || (frame.tlast && bytes <= 4'd4);
      if (frame.tlast && bytes <= 4'd4) begin
        put.keep = bytes_keep(4'd4 + bytes);
        put.last = 1'b1;
        put.bad  = frame.tuser[0];
      end
    end
  end

  always_ff @(posedge clk_rx_i) begin
    if (frame.tvalid) begin
      hold_q.data <= frame.tdata;
      hold_q.keep <= frame.tlast ? bytes_keep(bytes - 4'd4) : '1;
      hold_q.last <= frame.tlast;
      hold_q.bad  <= frame.tlast && frame.tuser[0];
    end
  end

  always_ff @(posedge clk_rx_i) begin
    if (rst_rx_i) begin
      hold_valid_q <= 1'b0;
      tail_q       <= 1'b0;
      count_q      <= '0;
    end else begin
      tail_q <= 1'b0;
      if (frame.tvalid) begin
        hold_valid_q <= !frame.tlast;
        tail_q       <= frame.tlast && bytes > 4'd4;
        count_q      <= frame.tlast ? '0 : count_q == 4'd8 ? 4'd8 : count_q + 1'b1;
      end
    end
  end

  async_fifo #(
    .data_t(beat_t),
    .Depth (Beats)
  ) u_beats (
    .wclk_i  (clk_rx_i),
    .wrst_i  (rst_rx_i),
    .wdata_i (put),
    .wvalid_i(put_valid),
    .wready_o(beats_ready),
    .wcount_o(),
    .rclk_i  (clk_i),
    .rrst_i  (rst_i),
    .rdata_o (beat_o),
    .rvalid_o(beat_valid_o),
    .rready_i(beat_pop_i)
  );

  async_fifo #(
    .data_t(logic),
    .Depth (Beats)
  ) u_briefs (
    .wclk_i  (clk_rx_i),
    .wrst_i  (rst_rx_i),
    .wdata_i (brief),
    .wvalid_i(frame.tvalid && frame.tlast),
    .wready_o(briefs_ready),
    .wcount_o(),
    .rclk_i  (clk_i),
    .rrst_i  (rst_i),
    .rdata_o (brief_o),
    .rvalid_o(brief_valid_o),
    .rready_i(brief_pop_i)
  );

  if (AsyncRx) begin : gen_async
    info_t info_core;
    logic  info_ready;

    async_fifo #(
      .data_t(info_t),
      .Depth (4)
    ) u_info (
      .wclk_i  (clk_rx_i),
      .wrst_i  (rst_rx_i),
      .wdata_i (info),
      .wvalid_i(info_valid),
      .wready_o(info_ready),
      .wcount_o(),
      .rclk_i  (clk_i),
      .rrst_i  (rst_i),
      .rdata_o (info_core),
      .rvalid_o(hdr_valid_o),
      .rready_i(1'b1)
    );

    assign hdr_o = info_core.hdr;
    assign req_o = info_core.req;

`ifndef SYNTHESIS
    always_ff @(posedge clk_rx_i) begin
      if (!rst_rx_i && info_valid) begin
        a_info :
        assert (info_ready)
        else $error("a header found no room");
      end
    end
`endif
  end else begin : gen_sync
    assign hdr_valid_o = info_valid;
    assign hdr_o       = info.hdr;
    assign req_o       = info.req;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_rx_i) begin
    if (!rst_rx_i) begin
      a_beats :
      assert (beats_ready || !put_valid)
      else $error("a beat found no room");
      a_briefs :
      assert (briefs_ready || !(frame.tvalid && frame.tlast))
      else $error("the end of a frame found no room");
      a_tail :
      assert (!(tail_q && frame.tvalid))
      else $error("a frame on the heels of another");
    end
  end
`endif
endmodule
