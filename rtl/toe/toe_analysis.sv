// SPDX-License-Identifier: Apache-2.0
// The parallel part of the engine: network buffer, distributor, analyzers.
//
// Headers come out in arrival order, because dispatch is in that order and each header takes the same
// time, or less by less than dispatches are apart; payload results in any order.
//
// Latency   : 17 edges (at 8 bytes an edge) from a frame's first beat to header_valid_o if an analyzer is idle,
//             6 behind the last beat of a frame that is shorter than the longest header, 13 at least, if analyzers
//             are as fast as the wire; and 5 from a frame's last beat to result_valid_o if they keep pace.
// Clock     : clk_i; an analyzer's clock is PaceNum / PaceDen of it.
// Handshake : s_eth and headers can't wait; results can.
// Drops     : see toe_distributor.
// Source    : figure 4 of the document on parallel protocol processing.
module toe_analysis
  import toe_pkg::*;
#(
  parameter int unsigned Analyzers = 5,
  /// Of an analyzer: bytes a tick (4 or 8), ticks for PaceDen edges, ticks for a word of payload.
  parameter int unsigned BytesPerCycle = 8,
  parameter int unsigned PaceNum = 1,
  parameter int unsigned PaceDen = 1,
  parameter int unsigned PayloadTicks = 1,
  parameter int unsigned Words = 4096,
  parameter int unsigned MaxFrame = 1522
) (
  input  logic              clk_i,
  input  logic              rst_i,
         axis_if.snk        s_eth,
  output logic              cnt_overflow_o,
  input  logic              slot_ready_i,
  input  tag_t              slot_i,
  output word_t             slot_addr_o,
  output logic              slot_take_o,
  output header_t           header_o,
  output logic              header_valid_o,
  output result_t           result_o,
  output logic              result_valid_o,
  input  logic              rd_en_i,
  input  word_t             rd_addr_i,
  output logic       [63:0] rd_data_o,
  input  logic              free_valid_i,
  input  word_t             free_i
);
  // An analyzer as fast as the wire empties its bank while it fills.
  localparam bit Fast = BytesPerCycle == 8 && PaceNum == PaceDen && PayloadTicks == 1;
  localparam int unsigned BankWords = Fast ? 8 : 1 << $clog2((MaxFrame + 7) / 8);
  localparam int unsigned PaceW = $clog2(PaceNum + PaceDen);

  logic [Analyzers-1:0] idle, beat_valid, header_valid, result_valid, result_ready;
  raw_header_t [Analyzers-1:0] header;
  result_t     [Analyzers-1:0] result;
  raw_header_t                 one;
  beat_t                       beat;
  word_t                       addr;

  assign slot_addr_o = addr;

  logic [PaceW-1:0] pace_q, pace;
  logic tick;
  assign pace = pace_q + PaceW'(PaceNum);
  assign tick = pace >= PaceW'(PaceDen);
  always_ff @(posedge clk_i) begin
    if (rst_i) pace_q <= '0;
    else pace_q <= tick ? pace - PaceW'(PaceDen) : pace;
  end

  toe_distributor #(
    .Analyzers(Analyzers),
    .Words    (Words),
    .MaxFrame (MaxFrame)
  ) u_distributor (
    .clk_i,
    .rst_i,
    .s_eth,
    .cnt_overflow_o,
    .idle_i      (idle),
    .beat_o      (beat),
    .beat_valid_o(beat_valid),
    .addr_o      (addr),
    .slot_ready_i,
    .slot_take_o,
    .rd_en_i,
    .rd_addr_i,
    .rd_data_o,
    .free_valid_i,
    .free_i
  );

  for (genvar i = 0; i < int'(Analyzers); i++) begin : gen_analyzer
    toe_analyzer #(
      .BytesPerCycle(BytesPerCycle),
      .PayloadTicks (PayloadTicks),
      .BankWords    (BankWords),
      .Early        (Fast)
    ) u_analyzer (
      .clk_i,
      .rst_i,
      .tick_i        (tick),
      .idle_o        (idle[i]),
      .beat_i        (beat),
      .beat_valid_i  (beat_valid[i]),
      .tag_i         (slot_i),
      .addr_i        (addr),
      .header_o      (header[i]),
      .header_valid_o(header_valid[i]),
      .result_o      (result[i]),
      .result_valid_o(result_valid[i]),
      .result_ready_i(result_ready[i])
    );
  end

  // Headers never come together; of results the lowest goes first.
  assign result_ready   = result_valid & (~result_valid + 1'b1);
  assign result_valid_o = |result_valid;
  always_comb begin
    one      = '0;
    result_o = '0;
    for (int unsigned i = 0; i < Analyzers; i++) begin
      if (header_valid[i]) one |= header[i];
      if (result_ready[i]) result_o |= result[i];
    end
  end

  toe_header u_header (
    .clk_i,
    .rst_i,
    .raw_i      (one),
    .raw_valid_i(|header_valid),
    .header_o,
    .valid_o    (header_valid_o)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_headers_apart : assert ($onehot0(header_valid));
    end
  end
`endif
endmodule
