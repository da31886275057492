# SPDX-License-Identifier: Apache-2.0
"""Bench of the rigs: testers around the switch read what the bench sees at the pins."""

from __future__ import annotations

import ipaddress
import os
import random
import sys
from collections import deque
from pathlib import Path

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from harness import build_and_run, drawn
from tester_ref import CLEAR, REG, START, STREAM_FIELDS, STREAMS, Settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fibnic"))

from fib_ref import Table4, Table6
from router_ref import COUNTERS

PERIOD_PS = 6400
PORTS = 4
# Frames of an input that may wait for an output, see forward_fifo.
WAITING = 4
ALL_PORTS = 15
MEM_NEXT_HOP, MEM_PORT = 21, 26
# Bytes of a cycle: tells the speed.
FAST, SLOW = 8, 1
# Half cycles from preamble to preamble, both families, at most.
BOUND = {FAST: (2 * 16, 2 * 24), SLOW: (2 * 54, 2 * 72)}


def tester_mac(port: int) -> bytes:
    """MAC address of a tester."""
    return bytes([2, 0, 0, 0, 0, port])


def switch_mac(port: int) -> bytes:
    """MAC address of a port of the switch."""
    return bytes([2, 0, 0, 0, 1, port])


class Rig:
    """The rig, its routes, and a watch of the pins."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.rand = random.Random(random.getrandbits(64))
        self.cycle_bytes = int(os.environ["CYCLE_BYTES"])
        # The sizes that tb_rfc2544 has.
        self.tables = {4: Table4(1024, 16, 256), 6: Table6([256] * 7, 1024, 256, 4)}
        self.cycle = 0
        # Times, in half cycles, of the first bits into and out of each port.
        self.ins: list[deque[int]] = [deque() for _ in range(PORTS)]
        self.outs: list[deque[int]] = [deque() for _ in range(PORTS)]

    async def start(self) -> None:
        """Clock, reset, a neighbour and a network of both families at each port."""
        dut = self.dut
        for name in "t_wr t_addr t_wdata wr_valid wr_mem wr_addr wr_data cnt_idx".split():
            dut[name + "_i"].value = 0
        Clock(dut.clk_i, PERIOD_PS, "ps").start()
        dut.rst_i.value = 1
        for _ in range(8):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        for _ in range(8):
            await RisingEdge(dut.clk_i)
        for p in range(PORTS):
            await self.fill(MEM_PORT, p << 3, int.from_bytes(switch_mac(p), "big"))
            mac = int.from_bytes(tester_mac(p), "big")
            await self.fill(MEM_NEXT_HOP, p + 1, mac << 6 | p << 1 | 1)
            await self.route(f"198.18.{p}.0/24", p)
            await self.route(f"2001:2:0:{p}::/64", p)
        cocotb.start_soon(self.watch())

    async def fill(self, mem: int, addr: int, data: int) -> None:
        """Write a word of the switch."""
        dut = self.dut
        dut.wr_valid_i.value = 1
        dut.wr_mem_i.value, dut.wr_addr_i.value, dut.wr_data_i.value = mem, addr, data
        while True:
            await RisingEdge(dut.clk_i)
            if dut.wr_ready_o.value:
                break
        dut.wr_valid_i.value = 0

    async def route(self, prefix: str, port: int) -> None:
        """Route a prefix to the neighbour at a port."""
        net = ipaddress.ip_network(prefix)
        change = (int(net.network_address), net.prefixlen)
        for write in self.tables[net.version].change(change, port << 12 | port + 1):
            await self.fill(*write)

    async def watch(self) -> None:
        """Note when frames start on the pins, cycle by cycle."""
        dut = self.dut
        while True:
            await FallingEdge(dut.clk_i)
            self.cycle += 1
            for first, half, times in (
                (dut.in_first_o, dut.in_half_o, self.ins),
                (dut.out_first_o, dut.out_half_o, self.outs),
            ):
                found = int(first.value)
                for p in range(PORTS) if found else ():
                    if found >> p & 1:
                        times[p].append(2 * self.cycle + (int(half.value) >> p & 1))

    async def write(self, port: int, addr: int, data: int) -> None:
        """Write a register of a tester."""
        dut = self.dut
        dut.t_wr_i.value = 1
        dut.t_addr_i.value, dut.t_wdata_i.value = port << 12 | addr, data % 2**64
        await RisingEdge(dut.clk_i)
        dut.t_wr_i.value = 0

    async def read(self, port: int, addr: int) -> int:
        """Read a register of a tester."""
        self.dut.t_addr_i.value = port << 12 | addr
        await RisingEdge(self.dut.clk_i)
        self.dut.t_addr_i.value = self.rand.randrange(65536)
        await ReadOnly()
        data = int(self.dut.t_rdata_o.value)
        await RisingEdge(self.dut.clk_i)
        return data

    async def set(self, port: int, want: Settings, count: int, interval: int) -> None:
        """Tell a tester what to send."""
        wide = {"SRC_IP": want.src_ip, "DST_IP": want.dst_ip}
        numbers = {n: int(ipaddress.ip_address(a)) for n, a in wide.items()} | {"STEP": want.step}
        for name, value in numbers.items():
            await self.write(port, REG[name], value >> 64)
            await self.write(port, REG[name] + 1, value)
        values = {
            "SRC_MAC": int.from_bytes(tester_mac(port), "big"),
            "DST_MAC": int.from_bytes(switch_mac(port), "big"),
            "STREAM": want.ttl << 8 | want.stream << 4 | want.v6,
            "SIZE": want.size,
            "COUNT": count,
            "INTERVAL": interval,
            "SWEEP": want.sweep,
        }
        for name, value in values.items():
            await self.write(port, REG[name], value)

    async def run(self, port: int = ALL_PORTS) -> None:
        """Clear everything, start a tester or all at once, wait for the end."""
        dut = self.dut
        for times in (*self.ins, *self.outs):
            times.clear()
        await self.write(ALL_PORTS, REG["CONTROL"], CLEAR)
        await self.write(port, REG["CONTROL"], START)
        await FallingEdge(dut.busy_o)
        for _ in range(100):
            await RisingEdge(dut.clk_i)
            assert not dut.busy_o.value, "busy again without new input"
        for port in range(PORTS):
            assert await self.read(port, REG["CONTROL"]) == 0

    async def stream(self, port: int, stream: int) -> dict[str, int]:
        """Read all results of a stream."""
        base = STREAMS + 16 * stream
        return {name: await self.read(port, base + i) for i, name in enumerate(STREAM_FIELDS)}

    async def counters(self, port: int) -> dict[str, int]:
        """Read the switch's counters of a port."""
        dut = self.dut
        # A pulse waits for the sweep of the counters.
        for _ in range(140):
            await RisingEdge(dut.clk_i)
        found = {}
        for i, name in enumerate(COUNTERS):
            dut.cnt_idx_i.value = port << 7 | i
            for _ in range(4):
                await RisingEdge(dut.clk_i)
            found[name] = int(dut.cnt_o.value)
        return found

    def settings(self, port: int, target: int, v6: bool, size: int) -> Settings:
        """Frames of a tester to the network at a port, stream by sender."""
        want = Settings(v6=v6, size=size, stream=port, ttl=self.rand.randint(2, 255))
        if v6:
            want.src_ip = f"2001:2:0:{port}::{self.rand.randrange(1, 0xFFFF):x}"
            want.dst_ip = f"2001:2:0:{target}::{self.rand.randrange(0xFFFF):x}"
        else:
            want.src_ip = f"198.18.{port}.{self.rand.randint(1, 254)}"
            want.dst_ip = f"198.18.{target}.{self.rand.randint(1, 254)}"
        return want

    async def check(self, pairs: list[tuple[int, int]], count: int, size: int) -> set[int]:
        """Compare what the testers read with what was on the pins; return the latencies."""
        seen: set[int] = set()
        for source, target in pairs:
            ins, outs = list(self.ins[source]), list(self.outs[target])
            assert len(ins) == len(outs) == count, (source, target, len(ins), len(outs))
            pins = [o - i for i, o in zip(ins, outs, strict=True)]
            found = await self.stream(target, source)
            apart = found.pop("last") - found.pop("first")
            assert apart == outs[-1] - outs[0]
            assert found == dict.fromkeys(found, 0) | {
                "frames": count,
                "next": count,
                "bytes": count * size,
                "min": min(pins),
                "max": max(pins),
                "sum": sum(pins),
            }, (source, target, found, pins[:5])
            assert await self.read(source, REG["TX_FRAMES"]) == count
            seen |= set(pins)
        return seen


@cocotb.test()
async def line_rate(dut) -> None:
    """All ports at line rate with the smallest frames: no loss, and the latency of the pins."""
    rig = Rig(dut)
    await rig.start()
    for v6 in (False, True):
        size = 80 if v6 else 64
        shift = rig.rand.randint(1, PORTS - 1)
        pairs = [(p, (p + shift) % PORTS) for p in range(PORTS)]
        count = 400 if rig.cycle_bytes == FAST else 60
        for source, target in pairs:
            await rig.set(source, rig.settings(source, target, v6, size), count, 0)
        await rig.run()
        seen = await rig.check(pairs, count, size)
        dut._log.info(f"line rate, {'IPv6' if v6 else 'IPv4'}, {size} bytes: {sorted(seen)}")
        # The start of a frame may wait for half a cycle at 10G.
        assert max(seen) - min(seen) <= (2 if rig.cycle_bytes == FAST else 0), seen
        assert max(seen) <= BOUND[rig.cycle_bytes][v6] + 1, seen


@cocotb.test()
async def latency_is_constant(dut) -> None:
    """Frames of all sizes, far apart: one latency for each family, the same at each port."""
    rig = Rig(dut)
    await rig.start()
    for v6 in (False, True):
        seen: set[int] = set()
        sizes = [80 if v6 else 64, rig.rand.randint(80, 600), 1518]
        for size in [*sizes, 9216] if rig.cycle_bytes == FAST else sizes:
            targets = rig.rand.sample(range(PORTS), PORTS)
            pairs = list(enumerate(targets))
            for source, target in pairs:
                want = rig.settings(source, target, v6, size)
                # A cycle is the quantum of a start: all are in the first half.
                await rig.set(source, want, 5, 256 * 8 * (size // 8 + rig.rand.randint(8, 40)))
            await rig.run()
            seen |= await rig.check(pairs, 5, size)
        dut._log.info(f"{'IPv6' if v6 else 'IPv4'}: {sorted(seen)} half cycles")
        assert len(seen) == 1 and max(seen) <= BOUND[rig.cycle_bytes][v6], seen


@cocotb.test()
async def sweep(dut) -> None:
    """A sweep over /24 prefixes of three ports: every frame arrives at its own, equally late."""
    rig = Rig(dut)
    await rig.start()
    source = rig.rand.randrange(PORTS)
    targets = [p for p in range(PORTS) if p != source]
    nets = [rig.rand.choice(targets) for _ in range(32)]
    for i, port in enumerate(nets):
        await rig.route(f"10.77.{i}.0/24", port)
    want = rig.settings(source, source, False, 64)
    want.dst_ip, want.step, want.sweep = "10.77.0.1", 256, len(nets)
    rounds = 3
    await rig.set(source, want, rounds * len(nets), 256 * 88)
    await rig.run(source)
    assert await rig.read(targets[0], REG["TX_FRAMES"]) == 0
    found = {p: await rig.stream(p, source) for p in targets}
    for p in targets:
        assert found[p]["frames"] == rounds * nets.count(p), (p, found)
    # The interval is a whole number of cycles: all frames start in the first half of one.
    latencies = {f[n] for f in found.values() if f["frames"] for n in ("min", "max")}
    assert len(latencies) == 1 and max(latencies) <= BOUND[rig.cycle_bytes][0], latencies
    # Numbers of frames that went elsewhere are missing at a port.
    assert all(f["frames"] + f["lost"] == f["next"] for f in found.values())


@cocotb.test()
async def congestion(dut) -> None:
    """Three senders at line rate to one port: a third each, whole frames, each accounted for."""
    rig = Rig(dut)
    await rig.start()
    target = rig.rand.randrange(PORTS)
    sources = [p for p in range(PORTS) if p != target]
    size = rig.rand.choice([64, 65, 200])
    count = 500 if rig.cycle_bytes == FAST else 60
    await rig.set(target, rig.settings(target, sources[0], False, size), 1, 0)
    for p in sources:
        await rig.set(p, rig.settings(p, target, False, size), count, 0)
    await rig.run()
    shares = []
    for p in sources:
        found = await rig.stream(target, p)
        shares.append(found["frames"])
        # Sequence numbers show what the switch says that it dropped, up to the last that came.
        full = (await rig.counters(p))["full"]
        assert found["frames"] + full == count
        assert found["lost"] == found["next"] - found["frames"] <= full
        assert not any(found[n] for n in ("duplicates", "reordered", "stale", "wrong"))
    dut._log.info(f"3 to 1, {size} bytes: {shares} of {count} each")
    assert await rig.read(target, REG["RX_GOOD"]) == sum(shares)
    for name in ("RX_ERROR", "RX_RUNT", "RX_BAD_FCS", "RX_NOT_OURS"):
        assert await rig.read(target, REG[name]) == 0
    # Some frames of each input may wait for the output: the last ones of all get through, too.
    assert max(shares) - min(shares) <= 0.01 * count + 2
    assert abs(sum(shares) / (3 * count) - 1 / 3 - WAITING / count) < 0.02


@pytest.mark.parametrize("fast", drawn("rfc2544", [1, 0], 1))
def test_rfc2544(fast: int) -> None:
    """Run all, at 10G and at 1G."""
    ran = build_and_run(
        "tb_rfc2544",
        __name__,
        filelists=["rtl/tester/rfc2544.f"],
        sources=["verif/tester/tb_rfc2544.sv"],
        parameters={"Fast": fast},
        extra_env={"CYCLE_BYTES": str(FAST if fast else SLOW)},
        # Parts that are there four times keep their own class: a fraction of the C++.
        build_args=["-Wno-UNUSEDPARAM", "--inline-mult", "1", "--unroll-count", "16"],
    )
    assert ran == 4
