# SPDX-License-Identifier: Apache-2.0
"""The bench around the 10G switch: its ports, its tables, its model, and random frames."""

from __future__ import annotations

import ipaddress
import logging
import os
import random
import struct
import zlib
from collections import Counter

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotbext.eth import XgmiiFrame, XgmiiSink, XgmiiSource
from fib_ref import SRAM22, SRAM22_NEXT_HOP, Table4, Table6, sram22_word
from router_ref import COUNTERS, NextHop, Router
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether

PERIOD_PS = 6400
PORTS = 4
MEM_NEXT_HOP, MEM_ACL, MEM_PORT, MEM_DRAIN = 21, 25, 26, 31
# An address at each port that a prefix leads to.
PREFIXED4 = ("10.31.255.9", "10.17.40.1", "10.18.5.1", "10.18.5.14")
PREFIXED6 = tuple(f"2001:db8:{p + 1}000::{p}:9" for p in range(PORTS))
FIELD_MAC, FIELD_MTU, FIELD_VLAN, FIELD_CHECK, FIELD_POLICE = range(5)
CHECK_NEVER, CHECK_AUTO, CHECK_ALWAYS = range(3)
CHECK_WINDOW = 256
LEAF_HOST, LEAF_DISCARD = 16 << 12, 17 << 12
MAX_FRAME = 9216
DST_PORTS = (2, 7, 22, 4000)  # of UDP, known to the access list's test


# Cycles from preamble to preamble: of each build, its parameters to those of IPv4 and IPv6.
NAMES = ("AsyncRx", "ReadLatency", "Lookups", "Vlan", "Waiting")
LATENCIES = {(1, 1, 4, 0, 4): (15, 23), (0, 2, 4, 0, 1): (15, 29), (0, 1, 1, 1, 4): (16, 24)}
# With the dissertation's lookup.
SRAM22_LATENCIES = 28, 30
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
        of_the_dissertation = os.environ.get("SRAM22") == "1"
        latencies = SRAM22_LATENCIES if of_the_dissertation else LATENCIES[build]
        self.v4_cycles, self.v6_cycles = latencies
        self.waiting = build[NAMES.index("Waiting")]
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
        self.rx_clocks: list[Clock] = []
        for p in range(PORTS):
            dut[f"clk_rx_{p}_i"].value = 0
        if not one_clock:
            # 156 ppm apart, more than a link may be, and any phase.
            clocks = [dut[f"clk_rx_{p}_i"] for p in range(PORTS)]
            for clock in clocks:
                await Timer(self.rand.randint(1, PERIOD_PS), "ps")
                period = PERIOD_PS + self.rand.choice([-1, 0, 1])
                self.rx_clocks.append(Clock(clock, period, "ps", period_high=PERIOD_PS // 2))
                self.rx_clocks[-1].start()
        dut.rst_i.value = 1
        dut.rst_rx_i.value = 0
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
        # The receive sides have settings by then, and receive.
        for _ in range(40):
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

    async def dissertation_routes(self) -> None:
        """Build the dissertation's tables: three next hops, a prefix of each family to each.

        The benches' SRAM does not look at the upper six address bits.
        """
        rand = self.rand
        leaves, routes = {}, {}
        for code in (1, 2, 3):
            mac = rand.randbytes(5) + bytes([code])
            leaf = code << 12 | code
            leaves[leaf] = code
            await self.write(MEM_NEXT_HOP, code, int.from_bytes(mac, "big") << 6 | code << 1 | 1)
            await self.write(SRAM22_NEXT_HOP, code, leaf)
            for first, bits in ((10, 24), (0x2001, 112)):
                addr = first << bits | rand.getrandbits(bits)
                length = rand.choice([21, 24] if bits == 24 else [40, 64, 97])
                net = ipaddress.ip_network((addr, length), strict=False)
                addr = int(net.network_address)
                self.router.routes[net] = NextHop(code, mac)
                if net.version == 4:
                    routes[addr, length] = leaf
                    continue
                for write in self.tables[6]._change_tcam((addr, length), leaf):
                    await self.write(*write)
        for addr, length in routes:
            for index in range(addr >> 10, ((addr | (1 << 32 - length) - 1) >> 10) + 1):
                await self.write(SRAM22, index, sram22_word(routes, leaves, index))

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


def special_and_near(rand: random.Random) -> list[str]:
    """Return an address of each special range, and those that a bit of its prefix tells from it."""
    v4 = "0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32"
    out = []
    for net in map(ipaddress.ip_network, (*v4.split(), "::/127", "fe80::/10", "ff00::/8")):
        top = net.max_prefixlen
        inside = int(net.network_address) | rand.getrandbits(top - net.prefixlen or 1) & int(
            net.hostmask
        )
        turned = [0, *(1 << top - 1 - bit for bit in range(net.prefixlen))]
        out += [str(type(net.network_address)(inside ^ bit)) for bit in turned]
    return out


def special_frame(maker: Bench, port: int, address: str, field: str) -> bytes:
    """Build a frame from, or to, an address; the other is a station's at the same port."""
    if ":" in address:
        return maker.v6(port, f"2001:db8:{port}::1", 80, **{field: address})
    return maker.v4(port, f"10.{port}.0.1", 80, **{field: address})


def near_hop_by_hop(maker: Bench, port: int) -> list[bytes]:
    """Build a frame with options for every hop (IPv6), and those that a bit tells from it."""
    target = f"2001:db8:{port}::1"
    return [maker.v6(port, target, 80, nh=nh) for nh in (0, *(1 << bit for bit in range(8)))]


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
