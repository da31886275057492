// SPDX-License-Identifier: Apache-2.0
// Payload of a ring of slots: 64 DWs a slot in two banks, so that two DWs of any alignment are
// written at once and a pair is read at once.
//
// Latency : 1 cycle of r_clk_i from r_idx_i to r_word_o.
// Clock   : w_clk_i writes, r_clk_i reads; the slot's token keeps the two apart.
// Drops   : never.
// Source  : ours.
module slot_payload #(
  /// Slots; a power of two.
  parameter int unsigned Slots = 16,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input logic             w_clk_i,
  input logic [SlotW-1:0] w_slot_i,
  /// DW 2i.
  input logic             w_even_we_i,
  input logic [      4:0] w_even_idx_i,
  input logic [     31:0] w_even_data_i,
  /// DW 2i + 1.
  input logic             w_odd_we_i,
  input logic [      4:0] w_odd_idx_i,
  input logic [     31:0] w_odd_data_i,

  input  logic             r_clk_i,
  input  logic             r_re_i,
  input  logic [SlotW-1:0] r_slot_i,
  input  logic [      4:0] r_idx_i,
  /// {DW 2i+1, DW 2i}
  output logic [     63:0] r_word_o
);
  ram_2clk #(
    .data_t(logic [31:0]),
    .Depth (Slots * 32)
  ) u_even (
    .wclk_i (w_clk_i),
    .we_i   (w_even_we_i),
    .waddr_i({w_slot_i, w_even_idx_i}),
    .wdata_i(w_even_data_i),
    .rclk_i (r_clk_i),
    .re_i   (r_re_i),
    .raddr_i({r_slot_i, r_idx_i}),
    .rdata_o(r_word_o[31:0])
  );

  ram_2clk #(
    .data_t(logic [31:0]),
    .Depth (Slots * 32)
  ) u_odd (
    .wclk_i (w_clk_i),
    .we_i   (w_odd_we_i),
    .waddr_i({w_slot_i, w_odd_idx_i}),
    .wdata_i(w_odd_data_i),
    .rclk_i (r_clk_i),
    .re_i   (r_re_i),
    .raddr_i({r_slot_i, r_idx_i}),
    .rdata_o(r_word_o[63:32])
  );
endmodule
