// SPDX-License-Identifier: Apache-2.0
// Register slice with room behind it: cuts every combinational path of a valid/ready stream, and keeps in block
// RAM what has to wait.
//
// Latency   : 1 edge while nothing waits. A word that has waited is there 3 edges after it came at the
//             earliest; then one follows in every cycle.
// Clock     : clk_i.
// Handshake : wready_o, rvalid_o and rdata_o are registers. There is room for Depth words while rready_i is low, and
//             for two more.
// Drops     : never.
// Source    : ours.
module slice_fifo #(
  /// Type of a word.
  parameter type data_t = logic [63:0],
  /// Words; a power of two from 4.
  parameter int unsigned Depth = 512,
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
  // Three places in a row: the memory, its output register, and the slice itself.
  data_t fetched, out_q;
  logic fetched_q, out_valid_q, ready_q;
  logic [AddrW-1:0] waddr_q, raddr_q;
  logic [AddrW:0] count_q;  // words in the memory
  logic           some_q;  // there are any
  logic in, out_free, waiting, keep, fetch, take;

  assign in       = wvalid_i && ready_q;
  assign out_free = rready_i || !out_valid_q;
  assign waiting  = some_q || fetched_q;
  assign keep     = in && (waiting || !out_free);
  assign take     = fetched_q && out_free;
  assign fetch    = some_q && (!fetched_q || out_free);

  // What is written and not kept is written over.
  ram_1r1w #(
    .data_t  (data_t),
    .Depth   (Depth),
    .InitZero(1'b0)
  ) u_ram (
    .clk_i,
    .we_i   (in),
    .waddr_i(waddr_q),
    .wdata_i,
    .re_i   (fetch),
    .raddr_i(raddr_q),
    .rdata_o(fetched)
  );

  always_ff @(posedge clk_i) begin
    if (out_free) out_q <= fetched_q ? fetched : wdata_i;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      out_valid_q <= 1'b0;
      fetched_q   <= 1'b0;
      some_q      <= 1'b0;
      ready_q     <= 1'b1;
      count_q     <= '0;
      waddr_q     <= '0;
      raddr_q     <= '0;
    end else begin
      if (out_free) out_valid_q <= fetched_q || (in && !waiting);
      fetched_q <= fetch || (fetched_q && !take);
      if (keep) waddr_q <= waddr_q + 1'b1;
      if (fetch) raddr_q <= raddr_q + 1'b1;
      if (keep && !fetch) begin
        count_q <= count_q + 1'b1;
        some_q  <= 1'b1;
        ready_q <= count_q != (AddrW + 1)'(Depth - 1);
      end
      if (fetch && !keep) begin
        count_q <= count_q - 1'b1;
        some_q  <= count_q != (AddrW + 1)'(1);
        ready_q <= 1'b1;
      end
    end
  end

  assign wready_o = ready_q;
  assign rvalid_o = out_valid_q;
  assign rdata_o  = out_q;

`ifndef SYNTHESIS
  initial
    assert (Depth >= 4 && (Depth & (Depth - 1)) == 0)
    else $fatal(1, "slice_fifo needs a power of two of words, four or more");
  assert property (@(posedge clk_i) disable iff (rst_i) some_q == (count_q != '0) &&
      ready_q == (count_q != (AddrW + 1)'(Depth)))
  else $error("slice_fifo: the flags are not those of the count");
`endif
endmodule
