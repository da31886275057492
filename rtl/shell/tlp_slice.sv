// SPDX-License-Identifier: Apache-2.0
// A register in a stream of TLPs, which cuts every combinational path through it.
//
// Latency   : 1 edge.
// Clock     : clk_i.
// Handshake : axis_if; tready does not depend on m_axis.
// Drops     : never.
// Source    : skid_buffer.
module tlp_slice #(
  /// Bits of tuser.
  parameter int unsigned UserW = 1
) (
  input  logic       clk_i,
  input  logic       rst_i,
         axis_if.snk s_axis,
         axis_if.src m_axis,
  output logic       busy_o
);
  typedef struct packed {
    logic [63:0]      data;
    logic [7:0]       keep;
    logic             last;
    logic [UserW-1:0] user;
  } beat_t;
  beat_t in, out;

  assign in = '{data: s_axis.tdata, keep: s_axis.tkeep, last: s_axis.tlast, user: s_axis.tuser};
  skid_buffer #(
    .data_t(beat_t)
  ) u_skid (
    .clk_i,
    .rst_i,
    .in_data_i  (in),
    .in_valid_i (s_axis.tvalid),
    .in_ready_o (s_axis.tready),
    .out_data_o (out),
    .out_valid_o(m_axis.tvalid),
    .out_ready_i(m_axis.tready)
  );
  assign m_axis.tdata = out.data;
  assign m_axis.tkeep = out.keep;
  assign m_axis.tlast = out.last;
  assign m_axis.tuser = out.user;
  assign busy_o       = m_axis.tvalid;
endmodule
