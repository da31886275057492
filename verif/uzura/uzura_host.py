# SPDX-License-Identifier: Apache-2.0
"""Hosts for two UZURA engines: memory behind DMA ports, a driver as docs/uzura.md asks for one,
and a channel between them.

Descriptors and registers are written here from the document, not from the RTL. Reads are answered
late and in any order between cookies; writes must lie where the driver has said that they may.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import roce
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

IN_BITS, OUT_BITS = 242, 379
MEMORY = 1 << 23
PAGE = 4096
CONTROL = 1 << 18
COMMAND, WORDS, COUNTERS = CONTROL + 0x20, CONTROL + 0x40, CONTROL + 0x100
SET_QP, BEGIN_QP, SET_REGION, SET_CQ, FORGET, FLUSH, RESUME_QP = 1, 2, 3, 4, 5, 6, 7
BEGIN_SRQ, SET_SRQ, LOOK_QP = 8, 9, 10
BELOW, ENDED, HELD = CONTROL + 0x28, CONTROL + 0x30, CONTROL + 0x38
OVERFLOW = CONTROL + 0x80
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 1, 2, 4, 8
SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ, CAS, FADD = range(8)
SUCCESS, LOC_LEN, LOC_QP_OP, LOC_PROT, FLUSHED, BAD_RESP = 0, 1, 2, 4, 5, 7
REM_INVALID, REM_ACCESS, REM_OPERATION, RETRY, RNR_RETRY = 9, 10, 11, 12, 13
INIT, RTR, RTS, ERROR = 1, 2, 3, 6

COUNTER_NAMES = (
    "rx_other rx_broken rx_malformed rx_overflow rx_packet rx_no_qp rx_duplicate rx_sequence "
    "rx_invalid rx_access rx_operation rx_not_ready rx_ghost rx_congestion access_denied "
    "table_miss table_fault tx_packet tx_rewind tx_timeout tx_bad_wqe cqe cqe_error cq_overflow "
    "doorbell doorbell_refused inline_taken read_bad"
).split()

# Lowest bit of each field of what goes in and comes out (uzura_pair.sv).
REG_VALID, RD_VALID, RX_VALID, RD_READY, WR_READY, WR_DATA_READY, TX_READY = range(8, 15)
REG_WRITE, RX_LAST, REG_ADDR, REG_WDATA = 15, 16, 17, 36
RD_DATA, RD_COOKIE, RD_LAST, RD_BAD, RX_DATA, RX_KEEP = 100, 164, 167, 168, 169, 233
O_RD, O_WR, O_WDATA, O_TX, O_REG, O_RDREADY, O_EVENT, O_BUSY = (1 << n for n in range(6, 14))
M64 = (1 << 64) - 1


@dataclass
class Cqe:
    """A completion."""

    bytes: int
    imm: int
    qpn: int
    src_qpn: int
    index: int
    op: int
    is_recv: bool
    has_imm: bool
    has_inv: bool
    key: int
    status: int

    @classmethod
    def unpack(cls, data: bytes) -> Cqe:
        """Read the 32 bytes."""
        size, imm, w1, w2, w3 = struct.unpack("<IIQQQ", data)
        return cls(
            size, imm, w1 & 0xFFFFFF, w1 >> 24 & 0xFFFFFF, w2 & 0xFFFF, w2 >> 16 & 0xFF,
            bool(w2 >> 29 & 1), bool(w2 >> 30 & 1), bool(w2 >> 31 & 1), w2 >> 32, w3 & 0xFF,
        )  # fmt: skip


@dataclass
class Region:
    """A registered memory region."""

    engine: Engine
    index: int
    key: int
    va: int
    length: int
    pages: list[int]  # physical
    page_bytes: int
    pd: int
    entry: int

    def pieces(self, va: int, length: int) -> list[tuple[int, int]]:
        """Return where bytes lie."""
        out = []
        base = self.va - self.va % self.page_bytes
        while length:
            page, offset = divmod(va - base, self.page_bytes)
            take = min(length, self.page_bytes - offset)
            out.append((self.pages[page] + offset, take))
            va, length = va + take, length - take
        return out

    def read(self, offset: int, length: int) -> bytes:
        """Read bytes at an offset."""
        memory = self.engine.memory
        return b"".join(memory[a : a + n] for a, n in self.pieces(self.va + offset, length))

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes at an offset."""
        for address, count in self.pieces(self.va + offset, len(data)):
            self.engine.memory[address : address + count] = data[:count]
            data = data[count:]


def cuts_of(size: int, count: int) -> list[int]:
    """Draw where bytes are cut; some of what lies between is empty."""
    return sorted(random.choice([random.randrange(size + 1), 0, size]) for _ in range(count))


@dataclass
class Segments:
    """Bytes that lie in several places: (region, offset, bytes) each."""

    parts: list[tuple[Region, int, int]]

    @classmethod
    def draw(cls, regions: list[Region], size: int, count: int) -> Segments:
        """Cut bytes at random, into places that do not overlap; some may be empty."""
        cuts = cuts_of(size, count - 1)
        parts = []
        for i, (a, b) in enumerate(zip([0, *cuts], [*cuts, size], strict=True)):
            region = random.choice(regions)
            lane = region.length // count
            parts.append((region, lane * i + random.randrange(lane - (b - a) + 1), b - a))
        return cls(parts)

    @classmethod
    def cut(cls, region: Region, at: int, size: int, count: int) -> Segments:
        """Cut bytes at random, into places side by side, in any order; some may be empty."""
        cuts = cuts_of(size, count - 1)
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
        parts = [(region, at, 0)] * count
        for i in random.sample(range(count), count):
            parts[i] = (region, at, sizes[i])
            at += sizes[i]
        return cls(parts)

    def list(self) -> list[tuple[int, int, int]]:
        """Return their addresses, keys and lengths."""
        return [(region.va + at, region.key, size) for region, at, size in self.parts]

    def read(self) -> bytes:
        """Read all."""
        return b"".join(region.read(at, size) for region, at, size in self.parts)

    def write(self, data: bytes) -> None:
        """Write all."""
        for region, at, size in self.parts:
            region.write(at, data[:size])
            data = data[size:]


@dataclass
class Cq:
    """A completion queue."""

    engine: Engine
    number: int
    base: int
    log2: int
    seen: int = 0

    def poll(self) -> Cqe | None:
        """Take the next completion, if it is there."""
        at = self.base + 32 * (self.seen & ((1 << self.log2) - 1))
        data = bytes(self.engine.memory[at : at + 32])
        # The owner bit is 1 in the first turn.
        if data[31] >> 7 == (self.seen >> self.log2) & 1:
            return None
        self.seen += 1
        self.engine.write(0x10, (self.number << 32) | (self.seen & 0xFFFF))
        return Cqe.unpack(data)


@dataclass
class Qp:
    """A queue pair."""

    engine: Engine
    number: int
    scq: Cq
    rcq: Cq
    pd: int
    page: int
    sq: int
    rq: int
    log2: int
    settings: dict
    sent: int = 0
    posted: int = 0
    psn: int = 0
    peer_psn: int = 0
    rq_segments: int = 0  # log2 of those of an entry
    srq: Srq | None = None

    def words(self) -> list[int]:
        """Return what the engine is to know."""
        s = self.settings
        w0 = self.page | s["state"] << 8 | s["ud"] << 11 | s["mtu"] << 12 | s["timeout"] << 16
        w0 |= s["retry"] << 24 | s["rnr_retry"] << 28 | s["min_rnr"] << 32 | s["rights"] << 40
        w0 |= s["rd_atomic"] << 44 | self.pd << 48
        w1 = s["dqpn"] | self.scq.number << 24 | self.rcq.number << 32
        w1 |= self.rq_segments << 38 | self.log2 << 40 | self.log2 << 44 | s["port"] << 48
        w4 = s["ip"] | s["qkey"] << 32
        w5 = s["mac"] | (self.srq.number | 1 << 4 if self.srq else 0) << 48
        return [w0, w1, self.sq, self.rq, w4, w5, self.psn | self.peer_psn << 32]

    async def set(self, begin: bool = False, **changes) -> None:
        """Tell the engine."""
        self.settings |= changes
        if begin:
            self.sent = self.posted = 0
        await self.engine.command(BEGIN_QP if begin else SET_QP, self.number, *self.words())

    async def resume(self, **changes) -> None:
        """Let the requester begin anew, and nothing else."""
        self.settings |= changes
        self.sent = 0
        await self.engine.command(RESUME_QP, self.number, *self.words())

    def wqe(self, op: int, **f) -> bytes:
        """Lay out a send queue's entry; `segments` are addresses, keys and lengths."""
        segments = f.get("segments") or [(f.get("laddr", 0), f.get("lkey", 0), f.get("length", 0))]
        more = f.get("more", len(segments) - 1)
        (laddr, lkey, first), behind, sixth = segments[0], segments[1:5], segments[5:]
        kept = 0
        if sixth:
            f["raddr"], f["rkey"], kept = sixth[0]
        flags = op | f.get("signaled", 1) << 8 | f.get("solicited", 0) << 9
        flags |= int("inline" in f) << 10 | more << 11 | f.get("fence", 0) << 15
        length = len(f["inline"]) if "inline" in f else sum(size for _, _, size in segments)
        head = struct.pack(
            "<IIQIIQIIQQQ", flags, f.get("imm", 0), f.get("raddr", 0), f.get("rkey", 0),
            f.get("claimed", length), laddr, lkey, f.get("type_id", 0),
            f.get("swap", 0), f.get("compare", 0), (first if more else 0) | kept << 32,
        )  # fmt: skip
        half = f.get("inline", b"") + b"".join(struct.pack("<QII", a, k, n) for a, k, n in behind)
        return head + half.ljust(64, b"\xee")

    def post(self, op: int, doorbell: bool = True, **f) -> int:
        """Post a work request; return its index."""
        entry = self.wqe(op, **f)
        at = self.sq + 128 * (self.sent & ((1 << self.log2) - 1))
        self.engine.memory[at : at + 128] = entry
        index = self.sent & 0xFFFF
        self.sent += 1
        copy = f.get("copy", False)
        if copy:
            for i in range(16 if "inline" in f or "segments" in f else 8):
                (word,) = struct.unpack_from("<Q", entry, 8 * i)
                self.engine.write(self.page << 12 | 0x800 | 8 * i, word)
        if doorbell:
            self.ring(copy)
        return index

    def ring(self, copy: bool = False) -> None:
        """Ring the doorbell."""
        value = (self.sent & 0xFFFF) | self.number << 32 | int(copy) << 63
        self.engine.write(self.page << 12, value)

    def receive(self, addr: int, key: int, length: int) -> int:
        """Post a receive buffer; return its index."""
        return self.receive_list((addr, key, length))

    def receive_list(self, *segments: tuple[int, int, int]) -> int:
        """Post a receive buffer of several segments; return its index."""
        size = 16 << self.rq_segments
        at = self.rq + size * (self.posted & ((1 << self.log2) - 1))
        entry = b"".join(struct.pack("<QII", a, k, n) for a, k, n in segments).ljust(size, b"\0")
        assert len(entry) == size, "more segments than an entry of this queue has"
        self.engine.memory[at : at + size] = entry
        index = self.posted & 0xFFFF
        self.posted += 1
        value = (self.posted & 0xFFFF) | self.number << 32
        self.engine.write(self.page << 12 | 8, value)
        return index


@dataclass
class Srq:
    """A shared receive queue, whose places become free in any order."""

    engine: Engine
    number: int
    base: int
    log2: int
    listed: bool
    pd: int
    page: int
    limit: int = 0
    posted: int = 0
    places: deque = field(default_factory=deque)  # free ones, in the order of their links
    taken: set = field(default_factory=set)  # posted, and not yet completed

    @property
    def size(self) -> int:
        """Return the bytes of an entry."""
        return 64 if self.listed else 32

    async def set(self, begin: bool = False, limit: int = 0, used: int = 1) -> None:
        """Tell the engine; with `begin` it is empty."""
        if begin:
            self.posted = 0
            self.taken.clear()
            self.places = deque(range(1 << self.log2))
            for place in range(1 << self.log2):
                self.link(place, place + 1)
        self.limit = limit
        word = self.log2 | int(self.listed) << 4 | used << 8 | self.page << 16
        word |= self.pd << 32 | limit << 48
        await self.engine.command(BEGIN_SRQ if begin else SET_SRQ, self.number, self.base, word)

    def link(self, place: int, to: int) -> None:
        """Say which place is behind another one: in the word behind its segments."""
        at = self.base + self.size * place + (48 if self.listed else 16)
        struct.pack_into("<Q", self.engine.memory, at, to & ((1 << self.log2) - 1))

    def full(self) -> bool:
        """Return whether no entry can be posted: one place stays free, as the list's end."""
        return len(self.places) < 2

    def receive_list(self, *segments: tuple[int, int, int], doorbell: bool = True) -> int:
        """Post a buffer; return its place."""
        place = self.places.popleft()
        entry = b"".join(struct.pack("<QII", a, k, n) for a, k, n in segments)
        entry = entry.ljust(48 if self.listed else 16, b"\0")
        assert len(entry) <= self.size - 16, "more segments than an entry of this queue has"
        at = self.base + self.size * place
        self.engine.memory[at : at + len(entry)] = entry
        self.taken.add(place)
        self.posted += 1
        if doorbell:
            self.ring()
        return place

    def ring(self) -> None:
        """Ring the doorbell."""
        value = (self.posted & 0xFFFF) | self.number << 32
        self.engine.write(self.page << 12 | 0x18, value)

    def free(self, place: int) -> None:
        """Take a place back, in whatever order."""
        self.taken.remove(place)
        self.link(self.places[-1], place)
        self.places.append(place)


@dataclass
class Engine:
    """One engine's host: memory, ports, driver."""

    bench: Bench
    number: int
    mac: int
    ip: int
    memory: bytearray = field(default_factory=lambda: bytearray(MEMORY))
    may_write: bytearray = field(default_factory=lambda: bytearray(MEMORY))
    delay: tuple[int, int] = (20, 20)  # cycles of a DMA read
    stall: float = 0.0  # how often a port is not ready
    unreadable: range = range(0)  # a read that begins here cannot be answered

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.next_page = PAGE
        self.next = {"region": 1, "cq": 0, "qp": 1, "entry": 0, "srq": 0}
        self.table = self.take(1 << 16)
        self.regs: deque = deque()
        self.answers: deque = deque()
        self.reads: dict[int, deque] = {}
        self.answering: deque | None = None
        self.answer_bad = False
        self.pending: deque = deque()  # reads that wait for writes
        self.writing: list | None = None
        self.tx = bytearray()
        self.rx: deque = deque()
        self.events: list[int] = []
        self.alarms = 0
        self.marks: dict[str, list[int]] = {}
        self.writes: list[tuple[int, int]] = []
        self.given = 0
        self.busy = True

    # ---- Memory -----------------------------------------------------------------------------
    def take(self, size: int, align: int = PAGE) -> int:
        """Take physical memory."""
        at = -(-self.next_page // align) * align
        self.next_page = at + -(-size // PAGE) * PAGE
        assert self.next_page <= MEMORY, "the bench's memory is full"
        return at

    def permit(self, address: int, size: int, yes: bool = True) -> None:
        """Say whether the engine may write there."""
        self.may_write[address : address + size] = (b"\x01" if yes else b"\x00") * size

    # ---- Registers --------------------------------------------------------------------------
    def write(self, address: int, value: int) -> None:
        """Write a register some time."""
        self.regs.append((address, value))

    async def read(self, address: int) -> int:
        """Read a register."""
        self.answers.clear()
        self.regs.append((address, None))
        await self.bench.until(lambda: self.answers)
        return self.answers.popleft()

    async def command(self, op: int, index: int, *words: int) -> None:
        """Run a command to its end."""
        for i, word in enumerate(words):
            self.write(WORDS + 8 * i, word)
        self.write(COMMAND, index << 8 | op)
        while await self.read(COMMAND):
            pass

    async def counters(self) -> dict[str, int]:
        """Read all counters."""
        return {n: await self.read(COUNTERS + 8 * i) for i, n in enumerate(COUNTER_NAMES)}

    async def begin(self) -> None:
        """Set what is the same for all."""
        self.write(CONTROL + 0x08, self.mac)
        self.write(CONTROL + 0x10, self.ip)
        self.write(CONTROL + 0x18, self.table)
        while await self.read(COMMAND):
            pass

    # ---- Driver -----------------------------------------------------------------------------
    async def cq(self, log2: int = 7) -> Cq:
        """Make a completion queue."""
        number = self.next["cq"]
        self.next["cq"] += 1
        base = self.take(32 << log2)
        self.permit(base, 32 << log2)
        await self.command(SET_CQ, number, base, log2)
        return Cq(self, number, base, log2)

    async def region(
        self, length: int, rights: int, pd: int = 1, page: int = 0, offset: int = 0,
        scatter: bool = True,
    ) -> Region:  # fmt: skip
        """Register memory: virtual pages in any physical order."""
        page_bytes = 1 << (12, 16, 21, 30)[page]
        count = -(-(offset + length) // page_bytes)
        pages = [self.take(page_bytes, page_bytes) for _ in range(count)]
        if scatter:
            random.shuffle(pages)
        entry = self.next["entry"]
        self.next["entry"] += count
        for i, physical in enumerate(pages):
            struct.pack_into("<Q", self.memory, self.table + 8 * (entry + i), physical | 1)
        index = self.next["region"]
        self.next["region"] += 1
        tag = random.getrandbits(8)
        va = random.getrandbits(46) * page_bytes % (1 << 62) + offset
        region = Region(
            self, index, index << 8 | tag, va, length, pages, page_bytes, pd, entry
        )
        await self.set_region(region, rights, page)
        if rights & (LOCAL_WRITE | REMOTE_WRITE | REMOTE_ATOMIC):
            for address, size in region.pieces(va, length):
                self.permit(address, size)
        return region

    async def set_region(self, region: Region, rights: int, page: int = 0, valid: int = 1) -> None:
        """Write a region's entry."""
        word = valid | page << 2 | rights << 4 | (region.key & 0xFF) << 8 | region.pd << 16
        word |= region.entry << 32
        await self.command(SET_REGION, region.index, word, region.va, region.length)

    async def srq(self, log2: int = 4, listed: bool = False, pd: int = 1, **settings) -> Srq:
        """Make a shared receive queue."""
        number = settings.pop("number", self.next["srq"])
        self.next["srq"] += 1
        page = settings.pop("page", number)
        base = self.take((64 if listed else 32) << log2)
        out = Srq(self, number, base, log2, listed, pd, page)
        await out.set(begin=True, **settings)
        return out

    async def qp(self, scq: Cq, rcq: Cq, pd: int = 1, log2: int = 6, **settings) -> Qp:
        """Make a queue pair, not yet connected."""
        number = settings.pop("number", self.next["qp"])
        self.next["qp"] += 1
        defaults = dict(
            state=INIT, ud=0, mtu=3, timeout=6, retry=7, rnr_retry=7, min_rnr=1, rights=14,
            rd_atomic=4, dqpn=0, port=0xC000 + number, ip=0, qkey=0, mac=0,
        )  # fmt: skip
        page = settings.pop("page", number % 64)
        rq_segments = settings.pop("rq_segments", 0)
        srq = settings.pop("srq", None)
        sq, rq = self.take(128 << log2), self.take(16 << rq_segments << log2)
        return Qp(
            self, number, scq, rcq, pd, page, sq, rq, log2, defaults | settings,
            rq_segments=rq_segments, srq=srq,
        )  # fmt: skip

    # ---- One cycle --------------------------------------------------------------------------
    def inputs(self) -> int:
        """Choose what goes in for the next edge."""
        value = 0
        stall = self.stall
        if stall:
            for bit in (RD_READY, WR_READY, WR_DATA_READY, TX_READY):
                if random.random() >= stall:
                    value |= 1 << bit
        else:
            value = 1 << RD_READY | 1 << WR_READY | 1 << WR_DATA_READY | 1 << TX_READY
        if self.regs:
            address, data = self.regs[0]
            value |= 1 << REG_VALID | address << REG_ADDR
            if data is not None:
                value |= 1 << REG_WRITE | data << REG_WDATA
        if self.rx:
            word, keep, last, _ = self.rx[0]
            value |= 1 << RX_VALID | last << RX_LAST | word << RX_DATA | keep << RX_KEEP
        if self.answering is None and self.reads:
            now = self.bench.cycle
            due = [c for c, q in self.reads.items() if q and q[0][0] <= now]
            if due:
                cookie = random.choice(due)
                _, address, size = self.reads[cookie].popleft()
                self.answer_bad = address in self.unreadable
                data = bytes(self.memory[address : address + size])
                beats = [int.from_bytes(data[i : i + 8], "little") for i in range(0, size, 8)]
                end = len(beats) - 1
                self.answering = deque((cookie, b, i == end) for i, b in enumerate(beats))
        if self.answering:
            cookie, word, last = self.answering[0]
            value |= 1 << RD_VALID | word << RD_DATA | cookie << RD_COOKIE | last << RD_LAST
            value |= self.answer_bad << RD_BAD
        self.given = value
        return value

    def mark(self, name: str) -> None:
        """Remember when something happened."""
        self.marks.setdefault(name, []).append(self.bench.cycle)

    def outputs(self, out: int) -> None:
        """Look at what comes out, with what is taken at the edge that follows."""
        given = self.given
        if given >> REG_VALID & 1:
            address, data = self.regs.popleft()
            if data is not None and address < CONTROL:
                self.mark("doorbell")
        if given >> RX_VALID & 1:
            if self.rx.popleft()[3]:
                self.mark("rx_first")
        if self.answering and out & O_RDREADY:
            self.answering.popleft()
            if not self.answering:
                self.answering = None
        if out & O_RD and given >> RD_READY & 1:
            address, size = out >> 14 & M64, out >> 78 & 0x1FFF
            cookie = out >> 91 & 7
            assert size and address % PAGE + size <= PAGE, "a read crosses 4 KB, or is empty"
            assert address + size <= MEMORY, f"a read of {address:#x} outside memory"
            self.mark(f"read{cookie}")
            # A read does not pass writes taken before it.
            if self.writing is not None:
                self.pending.append((cookie, address, size))
            else:
                self.ask(cookie, address, size)
        if out & O_WR and given >> WR_READY & 1:
            address, size = out >> 94 & M64, out >> 158 & 0x1FFF
            assert self.writing is None, "a write begins before the one before has its data"
            assert size and address % PAGE + size <= PAGE, "a write crosses 4 KB, or is empty"
            allowed = self.may_write[address : address + size]
            assert len(allowed) == size and allowed.count(1) == size, (
                f"engine {self.number} writes {size} bytes to {address:#x}, where it must not"
            )
            self.writing = [address, size]
            self.writes.append((address, size))
            self.mark("write")
        if out & O_WDATA and given >> WR_DATA_READY & 1:
            assert self.writing is not None, "data without a write"
            address, left = self.writing
            take = min(8, left)
            word = (out >> 171 & M64).to_bytes(8, "little")
            self.memory[address : address + take] = word[:take]
            last = out >> 235 & 1
            assert bool(last) == (left <= 8), "a write's data have another length"
            self.writing = None if last else [address + take, left - take]
            if last:
                for read in self.pending:
                    self.ask(*read)
                self.pending.clear()
        if out & O_TX and given >> TX_READY & 1:
            if not self.tx:
                self.mark("tx_first")
            keep = out >> 300 & 0xFF
            self.tx += (out >> 236 & M64).to_bytes(8, "little")[: keep.bit_length()]
            if out >> 308 & 1:
                self.mark("tx_last")
                self.bench.sent(self, bytes(self.tx))
                self.tx = bytearray()
        if out & O_REG:
            self.answers.append(out >> 309 & M64)
        if out & O_EVENT:
            self.events.append(out >> 373)
        self.alarms += out >> 5 & 1
        self.busy = bool(out & O_BUSY)

    def reads_left(self) -> bool:
        """Return whether the host owes data."""
        return bool(self.answering or self.pending or any(self.reads.values()))

    def ask(self, cookie: int, address: int, size: int) -> None:
        """Answer a read later."""
        when = self.bench.cycle + random.randint(*self.delay)
        self.reads.setdefault(cookie, deque()).append((when, address, size))

    def arrive(self, frame: bytes) -> None:
        """Let a frame arrive."""
        for i in range(0, len(frame), 8):
            part = frame[i : i + 8]
            word = int.from_bytes(part, "little")
            self.rx.append((word, (1 << len(part)) - 1, int(i + 8 >= len(frame)), i == 0))


class Bench:
    """Clock, two engines, and what lies between them."""

    def __init__(self, dut) -> None:
        """Take the DUT; `start` does the rest."""
        self.dut = dut
        self.cycle = 0
        self.engines = [
            Engine(self, 0, roce.MAC_A, roce.IP_A),
            Engine(self, 1, roce.MAC_B, roce.IP_B),
        ]
        self.wire: list[tuple[int, int, int, bytes]] = []  # (cycle, order, to, frame)
        self.order = 0
        self.latency = 10
        self.channel: Callable[[int, bytes], list[tuple[int, bytes]]] | None = None
        self.frames: list[tuple[int, bytes]] = []
        self.keep_frames = True

    def sent(self, engine: Engine, frame: bytes) -> None:
        """Carry a frame that an engine has sent."""
        if self.keep_frames:
            self.frames.append((engine.number, frame))
        copies = [(0, frame)]
        if self.channel:
            copies = self.channel(engine.number, frame)
        for delay, copy in copies:
            self.order += 1
            due = self.cycle + self.latency + delay
            self.wire.append((due, self.order, 1 - engine.number, copy))
        self.wire.sort()

    async def start(self) -> Bench:
        """Reset, and set up both engines."""
        dut = self.dut
        Clock(dut.clk_i, 6400, "ps").start()
        dut.rst_i.value = 1
        dut.in_i.value = 0
        for _ in range(4):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        for engine in self.engines:
            await engine.begin()
        return self

    async def step(self) -> None:
        """Go on by one cycle."""
        a, b = self.engines
        self.dut.in_i.value = b.inputs() << IN_BITS | a.inputs()
        await ReadOnly()
        out = int(self.dut.out_o.value)
        a.outputs(out & ((1 << OUT_BITS) - 1))
        b.outputs(out >> OUT_BITS)
        await RisingEdge(self.dut.clk_i)
        self.cycle += 1
        while self.wire and self.wire[0][0] <= self.cycle:
            _, _, to, frame = self.wire.pop(0)
            self.engines[to].arrive(frame)

    async def until(self, condition: Callable[[], object], limit: int = 200_000) -> None:
        """Go on until something holds."""
        end = self.cycle + limit
        while not condition():
            assert self.cycle < end, f"nothing within {limit} cycles"
            await self.step()

    async def steps(self, count: int) -> None:
        """Go on for some cycles."""
        for _ in range(count):
            await self.step()

    async def quiet(self) -> None:
        """Wait until nothing is under way."""
        await self.until(lambda: not (self.wire or any(e.busy or e.rx or e.regs or e.reads_left()
                                                       for e in self.engines)))

    async def poll(self, cq: Cq, limit: int = 200_000) -> Cqe:
        """Wait for a completion."""
        found: list[Cqe] = []

        def there() -> bool:
            cqe = cq.poll()
            if cqe:
                found.append(cqe)
            return bool(cqe)

        await self.until(there, limit)
        return found[0]

    async def connect(self, a: Qp, b: Qp) -> None:
        """Connect two RC queue pairs."""
        a.psn, b.psn = random.getrandbits(24), random.getrandbits(24)
        for one, other in ((a, b), (b, a)):
            one.peer_psn = other.psn
            await one.set(
                begin=True, state=RTS, dqpn=other.number, ip=other.engine.ip, mac=other.engine.mac
            )
