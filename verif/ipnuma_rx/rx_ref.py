# SPDX-License-Identifier: Apache-2.0
"""What docs/wire-format.md and docs/architecture.md say about receiving, written a second time."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

UDP_PORT = 3422
MRD, MWR, CPL, CPLD = 0x20, 0x60, 0x0A, 0x4A
SC, UR, CA = 0, 1, 4


def _table(poly: int) -> list[int]:
    out = []
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = state >> 1 ^ (poly if state & 1 else 0)
        out.append(state)
    return out


_CASTAGNOLI = _table(0x82F63B78)


def crc32c(data: bytes) -> int:
    """Castagnoli CRC."""
    state = 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ _CASTAGNOLI[(state ^ byte) & 0xFF]
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


@dataclass
class Region:
    """Shared-region entry."""

    base: int = 0
    first: int = 0
    last: int = 0
    ip: int = 0
    mask: int = 0
    tag: int = 0
    valid: bool = False
    write: bool = False
    read: bool = False
    notify: bool = False
    session: bool = False
    sealed: bool = False
    only: int | None = None  # the session that may use it alone

    def word(self) -> int:
        """Return the 256 bits of the table."""
        top = 0 if self.only is None else self.only << 7 | 1 << 6
        top |= self.sealed << 5 | self.session << 4 | self.notify << 3
        top |= self.read << 2 | self.write << 1 | self.valid
        word = top
        for value, bits in (
            (0, 20),
            (self.tag, 12),
            (self.mask, 32),
            (self.ip, 32),
            (self.last, 32),
            (self.first, 32),
            (self.base, 64),
        ):
            word = word << bits | value
        return word


@dataclass
class Session:
    """Session entry, and what the receiver keeps of the session."""

    ip: int = 0
    mac: int = 0
    port: int = 0
    epoch: int = 0
    valid: bool = False
    sealed: bool = False
    start: int = 0
    expected: int = 0  # behind what was taken
    gap_told: bool = False
    gap_at: int = 0
    refusal: tuple | None = None  # of the expected frame: (code, op, key, offset)
    several: bool = False  # others were refused before it, all for a bad key

    def word(self) -> int:
        """Return the 256 bits of the table."""
        word = 0
        for value, bits in (
            (self.epoch, 6),
            (self.sealed, 1),
            (self.valid, 1),
            (0, 96),
            (self.start, 32),
            (self.port, 16),
            (self.mac, 48),
            (self.ip, 32),
        ):
            word = word << bits | value
        return word


def nearest(number: int, expected: int) -> tuple[int, int]:
    """Extend 16 bits to the number nearest to the expected one; also how far it is from it."""
    distance = (number - expected) & 0xFFFF
    if distance >= 0x8000:
        distance -= 0x10000
    return (expected + distance) & 0xFFFFFFFF, distance


@dataclass
class Identity:
    """Addresses of the receiver, its regions by key and its sessions by number."""

    mac: int = 0x0200_0000_0001
    ip: int = 0x0A00_0001
    regions: dict[int, Region] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)
    completer_id: int = 0x0123
    session_count: int = 16


# ---- Frames ------------------------------------------------------------------------------------


def mac_text(mac: int) -> str:
    """Write a MAC address as Scapy wants it."""
    return ":".join(f"{b:02x}" for b in mac.to_bytes(6, "big"))


def ip_text(ip: int) -> str:
    """Write an IPv4 address as Scapy wants it."""
    return ".".join(str(b) for b in ip.to_bytes(4, "big"))


@dataclass
class Addresses:
    """Who sends to whom, and lies about it."""

    dst_mac: int
    dst_ip: int
    src_mac: int = 0x0200_0000_0002
    src_ip: int = 0x0A00_0002
    src_port: int = 3422
    ip_fields: dict = field(default_factory=dict)
    udp_fields: dict = field(default_factory=dict)


def build(payload: bytes, to: Addresses, pad: int = 60) -> bytes:
    """Frame without FCS around a UDP payload."""
    frame = (
        Ether(dst=mac_text(to.dst_mac), src=mac_text(to.src_mac))
        / IP(
            src=ip_text(to.src_ip),
            dst=ip_text(to.dst_ip),
            **{"ttl": 64, "id": 0, "flags": "DF", **to.ip_fields},
        )
        / UDP(**{"sport": to.src_port, "dport": UDP_PORT, "chksum": 0, **to.udp_fields})
        / Raw(payload)
    )
    return bytes(frame).ljust(pad, b"\0")


def port_bytes(port: int) -> bytes:
    """Return what the end code covers of the source port: all of it in sessions, else nothing."""
    return struct.pack(">H", port) if port >> 14 == 3 else b""


def end_compact(body: bytes, tag: int, port: int = UDP_PORT, fold: int = 0) -> bytes:
    """Append the end code of `compact`."""
    return body + struct.pack(">H", crc16(port_bytes(port) + body) ^ tag ^ fold)


def end_tlp(body: bytes, tag: int, port: int = UDP_PORT, fold: int = 0) -> bytes:
    """Append the end code of `tlp`."""
    return body + struct.pack("<I", crc32c(port_bytes(port) + body) ^ tag ^ fold)


def compact(
    key: int,
    offset: int,
    trail: int,
    data: bytes,
    tag: int,
    sequence: int,
    acknowledgement: int | None = None,
    port: int = UDP_PORT,
) -> bytes:
    """UDP payload of a compact store; the low two bits of offset skip bytes."""
    control = 0xC0 | (0 if acknowledgement is None else 8) | trail
    body = struct.pack(">BH", control, sequence & 0xFFFF)
    body += (key << 28 | offset).to_bytes(5, "big") + data
    if acknowledgement is not None:
        body += struct.pack(">H", acknowledgement & 0xFFFF)
    return end_compact(body, tag, port, sequence >> 16 if port_bytes(port) else 0)


ACK, NACK, VOID = 0, 1, 2


def control_frame(code: int, number: int, port: int, rest: bytes = b"", interval: int = 0) -> bytes:
    """UDP payload of a control frame; the number of a void is its own, else the expected one."""
    if code == VOID:
        body = struct.pack(">BHIB", 0xC4 | code, number & 0xFFFF, 0, 0) + rest
        return end_compact(body, 0, port, number >> 16)
    body = struct.pack(">BHIB", 0xC4 | code, interval, number, 0) + rest
    return end_compact(body, 0, port)


def tlp_payload(
    head: bytes,
    data: bytes,
    tag: int,
    control: int,
    epoch: int,
    sequence: int,
    acknowledgement: int = 0,
    port: int = UDP_PORT,
) -> bytes:
    """UDP payload of the `tlp` format."""
    start = struct.pack(">2sBBHH", b"NM", control, epoch, sequence & 0xFFFF, acknowledgement)
    fold = sequence >> 16 if port_bytes(port) and head[:1] in (b"\x20", b"\x60") else 0
    return end_tlp(start + head + data, tag, port, fold)


def request_head(
    fmt: int,
    length: int,
    tag: int,
    last_be: int,
    first_be: int,
    key: int,
    offset: int,
    load_number: int = 0,
) -> bytes:
    """TLP header of a store or load as it is on the wire."""
    return struct.pack(
        ">BBHHBBHHI",
        fmt,
        0,
        length & 0x3FF,
        load_number,
        tag,
        last_be << 4 | first_be,
        0,
        key,
        offset,
    )


def legal_enables(length: int, first_be: int, last_be: int, address: int) -> bool:
    """Byte enables that PCI Express permits: one run, but in one DW, and in two of one quadword."""
    if length == 1:
        return last_be == 0
    if length == 2 and address % 8 == 0:
        return first_be != 0 and last_be != 0
    to_the_end = f"{first_be:04b}".rstrip("0") == "1" * (f"{first_be:04b}".count("1")) != ""
    from_the_start = f"{last_be:04b}".lstrip("0") == "1" * (f"{last_be:04b}".count("1")) != ""
    return to_the_end and from_the_start


def read_bytes(length: int, first_be: int, last_be: int) -> tuple[int, int]:
    """Byte count of a read and bits 1:0 of its first byte."""
    enables = [first_be] + [0xF] * (length - 2) + ([last_be] if length > 1 else [])
    bits = [i for i, be in enumerate(enables) for _ in (0,) if be]
    if not bits:
        return 1, 0
    every = [4 * i + j for i, be in enumerate(enables) for j in range(4) if be >> j & 1]
    return every[-1] - every[0] + 1, every[0] & 3


def completion_head(
    has_data: bool,
    length: int,
    status: int,
    byte_count: int,
    tag: int,
    lower: int,
    load_number: int = 0,
) -> bytes:
    """TLP header of a completion as it is on the wire."""
    return struct.pack(
        ">BBHHHHBBI",
        CPLD if has_data else CPL,
        0,
        length & 0x3FF,
        0,
        status << 13 | byte_count & 0xFFF,
        load_number,
        tag,
        lower,
        0,
    )


def error_body(code: int, op: int, sequence: int, length: int, address: int) -> bytes:
    """Body of an error report."""
    low, high = sequence & 0xFFFF, sequence >> 16
    return struct.pack(">BBHHHQ", code, op, low, high, length, address)


# ---- Verdict -----------------------------------------------------------------------------------


@dataclass
class Result:
    """What becomes of a frame: its counter, and what follows."""

    counter: str
    tlp: bytes | None = None  # memory write
    # (address, length, first_be, last_be, tag, peer, session, number, port of the answer)
    load: tuple | None = None
    completion: tuple | None = None  # (tag, status, byte_count, lower, length, data, ip)
    answers: list[dict] = field(default_factory=list)
    report: tuple | None = None
    ack: tuple | None = None  # (session, number, short, nack, interval)
    refused: tuple | None = None  # (session, code, op, number, address)
    news: tuple | None = None  # (taken, again or gap; session)
    notify: bool = False


def checksum_good(header: bytes) -> bool:
    """Check an IP header."""
    total = sum(struct.unpack(">10H", header))
    return (total - 1) % 0xFFFF + 1 == 0xFFFF


def memory_write(me: Identity, address: int, first_be: int, last_be: int, data: bytes) -> bytes:
    """TLP of a DMA write."""
    wide = address >> 32 != 0
    return (
        struct.pack(
            ">BBHHBB",
            0x60 if wide else 0x40,
            0,
            len(data) // 4,
            me.completer_id,
            0,
            last_be << 4 | first_be,
        )
        + (struct.pack(">Q", address) if wide else struct.pack(">I", address))
        + data
    )


class _Dropped(Exception):
    """A frame that is counted and does nothing else."""


@dataclass
class _Payload:
    """A UDP payload, as lines 6 to 9 read it."""

    data_bytes: bytes
    port: int
    peer: tuple[int, int]
    sealed: bool
    sequence: int = 0
    op: int = 0
    code: int | None = None  # of a control frame
    acknowledgement: int | None = None
    numbered: bool = False  # control[0] of tlp, or compact
    key: int = 0
    offset: int = 0
    length: int = 0
    first_be: int = 0
    last_be: int = 0
    tag: int = 0
    load_number: int = 0
    head: bytes = b""
    data: bytes = b""

    @property
    def is_tlp(self) -> bool:
        return self.data_bytes[:2] == b"NM"

    @property
    def in_session(self) -> bool:
        return self.port >> 14 == 3

    @property
    def index(self) -> int:
        return self.port & 0xFF

    def folded(self) -> int:
        """The end code that there should be XOR the one that there is."""
        payload, cover = self.data_bytes, port_bytes(self.port)
        if self.is_tlp:
            return int.from_bytes(payload[-4:], "little") ^ crc32c(cover + payload[:-4])
        return int.from_bytes(payload[-2:], "big") ^ crc16(cover + payload[:-2])


def _headers(frame: bytes, me: Identity) -> _Payload:
    """Lines 1 to 5."""
    dst = int.from_bytes(frame[:6], "big")
    if dst not in (me.mac, (1 << 48) - 1):
        raise _Dropped("rx_not_mine")
    ethertype = frame[12:14]
    if ethertype == b"\x08\x06":
        raise _Dropped("rx_arp")
    ip = frame[14:34]
    flags = int.from_bytes(ip[6:8], "big")
    if (
        ethertype != b"\x08\x00"
        or dst != me.mac
        or ip[0] != 0x45
        or flags & 0x2000
        or flags & 0x1FFF
        or ip[9] != 17
        or int.from_bytes(ip[16:20], "big") != me.ip
        or int.from_bytes(frame[36:38], "big") != UDP_PORT
    ):
        raise _Dropped("rx_not_ipnuma")
    if not checksum_good(ip):
        raise _Dropped("rx_bad_ip_checksum")
    ip_length = int.from_bytes(ip[2:4], "big")
    udp_length = int.from_bytes(frame[38:40], "big")
    if udp_length != ip_length - 20 or udp_length < 18 or len(frame) + 4 < ip_length + 18:
        raise _Dropped("rx_bad_length")
    peer = (int.from_bytes(frame[6:12], "big"), int.from_bytes(ip[12:16], "big"))
    port = int.from_bytes(frame[34:36], "big")
    return _Payload(frame[42 : 34 + udp_length], port, peer, sealed=bool(frame[6] & 1))


def _read_compact(p: _Payload) -> None:
    """Lines 6 to 9 of the compact format and of control frames."""
    payload, size = p.data_bytes, len(p.data_bytes)
    p.sequence = int.from_bytes(payload[1:3], "big")
    if payload[0] & 4:
        p.code = payload[0] & 3
        if payload[0] & 8 or p.code == 3:
            raise _Dropped("rx_bad_magic")
        if size != 10:
            raise _Dropped("rx_bad_length")
        return
    tail = 4 if payload[0] & 8 else 2
    p.data = payload[8 : size - tail]
    p.first_be = 0xF << (payload[7] & 3) & 0xF
    p.last_be = 0xF >> (payload[0] & 3)
    if size - tail - 8 == 4:
        p.first_be, p.last_be = p.first_be & p.last_be, 0
        if not p.first_be:
            raise _Dropped("rx_bad_tlp")
    if size - tail - 8 not in range(4, 257, 4):
        raise _Dropped("rx_bad_length")
    if tail == 4:
        p.acknowledgement = int.from_bytes(payload[-4:-2], "big")
    address = int.from_bytes(payload[3:8], "big")
    p.op = MWR
    p.key, p.offset = address >> 28, address & 0xFFFFFFC
    p.length = len(p.data) // 4
    p.numbered = True


def _read_tlp(p: _Payload) -> None:
    """Lines 6 to 9 of the tlp format."""
    payload, size = p.data_bytes, len(p.data_bytes)
    if size < 28:
        raise _Dropped("rx_bad_length")
    head = p.head = payload[8:24]
    p.data = payload[24:-4]
    p.sequence = int.from_bytes(payload[4:6], "big")
    p.numbered = bool(payload[2] & 1)
    if payload[2] & 2:
        p.acknowledgement = int.from_bytes(payload[6:8], "big")
    if payload[2] >> 4 == 1:
        if size != 28:
            raise _Dropped("rx_bad_length")
        return
    p.op = head[0]
    p.length = int.from_bytes(head[2:4], "big") & 0x3FF
    p.first_be, p.last_be = head[7] & 0xF, head[7] >> 4
    if p.op not in (MRD, MWR, CPL, CPLD) or head[2] & 0xC0:
        raise _Dropped("rx_bad_tlp")
    if p.op in (MRD, MWR):
        legal = legal_enables(p.length, p.first_be, p.last_be, head[15])
        if head[8:10] != b"\0\0" or head[15] & 3 or not legal:
            raise _Dropped("rx_bad_tlp")
        p.key, p.offset = int.from_bytes(head[10:12], "big"), int.from_bytes(head[12:16], "big")
        p.tag = head[6]
    carried = 4 * p.length if p.op in (MWR, CPLD) else 0
    if len(p.data) != carried or (p.op != CPL and not 1 <= p.length <= 64):
        raise _Dropped("rx_bad_length")
    if p.in_session:
        p.load_number = int.from_bytes(head[4:6] if p.op == MRD else head[8:10], "big")


def _read(frame: bytes, me: Identity) -> _Payload:
    """Lines 1 to 9."""
    p = _headers(frame, me)
    payload = p.data_bytes
    if payload[0] >> 4 == 0xC:
        _read_compact(p)
    elif p.is_tlp and not payload[2] & 0xC and payload[2] >> 4 < 2:
        _read_tlp(p)
    else:
        raise _Dropped("rx_bad_magic")
    return p


def _session(p: _Payload, me: Identity) -> Session:
    """Line 9b; the session as it is before the frame."""
    if not p.in_session:
        if p.code is not None or p.sealed:
            raise _Dropped("rx_bad_session")
        return Session()
    session = me.sessions.get(p.index, Session())
    if (
        p.index >= me.session_count
        or not session.valid
        or session.epoch != p.port >> 8 & 0x3F
        or session.ip != p.peer[1]
        or session.sealed != p.sealed
        or (p.op in (MRD, MWR) and not p.numbered)
    ):
        raise _Dropped("rx_bad_session")
    return session


class _Judge:
    """A frame in its session: lines 10 to 14."""

    def __init__(self, p: _Payload, session: Session):
        self.p = p
        self.session = session
        self.number, self.distance = p.sequence, 0
        if p.in_session:
            self.number, self.distance = nearest(p.sequence, session.expected)
        self.fold = self.number >> 16 if p.in_session else 0

    def misplaced(self) -> Result:
        """Say that another frame is expected."""
        if self.distance < 0:
            return Result("rx_duplicate", news=("again", self.p.index))
        session = self.session
        told = session.gap_told and (self.number - session.gap_at) & 0xFFFF in range(1, 0x8000)
        session.gap_told, session.gap_at = True, self.number & 0xFFFF
        return Result("rx_gap", news=("gap" if not told else "told", self.p.index))

    def taken(self, result: Result) -> Result:
        """Move the session on."""
        if self.p.in_session:
            session = self.session
            session.expected = (session.expected + 1) & 0xFFFFFFFF
            session.gap_told = False
            session.refusal = None
            session.several = False
            result.news = ("taken", self.p.index)
            if self.p.acknowledgement is not None:
                result.ack = (self.p.index, self.p.acknowledgement, True, False, 0)
        return result

    def answer_port(self) -> int:
        """Return the source port that an answer has; in a session only its epoch, bits 13 to 8."""
        return self.session.port & 0x3F00 if self.p.in_session else UDP_PORT

    def refused(self, counter: str, error: int) -> Result:
        """Answer with an error packet, and a load with zeros before."""
        p, session = self.p, self.session
        answers = []
        address = p.key << 32 | p.offset
        if p.in_session and (error != 1 or session.refusal is None or session.refusal[0] == 1):
            now = (error, p.op, p.key, p.offset)
            if session.refusal and session.refusal[0] == error == 1:
                session.several |= session.refusal != now
            else:
                session.several = False
            session.refusal = now
        if p.op == MRD:
            count, skip = read_bytes(p.length, p.first_be, p.last_be)
            low = p.offset + skip & 0x7F
            zeros = completion_head(True, p.length, SC, count, p.tag, low, p.load_number)
            answers.append({"kind": 0, "head": zeros, "data_dw": p.length, "zero_data": 1})
        body = error_body(error, p.op, self.number, p.length, address)
        answers.append({"kind": 1, "head": body, "data_dw": 0, "zero_data": 0})
        for answer in answers:
            answer.update(dst_mac=p.peer[0], dst_ip=p.peer[1])
            answer.update(session=p.in_session << 8 | (p.index if p.in_session else 0))
            answer.update(src_port=self.answer_port())
        return Result(counter, answers=answers)

    def control(self) -> Result:
        """Acknowledgements and voids."""
        p = self.p
        if p.folded() != (self.fold if p.code == VOID else 0):
            raise _Dropped("rx_bad_end_code")
        if p.code != VOID:
            expected = int.from_bytes(p.data_bytes[3:7], "big")
            interval = int.from_bytes(p.data_bytes[1:3], "big") & 0xFFF
            return Result("rx_ack", ack=(p.index, expected, False, p.code == NACK, interval))
        return self.misplaced() if self.distance else self.taken(Result("rx_void"))

    def answer(self) -> Result:
        """Completions and error reports."""
        p = self.p
        if p.folded():
            raise _Dropped("rx_bad_end_code")
        head = p.head
        if p.op:
            status = head[6] >> 5
            count = int.from_bytes(head[6:8], "big") & 0xFFF
            found = (head[10], status, count, head[11] & 0x7F, p.length, p.data, p.peer[1])
            return Result("rx_completion", completion=found)
        code, what, low, high = struct.unpack(">BBHH", head[:6])
        where = int.from_bytes(head[8:16], "big")
        result = Result("rx_error_report", report=(code, what, low, where, p.peer[1]))
        if p.in_session:
            result.refused = (p.index, code, what, high << 16 | low, where)
        return result

    def request(self, me: Identity, table_size: int) -> Result:
        """Stores and loads."""
        p, session = self.p, self.session
        region = me.regions.get(p.key, Region()) if p.key < table_size else Region()
        if not region.valid:
            # The end code must be right: in a session with the tag that the entry has kept, else
            # in `tlp` with some tag.
            kept = me.regions.get(p.key % table_size, Region()).tag
            wrong = p.folded() ^ self.fold
            if wrong != kept if p.in_session else p.is_tlp and wrong >> 12:
                raise _Dropped("rx_bad_end_code")
            if self.distance:
                return Result("rx_bad_key", news=("again", p.index) if self.distance < 0 else None)
            return self.refused("rx_bad_key", 1)
        if p.folded() != region.tag ^ self.fold:
            raise _Dropped("rx_bad_end_code")
        if self.distance:
            return self.misplaced()
        same = session.refusal and session.refusal[1:] == (p.op, p.key, p.offset)
        if session.refusal and (same or (session.several and p.op != MRD)):
            code = session.refusal[0]
            lines = ("rx_bad_key", "rx_bad_source", "rx_bad_rights", "rx_bad_bounds")
            return self.refused(lines[code - 1], code)
        another = region.only is not None and not (p.in_session and p.index == region.only)
        if another or p.peer[1] & region.mask != region.ip & region.mask:
            return self.refused("rx_bad_source", 2)
        if (
            not (region.read if p.op == MRD else region.write)
            or (region.session and not p.in_session)
            or (region.sealed and not p.sealed)
        ):
            return self.refused("rx_bad_rights", 3)
        end = p.offset + 4 * p.length - 1
        outside = p.offset < region.first & ~3 or end > region.last | 3
        if outside or p.offset >> 12 != end >> 12:
            return self.refused("rx_bad_bounds", 4)
        address = region.base + p.offset & (1 << 64) - 1
        if p.op == MRD:
            load = (address, p.length, p.first_be, p.last_be, p.tag, p.peer)
            load += (p.in_session << 8 | p.index if p.in_session else 0, p.load_number)
            load += (self.answer_port(),)
            return self.taken(Result("rx_load", load=load))
        tlp = memory_write(me, address, p.first_be, p.last_be, p.data)
        return self.taken(Result("rx_store", tlp=tlp, notify=region.notify))


def judge(frame: bytes, me: Identity, table_size: int) -> Result:
    """Read the verdict table top down, and move the session on.

    `frame` is without FCS and good for the MAC; it came sealed if its source address is a group's.
    """
    try:
        payload = _read(frame, me)
        judge = _Judge(payload, _session(payload, me))
        if payload.code is not None:
            return judge.control()
        if payload.op in (MRD, MWR):
            result = judge.request(me, table_size)
            if not payload.in_session and any(it.valid for it in me.sessions.values()):
                # Who has sessions answers no strangers.
                result.answers = []
            return result
        return judge.answer()
    except _Dropped as dropped:
        return Result(str(dropped))
