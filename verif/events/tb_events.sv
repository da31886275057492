// SPDX-License-Identifier: Apache-2.0
// Bench top of what the NIC tells the host: events and interrupts, with the arbiter of TLPs behind them and
// another stream in front.
//
// Latency   : that of the modules.
// Clock     : clk_net_i, clk_pcie_i.
// Handshake : as in the modules. Drops: as in the modules.
// Source    : ours.
module tb_events
  import ipnuma_pkg::*;
#(
  parameter int unsigned Depth = 8
) (
  input  logic        clk_net_i,
  input  logic        rst_net_i,
  input  logic        event_valid_i,
  input  logic [ 7:0] event_code_i,
  input  logic [ 7:0] event_op_i,
  input  logic [15:0] event_number_i,
  input  logic [15:0] event_who_i,
  input  logic [63:0] event_address_i,
  output logic        event_ready_o,
  output logic        cnt_event_lost_o,
  output logic        busy_net_o,
  input  logic        clk_pcie_i,
  input  logic        rst_pcie_i,
  input  logic [15:0] completer_id_i,
  input  logic [31:0] now_us_i,
  input  logic [63:0] event_base_i,
  input  logic [ 4:0] event_log2_i,
  input  logic        event_restart_i,
  input  logic [31:0] event_tail_i,
  input  logic [63:0] msi_address_i,
  input  logic [31:0] msi_data_i,
  input  logic [15:0] msi_moderation_us_i,
  input  logic [ 1:0] msi_control_i,
  input  logic        arrival_i,
  output logic        cnt_event_written_o,
  output logic        cnt_msi_o,
  output logic        busy_pcie_o,
  // Another stream, of higher rank.
  input  logic [63:0] s_other_tdata_i,
  input  logic        s_other_tvalid_i,
  input  logic        s_other_tlast_i,
  output logic        s_other_tready_o,
  output logic [63:0] m_tlp_tdata_o,
  output logic [ 7:0] m_tlp_tkeep_o,
  output logic        m_tlp_tvalid_o,
  output logic        m_tlp_tlast_o,
  input  logic        m_tlp_tready_i
);
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) first ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) second ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) third ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) notice ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();

  assign first.tdata      = s_other_tdata_i;
  assign first.tkeep      = '1;
  assign first.tvalid     = s_other_tvalid_i;
  assign first.tlast      = s_other_tlast_i;
  assign first.tuser      = '0;
  assign s_other_tready_o = first.tready;
  assign second.tdata     = '0;
  assign second.tkeep     = '0;
  assign second.tvalid    = 1'b0;
  assign second.tlast     = 1'b0;
  assign second.tuser     = '0;
  assign third.tdata      = '0;
  assign third.tkeep      = '0;
  assign third.tvalid     = 1'b0;
  assign third.tlast      = 1'b0;
  assign third.tuser      = '0;

  host_notice #(
    .Depth(Depth)
  ) u_notice (
    .clk_net_i,
    .rst_net_i,
    .event_valid_i,
    .event_i(
    '{
        code: event_code_i,
        op: event_op_i,
        number: event_number_i,
        who: event_who_i,
        address: event_address_i
    }
    ),
    .event_ready_o,
    .cnt_event_lost_o,
    .busy_net_o,
    .clk_pcie_i,
    .rst_pcie_i,
    .completer_id_i,
    .bus_master_i(1'b1),
    .now_us_i,
    .event_base_i,
    .event_log2_i,
    .event_restart_i,
    .event_tail_i,
    .msi_address_i,
    .msi_data_i,
    .msi_moderation_us_i,
    .msi_control_i,
    .arrival_i,
    .m_tlp(notice),
    .cnt_event_written_o,
    .cnt_msi_o,
    .busy_pcie_o
  );

  tlp_tx u_tlp_tx (
    .clk_i   (clk_pcie_i),
    .rst_i   (rst_pcie_i),
    .s_first (first),
    .s_second(second),
    .s_third (third),
    .s_fourth(notice),
    .m_axis  (m_tlp)
  );

  assign m_tlp_tdata_o  = m_tlp.tdata;
  assign m_tlp_tkeep_o  = m_tlp.tkeep;
  assign m_tlp_tvalid_o = m_tlp.tvalid;
  assign m_tlp_tlast_o  = m_tlp.tlast;
  assign m_tlp.tready   = m_tlp_tready_i;
endmodule
