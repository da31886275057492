# SPDX-License-Identifier: Apache-2.0
"""The bench around the transmit chain, from TLPs of the CPU to frames, and random TLPs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer, with_timeout
from cocotb.utils import get_sim_time
from tx_ref import (
    UDP_PORT,
    Config,
    Page,
    Peer,
    Sender,
    Tlp,
    with_fcs,
)

PCIE_PS = 4000
PCIE_COUNTERS = (
    "store",
    "load",
    "store_unmapped",
    "load_unmapped",
    "no_tag",
    "page_beyond",
    "unsupported",
    "poisoned",
    "malformed",
)
NET_COUNTERS = ("store", "load", "completion", "error", "arp", "merged")


def fields(value: int, *widths: int) -> tuple[int, ...]:
    """Split a packed struct, first member first."""
    out = []
    for width in reversed(widths):
        out.append(value & (1 << width) - 1)
        value >>= width
    assert value == 0
    return tuple(reversed(out))


def tx_frame(
    mac: int, ip: int, head: bytes, kind: int = 0, data_dw: int = 0, zero_data: bool = False
) -> int:
    """Pack ipnuma_pkg::tx_frame_t for a frame that is neither compact nor sequenced."""
    members = (
        (0, 1),
        (0, 1),
        (0, 9),
        (kind, 4),
        (0, 1),
        (0, 16),
        (mac, 48),
        (ip, 32),
        (UDP_PORT, 16),
        (0, 12),
        (int.from_bytes(head, "little"), 128),
        (0, 40),
        (0, 2),
        (data_dw, 7),
        (int(zero_data), 1),
    )
    value = 0
    for member, width in members:
        value = value << width | member
    return value


@dataclass
class Seen:
    """A frame: edge of the /S/ word's or first preamble byte's register, lane, bytes with FCS."""

    time: int
    lane: int
    data: bytes


@dataclass
class Bench:
    """Drivers and monitors of the chain."""

    dut: object
    offset: int = 300
    # Shortest and longest period of the PCIe clock; between them it wanders.
    periods: tuple[int, int] = (PCIE_PS, PCIE_PS)
    config: Config = field(default_factory=Config)
    frames: list[Seen] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    net_counters: dict[str, int] = field(default_factory=dict)
    errors: list[tuple] = field(default_factory=list)
    reg_ops: list[tuple] = field(default_factory=list)
    completions: list[tuple] = field(default_factory=list)
    loads: list[tuple] = field(default_factory=list)
    outcomes: list[int | None] = field(default_factory=list)
    first_beats: list[int] = field(default_factory=list)
    alloc_rate: float = 1.0
    ready_rate: float = 1.0
    on_reg_write: object = None

    async def start(self) -> None:
        """Start clocks and monitors, reset, write the registers."""
        dut = self.dut
        for name in (
            "s_tlp_tvalid_i s_tlp_tlast_i s_tlp_tdata_i s_tlp_tkeep_i s_tlp_tuser_i "
            "page_cfg_write_i page_cfg_read_i pcid_cfg_write_i pcid_cfg_read_i page_cfg_index_i "
            "pcid_cfg_index_i "
            "page_cfg_entry_i pcid_cfg_entry_i slot_commit_i slot_pay_even_we_i slot_pay_odd_we_i "
            "slot_frame_i slot_pay_idx_i deny_valid_i deny_frame_i s_arp_tvalid_i s_arp_tlast_i "
            "alloc_tag_i merge_i ack_pending_i ack_urgent_i ack_value_i"
        ).split():
            getattr(dut, name).value = 0
        for name in "reg_op_ready_i cpl_ready_i alloc_ok_i cpl_error_ready_i".split():
            getattr(dut, name).value = 1
        config = self.config
        dut.mac_i.value = config.mac
        dut.ip_i.value = config.ip
        dut.netmask_i.value = config.netmask
        dut.gateway_mac_i.value = config.gateway_mac
        dut.epoch_i.value = config.epoch
        dut.rst_pcie_i.value = 1
        dut.rst_net_i.value = 1
        dut.clk_net_i.value = 0
        self.start_pcie_clock()
        await Timer(self.offset, "ps")
        self.gmii = bool(int(dut.Gmii.value))
        Clock(dut.clk_net_i, 8000 if self.gmii else 6400, "ps").start()
        for _ in range(4):
            await RisingEdge(dut.clk_net_i)
        dut.rst_net_i.value = 0
        await RisingEdge(dut.clk_pcie_i)
        dut.rst_pcie_i.value = 0
        for _ in range(8):
            await RisingEdge(dut.clk_net_i)
        self.tasks = [
            cocotb.start_soon(self.watch_gmii() if self.gmii else self.watch_xgmii()),
            cocotb.start_soon(self.watch_pcie()),
            cocotb.start_soon(self.complete_registers()),
        ]
        await RisingEdge(dut.clk_pcie_i)

    def start_pcie_clock(self) -> None:
        """Start a steady clock, or one that wanders as with spread spectrum."""
        clock, (shortest, longest) = self.dut.clk_pcie_i, self.periods

        async def wander() -> None:
            period, step = shortest, 1
            while True:
                clock.value = 1
                await Timer(period // 2, "ps")
                clock.value = 0
                await Timer(period - period // 2, "ps")
                if not shortest <= period + step <= longest:
                    step = -step
                period += step

        if shortest == longest:
            Clock(clock, shortest, "ps").start()
        else:
            cocotb.start_soon(wander())

    # ---- Tables ----
    async def write_page(self, index: int, page: Page) -> None:
        dut = self.dut
        dut.page_cfg_index_i.value = index
        dut.page_cfg_entry_i.value = page.word()
        dut.page_cfg_write_i.value = 1
        await RisingEdge(dut.clk_pcie_i)
        dut.page_cfg_write_i.value = 0

    async def write_peer(self, index: int, peer: Peer) -> None:
        dut = self.dut
        dut.pcid_cfg_index_i.value = index
        dut.pcid_cfg_entry_i.value = peer.word()
        dut.pcid_cfg_write_i.value = 1
        await RisingEdge(dut.clk_pcie_i)
        dut.pcid_cfg_write_i.value = 0

    async def write_tables(self, sender: Sender) -> None:
        for index, page in enumerate(sender.page_map):
            await self.write_page(index, page)
        for index, peer in enumerate(sender.peers):
            await self.write_peer(index, peer)

    def acknowledge(self, sender: Sender, ack: tuple[bool, int] | None) -> None:
        """Let an acknowledgement (urgent, value) wait in every session from now on, or none."""
        sender.ack = ack
        self.dut.ack_pending_i.value = int(ack is not None)
        self.dut.ack_urgent_i.value, self.dut.ack_value_i.value = ack or (0, 0)

    # ---- TLPs ----
    async def send(self, tlp: Tlp, gap: float = 0.0) -> None:
        """Drive a TLP's beats, with random gaps."""
        dut = self.dut
        data = tlp.pack()
        for at in range(0, len(data), 8):
            while random.random() < gap:
                dut.s_tlp_tvalid_i.value = 0
                await RisingEdge(dut.clk_pcie_i)
            beat = data[at : at + 8]
            dut.s_tlp_tvalid_i.value = 1
            dut.s_tlp_tdata_i.value = int.from_bytes(beat, "little")
            dut.s_tlp_tkeep_i.value = (1 << len(beat)) - 1
            dut.s_tlp_tlast_i.value = int(at + 8 >= len(data))
            dut.s_tlp_tuser_i.value = tlp.bar if at == 0 else random.randrange(8)
            while True:
                await ReadOnly()
                taken = int(dut.s_tlp_tready_o.value)
                await RisingEdge(dut.clk_pcie_i)
                if taken:
                    break
            if at == 0:
                self.first_beats.append(int(get_sim_time("ps")))
        dut.s_tlp_tvalid_i.value = 0

    # ---- Monitors ----
    async def watch_xgmii(self) -> None:
        dut = self.dut
        data: bytearray | None = None
        started = lane = 0
        while True:
            await RisingEdge(dut.clk_net_i)
            now = int(get_sim_time("ps"))
            await ReadOnly()
            self.count_net()
            control = int(dut.xgmii_txc_o.value)
            word = int(dut.xgmii_txd_o.value).to_bytes(8, "little")
            if data is None and control == 0xFF and word == b"\x07" * 8:
                continue
            for i, byte in enumerate(word):
                if not control >> i & 1:
                    assert data is not None, "data outside a frame"
                    data.append(byte)
                elif byte == 0xFB:
                    assert data is None and i in (0, 4), "start within a frame or lane"
                    data, started, lane = bytearray(), now, i
                elif byte == 0xFD:
                    assert data is not None and data[:7] == b"\x55" * 6 + b"\xd5"
                    self.frames.append(Seen(started, lane, bytes(data[7:])))
                    data = None
                else:
                    assert byte == 0x07 and data is None, f"control {byte:#x} in a frame"

    async def watch_gmii(self) -> None:
        dut = self.dut
        data, started = bytearray(), 0
        while True:
            await RisingEdge(dut.clk_net_i)
            now = int(get_sim_time("ps"))
            await ReadOnly()
            self.count_net()
            assert not int(dut.gmii_tx_er_o.value)
            if int(dut.gmii_tx_en_o.value):
                started = started if data else now
                data.append(int(dut.gmii_txd_o.value))
            elif data:
                assert data[:8] == b"\x55" * 7 + b"\xd5"
                self.frames.append(Seen(started, 0, bytes(data[8:])))
                data = bytearray()

    def count_net(self) -> None:
        counts = int(self.dut.cnt_net_o.value)
        for bit, name in enumerate(NET_COUNTERS):
            if counts >> bit & 1:
                self.net_counters[name] = self.net_counters.get(name, 0) + 1

    async def watch_pcie(self) -> None:
        """Watch counters, refusals, loads and completions; move the ready inputs."""
        dut = self.dut
        memory = bytearray(256)
        while True:
            await ReadOnly()
            counts = int(dut.cnt_pcie_o.value)
            for bit, name in enumerate(PCIE_COUNTERS):
                if counts >> bit & 1:
                    self.counters[name] = self.counters.get(name, 0) + 1
            if counts >> 4 & 1:
                self.outcomes.append(None)
            if int(dut.alloc_o.value):
                self.loads.append(fields(int(dut.alloc_load_o.value), 16, 8, 3, 2, 12, 7, 32))
                self.outcomes.append(int(dut.alloc_tag_i.value))
            if int(dut.cpl_error_valid_o.value) and int(dut.cpl_error_ready_i.value):
                error = fields(int(dut.cpl_error_o.value), 16, 8, 3, 2, 1, 3, 12, 7)
                self.errors.append(error)
            for half, shift in (("even", 0), ("odd", 4)):
                if int(getattr(dut, f"cpl_pay_{half}_we_o").value):
                    at = 8 * int(getattr(dut, f"pay_{half}_idx_o").value) + shift
                    memory[at : at + 4] = int(getattr(dut, f"pay_{half}_data_o").value).to_bytes(
                        4, "little"
                    )
            if int(dut.cpl_valid_o.value):
                head = fields(int(dut.cpl_head_o.value), 1, 3, 12, 7, 10, 8)
                data = bytes(memory[: 4 * head[4]]) if head[0] else b""
                self.completions.append((bool(head[0]), *head[1:], data))
            await RisingEdge(dut.clk_pcie_i)
            dut.alloc_ok_i.value = random.random() < self.alloc_rate
            dut.alloc_tag_i.value = random.randrange(256)
            dut.cpl_error_ready_i.value = random.random() < self.ready_rate
            dut.cpl_ready_i.value = random.random() < self.ready_rate

    async def complete_registers(self) -> None:
        """Take register operations, one at a time; a write may change a table."""
        dut = self.dut
        while True:
            await ReadOnly()
            taken = int(dut.reg_op_valid_o.value) and int(dut.reg_op_ready_i.value)
            op = fields(int(dut.reg_op_o.value), 1, 23, 1, 64, 4, 4, 16, 8, 3, 2) if taken else ()
            await RisingEdge(dut.clk_pcie_i)
            if taken:
                self.reg_ops.append(op)
                dut.reg_op_ready_i.value = 0
                for _ in range(random.randrange(12)):
                    await RisingEdge(dut.clk_pcie_i)
                if op[0] and self.on_reg_write:
                    await self.on_reg_write(op)
                dut.reg_op_ready_i.value = 1

    async def idle(self) -> None:
        """Wait until nothing is under way for some time."""
        dut = self.dut

        async def quiet() -> None:
            calm = 0
            while calm < 64:
                await RisingEdge(dut.clk_pcie_i)
                await ReadOnly()
                busy = int(dut.busy_pcie_o.value) or int(dut.busy_net_o.value)
                calm = 0 if busy else calm + 1
            await RisingEdge(dut.clk_pcie_i)

        await with_timeout(quiet(), 10, "ms")


def random_sender(pages: int, pc_ids: int) -> Sender:
    """Tables with a bit of everything."""
    sender = Sender(Config(), pages, pc_ids)
    for index in range(1, pc_ids):
        # Of a few peers none may have a session: the first one has, and number 0 has not.
        first = index == 1
        sender.peers[index] = Peer(
            valid=random.random() < 0.85 or first,
            compact=random.random() < 0.5,
            port=random.randrange(0xC000),
            mac=random.getrandbits(48),
            ip=random.choice((0x0A000000, 0x0B010200)) | random.randrange(256),
            session=random.random() < 0.4 or first,
        )
    sender.peers[0] = Peer(valid=True, mac=1, ip=0x0A000009)
    for index in range(pages):
        sender.page_map[index] = random_page(pc_ids)
    return sender


def random_page(pc_ids: int) -> Page:
    """Mostly mapped, mostly within the compact form's reach."""
    key = random.randrange(1 << random.choice((12, 12, 16)))
    offset = random.randrange(1 << random.choice((16, 16, 20)))
    return Page(
        pc_id=random.choice((0, random.randrange(1 << 16), *[random.randrange(pc_ids)] * 12)),
        remote_page=key << 20 | offset,
        tag=random.randrange(1 << 12),
    )


def random_tlp(pages: int) -> Tlp:
    """A TLP of any kind, mostly stores."""
    kinds = ("store", "load", "register", "completion", "odd")
    kind = random.choices(kinds, (60, 12, 6, 10, 12))[0]
    length = random.choice((1, 1, 2, 3, 4, 15, 16, 64, random.randint(1, 64)))
    if random.random() < 0.8:
        first = 0xF << random.randrange(4) & 0xF
        last = 0xF >> random.randrange(4)
        if length == 1:
            first, last = (first & last) or 0xF, 0
    else:
        first, last = random.randrange(16), random.randrange(16)
    wide = random.randrange(2)
    tlp = Tlp(
        fmt_type=wide * 0x20,
        length=length,
        first_be=first,
        last_be=last,
        requester_id=random.randrange(1 << 16),
        tag=random.randrange(256),
        tc=random.randrange(8),
        attributes=random.randrange(4),
    )
    in_page = random.randrange(0, 4096 - 4 * length + 1, 4)
    base = random.choice((0x40000000, 0x80000000)) | (random.getrandbits(32) << 32) * wide
    tlp.address = base | random.randrange(pages) << 12 | in_page
    if kind in ("store", "odd") and random.random() < 0.8:
        tlp.fmt_type |= 0x40
    if kind == "register":
        tlp.bar = 0
        tlp.length = random.randint(1, 2)
        tlp.fmt_type |= 0x40 * random.randrange(2)
        tlp.address = base | random.randrange(0, 1 << 23, 8)
    if kind == "completion":
        tlp.fmt_type = random.choice((0x0A, 0x4A))
        tlp.bar = random.choice((0, 2, 7))
        tlp.status = random.choice((0, 1, 4))
        tlp.byte_count = random.randrange(1 << 12)
        tlp.lower_address = random.randrange(1 << 7)
        tlp.address = 0
    if kind == "odd":
        what = random.randrange(9)
        if what == 0:
            tlp.ep = 1
        elif what == 1:
            # Of its kind, or a neighbour that does not exist.
            tlp.fmt_type = random.choice((0x41, 0x22, 0x24, 0x0C, 0x4B, 0x10, 0x1B, 0x80))
        elif what == 2:
            tlp.bar = random.choice((1, 3, 4, 5, 6, 7))
        elif what == 3:
            tlp.length = random.choice((0, 65, 100, 1023))
        elif what == 4:
            tlp.address |= 0xFFC
            tlp.length = max(2, tlp.length)
        elif what == 5:
            tlp.address |= pages << 12
        elif what == 6:
            tlp.bar, tlp.length = 0, random.choice((3, 4, 64))
        elif what == 7:
            tlp.fmt_type = random.choice(
                (0x01, 0x21, 0x02, 0x42, 0x04, 0x44, 0x05, 0x45, 0x34, 0x74, 0x0B)
                + (0x4C, 0x6C, 0x4D, 0x6D, 0x4E, 0x6E)
            )
            tlp.ep = random.random() < 0.3
    tlp.td = random.random() < 0.2
    if tlp.fmt_type & 0x40:
        tlp.data = random.randbytes(4 * (tlp.length or 1024))
    if kind == "odd" and what == 8:
        # A beat of two DWs is the least; half a header is malformed as well.
        dws = len(tlp.pack()) // 4
        tlp.cut = random.choice((1, 2, 3, 70, -1, -2, -random.randint(1, dws - 2)))
        tlp.cut = max(tlp.cut, 2 - dws)
    return tlp


def check_frames(bench: Bench, expected: list[bytes]) -> None:
    """Compare frame by frame, for a readable message."""
    for index, (seen, want) in enumerate(zip(bench.frames, expected, strict=False)):
        assert seen.data == with_fcs(want), (
            f"frame {index}:\n seen {seen.data.hex()}\n want {with_fcs(want).hex()}"
        )
    assert len(bench.frames) == len(expected)
