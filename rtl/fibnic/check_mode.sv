// SPDX-License-Identifier: Apache-2.0
// Decides whether a port stores and checks its frames before they leave: a link that spoils many
// frames must not spread them through the network.
//
// Bad frames are counted in windows of Window frames. More than on_i of them begin store-and-check
// at once; a whole window with at most off_i ends it.
//
// Latency : end_i to store_o: 1 edge.
// Clock   : clk_i, rst_i synchronous.
// Source  : dissertation section 5.1.2.3.
module check_mode
  import fibnic_pkg::*;
#(
  /// Frames of a window.
  parameter int unsigned Window = 256
) (
  input  logic         clk_i,
  input  logic         rst_i,
  input  check_e       mode_i,
  input  logic   [7:0] on_i,
  input  logic   [7:0] off_i,
  /// Pulse: a frame ended.
  input  logic         end_i,
  /// With end_i: it is bad.
  input  logic         bad_i,
  output logic         store_o,
  /// Pulse: store-and-check began.
  output logic         change_o
);
  localparam int unsigned CountW = $clog2(Window + 1);

  logic [CountW-1:0] frames_q, bad_q, bad_d;
  logic auto_q, begins, over;

  assign bad_d    = bad_q + CountW'(bad_i);
  assign begins   = end_i && !auto_q && bad_d > CountW'(on_i);
  assign over     = end_i && frames_q == CountW'(Window - 1);
  assign change_o = mode_i == CheckAuto && begins;

  always_comb begin
    unique case (mode_i)
      CheckAlways: store_o = 1'b1;
      CheckAuto:   store_o = auto_q;
      default:     store_o = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (rst_i || mode_i != CheckAuto) begin
      auto_q   <= 1'b0;
      frames_q <= '0;
      bad_q    <= '0;
    end else if (begins || over) begin
      auto_q   <= begins || (auto_q && bad_d > CountW'(off_i));
      frames_q <= '0;
      bad_q    <= '0;
    end else if (end_i) begin
      frames_q <= frames_q + 1'b1;
      bad_q    <= bad_d;
    end
  end
endmodule
