# SPDX-License-Identifier: Apache-2.0
"""Raw TLP streams (`s_tlp_*`, `m_tlp_*`) as a device of cocotbext-pcie's RootComplex.

The byte order on the stream is that of the TLP: byte 0 in tdata[7:0], two DWs a beat.
"""

from __future__ import annotations

import logging
import random

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import Event, ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.pcie.core import Device, RootComplex
from cocotbext.pcie.core.tlp import Tlp, TlpType

BAR_REGISTERS, BAR_PAGES, BAR_NONE = 0, 2, 7
MEMORY_REQUESTS = {
    TlpType.MEM_READ,
    TlpType.MEM_READ_64,
    TlpType.MEM_WRITE,
    TlpType.MEM_WRITE_64,
}


class TlpSource:
    """Drives TLPs, as bytes, into `s_tlp_*`."""

    def __init__(self, dut, prefix: str = "", gap: float = 0.0) -> None:
        """Take the pins; `gap` is the probability of a pause before a beat."""
        self._sig = {
            n: getattr(dut, f"{prefix}s_tlp_{n}_i")
            for n in ("tdata", "tkeep", "tvalid", "tlast", "tuser")
        }
        self._ready = getattr(dut, f"{prefix}s_tlp_tready_o")
        self._clock = getattr(dut, f"{prefix}clk_pcie_i")
        self._reset = dut.rst_i if hasattr(dut, "rst_i") else dut.rst_pcie_i
        self.gap = gap
        self._queue: Queue[tuple[bytes, int, Event]] = Queue()
        self.log: list[tuple[int, int]] = []  # (ps, fmt/type): when each TLP's first beat moved
        self._sig["tvalid"].value = 0
        cocotb.start_soon(self._run())

    async def send(self, tlp: bytes, bar: int) -> None:
        """Send one TLP and wait until its last beat has moved."""
        done = Event()
        self._queue.put_nowait((bytes(tlp), bar, done))
        await done.wait()

    def put(self, tlp: bytes, bar: int) -> None:
        """Send one TLP some time."""
        self._queue.put_nowait((bytes(tlp), bar, Event()))

    async def _run(self) -> None:
        s = self._sig
        while True:
            if self._queue.empty():
                s["tvalid"].value = 0
                item = await self._queue.get()
                await RisingEdge(self._clock)
            else:
                item = self._queue.get_nowait()
            tlp, bar, done = item
            for i in range(0, len(tlp), 8):
                beat = tlp[i : i + 8]
                while self.gap and random.random() < self.gap:
                    s["tvalid"].value = 0
                    await RisingEdge(self._clock)
                s["tdata"].value = int.from_bytes(beat, "little")
                s["tkeep"].value = (1 << len(beat)) - 1
                s["tlast"].value = i + 8 >= len(tlp)
                s["tuser"].value = bar if i == 0 else random.randrange(8)
                s["tvalid"].value = 1
                while True:
                    await ReadOnly()
                    ready = int(self._ready.value)
                    await RisingEdge(self._clock)
                    if ready or int(self._reset.value):
                        break
                if int(self._reset.value):
                    break  # what is left of it is gone, as in the root complex
                if i == 0:
                    self.log.append((int(get_sim_time("ps")), tlp[0]))
            done.set()


class TlpSink:
    """Collects TLPs, as bytes, from `m_tlp_*`."""

    def __init__(self, dut, prefix: str = "", pause: float = 0.0) -> None:
        """Take the pins; `pause` is the probability of tready being low in a cycle."""
        self._sig = {
            n: getattr(dut, f"{prefix}m_tlp_{n}_o") for n in ("tdata", "tkeep", "tvalid", "tlast")
        }
        self._ready = getattr(dut, f"{prefix}m_tlp_tready_i")
        self._clock = getattr(dut, f"{prefix}clk_pcie_i")
        self._reset = dut.rst_i if hasattr(dut, "rst_i") else dut.rst_pcie_i
        self.pause = pause
        self.queue: Queue[bytes] = Queue()
        self.log: list[tuple[int, int]] = []  # (ps, fmt/type): when each TLP's first beat moved
        self._ready.value = 1
        cocotb.start_soon(self._run())

    async def _run(self) -> None:
        s = self._sig
        tlp = bytearray()
        held = None  # the beat offered and not taken: it must stay
        while True:
            self._ready.value = not self.pause or random.random() >= self.pause
            await ReadOnly()
            valid = int(s["tvalid"].value)
            beat = None
            if valid:
                beat = (int(s["tdata"].value), int(s["tkeep"].value), int(s["tlast"].value))
                assert beat[1] == 0xFF or (beat[1] == 0x0F and beat[2]), f"tkeep {beat[1]:02x}"
            if held is not None:
                mask = 0xFFFFFFFFFFFFFFFF if held[1] == 0xFF else 0xFFFFFFFF
                assert beat is not None, "an offered beat was withdrawn"
                assert beat[1:] == held[1:], "an offered beat changed"
                assert beat[0] & mask == held[0] & mask, "an offered beat changed"
            taken = valid and int(self._ready.value)
            held = beat if valid and not taken else None
            await RisingEdge(self._clock)
            if int(self._reset.value):
                tlp, held, taken = bytearray(), None, False
            if taken:
                if not tlp:
                    self.log.append((int(get_sim_time("ps")), beat[0] & 0xFF))
                tlp += beat[0].to_bytes(8, "little")[: 8 if beat[1] == 0xFF else 4]
                if beat[2]:
                    self.queue.put_nowait(bytes(tlp))
                    tlp = bytearray()


class RawTlpDevice(Device):
    """Endpoint whose configuration space is cocotbext-pcie's and whose BARs are the DUT's."""

    def __init__(self, source: TlpSource, sink: TlpSink, bars: dict[int, int]) -> None:
        """Make a function with 32-bit BAR 0 and 64-bit prefetchable others (`bars`: bytes)."""
        super().__init__()
        self.upstream_port.max_link_speed = 2
        self.upstream_port.max_link_width = 4
        self.source = source
        self.sink = sink
        self.sent: list[bytes] = []  # TLPs from the device
        self.withhold = False  # completions for the device wait
        self._withheld: list[Tlp] = []
        self.function = self.make_function()
        for index, size in bars.items():
            self.function.configure_bar(index, size, ext=index != 0, prefetch=index != 0)
        cocotb.start_soon(self._upstream())

    async def upstream_recv(self, tlp: Tlp) -> None:
        """Give memory requests and completions to the DUT, the rest to the model."""
        if tlp.is_completion():
            tlp.release_fc()
            if self.withhold:
                self._withheld.append(tlp)
            else:
                await self.source.send(tlp.pack(), BAR_NONE)
            return
        if tlp.fmt_type in MEMORY_REQUESTS:
            hit = self.function.match_bar(tlp.address)
            tlp.release_fc()
            await self.source.send(tlp.pack(), hit[0] if hit else BAR_NONE)
            return
        await super().upstream_recv(tlp)

    async def release(self) -> None:
        """Give the device the completions that were withheld, and withhold no more."""
        self.withhold = False
        while self._withheld:
            await self.source.send(self._withheld.pop(0).pack(), BAR_NONE)

    async def _upstream(self) -> None:
        while True:
            raw = await self.sink.queue.get()
            self.sent.append(raw)
            await self.send(Tlp.unpack(raw))


def quiet() -> None:
    """Turn the models' own logging down: it costs more time than the simulation."""
    logging.getLogger("cocotb").setLevel(logging.WARNING)
    # Enumeration warns about each of the 31 devices that are not there.
    logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)


async def make_host(dut, bars: dict[int, int]) -> tuple[RootComplex, RawTlpDevice, object]:
    """Connect a root complex; return it, the device, and its entry in the PCI tree."""
    source, sink = TlpSource(dut), TlpSink(dut)
    device = RawTlpDevice(source, sink, bars)
    rc = RootComplex()
    rc.make_port().connect(device)
    await rc.enumerate()
    entry = rc.find_device(device.function.pcie_id)
    await entry.enable_device()
    await entry.set_master()
    dut.completer_id_i.value = int(device.function.pcie_id)
    return rc, device, entry
