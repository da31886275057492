# SPDX-License-Identifier: Apache-2.0
"""Mutants behind numbers: with a number the copy is that mutant, with none it is the design."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import rtl_mutants
import rtl_switch
import simulator
from rtl_mutants import Mutant

# Every kind of place, and widths that a careless switch would change: a sum's carry, a negation of
# several bits in a concatenation, a constant without a width.
MODULE = """\
module sample #(
  parameter int unsigned Depth = 16
) (
  input  logic        clk_i,
  input  logic [ 7:0] a_i,
  input  logic [ 7:0] b_i,
  output logic [11:0] y_o,
  output logic [ 8:0] sum_o,
  output logic        z_o
);
  typedef enum logic [1:0] {Idle, Run, Stop} state_e;
  typedef struct packed {
    logic [3:0] high;
    state_e     state;
    logic [5:0] rest;
  } pair_t;
  state_e state_q, next;
  pair_t pair;
  logic [3:0] narrow;

  function automatic logic [3:0] pick(logic [3:0] of);
    if (of > 4'd2) return of + 4'd1;  // one more
    return ~of;
  endfunction

  assign sum_o  = (a_i + b_i) >> 1;
  assign narrow = {2'd1, !a_i, b_i <= a_i};
  assign pair   = '{high: narrow & 4'd7, state: a_i[0] ? Run : next, default: '0};
  always_comb begin
    next = state_q;
    case (state_q)
      Idle: next = a_i == b_i ? Run : Stop;
      Run, Stop: if (a_i != 8'd3 &&
               b_i[0]) next = Stop;
      default: next = Idle;
    endcase
  end
  always_ff @(posedge clk_i) begin
    state_q <= next;
    if (!b_i[1] && a_i inside {8'd1, 8'd2})
      {y_o[11:10], y_o[9:0]} <= pair;
    else y_o <= {3{pick(narrow)}};
    for (int unsigned i = 0; i < 4; i++) if (b_i[i]) z_o <= |a_i && ~a_i[i];
  end
endmodule
"""
# What has to be constant.
CONSTANT = {("state", "Run", "Run, Stop: if"), ("constant", "3", "else y_o <= {3{")}


def sites() -> list[Mutant]:
    """Return all mutants of the sample."""
    return list(rtl_mutants.sites("sample.sv", MODULE))


def numbers() -> dict[Mutant, int]:
    """Return all that can be put behind numbers."""
    return {mutant: at for at, mutant in enumerate(rtl_switch.places(MODULE, sites()), 1)}


BENCH = """\
module top;
  bit clk;
  bit [31:0] random = 1;
  logic [11:0] y;
  logic [8:0] sum;
  logic z;
  logic [21:0] alone [{count}];
  sample u_switched (.clk_i(clk), .a_i(random[15:8]), .b_i(random[7:0]), .y_o(y), .sum_o(sum),
                     .z_o(z));
{copies}
  initial begin
    repeat (4000) begin
      #1 clk = !clk;
      if ({{y, sum, z}} != alone[mutant_pkg::which]) $fatal(1, "it is something else");
      if (clk) begin
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
      end
    end
    $display("mutant %0d", mutant_pkg::which);
    $finish;
  end
endmodule
"""
COPY = """\
  sample_{at} u_{at} (.clk_i(clk), .a_i(random[15:8]), .b_i(random[7:0]),
                .y_o(alone[{at}][21:10]), .sum_o(alone[{at}][9:1]), .z_o(alone[{at}][0]));
"""


def as_it_is_put(mutant: Mutant) -> Mutant:
    """Return what stands behind its number: the pieces of a concatenation keep their widths."""
    return replace(mutant, new="!!") if MODULE[mutant.at :].startswith("!a_i,") else mutant


def test_all_but_what_must_be_constant_is_put_behind_a_number() -> None:
    """Labels of cases and counts of replications are left to be built by themselves."""
    left = [mutant for mutant in sites() if mutant not in numbers()]
    lines = [line.strip() for line in MODULE.splitlines()]
    for rule, old, begin in CONSTANT:
        found = [m for m in left if (m.rule, m.old) == (rule, old)]
        assert len(found) == 2 and all(lines[m.line - 1].startswith(begin) for m in found)
    assert len(left) == 2 * len(CONSTANT)


def test_lines_stay_where_they_are() -> None:
    """What Verilator says of a line is of that line of the source."""
    switched = rtl_switch.put(MODULE, numbers())
    assert switched.count("\n") == MODULE.count("\n")
    assert rtl_switch.package("sample.sv").endswith('`line 1 "sample.sv" 0\n')


def test_with_a_number_it_is_that_mutant_and_with_0_the_design(tmp_path: Path) -> None:
    """Each mutant stands beside the switched design in one simulation; the outputs are the same."""
    texts = [MODULE, *(as_it_is_put(mutant).apply(MODULE) for mutant in numbers())]
    copies = "".join(COPY.format(at=at) for at in range(len(texts)))
    alone = [
        text.replace("module sample ", f"module sample_{at} ") for at, text in enumerate(texts)
    ]
    switched = rtl_switch.package("sample.sv") + rtl_switch.put(MODULE, numbers())
    bench = BENCH.format(count=len(texts), copies=copies)
    (tmp_path / "top.sv").write_text("\n".join([switched, *alone, bench]))
    command = "verilator --binary --x-initial 0 -Wno-lint -Wno-style -Wno-fatal -CFLAGS -O0".split()
    env = os.environ | simulator.tool_environment()
    subprocess.run([*command, "top.sv"], cwd=tmp_path, env=env, check=True, capture_output=True)

    def agrees(which: int) -> bool:
        there = env | {rtl_switch.VARIABLE: str(which)}
        run = ["obj_dir/Vtop"]
        done = subprocess.run(run, cwd=tmp_path, env=there, capture_output=True, text=True)
        return done.returncode == 0 and f"mutant {which}\n" in done.stdout

    assert [which for which in range(len(texts)) if not agrees(which)] == []


def test_what_verilator_refuses_is_found_by_its_line() -> None:
    """A message names the mutants of its lines; one that names none of them means the source."""
    texts = {"sample.sv": MODULE}
    line = next(at for at, text in enumerate(MODULE.splitlines(), 1) if "Idle: next" in text)
    meant = rtl_switch.suspects(f"%Error: sample.sv:{line}:3: x", texts, numbers())
    assert meant and {mutant.line for mutant in meant} == {line}
    assert rtl_switch.suspects("%Error: sample.sv:1:3: x", texts, numbers()) == list(numbers())
    assert rtl_switch.suspects("%Error: other.sv:1:3: x", texts, numbers()) == []
