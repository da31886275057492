// SPDX-License-Identifier: Apache-2.0
// The CPU's loads that wait for their completion from the network.
//
// Latency   : take and look-up as in tag_pool; a time-out's completion 1 cycle after it is found.
// Clock     : clk_i (PCIe).
// Handshake : cpl_error_valid_o holds until ready. done_i only with live_o.
// Drops     : never; a load that nobody answers is completed with CA.
// Source    : docs/architecture.md.
module load_tags
  import ipnuma_pkg::*;
#(
  /// Tags; 32 at most.
  parameter int unsigned LoadTags = 32
) (
  input logic        clk_i,
  input logic        rst_i,
  input logic [31:0] now_us_i,
  input logic [31:0] read_timeout_us_i,

  /// From the requester.
  input  logic        alloc_i,
  input  load_t       alloc_load_i,
  output logic        alloc_ok_o,
  output logic  [7:0] alloc_tag_o,

  /// From the server: a completion came with this tag from this address.
  input  logic  [ 7:0] tag_i,
  input  logic  [31:0] peer_ip_i,
  /// It belongs to a load.
  output logic         live_o,
  output load_t        load_o,
  /// It was the last one.
  input  logic         done_i,
  /// No time-outs now: a completion is being looked up or passed on.
  input  logic         hold_i,

  output cpl_error_t cpl_error_o,
  output logic       cpl_error_valid_o,
  input  logic       cpl_error_ready_i,

  output logic cnt_load_timeout_o,
  output logic cnt_load_completed_o,
  output logic busy_o
);
  localparam int unsigned GenerationW = 3;
  localparam int unsigned TagW = GenerationW + $clog2(LoadTags);

  logic [TagW-1:0] take_tag;
  logic tag_live, expired, expire, pool_busy;
  logic error_valid_q, timeout_q, completed_q;
  load_t      expired_load;
  cpl_error_t error_q;

  tag_pool #(
    .Tags       (LoadTags),
    .GenerationW(GenerationW),
    .data_t     (load_t)
  ) u_pool (
    .clk_i,
    .rst_i,
    .now_us_i,
    .timeout_us_i  (read_timeout_us_i),
    .take_i        (alloc_i),
    .take_data_i   (alloc_load_i),
    .take_ok_o     (alloc_ok_o),
    .take_tag_o    (take_tag),
    .tag_i         (tag_i[TagW-1:0]),
    .live_o        (tag_live),
    .data_o        (load_o),
    .free_i        (done_i),
    .expired_o     (expired),
    .expired_data_o(expired_load),
    .expire_i      (expire),
    .busy_o        (pool_busy)
  );

  assign alloc_tag_o = 8'(take_tag);
  assign live_o      = tag_live && 8'(tag_i[TagW-1:0]) == tag_i && load_o.peer_ip == peer_ip_i;
  assign expire      = expired && !error_valid_q && !hold_i;

  always_ff @(posedge clk_i) begin
    if (expire) begin
      error_q <= '{
          requester_id: expired_load.requester_id,
          tag: expired_load.tag,
          tc: expired_load.tc,
          status: CPL_CA,
          byte_count: expired_load.byte_count,
          lower_address: expired_load.lower_address
      };
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      error_valid_q <= 1'b0;
      timeout_q     <= 1'b0;
      completed_q   <= 1'b0;
    end else begin
      if (expire) error_valid_q <= 1'b1;
      else if (cpl_error_ready_i) error_valid_q <= 1'b0;
      timeout_q   <= expire;
      completed_q <= done_i;
    end
  end

  assign cpl_error_o          = error_q;
  assign cpl_error_valid_o    = error_valid_q;
  assign cnt_load_timeout_o   = timeout_q;
  assign cnt_load_completed_o = completed_q;
  assign busy_o               = pool_busy || error_valid_q || timeout_q || completed_q;

  // The address only matters to completions that come.
  logic unused;
  assign unused = ^expired_load.peer_ip;

`ifndef SYNTHESIS
  initial
    assert (LoadTags <= 32)
    else $fatal(1, "load_tags: the tag does not fit its 8 bits");
  assert property (@(posedge clk_i) disable iff (rst_i) done_i |-> live_o && hold_i)
  else $error("load_tags: done without a completion of that load");
`endif
endmodule
