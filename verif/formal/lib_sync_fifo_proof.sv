// SPDX-License-Identifier: Apache-2.0
// sync_fifo, for any inputs: every word comes out once, unchanged, in its turn; no word is lost when
// full or made up when empty. One word, freely chosen, is followed through the queue.
//
// Clock  : clk_i.
// Source : ours.
module lib_sync_fifo_proof #(
  localparam int unsigned Depth = 5
) (
  input logic       clk_i,
  input logic       rst_i,
  input logic [7:0] wdata_i,
  input logic       wvalid_i,
  input logic       rready_i,
  /// The word written at this edge is the one to follow.
  input logic       watch_i
);
  logic [7:0] rdata_o;
  logic wready_o, rvalid_o;
  logic [2:0] count_o;

  sync_fifo #(
    .data_t(logic [7:0]),
    .Depth (Depth)
  ) u_dut (
    .*
  );

  logic push, pop, started_q, watch_q;
  logic [2:0] place_q;  // words in front of the watched one
  logic [7:0] value_q;
  logic [3:0] slot, tail;

  assign push = wvalid_i && wready_o;
  assign pop  = rready_i && rvalid_o;
  assign slot = 4'(u_dut.raddr_q) + 4'(place_q);
  assign tail = 4'(u_dut.raddr_q) + 4'(count_o);

  initial begin
    started_q = 1'b0;
    watch_q   = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      started_q <= 1'b1;
      watch_q   <= 1'b0;
    end else if (watch_q) begin
      if (pop) begin
        place_q <= place_q - 1'b1;
        if (place_q == '0) watch_q <= 1'b0;
      end
    end else if (watch_i && push) begin
      watch_q <= 1'b1;
      place_q <= count_o - 3'(pop);
      value_q <= wdata_i;
    end

    if (started_q) begin
      a_count : assert (count_o <= 3'(Depth));
      a_addresses : assert (u_dut.raddr_q < 3'(Depth) && u_dut.waddr_q < 3'(Depth));
      a_distance : assert (u_dut.waddr_q == 3'(tail >= 4'(Depth) ? tail - 4'(Depth) : tail));
      if (watch_q) begin
        a_inside : assert (place_q < count_o);
        a_stored : assert (u_dut.mem_q[3'(slot>=4'(Depth)?slot-4'(Depth) : slot)] == value_q);
        if (place_q == '0) begin
          a_same_word : assert (rvalid_o && rdata_o == value_q);
        end
      end
    end
  end
endmodule
