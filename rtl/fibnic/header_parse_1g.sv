// SPDX-License-Identifier: Apache-2.0
// Reads the headers of a frame byte by byte: asks for the lookup as soon as the first bytes of the
// destination address are there, then tells all that decides whether hardware may forward the frame,
// and the key of the access list.
//
// Latency   : combinational from the third byte of the destination address to req4_o, from the
//             second to req6_o; the bytes that follow show in addr_o with the cycle they come in and
//             stay. hdr_valid_o: one edge after the last byte of the address (frames without IP: as
//             IPv4), or after the end of a frame that has fewer. acl_valid_o: with hdr_valid_o, or
//             with the last byte of the ports if there are any and that is later.
// Clock     : clk_i, rst_i synchronous; bytes in cycles with en_i.
// Handshake : exactly one hdr_valid_o and one acl_valid_o, in this order or at once, for each frame
//             with a byte behind its preamble; a req4_o or req6_o before for IP frames. A frame that
//             ends between request and header is not `brief` for that: its lookup answers, and its
//             end says that it is a runt. hdr_o stays until the next frame's preamble has ended.
// Drops     : never; gmii_rx refuses and counts the frames whose preamble is not one.
// Source    : dissertation figure 5.4; RFC 1812 sections 4.2.2.11, 5.2.2, 5.3.7; RFC 3927 section 7;
//             RFC 4291 section 2.5; RFC 8200 section 4.3; IEEE 802.1Q clause 9.
module header_parse_1g
  import fibnic_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  /// MAC address of this port, and the VLAN its frames must come with.
  // verilator lint_off UNUSEDSIGNAL
  input  port_cfg_t         cfg_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic              en_i,
  input  logic      [  7:0] gmii_rxd_i,
  input  logic              gmii_rx_dv_i,
  input  logic              gmii_rx_er_i,
  output logic              req4_o,
  output logic              req6_o,
  /// An IPv4 address is in 127:96.
  output logic      [127:0] addr_o,
  output logic              hdr_valid_o,
  output hdr_t              hdr_o,
  output logic              acl_valid_o,
  output acl_key_t          acl_o,
  /// The frame had a tag, which is not part of its length.
  output logic              tagged_o
);
  import eth_pkg::*;
  import fib_pkg::V4FirstBytes;
  import fib_pkg::V6FirstBytes;

  localparam logic [15:0] TypeV4 = 16'h0800;
  localparam logic [15:0] TypeV6 = 16'h86dd;
  localparam int unsigned MacBytes = 6;
  localparam int unsigned TagBytes = 4;
  localparam logic [7:0] ProtocolHopByHop = 8'd0;
  localparam int unsigned V4HeaderBytes = 20;
  localparam int unsigned V6HeaderBytes = 40;
  localparam int unsigned PortsBytes = 4;

  // Places of bytes in a frame without tag.
  localparam int unsigned TypeAt = 12;
  localparam int unsigned IpAt = 14;
  localparam int unsigned V4LengthAt = IpAt + 2;
  localparam int unsigned V4FragmentAt = IpAt + 6;
  localparam int unsigned V4TtlAt = IpAt + 8;
  localparam int unsigned V4ProtocolAt = IpAt + 9;
  localparam int unsigned V4SrcAt = IpAt + 12;
  localparam int unsigned V4DstAt = IpAt + 16;
  localparam int unsigned V4EndAt = IpAt + V4HeaderBytes;
  localparam int unsigned V6LengthAt = IpAt + 4;
  localparam int unsigned V6ProtocolAt = IpAt + 6;
  localparam int unsigned V6HopsAt = IpAt + 7;
  localparam int unsigned V6SrcAt = IpAt + 8;
  localparam int unsigned V6DstAt = IpAt + 24;
  localparam int unsigned V6EndAt = IpAt + V6HeaderBytes;
  // The counter of bytes stops behind all of them.
  localparam int unsigned CountW = 6;
  localparam logic [CountW-1:0] Top = CountW'(V6EndAt + PortsBytes + TagBytes);

  typedef enum logic [1:0] {
    Idle,
    Preface,
    Data,
    Skip
  } state_e;

  /// Addresses that no packet may come from.
  function automatic logic martian_src4(logic [7:0] top);
    return top == 8'd0 || top == 8'd127 || top[7:5] == 3'b111;
  endfunction

  /// Addresses that no packet may go to.
  function automatic logic martian_dst4(logic [31:0] addr);
    return addr[31:24] == 8'd0 || addr[31:24] == 8'd127 || (addr[31:28] == 4'hf && addr != '1);
  endfunction

  function automatic logic link_local4(logic [15:0] top);
    return top == 16'ha9fe;
  endfunction

  function automatic logic link_local6(logic [9:0] top);
    return top == 10'h3fa;
  endfunction

  /// Protocols whose header begins with two ports.
  function automatic logic transports(logic [7:0] protocol);
    return protocol == 8'd6 || protocol == 8'd17 || protocol == 8'd132;
  endfunction

  state_e state_q, state_d;
  logic [CountW-1:0] count_q, at;  // bytes before this one; without those of the tag
  logic begins, take, over;
  logic [ 7:0] before_q;
  logic [15:0] pair;  // this byte and the one before it

  logic group_q, mine_q, tpid_q, vid_ok_q, v4_q, v6_q, ver4_q, ver6_q, options4_q;
  logic [7:0] ttl_q, protocol_q;
  logic [15:0] length_q;  // of IPv6: behind its header
  logic [12:0] fragment_q;
  logic [15:0] sum_q;
  logic [16:0] sum;
  logic [127:0] src_q, dst_q, dst;
  logic [31:0] ports_q, ports;

  logic complete, ends, ports_end, tell, has_ports, whole;
  logic asked_q, complete_q, told_q, acl_told_q, hdr_valid_q;

  assign pair      = {before_q, gmii_rxd_i};
  assign begins    = en_i && state_q != Data && state_d == Data;
  assign take      = en_i && state_q == Data && gmii_rx_dv_i;
  assign over      = en_i && state_q == Data && !gmii_rx_dv_i;
  assign at        = tpid_q ? count_q - CountW'(TagBytes) : count_q;

  assign ends      = at == (v6_q ? CountW'(V6EndAt - 1) : CountW'(V4EndAt - 1));
  assign ports_end = at == CountW'(PortsBytes - 1) + (v6_q ? CountW'(V6EndAt) : CountW'(V4EndAt));
  assign complete  = take && ends;
  // A frame without a byte has no header.
  assign tell      = !told_q && (complete || (over && count_q != '0));

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle, Preface: begin
        if (!gmii_rx_dv_i) state_d = Idle;
        else if (gmii_rx_er_i || (gmii_rxd_i != Preamble && gmii_rxd_i != Sfd)) state_d = Skip;
        else state_d = gmii_rxd_i == Sfd ? Data : Preface;
      end
      Data, Skip: if (!gmii_rx_dv_i) state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q     <= Idle;
      told_q      <= 1'b1;
      acl_told_q  <= 1'b1;
      hdr_valid_q <= 1'b0;
    end else begin
      if (en_i) state_q <= state_d;
      told_q      <= !begins && (told_q || tell);
      acl_told_q  <= !begins && (acl_told_q || acl_valid_o);
      hdr_valid_q <= tell;
    end
  end

  // The sum is ones' complement: what is carried out of it comes in again.
  assign sum = 17'(sum_q) + 17'(pair);

  always_ff @(posedge clk_i) begin
    if (begins) begin
      count_q    <= '0;
      tpid_q     <= 1'b0;
      vid_ok_q   <= 1'b0;
      v4_q       <= 1'b0;
      v6_q       <= 1'b0;
      asked_q    <= 1'b0;
      complete_q <= 1'b0;
    end else if (take) begin
      before_q <= gmii_rxd_i;
      if (count_q != Top) count_q <= count_q + 1'b1;
      if (req4_o || req6_o) asked_q <= 1'b1;
      if (complete) complete_q <= 1'b1;

      if (count_q == '0) group_q <= gmii_rxd_i[0];
      if (count_q < CountW'(MacBytes)) begin
        mine_q <= (mine_q || count_q == '0) &&
            gmii_rxd_i == cfg_i.mac[8*(3'(MacBytes-1)-count_q[2:0])+:8];
      end
      if (count_q == CountW'(TypeAt + 1)) tpid_q <= cfg_i.tag_in && pair == vlan_pkg::Tpid;
      if (tpid_q && count_q == CountW'(TypeAt + 3)) vid_ok_q <= pair[11:0] == cfg_i.vid_in;
      if (at == CountW'(TypeAt + 1) && (!tpid_q || vid_ok_q)) begin
        v4_q <= pair == TypeV4;
        v6_q <= pair == TypeV6;
      end

      if (at == CountW'(IpAt)) begin
        ver4_q     <= gmii_rxd_i[7:4] == 4'd4 && gmii_rxd_i[3:0] >= 4'd5;
        ver6_q     <= gmii_rxd_i[7:4] == 4'd6;
        options4_q <= gmii_rxd_i[3:0] != 4'd5;
        sum_q      <= '0;
      end else if (at[0] && at < CountW'(V4EndAt)) begin
        sum_q <= sum[15:0] + 16'(sum[16]);
      end
      if (at == (v6_q ? CountW'(V6LengthAt + 1) : CountW'(V4LengthAt + 1))) length_q <= pair;
      if (at == CountW'(V4FragmentAt + 1)) fragment_q <= pair[12:0];
      if (at == (v6_q ? CountW'(V6HopsAt) : CountW'(V4TtlAt))) ttl_q <= gmii_rxd_i;
      if (at == (v6_q ? CountW'(V6ProtocolAt) : CountW'(V4ProtocolAt))) protocol_q <= gmii_rxd_i;
    end
  end

  // Addresses and ports stay where their bytes came, first on top.
  for (genvar i = 0; i < 16; i++) begin : gen_addr
    localparam int unsigned Lsb = 8 * (15 - i);
    logic src_here, dst_here;

    if (i < 4) begin : gen_both
      assign src_here = at == (v6_q ? CountW'(V6SrcAt + i) : CountW'(V4SrcAt + i));
      assign dst_here = at == (v6_q ? CountW'(V6DstAt + i) : CountW'(V4DstAt + i));
    end else begin : gen_v6
      assign src_here = v6_q && at == CountW'(V6SrcAt + i);
      assign dst_here = v6_q && at == CountW'(V6DstAt + i);
    end

    assign dst[Lsb+:8] = take && dst_here ? gmii_rxd_i : dst_q[Lsb+:8];

    always_ff @(posedge clk_i) begin
      if (take && src_here) src_q[Lsb+:8] <= gmii_rxd_i;
      dst_q[Lsb+:8] <= dst[Lsb+:8];
    end
  end

  for (genvar i = 0; i < int'(PortsBytes); i++) begin : gen_ports
    localparam int unsigned Lsb = 8 * (int'(PortsBytes) - 1 - i);
    logic here;

    assign here          = at == (v6_q ? CountW'(V6EndAt + i) : CountW'(V4EndAt + i));
    assign ports[Lsb+:8] = take && here ? gmii_rxd_i : ports_q[Lsb+:8];

    // What a frame is too short for is zero.
    always_ff @(posedge clk_i) ports_q[Lsb+:8] <= begins ? '0 : ports[Lsb+:8];
  end

  assign addr_o      = dst;
  assign req4_o      = take && v4_q && at == CountW'(V4DstAt + V4FirstBytes - 1);
  assign req6_o      = take && v6_q && at == CountW'(V6DstAt + V6FirstBytes - 1);

  // All of the header is in registers by now.
  assign whole       = complete_q || asked_q;
  assign hdr_valid_o = hdr_valid_q;
  assign tagged_o    = tpid_q && vid_ok_q;

  always_comb begin
    hdr_o           = '0;
    hdr_o.checksum  = 20'h0ffff;
    hdr_o.brief     = !whole;
    hdr_o.vlan_bad  = cfg_i.tag_in && !tagged_o;
    hdr_o.mac_mine  = mine_q;
    hdr_o.mac_group = group_q;
    hdr_o.v4        = v4_q && whole;
    hdr_o.v6        = v6_q && whole;
    hdr_o.expires   = ttl_q <= 8'd1;
    if (v6_q) begin
      hdr_o.length = length_q > 16'(65535 - V6HeaderBytes) ? '1 : length_q + 16'(V6HeaderBytes);
      hdr_o.options = protocol_q == ProtocolHopByHop;
      hdr_o.bad_header = !ver6_q;
      // A multicast source; the unspecified and the loopback address.
      hdr_o.martian = src_q[127:120] == 8'hff || src_q[127:1] == '0 || dst_q[127:1] == '0;
      hdr_o.local_only = dst_q[127:120] == 8'hff || link_local6(dst_q[127:118]) ||
          link_local6(src_q[127:118]);
    end else begin
      hdr_o.length = length_q;
      hdr_o.options = options4_q;
      // With options the end of the header is not here yet: the host checks it.
      hdr_o.bad_header = !ver4_q || length_q < 16'(V4HeaderBytes) || (!options4_q && sum_q != '1);
      hdr_o.martian = martian_src4(src_q[127:120]) || martian_dst4(dst_q[127:96]);
      hdr_o.local_only = dst_q[127:124] == 4'he || dst_q[127:96] == '1 ||
          link_local4(src_q[127:112]) || link_local4(dst_q[127:112]);
    end
  end

  // The key of the access list; a frame without a whole IP header has none.
  assign has_ports = complete_q && transports(
      protocol_q
  ) && (v6_q ? length_q >= 16'(PortsBytes) :
        v4_q && !options4_q && fragment_q == '0 && length_q >= 16'(V4HeaderBytes + PortsBytes));

  assign acl_valid_o = told_q && !acl_told_q &&
      (!has_ports || (take && ports_end) || state_q != Data);

  always_comb begin
    acl_o = '0;
    if (complete_q && (v4_q || v6_q)) begin
      acl_o.v6        = v6_q;
      acl_o.src       = v6_q ? src_q : {src_q[127:96], 96'd0};
      acl_o.dst       = v6_q ? dst_q : {dst_q[127:96], 96'd0};
      acl_o.protocol  = protocol_q;
      acl_o.has_ports = has_ports;
      if (has_ports) {acl_o.src_port, acl_o.dst_port} = ports;
    end
  end

`ifndef SYNTHESIS
  // A lookup takes a byte that comes one cycle late, not two.
  localparam int unsigned CyclesW = 8;
  logic [CyclesW-1:0] held_q;
  always_ff @(posedge clk_i) begin
    if (begins) held_q <= '0;
    else if (!en_i && asked_q && !complete_q && state_q == Data) held_q <= held_q + 1'b1;
    if (!rst_i && state_q == Data) begin
      a_one_slip :
      assert (held_q <= 1)
      else $error("two cycles without a byte within a header");
    end
  end
`endif
endmodule
