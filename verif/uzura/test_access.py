# SPDX-License-Identifier: Apache-2.0
"""Keys and translation: every answer against a model, hits and misses in cycles.

The memory of the card and the host's table are played here, with any latency.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run

MEM_W = 10
PAGES = (12, 16, 21, 30)
HOST_TABLE = 0x7_0000_0000
HIT = 5  # edges from a question taken to its answer, and the memory's latency
MISS = 3  # edges that a miss adds to the time of the DMA read
QUESTIONS = 4000


@dataclass
class Entry:
    """A region."""

    index: int
    valid: int
    window: int
    rights: int
    page: int
    tag: int
    pd: int
    base: int
    length: int
    first: int

    def pack(self) -> int:
        """Return region_t."""
        value = self.valid
        for field, width in (
            (self.window, 1), (self.rights, 4), (self.page, 2), (self.tag, 8), (self.pd, 16),
            (self.base, 64), (self.length, 48), (self.first, 32),
        ):  # fmt: skip
            value = value << width | field
        return value


@dataclass
class Question:
    """Who asks what."""

    key: int
    pd: int
    va: int
    bytes: int
    need: int
    translate: int

    def pack(self) -> int:
        """Return access_t."""
        value = self.key
        for field, width in ((self.pd, 16), (self.va, 64), (self.bytes, 32), (self.need, 4)):
            value = value << width | field
        return value << 1 | self.translate


class Access:
    """Drives uzura_access and plays what is around it."""

    def __init__(self, dut) -> None:
        """Begin with nothing."""
        self.dut = dut
        self.latency = int(dut.MemLatency.value)
        self.memory = [0] * (1 << MEM_W)
        self.pipe: list[int] = []
        self.table: dict[int, int] = {}
        self.regions: dict[int, Entry] = {}
        self.waiting: dict[int, tuple[Question, int]] = {}
        self.answers: list[tuple[int, int, int]] = []  # id, ok, pa
        self.reads: list[tuple[int, int, int]] = []  # due, cookie, entry
        self.delay = (10, 10)
        self.most = 0
        self.asked = 0  # entries of the host
        self.counts = {"miss": 0, "denied": 0, "fault": 0}
        self.cycle = 0
        self.taken_at: dict[int, int] = {}

    async def start(self) -> Access:
        """Reset, and wait until the memory is cleared."""
        dut = self.dut
        Clock(dut.clk_i, 6400, "ps").start()
        dut.rst_i.value = 1
        dut.host_table_i.value = HOST_TABLE
        for name in ("cfg_write", "end", "flush", "forget", "s_rd_valid"):
            getattr(dut, f"{name}_i").value = 0
        dut.req_valid_i.value = 0
        dut.m_rd_ready_i.value = 1
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        while True:
            await self.step()
            if not int(dut.flush_busy_o.value):
                return self

    async def step(self, ask: dict[int, tuple[Question, int]] | None = None) -> list[int]:
        """Go on by one cycle; return which askers were taken."""
        dut = self.dut
        ask = ask or {}
        valid = second = 0
        for asker, (question, number) in ask.items():
            valid |= 1 << asker
            second |= number << asker
            dut.req_i[asker].value = question.pack()
        dut.req_valid_i.value = valid
        dut.req_second_i.value = second
        due = [r for r in self.reads if r[0] <= self.cycle]
        if due:
            read = random.choice(due)
            self.reads.remove(read)
            word = self.table.get(read[2], 0)
            dut.s_rd_i.value = word << 5 | read[1] << 2 | 1 << 1
        dut.s_rd_valid_i.value = int(bool(due))
        await ReadOnly()
        ready = int(dut.req_ready_o.value)
        if int(dut.m_rd_valid_o.value):
            value = int(dut.m_rd_o.value)
            address, size, cookie = value >> 16, value >> 3 & 0x1FFF, value & 7
            assert size == 8 and address % 8 == 0 and cookie >= 4
            entry = (address - HOST_TABLE) // 8
            self.reads.append((self.cycle + random.randint(*self.delay), cookie, entry))
            self.most = max(self.most, len(self.reads))
            self.asked += 1
        for name in self.counts:
            self.counts[name] += int(dut[f"cnt_{name}_o"].value)
        if int(dut.answer_valid_o.value):
            value = int(dut.answer_o.value)
            self.answers.append((value >> 65, value >> 64 & 1, value & (2**64 - 1)))
        if int(dut.mem_re_o.value):
            read_word = self.memory[int(dut.mem_raddr_o.value)]
        else:
            read_word = 0
        write = int(dut.mem_we_o.value)
        if write:
            at, word = int(dut.mem_waddr_o.value), int(dut.mem_wdata_o.value)
        await RisingEdge(dut.clk_i)
        self.cycle += 1
        self.pipe.append(read_word)
        if len(self.pipe) >= self.latency:
            dut.mem_rdata_i.value = self.pipe.pop(0)
        if write:
            self.memory[at] = word
        taken = [a for a in ask if ready >> a & 1]
        for asker in taken:
            question, number = ask[asker]
            self.waiting[2 * asker + number] = (question, self.cycle)
        return taken

    async def set(self, entry: Entry) -> None:
        """Write a region."""
        dut = self.dut
        dut.cfg_region_i.value = entry.pack()
        dut.cfg_index_i.value = entry.index
        dut.cfg_write_i.value = 1
        await self.step()
        dut.cfg_write_i.value = 0
        self.regions[entry.index] = entry

    def expected(self, q: Question) -> tuple[int, int | None]:
        """Return ok and the physical address."""
        entry = self.regions.get(q.key >> 8)
        if entry is None or not entry.valid or entry.window:
            return 0, None
        if entry.tag != q.key & 0xFF or entry.pd != q.pd or q.need & ~entry.rights:
            return 0, None
        if q.va < entry.base or q.va + q.bytes > entry.base + entry.length:
            return 0, None
        if not q.translate:
            return 1, None
        log2 = PAGES[entry.page]
        number = entry.first + (q.va >> log2) - (entry.base >> log2)
        word = self.table.get(number, 0)
        if not word & 1:
            return 0, None
        return 1, (word >> log2 << log2) + q.va % (1 << log2)


def random_entry(bench: Access, index: int) -> Entry:
    """Make a region, and its pages: some are not there."""
    page = random.randrange(4)
    log2 = PAGES[page]
    base = random.randrange(1 << 40) << 12 | random.randrange(4096)
    length = random.choice([1, 8, 4096, 1 << log2, random.randrange(1, 20 << log2)])
    first = random.choice([random.randrange(1 << 13), random.randrange(1 << 30)])
    for i in range((base + length >> log2) - (base >> log2) + 1):
        if first + i not in bench.table:
            frame = random.randrange(1 << (52 - 30)) << 30 | random.randrange(1 << 18) << 12
            # Pages of another size may share an entry's number here: aligned for all.
            bench.table[first + i] = frame >> 30 << 30 | int(random.random() < 0.9)
    return Entry(
        index, int(random.random() < 0.9), int(random.random() < 0.05), random.randrange(16), page,
        random.randrange(256), random.randrange(3), base, length, first,
    )  # fmt: skip


def random_question(bench: Access) -> Question:
    """Ask about the edge of some region, rightly or wrongly."""
    entry = random.choice(list(bench.regions.values()))
    size = random.choice([1, 8, 64, 4096, entry.length % 2**31])
    edge = random.choice([entry.base, entry.base + entry.length - size, entry.base + 4096])
    va = (edge + random.choice([-1, 0, 0, 0, 0, 1, random.randrange(entry.length)])) % 2**64
    right = random.random() < 0.8
    key = entry.index << 8 | (entry.tag if right else random.randrange(256))
    if random.random() < 0.03:
        key = random.getrandbits(32)
    need = entry.rights & random.randrange(16) if right else random.randrange(16)
    pd = entry.pd if random.random() < 0.95 else 7
    return Question(key, pd, va, size, need, int(random.random() < 0.8))


@cocotb.test()
async def answers_are_those_of_the_model(dut) -> None:
    """Both askers, two questions each under way, hits under misses, changes between."""
    bench = await Access(dut).start()
    bench.delay = (5, 60)
    ok = denied = asked = 0
    for round_ in range(8):
        for index in random.sample(range(256), 12):
            await bench.set(random_entry(bench, index))
        offers: dict[int, tuple[Question, int]] = {}
        end = QUESTIONS * (round_ + 1) // 8
        while asked < end or offers or bench.waiting:
            for asker in (0, 1):
                free = [n for n in (0, 1) if 2 * asker + n not in bench.waiting]
                if asker not in offers and free and asked < end and random.random() < 0.6:
                    offers[asker] = (random_question(bench), random.choice(free))
                    asked += 1
            for asker in await bench.step(offers):
                del offers[asker]
            for number, is_ok, pa in bench.answers:
                question, _ = bench.waiting.pop(number)
                want_ok, want_pa = bench.expected(question)
                assert is_ok == want_ok, f"{question}"
                assert want_pa is None or pa == want_pa, f"{question}: {pa:#x}, not {want_pa:#x}"
                ok, denied = ok + want_ok, denied + 1 - want_ok
            bench.answers.clear()
        # Pages move: after a flush nothing of before is believed.
        for number in random.sample(list(bench.table), len(bench.table) // 2):
            bench.table[number] = random.randrange(1 << 22) << 30 | 1
        dut.flush_i.value = 1
        await bench.step()
        dut.flush_i.value = 0
        while int(dut.flush_busy_o.value):
            await bench.step()
    assert ok > QUESTIONS // 5 and denied > QUESTIONS // 5
    assert bench.most >= 3, f"{bench.most} misses at once"
    assert bench.counts["miss"] == bench.asked
    assert bench.counts["denied"] + bench.counts["fault"] == denied
    dut._log.info("%d granted, %d denied, %d misses at once", ok, denied, bench.most)


@cocotb.test()
async def latency(dut) -> None:
    """A hit and a miss in cycles; one entry forgotten is a miss again."""
    bench = await Access(dut).start()
    bench.delay = (20, 20)
    bench.table[3] = 0x5000 | 1
    await bench.set(Entry(1, 1, 0, 15, 0, 9, 1, 0x10000, 4096, 3))
    found = []
    for number in range(4):
        if number == 2:
            dut.forget_i.value, dut.forget_entry_i.value = 1, 3
            await bench.step()
            dut.forget_i.value = 0
        offer = {0: (Question(0x109, 1, 0x10010, 8, 0, 1), 0)}
        while not await bench.step(offer):
            pass
        begun = bench.cycle
        bench.answers.clear()
        while not bench.answers:
            await bench.step()
        assert bench.answers[0] == (0, 1, 0x5010)
        # The answer stood before this edge.
        found.append(bench.cycle - begun)
        await bench.step()
    dut._log.info("cycles: miss %d (the host's 20 in it), hit %d", found[0], found[1])
    assert found[1] == found[3] == HIT + bench.latency
    assert found[0] == found[2] == HIT + bench.latency + MISS + 20


@cocotb.test()
async def reset_at_any_time(dut) -> None:
    """A reset in any cycle of a miss: nothing of it is answered, read or counted afterwards."""
    bench = await Access(dut).start()
    bench.delay = (2, 2)
    bench.table[3] = 0x5000 | 1
    for wait in range(HIT + bench.latency + MISS + 6):
        await bench.set(Entry(1, 1, 0, 15, 0, 9, 1, 0x10000, 4096, 3))
        while not await bench.step({0: (Question(0x109, 1, 0x10010, 8, 0, 1), 0)}):
            pass
        dut.req_valid_i.value = 0
        for _ in range(wait):
            await bench.step()
        dut.rst_i.value = 1
        await bench.step()
        await bench.step()
        dut.rst_i.value = 0
        bench.reads.clear()
        bench.answers.clear()
        before = dict(bench.counts), bench.asked
        for _ in range(1 << MEM_W):
            await bench.step()
        while int(dut.flush_busy_o.value):
            await bench.step()
        assert (bench.counts, bench.asked) == before and not bench.answers, f"{wait} cycles"


@pytest.mark.parametrize("mem_latency", [1, 3])
def test_access(mem_latency: int) -> None:
    """Keys and pages, with a fast and a slow memory."""
    build_and_run(
        "uzura_access", __name__, filelists=["rtl/uzura/uzura.f"],
        parameters={"MemLatency": mem_latency, "MemW": MEM_W},
    )  # fmt: skip
