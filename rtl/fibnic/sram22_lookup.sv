// SPDX-License-Identifier: Apache-2.0
// IPv4 lookup of the dissertation: a 4 MB SRAM of bytes, its address the upper 22 address bits,
// four segments of two bits in a byte; prefixes up to /24, three next hops.
//
// Latency : Latency edges of clk_i from valid_i to valid_o; the dissertation gives it 20, whatever
//           the memory takes of them.
// Clock   : clk_i.
// Drops   : never; a lookup may begin every cycle.
// Source  : dissertation section 5.2.3, figure 5.9. Code 0 means here that there is no route (the
//           default-route register answers), so that a default route takes none of the codes.
module sram22_lookup
  import fib_pkg::*;
#(
  /// Address bits of the SRAM: 22 for the dissertation's 4 MB. With fewer, address bits above them
  /// are not looked at.
  parameter int unsigned IndexW = 16,
  /// Edges from address to data of the SRAM.
  parameter int unsigned ReadLatency = 4,
  /// Edges of the whole lookup, more than ReadLatency.
  parameter int unsigned Latency = 20
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic           valid_i,
  // The last byte does not matter to prefixes up to /24.
  // verilator lint_off UNUSEDSIGNAL
  input  logic    [31:0] addr_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic           valid_o,
  output leaf_t          leaf_o,
  input  logic           wr_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  fib_wr_t        wr_i
  // verilator lint_on UNUSEDSIGNAL
);
  logic  [Latency:0]      valid;
  logic  [      1:0]      segment;
  logic  [      3:0][1:0] codes;
  leaf_t [      3:0]      leaf_q;
  leaf_t                  leaf_d;

  fib_valid #(
    .Cycles(Latency)
  ) u_valid (
    .clk_i,
    .rst_i,
    .valid_i,
    .valid_o(valid)
  );

  ram_1r1w #(
    .data_t     (logic [3:0][1:0]),
    .Depth      (1 << IndexW),
    .ReadLatency(ReadLatency)
  ) u_sram (
    .clk_i,
    .we_i   (wr_valid_i && wr_i.mem == MemSram22),
    .waddr_i(wr_i.addr[IndexW-1:0]),
    .wdata_i(wr_i.data[7:0]),
    .re_i   (valid_i),
    .raddr_i(addr_i[10+:IndexW]),
    .rdata_o(codes)
  );

  fib_delay #(
    .data_t(logic [1:0]),
    .Cycles(ReadLatency)
  ) u_segment (
    .clk_i,
    .data_i(addr_i[9:8]),
    .data_o(segment)
  );

  // The next hop of a code is written before the first byte that uses it; code 0 is never written.
  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      leaf_q <= '0;
    end else if (wr_valid_i && wr_i.mem == MemSram22NextHop && wr_i.addr[1:0] != 2'd0) begin
      leaf_q[wr_i.addr[1:0]] <= wr_i.data[LeafW-1:0];
    end
  end

  assign leaf_d = leaf_q[codes[segment]];

  fib_delay #(
    .data_t(leaf_t),
    .Cycles(Latency - ReadLatency)
  ) u_stages (
    .clk_i,
    .data_i(leaf_d),
    .data_o(leaf_o)
  );

  assign valid_o = valid[Latency];

`ifndef SYNTHESIS
  initial begin
    a_latency :
    assert (Latency > ReadLatency)
    else $fatal(1, "Latency is more than ReadLatency");
  end
`endif
endmodule
