# SPDX-License-Identifier: Apache-2.0
"""stats_ram against a list of sums: any events in any cycle, reads at any moment, resets."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run

# The counters of both sides of both NICs, and the fewest; the shortest that can be wrap.
SIZES = [(3, 4), (5, 5), (11, 7), (22, 9), (24, 9), (28, 10), (45, 9), (45, 32)]


def shape(count: int) -> tuple[int, int]:
    """Return the low bits of a counter and the cycles from a read to the next."""
    low = (count + count // 8 + 3 - 1).bit_length()
    spare = (1 << low) - (count + 2)
    return low, max(3, -(-(1 << low) // spare))


class Bench:
    """Counts what it says, a cycle at a time, and checks every answer."""

    def __init__(self, dut) -> None:
        """Take the pins."""
        self.dut = dut
        self.count, self.width = int(dut.Count.value), int(dut.Width.value)
        self.low, self.every = shape(self.count)
        self.sums = [0] * self.count
        self.asked: int | None = None
        self.cycle = self.reads = 0
        self.next_take = 0
        self.answer_at: int | None = None
        self.before: list[int] = []
        self.busy = True

    async def reset(self, cycles: int) -> None:
        """Reset, with whatever is at the other pins."""
        self.dut.rst_i.value = 1
        for _ in range(cycles):
            await RisingEdge(self.dut.clk_i)
            self.dut.read_i.value = 0
        self.dut.rst_i.value = 0
        self.sums = [0] * self.count
        self.before = list(self.sums)
        self.asked = self.answer_at = None
        self.cycle = 0
        self.next_take = self.count + 1

    async def step(self, events: int, ask: int | None = None) -> None:
        """One cycle; `ask` begins a read if none is under way."""
        dut = self.dut
        began = self.asked is None and ask is not None
        if began:
            self.asked = ask
        dut.event_i.value = events
        dut.read_i.value = self.asked is not None
        dut.index_i.value = self.asked or 0
        await ReadOnly()
        self.busy = bool(int(dut.busy_o.value))
        answered = int(dut.valid_o.value)
        assert answered == (self.answer_at == self.cycle), "an answer too early or too late"
        if answered:
            expected = self.before[self.asked] % (1 << self.width)
            assert int(dut.value_o.value) == expected, f"counter {self.asked}"
            self.reads += 1
        elif self.asked is not None and self.cycle >= self.next_take:
            if self.answer_at is None:
                self.answer_at = self.cycle + 2
                self.next_take = self.cycle + self.every
                self.before = [n + (events >> i & 1) for i, n in enumerate(self.sums)]
        for i in range(self.count):
            self.sums[i] += events >> i & 1
        await RisingEdge(dut.clk_i)
        self.cycle += 1
        if answered:
            self.asked = self.answer_at = None

    async def check_all(self) -> None:
        """Read every counter while nothing happens."""
        for i in range(self.count):
            reads = self.reads
            while self.reads == reads:
                await self.step(0, i)

    async def come_to_rest(self) -> None:
        """Without events or reads it is soon no longer busy, and stays so."""
        for _ in range(self.count + self.every + 3):
            await self.step(0)
        for _ in range(5):
            assert not self.busy
            await self.step(0)


async def start(dut) -> Bench:
    """Start the clock and reset."""
    Clock(dut.clk_i, 4, "ns").start()
    dut.event_i.value = dut.read_i.value = dut.index_i.value = 0
    bench = Bench(dut)
    await bench.reset(2)
    return bench


def some(rand: random.Random, count: int, density: float) -> int:
    """Each event with a probability."""
    if density in (0, 1):
        return (1 << count) - 1 if density else 0
    return sum((rand.random() < density) << i for i in range(count))


@cocotb.test()
async def every_event_in_every_cycle(dut) -> None:
    """All counters count in all cycles, from the reset on; reads as often as they are taken."""
    bench = await start(dut)
    everything = (1 << bench.count) - 1
    for n in range(5 << bench.low):
        await bench.step(everything, n % bench.count)
    await bench.check_all()
    await bench.come_to_rest()
    # The same again, out of a rest, with each place where the sweep can have stopped.
    for _ in range(bench.count):
        for _ in range(1 << bench.low | 3):
            await bench.step(everything, 1)
        await bench.come_to_rest()
    await bench.check_all()
    assert bench.reads > bench.count * 3


@cocotb.test()
async def any_events(dut) -> None:
    """Bursts of every density; reads of the counter that overflows, of any, or none; then rest."""
    rand = random.Random(random.getrandbits(64))
    bench = await start(dut)
    for _ in range(60):
        density = rand.choice([0, 0.01, 0.1, 0.5, 0.9, 1])
        reads = rand.choice([0, 0.1, 1])
        same = rand.randrange(bench.count) if rand.random() < 0.5 else None
        few = rand.choice([(1 << bench.count) - 1, rand.getrandbits(bench.count)])
        for _ in range(rand.randrange(1, 3 << bench.low)):
            ask = same if same is not None else rand.randrange(bench.count)
            wants = rand.random() < reads
            await bench.step(few & some(rand, bench.count, density), ask if wants else None)
        if rand.random() < 0.3:
            while bench.asked is not None:
                await bench.step(0)
            await bench.come_to_rest()
        if rand.random() < 0.2:
            await bench.check_all()
    await bench.check_all()
    assert max(bench.sums) >> bench.low > 3


@cocotb.test()
async def reset_at_any_time(dut) -> None:
    """After a reset all counters are 0, whatever was under way; events count from its end on."""
    rand = random.Random(random.getrandbits(64))
    bench = await start(dut)
    for _ in range(40):
        density = rand.choice([0.1, 1])
        for _ in range(rand.randrange(1, 3 << bench.low)):
            wants = rand.random() < 0.5
            await bench.step(
                some(rand, bench.count, density), rand.randrange(bench.count) if wants else None
            )
        await bench.reset(rand.choice([1, 1, 2, 5]))
        if rand.random() < 0.5:
            await bench.check_all()
    await bench.check_all()


@cocotb.test()
async def a_counter_wraps(dut) -> None:
    """A counter of few bits goes round; one beside it stays."""
    bench = await start(dut)
    if bench.width > 10:
        return
    for _ in range((1 << bench.width) + 5):
        await bench.step(0b10)
    await bench.check_all()
    assert bench.sums[:3] == [0, (1 << bench.width) + 5, 0]


@pytest.mark.parametrize(("count", "width"), SIZES)
def test_stats(count: int, width: int) -> None:
    """Run the tests above for a number of counters."""
    build_and_run(
        "tb_stats",
        __name__,
        filelists=["rtl/lib/lib.f"],
        sources=["verif/lib/tb_stats.sv"],
        parameters={"Count": count, "Width": width},
    )
