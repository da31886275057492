# SPDX-License-Identifier: Apache-2.0
"""Sessions at the receiver: order, duplicates, gaps, wraps, resets, and when it acknowledges."""

from __future__ import annotations

import struct
from dataclasses import replace

import cocotb
import pytest
from cocotb.triggers import ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from harness import build_and_run
from rx_bench import (
    LONG,
    RULES,
    Bench,
    Expectation,
    check_tlps,
    root_completions,
    settle,
)
from rx_frames import (
    STARTS,
    random_number,
    source_mac,
)
from rx_ref import (
    ACK,
    MRD,
    MWR,
    NACK,
    VOID,
    Addresses,
    Region,
    Session,
    build,
    compact,
    control_frame,
    error_body,
    judge,
    request_head,
    tlp_payload,
)

KEY = 5
TICK = 16  # cycles


class Peers:
    """Senders of sessions, with frames that the receiver and the reference get alike."""

    def __init__(self, bench: Bench) -> None:
        """Have no sessions yet."""
        self.bench = bench
        self.expected = Expectation()
        self.sent = 0

    async def open(self, count: int, **fields: object) -> None:
        """Set up a region for all and sessions 0 to count - 1."""
        rand = self.bench.rand
        region = Region(last=0xFFFFF, mask=0, tag=0xABC, valid=True, write=True, read=True)
        await self.bench.write_region(KEY, region)
        for index in range(count):
            await self.bench.write_session(index, self.entry(rand.randrange(64), **fields))

    def entry(self, epoch: int, **fields: object) -> Session:
        """Make up a session."""
        rand = self.bench.rand
        session = Session(
            ip=0x0A000000 | rand.randrange(2, 1 << 16),
            mac=rand.randrange(1 << 48),
            port=0xC000 | rand.randrange(1 << 14),
            epoch=epoch,
            valid=True,
        )
        for name, value in fields.items():
            setattr(session, name, value)
        return session

    def port(self, index: int) -> int:
        """Return the source port of the session's frames."""
        return 0xC000 | self.bench.me.sessions[index].epoch << 8 | index

    def frame(self, index: int, payload: bytes) -> bytes:
        """Put a frame around a payload of this session."""
        me, session = self.bench.me, self.bench.me.sessions[index]
        to = Addresses(me.mac, me.ip, src_ip=session.ip, src_port=self.port(index))
        to.src_mac = source_mac(self.bench.rand, session.sealed)
        return build(payload, to)

    def store(self, index: int, number: int, ack: int | None = None, **where: int) -> bytes:
        """Store its own number, compact."""
        offset = where.get("offset", 4 * (number % 64))
        data = struct.pack("<HH", index, number & 0xFFFF)
        key = where.get("key", KEY)
        payload = compact(key, offset, 0, data, 0xABC, number, ack, self.port(index))
        return self.frame(index, payload)

    def void(self, index: int, number: int) -> bytes:
        """Move the session on by nothing."""
        return self.frame(index, control_frame(VOID, number, self.port(index)))

    def any(self, index: int, number: int) -> bytes:
        """Make a numbered frame of either format and any kind."""
        rand = self.bench.rand
        kind = rand.random()
        if kind < 0.1:
            return self.void(index, number)
        if kind < 0.7:
            return self.store(index, number, rand.choice([None, rand.randrange(1 << 16)]))
        length = rand.choice([1, 2, 3, 16])
        last_be = 0 if length == 1 else 15
        fmt = MWR if kind < 0.9 else MRD
        data = rand.randbytes(4 * length) if fmt == MWR else b""
        head = request_head(fmt, length, 7, last_be, 15, KEY, 0x400, rand.randrange(1 << 16))
        payload = tlp_payload(
            head,
            data,
            0xABC,
            rand.choice([1, 3]),
            0,
            number,
            rand.randrange(1 << 16),
            self.port(index),
        )
        return self.frame(index, payload)

    def send(self, frame: bytes, gap: int = 0) -> None:
        """Send a frame, and tell the reference."""
        self.bench.send(frame, gap=gap)
        self.expected.add(judge(frame, self.bench.me, self.bench.table_size))
        self.sent += 1

    async def finish(self) -> None:
        """Wait for the end and compare everything."""
        bench = self.bench
        await settle(bench)
        await bench.idle()
        check_tlps(bench, self.expected)
        self.expected.check(bench)
        assert bench.mac_good == self.sent
        last: dict[int, int] = {}
        for control in bench.controls:
            session = bench.me.sessions[control.session]
            assert (control.mac, control.ip) == (session.mac, session.ip)
            last[control.session] = control.number
        for index, session in bench.me.sessions.items():
            assert await bench.expected(index) == session.expected
            if index in last:
                assert last[index] == session.expected, f"session {index} is not acknowledged"


def steps(bench: Bench, since: int) -> int:
    """Return cycles of the network clock since then."""
    return (get_sim_time("ps") - since) // bench.net_ps


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def many_sessions_at_line_rate(dut) -> None:
    """Frames without gaps of all sessions in turn, with losses, copies and frames of long ago."""
    bench = Bench(dut)
    await bench.start()
    peers = Peers(bench)
    count = bench.me.session_count
    await peers.open(count)
    for index in range(count):
        start = bench.rand.choice([0, *STARTS])
        await bench.write_session(index, replace(bench.me.sessions[index], start=start))
    for _ in range(4):
        for _ in range(120 if not bench.gmii else 40):
            index = bench.rand.randrange(count)
            number = random_number(bench.rand, bench.me.sessions[index].expected)
            # Loads would need answers at line rate.
            peers.send(peers.store(index, number, bench.rand.choice([None, number])))
        await peers.finish()
    for line in ("rx_store", "rx_duplicate", "rx_gap", "rx_bad_end_code"):
        assert peers.expected.counts[line], f"no {line}"
    assert {c.nack for c in bench.controls} == {False, True}


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def every_kind_in_order(dut) -> None:
    """Both formats, stores, loads and voids, with acknowledgements in them."""
    bench = Bench(dut)
    await bench.start()
    peers = Peers(bench)
    await peers.open(4)
    for _ in range(30):
        for _ in range(4):
            index = bench.rand.randrange(4)
            number = random_number(bench.rand, bench.me.sessions[index].expected)
            peers.send(peers.any(index, number), gap=bench.rand.choice([0, 2, 9]))
        await settle(bench)
    await peers.finish()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def numbers_wrap(dut) -> None:
    """Over 2^16 and 2^32; a frame of 65,536 ago, or ahead, is not the next."""
    bench = Bench(dut)
    await bench.start()
    peers = Peers(bench)
    await peers.open(1)
    for start in STARTS:
        await bench.write_session(0, replace(bench.me.sessions[0], start=start))
        for step in range(6):
            number = (start + step) & 0xFFFFFFFF
            before = peers.expected.counts.copy()
            for far in (65536, -65536, 131072, 1 << 31):
                peers.send(peers.store(0, (number + far) & 0xFFFFFFFF))
                peers.send(peers.void(0, (number + far) & 0xFFFFFFFF))
            assert peers.expected.counts["rx_bad_end_code"] == before["rx_bad_end_code"] + 8
            for far in (-1, -32768, 1, 32767):
                peers.send(peers.store(0, (number + far) & 0xFFFFFFFF))
            assert peers.expected.counts["rx_duplicate"] == before["rx_duplicate"] + 2
            assert peers.expected.counts["rx_gap"] == before["rx_gap"] + 2
            peers.send(peers.store(0, number))
            assert bench.me.sessions[0].expected == (number + 1) & 0xFFFFFFFF
        await peers.finish()
    assert peers.expected.counts["rx_store"] == 6 * len(STARTS)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def acknowledges_in_time(dut) -> None:
    """Alone after a while, or after so many frames, at once after a duplicate."""
    bench = Bench(dut)
    await bench.start()
    bench.control_ready = 1.0
    peers = Peers(bench)
    await peers.open(3)
    for ticks in (1, 5, 200):
        dut.ack_ticks_i.value = ticks
        dut.ack_every_i.value = 4
        # One alone: after the time, and 4 cycles from the want to the offer.
        bench.held.clear()
        bench.controls.clear()
        peers.send(peers.store(0, bench.me.sessions[0].expected))
        await bench.idle()
        (control,) = bench.controls
        waited = (control.offered - bench.held[-1]) // bench.net_ps
        assert TICK * ticks <= waited <= TICK * ticks + 8, f"{waited} cycles for {ticks} ticks"
        assert not control.nack and control.number == bench.me.sessions[0].expected
        # Four: at once, with the number of the fourth, and nothing more.
        bench.held.clear()
        bench.controls.clear()
        for _ in range(4):
            peers.send(peers.store(1, bench.me.sessions[1].expected))
        await bench.idle()
        assert bench.controls[-1].number == bench.me.sessions[1].expected
        if ticks == 200:
            (control,) = bench.controls
            assert (control.offered - bench.held[-1]) // bench.net_ps <= 8
        # A copy: at once.
        bench.held.clear()
        bench.controls.clear()
        peers.send(peers.store(1, bench.me.sessions[1].expected - 1))
        await bench.idle()
        (control,) = bench.controls
        assert (control.offered - bench.held[-1]) // bench.net_ps <= 8
        assert not control.nack and control.number == bench.me.sessions[1].expected
    # Without end: each frame is acknowledged within twice the time, whatever else comes.
    dut.ack_ticks_i.value = 2
    dut.ack_every_i.value = 200
    bench.controls.clear()
    start = bench.me.sessions[2].expected
    for _ in range(60):
        peers.send(peers.store(2, bench.me.sessions[2].expected))
    bench.held.clear()
    await peers.finish()
    for number, held in enumerate(bench.held, start + 1):
        told = min(c.sent for c in bench.controls if c.number >= number)
        assert (told - held) // bench.net_ps <= 2 * 2 * TICK + 24
    # At once, without waiting.
    dut.ack_ticks_i.value = 0
    bench.held.clear()
    bench.controls.clear()
    peers.send(peers.store(0, bench.me.sessions[0].expected))
    await peers.finish()
    assert (bench.controls[0].offered - bench.held[-1]) // bench.net_ps <= 8


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def tells_each_gap_once(dut) -> None:
    """One NACK a gap, one more when the sender has gone back in vain; none when it is mended."""
    bench = Bench(dut)
    await bench.start()
    dut.ack_every_i.value = 100
    dut.ack_ticks_i.value = 255
    peers = Peers(bench)
    await peers.open(2)

    async def nacks(*numbers: int) -> int:
        for number in numbers:
            peers.send(peers.store(0, number))
        await bench.idle()
        count = sum(c.nack for c in bench.controls)
        assert all(c.number == bench.me.sessions[0].expected for c in bench.controls if c.nack)
        bench.controls.clear()
        return count

    assert await nacks(0, 1) == 0
    assert await nacks(3, 4, 5) == 1
    assert await nacks(6) == 0
    assert await nacks(3) == 1, "the sender went back"
    assert await nacks(4, 5, 6, 7) == 0
    assert await nacks(7) == 1, "and again"
    assert await nacks(2, 3) == 0
    assert await nacks(5) == 1
    assert await nacks(4, 5, 6) == 0
    # Mended before it could be told.
    bench.control_ready = 0.0
    peers.send(peers.store(0, 9))
    peers.send(peers.store(0, 7))
    while bench.net["rx_store"] < 8:
        await RisingEdge(dut.clk_net_i)
    for _ in range(20):
        await RisingEdge(dut.clk_net_i)
    bench.control_ready = 1.0
    await peers.finish()
    assert not any(c.nack for c in bench.controls)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def acknowledgements_ride(dut) -> None:
    """A data frame takes the acknowledgement along: nothing goes alone, unless more comes."""
    bench = Bench(dut)
    await bench.start()
    dut.ack_ticks_i.value = 20
    dut.ack_every_i.value = 4
    peers = Peers(bench)
    await peers.open(bench.me.session_count)
    index = bench.rand.randrange(bench.me.session_count)
    session = bench.me.sessions[index]
    dut.ack_session_i.value = index

    async def look() -> tuple[bool, bool, int]:
        await ReadOnly()
        out = (dut.ack_pending_o.value, dut.ack_urgent_o.value, dut.ack_value_o.value)
        await RisingEdge(dut.clk_net_i)
        return bool(out[0]), bool(out[1]), int(out[2])

    async def take() -> None:
        dut.ack_taken_i.value = 1
        await RisingEdge(dut.clk_net_i)
        dut.ack_taken_i.value = 0
        await RisingEdge(dut.clk_net_i)

    async def arrived() -> None:
        while bench.net["rx_store"] < peers.expected.counts["rx_store"]:
            await RisingEdge(dut.clk_net_i)
        for _ in range(4):
            await RisingEdge(dut.clk_net_i)

    assert await look() == (False, False, 0)
    for _ in range(3):
        # The first of all waits from the start of the clock on, which makes it urgent.
        peers.send(peers.store(index, session.expected))
        await arrived()
        assert await look() == (True, True, session.expected)
        await take()
        assert await look() == (False, False, session.expected)
        await bench.idle()
        assert not bench.controls
    # Half of the frames that would make it go alone.
    peers.send(peers.store(index ^ 1, 0))
    await arrived()
    peers.send(peers.store(index, session.expected))
    await arrived()
    assert await look() == (True, False, session.expected)
    peers.send(peers.store(index, session.expected))
    await arrived()
    assert await look() == (True, True, session.expected)
    await take()
    peers.send(peers.store(index, session.expected))
    await arrived()
    await bench.idle()
    assert {c.session for c in bench.controls} == {index, index ^ 1}
    assert len(bench.controls) == 2
    bench.controls.clear()
    # Taken at the very edges around a frame's arrival: no frame stays without.
    for shift in range(12):
        peers.send(peers.store(index, session.expected))
        before = bench.net["rx_store"]
        cycles = 0
        while bench.net["rx_store"] == before:
            await RisingEdge(dut.clk_net_i)
            cycles += 1
        peers.send(peers.store(index, session.expected))
        for _ in range(max(0, cycles - 6 + shift)):
            await RisingEdge(dut.clk_net_i)
        dut.ack_taken_i.value = 1
        await ReadOnly()
        value = int(dut.ack_value_o.value)
        await RisingEdge(dut.clk_net_i)
        dut.ack_taken_i.value = 0
        await bench.idle()
        told = [c.number for c in bench.controls]
        assert max([value, *told]) == session.expected
        bench.controls.clear()
    await peers.finish()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_answer_has_the_epoch_of_its_load(dut) -> None:
    """A session is written while a load is read: who begins anew must not get the answer."""
    bench = Bench(dut)
    await bench.start()
    peers = Peers(bench)
    await peers.open(2)
    for turn in range(6):
        index = turn % 2
        old = bench.me.sessions[index]
        bench.replies.clear()
        bench.tlps.clear()
        head = request_head(MRD, 1, turn, 0, 15, KEY, 0x40, turn)
        payload = tlp_payload(head, b"", 0xABC, 1, 0, old.expected, 0, peers.port(index))
        peers.send(peers.frame(index, payload))
        while not bench.tlps:
            await RisingEdge(dut.clk_net_i)
        if turn % 3:
            await bench.write_session(index, peers.entry(old.epoch + 1 & 63))
        if turn % 3 == 2:
            # Nothing says that the next one came.
            bench.to_root.append(
                struct.pack(">BBHHHHBB", 0x0A, 0, 0, 0, 4 << 13 | 4, 0, bench.tlps[0][0][6], 0x40)
            )
        else:
            bench.to_root.extend(root_completions(bench, bench.tlps[0][0]))
        while not bench.replies:
            await RisingEdge(dut.clk_net_i)
        fields, _ = bench.replies[0]
        assert fields["session"] == 1 << 8 | index
        assert fields["src_port"] == old.port & 0x3F00


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def sessions_begin_anew(dut) -> None:
    """An entry is written at any moment around a frame: the old session's frames do nothing."""
    bench = Bench(dut)
    await bench.start()
    dut.ack_ticks_i.value = 1
    peers = Peers(bench)
    await peers.open(4)
    outcomes = set()
    # Over GMII a frame is longer: every third moment of it, which ones is drawn.
    step = 1 if LONG or not bench.gmii else 3
    for shift in range(bench.rand.randrange(step), 200 if bench.gmii else 80, step):
        bench.control_ready = bench.rand.choice([0.0, 0.02, 1.0])
        index = shift % 4
        old = bench.me.sessions[index]
        frame = peers.store(index, old.expected)
        copy = peers.store(index, old.expected)
        before = bench.net.copy()
        bench.send(frame)
        bench.send(copy)
        peers.sent += 2
        for _ in range(shift):
            await RisingEdge(dut.clk_net_i)
        fresh = peers.entry(old.epoch + 1 & 63, start=bench.rand.choice(STARTS))
        bench.controls.clear()
        # A control frame that is being sent is the old session's, to its end.
        await bench.write_session(index, fresh)
        bench.control_ready = 1.0
        while bench.line:
            await RisingEdge(dut.clk_net_i)
        await bench.idle()
        counts = bench.net - before
        outcomes.add(tuple(sorted(counts)))
        assert sum(counts.values()) == 2
        assert await bench.expected(index) == fresh.start
        for name, value in counts.items():
            peers.expected.counts[name] += value
        late = [c for c in bench.controls if c.sent > bench.held[-1]]
        assert not any((c.mac, c.ip) == (fresh.mac, fresh.ip) for c in late)
        # The new one works, from its start.
        bench.tlps.clear()
        peers.send(peers.store(index, fresh.start))
        await bench.idle()
        assert len(bench.tlps) == 1
        assert await bench.expected(index) == (fresh.start + 1) & 0xFFFFFFFF
        assert bench.controls[-1].number == (fresh.start + 1) & 0xFFFFFFFF
        # What was sent in the old one comes once more: it is nobody's.
        before = bench.net["rx_bad_session"]
        bench.send(frame)
        peers.sent += 1
        await bench.idle()
        assert bench.net["rx_bad_session"] == before + 1
    assert ("rx_bad_session",) in outcomes and ("rx_duplicate", "rx_store") in outcomes
    assert ("rx_bad_session", "rx_store") in outcomes
    # Closed: nothing passes.
    await bench.write_session(0, Session())
    before = bench.net["rx_bad_session"]
    bench.send(peers.frame(0, compact(KEY, 0, 0, b"1234", 0xABC, 0, None, 0xC000)))
    await bench.idle()
    assert bench.net["rx_bad_session"] == before + 1


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def refusals_are_remembered(dut) -> None:
    """What was refused stays refused until a void; an altered key alone is not in the way."""
    bench = Bench(dut)
    await bench.start()
    peers = Peers(bench)
    await peers.open(2)
    closed = Region(last=0xFFFFF, mask=0, tag=0xABC, valid=True, read=True)
    no_region = Region(tag=0xABC)
    opened = bench.me.regions[KEY]
    for number, (was, code) in enumerate([(closed, 3), (no_region, 1)] * 4):
        await bench.write_region(KEY, was)
        peers.send(peers.store(0, number))
        assert bench.me.sessions[0].refusal[0] == code
        if number % 3 == 1:
            # A frame of the session whose key is nobody's.
            peers.send(peers.store(0, number, key=200))
        await settle(bench)
        await bench.write_region(KEY, opened)
        peers.send(peers.store(0, number))
        peers.send(peers.store(0, number + 1))
        await settle(bench)
        assert bench.me.sessions[0].expected == number
        peers.send(peers.void(0, number))
        peers.send(peers.store(0, number))
        assert bench.me.sessions[0].expected == number + 1
        await settle(bench)
    # A key that was altered, or guessed: not refused, and not acknowledged again when it is old.
    number = bench.me.sessions[0].expected
    before = peers.expected.counts["rx_bad_end_code"]
    for old in (0, 1):
        peers.send(peers.store(0, number - old, key=200))
    assert peers.expected.counts["rx_bad_end_code"] == before + 2
    peers.send(peers.store(0, number))
    assert bench.me.sessions[0].expected == number + 1
    await peers.finish()
    # A new session remembers nothing.
    await bench.write_region(KEY, closed)
    peers.send(peers.store(1, 0))
    await settle(bench)
    await bench.write_region(KEY, opened)
    await bench.write_session(1, peers.entry(3))
    peers.send(peers.store(1, 0))
    assert bench.me.sessions[1].expected == 1
    await peers.finish()


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def regions_ask_for_sessions(dut) -> None:
    """Regions for sessions, sealed ones, or one alone; the report goes back in the session."""
    bench = Bench(dut)
    await bench.start()
    peers = Peers(bench)
    await peers.open(2)
    await bench.write_session(1, peers.entry(9, sealed=True))
    opened = bench.me.regions[KEY]
    asked = ({}, {"session": True}, {"sealed": True}, {"only": 0}, {"only": 1}, {"only": 0x80})
    for key, fields in enumerate(asked, KEY + 1):
        region = Region(**{**vars(opened), **fields, "notify": True})
        await bench.write_region(key, region)
        plain = compact(key, 0, 0, b"none", 0xABC, 0)
        peers.send(build(plain, Addresses(bench.me.mac, bench.me.ip)))
        for index in (0, 1):
            session = bench.me.sessions[index]
            peers.send(peers.store(index, session.expected, key=key))
            peers.send(peers.void(index, session.expected))
            # Sealed although the session is not, or the other way round.
            session.sealed ^= True
            frame = peers.store(index, session.expected, key=key)
            session.sealed ^= True
            peers.send(frame)
        await settle(bench)
    assert peers.expected.counts["rx_bad_rights"] == 3
    assert peers.expected.counts["rx_bad_source"] == 2 + 2 + 3
    assert peers.expected.counts["rx_bad_session"] == 2 * len(asked)
    # Reports and acknowledgements of the peer.
    for _ in range(20):
        index = bench.rand.randrange(2)
        number, address = bench.rand.randrange(1 << 32), bench.rand.randrange(1 << 64)
        head = error_body(3, MWR, number, 1, address)
        payload = tlp_payload(head, b"", 0, 0x10, 0, 0, 0, peers.port(index))
        peers.send(peers.frame(index, payload))
        code = bench.rand.choice([ACK, NACK])
        peers.send(
            peers.frame(
                index, control_frame(code, number, peers.port(index), interval=number & 0xFFFF)
            )
        )
        await settle(bench)
    await peers.finish()
    assert len(bench.refused) == 20


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def every_bit_tells_sessions_apart(dut) -> None:
    """A frame with one bit of its port or address turned over is not of the session."""
    bench = Bench(dut)
    await bench.start()
    peers = Peers(bench)
    # The numbers that one bit of session 0's leads to do not exist, or belong to other peers.
    await peers.open(bench.me.session_count)
    me = bench.me
    for epoch in (0, 63, bench.rand.randrange(64)):
        await bench.write_session(0, peers.entry(epoch))
        session = me.sessions[0]
        port = peers.port(0)
        wrong = [(port ^ 1 << bit, session.ip) for bit in range(14)]
        wrong += [(port, session.ip ^ 1 << bit) for bit in range(32)]
        for src_port, src_ip in wrong:
            payload = compact(KEY, 0, 0, b"none", 0xABC, session.expected, None, src_port)
            to = Addresses(me.mac, me.ip, src_ip=src_ip, src_port=src_port)
            to.src_mac = source_mac(bench.rand)
            before = peers.expected.counts["rx_bad_session"]
            peers.send(build(payload, to))
            assert peers.expected.counts["rx_bad_session"] == before + 1
        peers.send(peers.store(0, session.expected))
        await peers.finish()
        bench.controls.clear()
    assert peers.expected.counts["rx_store"] == 3


@pytest.mark.parametrize("gmii", [0, 1])
def test_ipnuma_rx_sessions(gmii: int) -> None:
    """Run all tests above behind both MACs."""
    build_and_run(
        "tb_ipnuma_rx",
        __name__,
        filelists=["rtl/eth/eth.f", "rtl/ipnuma/ipnuma_rx.f"],
        sources=[*RULES, "verif/ipnuma_rx/tb_ipnuma_rx.sv"],
        parameters={"Gmii": gmii},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
