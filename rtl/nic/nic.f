// SPDX-License-Identifier: Apache-2.0
// Everything for the NIC tops: ipnuma_nic_10g, ipnuma_nic_1g.
-f rtl/pcie/pcie.f
-f rtl/eth/eth.f
-f rtl/ipnuma/ipnuma_tx.f
-f rtl/ipnuma/ipnuma_rx.f
-f rtl/ipnuma/ipnuma_resend.f
-f rtl/ipnuma/ipnuma_host.f
-f rtl/ipnuma/ipnuma_seal.f
rtl/nic/table_window.sv
rtl/nic/nic_registers.sv
rtl/nic/net_registers.sv
rtl/nic/net_events.sv
rtl/nic/ipnuma_nic.sv
rtl/nic/ipnuma_nic_10g.sv
rtl/nic/ipnuma_nic_1g.sv
