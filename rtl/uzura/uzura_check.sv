// SPDX-License-Identifier: Apache-2.0
// Table of memory regions: may a key touch these bytes, and which entry of the translation table
// says where they are?
//
// Latency   : 3 edges from req_valid_i to out_valid_o; one question a cycle.
// Clock     : clk_i.
// Handshake : none; a question may come with every edge. An entry written at the edge of a question
//             counts from the next question on.
// Drops     : never; a denied question is answered as such.
// Source    : InfiniBand Architecture Specification, 10.6.3.
module uzura_check
  import uzura_qp_pkg::*;
#(
  /// Entries; a power of two.
  parameter int unsigned Entries = Regions,
  localparam int unsigned EntryW = $clog2(Entries)
) (
  input  logic                 clk_i,
  input  logic                 rst_i,
  input  logic                 cfg_write_i,
  input  logic    [EntryW-1:0] cfg_index_i,
  input  region_t              cfg_region_i,
  /// The peer ends the validity of a key: only if it is of this protection domain.
  input  logic                 end_i,
  input  logic    [      31:0] end_key_i,
  input  logic    [      15:0] end_pd_i,
  input  access_t              req_i,
  input  logic    [       1:0] req_id_i,
  input  logic                 req_valid_i,
  output logic                 out_valid_o,
  output logic    [       1:0] out_id_o,
  output logic                 out_ok_o,
  output logic                 out_translate_o,
  /// Entry of the translation table, and what lies below its page.
  output logic    [      31:0] out_entry_o,
  output logic    [       1:0] out_page_o,
  output logic    [      29:0] out_offset_o
);
  localparam int unsigned IndexBits = 24;

  // ---- The table; its valid bits apart, so that a reset clears them -----------------------------
  region_t               region;
  logic    [Entries-1:0] valid_q;
  logic    [ EntryW-1:0] index;
  assign index = req_i.key[8+:EntryW];

  ram_1r1w #(
    .data_t(region_t),
    .Depth (Entries)
  ) u_regions (
    .clk_i,
    .we_i   (cfg_write_i),
    .waddr_i(cfg_index_i),
    .wdata_i(cfg_region_i),
    .re_i   (req_valid_i),
    .raddr_i(index),
    .rdata_o(region)
  );

  // To end a key its tag and domain must be known without a look into the RAM.
  logic [      23:0] names_q   [Entries];
  logic [EntryW-1:0] end_index;
  assign end_index = end_key_i[8+:EntryW];

  always_ff @(posedge clk_i) begin
    if (cfg_write_i) names_q[cfg_index_i] <= {cfg_region_i.tag, cfg_region_i.pd};
    if (rst_i) begin
      valid_q <= '0;
    end else begin
      if (end_i && names_q[end_index] == {end_key_i[7:0], end_pd_i} &&
          end_key_i[31:8] < 24'(Entries))
        valid_q[end_index] <= 1'b0;
      if (cfg_write_i) valid_q[cfg_index_i] <= cfg_region_i.valid;
    end
  end

  // ---- Stage 1: the entry comes -----------------------------------------------------------------
  access_t s1_q, s2_q;
  logic [1:0] s1_id_q, s2_id_q;
  logic s1_valid_q, s2_valid_q, s1_exists_q;

  always_ff @(posedge clk_i) begin
    s1_q        <= req_i;
    s1_id_q     <= req_id_i;
    s1_exists_q <= valid_q[index] && req_i.key[31:8] < IndexBits'(Entries);
    s2_q        <= s1_q;
    s2_id_q     <= s1_id_q;
    if (rst_i) begin
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
    end else begin
      s1_valid_q <= req_valid_i;
      s2_valid_q <= s1_valid_q;
    end
  end

  // ---- Stage 2: distances -----------------------------------------------------------------------
  logic [63:0] offset_q;
  logic        permitted_q;
  logic [47:0] length_q;
  logic [31:0] first_q;
  logic [29:0] below_q;  // of the base in its page
  logic [ 1:0] page_q;
  logic [29:0] page_mask;

  assign page_mask = (30'd1 << page_log2(region.page)) - 30'd1;

  always_ff @(posedge clk_i) begin
    offset_q <= s1_q.va - region.base;
    permitted_q <= s1_exists_q && !region.window && s1_q.key[7:0] == region.tag &&
        s1_q.pd == region.pd && s1_q.va >= region.base &&
        (s1_q.need & ~region.rights) == '0;
    length_q <= region.length;
    first_q <= region.first_entry;
    below_q <= region.base[29:0] & page_mask;
    page_q <= region.page;
  end

  // ---- Stage 3: the verdict ---------------------------------------------------------------------
  logic [48:0] end_at;
  logic [48:0] from_page;
  assign end_at    = {1'b0, offset_q[47:0]} + 49'(s2_q.bytes);
  assign from_page = {1'b0, offset_q[47:0]} + 49'(below_q);

  always_ff @(posedge clk_i) begin
    out_id_o        <= s2_id_q;
    out_ok_o        <= permitted_q && offset_q[63:48] == '0 && end_at <= {1'b0, length_q};
    out_translate_o <= s2_q.translate;
    out_entry_o     <= first_q + 32'(from_page >> page_log2(page_q));
    out_page_o      <= page_q;
    out_offset_o    <= from_page[29:0] & ((30'd1 << page_log2(page_q)) - 30'd1);
    if (rst_i) out_valid_o <= 1'b0;
    else out_valid_o <= s2_valid_q;
  end
  logic unused;
  assign unused = ^{s2_q.key, s2_q.pd, s2_q.va, s2_q.need, region.valid};
endmodule
