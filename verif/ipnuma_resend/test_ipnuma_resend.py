# SPDX-License-Identifier: Apache-2.0
"""Bench of the sender of sessions: `resend` between a builder, a lossy network and its peers."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from harness import build_and_run
from resend_ref import (
    ACK,
    EVENT,
    FLUSH_FAILED,
    FLUSHED,
    FRAME,
    MASK32,
    MRD,
    MWR,
    PEER_LOST,
    REFUSED,
    STATUS,
    Operation,
    Peer,
    faster,
    fitting,
    pack,
    slower,
    unpack,
)

TICK = 16
INPUTS = (
    "reset_i reset_index_i valid_i start_i start_session_i copy_frame_we_i copy_frame_i copy_we_i "
    "copy_idx_i copy_word_i rs_lock_i pay_idx_i rs_pop_i ack_valid_i ack_i refused_valid_i "
    "refused_i mark_valid_i mark_session_i mark_cookie_i event_ready_i status_read_i "
    "status_index_i"
).split()
REGISTERS = {
    "resend_ticks": 200,
    "resend_limit": 10,
    "backoff": 6,
    "stretch": 0,
    "window": 120,
    "pace_frames": 32,
    "pace_up": 3,
    "pace_max": 511,
    "pace_down": 6,
    "pace_ticks": 256,
}


class Bench:
    """Builder, network, peers and host around the design. A cycle is from falling edge to falling
    edge: outputs are read and inputs written in its middle.
    """

    def __init__(self, dut) -> None:
        """Take the run's seed, which the harness prints."""
        self.dut = dut
        self.rand = random.Random(random.getrandbits(64))
        self.sessions = int(dut.Sessions.value)
        self.slots = int(dut.SendSlots.value)
        self.now = 0
        self.registers = dict(REGISTERS)
        self.inputs: dict[str, int] = {}
        # The network.
        self.loss = self.ack_loss = self.twice = self.reorder = 0.0
        self.delay = (20, 60)
        self.black_out: set[int] = set()
        self.wire: list[tuple[int, str, object]] = []  # (when, kind, what)
        self.replies: deque = deque()
        self.reply_gap = 0
        # The sessions.
        self.valid = 0
        self.generation = [0] * self.sessions
        self.peers = [Peer() for _ in range(self.sessions)]
        self.operations: list[list[Operation]] = [[] for _ in range(self.sessions)]
        self.numbers: list[dict[int, Operation]] = [{} for _ in range(self.sessions)]
        self.first: list[int] = [0] * self.sessions  # number of the generation's first frame
        self.refuse: dict[tuple[int, int], int] = {}  # (session, wire address): error code
        self.ack_age = [0] * self.sessions
        self.ack_cycles = 80
        self.short_acks = 0.3
        # Host and builder.
        self.queue: deque = deque()  # operations and marks, in order
        self.any_order = False
        self.current: dict | None = None
        self.gap = 0
        self.gaps = (1, 3)
        self.resent = 0
        self.sent: list[tuple[int, int, int, str]] = []  # (start, session, sequence, kind)
        self.starts: dict[int, list[int]] = defaultdict(list)
        self.events: list[dict[str, int]] = []
        self.event_rate = 1.0
        self.timeouts = 0
        self.hold: set[str] = set()  # "new", "resent", "acks"
        self.marks: dict[int, tuple[int, int, int]] = {}  # cookie: session, generation, operations
        self.status: dict[str, int] | None = None
        self.lost: set[int] = set()

    def put(self, name: str, value: int) -> None:
        """Drive an input, if it changes."""
        if self.inputs.get(name) != value:
            self.inputs[name] = value
            getattr(self.dut, name).value = value

    def set(self, **registers: int) -> None:
        """Write registers."""
        self.registers |= registers
        for name, value in self.registers.items():
            self.put(f"{name}_i", value)

    async def start(self, **registers: int) -> None:
        """Start the clock, reset the design."""
        for name in INPUTS:
            self.put(name, 0)
        self.set(**registers)
        self.dut.rst_i.value = 1
        self.dut.clk_i.value = 0
        cocotb.start_soon(Clock(self.dut.clk_i, 6400, "ps").start(start_high=False))
        for _ in range(4):
            await FallingEdge(self.dut.clk_i)
        self.dut.rst_i.value = 0

    async def open(self, session: int, valid: bool = True) -> None:
        """Write a session's entry: both ends begin at 0."""
        self.put("reset_i", 1)
        self.put("reset_index_i", session)
        self.generation[session] += 1
        for cookie, (who, generation, count) in self.marks.items():
            # What waits has an answer already, or none but that it failed.
            if who == session and generation == self.generation[session] - 1:
                done = self.peers[session].expected - self.first[session] & MASK32
                self.marks[cookie] = (who, -1, 0 if done >= count else 1 << 31)
        self.peers[session] = Peer()
        self.operations[session] = []
        self.numbers[session] = {}
        self.first[session] = 0
        self.ack_age[session] = 0
        self.lost.discard(session)
        # The table changes with the pulse, at the edge.
        self.next_valid = self.valid & ~(1 << session) | int(valid) << session
        await self.cycle()
        self.put("reset_i", 0)
        self.valid = self.next_valid
        self.put("valid_i", self.valid)

    # ---- What the host does ----
    def operation(self, session: int, **fixed) -> Operation:
        """Make a random operation."""
        rand = self.rand
        number = len(self.operations[session])
        is_load = rand.random() < 0.15
        compact = not is_load and rand.random() < 0.6
        words = rand.choice((1, 1, 2, 2, 3, 8, 64)) if not is_load else rand.randint(1, 64)
        key = rand.randrange(1 << (12 if compact else 16))
        offset = rand.randrange(1 << (28 if compact else 32)) & ~3
        values = {
            "compact": compact,
            "is_load": is_load,
            "wire_address": key << 32 | offset,
            "data_dw": 0 if is_load else words,
            "mac": rand.getrandbits(48),
            "tag": rand.getrandbits(12),
        } | fixed
        values["data"] = [rand.getrandbits(64) for _ in range((values["data_dw"] + 1) // 2)]
        operation = Operation(session=session, number=number, **values)
        self.operations[session].append(operation)
        self.queue.append((operation, self.generation[session]))
        return operation

    def mark(self, session: int, cookie: int) -> None:
        """Ask whether all of a session's operations so far are delivered."""
        self.queue.append((cookie, session))

    # ---- The builder ----
    def builder(self) -> None:
        """Choose a frame, send its words, copy new ones."""
        dut = self.dut
        for name in ("start_i", "copy_frame_we_i", "copy_we_i", "rs_pop_i", "mark_valid_i"):
            self.put(name, 0)
        if self.current is None:
            if self.gap:
                self.gap -= 1
                return
            resend = int(dut.rs_valid_o.value) and "resent" not in self.hold
            new = None if resend and self.rand.random() < 0.5 else self.next_new()
            if new is not None:
                length = max(8, 7 + len(new[0].data))
                self.current = {"new": new[0], "word": -1, "last": length - 1, "at": self.now}
                self.current["generation"] = self.generation[new[0].session]
                self.starts[new[0].session].append(self.now)
            elif resend:
                self.put("rs_lock_i", 1)
                frame = unpack(FRAME, int(dut.rs_frame_o.value))
                length = 8 if frame["control"] else max(8, 7 + (frame["data_dw"] + 1) // 2)
                self.current = {
                    "resent": frame,
                    "sequence": int(dut.rs_sequence_o.value),
                    "generation": self.generation[frame["session"]],
                    "at": self.now,
                    "word": -1,
                    "last": length - 1,
                    "words": [],
                }
                self.starts[frame["session"]].append(self.now)
            return
        current = self.current
        current["word"] += 1
        word = current["word"]
        if "new" in current:
            operation = current["new"]
            if word == 0:
                self.put("start_i", 1)
                self.put("start_session_i", operation.session)
            elif word == 1:
                current["sequence"] = int(dut.start_sequence_o.value)
                self.put("copy_frame_we_i", 1)
                self.put("copy_frame_i", pack(FRAME, operation.frame()))
            if word >= 2 and word - 2 < len(operation.data):
                self.put("copy_we_i", 1)
                self.put("copy_idx_i", word - 2)
                self.put("copy_word_i", operation.data[word - 2])
            if word == current["last"]:
                assert int(dut.start_sequence_o.value) == current["sequence"]
                self.sent_new(operation, current)
                self.current = None
        else:
            assert int(dut.rs_valid_o.value), "an offered frame went away while it was sent"
            frame = current["resent"]
            pairs = (frame["data_dw"] + 1) // 2
            if 1 <= word <= pairs:
                current["words"].append(int(dut.pay_word_o.value))
            if word < pairs:
                self.put("pay_idx_i", word)
            if word == current["last"]:
                assert unpack(FRAME, int(dut.rs_frame_o.value)) == frame
                self.put("rs_pop_i", 1)
                self.sent_again(current)
                self.current = None
                self.unlock = True
        if self.current is None:
            self.gap = self.rand.randint(*self.gaps)

    def next_new(self) -> tuple | None:
        """Take the next operation whose session lets it, or drop it if the session is lost."""
        if "new" in self.hold:
            return None
        open_set = int(self.dut.open_o.value)
        lost = int(self.dut.lost_o.value)
        for place, entry in enumerate(self.queue):
            if isinstance(entry[0], int):
                if place == 0 and int(self.dut.mark_ready_o.value):
                    self.put("mark_valid_i", 1)
                    self.put("mark_session_i", entry[1])
                    self.put("mark_cookie_i", entry[0])
                    session = entry[1]
                    known = session < self.sessions
                    generation = self.generation[session] if known else -1
                    count = len(self.numbers[session]) if known else 1 << 31
                    if self.inputs["reset_i"] and session == self.inputs["reset_index_i"]:
                        generation, count = -1, 0  # both answers are right
                    self.marks[entry[0]] = (session, generation, count)
                    self.queue.popleft()
                    return None
                break
            operation, generation = entry
            if lost >> operation.session & 1 or generation != self.generation[operation.session]:
                del self.queue[place]
                return None
            if open_set >> operation.session & 1:
                del self.queue[place]
                return entry
            if not self.any_order:
                break
        return None

    def sent_new(self, operation: Operation, current: dict) -> None:
        """Put a new frame on the wire."""
        session, sequence = operation.session, current["sequence"]
        if current["generation"] != self.generation[session]:
            return  # its peer knows the old session no more
        numbers = self.numbers[session]
        assert sequence == self.first[session] + len(numbers) & MASK32, "numbers have no gaps"
        numbers[sequence] = operation
        self.sent.append((current["at"], session, sequence, "new"))
        self.transmit(current, sequence, operation.frame(), operation.data)

    def sent_again(self, current: dict) -> None:
        """Put a resent frame on the wire; it is what was sent first, or a void."""
        frame, sequence = current["resent"], current["sequence"]
        session = frame["session"]
        if current["generation"] != self.generation[session]:
            return
        self.resent += 1
        operation = self.numbers[session][sequence]
        if frame["control"]:
            assert sequence in self.peers[session].refused, "a void for a frame nobody refused"
            assert frame["trail"] == 2 and frame["data_dw"] == 0 and frame["address"] == 0
            assert frame["tag"] == 0 and frame["sequenced"] and frame["compact"]
            assert frame["dst_mac"] == operation.mac
            self.sent.append((current["at"], session, sequence, "void"))
        else:
            want = operation.frame()
            if operation.compact:
                frame["head"] = 0  # means nothing in a compact frame, and the reverse
            else:
                frame["address"] = frame["trail"] = 0
            assert frame == want
            assert current["words"] == operation.data
            self.sent.append((current["at"], session, sequence, "again"))
        self.transmit(current, sequence, frame, current.get("words", []))

    # ---- The network and the peers ----
    def transmit(self, current: dict, sequence: int, frame: dict, words: list[int]) -> None:
        """Lose, double and delay a frame."""
        session = frame["session"]
        if session in self.black_out:
            return
        for _ in range(1 + (self.rand.random() < self.twice)):
            if self.rand.random() < self.loss:
                continue
            when = self.now + self.delay[0]
            if self.rand.random() < self.reorder:
                when = self.now + self.rand.randint(*self.delay) * 4
            what = (session, current["generation"], sequence, frame, words)
            self.wire.append((when, "frame", what))

    def network(self) -> None:
        """Deliver what is due, both ways."""
        if self.wire:
            due = [entry for entry in self.wire if entry[0] <= self.now]
            if due:
                self.wire = [entry for entry in self.wire if entry[0] > self.now]
                for _, kind, what in due:
                    if kind == "frame":
                        self.deliver(*what)
                    else:
                        self.replies.append((kind, what))
        for session, peer in enumerate(self.peers):
            if peer.pending and not peer.want_ack:
                self.ack_age[session] += 1
                if self.ack_age[session] >= self.ack_cycles:
                    peer.want_ack = True
            if peer.want_ack or peer.want_nack or peer.report:
                self.reply(session, peer)
        self.put("ack_valid_i", 0)
        self.put("refused_valid_i", 0)
        if self.reply_gap:
            self.reply_gap -= 1
        elif self.replies:
            kind, (generation, values) = self.replies.popleft()
            if generation == self.generation[values["session"]]:
                self.put(f"{kind}_valid_i", 1)
                self.put(f"{kind}_i", pack(ACK if kind == "ack" else REFUSED, values))
                self.reply_gap = 7

    def deliver(self, session: int, generation: int, sequence: int, frame: dict, words) -> None:
        """Let the peer judge a frame."""
        if generation != self.generation[session]:
            return
        operation = self.numbers[session][sequence]
        code = self.refuse.get((session, operation.wire_address), 0)
        verdict = self.peers[session].receive(sequence, frame, words, code)
        if verdict == "refused":
            report = self.peers[session].report
            report["op"] = MRD if operation.is_load else MWR
            report["address"] = operation.wire_address

    def reply(self, session: int, peer: Peer) -> None:
        """Send what the peer wants to say."""
        if "acks" in self.hold:
            return
        when = self.now + self.delay[0]
        if peer.report:
            if self.rand.random() >= self.ack_loss and session not in self.black_out:
                values = {"session": session, **peer.report}
                self.wire.append((when, "refused", (self.generation[session], values)))
            peer.report = None
        if peer.want_ack or peer.want_nack:
            values = {"session": session, "sequence": peer.expected, "nack": int(peer.want_nack)}
            if not peer.want_nack and self.rand.random() < self.short_acks:
                # Of an acknowledgement in a data frame only 16 bits count.
                values["sequence"] = peer.expected & 0xFFFF | self.rand.getrandbits(16) << 16
                values["short"] = 1
            peer.want_ack = peer.want_nack = False
            peer.pending = 0
            self.ack_age[session] = 0
            if self.rand.random() >= self.ack_loss and session not in self.black_out:
                self.wire.append((when, "ack", (self.generation[session], values)))

    # ---- Events ----
    def host(self) -> None:
        """Take events, check them against what is known."""
        ready = self.rand.random() < self.event_rate
        self.put("event_ready_i", int(ready))
        if not (ready and int(self.dut.event_valid_o.value)):
            return
        event = unpack(EVENT, int(self.dut.event_o.value))
        self.events.append(event | {"at": self.now})
        who, code = event["who"], event["code"]
        if code == FLUSHED:
            session, generation, count = self.marks.pop(event["number"])
            assert session == who
            assert generation in (-1, self.generation[session])
            done = self.peers[session].expected - self.first[session] & MASK32
            assert done >= count, "flushed before the peer had everything"
        elif code == FLUSH_FAILED:
            session, generation, _ = self.marks.pop(event["number"])
            assert session == who
            assert generation == -1 or session in self.lost or not self.valid >> session & 1
        elif code == PEER_LOST:
            assert who not in self.lost
            self.lost.add(who)
            una = event["address"] & MASK32
            assert event["number"] == una & 0xFFFF
            assert una - self.peers[who].expected & MASK32 in (0, *range(MASK32 - 127, MASK32 + 1))
        else:
            assert 1 <= code <= 4, code

    async def cycle(self) -> None:
        """One cycle."""
        await FallingEdge(self.dut.clk_i)
        self.now += 1
        if getattr(self, "unlock", False):
            self.put("rs_lock_i", 0)
            self.unlock = False
        self.builder()
        self.network()
        self.host()
        if int(self.dut.cnt_tx_timeout_o.value):
            self.timeouts += 1

    async def run(self, cycles: int) -> None:
        """Some cycles."""
        for _ in range(cycles):
            await self.cycle()

    async def drain(self, limit: int = 100_000) -> None:
        """Until nothing is under way any more."""
        end = self.now + limit
        while self.queue or self.current or self.wire or self.replies or self.busy():
            assert self.now < end, f"it never comes to rest: {self.why()}"
            await self.cycle()
        assert int(self.dut.u_slots.used_q.value) == 0, "slots are lost"
        assert int(self.dut.blocked.value) & int(self.dut.u_pacer.held_q.value) == 0

    def why(self) -> list:
        """Say what keeps the bench from resting."""
        names = "phase_q op_q start_q active_q clear_q want_q marks_busy pacer_busy no_slot"
        held = [f"{name}={int(getattr(self.dut, name).value):x}" for name in names.split()]
        return [len(self.queue), self.current, len(self.wire), len(self.replies), held]

    def busy(self) -> int:
        """Is the design, or a peer?"""
        waiting = any(p.want_ack or p.want_nack or p.report for p in self.peers)
        return waiting or int(self.dut.busy_o.value) or any(p.pending for p in self.peers)

    async def look(self, session: int) -> dict[str, int]:
        """Read the status of a session."""
        self.put("status_read_i", 1)
        self.put("status_index_i", session)
        await self.cycle()
        self.put("status_read_i", 0)
        for _ in range(1000):
            if int(self.dut.status_done_o.value):
                return unpack(STATUS, int(self.dut.status_o.value))
            await self.cycle()
        raise AssertionError("no answer to a look at the status")

    def check_delivery(self) -> None:
        """Every operation arrived once, in order, or its refusal was reported once."""
        reports = defaultdict(list)
        for event in self.events:
            if 1 <= event["code"] <= 4:
                reports[event["who"], event["number"]].append(event)
        for session in range(self.sessions):
            if session in self.lost:
                continue
            peer, numbers = self.peers[session], self.numbers[session]
            assert len(peer.taken) == len(numbers), f"session {session}"
            for (sequence, frame, words), (want, operation) in zip(
                peer.taken, numbers.items(), strict=True
            ):
                assert sequence == want
                if frame["control"]:
                    assert self.refuse[session, operation.wire_address]
                    (event,) = reports.pop((session, sequence & 0xFFFF))
                    assert event["address"] == operation.wire_address
                    assert event["op"] == (MRD if operation.is_load else MWR)
                    assert event["code"] == self.refuse[session, operation.wire_address]
                else:
                    assert words == operation.data
            if self.first[session] == 0 and session not in self.lost:
                assert [numbers[i].number for i in range(len(numbers))] == sorted(
                    operation.number for operation in numbers.values()
                )


def begin(dut) -> Bench:
    """Make a bench."""
    return Bench(dut)


@cocotb.test()
async def delivers_without_loss(dut) -> None:
    """Nothing lost: every frame goes out once, sessions close and open in time."""
    bench = begin(dut)
    bench.gaps = (0, 2)
    await bench.start()
    for session in range(4):
        await bench.open(session)
    for i in range(600):
        bench.operation(bench.rand.randrange(4))
        if i % 50 == 49:
            bench.mark(bench.rand.randrange(4), i)
    await bench.drain()
    bench.check_delivery()
    assert bench.resent == 0 and bench.timeouts == 0
    assert sum(e["code"] == FLUSHED for e in bench.events) == 12 and not bench.marks
    # Nobody touches anything: it sleeps.
    before = [int(dut.now_q.value), int(dut.part_q.value), int(dut.u_pacer.now_q.value)]
    await bench.run(100)
    assert before == [int(dut.now_q.value), int(dut.part_q.value), int(dut.u_pacer.now_q.value)]
    dut._log.info(f"600 frames in {bench.now} cycles")


@cocotb.test()
async def lossy_channel(dut) -> None:
    """Random loss, duplicates, reordering and refusals on some sessions, both directions."""
    bench = begin(dut)
    bench.any_order = True
    await bench.start(resend_ticks=30, resend_limit=40, pace_max=64, pace_frames=8)
    count = min(8, bench.sessions)
    for session in range(count):
        await bench.open(session)
    cookie = 0
    for loss in (0.01, 0.1, 0.3):
        bench.loss, bench.ack_loss = loss, loss
        bench.twice, bench.reorder = 0.05, loss / 2
        bench.event_rate = bench.rand.choice((1.0, 0.05))
        for _ in range(400):
            session = bench.rand.randrange(count)
            operation = bench.operation(session)
            if bench.rand.random() < 0.05:
                bench.refuse[session, operation.wire_address] = bench.rand.randint(1, 4)
            if bench.rand.random() < 0.05:
                bench.mark(bench.rand.randrange(count), cookie)
                cookie += 1
        await bench.drain()
    bench.check_delivery()
    assert not bench.marks and not bench.lost
    assert bench.resent > 100 and bench.timeouts > 5
    assert sum(1 <= e["code"] <= 4 for e in bench.events) > 20
    dut._log.info(f"{bench.resent} frames again, {bench.timeouts} time-outs, {bench.now} cycles")


@cocotb.test()
async def all_sessions(dut) -> None:
    """Every session at once, more frames than slots, some loss."""
    bench = begin(dut)
    bench.any_order = True
    bench.loss = bench.ack_loss = 0.03
    bench.delay = (400, 500)
    await bench.start(resend_ticks=120, resend_limit=30, pace_max=40)
    for session in range(bench.sessions):
        await bench.open(session)
    full = 0
    for _ in range(6):
        for session in bench.rand.sample(range(bench.sessions), bench.sessions):
            for _ in range(bench.rand.randint(1, 6)):
                bench.operation(session, data_dw=2, is_load=False)
        await bench.run(2000)
        full = max(full, int(dut.u_slots.used_q.value))
    await bench.drain()
    bench.check_delivery()
    dut._log.info(f"at most {full} slots taken, {bench.resent} frames again, {bench.now} cycles")
    assert full >= bench.slots // 2


@cocotb.test()
async def time_outs(dut) -> None:
    """Time-outs come when the register says, double, and end in a lost peer; 3 to 40 us."""
    bench = begin(dut)
    await bench.start(pace_max=0)
    bench.black_out.add(3)
    for ticks in (30, 75, 200, 390):
        limit, backoff = bench.rand.randint(2, 4), bench.rand.randint(0, 3)
        bench.set(resend_ticks=ticks, resend_limit=limit, backoff=backoff)
        await bench.open(3)
        bench.sent.clear()
        bench.events.clear()
        bench.timeouts = 0
        for _ in range(3):
            bench.operation(3, data_dw=1, is_load=False)
        bench.mark(3, ticks)
        end = bench.now + (4 << limit) * ticks * TICK
        while len(bench.events) < 2:
            assert bench.now < end, bench.why()
            await bench.cycle()
        heads = [start for start, _, sequence, _ in bench.sent if sequence == 0]
        assert len(heads) == 1 + limit and bench.timeouts == 1 + limit
        heads.append(bench.events[0]["at"])
        for i, (before, after) in enumerate(zip(heads, heads[1:], strict=False)):
            want = (ticks << min(i, backoff)) * TICK
            assert want <= after - before <= want + 3 * TICK, (ticks, i, after - before)
        lost, failed = bench.events
        assert lost["code"] == PEER_LOST and lost["who"] == 3 and lost["number"] == 0
        assert lost["address"] == 3 << 32
        assert failed["code"] == FLUSH_FAILED and failed["number"] == ticks
        assert int(dut.lost_o.value) >> 3 & 1 and not int(dut.open_o.value) >> 3 & 1
        status = await bench.look(3)
        assert status["lost"] and not status["idle"] and status["nxt"] == 3 and status["una"] == 0
        # Late acknowledgements change nothing; later marks fail at once.
        await say(bench, "ack", {"session": 3, "sequence": 3})
        bench.mark(3, 1)
        await bench.drain()
        assert bench.events[-1]["code"] == FLUSH_FAILED and bench.events[-1]["number"] == 1
        assert (await bench.look(3))["una"] == 0


async def say(bench: Bench, kind: str, values: dict[str, int]) -> None:
    """Hand the design a reply at once."""
    bench.replies.appendleft((kind, (bench.generation[values["session"]], values)))
    bench.reply_gap = 0
    await bench.cycle()


async def acknowledge(bench: Bench, session: int, sequence: int, **more: int) -> None:
    """Hand the design an acknowledgement."""
    await say(bench, "ack", {"session": session, "sequence": sequence & MASK32, **more})


async def send(bench: Bench, session: int, count: int) -> None:
    """Send frames, and do not let them arrive."""
    bench.black_out.add(session)
    for _ in range(count):
        bench.operation(session, data_dw=2, is_load=False)
    while bench.queue or bench.current:
        await bench.cycle()
    await bench.run(12)


def preset(bench: Bench, session: int, number: int) -> None:
    """Let an idle session stand at another number."""
    state = bench.dut.u_state.mem_q[session]
    width = len(state)
    assert int(state.value) == 0, "the session has sent nothing yet"
    state.value = number << width - 32
    bench.dut.u_nxt.mem_q[session].value = number
    bench.first[session] = number
    bench.peers[session].expected = number


@cocotb.test()
async def round_trips(dut) -> None:
    """A time-out has twice the round trip; at first it is long, and each makes the next longer."""
    bench = begin(dut)
    ticks = 32
    await bench.start(pace_max=0, resend_ticks=ticks, resend_limit=200, backoff=0)
    seen = set()
    for most in (1, 2, 4, 4):
        bench.set(stretch=most)
        await bench.open(3)
        stretch, sequence = most, 0
        for _ in range(24):
            trip = bench.rand.choice((6, 20, 48, 100, 200))
            late = bench.rand.random() < 0.3 or trip + 3 > ticks << stretch
            bench.sent.clear()
            # The second frame finds the first in flight: it measures nothing.
            await send(bench, 3, count := bench.rand.randint(1, 2))
            first = bench.sent[0][0]
            while len(bench.sent) == count if late else bench.now < first + trip * TICK:
                await bench.cycle()
            again = [start for start, _, number, _ in bench.sent if number == sequence][1:]
            sequence += count
            if late:
                want = (ticks << stretch) * TICK
                assert want <= again[0] - first <= want + 3 * TICK, (stretch, again[0] - first)
                stretch = min(stretch + 1, most)
            else:
                assert not again
                stretch = fitting(stretch, most, trip, ticks)
            seen.add((most, stretch))
            # What was sent twice measures nothing: nobody knows which of the two it was.
            await acknowledge(bench, 3, sequence)
            await bench.run(12)
            assert (await bench.look(3))["idle"]
    assert {(1, 0), (1, 1), (2, 2), (4, 0), (4, 1), (4, 2), (4, 3), (4, 4)} <= seen, seen


@cocotb.test()
async def numbers_wrap(dut) -> None:
    """Both wraps of the sequence number, long and short acknowledgements, with loss."""
    bench = begin(dut)
    bench.loss = bench.ack_loss = 0.1
    bench.short_acks = 0.5
    await bench.start(resend_ticks=30, resend_limit=40, pace_max=20)
    for session, number in enumerate((0xFFFFFFF0, 0xFFFF, 0x1234FFD0, 0x7FFFFFE0)):
        await bench.open(session)
        await bench.run(10)
        preset(bench, session, number)
    for i in range(500):
        operation = bench.operation(bench.rand.randrange(4), data_dw=1, is_load=False)
        if bench.rand.random() < 0.1:
            bench.refuse[operation.session, operation.wire_address] = 3
        if i % 40 == 39:
            bench.mark(bench.rand.randrange(4), i)
    await bench.drain()
    bench.check_delivery()
    for session in range(4):
        status = await bench.look(session)
        want = bench.first[session] + len(bench.numbers[session]) & MASK32
        assert status["una"] == status["nxt"] == want and status["idle"] and status["open"]


@cocotb.test()
async def strange_acknowledgements(dut) -> None:
    """What is behind una or beyond nxt does nothing, whatever its form; the right one works."""
    bench = begin(dut)
    await bench.start(resend_ticks=0xFFFF)
    await bench.open(1)
    await bench.run(10)
    preset(bench, 1, 0xFFFFFFFA)
    await send(bench, 1, 20)
    una, count = 0xFFFFFFFA, 20
    for _ in range(300):
        kind = bench.rand.random()
        offset = bench.rand.choice((0, 1, 2, -1, -2, -3, 50, count + 1, count + 2, 0x8000, 1 << 31))
        sequence = una + offset if bench.rand.random() < 0.8 else bench.rand.getrandbits(32)
        short = kind < 0.4
        nack = not short and kind < 0.6
        distance = sequence - una & (0xFFFF if short else MASK32)
        if distance == 0 and nack:
            continue
        if short:
            sequence = sequence & 0xFFFF | bench.rand.getrandbits(16) << 16
        await acknowledge(bench, 1, sequence, short=int(short), nack=int(nack))
        await bench.run(40)
        if distance <= count:
            una, count = una + distance & MASK32, count - distance
        status = await bench.look(1)
        assert status["una"] == una and status["nxt"] == una + count & MASK32
        assert int(dut.u_slots.used_q.value) == count
        if count < 4:
            for entry in bench.refuse:
                bench.refuse.pop(entry)
            await send(bench, 1, 20 - count)
            count = 20
    await acknowledge(bench, 1, una + count)
    await bench.run(60)
    assert int(dut.u_slots.used_q.value) == 0 and not int(dut.busy_o.value)


@cocotb.test()
async def reports(dut) -> None:
    """Only a report of the session's own frame makes an event and a void, and only one."""
    bench = begin(dut)
    await bench.start(resend_ticks=0xFFFF, pace_max=0)
    await bench.open(2)
    await bench.run(10)

    async def report(operation: Operation, sequence: int, **wrong: int) -> None:
        values = {
            "session": 2,
            "code": 2,
            "op": MRD if operation.is_load else MWR,
            "sequence": sequence,
            "address": operation.wire_address,
        } | wrong
        await say(bench, "refused", values)
        await bench.run(60)

    bench.black_out.add(2)
    una = 0
    for form in ("compact", "tlp", "load") * 3:
        bench.sent.clear()
        bench.events.clear()
        fixed = {"compact": form == "compact", "is_load": form == "load"}
        fixed["data_dw"] = 0 if form == "load" else 3
        # Compact addresses are shorter.
        key, offset = bench.rand.getrandbits(12), bench.rand.getrandbits(26) << 2
        fixed["wire_address"] = key << 32 | offset
        bench.hold.discard("new")
        first = bench.operation(2, **fixed)
        second = bench.operation(2, **fixed)
        bench.operation(2, **fixed)
        await bench.run(120)
        other = first.wire_address ^ 1 << bench.rand.choice((2, 5, 27, 32, 43))
        await report(first, una, address=other)
        await report(first, una, op=MWR if first.is_load else MRD)
        await report(first, una, address=first.wire_address | 1 << 48)
        await report(first, una - 1 & MASK32)
        await report(first, una + 3)
        await report(first, una ^ 1 << 16)
        assert not bench.events and [s[3] for s in bench.sent] == ["new"] * 3
        # The second frame is refused, so the first has arrived.
        bench.peers[2].refused.add(una + 1)
        await report(second, una + 1)
        await report(second, una + 1)
        assert [e["code"] for e in bench.events] == [2]
        assert bench.events[0]["number"] == una + 1 and bench.events[0]["who"] == 2
        assert bench.events[0]["address"] == second.wire_address
        assert [(s[2], s[3]) for s in bench.sent[3:]] == [(una + 1, "void"), (una + 2, "again")]
        status = await bench.look(2)
        assert status["una"] == una + 1 and status["nxt"] == una + 3
        # The void may be lost as well.
        await acknowledge(bench, 2, una + 1, nack=1)
        await bench.run(60)
        assert [(s[2], s[3]) for s in bench.sent[5:]] == [(una + 1, "void"), (una + 2, "again")]
        await acknowledge(bench, 2, una + 3)
        await bench.run(30)
        una += 3
    assert int(dut.u_slots.used_q.value) == 0


@cocotb.test()
async def pace(dut) -> None:
    """The pace follows losses and their absence; frames keep it, others pass."""
    bench = begin(dut)
    most, frames = 200, 8
    bench.gaps = (0, 0)
    await bench.start(resend_ticks=0xFFFF, pace_max=most, pace_frames=frames, pace_ticks=40)
    bench.black_out |= {0}
    for session in (0, 1):
        await bench.open(session)
    await bench.run(10)
    await send(bench, 0, 20)
    spacing = [b - a for a, b in zip(bench.starts[0], bench.starts[0][1:], strict=False)]
    assert max(spacing) <= 12, "without loss there is no pace"
    want, una = 0, 0
    for i in range(30):
        # The time between is shorter than 40 ticks as long as frames are few.
        bench.starts[0].clear()
        await acknowledge(bench, 0, una, nack=1)
        want = slower(want, 3, most)
        assert (await bench.look(0))["pace"] == want
        start = bench.now
        while len(bench.starts[0]) < 3 and bench.now - start < 620:
            await bench.cycle()
        spacing = [b - a for a, b in zip(bench.starts[0], bench.starts[0][1:], strict=False)]
        assert len(spacing) == 2 and all(want - 2 <= s <= max(want, 12) + 8 for s in spacing)
        if i % 5 == 4:
            await acknowledge(bench, 0, una + 1)
            await bench.run(8)
            una += 1
    assert want == most
    # Time alone makes it faster: 40 ticks a step.
    before = (await bench.look(0))["pace"]
    await bench.run(40 * TICK + 3 * TICK)
    after = (await bench.look(0))["pace"]
    assert after in (faster(before, 6), faster(faster(before, 6), 6))
    # So do acknowledgements, until there is none left.
    bench.set(pace_ticks=0xFFFF)
    await bench.run(4 * TICK)
    await acknowledge(bench, 0, 20)
    await bench.run(40)
    una = 20
    want = (await bench.look(0))["pace"]
    for _ in range(200):
        if want == 0:
            break
        await send(bench, 0, frames)
        await acknowledge(bench, 0, una + frames)
        await bench.run(20)
        una += frames
        want = faster(want, 6)
        assert (await bench.look(0))["pace"] == want
    assert want == 0
    bench.set(pace_max=0)
    await send(bench, 0, 4)
    await acknowledge(bench, 0, una, nack=1)
    await bench.run(20)
    assert (await bench.look(0))["pace"] == 0
    await acknowledge(bench, 0, una + 4)
    await bench.run(20)


@cocotb.test()
async def window(dut) -> None:
    """No more frames in flight than the register says, and not beyond 127; open in 6 cycles."""
    bench = begin(dut)
    bench.gaps = (0, 0)
    await bench.start(resend_ticks=0xFFFF)
    bench.black_out.add(0)
    for value, most in ((1, 1), (0, 1), (2, 2), (17, 17), (120, 120), (200, 127)):
        bench.set(window=value)
        await bench.open(0)
        for _ in range(140):
            bench.operation(0, data_dw=2, is_load=False)
        await bench.run(140 * 12)
        sent = len(bench.numbers[0])
        assert sent == min(most, bench.slots)
        # One acknowledged, one sent, soon.
        bench.starts[0].clear()
        at = bench.now
        await acknowledge(bench, 0, 1)
        await bench.run(12)
        assert len(bench.starts[0]) == 1 and bench.starts[0][0] - at <= 8
        bench.queue.clear()
    await bench.open(0)
    await bench.run(200)
    assert int(dut.u_slots.used_q.value) == 0


@cocotb.test()
async def resets(dut) -> None:
    """Entries rewritten at any moment, valid or not, under load: the new session is clean."""
    bench = begin(dut)
    bench.any_order = True
    bench.loss = bench.ack_loss = 0.08
    bench.gaps = (0, 4)
    await bench.start(resend_ticks=20, resend_limit=30, pace_max=30)
    count = min(5, bench.sessions)
    for session in range(count):
        await bench.open(session)
    cookie = 0
    answered = 0
    for _ in range(250):
        for _ in range(bench.rand.randint(0, 12)):
            session = bench.rand.randrange(count)
            if not bench.valid >> session & 1:
                continue
            operation = bench.operation(session)
            if bench.rand.random() < 0.05:
                bench.refuse[session, operation.wire_address] = 1
        if bench.rand.random() < 0.5:
            bench.mark(bench.rand.choice((*range(count), bench.sessions, 0xFFFF)), cookie)
            cookie += 1
        await bench.run(bench.rand.randint(1, 200))
        if bench.rand.random() < 0.5:
            session = bench.rand.randrange(count)
            bench.events = [e for e in bench.events if e["who"] != session or e["code"] > 15]
            await bench.open(session, bench.rand.random() < 0.8)
            if bench.rand.random() < 0.2:
                await bench.open(session)
    for session in range(count):
        if not bench.valid >> session & 1:
            await bench.open(session)
    await bench.drain()
    answered = sum(e["code"] in (FLUSHED, FLUSH_FAILED) for e in bench.events)
    assert answered == cookie and not bench.marks
    bench.check_delivery()
    assert not bench.lost


@cocotb.test()
async def lost_under_load(dut) -> None:
    """A peer that falls silent is given up; the others do not notice, and it can come again."""
    bench = begin(dut)
    bench.any_order = True
    bench.loss = bench.ack_loss = 0.02
    await bench.start(resend_ticks=10, resend_limit=3, backoff=2, pace_max=30)
    count = min(6, bench.sessions)
    for session in range(count):
        await bench.open(session)
    for i in range(4):
        silent = bench.rand.randrange(count)
        for _ in range(150):
            bench.operation(bench.rand.randrange(count))
        for j in range(4):
            bench.mark(silent, 100 * i + j)
        bench.set(resend_limit=40)
        await bench.run(300)
        bench.black_out = {silent}
        bench.operation(silent)
        bench.set(resend_limit=3, resend_ticks=40)
        await bench.drain()
        assert silent in bench.lost or not bench.numbers[silent]
        bench.check_delivery()
        bench.black_out = set()
        for session in sorted(bench.lost):
            bench.events = [e for e in bench.events if e["who"] != session]
            await bench.open(session)
    assert not bench.marks


@cocotb.test()
async def nack_latency(dut) -> None:
    """A frame that is asked for is offered at once; an acknowledgement takes a cycle a frame."""
    bench = begin(dut)
    await bench.start(resend_ticks=0xFFFF)
    await bench.open(0)
    await bench.run(10)
    await send(bench, 0, 40)
    bench.hold.add("resent")
    await acknowledge(bench, 0, 0, nack=1)
    cycles = 0
    while not int(dut.rs_valid_o.value):
        await bench.cycle()
        cycles += 1
    dut._log.info(f"offered {cycles + 1} cycles after the nack")
    # The engine may be in the middle of a look at the time, or two.
    assert cycles + 1 <= 18
    bench.hold.clear()
    await bench.run(800)
    await acknowledge(bench, 0, 40)
    cycles = 1
    while int(dut.u_slots.used_q.value):
        await bench.cycle()
        cycles += 1
    dut._log.info(f"40 frames acknowledged in {cycles} cycles")
    assert cycles <= 40 + 8


TOP = {
    "top": "resend",
    "filelists": ["rtl/ipnuma/ipnuma_resend.f"],
    "build_args": ["-Wno-UNUSEDPARAM"],
    "probes": {
        "send_slots": ["used_q"],
        "session_pacer": ["held_q", "now_q"],
        "ram_1r1w": ["mem_q"],
    },
}
SMALL = "lossy_channel resets lost_under_load numbers_wrap".split()


def test_resend() -> None:
    """All of it, with the sizes of the NIC."""
    build_and_run(test_module=__name__, **TOP)


@pytest.mark.parametrize(("sessions", "slots"), [(8, 8), (16, 32)])
def test_resend_small(sessions: int, slots: int) -> None:
    """Few slots: sessions take them from each other."""
    parameters = {"Sessions": sessions, "SendSlots": slots}
    build_and_run(test_module=__name__, parameters=parameters, testcases=SMALL, **TOP)
