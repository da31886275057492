# SPDX-License-Identifier: Apache-2.0
"""The bus meter against cocotbext-pcie's root complex: it must measure what this host does."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "nic"))

from raw_tlp import make_host, quiet

PERIOD_PS = 4000
MEMORY = 4096
ID, CONTROL, ADDRESS_LO, ADDRESS_HI = 0x00, 0x08, 0x10, 0x14
LENGTH, COUNT, CYCLES = 0x18, 0x1C, 0x20
READS_DONE, READS_FAILED, SUM_LO, SUM_HI, MIN, MAX = 0x24, 0x28, 0x2C, 0x30, 0x34, 0x38
WRITES_DONE, CPU_WRITES, CPU_INTERVAL, CPU_READS = 0x3C, 0x40, 0x44, 0x48
CPU_LENGTHS, CPU_OTHER = 0x80, 0xC0
READ, WRITE, CAPTURE = 1, 2, 4


async def start(dut):
    """Reset, enumerate; return the root complex, the device and its BARs."""
    quiet()
    Clock(dut.clk_pcie_i, PERIOD_PS, "ps").start()
    dut.rst_pcie_i.value = 1
    dut.completer_id_i.value = 0
    dut.s_tlp_tvalid_i.value = 0
    dut.m_tlp_tready_i.value = 1
    await ClockCycles(dut.clk_pcie_i, 4)
    dut.rst_pcie_i.value = 0
    rc, device, entry = await make_host(dut, {0: 65536, 2: MEMORY})
    return rc, device, entry.bar_window[0], entry.bar_window[2]


async def settle(dut) -> None:
    """Wait until the meter is idle."""
    await RisingEdge(dut.clk_pcie_i)
    while int(dut.busy_o.value):
        await RisingEdge(dut.clk_pcie_i)


@cocotb.test()
async def registers_read_back(dut) -> None:
    """ID, writable registers, refused addresses, one and two DWs at once."""
    _, _, bar, _ = await start(dut)
    assert await bar.read_dword(ID) == 0x4E4D424D
    value = random.getrandbits(32)
    await bar.write_dword(ADDRESS_HI, value)
    await bar.write_dword(COUNT, 77)
    assert await bar.read_dword(ADDRESS_HI) == value
    assert await bar.read_dword(COUNT) == 77
    await bar.write_dword(ID, 1)
    assert await bar.read_dword(ID) == 0x4E4D424D
    assert await bar.read_dword(0x1000) == 0
    both = random.randbytes(8)
    await bar.write(COUNT, both)
    assert bytes(await bar.read(COUNT, 8)) == both
    await settle(dut)


@cocotb.test()
async def memory_takes_and_gives_any_bytes(dut) -> None:
    """CPU writes and reads of random length and alignment, against a byte array."""
    _, _, _, memory = await start(dut)
    expected = bytearray(MEMORY)
    for _ in range(150):
        size = random.choice([1, 2, 4, 8, 16, 60, 64, random.randint(1, 64)])
        at = random.randrange(MEMORY - size)
        if random.random() < 0.5:
            data = random.randbytes(size)
            await memory.write(at, data)
            expected[at : at + size] = data
        else:
            # A read of more than 16 DW is refused, and an unaligned one may span 17.
            size = min(size, 61)
            assert bytes(await memory.read(at, size)) == expected[at : at + size]
    await settle(dut)


@cocotb.test()
async def dma_reads_are_timed(dut) -> None:
    """Sum, minimum and maximum equal what the bench sees at the pins."""
    rc, device, bar, _ = await start(dut)
    address, _ = rc.alloc_region(4096)
    for size in (4, 64, 512):
        await bar.write_dword(ADDRESS_LO, address)
        await bar.write_dword(ADDRESS_HI, 0)
        await bar.write_dword(LENGTH, size)
        await bar.write_dword(COUNT, 20)
        device.source.log.clear()
        device.sink.log.clear()
        await bar.write_dword(CONTROL, READ)
        await ClockCycles(dut.clk_pcie_i, 100)
        while await bar.read_dword(CONTROL) & READ:
            await ClockCycles(dut.clk_pcie_i, 200)
        # The bench's own view: the request's first beat, its first completion's first beat.
        sent = [t for t, fmt in device.sink.log if fmt in (0x00, 0x20)]
        answered = [t for t, fmt in device.source.log if fmt == 0x4A]
        seen = [min(t for t in answered if t > at) for at in sent]
        assert await bar.read_dword(READS_DONE) == 20
        assert await bar.read_dword(READS_FAILED) == 0
        cycles = [(b - a) // PERIOD_PS for a, b in zip(sent, seen, strict=True)]
        assert len(cycles) == 20
        assert await bar.read_dword(MIN) == min(cycles)
        assert await bar.read_dword(MAX) == max(cycles)
        assert await bar.read_dword(SUM_LO) == sum(cycles)
        assert await bar.read_dword(SUM_HI) == 0
        print(f"DMA read of {size} bytes: {sum(cycles) / 20 * PERIOD_PS / 1000} ns")
    await settle(dut)


@cocotb.test()
async def dma_writes_are_counted(dut) -> None:
    """The count is what left, at the pace of the bus; the data arrive."""
    rc, device, bar, _ = await start(dut)
    address, mem = rc.alloc_region(4096)
    for size in (4, 64, 128):
        await bar.write_dword(ADDRESS_LO, address)
        await bar.write_dword(LENGTH, size)
        await bar.write_dword(CYCLES, 2000)
        device.sent.clear()
        await bar.write_dword(CONTROL, WRITE)
        await ClockCycles(dut.clk_pcie_i, 2500)
        while await bar.read_dword(CONTROL) & WRITE:
            await ClockCycles(dut.clk_pcie_i, 200)
        done = await bar.read_dword(WRITES_DONE)
        await ClockCycles(dut.clk_pcie_i, 2000)
        left = [t for t in device.sent if t[0] in (0x40, 0x60)]
        # The TLP that is under way when the time ends is finished but not counted.
        assert done in (len(left), len(left) - 1)
        beats = (3 + size // 4 + 1) // 2
        assert done == 2000 // beats
        assert bytes(mem[:size]) == (len(left) - 1).to_bytes(4, "little") * (size // 4)
        print(f"DMA write of {size} bytes: {2000 * PERIOD_PS / 1000 / done:.1f} ns each")
    await settle(dut)


@cocotb.test()
async def cpu_writes_are_captured(dut) -> None:
    """Writes are counted by length, with the interval between the first and the last."""
    _, device, bar, memory = await start(dut)
    await bar.write_dword(CONTROL, CAPTURE)
    await bar.read_dword(CONTROL)
    times = []
    lengths = [random.randint(1, 16) for _ in range(30)]
    for n in lengths:
        await memory.write(0, random.randbytes(4 * n))
        await ClockCycles(dut.clk_pcie_i, 60)
        times.append(device.source.log[-1][0])
    await memory.read(0, 4)
    await bar.write_dword(CONTROL, 0)
    assert await bar.read_dword(CPU_WRITES) == len(lengths)
    assert await bar.read_dword(CPU_INTERVAL) == (times[-1] - times[0]) // PERIOD_PS
    assert await bar.read_dword(CPU_READS) == 1
    for n in range(1, 17):
        assert await bar.read_dword(CPU_LENGTHS + 4 * (n - 1)) == lengths.count(n)
    assert await bar.read_dword(CPU_OTHER) == 0
    await settle(dut)


@cocotb.test()
async def stop_ends_a_read_without_answer(dut) -> None:
    """A host that never answers does not keep the meter busy once it is told to stop."""
    _, device, bar, _ = await start(dut)
    swallow = device.send

    async def lose(tlp) -> None:
        if tlp.is_completion():
            await swallow(tlp)

    device.send = lose
    await bar.write_dword(COUNT, 3)
    await bar.write_dword(CONTROL, READ)
    await ClockCycles(dut.clk_pcie_i, 500)
    assert await bar.read_dword(CONTROL) == READ
    await bar.write_dword(CONTROL, 0)
    await ClockCycles(dut.clk_pcie_i, 20)
    assert await bar.read_dword(CONTROL) == 0
    assert await bar.read_dword(READS_DONE) == 0
    await settle(dut)


def test_bus_meter() -> None:
    """Run all tests above on one build."""
    build_and_run(
        "bus_meter_top",
        __name__,
        filelists=["rtl/pcie/pcie.f"],
        build_args=["-Wno-UNUSEDPARAM"],
    )
