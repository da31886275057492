// SPDX-License-Identifier: Apache-2.0
// Carries out the plan of a frame: sends it to a FIFO, or to none, and rewrites MAC addresses, TTL
// or hop limit, and header checksum. The egress is a tag beside the frame, set with its first beat,
// where the preamble was.
//
// Frames for the host keep their bytes. A frame that is still arriving can't be called back: if it
// turns out bad, its last beat says so and the MAC spoils its FCS. With store_i a frame waits here
// until its end is known, and goes nowhere if that is bad. What is not forwarded waits, too, until
// it is known to be no runt: for its end, or 64 bytes long. At 10G beats come one a cycle, unless the
// receive clock has stopped: then the frame is cut there and spoiled, and what comes of it later is
// thrown away. At 1G gmii_elastic does the same.
//
// Latency   : plan and first beat to w_start_o: combinational, if the frame before has passed.
// Clock     : clk_i, rst_i synchronous.
// Handshake : as frame_plan and the receiver give, and forward_fifo takes. A frame that began passes
//             as fast as its beats come.
// Drops     : whole frames, one pulse in stat_o for each; see verdict_e, and stat_o.full.
// Source    : dissertation section 5.1.2.1, figure 5.5, section 5.1.2.3; RFC 1624 equation 3.
module rewrite
  import fibnic_pkg::*;
#(
  /// Network ports.
  parameter int unsigned N = 4,
  /// Cycles a beat on the line.
  parameter int unsigned BeatCycles = 1
) (
  input  logic                     clk_i,
  input  logic                     rst_i,
  input  logic       [N-1:0][47:0] mac_i,
  /// Store-and-check.
  input  logic                     store_i,
  input  logic                     plan_valid_i,
  input  plan_t                    plan_i,
  output logic                     plan_pop_o,
  // From the receiver.
  input  logic                     beat_valid_i,
  input  beat_t                    beat_i,
  output logic                     beat_pop_o,
  input  logic                     end_valid_i,
  input  end_t                     end_i,
  output logic                     end_pop_o,
  // To the FIFOs; bit N is the host's.
  input  logic       [  N:0]       room_i,
  output logic       [  N:0]       w_start_o,
  output logic       [  N:0]       w_valid_o,
  output beat_t                    beat_o,
  /// Of the frame of beat_o.
  output verdict_e                 verdict_o,
  output port_stat_t               stat_o,
  /// A frame has begun to leave, and not ended.
  output logic                     open_o,
  /// A frame is passing.
  output logic                     busy_o
);
  // The shortest good frame takes so long to arrive.
  localparam int unsigned HoldCycles = 8 * BeatCycles;
  localparam int unsigned HoldW = $clog2(HoldCycles + 1);

  logic end_known, brief, bad, held, start, run_q, last;
  logic starved, cut_q;  // no beat when one is due; what follows of the frame is thrown away
  logic [HoldW-1:0] hold_q;
  logic [2:0] idx, idx_q;  // beat; stays at 4
  logic [N:0] target, select, select_q;
  logic [1:0] owed_q;  // frames passed whose end was not popped
  verdict_e verdict, verdict_start, verdict_q;
  logic [47:0] mac, mac_q, source;
  logic [3:0] port, port_q;
  logic v6, v6_q;
  logic [15:0] sum_in, sum_out;

  assign end_known = end_valid_i && owed_q == '0;
  assign brief     = end_known && end_i.brief;
  assign bad       = end_known && store_i && end_i.bad;
  assign held      = store_i || (plan_i.verdict != VForward && hold_q != HoldW'(HoldCycles));
  assign start     = plan_valid_i && beat_valid_i && !run_q && (end_known || !held);

  always_comb begin
    if (brief) verdict_start = VDropRunt;
    else if (plan_i.verdict != VDropRunt && bad) verdict_start = VDropBad;
    else verdict_start = plan_i.verdict;
  end

  assign plan_pop_o = start;
  assign beat_pop_o = start || (run_q && beat_valid_i);
  assign last       = beat_pop_o && beat_i.last;
  assign end_pop_o  = end_valid_i && (last || owed_q != '0);
  assign idx        = start ? 3'd0 : idx_q;
  assign verdict    = start ? verdict_start : verdict_q;

  always_comb begin
    target = '0;
    unique case (plan_i.verdict)
      VForward: for (int unsigned i = 0; i < N; i++) target[i] = plan_i.port == 4'(i);
      VDropNotMine, VDropHeader, VDropMartian, VDropRoute, VDropAcl, VDropVlan, VDropRunt, VDropBad:
      ;
      default: target[N] = 1'b1;
    endcase
    if (brief || bad) target = '0;
  end

  assign select    = start ? target & room_i : select_q;
  assign w_start_o = start ? select : '0;
  assign starved   = BeatCycles == 1 && run_q && !cut_q && !beat_valid_i;
  assign w_valid_o = (beat_pop_o && !cut_q) || starved ? select : '0;

  always_ff @(posedge clk_i) begin
    if (start) begin
      select_q  <= select;
      mac_q     <= plan_i.mac;
      port_q    <= plan_i.port;
      v6_q      <= plan_i.v6;
      verdict_q <= verdict;
    end
    if (rst_i) begin
      run_q  <= 1'b0;
      cut_q  <= 1'b0;
      idx_q  <= '0;
      owed_q <= '0;
      hold_q <= '0;
    end else begin
      cut_q <= starved || (cut_q && !last);
      if (beat_pop_o) begin
        run_q <= !beat_i.last;
        idx_q <= idx == 3'd4 ? 3'd4 : idx + 1'b1;
      end
      owed_q <= owed_q + 2'(last) - 2'(end_pop_o);
      if (start || !plan_valid_i) hold_q <= '0;
      else if (beat_valid_i && !run_q && held && hold_q != HoldW'(HoldCycles))
        hold_q <= hold_q + 1'b1;
    end
  end

  // The frame as it leaves. Byte 0 is in the low lane.
  assign mac  = start ? plan_i.mac : mac_q;
  assign port = start ? plan_i.port : port_q;
  assign v6   = start ? plan_i.v6 : v6_q;

  always_comb begin
    source = '0;
    for (int unsigned i = 0; i < N; i++) if (port == 4'(i)) source |= mac_i[i];
  end

  // HC' = ~(~HC + ~m + m') with m' = m - 0x0100.
  always_comb begin
    logic [16:0] sum;
    sum_in  = {beat_i.data[7:0], beat_i.data[15:8]};
    sum     = 17'({1'b0, ~sum_in}) + 17'h0feff;
    sum_out = ~(sum[15:0] + 16'(sum[16]));
  end

  always_comb begin
    beat_o      = beat_i;
    beat_o.last = beat_i.last || starved;
    beat_o.bad  = beat_i.bad || starved;
    if (verdict == VForward) begin
      unique case (idx)
        3'd0: begin
          for (int unsigned i = 0; i < 6; i++) beat_o.data[8*i+:8] = mac[8*(5-i)+:8];
          beat_o.data[63:48] = {source[39:32], source[47:40]};
        end
        3'd1: for (int unsigned i = 0; i < 4; i++) beat_o.data[8*i+:8] = source[8*(3-i)+:8];
        3'd2:
        if (v6) beat_o.data[47:40] = beat_i.data[47:40] - 8'd1;
        else beat_o.data[55:48] = beat_i.data[55:48] - 8'd1;
        3'd3: if (!v6) beat_o.data[15:0] = {sum_out[7:0], sum_out[15:8]};
        default: ;
      endcase
    end
  end

  assign verdict_o = verdict;
  assign open_o    = run_q && !cut_q;
  assign busy_o    = run_q || owed_q != '0;

  always_comb begin
    stat_o         = '0;
    stat_o.spoiled = ((last && beat_i.bad && !cut_q) || starved) && |select;
    if (start) begin
      stat_o.verdict[verdict] = 1'b1;
      stat_o.full             = |(target & ~room_i);
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i) begin
      a_one :
      assert (!start || $onehot(stat_o.verdict))
      else $error("a frame without a verdict");
    end
  end
`endif
endmodule
