// SPDX-License-Identifier: Apache-2.0
// Flat ports around tlp_rx, with few credits.
//
// Latency : that of tlp_rx.
// Clock   : clk_i.
// Source  : bench only.
module tb_tlp_rx
  import ipnuma_pkg::*;
  import tlp_pkg::*;
#(
  parameter int unsigned Pages = 64,
  parameter int unsigned PostedHeaders = 8,
  parameter int unsigned PostedData = 16,
  parameter int unsigned NonPosted = 4,
  parameter int unsigned CplWords = 64
) (
  input  logic                          clk_i,
  input  logic                          rst_i,
  input  logic [                  63:0] s_tlp_tdata_i,
  input  logic [                   7:0] s_tlp_tkeep_i,
  input  logic                          s_tlp_tvalid_i,
  input  logic                          s_tlp_tlast_i,
  input  logic [                   2:0] s_tlp_tuser_i,
  output logic                          s_tlp_tready_o,
  output logic [   $bits(reg_op_t)-1:0] reg_op_o,
  output logic                          reg_op_valid_o,
  input  logic                          reg_op_ready_i,
  input  logic                          reg_read_ok_i,
  output logic                          page_look_o,
  output logic [  $bits(page_op_t)-1:0] page_op_o,
  output logic                          page_first_o,
  output logic                          page_end_o,
  output logic                          page_active_o,
  input  logic                          page_store_ready_i,
  input  logic                          page_load_ready_i,
  output logic                          page_pay_even_we_o,
  output logic                          page_pay_odd_we_o,
  output logic [                   4:0] page_pay_even_idx_o,
  output logic [                  31:0] page_pay_even_data_o,
  output logic [                   4:0] page_pay_odd_idx_o,
  output logic [                  31:0] page_pay_odd_data_o,
  output logic                          cpl_pay_even_we_o,
  output logic                          cpl_pay_odd_we_o,
  output logic [                   4:0] cpl_pay_even_idx_o,
  output logic [                  31:0] cpl_pay_even_data_o,
  output logic [                   4:0] cpl_pay_odd_idx_o,
  output logic [                  31:0] cpl_pay_odd_data_o,
  output logic                          cpl_active_o,
  output logic                          cpl_valid_o,
  output logic [ $bits(cpl_head_t)-1:0] cpl_head_o,
  input  logic                          cpl_ready_i,
  output logic [$bits(cpl_error_t)-1:0] rx_error_o,
  output logic                          rx_error_valid_o,
  /// Pulses: {malformed, poisoned, unsupported, page_beyond}
  output logic [                   3:0] cnt_o,
  output logic                          busy_o
);
  axis_if #(
    .DataW(64),
    .UserW(3)
  ) s_tlp ();

  assign s_tlp.tdata    = s_tlp_tdata_i;
  assign s_tlp.tkeep    = s_tlp_tkeep_i;
  assign s_tlp.tvalid   = s_tlp_tvalid_i;
  assign s_tlp.tlast    = s_tlp_tlast_i;
  assign s_tlp.tuser    = s_tlp_tuser_i;
  assign s_tlp_tready_o = s_tlp.tready;

  tlp_rx #(
    .Pages        (Pages),
    .PostedHeaders(PostedHeaders),
    .PostedData   (PostedData),
    .NonPosted    (NonPosted),
    .CplWords     (CplWords)
  ) u_dut (
    .clk_i,
    .rst_i,
    .s_axis               (s_tlp),
    .reg_op_o             (reg_op_o),
    .reg_op_valid_o,
    .reg_op_ready_i,
    .reg_read_ok_i,
    .page_look_o,
    .page_op_o            (page_op_o),
    .page_first_o,
    .page_end_o,
    .page_active_o,
    .page_store_ready_i,
    .page_load_ready_i,
    .page_pay_even_we_o,
    .page_pay_odd_we_o,
    .page_pay_even_idx_o,
    .page_pay_even_data_o,
    .page_pay_odd_idx_o,
    .page_pay_odd_data_o,
    .cpl_pay_even_we_o,
    .cpl_pay_odd_we_o,
    .cpl_pay_even_idx_o,
    .cpl_pay_even_data_o,
    .cpl_pay_odd_idx_o,
    .cpl_pay_odd_data_o,
    .cpl_active_o,
    .cpl_valid_o,
    .cpl_head_o           (cpl_head_o),
    .cpl_ready_i,
    .rx_error_o           (rx_error_o),
    .rx_error_valid_o,
    .cnt_tlp_page_beyond_o(cnt_o[0]),
    .cnt_tlp_unsupported_o(cnt_o[1]),
    .cnt_tlp_poisoned_o   (cnt_o[2]),
    .cnt_tlp_malformed_o  (cnt_o[3]),
    .busy_o
  );
endmodule
