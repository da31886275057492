# SPDX-License-Identifier: Apache-2.0
"""The whole NIC with other numbers of slots: what waits between PCI Express and the network.

Stores that find no slot wait in front of the NIC (back pressure); frames that find none are
dropped and counted, since a network cannot wait.
"""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, with_timeout
from elaboration import complaint
from harness import build_and_run, drawn
from nic_bench import NIC, PAGE, PCIE_COUNTERS, PEER, Bench
from nic_ref import compact, crc16, frame
from test_inbound import REG_RESEND_TICKS, SESSIONS, WINDOW, open_session, store

FILELISTS = ["rtl/nic/nic.f"]
# Tests of the whole NIC that have much under way.
OTHERS = [
    "stores_become_frames",
    "loads_from_the_network_are_served",
    "cpu_loads_are_answered",
    "refused_operations_are_reported",
    "both_directions_under_pressure",
]
SESSION = 3
# Stores of one DW for which pcie_rx_split has room in its 512 words, those on their way included.
QUEUE = 172
MORE = 40  # for which there is none
ENOUGH = 200  # cycles in which what can go has gone


def acknowledgement(expected: int) -> bytes:
    """Make the peer's frame that says which sequence number it expects next."""
    port = 0xC100 | SESSION  # epoch 1, as open_session has it
    head = b"\xc4\0\0" + expected.to_bytes(4, "big") + b"\0"
    end_code = crc16(port.to_bytes(2, "big") + head)
    return frame(head + end_code.to_bytes(2, "big"), PEER, NIC, sport=port)


@cocotb.test()
async def as_many_stores_are_taken_as_there_are_slots(dut) -> None:
    """With a silent peer its window and the slots fill; then the root complex has to wait.

    Once the peer answers all stores leave, in order.
    """
    b = await Bench(dut).start()
    slots = int(dut.TxSlots.value)
    # Nothing is sent again, and nobody is given up.
    await b.bar0.write_dword(REG_RESEND_TICKS, 0xFFFF)
    await open_session(b, SESSION)
    start = (await b.read_entry(SESSIONS, SESSION, 8))[3]
    taken = WINDOW + slots + QUEUE
    bar2 = b.bar2.get_absolute_address(0)
    tlps = [store(bar2, 0, 1, 4 * (i % 8)) for i in range(taken + MORE)]
    began = len(b.device.source.log)
    for tlp in tlps[: taken - QUEUE // 2]:
        b.device.source.put(tlp, 2)
    await ClockCycles(dut.clk_pcie_i, 4 * len(tlps))
    # What got a slot is counted. Registers are read past the stores that wait.
    in_slots = await with_timeout(b.bar0.read_dword(PCIE_COUNTERS), 20, "us")
    assert in_slots == WINDOW + slots
    for tlp in tlps[taken - QUEUE // 2 :]:
        b.device.source.put(tlp, 2)
    await ClockCycles(dut.clk_pcie_i, 4 * len(tlps))
    # The read was one, too.
    assert len(b.device.source.log) - began == taken + 1
    for count, tlp in enumerate(tlps):
        m = await b.receive()
        assert m.sequence == start + count & 0xFFFF
        assert m.data == tlp[-4:], count
        await b.send(acknowledgement(start + count + 1 & 0xFFFF_FFFF))
    assert await b.bar0.read_dword(PCIE_COUNTERS) == len(tlps)


@cocotb.test()
async def as_many_frames_are_kept_as_there_are_slots(dut) -> None:
    """A host that takes nothing: so many stores from the network wait, the rest is counted."""
    b = await Bench(dut).start()
    slots = int(dut.RxSlots.value)
    base, mem = b.rc.alloc_region(PAGE)
    await b.set_region(1, base, PAGE - 1)
    for turn in range(3):
        before = await b.counters()
        dut.cfg_bus_master_i.value = 0
        extra = random.randint(1, 5)
        words = [random.randbytes(8) for _ in range(slots + extra)]
        for i, data in enumerate(words):
            await b.send(frame(compact(1, 8 * i, data, i), PEER, NIC))
        await b.source.wait()
        await ClockCycles(dut.clk_net_i, ENOUGH)
        mem[:PAGE] = bytes(PAGE)
        assert not b.device.sink.queue.qsize()
        dut.cfg_bus_master_i.value = 1
        await b.nothing_more()
        await ClockCycles(dut.clk_pcie_i, ENOUGH)
        assert bytes(mem[: 8 * len(words)]) == b"".join(words[:slots]) + bytes(8 * extra), turn
        assert await b.changed(before) == {
            "rx_frames": slots + extra,
            "rx_store": slots,
            "dma_write": slots,
            "rx_overflow": extra,
        }


def run(tx_slots: int, rx_slots: int, module: str, testcases: list[str] | None) -> None:
    """Build and run the NIC with these slots; nothing is sealed."""
    build_and_run(
        "ipnuma_nic_10g",
        module,
        filelists=FILELISTS,
        parameters={"TxSlots": tx_slots, "RxSlots": rx_slots, "Auth": 0},
        testcases=testcases,
        build_args=["-Wno-UNUSEDPARAM"],
        optimization="-O0",  # each of these builds takes longer to compile than to run
    )


# The fewest, some, and more than the default.
@pytest.mark.parametrize(
    ("tx_slots", "rx_slots"), drawn("nic_slots", [(2, 2), (8, 4), (64, 64)], 2)
)
def test_slots(tx_slots: int, rx_slots: int) -> None:
    """Run the tests above."""
    run(tx_slots, rx_slots, __name__, None)


def test_fewest_slots() -> None:
    """Run tests of the whole NIC with the fewest slots."""
    run(2, 2, "test_ipnuma_nic", OTHERS)


@pytest.mark.parametrize(
    ("top", "parameters"),
    [
        *(("slot_ring", {"Slots": slots}) for slots in (1, 3, 24)),
        ("ipnuma_nic_10g", {"Auth": 0, "TxSlots": 3}),
        ("ipnuma_nic_10g", {"Auth": 0, "RxSlots": 1}),
    ],
)
def test_elaboration(top: str, parameters: dict[str, int]) -> None:
    """Numbers of slots that cannot be are refused before anything runs."""
    said = complaint(top, FILELISTS, parameters)
    assert "slot_ring needs a power of two of slots, two or more" in said
