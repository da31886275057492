// SPDX-License-Identifier: Apache-2.0
// Puts a VLAN tag into frames on their way to a transmit MAC: 0x8100, priority 0, vid_i, behind the
// MAC addresses. Without tag_i it is not there.
//
// A frame that ends within its MAC addresses has no place for a tag and leaves as it is.
//
// Latency   : none: start and beats pass combinationally. A frame whose last beat has more than
//             four bytes takes one beat more.
// Clock     : clk_i, rst_i synchronous. tag_i and vid_i count when a frame starts.
// Handshake : as xgmii_tx and gmii_tx take it: start promises beats without a stall; a beat moves
//             with ready, which does not depend on valid.
// Drops     : never.
// Source    : IEEE 802.1Q clause 9.
module vlan_tag (
  input  logic                         clk_i,
  input  logic                         rst_i,
  /// Frames leave with a tag.
  input  logic                         tag_i,
  input  logic                  [11:0] vid_i,
  input  fibnic_pkg::to_mac_t          s_i,
  output fibnic_pkg::from_mac_t        s_o,
  output fibnic_pkg::to_mac_t          m_o,
  input  fibnic_pkg::from_mac_t        m_i
);
  import fibnic_pkg::*;
  import vlan_pkg::*;

  logic        tag_q;
  logic [11:0] vid_q;
  logic [ 1:0] idx_q;  // of the beat from the core; stays at 2
  logic        rest_q;  // what is in upper_q is left of the frame
  logic insert, moves, ends;
  logic  [31:0] upper_q;  // upper half of the beat before
  logic  [ 3:0] upper_keep_q;
  logic         bad_q;
  beat_t        beat;

  // Once a tag is in, a beat begins with the upper half of the beat before.
  assign insert = tag_q && idx_q != 2'd0 && (idx_q != 2'd1 || s_i.beat.keep[3]);
  assign moves  = s_i.valid && s_o.ready;
  // The upper half of the last beat needs a beat of its own.
  assign ends   = s_i.beat.last && !(insert && s_i.beat.keep[4]);

  always_comb begin
    beat = s_i.beat;
    if (rest_q) begin
      beat      = '0;
      beat.data = 64'(upper_q);
      beat.keep = 8'(upper_keep_q);
      beat.last = 1'b1;
      beat.bad  = bad_q;
    end else if (insert) begin
      beat.last = ends;
      if (idx_q == 2'd1) begin
        beat.data[63:32] = wire_order(plain_tag(vid_q));
        beat.keep        = '1;
      end else begin
        beat.data = {s_i.beat.data[31:0], upper_q};
        beat.keep = {s_i.beat.keep[3:0], 4'hf};
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (s_i.start && m_i.ready_start) begin
      tag_q <= tag_i;
      vid_q <= vid_i;
    end
    if (moves) begin
      upper_q      <= s_i.beat.data[63:32];
      upper_keep_q <= s_i.beat.keep[7:4];
      bad_q        <= s_i.beat.bad;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      idx_q  <= '0;
      rest_q <= 1'b0;
    end else begin
      if (moves) begin
        rest_q <= s_i.beat.last && !ends;
        if (s_i.beat.last) idx_q <= '0;
        else if (idx_q != 2'd2) idx_q <= idx_q + 1'b1;
      end else if (m_i.ready) begin
        rest_q <= 1'b0;
      end
    end
  end

  assign m_o.start       = s_i.start;
  assign m_o.valid       = s_i.valid || rest_q;
  assign m_o.beat        = beat;
  assign s_o.ready_start = m_i.ready_start;
  assign s_o.ready       = m_i.ready && !rest_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_start :
      assert (!(rest_q && m_i.ready_start))
      else $error("a frame may start before the one before it has ended");
      a_full :
      assert (!s_i.valid || s_i.beat.last || s_i.beat.keep == '1)
      else $error("short beat inside a frame");
    end
  end
`endif
endmodule
