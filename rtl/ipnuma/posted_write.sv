// SPDX-License-Identifier: Apache-2.0
// Makes a memory write of one or four DWs into a TLP.
//
// Latency   : 1 cycle of clk_i from take_o to the first beat; a beat a cycle from there.
// Clock     : clk_i (PCIe).
// Handshake : a write is taken in the cycle with valid_i and take_o, none without bus_master_i; m_tlp as in axis_if.
// Drops     : never.
// Source    : PCI Express Base 2.0, 2.2.7.
module posted_write
  import ipnuma_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_i,
  input  logic       [ 15:0] completer_id_i,
  /// Memory requests may be sent; one that was taken still goes.
  input  logic               bus_master_i,
  input  logic               valid_i,
  /// DW aligned; four DWs must not cross a page.
  input  logic       [ 63:0] address_i,
  /// As it lies in memory, DW 0 in the low bits.
  input  logic       [127:0] data_i,
  /// Four DWs; else DW 0 alone.
  input  logic               four_i,
  output logic               take_o,
         axis_if.src         m_tlp,
  output logic               busy_o
);
  function automatic logic [31:0] in_wire_order(logic [31:0] dw);
    return {dw[7:0], dw[15:8], dw[23:16], dw[31:24]};
  endfunction

  logic active_q, four_q, wide, last, fire;
  logic [1:0] beat_q, last_beat;
  logic [ 63:0] address_q;
  logic [127:0] data_q;

  assign take_o = !active_q && bus_master_i;
  assign wide   = address_q[63:32] != '0;  // a header of four DWs
  assign fire   = active_q && m_tlp.tready;
  assign last   = beat_q == last_beat;

  always_comb begin
    last_beat   = four_q ? 2'd3 : {wide, !wide};
    m_tlp.tkeep = last && four_q != wide ? 8'h0F : 8'hFF;
    unique case (beat_q)
      2'd0:
      m_tlp.tdata = {
        four_q ? 8'hFF : 8'h0F,
        8'd0,
        completer_id_i[7:0],
        completer_id_i[15:8],
        four_q ? 8'd4 : 8'd1,
        16'd0,
        wide ? TLP_MWR64 : TLP_MWR32
      };
      2'd1:
      m_tlp.tdata = wide ? {in_wire_order(address_q[31:0]), in_wire_order(address_q[63:32])} :
          {data_q[31:0], in_wire_order(address_q[31:0])};
      2'd2: m_tlp.tdata = wide ? data_q[63:0] : data_q[95:32];
      default: m_tlp.tdata = wide ? data_q[127:64] : {32'd0, data_q[127:96]};
    endcase
  end
  assign m_tlp.tvalid = active_q;
  assign m_tlp.tlast  = last;
  assign m_tlp.tuser  = '0;
  assign busy_o       = active_q;

  always_ff @(posedge clk_i) begin
    if (valid_i && take_o) begin
      four_q    <= four_i;
      address_q <= address_i;
      data_q    <= data_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      active_q <= 1'b0;
      beat_q   <= '0;
    end else begin
      if (valid_i && take_o) active_q <= 1'b1;
      else if (fire && last) active_q <= 1'b0;
      if (fire) beat_q <= last ? '0 : beat_q + 1'b1;
    end
  end

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (rst_i)
      m_tlp.tvalid && !m_tlp.tready |=> m_tlp.tvalid && $stable(
      m_tlp.tdata
  ))
  else $error("posted_write: an offered beat was changed");
`endif
endmodule
