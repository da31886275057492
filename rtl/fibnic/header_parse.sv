// SPDX-License-Identifier: Apache-2.0
// Reads the headers of a frame as its beats pass: the key of the lookup, the key of the access list,
// and all that decides whether hardware may forward it.
//
// Latency   : combinational from the beat that completes the destination address (IPv4: the fifth,
//             IPv6: the seventh; the fifth for anything else) to valid_o. acl_valid_o comes with it;
//             one beat later for IPv6, whose ports are not there yet, or with the frame's end.
// Clock     : clk_i, rst_i synchronous.
// Handshake : exactly one valid_o and one acl_valid_o for each frame, at the latest with its last
//             beat; can't wait. With valid_o hdr_o.v4 or hdr_o.v6 asks for a lookup of addr_o.
// Drops     : never.
// Source    : dissertation section 5.1.1.1; RFC 1812 sections 4.2.2.11, 5.2.2, 5.3.7; RFC 3927
//             section 7; RFC 4291 section 2.5; RFC 8200 section 4.3.
module header_parse (
  input  logic                         clk_i,
  input  logic                         rst_i,
  /// MAC address of this port, first byte on the wire on top.
  input  logic                 [ 47:0] mac_i,
  /// With any beat from the third on: the frame is not of the port's VLAN.
  input  logic                         vlan_bad_i,
         axis_if.mon                   frame,
  output logic                         valid_o,
  output fibnic_pkg::hdr_t             hdr_o,
  /// An IPv4 address is in 127:96.
  output logic                 [127:0] addr_o,
  output logic                         acl_valid_o,
  output fibnic_pkg::acl_key_t         acl_o
);
  localparam logic [15:0] TypeV4 = 16'h0800;
  localparam logic [15:0] TypeV6 = 16'h86dd;
  localparam logic [7:0] ProtocolTcp = 8'd6;
  localparam logic [7:0] ProtocolUdp = 8'd17;
  localparam logic [7:0] ProtocolSctp = 8'd132;
  localparam int unsigned V4HeaderBytes = 20;
  localparam int unsigned V6HeaderBytes = 40;
  localparam int unsigned PortsBytes = 4;
  localparam logic [15:0] LinkLocal4 = 16'ha9fe;
  localparam logic [9:0] LinkLocal6 = 10'h3fa;

  /// Protocols whose header begins with two ports.
  function automatic logic transports(logic [7:0] protocol);
    return protocol == ProtocolTcp || protocol == ProtocolUdp || protocol == ProtocolSctp;
  endfunction

  // Index of the beat; stays at 7.
  logic [2:0] idx_q;
  logic told_q, acl_told_q;

  // Header fields of earlier beats.
  logic mac_mine_hi_q, mac_group_q, v4_q, v6_q, ver4_q, ver6_q, options4_q, short_ip_q;
  logic expires4_q, expires6_q, hop_by_hop_q, src4_martian_q, src6_multicast_q, src6_link_q;
  logic src6_zero_q, src6_none_q, src4_link_q, ports4_q, ports6_q;
  logic [31:16] src4;
  logic [15:0] length4_q, length6_q;
  logic [ 19:0] sum_q;
  logic [ 15:0] dst4_hi_q;
  logic [127:0] src_q;
  logic [127:0] dst6_q;
  logic [7:0] protocol4_q, protocol6_q;
  logic [ 15:0] src_port6_q;

  // This beat as bytes in the order of the wire, first byte on top.
  logic [ 63:0] wire_word;
  logic [ 19:0] sum_d;
  logic [ 31:0] dst4;
  logic [127:0] dst6;
  logic [ 15:0] payload6;
  logic first, complete, acl_complete, beat;

  for (genvar i = 0; i < 8; i++) begin : gen_wire
    assign wire_word[8*(7-i)+:8] = frame.tdata[8*i+:8];
  end

  assign beat         = frame.tvalid;
  assign first        = idx_q == 3'd0;
  assign complete     = v6_q ? idx_q == 3'd6 : idx_q == 3'd4;
  assign acl_complete = v6_q ? idx_q == 3'd7 : idx_q == 3'd4;
  assign valid_o      = beat && !told_q && (complete || frame.tlast);
  assign acl_valid_o  = beat && !acl_told_q && (acl_complete || frame.tlast);
  assign src4         = wire_word[47:32];
  assign dst4         = {dst4_hi_q, wire_word[63:48]};
  assign dst6         = {dst6_q[127:48], wire_word[63:16]};
  assign payload6     = wire_word[47:32];

  // Ones' complement sum of the IPv4 header; frame_plan folds the carries and compares.
  always_comb begin
    sum_d = sum_q;
    for (int unsigned i = 0; i < 4; i++) begin
      if (idx_q == 3'd2 || idx_q == 3'd3 || (idx_q == 3'd1 && i == 0) || (idx_q == 3'd4 && i == 3))
        sum_d += 20'(wire_word[16*i+:16]);
    end
  end

  always_ff @(posedge clk_i) begin
    if (beat) begin
      unique case (idx_q)
        3'd0: begin
          sum_q         <= '0;
          mac_mine_hi_q <= wire_word[63:16] == mac_i;
          mac_group_q   <= wire_word[56];
          // Nothing is known of the type in a frame of one beat.
          v4_q          <= 1'b0;
          v6_q          <= 1'b0;
        end
        3'd1: begin
          v4_q       <= wire_word[31:16] == TypeV4;
          v6_q       <= wire_word[31:16] == TypeV6;
          ver4_q     <= wire_word[15:12] == 4'd4 && wire_word[11:8] >= 4'd5;
          ver6_q     <= wire_word[15:12] == 4'd6;
          options4_q <= wire_word[11:8] != 4'd5;
          sum_q      <= sum_d;
        end
        3'd2: begin
          length4_q <= wire_word[63:48];
          length6_q <= payload6 > 16'(65535 - V6HeaderBytes) ? '1 : payload6 + 16'(V6HeaderBytes);
          short_ip_q <= wire_word[63:48] < 16'(V4HeaderBytes);
          expires4_q <= wire_word[15:8] <= 8'd1;
          expires6_q <= wire_word[23:16] <= 8'd1;
          hop_by_hop_q <= wire_word[31:24] == 8'd0;
          src6_multicast_q <= wire_word[15:8] == 8'hff;
          src6_link_q <= wire_word[15:6] == LinkLocal6;
          src6_zero_q <= wire_word[15:0] == '0;
          src_q[127:112] <= wire_word[15:0];
          protocol4_q <= wire_word[7:0];
          protocol6_q <= wire_word[31:24];
          // The first fragment, with room for the ports.
          ports4_q <= transports(
              wire_word[7:0]
          ) && !options4_q && wire_word[28:16] == '0 &&
              wire_word[63:48] >= 16'(V4HeaderBytes + PortsBytes);
          ports6_q <= transports(wire_word[31:24]) && payload6 >= 16'(PortsBytes);
          sum_q <= sum_d;
        end
        3'd3: begin
          src4_martian_q <= src4[31:24] == 8'd0 || src4[31:24] == 8'd127 || src4[31:29] == 3'b111;
          src4_link_q    <= src4 == LinkLocal4;
          src6_zero_q    <= src6_zero_q && wire_word == '0;
          src_q[111:48]  <= wire_word;
          dst4_hi_q      <= wire_word[15:0];
          sum_q          <= sum_d;
        end
        3'd4: begin
          // The unspecified address and the loopback address.
          src6_none_q     <= src6_zero_q && wire_word[63:17] == '0;
          src_q[47:0]     <= wire_word[63:16];
          dst6_q[127:112] <= wire_word[15:0];
        end
        3'd5: dst6_q[111:48] <= wire_word;
        3'd6: begin
          dst6_q[47:0] <= wire_word[63:16];
          src_port6_q  <= wire_word[15:0];
        end
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      idx_q      <= '0;
      told_q     <= 1'b0;
      acl_told_q <= 1'b0;
    end else if (beat) begin
      if (frame.tlast) idx_q <= '0;
      else if (idx_q != '1) idx_q <= idx_q + 1'b1;
      told_q     <= !frame.tlast && (told_q || valid_o);
      acl_told_q <= !frame.tlast && (acl_told_q || acl_valid_o);
    end
  end

  always_comb begin
    hdr_o           = '0;
    hdr_o.checksum  = 20'h0ffff;
    hdr_o.brief     = !complete;
    hdr_o.vlan_bad  = vlan_bad_i;
    hdr_o.mac_mine  = !first && mac_mine_hi_q;
    hdr_o.mac_group = !first && mac_group_q;
    hdr_o.v4        = v4_q && complete;
    hdr_o.v6        = v6_q && complete;
    if (v4_q) begin
      hdr_o.length     = length4_q;
      hdr_o.options    = options4_q;
      hdr_o.bad_header = !ver4_q || short_ip_q;
      // With options the end of the header is not here yet: the host checks it.
      if (!options4_q) hdr_o.checksum = sum_d;
      hdr_o.martian    = src4_martian_q || dst4[31:24] == 8'd0 || dst4[31:24] == 8'd127 ||
          (dst4[31:28] == 4'hf && dst4 != '1);
      hdr_o.local_only = dst4[31:28] == 4'he || dst4 == '1 || src4_link_q ||
          dst4[31:16] == LinkLocal4;
      hdr_o.expires = expires4_q;
    end else begin
      hdr_o.length     = length6_q;
      hdr_o.options    = hop_by_hop_q;
      hdr_o.bad_header = !ver6_q;
      hdr_o.martian    = src6_multicast_q || src6_none_q || dst6[127:1] == '0;
      hdr_o.local_only = dst6[127:120] == 8'hff || dst6[127:118] == LinkLocal6 || src6_link_q;
      hdr_o.expires    = expires6_q;
    end
    addr_o = v6_q ? dst6 : {dst4, 96'd0};
  end

  // The key of the access list; a frame without a whole IP header has none.
  always_comb begin
    acl_o = '0;
    if (v4_q && acl_complete) begin
      acl_o.src       = {src_q[95:64], 96'd0};
      acl_o.dst       = {dst4, 96'd0};
      acl_o.protocol  = protocol4_q;
      acl_o.has_ports = ports4_q;
      if (ports4_q) {acl_o.src_port, acl_o.dst_port} = wire_word[47:16];
    end else if (v6_q && idx_q >= 3'd6) begin
      acl_o.v6        = 1'b1;
      acl_o.src       = src_q;
      acl_o.dst       = idx_q == 3'd6 ? dst6 : dst6_q;
      acl_o.protocol  = protocol6_q;
      acl_o.has_ports = ports6_q;
      if (ports6_q) begin
        acl_o.src_port = idx_q == 3'd6 ? wire_word[15:0] : src_port6_q;
        acl_o.dst_port = idx_q == 3'd6 ? '0 : wire_word[63:48];
      end
    end
  end
endmodule
