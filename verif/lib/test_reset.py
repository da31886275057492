# SPDX-License-Identifier: Apache-2.0
"""Resets of either side at random moments: what crosses does so in order, once, after the reset."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer, with_timeout
from harness import build_and_run

RATIOS = [(4000, 6400), (4000, 8000), (16000, 6400), (8000, 4000), (1000, 17000), (6400, 6402)]


class Side:
    """One clock: it writes numbers into one FIFO and reads those of the other side."""

    def __init__(self, dut, name: str, out: str, into: str) -> None:
        """Take the pins of side `name`."""
        self.clock, self.reset = dut[f"{name}_clk_i"], dut[f"{name}_rst_o"]
        self.wdata, self.wvalid = dut[f"{out}_wdata_i"], dut[f"{out}_wvalid_i"]
        self.wready = dut[f"{out}_wready_o"]
        self.rdata, self.rvalid = dut[f"{into}_rdata_o"], dut[f"{into}_rvalid_o"]
        self.rready = dut[f"{into}_rready_i"]
        self.next = 0  # number to be written
        self.since = 0  # first number that was written after the last reset here
        self.floor = 0  # no number from before this one may be read here
        self.last = -1
        self.read = 0
        self.resets = 0

    async def run(self, other: Side) -> None:
        """Write and read at random."""
        in_reset = True
        while True:
            self.wdata.value = self.next
            self.wvalid.value = random.random() < 0.7
            self.rready.value = random.random() < 0.7
            await ReadOnly()
            wrote = int(self.wvalid.value) and int(self.wready.value)
            number = int(self.rdata.value)
            took = int(self.rready.value) and int(self.rvalid.value)
            before, in_reset = in_reset, bool(self.reset.value)
            if in_reset:
                self.since = self.next
                self.resets += not before
            elif before:
                self.floor = other.since
            await RisingEdge(self.clock)
            if in_reset:
                continue
            self.next += bool(wrote)
            if took:
                assert number >= self.floor, f"{number} is from before the reset ({self.floor})"
                assert number > self.last, f"{number} came after {self.last}"
                self.last = number
                self.read += 1


@cocotb.test()
async def nothing_outlives_a_reset(dut) -> None:
    """Short and long resets of one side, of both, of the same again; side a rests late."""
    reads = resets = 0
    for period_a, period_b in RATIOS:
        for name in ("down_wvalid_i", "up_wvalid_i", "down_rready_i", "up_rready_i"):
            dut[name].value = 0
        dut.a_rest_i.value = 1
        dut.a_rst_i.value = dut.b_rst_i.value = 1
        clocks = [Clock(dut.a_clk_i, period_a, "ps").start()]
        await Timer(random.randrange(1, period_b), "ps")
        clocks.append(Clock(dut.b_clk_i, period_b, "ps").start())
        a, b = Side(dut, "a", "down", "up"), Side(dut, "b", "up", "down")
        slow = max(period_a, period_b)
        await Timer(20 * slow, "ps")
        dut.a_rst_i.value = dut.b_rst_i.value = 0
        tasks = [cocotb.start_soon(a.run(b)), cocotb.start_soon(b.run(a))]
        for _ in range(60):
            await Timer(random.randrange(1, random.choice([30, 400]) * slow), "ps")
            name = random.choice("ab")
            await RisingEdge(dut[f"{name}_clk_i"])
            late = name == "b" and not int(dut.a_stop_o.value) and random.random() < 0.5
            dut.a_rest_i.value = not late
            dut[f"{name}_rst_i"].value = 1
            for _ in range(random.choice([1, 1, 2, 3, 10])):
                await RisingEdge(dut[f"{name}_clk_i"])
            dut[f"{name}_rst_i"].value = 0
            if late:
                was = int(dut.a_rst_o.value)
                if not int(dut.a_stop_o.value):
                    await with_timeout(RisingEdge(dut.a_stop_o), 100 * slow, "ps")
                await Timer(random.randrange(1, 30 * slow), "ps")
                assert was or not int(dut.a_rst_o.value), "reset before it was at rest"
                dut.a_rest_i.value = 1
        await Timer(100 * slow, "ps")
        await ReadOnly()
        assert not int(dut.a_rst_o.value) and not int(dut.b_rst_o.value)
        await Timer(1, "ps")
        for task in (*tasks, *clocks):
            task.cancel()
        reads += a.read + b.read
        resets += a.resets + b.resets
        assert a.read > 50 and b.read > 50
    assert resets > 300 and reads > 5000


def test_reset() -> None:
    """Run the test above."""
    build_and_run(
        "tb_reset", __name__, filelists=["rtl/lib/lib.f"], sources=["verif/lib/tb_reset.sv"]
    )
