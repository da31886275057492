// SPDX-License-Identifier: Apache-2.0
// Decides when a segment may change its connection: the commit policy.
//
// Every frame has a slot from dispatch on; slots are given in arrival order. What the headers say waits
// in the slots: that is the provisional state, a log, and no header changes anything that a
// later bad checksum would have to undo. What apply_* hands out, the controller commits.
//   Epoch   : epochs of EpochLen slots count headers less results. The oldest segment goes when
//             its epoch's counter is at zero; a bad one goes as a hole. EpochLen 1 is a scoreboard.
//   Counter : one counter for all, as in the document: results are not tied to headers. At zero all that
//             came goes, or is discarded if one was bad. A bad result counts down like a good
//             one: setting the counter to zero there would let late results of the discarded
//             segments cancel later headers. Behind StallAfter segments that could not commit,
//             dispatch waits until all have.
//   Naive*  : order of completion.
//
// Latency   : 1 edge from the result that a segment waited for to apply_valid_o; record_o is there 1
//             edge after apply_tag_o.
// Clock     : clk_i.
// Handshake : slots: ready/take. Headers come in the order of slots, a result not before its header.
//             apply: valid/ready. A slot is free when it was released, and all before it.
// Drops     : never.
// Source    : section 2.3 of the document on parallel protocol processing; docs/toe.md.
module toe_scoreboard
  import toe_pkg::*;
#(
  parameter policy_e Policy = Epoch,
  /// Frames between dispatch and release; a power of two, 128 at most.
  parameter int unsigned Slots = 64,
  /// Slots of an epoch; a power of two.
  parameter int unsigned EpochLen = 1,
  /// Segments after which Counter stops dispatch.
  parameter int unsigned StallAfter = 32,
  /// What is kept of a header.
  parameter type record_t = header_t
) (
  input  logic    clk_i,
  input  logic    rst_i,
  output logic    slot_ready_o,
  output tag_t    slot_o,
  input  logic    slot_take_i,
  input  word_t   slot_addr_i,
  input  record_t record_i,
  input  logic    header_valid_i,
  input  result_t result_i,
  input  logic    result_valid_i,
  output tag_t    apply_tag_o,
  output logic    apply_good_o,
  output logic    apply_valid_o,
  input  logic    apply_ready_i,
  output record_t record_o,
  input  logic    release_valid_i,
  input  tag_t    release_tag_i,
  /// Where the oldest frame begins that is held.
  output logic    free_valid_o,
  output word_t   free_o
);
  localparam int unsigned SlotW = $clog2(Slots);
  localparam int unsigned PtrW = SlotW + 1;
  typedef logic [PtrW-1:0] ptr_t;

  ptr_t alloc_q, head_q, free_q, in_use;
  logic [Slots-1:0] released_q;
  logic [SlotW-1:0] free_slot, apply_slot;
  logic apply, stalled, move;

  // verilator lint_off UNUSEDSIGNAL
  function automatic logic [SlotW-1:0] slot(tag_t tag);
    return SlotW'(tag);
  endfunction
  // verilator lint_on UNUSEDSIGNAL

  // ---- Slots -------------------------------------------------------------------------------------
  assign in_use       = alloc_q - free_q;
  assign slot_ready_o = in_use != ptr_t'(Slots) && !stalled;
  assign slot_o       = tag_t'(alloc_q[SlotW-1:0]);
  assign apply        = apply_valid_o && apply_ready_i;
  assign apply_slot   = slot(apply_tag_o);
  assign free_slot    = free_q[SlotW-1:0];
  assign move         = released_q[free_slot] && free_q != alloc_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      alloc_q      <= '0;
      head_q       <= '0;
      free_q       <= '0;
      released_q   <= '0;
      free_valid_o <= 1'b0;
    end else begin
      if (slot_take_i) alloc_q <= alloc_q + 1'b1;
      if (header_valid_i) head_q <= head_q + 1'b1;
      if (release_valid_i) released_q[slot(release_tag_i)] <= 1'b1;
      if (move) begin
        released_q[free_slot] <= 1'b0;
        free_q                <= free_q + 1'b1;
      end
      free_valid_o <= move;
    end
  end

  // The frame released last stays held: where the next one begins may not be known yet.
  ram_1r1w #(
    .data_t  (word_t),
    .Depth   (Slots),
    .InitZero(1'b0)
  ) u_addresses (
    .clk_i,
    .we_i   (slot_take_i),
    .waddr_i(alloc_q[SlotW-1:0]),
    .wdata_i(slot_addr_i),
    .re_i   (move),
    .raddr_i(free_slot),
    .rdata_o(free_o)
  );

  ram_1r1w #(
    .data_t  (record_t),
    .Depth   (Slots),
    .InitZero(1'b0)
  ) u_records (
    .clk_i,
    .we_i   (header_valid_i),
    .waddr_i(head_q[SlotW-1:0]),
    .wdata_i(record_i),
    .re_i   (apply),
    .raddr_i(apply_slot),
    .rdata_o(record_o)
  );

  // ---- The policy --------------------------------------------------------------------------------
  if (Policy == Counter) begin : gen_counter
    ptr_t tail_q, behind_q, count_q;
    logic error_q, good_q, zero;

    assign zero          = count_q == '0 && tail_q == behind_q && head_q != tail_q;
    assign apply_valid_o = tail_q != behind_q;
    assign apply_tag_o   = tag_t'(tail_q[SlotW-1:0]);
    assign apply_good_o  = good_q;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        count_q  <= '0;
        tail_q   <= '0;
        behind_q <= '0;
        error_q  <= 1'b0;
        good_q   <= 1'b0;
        stalled  <= 1'b0;
      end else begin
        count_q <= count_q + ptr_t'(header_valid_i) - ptr_t'(result_valid_i);
        error_q <= (error_q && !zero) || (result_valid_i && !result_i.ok);
        if (zero) begin
          behind_q <= head_q;
          good_q   <= !error_q;
        end
        if (apply) tail_q <= tail_q + 1'b1;
        if (alloc_q == tail_q) stalled <= 1'b0;
        else if (alloc_q - tail_q >= ptr_t'(StallAfter)) stalled <= 1'b1;
      end
    end
    logic unused;
    assign unused = ^result_i.tag;

  end else if (Policy == Naive || Policy == NaiveReassembly) begin : gen_naive
    result_t done;
    assign stalled      = 1'b0;
    assign apply_tag_o  = done.tag;
    assign apply_good_o = done.ok;
    sync_fifo #(
      .data_t(result_t),
      .Depth (Slots)
    ) u_done (
      .clk_i,
      .rst_i,
      .wdata_i (result_i),
      .wvalid_i(result_valid_i),
      .wready_o(),
      .rdata_o (done),
      .rvalid_o(apply_valid_o),
      .rready_i(apply_ready_i),
      .count_o ()
    );

  end else begin : gen_epoch
    localparam int unsigned Len = Policy == Single ? 1 : EpochLen;
    localparam int unsigned Epochs = Slots / Len;
    localparam int unsigned LenW = $clog2(Len);
    localparam int unsigned CountW = LenW + 1;

    ptr_t                          tail_q;
    logic [Epochs-1:0][CountW-1:0] count_q;
    logic [ Slots-1:0]             bad_q;

    assign stalled       = 1'b0;
    assign apply_tag_o   = tag_t'(tail_q[SlotW-1:0]);
    assign apply_good_o  = !bad_q[apply_slot];
    assign apply_valid_o = tail_q != head_q && count_q[apply_slot>>LenW] == '0;

    always_ff @(posedge clk_i) begin
      if (rst_i) begin
        tail_q  <= '0;
        count_q <= '0;
      end else begin
        for (int unsigned e = 0; e < Epochs; e++) begin
          count_q[e] <= count_q[e] +
              CountW'(header_valid_i && (head_q[SlotW-1:0] >> LenW) == SlotW'(e)) -
              CountW'(result_valid_i && (slot(result_i.tag) >> LenW) == SlotW'(e));
        end
        if (apply) tail_q <= tail_q + 1'b1;
      end
      if (result_valid_i) bad_q[slot(result_i.tag)] <= !result_i.ok;
    end
  end

  // Slots are fewer than tags.
  logic unused_tags;
  assign unused_tags = ^{result_i.tag, release_tag_i};

`ifndef SYNTHESIS
  logic [Slots-1:0] verified_q, headed_q;
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      headed_q   <= '0;
      verified_q <= '0;
    end else begin
      if (slot_take_i) begin
        headed_q[alloc_q[SlotW-1:0]]   <= 1'b0;
        verified_q[alloc_q[SlotW-1:0]] <= 1'b0;
      end
      if (header_valid_i) headed_q[head_q[SlotW-1:0]] <= 1'b1;
      if (result_valid_i) verified_q[slot(result_i.tag)] <= result_i.ok;
      a_take : assert (!slot_take_i || slot_ready_o);
      a_header : assert (!header_valid_i || head_q != alloc_q);
      a_result :
      assert (!result_valid_i || headed_q[slot(
          result_i.tag
      )] || (header_valid_i && head_q[SlotW-1:0] == slot(
          result_i.tag
      )));
      a_verified : assert (!(apply && apply_good_o) || verified_q[apply_slot]);
    end
  end
`endif
endmodule
