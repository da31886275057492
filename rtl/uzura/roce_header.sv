// SPDX-License-Identifier: Apache-2.0
// Builds RoCEv2 frames: Ethernet, IPv4, UDP, BTH, what its opcode adds, payload, padding, ICRC.
//
// Latency   : packet_valid_i to the first beat 3 edges; the payload is needed 7 beats later or more
//             (by opcode), and goes through in 2 edges.
// Clock     : clk_i.
// Handshake : a packet is taken while no other is begun; its payload follows in `payload_i`, none if
//             it has no bytes. m_* as axis_if; gaps appear where the payload has some.
// Drops     : never. Payload of which a beat is marked bad goes out with a wrong ICRC.
// Source    : InfiniBand Architecture Specification, annex A17; RFC 791, RFC 768.
module roce_header
  import uzura_pkg::*;
  import crc_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic    [47:0] mac_i,
  input  logic    [31:0] ip_i,
  input  packet_t        packet_i,
  input  logic           packet_valid_i,
  output logic           packet_ready_o,
  input  beat_t          payload_i,
  /// The data are not what they should be.
  input  logic           payload_bad_i,
  input  logic           payload_valid_i,
  output logic           payload_ready_o,
  output logic    [63:0] m_tdata_o,
  output logic    [ 7:0] m_tkeep_o,
  output logic           m_tvalid_o,
  output logic           m_tlast_o,
  /// The frame is for this engine itself.
  output logic           m_own_o,
  input  logic           m_tready_i,
  output logic           busy_o
);
  localparam int unsigned HeadWords = (BaseBytes + 7 * 4 + 7) / 8;
  localparam int unsigned HeadBits = 64 * HeadWords;
  localparam int unsigned ExtBytes = 28;
  localparam int unsigned WireBits = 8 * (BaseBytes + ExtBytes);
  // IPv4: don't fragment, time to live 64.
  localparam logic [15:0] IpFlags = 16'h4000;
  localparam logic [7:0] TimeToLive = 8'd64;
  localparam logic [15:0] IpFixedSum = {IpVersionLength, 8'd0} + IpFlags +
      {TimeToLive, ProtocolUdp};

  // ---- Stage 0: the packet, and the sum of its IP header ----------------------------------------
  typedef struct packed {
    packet_t     packet;
    logic [31:0] ip;      // own
    logic [47:0] mac;
    logic [15:0] length;  // IP
    logic [19:0] part;    // of the IP checksum
  } order_t;

  order_t order_q;
  logic order_valid_q, order_take;
  logic [15:0] length;
  logic [12:0] padded;

  assign padded = (packet_i.bytes + 13'd3) & ~13'd3;
  assign length = 16'(IpBytes + UdpBytes + BthBytes + IcrcBytes) + 16'(padded) +
      {11'd0, extension_words(
      packet_i.opcode
  ), 2'b00};
  assign packet_ready_o = !order_valid_q || order_take;

  always_ff @(posedge clk_i) begin
    if (packet_valid_i && packet_ready_o) begin
      order_q <= '{
          packet: packet_i,
          ip: ip_i,
          mac: mac_i,
          length: length,
          part:
          20'(
          IpFixedSum
          ) + 20'(
          length
          ) + 20'(
          ip_i[31:16]
          ) + 20'(
          ip_i[15:0]
          ) + 20'(
          packet_i.path.ip[31:16]
          ) + 20'(
          packet_i.path.ip[15:0]
          )
      };
    end
    if (rst_i) order_valid_q <= 1'b0;
    else if (packet_ready_o) order_valid_q <= packet_valid_i;
  end

  // ---- The headers' bytes -----------------------------------------------------------------------
  logic [           16:0] folded;
  logic [           15:0] checksum;
  logic [            1:0] pad;
  logic [8*BaseBytes-1:0] base;
  logic [   WireBits-1:0] wire_order;
  logic [   HeadBits-1:0] head;

  assign folded = 17'(order_q.part[15:0]) + 17'(order_q.part[19:16]);
  assign checksum = ~(folded[15:0] + 16'(folded[16]));
  assign pad = 2'd0 - order_q.packet.bytes[1:0];
  assign base = {
    order_q.packet.path.mac,
    order_q.mac,
    EtherTypeIpv4,
    IpVersionLength,
    8'd0,
    order_q.length,
    16'd0,
    IpFlags,
    TimeToLive,
    ProtocolUdp,
    checksum,
    order_q.ip,
    order_q.packet.path.ip,
    order_q.packet.path.port,
    RocePort,
    order_q.length - 16'(IpBytes),
    16'd0,
    order_q.packet.opcode,
    order_q.packet.solicited,
    1'b1,  // migrated
    pad,
    4'd0,
    DefaultPartition,
    8'd0,
    order_q.packet.qpn,
    order_q.packet.ack_req,
    7'd0,
    order_q.packet.psn
  };
  assign wire_order = {base, extension(order_q.packet)};
  always_comb begin
    head = '0;
    for (int unsigned i = 0; i < BaseBytes + ExtBytes; i++) begin
      head[8*i+:8] = wire_order[8*(BaseBytes+ExtBytes-1-i)+:8];
    end
  end

  // ---- Stage 1: words ---------------------------------------------------------------------------
  // A frame is `heads` words of headers, then words that begin with what is left of the one before:
  // 2 or 6 bytes of headers, of payload. The last one before the ICRC has 2 or 6 bytes too.
  logic [HeadBits-1:0] head_q;
  logic [        47:0] rest_q;
  logic active_q, six_q, bad_q, own_q;
  logic [3:0] word_q;  // stays at 15
  logic [3:0] heads_q;  // words of headers yet to come
  logic [9:0] beats_q, merged_q;  // of payload, words behind the headers; yet to come
  logic [ 2:0] tail_q;  // bytes of the last beat of payload that count, 0: 8
  logic        last_six_q;
  logic        advance;
  logic        in_head;
  logic        want;
  logic        produce;
  logic        last_word;
  logic [63:0] data;
  logic [63:0] word;

  logic [ 2:0] ext;
  logic [12:0] order_padded;
  assign ext = extension_words(order_q.packet.opcode);
  assign order_padded = (order_q.packet.bytes + 13'd3) & ~13'd3;

  assign order_take = order_valid_q && (!active_q || (produce && last_word));
  assign in_head = heads_q != '0;
  assign want = !in_head && beats_q != '0;
  assign produce = active_q && advance && (!want || payload_valid_i);
  assign last_word = !in_head && merged_q == 10'd1;
  assign payload_ready_o = active_q && advance && want;
  assign data = want ? payload_i.data & (beats_q == 10'd1 && tail_q != '0 ? byte_mask(
      {1'b0, tail_q}
  ) : '1) : '0;
  assign word = in_head ? head_q[63:0] : six_q ? {data[15:0], rest_q} : {data[47:0], rest_q[15:0]};

  always_ff @(posedge clk_i) begin
    if (order_take) begin
      head_q     <= head;
      word_q     <= '0;
      own_q      <= order_q.packet.path.mac == order_q.mac;
      bad_q      <= 1'b0;
      // 54 + 4 * ext bytes of headers.
      heads_q    <= 4'd6 + 4'((4'(ext) + 4'd1) >> 1);
      six_q      <= !ext[0];
      beats_q    <= 10'((14'(order_padded) + 14'd7) >> 3);
      merged_q   <= 10'((14'(order_padded) + (ext[0] ? 14'd9 : 14'd13)) >> 3);
      last_six_q <= ext[0] == order_padded[2];
      tail_q     <= order_q.packet.bytes[2:0];
    end else if (produce) begin
      head_q <= head_q >> 64;
      word_q <= word_q + 4'(word_q != '1);
      if (in_head) heads_q <= heads_q - 1'b1;
      else merged_q <= merged_q - 1'b1;
      if (want) begin
        beats_q <= beats_q - 1'b1;
        bad_q   <= bad_q || payload_bad_i;
      end
    end
    if (produce) rest_q <= in_head ? head_q[111:64] : six_q ? data[63:16] : {32'd0, data[63:48]};
    if (rst_i) active_q <= 1'b0;
    else if (order_take) active_q <= 1'b1;
    else if (produce && last_word) active_q <= 1'b0;
  end

  // ---- Stage 2: the frame's word, and the ICRC up to it -----------------------------------------
  localparam logic [31:0] IcrcStart = icrc_start();
  logic [63:0] out_q, covered;
  logic out_valid_q, end_q, end_six_q, tail_state_q, spoil_q;
  logic [31:0] crc_q, icrc;

  assign covered = (word | icrc_ones(word_q)) & (word_q == 4'd1 ? IcrcWord1 : '1);
  assign icrc    = ~crc32_eth_rewind(crc_q, end_six_q ? 3'd2 : 3'd6) ^ {31'd0, spoil_q};
  assign advance = !out_valid_q || (m_tready_i && !(end_q && end_six_q && !tail_state_q));

  always_ff @(posedge clk_i) begin
    if (produce) begin
      out_q     <= word;
      m_own_o   <= own_q;
      end_q     <= last_word;
      end_six_q <= last_six_q;
      spoil_q   <= bad_q || (want && payload_bad_i);
      crc_q     <= word_q == '0 ? IcrcStart : crc32_eth_next64(crc_q, covered);
    end
    if (rst_i) begin
      out_valid_q  <= 1'b0;
      tail_state_q <= 1'b0;
    end else begin
      if (advance) out_valid_q <= produce;
      if (out_valid_q && m_tready_i) tail_state_q <= end_q && end_six_q && !tail_state_q;
    end
  end

  always_comb begin
    m_tdata_o = out_q;
    m_tkeep_o = '1;
    m_tlast_o = 1'b0;
    if (tail_state_q) begin
      m_tdata_o = {48'd0, icrc[31:16]};
      m_tkeep_o = 8'h03;
      m_tlast_o = 1'b1;
    end else if (end_q && end_six_q) begin
      m_tdata_o = {icrc[15:0], out_q[47:0]};
    end else if (end_q) begin
      m_tdata_o = {16'd0, icrc, out_q[15:0]};
      m_tkeep_o = 8'h3F;
      m_tlast_o = 1'b1;
    end
  end
  assign m_tvalid_o = out_valid_q;
  assign busy_o     = order_valid_q || active_q || out_valid_q;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      payload_valid_i && payload_ready_o |-> payload_i.last == (beats_q == 10'd1))
  else $error("roce_header: the payload's length is not the packet's");
`endif
  logic unused;
  assign unused = ^{payload_i.bytes, payload_i.last, order_q.packet.ce};
endmodule
