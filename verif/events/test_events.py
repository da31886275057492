# SPDX-License-Identifier: Apache-2.0
"""Bench of events and interrupts: a host with a ring in its memory reads what the NIC writes."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from harness import build_and_run

OVERFLOW = 21
COMPLETER = 0x0318
OTHER = 0xEE  # first byte of the other stream's TLPs


@dataclass(frozen=True)
class Event:
    """What happened."""

    code: int
    op: int
    number: int
    who: int
    address: int

    def entry(self, count: int) -> bytes:
        """Entry of the ring: DW0 = count 16, op 8, code 8; DW1 = number, who; then the address."""
        low = (count & 0xFFFF) << 16 | self.op << 8 | self.code
        return struct.pack("<IIQ", low, self.number << 16 | self.who, self.address)


def random_event() -> Event:
    return Event(
        random.choice((1, 2, 3, 4, 16, 17, 18, 19, 20)),
        random.randrange(256),
        random.randrange(1 << 16),
        random.randrange(1 << 16),
        random.getrandbits(64),
    )


@dataclass
class Write:
    """A memory write: address, data."""

    address: int
    data: bytes


@dataclass
class Bench:
    """Drivers and monitors."""

    dut: object
    writes: list[Write] = field(default_factory=list)
    order: list[object] = field(default_factory=list)  # writes and TLPs of the other stream
    ready: float = 1.0
    lost: int = 0
    counted: int = 0
    interrupts: int = 0
    interrupt_writes: int = 0
    cycle: int = 0
    last_interrupt: int = 0  # cycles
    last_arrival: int = 0

    async def start(self, base: int = 0x1_2345_6000, log2: int = 4) -> None:
        """Reset and set the registers."""
        dut = self.dut
        for name in (
            "event_valid_i event_code_i event_op_i event_number_i event_who_i event_address_i "
            "event_restart_i event_tail_i msi_moderation_us_i msi_control_i arrival_i "
            "s_other_tdata_i s_other_tvalid_i s_other_tlast_i"
        ).split():
            getattr(dut, name).value = 0
        dut.completer_id_i.value = COMPLETER
        self.now = random.getrandbits(32)
        dut.now_us_i.value = self.now
        dut.event_base_i.value = base
        dut.event_log2_i.value = log2
        dut.msi_address_i.value = 0xFEE0_1000
        dut.msi_data_i.value = 0xC0DE_0042
        dut.m_tlp_tready_i.value = 1
        dut.rst_pcie_i.value = 1
        dut.rst_net_i.value = 1
        Clock(dut.clk_pcie_i, 4000, "ps").start()
        await Timer(random.randrange(6400), "ps")
        Clock(dut.clk_net_i, 6400, "ps").start()
        for _ in range(4):
            await RisingEdge(dut.clk_net_i)
        dut.rst_net_i.value = 0
        await RisingEdge(dut.clk_pcie_i)
        dut.rst_pcie_i.value = 0
        cocotb.start_soon(self.watch_tlps())
        cocotb.start_soon(self.watch_net())
        for _ in range(4):
            await RisingEdge(dut.clk_net_i)

    async def tell(self, event: Event, gap: float = 0.0) -> None:
        """One event, as its sources offer it."""
        dut = self.dut
        while random.random() < gap:
            await RisingEdge(dut.clk_net_i)
        dut.event_valid_i.value = 1
        dut.event_code_i.value = event.code
        dut.event_op_i.value = event.op
        dut.event_number_i.value = event.number
        dut.event_who_i.value = event.who
        dut.event_address_i.value = event.address
        for _ in range(3):
            await ReadOnly()
            taken = int(dut.event_ready_o.value)
            await RisingEdge(dut.clk_net_i)
            if taken:
                break
        else:
            raise AssertionError("an event was held up for more than a cycle")
        dut.event_valid_i.value = 0

    async def arrive(self) -> None:
        dut = self.dut
        await RisingEdge(dut.clk_pcie_i)
        dut.arrival_i.value = 1
        await RisingEdge(dut.clk_pcie_i)
        dut.arrival_i.value = 0

    async def wait(self, microseconds: int, cycles: int = 40) -> None:
        """Move the time on."""
        for _ in range(microseconds):
            self.now = (self.now + 1) & 0xFFFFFFFF
            self.dut.now_us_i.value = self.now
            await self.cycles(cycles)

    async def cycles(self, count: int) -> None:
        for _ in range(count):
            await RisingEdge(self.dut.clk_pcie_i)

    async def idle(self) -> None:
        calm = 0
        for _ in range(20000):
            await RisingEdge(self.dut.clk_pcie_i)
            await ReadOnly()
            busy = int(self.dut.busy_pcie_o.value) or int(self.dut.busy_net_o.value)
            calm = 0 if busy else calm + 1
            if calm == 32:
                break
        else:
            raise AssertionError("busy for ever")
        await RisingEdge(self.dut.clk_pcie_i)

    async def watch_net(self) -> None:
        while True:
            await RisingEdge(self.dut.clk_net_i)
            await ReadOnly()
            self.lost += int(self.dut.cnt_event_lost_o.value)

    async def watch_tlps(self) -> None:
        """Read TLPs as the root complex would."""
        dut = self.dut
        data = b""
        while True:
            await ReadOnly()
            self.counted += int(dut.cnt_event_written_o.value)
            self.cycle += 1
            if int(dut.cnt_msi_o.value):
                self.interrupts += 1
                self.last_interrupt = self.cycle
            if int(dut.arrival_i.value):
                self.last_arrival = self.cycle
            if int(dut.m_tlp_tvalid_o.value) and int(dut.m_tlp_tready_i.value):
                keep = int(dut.m_tlp_tkeep_o.value)
                last = int(dut.m_tlp_tlast_o.value)
                assert keep == 0xFF or (last and keep == 0x0F)
                size = 8 if keep == 0xFF else 4
                data += int(dut.m_tlp_tdata_o.value).to_bytes(8, "little")[:size]
                if last:
                    self.take(data)
                    data = b""
            await RisingEdge(dut.clk_pcie_i)
            dut.m_tlp_tready_i.value = random.random() < self.ready

    def take(self, data: bytes) -> None:
        if data[0] == OTHER:
            self.order.append(data)
            return
        wide = data[0] == 0x60
        assert data[0] in (0x40, 0x60) and data[1:3] == b"\0\0"
        dws = data[3]
        assert dws in (1, 4)
        assert struct.unpack(">H", data[4:6])[0] == COMPLETER and data[6] == 0
        assert data[7] == (0x0F if dws == 1 else 0xFF)
        header = 16 if wide else 12
        address = int.from_bytes(data[8:header], "big")
        assert wide == bool(address >> 32)
        assert len(data) == header + 4 * dws
        assert address % 4096 + 4 * dws <= 4096
        write = Write(address, data[header:])
        self.interrupt_writes += dws == 1
        self.writes.append(write)
        self.order.append(write)


class Host:
    """Reads a ring by its running numbers, as software does."""

    def __init__(self, bench: Bench, base: int, log2: int) -> None:
        self.bench = bench
        self.base = base
        self.entries = 1 << log2
        self.memory = bytearray(16 * self.entries)
        self.seen = 0  # writes looked at
        self.tail = 0

    def look(self) -> list[bytes]:
        """New entries; nothing that was not read yet is overwritten."""
        for write in self.bench.writes[self.seen :]:
            if len(write.data) == 16:
                at = write.address - self.base
                assert 0 <= at < len(self.memory) and at % 16 == 0
                count = struct.unpack_from("<H", write.data, 2)[0]
                slot = at // 16
                number = next(
                    n
                    for n in range(self.tail + 1, self.tail + self.entries + 1)
                    if n & 0xFFFF == count
                )
                assert (number - 1) % self.entries == slot, "an entry that the host has not read"
                self.memory[at : at + 16] = write.data
        self.seen = len(self.bench.writes)
        out = []
        while True:
            at = self.tail % self.entries * 16
            if struct.unpack_from("<H", self.memory, at + 2)[0] != (self.tail + 1) & 0xFFFF:
                return out
            out.append(bytes(self.memory[at : at + 16]))
            self.tail += 1
            if len(out) == self.entries:
                return out

    def consume(self) -> None:
        self.bench.dut.event_tail_i.value = self.tail


def entry_address(entry: bytes) -> int:
    """Address field of an entry: the number of lost events, in a report of losses."""
    return struct.unpack_from("<Q", entry, 8)[0]


@cocotb.test()
async def events_come_in_order_and_once(dut) -> None:
    """Rings of several sizes, the bus at several paces: all is there, or its loss reported."""
    base = 0xFFFF_FFF0 - 32  # crosses 4 GB
    bench = Bench(dut)
    await bench.start(base=base, log2=1)
    for log2, ready in ((1, 1.0), (2, 0.4), (3, 1.0), (6, 0.2)):
        dut.event_log2_i.value = log2
        dut.event_restart_i.value = 1
        dut.event_tail_i.value = 0
        await RisingEdge(dut.clk_pcie_i)
        dut.event_restart_i.value = 0
        bench.writes.clear()
        bench.ready = ready
        host = Host(bench, base, log2)
        told: list[Event] = []
        lost_before, counted_before = bench.lost, bench.counted
        got: list[bytes] = []

        def read(host=host, got=got) -> None:
            got.extend(host.look())
            host.consume()

        for _ in range(250):
            event = random_event()
            await bench.tell(event, gap=random.choice((0, 0.8, 0.97)))
            told.append(event)
            if random.random() < 0.15:
                await RisingEdge(dut.clk_pcie_i)
                read()
        for _ in range(40):
            await bench.idle()
            read()
        lost = bench.lost - lost_before
        assert bench.counted - counted_before == len(got) == len(bench.writes)
        # Reports of losses stand where the lost events would; nothing else is missing.
        at = reported = 0
        for count, entry in enumerate(got, start=1):
            if entry[0] == OVERFLOW:
                missing = entry_address(entry)
                assert missing > 0
                assert entry == Event(OVERFLOW, 0, 0, 0, missing).entry(count)
                at += missing
                reported += missing
            else:
                assert entry == told[at].entry(count)
                at += 1
        assert at == len(told) and reported == lost
        if log2 == 1:
            assert lost > 0


@cocotb.test()
async def running_numbers_wrap(dut) -> None:
    """More than 65,536 events: the 16-bit number goes through 0."""
    bench = Bench(dut)
    await bench.start(base=0x8000_0000, log2=2)
    host = Host(bench, 0x8000_0000, 2)
    # Far on at once: the host has read all.
    dut.u_notice.u_queue.head_q.value = 65530
    dut.event_tail_i.value = 65530
    host.tail = 65530
    for number in range(12):
        event = random_event()
        await bench.tell(event)
        await bench.idle()
        entries = host.look()
        assert entries == [event.entry(65531 + number)]
        host.consume()


@cocotb.test()
async def a_full_ring_waits_for_the_host(dut) -> None:
    """The ring is never overrun; a NIC that waits for the host alone is idle; then all goes on."""
    bench = Bench(dut)
    base = 0x4_0000_0000
    await bench.start(base=base, log2=2)
    depth = int(dut.Depth.value)
    events = [random_event() for _ in range(4 + depth + 5)]
    for event in events:
        await bench.tell(event)
        await bench.cycles(20)
    await bench.idle()
    assert len(bench.writes) == 4 and bench.lost == 5
    host = Host(bench, base, 2)
    got = []
    while True:
        entries = host.look()
        if not entries:
            break
        got += entries
        host.consume()
        await bench.idle()
    assert got[:-1] == [e.entry(i + 1) for i, e in enumerate(events[: 4 + depth])]
    assert got[-1] == Event(OVERFLOW, 0, 0, 0, 5).entry(4 + depth + 1)
    # One at a time from here.
    await bench.tell(events[0])
    await bench.idle()
    assert host.look() == [events[0].entry(4 + depth + 2)]


@cocotb.test()
async def without_a_ring_nothing_is_lost(dut) -> None:
    """Events vanish uncounted; switched on, the ring begins with entry 1."""
    bench = Bench(dut)
    await bench.start(base=0x1000, log2=0)
    dut.msi_control_i.value = 3
    for _ in range(100):
        await bench.tell(random_event(), gap=0.5)
    await bench.idle()
    assert not bench.writes and not bench.lost
    for _ in range(2):
        dut.event_log2_i.value = 3
        dut.event_restart_i.value = 1
        await RisingEdge(dut.clk_pcie_i)
        dut.event_restart_i.value = 0
        event = random_event()
        bench.writes.clear()
        dut.msi_control_i.value = 0
        await bench.tell(event)
        await bench.idle()
        assert [(w.address, w.data) for w in bench.writes] == [(0x1000, event.entry(1))]


@cocotb.test()
async def an_interrupt_follows_what_it_tells(dut) -> None:
    """Behind the event's entry, one for several; on arrival; each only if it is switched on."""
    bench = Bench(dut)
    await bench.start(base=0x1000, log2=4)
    for address in (0xFEE0_1000, 0x12_FEE0_1004):
        dut.msi_address_i.value = address
        for control, arrival, event, expected in (
            (0, True, True, 0),
            (1, True, False, 1),
            (1, False, True, 0),
            (2, True, False, 0),
            (2, False, True, 1),
            (3, False, True, 1),
            (3, True, False, 1),
        ):
            dut.msi_control_i.value = control
            dut.event_tail_i.value = bench.counted
            bench.writes.clear()
            if arrival:
                await bench.arrive()
            if event:
                await bench.tell(random_event())
            await bench.idle()
            shapes = [len(w.data) for w in bench.writes]
            assert shapes == [16] * event + [4] * expected
            for write in bench.writes:
                if len(write.data) == 4:
                    assert write == Write(address, struct.pack("<I", 0xC0DE_0042))
    # Events that come at once share interrupts, and the last is behind the last entry.
    dut.msi_control_i.value = 2
    dut.event_tail_i.value = bench.counted
    bench.writes.clear()
    bench.ready = 0.2
    for _ in range(6):
        await bench.tell(random_event())
    await bench.idle()
    shapes = [len(w.data) for w in bench.writes]
    assert shapes.count(16) == 6 and shapes[-1] == 4 and shapes.count(4) < 6
    assert bench.interrupts == bench.interrupt_writes > 8


@cocotb.test()
async def moderation_delays_but_never_loses(dut) -> None:
    """At most one an interval; an arrival within it gives one at its end, and not before."""
    bench = Bench(dut)
    await bench.start(log2=4)
    dut.msi_control_i.value = 1
    dut.msi_moderation_us_i.value = 20
    await bench.arrive()
    await bench.cycles(20)
    assert len(bench.writes) == 1, "the first one does not wait"
    await bench.wait(5)
    for _ in range(3):
        await bench.arrive()
    await bench.wait(14)
    assert len(bench.writes) == 1
    await bench.wait(1)
    assert len(bench.writes) == 2
    await bench.idle()
    # Nothing is left for the end of the next interval.
    await bench.wait(50)
    assert len(bench.writes) == 2
    await bench.arrive()
    await bench.cycles(20)
    assert len(bench.writes) == 3
    # An arrival at any moment around an interrupt is covered by one that is offered after it.
    dut.msi_moderation_us_i.value = 1
    await bench.wait(2)
    for _ in range(300):
        bench.ready = random.choice((1.0, 0.3))
        for _ in range(random.randrange(12)):
            await RisingEdge(dut.clk_pcie_i)
        await bench.arrive()
        if random.random() < 0.5:
            await bench.wait(2)
            await bench.cycles(60)
            assert bench.last_interrupt > bench.last_arrival
    bench.ready = 1.0
    dut.msi_moderation_us_i.value = 0
    for _ in range(60):
        for _ in range(random.randrange(2, 14)):
            dut.arrival_i.value = random.randrange(2)
            await RisingEdge(dut.clk_pcie_i)
        dut.arrival_i.value = 0
        await bench.idle()
        assert bench.last_interrupt > bench.last_arrival
    await bench.wait(2)
    await bench.idle()
    # Switched off, a waiting one is forgotten, and the NIC is idle.
    dut.msi_moderation_us_i.value = 1000
    count = len(bench.writes)
    await bench.arrive()
    await bench.cycles(20)
    dut.msi_control_i.value = 0
    await bench.idle()
    await bench.wait(1100, cycles=4)
    assert len(bench.writes) == count


@cocotb.test()
async def a_busy_bus_does_not_starve_it(dut) -> None:
    """Others go first, whole; but no more than 15 TLPs and those that had begun."""
    bench = Bench(dut)
    await bench.start(log2=4)
    dut.msi_control_i.value = 1

    async def others() -> None:
        number = 0
        while True:
            beats = random.randint(1, 5)
            for beat in range(beats):
                dut.s_other_tvalid_i.value = 1
                dut.s_other_tdata_i.value = OTHER | number << 8 | beat << 32 | beats << 40
                dut.s_other_tlast_i.value = int(beat == beats - 1)
                while True:
                    await ReadOnly()
                    taken = int(dut.s_other_tready_o.value)
                    await RisingEdge(dut.clk_pcie_i)
                    if taken:
                        break
            number = (number + 1) & 0xFFFF

    task = cocotb.start_soon(others())
    for ready in (1.0, 0.4):
        bench.ready = ready
        for _ in range(20):
            await bench.cycles(random.randrange(30))
            bench.order.clear()
            await bench.arrive()
            for _ in range(600):
                await RisingEdge(dut.clk_pcie_i)
                if any(isinstance(o, Write) for o in bench.order):
                    break
            place = next(i for i, o in enumerate(bench.order) if isinstance(o, Write))
            # Some more may pass before the interrupt is there.
            assert 15 <= place <= 21
    for tlp in bench.order:
        if not isinstance(tlp, Write):
            beats = [tlp[i : i + 8] for i in range(0, len(tlp), 8)]
            assert [b[4] for b in beats] == list(range(beats[0][5]))
    task.cancel()


def test_events() -> None:
    """All tests."""
    build_and_run(
        "tb_events",
        __name__,
        filelists=["rtl/ipnuma/ipnuma_host.f", "rtl/pcie/pcie.f"],
        sources=["verif/events/tb_events.sv"],
        # Packages are used in part here.
        build_args=["-Wno-UNUSEDPARAM"],
        probes={"event_queue": ["head_q"]},
    )
