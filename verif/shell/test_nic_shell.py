# SPDX-License-Identifier: Apache-2.0
"""Two functions behind one PCI Express link and one cable.

Each engine has benches of its own; these are about what they share.
"""

from __future__ import annotations

import json
import random
import struct

import cocotb
import pytest
from cocotb.triggers import Timer, with_timeout
from harness import ROOT, build_and_run
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from shell_bench import (
    BAR_NONE,
    BAR_PAGES,
    BAR_REGISTERS,
    DEVICE,
    FN_IPNUMA,
    FN_NONE,
    FN_RING,
    NIC,
    PEER,
    Driver,
    Shell,
    completion,
    hit,
    nic_ref,
)

CPL, CPLD, MRD, MWR, PORT = (
    nic_ref.CPL,
    nic_ref.CPLD,
    nic_ref.MRD,
    nic_ref.MWR,
    nic_ref.PORT,
)
compact, frame = nic_ref.compact, nic_ref.frame
tlp_completion, tlp_request = nic_ref.tlp_completion, nic_ref.tlp_request
RING_ID, IPNUMA_ID = 0x52494E47, 0x49504E4D
SC, UR = 0, 1
REG_ID, REG_MAC_LO, TX_TAIL = 0x0, 0x10, 0x30
BROADCAST = "ff:ff:ff:ff:ff:ff"
BASE = 0x4000_0000  # of the region that the peer may write and read
PAGE = 4096
PATIENCE = 15  # of frame_arbiter
STEP_PS = 1600  # between the phases of the clocks in which latencies are compared
LIMIT_US = 4000  # of simulated time for a test: whoever waits for what is lost would wait for ever


def mac(number: int) -> str:
    """Write a MAC address with colons."""
    return number.to_bytes(6, "big").hex(":")


def ip(number: int) -> str:
    """Write an IPv4 address with dots."""
    return ".".join(str(b) for b in number.to_bytes(4, "big"))


def head(**changed) -> Ether:
    """Make Ethernet and IPv4 headers of a frame to the NIC; `changed` are fields of IP."""
    fields = {"src": ip(PEER.ip), "dst": ip(NIC.ip), **changed}
    return Ether(dst=mac(NIC.mac), src=mac(PEER.mac)) / IP(**fields)


def ordinary(length: int) -> bytes:
    """Make a frame of this length that is the host's: TCP, or UDP to any port but IP-NUMA's."""
    kind = TCP(dport=PORT) if random.random() < 0.5 else UDP(sport=PORT, dport=PORT + 1)
    packet = head() / kind
    body = random.randbytes(max(0, length - len(packet)))
    return bytes(packet / Raw(body)).ljust(60, b"\0")


def outgoing(length: int) -> bytes:
    """Make a frame that the host sends."""
    packet = Ether(dst=mac(PEER.mac), src=mac(NIC.mac))
    packet = packet / IP(src=ip(NIC.ip), dst=ip(PEER.ip)) / TCP(dport=80)
    return bytes(packet / Raw(random.randbytes(length - len(packet))))


def stores(data: bytes, offset: int, key: int = 0) -> bytes:
    """Make a frame that stores to the region."""
    return frame(compact(key, offset, data), PEER, NIC)


async def ready(dut, pause: float = 0.0, gap: float = 0.0) -> tuple[Shell, Driver]:
    """Start everything: rings with buffers, a region of one page, and page 0 mapped to the peer."""
    s = await Shell(dut).start(pause, gap)
    d = await s.drive()
    await d.fill(40)
    await s.ipnuma.set_region(0, BASE, PAGE - 1)
    await s.ipnuma.set_peer(1, PEER, compact=True)
    await s.ipnuma.set_peer(2, PEER, compact=False)
    await s.ipnuma.map_page(0, 1, 5, 0)
    await s.ipnuma.map_page(1, 2, 5, 0)
    await s.settle()
    return s, d


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def each_function_has_its_registers(dut) -> None:
    """The BAR 0 of each is its own; what hits no function is refused by the first."""
    s = await Shell(dut).start()
    assert await s.read(REG_ID) == RING_ID
    assert await s.ipnuma.bar0.read_dword(REG_ID) == IPNUMA_ID
    ring, ipnuma = await s.counters(), await s.ipnuma.counters()
    await s.ipnuma.bar0.write_dword(REG_MAC_LO, 0x12345678)
    assert await s.ipnuma.bar0.read_dword(REG_MAC_LO) == 0x12345678
    assert await s.read(REG_MAC_LO) == 0
    for function, bar in ((FN_RING, BAR_PAGES), (FN_NONE, BAR_REGISTERS), (FN_RING, BAR_NONE)):
        status, data = await s.read_raw(0, hit(function, bar))
        assert (status, data) == (UR, b"")
    assert await s.changed(ring) == {"tlp_unsupported": 3}
    assert await s.ipnuma.changed(ipnuma) == {}


class Traffic:
    """Random work of all kinds at once, each kind in order; everything is compared."""

    def __init__(self, s: Shell, d: Driver) -> None:
        """Take both drivers."""
        self.s, self.d = s, d
        self.stored: list[tuple[int, bytes]] = []
        self.answers: dict[int, bytes] = {}  # completions to the peer, by its tag
        self.peer_hears = None  # takes stores and refusals instead

    async def host_sends(self, count: int) -> None:
        """Send frames from memory."""
        for _ in range(count):
            out = outgoing(random.choice((60, 1514, random.randint(60, 1514))))
            await self.d.send(out)
            assert await with_timeout(self.s.from_nic(), 500, "us") == out

    async def host_receives(self, count: int) -> None:
        """Receive frames to memory."""
        for _ in range(count):
            into = ordinary(random.choice((60, 1514, random.randint(60, 1514))))
            await self.s.to_nic(into)
            assert await self.d.receive() == into
            await self.d.fill(1)

    async def cpu_stores(self, count: int) -> None:
        """Store to the peer."""
        for _ in range(count):
            dws = random.choice((1, 2, 16, random.randint(1, 32)))
            at = 4 * random.randrange((PAGE - 4 * dws) // 4)
            data = random.randbytes(4 * dws)
            self.stored.append((at, data))
            await self.s.ipnuma.store(at, data)
            if random.random() < 0.3:
                await Timer(random.randrange(1, 2000), "ns")

    async def cpu_loads(self, count: int) -> None:
        """Load from the peer, who answers with what the address says."""
        for _ in range(count):
            at = PAGE + 4 * random.randrange(PAGE // 4)
            assert await self.s.ipnuma.load(at) == self.word(at % PAGE)

    @staticmethod
    def word(offset: int) -> int:
        """Return what the peer's memory holds at an offset."""
        return (offset * 0x9E3779B1 + 1) & 0xFFFFFFFF

    async def peer_stores(self, count: int) -> None:
        """Store to the region."""
        for _ in range(count):
            dws = random.randint(1, 32)
            at = 4 * random.randrange((PAGE - 4 * dws) // 4)
            # One TLP: not over a multiple of the maximum payload.
            dws = min(dws, (128 - at % 128) // 4)
            data = random.randbytes(4 * dws)
            before = len(self.s.ipnuma.writes)
            await self.s.to_nic(stores(data, at))
            while len(self.s.ipnuma.writes) == before:
                await Timer(20, "ns")
            assert self.s.ipnuma.writes[before] == (BASE + at, data)

    async def peer_loads(self, count: int) -> None:
        """Load from the region's second half, where nobody stores."""
        for i in range(count):
            dws = random.randint(1, 32)
            at = 4 * random.randrange((PAGE - 4 * dws) // 4)
            payload = tlp_request(MRD, 1, at, length=dws, net_tag=i)
            await self.s.to_nic(frame(payload, PEER, NIC))
            while len(self.answers.get(i, b"")) < 4 * dws:
                await Timer(20, "ns")
            assert self.answers[i] == self.s.ipnuma.memory.read(BASE + PAGE + at, 4 * dws)

    async def peer(self) -> None:
        """Take what the NIC sends the peer."""
        while True:
            m = await self.s.ipnuma.frames.get()
            if self.peer_hears and (m.error or m.fmt_type == MWR):
                self.peer_hears(m)
            elif m.fmt_type == MWR:
                assert self.stored.pop(0) == (m.offset, m.data)
                assert m.key == 5
            elif m.fmt_type == MRD:
                assert (m.key, m.length) == (5, 1)
                data = struct.pack("<I", self.word(m.offset))
                answer = tlp_completion(m.net_tag, SC, 4, m.offset & 0x7F, data)
                await self.s.to_nic(frame(answer, PEER, NIC))
            else:
                assert m.fmt_type in (CPL, CPLD) and m.status == SC
                self.answers[m.net_tag] = self.answers.get(m.net_tag, b"") + m.data


async def both(dut, pause: float, gap: float) -> None:
    """Do all kinds of work at once; every byte is right, and all are counted."""
    s, d = await ready(dut, pause, gap)
    await s.ipnuma.set_region(1, BASE + PAGE, PAGE - 1, rights="r")
    s.ipnuma.memory.write(BASE + PAGE, random.randbytes(PAGE))
    s.delay_ns = s.ipnuma.delay_ns = (100, 900)
    s.pieces = True
    ring, ipnuma = await s.counters(), await s.ipnuma.counters()
    t = Traffic(s, d)
    cocotb.start_soon(t.peer())
    work = {
        t.host_sends: 25,
        t.host_receives: 25,
        t.cpu_stores: 150,
        t.cpu_loads: 25,
        t.peer_stores: 60,
        t.peer_loads: 30,
    }
    tasks = [cocotb.start_soon(kind(count)) for kind, count in work.items()]
    for task in tasks:
        await task
    await s.quiet()
    assert not t.stored
    changed = await s.changed(ring)
    expected = {"tx_frame": 25, "tx_packet": 25, "rx_frames": 25, "rx_good": 25}
    assert {name: changed[name] for name in expected} == expected
    assert not changed.keys() & {"rx_not_mine", "rx_overflow", "tlp_completion_unexpected"}
    changed = await s.ipnuma.changed(ipnuma)
    expected = {"tx_store": 150, "tx_load": 25, "rx_store": 60, "rx_load": 30}
    expected |= {"rx_completion": 25, "rx_not_ipnuma": 25, "load_completed": 25}
    expected |= {"rx_frames": 25 + 25 + 60 + 30, "dma_read": 30, "dma_write": 60}
    assert {name: changed[name] for name in expected} == expected
    assert "tlp_completion_unexpected" not in changed


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def both_at_once(dut) -> None:
    """Frames, stores and loads, each both ways, on a bus that is always ready."""
    await both(dut, 0.0, 0.0)


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def both_at_once_on_a_bus_that_stalls(dut) -> None:
    """The same with pauses in both directions of the bus."""
    await both(dut, 0.4, 0.3)


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def completions_go_to_who_asked(dut) -> None:
    """A completion for nobody, whatever its tag, ends no read, and is counted by function 0."""
    s, d = await ready(dut)
    s.delay_ns = (3000, 3000)
    s.ipnuma.delay_ns = (3000, 3000)
    s.ipnuma.memory.write(BASE, random.randbytes(PAGE))
    ring, ipnuma = await s.counters(), await s.ipnuma.counters()
    out = [outgoing(200) for _ in range(4)]
    for sent in out:
        d.place(sent, offset=0)
    await s.write(TX_TAIL, d.tx_tail)
    for i in range(4):
        request = tlp_request(MRD, 0, 64 * i, length=16, net_tag=i)
        await s.to_nic(frame(request, PEER, NIC))
    await Timer(1500, "ns")
    # Both have reads in flight now, and nobody has been answered. All tags to each wrong place.
    nobody = (DEVICE | FN_NONE, DEVICE + 8, DEVICE + 0x100 + FN_IPNUMA)
    for requester in nobody:
        for tag in range(256):
            kind = random.choice((completion(requester, tag, 64, 0, bytes(64)),
                                  completion(requester, tag, 4, 0, status=UR)))  # fmt: skip
            await s.source.send(kind, hit(random.randrange(8), BAR_NONE))
    # To functions that are there, tags that nobody has.
    for tag in range(32, 256):
        for function in (FN_RING, FN_IPNUMA):
            tlp = completion(DEVICE | function, tag, 64, 0, bytes(64))
            await s.source.send(tlp, hit(random.randrange(8), BAR_NONE))
    # Half a completion, as no root complex sends it.
    await s.source.send(completion(DEVICE | FN_IPNUMA, 0, 4, 0)[:8], BAR_NONE)
    for sent in out:
        assert await s.from_nic() == sent
    for i in range(4):
        m = await s.ipnuma.frames.get()
        assert (m.fmt_type, m.status) == (CPLD, SC)
        assert m.data == s.ipnuma.memory.read(BASE + 64 * m.net_tag, 64), i
    await s.quiet()
    changed = await s.changed(ring)
    assert changed["tlp_completion_unexpected"] == len(nobody) * 256 + 224
    assert changed["tlp_malformed"] == 1
    changed = await s.ipnuma.changed(ipnuma)
    assert changed["tlp_completion_unexpected"] == 224
    assert changed["tlp_completion"] == 4
    assert "tlp_malformed" not in changed


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def a_read_of_one_is_not_ended_by_the_tag_of_the_other(dut) -> None:
    """The function without a read counts a completion; the other, which has that tag, waits on."""
    s, d = await ready(dut)
    for asker, bystander in ((FN_RING, FN_IPNUMA), (FN_IPNUMA, FN_RING)):
        s.delay_ns = s.ipnuma.delay_ns = (4000, 4000)
        ring, ipnuma = await s.counters(), await s.ipnuma.counters()
        s.ipnuma.memory.write(BASE, random.randbytes(64))
        out = outgoing(64)
        if asker == FN_RING:
            await d.send(out)
        else:
            request = tlp_request(MRD, 0, 0, length=16, net_tag=9)
            await s.to_nic(frame(request, PEER, NIC))
        await Timer(1000, "ns")
        for tag in range(32):
            tlp = completion(DEVICE | bystander, tag, 64, 0, bytes(64))
            await s.source.send(tlp, BAR_NONE)
        if asker == FN_RING:
            assert await s.from_nic() == out
        else:
            m = await s.ipnuma.frames.get()
            assert m.data == s.ipnuma.memory.read(BASE, 64)
        await s.quiet()
        changed = {FN_RING: await s.changed(ring), FN_IPNUMA: await s.ipnuma.changed(ipnuma)}
        assert changed[bystander].get("tlp_completion_unexpected") == 32
        assert "tlp_completion_unexpected" not in changed[asker]


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def a_frame_has_one_owner(dut) -> None:
    """A field that makes a frame IP-NUMA's, changed, makes it the host's; bad ones are nobody's."""
    s, d = await ready(dut)
    payload = compact(0, 64, bytes(4))
    datagram = UDP(sport=PORT, dport=PORT, chksum=0) / Raw(payload)
    hosts = [
        head() / UDP(sport=PORT, dport=PORT ^ 1) / Raw(payload),
        head() / UDP(sport=PORT, dport=PORT ^ 0x100) / Raw(payload),
        head(dst=ip(NIC.ip ^ 1)) / datagram,
        head(dst=ip(NIC.ip ^ 0x10000)) / datagram,
        head(flags="MF") / datagram,
        head(frag=1) / datagram,
        head(frag=0x1000) / datagram,
        head(proto=6) / datagram,
        head(options=b"\1\1\1\1") / datagram,
        Ether(dst=mac(NIC.mac), src=mac(PEER.mac), type=0x0801) / IP(dst=ip(NIC.ip)) / datagram,
        Ether(dst=BROADCAST, src=mac(PEER.mac)) / IP(dst=ip(NIC.ip)) / datagram,
        Ether(dst="01:00:5e:00:00:01", src=mac(PEER.mac)) / IP(dst=ip(NIC.ip)) / datagram,
        Ether(dst=BROADCAST, src=mac(PEER.mac)) / ARP(pdst=ip(NIC.ip)),
    ]
    ring, ipnuma = await s.counters(), await s.ipnuma.counters()
    mine = [bytes(packet).ljust(60, b"\0") for packet in hosts]
    to_host = list(mine)
    bad = 0
    both = [(f, True) for f in mine] + [(None, False)] * len(mine)
    random.shuffle(both)
    # The order of what is mine is that of the wire.
    to_host = [f for f, is_mine in both if is_mine]
    data = []
    for sent, is_mine in both:
        if random.random() < 0.3:
            spoiled = random.choice((mine[0], stores(bytes(4), 128)))
            await s.to_nic(spoiled, spoil=True)
            bad += 1
        if is_mine:
            await s.to_nic(sent)
        else:
            data.append(random.randbytes(4))
            await s.to_nic(stores(data[-1], 64))
    for sent in to_host:
        assert await d.receive() == sent
    await s.quiet()
    assert d.arrived() is None
    assert s.ipnuma.writes == [(BASE + 64, word) for word in data]
    changed = await s.changed(ring)
    assert changed["rx_good"] == changed["rx_packet"] == len(mine)
    assert changed["rx_frames"] == len(mine) + bad
    assert changed.get("rx_bad_fcs", 0) == bad
    assert "rx_not_mine" not in changed
    changed = await s.ipnuma.changed(ipnuma)
    assert changed["rx_store"] == len(data)
    assert changed["rx_frames"] == len(mine) + len(data) + bad
    assert changed.get("rx_bad_fcs", 0) == bad
    assert changed["rx_arp"] == 1
    others = {"rx_not_mine": 1, "rx_arp": 1, "rx_not_ipnuma": len(mine) - 2}
    assert {name: changed[name] for name in others} == others


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def arp_has_one_answer(dut) -> None:
    """With one MAC address the host answers; else IP-NUMA does, and the host hears it too."""
    s, d = await ready(dut)
    question = Ether(dst=BROADCAST, src=mac(PEER.mac)) / ARP(
        op="who-has", hwsrc=mac(PEER.mac), psrc=ip(PEER.ip), pdst=ip(NIC.ip)
    )
    raw = bytes(question).ljust(60, b"\0")
    for shared in (True, False, True):
        await s.write(REG_MAC_LO, (NIC.mac & 0xFFFFFFFF) ^ (not shared))
        assert await s.read(REG_MAC_LO) & 1 == NIC.mac & 1 ^ (not shared)
        await s.settle()
        await s.to_nic(raw)
        assert await d.receive() == raw
        if not shared:
            answer = Ether(await with_timeout(s.from_nic(), 10, "us"))
            assert answer[ARP].op == 2 and answer[ARP].hwsrc == mac(NIC.mac)
        await s.quiet()


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def neither_starves_the_other_on_the_wire(dut) -> None:
    """Beside stores without a gap the host's frames go, and wait for so many stores at most."""
    s, d = await ready(dut)
    count, frames = 400, 12
    order: list[str] = []

    async def watch(queue, name: str) -> None:
        while True:
            await queue.get()
            order.append(name)

    cocotb.start_soon(watch(s.ring_frames, "host"))
    cocotb.start_soon(watch(s.ipnuma.frames, "store"))
    for _ in range(frames):
        d.place(outgoing(60), offset=0)
    await s.write(TX_TAIL, d.tx_tail)
    for i in range(count):
        await s.ipnuma.store(64 * (i % 64), random.randbytes(64))
    await Timer(2, "us")
    await s.settle()
    assert order.count("store") == count and order.count("host") == frames
    text = "".join("h" if name == "host" else "s" for name in order)
    between = text[text.index("h") : text.rindex("h")].split("h")
    # The next packet has to be fetched before it waits; then it waits for so many at most.
    assert max(map(len, between)) <= 2 * PATIENCE
    assert text.rindex("h") < len(text) - count // 4, "the host had to wait for the end"


@pytest.mark.parametrize("top", ["nic_shell_10g", "nic_shell_1g"])
def test_nic_shell(top: str) -> None:
    """All of the above."""
    build_and_run(
        top,
        __name__,
        filelists=["rtl/shell/shell.f"],
        sources=[
            "verif/pcie/tlp_rules.sv",
            "verif/pcie/tlp_rules_ipnuma.sv",
            "verif/pcie/tlp_rules_ring.sv",
        ],
        parameters={"Pages": 1024, "PcIds": 16, "Regions": 16},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )


def test_the_shell_takes_no_time() -> None:
    """A store through two of them takes, in every phase of the clocks, what it takes without."""
    out = ROOT / ".build" / "latency"
    out.mkdir(parents=True, exist_ok=True)
    figures = {}
    rules = ["verif/pcie/tlp_rules.sv", "verif/pcie/tlp_rules_ipnuma.sv"]
    builds = (
        ("two_nics", "rtl/nic/nic.f", "verif/nic/two_nics.sv"),
        ("two_shells", "rtl/shell/shell.f", "verif/shell/two_shells.sv"),
    )
    for top, files, source in builds:
        # The first is a run of test_latency.py too, and is not repeated.
        path = out / ("1024.json" if top == "two_nics" else f"{top}.json")
        build_and_run(
            top,
            "test_latency",
            filelists=[files],
            sources=[source, *rules],
            parameters={"Pages": 1024, "PcIds": 16, "Regions": 16},
            testcases=["latency"],
            build_args=["-Wno-UNUSEDPARAM"],
            extra_env={"IPNUMA_LATENCY_OUT": str(path), "IPNUMA_LATENCY_STEP": str(STEP_PS)},
            outputs=[path],
        )
        figures[top] = json.loads(path.read_text())
    alone, shared = figures["two_nics"], figures["two_shells"]
    assert alone.keys() == shared.keys() and len(alone) > 0
    worst = 0
    for name, row in alone.items():
        assert row.keys() == shared[name].keys()
        for phase, values in row.items():
            added = [b - a for a, b in zip(values, shared[name][phase], strict=True)]
            worst = max(worst, *map(abs, added))
    print(f"at most {worst} ps between a store with and without the other engine")
    assert worst == 0
