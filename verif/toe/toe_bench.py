# SPDX-License-Identifier: Apache-2.0
"""What the benches of the offload engine share: segments from Scapy, and stations at its ports."""

from __future__ import annotations

import random
import zlib
from collections import deque
from dataclasses import dataclass, field

from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

PERIOD_PS = 6400
MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
ADDRESS, PEER = "10.0.0.1", "10.0.0.2"
FINAL_GAP = 20  # bytes of preamble and gap on the wire
MINIMUM = 60

_BLOCK = (("first", 32), ("behind", 32))
VALUES = (
    ("mss_valid", 1),
    ("mss", 16),
    ("scale_valid", 1),
    ("scale", 4),
    ("sack_ok", 1),
    ("times_valid", 1),
    ("time_value", 32),
    ("time_echo", 32),
    ("blocks", 3),
    *((f"{side}{i}", 32) for i in (3, 2, 1, 0) for side in ("first", "behind")),
)
HEADER = (
    ("tag", 8),
    ("addr", 16),
    ("tcp", 1),
    ("src_mac", 48),
    ("dst_mac", 48),
    ("src_ip", 32),
    ("dst_ip", 32),
    ("src_port", 16),
    ("dst_port", 16),
    ("seq", 32),
    ("ack", 32),
    ("flags", 8),
    ("window", 16),
    ("offset", 15),
    ("bytes", 15),
    *VALUES,
)


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


def unpack(value: int, fields: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """Take a packed struct apart; the last field is in the low bits."""
    out = {}
    for name, width in reversed(fields):
        out[name] = value & ((1 << width) - 1)
        value >>= width
    assert value == 0, "the struct has other fields than the bench"
    return out


def with_fcs(frame: bytes) -> bytes:
    """Pad to Ethernet's minimum and append the FCS."""
    frame = frame.ljust(MINIMUM, b"\0")
    return frame + zlib.crc32(frame).to_bytes(4, "little")


def segment(
    payload: bytes = b"",
    *,
    seq: int = 0,
    ack: int = 0,
    flags: str = "A",
    sport: int = 4000,
    dport: int = 80,
    window: int = 65535,
    options: list | None = None,
    src: str = PEER,
    dst: str = ADDRESS,
    padding: bool = True,
) -> bytes:
    """Build a frame, checksums by Scapy."""
    tcp = TCP(
        sport=sport,
        dport=dport,
        seq=seq % 2**32,
        ack=ack % 2**32,
        flags=flags,
        window=window,
        options=options or [],
    )
    packet = Ether(src=PEER_MAC, dst=MAC) / IP(src=src, dst=dst) / tcp / Raw(payload)
    return with_fcs(bytes(packet)) if padding else bytes(packet)


def random_options(rand: random.Random) -> list:
    """Options of all kinds in any order, at any alignment, in at most 40 bytes."""
    pool = [
        (("MSS", rand.randrange(65536)), 4),
        (("WScale", rand.randrange(256)), 3),
        (("SAckOK", b""), 2),
        (("Timestamp", (rand.getrandbits(32), rand.getrandbits(32))), 10),
        ((rand.choice((19, 30, 77, 254)), rand.randbytes(rand.randrange(5))), 6),
    ]
    blocks = rand.randrange(1, 5)
    pool.append((("SAck", tuple(rand.getrandbits(32) for _ in range(2 * blocks))), 2 + 8 * blocks))
    rand.shuffle(pool)
    out, room = [], 40
    for option, size in pool[: rand.randrange(7)]:
        while rand.random() < 0.4 and room:
            out.append(("NOP", None))
            room -= 1
        if size <= room:
            out.append(option)
            room -= size
    return out


@dataclass
class Sent:
    """A frame under way."""

    data: bytes
    error: bool = False  # the MAC's
    about: dict = field(default_factory=dict)
    first: int = -1  # cycles of its first and last beat
    last: int = -1


class Wire:
    """Drives s_eth a beat a cycle, at most as fast as 10GBASE-R would."""

    def __init__(self, dut, *, gaps: random.Random | None = None) -> None:
        self.dut, self.gaps = dut, gaps
        self.queue: deque[Sent] = deque()
        self.cycle = 0
        self.credit = 0  # bytes of line time that are owed to the gap
        self.quiet = True

    async def run(self) -> None:
        """Send what is queued for ever."""
        dut = self.dut
        current, position = None, 0
        dut.tvalid_i.value = 0
        while True:
            await RisingEdge(dut.clk_i)
            self.cycle += 1
            if current is None and self.queue and self.credit <= 0:
                current, position = self.queue.popleft(), 0
                current.first = self.cycle
            if current is None:
                self.credit = max(self.credit - 8, -8)
                if not self.quiet:
                    dut.tvalid_i.value = 0
                self.quiet = True
                continue
            piece = current.data[position : position + 8]
            position += 8
            last = position >= len(current.data)
            dut.tvalid_i.value = 1
            dut.tdata_i.value = int.from_bytes(piece, "little")
            dut.tkeep_i.value = (1 << len(piece)) - 1
            dut.tlast_i.value = int(last)
            dut.tuser_i.value = int(current.error and last)
            self.quiet = False
            if last:
                # What the last beat has too much counts towards the gap; idle is at least a cycle.
                self.credit += FINAL_GAP - (8 - len(piece))
                if self.gaps is not None:
                    self.credit += self.gaps.choice((0, 0, 0, 16, 64, 400))
                current.last = self.cycle
                current = None


async def start(dut) -> None:
    """Start the clock and reset."""
    Clock(dut.clk_i, PERIOD_PS, "ps").start()
    dut.rst_i.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0
    await RisingEdge(dut.clk_i)
