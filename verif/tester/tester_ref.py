# SPDX-License-Identifier: Apache-2.0
"""Model of the RFC 2544 instrument, written from docs/rfc2544.md: frames, results, registers."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, field

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

MARK = 0xA7
ECHO = 7
WINDOW = 64
ALL_48 = 2**48 - 1

REG = {
    "ID": 0x000,
    "BUILD": 0x001,
    "CONTROL": 0x002,
    "TIME": 0x003,
    "SRC_MAC": 0x010,
    "DST_MAC": 0x011,
    "STREAM": 0x012,
    "SIZE": 0x013,
    "COUNT": 0x014,
    "INTERVAL": 0x015,
    "BURST": 0x016,
    "SRC_IP": 0x018,  # upper half, lower half
    "DST_IP": 0x01A,
    "STEP": 0x01C,
    "SWEEP": 0x01E,
    "PORTS": 0x01F,
    "LIST": 0x020,
    "TX_FRAMES": 0x030,
    "TX_BYTES": 0x031,
    "TX_FIRST": 0x032,
    "TX_LAST": 0x033,
    "RX_BAD_PREAMBLE": 0x040,
    "RX_ERROR": 0x041,
    "RX_GIANT": 0x042,
    "RX_RUNT": 0x043,
    "RX_BAD_FCS": 0x044,
    "RX_GOOD": 0x045,
    "RX_NOT_OURS": 0x046,
    "HIST_BASE": 0x050,
    "HIST_SHIFT": 0x051,
    "HIST_STREAMS": 0x052,
}
HISTOGRAM, BELOW, ABOVE = 0x100, 0x140, 0x141
BINS = 64
STREAMS = 0x200
STREAM_FIELDS = (
    "frames bytes min max sum lost duplicates reordered stale wrong next first last"
).split()
LIST_RAM = 0x800
START, STOP, CLEAR = 1, 2, 4
AUTO = 1 << 63


def fill(stream: int, seq: int, stamp: int, count: int) -> bytes:
    """Filler of a frame: a counter and its complement, again and again."""
    first = (stream << 28 | seq & 0x0FFF_FFFF) ^ (stamp & 0xFFFF_FFFF)
    out = b""
    for k in range(count // 8 + 1):
        value = (first + k) & 0xFFFF_FFFF
        out += struct.pack("!II", value, value ^ 0xFFFF_FFFF)
    return out[:count]


def smallest(v6: bool) -> int:
    """Size with FCS of the smallest test frame."""
    return 80 if v6 else 64


@dataclass
class Settings:
    """What a source is told."""

    src_mac: bytes = bytes.fromhex("020000000001")
    dst_mac: bytes = bytes.fromhex("020000000101")
    v6: bool = False
    stream: int = 0
    ttl: int = 64
    tos: int = 0
    size: int = 64
    src_ip: str = "198.18.0.1"
    dst_ip: str = "198.19.0.1"
    src_port: int = 49152
    dst_port: int = ECHO
    step: int = 0
    sweep: int = 0
    listed: list[str] = field(default_factory=list)

    def target(self, i: int) -> str:
        """Destination of frame i."""
        if self.listed:
            return self.listed[i % len(self.listed)]
        base = ipaddress.ip_address(self.dst_ip)
        number = int(base) + (i % max(self.sweep, 1)) * self.step
        return str(type(base)(number % 2**base.max_prefixlen))

    def frame(self, seq: int, stamp: int) -> bytes:
        """Build the frame of a number and a stamp, without FCS; Scapy makes the checksums."""
        head = Ether(src=self.src_mac.hex(":"), dst=self.dst_mac.hex(":"))
        if self.v6:
            head /= IPv6(src=self.src_ip, dst=self.target(seq), hlim=self.ttl, tc=self.tos)
        else:
            head /= IP(
                src=self.src_ip,
                dst=self.target(seq),
                ttl=self.ttl,
                tos=self.tos,
                id=seq & 0xFFFF,
                flags="DF",
            )
        udp = UDP(sport=self.src_port, dport=self.dst_port)
        if not self.v6:
            udp.chksum = 0
        load = struct.pack("!BB", MARK, self.stream) + seq.to_bytes(6, "big")
        load += stamp.to_bytes(6, "big")
        load += fill(self.stream, seq, stamp, self.size - 4 - (76 if self.v6 else 56))
        packet: Packet = head / udp / Raw(load)
        return bytes(packet)


def stamp_of(frame: bytes) -> int:
    """Time stamp in a test frame."""
    at = 70 if frame[12:14] == b"\x86\xdd" else 50
    return int.from_bytes(frame[at : at + 6], "big")


@dataclass
class StreamModel:
    """Results of one stream; remembers every number that came."""

    came: set[int] = field(default_factory=set)
    next: int = 0
    frames: int = 0
    bytes: int = 0
    min: int = ALL_48
    max: int = 0
    sum: int = 0
    duplicates: int = 0
    reordered: int = 0
    stale: int = 0
    wrong: int = 0
    first: int = 0
    last: int = 0

    @property
    def lost(self) -> int:
        """Numbers below the highest that never came, or too late to be told from duplicates."""
        return self.next - self.frames

    def take(self, seq: int, stamp: int, arrival: int, size: int, wrong: bool) -> int | None:
        """Enter a frame; return its latency if it counts."""
        if wrong:
            self.wrong += 1
            return None
        if seq < self.next - WINDOW:
            self.stale += 1
            return None
        if seq in self.came:
            self.duplicates += 1
            return None
        self.came.add(seq)
        self.reordered += seq < self.next
        self.next = max(self.next, seq + 1)
        latency = (arrival - stamp) % 2**48
        self.first = self.first if self.frames else arrival
        self.last = arrival
        self.frames += 1
        self.bytes += size
        self.sum += latency
        self.min = min(self.min, latency)
        self.max = max(self.max, latency)
        return latency
