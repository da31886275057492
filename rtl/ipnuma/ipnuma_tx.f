# SPDX-License-Identifier: Apache-2.0
-f rtl/lib/lib.f
rtl/lib/ram_1r1rw.sv
rtl/nic/wire_pkg.sv
rtl/ipnuma/ipnuma_pkg.sv
rtl/pcie/tlp_pkg.sv
rtl/pcie/tlp_parse.sv
rtl/pcie/pcie_rx_split.sv
rtl/pcie/tlp_rx.sv
rtl/ipnuma/page_map.sv
rtl/ipnuma/pc_id_table.sv
rtl/ipnuma/slot_ring.sv
rtl/ipnuma/slot_pointer.sv
rtl/ipnuma/slot_payload.sv
rtl/ipnuma/tx_slots.sv
rtl/ipnuma/store_payload.sv
rtl/ipnuma/store_groups.sv
rtl/ipnuma/request_slots.sv
rtl/ipnuma/requester_pkg.sv
rtl/ipnuma/requester.sv
rtl/ipnuma/seq_table.sv
rtl/ipnuma/end_code.sv
rtl/ipnuma/frame_header.sv
rtl/ipnuma/frame_builder.sv
rtl/ipnuma/tx_mux.sv
