// SPDX-License-Identifier: Apache-2.0
// FIFO on one clock whose words fall through in the cycle they are written; what waits is in block
// RAM when it is deep.
//
// Latency   : none when empty: rvalid_o and rdata_o follow wvalid_i and wdata_i combinationally.
//             A word that waited is there in the cycle after the word before it was taken.
// Clock     : clk_i, rst_i synchronous.
// Handshake : the writer can't wait and must not write more than Depth words ahead of the reader.
// Drops     : never; a word without room is an error of the user's reckoning, asserted.
// Source    : common practice.
module through_fifo #(
  /// Type of a word.
  parameter type data_t = logic [63:0],
  /// Words, from 2.
  parameter int unsigned Depth = 16
) (
  input  logic  clk_i,
  input  logic  rst_i,
  input  logic  wvalid_i,
  input  data_t wdata_i,
  output logic  rvalid_o,
  output data_t rdata_o,
  input  logic  rready_i
);
  // The oldest word waits outside the memory.
  localparam int unsigned Words = Depth - 1;
  localparam int unsigned AddrW = Words > 1 ? $clog2(Words) : 1;
  localparam int unsigned CountW = $clog2(Words + 1);
  localparam logic [AddrW-1:0] Top = AddrW'(Words - 1);

  logic [AddrW-1:0] wptr_q, rptr_q;
  logic [CountW-1:0] count_q;
  logic waits_q, from_ram_q;
  data_t beside_q, ram_data;
  logic pop, push, load, beside;

  assign rvalid_o = waits_q || wvalid_i;
  assign rdata_o  = !waits_q ? wdata_i : from_ram_q ? ram_data : beside_q;
  assign pop      = rvalid_o && rready_i;
  // A new word goes to the place outside if that is free from now on, else to the memory.
  assign beside   = wvalid_i && count_q == '0 && (waits_q == pop);
  assign push     = wvalid_i && waits_q && !beside;
  assign load     = waits_q && pop && count_q != '0;

  always_ff @(posedge clk_i) begin
    if (beside) beside_q <= wdata_i;
    if (beside) from_ram_q <= 1'b0;
    else if (load) from_ram_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wptr_q  <= '0;
      rptr_q  <= '0;
      count_q <= '0;
      waits_q <= 1'b0;
    end else begin
      if (push) wptr_q <= wptr_q == Top ? '0 : wptr_q + 1'b1;
      if (load) rptr_q <= rptr_q == Top ? '0 : rptr_q + 1'b1;
      count_q <= count_q + CountW'(push) - CountW'(load);
      waits_q <= beside || load || (waits_q && !pop);
    end
  end

  ram_1r1w #(
    .data_t  (data_t),
    .Depth   (Words),
    .InitZero(1'b0)
  ) u_ram (
    .clk_i,
    .we_i   (push),
    .waddr_i(wptr_q),
    .wdata_i,
    .re_i   (load),
    .raddr_i(rptr_q),
    .rdata_o(ram_data)
  );

`ifndef SYNTHESIS
  initial begin
    assert (Depth >= 2)
    else $fatal(1, "through_fifo: two words or more");
  end
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_room :
      assert (!push || count_q != CountW'(Words))
      else $error("more words than were reckoned with");
      a_order :
      assert (waits_q || count_q == '0)
      else $error("a word waits behind none");
    end
  end
`endif
endmodule
