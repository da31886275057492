// SPDX-License-Identifier: Apache-2.0
// From the words of a frame to the acceptance of its operation: nothing is accepted outside its region's
// bounds, across 4 KB, without the right, from another source, with a key that has no valid entry, outside
// of a session or not sealed where the region asks for it, or without a verdict; and the local address and
// length are those that were checked. What the session says of the frame's number is free here, and belongs
// to order_proof; that the frame and that proof speak of the same session and number is shown here.
//
// The stream, its gaps, cuts and verdicts, the table's writes and resets are free; frames that the MAC
// calls good have 64 bytes or more. The proof reads the frame and keeps one arbitrary table entry on its
// own, and compares. Registers of the design are tied to that reading by induction.
//
// Clock  : clk_i.
// Source : docs/wire-format.md.
module region_proof
  import ipnuma_pkg::*;
  import rx_pkg::*;
  import wire_pkg::*;
#(
  localparam int unsigned Regions = 2
) (
  input logic                  clk_i,
  input logic                  rst_i,
  input logic           [63:0] tdata_i,
  input logic           [ 7:0] tkeep_i,
  input logic                  tvalid_i,
  input logic                  tlast_i,
  input logic           [ 1:0] tuser_i,
  input logic           [47:0] mac_i,
  input logic           [31:0] ip_i,
  input logic                  slot_i,
  input logic                  cfg_write_i,
  input logic                  cfg_index_i,
  input region_entry_t         cfg_entry_i,
  input logic                  cfg_read_i,
  input logic                  session_write_i,
  input logic                  session_index_i,
  input session_entry_t        session_entry_i,
  input logic                  session_read_i,
  input logic                  dst_read_i,
  // The end code may be right with another tag: no matter here.
  input logic                  end_but_tag_i,
  input order_e                order_i,
  input logic           [15:0] fold_i,
  input logic                  held_i,
  input refusal_t              refusal_i
);
  // ---- The design, wired as in server.sv -------------------------------------------------------
  axis_if #(
    .DataW(64),
    .UserW(2)
  ) frames ();
  assign frames.tdata  = tdata_i;
  assign frames.tkeep  = tkeep_i;
  assign frames.tvalid = tvalid_i;
  assign frames.tlast  = tlast_i;
  assign frames.tuser  = tuser_i;
  assign frames.tready = 1'b1;

  logic lookup, check, first, last, good, end_ok, commit, count, hold;
  logic           [15:0] lookup_key;
  region_op_t            check_op;
  logic           [11:0] region_tag;
  region_result_t        region;
  verdict_e headers, verdict;
  rx_head_t      op;
  error_report_t report;
  rx_op_t        commit_op;

  logic session_look, session_ok, session_sealed, unsealed, judge;
  logic [15:0] session_port, judge_number;
  logic [31:0] session_ip;
  logic [ 7:0] judge_session;

  session_table #(
    .Sessions(2)
  ) u_sessions (
    .cfg_write_i      (session_write_i),
    .cfg_index_i      (session_index_i),
    .cfg_entry_i      (session_entry_i),
    .cfg_read_i       (session_read_i),
    .cfg_entry_o      (),
    .cfg_read_done_o  (),
    .look_i           (session_look),
    .look_port_i      (session_port),
    .look_ip_i        (session_ip),
    .ok_o             (session_ok),
    .sealed_o         (session_sealed),
    .epoch_o          (session_epoch),
    .dst_session_i    ('0),
    .dst_done_o       (),
    .dst_mac_o        (),
    .dst_ip_o         (),
    .tx_session_i     ('0),
    .tx_port_o        (),
    .valid_o          (),
    .sealed_sessions_o(),
    .reset_o          (),
    .reset_index_o    (),
    .reset_start_o    (),
    .busy_o           (),
    .*
  );

  frame_parser u_parser (
    .s_frames        (frames),
    .session_look_o  (session_look),
    .session_port_o  (session_port),
    .session_ip_o    (session_ip),
    .session_sealed_i(session_sealed),
    .judge_o         (judge),
    .judge_session_o (judge_session),
    .judge_number_o  (judge_number),
    .unsealed_o      (unsealed),
    .lookup_o        (lookup),
    .lookup_key_o    (lookup_key),
    .check_o         (check),
    .check_op_o      (check_op),
    .tag_i           (region_tag),
    .first_o         (first),
    .pair_valid_o    (),
    .pair_idx_o      (),
    .pair_o          (),
    .claim_o         (),
    .last_o          (last),
    .good_o          (good),
    .verdict_o       (headers),
    .end_ok_o        (end_ok),
    .end_but_tag_o   (),
    .op_o            (op),
    .report_o        (report),
    .busy_o          (),
    .*
  );

  shared_region #(
    .Regions(Regions)
  ) u_region (
    .cfg_entry_o    (),
    .cfg_read_done_o(),
    .cfg_hold_o     (hold),
    .clear_i        (first),
    .lookup_i       (lookup),
    .lookup_key_i   (lookup_key),
    .check_i        (check),
    .check_op_i     (check_op),
    .end_i          (last),
    .tag_o          (region_tag),
    .result_o       (region),
    .busy_o         (),
    .*
  );

  rx_verdict u_verdict (
    .last_i          (last && good),
    .headers_i       (headers),
    .end_ok_i        (end_ok),
    .end_but_tag_i,
    .op_i            (op),
    .report_i        (report),
    .region_i        (region),
    .session_ok_i    (session_ok),
    .session_sealed_i(session_sealed),
    .session_epoch_i (session_epoch),
    .unsealed_i      (unsealed),
    .reset_i         (session_write_i),
    .reset_index_i   (8'(session_index_i)),
    .refuse_o        (),
    .refuse_as_o     (),
    .session_o       (),
    .number_o        (),
    .taken_o         (),
    .again_o         (),
    .gap_o           (),
    .ack_valid_o     (),
    .ack_o           (),
    .refused_valid_o (),
    .refused_o       (),
    .commit_o        (commit),
    .commit_op_o     (commit_op),
    .deny_valid_o    (),
    .deny_o          (),
    .report_valid_o  (),
    .report_o        (),
    .count_o         (count),
    .verdict_o       (verdict),
    .*
  );

  // ---- Arbitrary, constant ---------------------------------------------------------------------
  logic       entry_q;  // the table entry that is followed
  logic [7:0] byte_q;  // a byte of the operation
  always_ff @(posedge clk_i) begin
    entry_q <= entry_q;
    byte_q  <= byte_q;
  end

  // ---- The frame, read a second time -----------------------------------------------------------
  logic [3:0]       n_q;  // words so far, 15: many
  logic [8:3][63:0] w_q;
  logic             begun_q;
  initial begun_q = 1'b0;

  // A frame is judged in the cycle behind its last word, when the next one's first may be here.
  logic       ended_q;
  logic [1:0] user_q;
  logic [3:0]
      had_q, words;  // words of the frame that ended; of the frame that the registers are of

  always_ff @(posedge clk_i) begin
    begun_q <= 1'b1;
    if (tvalid_i) begin
      for (int unsigned i = 3; i < 9; i++) if (n_q == 4'(i)) w_q[i] <= tdata_i;
    end
    if (rst_i) n_q <= '0;
    else if (tvalid_i) n_q <= tlast_i ? '0 : n_q == '1 ? n_q : n_q + 1'b1;
    ended_q <= !rst_i && tvalid_i && tlast_i;
    if (tvalid_i && tlast_i) begin
      user_q <= tuser_i;
      had_q  <= n_q == '1 ? n_q : n_q + 1'b1;
    end
  end
  assign words = ended_q ? had_q : n_q;

  // Byte of the frame, 24 to 71.
  function automatic logic [7:0] at(logic [8:3][63:0] w, int unsigned i);
    return w[i/8][8*(i%8)+:8];
  endfunction

  logic compact, control, is_error, is_load, in_session;
  logic [15:0] udp_length, key;
  logic [31:0] src, offset;
  logic [16:0] data;
  logic [9:0] tlp_length, length;

  assign src        = {at(w_q, 26), at(w_q, 27), at(w_q, 28), at(w_q, 29)};
  assign udp_length = {at(w_q, 38), at(w_q, 39)};
  assign in_session = at(w_q, 34) ==? 8'b11??_????;
  assign compact    = at(w_q, 42) ==? 8'b1100_????;
  assign control    = compact && at(w_q, 42) ==? 8'b????_?1??;
  assign is_error   = !compact && at(w_q, 44) ==? 8'b0001_????;
  assign data       = {1'b0, udp_length} - (compact ? (w_q[5][19] ? 17'd20 : 17'd18) : 17'd36);
  assign tlp_length = {at(w_q, 52) [1:0], at(w_q, 53)};
  assign length     = compact ? data[11:2] : tlp_length;
  assign is_load    = !compact && at(w_q, 50) == 8'h20;

  always_comb begin
    if (compact) begin
      key    = {4'd0, at(w_q, 45), at(w_q, 46) [7:4]};
      offset = {4'd0, at(w_q, 46) [3:0], at(w_q, 47), at(w_q, 48), at(w_q, 49) & 8'hFC};
    end else begin
      key    = {at(w_q, 60), at(w_q, 61)};
      offset = {at(w_q, 62), at(w_q, 63), at(w_q, 64), at(w_q, 65)};
    end
  end

  // ---- The entry, and what it was when the key was looked up -----------------------------------
  region_entry_t shadow_q, snap_q;
  logic looked_up;
  logic touched_q;  // it was written during the frame, against the table's wish
  initial shadow_q = '0;

  assign looked_up = tvalid_i && ((n_q == 4'd5 && tdata_i[23:20] == 4'hC && !tdata_i[18]) ||
                                  (n_q == 4'd7 && !compact));

  always_ff @(posedge clk_i) begin
    if (cfg_write_i && cfg_index_i == entry_q) shadow_q <= cfg_entry_i;
    if (rst_i) shadow_q.valid <= 1'b0;
    if (looked_up) snap_q <= shadow_q;
    touched_q <= !rst_i && !ended_q &&
        (touched_q || (hold && cfg_write_i && cfg_index_i == entry_q));
  end

  // ---- What is permitted -----------------------------------------------------------------------
  logic in_table, followed, source_ok, rights_ok, byte_ok;
  logic [32:0] where;
  logic [63:0] address;

  assign in_table = key < 16'(Regions);
  assign followed = in_table && key[0] == entry_q;
  assign source_ok = (src & snap_q.mask) == (snap_q.ip & snap_q.mask) &&
      (!snap_q.bound || (in_session && at(
      w_q, 35
  ) == snap_q.number));
  assign rights_ok = (is_load ? snap_q.read : snap_q.write) &&
      (!snap_q.session || in_session) && (!snap_q.sealed || (in_session && session_sealed));
  assign where = {1'b0, offset} + 33'(byte_q);
  assign byte_ok   = where >= {1'b0, snap_q.first[31:2], 2'b00} &&
                     where <= {1'b0, snap_q.last[31:2], 2'b11} &&
                     where[32:12] == {1'b0, offset[31:12]};
  assign address = {snap_q.base[63:12], 12'd0} + 64'(offset);

  // What is looked up and judged is what the frame says.
  logic [15:0] number;
  assign number = compact ? {at(w_q, 43), at(w_q, 44)} : {at(w_q, 46), at(w_q, 47)};

  logic in_data, checked, waiting, is_request_commit;
  assign in_data           = {2'd0, byte_q} < {length[7:0], 2'b00};
  assign checked           = !control && words >= (compact ? 4'd7 : 4'd9);
  assign waiting           = !control && n_q == (compact ? 4'd6 : 4'd8);
  assign is_request_commit = commit && commit_op.kind != RX_COMPLETION;

  // ---- Environment -----------------------------------------------------------------------------
  always_comb begin
    if (!begun_q) m_reset : assume (rst_i);
    if (tvalid_i && tlast_i && !tuser_i[0]) m_long : assume (n_q >= 4'd7);
  end

  // ---- Promises --------------------------------------------------------------------------------
  logic commit_q;
  always_ff @(posedge clk_i) commit_q <= begun_q && !rst_i && commit;

  always_comb begin
    if (begun_q && !rst_i) begin
      if (commit) begin
        a_good_frame : assert (ended_q && !user_q[0] && slot_i && end_ok);
      end
      if (is_request_commit) begin
        a_in_table : assert (in_table);
        a_not_control : assert (!control);
        a_of_session : assert (commit_op.session.valid == in_session);
        if (in_session) begin
          a_in_order : assert (session_ok && order_i == InOrder);
          a_opened : assert (session_sealed == user_q[1]);
          a_same_session : assert (commit_op.session.index == at(w_q, 35));
          a_same_number : assert (op.sequence_number == number);
        end
        a_kind : assert ((commit_op.kind == RX_LOAD) == is_load);
        a_length : assert (commit_op.length == length && length != '0 && length <= 10'd64);
        a_data : assert (is_load || commit_op.data_dw == length[6:0]);
        if (followed) begin
          a_entry : assert (snap_q.valid);
          a_source : assert (source_ok);
          a_rights : assert (is_load ? snap_q.read : snap_q.write);
          a_session : assert (!snap_q.session || in_session);
          a_sealed : assert (!snap_q.sealed || (in_session && user_q[1]));
          a_address : assert (commit_op.address == address);
          // An entry that was written while the table let it holds for all that comes behind it.
          if (!touched_q) a_fence : assert (snap_q == shadow_q);
          if (in_data) a_bounds : assert (byte_ok);
        end
      end
      if (session_look) begin
        a_look : assert (n_q == 4'd4 && session_port == {tdata_i[23:16], tdata_i[31:24]});
        a_look_ip : assert (session_ip == src);
      end
      if (judge) begin
        a_judge : assert (n_q == 4'd5 && in_session && judge_session == at(w_q, 35));
        a_judge_number :
        assert (judge_number == (tdata_i[23:20] == 4'hC ?
            {tdata_i[31:24], tdata_i[39:32]} : {tdata_i[55:48], tdata_i[63:56]}));
      end
      if (commit_q) begin
        a_counted : assert (count && verdict inside {Store, Load, Completion});
      end
    end
  end

  // ---- Ties between the design's registers and the second reading ------------------------------
  always_comb begin
    i_table :
    assert (u_region.u_table.mem_q[entry_q] == shadow_entry(
        shadow_q, u_region.u_table.mem_q[entry_q]
    ));
    if (begun_q) begin
      i_count : assert (n_q == '1 ? u_parser.idx_q >= 14'd15 : u_parser.idx_q == 14'(n_q));
      i_ended : assert (u_parser.last_q == ended_q);
      if (ended_q) i_begins : assert (n_q == '0);
      if (ended_q) i_user : assert ({u_parser.unsealed_q, !u_parser.good_q} == user_q);
      // Lines 1 to 9, as they were when the last word was held.
      if (ended_q && !user_q[0]) i_long : assert (had_q >= 4'd8);
      if (ended_q && !user_q[0] && headers == Open && !control && !is_error && (compact || at(
              w_q, 50
          ) inside {8'h20, 8'h60})) begin
        i_length : assert (length != '0 && length <= 10'd64);
        // A shorter one would not have its FCS: nothing was judged before it was here.
        i_whole : assert (compact || had_q >= 4'd10);
        i_aligned : assert (offset[1:0] == '0);
        i_carried : assert (data == (is_load ? 17'd0 : {5'd0, length, 2'b00}));
      end
      if (words >= 4'd4) i_src : assert (u_parser.src_ip_q == src);
      if (words >= 4'd5) begin
        i_udp : assert (u_parser.udp_length_q == udp_length);
        i_session : assert (u_parser.session_q == {in_session, in_session ? at(w_q, 35) : 8'd0});
      end
      if (words >= 4'd6) begin
        i_format : assert (u_parser.compact_q == compact && u_parser.is_error_q == is_error);
        i_control : assert (u_parser.control_q == control && u_parser.sequence_q == number);
        i_data : assert (u_parser.data_q == data);
        i_need : assert (17'(u_parser.need_idx_q) == ({1'b0, udp_length} + 17'd37) >> 3);
        i_key : assert (u_parser.c_key_q == {at(w_q, 45), at(w_q, 46) [7:4]});
        i_high : assert (u_parser.c_offset_q[27:16] == {at(w_q, 46) [3:0], at(w_q, 47)});
      end
      if (words >= 4'd7) begin
        i_low : assert (u_parser.c_offset_q[15:0] == {at(w_q, 48), at(w_q, 49) & 8'hFC});
        i_head6 : assert (u_parser.head_q[47:0] == w_q[6][63:16]);
      end
      if (words >= 4'd8) i_head7 : assert (u_parser.head_q[111:48] == w_q[7]);
      if (words >= 4'd9) i_head8 : assert (u_parser.head_q[127:112] == w_q[8][15:0]);

      i_valid : assert (u_region.valid_q[entry_q] == shadow_q.valid);
      i_hold : assert (hold == (n_q != '0 || ended_q));
      if ((waiting || checked) && !touched_q) i_same : assert (snap_q == shadow_q);
      if (waiting) begin
        i_looking : assert (u_region.looking_q);
        if (!in_table) i_none : assert (!u_region.exists_q);
        if (followed) begin
          i_exists : assert (u_region.exists_q == snap_q.valid);
          i_entry : assert (u_region.entry == shadow_entry(snap_q, u_region.entry));
        end
      end
      // The session's answer is there before a region is asked, and stays.
      if (u_sessions.looking_q) i_answer : assert (n_q == 4'd5 || n_q == '0);
      if (words != '0 && !checked) i_nothing : assert (region == '0);
      if (checked) begin
        if (!in_table) i_no_key : assert (!region.key_ok);
        if (followed) begin
          i_key_ok : assert (region.key_ok == snap_q.valid);
          i_source_ok : assert (region.source_ok == source_ok);
          i_rights_ok : assert (region.rights_ok == rights_ok || is_error);
          i_address : assert (region.address == address);
          if (region.bounds_ok && in_data && length <= 10'd64 && offset[1:0] == '0)
            i_bounds_ok : assert (byte_ok);
        end
      end
    end
  end

  // The design keeps the valid bit apart: a reset clears it, not the RAM's.
  function automatic region_entry_t shadow_entry(region_entry_t entry, region_entry_t ram);
    shadow_entry       = entry;
    shadow_entry.valid = ram.valid;
  endfunction
endmodule
