# SPDX-License-Identifier: Apache-2.0
"""Bench of the access list: every answer against acl_ref, at rest and while rules change.

A key is decided by the rules that were in place when it was given, with every rule whole: the
bench knows the edge at which a change counts, so an answer of the old or the new rules in the wrong
cycle fails, too.
"""

from __future__ import annotations

import os
import random
from collections import deque
from ipaddress import ip_address, ip_network

import cocotb
import pytest
from acl_ref import (
    WORD_DEFAULT,
    WORD_TERMS,
    Key,
    Maker,
    Rule,
    Write,
    decide,
    default_word,
    parse,
    words,
)
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from harness import ROOT, build_and_run

V4 = frozenset((4,))
BOTH = frozenset((4, 6))


class Bench:
    """Drives keys and writes, one edge a step, and checks every answer."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.rand = random.Random(cocotb.RANDOM_SEED)
        self.maker = Maker(self.rand)
        self.rules: list[Rule | None] = [None] * int(dut.Rules.value)
        self.rule_bits = max(1, (len(self.rules) - 1).bit_length())
        self.default_deny = False
        self.pipe: deque[int | None] = deque([None] * int(dut.Latency.value))
        # Each with what it makes of the rules, if it is the last of a change.
        self.writes: deque[tuple[Write, tuple[int, Rule | None] | bool | None]] = deque()
        self.checked = self.hits = self.denied = self.differ = 0
        self.before: list[tuple[list[Rule | None], bool]] = []
        self.changed = -10
        self.edge = 0

    async def start(self) -> None:
        """Reset."""
        dut = self.dut
        for name in ("port_i", "valid_i", "key_i", "wr_valid_i", "wr_i"):
            getattr(dut, name).value = 0
        dut.rst_i.value = 1
        cocotb.start_soon(Clock(dut.clk_i, 6400, "ps").start())
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        dut.rst_i.value = 0

    def set_rule(self, index: int, rule: Rule | None) -> None:
        """Queue the writes of a rule; words 0 to 3 in any order."""
        *prefix, terms = words(index, rule)
        self.rand.shuffle(prefix)
        for write in prefix:
            self.writes.append((write, None))
        self.writes.append((terms, (index, rule)))

    def set_default(self, deny: bool) -> None:
        """Queue the write of the default."""
        self.writes.append((default_word(deny), deny))

    def _packed(self, answer: tuple[bool, int | None]) -> int:
        deny, rule = answer
        return deny << self.rule_bits + 1 | (rule is not None) << self.rule_bits | (rule or 0)

    def _sample(self) -> None:
        want = self.pipe.popleft()
        assert bool(self.dut.valid_o.value) == (want is not None), f"edge {self.edge}: valid"
        if want is not None:
            got = int(self.dut.answer_o.value)
            assert got == want, f"edge {self.edge}: answer {got:#x}, not {want:#x}"
            self.checked += 1
            self.hits += want >> self.rule_bits & 1
            self.denied += want >> self.rule_bits + 1

    async def step(self, key: Key | None = None, write_rate: float = 1.0) -> None:
        """One edge: check the answer of the key `Latency` edges ago, give a key and a word."""
        dut = self.dut
        await FallingEdge(dut.clk_i)
        self._sample()
        want = None
        if key is not None:
            answer = decide(self.rules, self.default_deny, key)
            want = self._packed(answer)
            dut.key_i.value = key.packed()
            dut.port_i.value = key.arrival
            if self.edge <= self.changed + 16:
                self.differ += decide(*self.before, key) != answer
        dut.valid_i.value = int(key is not None)
        self.pipe.append(want)

        offers = bool(self.writes) and self.rand.random() < write_rate
        dut.wr_valid_i.value = int(offers)
        if offers:
            (mem, addr, data), change = self.writes[0]
            dut.wr_i.value = mem << 192 | addr << 168 | data
            if dut.wr_ready_o.value:
                self.writes.popleft()
                self._apply(change)
        self.edge += 1

    def _apply(self, change: tuple[int, Rule | None] | bool | None) -> None:
        if change is None:
            return
        self.before = (list(self.rules), self.default_deny)
        self.changed = self.edge
        if isinstance(change, bool):
            self.default_deny = change
        else:
            self.rules[change[0]] = change[1]

    async def settle(self) -> None:
        """Until all words are written and all keys are answered."""
        while self.writes:
            await self.step()
        for _ in range(4):
            await self.step()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def rules_at_rest(dut) -> None:
    """Sets of overlapping rules; keys back to back and with gaps."""
    bench = Bench(dut)
    await bench.start()
    total = int(os.environ["ACL_KEYS"])
    sets = 25
    for number in range(sets):
        for index in range(len(bench.rules)):
            used = bench.rand.random() < 0.9 or number == 0
            bench.set_rule(index, bench.maker.rule() if used else None)
        bench.set_default(number % 2 == 1)
        await bench.settle()
        rate = bench.rand.choice((1.0, 0.5))
        before = bench.checked
        while bench.checked < before + total // sets:
            key = bench.maker.key(bench.rules) if bench.rand.random() < rate else None
            await bench.step(key)
    await bench.settle()
    dut._log.info("keys %d, hits %d, denied %d", bench.checked, bench.hits, bench.denied)
    assert bench.checked >= total
    assert 0.3 * bench.checked < bench.hits < bench.checked
    assert 0.1 * bench.checked < bench.denied < 0.9 * bench.checked


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def changes_under_traffic(dut) -> None:
    """Rules change while keys come in: old or new, never a mixture."""
    bench = Bench(dut)
    await bench.start()
    rand = bench.rand
    for index in range(len(bench.rules)):
        bench.set_rule(index, bench.maker.rule())
    await bench.settle()
    changes = 0
    while changes < 300:
        if not bench.writes:
            if rand.random() < 0.1:
                bench.set_default(rand.random() < 0.5)
            else:
                index = rand.randrange(min(len(bench.rules), 8))
                bench.set_rule(index, bench.maker.rule() if rand.random() < 0.9 else None)
            changes += 1
        # Keys that both the old and the new rule may take.
        near = [
            rule
            for _, change in bench.writes
            if isinstance(change, tuple)
            for rule in (change[1], bench.rules[change[0]])
        ]
        # A rule takes a while to settle in cycles without a key; it counts all the same.
        key = bench.maker.key(near) if rand.random() < 0.6 else None
        await bench.step(key, rand.choice((1.0, 0.5)))
    await bench.settle()
    dut._log.info("keys %d, where the change counts %d", bench.checked, bench.differ)
    assert bench.differ > 100


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def words_apart(dut) -> None:
    """Words 0 to 3 alone change nothing; nor do words of other memories or of no meaning."""
    bench = Bench(dut)
    await bench.start()
    rule = Rule(deny=True, families=V4, src=ip_network("10.0.0.0/8"), dst_ports=(22, 23))
    bench.set_rule(0, rule)
    await bench.settle()
    key = Key(ip_address("10.1.2.3"), ip_address("192.0.2.1"), 6, (40000, 22), 3)
    other = Rule(deny=False, families=BOTH)
    for write in words(0, other)[:WORD_TERMS]:
        bench.writes.append((write, None))
    for word in (6, 7):
        bench.writes.append(((25, word, (1 << 168) - 1), None))
    for mem in set(range(32)) - {25}:
        for write in words(0, other):
            bench.writes.append(((mem, *write[1:]), None))
        bench.writes.append(((mem, WORD_DEFAULT, 1), None))
    while bench.writes:
        await bench.step(key if bench.edge % 2 else None)
    await bench.settle()
    assert bench.denied == bench.checked > 75


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_empties(dut) -> None:
    """After reset nothing is denied, whatever was there."""
    bench = Bench(dut)
    await bench.start()
    for index in range(len(bench.rules)):
        bench.set_rule(index, Rule(deny=True, families=BOTH))
    bench.set_default(True)
    await bench.settle()
    key = Key(ip_address("2001:db8::1"), ip_address("2001:db8::2"), 58, None, 0)
    await bench.step(key)
    await bench.settle()
    assert bench.denied == 1
    dut.rst_i.value = 1
    await FallingEdge(dut.clk_i)
    dut.rst_i.value = 0
    bench.rules = [None] * len(bench.rules)
    bench.default_deny = False
    await bench.step(key)
    await bench.settle()
    assert bench.checked == 2 and bench.denied == 1


def test_words_of_crates_fib() -> None:
    """The words of this bench are those that crates/fib writes (its tests read the same file)."""
    text = (ROOT / "crates" / "fib" / "tests" / "acl_words.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 5
    for line in lines:
        rule, _, data = line.partition("|")
        assert [word for _, _, word in words(0, parse(rule))] == [int(w, 16) for w in data.split()]


# Rules, Latency, keys at rest.
@pytest.mark.parametrize(
    ("rules", "latency", "keys"), [(64, 2, 100_000), (64, 1, 10_000), (5, 2, 10_000), (1, 1, 2_000)]
)
def test_acl(rules: int, latency: int, keys: int) -> None:
    """Run the tests at one size."""
    build_and_run(
        "tb_acl",
        __name__,
        filelists=["rtl/fibnic/acl.f"],
        sources=["verif/fibnic/tb_acl.sv"],
        parameters={"Rules": rules, "Latency": latency},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
        extra_env={"ACL_KEYS": str(keys)},
    )
