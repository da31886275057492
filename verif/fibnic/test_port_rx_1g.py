# SPDX-License-Identifier: Apache-2.0
"""Bench of the receiving side of a 1G port: what it tells of each frame, and when."""

from __future__ import annotations

import ipaddress
import random
import zlib
from collections import Counter
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from fibnic_bench import Bench as Bench10g
from fibnic_bench import (
    make_frame,
    near_hop_by_hop,
    rng,
    special_and_near,
    special_frame,
    with_fcs,
)
from harness import build_and_run
from router_ref import Router

PERIOD_PS = 8000
PREAMBLE = bytes([0x55] * 7 + [0xD5])
FIRST = 3  # cycle in which the first byte is behind the crossing
MAC = bytes([2, 0, 0, 0, 0x10, 0])


class Maker(Bench10g):
    """Makes frames as the switch's bench does."""

    def __init__(self, rand: random.Random) -> None:
        self.rand = rand
        self.router = Router([MAC] * 4)


@dataclass
class Told:
    """What a receiver tells of a frame."""

    req: tuple[int, int, int] | None = None  # cycle, family, address when it was whole
    hdr: dict[str, int] = field(default_factory=dict)
    acl: tuple[int, ...] = ()
    data: bytes = b""
    ending: tuple[bool, bool] = (False, False)


NAMES = (
    "brief vlan_bad mac_mine mac_group v4 v6 bad_header options martian local_only expires"
).split()


def header(word: int) -> dict[str, int]:
    """Take the header's word apart."""
    out = {name: word >> (26 - i) & 1 for i, name in enumerate(NAMES)}
    return out | {"length": word & 0xFFFF}


def expect(wire: bytes, vid: int | None, broken: bool, max_frame: int) -> Told:
    """Say what must be told of a frame, tag and FCS included; all of it if it is no runt."""
    frame = wire[: max_frame + 1]
    cut = len(wire) > max_frame
    plain = frame
    vlan_bad = False
    if vid is not None:
        mine = frame[12:14] == b"\x81\x00" and int.from_bytes(frame[14:16], "big") & 0xFFF == vid
        vlan_bad = not mine
        if mine:
            plain = frame[:12] + frame[16:]
    kind = plain[12:14]
    v4, v6 = kind == b"\x08\x00", kind == b"\x86\xdd"
    ip = plain[14:].ljust(64, b"\0")  # what a runt lacks does not matter
    told = Told()
    hdr: dict[str, int] = dict.fromkeys(NAMES, 0) | {"length": 0}
    hdr |= {"vlan_bad": vlan_bad, "mac_mine": plain[:6] == MAC, "mac_group": plain[0] & 1}
    hdr |= {"v4": v4, "v6": v6}
    key: tuple[int, ...] = (0,) * 7
    if v4:
        total = int.from_bytes(ip[2:4], "big")
        ihl = ip[0] & 15
        src, dst = (ipaddress.IPv4Address(ip[at : at + 4]) for at in (12, 16))
        words = sum(int.from_bytes(ip[i : i + 2], "big") for i in range(0, 20, 2))
        hdr["length"] = total
        hdr["options"] = ihl != 5
        hdr["bad_header"] = (
            ip[0] >> 4 != 4 or ihl < 5 or total < 20 or (ihl == 5 and words % 0xFFFF != 0)
        )
        none = [0, 127, *range(240, 256)]
        everyone = int(dst) == 0xFFFFFFFF
        hdr["martian"] = ip[12] in none or src.is_multicast or (ip[16] in none and not everyone)
        local = dst.is_multicast or everyone or src.is_link_local or dst.is_link_local
        hdr["local_only"] = local
        hdr["expires"] = ip[8] <= 1
        first = int.from_bytes(ip[6:8], "big") & 0x1FFF == 0
        ports = ip[9] in (6, 17, 132) and ihl == 5 and first and total >= 24
        pair = [int.from_bytes(ip[at : at + 2], "big") if ports else 0 for at in (20, 22)]
        key = (0, int(src) << 96, int(dst) << 96, ip[9], ports, *pair)
        told.req = (FIRST + 8 + 33 - 1, 4, int(dst) << 96)
    elif v6:
        payload = int.from_bytes(ip[4:6], "big")
        src, dst = (ipaddress.IPv6Address(ip[at : at + 16]) for at in (8, 24))
        hdr["length"] = min(payload + 40, 65535)
        hdr["options"] = ip[6] == 0
        hdr["bad_header"] = ip[0] >> 4 != 6
        hdr["martian"] = src.is_multicast or int(src) <= 1 or int(dst) <= 1
        local = dst.is_multicast or src.is_link_local or dst.is_link_local
        hdr["local_only"] = local
        hdr["expires"] = ip[7] <= 1
        ports = ip[6] in (6, 17, 132) and payload >= 4
        pair = [int.from_bytes(ip[at : at + 2], "big") if ports else 0 for at in (40, 42)]
        key = (1, int(src), int(dst), ip[6], ports, *pair)
        told.req = (FIRST + 8 + 40 - 1, 6, int(dst))
    if told.req and plain is not frame:
        told.req = (told.req[0] + 4, *told.req[1:])
    told.hdr = {name: int(value) for name, value in hdr.items()}
    told.acl = tuple(int(n) for n in key)
    told.data = plain[:-4]
    good = zlib.crc32(frame[:-4]).to_bytes(4, "little") == frame[-4:]
    brief = len(frame) < 64
    short = (v4 or v6) and len(plain) - 18 < hdr["length"]
    told.ending = (broken or cut or brief or not good or short, brief)
    return told


class Bench:
    """Plays frames, collects what is told."""

    def __init__(self, dut, rand: random.Random, vid: int | None) -> None:
        self.dut, self.rand, self.vid = dut, rand, vid
        self.told: list[Told] = []
        self.starts: list[int] = []  # cycle of each frame's first byte on the pins
        self.cycle = 0
        self.asked: list[tuple[int, int, int]] = []
        self.hdrs: list[tuple[int, dict[str, int]]] = []
        self.acls: list[tuple[int, tuple[int, ...]]] = []
        self.data: list[tuple[bytes, bool]] = []
        self.ends: list[tuple[bool, bool]] = []
        self.pop = 0.5

    async def start(self, longer_ps: int) -> None:
        """Clocks, reset; the receive clock's period is so much longer."""
        dut = self.dut
        for name in "gmii_rxd_i gmii_rx_dv_i gmii_rx_er_i beat_pop_i end_pop_i".split():
            getattr(dut, name).value = 0
        dut.mac_i.value = int.from_bytes(MAC, "big")
        dut.tag_i.value, dut.vid_i.value = self.vid is not None, self.vid or 0
        dut.rst_i.value = 1
        Clock(dut.clk_i, PERIOD_PS, "ps").start()
        Clock(dut.clk_rx_i, PERIOD_PS + longer_ps, "ps", period_high=PERIOD_PS // 2).start()
        for _ in range(6):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        cocotb.start_soon(self._watch())
        for _ in range(40):
            await RisingEdge(dut.clk_rx_i)

    async def play(self, wire: bytes, gap: int, error_at: int | None = None) -> None:
        """Put a frame on the pins and keep the gap behind it."""
        dut = self.dut
        edge = RisingEdge(dut.clk_rx_i)
        self.starts.append(self.cycle + 1)
        dut.gmii_rx_dv_i.value = 1
        for i, byte in enumerate(PREAMBLE + wire):
            dut.gmii_rxd_i.value = byte
            dut.gmii_rx_er_i.value = error_at is not None and i == error_at + 8
            await edge
        dut.gmii_rx_dv_i.value = 0
        dut.gmii_rx_er_i.value = 0
        for _ in range(gap):
            await edge

    async def _watch(self) -> None:
        dut = self.dut
        edge = FallingEdge(dut.clk_i)
        waits: list[int] = []  # cycles until addresses are whole
        data = b""
        while True:
            # In the middle of the cycle that began with the edge counted here.
            await edge
            self.cycle += 1
            if dut.req4_o.value or dut.req6_o.value:
                assert not waits
                family = 6 if dut.req6_o.value else 4
                assert not (dut.req4_o.value and dut.req6_o.value)
                # One cycle later than it comes: when the lookup takes it.
                waits = [self.cycle, family, 15 if family == 6 else 2]
            elif waits:
                waits[2] -= 1
                if waits[2] == 0:
                    address = int(dut.addr_o.value)
                    address = address if waits[1] == 6 else address >> 96 << 96
                    self.asked.append((waits[0], waits[1], address))
                    waits = []
            if dut.hdr_valid_o.value:
                self.hdrs.append((self.cycle, header(int(dut.hdr_o.value))))
            if dut.acl_valid_o.value:
                word = int(dut.acl_o.value)
                parts = []
                for width in (16, 16, 1, 8, 128, 128, 1):
                    parts.append(word & (1 << width) - 1)
                    word >>= width
                sport, dport = parts[1], parts[0]
                self.acls.append((self.cycle, (*parts[:2:-1], parts[2], sport, dport)))
                assert len(self.acls) <= len(self.hdrs)
            pop = self.rand.random() < self.pop
            dut.beat_pop_i.value = pop
            if pop and dut.beat_valid_o.value:
                keep = int(dut.keep_o.value)
                last = bool(dut.last_o.value)
                assert last or keep == 255
                data += int(dut.data_o.value).to_bytes(8, "little")[: keep.bit_count()]
                if last:
                    self.data.append((data, bool(dut.bad_o.value)))
                    data = b""
            pop = len(self.ends) < len(self.data)
            dut.end_pop_i.value = pop
            if pop:
                # The end is there no later than the last beat was seen.
                assert dut.end_valid_o.value
                self.ends.append((bool(dut.end_bad_o.value), bool(dut.end_brief_o.value)))


async def run(
    dut, *, vid: int | None, longer_ps: int, count: int, special: bool = False
) -> Counter[str]:
    """Play random frames, behind those of special addresses if wanted; compare all that is told."""
    rand = rng()
    bench = Bench(dut, rand, vid)
    maker = Maker(rand)
    whole = [
        special_frame(maker, 0, address, field)
        for address in (special_and_near(rand) if special else ())
        for field in ("src", "dst")
    ]
    whole += near_hop_by_hop(maker, 0) if special else []
    count += len(whole)
    await bench.start(longer_ps)
    limit = int(dut.MaxFrame.value)
    seen: Counter[str] = Counter()
    wires: list[tuple[bytes, Told]] = []
    for index in range(count):
        plain = index < len(whole)
        frame = whole[index] if plain else make_frame(maker, 0).ljust(60, b"\0")
        if not plain and rand.random() < 0.3:
            # Anything in the header.
            frame = bytearray(frame)
            frame[rand.randrange(12, 58)] = rand.choice([0, 1, 5, 6, 17, 132, 0xFE, 0xFF, 0x45])
            frame = bytes(frame)
        if vid is not None and rand.random() < 0.8:
            tag = vid if rand.random() < 0.8 else vid ^ 1 << rand.randrange(12)
            control = rand.randrange(16) << 12 | tag
            frame = frame[:12] + b"\x81\x00" + control.to_bytes(2, "big") + frame[12:]
        wire = with_fcs(frame)
        pick = 1.0 if plain else rand.random()
        error_at = None
        if pick < 0.1:
            wire = wire[: rand.randint(1, len(wire))]
        elif pick < 0.15:
            wire = with_fcs(frame[: rand.randint(60, len(frame))])
        elif pick < 0.2:
            error_at = rand.randrange(len(wire))
        elif pick < 0.22:
            wire = wire.ljust(limit + rand.randint(1, 20), b"\0")
        told = expect(wire, vid, error_at is not None, limit)
        wires.append((wire, told))
        await bench.play(wire, rand.choice([12, 12, 13, 40]), error_at)
    bench.pop = 1.0
    for _ in range(300):
        await RisingEdge(dut.clk_i)
    assert not dut.busy_o.value
    assert len(bench.hdrs) == len(bench.acls) == len(bench.data) == len(bench.ends) == count
    for i, (wire, told) in enumerate(wires):
        began = bench.starts[i]
        at, hdr = bench.hdrs[i]
        data, bad = bench.data[i]
        assert (bad, bench.ends[i]) == (told.ending[0], told.ending), (i, len(wire))
        asked = [a for a in bench.asked if began <= a[0] < began + len(wire) + 16]
        tagged = 4 if len(told.data) + 4 < min(len(wire), limit + 1) else 0
        # A request was made exactly for IP frames that are not brief.
        assert len(asked) == ((hdr["v4"] or hdr["v6"]) and not hdr["brief"])
        if len(wire) < 64:
            seen["brief" if hdr["brief"] else "brief, asked"] += 1
            continue
        assert not hdr["brief"] and data == told.data
        seen["tagged" if tagged else "plain"] += 1
        if not (told.hdr["v4"] or told.hdr["v6"]):
            # What IP would say of it does not matter.
            for name in ("vlan_bad", "mac_mine", "mac_group", "v4", "v6"):
                assert hdr[name] == told.hdr[name], (i, name)
            assert bench.acls[i][1] == told.acl
            continue
        assert hdr == told.hdr, (i, wire.hex())
        assert bench.acls[i][1] == told.acl, (i, wire.hex())
        cycle, family, address = asked[0]
        assert (family, address) == told.req[1:], i
        late = cycle - began - told.req[0]
        behind = at - cycle - (2 if family == 4 else 15)
        after = bench.acls[i][0] - cycle - (5 if family == 4 else 18)
        if not told.acl[4]:
            after = bench.acls[i][0] - at
        if longer_ps == 0:
            assert (late, behind, after) == (0, 0, 0), (i, late, behind, after)
        else:
            # The phase, and a byte held up.
            assert -1 <= late <= 1 and 0 <= behind <= 1 and 0 <= after <= 1
            seen["slip"] += behind
        seen["ports" if told.acl[4] else "no ports"] += 1
    return seen


@cocotb.test()
async def plain_frames(dut) -> None:
    """No VLAN, equal clocks: all in the cycles that the headers of the modules say."""
    seen = await run(dut, vid=None, longer_ps=0, count=400, special=True)
    dut._log.info("%s", seen)
    assert seen["brief"] and seen["brief, asked"] and seen["ports"] and seen["no ports"]


@cocotb.test()
async def tagged_frames(dut) -> None:
    """Frames of one VLAN, equal clocks."""
    seen = await run(dut, vid=0x123, longer_ps=0, count=300)
    dut._log.info("%s", seen)
    assert seen["tagged"] > 100 and seen["plain"] > 30


@cocotb.test()
async def reset_within_a_frame(dut) -> None:
    """Of the first frame behind a reset all is told, wherever the reset fell in the one before."""
    rand = rng()
    bench = Bench(dut, rand, None)
    maker = Maker(rand)
    await bench.start(0)
    limit = int(dut.MaxFrame.value)
    for _ in range(30):
        bench.pop = 0.0
        cut = cocotb.start_soon(bench.play(with_fcs(make_frame(maker, 0).ljust(60, b"\0")), 12))
        for _ in range(rand.randrange(1, 70)):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 1
        for _ in range(rand.randrange(8, 20)):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        await cut
        for _ in range(40):
            await RisingEdge(dut.clk_rx_i)
        for told in (bench.hdrs, bench.acls, bench.data, bench.ends):
            told.clear()
        bench.pop = 1.0
        wire = with_fcs(special_frame(maker, 0, "10.1.2.3", "dst"))
        await bench.play(wire, 300)
        told = expect(wire, None, False, limit)
        assert [hdr for _, hdr in bench.hdrs] == [told.hdr]
        assert [acl for _, acl in bench.acls] == [told.acl]
        assert (bench.data, bench.ends) == ([(told.data, False)], [told.ending])


@cocotb.test()
async def slow_receiver(dut) -> None:
    """A receive clock far too slow: a byte held up in many headers, never two."""
    seen = await run(dut, vid=None, longer_ps=60, count=300)
    dut._log.info("%s", seen)
    assert seen["slip"]


@cocotb.test()
async def fast_receiver(dut) -> None:
    """A receive clock 500 ppm fast."""
    seen = await run(dut, vid=None, longer_ps=-4, count=200)
    assert not seen["slip"]


def test_port_rx_1g() -> None:
    """Run all."""
    build_and_run(
        "tb_port_rx_1g",
        __name__,
        filelists=["rtl/fibnic/fibnic_1g.f"],
        sources=["verif/fibnic/tb_port_rx_1g.sv"],
        parameters={"Vlan": 1},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
