// SPDX-License-Identifier: Apache-2.0
// Stand-in for the lookup: a small table of exact addresses, compared all at once.
//
// Entries are those of the exact-match memories (v4_host_0, v6_host_0), their address the number of
// an entry in here, not a hash; the default routes are the two registers.
//
// Latency   : Latency edges from req_valid_i to rsp_valid_o, one request each cycle.
// Clock     : clk_i.
// Handshake : neither side can wait. A write holds for requests of later cycles.
// Drops     : never.
// Source    : none; for benches and first light.
module lookup_stub #(
  /// Entries for each family; a power of two.
  parameter int unsigned Entries = 16,
  /// Edges from request to answer, from 1.
  parameter int unsigned Latency = 6
) (
  input  logic                    clk_i,
  input  logic                    rst_i,
  input  logic                    req_valid_i,
  input  fibnic_pkg::lookup_req_t req_i,
  output logic                    rsp_valid_o,
  output fibnic_pkg::lookup_rsp_t rsp_o,
  input  logic                    wr_valid_i,
  // Words of other memories are wider and have more of them.
  // verilator lint_off UNUSEDSIGNAL
  input  fibnic_pkg::fib_wr_t     wr_i
  // verilator lint_on UNUSEDSIGNAL
);
  import fibnic_pkg::*;

  localparam int unsigned IdxW = $clog2(Entries);

  logic        [Entries-1:0][     31:0] key4_q;
  logic        [Entries-1:0][LeafW-1:0] leaf4_q;
  logic        [Entries-1:0][    127:0] key6_q;
  logic        [Entries-1:0][LeafW-1:0] leaf6_q;
  logic        [        1:0][LeafW-1:0] default_q;
  logic        [  LeafW-1:0]            leaf;
  lookup_rsp_t                          rsp;
  lookup_rsp_t [Latency-1:0]            rsp_q;
  logic        [Latency-1:0]            valid_q;
  logic        [   IdxW-1:0]            wr_idx;

  assign wr_idx = wr_i.addr[IdxW-1:0];

  always_ff @(posedge clk_i) begin
    if (wr_valid_i && wr_i.mem == MemV4Host0) key4_q[wr_idx] <= wr_i.data[LeafW+:32];
    if (wr_valid_i && wr_i.mem == MemV6Host0) key6_q[wr_idx] <= wr_i.data[LeafW+:128];
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      leaf4_q   <= '0;
      leaf6_q   <= '0;
      default_q <= '0;
    end else if (wr_valid_i) begin
      if (wr_i.mem == MemV4Host0) leaf4_q[wr_idx] <= wr_i.data[LeafW-1:0];
      if (wr_i.mem == MemV6Host0) leaf6_q[wr_idx] <= wr_i.data[LeafW-1:0];
      if (wr_i.mem == MemRegister) default_q[wr_i.addr[0]] <= wr_i.data[LeafW-1:0];
    end
  end

  always_comb begin
    leaf = '0;
    for (int unsigned i = 0; i < Entries; i++) begin
      if (!req_i.v6 && key4_q[i] == req_i.addr[127:96]) leaf |= leaf4_q[i];
      if (req_i.v6 && key6_q[i] == req_i.addr) leaf |= leaf6_q[i];
    end
    if (leaf == '0) leaf = default_q[req_i.v6];
    rsp.hit      = leaf != '0;
    rsp.punt     = leaf[17];
    rsp.port     = leaf[16:12];
    rsp.next_hop = leaf[11:0];
  end

  always_ff @(posedge clk_i) begin
    rsp_q[0] <= rsp;
    for (int unsigned i = 1; i < Latency; i++) rsp_q[i] <= rsp_q[i-1];
    if (rst_i) begin
      valid_q <= '0;
    end else begin
      valid_q[0] <= req_valid_i;
      for (int unsigned i = 1; i < Latency; i++) valid_q[i] <= valid_q[i-1];
    end
  end

  assign rsp_valid_o = valid_q[Latency-1];
  assign rsp_o       = rsp_q[Latency-1];
endmodule
