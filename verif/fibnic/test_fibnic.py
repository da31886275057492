# SPDX-License-Identifier: Apache-2.0
"""Bench of the switch at 10G: every frame against the model, its latency in cycles, losses."""

from __future__ import annotations

import ipaddress
import logging
import os
import random
import struct
import zlib
from collections import Counter

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotbext.eth import XgmiiFrame, XgmiiSink, XgmiiSource
from fib_ref import Table4, Table6
from harness import build_and_run
from router_ref import COUNTERS, NextHop, Router, ip_length
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether

PERIOD_PS = 6400
PORTS = 4
MEM_NEXT_HOP, MEM_ACL, MEM_PORT, MEM_DRAIN = 21, 25, 26, 31
# An address at each port that a prefix leads to.
PREFIXED4 = ("10.31.255.9", "10.17.40.1", "10.18.5.1", "10.18.5.14")
PREFIXED6 = tuple(f"2001:db8:{p + 1}000::{p}:9" for p in range(PORTS))
FIELD_MAC, FIELD_MTU, FIELD_VLAN, FIELD_CHECK = range(4)
CHECK_NEVER, CHECK_AUTO, CHECK_ALWAYS = range(3)
CHECK_WINDOW = 256
LEAF_HOST, LEAF_DISCARD = 16 << 12, 17 << 12
MAX_FRAME = 9216
DST_PORTS = (2, 7, 22, 4000)  # of UDP, known to the access list's test
# Tests of builds that need not run all.
BRIEFLY = {(0, 2, 4, 0): ["latency_is_constant", "line_rate", "both_families_at_line_rate"]}
# Cycles from preamble to preamble: AsyncRx, ReadLatency, Lookups, Vlan to those of IPv4 and IPv6.
LATENCIES = {(1, 1, 4, 0): (14, 22), (0, 2, 4, 0): (14, 28), (0, 1, 1, 1): (15, 23)}
NAMES = ("AsyncRx", "ReadLatency", "Lookups", "Vlan")
VLAN = os.environ.get("VLAN") == "1"


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


def text(mac: bytes) -> str:
    """MAC address as Scapy has it."""
    return ":".join(f"{b:02x}" for b in mac)


def with_fcs(frame: bytes) -> bytes:
    """Append the FCS."""
    return frame + struct.pack("<L", zlib.crc32(frame))


class Bench:
    """The switch with a station at each port, the host, and the tables of the model."""

    def __init__(self, dut, rand: random.Random) -> None:
        self.dut, self.rand = dut, rand
        build = tuple(int(os.environ[n.upper()]) for n in NAMES)
        self.v4_cycles, self.v6_cycles = LATENCIES[build]
        self.router = Router([bytes([2, 0, 0, 0, 0x10, p]) for p in range(PORTS)])
        self.host: list[tuple[bytes, str, int, bool]] = []
        self.hops = 0
        # The sizes that tb_fibnic has.
        self.tables = {4: Table4(1024, 16, 256), 6: Table6([256] * 7, 1024, 256, 4)}

    async def start(self, *, one_clock: bool = True) -> None:
        """Clock, reset, stations."""
        dut = self.dut
        Clock(dut.clk_i, PERIOD_PS, "ps").start()
        dut.one_clock_i.value = one_clock
        clocks = [dut.clk_i] * PORTS
        for p in range(PORTS):
            dut[f"clk_rx_{p}_i"].value = 0
        if not one_clock:
            # 156 ppm apart, more than a link may be, and any phase.
            clocks = [dut[f"clk_rx_{p}_i"] for p in range(PORTS)]
            for clock in clocks:
                await Timer(self.rand.randint(1, PERIOD_PS), "ps")
                period = PERIOD_PS + self.rand.choice([-1, 0, 1])
                Clock(clock, period, "ps", period_high=PERIOD_PS // 2).start()
        dut.rst_i.value = 1
        for name in "s_host_tdata s_host_tkeep s_host_tvalid s_host_tlast s_host_tuser".split():
            dut[name + "_i"].value = 0
        dut.m_host_tready_i.value = 1
        dut.wr_valid_i.value = 0
        dut.cnt_idx_i.value = 0
        self.host_rate = 1.0
        self.sources, self.sinks = [], []
        for p in range(PORTS):
            rxd, rxc = dut[f"xgmii_rxd_{p}_i"], dut[f"xgmii_rxc_{p}_i"]
            self.sources.append(XgmiiSource(rxd, rxc, clocks[p]))
            rxd.value, rxc.value = int.from_bytes(bytes([7] * 8), "little"), 0xFF
            txd, txc = dut[f"xgmii_txd_{p}_o"], dut[f"xgmii_txc_{p}_o"]
            self.sinks.append(XgmiiSink(txd, txc, dut.clk_i))
            for station in (self.sources[-1], self.sinks[-1]):
                station.log.setLevel(logging.WARNING)  # they print every frame
        for _ in range(4):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        await RisingEdge(dut.clk_i)
        cocotb.start_soon(self._host())
        for p, mac in enumerate(self.router.port_macs):
            await self.set_field(p, FIELD_MAC, int.from_bytes(mac, "big"))

    async def write(self, mem: int, addr: int, data: int) -> None:
        """Write one word of a table."""
        dut = self.dut
        dut.wr_valid_i.value = 1
        dut.wr_mem_i.value, dut.wr_addr_i.value, dut.wr_data_i.value = mem, addr, data
        while True:
            await RisingEdge(dut.clk_i)
            if dut.wr_ready_o.value:
                break
        dut.wr_valid_i.value = 0

    async def route(self, prefix: str, target: NextHop | str) -> None:
        """Add a route to the model and to the tables."""
        net = ipaddress.ip_network(prefix)
        self.router.routes[net] = target
        if isinstance(target, NextHop):
            self.hops += 1
            mac = int.from_bytes(target.mac or bytes(6), "big")
            word = mac << 6 | target.port << 1 | (target.mac is not None)
            await self.write(MEM_NEXT_HOP, self.hops, word)
            leaf = (target.port & 15) << 12 | self.hops
        else:
            leaf = LEAF_HOST if target == "host" else LEAF_DISCARD
        table = self.tables[net.version]
        for write in table.change((int(net.network_address), net.prefixlen), leaf):
            await self.write(*write)

    async def routes(self) -> None:
        """Build the tables most tests use: two destinations at each port, and special routes."""
        for p in range(PORTS):
            mac = bytes([2, 0, 0, 0, 0x20, p])
            await self.route(f"10.{p}.0.1", NextHop(p, mac))
            await self.route(f"198.51.100.{p}", NextHop(p, bytes(self.rand.randbytes(5)) + b"\x01"))
            await self.route(f"2001:db8:{p}::1", NextHop(p, mac))
        await self.route("10.9.0.1", "host")
        await self.route("10.9.0.2", "discard")
        await self.route("10.9.0.3", NextHop(1, None))
        await self.route("2001:db8:9::1", "host")
        await self.route("2001:db8:9::2", NextHop(2, None))
        # Prefixes, and an egress that is not there.
        for p in range(PORTS):
            hop = NextHop(p, bytes([2, 0, 0, 0, 0x21, p]))
            await self.route(
                ("10.16.0.0/12", "10.17.32.0/20", "10.18.5.0/24", "10.18.5.8/29")[p], hop
            )
            await self.route(f"2001:db8:{p + 1}000::/{(36, 48, 60, 64)[p]}", hop)
        await self.route("10.9.0.5", NextHop(7, bytes([2, 0, 0, 0, 0x21, 7])))

    async def _host(self) -> None:
        dut = self.dut
        data = b""
        while True:
            await RisingEdge(dut.clk_i)
            taken = dut.m_host_tvalid_o.value and dut.m_host_tready_i.value
            if self.host_rate < 1:
                dut.m_host_tready_i.value = self.rand.random() < self.host_rate
            if not taken:
                continue
            count = int(dut.m_host_tkeep_o.value).bit_count()
            data += int(dut.m_host_tdata_o.value).to_bytes(8, "little")[:count]
            if dut.m_host_tlast_o.value:
                user = int(dut.m_host_tuser_o.value)
                self.host.append((data, COUNTERS[user & 31], user >> 5 & 15, bool(user >> 9)))
                data = b""

    async def host_send(self, port: int, frame: bytes) -> None:
        """Send a frame of the host."""
        dut = self.dut
        for i in range(0, len(frame), 8):
            part = frame[i : i + 8]
            dut.s_host_tvalid_i.value = 1
            dut.s_host_tdata_i.value = int.from_bytes(part, "little")
            dut.s_host_tkeep_i.value = (1 << len(part)) - 1
            dut.s_host_tlast_i.value = i + 8 >= len(frame)
            # Only the first beat's counts.
            dut.s_host_tuser_i.value = port if i == 0 else self.rand.randrange(16)
            while True:
                await RisingEdge(dut.clk_i)
                if dut.s_host_tready_o.value:
                    break
        dut.s_host_tvalid_i.value = 0

    async def set_field(self, port: int, field: int, value: int) -> None:
        """Write a setting of a port."""
        await self.write(MEM_PORT, port << 3 | field, value)

    async def counters(self, port: int, *, settle: bool = True) -> Counter[str]:
        """Read the counters of a port; those at zero are left out."""
        dut = self.dut
        # A pulse waits for the sweep of the counters.
        for _ in range(140 if settle else 0):
            await RisingEdge(dut.clk_i)
        found = Counter()
        for i in range(len(COUNTERS) + 2):
            dut.cnt_idx_i.value = port << 7 | i
            await RisingEdge(dut.clk_i)
            # At this edge the index is sampled; the count is there two edges later.
            if i >= 2:
                found[COUNTERS[i - 2]] = int(dut.cnt_o.value)
        return +found

    async def count(self, index: int) -> int:
        """Read one counter."""
        self.dut.cnt_idx_i.value = index
        for _ in range(3):
            await RisingEdge(self.dut.clk_i)
        return int(self.dut.cnt_o.value)

    @staticmethod
    def judge(raw: bytes) -> str:
        """Return the receiver's counter for a frame that ended as it should."""
        if len(raw) < 64:
            return "rx_runt"
        return "rx_good" if with_fcs(bytes(raw[:-4])) == bytes(raw) else "rx_bad_fcs"

    async def drain(self) -> None:
        """Wait until all is sent and through."""
        for source in self.sources:
            await source.wait()
        quiet = 0
        while quiet < 4:
            await RisingEdge(self.dut.clk_i)
            quiet = 0 if self.dut.busy_o.value else quiet + 1

    def v4(self, port: int, target: str, size: int, **fields: object) -> bytes:
        """Build an IPv4 frame of `size` bytes with FCS, without it."""
        head = Ether(dst=text(self.router.port_macs[port]), src="02:00:00:00:30:01", type=0x0800)
        load = self.rand.randbytes(size - 4 - 14 - 20 - 8)
        ip = IP(src="10.7.0.1", dst=target, ttl=fields.pop("ttl", self.rand.randint(2, 255)))
        for name, value in fields.items():
            setattr(ip, name, value)
        return bytes(head / ip / UDP(sport=1, dport=self.rand.choice(DST_PORTS)) / load)

    def v6(self, port: int, target: str, size: int, **fields: object) -> bytes:
        """Build an IPv6 frame of `size` bytes with FCS, without it."""
        head = Ether(dst=text(self.router.port_macs[port]), src="02:00:00:00:30:01", type=0x86DD)
        load = self.rand.randbytes(size - 4 - 14 - 40 - 8)
        ip = IPv6(src="2001:db8:7::1", dst=target, hlim=self.rand.randint(2, 255))
        for name, value in fields.items():
            setattr(ip, name, value)
        return bytes(head / ip / UDP(sport=1, dport=self.rand.choice(DST_PORTS)) / load)

    def cycles(self, sent: XgmiiFrame, got: XgmiiFrame) -> float:
        """Cycles from preamble to preamble. A sink sees a word one edge after it is on the pins."""
        return (got.sim_time_start - sent.sim_time_start) / PERIOD_PS - 1


async def setup(dut) -> Bench:
    """Start a bench with routes."""
    bench = Bench(dut, rng())
    await bench.start()
    await bench.routes()
    return bench


@cocotb.test()
async def latency_is_constant(dut) -> None:
    """Frames of all sizes between all ports, one at a time: one number for each family."""
    bench = await setup(dut)
    sizes = [64, 65, 70, 71, 72, 73, 127, 128, 512, 1518, 9216]
    sizes += [bench.rand.randint(64, 9216) for _ in range(4)]
    rand = bench.rand
    pairs = [(i, o) for i in range(PORTS) for o in range(PORTS)]
    runs = [(s, 0, 1) for s in sizes] + [(bench.rand.randint(64, 200), i, o) for i, o in pairs]
    for size, i, o in runs:
        for v6 in (False, True):
            if v6:
                target = rand.choice([f"2001:db8:{o}::1", PREFIXED6[o]])
                frame = bench.v6(i, target, max(size, 66))
            else:
                frame = bench.v4(i, rand.choice([f"10.{o}.0.1", PREFIXED4[o]]), size)
            sent = XgmiiFrame.from_payload(frame)
            starts = []
            sent.tx_complete = starts.append
            await bench.sources[i].send(sent)
            got = await bench.sinks[o].recv()
            verdict, port, expected = bench.router.decide(i, frame)
            assert (verdict, port) == ("forward", o)
            assert got.check_fcs() and not any(got.ctrl or [])
            assert bytes(got.get_payload()) == expected
            want = bench.v6_cycles if v6 else bench.v4_cycles
            assert bench.cycles(starts[0], got) == want, (size, i, o, v6)
            await Timer(PERIOD_PS * bench.rand.randint(3, 6), "ps")
    dut._log.info(f"preamble to preamble: IPv4 {bench.v4_cycles}, IPv6 {bench.v6_cycles} cycles")


@cocotb.test()
async def line_rate(dut) -> None:
    """All ports at line rate, a permutation: no loss, and the latency stays."""
    bench = await setup(dut)
    shift = bench.rand.randint(1, PORTS - 1)
    fixed = bench.rand.choice([64, 65, 1518])
    sent: list[list[XgmiiFrame]] = [[] for _ in range(PORTS)]
    expected: list[list[bytes]] = [[] for _ in range(PORTS)]
    for i in range(PORTS):
        o = (i + shift) % PORTS
        for n in range(120):
            size = fixed if n < 60 else bench.rand.randint(64, 200)
            frame = bench.v4(i, bench.rand.choice([f"10.{o}.0.1", f"198.51.100.{o}"]), size)
            expected[o].append(bench.router.decide(i, frame)[2])
            out = XgmiiFrame.from_payload(frame)
            out.tx_complete = sent[o].append
            bench.sources[i].send_nowait(out)
    await bench.drain()
    want = bench.v4_cycles
    seen = Counter()
    for o in range(PORTS):
        got = [bench.sinks[o].recv_nowait() for _ in range(bench.sinks[o].count())]
        assert [bytes(g.get_payload()) for g in got] == expected[o]
        assert all(g.check_fcs() for g in got)
        for a, b in zip(sent[o], got, strict=True):
            cycles = bench.cycles(a, b)
            seen[a.start_lane, b.start_lane, cycles] += 1
            # Gaps of the sender (9 to 15 bytes) and ours, and the lanes, differ by a word at most.
            assert want <= cycles <= want + 1, (a.start_lane, b.start_lane, cycles)
        assert (await bench.counters(o))["full"] == 0
    dut._log.info(f"lane in, lane out, cycles: {dict(seen)}")


@cocotb.test()
async def both_families_at_line_rate(dut) -> None:
    """IPv4 right behind IPv6 on all ports: nothing overtakes, all hit a rule, loss is counted."""
    bench = await setup(dut)
    rand = bench.rand
    anything = {"deny": 0, "family": None, "src": None, "dst": None, "dport": None}
    for word, data in enumerate(rule_words(anything | {"ports": set(range(PORTS))})):
        await bench.write(MEM_ACL, word, data)
    await bench.write(MEM_DRAIN, 0, 0)
    shift = rand.randint(1, PORTS - 1)
    expected: list[list[bytes]] = [[] for _ in range(PORTS)]
    for i in range(PORTS):
        o = (i + shift) % PORTS
        for n in range(100):
            v6 = n % 2 == 0 if n < 50 else rand.random() < 0.5
            size = 66 if n < 50 else rand.randint(66, 150)
            if v6:
                frame = bench.v6(i, f"2001:db8:{o}::1", size)
            else:
                frame = bench.v4(i, f"10.{o}.0.1", size)
            expected[o].append(bench.router.decide(i, frame)[2])
            bench.sources[i].send_nowait(XgmiiFrame.from_payload(frame))
    await bench.drain()
    for o in range(PORTS):
        got = [bench.sinks[o].recv_nowait() for _ in range(bench.sinks[o].count())]
        assert all(g.check_fcs() for g in got)
        loads = [bytes(g.get_payload()) for g in got]
        # Frames that waited behind IPv6 follow each other without gaps. Behind a lookup that is
        # 12 cycles longer than that of IPv4 they are more than an output's FIFO takes.
        if bench.v6_cycles - bench.v4_cycles < 12:
            assert loads == expected[o]
        rest = iter(expected[o])
        assert all(load in rest for load in loads), "a frame overtook another"
        i = (o - shift) % PORTS
        assert (await bench.counters(i))["full"] == len(expected[o]) - len(loads)
        # Plans that waited for one before them are made in cycles running.
        assert await bench.count(1 << 11 | o << 7) == 100


@cocotb.test()
async def contention_is_fair(dut) -> None:
    """Three ports at line rate to the fourth: whole frames only are lost, equal shares."""
    bench = await setup(dut)
    for size, count in ((64, 600), (512, 100)):
        out = bench.rand.randrange(PORTS)
        ins = [p for p in range(PORTS) if p != out]
        before = {i: await bench.counters(i) for i in ins}
        expected: dict[bytes, int] = {}
        for i in ins:
            # Frames that differ in their identification.
            base = bytearray(bench.v4(i, f"10.{out}.0.1", size, id=0))
            check = int.from_bytes(base[24:26], "big")
            for n in range(count):
                base[18:20] = n.to_bytes(2, "big")
                base[24:26] = ((check - n) % 0xFFFF or 0xFFFF).to_bytes(2, "big")
                expected[bench.router.decide(i, bytes(base))[2]] = i
                bench.sources[i].send_nowait(XgmiiFrame.from_payload(base))
        await bench.drain()
        shares = Counter()
        while not bench.sinks[out].empty():
            got = bench.sinks[out].recv_nowait()
            assert got.check_fcs() and not any(got.ctrl or [])
            shares[expected.pop(bytes(got.get_payload()))] += 1
        for i in ins:
            found = (await bench.counters(i)) - before[i]
            assert found["full"] + shares[i] == count
            assert found["forward"] == count
            # A third each; the first and the last frames are the exception.
            assert abs(shares[i] - sum(shares.values()) / 3) <= max(1, count / 300), shares
            assert abs(shares[i] - count / 3) <= 4, shares
        loss = 1 - sum(shares.values()) / (3 * count)
        dut._log.info(f"{size} bytes: {dict(shares)} of {count} each, {100 * loss:.1f} % lost")
        assert abs(loss - 2 / 3) < 0.012


@cocotb.test(skip=os.environ.get("ASYNCRX") == "0")
async def receive_clocks_drift(dut) -> None:
    """Receivers on clocks of their own: all frames arrive, the crossing costs what it may."""
    bench = Bench(dut, rng())
    await bench.start(one_clock=False)
    await bench.routes()
    seen = Counter()
    for n in range(60):
        i, o = bench.rand.randrange(PORTS), bench.rand.randrange(PORTS)
        size = 9216 if n % 10 == 0 else bench.rand.randint(64, 1518)
        frame = bench.v4(i, f"10.{o}.0.1", size)
        sent = XgmiiFrame.from_payload(frame)
        starts = []
        sent.tx_complete = starts.append
        await bench.sources[i].send(sent)
        got = await bench.sinks[o].recv()
        assert got.check_fcs() and not any(got.ctrl or [])
        assert bytes(got.get_payload()) == bench.router.decide(i, frame)[2]
        cycles = bench.cycles(starts[0], got)
        # The crossing takes its edge plus up to one more cycle of the core clock, by phase.
        assert -1.01 <= cycles - bench.v4_cycles <= 0.01, cycles
        seen[round(cycles, 1)] += 1
        await Timer(bench.rand.randint(2, 6) * PERIOD_PS, "ps")
    dut._log.info(f"cycles: {dict(seen)}")
    for p in range(PORTS):
        found = await bench.counters(p)
        assert found["full"] == 0 and found["tx_underrun"] == 0


def make_frame(bench: Bench, port: int) -> bytes:
    """Build any kind of frame the switch must judge."""
    rand = bench.rand
    out = rand.randrange(PORTS)
    v4 = rand.choice([f"10.{out}.0.1", f"198.51.100.{out}"])
    v6 = f"2001:db8:{out}::1"
    size = rand.choice([64, 66, 67, 68, 80, 100, rand.randint(64, 600)])
    big = max(size, 66)
    kind = rand.randrange(24)
    if kind == 0:
        return bench.v4(port, rand.choice(["10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"]), size)
    if kind == 1:
        return bench.v6(port, f"2001:db8:9::{rand.randint(1, 3)}", big)
    if kind == 2:
        return bench.v4(port, v4, size, ttl=rand.randint(0, 1))
    if kind == 3:
        return bench.v6(port, v6, big, hlim=rand.randint(0, 1))
    if kind == 4:
        martians = ["0.1.2.3", "127.0.0.1", "240.0.0.1", "224.0.0.1", "255.255.255.255"]
        return bench.v4(port, v4, size, src=rand.choice(martians))
    if kind == 5:
        return bench.v4(port, rand.choice(["0.0.0.0", "127.9.0.1", "250.0.0.1"]), size)
    if kind == 6:
        return bench.v4(port, rand.choice(["224.0.0.5", "239.1.2.3", "255.255.255.255"]), size)
    if kind == 7:
        return bench.v6(port, rand.choice(["ff02::5", "fe80::1", "febf::9", "::1", "::"]), big)
    if kind == 8:
        return bench.v6(port, v6, big, src=rand.choice(["ff02::1", "fe80::1", "::1", "::", "::2"]))
    if kind == 9:
        return bench.v4(port, v4, max(size, 80), options=[IPOption_NOP()] * rand.randint(1, 8))
    if kind == 10:
        return bench.v6(port, v6, big, nh=0)
    if kind == 11:
        arp = Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:30:01") / ARP(pdst="10.0.0.1")
        return bytes(arp).ljust(60, b"\0")
    if kind == 12:
        frame = bytearray(bench.v4(port, v4, size))
        frame[:6] = rand.choice([bytes(6), b"\x02" + rand.randbytes(5), b"\x01" + bytes(5)])
        return bytes(frame)
    if kind == 13:
        frame = bytearray(bench.v4(port, v4, size))
        frame[12:14] = rand.choice([b"\x08\x06", b"\x81\x00", b"\x08\x01", b"\x00\x10"])
        return bytes(frame)
    if kind in (14, 15):
        # One bit of the header turns over: the checksum finds it.
        frame = bytearray(bench.v4(port, v4, size))
        frame[rand.randrange(14, 34)] ^= 1 << rand.randrange(8)
        return bytes(frame)
    if kind == 16:
        frame = bytearray(bench.v6(port, v6, big))
        frame[14] ^= 1 << rand.randrange(8)
        return bytes(frame)
    if kind == 17:
        # Checksums in the corner of RFC 1624: 0x0000 and 0xfeff, by choice of the identification.
        frame = bytearray(bench.v4(port, v4, size))
        want = rand.choice([0x0000, 0xFEFF, 0xFFFE, 0x0100, 0x00FF])
        frame[18:20] = frame[24:26] = bytes(2)
        total = sum(int.from_bytes(frame[i : i + 2], "big") for i in range(14, 34, 2))
        frame[18:20] = ((-total - want) % 0xFFFF).to_bytes(2, "big")
        frame[24:26] = want.to_bytes(2, "big")
        return bytes(frame)
    if kind == 18:
        # The IP header promises more than there is, by a little or a lot.
        extra = rand.choice([1, 8, 100, 9000])
        if rand.random() < 0.5:
            return bench.v4(port, v4, size, len=size - 18 + extra)
        return bench.v6(port, v6, big, plen=big - 18 - 40 + extra)
    if kind < 21:
        return bench.v4(port, v4, size)
    return bench.v6(port, v6, big)


def damage(bench: Bench, frame: bytes) -> tuple[XgmiiFrame, bytes, str]:
    """Damage a frame; return what is sent, what a receiver sees with the FCS, and its counter."""
    rand = bench.rand
    raw = bytearray(with_fcs(frame))
    kind = rand.randrange(6)
    if kind == 0:
        raw[rand.randrange(60, len(raw))] ^= 1 << rand.randrange(8)
        return XgmiiFrame.from_raw_payload(raw), bytes(raw), "rx_bad_fcs"
    if kind == 1:
        raw = bytearray(with_fcs(frame[: rand.randint(1, 59)]))
        return XgmiiFrame.from_raw_payload(raw), bytes(raw), "rx_runt"
    if kind == 2:
        # Cut, so that the FCS is that of the longer frame.
        raw = raw[: rand.randint(1, len(raw) - 1)]
        return XgmiiFrame.from_raw_payload(raw), bytes(raw), bench.judge(raw)
    if kind == 3 and rand.random() < 0.15:
        # Longer than the longest, by anything.
        raw = bytearray(frame + rand.randbytes(MAX_FRAME + rand.randint(1, 200) - len(frame)))
        seen = raw[: MAX_FRAME // 8 * 8 + 8]
        return XgmiiFrame.from_raw_payload(raw), bytes(seen), "rx_giant"
    # An error in the middle, or idle, or a new start, whose frame then has no preamble.
    at = rand.randint(1, len(raw) - 1)
    code = rand.choice((0xFE, 0x07, 0xFD)) if kind < 5 else rand.choice((0xFE, 0x9C))
    sent = XgmiiFrame.from_raw_payload(raw)
    sent.ctrl = [0] * len(sent.data)
    sent.data[8 + at], sent.ctrl[8 + at] = code, 1
    seen = bytes(raw[:at])
    return sent, seen, bench.judge(seen) if code == 0xFD else "rx_error"


def in_rule(rule: dict, port: int, packet: bytes) -> bool:
    """Say whether a rule of the access list matches."""
    v6 = packet[0] >> 4 == 6
    if rule["family"] not in (None, 6 if v6 else 4) or port not in rule["ports"]:
        return False
    src, dst = (packet[8:24], packet[24:40]) if v6 else (packet[12:16], packet[16:20])
    for net, address in ((rule["src"], src), (rule["dst"], dst)):
        if net and ipaddress.ip_address(address) not in ipaddress.ip_network(net):
            return False
    if rule["dport"] is None:
        return True
    protocol = packet[6] if v6 else packet[9]
    whole = v6 or (packet[0] & 15 == 5 and int.from_bytes(packet[6:8], "big") & 0x1FFF == 0)
    room = int.from_bytes(packet[4:6] if v6 else packet[2:4], "big") >= (4 if v6 else 24)
    if protocol not in (6, 17, 132) or not whole or not room:
        return False
    at = 42 if v6 else 22
    low, high = rule["dport"]
    return low <= int.from_bytes(packet[at : at + 2].ljust(2, b"\0"), "big") <= high


def rule_words(rule: dict) -> list[int]:
    """Lay out a rule in the words of the access list."""
    words = []
    for name in ("src", "dst"):
        net = ipaddress.ip_network(rule[name]) if rule[name] else None
        shift = 96 if net and net.version == 4 else 0
        words.append(int(net.network_address) << shift if net else 0)
        words.append(int(net.netmask) << shift if net else 0)
    low, high = rule["dport"] or (0, 0)
    terms = 1 << 94 | rule["deny"] << 93 | (rule["family"] != 4) << 92 | (rule["family"] != 6) << 91
    terms |= 1 << 90 | 1 << 81 | (rule["dport"] is None) << 48 | high << 32 | low << 16
    return [*words, terms | sum(1 << p for p in rule["ports"])]


RULES = (
    {"deny": 1, "family": 4, "src": None, "dst": None, "dport": (7, 8), "ports": {0, 2}},
    {"deny": 0, "family": 6, "src": None, "dst": None, "dport": None, "ports": {1, 3}},
    {"deny": 1, "family": None, "src": None, "dst": None, "dport": (7, 22), "ports": {0, 1, 3}},
    {"deny": 1, "family": 4, "src": None, "dst": "198.51.100.2/31", "dport": None, "ports": {1}},
)


@cocotb.test()
async def routes_as_the_model(dut) -> None:
    """Frames of all kinds, whole and damaged, on all ports against the model; all counters."""
    bench = await setup(dut)
    rand = bench.rand
    hits: Counter[tuple[int, int]] = Counter()

    def denies(port: int, packet: bytes) -> bool:
        for index, rule in enumerate(RULES):
            if in_rule(rule, port, packet):
                hits[port, index] += 1
                return bool(rule["deny"])
        return False

    bench.router.denies = denies
    for index, rule in enumerate(RULES):
        for word, data in enumerate(rule_words(rule)):
            await bench.write(MEM_ACL, index << 3 | word, data)
    bench.router.mtus = [9198, 300, 500, 9198]
    for p, mtu in enumerate(bench.router.mtus[:PORTS]):
        await bench.set_field(p, FIELD_MTU, mtu)
    storing = rand.randrange(PORTS)
    await bench.set_field(storing, FIELD_CHECK, CHECK_ALWAYS)
    await bench.write(MEM_DRAIN, 0, 0)
    forwarded: list[Counter[tuple[bytes, bool]]] = [Counter() for _ in range(PORTS)]
    hosted: Counter[tuple[bytes, str, int, bool]] = Counter()
    wanted = [Counter() for _ in range(PORTS)]
    short = Counter()
    for n in range(700):
        port = rand.randrange(PORTS)
        frame = make_frame(bench, port)
        sent, rx = XgmiiFrame.from_payload(frame), "rx_good"
        if rand.random() < 0.25:
            sent, seen, rx = damage(bench, frame)
            frame = seen[:-4]
        bad = rx != "rx_good" or ip_length(frame) > len(frame) - 14
        verdict, out, expected = bench.router.decide(port, frame)
        if verdict == "drop_runt":
            short[port] += 1
        elif bad and port == storing:
            verdict = "drop_bad"
        wanted[port][verdict] += 1
        wanted[port][rx] += 1
        if verdict == "forward":
            forwarded[out][expected, bad] += 1
        elif verdict.startswith("host"):
            hosted[expected, verdict, port, bad] += 1
        await bench.sources[port].send(sent)
        # Often on each other's heels.
        if n % 4 == 3 or rand.random() < 0.4:
            await bench.drain()
    await bench.drain()
    # A frame may find another waiting before the same output: dropped whole and counted.
    sent, spoiled = [Counter() for _ in range(PORTS)], 0
    for p in range(PORTS):
        while not bench.sinks[p].empty():
            got = bench.sinks[p].recv_nowait()
            bad = any(got.ctrl or [])
            assert got.check_fcs() != bad
            forwarded[p][bytes(got.get_payload()), bad] -= 1
            sent[p]["tx_spoiled" if bad else "tx_good"] += 1
            spoiled += bad
    for item in bench.host:
        hosted[item] -= 1
        spoiled += item[3]
    left = [n for counts in (*forwarded, hosted) for n in counts.values()]
    assert min(left) >= 0, "a frame that the model does not know"
    dropped = 0
    for p in range(PORTS):
        found = await bench.counters(p)
        dropped += found.pop("full", 0)
        spoiled -= found.pop("spoiled", 0)
        assert found == +(wanted[p] + sent[p]), (p, found, wanted[p], sent[p])
        for index in range(len(RULES)):
            extra = await bench.count(1 << 11 | p << 7 | index) - hits[p, index]
            # A runt is known as one after the list has judged it.
            assert 0 <= extra <= short[p], (p, index, extra)
    assert spoiled == 0
    assert dropped == sum(left)
    assert dropped < 40
    assert len({i for _, i in hits}) == len(RULES)


@cocotb.test()
async def frames_of_the_host(dut) -> None:
    """The host's frames leave where it says, beside forwarded ones, also when it is slow."""
    bench = await setup(dut)
    rand = bench.rand
    expected = [[] for _ in range(PORTS)]
    flows = [[] for _ in range(PORTS)]
    for _ in range(30):
        # Some for ports that are not there.
        port = rand.randrange(PORTS + 2)
        frame = rand.randbytes(rand.randint(60, 400))
        if port < PORTS:
            expected[port].append(frame)
        for _ in range(rand.randint(0, 2)):
            i = rand.randrange(PORTS)
            out = rand.randrange(PORTS)
            other = bench.v4(i, f"10.{out}.0.1", rand.randint(64, 300))
            flows[out].append(bench.router.decide(i, other)[2])
            await bench.sources[i].send(XgmiiFrame.from_payload(other))
        await bench.host_send(port, frame)
        if rand.random() < 0.5:
            await bench.drain()
    await bench.drain()
    lost = 0
    for p in range(PORTS):
        lost += (await bench.counters(p))["full"]
        got = []
        while not bench.sinks[p].empty():
            frame = bench.sinks[p].recv_nowait()
            assert frame.check_fcs()
            got.append(bytes(frame.get_payload()))
        mine = [f for f in got if f in set(expected[p])]
        assert mine == expected[p]
        rest = Counter(flows[p])
        rest.subtract(f for f in got if f not in set(expected[p]))
        assert min(rest.values(), default=0) >= 0
        lost -= sum(rest.values())
    assert lost == 0
    # The longest frame leaves whole; a longer one is cut and spoiled, the next one is whole again.
    for size in (MAX_FRAME - 4, MAX_FRAME + rand.randint(1, 100), 60):
        frame = rand.randbytes(size)
        await bench.host_send(1, frame)
        got = await bench.sinks[1].recv()
        cut = size > MAX_FRAME
        assert got.check_fcs() != cut and any(got.ctrl or []) == cut
        assert bytes(got.get_payload()) == frame[:MAX_FRAME]


@cocotb.test()
async def slow_host(dut) -> None:
    """A host slower than its frames gets whole frames; what finds no room is counted."""
    bench = await setup(dut)
    rand = bench.rand
    bench.host_rate = 0.3
    wanted: Counter[tuple[bytes, str, int, bool]] = Counter()
    for n in range(60):
        port = rand.randrange(PORTS)
        if n < 12:
            # Too long: cut, and as long as a FIFO must take.
            frame = bench.v4(0, "10.9.0.1", 1500)
            frame += rand.randbytes(MAX_FRAME + rand.randint(1, 90) - len(frame))
            raw = b"\1" + frame[1:]
            frame = raw[: MAX_FRAME // 8 * 8 + 8][:-4]
            wanted[frame, "host_link", 0, True] += 1
            bench.sources[0].send_nowait(XgmiiFrame.from_raw_payload(raw))
        else:
            frame = bench.v4(port, "10.9.0.1", rand.randint(64, 600))
            wanted[frame, "host_route", port, False] += 1
            bench.sources[port].send_nowait(XgmiiFrame.from_payload(frame))
    await bench.drain()
    for item in bench.host:
        wanted[item] -= 1
    assert min(wanted.values()) >= 0
    full = sum([(await bench.counters(p))["full"] for p in range(PORTS)])
    assert full == sum(wanted.values()) and 0 < full < 60
    assert sum(item[3] for item in bench.host) >= 2


@cocotb.test()
async def mtu_decides(dut) -> None:
    """The longest packet that an egress takes is forwarded, one byte more goes to the host."""
    bench = await setup(dut)
    for mtu in (576, 1500, 9198):
        bench.router.mtus[2] = mtu
        await bench.set_field(2, FIELD_MTU, mtu)
        for v6 in (False, True):
            for size in (mtu, mtu + 1) if mtu < 9198 else (mtu,):
                build, target = (bench.v6, "2001:db8:2::1") if v6 else (bench.v4, "10.2.0.1")
                frame = build(1, target, size + 18)
                verdict, _, expected = bench.router.decide(1, frame)
                assert verdict == ("forward" if size == mtu else "host_mtu")
                await bench.sources[1].send(XgmiiFrame.from_payload(frame))
                await bench.drain()
                if verdict == "forward":
                    assert bytes(bench.sinks[2].recv_nowait().get_payload()) == expected
                else:
                    assert bench.host.pop() == (frame, verdict, 1, False)


@cocotb.test()
async def stores_and_checks(dut) -> None:
    """A port with many bad frames switches to store-and-check by itself, and back."""
    bench = await setup(dut)
    rand = bench.rand
    limit = rand.randint(1, 6)
    await bench.set_field(0, FIELD_CHECK, 0 << 10 | limit << 2 | CHECK_AUTO)
    wanted = Counter()

    async def send(bad: bool, size: int = 64) -> tuple[XgmiiFrame | None, float]:
        frame = bench.v4(0, "10.1.0.1", size)
        raw = bytearray(with_fcs(frame))
        if bad:
            raw[-1] ^= 1
        sent = XgmiiFrame.from_raw_payload(raw)
        starts: list[XgmiiFrame] = []
        sent.tx_complete = starts.append
        await bench.sources[0].send(sent)
        await bench.sources[0].wait()
        for _ in range(size // 8 + 40):
            await RisingEdge(dut.clk_i)
        if bench.sinks[1].empty():
            return None, 0
        got = bench.sinks[1].recv_nowait()
        assert bytes(got.get_payload()) == bench.router.decide(0, frame)[2]
        assert got.check_fcs() != bad
        return got, bench.cycles(starts[0], got)

    # Cut-through: bad frames leave spoiled.
    for _ in range(limit + 1):
        assert not int(dut.check_o.value)
        got, cycles = await send(bad=True, size=1000)
        assert got and any(got.ctrl) and cycles == bench.v4_cycles
        wanted["spoiled"] += 1
        wanted["forward"] += 1
    assert int(dut.check_o.value) == 1
    # Store-and-check: they are dropped whole, and good ones leave when their end is known.
    for size in (64, 999, MAX_FRAME):
        assert (await send(bad=True, size=size))[0] is None
        wanted["drop_bad"] += 1
        got, cycles = await send(bad=False, size=size)
        wanted["forward"] += 1
        assert got and max(bench.v4_cycles, size // 8) <= cycles <= size // 8 + bench.v4_cycles
    # A window without a bad frame ends it; the one under way has some.
    count = 0
    while int(dut.check_o.value):
        for _ in range(8):
            bench.sources[0].send_nowait(XgmiiFrame.from_payload(bench.v4(0, "10.1.0.1", 64)))
        await bench.drain()
        count += 8
        assert count <= 2 * CHECK_WINDOW
    assert count > CHECK_WINDOW
    wanted["forward"] += count
    assert bench.sinks[1].count() == count
    bench.sinks[1].clear()
    got, cycles = await send(bad=False, size=1000)
    assert got and cycles == bench.v4_cycles
    wanted["forward"] += 1
    found = await bench.counters(0)
    assert found["changes"] == 1
    assert Counter({n: found[n] for n in ("spoiled", "forward", "drop_bad")}) == wanted


@cocotb.test()
async def junk_on_the_line(dut) -> None:
    """As many frames of a few bytes as fit behind the longest, stored: all counted, none lost."""
    bench = await setup(dut)
    rand = bench.rand
    for p in range(PORTS):
        await bench.set_field(p, FIELD_CHECK, (p % 2) * CHECK_ALWAYS)
    good: list[bytes] = []
    wanted = [Counter() for _ in range(PORTS)]
    for p in range(PORTS):
        for size in (MAX_FRAME, 64):
            frame = bench.v4(p, f"10.{p}.0.1", size)
            good.append(bench.router.decide(p, frame)[2])
            bench.sources[p].send_nowait(XgmiiFrame.from_payload(frame))
            # Each ends the one before with its start.
            data, ctrl = bytearray(), []
            for n in range(400):
                load = rand.choice((1, 4)) if p < 2 else rand.randint(1, 70)
                data += b"\xfb" + b"\x55" * 6 + b"\xd5" + rand.randbytes(load) + b"\xfd"
                ctrl += [1] + [0] * (7 + load) + [1]
                gap = -len(data) % (4 if p % 2 else 8) + (4 * (n % 5 == 0 and p > 2))
                data += b"\x07" * gap
                ctrl += [1] * gap
                wanted[p]["rx_runt" if load < 64 else "rx_bad_fcs"] += 1
                short = "drop_runt" if load < 64 else "drop_not_mine"
                wanted[p][short] += 1
            data[0], ctrl[0] = 0x55, 0
            junk = XgmiiFrame(data, ctrl)
            bench.sources[p].send_nowait(junk)
            frame = bench.v4(p, f"10.{p}.0.1", 100)
            good.append(bench.router.decide(p, frame)[2])
            bench.sources[p].send_nowait(XgmiiFrame.from_payload(frame))
    await bench.drain()
    got = []
    for p in range(PORTS):
        while not bench.sinks[p].empty():
            got.append(bytes(bench.sinks[p].recv_nowait().get_payload()))
    assert Counter(got) == Counter(good)
    for p in range(PORTS):
        found = await bench.counters(p)
        # A longer one may look like anything.
        judged = found["drop_not_mine"] + found["host_link"] + found["drop_bad"]
        assert found["drop_runt"] == wanted[p]["drop_runt"]
        assert judged == wanted[p]["drop_not_mine"]
        assert found["rx_runt"] == wanted[p]["rx_runt"]
        assert found["rx_bad_fcs"] == wanted[p]["rx_bad_fcs"]
        assert found["rx_good"] == found["forward"] == 4
    bench.host.clear()


@cocotb.test(skip=not VLAN)
async def vlans(dut) -> None:
    """Tags are wanted and taken off, or put on, as the ports are set; other tags drop a frame."""
    bench = await setup(dut)
    rand = bench.rand
    vid_in, vid_out = rand.randrange(1, 4095), rand.randrange(1, 4095)
    await bench.set_field(0, FIELD_VLAN, 1 << 12 | vid_in)
    await bench.set_field(1, FIELD_VLAN, 1 << 25 | vid_out << 13)
    await bench.write(MEM_DRAIN, 0, 0)
    wanted = Counter()
    for _ in range(60):
        i, o = rand.randrange(2), rand.randrange(2)
        v6 = rand.random() < 0.3
        size = rand.choice((64, 68, 70, 1518, rand.randint(64, 200)))
        # A tagged frame of 64 bytes holds 4 less.
        least = 66 if v6 else 64
        build, target = (bench.v6, f"2001:db8:{o}::1") if v6 else (bench.v4, f"10.{o}.0.1")
        frame = build(i, target, max(size, least))
        vid = vid_in if rand.random() < 0.8 else rand.randrange(4096)
        tag = b"\x81\x00" + (rand.randrange(16) << 12 | vid).to_bytes(2, "big")
        raw = frame[:12] + tag + frame[12:] if i == 0 and rand.random() < 0.9 else frame
        tagged = raw != frame
        starts: list[XgmiiFrame] = []
        sent = XgmiiFrame.from_payload(raw)
        sent.tx_complete = starts.append
        await bench.sources[i].send(sent)
        await bench.drain()
        if i == 0 and not (tagged and vid == vid_in):
            wanted["drop_vlan"] += 1
            assert bench.sinks[o].empty()
            continue
        verdict, port, expected = bench.router.decide(i, frame)
        assert (verdict, port) == ("forward", o)
        if o == 1:
            expected = expected[:12] + b"\x81\x00" + vid_out.to_bytes(2, "big") + expected[12:]
        got = bench.sinks[o].recv_nowait()
        assert got.check_fcs() and bytes(got.get_payload()) == expected
        # A tag costs nothing: without one a beat waits as long for the beat behind it.
        assert bench.cycles(starts[0], got) == (bench.v6_cycles if v6 else bench.v4_cycles)
        wanted["forward"] += i == 0
    found = await bench.counters(0)
    assert found["drop_vlan"] == wanted["drop_vlan"] and found["forward"] == wanted["forward"]
    # Tagged frames shorter than 64 bytes are runts; 64 bytes with the tag are not.
    frame = bench.v4(0, "10.0.0.1", 64)[:-4]
    tag = b"\x81\x00" + vid_in.to_bytes(2, "big")
    for size in (59, 60):
        raw = frame[:12] + tag + frame[12 : size - 4]
        await bench.sources[0].send(XgmiiFrame.from_raw_payload(with_fcs(raw)))
    await bench.drain()
    found = await bench.counters(0)
    assert found["drop_runt"] == 1
    assert found["forward"] == wanted["forward"] + 1


@pytest.mark.parametrize(NAMES, LATENCIES)
def test_fibnic(AsyncRx: int, ReadLatency: int, Lookups: int, Vlan: int) -> None:
    """Run all: with the crossing of the receive clocks, with one clock, and with one lookup."""
    build = (AsyncRx, ReadLatency, Lookups, Vlan)
    parameters = dict(zip(NAMES, build, strict=True))
    build_and_run(
        "tb_fibnic",
        __name__,
        filelists=["rtl/fibnic/fibnic.f"],
        sources=["verif/fibnic/tb_fibnic.sv"],
        parameters=parameters,
        testcases=BRIEFLY.get(build),
        extra_env={name.upper(): str(value) for name, value in parameters.items()},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
