// SPDX-License-Identifier: Apache-2.0
// Gives each received frame the next buffer of the receive ring: writes the frame there, then the
// descriptor's last DW, then moves HEAD.
//
// Latency   : frame_valid_i to write_valid_o none; between the two writes 1 cycle.
// Clock     : clk_i (PCIe).
// Handshake : a write is held until write_done_i.
// Drops     : frames that find the ring empty or receiving off, and frames longer than the buffer;
//             counted, 1 cycle each.
// Source    : dissertation section 3.2.2 ("1. DMA write").
module rx_dma
  import ring_types_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_i,
  input  logic             run_i,
  input  logic      [63:0] base_i,
  input  logic      [15:0] mask_i,
  /// Pulse: HEAD is 0 again. Only while idle_o.
  input  logic             restart_i,
  input  order_t           order_i,
  input  logic             order_valid_i,
  /// None is to come but what is here.
  input  logic             order_none_i,
  output logic             order_take_o,
  input  frame_t           frame_i,
  input  logic             frame_valid_i,
  output logic             frame_take_o,
  /// The word behind the frame that is taken.
  output logic      [13:0] free_word_o,
  output logic             free_valid_o,
  input  logic             free_ready_i,
  output write_op_t        write_o,
  output logic             write_valid_o,
  input  logic             write_done_i,
  output logic      [15:0] head_o,
  output logic             idle_o,
  output logic             cnt_packet_o,
  output logic             cnt_none_o,
  output logic             cnt_long_o
);
  logic        back_q;  // the frame is in memory; its descriptor is written
  logic        writing_q;  // a write was offered: what it says must stay
  logic [15:0] head_q;
  logic too_long, deliver, none, drop_long;

  assign too_long = 16'(frame_i.bytes) > order_i.bytes;
  assign deliver = frame_valid_i && free_ready_i && order_valid_i && !too_long &&
      (run_i || writing_q);
  assign none = frame_valid_i && free_ready_i && !writing_q &&
      (!run_i || order_none_i && !order_valid_i);
  assign drop_long = frame_valid_i && free_ready_i && run_i && order_valid_i && too_long;

  assign write_valid_o = deliver;
  always_comb begin
    write_o = '{
        address: order_i.address,
        immediate: back_q,
        data: {16'h8000, 16'(frame_i.bytes)},
        word: frame_i.word,
        bytes: frame_i.bytes
    };
    if (back_q) write_o.address = {base_i[63:7], 7'd0} + 64'({head_q, 4'hC});
  end

  assign cnt_packet_o = write_done_i && back_q;
  assign cnt_none_o   = none;
  assign cnt_long_o   = drop_long;
  assign order_take_o = cnt_packet_o;
  assign frame_take_o = cnt_packet_o || none || drop_long;
  assign free_valid_o = frame_take_o;
  assign free_word_o  = frame_i.word + 14'((frame_i.bytes + 14'd7) >> 3);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      back_q    <= 1'b0;
      writing_q <= 1'b0;
      head_q    <= '0;
    end else begin
      writing_q <= deliver && !cnt_packet_o;
      if (write_done_i) back_q <= !back_q;
      if (restart_i) head_q <= '0;
      else if (cnt_packet_o) head_q <= (head_q + 16'd1) & mask_i;
    end
  end

  assign head_o = head_q;
  assign idle_o = !writing_q && !deliver;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      write_valid_o && !write_done_i |=> write_valid_o && $stable(
      write_o
  ))
  else $error("rx_dma: an offered write was changed");
  assert property (@(posedge clk_i) disable iff (rst_i) restart_i |-> idle_o)
  else $error("rx_dma: begun anew while a frame is written");
`endif
  // A receive descriptor is always written back.
  logic unused;
  assign unused = ^{order_i.report, base_i[6:0]};
endmodule
