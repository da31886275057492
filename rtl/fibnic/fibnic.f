// SPDX-License-Identifier: Apache-2.0
-f rtl/lib/lib.f
-f rtl/eth/eth.f
rtl/fibnic/fibnic_pkg.sv
rtl/fibnic/lookup_stub.sv
rtl/fibnic/header_parse.sv
rtl/fibnic/port_rx.sv
rtl/fibnic/forward_fifo.sv
rtl/fibnic/rewrite.sv
rtl/fibnic/port_tx.sv
rtl/fibnic/fibnic_switch.sv
