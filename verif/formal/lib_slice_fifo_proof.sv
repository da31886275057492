// SPDX-License-Identifier: Apache-2.0
// slice_fifo, for any inputs: every word comes out once, unchanged, in its turn; no word is lost when
// full or made up when empty. One word, freely chosen, is followed from place to place.
//
// Clock  : clk_i.
// Source : ours.
module lib_slice_fifo_proof #(
  localparam int unsigned Depth = 4
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

  slice_fifo #(
    .data_t(logic [7:0]),
    .Depth (Depth)
  ) u_dut (
    .*
  );

  logic push, pop, started_q, watch_q;
  logic [2:0] place_q, held, in_memory;  // words in front of the watched one; words held
  logic [7:0] value_q, value;

  assign push      = wvalid_i && wready_o;
  assign pop       = rready_i && rvalid_o;
  assign held      = u_dut.count_q + 3'(u_dut.fetched_q) + 3'(u_dut.out_valid_q);
  assign in_memory = place_q - 3'(u_dut.out_valid_q) - 3'(u_dut.fetched_q);

  always_comb begin
    value = u_dut.u_ram.mem_q[2'(u_dut.raddr_q+in_memory[1:0])];
    if (place_q == 3'(u_dut.out_valid_q) && u_dut.fetched_q) value = u_dut.fetched;
    if (place_q == '0 && u_dut.out_valid_q) value = rdata_o;
  end

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
      place_q <= held - 3'(pop);
      value_q <= wdata_i;
    end

    if (started_q) begin
      a_count : assert (u_dut.count_q <= 3'(Depth));
      a_some : assert (u_dut.some_q == (u_dut.count_q != '0));
      a_room : assert (wready_o == (u_dut.count_q != 3'(Depth)));
      a_distance : assert (u_dut.waddr_q == 2'(u_dut.raddr_q + u_dut.count_q[1:0]));
      if (watch_q) begin
        a_inside : assert (place_q < held);
        a_same_word : assert (value == value_q);
        a_in_turn : assert (place_q != '0 || !pop || rdata_o == value_q);
      end
    end
  end
endmodule
