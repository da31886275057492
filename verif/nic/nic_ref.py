# SPDX-License-Identifier: Apache-2.0
"""docs/wire-format.md read once more, in Python: Scapy for Ethernet, IPv4 and UDP, the rest here.

Nothing of this is shared with the Rust codec or the generated package.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

PORT = 3422
MAGIC = 0x4E4D
MWR, MRD, CPL, CPLD = 0x60, 0x20, 0x0A, 0x4A


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def crc32c(data: bytes) -> int:
    """CRC-32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 if crc & 1 else crc >> 1
    return crc ^ 0xFFFFFFFF


def ip_text(ip: int) -> str:
    """Write an IPv4 address with dots."""
    return ".".join(str(b) for b in ip.to_bytes(4, "big"))


def mac_text(mac: int) -> str:
    """Write a MAC address with colons."""
    return ":".join(f"{b:02x}" for b in mac.to_bytes(6, "big"))


@dataclass
class Peer:
    """A station: MAC and IPv4 address as numbers."""

    mac: int
    ip: int


NIC_A = Peer(0x021122334455, 0x0A000001)
NIC_B = Peer(0x02AABBCCDDEE, 0x0A000002)


def frame(payload: bytes, src: Peer, dst: Peer, sport: int = PORT, dport: int = PORT) -> bytes:
    """Build a frame without FCS, padded to 60 bytes."""
    packet = (
        Ether(src=mac_text(src.mac), dst=mac_text(dst.mac))
        / IP(src=ip_text(src.ip), dst=ip_text(dst.ip), id=0, flags="DF", ttl=64)
        / UDP(sport=sport, dport=dport, chksum=0)
        / Raw(payload)
    )
    return bytes(packet).ljust(60, b"\0")


def compact(
    key: int,
    offset: int,
    data: bytes,
    sequence: int = 0,
    skip: int = 0,
    trail: int = 0,
    tag: int = 0,
) -> bytes:
    """Make the UDP payload of a compact store; data in whole DWs."""
    head = bytes([0xC0 | trail]) + sequence.to_bytes(2, "big")
    head += (key << 28 | offset | skip).to_bytes(5, "big")
    return head + data + (crc16(head + data) ^ tag).to_bytes(2, "big")


def _tlp_payload(control: int, sequence: int, body: bytes, data: bytes, epoch: int, tag: int):
    head = struct.pack(">HBBHH", MAGIC, control, epoch, sequence, 0)
    everything = head + body + data
    return everything + (crc32c(everything) ^ tag).to_bytes(4, "little")


def tlp_request(
    fmt_type: int,
    key: int,
    offset: int,
    data: bytes = b"",
    length: int | None = None,
    first_be: int = 0xF,
    last_be: int | None = None,
    net_tag: int = 0,
    sequence: int = 0,
    epoch: int = 0,
    tag: int = 0,
) -> bytes:
    """Make the UDP payload of a store or load in the tlp format."""
    length = len(data) // 4 if length is None else length
    if last_be is None:
        last_be = 0xF if length > 1 else 0
    body = struct.pack(
        ">BBHHBBII", fmt_type, 0, length, 0, net_tag, last_be << 4 | first_be, key, offset
    )
    return _tlp_payload(1, sequence, body, data, epoch, tag)


def tlp_completion(
    net_tag: int, status: int, byte_count: int, lower_address: int, data: bytes = b""
) -> bytes:
    """Make the UDP payload of a completion."""
    body = struct.pack(
        ">BBHHHHBBI",
        CPLD if data else CPL,
        0,
        len(data) // 4,
        0,
        status << 13 | byte_count & 0xFFF,
        0,
        net_tag,
        lower_address,
        0,
    )
    return _tlp_payload(0, 0, body, data, 0, 0)


def error_report(code: int, op: int, sequence: int, length: int, address: int) -> bytes:
    """Make the UDP payload of an error report."""
    body = struct.pack(">BBHHHQ", code, op, sequence, 0, length, address)
    return _tlp_payload(0x10, 0, body, b"", 0, 0)


@dataclass
class Message:
    """What a frame of the NIC says."""

    format: str
    sequence: int = 0
    sequenced: bool = False
    epoch: int = 0
    fmt_type: int = 0
    length: int = 0
    key: int = 0
    offset: int = 0
    first_be: int = 0
    last_be: int = 0
    net_tag: int = 0
    status: int = 0
    byte_count: int = 0
    lower_address: int = 0
    data: bytes = b""
    tag: int = 0
    error: tuple[int, ...] = field(default_factory=tuple)
    sport: int = 0


def parse(raw: bytes, src: Peer, dst: Peer) -> Message:
    """Take a frame without FCS apart; everything that is fixed is asserted."""
    packet = Ether(raw)
    assert len(raw) >= 60
    assert packet.src == mac_text(src.mac)
    assert packet.dst == mac_text(dst.mac)
    ip, udp = packet[IP], packet[UDP]
    assert (ip.version, ip.ihl, ip.tos, ip.id, ip.ttl, ip.proto) == (4, 5, 0, 0, 64, 17)
    assert ip.flags == "DF" and ip.frag == 0
    assert ip.src == ip_text(src.ip) and ip.dst == ip_text(dst.ip)
    again = ip.copy()
    del again.chksum
    assert IP(bytes(again)).chksum == ip.chksum
    assert udp.dport == PORT and udp.chksum == 0
    assert udp.len == ip.len - 20
    assert len(raw) == max(60, ip.len + 14)
    payload = raw[42 : 14 + ip.len]
    assert raw[14 + ip.len :] == bytes(len(raw) - 14 - ip.len)
    if payload[0] >> 4 == 0xC:
        assert payload[0] & 0x0C == 0
        address = int.from_bytes(payload[3:8], "big")
        data, trail, skip = payload[8:-2], payload[0] & 3, address & 3
        assert len(data) % 4 == 0
        first, last = 0xF << skip & 0xF, 0xF >> trail
        if len(data) == 4:
            first, last = first & last, 0
        return Message(
            "compact",
            int.from_bytes(payload[1:3], "big"),
            True,
            fmt_type=MWR,
            length=len(data) // 4,
            key=address >> 28,
            offset=address & 0xFFFFFFC,
            first_be=first,
            last_be=last,
            data=data,
            tag=int.from_bytes(payload[-2:], "big") ^ crc16(payload[:-2]),
            sport=udp.sport,
        )
    magic, control, epoch, sequence, ack = struct.unpack(">HBBHH", payload[:8])
    assert magic == MAGIC and ack == 0 and control & 0xEE == 0
    out = Message(
        "tlp",
        sequence,
        bool(control & 1),
        epoch,
        tag=int.from_bytes(payload[-4:], "little") ^ crc32c(payload[:-4]),
        sport=udp.sport,
    )
    body, out.data = payload[8:24], payload[24:-4]
    if control >> 4 == 1:
        out.error = struct.unpack(">BBHHHQ", body)
        assert out.error[3] == 0 and not out.data
        return out
    out.fmt_type = body[0]
    out.length = struct.unpack(">H", body[2:4])[0]
    assert body[1] == 0
    if body[0] in (MWR, MRD):
        rid, out.net_tag, be, key, out.offset = struct.unpack(">HBBII", body[4:])
        out.first_be, out.last_be = be & 15, be >> 4
        assert rid == 0 and key < 1 << 16
        out.key = key
    else:
        assert body[0] in (CPL, CPLD), hex(body[0])
        cid, count, rid, out.net_tag, out.lower_address, zero = struct.unpack(">HHHBBI", body[4:])
        assert cid == 0 and rid == 0 and zero == 0 and not count & 0x1000
        out.status, out.byte_count = count >> 13, count & 0xFFF
    assert len(out.data) == (4 * out.length if body[0] in (MWR, CPLD) else 0)
    return out
