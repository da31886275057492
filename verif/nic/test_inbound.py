# SPDX-License-Identifier: Apache-2.0
"""What comes from the root complex goes on by class: nothing waits for stores that have to wait.

A session whose peer never answers holds its stores back once its window is full, and with them all
stores behind. As many as the posted credits allow wait in the NIC; completions and register reads
that come after them are served all the same, within a bound. A load behind them is answered at the
latest when the network side is reset.
"""

from __future__ import annotations

import random
import struct

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from harness import build_and_run
from nic_bench import NIC, PAGE, PC_IDS, PEER, REG_EPOCH, REG_ID, Bench
from nic_ref import CPL, CPLD, MRD, frame, tlp_request

SESSIONS, REG_RESEND_TICKS, REG_RESEND_LIMIT, REG_WINDOW = 0x010000, 0x48, 0x50, 0x54
REG_FLUSH = 0x5C
WINDOW, SLOTS = 4, 16
# Of pcie_rx_split, as ipnuma_nic has them: posted headers, posted data in units of 16 bytes.
POSTED_HEADERS, POSTED_DATA, NON_POSTED = 32, 128, 16
# Cycles of clk_pcie_i, from the first beat offered to the first beat of the answer.
READ_CYCLES = 16


def store(bar2: int, page: int, length: int, offset: int = 0) -> bytes:
    """Make a store of whole DWs to a page."""
    head = bytes([0x60, 0, 0, length, 0, 0, 0, 0xFF if length > 1 else 0x0F])
    return head + struct.pack(">Q", bar2 + page * PAGE + offset) + random.randbytes(4 * length)


def read(address: int, tag: int) -> bytes:
    """Make a read of one DW."""
    head = bytes([0x20, 0, 0, 1, 0, 0, tag, 0x0F])
    return head + struct.pack(">Q", address)


def register_write(address: int, value: int) -> bytes:
    """Make a write of a register."""
    head = bytes([0x60, 0, 0, 1, 0, 0, 0, 0x0F])
    return head + struct.pack(">Q", address) + struct.pack("<I", value)


async def open_session(b: Bench, pc_id: int) -> None:
    """Give the NIC a session with a peer that will never answer, and a window of a few frames."""
    window = await b.bar0.read_dword(REG_WINDOW)
    await b.bar0.write_dword(REG_WINDOW, window & ~0xFF | WINDOW)
    entry = 1 << 98 | 1 << 97 | 1 << 96 | 3422 << 80 | PEER.mac << 32 | PEER.ip
    await b.write_entry(PC_IDS, pc_id, [entry >> 32 * i & 0xFFFFFFFF for i in range(4)])
    entry = 1 << 226 | 1 << 224 | random.getrandbits(32) << 96
    entry |= (0xC100 | pc_id) << 80 | PEER.mac << 32 | PEER.ip
    await b.write_entry(SESSIONS, pc_id, [entry >> 32 * i & 0xFFFFFFFF for i in range(8)])
    await b.map_page(0, pc_id, 3, 0)
    # What is posted has arrived.
    assert await b.bar0.read_dword(REG_ID) == 0x49504E4D


async def stall(b: Bench, length: int, waiting: int) -> int:
    """Store until `waiting` stores wait for a slot; all of them are with the NIC."""
    bar2 = b.bar2.get_absolute_address(0)
    count = WINDOW + SLOTS + waiting
    for i in range(count):
        tlp = store(bar2, 0, length, 4 * length * (i % 8))
        await with_timeout(b.device.source.send(tlp, 2), 20, "us")
    return count


async def next_tlp(b: Bench, kind: int, cycles: int) -> tuple[bytes, int]:
    """Return the next TLP of the NIC that has this fmt/type, and the cycles that it took."""
    seen = len(b.device.sent)
    for cycle in range(cycles):
        await RisingEdge(b.dut.clk_pcie_i)
        for tlp in b.device.sent[seen:]:
            if tlp[0] == kind:
                return tlp, cycle
        seen = len(b.device.sent)
    raise AssertionError(f"no TLP {kind:#x} in {cycles} cycles")


@cocotb.test()
async def reads_and_completions_pass_stores_that_wait(dut) -> None:
    """Register reads and completions of DMA reads take no longer with all posted credits in use."""
    b = await Bench(dut).start()
    base, mem = b.rc.alloc_region(PAGE)
    mem[:PAGE] = random.randbytes(PAGE)
    await b.set_region(5, base, PAGE - 1, rights="r")
    await open_session(b, 3)
    bar0 = b.bar0.get_absolute_address(0)
    # Many short ones, and a few that use all data credits.
    await stall(b, *random.choice([(1, POSTED_HEADERS), (64, POSTED_DATA // 16)]))
    # What is stored behind them waits, too.
    for turn in range(12):
        tag = random.randrange(256)
        b.device.source.put(read(bar0 + REG_ID, tag), 0)
        tlp, _ = await next_tlp(b, CPLD, READ_CYCLES + 8)
        assert tlp[12:] == struct.pack("<I", 0x49504E4D)
        at = 4 * random.randrange(64)
        dws = random.choice([1, 2, 16, 64])
        await b.send(frame(tlp_request(MRD, 5, at, length=dws, net_tag=turn), PEER, NIC))
        left, got = 4 * dws, b""
        while left:
            # What waits is sent again in between.
            raw = await b.receive_raw()
            if raw[42:44] == b"\x4e\x4d" and raw[50] == CPLD:
                data = raw[66 : 66 + 4 * raw[53]]
                got += data
                left -= len(data)
        assert got == bytes(mem[at : at + 4 * dws])
        assert b.device.source._queue.empty()


@cocotb.test()
async def the_order_of_registers_and_pages(dut) -> None:
    """A read waits for every write before it, and a write for the stores before it."""
    b = await Bench(dut).start()
    # The peer counts as lost some microseconds after this bench has looked.
    await b.bar0.write_dword(REG_RESEND_TICKS, 60)
    await b.bar0.write_dword(REG_RESEND_LIMIT, 4)
    await open_session(b, 3)
    bar0 = b.bar0.get_absolute_address(0)
    await stall(b, 1, 8)
    epoch = bar0 + REG_EPOCH
    b.device.source.put(read(epoch, 1), 0)
    tlp, _ = await next_tlp(b, CPLD, 200)
    assert tlp[10] == 1 and tlp[12] == 0
    b.device.source.put(register_write(epoch, 9), 0)
    b.device.source.put(read(epoch, 2), 0)
    await ClockCycles(dut.clk_pcie_i, 400)
    assert not [t for t in b.device.sent if t[0] == CPLD and t[10] == 2]
    # The peer is lost: its stores go, and what came behind them is done in order.
    for _ in range(200):
        await ClockCycles(dut.clk_pcie_i, 500)
        answers = [t for t in b.device.sent if t[0] == CPLD and t[10] == 2]
        if answers:
            break
    assert [t[12] for t in answers] == [9]
    b.sink.clear()


@cocotb.test()
async def a_reset_of_the_network_side_answers_what_stands_behind_stores(dut) -> None:
    """What cannot leave is dropped in time for the loads behind it to be answered."""
    b = await Bench(dut).start()
    await open_session(b, 3)
    bar0, bar2 = b.bar0.get_absolute_address(0), b.bar2.get_absolute_address(0)
    await stall(b, 1, 8)
    # More marks than can wait for acknowledgements, and a read that waits for them.
    for cookie in range(12):
        b.device.source.put(register_write(bar0 + REG_FLUSH, cookie << 16 | 3), 0)
    loads = [1, 2, 3]
    for tag in loads:
        b.device.source.put(store(bar2, 0, 1), 2)
        b.device.source.put(read(bar2 + 8 * tag, tag), 2)
    b.device.source.put(register_write(bar0 + REG_EPOCH, 9), 0)
    b.device.source.put(read(bar0 + REG_EPOCH, 9), 0)
    await ClockCycles(dut.clk_pcie_i, 400)
    assert not [t for t in b.device.sent if t[0] == CPL]
    await RisingEdge(dut.clk_net_i)
    dut.rst_net_i.value = 1
    await ClockCycles(dut.clk_net_i, 2)
    dut.rst_net_i.value = 0
    # The reset: as many edges as it waits at most, and some for itself.
    await ClockCycles(dut.clk_pcie_i, 65_536 + 200)
    # Completer abort: nobody has answered them.
    refused = [t for t in b.device.sent if t[0] == CPL]
    assert [(t[10], t[6] >> 5) for t in refused] == [(tag, 4) for tag in loads]
    # The register was written, and then reset.
    values = [t[12] for t in b.device.sent if t[0] == CPLD and t[10] == 9]
    assert values == [9]
    b.device.source.put(read(bar0 + REG_EPOCH, 10), 0)
    tlp, _ = await next_tlp(b, CPLD, 200)
    assert tlp[10] == 10 and tlp[12] == 0
    b.sink.clear()


@pytest.mark.parametrize("top", ["ipnuma_nic_10g"])
def test_inbound(top: str) -> None:
    """Run all tests above."""
    build_and_run(top, __name__, filelists=["rtl/nic/nic.f"], build_args=["-Wno-UNUSEDPARAM"])
