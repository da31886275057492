# SPDX-License-Identifier: Apache-2.0
"""The bench around the frame builder: five sources of frames, sessions, and what must be sent."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from tx_ref import (
    Config,
    Session,
    crc16,
    session_compact,
    session_tlp,
    tlp_payload,
    udp_frame,
)

REQUESTER, COMPLETIONS, REFUSALS, CONTROL, RESEND = range(5)
ACK, NACK, VOID = range(3)
COUNTERS = ("store", "load", "completion", "error", "ack", "nack", "void", "resend", "lost")
MWR, MRD, CPL, CPLD = 0x60, 0x20, 0x0A, 0x4A


@dataclass
class Frame:
    """ipnuma_pkg::tx_frame_t with its data, and what beside it a source says."""

    compact: bool = False
    control: bool = False
    session: int | None = None
    kind: int = 0
    sequenced: bool = False
    pc_id: int = 0
    mac: int = 0x020000000011
    ip: int = 0x0A000011
    port: int = 3422
    tag: int = 0
    head: bytes = bytes(16)
    address: int = 0
    trail: int = 0
    data: bytes = b""
    zero_data: bool = False
    permitted: bool = True
    mark: bool = False
    sequence: int = 0  # of source 4

    @property
    def data_dw(self) -> int:
        return len(self.data) // 4

    def pack(self) -> int:
        members = (
            (self.compact, 1),
            (self.control, 1),
            (self.session is not None, 1),
            (self.session or 0, 8),
            (self.kind, 4),
            (self.sequenced, 1),
            (self.pc_id, 16),
            (self.mac, 48),
            (self.ip, 32),
            (self.port, 16),
            (self.tag, 12),
            (int.from_bytes(self.head, "little"), 128),
            (self.address, 40),
            (self.trail, 2),
            (self.data_dw, 7),
            (self.zero_data, 1),
        )
        value = 0
        for member, width in members:
            assert 0 <= int(member) < 1 << width
            value = value << width | int(member)
        return value

    def word(self, index: int) -> int:
        """Payload word; beyond the data whatever the memory holds."""
        if self.zero_data:
            return 0xDEAD_BEEF_DEAD_BEEF
        part = self.data[8 * index : 8 * index + 8]
        return int.from_bytes(part.ljust(8, b"\xa5"), "little")

    def counter(self, source: int) -> str:
        """Counter of the frame."""
        if self.control:
            return ("ack", "nack", "void")[self.trail]
        if source == RESEND:
            return "resend"
        if self.compact:
            return "store"
        if self.kind == 1:
            return "error"
        return {MWR: "store", MRD: "load", CPL: "completion", CPLD: "completion"}[self.head[0]]


def source_port(source: int, frame: Frame, port: int) -> int:
    """Return the port of a frame in a session that has this one in the table."""
    if source in (COMPLETIONS, REFUSALS):
        # An answer has the epoch that the session had when the request came.
        return port & ~0x3F00 | frame.port & 0x3F00
    return port


@dataclass
class Sent:
    """A frame that was sent: where from, what was asked for, what the stream had."""

    source: int
    frame: Frame
    port: int  # of its session when it started
    time: int  # cycle of the start
    sealed: bool
    sequence: int | None = None
    ack: int | None = None
    data: bytes = b""
    last: int = 0  # cycle of the last beat


@dataclass
class Bench:
    """Plays everything around the builder, cycle by cycle, and checks what comes."""

    dut: object
    config: Config = field(default_factory=Config)
    queues: list[deque[Frame]] = field(default_factory=lambda: [deque() for _ in range(5)])
    sent: list[Sent] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    expected_counts: Counter = field(default_factory=Counter)
    dropped: list[tuple[int, Frame]] = field(default_factory=list)
    drop_times: list[int] = field(default_factory=list)
    marks: list[Frame] = field(default_factory=list)
    time: int = 0
    # Called at the beginning of every cycle.
    before: Callable[[], None] = lambda: None
    # Called with every cycle's outputs.
    watch: Callable[[dict[str, int]], None] = lambda _out: None
    ready_rate: float = 1.0
    beat_rate: float = 1.0
    slow: bool = False  # as gmii_tx: the first beat 8 cycles after the start, one in 8 cycles
    hold: bool = False  # the transmitter is not ready
    mark_rate: float = 1.0

    async def start(self) -> None:
        dut = self.dut
        count = int(dut.Sessions.value)
        self.sessions = count
        self.ports = [0xC000 | random.randrange(1 << 14) for _ in range(count)]
        self.valid = [True] * count
        self.sealed = [random.random() < 0.5 for _ in range(count)]
        self.open = [True] * count
        self.lost = [False] * count
        self.pending = [False] * count
        self.urgent = [False] * count
        self.values = [random.randrange(1 << 16) for _ in range(count)]
        self.next_sequence = [random.getrandbits(32) for _ in range(count)]
        self.counters = [0] * int(dut.PcIds.value)
        self.start_sequence = 0
        self.words = [0] * 5
        self.active: Sent | None = None
        self.packed: dict[str, int] = {}
        self.beats = bytearray()
        self.wait = 0
        self.copy: dict[int, int] | None = None
        self.copied = 0
        config = self.config
        for name, value in (
            ("mac", config.mac),
            ("ip", config.ip),
            ("epoch", config.epoch),
            ("src_valid", 0),
            ("src_permitted", 0),
            ("mark", 0),
            ("ready_start", 0),
            ("tready", 0),
            ("rst", 1),
        ):
            getattr(dut, f"{name}_i").value = value
        Clock(dut.clk_i, 6400, "ps").start()
        for _ in range(4):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        await RisingEdge(dut.clk_i)

    def put(self, name: str, value: int) -> None:
        """Drive an input if it changes."""
        if self.packed.get(name) != value:
            self.packed[name] = value
            getattr(self.dut, name).value = value

    @staticmethod
    def bits(flags: list[bool]) -> int:
        return sum(1 << i for i, flag in enumerate(flags) if flag)

    @staticmethod
    def halves(values: list[int]) -> int:
        return int.from_bytes(b"".join(v.to_bytes(2, "little") for v in values), "little")

    def drive(self) -> None:
        """Set the inputs of this cycle."""
        valid = permitted = 0
        for source, queue in enumerate(self.queues):
            if queue:
                valid |= 1 << source
                permitted |= queue[0].permitted << source
                self.put(f"src{source}_frame_i", queue[0].pack())
        self.put("src_valid_i", valid)
        self.put("src_permitted_i", permitted)
        self.put("mark_i", int(bool(self.queues[0]) and self.queues[0][0].mark))
        self.put("mark_ready_i", int(random.random() < self.mark_rate))
        words = sum(word << 64 * source for source, word in enumerate(self.words))
        self.put("src_pay_word_i", words)
        self.put("ports_i", self.halves(self.ports))
        self.put("session_valid_i", self.bits(self.valid))
        self.put("session_sealed_i", self.bits(self.sealed))
        self.put("open_i", self.bits(self.open))
        self.put("lost_i", self.bits(self.lost))
        self.put("ack_pending_i", self.bits(self.pending))
        self.put("ack_urgent_i", self.bits(self.urgent))
        self.put("ack_values_i", self.halves(self.values))
        self.put("start_sequence_i", self.start_sequence)
        resent = self.queues[RESEND]
        self.put("rs_sequence_i", resent[0].sequence if resent else random.getrandbits(32))
        ready = not self.hold and random.random() < self.ready_rate
        self.put("ready_start_i", int(self.active is None and ready))
        if self.slow:
            beat = self.active is not None and self.wait == 0
        else:
            beat = random.random() < self.beat_rate
        self.put("tready_i", int(beat))

    def expected(self, sent: Sent) -> bytes:
        """The frame as the contract has it."""
        frame = sent.frame
        data = bytes(len(frame.data)) if frame.zero_data else frame.data
        port = frame.port
        if frame.session is not None:
            port = source_port(sent.source, frame, sent.port)
            session = Session(port, sent.sequence if frame.sequenced else None, sent.ack)
            if frame.control:
                if not frame.sequenced:
                    # The interval that an acknowledgement asks for.
                    session = Session(port, frame.tag, sent.ack)
                payload = session_compact(session, True, frame.trail, frame.address, b"", 0)
                assert len(payload) == 10
            elif frame.compact:
                payload = session_compact(
                    session, False, frame.trail, frame.address, data, frame.tag
                )
            else:
                payload = session_tlp(session, frame.kind, frame.head, data, frame.tag)
        elif frame.compact:
            text = bytes([0xC0 | frame.trail])
            text += (sent.sequence or 0).to_bytes(2, "big") + frame.address.to_bytes(5, "big")
            text += data
            payload = text + (crc16(text) ^ frame.tag).to_bytes(2, "big")
        else:
            payload = tlp_payload(
                self.config, frame.kind, sent.sequence, frame.head, data, frame.tag
            )
        return udp_frame(self.config, frame.mac, frame.ip, port, payload)[: 42 + len(payload)]

    def wants_ack(self, sent: Sent) -> bool:
        """Whether an acknowledgement travels with the frame whose first word is on the stream."""
        frame = sent.frame
        if sent.source != REQUESTER or frame.session is None or not frame.sequenced:
            return False
        cheap = not frame.compact or frame.data_dw == 1 or self.urgent[frame.session]
        return self.pending[frame.session] and cheap

    def outputs(self) -> dict[str, int]:
        names = (
            "src_pay_idx src_lock src_pop mark_valid session resend_start copy_frame_we copy_we "
            "ack_taken start start_sealed tdata tkeep tvalid tlast cnt busy"
        ).split()
        return {name: int(getattr(self.dut, f"{name}_o").value) for name in names}

    def check_copy(self, sent: Sent) -> None:
        """The send buffer has the frame, its words and nothing else."""
        frame = sent.frame
        if sent.source == REQUESTER and frame.session is not None:
            assert self.copy is not None and self.copied == 1, "copied not just once"
            assert sorted(self.copy) == list(range((frame.data_dw + 1) // 2))
            data = b"".join(w.to_bytes(8, "little") for _, w in sorted(self.copy.items()))
            assert data[: len(frame.data)] == frame.data
        else:
            assert self.copy is None and self.copied == 0, "copied what is not resent"

    async def cycle(self) -> dict[str, int]:
        """One clock cycle."""
        dut = self.dut
        self.before()
        self.drive()
        await ReadOnly()
        out = self.outputs()
        for bit, name in enumerate(COUNTERS):
            self.counts[name] += out["cnt"] >> bit & 1
        ready = self.packed["ready_start_i"]
        fire = bool(out["start"] and ready)
        sent = self.active
        assert out["busy"] == int(sent is not None or any(self.queues))
        assert out["tvalid"] == int(sent is not None)
        pops = [source for source in range(5) if out["src_pop"] >> source & 1]
        ended = step0 = False

        if fire:
            assert sent is None, "a start within a frame"
            source = out["src_lock"].bit_length() - 1
            assert out["src_lock"] == 1 << source and self.queues[source]
            frame = replace(self.queues[source][0])
            assert frame.permitted
            index = frame.session
            if index is not None:
                assert out["session"] == index
                assert source != REQUESTER or self.open[index]
                assert self.valid[index] or source in (CONTROL, RESEND)
            sealed = index is not None and self.sealed[index]
            assert out["start_sealed"] == int(sealed)
            port = self.ports[index] if index is not None else 0
            self.active = Sent(source, frame, port, self.time, sealed)
            self.expected_counts[frame.counter(source)] += 1
            self.beats = bytearray()
            self.wait = 7
        elif sent is None:
            assert out["src_lock"] == 0
        else:
            frame = sent.frame
            assert out["src_lock"] == 1 << sent.source
            assert self.queues[sent.source][0] == frame, "the bench changed a locked frame"
            assert out["start_sealed"] == int(sent.sealed)
            if frame.session is not None:
                assert out["session"] == frame.session
            step = bool(self.packed["tready_i"])
            step0 = step and not self.beats
            if step0:
                if frame.sequenced and frame.session is None:
                    sent.sequence = self.counters[frame.pc_id]
                    self.counters[frame.pc_id] = (sent.sequence + 1) & 0xFFFF
                elif sent.source == RESEND:
                    sent.sequence = frame.sequence
                ack = self.wants_ack(sent)
                assert out["ack_taken"] == int(ack)
                sent.ack = self.values[frame.session] if ack else None
            if step:
                word = out["tdata"].to_bytes(8, "little")
                keep = out["tkeep"].bit_length()
                assert out["tkeep"] == (1 << keep) - 1 and keep
                assert out["tlast"] or keep == 8
                self.beats += word[:keep]
                ended = bool(out["tlast"])
        # In the cycle after the choice, also when word 0 is taken later.
        starts = sent is not None and self.time == sent.time + 1
        starts = starts and sent.source == REQUESTER and sent.frame.session is not None
        assert out["resend_start"] == int(starts)
        assert step0 or not out["ack_taken"]

        # The send buffer.
        if out["copy_frame_we"]:
            assert sent.sequence is not None, "copied ahead of its number"
            assert int(dut.copy_frame_o.value) == sent.frame.pack()
            self.copied += 1
        if out["copy_we"]:
            index = int(dut.copy_idx_o.value)
            assert self.copy is not None and index not in self.copy
            self.copy[index] = int(dut.copy_word_o.value)

        # Pops: of the frame that ends, or of what is dropped or handed on while there is none.
        if ended:
            assert pops == [sent.source]
            self.queues[sent.source].popleft()
            sent.data, sent.last = bytes(self.beats), self.time
            want = self.expected(sent)
            assert sent.data == want, (
                f"source {sent.source} {sent.frame}\n seen {sent.data.hex()}\n want {want.hex()}"
            )
            self.check_copy(sent)
            self.copy, self.copied = None, 0
            self.sent.append(sent)
            self.active = None
        elif sent is not None:
            assert not pops and not out["mark_valid"]
        else:
            self.check_drops(out, pops)
        if starts:
            self.copy = {}
        self.watch(out)

        # What follows the edge.
        index = out["src_pay_idx"]
        words = [q[0].word(index) if q else random.getrandbits(64) for q in self.queues]
        if self.active and not fire and not ended:
            words = [w if s == sent.source else random.getrandbits(64) for s, w in enumerate(words)]
        if starts:
            session = sent.frame.session
            sent.sequence = self.next_sequence[session]
            self.next_sequence[session] = (sent.sequence + 1) & 0xFFFFFFFF
            self.start_sequence = sent.sequence
        if self.wait and not fire:
            self.wait -= 1
        elif self.packed["tready_i"] and not fire:
            self.wait = 7
        await RisingEdge(dut.clk_i)
        self.words = words
        self.time += 1
        return out

    def check_drops(self, out: dict[str, int], pops: list[int]) -> None:
        """Nothing is popped without a frame but what must be, and that at once."""
        want = []
        counted = False
        for source, queue in enumerate(self.queues):
            if not queue:
                continue
            frame = queue[0]
            if frame.mark:
                assert out["mark_valid"]
                if self.packed["mark_ready_i"]:
                    want.append(source)
                    self.marks.append(frame)
                continue
            gone = frame.session is not None and (
                (source == REQUESTER and self.lost[frame.session])
                or (source in (COMPLETIONS, REFUSALS) and not self.valid[frame.session])
            )
            if not frame.permitted:
                want.append(source)
            elif gone and not counted:
                counted = True
                want.append(source)
                self.expected_counts["lost"] += 1
            else:
                continue
            self.dropped.append((source, frame))
            self.drop_times.append(self.time)
        assert pops == want, f"popped {pops} instead of {want}"
        marked = bool(self.queues[0]) and self.queues[0][0].mark
        assert out["mark_valid"] == int(marked)
        for source in pops:
            self.queues[source].popleft()

    async def run(self, cycles: int) -> None:
        for _ in range(cycles):
            await self.cycle()

    async def drain(self, limit: int = 200_000) -> None:
        """Until all queues are empty."""
        for _ in range(limit):
            if not any(self.queues) and self.active is None:
                break
            await self.cycle()
        else:
            raise AssertionError(f"not drained after {limit} cycles: {self.queues}")
        out = await self.cycle()
        assert not out["busy"]
        assert self.counts == self.expected_counts, f"want {self.expected_counts}"


def random_frame(bench: Bench, source: int) -> Frame:
    """Whatever this source may say."""
    dw = random.choice((1, 1, 2, 3, 16, 63, 64, random.randint(1, 64)))
    frame = Frame(
        mac=random.getrandbits(48),
        ip=random.getrandbits(32),
        port=random.randrange(1 << 16),
        pc_id=random.randrange(len(bench.counters)),
        session=random.choice((None, random.randrange(bench.sessions))),
        head=random.randbytes(16),
        address=random.getrandbits(40),
        trail=random.randrange(4),
        tag=random.randrange(1 << 12),
    )
    if source in (REQUESTER, RESEND):
        frame.sequenced = True
        frame.compact = random.random() < 0.5
        load = not frame.compact and random.random() < 0.3
        frame.head = bytes([MRD if load else MWR]) + frame.head[1:]
        frame.data = b"" if load else random.randbytes(4 * dw)
    if source == REQUESTER:
        what = random.random()
        frame.permitted = what > 0.1
        frame.mark = what < 0.04
    if source == RESEND:
        frame.session = random.randrange(bench.sessions)
        frame.sequence = random.getrandbits(32)
        if random.random() < 0.2:
            frame = replace(
                frame, control=True, compact=True, trail=VOID, address=0, data=b"", kind=0
            )
    if source in (COMPLETIONS, REFUSALS):
        frame.tag = 0
        answer = source == COMPLETIONS or random.random() < 0.4
        frame.kind = 0 if answer else 1
        with_data = answer and (source == REFUSALS or random.random() < 0.7)
        frame.data = random.randbytes(4 * dw) if with_data else b""
        frame.zero_data = source == REFUSALS and with_data
        frame.head = bytes([CPLD if with_data else CPL]) + frame.head[1:]
    if source == CONTROL:
        frame = replace(
            frame,
            control=True,
            compact=random.random() < 0.5,
            session=random.randrange(bench.sessions),
            trail=random.choice((ACK, NACK)),
            address=random.getrandbits(32) << 8,
        )
    return frame


async def mixture(dut, frames: int, **how: object) -> Bench:
    """Frames of all sources, while sessions, acknowledgements and the transmitter change."""
    bench = Bench(dut)
    for name, value in how.items():
        setattr(bench, name, value)
    await bench.start()
    left = {source: frames for source in range(5)}

    def change() -> None:
        for source, queue in enumerate(bench.queues):
            locked = bench.active is not None and bench.active.source == source
            if left[source] and len(queue) < 3 and random.random() < 0.1:
                left[source] -= 1
                queue.append(random_frame(bench, source))
            if queue and not locked and random.random() < 0.02:
                if source in (CONTROL, RESEND):
                    queue[0] = random_frame(bench, source)  # taken back for another
                elif source == REQUESTER and queue[0].data and queue[0].data_dw < 60:
                    queue[0] = replace(queue[0], data=queue[0].data + random.randbytes(16))
        for _ in range(3):
            index = random.randrange(bench.sessions)
            what = random.randrange(6)
            if what == 0:
                bench.lost[index] = random.random() < 0.2
                bench.valid[index] = not bench.lost[index] or random.random() < 0.5
                bench.open[index] = not bench.lost[index] and random.random() < 0.8
            elif what == 1:
                bench.pending[index] = random.random() < 0.7
                bench.urgent[index] = random.random() < 0.3
                bench.values[index] = random.getrandbits(16)
            elif what == 2:
                bench.ports[index] = 0xC000 | random.getrandbits(14)
                bench.sealed[index] = random.random() < 0.5
        if not any(left.values()) and not bench.queues[RESEND] and random.random() < 0.1:
            bench.open = [not lost for lost in bench.lost]

    bench.before = change
    while any(left.values()):
        await bench.cycle()
    await bench.drain()
    return bench


def kinds(bench: Bench) -> Counter:
    return Counter((s.source, s.frame.session is not None, s.ack is not None) for s in bench.sent)
