// SPDX-License-Identifier: Apache-2.0
// Page map: for each 4 KB page of BAR 2, who it belongs to and which page there.
//
// Latency : ReadLatency cycles of clk_i from look_i to entry_o (a look-up may start in every
//           cycle); the same from cfg_read_i to cfg_read_done_o. A write holds for look-ups from
//           the next cycle on.
// Clock   : clk_i (PCIe).
// Drops   : never.
// Source  : dissertation section 3.3.1.
module page_map
  import wire_pkg::*;
#(
  /// Pages in BAR 2; a power of two up to 262144.
  parameter int unsigned Pages = 262144,
  /// Cycles from the page to its entry, 1..4.
  parameter int unsigned ReadLatency = 2,
  localparam int unsigned IndexW = $clog2(Pages)
) (
  input  logic                         clk_i,
  input  logic                         rst_i,
  input  logic                         look_i,
  input  logic            [IndexW-1:0] page_i,
  output page_map_entry_t              entry_o,

  input  logic                         cfg_write_i,
  input  logic            [IndexW-1:0] cfg_index_i,
  input  page_map_entry_t              cfg_entry_i,
  input  logic                         cfg_read_i,
  output page_map_entry_t              cfg_entry_o,
  output logic                         cfg_read_done_o
);
  logic [ReadLatency-1:0] reading_q;

  ram_1r1rw #(
    .data_t     (page_map_entry_t),
    .Depth      (Pages),
    .ReadLatency(ReadLatency)
  ) u_ram (
    .clk_i,
    .a_re_i   (look_i),
    .a_addr_i (page_i),
    .a_rdata_o(entry_o),
    .b_we_i   (cfg_write_i),
    .b_re_i   (cfg_read_i),
    .b_addr_i (cfg_index_i),
    .b_wdata_i(cfg_entry_i),
    .b_rdata_o(cfg_entry_o)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) reading_q <= '0;
    else reading_q <= ReadLatency'({reading_q, cfg_read_i});
  end
  assign cfg_read_done_o = reading_q[ReadLatency-1];
endmodule
