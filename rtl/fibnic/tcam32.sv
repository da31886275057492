// SPDX-License-Identifier: Apache-2.0
// Ternary match in flip-flops: all entries at once, the lowest that matches answers.
//
// All entries are compared at the same edge. The leaves are read one edge later and written one
// edge later, so that entries which move by one place (copied first) are never seen in parts.
//
// Latency : Latency = 2 edges of clk_i from valid_i to valid_o.
// Clock   : clk_i; rst_i empties it.
// Drops   : never; a lookup may begin every cycle.
// Source  : dissertation section 5.2.4: 32 entries, the first 64 bits of the address compared.
module tcam32
  import fib_pkg::*;
#(
  /// Entries.
  parameter int unsigned Entries = 32,
  /// Bits that are compared, from the first: 64 as in the dissertation, or 128.
  parameter int unsigned CompareW = 128,
  localparam int unsigned Latency = TcamLatency
) (
  input  logic                   clk_i,
  input  logic                   rst_i,
  input  logic                   valid_i,
  input  logic    [CompareW-1:0] addr_i,
  output logic                   valid_o,
  output leaf_t                  leaf_o,
  input  logic                   wr_valid_i,
  input  fib_wr_t                wr_i
);
  localparam int unsigned IndexW = Entries > 1 ? $clog2(Entries) : 1;

  // Bits of a longer value than this build compares are not looked at.
  // verilator lint_off UNUSEDSIGNAL
  tcam_t                             entry;
  // verilator lint_on UNUSEDSIGNAL
  logic                              write;
  logic  [ IndexW-1:0]               index;
  logic  [Entries-1:0]               used_q;
  logic  [Entries-1:0][CompareW-1:0] value_q;
  logic  [Entries-1:0][CompareW-1:0] mask_q;
  leaf_t [Entries-1:0]               leaves_q;
  logic                              late_write_q;
  logic  [ IndexW-1:0]               late_index_q;
  leaf_t                             late_leaf_q;
  logic  [Entries-1:0]               match_q;
  leaf_t leaf_d, leaf_q;
  logic [Latency:0] valid;

  assign entry = wr_i.data[$bits(tcam_t)-1:0];
  assign write = wr_valid_i && wr_i.mem == MemV6Tcam;
  assign index = wr_i.addr[IndexW-1:0];

  always_ff @(posedge clk_i) begin
    if (write) begin
      value_q[index] <= entry.value[127-:CompareW];
      mask_q[index]  <= ~({CompareW{1'b1}} >> entry.len);
    end
    late_index_q <= index;
    late_leaf_q  <= entry.leaf;
    if (late_write_q) leaves_q[late_index_q] <= late_leaf_q;
    for (int unsigned i = 0; i < Entries; i++) begin
      match_q[i] <= used_q[i] && ((addr_i ^ value_q[i]) & mask_q[i]) == '0;
    end
    leaf_q <= leaf_d;
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      used_q       <= '0;
      late_write_q <= 1'b0;
    end else begin
      if (write) used_q[index] <= entry.leaf != '0;
      late_write_q <= write;
    end
  end

  always_comb begin
    leaf_d = '0;
    for (int i = int'(Entries) - 1; i >= 0; i--) begin
      if (match_q[i]) leaf_d = leaves_q[i];
    end
  end

  fib_valid #(
    .Cycles(Latency)
  ) u_valid (
    .clk_i,
    .rst_i,
    .valid_i,
    .valid_o(valid)
  );

  assign valid_o = valid[Latency];
  assign leaf_o  = leaf_q;

`ifndef SYNTHESIS
  always_ff @(posedge clk_i) begin
    if (!rst_i && write) begin
      a_entry_there : assert (32'(wr_i.addr) < Entries);
      a_length : assert (32'(entry.len) <= CompareW);
    end
  end
`endif
endmodule
