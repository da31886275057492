// SPDX-License-Identifier: Apache-2.0
// Received frames without what is behind their IP datagram: padding and FCS, which the engine does not take.
//
// Of what is no IPv4, nothing is taken away: the engine does not take it either. A frame that is shorter than
// its datagram keeps its FCS, and the engine counts it as malformed.
//
// Latency   : a beat to the one in front of it 1 edge; the last one 1 or 2 edges, as what is taken away begins.
// Clock     : clk_i (network).
// Handshake : none; neither side waits. Between frames there is a cycle without a beat at least, as behind a MAC.
// Drops     : never; a frame that is bad stays so.
// Source    : RFC 894, RFC 791.
module uzura_rx_trim (
  input  logic              clk_i,
  input  logic              rst_i,
  /// From the receiver, FCS included; tuser is 1 with the tlast of a bad frame. Watched.
         axis_if.mon        s_eth,
  output logic       [63:0] m_tdata_o,
  output logic       [ 7:0] m_tkeep_o,
  output logic              m_tvalid_o,
  output logic              m_tlast_o,
  output logic              m_tuser_o,
  output logic              busy_o
);
  localparam int unsigned EthernetBytes = 14;
  localparam logic [15:0] TypeIpv4 = 16'h0800;
  localparam logic [15:0] Endless = '1;

  typedef struct packed {
    logic [63:0] data;
    logic [7:0]  keep;
  } held_t;

  held_t held_q, now;
  logic there_q, end_q, bad_q, is_ip_q, wanted, beat;
  logic [15:0] at_q, length_q, length;  // of the beat's first byte; of the frame
  logic [3:0] count;

  assign beat = s_eth.tvalid;
  // The datagram's length is in bytes 16 and 17.
  always_comb begin
    length = length_q;
    if (at_q == 16'd16) begin
      length = is_ip_q ? {s_eth.tdata[7:0], s_eth.tdata[15:8]} + 16'(EthernetBytes) : Endless;
    end else if (at_q < 16'd16) begin
      length = Endless;
    end
  end
  assign wanted     = at_q < length;
  assign count      = length - at_q >= 16'd8 ? 4'd8 : 4'(length - at_q);
  assign now        = '{data: s_eth.tdata, keep: s_eth.tkeep & eth_pkg::bytes_keep(count)};

  assign m_tdata_o  = held_q.data;
  assign m_tkeep_o  = held_q.keep;
  assign m_tvalid_o = there_q && (end_q || beat && (wanted || s_eth.tlast));
  assign m_tlast_o  = end_q || !wanted;
  assign m_tuser_o  = end_q ? bad_q : s_eth.tuser[0];
  assign busy_o     = there_q || at_q != '0;

  always_ff @(posedge clk_i) begin
    if (beat) begin
      if (wanted) held_q <= now;
      length_q <= length;
      if (at_q == 16'd8) is_ip_q <= {s_eth.tdata[39:32], s_eth.tdata[47:40]} == TypeIpv4;
      bad_q <= s_eth.tuser[0];
    end
    if (rst_i) begin
      there_q <= 1'b0;
      end_q   <= 1'b0;
      at_q    <= '0;
    end else begin
      // The frame's last beat is still here behind its end, if it has something of the datagram.
      end_q <= beat && s_eth.tlast && wanted;
      if (beat) begin
        at_q    <= s_eth.tlast ? '0 : at_q + 16'd8;
        there_q <= wanted || (there_q && !s_eth.tlast);
      end else if (end_q) begin
        there_q <= 1'b0;
      end
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) end_q |-> !beat)
  else $error("uzura_rx_trim: two frames without a gap");
`endif
  logic unused;
  assign unused = ^{s_eth.tready, s_eth.tuser};
endmodule
