// SPDX-License-Identifier: Apache-2.0
// The shared-region table, and the check of one store or load a frame against it.
//
// Per frame: clear_i with its first word, lookup_i with the word that has the key, check_i with a later
// word, when the whole operation is known. Until then nothing is permitted. An entry that is written while
// cfg_hold_o is low holds for every frame that is accepted afterwards.
//
// Latency : 1 cycle from lookup_i to tag_o; 1 cycle from check_i to result_o, which stays to clear_i.
//           A configuration read waits while a look-up is under way: 1 cycle to the rest of a frame.
// Clock   : clk_i (network).
// Source  : dissertation section 4.2; docs/wire-format.md. Valid bits are registers, so that reset closes
//           all regions.
module shared_region
  import wire_pkg::*;
  import rx_pkg::*;
#(
  /// Entries; a power of two from 2.
  parameter int unsigned Regions = 256,
  localparam int unsigned IndexW = $clog2(Regions)
) (
  input logic clk_i,
  input logic rst_i,

  /// A frame has begun and not ended: it may have been judged already.
  output logic                       cfg_hold_o,
  input  logic                       cfg_write_i,
  input  logic          [IndexW-1:0] cfg_index_i,
  input  region_entry_t              cfg_entry_i,
  input  logic                       cfg_read_i,
  output region_entry_t              cfg_entry_o,
  output logic                       cfg_read_done_o,

  /// A frame begins: forget the last one.
  input  logic                  clear_i,
  input  logic                  lookup_i,
  input  logic           [15:0] lookup_key_i,
  input  logic                  check_i,
  input  region_op_t            check_op_i,
  /// The frame is being judged by the result: no check follows any more, the table is free for reads. The
  /// next frame may begin in the same cycle.
  input  logic                  end_i,
  /// Tag of the entry, from the cycle after lookup_i to the next look-up.
  output logic           [11:0] tag_o,
  output region_result_t        result_o,
  output logic                  busy_o
);
  logic [Regions-1:0] valid_q;
  logic               exists_q;
  logic               looking_q;  // the entry in the RAM's output is needed
  logic cfg_wait_q, cfg_read, cfg_done_q;
  logic                 cfg_valid_q;
  logic                 in_frame_q;
  logic          [11:0] tag_q;
  region_entry_t        entry;
  region_result_t result_q, result;

  assign cfg_read = cfg_wait_q && !lookup_i && !looking_q;

  ram_1r1w #(
    .data_t(region_entry_t),
    .Depth (Regions)
  ) u_table (
    .clk_i,
    .we_i   (cfg_write_i),
    .waddr_i(cfg_index_i),
    .wdata_i(cfg_entry_i),
    .re_i   (lookup_i || cfg_read),
    .raddr_i(lookup_i ? lookup_key_i[IndexW-1:0] : cfg_index_i),
    .rdata_o(entry)
  );

  region_check u_check (
    .exists_i(exists_q),
    .entry_i (entry),
    .op_i    (check_op_i),
    .result_o(result)
  );

  always_ff @(posedge clk_i) begin
    if (lookup_i) exists_q <= 32'(lookup_key_i) < Regions && valid_q[lookup_key_i[IndexW-1:0]];
    if (cfg_read) cfg_valid_q <= valid_q[cfg_index_i];
    if (looking_q) tag_q <= entry.tag;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      valid_q    <= '0;
      looking_q  <= 1'b0;
      cfg_wait_q <= 1'b0;
      cfg_done_q <= 1'b0;
      result_q   <= '0;
      in_frame_q <= 1'b0;
    end else begin
      if (cfg_write_i) valid_q[cfg_index_i] <= cfg_entry_i.valid;

      if (lookup_i) looking_q <= 1'b1;
      else if (check_i || clear_i || end_i) looking_q <= 1'b0;

      if (cfg_read_i) cfg_wait_q <= 1'b1;
      else if (cfg_read) cfg_wait_q <= 1'b0;
      cfg_done_q <= cfg_read;

      if (clear_i) result_q <= '0;
      else if (check_i) result_q <= result;

      if (clear_i) in_frame_q <= 1'b1;
      else if (end_i) in_frame_q <= 1'b0;
    end
  end

  assign tag_o           = looking_q ? entry.tag : tag_q;
  assign result_o        = result_q;
  assign cfg_read_done_o = cfg_done_q;
  assign cfg_hold_o      = in_frame_q;
  assign busy_o          = looking_q || cfg_wait_q || cfg_done_q;

  always_comb begin
    cfg_entry_o       = entry;
    cfg_entry_o.valid = cfg_valid_q;
  end

`ifndef SYNTHESIS
  initial
    assert (Regions >= 2 && Regions <= 65536 && (Regions & (Regions - 1)) == 0)
    else $fatal(1, "shared_region needs a power of two of entries, 2 to 65536");
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_looked_up :
      assert (!check_i || looking_q)
      else $error("a check without its look-up");
      a_in_frame :
      assert (!(lookup_i || check_i) || in_frame_q)
      else $error("a look-up or a check outside of a frame");
      a_one_read :
      assert (!cfg_read_i || !cfg_wait_q)
      else $error("a read while one waits");
    end
  end
`endif
endmodule
