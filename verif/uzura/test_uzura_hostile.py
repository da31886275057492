# SPDX-License-Identifier: Apache-2.0
"""A peer that is Scapy: packets that a right peer never sends, answers to nothing, random fields.

What must come back is what the InfiniBand specification names (9.7.4 and 9.9); host memory may be
written only where a region or a queue is, which the bench's memory checks at every write.
"""

from __future__ import annotations

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
ACK, NAK_SEQUENCE, NAK_INVALID, NAK_ACCESS = 0x1F, 0x60, 0x61, 0x62
FUZZ = 400


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
