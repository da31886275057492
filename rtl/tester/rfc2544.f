// SPDX-License-Identifier: Apache-2.0
// The rigs: an instrument at each port of a switch.
-f rtl/tester/tester.f
-f rtl/fibnic/fibnic_1g.f
rtl/tester/tester_bus.sv
rtl/tester/rfc2544_10g.sv
rtl/tester/rfc2544_1g.sv
