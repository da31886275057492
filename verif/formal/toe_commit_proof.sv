// SPDX-License-Identifier: Apache-2.0
// No segment is committed as good before its own checksum passed, and none twice.
//
// Frames are free: when they are dispatched, when their headers and results come, in which order results
// come, which are bad, how slow the controller is. Of the engine this assumes what toe_analysis
// promises: headers in the order of slots, a result not before its header, one for each.
//
// Also the top of a bench with more slots: verif/toe/test_toe_commit.py.
//
// Clock  : clk_i.
// Source : docs/toe.md.
module toe_commit_proof
  import toe_pkg::*;
#(
`ifdef COUNTER
  parameter int unsigned Policy = 3,
`else
  parameter int unsigned Policy = 4,
`endif
`ifdef EPOCHS
  parameter int unsigned EpochLen = 2,
`else
  parameter int unsigned EpochLen = 1,
`endif
  parameter int unsigned StallAfter = 3,
  parameter int unsigned Slots = 4,
  localparam int unsigned SlotW = $clog2(Slots)
) (
  input  logic    clk_i,
  input  logic    rst_i,
  input  logic    take_i,
  input  logic    header_i,
  input  result_t result_i,
  input  logic    result_valid_i,
  input  logic    ready_i,
  input  logic    release_i,
  input  tag_t    release_tag_i,
  // For the bench.
  output logic    slot_ready_o,
  output tag_t    slot_o,
  output logic    apply_valid_o,
  output tag_t    apply_tag_o,
  output logic    apply_good_o
);
  logic slot_ready, good, valid;
  tag_t slot, tag;

  toe_scoreboard #(
    .Policy    (policy_e'(Policy)),
    .Slots     (Slots),
    .EpochLen  (EpochLen),
    .StallAfter(StallAfter),
    .record_t  (logic)
  ) u_dut (
    .clk_i,
    .rst_i,
    .slot_ready_o   (slot_ready),
    .slot_o         (slot),
    .slot_take_i    (take_i),
    .slot_addr_i    ('0),
    .record_i       (1'b0),
    .header_valid_i (header_i),
    .result_i,
    .result_valid_i,
    .apply_tag_o    (tag),
    .apply_good_o   (good),
    .apply_valid_o  (valid),
    .apply_ready_i  (ready_i),
    .record_o       (),
    .release_valid_i(release_i),
    .release_tag_i,
    .free_valid_o   (),
    .free_o         ()
  );

  assign slot_ready_o  = slot_ready;
  assign slot_o        = slot;
  assign apply_valid_o = valid;
  assign apply_tag_o   = tag;
  assign apply_good_o  = good;

  // ---- What became of each slot --------------------------------------------------------------------
  logic [Slots-1:0] taken_q, headed_q, judged_q, passed_q, applied_q;
  logic [SlotW-1:0] head_q, result_slot, release_slot, apply_slot;
  logic begun_q;
  initial begun_q = 1'b0;
  assign result_slot  = result_i.tag[SlotW-1:0];
  assign release_slot = release_tag_i[SlotW-1:0];
  assign apply_slot   = tag[SlotW-1:0];

  always_ff @(posedge clk_i) begin
    begun_q <= 1'b1;
    if (rst_i) begin
      taken_q   <= '0;
      headed_q  <= '0;
      judged_q  <= '0;
      passed_q  <= '0;
      applied_q <= '0;
      head_q    <= '0;
    end else begin
      if (header_i) begin
        head_q           <= head_q + 1'b1;
        headed_q[head_q] <= 1'b1;
      end
      if (result_valid_i) begin
        judged_q[result_slot] <= 1'b1;
        passed_q[result_slot] <= result_i.ok;
      end
      if (valid && ready_i) applied_q[apply_slot] <= 1'b1;
      if (release_i) taken_q[release_slot] <= 1'b0;
      if (take_i) begin
        taken_q[slot[SlotW-1:0]]   <= 1'b1;
        headed_q[slot[SlotW-1:0]]  <= 1'b0;
        judged_q[slot[SlotW-1:0]]  <= 1'b0;
        passed_q[slot[SlotW-1:0]]  <= 1'b0;
        applied_q[slot[SlotW-1:0]] <= 1'b0;
      end
    end
  end

  // ---- Environment -----------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (!begun_q) m_reset : assume (rst_i);
    if (take_i) m_take : assume (slot_ready);
    if (header_i) m_header : assume (taken_q[head_q] && !headed_q[head_q]);
    if (result_valid_i) begin
      m_result :
      assume (taken_q[result_slot] && !judged_q[result_slot] && (headed_q[result_slot] ||
              (header_i && head_q == result_slot)));
      m_tag : assume (32'(result_i.tag) < Slots);
    end
    if (release_i) begin
      m_release : assume (taken_q[release_slot] && applied_q[release_slot]);
      m_release_tag : assume (32'(release_tag_i) < Slots);
    end
  end

  // ---- Claims ------------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (begun_q && !rst_i) begin
      if (take_i) a_slot_is_free : assert (!taken_q[slot[SlotW-1:0]]);
      if (valid && ready_i) begin
        a_verified : assert (!good || (judged_q[apply_slot] && passed_q[apply_slot]));
        a_judged : assert (judged_q[apply_slot]);
        a_once : assert (taken_q[apply_slot] && !applied_q[apply_slot]);
      end
    end
  end
endmodule
