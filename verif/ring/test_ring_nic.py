# SPDX-License-Identifier: Apache-2.0
"""The conventional NIC, 10G and 1G.

The host is written from docs/ring-nic.md, the PHY side is cocotbext-eth's, frames are Scapy's.
"""

from __future__ import annotations

import random
import struct

import cocotb
import pytest
from cocotb.triggers import (
    ClockCycles,
    ReadOnly,
    RisingEdge,
    SimTimeoutError,
    Timer,
    with_timeout,
)
from cocotb.utils import get_sim_time
from harness import build_and_run
from ring_host import (
    BUS,
    CA,
    CONTROL,
    FEATURES,
    FILTER,
    HEAD,
    ID,
    IRQ_ARMED,
    IRQ_CAUSE,
    LOG2,
    MAC,
    MAC_HI,
    MAC_LO,
    MSI_ADDRESS_HI,
    MSI_AT,
    MSI_DATA,
    MSI_MODERATION_US,
    PEER,
    READ_TIMEOUT_US,
    RX,
    RX_ARM,
    SC,
    STATUS,
    TAIL,
    TX,
    TX_ARM,
    UR,
    VERSION,
    Driver,
    Host,
    difference,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw


def packet(length: int, to: bytes = PEER, sender: bytes = MAC) -> bytes:
    """Make an Ethernet frame of this length (without FCS) with a UDP datagram in it."""
    head = Ether(dst=to.hex(":"), src=sender.hex(":"))
    if length < 42:
        return (bytes(head / Raw(b"")) + random.randbytes(length))[:length]
    body = random.randbytes(length - 42)
    return bytes(head / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=7, dport=7) / Raw(body))


def incoming(length: int) -> bytes:
    """Make a frame for the NIC."""
    return packet(length, MAC, PEER)


def padded(frame: bytes) -> bytes:
    """Return the frame as it is on the wire, without FCS."""
    return frame + bytes(60 - len(frame)) if len(frame) < 60 else frame


def lengths(count: int) -> list[int]:
    """Choose lengths of frames: the limits, and any others."""
    return [60, 1514, *(random.choice((random.randint(60, 1514), 60, 64)) for _ in range(count))]


@cocotb.test()
async def registers_read_back(dut) -> None:
    """Every register gives back what was written; the rest is refused and counted."""
    h = await Host(dut).start()
    assert await h.read(ID) == int.from_bytes(b"RING", "big")
    assert await h.read(VERSION) == 0x10000
    assert await h.read(FEATURES) == 1514 << 16 | 16
    assert await h.read(READ_TIMEOUT_US) == 1000
    assert await h.read(BUS) == 0x20
    before = await h.counters()
    masks = {
        MAC_LO: 0xFFFFFFFF,
        MAC_HI: 0xFFFF,
        FILTER: 1,
        CONTROL: 3,
        TX: 0xFFFFFF80,
        TX + 4: 0xFFFFFFFF,
        RX: 0xFFFFFF80,
        RX + 4: 0xFFFFFFFF,
        MSI_ADDRESS_HI - 4: 0xFFFFFFFC,
        MSI_ADDRESS_HI: 0xFFFFFFFF,
        MSI_DATA: 0xFFFFFFFF,
        MSI_MODERATION_US: 0xFFFF,
        READ_TIMEOUT_US: 0xFFFFFFFF,
    }
    values = {r: random.getrandbits(32) for r in masks}
    for register, value in values.items():
        await h.write(register, value)
    for register, value in values.items():
        assert await h.read(register) == value & masks[register], hex(register)
    for code, meant in ((0x00, 0x00), (0x21, 0x21), (0x12, 0x11), (0x30, 0x20)):
        await h.write(BUS, code)
        assert await h.read(BUS) == meant
    assert await h.changed(before) == {}
    refused = 0
    for offset in (ID, STATUS, TX + HEAD, RX + HEAD, IRQ_CAUSE, 0x34, 0x1000, 0x2000, 0x700000):
        await h.write(offset, 1)
        refused += 1
    for offset in (0x34, 0x88, 0x1000 + 4 * 22, 0x2000 + 4 * 11, 0x400000):
        assert await h.read(offset) == 0
        refused += 1
    await h.write(MSI_DATA, 0, enables=7)
    assert await h.read(MSI_DATA) == values[MSI_DATA]
    assert await h.changed(before) == {"register_refused": refused + 1}
    status, data = await h.read_raw(0, bar=2)
    assert (status, data) == (UR, b"")
    assert await h.changed(before) == {"register_refused": refused + 1, "tlp_unsupported": 1}


@cocotb.test()
async def one_packet_costs_what_the_figure_says(dut) -> None:
    """Figure 3.5: one CPU read, one CPU write, two DMA reads; more only for long packets."""
    h = await Host(dut).start()
    d = await Driver(h).start()
    for length, offset, reads in (
        (60, 0, 1),
        (64, 2, 1),
        (512, 0, 1),
        (513, 0, 2),
        (512, 4, 2),
        (1514, 0, 3),
        (1514, 62, 4),
    ):
        h.cpu_reads = h.cpu_writes = 0
        h.reads.clear()
        h.writes.clear()
        frame = packet(length)
        h._next += -h._next % 512
        await d.send(frame, offset=offset)
        assert await h.from_nic() == frame
        await h.settle()
        assert (h.cpu_reads, h.cpu_writes) == (1, 1)
        assert len(h.reads) == 1 + reads, (length, offset, h.reads)
        assert h.reads[0][:2] == (d.tx_base + 16 * (d.tx_tail - 1), 16)
        assert sum(n for _, n, _ in h.reads[1:]) == length
        assert h.writes == [], "nothing was asked to be written"
        assert await h.read(TX + HEAD) == d.tx_tail
    # The NIC's counters say the same.
    assert await h.changed({}) == {
        "tx_descriptor_read": 7,
        "tx_packet_read": 1 + 1 + 1 + 2 + 2 + 3 + 4,
        "tx_packet": 7,
        "tx_frame": 7,
    }


@cocotb.test()
async def a_report_is_written_when_asked_for(dut) -> None:
    """DW 3 of a descriptor that asks for it, and of no other, is written behind its packet."""
    h = await Host(dut).start()
    d = await Driver(h, log2=4).start()
    for i in range(40):
        report = random.random() < 0.5
        entry = d.tx_base + 16 * d.tx_tail
        frame = packet(random.randint(14, 100))
        await d.send(frame, report=report)
        assert await h.from_nic() == padded(frame)
        await h.settle()
        (status,) = struct.unpack("<I", h.memory.read(entry + 12, 4))
        assert status == (0x80000000 if report else 0), i
        assert len(h.writes) == report
        h.writes.clear()
        assert await h.read(TX + HEAD) == d.tx_tail


@cocotb.test()
@cocotb.parametrize(bus=[0x20, 0x21])
async def packets_arrive_in_memory(dut, bus: int) -> None:
    """Every length lands as it was, then its descriptor, then the interrupt, and nothing else."""
    h = await Host(dut).start()
    d = await Driver(h).start(bus=bus)
    await d.fill(60)
    await h.settle()
    await h.write(RX_ARM, 0)
    before = await h.counters()
    sent = [incoming(n) for n in (*range(60, 76), *lengths(8))]
    pieces = 0
    for i, frame in enumerate(sent):
        h.writes.clear()
        await h.to_nic(frame)
        assert await d.receive() == frame
        await h.settle()
        assert len(h.interrupts) == i + 1
        *body, back, interrupt = h.writes
        assert b"".join(data for _, data, _ in body) == frame
        assert back[0] == d.rx_base + 16 * i + 12
        assert interrupt[0] == MSI_AT
        pieces += len(body)
        most = h.max_payload
        begin = body[0][0]
        assert len(body) == (begin + len(frame) - 1) // most - begin // most + 1
        await h.write(RX_ARM, d.rx_next)
    await h.settle()
    assert len(h.interrupts) == len(sent), "an interrupt for what was seen"
    assert await h.read(RX + HEAD) == len(sent)
    assert await h.changed(before) == {
        # Read ahead: a block of eight when eight have been used.
        "rx_descriptor_read": len(sent) // 8,
        "rx_packet": len(sent),
        "rx_packet_write": pieces,
        "msi": len(sent),
        "rx_frames": len(sent),
        "rx_good": len(sent),
    }


@cocotb.test()
@cocotb.parametrize((("log2", "bus"), [(4, 0x00), (5, 0x21)]))
async def random_traffic_both_ways(dut, log2: int, bus: int) -> None:
    """Back-pressure, late completions in pieces and out of order, rings that wrap: all arrives."""
    count = 30 if hasattr(dut, "gmii_txd_o") else 60
    h = await Host(dut).start(pause=random.choice((0, 0.3)), gap=random.choice((0, 0.2)))
    h.delay_ns, h.pieces = (100, 1200), True
    d = await Driver(h, log2).start(bus=bus)
    out = [packet(n) for n in lengths(count)]
    into = [incoming(n) for n in lengths(count)]

    async def sender(d=d, out=out, h=h) -> None:
        at = 0
        while at < len(out):
            room = await d.room()
            several = min(room, random.choice((1, 1, 2, 5, 16)), len(out) - at)
            for frame in out[at : at + several]:
                d.place(frame, report=random.random() < 0.1)
            if several:
                await h.write(TX + TAIL, d.tx_tail)
            at += several
            await Timer(random.randrange(1, 400), "ns")

    async def far_end(h=h, out=out) -> None:
        for frame in out:
            assert await h.from_nic() == padded(frame)

    async def receiver(d=d, into=into, h=h) -> None:
        # The far end sends only what has a buffer, so that every frame must arrive.
        given = sent = got = 0
        while got < len(into):
            room = d.size - 1 - (given - got)
            if room and given < len(into) and random.random() < 0.5:
                several = min(room, len(into) - given)
                await d.fill(several)
                given += several
                await Timer(1500, "ns")
            while sent < given and random.random() < 0.8:
                await h.to_nic(into[sent])
                sent += 1
            frame = d.arrived()
            if frame is not None:
                assert frame == into[got], got
                got += 1
            else:
                await Timer(random.randrange(1, 300), "ns")

    tasks = {t.__name__: cocotb.start_soon(t()) for t in (sender, far_end, receiver)}
    for name, task in tasks.items():
        try:
            await with_timeout(task, 500, "us")
        except SimTimeoutError:
            raise AssertionError(f"{name} waits in vain: {await h.counters()}") from None
    await h.settle()
    assert h.wire_out.empty()
    counters = await h.counters()
    assert counters["tx_frame"] == len(out)
    assert counters["rx_packet"] == len(into)
    assert counters["rx_good"] == len(into)
    assert await h.read(TX + HEAD) == d.tx_tail
    assert await h.read(RX + HEAD) == d.rx_next


@cocotb.test()
async def frames_that_are_dropped_are_counted(dut) -> None:
    """No descriptor, receiving off, buffer too short, bad FCS, giants, other destinations."""
    h = await Host(dut).start()
    d = await Driver(h).start()
    before = await h.counters()

    async def expect(good: bool, frame: bytes, spoil: bool = False, **delta: int) -> None:
        nonlocal before
        await h.to_nic(frame, spoil)
        await Timer(100, "ns")
        await h.settle()
        got = d.arrived()
        assert got == (frame if good else None)
        if good:
            delta |= {"rx_packet": 1, "rx_good": 1}
        else:
            assert h.writes == []
        after = await h.counters()
        changed = difference(before, after)
        changed.pop("rx_packet_write", None)
        changed.pop("rx_descriptor_read", None)
        assert changed == {"rx_frames": 1, **delta}
        h.writes.clear()
        before = after

    await expect(False, incoming(100), rx_good=1, rx_no_descriptor=1)
    await d.fill(1, length=100)
    await expect(False, incoming(101), rx_good=1, rx_too_long=1)
    await expect(True, incoming(100))
    await expect(False, incoming(60), rx_good=1, rx_no_descriptor=1)
    await d.fill(20)
    await expect(False, incoming(100), spoil=True, rx_bad_fcs=1)
    await expect(False, incoming(1515), rx_giant=1)
    await expect(True, incoming(1514))
    await expect(False, packet(70, PEER, PEER), rx_not_mine=1)
    await expect(True, packet(70, bytes.fromhex("ffffffffffff"), PEER))
    await expect(True, packet(70, bytes.fromhex("333300000001"), PEER))
    await h.write(FILTER, 1)
    assert await h.read(FILTER) == 1
    await expect(True, packet(70, PEER, PEER))
    await expect(False, packet(70, PEER, PEER), spoil=True, rx_bad_fcs=1)
    await h.write(CONTROL, 1)
    await expect(False, incoming(100), rx_good=1, rx_no_descriptor=1)
    await h.write(CONTROL, 3)
    await expect(True, incoming(100))


@cocotb.test()
async def a_full_buffer_drops_whole_frames(dut) -> None:
    """While the host takes no writes frames fill the buffer; what finds no room is lost whole."""
    h = await Host(dut).start()
    d = await Driver(h).start()
    await d.fill(60)
    await h.settle()
    h.sink.pause = 1.0
    # More than the buffer holds, whatever the order.
    sizes = random.sample([60] * 10 + [200] * 10 + [1514] * 24, 44)
    sent = [incoming(size) for size in sizes]
    for frame in sent:
        await h.to_nic(frame)
    await h.wire_in.wait()
    await Timer(2, "us")
    h.sink.pause = 0.0
    await h.settle()
    last = incoming(80)
    await h.to_nic(last)
    await Timer(100, "ns")
    await h.settle()
    got = []
    while (frame := d.arrived()) is not None:
        got.append(frame)
    assert got[-1] == last
    counters = await h.counters()
    assert counters["rx_overflow"] == len(sent) + 1 - len(got) > 0
    assert counters["rx_packet"] == len(got)
    rest = iter(sent)
    assert all(frame in rest for frame in got[:-1]), "in order, and whole"
    # The buffer holds 16 KB.
    words = sum(-(-len(frame) // 8) for frame in got[:-1])
    assert 2048 - 1518 // 8 - 2 < words <= 2048 + 2 * 190


@cocotb.test()
async def the_receive_buffer_goes_round(dut) -> None:
    """An empty buffer is not a full one, whichever round it is in."""
    h = await Host(dut).start()
    d = await Driver(h).start()
    await d.fill(60)
    rounds = 3
    for _ in range(rounds * 16384 // 1514 + 1):
        frame = incoming(random.randint(1400, 1514))
        await h.to_nic(frame)
        assert await d.receive() == frame


@cocotb.test()
async def packets_that_can_not_be_sent(dut) -> None:
    """Impossible lengths, reads that fail or get no answer: not sent, told, counted."""
    h = await Host(dut).start()
    d = await Driver(h, log2=4).start()
    await h.write(READ_TIMEOUT_US, 3)
    before = await h.counters()
    bad: set[int] = set()
    answers: dict[int, int | None] = {}
    h.answer = lambda address, length: next(
        (s for a, s in answers.items() if a <= address < a + 2048), SC
    )
    expected = {"tx_descriptor_bad": 0, "tx_packet_lost": 0, "dma_read_failed": 0}
    expected["dma_read_timeout"] = 0
    good = 0
    for i in range(24):
        entry = d.tx_base + 16 * d.tx_tail
        h.may_write.append((entry + 12, 4))
        kind = ("good", "short", "long", "ur", "ca", "silent")[i % 6]
        while not await d.room():
            await Timer(200, "ns")
        frame = packet(random.randint(60, 500))
        if kind in ("short", "long"):
            d.describe(0x1000, random.choice((0, 13) if kind == "short" else (1515, 65535)), True)
            expected["tx_descriptor_bad"] += 1
        else:
            at = d.place(frame, offset=0, report=True)
            at_all = at & ~2047
            h.may_read.append((at_all, 8192))
            if kind != "good":
                answers[at] = {"ur": UR, "ca": CA, "silent": None}[kind]
        n = len(h.reads)
        await h.write(TX + TAIL, d.tx_tail)
        if kind == "good":
            assert await h.from_nic() == frame
            good += 1
        await Timer(200, "ns")
        await h.settle()
        (status,) = struct.unpack("<I", h.memory.read(entry + 12, 4))
        assert status == (0x80000000 if kind == "good" else 0xC0000000), kind
        if kind in ("ur", "ca", "silent"):
            reads = len(h.reads) - n - 1
            expected["tx_packet_lost"] += 1
            expected["dma_read_timeout" if kind == "silent" else "dma_read_failed"] += reads
        answers.clear()
        bad.add(i)
    assert h.wire_out.empty()
    changed = await h.changed(before)
    assert {k: v for k, v in changed.items() if k in expected} == expected
    assert changed["tx_frame"] == changed["tx_packet"] == good
    assert await h.read(TX + HEAD) == d.tx_tail


@cocotb.test()
async def a_descriptor_that_can_not_be_read_stops_its_ring(dut) -> None:
    """STATUS says so; writing LOG2 begins anew. The other ring goes on."""
    h = await Host(dut).start()
    d = await Driver(h, log2=4).start()
    h.answer = lambda address, length: UR if address < d.tx_base + 256 else SC
    for ring, bit in ((TX, 3), (RX, 4)):
        base = d.tx_base if ring == TX else d.rx_base
        h.answer = lambda address, length, base=base: UR if base <= address < base + 256 else SC
        if ring == TX:
            await d.send(packet(60))
        else:
            await d.fill(3)
        await h.settle()
        assert await h.read(STATUS) == 7 | 1 << bit
        before = await h.counters()
        await h.to_nic(incoming(60))
        await Timer(100, "ns")
        await h.settle()
        assert (await h.changed(before)).get("rx_no_descriptor") == 1
        h.answer = lambda address, length: SC
        await h.write(ring + LOG2, 4)
        await h.settle()
        assert await h.read(STATUS) == 7
        assert await h.read(ring + TAIL) == 0
        if ring == TX:
            d.tx_tail = 0
            frame = packet(200)
            await d.send(frame)
            assert await h.from_nic() == frame
        else:
            d.rx_tail = 0
            await d.fill(3)
            await h.settle()
            frame = incoming(200)
            await h.to_nic(frame)
            assert await d.receive() == frame


@cocotb.test()
async def buffers_that_were_read_before_a_failure_are_used(dut) -> None:
    """A ring that stops for a descriptor that can't be read has those before it yet."""
    h = await Host(dut).start()
    d = await Driver(h, log2=4).start()
    await d.fill(3)
    await h.settle()
    h.answer = lambda address, length: UR if d.rx_base <= address < d.rx_base + 256 else SC
    await d.fill(1)
    await h.settle()
    assert await h.read(STATUS) == 7 | 1 << 4
    before = await h.counters()
    for _ in range(3):
        frame = incoming(random.randint(60, 500))
        await h.to_nic(frame)
        assert await d.receive() == frame
    await h.to_nic(incoming(60))
    await Timer(2, "us")
    await h.settle()
    changed = await h.changed(before)
    assert changed["rx_packet"] == 3
    assert changed["rx_no_descriptor"] == 1


@cocotb.test()
async def rings_stop_and_begin_anew(dut) -> None:
    """CONTROL stops a ring behind the packets that have begun; STATUS tells when."""
    h = await Host(dut).start()
    h.delay_ns = (300, 900)
    d = await Driver(h, log2=5).start()
    for _ in range(4):
        out = [packet(random.randint(60, 900)) for _ in range(25)]
        for frame in out:
            d.place(frame)
        await h.write(TX + TAIL, d.tx_tail)
        await d.fill(random.randrange(1, 31 - len(d.buffers)))
        into = incoming(random.randint(60, 900))
        await h.to_nic(into)
        await Timer(random.randrange(500, 6000), "ns")
        await h.write(CONTROL, 0)
        while await h.read(STATUS) & 6 != 6:
            await Timer(100, "ns")
        # Nothing moves any more.
        accesses = len(h.reads), len(h.writes)
        await h.settle()
        head = await h.read(TX + HEAD)
        seen = []
        while not h.wire_out.empty():
            seen.append(await h.from_nic())
        assert seen == out[: len(seen)]
        assert head == len(seen), "HEAD is where it stopped"
        assert (len(h.reads), len(h.writes)) == accesses
        for ring in (TX, RX):
            await h.write(ring + LOG2, 5)
            assert await h.read(ring + HEAD) == await h.read(ring + TAIL) == 0
        d.tx_tail = d.rx_tail = d.rx_next = 0
        d.buffers.clear()
        await h.write(CONTROL, 3)


@cocotb.test()
async def interrupts_are_moderated_and_never_lost(dut) -> None:
    """At most one in an interval; armed once, told once; nothing is missed between look and arm."""
    h = await Host(dut).start()
    d = await Driver(h).start(moderation_us=10)
    await d.fill(100)
    await h.settle()
    # Not armed: nothing.
    await h.to_nic(incoming(60))
    await d.receive()
    await h.settle()
    assert not h.interrupts
    assert await h.read(IRQ_CAUSE) & 1
    # Armed with what was not seen: at once.
    await h.write(RX_ARM, 0)
    await h.settle()
    assert len(h.interrupts) == 1
    assert await h.read(IRQ_ARMED) == 0
    # Armed with what was seen: not before the next frame, and not before the interval is over.
    await h.write(RX_ARM, 1)
    await Timer(2, "us")
    assert len(h.interrupts) == 1
    for _ in range(3):
        await h.to_nic(incoming(60))
    for _ in range(3):
        await d.receive()
    assert len(h.interrupts) == 1
    await h.settle()
    assert len(h.interrupts) == 2
    assert 9_000_000 <= h.interrupts[1] - h.interrupts[0] <= 11_100_000
    # A stream: each interrupt is answered by a look at the ring and an arm.
    count = 30
    got = 0

    async def nap() -> None:
        nonlocal got
        handled = 0
        while got < count:
            while len(h.interrupts) == handled:
                await Timer(50, "ns")
            handled += 1
            while d.arrived() is not None:
                got += 1
                await Timer(random.randrange(1, 80), "ns")
            await h.write(RX_ARM, d.rx_next)

    h.interrupts.clear()
    await h.write(RX_ARM, d.rx_next)
    task = cocotb.start_soon(nap())
    for _ in range(count):
        await h.to_nic(incoming(60))
        await Timer(random.randrange(1, 2500), "ns")
    await task
    await h.settle()
    spaces = [b - a for a, b in zip(h.interrupts, h.interrupts[1:], strict=False)]
    assert min(spaces, default=9_000_000) >= 9_000_000
    # The send ring's, and the link's.
    await h.write(MSI_MODERATION_US, 0)
    await h.write(IRQ_ARMED, 0)
    h.interrupts.clear()
    await d.send(packet(60))
    await h.settle()
    assert not h.interrupts
    await h.write(TX_ARM, 0)
    await h.settle()
    assert len(h.interrupts) == 1
    await h.write(TX_ARM, 1)
    await d.send(packet(60))
    await h.settle()
    assert len(h.interrupts) == 2
    await h.write(IRQ_ARMED, 4)
    await h.settle()
    assert len(h.interrupts) == 2
    dut.link_up_i.value = 0
    await ClockCycles(dut.clk_pcie_i, 20)
    await h.settle()
    assert len(h.interrupts) == 3
    assert not await h.read(STATUS) & 1


class Watch:
    """When beats move on the pins: cycles of clk_pcie_i on one side, picoseconds on both."""

    def __init__(self, dut) -> None:
        """Take the DUT and begin to watch."""
        self.dut = dut
        self.now = 0
        self.s_last = self.m_first = 0  # cycles
        self.s_last_ps = self.m_first_ps = self.out_ps = self.in_ps = 0
        cocotb.start_soon(self._tlp())
        cocotb.start_soon(self._wire())

    async def _tlp(self) -> None:
        dut = self.dut
        first = True
        while True:
            await ReadOnly()
            taken = int(dut.s_tlp_tvalid_i.value) and int(dut.s_tlp_tready_o.value)
            last = taken and int(dut.s_tlp_tlast_i.value)
            begins = int(dut.m_tlp_tvalid_o.value) and first
            if int(dut.m_tlp_tvalid_o.value):
                first = bool(int(dut.m_tlp_tlast_o.value))
            await RisingEdge(dut.clk_pcie_i)
            if last:
                self.s_last, self.s_last_ps = self.now, int(get_sim_time("ps"))
            if begins:
                self.m_first, self.m_first_ps = self.now, int(get_sim_time("ps"))
            self.now += 1

    async def _wire(self) -> None:
        """Note the edge that samples the last byte in, and the one behind which a frame begins."""
        dut = self.dut
        gigabit = hasattr(dut, "gmii_txd_o")
        sending = receiving = False
        while True:
            await RisingEdge(dut.clk_net_i)
            now = int(get_sim_time("ps"))
            await ReadOnly()
            if gigabit:
                out, there = bool(int(dut.gmii_tx_en_o.value)), bool(int(dut.gmii_rx_dv_i.value))
            else:
                out = int(dut.xgmii_txc_o.value) != 0xFF
                there = int(dut.xgmii_rxc_i.value) != 0xFF
            if out and not sending:
                self.out_ps = now
            if receiving and not there:
                # What was on the pins until now was sampled by this edge.
                self.in_ps = now
            sending, receiving = out, there


@cocotb.test()
async def latency_is_what_the_header_says(dut) -> None:
    """From a TLP's last beat, or a frame's, to the first of what it causes."""
    h = await Host(dut).start()
    d = await Driver(h).start()
    await d.fill(10)
    await h.settle()
    net_ps = 8000 if hasattr(dut, "gmii_txd_o") else 6400
    watch = Watch(dut)
    found = []
    for _ in range(8):
        frame = packet(random.randint(60, 250))
        # A read of one piece.
        d.place(frame, offset=0)
        h.delay_ns = (400, 400)
        n = len(h.reads)
        await h.write(TX + TAIL, d.tx_tail)
        while len(h.reads) == n:
            await RisingEdge(dut.clk_pcie_i)
        tail = watch.m_first - watch.s_last
        while len(h.reads) == n + 1:
            await RisingEdge(dut.clk_pcie_i)
        descriptor = watch.m_first - watch.s_last
        assert await h.from_nic() == frame
        wire = watch.out_ps - watch.s_last_ps
        await h.settle()
        await Timer(random.randrange(1, 20_000), "ps")
        frame = incoming(random.randint(60, 250))
        writes = len(h.writes)
        await h.to_nic(frame)
        while len(h.writes) == writes:
            await RisingEdge(dut.clk_pcie_i)
        memory = watch.m_first_ps - watch.in_ps
        assert await d.receive() == frame
        await h.settle()
        found.append((tail, descriptor, wire, memory))
    for tail, descriptor, wire, memory in found:
        assert tail == TAIL_TO_DESCRIPTOR
        assert descriptor == DESCRIPTOR_TO_PACKET
        low, high = PACKET_TO_START
        assert 4000 * low[0] + net_ps * low[1] < wire <= 4000 * high[0] + net_ps * high[1]
        low, high = FRAME_TO_WRITE
        assert net_ps * low[0] + 4000 * low[1] < memory <= net_ps * high[0] + 4000 * high[1]


# As in the header of ring_nic.sv: cycles of clk_pcie_i, or of both clocks, least and most.
TAIL_TO_DESCRIPTOR = 6
DESCRIPTOR_TO_PACKET = 5
PACKET_TO_START = ((3, 3), (3, 4))
FRAME_TO_WRITE = ((1, 3), (1, 4))


@cocotb.test()
async def short_frames_at_line_rate(dut) -> None:
    """Back-to-back frames of 64 bytes, both ways, with memory half a microsecond away."""
    gigabit = hasattr(dut, "gmii_txd_o")
    h = await Host(dut).start()
    h.delay_ns = (450, 450)
    d = await Driver(h, log2=8).start()
    count = 60 if gigabit else 200
    await d.fill(count)
    await h.settle()
    out = [packet(60) for _ in range(count)]
    for frame in out:
        d.place(frame, offset=0)
    await h.write(TX + TAIL, d.tx_tail)
    into = [incoming(60) for _ in range(count)]
    for frame in into:
        await h.to_nic(frame)
    times = []
    for frame in out:
        wired = await h.wire_out.recv()
        assert bytes(wired.get_payload()) == frame
        times.append(wired.sim_time_start)
    for frame in into:
        assert await d.receive() == frame
    await h.settle()
    counters = await h.counters()
    assert counters["rx_packet"] == count
    assert "rx_overflow" not in counters
    ideal = 672 if gigabit else 67.2
    each = (times[-1] - times[20]) / (count - 21) / 1e3
    dut._log.info("one frame each %.1f ns, line rate %.1f ns", each, ideal)
    assert each <= ideal * (1.01 if gigabit else MOST_OF_LINE_RATE)


# 10G, frames of 64 bytes: two clock crossings and what 16 reads in flight can fetch.
MOST_OF_LINE_RATE = 1.1


@pytest.mark.parametrize("top", ["ring_nic_10g", "ring_nic_1g"])
def test_ring_nic(top: str) -> None:
    """Both tops."""
    build_and_run(
        top,
        __name__,
        filelists=["rtl/ring/ring.f"],
        sources=["verif/pcie/tlp_rules.sv", "verif/pcie/tlp_rules_ring.sv"],
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
