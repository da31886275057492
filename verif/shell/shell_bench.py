# SPDX-License-Identifier: Apache-2.0
"""Both functions of the NIC: one root complex, one wire, and the hands of two drivers.

Function 0 has the host and the driver of verif/ring, function 1 the calls of verif/nic. What leaves
the NIC is given to the function whose requester or completer ID it carries; it must carry one.
"""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import RisingEdge, Timer
from cocotb.utils import get_sim_time

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "ring"), str(HERE.parent / "nic")]

import nic_bench  # noqa: E402 (needs the path above)
import nic_ref  # noqa: E402, F401 (for the tests)
from nic_ref import NIC_A, NIC_B, PORT, Message, parse  # noqa: E402
from ring_host import MAC_HI, MAC_LO, SC, Driver, Host, Memory  # noqa: E402

DEVICE = 0x0100  # bus 1, device 0
FN_RING, FN_IPNUMA, FN_NONE = 0, 1, 5
BAR_REGISTERS, BAR_PAGES, BAR_NONE = 0, 2, 7
NIC, PEER = NIC_A, NIC_B


def hit(function: int, bar: int) -> int:
    """Return tuser of a request."""
    return function << 3 | bar


def completion(
    requester: int, tag: int, left: int, lower: int, data: bytes = b"", status: int = SC
) -> bytes:
    """Make a completion TLP of the root complex; `left` is its byte count."""
    dws = len(data) // 4
    head = struct.pack(">BBHHHHBB", 0x4A if dws else 0x0A, 0, dws, 0, status << 13 | left,
                       requester, tag, lower & 0x7F)  # fmt: skip
    return head + data


class Shell(Host):
    """The host of function 0, and what it shares with function 1."""

    def __init__(self, dut) -> None:
        """Take the DUT; `start` does the rest."""
        super().__init__(dut)
        self.ipnuma = Ipnuma(self)
        self.asked: dict[int, int] = {}  # function of each CPU read under way, by tag
        self.ring_frames: Queue[bytes] = Queue()
        self.may_spoil = False  # a function-level reset may cut a frame
        self.spoiled = 0  # frames that were

    async def start(self, pause: float = 0.0, gap: float = 0.0) -> Shell:
        """Start clocks and root complex, reset, and give both functions their addresses."""
        dut = self.dut
        dut.cfg_max_payload_i.value = 0
        dut.cfg_max_read_i.value = 2
        dut.cfg_rcb_128_i.value = 0
        dut.cfg_bus_master_i.value = 1
        dut.flr_i.value = 0
        await super().start(pause, gap)
        await self.ipnuma.set_addresses()
        # The reset may have cut a frame of the test before.
        self.wire_out.clear()
        cocotb.start_soon(self._wire())
        return self

    async def drive(self) -> Driver:
        """Return a driver of function 0, with the MAC address that function 1 has too."""
        driver = await Driver(self).start()
        await self.write(MAC_LO, NIC.mac & 0xFFFFFFFF)
        await self.write(MAC_HI, NIC.mac >> 32)
        assert await self.read(MAC_HI) == NIC.mac >> 32
        return driver

    async def function_reset(self, function: int) -> int:
        """Reset a function as its configuration space asks for it; return the ns that it took."""
        await RisingEdge(self.dut.clk_pcie_i)
        begin = get_sim_time("ns")
        self.dut.flr_i.value = 1 << function
        while not int(self.dut.flr_done_o.value) >> function & 1:
            await RisingEdge(self.dut.clk_pcie_i)
            assert not int(self.dut.flr_done_o.value) & ~(1 << function), "the other ends a reset"
        self.dut.flr_i.value = 0
        return int(get_sim_time("ns") - begin)

    async def read_raw(self, offset: int, bar: int = BAR_REGISTERS) -> tuple[int, bytes]:
        """Read a DW; `bar` is tuser."""
        self.asked[(self._tag + 1) % 256] = bar >> 3
        return await super().read_raw(offset, bar)

    async def _root(self) -> None:
        """Give completions and what function 0 sends to the ring's host, the rest to function 1."""
        out = self.sink.queue
        self.sink = SimpleNamespace(queue=Queue())
        cocotb.start_soon(super()._root())
        while True:
            tlp = await out.get()
            identity = int.from_bytes(tlp[4:6], "big")
            assert identity & ~7 == DEVICE, f"{identity:#x} is another device"
            function = identity & 7
            assert function in (FN_RING, FN_IPNUMA)
            if tlp[0] in (0x0A, 0x4A):
                # Of no function, the first one answers.
                asked = self.asked.pop(tlp[10])
                assert function == (FN_RING if asked == FN_NONE else asked), "the other answers"
                self.sink.queue.put_nowait(tlp)
            elif function == FN_RING:
                self.sink.queue.put_nowait(tlp)
            else:
                await self.ipnuma.take(tlp)

    async def _wire(self) -> None:
        """Tell the frames of the functions apart: IP-NUMA's have its UDP port."""
        while True:
            wired = await self.wire_out.recv()
            if self.may_spoil and not wired.check_fcs():
                self.spoiled += 1
                continue
            assert wired.check_fcs()
            raw = bytes(wired.get_payload())
            # IPv4, UDP, and from and to the port.
            ours = raw[12:14] == b"\x08\x00" and raw[23] == 17
            if ours and raw[36:38] == PORT.to_bytes(2, "big"):
                await self.ipnuma.frames.put(parse(raw, NIC, PEER))
            else:
                self.ring_frames.put_nowait(raw)

    async def from_nic(self) -> bytes:
        """Wait for a frame of function 0."""
        return await self.ring_frames.get()

    async def quiet(self) -> None:
        """Wait until nothing moves any more, and assert that nobody has more to say."""
        await Timer(300, "ns")
        await self.settle()
        assert self.ring_frames.empty()
        assert self.ipnuma.frames.empty()


class _Bar0:
    """Registers of function 1, as nic_bench asks for them."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    async def write_dword(self, offset: int, value: int) -> None:
        head = bytes([0x40, 0, 0, 1, 0, 0, 0, 0x0F]) + struct.pack(">I", offset)
        tlp = head + struct.pack("<I", value & 0xFFFFFFFF)
        await self.shell.source.send(tlp, hit(FN_IPNUMA, BAR_REGISTERS))

    async def read_dword(self, offset: int) -> int:
        return await self.shell.read(offset, hit(FN_IPNUMA, BAR_REGISTERS))


class Ipnuma(nic_bench.Bench):
    """The CPU, the memory and the wire of function 1; tables and counters as nic_bench has them."""

    def __init__(self, shell: Shell) -> None:
        """Belong to a shell."""
        super().__init__(shell.dut)
        self.shell = shell
        self.bar0 = _Bar0(shell)
        self.memory = Memory()
        self.writes: list[tuple[int, bytes]] = []  # DMA writes, whole DWs
        self.frames: Queue[Message] = Queue()
        self.delay_ns = (0, 0)

    async def store(self, address: int, data: bytes) -> None:
        """Store whole DWs to the pages."""
        dws = len(data) // 4
        head = bytes([0x40, 0, dws >> 8, dws & 255, 0, 0, 0, 0xFF if dws > 1 else 0x0F])
        tlp = head + struct.pack(">I", address) + data
        await self.shell.source.send(tlp, hit(FN_IPNUMA, BAR_PAGES))

    async def load(self, address: int) -> int:
        """Load a DW from the pages."""
        return await self.shell.read(address, hit(FN_IPNUMA, BAR_PAGES))

    async def take(self, tlp: bytes) -> None:
        """Do a memory request of function 1."""
        length = (tlp[2] & 3) << 8 | tlp[3]
        head = 16 if tlp[0] & 0x20 else 12
        address = int.from_bytes(tlp[8:head], "big")
        assert tlp[7] == (0xFF if length > 1 else 0x0F), "parts of DWs that nobody asked for"
        if tlp[0] & 0x40:
            self.writes.append((address, tlp[head:]))
            self.memory.write(address, tlp[head:])
        else:
            cocotb.start_soon(self._complete(tlp, address, 4 * length))

    async def _complete(self, request: bytes, address: int, left: int) -> None:
        if self.delay_ns[1]:
            await Timer(random.randint(*self.delay_ns), "ns")
        requester = int.from_bytes(request[4:6], "big")
        while left:
            take = min(left, 128 - address % 128)
            data = self.memory.read(address, take)
            await self.shell.source.send(
                completion(requester, request[6], left, address, data), BAR_NONE
            )
            address += take
            left -= take
