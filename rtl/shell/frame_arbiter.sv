// SPDX-License-Identifier: Apache-2.0
// Two engines at one transmitter, frame by frame: the first one first, the second one within a bound. A frame that the
// reset of its engine cuts is ended as a bad one, so the other engine goes on.
//
// Latency   : 0 cycles, combinational: a start that meets an idle transmitter begins in the same cycle.
// Clock     : clk_i (network).
// Handshake : start and ready_start as the transmitters have it: the first beat is in the next cycle, and the source never
//             stalls within the frame. The first's frames go in front of the second's, but no more than Patience of them
//             while one of the second waits; then it is the second's turn. The first waits for no more than one frame of the
//             second.
// Drops     : never; what a reset cuts leaves with a wrong FCS.
// Source    : ours.
module frame_arbiter #(
  /// Frames of the first that may pass one of the second.
  parameter int unsigned Patience = 15
) (
  input  logic              clk_i,
  input  logic              rst_i,
  /// The engines' own resets: from the edge that samples one on, that engine offers nothing.
  input  logic              first_rst_i,
  input  logic              second_rst_i,
  input  logic              first_start_i,
  output logic              first_ready_start_o,
         axis_if.snk        s_first,
  /// Pulses of the first's frames, and of the second's.
  output eth_pkg::tx_stat_t first_stat_o,
  input  logic              second_start_i,
  output logic              second_ready_start_o,
         axis_if.snk        s_second,
  output eth_pkg::tx_stat_t second_stat_o,
  output logic              start_o,
  input  logic              ready_start_i,
         axis_if.src        m_axis,
  input  eth_pkg::tx_stat_t tx_stat_i,
  output logic              busy_o
);
  localparam int unsigned PassedW = $clog2(Patience + 1);

  logic               active_q;  // a frame is being offered
  logic               owner_q;  // it is, or the last one was, the second's
  logic               due_q;  // it is the second's turn
  logic [PassedW-1:0] passed_q;  // frames since the second began to wait
  logic               cut_q;  // the source of the frame, or of the last one, has been reset
  logic second, owner, begins, ends;

  assign second               = second_start_i && (due_q || !first_start_i);
  assign start_o              = !active_q && (first_start_i || second_start_i);
  assign begins               = start_o && ready_start_i;
  assign owner                = begins ? second : owner_q;
  assign ends                 = m_axis.tvalid && m_axis.tready && m_axis.tlast;
  assign first_ready_start_o  = !active_q && ready_start_i && !(second_start_i && due_q);
  assign second_ready_start_o = !active_q && ready_start_i && (due_q || !first_start_i);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q <= 1'b0;
      owner_q  <= 1'b0;
      due_q    <= 1'b0;
      passed_q <= '0;
      cut_q    <= 1'b0;
    end else begin
      cut_q <= (owner ? second_rst_i : first_rst_i) || (cut_q && active_q && !ends);
      if (begins) begin
        active_q <= 1'b1;
        owner_q  <= second;
        if (second) begin
          due_q    <= 1'b0;
          passed_q <= '0;
        end else if (second_start_i) begin
          due_q    <= passed_q == PassedW'(Patience - 1);
          passed_q <= passed_q + 1'b1;
        end
      end else if (ends) begin
        active_q <= 1'b0;
      end
    end
  end

  assign m_axis.tdata    = owner_q ? s_second.tdata : s_first.tdata;
  assign m_axis.tkeep    = cut_q ? '1 : owner_q ? s_second.tkeep : s_first.tkeep;
  assign m_axis.tlast    = cut_q || (owner_q ? s_second.tlast : s_first.tlast);
  assign m_axis.tuser    = cut_q ? '1 : owner_q ? s_second.tuser : s_first.tuser;
  assign m_axis.tvalid   = active_q && (cut_q || (owner_q ? s_second.tvalid : s_first.tvalid));
  assign s_first.tready  = active_q && !owner_q && m_axis.tready;
  assign s_second.tready = active_q && owner_q && m_axis.tready;

  // The transmitter may pad what has ended here; it tells of a frame before the next one has begun, or with that.
  assign first_stat_o    = owner_q ? '0 : tx_stat_i;
  assign second_stat_o   = owner_q ? tx_stat_i : '0;

  assign busy_o          = active_q;

`ifndef SYNTHESIS
  int unsigned waits;  // frames that have begun since the second's start was up
  always_ff @(posedge clk_i) begin
    if (rst_i || !second_start_i || (begins && second)) waits <= 0;
    else if (begins) waits <= waits + 1;
  end
  assert property (@(posedge clk_i) disable iff (rst_i) waits <= Patience)
  else $error("frame_arbiter: the second waits too long");
  assert property (@(posedge clk_i) disable iff (rst_i) active_q |-> m_axis.tvalid)
  else $error("frame_arbiter: a source stalled within its frame");
  assert property (@(posedge clk_i) disable iff (rst_i) active_q |-> !ready_start_i)
  else $error("frame_arbiter: the transmitter wants another frame within one");
  assert property (@(posedge clk_i) disable iff (rst_i)
      !(first_start_i && first_ready_start_o && second_start_i && second_ready_start_o))
  else $error("frame_arbiter: two frames begin at once");
`endif
endmodule
