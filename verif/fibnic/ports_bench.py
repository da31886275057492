# SPDX-License-Identifier: Apache-2.0
"""The bench around a 10G switch of any number of ports and any room in its FIFOs."""

from __future__ import annotations

import logging
import random
from collections import Counter

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.eth import XgmiiFrame, XgmiiSink, XgmiiSource
from fib_ref import Table4, Table6
from fibnic_bench import FIELD_MAC, FIELD_POLICE, PERIOD_PS, Bench
from router_ref import NextHop, Router

HOST4 = "10.200.0.1"
IDLE_DATA, IDLE_CTRL = int.from_bytes(bytes([7] * 8), "little"), 0xFF
# Without a crossing; a shared lookup has each port wait for its turn.
V4_CYCLES, V6_CYCLES = 12, 20
HOST_PINS = "s_host_tdata s_host_tkeep s_host_tvalid s_host_tlast s_host_tuser"
RESET_CYCLES, SETTLE_CYCLES, SWEEP_CYCLES = 4, 40, 36


class PortsBench(Bench):
    """The switch of tb_fibnic_ports, with a station at each port, its tables and its model."""

    def __init__(self, dut, rand: random.Random) -> None:
        """Take the sizes from the parameters of the top."""
        self.dut, self.rand = dut, rand
        self.ports, self.max_frame = int(dut.N.value), int(dut.MaxFrame.value)
        self.waiting, self.fifo_frames = int(dut.Waiting.value), int(dut.FifoFrames.value)
        turn = 0 if int(dut.Lookups.value) == self.ports else self.ports - 1
        self.v4_cycles, self.v6_cycles = V4_CYCLES + turn, V6_CYCLES + turn
        macs = [bytes([2, 0, 0, 0, 0x10, p]) for p in range(self.ports)]
        self.router = Router(macs, mtus=[self.max_frame - 18] * self.ports)
        self.host: list[tuple[bytes, str, int, bool]] = []
        self.hops = 0
        # The sizes that tb_fibnic_ports has.
        self.tables = {4: Table4(1024, 16, 256), 6: Table6([256] * 7, 1024, 256, 4)}

    async def start(self) -> None:
        """Clock, reset, stations, a route to each port and to the host."""
        dut = self.dut
        Clock(dut.clk_i, PERIOD_PS, "ps").start()
        dut.rst_i.value = 1
        for name in HOST_PINS.split():
            dut[name + "_i"].value = 0
        dut.m_host_tready_i.value = 1
        dut.wr_valid_i.value = 0
        dut.cnt_idx_i.value = 0
        self.host_rate = 1.0
        self.sources, self.sinks = [], []
        for p in range(self.ports):
            rxd, rxc = dut.xgmii_rxd_i[p], dut.xgmii_rxc_i[p]
            self.sources.append(XgmiiSource(rxd, rxc, dut.clk_i))
            rxd.value, rxc.value = IDLE_DATA, IDLE_CTRL
            self.sinks.append(XgmiiSink(dut.xgmii_txd_o[p], dut.xgmii_txc_o[p], dut.clk_i))
            for station in (self.sources[-1], self.sinks[-1]):
                station.log.setLevel(logging.WARNING)  # they print every frame
        for _ in range(RESET_CYCLES):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        for _ in range(SETTLE_CYCLES):
            await RisingEdge(dut.clk_i)
        cocotb.start_soon(self._host())
        for p, mac in enumerate(self.router.port_macs):
            await self.set_field(p, FIELD_MAC, int.from_bytes(mac, "big"))
            await self.set_field(p, FIELD_POLICE, 0)
        for p in range(self.ports):
            hop = NextHop(p, bytes([2, 0, 0, 0, 0x20, p]))
            await self.route(f"10.{p}.0.1", hop)
            await self.route(f"2001:db8:{p:x}::1", hop)
        await self.route(HOST4, "host")

    def frame(self, i: int, o: int, size: int, *, v6: bool = False) -> tuple[bytes, bytes]:
        """Build a frame from port `i` to port `o`; return it, and as it leaves."""
        sent = self.v6(i, f"2001:db8:{o:x}::1", size) if v6 else self.v4(i, f"10.{o}.0.1", size)
        verdict, port, left = self.router.decide(i, sent)
        assert (verdict, port) == ("forward", o)
        return sent, left

    def send(self, port: int, frame: bytes, times: list[XgmiiFrame] | None = None) -> None:
        """Send a frame, behind those before it; `times` gets it with its times when it has left."""
        out = XgmiiFrame.from_payload(frame)
        if times is not None:
            out.tx_complete = times.append
        self.sources[port].send_nowait(out)

    def received(self, port: int) -> list[XgmiiFrame]:
        """Return what came out of a port, all of it whole."""
        sink = self.sinks[port]
        got = [sink.recv_nowait() for _ in range(sink.count())]
        assert all(g.check_fcs() and not any(g.ctrl or []) for g in got), port
        return got

    async def counters(self, port: int, *, settle: bool = True) -> Counter[str]:
        """Read the counters of a port; a pulse waits for the sweep, which is longer with more."""
        for _ in range(SWEEP_CYCLES * self.ports if settle else 0):
            await RisingEdge(self.dut.clk_i)
        return await super().counters(port, settle=False)

    async def all_counters(self) -> list[Counter[str]]:
        """Read the counters of all ports."""
        return [await self.counters(p, settle=p == 0) for p in range(self.ports)]
