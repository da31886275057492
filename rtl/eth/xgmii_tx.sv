// SPDX-License-Identifier: Apache-2.0
// 10G Ethernet transmitter, MAC layer: frames in without FCS, XGMII out, nothing buffered.
//
// Adds the preamble, pads to 60 bytes, appends the FCS and keeps the inter-frame gap: 12 bytes on
// average with the deficit idle count (9 to 15 each), so that frames start in lane 0 and lane 4 and
// back-to-back frames run at line rate. tuser[0] with tlast spoils the frame: FCS inverted, its
// last byte replaced by /E/.
//
// Latency   : start_i to /S/ in the output register: 1 edge. First beat to XGMII: 1 edge, the one
//             after. (In lane 4 that edge brings out the first half of the word.)
// Clock     : clk_i, 156.25 MHz.
// Handshake : start_i with ready_start_o promises the first beat in the next cycle and each further
//             beat in each next cycle: tready is then high until tlast, and the source never
//             stalls. start_i without ready_start_o is ignored; ready_start_o is a register's
//             decode and may wait for nothing.
// Drops     : a frame whose source stalls is ended with /E/, counted, and its remaining beats are
//             discarded.
// Source    : IEEE 802.3 clauses 3, 4 and 46 (deficit idle count: 46.3.1.4).
module xgmii_tx #(
  /// Deficit idle count; without it every gap is 12 to 15 bytes.
  parameter bit EnableDic = 1'b1
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  /// A frame will be offered: its first beat in the next cycle.
  input  logic                     start_i,
  output logic                     ready_start_o,
         axis_if.snk               s_axis,
  output logic              [63:0] xgmii_txd_o,
  output logic              [ 7:0] xgmii_txc_o,
  /// Pulses, one per frame that started.
  output eth_pkg::tx_stat_t        stat_o,
  /// Work left even if no frame is offered.
  output logic                     busy_o
);
  import crc_pkg::*;
  import eth_pkg::*;

  // Beat in which a frame padded to 60 bytes ends; it has 4 bytes there.
  localparam logic [3:0] PadIdx = 4'd7;

  typedef enum logic [2:0] {
    Idle,  // gap, or ready to start
    Data,  // a beat is taken in every cycle
    Pad,   // the source's frame ended before 60 bytes
    Tail,  // FCS bytes that found no room in the last beat, terminate
    Drain  // the source stalled: wait for the end of its frame
  } state_e;

  state_e state_q, state_d;
  logic lane4_q, lane4_d;  // the frame under way, or the last one, started in lane 4
  logic next4_q, next4_d;  // a start right now would be in lane 4
  logic [1:0] gap_q, gap_d;  // Idle: cycles until a start is allowed
  logic [1:0] deficit_q, deficit_d;
  logic [3:0] idx_q, idx_d;  // beat of the frame, stays at 8
  // Registered decodes of the above: the longest paths begin at them.
  logic data_q;  // state_q is Data
  logic pad_q;  // state_q is Pad
  logic late_q;  // Data or Pad, idx_q is PadIdx or more: a frame may end in this beat
  logic open_q;  // Data, idx_q likewise
  logic past_q;  // Data, idx_q is beyond PadIdx: with any number of bytes
  logic at_pad_q;  // Data or Pad, idx_q is PadIdx
  logic spoil_q, spoil_d;
  logic [31:0] crc_q, crc_next;
  logic [31:0] fcs_q;  // after 5 to 7 bytes
  logic [ 8:4] size_q;
  tx_stat_t stat_q, stat_d;

  // This beat. Sizes are one-hot, from 1 to 8 bytes: everything behind them, FCS included, happens
  // in one cycle, and a decoder in front would be in its way. They follow from tkeep alone, as a
  // beat inside a frame is full; a beat too early to end a frame has size 8 or none.
  logic [ 8:1] size;  // bytes of this beat, padding included
  logic        fin;  // this beat ends the padded frame
  logic        stall;  // the source has no beat
  logic        spoil;
  logic [63:0] data;
  logic [31:0] fcs;
  // What follows the bytes of the last beat in its word.
  logic [63:0] ending;
  logic [ 7:0] ending_c;
  // What goes out in states without a beat, zero in the others.
  logic [63:0] other;
  logic [ 7:0] other_c;

  // Word of the frame-aligned stream, and its terminate.
  logic [63:0] word_d;
  logic [ 7:0] word_c;
  logic        term;
  logic [ 2:0] term_lane;

  logic [31:0] hold_q;
  logic [ 3:0] hold_c_q;
  logic [63:0] txd_q;
  logic [ 7:0] txc_q;

  assign ready_start_o = state_q == Idle && gap_q == '0;
  assign s_axis.tready = state_q == Data || state_q == Drain;

  // What this beat holds; nothing outside Data and Pad.
  always_comb begin
    logic [7:0] keep;
    keep  = s_axis.tkeep & {8{data_q}};
    data  = s_axis.tdata & keep_mask(keep);
    stall = data_q && !s_axis.tvalid;
    spoil = pad_q ? spoil_q : s_axis.tuser[0];
    fin   = late_q && (pad_q || s_axis.tlast);
    for (int unsigned n = 1; n <= 7; n++) begin
      size[n] = (n < 5 ? past_q : open_q) && s_axis.tkeep[n-1] && !s_axis.tkeep[n];
    end
    if (at_pad_q && !keep[4]) size[4] = 1'b1;
    size[8] = keep[7];
  end

  // FCS. One network of exclusive-ors for each size, and the size comes in behind them: no larger
  // than one network behind a shifter, and shorter. The choice is an OR of what one size leaves, so
  // that a simulator evaluates one network. Only with padding are there bytes to mask.
  always_comb begin
    logic [31:0] part;
    logic [63:0] from;
    logic        bad;
    crc_next = crc32_eth_next64(crc_q, data);
    fcs      = '0;
    ending   = '0;
    ending_c = '0;
    for (int unsigned n = 1; n <= 7; n++) begin
      from = n == 4 ? data : s_axis.tdata;
      bad  = n == 4 ? spoil : s_axis.tuser[0];
      part = size[n] ? crc32_eth_nextn(crc_q, from, 4'(n)) ^ {32{!bad}} : '0;
      if (n > 4) fcs |= part;
      if (size[n] && bad) part[31:24] = XgmiiError;
      ending |= 64'(part) << (8 * n);
      for (int unsigned i = n + 3; i < 8; i++) begin
        if (i == n + 3) begin
          ending_c[i] |= size[n] && bad;
        end else begin
          ending[8*i+:8] |= (i == n + 4 ? XgmiiTerm : XgmiiIdle) & {8{size[n]}};
          ending_c[i] |= size[n];
        end
      end
    end
  end

  always_comb begin
    logic [31:0] left;
    left      = '0;
    other     = XgmiiIdleWord;
    other_c   = 8'hff;
    term      = 1'b0;
    term_lane = '0;
    state_d   = state_q;
    idx_d     = idx_q;
    spoil_d   = spoil_q;
    stat_d    = '0;

    unique case (state_q)
      Idle: begin
        idx_d = '0;
        if (start_i && ready_start_o) begin
          other   = XgmiiPreambleWord;
          other_c = 8'h01;
          state_d = Data;
        end
      end

      Data, Pad: begin
        if (idx_q != 4'd8) idx_d = idx_q + 1'b1;
        other   = '0;
        other_c = '0;
        if (stall) begin
          term            = 1'b1;
          term_lane       = 3'd1;
          stat_d.underrun = 1'b1;
          state_d         = Drain;
        end else begin
          spoil_d = spoil;
          if (fin) begin
            stat_d.spoiled = spoil;
            stat_d.good    = !spoil;
            term           = |size[3:1];
            term_lane      = size[1] ? 3'd5 : size[2] ? 3'd6 : 3'd7;
            state_d        = |size[3:1] ? Idle : Tail;
          end else if (data_q && s_axis.tlast) begin
            state_d = Pad;
          end
        end
      end

      Tail: begin
        // The beat had n bytes, 4 to 8: the last n - 4 bytes of the FCS are left. That of a full beat
        // is still in the register.
        left = size_q[8] ? crc_q ^ {32{!spoil_q}} : fcs_q;
        for (int unsigned n = 4; n <= 8; n++) begin
          if (size_q[n]) begin
            for (int unsigned i = 0; i < n - 4; i++) begin
              other[8*i+:8] = spoil_q && i == n - 5 ? XgmiiError : left[8*(i+8-n)+:8];
              other_c[i]    = spoil_q && i == n - 5;
            end
            other[8*(n-4)+:8] = XgmiiTerm;
            term_lane         = 3'(n - 4);
          end
        end
        term    = 1'b1;
        state_d = Idle;
      end

      Drain:   if (s_axis.tvalid && s_axis.tlast) state_d = Idle;
      default: state_d = Idle;
    endcase

    // Lanes of one are zero in the others.
    word_d = other | data | ending;
    word_c = other_c | ending_c;
    if (stall) begin
      word_d = {XgmiiIdleWord[63:16], XgmiiTerm, XgmiiError};
      word_c = 8'hff;
    end
  end

  // Gap. Slots are half words, counted from the word that is made in this cycle. The earliest start
  // is three slots after the terminate's, if the deficit allows to round down, or else four.
  always_comb begin
    logic [2:0] slot, down;
    next4_d   = next4_q;
    gap_d     = gap_q;
    deficit_d = deficit_q;
    down      = 3'(deficit_q) + 3'(term_lane[1:0]);
    slot      = 3'(term_lane[2]) + 3'(lane4_q) + 3'd3;
    if (term) begin
      if (term_lane[1:0] == '0 || (EnableDic && !down[2])) begin
        deficit_d = down[1:0];
      end else begin
        slot += 3'd1;
        // Rounding up is only needed with more deficit and remainder than 3.
        deficit_d = EnableDic ? down[1:0] : '0;
      end
      // slot is 3..6: the start is one to three cycles from now.
      gap_d   = slot[2:1] - 2'd1;
      next4_d = slot[0];
    end else if (state_q == Drain) begin
      // The gap runs from the end of the drain: longer than needed, and simple.
      gap_d     = 2'd2;
      next4_d   = 1'b0;
      deficit_d = '0;
    end else if (state_q == Idle) begin
      if (gap_q != '0) begin
        gap_d = gap_q - 1'b1;
      end else if (!start_i) begin
        // A later start has at least four bytes of gap more: no deficit is left.
        next4_d   = 1'b0;
        deficit_d = '0;
      end
    end
  end

  // The shift switches with the preamble; the gap has flushed the held half by then.
  assign lane4_d = start_i && ready_start_o ? next4_q : lane4_q;

  always_ff @(posedge clk_i) begin
    crc_q  <= state_q == Idle ? CRC32_ETH_INIT : crc_next;
    fcs_q  <= fcs;
    size_q <= size[8:4];
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q   <= Idle;
      lane4_q   <= 1'b0;
      next4_q   <= 1'b0;
      gap_q     <= '0;
      deficit_q <= '0;
      idx_q     <= '0;
      data_q    <= 1'b0;
      pad_q     <= 1'b0;
      late_q    <= 1'b0;
      open_q    <= 1'b0;
      past_q    <= 1'b0;
      at_pad_q  <= 1'b0;
      spoil_q   <= 1'b0;
      stat_q    <= '0;
      hold_q    <= XgmiiIdleWord[31:0];
      hold_c_q  <= '1;
      txd_q     <= XgmiiIdleWord;
      txc_q     <= '1;
    end else begin
      state_q   <= state_d;
      lane4_q   <= lane4_d;
      next4_q   <= next4_d;
      gap_q     <= gap_d;
      deficit_q <= deficit_d;
      idx_q     <= idx_d;
      data_q    <= state_d == Data;
      pad_q     <= state_d == Pad;
      late_q    <= (state_d == Data || state_d == Pad) && idx_d >= PadIdx;
      open_q    <= state_d == Data && idx_d >= PadIdx;
      past_q    <= state_d == Data && idx_d > PadIdx;
      at_pad_q  <= (state_d == Data || state_d == Pad) && idx_d == PadIdx;
      spoil_q   <= spoil_d;
      stat_q    <= stat_d;
      hold_q    <= word_d[63:32];
      hold_c_q  <= word_c[7:4];
      txd_q     <= lane4_d ? {word_d[31:0], hold_q} : word_d;
      txc_q     <= lane4_d ? {word_c[3:0], hold_c_q} : word_c;
    end
  end

  assign xgmii_txd_o = txd_q;
  assign xgmii_txc_o = txc_q;
  assign stat_o = stat_q;
  assign busy_o      = state_q != Idle || gap_q != '0 || next4_q || deficit_q != '0 || |stat_q ||
      txc_q != '1 || txd_q != XgmiiIdleWord;

`ifndef SYNTHESIS
  initial begin
    assert (s_axis.DataW == 64 && s_axis.UserW == 1)
    else $fatal(1, "xgmii_tx: stream is not 64 + 1");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i && state_q == Data && s_axis.tvalid) begin
      a_keep :
      assert (s_axis.tkeep[0] && (s_axis.tkeep & (s_axis.tkeep + 8'd1)) == '0)
      else $error("tkeep has a hole or no byte");
      a_full :
      assert (s_axis.tlast || s_axis.tkeep == '1)
      else $error("short beat inside a frame");
    end
  end
`endif
endmodule
