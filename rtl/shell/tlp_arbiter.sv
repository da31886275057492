// SPDX-License-Identifier: Apache-2.0
// Merges the TLP streams of two functions, one TLP after the other, in turns.
//
// Not arb_rr: there a source is ready only when its own offer has gone through the arbiter, which comes late in the cycle.
// Here it is ready unless the other goes first, as tlp_tx does it for the same reason.
//
// Latency   : 0 cycles, a combinational path from each input to the output.
// Clock     : clk_i (PCIe).
// Handshake : valid/ready. A TLP that was offered keeps the output to its end. When both offer one, the function that did
//             not send the last TLP goes: neither waits for more than one TLP of the other. Each function's own order stays;
//             between functions PCI Express has none.
// Drops     : never.
// Source    : PCI Express Base 2.0, 2.4.1 (ordering).
module tlp_arbiter (
  input logic       clk_i,
  input logic       rst_i,
        axis_if.snk s_first,
        axis_if.snk s_second,
        axis_if.src m_axis
);
  logic locked_q, owner_q;  // a TLP was offered and has not ended; the second's
  logic turn_q;  // the second goes first
  logic second, ends;

  assign second          = locked_q ? owner_q : s_second.tvalid && (turn_q || !s_first.tvalid);
  assign s_first.tready  = m_axis.tready && (locked_q ? !owner_q : !(s_second.tvalid && turn_q));
  assign s_second.tready = m_axis.tready && (locked_q ? owner_q : !(s_first.tvalid && !turn_q));

  assign m_axis.tdata    = second ? s_second.tdata : s_first.tdata;
  assign m_axis.tkeep    = second ? s_second.tkeep : s_first.tkeep;
  assign m_axis.tlast    = second ? s_second.tlast : s_first.tlast;
  assign m_axis.tvalid   = second ? s_second.tvalid : s_first.tvalid;
  assign m_axis.tuser    = '0;
  assign ends            = m_axis.tvalid && m_axis.tready && m_axis.tlast;

  always_ff @(posedge clk_i) begin
    if (m_axis.tvalid) owner_q <= second;
    if (rst_i) begin
      locked_q <= 1'b0;
      turn_q   <= 1'b0;
    end else begin
      if (m_axis.tvalid) locked_q <= !ends;
      if (ends) turn_q <= !second;
    end
  end

  logic unused;
  assign unused = ^{s_first.tuser, s_second.tuser};

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      !(s_first.tvalid && s_first.tready && s_second.tvalid && s_second.tready))
  else $error("tlp_arbiter: two functions send at once");
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_axis.tvalid && !m_axis.tready |=> m_axis.tvalid && $stable(
      m_axis.tdata
  ))
  else $error("tlp_arbiter: an offered beat was withdrawn");
  assert property (@(posedge clk_i) disable iff (rst_i)
      (s_first.tvalid || s_second.tvalid) && !locked_q |-> m_axis.tvalid)
  else $error("tlp_arbiter: an offer waits for nothing");
`endif
endmodule
