// SPDX-License-Identifier: Apache-2.0
// What the NIC tells the host on its own; `host_notice` is its top.
-f rtl/lib/lib.f
rtl/nic/wire_pkg.sv
rtl/ipnuma/ipnuma_pkg.sv
rtl/ipnuma/posted_write.sv
rtl/ipnuma/event_queue.sv
rtl/ipnuma/msi.sv
rtl/ipnuma/host_notice.sv
