// SPDX-License-Identifier: Apache-2.0
// The receive buffer: frames from the wire wait here for their FCS, and then for the host.
//
// A frame begins with a word of its own and is stored without its FCS. A frame that turns out bad, not
// mine, or too much for the room that is left, is written over by the next one.
//
// Latency   : the last beat to frame_valid_o as async_fifo says; 1 edge of clk_pcie_i from address to
//             DWs.
// Clock     : clk_net_i writes, clk_pcie_i reads.
// Handshake : s_eth can't wait. A frame is taken with frame_take_i; its words are free with the
//             free_valid_i that names the word behind it.
// Drops     : frames that are bad, not mine, or find no room; the last two counted here.
// Source    : own.
module rx_buffer
  import ring_types_pkg::*;
#(
  /// Words of 8 bytes; a power of two.
  parameter int unsigned Words = 2048,
  /// Frames that can wait; a power of two.
  parameter int unsigned Frames = 64,
  localparam int unsigned WordW = $clog2(Words)
) (
  input  logic                         clk_net_i,
  input  logic                         rst_net_i,
  /// First byte on the wire in the most significant bits.
  input  logic       [47:0]            mac_i,
  input  logic                         promiscuous_i,
         axis_if.snk                   s_eth,
  output logic                         cnt_good_o,
  output logic                         cnt_not_mine_o,
  output logic                         cnt_overflow_o,
  output logic                         busy_net_o,
  input  logic                         clk_pcie_i,
  input  logic                         rst_pcie_i,
  output frame_t                       frame_o,
  output logic                         frame_valid_o,
  input  logic                         frame_take_i,
  input  logic       [13:0]            free_word_i,
  input  logic                         free_valid_i,
  output logic                         free_ready_o,
  input  logic                         re_i,
  input  logic       [ 1:0][WordW-1:0] word_i,
  output logic       [ 1:0][     31:0] data_o
);
  logic [WordW:0] start_q, write_q, read_q, behind;
  logic [13:0] bytes_q, bytes, kept;
  logic first_q, mine_q, mine, no_room_q, no_room, room;
  logic beat, end_good, push, fifo_ready;
  logic   [47:0] destination;
  frame_t        frame;

  // ---- Into the buffer --------------------------------------------------------------------------
  assign s_eth.tready = 1'b1;
  assign beat         = s_eth.tvalid;
  for (genvar i = 0; i < 6; i++) begin : gen_destination
    assign destination[8*(5-i)+:8] = s_eth.tdata[8*i+:8];
  end
  assign mine     = first_q ? promiscuous_i || s_eth.tdata[0] || destination == mac_i : mine_q;
  assign room     = (write_q - read_q) != (WordW + 1)'(Words);
  assign no_room  = (!first_q && no_room_q) || !room;
  assign bytes    = (first_q ? '0 : bytes_q) + 14'(eth_pkg::keep_bytes(s_eth.tkeep));
  assign kept     = bytes - 14'd4;
  assign behind   = start_q + (WordW + 1)'((kept + 14'd7) >> 3);
  assign end_good = beat && s_eth.tlast && !s_eth.tuser[0];
  assign push     = end_good && mine && !no_room && fifo_ready;
  assign frame    = '{word: 14'(start_q[WordW-1:0]), bytes: kept};

  always_ff @(posedge clk_net_i) begin
    if (beat) begin
      mine_q    <= mine;
      no_room_q <= no_room;
      bytes_q   <= bytes;
    end
  end

  always_ff @(posedge clk_net_i) begin
    if (rst_net_i) begin
      first_q        <= 1'b1;
      start_q        <= '0;
      write_q        <= '0;
      cnt_good_o     <= 1'b0;
      cnt_not_mine_o <= 1'b0;
      cnt_overflow_o <= 1'b0;
    end else begin
      cnt_good_o     <= push;
      cnt_not_mine_o <= end_good && !mine;
      cnt_overflow_o <= end_good && mine && !push;
      if (beat) first_q <= s_eth.tlast;
      if (beat && s_eth.tlast) begin
        write_q <= push ? behind : start_q;
        if (push) start_q <= behind;
      end else if (beat && !no_room) begin
        write_q <= write_q + 1'b1;
      end
    end
  end

  // ---- Across -----------------------------------------------------------------------------------
  logic free_valid;
  logic [WordW-1:0] free_word, freed;

  async_fifo #(
    .data_t(frame_t),
    .Depth (Frames)
  ) u_frames (
    .wclk_i  (clk_net_i),
    .wrst_i  (rst_net_i),
    .wdata_i (frame),
    .wvalid_i(push),
    .wready_o(fifo_ready),
    .wcount_o(),
    .rclk_i  (clk_pcie_i),
    .rrst_i  (rst_pcie_i),
    .rdata_o (frame_o),
    .rvalid_o(frame_valid_o),
    .rready_i(frame_take_i)
  );

  async_fifo #(
    .data_t(logic [WordW-1:0]),
    .Depth (4)
  ) u_freed (
    .wclk_i  (clk_pcie_i),
    .wrst_i  (rst_pcie_i),
    .wdata_i (free_word_i[WordW-1:0]),
    .wvalid_i(free_valid_i),
    .wready_o(free_ready_o),
    .wcount_o(),
    .rclk_i  (clk_net_i),
    .rrst_i  (rst_net_i),
    .rdata_o (free_word),
    .rvalid_o(free_valid),
    .rready_i(1'b1)
  );

  // No frame fills the whole buffer, so its low bits tell how far the reader has come.
  // Of its own width, so that it wraps: within a size cast tools differ.
  assign freed = free_word - read_q[WordW-1:0];
  always_ff @(posedge clk_net_i) begin
    if (rst_net_i) read_q <= '0;
    else if (free_valid) read_q <= read_q + (WordW + 1)'(freed);
  end

  for (genvar b = 0; b < 2; b++) begin : gen_bank
    ram_2clk #(
      .data_t  (logic [31:0]),
      .Depth   (Words),
      .InitZero(1'b0)
    ) u_ram (
      .wclk_i (clk_net_i),
      .we_i   (beat && !no_room),
      .waddr_i(write_q[WordW-1:0]),
      .wdata_i(s_eth.tdata[32*b+:32]),
      .rclk_i (clk_pcie_i),
      .re_i   (re_i),
      .raddr_i(word_i[b]),
      .rdata_o(data_o[b])
    );
  end

  assign busy_net_o = !first_q || beat || free_valid || cnt_good_o || cnt_not_mine_o ||
      cnt_overflow_o;

  // The word's field fits the largest build.
  logic unused;
  assign unused = ^free_word_i;
endmodule
