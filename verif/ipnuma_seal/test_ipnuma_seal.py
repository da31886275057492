# SPDX-License-Identifier: Apache-2.0
"""Bench of seal and unseal: every byte and cycle, forged, replayed and cut frames, line rate."""

from __future__ import annotations

import random
import zlib
from collections import deque
from dataclasses import dataclass, field, replace

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from harness import build_and_run
from seal_ref import HEAD, Key, Receiver, frame, seal

SESSIONS = 16
SEAL_CYCLES = 9
UNSEAL_CYCLES = 10
MAC = bytes.fromhex("020000000001")
PEER = bytes.fromhex("0200000000fe")
IP = bytes((10, 0, 0, 1))
PEER_IP = bytes((10, 0, 0, 2))
NUMBERS = 2**48


def with_fcs(data: bytes) -> bytes:
    """Pad and append the FCS."""
    data = data.ljust(60, b"\0")
    return data + zlib.crc32(data).to_bytes(4, "little")


def session_port(index: int, epoch: int = 0) -> int:
    """Return the source port of a session."""
    return 0xC000 | epoch << 8 | index


def inner(size: int, port: int, to: bytes = MAC, to_ip: bytes = IP) -> bytes:
    """Return a frame as the builder makes it, with so many bytes of payload."""
    # No payload of the builder begins with the seal's magic.
    return frame(to, PEER, PEER_IP, to_ip, port, b"\xc0" + random.randbytes(size)[1:])


def words(data: bytes) -> list[tuple[int, int, bool]]:
    """Cut into (tdata, tkeep, tlast)."""
    cut = [data[i : i + 8] for i in range(0, len(data), 8)]
    return [
        (int.from_bytes(w, "little"), (1 << len(w)) - 1, i == len(cut) - 1)
        for i, w in enumerate(cut)
    ]


@dataclass
class Job:
    """A frame of the builder."""

    data: bytes
    sealed: bool
    session: int
    gap: int = 0  # cycles before it is offered
    asked: int = 0  # cycle in which it was taken


@dataclass
class Sent:
    """A frame to the transmitter."""

    start: int  # cycle of the start
    first: int  # cycle of the first beat
    data: bytes = b""
    last: int = 0


@dataclass
class Out:
    """A frame to the parser."""

    data: bytes = b""
    cycles: list[int] = field(default_factory=list)
    user: int = 0


class Bench:
    """Drives and records everything, a cycle at a time."""

    def __init__(self, dut, gmii: bool) -> None:
        self.dut = dut
        self.gmii = gmii
        self.cycle = 0
        self.jobs: deque[Job] = deque()
        self.active: deque[tuple[int, int, bool]] = deque()
        self.sent: list[Sent] = []
        self.sending: Sent | None = None
        # Cycles of the receive stream: a word or nothing.
        self.receive: deque[tuple[int, int, bool, bool] | None] = deque()
        self.in_ends: list[int] = []
        self.in_words: list[list[int]] = [[]]
        self.out: list[Out] = []
        self.current: Out | None = None
        self.bad_seals: list[int] = []
        self.no_key = 0
        self.held = 0  # cycles for which the transmitter is taken
        self.hold_rate = 0.0
        self.taken: list[Job] = []

    async def start(self) -> None:
        """Reset; both directions know all sessions as valid and sealed, but no keys."""
        dut = self.dut
        for name in (
            "key_tx_write_i key_rx_write_i key_index_i key_i salt_i key_phase_i "
            "fb_start_i fb_sealed_i fb_session_i fb_port_i hold_i fb_tdata_i fb_tkeep_i "
            "fb_tvalid_i fb_tlast_i loop_i rx_tdata_i rx_tkeep_i rx_tvalid_i rx_tlast_i rx_tuser_i"
        ).split():
            dut[name].value = 0
        dut.enable_i.value = 1
        dut.mac_i.value = int.from_bytes(MAC, "big")
        dut.ip_i.value = int.from_bytes(IP, "big")
        dut.session_valid_i.value = (1 << SESSIONS) - 1
        dut.session_sealed_i.value = (1 << SESSIONS) - 1
        dut.rst_i.value = 1
        Clock(dut.clk_i, 8000 if self.gmii else 6400, "ps").start()
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        await self.run(3)

    async def step(self) -> None:
        """Drive and record one cycle."""
        dut = self.dut
        await RisingEdge(dut.clk_i)
        self.cycle += 1
        job = self.jobs[0] if self.jobs and not self.active else None
        if job and job.gap:
            job.gap -= 1
            job = None
        dut.fb_start_i.value = int(job is not None)
        # Held for the frame, as the builder does.
        if job:
            dut.fb_sealed_i.value = int(job.sealed)
            dut.fb_session_i.value = job.session
            dut.fb_port_i.value = int.from_bytes(job.data[34:36], "big")
        # A frame of somebody else begins only between frames, and takes a while.
        if self.held:
            self.held -= 1
        elif self.hold_rate and self.sending is None and random.random() < self.hold_rate:
            self.held = random.choice((1, 2, 3, 5, 12, 40, 200))
        dut.hold_i.value = int(self.held > 0)
        dut.fb_tvalid_i.value = int(bool(self.active))
        if self.active:
            dut.fb_tdata_i.value, dut.fb_tkeep_i.value, last = self.active[0]
            dut.fb_tlast_i.value = int(last)
        word = self.receive.popleft() if self.receive else None
        dut.rx_tvalid_i.value = int(word is not None)
        if word:
            dut.rx_tdata_i.value = word[0]
            dut.rx_tkeep_i.value = word[1]
            dut.rx_tlast_i.value = int(word[2])
            dut.rx_tuser_i.value = int(word[3])
        await ReadOnly()

        starts = bool(dut.tx_start_o.value) and bool(dut.tx_ready_start_o.value)
        if dut.tx_tvalid_o.value:
            assert self.sending is not None, "a beat without a start"
            if dut.tx_tready_o.value:
                if not self.sending.data:
                    self.sending.first = self.cycle
                keep = int(dut.tx_tkeep_o.value)
                data = int(dut.tx_tdata_o.value).to_bytes(8, "little")[: keep.bit_count()]
                self.sending.data += data
                if dut.tx_tlast_o.value:
                    self.sending.last = self.cycle
                    self.sent.append(self.sending)
                    self.sending = None
        if starts:
            assert self.sending is None
            self.sending = Sent(self.cycle, 0)
        assert not dut.tx_underrun_o.value
        self.no_key += int(dut.cnt_no_key_o.value)

        if job and dut.fb_ready_start_o.value:
            job.asked = self.cycle
            self.taken.append(self.jobs.popleft())
            self.active = deque(words(job.data))
        elif self.active and dut.fb_tready_o.value:
            self.active.popleft()

        if dut.in_tvalid_o.value:
            self.in_words[-1].append(self.cycle)
            if dut.in_tlast_o.value:
                self.in_ends.append(self.cycle)
                self.in_words.append([])
        if dut.out_tvalid_o.value:
            if self.current is None:
                self.current = Out()
            keep = int(dut.out_tkeep_o.value)
            self.current.data += int(dut.out_tdata_o.value).to_bytes(8, "little")[
                : keep.bit_count()
            ]
            self.current.cycles.append(self.cycle)
            if dut.out_tlast_o.value:
                self.current.user = int(dut.out_tuser_o.value)
                self.out.append(self.current)
                self.current = None
        if dut.cnt_bad_seal_o.value:
            self.bad_seals.append(self.cycle)

    async def run(self, cycles: int) -> None:
        """Let some cycles pass."""
        for _ in range(cycles):
            await self.step()

    async def drain(self) -> None:
        """Run until nothing is left."""
        dut = self.dut
        quiet = 0
        for _ in range(200_000):
            await self.step()
            busy = (
                self.jobs
                or self.active
                or self.receive
                or dut.seal_busy_o.value
                or dut.unseal_busy_o.value
                or dut.mac_busy_o.value
            )
            quiet = 0 if busy else quiet + 1
            if quiet > 4:
                await Timer(100, "ps")  # leaves the read-only phase
                return
        raise AssertionError("it does not come to rest")

    async def key(self, index: int, key: Key, tx: bool = True, rx: bool = True) -> None:
        """Write a key, alone or as the first one of its session."""
        assert not (tx and rx and key.phase)
        dut = self.dut
        await Timer(100, "ps")
        dut.key_tx_write_i.value = int(tx)
        dut.key_rx_write_i.value = int(rx)
        dut.key_index_i.value = index
        dut.key_i.value = int.from_bytes(key.key, "big")
        dut.salt_i.value = int.from_bytes(key.salt, "big")
        dut.key_phase_i.value = key.phase
        await self.step()
        await Timer(100, "ps")
        dut.key_tx_write_i.value = 0
        dut.key_rx_write_i.value = 0

    async def keys(self) -> dict[int, Key]:
        """Write a key for every session, and wait until they can be used."""
        made = {i: Key(random.randbytes(16), random.randbytes(4)) for i in range(SESSIONS)}
        for index, key in made.items():
            await self.key(index, key)
        await self.drain()
        return made

    def inject(self, data: bytes, bad: bool = False, gap: int | None = None) -> None:
        """Put a frame, FCS included, into the receive stream, as the receivers have it."""
        cut = words(data)
        if self.gmii:
            for tdata, tkeep, last in cut:
                # A full word is there when its 8th byte is; the last when the frame ends.
                self.receive.extend([None] * (7 if tkeep == 0xFF else tkeep.bit_count() - 1))
                self.receive.append((tdata, tkeep, last, bad and last))
            self.receive.extend([None] * (20 if gap is None else gap))
        else:
            for tdata, tkeep, last in cut:
                self.receive.append((tdata, tkeep, last, bad and last))
            self.receive.extend([None] * (random.choice((2, 2, 3, 3, 9)) if gap is None else gap))


def receiver(keys: dict[int, Key]) -> Receiver:
    """Return what the bench's unseal knows."""
    every = set(range(SESSIONS))
    own = {i: replace(k, number=0) for i, k in keys.items()}
    return Receiver(MAC, IP, SESSIONS, own, set(every), set(every))


def gmii_of(dut) -> bool:
    """Say whether this build has the 1G MACs."""
    return bool(dut.Gmii.value)


def judge(bench: Bench, state: Receiver, injected: list[tuple[bytes, bool]]) -> dict[str, int]:
    """Compare what came out with what the reference makes of the frames that went in."""
    found = iter(bench.out)
    counts = {"opened": 0, "refused": 0, "plain": 0, "bad": 0}
    for data, bad in injected:
        if len(data) <= 48:
            continue  # runts of less than 7 words are dropped
        out = next(found)
        sealed = state.is_sealed(data)
        if bad:
            assert out.user == 1
            counts["bad"] += 1
        elif not sealed:
            assert out.data == data and out.user == 0
            counts["plain"] += 1
        else:
            opened = state.open(data)
            assert len(out.data) == len(data) - 8
            if opened is None:
                assert out.user == 1, "a forged frame was opened"
                counts["refused"] += 1
            else:
                assert out.user == 2, "a good frame was not opened"
                assert out.data[: len(opened)] == opened
                counts["opened"] += 1
    assert next(found, None) is None
    assert len(bench.bad_seals) == counts["refused"]
    return counts


def check_unseal_time(bench: Bench) -> None:
    """Every last word, and the words before it from W6 on, take the same time."""
    frames = [w for w in bench.in_words if len(w) >= 7]
    assert len(frames) == len(bench.out)
    for came, out in zip(frames, bench.out, strict=True):
        assert out.cycles[-1] - came[-1] == UNSEAL_CYCLES
        body = min(len(came), len(out.cycles)) - 6
        for i in range(1, body + 1):
            assert out.cycles[-i] - came[-i] == UNSEAL_CYCLES


# ---- seal ---------------------------------------------------------------------------------------
@cocotb.test()
async def seal_every_length(dut) -> None:
    """Each length alone: bytes, time from start to start, number of beats."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    keys = await bench.keys()
    sizes = [*range(10, 300, 2), 1400]
    for size in sizes:
        session = random.randrange(SESSIONS)
        job = Job(inner(size, session_port(session, random.randrange(64))), True, session)
        bench.jobs.append(job)
        await bench.drain()
        keys[session].number += 1
        sent = bench.sent[-1]
        assert sent.data == seal(job.data, keys[session], keys[session].number), size
        assert sent.start - job.asked == SEAL_CYCLES, size
        if not bench.gmii:
            assert sent.last - sent.start == (len(sent.data) + 7) // 8
    assert len(bench.sent) == len(sizes)


@cocotb.test()
async def seal_random(dut) -> None:
    """Sealed and other frames in any order and density: order, bytes, numbers."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    keys = await bench.keys()
    expected = []
    for block in range(6 if bench.gmii else 24):
        dense = block % 3
        bench.hold_rate = 0.05 if block % 4 == 3 else 0.0
        for _ in range(25):
            session = random.randrange(SESSIONS if block % 2 else 2)
            size = random.choice((10, 14, 16, 18, 22, 34, 2 * random.randrange(5, 143)))
            sealed = random.random() < (0.5, 0.95, 0.8)[dense]
            gap = 0 if dense == 1 else random.choice((0, 0, 1, 2, 3, 5, 8, 13, 30))
            job = Job(inner(size, session_port(session)), sealed, session, gap)
            bench.jobs.append(job)
            if sealed:
                keys[session].number += 1
                expected.append(seal(job.data, keys[session], keys[session].number))
            else:
                expected.append(job.data)
        await bench.drain()
    assert [s.data for s in bench.sent] == expected
    for job, sent in zip(bench.taken, bench.sent, strict=True):
        # Unsealed frames are wires.
        assert sent.start - job.asked == 0 if not job.sealed else sent.start - job.asked >= 9


@cocotb.test()
async def seal_line_rate(dut) -> None:
    """Frames one behind the other leave without a gap more than the transmitter makes."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    await bench.keys()
    for size in (10, 14, 16, 18, 22, 26, 32, 34, 42, 48, 50, 266, 284):
        first = len(bench.sent)
        for _ in range(8 if bench.gmii else 30):
            bench.jobs.append(Job(inner(size, session_port(3)), True, 3))
        await bench.drain()
        sent = bench.sent[first:]
        # Bytes on the line: preamble, frame, FCS, gap.
        line = 8 + len(sent[0].data) + 4 + 12
        cycles = sent[-1].start - sent[1].start
        bytes_a_cycle = 1 if bench.gmii else 8
        assert cycles * bytes_a_cycle <= (len(sent) - 2) * line + 2 * bytes_a_cycle, size


@cocotb.test()
async def seal_without_key(dut) -> None:
    """Frames of sessions without key are dropped and counted; numbers begin anew with a key."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    known = Key(random.randbytes(16), random.randbytes(4))
    await bench.key(5, known)
    expected = []
    for turn in range(60):
        session = random.choice((4, 5, 6))
        job = Job(inner(2 * random.randrange(5, 40), session_port(session)), True, session)
        bench.jobs.append(job)
        if turn == 0:
            await bench.drain()
        if session == 5:
            known.number += 1
            expected.append(seal(job.data, known, known.number))
    await bench.drain()
    assert [s.data for s in bench.sent] == expected
    assert bench.no_key == 60 - len(expected) > 0

    # A new key under traffic: each frame has the old key with the next number, or the new one with
    # numbers from 1; in between it may be dropped.
    first = len(bench.sent)
    fresh = Key(random.randbytes(16), random.randbytes(4))
    jobs = [Job(inner(20, session_port(5)), True, 5) for _ in range(40)]
    bench.jobs.extend(jobs)
    await bench.run(150)
    await bench.key(5, fresh, rx=False)
    await bench.drain()
    dropped = bench.no_key - (60 - len(expected))
    sent = bench.sent[first:]
    assert len(sent) + dropped == len(jobs)
    seen_new = 0
    left = iter(jobs)
    for got in sent:
        number = int.from_bytes(got.data[44:50], "big")
        for job in left:
            if got.data == seal(job.data, known, known.number + 1) and not seen_new:
                known.number += 1
                break
            if got.data == seal(job.data, fresh, number):
                assert number == fresh.number + 1
                fresh.number = number
                seen_new += 1
                break
        else:
            raise AssertionError("a frame that nobody gave, or a number out of turn")
    assert seen_new


@cocotb.test()
async def seal_rekeyed(dut) -> None:
    """Each frame has the key that was there when it was accepted; no number is left out or lost."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    used = {i: [k] for i, k in (await bench.keys()).items()}
    jobs = []
    for _ in range(120 if bench.gmii else 600):
        session = random.randrange(3)
        size = random.choice((10, 14, 2 * random.randrange(5, 80)))
        sealed = random.random() < 0.9
        gap = random.choice((0, 0, 0, 1, 20))
        jobs.append(Job(inner(size, session_port(session)), sealed, session, gap))
    bench.jobs.extend(jobs)
    while bench.jobs:
        await bench.run(random.randrange(1, 200))
        session = random.randrange(3)
        key = fresh(1 - used[session][-1].phase)
        used[session].append(key)
        await bench.key(session, key, rx=False)
    await bench.drain()
    assert bench.no_key == 0 and len(bench.sent) == len(jobs)
    at = dict.fromkeys(used, 0)
    changes = 0
    for job, sent in zip(jobs, bench.sent, strict=True):
        if not job.sealed:
            assert sent.data == job.data
            continue
        number = int.from_bytes(sent.data[44:50], "big")
        keys = used[job.session]
        before = at[job.session]
        # Keys may follow one another without a frame in between.
        while sent.data != seal(job.data, keys[at[job.session]], number):
            at[job.session] += 1
            assert at[job.session] < len(keys), "sealed with no key that it could have"
        keys[at[job.session]].number += 1
        assert number == keys[at[job.session]].number
        changes += at[job.session] != before
    assert changes > 5


def fresh(phase: int) -> Key:
    """Return a new key."""
    return Key(random.randbytes(16), random.randbytes(4), phase=phase)


# ---- unseal -------------------------------------------------------------------------------------
@cocotb.test()
async def open_every_length(dut) -> None:
    """Each length, also odd ones: bytes and time."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    keys = await bench.keys()
    state = receiver(keys)
    injected = []
    for size in (*range(10, 130), *range(260, 290), 1400):
        session = random.randrange(SESSIONS)
        keys[session].number += random.choice((1, 1, 1, 2, 70_000))
        plain = inner(size, session_port(session, random.randrange(64)))
        data = with_fcs(seal(plain, keys[session], keys[session].number))
        injected.append((data, False))
        bench.inject(data)
    await bench.drain()
    counts = judge(bench, state, injected)
    assert counts["opened"] == len(injected)
    check_unseal_time(bench)


def spoil(data: bytes) -> bytes:
    """Alter one bit in front of the FCS, and make the FCS right again."""
    bit = random.randrange(8 * (len(data) - 4))
    altered = bytearray(data[:-4])
    altered[bit // 8] ^= 1 << bit % 8
    return with_fcs(bytes(altered))


def refit(data: bytes) -> bytes:
    """Make IP length and checksum right again after the UDP length changed."""
    payload = data[HEAD:]
    port = int.from_bytes(data[34:36], "big")
    return frame(data[0:6], data[6:12], data[26:30], data[30:34], port, payload)


@cocotb.test()
async def open_random(dut) -> None:
    """Good, altered, replayed, cut, foreign and unsealed frames in any order, without pause."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    keys = await bench.keys()
    state = receiver(keys)
    state.valid -= {14}
    state.sealed -= {15}
    dut.session_valid_i.value = sum(1 << i for i in state.valid)
    dut.session_sealed_i.value = sum(1 << i for i in state.sealed)
    injected: list[tuple[bytes, bool]] = []
    history: list[bytes] = []
    kinds: dict[str, int] = {}
    for _ in range(400 if bench.gmii else 2500):
        session = random.randrange(SESSIONS)
        size = random.choice((10, 12, 14, 16, 18, 26, 2 * random.randrange(5, 60)))
        kind = random.choice(
            "good good good good altered altered altered replay fcs cut plain port number tiny "
            "foreign runt longer magic resealed".split()
        )
        kinds[kind] = kinds.get(kind, 0) + 1
        keys[session].number += 1
        plain = inner(size, session_port(session, random.randrange(64)))
        sealed = seal(plain, keys[session], keys[session].number)
        data, bad = with_fcs(sealed), False
        if kind == "good":
            history.append(data)
        elif kind == "altered":
            data = spoil(data)
        elif kind == "replay" and history:
            data = random.choice(history[-20:])
        elif kind == "fcs":
            bad = True
        elif kind == "cut":
            data = with_fcs(sealed[: random.randrange(60, len(sealed))])
        elif kind == "plain":
            data = with_fcs(plain)
        elif kind == "port":
            port = random.choice((3422, session_port(200), session_port(session) & 0xBFFF))
            plain = inner(size, port)
            data = with_fcs(seal(plain, keys[session], keys[session].number))
        elif kind == "number":
            keys[session].number -= random.choice((0, 1, 1, 2))
            data = with_fcs(seal(plain, keys[session], max(keys[session].number, 0)))
        elif kind == "tiny":
            data = with_fcs(refit(sealed[: HEAD + random.randrange(9, 40)]))
        elif kind == "foreign":
            to, to_ip = random.choice(((PEER, IP), (MAC, PEER_IP), (b"\xff" * 6, IP)))
            plain = inner(size, session_port(session), to, to_ip)
            data = with_fcs(seal(plain, keys[session], keys[session].number))
        elif kind == "runt":
            data, bad = data[: random.randrange(1, 64)], True
        elif kind == "longer":
            data = with_fcs(sealed + random.randbytes(random.randrange(1, 40)))
        elif kind == "magic":
            data = with_fcs(sealed[:42] + bytes((0xA0, random.randrange(1, 256))) + sealed[44:])
        elif kind == "resealed":
            # Forged with a key of another session.
            data = with_fcs(seal(plain, keys[(session + 1) % SESSIONS], keys[session].number))
        injected.append((data, bad))
        bench.inject(data, bad)
    await bench.drain()
    counts = judge(bench, state, injected)
    check_unseal_time(bench)
    dut._log.info(f"{counts} of {kinds}")
    assert min(counts.values()) > 5


@cocotb.test()
async def every_bit_counts(dut) -> None:
    """No bit of a sealed frame may be altered: shortest and some longer frame."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    keys = await bench.keys()
    state = receiver(keys)
    injected = []
    key = keys[7]
    for size in (10, 18):
        key.number += 1
        data = with_fcs(seal(inner(size, session_port(7)), key, key.number))
        for bit in range(34 * 8, 8 * (len(data) - 4), 3 if bench.gmii else 1):
            altered = bytearray(data[:-4])
            altered[bit // 8] ^= 1 << bit % 8
            injected.append((with_fcs(bytes(altered)), False))
            bench.inject(injected[-1][0])
        # Then the true one opens, once.
        for _ in range(2):
            injected.append((data, False))
            bench.inject(data)
    await bench.drain()
    counts = judge(bench, state, injected)
    # Altered bits of UDP length, UDP port or magic make it no sealed frame at all.
    assert counts["opened"] == 2 and counts["plain"] <= 2 * (32 + 8) and counts["refused"] > 100


@cocotb.test()
async def open_keys(dut) -> None:
    """Numbers begin anew with a key; frames of the old key do not open any more."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    old = Key(random.randbytes(16), random.randbytes(4))
    data = [with_fcs(seal(inner(30, session_port(2)), old, n)) for n in (1, 2, 3, 2**48 - 1)]
    state = receiver({})
    injected = [(data[0], False)]
    bench.inject(data[0])
    await bench.drain()
    judge(bench, state, injected)  # no key: refused
    await bench.key(2, old)
    await bench.drain()
    state.keys[2] = replace(old, number=0)
    bench.out.clear()
    bench.bad_seals.clear()
    for d in data:
        bench.inject(d)
    await bench.drain()
    assert judge(bench, state, [(d, False) for d in data])["opened"] == 4
    fresh = Key(random.randbytes(16), random.randbytes(4))
    await bench.key(2, fresh)
    await bench.drain()
    state.keys[2] = replace(fresh, number=0)
    bench.out.clear()
    bench.bad_seals.clear()
    mixed = [data[2], with_fcs(seal(inner(12, session_port(2)), fresh, 1)), data[3]]
    for d in mixed:
        bench.inject(d)
    await bench.drain()
    counts = judge(bench, state, [(d, False) for d in mixed])
    assert counts["opened"] == 1 and counts["refused"] == 2

    # Keys written at any time under traffic: nothing wrong opens, other sessions are not disturbed.
    other = Key(random.randbytes(16), random.randbytes(4))
    await bench.key(9, other)
    await bench.drain()
    bench.out.clear()
    bench.bad_seals.clear()
    sent = []
    for n in range(1, 80):
        sent.append(with_fcs(seal(inner(2 * random.randrange(5, 30), session_port(9)), other, n)))
        bench.inject(sent[-1])
    while bench.receive:
        dut.key_rx_write_i.value = int(random.random() < 0.05)
        dut.key_index_i.value = random.choice((1, 2, 3))
        dut.key_i.value = random.getrandbits(128)
        await bench.step()
        await Timer(100, "ps")  # leaves the read-only phase
    dut.key_rx_write_i.value = 0
    await bench.drain()
    opened = sum(out.user == 2 for out in bench.out)
    assert opened == len(sent) and not bench.bad_seals


@cocotb.test()
async def open_phases(dut) -> None:
    """Both keys of a session open frames, each with numbers of its own, until it is replaced."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    # By session the two keys that open, and others that do not, or not any more.
    have = {i: [k, fresh(1)] for i, k in (await bench.keys()).items()}
    state = receiver({i: k for i, (k, _) in have.items()})
    gone = [fresh(0), fresh(1)]
    injected: list[tuple[bytes, bool]] = []
    history: list[bytes] = []
    counts = dict.fromkeys(("opened", "refused"), 0)
    for turn in range(25 if bench.gmii else 120):
        session = random.randrange(3)
        phase = random.randrange(2)
        if turn % 10 == 9:
            # The session begins anew, perhaps while the hash key of its other key is made.
            key = fresh(0)
            await bench.key(session, fresh(1), tx=False)
            await bench.run(random.randrange(25))
            await bench.key(session, key)
            gone.extend(have[session])
            have[session] = [key, fresh(1)]
            state.keys[session] = replace(key)
            state.odd_keys.pop(session, None)
        else:
            key = fresh(phase)
            await bench.key(session, key, tx=False)
            gone.append(have[session][phase])
            have[session][phase] = key
            (state.odd_keys if phase else state.keys)[session] = replace(key)
        await bench.drain()
        for _ in range(12):
            session = random.randrange(3)
            key = random.choice((*have[session], *have[session], random.choice(gone)))
            key.number += random.choice((1, 1, 5))
            plain = inner(2 * random.randrange(5, 40), session_port(session))
            data = with_fcs(seal(plain, key, key.number))
            if random.random() < 0.2 and history:
                data = random.choice(history[-30:])
            if random.random() < 0.1:
                # The other phase is authenticated, too.
                data = with_fcs(data[:43] + bytes((data[43] ^ 1,)) + data[44:-4])
            history.append(data)
            injected.append((data, False))
            bench.inject(data)
        await bench.drain()
        for kind, count in judge(bench, state, injected).items():
            if kind in counts:
                counts[kind] += count
        injected.clear()
        bench.out.clear()
        bench.bad_seals.clear()
    dut._log.info(f"{counts}")
    assert min(counts.values()) > 50


@cocotb.test()
async def switch_on_and_off(dut) -> None:
    """Off: wires. It changes between frames only, and no frame is lost."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    keys = await bench.keys()
    sent = []
    for _ in range(60):
        session = random.randrange(SESSIONS)
        keys[session].number += 1
        plain = inner(2 * random.randrange(5, 60), session_port(session))
        sent.append(with_fcs(seal(plain, keys[session], keys[session].number)))
        bench.inject(sent[-1], gap=random.choice((3, 30)))
    enable = 1
    while bench.receive:
        if random.random() < 0.02:
            enable = 1 - enable
            dut.enable_i.value = enable
        await bench.step()
        await Timer(100, "ps")  # leaves the read-only phase
    await bench.drain()
    assert len(bench.out) == len(sent)
    for data, out in zip(sent, bench.out, strict=True):
        if out.user == 0:
            assert out.data == data
        else:
            assert out.user == 2 and len(out.data) == len(data) - 8
    assert {out.user for out in bench.out} == {0, 2} and not bench.bad_seals


# ---- both ---------------------------------------------------------------------------------------
@cocotb.test()
async def there_and_back(dut) -> None:
    """What seal and the transmitter send opens, at line rate, in order."""
    bench = Bench(dut, gmii_of(dut))
    await bench.start()
    keys = await bench.keys()
    dut.loop_i.value = 1
    jobs = []
    for _ in range(60 if bench.gmii else 300):
        session = random.randrange(SESSIONS)
        sealed = random.random() < 0.8
        size = random.choice((10, 14, 18, 2 * random.randrange(5, 143)))
        jobs.append(Job(inner(size, session_port(session)), sealed, session))
        bench.jobs.append(jobs[-1])
    await bench.drain()
    assert len(bench.out) == len(jobs) and not bench.bad_seals
    for job, out in zip(jobs, bench.out, strict=True):
        assert out.user == (2 if job.sealed else 0)
        assert out.data[: len(job.data)] == job.data
    check_unseal_time(bench)
    del keys


@pytest.mark.parametrize("gmii", [0, 1], ids=["10g", "1g"])
def test_ipnuma_seal(gmii: int) -> None:
    """Run the bench."""
    build_and_run(
        "tb_ipnuma_seal",
        __name__,
        filelists=["rtl/eth/eth.f", "rtl/ipnuma/ipnuma_seal.f"],
        sources=["verif/ipnuma_seal/tb_ipnuma_seal.sv"],
        parameters={"Gmii": gmii, "Sessions": SESSIONS},
        build_args=["-Wno-UNUSEDPARAM"],
    )
