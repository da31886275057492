// SPDX-License-Identifier: Apache-2.0
// Which received frames are the host's network interface's, and which the engine's that owns a UDP port.
//
// Both watch the receiver's beats as they come: neither waits for a decision. A frame is the port's owner's if it is an
// IPv4 datagram without options and fragments, UDP to the owned port, to the owned MAC and IP address; that engine
// takes no others. The interface gets the rest: of an owned frame it gets the beats too, and with the last one the word that it
// is bad, as for a wrong FCS, so that it writes the next one over it. The frame's place in the receiver's statistics
// is then taken out as well: for the interface it never came. A frame that is bad by itself stays in both statistics.
//
// Latency   : 0 cycles.
// Clock     : clk_i (network).
// Handshake : none; streams can't wait. s_axis is watched. stat_o as rx_stat_i.
// Drops     : nothing; owned frames are marked for the interface.
// Source    : RFC 791, RFC 768, RFC 894.
module frame_steer #(
  /// The owned UDP port.
  parameter logic [15:0] UdpPort = 16'd3422
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  /// The owned addresses, first byte on the wire in the most significant bits; 0 owns nothing.
  input  logic              [47:0] mac_i,
  input  logic              [31:0] ip_i,
  /// From the receiver; tuser is 1 with the tlast of a bad frame.
         axis_if.mon               s_axis,
  input  eth_pkg::rx_stat_t        rx_stat_i,
  /// To the interface.
         axis_if.src               m_axis,
  output eth_pkg::rx_stat_t        stat_o
);
  localparam logic [15:0] TypeIpv4 = 16'h0800;
  localparam logic [7:0] NoOptions = 8'h45;  // version 4, five words of header
  localparam logic [7:0] ProtocolUdp = 8'd17;
  /// Words of 8 bytes to the UDP port; no frame of the shortest length ends there.
  localparam logic [2:0] HeaderWords = 3'd5;

  logic [63:0] word;  // the first byte on the wire is on top
  logic [ 2:0] idx_q;  // of the word, up to HeaderWords
  logic owned_q, owned, hidden_q;

  assign word = {<<8{s_axis.tdata}};

  always_comb begin
    unique case (idx_q)
      3'd0: owned = word[63:16] == mac_i && mac_i != '0;
      3'd1: owned = owned_q && word[31:8] == {TypeIpv4, NoOptions};
      // More fragments, and the offset of this one; then, behind the time to live, the protocol.
      3'd2: owned = owned_q && word[29:16] == '0 && word[7:0] == ProtocolUdp;
      3'd3: owned = owned_q && word[15:0] == ip_i[31:16];
      3'd4: owned = owned_q && word[63:48] == ip_i[15:0] && word[31:16] == UdpPort;
      default: owned = owned_q;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (s_axis.tvalid) owned_q <= owned;
    if (rst_i) begin
      idx_q    <= '0;
      hidden_q <= 1'b0;
    end else begin
      if (s_axis.tvalid) begin
        idx_q <= s_axis.tlast ? '0 : idx_q == HeaderWords ? idx_q : idx_q + 1'b1;
      end
      hidden_q <= s_axis.tvalid && s_axis.tlast && !s_axis.tuser[0] && owned_q;
    end
  end

  assign m_axis.tdata    = s_axis.tdata;
  assign m_axis.tkeep    = s_axis.tkeep;
  assign m_axis.tvalid   = s_axis.tvalid;
  assign m_axis.tlast    = s_axis.tlast;
  assign m_axis.tuser[0] = s_axis.tuser[0] || owned_q;

  // The receiver tells of a frame in the cycle behind its last beat.
  assign stat_o          = hidden_q ? '0 : rx_stat_i;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) hidden_q |-> rx_stat_i.good)
  else $error("frame_steer: the receiver tells of another frame");
  assert property (@(posedge clk_i) disable iff (rst_i)
      s_axis.tvalid && s_axis.tlast && !s_axis.tuser[0] |-> idx_q == HeaderWords)
  else $error("frame_steer: a good frame ends in front of its UDP port");
  assert property (@(posedge clk_i) disable iff (rst_i) s_axis.tvalid |-> m_axis.tready)
  else $error("frame_steer: the interface can't take a beat");
`endif

  logic unused;
  assign unused = ^{s_axis.tready, m_axis.tready};
endmodule
