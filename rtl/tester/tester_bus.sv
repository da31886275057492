// SPDX-License-Identifier: Apache-2.0
// Register bus and common time of the ports of an instrument.
//
// An address is {port[3:0], register[11:0]}. Writes to port 15 go to all ports at the same edge, so
// that trials begin together; with 16 ports there is no such address.
//
// Latency   : rdata_o follows addr_i by 1 edge. Time counts in the cycles with busy_i.
// Clock     : clk_i.
// Handshake : as tester_registers. Ports that are not there read as 0.
// Drops     : none.
// Source    : docs/rfc2544.md.
module tester_bus #(
  /// Ports, 1 to 16.
  parameter int unsigned N = 4
) (
  input  logic                           clk_i,
  input  logic                           rst_i,
  input  logic                           wr_i,
  input  logic             [ 15:0]       addr_i,
  output logic             [ 63:0]       rdata_o,
  output logic             [N-1:0]       port_wr_o,
  output tester_pkg::reg_t               port_addr_o,
  input  logic             [N-1:0][63:0] port_rdata_i,
  input  logic                           busy_i,
  output tester_pkg::now_t               now_o
);
  import tester_pkg::*;

  localparam int unsigned PortW = 4;
  localparam logic [PortW-1:0] AllPorts = '1;

  now_t now_q;
  logic [PortW-1:0] port, port_q;

  assign port        = addr_i[RegW+:PortW];
  assign port_addr_o = addr_i[RegW-1:0];

  for (genvar p = 0; p < int'(N); p++) begin : gen_port
    assign port_wr_o[p] = wr_i && (port == PortW'(p) || (N < 16 && port == AllPorts));
  end

  always_ff @(posedge clk_i) begin
    port_q <= port;
    if (rst_i) now_q <= '0;
    else if (busy_i) now_q <= now_q + 1'b1;
  end

  always_comb begin
    rdata_o = '0;
    for (int unsigned p = 0; p < N; p++) begin
      if (port_q == PortW'(p)) rdata_o = port_rdata_i[p];
    end
  end

  assign now_o = now_q;

`ifndef SYNTHESIS
  initial begin
    assert (N >= 1 && N <= 16)
    else $fatal(1, "tester_bus: 1 to 16 ports");
  end
`endif
endmodule
