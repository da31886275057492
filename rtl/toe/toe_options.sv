// SPDX-License-Identifier: Apache-2.0
// Walks TCP's options, a word at a time, and notes where each known one begins.
//
// Options follow each other at any alignment. What would be at each byte if an option began there is looked
// at a step ahead; where they begin is then a chain of as many links as the word has bytes, each of one
// AND-OR.
//
// Latency : a word given with look_i is walked by the next step_i; 1 edge from that to options_o.
// Clock   : clk_i.
// Handshake : look_i and step_i may come together: the word before is walked then.
// Drops   : an option of a wrong length is passed over; an impossible length ends the walk.
// Source  : RFC 9293 section 3.1, MUST-4 to MUST-7, MUST-68; RFC 2018; RFC 7323.
module toe_options
  import toe_pkg::*;
#(
  /// Bytes of a word.
  parameter int unsigned BytesPerCycle = 8
) (
  input  logic                            clk_i,
  /// Another header begins.
  input  logic                            clear_i,
  input  logic                            look_i,
  /// The word, and the first byte of the one behind it.
  input  logic     [BytesPerCycle:0][7:0] bytes_i,
  /// Position of the word's first byte in the options; negative for the word they begin in.
  input  logic     [            7:0]      pos_i,
  /// Bytes of options.
  input  logic     [            5:0]      end_i,
  input  logic                            step_i,
  output options_t                        options_o
);
  localparam int unsigned B = BytesPerCycle;
  localparam logic [6:0] Never = 7'd127;

  // An option that begins at a byte.
  typedef struct packed {
    logic [B-1:1] ends;     // so many bytes on, and the next one begins in this word
    logic         beyond;   // it ends in a later word
    logic [6:0]   rest;     // with so many bytes of that and what follows
    logic         mss;
    logic         scale;
    logic         sack_ok;
    logic         times;
    logic         sack;
    logic         bad;
    logic [5:0]   at;
  } seen_t;

  options_t options_q, options_d;
  // Bytes from the word's first one to the next option.
  logic [6:0] left_q, left_d;
  logic [B-1:0] start;
  seen_t [B-1:0] seen_d, seen_q;

  for (genvar i = 0; i < B; i++) begin : gen_byte
    logic [7:0] kind, length, at;
    logic covered, room, nop, known;
    assign kind    = bytes_i[i];
    assign length  = bytes_i[i+1];
    assign at      = pos_i + 8'(i);
    assign covered = !at[7] && at < {2'd0, end_i} && kind != OptEnd;
    assign nop     = kind == OptNop;
    assign room    = length >= 8'd2 && {1'b0, at} + {1'b0, length} <= {3'd0, end_i};
    assign known   = covered && !nop && room;
    always_comb begin
      seen_d[i] = '0;
      for (int unsigned k = 1; i + k < B; k++) begin
        seen_d[i].ends[k] = (covered && nop && k == 1) || (known && length == 8'(k));
      end
      seen_d[i].beyond  = !(|seen_d[i].ends);
      seen_d[i].rest    = covered && nop ? 7'd0 : known ? length[6:0] - 7'(B - i) : Never;
      seen_d[i].mss     = known && kind == OptMss && length == 8'd4;
      seen_d[i].scale   = known && kind == OptScale && length == 8'd3;
      seen_d[i].sack_ok = known && kind == OptSackOk && length == 8'd2;
      seen_d[i].times   = known && kind == OptTimes && length == 8'd10;
      seen_d[i].sack    = known && kind == OptSack && length inside {8'd10, 8'd18, 8'd26, 8'd34};
      seen_d[i].bad     = covered && !nop && !room;
      seen_d[i].at      = at[5:0];
    end
  end

  always_comb begin
    options_d = options_q;
    left_d    = left_q >= 7'(B) ? left_q - 7'(B) : '0;
    // Links: an option begins here if the last one ends here.
    for (int unsigned i = 0; i < B; i++) start[i] = left_q == 7'(i);
    for (int unsigned i = 0; i < B; i++) begin
      for (int unsigned k = i + 1; k < B; k++) start[k] |= start[i] && seen_q[i].ends[k-i];
    end
    for (int unsigned i = 0; i < B; i++) begin
      if (start[i]) begin
        if (seen_q[i].beyond) left_d |= seen_q[i].rest;
        if (seen_q[i].mss) options_d.mss = '{valid: 1'b1, pos: seen_q[i].at};
        if (seen_q[i].scale) options_d.scale = '{valid: 1'b1, pos: seen_q[i].at};
        if (seen_q[i].sack_ok) options_d.sack_ok = '{valid: 1'b1, pos: seen_q[i].at};
        if (seen_q[i].times) options_d.times = '{valid: 1'b1, pos: seen_q[i].at};
        if (seen_q[i].sack) options_d.sack = '{valid: 1'b1, pos: seen_q[i].at};
        if (seen_q[i].bad) options_d.bad = 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (look_i) seen_q <= seen_d;
    if (clear_i) begin
      options_q <= '0;
      // The options begin within the first word of the walk.
      left_q    <= 7'(OptOffset % B);
    end else if (step_i) begin
      options_q <= options_d;
      left_q    <= left_q == Never ? Never : left_d;
    end
  end

  assign options_o = options_q;
endmodule
