// SPDX-License-Identifier: Apache-2.0
// Sending half of the sessions; `resend` is its top.
-f rtl/lib/lib.f
rtl/nic/wire_pkg.sv
rtl/ipnuma/ipnuma_pkg.sv
rtl/ipnuma/resend_pkg.sv
rtl/ipnuma/ring_pick.sv
rtl/ipnuma/send_slots.sv
rtl/ipnuma/send_buffer.sv
rtl/ipnuma/flush_marks.sv
rtl/ipnuma/session_pacer.sv
rtl/ipnuma/resend_offer.sv
rtl/ipnuma/resend.sv
