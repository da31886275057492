// SPDX-License-Identifier: Apache-2.0
// When a source's frames are due: bursts, an exact interval from burst to burst.
//
// The time that has passed since the first burst, less the intervals of all bursts begun, decides:
// a frame that starts late, for the quantum of the medium or for a long frame, does not move the
// ones behind it. Within a burst, and with interval 0, frames are due at once.
//
// Latency : due_o is a register's decode; start_i counts at the edge.
// Clock   : clk_i.
// Source  : RFC 2544 sections 21 (bursts), 26.1 and 26.4.
module frame_schedule #(
  /// Byte times of a cycle.
  parameter int unsigned CycleBytes = 8
) (
  input  logic        clk_i,
  input  logic        rst_i,
  /// A trial is on; its first frame is due at once.
  input  logic        run_i,
  /// From burst to burst, 1/256 byte times; 0: line rate.
  input  logic [31:0] interval_i,
  /// Frames of a burst; 0 means 1.
  input  logic [31:0] burst_i,
  /// A frame starts.
  input  logic        start_i,
  output logic        due_o
);
  localparam int unsigned LagW = 48;
  localparam logic signed [LagW-1:0] Step = LagW'(256 * CycleBytes);
  // Beyond it lateness is forgotten: days, for a source that is asked for more than line rate.
  localparam logic signed [LagW-1:0] LagMax = LagW'(1) <<< (LagW - 2);

  logic signed [LagW-1:0] lag_q;  // time since the next burst was due
  logic        [    31:0] left_q;  // frames of this burst to come
  logic                   begun_q;
  logic                   burst_start;

  assign burst_start = start_i && left_q == '0;
  assign due_o       = run_i && (interval_i == '0 || left_q != '0 || !lag_q[LagW-1]);

  always_ff @(posedge clk_i) begin
    if (rst_i || !run_i) begin
      lag_q   <= '0;
      left_q  <= '0;
      begun_q <= 1'b0;
    end else begin
      begun_q <= begun_q || start_i;
      if (burst_start) left_q <= burst_i == '0 ? '0 : burst_i - 1'b1;
      else if (start_i) left_q <= left_q - 1'b1;
      if (begun_q || start_i) begin
        lag_q <= lag_q + (lag_q > LagMax ? '0 : Step) -
            (burst_start ? LagW'($signed({1'b0, interval_i})) : '0);
      end
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && start_i) begin
      a_due :
      assert (due_o)
      else $error("a frame starts before it is due");
    end
  end
`endif
endmodule
