// SPDX-License-Identifier: Apache-2.0
// Where a source's frames go: an address, a sweep over addresses, or a list of them.
//
// Latency : address_o is valid 2 edges after load_i or next_i.
// Clock   : clk_i.
// Source  : dissertation section 5.3.1 (sweep over /24 prefixes).
module frame_address (
  input  logic                         clk_i,
  /// To the first address.
  input  logic                         load_i,
  /// To the next.
  input  logic                         next_i,
  input  logic [                127:0] base_i,
  input  logic [                127:0] step_i,
  /// Addresses of the sweep; 0 means 1.
  input  logic [                 31:0] sweep_i,
  /// Entries of the list; 0: sweep.
  input  logic [  tester_pkg::ListW:0] list_i,
  output logic [                127:0] address_o,
  input  logic                         we_lo_i,
  input  logic                         we_hi_i,
  input  logic [tester_pkg::ListW-1:0] waddr_i,
  input  logic [                 63:0] wdata_i
);
  import tester_pkg::*;

  logic [31:0] idx_q, limit;
  logic at_end;
  logic [127:0] sweep_q, listed;
  logic carry_q, add_hi_q;

  assign limit  = list_i != '0 ? 32'(list_i) : sweep_i;
  assign at_end = idx_q + 1'b1 >= limit;

  always_ff @(posedge clk_i) begin
    add_hi_q <= 1'b0;
    if (load_i || (next_i && at_end)) begin
      idx_q   <= '0;
      sweep_q <= base_i;
    end else if (next_i) begin
      idx_q                    <= idx_q + 1'b1;
      // The upper half follows with the carry, one edge later.
      {carry_q, sweep_q[63:0]} <= 65'(sweep_q[63:0]) + 65'(step_i[63:0]);
      add_hi_q                 <= 1'b1;
    end
    if (add_hi_q) sweep_q[127:64] <= sweep_q[127:64] + step_i[127:64] + 64'(carry_q);
  end

  for (genvar h = 0; h < 2; h++) begin : gen_half
    ram_1r1w #(
      .data_t     (logic [63:0]),
      .Depth      (ListEntries),
      .ReadLatency(1)
    ) u_list (
      .clk_i,
      .we_i   (h == 0 ? we_lo_i : we_hi_i),
      .waddr_i,
      .wdata_i,
      .re_i   (1'b1),
      .raddr_i(idx_q[ListW-1:0]),
      .rdata_o(listed[64*h+:64])
    );
  end

  assign address_o = list_i != '0 ? listed : sweep_q;
endmodule
