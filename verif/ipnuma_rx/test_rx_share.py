# SPDX-License-Identifier: Apache-2.0
"""rx_share against a reckoning of its own: who shares the line, the mean frame, and a full line."""

from __future__ import annotations

import random
from fractions import Fraction

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run

PERIOD = 128
LONGEST = 0xFFF
# Preamble, FCS, least gap.
OVERHEAD = 24


class Bench:
    """Sends frames on a line with gaps, and reckons with bytes, not with beats."""

    def __init__(self, dut) -> None:
        """Take the pins."""
        self.dut = dut
        self.rand = random.Random(cocotb.RANDOM_SEED)
        self.sessions, self.cycles = int(dut.Sessions.value), int(dut.BeatCycles.value)
        self.now = 0
        self.lengths: list[int] = []
        self.seen: set[int] = set()
        self.before: set[int] = set()
        self.began = self.last = 0
        self.expected = Fraction(0)
        self.margin = False

    async def start(self) -> None:
        """Reset it."""
        for name in ("beat_i", "last_i", "half_i", "frame_i", "session_i"):
            getattr(self.dut, name).value = 0
        self.dut.rst_i.value = 1
        cocotb.start_soon(Clock(self.dut.clk_i, 2, "step").start())
        for _ in range(3):
            await RisingEdge(self.dut.clk_i)
        self.dut.rst_i.value = 0

    async def cycle(self, **values: int) -> None:
        """Let a cycle pass with these pins high."""
        for name in ("beat_i", "last_i", "half_i", "frame_i"):
            getattr(self.dut, name).value = values.get(name, 0)
        await RisingEdge(self.dut.clk_i)
        self.now += 1

    async def idle(self, cycles: int) -> None:
        """Let the line be silent."""
        for _ in range(cycles):
            await self.cycle()
        self.quiet()

    def quiet(self) -> None:
        """Forget everything, if the pause was long enough."""
        if self.now - self.last > 256 * self.cycles + 1:
            self.lengths, self.seen, self.before = [], set(), set()
            self.expected = Fraction(0)

    async def frame(self, session: int | None, size: int, gap: int = 0) -> None:
        """Send a frame of so many bytes without FCS, and wait some cycles more than it needs."""
        beats = -(-size // 8)
        started = self.now
        for beat in range(beats):
            last = beat == beats - 1
            half = last and 0 < size % 8 <= 4
            await self.cycle(beat_i=1, last_i=int(last), half_i=int(half))
            for _ in range(self.cycles - 1):
                await self.cycle()
        if session is not None:
            self.dut.session_i.value = session
            self.count(session, size)
            await self.cycle(frame_i=1)
        wire = (size + OVERHEAD) * self.cycles // 8
        while self.now - started < wire + gap:
            await self.cycle()
        self.quiet()

    def count(self, session: int, size: int) -> None:
        """Take a session's frame into the reckoning."""
        self.quiet()
        if not self.lengths:
            self.began = self.now
        self.last = self.now
        self.lengths.append(-(-size // 4) * 4 + OVERHEAD)
        self.seen.add(session)
        if len(self.lengths) == PERIOD:
            sharers = self.seen | self.before
            line = sum(self.lengths) * self.cycles / 8
            passed = self.now - self.began
            full = passed < 2 * line
            several = len(sharers) > 1
            mean = Fraction(sum(self.lengths) * self.cycles, 8 * PERIOD)
            self.expected = mean * len(sharers) if full and several else Fraction(0)
            self.margin = abs(passed - 2 * line) < 4 * self.cycles
            self.began = self.now
            self.lengths, self.before, self.seen = [], self.seen, set()

    async def check(self) -> int:
        """Compare what is announced, after the time that it takes."""
        await ReadOnly()
        got = int(self.dut.interval_o.value)
        await RisingEdge(self.dut.clk_i)
        self.now += 1
        want = self.expected * Fraction(33, 32)
        most = Fraction(LONGEST)
        assert min(want, most) - 1 <= got <= min(want, most) + Fraction(1, 100), (got, float(want))
        assert self.expected == 0 or got > 0
        return got


async def fill(bench: Bench, sessions: list[int], sizes: list[int], frames: int, gap: int) -> None:
    """Send frames of these sessions by turns, and others between."""
    for i in range(frames):
        if bench.rand.random() < 0.1:
            await bench.frame(None, bench.rand.choice((60, 64, 300)))
        await bench.frame(sessions[i % len(sessions)], bench.rand.choice(sizes), gap)


@cocotb.test()
async def shares(dut) -> None:
    """A full line is shared; a slow one, a lone sender and silence ask for nothing."""
    bench = Bench(dut)
    await bench.start()
    many = list(range(bench.sessions))
    wait = bench.sessions + 4
    for who, sizes in (([0], [116]), (many[-2:], [60]), (many, [116]), (many, [60, 116, 320])):
        await fill(bench, who, sizes, 2 * PERIOD, 0)
        await bench.idle(wait)
        got = await bench.check()
        assert (got == 0) == (len(who) == 1)
    # Who does not send any more is remembered for one period.
    for _ in range(2):
        await fill(bench, many[:3], [116], PERIOD, 0)
        await bench.idle(wait)
        await bench.check()
    # Two thirds idle: nobody is in anybody's way.
    await fill(bench, many, [116], 2 * PERIOD, 3 * 18 * bench.cycles)
    await bench.idle(wait)
    assert await bench.check() == 0
    # A pause ends it, and lets the clock stand.
    await fill(bench, many, [116], 2 * PERIOD, 0)
    await bench.idle(wait)
    assert await bench.check() > 0
    assert int(dut.busy_o.value)
    await bench.idle(256 * bench.cycles + 2)
    assert await bench.check() == 0
    assert not int(dut.busy_o.value)
    # What came before the pause is forgotten.
    await fill(bench, [0], [116], PERIOD, 0)
    await bench.idle(wait)
    assert await bench.check() == 0


@cocotb.test()
async def random_traffic(dut) -> None:
    """Any sessions, sizes, gaps and pauses."""
    bench = Bench(dut)
    await bench.start()
    told = 0
    for i in range(12):
        who = bench.rand.sample(
            range(bench.sessions), bench.rand.randint(2 if i == 0 else 1, bench.sessions)
        )
        sizes = [bench.rand.randint(60, 330) for _ in range(3)]
        # The first line is full, whatever else is drawn.
        frames, gap = PERIOD, 0
        if i > 0:
            frames = bench.rand.choice((40, PERIOD, PERIOD))
            gap = bench.rand.choice((0, 0, 2, 40)) * bench.cycles
        await fill(bench, who, sizes, frames, gap)
        pause = (
            bench.sessions + 4
            if i == 0
            else bench.rand.choice((bench.sessions + 4, 300 * bench.cycles))
        )
        await bench.idle(pause)
        if not bench.margin:
            told += await bench.check() > 0
    assert told > 0


@pytest.mark.parametrize(("sessions", "cycles"), [(64, 1), (8, 1), (8, 8)])
def test_rx_share(sessions: int, cycles: int) -> None:
    """At 10G, and at 1G, where a beat takes 8 cycles and a test 8 times as long."""
    build_and_run(
        test_module=__name__,
        top="rx_share",
        sources=["rtl/ipnuma/rx_share.sv"],
        parameters={"Sessions": sessions, "BeatCycles": cycles},
        testcases=["shares"] if cycles > 1 else None,
    )
