# SPDX-License-Identifier: Apache-2.0
"""A host for the ring NIC: memory behind TLPs, and a driver as docs/ring-nic.md asks for one.

Nothing of this is shared with the generated package, the Rust tables or the Linux driver. Reads are
answered late, in pieces, and in any order between tags, as PCI Express allows; writes must lie
where a driver has said that they may.
"""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Event, ReadOnly, RisingEdge, Timer, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.eth import GmiiFrame, GmiiSink, GmiiSource, XgmiiFrame, XgmiiSink, XgmiiSource

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "nic"))

from raw_tlp import TlpSink, TlpSource, quiet

ID, VERSION, FEATURES, STATUS = 0x00, 0x04, 0x08, 0x0C
MAC_LO, MAC_HI, FILTER, CONTROL = 0x10, 0x14, 0x18, 0x1C
TX, RX = 0x20, 0x40
BASE_LO, BASE_HI, LOG2, HEAD, TAIL = 0x00, 0x04, 0x08, 0x0C, 0x10
MSI_ADDRESS_LO, MSI_ADDRESS_HI, MSI_DATA, MSI_MODERATION_US = 0x60, 0x64, 0x68, 0x6C
IRQ_CAUSE, IRQ_ARMED, RX_ARM, TX_ARM, READ_TIMEOUT_US, BUS = 0x70, 0x74, 0x78, 0x7C, 0x80, 0x84

PCIE_COUNTERS = (
    "tlp_register_write tlp_register_read tlp_completion tlp_completion_unexpected "
    "tlp_unsupported tlp_poisoned tlp_malformed register_refused dma_read_timeout "
    "dma_read_failed tx_descriptor_read tx_packet_read tx_packet tx_descriptor_bad "
    "tx_packet_lost tx_write_back rx_descriptor_read rx_packet_write rx_packet "
    "rx_no_descriptor rx_too_long msi"
).split()
NET_COUNTERS = (
    "tx_frame tx_underrun rx_frames rx_good rx_bad_fcs rx_runt rx_giant rx_phy_error "
    "rx_bad_preamble rx_not_mine rx_overflow"
).split()

MAC = bytes.fromhex("020000000001")
PEER = bytes.fromhex("020000000002")
MSI_AT, MSI_WORD = 0xFEE00000, 0x4321
BAR_REGISTERS, BAR_NONE = 0, 7
SC, UR, CA = 0, 1, 4
PAGE = 4096
GUARD = 0xA5


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Counters that differ, but those of register accesses and completions."""
    names = {*before, *after} - {"tlp_register_read", "tlp_register_write", "tlp_completion"}
    delta = {n: after.get(n, 0) - before.get(n, 0) for n in names}
    return {n: d for n, d in delta.items() if d}


class Memory:
    """Host memory, in pages that appear when they are written."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.pages: dict[int, bytearray] = {}

    def read(self, address: int, length: int) -> bytes:
        """Read bytes; what was never written is the guard byte."""
        out = bytearray()
        while length:
            page, offset = divmod(address, PAGE)
            take = min(length, PAGE - offset)
            here = self.pages.get(page)
            out += here[offset : offset + take] if here else bytes([GUARD]) * take
            address += take
            length -= take
        return bytes(out)

    def write(self, address: int, data: bytes) -> None:
        """Write bytes."""
        while data:
            page, offset = divmod(address, PAGE)
            take = min(len(data), PAGE - offset)
            here = self.pages.setdefault(page, bytearray([GUARD]) * PAGE)
            here[offset : offset + take] = data[:take]
            address += take
            data = data[take:]


class Sink(TlpSink):
    """A TLP sink that sleeps while nothing is offered: most of the time nothing is."""

    async def _run(self) -> None:
        s = self._sig
        tlp = bytearray()
        held = None
        while True:
            if not self.pause:
                self._ready.value = 1
                if not int(s["tvalid"].value):
                    assert held is None, "an offered beat was withdrawn"
                    await RisingEdge(s["tvalid"])
            else:
                self._ready.value = random.random() >= self.pause
            await ReadOnly()
            beat = None
            if int(s["tvalid"].value):
                keep = int(s["tkeep"].value)
                mask = 0xFFFFFFFFFFFFFFFF if keep == 0xFF else 0xFFFFFFFF
                beat = (int(s["tdata"].value) & mask, keep, int(s["tlast"].value))
                assert keep == 0xFF or (keep == 0x0F and beat[2]), f"tkeep {keep:02x}"
            assert held is None or beat == held, "an offered beat changed"
            taken = beat is not None and int(self._ready.value)
            held = None if taken else beat
            await RisingEdge(self._clock)
            if taken:
                tlp += beat[0].to_bytes(8, "little")[: 8 if beat[1] == 0xFF else 4]
                if beat[2]:
                    self.queue.put_nowait(bytes(tlp))
                    tlp = bytearray()


class Host:
    """Clocks, root complex, memory and CPU."""

    def __init__(self, dut) -> None:
        """Take the DUT; `start` does the rest."""
        self.dut = dut
        self.gigabit = hasattr(dut, "gmii_txd_o")
        self.memory = Memory()
        self.may_read: list[tuple[int, int]] = []  # (address, bytes) that a driver allows
        self.may_write: list[tuple[int, int]] = []
        self.reads: list[tuple[int, int, int]] = []  # DMA reads: (address, bytes, ps)
        self.writes: list[tuple[int, bytes, int]] = []  # DMA writes
        self.interrupts: list[int] = []  # ps of each
        self.cpu_reads = self.cpu_writes = 0
        self.delay_ns = (0, 0)  # of completions
        self.pieces = False  # completions come in pieces
        self.answer = lambda address, length: SC
        self.read_limit_us = 500 if self.gigabit else 50
        self._next = 0x100000
        self._tags: dict[int, tuple[Event, list]] = {}
        self._tag = 0
        self._posted = Event()
        self._sending = 0

    async def start(self, pause: float = 0.0, gap: float = 0.0) -> Host:
        """Start the clocks in a random phase, reset, and be there."""
        dut = self.dut
        quiet()
        net_ps = 8000 if self.gigabit else 6400
        dut.rst_pcie_i.value = 1
        dut.rst_net_i.value = 1
        dut.now_us_i.value = 0
        dut.completer_id_i.value = 0x0100
        dut.link_up_i.value = 1
        Clock(dut.clk_pcie_i, 4000, "ps").start()
        await Timer(random.randrange(1, net_ps), "ps")
        Clock(dut.clk_net_i, net_ps, "ps").start()
        if self.gigabit:
            self.wire_in = GmiiSource(
                dut.gmii_rxd_i, dut.gmii_rx_er_i, dut.gmii_rx_dv_i, dut.clk_net_i
            )
            self.wire_out = GmiiSink(
                dut.gmii_txd_o, dut.gmii_tx_er_o, dut.gmii_tx_en_o, dut.clk_net_i
            )
        else:
            self.wire_in = XgmiiSource(dut.xgmii_rxd_i, dut.xgmii_rxc_i, dut.clk_net_i)
            self.wire_out = XgmiiSink(dut.xgmii_txd_o, dut.xgmii_txc_o, dut.clk_net_i)
        self.source = TlpSource(dut, gap=gap)
        self.sink = Sink(dut, pause=pause)
        await ClockCycles(dut.clk_net_i, 10)
        await RisingEdge(dut.clk_pcie_i)
        dut.rst_pcie_i.value = 0
        await RisingEdge(dut.clk_net_i)
        dut.rst_net_i.value = 0
        cocotb.start_soon(self._time())
        cocotb.start_soon(self._root())
        return self

    async def _time(self) -> None:
        now = 0
        while True:
            await Timer(1, "us")
            await RisingEdge(self.dut.clk_pcie_i)
            now += 1
            self.dut.now_us_i.value = now

    def allocate(self, length: int, align: int = 128, high: bool | None = None) -> int:
        """Take memory that nobody has, sometimes above 4 GB."""
        self._next += -self._next % align
        address = self._next
        self._next += length + 64
        if high if high is not None else random.random() < 0.5:
            address += 0x7_0000_0000
        return address

    # ---- Root complex --------------------------------------------------------------------------
    async def _root(self) -> None:
        while True:
            tlp = await self.sink.queue.get()
            now = int(get_sim_time("ps"))
            kind = tlp[0]
            length = (tlp[2] & 3) << 8 | tlp[3]
            if kind in (0x0A, 0x4A):
                done, out = self._tags.pop(tlp[10])
                out += [tlp[6] >> 5, tlp[12 : 12 + 4 * length]]
                done.set()
                continue
            wide = bool(kind & 0x20)
            head = 16 if wide else 12
            address = int.from_bytes(tlp[8:head], "big")
            assert not wide or address >> 32, "an address below 4 GB in a long header"
            assert address & 3 == 0
            first, last = tlp[7] & 15, tlp[7] >> 4
            assert length, "a request of 1024 DWs"
            assert address % PAGE + 4 * length <= PAGE, "a request crosses 4 KB"
            enables = [first] + [15] * (length - 2) + ([last] if length > 1 else [])
            assert length > 1 or last == 0
            kept = [i for i in range(4 * length) if enables[i // 4] >> i % 4 & 1]
            assert kept == list(range(kept[0], kept[-1] + 1)), "a hole in the byte enables"
            begin, count = address + kept[0], len(kept)
            if kind & 0x40:
                data = tlp[head:]
                assert len(data) == 4 * length
                assert 4 * length <= self.max_payload
                self._write(begin, data[kept[0] : kept[0] + count], now)
            else:
                assert 4 * length <= self.max_read
                assert self._inside(self.may_read, begin, count), f"read of {count} at {begin:#x}"
                self.reads.append((begin, count, now))
                cocotb.start_soon(self._complete(tlp, begin, count))

    max_payload, max_read = 128, 512

    @staticmethod
    def _inside(areas: list[tuple[int, int]], address: int, length: int) -> bool:
        return any(a <= address and address + length <= a + n for a, n in areas)

    def _write(self, address: int, data: bytes, now: int) -> None:
        self.writes.append((address, data, now))
        if address == MSI_AT:
            assert data == struct.pack("<I", MSI_WORD)
            self.interrupts.append(now)
            return
        assert self._inside(self.may_write, address, len(data)), f"write at {address:#x}"
        self.memory.write(address, data)

    async def _complete(self, request: bytes, address: int, length: int) -> None:
        tag = request[6]
        status = self.answer(address, length)
        if self.delay_ns[1]:
            await Timer(random.randint(*self.delay_ns), "ns")
        if status is None:
            return
        if status != SC:
            await self.source.send(self._completion(tag, status, address, length, b""), BAR_NONE)
            return
        while length:
            take = length
            if self.pieces:
                boundary = random.choice((64, 128))
                take = min(length, boundary - address % boundary)
            # A piece is at most 256 bytes.
            take = min(take, 256 - address % 256)
            start = address & ~3
            end = address + take + (-(address + take) % 4)
            data = self.memory.read(start, end - start)
            await self.source.send(self._completion(tag, SC, address, length, data), BAR_NONE)
            address += take
            length -= take
            if self.pieces and random.random() < 0.5:
                await Timer(random.randrange(1, 60), "ns")

    @staticmethod
    def _completion(tag: int, status: int, address: int, left: int, data: bytes) -> bytes:
        dws = len(data) // 4
        return (
            bytes([0x4A if dws else 0x0A, 0, dws >> 8, dws & 255, 0, 0])
            + bytes([status << 5 | left >> 8 & 15, left & 255, 0x01, 0x00, tag, address & 0x7F])
            + data
        )

    # ---- CPU -----------------------------------------------------------------------------------
    async def read(self, offset: int, bar: int = BAR_REGISTERS) -> int:
        """Read a register."""
        status, data = await self.read_raw(offset, bar)
        assert status == SC
        return int.from_bytes(data, "little")

    async def read_raw(self, offset: int, bar: int = BAR_REGISTERS) -> tuple[int, bytes]:
        """Read a DW; return the completion's status and data."""
        self.cpu_reads += 1
        self._tag = (self._tag + 1) % 256
        done, out = Event(), []
        self._tags[self._tag] = (done, out)
        request = bytes([0, 0, 0, 1, 0, 0, self._tag, 0x0F]) + struct.pack(">I", offset)
        self.source.put(request, bar)
        # It may have to wait for frames on the wire.
        await with_timeout(done.wait(), self.read_limit_us, "us")
        return out[0], out[1]

    async def write(self, offset: int, value: int, enables: int = 0x0F) -> None:
        """Write a register: posted, so it returns when the TLP has gone."""
        self.cpu_writes += 1
        header = bytes([0x40, 0, 0, 1, 0, 0, 0, enables]) + struct.pack(">I", offset)
        await self.source.send(header + struct.pack("<I", value & 0xFFFFFFFF), BAR_REGISTERS)

    async def counters(self) -> dict[str, int]:
        """Read all counters that are not zero."""
        out = {}
        for base, names in ((0x1000, PCIE_COUNTERS), (0x2000, NET_COUNTERS)):
            for i, name in enumerate(names):
                value = await self.read(base + 4 * i)
                if value:
                    out[name] = value
        return out

    async def changed(self, before: dict[str, int]) -> dict[str, int]:
        """Counters that differ from `before`, but those of register accesses and completions."""
        return difference(before, await self.counters())

    # ---- Wire ----------------------------------------------------------------------------------
    async def to_nic(self, frame: bytes, spoil: bool = False) -> None:
        """Send a frame (without FCS) to the NIC; `spoil` damages its FCS."""
        kind = GmiiFrame if self.gigabit else XgmiiFrame
        wired = kind.from_payload(frame)
        if spoil:
            wired.data[-1] ^= 0x40
        await self.wire_in.send(wired)

    async def from_nic(self) -> bytes:
        """Wait for a frame of the NIC; its FCS is checked and left away."""
        frame = await with_timeout(self.wire_out.recv(), 200, "us")
        assert not self.gigabit or not any(frame.error or [])
        assert frame.check_fcs()
        return bytes(frame.get_payload())

    async def settle(self, cycles: int = 40) -> None:
        """Wait until both sides are idle."""
        quiet_for = 0
        while quiet_for < cycles:
            await RisingEdge(self.dut.clk_net_i)
            busy = int(self.dut.busy_pcie_o.value) or int(self.dut.busy_net_o.value)
            quiet_for = 0 if busy else quiet_for + 1


class Driver:
    """A driver of both rings; packets and buffers anywhere in memory."""

    def __init__(self, host: Host, log2: int = 8) -> None:
        """Take the host; `start` programs the NIC."""
        self.host = host
        self.log2 = log2
        self.size = 1 << log2
        self.tx_tail = self.tx_done = 0
        self.rx_tail = self.rx_next = 0
        self.buffers: dict[int, tuple[int, int]] = {}  # receive entry: (address, bytes)

    async def start(self, moderation_us: int = 0, bus: int = 0x20) -> Driver:
        """Program rings, addresses and interrupts, and switch both directions on."""
        h = self.host
        h.max_payload = 128 << (bus & 3)
        h.max_read = 128 << (bus >> 4)
        self.tx_base = h.allocate(16 * self.size)
        self.rx_base = h.allocate(16 * self.size)
        for ring, base in ((TX, self.tx_base), (RX, self.rx_base)):
            h.may_read.append((base, 16 * self.size))
            await h.write(ring + BASE_LO, base)
            await h.write(ring + BASE_HI, base >> 32)
            await h.write(ring + LOG2, self.log2)
        for register, value in (
            (MAC_LO, int.from_bytes(MAC, "big")),
            (MAC_HI, int.from_bytes(MAC, "big") >> 32),
            (MSI_ADDRESS_LO, MSI_AT),
            (MSI_DATA, MSI_WORD),
            (MSI_MODERATION_US, moderation_us),
            (BUS, bus),
            (CONTROL, 3),
        ):
            await h.write(register, value)
        # What is written to the network side is there when a read of that side comes back.
        assert await h.read(MAC_HI) == int.from_bytes(MAC, "big") >> 32
        return self

    # ---- Send ----------------------------------------------------------------------------------
    async def room(self) -> int:
        """Read HEAD; return how many packets can be added."""
        head = await self.host.read(TX + HEAD)
        self.tx_done = head
        return (head - self.tx_tail - 1) % self.size

    def place(self, frame: bytes, offset: int | None = None, report: bool = False) -> int:
        """Write a packet and its descriptor, not yet TAIL; return the packet's address."""
        h = self.host
        offset = random.randrange(64) if offset is None else offset
        # Anywhere, page boundaries inside included.
        at = h.allocate(len(frame) + 64, align=64) + offset
        h.memory.write(at, frame)
        h.may_read.append((at, len(frame)))
        self.describe(at, len(frame), report)
        return at

    def describe(self, at: int, length: int, report: bool = False) -> None:
        """Write the descriptor at TAIL, and advance TAIL here."""
        entry = self.tx_base + 16 * self.tx_tail
        self.host.memory.write(entry, struct.pack("<QIi", at, length | report << 16, 0))
        if report:
            self.host.may_write.append((entry + 12, 4))
        self.tx_tail = (self.tx_tail + 1) % self.size

    async def send(self, frame: bytes, **how) -> None:
        """Send one packet as figure 3.5 does: HEAD is read, TAIL is written."""
        while not await self.room():
            await Timer(200, "ns")
        self.place(frame, **how)
        await self.host.write(TX + TAIL, self.tx_tail)

    # ---- Receive -------------------------------------------------------------------------------
    def give(self, length: int = 2048) -> None:
        """Give the NIC an empty buffer, not yet TAIL."""
        h = self.host
        at = h.allocate(length + 64, align=64) + 4 * random.randrange(16)
        h.may_write.append((at, length))
        entry = self.rx_base + 16 * self.rx_tail
        h.memory.write(entry, struct.pack("<QIi", at, length, 0))
        h.may_write.append((entry + 12, 4))
        self.buffers[self.rx_tail] = (at, length)
        self.rx_tail = (self.rx_tail + 1) % self.size

    async def fill(self, count: int, length: int = 2048) -> None:
        """Give buffers, and tell the NIC once."""
        for _ in range(count):
            self.give(length)
        await self.host.write(RX + TAIL, self.rx_tail)

    def arrived(self) -> bytes | None:
        """Return the next packet in memory, if it is there."""
        h = self.host
        entry = self.rx_base + 16 * self.rx_next
        (status,) = struct.unpack("<I", h.memory.read(entry + 12, 4))
        if self.rx_next not in self.buffers or not status >> 31:
            return None
        assert status & 0x7FFF0000 == 0
        at, length = self.buffers.pop(self.rx_next)
        got = status & 0xFFFF
        frame = h.memory.read(at, got)
        assert h.memory.read(at + got, length + 32 - got) == bytes([GUARD]) * (length + 32 - got)
        assert h.memory.read(at - 32, 32) == bytes([GUARD]) * 32, "bytes before the buffer"
        h.may_write.remove((at, length))
        h.may_write.remove((entry + 12, 4))
        self.rx_next = (self.rx_next + 1) % self.size
        return frame

    async def receive(self, timeout_us: int = 100) -> bytes:
        """Wait for the next packet in memory, looking as a polling core does."""
        for _ in range(timeout_us * 10):
            frame = self.arrived()
            if frame is not None:
                return frame
            await Timer(100, "ns")
        raise AssertionError("no packet arrived")
