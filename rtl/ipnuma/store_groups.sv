// SPDX-License-Identifier: Apache-2.0
// Tells which stores may be sent in one frame with the store before them, and where their payload goes.
//
// A store follows the one before it when it goes on where that one ended: same page, next DW, all bytes
// enabled on both sides of the seam, no more than 64 DWs in the group so far; and nothing else came between
// (load, mark, register write). A follower shares its group's place of payload, the first of a group takes
// the next place: with as many places as slots, a place is empty again when its turn comes, since every
// group in the slots has a slot of its own.
//
// Latency   : 0 cycles of clk_i from first_i to follows_o and place_o; both hold to the store's end.
// Clock     : clk_i (PCIe).
// Handshake : first_i with op_i at a page TLP's second word; take_i when its slot is taken, which may be the same
//             cycle. A TLP whose slot is not taken leaves no trace.
// Drops     : never.
// Source    : dissertation section 4.3.2; rules for byte enables: PCI Express Base 2.0, 2.2.5.
module store_groups
  import wire_pkg::MAX_DATA_DW;
#(
  /// Places of payload; a power of two.
  parameter int unsigned Places = 16,
  localparam int unsigned PlaceW = $clog2(Places)
) (
  input  logic                           clk_i,
  input  logic                           rst_i,
  /// Groups are wanted; else every store is alone.
  input  logic                           merge_i,
  /// Ends the group: what follows is not sent with what was before.
  input  logic                           break_i,
  input  logic                           first_i,
  // What a completion needs goes elsewhere.
  // verilator lint_off UNUSEDSIGNAL
  input  tlp_pkg::page_op_t              op_i,
  // verilator lint_on UNUSEDSIGNAL
  /// The enabled bytes are a run that reaches from the first to the last DW.
  input  logic                           contiguous_i,
  /// All bytes of the first DW, or of the last one, are within the run.
  input  logic                           full_start_i,
  input  logic                           full_end_i,
  input  logic                           take_i,
  /// What is taken is a store.
  input  logic                           take_store_i,
  output logic                           follows_o,
  output logic              [PlaceW-1:0] place_o
);
  // A store, as the next one wants to know it.
  typedef struct packed {
    logic [17:0]       page;
    logic [10:0]       next_dw;   // DW of the page behind it
    logic [6:0]        total_dw;  // of its group so far
    logic              open;      // the run goes on to its last byte
    logic [PlaceW-1:0] place;
  } store_t;

  logic follows, follows_q;
  store_t now, now_q;  // the store that is coming
  store_t              before_q;  // the last one taken
  logic                before_valid_q;
  logic   [PlaceW-1:0] next_place_q;
  logic   [       7:0] total;

  always_comb begin
    total   = 8'(before_q.total_dw) + 8'(op_i.length);
    now     = now_q;
    follows = follows_q;
    if (first_i) begin
      now.page = op_i.page;
      now.next_dw = 11'(op_i.offset[11:2]) + 11'(op_i.length);
      now.open = contiguous_i && full_end_i && !op_i.is_load;
      follows = merge_i && before_valid_q && before_q.open && !break_i && !op_i.is_load &&
          contiguous_i && full_start_i && op_i.page == before_q.page &&
          11'(op_i.offset[11:2]) == before_q.next_dw && total <= 8'(MAX_DATA_DW);
      now.total_dw = follows ? total[6:0] : op_i.length;
      now.place = follows ? before_q.place : next_place_q;
    end
  end
  assign follows_o = follows;
  assign place_o   = now.place;

  always_ff @(posedge clk_i) begin
    if (first_i) begin
      now_q     <= now;
      follows_q <= follows;
    end
    if (take_i && take_store_i) before_q <= now;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      before_valid_q <= 1'b0;
      next_place_q   <= '0;
    end else begin
      if (break_i) before_valid_q <= 1'b0;
      else if (take_i) before_valid_q <= take_store_i;
      if (take_i && take_store_i && !follows) next_place_q <= next_place_q + 1'b1;
    end
  end
endmodule
