# SPDX-License-Identifier: Apache-2.0
"""Register accesses to another clock: while it is there, stands, and comes back."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer
from harness import build_and_run

PATIENCE = 200


@dataclass
class Bench:
    """An asker, and registers that answer after some time, in a clock that can be stopped."""

    dut: object
    registers: dict[int, int] = field(default_factory=dict)
    done: list[tuple[int, int, int]] = field(default_factory=list)
    slow: int = 8

    async def start(self) -> Bench:
        """Reset both sides."""
        dut = self.dut
        dut.src_req_i.value = dut.dst_rsp_i.value = 0
        dut.src_rst_i.value = dut.dst_rst_i.value = 1
        Clock(dut.src_clk_i, 4000, "ps").start()
        self.far = Clock(dut.dst_clk_i, random.choice((1800, 6400, 8000)), "ps")
        self.far.start()
        await ClockCycles(dut.dst_clk_i, 10)
        dut.dst_rst_i.value = dut.src_rst_i.value = 0
        await ClockCycles(dut.dst_clk_i, 10)
        await RisingEdge(dut.src_clk_i)
        cocotb.start_soon(self.answer())
        return self

    async def answer(self) -> None:
        """Carry out what comes, as registers do: DW `addr` is refused where it ends in 0xC."""
        dut = self.dut
        while True:
            await RisingEdge(dut.dst_clk_i)
            await ReadOnly()
            req = int(dut.dst_req_o.value)
            if not req >> 56 & 1:
                continue
            await ClockCycles(dut.dst_clk_i, random.randrange(1, self.slow))
            write, address, data = req >> 55 & 1, req >> 32 & 0x7FFFFF, req & 0xFFFFFFFF
            ok = address & 0xF != 0xC
            if ok and write:
                self.registers[address] = data
            read = self.registers.get(address, 0) if ok and not write else 0
            self.done.append((write, address, data))
            dut.dst_rsp_i.value = 1 << 33 | ok << 32 | read
            await RisingEdge(dut.dst_clk_i)
            dut.dst_rsp_i.value = 0

    async def access(self, address: int, data: int | None = None) -> tuple[int, int, int]:
        """Ask, and return the cycles that it took, `ok` and what was read."""
        dut = self.dut
        write = data is not None
        dut.src_req_i.value = 1 << 56 | write << 55 | address << 32 | (data or 0)
        for cycle in range(10 * PATIENCE):
            await ReadOnly()
            rsp = int(dut.src_rsp_o.value)
            await RisingEdge(dut.src_clk_i)
            if rsp >> 33:
                dut.src_req_i.value = 0
                return cycle, rsp >> 32 & 1, rsp & 0xFFFFFFFF
        raise AssertionError("an access hangs")


def address() -> int:
    """Return one of a few registers."""
    return random.randrange(16) << 2


@cocotb.test()
async def random_accesses(dut) -> None:
    """With both clocks there every access is carried out, once, and answered with what is there."""
    b = await Bench(dut).start()
    expected: dict[int, int] = {}
    for count in range(300):
        at = address()
        data = random.getrandbits(32) if random.random() < 0.5 else None
        cycles, ok, read = await b.access(at, data)
        assert cycles < PATIENCE and ok == (at & 0xF != 0xC)
        if ok and data is not None:
            expected[at] = data
        assert read == (expected.get(at, 0) if ok and data is None else 0)
        assert len(b.done) == count + 1
        await ClockCycles(dut.src_clk_i, random.choice((1, 2, 9)))


@cocotb.test()
async def the_far_clock_stands(dut) -> None:
    """Who asks then is told no, in time; later no answer is taken for another's."""
    b = await Bench(dut).start()
    for _ in range(60):
        before = len(b.done)
        b.registers.update({at: random.getrandbits(32) for at in range(0, 64, 4)})
        crossed = None
        asking = random.random() < 0.7
        b.far.stop()
        await Timer(random.randrange(1, 20_000), "ps")
        await RisingEdge(dut.src_clk_i)
        if asking:
            for _ in range(random.randint(1, 3)):
                at = address()
                data = random.getrandbits(32) if random.random() < 0.5 else None
                cycles, ok, read = await b.access(at, data)
                assert PATIENCE <= cycles + 1 <= PATIENCE + 2, cycles
                assert not ok and read == 0xFFFFFFFF
                # Only the first has crossed.
                crossed = crossed or (data is not None, at, data or 0)
                await ClockCycles(dut.src_clk_i, random.choice((1, 2, 9)))
        # Somebody asks while it comes back.
        late = cocotb.start_soon(b.access(4, None)) if random.random() < 0.5 else None
        await Timer(random.randrange(1, PATIENCE * 3000), "ps")
        b.far = Clock(dut.dst_clk_i, random.choice((1800, 6400, 8000)), "ps")
        b.far.start()
        if late:
            cycles, ok, read = await late
            assert ok and read == b.registers[4]
        await ClockCycles(dut.src_clk_i, random.choice((1, 2, 9, 40)))
        for at in random.sample(range(0, 64, 4), 3):
            cycles, ok, read = await b.access(at)
            assert cycles < PATIENCE and ok == (at & 0xF != 0xC)
            assert read == (b.registers[at] if ok else 0)
        first = b.done[before:][0]
        assert crossed is None or first == crossed
        assert len(b.done) - before == (crossed is not None) + (late is not None) + 3


@cocotb.test()
async def an_answer_at_the_last_moment(dut) -> None:
    """Answers around the end of patience: each access has one answer, and it is its own."""
    b = await Bench(dut).start()
    b.registers.update({at: 0x1000 + at for at in range(0, 64, 4)})
    told_no = 0
    for _ in range(150):
        at = random.choice([a for a in range(0, 64, 4) if a & 0xF != 0xC])
        b.far.stop()
        await RisingEdge(dut.src_clk_i)
        asked = cocotb.start_soon(b.access(at))
        await Timer(4 * PATIENCE - 110 + random.randrange(140), "ns")
        b.far = Clock(dut.dst_clk_i, random.choice((1800, 6400)), "ps")
        b.far.start()
        _, ok, read = await asked
        assert read == (0x1000 + at if ok else 0xFFFFFFFF)
        told_no += not ok
        again = at ^ 0x10
        _, ok, read = await b.access(again)
        assert ok and read == 0x1000 + again
        await ClockCycles(dut.src_clk_i, 3)
    assert 10 < told_no < 140, told_no


def test_reg_cdc() -> None:
    """All tests above."""
    build_and_run(
        "reg_cdc",
        __name__,
        filelists=["rtl/pcie/pcie.f"],
        parameters={"Patience": PATIENCE},
        build_args=["-Wno-UNUSEDPARAM"],
    )
