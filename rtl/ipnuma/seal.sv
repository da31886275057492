// SPDX-License-Identifier: Apache-2.0
// Seals frames of sealed sessions between the frame builder and the transmitter: gives each a packet
// number, puts the seal's header in front of its payload, encrypts it, puts the tag behind it.
//
// Four parts, each of which may have another frame than its neighbour. The first accepts a frame and
// asks AES for its key stream and the mask of its tag. The hash part prepares what the tag needs. The
// text part takes the builder's words, inserts the header, encrypts, and hands blocks to the hash.
// The output part starts the transmitter and puts the tag in.
//
// Output words are W0, W1, .. from the destination MAC; the header of the seal is in W5 and W6, and
// each builder's word from W6 on comes one word later than it would without. Block i of the text is
// in lanes 2 to 7 of W(4+2i), in W(5+2i), and in lanes 0 and 1 of W(6+2i).
//
// The tag of a text of m blocks is ((X ^ block m) H^2) ^ (lengths H) ^ mask, X being the hash before
// block m: only one product is left when the last block is known.
//
// Latency   : sealed: start_o 9 cycles after fb_start_i (58 ns at 10G, 72 ns at 1G), always, if no
//             frame is in the way; a payload byte comes another word later (the header), the end of
//             the frame 3 words later than without seal. Unsealed: none, wires, if no sealed frame is
//             inside; otherwise they wait for it.
// Clock     : clk_i (network).
// Handshake : start and ready_start as the transmitters have it, on both sides. fb_session_i and
//             fb_port_i hold with fb_start_i. Payloads have an even number of bytes, 10 or more.
//             At most two frames are inside.
// Drops     : frames of a session that has no key, or whose 2^48 packet numbers are used up: taken,
//             counted, not sent. A session goes on with a new key, from the first frame that is accepted
//             after it was written; none is, for some 30 cycles, until its hash key is made.
// Source    : docs/wire-format.md, sealed sessions; NIST SP 800-38D.
module seal
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
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic              fb_start_i,
  output logic              fb_ready_start_o,
  /// With fb_start_i: the frame is to be sealed.
  input  logic              fb_sealed_i,
  input  logic       [ 7:0] fb_session_i,
  /// Source port of the frame.
  input  logic       [15:0] fb_port_i,
         axis_if.snk        s_frames,
  output logic              start_o,
  input  logic              ready_start_i,
         axis_if.src        m_axis,
  input  logic              key_write_i,
  input  logic       [ 7:0] key_index_i,
  input  key_entry_t        key_entry_i,
  /// Pulse: a frame was dropped, because its session has no key or no number.
  output logic              cnt_no_key_o,
  output logic              busy_o
);
  if (!Auth) begin : gen_none
    assign fb_ready_start_o = ready_start_i;
    assign start_o          = fb_start_i;
    assign m_axis.tdata     = s_frames.tdata;
    assign m_axis.tkeep     = s_frames.tkeep;
    assign m_axis.tvalid    = s_frames.tvalid;
    assign m_axis.tlast     = s_frames.tlast;
    assign m_axis.tuser     = s_frames.tuser;
    assign s_frames.tready  = m_axis.tready;
    assign cnt_no_key_o     = 1'b0;
    assign busy_o           = 1'b0;

    logic unused;
    assign unused = ^{clk_i, rst_i, fb_sealed_i, fb_session_i, fb_port_i, key_write_i, key_index_i,
                      key_entry_i};
  end else begin : gen_auth
    localparam int unsigned LengthW = 12;  // bytes of a payload; one more bit is the sign
    localparam int unsigned InDepth = 8;
    localparam int unsigned StreamDepth = 8;
    localparam int unsigned CreditW = $clog2(StreamDepth + 1);
    localparam int unsigned OutDepth = 16;
    localparam logic [15:0] Added = 16'(SEAL_HEADER_BYTES + SEAL_TAG_BYTES);

    function automatic logic [15:0] be16(logic [15:0] bytes);
      return {bytes[7:0], bytes[15:8]};
    endfunction

    typedef enum logic [1:0] {
      Stream,  // key stream
      Mask,    // of the tag
      Setup    // hash key of a new key
    } use_e;

    typedef struct packed {
      use_e kind;
      logic first;  // first block of a frame
    } use_t;

    // ---- First part: number, key stream -----------------------------------------------------------
    logic accept, ready_sealed, free;
    logic head_q;  // a frame is here
    logic head_new_q;  // its first cycle
    logic head_drop, head_drop_q, head_drops, head_done;
    logic head_known_q, head_asked_q, head_hashed_q, head_text_q;
    logic head_length_q, head_sized;  // the length is known
    logic        head_words_q;  // words are still coming from the builder
    logic [15:0] head_port_q;
    logic [47:0] head_number, head_number_q;
    logic [IndexW-1:0] head_index_q;
    logic [LengthW-1:0] head_bytes, head_bytes_q;
    logic [2:0] word_q;  // number of the builder's word, up to 3
    logic word_in, words_end, has_length;

    logic [Sessions-1:0] known;
    block_t key, hash_key;
    logic [31:0] salt;
    logic phase, hash_phase_q, text_phase_q;
    logic [47:0] stored_number;
    logic setup_valid, setup_ready, setup_issue, setup_done, busy_keys;
    logic setup_busy_q;

    // ---- AES ----
    logic aes_valid, aes_done, aes_soon, busy_aes;
    block_t aes_block;
    use_t aes_use, aes_done_use, aes_soon_use;
    logic [4:0] recent_q;  // blocks that went in in the last cycles, the last in bit 0
    logic ask_stream, ask_mask, ask_more, ask_first, ask_free;
    logic [31:0] counter_q;
    logic [LengthW:0] ask_left_q, ask_left;  // bytes of text that no block was asked for
    logic [CreditW-1:0] credit_q;  // blocks asked for and not used

    // ---- Mask of the tag ----
    logic mask_pending_q, mask_valid_q;  // asked for; here
    block_t mask_q;

    // ---- Hash ----
    logic hash_take, hash_op, hash_first, hash_busy, hash_result;
    logic       hash_final_q;  // the last block is in; its tag not yet made
    logic [2:0] prepare_q;  // 0: nothing under way
    logic       hash_open_q;  // blocks may come
    block_t hash_block, hash_key_q, square_q, lengths_q, sum, operand, tag_add;
    logic [       47:0] hash_number_q;
    logic [LengthW-1:0] hash_bytes_q;
    logic text_block_q, text_block_last_q;
    block_t text_block;

    // ---- Tag ----
    logic tag_valid_q, tag_ready, tag_used;
    block_t tag_q, tag;

    // ---- Text ----
    logic in_wready, in_valid, in_last, in_pop;
    logic [63:0] in_word;
    logic step, begins, needs_in, needs_stream, is_block, even;
    logic text_active_q, text_begin;
    logic text_more;  // text follows lane 2 of this word
    logic [8:0] tag_word, last_word, in_words;
    logic [2:0] tag_lane;
    logic [63:0] made, block_odd_q;
    logic [47:0] block_tail_q;
    logic [16:0] grown;
    logic [15:0] ip_checksum;
    logic [8:0] index, index_q;  // of the output word that is made
    logic [       47:0] text_number_q;
    logic [LengthW-1:0] text_bytes_q;
    logic [LengthW:0] text_left_q, text_left;  // bytes of text behind this word's block boundary
    logic stream_valid, stream_stored, stream_pop;
    block_t stream_block, stream_head;
    logic [127:0] stream;
    logic [ 79:0] stream_rest_q;
    logic [ 47:0] in_tail_q;

    // ---- Output ----
    typedef struct packed {
      logic [63:0] data;
      logic        last;
      logic        tag;      // has bytes of the tag
      logic [1:0]  tag_idx;
      logic [1:0]  lane;     // half of the lane in which the tag begins
    } out_t;
    out_t out_new, out_head;
    logic out_wready, out_valid, out_pop;
    logic launch, launched, sending_q, sent, no_key_q;
    logic beat_last_q;
    // Frames that do not leave yet: their first block of key stream is there; their hash is ready.
    logic [1:0] streams_q, prepared_q;
    logic [191:0] tag_words;
    logic [ 63:0] beat_q;
    logic [  7:0] beat_keep_q;
    logic [  1:0] inside_q;  // sealed frames from accept to their last beat
    logic         plain_q;  // an unsealed frame is on its way

    // ==== Start ====
    assign free = inside_q == '0;
    assign ready_sealed = !head_q && inside_q != 2'd2 && !setup_valid && !setup_busy_q && !plain_q;
    assign fb_ready_start_o = fb_sealed_i ? ready_sealed : free && ready_start_i;
    assign accept = fb_start_i && fb_sealed_i && ready_sealed;
    assign start_o = launch || (free && fb_start_i && !fb_sealed_i);

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        inside_q <= '0;
        plain_q  <= 1'b0;
      end else begin
        inside_q <= inside_q + 2'(accept) - 2'(sent) - 2'(head_drops);
        if (free && fb_start_i && !fb_sealed_i && ready_start_i) plain_q <= 1'b1;
        else if (plain_q && s_frames.tvalid && s_frames.tready && s_frames.tlast) plain_q <= 1'b0;
      end
    end

    // ==== First part ====
    key_table #(
      .Keys(Sessions)
    ) u_keys (
      .clk_i,
      .rst_i,
      .key_write_i         (key_write_i && !key_entry_i.receive),
      .key_index_i         (key_index_i[IndexW-1:0]),
      .key_i               (key_entry_i.tx_key),
      .salt_i              (key_entry_i.tx_salt),
      .phase_i             (key_entry_i.phase),
      .forget_i            (1'b0),
      .known_o             (known),
      .look_i              (accept),
      .look_index_i        (fb_session_i[IndexW-1:0]),
      .key_o               (key),
      .salt_o              (salt),
      .phase_o             (phase),
      .hash_key_o          (hash_key),
      .number_look_i       (accept),
      .number_index_i      (fb_session_i[IndexW-1:0]),
      .number_o            (stored_number),
      .number_write_i      (head_new_q && !head_drop),
      .number_write_index_i(head_index_q),
      .number_i            (head_number),
      .setup_valid_o       (setup_valid),
      .setup_ready_i       (setup_ready),
      .setup_issue_o       (setup_issue),
      .setup_done_i        (setup_done),
      .setup_block_i       (aes_block),
      .busy_o              (busy_keys)
    );

    // While a hash key is made no sealed frame is accepted.
    assign setup_ready = !head_q && !recent_q[1] && !recent_q[3];

    assign head_number = head_new_q ? stored_number + 48'd1 : head_number_q;
    assign head_drop   = head_new_q ? !head_known_q || stored_number == '1 : head_drop_q;
    assign word_in     = head_words_q && s_frames.tvalid && (in_wready || head_drop);
    assign words_end   = word_in && s_frames.tlast;
    assign has_length  = word_in && word_q == 3'd2;
    // IP length less IP and UDP headers.
    assign head_bytes  = has_length ? LengthW'(be16(s_frames.tdata[15:0]) - 16'd28) : head_bytes_q;
    assign head_sized  = has_length || head_length_q;
    assign head_done   = head_asked_q && head_hashed_q && head_text_q && !head_words_q;
    assign head_drops  = head_q && head_drop && words_end;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        head_q       <= 1'b0;
        head_new_q   <= 1'b0;
        head_words_q <= 1'b0;
        setup_busy_q <= 1'b0;
      end else begin
        head_new_q <= accept;
        if (accept) begin
          head_q       <= 1'b1;
          head_words_q <= 1'b1;
        end else begin
          if (words_end) head_words_q <= 1'b0;
          if (head_drop ? words_end : head_done) head_q <= 1'b0;
        end
        if (setup_valid && setup_ready) setup_busy_q <= 1'b1;
        else if (setup_done) setup_busy_q <= 1'b0;
      end
      if (accept) begin
        head_port_q   <= fb_port_i;
        head_index_q  <= fb_session_i[IndexW-1:0];
        head_known_q  <= known[fb_session_i[IndexW-1:0]] && 32'(fb_session_i) < Sessions;
        head_length_q <= 1'b0;
        head_asked_q  <= 1'b0;
        head_hashed_q <= 1'b0;
        head_text_q   <= 1'b0;
        word_q        <= '0;
      end
      if (head_new_q) begin
        head_number_q <= head_number;
        head_drop_q   <= head_drop;
      end
      if (word_in && word_q != 3'd3) word_q <= word_q + 1'b1;
      if (has_length) begin
        head_length_q <= 1'b1;
        head_bytes_q  <= head_bytes;
      end
      if (ask_mask) head_asked_q <= 1'b1;
      if (hash_take) head_hashed_q <= 1'b1;
      if (text_begin) head_text_q <= 1'b1;
    end

    // ==== AES ====
    // Blocks on their way have all gone in an even number of cycles apart, so that none finds the
    // first stage taken by one that is there the second time.
    assign ask_first = head_new_q || counter_q == 32'd2;
    assign ask_left = has_length ?
        (LengthW + 1)'(head_bytes) - (counter_q == 32'd2 ? '0 : (LengthW + 1)'(16)) : ask_left_q;
    assign ask_more = !ask_left[LengthW] && ask_left != '0;
    assign ask_free = head_q && !head_drop && !head_asked_q &&
        !recent_q[0] && !recent_q[2] && !recent_q[4];
    assign ask_stream = ask_free && (ask_first || (head_sized && ask_more)) &&
        credit_q != CreditW'(StreamDepth);
    assign ask_mask = ask_free && !ask_first && head_sized && !ask_more &&
        !mask_pending_q && !mask_valid_q;
    assign aes_valid = setup_issue || ask_stream || ask_mask;
    assign aes_use = '{kind: setup_issue ? Setup : ask_mask ? Mask : Stream, first: ask_first};

    aes_pipe #(
      .user_t(use_t)
    ) u_aes (
      .clk_i,
      .rst_i,
      .valid_i(aes_valid),
      .ready_o(),
      .key_i(key),
      .block_i(setup_issue ? '0 : counter_block(
          {salt, head_number, head_port_q}, ask_mask ? 32'd1 : head_new_q ? 32'd2 : counter_q
      )),
      .user_i(aes_use),
      .soon_o(aes_soon),
      .soon_user_o(aes_soon_use),
      .done_o(aes_done),
      .block_o(aes_block),
      .user_o(aes_done_use),
      .busy_o(busy_aes)
    );
    assign setup_done = aes_done && aes_done_use.kind == Setup;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        recent_q       <= '0;
        credit_q       <= '0;
        mask_pending_q <= 1'b0;
        mask_valid_q   <= 1'b0;
      end else begin
        recent_q <= {recent_q[3:0], aes_valid};
        credit_q <= credit_q + CreditW'(ask_stream) - CreditW'(stream_pop);
        if (ask_mask) mask_pending_q <= 1'b1;
        else if (aes_done && aes_done_use.kind == Mask) mask_pending_q <= 1'b0;
        if (aes_done && aes_done_use.kind == Mask) mask_valid_q <= 1'b1;
        else if (hash_result) mask_valid_q <= 1'b0;
      end
      if (head_new_q) counter_q <= ask_stream ? 32'd3 : 32'd2;
      else if (ask_stream) counter_q <= counter_q + 1'b1;
      if (has_length || (head_length_q && ask_stream)) begin
        ask_left_q <= ask_left - (ask_stream ? (LengthW + 1)'(16) : '0);
      end
      if (aes_done && aes_done_use.kind == Mask) mask_q <= aes_block;
    end

    // ==== Hash ====
    // Before the text: H H, lengths H, additional data H, each in two cycles.
    assign hash_take = head_q && !head_drop && head_length_q && !head_hashed_q && !head_new_q &&
        prepare_q == '0 && !hash_open_q && !text_block_q && !hash_final_q;

    always_comb begin
      hash_first = 1'b1;
      operand    = hash_key_q;
      unique case (prepare_q)
        3'd1: hash_block = hash_key_q;
        3'd3: hash_block = length_block(16'(SEAL_HEADER_BYTES), 16'(hash_bytes_q));
        3'd5: hash_block = {SEAL_MAGIC, 7'd0, hash_phase_q, hash_number_q, 64'd0};
        default: begin
          hash_first = 1'b0;
          hash_block = text_block;
          if (text_block_last_q) operand = square_q;
        end
      endcase
    end
    assign hash_op = prepare_q[0] || text_block_q;

    ghash u_ghash (
      .clk_i,
      .rst_i,
      .valid_i(hash_op),
      .first_i(hash_first),
      .block_i(hash_block),
      .key_i  (operand),
      .sum_o  (sum),
      .busy_o (hash_busy)
    );

    assign hash_result = hash_final_q && !hash_busy && mask_valid_q && !tag_valid_q;
    assign tag_add     = lengths_q ^ mask_q;
    assign tag_ready   = tag_valid_q || hash_result;
    assign tag         = tag_valid_q ? tag_q : sum ^ tag_add;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        prepare_q    <= '0;
        hash_open_q  <= 1'b0;
        hash_final_q <= 1'b0;
        text_block_q <= 1'b0;
        tag_valid_q  <= 1'b0;
      end else begin
        if (hash_take) prepare_q <= 3'd1;
        else if (prepare_q == 3'd6) prepare_q <= '0;
        else if (prepare_q != '0) prepare_q <= prepare_q + 1'b1;

        text_block_q <= step && is_block;
        if (prepare_q == 3'd6) hash_open_q <= 1'b1;
        else if (step && is_block && !text_more) hash_open_q <= 1'b0;

        if (text_block_q && text_block_last_q) hash_final_q <= 1'b1;
        else if (hash_result) hash_final_q <= 1'b0;

        if (hash_result && !tag_used) tag_valid_q <= 1'b1;
        else if (tag_used) tag_valid_q <= 1'b0;
      end
      if (hash_take) begin
        hash_key_q    <= hash_key;
        hash_phase_q  <= phase;
        hash_number_q <= head_number_q;
        hash_bytes_q  <= head_bytes_q;
      end
      if (prepare_q == 3'd3) square_q <= sum;
      if (prepare_q == 3'd5) lengths_q <= sum;
      if (hash_result) tag_q <= sum ^ tag_add;
    end

    // ==== Text ====
    sync_fifo #(
      .data_t(logic [64:0]),
      .Depth (InDepth)
    ) u_in (
      .clk_i,
      .rst_i,
      .wdata_i ({s_frames.tlast, s_frames.tdata}),
      .wvalid_i(word_in && !head_drop),
      .wready_o(in_wready),
      .rdata_o ({in_last, in_word}),
      .rvalid_o(in_valid),
      .rready_i(in_pop),
      .count_o ()
    );

    sync_fifo #(
      .data_t(block_t),
      .Depth (StreamDepth)
    ) u_stream (
      .clk_i,
      .rst_i,
      .wdata_i (aes_block),
      .wvalid_i(aes_done && aes_done_use.kind == Stream && !(stream_pop && !stream_stored)),
      .wready_o(),
      .rdata_o (stream_head),
      .rvalid_o(stream_stored),
      .rready_i(stream_pop && stream_stored),
      .count_o ()
    );
    assign stream_valid = stream_stored || (aes_done && aes_done_use.kind == Stream);
    assign stream_block = stream_stored ? stream_head : aes_block;

    assign index = text_active_q ? index_q : '0;
    assign text_begin = step && !text_active_q;
    assign even = !index[0] && index >= 9'd6;
    assign text_left = index == 9'd6 ? (LengthW + 1)'(text_bytes_q) : text_left_q;
    assign text_more = !text_left[LengthW] && text_left != '0;

    // Where the parts begin, from the bytes of the payload.
    assign tag_word = 9'((13'(text_bytes_q) + 13'd50) >> 3);
    assign tag_lane = 3'(text_bytes_q + LengthW'(2));
    assign last_word = 9'((13'(text_bytes_q) + 13'd65) >> 3);
    assign in_words = 9'((13'(text_bytes_q) + 13'd49) >> 3);  // last with bytes of the builder

    // W6 is made of what W5 left behind.
    assign needs_in = index <= 9'd5 || (index != 9'd6 && index <= in_words);
    assign needs_stream = even && text_more;
    // The block before lane 2 of this word, if that has text.
    assign is_block = even && index != 9'd6 && $signed(text_left) > -$signed((LengthW + 1)'(16));

    assign begins = in_valid && head_q && !head_drop && !head_new_q && !head_text_q;
    assign step = (text_active_q || begins) && out_wready && (!needs_in || in_valid) &&
        (!needs_stream || stream_valid) && (!is_block || hash_open_q);
    assign in_pop = step && needs_in;
    assign stream_pop = step && needs_stream;

    // One's complement: the header's sum grows as its length does.
    assign grown = 17'(16'(~be16(in_word[15:0]))) + 17'(Added);
    assign ip_checksum = ~(grown[15:0] + 16'(grown[16]));

    always_comb begin
      stream = '0;
      made   = '0;
      if (text_active_q || in_valid) begin
        if (needs_stream) stream = swap(stream_block);
        made = needs_in ? in_word : '0;
        unique case (index)
          9'd0, 9'd1: ;
          9'd2: made[15:0] = be16(be16(in_word[15:0]) + Added);
          9'd3: made[15:0] = be16(ip_checksum);
          9'd4: made[63:48] = be16(be16(in_word[63:48]) + Added);
          9'd5: begin
            made[63:16] = {
              text_number_q[23:16],
              text_number_q[31:24],
              text_number_q[39:32],
              text_number_q[47:40],
              7'd0,
              text_phase_q,
              SEAL_MAGIC
            };
          end
          9'd6: made = {in_tail_q ^ stream[47:0], text_number_q[7:0], text_number_q[15:8]};
          default: begin
            made ^= index[0] ? stream_rest_q[63:0] : {stream[47:0], stream_rest_q[15:0]};
            for (int unsigned i = 0; i < 8; i++) begin
              if (index > tag_word || (index == tag_word && 3'(i) >= tag_lane)) made[8*i+:8] = '0;
            end
          end
        endcase
      end
    end

    always_ff @(posedge clk_i) begin
      if (rst_i) text_active_q <= 1'b0;
      else if (step) text_active_q <= index <= 9'd2 || index != last_word;
      if (step) begin
        index_q <= index + 1'b1;
        if (index == '0) begin
          text_phase_q  <= phase;
          text_number_q <= head_number_q;
        end
        if (index == 9'd2) text_bytes_q <= LengthW'(be16(in_word[15:0]) - 16'd28);
        if (index == 9'd5) in_tail_q <= in_word[63:16];
        if (even) text_left_q <= text_left - (LengthW + 1)'(16);
        stream_rest_q <= index[0] ? {64'd0, stream_rest_q[79:64]} : stream[127:48];
        if (even) block_tail_q <= made[63:16];
        if (index[0]) block_odd_q <= made;
        text_block_last_q <= !text_more;
        text_block        <= swap({made[15:0], block_odd_q, block_tail_q});
      end
    end

    // ==== Output ====
    assign out_new = '{
            data: made,
            last: index > 9'd2 && index == last_word,
            tag: index > 9'd6 && index >= tag_word,
            tag_idx: 2'(index - tag_word),
            lane: tag_lane[2:1]
        };

    sync_fifo #(
      .data_t(out_t),
      .Depth (OutDepth)
    ) u_out (
      .clk_i,
      .rst_i,
      .wdata_i (out_new),
      .wvalid_i(step),
      .wready_o(out_wready),
      .rdata_o (out_head),
      .rvalid_o(out_valid),
      .rready_i(out_pop),
      .count_o ()
    );

    // The first block of the key stream comes in the next cycle; the hash is ready when the first
    // block of text needs it.
    assign launch = (streams_q != '0 ||
        (aes_soon && aes_soon_use.kind == Stream && aes_soon_use.first)) && prepared_q != '0 &&
        !sending_q;
    assign launched = launch && ready_start_i;
    assign sent = sending_q && m_axis.tready && beat_last_q;
    assign out_pop = launched || (sending_q && m_axis.tready && !beat_last_q);
    assign tag_used = out_pop && out_head.tag && out_head.last;

    // The tag over three words, from its lane in the first.
    always_comb begin
      tag_words = '0;
      if (out_pop && out_head.tag) tag_words = 192'(swap(tag)) << {out_head.lane, 4'd0};
    end

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        streams_q  <= '0;
        prepared_q <= '0;
        sending_q  <= 1'b0;
      end else begin
        streams_q <= streams_q - 2'(launched) +
            2'(aes_soon && aes_soon_use.kind == Stream && aes_soon_use.first);
        prepared_q <= prepared_q - 2'(launched) + 2'(prepare_q == 3'd3);
        if (launched) sending_q <= 1'b1;
        else if (sent) sending_q <= 1'b0;
      end
      if (out_pop) begin
        beat_q <= out_head.data;
        for (int unsigned i = 0; i < 3; i++) begin
          if (out_head.tag && out_head.tag_idx == 2'(i)) begin
            beat_q <= out_head.data | tag_words[64*i+:64];
          end
        end
        beat_last_q <= out_head.last;
        // The tag begins and ends in the same lane.
        for (int unsigned i = 0; i < 8; i++) begin
          beat_keep_q[i] <= !out_head.last || out_head.lane == '0 || 3'(i) < {out_head.lane, 1'b0};
        end
      end
    end

    always_comb begin
      m_axis.tdata  = beat_q;
      m_axis.tkeep  = beat_keep_q;
      m_axis.tvalid = sending_q;
      m_axis.tlast  = beat_last_q;
      m_axis.tuser  = '0;
      if (plain_q) begin
        m_axis.tdata  = s_frames.tdata;
        m_axis.tkeep  = s_frames.tkeep;
        m_axis.tvalid = s_frames.tvalid;
        m_axis.tlast  = s_frames.tlast;
        m_axis.tuser  = s_frames.tuser;
      end
    end
    assign s_frames.tready = plain_q ? m_axis.tready : head_words_q && (in_wready || head_drop);

    always_ff @(posedge clk_i) begin
      if (rst_i) no_key_q <= 1'b0;
      else no_key_q <= head_drops;
    end
    assign cnt_no_key_o = no_key_q;
    assign busy_o       = !free || plain_q || busy_keys || busy_aes || no_key_q;

    logic unused;
    assign unused = ^{key_index_i, key_entry_i, in_last, out_valid, aes_done_use.first};

`ifndef SYNTHESIS
    always_ff @(posedge clk_i) begin
      if (!rst_i) begin
        a_word :
        assert (!out_pop || out_valid)
        else $error("seal: a word was not ready in time");
        a_tag :
        assert (!out_pop || !out_head.tag || tag_ready)
        else $error("seal: a tag was not ready in time");
        a_inside :
        assert (inside_q != 2'd3)
        else $error("seal: more than two frames inside");
        a_even :
        assert (!has_length || (!head_bytes[0] && head_bytes >= LengthW'(10)))
        else $error("seal: a payload of an odd length, or less than 10 bytes");
        a_end :
        assert (!step || !needs_in || index <= 9'd6 || in_last == (index == in_words))
        else $error("seal: a frame is not as long as its header says");
      end
    end
`endif
  end
endmodule
