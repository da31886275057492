# SPDX-License-Identifier: Apache-2.0
"""Bench of the VLAN stages beside real MACs, 10G and 1G: Scapy says what a tagged frame is."""

from __future__ import annotations

import logging
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from cocotbext.eth import GmiiFrame, GmiiSink, GmiiSource, XgmiiFrame, XgmiiSink, XgmiiSource
from harness import build_and_run
from scapy.compat import raw
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

VID = 0x5A3
JUMBO = 9216
MIN_WIRE = 64
IDLE_WORD = int.from_bytes(bytes([7] * 8), "little")
MACS = {"dst": "02:00:00:00:00:01", "src": "02:00:00:00:00:fe"}


@dataclass
class Sent:
    """A frame on the wire without FCS, and what must become of it."""

    wire: bytes
    plain: bytes  # the same without the tag, if it has the right one
    fits: bool  # the tag is the right one
    broken: bool = False


def with_fcs(frame: bytes) -> bytes:
    """Append the FCS, which Scapy does not do."""
    return frame + zlib.crc32(frame).to_bytes(4, "little")


def make(rand: random.Random, length: int, kind: str, vid: int = VID) -> Sent:
    """Return a frame of `length` bytes with FCS."""
    head = Ether(**MACS)
    tags = {
        "plain": [],
        "right": [Dot1Q(vlan=vid, prio=rand.randrange(8), id=rand.randrange(2))],
        "other": [Dot1Q(vlan=vid ^ 1 << rand.randrange(12), prio=rand.randrange(8))],
        "service": [Dot1AD(vlan=vid)],
        "double": [Dot1Q(vlan=vid), Dot1Q(vlan=rand.randrange(1, 4095))],
    }[kind]
    body = Raw(rand.randbytes(JUMBO))

    def build(layers: list) -> bytes:
        packet = head.copy()
        for layer in layers:
            packet /= layer
        packet /= body
        # The innermost type; anything that Scapy does not take apart.
        (packet.getlayer(len(layers))).type = 0x88B5
        return raw(packet)

    wire = build(tags)[: length - 4]
    fits = kind in ("right", "double") and len(wire) >= 16
    plain = build(tags[1:])[: max(length - 8, 0)] if fits else wire
    return Sent(wire, plain, fits)


class Rate:
    """One of the two MACs: its pins and its signals."""

    def __init__(self, dut, index: int) -> None:
        self.dut, self.index = dut, index
        self.per_cycle = (8, 1)[index]
        clock, reset = dut.clk_i, dut.rst_i
        if index == 0:
            self.source = XgmiiSource(dut.xgmii_rxd_i, dut.xgmii_rxc_i, clock, reset)
            self.sink = XgmiiSink(dut.xgmii_txd_o, dut.xgmii_txc_o, clock, reset)
        else:
            pins = (dut.gmii_rxd_i, dut.gmii_rx_er_i, dut.gmii_rx_dv_i)
            self.source = GmiiSource(*pins, clock, reset)
            pins = (dut.gmii_txd_o, dut.gmii_tx_er_o, dut.gmii_tx_en_o)
            self.sink = GmiiSink(*pins, clock, reset)
        for model in (self.source, self.sink):
            model.log.setLevel(logging.WARNING)

    def frame(self, data: bytes):
        """Return a frame for the source; `data` has its FCS."""
        kind = (XgmiiFrame, GmiiFrame)[self.index]
        return kind(b"\x55" * 7 + b"\xd5" + data)


async def start(dut, index: int) -> Rate:
    """Start the clock, reset, put all inputs to rest."""
    cocotb.start_soon(Clock(dut.clk_i, 6400, "ps").start())
    dut.xgmii_rxd_i.value = IDLE_WORD
    dut.xgmii_rxc_i.value = 0xFF
    for name in ("gmii_rxd_i", "gmii_rx_dv_i", "gmii_rx_er_i", "tag_i", "vid_i"):
        dut[name].value = 0
    for i in range(2):
        dut.start_i[i].value = 0
        dut.tx_i[i].value = 0
    dut.rst_i.value = 1
    rate = Rate(dut, index)
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0
    await RisingEdge(dut.clk_i)
    return rate


@dataclass
class Got:
    """A frame behind vlan_untag."""

    data: bytes
    bad: bool
    vlan_bad: bool
    brief: bool


async def collect(dut, rate: Rate, count: int, got: list[Got]) -> None:
    """Take frames; check the shape of beats and that each leaves with the one behind it."""
    data = b""
    marks: set[bool] = set()
    due = held = False  # a beat must come in this cycle; a beat waits inside
    while len(got) < count:
        await FallingEdge(dut.clk_i)
        mac_valid, mac_last = divmod(int(dut.mac_o[rate.index].value), 2)
        word = int(dut.rx_o[rate.index].value)
        keep = word >> 64 & 0xFF
        brief, vlan_bad, bad, last, valid, busy = (word >> 72 + bit & 1 for bit in range(6))
        assert busy == held, "busy is not whether a beat waits"
        assert valid == (due or (held and mac_valid)), "a beat in the wrong cycle"
        if valid:
            size = keep.bit_count()
            assert keep == (1 << size) - 1 and size and (last or size == 8), f"tkeep {keep:#x}"
            beat = (word & (1 << 64) - 1).to_bytes(8, "little")
            assert not any(beat[size:]), "lanes without tkeep are zero"
            data += beat[:size]
            marks.add(bool(vlan_bad))
            if last:
                assert len(marks) == 1, "vlan_bad changed within a frame"
                got.append(Got(data, bool(bad), marks.pop(), bool(brief)))
                data = b""
        # What is left of a frame leaves in the next cycle, unless all left with its last beat.
        due = bool(mac_valid and mac_last and not (valid and last))
        held = due or bool(held and not valid) or bool(mac_valid and not mac_last)


def lengths(rand: random.Random) -> Iterator[int]:
    """Yield every length that matters."""
    yield from range(60, 201)
    yield from (1, 7, 8, 9, 12, 13, 15, 16, 17, 20, 21, 24, 25, 59)
    yield from (JUMBO - 1, JUMBO, JUMBO + 1, rand.randint(200, 1518), rand.randint(1519, JUMBO))


async def untag(dut, index: int, kinds: list[str]) -> None:
    """Frames of all lengths and kinds, back to back, with tags wanted and not."""
    rand = random.Random(cocotb.RANDOM_SEED)
    rate = await start(dut, index)
    dut.vid_i.value = VID
    stripped = marked = 0
    for tag in (1, 0):
        dut.tag_i.value = tag
        sent = [
            make(rand, max(length, 4), kind)
            for length in lengths(rand)
            for kind in (kinds if tag else kinds[:1])
        ]
        rand.shuffle(sent)
        got: list[Got] = []
        task = cocotb.start_soon(collect(dut, rate, len(sent), got))
        wires = []
        for item in sent:
            wire = with_fcs(item.wire)
            if rand.random() < 0.1:
                at = rand.randrange(len(wire) - 4, len(wire))
                wire = wire[:at] + bytes([wire[at] ^ 1 << rand.randrange(8)]) + wire[at + 1 :]
                item.broken = True
            if len(item.wire) < 16 <= len(wire) and wire[12:14] == b"\x81\x00":
                # The end of the tag is the FCS; by chance it may fit.
                item.fits = int.from_bytes(wire[14:16], "big") % 4096 == VID
            wires.append(wire)
            await rate.source.send(rate.frame(wire))
        await task
        for item, wire, out in zip(sent, wires, got, strict=True):
            strip = bool(tag) and item.fits
            fcs = wire[len(item.wire) :]
            want = item.plain + fcs if strip else wire
            if strip and len(item.wire) < 16:
                want = wire[:12] + wire[16:]
            want = want[:JUMBO] if len(wire) <= JUMBO else want
            brief = len(wire) < MIN_WIRE
            bad = item.broken or brief or len(wire) > JUMBO
            if len(wire) > JUMBO:
                # Cut by the MAC at the beat that exceeds the limit.
                assert out.bad and want.startswith(out.data[: JUMBO - 4])
                continue
            assert out.data == want, f"{len(wire)} bytes, strip {strip}"
            assert out.bad == bad
            assert out.brief == brief
            assert out.vlan_bad == (bool(tag) and not item.fits)
            stripped += strip
            marked += out.vlan_bad
    assert stripped > 100 and marked > 100


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def untag_10g(dut) -> None:
    """vlan_untag behind xgmii_rx."""
    await untag(dut, 0, ["right", "plain", "other", "service", "double"])


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def untag_1g(dut) -> None:
    """vlan_untag behind gmii_rx."""
    await untag(dut, 1, ["right", "plain"])


async def offer(dut, index: int, frames: list[tuple[bytes, bool]], starts: list[int]) -> None:
    """Give frames as the core does: start when the MAC is ready, then a beat whenever it takes one.

    Notes the cycle of each start.
    """
    cycle = 0

    async def tick() -> None:
        nonlocal cycle
        await FallingEdge(dut.clk_i)
        cycle += 1

    for data, bad in frames:
        await tick()
        while not dut.ready_start_o[index].value:
            await tick()
        dut.start_i[index].value = 1
        starts.append(cycle)
        await tick()
        dut.start_i[index].value = 0
        for at in range(0, len(data), 8):
            chunk = data[at : at + 8]
            last = at + 8 >= len(data)
            word = int.from_bytes(chunk, "little") | (1 << len(chunk)) - 1 << 64
            word |= (last and bad) << 72 | last << 73 | 1 << 74
            dut.tx_i[index].value = word
            while not dut.ready_o[index].value:
                await tick()
            # Taken at the edge to come.
            if not last:
                await tick()
        await tick()
        # Anything may be there while nothing is offered.
        dut.tx_i[index].value = random.getrandbits(74)


async def tag(dut, index: int, sizes: list[int]) -> None:
    """Frames of all lengths leave with a tag or without, whole, at line rate."""
    rand = random.Random(cocotb.RANDOM_SEED)
    rate = await start(dut, index)
    underruns = 0

    async def watch() -> None:
        nonlocal underruns
        while True:
            await FallingEdge(dut.clk_i)
            underruns += int(dut.stat_o[index].value) & 1

    cocotb.start_soon(watch())
    for on in (1, 0):
        vid = rand.randrange(4096)
        dut.tag_i.value = on
        dut.vid_i.value = vid
        sent = [make(rand, size + 4, rand.choice(("plain", "other"))).wire for size in sizes]
        rand.shuffle(sent)
        frames = [(data, rand.random() < 0.1) for data in sent]
        starts: list[int] = []
        await offer(dut, index, frames, starts)
        # What counts is the tag when a frame starts.
        dut.tag_i.value = 1 - on
        total = 0
        for number, (data, bad) in enumerate(frames):
            frame = await rate.sink.recv()
            want = data
            if on and len(data) >= 12:
                tag_bytes = raw(Ether(**MACS) / Dot1Q(vlan=vid, prio=0, type=0))[12:16]
                want = data[:12] + tag_bytes + data[12:]
            want = want.ljust(60, b"\0")
            if on and len(data) >= 14:
                seen = Ether(bytes(frame.get_payload()))
                assert (seen[Dot1Q].vlan, seen[Dot1Q].prio) == (vid, 0)
                assert seen[Dot1Q].type == int.from_bytes(data[12:14], "big")
            body = bytes(frame.get_payload(strip_fcs=False))
            assert body[:-4] == want, f"{len(data)} bytes"
            errors = frame.ctrl if index == 0 else frame.error
            spoiled = not frame.check_fcs() or (errors is not None and any(errors))
            assert spoiled == bad
            if number < len(frames) - 1:
                total += 8 + len(want) + 4 + 12
        # Frames follow each other without a pause: 10G rounds a gap to four bytes.
        cycles = starts[-1] - starts[0]
        assert abs(cycles - total / rate.per_cycle) <= (2 if index == 0 else len(frames))
    assert underruns == 0


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def tag_10g(dut) -> None:
    """vlan_tag in front of xgmii_tx."""
    await tag(dut, 0, [*range(1, 201), JUMBO - 8, JUMBO - 7, 1514, 1515, 1516])


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def tag_1g(dut) -> None:
    """vlan_tag in front of gmii_tx."""
    await tag(dut, 1, [*range(8, 90), *range(190, 200), 1514])


def test_vlan() -> None:
    """Run the tests of both stages at both rates."""
    build_and_run(
        "tb_vlan",
        __name__,
        filelists=["rtl/fibnic/acl.f"],
        sources=["verif/fibnic/tb_vlan.sv"],
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
