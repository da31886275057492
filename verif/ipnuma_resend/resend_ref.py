# SPDX-License-Identifier: Apache-2.0
"""The other end of a session, and the sender's pace, as the documents say; no RTL is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

MWR, MRD = 0x60, 0x20
MASK32 = 0xFFFFFFFF

# tx_frame_t, most significant first.
FRAME = (
    ("compact", 1),
    ("control", 1),
    ("session_valid", 1),
    ("session", 8),
    ("kind", 4),
    ("sequenced", 1),
    ("pc_id", 16),
    ("dst_mac", 48),
    ("dst_ip", 32),
    ("src_port", 16),
    ("tag", 12),
    ("head", 128),
    ("address", 40),
    ("trail", 2),
    ("data_dw", 7),
    ("zero_data", 1),
)
ACK = (("session", 8), ("sequence", 32), ("short", 1), ("nack", 1), ("interval", 12))
REFUSED = (("session", 8), ("code", 8), ("op", 8), ("sequence", 32), ("address", 64))
EVENT = (("code", 8), ("op", 8), ("number", 16), ("who", 16), ("address", 64))
STATUS = (
    ("reserved2", 64),
    ("reserved1", 24),
    ("retries", 8),
    ("pace", 32),
    ("expected", 32),
    ("nxt", 32),
    ("una", 32),
    ("reserved0", 27),
    ("valid", 1),
    ("idle", 1),
    ("resending", 1),
    ("open", 1),
    ("lost", 1),
)
PEER_LOST, FLUSHED, FLUSH_FAILED = 16, 17, 18


def pack(fields: tuple, values: dict[str, int]) -> int:
    """Put a packed struct together; what is not named is 0."""
    out = 0
    for name, width in fields:
        value = values.get(name, 0)
        assert 0 <= value < 1 << width, name
        out = out << width | value
    assert not values.keys() - {name for name, _ in fields}
    return out


def unpack(fields: tuple, value: int) -> dict[str, int]:
    """Split a packed struct."""
    out = {}
    for name, width in reversed(fields):
        out[name] = value & (1 << width) - 1
        value >>= width
    return out


@dataclass
class Operation:
    """A store or load of the host, as the requester hands it on."""

    session: int
    number: int  # of the session's operations, from 0
    compact: bool
    is_load: bool
    wire_address: int  # DW aligned, {key 16, offset 32}
    data: list[int]  # pairs of DWs
    data_dw: int
    mac: int
    tag: int

    def frame(self) -> dict[str, int]:
        """Give the fields of tx_frame_t."""
        out = {
            "session_valid": 1,
            "session": self.session,
            "sequenced": 1,
            "pc_id": self.session,
            "dst_mac": self.mac,
            "dst_ip": self.mac & MASK32,
            "tag": self.tag,
            "data_dw": self.data_dw,
        }
        key, offset = self.wire_address >> 32, self.wire_address & MASK32
        if self.compact:
            # Bits 1:0 count bytes that are not written; an error report's address has none.
            out |= {"compact": 1, "address": key << 28 | offset | self.number & 3}
            out["trail"] = self.number >> 2 & 3
        else:
            header = bytes([MRD if self.is_load else MWR, 0, 0, self.data_dw, 0, 0, 0, 0xFF])
            header += self.wire_address.to_bytes(8, "big")
            out["head"] = int.from_bytes(header, "little")
        return unpack(FRAME, pack(FRAME, out))


@dataclass
class Peer:
    """The receiver of a session: takes what it expects, once; asks for what is missing."""

    expected: int = 0
    ack_every: int = 8
    taken: list[tuple] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)  # numbers that have been reported
    pending: int = 0
    want_ack: bool = False
    want_nack: bool = False
    last_gap: int | None = None
    report: dict[str, int] | None = None

    def receive(self, sequence: int, frame: dict[str, int], words: list[int], code: int) -> str:
        """Judge a frame; `code` is the error that its region would give, 0: none."""
        assert frame["sequenced"] == 1 and frame["session_valid"] == 1 and frame["kind"] == 0
        difference = (sequence - self.expected & 0xFFFF ^ 0x8000) - 0x8000
        if difference < 0:
            self.want_ack = True
            return "duplicate"
        if difference > 0:
            # Again behind the last one: the sender went back, and the first frame is lost again.
            before = self.last_gap
            if before is None or (sequence - before & 0xFFFF) == 0 or sequence - before & 0x8000:
                self.want_nack = True
            self.last_gap = sequence
            return "gap"
        if sequence != self.expected:
            return "bad end code"
        if code and not frame["control"]:
            self.report = {"code": code, "sequence": sequence}
            self.refused.add(sequence)
            return "refused"
        self.taken.append((sequence, frame, words))
        self.expected = self.expected + 1 & MASK32
        self.last_gap = None
        self.pending += 1
        if self.pending >= self.ack_every:
            self.want_ack = True
        return "taken"


def fitting(now: int, most: int, trip: int, ticks: int) -> int:
    """Doublings of a time-out of `ticks` after a round trip: it is to be twice that."""
    least = next(i for i in range(16) if ticks << i >= 2 * trip)
    return min(max(least, now - 3), now + 1, most)


def slower(pace: int, shift: int, most: int) -> int:
    """Pace after a loss."""
    return min(most, max(pace + (pace >> shift) + 1, 12))


def faster(pace: int, shift: int) -> int:
    """Pace after a time without loss."""
    pace -= (pace >> shift) + 1
    return pace if pace >= 10 else 0
