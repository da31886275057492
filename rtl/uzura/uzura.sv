// SPDX-License-Identifier: Apache-2.0
// The UZURA engine with its translation table on chip; uzura_core has a port for a table elsewhere.
//
// Latency, handshake, drops : uzura_core.
// Clock                     : clk_i.
module uzura #(
  /// log2 of the words of the translation table: pages that are known without a DMA read.
  parameter int unsigned MemW = 10,
  /// Edges of the table's RAM.
  parameter int unsigned MemLatency = 1,
  parameter int unsigned BufferW = 11,
  parameter int unsigned RxBufferW = 11,
  parameter int unsigned ScanCycles = 64,
  localparam int unsigned CqW = uzura_qp_pkg::CqW
) (
  input  logic           clk_i,
  input  logic           rst_i,
  input  logic [   31:0] now_us_i,
  output logic [   47:0] mac_o,
  output logic [   31:0] ip_o,
  input  logic           reg_valid_i,
  output logic           reg_ready_o,
  input  logic           reg_write_i,
  input  logic [   18:0] reg_addr_i,
  input  logic [   63:0] reg_wdata_i,
  output logic           reg_rvalid_o,
  output logic [   63:0] reg_rdata_o,
  output logic [   63:0] rd_addr_o,
  output logic [   12:0] rd_bytes_o,
  output logic [    2:0] rd_cookie_o,
  output logic           rd_valid_o,
  input  logic           rd_ready_i,
  input  logic [   63:0] rd_data_i,
  input  logic [    2:0] rd_data_cookie_i,
  input  logic           rd_data_last_i,
  input  logic           rd_data_bad_i,
  input  logic           rd_data_valid_i,
  output logic           rd_data_ready_o,
  output logic [   63:0] wr_addr_o,
  output logic [   12:0] wr_bytes_o,
  output logic           wr_valid_o,
  input  logic           wr_ready_i,
  output logic [   63:0] wr_data_o,
  output logic           wr_data_last_o,
  output logic           wr_data_valid_o,
  input  logic           wr_data_ready_i,
  input  logic [   63:0] rx_tdata_i,
  input  logic [    7:0] rx_tkeep_i,
  input  logic           rx_tvalid_i,
  input  logic           rx_tlast_i,
  input  logic           rx_tuser_i,
  output logic [   63:0] tx_tdata_o,
  output logic [    7:0] tx_tkeep_o,
  output logic           tx_tvalid_o,
  output logic           tx_tlast_o,
  /// With tx_tvalid_o: the frame is for this engine itself.
  output logic           tx_own_o,
  input  logic           tx_tready_i,
  output logic           event_valid_o,
  output logic [CqW-1:0] event_cq_o,
  output logic           alarm_o,
  output logic           busy_o
);
  logic mem_re, mem_we;
  logic [MemW-1:0] mem_raddr, mem_waddr;
  logic [63:0] mem_rdata, mem_wdata;

  uzura_core #(
    .MemW      (MemW),
    .MemLatency(MemLatency),
    .BufferW   (BufferW),
    .RxBufferW (RxBufferW),
    .ScanCycles(ScanCycles)
  ) u_core (
    .mem_re_o   (mem_re),
    .mem_raddr_o(mem_raddr),
    .mem_rdata_i(mem_rdata),
    .mem_we_o   (mem_we),
    .mem_waddr_o(mem_waddr),
    .mem_wdata_o(mem_wdata),
    .*
  );
  ram_1r1w #(
    .Depth      (1 << MemW),
    .ReadLatency(MemLatency),
    .InitZero   (1'b0)
  ) u_table (
    .clk_i,
    .we_i   (mem_we),
    .waddr_i(mem_waddr),
    .wdata_i(mem_wdata),
    .re_i   (mem_re),
    .raddr_i(mem_raddr),
    .rdata_o(mem_rdata)
  );
endmodule
