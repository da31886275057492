// SPDX-License-Identifier: Apache-2.0
// Brings a segment's payload from the send buffer behind the memory port to where it stands in the
// frame, and adds it up on the way.
//
// Latency   : without payload 1 edge from order_i to sheet_o; else the memory's latency and an edge a
//             word. One segment is fetched while the one before it is sent.
// Clock     : clk_i.
// Handshake : order, sheet: valid/ready. Reads: valid/ready; data come in their order, without any
//             way to hold them.
// Drops     : never.
// Source    : figure 4 of the document on parallel protocol processing (packet generator); RFC 1071.
module toe_fetch
  import toe_pkg::*;
#(
  /// Longest payload.
  parameter int unsigned Mss = 1460,
  localparam int unsigned Words = Mss / 8 + 2,
  localparam int unsigned WordW = $clog2(Words)
) (
  input  logic                 clk_i,
  input  logic                 rst_i,
  input  order_t               order_i,
  input  logic                 order_valid_i,
  output logic                 order_ready_o,
  output conn_id_t             read_conn_o,
  output logic     [     28:0] read_word_o,
  output logic                 read_valid_o,
  input  logic                 read_ready_i,
  input  logic     [     63:0] data_i,
  input  logic                 data_valid_i,
  output order_t               sheet_o,
  output logic     [     31:0] sum_o,
  output logic                 bank_o,
  output logic                 sheet_valid_o,
  input  logic                 sheet_ready_i,
  // The payload, first word where the header ends; 1 edge.
  input  logic                 rd_bank_i,
  input  logic     [WordW-1:0] rd_word_i,
  output logic     [     63:0] rd_data_o
);
  typedef enum logic [1:0] {
    Idle,
    Reading,
    Told
  } state_e;

  state_e state_q;
  order_t order_q;
  logic bank_q, asked, last, moved;
  logic [31:0] sum_q;
  logic [12:0] ask_q, words, index;
  logic [15:0] span;
  logic [63:0] data, kept;
  logic [7:0] strb;
  logic [2:0] target_q;

  assign span          = 16'(order_q.bytes) + 16'(order_q.seq[2:0]) + 16'd7;
  assign words         = span[15:3];
  assign asked         = ask_q == words;
  assign order_ready_o = state_q == Idle;
  assign read_valid_o  = state_q == Reading && !asked;
  assign read_conn_o   = order_q.conn;
  assign read_word_o   = order_q.seq[31:3] + 29'(ask_q);
  assign sheet_o       = order_q;
  assign sum_o         = sum_q;
  assign bank_o        = bank_q;
  assign sheet_valid_o = state_q == Told;

  // The words that come are fewer than beats by at most one, whose data do not matter.
  logic flush_q, beat;
  logic [12:0] came_q;
  assign beat = data_valid_i || flush_q;

  toe_move u_move (
    .clk_i,
    .rst_i,
    .source_i(order_q.seq[2:0]),
    .target_i(target_q),
    .bytes_i (order_q.bytes),
    .beat_i  (beat && state_q == Reading),
    .data_i,
    .valid_o (moved),
    .last_o  (last),
    .index_o (index),
    .data_o  (data),
    .strb_o  (strb)
  );
  always_comb begin
    for (int unsigned i = 0; i < 8; i++) kept[8*i+:8] = strb[i] ? data[8*i+:8] : '0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q <= Idle;
      bank_q  <= 1'b0;
      flush_q <= 1'b0;
    end else begin
      flush_q <= state_q == Reading && data_valid_i && came_q == words - 1'b1 && !last;
      unique case (state_q)
        Idle: if (order_valid_i) state_q <= order_i.bytes == '0 ? Told : Reading;
        Reading: if (beat && last) state_q <= Told;
        default:
        if (sheet_ready_i) begin
          state_q <= Idle;
          bank_q  <= !bank_q;
        end
      endcase
    end
    if (state_q == Idle) begin
      order_q  <= order_i;
      // Options are whole words of 4 bytes, so the payload begins at byte 2 or 6 of a word.
      target_q <= {option_words(order_i) [0] ^ 1'b1, 2'd2};
      sum_q    <= '0;
      ask_q    <= '0;
      came_q   <= '0;
    end else begin
      if (read_valid_o && read_ready_i) ask_q <= ask_q + 1'b1;
      if (data_valid_i) came_q <= came_q + 1'b1;
      if (moved) sum_q <= add_halves(sum_q, kept);
    end
  end

  ram_1r1w #(
    .data_t  (logic [63:0]),
    .Depth   (2 << WordW),
    .InitZero(1'b0)
  ) u_payload (
    .clk_i,
    .we_i   (moved),
    .waddr_i({bank_q, index[WordW-1:0]}),
    .wdata_i(kept),
    .re_i   (1'b1),
    .raddr_i({rd_bank_i, rd_word_i}),
    .rdata_o(rd_data_o)
  );

  logic unused;
  assign unused = ^{span[2:0], index};
endmodule
