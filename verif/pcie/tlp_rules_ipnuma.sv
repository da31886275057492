// SPDX-License-Identifier: Apache-2.0
// The rules of TLPs, bound to what the IP-NUMA NIC sends.
//
// Latency : none.
// Clock   : clk_pcie_i.
// Source  : bench only.
bind ipnuma_nic tlp_rules u_tlp_rules (
  .clk_i   (clk_pcie_i),
  .rst_i   (rst_pcie_i),
  .cfg_i   (pcie_cfg_i),
  .tdata_i (m_tlp.tdata),
  .tkeep_i (m_tlp.tkeep),
  .tvalid_i(m_tlp.tvalid),
  .tready_i(m_tlp.tready),
  .tlast_i (m_tlp.tlast)
);
