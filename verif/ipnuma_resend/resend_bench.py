# SPDX-License-Identifier: Apache-2.0
"""The bench around the resend engine: its inputs, the peers behind a channel, and the reference."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
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
    pack,
    unpack,
)

TICK = 16
INPUTS = (
    "reset_i reset_index_i reset_start_i valid_i start_i start_session_i copy_frame_we_i "
    "copy_frame_i copy_we_i "
    "copy_idx_i copy_word_i rs_lock_i pay_idx_i rs_pop_i ack_valid_i ack_i refused_valid_i "
    "refused_i mark_valid_i mark_session_i mark_cookie_i event_ready_i status_read_i "
    "status_index_i give_up_i"
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
        self.any_start = False
        self.generation = [0] * self.sessions
        self.peers = [Peer() for _ in range(self.sessions)]
        self.operations: list[list[Operation]] = [[] for _ in range(self.sessions)]
        self.numbers: list[dict[int, Operation]] = [{} for _ in range(self.sessions)]
        self.first: list[int] = [0] * self.sessions  # number of the generation's first frame
        self.refuse: dict[tuple[int, int], int] = {}  # (session, wire address): error code
        self.ack_age = [0] * self.sessions
        self.ack_cycles = 80
        self.short_acks = 0.3
        # What receivers ask for, see rx_share.
        self.intervals = (0,)
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
        # Sessions of which the design had an operation dropped because a reset is near.
        self.dropped: set[int] = set()

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

    async def open(self, session: int, valid: bool = True, start: int | None = None) -> None:
        """Write a session's entry: both ends begin there, or at 0 or anywhere."""
        if start is None:
            start = self.rand.getrandbits(32) if self.any_start else 0
        self.put("reset_i", 1)
        self.put("reset_index_i", session)
        self.put("reset_start_i", start)
        self.generation[session] += 1
        for cookie, (who, generation, count) in self.marks.items():
            # What waits has an answer already, or none but that it failed.
            if who == session and generation == self.generation[session] - 1:
                done = self.peers[session].expected - self.first[session] & MASK32
                self.marks[cookie] = (who, -1, 0 if done >= count else 1 << 31)
        self.peers[session] = Peer(start)
        self.operations[session] = []
        self.numbers[session] = {}
        self.first[session] = start
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
                    if session in self.dropped:
                        generation, count = -1, 1 << 31  # it may only fail
                    elif self.inputs["reset_i"] and session == self.inputs["reset_index_i"]:
                        generation, count = -1, 0  # both answers are right
                    self.marks[entry[0]] = (session, generation, count)
                    self.queue.popleft()
                    return None
                break
            operation, generation = entry
            if lost >> operation.session & 1 or generation != self.generation[operation.session]:
                if self.inputs["give_up_i"]:
                    self.dropped.add(operation.session)
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
            values["interval"] = self.rand.choice(self.intervals)
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
            known = session not in self.lost and self.valid >> session & 1
            assert generation == -1 or not known or self.inputs["give_up_i"]
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

    async def drain(self, limit: int = 1_000_000) -> None:
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
            if session not in self.lost:
                in_order = [self.first[session] + i & MASK32 for i in range(len(numbers))]
                assert [numbers[i].number for i in in_order] == sorted(
                    operation.number for operation in numbers.values()
                )


def begin(dut) -> Bench:
    """Make a bench."""
    return Bench(dut)
