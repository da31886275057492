// SPDX-License-Identifier: Apache-2.0
// No packet number is used twice with a key: each sealed frame of a session has the number behind the
// last one that left with the same key, the first one has 1, and all that AES is asked for it has that
// number, that session's key and the frame's source port. Keys may be written in any cycle.
//
// The proof follows one arbitrary session of two and counts its frames on its own. The builder, the
// transmitter and what AES and GHASH answer are free.
//
// Clock  : clk_i.
// Source : docs/wire-format.md, sealed sessions; NIST SP 800-38D, section 8.
module seal_number_proof
  import aes_pkg::*;
  import wire_pkg::*;
(
  input logic              clk_i,
  input logic              rst_i,
  input logic              fb_start_i,
  input logic              fb_sealed_i,
  input logic              fb_session_i,
  input logic       [15:0] fb_port_i,
  input logic       [63:0] tdata_i,
  input logic              tvalid_i,
  input logic              tlast_i,
  input logic              ready_start_i,
  input logic              tready_i,
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
    .UserW(1)
  ) mac ();
  logic fb_ready;

  assign frames.tdata  = tdata_i;
  assign frames.tkeep  = '1;
  assign frames.tvalid = tvalid_i;
  assign frames.tlast  = tlast_i;
  assign frames.tuser  = '0;
  assign mac.tready    = tready_i;

  seal #(
    .Sessions(2)
  ) u_seal (
    .fb_ready_start_o(fb_ready),
    .fb_session_i    (8'(fb_session_i)),
    .key_index_i     (8'(key_index_i)),
    .s_frames        (frames),
    .start_o         (),
    .m_axis          (mac),
    .cnt_no_key_o    (),
    .busy_o          (),
    .*
  );

  // ---- Arbitrary, constant: the session that is followed ---------------------------------------
  logic session_q;
  always_ff @(posedge clk_i) session_q <= session_q;

  // ---- Its frames, counted a second time -------------------------------------------------------
  logic begun_q;
  logic accepted, written, new_q, mine_q, rewritten_q, dropped, asks;
  block_t asked;
  logic [47:0] used_q, base_q;  // last number with the key there is; with that of the frame, before
  block_t shadow_key_q, frame_key_q;
  logic shadow_phase_q, frame_phase_q;
  logic [15:0] port_q;
  initial begin
    begun_q = 1'b0;
    used_q  = '0;
  end

  assign accepted = fb_start_i && fb_sealed_i && fb_ready;
  assign written  = key_write_i && !key_entry_i.receive && key_index_i == session_q;

  always_ff @(posedge clk_i) begin
    begun_q     <= 1'b1;
    new_q       <= accepted && !rst_i;
    rewritten_q <= written;
    if (accepted) begin
      mine_q        <= fb_session_i == session_q;
      base_q        <= used_q;
      frame_key_q   <= shadow_key_q;
      frame_phase_q <= shadow_phase_q;
      port_q        <= fb_port_i;
    end
    if (written) begin
      shadow_key_q   <= key_entry_i.tx_key;
      shadow_phase_q <= key_entry_i.phase;
    end
    // A frame that met its key's last cycle has the old key, and does not count for the new one.
    if (written || rst_i) used_q <= '0;
    else if (new_q && mine_q && !rewritten_q && !dropped) used_q <= base_q + 48'd1;
  end

  // ---- Promises --------------------------------------------------------------------------------
  assign dropped = u_seal.gen_auth.head_drop;
  assign asks    = u_seal.gen_auth.ask_stream || u_seal.gen_auth.ask_mask;
  assign asked   = u_seal.gen_auth.u_aes.block_i;

  always_comb begin
    if (!begun_q) m_reset : assume (rst_i);
    // The free AES makes no hash key that was not asked for.
    if (u_seal.gen_auth.setup_done) m_asked : assume (u_seal.gen_auth.u_keys.setup_busy_q);
    if (begun_q && !rst_i) begin
      if (new_q && mine_q && !dropped) begin
        a_next : assert (u_seal.gen_auth.head_number == base_q + 48'd1);
        a_not_zero : assert (u_seal.gen_auth.head_number != '0);
      end
      if (asks && mine_q) begin
        a_number : assert (asked[95:48] == base_q + 48'd1);
        a_port : assert (asked[47:32] == port_q);
        a_key : assert (u_seal.gen_auth.u_aes.key_i == frame_key_q);
        a_phase : assert (u_seal.gen_auth.phase == frame_phase_q);
      end
      if (u_seal.gen_auth.ask_mask) a_mask : assert (asked[31:0] == 32'd1);
    end
  end

  // ---- Ties between the design's registers and the second count --------------------------------
  logic known, fresh, setup;
  logic ever_q;  // it had a key since reset
  initial ever_q = 1'b0;
  always_ff @(posedge clk_i) begin
    if (rst_i) ever_q <= 1'b0;
    else if (written) ever_q <= 1'b1;
  end
  assign setup = u_seal.gen_auth.u_keys.todo_q[session_q] ||
      (u_seal.gen_auth.u_keys.setup_busy_q && u_seal.gen_auth.u_keys.setup_index_q == session_q);
  assign known = u_seal.gen_auth.known[session_q];
  assign fresh = u_seal.gen_auth.u_keys.fresh_q[session_q];

  always_comb begin
    if (begun_q && !rst_i) begin
      t_new : assert (u_seal.gen_auth.head_new_q == new_q);
      if (new_q) t_head : assert (u_seal.gen_auth.head_q);
      if (known || setup) t_ever : assert (ever_q);
      if (ever_q) begin
        t_stored :
        assert (used_q == (fresh ? '0 : u_seal.gen_auth.u_keys.u_numbers.mem_q[session_q]));
        t_key : assert (u_seal.gen_auth.u_keys.u_keys.mem_q[session_q][159:32] == shadow_key_q);
        t_phase : assert (u_seal.gen_auth.u_keys.u_keys.mem_q[session_q][160] == shadow_phase_q);
      end
      if (fresh) t_fresh : assert (used_q == '0);
      if (u_seal.gen_auth.head_q) begin
        t_index : assert (u_seal.gen_auth.head_index_q == session_q || !mine_q);
        t_port : assert (u_seal.gen_auth.head_port_q == port_q);
        if (mine_q && new_q && u_seal.gen_auth.head_known_q) begin
          t_base : assert (u_seal.gen_auth.stored_number == base_q);
          t_old : assert (u_seal.gen_auth.key == frame_key_q);
          t_old_phase : assert (u_seal.gen_auth.phase == frame_phase_q);
          t_known : assert (known || rewritten_q);
          t_used : assert (used_q == (rewritten_q ? '0 : base_q));
        end
        if (mine_q && !new_q && !u_seal.gen_auth.head_drop_q) begin
          t_number : assert (u_seal.gen_auth.head_number_q == base_q + 48'd1);
          t_frame_key : assert (u_seal.gen_auth.key == frame_key_q);
          t_frame_phase : assert (u_seal.gen_auth.phase == frame_phase_q);
        end
      end
    end
  end
endmodule
