// SPDX-License-Identifier: Apache-2.0
// A rig with small tables, and a look at the pins between its testers and its switch.
//
// Latency : none of its own.
// Clock   : clk_i.
// Source  : bench only.
module tb_rfc2544 #(
  /// 1: 10G, 0: 1G.
  parameter bit Fast = 1'b1
) (
  input  logic        clk_i,
  input  logic        rst_i,
  input  logic        t_wr_i,
  input  logic [15:0] t_addr_i,
  input  logic [63:0] t_wdata_i,
  output logic [63:0] t_rdata_o,

  output logic         m_host_tvalid_o,
  input  logic         wr_valid_i,
  output logic         wr_ready_o,
  input  logic [  4:0] wr_mem_i,
  input  logic [ 23:0] wr_addr_i,
  input  logic [167:0] wr_data_i,
  input  logic [ 11:0] cnt_idx_i,
  output logic [ 31:0] cnt_o,
  output logic         busy_o,

  /// The first bit of a frame is on the pins to and from the switch; in the second half of the
  /// cycle.
  output logic [3:0] in_first_o,
  output logic [3:0] in_half_o,
  output logic [3:0] out_first_o,
  output logic [3:0] out_half_o
);
  localparam int unsigned N = 4;
  localparam logic [7:0] Start = 8'hFB;

  if (Fast) begin : gen_10g
    for (genvar p = 0; p < int'(N); p++) begin : gen_pins
      assign in_half_o[p] = u_rig.to_switch_c[p][4] && u_rig.to_switch_d[p][39:32] == Start;
      assign out_half_o[p] = u_rig.from_switch_c[p][4] && u_rig.from_switch_d[p][39:32] == Start;
      assign in_first_o[p] = in_half_o[p] ||
          (u_rig.to_switch_c[p][0] && u_rig.to_switch_d[p][7:0] == Start);
      assign out_first_o[p] = out_half_o[p] ||
          (u_rig.from_switch_c[p][0] && u_rig.from_switch_d[p][7:0] == Start);
    end

    rfc2544_10g #(
      .N            (N),
      .NextHops     (64),
      .AclRules     (4),
      .V4Leaves     (1024),
      .V6Leaves     (1024),
      .V6TcamEntries(4)
    ) u_rig (
      .clk_i,
      .rst_i,
      .t_wr_i,
      .t_addr_i,
      .t_wdata_i,
      .t_rdata_o,
      .s_host_tdata_i ('0),
      .s_host_tkeep_i ('0),
      .s_host_tvalid_i(1'b0),
      .s_host_tready_o(),
      .s_host_tlast_i (1'b0),
      .s_host_tuser_i ('0),
      .m_host_tdata_o (),
      .m_host_tkeep_o (),
      .m_host_tvalid_o,
      .m_host_tready_i(1'b1),
      .m_host_tlast_o (),
      .m_host_tuser_o (),
      .wr_valid_i,
      .wr_ready_o,
      .wr_mem_i,
      .wr_addr_i,
      .wr_data_i,
      .cnt_idx_i,
      .cnt_o,
      .check_o        (),
      .busy_o
    );
  end else begin : gen_1g
    logic [N-1:0] in_q, out_q;

    always_ff @(posedge clk_i) begin
      in_q  <= u_rig.to_switch_en;
      out_q <= u_rig.from_switch_en;
    end

    assign in_first_o  = u_rig.to_switch_en & ~in_q;
    assign out_first_o = u_rig.from_switch_en & ~out_q;
    assign in_half_o   = '0;
    assign out_half_o  = '0;

    rfc2544_1g #(
      .N            (N),
      .NextHops     (64),
      .AclRules     (4),
      .V4Leaves     (1024),
      .V6Leaves     (1024),
      .V6TcamEntries(4)
    ) u_rig (
      .clk_i,
      .rst_i,
      .t_wr_i,
      .t_addr_i,
      .t_wdata_i,
      .t_rdata_o,
      .s_host_tdata_i ('0),
      .s_host_tkeep_i ('0),
      .s_host_tvalid_i(1'b0),
      .s_host_tready_o(),
      .s_host_tlast_i (1'b0),
      .s_host_tuser_i ('0),
      .m_host_tdata_o (),
      .m_host_tkeep_o (),
      .m_host_tvalid_o,
      .m_host_tready_i(1'b1),
      .m_host_tlast_o (),
      .m_host_tuser_o (),
      .wr_valid_i,
      .wr_ready_o,
      .wr_mem_i,
      .wr_addr_i,
      .wr_data_i,
      .cnt_idx_i,
      .cnt_o,
      .check_o        (),
      .busy_o
    );
  end
endmodule
