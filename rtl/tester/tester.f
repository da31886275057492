// SPDX-License-Identifier: Apache-2.0
// The instrument of RFC 2544, without anything to measure.
-f rtl/lib/lib.f
-f rtl/eth/eth.f
rtl/tester/tester_pkg.sv
rtl/tester/frame_stamp.sv
rtl/tester/frame_schedule.sv
rtl/tester/frame_address.sv
rtl/tester/frame_sum.sv
rtl/tester/frame_source.sv
rtl/tester/frame_check.sv
rtl/tester/latency_meter.sv
rtl/tester/latency_histogram.sv
rtl/tester/tester_registers.sv
rtl/tester/tester_port.sv
rtl/tester/tester_port_10g.sv
rtl/tester/tester_port_1g.sv
