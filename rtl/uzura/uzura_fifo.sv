// SPDX-License-Identifier: Apache-2.0
// FIFO in block RAM; the first word falls through.
//
// Latency   : 2 edges from a word to rvalid_o; a word a cycle.
// Clock     : clk_i.
// Handshake : valid/ready on both sides.
// Drops     : never.
module uzura_fifo #(
  parameter type data_t = logic [63:0],
  /// Words; a power of two. One more waits at the exit.
  parameter int unsigned Depth = 1024,
  localparam int unsigned AddrW = $clog2(Depth)
) (
  input  logic  clk_i,
  input  logic  rst_i,
  input  data_t wdata_i,
  input  logic  wvalid_i,
  output logic  wready_o,
  output data_t rdata_o,
  output logic  rvalid_o,
  input  logic  rready_i
);
  logic [AddrW:0] write_q, read_q;
  logic push, fetch;
  assign wready_o = write_q - read_q != {1'b1, {AddrW{1'b0}}};
  assign push     = wvalid_i && wready_o;
  assign fetch    = write_q != read_q && (!rvalid_o || rready_i);

  ram_1r1w #(
    .data_t(data_t),
    .Depth (Depth)
  ) u_ram (
    .clk_i,
    .we_i   (push),
    .waddr_i(write_q[AddrW-1:0]),
    .wdata_i,
    .re_i   (fetch),
    .raddr_i(read_q[AddrW-1:0]),
    .rdata_o
  );

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      write_q  <= '0;
      read_q   <= '0;
      rvalid_o <= 1'b0;
    end else begin
      if (push) write_q <= write_q + 1'b1;
      if (fetch) read_q <= read_q + 1'b1;
      rvalid_o <= fetch || (rvalid_o && !rready_i);
    end
  end
endmodule
