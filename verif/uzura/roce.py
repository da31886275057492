# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames by Scapy, and packets as the RTL's packed structs have them.

Scapy knows the BTH, the AETH and the ICRC; what it does not know (RETH, AtomicETH, DETH, ImmDt,
IETH) is laid out here from the InfiniBand specification.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field, replace

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

MAC_A, IP_A = 0x020000000001, 0x0A000001
MAC_B, IP_B = 0x020000000002, 0x0A000002

# Headers behind the BTH, by opcode: i immediate or key to invalidate, a AETH, r RETH, o original
# value of an atomic, x AtomicETH, d DETH.
HEADERS = {
    0x00: "", 0x01: "", 0x02: "", 0x03: "i", 0x04: "", 0x05: "i", 0x06: "r", 0x07: "", 0x08: "",
    0x09: "i", 0x0A: "r", 0x0B: "ri", 0x0C: "r", 0x0D: "a", 0x0E: "", 0x0F: "a", 0x10: "a",
    0x11: "a", 0x12: "ao", 0x13: "x", 0x14: "x", 0x16: "i", 0x17: "i", 0x64: "d", 0x65: "di",
}  # fmt: skip
NO_PAYLOAD = {0x0C, 0x11, 0x12, 0x13, 0x14}

# Fields of packet_t from its most significant bit.
LAYOUT = (
    ("mac", 48), ("ip", 32), ("port", 16), ("ce", 1), ("opcode", 8), ("solicited", 1),
    ("ack_req", 1), ("qpn", 24), ("psn", 24), ("va", 64), ("key", 32), ("length", 32),
    ("swap", 64), ("compare", 64), ("imm", 32), ("syndrome", 8), ("msn", 24), ("bytes", 13),
)  # fmt: skip


@dataclass
class Packet:
    """A packet's headers and payload."""

    opcode: int
    qpn: int = 0
    psn: int = 0
    payload: bytes = b""
    mac: int = MAC_B
    ip: int = IP_B
    port: int = 0xC000
    ce: int = 0
    solicited: int = 0
    ack_req: int = 0
    va: int = 0
    key: int = 0
    length: int = 0
    swap: int = 0
    compare: int = 0
    imm: int = 0
    syndrome: int = 0
    msn: int = 0
    extra: dict = field(default_factory=dict)  # fields of headers to set wrong

    @property
    def bytes(self) -> int:
        """Return the length of the payload."""
        return len(self.payload)

    def relevant(self) -> Packet:
        """Return it without the fields that its opcode does not carry."""
        has = HEADERS[self.opcode]
        keep = {
            "i": ("imm",),
            "a": ("syndrome", "msn"),
            "r": ("va", "key", "length"),
            "o": ("swap",),
            "x": ("va", "key", "swap", "compare"),
            "d": ("key", "length"),
        }
        kept = {name for h in has for name in keep[h]}
        names = {name for group in keep.values() for name in group} - kept
        return replace(self, extra={}, **dict.fromkeys(names, 0))

    def pack(self) -> int:
        """Return packet_t."""
        value = 0
        for name, width in LAYOUT:
            value = (value << width) | getattr(self, name)
        return value

    @classmethod
    def unpack(cls, value: int, payload: bytes = b"") -> Packet:
        """Read packet_t; the payload must be as long as it says."""
        found = {}
        for name, width in reversed(LAYOUT):
            found[name] = value & ((1 << width) - 1)
            value >>= width
        assert found.pop("bytes") == len(payload), "the payload's length is not the packet's"
        return cls(payload=payload, **found)

    def extension(self) -> bytes:
        """Lay out the headers behind the BTH."""
        parts = {
            "i": struct.pack("!I", self.imm),
            "a": struct.pack("!I", self.syndrome << 24 | self.msn),
            "r": struct.pack("!QII", self.va, self.key, self.length),
            "o": struct.pack("!Q", self.swap),
            "x": struct.pack("!QIQQ", self.va, self.key, self.swap, self.compare),
            "d": struct.pack("!II", self.key, self.length),
        }
        return b"".join(parts[h] for h in HEADERS.get(self.opcode, ""))

    def frame(self, dst_mac: int = MAC_A, dst_ip: int = IP_A) -> bytes:
        """Return the frame as Scapy builds it."""
        extra = self.extra
        bth = dict(opcode=self.opcode, solicited=self.solicited, migreq=1, dqpn=self.qpn)
        bth |= dict(padcount=-len(self.payload) % 4, ackreq=self.ack_req, psn=self.psn)
        bth |= extra.get("bth", {})
        ip = dict(src=dotted(self.ip), dst=dotted(dst_ip), tos=3 if self.ce else 2, flags="DF")
        udp = dict(sport=self.port, dport=4791, chksum=0) | extra.get("udp", {})
        body = self.extension() + self.payload + bytes(-len(self.payload) % 4)
        ether = Ether(src=colons(self.mac), dst=colons(dst_mac), **extra.get("ether", {}))
        packet = ether / IP(**(ip | extra.get("ip", {}))) / UDP(**udp) / BTH(**bth)
        # Scapy reads AETH behind an acknowledgment by itself; what is given raw stays as it is.
        return bytes(packet / Raw(body))


def dotted(ip: int) -> str:
    """Return an IPv4 address as text."""
    return ".".join(str(b) for b in ip.to_bytes(4, "big"))


def colons(mac: int) -> str:
    """Return a MAC address as text."""
    return ":".join(f"{b:02x}" for b in mac.to_bytes(6, "big"))


def parse(frame: bytes) -> Packet:
    """Read a frame with Scapy: every checksum recomputed, lengths and paddings checked."""
    ether = Ether(frame)
    ip, udp, bth = ether[IP], ether[UDP], ether[BTH]
    assert len(frame) == 14 + ip.len and ip.len == udp.len + 20, "lengths disagree"
    again = IP(bytes(ip)[:20])
    del again.chksum
    assert IP(bytes(again)[:20]).chksum == ip.chksum, "wrong IP checksum"
    assert (udp.dport, udp.chksum, ip.ttl, ip.frag) == (4791, 0, 64, 0)
    assert (bth.version, bth.pkey, bth.resv6, bth.resv7, bth.migreq) == (0, 0xFFFF, 0, 0, 1)
    # The frame without its ICRC, and what Scapy makes of it.
    bare = Ether(frame)
    bare[BTH].icrc = None
    assert bytes(bare) == frame, "Scapy's ICRC is another one"
    packet = Packet(
        opcode=bth.opcode, qpn=bth.dqpn, psn=bth.psn, solicited=bth.solicited, ack_req=bth.ackreq,
        mac=int(ether.dst.replace(":", ""), 16), ip=int.from_bytes(bytes(ip)[16:20], "big"),
        port=udp.sport,
    )  # fmt: skip
    body = frame[54:-4]
    for header in HEADERS[bth.opcode]:
        names, layout = {
            "i": (("imm",), "!I"),
            "a": (("syndrome",), "!I"),
            "r": (("va", "key", "length"), "!QII"),
            "o": (("swap",), "!Q"),
            "x": (("va", "key", "swap", "compare"), "!QIQQ"),
            "d": (("key", "length"), "!II"),
        }[header]
        size = struct.calcsize(layout)
        for name, value in zip(names, struct.unpack(layout, body[:size]), strict=True):
            setattr(packet, name, value)
        body = body[size:]
        if header == "a":
            packet.syndrome, packet.msn = packet.syndrome >> 24, packet.syndrome & 0xFFFFFF
    assert body[len(body) - bth.padcount :] == bytes(bth.padcount), "padding is not zero"
    packet.payload = body[: len(body) - bth.padcount]
    return packet


def random_packet(opcode: int | None = None, limit: int = 4096) -> Packet:
    """Make a packet with random fields."""
    opcode = random.choice(list(HEADERS)) if opcode is None else opcode
    size = random.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 256, 1024, 4095, 4096])
    size = 0 if opcode in NO_PAYLOAD else min(random.choice([size, random.randrange(300)]), limit)
    bits = random.getrandbits
    return Packet(
        opcode=opcode, qpn=bits(24), psn=bits(24), payload=random.randbytes(size), port=bits(16),
        solicited=bits(1), ack_req=bits(1), va=bits(64), key=bits(32),
        length=bits(24 if "d" in HEADERS[opcode] else 32), swap=bits(64), compare=bits(64),
        imm=bits(32), syndrome=bits(8), msn=bits(24),
    )  # fmt: skip
