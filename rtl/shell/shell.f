// SPDX-License-Identifier: Apache-2.0
// Everything for the NIC of two functions: nic_shell_10g and nic_shell_1g.
-f rtl/nic/nic.f
-f rtl/ring/ring.f
rtl/shell/shell_pkg.sv
rtl/shell/tlp_router.sv
rtl/shell/tlp_arbiter.sv
rtl/shell/tlp_slice.sv
rtl/shell/frame_steer.sv
rtl/shell/frame_skip.sv
rtl/shell/frame_arbiter.sv
rtl/shell/tlp_discard.sv
rtl/shell/function_reset.sv
rtl/shell/nic_shell.sv
rtl/shell/nic_shell_10g.sv
rtl/shell/nic_shell_1g.sv
