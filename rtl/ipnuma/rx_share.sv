// SPDX-License-Identifier: Apache-2.0
// What each session may send of this line while several fill it: the interval from frame to frame that makes
// their frames fit, one after the other. It travels with acknowledgements, and their senders keep to it.
//
// A period is 128 frames of sessions without a pause. It counts if they filled more than half of it; then
// every session that was heard in it or in the one before has an equal share. A switch without buffers drops
// what comes too fast, and whom it drops depends on where he is connected; only the receiver sees them all.
//
// Latency   : interval_o is new Sessions + 3 cycles after the last frame of a period.
// Clock     : clk_i (network); it may stand while busy_o is low.
// Handshake : beats as the parser gets them; frame_i is a pulse between the last beat of its frame and the last
//             of the next one.
// Drops     : never.
// Source    : ours; receiver-driven pace as in ExpressPass (SIGCOMM 2017) and Homa (SIGCOMM 2018).
module rx_share #(
  /// Sessions; a power of two, 256 at most.
  parameter int unsigned Sessions = 64,
  /// Cycles that a beat of 8 bytes takes on the line.
  parameter int unsigned BeatCycles = 1,
  localparam int unsigned IndexW = $clog2(Sessions)
) (
  input  logic              clk_i,
  input  logic              rst_i,
  /// A beat of any frame, its end, and that it has 4 bytes or less there.
  input  logic              beat_i,
  input  logic              last_i,
  input  logic              half_i,
  /// The last frame was a session's and has a number.
  input  logic              frame_i,
  input  logic [IndexW-1:0] session_i,
  /// Network cycles from the start of a session's frame to its next one's at least; 0: as they come.
  output logic [      11:0] interval_o,
  output logic              busy_o
);
  localparam int unsigned PeriodLog = 7;  // frames of a period
  // Preamble, FCS and the least gap, 24 bytes, in halves of a beat.
  localparam int unsigned OverheadHalves = 6;
  // Halves of beats: of a frame, of a period, and of a period times the sessions.
  localparam int unsigned FrameW = 13, SumW = FrameW + PeriodLog, AreaW = SumW + IndexW + 1;
  // A line is quiet when no frame of a session has come for so many cycles.
  localparam int unsigned PauseCycles = 256 * BeatCycles;
  localparam int unsigned PauseW = $clog2(PauseCycles);
  localparam int unsigned TimeW = SumW + $clog2(BeatCycles);
  localparam logic [11:0] Longest = '1;

  // ---- The frame under way -----------------------------------------------------------------------
  logic [FrameW-1:0] halves_q, frame_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) halves_q <= FrameW'(OverheadHalves);
    else if (beat_i && last_i) halves_q <= FrameW'(OverheadHalves);
    else if (beat_i && !halves_q[FrameW-1]) halves_q <= halves_q + FrameW'(2);
    if (beat_i && last_i) frame_q <= halves_q + (half_i ? FrameW'(1) : FrameW'(2));
  end

  // ---- The period --------------------------------------------------------------------------------
  logic run_q, quiet, full;
  logic [PeriodLog-1:0] frames_q;
  logic [SumW-1:0] sum_q, sum;
  logic [ TimeW-1:0] time_q;
  logic [PauseW-1:0] pause_q;
  logic [Sessions-1:0] seen_q, seen;

  assign sum   = sum_q + SumW'(frame_q);
  assign seen  = seen_q | (Sessions'(1) << session_i);
  assign quiet = run_q && pause_q == '1 && !frame_i;
  assign full  = frame_i && frames_q == '1;

  always_ff @(posedge clk_i) begin
    if (rst_i || quiet) begin
      run_q    <= 1'b0;
      frames_q <= '0;
      sum_q    <= '0;
      time_q   <= '0;
      pause_q  <= '0;
      seen_q   <= '0;
    end else if (run_q || frame_i) begin
      run_q   <= 1'b1;
      pause_q <= frame_i ? '0 : pause_q + 1'b1;
      time_q  <= full ? '0 : time_q + TimeW'(time_q != '1);
      if (frame_i) begin
        frames_q <= frames_q + 1'b1;
        sum_q    <= full ? '0 : sum;
        seen_q   <= full ? '0 : seen;
      end
    end
  end

  // ---- Its shares --------------------------------------------------------------------------------
  // One session a cycle adds the length of a mean frame, 128 times; shorter than the next period.
  logic [Sessions-1:0] before_q, todo_q;
  logic [SumW-1:0] length_q;
  logic [AreaW-1:0] area_q, cycles;
  logic [IndexW:0] left_q;
  logic some_q, several_q, done_q;
  logic [11:0] interval_q;

  // Halves of beats to cycles of one frame's turn, and 1/32 more, so that queues get shorter again.
  assign cycles = AreaW'(((area_q + (area_q >> 5)) * AreaW'(BeatCycles)) >> (PeriodLog + 1));

  always_ff @(posedge clk_i) begin
    if (rst_i || quiet) begin
      before_q   <= '0;
      left_q     <= '0;
      done_q     <= 1'b0;
      interval_q <= '0;
    end else begin
      done_q <= left_q == (IndexW + 1)'(1);
      if (full) begin
        before_q <= seen;
        // Who fills less than half of the line is not in anybody's way.
        if (time_q < TimeW'(sum) * TimeW'(BeatCycles)) left_q <= (IndexW + 1)'(Sessions);
        else interval_q <= '0;
      end else if (left_q != '0) begin
        left_q <= left_q - 1'b1;
      end
      if (done_q) interval_q <= !several_q ? '0 : cycles > AreaW'(Longest) ? Longest : 12'(cycles);
    end
    if (full) begin
      todo_q    <= seen | before_q;
      length_q  <= sum;
      area_q    <= '0;
      some_q    <= 1'b0;
      several_q <= 1'b0;
    end else if (left_q != '0) begin
      todo_q <= todo_q >> 1;
      if (todo_q[0]) begin
        area_q    <= area_q + AreaW'(length_q);
        some_q    <= 1'b1;
        several_q <= several_q || some_q;
      end
    end
  end

  assign interval_o = interval_q;
  assign busy_o     = run_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_turn :
      assert (!full || left_q == '0)
      else $error("a period ended before the shares of the last one were known");
    end
  end
`endif
endmodule
