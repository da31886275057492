# SPDX-License-Identifier: Apache-2.0
"""Bench of the link fault state machine against the standard's words, column by column."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from harness import build_and_run

OK, LOCAL, REMOTE = range(3)
IDLE = (bytes([7] * 4), 15)
WINDOW = 128
LATENCY = 3  # words


def sequence(last: int) -> tuple[bytes, int]:
    """Return the column of an ordered set."""
    return bytes([0x9C, 0, 0, last]), 1


def kind(column: tuple[bytes, int]) -> int:
    """Return the fault that a column names."""
    return {sequence(1): LOCAL, sequence(2): REMOTE}.get(column, OK)


def expected(columns: list[tuple[bytes, int]]) -> list[int]:
    """Return the fault after each column, from the history of sequences alone."""
    out, faults = [], []  # (column, kind)
    now = OK
    for at, column in enumerate(columns):
        if kind(column):
            faults.append((at, kind(column)))
            last = faults[-4:]
            near = all(b[0] - a[0] <= WINDOW for a, b in zip(last, last[1:], strict=False))
            if len(last) == 4 and near and len({k for _, k in last}) == 1:
                now = last[0][1]
        if not faults or at - faults[-1][0] >= WINDOW:
            now = OK
        out.append(now)
    return out


def line(rand: random.Random) -> list[tuple[bytes, int]]:
    """Make columns with sequences at all distances, in all runs, and what looks like one."""
    columns: list[tuple[bytes, int]] = []
    for _ in range(400):
        which = rand.choice([1, 1, 2, 2, 0, 3])
        near = rand.random() < 0.8
        for _ in range(rand.choice([1, 2, 3, 4, 5, 9])):
            columns.append(sequence(which))
            gap = rand.choice([0, 0, 1, 2, 20, 126, 127, 128, 129])
            gap = gap if near else rand.randint(0, 300)
            fill = rand.choice(
                [
                    IDLE,
                    (bytes([0x9C, 0, 0, which]), 3),  # another character is control, too
                    (bytes([0x9C, 0, 0, which]), 0),
                    (bytes([0x5C, 0, 0, which]), 1),
                    (bytes([0x9C, 0, 1, which]), 1),
                    (rand.randbytes(4), 0),
                ]
            )
            columns += [fill] * gap
    return columns + [IDLE] * (2 * WINDOW + len(columns) % 2)


@cocotb.test()
async def as_the_standard(dut) -> None:
    """Every word of a long line gives the state that its columns make."""
    columns = line(random.Random(random.getrandbits(64)))
    states = expected(columns)
    Clock(dut.clk_i, 6400, "ps").start()
    dut.rst_i.value = 1
    dut.xgmii_rxd_i.value, dut.xgmii_rxc_i.value = int.from_bytes(IDLE[0] * 2, "little"), 255
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0
    seen = []
    for at in range(0, len(columns), 2):
        low, high = columns[at : at + 2]
        dut.xgmii_rxd_i.value = int.from_bytes(low[0] + high[0], "little")
        dut.xgmii_rxc_i.value = low[1] | high[1] << 4
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        seen.append(int(dut.local_o.value) | int(dut.remote_o.value) << 1)
        await Timer(1, "ps")
    words = states[1::2]
    assert seen[LATENCY - 1 :] == words[: len(words) - LATENCY + 1]
    assert {OK, LOCAL, REMOTE} == set(words)
    changes = sum(a != b for a, b in zip(words, words[1:], strict=False))
    dut._log.info(f"{len(columns)} columns, {changes} changes")
    assert changes > 40


def test_xgmii_fault() -> None:
    """Run the test above."""
    build_and_run(
        "xgmii_fault",
        __name__,
        sources=["rtl/eth/xgmii_fault.sv"],
    )
