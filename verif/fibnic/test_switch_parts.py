# SPDX-License-Identifier: Apache-2.0
"""Benches of the small parts of the switch: shared lookup, counters, store-and-check mode."""

from __future__ import annotations

import random
from collections import Counter

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run

FILES = ["rtl/lib/lib.f"]
PACKAGES = ["rtl/fibnic/fib_pkg.sv", "rtl/fibnic/fibnic_pkg.sv"]
V4_DIR, V6_NODE0 = 0, 7


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


async def begin(dut, **inputs: int) -> None:
    """Clock, inputs at their first values, reset."""
    Clock(dut.clk_i, 10, "ns").start()
    dut.rst_i.value = 1
    for name, value in inputs.items():
        dut[name].value = value
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0


@cocotb.test()
async def share(dut) -> None:
    """Random requests of all ports: each answered after the same time, by its own address."""
    rand = rng()
    ports, byte_delay = 4, int(dut.ByteDelay.value)
    await begin(dut, v4_valid_i=0, v6_valid_i=0, addr_i=0, wr_valid_i=0, wr_i=0)
    latency = {4: int(dut.latency4_o.value), 6: int(dut.latency6_o.value)}
    # Uniform words: a leaf for whole blocks of addresses, which is all that this bench needs.
    leaves: dict[tuple[int, int], int] = {}
    for top in rand.sample(range(1 << 16), 64):
        for low in range(4):
            leaves[4, top << 2 | low] = rand.getrandbits(14) | 1
            await write(dut, V4_DIR, top << 2 | low, leaves[4, top << 2 | low] << 64)
        leaves[6, top] = rand.getrandbits(14) | 1
        await write(dut, V6_NODE0, top, leaves[6, top] << 148)
    tops = [top for family, top in leaves if family == 6]
    free, addresses = [0] * ports, [0] * ports
    bytes_due: list[list[tuple[int, int, int]]] = [[] for _ in range(ports)]
    expected: dict[tuple[int, int, int], int] = {}
    checked = hits = 0
    gap = 20 if byte_delay else ports
    for cycle in range(6000):
        valid = {4: 0, 6: 0}
        for p in range(ports):
            if cycle >= free[p] and rand.random() < 0.4 and cycle < 5900:
                top = rand.choice(tops) if rand.random() < 0.8 else rand.getrandbits(16)
                address = top << 112 | rand.getrandbits(112)
                free[p] = cycle + gap + rand.choice((0, 0, 1, 5))
                family, first, size = rand.choice(((4, 3, 4), (6, 2, 16)))
                valid[family] |= 1 << p
                leaf = leaves.get((family, address >> (110 if family == 4 else 112)), 0)
                expected[cycle + latency[family], p, family] = leaf
                known = address >> 8 * (16 - first) << 8 * (16 - first)
                addresses[p] = known if byte_delay else address
                for b in range(first, size if byte_delay else first):
                    lsb = 8 * (15 - b)
                    bytes_due[p].append((cycle + b + 1 - first, 0xFF << lsb, address & 0xFF << lsb))
            while bytes_due[p] and bytes_due[p][0][0] <= cycle:
                _, mask, piece = bytes_due[p].pop(0)
                addresses[p] = addresses[p] & ~mask | piece
        dut.v4_valid_i.value, dut.v6_valid_i.value = valid[4], valid[6]
        dut.addr_i.value = sum(a << 128 * p for p, a in enumerate(addresses))
        await ReadOnly()
        for family, valid_o, answer_o in (
            (4, dut.v4_valid_o, dut.v4_answer_o),
            (6, dut.v6_valid_o, dut.v6_answer_o),
        ):
            for p in range(ports):
                leaf = expected.pop((cycle, p, family), None)
                assert int(valid_o.value) >> p & 1 == (leaf is not None), (cycle, p, family)
                if leaf is not None:
                    # {hit, punt, discard, port[3:0], next hop[11:0]}
                    answer = int(answer_o.value) >> 19 * p & (1 << 19) - 1
                    assert answer == ((leaf != 0) << 18 | leaf), (cycle, p, family)
                    checked, hits = checked + 1, hits + (leaf != 0)
        await RisingEdge(dut.clk_i)
    assert not expected and checked > 500 and hits > checked / 2


async def write(dut, mem: int, addr: int, data: int) -> None:
    """One word of a memory."""
    dut.wr_valid_i.value = 1
    dut.wr_i.value = mem << 192 | addr << 168 | data
    await RisingEdge(dut.clk_i)
    dut.wr_valid_i.value = 0


@cocotb.test()
async def counters(dut) -> None:
    """Random pulses and hits, read at the end: every one counted, twice (reset clears)."""
    rand = rng()
    ports, events, rules = 4, 32, 16
    for _ in range(2):
        await begin(dut, pulse_i=0, acl_hit_i=0, acl_rule_i=0, idx_i=0)
        for _ in range(rules + 2):
            await RisingEdge(dut.clk_i)
        seen: Counter[tuple[int, int, int]] = Counter()
        hit_before = [False] * ports
        for _ in range(3000):
            pulses = rand.getrandbits(ports * events) & rand.getrandbits(ports * events)
            pulses &= rand.getrandbits(ports * events)
            hits, chosen = 0, 0
            for p in range(ports):
                hit_before[p] = not hit_before[p] and rand.random() < 0.5
                rule = rand.randrange(rules)
                chosen |= rule << 4 * p
                if hit_before[p]:
                    hits |= 1 << p
                    seen[1, p, rule] += 1
            for i in range(ports * events):
                if pulses >> i & 1:
                    seen[0, i // events, i % events] += 1
            dut.pulse_i.value, dut.acl_hit_i.value, dut.acl_rule_i.value = pulses, hits, chosen
            await RisingEdge(dut.clk_i)
        dut.pulse_i.value = dut.acl_hit_i.value = 0
        for _ in range(ports * events + 5):
            await RisingEdge(dut.clk_i)
        for acl, count in ((0, events), (1, rules)):
            for p in range(ports + 1):
                for i in range(count + 1):
                    dut.idx_i.value = acl << 11 | p << 7 | i
                    for _ in range(3):
                        await RisingEdge(dut.clk_i)
                    assert int(dut.cnt_o.value) == seen[acl, p, i], (acl, p, i)


@cocotb.test()
async def check(dut) -> None:
    """Store-and-check begins with too many bad frames in a window and ends after a good one."""
    rand = rng()
    window, limit_on, limit_off = 16, 4, 1
    await begin(dut, mode_i=1, on_i=limit_on, off_i=limit_off, end_i=0, bad_i=0)
    store, frames, bad_frames, changes, leaves = False, 0, 0, 0, 0
    for index in range(4000):
        probability = 0.6 if index // 400 % 2 else 0.05
        end, bad = rand.random() < 0.7, rand.random() < probability
        dut.end_i.value, dut.bad_i.value = int(end), int(bad)
        await RisingEdge(dut.clk_i)
        assert bool(dut.store_o.value) == store
        began = False
        if end:
            frames, bad_frames = frames + 1, bad_frames + bad
            if not store and bad_frames > limit_on:
                began, store, frames, bad_frames = True, True, 0, 0
            elif frames == window:
                if store and bad_frames <= limit_off:
                    store, leaves = False, leaves + 1
                frames = bad_frames = 0
        changes += began
        assert bool(dut.change_o.value) == began
    assert changes > 3 and leaves > 3
    dut.end_i.value = 0
    for mode, expected in ((0, 0), (2, 1)):
        dut.mode_i.value = mode
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        assert int(dut.store_o.value) == expected


@pytest.mark.parametrize("byte_delay", [0, 1])
def test_lookup_share(byte_delay: int) -> None:
    """One lookup for four ports."""
    build_and_run(
        "tb_lookup_share",
        __name__,
        filelists=["rtl/fibnic/lookup.f"],
        sources=["rtl/fibnic/lookup_share.sv", "verif/fibnic/tb_lookup_share.sv"],
        parameters={"ByteDelay": byte_delay},
        testcases=["share"],
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )


def test_switch_counters() -> None:
    """The counters and the hits of rules."""
    names = ("event_counters", "rule_counters", "switch_counters")
    build_and_run(
        "switch_counters",
        __name__,
        filelists=FILES,
        sources=[f"rtl/fibnic/{name}.sv" for name in names],
        parameters={"AclRules": 16},
        testcases=["counters"],
    )


def test_check_mode() -> None:
    """When a port stores and checks."""
    build_and_run(
        "check_mode",
        __name__,
        filelists=FILES,
        sources=[*PACKAGES, "rtl/fibnic/check_mode.sv"],
        parameters={"Window": 16},
        testcases=["check"],
        build_args=["-Wno-UNUSEDPARAM"],
    )
