// SPDX-License-Identifier: Apache-2.0
// FIFO on one clock; the first word falls through.
//
// Latency   : a word written at an edge is readable right after that edge.
// Clock     : clk_i.
// Handshake : valid/ready on both sides; wready_o does not depend on rready_i, rvalid_o not on
//             wvalid_i.
// Drops     : never.
// Source    : common practice; storage is registers or distributed RAM (asynchronous read).
module sync_fifo #(
  /// Type of a word.
  parameter type data_t = logic [63:0],
  /// Words; any number from 2.
  parameter int unsigned Depth = 4,
  localparam int unsigned AddrW = $clog2(Depth),
  localparam int unsigned CountW = $clog2(Depth + 1)
) (
  input  logic               clk_i,
  input  logic               rst_i,
  input  data_t              wdata_i,
  input  logic               wvalid_i,
  output logic               wready_o,
  output data_t              rdata_o,
  output logic               rvalid_o,
  input  logic               rready_i,
  /// Words held now.
  output logic  [CountW-1:0] count_o
);
  localparam logic [AddrW-1:0] LastAddr = AddrW'(Depth - 1);

  data_t mem_q[Depth];
  logic [AddrW-1:0] waddr_q, raddr_q;
  logic [CountW-1:0] count_q;
  logic push, pop;

  assign wready_o = count_q != CountW'(Depth);
  assign rvalid_o = count_q != '0;
  assign rdata_o  = mem_q[raddr_q];
  assign count_o  = count_q;
  assign push     = wvalid_i && wready_o;
  assign pop      = rready_i && rvalid_o;

  always_ff @(posedge clk_i) begin
    if (push) mem_q[waddr_q] <= wdata_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      waddr_q <= '0;
      raddr_q <= '0;
      count_q <= '0;
    end else begin
      if (push) waddr_q <= waddr_q == LastAddr ? '0 : waddr_q + 1'b1;
      if (pop) raddr_q <= raddr_q == LastAddr ? '0 : raddr_q + 1'b1;
      if (push && !pop) count_q <= count_q + 1'b1;
      if (pop && !push) count_q <= count_q - 1'b1;
    end
  end

`ifndef SYNTHESIS
  initial
    assert (Depth >= 2)
    else $fatal(1, "sync_fifo needs two words or more");
`endif
endmodule
