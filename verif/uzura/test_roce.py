# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames: what RTL builds Scapy reads, what Scapy builds RTL reads."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

import roce

EACH = 12  # packets of every opcode
HEADER_LATENCY = 3  # edges from a packet to the first beat of its frame
PARSER_LATENCY = 3  # edges from the last beat of a frame to the packet


async def reset(dut) -> None:
    """Start the clock and reset."""
    Clock(dut.clk_i, 6400, "ps").start()
    dut.rst_i.value = 1
    dut.mac_i.value = roce.MAC_A
    dut.ip_i.value = roce.IP_A
    for name in ("packet_valid_i", "payload_valid_i", "s_tvalid_i", "payload_bad_i"):
        if hasattr(dut, name):
            getattr(dut, name).value = 0
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0


def beats(data: bytes) -> list[tuple[int, int, int]]:
    """Cut data into beats: word, bytes, last. What is behind the end is not zero."""
    out = []
    for i in range(0, len(data), 8):
        part = data[i : i + 8]
        filled = part + random.randbytes(8 - len(part))
        out.append((int.from_bytes(filled, "little"), len(part), int(i + 8 >= len(data))))
    return out


class Builder:
    """Drives roce_header and collects frames."""

    def __init__(self, dut, gap: float, pause: float) -> None:
        """Gaps in the payload, pauses of the taker."""
        self.dut, self.gap, self.pause = dut, gap, pause
        self.frames: list[bytes] = []

    async def orders(self, packets: list[roce.Packet]) -> None:
        """Offer the packets."""
        for packet in packets:
            self.dut.packet_i.value = packet.pack()
            self.dut.packet_valid_i.value = 1
            await self.taken("packet_ready_o")
            self.dut.packet_valid_i.value = 0

    async def taken(self, ready: str) -> None:
        """Wait for the edge at which what is offered is taken."""
        while True:
            await ReadOnly()
            taken = int(getattr(self.dut, ready).value)
            await RisingEdge(self.dut.clk_i)
            if taken:
                return

    async def payload(self, packets: list[roce.Packet], bad: set[int]) -> None:
        """Offer their payloads; those in `bad` are marked."""
        for number, packet in enumerate(packets):
            for word, count, last in beats(packet.payload):
                while random.random() < self.gap:
                    await RisingEdge(self.dut.clk_i)
                self.dut.payload_i.value = word << 5 | count << 1 | last
                self.dut.payload_bad_i.value = int(number in bad)
                self.dut.payload_valid_i.value = 1
                await self.taken("payload_ready_o")
                self.dut.payload_valid_i.value = 0

    async def collect(self, count: int) -> None:
        """Take frames."""
        dut, frame, held = self.dut, bytearray(), None
        while len(self.frames) < count:
            dut.m_tready_i.value = int(random.random() >= self.pause)
            await ReadOnly()
            if int(dut.m_tvalid_o.value):
                data, keep = int(dut.m_tdata_o.value), int(dut.m_tkeep_o.value)
                size = keep.bit_length()
                assert keep == (1 << size) - 1
                beat = (data & ((1 << 8 * size) - 1), size, int(dut.m_tlast_o.value))
                assert held in (None, beat), "an offered beat changed"
                held = beat
                if int(dut.m_tready_i.value):
                    held = None
                    frame += beat[0].to_bytes(size, "little")
                    assert beat[2] or size == 8
                    if beat[2]:
                        self.frames.append(bytes(frame))
                        frame = bytearray()
            else:
                assert held is None, "an offered beat was withdrawn"
            await RisingEdge(dut.clk_i)


async def build(dut, packets: list[roce.Packet], gap: float, pause: float, bad=()) -> list[bytes]:
    """Run packets through roce_header."""
    bench = Builder(dut, gap, pause)
    cocotb.start_soon(bench.orders(packets))
    cocotb.start_soon(bench.payload(packets, set(bad)))
    await with_timeout(cocotb.start_soon(bench.collect(len(packets))), 20, "ms")
    return bench.frames


@cocotb.test()
async def scapy_reads_every_frame(dut) -> None:
    """Each opcode with random fields, lengths, gaps and pauses."""
    await reset(dut)
    for gap, pause in ((0.0, 0.0), (0.5, 0.5)):
        packets = [roce.random_packet(op) for op in roce.HEADERS for _ in range(EACH)]
        random.shuffle(packets)
        for packet, frame in zip(packets, await build(dut, packets, gap, pause), strict=True):
            assert roce.parse(frame) == packet.relevant()


@cocotb.test()
async def bad_payload_spoils_the_icrc(dut) -> None:
    """Data that the host could not give never look right on the wire."""
    await reset(dut)
    packets = [roce.random_packet(0x04) for _ in range(40)]
    bad = {i for i, p in enumerate(packets) if p.payload and random.random() < 0.5}
    for number, frame in enumerate(await build(dut, packets, 0.2, 0.2, bad)):
        if number in bad:
            with pytest.raises(AssertionError, match="ICRC"):
                roce.parse(frame)
        else:
            assert roce.parse(frame) == packets[number].relevant()


@cocotb.test()
async def header_latency(dut) -> None:
    """Edges from the packet to the first beat are those of the module's header."""
    await reset(dut)
    dut.m_tready_i.value = 1
    dut.packet_i.value = roce.random_packet(0x11).pack()
    dut.packet_valid_i.value = 1
    edges = 0
    while not int(dut.m_tvalid_o.value):
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        edges += 1
    assert edges == HEADER_LATENCY


class Parser:
    """Drives roce_parser and collects packets."""

    def __init__(self, dut) -> None:
        """Begin with nothing."""
        self.dut = dut
        self.packets: list[roce.Packet] = []
        self.drops: list[str] = []
        self.since = 0

    async def watch(self) -> None:
        """Take what comes out."""
        dut, payload = self.dut, bytearray()
        while True:
            await ReadOnly()
            if int(dut.packet_valid_o.value):
                value = int(dut.packet_o.value)
                size = value & 0x1FFF
                assert len(payload) == (size + 7) // 8 * 8, "beats of payload"
                self.packets.append(roce.Packet.unpack(value, bytes(payload[:size])))
                payload = bytearray()
            if int(dut.drop_o.value):
                why = [n for n in ("other", "broken", "malformed") if self.count(n)]
                assert len(why) == 1
                self.drops += why
                payload = bytearray()
            # What comes with a verdict is of the next frame.
            if int(dut.payload_valid_o.value):
                payload += int(dut.payload_o.value).to_bytes(8, "little")
            await RisingEdge(dut.clk_i)

    def count(self, name: str) -> int:
        """Return a counter's pulse."""
        return int(getattr(self.dut, f"cnt_{name}_o").value)

    async def send(self, frame: bytes, gap: float = 0.0, bad: bool = False) -> None:
        """Send a frame."""
        for word, count, last in beats(frame):
            while random.random() < gap:
                self.dut.s_tvalid_i.value = 0
                await RisingEdge(self.dut.clk_i)
            self.dut.s_tdata_i.value = word
            self.dut.s_tkeep_i.value = (1 << count) - 1
            self.dut.s_tlast_i.value = last
            self.dut.s_tuser_i.value = int(bad and last)
            self.dut.s_tvalid_i.value = 1
            await RisingEdge(self.dut.clk_i)
        self.dut.s_tvalid_i.value = 0

    async def settle(self) -> None:
        """Wait until the last verdict is out."""
        for _ in range(PARSER_LATENCY + 1):
            await RisingEdge(self.dut.clk_i)


@cocotb.test()
async def every_frame_of_scapy_is_taken(dut) -> None:
    """Each opcode, back to back and with gaps."""
    await reset(dut)
    bench = Parser(dut)
    cocotb.start_soon(bench.watch())
    sent = []
    for gap in (0.0, 0.4):
        packets = [roce.random_packet(op) for op in roce.HEADERS for _ in range(EACH)]
        random.shuffle(packets)
        for packet in packets:
            packet.ce = random.getrandbits(1)
            await bench.send(packet.frame(), gap)
        sent += packets
    await bench.settle()
    assert not bench.drops
    for packet, got in zip(sent, bench.packets, strict=True):
        assert got.relevant() == packet.relevant()


def wrong_frames(packet: roce.Packet) -> list[tuple[str, bytes]]:
    """Frames that must not be taken, each with the counter that tells."""
    good = packet.frame()

    def edited(**extra) -> bytes:
        return roce.Packet(**(vars(packet) | {"extra": extra})).frame()

    size = len(good) - 14
    flipped = bytearray(good)
    # Any bit that the ICRC covers, and lengths and addresses are not the first to complain of.
    at = random.choice([34, 35, *range(48, len(good))])
    flipped[at] ^= 1 << random.randrange(8)
    checksum = bytearray(good)
    checksum[random.choice([24, 25])] ^= 1 << random.randrange(8)
    return [
        ("broken", bytes(flipped)),
        ("broken", bytes(checksum)),
        ("other", packet.frame(dst_mac=roce.MAC_B)),
        ("other", packet.frame(dst_ip=roce.IP_B)),
        ("other", edited(udp={"dport": 4790})),
        ("other", edited(ip={"proto": 6})),
        ("other", edited(ip={"flags": "MF"})),
        ("other", edited(ip={"frag": 5})),
        ("other", edited(ether={"type": 0x86DD})),
        ("other", good[: random.randrange(1, 57)]),
        ("malformed", edited(bth={"version": 1})),
        ("malformed", edited(bth={"pkey": 0x1234})),
        ("malformed", edited(bth={"opcode": random.choice([0x15, 0x18, 0x20, 0x40, 0x81, 0xFF])})),
        ("malformed", edited(udp={"len": size - 20 + random.choice([-8, -4, 4, 8])})),
    ]


@cocotb.test()
async def wrong_frames_are_counted(dut) -> None:
    """Each field wrong: dropped, counted once, and the frames around it taken."""
    await reset(dut)
    bench = Parser(dut)
    cocotb.start_soon(bench.watch())
    sent, why = [], []
    for _ in range(10):
        for reason, frame in wrong_frames(roce.random_packet(0x04, 300)):
            await bench.send(frame, random.choice([0.0, 0.3]))
            why.append(reason)
            if random.random() < 0.5:
                sent.append(roce.random_packet(limit=100))
                await bench.send(sent[-1].frame())
        await bench.send(roce.random_packet().frame(), bad=True)
        why.append("broken")
    await bench.settle()
    assert bench.drops == why
    for packet, got in zip(sent, bench.packets, strict=True):
        assert got.relevant() == packet.relevant()


@cocotb.test()
async def random_bits_are_never_taken(dut) -> None:
    """Frames with flipped bits, cut, lengthened or random: no packet, or the one that was sent.

    Bits that the ICRC does not cover may change: the packet is then the same.
    """
    await reset(dut)
    bench = Parser(dut)
    cocotb.start_soon(bench.watch())
    for _ in range(400):
        packet = roce.random_packet(limit=64)
        frame = bytearray(packet.frame())
        kind = random.randrange(4)
        if kind == 0:
            for _ in range(random.randrange(1, 4)):
                frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)
        elif kind == 1:
            frame = frame[: random.randrange(1, len(frame))]
        elif kind == 2:
            frame += random.randbytes(random.randrange(1, 20))
        else:
            frame = bytearray(random.randbytes(random.randrange(1, 200)))
        before = len(bench.packets)
        await bench.send(bytes(frame))
        await bench.settle()
        for got in bench.packets[before:]:
            # The source's MAC and the congestion mark are not covered.
            got.mac, got.ce = packet.mac, packet.ce
            assert kind == 0 and got.relevant() == packet.relevant()


@cocotb.test()
async def parser_latency(dut) -> None:
    """Edges from the last beat to the packet are those of the module's header."""
    await reset(dut)
    bench = Parser(dut)
    await bench.send(roce.random_packet(0x0A).frame())
    edges = 1
    await ReadOnly()
    while not int(dut.packet_valid_o.value):
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        edges += 1
    assert edges == PARSER_LATENCY


HEADER_TESTS = ["scapy_reads_every_frame", "bad_payload_spoils_the_icrc", "header_latency"]
PARSER_TESTS = [
    "every_frame_of_scapy_is_taken",
    "wrong_frames_are_counted",
    "random_bits_are_never_taken",
    "parser_latency",
]


@pytest.mark.parametrize(
    ("top", "tests"), [("roce_header", HEADER_TESTS), ("roce_parser", PARSER_TESTS)]
)
def test_roce(top: str, tests: list[str]) -> None:
    """Builder and parser, each against Scapy."""
    build_and_run(top, __name__, filelists=["rtl/uzura/uzura.f"], testcases=tests)
