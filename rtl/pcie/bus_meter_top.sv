// SPDX-License-Identifier: Apache-2.0
// The bus meter with flat ports, in the place of a NIC.
//
// Latency   : as bus_meter.
// Clock     : clk_pcie_i.
// Handshake : TLP streams as the NIC's; s_tlp_tuser_i is the BAR hit.
// Drops     : as bus_meter.
// Source    : dissertation section 3.2.2.
module bus_meter_top #(
  /// Bytes of the memory in BAR 2, a power of two.
  parameter int unsigned MemoryBytes = 4096
) (
  input  logic        clk_pcie_i,
  input  logic        rst_pcie_i,
  input  logic [15:0] completer_id_i,
  input  logic [63:0] s_tlp_tdata_i,
  input  logic [ 7:0] s_tlp_tkeep_i,
  input  logic        s_tlp_tvalid_i,
  input  logic        s_tlp_tlast_i,
  input  logic [ 2:0] s_tlp_tuser_i,
  output logic        s_tlp_tready_o,
  output logic [63:0] m_tlp_tdata_o,
  output logic [ 7:0] m_tlp_tkeep_o,
  output logic        m_tlp_tvalid_o,
  output logic        m_tlp_tlast_o,
  input  logic        m_tlp_tready_i,
  output logic        busy_o
);
  axis_if #(
    .DataW(64),
    .UserW(3)
  ) s_tlp ();
  axis_if #(
    .DataW(64),
    .UserW(1)
  ) m_tlp ();

  assign s_tlp.tdata    = s_tlp_tdata_i;
  assign s_tlp.tkeep    = s_tlp_tkeep_i;
  assign s_tlp.tvalid   = s_tlp_tvalid_i;
  assign s_tlp.tlast    = s_tlp_tlast_i;
  assign s_tlp.tuser    = s_tlp_tuser_i;
  assign s_tlp_tready_o = s_tlp.tready;

  assign m_tlp_tdata_o  = m_tlp.tdata;
  assign m_tlp_tkeep_o  = m_tlp.tkeep;
  assign m_tlp_tvalid_o = m_tlp.tvalid;
  assign m_tlp_tlast_o  = m_tlp.tlast;
  assign m_tlp.tready   = m_tlp_tready_i;

  bus_meter #(
    .MemoryBytes(MemoryBytes)
  ) u_meter (
    .clk_i (clk_pcie_i),
    .rst_i (rst_pcie_i),
    .completer_id_i,
    .s_axis(s_tlp),
    .m_axis(m_tlp),
    .busy_o
  );

  // The meter says nothing beside its TLPs.
  logic unused;
  assign unused = ^m_tlp.tuser;
endmodule
