# SPDX-License-Identifier: Apache-2.0
"""One NIC between a root complex (cocotbext-pcie) and a network (cocotbext-eth)."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
from cocotbext.eth import GmiiFrame, GmiiSink, GmiiSource, XgmiiFrame, XgmiiSink, XgmiiSource
from nic_ref import NIC_A, NIC_B, Message, Peer, parse
from raw_tlp import make_host, quiet

REG_ID, REG_VERSION, REG_FEATURES = 0x0, 0x4, 0x8
REG_MAC_LO, REG_MAC_HI, REG_IP, REG_NETMASK = 0x10, 0x14, 0x18, 0x1C
REG_GATEWAY_IP, REG_GATEWAY_MAC_LO, REG_GATEWAY_MAC_HI = 0x20, 0x24, 0x28
REG_READ_TIMEOUT_US, REG_EPOCH = 0x2C, 0x30
REG_LAST_ERROR, REG_LAST_ERROR_ADDR_LO, REG_LAST_ERROR_ADDR_HI = 0x34, 0x38, 0x3C
REG_LAST_ERROR_IP = 0x40
PCIE_COUNTERS, NET_COUNTERS = 0x1000, 0x2000
PC_IDS, REGIONS, PAGE_MAP = 0x100000, 0x200000, 0x400000
PAGE = 4096

PCIE_NAMES = (
    "tlp_store tlp_load tlp_store_unmapped tlp_load_unmapped tlp_page_beyond tlp_register_write "
    "tlp_register_read tlp_completion tlp_completion_unexpected tlp_unsupported tlp_poisoned "
    "tlp_malformed load_no_tag load_timeout load_completed load_completion_unexpected dma_write "
    "dma_read dma_read_timeout register_refused"
).split()
NET_NAMES = (
    "tx_store tx_load tx_completion tx_error tx_arp rx_frames rx_bad_fcs rx_runt rx_giant "
    "rx_phy_error rx_bad_preamble rx_not_mine rx_arp rx_not_ipnuma rx_bad_ip_checksum rx_bad_magic "
    "rx_bad_tlp rx_bad_length rx_bad_key rx_bad_end_code rx_bad_source rx_bad_rights rx_bad_bounds "
    "rx_store rx_load rx_completion rx_error_report rx_overflow deny_dropped arp_dropped "
    "tx_underrun"
).split()

NIC, PEER = NIC_A, NIC_B
FAR = Peer(0x02AABBCCDD01, 0xC0A80005)  # another subnet
GATEWAY_MAC = 0x020000000099


class Bench:
    """The host's and the network's hands on one NIC."""

    def __init__(self, dut) -> None:
        """Take the DUT; `start` does the rest."""
        self.dut = dut
        self.gigabit = hasattr(dut, "gmii_txd_o")

    async def start(self) -> Bench:
        """Start clocks in a random phase, reset, enumerate, set the addresses."""
        dut = self.dut
        quiet()
        net_ps = 8000 if self.gigabit else 6400
        dut.rst_pcie_i.value = 1
        dut.rst_net_i.value = 1
        dut.now_us_i.value = 0
        dut.completer_id_i.value = 0
        dut.cfg_max_payload_i.value = 1
        dut.cfg_max_read_i.value = 2
        dut.cfg_rcb_128_i.value = 0
        dut.cfg_bus_master_i.value = 1
        dut.s_tlp_tvalid_i.value = 0
        dut.m_tlp_tready_i.value = 1
        Clock(dut.clk_pcie_i, 4000, "ps").start()
        await Timer(random.randrange(1, net_ps), "ps")
        Clock(dut.clk_net_i, net_ps, "ps").start()
        if self.gigabit:
            self.source = GmiiSource(
                dut.gmii_rxd_i, dut.gmii_rx_er_i, dut.gmii_rx_dv_i, dut.clk_net_i
            )
            self.sink = GmiiSink(dut.gmii_txd_o, dut.gmii_tx_er_o, dut.gmii_tx_en_o, dut.clk_net_i)
        else:
            self.source = XgmiiSource(dut.xgmii_rxd_i, dut.xgmii_rxc_i, dut.clk_net_i)
            self.sink = XgmiiSink(dut.xgmii_txd_o, dut.xgmii_txc_o, dut.clk_net_i)
        await ClockCycles(dut.clk_net_i, 10)
        await RisingEdge(dut.clk_pcie_i)
        dut.rst_pcie_i.value = 0
        await RisingEdge(dut.clk_net_i)
        dut.rst_net_i.value = 0
        cocotb.start_soon(self._time())
        self.rc, self.device, entry = await make_host(dut, {0: 1 << 23, 2: 1 << 30})
        self.bar0, self.bar2 = entry.bar_window[0], entry.bar_window[2]
        await self.set_addresses()
        # The reset may have cut a frame of the test before.
        self.sink.clear()
        return self

    async def set_addresses(self) -> None:
        """Say who the NIC is, as after every reset."""
        for register, value in (
            (REG_MAC_LO, NIC.mac & 0xFFFFFFFF),
            (REG_MAC_HI, NIC.mac >> 32),
            (REG_IP, NIC.ip),
            (REG_NETMASK, 0xFFFFFF00),
            (REG_GATEWAY_MAC_LO, GATEWAY_MAC & 0xFFFFFFFF),
            (REG_GATEWAY_MAC_HI, GATEWAY_MAC >> 32),
        ):
            await self.bar0.write_dword(register, value)

    async def _time(self) -> None:
        now = 0
        while True:
            await Timer(1, "us")
            await RisingEdge(self.dut.clk_pcie_i)
            now += 1
            self.dut.now_us_i.value = now

    # ---- Tables --------------------------------------------------------------------------------
    async def write_entry(self, base: int, index: int, dws: list[int]) -> None:
        """Write a table entry, DW by DW."""
        at = base + 4 * len(dws) * index
        for i, dw in enumerate(dws):
            await self.bar0.write_dword(at + 4 * i, dw)

    async def read_entry(self, base: int, index: int, dws: int) -> list[int]:
        """Read a table entry."""
        at = base + 4 * dws * index
        return [await self.bar0.read_dword(at + 4 * i) for i in range(dws)]

    async def map_page(self, page: int, pc_id: int, key: int, offset: int, tag: int = 0) -> None:
        """Map a page of BAR 2 to a page at `offset` behind `key` at the peer `pc_id`."""
        remote = key << 20 | offset >> 12
        entry = pc_id << 48 | remote << 12 | tag
        await self.write_entry(PAGE_MAP, page, [entry & 0xFFFFFFFF, entry >> 32])

    async def set_peer(
        self, pc_id: int, peer: Peer, compact: bool, port: int = 3422, valid: bool = True
    ) -> None:
        """Write a PC ID table entry."""
        entry = compact << 97 | valid << 96 | port << 80 | peer.mac << 32 | peer.ip
        await self.write_entry(PC_IDS, pc_id, [entry >> 32 * i & 0xFFFFFFFF for i in range(4)])

    async def set_region(
        self,
        key: int,
        base: int,
        last: int,
        first: int = 0,
        ip: int = 0,
        mask: int = 0,
        rights: str = "rw",
        tag: int = 0,
        valid: bool = True,
    ) -> None:
        """Write a shared-region table entry."""
        flags = valid | ("w" in rights) << 1 | ("r" in rights) << 2
        dws = [base & 0xFFFFFFFF, base >> 32, first, last, ip, mask, tag, flags]
        await self.write_entry(REGIONS, key, dws)

    async def counters(self) -> dict[str, int]:
        """Read all counters that are not zero."""
        out = {}
        for base, names in ((PCIE_COUNTERS, PCIE_NAMES), (NET_COUNTERS, NET_NAMES)):
            for i, name in enumerate(names):
                value = await self.bar0.read_dword(base + 4 * i)
                if value:
                    out[name] = value
        return out

    async def changed(self, before: dict[str, int]) -> dict[str, int]:
        """Counters that differ from `before`, but those of register accesses."""
        after = await self.counters()
        names = {*before, *after} - {"tlp_register_read", "tlp_register_write"}
        delta = {n: after.get(n, 0) - before.get(n, 0) for n in names}
        return {n: d for n, d in delta.items() if d}

    # ---- Network -------------------------------------------------------------------------------
    async def send(self, frame: bytes) -> None:
        """Send a frame (without FCS) to the NIC."""
        kind = GmiiFrame if self.gigabit else XgmiiFrame
        await self.source.send(kind.from_payload(frame))

    async def receive(self, dst: Peer = PEER) -> Message:
        """Wait for a frame of the NIC and take it apart."""
        return parse(await self.receive_raw(), NIC, dst)

    async def receive_raw(self) -> bytes:
        """Wait for a frame of the NIC; its FCS is checked and left away."""
        frame = await with_timeout(self.sink.recv(), 20, "us")
        assert not self.gigabit or not any(frame.error or [])
        assert frame.check_fcs()
        return bytes(frame.get_payload())

    async def settle(self, cycles: int = 60) -> None:
        """Wait until both sides are idle."""
        quiet_for = 0
        while quiet_for < cycles:
            await RisingEdge(self.dut.clk_net_i)
            busy = int(self.dut.busy_pcie_o.value) or int(self.dut.busy_net_o.value)
            quiet_for = 0 if busy else quiet_for + 1

    async def nothing_more(self) -> None:
        """Assert that the NIC has no more to say."""
        await self.settle()
        assert self.sink.empty()
