// SPDX-License-Identifier: Apache-2.0
// Receiver's side of a trial: which frames are ours, what their headers say, whether they are whole.
//
// Ours is a good frame of IPv4 (no options, no fragment) or IPv6 with UDP to our port and our mark.
// Its filler and its length must be as the source made them; the router may have changed MAC
// addresses, TTL and header checksum.
//
// Latency   : 2 edges from a frame's last beat to its pulse.
// Clock     : clk_i.
// Handshake : the MAC's: s_axis can't wait, tready is 1. One pulse for each good frame.
// Drops     : none; bad frames are the MAC's to count.
// Source    : RFC 2544 section 10 and appendix C.
module frame_check (
  input  logic                        clk_i,
  input  logic                        rst_i,
  /// UDP port of test frames.
  input  logic                 [15:0] dst_port_i,
  /// First bit of the frame; valid with its first beat.
  input  tester_pkg::stamp_t          stamp_i,
         axis_if.snk                  s_axis,
  output tester_pkg::arrival_t        arrival_o,
  output logic                        valid_o,
  output logic                        not_ours_o,
  output logic                        busy_o
);
  import tester_pkg::*;
  import eth_pkg::*;

  localparam int unsigned IdxW = SizeW - 3;
  typedef logic [IdxW-1:0] idx_t;

  // Words of the frame in which fields are.
  localparam idx_t TypeWord = IdxW'(1);
  localparam idx_t IpWord = IdxW'(2);
  localparam idx_t PortWord4 = IdxW'(4);
  localparam idx_t TestWord4 = IdxW'(5);
  localparam idx_t StampWord4 = IdxW'(6);
  localparam idx_t TestWord6 = IdxW'(7);
  localparam idx_t SeqWord6 = IdxW'(8);
  localparam idx_t StampWord6 = IdxW'(9);

  // ---- Fields, as the beats come ----------------------------------------------------------------
  idx_t        idx_q;
  logic [63:0] word;  // first byte on top
  logic v4_q, v6_q, ok_q;
  logic [       15:0] length_q;  // of the IP packet
  logic [StreamW-1:0] stream_q;
  seq_t               seq_q;
  stamp_t sent_q, arrival_q;

  // The beat, one edge later: its fields are known then.
  logic beat_q, last_q, bad_q;
  idx_t        at_q;
  logic [63:0] word_q;
  logic [ 3:0] bytes_q;

  assign s_axis.tready = 1'b1;
  assign word          = wire_order(s_axis.tdata);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      idx_q  <= '0;
      beat_q <= 1'b0;
    end else begin
      beat_q <= s_axis.tvalid;
      if (s_axis.tvalid) idx_q <= s_axis.tlast ? '0 : idx_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    at_q    <= idx_q;
    word_q  <= word;
    bytes_q <= keep_bytes(s_axis.tkeep);
    last_q  <= s_axis.tlast;
    bad_q   <= s_axis.tuser[0];
    if (s_axis.tvalid) begin
      unique case (idx_q)
        '0:         arrival_q <= stamp_i;
        TypeWord: begin
          v4_q <= word[31:16] == TypeV4 && word[15:8] == V4VersionIhl;
          v6_q <= word[31:16] == TypeV6 && word[15:12] == 4'd6;
          ok_q <= 1'b1;
        end
        IpWord: begin
          length_q <= v4_q ? word[63:48] : word[47:32] + 16'(V6Header);
          ok_q     <= v4_q ? (word[31:16] & V4FragmentMask) == '0 && word[7:0] == ProtocolUdp
                           : v6_q && word[31:24] == ProtocolUdp;
        end
        PortWord4:  if (v4_q && word[31:16] != dst_port_i) ok_q <= 1'b0;
        TestWord4:
        if (v4_q) begin
          if (word[47:40] != Mark || word[39:36] != '0) ok_q <= 1'b0;
          stream_q     <= word[35:32];
          seq_q[47:16] <= word[31:0];
        end
        StampWord4:
        if (v4_q) begin
          seq_q[15:0] <= word[63:48];
          sent_q      <= word[47:0];
        end
        TestWord6:
        if (v6_q) begin
          if (word[63:48] != dst_port_i || word[15:8] != Mark || word[7:4] != '0) ok_q <= 1'b0;
          stream_q <= word[3:0];
        end
        SeqWord6:
        if (v6_q) begin
          seq_q         <= word[63:16];
          sent_q[47:32] <= word[15:0];
        end
        StampWord6: if (v6_q) sent_q[31:0] <= word[63:32];
        default:    ;
      endcase
    end
  end

  // ---- Filler, one edge later -------------------------------------------------------------------
  logic [SizeW:0] fill_start, fill_end, here, size;
  logic [31:0] fill, first_fill;
  logic [63:0] expected;
  logic [ 7:0] differs;
  logic wrong_q, wrong, long_enough;
  arrival_t arrival;
  logic valid_q, not_ours_q;
  arrival_t arrival_out_q;

  assign first_fill  = fill_base(stream_q, seq_q, sent_q);
  assign fill_start  = (SizeW + 1)'(v4_q ? V4Fill : V6Fill);
  assign fill_end    = length_q[SizeW:0] + (SizeW + 1)'(EthHeader);
  assign here        = {1'b0, at_q, 3'd0};
  assign size        = here + (SizeW + 1)'(bytes_q);
  // The counter's value that the word's first byte (IPv4) or fifth (IPv6) begins.
  assign fill        = first_fill + 32'(at_q - IdxW'(v4_q ? V4Fill / 8 : V6Fill / 8));
  assign expected    = v4_q ? {fill, ~fill} : {~(fill - 1'b1), fill};
  assign long_enough = size >= fill_start + (SizeW + 1)'(FcsBytes);

  always_comb begin
    for (int unsigned i = 0; i < 8; i++) begin
      differs[i] = here + (SizeW + 1)'(i) >= fill_start && here + (SizeW + 1)'(i) < fill_end
          && word_q[8*(7-i)+:8] != expected[8*(7-i)+:8];
    end
    // Lengths beyond any frame have bits that fill_end lacks.
    wrong = (at_q != '0 && wrong_q) || |differs
        || (last_q && (size != fill_end + (SizeW + 1)'(FcsBytes) || |length_q[15:SizeW]));

    arrival.stream = stream_q;
    arrival.seq = seq_q;
    arrival.arrival = arrival_q;
    arrival.latency = arrival_q - sent_q;
    arrival.size = size[SizeW-1:0];
    arrival.wrong = wrong;
  end

  always_ff @(posedge clk_i) begin
    if (beat_q) wrong_q <= wrong;
    arrival_out_q <= arrival;
    valid_q       <= !rst_i && beat_q && last_q && !bad_q && ok_q && long_enough;
    not_ours_q    <= !rst_i && beat_q && last_q && !bad_q && !(ok_q && long_enough);
  end

  assign arrival_o  = arrival_out_q;
  assign valid_o    = valid_q;
  assign not_ours_o = not_ours_q;
  assign busy_o     = idx_q != '0 || beat_q || valid_q || not_ours_q;

`ifndef SYNTHESIS
  initial begin
    assert (s_axis.DataW == 64 && s_axis.UserW == 1)
    else $fatal(1, "frame_check: stream is not 64 + 1");
  end
`endif
endmodule
