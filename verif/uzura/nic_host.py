# SPDX-License-Identifier: Apache-2.0
"""Hosts for two UZURA NICs: uzura_host.py's driver over PCI Express, and the wire between them.

The root complex is the ring NIC's (verif/ring/ring_host.py): late completions, in pieces and in any
order; writes must lie where the driver has said that they may.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import cocotb
import roce
from cocotb.triggers import Event, RisingEdge, Timer, with_timeout
from cocotbext.eth import XgmiiFrame

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ring"))

import ring_host
from uzura_host import CONTROL, MEMORY, Bench, Engine

BAR_DOORBELLS = 2
ID, STATUS, MSI_LO, MSI_HI, MSI_DATA, MODERATION_US, INTERRUPT, TIMEOUT_US, MAX_READ = (
    0x1000, 0x1008, 0x1010, 0x1014, 0x1018, 0x101C, 0x1020, 0x1024, 0x1028,
)  # fmt: skip
COUNTERS_AT = 0x2000
COUNTERS = (
    "tlp_register_write tlp_register_read tlp_completion tlp_completion_unexpected tlp_unsupported "
    "tlp_poisoned tlp_malformed tlp_page_beyond register_refused doorbell_refused dma_read_timeout "
    "dma_read_failed dma_read dma_write msi"
).split()


class Side:
    """The pins of one of the two NICs."""

    def __init__(self, dut, prefix: str) -> None:
        """Take the top and the prefix of the NIC's pins."""
        self._dut, self._prefix = dut, prefix

    def __getattr__(self, name: str):
        """Find a pin."""
        return getattr(self._dut, self._prefix + name)


class FlatMemory:
    """An engine's memory as the root complex uses it."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine."""
        self.engine = engine

    def read(self, address: int, length: int) -> bytes:
        """Read bytes."""
        return bytes(self.engine.memory[address : address + length])

    def write(self, address: int, data: bytes) -> None:
        """Write bytes, where the engine may."""
        may = self.engine.may_write[address : address + len(data)]
        assert all(may), f"{len(data)} bytes are written at {address:#x}, where nothing may be"
        self.engine.memory[address : address + len(data)] = data


class NicEngine(Engine):
    """An engine's host, whose registers lie behind PCI Express."""

    host: ring_host.Host

    def write(self, address: int, value: int) -> None:
        """Write a register or ring a doorbell: one TLP of two DWs."""
        self.store(address, struct.pack("<Q", value))

    def store(self, address: int, data: bytes) -> None:
        """Store bytes with one TLP."""
        bar = ring_host.BAR_REGISTERS if address & CONTROL else BAR_DOORBELLS
        header = bytes([0x40, 0, 0, len(data) // 4, 0, 0, 0, 0xFF])
        self.host.source.put(header + struct.pack(">I", address & ~CONTROL) + data, bar)

    async def read(self, address: int) -> int:
        """Read a register of 8 bytes."""
        status, data = await self.read_raw(address & ~CONTROL, 2)
        assert status == ring_host.SC
        return int.from_bytes(data, "little")

    async def read_raw(
        self, offset: int, dws: int, bar: int = ring_host.BAR_REGISTERS
    ) -> tuple[int, bytes]:
        """Read DWs; return the completion's status and data."""
        h = self.host
        h._tag = (h._tag + 1) % 256
        done, out = Event(), []
        h._tags[h._tag] = (done, out)
        enables = 0xFF if dws > 1 else 0x0F
        request = bytes([0, 0, 0, dws, 0, 0, h._tag, enables]) + struct.pack(">I", offset)
        h.source.put(request, bar)
        await with_timeout(done.wait(), 50, "us")
        return out[0], out[1]

    async def nic_counters(self) -> dict[str, int]:
        """Read the NIC's own counters."""
        return {n: await self.host.read(COUNTERS_AT + 4 * i) for i, n in enumerate(COUNTERS)}


class NicBench(Bench):
    """Two NICs and a wire on which every frame is read by Scapy."""

    def __init__(self, dut) -> None:
        """Take the DUT; `start` does the rest."""
        super().__init__(dut)
        # Of each frame the ps of its begin as it left, and of its end as it was taken in.
        self.passed: list[list[int]] = []
        self.engines = [
            NicEngine(self, 0, roce.MAC_A, roce.IP_A),
            NicEngine(self, 1, roce.MAC_B, roce.IP_B),
        ]

    async def start(
        self, delay_ns: tuple[int, int] = (300, 900), pieces: bool = True, pause: float = 0.0
    ) -> NicBench:
        """Reset both NICs and tell them who they are."""
        for engine, prefix in zip(self.engines, ("a_", "b_"), strict=True):
            host = ring_host.Host(Side(self.dut, prefix))
            host.memory = FlatMemory(engine)
            host.may_read = host.may_write = [(0, MEMORY)]
            host.delay_ns, host.pieces = delay_ns, pieces
            engine.host = host
            await host.start(pause=pause)
            assert await host.read(ID) == 0x525A554E
            assert await host.read(STATUS) == 1
            await host.write(MSI_LO, ring_host.MSI_AT)
            await host.write(MSI_DATA, ring_host.MSI_WORD)
            await host.write(INTERRUPT, 1)
            await engine.begin()
        for engine in self.engines:
            cocotb.start_soon(self._carry(engine.number))
        return self

    async def _carry(self, number: int) -> None:
        """Carry frames from one NIC to the other."""
        source, target = self.engines[number].host, self.engines[1 - number].host
        while True:
            frame = await source.wire_out.recv()
            assert frame.check_fcs()
            data = bytes(frame.get_payload())
            self.frames.append((number, data))
            copies = [(0, data)]
            if self.channel:
                copies = self.channel(number, data)
            passed = [int(frame.sim_time_start)]
            self.passed.append(passed)
            for _, copy in copies:
                wired = XgmiiFrame.from_payload(copy)
                wired.tx_complete = lambda sent, passed=passed: passed.append(sent.sim_time_end)
                await target.wire_in.send(wired)

    async def step(self) -> None:
        """Go on by one cycle of A's network clock."""
        await RisingEdge(self.dut.a_clk_net_i)
        self.cycle += 1

    async def quiet(self) -> None:
        """Wait until nothing is under way."""
        await Timer(5, "us")
        for engine in self.engines:
            await engine.host.settle()
