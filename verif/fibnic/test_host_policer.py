# SPDX-License-Identifier: Apache-2.0
"""Bench of the policer before the host port: every cycle against fractions, and windows."""

from __future__ import annotations

import random
from collections import Counter

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run
from police_ref import BURST, RATE, Policer, word

CYCLES = 60_000  # at least, and until each kind of cycle has been seen often
MOST_CYCLES = 10 * CYCLES
OFTEN = 500
HIGHEST = (1 << 24) - 1  # frames a second


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


def choose(rand: random.Random) -> tuple[int, int]:
    """Choose a rate, mostly one at which tokens come while we look, and a burst."""
    rate = rand.choice([0, HIGHEST, RATE, rand.randint(1, HIGHEST), rand.randint(10**6, HIGHEST)])
    return rate, rand.choice([0, 1, 2, 3, rand.randint(4, 40), BURST])


async def begin(dut) -> int:
    """Clock and reset; return the clock's frequency as the design has it."""
    Clock(dut.clk_i, 6, "ns").start()
    dut.rst_i.value = 1
    dut.police_i.value = word(RATE, BURST)
    dut.offer_i.value = dut.room_i.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0
    return int(dut.ClockHz.value)


@cocotb.test()
async def every_cycle_as_the_model(dut) -> None:
    """Random frames, room and settings: tokens, what passes and what is refused, each cycle."""
    rand = rng()
    model = Policer(hz := await begin(dut))
    setting = (RATE, BURST)
    seen = Counter(dict.fromkeys(("taken", "refused", "no room", "off", "closed"), 0))
    load = busy = 0.5
    for cycle in range(MOST_CYCLES):
        if cycle >= CYCLES and min(seen.values()) > OFTEN:
            break
        if rand.random() < 0.002:
            setting = choose(rand)
            load, busy = rand.choice([0.02, 0.1, 0.5, 1]), rand.choice([0, 0, 0.3])
        offer, room = rand.random() < load, rand.random() >= busy
        dut.police_i.value = word(*setting)
        dut.offer_i.value, dut.room_i.value = int(offer), int(room)
        await ReadOnly()
        assert int(dut.tokens_q.value) == model.tokens, (cycle, model)
        # The part of the next token, as what is missing to it.
        assert dut.part_q.value.to_signed() == (model.part - 1) * hz, (cycle, model)
        assert bool(dut.room_o.value) == (room and model.passes), (cycle, model)
        assert bool(dut.refused_o.value) == (offer and not model.passes), (cycle, model)
        taken = offer and room and model.passes
        seen["taken"] += taken
        seen["refused"] += offer and not model.passes
        seen["no room"] += offer and model.passes and not room
        seen["off"] += not model.rate
        seen["closed"] += model.rate > 0 and not model.burst
        model.cycle(taken, setting)
        await RisingEdge(dut.clk_i)
    dut._log.info(f"{dict(seen)}")
    assert min(seen.values()) > OFTEN, seen


@cocotb.test()
async def windows(dut) -> None:
    """A flood: in no window more than its periods and a burst pass, and in the longest no fewer."""
    rand = rng()
    hz = await begin(dut)
    for _ in range(6):
        rate, burst = rand.randint(3 * 10**6, HIGHEST), rand.randint(1, 30)
        # While it is off the bucket fills.
        for setting in (word(0, burst), word(rate, burst)):
            dut.police_i.value = setting
            dut.offer_i.value, dut.room_i.value = 0, 1
            for _ in range(4):
                await RisingEdge(dut.clk_i)
        at = []
        dut.offer_i.value = 1
        for cycle in range(4000):
            await ReadOnly()
            if dut.room_o.value:
                at.append(cycle)
            await RisingEdge(dut.clk_i)
        for first in range(len(at)):
            for last in range(first, len(at)):
                # The window from the first to the last, both inclusive, has so many periods.
                periods = -(-(at[last] - at[first] + 1) * rate // hz)
                assert last - first + 1 <= burst + periods, (rate, burst, at[first], at[last])
        assert len(at) >= burst + 4000 * rate // hz - 1, (rate, burst, len(at))


@cocotb.test()
async def who_keeps_to_the_rate_is_never_refused(dut) -> None:
    """Frames a period apart, and bursts with as many periods behind them, all pass."""
    rand = rng()
    hz = await begin(dut)
    for _ in range(8):
        rate, burst = rand.randint(2 * 10**6, HIGHEST), rand.randint(1, 12)
        for setting in (word(0, burst), word(rate, burst)):
            dut.police_i.value = setting
            dut.offer_i.value, dut.room_i.value = 0, 1
            for _ in range(4):
                await RisingEdge(dut.clk_i)
        for _ in range(60):
            count = rand.choice([1, 1, burst])
            for _ in range(count):
                dut.offer_i.value = 1
                await ReadOnly()
                assert dut.room_o.value and not dut.refused_o.value, (rate, burst, count)
                await RisingEdge(dut.clk_i)
            dut.offer_i.value = 0
            # From the first of a burst to the first of the next one.
            for _ in range(-(-count * hz // rate) - count):
                await RisingEdge(dut.clk_i)


@pytest.mark.parametrize("hz", [156_250_000, 125_000_000])
def test_host_policer(hz: int) -> None:
    """Both clocks of the switch."""
    build_and_run(
        "host_policer",
        __name__,
        sources=["rtl/fibnic/fibnic_pkg.sv", "rtl/fibnic/host_policer.sv"],
        parameters={"ClockHz": hz},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
