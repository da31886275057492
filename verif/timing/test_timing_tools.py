# SPDX-License-Identifier: Apache-2.0
"""tools/crossings and tools/timing find what a small circuit is known to have, right and wrong."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import crossings  # noqa: E402 (needs the path above)
import levels  # noqa: E402
import netgraph  # noqa: E402
import timing  # noqa: E402
import timing_flow  # noqa: E402

FILES = ["rtl/lib/lib.f", "verif/timing/crossing_cases.sv"]
CLOCKS = {"clk_a_i": 250.0, "clk_b_i": 156.25}
CASES = timing_flow.Block("crossing_cases", ["crossing_cases"], FILES, CLOCKS, {"clk_b_i": "^b_"})


@pytest.fixture(scope="module")
def judged():
    graph = netgraph.Graph(timing_flow.netlist(CASES, "rtl"))
    found = [crossings.Found(CASES.name, link) for link in graph.crossings()]
    return crossings.judge(crossings.declarations(), found)


def ends(found):
    return {(one.link.source.name, one.link.sink.path) for one in found}


def test_a_synchroniser_is_declared(judged):
    declared, _, _ = judged
    paths = {pair for ones in declared.values() for pair in ends(ones)}
    assert ("held_q", "u_good.stage_q") in paths


def test_a_raw_path_is_not(judged):
    _, rest, _ = judged
    assert ends(rest) == {("held_q", "raw_q"), ("word_q", "far_q")}
    complaints = crossings.compare(rest, {CASES.name})
    assert len(complaints) == 2
    assert "crossing_cases.held_q (clk_a_i) reaches 1 registers of clk_b_i" in complaints[0]


def test_logic_and_words_in_front_of_a_synchroniser_are_refused(judged):
    _, _, broken = judged
    assert sorted(text.split(": ")[1] for text in broken) == [
        "a word into a synchroniser of bits",
        "logic in front of a synchroniser",
        "logic in front of a synchroniser",
    ]


def test_levels_are_counted_by_hand():
    netlist = timing_flow.netlist(CASES, "lut6")
    worst = levels.Levels(netlist).worst()
    (parity,) = worst["clk_a_i", "clk_a_i"]
    # Six bits are one LUT: a clock to output, a net, the LUT, a net, a setup.
    assert parity.sink == "parity_q"
    assert parity.levels == 1
    assert parity.ns == pytest.approx(0.08 + 0.22 + 0.05 + 0.22 + 0.05, abs=0.006)
    (between,) = worst["clk_a_i", "clk_b_i"]
    assert between.levels == 1


def test_what_became_worse_is_said(capsys):
    job = timing.Job(CASES, "levels", timing.SEED)
    path = {"ns": 2.0, "levels": 7, "source": "a_q", "sink": "b_q"}
    now = {"clk_a_i": [path]}
    assert timing.show(job, now, {"clk_a_i": {"levels": 7, "ns": 2.0}}, False) == []
    worse = timing.show(job, now, {"clk_a_i": {"levels": 5, "ns": 1.5}}, False)
    assert "became worse" in worse[0]
    gone = timing.show(job, {}, {"clk_a_i": {"levels": 7, "ns": 2.0}}, False)
    assert "gone" in gone[0]
    assert "7 levels,  2.00 of 4.00 ns" in capsys.readouterr().out


def test_a_module_with_streams_can_be_a_top():
    block = timing_flow.blocks()["xgmii_tx"]
    text = (ROOT / "rtl/eth/xgmii_tx.sv").read_text()
    flat = timing_flow.wrapper(block, "xgmii_tx", text)
    assert "input logic [64-1:0] s_axis_tdata" in flat
    assert "output logic s_axis_tready" in flat
    assert ".EnableDic(EnableDic)" in flat
