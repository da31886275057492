// SPDX-License-Identifier: Apache-2.0
// Walks TCP's options, a word at a time, and notes where each known one begins.
//
// Options follow each other at any alignment. Where they begin in a word is a chain of as many links
// as the word has bytes, each of one AND-OR; what is at each byte is known before.
//
// Latency : 1 edge from step_i to options_o.
// Clock   : clk_i.
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
  input  logic                            step_i,
  /// The word, and the first byte of the one behind it.
  input  logic     [BytesPerCycle:0][7:0] bytes_i,
  /// Position of the word's first byte in the options; negative for the word they begin in.
  input  logic     [            7:0]      pos_i,
  /// Bytes of options.
  input  logic     [            5:0]      end_i,
  output options_t                        options_o
);
  localparam int unsigned B = BytesPerCycle;
  localparam logic [6:0] Never = 7'd127;

  options_t options_q, options_d;
  // Bytes from the word's first one to the next option.
  logic [6:0] left_q, left_d;
  logic [B-1:0]      start;
  logic [B-1:0][6:0] jump;
  logic [B-1:0]      known;
  logic [B-1:0][7:0] at;

  for (genvar i = 0; i < B; i++) begin : gen_byte
    logic [7:0] kind, length;
    logic covered, room, single;
    assign kind    = bytes_i[i];
    assign length  = bytes_i[i+1];
    assign at[i]   = pos_i + 8'(i);
    assign covered = !at[i][7] && at[i] < {2'd0, end_i};
    assign single  = kind == OptEnd || kind == OptNop;
    assign room    = length >= 8'd2 && {1'b0, at[i]} + {1'b0, length} <= {3'd0, end_i};
    always_comb begin
      if (!covered || kind == OptEnd) jump[i] = Never;
      else if (kind == OptNop) jump[i] = 7'd1;
      else jump[i] = room ? length[6:0] : Never;
    end
    assign known[i] = covered && !single && room;
  end

  always_comb begin
    options_d = options_q;
    left_d    = left_q >= 7'(B) ? left_q - 7'(B) : '0;
    // Links: an option begins here if the last one ends here.
    for (int unsigned i = 0; i < B; i++) start[i] = left_q == 7'(i);
    for (int unsigned i = 0; i < B; i++) begin
      for (int unsigned k = i + 1; k < B; k++) begin
        start[k] |= start[i] && jump[i] == 7'(k - i);
      end
      if (start[i]) begin
        if (jump[i] >= 7'(B - i)) left_d |= jump[i] == Never ? Never : jump[i] - 7'(B - i);
        if (known[i]) begin
          unique case ({
            bytes_i[i], bytes_i[i+1]
          })
            {OptMss, 8'd4} : options_d.mss = '{valid: 1'b1, pos: at[i][5:0]};
            {OptScale, 8'd3} : options_d.scale = '{valid: 1'b1, pos: at[i][5:0]};
            {OptSackOk, 8'd2} : options_d.sack_ok = '{valid: 1'b1, pos: at[i][5:0]};
            {OptTimes, 8'd10} : options_d.times = '{valid: 1'b1, pos: at[i][5:0]};
            {
              OptSack, 8'd10
            }, {
              OptSack, 8'd18
            }, {
              OptSack, 8'd26
            }, {
              OptSack, 8'd34
            } :
            options_d.sack = '{valid: 1'b1, pos: at[i][5:0]};
            default: ;
          endcase
        end else if (!at[i][7] && at[i] < {2'd0, end_i} && bytes_i[i] != OptEnd &&
                     bytes_i[i] != OptNop) begin
          options_d.bad = 1'b1;
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
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
