// SPDX-License-Identifier: Apache-2.0
// Leads the frames that the engine sends to itself back to it, between those from the line.
//
// A frame comes back when it is whole and the line is between two frames. The line does not wait: what comes in
// meanwhile is kept until then, and gaps between its frames make good for that.
//
// Latency   : from the line none, if no frame comes back. A frame's last beat in to its first beat back 3 edges.
// Clock     : clk_i (network).
// Handshake : s_* valid/ready; from the line and to the engine none. As behind a MAC there is a cycle without a beat
//             behind each frame.
// Drops     : never.
// Source    : own.
module uzura_loopback #(
  /// Beats of each buffer; a power of two, more than the longest frame of the engine has.
  parameter int unsigned Depth = 1024
) (
  input  logic        clk_i,
  input  logic        rst_i,
  // From the engine, ICRC included.
  input  logic [63:0] s_tdata_i,
  input  logic [ 7:0] s_tkeep_i,
  input  logic        s_tvalid_i,
  input  logic        s_tlast_i,
  output logic        s_tready_o,
  // From the line, as uzura_rx_trim gives it.
  input  logic [63:0] line_tdata_i,
  input  logic [ 7:0] line_tkeep_i,
  input  logic        line_tvalid_i,
  input  logic        line_tlast_i,
  input  logic        line_tuser_i,
  // To the engine.
  output logic [63:0] m_tdata_o,
  output logic [ 7:0] m_tkeep_o,
  output logic        m_tvalid_o,
  output logic        m_tlast_o,
  output logic        m_tuser_o,
  output logic        busy_o
);
  localparam int unsigned CountW = $clog2(Depth) + 2;
  typedef struct packed {
    logic [63:0] data;
    logic [7:0]  keep;
    logic        last;
    logic        bad;
  } beat_t;

  beat_t line, own, kept;
  logic own_valid, own_ready, kept_valid, kept_ready, keep, keep_ready;
  logic own_end, begins, direct;
  // A frame comes back; the cycle behind a frame out of a buffer; the line is within a frame.
  logic back_q, gap_q, within_q;
  logic [CountW-1:0] frames_q, kept_q;  // frames to come back, and the line's beats that wait

  uzura_fifo #(
    .data_t(beat_t),
    .Depth (Depth)
  ) u_own (
    .clk_i,
    .rst_i,
    .wdata_i ('{data: s_tdata_i, keep: s_tkeep_i, last: s_tlast_i, bad: 1'b0}),
    .wvalid_i(s_tvalid_i),
    .wready_o(s_tready_o),
    .rdata_o (own),
    .rvalid_o(own_valid),
    .rready_i(own_ready)
  );

  uzura_fifo #(
    .data_t(beat_t),
    .Depth (Depth)
  ) u_line (
    .clk_i,
    .rst_i,
    .wdata_i (line),
    .wvalid_i(keep),
    .wready_o(keep_ready),
    .rdata_o (kept),
    .rvalid_o(kept_valid),
    .rready_i(kept_ready)
  );

  assign line = '{
          data: line_tdata_i,
          keep: line_tkeep_i,
          last: line_tlast_i,
          bad: line_tuser_i
      };
  assign direct = !back_q && !gap_q && kept_q == '0;
  assign keep = line_tvalid_i && !direct;
  assign kept_ready = !back_q && !gap_q;
  assign own_ready = back_q;
  assign own_end = s_tvalid_i && s_tready_o && s_tlast_i;
  assign begins = direct && frames_q != '0 && own_valid && !within_q && !line_tvalid_i;

  always_comb begin
    {m_tdata_o, m_tkeep_o, m_tlast_o, m_tuser_o} = direct ? line : back_q ? own : kept;
    m_tvalid_o = direct ? line_tvalid_i : back_q || (kept_valid && !gap_q);
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      back_q   <= 1'b0;
      gap_q    <= 1'b0;
      within_q <= 1'b0;
      frames_q <= '0;
      kept_q   <= '0;
    end else begin
      back_q   <= begins || (back_q && !own.last);
      gap_q    <= !direct && m_tvalid_o && m_tlast_o;
      frames_q <= frames_q + CountW'(own_end) - CountW'(back_q && own.last);
      kept_q   <= kept_q + CountW'(keep) - CountW'(kept_valid && kept_ready);
      if (line_tvalid_i) within_q <= !line_tlast_i;
    end
  end
  assign busy_o = back_q || gap_q || frames_q != '0 || kept_q != '0 || own_valid;

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) back_q |-> own_valid)
  else $error("uzura_loopback: a frame pauses");
  assert property (@(posedge clk_i) disable iff (rst_i) keep |-> keep_ready)
  else $error("uzura_loopback: the line's frames find no room");
  assert property (@(posedge clk_i) disable iff (rst_i) !s_tready_o |-> frames_q != '0)
  else $error("uzura_loopback: a frame is longer than there is room");
  assert property (@(posedge clk_i) disable iff (rst_i) m_tvalid_o && m_tlast_o |=> !m_tvalid_o)
  else $error("uzura_loopback: no cycle between two frames");
`endif
endmodule
