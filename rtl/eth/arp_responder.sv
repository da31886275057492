// SPDX-License-Identifier: Apache-2.0
// Answers ARP requests for one address: watches a received stream and offers the 42-byte reply.
//
// Latency   : the reply's first beat is offered right after the edge that ends the request (tlast).
// Clock     : clk_i, that of both streams.
// Handshake : m_axis holds each beat until taken. s_axis is only watched.
// Drops     : requests that come while a reply is pending; drop_o counts them. Requesters with a
//             group or zero address are not answered.
// Source    : RFC 826, RFC 5227.
module arp_responder (
  input  logic              clk_i,
  input  logic              rst_i,
  /// Own address, first byte on the wire in bits 31:24; 0.0.0.0 answers nobody.
  input  logic       [31:0] ip_i,
  /// Own station address, first byte on the wire in bits 47:40.
  input  logic       [47:0] mac_i,
         axis_if.mon        s_axis,
         axis_if.src        m_axis,
  /// Pulse: a reply was made.
  output logic              reply_o,
  /// Pulse: a request was dropped because a reply was pending.
  output logic              drop_o,
  output logic              busy_o
);
  localparam logic [15:0] TypeArp = 16'h0806;
  localparam logic [15:0] HwEthernet = 16'h0001;
  localparam logic [15:0] TypeIpv4 = 16'h0800;
  localparam logic [15:0] Sizes = 16'h0604;
  localparam logic [15:0] OpRequest = 16'h0001;
  localparam logic [15:0] OpReply = 16'h0002;
  // Beat that holds the end of the request, and bytes it needs there.
  localparam logic [2:0] EndIdx = 3'd5;

  // In network order: the first byte on the wire is in the top byte.
  logic [63:0] word;
  logic        beat;
  logic [ 2:0] idx_q;
  logic match_q, match;
  logic [47:0] req_mac_q;
  logic [31:0] req_ip_q;

  logic        pending_q;
  logic [ 2:0] out_q;
  logic [47:0] to_mac_q, own_mac_q;
  logic [31:0] to_ip_q, own_ip_q;
  logic [63:0] out_word;
  logic hit, accept, reply_q, drop_q;

  assign word = {<<8{s_axis.tdata}};
  assign beat = s_axis.tvalid && s_axis.tready;

  // The match so far, this beat included.
  always_comb begin
    match = match_q;
    unique case (idx_q)
      3'd0: match = (word[63:16] == '1 || word[63:16] == mac_i) && ip_i != '0;
      3'd1: match = match_q && word[31:0] == {TypeArp, HwEthernet};
      3'd2: match = match_q && word[63:16] == {TypeIpv4, Sizes, OpRequest} && !word[8];
      3'd3: match = match_q && {req_mac_q[47:32], word[63:32]} != '0;
      3'd4: match = match_q && word[15:0] == ip_i[31:16];
      EndIdx: match = match_q && word[63:48] == ip_i[15:0] && s_axis.tkeep[1];
      default: ;
    endcase
  end

  assign hit    = beat && s_axis.tlast && !s_axis.tuser[0] && idx_q >= EndIdx && match;
  assign accept = hit && !pending_q;

  always_ff @(posedge clk_i) begin
    if (beat) begin
      match_q <= match;
      if (idx_q == 3'd2) req_mac_q[47:32] <= word[15:0];
      if (idx_q == 3'd3) {req_mac_q[31:0], req_ip_q} <= word;
    end
    if (accept) begin
      to_mac_q  <= req_mac_q;
      to_ip_q   <= req_ip_q;
      own_mac_q <= mac_i;
      own_ip_q  <= ip_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      idx_q     <= '0;
      pending_q <= 1'b0;
      out_q     <= '0;
      reply_q   <= 1'b0;
      drop_q    <= 1'b0;
    end else begin
      if (beat) idx_q <= s_axis.tlast ? '0 : idx_q == 3'd7 ? 3'd7 : idx_q + 1'b1;
      reply_q <= accept;
      drop_q  <= hit && pending_q;
      if (accept) pending_q <= 1'b1;
      if (pending_q && m_axis.tready) begin
        out_q <= m_axis.tlast ? '0 : out_q + 1'b1;
        if (m_axis.tlast) pending_q <= 1'b0;
      end
    end
  end

  always_comb begin
    unique case (out_q)
      3'd0:    out_word = {to_mac_q, own_mac_q[47:32]};
      3'd1:    out_word = {own_mac_q[31:0], TypeArp, HwEthernet};
      3'd2:    out_word = {TypeIpv4, Sizes, OpReply, own_mac_q[47:32]};
      3'd3:    out_word = {own_mac_q[31:0], own_ip_q};
      3'd4:    out_word = {to_mac_q, to_ip_q[31:16]};
      default: out_word = {to_ip_q[15:0], 48'd0};
    endcase
  end

  assign m_axis.tdata  = {<<8{out_word}};
  assign m_axis.tkeep  = out_q == EndIdx ? 8'h03 : 8'hff;
  assign m_axis.tvalid = pending_q;
  assign m_axis.tlast  = out_q == EndIdx;
  assign m_axis.tuser  = '0;

  assign reply_o       = reply_q;
  assign drop_o        = drop_q;
  assign busy_o        = pending_q || reply_q || drop_q;
endmodule
