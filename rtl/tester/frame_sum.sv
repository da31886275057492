// SPDX-License-Identifier: Apache-2.0
// Checksums of a test frame: the IPv4 header's, or IPv6's over UDP, which covers the time stamp.
//
// The header is summed before the frame starts; the stamp and the part of a filler block at the
// frame's end are added while its first words leave. Whole filler blocks hold a counter and its
// complement: they add nothing. IPv4 frames carry no UDP checksum (RFC 768 permits that).
//
// Latency : begin_i to ready_o: 4 edges for IPv4, 8 for IPv6, for the sums as well, which stay until
//           the next begin_i. stamp_i to udp_sum_o: 4 edges.
// Clock   : clk_i.
// Source  : RFC 791, RFC 768, RFC 8200 section 8.1, RFC 1071.
module frame_sum (
  input  logic                            clk_i,
  input  logic                            rst_i,
  // Some settings are not in the header.
  // verilator lint_off UNUSEDSIGNAL
  input  tester_pkg::source_cfg_t         cfg_i,
  // verilator lint_on UNUSEDSIGNAL
  /// A new frame is being prepared.
  input  logic                            begin_i,
  input  tester_pkg::seq_t                seq_i,
  /// Stable from 2 edges after begin_i on.
  input  logic                    [127:0] address_i,
  output logic                            ready_o,
  /// Of the frame being prepared: header checksum of IPv4; sum of an IPv6 frame without stamp.
  output logic                    [ 15:0] ip_sum_o,
  output logic                    [ 31:0] header_sum_o,
  /// The frame under way.
  input  logic                    [ 31:0] header_sum_i,
  input  tester_pkg::seq_t                cur_seq_i,
  input  tester_pkg::stamp_t              stamp_i,
  output logic                    [ 15:0] udp_sum_o
);
  import tester_pkg::*;

  typedef enum logic [3:0] {
    Idle,    // ready
    First,   // V4: version to fragment; V6: UDP header
    Second,  // V4: TTL to source; V6: length, mark, sequence number
    Third,   // V6: the rest of the sequence number
    SrcHi,
    SrcLo,
    DstHi,
    DstLo
  } step_e;

  step_e step_q, step_d;
  logic [31:0] sum_q;
  logic [63:0] chunk;
  logic [15:0] v4_length, udp_length;

  assign v4_length  = 16'(cfg_i.size) - 16'(EthHeader + FcsBytes);
  assign udp_length = 16'(cfg_i.size) - 16'(EthHeader + V6Header + FcsBytes);

  always_comb begin
    chunk  = '0;
    step_d = Idle;
    unique case (step_q)
      First: begin
        chunk = cfg_i.v6 ? {cfg_i.src_port, cfg_i.dst_port, udp_length, 16'(ProtocolUdp)}
                         : {V4VersionIhl, cfg_i.tos, v4_length, seq_i[15:0], V4DontFragment};
        step_d = Second;
      end
      Second: begin
        chunk = cfg_i.v6 ? {udp_length, Mark, 8'(cfg_i.stream), seq_i[47:16]}
                         : {cfg_i.ttl, ProtocolUdp, 16'd0, cfg_i.src_ip[31:0]};
        step_d = cfg_i.v6 ? Third : DstLo;
      end
      Third: begin
        chunk  = {seq_i[15:0], 48'd0};
        step_d = SrcHi;
      end
      SrcHi: begin
        chunk  = cfg_i.src_ip[127:64];
        step_d = SrcLo;
      end
      SrcLo: begin
        chunk  = cfg_i.src_ip[63:0];
        step_d = DstHi;
      end
      DstHi: begin
        chunk  = address_i[127:64];
        step_d = DstLo;
      end
      DstLo: begin
        chunk  = cfg_i.v6 ? address_i[63:0] : {32'd0, address_i[31:0]};
        step_d = Idle;
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    sum_q <= begin_i ? '0 : add_halves(sum_q, chunk);
    if (rst_i) step_q <= Idle;
    else step_q <= begin_i ? First : step_d;
  end

  assign ready_o      = step_q == Idle;
  assign ip_sum_o     = ~fold(sum_q);
  assign header_sum_o = sum_q;

  // The frame under way, one step an edge.
  logic [SizeW-1:0] fill;
  logic [31:0] tail_q, stamp_sum_q, tail_sum_q, total_q;
  logic [63:0] tail;
  logic [15:0] udp_sum_q, udp_sum;

  assign fill    = cfg_i.size - SizeW'(V6Fill + FcsBytes);
  // The bytes of the last block that are there.
  assign tail    = {tail_q, ~tail_q} & ~(64'hFFFF_FFFF_FFFF_FFFF >> {fill[2:0], 3'd0});
  assign udp_sum = ~fold(total_q);

  always_ff @(posedge clk_i) begin
    tail_q      <= fill_base(cfg_i.stream, cur_seq_i, stamp_i) + 32'(fill[SizeW-1:3]);
    stamp_sum_q <= add_halves('0, 64'(stamp_i));
    tail_sum_q  <= add_halves(stamp_sum_q, tail);
    total_q     <= header_sum_i + tail_sum_q;
    // A sum of zero would mean that there is none.
    udp_sum_q   <= udp_sum == '0 ? '1 : udp_sum;
  end

  assign udp_sum_o = udp_sum_q;
endmodule
