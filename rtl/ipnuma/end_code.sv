// SPDX-License-Identifier: Apache-2.0
// End code of a frame while its payload words pass: CRC-16 of the compact form, CRC-32C of the tlp
// form, and what is folded into them. In sessions the UDP source port, which says whose the frame
// is, counts as if its two bytes stood in front.
//
// What a part of a word needs no network of its own for: its bytes, moved to the end of a word that
// begins with zeros, leave a register that is zero at its beginning as they would leave the true
// one.
//
// Latency   : none from word_i to dw_o; the registers follow each word by one cycle.
// Clock     : clk_i (network).
// Handshake : a word counts at an edge with step_i; init_i instead begins anew. end_i says that
//             word_i is the one with the end code: dw_o is the DW behind its data, 0 otherwise.
// Drops     : never.
// Source    : docs/wire-format.md.
module end_code
  import crc_pkg::*;
(
  input  logic        clk_i,
  input  logic        step_i,
  input  logic        init_i,
  input  logic [63:0] word_i,
  input  logic        end_i,
  input  logic        session_i,
  /// Looked at with init_i.
  input  logic [15:0] port_i,
  input  logic        compact_i,
  /// The last word has one DW of data, in its lower half; otherwise none.
  input  logic        odd_i,
  /// Compact form: an acknowledgement stands before the end code.
  input  logic        ack_i,
  input  logic [15:0] ack_value_i,
  input  logic [11:0] tag_i,
  /// Upper half of the sequence number, or 0.
  input  logic [15:0] fold_i,
  /// In wire order: {end code, acknowledgement}, {0, end code} or the long end code.
  output logic [31:0] dw_o
);
  logic [31:0] crc32_q, crc32;
  logic [15:0] crc16_q, crc16, register, ack, port, short_code;
  logic [63:0] part;

  // In lanes, first byte low.
  assign register = {crc16_q[7:0], crc16_q[15:8]};
  assign ack      = {ack_value_i[7:0], ack_value_i[15:8]};
  assign port     = {port_i[7:0], port_i[15:8]};

  // Networks of this size are computed when they are asked for only: simulators skip them.
  always_comb begin
    crc16      = crc16_q;
    crc32      = crc32_q;
    part       = '0;
    short_code = '0;
    dw_o       = '0;
    if (end_i) begin
      if (compact_i) begin
        if (odd_i && ack_i) part = {ack, word_i[31:0] ^ {16'd0, register}, 16'd0};
        else if (odd_i) part = {word_i[31:0] ^ {16'd0, register}, 32'd0};
        else part = {ack ^ register, 48'd0};
        if (odd_i || ack_i) crc16 = crc16_next64('0, part);
        short_code = crc16 ^ {4'd0, tag_i} ^ fold_i;
        dw_o       = {16'd0, short_code[7:0], short_code[15:8]};
        if (ack_i) dw_o = {short_code[7:0], short_code[15:8], ack};
      end else begin
        if (odd_i) crc32 = crc32c_next64('0, {word_i[31:0] ^ crc32_q, 32'd0});
        dw_o = ~crc32 ^ {20'd0, tag_i} ^ {16'd0, fold_i};
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (step_i) begin
      if (init_i) begin
        crc32_q <= CRC32C_INIT;
        crc16_q <= CRC16_INIT;
        if (session_i) begin
          crc32_q <= (CRC32C_INIT >> 16) ^ crc32c_next64('0, {port ^ CRC32C_INIT[15:0], 48'd0});
          crc16_q <= crc16_next64('0, {port ^ {CRC16_INIT[7:0], CRC16_INIT[15:8]}, 48'd0});
        end
      end else if (compact_i) begin
        crc16_q <= crc16_next64(crc16_q, word_i);
      end else begin
        crc32_q <= crc32c_next64(crc32_q, word_i);
      end
    end
  end
endmodule
