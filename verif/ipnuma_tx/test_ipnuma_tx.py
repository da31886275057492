# SPDX-License-Identifier: Apache-2.0
"""Bench of the sending chain: TLP in, frame on XGMII or GMII out."""

from __future__ import annotations

import random
import struct

import cocotb
import pytest
from cocotb.triggers import ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from harness import build_and_run
from tx_bench import (
    PCIE_COUNTERS,
    PCIE_PS,
    Bench,
    check_frames,
    random_page,
    random_sender,
    random_tlp,
    tx_frame,
)
from tx_ref import (
    UDP_PORT,
    Config,
    Expected,
    Page,
    Peer,
    Sender,
    Tlp,
    tlp_payload,
    udp_frame,
    with_fcs,
)


@cocotb.test()
async def random_tlps(dut) -> None:
    """Any mixture of TLPs: frames, counters, refusals, register operations and completions."""
    await mixture(dut, None)


@cocotb.test()
async def random_tlps_with_acknowledgements(dut) -> None:
    """The same with an acknowledgement waiting all the time, where it costs nothing."""
    await mixture(dut, (False, 0x1234))


@cocotb.test()
async def random_tlps_with_urgent_acknowledgements(dut) -> None:
    """And where it does."""
    await mixture(dut, (True, 0xFEDC))


async def mixture(
    dut, ack: tuple[bool, int] | None, periods: tuple[int, int] = (PCIE_PS, PCIE_PS)
) -> None:
    """Random TLPs against the reference."""
    pages, pc_ids = int(dut.Pages.value), int(dut.PcIds.value)
    sender = random_sender(pages, pc_ids)
    bench = Bench(
        dut,
        offset=random.randrange(100, 6400, 200),
        periods=periods,
        alloc_rate=0.7,
        ready_rate=0.8,
    )
    await bench.start()
    bench.acknowledge(sender, ack)
    await bench.write_tables(sender)
    changes: list[tuple[int, Page]] = []

    async def change_table(_op: tuple) -> None:
        if changes:
            await bench.write_page(*changes.pop(0))

    bench.on_reg_write = change_table
    tlps, marks = [], {}
    used = random.sample(range(pages), 24)
    for index in range(500 if ack else 1500):
        tlp = random_tlp(pages)
        beyond = tlp.address >> 12 & 0x3FFFF >= pages
        if tlp.bar == 2 and not tlp.is_completion and not beyond and random.random() < 0.7:
            page = random.choice(used)
            tlp.address = tlp.address & ~0x3FFFF000 | page << 12
        tlps.append(tlp)
        if tlp.bar == 0 and tlp.is_store and not (tlp.ep or tlp.cut):
            if tlp.length <= 2:
                # The table change that this write stands for holds for the next TLP.
                marks[index] = (random.choice(used), random_page(pc_ids))
                changes.append(marks[index])
    for tlp in tlps:
        await bench.send(tlp, gap=random.choice((0, 0, 0, 0.5)))
        if random.random() < 0.05:
            for _ in range(random.randrange(125)):
                await RisingEdge(dut.clk_pcie_i)
    await bench.idle()

    expected = Expected()
    outcomes = iter(bench.outcomes)
    for index, tlp in enumerate(tlps):
        sender.take(tlp, expected, lambda: next(outcomes))
        if index in marks:
            sender.page_map[marks[index][0]] = marks[index][1]
    assert next(outcomes, "none") == "none"
    dut._log.info("counters %s, %d frames", bench.counters, len(bench.frames))
    assert bench.counters == expected.counters, f"want {expected.counters}"
    if not ack:
        # The long run has all of them.
        assert set(PCIE_COUNTERS) == set(expected.counters), "the mixture left something out"
    in_sessions = sum(1 for frame in expected.frames if frame[34] >= 0xC0)
    assert 0 < in_sessions < len(expected.frames)
    assert bench.errors == expected.errors
    assert bench.loads == expected.loads
    assert bench.completions == expected.completions
    assert len(bench.reg_ops) == len(expected.reg_ops)
    for op, tlp in zip(bench.reg_ops, expected.reg_ops, strict=True):
        want = (
            int(tlp.is_store),
            tlp.address & 0x7FFFFC,
            int(tlp.length == 2),
            tlp.first_be,
            tlp.last_be,
            tlp.requester_id,
            tlp.tag,
            tlp.tc,
            tlp.attributes,
        )
        assert (*op[:3], *op[4:]) == want
        if tlp.is_store:
            assert op[3].to_bytes(8, "little")[: 4 * tlp.length] == tlp.data
    check_frames(bench, expected.frames)
    assert bench.net_counters.get("store", 0) == expected.counters["store"]
    assert bench.net_counters.get("load", 0) == expected.counters["load"]


def store(page: int, length: int, wide: bool = False, offset: int = 0) -> Tlp:
    """A whole store."""
    return Tlp(
        fmt_type=0x60 if wide else 0x40,
        length=length,
        first_be=0xF,
        last_be=0xF if length > 1 else 0,
        address=page << 12 | offset,
        data=random.randbytes(4 * length),
    )


def simple_sender(pages: int, pc_ids: int) -> Sender:
    """PC ID 1 compact on pages 0..7, 2 tlp on 8..15; 3 and 4 the same in sessions on 16..31."""
    sender = Sender(Config(), pages, pc_ids)
    sender.peers[1] = Peer(True, True, 4000, 0x020000000011, 0x0A000011)
    sender.peers[2] = Peer(True, False, 4001, 0x020000000012, 0x0A000012)
    sender.peers[3] = Peer(True, True, 4002, 0x020000000013, 0x0A000013, session=True)
    sender.peers[4] = Peer(True, False, 4003, 0x020000000014, 0x0A000014, session=True)
    for index in range(32):
        sender.page_map[index] = Page(1 + index // 8, index << 20 | 0x100 + index, 0x800 + index)
    return sender


async def phases(dut, offset: int) -> None:
    """Send single stores at each phase of the two clocks; 32 ns hold all that this offset has."""
    sender = simple_sender(int(dut.Pages.value), int(dut.PcIds.value))
    bench = Bench(dut, offset=offset)
    await bench.start()
    await bench.write_tables(sender)
    expected = Expected()
    # Look-ups slower than the synchroniser delay the token; the module computes by how much.
    period = 8.0 if bench.gmii else 6.4
    slow = 4 * (int(dut.PageMapLatency.value) + 1) - 2 * period
    slower = 4 * (int(dut.PageMapLatency.value) + int(dut.PcIdLatency.value) + 1) - 3 * period
    late = -(-max(0, slow, slower) // 4) * 4
    tlps = []
    for page in (0, 8, 16, 24):
        for step in range(8):
            # In sessions the start is the same: two lengths are enough.
            shapes = ((False, 1), (True, 2), (True, 1), (False, 16), (True, 64))
            for wide, length in shapes[: 5 if page < 16 else 2]:
                tlps.append((page, step, store(page, length, wide)))
    results = []
    for _, step, tlp in tlps:
        while (int(get_sim_time("ps")) // PCIE_PS) % 8 != step:
            await RisingEdge(dut.clk_pcie_i)
        count = len(bench.frames)
        await bench.send(tlp)
        beats = (len(tlp.pack()) + 7) // 8
        sender.take(tlp, expected, lambda: 0)
        while len(bench.frames) == count:
            await RisingEdge(dut.clk_net_i)
        await bench.idle()
        nanoseconds = (bench.frames[-1].time - bench.first_beats[-1]) / 1000
        # From the last beat on all stores are alike; a 4-byte one with a 3-DW header has two beats.
        results.append(nanoseconds - 4 * (beats - 2))
    check_frames(bench, expected.frames)
    dut._log.info("first beat to /S/ (two beats): %.1f..%.1f ns", min(results), max(results))
    # Second beat, the slice of its lane, two to three edges of the network clock: 20.8..27.2 ns.
    assert min(results) >= 8 + 2 * period + late
    assert max(results) <= 8 + 3 * period + late
    # The phases of this offset were met: eight in steps of 0.8 ns, or with 8 ns two.
    assert max(results) - min(results) > (3.9 if bench.gmii else 5.0)


@cocotb.test()
async def latency_even_phases(dut) -> None:
    """First beat to /S/, phases 0.1 ns off the multiples of 0.8 ns."""
    await phases(dut, 100)


@cocotb.test()
async def latency_odd_phases(dut) -> None:
    """First beat to /S/, phases between those."""
    await phases(dut, 500)


async def flood(
    dut, page: int, lengths: tuple[int, ...], count: int, ack: tuple[bool, int] | None = None
) -> None:
    """Stores as fast as they are taken: XGMII must never wait for the builder."""
    sender = simple_sender(int(dut.Pages.value), int(dut.PcIds.value))
    bench = Bench(dut, offset=random.randrange(100, 6400, 200))
    await bench.start()
    bench.acknowledge(sender, ack)
    await bench.write_tables(sender)
    for length in lengths:
        bench.frames.clear()
        expected = Expected()
        for _ in range(count):
            tlp = store(page, length, wide=bool(random.randrange(2)))
            await bench.send(tlp)
            sender.take(tlp, expected, lambda: 0)
        await bench.idle()
        check_frames(bench, expected.frames)
        # Preamble and the gap of 12 bytes on average are all that lies between frames. The deficit
        # idle count moves a start by up to seven bytes.
        size = len(bench.frames[0].data) + 8 + 12
        begin, end = bench.frames[4], bench.frames[-1]
        byte = 8000 if bench.gmii else 800
        duration = (end.time + end.lane * byte) - (begin.time + begin.lane * byte)
        average = duration / (len(bench.frames) - 5) / byte
        dut._log.info("%d bytes of payload: one frame each %.3f byte times", 4 * length, average)
        assert abs(average - size) * (len(bench.frames) - 5) <= 8


@cocotb.test()
async def line_rate_minimum(dut) -> None:
    """8-byte stores: 64-byte frames, 84 byte times each."""
    await flood(dut, 0, (2,), 200)


@cocotb.test()
async def line_rate_compact_longest(dut) -> None:
    """256-byte compact stores."""
    await flood(dut, 1, (64,), 60)


@cocotb.test()
async def line_rate_tlp(dut) -> None:
    """Stores in the tlp format, short and long."""
    await flood(dut, 8, (1,), 100)


@cocotb.test()
async def line_rate_tlp_longest(dut) -> None:
    """256-byte stores in the tlp format."""
    await flood(dut, 9, (64,), 60)


@cocotb.test()
async def line_rate_in_a_session(dut) -> None:
    """8-byte stores of a session, acknowledgements where they cost nothing: 84 byte times each."""
    await flood(dut, 16, (2,), 200, (False, 0xBEEF))


@cocotb.test()
async def line_rate_with_acknowledgements(dut) -> None:
    """An acknowledgement in every compact frame: all four ways to end."""
    await flood(dut, 16, (1, 2, 3, 63, 64), 50, (True, 0xBEEF))


@cocotb.test()
async def line_rate_tlp_with_acknowledgements(dut) -> None:
    """An acknowledgement in every tlp frame: it costs nothing."""
    await flood(dut, 24, (2, 3), 50, (False, 0xBEEF))


@cocotb.test()
async def joined_stores(dut) -> None:
    """Stores that wait anyway travel together: every byte is there, in order and once."""
    sender = simple_sender(int(dut.Pages.value), int(dut.PcIds.value))
    bench = Bench(dut, offset=random.randrange(100, 6400, 200))
    await bench.start()
    await bench.write_tables(sender)
    dut.merge_i.value = 1
    for page in (0, 16):
        bench.frames.clear()
        bench.net_counters.clear()
        memory, offset, count = b"", 0, 0
        while offset < 4096:
            dws = min(random.choice((1, 1, 2, 2, 2, 5)), (4096 - offset) // 4)
            tlp = store(page, dws, offset=offset)
            # A digest is no data: the store behind goes on in its place.
            tlp.td = random.randrange(2)
            await bench.send(tlp, gap=random.choice((0, 0.3)))
            memory += tlp.data
            offset += 4 * dws
            count += 1
        await bench.idle()
        at = 0
        for frame in bench.frames:
            # What it is by itself: one store of all that it carries, whatever it was joined of.
            size = int.from_bytes(frame.data[16:18], "big") - 20 - 8 - 10
            tlp = store(page, size // 4, offset=at)
            tlp.data = memory[at : at + size]
            assert frame.data == with_fcs(sender.store_or_load(tlp, 0))
            at += size
        assert at == 4096
        assert bench.net_counters["store"] == len(bench.frames)
        assert bench.net_counters["merged"] == count - len(bench.frames) > 0


@cocotb.test()
async def three_sources_and_arp(dut) -> None:
    """Completions, refusals and ARP replies pass between stores; none starves, none is cut."""
    sender = simple_sender(int(dut.Pages.value), int(dut.PcIds.value))
    config = sender.config
    bench = Bench(dut, offset=random.randrange(100, 6400, 200))
    await bench.start()
    await bench.write_tables(sender)
    expected = Expected()
    completions: list[bytes] = []
    refusals: list[bytes] = []
    arps: list[bytes] = []

    async def complete() -> None:
        for _ in range(30):
            length = random.choice((0, 1, 2, 33, 64, random.randint(1, 64)))
            data = random.randbytes(4 * length)
            head = random.randbytes(16)
            head = bytes([0x4A if length else 0x0A]) + head[1:]
            mac, ip = random.getrandbits(48), random.getrandbits(32)
            while True:
                await ReadOnly()
                free = int(dut.slot_free_o.value)
                await RisingEdge(dut.clk_pcie_i)
                if free:
                    break
            words = [data[i : i + 8] for i in range(0, len(data), 8)]
            for index, word in enumerate(words):
                dut.slot_pay_idx_i.value = index
                dut.slot_pay_even_i.value = int.from_bytes(word[:4], "little")
                dut.slot_pay_odd_i.value = int.from_bytes(word[4:], "little")
                dut.slot_pay_even_we_i.value = 1
                dut.slot_pay_odd_we_i.value = int(len(word) == 8)
                await RisingEdge(dut.clk_pcie_i)
            dut.slot_pay_even_we_i.value = 0
            dut.slot_pay_odd_we_i.value = 0
            dut.slot_frame_i.value = tx_frame(mac, ip, head, data_dw=length)
            dut.slot_commit_i.value = 1
            await RisingEdge(dut.clk_pcie_i)
            dut.slot_commit_i.value = 0
            payload = tlp_payload(config, 0, None, head, data, 0)
            completions.append(udp_frame(config, mac, ip, UDP_PORT, payload))

    async def deny() -> None:
        for _ in range(30):
            zeros = random.choice((0, 1, 7, 64))
            kind = 0 if zeros else 1
            head = random.randbytes(16)
            if zeros:
                head = b"\x4a" + head[1:]
            mac, ip = random.getrandbits(48), random.getrandbits(32)
            dut.deny_frame_i.value = tx_frame(mac, ip, head, kind, zeros, bool(zeros))
            dut.deny_valid_i.value = 1
            payload = tlp_payload(config, kind, None, head, bytes(4 * zeros), 0)
            refusals.append(udp_frame(config, mac, ip, UDP_PORT, payload))
            while True:
                await ReadOnly()
                popped = int(dut.deny_pop_o.value)
                await RisingEdge(dut.clk_net_i)
                if popped:
                    break
            dut.deny_valid_i.value = 0
            for _ in range(random.choice((0, 0, 40))):
                await RisingEdge(dut.clk_net_i)

    async def arp() -> None:
        for _ in range(20):
            frame = random.randbytes(12) + b"\x08\x06" + random.randbytes(28)
            arps.append(frame.ljust(60, b"\0"))
            for at in range(0, 42, 8):
                beat = frame[at : at + 8]
                dut.s_arp_tvalid_i.value = 1
                dut.s_arp_tdata_i.value = int.from_bytes(beat, "little")
                dut.s_arp_tkeep_i.value = (1 << len(beat)) - 1
                dut.s_arp_tlast_i.value = int(at + 8 >= 42)
                while True:
                    await ReadOnly()
                    taken = int(dut.s_arp_tready_o.value)
                    await RisingEdge(dut.clk_net_i)
                    if taken:
                        break
            dut.s_arp_tvalid_i.value = 0
            for _ in range(random.randrange(80)):
                await RisingEdge(dut.clk_net_i)

    async def stores() -> None:
        for _ in range(80):
            tlp = store(random.randrange(32), random.randint(1, 64))
            await bench.send(tlp)
            sender.take(tlp, expected, lambda: 0)

    tasks = [cocotb.start_soon(task()) for task in (complete, deny, arp, stores)]
    for task in tasks:
        await task
    await bench.idle()
    seen = [frame.data[:-4] for frame in bench.frames]
    for frame in bench.frames:
        assert frame.data == with_fcs(frame.data[:-4])
    # Each source keeps its order.
    for name, frames in (
        ("stores", expected.frames),
        ("completions", completions),
        ("refusals", refusals),
        ("arp", arps),
    ):
        wanted = set(frames)
        assert [frame for frame in seen if frame in wanted] == frames, name
    assert len(seen) == len(expected.frames) + len(completions) + len(refusals) + len(arps)
    last = {name: seen.index(f[-1]) for name, f in (("c", completions), ("d", refusals))}
    assert max(last.values()) < len(seen) - 1, "the others starved behind the stores"
    zero_completions = sum(1 for frame in refusals if frame[50] == 0x4A and frame[44] == 0)
    assert bench.net_counters == {
        "store": 80,
        "completion": 30 + zero_completions,
        "error": 30 - zero_completions,
        "arp": 20,
    }


@cocotb.test()
async def unmapped_stores_make_room(dut) -> None:
    """A long run of stores to unmapped pages leaves nothing behind, and is not felt by others."""
    sender = simple_sender(int(dut.Pages.value), int(dut.PcIds.value))
    bench = Bench(dut, offset=random.randrange(100, 6400, 200))
    await bench.start()
    await bench.write_tables(sender)
    expected = Expected()
    for index in range(100):
        tlp = store(40 if index % 10 else 3, 1)
        await bench.send(tlp)
        sender.take(tlp, expected, lambda: 0)
    await bench.idle()
    check_frames(bench, expected.frames)
    assert bench.counters == {"store": 10, "store_unmapped": 90}


@cocotb.test()
async def tables_read_back(dut) -> None:
    """Entries read as written; a reset takes the permissions away."""
    bench = Bench(dut)
    await bench.start()
    sender = random_sender(int(dut.Pages.value), int(dut.PcIds.value))
    await bench.write_tables(sender)

    async def read(table: str, index: int) -> int:
        getattr(dut, f"{table}_cfg_index_i").value = index
        getattr(dut, f"{table}_cfg_read_i").value = 1
        await RisingEdge(dut.clk_pcie_i)
        getattr(dut, f"{table}_cfg_read_i").value = 0
        for _ in range(8):
            await ReadOnly()
            done = int(getattr(dut, f"{table}_cfg_read_done_o").value)
            value = int(getattr(dut, f"{table}_cfg_entry_o").value)
            await RisingEdge(dut.clk_pcie_i)
            if done:
                return value
        raise AssertionError("no answer within eight cycles")

    for index, page in enumerate(sender.page_map):
        assert await read("page", index) == page.word()
    for index, peer in enumerate(sender.peers):
        assert await read("pcid", index) == peer.word()
    dut.rst_pcie_i.value = 1
    dut.rst_net_i.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk_net_i)
    dut.rst_net_i.value = 0
    await RisingEdge(dut.clk_pcie_i)
    dut.rst_pcie_i.value = 0
    for index, peer in enumerate(sender.peers):
        assert await read("pcid", index) == peer.word() & ~(1 << 96)


@cocotb.test()
async def edges_of_the_bar(dut) -> None:
    """The last page is there; the page behind it is not, nor is one with a higher address bit."""
    pages = int(dut.Pages.value)
    sender = simple_sender(pages, int(dut.PcIds.value))
    sender.page_map[pages - 1] = Page(1, 0x300, 0x123)
    bench = Bench(dut, offset=random.randrange(100, 6400, 200))
    await bench.start()
    await bench.write_tables(sender)
    expected = Expected()
    # Cut to the index of the map, each of those beyond would be a page that is mapped.
    beyond = [pages, pages + 1, 2 * pages - 1, (1 << 18) - 1]
    beyond += [1 << bit for bit in range(pages.bit_length(), 18)]
    for page in (0, pages - 1, *beyond, pages - 1):
        load = store(page, 1)
        load.fmt_type, load.data = 0, b""
        for tlp in (store(page, 1), load, store(page, 3, wide=True)):
            await bench.send(tlp)
            await bench.idle()
            sender.take(tlp, expected, iter(bench.outcomes[-1:]).__next__)
    check_frames(bench, expected.frames)
    assert bench.counters == expected.counters
    assert bench.counters["page_beyond"] == 3 * len(beyond)
    assert bench.errors == expected.errors and len(bench.errors) == len(beyond)


@cocotb.test()
async def header_bytes_by_hand(dut) -> None:
    """One frame, byte for byte as a reader of docs/wire-format.md would write it down."""
    sender = simple_sender(int(dut.Pages.value), int(dut.PcIds.value))
    bench = Bench(dut)
    await bench.start()
    await bench.write_tables(sender)
    tlp = store(3, 1, offset=0x124)
    tlp.first_be = 0b0110
    tlp.data = b"\x11\x22\x33\x44"
    await bench.send(tlp)
    await bench.idle()
    frame = bench.frames[0].data
    assert frame[:14] == bytes.fromhex("020000000011 020000000001 0800")
    assert frame[14:24] == bytes.fromhex("4500 002a 0000 4000 4011")
    assert frame[26:34] == bytes.fromhex("0a000001 0a000011")
    assert frame[34:42] == struct.pack(">HHHH", 4000, 3422, 22, 0)
    assert frame[42:54] == bytes.fromhex("c1 0000 0030103125 11223344")
    assert len(frame) == 64


FILELISTS = ["rtl/eth/eth.f", "rtl/ipnuma/ipnuma_tx.f"]


@pytest.mark.parametrize(("latencies", "gmii"), [((2, 1), 0), ((4, 2), 0), ((2, 1), 1)])
def test_ipnuma_tx(latencies: tuple[int, int], gmii: int) -> None:
    """All tests: the look-up latencies of the NIC, slow memories, and the 1G transmitter."""
    build_and_run(
        "tb_ipnuma_tx",
        __name__,
        filelists=FILELISTS,
        sources=["verif/ipnuma_tx/tb_ipnuma_tx.sv"],
        parameters={
            "PageMapLatency": latencies[0],
            "PcIdLatency": latencies[1],
            "Gmii": gmii,
        },
        # Packages are used in part here.
        build_args=["-Wno-UNUSEDPARAM"],
    )
