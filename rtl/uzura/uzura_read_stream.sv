// SPDX-License-Identifier: Apache-2.0
// Pieces of reads out of the buffer, as the engine wants them: one stream a read, its first byte in the low
// lane, beats full.
//
// Latency   : a piece taken to its first beat 2 edges, 1 more if its first word is not enough for one; a beat a cycle,
//             one cycle more for a read's rest.
// Clock     : clk_i (network); a word comes 1 edge after its address.
// Handshake : valid/ready. freed_o with the last word of a piece: its slot may be written again.
// Drops     : never. From a bad piece on its read is bad.
module uzura_read_stream
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
  import uzura_nic_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  piece_t          piece_i,
  input  logic            piece_valid_i,
  output logic            piece_take_o,
  output logic            freed_o,
  output logic            re_o,
  output logic     [ 3:0] slot_o,
  output logic     [ 5:0] word_o,
  input  logic     [63:0] data_i,
  output rd_data_t        rd_o,
  output logic            rd_valid_o,
  input  logic            rd_ready_i,
  output logic            busy_o
);
  // ---- Words --------------------------------------------------------------------------------------
  // What is known of the word that the buffer shows.
  typedef struct packed {
    logic [2:0] first;   // bytes in front that do not count
    logic [3:0] behind;  // the byte behind the last one that does
    logic [2:0] cookie;
    logic       last;    // of its read
    logic       bad;
  } word_t;

  logic [5:0] at_q, at;
  logic inside_q, shown_q, ends, move, accept;
  logic  [9:0] behind;
  word_t       word_q;

  assign behind       = {1'b0, piece_i.offset} + piece_i.bytes;
  assign at           = inside_q ? at_q : piece_i.offset[8:3];
  assign ends         = {1'b0, at} == 7'((behind - 10'd1) >> 3);
  assign move         = piece_valid_i && (!shown_q || accept);
  assign piece_take_o = move && ends;
  assign freed_o      = piece_take_o;
  assign re_o         = move;
  assign slot_o       = piece_i.slot;
  assign word_o       = at;

  always_ff @(posedge clk_i) begin
    if (move) begin
      at_q          <= at + 1'b1;
      word_q.first  <= inside_q ? '0 : piece_i.offset[2:0];
      word_q.behind <= ends && behind[2:0] != '0 ? {1'b0, behind[2:0]} : 4'd8;
      word_q.cookie <= piece_i.cookie;
      word_q.last   <= ends && piece_i.last;
      word_q.bad    <= piece_i.bad;
    end
    if (rst_i) begin
      inside_q <= 1'b0;
      shown_q  <= 1'b0;
    end else begin
      if (move) inside_q <= !ends;
      if (move) shown_q <= 1'b1;
      else if (accept) shown_q <= 1'b0;
    end
  end

  // ---- Beats --------------------------------------------------------------------------------------
  logic [63:0] rest_q, now;
  logic [2:0] rest_bytes_q;
  logic [3:0] count, total;
  logic [127:0] joined;
  logic flush_q, bad_q, free, emit, over;

  assign free   = !rd_valid_o || rd_ready_i;
  assign accept = shown_q && free && !flush_q;
  assign count  = word_q.behind - {1'b0, word_q.first};
  assign now    = (data_i >> {word_q.first, 3'd0}) & byte_mask(count);
  assign total  = {1'b0, rest_bytes_q} + count;
  assign joined = 128'(rest_q) | (128'(now) << {rest_bytes_q, 3'd0});
  assign over   = word_q.last && total > 4'd8;
  assign emit   = accept && (total >= 4'd8 || word_q.last);

  always_ff @(posedge clk_i) begin
    if (free) begin
      rd_o.data <= flush_q ? rest_q : joined[63:0];
      rd_o.last <= flush_q || (word_q.last && !over);
      rd_o.bad  <= bad_q || (!flush_q && word_q.bad);
      if (!flush_q) rd_o.cookie <= word_q.cookie;
    end
    if (rst_i) begin
      rd_valid_o   <= 1'b0;
      flush_q      <= 1'b0;
      bad_q        <= 1'b0;
      rest_q       <= '0;
      rest_bytes_q <= '0;
    end else begin
      if (free) rd_valid_o <= flush_q || emit;
      if (flush_q && free) begin
        flush_q      <= 1'b0;
        bad_q        <= 1'b0;
        rest_q       <= '0;
        rest_bytes_q <= '0;
      end else if (accept) begin
        flush_q      <= over;
        bad_q        <= (bad_q || word_q.bad) && !(word_q.last && !over);
        rest_q       <= word_q.last && !over ? '0 : emit ? joined[127:64] : joined[63:0];
        rest_bytes_q <= word_q.last && !over ? '0 : total[2:0];
      end
    end
  end
  assign busy_o = piece_valid_i || shown_q || flush_q || rd_valid_o;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      piece_valid_i |-> piece_i.bytes != '0 && behind <= 10'(PieceBytes))
  else $error("uzura_read_stream: a piece lies in no slot");
`endif
endmodule
