// SPDX-License-Identifier: Apache-2.0
// stats_ram, for any events and reads, after a reset of any length at any time: no counter ever owes two,
// every answer is the number of events up to the cycle in which the read was taken, and every read is
// answered.
//
// Clock  : clk_i.
// Source : ours.
module lib_stats_ram_proof #(
  // A size with the least room between a round of the sweep and a wrap: reads may take one cycle.
  localparam int unsigned Count = 5,
  localparam int unsigned Width = 5
) (
  input logic             clk_i,
  input logic             rst_i,
  input logic [Count-1:0] event_i,
  input logic             ask_i,
  input logic [      2:0] index_i
);
  localparam int unsigned ReadEvery = 8;

  logic valid_o, busy_o, read_i;
  logic [Width-1:0] value_o;

  stats_ram #(
    .Count(Count),
    .Width(Width)
  ) u_dut (
    .*
  );

  logic started_q, asked_q;
  logic [2:0] index_q;
  logic [Width-1:0] sum_q[Count], then_q;
  logic [3:0] waits_q;

  initial started_q = 1'b0;

  // Places before one, round the sweep.
  function automatic logic [2:0] places_before(logic [2:0] index, int unsigned places);
    return 3'((4'(index) + 4'(Count - places)) % 4'(Count));
  endfunction

  // Cycles until the sweep chooses a counter that is `places` ahead, if reads take all they can.
  function automatic logic [3:0] far_off(logic [2:0] places, logic [2:0] wait_left);
    logic [2:0] ahead = places;
    logic [2:0] left = wait_left;
    far_off = '0;
    for (int unsigned n = 0; n < Count + 2; n++) begin
      if (left == '0) begin
        far_off = far_off + 4'd1;
        left    = 3'(ReadEvery - 1);
      end else if (ahead != '0) begin
        far_off = far_off + 4'd1;
        ahead   = ahead - 3'd1;
        left    = left - 3'd1;
      end
    end
  endfunction

  // A read is held.
  assign read_i = ask_i || asked_q;
  always_comb begin
    m_index : assume (index_i < 3'(Count) && (!asked_q || index_i == index_q));
  end

  always_ff @(posedge clk_i) begin
    index_q <= index_i;
    then_q  <= sum_q[index_i];
    waits_q <= read_i && !valid_o ? waits_q + 4'd1 : '0;
    asked_q <= read_i && !valid_o;
    if (rst_i) begin
      started_q <= 1'b1;
      asked_q   <= 1'b0;
      waits_q   <= '0;
    end
  end

  logic clearing;
  assign clearing = !u_dut.cleared_q || u_dut.look_q.clear || u_dut.found_q.clear;

  for (genvar i = 0; i < int'(Count); i++) begin : gen_counter
    logic [2:0] low, places;
    logic paying, looked_at;
    assign low = {
      1'(u_dut.UpperNumbers[u_dut.low_q[i].upper]), 2'(u_dut.OnesNumbers[u_dut.low_q[i].ones])
    };
    assign paying = u_dut.pay && u_dut.found_q.index == 3'(i);
    assign looked_at = u_dut.look_q.sweep && u_dut.look_q.index == 3'(i);
    assign places = u_dut.sweep_q <= 3'(i) ? 3'(i) - u_dut.sweep_q : 3'(i + Count) - u_dut.sweep_q;
    always_ff @(posedge clk_i) begin
      if (rst_i) sum_q[i] <= '0;
      else sum_q[i] <= sum_q[i] + Width'(event_i[i]);
      if (started_q) begin
        a_paid_in_time : assert (!(event_i[i] && low == '1 && u_dut.owes_q[i]) || paying);
        // It is chosen in time to be paid in the cycle of the next wrap at the latest.
        a_on_the_way :
        assert (!u_dut.owes_q[i] || paying || 4'(low) + (looked_at ? 4'd1 : far_off(
            places, u_dut.wait_q
        ) + 4'd2) <= 4'd7);
        a_low : assert (low == sum_q[i][2:0]);
        a_paid : assert (u_dut.gen_counter[i].paid == paying);
        if (!clearing) begin
          a_whole : assert (sum_q[i] == {u_dut.u_high.mem_q[i] + 2'(u_dut.owes_q[i]), low});
        end else begin
          // Nobody owes before the memory is clear: each counter has counted once a cycle at most.
          a_few : assert (u_dut.cleared_q || sum_q[i] <= Width'(u_dut.sweep_q));
          a_early : assert (sum_q[i] <= Width'(Count + (u_dut.look_q.clear ? 0 : 1)));
          a_none : assert (!u_dut.owes_q[i]);
          if (3'(i) < u_dut.sweep_q || u_dut.cleared_q) begin
            a_clear :
            assert (u_dut.u_high.mem_q[i] == '0 ||
                    (u_dut.look_q.clear && u_dut.look_q.index == 3'(i)) ||
                    (u_dut.found_q.clear && u_dut.found_q.index == 3'(i)));
          end
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (started_q) begin
      a_sweep : assert (u_dut.sweep_q < 3'(Count));
      a_look : assert (!u_dut.look_q.clear || u_dut.look_q.sweep);
      a_one_look : assert (!u_dut.look_q.sweep || !u_dut.look_q.read);
      a_place :
      assert (!u_dut.look_q.sweep || u_dut.look_q.index == places_before(u_dut.sweep_q, 1));
      a_decoded :
      assert (!(u_dut.look_q.sweep || u_dut.look_q.read) ||
              (u_dut.look_q.row == 3'd1 << u_dut.look_q.index[2:1] &&
               u_dut.look_q.col == 2'd1 << u_dut.look_q.index[0]));
      a_pays :
      assert (u_dut.pay ? u_dut.found_q.pay_row == 3'd1 << u_dut.found_q.index[2:1] &&
              u_dut.found_q.pay_col == 2'd1 << u_dut.found_q.index[0] :
              u_dut.found_q.pay_row == '0);
      a_found :
      assert (!(u_dut.pay || u_dut.found_q.clear) || u_dut.found_q.index == places_before(
          u_dut.sweep_q, u_dut.look_q.sweep ? 2 : 1
      ));
      a_clear_round :
      assert (u_dut.cleared_q ?
              (!u_dut.look_q.clear && !u_dut.found_q.clear) || u_dut.sweep_q == '0 :
              u_dut.look_q.clear == (u_dut.sweep_q != '0) &&
              u_dut.found_q.clear == (u_dut.sweep_q > 3'd1));
      a_clear_last : assert (!u_dut.cleared_q || !u_dut.look_q.clear || u_dut.found_q.clear);
      a_not_yet : assert (!clearing || !u_dut.found_q.owes);
      a_owes : assert (!u_dut.pay || u_dut.owes_q[u_dut.found_q.index]);
      a_word : assert (!u_dut.pay || u_dut.high == u_dut.u_high.mem_q[u_dut.found_q.index]);
      a_read :
      assert (!u_dut.look_q.read || (asked_q && !clearing && u_dut.look_q.index == index_q &&
              u_dut.wait_q == 3'(ReadEvery - 1)));
      a_answers :
      assert (!valid_o || (asked_q && !clearing && u_dut.wait_q == 3'(ReadEvery - 2) &&
              u_dut.found_q.index == index_q));
      if (valid_o) begin
        a_exact : assert (value_o == then_q);
      end
      // A read waits for the memory to be cleared, or for its turn.
      a_idle : assert (u_dut.cleared_q && !u_dut.look_q.clear || u_dut.wait_q == '0);
      if (!u_dut.cleared_q)
        a_wait_clear :
        assert (waits_q <= 4'(u_dut.sweep_q));
        else if (u_dut.look_q.clear)
          a_wait_last :
          assert (waits_q <= 4'(Count));
          else if (!valid_o && !u_dut.look_q.read) begin
            a_wait_turn : assert (waits_q + 4'(u_dut.wait_q) <= 4'(ReadEvery - 1));
          end
      a_wait_look : assert (valid_o || waits_q <= 4'(ReadEvery));
      a_answer : assert (waits_q <= 4'(ReadEvery + 1));
    end
  end
endmodule
