# SPDX-License-Identifier: Apache-2.0
"""Two 10G NICs back to back: latency at all clock phases, and stores at line rate.

Latency is from the edge that moves a store's first TLP beat into one NIC to the edge that moves the
DMA write's first beat out of the other: no PHY, no cable, no host. "lane 4" is the same with half a
word (3.2 ns) of wire in between, so that the receiver sees every frame start in lane 4; the wire is
part of the figure. The line-rate test is short here; crates/rtl/tests/line_rate.rs is the long one.

The periods are 4 and 6.4 ns: over 8 PCIe cycles a store meets every eighth of the network's cycle,
so the sender's phase is moved over 0.8 ns only, the receiver's over its whole cycle.
"""

from __future__ import annotations

import json
import os
import random
from itertools import product
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from harness import ROOT, build_and_run
from nic_bench import PAGE_MAP, PC_IDS, REG_IP, REG_MAC_LO, REG_NETMASK, REGIONS
from nic_ref import NIC_A, NIC_B
from raw_tlp import BAR_PAGES, BAR_REGISTERS, TlpSink, TlpSource, quiet

PCIE_PS, NET_PS = 4000, 6400
STEP_PS = 400
# Worst case of a 4-byte store, by format and lane. A frame that starts in lane 4 ends half a word
# later, which is a whole word to the receiver's clock.
LIMIT_NS = {("compact", 0): 100.0, ("compact", 4): 106.4, ("tlp", 0): 112.8, ("tlp", 4): 119.2}
BASE = 0x100000
STORES = int(os.environ.get("IPNUMA_LINE_RATE_STORES", "4000"))


def write_tlp(address: int, data: bytes, four_dw: bool = False) -> bytes:
    """Make a memory write of whole DWs."""
    dws = len(data) // 4
    head = bytes([0x60 if four_dw else 0x40, 0, 0, dws, 0, 0, 0, 0xFF if dws > 1 else 0x0F])
    return head + address.to_bytes(8 if four_dw else 4, "big") + data


class Pair:
    """Both NICs, configured through BAR 0."""

    def __init__(self, dut) -> None:
        """Take the DUT."""
        self.dut = dut
        self.clocks: list[Clock] = []

    def clock(self, a_ps: int, b_ps: int) -> None:
        """Start all clocks, those of the PCIe sides some time after the network's."""

        async def one(signal, period: int, delay: int) -> None:
            if delay:
                await Timer(delay, "ps")
            clock = Clock(signal, period, "ps")
            clock.start()
            self.clocks.append(clock)

        cocotb.start_soon(one(self.dut.clk_net_i, NET_PS, 0))
        cocotb.start_soon(one(self.dut.a_clk_pcie_i, PCIE_PS, a_ps))
        cocotb.start_soon(one(self.dut.b_clk_pcie_i, PCIE_PS, b_ps))

    async def rephase(self, a_ps: int, b_ps: int) -> None:
        """Stop the clocks while nothing happens, and start them in other phases."""
        for clock in self.clocks:
            clock.stop()
        self.clocks.clear()
        await Timer(2 * NET_PS, "ps")
        self.clock(a_ps, b_ps)
        await ClockCycles(self.dut.clk_net_i, 4)

    async def start(self) -> Pair:
        """Reset and configure."""
        dut = self.dut
        quiet()
        dut.rst_i.value = 1
        dut.shift_i.value = 0
        dut.gen_stores_i.value = 0
        dut.gen_pause_i.value = 0
        self.clock(0, 0)
        self.a, self.b = TlpSource(dut, "a_"), TlpSource(dut, "b_")
        self.out_a, self.out_b = TlpSink(dut, "a_"), TlpSink(dut, "b_")
        await ClockCycles(dut.clk_net_i, 10)
        dut.rst_i.value = 0
        await ClockCycles(dut.clk_net_i, 10)
        for source, own in ((self.a, NIC_A), (self.b, NIC_B)):
            await self.write(source, REG_MAC_LO, [own.mac & 0xFFFFFFFF, own.mac >> 32])
            await self.write(source, REG_IP, [own.ip])
            await self.write(source, REG_NETMASK, [0xFFFFFF00])
        # PC ID 1: compact, 2: tlp. Page 0, 1: the same region of B.
        for pc_id in (1, 2):
            entry = (pc_id == 1) << 97 | 1 << 96 | 3422 << 80 | NIC_B.mac << 32 | NIC_B.ip
            await self.write(
                self.a, PC_IDS + 16 * pc_id, [entry >> 32 * i & 0xFFFFFFFF for i in range(4)]
            )
            await self.write(self.a, PAGE_MAP + 8 * (pc_id - 1), [0, pc_id << 16])
        await self.write(self.b, REGIONS, [BASE, 0, 0, 4095, 0, 0, 0, 3])
        await self.settle()
        return self

    async def write(self, source: TlpSource, address: int, dws: list[int]) -> None:
        """Write registers."""
        for i, dw in enumerate(dws):
            tlp = write_tlp(address + 4 * i, dw.to_bytes(4, "little"))
            await source.send(tlp, BAR_REGISTERS)

    async def settle(self) -> None:
        """Wait until both are idle."""
        idle = 0
        while idle < 30:
            await RisingEdge(self.dut.clk_net_i)
            idle = 0 if int(self.dut.busy_o.value) else idle + 1


@cocotb.test()
async def latency(dut) -> None:
    """Measure every format, size and lane at all phases; store the figures and check the limits."""
    pair = await Pair(dut).start()
    figures: dict[str, list[int]] = {}
    for a_ps, b_ps, shift in product(range(0, 800, STEP_PS), range(0, PCIE_PS, STEP_PS), (0, 1)):
        dut.shift_i.value = shift
        await pair.rephase(a_ps, b_ps)
        for page, dws in product((0, 1), (1, 16)):
            name = f"{'compact' if page == 0 else 'tlp':7} lane {4 * shift} {4 * dws:2} bytes"
            for i in range(8):
                data = random.randbytes(4 * dws)
                await pair.a.send(write_tlp(4096 * page + 64 * i, data), BAR_PAGES)
                # 8 n + 1 cycles from one store to the next.
                spent = (dws + 4) // 2
                await ClockCycles(dut.a_clk_pcie_i, 89 - spent)
                tlp = pair.out_b.queue.get_nowait()
                assert tlp == bytes(tlp[:8]) + (BASE + 64 * i).to_bytes(4, "big") + data
                sent, arrived = pair.a.log[-1][0], pair.out_b.log[-1][0]
                assert pair.out_b.queue.empty()
                figures.setdefault(name, []).append(arrived - sent)
        await pair.settle()
    print(f"{'store':24} {'min':>7} {'mean':>7} {'worst':>7}  ns")
    for name, values in figures.items():
        mean = sum(values) / len(values) / 1000
        print(f"{name:24} {min(values) / 1000:7.1f} {mean:7.1f} {max(values) / 1000:7.1f}")
    Path(os.environ["IPNUMA_LATENCY_OUT"]).write_text(json.dumps(figures))
    for (kind, lane), limit in LIMIT_NS.items():
        worst = max(figures[f"{kind:7} lane {lane}  4 bytes"]) / 1000
        assert worst <= limit, f"{kind}, lane {lane}: {worst} ns"


@cocotb.test()
async def line_rate(dut) -> None:
    """Stores of 64 bytes back to back fill the wire to its minimum gaps; all arrive, in order."""
    pair = await Pair(dut).start()
    await pair.rephase(random.randrange(PCIE_PS), random.randrange(PCIE_PS))
    for pause in (0, 100):
        dut.gen_pause_i.value = pause
        dut.gen_stores_i.value = STORES // 2
        done = 0
        while done < STORES // 2:
            await Timer(20, "us")
            now = int(dut.gen_checked_o.value)
            assert now > done, f"nothing arrives any more after {now} stores"
            done = now
        assert int(dut.gen_wrong_o.value) == 0
        frames = int(dut.gen_frames_o.value)
        assert frames == STORES // 2
        # 8 bytes of preamble, 42 + 74 of frame, 4 of FCS, 12 of gap on average.
        per_frame = 8 + 42 + 74 + 4 + 12
        assert abs(int(dut.gen_bytes_o.value) - per_frame * (frames - 1)) <= 8
        assert int(dut.gen_longest_o.value) <= per_frame + 4
        dut.gen_stores_i.value = 0
        await pair.settle()


def test_two_nics() -> None:
    """Both tests with full tables; latency again with small ones: the same figures."""
    out = ROOT / ".build" / "latency"
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for pages, others, testcases in ((262144, 256, None), (1024, 16, ["latency"])):
        path = out / f"{pages}.json"
        build_and_run(
            "two_nics",
            __name__,
            filelists=["rtl/nic/nic.f"],
            sources=["verif/nic/two_nics.sv"],
            parameters={"Pages": pages, "PcIds": others, "Regions": others},
            testcases=testcases,
            build_args=["-Wno-UNUSEDPARAM"],
            extra_env={"IPNUMA_LATENCY_OUT": str(path)},
        )
        figures.append(json.loads(path.read_text()))
    assert figures[0] == figures[1], "the size of the tables changes the latency"
