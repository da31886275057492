# SPDX-License-Identifier: Apache-2.0
"""Bench of the commit policies: what is committed, in which order; mistakes are noticed.

The top is the proof's, whose assertions hold in every cycle here with more slots than there.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from harness import ROOT, build_and_run
from toe_bench import rng, start

SCOREBOARD = "rtl/toe/toe_scoreboard.sv"
SINGLE, NAIVE, REASSEMBLY, COUNTER, EPOCH = range(5)
POLICIES = {
    "single": {"Policy": SINGLE},
    "naive": {"Policy": NAIVE},
    "counter": {"Policy": COUNTER, "StallAfter": 6},
    "scoreboard": {"Policy": EPOCH, "EpochLen": 1},
    "epochs": {"Policy": EPOCH, "EpochLen": 4},
}
# Policy, text of the scoreboard, what it becomes.
MUTANTS = {
    "single commits bad ones": ("single", "= !bad_q[apply_slot]", "= 1'b1"),
    "naive commits bad ones": ("naive", "= done.ok", "= 1'b1"),
    "scoreboard waits for nothing": (
        "scoreboard",
        "tail_q != head_q && count_q[apply_slot>>LenW] == '0",
        "tail_q != head_q",
    ),
    "epochs forget what was bad": ("epochs", "bad_q[slot(result_i.tag)] <= !result_i.ok", ""),
    "counter commits with an error": ("counter", "good_q   <= !error_q", "good_q   <= 1'b1"),
    # The hazard of an untagged counter, which can't count below zero: late results of discarded
    # segments cancel later headers.
    "counter begins anew on an error": (
        "counter",
        "count_q <= count_q +",
        "count_q <= result_valid_i && (!result_i.ok || count_q == '0 && !header_valid_i) ? '0 : "
        "count_q +",
    ),
}
SLOTS = 16


class Driver:
    """Frames with results in random order, and a controller of random speed."""

    def __init__(self, dut) -> None:
        self.dut, self.rand = dut, rng()
        self.ok: list[bool] = []
        self.results: list[int] = []  # frames, in the order of their results
        self.headers = 0
        self.waiting: set[int] = set()
        self.applied: list[tuple[int, bool, int]] = []  # frame, good, results before it
        self.unreleased: deque[int] = deque()
        self.owner: dict[int, int] = {}

    async def cycle(self, load: float) -> None:
        """Take what the scoreboard offers, then choose the inputs of an edge."""
        dut, rand = self.dut, self.rand
        await FallingEdge(dut.clk_i)
        take = bool(dut.slot_ready_o.value) and rand.random() < load
        if take:
            self.owner[int(dut.slot_o.value)] = len(self.ok)
            self.ok.append(rand.random() < 0.8)
        dut.take_i.value = take
        header = self.headers < len(self.ok) - take and rand.random() < 0.6
        dut.header_i.value = header
        result = bool(self.waiting) and rand.random() < 0.5
        if result:
            frame = rand.choice(sorted(self.waiting))
            self.waiting.remove(frame)
            self.results.append(frame)
            dut.result_i.value = (frame % SLOTS) << 1 | self.ok[frame]
        dut.result_valid_i.value = result
        if header:
            self.waiting.add(self.headers)
            self.headers += 1
        ready = rand.random() < 0.7
        dut.ready_i.value = ready
        release = bool(self.unreleased) and rand.random() < 0.6
        if release:
            dut.release_tag_i.value = self.unreleased.popleft() % SLOTS
        dut.release_i.value = release
        if ready and dut.apply_valid_o.value:
            frame = self.owner[int(dut.apply_tag_o.value)]
            before = len(self.results) - result
            self.applied.append((frame, bool(dut.apply_good_o.value), before))
            self.unreleased.append(frame)


@cocotb.test()
async def commits(dut) -> None:
    """Random traffic; then what was committed is compared with what the policy says."""
    policy = os.environ["TOE_POLICY"]
    for name in ("take_i", "header_i", "result_valid_i", "ready_i", "release_i", "result_i"):
        dut[name].value = 0
    dut.rst_i.value = 1
    await start(dut)
    driver = Driver(dut)
    for i in range(4000):
        await driver.cycle(0.4 if i % 500 < 400 else 0.02)
    for _ in range(600):
        await driver.cycle(0)
    frames = [frame for frame, _, _ in driver.applied]
    assert len(driver.ok) > 400 and sorted(frames) == list(range(len(driver.ok)))
    good = {frame: good for frame, good, _ in driver.applied}
    if policy == "naive":
        assert frames == driver.results, "not the order of completion"
    else:
        assert frames == sorted(frames), "not arrival order"
    if policy != "counter":
        # A bad one is a hole; all others are kept.
        assert all(good[f] == ok for f, ok in enumerate(driver.ok))
    else:
        kept = sum(good.values())
        lost = sum(ok and not good[f] for f, ok in enumerate(driver.ok))
        assert lost > 0, "no good segment was discarded with a bad one: the case was not met"
        dut._log.info("the counter kept %d segments and discarded %d good ones", kept, lost)
    come = {frame: i for i, frame in enumerate(driver.results)}
    waited = [before - come[frame] for frame, _, before in driver.applied]
    dut._log.info(
        "%s: results between a segment's own and its commit: mean %.1f, most %d",
        policy,
        sum(waited) / len(waited),
        max(waited),
    )


def run(policy: str, name: str, scoreboard: str) -> None:
    """Run the bench with a scoreboard."""
    build_and_run(
        "toe_commit_proof",
        __name__,
        sources=[
            "rtl/lib/ram_1r1w.sv",
            "rtl/lib/sync_fifo.sv",
            "rtl/toe/toe_pkg.sv",
            scoreboard,
            "verif/formal/toe_commit_proof.sv",
        ],
        parameters=POLICIES[policy] | {"Slots": SLOTS},
        # The package is a vocabulary; the scoreboard alone uses little of it.
        build_args=["-Wno-UNUSEDPARAM"],
        extra_env={"TOE_POLICY": policy, "TOE_NAME": name},
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_toe_commit(policy: str) -> None:
    """Run the bench with each policy."""
    run(policy, policy, SCOREBOARD)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_toe_commit_mutant(mutant: str) -> None:
    """A mistake in the policy is noticed, by an assertion that speaks of it."""
    policy, text, wrong = MUTANTS[mutant]
    source = (ROOT / SCOREBOARD).read_text()
    assert source.count(text) == 1, f"{SCOREBOARD} has {source.count(text)} times {text!r}"
    path = Path(".build/toe") / mutant.replace(" ", "_") / "toe_scoreboard.sv"
    (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / path).write_text(source.replace(text, wrong))
    with pytest.raises(AssertionError) as found:
        run(policy, mutant, path.as_posix())
    assert any(name in str(found.value) for name in ("a_verified", "a_judged")), str(found.value)
