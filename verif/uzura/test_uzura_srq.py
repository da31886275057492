# SPDX-License-Identifier: Apache-2.0
"""Shared receive queues: several queue pairs, of two peers' messages in between, take from one."""

from __future__ import annotations

import random
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import cocotb
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

import roce
import uzura_host as host
from uzura_host import Bench, Cq, Qp, Region, Segments, Srq

ALL = host.LOCAL_WRITE | host.REMOTE_WRITE | host.REMOTE_READ | host.REMOTE_ATOMIC
PAGE = 4096
SLOT = 4096  # bytes of a buffer in the receiver's region


@dataclass
class Shared:
    """Queue pairs of engine 0, each connected to one of engine 1's, which share a queue."""

    bench: Bench
    srq: Srq
    cq: Cq
    region: Region
    source: Region
    senders: list[Qp] = field(default_factory=list)
    receivers: list[Qp] = field(default_factory=list)
    buffers: dict[int, Segments] = field(default_factory=dict)  # by place

    def post(self, size: int = SLOT, count: int = 1, doorbell: bool = True) -> int:
        """Post a buffer in a slot of its own, of some segments."""
        place = self.srq.places[0]
        segments = Segments.cut(self.region, place * SLOT, size, count)
        assert self.srq.receive_list(*segments.list(), doorbell=doorbell) == place
        self.buffers[place] = segments
        return place

    async def received(self, status: int = host.SUCCESS) -> tuple[host.Cqe, bytes]:
        """Take a completion of the shared queue, and free its place."""
        cqe = await self.bench.poll(self.cq)
        assert (cqe.status, cqe.is_recv) == (status, True)
        data = self.buffers.pop(cqe.index).read()[: cqe.bytes]
        self.srq.free(cqe.index)
        return cqe, data

    def send(self, index: int, data: bytes, op: int = host.SEND, at: int = 0, **f) -> None:
        """Post a request to one of the senders; its data stay where they are until it ends."""
        self.source.write(at, data)
        self.senders[index].post(op, laddr=self.source.va + at, lkey=self.source.key,
                                 length=len(data), **f)  # fmt: skip


async def shared(
    bench: Bench, count: int, log2: int = 4, listed: bool = False, **settings
) -> Shared:
    """Connect queue pairs that share one queue at engine 1."""
    a, b = bench.engines
    pd = settings.pop("srq_pd", 1)
    limit = settings.pop("limit", 0)
    out = Shared(
        bench,
        await b.srq(log2, listed, pd=pd, limit=limit),
        await b.cq(),
        await b.region(SLOT << log2, ALL, pd=pd, offset=random.randrange(PAGE)),
        await a.region(1 << 16, ALL, offset=random.randrange(PAGE)),
    )
    cq_a, cq_b = await a.cq(), await b.cq()
    for _ in range(count):
        out.senders.append(await a.qp(cq_a, cq_a, **settings))
        out.receivers.append(await b.qp(cq_b, out.cq, srq=out.srq, **settings))
        await bench.connect(out.senders[-1], out.receivers[-1])
    return out


@cocotb.test()
async def first_message(dut) -> None:
    """One queue pair, one segment: each entry once, its place in the completion."""
    bench = await Bench(dut).start()
    s = await shared(bench, 1)
    for size in (0, 1, 64, 1024, 1025, 4000):
        place = s.post()
        data = random.randbytes(size)
        s.send(0, data)
        cqe, got = await s.received()
        assert (cqe.index, cqe.bytes, got) == (place, size, data)
        assert (await bench.poll(s.senders[0].scq)).status == host.SUCCESS
    for _, frame in bench.frames:
        roce.parse(frame)


def test_uzura_srq() -> None:
    """All of the above."""
    build_and_run(
        "uzura_pair", __name__, filelists=["rtl/uzura/uzura.f"],
        sources=["verif/uzura/uzura_pair.sv"],
    )  # fmt: skip
