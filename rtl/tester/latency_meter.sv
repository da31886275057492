// SPDX-License-Identifier: Apache-2.0
// Results of each stream at a receiver: frames, latency, and what its sequence numbers tell.
//
// A number beyond all before: the ones between are lost, until they come late (reordered) within
// the window behind the highest. A number that has come already is a duplicate; one older than the
// window is stale: duplicate or late, nobody can tell. Frames with a wrong payload count as such
// and as not come. So frames + lost = next, always. Each number is timed and counted once.
//
// Latency   : valid_i to the record: 4 edges. rd_data_o: 1 edge after rd_stream_i and rd_field_i.
// Clock     : clk_i.
// Handshake : valid_i at most once in 5 cycles; frames of 64 bytes are farther apart.
// Drops     : frames that arrive while clear_i is high or within 4 edges of it may count or not.
// Source    : RFC 2544 section 26, RFC 4737 section 3 (reordering), RFC 5560 (duplicates).
module latency_meter (
  input  logic                                           clk_i,
  input  logic                                           rst_i,
  input  logic                                           clear_i,
  input  tester_pkg::arrival_t                           arrival_i,
  input  logic                                           valid_i,
  /// A latency to enter into the histogram.
  output tester_pkg::stamp_t                             latency_o,
  output logic                 [tester_pkg::StreamW-1:0] stream_o,
  output logic                                           measured_o,
  input  logic                 [tester_pkg::StreamW-1:0] rd_stream_i,
  input  logic                 [                    3:0] rd_field_i,
  output logic                 [                   63:0] rd_data_o,
  output logic                                           busy_o
);
  import tester_pkg::*;

  localparam int unsigned BackW = $clog2(WindowW);

  // Records of streams that have none yet are as this one.
  localparam stream_t Fresh = '{min: '1, default: '0};

  logic     [Streams-1:0] live_q;
  arrival_t               arrival_q;
  logic read_q, diff_q, write_q;
  stream_t stored, record, record_q, result, result_q;
  logic          rd_live_q;
  stream_t       rd_stored;
  // verilator lint_off UNUSEDSIGNAL
  stream_t       rd_record;  // all but the window
  // verilator lint_on UNUSEDSIGNAL
  logic    [3:0] rd_field_q;

  // Two copies, each with a read port.
  ram_1r1w #(
    .data_t     (stream_t),
    .Depth      (Streams),
    .ReadLatency(1)
  ) u_records (
    .clk_i,
    .we_i   (write_q),
    .waddr_i(arrival_q.stream),
    .wdata_i(result_q),
    .re_i   (1'b1),
    .raddr_i(arrival_i.stream),
    .rdata_o(stored)
  );

  ram_1r1w #(
    .data_t     (stream_t),
    .Depth      (Streams),
    .ReadLatency(1)
  ) u_records_rd (
    .clk_i,
    .we_i   (write_q),
    .waddr_i(arrival_q.stream),
    .wdata_i(result_q),
    .re_i   (1'b1),
    .raddr_i(rd_stream_i),
    .rdata_o(rd_stored)
  );

  // First edge: the record is read. Second: how far the number is from the next one.
  seq_t ahead_q, behind_q;  // number - next; next - 1 - number
  logic late_q;

  assign record = live_q[arrival_q.stream] ? stored : Fresh;

  always_ff @(posedge clk_i) begin
    if (valid_i) arrival_q <= arrival_i;
    if (read_q) begin
      record_q <= record;
      ahead_q  <= arrival_q.seq - record.next;
      behind_q <= record.next - 1'b1 - arrival_q.seq;
      late_q   <= arrival_q.seq < record.next;
    end
  end

  // Third: what it means.
  logic near, seen, fresh_number, stale, duplicate, reordered;
  logic [WindowW-1:0] one_back;

  always_comb begin
    near         = behind_q < 48'(WindowW);
    one_back     = WindowW'(1) << behind_q[BackW-1:0];
    seen         = (record_q.window & one_back) != '0;
    stale        = late_q && !near;
    duplicate    = late_q && near && seen;
    reordered    = late_q && near && !seen;
    fresh_number = !late_q || reordered;

    result       = record_q;
    if (arrival_q.wrong) begin
      result.wrong = record_q.wrong + 1'b1;
    end else begin
      result.stale      = record_q.stale + 32'(stale);
      result.duplicates = record_q.duplicates + 32'(duplicate);
      result.reordered  = record_q.reordered + 32'(reordered);
      if (!late_q) begin
        result.next   = arrival_q.seq + 1'b1;
        result.lost   = record_q.lost + ahead_q;
        result.window = WindowW'(1);
        if (ahead_q < 48'(WindowW - 1)) begin
          result.window = record_q.window << (ahead_q[BackW-1:0] + 1'b1) | WindowW'(1);
        end
      end else if (reordered) begin
        result.lost   = record_q.lost - 1'b1;
        result.window = record_q.window | one_back;
      end
      if (fresh_number) begin
        result.frames = record_q.frames + 1'b1;
        result.bytes  = record_q.bytes + 64'(arrival_q.size);
        result.sum    = record_q.sum + 64'(arrival_q.latency);
        result.last   = arrival_q.arrival;
        if (record_q.frames == '0) result.first = arrival_q.arrival;
        if (arrival_q.latency < record_q.min) result.min = arrival_q.latency;
        if (arrival_q.latency > record_q.max) result.max = arrival_q.latency;
      end
    end
  end

  // Fourth: the record is written.
  always_ff @(posedge clk_i) begin
    if (diff_q) result_q <= result;
    if (rst_i || clear_i) begin
      live_q  <= '0;
      read_q  <= 1'b0;
      diff_q  <= 1'b0;
      write_q <= 1'b0;
    end else begin
      read_q  <= valid_i;
      diff_q  <= read_q;
      write_q <= diff_q;
      if (write_q) live_q[arrival_q.stream] <= 1'b1;
    end
  end

  assign latency_o  = arrival_q.latency;
  assign stream_o   = arrival_q.stream;
  assign measured_o = diff_q && !arrival_q.wrong && fresh_number;
  assign busy_o     = read_q || diff_q || write_q;

  // The bus.
  always_ff @(posedge clk_i) begin
    rd_field_q <= rd_field_i;
    rd_live_q  <= live_q[rd_stream_i];
  end

  assign rd_record = rd_live_q ? rd_stored : Fresh;

  always_comb begin
    unique case (rd_field_q)
      StreamFrames:     rd_data_o = 64'(rd_record.frames);
      StreamBytes:      rd_data_o = rd_record.bytes;
      StreamMin:        rd_data_o = 64'(rd_record.min);
      StreamMax:        rd_data_o = 64'(rd_record.max);
      StreamSum:        rd_data_o = rd_record.sum;
      StreamLost:       rd_data_o = 64'(rd_record.lost);
      StreamDuplicates: rd_data_o = 64'(rd_record.duplicates);
      StreamReordered:  rd_data_o = 64'(rd_record.reordered);
      StreamStale:      rd_data_o = 64'(rd_record.stale);
      StreamWrong:      rd_data_o = 64'(rd_record.wrong);
      StreamNext:       rd_data_o = 64'(rd_record.next);
      StreamFirst:      rd_data_o = 64'(rd_record.first);
      StreamLast:       rd_data_o = 64'(rd_record.last);
      default:          rd_data_o = '0;
    endcase
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && valid_i) begin
      a_apart :
      assert (!busy_o)
      else $error("two frames within five cycles");
    end
    if (!rst_i && write_q && !arrival_q.wrong) begin
      a_sum :
      assert (result_q.frames + result_q.lost == result_q.next)
      else $error("a frame is neither here nor lost");
    end
  end
`endif
endmodule
