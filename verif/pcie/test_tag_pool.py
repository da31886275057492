# SPDX-License-Identifier: Apache-2.0
"""Bench of the tags: what timed out or was out at a reset can't be mistaken for what came after."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run

TAGS = 4
TIMEOUT_US = 10
QUARANTINE_LOG2 = 2
QUARANTINE_US = TIMEOUT_US << QUARANTINE_LOG2
# Two passes over the table, and their registers.
SETTLE = 3 * TAGS + 8
INPUTS = (
    "take_i take_data_i keep_i tag_i whole_i free_i late_free_i expire_i now_us_i timeout_us_i"
).split()


class Pool:
    """Drives the ports, and remembers which tags are out and which may still be answered."""

    def __init__(self, dut) -> None:
        """Take the design; `start` comes first."""
        self.dut = dut
        self.now = 0

    async def start(self) -> None:
        """Start the clock and reset."""
        for name in INPUTS:
            self.dut[name].value = 0
        self.dut.timeout_us_i.value = TIMEOUT_US
        self.dut.whole_i.value = 1
        Clock(self.dut.clk_i, 4000, "ps").start()
        await self.reset()
        # What another test left is over.
        await self.later(2 * QUARANTINE_US)

    async def reset(self) -> None:
        """Reset for some cycles."""
        self.dut.rst_i.value = 1
        await self.cycles(4)
        self.dut.rst_i.value = 0
        await self.cycles(4)

    async def cycles(self, count: int) -> None:
        """Wait."""
        for _ in range(count):
            await RisingEdge(self.dut.clk_i)

    async def later(self, us: int) -> None:
        """Let time pass, and the passes over the table."""
        self.now = (self.now + us) & 0xFFFFFFFF
        self.dut.now_us_i.value = self.now
        await self.cycles(SETTLE)

    async def take(self) -> int | None:
        """Take a tag, if one is offered."""
        await self.cycles(2)
        await ReadOnly()
        ok, tag = bool(self.dut.take_ok_o.value), int(self.dut.take_tag_o.value)
        await RisingEdge(self.dut.clk_i)
        if not ok:
            return None
        self.dut.take_i.value = 1
        await RisingEdge(self.dut.clk_i)
        self.dut.take_i.value = 0
        return tag

    async def come(self, tag: int) -> str:
        """Let a completion come that ends its read; say what the pool thinks of it."""
        self.dut.tag_i.value = tag
        await ReadOnly()
        live, late = bool(self.dut.live_o.value), bool(self.dut.late_o.value)
        assert not (live and late)
        await RisingEdge(self.dut.clk_i)
        self.dut.free_i.value = live
        self.dut.late_free_i.value = late
        await RisingEdge(self.dut.clk_i)
        self.dut.free_i.value = 0
        self.dut.late_free_i.value = 0
        return "live" if live else "late" if late else "unknown"

    async def expire(self) -> int:
        """Take all time-outs; say how many there were."""
        count = 0
        while True:
            await self.cycles(2)  # the next one is offered
            await ReadOnly()
            found = bool(self.dut.expired_o.value)
            await RisingEdge(self.dut.clk_i)
            if not found:
                return count
            count += 1
            self.dut.expire_i.value = 1
            await RisingEdge(self.dut.clk_i)
            self.dut.expire_i.value = 0


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def late_completions_match_nothing(dut) -> None:
    """A read that timed out, and more others than there are generations: its completion is late."""
    pool = Pool(dut)
    await pool.start()
    late = await pool.take()
    await pool.later(TIMEOUT_US)
    assert await pool.expire() == 1
    for _ in range(9):
        tag = await pool.take()
        assert tag % TAGS != late % TAGS, "a tag that timed out is used again"
        assert await pool.come(tag) == "live"
    assert await pool.come(late) == "late"
    # Now it is known to be over.
    assert (await pool.take()) % TAGS == late % TAGS
    assert await pool.come(late) == "unknown"


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def quarantine_ends_with_time(dut) -> None:
    """Without a completion a tag is used again after some time-outs, not earlier."""
    pool = Pool(dut)
    pool.now = 0xFFFFFFF0  # the clock wraps on the way
    await pool.start()
    await pool.later(1)
    tags = [await pool.take() for _ in range(TAGS)]
    assert await pool.take() is None
    await pool.later(TIMEOUT_US - 1)
    assert await pool.expire() == 0
    await pool.later(1)
    assert await pool.expire() == TAGS
    await pool.later(QUARANTINE_US - TIMEOUT_US - 1)
    assert await pool.take() is None, "a quarantine is too short"
    await pool.later(1)
    again = [await pool.take() for _ in range(TAGS)]
    assert sorted(t % TAGS for t in again) == list(range(TAGS))
    assert not set(again) & set(tags)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def reset_forgets_no_read(dut) -> None:
    """A read that is out at a reset is not taken for one from after it, nor the other way round."""
    pool = Pool(dut)
    await pool.start()
    before = await pool.take()
    await pool.reset()
    after = await pool.take()
    assert after % TAGS != before % TAGS, "a tag from before the reset is used again"
    assert await pool.come(before) == "late"
    assert await pool.come(after) == "live"
    await pool.reset()
    free = {(await pool.take()) % TAGS for _ in range(TAGS)}
    assert free == set(range(TAGS))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def random_uses(dut) -> None:
    """Reads, answers in time and late, time-outs, resets: each completion means its own read."""
    pool = Pool(dut)
    await pool.start()
    rand = random.Random(random.getrandbits(64))
    live: dict[int, int] = {}  # tag -> when taken
    late: dict[int, int] = {}
    for _ in range(3000):
        pick = rand.random()
        if pick < 0.4:
            tag = await pool.take()
            used = {t % TAGS for t in (*live, *late)}
            assert (tag is None) == (len(used) == TAGS)
            if tag is not None:
                assert tag % TAGS not in used
                live[tag] = pool.now
        elif pick < 0.6 and live:
            tag = rand.choice(list(live))
            assert await pool.come(tag) == "live"
            del live[tag]
        elif pick < 0.7 and late:
            tag = rand.choice(list(late))
            assert await pool.come(tag) == "late"
            del late[tag]
        elif pick < 0.98:
            await pool.later(rand.randrange(TIMEOUT_US))
            old = {t for t, since in live.items() if pool.now - since >= TIMEOUT_US}
            assert await pool.expire() == len(old)
            await pool.cycles(SETTLE)
            late |= {t: live.pop(t) for t in old}
            late = {t: since for t, since in late.items() if pool.now - since < QUARANTINE_US}
        else:
            await pool.reset()
            late |= live
            live = {}


def test_tag_pool() -> None:
    """Run all tests."""
    build_and_run(
        "tag_pool",
        __name__,
        sources=["rtl/ipnuma/ring_pick.sv", "rtl/ipnuma/tag_pool.sv"],
        parameters={"Tags": TAGS, "GenerationW": 2, "QuarantineLog2": QUARANTINE_LOG2},
    )
