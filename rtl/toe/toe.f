// SPDX-License-Identifier: Apache-2.0
// Everything for the TCP offload engine.
-f rtl/lib/lib.f
rtl/toe/toe_pkg.sv
rtl/toe/toe_word_fifo.sv
rtl/toe/toe_options.sv
rtl/toe/toe_analyzer.sv
rtl/toe/toe_header.sv
rtl/toe/toe_distributor.sv
rtl/toe/toe_analysis.sv
rtl/toe/toe_scoreboard.sv
rtl/toe/toe_lookup.sv
rtl/toe/toe_isn.sv
rtl/toe/toe_segment.sv
rtl/toe/toe_transmit.sv
rtl/toe/toe_timer.sv
rtl/toe/toe_alarm.sv
rtl/toe/toe_command.sv
rtl/toe/toe_controller.sv
rtl/toe/toe_move.sv
rtl/toe/toe_placer.sv
rtl/toe/toe_fetch.sv
rtl/toe/toe_emit.sv
rtl/toe/toe_core.sv
rtl/toe/toe_bare.sv
