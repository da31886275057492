// SPDX-License-Identifier: Apache-2.0
// The switch at 1G.
-f rtl/fibnic/fibnic.f
rtl/fibnic/gmii_elastic.sv
rtl/fibnic/header_parse_1g.sv
rtl/fibnic/port_rx_1g.sv
rtl/fibnic/port_tx_1g.sv
rtl/fibnic/fibnic_1g.sv
