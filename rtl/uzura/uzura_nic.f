// SPDX-License-Identifier: Apache-2.0
// The UZURA engine as a NIC: uzura_nic_10g.
-f rtl/pcie/pcie.f
-f rtl/eth/eth.f
-f rtl/uzura/uzura.f
rtl/ipnuma/rx_pkg.sv
rtl/ipnuma/ring_pick.sv
rtl/ipnuma/tag_pool.sv
rtl/ipnuma/msi.sv
rtl/uzura/uzura_nic_pkg.sv
rtl/uzura/uzura_dma_read.sv
rtl/uzura/uzura_read_stream.sv
rtl/uzura/uzura_write_stage.sv
rtl/uzura/uzura_dma_write.sv
rtl/uzura/uzura_stores.sv
rtl/uzura/uzura_nic_registers.sv
rtl/uzura/uzura_register_port.sv
rtl/uzura/uzura_frame_hold.sv
rtl/uzura/uzura_loopback.sv
rtl/uzura/uzura_rx_trim.sv
rtl/uzura/uzura_nic.sv
rtl/uzura/uzura_nic_10g.sv
