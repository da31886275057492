// SPDX-License-Identifier: Apache-2.0
// The switch: fibnic_10g.
-f rtl/lib/lib.f
-f rtl/eth/eth.f
-f rtl/fibnic/lookup.f
-f rtl/fibnic/acl.f
rtl/eth/xgmii_fault.sv
rtl/fibnic/fibnic_pkg.sv
rtl/fibnic/lookup_share.sv
rtl/fibnic/port_settings.sv
rtl/fibnic/event_counters.sv
rtl/fibnic/rule_counters.sv
rtl/fibnic/switch_counters.sv
rtl/fibnic/check_mode.sv
rtl/fibnic/through_fifo.sv
rtl/fibnic/beat_fifo.sv
rtl/fibnic/header_parse.sv
rtl/fibnic/forward_fifo.sv
rtl/fibnic/frame_plan.sv
rtl/fibnic/rewrite.sv
rtl/fibnic/egress.sv
rtl/fibnic/host_policer.sv
rtl/fibnic/host_port.sv
rtl/fibnic/fibnic_core.sv
rtl/fibnic/port_reset.sv
rtl/fibnic/port_rx_10g.sv
rtl/fibnic/port_tx_10g.sv
rtl/fibnic/fibnic_10g.sv
