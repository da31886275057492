# SPDX-License-Identifier: Apache-2.0
"""What docs/wire-format.md and docs/architecture.md say about sending, written a second time."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

UDP_PORT = 3422
UR, CA = 1, 4


def crc32c(data: bytes) -> int:
    """Castagnoli CRC, bit by bit."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE, bit by bit."""
    state = 0xFFFF
    for byte in data:
        state ^= byte << 8
        for _ in range(8):
            state = (state << 1 ^ (0x1021 if state & 0x8000 else 0)) & 0xFFFF
    return state


assert crc32c(b"123456789") == 0xE3069283
assert crc16(b"123456789") == 0x29B1


def internet_checksum(data: bytes) -> int:
    """Complement of the one's complement sum of 16-bit words."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@dataclass
class Config:
    """Registers of the sender."""

    mac: int = 0x020000000001
    ip: int = 0x0A000001
    netmask: int = 0xFFFFFF00
    gateway_mac: int = 0x02FF000000FE
    epoch: int = 0x5A


@dataclass
class Page:
    """Page map entry."""

    pc_id: int = 0
    remote_page: int = 0
    tag: int = 0

    def word(self) -> int:
        return self.pc_id << 48 | self.remote_page << 12 | self.tag


@dataclass
class Peer:
    """PC ID table entry."""

    valid: bool = False
    compact: bool = False
    port: int = 0
    mac: int = 0
    ip: int = 0
    session: bool = False

    def word(self) -> int:
        return (
            int(self.session) << 98
            | int(self.compact) << 97
            | int(self.valid) << 96
            | self.port << 80
            | self.mac << 32
            | self.ip
        )


def udp_frame(config: Config, mac: int, ip: int, port: int, payload: bytes) -> bytes:
    """Ethernet frame without FCS, padded to 60 bytes."""
    udp = struct.pack(">HHHH", port, UDP_PORT, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0, config.ip, ip)
    head = head[:10] + struct.pack(">H", internet_checksum(head)) + head[12:]
    frame = mac.to_bytes(6, "big") + config.mac.to_bytes(6, "big") + b"\x08\x00" + head + udp
    return frame.ljust(60, b"\0")


def with_fcs(frame: bytes) -> bytes:
    """Append the Ethernet FCS."""
    return frame + zlib.crc32(frame).to_bytes(4, "little")


def tlp_payload(
    config: Config, kind: int, sequence: int | None, body: bytes, data: bytes, tag: int
) -> bytes:
    """UDP payload of the tlp format."""
    control = kind << 4 | (sequence is not None)
    text = struct.pack(">HBBHH", 0x4E4D, control, config.epoch, sequence or 0, 0) + body + data
    return text + (crc32c(text) ^ tag).to_bytes(4, "little")


@dataclass
class Session:
    """What a frame of a session has beyond others: its port, number and acknowledgement."""

    port: int
    sequence: int | None = None  # 32 bits; None: not sequenced
    ack: int | None = None  # 16 bits

    @property
    def prefix(self) -> bytes:
        """What the end code covers in front of the payload."""
        return self.port.to_bytes(2, "big")

    @property
    def fold(self) -> int:
        return (self.sequence or 0) >> 16


def session_compact(
    session: Session, control: bool, trail: int, address: int, data: bytes, tag: int
) -> bytes:
    """UDP payload of a compact store or a control frame of a session."""
    first = 0xC0 | (session.ack is not None) << 3 | control << 2 | trail
    text = bytes([first]) + ((session.sequence or 0) & 0xFFFF).to_bytes(2, "big")
    text += address.to_bytes(5, "big") + data
    if session.ack is not None:
        text += session.ack.to_bytes(2, "big")
    return text + (crc16(session.prefix + text) ^ tag ^ session.fold).to_bytes(2, "big")


def session_tlp(session: Session, kind: int, body: bytes, data: bytes, tag: int) -> bytes:
    """UDP payload of the tlp format in a session."""
    control = kind << 4 | (session.ack is not None) << 1 | (session.sequence is not None)
    text = struct.pack(
        ">HBBHH",
        0x4E4D,
        control,
        session.port >> 8 & 0x3F,
        (session.sequence or 0) & 0xFFFF,
        session.ack or 0,
    )
    text += body + data
    return text + (crc32c(session.prefix + text) ^ tag ^ session.fold).to_bytes(4, "little")


def compact_fields(length: int, first_be: int, last_be: int) -> tuple[int, int] | None:
    """Bytes not written at the start and the end, if the byte enables have a compact form."""
    found = []
    for skip in range(4):
        for trail in range(4):
            first, last = 0xF << skip & 0xF, 0xF >> trail
            if length == 1:
                first, last = first & last, 0
            if first and (first, last) == (first_be, last_be):
                found.append((skip, trail))
    assert len(found) <= 1
    return found[0] if found else None


def read_byte_count(length: int, first_be: int, last_be: int) -> int:
    """Bytes from the first to the last enabled one; 1 if there is none; 12 bits."""
    enables = [first_be >> i & 1 for i in range(4)]
    if length != 1:
        enables += [1] * 4 * ((length or 1024) - 2) + [last_be >> i & 1 for i in range(4)]
    ones = [i for i, e in enumerate(enables) if e]
    if length == 1 and not ones:
        return 1
    # An empty side counts as whole: no rule of PCI Express allows it.
    low = 0 if first_be == 0 else min(ones)
    end = first_be if length == 1 else last_be
    high = len(enables) - 1 if end == 0 else max(ones)
    return (high - low + 1) & 0xFFF


def first_byte(first_be: int) -> int:
    """Address bits 1:0 of the first enabled byte."""
    return next((i for i in range(4) if first_be >> i & 1), 0)


@dataclass
class Tlp:
    """A TLP of the root complex; `cut` changes its length without telling the header."""

    fmt_type: int
    length: int = 1
    address: int = 0
    bar: int = 2
    first_be: int = 0xF
    last_be: int = 0
    requester_id: int = 0
    tag: int = 0
    tc: int = 0
    td: int = 0
    ep: int = 0
    attributes: int = 0
    data: bytes = b""
    status: int = 0
    byte_count: int = 0
    lower_address: int = 0
    cut: int = 0  # DWs more or less than the header says

    @property
    def is_load(self) -> bool:
        return self.fmt_type in (0x00, 0x20)

    @property
    def is_locked(self) -> bool:
        return self.fmt_type in (0x01, 0x21)

    @property
    def is_non_posted(self) -> bool:
        # I/O and configuration (two types) read and write; atomic operations carry data always.
        others = (0x02, 0x42, 0x04, 0x44, 0x05, 0x45, 0x4C, 0x6C, 0x4D, 0x6D, 0x4E, 0x6E)
        return self.is_load or self.is_locked or self.fmt_type in others

    @property
    def is_store(self) -> bool:
        return self.fmt_type in (0x40, 0x60)

    @property
    def is_completion(self) -> bool:
        return self.fmt_type in (0x0A, 0x4A)

    def refused_span(self) -> tuple[int, int]:
        """Byte count and lower address of a completion without data."""
        if self.is_load or self.is_locked:
            count = read_byte_count(self.length, self.first_be, self.last_be)
            return count, (self.address & 0x7C) | first_byte(self.first_be)
        # An atomic operation says its operand's size; CAS carries two. The others say 4.
        sizes = {0x0C: 4 * self.length, 0x0D: 4 * self.length, 0x0E: 2 * self.length}
        return sizes.get(self.fmt_type & 0x1F, 4) & 0xFFF, 0

    def pack(self) -> bytes:
        """The TLP's bytes in order."""
        out = struct.pack(
            ">BBBB",
            self.fmt_type,
            self.tc << 4,
            self.td << 7 | self.ep << 6 | self.attributes << 4 | self.length >> 8,
            self.length & 0xFF,
        )
        if self.is_completion:
            out += struct.pack(
                ">HHHBB",
                self.requester_id,
                self.status << 13 | self.byte_count,
                0,
                self.tag,
                self.lower_address,
            )
        else:
            out += struct.pack(
                ">HBB", self.requester_id, self.tag, self.last_be << 4 | self.first_be
            )
            if self.fmt_type & 0x20:
                out += struct.pack(">Q", self.address)
            else:
                out += struct.pack(">I", self.address & 0xFFFFFFFF)
        if self.fmt_type & 0x40:
            out += self.data
        if self.td:
            out += b"\xec\xec\xec\xec"
        if self.cut < 0:
            out = out[: 4 * self.cut]
        return out + b"\xaa\xbb\xcc\xdd" * max(0, self.cut)


@dataclass
class Expected:
    """What comes of all TLPs so far."""

    frames: list = field(default_factory=list)  # bytes, or ("load", function of tag or None)
    counters: dict = field(default_factory=dict)
    errors: list = field(default_factory=list)
    reg_ops: list = field(default_factory=list)
    completions: list = field(default_factory=list)
    loads: list = field(default_factory=list)

    def count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1


class Sender:
    """Model of the PCIe side as far as sending goes. Loads with a tag are decided by `outcome`."""

    def __init__(self, config: Config, pages: int, pc_ids: int) -> None:
        self.config = config
        self.page_map = [Page() for _ in range(pages)]
        self.peers = [Peer() for _ in range(pc_ids)]
        self.sequence = [0] * pc_ids
        # What the bench's sessions begin with, and the acknowledgement that waits: (urgent, value).
        self.session_sequence = [0xFFFFFFF0 + index for index in range(pc_ids)]
        self.ack: tuple[bool, int] | None = None
        self.load_number = 0xA55A

    def store_or_load(self, tlp: Tlp, net_tag: int) -> bytes:
        """Frame of a permitted operation; takes a sequence number."""
        page = self.page_map[tlp.address >> 12 & 0x3FFFF]
        peer = self.peers[page.pc_id]
        key, offset = page.remote_page >> 20, (page.remote_page & 0xFFFFF) << 12
        offset |= tlp.address & 0xFFC
        session = None
        sequence = 0
        if peer.session:
            number = self.session_sequence[page.pc_id]
            self.session_sequence[page.pc_id] = (number + 1) & 0xFFFFFFFF
            session = Session(0xD500 | (page.pc_id ^ 0x5A), number)
        else:
            sequence = self.sequence[page.pc_id]
            self.sequence[page.pc_id] = (sequence + 1) & 0xFFFF
        form = compact_fields(tlp.length, tlp.first_be, tlp.last_be)
        if peer.compact and tlp.is_store and form and key < 4096 and offset < 1 << 28:
            skip, trail = form
            address = key << 28 | offset | skip
            if session:
                if self.ack and (self.ack[0] or tlp.length == 1):
                    session.ack = self.ack[1]
                payload = session_compact(session, False, trail, address, tlp.data, page.tag)
                return self.frame_to(peer, session.port, payload)
            text = bytes([0xC0 | trail]) + sequence.to_bytes(2, "big")
            text += address.to_bytes(5, "big") + tlp.data
            payload = text + (crc16(text) ^ page.tag).to_bytes(2, "big")
        else:
            body = struct.pack(
                ">BBHHBBII",
                0x60 if tlp.is_store else 0x20,
                0,
                tlp.length,
                self.load_number if session and tlp.is_load else 0,
                0 if tlp.is_store else net_tag,
                tlp.last_be << 4 | tlp.first_be,
                key,
                offset,
            )
            if session:
                session.ack = self.ack[1] if self.ack else None
                payload = session_tlp(session, 0, body, tlp.data, page.tag)
                return self.frame_to(peer, session.port, payload)
            payload = tlp_payload(self.config, 0, sequence, body, tlp.data, page.tag)
        return self.frame_to(peer, peer.port, payload)

    def frame_to(self, peer: Peer, port: int, payload: bytes) -> bytes:
        """Put a payload into a frame to a peer."""
        far = (peer.ip ^ self.config.ip) & self.config.netmask
        mac = self.config.gateway_mac if far else peer.mac
        return udp_frame(self.config, mac, peer.ip, port, payload)

    def take(self, tlp: Tlp, out: Expected, tag_of_load) -> None:
        """Apply one TLP. `tag_of_load()` gives the tag that a load got, or None."""

        def refuse(status: int) -> None:
            if tlp.is_non_posted:
                out.errors.append(
                    (
                        tlp.requester_id,
                        tlp.tag,
                        tlp.tc,
                        tlp.attributes,
                        int(tlp.is_locked),
                        status,
                        *tlp.refused_span(),
                    )
                )

        request = tlp.is_load or tlp.is_store
        unsupported = not (request or tlp.is_completion)
        if request:
            if tlp.bar == 2:
                crosses = (tlp.address >> 2 & 0x3FF) + tlp.length > 1024
                unsupported = unsupported or not 1 <= tlp.length <= 64 or crosses
            else:
                unsupported = unsupported or tlp.bar != 0 or tlp.length not in (1, 2)
        page = tlp.address >> 12 & 0x3FFFF
        if tlp.cut:
            out.count("malformed")
        elif tlp.ep:
            out.count("poisoned")
            refuse(UR)
        elif unsupported:
            out.count("unsupported")
            refuse(UR)
        elif tlp.is_completion:
            out.completions.append(
                (
                    tlp.fmt_type == 0x4A,
                    tlp.status,
                    tlp.byte_count,
                    tlp.lower_address,
                    tlp.length,
                    tlp.tag,
                    tlp.data if tlp.fmt_type == 0x4A else b"",
                )
            )
        elif tlp.bar == 0:
            out.reg_ops.append(tlp)
        elif page >= len(self.page_map):
            out.count("page_beyond")
            refuse(UR)
        else:
            pc_id = self.page_map[page].pc_id
            kind = "load" if tlp.is_load else "store"
            if pc_id == 0 or pc_id >= len(self.peers) or not self.peers[pc_id].valid:
                out.count(kind + "_unmapped")
                refuse(UR)
            elif tlp.is_load:
                tag = tag_of_load()
                if tag is None:
                    out.count("no_tag")
                    refuse(CA)
                else:
                    out.count("load")
                    out.loads.append(
                        (
                            tlp.requester_id,
                            tlp.tag,
                            tlp.tc,
                            tlp.attributes,
                            *tlp.refused_span(),
                            self.peers[pc_id].ip,
                        )
                    )
                    out.frames.append(self.store_or_load(tlp, tag))
            else:
                out.count("store")
                out.frames.append(self.store_or_load(tlp, 0))
