// SPDX-License-Identifier: Apache-2.0
// The UZURA engine.
-f rtl/lib/lib.f
rtl/uzura/uzura_counters.sv
rtl/uzura/uzura_pkg.sv
rtl/uzura/uzura_qp_pkg.sv
rtl/uzura/roce_header.sv
rtl/uzura/roce_parser.sv
rtl/uzura/uzura_check.sv
rtl/uzura/uzura_translate.sv
rtl/uzura/uzura_access.sv
rtl/uzura/uzura_resolve.sv
rtl/uzura/uzura_gather.sv
rtl/uzura/uzura_scatter.sv
rtl/uzura/uzura_fifo.sv
rtl/uzura/uzura_rx_buffer.sv
rtl/uzura/uzura_completer.sv
rtl/uzura/uzura_context.sv
rtl/uzura/uzura_doorbell.sv
rtl/uzura/uzura_srq.sv
rtl/uzura/uzura_registers.sv
rtl/uzura/uzura_scheduler.sv
rtl/uzura/uzura_plan.sv
rtl/uzura/uzura_segments.sv
rtl/uzura/uzura_tx.sv
rtl/uzura/uzura_rx_pkg.sv
rtl/uzura/uzura_decode.sv
rtl/uzura/uzura_rx.sv
rtl/uzura/uzura_dma.sv
rtl/uzura/uzura_core.sv
rtl/uzura/uzura.sv
