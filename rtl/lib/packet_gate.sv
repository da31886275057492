// SPDX-License-Identifier: Apache-2.0
// Stops a stream of packets between two of them.
//
// Latency   : 0 cycles, a combinational path each way.
// Clock     : clk_i.
// Handshake : valid/ready on both sides. stop_i: a packet that has been offered goes on to its end; stopped_o from the
//             cycle after it to the one after stop_i has fallen, and nothing is offered or taken meanwhile.
// Drops     : never.
// Source    : ours.
module packet_gate (
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       stop_i,
  output logic       stopped_o,
         axis_if.snk s_axis,
         axis_if.src m_axis
);
  logic in_packet_q, in_packet_d, stopped_q;

  assign in_packet_d   = m_axis.tvalid ? !(m_axis.tready && m_axis.tlast) : in_packet_q;

  assign m_axis.tdata  = s_axis.tdata;
  assign m_axis.tkeep  = s_axis.tkeep;
  assign m_axis.tlast  = s_axis.tlast;
  assign m_axis.tuser  = s_axis.tuser;
  assign m_axis.tvalid = s_axis.tvalid && !stopped_q;
  assign s_axis.tready = m_axis.tready && !stopped_q;
  assign stopped_o     = stopped_q;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      in_packet_q <= 1'b0;
      stopped_q   <= 1'b1;
    end else begin
      in_packet_q <= in_packet_d;
      stopped_q   <= stop_i && !in_packet_d;
    end
  end
endmodule
