// SPDX-License-Identifier: Apache-2.0
// Joins what DMA reads and doorbells bring into packets' payloads: pieces of any length, in the order
// in which they were announced, become streams of full beats.
//
// Latency   : 1 edge from a beat to the one that it completes.
// Clock     : clk_i.
// Handshake : valid/ready. A piece is announced before its data; a packet's last beat may stall its
//             source for one cycle.
// Drops     : never. bad_o stays with a packet from the beat that could not be read.
module uzura_gather
  import uzura_pkg::*;
  import uzura_qp_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_i,
  input  logic     [12:0] piece_bytes_i,
  /// The packet's last one.
  input  logic            piece_last_i,
  /// Its data come from a doorbell.
  input  logic            piece_inline_i,
  input  logic            piece_valid_i,
  output logic            piece_ready_o,
  input  rd_data_t        s_rd_i,
  input  logic            s_rd_valid_i,
  output logic            s_rd_ready_o,
  input  logic     [63:0] inline_data_i,
  input  logic            inline_valid_i,
  output logic            inline_ready_o,
  output beat_t           beat_o,
  output logic            bad_o,
  output logic            beat_valid_o,
  input  logic            beat_ready_i,
  output logic            busy_o
);
  localparam int unsigned Pieces = 8;
  typedef struct packed {
    logic [12:0] bytes;
    logic        last;
    logic        from_doorbell;
  } piece_t;

  piece_t piece;
  logic piece_valid, piece_take;
  logic [$clog2(Pieces+1)-1:0] held;

  sync_fifo #(
    .data_t(piece_t),
    .Depth (Pieces)
  ) u_pieces (
    .clk_i,
    .rst_i,
    .wdata_i ('{bytes: piece_bytes_i, last: piece_last_i, from_doorbell: piece_inline_i}),
    .wvalid_i(piece_valid_i),
    .wready_o(piece_ready_o),
    .rdata_o (piece),
    .rvalid_o(piece_valid),
    .rready_i(piece_take),
    .count_o (held)
  );

  logic [12:0] done_q;  // bytes of the piece
  logic [63:0] rest_q, word;
  logic [2:0] rest_bytes_q;
  logic flush_q, bad_q, in_valid, in_take, in_bad, piece_end, free, emit, over, last;
  logic [12:0] left;
  logic [3:0] count, total;
  logic [127:0] joined;

  assign word           = piece.from_doorbell ? inline_data_i : s_rd_i.data;
  assign in_valid       = piece_valid && (piece.from_doorbell ? inline_valid_i : s_rd_valid_i);
  assign in_bad         = !piece.from_doorbell && s_rd_i.bad;
  assign free           = !beat_valid_o || beat_ready_i;
  assign in_take        = in_valid && free && !flush_q;
  assign s_rd_ready_o   = in_take && !piece.from_doorbell;
  assign inline_ready_o = in_take && piece.from_doorbell;
  assign left           = piece.bytes - done_q;
  assign piece_end      = left <= 13'd8;
  assign count          = piece_end ? left[3:0] : 4'd8;
  assign total          = {1'b0, rest_bytes_q} + count;
  assign joined         = 128'(rest_q) | (128'(word & byte_mask(count)) << {rest_bytes_q, 3'd0});
  assign last           = piece_end && piece.last;
  // The packet's end may leave more than a beat.
  assign over           = last && total > 4'd8;
  assign emit           = in_take && (total >= 4'd8 || last);
  assign piece_take     = in_take && piece_end;

  always_ff @(posedge clk_i) begin
    if (free) begin
      beat_o.data  <= flush_q ? rest_q : joined[63:0];
      beat_o.bytes <= flush_q ? {1'b0, rest_bytes_q} : total > 4'd8 ? 4'd8 : total;
      beat_o.last  <= flush_q || (last && !over);
      bad_o        <= bad_q || (!flush_q && in_bad);
    end
    if (in_take) begin
      if (emit) rest_q <= joined[127:64];
      else rest_q <= joined[63:0];
    end
    if (rst_i) begin
      beat_valid_o <= 1'b0;
      flush_q      <= 1'b0;
      done_q       <= '0;
      rest_q       <= '0;
      rest_bytes_q <= '0;
      bad_q        <= 1'b0;
    end else begin
      if (free) beat_valid_o <= flush_q || emit;
      if (flush_q && free) begin
        flush_q      <= 1'b0;
        rest_q       <= '0;
        rest_bytes_q <= '0;
        bad_q        <= 1'b0;
      end else if (in_take) begin
        done_q       <= piece_end ? '0 : done_q + 13'd8;
        flush_q      <= over;
        rest_bytes_q <= last && !over ? '0 : total[2:0];
        if (last && !over) rest_q <= '0;
        bad_q <= (last && !over) ? 1'b0 : bad_q || in_bad;
      end
    end
  end
  assign busy_o = held != '0 || flush_q || beat_valid_o;
  logic unused;
  assign unused = ^{s_rd_i.cookie, s_rd_i.last};
endmodule
