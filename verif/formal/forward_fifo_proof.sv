// SPDX-License-Identifier: Apache-2.0
// forward_fifo, for any frames up to the longest: none is lost, doubled, mixed with another or
// overwritten, they leave in their order, and room_o is high if and only if a frame may come. One
// beat, freely chosen, is followed through the memory; all are numbered within their frames.
//
// Clock  : clk_i.
// Source : ours.
module forward_fifo_proof #(
  parameter int unsigned Waiting = 1,
  parameter int unsigned Frames = 2,
  parameter bit CutThrough = 1'b1,
  localparam int unsigned MaxFrame = 9
) (
  input logic clk_i,
  input logic rst_i,
  input logic w_start_i,
  input logic w_valid_i,
  input logic last_i,
  input logic data_i,
  input logic start_i,
  input logic next_i,
  /// The beat written at this edge is the one to follow.
  input logic watch_i
);
  // As the module has them: 9 bytes are two beats, and one that is cut ends in the third.
  localparam int unsigned Longest = 3;
  localparam int unsigned Depth = Frames * Longest;
  localparam int unsigned CountW = $clog2(2 * Depth + 1);

  typedef struct packed {
    logic       data;
    logic [1:0] number;  // in its frame
    logic       last;
  } beat_t;

  typedef logic [CountW-1:0] count_t;

  function automatic logic [Waiting-1:0] unary(count_t count);
    return Waiting'((1 << count) - 1);
  endfunction

  beat_t wdata, rdata_o;
  logic room_o, req_o, active_o, busy_o;

  forward_fifo #(
    .data_t    (beat_t),
    .MaxFrame  (MaxFrame),
    .Waiting   (Waiting),
    .Frames    (Frames),
    .CutThrough(CutThrough)
  ) u_dut (
    .wdata_i(wdata),
    .*
  );

  // What is in there, by what went in and came out.
  logic started_q, writing_q, load;
  logic [1:0] length_q, sent_q;  // of the frame that is being written; beats of it that are out
  count_t stored_q, waiting_q, whole, lasts;
  // The beat that is followed.
  logic   watch_q;
  count_t place_q;
  beat_t value_q, value, newest;

  assign wdata = '{data: data_i, number: w_start_i ? 2'd0 : length_q, last: last_i};
  assign load  = start_i || (active_o && next_i && !rdata_o.last);
  assign whole = waiting_q - count_t'(writing_q && waiting_q != '0);

  // No beat says that its frame is longer than the longest.
  logic               lengths_kept;
  // What is stored, the oldest first.
  count_t [Depth-1:0] place;
  beat_t  [Depth-1:0] queue;
  // The numbers of its beats, and what they must be.
  logic [Depth-1:0][1:0] numbers, wanted;

  always_comb begin
    lasts = '0;
    for (int unsigned i = 0; i < Depth; i++) begin
      place[i] = count_t'(u_dut.rptr_q) + count_t'(i);
      if (place[i] >= count_t'(Depth)) place[i] = place[i] - count_t'(Depth);
      queue[i]   = u_dut.u_ram.mem_q[place[i]];
      numbers[i] = '0;
      wanted[i]  = '0;
      if (count_t'(i) < stored_q) begin
        lasts += count_t'(queue[i].last);
        numbers[i] = queue[i].number;
        if (i != 0) wanted[i] = queue[i-1].last ? '0 : queue[i-1].number + 1'b1;
        else if (active_o && !rdata_o.last) wanted[i] = rdata_o.number + 1'b1;
      end
    end
    value        = '0;
    newest       = rdata_o;
    lengths_kept = !active_o || rdata_o.last || rdata_o.number < 2'(Longest - 1);
    for (int unsigned i = 0; i < Depth; i++) begin
      if (place_q == count_t'(i)) value = queue[i];
      if (stored_q == count_t'(i + 1)) newest = queue[i];
      if (count_t'(i) < stored_q && !queue[i].last && queue[i].number >= 2'(Longest - 1))
        lengths_kept = 1'b0;
    end
  end

  initial begin
    started_q = 1'b0;
    watch_q   = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      started_q <= 1'b1;
      watch_q   <= 1'b0;
      writing_q <= 1'b0;
      stored_q  <= '0;
      waiting_q <= '0;
    end else begin
      stored_q  <= stored_q + count_t'(w_valid_i) - count_t'(load);
      waiting_q <= waiting_q + count_t'(w_start_i) - count_t'(start_i);
      if (w_valid_i) begin
        writing_q <= !last_i;
        length_q  <= wdata.number + 1'b1;
      end
      if (load) sent_q <= start_i ? 2'd1 : sent_q + 1'b1;
      if (watch_q) begin
        if (load) place_q <= place_q - 1'b1;
        if (load && place_q == '0) watch_q <= 1'b0;
      end else if (watch_i && w_valid_i && !(load && stored_q == '0)) begin
        watch_q <= 1'b1;
        place_q <= stored_q - count_t'(load);
        value_q <= wdata;
      end
    end

    if (started_q && !rst_i) begin
      // The writer: a frame of 1 to Longest beats, only where there is room.
      m_start : assume (!w_start_i || (room_o && !writing_q && w_valid_i));
      m_frame : assume (!w_valid_i || w_start_i || writing_q);
      m_length : assume (!w_valid_i || w_start_i || last_i || length_q != 2'(Longest - 1));
      // The reader: one frame after another.
      m_ready : assume (!start_i || (req_o && (!active_o || (next_i && rdata_o.last))));
      // It is no faster than a frame that is still being written, in cut-through.
      if (CutThrough && writing_q && waiting_q == '0) begin
        m_pace : assume (!next_i || stored_q != '0 || w_valid_i);
      end

      // The environment's reckoning is the module's.
      a_stored : assert (stored_q <= count_t'(Depth));
      a_addresses : assert (u_dut.rptr_q < Depth && u_dut.wptr_q < Depth);
      a_distance : assert (count_t'(u_dut.wptr_q) == (count_t'(u_dut.rptr_q) + stored_q) % Depth);
      a_waiting : assert (waiting_q <= count_t'(Waiting));
      a_unary : assert (u_dut.waiting_q == unary(waiting_q));
      a_busy : assert (busy_o == (active_o || waiting_q != '0));
      a_empty : assert (busy_o || (stored_q == '0 && !writing_q));

      // room_o never lies, and a frame that began finds room to its end.
      a_room :
      assert (room_o == (waiting_q != count_t'(Waiting) && stored_q <= count_t'(Depth - Longest)));
      a_length : assert (!writing_q || (length_q >= 1 && length_q < 2'(Longest)));
      a_to_the_end :
      assert (!writing_q || stored_q + count_t'(Longest) - count_t'(length_q) <= count_t'(Depth));
      a_depth : assert (!w_valid_i || stored_q != count_t'(Depth));

      // A frame is offered with its first beat or its last, and the reader always finds a beat.
      if (CutThrough) begin
        a_first : assert (req_o == (waiting_q != '0 || w_start_i));
      end else begin
        a_whole : assert (req_o == (whole != '0));
        a_whole_waits : assert (!writing_q || waiting_q != '0);
      end
      a_behind : assert (!load || stored_q != '0 || w_valid_i);

      // Frames lie behind one another, each with one end, but for the one that is being written.
      a_frames :
      assert (lasts + count_t'(writing_q) == waiting_q + count_t'(active_o && !rdata_o.last));
      a_newest : assert (newest.last == !writing_q || (stored_q == '0 && !active_o));
      a_written : assert (!writing_q || newest.number + 1'b1 == length_q);
      a_begun : assert (waiting_q == '0 || stored_q != '0);
      a_short : assert (lengths_kept);
      a_numbers : assert (numbers == wanted);
      a_whole_frame : assert (!active_o || rdata_o.number + 1'b1 == sent_q);

      // The beat that is followed keeps its place and its value.
      if (watch_q) begin
        a_place : assert (place_q < stored_q);
        a_value : assert (value == value_q);
      end
    end
  end

  if (!CutThrough) begin : gen_whole
    always_ff @(posedge clk_i) begin
      if (started_q && !rst_i) begin
        a_whole_unary : assert (u_dut.gen_whole.whole_q == unary(whole));
      end
    end
  end

  if (Waiting >= Frames) begin : gen_fits
    always_ff @(posedge clk_i) begin
      if (started_q && !rst_i) begin
        a_spare : assert (int'(u_dut.gen_fits.spare_q) == int'(Depth - Longest) - int'(stored_q));
      end
    end
  end

  // It comes out in its turn, as it was, and stays until the next one is asked for.
  logic  due_q;
  beat_t due_value_q;

  initial due_q = 1'b0;

  always_ff @(posedge clk_i) begin
    if (rst_i) due_q <= 1'b0;
    else if (load) begin
      due_q       <= watch_q ? place_q == '0 : watch_i && w_valid_i && stored_q == '0;
      due_value_q <= watch_q ? value_q : wdata;
    end
    if (started_q && !rst_i && due_q) begin
      a_comes_out : assert (rdata_o == due_value_q);
    end
  end
endmodule
