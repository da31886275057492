// SPDX-License-Identifier: Apache-2.0
// The switch's lookup: fib_lookup with its parts, and the dissertation's sram22_lookup.
-f rtl/lib/lib.f
rtl/fibnic/fib_pkg.sv
rtl/fibnic/fib_ram.sv
rtl/fibnic/fib_delay.sv
rtl/fibnic/fib_valid.sv
rtl/fibnic/fib_key.sv
rtl/fibnic/fib_writer.sv
rtl/fibnic/runvec_lookup.sv
rtl/fibnic/exact_match.sv
rtl/fibnic/trie6_lookup.sv
rtl/fibnic/tcam32.sv
rtl/fibnic/sram22_lookup.sv
rtl/fibnic/fib_lookup.sv
