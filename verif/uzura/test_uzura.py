# SPDX-License-Identifier: Apache-2.0
"""Two engines back to back: each operation by itself, and its latency."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import cocotb
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

import roce
import uzura_host as host
from uzura_host import Bench, Qp, Region, Segments

ALL = host.LOCAL_WRITE | host.REMOTE_WRITE | host.REMOTE_READ | host.REMOTE_ATOMIC

# Bytes of a page of the translation.
PAGE = 4096


class Pair:
    """Two connected QPs with a region each."""

    a: Qp
    b: Qp
    ra: Region
    rb: Region


async def pair(bench: Bench, size: int = 1 << 16, offsets: int = PAGE, **settings) -> Pair:
    """Connect two QPs; their regions begin in a page at one of so many places."""
    out = Pair()
    for name, engine in zip("ab", bench.engines, strict=True):
        cq = await engine.cq()
        qp = await engine.qp(cq, cq, **settings)
        region = await engine.region(size, ALL, offset=random.randrange(offsets))
        region.write(0, random.randbytes(size))
        setattr(out, name, qp)
        setattr(out, f"r{name}", region)
    await bench.connect(out.a, out.b)
    return out


@cocotb.test()
async def writes(dut) -> None:
    """RDMA WRITE of many lengths, from any address to any other."""
    bench = await Bench(dut).start()
    p = await pair(bench)
    for size in (0, 1, 7, 8, 63, 64, 1023, 1024, 1025, 4096, 9000):
        src, dst = random.randrange(1 << 15), random.randrange(1 << 15)
        expected = bytearray(p.rb.read(0, p.rb.length))
        expected[dst : dst + size] = p.ra.read(src, size)
        index = p.a.post(host.WRITE, laddr=p.ra.va + src, lkey=p.ra.key, length=size,
                         raddr=p.rb.va + dst, rkey=p.rb.key)
        cqe = await bench.poll(p.a.scq)
        assert (cqe.status, cqe.index, cqe.op) == (0, index, host.WRITE)
        assert p.rb.read(0, p.rb.length) == expected
    for _, frame in bench.frames:
        roce.parse(frame)


@cocotb.test()
async def sends(dut) -> None:
    """SEND with immediate, invalidation, by inline doorbell, into buffers of any alignment."""
    bench = await Bench(dut).start()
    p = await pair(bench)
    window = await bench.engines[1].region(4096, ALL)
    for number, size in enumerate((0, 1, 5, 33, 64, 1024, 1025, 5000)):
        src, dst = random.randrange(1 << 15), random.randrange(1 << 15)
        slot = p.b.receive(p.rb.va + dst, p.rb.key, size + random.randrange(3))
        op = random.choice([host.SEND, host.SEND_IMM]) if number < 6 else host.SEND_INV
        imm = random.getrandbits(32) if op != host.SEND_INV else window.key
        data = p.ra.read(src, size)
        where = dict(laddr=p.ra.va + src, lkey=p.ra.key, length=size)
        if size <= 64 and random.random() < 0.5:
            where = dict(inline=data, copy=random.random() < 0.5)
        p.a.post(op, imm=imm, solicited=1, **where)
        got = await bench.poll(p.b.rcq)
        assert (got.status, got.is_recv, got.index, got.bytes) == (0, True, slot, size)
        assert got.has_imm == (op == host.SEND_IMM) and (not got.has_imm or got.imm == imm)
        assert got.has_inv == (op == host.SEND_INV) and (not got.has_inv or got.key == imm)
        assert p.rb.read(dst, size) == data
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
    # The key that the peer has ended opens nothing.
    p.a.post(host.WRITE, laddr=p.ra.va, lkey=p.ra.key, length=8, raddr=window.va, rkey=window.key)
    assert (await bench.poll(p.a.scq)).status == host.REM_ACCESS
    for _, frame in bench.frames:
        roce.parse(frame)


@cocotb.test()
async def reads_and_atomics(dut) -> None:
    """READ of many lengths, compare-and-swap, fetch-and-add."""
    bench = await Bench(dut).start()
    p = await pair(bench)
    for size in (0, 1, 8, 1000, 1024, 1025, 5000):
        src, dst = random.randrange(1 << 15), random.randrange(1 << 15)
        data = p.rb.read(src, size)
        p.a.post(host.READ, laddr=p.ra.va + dst, lkey=p.ra.key, length=size,
                 raddr=p.rb.va + src, rkey=p.rb.key)
        cqe = await bench.poll(p.a.scq)
        assert (cqe.status, cqe.bytes, cqe.op) == (0, size, host.READ)
        assert p.ra.read(dst, size) == data
    at = -p.rb.va % 8
    for _ in range(6):
        old = int.from_bytes(p.rb.read(at, 8), "little")
        op = random.choice([host.CAS, host.FADD])
        swap = random.getrandbits(64)
        compare = random.choice([old, old ^ 1])
        new = (old + swap) % 2**64 if op == host.FADD else swap if compare == old else old
        p.a.post(op, laddr=p.ra.va + 77, lkey=p.ra.key, length=8, raddr=p.rb.va + at,
                 rkey=p.rb.key, swap=swap, compare=compare)
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        assert p.ra.read(77, 8) == old.to_bytes(8, "little")
        assert p.rb.read(at, 8) == new.to_bytes(8, "little")
    for _, frame in bench.frames:
        roce.parse(frame)


@cocotb.test()
async def datagrams(dut) -> None:
    """UD: by address in the request, with Q_Key, behind 40 bytes."""
    bench = await Bench(dut).start()
    a, b = bench.engines
    cqs = [await e.cq() for e in bench.engines]
    qps = [await e.qp(c, c, ud=1, qkey=0x1234, rq_segments=random.randrange(3))
           for e, c in zip(bench.engines, cqs, strict=True)]  # fmt: skip
    for qp in qps:
        await qp.set(begin=True, state=host.RTS)
    ra, rb = await a.region(8192, ALL), await b.region(8192, ALL)
    ra.write(0, random.randbytes(8192))
    where = dict(type_id=qps[1].number, compare=b.mac)
    for size in (0, 1, 64, 1000, 1024):
        here = Segments.draw([ra], size, random.randrange(1, 7))
        there = Segments.draw([rb], size + 40, random.randrange(1, (1 << qps[1].rq_segments) + 1))
        slot = qps[1].receive_list(*there.list())
        qps[0].post(host.SEND_IMM, segments=here.list(), imm=size, swap=b.ip << 32 | 0x1234,
                    **where)  # fmt: skip
        got = await bench.poll(cqs[1])
        assert (got.status, got.index, got.bytes, got.imm) == (0, slot, size + 40, size)
        assert (got.src_qpn, got.key) == (qps[0].number, a.ip)
        assert there.read()[40:] == here.read()
        assert (await bench.poll(cqs[0])).status == host.SUCCESS
    # A wrong Q_Key, and no buffer: nothing but a count.
    for qkey in (0x1235, 0x1234):
        qps[0].post(host.SEND, laddr=ra.va, lkey=ra.key, length=8, swap=b.ip << 32 | qkey, **where)
        assert (await bench.poll(cqs[0])).status == host.SUCCESS
    await bench.quiet()
    counters = await b.counters()
    assert (counters["rx_no_qp"], counters["rx_not_ready"]) == (1, 1)
    assert cqs[1].poll() is None
    # Six segments, each with bytes.
    here = Segments([(ra, 4000 - 100 * i, 7 + i) for i in range(6)])
    qps[1].receive(rb.va, rb.key, 200)
    qps[0].post(host.SEND, segments=here.list(), swap=b.ip << 32 | 0x1234, copy=True, **where)
    assert (await bench.poll(cqs[1])).bytes == 40 + 57
    assert rb.read(40, 57) == here.read()
    assert (await bench.poll(cqs[0])).status == host.SUCCESS
    # Longer than the path's MTU: an error of the requester.
    qps[0].post(host.SEND, laddr=ra.va, lkey=ra.key, length=1025, swap=b.ip << 32 | 0x1234, **where)
    assert (await bench.poll(cqs[0])).status == host.LOC_LEN
    for _, frame in bench.frames:
        roce.parse(frame)


@cocotb.test()
async def errors_stop_a_queue_pair(dut) -> None:
    """Each mistake: the status that the specification names, the rest flushed, nothing written."""
    bench = await Bench(dut).start()
    a, b = bench.engines
    p = await pair(bench)
    read_only = await b.region(4096, host.REMOTE_READ)
    other_domain = await b.region(4096, ALL, pd=2)
    local_only = await a.region(4096, 0)
    good = dict(laddr=p.ra.va, lkey=p.ra.key, length=64, raddr=p.rb.va, rkey=p.rb.key)
    end = p.rb.va + p.rb.length
    cases = [
        (host.WRITE, dict(rkey=p.rb.key ^ 1), host.REM_ACCESS),
        (host.WRITE, dict(rkey=0x00FFFF00), host.REM_ACCESS),
        (host.WRITE, dict(raddr=p.rb.va - 1), host.REM_ACCESS),
        (host.WRITE, dict(raddr=end - 63), host.REM_ACCESS),
        (host.WRITE, dict(raddr=2**64 - 8), host.REM_ACCESS),
        (host.WRITE, dict(raddr=end - 1024, length=1025 * 2), host.REM_ACCESS),
        (host.WRITE, dict(raddr=read_only.va, rkey=read_only.key), host.REM_ACCESS),
        (host.WRITE, dict(raddr=other_domain.va, rkey=other_domain.key), host.REM_ACCESS),
        (host.READ, dict(raddr=end - 63), host.REM_ACCESS),
        (host.READ, dict(lkey=local_only.key, laddr=local_only.va), host.LOC_PROT),
        (host.FADD, dict(raddr=read_only.va, rkey=read_only.key, length=8), host.REM_ACCESS),
        (host.FADD, dict(raddr=p.rb.va | 7, length=8), host.REM_INVALID),
        (host.FADD, dict(length=16), host.LOC_LEN),
        (host.WRITE, dict(lkey=p.ra.key ^ 1), host.LOC_PROT),
        (host.WRITE, dict(laddr=p.ra.va + p.ra.length - 63), host.LOC_PROT),
        (host.WRITE, dict(length=1 << 31), host.LOC_LEN),
        (8, {}, host.LOC_QP_OP),
        (255, {}, host.LOC_QP_OP),
        (host.SEND, dict(length=101), host.REM_INVALID),
    ]
    for op, wrong, status in cases:
        await bench.connect(p.a, p.b)
        before = p.rb.read(0, p.rb.length)
        slot = p.b.receive(p.rb.va, p.rb.key, 100)
        first = p.a.post(op, doorbell=False, **(good | wrong))
        second = p.a.post(host.WRITE, **good)
        cqe = await bench.poll(p.a.scq)
        assert (cqe.index, cqe.status) == (first, status), f"{op} {wrong}"
        cqe = await bench.poll(p.a.scq)
        assert (cqe.index, cqe.status) == (second, host.FLUSHED)
        remote = status in (host.REM_ACCESS, host.REM_INVALID)
        if not remote:
            await p.b.set(state=host.ERROR)
            p.b.ring()
        cqe = await bench.poll(p.b.rcq)
        length_error = op == host.SEND and status == host.REM_INVALID
        expected = host.LOC_LEN if length_error else host.FLUSHED
        assert (cqe.index, cqe.status, cqe.is_recv) == (slot, expected, True)
        await bench.quiet()
        assert p.rb.read(0, p.rb.length) == before, "something was written"
    counters = await b.counters()
    found = [status for _, _, status in cases]
    assert counters["rx_access"] == found.count(host.REM_ACCESS)
    assert counters["rx_invalid"] == found.count(host.REM_INVALID)
    bad = found.count(host.LOC_LEN) + found.count(host.LOC_QP_OP)
    assert (await a.counters())["tx_bad_wqe"] == bad
    # Doorbells for the QP of another page.
    a.write(5 << 12, p.a.number << 32 | 50)
    assert (await a.counters())["doorbell_refused"] == 1


@cocotb.test()
async def receiver_not_ready(dut) -> None:
    """RNR: asked again until there is a buffer, and given up after as many times as allowed."""
    bench = await Bench(dut).start()
    p = await pair(bench, rnr_retry=2, min_rnr=1)
    where = dict(laddr=p.ra.va, lkey=p.ra.key, length=100)
    p.a.post(host.SEND, **where)
    b = bench.engines[1]
    await bench.until(lambda: bench.frames)
    await bench.steps(300)
    p.b.receive(p.rb.va, p.rb.key, 100)
    assert (await bench.poll(p.a.scq)).status == host.SUCCESS
    assert (await bench.poll(p.b.rcq)).status == host.SUCCESS
    assert p.rb.read(0, 100) == p.ra.read(0, 100)
    p.a.post(host.SEND, **where)
    assert (await bench.poll(p.a.scq)).status == host.RNR_RETRY
    assert (await b.counters())["rx_not_ready"] >= 4


async def cut_operation(bench: Bench, p: Pair, op: int, size: int, here: list[Region],
                        there: list[Region]) -> None:  # fmt: skip
    """Do an operation whose data lie in several segments, on the receive queue's side, too."""
    segments = Segments.draw(here, size, random.randrange(1, 6))
    to = Segments([(p.rb, random.randrange(1 << 15), size)])
    data = random.randbytes(size)
    (to if op == host.READ else segments).write(data)
    if op in (host.SEND, host.SEND_IMM):
        most = random.randrange(1, (1 << p.b.rq_segments) + 1)
        to = Segments.draw(there, size + random.randrange(3), most)
    before = [bytearray(region.read(0, region.length)) for region in there]
    left = data
    for region, at, part in to.parts:
        before[there.index(region)][at : at + len(left[:part])] = left[:part]
        left = left[part:]
    receives = op not in (host.WRITE, host.READ)
    slot = p.b.receive_list(*to.list()) if receives else 0
    p.a.post(op, segments=segments.list(), raddr=p.rb.va + to.parts[0][1], rkey=p.rb.key,
             copy=random.random() < 0.5)
    if receives:
        got = await bench.poll(p.b.rcq)
        assert (got.status, got.index) == (host.SUCCESS, slot)
        assert op == host.WRITE_IMM or got.bytes == size
    cqe = await bench.poll(p.a.scq)
    assert (cqe.status, cqe.op) == (host.SUCCESS, op)
    assert segments.read() == data, "a READ has brought something else, or its source is changed"
    assert before == [region.read(0, region.length) for region in there]


@cocotb.test()
async def several_segments(dut) -> None:
    """Each operation that has data, cut anywhere into up to five segments, with every MTU."""
    bench = await Bench(dut).start()
    for engine in bench.engines:
        engine.delay = (5, 60)
    operations = [host.SEND, host.SEND_IMM, host.WRITE, host.WRITE_IMM, host.READ]
    for rq_segments in (0, 1, 2):
        p = await pair(bench, rq_segments=rq_segments)
        more = [await e.region(1 << 16, ALL, offset=random.randrange(PAGE)) for e in bench.engines]
        for mtu in (1, 2, 3, 4, 5):
            for qp in (p.a, p.b):
                qp.settings |= dict(mtu=mtu)
            await bench.connect(p.a, p.b)
            for op in [*operations, random.choice(operations[:2])]:
                size = random.choice([0, 1, random.randrange(99), random.randrange(512 << mtu)])
                size = min(size, 1 << 13)
                await cut_operation(bench, p, op, size, [p.ra, more[0]], [p.rb, more[1]])
    for _, frame in bench.frames:
        roce.parse(frame)


@cocotb.test()
async def armed_too_late(dut) -> None:
    """An event for each completion that the host had not seen when it armed, whenever that was."""
    bench = await Bench(dut).start()
    p = await pair(bench)
    b, cq = bench.engines[1], p.b.rcq

    def arm(known: int) -> None:
        b.write(0x10, cq.number << 32 | 1 << 63 | known << 16 | cq.seen & 0xFFFF)

    for wait in range(0, 140, 3):
        before = len(b.events)
        p.b.receive(p.rb.va, p.rb.key, 8)
        p.a.post(host.SEND, inline=bytes(8), copy=True)
        known = cq.seen
        await bench.steps(wait)
        arm(known)
        assert (await bench.poll(cq)).status == host.SUCCESS
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        await bench.quiet()
        assert b.events[before:] == [cq.number]
        # One that it knows of is none, until there is another.
        p.b.receive(p.rb.va, p.rb.key, 8)
        p.a.post(host.SEND, inline=bytes(8))
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        await bench.quiet()
        arm(cq.seen + 1)
        await bench.steps(20)
        assert len(b.events) == before + 1
        p.b.receive(p.rb.va, p.rb.key, 8)
        p.a.post(host.SEND, inline=bytes(8))
        for _ in range(2):
            assert (await bench.poll(cq)).status == host.SUCCESS
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        await bench.quiet()
        assert b.events[before:] == [cq.number] * 2


@cocotb.test()
async def a_full_completion_queue_is_told_of_once(dut) -> None:
    """What finds no room is lost and the host is told; setting the queue anew ends it."""
    bench = await Bench(dut).start()
    a, b = bench.engines
    small, other = await a.cq(log2=2), await a.cq()
    p = [await a.qp(small, small), await a.qp(other, other)]
    region = await b.region(4096, ALL)
    for qp in p:
        cq = await b.cq()
        await bench.connect(qp, await b.qp(cq, cq))

    def write(qp: host.Qp) -> None:
        qp.post(host.WRITE, inline=bytes(8), raddr=region.va, rkey=region.key)

    for _ in range(4):
        write(p[0])
    await bench.steps(3000)
    assert a.alarms == 0 and await a.read(host.OVERFLOW) == 0
    for _ in range(2):
        write(p[0])
        await bench.steps(3000)
        assert a.alarms == 1 and await a.read(host.OVERFLOW) == 1 << small.number
    assert (await a.counters())["cq_overflow"] == 2
    # The other queue goes on.
    for _ in range(6):
        write(p[1])
        assert (await bench.poll(other)).status == host.SUCCESS
    await a.command(host.SET_CQ, small.number, small.base, small.log2)
    assert await a.read(host.OVERFLOW) == 0


@cocotb.test()
async def silence_ends_a_queue_pair(dut) -> None:
    """A peer that says nothing: retried as often as allowed, then the status, then flushed."""
    bench = await Bench(dut).start()
    p = await pair(bench, timeout=1, retry=2)
    bench.channel = lambda sender, frame: []
    for _ in range(3):
        p.a.post(host.WRITE, laddr=p.ra.va, lkey=p.ra.key, length=10, raddr=p.rb.va, rkey=p.rb.key)
    found = [(await bench.poll(p.a.scq)).status for _ in range(3)]
    assert found == [host.RETRY, host.FLUSHED, host.FLUSHED]
    counters = await bench.engines[0].counters()
    assert counters["tx_timeout"] == 3 and counters["tx_rewind"] == 2
    await bench.quiet()


# Cycles, 64 bytes of payload, with a host that answers a DMA read after READ_CYCLES; docs/uzura.md
# says what is in them.
READ_CYCLES = 20
# Bytes of what is measured.
SIZE = 64
@cocotb.test()
async def ready_to_send_later(dut) -> None:
    """A QP that is ready to receive gets its first PSN to send when it becomes ready to send.

    So verbs have it. What it has received by then, and what it expects, stays.
    """
    bench = await Bench(dut).start()
    p = await pair(bench)
    a, b = p.a, p.b
    a.psn, b.psn = random.getrandbits(24), random.getrandbits(24)
    a.peer_psn, b.peer_psn = 0, a.psn
    to_a = dict(dqpn=a.number, ip=a.engine.ip, mac=a.engine.mac)
    to_b = dict(dqpn=b.number, ip=b.engine.ip, mac=b.engine.mac)
    b_psn, b.psn = b.psn, 0
    await b.set(begin=True, state=host.RTR, **to_a)
    a.peer_psn = b_psn
    await a.set(begin=True, state=host.RTS, **to_b)
    size = 3000
    for turn in range(3):
        data = p.ra.read(0, size)
        b.receive(p.rb.va, p.rb.key, size)
        a.post(host.SEND, laddr=p.ra.va, lkey=p.ra.key, length=size)
        assert (await bench.poll(b.rcq)).status == host.SUCCESS
        assert p.rb.read(0, size) == data
        assert (await bench.poll(a.scq)).status == host.SUCCESS
        if turn == 0:
            b.psn = b_psn
            await b.resume(state=host.RTS)
        if turn:
            a.receive(p.ra.va, p.ra.key, size)
            b.post(host.SEND, laddr=p.rb.va + turn, lkey=p.rb.key, length=size)
            assert (await bench.poll(a.rcq)).status == host.SUCCESS
            assert p.ra.read(0, size) == p.rb.read(turn, size)
            assert (await bench.poll(b.scq)).status == host.SUCCESS
    for engine in bench.engines:
        counts = await engine.counters()
        assert not counts["rx_sequence"] and not counts["rx_duplicate"] and not counts["tx_rewind"]


LATENCY = {
    "send by DMA: doorbell to first beat": 52,
    "send by DMA: doorbell to last beat": 83,
    "send in the doorbell: doorbell to first beat": 32,
    "send in the doorbell: doorbell to last beat": 47,
    "write: first beat in to DMA write": 48,
    "write: first beat in to acknowledgment's first beat": 70,
    "send: first beat in to DMA write": 61,
    "send: first beat in to completion": 78,
    "acknowledgment: first beat in to completion": 24,
    "send by DMA, 5 segments: doorbell to first beat": 127,
    "send by DMA, 5 segments: doorbell to last beat": 160,
    "send in the doorbell, 5 segments: doorbell to first beat": 86,
    "send in the doorbell, 5 segments: doorbell to last beat": 119,
    "send: first beat in to completion, 4 segments": 135,
}


@cocotb.test()
async def latencies(dut) -> None:
    """The latencies of the document, in cycles, are those of the engine."""
    bench = await Bench(dut).start()
    a, b = bench.engines
    a.delay = b.delay = (READ_CYCLES, READ_CYCLES)
    # In one page: bytes of two are read by two requests, which can take a cycle more.
    p = await pair(bench, offsets=PAGE - SIZE + 1)
    found = {}

    async def one(op: int, **f) -> None:
        """Do one operation, with all that is needed on the card."""
        for _ in range(2):
            await bench.quiet()
            part = SIZE >> p.b.rq_segments
            p.b.receive_list(*[(p.rb.va + part * i, p.rb.key, part)
                               for i in range(1 << p.b.rq_segments)])  # fmt: skip
            await bench.quiet()
            a.marks.clear()
            b.marks.clear()
            p.a.post(op, raddr=p.rb.va, rkey=p.rb.key, **f)
            assert (await bench.poll(p.a.scq)).status == host.SUCCESS
            await bench.quiet()

    async def send(name: str, **f) -> None:
        await one(host.SEND, **f)
        bell = max(m for m in a.marks["doorbell"] if m < a.marks["tx_first"][0])
        found[f"send {name}: doorbell to first beat"] = a.marks["tx_first"][0] - bell
        found[f"send {name}: doorbell to last beat"] = a.marks["tx_last"][0] - bell

    data = dict(laddr=p.ra.va, lkey=p.ra.key, length=SIZE)
    await send("by DMA", **data)
    data_in, completion = b.marks["write"]
    begin = b.marks["rx_first"][0]
    found["send: first beat in to DMA write"] = data_in - begin
    found["send: first beat in to completion"] = completion - begin
    found["acknowledgment: first beat in to completion"] = (
        a.marks["write"][0] - a.marks["rx_first"][0]
    )
    await send("in the doorbell", inline=bytes(SIZE), copy=True)
    await one(host.WRITE, **data)
    begin = b.marks["rx_first"][0]
    found["write: first beat in to DMA write"] = b.marks["write"][0] - begin
    found["write: first beat in to acknowledgment's first beat"] = b.marks["tx_first"][0] - begin
    # Both sides in as many segments as there may be.
    p = await pair(bench, offsets=PAGE - SIZE + 1, rq_segments=2)
    segments = [(p.ra.va + 13 * i, p.ra.key, min(13, SIZE - 13 * i)) for i in range(5)]
    await send("by DMA, 5 segments", segments=segments)
    begin = b.marks["rx_first"][0]
    found["send: first beat in to completion, 4 segments"] = b.marks["write"][-1] - begin
    await send("in the doorbell, 5 segments", segments=segments, copy=True)
    for name, cycles in found.items():
        dut._log.info("cycles: %3d  %s", cycles, name)
    assert found == LATENCY


def test_uzura() -> None:
    """Operations and latencies."""
    build_and_run(
        "uzura_pair", __name__, filelists=["rtl/uzura/uzura.f"],
        sources=["verif/uzura/uzura_pair.sv"],
    )  # fmt: skip
