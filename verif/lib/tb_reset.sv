// SPDX-License-Identifier: Apache-2.0
// A FIFO each way between two clocks, reset by reset_pair; side a is shut off while it says so.
//
// Latency : none of its own.
// Clock   : a_clk_i, b_clk_i.
// Source  : bench only.
module tb_reset (
  input  logic        a_clk_i,
  input  logic        a_rst_i,
  output logic        a_rst_o,
  output logic        a_stop_o,
  input  logic        a_rest_i,
  input  logic        b_clk_i,
  input  logic        b_rst_i,
  output logic        b_rst_o,
  // a to b
  input  logic [31:0] down_wdata_i,
  input  logic        down_wvalid_i,
  output logic        down_wready_o,
  output logic [31:0] down_rdata_o,
  output logic        down_rvalid_o,
  input  logic        down_rready_i,
  // b to a
  input  logic [31:0] up_wdata_i,
  input  logic        up_wvalid_i,
  output logic        up_wready_o,
  output logic [31:0] up_rdata_o,
  output logic        up_rvalid_o,
  input  logic        up_rready_i
);
  logic down_wready, up_rvalid;
  assign down_wready_o = down_wready && !a_stop_o;
  assign up_rvalid_o   = up_rvalid && !a_stop_o;

  reset_pair u_pair (.*);

  async_fifo #(
    .data_t(logic [31:0])
  ) u_down (
    .wclk_i  (a_clk_i),
    .wrst_i  (a_rst_o),
    .wdata_i (down_wdata_i),
    .wvalid_i(down_wvalid_i && !a_stop_o),
    .wready_o(down_wready),
    .wcount_o(),
    .rclk_i  (b_clk_i),
    .rrst_i  (b_rst_o),
    .rdata_o (down_rdata_o),
    .rvalid_o(down_rvalid_o),
    .rready_i(down_rready_i)
  );

  async_fifo #(
    .data_t(logic [31:0])
  ) u_up (
    .wclk_i  (b_clk_i),
    .wrst_i  (b_rst_o),
    .wdata_i (up_wdata_i),
    .wvalid_i(up_wvalid_i),
    .wready_o(up_wready_o),
    .wcount_o(),
    .rclk_i  (a_clk_i),
    .rrst_i  (a_rst_o),
    .rdata_o (up_rdata_o),
    .rvalid_o(up_rvalid),
    .rready_i(up_rready_i && !a_stop_o)
  );
endmodule
