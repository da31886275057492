# SPDX-License-Identifier: Apache-2.0
"""Function-level resets: one engine begins anew, the other loses nothing.

While a function is reset, before and behind that, the root complex and the wire go on sending.
"""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import Timer
from harness import build_and_run
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from shell_bench import (
    BAR_PAGES,
    BAR_REGISTERS,
    FN_IPNUMA,
    FN_RING,
    NIC,
    PEER,
    PORT,
    Driver,
    Shell,
    hit,
    nic_ref,
)
from test_nic_shell import BASE, PAGE, REG_MAC_LO, Traffic, mac, outgoing, ready, stores

LIMIT_US = 20000
TX_TAIL = 0x30
ROUNDS = 4
CA = 4
IDLE_NS = 1000  # more than the reset of a function takes that has nothing to do
PATIENCE_NS = 65536 * 4 + IDLE_NS  # of function_reset at 250 MHz


class Shared(Traffic):
    """Work of one function while the other is reset."""

    async def host_receives(self, count: int) -> None:
        """Receive; until IP-NUMA knows its addresses again its frames are the host's, too."""
        for _ in range(count):
            packet = Ether(dst=mac(NIC.mac), src=mac(PEER.mac)) / IP(dst="10.0.0.9") / UDP(dport=7)
            into = bytes(packet / Raw(random.randbytes(random.randint(18, 1400))))
            await self.s.to_nic(into)
            while (got := await self.d.receive()) != into:
                assert Ether(got)[UDP].dport == PORT
            await self.d.fill(4)

    async def all_of(self, function: int) -> None:
        """Do every kind of work of a function at once."""
        self.answers.clear()
        kinds = {self.host_sends: 6, self.host_receives: 6}
        if function == FN_IPNUMA:
            kinds = {
                self.cpu_stores: 30,
                self.cpu_loads: 5,
                self.peer_stores: 12,
                self.peer_loads: 6,
            }
        for task in [cocotb.start_soon(kind(count)) for kind, count in kinds.items()]:
            await task


class Disturbance:
    """What goes to a function around its reset, and comes from it: lost or whole, never altered."""

    def __init__(self, s: Shell, function: int, d: Driver) -> None:
        """Take the function that will be reset, and its driver before that."""
        self.s, self.function, self.d = s, function, d
        self.over = False
        self.to_host: list[bytes] = []
        self.from_host: list[bytes] = []
        self.to_region: list[tuple[int, bytes]] = []
        self.to_peer: list[tuple[int, bytes]] = []

    async def wire(self) -> None:
        """Send frames whose ends, seen alone, would be frames to this function."""
        inner = stores(b"\xee" * 8, 0x80)
        inner += bytes(-len(inner) % 8)
        while not self.over:
            packet = Ether(dst=mac(NIC.mac), src=mac(PEER.mac), type=0x88B5)
            if self.function == FN_RING:
                ours = NIC.mac.to_bytes(6, "big") + len(self.to_host).to_bytes(2, "big")
                self.to_host.append(bytes(packet / Raw(b"\0\0" + ours * 150)))
                await self.s.to_nic(self.to_host[-1])
                # A frame of the other one's work waits for its turn at the source.
                await Timer(random.choice((1, 1300, 2000)), "ns")
                continue
            packet.dst = "02:00:00:00:00:77"  # nobody here
            await self.s.to_nic(bytes(packet / Raw(b"\0\0" + inner * 16)))
            at, data = 4 * random.randrange(16), random.randbytes(4)
            self.to_region.append((BASE + at, data))
            await self.s.to_nic(stores(data, at))
            await Timer(random.choice((1, 1300, 2000)), "ns")

    async def cpu(self) -> None:
        """Have frames sent, or store."""
        while not self.over:
            if self.function == FN_RING:
                for _ in range(3):
                    self.from_host.append(outgoing(random.choice((60, 1514))))
                    self.d.place(self.from_host[-1])
                await self.s.write(TX_TAIL, self.d.tx_tail)
                await Timer(3, "us")
                continue
            data = random.randbytes(4 * random.randint(1, 32))
            at = 4 * random.randrange(512)
            self.to_peer.append((at, data))
            await self.s.ipnuma.store(at, data)
            await Timer(random.randrange(1, 300), "ns")

    def took(self, got: list, sent: list) -> int:
        """Assert that what came is part of what was sent, in order; return how much is missing."""
        rest = iter(sent)
        for one in got:
            assert any(other == one for other in rest), "not what was sent, or in another order"
        return len(sent) - len(got)


def forget(s: Shell, d: Driver) -> None:
    """Let the function touch nothing of what it was given before its reset."""
    for entry, (at, length) in d.buffers.items():
        s.may_write.remove((at, length))
        s.may_write.remove((d.rx_base + 16 * entry + 12, 4))
    d.buffers.clear()
    s.may_read.clear()


async def begin(s: Shell, function: int) -> Driver | None:
    """Do what a driver does that finds its function as after power-up."""
    assert await s.read(REG_MAC_LO, hit(function, BAR_REGISTERS)) == 0
    if function == FN_RING:
        d = await s.drive()
        await d.fill(120)
        return d
    await s.ipnuma.set_addresses()
    await s.ipnuma.set_region(0, BASE, PAGE - 1)
    await s.ipnuma.set_region(1, BASE + PAGE, PAGE - 1, rights="r")
    for number, compact in ((1, True), (2, False)):
        await s.ipnuma.set_peer(number, PEER, compact=compact)
        await s.ipnuma.map_page(number - 1, number, 5, 0)
    assert await s.ipnuma.bar0.read_dword(REG_MAC_LO) == NIC.mac & 0xFFFFFFFF
    return None


async def one_reset(s: Shell, t: Shared, function: int) -> tuple[int, int]:
    """Reset one of two functions in use; return how much was lost, and the ns."""
    out = Disturbance(s, function, t.d)
    other = FN_IPNUMA if function == FN_RING else FN_RING
    heard: list[nic_ref.Message] = []  # stores, and refusals of what came before the tables
    if function == FN_IPNUMA:
        t.peer_hears = heard.append
    tasks = [cocotb.start_soon(out.wire()), cocotb.start_soon(out.cpu())]
    work = cocotb.start_soon(t.all_of(other))
    await Timer(random.randrange(100, 8000), "ns")
    s.may_spoil = True
    took = await s.function_reset(function)
    written = len(s.ipnuma.writes)
    if function == FN_RING:
        before = [frame for frame in iter(t.d.arrived, None)]
        forget(s, t.d)
    await Timer(random.randrange(1, 500), "ns")
    out.over = function == FN_RING  # the old rings' driver is gone
    assert function == FN_RING or len(s.ipnuma.writes) == written, "a write behind the reset"
    d = await begin(s, function)
    t.d = d or t.d
    out.over = True
    for task in (*tasks, work):
        await task
    await Timer(3, "us")
    await s.settle()
    s.may_spoil = False
    if function == FN_RING:
        behind = [frame for frame in iter(t.d.arrived, None)]
        await t.d.fill(len(behind))
        sent = []
        while not s.ring_frames.empty():
            sent.append(s.ring_frames.get_nowait())
        lost = out.took(before + behind, out.to_host) + out.took(sent, out.from_host)
    else:
        lost = out.took([(m.offset, m.data) for m in heard if not m.error], out.to_peer)
        mine = [(at, data) for at, data in s.ipnuma.writes if data != b"\xee" * 8]
        assert len(mine) == len(s.ipnuma.writes), "a frame's inside was carried out"
        lost += out.took(mine, out.to_region)
        t.peer_hears = None
    s.ipnuma.writes.clear()
    await t.all_of(function)
    return lost, took


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def a_function_is_reset_alone(dut) -> None:
    """Both in use: the other's work is done exactly, and the one that was reset begins anew."""
    s, d = await ready(dut)
    await d.fill(120)
    s.wire_in.queue_occupancy_limit_frames = 2
    await s.ipnuma.set_region(1, BASE + PAGE, PAGE - 1, rights="r")
    assert await s.ipnuma.bar0.read_dword(REG_MAC_LO) == NIC.mac & 0xFFFFFFFF  # it is there
    s.ipnuma.memory.write(BASE + PAGE, random.randbytes(PAGE))
    s.delay_ns = s.ipnuma.delay_ns = (100, 900)
    t = Shared(s, d)
    cocotb.start_soon(t.peer())
    lost, longest = [0, 0], 0
    for i in range(ROUNDS):
        function = (FN_RING, FN_IPNUMA)[i % 2]
        missing, took = await one_reset(s, t, function)
        lost[function] += missing
        longest = max(longest, took)
        assert took < PATIENCE_NS
    print(f"lost around resets: {lost}, spoiled frames: {s.spoiled}, longest reset: {longest} ns")
    assert all(lost), "no reset fell into any work"


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def an_idle_function_is_reset_at_once(dut) -> None:
    """Registers and counters are as after power-up, the other function's as they were."""
    s, _ = await ready(dut)
    for function, other in ((FN_RING, FN_IPNUMA), (FN_IPNUMA, FN_RING)):
        assert await s.read(REG_MAC_LO, hit(function, BAR_REGISTERS)) != 0
        kept = await s.read(REG_MAC_LO, hit(other, BAR_REGISTERS))
        await s.settle()
        assert await s.function_reset(function) < IDLE_NS
        assert await s.read(REG_MAC_LO, hit(function, BAR_REGISTERS)) == 0
        assert await s.read(REG_MAC_LO, hit(other, BAR_REGISTERS)) == kept
        await begin(s, function)


@cocotb.test(timeout_time=LIMIT_US, timeout_unit="us")
async def what_the_cpu_asked_for_is_answered_before(dut) -> None:
    """A load whose peer is silent, and one behind it, end before the reset does."""
    s, _ = await ready(dut)
    s.read_limit_us = PATIENCE_NS // 1000
    answers = []

    async def load(at: int) -> None:
        answers.append(await s.read_raw(at, hit(FN_IPNUMA, BAR_PAGES)))

    tasks = [cocotb.start_soon(load(4 * i)) for i in range(2)]
    await Timer(2, "us")
    assert await s.function_reset(FN_IPNUMA) < PATIENCE_NS
    assert answers == [(CA, b"")] * 2
    for task in tasks:
        await task
    while not s.ipnuma.frames.empty():
        s.ipnuma.frames.get_nowait()


@pytest.mark.parametrize("top", ["nic_shell_10g", "nic_shell_1g"])
def test_function_reset(top: str) -> None:
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
