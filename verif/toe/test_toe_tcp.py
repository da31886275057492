# SPDX-License-Identifier: Apache-2.0
"""Bench of what the engine does as a TCP: opening, closing, resets, sending, retransmission."""

from __future__ import annotations

import cocotb
from harness import build_and_run
from scapy.layers.inet import TCP
from test_toe import Bench
from toe_bench import rng
from toe_peer import (
    ABORT,
    CLOSE,
    CONNECT,
    READ,
    WRITE,
    Peer,
    command,
    sent_by_engine,
)

MSS = 1460
MIN_RTO_CYCLES = 500 * 4
TIMER_LOOK = 64 * 16
WINDOW = 65536


class Receiver(Peer):
    """A peer that receives: it acknowledges every segment, and keeps what comes out of order."""

    def listen(self, bench: Bench, drop=lambda seq, size: False, window: int = 65535) -> None:
        """Take the engine's segments from now on; `drop` says which are lost."""
        self.bench, self.drop, self.window = bench, drop, window
        self.kept: dict[int, bytes] = {}
        self.data = b""
        self.arrivals: list[tuple[int, int]] = []
        self.auto = True
        bench.peers[self.sport] = self

    def hear(self, tcp: TCP) -> None:
        """Acknowledge a segment with payload or FIN."""
        super().hear(tcp)
        if "S" in tcp.flags or not hasattr(self, "bench"):
            return
        # Behind it may be Ethernet's padding.
        payload = tcp.payload.load if type(tcp.payload).__name__ == "Raw" else b""
        fin = "F" in tcp.flags
        if not payload and not fin:
            return
        at = (tcp.seq - self.engine_isn - 1) % 2**32
        self.arrivals.append((at, len(payload)))
        if self.drop(at, len(payload)):
            return
        self.kept[at] = max(payload, self.kept.get(at, b""), key=len)
        while any(a <= len(self.data) < a + len(d) for a, d in self.kept.items()):
            at_, data = next(
                (a, d) for a, d in self.kept.items() if a <= len(self.data) < a + len(d)
            )
            self.data += data[len(self.data) - at_ :]
        if fin and at + len(payload) == len(self.data):
            self.fin_seen = True
        self.received = len(self.data) + self.fin_seen
        if self.auto:
            self.bench.send(self.make(self.una, 0, window=self.window))

    def expect(self, size: int) -> bytes:
        """Return the first bytes that the engine is to send."""
        return sent_by_engine(self.conn, self.engine_isn + 1, size)


async def opened(dut, options: list | None = None) -> tuple[Bench, Receiver]:
    """Open a connection from the peer's side."""
    rand = rng()
    bench = Bench(dut, rand)
    await bench.begin()
    peer = Receiver(0, rand.getrandbits(32), rand.randbytes(20000))
    await bench.open(peer, options or [("MSS", MSS)])
    peer.listen(bench)
    return bench, peer


def last(bench: Bench) -> TCP:
    """Return the engine's last segment."""
    return bench.log[-1][2]


async def answer(bench: Bench, frame: bytes) -> TCP:
    """Send a frame; return the engine's next segment."""
    count = len(bench.log)
    bench.send(frame)
    await bench.until(lambda: len(bench.log) > count, 2000)
    return bench.log[count][2]


async def silence(bench: Bench, frame: bytes) -> None:
    """Send a frame; nothing may come back."""
    count = len(bench.log)
    bench.send(frame)
    await bench.cycles(300)
    bench.hear()
    assert len(bench.log) == count, f"an answer: {last(bench)!r}"


@cocotb.test()
async def acknowledges_behind_all_that_was_sent(dut) -> None:
    """After a time-out the engine sends from the start, and acknowledges with the last number."""
    bench, peer = await opened(dut)
    peer.auto = False
    peer.drop = lambda seq, size: True
    total = 3 * MSS
    bench.host.commands.append(command(WRITE, peer.conn, amount=total))
    await bench.until(lambda: len(peer.arrivals) == 4)
    assert peer.arrivals[-1] == (0, MSS)
    tcp = await answer(bench, peer.make(0, 100))
    assert tcp.seq == (peer.engine_isn + 1 + total) % 2**32
    assert tcp.ack == (peer.isn + 101) % 2**32


@cocotb.test()
async def sends_a_stream_and_closes(dut) -> None:
    """What the application wrote arrives in full segments, then FIN; TIME-WAIT ends by itself."""
    bench, peer = await opened(dut)
    bench.host.hold = bench.rand
    total = 12 * MSS + 77
    bench.host.commands.append(command(WRITE, peer.conn, amount=total))
    await bench.until(lambda: len(peer.data) == total)
    assert peer.data == peer.expect(total)
    assert max(size for _, size in peer.arrivals) == MSS
    await bench.until(
        lambda: bench.host.events[peer.conn][-1].snd_una == (peer.engine_isn + 1 + total) % 2**32
    )
    bench.host.commands.append(command(CLOSE, peer.conn))
    await bench.until(lambda: peer.fin_seen)
    await bench.until(lambda: bench.host.events[peer.conn][-1].state == "FinWait2")
    # The peer may still send.
    bench.send(peer.make(0, 500))
    await bench.until(lambda: bench.told(peer) == 500)
    bench.send(peer.make(500, 0, flags="FA"))
    await bench.until(lambda: bench.host.events[peer.conn][-1].state == "TimeWait")
    again = await answer(bench, peer.make(500, 0, flags="FA"))
    assert again.ack == (peer.isn + 502) % 2**32, "a FIN again is not acknowledged again"
    await bench.until(lambda: bench.host.events[peer.conn][-1].state == "Closed")


@cocotb.test()
async def fast_retransmit(dut) -> None:
    """A lost segment is sent again after three duplicate ACKs, long before its timer."""
    bench, peer = await opened(dut)
    lost = []

    def drop(at: int, size: int) -> bool:
        if at == 3 * MSS and not lost:
            lost.append(bench.wire.cycle)
            return True
        return False

    peer.listen(bench, drop)
    total = 20 * MSS
    bench.host.commands.append(command(WRITE, peer.conn, amount=total))
    await bench.until(lambda: len(peer.data) == total)
    assert peer.data == peer.expect(total)
    times = [c for c, _, t in bench.log if (t.seq - peer.engine_isn - 1) % 2**32 == 3 * MSS]
    assert len(times) == 2, "the lost segment was not sent exactly twice"
    assert times[1] - times[0] < MIN_RTO_CYCLES, "it waited for its timer"
    assert bench.host.counts["timeout"] == 0


@cocotb.test()
async def random_loss_while_sending(dut) -> None:
    """One segment in ten is lost, either way: all of the stream arrives, by duplicates or timer."""
    bench, peer = await opened(dut)
    rand = bench.rand
    peer.listen(bench, lambda at, size: rand.random() < 0.1)
    total = 40000
    bench.host.commands.append(command(WRITE, peer.conn, amount=total))
    await bench.until(lambda: len(peer.data) == total, 400000)
    assert peer.data == peer.expect(total)


@cocotb.test()
async def timeout_backs_off(dut) -> None:
    """Nothing is acknowledged: the timer doubles (RFC 6298), then the connection is given up."""
    bench, peer = await opened(dut)
    peer.auto = False
    # The timer begins with what is sent, not with what was sent before.
    await bench.cycles(MIN_RTO_CYCLES // 2)
    bench.host.commands.append(command(WRITE, peer.conn, amount=100))
    await bench.until(lambda: bench.host.events[peer.conn][-1].reset, 200000)
    times = [c for c, _, t in bench.log if type(t.payload).__name__ == "Raw"]
    steps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert len(times) == 5, f"sent {len(times)} times, not once and MaxTries times"
    # A connection's timer is looked at every so many cycles.
    late = [step - (MIN_RTO_CYCLES << i) for i, step in enumerate(steps)]
    assert all(0 <= cycles <= TIMER_LOOK + 100 for cycles in late), steps


@cocotb.test()
async def zero_window_is_probed(dut) -> None:
    """Against a closed window a byte goes now and then; when it opens the rest goes."""
    bench, peer = await opened(dut)
    bench.send(peer.make(0, 0, window=0))
    await bench.cycles(100)
    peer.listen(bench, lambda at, size: True)
    bench.host.commands.append(command(WRITE, peer.conn, amount=3000))
    await bench.until(lambda: len(peer.arrivals) >= 2, 60000)
    assert {size for _, size in peer.arrivals} == {1}, "more than a probe into a closed window"
    peer.listen(bench)
    bench.send(peer.make(0, 0, window=65535))
    await bench.until(lambda: len(peer.data) == 3000, 60000)
    assert peer.data == peer.expect(3000)


@cocotb.test()
async def active_open(dut) -> None:
    """The engine opens: options of both sides, data both ways, a refused one, an aborted one."""
    rand = rng()
    bench = Bench(dut, rand)
    await bench.begin()
    peer = Receiver(1, rand.getrandbits(32), rand.randbytes(3000), port=5555)
    peer.listen(bench)
    connect = command(CONNECT, peer_port=peer.sport, local_port=5555)
    bench.host.commands.append(connect)
    await bench.until(lambda: peer.engine_isn >= 0)
    syn = last(bench)
    names = dict(syn.options)
    assert syn.flags == "S" and names["MSS"] == MSS and "SAckOK" in names and "WScale" in names
    # A second one with the same addresses is refused.
    bench.host.commands.append(connect)
    await bench.until(lambda: bench.host.counts["refused"] == 1)
    # An ACK of something else is answered by a reset, and changes nothing.
    wrong = peer.make(flags="A", ack=peer.engine_isn + 5)
    assert (await answer(bench, wrong)).flags == "R"
    options = [("MSS", 700), ("WScale", 2), ("SAckOK", b"")]
    # Neither SYN nor reset: no answer to the opening, whatever it acknowledges.
    await silence(bench, peer.make(ack=peer.engine_isn + 1))
    assert not any(e.opened for es in bench.host.events.values() for e in es)
    bench.send(peer.make(flags="SA", ack=peer.engine_isn + 1, options=options))
    await bench.until(lambda: any(e.opened for es in bench.host.events.values() for e in es))
    peer.conn = next(iter(bench.host.events))
    bench.send(peer.make(0, 1000))
    await bench.until(lambda: bench.told(peer) == 1000)
    bench.host.commands.append(command(WRITE, peer.conn, amount=2500))
    await bench.until(lambda: len(peer.data) == 2500)
    assert peer.data == peer.expect(2500) and max(s for _, s in peer.arrivals) == 700
    bench.host.commands.append(command(ABORT, peer.conn))
    await bench.until(lambda: "R" in last(bench).flags)
    assert bench.host.events[peer.conn][-1].state == "Closed"


@cocotb.test()
async def both_open_at_once(dut) -> None:
    """The peer's SYN crosses the engine's: both are acknowledged, and only then it is open."""
    rand = rng()
    bench = Bench(dut, rand)
    await bench.begin()
    peer = Receiver(2, rand.getrandbits(32), rand.randbytes(1000), port=5556)
    peer.listen(bench)
    bench.host.commands.append(command(CONNECT, peer_port=peer.sport, local_port=5556))
    await bench.until(lambda: peer.engine_isn >= 0)
    reply = await answer(bench, peer.make(flags="S", ack=0, options=[("MSS", 900)]))
    assert reply.flags == "SA" and reply.seq == peer.engine_isn
    assert reply.ack == (peer.isn + 1) % 2**32
    assert not any(e.opened for es in bench.host.events.values() for e in es)
    bench.send(peer.make(flags="SA", ack=peer.engine_isn + 1))
    bench.send(peer.make())
    await bench.until(lambda: any(e.opened for es in bench.host.events.values() for e in es))
    peer.conn = next(iter(bench.host.events))
    bench.send(peer.make(0, 1000))
    await bench.until(lambda: bench.told(peer) == 1000)
    bench.host.commands.append(command(WRITE, peer.conn, amount=1900))
    await bench.until(lambda: len(peer.data) == 1900)
    assert peer.data == peer.expect(1900) and max(s for _, s in peer.arrivals) == 900


@cocotb.test()
async def edges_of_the_window(dut) -> None:
    """An empty segment is of the window up to its last number (RFC 9293, table 6)."""
    bench, peer = await opened(dut)
    expected = (peer.isn + 1) % 2**32
    peer.stream = bytes(WINDOW + 2)
    for at in (0, 1, WINDOW - 1):
        await silence(bench, peer.make(at, 0))
    for at in (-1, WINDOW, WINDOW + 1):
        assert (await answer(bench, peer.make(at, 0))).ack == expected
        await silence(bench, peer.make(at, 0, flags="R"))
    assert bench.host.counts["challenge"] == 0
    assert (await answer(bench, peer.make(WINDOW - 1, 0, flags="R"))).ack == expected
    assert bench.host.counts["challenge"] == 1


@cocotb.test()
async def blind_attacks(dut) -> None:
    """RFC 5961: a reset or SYN inside the window gets a challenge ACK; the exact number resets."""
    bench, peer = await opened(dut)
    expected = (peer.isn + 1) % 2**32
    for flags, at in (("R", 700), ("S", 900), ("SA", 0)):
        frame = peer.make(at, 0, flags=flags) if flags == "R" else None
        if frame is None:
            saved, peer.isn = peer.isn, peer.isn + 1 + at
            frame = peer.make(flags=flags)
            peer.isn = saved
        reply = await answer(bench, frame)
        assert reply.flags == "A" and reply.ack == expected
    assert bench.host.counts["challenge"] == 3
    await silence(bench, peer.make(200000, 0, flags="R"))
    # It acknowledges what was never sent: an ACK, and the payload is not taken.
    reply = await answer(bench, peer.make(0, 10, ack=peer.engine_isn + 5000))
    assert reply.ack == expected
    await silence(bench, peer.make(0, 0, flags="R"))
    await bench.until(lambda: bench.host.events[peer.conn][-1].reset)
    assert bench.host.events[peer.conn][-1].state == "Closed"


@cocotb.test()
async def strangers(dut) -> None:
    """Segments without a connection are reset as RFC 9293 says; resets, foreign frames are not."""
    bench, peer = await opened(dut)
    other = Peer(7, 1000, bytes(100), port=81)
    reply = await answer(bench, other.make(flags="S", ack=0))
    assert reply.flags == "RA" and reply.ack == 1001 and reply.seq == 0
    reply = await answer(bench, other.make(0, 10, ack=4711))
    assert reply.flags == "R" and reply.seq == 4711
    await silence(bench, other.make(0, 0, flags="R"))
    await silence(bench, other.make(0, 0, dst="10.0.0.9"))
    await silence(bench, other.make(0, 0, src="224.0.0.5"))
    assert bench.host.counts["foreign"] == 2


@cocotb.test()
async def syn_flood(dut) -> None:
    """Half-open connections have a limit; others go on, and the limit is of those that are open."""
    bench, peer = await opened(dut)
    flood = [Peer(10 + i, 77 * i, b"x" * 10) for i in range(6)]
    for stranger in flood:
        bench.peers[stranger.sport] = stranger
        bench.send(stranger.make(flags="S", ack=0))
    await bench.cycles(1500)
    bench.hear()
    assert [p.engine_isn >= 0 for p in flood] == [True] * 4 + [False] * 2
    assert bench.host.counts["flooded"] == 2
    bench.send(peer.make(0, 1000))
    await bench.until(lambda: bench.told(peer) == 1000)
    bench.send(flood[0].make())
    await bench.cycles(200)
    await answer(bench, flood[5].make(flags="S", ack=0))
    bench.hear()
    assert flood[5].engine_isn >= 0, "no room after a handshake was completed"


@cocotb.test()
async def old_duplicates_with_time_stamps(dut) -> None:
    """PAWS: a segment with an old time stamp is acknowledged, not taken."""
    rand = rng()
    bench = Bench(dut, rand)
    await bench.begin()
    peer = Peer(0, rand.getrandbits(32), rand.randbytes(3000))
    await bench.open(peer, [("MSS", MSS), ("NOP", None), ("NOP", None), ("Timestamp", (5000, 0))])

    def stamp(value: int) -> list:
        return [("NOP", None), ("NOP", None), ("Timestamp", (value, 0))]

    bench.send(peer.make(0, 100, options=stamp(5010)))
    await bench.until(lambda: bench.told(peer) == 100)
    reply = await answer(bench, peer.make(100, 100, options=stamp(5009)))
    assert reply.ack == (peer.isn + 101) % 2**32 and bench.host.counts["paws"] == 1
    assert dict(reply.options)["Timestamp"][1] == 5010
    bench.send(peer.make(100, 100, options=stamp(5010)))
    await bench.until(lambda: bench.told(peer) == 200)


@cocotb.test()
async def four_gaps_and_sack(dut) -> None:
    """Four gaps are kept and told of, the latest first; a fifth is not; holes fill in any order."""
    rand = rng()
    bench = Bench(dut, rand)
    await bench.begin()
    peer = Peer(0, 2**32 - 1500, rand.randbytes(6000))
    await bench.open(peer, [("MSS", MSS), ("SAckOK", b"")])
    base = peer.isn + 1
    starts = [1000, 3000, 2000, 4000]
    for count, at in enumerate(starts, 1):
        reply = await answer(bench, peer.make(at, 200))
        blocks = dict(reply.options)["SAck"]
        edges = [((base + a) % 2**32, (base + a + 200) % 2**32) for a in reversed(starts[:count])]
        assert blocks == tuple(e for edge in edges for e in edge)
        assert reply.ack == base % 2**32
    await answer(bench, peer.make(5000, 200))
    assert bench.host.counts["no_gap"] == 1
    # Joins the gaps at 2000 and 3000 from one to the other.
    reply = await answer(bench, peer.make(2100, 950))
    assert dict(reply.options)["SAck"][:2] == ((base + 2000) % 2**32, (base + 3200) % 2**32)
    for at, size, known in ((0, 1000, 1200), (1100, 1000, 3200), (3200, 800, 4200)):
        bench.send(peer.make(at, size))
        await bench.until(lambda known=known: bench.told(peer) == known)
    assert bench.host.read(peer.conn, base, 4200) == peer.stream[:4200]


@cocotb.test()
async def window_closes_and_opens(dut) -> None:
    """The window is what the application left room for; what is beyond is not taken."""
    rand = rng()
    bench = Bench(dut, rand)
    await bench.begin()
    peer = Peer(0, rand.getrandbits(32), rand.randbytes(WINDOW + 5000))
    await bench.open(peer, [("MSS", MSS)])
    at = 0
    while at < WINDOW:
        size = min(MSS, WINDOW + 100 - at)
        bench.send(peer.make(at, size))
        at += size
    await bench.until(lambda: bench.told(peer) == WINDOW)
    await bench.until(lambda: last(bench).window == 0)
    reply = await answer(bench, peer.make(WINDOW, 1))
    assert reply.ack == (peer.isn + 1 + WINDOW) % 2**32 and reply.window == 0
    assert bench.host.read(peer.conn, peer.isn + 1, WINDOW) == peer.stream[:WINDOW]
    count = len(bench.log)
    bench.host.commands.append(command(READ, peer.conn, amount=30000))
    await bench.until(lambda: len(bench.log) > count, 2000)
    assert last(bench).window == 30000, "the application read, but the window was not told"
    bench.send(peer.make(WINDOW, 1000))
    await bench.until(lambda: bench.told(peer) == WINDOW + 1000)


@cocotb.test()
async def corrupt_segment_leaves_a_hole(dut) -> None:
    """A bad segment among good ones in flight: the later ones are kept, one is sent again."""
    rand = rng()
    bench = Bench(dut, rand)
    await bench.begin()
    peer = Peer(0, rand.getrandbits(32), rand.randbytes(10 * MSS))
    await bench.open(peer, [("MSS", MSS), ("SAckOK", b"")])
    for i in range(10):
        frame = bytearray(peer.make(i * MSS, MSS))
        if i == 2:
            frame[1000] ^= 0x40
        bench.send(bytes(frame))
    await bench.cycles(2500)
    bench.hear()
    assert bench.told(peer) == 2 * MSS and peer.sacks
    bench.send(peer.make(2 * MSS, MSS))
    await bench.until(lambda: bench.told(peer) == 10 * MSS)
    assert bench.host.read(peer.conn, peer.isn + 1, 10 * MSS) == peer.stream


def test_toe_tcp() -> None:
    """Run all on the default build."""
    build_and_run(
        "tb_toe",
        __name__,
        filelists=["rtl/toe/toe.f"],
        sources=["verif/toe/toe_watch.sv", "verif/toe/tb_toe.sv"],
        parameters={"Policy": 4, "EpochLen": 1},
    )
