# SPDX-License-Identifier: Apache-2.0
"""Bench of the example register: the pattern for the others."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run

WORDS = 500


async def start(dut) -> None:
    """Start the clock and hold reset for two edges."""
    Clock(dut.clk_i, 4, "ns").start()
    dut.rst_i.value = 1
    dut.valid_i.value = 0
    dut.ready_i.value = 0
    await RisingEdge(dut.clk_i)
    await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0


@cocotb.test()
async def words_keep_their_order(dut) -> None:
    """Random words under random gaps and back-pressure come out as they went in."""
    await start(dut)
    words = [random.getrandbits(len(dut.data_i)) for _ in range(WORDS)]
    offered, received = 0, []
    while len(received) < WORDS:
        # A word once offered stays until it is taken.
        if offered < WORDS and (dut.valid_i.value or random.random() < 0.7):
            dut.valid_i.value = 1
            dut.data_i.value = words[offered]
        dut.ready_i.value = random.random() < 0.6
        await ReadOnly()
        taken = dut.valid_i.value and dut.ready_o.value
        if dut.valid_o.value and dut.ready_i.value:
            received.append(int(dut.data_o.value))
        await RisingEdge(dut.clk_i)
        if taken:
            offered += 1
            dut.valid_i.value = 0
    assert received == words


@cocotb.test()
async def latency_is_one_cycle(dut) -> None:
    """The latency in the header is the latency of the module."""
    await start(dut)
    dut.ready_i.value = 1
    dut.valid_i.value = 1
    dut.data_i.value = 1
    await RisingEdge(dut.clk_i)
    dut.valid_i.value = 0
    await ReadOnly()
    assert dut.valid_o.value == 1
    assert dut.data_o.value == 1


@pytest.mark.parametrize("width", [8, 64])
def test_stream_register(width: int) -> None:
    """Run all tests above on one build for each width."""
    build_and_run(
        "stream_register",
        __name__,
        sources=["verif/example/stream_register.sv"],
        parameters={"Width": width},
    )
