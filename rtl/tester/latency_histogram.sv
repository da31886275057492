// SPDX-License-Identifier: Apache-2.0
// Histogram of latencies: equal bins from a base on, and the counts below and above them.
//
// The base is a setting, or follows from the first latency after clear_i: a quarter of the bins
// below it.
//
// Latency   : valid_i to the bin: 4 edges. rd_data_o: 1 edge after rd_addr_i.
// Clock     : clk_i.
// Handshake : valid_i at most once in 5 cycles.
// Drops     : latencies that arrive within 4 edges of clear_i may count or not.
// Source    : RFC 2544 section 26.2 asks for a mean; the histogram shows that it is constant.
module latency_histogram (
  input  logic                                                 clk_i,
  input  logic                                                 rst_i,
  input  logic                                                 clear_i,
  input  tester_pkg::histogram_cfg_t                           cfg_i,
  input  tester_pkg::stamp_t                                   latency_i,
  input  logic                       [tester_pkg::StreamW-1:0] stream_i,
  input  logic                                                 valid_i,
  /// The base in use.
  output tester_pkg::stamp_t                                   base_o,
  /// A bin; Bins: below; Bins + 1: above.
  input  logic                       [     tester_pkg::BinW:0] rd_addr_i,
  output logic                       [                   47:0] rd_data_o,
  output logic                                                 busy_o
);
  import tester_pkg::*;

  typedef logic [47:0] count_t;

  logic [Bins-1:0] live_q;
  count_t below_q, above_q;
  stamp_t base_q, base, auto_base, over;
  logic found_q;  // base_q is there
  logic take, place_q, read_q, write_q, under_q, beyond_q;
  stamp_t latency_q, offset_q;
  logic [BinW-1:0] bin_q;
  count_t stored, count_q;

  assign take      = valid_i && cfg_i.streams[stream_i];
  assign over      = StampW'(Bins / 4) << cfg_i.shift;
  assign auto_base = latency_q > over ? latency_q - over : '0;
  assign base      = !cfg_i.auto_base ? cfg_i.base : found_q ? base_q : auto_base;
  assign base_o    = cfg_i.auto_base ? base_q : cfg_i.base;

  always_ff @(posedge clk_i) begin
    if (take) latency_q <= latency_i;
    // Second edge: the bin.
    if (place_q) begin
      offset_q <= (latency_q - base) >> cfg_i.shift;
      under_q  <= latency_q < base;
    end
    // Third: its count is read; fourth: written.
    bin_q    <= offset_q[BinW-1:0];
    beyond_q <= offset_q >= StampW'(Bins);
    count_q  <= live_q[bin_q] ? stored + 1'b1 : 48'd1;
  end

  // Steps: place, look, read, write.
  logic look_q;

  always_ff @(posedge clk_i) begin
    if (rst_i || clear_i) begin
      place_q <= 1'b0;
      look_q  <= 1'b0;
      read_q  <= 1'b0;
      write_q <= 1'b0;
      found_q <= 1'b0;
      base_q  <= '0;
      live_q  <= '0;
      below_q <= '0;
      above_q <= '0;
    end else begin
      place_q <= take;
      look_q  <= place_q;
      read_q  <= look_q && !under_q;
      write_q <= read_q && !beyond_q;
      if (place_q && !found_q) begin
        found_q <= 1'b1;
        base_q  <= auto_base;
      end
      if (look_q && under_q) below_q <= below_q + 1'b1;
      if (read_q && beyond_q) above_q <= above_q + 1'b1;
      if (write_q) live_q[bin_q] <= 1'b1;
    end
  end

  // Two copies, each with a read port.
  count_t          rd_stored;
  logic   [BinW:0] rd_addr_q;
  logic            rd_live_q;

  ram_1r1w #(
    .data_t     (count_t),
    .Depth      (Bins),
    .ReadLatency(1)
  ) u_bins (
    .clk_i,
    .we_i   (write_q),
    .waddr_i(bin_q),
    .wdata_i(count_q),
    .re_i   (1'b1),
    .raddr_i(offset_q[BinW-1:0]),
    .rdata_o(stored)
  );

  ram_1r1w #(
    .data_t     (count_t),
    .Depth      (Bins),
    .ReadLatency(1)
  ) u_bins_rd (
    .clk_i,
    .we_i   (write_q),
    .waddr_i(bin_q),
    .wdata_i(count_q),
    .re_i   (1'b1),
    .raddr_i(rd_addr_i[BinW-1:0]),
    .rdata_o(rd_stored)
  );

  always_ff @(posedge clk_i) begin
    rd_addr_q <= rd_addr_i;
    rd_live_q <= live_q[rd_addr_i[BinW-1:0]];
  end

  always_comb begin
    if (!rd_addr_q[BinW]) rd_data_o = rd_live_q ? rd_stored : '0;
    else if (rd_addr_q[BinW-1:0] == '0) rd_data_o = below_q;
    else if (rd_addr_q[BinW-1:0] == BinW'(1)) rd_data_o = above_q;
    else rd_data_o = '0;
  end

  assign busy_o = place_q || look_q || read_q || write_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && valid_i) begin
      a_apart :
      assert (!busy_o)
      else $error("two latencies within five cycles");
    end
  end
`endif
endmodule
