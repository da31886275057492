// SPDX-License-Identifier: Apache-2.0
-f rtl/lib/lib.f
rtl/nic/wire_pkg.sv
rtl/ipnuma/ipnuma_pkg.sv
rtl/nic/reg_bus_pkg.sv
rtl/pcie/tlp_pkg.sv
rtl/pcie/cpl_pkg.sv
rtl/pcie/pcie_pkg.sv
rtl/pcie/tlp_parse.sv
rtl/pcie/pcie_rx_split.sv
rtl/pcie/tlp_rx.sv
rtl/pcie/tlp_tx.sv
rtl/pcie/completer.sv
rtl/pcie/cpl_error.sv
rtl/pcie/reg_cdc.sv
rtl/pcie/ordered_reset.sv
rtl/pcie/bus_meter.sv
rtl/pcie/bus_meter_top.sv
