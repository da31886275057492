// SPDX-License-Identifier: Apache-2.0
// The rules of TLPs, bound to what the UZURA NIC sends: writes of 128 bytes at most.
//
// Latency : none.
// Clock   : clk_pcie_i.
// Source  : bench only.
bind uzura_nic tlp_rules u_tlp_rules (
  .clk_i   (clk_pcie_i),
  .rst_i   (rst_pcie_i),
  .cfg_i   ('{max_payload: 3'd0, max_read: {1'b0, max_read}, rcb_128: 1'b0, bus_master: 1'b1}),
  .tdata_i (m_tlp.tdata),
  .tkeep_i (m_tlp.tkeep),
  .tvalid_i(m_tlp.tvalid),
  .tready_i(m_tlp.tready),
  .tlast_i (m_tlp.tlast)
);
