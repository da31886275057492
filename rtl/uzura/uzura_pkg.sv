// SPDX-License-Identifier: Apache-2.0
// What passes between the blocks of the UZURA engine: packets, beats, and the ports to a shell.
//
// Source : InfiniBand Architecture Specification volume 1, chapter 9, and annex A17 (RoCEv2).
package uzura_pkg;
  // A package is used in part.
  // verilator lint_off UNUSEDPARAM

  // ---- Streams ----------------------------------------------------------------------------------
  // 8 bytes, the first in the low lane; every beat of a stream but the last is full.
  typedef struct packed {
    logic [63:0] data;
    logic [3:0]  bytes;  // 1..8
    logic        last;
  } beat_t;

  // ---- Packets ----------------------------------------------------------------------------------
  localparam logic [15:0] EtherTypeIpv4 = 16'h0800;
  localparam logic [7:0] IpVersionLength = 8'h45;
  localparam logic [7:0] ProtocolUdp = 8'd17;
  localparam logic [15:0] RocePort = 16'd4791;
  localparam logic [15:0] DefaultPartition = 16'hFFFF;
  localparam int unsigned IpBytes = 20;
  localparam int unsigned UdpBytes = 8;
  localparam int unsigned BthBytes = 12;
  localparam int unsigned IcrcBytes = 4;
  /// Ethernet, IPv4, UDP and BTH.
  localparam int unsigned BaseBytes = 14 + IpBytes + UdpBytes + BthBytes;
  localparam int unsigned MaxPayload = 4096;

  typedef enum logic [7:0] {
    RcSendFirst         = 8'h00,
    RcSendMiddle        = 8'h01,
    RcSendLast          = 8'h02,
    RcSendLastImm       = 8'h03,
    RcSendOnly          = 8'h04,
    RcSendOnlyImm       = 8'h05,
    RcWriteFirst        = 8'h06,
    RcWriteMiddle       = 8'h07,
    RcWriteLast         = 8'h08,
    RcWriteLastImm      = 8'h09,
    RcWriteOnly         = 8'h0A,
    RcWriteOnlyImm      = 8'h0B,
    RcReadRequest       = 8'h0C,
    RcReadResponseFirst = 8'h0D,
    RcReadResponseMid   = 8'h0E,
    RcReadResponseLast  = 8'h0F,
    RcReadResponseOnly  = 8'h10,
    RcAcknowledge       = 8'h11,
    RcAtomicAcknowledge = 8'h12,
    RcCompareSwap       = 8'h13,
    RcFetchAdd          = 8'h14,
    RcSendLastInv       = 8'h16,
    RcSendOnlyInv       = 8'h17,
    UdSendOnly          = 8'h64,
    UdSendOnlyImm       = 8'h65
  } opcode_e;

  /// Where a packet goes to, or came from.
  typedef struct packed {
    logic [47:0] mac;
    logic [31:0] ip;
    logic [15:0] port;  // UDP source port
  } path_t;

  /// A packet's headers, all of them; its opcode says which are there.
  typedef struct packed {
    path_t       path;
    logic        ce;         // received: the network has marked congestion
    logic [7:0]  opcode;
    logic        solicited;
    logic        ack_req;
    logic [23:0] qpn;
    logic [23:0] psn;
    logic [63:0] va;         // RETH, AtomicETH
    logic [31:0] key;        // RETH, AtomicETH; DETH: Q_Key
    logic [31:0] length;     // RETH; DETH: source QP
    logic [63:0] swap;       // AtomicETH: swap or add; AtomicAckETH: the value before
    logic [63:0] compare;    // AtomicETH
    logic [31:0] imm;        // ImmDt, IETH
    logic [7:0]  syndrome;   // AETH
    logic [23:0] msn;        // AETH
    logic [12:0] bytes;      // payload without its padding
  } packet_t;

  /// 4-byte words of the headers behind the BTH.
  function automatic logic [2:0] extension_words(logic [7:0] opcode);
    unique case (opcode)
      RcSendLastImm, RcSendOnlyImm, RcSendLastInv, RcSendOnlyInv, RcWriteLastImm: return 3'd1;
      RcReadResponseFirst, RcReadResponseLast, RcReadResponseOnly, RcAcknowledge: return 3'd1;
      RcWriteFirst, RcWriteOnly, RcReadRequest: return 3'd4;
      RcWriteOnlyImm: return 3'd5;
      RcAtomicAcknowledge: return 3'd3;
      RcCompareSwap, RcFetchAdd: return 3'd7;
      UdSendOnly: return 3'd2;
      UdSendOnlyImm: return 3'd3;
      default: return 3'd0;
    endcase
  endfunction

  /// The engine knows this opcode.
  function automatic logic opcode_known(logic [7:0] opcode);
    return opcode <= RcFetchAdd ||
        opcode inside {RcSendLastInv, RcSendOnlyInv, UdSendOnly, UdSendOnlyImm};
  endfunction

  /// Only these carry payload.
  function automatic logic may_have_payload(logic [7:0] opcode);
    return !(opcode inside {RcReadRequest, RcAcknowledge, RcAtomicAcknowledge, RcCompareSwap,
                            RcFetchAdd});
  endfunction

  /// The headers behind the BTH as they stand on the wire, from the top.
  function automatic logic [223:0] extension(packet_t p);
    unique case (p.opcode)
      RcSendLastImm, RcSendOnlyImm, RcSendLastInv, RcSendOnlyInv, RcWriteLastImm:
      return {p.imm, 192'd0};
      RcReadResponseFirst, RcReadResponseLast, RcReadResponseOnly, RcAcknowledge:
      return {p.syndrome, p.msn, 192'd0};
      RcWriteFirst, RcWriteOnly, RcReadRequest: return {p.va, p.key, p.length, 96'd0};
      RcWriteOnlyImm: return {p.va, p.key, p.length, p.imm, 64'd0};
      RcAtomicAcknowledge: return {p.syndrome, p.msn, p.swap, 128'd0};
      RcCompareSwap, RcFetchAdd: return {p.va, p.key, p.swap, p.compare};
      UdSendOnly: return {p.key, 8'd0, p.length[23:0], 160'd0};
      UdSendOnlyImm: return {p.key, 8'd0, p.length[23:0], p.imm, 128'd0};
      default: return '0;
    endcase
  endfunction

  /// Byte 0 becomes the low lane.
  function automatic logic [63:0] swap_bytes(logic [63:0] word);
    return {
      word[7:0],
      word[15:8],
      word[23:16],
      word[31:24],
      word[39:32],
      word[47:40],
      word[55:48],
      word[63:56]
    };
  endfunction

  /// Bits of the first n bytes, n = 0..8.
  function automatic logic [63:0] byte_mask(logic [3:0] n);
    for (int unsigned i = 0; i < 8; i++) byte_mask[8*i+:8] = {8{4'(i) < n}};
  endfunction

  // ---- ICRC -------------------------------------------------------------------------------------
  /// Bytes of the frame's word that count as ones: TOS, TTL, checksums, the BTH's FECN to resv6.
  function automatic logic [63:0] icrc_ones(logic [3:0] word);
    unique case (word)
      4'd1: return 64'hFF00_0000_0000_0000;  // TOS
      4'd2: return 64'h00FF_0000_0000_0000;  // TTL
      4'd3: return 64'h0000_0000_0000_FFFF;  // IP checksum
      4'd5: return 64'h00FF_0000_0000_FFFF;  // UDP checksum, BTH byte 4
      default: return '0;
    endcase
  endfunction

  /// The Ethernet header does not count.
  localparam logic [63:0] IcrcWord1 = 64'hFFFF_0000_0000_0000;

  /// Register before word 1: six zero bytes on, it has seen eight bytes of ones.
  function automatic logic [31:0] icrc_start();
    return crc_pkg::crc32_eth_rewind(crc_pkg::crc32_eth_next64(crc_pkg::CRC32_ETH_INIT, '1), 3'd6);
  endfunction
  // verilator lint_on UNUSEDPARAM
endpackage
