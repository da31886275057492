// SPDX-License-Identifier: Apache-2.0
// Holds a frame until it is whole: the engine may pause inside one while it waits for the host's memory, the MAC may not.
//
// Latency   : a frame's last beat in to start_o 3 edges; to its last beat out as many as it has beats, and 3.
// Clock     : clk_i (network).
// Handshake : s_* valid/ready; start_o and m_eth as the transmitters ask for them.
// Drops     : never.
module uzura_frame_hold #(
  /// Beats; a power of two, more than the longest frame has.
  parameter int unsigned Depth = 2048
) (
  input  logic              clk_i,
  input  logic              rst_i,
  input  logic       [63:0] s_tdata_i,
  input  logic       [ 7:0] s_tkeep_i,
  input  logic              s_tvalid_i,
  input  logic              s_tlast_i,
  output logic              s_tready_o,
  output logic              start_o,
  input  logic              ready_start_i,
         axis_if.src        m_eth,
  output logic              busy_o
);
  typedef struct packed {
    logic [63:0] data;
    logic [7:0]  keep;
    logic        last;
  } beat_t;

  beat_t beat;
  logic valid, in_end, out_end, active_q;
  logic [$clog2(Depth):0] frames_q;  // whole ones

  uzura_fifo #(
    .data_t(beat_t),
    .Depth (Depth)
  ) u_beats (
    .clk_i,
    .rst_i,
    .wdata_i ('{data: s_tdata_i, keep: s_tkeep_i, last: s_tlast_i}),
    .wvalid_i(s_tvalid_i),
    .wready_o(s_tready_o),
    .rdata_o (beat),
    .rvalid_o(valid),
    .rready_i(active_q && m_eth.tready)
  );

  assign in_end       = s_tvalid_i && s_tready_o && s_tlast_i;
  assign out_end      = active_q && m_eth.tready && beat.last;
  assign start_o      = !active_q && frames_q != '0 && valid;
  assign m_eth.tdata  = beat.data;
  assign m_eth.tkeep  = beat.keep;
  assign m_eth.tlast  = beat.last;
  assign m_eth.tuser  = '0;
  assign m_eth.tvalid = active_q;
  assign busy_o       = active_q || valid || frames_q != '0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      frames_q <= '0;
      active_q <= 1'b0;
    end else begin
      frames_q <= frames_q + ($clog2(Depth) + 1)'(in_end) - ($clog2(Depth) + 1)'(out_end);
      if (start_o && ready_start_i) active_q <= 1'b1;
      else if (out_end) active_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) active_q |-> valid)
  else $error("uzura_frame_hold: a frame pauses");
  assert property (@(posedge clk_i) disable iff (rst_i) !s_tready_o |-> frames_q != '0)
  else $error("uzura_frame_hold: a frame is longer than there is room");
`endif
endmodule
