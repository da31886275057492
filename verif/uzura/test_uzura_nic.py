# SPDX-License-Identifier: Apache-2.0
"""Two UZURA NICs with a cable: from a store of the CPU to the other host's memory."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import cocotb
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

import nic_host
import roce
import uzura_host as host
from cocotb.triggers import Timer
from nic_host import NicBench
from test_uzura import pair

ALL = host.LOCAL_WRITE | host.REMOTE_WRITE | host.REMOTE_READ | host.REMOTE_ATOMIC
QUIET = {"doorbell_refused", "register_refused", "dma_read_timeout", "dma_read_failed"}
QUIET |= {n for n in nic_host.COUNTERS if n.startswith("tlp_") and "register" not in n}
QUIET -= {"tlp_completion"}


def read_all(bench: NicBench) -> None:
    """Every frame is RoCEv2 to Scapy; behind the datagram is padding at most."""
    for _, frame in bench.frames:
        length = 14 + int.from_bytes(frame[16:18], "big")
        assert length >= 60 or frame[length:] == bytes(60 - length)
        roce.parse(frame[:length])


async def nothing_lost(bench: NicBench) -> None:
    """No TLP, frame or doorbell was refused."""
    for engine in bench.engines:
        counts = await engine.nic_counters()
        assert not {n: counts[n] for n in QUIET if counts[n]}, counts
        counts = await engine.counters()
        lost = {n for n, v in counts.items() if v and n.startswith(("rx_", "doorbell_", "read_"))}
        assert lost <= {"rx_packet"}, counts


@cocotb.test()
async def operations(dut) -> None:
    """SEND, WRITE, READ and atomics of many lengths and alignments; every frame is Scapy's."""
    bench = await NicBench(dut).start(pause=random.choice((0.0, 0.3)))
    p = await pair(bench)
    for size in (0, 1, 8, 63, 64, 129, 1024, 1025, 4096, 9000):
        src, dst = random.randrange(1 << 14), random.randrange(1 << 14)
        data = p.ra.read(src, size)
        slot = p.b.receive(p.rb.va + dst, p.rb.key, size)
        p.a.post(host.SEND, laddr=p.ra.va + src, lkey=p.ra.key, length=size)
        got = await bench.poll(p.b.rcq)
        assert (got.status, got.is_recv, got.index, got.bytes) == (0, True, slot, size)
        assert p.rb.read(dst, size) == data
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS

        src, dst = random.randrange(1 << 14), random.randrange(1 << 14)
        expected = bytearray(p.rb.read(0, p.rb.length))
        expected[dst : dst + size] = p.ra.read(src, size)
        p.a.post(
            host.WRITE,
            laddr=p.ra.va + src,
            lkey=p.ra.key,
            length=size,
            raddr=p.rb.va + dst,
            rkey=p.rb.key,
        )
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        assert p.rb.read(0, p.rb.length) == expected

        src, dst = random.randrange(1 << 14), random.randrange(1 << 14)
        data = p.rb.read(src, size)
        p.a.post(
            host.READ,
            laddr=p.ra.va + dst,
            lkey=p.ra.key,
            length=size,
            raddr=p.rb.va + src,
            rkey=p.rb.key,
        )
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        assert p.ra.read(dst, size) == data
    at = -p.rb.va % 8
    old = int.from_bytes(p.rb.read(at, 8), "little")
    p.a.post(
        host.FADD,
        laddr=p.ra.va + 5,
        lkey=p.ra.key,
        length=8,
        raddr=p.rb.va + at,
        rkey=p.rb.key,
        swap=3,
    )
    assert (await bench.poll(p.a.scq)).status == host.SUCCESS
    assert int.from_bytes(p.rb.read(at, 8), "little") == (old + 3) % 2**64
    read_all(bench)
    await bench.quiet()
    await nothing_lost(bench)


@cocotb.test()
async def to_itself(dut) -> None:
    """Queue pairs of one engine, and one with itself, beside another engine at full rate."""
    bench = await NicBench(dut).start()
    a, b = bench.engines
    cross = await pair(bench)
    own = [await a.qp(cq, cq) for cq in [await a.cq(), await a.cq(), await a.cq()]]
    await bench.connect(own[0], own[1])
    await bench.connect(own[2], own[2])
    source = await a.region(1 << 14, ALL, offset=random.randrange(4096))
    target = await a.region(1 << 14, ALL, offset=random.randrange(4096))
    source.write(0, random.randbytes(1 << 14))
    size = 1 << 14
    for qp, here, there in ((cross.a, cross.ra, cross.rb), (cross.b, cross.rb, cross.ra)):
        for _ in range(4):
            qp.post(host.WRITE, laddr=here.va, lkey=here.key, length=size,
                    raddr=there.va + size, rkey=there.key)  # fmt: skip
    for qp, back in ((own[0], own[1]), (own[1], own[0]), (own[2], own[2])):
        for size in (0, 5, 1024, 1500, 5000):
            src, dst = random.randrange(1 << 13), random.randrange(1 << 13)
            expected = bytearray(target.read(0, target.length))
            expected[dst : dst + size] = source.read(src, size)
            back.receive(target.va + dst, target.key, size)
            qp.post(host.SEND, laddr=source.va + src, lkey=source.key, length=size)
            got = [await bench.poll(qp.scq)]
            got.append(await bench.poll(back.rcq))
            assert [cqe.status for cqe in got] == [0, 0]
            assert sorted(cqe.is_recv for cqe in got) == [False, True]
            assert target.read(0, target.length) == expected
            src, dst = random.randrange(1 << 13), random.randrange(1 << 13)
            expected[dst : dst + size] = source.read(src, size)
            qp.post(host.READ, laddr=target.va + dst, lkey=target.key, length=size,
                    raddr=source.va + src, rkey=source.key)  # fmt: skip
            assert (await bench.poll(qp.scq)).status == host.SUCCESS
            assert target.read(0, target.length) == expected
    for qp in (cross.a, cross.b):
        for _ in range(4):
            assert (await bench.poll(qp.scq)).status == host.SUCCESS
    for _, frame in bench.frames:
        assert frame[:6] != frame[6:12], "a frame for its sender is on the wire"
    read_all(bench)
    await bench.quiet()
    await nothing_lost(bench)


@cocotb.test()
async def doorbell_with_data(dut) -> None:
    """The entry and its data by two stores of 64 bytes: no DMA read; frames that the MAC pads."""
    bench = await NicBench(dut).start()
    p = await pair(bench)
    for size in (0, 1, 2, 5, 64):
        data = random.randbytes(size)
        dst = random.randrange(1 << 14)
        before = (await bench.engines[0].nic_counters())["dma_read"]
        p.b.receive(p.rb.va + dst, p.rb.key, 64)
        entry = p.a.wqe(host.SEND, inline=data)
        at = p.a.sq + 128 * (p.a.sent & ((1 << p.a.log2) - 1))
        bench.engines[0].memory[at : at + 128] = entry
        p.a.sent += 1
        for half in (0, 64):
            bench.engines[0].store(p.a.page << 12 | 0x800 | half, entry[half : half + 64])
        p.a.ring(copy=True)
        got = await bench.poll(p.b.rcq)
        assert (got.status, got.bytes) == (0, size)
        assert p.rb.read(dst, size) == data
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        assert (await bench.engines[0].nic_counters())["dma_read"] == before
    read_all(bench)
    await bench.quiet()
    await nothing_lost(bench)


@cocotb.test()
async def interrupts(dut) -> None:
    """An armed queue interrupts once, behind the completion that it tells of."""
    bench = await NicBench(dut).start()
    p = await pair(bench)
    b = bench.engines[1]
    for expected in range(1, 4):
        b.write(0x10, p.b.rcq.number << 32 | (p.b.rcq.seen & 0xFFFF) * 0x10001 | 1 << 63)
        await b.read(host.CONTROL)
        assert len(b.host.interrupts) == expected - 1
        for _ in range(2):
            p.b.receive(p.rb.va, p.rb.key, 64)
            p.a.post(host.SEND, laddr=p.ra.va, lkey=p.ra.key, length=64)
        while len(b.host.interrupts) < expected:
            await Timer(100, "ns")
        assert p.b.rcq.poll(), "the interrupt came before the completion"
        await bench.poll(p.b.rcq)
        await Timer(2, "us")
        assert len(b.host.interrupts) == expected
    assert not bench.engines[0].host.interrupts


@cocotb.test()
async def refusals(dut) -> None:
    """What is no doorbell and no register changes nothing, and is answered where it must be."""
    bench = await NicBench(dut).start()
    p = await pair(bench)
    a = bench.engines[0]
    before = await a.nic_counters()
    status, _ = await a.read_raw(0x10, 1, nic_host.BAR_DOORBELLS)
    assert status == 1, "a doorbell page was read"
    status, data = await a.read_raw(0x1FFC, 1)
    assert status == 0 and data == bytes(4)
    # Half a doorbell, and the upper half of a register.
    header = bytes([0x40, 0, 0, 1, 0, 0, 0, 0x0F])
    page = p.a.page << 12
    a.host.source.put(header + struct.pack(">I", page) + b"\1\0\0\0", nic_host.BAR_DOORBELLS)
    a.host.source.put(header + struct.pack(">I", 0x0C) + b"\1\2\3\4", 0)
    assert await a.read(host.CONTROL + 0x08) == a.mac
    after = await a.nic_counters()
    assert after["doorbell_refused"] - before["doorbell_refused"] == 1
    assert after["register_refused"] - before["register_refused"] == 2
    # A doorbell for somebody else's queue pair.
    a.write((p.a.page ^ 1) << 12, 1 | p.a.number << 32)
    assert await a.read(host.CONTROL) == 0x4152555A00000001
    assert (await a.counters())["doorbell_refused"] == 1
    await bench.quiet()
    assert not bench.frames


@cocotb.test()
async def failed_reads(dut) -> None:
    """A DMA read without an answer, or with an error, ends; the frame is spoiled and sent again."""
    bench = await NicBench(dut).start()
    p = await pair(bench, timeout=3)
    a = bench.engines[0]
    await a.host.write(nic_host.TIMEOUT_US, 20)
    start = {p.ra.pieces(p.ra.va, 1)[0][0]}
    for answer, name in ((1, "dma_read_failed"), (None, "dma_read_timeout")):
        left = [1]

        def once(address: int, length: int, answer=answer, left=left) -> int | None:
            if address in start and left:
                left.pop()
                return answer
            return 0

        a.host.answer = once
        p.a.post(host.WRITE, laddr=p.ra.va, lkey=p.ra.key, length=64, raddr=p.rb.va, rkey=p.rb.key)
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        assert p.rb.read(0, 64) == p.ra.read(0, 64)
        assert (await a.nic_counters())[name] == 1


SIZE = 64
BEAT_PS = 4000
# Nanoseconds, least and most, as docs/uzura.md has them: clocks in any phase, a host that answers
# at once.
LATENCY = {
    "doorbell with its data: in to frame": (396, 408),
    "doorbell, all by DMA: in to frame": (512, 532),
    "frame's end in to data written": (372, 384),
    "frame's end in to completion written": (427, 438),
}


@cocotb.test()
async def latencies(dut) -> None:
    """From TLP to frame and from frame to TLP."""
    bench = await NicBench(dut).start(delay_ns=(0, 0), pieces=False)
    p = await pair(bench, offsets=1)
    a, b = (engine.host for engine in bench.engines)
    found: dict[str, list[float]] = {name: [] for name in LATENCY}
    for turn in range(12):
        copied = turn % 2 == 0
        name = list(LATENCY)[0 if copied else 1]
        p.b.receive(p.rb.va, p.rb.key, SIZE)
        await bench.quiet()
        await Timer(random.randrange(20_000), "ps")
        frames, tlps, writes = len(bench.passed), len(a.source.log), len(b.writes)
        if copied:
            data = random.randbytes(SIZE)
            entry = p.a.wqe(host.SEND, inline=data)
            at = p.a.sq + 128 * (p.a.sent & ((1 << p.a.log2) - 1))
            bench.engines[0].memory[at : at + 128] = entry
            p.a.sent += 1
            for half in (0, 64):
                bench.engines[0].store(p.a.page << 12 | 0x800 | half, entry[half : half + 64])
            p.a.ring(copy=True)
        else:
            p.a.post(host.SEND, laddr=p.ra.va, lkey=p.ra.key, length=SIZE)
        assert (await bench.poll(p.b.rcq)).status == host.SUCCESS
        assert (await bench.poll(p.a.scq)).status == host.SUCCESS
        await bench.quiet()
        # The doorbell's TLP has three beats; it is the last write before the frame.
        out, into = bench.passed[frames]
        doorbell = max(ps for ps, kind in a.source.log[tlps:] if kind == 0x40 and ps < out)
        found[name].append((out - doorbell - 3 * BEAT_PS) / 1000)
        data_ps, completion_ps = (ps for _, _, ps in b.writes[writes : writes + 2])
        found["frame's end in to data written"].append((data_ps - into) / 1000)
        found["frame's end in to completion written"].append((completion_ps - into) / 1000)
    # The first of each has its pages translated by DMA.
    spans = {name: (min(times[2:]), max(times[2:])) for name, times in found.items()}
    for name, (low, high) in LATENCY.items():
        assert low <= spans[name][0] and spans[name][1] <= high, spans


def test_uzura_nic() -> None:
    """Run the tests above."""
    build_and_run(
        "two_uzura_nics",
        __name__,
        sources=[
            "verif/uzura/two_uzura_nics.sv",
            "verif/pcie/tlp_rules.sv",
            "verif/pcie/tlp_rules_uzura.sv",
        ],
        filelists=["rtl/uzura/uzura_nic.f"],
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
