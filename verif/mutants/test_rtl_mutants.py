# SPDX-License-Identifier: Apache-2.0
"""The generator of tools/mutate: what it changes, and what it leaves alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import rtl_mutants

ROOT = Path(__file__).resolve().parents[2]
MODULE = """\
// A comment with a == b and 8'd3.
module sample #(
  parameter int unsigned Depth = 16
) (
  input  logic       clk_i,
  input  logic [7:0] a_i,
  output logic       y_o
);
  localparam int unsigned Half = Depth / 2;
  typedef enum logic [1:0] {Idle, Run, Stop} state_e;
  state_e state_q;
  logic [7:0] b_q;
  logic less;

  assign less = b_q <= a_i;
  always_ff @(posedge clk_i) begin
    if (a_i == b_q) state_q <= Run;
    for (int unsigned i = 0; i < 4; i++) b_q[i+:2] <= a_i[3:2];
    {b_q[7], y_o} <= 2'd3;
  end

`ifndef SYNTHESIS
  initial assert (Depth == 16);
`endif
endmodule
"""
CHANGES = [
    # rule, old, new; in the order of the text.
    ("operator", "<=", "<"),
    ("operator", "<=", ">="),
    ("condition", "a_i == b_q", "!(a_i == b_q)"),
    ("bit dropped", "a_i == b_q", "(((a_i) ^ (b_q)) >> 1) == '0"),
    ("bit dropped", "a_i == b_q", "(((a_i) ^ (b_q)) << 1) == '0"),
    ("operator", "==", "!="),
    ("assignment dropped", "state_q <= Run", ""),
    ("state", "Run", "Idle"),
    ("state", "Run", "Stop"),
    ("assignment dropped", "b_q[i+:2] <= a_i[3:2]", ""),
    ("assignment dropped", "{b_q[7], y_o} <= 2'd3", ""),
    ("constant", "2'd3", "2'd0"),
    ("constant", "2'd3", "2'd2"),
]


def test_all_that_can_be_changed_is_and_nothing_else() -> None:
    """A sample, change by change: no declaration, range, loop, comment, nor what only simulates."""
    found = [(m.rule, m.old, m.new) for m in rtl_mutants.sites("sample.sv", MODULE)]
    assert Counter(found) == Counter(CHANGES)


def test_a_mutant_differs_in_one_place() -> None:
    """It names its line, and the rest of the text stays."""
    for mutant in rtl_mutants.sites("sample.sv", MODULE):
        wrong = mutant.apply(MODULE)
        assert wrong != MODULE and len(wrong) - len(MODULE) == len(mutant.new) - len(mutant.old)
        before, after = MODULE.splitlines(), wrong.splitlines()
        differ = [
            at for at, pair in enumerate(zip(before, after, strict=True), 1) if len({*pair}) > 1
        ]
        assert differ == [mutant.line]


def test_a_seed_draws_the_same_again_and_each_once() -> None:
    """What is drawn depends on the seed alone, and comes from all rules and areas."""
    sites = [
        site
        for path in sorted((ROOT / "rtl").rglob("*.sv"))
        for site in rtl_mutants.sites(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    some = [m for m, _ in zip(rtl_mutants.draw(sites, 7), range(400), strict=False)]
    again = [m for m, _ in zip(rtl_mutants.draw(sites, 7), range(400), strict=False)]
    other = [m for m, _ in zip(rtl_mutants.draw(sites, 8), range(400), strict=False)]
    assert some == again != other
    assert len(set(some)) == 400
    assert {m.rule for m in some} == {rule for rule, _, _ in CHANGES} | {"negation dropped"}
    assert len({m.source.split("/")[1] for m in some}) >= 8
