// SPDX-License-Identifier: Apache-2.0
// The one TLP stream of a PCI Express block, by class: posted requests, register reads, completions, each with a
// register slice and room to wait. So completions and register reads never wait for stores that can't be sent.
//
// Credits. The lane of posted requests holds as many as PostedHeaders and PostedData credits permit, and NonPosted
// others; the lane of reads holds NonPosted; the lane of completions CplWords. A board whose block advertises no more
// than that, and whose host reads no more at once than CplWords hold, never sees s_axis.tready low: no class
// waits for another. Beyond it the stream stops, all of it, until the lane that is full has room: nothing is lost,
// but what is behind waits for what is in front, whatever its class.
//
// A load or request that is refused needs room for its answer: while none can leave, what is posted behind it waits for
// that, as it waits for slots. Nothing here waits for something else to come.
//
// Order. One lane keeps posted requests in order, register writes with stores among them: a change of the page map
// holds for the TLPs behind it and for none before it. Loads (and requests that are refused) are in the same lane: what
// is non-posted passes no store to the same target. Register reads are not: they wait for the register writes that
// came before them, and for nothing else. That is a relaxation within the device: a register says nothing of a store that
// has not been sent, and FLUSH, a write, is what asks for that. Completions pass everything. PCI Express wants
// them behind posted requests for the sake of a reader who concludes from what he read that earlier stores are there;
// here the reader is a peer, his answer has its own slots, its own place in the frame builder's order and no number in
// the session, so that nothing kept it behind stores on the network before either.
//
// Latency   : 1 cycle of clk_i from s_axis to a lane's output while nothing waits there.
// Clock     : clk_i (PCIe).
// Handshake : s_axis.tready, words and reads (valid, ready) come from registers. read_valid_o stays low until the writes
//             before the read are done; write_done_i is a pulse for each. An offered read or word stays.
// Drops     : as tlp_parse says.
// Source    : PCI Express Base 2.0, 2.4 (ordering) and 2.6.1 (flow control).
module pcie_rx_split
  import tlp_pkg::*;
#(
  /// Pages in BAR 2.
  parameter int unsigned Pages = 262144,
  /// Posted header credits that the board's block advertises.
  parameter int unsigned PostedHeaders = 32,
  /// Posted data credits, of 16 bytes.
  parameter int unsigned PostedData = 128,
  /// Non-posted header credits.
  parameter int unsigned NonPosted = 16,
  /// Words of completions, of 8 bytes: for all reads in flight, and 3 more for each completion.
  parameter int unsigned CplWords = 512
) (
  input logic       clk_i,
  input logic       rst_i,
  /// TLPs; tuser is the BAR hit, valid with the first beat.
        axis_if.snk s_axis,

  output rx_word_t posted_o,
  output logic     posted_valid_o,
  input  logic     posted_ready_i,
  /// A register write is on its way, behind all that came before it, to whoever takes registers' operations in order.
  input  logic     write_done_i,

  output reg_read_t read_o,
  output logic      read_valid_o,
  input  logic      read_ready_i,

  output rx_word_t cpl_o,
  output logic     cpl_valid_o,
  input  logic     cpl_ready_i,

  output logic cnt_tlp_page_beyond_o,
  output logic cnt_tlp_unsupported_o,
  output logic cnt_tlp_poisoned_o,
  output logic cnt_tlp_malformed_o,
  output logic busy_o
);
  // Three words of a TLP have no data in the worst case (four DWs of header, a digest); of what is non-posted there
  // are two in all.
  localparam int unsigned PostedWords = 3 * PostedHeaders + 2 * PostedData + 2 * NonPosted;
  localparam int unsigned PostedDepth = 2 ** $clog2(PostedWords);
  // A write is two words at least; some more are between a lane and its user.
  localparam int unsigned WritesW = $clog2(PostedDepth) + 1;
  localparam int unsigned ReadsW = $clog2(NonPosted + 1);

  rx_word_t posted, cpl;
  reg_read_t read;
  logic posted_valid, write, write_q, read_valid, cpl_valid;
  logic posted_room, read_room, cpl_room;
  logic busy_parse;
  // Writes to registers that came, and that are done: their difference is less than half of what they count.
  logic [WritesW-1:0] writes_q, done_q, wanted, ahead;
  logic [ReadsW-1:0] reads, due_q;  // reads that wait, and how many of them for no write
  logic wanted_valid, due, read_pop;

  tlp_parse #(
    .Pages(Pages)
  ) u_parse (
    .clk_i,
    .rst_i,
    .s_axis,
    .ready_i       (posted_room && read_room && cpl_room),
    .posted_o      (posted),
    .posted_valid_o(posted_valid),
    .write_o       (write),
    .read_o        (read),
    .read_valid_o  (read_valid),
    .cpl_o         (cpl),
    .cpl_valid_o   (cpl_valid),
    .cnt_tlp_page_beyond_o,
    .cnt_tlp_unsupported_o,
    .cnt_tlp_poisoned_o,
    .cnt_tlp_malformed_o,
    .busy_o        (busy_parse)
  );

  slice_fifo #(
    .data_t(rx_word_t),
    .Depth (PostedDepth)
  ) u_posted (
    .clk_i,
    .rst_i,
    .wdata_i (posted),
    .wvalid_i(posted_valid),
    .wready_o(posted_room),
    .rdata_o (posted_o),
    .rvalid_o(posted_valid_o),
    .rready_i(posted_ready_i)
  );

  slice_fifo #(
    .data_t(rx_word_t),
    .Depth (2 ** $clog2(CplWords))
  ) u_cpl (
    .clk_i,
    .rst_i,
    .wdata_i (cpl),
    .wvalid_i(cpl_valid),
    .wready_o(cpl_room),
    .rdata_o (cpl_o),
    .rvalid_o(cpl_valid_o),
    .rready_i(cpl_ready_i)
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      write_q  <= 1'b0;
      writes_q <= '0;
      done_q   <= '0;
    end else begin
      // Counted a cycle later: a read takes two to come, and a write to be done.
      write_q  <= write;
      writes_q <= writes_q + WritesW'(write_q);
      done_q   <= done_q + WritesW'(write_done_i);
    end
  end

  // A read waits until as many writes are done as had come before it. It stays so however many pass it then.
  sync_fifo #(
    .data_t(logic [WritesW-1:0]),
    .Depth (NonPosted)
  ) u_wanted (
    .clk_i,
    .rst_i,
    .wdata_i (writes_q),
    .wvalid_i(read_valid),
    .wready_o(),
    .rdata_o (wanted),
    .rvalid_o(wanted_valid),
    .rready_i(due),
    .count_o ()
  );
  assign ahead = done_q - wanted;
  assign due   = wanted_valid && !ahead[WritesW-1];

  sync_fifo #(
    .data_t(reg_read_t),
    .Depth (NonPosted)
  ) u_read (
    .clk_i,
    .rst_i,
    .wdata_i (read),
    .wvalid_i(read_valid),
    .wready_o(read_room),
    .rdata_o (read_o),
    .rvalid_o(),
    .rready_i(read_pop),
    .count_o (reads)
  );
  assign read_valid_o = due_q != '0;
  assign read_pop     = read_ready_i && read_valid_o;
  always_ff @(posedge clk_i) begin
    if (rst_i) due_q <= '0;
    else due_q <= due_q + ReadsW'(due) - ReadsW'(read_pop);
  end

  assign busy_o = busy_parse || posted_valid_o || cpl_valid_o || reads != '0 || write_q ||
      writes_q != done_q;

`ifndef SYNTHESIS
  initial
    assert (PostedDepth >= 16)
    else $fatal(1, "pcie_rx_split: too few posted credits");
  assert property (@(posedge clk_i) disable iff (rst_i) write_done_i |-> writes_q != done_q)
  else $error("pcie_rx_split: a write is done that never came");
`endif
endmodule
