// SPDX-License-Identifier: Apache-2.0
// Takes the VLAN tag off frames of one VLAN behind a receive MAC, and marks all others.
//
// With tag_i a frame whose bytes 12 and 13 are 0x8100 and whose VLAN identifier is vid_i (priority
// and drop eligible indicator are not looked at) leaves without bytes 12 to 15; any other frame
// leaves unchanged with vlan_bad_o. Without tag_i every frame leaves unchanged. Runts are a matter
// of the wire: brief_o counts the tag, too. The FCS no longer fits a frame that lost its tag; what
// counts is tuser[0] of the MAC, which passes. Lanes without tkeep are zero.
//
// Latency   : one beat: a beat leaves, combinationally, with the beat behind it, and what is left
//             of a frame in the cycle after its last beat. In a stream without gaps that is one
//             cycle for every beat.
// Clock     : clk_i, rst_i synchronous.
// Handshake : neither side can wait; m_axis.tready must be 1. A frame may begin right behind the last
//             beat of another, as junk in xgmii_rx does.
// Drops     : never.
// Source    : IEEE 802.1Q clause 9.
module vlan_untag (
  input  logic              clk_i,
  input  logic              rst_i,
  /// Frames must have a tag.
  input  logic              tag_i,
  input  logic       [11:0] vid_i,
         axis_if.snk        s_axis,
         axis_if.src        m_axis,
  /// With every beat of a frame: it has not the tag it should have.
  output logic              vlan_bad_o,
  /// With tlast: the frame had fewer than 64 bytes when it came.
  output logic              brief_o,
  /// Work left even if no beat comes.
  output logic              busy_o
);
  import eth_pkg::*;
  import vlan_pkg::*;

  // Beats of the shortest frame.
  localparam int unsigned MinBeats = MinFrame / 8;
  localparam int unsigned IdxW = $clog2(MinBeats + 1);

  typedef struct packed {
    logic [63:0] data;
    logic [7:0]  keep;
    logic        last;
    logic        bad;
    logic        brief;
  } beat_t;

  logic [IdxW-1:0] idx_q;  // of the beat on s_axis; stays at MinBeats
  // Priority and drop eligible indicator.
  // verilator lint_off UNUSEDSIGNAL
  tag_t            found;
  // verilator lint_on UNUSEDSIGNAL
  logic second, fits, strip, strip_q, vlan_bad, vlan_bad_q, brief;
  beat_t hold_q, out;
  logic hold_valid_q, flush, joins;

  assign s_axis.tready = 1'b1;

  assign second = idx_q == IdxW'(1);
  // Bytes 12 to 15 are lanes 4 to 7 of the second beat.
  assign found = wire_order(s_axis.tdata[63:32]);
  assign fits = s_axis.tkeep[7] && found.tpid == Tpid && found.vid == vid_i;
  assign strip = second ? tag_i && fits : strip_q;
  assign brief = !(idx_q == IdxW'(MinBeats) || (idx_q == IdxW'(MinBeats - 1) && s_axis.tkeep[7]));

  // Without a second beat there is no tag.
  assign vlan_bad = second && !flush ? tag_i && !fits : vlan_bad_q;

  assign flush = hold_valid_q && hold_q.last;
  // Behind a tag every beat leaves as the end of one beat and the beginning of the next.
  assign joins = strip && !second;

  always_comb begin
    out = hold_q;
    if (!flush && joins) begin
      out.data[63:32] = s_axis.tdata[31:0];
      out.keep[7:4]   = s_axis.tkeep[3:0];
      out.last        = s_axis.tlast && !s_axis.tkeep[4];
      out.bad         = s_axis.tuser[0];
      out.brief       = brief;
    end
  end

  always_ff @(posedge clk_i) begin
    if (s_axis.tvalid) begin
      hold_q.data  <= s_axis.tdata;
      hold_q.keep  <= s_axis.tkeep;
      hold_q.last  <= s_axis.tlast;
      hold_q.bad   <= s_axis.tuser[0];
      hold_q.brief <= brief;
      if (strip) begin
        hold_q.data <= 64'(second ? s_axis.tdata[31:0] : s_axis.tdata[63:32]);
        hold_q.keep <= 8'(second ? s_axis.tkeep[3:0] : s_axis.tkeep[7:4]);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      idx_q        <= '0;
      hold_valid_q <= 1'b0;
      strip_q      <= 1'b0;
      vlan_bad_q   <= 1'b0;
    end else begin
      if (flush) hold_valid_q <= 1'b0;
      if (s_axis.tvalid) begin
        hold_valid_q <= !(joins && s_axis.tlast && !s_axis.tkeep[4]);
        if (s_axis.tlast) idx_q <= '0;
        else if (idx_q != IdxW'(MinBeats)) idx_q <= idx_q + 1'b1;
        strip_q <= strip && !s_axis.tlast;
        if (idx_q == '0) vlan_bad_q <= tag_i;
        else vlan_bad_q <= vlan_bad;
      end
    end
  end

  assign m_axis.tdata  = out.data;
  assign m_axis.tkeep  = out.keep;
  assign m_axis.tlast  = out.last;
  assign m_axis.tuser  = out.bad;
  assign m_axis.tvalid = hold_valid_q && (flush || s_axis.tvalid);
  assign vlan_bad_o    = vlan_bad;
  assign brief_o       = out.brief;
  assign busy_o        = hold_valid_q;

`ifndef SYNTHESIS
  initial begin
    assert (s_axis.DataW == 64 && m_axis.DataW == 64 && s_axis.UserW == 1 && m_axis.UserW == 1)
    else $fatal(1, "vlan_untag: streams are not 64 + 1");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_ready :
      assert (m_axis.tready || !m_axis.tvalid)
      else $error("the receive stream can't wait");
      a_full :
      assert (!s_axis.tvalid || s_axis.tlast || s_axis.tkeep == '1)
      else $error("short beat inside a frame");
    end
  end
`endif
endmodule
