# SPDX-License-Identifier: Apache-2.0
"""Random frames for the receive chain, with the tables they are judged by."""

from __future__ import annotations

import random
import struct

from rx_bench import Bench
from rx_ref import (
    ACK,
    MRD,
    MWR,
    NACK,
    UDP_PORT,
    VOID,
    Addresses,
    Region,
    Session,
    build,
    compact,
    completion_head,
    control_frame,
    error_body,
    request_head,
    tlp_payload,
)


async def random_regions(bench: Bench) -> None:
    """Fill the table: open ones, narrow ones, one-sided ones, an invalid one."""
    rand = bench.rand
    for key in range(bench.table_size):
        first = rand.choice([0, rand.randrange(1 << 14)])
        region = Region(
            base=rand.choice([0, rand.randrange(1 << 18), rand.randrange(1 << 50)]) << 12,
            first=first,
            last=rand.choice([first + rand.randrange(1 << 14), (1 << 32) - 1]),
            ip=rand.choice([0x0A000002, 0x0A000002, 0x0A0000FE]),
            mask=rand.choice([0xFFFFFFFF, 0xFFFFFF00, 0, 0xFFFFFFFF]),
            tag=rand.randrange(1 << 12),
            valid=rand.random() < 0.9,
            write=rand.random() < 0.85,
            read=rand.random() < 0.85,
            notify=rand.random() < 0.3,
            session=rand.random() < 0.1,
            sealed=rand.random() < 0.1,
            only=rand.randrange(bench.me.session_count) if rand.random() < 0.1 else None,
        )
        await bench.write_region(key, region)
        if rand.random() < 0.2:
            value, _ = await bench.read_region(key)
            assert value == region.word()


async def random_sessions(bench: Bench) -> None:
    """Fill the table; some sessions begin close to the wraps of their numbers."""
    rand = bench.rand
    for index in range(bench.me.session_count):
        session = Session(
            ip=rand.choice([0x0A000002, 0x0A0000FE, 0x0A010002]),
            mac=rand.randrange(1 << 48),
            port=0xC000 | rand.randrange(1 << 14),
            epoch=rand.randrange(64),
            valid=rand.random() < 0.9,
            sealed=rand.random() < 0.3,
            start=rand.choice([0, rand.getrandbits(32), *rand.sample(STARTS, 2)]),
        )
        await bench.write_session(index, session)
        assert await bench.expected(index) == session.start
        if rand.random() < 0.2:
            assert await bench.read_session(index) == session.word()


STARTS = [0xFFFD, 0x1_0000, 0x7FFF, 0xFFFF_FFFC, 0xFFFF_FFFF, 0x1234_FFFE, 0x1235_0000, 0x8000_0003]


def random_number(rand: random.Random, expected: int) -> int:
    """Draw the number of a frame, mostly the expected one."""
    pick = rand.random()
    if pick < 0.7:
        step = 0
    elif pick < 0.8:
        step = -rand.randint(1, 4)
    elif pick < 0.9:
        step = rand.randint(1, 4)
    elif pick < 0.95:
        step = rand.choice([-65536, 65536, -65537, -65535, 1 << 20])
    else:
        step = rand.choice([-32768, 32767, rand.randrange(1 << 32)])
    return (expected + step) & 0xFFFFFFFF


def random_enables(rand: random.Random, length: int, address: int = 4) -> tuple[int, int]:
    """First and last byte enables, mostly as PCI Express has them."""
    if rand.random() < 0.05:
        return rand.randrange(16), rand.randrange(16)
    if length == 1:
        return rand.randrange(16), 0
    if length == 2 and address % 8 == 0:
        return rand.randrange(1, 16), rand.randrange(1, 16)
    return 15 << rand.randrange(4) & 15, 15 >> rand.randrange(4)


def random_payload(bench: Bench, port: int) -> bytes:
    """Payload of an operation that is right or nearly so."""
    rand = bench.rand
    in_session = port >> 14 == 3
    session = bench.me.sessions.get(port & 0xFF, Session())
    key = rand.randrange(bench.table_size)
    if rand.random() < 0.05:
        key = rand.choice([bench.table_size, 0xFFF, rand.randrange(1 << 16)])
    region = bench.me.regions.get(key, Region())
    length = rand.choice([1, 1, 2, 3, 16, rand.randint(1, 64), 64])
    low, high = region.first >> 2, region.last >> 2
    where = rand.random()
    if where < 0.5:
        dw = rand.randint(low, max(low, min(high - length + 1, low + (1 << 20))))
    elif where < 0.65:
        dw = low + rand.randint(-2, 2)
    elif where < 0.8:
        dw = high - length + 1 + rand.randint(-2, 2)
    elif where < 0.9:
        dw = (rand.randrange(1 << 10) << 10) - rand.randrange(length + 1)
    else:
        dw = rand.randrange(1 << 30)
    offset = (dw & (1 << 30) - 1) << 2
    tag = region.tag if region.valid and rand.random() < 0.95 else rand.randrange(1 << 12)
    data = rand.randbytes(4 * length)
    sequence = random_number(rand, session.expected) if in_session else rand.randrange(1 << 16)
    # The end code may be for another port.
    cover = port ^ 1 << rand.randrange(14) if in_session and rand.random() < 0.05 else port
    lie = rand.random()
    kind = rand.random()
    if rand.random() < (0.25 if in_session else 0.03):
        code = rand.choice([ACK, NACK, VOID, VOID, 3] if lie < 0.1 else [ACK, NACK, VOID, VOID])
        number = sequence if code == VOID else rand.randrange(1 << 32)
        rest = rand.randbytes(rand.choice([1, 2, 4, 8])) if lie > 0.95 else b""
        payload = control_frame(code, number, cover, rest, rand.getrandbits(16))
        if lie < 0.03:
            payload = bytes([payload[0] | 8]) + payload[1:]
        elif lie < 0.06:
            payload = payload[:-1] + bytes([payload[-1] ^ 1 << rand.randrange(8)])
        return payload
    if kind < 0.4:
        key, offset = key & 0xFFF, offset & 0xFFFFFFF
        if lie < 0.1:
            data = rand.randbytes(rand.choice([0, 1, 2, 3, 5, 6, 260, 264, rand.randrange(270)]))
        return compact(
            key,
            offset | (rand.randrange(4) if rand.random() < 0.3 else 0),
            rand.randrange(4) if rand.random() < 0.3 else 0,
            data,
            tag,
            sequence,
            rand.randrange(1 << 16) if rand.random() < 0.2 else None,
            cover,
        )
    control, epoch = rand.choice([0, 1, 2, 3]), rand.randrange(256)
    if in_session and rand.random() < 0.9:
        control |= 1
    load_number = rand.choice([0, rand.randrange(1 << 16)])
    first_be, last_be = random_enables(rand, length, offset)
    net_tag = rand.randrange(256)
    if kind < 0.6:
        head = request_head(MWR, length, net_tag, last_be, first_be, key, offset)
    elif kind < 0.8:
        head = request_head(MRD, length, net_tag, last_be, first_be, key, offset, load_number)
        data = b""
    elif kind < 0.9:
        tag = 0 if rand.random() < 0.9 else 1
        has_data = rand.random() < 0.7
        head = completion_head(
            has_data,
            length,
            rand.choice([0, 0, 1, 4]),
            rand.randrange(1 << 12),
            net_tag,
            rand.randrange(128),
            load_number,
        )
        data = data if has_data else b""
    else:
        tag = 0 if rand.random() < 0.9 else 1
        control |= 0x10
        data = b""
        head = error_body(
            rand.randrange(256),
            rand.randrange(256),
            sequence,
            rand.randrange(1 << 16),
            rand.randrange(1 << 64),
        )
    if lie < 0.05:
        data = data[: rand.randrange(len(data) + 1)]
    elif lie < 0.08:
        data += rand.randbytes(rand.choice([1, 2, 4, 8]))
    elif lie < 0.12:
        # Anything in the header, most of all in its first DW and address.
        at = rand.choice([0, 2, 2, 3, 7, 8, 9, 15, rand.randrange(16)])
        head = head[:at] + bytes([head[at] ^ 1 << rand.randrange(8)]) + head[at + 1 :]
    elif lie < 0.14:
        head = head[:2] + struct.pack(">H", rand.choice([0, 65, 1023])) + head[4:]
    elif lie < 0.15:
        head = head[: rand.randrange(16)]
        data = b""
    elif lie < 0.17:
        control ^= 1 << rand.randrange(2, 8)
    return tlp_payload(head, data, tag, control, epoch, sequence, rand.randrange(1 << 16), cover)


def source_mac(rand: random.Random, sealed: bool = False) -> int:
    """Draw a source address; the wrapper takes a group's for that of a sealed frame."""
    return rand.randrange(1 << 48) & ~(1 << 40) | sealed << 40


def random_frame(bench: Bench) -> bytes:
    """Build a frame that is right or wrong in one place."""
    rand = bench.rand
    me = bench.me
    to = Addresses(me.mac, me.ip, src_ip=rand.choice([0x0A000002] * 3 + [0x0A0000FE, 0x0A010002]))
    sealed = False
    if rand.random() < 0.5:
        index = rand.randrange(me.session_count)
        session = me.sessions.get(index, Session())
        to.src_port = 0xC000 | session.epoch << 8 | index
        to.src_ip = session.ip
        sealed = session.sealed
        lie = rand.random()
        if lie < 0.02:
            to.src_port ^= 1 << rand.randrange(14)
        elif lie < 0.04:
            to.src_ip ^= 1 << rand.randrange(32)
        elif lie < 0.06:
            sealed = not sealed
    elif rand.random() < 0.02:
        sealed = True
    to.src_mac = source_mac(rand, sealed)
    payload = random_payload(bench, to.src_port)
    pick = rand.random()
    if pick < 0.015:
        to.dst_mac = me.mac ^ 1 << rand.randrange(48)
    elif pick < 0.03:
        to.dst_mac = (1 << 48) - 1
    elif pick < 0.04:
        to.dst_ip ^= 1 << rand.randrange(32)
    elif pick < 0.05:
        to.udp_fields["dport"] = UDP_PORT ^ 1 << rand.randrange(16)
    elif pick < 0.06:
        to.ip_fields["flags"] = rand.choice([1, 3, 4, 6])
    elif pick < 0.07:
        to.ip_fields["frag"] = 1 << rand.randrange(13)
    elif pick < 0.08:
        to.ip_fields["proto"] = 17 ^ 1 << rand.randrange(8)
    elif pick < 0.09:
        to.ip_fields["chksum"] = rand.randrange(1 << 16)
    elif pick < 0.1:
        to.ip_fields["version" if rand.random() < 0.5 else "ihl"] = rand.choice([4, 5, 6, 7])
    elif pick < 0.12:
        to.udp_fields["len"] = max(0, len(payload) + 8 + rand.choice([-9, -2, -1, 1, 2, 40]))
    elif pick < 0.14:
        to.ip_fields["len"] = max(0, len(payload) + 28 + rand.choice([-30, -4, -1, 1, 4, 40]))
    elif pick < 0.17:
        # Both lengths lie alike: payload beyond the frame, or a code inside it.
        lie = rand.choice([-8, -4, -2, -1, 1, 2, 4, 6, 8, 100, 60000])
        size = min(max(len(payload) + 8 + lie, 0), 65515)
        to.udp_fields["len"] = size
        to.ip_fields["len"] = size + 20
    elif pick < 0.18:
        payload = rand.randbytes(rand.randrange(64))
    to.ip_fields.setdefault("tos", rand.choice([0, rand.randrange(256)]))
    to.udp_fields["chksum"] = rand.choice([0, rand.randrange(1 << 16)])
    frame = build(payload, to, rand.choice([60, 60, 60, rand.randrange(60, 400)]))
    other = rand.random()
    if other < 0.02:
        at = rand.randrange(len(frame))
        frame = frame[:at] + bytes([frame[at] ^ 1 << rand.randrange(8)]) + frame[at + 1 :]
    elif other < 0.04:
        frame = frame[:12] + rand.choice([b"\x08\x06", b"\x86\xdd", b"\x08\x01"]) + frame[14:]
    elif other < 0.1:
        # The key, after the end code was made.
        at = rand.choice([60, 61] if frame[42:44] == b"NM" else [45, 46])
        at = min(at, len(frame) - 1)  # one that was cut may end before its key
        frame = frame[:at] + bytes([frame[at] ^ 1 << rand.randrange(8)]) + frame[at + 1 :]
    return frame[:1500]
