// SPDX-License-Identifier: Apache-2.0
// FIFO between one input and one output: a frame that is being sent, and up to Waiting that wait.
//
// room_o is the drop threshold: a frame is taken, whole, only if fewer than Waiting wait and the
// longest frame fits behind what is stored, since nobody knows how long a frame becomes when its
// first beat comes. CutThrough offers a frame with its first beat, else with its last.
//
// Latency   : w_start_i to req_o: combinational with CutThrough; first beat on rdata_o right after
//             the edge with start_i. room_o is a register: a beat that is taken makes room from the
//             next cycle on.
// Clock     : clk_i, rst_i synchronous.
// Handshake : write: w_start_i with the first beat, only if room_o; w_valid_i with each beat; can't
//             wait. Read: start_i while req_o takes the frame; from the next cycle its beats are on
//             rdata_o, next_i brings the next one. start_i may come with the next_i of a last beat.
//             With CutThrough the writer must be as fast as the reader.
// Drops     : never; the writer counts frames without room.
// Source    : dissertation section 5.1.2.4, figures 5.6 and 5.7, where one frame may wait.
module forward_fifo #(
  /// Type of a beat; has a field `last`.
  parameter type data_t = fibnic_pkg::beat_t,
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
  /// Frames that may wait, beside the one that is being sent; 1 is the dissertation's.
  parameter int unsigned Waiting = 4,
  /// Size of the memory in frames of the longest size, from 1.
  parameter int unsigned Frames = 2,
  /// Offer a frame before it is complete.
  parameter bit CutThrough = 1'b1
) (
  input  logic  clk_i,
  input  logic  rst_i,
  output logic  room_o,
  input  logic  w_start_i,
  input  logic  w_valid_i,
  input  data_t wdata_i,
  output logic  req_o,
  input  logic  start_i,
  output logic  active_o,
  output data_t rdata_o,
  input  logic  next_i,
  /// A frame is in here.
  output logic  busy_o
);
  if (Waiting < 1 || Frames < 1) begin : gen_no_room
    $fatal(1, "forward_fifo: one frame or more waits, in memory for one or more");
  end

  // A frame that is too long is cut in the beat behind.
  localparam int unsigned Longest = (MaxFrame + 7) / 8 + 1;
  localparam int unsigned Depth = Frames * Longest;
  localparam int unsigned AddrW = $clog2(Depth);
  localparam logic [AddrW-1:0] Top = AddrW'(Depth - 1);

  // Counts in unary, one at the bottom: whether there is one, and whether there is room for another
  // one, are bits of a register, on a path that ends at the line.
  typedef logic [Waiting-1:0] unary_t;

  function automatic unary_t step(unary_t count, logic more, logic less);
    if (more == less) return count;
    return more ? unary_t'({count, 1'b1}) : unary_t'({1'b0, count} >> 1);
  endfunction

  logic [AddrW-1:0] wptr_q, rptr_q;
  unary_t waiting_q, waiting_d;  // frames in here that were not started, whole or not
  logic offered;  // one of them may be started
  logic fits_d;  // the longest frame fits behind what is stored
  logic room_q, active_q, bypass_q, load;
  data_t bypass_data_q, ram_data;

  assign waiting_d = step(waiting_q, w_start_i, start_i);
  assign room_o    = room_q;
  assign req_o     = offered || (CutThrough && w_start_i);
  assign active_o  = active_q;
  assign load      = start_i || (active_q && next_i && !rdata_o.last);
  assign rdata_o   = bypass_q ? bypass_data_q : ram_data;
  assign busy_o    = waiting_q[0] || active_q;

  if (CutThrough) begin : gen_first
    assign offered = waiting_q[0];
  end else begin : gen_whole
    unary_t whole_q;
    assign offered = whole_q[0];

    always_ff @(posedge clk_i) begin
      if (rst_i) whole_q <= '0;
      else whole_q <= step(whole_q, w_valid_i && wdata_i.last, start_i);
    end
  end

  if (Waiting < Frames) begin : gen_always
    // However long they are.
    assign fits_d = 1'b1;
  end else begin : gen_fits
    // Beats that may be stored so that the longest frame still fits behind them; the sign says no.
    localparam int unsigned SpareW = $clog2(Depth + 1) + 1;
    logic signed [SpareW-1:0] spare_q, spare_d;

    assign spare_d = spare_q + SpareW'(load) - SpareW'(w_valid_i);
    assign fits_d  = !spare_d[SpareW-1];

    always_ff @(posedge clk_i) spare_q <= rst_i ? SpareW'(Depth - Longest) : spare_d;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wptr_q    <= '0;
      rptr_q    <= '0;
      waiting_q <= '0;
      room_q    <= 1'b1;
      active_q  <= 1'b0;
      bypass_q  <= 1'b0;
    end else begin
      if (w_valid_i) wptr_q <= wptr_q == Top ? '0 : wptr_q + 1'b1;
      if (load) rptr_q <= rptr_q == Top ? '0 : rptr_q + 1'b1;
      // No beat is written into a full memory: with equal addresses the reader has caught up.
      if (load) bypass_q <= w_valid_i && wptr_q == rptr_q;
      waiting_q <= waiting_d;
      room_q    <= !waiting_d[Waiting-1] && fits_d;
      if (start_i) active_q <= 1'b1;
      else if (active_q && next_i && rdata_o.last) active_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (load) bypass_data_q <= wdata_i;
  end

  ram_1r1w #(
    .data_t  (data_t),
    .Depth   (Depth),
    .InitZero(1'b0)
  ) u_ram (
    .clk_i,
    .we_i   (w_valid_i),
    .waddr_i(wptr_q),
    .wdata_i,
    .re_i   (load),
    .raddr_i(rptr_q),
    .rdata_o(ram_data)
  );

`ifndef SYNTHESIS
  localparam int unsigned CountW = $clog2(Depth + 1);
  logic [CountW-1:0] count_q;

  always_ff @(posedge clk_i) begin
    count_q <= rst_i ? '0 : count_q + CountW'(w_valid_i) - CountW'(load);
    if (!rst_i) begin
      a_depth :
      assert (!w_valid_i || count_q != CountW'(Depth))
      else $error("the writer overtook the reader");
      a_room :
      assert (room_o || !w_start_i)
      else $error("a frame without room");
      a_fits :
      assert (!room_o || count_q <= CountW'(Depth - Longest))
      else $error("room for a frame that may be longer");
      a_start :
      assert (!start_i || (req_o && !(active_q && !(next_i && rdata_o.last))))
      else $error("a start without a frame");
      a_behind :
      assert (!load || count_q != '0 || w_valid_i)
      else $error("the reader overtook the writer");
    end
  end
`endif
endmodule
