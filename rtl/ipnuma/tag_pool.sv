// SPDX-License-Identifier: Apache-2.0
// Tags of outstanding reads: an index that is reused and a generation that tells uses apart, what is
// remembered with each, and time-outs.
//
// The lowest free index is taken; its generation grows when it is freed. While tags are out, passes over the
// table compare ages with the time-out, one index a cycle against the time at the start of the pass; after a
// pass the old ones are offered, lowest index first.
//
// Latency   : a tag taken or freed at an edge is so right after it. Look-up is combinational. A time-out is
//             offered within 2 * Tags + 2 cycles of the change of now_us_i that completes it.
// Clock     : clk_i.
// Handshake : take_i only with take_ok_o; free_i only with live_o; expire_i only with expired_o, and not
//             in a cycle with free_i.
// Source    : docs/architecture.md; PCI Express Base 2.0, 2.8 (completion time-out).
module tag_pool #(
  /// Tags; a power of two from 2.
  parameter int unsigned Tags = 32,
  /// Bits of the generation.
  parameter int unsigned GenerationW = 3,
  /// Bits of it that tell uses apart when whole_i is low.
  parameter int unsigned ShortW = GenerationW,
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

  /// A tag that came back.
  input  logic  [TagW-1:0] tag_i,
  /// Its whole generation counts; else its ShortW low bits. May depend on data_o.
  input  logic             whole_i,
  /// It is outstanding.
  output logic             live_o,
  output data_t            data_o,
  input  logic             free_i,

  output logic                              expired_o,
  output data_t                             expired_data_o,
  input  logic                              expire_i,
  /// Which tags are out, by index.
  output logic  [Tags-1:0]                  used_o,
  output logic  [Tags-1:0][GenerationW-1:0] generation_o,
  output logic                              busy_o
);
  data_t        data_q [Tags];
  logic  [31:0] start_q[Tags];
  logic [Tags-1:0] used_q, due_q;
  logic [       Tags-1:0][GenerationW-1:0] generation_q;

  logic [GenerationW-1:0]                  apart;
  logic [IndexW-1:0] take_idx, idx, expire_idx, scan_q;
  logic scanning_q;
  logic [31:0] scan_now_q, age;

  always_comb begin
    take_idx   = '0;
    expire_idx = '0;
    for (int i = int'(Tags) - 1; i >= 0; i--) begin
      if (!used_q[i]) take_idx = IndexW'(i);
      if (due_q[i]) expire_idx = IndexW'(i);
    end
  end

  assign take_ok_o      = !(&used_q);
  assign take_tag_o     = {generation_q[take_idx], take_idx};

  assign idx            = tag_i[IndexW-1:0];
  assign apart          = generation_q[idx] ^ tag_i[TagW-1:IndexW];
  assign live_o         = used_q[idx] && (whole_i ? apart == '0 : apart[ShortW-1:0] == '0);
  assign data_o         = data_q[idx];

  assign expired_o      = |due_q && !scanning_q;
  assign expired_data_o = data_q[expire_idx];
  assign used_o         = used_q;
  assign generation_o   = generation_q;
  assign busy_o         = |used_q || scanning_q;

  // A tag that was taken during the pass is younger than nothing: its age is negative.
  assign age            = scan_now_q - start_q[scan_q];

  always_ff @(posedge clk_i) begin
    if (take_i) begin
      data_q[take_idx]  <= take_data_i;
      start_q[take_idx] <= now_us_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      used_q       <= '0;
      due_q        <= '0;
      generation_q <= '0;
      scanning_q   <= 1'b0;
      scan_q       <= '0;
      scan_now_q   <= '0;
    end else begin
      if (scanning_q) begin
        scan_q <= scan_q + 1'b1;
        if (scan_q == '1) scanning_q <= 1'b0;
        if (used_q[scan_q] && !age[31] && age >= timeout_us_i) due_q[scan_q] <= 1'b1;
      end else if (|used_q && due_q == '0) begin
        scanning_q <= 1'b1;
        scan_now_q <= now_us_i;
      end
      if (free_i) begin
        used_q[idx]       <= 1'b0;
        due_q[idx]        <= 1'b0;
        generation_q[idx] <= generation_q[idx] + 1'b1;
      end
      if (expire_i) begin
        used_q[expire_idx]       <= 1'b0;
        due_q[expire_idx]        <= 1'b0;
        generation_q[expire_idx] <= generation_q[expire_idx] + 1'b1;
      end
      if (take_i) begin
        used_q[take_idx] <= 1'b1;
        due_q[take_idx]  <= 1'b0;
      end
    end
  end

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
      a_expire :
      assert (!expire_i || (expired_o && !free_i))
      else $error("expired at a bad time");
    end
  end
`endif
endmodule
