# SPDX-License-Identifier: Apache-2.0
"""A peer that is Scapy: packets that a right peer never sends, answers to nothing, random fields.

What must come back is what the InfiniBand specification names (9.7.4 and 9.9); host memory may be
written only where a region or a queue is, which the bench's memory checks at every write.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import cocotb
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

import roce
import uzura_host as host
from roce import Packet
from uzura_host import Bench, Qp, Region

ALL = host.LOCAL_WRITE | host.REMOTE_WRITE | host.REMOTE_READ | host.REMOTE_ATOMIC
MTU = 1024
PEER_QPN = 0x123456
ACK, NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS, NAK_OPERATION = 0x1F, 0x60, 0x61, 0x62, 0x63
FUZZ = 400
Segment = tuple[int, int, int]


class Peer:
    """Scapy's side of a connection to engine 0."""

    bench: Bench
    qp: Qp
    region: Region
    psn: int

    @classmethod
    async def connect(cls, bench: Bench, **settings) -> Peer:
        """Set up a QP."""
        self = cls()
        self.bench = bench
        engine = bench.engines[0]
        bench.channel = lambda sender, frame: []
        cq = await engine.cq(log2=9)
        self.qp = await engine.qp(cq, cq, **settings)
        self.region = await engine.region(16384, ALL)
        await self.again()
        return self

    async def again(self, **settings) -> None:
        """Begin anew with random PSNs."""
        self.psn = random.getrandbits(24)
        self.qp.psn, self.qp.peer_psn = random.getrandbits(24), self.psn
        await self.qp.set(begin=True, state=host.RTS, dqpn=PEER_QPN, ip=roce.IP_B,
                          mac=roce.MAC_B, **settings)  # fmt: skip

    def packet(self, opcode: int, **fields) -> Packet:
        """Make a packet, right unless said otherwise."""
        right = dict(qpn=self.qp.number, psn=self.psn, ack_req=1, va=self.region.va,
                     key=self.region.key, length=len(fields.get("payload", b"")))  # fmt: skip
        return Packet(opcode=opcode, **(right | fields))

    def message(self, data: bytes) -> list[Packet]:
        """Cut a SEND into packets."""
        count = max(1, -(-len(data) // MTU))
        out = []
        for i in range(count):
            opcode = 0x04 if count == 1 else 0 if i == 0 else 2 if i == count - 1 else 1
            out.append(self.packet(opcode, psn=(self.psn + i) % 2**24, ack_req=i == count - 1,
                                   payload=data[i * MTU : (i + 1) * MTU]))  # fmt: skip
        return out

    async def ask(self, *packets: Packet) -> list[Packet]:
        """Send packets; return what comes back."""
        begin = len(self.bench.frames)
        for packet in packets:
            self.bench.engines[0].arrive(packet.frame())
        await self.bench.steps(4)
        await self.bench.until(lambda: not self.bench.engines[0].rx)
        await self.bench.quiet()
        return [roce.parse(frame) for _, frame in self.bench.frames[begin:]]


@cocotb.test()
async def each_mistake_has_its_nak(dut) -> None:
    """Wrong sequences, lengths, keys and rights: the NAK's code, its PSN; nothing placed."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench)
    full, half = random.randbytes(MTU), random.randbytes(MTU // 2)
    p = peer.packet
    cases = [
        ("middle without first", [p(0x01, payload=full)], NAK_INVALID),
        ("last without first", [p(0x02, payload=half)], NAK_INVALID),
        ("WRITE middle without first", [p(0x07, payload=full)], NAK_INVALID),
        ("first is not full", [p(0x06, payload=half, length=2 * MTU)], NAK_INVALID),
        ("first is all", [p(0x06, payload=full, length=MTU)], NAK_INVALID),
        ("longer than the MTU", [p(0x0A, payload=full + b"x")], NAK_INVALID),
        ("length is another", [p(0x0A, payload=half, length=MTU // 2 + 1)], NAK_INVALID),
        ("length too large", [p(0x0C, length=(1 << 31) + 1)], NAK_INVALID),
        ("atomic not aligned", [p(0x14, va=peer.region.va | 4)], NAK_INVALID),
        ("wrong key", [p(0x0A, payload=half, key=peer.region.key ^ 0x80)], NAK_ACCESS),
        ("no such region", [p(0x0C, length=8, key=0xFFFFFF00)], NAK_ACCESS),
        ("before the region", [p(0x0A, payload=half, va=peer.region.va - 1)], NAK_ACCESS),
        ("behind the region", [p(0x0C, length=16385)], NAK_ACCESS),
        ("around the end of addresses", [p(0x0C, length=64, va=2**64 - 32)], NAK_ACCESS),
    ]
    for name, packets, code in cases:
        await peer.again()
        for packet in packets:
            packet.psn = peer.psn
        before = peer.region.read(0, 16384)
        answers = await peer.ask(*packets)
        assert [(a.opcode, a.syndrome, a.psn) for a in answers] == [(0x11, code, peer.psn)], name
        assert all(a.qpn == PEER_QPN and a.ip == roce.IP_B for a in answers)
        # The QP has stopped.
        assert not await peer.ask(peer.packet(0x0A, payload=b"12345678"))
        assert peer.region.read(0, 16384) == before, name
    second = [
        ("last of another message", 0x02, NAK_INVALID),
        ("a new message in between", 0x0A, NAK_INVALID),
        ("a READ in between", 0x0C, NAK_INVALID),
        ("more than was announced", 0x07, NAK_INVALID),
    ]
    for name, opcode, code in second:
        await peer.again()
        payload = full if opcode == 0x07 else b"" if opcode == 0x0C else half
        answers = await peer.ask(
            peer.packet(0x06, payload=full, length=MTU + 100, ack_req=0),
            peer.packet(opcode, psn=(peer.psn + 1) % 2**24, payload=payload),
        )
        assert [(a.syndrome, a.psn) for a in answers] == [(code, (peer.psn + 1) % 2**24)], name
    for right, opcode in ((host.REMOTE_WRITE, 0x0A), (host.REMOTE_READ, 0x0C), (8, 0x14)):
        await peer.again(rights=14 & ~right)
        payload = b"12345678" if opcode == 0x0A else b""
        answers = await peer.ask(peer.packet(opcode, payload=payload, va=peer.region.va & ~7))
        assert [a.syndrome for a in answers] == [NAK_ACCESS]


def wrong_segments(good: Segment, others: dict[str, Region]) -> dict[str, Segment]:
    """Return what a segment may be so that it must not be touched."""
    va, key, size = good
    wrong = {
        "key's tag": (va, key ^ 1, size),
        "no such region": (va, 0xFFFFFF00, size),
        "before the region": (va - (1 << 16), key, size),
        "around the end of addresses": (2**64 - 1, key, size),
    }
    for name, region in others.items():
        inside = 1 if name == "behind the region" else size
        wrong[name] = (region.va + region.length - inside, region.key, size)
    return wrong


@cocotb.test()
async def a_wrong_segment_of_a_send_queue(dut) -> None:
    """In any place of a list: the packets before it at most, an error, and nothing written."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench)
    engine = bench.engines[0]
    peer.region.write(0, random.randbytes(16384))
    others = {
        "another domain": await engine.region(1 << 13, ALL, pd=2),
        "behind the region": await engine.region(4096, ALL),
    }
    writes = {"no right to write": await engine.region(1 << 13, host.REMOTE_READ)}
    for op, place, size in itertools.product(
        (host.SEND, host.WRITE, host.READ), range(5), (100, 1000)
    ):
        good = [(peer.region.va + 1100 * i + random.randrange(8), peer.region.key, size)
                for i in range(5)]  # fmt: skip
        for name, segment in wrong_segments(
            good[place], others | (writes if op == host.READ else {})
        ).items():
            await peer.again()
            before = peer.region.read(0, 16384)
            segments = [*good[:place], segment, *good[place + 1 :]]
            begin = len(bench.frames)
            index = peer.qp.post(op, segments=segments, copy=random.random() < 0.5)
            cqe = await bench.poll(peer.qp.scq)
            assert (cqe.index, cqe.status) == (index, host.LOC_PROT), f"{op} {place} {name}"
            await bench.quiet()
            sent = [roce.parse(frame) for _, frame in bench.frames[begin:]]
            whole = 0 if op == host.READ else size * place // MTU
            assert b"".join(f.payload for f in sent) == b"".join(
                peer.region.read(va - peer.region.va, n) for va, _, n in good
            )[: whole * MTU], f"{op} {place} {name}: other bytes have gone out"
            assert peer.region.read(0, 16384) == before


@cocotb.test()
async def a_wrong_list_of_a_send_queue(dut) -> None:
    """Too short, too many, where none may be, half unreadable: the status, and nothing sent."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench)
    engine = bench.engines[0]
    segments = [(peer.region.va + 200 * i, peer.region.key, 100) for i in range(5)]
    inline = dict(inline=b"12345678")
    cases = [
        (host.SEND, dict(claimed=501), host.LOC_LEN),
        (host.WRITE, dict(segments=segments[:2], claimed=201), host.LOC_LEN),
        (host.READ, dict(segments=segments[:3], claimed=301), host.LOC_LEN),
        (host.READ, dict(claimed=1 << 31), host.LOC_LEN),
        (host.SEND, dict(more=5), host.LOC_QP_OP),
        (host.READ, dict(more=7), host.LOC_QP_OP),
        (host.SEND, dict(segments=segments[:1], more=1, **inline), host.LOC_QP_OP),
        (host.FADD, dict(segments=segments[:2], claimed=8), host.LOC_QP_OP),
        (host.SEND, dict(bad=64), host.LOC_QP_OP),
        (host.READ, dict(bad=64), host.LOC_QP_OP),
        (host.SEND, dict(bad=0), host.LOC_QP_OP),
        (host.SEND, dict(segments=segments[:1], more=0, bad=64, **inline), host.LOC_QP_OP),
    ]
    for op, wrong, status in cases:
        await peer.again()
        before = len(bench.frames)
        if "bad" in wrong:
            at = peer.qp.sq + wrong["bad"]
            engine.unreadable = range(at, at + 1)
        index = peer.qp.post(op, **(dict(segments=segments) | wrong))
        cqe = await bench.poll(peer.qp.scq)
        assert (cqe.index, cqe.status) == (index, status), f"{op} {wrong}"
        engine.unreadable = range(0)
        await bench.quiet()
        assert len(bench.frames) == before


@cocotb.test()
async def a_wrong_segment_of_a_receive_queue(dut) -> None:
    """In any place of a buffer: a NAK, an error, and only what lies before it is written."""
    bench = await Bench(dut).start()
    engine = bench.engines[0]
    others = {
        "another domain": await engine.region(1 << 13, ALL, pd=2),
        "no right to write": await engine.region(1 << 13, host.REMOTE_READ),
        "behind the region": await engine.region(4096, ALL),
    }
    for rq_segments in (0, 1, 2):
        peer = await Peer.connect(bench, rq_segments=rq_segments)
        count = 1 << rq_segments
        for place, size in itertools.product(range(count), (100, 700)):
            good = [(peer.region.va + 1100 * i + random.randrange(8), peer.region.key, size)
                    for i in range(count)]  # fmt: skip
            for name, segment in wrong_segments(good[place], others).items():
                await peer.again()
                expected = bytearray(peer.region.read(0, 16384))
                slot = peer.qp.receive_list(*good[:place], segment, *good[place + 1 :])
                data = random.randbytes(count * size)
                for i, (va, _, _) in enumerate(good[:place]):
                    at = va - peer.region.va
                    expected[at : at + size] = data[i * size : (i + 1) * size]
                answers = await peer.ask(*peer.message(data))
                assert answers[-1].syndrome == NAK_OPERATION, f"{place} {name}"
                cqe = await bench.poll(peer.qp.rcq)
                assert (cqe.index, cqe.status) == (slot, host.LOC_PROT), f"{place} {name}"
                assert peer.region.read(0, 16384) == expected, f"{place} {name}"
        # More room than 32 bits count.
        if count > 1:
            await peer.again()
            peer.qp.receive_list(*[(va, key, 0xFFFFFFFF if i else size)
                                   for i, (va, key, size) in enumerate(good)])  # fmt: skip
            (answer,) = await peer.ask(*peer.message(data[: size + 100]))
            assert (answer.syndrome, (await bench.poll(peer.qp.rcq)).status) == (ACK, host.SUCCESS)
            assert peer.region.read(good[1][0] - peer.region.va, 100) == data[size : size + 100]
        # A byte too many for all of them, and an entry that cannot be read.
        for extra, bad in ((1, False), (0, True)):
            await peer.again()
            slot = peer.qp.receive_list(*good)
            if bad:
                engine.unreadable = range(peer.qp.rq, peer.qp.rq + 1)
            answers = await peer.ask(*peer.message(random.randbytes(count * size + extra)))
            assert answers[-1].syndrome == (NAK_OPERATION if bad else NAK_INVALID)
            status = (await bench.poll(peer.qp.rcq)).status
            assert status == (host.LOC_PROT if bad else host.LOC_LEN)
            engine.unreadable = range(0)


@cocotb.test()
async def a_list_that_changes_under_a_read(dut) -> None:
    """A READ's segments are looked at again for each answer: what may not be is not written."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench, timeout=0)
    engine = bench.engines[0]
    good = [(peer.region.va + 1100 * i, peer.region.key, 200) for i in range(5)]
    short = dict(claimed=1000, segments=[(va, key, 100) for va, key, _ in good])
    wrong = dict(segments=[good[0], (good[1][0], good[1][1] ^ 1, 200), *good[2:]])
    for change in ({}, short, wrong, None):
        await peer.again()
        expected = bytearray(peer.region.read(0, 16384))
        index = peer.qp.post(host.READ, segments=good)
        before = len(bench.frames)
        await bench.until(lambda before=before: len(bench.frames) > before)
        if change is None:
            engine.unreadable = range(peer.qp.sq + 56, peer.qp.sq + 57)
        else:
            entry = peer.qp.wqe(host.READ, **(dict(segments=good) | change))
            engine.memory[peer.qp.sq : peer.qp.sq + 128] = entry
        data = random.randbytes(1000)
        await peer.ask(peer.packet(0x10, psn=peer.qp.psn, payload=data, syndrome=ACK))
        cqe = await bench.poll(peer.qp.scq)
        assert (cqe.index, cqe.status) == (index, host.LOC_PROT if change != {} else host.SUCCESS)
        engine.unreadable = range(0)
        parts = {"5": good, "short": short["segments"], "wrong": good[:1]}
        name = "5" if change == {} else "short" if change is short else "wrong"
        for va, _, size in parts[name] if change is not None else []:
            at = va - peer.region.va
            expected[at : at + size], data = data[:size], data[size:]
        assert peer.region.read(0, 16384) == expected


@cocotb.test()
async def sequence_numbers(dut) -> None:
    """A gap is reported once; repeats are answered and not done again, results of atomics kept."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench)
    at = -peer.region.va % 8
    fields = dict(va=peer.region.va + at, swap=1)
    peer.region.write(at, bytes(8))
    results = []
    for i in range(4):
        (answer,) = await peer.ask(peer.packet(0x14, psn=(peer.psn + i) % 2**24, **fields))
        results.append(answer)
        assert (answer.opcode, answer.swap, answer.msn) == (0x12, i, i + 1)
    for i in random.sample(range(4), 4):
        (answer,) = await peer.ask(peer.packet(0x14, psn=(peer.psn + i) % 2**24, **fields))
        assert (answer.psn, answer.swap) == (results[i].psn, i)
    # So old that it is not kept any more: silence.
    assert not await peer.ask(peer.packet(0x14, psn=(peer.psn - 1) % 2**24, **fields))
    assert peer.region.read(at, 8) == (4).to_bytes(8, "little")
    now = (peer.psn + 4) % 2**24
    ahead = [peer.packet(0x0A, psn=(now + n) % 2**24, payload=b"ahead") for n in (1, 2, 3)]
    answers = await peer.ask(*ahead)
    assert [(a.syndrome, a.psn) for a in answers] == [(NAK_SEQUENCE, now)]
    writes = [peer.packet(0x0A, psn=now, payload=b"first"), *ahead]
    answers = await peer.ask(*writes)
    assert [(a.syndrome, a.psn) for a in answers] == [(ACK, w.psn) for w in writes]
    peer.region.write(0, b"other")
    answers = await peer.ask(*writes[:2])
    assert [a.psn for a in answers] == [writes[-1].psn] * 2, "repeats are answered with the last"
    assert peer.region.read(0, 5) == b"other"


@cocotb.test()
async def not_ready_and_out_of_sequence(dut) -> None:
    """A peer that is not ready may say of what is behind that it is out of sequence: no retry."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench, timeout=0, retry=2)
    engine = bench.engines[0]
    index = peer.qp.post(host.SEND, laddr=peer.region.va, lkey=peer.region.key, length=3 * MTU)
    for _ in range(4):
        count = len(bench.frames)
        await bench.until(lambda count=count: len(bench.frames) == count + 3)
        for syndrome in (0x21, NAK_SEQUENCE, NAK_SEQUENCE):
            packet = peer.packet(0x11, psn=peer.qp.psn, syndrome=syndrome)
            engine.arrive(packet.frame())
    await bench.until(lambda: len(bench.frames) == 5 * 3)
    await peer.ask(peer.packet(0x11, psn=(peer.qp.psn + 2) % 2**24, syndrome=ACK))
    cqe = await bench.poll(peer.qp.scq)
    assert (cqe.index, cqe.status) == (index, host.SUCCESS)


@cocotb.test()
async def answers_to_nothing(dut) -> None:
    """Acknowledgments, responses and NAKs that nobody has asked for change nothing."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench, timeout=0)
    engine = bench.engines[0]
    kinds = [0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12]
    for _ in range(60):
        opcode = random.choice(kinds)
        payload = random.randbytes(random.choice([0, 8, MTU])) if opcode < 0x11 else b""
        syndrome = random.choice([ACK, 0x21, NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS, 0x63])
        psn = random.choice([peer.qp.psn, peer.qp.psn - 1, random.getrandbits(24)]) % 2**24
        packet = peer.packet(opcode, psn=psn, payload=payload, syndrome=syndrome)
        assert not await peer.ask(packet)
    assert (await engine.counters())["rx_ghost"] == 60
    # A READ under way, and responses for it that are of another length or kind.
    for opcode, size in ((0x10, 8), (0x0D, MTU), (0x0F, 99), (0x12, 0)):
        await peer.again()
        before = peer.region.read(0, 16384)
        index = peer.qp.post(host.READ, laddr=peer.region.va, lkey=peer.region.key, length=100,
                             raddr=0, rkey=0)  # fmt: skip
        await bench.steps(200)
        wrong = peer.packet(opcode, psn=peer.qp.psn, payload=random.randbytes(size))
        await peer.ask(wrong)
        cqe = await bench.poll(peer.qp.scq)
        assert (cqe.index, cqe.status) == (index, host.BAD_RESP)
        assert peer.region.read(0, 16384) == before
    found = await engine.counters()
    # Packets for no QP of ours, from another address, of another service.
    await peer.again()
    for fields in ({"qpn": 64}, {"qpn": 63}, {"qpn": 0xFFFFFF}, {"ip": roce.IP_A + 9}):
        assert not await peer.ask(peer.packet(0x0A, payload=b"12345678", **fields))
    assert not await peer.ask(peer.packet(0x64, payload=b"12345678"))
    assert (await engine.counters())["rx_no_qp"] == found["rx_no_qp"] + 5


@cocotb.test()
async def random_packets(dut) -> None:
    """Packets with random fields, near to right: no write where none may be; the engine lives."""
    bench = await Bench(dut).start()
    peer = await Peer.connect(bench, timeout=0)
    engine = bench.engines[0]
    for number in range(FUZZ):
        packet = roce.random_packet(limit=MTU + 8)
        if random.random() < 0.9:
            packet.qpn = peer.qp.number
        if number % 3 == 0:
            await peer.again()
            for _ in range(3):
                peer.qp.receive(peer.region.va + 9000, peer.region.key, random.randrange(5000))
            peer.qp.post(random.choice([host.WRITE, host.READ]), laddr=peer.region.va,
                         lkey=peer.region.key, length=100)  # fmt: skip
        if random.random() < 0.9:
            packet.psn = (peer.psn + random.choice([0, 0, 0, 0, 1, -1, 3])) % 2**24
        if random.random() < 0.8:
            packet.key = peer.region.key
            packet.va = peer.region.va + random.choice([0, 8, 40, -8, 16380, 16384])
            packet.length = random.choice([packet.bytes, packet.bytes, random.randrange(5000)])
        await peer.ask(packet)
        while peer.qp.scq.poll():
            pass
    await peer.again()
    data = random.randbytes(100)
    (answer,) = await peer.ask(peer.packet(0x0A, payload=data))
    assert answer.syndrome == ACK and peer.region.read(0, 100) == data
    found = await engine.counters()
    for name in ("rx_no_qp", "rx_duplicate", "rx_sequence", "rx_invalid", "rx_access"):
        assert found[name], f"{name} has not happened"


def test_uzura_hostile() -> None:
    """A hostile peer."""
    build_and_run(
        "uzura_pair", __name__, filelists=["rtl/uzura/uzura.f"],
        sources=["verif/uzura/uzura_pair.sv"], parameters={"MemLatency": 1},
    )  # fmt: skip
