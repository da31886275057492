# SPDX-License-Identifier: Apache-2.0
"""Bench of the lookup: every answer against a longest match that knows nothing of tables.

Lookups of both families begin back to back or with gaps; every answer must come exactly as many
cycles later as the table below says. While tables change, an answer must be that of the routes
before or after the one change under way.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from fib_ref import (
    DRAIN,
    SRAM22,
    SRAM22_NEXT_HOP,
    Full,
    Prefix,
    Routes,
    Table4,
    Table6,
    Write,
    answer,
    longest_match,
    mask,
    sram22_word,
)
from harness import build_and_run

# ReadLatency, SumRegister, OutRegister, ByteDelay: edges from valid to valid, IPv4 and IPv6.
LATENCIES = {
    (2, 0, 0, 0): (6, 18),
    (1, 1, 1, 0): (5, 18),
    (2, 0, 0, 1): (6, 18),
}


@dataclass
class Family:
    """One address family: its table, the routes at each version, and lookups under way."""

    table: Table4 | Table6
    latency: int
    first_bytes: int
    versions: list[Routes] = field(default_factory=lambda: [{}])
    pipe: deque[tuple[int, int] | None] = field(default_factory=deque)
    first_word: list[int] = field(default_factory=lambda: [0])  # edge of each version's first word
    last_word: list[int] = field(default_factory=lambda: [0])
    checked: int = 0
    hits: int = 0
    overlapped: int = 0
    memo: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return self.table.width

    def expect(self, version: int, key: int) -> int:
        """Return the answer of the routes of one version."""
        if (version, key) not in self.memo:
            leaf = longest_match(self.versions[version], key, self.width)
            self.memo[version, key] = answer(leaf)
        return self.memo[version, key]


class Bench:
    """Drives both families and the write port, one edge a step."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.rand = random.Random(cocotb.RANDOM_SEED)
        parameters = tuple(
            int(getattr(dut, name).value)
            for name in ("ReadLatency", "SumRegister", "OutRegister", "ByteDelay")
        )
        self.byte_delay = parameters[3]
        latency4, latency6 = LATENCIES[parameters]
        self.v4 = Family(Table4(4096, 64, 4), latency4, 3)
        self.v6 = Family(Table6([512, 512, 256, 256, 256, 256, 256], 8192, 4, 32), latency6, 2)
        self.edge = 10  # later than the empty tables at edge 0
        self.writes: deque[tuple[Write, Family, int, bool, bool]] = deque()
        self.lengths: Counter[int] = Counter()

    async def start(self) -> None:
        """Reset."""
        dut = self.dut
        for name in ("v4_valid_i", "v4_addr_i", "v6_valid_i", "v6_addr_i", "wr_valid_i", "wr_i"):
            getattr(dut, name).value = 0
        dut.rst_i.value = 1
        cocotb.start_soon(Clock(dut.clk_i, 8000, "ps").start())
        for _ in range(4):
            await FallingEdge(dut.clk_i)
        dut.rst_i.value = 0
        for family in (self.v4, self.v6):
            family.pipe.extend([None] * family.latency)

    # --- Routes ---

    def leaf(self) -> int:
        """Return a random leaf: network ports, host, discard, a reserved code."""
        port = self.rand.choice((0, 1, 2, 3, 3, 15, 16, 17, 18, 31))
        return port << 12 | self.rand.randrange(1, 4096)

    def prefix(self, family: Family) -> Prefix:
        """Return a prefix that is likely to lie within or beside others."""
        rand, width = self.rand, family.width
        if width == 32:
            lengths = (13, 15, 17, 18, 19, 20, 22, 23, 24, 24, 24, 25, 28, 31, 32, 32, 32)
        else:
            lengths = (14, 16, 17, 22, 23, 29, 32, 40, 46, 48, 48, 52, 57, 58, 59, 64, 64)
            lengths += (65, 96, 127, 128, 128, 128)
        length = width if rand.random() < 0.25 else rand.choice(lengths)
        addr = rand.getrandbits(width)
        if family.table.routes and rand.random() < 0.8:
            near, near_length = rand.choice(list(family.table.routes))
            keep = min(width, max(near_length + rand.choice((-1, 0, 0, 0, 3)), 0))
            addr = near & mask(keep, width) | addr & ~mask(keep, width)
        else:
            # Few tops, so that much lies under each.
            addr &= (1 << width - 8) - 1
            addr |= rand.choice((10, 0x20)) << width - 8
        return addr & mask(length, width), length

    def change(self, family: Family) -> None:
        """Queue the writes of one random change."""
        rand, table = self.rand, family.table
        if table.routes and rand.random() < 0.4:
            prefix = rand.choice(list(table.routes))
            leaf = 0 if rand.random() < 0.8 else self.leaf()
        elif rand.random() < 0.02:
            prefix, leaf = (0, 0), self.leaf()
        else:
            prefix, leaf = self.prefix(family), self.leaf()
        self.put(family, prefix, leaf)

    def put(self, family: Family, prefix: Prefix, leaf: int) -> None:
        """Queue the writes of one change, if there is room."""
        table = family.table
        try:
            writes = table.change(prefix, leaf)
        except Full:
            return
        self.lengths[prefix[1]] += 1
        version = len(family.versions)
        family.versions.append(dict(table.routes))
        family.first_word.append(-1)
        family.last_word.append(-1)
        for i, write in enumerate(writes):
            self.writes.append((write, family, version, i == 0, i == len(writes) - 2))

    def key(self, family: Family) -> int:
        """Return an address: at or beside the ends of routes, inside them, or anywhere."""
        rand, width = self.rand, family.width
        routes = family.table.routes
        if not routes or rand.random() < 0.1:
            return rand.getrandbits(width)
        addr, length = rand.choice(list(routes))
        size = 1 << width - length
        offset = rand.choice((-1, 0, size - 1, size, rand.randrange(size), rand.randrange(size)))
        return (addr + offset) % (1 << width)

    # --- Cycles ---

    def _sample(self, family: Family, valid, result) -> None:
        """Check what comes out now against what went in `latency` edges ago."""
        began = family.pipe.popleft()
        assert bool(valid.value) == (began is not None), f"edge {self.edge}: valid is wrong"
        if began is None:
            return
        edge, key = began
        # A word is in its memory two edges after it was taken.
        low = max(v for v, e in self._recent(family, family.last_word) if e + 2 <= edge)
        high = max(v for v, e in self._recent(family, family.first_word) if e <= self.edge)
        assert high - low <= 1, f"a lookup saw {high - low} changes: the drain is too short"
        allowed = {family.expect(v, key) for v in range(low, high + 1)}
        got = int(result.value)
        assert got in allowed, (
            f"edge {self.edge}: {key:#x} gave {got:#x}, not {[hex(a) for a in allowed]} "
            f"(versions {low} to {high})"
        )
        family.checked += 1
        family.hits += got >> 18
        family.overlapped += len(allowed) > 1

    @staticmethod
    def _recent(family: Family, edges: list[int]) -> Iterator[tuple[int, int]]:
        for version in range(len(edges) - 1, -1, -1):
            if edges[version] >= 0:
                yield version, edges[version]
                if edges[version] < edges[-1] - 200 or version == 0:
                    return

    async def step(self, rate: float = 1.0, write_rate: float = 1.0) -> None:
        """One edge: check outputs, give inputs."""
        dut, rand = self.dut, self.rand
        await FallingEdge(dut.clk_i)
        self._sample(self.v4, dut.v4_valid_o, dut.v4_answer_o)
        self._sample(self.v6, dut.v6_valid_o, dut.v6_answer_o)
        for family, name in ((self.v4, "v4"), (self.v6, "v6")):
            begins = rand.random() < rate
            family.pipe.append((self.edge, self.key(family)) if begins else None)
            getattr(dut, f"{name}_valid_i").value = int(begins)
            # Bytes that are not there yet, or any more, hold anything.
            bits = rand.getrandbits(family.width)
            count = family.width // 8
            for byte in range(count):
                # A byte that follows may come a cycle late; that is when it is taken.
                late = byte >= family.first_bytes and self.byte_delay
                age = (byte + 1 - family.first_bytes) * self.byte_delay + 1 if late else 0
                lookup = self._began(family, age)
                if lookup is not None:
                    shift = family.width - 8 * (byte + 1)
                    bits = bits & ~(255 << shift) | lookup & 255 << shift
            getattr(dut, f"{name}_addr_i").value = bits
        offers = bool(self.writes) and rand.random() < write_rate
        dut.wr_valid_i.value = int(offers)
        if offers:
            (mem, addr, data), family, version, first, last = self.writes[0]
            dut.wr_i.value = mem << 192 | addr << 168 | data
            if dut.wr_ready_o.value:
                self.writes.popleft()
                if first:
                    family.first_word[version] = self.edge
                if last:
                    family.last_word[version] = self.edge
        self.edge += 1

    def _began(self, family: Family, age: int) -> int | None:
        # The pipe holds the last `latency` lookups; bytes come earlier than answers.
        if age >= len(family.pipe):
            return None
        lookup = family.pipe[-1 - age]
        return lookup[1] if lookup else None

    async def settle(self) -> None:
        """Until all is written and answered."""
        while self.writes:
            await self.step(rate=0.0)
        for _ in range(100):
            await self.step(rate=0.0)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def tables_at_rest(dut) -> None:
    """A table of all lengths; then a lookup of each family every cycle, and with gaps."""
    bench = Bench(dut)
    await bench.start()
    # The empty table answers "no route".
    for _ in range(100):
        await bench.step()
    assert bench.v4.hits == bench.v6.hits == 0
    for family in (bench.v4, bench.v6):
        for _ in range(160):
            bench.change(family)
    await bench.settle()
    for rate in (1.0, 0.3):
        for _ in range(1200):
            await bench.step(rate)
    await bench.settle()
    for family in (bench.v4, bench.v6):
        assert family.checked > 1000
        assert family.hits > family.checked // 2
    dut._log.info("lookups %d + %d, lengths %s", bench.v4.checked, bench.v6.checked, bench.lengths)
    # The default routes: one, another, none.
    for leaf in (1 << 12 | 1, 2 << 12 | 0xFFE, 0):
        for family in (bench.v4, bench.v6):
            bench.put(family, (0, 0), leaf)
        await bench.settle()
        for _ in range(300):
            await bench.step()
    await bench.settle()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def changes_under_lookups(dut) -> None:
    """Announcements and withdrawals while lookups run: old or new route, never another."""
    bench = Bench(dut)
    await bench.start()
    for _ in range(100):
        for family in (bench.v4, bench.v6):
            bench.change(family)
    await bench.settle()
    changes = 0
    while changes < 120:
        if not bench.writes:
            bench.change(bench.rand.choice((bench.v4, bench.v6)))
            changes += 1
        await bench.step(write_rate=bench.rand.choice((1.0, 0.5)))
    await bench.settle()
    for family in (bench.v4, bench.v6):
        assert family.overlapped > 0
    dut._log.info(
        "changes %d, lookups %d + %d, of them with two right answers %d + %d, host moves %d + %d",
        changes,
        bench.v4.checked,
        bench.v6.checked,
        bench.v4.overlapped,
        bench.v6.overlapped,
        bench.v4.table.hosts.moves,
        bench.v6.table.hosts.moves,
    )


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def drain_holds_writes(dut) -> None:
    """A drain marker keeps the next word away for longer than any lookup."""
    bench = Bench(dut)
    await bench.start()
    dut.wr_valid_i.value = 1
    dut.wr_i.value = DRAIN << 192
    await FallingEdge(dut.clk_i)
    cycles = 0
    while not dut.wr_ready_o.value:
        await FallingEdge(dut.clk_i)
        cycles += 1
    assert cycles == max(bench.v4.latency, bench.v6.latency) + 2


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def sram22(dut) -> None:
    """The dissertation's lookup: three next hops, up to /24, 20 cycles, changes meanwhile."""
    rand = random.Random(cocotb.RANDOM_SEED)
    for name in ("v4_valid_i", "v4_addr_i", "wr_valid_i", "wr_i"):
        getattr(dut, name).value = 0
    dut.rst_i.value = 1
    cocotb.start_soon(Clock(dut.clk_i, 8000, "ps").start())
    for _ in range(4):
        await FallingEdge(dut.clk_i)
    dut.rst_i.value = 0
    leaves = [rand.randrange(4) << 12 | code for code in (1, 2, 3)]
    codes = {leaf: code for code, leaf in enumerate(leaves, 1)}
    routes: Routes = {}
    writes: deque[Write] = deque((SRAM22_NEXT_HOP, code, leaf) for leaf, code in codes.items())
    pipe: deque[tuple[int, int] | None] = deque([None] * 20)
    # Routes, and from when on no word of the state before is left in the memory.
    history: deque[tuple[float, Routes]] = deque([(0, {})])
    checked = hits = 0
    for edge in range(2500):
        await FallingEdge(dut.clk_i)
        began = pipe.popleft()
        assert bool(dut.v4_valid_o.value) == (began is not None)
        if began is not None:
            start, key = began
            # The last state that was whole when the lookup began, and all that began meanwhile.
            while len(history) > 1 and history[1][0] <= start:
                history.popleft()
            allowed = {longest_match(state, key, 32) for _, state in history}
            assert int(dut.v4_leaf_o.value) in allowed
            checked += 1
            hits += int(dut.v4_leaf_o.value) != 0
        if not writes:
            # Its last word was written at the edge before.
            history[-1] = edge, history[-1][1]
            length = rand.choice((18, 20, 22, 23, 24, 24))
            addr = (10 << 24 | rand.getrandbits(16) << 8) & mask(length, 32)
            if routes and rand.random() < 0.3:
                addr, length = rand.choice(list(routes))
                del routes[addr, length]
            else:
                routes[addr, length] = rand.choice(leaves)
            first, last = addr >> 10, (addr | (1 << 32 - length) - 1) >> 10
            history.append((float("inf"), dict(routes)))
            for index in range(first, last + 1):
                writes.append((SRAM22, index, sram22_word(routes, codes, index)))
        dut.wr_valid_i.value = 1
        mem, addr, data = writes.popleft()
        dut.wr_i.value = mem << 192 | addr << 168 | data
        begins = rand.random() < 0.9
        key = 8 << 24 | rand.getrandbits(26)  # the bench's SRAM is smaller
        if routes and rand.random() < 0.9:
            addr, length = rand.choice(list(routes))
            key = addr | rand.randrange(1 << 32 - length)
        pipe.append((edge, key) if begins else None)
        dut.v4_valid_i.value = int(begins)
        dut.v4_addr_i.value = key
    assert checked > 1500 and hits > 500


# One simulation each: reset does not clear memories.
@pytest.mark.parametrize(
    "testcase", ["tables_at_rest", "changes_under_lookups", "drain_holds_writes"]
)
@pytest.mark.parametrize("parameters", LATENCIES, ids=lambda p: "-".join(map(str, p)))
def test_fib_lookup(parameters: tuple[int, int, int, int], testcase: str) -> None:
    """Run the tests of the whole lookup with other memories and key timings."""
    names = ("ReadLatency", "SumRegister", "OutRegister", "ByteDelay")
    build_and_run(
        "tb_fib_lookup",
        __name__,
        filelists=["rtl/fibnic/lookup.f"],
        sources=["verif/fibnic/tb_fib_lookup.sv"],
        parameters=dict(zip(names, parameters, strict=True)),
        testcases=[testcase],
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )


def test_sram22_lookup() -> None:
    """Run the dissertation's lookup."""
    build_and_run(
        "tb_sram22",
        __name__,
        filelists=["rtl/fibnic/lookup.f"],
        sources=["verif/fibnic/tb_sram22.sv"],
        testcases=["sram22"],
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
