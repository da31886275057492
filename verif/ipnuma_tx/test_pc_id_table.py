# SPDX-License-Identifier: Apache-2.0
"""The PC ID table alone, up to the 65,536 entries that the 16 bits of a page map entry can name."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from elaboration import complaint
from harness import build_and_run

FILELISTS = ["rtl/ipnuma/ipnuma_tx.f"]
PC_IDS = 1 << 16  # what a page map entry can name
ENTRY_BITS, VALID_BIT, SESSION_BIT = 128, 96, 98
SIZES = ((2, 2, 1), (256, 64, 1), (PC_IDS, 64, 1), (PC_IDS, 256, 2))


async def start(dut) -> None:
    """Start the clock, and reset."""
    for name in "look pc_id cfg_write cfg_index cfg_entry cfg_read".split():
        dut[f"{name}_i"].value = 0
    Clock(dut.clk_i, 4000, "ps").start()
    await reset(dut)


async def reset(dut) -> None:
    """Reset for two cycles."""
    await FallingEdge(dut.clk_i)
    dut.rst_i.value = 1
    for _ in range(2):
        await FallingEdge(dut.clk_i)
    dut.rst_i.value = 0


async def look_up_all(dut, entries: list[int], valid: list[bool]) -> None:
    """Look up every PC ID there is, one a cycle, and compare what the table says of it."""
    latency, sessions = int(dut.ReadLatency.value), int(dut.Sessions.value)
    dut.look_i.value = 1
    for cycle in range(PC_IDS + latency):
        asked = cycle % PC_IDS
        dut.pc_id_i.value = asked
        await FallingEdge(dut.clk_i)
        in_table = 0 < asked < len(entries)
        permitted = in_table and valid[asked]
        in_session = permitted and asked < sessions and bool(entries[asked] >> SESSION_BIT & 1)
        assert bool(dut.permitted_o.value) == permitted, asked
        assert bool(dut.session_o.value) == in_session, asked
        answered = cycle + 1 - latency
        if 0 <= answered < len(entries):
            assert int(dut.entry_o.value) == entries[answered], answered
    dut.look_i.value = 0


@cocotb.test()
async def every_entry_is_its_own(dut) -> None:
    """All entries are written in any order; each is read back, and looked up, as it was written."""
    await start(dut)
    count, latency = int(dut.PcIds.value), int(dut.ReadLatency.value)
    entries = [random.getrandbits(ENTRY_BITS) for _ in range(count)]
    dut.cfg_write_i.value = 1
    for index in random.sample(range(count), count):
        dut.cfg_index_i.value = index
        dut.cfg_entry_i.value = entries[index]
        await FallingEdge(dut.clk_i)
    dut.cfg_write_i.value = 0
    valid = [bool(entry >> VALID_BIT & 1) for entry in entries]
    await look_up_all(dut, entries, valid)
    for index in {0, count - 1, *random.sample(range(count), min(count, 2000))}:
        dut.cfg_index_i.value = index
        dut.cfg_read_i.value = 1
        for _ in range(latency):
            assert not dut.cfg_read_done_o.value
            await FallingEdge(dut.clk_i)
            dut.cfg_read_i.value = 0
        assert dut.cfg_read_done_o.value
        assert int(dut.cfg_entry_o.value) == entries[index], index
        await FallingEdge(dut.clk_i)
    # The memory outlives a reset; what is in it permits nothing any more.
    await reset(dut)
    await look_up_all(dut, entries, [False] * count)


@pytest.mark.parametrize(("pc_ids", "sessions", "latency"), SIZES)
def test_pc_id_table(pc_ids: int, sessions: int, latency: int) -> None:
    """The smallest table, the default, and the largest."""
    build_and_run(
        "pc_id_table",
        __name__,
        filelists=FILELISTS,
        parameters={"PcIds": pc_ids, "Sessions": sessions, "ReadLatency": latency},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )


@pytest.mark.parametrize("pc_ids", [0, 1, 3, 300, PC_IDS - 1, 2 * PC_IDS])
def test_elaboration(pc_ids: int) -> None:
    """Sizes that no table has are refused before anything runs."""
    said = complaint("pc_id_table", FILELISTS, {"PcIds": pc_ids})
    assert "pc_id_table needs a power of two of entries, 2 to 65536" in said
