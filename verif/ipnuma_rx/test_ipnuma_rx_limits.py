# SPDX-License-Identifier: Apache-2.0
"""Hosts with small limits: the TLPs keep to them, and none leaves without bus-master enable.

Whether a TLP is legal is for tlp_rules, which watches every run of this top. These tests say that
the parts of an operation are together what it was.
"""

from __future__ import annotations

import struct

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from harness import build_and_run
from rx_bench import RULES, Bench, memory_pattern, parse_read, read_bytes, root_completions
from rx_ref import (
    CA,
    MRD,
    MWR,
    SC,
    UR,
    Addresses,
    Region,
    build,
    completion_head,
    request_head,
    tlp_payload,
)

KEY = 1
BASE = 5 << 12
WIDE_KEY = 2
WIDE_BASE = 7 << 40


async def begin(dut) -> Bench:
    """Start a bench with two regions, one of them above 4 GB."""
    bench = Bench(dut)
    await bench.start()
    for key, base in ((KEY, BASE), (WIDE_KEY, WIDE_BASE)):
        await bench.write_region(
            key, Region(base=base, last=0xFFFF, mask=0, valid=True, read=True, write=True)
        )
    return bench


async def limit(bench: Bench, max_payload: int, max_read: int) -> None:
    """Set what the host permits, while nothing is under way."""
    await RisingEdge(bench.dut.clk_pcie_i)
    bench.dut.cfg_max_payload_i.value = max_payload
    bench.dut.cfg_max_read_i.value = max_read


def ask(bench: Bench, kind: int, length: int, tag: int = 0) -> tuple[int, int, int, bytes]:
    """Send a store or load of a random place; return address, enables of its ends, and data."""
    rand = bench.rand
    key, base = rand.choice([(KEY, BASE), (WIDE_KEY, WIDE_BASE)])
    first_be, last_be = 15 << rand.randrange(4) & 15, 15 >> rand.randrange(4)
    if length == 1:
        last_be = 0
    if length == 2:
        first_be, last_be = 15, 15
    offset = 4 * rand.randrange(1024 - length + 1)
    data = rand.randbytes(4 * length) if kind == MWR else b""
    head = request_head(kind, length, tag, last_be, first_be, key, offset)
    bench.send(build(tlp_payload(head, data, 0, 0, 0, 0), Addresses(bench.me.mac, bench.me.ip)))
    return base + offset, first_be, last_be, data


def enabled(length: int, first_be: int, last_be: int, data: bytes, address: int) -> dict:
    """Bytes that a write of these enables writes, by address."""
    out = {}
    for i in range(4 * length):
        dw = i // 4
        be = first_be if dw == 0 else last_be if dw == length - 1 else 15
        if be >> i % 4 & 1:
            out[address + i] = data[i]
    return out


@cocotb.test(timeout_time=9, timeout_unit="ms")
async def stores_are_cut(dut) -> None:
    """Every limit: the parts write the bytes of the store, each once, and no more than needed."""
    bench = await begin(dut)
    bench.root_ready = 0.7
    for max_payload in (0, 1, 2):
        await limit(bench, max_payload, 2)
        for length in (1, 2, 31, 32, 33, 48, 63, 64, 64, bench.rand.randint(1, 64)):
            bench.tlps.clear()
            before = bench.pcie["dma_write"]
            address, first_be, last_be, data = ask(bench, MWR, length)
            await bench.idle()
            written: dict[int, int] = {}
            for tlp, _ in bench.tlps:
                wide = tlp[0] == 0x60
                dws = int.from_bytes(tlp[2:4], "big") & 0x3FF
                at = int.from_bytes(tlp[8 : 16 if wide else 12], "big")
                body = tlp[16 if wide else 12 :]
                assert len(body) == 4 * dws
                part = enabled(dws, tlp[7] & 15, tlp[7] >> 4, body, at)
                assert not part.keys() & written.keys(), "a byte is written twice"
                written |= part
            assert written == enabled(length, first_be, last_be, data, address)
            assert len(bench.tlps) <= (3 if max_payload == 0 and length > 32 else 1)
            assert bench.pcie["dma_write"] == before + 1


@cocotb.test(timeout_time=9, timeout_unit="ms")
async def loads_are_cut(dut) -> None:
    """Every limit, completions cut anywhere: one answer, in order; a part that fails ends it."""
    bench = await begin(dut)
    for max_read in (0, 1, 2):
        await limit(bench, 1, max_read)
        for number, length in enumerate((1, 32, 33, 64, 64, 64, bench.rand.randint(33, 64))):
            bench.tlps.clear()
            bench.replies.clear()
            address, first_be, last_be, _ = ask(bench, MRD, length, number)
            count, skip = read_bytes(length, first_be, last_be)
            fails = bench.rand.choice([None, None, 0, 1]) if length > 32 else None
            answered = 0
            for _ in range(12):
                await Timer(300, "ns")
                if answered == len(bench.tlps):
                    continue
                assert len(bench.tlps) == answered + 1, "two parts of a load are out at once"
                tlp = bench.tlps[answered][0]
                if answered == fails:
                    parts = [struct.pack(">BBHHHHBB", 0x0A, 0, 0, 0, 1 << 13 | 4, 0, tlp[6], 0)]
                else:
                    parts = root_completions(bench, tlp)
                bench.to_root.extend(parts)
                answered += 1
            await bench.idle()
            got, left, lower = b"", count, (address + skip) & 0x7F
            for fields, data in bench.replies:
                kind, _, dws, _, status, _, tag, low = struct.unpack(
                    ">BBHHHHBB", fields["head"][:12]
                )
                assert tag == number
                if kind == 0x0A:
                    assert status >> 13 == UR and fails is not None
                    break
                assert (status & 0xFFF, low, dws) == (left, lower, len(data) // 4)
                got += data
                left -= len(data) - (lower & 3)
                lower = (lower & 0x7C) + len(data) & 0x7F
            whole = memory_pattern(address, 4 * length)
            assert whole.startswith(got)
            if fails is None or fails >= answered:
                assert got == whole and left <= 0
            else:
                assert answered == fails + 1, "a part was read behind one that failed"


@cocotb.test(timeout_time=9, timeout_unit="ms")
async def completions_are_cut(dut) -> None:
    """The CPU gets its bytes in completions of the maximum payload, cut at 128 bytes."""
    bench = await begin(dut)
    for max_payload in (0, 1, 2):
        await limit(bench, max_payload, 2)
        for length in (1, 32, 33, 40, 63, 64, 64, 64):
            bench.tlps.clear()
            lower = 4 * bench.rand.randrange(32) + bench.rand.randrange(4)
            count = 4 * length - (lower & 3)
            load = {"requester_id": 0x1234, "tag": length, "tc": 0, "attr": 0}
            load |= {"byte_count": count, "lower_address": lower, "peer_ip": 77}
            tag = await bench.alloc(load)
            data = bench.rand.randbytes(4 * length)
            head = completion_head(True, length, SC, count, tag, lower)
            to = Addresses(bench.me.mac, bench.me.ip, src_ip=77)
            bench.send(build(tlp_payload(head, data, 0, 0, 0, 0), to))
            await bench.idle()
            got, left, low = b"", count, lower
            for tlp, _ in bench.tlps:
                assert tlp[0] == 0x4A and tlp[8:11] == struct.pack(">HB", 0x1234, length)
                assert int.from_bytes(tlp[6:8], "big") == left and tlp[11] == low
                body = tlp[12:]
                got += body
                left -= len(body) - (low & 3)
                low = (low & 0x7C) + len(body) & 0x7F
                assert left == 0 or low == 0, "not cut at 128 bytes"
            assert got == data and left == 0


@cocotb.test(timeout_time=9, timeout_unit="ms")
async def nothing_leaves_without_bus_master(dut) -> None:
    """Stores and loads wait for bus-master enable, in order; frames without a slot are refused."""
    bench = await begin(dut)
    await limit(bench, 0, 0)
    dut.cfg_bus_master_i.value = 0
    sent = [ask(bench, MWR, bench.rand.randint(1, 64)) for _ in range(40)]
    while bench.line:
        await RisingEdge(dut.clk_net_i)
    await ClockCycles(dut.clk_net_i, 100)
    assert not bench.tlps
    slots = int(dut.RxSlots.value)
    assert bench.net["rx_store"] == slots and bench.net["rx_overflow"] == len(sent) - slots
    dut.cfg_bus_master_i.value = 1
    await bench.idle()
    assert bench.pcie["dma_write"] == slots
    written = b"".join(t[16 if t[0] == 0x60 else 12 :] for t, _ in bench.tlps)
    assert written == b"".join(data for *_, data in sent[:slots])
    # Switched off and on under way: what begins ends, and each store is written once.
    bench.tlps.clear()
    sent = []
    for _ in range(60):
        sent.append(ask(bench, MWR, bench.rand.randint(1, 64)))
        await ClockCycles(dut.clk_pcie_i, bench.rand.randrange(1, 60))
        dut.cfg_bus_master_i.value = bench.rand.random() < 0.7
    dut.cfg_bus_master_i.value = 1
    await bench.idle()
    written = b"".join(t[16 if t[0] == 0x60 else 12 :] for t, _ in bench.tlps)
    assert bench.net["rx_overflow"] == 40 - slots
    assert written == b"".join(data for *_, data in sent)
    # A load, too, and its time-out has not begun while it waits.
    dut.cfg_bus_master_i.value = 0
    bench.tlps.clear()
    ask(bench, MRD, 4)
    await ClockCycles(dut.clk_net_i, 100)
    dut.now_us_i.value = 1000
    await ClockCycles(dut.clk_net_i, 100)
    assert not bench.tlps and not bench.replies
    dut.cfg_bus_master_i.value = 1
    await ClockCycles(dut.clk_net_i, 20)
    assert len(bench.tlps) == 1 and parse_read(bench.tlps[0][0])[1] == 4
    bench.to_root.extend(root_completions(bench, bench.tlps[0][0]))
    await bench.idle()
    assert bench.replies and bench.replies[0][0]["head"][0] != CA


def test_ipnuma_rx_limits() -> None:
    """Run all tests above behind the 10G MAC."""
    build_and_run(
        "tb_ipnuma_rx",
        __name__,
        filelists=["rtl/eth/eth.f", "rtl/ipnuma/ipnuma_rx.f"],
        sources=[*RULES, "verif/ipnuma_rx/tb_ipnuma_rx.sv"],
        parameters={"Gmii": 0},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
