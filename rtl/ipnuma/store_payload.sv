// SPDX-License-Identifier: Apache-2.0
// Payload of stores that may be sent as one: 64 DWs a place, where a DW of a page lies at its number within
// the page modulo 64. So contiguous stores lie in a row, and a group of up to 64 DWs never meets itself. Two
// banks; a pair of DWs of any alignment is written at once and read at once.
//
// Latency : 1 cycle of r_clk_i from r_idx_i to r_word_o.
// Clock   : w_clk_i writes, r_clk_i reads; the slots' tokens keep the two apart. A DW behind the end of what
//           is read may be one that is being written: its value does not matter.
// Drops   : never.
// Source  : ours.
module store_payload #(
  /// Places; a power of two.
  parameter int unsigned Places = 16,
  localparam int unsigned PlaceW = $clog2(Places)
) (
  input logic              w_clk_i,
  input logic [PlaceW-1:0] w_place_i,
  /// Number within the page, modulo 64, of the store's first DW.
  input logic [       5:0] w_base_i,
  /// DW 2i of the store.
  input logic              w_even_we_i,
  input logic [       4:0] w_even_idx_i,
  input logic [      31:0] w_even_data_i,
  /// DW 2i + 1.
  input logic              w_odd_we_i,
  input logic [       4:0] w_odd_idx_i,
  input logic [      31:0] w_odd_data_i,

  input  logic              r_clk_i,
  input  logic              r_re_i,
  input  logic [PlaceW-1:0] r_place_i,
  /// As w_base_i, of the first store that is read; not changed before the last word is out.
  input  logic [       5:0] r_base_i,
  input  logic [       4:0] r_idx_i,
  /// {DW 2i+1, DW 2i}
  output logic [      63:0] r_word_o
);
  // With an odd base the store's even DWs are in the odd bank, and its odd DWs in the next pair's even one.
  typedef struct packed {
    logic        we;
    logic [4:0]  idx;
    logic [31:0] data;
  } write_t;

  write_t even, odd;
  logic [4:0] r_even_idx, r_odd_idx;
  logic [31:0] r_even, r_odd;

  always_comb begin
    even = '{we: w_even_we_i, idx: w_base_i[5:1] + w_even_idx_i, data: w_even_data_i};
    odd  = '{we: w_odd_we_i, idx: w_base_i[5:1] + w_odd_idx_i, data: w_odd_data_i};
    if (w_base_i[0]) begin
      even = '{we: w_odd_we_i, idx: w_base_i[5:1] + w_odd_idx_i + 5'd1, data: w_odd_data_i};
      odd  = '{we: w_even_we_i, idx: w_base_i[5:1] + w_even_idx_i, data: w_even_data_i};
    end
  end

  assign r_odd_idx  = r_base_i[5:1] + r_idx_i;
  assign r_even_idx = r_odd_idx + 5'(r_base_i[0]);
  assign r_word_o   = r_base_i[0] ? {r_even, r_odd} : {r_odd, r_even};

  ram_2clk #(
    .data_t(logic [31:0]),
    .Depth (Places * 32)
  ) u_even (
    .wclk_i (w_clk_i),
    .we_i   (even.we),
    .waddr_i({w_place_i, even.idx}),
    .wdata_i(even.data),
    .rclk_i (r_clk_i),
    .re_i   (r_re_i),
    .raddr_i({r_place_i, r_even_idx}),
    .rdata_o(r_even)
  );

  ram_2clk #(
    .data_t(logic [31:0]),
    .Depth (Places * 32)
  ) u_odd (
    .wclk_i (w_clk_i),
    .we_i   (odd.we),
    .waddr_i({w_place_i, odd.idx}),
    .wdata_i(odd.data),
    .rclk_i (r_clk_i),
    .re_i   (r_re_i),
    .raddr_i({r_place_i, r_odd_idx}),
    .rdata_o(r_odd)
  );
endmodule
