# SPDX-License-Identifier: Apache-2.0
"""Bench of the RFC 2544 instrument: every byte it sends, when, and every count of what it gets."""

from __future__ import annotations

import ipaddress
import random
import struct
import zlib
from collections import Counter

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.eth import GmiiFrame, GmiiSink, GmiiSource, XgmiiFrame, XgmiiSink, XgmiiSource
from harness import build_and_run
from scapy.layers.inet import ICMP, IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from tester_ref import (
    ABOVE,
    AUTO,
    BELOW,
    BINS,
    CLEAR,
    HISTOGRAM,
    LIST_RAM,
    REG,
    START,
    STOP,
    STREAM_FIELDS,
    STREAMS,
    WINDOW,
    Settings,
    StreamModel,
    smallest,
    stamp_of,
)

PERIOD_PS = 6400
IDLE_WORD = int.from_bytes(bytes([7] * 8), "little")
GAP = 12
PREAMBLE = 8
SPEEDS = ("x", "g")


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


def sim_ps() -> int:
    """Simulated time."""
    return int(get_sim_time("step"))


def with_fcs(frame: bytes) -> bytes:
    """Append the FCS."""
    return frame + struct.pack("<L", zlib.crc32(frame))


class Port:
    """One tester: its registers, and stations at its pins."""

    def __init__(self, dut, speed: str) -> None:
        self.dut, self.speed = dut, speed
        self.cycle_bytes = 8 if speed == "x" else 1
        self.first_signal = dut.x_first_o if speed == "x" else dut.gmii_tx_en_o
        self.busy = dut[f"{speed}_busy_o"]
        for name in ("wr", "addr", "wdata"):
            self.pin(name).value = 0

    def pin(self, name: str):
        """Return a pin of the register bus."""
        return self.dut[f"{self.speed}_{name}_i"]

    def stations(self) -> None:
        """Connect a source and a sink to the pins."""
        dut = self.dut
        if self.speed == "x":
            self.source = XgmiiSource(dut.xgmii_rxd_i, dut.xgmii_rxc_i, dut.clk_i)
            self.sink = XgmiiSink(dut.xgmii_txd_o, dut.xgmii_txc_o, dut.clk_i)
            dut.xgmii_rxd_i.value, dut.xgmii_rxc_i.value = IDLE_WORD, 0xFF
        else:
            self.source = GmiiSource(dut.gmii_rxd_i, dut.gmii_rx_er_i, dut.gmii_rx_dv_i, dut.clk_i)
            self.sink = GmiiSink(dut.gmii_txd_o, dut.gmii_tx_er_o, dut.gmii_tx_en_o, dut.clk_i)
        for station in (self.source, self.sink):
            station.log.setLevel("WARNING")

    async def write(self, addr: int, data: int) -> None:
        """Write a register."""
        self.pin("wr").value = 1
        self.pin("addr").value = addr
        self.pin("wdata").value = data % 2**64
        await RisingEdge(self.dut.clk_i)
        self.pin("wr").value = 0

    async def read(self, addr: int) -> int:
        """Read a register: the answer is there right after the next edge."""
        self.pin("addr").value = addr
        await RisingEdge(self.dut.clk_i)
        self.pin("addr").value = random.randrange(4096)
        await ReadOnly()
        data = int(self.dut[f"{self.speed}_rdata_o"].value)
        await FallingEdge(self.dut.clk_i)
        return data

    async def get(self, name: str) -> int:
        """Read a register by name."""
        return await self.read(REG[name])

    async def put(self, name: str, data: int) -> None:
        """Write a register by name."""
        await self.write(REG[name], data)

    async def set(self, want: Settings, count: int, interval: int = 0, burst: int = 1) -> None:
        """Tell the source what to send."""
        await self.put("SRC_MAC", int.from_bytes(want.src_mac, "big"))
        await self.put("DST_MAC", int.from_bytes(want.dst_mac, "big"))
        await self.put("STREAM", want.tos << 16 | want.ttl << 8 | want.stream << 4 | want.v6)
        await self.put("SIZE", want.size)
        await self.put("COUNT", count)
        await self.put("INTERVAL", interval)
        await self.put("BURST", burst)
        src, dst = (int(ipaddress.ip_address(a)) for a in (want.src_ip, want.dst_ip))
        for name, value in (("SRC_IP", src), ("DST_IP", dst), ("STEP", want.step)):
            await self.write(REG[name], value >> 64)
            await self.write(REG[name] + 1, value)
        await self.put("SWEEP", want.sweep)
        await self.put("PORTS", want.src_port << 16 | want.dst_port)
        await self.put("LIST", len(want.listed))
        for i, address in enumerate(want.listed):
            value = int(ipaddress.ip_address(address))
            await self.write(LIST_RAM + 2 * i, value)
            await self.write(LIST_RAM + 2 * i + 1, value >> 64)

    async def done(self) -> None:
        """Wait until the source has ended and nothing is under way."""
        if not self.busy.value:
            await RisingEdge(self.busy)
        while self.busy.value:
            await FallingEdge(self.busy)
            # A loop may have swallowed a frame for longer than anyone was busy.
            for _ in range(24):
                await RisingEdge(self.dut.clk_i)
        assert await self.get("CONTROL") == 0

    async def trial(self, want: Settings, count: int, interval: int = 0, burst: int = 1) -> None:
        """Clear the results, run a trial to its end."""
        await self.set(want, count, interval, burst)
        await self.put("CONTROL", CLEAR)
        await self.put("CONTROL", START)
        await self.done()

    async def stream(self, stream: int) -> dict[str, int]:
        """Read all results of a stream."""
        base = STREAMS + 16 * stream
        return {name: await self.read(base + i) for i, name in enumerate(STREAM_FIELDS)}

    async def histogram(self) -> tuple[list[int], int, int]:
        """Read the bins, and what is below and above them."""
        bins = [await self.read(HISTOGRAM + i) for i in range(BINS)]
        return bins, await self.read(BELOW), await self.read(ABOVE)


class Bench:
    """The clock, both testers and their common time."""

    def __init__(self, dut) -> None:
        self.dut, self.rand = dut, rng()
        self.ports = {speed: Port(dut, speed) for speed in SPEEDS}

    async def start(self, *, loop: bool = False, delay: int = 0, half: int = 0) -> None:
        """Clock and reset; with a loop or with stations."""
        dut = self.dut
        Clock(dut.clk_i, PERIOD_PS, "ps").start()
        dut.rst_i.value = 1
        dut.loop_i.value, dut.delay_i.value, dut.half_i.value = loop, delay, half
        dut.xgmii_rxd_i.value, dut.xgmii_rxc_i.value = IDLE_WORD, 0xFF
        dut.gmii_rxd_i.value = dut.gmii_rx_dv_i.value = dut.gmii_rx_er_i.value = 0
        for _ in range(20):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        # Time of the cycle that begins with this edge.
        self.edge = sim_ps()
        await ReadOnly()
        self.edge_now = int(dut.now_o.value)
        await RisingEdge(dut.clk_i)

    def half_cycles(self, cycle: int, half: bool = False) -> int:
        """Time in half cycles of the cycle that began with the edge at `cycle`."""
        return 2 * (self.edge_now + (cycle - self.edge) // PERIOD_PS) + half

    def sent_at(self, frame) -> int:
        """Time of a frame that a sink found: it sees a cycle at the edge that ends it."""
        ahead = frame.sim_time_start - PERIOD_PS
        half = getattr(frame, "start_lane", 0) == 4
        return self.half_cycles(ahead - half * PERIOD_PS // 2, half)

    def arrived_at(self, frame) -> int:
        """Time of a frame that a source sent."""
        half = getattr(frame, "start_lane", 0) == 4
        return self.half_cycles(frame.sim_time_start - half * PERIOD_PS // 2, half)


def random_settings(rand: random.Random, size: int, v6: bool) -> Settings:
    """Any settings for a frame size."""

    def address() -> str:
        return str(
            ipaddress.IPv6Address(rand.getrandbits(128))
            if v6
            else ipaddress.IPv4Address(rand.getrandbits(32))
        )

    want = Settings(
        src_mac=rand.randbytes(6),
        dst_mac=rand.randbytes(6),
        v6=v6,
        stream=rand.randrange(16),
        ttl=rand.randrange(256),
        tos=rand.randrange(256),
        size=size,
        src_ip=address(),
        dst_ip=address(),
        src_port=rand.randrange(65536),
        dst_port=rand.randrange(65536),
    )
    kind = rand.randrange(3)
    if kind == 1:
        want.sweep = rand.randint(2, 5)
        want.step = rand.choice([1, 256, 2**64, rand.getrandbits(128 if v6 else 32)])
        want.step %= 2 ** (128 if v6 else 32)
    elif kind == 2:
        want.listed = [address() for _ in range(rand.randint(1, 5))]
    return want


async def check_frames(bench: Bench, port: Port, want: Settings, count: int) -> None:
    """Run a trial and compare each frame on the pins with the model and with Scapy."""
    await port.trial(want, count)
    stamps = []
    for i in range(count):
        got = port.sink.recv_nowait()
        frame = bytes(got.get_payload(strip_fcs=False))
        assert len(frame) == want.size and got.check_fcs()
        stamps.append(bench.sent_at(got))
        assert stamp_of(frame) == stamps[-1], (i, stamp_of(frame), stamps[-1])
        assert frame[:-4] == want.frame(i, stamps[-1]), (i, want)
        # Scapy's own opinion of the checksums, from the frame itself.
        again = Ether(frame[:-4])
        if want.v6:
            del again[UDP].chksum
        else:
            assert again[UDP].chksum == 0
            del again[IP].chksum
        assert bytes(again) == frame[:-4]
        assert len(again[UDP].payload) == again[UDP].len - 8
    assert port.sink.empty()
    assert await port.get("TX_FRAMES") == count
    assert await port.get("TX_BYTES") == count * want.size
    assert await port.get("TX_FIRST") == stamps[0]
    assert await port.get("TX_LAST") == stamps[-1]


@cocotb.test()
async def frames(dut) -> None:
    """Both families, all sizes near the smallest, edges and random ones: every byte."""
    bench = Bench(dut)
    await bench.start()
    for speed, port in bench.ports.items():
        port.stations()
        for v6 in (False, True):
            low = smallest(v6)
            sizes = [*range(low, low + 34), 512, 1518, 9216]
            sizes += [bench.rand.randint(low, 9216) for _ in range(4 if speed == "x" else 2)]
            for size in sizes:
                want = random_settings(bench.rand, size, v6)
                await check_frames(bench, port, want, bench.rand.randint(1, 7))


@cocotb.test()
async def udp_checksum_zero(dut) -> None:
    """An IPv6 checksum that comes out as zero is sent as all ones."""
    bench = Bench(dut)
    await bench.start()
    for port in bench.ports.values():
        port.stations()
        want = random_settings(bench.rand, bench.rand.randint(80, 100), True)
        want.listed, want.sweep = [], 0
        await port.trial(want, 1)
        port.sink.clear()

        async def start_at(cycle: int, port: Port = port) -> None:
            while bench.half_cycles(sim_ps()) < 2 * cycle:
                await RisingEdge(dut.clk_i)
            await port.put("CONTROL", START)
            await port.done()

        # Starting takes the same time always, so that the stamp is known in advance.
        cycle = bench.half_cycles(sim_ps()) // 2 + 50
        await start_at(cycle)
        port.sink.clear()
        delay = await port.get("TX_FIRST") - 2 * cycle
        cycle += 400
        ports = want.src_port + Ether(want.frame(0, 2 * cycle + delay))[UDP].chksum
        want.src_port = (ports & 0xFFFF) + (ports >> 16)
        assert Ether(want.frame(0, 2 * cycle + delay))[UDP].chksum == 0xFFFF
        await port.put("PORTS", want.src_port << 16 | want.dst_port)
        await start_at(cycle)
        frame = bytes(port.sink.recv_nowait().get_payload())
        assert stamp_of(frame) == 2 * cycle + delay
        assert frame == want.frame(0, 2 * cycle + delay)


async def starts(port: Port, count: int) -> list[int]:
    """Byte times of the starts of frames on the transmitter's pins."""
    found = []
    for _ in range(count):
        await RisingEdge(port.first_signal)
        cycle = sim_ps() // PERIOD_PS
        half = port.speed == "x" and bool(port.dut.x_half_o.value)
        found.append(port.cycle_bytes * cycle + 4 * half)
    return [t - found[0] for t in found]


@cocotb.test()
async def intervals(dut) -> None:
    """Any fraction of line rate: 10,000 starts, each where the interval says, none drifts."""
    bench = Bench(dut)
    await bench.start()
    for speed, port in bench.ports.items():
        for case in range(3) if speed == "x" else [bench.rand.randrange(2)]:
            size = bench.rand.choice([64, 65, bench.rand.randint(64, 100)])
            slot = size + PREAMBLE + GAP
            # At line rate, a little less, and anything.
            low = [256 * slot, 256 * slot + bench.rand.randint(1, 255), 258 * slot][case]
            interval = low if case < 2 else bench.rand.randint(low, 2 * low)
            count = 10_000 if case != 2 else 3000
            want = Settings(size=size)
            watch = cocotb.start_soon(starts(port, count))
            await port.trial(want, count, interval)
            for k, start in enumerate(await watch):
                due = -(-k * interval // 256)
                # A start is at a cycle, in the second half only back to back. Behind a start that
                # is late so, one cycle and the next half may pass.
                slack = 0 if speed == "g" else 12
                assert due <= start <= due + slack, (speed, size, interval, k, start, due)


@cocotb.test()
async def line_rate(dut) -> None:
    """Interval 0: gaps of 12 bytes on average, over any number of frames."""
    bench = Bench(dut)
    await bench.start()
    for speed, port in bench.ports.items():
        for v6 in (False, True):
            low = smallest(v6)
            for size in (low, low + 1, low + 2, low + 3, bench.rand.randint(low, 400)):
                count = 1000 if speed == "x" else 100
                watch = cocotb.start_soon(starts(port, count))
                want = random_settings(bench.rand, size, v6)
                await port.trial(want, count, bench.rand.choice([0, 1, 256 * size]))
                for k, start in enumerate(await watch):
                    exact = k * (size + PREAMBLE + GAP)
                    # The deficit idle count is at most three bytes.
                    slack = 0 if speed == "g" else 4
                    assert abs(start - exact) <= slack, (speed, size, k, start, exact)


@cocotb.test()
async def bursts(dut) -> None:
    """Bursts at the smallest gap, the interval from burst to burst."""
    bench = Bench(dut)
    await bench.start()
    for speed, port in bench.ports.items():
        size = 4 * bench.rand.randint(16, 30)
        slot = size + PREAMBLE + GAP
        burst = bench.rand.randint(2, 9)
        interval = 256 * burst * slot + bench.rand.randint(0, 256 * 500)
        count = 10 * burst + bench.rand.randint(1, burst - 1)
        watch = cocotb.start_soon(starts(port, count))
        await port.trial(Settings(size=size), count, interval, burst)
        for k, start in enumerate(await watch):
            due = -(-(k // burst) * interval // 256)
            slack = 0 if speed == "g" else 12
            early = due + k % burst * slot
            assert early <= start <= early + slack, (speed, k, start, early)


@cocotb.test()
async def control(dut) -> None:
    """Until stopped; started again; a start while running, stop and clear while idle do nothing."""
    bench = Bench(dut)
    await bench.start()
    for speed, port in bench.ports.items():
        port.stations()
        assert await port.get("ID") == int.from_bytes(b"RFC2544\0", "big")
        assert await port.get("BUILD") == port.cycle_bytes << 24 | 16 << 16 | 64 << 8 | 10
        want = random_settings(bench.rand, 80, False)
        await port.set(want, 0)
        await port.put("CONTROL", STOP)
        assert await port.get("CONTROL") == 0
        for _ in range(2):
            await port.put("CONTROL", START)
            for _ in range(bench.rand.randint(500, 1500)):
                await RisingEdge(dut.clk_i)
            await port.put("CONTROL", START)
            assert await port.get("CONTROL") == 1
            now = await port.get("TIME")
            assert abs(now - bench.half_cycles(sim_ps())) <= 4
            for _ in range(bench.rand.randint(1, 300)):
                await RisingEdge(dut.clk_i)
            await port.put("CONTROL", STOP)
            await port.done()
            sent = await port.get("TX_FRAMES")
            assert sent == port.sink.count() > 4
            for i in range(sent):
                got = port.sink.recv_nowait()
                assert bytes(got.get_payload()) == want.frame(i, bench.sent_at(got)), (speed, i)


@cocotb.test()
async def list_of_1024(dut) -> None:
    """The whole list, every entry once and the first ones again."""
    bench = Bench(dut)
    await bench.start()
    port = bench.ports["x"]
    port.stations()
    v6 = bench.rand.random() < 0.5
    want = Settings(v6=v6, size=smallest(v6))
    pick = ipaddress.IPv6Address if v6 else ipaddress.IPv4Address
    bits = 128 if v6 else 32
    want.listed = [str(pick(bench.rand.getrandbits(bits))) for _ in range(1024)]
    if v6:
        want.src_ip = "2001:2::1"
    await port.trial(want, 1030)
    for i in range(1030):
        got = port.sink.recv_nowait()
        assert bytes(got.get_payload()) == want.frame(i, bench.sent_at(got)), i


@cocotb.test()
async def registers(dut) -> None:
    """Every setting reads back, unknown registers read zero and change nothing."""
    bench = Bench(dut)
    await bench.start()
    widths = dict(
        SRC_MAC=48,
        DST_MAC=48,
        SIZE=14,
        COUNT=48,
        INTERVAL=32,
        BURST=32,
        SWEEP=32,
        PORTS=32,
        LIST=11,
        HIST_SHIFT=6,
        HIST_STREAMS=16,
    )
    resets = dict(SIZE=64, BURST=1, PORTS=49152 << 16 | 7, HIST_STREAMS=0xFFFF)
    for port in bench.ports.values():
        known = {REG[n]: (1 << w) - 1 for n, w in widths.items()}
        known[REG["STREAM"]] = 0xFFFFF1
        for name in ("SRC_IP", "DST_IP", "STEP"):
            known[REG[name]] = known[REG[name] + 1] = 2**64 - 1
        reset = {REG[n]: v for n, v in resets.items()} | {REG["STREAM"]: 64 << 8}
        for addr in known:
            assert await port.read(addr) == reset.get(addr, 0), hex(addr)
        assert await port.get("HIST_BASE") == AUTO
        values = {a: bench.rand.getrandbits(64) for a in known}
        for addr in bench.rand.sample(list(known), len(known)):
            await port.write(addr, values[addr])
        base = bench.rand.getrandbits(48)
        await port.put("HIST_BASE", base)
        mapped = {*known, *REG.values(), *range(HISTOGRAM, STREAMS + 256)}
        mapped |= {a + 1 for a in mapped}
        for addr in bench.rand.sample([a for a in range(0x800) if a not in mapped], 60):
            await port.write(addr, bench.rand.getrandbits(64))
            assert await port.read(addr) == 0, hex(addr)
        for addr in (*range(0x030, 0x034), *range(0x040, 0x047), *range(0x100, 0x300)):
            await port.write(addr, bench.rand.getrandbits(64))
        for addr, mask in known.items():
            assert await port.read(addr) == values[addr] & mask, hex(addr)
        assert await port.get("HIST_BASE") == base
        for stream in range(16):
            found = await port.stream(stream)
            assert found.pop("min") == 2**48 - 1 and not any(found.values())
        assert await port.histogram() == ([0] * BINS, 0, 0)
        for addr in (*range(0x030, 0x034), *range(0x040, 0x047)):
            assert await port.read(addr) == 0


# ---- Receive ----


def foreign(rand: random.Random, want: Settings, stamp: int) -> bytes:
    """A good frame that no tester made, some of them nearly so."""
    frame = bytearray(want.frame(rand.randrange(100), stamp))
    at_udp = 54 if want.v6 else 34
    kind = rand.randrange(9)
    if kind == 0:
        return bytes(Ether(src="02:00:00:00:00:09") / ARP(pdst="198.18.0.1")).ljust(60, b"\0")
    if kind == 1:
        return bytes(Ether() / IP(src="198.18.0.1", dst="198.18.0.2") / ICMP() / Raw(bytes(60)))
    if kind == 2:
        frame[at_udp + 2 + rand.randrange(2)] ^= 1 << rand.randrange(8)
    elif kind == 3:
        frame[at_udp + 8] ^= 1 << rand.randrange(8)
    elif kind == 4:
        frame[at_udp + 9] |= rand.randint(1, 15) << 4
    elif kind == 5:
        frame[12 + rand.randrange(2)] ^= 1 << rand.randrange(8)
    elif kind == 6:
        # Protocol, or next header.
        frame[20 if want.v6 else 23] ^= 1 << rand.randrange(8)
    elif kind == 7:
        if want.v6:
            frame[14] ^= 0x20
        else:
            # A fragment.
            frame[20] ^= rand.choice([0x20, 0x01])
    else:
        load = bytes(frame[at_udp:])
        head = Ether(src="02:00:00:00:00:09")
        if want.v6:
            options = bytes([17, 0, 1, 4, 0, 0, 0, 0])
            head /= IPv6(src=want.src_ip, dst=want.dst_ip, nh=0) / Raw(options)
        else:
            head /= IP(src=want.src_ip, dst=want.dst_ip, proto=17, options=[IPOption_NOP()] * 4)
        return bytes(head / Raw(load))
    return bytes(frame)


def order(rand: random.Random, count: int) -> list[int]:
    """Sequence numbers with loss, repetition, disorder near and far, and jumps."""
    numbers = list(range(count))
    numbers = [n for n in numbers if rand.random() > 0.1]
    for _ in range(count // 12):
        a = rand.randrange(len(numbers))
        b = min(len(numbers) - 1, a + rand.choice([1, 2, 5, 30, 62, 63, 64, 65, 66, 100]))
        numbers.insert(b, numbers.pop(a))
    for _ in range(count // 12):
        a = rand.randrange(len(numbers))
        b = min(len(numbers), a + rand.choice([0, 1, 2, 30, 63, 64, 65, 100]))
        numbers.insert(b, numbers[a])
    jump = rand.choice([0, 1, 62, 63, 64, 65, 1000, 2**33])
    at = rand.randrange(len(numbers))
    numbers = [n + jump * (i >= at) for i, n in enumerate(numbers)]
    # The window's edge: the oldest number it knows, and the one before, late and twice.
    first = max(numbers) + 1
    numbers += [n for n in range(first, first + WINDOW + 3) if n not in (first + 1, first + 3)]
    return numbers + [first + 3, first + 2, first + 3, first + 1, first, first + 4, first + 66]


async def feed(bench: Bench, port: Port, items: list) -> list:
    """Send frames (bytes with FCS, error position); return them with their times of arrival."""
    sent = []

    async def send(data: bytes, error: int | None) -> None:
        if port.speed == "x":
            frame = XgmiiFrame(bytearray([0x55] * 7 + [0xD5]) + data)
            if error is not None:
                frame.ctrl = [0] * len(frame.data)
                frame.data[8 + error], frame.ctrl[8 + error] = 0xFE, 1
        else:
            frame = GmiiFrame(bytearray([0x55] * 7 + [0xD5]) + data)
            if error is not None:
                frame.error = [0] * len(frame.data)
                frame.error[8 + error] = 1
        frame.tx_complete = sent.append
        await port.source.send(frame)

    for data, error in items:
        await send(data, error)
    await port.source.wait()
    for _ in range(40):
        await RisingEdge(bench.dut.clk_i)
    assert len(sent) == len(items)
    return [bench.arrived_at(f) for f in sent]


@cocotb.test()
async def counts(dut) -> None:
    """Streams of both families mixed, with all that can go wrong: every count of the model."""
    bench = Bench(dut)
    rand = bench.rand
    await bench.start()
    for speed, port in bench.ports.items():
        port.stations()
        for part in range(2):
            port_number = rand.choice([7, rand.randrange(65536)])
            await port.put("PORTS", rand.randrange(65536) << 16 | port_number)
            mask = rand.choice([0xFFFF, rand.getrandbits(16)])
            shift = rand.randrange(5)
            base = rand.choice([AUTO, rand.randrange(0, 60)])
            await port.put("HIST_STREAMS", mask)
            await port.put("HIST_SHIFT", shift)
            await port.put("HIST_BASE", base)
            await port.put("CONTROL", CLEAR)
            streams = rand.sample(range(16), 5 if part else 2)
            queues = {s: order(rand, 120 if speed == "x" else 50) for s in streams}
            sources = {}
            for s in streams:
                v6 = rand.random() < 0.5
                sources[s] = Settings(v6=v6, stream=s, dst_port=port_number)
                if v6:
                    sources[s].src_ip, sources[s].dst_ip = "2001:2::1", "2001:2:0:1::1"
            items, facts = [], []
            stats: Counter[str] = Counter()
            while any(queues.values()):
                s = rand.choice([s for s, q in queues.items() if q])
                want = sources[s]
                low = smallest(want.v6)
                size = rand.choice([low, low, rand.randint(low, low + 40), rand.randint(low, 300)])
                want = Settings(**{**want.__dict__, "size": size, "ttl": rand.randint(1, 255)})
                # The latency is settled when the frame arrives; the stamp is any time.
                stamp = rand.getrandbits(48) if rand.random() < 0.1 else None
                seq = queues[s][0]
                kind = rand.choices(
                    ["ours", "foreign", "fcs", "runt", "cut", "wrong", "length"],
                    [20, 2, 1, 1, 1, 1, 1],
                )[0]
                guess = bench.half_cycles(sim_ps()) + rand.randrange(64)
                stamp = guess if stamp is None else stamp
                frame, error, fact = want.frame(seq, stamp), None, None
                if kind == "ours":
                    queues[s].pop(0)
                    fact = (s, seq, stamp, size, False)
                elif kind == "foreign":
                    frame = foreign(rand, want, stamp)
                    stats["NOT_OURS"] += 1
                elif kind in ("wrong", "length"):
                    frame = bytearray(frame)
                    fill_at = 76 if want.v6 else 56
                    if kind == "length":
                        # One byte more or less than the IP header says.
                        if len(frame) > low - 4 and rand.random() < 0.5:
                            frame.pop()
                        else:
                            frame.append(0)
                    elif len(frame) > fill_at:
                        bit = rand.randrange(8 * (len(frame) - fill_at))
                        frame[fill_at + bit // 8] ^= 1 << bit % 8
                    else:
                        continue
                    frame = bytes(frame)
                    fact = (s, seq, stamp, size, True)
                    # It takes its number with it, or another copy comes.
                    if rand.random() < 0.5:
                        queues[s].pop(0)
                data = with_fcs(frame)
                if kind == "fcs":
                    bit = rand.randrange(8 * len(data))
                    data = bytearray(data)
                    data[bit // 8] ^= 1 << bit % 8
                    data = bytes(data)
                elif kind == "runt":
                    data = with_fcs(frame[: rand.randint(1, 59)])
                elif kind == "cut":
                    error = rand.randrange(9, len(data) - 4)
                stat = {"fcs": "BAD_FCS", "runt": "RUNT", "cut": "ERROR"}.get(kind, "GOOD")
                stats[stat] += 1
                items.append((data, error))
                facts.append(fact)
            arrivals = await feed(bench, port, items)
            models = {s: StreamModel() for s in range(16)}
            latencies = []
            for fact, arrival in zip(facts, arrivals, strict=True):
                if fact is None:
                    continue
                latency = models[fact[0]].take(fact[1], fact[2], arrival, fact[3], fact[4])
                if latency is not None and mask >> fact[0] & 1:
                    latencies.append(latency)
            for s, model in models.items():
                expected = {name: getattr(model, name) for name in STREAM_FIELDS}
                found = await port.stream(s)
                assert found == expected, (speed, s, found, expected)
            total = [sum(getattr(m, n) for m in models.values()) for n in ("duplicates", "stale")]
            assert min(total) > 0 and any(m.reordered for m in models.values())
            if base == AUTO and latencies:
                used = max(0, latencies[0] - (16 << shift))
                assert await port.get("HIST_BASE") == AUTO | used
            else:
                used = base % AUTO
            bins = Counter((v - used) >> shift if v >= used else -1 for v in latencies)
            below = bins.pop(-1, 0)
            expected = [bins.pop(i, 0) for i in range(BINS)]
            assert await port.histogram() == (expected, below, sum(bins.values()))
            for name in ("GOOD", "BAD_FCS", "RUNT", "ERROR", "NOT_OURS", "GIANT", "BAD_PREAMBLE"):
                assert await port.get("RX_" + name) == stats[name], (speed, name)


@cocotb.test()
async def giants(dut) -> None:
    """Frames beyond the largest and bad preambles are the MAC's to count, and leave no trace."""
    bench = Bench(dut)
    await bench.start()
    for port in bench.ports.values():
        port.stations()
        want = Settings(size=9217)
        frames = [want.frame(0, 0), Settings().frame(0, 0)]
        await feed(bench, port, [(with_fcs(f), None) for f in frames])
        assert await port.get("RX_GIANT") == 1 and await port.get("RX_GOOD") == 1
        kind = XgmiiFrame if port.speed == "x" else GmiiFrame
        await port.source.send(kind(bytearray([0x55] * 6 + [0x54, 0xD5]) + with_fcs(frames[1])))
        await port.source.wait()
        for _ in range(20):
            await RisingEdge(dut.clk_i)
        assert await port.get("RX_BAD_PREAMBLE") == 1
        assert (await port.stream(0))["frames"] == 1


# ---- Cable ----


async def check_loop(bench: Bench, port: Port, want: Settings, count: int, length: int) -> None:
    """All frames came back, whole and in order, each after `length` half cycles."""
    found = await port.stream(want.stream)
    expected = dict.fromkeys(STREAM_FIELDS, 0) | {
        "frames": count,
        "next": count,
        "bytes": count * want.size,
        "min": length,
        "max": length,
        "sum": count * length,
        "first": await port.get("TX_FIRST") + length,
        "last": await port.get("TX_LAST") + length,
    }
    assert found == expected, (port.speed, want, found, expected)
    bins, below, above = await port.histogram()
    base = await port.get("HIST_BASE")
    assert base == AUTO | max(0, length - BINS // 4)
    assert (below, above, sum(bins)) == (0, 0, count)
    assert bins[length - base % AUTO] == count
    assert await port.get("RX_GOOD") == count == await port.get("TX_FRAMES")


async def calibrate(dut, delay: int, half: int) -> None:
    """A cable of known length reads as that length, for every size, family and rate."""
    bench = Bench(dut)
    await bench.start(loop=True, delay=delay, half=half)
    for speed, port in bench.ports.items():
        length = 2 * delay + (half if speed == "x" else 0)
        for v6 in (False, True):
            low = smallest(v6)
            sizes = [*range(low, low + 9), 1518, 9216]
            sizes += [bench.rand.randint(low, 9216) for _ in range(8 if speed == "x" else 2)]
            for size in sizes:
                want = random_settings(bench.rand, size, v6)
                count = bench.rand.randint(1, 20 if size < 300 else 3)
                interval = bench.rand.choice([0, 256 * (size + 20) + bench.rand.randrange(9999)])
                await port.trial(want, count, interval)
                await check_loop(bench, port, want, count, length)


@cocotb.test()
async def no_cable(dut) -> None:
    """The transmitter's pins are the receiver's: zero."""
    await calibrate(dut, 0, 0)


@cocotb.test()
async def short_cable(dut) -> None:
    """A wire of any length below 16 cycles, with the starts of 10G moved by half a cycle or not."""
    rand = rng()
    await calibrate(dut, rand.randint(1, 15), rand.randrange(2))


@cocotb.test()
async def endurance(dut) -> None:
    """Line rate, smallest frames, a sweep, both directions at once: nothing is lost."""
    bench = Bench(dut)
    delay = bench.rand.randrange(16)
    await bench.start(loop=True, delay=delay)
    for port, count in zip(bench.ports.values(), (20_000, 2000), strict=True):
        for v6 in (False, True):
            want = random_settings(bench.rand, smallest(v6), v6)
            await port.trial(want, count)
            await check_loop(bench, port, want, count, 2 * delay)
            apart = await port.get("TX_LAST") - await port.get("TX_FIRST")
            exact = (count - 1) * (want.size + PREAMBLE + GAP) * 2 / port.cycle_bytes
            assert abs(apart - exact) <= 1


@cocotb.test()
async def rest(dut) -> None:
    """Not busy: the pins are idle, and no result changes."""
    bench = Bench(dut)
    await bench.start(loop=True)
    for port in bench.ports.values():
        await port.trial(Settings(), 5, 256 * 300)
        before = [await port.read(a) for a in (*range(0x10, 0x60), *range(0x100, 0x300))]
        for _ in range(200):
            await RisingEdge(dut.clk_i)
            assert not port.busy.value
        after = [await port.read(a) for a in (*range(0x10, 0x60), *range(0x100, 0x300))]
        assert before == after
    assert int(dut.xgmii_txc_o.value) == 0xFF and not dut.gmii_tx_en_o.value


@pytest.mark.parametrize("group", ["source", "check"])
def test_tester(group: str) -> None:
    """Run the bench, in two parts that can run at once."""
    source = ["frames", "udp_checksum_zero", "intervals", "line_rate", "bursts", "control"]
    check = ["list_of_1024", "registers", "counts", "giants", "no_cable", "short_cable"]
    check += ["endurance", "rest"]
    names = source if group == "source" else check
    ran = build_and_run(
        "tb_tester",
        __name__,
        filelists=["rtl/tester/tester.f"],
        sources=["verif/tester/tb_tester.sv"],
        testcases=names,
    )
    assert ran == len(names)
