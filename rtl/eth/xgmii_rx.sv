// SPDX-License-Identifier: Apache-2.0
// 10G Ethernet receiver, MAC layer: XGMII in, frames with a verdict out, nothing buffered.
//
// A frame leaves from its destination MAC to its FCS, inclusive; preamble and start frame delimiter
// are checked and removed. A start in lane 4 is realigned in front of the first register. With
// tlast, tuser[0] means bad: FCS wrong, shorter than 64 bytes, longer than MaxFrame (cut at the
// beat that exceeds it), cut by an error or any other control character, by idle or by a new start.
// A frame cut before its first beat leaves nothing but its count. Lanes without tkeep are zero.
//
// Latency   : a word sampled at an edge is on m_axis right after that edge. tlast looks ahead,
//             combinationally, to a terminate in lane 0 of the aligned word on the pins, and the
//             verdict is combinational with it: usable right after the edge that sampled the last
//             FCS byte. stat_o: 1 edge after tlast; later, each in a cycle of its own, for frames that leave
//             no beat, so that they don't hide behind the end of the frame before.
// Clock     : clk_i, 156.25 MHz.
// Handshake : m_axis can't wait; tready must be 1.
// Drops     : frames with a bad preamble, and frames cut before their first beat; all counted.
// Source    : IEEE 802.3 clauses 3, 4 and 46; dissertation chapters 3 and 5 (cut-through needs no
//             buffer).
module xgmii_rx #(
  /// Longest good frame with FCS, bytes.
  parameter int unsigned MaxFrame = 1518
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  input  logic              [63:0] xgmii_rxd_i,
  input  logic              [ 7:0] xgmii_rxc_i,
         axis_if.src               m_axis,
  /// Pulses, one per frame that started.
  output eth_pkg::rx_stat_t        stat_o,
  /// Work left even if the pins stay idle.
  output logic                     busy_o
);
  import crc_pkg::*;
  import eth_pkg::*;

  localparam int unsigned IdxW = $clog2(MaxFrame / 8 + 2);
  // Index of the beat in which a frame may exceed MaxFrame, and the bytes of it that are fine.
  localparam logic [IdxW-1:0] GiantIdx = IdxW'(MaxFrame / 8);
  localparam int unsigned GiantBytes = MaxFrame % 8;
  localparam logic [IdxW-1:0] LastMinIdx = IdxW'(MinFrame / 8 - 1);

  typedef enum logic [1:0] {
    Idle,  // between frames, or the rest of one that was cut
    Pre4,  // lane 4 start seen; the aligned preamble is on the pins now
    Data
  } state_e;

  state_e state_q, state_d;
  logic shift_q, shift_d;
  logic [31:0] hold_q;
  logic [ 3:0] hold_c_q;

  // Aligned word.
  logic [63:0] al_d, al_word;
  logic [31:0] al_crc, al_residue;
  logic [7:0] al_c, al_keep, first_c;
  logic start0, start4, pre0_ok, pre4_ok, at_end, first_is_term, take;

  // First register.
  logic [63:0] word_q;
  logic [ 7:0] keep_q;
  logic valid_q, end_q, err_q;
  logic [IdxW-1:0] idx_q;
  logic early_q, at_min_q, at_giant_q;  // idx_q is below LastMinIdx, LastMinIdx, GiantIdx
  logic [31:0] crc_q, crc_sum, crc_next;
  // CRCs are linear: what the word adds is known one register ahead of the sum before it, and so is
  // what the sum must be for a good FCS in the word's last bytes.
  logic [31:0] crc_word_q, crc_good_q;

  // Verdict.
  logic more, last, err, giant, runt, fcs_ok;
  rx_stat_t stat_q, stat_d, tell;
  // Frames that left no beat, not told yet.
  logic bad_preamble, empty;
  logic [1:0] bad_preambles_q, runts_q, errors_q;
  logic untold;
  logic fresh_q;  // no beat of this frame yet

  assign al_d    = shift_q ? {xgmii_rxd_i[31:0], hold_q} : xgmii_rxd_i;
  assign al_c    = shift_q ? {xgmii_rxc_i[3:0], hold_c_q} : xgmii_rxc_i;
  assign start0  = xgmii_rxc_i[0] && xgmii_rxd_i[7:0] == XgmiiStart;
  assign pre0_ok = xgmii_rxd_i == XgmiiPreambleWord && xgmii_rxc_i == 8'h01;
  assign pre4_ok = al_d == XgmiiPreambleWord && al_c == 8'h01;
  assign start4  = xgmii_rxc_i[4] && xgmii_rxd_i[39:32] == XgmiiStart;

  always_comb begin
    // Bytes before the first control character.
    for (int unsigned i = 0; i < 8; i++) al_keep[i] = ~|(al_c & (8'hff >> (7 - i)));
    first_c       = al_c & (~al_c + 8'd1);
    first_is_term = 1'b0;
    for (int unsigned i = 0; i < 8; i++) begin
      first_is_term |= first_c[i] && al_d[8*i+:8] == XgmiiTerm;
    end
  end

  assign al_word = al_d & keep_mask(al_keep);
  assign al_crc  = crc32_eth_next64(32'd0, al_word);

  // What the sum is after a good FCS in the first n bytes: each byte turns the constant before it
  // into its own.
  always_comb begin
    al_residue = '0;
    for (int unsigned i = 0; i < 8; i++) begin
      if (al_keep[i]) begin
        al_residue ^= CRC32_ETH_RESIDUE[7-i] ^ (i == 0 ? '0 : CRC32_ETH_RESIDUE[3'(8-i)]);
      end
    end
  end

  // A start in lane 4 is not yet visible in a shifted word, but ends its frame all the same.
  assign at_end = |al_c || (shift_q && start4);
  assign take   = state_q == Data && !al_c[0] && !(valid_q && giant);

  always_comb begin
    state_d = state_q;
    shift_d = shift_q;
    unique case (state_q)
      Pre4:    state_d = pre4_ok ? Data : Idle;
      Data:    if (at_end || (valid_q && giant)) state_d = Idle;
      default: ;
    endcase
    if (start4) begin
      state_d = Pre4;
      shift_d = 1'b1;
    end else if (start0) begin
      state_d = pre0_ok ? Data : Idle;
      shift_d = 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    hold_q     <= xgmii_rxd_i[63:32];
    hold_c_q   <= xgmii_rxc_i[7:4];
    word_q     <= al_word;
    keep_q     <= al_keep;
    crc_word_q <= al_crc;
    crc_good_q <= al_crc ^ al_residue;
    end_q      <= at_end;
    err_q      <= at_end && !first_is_term;
    crc_q      <= more ? crc_next : CRC32_ETH_INIT;
    idx_q      <= more ? idx_q + 1'b1 : '0;
    early_q    <= !more || idx_q < LastMinIdx - 1'b1;
    at_min_q   <= more && idx_q == LastMinIdx - 1'b1;
    at_giant_q <= more && idx_q == GiantIdx - 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q         <= Idle;
      shift_q         <= 1'b0;
      valid_q         <= 1'b0;
      stat_q          <= '0;
      bad_preambles_q <= '0;
      runts_q         <= '0;
      errors_q        <= '0;
      fresh_q         <= 1'b0;
    end else begin
      state_q         <= state_d;
      shift_q         <= shift_d;
      valid_q         <= take;
      stat_q          <= stat_d;
      bad_preambles_q <= bad_preambles_q + 2'(bad_preamble) - 2'(tell.bad_preamble);
      runts_q         <= runts_q + 2'(empty && first_is_term) - 2'(tell.runt);
      errors_q        <= errors_q + 2'(empty && !first_is_term) - 2'(tell.error);
      fresh_q         <= (state_d == Data && (start0 || state_q == Pre4)) || (fresh_q && !take);
    end
  end

  assign crc_sum  = crc32_eth_next64(crc_q, 64'd0);
  assign crc_next = crc_sum ^ crc_word_q;

  always_comb begin
    giant        = at_giant_q && keep_q[GiantBytes];
    // While a beat without end is here the state is still Data.
    last         = end_q || al_c[0] || giant;
    err          = end_q ? err_q : al_c[0] && !first_is_term;
    runt         = early_q || (at_min_q && !keep_q[7]);
    more         = valid_q && !last;
    fcs_ok       = crc_sum == crc_good_q;

    // A new start right behind the preamble counts as one, too.
    bad_preamble = (start0 && !pre0_ok) || (state_q == Pre4 && (!pre4_ok || start4));
    empty        = state_q == Data && fresh_q && al_c[0];

    stat_d       = '0;
    tell         = '0;
    if (valid_q && last) begin
      if (err) stat_d.error = 1'b1;
      else if (giant) stat_d.giant = 1'b1;
      else if (runt) stat_d.runt = 1'b1;
      else if (!fcs_ok) stat_d.bad_fcs = 1'b1;
      else stat_d.good = 1'b1;
    end else begin
      if (bad_preambles_q != '0) tell.bad_preamble = 1'b1;
      else if (runts_q != '0) tell.runt = 1'b1;
      else if (errors_q != '0) tell.error = 1'b1;
      stat_d = tell;
    end
  end

  assign untold          = bad_preambles_q != '0 || runts_q != '0 || errors_q != '0;

  assign m_axis.tdata    = word_q;
  assign m_axis.tkeep    = keep_q;
  assign m_axis.tvalid   = valid_q;
  assign m_axis.tlast    = last;
  assign m_axis.tuser[0] = err || giant || runt || !fcs_ok;

  assign stat_o          = stat_q;
  assign busy_o          = state_q != Idle || valid_q || untold || |stat_q;

`ifndef SYNTHESIS
  initial begin
    assert (m_axis.DataW == 64 && m_axis.UserW == 1)
    else $fatal(1, "xgmii_rx: stream is not 64 + 1");
    assert (MaxFrame >= 64)
    else $fatal(1, "xgmii_rx: MaxFrame below 64");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && valid_q) begin
      a_ready :
      assert (m_axis.tready)
      else $error("the receive stream can't wait");
      a_state :
      assert (end_q || state_q == Data)
      else $error("an open frame left its state");
    end
    if (!rst_i) begin
      a_one :
      assert ($onehot0(stat_q))
      else $error("two frames share a pulse");
      a_told :
      assert (!(&bad_preambles_q || &runts_q || &errors_q))
      else $error("too many frames without a beat to tell");
    end
  end
`endif
endmodule
