// SPDX-License-Identifier: Apache-2.0
// Receiving half of the engine: frames to TLPs; `server` is its top.
-f rtl/lib/lib.f
rtl/nic/wire_pkg.sv
rtl/ipnuma/ipnuma_pkg.sv
rtl/pcie/tlp_pkg.sv
rtl/pcie/cpl_pkg.sv
rtl/pcie/pcie_pkg.sv
rtl/ipnuma/rx_pkg.sv
rtl/ipnuma/slot_ring.sv
rtl/ipnuma/slot_pointer.sv
rtl/ipnuma/slot_payload.sv
rtl/ipnuma/tx_slots.sv
rtl/ipnuma/frame_parser.sv
rtl/ipnuma/region_check.sv
rtl/ipnuma/shared_region.sv
rtl/ipnuma/rx_verdict.sv
rtl/ipnuma/session_table.sv
rtl/ipnuma/ring_pick.sv
rtl/ipnuma/ack_ledger.sv
rtl/ipnuma/ack_source.sv
rtl/ipnuma/refusal_table.sv
rtl/ipnuma/rx_sequence.sv
rtl/ipnuma/rx_share.sv
rtl/ipnuma/rx_slots.sv
rtl/ipnuma/deny_queue.sv
rtl/ipnuma/tag_pool.sv
rtl/ipnuma/load_retry.sv
rtl/ipnuma/load_tags.sv
rtl/ipnuma/dma_completion.sv
rtl/ipnuma/server_dma.sv
rtl/ipnuma/server.sv
