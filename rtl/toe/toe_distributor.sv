// SPDX-License-Identifier: Apache-2.0
// The network buffer, and dispatch of each frame in it to whichever analyzer is idle.
//
// Frames are dispatched in arrival order and get their slots in that order; analyzers end in any. Two
// copies of the data: one waits to be dispatched, one for the verdict, then it is read by rd_*.
//
// Latency   : 1 edge from s_eth to the analyzer if one is idle and nothing waits; 1 from rd_addr_i to
//             rd_data_o. Dispatches are at least Spacing edges apart.
// Clock     : clk_i.
// Handshake : s_eth can't wait. free_i moves the end of what is held: words before it may be
//             written over.
// Drops     : frames that find no room for the longest frame, counted. Longer ones are cut and marked bad.
// Source    : section 2.3 and figure 4 of the document on parallel protocol processing (out-of-order
//             dispatch, network I/F buffer).
module toe_distributor
  import toe_pkg::*;
#(
  /// Analyzers.
  parameter int unsigned Analyzers = 5,
  /// Words of 8 bytes in the buffer; a power of two.
  parameter int unsigned Words = 4096,
  /// Longest frame, with its FCS.
  parameter int unsigned MaxFrame = 1522,
  /// Edges between two dispatches: what a minimum frame takes on the wire, and what the controller
  /// takes for a header.
  parameter int unsigned Spacing = 8,
  localparam int unsigned AddrW = $clog2(Words)
) (
  input  logic                       clk_i,
  input  logic                       rst_i,
         axis_if.snk                 s_eth,
  output logic                       cnt_overflow_o,
  // To the analyzers.
  input  logic       [Analyzers-1:0] idle_i,
  output beat_t                      beat_o,
  output logic       [Analyzers-1:0] beat_valid_o,
  output word_t                      addr_o,
  // A slot for each frame, taken with its first beat.
  input  logic                       slot_ready_i,
  output logic                       slot_take_o,
  // Frames that wait for their verdict.
  input  logic                       rd_en_i,
  input  word_t                      rd_addr_i,
  output logic       [         63:0] rd_data_o,
  input  logic                       free_valid_i,
  /// The first word that is held.
  input  word_t                      free_i
);
  localparam int unsigned MaxWords = (MaxFrame + 7) / 8;
  localparam int unsigned GapW = $clog2(Spacing);

  // ---- In ------------------------------------------------------------------------------------------
  logic [AddrW-1:0] write_q, held_q, used;
  logic first_q, dropping_q, drop, beat, cut, end_of_frame;
  logic [AddrW-1:0] length_q, length;
  beat_t in;

  assign s_eth.tready = 1'b1;
  assign beat         = s_eth.tvalid;
  assign used         = write_q - held_q;
  // One word stays free: a full buffer looks unlike an empty one.
  assign drop         = first_q ? used >= AddrW'(Words - MaxWords - 1) : dropping_q;
  assign length       = first_q ? '0 : length_q;
  assign cut          = length == AddrW'(MaxWords - 1) && !s_eth.tlast;
  assign end_of_frame = s_eth.tlast || cut;

  always_comb begin
    in.data  = s_eth.tdata;
    in.bytes = '0;
    for (int unsigned i = 0; i < 8; i++) in.bytes += 4'(s_eth.tkeep[i]);
    in.last = end_of_frame;
    in.bad  = cut || (s_eth.tlast && s_eth.tuser[0]);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      first_q        <= 1'b1;
      dropping_q     <= 1'b0;
      write_q        <= '0;
      held_q         <= '0;
      cnt_overflow_o <= 1'b0;
    end else begin
      cnt_overflow_o <= beat && first_q && drop;
      if (free_valid_i) held_q <= free_i[AddrW-1:0];
      if (beat) begin
        first_q    <= s_eth.tlast;
        // What is behind a cut goes the way of a dropped frame.
        dropping_q <= drop || cut;
        if (!drop) write_q <= write_q + 1'b1;
      end
    end
    if (beat) length_q <= length + 1'b1;
  end

  logic put;
  assign put = beat && !drop;

  logic [63:0] read_q;
  ram_1r1w #(
    .data_t     (logic [63:0]),
    .Depth      (Words),
    .ReadLatency(1),
    .InitZero   (1'b0)
  ) u_held (
    .clk_i,
    .we_i   (put),
    .waddr_i(write_q),
    .wdata_i(s_eth.tdata),
    .re_i   (rd_en_i),
    .raddr_i(rd_addr_i[AddrW-1:0]),
    .rdata_o(read_q)
  );
  assign rd_data_o = read_q;

  // ---- Out -----------------------------------------------------------------------------------------
  logic there, begin_q, pop, start;
  logic [AddrW-1:0] addr_q;
  logic [ GapW-1:0] gap_q;
  logic [Analyzers-1:0] lowest, chosen_q, chosen;

  toe_word_fifo #(
    .data_t(beat_t),
    .Depth (Words)
  ) u_waiting (
    .clk_i,
    .rst_i,
    .wdata_i (in),
    .wvalid_i(put),
    .rdata_o (beat_o),
    .rvalid_o(there),
    .rready_i(pop)
  );

  assign lowest       = idle_i & (~idle_i + 1'b1);
  assign start        = there && begin_q && |idle_i && slot_ready_i && gap_q == '0;
  assign pop          = there && (begin_q ? start : 1'b1);
  assign chosen       = begin_q ? lowest : chosen_q;
  assign beat_valid_o = pop ? chosen : '0;
  assign slot_take_o  = start;
  assign addr_o       = word_t'(addr_q);

  always_ff @(posedge clk_i) begin
    if (start) chosen_q <= lowest;
    if (rst_i) begin
      begin_q <= 1'b1;
      addr_q  <= '0;
      gap_q   <= '0;
    end else begin
      if (start) gap_q <= GapW'(Spacing - 1);
      else if (gap_q != '0) gap_q <= gap_q - 1'b1;
      if (pop) begin
        begin_q <= beat_o.last;
        addr_q  <= addr_q + 1'b1;
      end
    end
  end

  // The addresses' field fits the largest build.
  logic unused;
  assign unused = ^{rd_addr_i, free_i};

`ifndef SYNTHESIS
  initial
    assert (Words > 2 * MaxWords)
    else $fatal(1, "toe_distributor needs room for two of the longest frames");
`endif
endmodule
