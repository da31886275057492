// SPDX-License-Identifier: Apache-2.0
// Flat ports around the library's modules; each test uses its part.
//
// Latency : none of its own.
// Clock   : clk_i; clk_b_i is the other side of the clock crossings.
// Source  : bench only.
module tb_lib #(
  parameter int unsigned FifoDepth = 5,
  parameter int unsigned AsyncDepth = 8,
  parameter int unsigned N = 4,
  parameter int unsigned ReadLatency = 1,
  localparam int unsigned RamDepth = 20
) (
  input logic clk_i,
  input logic rst_i,
  input logic clk_b_i,
  input logic rst_b_i,

  // CRC functions, combinational.
  input  logic [63:0] crc_data_i,
  input  logic [31:0] crc_state_i,
  input  logic [ 2:0] crc_k_i,
  input  logic [ 3:0] crc_n_i,
  output logic [31:0] eth_next64_o,
  output logic [31:0] eth_next8_o,
  output logic [31:0] eth_nextn_o,
  output logic [31:0] eth_rewind_o,
  output logic [31:0] eth_residue_o,
  output logic [31:0] crc32c_next64_o,
  output logic [31:0] crc32c_rewind_o,
  output logic [31:0] crc32c_residue_o,
  output logic [15:0] crc16_next64_o,
  output logic [15:0] crc16_rewind_o,
  output logic [15:0] crc16_residue_o,

  // Streams through sync_fifo, skid_buffer (clk_i) and async_fifo, req_ack_cdc (clk_i to clk_b_i).
  input  logic [15:0] fifo_wdata_i,
  input  logic        fifo_wvalid_i,
  output logic        fifo_wready_o,
  output logic [15:0] fifo_rdata_o,
  output logic        fifo_rvalid_o,
  input  logic        fifo_rready_i,
  output logic [15:0] fifo_count_o,

  input  logic [15:0] skid_wdata_i,
  input  logic        skid_wvalid_i,
  output logic        skid_wready_o,
  output logic [15:0] skid_rdata_o,
  output logic        skid_rvalid_o,
  input  logic        skid_rready_i,

  input  logic [15:0] async_wdata_i,
  input  logic        async_wvalid_i,
  output logic        async_wready_o,
  output logic [15:0] async_rdata_o,
  output logic        async_rvalid_o,
  input  logic        async_rready_i,
  output logic [15:0] async_count_o,

  input  logic [15:0] req_wdata_i,
  input  logic        req_wvalid_i,
  output logic        req_wready_o,
  output logic [15:0] req_rdata_o,
  output logic        req_rvalid_o,
  input  logic        req_rready_i,

  input  logic [N-1:0] arb_req_i,
  input  logic         arb_ack_i,
  input  logic         arb_lock_i,
  output logic [N-1:0] arb_gnt_o,
  output logic [  7:0] arb_idx_o,
  output logic         arb_valid_o,

  input  logic        ram_we_i,
  input  logic [ 4:0] ram_waddr_i,
  input  logic [15:0] ram_wdata_i,
  input  logic        ram_re_i,
  input  logic [ 4:0] ram_raddr_i,
  output logic [15:0] ram_rdata_o,
  input  logic        ram2_re_i,
  input  logic [ 4:0] ram2_raddr_i,
  output logic [15:0] ram2_rdata_o
);
  import crc_pkg::*;

  assign eth_next64_o     = crc32_eth_next64(crc_state_i, crc_data_i);
  assign eth_next8_o      = crc32_eth_next8(crc_state_i, crc_data_i[7:0]);
  assign eth_nextn_o      = crc32_eth_nextn(crc_state_i, crc_data_i, crc_n_i);
  assign eth_rewind_o     = crc32_eth_rewind(crc_state_i, crc_k_i);
  assign eth_residue_o    = CRC32_ETH_RESIDUE[crc_k_i];
  assign crc32c_next64_o  = crc32c_next64(crc_state_i, crc_data_i);
  assign crc32c_rewind_o  = crc32c_rewind(crc_state_i, crc_k_i);
  assign crc32c_residue_o = CRC32C_RESIDUE[crc_k_i];
  assign crc16_next64_o   = crc16_next64(crc_state_i[15:0], crc_data_i);
  assign crc16_rewind_o   = crc16_rewind(crc_state_i[15:0], crc_k_i);
  assign crc16_residue_o  = CRC16_RESIDUE[crc_k_i];

  logic [    $clog2(FifoDepth+1)-1:0] fifo_count;
  logic [       $clog2(AsyncDepth):0] async_count;
  logic [(N > 1 ? $clog2(N) : 1)-1:0] arb_idx;

  assign fifo_count_o  = 16'(fifo_count);
  assign async_count_o = 16'(async_count);
  assign arb_idx_o     = 8'(arb_idx);

  sync_fifo #(
    .data_t(logic [15:0]),
    .Depth (FifoDepth)
  ) u_sync_fifo (
    .clk_i,
    .rst_i,
    .wdata_i (fifo_wdata_i),
    .wvalid_i(fifo_wvalid_i),
    .wready_o(fifo_wready_o),
    .rdata_o (fifo_rdata_o),
    .rvalid_o(fifo_rvalid_o),
    .rready_i(fifo_rready_i),
    .count_o (fifo_count)
  );

  skid_buffer #(
    .data_t(logic [15:0])
  ) u_skid_buffer (
    .clk_i,
    .rst_i,
    .in_data_i  (skid_wdata_i),
    .in_valid_i (skid_wvalid_i),
    .in_ready_o (skid_wready_o),
    .out_data_o (skid_rdata_o),
    .out_valid_o(skid_rvalid_o),
    .out_ready_i(skid_rready_i)
  );

  async_fifo #(
    .data_t(logic [15:0]),
    .Depth (AsyncDepth)
  ) u_async_fifo (
    .wclk_i  (clk_i),
    .wrst_i  (rst_i),
    .wdata_i (async_wdata_i),
    .wvalid_i(async_wvalid_i),
    .wready_o(async_wready_o),
    .wcount_o(async_count),
    .rclk_i  (clk_b_i),
    .rrst_i  (rst_b_i),
    .rdata_o (async_rdata_o),
    .rvalid_o(async_rvalid_o),
    .rready_i(async_rready_i)
  );

  req_ack_cdc #(
    .data_t(logic [15:0])
  ) u_req_ack_cdc (
    .src_clk_i  (clk_i),
    .src_rst_i  (rst_i),
    .src_data_i (req_wdata_i),
    .src_valid_i(req_wvalid_i),
    .src_ready_o(req_wready_o),
    .dst_clk_i  (clk_b_i),
    .dst_rst_i  (rst_b_i),
    .dst_data_o (req_rdata_o),
    .dst_valid_o(req_rvalid_o),
    .dst_ready_i(req_rready_i)
  );

  arb_rr #(
    .N(N)
  ) u_arb_rr (
    .clk_i,
    .rst_i,
    .req_i      (arb_req_i),
    .ack_i      (arb_ack_i),
    .lock_i     (arb_lock_i),
    .gnt_o      (arb_gnt_o),
    .gnt_idx_o  (arb_idx),
    .gnt_valid_o(arb_valid_o)
  );

  ram_1r1w #(
    .data_t     (logic [15:0]),
    .Depth      (RamDepth),
    .ReadLatency(ReadLatency)
  ) u_ram_1r1w (
    .clk_i,
    .we_i   (ram_we_i),
    .waddr_i(ram_waddr_i),
    .wdata_i(ram_wdata_i),
    .re_i   (ram_re_i),
    .raddr_i(ram_raddr_i),
    .rdata_o(ram_rdata_o)
  );

  ram_2clk #(
    .data_t     (logic [15:0]),
    .Depth      (RamDepth),
    .ReadLatency(ReadLatency)
  ) u_ram_2clk (
    .wclk_i (clk_i),
    .we_i   (ram_we_i),
    .waddr_i(ram_waddr_i),
    .wdata_i(ram_wdata_i),
    .rclk_i (clk_b_i),
    .re_i   (ram2_re_i),
    .raddr_i(ram2_raddr_i),
    .rdata_o(ram2_rdata_o)
  );
endmodule
