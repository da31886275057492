// SPDX-License-Identifier: Apache-2.0
// Takes RoCEv2 frames apart: the payload goes out as it comes, aligned; headers and verdict behind it.
//
// Latency   : 2 edges from a beat to the payload that it completes, 3 from the last beat to
//             packet_valid_o or drop_o. Nothing of a packet counts before packet_valid_o.
// Clock     : clk_i; a frame may follow another without a gap.
// Handshake : none; s_* has no ready. payload_o is written at once; at packet_valid_o the packet's
//             payload is all there, at drop_o what was written since the last verdict is void.
// Drops     : frames that are not IPv4, UDP and RoCEv2 for this address (other); with a wrong FCS,
//             IP checksum or ICRC (broken); with wrong lengths, versions or opcodes (malformed). One
//             pulse each.
// Source    : InfiniBand Architecture Specification, 9.6 and annex A17.
module roce_parser
  import uzura_pkg::*;
  import crc_pkg::*;
(
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic    [47:0] mac_i,
  input  logic    [31:0] ip_i,
  input  logic    [63:0] s_tdata_i,
  input  logic    [ 7:0] s_tkeep_i,
  input  logic           s_tvalid_i,
  input  logic           s_tlast_i,
  /// With s_tlast_i: the MAC found the frame bad.
  input  logic           s_tuser_i,
  output logic    [63:0] payload_o,
  output logic           payload_valid_o,
  output packet_t        packet_o,
  output logic           packet_valid_o,
  output logic           drop_o,
  output logic           cnt_other_o,
  output logic           cnt_broken_o,
  output logic           cnt_malformed_o,
  output logic           busy_o
);
  localparam int unsigned HeadWords = 11;
  localparam logic [9:0] Many = '1;
  localparam int unsigned EthernetBytes = 14;

  // ---- Stage 0: the beat ------------------------------------------------------------------------
  logic [63:0] in_q;
  logic [ 3:0] in_bytes_q;
  logic in_valid_q, in_last_q, in_bad_q;
  logic [9:0] word_q;  // of the frame; stays at Many

  always_ff @(posedge clk_i) begin
    if (s_tvalid_i) begin
      in_last_q  <= s_tlast_i;
      in_bad_q   <= s_tuser_i;
      in_bytes_q <= '0;
      for (int unsigned i = 0; i < 8; i++) begin
        in_q[8*i+:8] <= s_tkeep_i[i] ? s_tdata_i[8*i+:8] : 8'd0;
        if (s_tkeep_i[i]) in_bytes_q <= 4'(i + 1);
      end
    end
    if (rst_i) begin
      in_valid_q <= 1'b0;
      word_q     <= '0;
    end else begin
      in_valid_q <= s_tvalid_i;
      if (in_valid_q) word_q <= in_last_q ? '0 : word_q + 10'(word_q != Many);
    end
  end

  // ---- Stage 1: headers, sums, payload ----------------------------------------------------------
  logic [HeadWords-1:0][63:0] head_q;
  logic [         63:0]       covered;
  logic [         31:0]       crc_q;
  logic [         17:0]       halves;
  logic [         20:0]       sum_q;
  logic end_q, fcs_bad_q;
  logic [3:0] end_bytes_q;
  logic [9:0] words_q;  // of the frame that has ended

  // Of words 1 to 4, what is of the IP header; a 16-bit word's byte order does not matter to the sum.
  function automatic logic [17:0] sum_of(logic [63:0] word, logic [3:0] take);
    sum_of = '0;
    for (int unsigned i = 0; i < 4; i++) if (take[i]) sum_of += 18'(word[16*i+:16]);
  endfunction

  always_comb begin
    unique case (word_q)
      10'd1: halves = sum_of(in_q, 4'b1000);
      10'd2, 10'd3: halves = sum_of(in_q, 4'b1111);
      10'd4: halves = sum_of(in_q, 4'b0001);
      default: halves = '0;
    endcase
  end
  assign covered = (in_q | (word_q < 10'd6 ? icrc_ones(
      word_q[3:0]
  ) : '0)) & (word_q == 10'd1 ? IcrcWord1 : '1);

  localparam logic [31:0] IcrcStart = icrc_start();
  always_ff @(posedge clk_i) begin
    if (in_valid_q) begin
      for (int unsigned i = 0; i < HeadWords; i++) if (word_q == 10'(i)) head_q[i] <= in_q;
      crc_q       <= word_q == '0 ? IcrcStart : crc32_eth_next64(crc_q, covered);
      sum_q       <= word_q == '0 ? '0 : sum_q + 21'(halves);
      end_bytes_q <= in_bytes_q;
      words_q     <= word_q;
      fcs_bad_q   <= in_bad_q;
    end
    if (rst_i) end_q <= 1'b0;
    else end_q <= in_valid_q && in_last_q;
  end

  // Payload begins with byte 54 + 4 * ext: with byte 6 of word 6, byte 2 of word 7 ... A beat of it
  // needs two words, and the ICRC behind it sees to it that both are there.
  logic [  7:0] opcode_now;
  logic [  2:0] ext_q;
  logic [63:16] before_q;
  logic [  9:0] left_q;  // beats of payload to come
  logic [  9:0] first_word;
  logic [15:0] room, udp_length_q, extra;
  logic [1:0] pad_now;
  logic       take;

  assign opcode_now = in_q[23:16];
  assign pad_now = in_q[29:28];
  // What is no header: wraps if the lengths are wrong, and the verdict says so.
  assign extra = 16'(UdpBytes + BthBytes + IcrcBytes) + {11'd0, extension_words(
      opcode_now
  ), 2'd0} + 16'(pad_now);
  assign room = udp_length_q - extra;
  assign first_word = 10'd6 + ((10'(ext_q) + 10'd1) >> 1);
  assign take = in_valid_q && word_q > first_word && left_q != '0;

  always_ff @(posedge clk_i) begin
    if (in_valid_q) begin
      before_q <= in_q[63:16];
      if (word_q == 10'd4) udp_length_q <= {in_q[55:48], in_q[63:56]};
      if (word_q == '0) left_q <= '0;
      if (word_q == 10'd5) begin
        ext_q  <= extension_words(opcode_now);
        left_q <= room > 16'(MaxPayload) ? '0 : 10'((room + 16'd7) >> 3);
      end
      if (take) left_q <= left_q - 1'b1;
      payload_o <= ext_q[0] ? {in_q[15:0], before_q[63:16]} : {in_q[47:0], before_q[63:48]};
    end
    if (rst_i) payload_valid_o <= 1'b0;
    else payload_valid_o <= take;
  end

  // ---- Stage 2: the verdict ---------------------------------------------------------------------
  // Big-endian view of the headers.
  logic    [64*HeadWords-1:0] wire_order;
  logic    [ 8*BaseBytes-1:0] base;
  logic    [           223:0] ext;
  packet_t                    packet;
  logic [15:0] ip_length, udp_length, frame_bytes, needed, payload_bytes;
  logic [16:0] folded;
  logic [ 2:0] ext_words;
  logic other, broken, malformed, short_frame;

  always_comb begin
    for (int unsigned i = 0; i < HeadWords; i++) begin
      wire_order[64*(HeadWords-1-i)+:64] = swap_bytes(head_q[i]);
    end
  end
  assign {base, ext} = wire_order[64*HeadWords-1-:8*BaseBytes+224];

  // By name what the specification names; what is not looked at stays unnamed.
  typedef struct packed {
    logic [47:0] dst_mac;
    logic [47:0] src_mac;
    logic [15:0] ether_type;
    logic [7:0]  version_length;
    logic [7:0]  tos;
    logic [15:0] ip_length;
    logic [15:0] id;
    logic        reserved;
    logic        dont_fragment;
    logic [13:0] fragment;
    logic [7:0]  ttl;
    logic [7:0]  protocol;
    logic [15:0] ip_checksum;
    logic [31:0] src_ip;
    logic [31:0] dst_ip;
    logic [15:0] src_port;
    logic [15:0] dst_port;
    logic [15:0] udp_length;
    logic [15:0] udp_checksum;
    logic [7:0]  opcode;
    logic        solicited;
    logic        migrated;
    logic [1:0]  pad;
    logic [3:0]  version;
    logic [15:0] partition;
    logic [7:0]  congestion;
    logic [23:0] qpn;
    logic        ack_req;
    logic [6:0]  reserved7;
    logic [23:0] psn;
  } base_t;
  base_t h;
  assign h = base;

  assign ext_words = extension_words(h.opcode);
  assign ip_length = h.ip_length;
  assign udp_length = h.udp_length;
  assign frame_bytes = {3'd0, words_q, 3'd0} + 16'(end_bytes_q);
  assign needed = 16'(UdpBytes + BthBytes + IcrcBytes) + {11'd0, ext_words, 2'd0} + 16'(h.pad);
  assign payload_bytes = udp_length - needed;
  assign short_frame = words_q < 10'd7;
  assign folded = 17'(sum_q[15:0]) + 17'(sum_q[20:16]);

  assign other = short_frame || h.dst_mac != mac_i || h.ether_type != EtherTypeIpv4 ||
      h.version_length != IpVersionLength || h.fragment != '0 || h.protocol != ProtocolUdp ||
      h.dst_ip != ip_i || h.dst_port != RocePort;
  assign broken = fcs_bad_q || folded[15:0] + 16'(folded[16]) != '1 ||
      crc_q != CRC32_ETH_RESIDUE[3'(4'd8-end_bytes_q)];
  assign malformed = ip_length != udp_length + 16'(IpBytes) ||
      frame_bytes != ip_length + 16'(EthernetBytes) || udp_length < needed ||
      payload_bytes > 16'(MaxPayload) || !opcode_known(
      h.opcode
  ) || h.version != '0 || h.partition[14:0] != DefaultPartition[14:0] ||
      2'(payload_bytes[1:0] + h.pad) != '0 || (payload_bytes != '0 && !may_have_payload(
      h.opcode
  ));

  always_comb begin
    packet           = '0;
    packet.path.mac  = h.src_mac;
    packet.path.ip   = h.src_ip;
    packet.path.port = h.src_port;
    packet.ce        = h.tos[1:0] == 2'b11;
    packet.opcode    = h.opcode;
    packet.solicited = h.solicited;
    packet.ack_req   = h.ack_req;
    packet.qpn       = h.qpn;
    packet.psn       = h.psn;
    packet.bytes     = payload_bytes[12:0];
    unique case (h.opcode)
      RcAcknowledge, RcAtomicAcknowledge, RcReadResponseFirst, RcReadResponseLast,
      RcReadResponseOnly: begin
        {packet.syndrome, packet.msn, packet.swap} = ext[223-:96];
      end
      RcCompareSwap, RcFetchAdd: {packet.va, packet.key, packet.swap, packet.compare} = ext;
      UdSendOnly, UdSendOnlyImm: begin
        packet.key    = ext[223-:32];
        packet.length = {8'd0, ext[183-:24]};
        packet.imm    = ext[159-:32];
      end
      RcWriteOnlyImm, RcWriteFirst, RcWriteOnly, RcReadRequest: begin
        {packet.va, packet.key, packet.length, packet.imm} = ext[223-:160];
      end
      default: packet.imm = ext[223-:32];
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (end_q) packet_o <= packet;
    if (rst_i) begin
      packet_valid_o  <= 1'b0;
      drop_o          <= 1'b0;
      cnt_other_o     <= 1'b0;
      cnt_broken_o    <= 1'b0;
      cnt_malformed_o <= 1'b0;
    end else begin
      packet_valid_o  <= end_q && !other && !broken && !malformed;
      drop_o          <= end_q && (other || broken || malformed);
      cnt_other_o     <= end_q && !fcs_bad_q && other;
      cnt_broken_o    <= end_q && (fcs_bad_q || (!other && broken));
      cnt_malformed_o <= end_q && !other && !broken && malformed;
    end
  end
  assign busy_o = in_valid_q || word_q != '0 || end_q || packet_valid_o || drop_o;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      packet_valid_o + drop_o <= 1 && cnt_other_o + cnt_broken_o + cnt_malformed_o == drop_o)
  else $error("roce_parser: a frame without one verdict");
`endif
  logic unused;
  assign unused = ^{h.id, h.reserved, h.dont_fragment, h.ttl, h.ip_checksum, h.udp_checksum,
                    h.migrated, h.congestion, h.reserved7, h.tos[7:2], h.partition[15],
                    wire_order[47:0]};
endmodule
