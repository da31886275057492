// SPDX-License-Identifier: Apache-2.0
// From a header's bytes to the header as the controller uses it; one instance for all analyzers.
//
// Latency : 1 edge from raw_valid_i to valid_o; a header an edge.
// Clock   : clk_i.
// Drops   : never; what is not TCP over IPv4 for this engine to take has tcp at 0. IPv4 options and
//           fragments are among that.
// Source  : RFC 791, RFC 9293 section 3.1, RFC 2018, RFC 7323.
module toe_header
  import toe_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  raw_header_t raw_i,
  input  logic        raw_valid_i,
  output header_t     header_o,
  output logic        valid_o
);
  localparam logic [7:0] VersionIhl = 8'h45;
  localparam int unsigned OptBits = 8 * OptBytes;

  // Wire order to number.
  function automatic logic [15:0] two(logic [HeaderBytes-1:0][7:0] from, int unsigned at);
    return {from[at], from[at+1]};
  endfunction
  function automatic logic [31:0] four(logic [HeaderBytes-1:0][7:0] from, int unsigned at);
    return {from[at], from[at+1], from[at+2], from[at+3]};
  endfunction
  function automatic logic [31:0] four_of(logic [31:0] bytes);
    return {bytes[7:0], bytes[15:8], bytes[23:16], bytes[31:24]};
  endfunction

  header_t now_d, now_q;
  logic valid_q;
  bytes_t total, header_bytes;
  logic shape;

  assign total = two(raw_i.bytes, 16) [14:0];
  assign header_bytes = {9'd0, raw_i.bytes[46][7:4], 2'd0};
  assign shape = two(
      raw_i.bytes, 12
  ) == EtherTypeIp && raw_i.bytes[14] == VersionIhl && !raw_i.bytes[16][7] && (two(
      raw_i.bytes, 20
  ) & 16'hBFFF) == '0 && raw_i.bytes[23] == ProtocolTcp && raw_i.ip_ok && !raw_i.short_ &&
      raw_i.bytes[46][7:4] >= 4'd5 && total >= header_bytes + 15'(IpBytes);

  // Each option's bytes behind its length, in the low bits.
  logic [OptBits-1:0] area;
  logic [       15:0] mss;
  logic [7:0] scale, sack_length;
  logic [       63:0] times;
  logic [OptBits-1:0] sack;
  assign area        = raw_i.bytes[HeaderBytes-1:OptOffset];
  assign mss         = 16'(area >> 8 * (9'(raw_i.options.mss.pos) + 9'd2));
  assign scale       = 8'(area >> 8 * (9'(raw_i.options.scale.pos) + 9'd2));
  assign times       = 64'(area >> 8 * (9'(raw_i.options.times.pos) + 9'd2));
  assign sack        = area >> 8 * (9'(raw_i.options.sack.pos) + 9'd1);
  assign sack_length = sack[7:0];

  always_comb begin
    now_d                    = '0;
    now_d.tag                = raw_i.tag;
    now_d.addr               = raw_i.addr;
    now_d.tcp                = shape;
    now_d.dst_mac            = {four(raw_i.bytes, 0), two(raw_i.bytes, 4)};
    now_d.src_mac            = {four(raw_i.bytes, 6), two(raw_i.bytes, 10)};
    now_d.src_ip             = four(raw_i.bytes, 26);
    now_d.dst_ip             = four(raw_i.bytes, 30);
    now_d.src_port           = two(raw_i.bytes, 34);
    now_d.dst_port           = two(raw_i.bytes, 36);
    now_d.seq                = four(raw_i.bytes, 38);
    now_d.ack                = four(raw_i.bytes, 42);
    now_d.flags              = flags_t'(raw_i.bytes[47]);
    now_d.window             = two(raw_i.bytes, 48);
    now_d.offset             = header_bytes + 15'(TcpOffset);
    now_d.bytes              = total - 15'(IpBytes) - header_bytes;
    now_d.values.mss_valid   = raw_i.options.mss.valid;
    now_d.values.mss         = {mss[7:0], mss[15:8]};
    now_d.values.scale_valid = raw_i.options.scale.valid;
    now_d.values.scale       = scale > 8'd14 ? 4'd14 : scale[3:0];
    now_d.values.sack_ok     = raw_i.options.sack_ok.valid;
    now_d.values.times_valid = raw_i.options.times.valid;
    now_d.values.time_value  = four_of(times[31:0]);
    now_d.values.time_echo   = four_of(times[63:32]);
    now_d.values.blocks      = raw_i.options.sack.valid ? sack_length[5:3] : '0;
    for (int unsigned i = 0; i < SackBlocks; i++) begin
      now_d.values.sack[i].first  = four_of(sack[8+64*i+:32]);
      now_d.values.sack[i].behind = four_of(sack[40+64*i+:32]);
    end
  end

  always_ff @(posedge clk_i) begin
    now_q   <= now_d;
    valid_q <= raw_valid_i && !rst_i;
  end

  assign header_o = now_q;
  assign valid_o  = valid_q;

  // Not every byte and not every bit of an option's rest is asked for.
  logic unused;
  assign unused = ^{raw_i, sack, sack_length};
endmodule
