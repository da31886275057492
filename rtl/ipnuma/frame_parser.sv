// SPDX-License-Identifier: Apache-2.0
// Takes received frames apart as their words pass, in both formats and control frames: lines 1 to 9 and the
// end code of the verdict table, the operation's fields, its session and sequence number, the key for the
// region table, and the data as pairs of DWs.
//
// Words are W0, W1, .. from the destination MAC. The session is in W4, lane 2 (UDP source port). The UDP
// payload begins in W5, lane 2, and W5 has the sequence number, whose upper half is in the end code; the body
// (header fields of tlp, data of compact) begins in W6, lane 2. All fields are in registers when the last
// word is held; only the end code and the count of bytes may depend on that word.
//
// The end code is compared in the cycle behind its last word: the register of the CRC, over the words as they
// came, with what the residue becomes by the tag and the number's upper half, which were not sent. A CRC is
// linear: their bytes change the register by a constant for each bit, whatever the words were.
//
// Latency : 1 cycle from the last word: verdict_o, end_ok_o and op_o hold in the cycle of last_o, in which
//           the first word of the next frame may be here. Data pairs leave in the cycle of the word that
//           ends them.
// Clock   : clk_i (network).
// Drops   : none; whoever takes a verdict counts.
// Source  : docs/wire-format.md.
module frame_parser
  import ipnuma_pkg::*;
  import rx_pkg::*;
  import wire_pkg::*;
(
  input logic              clk_i,
  input logic              rst_i,
  /// The receive stream: no back-pressure; with tlast tuser[0] says that the frame is bad, tuser[1] that
  /// it came sealed.
        axis_if.mon        s_frames,
  input logic       [47:0] mac_i,
  input logic       [31:0] ip_i,

  /// Session of the frame (its source port), and who sent it.
  output logic        session_look_o,
  output logic [15:0] session_port_o,
  output logic [31:0] session_ip_o,
  /// The session is a sealed one; 2 cycles after session_look_o.
  input  logic        session_sealed_i,
  /// Sequence number of a frame of a session.
  output logic        judge_o,
  output logic [ 7:0] judge_session_o,
  output logic [15:0] judge_number_o,
  /// Its upper half as the receiver counts, 1 cycle after judge_o.
  input  logic [15:0] fold_i,

  /// Key of a store or load.
  output logic              lookup_o,
  output logic       [15:0] lookup_key_o,
  /// The operation is whole; at least 1 cycle after lookup_o.
  output logic              check_o,
  output region_op_t        check_op_o,
  /// Tag of the region that was looked up.
  input  logic       [11:0] tag_i,

  /// First word of a frame.
  output logic        first_o,
  /// A whole pair of data DWs {odd, even}; pairs may continue beyond the data.
  output logic        pair_valid_o,
  output logic [ 4:0] pair_idx_o,
  output logic [63:0] pair_o,
  /// The slot for this frame's data must be chosen now; no pair came before.
  output logic        claim_o,

  /// The last word of a frame was held in the cycle before.
  output logic          last_o,
  /// With last_o: the MAC found it good.
  output logic          good_o,
  /// With last_o: it came sealed and was opened.
  output logic          unsealed_o,
  /// With last_o: Open, or the first of lines 1 to 9 that applies.
  output verdict_e      verdict_o,
  output logic          end_ok_o,
  /// With last_o: it may be right with another tag. `compact` has too few bits to tell: always 1.
  output logic          end_but_tag_o,
  output rx_head_t      op_o,
  output error_report_t report_o,
  output logic          busy_o
);
  import crc_pkg::*;

  // The CRCs run over whole words from W5 on. Its first two bytes are taken as the source port, which a
  // session's end code covers, or else as zeros: registers as they are two zero bytes before the payload.
  localparam logic [15:0] Crc16Start = crc16_rewind(CRC16_INIT, 3'd2);
  localparam logic [31:0] Crc32Start = crc32c_rewind(CRC32C_INIT, 3'd2);
  localparam logic [47:0] Broadcast = '1;
  localparam int unsigned CountW = 14;  // words of 64 KB, the longest IP datagram, and some

  function automatic logic [15:0] be16(logic [15:0] bytes);
    return {bytes[7:0], bytes[15:8]};
  endfunction

  function automatic logic [31:0] be32(logic [31:0] bytes);
    return {bytes[7:0], bytes[15:8], bytes[23:16], bytes[31:24]};
  endfunction

  function automatic logic [47:0] be48(logic [47:0] bytes);
    return {be16(bytes[15:0]), be32(bytes[47:16])};
  endfunction

  logic valid, last;
  logic [      63:0] word;
  logic [      47:0] prev_q;  // upper six bytes of the word before
  logic [CountW-1:0] idx_q;  // number of the word held
  logic [       8:0] at;

  assign valid = s_frames.tvalid;
  assign last  = valid && s_frames.tlast;
  assign word  = s_frames.tdata;

  always_comb begin
    for (int unsigned i = 0; i < 9; i++) at[i] = valid && idx_q == CountW'(i);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      idx_q <= '0;
    end else if (valid) begin
      if (last) idx_q <= '0;
      else if (idx_q != '1) idx_q <= idx_q + 1'b1;
    end
  end

  // ---- Ethernet, IP, UDP ----------------------------------------------------------------------
  logic mine_q, broadcast_q, arp_q, ipv4_q, ip_fields_q, udp_q, to_me_q;
  logic [47:0] src_mac_q, dst_mac;
  logic     [31:0] src_ip_q;
  session_t        session_q;
  logic            of_session;
  logic     [15:0] port_q;
  logic [15:0] ip_length_q, udp_length_q;
  logic [19:0] sum_q, sum_d;  // of the IP header's 16-bit words
  logic [16:0] sum_folded;

  assign dst_mac = be48(word[47:0]);

  always_comb begin
    sum_d = '0;
    if (at[2] || at[3]) begin
      for (int unsigned i = 0; i < 4; i++) sum_d += 20'(be16(word[16*i+:16]));
    end else if (at[1]) begin
      sum_d = 20'(be16(word[63:48]));
    end else begin
      sum_d = 20'(be16(word[15:0]));
    end
    if (!at[1]) sum_d += sum_q;
  end
  // At most nine carries: folding once is enough.
  assign sum_folded = 17'(sum_q[15:0]) + 17'(sum_q[19:16]);

  always_ff @(posedge clk_i) begin
    if (valid) prev_q <= word[63:16];
    if (at[0]) begin
      mine_q           <= dst_mac == mac_i || dst_mac == Broadcast;
      broadcast_q      <= dst_mac == Broadcast;
      src_mac_q[47:32] <= be16(word[63:48]);
    end
    if (at[1]) begin
      src_mac_q[31:0] <= be32(word[31:0]);
      arp_q           <= be16(word[47:32]) == 16'h0806;
      ipv4_q          <= be16(word[47:32]) == 16'h0800 && word[55:48] == 8'h45;
    end
    if (at[2]) begin
      ip_length_q <= be16(word[15:0]);
      // Neither more fragments nor an offset; don't fragment and the reserved bit may be anything.
      ip_fields_q <= {word[37:32], word[47:40]} == '0 && word[63:56] == 8'd17;
    end
    if (at[3]) begin
      src_ip_q <= be32(word[47:16]);
      to_me_q  <= be16(word[63:48]) == ip_i[31:16];
    end
    if (at[4]) begin
      if (be16(word[15:0]) != ip_i[15:0]) to_me_q <= 1'b0;
      session_q    <= of_session ? '{valid: 1'b1, index: word[31:24]} : '0;
      port_q       <= session_port_o;
      udp_q        <= be16(word[47:32]) == UDP_PORT;
      udp_length_q <= be16(word[63:48]);
    end
    if (|at[4:1]) sum_q <= sum_d;
  end

  assign of_session     = word[23:22] == SESSION_PORT_PREFIX;
  assign session_look_o = at[4] && of_session;
  assign session_port_o = be16(word[31:16]);
  assign session_ip_o   = src_ip_q;

  // ---- Lengths --------------------------------------------------------------------------------
  // Positions in the frame follow from the UDP length; they are taken while W5 is held.
  logic sum_ok_q, lengths_bad_q;
  logic [CountW-1:0] need_idx_q, end_idx_q, ack_idx_q;
  logic [2:0] need_lane_q, end_lane_q;
  logic [1:0] ack_pair_q;
  logic [16:0] need_at, end_at, ack_at, udp_length, overhead;
  logic compact_q, compact, control_q, control, magic_ok_q, magic_ok, is_error_q, has_ack;
  logic [16:0] data_q;  // data bytes, negative if the payload is too short

  // Control frames have the compact layout, without data.
  assign compact    = word[23:20] == COMPACT_NIBBLE;
  assign control    = compact && word[18];
  assign has_ack    = word[19];
  assign udp_length = {1'b0, udp_length_q};
  assign need_at    = udp_length + 17'd37;  // last byte with the FCS
  assign end_at     = udp_length + 17'd33;  // last byte of the payload
  // The acknowledgement of a compact store, if it has one.
  assign ack_at     = udp_length + 17'd30;
  // UDP header, payload header, TLP header, acknowledgement, end code.
  assign overhead   = compact ? (has_ack ? 17'd20 : 17'd18) : 17'd36;

  always_ff @(posedge clk_i) begin
    if (at[5]) begin
      sum_ok_q      <= sum_folded == 17'h0FFFF;
      lengths_bad_q <= udp_length + 17'd20 != {1'b0, ip_length_q} || udp_length < 17'd18;
      need_idx_q    <= need_at[16:3];
      need_lane_q   <= need_at[2:0];
      end_idx_q     <= end_at[16:3];
      end_lane_q    <= end_at[2:0];
      ack_idx_q     <= ack_at[16:3];
      ack_pair_q    <= ack_at[2:1];
      data_q        <= udp_length - overhead;
    end
  end

  // ---- Payload header -------------------------------------------------------------------------
  logic [15:0] sequence_q;
  logic [11:0] c_key_q;  // compact
  logic [27:0] c_offset_q;
  logic [1:0] c_skip_q, c_trail_q;
  logic [127:0] head_q;  // tlp: TLP header or error body, first byte in [7:0]
  logic has_ack_q, numbered_q;  // numbered: tlp only
  logic [15:0] ack_q;

  always_comb begin
    if (control) begin
      magic_ok = !has_ack && word[17:16] inside {CONTROL_ACK, CONTROL_NACK, CONTROL_VOID};
    end else begin
      magic_ok = compact || (be16(word[31:16]) == TLP_MAGIC && word[35:34] == '0 &&
                             word[39:36] inside {KIND_TLP, KIND_ERROR});
    end
  end

  assign judge_o         = at[5] && session_q.valid;
  assign judge_session_o = session_q.index;
  assign judge_number_o  = compact ? be16(word[39:24]) : be16(word[63:48]);

  always_ff @(posedge clk_i) begin
    if (at[5]) begin
      compact_q         <= compact;
      control_q         <= control;
      magic_ok_q        <= magic_ok;
      is_error_q        <= !compact && word[39:36] == KIND_ERROR;
      sequence_q        <= judge_number_o;
      c_trail_q         <= word[17:16];
      c_key_q           <= {word[47:40], word[55:52]};
      has_ack_q         <= compact ? has_ack : word[33];
      numbered_q        <= word[32];
      c_offset_q[27:16] <= {word[51:48], word[63:56]};
    end
    if (at[6]) begin
      c_skip_q         <= word[9:8];
      c_offset_q[15:0] <= {word[7:0], word[15:10], 2'b00};
      head_q[47:0]     <= word[63:16];
    end
    if (at[7]) head_q[111:48] <= word;
    if (at[8]) head_q[127:112] <= word[15:0];
    // By its position it is never in the last word.
    if (at[6] && !compact_q) ack_q <= be16(word[15:0]);
    if (valid && idx_q == ack_idx_q && compact_q) ack_q <= be16(word[16*ack_pair_q+:16]);
  end

  // ---- The operation --------------------------------------------------------------------------
  logic [7:0] fmt_type;
  logic [9:0] length;
  logic [3:0] first_be, last_be, c_first, c_last;
  logic is_mwr, is_mrd, is_cpl, is_cpld, is_request, is_void, is_numbered, one_dw;
  logic bad_tlp, bad_data;
  logic [39:0] c_address;
  logic [15:0] load_number;

  assign fmt_type = head_q[7:0];
  assign length = {head_q[17:16], head_q[31:24]};
  assign is_mwr = !is_error_q && fmt_type == TLP_MWR64;
  assign is_mrd = !is_error_q && fmt_type == TLP_MRD64;
  assign is_cpl = !is_error_q && fmt_type == TLP_CPL;
  assign is_cpld = !is_error_q && fmt_type == TLP_CPLD;
  assign is_request = compact_q ? !control_q : is_mwr || is_mrd;
  assign is_void = control_q && c_trail_q == CONTROL_VOID;
  assign is_numbered = session_q.valid && (is_request || is_void);
  assign c_address = {c_key_q, c_offset_q};

  assign one_dw = data_q == 17'd4;
  assign c_first = 4'(4'hF << c_skip_q);
  assign c_last = 4'hF >> c_trail_q;
  assign first_be = !compact_q ? head_q[59:56] : one_dw ? c_first & c_last : c_first;
  assign last_be = !compact_q ? head_q[63:60] : one_dw ? '0 : c_last;

  // Requester ID of a load and of its completion.
  assign load_number = be16(
      is_mrd ? head_q[47:32] : head_q[79:64]
  ) & {16{session_q.valid && !compact_q}};

  // Line 8.
  always_comb begin
    if (compact_q) begin
      bad_tlp = !control_q && one_dw && first_be == '0;
    end else if (is_error_q) begin
      bad_tlp = 1'b0;
    end else begin
      bad_tlp = !(is_mwr || is_mrd || is_cpl || is_cpld) || head_q[23:22] != '0;
      if (is_mwr || is_mrd) begin
        if (head_q[79:64] != '0 || head_q[121:120] != '0) bad_tlp = 1'b1;
        // The region's base is whole pages: what is legal at this offset is so in memory.
        if (!enables_legal(length, first_be, last_be, head_q[122])) bad_tlp = 1'b1;
      end
    end
  end

  // Line 9.
  always_comb begin
    if (control_q) begin
      bad_data = data_q != '0;
    end else if (compact_q) begin
      bad_data = data_q[1:0] != '0 || data_q[16:2] == '0 || data_q[16:2] > 15'(MAX_DATA_DW);
    end else begin
      bad_data = data_q != ((is_mwr || is_cpld) ? {5'd0, length, 2'b00} : 17'd0);
      if ((is_mwr || is_mrd || is_cpld) && (length == '0 || length > 10'(MAX_DATA_DW))) begin
        bad_data = 1'b1;
      end
    end
  end

  assign op_o = '{
          is_store: compact_q ? !control_q : is_mwr,
          is_load: !compact_q && is_mrd,
          is_completion: !compact_q && (is_cpl || is_cpld),
          is_void: is_void,
          is_ack: control_q && !is_void,
          nack: c_trail_q == CONTROL_NACK,
          unnumbered: !compact_q && (is_mwr || is_mrd) && !numbered_q,
          has_ack: has_ack_q || (control_q && !is_void),
          ack_number: control_q ? c_address[39:8] : {16'd0, ack_q},
          sequence_number: sequence_q,
          key: compact_q ? 16'(c_key_q) : be16(head_q[95:80]),
          offset: compact_q ? 32'(c_offset_q) : be32(head_q[127:96]),
          length: compact_q ? data_q[11:2] : length,
          data_dw: data_q[8:2],
          first_be: first_be,
          last_be: last_be,
          tag: is_mrd ? head_q[55:48] : head_q[87:80],
          status: head_q[55:53],
          byte_count: {head_q[51:48], head_q[63:56]},
          lower_address: head_q[94:88],
          peer: '{mac: src_mac_q, ip: src_ip_q},
          session: session_q,
          load_number: load_number
      };

  assign report_o = '{
          code: head_q[7:0],
          op: head_q[15:8],
          sequence_number: {be16(head_q[47:32]), be16(head_q[31:16])},
          address: {be32(head_q[95:64]), be32(head_q[127:96])},
          ip: src_ip_q
      };

  // ---- Region ---------------------------------------------------------------------------------
  logic c_check, t_check;

  assign lookup_o = !last && ((at[5] && compact && !control) || (at[7] && !compact_q));
  assign lookup_key_o = at[5] ? 16'({word[47:40], word[55:52]}) : be16(word[47:32]);
  assign c_check = at[6] && compact_q && !control_q;
  assign t_check = at[8] && !compact_q;
  assign check_o = c_check || t_check;
  assign check_op_o = '{
          is_load: !compact_q && is_mrd,
          offset:
          compact_q
          ?
          {4'd0, c_offset_q[27:16], word[7:0], word[15:10], 2'b00}
          : {
          be16(head_q[111:96])
          ,
          be16(word[15:0])
          },
          length: compact_q ? data_q[8:2] : length[6:0],
          source_ip: src_ip_q,
          session: session_q.valid,
          number: session_q.index,
          sealed: session_q.valid && session_sealed_i
      };

  // ---- End code -------------------------------------------------------------------------------
  // In a frame without an error of its lengths the code ends in lane 1, 3, 5 or 7 (compact), or in lane 1 or
  // 5 (tlp); what is said of other frames' codes does not count. What is folded in changes its last two bytes
  // (compact), or its first two of four (tlp).
  typedef logic [15:0][15:0] map16_t;  // element i: what bit i of the fold does to the register
  typedef logic [15:0][31:0] map32_t;
  typedef logic [31:0][31:0] rows_t;

  function automatic map16_t fold16(logic [1:0] pair);
    for (int unsigned i = 0; i < 16; i++) begin
      fold16[i] = crc16_next64('0, 64'(be16(16'd1 << i)) << {pair, 4'd0});
    end
  endfunction

  function automatic map32_t fold32(logic [1:0] pair, logic word_behind);
    for (int unsigned i = 0; i < 16; i++) begin
      fold32[i] = crc32c_next64('0, 64'd1 << (16 * int'(pair) + int'(i)));
      if (word_behind) fold32[i] = crc32c_next64(fold32[i], '0);
    end
  endfunction

  // Rows of the matrix that takes the register back over so many zero bytes, 14 at most.
  function automatic rows_t back(logic [3:0] bytes);
    logic [31:0] column;
    for (int unsigned i = 0; i < 32; i++) begin
      column = crc32c_rewind(
          crc32c_rewind(
              32'd1 << i, bytes > 4'd7 ? 3'd7 : 3'd0
          ),
          3'(bytes > 4'd7 ? bytes - 4'd7 : bytes)
      );
      for (int unsigned j = 0; j < 32; j++) back[j][i] = column[j];
    end
  endfunction

  localparam map16_t [3:0] Fold16 = {fold16(2'd3), fold16(2'd2), fold16(2'd1), fold16(2'd0)};
  localparam map32_t Fold32Lane5 = fold32(2'd1, 1'b0);
  localparam map32_t Fold32Lane1 = fold32(2'd3, 1'b1);
  localparam rows_t Back6 = back(4'd6);
  localparam rows_t Back10 = back(4'd10);

  function automatic logic [15:0] apply16(map16_t map, logic [15:0] bits);
    for (int unsigned j = 0; j < 16; j++) begin
      logic [15:0] row;
      for (int unsigned i = 0; i < 16; i++) row[i] = map[i][j];
      apply16[j] = ^(bits & row);
    end
  endfunction

  function automatic logic [31:0] apply32(map32_t map, logic [15:0] bits);
    for (int unsigned j = 0; j < 32; j++) begin
      logic [15:0] row;
      for (int unsigned i = 0; i < 16; i++) row[i] = map[i][j];
      apply32[j] = ^(bits & row);
    end
  endfunction

  logic [63:0] crc_word;
  logic [15:0] fold, crc16_q, crc16;
  logic [31:0] crc32_q, crc32, wanted, wanted_q, difference;
  logic [31:TAG_W] but5, but1;
  logic end_here, ended_q, end_now, end_ok_q, but_tag_now, but_tag_q;

  assign end_here = idx_q == end_idx_q;
  assign fold     = (is_request ? {4'd0, tag_i} : '0) ^ (is_numbered ? fold_i : '0);

  always_comb begin
    // While W5 is held the positions are those of the last frame.
    crc_word = word;
    if (at[5]) begin
      crc_word[15:0] = session_q.valid ? be16(port_q) : '0;
    end else begin
      for (int unsigned i = 0; i < 8; i++) begin
        if (end_here && 3'(i) > end_lane_q) crc_word[8*i+:8] = '0;
      end
    end
  end

  assign crc16 = crc16_next64(crc16_q, crc_word);
  assign crc32 = crc32c_next64(crc32_q, crc_word);

  // The register behind a right code. The bytes beyond the end were zeros: 7 - end_lane_q is its complement.
  always_comb begin
    if (compact_q) begin
      wanted = {16'd0, CRC16_RESIDUE[~end_lane_q]};
      for (int unsigned i = 0; i < 4; i++) begin
        if (end_lane_q[2:1] == 2'(i)) wanted[15:0] ^= apply16(Fold16[i], fold);
      end
    end else begin
      wanted = CRC32C_RESIDUE[~end_lane_q];
      wanted ^= end_lane_q[2] ? apply32(Fold32Lane5, fold) : apply32(Fold32Lane1, fold);
    end
  end

  assign end_now    = compact_q ? crc16_q == wanted_q[15:0] : crc32_q == wanted_q;

  // The register back at the beginning of the code: what was sent differs by that from the right code. A tag
  // that is not known changes the low bits alone.
  assign difference = crc32_q ^ wanted_q;
  always_comb begin
    for (int unsigned j = TAG_W; j < 32; j++) begin
      but5[j] = ^(difference & Back6[j]);
      but1[j] = ^(difference & Back10[j]);
    end
    but_tag_now = 1'b1;
    if (!compact_q) begin
      but_tag_now = end_lane_q == 3'd5 ? but5 == '0 : end_lane_q == 3'd1 && but1 == '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid) begin
      if (at[4]) begin
        crc16_q <= of_session ? CRC16_INIT : Crc16Start;
        crc32_q <= of_session ? CRC32C_INIT : Crc32Start;
      end else if (idx_q > CountW'(4)) begin
        crc16_q <= crc16;
        crc32_q <= crc32;
      end
      wanted_q <= wanted;
    end
    ended_q <= valid && end_here && idx_q > CountW'(5);
    if (at[0]) end_ok_q <= 1'b0;
    else if (ended_q) end_ok_q <= end_now;
    if (ended_q) but_tag_q <= but_tag_now;
  end

  // ---- Data -----------------------------------------------------------------------------------
  logic [CountW-1:0] pair;

  assign pair         = idx_q - (compact_q ? CountW'(7) : CountW'(9));
  assign pair_valid_o = valid && idx_q > CountW'(6) && pair < CountW'(MAX_DATA_DW / 2);
  assign pair_idx_o   = pair[4:0];
  assign pair_o       = {word[15:0], prev_q};
  assign claim_o      = at[6];

  // ---- Verdict --------------------------------------------------------------------------------
  verdict_e headers, headers_q;
  logic short_frame, last_q, good_q, unsealed_q;

  assign short_frame = idx_q < need_idx_q || (idx_q == need_idx_q && !s_frames.tkeep[need_lane_q]);

  always_comb begin
    if (!mine_q) headers = NotMine;
    else if (arp_q) headers = Arp;
    else if (!ipv4_q || broadcast_q || !ip_fields_q || !to_me_q || !udp_q) headers = NotIpnuma;
    else if (!sum_ok_q) headers = BadIpChecksum;
    else if (lengths_bad_q || short_frame) headers = BadLength;
    else if (!magic_ok_q) headers = BadMagic;
    else if (!compact_q && data_q[16]) headers = BadLength;
    else if (bad_tlp) headers = BadTlp;
    else if (bad_data) headers = BadLength;
    else headers = Open;
  end

  always_ff @(posedge clk_i) begin
    last_q <= !rst_i && last;
    if (last) begin
      headers_q  <= headers;
      good_q     <= !s_frames.tuser[0];
      unsealed_q <= s_frames.tuser[1];
    end
  end

  assign first_o       = at[0];
  assign last_o        = last_q;
  assign verdict_o     = headers_q;
  assign good_o        = good_q;
  assign unsealed_o    = unsealed_q;
  assign end_ok_o      = ended_q ? end_now : end_ok_q;
  assign end_but_tag_o = ended_q ? but_tag_now : but_tag_q;
  assign busy_o        = idx_q != '0 || last_q;

  // Receivers ignore the requester or completer ID.
  logic unused;
  assign unused = ^{s_frames.tready, c_address[7:0], ack_at[0]};

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && last && !s_frames.tuser[0]) begin
      a_long_enough :
      assert (idx_q >= CountW'(7))
      else $error("a good frame of less than 64 bytes");
    end
  end
`endif
endmodule
