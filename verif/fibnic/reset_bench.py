# SPDX-License-Identifier: Apache-2.0
"""Receive sides that are reset, and receive clocks that stop, under traffic; for both speeds.

Each port sends to one other, so that no frame waits for another port's. What a port sends while
it is not disturbed must come out as the model says and at its time, whatever happens to the others;
of the rest a frame may be missing, or end with an error, but none comes twice, late or mixed.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from fibnic_bench import CHECK_ALWAYS, FIELD_CHECK, PORTS, Bench
from router_ref import COUNTERS

LONG = bool(os.environ.get("IPNUMA_LONG"))
ROUNDS = 40 if LONG else 1
RESETS = 100  # disturbances of a round
GUARD_CYCLES = 8  # from the pins to where nothing of the receive clock is needed any more
SETTLE_CYCLES = 100  # from the end of a reset to where a port must receive
STORED_BYTES = 200
STORED_CYCLES = 400  # more, if what is left may have been stored
VERDICTS = 18
RX_COUNTERS = ("rx_error", "rx_giant", "rx_runt", "rx_bad_fcs", "rx_good")


def begun(sent: Any, period: int) -> float:
    """Return when the first byte was on the pins.

    The source adds half of the time since the edge before to a start in the middle of a word: if
    its clock has stood that is no cycle but the stop. Then its time of the byte behind the preamble
    is right, whose word comes an edge later; if the clock stood between the two the other one is.
    """
    if not getattr(sent, "start_lane", 0):
        return sent.sim_time_start  # at an edge
    return min(sent.sim_time_start, sent.sim_time_sfd - period)


@dataclass
class Port:
    """One port's clock, what it sent, and when it was disturbed."""

    clock: Clock
    v6: bool
    storing: bool
    sent: list[tuple[Any, bytes]] = field(default_factory=list)
    disturbed: list[tuple[float, float]] = field(default_factory=list)

    def clean(self, start: float, end: float, guard: float, settle: float) -> bool:
        """Say whether what was on the pins from `start` to `end` must have come through."""
        return all(end + guard <= a or start >= b + settle for a, b in self.disturbed)


class Disturber:
    """Traffic on all ports, and what happens to them."""

    def __init__(self, bench: Bench, frame: Any, period: int, errors: str) -> None:
        """`frame` is the class of a frame whose errors are in its member `errors`."""
        self.bench, self.frame, self.period, self.errors = bench, frame, period, errors
        self.rand: Random = bench.rand
        self.ports: list[Port] = []
        self.shift = 0
        self.rst = 0
        self.kinds: Counter[str] = Counter()

    def make(self, port: int) -> tuple[bytes, bytes]:
        """Build a frame of which there is one only, and what it leaves as."""
        out = (port + self.shift) % PORTS
        size = self.rand.choice([80, 88, 90, 91, 95, self.rand.randint(80, 400)])
        if self.ports[port].storing:
            size = STORED_BYTES  # short ones that wait for the end of a long one find no room
        if self.ports[port].v6:
            frame = self.bench.v6(port, f"2001:db8:{out}::1", size)
        else:
            frame = self.bench.v4(port, f"10.{out}.0.1", size)
        return frame, self.bench.router.decide(port, frame)[2]

    def queue(self, port: int, frame: bytes, expected: bytes) -> None:
        """Let a port's source send a frame, and note when it did."""

        def ended(sent: Any) -> None:
            sent.sim_time_start = begun(sent, self.period)
            self.ports[port].sent.append((sent, expected))

        self.bench.sources[port].send_nowait(self.frame.from_payload(frame, tx_complete=ended))

    async def send(self, port: int) -> None:
        """Send until cancelled, often at line rate."""
        source = self.bench.sources[port]
        while True:
            self.queue(port, *self.make(port))
            while source.count() > 1:
                await RisingEdge(self.bench.dut.clk_i)
            if self.rand.random() < 0.2:
                await Timer(self.rand.randint(1, 60) * self.period, "ps")

    def reset(self, port: int, on: bool) -> None:
        """Set or clear the reset of a receive side."""
        self.rst = self.rst & ~(1 << port) | on << port
        self.bench.dut.rst_rx_i.value = self.rst

    async def disturb(self, port: int) -> None:
        """Reset a port, or stop its clock, or both."""
        mine, rand = self.ports[port], self.rand
        begin = cocotb.simtime.get_sim_time("ps")
        kind = rand.choice(["reset", "reset", "again", "stop", "stop and reset", "reset and stop"])
        self.kinds[kind] += 1
        if kind == "reset and stop":
            self.reset(port, True)
            await Timer(rand.randint(1, 30 * self.period), "ps")
        if "stop" in kind:
            mine.clock.stop()
            await Timer(rand.choice([2, 3, 5, 20, 300]) * self.period, "ps")
            self.reset(port, "reset" in kind)
            mine.clock.start()
        if kind in ("reset", "again", "stop and reset"):
            self.reset(port, True)
        if "reset" in kind or kind == "again":
            await Timer(rand.choice([1, 1, 2, 3, 20, 100]) * self.period + 10, "ps")
            self.reset(port, False)
        if kind == "again":
            await Timer(rand.randint(1, 80) * self.period, "ps")
            self.reset(port, True)
            await Timer(rand.randint(1, 30) * self.period, "ps")
            self.reset(port, False)
        mine.disturbed.append((begin, cocotb.simtime.get_sim_time("ps")))

    async def run(self) -> None:
        """Disturb one port after the other, or several at once, for a while."""
        rand = self.rand
        senders = [cocotb.start_soon(self.send(p)) for p in range(PORTS)]
        left = RESETS
        while left:
            count = min(left, rand.choice([1, 1, 1, 2, PORTS]))
            left -= count
            tasks = [cocotb.start_soon(self.disturb(p)) for p in rand.sample(range(PORTS), count)]
            for task in tasks:
                await task
            await Timer(rand.choice([20, 60, 100, 300, 600]) * self.period, "ps")
        for sender in senders:
            sender.cancel()
        await Timer(2 * (SETTLE_CYCLES + STORED_CYCLES) * self.period, "ps")
        await self.bench.drain()

    def receive(self, port: int) -> Counter[str]:
        """Compare what has come from a port with what it sent."""
        mine, sink = self.ports[port], self.bench.sinks[(port + self.shift) % PORTS]
        settle = SETTLE_CYCLES + STORED_CYCLES * mine.storing
        seen: Counter[str] = Counter()
        places = {expected: n for n, (_, expected) in enumerate(mine.sent)}
        came: dict[int, Any] = {}
        last = -1
        while not sink.empty():
            got = sink.recv_nowait()
            if any(getattr(got, self.errors) or []):
                assert not got.check_fcs(), "an error behind a good frame"
                assert not mine.storing, "a port that stores lets bad frames out"
                seen["spoiled"] += 1
                continue
            assert got.check_fcs(), "a frame that was cut without an error"
            place = places.get(bytes(got.get_payload()))
            assert place is not None, "a frame that was not sent"
            assert place > last, f"frame {place} came behind {last}"
            last = place
            came[place] = got
        wanted = self.bench.v6_cycles if mine.v6 else self.bench.v4_cycles
        for place, (sent, _) in enumerate(mine.sent):
            start, end = sent.sim_time_start, sent.sim_time_end
            if mine.clean(start, end, GUARD_CYCLES * self.period, settle * self.period):
                seen["clean"] += 1
                assert place in came, f"frame {place} at {start} is lost"
                if not mine.storing:
                    cycles = self.bench.cycles(sent, came[place])
                    assert wanted - 1.01 <= cycles <= wanted + 1.01, (place, start, cycles)
        seen["good"] = len(came)
        return seen

    async def check(self, before: list[Counter[str]]) -> Counter[str]:
        """Compare frames and counters; return what there was."""
        total: Counter[str] = Counter()
        for p in range(PORTS):
            seen = self.receive(p)
            total += seen
            mine = await self.bench.counters(p)
            out = (p + self.shift) % PORTS
            theirs = await self.bench.counters(out)
            mine.subtract(before[p])
            theirs.subtract(before[out])
            verdicts = sum(mine[n] for n in COUNTERS[:VERDICTS])
            assert verdicts == sum(mine[n] for n in RX_COUNTERS), (p, mine)
            assert mine["full"] == 0 and theirs["tx_underrun"] == 0, (p, mine)
            assert mine["forward"] == theirs["tx_good"] + theirs["tx_spoiled"], (p, mine, theirs)
            assert theirs["tx_good"] == seen["good"] <= mine["rx_good"], (p, mine, seen)
            assert theirs["tx_spoiled"] == seen["spoiled"] == mine["spoiled"], (p, mine, seen)
        return total


async def one_sided_resets(bench: Bench, clocks: list[Clock], kit: tuple[Any, int, str]) -> None:
    """Disturb ports under traffic for some rounds, each with other flows."""
    total: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for _ in range(ROUNDS):
        run = Disturber(bench, *kit)
        run.shift = bench.rand.randint(1, PORTS - 1)
        storing = bench.rand.randrange(2 * PORTS)
        for p in range(PORTS):
            await bench.set_field(p, FIELD_CHECK, CHECK_ALWAYS * (p == storing))
            run.ports.append(Port(clocks[p], bench.rand.random() < 0.5, p == storing))
        before = [await bench.counters(p) for p in range(PORTS)]
        await run.run()
        total += await run.check(before)
        kinds += run.kinds
    bench.dut._log.info(f"{dict(kinds)}: {dict(total)}")
    assert total["clean"] > 20 * ROUNDS and total["spoiled"] > 10 * ROUNDS
