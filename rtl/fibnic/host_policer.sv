// SPDX-License-Identifier: Apache-2.0
// A token bucket in front of the host port, one for each port of arrival: of a flood for the host so
// many frames a second pass, and a burst. It stands before the FIFO to the host, so that what is
// refused takes no memory there, and nothing of another port's; it has no part in what is forwarded.
//
// A token comes each ClockHz / rate cycles on average, none a cycle early: tokens are counted by the
// fraction of one that each cycle adds. A frame that finds no room behind the policer takes none.
//
// Latency   : offer_i and room_i to room_o, refused_o: combinational, no edge is added. A token counts
//             from the edge on at which it comes; settings an edge after they are given.
// Clock     : clk_i, rst_i synchronous. After reset the bucket is full, and full it is while it is off.
// Handshake : offer_i for a cycle with the first beat of a frame; it is taken if room_o is high then.
// Drops     : whole frames, a pulse of refused_o for each.
// Source    : RFC 6192; RFC 2697 section 3 has the bucket.
module host_policer
  import fibnic_pkg::*;
#(
  /// Frequency of clk_i; no rate may be higher.
  parameter int unsigned ClockHz = 156_250_000,
  /// Type of the settings.
  parameter type police_t = fibnic_pkg::police_t,
  /// What they are after reset, as port_settings has them.
  parameter police_t Reset = PoliceReset
) (
  input  logic    clk_i,
  input  logic    rst_i,
  input  police_t police_i,
  /// A frame for the host begins.
  input  logic    offer_i,
  /// Room in the FIFO behind.
  input  logic    room_i,
  output logic    room_o,
  output logic    refused_o
);
  // The fraction is kept as what is missing to a token: its sign says that there is one, and no
  // comparison follows the sum.
  localparam int unsigned PartW = $clog2(ClockHz + 1) + 1;
  typedef logic signed [PartW-1:0] part_t;
  typedef logic [$bits(Reset.burst)-1:0] tokens_t;

  function automatic part_t gain(logic [$bits(Reset.rate)-1:0] rate);
    return part_t'({1'b0, rate});
  endfunction

  localparam part_t Whole = part_t'(ClockHz);

  police_t set_q;
  part_t part_q, part_d, sum, carry_q;
  logic more, take, off, pass_q;
  tokens_t tokens_q, kept, taken, tokens_d;

  assign off       = set_q.rate == '0;
  assign room_o    = room_i && pass_q;
  assign refused_o = offer_i && !pass_q;
  assign take      = offer_i && room_o;

  assign sum       = part_q + gain(set_q.rate);
  assign more      = !sum[PartW-1];
  assign part_d    = more ? part_q + carry_q : sum;

  // The count with this cycle's frame, which is known late, and without it.
  always_comb begin
    kept  = tokens_q;
    taken = tokens_q - 1'b1;
    if (off) begin
      kept  = police_i.burst;
      taken = police_i.burst;
    end else if (tokens_q > set_q.burst) begin
      kept  = set_q.burst;
      taken = set_q.burst;
    end else if (more) begin
      taken = tokens_q;
      if (tokens_q != set_q.burst) kept = tokens_q + 1'b1;
    end
  end

  assign tokens_d = take ? taken : kept;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      set_q    <= Reset;
      carry_q  <= gain(Reset.rate) - Whole;
      part_q   <= -Whole;
      tokens_q <= Reset.burst;
      pass_q   <= Reset.rate == '0 || Reset.burst != '0;
    end else begin
      set_q    <= police_i;
      carry_q  <= gain(police_i.rate) - Whole;
      part_q   <= part_d;
      tokens_q <= tokens_d;
      pass_q   <= police_i.rate == '0 || (take ? taken != '0 : kept != '0);
    end
  end

`ifndef SYNTHESIS
  // Nothing is promised before the first reset, which may come late.
  logic begun_q;

  initial begin
    begun_q = 1'b0;
    assert (ClockHz >= 2 ** $bits(Reset.rate) - 1)
    else $fatal(1, "host_policer: a token a cycle at most");
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      begun_q <= 1'b1;
    end else if (begun_q) begin
      a_token :
      assert (pass_q == (off || tokens_q != '0))
      else $error("a frame without a token, or a token without a frame");
      a_fraction :
      assert (part_q < 0 && part_q >= -Whole)
      else $error("a whole token that is not counted");
    end
  end
`endif
endmodule
