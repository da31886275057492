// SPDX-License-Identifier: Apache-2.0
// Tags of outstanding reads: an index that is reused and a generation that tells uses apart, what is
// remembered with each, time-outs, and quarantine.
//
// The lowest free index is taken; its generation grows when it is free again. While tags are out, passes over
// the table compare ages with the time-out, one index a cycle against the time at the start of the pass; after
// a pass the old ones are offered, lowest index first.
//
// Few bits of a generation fit a PCI Express tag, so a late completion could match a later read. With
// QuarantineLog2 an index whose read timed out, or was out when the NIC was reset, is not used again until its
// completion has come or the read is 2^QuarantineLog2 time-outs old. Which ones those are, and then the
// generations, live through a reset; power-up begins with none.
//
// Latency   : a tag taken or freed at an edge is so right after it. The tag that is offered is chosen a cycle
//             ahead: one that was freed at an edge can be taken from the second cycle on, and a tag can be taken
//             every second cycle. Look-up is combinational. A time-out is offered within 2 * Tags + 6 cycles of
//             the change of now_us_i that completes it.
// Clock     : clk_i.
// Handshake : take_i only with take_ok_o; free_i only with live_o; late_free_i only with late_o; expire_i only
//             with expired_o, and not in a cycle with free_i. take_ok_o stays until taken, and with keep_i
//             take_tag_o stays, too.
// Source    : docs/architecture.md; PCI Express Base 2.0, 2.8 (completion time-out).
module tag_pool #(
  /// Tags; a power of two from 2.
  parameter int unsigned Tags = 32,
  /// Bits of the generation.
  parameter int unsigned GenerationW = 3,
  /// Bits of it that tell uses apart when whole_i is low.
  parameter int unsigned ShortW = GenerationW,
  /// Quarantine, in time-outs, as a power of two from 1 to 31; 0: none.
  parameter int unsigned QuarantineLog2 = 0,
  /// What is remembered of a read.
  parameter type data_t = logic [31:0],
  localparam int unsigned IndexW = $clog2(Tags),
  localparam int unsigned TagW = GenerationW + IndexW
) (
  input logic        clk_i,
  input logic        rst_i,
  input logic [31:0] now_us_i,
  input logic [31:0] timeout_us_i,

  input  logic             take_i,
  input  data_t            take_data_i,
  output logic             take_ok_o,
  /// The tag that take_i takes.
  output logic  [TagW-1:0] take_tag_o,
  /// It is being offered further on and must not change.
  input  logic             keep_i,

  /// A tag that came back.
  input  logic  [TagW-1:0] tag_i,
  /// Its whole generation counts; else its ShortW low bits. May depend on data_o.
  input  logic             whole_i,
  /// It is outstanding.
  output logic             live_o,
  output data_t            data_o,
  input  logic             free_i,
  /// It is in quarantine.
  output logic             late_o,
  /// Nothing more of it can come.
  input  logic             late_free_i,

  output logic                              expired_o,
  output data_t                             expired_data_o,
  input  logic                              expire_i,
  /// Which tags are out, by index.
  output logic  [Tags-1:0]                  used_o,
  output logic  [Tags-1:0][GenerationW-1:0] generation_o,
  output logic                              busy_o
);
  localparam bit Quarantine = QuarantineLog2 != 0;

  data_t        data_q [Tags];
  logic  [31:0] start_q[Tags];
  logic [Tags-1:0] used_q, due_q, shut_q, free;
  logic [       Tags-1:0][GenerationW-1:0] generation_q;

  logic [GenerationW-1:0]                  apart;
  logic [IndexW-1:0] take_q, take_d, idx, expire_q, expire_d, scan_q, aged_q;
  logic any_free, any_due, take_ok_q, expired_q, match, scanning_q, old, over, end_shut;
  logic aged_used_q, aged_shut_q;
  logic [31:0] scan_now_q, age, age_q;

  initial begin
    used_q       = '0;
    shut_q       = '0;
    generation_q = '0;
  end

  // ---- Taken ------------------------------------------------------------------------------------
  // Chosen for the next cycle. Behind a take there is a cycle without an offer, in which it is seen to be out.
  assign free = ~(used_q | shut_q);
  ring_pick #(
    .N(Tags)
  ) u_free (
    .set_i  (free),
    .after_i('1),
    .any_o  (any_free),
    .index_o(take_d)
  );
  assign take_ok_o  = take_ok_q;
  assign take_tag_o = {generation_q[take_q], take_q};

  always_ff @(posedge clk_i) begin
    if (!(keep_i && take_ok_q && !take_i)) take_q <= take_d;
    if (take_i) begin
      data_q[take_q]  <= take_data_i;
      start_q[take_q] <= now_us_i;
    end
  end

  // ---- Looked up --------------------------------------------------------------------------------
  assign idx    = tag_i[IndexW-1:0];
  assign apart  = generation_q[idx] ^ tag_i[TagW-1:IndexW];
  assign match  = whole_i ? apart == '0 : apart[ShortW-1:0] == '0;
  assign live_o = used_q[idx] && match;
  assign late_o = shut_q[idx] && match;
  assign data_o = data_q[idx];

  // ---- Too old ----------------------------------------------------------------------------------
  // Chosen a cycle ahead; it may be freed in between.
  ring_pick #(
    .N(Tags)
  ) u_due (
    .set_i  (due_q),
    .after_i('1),
    .any_o  (any_due),
    .index_o(expire_d)
  );
  assign expired_o      = expired_q && due_q[expire_q];
  assign expired_data_o = data_q[expire_q];

  // A tag that was taken during the pass is younger than nothing: its age is negative. One that was free when
  // its age was read can't be out in the next cycle with that age.
  assign age            = scan_now_q - start_q[scan_q];
  assign old            = !age_q[31] && age_q >= timeout_us_i;
  assign over           = age_q[31] || (age_q >> QuarantineLog2) >= timeout_us_i;
  assign end_shut       = aged_shut_q && over;

  always_ff @(posedge clk_i) begin
    age_q    <= age;
    aged_q   <= scan_q;
    expire_q <= expire_d;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      used_q      <= '0;
      due_q       <= '0;
      take_ok_q   <= 1'b0;
      expired_q   <= 1'b0;
      scanning_q  <= 1'b0;
      aged_used_q <= 1'b0;
      aged_shut_q <= 1'b0;
      scan_q      <= '0;
      scan_now_q  <= '0;
    end else begin
      take_ok_q   <= any_free && !take_i;
      expired_q   <= any_due && !scanning_q;
      aged_used_q <= scanning_q && used_q[scan_q];
      aged_shut_q <= scanning_q && shut_q[scan_q];
      if (scanning_q) begin
        scan_q <= scan_q + 1'b1;
        if (scan_q == '1) scanning_q <= 1'b0;
      end else if ((|used_q || |shut_q) && due_q == '0 && !aged_used_q) begin
        scanning_q <= 1'b1;
        scan_now_q <= now_us_i;
      end
      if (aged_used_q && used_q[aged_q] && old) due_q[aged_q] <= 1'b1;
      if (free_i) begin
        used_q[idx] <= 1'b0;
        due_q[idx]  <= 1'b0;
      end
      if (expire_i) begin
        used_q[expire_q] <= 1'b0;
        due_q[expire_q]  <= 1'b0;
      end
      if (take_i) begin
        used_q[take_q] <= 1'b1;
        due_q[take_q]  <= 1'b0;
      end
    end
  end

  // Whether a read is still out in the host does not depend on our reset.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      if (Quarantine) shut_q <= shut_q | used_q;
      else generation_q <= '0;
    end else begin
      if (end_shut && shut_q[aged_q]) begin
        shut_q[aged_q]       <= 1'b0;
        generation_q[aged_q] <= generation_q[aged_q] + 1'b1;
      end
      if (late_free_i && !(end_shut && aged_q == idx)) begin
        shut_q[idx]       <= 1'b0;
        generation_q[idx] <= generation_q[idx] + 1'b1;
      end
      if (free_i) generation_q[idx] <= generation_q[idx] + 1'b1;
      if (expire_i && Quarantine) shut_q[expire_q] <= 1'b1;
      if (expire_i && !Quarantine) begin
        generation_q[expire_q] <= generation_q[expire_q] + 1'b1;
      end
    end
  end

  assign used_o       = used_q;
  assign generation_o = generation_q;
  // Nothing waits for the end of a quarantine; it is found when the clock runs for something else.
  assign busy_o       = |used_q;

`ifndef SYNTHESIS
  initial
    assert (Tags >= 2 && (Tags & (Tags - 1)) == 0)
    else $fatal(1, "tag_pool needs a power of two of tags, two or more");
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_take :
      assert (!take_i || take_ok_o)
      else $error("no tag was free");
      a_free :
      assert (!free_i || live_o)
      else $error("a tag was freed that is not out");
      a_late :
      assert (!late_free_i || late_o)
      else $error("a tag was let out of quarantine that is not in it");
      a_expire :
      assert (!expire_i || (expired_o && !free_i))
      else $error("expired at a bad time");
      a_shut :
      assert ((used_q & shut_q) == '0)
      else $error("a tag in quarantine was taken");
    end
  end
`endif
endmodule
