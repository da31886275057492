// SPDX-License-Identifier: Apache-2.0
// Everything for the descriptor-ring NIC: ring_nic_10g, ring_nic_1g.
-f rtl/pcie/pcie.f
-f rtl/eth/eth.f
rtl/ipnuma/rx_pkg.sv
rtl/ipnuma/ring_pick.sv
rtl/ipnuma/tag_pool.sv
rtl/ipnuma/msi.sv
rtl/ring/ring_pkg.sv
rtl/ring/ring_types_pkg.sv
rtl/ring/dma_read.sv
rtl/ring/dma_write.sv
rtl/ring/descriptor_fetch.sv
rtl/ring/packet_fetch.sv
rtl/ring/tx_buffer.sv
rtl/ring/packet_send.sv
rtl/ring/rx_buffer.sv
rtl/ring/rx_dma.sv
rtl/ring/ring_interrupt.sv
rtl/ring/ring_registers.sv
rtl/ring/ring_net_registers.sv
rtl/ring/ring_nic.sv
rtl/ring/ring_nic_10g.sv
rtl/ring/ring_nic_1g.sv
