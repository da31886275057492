// SPDX-License-Identifier: Apache-2.0
// Two streams for one transmitter: the frame builder's, and whole frames that wait (ARP replies).
//
// When both want to start, they take turns.
//
// Latency   : none, combinational.
// Clock     : clk_i (network).
// Handshake : start and ready_start as the transmitters have it: the first beat is in the next
//             cycle, and the source never stalls within the frame. s_arp holds its first beat until
//             it is taken.
// Drops     : never.
// Source    : ours.
module tx_mux (
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       fb_start_i,
  output logic       fb_ready_start_o,
         axis_if.snk s_frames,
         axis_if.snk s_arp,
  output logic       start_o,
  input  logic       ready_start_i,
         axis_if.src m_axis,
  output logic       cnt_tx_arp_o,
  output logic       busy_o
);
  typedef enum logic [1:0] {
    Idle,
    Frame,
    Arp
  } state_e;

  state_e state_q;
  logic   arp_turn_q;  // the frame builder had the last turn
  logic idle, take_arp, ended;

  assign idle             = state_q == Idle;
  assign take_arp         = s_arp.tvalid && (arp_turn_q || !fb_start_i);
  assign fb_ready_start_o = idle && ready_start_i && !(s_arp.tvalid && arp_turn_q);
  assign start_o          = idle && (fb_start_i || s_arp.tvalid);
  assign ended            = m_axis.tvalid && m_axis.tready && m_axis.tlast;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      state_q    <= Idle;
      arp_turn_q <= 1'b0;
    end else if (start_o && ready_start_i) begin
      state_q    <= take_arp ? Arp : Frame;
      arp_turn_q <= !take_arp;
    end else if (ended) begin
      state_q <= Idle;
    end
  end

  always_comb begin
    m_axis.tdata  = s_frames.tdata;
    m_axis.tkeep  = s_frames.tkeep;
    m_axis.tlast  = s_frames.tlast;
    m_axis.tuser  = s_frames.tuser;
    m_axis.tvalid = s_frames.tvalid && state_q == Frame;
    if (state_q == Arp) begin
      m_axis.tdata  = s_arp.tdata;
      m_axis.tkeep  = s_arp.tkeep;
      m_axis.tlast  = s_arp.tlast;
      m_axis.tuser  = s_arp.tuser;
      m_axis.tvalid = s_arp.tvalid;
    end
  end
  assign s_frames.tready = state_q == Frame && m_axis.tready;
  assign s_arp.tready    = state_q == Arp && m_axis.tready;

  assign cnt_tx_arp_o    = ended && state_q == Arp;
  assign busy_o          = !idle || s_arp.tvalid;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) !idle |-> m_axis.tvalid)
  else $error("tx_mux: a source stalled within its frame");
`endif
endmodule
