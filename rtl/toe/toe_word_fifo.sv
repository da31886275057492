// SPDX-License-Identifier: Apache-2.0
// FIFO in block RAM whose first word falls through, and past the RAM while that is empty.
//
// Latency   : 1 edge from wdata_i to rdata_o while nothing waits, 3 through the RAM; a word an edge.
// Clock     : clk_i.
// Handshake : rvalid_o, rready_i. The writer knows that there is room.
// Drops     : never.
// Source    : common practice.
module toe_word_fifo #(
  parameter type data_t = logic [63:0],
  /// Words; a power of two.
  parameter int unsigned Depth = 512,
  localparam int unsigned AddrW = $clog2(Depth)
) (
  input  logic  clk_i,
  input  logic  rst_i,
  input  data_t wdata_i,
  input  logic  wvalid_i,
  output data_t rdata_o,
  output logic  rvalid_o,
  input  logic  rready_i
);
  localparam int unsigned Front = 4;

  logic [AddrW:0] waddr_q, raddr_q;
  logic read, read_q, past, waiting, front_ready;
  logic  [2:0] front_count;
  data_t       ram_data;

  assign waiting = waddr_q != raddr_q;
  assign past    = wvalid_i && !waiting && !read_q && front_ready;
  // A read is begun if its word will find room even if nothing is taken.
  assign read    = waiting && front_count + 3'(read_q) < 3'(Front);

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      waddr_q <= '0;
      raddr_q <= '0;
      read_q  <= 1'b0;
    end else begin
      read_q <= read;
      if (wvalid_i && !past) waddr_q <= waddr_q + 1'b1;
      if (read) raddr_q <= raddr_q + 1'b1;
    end
  end

  ram_1r1w #(
    .data_t  (data_t),
    .Depth   (Depth),
    .InitZero(1'b0)
  ) u_ram (
    .clk_i,
    .we_i   (wvalid_i && !past),
    .waddr_i(waddr_q[AddrW-1:0]),
    .wdata_i(wdata_i),
    .re_i   (read),
    .raddr_i(raddr_q[AddrW-1:0]),
    .rdata_o(ram_data)
  );

  sync_fifo #(
    .data_t(data_t),
    .Depth (Front)
  ) u_front (
    .clk_i,
    .rst_i,
    .wdata_i (read_q ? ram_data : wdata_i),
    .wvalid_i(read_q || past),
    .wready_o(front_ready),
    .rdata_o,
    .rvalid_o,
    .rready_i,
    .count_o (front_count)
  );

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && wvalid_i && !past) begin
      a_room : assert (waddr_q - raddr_q != (AddrW + 1)'(Depth));
    end
  end
`endif
endmodule
