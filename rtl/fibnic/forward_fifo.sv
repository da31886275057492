// SPDX-License-Identifier: Apache-2.0
// FIFO between one input and one output: room for a frame that is being sent and one that waits.
//
// room_o is the drop threshold: a frame is taken, whole, only if none waits. CutThrough offers a
// frame with its first beat, else with its last.
//
// Latency   : w_start_i to req_o: combinational with CutThrough; first beat on rdata_o right after
//             the edge with start_i.
// Clock     : clk_i.
// Handshake : write: w_start_i with the first beat, only if room_o; w_valid_i with each beat; can't
//             wait. Read: start_i while req_o takes the frame; from the next cycle its beats are on
//             rdata_o, next_i brings the next one. With CutThrough the writer must be as fast as
//             the reader.
// Drops     : never; the writer counts frames without room.
// Source    : dissertation section 5.1.2.4, figures 5.6 and 5.7.
module forward_fifo #(
  /// Type of a beat; has a field `last`.
  parameter type data_t = fibnic_pkg::beat_t,
  /// Longest frame with FCS, bytes.
  parameter int unsigned MaxFrame = 9216,
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
  // A frame that is too long is cut in the beat behind.
  localparam int unsigned Depth = 2 * ((MaxFrame + 7) / 8 + 1);
  localparam int unsigned AddrW = $clog2(Depth);
  localparam logic [AddrW-1:0] Top = AddrW'(Depth - 1);

  logic [AddrW-1:0] wptr_q, rptr_q;
  logic waiting_q;  // a frame in here was not started, or is being written before it is offered
  logic offered_q;  // and may be
  logic active_q, bypass_q, load;
  data_t bypass_data_q, ram_data;

  assign room_o   = !waiting_q;
  assign req_o    = offered_q || (CutThrough && w_start_i);
  assign active_o = active_q;
  assign load     = start_i || (active_q && next_i && !rdata_o.last);
  assign rdata_o  = bypass_q ? bypass_data_q : ram_data;
  assign busy_o   = waiting_q || active_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      wptr_q    <= '0;
      rptr_q    <= '0;
      waiting_q <= 1'b0;
      offered_q <= 1'b0;
      active_q  <= 1'b0;
      bypass_q  <= 1'b0;
    end else begin
      if (w_valid_i) wptr_q <= wptr_q == Top ? '0 : wptr_q + 1'b1;
      if (load) rptr_q <= rptr_q == Top ? '0 : rptr_q + 1'b1;
      if (load) bypass_q <= w_valid_i && wptr_q == rptr_q;
      if (start_i) begin
        waiting_q <= 1'b0;
        offered_q <= 1'b0;
      end else begin
        if (w_start_i) waiting_q <= 1'b1;
        if (CutThrough ? w_start_i : w_valid_i && wdata_i.last) offered_q <= 1'b1;
      end
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
      a_start :
      assert (!start_i || (req_o && !(active_q && !(next_i && rdata_o.last))))
      else $error("a start without a frame");
      a_behind :
      assert (!load || rptr_q != wptr_q || w_valid_i)
      else $error("the reader overtook the writer");
    end
  end
`endif
endmodule
