# SPDX-License-Identifier: Apache-2.0
"""A reset: what was set before counts for nothing, until it is set again."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import cocotb
from cocotb.triggers import RisingEdge
from harness import build_and_run

sys.path.insert(0, str(Path(__file__).resolve().parent))

import uzura_host as host
from test_uzura import pair
from uzura_host import Bench


async def reset(bench: Bench) -> None:
    """Reset both engines; no host waits for anything."""
    bench.dut.in_i.value = 0
    bench.dut.rst_i.value = 1
    for _ in range(8):
        await RisingEdge(bench.dut.clk_i)
    bench.dut.rst_i.value = 0
    bench.wire.clear()
    for engine in bench.engines:
        engine.reads.clear()
        engine.pending.clear()
        engine.rx.clear()
        engine.regs.clear()
        engine.tx.clear()
        engine.answering = engine.writing = None


@cocotb.test()
async def a_queue_pair_from_before_a_reset_is_none(dut) -> None:
    """A peer's packets and doorbells to it do nothing: no answer, no DMA read, no DMA write."""
    bench = await Bench(dut).start()
    old = await pair(bench)
    a, b = bench.engines
    old.b.receive(old.rb.va, old.rb.key, 64)
    old.a.post(host.SEND, inline=random.randbytes(64))
    assert (await bench.poll(old.b.rcq)).status == host.SUCCESS
    assert (await bench.poll(old.a.scq)).status == host.SUCCESS
    await bench.quiet()

    await reset(bench)
    for offset in (0x08, 0x10, 0x18):
        assert await b.read(host.CONTROL + offset) == 0
    await a.begin()
    await b.begin()
    cq = await a.cq()
    again = await a.qp(cq, cq, timeout=4, retry=1)
    again.psn = (old.a.psn + 1) & 0xFFFFFF  # what the old one would expect next
    await again.set(begin=True, state=host.RTS, dqpn=old.b.number, ip=b.ip, mac=b.mac)
    b.marks.clear()
    old.b.receive(old.rb.va, old.rb.key, 64)
    old.b.post(host.SEND, inline=bytes(8))
    for op in (host.SEND, host.WRITE):
        again.post(op, inline=bytes(64), raddr=old.rb.va, rkey=old.rb.key)
    assert (await bench.poll(cq)).status == host.RETRY
    await bench.quiet()
    assert b.marks.keys() == {"doorbell", "rx_first"}, b.marks
    refused = await b.counters()
    assert refused["doorbell_refused"] == 2, refused

    new = await pair(bench)
    data = new.ra.read(0, 64)
    new.b.receive(new.rb.va, new.rb.key, 64)
    new.a.post(host.SEND, inline=data)
    assert (await bench.poll(new.b.rcq)).status == host.SUCCESS
    assert new.rb.read(0, 64) == data


def test_uzura_reset() -> None:
    """All of the above."""
    build_and_run(
        "uzura_pair",
        __name__,
        filelists=["rtl/uzura/uzura.f"],
        sources=["verif/uzura/uzura_pair.sv"],
    )
