# SPDX-License-Identifier: Apache-2.0
"""Shared receive queues: several queue pairs, of two peers' messages in between, take from one."""

from __future__ import annotations

import random
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import cocotb
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

import roce
import uzura_host as host
from test_uzura_reset import reset
from uzura_host import Bench, Cq, Cqe, Qp, Region, Segments, Srq

ALL = host.LOCAL_WRITE | host.REMOTE_WRITE | host.REMOTE_READ | host.REMOTE_ATOMIC
PAGE = 4096
SLOT = 4096  # bytes of a buffer in the receiver's region


@dataclass
class Shared:
    """Queue pairs of engine 0, each connected to one of engine 1's, which share a queue."""

    bench: Bench
    srq: Srq
    cq: Cq
    region: Region
    source: Region
    senders: list[Qp] = field(default_factory=list)
    receivers: list[Qp] = field(default_factory=list)
    buffers: dict[int, Segments] = field(default_factory=dict)  # by place

    def post(self, size: int = SLOT, count: int = 1, doorbell: bool = True) -> int:
        """Post a buffer in a slot of its own, of some segments."""
        place = self.srq.places[0]
        segments = Segments.cut(self.region, place * SLOT, size, count)
        assert self.srq.receive_list(*segments.list(), doorbell=doorbell) == place
        self.buffers[place] = segments
        return place

    async def received(self, status: int = host.SUCCESS) -> tuple[Cqe, bytes]:
        """Take a completion of the shared queue, and free its place."""
        cqe = await self.bench.poll(self.cq)
        assert (cqe.status, cqe.is_recv) == (status, True)
        data = self.buffers.pop(cqe.index).read()[: cqe.bytes]
        self.srq.free(cqe.index)
        return cqe, data

    def send(self, index: int, data: bytes, op: int = host.SEND, at: int = 0, **f) -> None:
        """Post a request to one of the senders; its data stay where they are until it ends."""
        self.source.write(at, data)
        self.senders[index].post(op, laddr=self.source.va + at, lkey=self.source.key,
                                 length=len(data), **f)  # fmt: skip


async def shared(
    bench: Bench, count: int, log2: int = 4, listed: bool = False, **settings
) -> Shared:
    """Connect queue pairs that share one queue at engine 1."""
    a, b = bench.engines
    pd = settings.pop("srq_pd", 1)
    limit = settings.pop("limit", 0)
    out = Shared(
        bench,
        await b.srq(log2, listed, pd=pd, limit=limit),
        await b.cq(),
        await b.region(SLOT << log2, ALL, pd=pd, offset=random.randrange(PAGE)),
        await a.region(1 << 16, ALL, offset=random.randrange(PAGE)),
    )
    cq_a, cq_b = await a.cq(), await b.cq()
    for _ in range(count):
        out.senders.append(await a.qp(cq_a, cq_a, **settings))
        out.receivers.append(await b.qp(cq_b, out.cq, srq=out.srq, **settings))
        await bench.connect(out.senders[-1], out.receivers[-1])
    return out


@cocotb.test()
async def first_message(dut) -> None:
    """One queue pair, one segment: each entry once, its place in the completion."""
    bench = await Bench(dut).start()
    s = await shared(bench, 1)
    for size in (0, 1, 64, 1024, 1025, 4000):
        place = s.post()
        data = random.randbytes(size)
        s.send(0, data)
        cqe, got = await s.received()
        assert (cqe.index, cqe.bytes, got) == (place, size, data)
        assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS
    for _, frame in bench.frames:
        roce.parse(frame)


@dataclass
class Flow:
    """What a sender has sent, in its order."""

    messages: deque[tuple[bytes | None, int | None]] = field(default_factory=deque)
    sent: int = 0
    ended: int = 0


def lossy(rate: float):
    """Return a channel that loses, repeats and delays frames."""

    def channel(_sender: int, frame: bytes) -> list[tuple[int, bytes]]:
        if random.random() < rate:
            return random.choice([[], [(0, frame), (20, frame)], [(random.randrange(300), frame)]])
        return [(0, frame)]

    return channel


async def exchange(s: Shared, messages: int, most: int) -> int:
    """Send random messages from all at once; return how many places came back out of order."""
    bench, flows = s.bench, [Flow() for _ in s.senders]
    numbers = {qp.number: i for i, qp in enumerate(s.receivers)}
    sending = {qp.number: i for i, qp in enumerate(s.senders)}
    slots = (1 << 16) // len(flows)
    remote = await bench.engines[1].region(SLOT, ALL)
    order: deque[int] = deque()
    out_of_order = got = 0
    end = bench.cycle + 400_000
    while any(flow.ended < messages for flow in flows) or got < messages * len(flows):
        assert bench.cycle < end, "the queues do not come to an end"
        await bench.step()
        # Many at once, and again when few are left: some messages meet others, some find nothing.
        if len(s.buffers) < 3 and random.random() < 0.001:
            while not s.srq.full():
                order.append(s.post(most, random.randrange(1, 4) if s.srq.listed else 1))
        index = random.randrange(len(flows))
        flow = flows[index]
        if flow.sent < messages and flow.sent == flow.ended and random.random() < 0.5:
            size = random.choice([0, 64, random.randrange(most + 1), random.randrange(most + 1)])
            data, imm = random.randbytes(size), random.getrandbits(32)
            op = random.choice([host.SEND, host.SEND_IMM, host.WRITE_IMM])
            flow.messages.append((None if op == host.WRITE_IMM else data,
                                  None if op == host.SEND else imm))  # fmt: skip
            s.send(index, data, op, at=slots * index, imm=imm, raddr=remote.va, rkey=remote.key)
            flow.sent += 1
        cqe = s.senders[0].scq.poll()
        if cqe:
            assert cqe.status == host.SUCCESS
            flows[sending[cqe.qpn]].ended += 1
        cqe = s.cq.poll()
        if cqe:
            got += 1
            assert (cqe.status, cqe.is_recv) == (host.SUCCESS, True)
            data, imm = flows[numbers[cqe.qpn]].messages.popleft()
            assert cqe.has_imm == (imm is not None) and (imm is None or cqe.imm == imm)
            place = s.buffers.pop(cqe.index)
            if data is not None:
                assert (cqe.bytes, place.read()[: cqe.bytes]) == (len(data), data)
            out_of_order += order[0] != cqe.index
            order.remove(cqe.index)
            s.srq.free(cqe.index)
    await bench.quiet()
    assert s.srq.taken == set(order) == s.buffers.keys()
    return out_of_order


@cocotb.test()
async def many_queue_pairs(dut) -> None:
    """Random messages of eight queue pairs over a bad channel: all arrive once, in their order."""
    bench = await Bench(dut).start()
    for engine in bench.engines:
        engine.delay, engine.stall = (5, 60), 0.1
    for listed in (False, True):
        s = await shared(bench, 8, log2=4, listed=listed, mtu=2)
        bench.channel = lossy(0.05)
        overtaken = await exchange(s, 12, 3000)
        not_ready = (await bench.engines[1].counters())["rx_not_ready"]
        dut._log.info("%d messages overtaken, %d found no entry", overtaken, not_ready)
    for _, frame in bench.frames:
        roce.parse(frame)


@cocotb.test()
async def places_go_around(dut) -> None:
    """Many more entries than the queue has places."""
    bench = await Bench(dut).start()
    s = await shared(bench, 2, log2=3)
    for turn in range(30):
        for _ in range(1 + turn % 6):
            s.post(64)
        while s.srq.taken:
            data = random.randbytes(33)
            s.send(turn % 2, data)
            _, got = await s.received()
            assert got == data
            assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS


@cocotb.test()
async def not_ready(dut) -> None:
    """An empty queue is not ready: asked again, served in any order, given up at last."""
    bench = await Bench(dut).start()
    s = await shared(bench, 3, rnr_retry=2, min_rnr=1)
    data = [random.randbytes(100) for _ in s.senders]
    for i, one in enumerate(data):
        s.send(i, one, at=1000 * i)
    await bench.until(lambda: len(bench.frames) >= 6)
    for _ in s.senders:
        s.post()
    found = [await s.received() for _ in s.senders]
    assert sorted(got for _, got in found) == sorted(data)
    for _ in s.senders:
        assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS
    s.send(1, data[0])
    assert (await bench.poll(s.senders[0].scq)).status == host.RNR_RETRY
    await bench.quiet()
    assert s.cq.poll() is None


@cocotb.test()
async def bad_buffers(dut) -> None:
    """A wrong key, a foreign domain, a short buffer: its queue pair ends, the others go on."""
    bench = await Bench(dut).start()
    s = await shared(bench, 4, listed=True, srq_pd=2)
    other = await bench.engines[1].region(SLOT, ALL, pd=1)
    good = [(s.region.va, s.region.key, 10)]
    cases = [
        ([*good, (s.region.va, s.region.key ^ 1, 100)], host.LOC_PROT, host.REM_OPERATION),
        # The queue pairs' own domain, which is not the queue's.
        ([(other.va, other.key, 100)], host.LOC_PROT, host.REM_OPERATION),
        ([*good, (s.region.va + 50, s.region.key, 9)], host.LOC_LEN, host.REM_INVALID),
    ]
    for i, (segments, status, remote) in enumerate(cases):
        place = s.srq.receive_list(*segments)
        s.send(i, bytes(20))
        cqe = await bench.poll(s.cq)
        assert (cqe.index, cqe.status, cqe.qpn) == (place, status, s.receivers[i].number)
        s.srq.free(place)
        assert (await bench.poll(s.senders[0].scq)).status == remote
        s.post()
        data = random.randbytes(2000)
        s.send(3, data)
        _, got = await s.received()
        assert got == data
        assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS


@cocotb.test()
async def unreadable_entry(dut) -> None:
    """An entry that the host cannot give is not taken; its queue pair ends, others find it."""
    bench = await Bench(dut).start()
    b = bench.engines[1]
    for listed in (False, True):
        s = await shared(bench, 2, listed=listed)
        place = s.post()
        at = s.srq.base + s.srq.size * place
        b.unreadable = range(at, at + 1)
        s.send(0, bytes(20))
        assert (await bench.poll(s.senders[0].scq)).status == host.REM_OPERATION
        b.unreadable = range(0)
        data = random.randbytes(20)
        s.send(1, data)
        cqe, got = await s.received()
        assert (cqe.index, cqe.qpn, got) == (place, s.receivers[1].number, data)
        assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS


async def begin_message(s: Shared, index: int, data: bytes) -> None:
    """Let only the first packet of a message arrive."""
    first: list[bytes] = []

    def channel(sender: int, frame: bytes) -> list[tuple[int, bytes]]:
        if sender == 0 and not first and roce.parse(frame).qpn == s.receivers[index].number:
            first.append(frame)
            return [(0, frame)]
        return [] if roce.parse(frame).qpn == s.receivers[index].number else [(0, frame)]

    s.bench.channel = channel
    s.send(index, data, at=1 << 14)
    await s.bench.until(lambda: first)
    await s.bench.steps(300)


@cocotb.test()
async def error_leaves_the_queue(dut) -> None:
    """A queue pair in error ends the entry that it holds, and no other; then it says so."""
    bench = await Bench(dut).start()
    b = bench.engines[1]
    s = await shared(bench, 3)
    for _ in range(4):
        s.post()
    held = sorted(s.srq.taken)[0]
    await begin_message(s, 0, bytes(3000))
    data = random.randbytes(2500)
    s.send(1, data)
    cqe, got = await s.received()
    assert cqe.index == held + 1 and got == data, "what is held does not hold the others up"
    s.post()
    one = s.receivers[0]
    assert b.alarms == 0 and await b.read(host.ENDED) == 0
    await one.set(state=host.ERROR)
    one.ring()
    cqe = await bench.poll(s.cq)
    assert (cqe.index, cqe.status, cqe.is_recv, cqe.qpn) == (held, host.FLUSHED, True, one.number)
    s.srq.free(held)
    s.buffers.pop(held)
    await bench.until(lambda: b.alarms)
    assert await b.read(host.ENDED) == 1 << one.number
    # Once; and nothing of the queue is flushed.
    one.ring()
    await bench.steps(300)
    assert b.alarms == 1 and s.cq.poll() is None
    # One that ends by its peer's mistake says so, too.
    s.senders[1].post(host.WRITE, inline=bytes(8), raddr=0, rkey=1)
    await bench.until(lambda: b.alarms == 2)
    assert await b.read(host.ENDED) == 1 << one.number | 1 << s.receivers[1].number
    await one.set(state=0)
    assert await b.read(host.ENDED) == 1 << s.receivers[1].number
    for size in (10, 2000):
        data = random.randbytes(size)
        s.send(2, data)
        _, got = await s.received()
        assert got == data
    assert len(s.srq.taken) == 1


@cocotb.test()
async def held_by_one_that_goes(dut) -> None:
    """The host finds which entry a queue pair holds when it takes it away."""
    bench = await Bench(dut).start()
    b = bench.engines[1]
    s = await shared(bench, 2)
    for _ in range(3):
        s.post()
    await begin_message(s, 0, bytes(3000))
    for index, found in ((0, 1 << 16 | 0), (1, 0)):
        await s.receivers[index].set(state=0)
        await b.command(host.LOOK_QP, s.receivers[index].number)
        assert await b.read(host.HELD) == found
    await bench.quiet()
    assert s.cq.poll() is None


@cocotb.test()
async def limit(dut) -> None:
    """One event when fewer are left than asked for, until the limit is set again."""
    bench = await Bench(dut).start()
    b = bench.engines[1]
    s = await shared(bench, 2, limit=3)
    other = await b.srq(limit=1)
    for _ in range(5):
        s.post()

    async def one() -> None:
        s.send(random.randrange(2), b"12345")
        await s.received()
        assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS

    for left, alarms in ((4, 0), (3, 0), (2, 1), (1, 1)):
        await one()
        await bench.quiet()
        assert (len(s.srq.taken), b.alarms) == (left, alarms)
        assert await b.read(host.BELOW) == alarms << s.srq.number
    await s.srq.set(limit=1)
    assert await b.read(host.BELOW) == 0
    s.post()
    await one()
    assert b.alarms == 1, "one is left, which is not below the limit"
    await one()
    await bench.quiet()
    assert b.alarms == 2 and await b.read(host.BELOW) == 1 << s.srq.number
    await s.srq.set(limit=0)
    s.post()
    await one()
    assert b.alarms == 2 and await b.read(host.BELOW) == 0 and not other.taken


@cocotb.test()
async def datagrams(dut) -> None:
    """Datagrams into a shared queue, behind 40 bytes; without an entry they are lost."""
    bench = await Bench(dut).start()
    a, b = bench.engines
    s = await shared(bench, 0, listed=True)
    cq = await a.cq()
    sender = await a.qp(cq, cq, ud=1, qkey=7)
    receivers = [await b.qp(s.cq, s.cq, ud=1, qkey=7, srq=s.srq) for _ in range(3)]
    for qp in (sender, *receivers):
        await qp.set(begin=True, state=host.RTS)
    for i in range(12):
        to = random.choice(receivers)
        if i % 4:
            s.post(1100, random.randrange(1, 4))
        data = random.randbytes(random.randrange(1025))
        s.source.write(0, data)
        sender.post(host.SEND, laddr=s.source.va, lkey=s.source.key, length=len(data),
                    type_id=to.number, compare=b.mac, swap=b.ip << 32 | 7)  # fmt: skip
        assert (await bench.poll(cq)).status == host.SUCCESS
        await bench.quiet()
        if i % 4:
            cqe, got = await s.received()
            assert (cqe.qpn, cqe.src_qpn, got[40:]) == (to.number, sender.number, data)
    assert (await b.counters())["rx_not_ready"] == 3


@cocotb.test()
async def pages_and_numbers(dut) -> None:
    """A doorbell of another page counts for nothing; a queue that is not set is empty."""
    bench = await Bench(dut).start()
    b = bench.engines[1]
    s = await shared(bench, 1, rnr_retry=0)
    s.post(doorbell=False)
    b.write((s.srq.page + 1) << 12 | 0x18, s.srq.number << 32 | 1)
    b.write(s.srq.page << 12 | 0x18, (s.srq.number + 1) << 32 | 1)
    s.send(0, b"1234")
    assert (await bench.poll(s.senders[0].scq)).status == host.RNR_RETRY
    assert (await b.counters())["doorbell_refused"] == 2
    s.srq.ring()
    await s.srq.set(used=0)
    await bench.connect(s.senders[0], s.receivers[0])
    s.send(0, b"1234")
    assert (await bench.poll(s.senders[0].scq)).status == host.RNR_RETRY
    await s.srq.set()
    await bench.connect(s.senders[0], s.receivers[0])
    s.send(0, b"1234")
    _, got = await s.received()
    assert got == b"1234"


# Cycles of a SEND of 64 bytes, as test_uzura.py has them of a queue of its own; docs/uzura.md.
READ_CYCLES = 20
SIZE = 64
LATENCY = {
    "first beat in to DMA write": 63,
    "first beat in to completion": 80,
    "first beat in to completion, 3 segments": 120,
}


@cocotb.test()
async def latencies(dut) -> None:
    """What a shared queue takes: the entry's last word, and a cycle to look at it."""
    bench = await Bench(dut).start()
    b = bench.engines[1]
    found = {}
    for engine in bench.engines:
        engine.delay = (READ_CYCLES, READ_CYCLES)
    for listed in (False, True):
        s = await shared(bench, 1, listed=listed)
        s.region.va -= s.region.va % PAGE  # the first buffer lies in one page
        for _ in range(2):
            place = s.srq.places[0]
            parts = [(s.region.va + PAGE, s.region.key, SIZE)]
            if listed:
                sizes = (13, 13, SIZE - 26)
                parts = [(s.region.va + PAGE + 13 * i, s.region.key, size)
                         for i, size in enumerate(sizes)]  # fmt: skip
            s.srq.receive_list(*parts)
            await bench.quiet()
            b.marks.clear()
            s.senders[0].post(host.SEND, inline=bytes(SIZE), copy=True)
            assert (await bench.poll(s.cq)).index == place
            s.srq.free(place)
            assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS
            await bench.quiet()
        begin, writes = b.marks["rx_first"][0], b.marks["write"]
        if listed:
            found["first beat in to completion, 3 segments"] = writes[-1] - begin
        else:
            found["first beat in to DMA write"] = writes[0] - begin
            found["first beat in to completion"] = writes[1] - begin
    for name, cycles in found.items():
        dut._log.info("cycles: %3d  %s", cycles, name)
    assert found == LATENCY


@cocotb.test()
async def after_a_reset(dut) -> None:
    """A queue from before a reset is none: its doorbells are refused, it has no entries."""
    bench = await Bench(dut).start()
    s = await shared(bench, 1, rnr_retry=0, limit=5)
    s.post()
    s.post()
    s.send(0, b"1234")
    await s.received()
    assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS
    b = bench.engines[1]
    assert await b.read(host.BELOW) == 1
    await reset(bench)
    for engine in bench.engines:
        await engine.begin()
    for address in (host.BELOW, host.ENDED, host.HELD):
        assert await b.read(address) == 0
    again = await shared(bench, 0)
    again.receivers = [await b.qp(again.cq, again.cq, srq=s.srq)]
    cq = await bench.engines[0].cq()
    again.senders = [await bench.engines[0].qp(cq, cq, rnr_retry=0)]
    await bench.connect(again.senders[0], again.receivers[0])
    b.write(s.srq.page << 12 | 0x18, s.srq.number << 32 | 2)
    again.send(0, b"1234")
    assert (await bench.poll(cq)).status == host.RNR_RETRY
    assert (await b.counters())["doorbell_refused"] == 1


def test_uzura_srq() -> None:
    """All of the above."""
    build_and_run(
        "uzura_pair", __name__, filelists=["rtl/uzura/uzura.f"],
        sources=["verif/uzura/uzura_pair.sv"],
    )  # fmt: skip
