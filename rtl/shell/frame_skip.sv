// SPDX-License-Identifier: Apache-2.0
// Keeps from an engine that was reset what is left of the frame that the reset fell into.
//
// Latency   : 0 cycles.
// Clock     : clk_i (network).
// Handshake : none; streams can't wait. s_axis is watched.
// Drops     : the rest of a frame during which the engine was in reset; the receiver's statistics have told of it.
// Source    : ours.
module frame_skip (
  input logic       clk_i,
  input logic       rst_i,
  /// The engine's reset.
  input logic       engine_rst_i,
        axis_if.mon s_axis,
        axis_if.src m_axis
);
  logic in_frame_q, in_frame_d;
  logic open_q;  // the engine has seen the beginning of this frame, or sees that of the next one

  assign in_frame_d    = s_axis.tvalid ? !s_axis.tlast : in_frame_q;

  assign m_axis.tdata  = s_axis.tdata;
  assign m_axis.tkeep  = s_axis.tkeep;
  assign m_axis.tlast  = s_axis.tlast;
  assign m_axis.tuser  = s_axis.tuser;
  assign m_axis.tvalid = s_axis.tvalid && open_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_frame_q <= 1'b0;
      open_q     <= 1'b1;
    end else begin
      in_frame_q <= in_frame_d;
      open_q     <= !engine_rst_i && (open_q || !in_frame_d);
    end
  end

`ifndef SYNTHESIS
  logic seen_q;  // the engine is within a frame
  always_ff @(posedge clk_i) begin
    if (rst_i || engine_rst_i) seen_q <= 1'b0;
    else if (m_axis.tvalid) seen_q <= !m_axis.tlast;
  end
  assert property (@(posedge clk_i) disable iff (rst_i || engine_rst_i)
      m_axis.tvalid && !seen_q |-> !in_frame_q)
  else $error("frame_skip: the engine sees a frame without its beginning");
`endif

  logic unused;
  assign unused = ^{s_axis.tready, m_axis.tready};
endmodule
