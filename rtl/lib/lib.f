// SPDX-License-Identifier: Apache-2.0
rtl/lib/crc_pkg.sv
rtl/lib/axis_if.sv
rtl/lib/sync_ff.sv
rtl/lib/reset_pair.sv
rtl/lib/packet_gate.sv
rtl/lib/sync_fifo.sv
rtl/lib/skid_buffer.sv
rtl/lib/async_fifo.sv
rtl/lib/arb_rr.sv
rtl/lib/ram_1r1w.sv
rtl/lib/slice_fifo.sv
rtl/lib/ram_2clk.sv
rtl/lib/req_ack_cdc.sv
rtl/lib/stats_ram.sv
