// SPDX-License-Identifier: Apache-2.0
// Walks a list of segments: which parts of them, in their order, are the bytes from offset_i on?
//
// Words of the list from 0 on: a segment's address, then {length, key}, then the next one's address.
// Segments may be empty, and a part is never so.
//
// Latency   : start_i to the first part 5 edges, 4 more for each segment that lies before it; take_i to
//             the next part 5, 4 more for each empty segment between them.
// Clock     : clk_i.
// Handshake : start_i at any time, it ends what was begun before; then parts, valid_o until take_i.
//             word_i comes 1 edge after word_o. short_o stays: the list has too few bytes.
// Drops     : never.
module uzura_segments
  import uzura_qp_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        start_i,
  input  logic [31:0] offset_i,
  /// Not 0.
  input  logic [31:0] bytes_i,
  /// Segments of the list.
  input  logic [ 2:0] count_i,
  output logic [ 3:0] word_o,
  input  logic [63:0] word_i,
  output logic        valid_o,
  output logic        short_o,
  output logic [63:0] va_o,
  output logic [31:0] key_o,
  output logic [31:0] bytes_o,
  /// Bytes that the parts before it have.
  output logic [12:0] before_o,
  /// The part is the last one.
  output logic        last_o,
  input  logic        take_i
);
  typedef enum logic [2:0] {
    Idle,
    Ask,
    Address,
    Length,
    Cut,
    Offer,
    Short
  } state_e;
  state_e state_q;
  logic [2:0] segment_q, count_q;
  logic half_q;  // of the segment's words
  logic [31:0] offset_q, left_q, length_q, rest;
  logic outside;

  assign {outside, rest} = {1'b0, length_q} - {1'b0, offset_q};
  assign word_o          = {segment_q, half_q};
  assign valid_o         = state_q == Offer;
  assign short_o         = state_q == Short;

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      Ask: begin
        half_q  <= 1'b1;
        state_q <= segment_q == count_q ? Short : Address;
      end
      Address: begin
        va_o    <= word_i;
        half_q  <= 1'b0;
        state_q <= Length;
      end
      Length: begin
        {length_q, key_o} <= word_i;
        segment_q         <= segment_q + 1'b1;
        state_q           <= Cut;
      end
      // Does the segment reach as far?
      Cut: begin
        va_o    <= va_o + 64'(offset_q);
        last_o  <= rest >= left_q;
        bytes_o <= rest >= left_q ? left_q : rest;
        state_q <= Offer;
        if (outside || rest == '0) begin
          offset_q <= offset_q - length_q;
          state_q  <= Ask;
        end
      end
      Offer:
      if (take_i) begin
        offset_q <= '0;
        left_q   <= left_q - bytes_o;
        before_o <= before_o + bytes_o[12:0];
        state_q  <= last_o ? Idle : Ask;
      end
      default: ;
    endcase
    if (start_i) begin
      segment_q <= '0;
      half_q    <= 1'b0;
      count_q   <= count_i;
      offset_q  <= offset_i;
      left_q    <= bytes_i;
      before_o  <= '0;
      state_q   <= Ask;
    end
    if (rst_i) begin
      before_o <= '0;
      state_q  <= Idle;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) start_i |-> bytes_i != '0)
  else $error("uzura_segments: asked for no bytes");
  assert property (@(posedge clk_i) disable iff (rst_i) valid_o |-> bytes_o != '0)
  else $error("uzura_segments: an empty part");
`endif
endmodule
