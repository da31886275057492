# SPDX-License-Identifier: Apache-2.0
"""Two 10G NICs back to back: latency at all clock phases, and stores at line rate.

Latency is from the edge that moves a store's first TLP beat into one NIC to the edge that moves the
DMA write's first beat out of the other: no PHY, no cable, no host. "lane 4" is the same with half a
word (3.2 ns) of wire in between, so that the receiver sees every frame start in lane 4; the wire is
part of the figure. The line-rate test is short here; crates/rtl/tests/line_rate.rs is the long one.

Peers with a session must not be slower by more than one cycle of the network clock; sealed ones
have a test of their own, which says what a seal costs.

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
# Of the receiver's phases, where all of them tell nothing new: with other sizes of tables, and
# for what a seal costs.
COARSE_PS = 1600
# Worst case of a 4-byte store, by format and lane. A frame that starts in lane 4 ends half a word
# later, which is a whole word to the receiver's clock.
LIMIT_NS = {("compact", 0): 114.4, ("compact", 4): 120.8, ("tlp", 0): 127.2, ("tlp", 4): 133.6}
# Formats by page: 0, 1 are of no session; 2, 3 of sessions 3, 4; 4 of session 5, which is sealed.
FORMATS = ("compact", "tlp", "compact session", "tlp session", "compact sealed")
SESSIONS, KEYS, REG_CONTROL = 0x010000, 0x020000, 0x44
EPOCH = 1
# What sealing and opening add to a 4-byte store, in network cycles: start 9 cycles later, 3 words
# more on the wire, 10 cycles to open.
SEAL_CYCLES = 22
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
        # PC ID n + 1 is page n: the same region of B.
        for page, kind in enumerate(FORMATS):
            pc_id = page + 1
            session, compact = "se" in kind, "compact" in kind
            entry = session << 98 | compact << 97 | 1 << 96 | 3422 << 80
            entry |= NIC_B.mac << 32 | NIC_B.ip
            await self.entry(self.a, PC_IDS + 16 * pc_id, entry, 4)
            await self.write(self.a, PAGE_MAP + 8 * page, [0, pc_id << 16])
            if session:
                common = EPOCH << 226 | ("sealed" in kind) << 225 | 1 << 224
                common |= random.getrandbits(32) << 96  # the start
                common |= (0xC000 | EPOCH << 8 | pc_id) << 80
                for source, peer in ((self.a, NIC_B), (self.b, NIC_A)):
                    entry = common | peer.mac << 32 | peer.ip
                    await self.entry(source, SESSIONS + 32 * pc_id, entry, 8)
            if "sealed" in kind:
                keys = [random.getrandbits(32) for _ in range(10)]
                await self.write(self.a, KEYS + 64 * pc_id, keys + 6 * [0])
                swapped = keys[4:8] + keys[:4] + [keys[9], keys[8]]
                await self.write(self.b, KEYS + 64 * pc_id, swapped + 6 * [0])
        await self.write(self.b, REGIONS, [BASE, 0, 0, 4095, 0, 0, 0, 3])
        await self.settle()
        return self

    async def write(self, source: TlpSource, address: int, dws: list[int]) -> None:
        """Write registers."""
        for i, dw in enumerate(dws):
            tlp = write_tlp(address + 4 * i, dw.to_bytes(4, "little"))
            await source.send(tlp, BAR_REGISTERS)

    async def entry(self, source: TlpSource, address: int, value: int, dws: int) -> None:
        """Write a table's entry."""
        await self.write(source, address, [value >> 32 * i & 0xFFFFFFFF for i in range(dws)])

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
    figures = await measure(pair, (0, 1, 2, 3), int(os.environ["IPNUMA_LATENCY_STEP"]))
    Path(os.environ["IPNUMA_LATENCY_OUT"]).write_text(json.dumps(figures))
    for (kind, lane), limit in LIMIT_NS.items():
        worst = worst_of(figures, kind, lane, 4) / 1000
        assert worst <= limit, f"{kind}, lane {lane}: {worst} ns"
    for kind, lane, size in product(("compact", "tlp"), (0, 4), (4, 64)):
        plain = worst_of(figures, kind, lane, size)
        session = worst_of(figures, f"{kind} session", lane, size)
        assert session <= plain + NET_PS, (
            f"{kind}, lane {lane}: a session costs {session - plain} ps"
        )


@cocotb.test()
async def sealed_latency(dut) -> None:
    """What a seal costs: constant, and no more than it says."""
    pair = await Pair(dut).start()
    plain = await measure(pair, (2,), COARSE_PS)
    for source in (pair.a, pair.b):
        await pair.write(source, REG_CONTROL, [2])
    await pair.settle()
    sealed = await measure(pair, (4,), COARSE_PS)
    cost = worst_of(sealed, FORMATS[4], 0, 4) - worst_of(plain, FORMATS[2], 0, 4)
    print(f"a seal costs {cost / 1000:.1f} ns")
    # Both ends are edges of the PCIe clock, and not all phases are tried.
    assert cost <= SEAL_CYCLES * NET_PS + PCIE_PS


# Latencies in picoseconds by row (format, lane, size) and phase (of sender and receiver).
Figures = dict[str, dict[str, list[int]]]


def key(kind: str, lane: int, size: int) -> str:
    """Name of a row of figures."""
    return f"{kind:15} lane {lane} {size:2} bytes"


def worst_of(figures: Figures, kind: str, lane: int, size: int) -> int:
    """Return the worst latency of a row, in picoseconds."""
    return max(max(values) for values in figures[key(kind, lane, size)].values())


async def measure(pair: Pair, pages: tuple[int, ...], step_ps: int) -> Figures:
    """Send stores of 4 and 64 bytes to these pages in all phases; print and return latencies."""
    dut = pair.dut
    figures: Figures = {}
    for a_ps, b_ps, shift in product(range(0, 800, STEP_PS), range(0, PCIE_PS, step_ps), (0, 1)):
        dut.shift_i.value = shift
        await pair.rephase(a_ps, b_ps)
        for page, dws in product(pages, (1, 16)):
            row = figures.setdefault(key(FORMATS[page], 4 * shift, 4 * dws), {})
            for i in range(8):
                data = random.randbytes(4 * dws)
                await pair.a.send(write_tlp(4096 * page + 64 * i, data), BAR_PAGES)
                # 8 n + 1 cycles from one store to the next.
                spent = (dws + 4) // 2
                await ClockCycles(dut.a_clk_pcie_i, 129 - spent)
                tlp = pair.out_b.queue.get_nowait()
                assert tlp == bytes(tlp[:8]) + (BASE + 64 * i).to_bytes(4, "big") + data
                sent, arrived = pair.a.log[-1][0], pair.out_b.log[-1][0]
                assert pair.out_b.queue.empty()
                row.setdefault(f"{a_ps}, {b_ps}", []).append(arrived - sent)
        await pair.settle()
    print(f"{'store':31} {'min':>7} {'mean':>7} {'worst':>7}  ns")
    for name, row in figures.items():
        values = [value for phase in row.values() for value in phase]
        mean = sum(values) / len(values) / 1000
        print(f"{name:31} {min(values) / 1000:7.1f} {mean:7.1f} {max(values) / 1000:7.1f}")
    return figures


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
    """All tests with full tables; latency again with small ones: the same in every phase tried."""
    out = ROOT / ".build" / "latency"
    out.mkdir(parents=True, exist_ok=True)
    figures: list[Figures] = []
    builds = ((262144, 256, None, STEP_PS), (1024, 16, ["latency"], COARSE_PS))
    for pages, others, testcases, step_ps in builds:
        path = out / f"{pages}.json"
        build_and_run(
            "two_nics",
            __name__,
            filelists=["rtl/nic/nic.f"],
            sources=[
                "verif/nic/two_nics.sv",
                "verif/pcie/tlp_rules.sv",
                "verif/pcie/tlp_rules_ipnuma.sv",
            ],
            parameters={"Pages": pages, "PcIds": others, "Regions": others},
            testcases=testcases,
            build_args=["-Wno-UNUSEDPARAM"],
            extra_env={"IPNUMA_LATENCY_OUT": str(path), "IPNUMA_LATENCY_STEP": str(step_ps)},
            outputs=[path],
        )
        figures.append(json.loads(path.read_text()))
    full, small = figures
    assert full.keys() == small.keys()
    for name, row in small.items():
        for phase, values in row.items():
            assert full[name][phase] == values, f"the size of the tables counts: {name}, {phase}"
