// SPDX-License-Identifier: Apache-2.0
// Shifts a run of bytes from one alignment to another, a word a beat.
//
// Latency   : combinational from a source word to a target word; the last source word is kept.
// Clock     : clk_i.
// Handshake : source_i, target_i and bytes_i stay from the first beat to the one with last_o. There are
//             beats_o beats; what comes behind the source's last word does not matter.
// Drops     : never.
// Source    : common practice.
module toe_move
  import toe_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_i,
  /// Offsets of the first byte in its word.
  input  logic   [ 2:0] source_i,
  input  logic   [ 2:0] target_i,
  /// 0: one beat without any byte.
  input  bytes_t        bytes_i,
  input  logic          beat_i,
  input  logic   [63:0] data_i,
  output logic          valid_o,
  output logic          last_o,
  output logic   [12:0] index_o,
  output logic   [63:0] data_o,
  output logic   [ 7:0] strb_o
);
  logic [12:0] beat_q, words;
  logic [63:0] prev_q;
  logic [15:0] span;
  logic [ 3:0] shift;
  logic early, final_word;
  logic [2:0] end_byte;

  // The first word is only the second half of nothing.
  assign early      = source_i > target_i;
  assign shift      = early ? {1'b0, source_i - target_i} : 4'd8 - {1'b0, target_i - source_i};
  assign span       = 16'(bytes_i) + 16'(target_i) + 16'd7;
  assign words      = span[15:3];
  assign end_byte   = target_i + bytes_i[2:0] - 3'd1;
  assign last_o     = bytes_i == '0 || beat_q == words - 13'd1 + 13'(early);
  assign index_o    = beat_q - 13'(early);
  assign valid_o    = beat_i && bytes_i != '0 && !(early && beat_q == '0);
  assign final_word = index_o == words - 13'd1;
  assign data_o     = 64'({data_i, prev_q} >> {shift, 3'd0});
  always_comb begin
    for (int unsigned i = 0; i < 8; i++) begin
      strb_o[i] = (index_o != '0 || 3'(i) >= target_i) && (!final_word || 3'(i) <= end_byte);
    end
  end

  always_ff @(posedge clk_i) begin
    if (beat_i) prev_q <= data_i;
    if (rst_i) beat_q <= '0;
    else if (beat_i) beat_q <= last_o ? '0 : beat_q + 1'b1;
  end

  logic unused;
  assign unused = ^span[2:0];
endmodule
