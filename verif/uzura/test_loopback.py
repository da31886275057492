# SPDX-License-Identifier: Apache-2.0
"""Frames for oneself between those from the line: whole, once, in order, with a gap behind each.

The line has everything from one free cycle between frames to long silence, and the engine sends as
fast as it is let.
"""

from __future__ import annotations

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run

CYCLES = 20_000
LONGEST = 140
# Edges from an own frame's last beat in to its first one out.
BACK = 3
Beat = tuple[int, int, int, int]  # data, which say the frame and the beat; keep, last, bad


class Side:
    """Frames of one side: what was sent, and when a beat begins."""

    def __init__(self, tag: int) -> None:
        self.tag = tag
        self.frames = 0
        self.left: deque[Beat] = deque()
        self.sent: deque[Beat] = deque()
        self.wait = 0

    def next(self, longest: int, waits: tuple[int, ...], bad: bool) -> None:
        """Draw a frame, if the one before has gone and its gap, too."""
        if self.left:
            return
        if self.wait:
            self.wait -= 1
            return
        self.frames += 1
        beats = random.choice([1, 2, random.randrange(1, longest)])
        for i in range(beats):
            last = i == beats - 1
            data = self.tag << 56 | self.frames << 16 | i
            self.left.append((data, random.choice([3, 63, 255]) if last else 255, last,
                              int(bad and last and random.random() < 0.2)))  # fmt: skip
        self.wait = random.choice(waits)


def drive(dut, prefix: str, beat: Beat | None) -> None:
    """Put a beat on a side, or none."""
    getattr(dut, f"{prefix}_tvalid_i").value = beat is not None
    if beat:
        data, keep, last, bad = beat
        getattr(dut, f"{prefix}_tdata_i").value = data
        getattr(dut, f"{prefix}_tkeep_i").value = keep
        getattr(dut, f"{prefix}_tlast_i").value = last
        if prefix == "line":
            dut.line_tuser_i.value = bad


async def start(dut) -> None:
    """Clock and reset."""
    for name in ("s", "line"):
        drive(dut, name, (0, 0, 0, 0))
        getattr(dut, f"{name}_tvalid_i").value = 0
    dut.rst_i.value = 1
    cocotb.start_soon(Clock(dut.clk_i, 6400, "ps").start())
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0


@cocotb.test()
async def latencies(dut) -> None:
    """The line's beat passes at once; a frame that comes back takes some edges."""
    await start(dut)
    drive(dut, "line", (7, 255, 1, 0))
    await ReadOnly()
    assert int(dut.m_tvalid_o.value) and int(dut.m_tdata_o.value) == 7
    await RisingEdge(dut.clk_i)
    drive(dut, "line", None)
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    drive(dut, "s", (9, 255, 1, 0))
    edges = 0
    while True:
        await ReadOnly()
        if int(dut.m_tvalid_o.value):
            break
        await RisingEdge(dut.clk_i)
        drive(dut, "s", None)
        edges += 1
    assert edges == BACK and int(dut.m_tdata_o.value) == 9


@cocotb.test()
async def frames(dut) -> None:
    """Both sides at once; the order of each stays."""
    await start(dut)
    line, own = Side(1), Side(2)
    within: int | None = None
    back = 0
    for cycle in range(CYCLES):
        quiet = cycle > CYCLES - 8 * LONGEST
        # At full rate the line's gaps are those that trimming leaves; else any.
        busy = cycle // 4000 % 2
        if not quiet or line.left:
            line.next(LONGEST, (2, 3) if busy else (1, 1, 2, 5, 100), bad=True)
        if not quiet or own.left:
            own.next(LONGEST, (0, 0, 30) if busy else (0, 1, 400), bad=False)
        line_beat = line.left.popleft() if line.left else None
        own_beat = own.left[0] if own.left and random.random() < 0.9 else None
        drive(dut, "line", line_beat)
        drive(dut, "s", own_beat)
        await ReadOnly()
        if line_beat:
            line.sent.append(line_beat)
        if own_beat and int(dut.s_tready_o.value):
            own.sent.append(own.left.popleft())
        if int(dut.m_tvalid_o.value):
            beat = tuple(int(getattr(dut, f"m_{n}_o").value)
                         for n in ("tdata", "tkeep", "tlast", "tuser"))  # fmt: skip
            side = line if beat[0] >> 56 == 1 else own
            assert within in (None, side.tag), "a frame within another one"
            assert beat == side.sent.popleft()
            within = None if beat[2] else side.tag
            back += side is own and beat[2]
        await RisingEdge(dut.clk_i)
    assert not line.sent and not own.sent and not int(dut.busy_o.value)
    assert back > 50, "hardly a frame came back"


def test_loopback() -> None:
    """The way back."""
    build_and_run(
        "uzura_loopback", __name__, filelists=["rtl/lib/lib.f"],
        sources=["rtl/uzura/uzura_fifo.sv", "rtl/uzura/uzura_loopback.sv"],
    )  # fmt: skip
