// SPDX-License-Identifier: Apache-2.0
// Analyzes one frame at a time: its header's result comes at a constant time, or earlier if the frame ends
// before the longest header would, its payload's when it is done.
//
// The frame is taken from the bank a word a tick: header bytes are kept, options walked, and the
// checksums of IPv4 and TCP added up. A payload function that takes longer is stood for by more ticks a
// word.
//
// Latency   : HeaderUnits + 2 ticks from the tick that takes the first word to header_valid_o, if the
//             frame comes without gaps; with gaps as much more. With Early, 2 ticks behind its end if that is
//             earlier, but EarlyUnits + 2 at least. 3 edges from the last word taken, and not before
//             toe_header is done with the header, to result_valid_o.
// Clock     : clk_i; tick_i makes it slower.
// Handshake : idle_o, then a frame at up to a beat an edge. A header can't wait, a result can.
// Drops     : never.
// Source    : sections 2.3 and 3.1 of the document on parallel protocol processing (packet analyzer);
//             RFC 1071.
module toe_analyzer
  import toe_pkg::*;
#(
  /// Bytes a tick, 4 or 8.
  parameter int unsigned BytesPerCycle = 8,
  /// Ticks for a word of payload; 1 is the checksum's.
  parameter int unsigned PayloadTicks = 1,
  /// Words of 8 bytes for the longest frame, or 8 if it is taken as fast as it comes.
  parameter int unsigned BankWords = 256,
  /// The header of a frame that ends early is told early. Only if frames begin so many ticks apart that headers
  /// stay in order all the same: more than HeaderUnits - EarlyUnits.
  parameter bit Early = 1'b0
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        tick_i,
  output logic        idle_o,
  input  beat_t       beat_i,
  input  logic        beat_valid_i,
  /// With the first beat.
  input  tag_t        tag_i,
  input  word_t       addr_i,
  output raw_header_t header_o,
  output logic        header_valid_o,
  output result_t     result_o,
  output logic        result_valid_o,
  input  logic        result_ready_i
);
  localparam int unsigned B = BytesPerCycle;
  localparam int unsigned HeaderUnits = (HeaderBytes + B - 1) / B;
  localparam int unsigned OptUnit = OptOffset / B;
  localparam int unsigned EarlyUnits = (MinFrame + B - 1) / B;
  localparam int unsigned AgeEnd = HeaderUnits + 2;
  localparam int unsigned AgeW = $clog2(AgeEnd + 2);
  localparam int unsigned WaitW = $clog2(PayloadTicks + 1);

  logic  active_q;

  // ---- The bank, read in units of B bytes --------------------------------------------------------
  beat_t beat;
  logic beat_there, take, unit_last, low_half;
  logic [  3:0]      unit_bytes;
  logic [B-1:0][7:0] unit_data;

  toe_word_fifo #(
    .data_t(beat_t),
    .Depth (BankWords)
  ) u_bank (
    .clk_i,
    .rst_i,
    .wdata_i (beat_i),
    .wvalid_i(beat_valid_i),
    .rdata_o (beat),
    .rvalid_o(beat_there),
    .rready_i(take && !low_half)
  );

  if (B == 8) begin : gen_wide
    assign low_half   = 1'b0;
    assign unit_data  = beat.data;
    assign unit_bytes = beat.bytes;
    assign unit_last  = beat.last;
  end else begin : gen_narrow
    logic half_q;
    always_ff @(posedge clk_i) begin
      if (!active_q) half_q <= 1'b0;
      else if (take) half_q <= low_half;
    end
    assign low_half   = !half_q && beat.bytes > 4'd4;
    assign unit_data  = half_q ? beat.data[63:32] : beat.data[31:0];
    assign unit_bytes = half_q ? beat.bytes - 4'd4 : low_half ? 4'd4 : beat.bytes;
    assign unit_last  = beat.last && !low_half;
  end

  // ---- Pace --------------------------------------------------------------------------------------
  logic ended_q, told_q, sent_q;
  logic   [ AgeW-1:0] age_q;
  logic   [WaitW-1:0] wait_q;
  bytes_t             index_q;  // of the next unit
  logic in_header, walked, step;
  tag_t  tag_q;
  word_t addr_q;

  // A frame that starves doesn't age: what comes behind it has not begun.
  assign step = tick_i && (take || ended_q || !in_header);
  assign in_header = index_q < 15'(HeaderUnits);
  assign take = tick_i && beat_there && active_q && !ended_q && wait_q == '0;
  assign idle_o = !active_q;
  assign walked         = ended_q && index_q < 15'(HeaderUnits) &&
      age_q >= AgeW'(index_q) + AgeW'(2) && age_q >= AgeW'(EarlyUnits + 2);
  assign header_valid_o = active_q && !told_q && (age_q == AgeW'(AgeEnd) || (Early && walked));

  always_ff @(posedge clk_i) begin
    if (beat_valid_i && !active_q) begin
      tag_q  <= tag_i;
      addr_q <= addr_i;
    end
    if (take) begin
      wait_q  <= in_header ? '0 : WaitW'(PayloadTicks - 1);
      index_q <= index_q + 1'b1;
    end else if (tick_i && wait_q != '0) begin
      wait_q <= wait_q - 1'b1;
    end
    if (step && age_q != AgeW'(AgeEnd)) age_q <= age_q + 1'b1;
    if (take && unit_last) ended_q <= 1'b1;
    if (header_valid_o) told_q <= 1'b1;
    if (!active_q) begin
      index_q <= '0;
      wait_q  <= '0;
      age_q   <= '0;
      ended_q <= 1'b0;
      told_q  <= 1'b0;
    end
    if (rst_i) active_q <= 1'b0;
    else if (beat_valid_i) active_q <= 1'b1;
    else if (sent_q) active_q <= 1'b0;
  end

  // ---- A unit: bytes kept, sums ------------------------------------------------------------------
  typedef struct packed {
    logic              valid;
    logic              last;
    logic              bad;
    logic [3:0]        bytes;
    bytes_t            index;
    logic [B-1:0][7:0] data;
  } unit_t;

  unit_t                        unit_q;
  logic  [HeaderBytes-1:0][7:0] kept_q;
  logic [31:0] tcp_sum_q, ip_sum_q;
  bytes_t seen_q, base;
  logic [15:0] total;
  // Where IP's packet ends, and the frame that can hold it. A length may be any number.
  logic [16:0] packet_end, frame_end;
  logic [63:0] tcp_part, ip_part;

  assign total      = {kept_q[16], kept_q[17]};
  assign packet_end = 17'(total) + 17'(EthBytes);
  assign frame_end  = packet_end + 17'(FcsBytes);
  assign base       = unit_q.index * 15'(B);

  always_comb begin
    tcp_part = '0;
    ip_part  = '0;
    for (int unsigned i = 0; i < B; i++) begin
      bytes_t at;
      at = base + 15'(i);
      // TCP's sum covers IPv4's addresses too.
      if (at >= 15'(TcpOffset - 8) && (at < 15'(TcpOffset) || 17'(at) < packet_end)) begin
        tcp_part[8*i+:8] = unit_q.data[i];
      end
      if (at >= 15'(EthBytes) && at < 15'(TcpOffset)) ip_part[8*i+:8] = unit_q.data[i];
    end
  end

  always_ff @(posedge clk_i) begin
    unit_q.valid <= take && !rst_i;
    unit_q.last  <= unit_last;
    unit_q.bad   <= beat.bad && unit_last;
    unit_q.bytes <= unit_bytes;
    unit_q.index <= index_q;
    if (take) unit_q.data <= unit_data;
    if (unit_q.valid) begin
      for (int unsigned i = 0; i < HeaderBytes; i++) begin
        if (unit_q.index == 15'(i / B)) kept_q[i] <= unit_q.data[i%B];
      end
      seen_q    <= seen_q + 15'(unit_q.bytes);
      tcp_sum_q <= add_halves(tcp_sum_q, tcp_part);
      ip_sum_q  <= add_halves(ip_sum_q, ip_part);
    end
    if (!active_q) begin
      seen_q    <= '0;
      tcp_sum_q <= '0;
      ip_sum_q  <= '0;
    end
  end

  // ---- Options, a word behind --------------------------------------------------------------------
  // A word is looked at when the next one is taken, and walked a step later.
  logic look, walk;
  logic [     7:0] look_pos;
  logic [AgeW-1:0] look_unit;

  assign look_unit = age_q - AgeW'(1);
  assign look      = step && age_q >= AgeW'(OptUnit + 1) && age_q < AgeW'(AgeEnd - 1);
  assign walk      = step && age_q >= AgeW'(OptUnit + 2) && age_q < AgeW'(AgeEnd);
  assign look_pos  = 8'(look_unit) * 8'(B) - 8'(OptOffset);

  logic [5:0] options_end;
  // A data offset below 5 ends the walk before it begins.
  assign options_end = kept_q[46][7:4] < 4'd5 ? '0 : {kept_q[46][7:4] - 4'd5, 2'd0};

  toe_options #(
    .BytesPerCycle(B)
  ) u_options (
    .clk_i,
    .clear_i  (!active_q),
    .look_i   (look),
    .bytes_i  ({unit_data[0], unit_q.data}),
    .pos_i    (look_pos),
    .end_i    (options_end),
    .step_i   (walk),
    .options_o(header_o.options)
  );

  assign header_o.tag   = tag_q;
  assign header_o.addr  = addr_q;
  assign header_o.bytes = kept_q;
  assign header_o.ip_ok = fold(ip_sum_q) == '1;

  // ---- The payload's result ----------------------------------------------------------------------
  typedef enum logic [1:0] {
    Adding,
    Folding,
    Waiting,  // for the header, and to be taken
    Over
  } end_e;

  end_e end_q;
  // From here on all bytes are counted.
  assign header_o.short_ = end_q != Adding && 17'(seen_q) < frame_end;

  logic good_q, whole_q;
  logic [15:0] pseudo_q;

  // The header passes toe_header meanwhile.
  assign result_valid_o = end_q == Waiting && told_q;
  assign result_o       = '{tag: tag_q, ok: good_q};
  assign sent_q         = end_q == Over;

  always_ff @(posedge clk_i) begin
    pseudo_q <= 16'(ProtocolTcp) + total - 16'(IpBytes);
    if (unit_q.valid) whole_q <= !unit_q.bad;
    if (end_q == Folding) begin
      good_q <= whole_q && 17'(seen_q) >= frame_end && fold(tcp_sum_q + 32'(pseudo_q)) == '1;
    end
    if (rst_i) end_q <= Adding;
    else begin
      unique case (end_q)
        Adding:  if (unit_q.valid && unit_q.last) end_q <= Folding;
        Folding: end_q <= Waiting;
        Waiting: if (result_valid_o && result_ready_i) end_q <= Over;
        default: end_q <= Adding;
      endcase
    end
  end

`ifndef SYNTHESIS
  initial
    assert (B == 4 || B == 8)
    else $fatal(1, "toe_analyzer takes 4 or 8 bytes a tick");
`endif
endmodule
