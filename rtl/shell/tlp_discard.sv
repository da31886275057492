// SPDX-License-Identifier: Apache-2.0
// Takes TLPs for a function that is being reset, and drops them, so that what is behind them for others comes on.
//
// Latency   : 0 cycles, a combinational path each way.
// Clock     : clk_i (PCIe).
// Handshake : valid/ready; a TLP that has been offered goes on to its end, and one whose beginning was dropped is dropped.
//             stopped_o: from the next cycle on nothing is offered that requests_i and all_i, as they are, would drop.
// Drops     : with requests_i all but completions, with all_i those, too.
// Source    : PCI Express Base 2.0, 6.6.2: a function may discard what comes during its reset.
module tlp_discard (
  input  logic       clk_i,
  input  logic       rst_i,
  input  logic       requests_i,
  input  logic       all_i,
  /// The TLP whose first beat is offered is a completion. Not decoded here, where it would be late.
  input  logic       completion_i,
  output logic       stopped_o,
         axis_if.snk s_axis,
         axis_if.src m_axis
);
  logic first_q;  // the next beat begins a TLP
  logic offered_q;  // the first beat has been offered, and not taken
  logic drop_q;  // of the TLP that has begun
  logic drop;

  assign drop          = first_q ? !offered_q && (all_i || (requests_i && !completion_i)) : drop_q;

  assign m_axis.tdata  = s_axis.tdata;
  assign m_axis.tkeep  = s_axis.tkeep;
  assign m_axis.tlast  = s_axis.tlast;
  assign m_axis.tuser  = s_axis.tuser;
  assign m_axis.tvalid = s_axis.tvalid && !drop;
  assign s_axis.tready = m_axis.tready || drop;
  assign stopped_o     = (requests_i || all_i) && (first_q ? !offered_q : drop_q);

  always_ff @(posedge clk_i) begin
    if (s_axis.tvalid && first_q) drop_q <= drop;
    if (rst_i) begin
      first_q   <= 1'b1;
      offered_q <= 1'b0;
    end else begin
      if (s_axis.tvalid && s_axis.tready) first_q <= s_axis.tlast;
      offered_q <= first_q && s_axis.tvalid && !s_axis.tready;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i) stopped_o && all_i |-> !m_axis.tvalid)
  else $error("tlp_discard: something is offered to a function that is being reset");
  // A reset of the PCI Express block takes what it offers, and is here an edge later.
  logic waits_q, gone_q;
  logic [63:0] data_q;
  always_ff @(posedge clk_i) begin
    waits_q <= !rst_i && m_axis.tvalid && !m_axis.tready;
    gone_q  <= !rst_i && waits_q && !(m_axis.tvalid && m_axis.tdata == data_q);
    data_q  <= m_axis.tdata;
  end
  assert property (@(posedge clk_i) disable iff (rst_i) !gone_q)
  else $error("tlp_discard: an offered beat was withdrawn");
`endif
endmodule
