# SPDX-License-Identifier: Apache-2.0
"""Stations of the engine's bench: its host side, and TCP peers on the wire."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from cocotb.triggers import ReadOnly, RisingEdge
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from toe_bench import MAC, PEER_MAC, Wire, segment, unpack

STATES = (
    "Closed SynSent SynReceived Established FinWait1 FinWait2 CloseWait Closing LastAck TimeWait"
).split()
LISTEN, UNLISTEN, CONNECT, CLOSE, ABORT, READ, WRITE = range(7)
EVENT = (
    ("conn", 10),
    ("state", 4),
    ("opened", 1),
    ("reset", 1),
    ("rcv_nxt", 32),
    ("snd_una", 32),
    ("rcv_read", 32),
    ("local_port", 16),
    ("peer_port", 16),
    ("peer_ip", 32),
)
MEM = (("conn", 10), ("word", 29), ("data", 64), ("strb", 8))
COUNTS = "bad foreign orphan flooded paws challenge no_gap timeout refused".split()
FIRST_PORT = 4000


def command(
    kind: int,
    conn: int = 0,
    *,
    amount: int = 0,
    ip: int = 0x0A000002,
    peer_port: int = 0,
    local_port: int = 0,
) -> int:
    """Pack a command."""
    value = kind << 10 | conn
    value = value << 48 | 0x020000000002
    value = value << 32 | ip
    value = value << 16 | peer_port
    value = value << 16 | local_port
    return value << 32 | amount


def sent_by_engine(conn: int, seq: int, size: int) -> bytes:
    """Return what the bench's send memory holds."""
    first, last = seq >> 3, (seq + size + 7) >> 3
    words = b"".join(
        ((w % 2**29 * 0x9E3779B97F4A7C15 + conn) % 2**64).to_bytes(8, "little")
        for w in range(first, last)
    )
    return words[seq & 7 : (seq & 7) + size]


@dataclass
class Told:
    """An event, and when it came."""

    cycle: int
    state: str
    opened: int
    reset: int
    rcv_nxt: int
    snd_una: int


@dataclass
class Host:
    """The application's side: commands, events, and the receive buffers."""

    dut: object
    wire: Wire
    size: int = 65536
    commands: deque = field(default_factory=deque)
    events: dict[int, list[Told]] = field(default_factory=dict)
    memory: dict[int, bytearray] = field(default_factory=dict)
    frames: deque = field(default_factory=deque)
    counts: Counter = field(default_factory=Counter)
    first_writes: list[int] = field(default_factory=list)
    hold: random.Random | None = None

    def take_event(self) -> None:
        """Note an event."""
        seen = unpack(int(self.dut.event_o.value), EVENT)
        more = {n: seen[n] for n in ("opened", "reset", "rcv_nxt", "snd_una")}
        told = Told(self.wire.cycle, STATES[seen["state"]], **more)
        self.events.setdefault(seen["conn"], []).append(told)

    def take_write(self) -> None:
        """Write a word into a receive buffer."""
        seen = unpack(int(self.dut.write_o.value), MEM)
        memory = self.memory.setdefault(seen["conn"], bytearray(self.size))
        base = seen["word"] * 8 % self.size
        data = seen["data"].to_bytes(8, "little")
        for i in range(8):
            if seen["strb"] >> i & 1:
                memory[base + i] = data[i]
        self.first_writes.append(self.wire.cycle)

    async def run(self) -> None:
        """Watch every cycle for ever."""
        dut, frame = self.dut, bytearray()
        busy = False
        while True:
            await RisingEdge(dut.clk_i)
            if busy and self.accepted:
                self.commands.popleft()
                busy = False
                dut.command_valid_i.value = 0
            if self.commands and not busy:
                dut.command_i.value = self.commands[0]
                dut.command_valid_i.value = 1
                busy = True
            if self.hold is not None:
                dut.write_ready_i.value = int(self.hold.random() < 0.95)
                dut.tready_i.value = int(self.hold.random() < 0.95)
            await ReadOnly()
            self.accepted = busy and bool(dut.command_ready_o.value)
            if dut.event_valid_o.value:
                self.take_event()
            if dut.write_valid_o.value and dut.write_ready_i.value:
                self.take_write()
            if dut.tvalid_o.value and dut.tready_i.value:
                keep = int(dut.tkeep_o.value).bit_count()
                frame += int(dut.tdata_o.value).to_bytes(8, "little")[:keep]
                if dut.tlast_o.value:
                    self.frames.append((self.wire.cycle, bytes(frame)))
                    frame.clear()
            counts = int(dut.counts_o.value)
            if counts:
                for i, name in enumerate(reversed(COUNTS)):
                    self.counts[name] += counts >> i & 1
            self.counts["overflow"] += int(dut.overflow_o.value)

    def read(self, conn: int, seq: int, size: int) -> bytes:
        """Read a receive buffer."""
        memory = self.memory[conn]
        return bytes(memory[(seq + i) % self.size] for i in range(size))


def checked(frame: bytes) -> TCP:
    """Compare a frame of the engine, byte by byte, with Scapy's idea of it; return its TCP."""
    assert len(frame) >= 60, "a frame below Ethernet's minimum"
    packet = Ether(frame)
    ip = packet[IP]
    assert packet.dst == PEER_MAC and packet.src == MAC
    assert set(frame[14 + ip.len :]) <= {0}, "padding is not zero"
    again = packet.copy()
    del again[IP].chksum, again[TCP].chksum, again[IP].len, again[TCP].dataofs
    for layer in list(again.layers()):
        if layer.__name__ == "Padding":
            again[layer].underlayer.remove_payload()
    assert bytes(again)[: 14 + ip.len] == frame[: 14 + ip.len], f"not what Scapy makes: {packet!r}"
    return packet[TCP]


@dataclass
class Peer:
    """A TCP of our own, as small as the tests need: it numbers, it resends, it checks."""

    number: int
    isn: int
    stream: bytes = b""
    port: int = 80
    una: int = 0  # counted from the first byte of the stream
    nxt: int = 0
    engine_isn: int = -1
    received: int = 0  # bytes of the engine's stream
    acks: int = 0
    sacks: list = field(default_factory=list)
    conn: int = -1
    last_progress: int = 0
    waited: int = 0
    times: bool = False
    fin_seen: bool = False

    @property
    def sport(self) -> int:
        """The peer's port."""
        return FIRST_PORT + self.number

    def make(self, at: int = 0, size: int = 0, *, flags: str = "A", **more) -> bytes:
        """Make a segment with bytes of the stream."""
        more.setdefault("ack", self.engine_isn + 1 + self.received)
        options = more.pop("options", None)
        if self.times and options is None:
            options = [("NOP", None), ("NOP", None), ("Timestamp", (1000, 0))]
        return segment(
            self.stream[at : at + size],
            seq=self.isn + 1 + at if "S" not in flags else self.isn,
            flags=flags,
            sport=self.sport,
            dport=self.port,
            options=options,
            **more,
        )

    def hear(self, tcp: TCP) -> None:
        """Take an acknowledgement."""
        if "S" in tcp.flags:
            self.engine_isn = tcp.seq
            return
        at = (tcp.ack - self.isn - 1) % 2**32
        if "A" in tcp.flags and self.una < at <= len(self.stream) + 1:
            self.una = at
        self.acks += 1
        self.sacks = next((list(v) for n, v in tcp.options if n == "SAck"), [])


def reset_pins(dut) -> None:
    """Put every input to rest."""
    for name in ("tvalid_i", "command_valid_i", "command_i", "tuser_i"):
        dut[name].value = 0
    dut.tready_i.value = 1
    dut.write_ready_i.value = 1
