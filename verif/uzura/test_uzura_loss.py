# SPDX-License-Identifier: Apache-2.0
"""Random operations of many QPs in both directions over a channel that loses, repeats, reorders,
delays and corrupts: a model in Python says what memory holds, what completes, in which order.
"""

from __future__ import annotations

import os
import random
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import cocotb
import pytest
from harness import build_and_run, drawn

sys.path.insert(0, str(Path(__file__).resolve().parent))

import roce
import uzura_host as host
from uzura_host import Bench, Cqe, Qp, Region, Segments

ALL = host.LOCAL_WRITE | host.REMOTE_WRITE | host.REMOTE_READ | host.REMOTE_ATOMIC
SLOT, SLOTS = 1536, 12  # of local buffers, and of receive buffers
AREA = 4096  # of the peer's memory
UNDER_WAY = 10
FEW = 40
OPERATIONS = 2000 if os.environ.get("IPNUMA_LONG") else FEW  # of each QP
SIGNALED = 0.7  # of the operations, by choice
TIMEOUT, RETRY = 7, 7  # of each QP, as verbs count them
TICK_CYCLES = 16  # what uzura_pair takes for a microsecond
TIMEOUT_CYCLES = int(4.096 * 2**TIMEOUT * TICK_CYCLES)
SCAN_CYCLES = 64 * 64  # in which uzura_scheduler looks at the clock of each QP once
# Without an acknowledged packet a QP gives up after RETRY + 1 time-outs, with an error that fails
# the test. Several packets up to the next completion may be late: twice that is a hang.
HANG_CYCLES = 2 * (RETRY + 1) * (TIMEOUT_CYCLES + SCAN_CYCLES)


@dataclass
class Operation:
    """An operation under way."""

    index: int
    place: Segments
    signaled: bool
    result: bytes | None = None


@dataclass
class Flow:
    """One QP's requests to its peer, and a model of what they do."""

    qp: Qp
    peer: Qp
    local: Region
    remote: Region
    left: int
    signals: float
    area: bytearray = field(default_factory=lambda: bytearray(AREA))
    under_way: deque[Operation] = field(default_factory=deque)
    arriving: deque[tuple[int, bytes | None, int | None]] = field(default_factory=deque)
    buffers: deque[tuple[int, Segments]] = field(default_factory=deque)
    number: int = 0
    completed: int = 0
    moved: int = 0  # the cycle of the last completion, on either side
    pause: int = 0  # the longest time between two

    def begin(self) -> None:
        """Fill the area."""
        self.moved = self.qp.engine.bench.cycle
        self.area = bytearray(random.randbytes(AREA))
        self.remote.write(0, bytes(self.area))

    def pump(self) -> None:
        """Post something, on either side."""
        # Few, so that a message finds none now and then.
        if len(self.buffers) < 2 and random.random() < 0.006:
            at = AREA + SLOT * (self.peer.posted % SLOTS)
            count = random.randrange(1, (1 << self.peer.rq_segments) + 1)
            place = Segments.cut(self.remote, at, SLOT, count)
            self.buffers.append((self.peer.receive_list(*place.list()), place))
        if self.left and len(self.under_way) < UNDER_WAY and random.random() < 0.5:
            self.left -= 1
            self.post()

    def post(self) -> None:
        """Post a random operation, and do it in the model."""
        op = random.choice([host.SEND, host.SEND_IMM, host.WRITE, host.WRITE, host.WRITE_IMM,
                            host.READ, host.READ, host.CAS, host.FADD])
        slot = self.number % SLOTS
        self.number += 1
        at = slot * SLOT + random.randrange(8)
        size = random.choice([0, 1, 8, 64, random.randrange(1400)])
        to = random.randrange(AREA - size)
        atomic = op in (host.CAS, host.FADD)
        place = Segments.cut(self.local, at, 8 if atomic else size,
                             1 if atomic else random.choice([1, 1, 2, 3, 4, 5]))  # fmt: skip
        fields = dict(segments=place.list(), copy=random.random() < 0.3)
        fields |= dict(raddr=self.remote.va + to, rkey=self.remote.key)
        result = None
        # If all that have a place were silent, nothing would say that they have ended.
        full = len(self.under_way) == UNDER_WAY - 1
        silent = full and not any(o.signaled for o in self.under_way)
        signaled = random.random() < self.signals or self.left == 0 or silent
        if op in (host.SEND, host.SEND_IMM, host.WRITE, host.WRITE_IMM):
            data = random.randbytes(size)
            place.write(data)
            imm = random.getrandbits(32) if op in (host.SEND_IMM, host.WRITE_IMM) else None
            fields["imm"] = imm or 0
            if size <= 64 and random.random() < 0.5:
                del fields["segments"]
                fields |= dict(inline=data, copy=random.random() < 0.7)
            if op in (host.SEND, host.SEND_IMM):
                self.arriving.append((size, data, imm))
            else:
                self.area[to : to + size] = data
                if imm is not None:
                    self.arriving.append((size, None, imm))
        elif op == host.READ:
            result = bytes(self.area[to : to + size])
        else:
            to = (-self.remote.va % 8) + random.randrange(AREA // 8 - 1) * 8
            old = int.from_bytes(self.area[to : to + 8], "little")
            swap, compare = random.getrandbits(64), random.choice([old, old ^ 4])
            new = (old + swap) % 2**64 if op == host.FADD else swap if old == compare else old
            self.area[to : to + 8] = new.to_bytes(8, "little")
            result = old.to_bytes(8, "little")
            fields |= dict(raddr=self.remote.va + to, swap=swap, compare=compare)
        # A READ that is asked for again sees what has come since: the next change waits for it.
        index = self.qp.post(op, signaled=signaled, fence=op != host.READ, **fields)
        if result is not None:
            place.write(bytes(b ^ 0xFF for b in result))
        self.under_way.append(Operation(index, place, signaled, result))

    def take(self, cqe: Cqe) -> None:
        """Take a completion."""
        now = self.qp.engine.bench.cycle
        self.pause = max(self.pause, now - self.moved)
        self.moved = now
        (self.received if cqe.is_recv else self.sent)(cqe)

    def check_moves(self) -> None:
        """Fail if nothing has completed for too long."""
        since = self.qp.engine.bench.cycle - self.moved
        assert self.done() or since < HANG_CYCLES, (
            f"queue pair {self.qp.number} of engine {self.qp.engine.number} hangs, nothing for "
            f"{since} cycles: {self.completed} done, {self.left} left, "
            f"{len(self.under_way)} under way, {len(self.arriving)} to come"
        )

    def sent(self, cqe: Cqe) -> None:
        """Take a completion of the requester."""
        assert cqe.status == host.SUCCESS, f"status {cqe.status}"
        while True:
            done = self.under_way.popleft()
            self.completed += 1
            if done.result is not None:
                found = done.place.read()
                assert found == done.result, "a READ or atomic has brought something else"
            if done.index == cqe.index:
                assert done.signaled
                return
            assert not done.signaled, "a completion is missing"

    def received(self, cqe: Cqe) -> None:
        """Take a completion of the receive queue."""
        size, data, imm = self.arriving.popleft()
        slot, place = self.buffers.popleft()
        assert (cqe.status, cqe.index, cqe.bytes) == (host.SUCCESS, slot, size)
        assert (cqe.imm if cqe.has_imm else None) == imm
        if data is not None:
            assert place.read()[:size] == data, "a message has other bytes"

    def done(self) -> bool:
        """Return whether everything has ended."""
        return not (self.left or self.under_way or self.arriving)


class Channel:
    """What happens to frames."""

    def __init__(self, rate: float) -> None:
        """Each fault happens to this share of the frames."""
        self.rate = rate
        self.happened = dict.fromkeys(["lost", "repeated", "late", "corrupt"], 0)

    def __call__(self, sender: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Return the copies that arrive, each with its delay."""
        for fault in self.happened:
            if random.random() >= self.rate:
                continue
            self.happened[fault] += 1
            if fault == "lost":
                return []
            if fault == "repeated":
                return [(0, frame), (random.randrange(600), frame)]
            if fault == "late":
                return [(random.randrange(1, 600), frame)]
            broken = bytearray(frame)
            broken[random.randrange(34, len(frame))] ^= 1 << random.randrange(8)
            return [(0, bytes(broken))]
        return [(0, frame)]


async def flows(
    bench: Bench, count: int, operations: int, signals: float = SIGNALED
) -> list[Flow]:
    """Connect QPs, and a flow in each direction of each."""
    cqs = [await engine.cq(log2=9) for engine in bench.engines]
    out = []
    for _ in range(count):
        mtu = random.choice([1, 1, 2, 3])
        qps, regions = [], []
        for engine, cq in zip(bench.engines, cqs, strict=True):
            qps.append(await engine.qp(cq, cq, mtu=mtu, timeout=TIMEOUT, retry=RETRY, log2=5,
                                       rq_segments=random.randrange(3)))  # fmt: skip
            regions.append([
                await engine.region(SLOT * SLOTS + 8, ALL, offset=random.randrange(4096)),
                await engine.region(AREA + SLOT * SLOTS, ALL, offset=random.randrange(4096)),
            ])
        await bench.connect(*qps)
        for i in (0, 1):
            mine, theirs = regions[i][0], regions[1 - i][1]
            out.append(Flow(qps[i], qps[1 - i], mine, theirs, operations, signals))
            out[-1].begin()
    return out


async def run(bench: Bench, every: list[Flow]) -> None:
    """Pump until all is done; check each completion and, at the end, all memory."""
    cqs = {id(f.qp.scq): f.qp.scq for f in every}.values()
    requesters = {(f.qp.engine.number, f.qp.number): f for f in every}
    receivers = {(f.peer.engine.number, f.peer.number): f for f in every}
    while not all(f.done() for f in every):
        await bench.steps(8)
        for flow in every:
            flow.check_moves()
            flow.pump()
        for cq in cqs:
            while cqe := cq.poll():
                key = (cq.engine.number, cqe.qpn)
                (receivers if cqe.is_recv else requesters)[key].take(cqe)
    await bench.quiet()
    for cq in cqs:
        assert cq.poll() is None, "a completion too many"
    for flow in every:
        assert flow.remote.read(0, AREA) == flow.area, "memory is not what the model says"


async def setup(dut) -> tuple[Bench, Channel]:
    """Start two engines with faults of every kind between them."""
    bench = await Bench(dut).start()
    for engine in bench.engines:
        engine.delay = (5, 120)
        engine.stall = 0.15
    channel = bench.channel = Channel(0.02)
    return bench, channel


@cocotb.test()
async def over_a_bad_channel(dut) -> None:
    """Faults of every kind at once, ports that stall, reads that take long."""
    bench, channel = await setup(dut)
    every = await flows(bench, 6, OPERATIONS)
    await run(bench, every)
    assert all(channel.happened.values()), f"{channel.happened}"
    found = [await engine.counters() for engine in bench.engines]
    for name in ("tx_rewind", "tx_timeout", "rx_duplicate", "rx_sequence", "rx_broken",
                 "rx_not_ready", "rx_ghost", "table_miss", "inline_taken"):  # fmt: skip
        assert any(f[name] for f in found), f"{name} has not happened"
    for _, frame in random.sample(bench.frames, 300):
        roce.parse(frame)
    frames = len(bench.frames)
    pause = max(f.pause for f in every)
    bench.dut._log.info("%d frames, %s, %d cycles, %d at most between two completions", frames,
                        channel.happened, bench.cycle, pause)  # fmt: skip


@cocotb.test()
async def few_signals(dut) -> None:
    """Most operations complete silently: one that does not ends all before it, far behind."""
    bench, _ = await setup(dut)
    every = await flows(bench, 2, FEW, signals=0.02)
    await run(bench, every)


@pytest.mark.parametrize("latency", drawn("uzura_loss", [1, 4], 1))
def test_uzura_loss(latency: int) -> None:
    """The bad channel, with a fast and a slow memory for translations."""
    build_and_run(
        "uzura_pair", __name__, filelists=["rtl/uzura/uzura.f"],
        sources=["verif/uzura/uzura_pair.sv"], parameters={"MemLatency": latency},
    )  # fmt: skip
