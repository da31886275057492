// SPDX-License-Identifier: Apache-2.0
// The network interface and the RDMA engine behind one cable: uzura_shell_10g.
-f rtl/ring/ring.f
-f rtl/uzura/uzura_nic.f
rtl/shell/shell_pkg.sv
rtl/shell/tlp_router.sv
rtl/shell/tlp_arbiter.sv
rtl/shell/frame_steer.sv
rtl/shell/frame_skip.sv
rtl/shell/frame_arbiter.sv
rtl/shell/tlp_discard.sv
rtl/shell/function_reset.sv
rtl/shell/tlp_slice.sv
rtl/shell/uzura_shell.sv
rtl/shell/uzura_shell_10g.sv
