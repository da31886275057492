// SPDX-License-Identifier: Apache-2.0
// skid_buffer, for any inputs: every word comes out once, unchanged, in its turn, and stays offered
// until taken. One word, freely chosen, is followed.
//
// Clock  : clk_i.
// Source : ours.
module lib_skid_buffer_proof (
  input logic       clk_i,
  input logic       rst_i,
  input logic [7:0] in_data_i,
  input logic       in_valid_i,
  input logic       out_ready_i,
  /// The word taken at this edge is the one to follow.
  input logic       watch_i
);
  logic [7:0] out_data_o;
  logic in_ready_o, out_valid_o;

  skid_buffer #(.data_t(logic [7:0])) u_dut (.*);

  logic push, pop, started_q, watch_q, behind_q, held_q;
  logic [7:0] value_q, offer_q;

  assign push = in_valid_i && in_ready_o;
  assign pop  = out_valid_o && out_ready_i;

  initial begin
    started_q = 1'b0;
    watch_q   = 1'b0;
    held_q    = 1'b0;
  end

  always_ff @(posedge clk_i) begin
    held_q  <= !rst_i && out_valid_o && !out_ready_i;
    offer_q <= out_data_o;
    if (rst_i) begin
      started_q <= 1'b1;
      watch_q   <= 1'b0;
    end else if (watch_q) begin
      if (pop) begin
        behind_q <= 1'b0;
        if (!behind_q) watch_q <= 1'b0;
      end
    end else if (watch_i && push) begin
      watch_q  <= 1'b1;
      behind_q <= out_valid_o && !pop;
      value_q  <= in_data_i;
    end

    if (started_q) begin
      a_no_hole : assert (in_ready_o || out_valid_o);
      if (held_q) begin
        a_offer_stays : assert (out_valid_o && out_data_o == offer_q);
      end
      if (watch_q && behind_q) begin
        a_behind : assert (out_valid_o && !in_ready_o && u_dut.skid_q == value_q);
      end
      if (watch_q && !behind_q) begin
        a_same_word : assert (out_valid_o && out_data_o == value_q);
      end
    end
  end
endmodule
