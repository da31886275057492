# SPDX-License-Identifier: Apache-2.0
"""The bench around the path from stores of the CPU to frames, and what merging makes of stores."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer, with_timeout
from cocotb.utils import get_sim_time

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
        while True:
            await ReadOnly()
            waiting = int(self.dut.busy_rx_o.value)
            await RisingEdge(self.dut.clk_pcie_i)
            if not waiting:
                break
        self.dut.settings_write_i.value = 1
        await RisingEdge(self.dut.clk_pcie_i)
        self.dut.settings_write_i.value = 0

    async def mark(self, pc_id: int, cookie: int) -> None:
        """A flush mark, as the register writes it: behind the TLPs before it."""
        dut = self.dut
        while True:
            await ReadOnly()
            ready = int(dut.mark_ready_o.value) and not int(dut.busy_rx_o.value)
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
    data = random.randbytes(4 * dws)
    request = Request(page, offset, dws, first_be, last_be, data, wide=random.random() < 0.3)
    # It is no data, and keeps nothing from being joined.
    request.digest = random.random() < 0.2
    return request


def spoil(request: Request) -> Request:
    """Make it one that is refused or malformed."""
    kind = random.randrange(3)
    if kind == 0:
        request.poisoned = True
    elif kind == 1:
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
