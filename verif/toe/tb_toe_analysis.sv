// SPDX-License-Identifier: Apache-2.0
// Flat ports around the analysis; slots are numbers, given back in order.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_toe_analysis
  import toe_pkg::*;
#(
  parameter int unsigned Analyzers = 5,
  parameter int unsigned BytesPerCycle = 8,
  parameter int unsigned PaceNum = 1,
  parameter int unsigned PaceDen = 1,
  parameter int unsigned PayloadTicks = 1,
  parameter int unsigned Words = 4096,
  parameter int unsigned MaxFrame = 1522
) (
  input  logic                       clk_i,
  input  logic                       rst_i,
  input  logic [               63:0] tdata_i,
  input  logic [                7:0] tkeep_i,
  input  logic                       tvalid_i,
  input  logic                       tlast_i,
  input  logic                       tuser_i,
  output logic                       overflow_o,
  output logic                       take_o,
  output logic [$bits(header_t)-1:0] header_o,
  output logic                       header_valid_o,
  output logic [                7:0] tag_o,
  output logic                       ok_o,
  output logic                       result_valid_o,
  input  logic                       free_valid_i,
  input  logic [               15:0] free_i,
  input  logic                       rd_en_i,
  input  logic [               15:0] rd_addr_i,
  output logic [               63:0] rd_data_o
);
  axis_if s_eth ();
  assign s_eth.tdata  = tdata_i;
  assign s_eth.tkeep  = tkeep_i;
  assign s_eth.tvalid = tvalid_i;
  assign s_eth.tlast  = tlast_i;
  assign s_eth.tuser  = tuser_i;

  tag_t    slot_q;
  header_t header;
  result_t result;
  always_ff @(posedge clk_i) slot_q <= rst_i ? '0 : slot_q + 8'(take_o);
  assign header_o = header;
  assign tag_o    = result.tag;
  assign ok_o     = result.ok;

  toe_analysis #(
    .Analyzers    (Analyzers),
    .BytesPerCycle(BytesPerCycle),
    .PaceNum      (PaceNum),
    .PaceDen      (PaceDen),
    .PayloadTicks (PayloadTicks),
    .Words        (Words),
    .MaxFrame     (MaxFrame)
  ) u_dut (
    .clk_i,
    .rst_i,
    .s_eth,
    .cnt_overflow_o(overflow_o),
    .slot_ready_i  (1'b1),
    .slot_i        (slot_q),
    .slot_addr_o   (),
    .slot_take_o   (take_o),
    .header_o      (header),
    .header_valid_o,
    .result_o      (result),
    .result_valid_o,
    .rd_en_i,
    .rd_addr_i,
    .rd_data_o,
    .free_valid_i,
    .free_i
  );
endmodule
