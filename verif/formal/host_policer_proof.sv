// SPDX-License-Identifier: Apache-2.0
// host_policer, for any rate and burst, any frames and any room: in any window of n periods of the rate
// at most burst + n frames pass; a port that keeps to its rate and burst is never refused; a policer
// that is off refuses nothing; and a frame that is refused takes no place, one that passes had room.
//
// A window begins in any cycle and measures its periods itself: each cycle is `rate` parts of a period
// of ClockHz parts. Windows of up to 18 periods are counted; those of any length by a vessel that leaks
// `rate` parts a cycle and into which each frame that passes pours a period's, which is the most that any
// window up to now has above its length.
// Who keeps to the rate is said by such a vessel, too: no frame comes, with room behind the policer or
// without, that would make it overflow at `burst` periods.
// A port is watched from any cycle on in which the bucket is full, as after reset.
//
// Clock  : clk_i.
// Source : ours; RFC 2697 section 3, ITU-T I.371 annex A (the continuous-state leaky bucket).
module host_policer_proof #(
  localparam int unsigned ClockHz = 7,
  localparam int unsigned RateW = 3,
  localparam int unsigned BurstW = 2
) (
  input logic              clk_i,
  input logic              rst_i,
  input logic [ RateW-1:0] rate_i,
  input logic [BurstW-1:0] burst_i,
  input logic              offer_i,
  input logic              room_i,
  /// The window begins with this cycle.
  input logic              open_i,
  /// The port is watched from this cycle on.
  input logic              watch_i
);
  typedef struct packed {
    logic [BurstW-1:0] burst;
    logic [RateW-1:0]  rate;
  } police_t;

  // Parts of a window, and ClockHz times as many, with room for what a step adds.
  localparam int unsigned CountW = 10;
  localparam int unsigned Most = 126;
  typedef logic [CountW-1:0] count_t;

  logic room_o, refused_o;

  host_policer #(
    .ClockHz (ClockHz),
    .police_t(police_t),
    .Reset   ('{burst: 2'd2, rate: 3'd3})
  ) u_dut (
    .police_i('{burst: burst_i, rate: rate_i}),
    .*
  );

  logic started_q, settled_q;
  logic [ RateW-1:0] rate_q;
  logic [BurstW-1:0] burst_q;

  // The window: its length in parts of a period, and what passed.
  logic              open_q;
  count_t parts_q, passed_q, periods;
  // Tokens that came in it, and what there was when it began.
  count_t came_q, rest_q;

  // What passed in the worst window of any length.
  count_t worst_q;

  // The port that keeps to its rate: what is in its vessel.
  logic watch_q, keeps;
  count_t vessel_q;

  function automatic count_t leak(count_t vessel);
    return vessel > count_t'(rate_i) ? vessel - count_t'(rate_i) : '0;
  endfunction

  logic pass, start;
  count_t fraction, credit;

  assign pass     = offer_i && room_o;
  // A period that has begun counts as one.
  assign periods  = (parts_q + count_t'(ClockHz - 1)) / count_t'(ClockHz);
  assign keeps    = vessel_q + count_t'(ClockHz) <= count_t'(burst_i) * count_t'(ClockHz);
  // What the design holds, in parts.
  assign fraction = count_t'(int'(u_dut.part_q) + int'(ClockHz));
  assign credit   = count_t'(u_dut.tokens_q) * count_t'(ClockHz) + fraction;
  assign start    = settled_q && rate_i != '0;

  initial begin
    started_q = 1'b0;
    settled_q = 1'b0;
    open_q    = 1'b0;
    watch_q   = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    rate_q  <= rate_i;
    burst_q <= burst_i;
    if (rst_i) begin
      started_q <= 1'b1;
      settled_q <= 1'b0;
      open_q    <= 1'b0;
      watch_q   <= 1'b0;
    end else begin
      // Settings, and a bucket that is not above them.
      settled_q <= u_dut.set_q.rate == rate_i && u_dut.set_q.burst == burst_i &&
          (u_dut.tokens_q <= burst_i || settled_q);

      if (open_q || (open_i && start)) begin
        open_q   <= (open_q ? parts_q : '0) < count_t'(Most);
        parts_q  <= (open_q ? parts_q : '0) + count_t'(rate_i);
        passed_q <= (open_q ? passed_q : '0) + count_t'(pass);
        came_q   <= (open_q ? came_q : '0) + count_t'(u_dut.more);
        if (!open_q) rest_q <= fraction;
      end
      worst_q <= start ? leak(worst_q + (pass ? count_t'(ClockHz) : '0)) : '0;

      if (watch_q) vessel_q <= leak(vessel_q) + (pass ? count_t'(ClockHz) : '0);
      else if (watch_i && start && u_dut.tokens_q == burst_i && !offer_i) begin
        watch_q  <= 1'b1;
        vessel_q <= '0;
      end
    end

    if (started_q && !rst_i) begin
      // Settings stay once they count; before that they are free.
      m_settings : assume (!settled_q || (rate_i == rate_q && burst_i == burst_q));
      m_keeps : assume (!watch_q || !offer_i || keeps);

      // The design's registers.
      a_fraction : assert (u_dut.part_q < 0 && u_dut.part_q >= -int'(ClockHz));
      a_carry : assert (int'(u_dut.carry_q) == int'(u_dut.set_q.rate) - int'(ClockHz));
      a_token : assert (u_dut.pass_q == (u_dut.set_q.rate == '0 || u_dut.tokens_q != '0));
      if (settled_q) begin
        a_settled : assert (u_dut.set_q.rate == rate_i && u_dut.set_q.burst == burst_i);
        a_burst : assert (u_dut.tokens_q <= burst_i);
      end

      // At most burst + n frames in a window of n periods, wherever it begins.
      if (open_q) begin
        a_open : assert (settled_q && rate_i != '0);
        a_few : assert (came_q <= parts_q);
        a_rest : assert (rest_q < count_t'(ClockHz));
        a_came : assert (came_q * count_t'(ClockHz) + fraction == rest_q + parts_q);
        a_sum : assert (passed_q + count_t'(u_dut.tokens_q) <= count_t'(burst_i) + came_q);
        a_length : assert (parts_q < count_t'(Most) + count_t'(1 << RateW));
        a_window : assert (passed_q <= count_t'(burst_i) + periods);
      end

      // The same of any length: a period that has begun is counted as one here, too.
      if (start) begin
        a_held : assert (worst_q + credit < count_t'(ClockHz) * (count_t'(burst_i) + 1'b1));
        a_worst : assert (worst_q < count_t'(ClockHz) * (count_t'(burst_i) + 1'b1));
      end

      // Who keeps to it finds a token.
      if (watch_q) begin
        a_watched : assert (settled_q && rate_i != '0);
        a_vessel : assert (vessel_q <= count_t'(burst_i) * count_t'(ClockHz));
        a_credit : assert (credit + vessel_q >= count_t'(burst_i) * count_t'(ClockHz));
        a_never : assert (!refused_o);
      end

      // A frame passes whole or not at all, and is told of once.
      a_off : assert (u_dut.set_q.rate != '0 || !refused_o);
      a_one : assert (!(refused_o && room_o));
      a_room : assert (!room_o || room_i);
      a_told : assert (!offer_i || room_o || refused_o || !room_i);
    end
  end
endmodule
