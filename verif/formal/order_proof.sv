// SPDX-License-Identifier: Apache-2.0
// A number of a session is applied at most once and in order: what is taken in a session is the frame that its
// sender numbered with the count of those taken since the session began; it comes from the session's peer, with
// its epoch, and its session was not begun anew since the frame's ports were seen. And no acknowledgement says
// more than was taken. And a store that was refused as the frame that is expected, whatever else was, is not
// applied as that frame: its sender may have been told.
//
// Frames are free: ports, addresses, kinds, numbers, how far they get, in any order and as often as one likes;
// so are the region's word, the table's writes, and who takes acknowledgements along. Each frame has a number of
// 32 bits, of which 16 are on the wire; that the end code is only right if its upper half is what the receiver
// took it for, is the CRC's part and assumed. One session of two is followed, with a second reading of it.
// Macros put one mistake into the wiring: prove_order_mutant must find a frame that shows it.
// region_proof shows that parser and verdict speak of the same session and number.
//
// Clock  : clk_i.
// Source : docs/wire-format.md.
module order_proof
  import ipnuma_pkg::*;
  import rx_pkg::*;
  import wire_pkg::*;
(
  input logic                  clk_i,
  input logic                  rst_i,
  // Steps of a frame: port seen, number seen, end; or it is given up.
  input logic                  look_i,
  input logic           [15:0] port_i,
  input logic           [31:0] ip_i,
  input logic                  judge_i,
  input logic           [31:0] number_i,
  input logic                  last_i,
  input logic                  drop_i,
  input verdict_e              headers_i,
  input logic                  end_ok_i,
  input logic                  end_but_tag_i,
  input rx_head_t              op_i,
  input error_report_t         report_i,
  input region_result_t        region_i,
  input logic                  slot_i,
  input logic                  unsealed_i,
  input logic                  cfg_write_i,
  input logic                  cfg_index_i,
  input session_entry_t        cfg_entry_i,
  input logic                  cfg_read_i,
  input logic           [ 7:0] ack_ticks_i,
  input logic           [ 7:0] ack_every_i,
  input logic                  ride_session_i,
  input logic                  ride_taken_i,
  input logic                  ctl_lock_i
);
`ifdef MUTANT_FOLD
  localparam bit Folded = 1'b0;
`else
  localparam bit Folded = 1'b1;
`endif

  // A store or load by where it goes.
  typedef struct packed {
    logic        is_load;
    logic [15:0] key;
    logic [31:0] offset;
  } operation_t;

  // ---- The design, wired as in server.sv -------------------------------------------------------
  logic session_ok, session_sealed, reset, held, taken, again, gap, refuse;
  logic [7:0] reset_index, news_session, dst_session;
  logic   [31:0] reset_start;
  order_e        order;
  logic [15:0] fold, news_number;
  refusal_t refusal, refuse_as;
  logic commit, count, dst_read, dst_done, ctl_valid, ctl_pop, ack_pending;
  logic [47:0] dst_mac;
  logic [31:0] dst_ip, ack_value;
  rx_op_t    commit_op;
  verdict_e  verdict;
  tx_frame_t ctl_frame;
  logic looked_q, judged_q;
  logic [ 7:0] session_q;
  logic [31:0] number_q;

  session_table #(
    .Sessions(2)
  ) u_sessions (
    .cfg_entry_o      (),
    .cfg_read_done_o  (),
    .look_i,
    .look_port_i      (port_i),
    .look_ip_i        (ip_i),
    .ok_o             (session_ok),
    .sealed_o         (session_sealed),
    .epoch_o          (session_epoch),
    .dst_read_i       (dst_read),
    .dst_session_i    (dst_session),
    .dst_done_o       (dst_done),
    .dst_mac_o        (dst_mac),
    .dst_ip_o         (dst_ip),
    .tx_session_i     ('0),
    .tx_port_o        (),
    .valid_o          (),
    .sealed_sessions_o(),
    .reset_o          (reset),
    .reset_index_o    (reset_index),
    .reset_start_o    (reset_start),
    .busy_o           (),
    .*
  );

  rx_sequence #(
    .Sessions(2)
  ) u_sequence (
`ifdef MUTANT_KEEP
    .reset_i          (1'b0),
`else
    .reset_i          (reset),
`endif
    .reset_index_i    (reset_index),
    .reset_start_i    (reset_start),
    .interval_i       ('0),
    .judge_session_i  (session_q),
    .judge_number_i   (number_i[15:0]),
    .order_o          (order),
    .fold_o           (fold),
    .held_o           (held),
    .refusal_o        (refusal),
    .session_i        (news_session),
    .taken_i          (taken),
    .refuse_i         (refuse),
    .refuse_as_i      (refuse_as),
    .again_i          (again),
    .gap_i            (gap),
    .number_i         (news_number),
    .ack_session_i    ({7'd0, ride_session_i}),
    .ack_pending_o    (ack_pending),
    .ack_urgent_o     (),
    .ack_value_o      (ack_value),
    .ack_taken_i      (ride_taken_i),
    .ctl_valid_o      (ctl_valid),
    .ctl_frame_o      (ctl_frame),
    .ctl_lock_i,
    .ctl_pop_i        (ctl_pop),
    .dst_read_o       (dst_read),
    .dst_session_o    (dst_session),
    .dst_done_i       (dst_done),
    .dst_mac_i        (dst_mac),
    .dst_ip_i         (dst_ip),
    .status_index_i   ('0),
    .status_expected_o(),
    .busy_o           (),
    .*
  );

  rx_verdict u_verdict (
    .session_ok_i    (session_ok),
    .session_sealed_i(session_sealed),
    .session_epoch_i (session_epoch),
`ifdef MUTANT_ORDER
    .order_i         (order == Ahead ? InOrder : order),
`else
    .order_i         (order),
`endif
    .fold_i          (fold),
    .held_i          (held),
    .refusal_i       (refusal),
`ifdef MUTANT_FORGET
    .reset_i         (1'b0),
`else
    .reset_i         (reset),
`endif
    .reset_index_i   (reset_index),
    .commit_o        (commit),
    .commit_op_o     (commit_op),
    .deny_valid_o    (),
    .deny_o          (),
    .refuse_o        (refuse),
    .refuse_as_o     (refuse_as),
    .report_valid_o  (),
    .report_o        (),
    .session_o       (news_session),
    .number_o        (news_number),
    .taken_o         (taken),
    .again_o         (again),
    .gap_o           (gap),
    .ack_valid_o     (),
    .ack_o           (),
    .refused_valid_o (),
    .refused_o       (),
    .count_o         (count),
    .verdict_o       (verdict),
    .*
  );

  // ---- Arbitrary, constant ---------------------------------------------------------------------
  logic s_q;  // the session that is followed
  always_ff @(posedge clk_i) s_q <= s_q;

  // ---- A frame ---------------------------------------------------------------------------------
  logic begun_q;
  initial begun_q = 1'b0;

  always_ff @(posedge clk_i) begin
    begun_q <= 1'b1;
    if (look_i) session_q <= port_i[7:0];
    if (judge_i) number_q <= number_i;
    if (rst_i || last_i || drop_i) begin
      looked_q <= 1'b0;
      judged_q <= 1'b0;
    end else begin
      if (look_i) looked_q <= 1'b1;
      if (judge_i) judged_q <= 1'b1;
    end
  end

  logic last_q, late_q;
  always_ff @(posedge clk_i) begin
    last_q <= !rst_i && last_i;
    late_q <= !rst_i && last_q;
  end

  // ---- Environment: the parser's steps ---------------------------------------------------------
  always_comb begin
    if (!begun_q) m_reset : assume (rst_i);
    if (look_i) m_look : assume (!looked_q && !judge_i && !last_i && !last_q && !late_q);
    if (judge_i) m_judge : assume (looked_q && !judged_q && !last_i);
    if (last_i && op_i.session.valid) begin
      m_last : assume (judged_q && op_i.session.index == session_q);
      m_number : assume (op_i.sequence_number == number_q[15:0]);
      if (Folded && end_ok_i && (op_i.is_store || op_i.is_load || op_i.is_void)) begin
        m_end_code : assume (fold == number_q[31:16]);
      end
    end
    m_kind :
    assume (32'(op_i.is_store) + 32'(op_i.is_load) + 32'(op_i.is_completion) +
                     32'(op_i.is_void) + 32'(op_i.is_ack) <= 1);
    m_headers : assume (headers_i <= BadTlp || headers_i == Open);
    if (ctl_lock_i) m_lock : assume (ctl_valid);
    if (ride_taken_i) m_ride : assume (ack_pending);
  end

  // A control frame takes some cycles.
  logic [1:0] send_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) send_q <= '0;
    else if (u_sequence.u_source.state_q == 2'd3) send_q <= send_q + 1'b1;
    else send_q <= '0;
  end
  assign ctl_pop = u_sequence.u_source.state_q == 2'd3 && send_q == '1;

  // ---- The session, read a second time ---------------------------------------------------------
  // Registers of the design: it may have begun, one frame may have been taken a cycle ago.
  logic [31:0] expected;
  logic begins, pending;
  assign begins   = u_sequence.begin_q && u_sequence.begin_index_q == s_q;
  assign expected = begins ? u_sequence.begin_start_q : u_sequence.number_q[s_q];
  assign pending  = u_verdict.taken_q && u_verdict.session_q == {7'd0, s_q};

  session_entry_t        entry_q;
  logic           [31:0] count_q;  // its start, and one more for each frame that was taken since
  logic                  current_q;  // the frame under way was looked up in the session as it is
  logic                  matches_q;
  logic follows, applied;
  initial entry_q = '0;

  assign follows = session_q == {7'd0, s_q};
  assign applied = last_i && op_i.session.valid && follows &&
      (u_verdict.verdict inside {Store, Load, Void});

  always_ff @(posedge clk_i) begin
    if (look_i) begin
      current_q <= port_i[7:0] == {7'd0, s_q};
      matches_q <= entry_q.valid && entry_q.epoch == port_i[13:8] && entry_q.ip == ip_i;
    end
    if (applied) count_q <= count_q + 1'b1;
    if (cfg_write_i && cfg_index_i == s_q) begin
      entry_q   <= cfg_entry_i;
      count_q   <= cfg_entry_i.start;
      current_q <= 1'b0;
    end
    if (rst_i) begin
      entry_q.valid <= 1'b0;
      // No session: whatever the memory holds, to the next write.
      count_q       <= u_sequence.taken_i && u_sequence.session == s_q ? u_sequence.next_q :
          begins && !u_sequence.taken_i ? u_sequence.begin_start_q : u_sequence.number_q[s_q];
      current_q <= 1'b0;
    end
  end

  // ---- What was refused ------------------------------------------------------------------------
  // Any operation; whether its sender may have been told that it is refused as the frame that is expected.
  operation_t one_q;
  logic       told_q;
  // The operation that the frame with the expected number has: what frames of that number say whose end code is
  // right, for they are copies of one.
  operation_t true_q;
  logic known_q, certain;
  assign certain = last_i && op_i.session.valid && follows && end_ok_i && number_q == count_q &&
      (op_i.is_store || op_i.is_load);

  always_comb begin
    if (certain && known_q) m_true : assume (operation(op_i) == true_q);
  end

  always_ff @(posedge clk_i) begin
    one_q <= one_q;
    if (certain && !known_q) begin
      known_q <= 1'b1;
      true_q  <= operation(op_i);
    end
    if (refuse && news_session == {7'd0, s_q} && refused_as(refuse_as) == one_q) told_q <= 1'b1;
    if (rst_i || applied || (cfg_write_i && cfg_index_i == s_q)) begin
      known_q <= 1'b0;
      told_q  <= 1'b0;
    end
  end

  // ---- Promises --------------------------------------------------------------------------------
  logic sending, sending_s;
  assign sending   = ctl_lock_i && u_sequence.u_source.state_q == 2'd2;
  assign sending_s = sending && ctl_frame.session.index == {7'd0, s_q};

  always_comb begin
    if (begun_q && !rst_i) begin
      if (applied) begin
        a_next : assert (number_q == count_q);
        a_current : assert (current_q);
        a_matches : assert (matches_q);
        a_good : assert (end_ok_i && headers_i == Open);
        a_sealed : assert (entry_q.sealed == unsealed_i);
        if (op_i.is_store) a_refused : assert (!told_q || operation(op_i) != one_q);
      end
      if (commit && commit_op.session.valid && follows && commit_op.kind != RX_COMPLETION) begin
        a_applied : assert (applied);
      end
      // Numbers go up from the start: what is not taken can't be acknowledged.
      if (sending_s) begin
        a_ack :
        assert (ctl_frame.address[39:8] == count_q || (pending && ctl_frame.address[39:8] ==
                                                               count_q - 32'd1));
      end
      if (ride_taken_i && ride_session_i == s_q) begin
        a_ride : assert (ack_value == count_q || (pending && ack_value == count_q - 32'd1));
      end
    end
  end

  // ---- Ties ------------------------------------------------------------------------------------
  always_comb begin
    if (begun_q) begin
      i_table : assert (u_sessions.u_table.mem_q[s_q] == ram_entry(u_sessions.u_table.mem_q[s_q]));
      i_valid : assert (u_sessions.valid_q[s_q] == entry_q.valid);
      i_judged : assert (!judged_q || looked_q);
      i_news : assert (!(u_verdict.taken_q || u_verdict.again_q || u_verdict.gap_q) || last_q);
      i_apart :
      assert (!(last_q && looked_q) && !(late_q && looked_q) && !(last_q && late_q && looked_q));
      i_expected : assert (expected + 32'(pending) == count_q);
      if (begins) begin
        i_begins : assert (!pending && !(looked_q && current_q));
        i_nothing_waits : assert (!u_sequence.u_ledger.pending_q[s_q]);
      end
      if (pending) begin
        i_next : assert (u_sequence.next_q == count_q);
        i_order : assert (u_sequence.order_q == InOrder);
      end
      // Sessions beyond the table have no frames.
      i_known : assert (!u_verdict.taken_q || u_verdict.session_q < 8'd2);
      if (looked_q && session_q >= 8'd2) begin
        i_unknown : assert (u_sessions.looking_q ? !u_sessions.exists_q : !u_sessions.ok_q);
      end
      // The frame under way.
      if (looked_q) begin
        i_index : assert (u_sessions.index_q == session_q);
        if (u_sessions.looking_q) i_early : assert (!judged_q && !u_sessions.ok_q);
        if (!follows) i_other : assert (!current_q);
      end
      if (looked_q && follows) begin
        if (u_sessions.looking_q) begin
          i_entry :
          assert (!u_sessions.exists_q || !current_q || u_sessions.entry == ram_entry(
              u_sessions.entry
          ));
          i_exists : assert (u_sessions.exists_q == (current_q && entry_q.valid) || !current_q);
          i_exists_not : assert (current_q || !u_sessions.exists_q);
          i_match :
          assert (!current_q || matches_q == (entry_q.valid &&
              entry_q.epoch == u_sessions.epoch_q && entry_q.ip == u_sessions.ip_q));
        end else begin
          i_ok : assert (!u_sessions.ok_q || (current_q && matches_q));
          i_sealed : assert (!u_sessions.ok_q || u_sessions.ok_sealed_q == entry_q.sealed);
        end
      end
      if (judged_q && follows && current_q) begin
        i_next_q : assert (u_sequence.next_q == count_q + 32'd1);
        i_judgement : assert ((u_sequence.order_q == InOrder) == (number_q[15:0] == count_q[15:0]));
        if (u_sequence.order_q == InOrder) begin
          i_fold : assert (u_sequence.fold_q == count_q[31:16]);
        end
      end
    end
  end

`ifndef MUTANT_OF_NUMBERS
  // Ties of what was refused.
  refusal_t held_as;
  logic     refusing;
  assign held_as  = u_sequence.u_refusals.u_ram.mem_q[s_q];
  assign refusing = u_verdict.refuse_q && u_verdict.session_q == {7'd0, s_q};

  always_comb begin
    if (begun_q) begin
      if (told_q) begin
        i_told : assert (u_sequence.u_refusals.refused_q[s_q]);
        i_told_as :
        assert (held_as.several || refused_as(held_as) == one_q || (known_q && true_q != one_q));
      end
      if (u_sequence.u_refusals.refused_q[s_q] && !pending) begin
        i_several : assert (!held_as.several || held_as.code == ERR_BAD_KEY);
        i_certain :
        assert (held_as.code == ERR_BAD_KEY || (known_q && refused_as(held_as) == true_q));
      end
      if ((judged_q && follows && current_q) || refusing) begin
        i_held : assert (held == u_sequence.u_refusals.refused_q[s_q]);
        i_held_as : assert (!held || refusal == held_as);
      end
      if (refusing) begin
        i_refusing : assert (last_q && u_verdict.deny_valid_q && u_verdict.deny_q.session.valid);
        i_refuse_several :
        assert (refuse_as.several == (held && held_as.code == ERR_BAD_KEY &&
            refuse_as.code == ERR_BAD_KEY &&
            (held_as.several || refused_as(
            held_as
        ) != refused_as(
            refuse_as
        ))));
        i_refuse_certain :
        assert (refuse_as.code == ERR_BAD_KEY || (known_q && refused_as(refuse_as) == true_q));
      end
    end
  end
`endif

  function automatic operation_t operation(rx_head_t head);
    operation = '{is_load: head.is_load, key: head.key, offset: head.offset};
  endfunction

  function automatic operation_t refused_as(refusal_t refusal);
    refused_as = '{is_load: refusal.is_load, key: refusal.key, offset: refusal.offset};
  endfunction

  // The design keeps the valid bit apart: a reset clears it, not the RAM's.
  function automatic session_entry_t ram_entry(session_entry_t ram);
    ram_entry       = entry_q;
    ram_entry.valid = ram.valid;
  endfunction
endmodule
