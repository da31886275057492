# SPDX-License-Identifier: Apache-2.0
"""Bench of the requester: stores that are sent together, flush marks, loads that are sent again."""

from __future__ import annotations

import random
import struct
from collections import deque
from dataclasses import dataclass, field

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer, with_timeout
from cocotb.utils import get_sim_time
from harness import build_and_run

PCIE_PS = 4000
MWR32, MWR64, MRD32, MRD64, IORD = 0x40, 0x60, 0x00, 0x20, 0x02
PAGES_BAR = 2
SC, CA = 0, 4
COUNTERS = (
    "store",
    "load",
    "store_unmapped",
    "load_unmapped",
    "no_tag",
    "retry",
    "timeout",
    "completed",
    "unexpected",
    "repeated",
)


@dataclass
class Request:
    """A store, or a load without data, to the page window."""

    page: int
    offset: int  # in the page, DW aligned
    dws: int
    first_be: int = 15
    last_be: int = 15
    data: bytes = b""
    tag: int = 0
    wide: bool = False  # header of 4 DWs
    poisoned: bool = False
    extra: int = 0  # DWs more (or less) than the header says
    digest: bool = False

    def pack(self) -> bytes:
        """Bytes of the TLP."""
        fmt = (0x40 if self.data else 0) | (0x20 if self.wide else 0)
        flags = self.digest << 7 | self.poisoned << 6 | self.dws >> 8
        last_be = 0 if self.dws == 1 else self.last_be
        address = 0x4000_0000 | self.page << 12 | self.offset
        text = struct.pack(">BBBB", fmt, 0, flags, self.dws & 0xFF)
        text += struct.pack(">HBB", 0x0042, self.tag, last_be << 4 | self.first_be)
        text += struct.pack(">Q" if self.wide else ">I", address)
        body = self.data
        if self.extra > 0:
            body += random.randbytes(4 * self.extra)
        elif self.extra < 0:
            body = body[: 4 * self.extra]
        return text + body + (b"DIGE" if self.digest else b"")

    def enables(self) -> list[int]:
        """Byte enables of each DW."""
        if self.dws == 1:
            return [self.first_be]
        return [self.first_be, *[15] * (self.dws - 2), self.last_be]

    def written(self, base: int) -> list[tuple[int, int]]:
        """Bytes that it writes, in order, with their wire addresses."""
        return [
            (base + self.offset + 4 * dw + byte, self.data[4 * dw + byte])
            for dw, be in enumerate(self.enables())
            for byte in range(4)
            if be >> byte & 1
        ]

    def run(self) -> tuple[bool, bool, bool]:
        """Whether the bytes are a run through all DWs, from a first byte, to a last one."""
        bits = "".join(f"{be:04b}"[::-1] for be in self.enables())
        solid = "1" in bits and "0" not in bits.strip("0")
        inner = solid and "1" in bits[:4] and "1" in bits[-4:]
        return inner, bits[:4] == "1111" or bits[0] == "1", bits[-1] == "1"


def groups(stores: list[Request]) -> list[list[Request]]:
    """Reading of the contract: which stores may be sent together when all of them wait."""
    out: list[list[Request]] = []
    for store in stores:
        if out:
            before = out[-1][-1]
            total = sum(s.dws for s in out[-1]) + store.dws
            if (
                before.page == store.page
                and before.offset + 4 * before.dws == store.offset
                and before.run()[0]
                and before.run()[2]
                and store.run()[0]
                and store.run()[1]
                and total <= 64
            ):
                out[-1].append(store)
                continue
        out.append([store])
    return out


@dataclass
class Frame:
    """A frame as it was offered while it was locked."""

    time: int
    fields: dict[str, int]
    data: bytes

    @property
    def is_load(self) -> bool:
        return self.fields["head"] & 0xFF == MRD64

    def written(self) -> list[tuple[int, int]]:
        """Bytes that the receiver would write; both forms must say the same."""
        f = self.fields
        head = f["head"].to_bytes(16, "little")
        assert head[0] == MWR64 and head[1] == 0
        dws = head[2] << 8 | head[3]
        assert dws == f["data_dw"] and 1 <= dws <= 64
        assert head[4:7] == bytes(3)
        first_be, last_be = head[7] & 15, head[7] >> 4
        address = int.from_bytes(head[8:], "big")
        request = Request(0, 0, dws, first_be, last_be, self.data)
        assert dws > 1 or last_be == 0
        out = request.written(address)
        if f["compact"]:
            whole = f["address"]
            at = (whole >> 28 << 32) | (whole & 0xFFF_FFFF)
            run = self.data[whole & 3 : 4 * dws - f["trail"]]
            assert out == [(at + i, byte) for i, byte in enumerate(run)]
        return out


@dataclass
class Bench:
    """Drivers and monitors."""

    dut: object
    offset: int = 300
    items: list[tuple] = field(default_factory=list)  # what came, in order
    frames: list[Frame] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    merged: int = 0
    stall: float = 0.0  # how likely a frame that may start does not
    hold: bool = False
    drop: float = 0.0  # how likely a frame is dropped
    dropped: int = 0
    valid_edges: list[int] = field(default_factory=list)
    first_beats: list[int] = field(default_factory=list)
    taken_beats: list[int] = field(default_factory=list)
    completions: list[bytes] = field(default_factory=list)
    errors: list[tuple[int, int]] = field(default_factory=list)
    pages: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    async def start(self) -> None:
        """Start clocks and monitors, reset."""
        dut = self.dut
        for name in (
            "merge_i settings_write_i mark_i mark_pc_id_i mark_cookie_i s_tlp_tdata_i "
            "s_tlp_tkeep_i s_tlp_tvalid_i s_tlp_tlast_i s_tlp_tuser_i page_cfg_write_i "
            "page_cfg_index_i page_cfg_entry_i pcid_cfg_write_i pcid_cfg_index_i "
            "pcid_cfg_entry_i pay_idx_i lock_i pop_i cpl_valid_i cpl_tag_i cpl_number_i "
            "cpl_status_i cpl_bytes_i cpl_lower_i cpl_dw_i cpl_ip_i cpl_session_i cpl_base_i "
            "now_us_i load_retry_us_i"
        ).split():
            getattr(dut, name).value = 0
        dut.read_timeout_us_i.value = 100
        dut.rst_pcie_i.value = 1
        dut.rst_net_i.value = 1
        pcie = Clock(dut.clk_pcie_i, PCIE_PS, "ps")
        pcie.start()
        await Timer(self.offset, "ps")
        self.net_ps = 8000 if int(dut.Slow.value) else 6400
        net = Clock(dut.clk_net_i, self.net_ps, "ps")
        net.start()
        self.clocks = (pcie, net)
        for _ in range(4):
            await RisingEdge(dut.clk_net_i)
        dut.rst_net_i.value = 0
        await RisingEdge(dut.clk_pcie_i)
        dut.rst_pcie_i.value = 0
        for _ in range(8):
            await RisingEdge(dut.clk_net_i)
        self.tasks = [
            cocotb.start_soon(self.take_frames()),
            cocotb.start_soon(self.watch_pcie()),
            cocotb.start_soon(self.watch_tlps()),
        ]
        await RisingEdge(dut.clk_pcie_i)

    def stop(self) -> None:
        """Leave the clocks to the next bench of the test."""
        for task in self.tasks:
            task.cancel()
        for clock in self.clocks:
            clock.stop()

    # ---- Tables -------------------------------------------------------------------------------
    async def write_page(self, index: int, pc_id: int, remote: int, tag: int) -> None:
        dut = self.dut
        self.pages[index] = (pc_id, remote, tag)
        dut.page_cfg_index_i.value = index
        dut.page_cfg_entry_i.value = pc_id << 48 | remote << 12 | tag
        dut.page_cfg_write_i.value = 1
        await RisingEdge(dut.clk_pcie_i)
        dut.page_cfg_write_i.value = 0

    async def write_peer(
        self, index: int, session: bool, compact: bool, valid: bool = True
    ) -> None:
        dut = self.dut
        dut.pcid_cfg_index_i.value = index
        dut.pcid_cfg_entry_i.value = (
            (session << 2 | compact << 1 | valid) << 96
            | 4000 << 80
            | (0x0200_0000_0000 + index) << 32
            | 0x0A00_0000 + index
        )
        dut.pcid_cfg_write_i.value = 1
        await RisingEdge(dut.clk_pcie_i)
        dut.pcid_cfg_write_i.value = 0

    async def tables(self) -> None:
        """PC ID 1 compact, 2 not, 3 in a session, 9 beyond the sessions, 4 not valid."""
        await self.write_peer(1, session=False, compact=True)
        await self.write_peer(2, session=False, compact=False)
        await self.write_peer(3, session=True, compact=True)
        await self.write_peer(4, session=True, compact=True, valid=False)
        await self.write_peer(9, session=True, compact=True)
        for page in range(16):
            pc_id = (1, 2, 3, 9, 1, 3, 0, 4)[page % 8]
            key = 0x7FF if page < 8 else 0xF00 + page
            await self.write_page(page, pc_id, key << 20 | page + 5, 0x100 + page)

    def base(self, page: int) -> int:
        """Wire address at which a page begins."""
        return self.pages[page][1] << 12

    # ---- TLPs ---------------------------------------------------------------------------------
    async def send(self, request: Request, gap: float = 0.0, bar: int = PAGES_BAR) -> None:
        """Drive a TLP's beats, with random gaps."""
        dut = self.dut
        data = request.pack()
        for at in range(0, len(data), 8):
            while random.random() < gap:
                dut.s_tlp_tvalid_i.value = 0
                await RisingEdge(dut.clk_pcie_i)
            beat = data[at : at + 8]
            dut.s_tlp_tvalid_i.value = 1
            dut.s_tlp_tdata_i.value = int.from_bytes(beat, "little")
            dut.s_tlp_tkeep_i.value = (1 << len(beat)) - 1
            dut.s_tlp_tlast_i.value = int(at + 8 >= len(data))
            dut.s_tlp_tuser_i.value = bar
            while True:
                await ReadOnly()
                taken = int(dut.s_tlp_tready_o.value)
                await RisingEdge(dut.clk_pcie_i)
                if taken:
                    break
        self.taken_beats.append(int(get_sim_time("ps")))
        dut.s_tlp_tvalid_i.value = 0

    async def settings(self) -> None:
        """A register write takes effect."""
        self.dut.settings_write_i.value = 1
        await RisingEdge(self.dut.clk_pcie_i)
        self.dut.settings_write_i.value = 0

    async def mark(self, pc_id: int, cookie: int) -> None:
        """A flush mark, as the register writes it."""
        dut = self.dut
        while True:
            await ReadOnly()
            ready = int(dut.mark_ready_o.value)
            await RisingEdge(dut.clk_pcie_i)
            if ready:
                break
        dut.mark_i.value = 1
        dut.mark_pc_id_i.value = pc_id
        dut.mark_cookie_i.value = cookie
        await RisingEdge(dut.clk_pcie_i)
        dut.mark_i.value = 0

    # ---- Monitors -----------------------------------------------------------------------------
    async def take_frames(self) -> None:
        """Do what the frame builder does, at its pace or slower."""
        dut = self.dut

        async def edge() -> int:
            """Go to the end of the next cycle, where all is settled; return when it began."""
            await RisingEdge(dut.clk_net_i)
            now = int(get_sim_time("ps"))
            await Timer(self.net_ps - 200, "ps")
            self.merged += int(dut.cnt_tx_merged_o.value)
            return now

        was_valid = False
        while True:
            now = await edge()
            dut.pop_i.value = 0
            dut.lock_i.value = 0
            valid = int(dut.valid_o.value)
            if valid and not was_valid:
                self.valid_edges.append(now)
            was_valid = valid
            if not valid or self.hold or random.random() < self.stall:
                continue
            if int(dut.mark_o.value):
                assert not int(dut.permitted_o.value)
                who, cookie = int(dut.mark_session_o.value), int(dut.mark_cookie_o.value)
                self.items.append(("mark", who, cookie))
                dut.pop_i.value = 1
                continue
            if not int(dut.permitted_o.value):
                dut.pop_i.value = 1
                continue
            if random.random() < self.drop:
                self.dropped += 1
                dut.pop_i.value = 1
                continue
            dut.lock_i.value = 1
            await edge()
            await self.take_frame(edge, now)
            was_valid = False

    async def take_frame(self, edge, started: int) -> None:
        """Take the frame that is locked, word by word, and pop it in its last cycle."""
        dut = self.dut
        names = "compact session pc_id mac tag head address trail data_dw".split()

        def look() -> dict[str, int]:
            return {n: int(getattr(dut, f"frame_{n}_o").value) for n in names}

        fields = look()
        words = (fields["data_dw"] + 1) // 2
        data = b""
        for i in range(words):
            dut.pay_idx_i.value = i
            await edge()
            assert look() == fields, "the frame changed while it was sent"
            data += int(dut.pay_word_o.value).to_bytes(8, "little")
        for _ in range(3):
            await edge()
        assert look() == fields
        frame = Frame(started, fields, data[: 4 * fields["data_dw"]])
        self.frames.append(frame)
        if frame.is_load:
            assert fields["data_dw"] == 0
            self.items.append(("load", fields["head"], fields["session"]))
        else:
            self.items.extend(("byte", *pair) for pair in frame.written())
        dut.pop_i.value = 1

    async def watch_pcie(self) -> None:
        dut = self.dut
        while True:
            await ReadOnly()
            counts = int(dut.cnt_o.value)
            for bit, name in enumerate(COUNTERS):
                if counts >> bit & 1:
                    self.counters[name] = self.counters.get(name, 0) + 1
            if int(dut.error_valid_o.value):
                self.errors.append((int(dut.error_status_o.value), int(dut.error_tag_o.value)))
            await RisingEdge(dut.clk_pcie_i)

    async def watch_tlps(self) -> None:
        """Completions to the CPU."""
        dut = self.dut
        data = b""
        while True:
            await ReadOnly()
            if int(dut.m_tlp_tvalid_o.value):
                size = 8 if int(dut.m_tlp_tkeep_o.value) == 0xFF else 4
                data += int(dut.m_tlp_tdata_o.value).to_bytes(8, "little")[:size]
                if int(dut.m_tlp_tlast_o.value):
                    self.completions.append(data)
                    data = b""
            await RisingEdge(dut.clk_pcie_i)

    async def idle(self) -> None:
        """Wait until nothing is under way for some time."""
        dut = self.dut

        async def quiet() -> None:
            calm = 0
            while calm < 40:
                await RisingEdge(dut.clk_pcie_i)
                await ReadOnly()
                busy = int(dut.busy_pcie_o.value) or int(dut.busy_net_o.value)
                calm = 0 if busy else calm + 1
            await RisingEdge(dut.clk_pcie_i)

        await with_timeout(quiet(), 2, "ms")

    async def idle_net(self, limit: int = 400) -> None:
        """Wait until the slots are empty; loads may be out."""
        for _ in range(limit):
            await RisingEdge(self.dut.clk_net_i)
            await ReadOnly()
            if not int(self.dut.busy_net_o.value):
                break
        else:
            raise AssertionError("the slots do not get empty")
        await RisingEdge(self.dut.clk_pcie_i)
        for _ in range(12):
            await RisingEdge(self.dut.clk_pcie_i)

    async def complete(
        self,
        tag: int,
        number: int,
        size: int,
        dws: int,
        session: int,
        ip: int = 0x0A000003,
        status: int = SC,
        base: int = 0,
        lower: int = 0,
    ) -> None:
        """A completion comes from the network."""
        dut = self.dut
        dut.cpl_tag_i.value = tag
        dut.cpl_number_i.value = number
        dut.cpl_bytes_i.value = size
        dut.cpl_dw_i.value = dws
        dut.cpl_status_i.value = status
        dut.cpl_session_i.value = session
        dut.cpl_ip_i.value = ip
        dut.cpl_base_i.value = base
        dut.cpl_lower_i.value = lower
        # Its slot's first word is read before its token can be seen.
        await RisingEdge(dut.clk_pcie_i)
        dut.cpl_valid_i.value = 1
        for _ in range(100):
            await ReadOnly()
            popped = int(dut.cpl_pop_o.value)
            await RisingEdge(dut.clk_pcie_i)
            if popped:
                break
        else:
            raise AssertionError("a completion was never taken")
        dut.cpl_valid_i.value = 0
        await RisingEdge(dut.clk_pcie_i)


def random_store(at: tuple[int, int] | None, page_count: int = 16) -> Request:
    """A store of any kind; with `at` it often goes on there."""
    page = random.randrange(page_count)
    offset = 4 * random.randrange(1024)
    if at and at[1] < 4096 and random.random() < 0.9:
        page, offset = at
    dws = random.choice((1, 1, 1, 2, 2, 3, 4, 5, 8, 15, 16, 31, 33, 63, 64))
    dws = min(dws, (4096 - offset) // 4)
    first_be = last_be = 15
    if random.random() < 0.25:
        if dws == 1:
            first_be = random.randrange(16)
        else:
            first_be = random.choice((15, 14, 12, 8, 0, 5))
            last_be = random.choice((15, 7, 3, 1, 0, 10))
    return Request(
        page, offset, dws, first_be, last_be, random.randbytes(4 * dws), wide=random.random() < 0.3
    )


def spoil(request: Request) -> Request:
    """Make it one that is refused or malformed."""
    kind = random.randrange(4)
    if kind == 0:
        request.poisoned = True
    elif kind == 1:
        request.digest = True
    elif kind == 2:
        request.extra = random.randrange(1, 4)
    elif request.dws > 1:
        request.extra = -random.randrange(1, request.dws)
    else:
        request.extra = 1
    return request


def same(got: list, expected: list) -> None:
    """Compare long lists, and say where they part."""
    for at, (one, other) in enumerate(zip(got, expected, strict=False)):
        assert one == other, f"item {at} of {len(got)}, {len(expected)}: {one}, expected {other}"
    assert len(got) == len(expected)


def bytes_of(bench: Bench, requests: list[Request]) -> list[tuple]:
    """What is to arrive."""
    out = []
    for request in requests:
        if bench.pages[request.page][0] in (0, 4):
            continue
        out.extend(("byte", *pair) for pair in request.written(bench.base(request.page)))
    return out


@cocotb.test()
async def waiting_stores_are_sent_together(dut) -> None:
    """All stores wait before the first frame starts: the frames are those that the rules allow."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    slots = int(dut.Slots.value)
    largest = 0
    for round_ in range(80):
        dut.merge_i.value = int(round_ % 5 != 4)
        bench.hold = True
        bench.frames.clear()
        bench.items.clear()
        bench.merged = 0
        requests: list[Request] = []
        at = None
        for _ in range(random.randint(1, slots)):
            request = random_store(at)
            if bench.pages[request.page][0] in (0, 4):
                request.page = 0
            if random.random() < 0.1:
                await bench.send(spoil(random_store(at)), gap=random.choice((0, 0.3)))
            await bench.send(request, gap=random.choice((0, 0, 0.3)))
            requests.append(request)
            at = (request.page, request.offset + 4 * request.dws)
        # One group is built up in the slots, one slot a cycle.
        for _ in range(slots + 8):
            await RisingEdge(dut.clk_net_i)
        bench.hold = False
        await bench.idle()
        expected = groups(requests) if round_ % 5 != 4 else [[r] for r in requests]
        same(bench.items, bytes_of(bench, requests))
        assert bench.frames[0].fields["data_dw"] == sum(r.dws for r in expected[0])
        # Groups behind the first may start before their last slot was joined: never the other way.
        assert len(bench.frames) >= len(expected)
        assert bench.merged == len(requests) - len(bench.frames)
        if round_ % 5 == 4:
            assert len(bench.frames) == len(requests)
        largest = max(largest, *(len(g) for g in expected))
    assert largest > 3


@cocotb.test()
async def no_byte_is_lost_or_moved(dut) -> None:
    """Long random streams, the reader at every pace: the bytes come as they were written."""
    joined = 0
    for stall in (0.0, 0.9, 0.98):
        bench = Bench(dut, offset=random.randrange(6400))
        await bench.start()
        await bench.tables()
        bench.stall = stall
        dut.merge_i.value = 1
        requests: list[Request] = []
        at = None
        for _ in range(250):
            if random.random() < 0.05:
                bench.stall = random.choice((0.0, stall, 1.0))
                if bench.stall == 1.0:
                    bench.stall = 0.995
            if random.random() < 0.06:
                await bench.send(spoil(random_store(at)), gap=random.choice((0, 0.3)))
            if random.random() < 0.03:
                await bench.settings()
            request = random_store(at)
            await bench.send(request, gap=random.choice((0, 0, 0.2)))
            requests.append(request)
            at = (request.page, request.offset + 4 * request.dws)
        bench.stall = 0.0
        await bench.idle()
        same(bench.items, bytes_of(bench, requests))
        sent = [r for r in requests if bench.pages[r.page][0] not in (0, 4)]
        assert bench.merged == len(sent) - len(bench.frames)
        assert bench.counters["store"] == len(sent)
        assert bench.counters["store_unmapped"] == len(requests) - len(sent)
        joined += bench.merged
        bench.stop()
    assert joined


@cocotb.test()
async def single_dws_in_a_row(dut) -> None:
    """Single DWs in a row through many turns of the ring: groups of 64 DWs share one place."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    requests = [Request(0, 4 * (7 + i), 1, 15, 0, random.randbytes(4)) for i in range(4 * 64 + 30)]
    bench.hold = True
    for request in requests[: int(dut.Slots.value)]:
        await bench.send(request)
    bench.hold = False
    for request in requests[int(dut.Slots.value) :]:
        bench.stall = random.choice((0.0, 0.9, 0.99))
        await bench.send(request)
    bench.stall = 0.0
    await bench.idle()
    same(bench.items, bytes_of(bench, requests))
    assert bench.merged == len(requests) - len(bench.frames) > 0
    # No frame reaches across the group's end.
    for frame in bench.frames:
        at = frame.written()[0][0] - bench.base(0)
        first = at // 4 - 7
        assert first // 64 == (first + frame.fields["data_dw"] - 1) // 64


@cocotb.test()
async def exactly_64_dws(dut) -> None:
    """Groups that fill their place, from each position, malformed TLPs behind them."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    for start in (0, 1, 2, 31, 62, 63, 64, 65, 1024 - 65):
        for sizes in (
            (1, 63),
            (63, 1),
            (32, 32),
            (5, 40, 19),
            (64,),
            (2, 1, 61),
            (21, 22, 21),
            (62, 2),
        ):
            bench.hold = True
            bench.items.clear()
            bench.frames.clear()
            requests = []
            at = start
            for number, size in enumerate(sizes):
                # Longer than it says, just before the place is full: must not reach its first DW.
                for extra in (1, 2) if number == len(sizes) - 1 else ():
                    bad = Request(1, 4 * at, size, 15, 15, random.randbytes(4 * size))
                    bad.extra, bad.wide = extra, random.random() < 0.5
                    await bench.send(bad)
                requests.append(
                    Request(1, 4 * at, size, 15, 15, random.randbytes(4 * size), wide=at % 3 == 0)
                )
                await bench.send(requests[-1])
                at += size
            for extra in (1, 2):
                bad = Request(1, 4 * at, 1, 15, 0, random.randbytes(4), extra=extra)
                bad.wide = random.random() < 0.5
                await bench.send(bad)
            await bench.send(Request(1, 4 * at, 1, 15, 0, random.randbytes(4), digest=True))
            requests.append(Request(1, 4 * at, 1, 15, 0, random.randbytes(4)))
            await bench.send(requests[-1])
            for _ in range(16):
                await RisingEdge(dut.clk_net_i)
            bench.hold = False
            await bench.idle()
            same(bench.items, bytes_of(bench, requests))
            assert [f.fields["data_dw"] for f in bench.frames] == [64, 1]


@cocotb.test()
async def nothing_reaches_across(dut) -> None:
    """Register write, table change, mark, load, page end, other page: each ends the group."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1

    async def change() -> None:
        await bench.write_page(0, 1, 0x3_0000_1, 0x77)

    async def load() -> None:
        await bench.send(Request(0, 0, 1, 15, 0, tag=9))

    actions = (
        (bench.settings, 2),
        (change, 2),
        (lambda: bench.mark(3, 0x1234), 2),
        (load, 3),
        (lambda: bench.write_peer(1, session=False, compact=True), 2),
    )
    for action, frames in actions:
        await bench.idle_net()
        bench.frames.clear()
        bench.hold = True
        await bench.send(Request(0, 16, 1, 15, 0, random.randbytes(4)))
        await action()
        await bench.send(Request(0, 20, 1, 15, 0, random.randbytes(4)))
        for _ in range(30):
            await RisingEdge(dut.clk_net_i)
        bench.hold = False
        await bench.idle_net()
        total = [f for f in bench.frames if not f.is_load]
        assert [f.fields["data_dw"] for f in total] == [1, 1], action
        assert len(bench.frames) == frames or frames == 2
    # The end of a page, and the same place in another page.
    for second in (Request(1, 0, 1, 15, 0, b"abcd"), Request(4, 24, 1, 15, 0, b"efgh")):
        bench.frames.clear()
        bench.hold = True
        offset = 4092 if second.offset == 0 else 20
        await bench.send(Request(0, offset, 1, 15, 0, random.randbytes(4)))
        await bench.send(second)
        for _ in range(30):
            await RisingEdge(dut.clk_net_i)
        bench.hold = False
        await bench.idle_net()
        assert [f.fields["data_dw"] for f in bench.frames] == [1, 1]


@cocotb.test()
async def a_lone_store_waits_for_nobody(dut) -> None:
    """A store is offered right after the second network edge, merge on or off."""
    # The network side's two edges, or when the look-ups are done.
    looks = (int(dut.PageMapLatency.value), int(dut.PcIdLatency.value))
    net_ps = 8000 if int(dut.Slow.value) else 6400
    page = (looks[0] + 1) * PCIE_PS - 2 * net_ps
    peer = (sum(looks) + 1) * PCIE_PS - 3 * net_ps
    delay = -(-max(page, peer, 0) // PCIE_PS) * PCIE_PS
    for merge in (0, 1):
        for offset in range(100, 6400, 700):
            bench = Bench(dut, offset=offset)
            await bench.start()
            await bench.tables()
            dut.merge_i.value = merge
            for number in range(6):
                bench.valid_edges.clear()
                bench.taken_beats.clear()
                await bench.send(Request(0, 4 * number, 1, 15, 0, random.randbytes(4)))
                await bench.idle()
                last, offered = bench.taken_beats[0], bench.valid_edges[0]
                assert offered - last <= 2 * bench.net_ps + delay
                assert bench.frames[-1].time == offered
            bench.stop()


@cocotb.test()
async def marks_keep_their_place(dut) -> None:
    """Marks, stores and dropped stores: each mark comes behind all that was before it."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    expected: list[tuple] = []
    at = None
    for number in range(300):
        bench.stall = random.choice((0.0, 0.5, 0.97))
        if random.random() < 0.3:
            await bench.mark(number % 20, number)
            expected.append(("mark", number % 20, number))
            if random.random() < 0.3:
                await bench.mark(7, 0xFFFF - number)
                expected.append(("mark", 7, 0xFFFF - number))
        request = random_store(at)
        request.wide = False
        await bench.send(request)
        expected += bytes_of(bench, [request])
        at = (request.page, request.offset + 4 * request.dws)
    bench.stall = 0.0
    await bench.idle()
    same(bench.items, expected)


@cocotb.test()
async def drops_take_one_slot(dut) -> None:
    """A pop without a lock drops one store of a group, however large it is."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    count = 0
    for _ in range(20):
        bench.hold = True
        size = random.randint(1, int(dut.Slots.value))
        for i in range(size):
            await bench.send(Request(2, 4 * i, 1, 15, 0, random.randbytes(4)))
        count += size
        for _ in range(24):
            await RisingEdge(dut.clk_net_i)
        bench.drop = random.choice((1.0, 0.5))
        bench.hold = False
        await bench.idle()
    in_frames = sum(f.fields["data_dw"] for f in bench.frames)
    assert in_frames + bench.dropped == count
    assert bench.merged == in_frames - len(bench.frames)


@cocotb.test()
async def sessions_go_by_the_table(dut) -> None:
    """The session is that of the PC ID, if its entry says so and there is one."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    for page, session in ((0, None), (1, None), (2, 3), (3, None)):
        bench.frames.clear()
        await bench.send(Request(page, 0, 1, 15, 0, b"abcd"))
        await bench.idle()
        got = bench.frames[0].fields["session"]
        assert got >> 8 == int(session is not None)
        assert session is None or got & 0xFF == session
        assert bench.frames[0].fields["pc_id"] == bench.pages[page][0]


# ---- Loads --------------------------------------------------------------------------------------


class Clockwork:
    """Moves now_us_i on."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.now = random.getrandbits(32)
        dut.now_us_i.value = self.now

    async def wait(self, microseconds: int) -> None:
        for _ in range(microseconds):
            self.now = (self.now + 1) & 0xFFFFFFFF
            self.dut.now_us_i.value = self.now
            for _ in range(60):
                await RisingEdge(self.dut.clk_pcie_i)


def load_of(item: tuple) -> tuple[int, int, int]:
    """Tag, number and address of a load's frame."""
    head = item[1].to_bytes(16, "little")
    return head[6], head[4] << 8 | head[5], int.from_bytes(head[8:], "big")


@cocotb.test()
async def loads_of_sessions_are_sent_again(dut) -> None:
    """At each interval, the same tag and number, until the answer or the time-out; others never."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.load_retry_us_i.value = 30
    dut.read_timeout_us_i.value = 100
    # A session's load.
    await bench.send(Request(2, 0x40, 4, 15, 15, tag=0x51))
    await clock.wait(29)
    assert len(bench.items) == 1
    await clock.wait(3)
    assert len(bench.items) == 2 and bench.items[0] == bench.items[1]
    await clock.wait(31)
    assert len(bench.items) == 3 and bench.items[2] == bench.items[0]
    tag, number, address = load_of(bench.items[0])
    assert address == bench.base(2) + 0x40 and bench.items[0][2] == 0x103
    assert (tag, number) == (0, 0)
    await bench.complete(tag, number, 16, 4, 0x103, base=0x1000)
    assert len(bench.completions) == 1
    assert bench.completions[0][12:] == struct.pack("<4I", 0x1000, 0x1001, 0x1002, 0x1003)
    assert bench.completions[0][10] == 0x51
    await bench.idle()
    assert bench.counters == {"load": 1, "retry": 2, "completed": 1}
    # A sessionless load is sent once; it ends in a time-out, as a session's without answer.
    bench.items.clear()
    await bench.send(Request(0, 0, 1, 15, 0, tag=0x52))
    await clock.wait(103)
    assert len(bench.items) == 1 and bench.errors == [(CA, 0x52)]
    bench.items.clear()
    await bench.send(Request(2, 0, 1, 15, 0, tag=0x53))
    await clock.wait(103)
    assert len(bench.items) == 4 and bench.errors[-1] == (CA, 0x53)
    await bench.idle()
    assert bench.counters["timeout"] == 2
    # Switched off, and with the page gone in between.
    bench.items.clear()
    dut.load_retry_us_i.value = 0
    await bench.send(Request(2, 0, 1, 15, 0, tag=0x54))
    await clock.wait(60)
    assert len(bench.items) == 1
    dut.load_retry_us_i.value = 30
    await bench.write_page(2, 0, 0, 0)
    await clock.wait(20)
    assert len(bench.items) == 1
    await clock.wait(25)
    assert bench.errors[-1] == (CA, 0x54)


@cocotb.test()
async def a_completion_counts_once(dut) -> None:
    """Parts go on where the last one ended, or are dropped; others are not for it."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.load_retry_us_i.value = 30
    await bench.send(Request(2, 0x80, 16, 15, 15, tag=0x61))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[0])
    await bench.complete(tag, number, 64, 8, 0x103, base=0)
    await bench.complete(tag, number, 64, 8, 0x103, base=0)  # repeated
    await bench.complete(tag, number ^ 1, 32, 8, 0x103)  # another load's
    await bench.complete(tag, number, 32, 8, 0)  # outside the session
    await bench.complete(tag, number, 32, 8, 0x105)  # of another one
    await bench.complete(tag ^ 0x20, number, 32, 8, 0x103)
    assert len(bench.completions) == 1
    await bench.complete(tag, number, 32, 8, 0x103, base=8)
    assert len(bench.completions) == 2
    await bench.complete(tag, number, 32, 8, 0x103, base=8)  # the load is done
    await bench.idle()
    assert bench.counters == {"load": 1, "completed": 1, "repeated": 1, "unexpected": 5}
    data = b"".join(c[12:] for c in bench.completions)
    assert data == struct.pack("<16I", *range(16))
    # The last part alone, its first one lost.
    await bench.send(Request(2, 0x80, 16, 15, 15, tag=0x64))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 32, 8, 0x103, base=8)
    assert bench.counters["repeated"] == 2
    await bench.complete(tag, number, 64, 16, 0x103)
    await bench.idle()
    assert bench.counters["completed"] == 2
    # The zeros of a refused load say whole DWs; not in the middle of an answer.
    await bench.send(Request(2, 0x80, 2, 12, 3, tag=0x65))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 8, 2, 0x103)
    await bench.idle()
    assert bench.counters["completed"] == 3
    await bench.send(Request(2, 0x80, 4, 12, 15, tag=0x66))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 14, 2, 0x103, lower=2)
    await bench.complete(tag, number, 16, 4, 0x103)
    assert bench.counters["repeated"] == 3
    await bench.complete(tag, number, 8, 2, 0x103)
    await bench.idle()
    assert bench.counters["completed"] == 4
    # What is sent again asks for what has not come; the answer may be split elsewhere.
    for last_be, rest in ((15, 15), (3, 3), (4, 7)):
        done = bench.counters["completed"]
        bench.completions.clear()
        await bench.send(Request(2, 0x80, 6, 8, last_be, tag=0x67))
        await clock.wait(2)
        tag, number, address = load_of(bench.items[-1])
        whole = 24 - 3 - (4 - last_be.bit_length())
        await bench.complete(tag, number, whole, 2, 0x103, lower=3, base=1)
        await clock.wait(30)
        assert load_of(bench.items[-1]) == (tag, number, address + 8)
        assert bench.items[-1][1] >> 56 & 0xFF == last_be << 4 | 15
        await bench.complete(tag, number, whole - 5, 3, 0x103, lower=8, base=3)
        await clock.wait(31)
        assert load_of(bench.items[-1]) == (tag, number, address + 20)
        assert bench.items[-1][1] >> 24 & 0xFF == 1
        assert bench.items[-1][1] >> 56 & 0xFF == rest
        assert bench.counters["completed"] == done
        await bench.complete(tag, number, whole - 17, 1, 0x103, lower=20, base=6)
        await bench.idle()
        assert bench.counters["completed"] == done + 1
        data = b"".join(c[12:] for c in bench.completions)
        assert data == struct.pack("<6I", *range(1, 7))
    # A failure ends the load whatever was left of it.
    await bench.send(Request(2, 0x80, 16, 15, 15, tag=0x62))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 64, 8, 0x103)
    await bench.complete(tag, number, 64, 0, 0x103, status=CA)
    await bench.idle()
    assert bench.counters["completed"] == 8
    # A sessionless load takes what it always took: nobody looks at the count or the number.
    await bench.send(Request(0, 0x80, 16, 15, 15, tag=0x63))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    assert number == 0
    await bench.complete(tag, 0x4711, 64, 8, 0, ip=0x0A000001)
    await bench.complete(tag, 0, 64, 8, 0x103, ip=0x0A000001)
    await bench.complete(tag, 0, 32, 8, 0, ip=0x0A000001)
    await bench.idle()
    assert bench.counters["completed"] == 9


@cocotb.test()
async def numbers_go_on_after_eight(dut) -> None:
    """The number beside the tag counts on when the tag's three bits are used up."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    for turn in range(40):
        await bench.send(Request(2, 4 * turn, 1, 15, 0, tag=turn))
        for _ in range(30):
            await RisingEdge(dut.clk_net_i)
        tag, number, _ = load_of(bench.items[-1])
        tags = int(dut.LoadTags.value)
        assert (tag, number) == (turn % 8 * tags, turn // 8)
        if turn >= 8:
            await bench.complete(tag, number - 1, 4, 1, 0x103, base=0xBAD)
        await bench.complete(tag, number, 4, 1, 0x103, base=turn)
    assert [c[12:] for c in bench.completions] == [struct.pack("<I", t) for t in range(40)]
    assert bench.counters["unexpected"] == 32


@cocotb.test()
async def loads_and_stores_at_random(dut) -> None:
    """Loads whose frames and answers get lost or doubled: each answered once, whole."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.merge_i.value = 1
    dut.load_retry_us_i.value = 3
    dut.read_timeout_us_i.value = 2000
    bench.stall = 0.3
    waiting: deque[tuple[int, int, int, int]] = deque()
    seen = 0
    done = False

    async def answer() -> None:
        """Answer loads that were sent, in parts, some never, some twice."""
        nonlocal seen
        while not done:
            await RisingEdge(dut.clk_pcie_i)
            while seen < len(bench.items):
                item = bench.items[seen]
                seen += 1
                if item[0] != "load" or random.random() < 0.4:
                    continue
                waiting.append(item)
                if random.random() < 0.2:
                    waiting.append(item)
            if waiting and random.random() < 0.05:
                item = waiting.popleft()
                tag, number, address = load_of(item)
                dws = item[1] >> 24 & 0xFF
                # The host splits answers as it likes, each time.
                cut = random.randrange(dws)
                base = address >> 2 & 0xFFFFFFFF
                for first, size in ((0, cut), (cut, dws - cut)) if cut else ((0, dws),):
                    if random.random() < 0.8:
                        await bench.complete(
                            tag, number, 4 * (dws - first), size, 0x103, base=base + first
                        )

    task = cocotb.start_soon(answer())
    ticking = cocotb.start_soon(clock.wait(10**9))
    stores: list[Request] = []
    loads: dict[int, Request] = {}
    at = None
    for number in range(150):
        if random.random() < 0.4:
            for _ in range(100000):
                answered = bench.counters.get("completed", 0)
                if len(loads) - answered < int(dut.LoadTags.value):
                    break
                await RisingEdge(dut.clk_pcie_i)
            else:
                raise AssertionError("loads are not answered")
            dws = random.choice((1, 2, 7, 16))
            load = Request(2, 4 * random.randrange(1000), dws, 15, 15, tag=number)
            loads[number] = load
            await bench.send(load)
        else:
            request = random_store(at)
            stores.append(request)
            await bench.send(request)
            at = (request.page, request.offset + 4 * request.dws)
    for _ in range(200000):
        if bench.counters.get("completed", 0) == len(loads):
            break
        await RisingEdge(dut.clk_pcie_i)
    done = True
    await task
    ticking.cancel()
    await bench.idle()
    assert [i for i in bench.items if i[0] == "byte"] == bytes_of(bench, stores)
    got: dict[int, bytes] = {}
    for completion in bench.completions:
        got[completion[10]] = got.get(completion[10], b"") + completion[12:]
    for number, load in loads.items():
        base = (bench.base(2) + load.offset) >> 2 & 0xFFFFFFFF
        assert got[number] == struct.pack(f"<{load.dws}I", *range(base, base + load.dws))
    assert len(got) == len(loads) and bench.counters["retry"] > 10
    assert bench.counters["repeated"] > 3
    assert not bench.errors


@cocotb.test()
async def stores_do_not_starve_a_load(dut) -> None:
    """Slots that are always full: a load is sent again in time all the same."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.load_retry_us_i.value = 5
    dut.read_timeout_us_i.value = 1000
    bench.stall = 0.8
    ticking = cocotb.start_soon(clock.wait(10**9))
    await bench.send(Request(2, 0, 1, 15, 0, tag=1))
    begin = clock.now
    at = 0
    stores = []
    while (clock.now - begin) % 2**32 < 60:
        stores.append(Request(0, 4 * at, 1, 15, 0, random.randbytes(4)))
        await bench.send(stores[-1])
        at = (at + 2) % 1024
    ticking.cancel()
    loads = [i for i in bench.items if i[0] == "load"]
    assert 8 <= len(loads) <= 12 and len(set(loads)) == 1
    await bench.idle_net(limit=4000)
    same([i for i in bench.items if i[0] == "byte"], bytes_of(bench, stores))


FILELISTS = ["rtl/ipnuma/ipnuma_tx.f", "rtl/ipnuma/ipnuma_rx.f"]


@pytest.mark.parametrize(("slots", "slow", "latencies"), [(16, 0, (2, 1)), (4, 1, (4, 2))])
def test_ipnuma_merge(slots: int, slow: int, latencies: tuple[int, int]) -> None:
    """All tests: the slots of the NIC, and few of them with slow memories at the 1G clock."""
    build_and_run(
        "tb_ipnuma_merge",
        __name__,
        filelists=FILELISTS,
        sources=["verif/ipnuma_merge/tb_ipnuma_merge.sv"],
        parameters={
            "Slots": slots,
            "Slow": slow,
            "PageMapLatency": latencies[0],
            "PcIdLatency": latencies[1],
        },
        # Packages are used in part here.
        build_args=["-Wno-UNUSEDPARAM"],
    )
