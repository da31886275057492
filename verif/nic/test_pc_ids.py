# SPDX-License-Identifier: Apache-2.0
"""The whole NIC with all 65,536 PC IDs that the 16 bits of a page map entry can name.

The registers write and read the entries, and a store leaves to the peer of its page's PC ID,
whatever bits of the PC ID are set. `verif/ipnuma_tx/test_pc_id_table.py` has every entry.
"""

from __future__ import annotations

import os
import random

import cocotb
from harness import build_and_run
from nic_bench import NIC, PAGE, PC_IDS, REG_FEATURES, REG_NETMASK, Bench
from nic_ref import Peer

PC_ID_BITS = 16
COUNT = 1 << PC_ID_BITS
ENTRY_DWS = 4
PAGES, REGIONS = 1024, 16
# Each address bit alone, all but that, and both ends.
SINGLE = [1 << bit for bit in range(PC_ID_BITS)]
CORNERS = [0, COUNT - 1, *SINGLE, *(COUNT - 1 - one for one in SINGLE)]
RANDOM = 2000 if os.environ.get("IPNUMA_LONG") else 100


def some_pc_ids() -> list[int]:
    """Return the corners, the middle and random others, in any order, none twice."""
    middle = [COUNT // 2 - 1, COUNT // 2, COUNT // 2 + 1]
    some = {*CORNERS, *middle, *(random.randrange(COUNT) for _ in range(RANDOM))}
    return random.sample(sorted(some), len(some))


def peer_of(pc_id: int) -> Peer:
    """Return a peer of the NIC's subnet that nobody else is."""
    return Peer(0x02F0_0000_0000 | pc_id, NIC.ip & ~0xFFFFFF | 0x80_0000 | pc_id)


@cocotb.test()
async def registers_reach_every_entry(dut) -> None:
    """Entries that differ in any bit of their index are read back as they were written."""
    b = await Bench(dut).start()
    features = await b.bar0.read_dword(REG_FEATURES)
    assert features >> 8 & 0x1F == PC_ID_BITS
    before = await b.counters()
    entries = {i: [random.getrandbits(32) for _ in range(ENTRY_DWS)] for i in some_pc_ids()}
    for index, entry in entries.items():
        await b.write_entry(PC_IDS, index, entry)
    for index, entry in entries.items():
        assert await b.read_entry(PC_IDS, index, ENTRY_DWS) == entry, index
    assert await b.changed(before) == {}, "a register access was refused"


@cocotb.test()
async def stores_leave_to_the_peer_of_any_pc_id(dut) -> None:
    """A frame's destination is the table's, each peer has its own sequence; the rest is refused."""
    b = await Bench(dut).start()
    # Every peer is in the NIC's own subnet.
    await b.bar0.write_dword(REG_NETMASK, 0xFF000000)
    pc_ids = some_pc_ids()
    invalid = set(random.sample(pc_ids, len(pc_ids) // 8)) - {1, COUNT // 2, COUNT - 1}
    for pc_id in pc_ids:
        port = 1024 + pc_id % 0x8000
        # PC ID 0 says that a page is not mapped, whatever its entry says.
        await b.set_peer(pc_id, peer_of(pc_id), pc_id % 2 == 0, port, pc_id not in invalid)
    before = await b.counters()
    sequences = dict.fromkeys(pc_ids, 0)
    refused = 0
    for turn in range(2):
        for page, pc_id in enumerate(random.sample(pc_ids, len(pc_ids))):
            page %= PAGES
            await b.map_page(page, pc_id, key=page, offset=PAGE * page)
            data = random.randbytes(8)
            await b.bar2.write(page * PAGE + 8 * turn, data)
            if pc_id == 0 or pc_id in invalid:
                refused += 1
                await b.nothing_more()
                continue
            m = await b.receive(peer_of(pc_id))
            assert (m.data, m.key, m.offset) == (data, page, PAGE * page + 8 * turn), pc_id
            assert m.sport == 1024 + pc_id % 0x8000
            assert m.sequence == sequences[pc_id], pc_id
            sequences[pc_id] += 1
    await b.nothing_more()
    assert refused > 2 and await b.changed(before) == {
        "tlp_store": sum(sequences.values()),
        "tx_store": sum(sequences.values()),
        "tlp_store_unmapped": refused,
    }


def test_pc_ids() -> None:
    """Run all tests above; the other tables are small, and nothing is sealed."""
    build_and_run(
        "ipnuma_nic_10g",
        __name__,
        filelists=["rtl/nic/nic.f"],
        parameters={"PcIds": COUNT, "Pages": PAGES, "Regions": REGIONS, "Auth": 0},
        build_args=["-Wno-UNUSEDPARAM"],
    )
