// SPDX-License-Identifier: Apache-2.0
// No sealed frame is taken twice: each packet number that is accepted for a session is greater than all
// accepted before with the same key. None is accepted with a key that was forgotten when the session began
// anew. Keys may be written in any cycle.
//
// The proof follows one arbitrary key, of two a session and two sessions, and keeps the greatest number on
// its own. The receive
// stream is free but for 2 cycles between frames; what AES and GHASH answer is free, so that any tag may
// be right.
//
// Clock  : clk_i.
// Source : docs/wire-format.md, sealed sessions.
module unseal_number_proof
  import aes_pkg::*;
  import wire_pkg::*;
(
  input logic              clk_i,
  input logic              rst_i,
  input logic              enable_i,
  input logic       [47:0] mac_i,
  input logic       [31:0] ip_i,
  input logic       [ 1:0] session_valid_i,
  input logic       [ 1:0] session_sealed_i,
  input logic       [63:0] tdata_i,
  input logic       [ 7:0] tkeep_i,
  input logic              tvalid_i,
  input logic              tlast_i,
  input logic              tuser_i,
  input logic              key_write_i,
  input logic              key_index_i,
  input key_entry_t        key_entry_i
);
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) frames ();
  axis_if #(
    .DataW(64),
    .UserW(2)
  ) opened ();
  logic count;

  assign frames.tdata  = tdata_i;
  assign frames.tkeep  = tkeep_i;
  assign frames.tvalid = tvalid_i;
  assign frames.tlast  = tlast_i;
  assign frames.tuser  = tuser_i;
  assign frames.tready = 1'b1;
  assign opened.tready = 1'b1;

  unseal #(
    .Sessions(2)
  ) u_unseal (
    .key_index_i   (8'(key_index_i)),
    .s_axis        (frames),
    .m_axis        (opened),
    .cnt_bad_seal_o(count),
    .busy_o        (),
    .*
  );

  // ---- Arbitrary, constant: the key that is followed, by session and phase ---------------------
  logic [1:0] key_q;
  always_ff @(posedge clk_i) key_q <= key_q;

  // ---- What was accepted, kept a second time ---------------------------------------------------
  logic begun_q, write, written, forgotten, gone_key_q, ever_q, accept, accept_q, mine;
  logic [47:0] number, accepted_q;
  initial begin
    begun_q    = 1'b0;
    ever_q     = 1'b0;
    accepted_q = '0;
    gone_key_q = 1'b0;
  end

  assign write     = key_write_i && !key_entry_i.send;
  assign written   = write && {key_index_i, key_entry_i.phase} == key_q;
  assign forgotten = write && !key_entry_i.receive && {key_index_i, !key_entry_i.phase} == key_q;
  assign accept    = u_unseal.gen_auth.number_write;
  assign number    = u_unseal.gen_auth.leaving_number_q;
  assign mine      = u_unseal.gen_auth.leaving_key_q == key_q;

  always_ff @(posedge clk_i) begin
    begun_q  <= 1'b1;
    accept_q <= begun_q && !rst_i && accept;
    if (written || rst_i) accepted_q <= '0;
    else if (accept && mine) accepted_q <= number;
    if (rst_i) ever_q <= 1'b0;
    else if (written) ever_q <= 1'b1;
    if (rst_i || written) gone_key_q <= 1'b0;
    else if (forgotten) gone_key_q <= 1'b1;
  end

  // ---- The stream ------------------------------------------------------------------------------
  logic       in_frame_q;
  logic [3:0] since_q;  // cycles since the last word of a frame, 15: many
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_frame_q <= 1'b0;
      since_q    <= '1;
    end else begin
      if (tvalid_i) in_frame_q <= !tlast_i;
      if (tvalid_i && tlast_i) since_q <= 4'd1;
      else if (since_q != '1) since_q <= since_q + 1'b1;
    end
  end

  always_comb begin
    if (!begun_q) m_reset : assume (rst_i);
    if (tvalid_i && !in_frame_q) m_apart : assume (since_q >= 4'd3);
    // The free AES makes no hash key that was not asked for.
    if (u_unseal.gen_auth.setup_done) m_asked : assume (u_unseal.gen_auth.u_keys.setup_busy_q);
  end

  // ---- Promises --------------------------------------------------------------------------------
  always_comb begin
    if (begun_q && !rst_i) begin
      if (accept && mine) a_greater : assert (number > accepted_q);
      if (accept && mine) a_there : assert (!gone_key_q);
      // What the parser is told is what was accepted.
      if (opened.tvalid && opened.tlast && u_unseal.gen_auth.enable_q) begin
        a_told : assert (opened.tuser[1] == accept_q);
        a_not_bad : assert (!(opened.tuser[1] && opened.tuser[0]));
        a_counted : assert (!count || opened.tuser == 2'b01);
      end
    end
  end

  // ---- Ties between the design's registers and the second reading ------------------------------
  logic [9:1] valid, first, last;
  logic gone_q;  // the frame whose words are in the delay has begun to leave it
  logic known, fresh, setup, has_newer;
  always_comb begin
    for (int unsigned i = 1; i < 10; i++) begin
      valid[i] = u_unseal.gen_auth.delay_valid_q[i];
      first[i] = valid[i] && u_unseal.gen_auth.delay_q[i].first;
      last[i]  = valid[i] && u_unseal.gen_auth.delay_q[i].last;
    end
  end
  always_ff @(posedge clk_i) begin
    if (rst_i) gone_q <= 1'b0;
    else if (last[9]) gone_q <= 1'b0;
    else if (first[9]) gone_q <= 1'b1;
  end

  assign known = u_unseal.gen_auth.known[key_q];
  assign fresh = u_unseal.gen_auth.u_keys.fresh_q[key_q];
  assign setup = u_unseal.gen_auth.u_keys.todo_q[key_q] ||
      (u_unseal.gen_auth.u_keys.setup_busy_q && u_unseal.gen_auth.u_keys.setup_index_q == key_q);
  // newer_q is that of the frame in the delay.
  assign has_newer = gone_q || |first[9:5];

  logic [3:0] words;
  logic enable, plain;
  assign enable = u_unseal.gen_auth.enable_q;
  assign plain  = u_unseal.gen_auth.plain_q;
  assign words  = u_unseal.gen_auth.idx_q > 14'd15 ? 4'd15 : 4'(u_unseal.gen_auth.idx_q);

  // No word is behind a last one; a word that is not the first has it in front, or it is gone.
  logic [9:1] last_ok, ahead_ok;
  always_comb begin
    for (int unsigned j = 1; j < 10; j++) begin
      last_ok[j]  = !last[j] || (since_q <= 4'(j) && (valid & ((9'd1 << (j - 1)) - 9'd1)) == '0);
      ahead_ok[j] = !valid[j] || first[j] || gone_q || (first >> j) != '0;
    end
  end

  always_comb begin
    if (begun_q && !rst_i) begin
      if (words != '0) t_frame : assert (enable && in_frame_q);
      if (in_frame_q) t_one : assert (plain != enable);
      if (in_frame_q) t_words : assert ((words != '0) == enable);
      if (!in_frame_q) t_plain : assert (!plain);
      if (since_q != '1) t_since : assert (words <= (since_q < 4'd3 ? '0 : since_q - 4'd3));
      t_first : assert ($onehot0({gone_q, first}));
      t_last : assert (last_ok == '1);
      t_ahead : assert (ahead_ok == '1);
      if (words <= 4'd6 && (gone_q || first != '0)) t_ended : assert (last != '0);
      if (words > 4'd6) t_begun : assert (gone_q || first != '0);
      if (has_newer && u_unseal.gen_auth.newer_q) t_not_zero : assert (number != '0);
      if (known || setup) t_ever : assert (ever_q);
      if (gone_key_q) begin
        t_gone : assert (!known && !u_unseal.gen_auth.u_keys.todo_q[key_q]);
        t_void : assert (!setup || u_unseal.gen_auth.u_keys.setup_void_q);
      end
      if (ever_q) begin
        t_stored :
        assert (accepted_q == (fresh ? '0 : u_unseal.gen_auth.u_keys.u_numbers.mem_q[key_q]));
        if (mine && first[4]) t_looked : assert (u_unseal.gen_auth.last_number >= accepted_q);
        if (mine && has_newer && u_unseal.gen_auth.newer_q) t_newer : assert (number > accepted_q);
      end
    end
  end
endmodule
