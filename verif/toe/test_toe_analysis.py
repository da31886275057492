# SPDX-License-Identifier: Apache-2.0
"""Bench of the analyzers: headers in order, payload results in any."""

from __future__ import annotations

import os
import random
import struct

import cocotb
import pytest
from cocotb.triggers import ReadOnly, RisingEdge
from harness import build_and_run
from scapy.layers.inet import ICMP, IP, UDP, in4_chksum
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from toe_bench import (
    HEADER,
    MAC,
    PEER_MAC,
    Sent,
    Wire,
    random_options,
    rng,
    segment,
    start,
    unpack,
    with_fcs,
)

SETTING = os.environ.get("TOE_SETTING", "fast")
# Latencies in cycles that are locked: first beat to header, of minimum segments and of those longer
# than the longest header; last beat to payload result.
MINIMUM_LATENCY = {"fast": 13}
HEADER_LATENCY = {"fast": 17}
RESULT_LATENCY = {"fast": 5}
SETTINGS = {
    "fast": {},
    "single": {"Analyzers": 1},
    # The document's analyzers: 32 bit at 62.5 MHz, seen from 156.25 MHz.
    "document": {"BytesPerCycle": 4, "PaceNum": 2, "PaceDen": 5},
    # A payload function of one byte a tick.
    "iterative": {"Analyzers": 8, "PayloadTicks": 8},
}


def expected_values(options: list) -> dict[str, int]:
    """Read what Scapy was told to write."""
    out = {"mss_valid": 0, "scale_valid": 0, "sack_ok": 0, "times_valid": 0, "blocks": 0}
    for name, value in options:
        if name == "MSS":
            out |= {"mss_valid": 1, "mss": value}
        elif name == "WScale":
            out |= {"scale_valid": 1, "scale": min(value, 14)}
        elif name == "SAckOK":
            out["sack_ok"] = 1
        elif name == "Timestamp":
            out |= {"times_valid": 1, "time_value": value[0], "time_echo": value[1]}
        elif name == "SAck":
            out["blocks"] = len(value) // 2
            for i in range(len(value) // 2):
                out |= {f"first{i}": value[2 * i], f"behind{i}": value[2 * i + 1]}
    return out


def random_segment(rand: random.Random, longest: int) -> Sent:
    """Make a good segment and say what the engine must read of it."""
    options = random_options(rand)
    flags = rand.randrange(256)
    about = {"seq": rand.getrandbits(32), "ack": rand.getrandbits(32)}
    about |= {"sport": rand.randrange(1, 65536), "dport": rand.randrange(1, 65536)}
    about |= {"window": rand.getrandbits(16)}
    size = rand.choice((0, 1, 6, rand.randrange(64), rand.randrange(longest), longest))
    size = min(size, longest - 40)
    names = "".join(c for i, c in enumerate("FSRPAUEC") if flags >> i & 1)
    frame = segment(rand.randbytes(size), flags=names, options=options, **about)
    about["src_port"], about["dst_port"] = about.pop("sport"), about.pop("dport")
    about |= {"flags": flags, "bytes": size, "tcp": 1, "ok": 1} | expected_values(options)
    about["options"] = options
    return Sent(frame, about=about)


def reseal(frame: bytearray) -> bytes:
    """Give a changed frame the FCS that an error behind it would have got."""
    return with_fcs(bytes(frame[:-4]))


def intact(frame: bytes) -> int:
    """Judge a segment by its bytes: whether it is whole, and what its sum is by Scapy."""
    ip = IP(frame[14:34])
    end = 14 + ip.len
    return int(end <= len(frame) - 4 and in4_chksum(ip.proto, ip, frame[34:end]) == 0)


def spoil(rand: random.Random, sent: Sent) -> Sent:
    """Corrupt a byte, or a length, or the frame's kind; say what is to be seen."""
    data = bytearray(sent.data)
    end = 14 + int.from_bytes(data[16:18], "big")
    kind = rand.choice(("payload", "tcp", "ip", "error", "cut", "fragment", "version", "total"))
    if kind == "payload":
        data[rand.randrange(34, end)] ^= 1 << rand.randrange(8)
        return Sent(reseal(data), about={"ok": 0})
    if kind == "tcp":
        data[rand.randrange(34, 54)] ^= rand.randrange(1, 256)
        return Sent(reseal(data), about={"ok": 0})
    if kind == "ip":
        data[rand.randrange(14, 34)] ^= 1 << rand.randrange(8)
        return Sent(reseal(data), about={"tcp": 0})
    if kind == "error":
        return Sent(bytes(data), error=True, about=sent.about | {"ok": 0})
    if kind == "cut":
        # Not padded: the last frame of a link that goes down.
        keep = rand.randrange(1, end)
        return Sent(bytes(data[:keep]), about={"ok": 0} if keep >= 94 else {"ok": 0, "tcp": 0})
    if kind == "fragment":
        return Sent(refresh(data, 20, 0x20 if rand.random() < 0.5 else 0x01), about={"tcp": 0})
    if kind == "version":
        return Sent(refresh(data, 14, rand.choice((0x46, 0x55, 0x44))), about={"tcp": 0})
    # Another length than it has; the sum of fewer bytes may be right by chance.
    frame = refresh(data, 17, (data[17] + rand.randrange(1, 40)) % 40)
    return Sent(frame, about={"tcp": 0} if end < 270 else {"ok": intact(frame)})


def refresh(data: bytearray, at: int, value: int) -> bytes:
    """Change a byte of the IPv4 header and make its checksum right."""
    data[at] = value
    data[24:26] = b"\0\0"
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(14, 34, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    data[24:26] = (0xFFFF ^ total).to_bytes(2, "big")
    return reseal(data)


def other(rand: random.Random) -> Sent:
    """Make a frame that is not TCP."""
    ether = Ether(src=PEER_MAC, dst=MAC)
    choice = rand.choice((ARP(), IP() / ICMP(), IP() / UDP() / Raw(rand.randbytes(100))))
    return Sent(with_fcs(bytes(ether / choice)), about={"tcp": 0})


def hostile_options(rand: random.Random) -> Sent:
    """Make options of random bytes; a walk of our own says what they hold."""
    frame = bytearray(segment(rand.randbytes(40), options=[("NOP", None)] * 40))
    area = bytes(rand.choice((0, 1, 2, 3, 4, 5, 8, 10, rand.randrange(256))) for _ in range(40))
    frame[54:94] = area
    values = {"mss_valid": 0, "scale_valid": 0, "sack_ok": 0, "times_valid": 0, "blocks": 0}
    at = 0
    while at < 40 and area[at] != 0:
        if area[at] == 1:
            at += 1
            continue
        length = area[at + 1] if at < 39 else 0
        if length < 2 or at + length > 40:
            break
        body = area[at + 2 : at + length]
        match area[at], length:
            case 2, 4:
                values |= {"mss_valid": 1, "mss": int.from_bytes(body, "big")}
            case 3, 3:
                values |= {"scale_valid": 1, "scale": min(body[0], 14)}
            case 4, 2:
                values["sack_ok"] = 1
            case 8, 10:
                values |= {"times_valid": 1, "time_value": int.from_bytes(body[:4], "big")}
            case 5, (10 | 18 | 26 | 34):
                values |= {"blocks": (length - 2) // 8, "first0": int.from_bytes(body[:4], "big")}
        at += length
    # Which of two options of a kind counts is not said anywhere: here it is the union of none.
    kinds = [k for k in (2, 3, 4, 5, 8) if area.count(bytes([k])) > 1]
    # The checksum is that of the options before: right by chance only.
    sealed = reseal(frame)
    return Sent(sealed, about={"tcp": 1, "ok": intact(sealed)} | ({} if kinds else values))


def halves(data: bytes) -> int:
    """Add up 16-bit words, the last one filled up with zeros."""
    padded = data + b"\0" * (len(data) % 2)
    return sum(struct.unpack(f">{len(padded) // 2}H", padded))


def reaches_into_the_fcs(rand: random.Random, more: int) -> Sent:
    """Search a frame whose length takes in bytes of its FCS, and whose sum is right with them."""
    while True:
        frame = bytearray(segment(rand.randbytes(50)))
        total = int.from_bytes(frame[16:18], "big") + more
        frame = bytearray(refresh(frame, 17, total))[:-4]
        pseudo = halves(bytes(frame[26:34])) + 6 + total - 20
        for checksum in range(1 << 16):
            frame[50:52] = checksum.to_bytes(2, "big")
            sealed = with_fcs(bytes(frame))
            if (pseudo + halves(sealed[34 : 14 + total])) % 0xFFFF == 0:
                return Sent(sealed, about={"ok": 0})


def longer_than_can_be(rand: random.Random, total: int) -> Sent:
    """Make a frame of an absurd length that is right for a sum of the addresses alone."""
    frame = bytearray(segment(rand.randbytes(50)))
    frame[16:18] = total.to_bytes(2, "big")
    frame[28:30] = b"\0\0"
    rest = halves(bytes(frame[26:34])) + 6 + total - 20
    frame[28:30] = (0xFFFF - rest % 0xFFFF).to_bytes(2, "big")
    return Sent(refresh(frame, 17, frame[17]), about={"ok": 0})


class Checker:
    """Compares headers and results with what was sent."""

    def __init__(self, dut, wire: Wire, *, constant: bool) -> None:
        self.dut, self.wire, self.constant = dut, wire, constant
        self.sent: list[Sent] = []
        self.headers = 0
        self.results: dict[int, int] = {}
        self.order: list[int] = []
        self.latency: dict[str, set[int]] = {"header": set(), "result": set()}

    def header(self) -> None:
        """Check a header against the frame whose turn it is."""
        seen = unpack(int(self.dut.header_o.value), HEADER)
        sent = self.sent[self.headers]
        assert seen["tag"] == self.headers % 256, "a header out of arrival order"
        for name, value in sent.about.items():
            if name in seen:
                assert seen[name] == value, f"frame {self.headers}: {name} is {seen[name]}, {sent}"
        if sent.about.get("options") is not None:
            assert seen["offset"] + seen["bytes"] == 14 + int.from_bytes(sent.data[16:18], "big")
        self.latency["header"].add(self.wire.cycle - sent.first)
        self.headers += 1

    def result(self) -> None:
        """Check a payload result; its slot says of which frame."""
        tag = int(self.dut.tag_o.value)
        index = next(i for i in range(tag, len(self.sent), 256) if i not in self.results)
        assert index < self.headers, "a payload result before its header"
        ok = int(self.dut.ok_o.value)
        assert ok == self.sent[index].about.get("ok", ok), f"frame {index}: {self.sent[index]}"
        self.results[index] = ok
        self.order.append(index)
        self.latency["result"].add(self.wire.cycle - self.sent[index].last)

    async def run(self) -> None:
        """Watch for ever; a slot is given back as its result comes."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk_i)
            await ReadOnly()
            if dut.header_valid_o.value:
                self.header()
            if dut.result_valid_o.value:
                self.result()
            assert not dut.overflow_o.value


async def traffic(dut, frames: list[Sent], gaps: random.Random | None) -> Checker:
    """Send frames and wait for the results of all."""
    for name in ("tvalid_i", "free_valid_i", "rd_en_i", "rd_addr_i", "free_i"):
        dut[name].value = 0
    wire = Wire(dut, gaps=gaps)
    await start(dut)
    checker = Checker(dut, wire, constant=gaps is None)
    cocotb.start_soon(wire.run())
    cocotb.start_soon(checker.run())
    words = int(dut.Words.value)
    for sent in frames:
        checker.sent.append(sent)
        wire.queue.append(sent)
        # The bench, not the buffer, is to be the limit.
        while len(wire.queue) > 4 or len(checker.sent) - len(checker.results) > 12:
            await RisingEdge(dut.clk_i)
            judged = range(checker.headers)
            gone = next((i for i in judged if i not in checker.results), checker.headers)
            dut.free_valid_i.value = 1
            dut.free_i.value = sum((len(s.data) + 7) // 8 for s in frames[:gone]) % words
    for _ in range(20000):
        if len(checker.results) == len(frames):
            break
        await RisingEdge(dut.clk_i)
    assert len(checker.results) == len(frames), "a frame has no result"
    return checker


@cocotb.test()
async def any_frame(dut) -> None:
    """Good, spoiled, hostile and foreign frames in random order."""
    rand = rng()
    frames = []
    for _ in range(120 if SETTING in ("document", "iterative") else 300):
        good = random_segment(rand, 1460 if rand.random() < 0.3 else 300)
        kind = rand.random()
        if kind < 0.5:
            frames.append(good)
        elif kind < 0.8:
            frames.append(spoil(rand, good))
        else:
            frames.append(hostile_options(rand) if kind < 0.93 else other(rand))
    checker = await traffic(dut, frames, rand)
    overtaken = sum(a > b for a, b in zip(checker.order, checker.order[1:], strict=False))
    dut._log.info("%d results came before those of earlier frames", overtaken)
    if SETTING in ("document", "iterative"):
        assert overtaken, "no payload result overtook another: the case was not met"


@cocotb.test()
async def lengths_beyond_the_frame(dut) -> None:
    """What IP's header says to be longer than the frame can hold is not whole, whatever its sum."""
    rand = rng()
    frames = [reaches_into_the_fcs(rand, more) for more in (1, 2, 3, 4)]
    absurd = (0x7FED, 0x7FEE, 0x7FF1, 0x7FF2, 0x7FFF, 0x8000, 0x8022, 0xFFED, 0xFFF2, 0xFFFF)
    frames += [longer_than_can_be(rand, total) for total in absurd]
    frames.append(Sent(segment(rand.randbytes(50)), about={"ok": 1, "tcp": 1}))
    await traffic(dut, frames, rand)


@cocotb.test(skip=SETTING != "fast")
async def minimum_back_to_back(dut) -> None:
    """Minimum segments at line rate: their headers come a constant time behind their first beat."""
    rand = rng()
    about = {"ok": 1, "tcp": 1}
    frames = [Sent(segment(rand.randbytes(6), seq=i), about=about) for i in range(200)]
    checker = await traffic(dut, frames, None)
    dut._log.info("latency: %s", checker.latency)
    assert checker.latency["header"] == {MINIMUM_LATENCY[SETTING]}


@cocotb.test(skip=SETTING != "fast")
async def long_back_to_back(dut) -> None:
    """Long segments at line rate: the payload result comes a constant time behind the last beat."""
    rand = rng()
    frames = [Sent(segment(rand.randbytes(1460), seq=i), about={"ok": 1}) for i in range(30)]
    checker = await traffic(dut, frames, None)
    dut._log.info("latency: %s", checker.latency)
    assert checker.latency["header"] == {HEADER_LATENCY[SETTING]}
    assert checker.latency["result"] == {RESULT_LATENCY[SETTING]}


@pytest.mark.parametrize("setting", SETTINGS)
def test_toe_analysis(setting: str) -> None:
    """Run all with analyzers of several speeds."""
    build_and_run(
        "tb_toe_analysis",
        __name__,
        filelists=["rtl/toe/toe.f"],
        sources=["verif/toe/tb_toe_analysis.sv"],
        parameters=SETTINGS[setting],
        extra_env={"TOE_SETTING": setting},
    )
