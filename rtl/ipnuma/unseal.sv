// SPDX-License-Identifier: Apache-2.0
// Opens sealed frames between the receiver and the parser: decrypts them, checks tag and packet
// number, and takes the seal's header out, so that the parser sees the frame as its sender built it.
//
// A frame is sealed if it is ours by lines 1 to 4 of the verdict table, its IP and UDP lengths agree
// and its payload begins with the seal's magic. Sealed frames lose the 8 bytes of the seal's header;
// IP length, IP checksum and UDP length follow; tag and FCS stay behind the payload. All other frames
// go through unchanged.
//
// The header's phase says which of a session's two keys it is sealed with; each has packet numbers of its
// own.
//
// The header's words wait until W6 (with the packet number) is there, then leave one a cycle; from W6
// on a word leaves a fixed time after it came. Key stream block i covers the bytes 50 + 16 (i - 1)
// and on: lanes 2 to 7 of W(4+2i), all of W(5+2i), lanes 0 and 1 of W(6+2i). It is asked for in the
// cycle of W(4+2i), and so arrives with that word at the end of the delay; behind the last one
// follows the mask of the tag.
//
// Latency   : with enable_i 10 cycles from each word from W6 on, sealed or not, whatever is in it
//             (64 ns at 10G, 80 ns at 1G). Without: none, wires.
// Clock     : clk_i (network).
// Handshake : streams without back-pressure. Words of a frame come in consecutive cycles, or 6 and more
//             apart, but for a last one (as xgmii_rx and gmii_rx have them); two frames are 2 cycles
//             apart at least.
// Drops     : with enable_i frames of less than 7 words, which no receiver calls good. Sealed frames that
//             do not open leave marked bad and are counted here.
// Source    : docs/wire-format.md, sealed sessions; NIST SP 800-38D.
module unseal
  import aes_pkg::*;
  import gcm_pkg::*;
  import wire_pkg::*;
#(
  /// Sessions; a power of two.
  parameter int unsigned Sessions = 64,
  /// 0: only wires.
  parameter bit Auth = 1'b1,
  localparam int unsigned IndexW = $clog2(Sessions)
) (
  input  logic                      clk_i,
  input  logic                      rst_i,
  /// Takes effect between frames.
  input  logic                      enable_i,
  input  logic       [        47:0] mac_i,
  input  logic       [        31:0] ip_i,
  input  logic       [Sessions-1:0] session_valid_i,
  input  logic       [Sessions-1:0] session_sealed_i,
  /// FCS included; tuser is 1 with the tlast of a bad frame.
         axis_if.mon                s_axis,
  /// With tlast: tuser[0] bad, tuser[1] was sealed, and opened.
         axis_if.src                m_axis,
  input  logic                      key_write_i,
  input  logic       [         7:0] key_index_i,
  input  key_entry_t                key_entry_i,
  /// Pulse: a sealed frame that does not open.
  output logic                      cnt_bad_seal_o,
  output logic                      busy_o
);
  // Cycles from the word to the output register.
  localparam int unsigned Delay = 9;
  localparam int unsigned CountW = 14;
  localparam int unsigned HeadWords = 6;
  // Payload of the shortest sealed frame: header, control frame, tag.
  localparam int unsigned MinPayload = SEAL_HEADER_BYTES + 10 + SEAL_TAG_BYTES;

  if (!Auth) begin : gen_none
    assign m_axis.tdata   = s_axis.tdata;
    assign m_axis.tkeep   = s_axis.tkeep;
    assign m_axis.tvalid  = s_axis.tvalid;
    assign m_axis.tlast   = s_axis.tlast;
    assign m_axis.tuser   = {1'b0, s_axis.tuser[0]};
    assign cnt_bad_seal_o = 1'b0;
    assign busy_o         = 1'b0;

    logic unused;
    assign unused = ^{clk_i, rst_i, enable_i, mac_i, ip_i, session_valid_i, session_sealed_i,
                      key_write_i, key_index_i, key_entry_i, m_axis.tready, s_axis.tready};
  end else begin : gen_auth
    function automatic logic [15:0] be16(logic [15:0] bytes);
      return {bytes[7:0], bytes[15:8]};
    endfunction

    function automatic logic [31:0] be32(logic [31:0] bytes);
      return {bytes[7:0], bytes[15:8], bytes[23:16], bytes[31:24]};
    endfunction

    typedef enum logic [1:0] {
      Stream,  // key stream
      Mask,    // of the tag
      Setup    // hash key of a new key
    } use_e;

    // ---- Words as they come ----------------------------------------------------------------------
    logic enable_q, valid, last, idle;
    logic [      63:0] word;
    logic [CountW-1:0] idx_q;  // number of the word held
    logic [       8:0] at;
    logic              even;  // an even word from W6 on

    assign valid = s_axis.tvalid && enable_q;
    assign last  = valid && s_axis.tlast;
    assign word  = s_axis.tdata;
    assign even  = valid && !idx_q[0] && idx_q >= CountW'(6);

    always_comb begin
      for (int unsigned i = 0; i < 9; i++) at[i] = valid && idx_q == CountW'(i);
    end

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        idx_q    <= '0;
        enable_q <= 1'b0;
      end else begin
        if (valid) begin
          if (last) idx_q <= '0;
          else if (idx_q != '1) idx_q <= idx_q + 1'b1;
        end
        if (idle && !s_axis.tvalid) enable_q <= enable_i;
      end
    end

    // A frame that is not looked at must have ended before the next is.
    logic plain_q;
    always_ff @(posedge clk_i) begin
      if (rst_i) plain_q <= 1'b0;
      else if (s_axis.tvalid && !enable_q) plain_q <= !s_axis.tlast;
    end

    // ---- Header ----------------------------------------------------------------------------------
    logic [HeadWords-1:0][63:0] head_q;
    logic ours_q, sealed_q, usable_q;
    logic [15:0] port_q, ip_length_q, udp_length_q, udp_length;
    logic [19:0] sum_q, sum_d;  // of the IP header's 16-bit words
    logic [      16:0] sum_folded;
    logic [      31:0] number_top_q;
    logic [      47:0] number_q;
    logic [IndexW-1:0] index_q;
    logic phase, phase_q;  // of the key
    logic [2*Sessions-1:0] known;  // by session and phase

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
    assign sum_folded = 17'(sum_q[15:0]) + 17'(sum_q[19:16]);
    assign udp_length = be16(word[63:48]);
    assign phase      = word[24];

    always_ff @(posedge clk_i) begin
      for (int unsigned i = 0; i < HeadWords; i++) if (at[i]) head_q[i] <= word;
      if (at[0]) ours_q <= {be16(word[15:0]), be32(word[47:16])} == mac_i;
      if (at[1] && !(be16(word[47:32]) == 16'h0800 && word[55:48] == 8'h45)) ours_q <= 1'b0;
      if (at[2]) begin
        ip_length_q <= be16(word[15:0]);
        if ({word[37:32], word[47:40]} != '0 || word[63:56] != 8'd17) ours_q <= 1'b0;
      end
      if (at[3] && be16(word[63:48]) != ip_i[31:16]) ours_q <= 1'b0;
      if (at[4]) begin
        if (be16(
                word[15:0]
            ) != ip_i[15:0] || be16(
                word[47:32]
            ) != UDP_PORT || 17'(udp_length) + 17'd20 != 17'(ip_length_q)) begin
          ours_q <= 1'b0;
        end
        port_q       <= be16(word[31:16]);
        index_q      <= word[24+:IndexW];
        udp_length_q <= udp_length;
      end
      if (|at[4:1]) sum_q <= sum_d;
      if (at[5]) begin
        sealed_q <= ours_q && sum_folded == 17'h0FFFF && udp_length_q >= 16'd18 &&
            word[23:16] == SEAL_MAGIC;
        usable_q <= word[31:25] == '0 && udp_length_q >= 16'(MinPayload + 8) &&
            port_q[15:14] == SESSION_PORT_PREFIX && 32'(port_q[7:0]) < Sessions &&
            session_valid_i[index_q] && session_sealed_i[index_q] &&
            (phase ? known[{index_q, 1'b1}] : known[{index_q, 1'b0}]);
        phase_q <= phase;
        number_top_q <= be32(word[63:32]);
      end
      if (at[6]) number_q <= {number_top_q, be16(word[15:0])};
    end

    // ---- Keys ------------------------------------------------------------------------------------
    block_t key, hash_key, aes_block;
    logic [31:0] salt;
    logic setup_valid, setup_ready, setup_issue, setup_done, busy_keys;
    logic [3:0] recent_q;  // blocks that went into AES in the last cycles, the last in bit 0
    logic number_look, number_write;
    logic [IndexW:0] leaving_key_q;  // session and phase
    logic [47:0] last_number, leaving_number_q;

    key_table #(
      .Keys(2 * Sessions)
    ) u_keys (
      .clk_i,
      .rst_i,
      .key_write_i         (key_write_i && !key_entry_i.send),
      .key_index_i         ({key_index_i[IndexW-1:0], key_entry_i.phase}),
      .key_i               (key_entry_i.rx_key),
      .salt_i              (key_entry_i.rx_salt),
      .phase_i             (key_entry_i.phase),
      .forget_i            (!key_entry_i.receive),
      .known_o             (known),
      .look_i              (at[5]),
      .look_index_i        ({index_q, phase}),
      .key_o               (key),
      .salt_o              (salt),
      .phase_o             (),
      .hash_key_o          (hash_key),
      .number_look_i       (number_look),
      .number_index_i      (leaving_key_q),
      .number_o            (last_number),
      .number_write_i      (number_write),
      .number_write_index_i(leaving_key_q),
      .number_i            (leaving_number_q),
      .setup_valid_o       (setup_valid),
      .setup_ready_i       (setup_ready),
      .setup_issue_o       (setup_issue),
      .setup_done_i        (setup_done),
      .setup_block_i       (aes_block),
      .busy_o              (busy_keys)
    );

    // The block goes in the next cycle. W6 is 7 cycles away at least, too far for its block to meet
    // this one on the way; one that went in 4 cycles ago would.
    assign setup_ready = idx_q == '0 && !s_axis.tvalid && !recent_q[3];

    // ---- AES -------------------------------------------------------------------------------------
    logic aes_valid, aes_done, busy_aes;
    use_e aes_use, aes_done_use;
    logic [31:0] counter_q;
    logic [CountW+3:0]
        left_q, left;  // bytes of text behind this word's block boundary, or negative
    logic        more_q;  // the mask was not asked for yet
    logic        ends;
    logic [95:0] nonce;

    // Bytes of text from lane 2 of this word on.
    assign left = at[6] ? (CountW + 4)'(udp_length_q) -
        (CountW + 4)'(8 + SEAL_HEADER_BYTES + SEAL_TAG_BYTES) : left_q;
    assign ends = left[CountW+3] || left == '0;
    assign nonce = {salt, at[6] ? {number_top_q, be16(word[15:0])} : number_q, port_q};
    assign aes_valid = setup_issue || (even && sealed_q && usable_q && (at[6] || more_q));
    assign aes_use = setup_issue ? Setup : ends ? Mask : Stream;

    aes_pipe #(
      .user_t(use_e)
    ) u_aes (
      .clk_i,
      .rst_i,
      .valid_i(aes_valid),
      .ready_o(),
      .key_i(key),
      .block_i(setup_issue ? '0 : counter_block(nonce, at[6] ? 32'd2 : ends ? 32'd1 : counter_q)),
      .user_i(aes_use),
      .soon_o(),
      .soon_user_o(),
      .done_o(aes_done),
      .block_o(aes_block),
      .user_o(aes_done_use),
      .busy_o(busy_aes)
    );
    assign setup_done = aes_done && aes_done_use == Setup;

    always_ff @(posedge clk_i) begin
      if (rst_i) recent_q <= '0;
      else recent_q <= {recent_q[2:0], aes_valid};
      if (even) begin
        counter_q <= at[6] ? 32'd3 : counter_q + 1'b1;
        left_q    <= left - (CountW + 4)'(16);
        more_q    <= sealed_q && usable_q && (at[6] || more_q) && !ends;
      end
    end

    // ---- Hash: additional data with W6, then block i with W(6+2i), then the lengths ---------------
    logic hash_pending_q, hash_first_q, hash_busy;
    logic [1:0] lengths_wait_q;
    block_t hash_block_q, sum;
    logic [ 5:0][7:0] even_tail_q;  // lanes 2 to 7 of the last even word
    logic [ 7:0][7:0] odd_q;  // the last odd word
    logic [15:0][7:0] text;
    logic [15:0]      text_bytes_q;

    // Bytes behind the text are zeros.
    always_comb begin
      text = '0;
      if (even) begin
        text = {word[15:0], odd_q, even_tail_q};
        for (int unsigned i = 0; i < 16; i++) begin
          if (ends && (CountW + 4)'(i) >= left + (CountW + 4)'(16)) text[i] = '0;
        end
      end
    end

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        hash_pending_q <= 1'b0;
        lengths_wait_q <= '0;
      end else begin
        hash_pending_q <= (even && sealed_q && usable_q && (at[6] || more_q)) || lengths_wait_q[0];
        lengths_wait_q <= {even && more_q && ends && !at[6], lengths_wait_q[1]};
      end
      if (even) begin
        even_tail_q <= word[63:16];
        hash_first_q <= at[6];
        hash_block_q <= at[6] ? {SEAL_MAGIC, 7'd0, phase_q, number_top_q, be16(
            word[15:0]
        ), 64'd0} : swap(
            text
        );
      end
      if (valid && idx_q[0]) odd_q <= word;
      if (at[6]) text_bytes_q <= left[15:0];
      if (lengths_wait_q[0]) begin
        hash_first_q <= 1'b0;
        hash_block_q <= length_block(16'(SEAL_HEADER_BYTES), text_bytes_q);
      end
    end

    ghash u_ghash (
      .clk_i,
      .rst_i,
      .valid_i(hash_pending_q),
      .first_i(hash_first_q),
      .block_i(hash_block_q),
      .key_i  (hash_key),
      .sum_o  (sum),
      .busy_o (hash_busy)
    );

    // ---- The tag as it came, and the length -------------------------------------------------------
    logic [CountW-1:0] tag_idx_q, need_idx_q;
    logic [2:0] tag_lane_q, need_lane_q;
    logic [63:0] prev_q, tag_word;
    logic [16:0] tag_at, need_at;
    logic [127:0] tag_q;  // stream order
    logic         cut;

    assign tag_at  = 17'(udp_length_q) + 17'd18;
    assign need_at = 17'(udp_length_q) + 17'd37;  // last byte, with the FCS
    assign cut     = idx_q < need_idx_q || (idx_q == need_idx_q && !s_axis.tkeep[need_lane_q]);

    always_comb begin
      tag_word = '0;
      if (valid) tag_word = 64'({word, prev_q} >> {tag_lane_q, 3'd0});
    end

    always_ff @(posedge clk_i) begin
      if (valid) prev_q <= word;
      if (at[5]) begin
        tag_idx_q   <= tag_at[16:3];
        tag_lane_q  <= tag_at[2:0];
        need_idx_q  <= need_at[16:3];
        need_lane_q <= need_at[2:0];
      end
      if (valid && idx_q > CountW'(6)) begin
        if (idx_q == tag_idx_q + CountW'(1)) tag_q[63:0] <= tag_word;
        if (idx_q == tag_idx_q + CountW'(2)) tag_q[127:64] <= tag_word;
      end
    end

    // ---- Delay of the words from W6 on -----------------------------------------------------------
    typedef struct packed {
      logic [63:0] data;
      logic [7:0]  keep;
      logic        last;
      logic        bad;
      logic        cut;    // with last: shorter than its lengths say
      logic        odd;
      logic        first;
    } delay_t;

    logic   [Delay:1] delay_valid_q;
    delay_t [Delay:1] delay_q;
    delay_t           from;
    logic             from_valid;

    always_ff @(posedge clk_i) begin
      if (rst_i) delay_valid_q <= '0;
      else delay_valid_q <= {delay_valid_q[Delay-1:1], valid && idx_q >= CountW'(6)};

      if (valid) begin
        delay_q[1] <= '{
            data: word,
            keep: s_axis.tkeep,
            last: s_axis.tlast,
            bad: s_axis.tuser[0],
            cut: cut,
            odd: idx_q[0],
            first: at[6]
        };
      end
      for (int unsigned i = 2; i <= Delay; i++) if (delay_valid_q[i-1]) delay_q[i] <= delay_q[i-1];
    end
    assign from       = delay_q[Delay];
    assign from_valid = delay_valid_q[Delay];

    // ---- The frame that leaves -------------------------------------------------------------------
    // W6 is 3 cycles old when these are taken: W0 of the frame leaves in the next cycle, or one later
    // if the frame is one word shorter.
    logic leaving_sealed_q, leaving_usable_q, newer_q;
    logic [15:0] leaving_ip_length_q, leaving_udp_length_q, leaving_ip_sum;
    logic [2:0] head_at;
    logic       head_valid;

    assign number_look = delay_valid_q[3] && delay_q[3].first;

    always_ff @(posedge clk_i) begin
      if (delay_valid_q[2] && delay_q[2].first) begin
        leaving_sealed_q     <= sealed_q;
        leaving_usable_q     <= usable_q;
        leaving_key_q        <= {index_q, phase_q};
        leaving_number_q     <= number_q;
        leaving_ip_length_q  <= ip_length_q - 16'(SEAL_HEADER_BYTES + SEAL_TAG_BYTES);
        leaving_udp_length_q <= udp_length_q - 16'(SEAL_HEADER_BYTES + SEAL_TAG_BYTES);
      end
      if (delay_valid_q[4] && delay_q[4].first) newer_q <= leaving_number_q > last_number;
    end

    // Unsealed frames begin to leave when W6 is in delay_q[3], sealed ones one cycle later.
    always_comb begin
      head_valid = 1'b0;
      head_at    = '0;
      for (int unsigned i = 0; i < HeadWords; i++) begin
        if (delay_valid_q[i+3] && delay_q[i+3].first) begin
          head_at    = leaving_sealed_q ? 3'(i - 1) : 3'(i);
          head_valid = !leaving_sealed_q || i != 0;
        end
      end
    end

    logic [63:0] head_word;
    logic [15:0] old_sum, new_sum;
    logic [16:0] less;

    // One's complement: the header's sum gets less by what its length gets less.
    assign old_sum        = ~be16(head_q[3][15:0]);
    assign less           = 17'(old_sum) + 17'(16'hFFFF - 16'(SEAL_HEADER_BYTES + SEAL_TAG_BYTES));
    assign new_sum        = less[15:0] + 16'(less[16]);
    assign leaving_ip_sum = ~new_sum;

    always_comb begin
      head_word = head_q[head_at];
      if (leaving_sealed_q) begin
        unique case (head_at)
          3'd2:    head_word[15:0] = be16(leaving_ip_length_q);
          3'd3:    head_word[15:0] = be16(leaving_ip_sum);
          3'd4:    head_word[63:48] = be16(leaving_udp_length_q);
          default: ;
        endcase
      end
    end

    // Key stream at the end of the delay.
    logic [127:0] stream;  // stream order
    logic [ 79:0] stream_rest_q;
    logic [ 63:0] plain;
    logic [ 15:0] udp_checksum;

    assign udp_checksum = head_q[5][15:0];

    always_comb begin
      stream = '0;
      if (aes_done && aes_done_use == Stream) stream = swap(aes_block);
    end

    always_comb begin
      plain = from.data ^ (from.odd ? stream_rest_q[63:0] : {stream[47:0], stream_rest_q[15:0]});
      if (from.first) plain[15:0] = udp_checksum;
    end

    always_ff @(posedge clk_i) begin
      if (from_valid && leaving_sealed_q) begin
        stream_rest_q <= from.odd ? {64'd0, stream_rest_q[79:64]} : stream[127:48];
      end
    end

    // ---- Verdict ---------------------------------------------------------------------------------
    logic mask_now, masked_q, tag_ok, opened, verdict;  // masked_q: the mask came
    block_t mask_q;

    // The mask may come with the last word.
    assign mask_now = aes_done && aes_done_use == Mask;
    assign verdict  = from_valid && from.last && leaving_sealed_q && !from.bad;
    always_comb begin
      tag_ok = 1'b0;
      if (verdict) tag_ok = (mask_now ? aes_block ^ sum : mask_q) == swap(tag_q);
    end
    assign opened   = leaving_usable_q && (mask_now || masked_q) && !from.cut && newer_q && tag_ok
        && known[leaving_key_q];
    assign number_write = verdict && opened;

    always_ff @(posedge clk_i) begin
      if (mask_now) mask_q <= aes_block ^ sum;
      if (from_valid && from.first) masked_q <= 1'b0;
      else if (mask_now) masked_q <= 1'b1;
    end

    // ---- Output ----------------------------------------------------------------------------------
    logic out_valid_q, out_last_q, count_q;
    logic [63:0] out_q;
    logic [ 7:0] out_keep_q;
    logic [ 1:0] out_user_q;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        out_valid_q <= 1'b0;
        count_q     <= 1'b0;
      end else begin
        out_valid_q <= head_valid || from_valid;
        count_q     <= verdict && !opened;
      end
      if (head_valid) begin
        out_q      <= head_word;
        out_keep_q <= '1;
        out_last_q <= 1'b0;
        out_user_q <= '0;
      end
      if (from_valid) begin
        out_q      <= leaving_sealed_q ? plain : from.data;
        out_keep_q <= from.keep;
        out_last_q <= from.last;
        out_user_q <= {verdict && opened, from.bad || (verdict && !opened)};
      end
    end

    assign idle = idx_q == '0 && delay_valid_q == '0 && !out_valid_q && !plain_q;
    assign busy_o = !(idx_q == '0 && delay_valid_q == '0 && !out_valid_q) || plain_q ||
        enable_q != enable_i || busy_keys || busy_aes || hash_pending_q || hash_busy || count_q ||
        lengths_wait_q != '0;
    assign cnt_bad_seal_o = count_q;

    always_comb begin
      m_axis.tdata  = out_q;
      m_axis.tkeep  = out_keep_q;
      m_axis.tvalid = out_valid_q;
      m_axis.tlast  = out_last_q;
      m_axis.tuser  = out_user_q;
      if (!enable_q) begin
        m_axis.tdata  = s_axis.tdata;
        m_axis.tkeep  = s_axis.tkeep;
        m_axis.tvalid = s_axis.tvalid;
        m_axis.tlast  = s_axis.tlast;
        m_axis.tuser  = {1'b0, s_axis.tuser[0]};
      end
    end

    logic unused;
    assign unused = ^{key_index_i, key_entry_i, m_axis.tready, s_axis.tready, tag_at[16],
                      need_at[16], setup_valid};
  end
endmodule
