// SPDX-License-Identifier: Apache-2.0
// Moves verified payload from the network buffer to its place in the receive buffer, then tells.
//
// Only here, behind the verdict: a frame whose header was corrupted would else be written over bytes
// that were verified before.
//
// Latency   : 3 edges from place_i to write_o if nothing waits; a word an edge.
// Clock     : clk_i.
// Handshake : place: ready says that there is room for two. write: valid/ready. An event comes with the edge that takes the
//             last word, in the order of place_i.
// Drops     : never.
// Source    : own.
module toe_placer
  import toe_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_i,
  input  place_t            place_i,
  input  logic              place_valid_i,
  output logic              place_ready_o,
  output logic              rd_en_o,
  output word_t             rd_addr_o,
  /// 1 edge behind.
  input  logic       [63:0] rd_data_i,
  output logic              release_valid_o,
  output tag_t              release_tag_o,
  output mem_write_t        write_o,
  output logic              write_valid_o,
  input  logic              write_ready_i,
  output event_t            event_o,
  output logic              event_valid_o
);
  localparam int unsigned Depth = 8;
  localparam int unsigned Jobs = 4;
  localparam int unsigned UnderWay = 2;

  typedef struct packed {
    logic       write;
    mem_write_t word;
    logic       tell;
    event_t     event_;
  } out_t;

  // ---- Reads -----------------------------------------------------------------------------------------
  place_t job, back;
  logic job_valid, back_valid, back_ready, read, read_last, early, room;
  logic [12:0] beat_q, beats;
  logic [15:0] span;
  logic        flight_q;
  logic [ 3:0] out_count;
  logic [ 2:0] jobs;

  sync_fifo #(
    .data_t(place_t),
    .Depth (Jobs)
  ) u_jobs (
    .clk_i,
    .rst_i,
    .wdata_i (place_i),
    .wvalid_i(place_valid_i),
    .wready_o(),
    .rdata_o (job),
    .rvalid_o(job_valid),
    .rready_i(read && read_last),
    .count_o (jobs)
  );

  assign place_ready_o = jobs <= 3'(Jobs - 2);
  assign early         = job.offset[2:0] > job.seq[2:0];
  assign span          = 16'(job.bytes) + 16'(job.seq[2:0]) + 16'd7;
  assign beats         = job.bytes == '0 ? 13'd1 : span[15:3] + 13'(early);
  assign read_last     = beat_q == beats - 1'b1;
  assign room          = out_count <= 4'(Depth - UnderWay);
  assign read          = job_valid && room && back_ready;
  assign rd_en_o       = 1'b1;
  assign rd_addr_o     = job.addr + word_t'(job.offset[14:3]) + word_t'(beat_q);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      beat_q   <= '0;
      flight_q <= '0;
    end else begin
      if (read) beat_q <= read_last ? '0 : beat_q + 1'b1;
      flight_q <= read;
    end
  end

  // ---- Words come back -------------------------------------------------------------------------------
  logic moved, last;
  logic [12:0] index;
  out_t in, out;
  logic out_valid, done;

  sync_fifo #(
    .data_t(place_t),
    .Depth (4)
  ) u_back (
    .clk_i,
    .rst_i,
    .wdata_i (job),
    .wvalid_i(read && beat_q == '0),
    .wready_o(back_ready),
    .rdata_o (back),
    .rvalid_o(back_valid),
    .rready_i(done),
    .count_o ()
  );

  toe_move u_move (
    .clk_i,
    .rst_i,
    .source_i(back.offset[2:0]),
    .target_i(back.seq[2:0]),
    .bytes_i (back.bytes),
    .beat_i  (flight_q),
    .data_i  (rd_data_i),
    .valid_o (moved),
    .last_o  (last),
    .index_o (index),
    .data_o  (in.word.data),
    .strb_o  (in.word.strb)
  );

  assign done            = flight_q && last;
  assign in.write        = moved;
  assign in.word.conn    = back.event_.conn;
  assign in.word.word    = back.seq[31:3] + 29'(index);
  assign in.tell         = last && back.tell;
  assign in.event_       = back.event_;
  assign release_valid_o = done && back.slot;
  assign release_tag_o   = back.tag;

  sync_fifo #(
    .data_t(out_t),
    .Depth (Depth)
  ) u_out (
    .clk_i,
    .rst_i,
    .wdata_i (in),
    .wvalid_i(moved || (done && back.tell)),
    .wready_o(),
    .rdata_o (out),
    .rvalid_o(out_valid),
    .rready_i(!out.write || write_ready_i),
    .count_o (out_count)
  );

  assign write_o       = out.word;
  assign write_valid_o = out_valid && out.write;
  assign event_o       = out.event_;
  assign event_valid_o = out_valid && out.tell && (!out.write || write_ready_i);

  logic unused;
  assign unused = ^{span[2:0], back_valid, back};
endmodule
