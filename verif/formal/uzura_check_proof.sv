// SPDX-License-Identifier: Apache-2.0
// What uzura_check permits lies within an entry that is valid at that moment: its key, protection
// domain, rights and bounds. Nothing reaches host memory that it has not permitted (uzura_resolve asks
// it for every piece).
//
// Writes of the table, ends of keys by the peer, questions and resets are free. The proof keeps one
// arbitrary entry on its own, and what was asked; the design's table is tied to it by induction.
//
// Clock  : clk_i.
// Source : InfiniBand Architecture Specification, 10.6.3.
module uzura_check_proof
  import uzura_qp_pkg::*;
#(
  localparam int unsigned Entries = 2
) (
  input logic           clk_i,
  input logic           rst_i,
  input logic           cfg_write_i,
  input logic           cfg_index_i,
  input region_t        cfg_region_i,
  input logic           end_i,
  input logic    [31:0] end_key_i,
  input logic    [15:0] end_pd_i,
  input access_t        req_i,
  input logic    [ 1:0] req_id_i,
  input logic           req_valid_i
);
  logic valid, ok;
  logic [1:0] id;

  uzura_check #(
    .Entries(Entries)
  ) u_check (
    .out_valid_o    (valid),
    .out_id_o       (id),
    .out_ok_o       (ok),
    .out_translate_o(),
    .out_entry_o    (),
    .out_page_o     (),
    .out_offset_o   (),
    .*
  );

  // ---- One entry, arbitrary ---------------------------------------------------------------------
  logic entry_q, begun_q;
  region_t shadow_q;
  logic    ends;
  initial begun_q = 1'b0;
  assign ends = end_i && end_key_i == {23'd0, entry_q, shadow_q.tag} && end_pd_i == shadow_q.pd;

  always_ff @(posedge clk_i) begin
    entry_q <= entry_q;
    begun_q <= 1'b1;
    if (ends) shadow_q.valid <= 1'b0;
    if (cfg_write_i && cfg_index_i == entry_q) shadow_q <= cfg_region_i;
    if (rst_i) shadow_q.valid <= 1'b0;
  end

  // ---- What was asked, and the entry at that moment ---------------------------------------------
  typedef struct packed {
    logic       valid;
    logic [1:0] id;
    access_t    asked;
    region_t    region;
  } question_t;
  question_t q1, q2, q3;
  always_ff @(posedge clk_i) begin
    q1 <= '{valid: req_valid_i && !rst_i, id: req_id_i, asked: req_i, region: shadow_q};
    q2 <= q1;
    q3 <= q2;
    if (rst_i) begin
      q2.valid <= 1'b0;
      q3.valid <= 1'b0;
    end
  end

  // How far the first byte is behind the region's, if it is not before it.
  logic [63:0] distance2, distance3;
  assign distance2 = q2.asked.va - q2.region.base;
  assign distance3 = q3.asked.va - q3.region.base;

  always_comb begin
    if (!begun_q) m_reset : assume (rst_i);
    if (begun_q) begin
      a_answer : assert (valid == q3.valid);
      if (valid) begin
        a_id : assert (id == q3.id);
        if (ok) begin
          a_index : assert (q3.asked.key[31:8] < 24'(Entries));
          if (q3.asked.key[8] == entry_q) begin
            a_valid : assert (q3.region.valid && !q3.region.window);
            a_tag : assert (q3.asked.key[7:0] == q3.region.tag);
            a_domain : assert (q3.asked.pd == q3.region.pd);
            a_rights : assert ((q3.asked.need & ~q3.region.rights) == '0);
            a_first : assert (q3.asked.va >= q3.region.base);
            a_behind : assert (65'(distance3) + 65'(q3.asked.bytes) <= 65'(q3.region.length));
          end
        end
      end
      // ---- Ties -------------------------------------------------------------------------------
      i_valids : assert ({u_check.s1_valid_q, u_check.s2_valid_q} == {q1.valid, q2.valid});
      if (q1.valid) begin
        i_asked1 : assert (u_check.s1_q == q1.asked && u_check.s1_id_q == q1.id);
        if (u_check.s1_exists_q) begin
          i_index1 : assert (q1.asked.key[31:8] < 24'(Entries));
          if (q1.asked.key[8] == entry_q) begin
            i_exists1 : assert (q1.region.valid);
            i_region1 :
            assert (u_check.region[$bits(region_t)-2:0] == q1.region[$bits(region_t)-2:0]);
          end
        end
      end
      if (q2.valid) begin
        i_asked2 : assert (u_check.s2_q == q2.asked && u_check.s2_id_q == q2.id);
        if (u_check.permitted_q) begin
          i_index2 : assert (q2.asked.key[31:8] < 24'(Entries));
          if (q2.asked.key[8] == entry_q) begin
            i_valid2 : assert (q2.region.valid && !q2.region.window);
            i_tag2 : assert (q2.asked.key[7:0] == q2.region.tag && q2.asked.pd == q2.region.pd);
            i_rights2 : assert ((q2.asked.need & ~q2.region.rights) == '0);
            i_first2 : assert (q2.asked.va >= q2.region.base);
            i_distance2 : assert (u_check.offset_q == distance2);
            i_length2 : assert (u_check.length_q == q2.region.length);
          end
        end
      end
      i_valid : assert (u_check.valid_q[entry_q] == shadow_q.valid);
      if (shadow_q.valid) begin
        i_names : assert (u_check.names_q[entry_q] == {shadow_q.tag, shadow_q.pd});
        i_table :
        assert (u_check.u_regions.mem_q[entry_q][$bits(
            region_t
        )-2:0] == shadow_q[$bits(
            region_t
        )-2:0]);
      end
    end
  end
endmodule
