// SPDX-License-Identifier: Apache-2.0
// Reads the headers of a frame as its beats pass: the key of the lookup, and all that decides
// whether hardware may forward it.
//
// Latency   : combinational from the beat that completes the destination address (IPv4: the fifth,
//             IPv6: the seventh; the fifth for anything else) to valid_o.
// Clock     : clk_i.
// Handshake : exactly one valid_o for each frame, at the latest with its last beat; can't wait.
// Drops     : never.
// Source    : dissertation section 5.1.1.1; RFC 1812 sections 4.2.2.11, 5.2.2, 5.3.7; RFC 4291
//             section 2.5; RFC 8200 section 4.3.
module header_parse (
  input  logic                           clk_i,
  input  logic                           rst_i,
  /// MAC address of this port, first byte on the wire on top.
  input  logic                    [47:0] mac_i,
         axis_if.mon                     frame,
  output logic                           valid_o,
  output fibnic_pkg::hdr_t               hdr_o,
  output fibnic_pkg::lookup_req_t        req_o
);
  localparam logic [15:0] TypeV4 = 16'h0800;
  localparam logic [15:0] TypeV6 = 16'h86dd;

  // Index of the beat; stays at 7.
  logic [2:0] idx_q;
  logic       told_q;

  // Header fields of earlier beats.
  logic mac_mine_hi_q, mac_group_q, v4_q, v6_q, ver4_q, ver6_q, options4_q, short_ip_q;
  logic expires4_q, expires6_q, hop_by_hop_q, src4_martian_q, src6_multicast_q, src6_link_q;
  logic src6_zero_q, src6_none_q;
  logic [31:24] src4;
  logic [ 19:0] sum_q;
  logic [ 15:0] dst4_hi_q;
  logic [ 15:0] dst6_top_q;
  logic [ 63:0] dst6_mid_q;

  // This beat as bytes in the order of the wire, first byte on top.
  logic [ 63:0] wire_word;
  logic [ 19:0] sum_d;
  logic [ 16:0] folded;
  logic [ 31:0] dst4;
  logic [127:0] dst6;
  logic first, complete, beat;

  for (genvar i = 0; i < 8; i++) begin : gen_wire
    assign wire_word[8*(7-i)+:8] = frame.tdata[8*i+:8];
  end

  assign beat     = frame.tvalid;
  assign first    = idx_q == 3'd0;
  assign complete = v6_q ? idx_q == 3'd6 : idx_q == 3'd4;
  assign valid_o  = beat && !told_q && (complete || frame.tlast);
  assign src4     = wire_word[47:40];
  assign dst4     = {dst4_hi_q, wire_word[63:48]};
  assign dst6     = {dst6_top_q, dst6_mid_q, wire_word[63:16]};

  // Ones' complement sum of the IPv4 header; the carries are folded at the end.
  always_comb begin
    sum_d = sum_q;
    for (int unsigned i = 0; i < 4; i++) begin
      if (idx_q == 3'd2 || idx_q == 3'd3 || (idx_q == 3'd1 && i == 0) || (idx_q == 3'd4 && i == 3))
        sum_d += 20'(wire_word[16*i+:16]);
    end
    folded = 17'(sum_d[15:0]) + 17'(sum_d[19:16]);
    // A sum of 0x1fffe folds to 0xffff in a second step; 0x10000 to 1.
    folded = 17'(folded[15:0]) + 17'(folded[16]);
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
          short_ip_q       <= wire_word[63:48] < 16'd20;
          expires4_q       <= wire_word[15:8] <= 8'd1;
          expires6_q       <= wire_word[23:16] <= 8'd1;
          hop_by_hop_q     <= wire_word[31:24] == 8'd0;
          src6_multicast_q <= wire_word[15:8] == 8'hff;
          src6_link_q      <= wire_word[15:6] == 10'h3fa;
          src6_zero_q      <= wire_word[15:0] == '0;
          sum_q            <= sum_d;
        end
        3'd3: begin
          src4_martian_q <= src4[31:24] == 8'd0 || src4[31:24] == 8'd127 || src4[31:29] == 3'b111;
          src6_zero_q    <= src6_zero_q && wire_word == '0;
          dst4_hi_q      <= wire_word[15:0];
          sum_q          <= sum_d;
        end
        3'd4: begin
          // The unspecified address and the loopback address.
          src6_none_q <= src6_zero_q && wire_word[63:17] == '0;
          dst6_top_q  <= wire_word[15:0];
        end
        3'd5:    dst6_mid_q <= wire_word;
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      idx_q  <= '0;
      told_q <= 1'b0;
    end else if (beat) begin
      if (frame.tlast) idx_q <= '0;
      else if (idx_q != '1) idx_q <= idx_q + 1'b1;
      told_q <= !frame.tlast && (told_q || valid_o);
    end
  end

  always_comb begin
    hdr_o           = '0;
    hdr_o.brief     = !complete;
    hdr_o.mac_mine  = !first && mac_mine_hi_q;
    hdr_o.mac_group = !first && mac_group_q;
    hdr_o.v4        = v4_q;
    hdr_o.v6        = v6_q;
    if (v4_q) begin
      hdr_o.options = options4_q;
      // With options the end of the header is not here yet: the host checks it.
      hdr_o.bad_header = !ver4_q || short_ip_q || (!options4_q && folded[15:0] != '1);
      hdr_o.martian    = src4_martian_q || dst4[31:24] == 8'd0 || dst4[31:24] == 8'd127 ||
          (dst4[31:28] == 4'hf && dst4 != '1);
      hdr_o.local_only = dst4[31:28] == 4'he || dst4 == '1;
      hdr_o.expires = expires4_q;
    end else begin
      hdr_o.options    = hop_by_hop_q;
      hdr_o.bad_header = !ver6_q;
      hdr_o.martian    = src6_multicast_q || src6_none_q || dst6[127:1] == '0;
      hdr_o.local_only = dst6[127:120] == 8'hff || dst6[127:118] == 10'h3fa || src6_link_q;
      hdr_o.expires    = expires6_q;
    end
    req_o.v6   = v6_q;
    req_o.addr = v6_q ? dst6 : {dst4, 96'd0};
  end
endmodule
