# SPDX-License-Identifier: Apache-2.0
"""Floods for the host of the 10G switch, and what they take from other ports' frames."""

from __future__ import annotations

from collections import Counter

import cocotb
from cocotb.triggers import RisingEdge
from cocotbext.eth import XgmiiFrame
from fibnic_bench import (
    CHECK_ALWAYS,
    FIELD_CHECK,
    FIELD_POLICE,
    NAMES,
    PERIOD_PS,
    PORTS,
    Bench,
    setup,
    text,
)
from harness import build_and_run
from police_ref import BURST, RATE, word
from scapy.contrib.ospf import OSPF_Hdr, OSPF_Hello
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import ICMPv6ND_NS, IPv6
from scapy.layers.l2 import ARP, Ether

LIMIT_MS = 5  # of simulated time, against hanging
HZ = 10**12 // PERIOD_PS
BUILD = dict(zip(NAMES, (1, 1, 4, 0, 4), strict=True))
ARPS = 5  # what first_frames builds


def first_frames(bench: Bench, port: int, number: int) -> bytes:
    """Build what a neighbour says first: ARP, NDP, OSPF, BGP by turns."""
    src, mine = f"02:00:00:00:40:{number % 256:02x}", text(bench.router.port_macs[port])
    host = f"10.7.{number // 200}.{number % 200 + 1}"
    frame = (
        Ether(dst="ff:ff:ff:ff:ff:ff", src=src) / ARP(psrc=host, pdst="10.9.0.1"),
        Ether(dst="33:33:ff:00:00:01", src=src)
        / IPv6(src=f"fe80::{number + 1:x}", dst="ff02::1:ff00:1", hlim=255)
        / ICMPv6ND_NS(tgt="fe80::1"),
        Ether(dst="01:00:5e:00:00:05", src=src)
        / IP(src=host, dst="224.0.0.5", ttl=1)
        / OSPF_Hdr(src=host)
        / OSPF_Hello(),
        Ether(dst=mine, src=src) / IP(src=host, dst="10.9.0.1", ttl=1) / TCP(dport=179),
        Ether(dst=mine, src=src) / IP(src=host, dst="10.9.0.1") / TCP(dport=179, flags="PA"),
    )[number % ARPS]
    return bytes(frame).ljust(60, b"\0")


class Flood:
    """Ports that send to the host all the time, and one that says little."""

    def __init__(self, bench: Bench, floods: list[int], quiet: int) -> None:
        """Nothing is sent yet."""
        self.bench, self.floods, self.quiet = bench, floods, quiet
        self.sent: dict[int, list[bytes]] = {p: [] for p in range(PORTS)}

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame, and note that it was."""
        self.sent[port].append(frame)
        self.bench.sources[port].send_nowait(XgmiiFrame.from_payload(frame))

    def flood(self, port: int, count: int, sizes: list[int]) -> None:
        """Send to the host at line rate: some for its address, some for all."""
        rand = self.bench.rand
        for n in range(count):
            size = rand.choice(sizes)
            frame = bytearray(self.bench.v4(port, "10.9.0.1", size, id=n & 0xFFFF))
            if rand.random() < 0.3:
                frame[:6] = b"\xff" * 6
            self.send(port, bytes(frame))

    async def speak(self, count: int, gap: tuple[int, int]) -> None:
        """Send first frames of neighbours, some cycles apart."""
        for n in range(count):
            self.send(self.quiet, first_frames(self.bench, self.quiet, n))
            for _ in range(self.bench.rand.randint(*gap)):
                await RisingEdge(self.bench.dut.clk_i)

    async def came(self) -> dict[int, int]:
        """Compare what the host got with what was sent, and the counters; return how many came."""
        bench = self.bench
        came: dict[int, list[bytes]] = {p: [] for p in range(PORTS)}
        for frame, verdict, port, bad in bench.host:
            assert not bad and verdict == bench.router.decide(port, frame)[0]
            came[port].append(frame)
        bench.host.clear()
        for port, frames in came.items():
            # Whole, in their order, none twice.
            rest = iter(self.sent[port])
            assert all(frame in rest for frame in frames), port
        return {port: len(frames) for port, frames in came.items()}


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def a_flood_takes_nothing_of_other_ports(dut) -> None:
    """After reset one port floods the host: another's first frames come, others forward."""
    bench = await setup(dut)
    rand = bench.rand
    flooding, quiet, i, o = rand.sample(range(PORTS), PORTS)
    # Stored or not: what is refused is refused whole.
    await bench.set_field(flooding, FIELD_CHECK, CHECK_ALWAYS * rand.randrange(2))
    run = Flood(bench, [flooding], quiet)
    before = {p: await bench.counters(p) for p in range(PORTS)}
    began = cocotb.simtime.get_sim_time("ps")
    count = 2 * BURST
    run.flood(flooding, count, [64, 64, 64, 80, 200])
    # To one side at line rate, to the other now and then: those are exact to the cycle.
    starts: dict[int, list[XgmiiFrame]] = {i: [], o: []}
    wanted: dict[int, list[bytes]] = {i: [], o: []}

    def forward(a: int, b: int) -> None:
        frame = bench.v4(a, f"10.{b}.0.1", rand.randint(64, 300))
        wanted[b].append(bench.router.decide(a, frame)[2])
        out = XgmiiFrame.from_payload(frame)
        out.tx_complete = starts[b].append
        bench.sources[a].send_nowait(out)

    for _ in range(700):
        forward(i, o)

    async def now_and_then() -> None:
        for _ in range(100):
            forward(o, i)
            for _ in range(rand.randint(80, 200)):
                await RisingEdge(dut.clk_i)

    other = cocotb.start_soon(now_and_then())
    await run.speak(60, (100, 400))
    await other
    await bench.drain()
    cycles = (cocotb.simtime.get_sim_time("ps") - began) // PERIOD_PS
    came = await run.came()
    # All of the quiet port's; of the other's a burst, and what its rate allows.
    assert came[quiet] == len(run.sent[quiet]), came
    assert BURST <= came[flooding] <= BURST + -(-cycles * RATE // HZ), (came, cycles)
    found = {p: await bench.counters(p) - before[p] for p in range(PORTS)}
    lost = found[flooding]["refused"] + found[flooding]["full"]
    assert came[flooding] + lost == count and found[flooding]["full"] < count // 8, found[flooding]
    verdicts = sum(n for name, n in found[flooding].items() if name.startswith("host"))
    assert verdicts == count, "a frame that is refused has its verdict"
    assert all(not found[p]["refused"] and not found[p]["full"] for p in (quiet, i, o)), found
    for b in (i, o):
        got = [bench.sinks[b].recv_nowait() for _ in range(bench.sinks[b].count())]
        assert [bytes(g.get_payload()) for g in got] == wanted[b]
        assert all(g.check_fcs() and not any(g.ctrl or []) for g in got)
        for sent, frame in zip(starts[b], got, strict=True):
            late = bench.cycles(sent, frame) - bench.v4_cycles
            assert late in ((0, 0.5, 1) if b == o else (0, 0.5) if sent.start_lane else (0,)), late
    dut._log.info(f"{came} of {count} came in {cycles} cycles: {dict(found[flooding])}")


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def without_policers_the_ports_take_turns(dut) -> None:
    """All are off, three ports flood a slow host: the fourth one's first frames all come."""
    bench = await setup(dut)
    rand = bench.rand
    quiet, *floods = rand.sample(range(PORTS), PORTS)
    for p in range(PORTS):
        await bench.set_field(p, FIELD_POLICE, word(0, rand.randrange(4096)))
    bench.host_rate = 0.5
    run = Flood(bench, floods, quiet)
    for p in floods:
        run.flood(p, 700, [64, 64, 100])
    # It waits for a frame of each other port, twice as long as the line takes for it.
    await run.speak(20, (150, 400))
    await bench.drain()
    came = await run.came()
    assert came[quiet] == len(run.sent[quiet]), came
    for p in range(PORTS):
        found = await bench.counters(p)
        assert not found["refused"] and found["full"] == len(run.sent[p]) - came[p], (p, found)
    assert all(came[p] < 700 for p in floods), came
    assert max(came[p] for p in floods) - min(came[p] for p in floods) < 60, came


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def settings_of_each_port_are_its_own(dut) -> None:
    """Random bursts for the ports: each lets its own pass, no place is lost, and off is off."""
    bench = await setup(dut)
    rand = bench.rand
    bursts = rand.sample(range(12), PORTS)
    for p, burst in enumerate(bursts):
        await bench.set_field(p, FIELD_POLICE, word(0, burst))
        await bench.set_field(p, FIELD_POLICE, word(1, burst))
    run = Flood(bench, list(range(PORTS)), 0)
    for p in range(PORTS):
        for _ in range(20):
            run.flood(p, 1, [64, 100, 600])
            # Each finds room.
            for _ in range(400):
                await RisingEdge(dut.clk_i)
    await bench.drain()
    came = await run.came()
    assert came == dict(enumerate(bursts))
    for p, burst in enumerate(bursts):
        assert (await bench.counters(p))["refused"] == 20 - burst
        await bench.set_field(p, FIELD_POLICE, word(0, 0))
    # As many wait for a host that stands as before: what was refused has taken no place.
    bench.host_rate = 0
    run = Flood(bench, list(range(PORTS)), 0)
    before = [await bench.counters(p) for p in range(PORTS)]
    for p in range(PORTS):
        run.flood(p, bench.waiting + 3, [64])
    for _ in range(300):
        await RisingEdge(dut.clk_i)
    # One port's first frame is on its way already.
    full = Counter({p: (await bench.counters(p) - before[p])["full"] for p in range(PORTS)})
    assert sorted(full.values()) == [2, 3, 3, 3], full
    bench.host_rate, dut.m_host_tready_i.value = 1, 1
    await bench.drain()
    assert await run.came() == {p: bench.waiting + 3 - full[p] for p in range(PORTS)}


def test_fibnic_flood() -> None:
    """Run all on the build with the crossing of the receive clocks."""
    build_and_run(
        "tb_fibnic",
        __name__,
        filelists=["rtl/fibnic/fibnic.f"],
        sources=["verif/fibnic/tb_fibnic.sv"],
        parameters=BUILD,
        extra_env={name.upper(): str(value) for name, value in BUILD.items()},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
