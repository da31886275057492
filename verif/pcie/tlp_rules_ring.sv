// SPDX-License-Identifier: Apache-2.0
// The rules of TLPs, bound to what the ring NIC sends. Its limits are those of its bus register.
//
// Latency : none.
// Clock   : clk_pcie_i.
// Source  : bench only.
bind ring_nic tlp_rules u_tlp_rules (
  .clk_i(clk_pcie_i),
  .rst_i(rst_pcie_i),
  .cfg_i(
  '{
      max_payload: {2'b00, large_payload},
      max_read: {1'b0, max_read},
      rcb_128: 1'b0,
      bus_master: 1'b1
  }
  ),
  .tdata_i(m_tlp.tdata),
  .tkeep_i(m_tlp.tkeep),
  .tvalid_i(m_tlp.tvalid),
  .tready_i(m_tlp.tready),
  .tlast_i(m_tlp.tlast)
);
