# SPDX-License-Identifier: Apache-2.0
"""Bench of the receiving half: frames in, TLPs and answers out, every line of the verdict table."""

from __future__ import annotations

import dataclasses
import random
import struct
import zlib
from collections import Counter, deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from cocotb.utils import get_sim_time
from harness import build_and_run
from rx_ref import (
    CA,
    MRD,
    MWR,
    SC,
    UDP_PORT,
    Addresses,
    Identity,
    Region,
    Result,
    build,
    compact,
    completion_head,
    error_body,
    judge,
    request_head,
    tlp_payload,
)

PCIE_PS = 4000
FRAME_FIELDS = (
    ("compact", 1),
    ("kind", 4),
    ("sequenced", 1),
    ("pc_id", 16),
    ("dst_mac", 48),
    ("dst_ip", 32),
    ("src_port", 16),
    ("tag", 12),
    ("head", 128),
    ("address", 40),
    ("trail", 2),
    ("data_dw", 7),
    ("zero_data", 1),
)
NET_COUNTERS = {
    11: "rx_not_mine",
    12: "rx_arp",
    13: "rx_not_ipnuma",
    14: "rx_bad_ip_checksum",
    15: "rx_bad_magic",
    16: "rx_bad_tlp",
    17: "rx_bad_length",
    18: "rx_bad_key",
    19: "rx_bad_end_code",
    20: "rx_bad_source",
    21: "rx_bad_rights",
    22: "rx_bad_bounds",
    23: "rx_store",
    24: "rx_load",
    25: "rx_completion",
    26: "rx_error_report",
    27: "rx_overflow",
    28: "deny_dropped",
}
PCIE_COUNTERS = {
    7: "tlp_completion",
    8: "tlp_completion_unexpected",
    11: "tlp_malformed",
    13: "load_timeout",
    14: "load_completed",
    15: "load_completion_unexpected",
    16: "dma_write",
    17: "dma_read",
    18: "dma_read_timeout",
}


def unpack(value: int, fields: tuple) -> dict[str, int]:
    """Split a packed struct."""
    out = {}
    for name, width in reversed(fields):
        out[name] = value & (1 << width) - 1
        value >>= width
    return out


def fcs(frame: bytes) -> bytes:
    """FCS of a frame."""
    return struct.pack("<I", zlib.crc32(frame))


def memory_pattern(address: int, size: int) -> bytes:
    """Contents of the host's memory."""
    return bytes((a * 0x9E3779B1 >> 11) & 0xFF for a in range(address, address + size))


class Bench:
    """Clocks, line, root complex and transmitter around the design."""

    def __init__(self, dut, offset_ps: int = 100) -> None:
        """Take the run's seed, which the harness prints."""
        self.dut = dut
        self.rand = random.Random(random.getrandbits(64))
        self.gmii = bool(int(dut.Gmii.value))
        self.net_ps = 8000 if self.gmii else 6400
        self.table_size = int(dut.Regions.value)
        self.offset_ps = offset_ps
        self.me = Identity()
        self.net = Counter()
        self.pcie = Counter()
        self.mac_good = 0
        self.line: deque[tuple[int, int]] = deque()  # XGMII words or GMII bytes
        self.lane4 = False
        self.tlps: list[tuple[bytes, int]] = []  # with the time of the first beat
        self.held: list[int] = []
        self.deny: list[dict] = []
        self.replies: list[tuple[dict, bytes]] = []
        self.reports: list[tuple] = []
        self.cpu_errors: list[int] = []
        self.to_root: deque[bytes] = deque()
        self.root_ready = 1.0
        self.transmit_ready = 0.5
        self.root_gap = 0.2

    async def start(self) -> None:
        """Reset and start everything."""
        dut = self.dut
        for name in (
            "gmii_rxd_i gmii_rx_dv_i region_cfg_write_i region_cfg_read_i region_cfg_index_i "
            "region_cfg_entry_i deny_pop_i cpl_frame_pay_idx_i cpl_frame_pop_i alloc_i "
            "alloc_load_i cpl_error_ready_i m_tlp_tready_i s_tlp_tdata_i s_tlp_tkeep_i "
            "s_tlp_tvalid_i s_tlp_tlast_i now_us_i"
        ).split():
            getattr(dut, name).value = 0
        dut.xgmii_rxd_i.value = 0x0707070707070707
        dut.xgmii_rxc_i.value = 0xFF
        dut.mac_i.value = self.me.mac
        dut.ip_i.value = self.me.ip
        dut.completer_id_i.value = self.me.completer_id
        dut.read_timeout_us_i.value = 100
        dut.rst_net_i.value = 1
        dut.rst_pcie_i.value = 1
        Clock(dut.clk_net_i, self.net_ps, "ps").start()
        await Timer(self.offset_ps, "ps")
        Clock(dut.clk_pcie_i, PCIE_PS, "ps").start()
        for _ in range(4):
            await RisingEdge(dut.clk_net_i)
        dut.rst_net_i.value = 0
        await RisingEdge(dut.clk_pcie_i)
        dut.rst_pcie_i.value = 0
        cocotb.start_soon(self._line())
        cocotb.start_soon(self._net())
        cocotb.start_soon(self._root())
        cocotb.start_soon(self._completer())
        for name in ("deny", "cpl_frame"):
            cocotb.start_soon(self._transmit(name))
        await RisingEdge(dut.clk_net_i)

    async def _line(self) -> None:
        dut = self.dut
        while True:
            if self.gmii:
                byte, valid = self.line.popleft() if self.line else (0, 0)
                dut.gmii_rxd_i.value = byte
                dut.gmii_rx_dv_i.value = valid
            else:
                word, control = self.line.popleft() if self.line else (0x0707070707070707, 0xFF)
                dut.xgmii_rxd_i.value = word
                dut.xgmii_rxc_i.value = control
            await RisingEdge(dut.clk_net_i)

    async def _net(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.clk_net_i)
            now = get_sim_time("ps")
            await ReadOnly()
            counts = int(dut.net_counts_o.value)
            if counts:
                judged = counts & (1 << 28) - 1
                assert judged.bit_count() <= 1, f"two verdicts at once: {counts:#x}"
                for index, name in NET_COUNTERS.items():
                    self.net[name] += counts >> index & 1
            self.mac_good += int(dut.mac_stat_o.value) >> 5
            if dut.held_last_o.value:
                self.held.append(now)
            if dut.err_valid_o.value:
                value = int(dut.err_o.value)
                self.reports.append(
                    (
                        value >> 120,
                        value >> 112 & 0xFF,
                        value >> 96 & 0xFFFF,
                        value >> 32 & (1 << 64) - 1,
                        value & 0xFFFFFFFF,
                    )
                )

    async def _root(self) -> None:
        """Take TLPs and count the PCIe side's pulses."""
        dut = self.dut
        data = b""
        began = 0
        while True:
            dut.m_tlp_tready_i.value = self.rand.random() < self.root_ready
            dut.cpl_error_ready_i.value = self.rand.random() < 0.3
            await ReadOnly()
            taken = dut.m_tlp_tvalid_o.value and dut.m_tlp_tready_i.value
            if taken:
                keep = int(dut.m_tlp_tkeep_o.value)
                last = bool(dut.m_tlp_tlast_o.value)
                assert keep == 0xFF or (last and keep == 0x0F)
                beat = int(dut.m_tlp_tdata_o.value).to_bytes(8, "little")[: keep.bit_count()]
            error = dut.cpl_error_valid_o.value and dut.cpl_error_ready_i.value
            if error:
                self.cpu_errors.append(int(dut.cpl_error_o.value))
            counts = int(dut.pcie_counts_o.value)
            if counts:
                for index, name in PCIE_COUNTERS.items():
                    self.pcie[name] += counts >> index & 1
            await RisingEdge(dut.clk_pcie_i)
            if taken:
                began = began or get_sim_time("ps")
                data += beat
                if last:
                    self.tlps.append((data, began))
                    data, began = b"", 0

    async def _completer(self) -> None:
        """Send TLPs to the design."""
        dut = self.dut
        while True:
            if not self.to_root:
                await RisingEdge(dut.clk_pcie_i)
                continue
            tlp = self.to_root.popleft()
            for at in range(0, len(tlp), 8):
                while self.rand.random() < self.root_gap:
                    await RisingEdge(dut.clk_pcie_i)
                part = tlp[at : at + 8]
                dut.s_tlp_tdata_i.value = int.from_bytes(part, "little")
                dut.s_tlp_tkeep_i.value = (1 << len(part)) - 1
                dut.s_tlp_tlast_i.value = at + 8 >= len(tlp)
                dut.s_tlp_tvalid_i.value = 1
                while True:
                    await ReadOnly()
                    taken = dut.s_tlp_tready_o.value
                    await RisingEdge(dut.clk_pcie_i)
                    if taken:
                        break
                dut.s_tlp_tvalid_i.value = 0

    async def _transmit(self, name: str) -> None:
        """Take frames as the frame builder does, with their payload."""
        dut = self.dut
        valid, pop = dut[f"{name}_valid_o"], dut[f"{name}_pop_i"]
        frame = dut.cpl_frame_o if name == "cpl_frame" else dut.deny_frame_o
        while True:
            await ReadOnly()
            ready = valid.value
            await RisingEdge(dut.clk_net_i)
            if not ready or self.rand.random() > self.transmit_ready:
                continue
            await ReadOnly()
            fields = unpack(int(frame.value), FRAME_FIELDS)
            fields["head"] = fields["head"].to_bytes(16, "little")
            data = b""
            if name == "cpl_frame":
                assert dut.cpl_frame_permitted_o.value
                for pair in range((fields["data_dw"] + 1) // 2):
                    await RisingEdge(dut.clk_net_i)
                    dut.cpl_frame_pay_idx_i.value = pair
                    await RisingEdge(dut.clk_net_i)
                    await ReadOnly()
                    data += int(dut.cpl_frame_pay_word_o.value).to_bytes(8, "little")
                self.replies.append((fields, data[: 4 * fields["data_dw"]]))
            else:
                self.deny.append(fields)
            await RisingEdge(dut.clk_net_i)
            pop.value = 1
            await RisingEdge(dut.clk_net_i)
            pop.value = 0

    def send(self, frame: bytes, lane4: bool | None = None, gap: int = 0, bad: bool = False):
        """Queue a frame without FCS; `gap` is in steps of 4 bytes beyond the smallest."""
        whole = frame + fcs(frame)
        if bad:
            whole = whole[:-1] + bytes([whole[-1] ^ 1])
        if self.gmii:
            self.line.extend((b, 1) for b in b"\x55" * 7 + b"\xd5" + whole)
            self.line.extend([(0, 0)] * (12 + gap))
            return
        if lane4 is None:
            lane4 = self.rand.random() < 0.5
        chars = [(0x07, 1)] * 4 if lane4 else []
        chars += [(0xFB, 1)] + [(0x55, 0)] * 6 + [(0xD5, 0)]
        chars += [(b, 0) for b in whole] + [(0xFD, 1)] + [(0x07, 1)] * 4 * gap
        chars += [(0x07, 1)] * (-len(chars) % 8)
        for at in range(0, len(chars), 8):
            word = chars[at : at + 8]
            self.line.append(
                (
                    int.from_bytes(bytes(c for c, _ in word), "little"),
                    sum(control << i for i, (_, control) in enumerate(word)),
                )
            )

    async def write_region(self, key: int, region: Region) -> None:
        """Write an entry."""
        dut = self.dut
        await RisingEdge(dut.clk_net_i)
        dut.region_cfg_index_i.value = key
        dut.region_cfg_entry_i.value = region.word()
        dut.region_cfg_write_i.value = 1
        await RisingEdge(dut.clk_net_i)
        dut.region_cfg_write_i.value = 0
        self.me.regions[key] = dataclasses.replace(region)

    async def read_region(self, key: int) -> tuple[int, int]:
        """Read an entry; also the cycles it took."""
        dut = self.dut
        await RisingEdge(dut.clk_net_i)
        dut.region_cfg_index_i.value = key
        dut.region_cfg_read_i.value = 1
        await RisingEdge(dut.clk_net_i)
        dut.region_cfg_read_i.value = 0
        for cycle in range(1, 4000):
            await ReadOnly()
            if dut.region_cfg_read_done_o.value:
                value = int(dut.region_cfg_entry_o.value)
                await RisingEdge(dut.clk_net_i)
                return value, cycle
            await RisingEdge(dut.clk_net_i)
        raise AssertionError("a read of the region table has no end")

    async def idle(self, limit: int = 100_000, pcie: bool = True) -> None:
        """Wait until nothing moves."""
        dut = self.dut
        quiet = 0
        for _ in range(limit):
            await RisingEdge(dut.clk_net_i)
            await ReadOnly()
            busy = dut.busy_net_o.value or (pcie and dut.busy_pcie_o.value)
            quiet = 0 if busy or self.line or self.to_root else quiet + 1
            if quiet > 32:
                await RisingEdge(dut.clk_net_i)
                return
        raise AssertionError("never idle")

    async def alloc(self, load: dict) -> int:
        """Take a load tag as the requester does."""
        dut = self.dut
        value = 0
        for name, width in LOAD_FIELDS:
            value = value << width | load[name]
        await RisingEdge(dut.clk_pcie_i)
        dut.alloc_load_i.value = value
        await ReadOnly()
        assert dut.alloc_ok_o.value
        tag = int(dut.alloc_tag_o.value)
        await RisingEdge(dut.clk_pcie_i)
        dut.alloc_i.value = 1
        await RisingEdge(dut.clk_pcie_i)
        dut.alloc_i.value = 0
        return tag


LOAD_FIELDS = (
    ("requester_id", 16),
    ("tag", 8),
    ("tc", 3),
    ("byte_count", 12),
    ("lower_address", 7),
    ("peer_ip", 32),
)


# ---- Random frames -----------------------------------------------------------------------------


async def random_regions(bench: Bench) -> None:
    """Fill the table: open ones, narrow ones, one-sided ones, an invalid one."""
    rand = bench.rand
    for key in range(bench.table_size):
        first = rand.choice([0, rand.randrange(1 << 14)])
        region = Region(
            base=rand.choice([0, rand.randrange(1 << 18), rand.randrange(1 << 50)]) << 12,
            first=first,
            last=rand.choice([first + rand.randrange(1 << 14), (1 << 32) - 1]),
            ip=rand.choice([0x0A000002, 0x0A000002, 0x0A0000FE]),
            mask=rand.choice([0xFFFFFFFF, 0xFFFFFF00, 0, 0xFFFFFFFF]),
            tag=rand.randrange(1 << 12),
            valid=rand.random() < 0.9,
            write=rand.random() < 0.85,
            read=rand.random() < 0.85,
        )
        await bench.write_region(key, region)
        if rand.random() < 0.2:
            value, _ = await bench.read_region(key)
            assert value == region.word()


def random_enables(rand: random.Random, length: int) -> tuple[int, int]:
    """First and last byte enables, mostly as PCI Express has them."""
    if rand.random() < 0.05:
        return rand.randrange(16), rand.randrange(16)
    if length == 1:
        return rand.randrange(16), 0
    return rand.randrange(1, 16), rand.randrange(1, 16)


def random_payload(bench: Bench) -> bytes:
    """Payload of an operation that is right or nearly so."""
    rand = bench.rand
    key = rand.randrange(bench.table_size)
    if rand.random() < 0.05:
        key = rand.choice([bench.table_size, 0xFFF, rand.randrange(1 << 16)])
    region = bench.me.regions.get(key, Region())
    length = rand.choice([1, 1, 2, 3, 16, rand.randint(1, 64), 64])
    low, high = region.first >> 2, region.last >> 2
    where = rand.random()
    if where < 0.5:
        dw = rand.randint(low, max(low, min(high - length + 1, low + (1 << 20))))
    elif where < 0.65:
        dw = low + rand.randint(-2, 2)
    elif where < 0.8:
        dw = high - length + 1 + rand.randint(-2, 2)
    elif where < 0.9:
        dw = (rand.randrange(1 << 10) << 10) - rand.randrange(length + 1)
    else:
        dw = rand.randrange(1 << 30)
    offset = (dw & (1 << 30) - 1) << 2
    tag = region.tag if rand.random() < 0.95 else rand.randrange(1 << 12)
    data = rand.randbytes(4 * length)
    sequence = rand.randrange(1 << 16)
    lie = rand.random()
    kind = rand.random()
    if kind < 0.4:
        key, offset = key & 0xFFF, offset & 0xFFFFFFF
        if lie < 0.1:
            data = rand.randbytes(rand.choice([0, 1, 2, 3, 5, 6, 260, 264, rand.randrange(270)]))
        return compact(
            key,
            offset | (rand.randrange(4) if rand.random() < 0.3 else 0),
            rand.randrange(4) if rand.random() < 0.3 else 0,
            data,
            tag,
            sequence,
            rand.randrange(1 << 16) if rand.random() < 0.2 else None,
        )
    control, epoch = rand.choice([0, 1, 2, 3]), rand.randrange(256)
    first_be, last_be = random_enables(rand, length)
    net_tag = rand.randrange(256)
    if kind < 0.6:
        head = request_head(MWR, length, net_tag, last_be, first_be, key, offset)
    elif kind < 0.8:
        head, data = request_head(MRD, length, net_tag, last_be, first_be, key, offset), b""
    elif kind < 0.9:
        tag = 0 if rand.random() < 0.9 else 1
        has_data = rand.random() < 0.7
        head = completion_head(
            has_data,
            length,
            rand.choice([0, 0, 1, 4]),
            rand.randrange(1 << 12),
            net_tag,
            rand.randrange(128),
        )
        data = data if has_data else b""
    else:
        tag = 0 if rand.random() < 0.9 else 1
        control |= 0x10
        data = b""
        head = error_body(
            rand.randrange(256),
            rand.randrange(256),
            sequence,
            rand.randrange(1 << 16),
            rand.randrange(1 << 64),
        )
    if lie < 0.05:
        data = data[: rand.randrange(len(data) + 1)]
    elif lie < 0.08:
        data += rand.randbytes(rand.choice([1, 2, 4, 8]))
    elif lie < 0.12:
        # Anything in the header, most of all in its first DW and address.
        at = rand.choice([0, 2, 2, 3, 7, 8, 9, 15, rand.randrange(16)])
        head = head[:at] + bytes([head[at] ^ 1 << rand.randrange(8)]) + head[at + 1 :]
    elif lie < 0.14:
        head = head[:2] + struct.pack(">H", rand.choice([0, 65, 1023])) + head[4:]
    elif lie < 0.15:
        head = head[: rand.randrange(16)]
        data = b""
    elif lie < 0.17:
        control ^= 1 << rand.randrange(2, 8)
    return tlp_payload(head, data, tag, control, epoch, sequence)


def random_frame(bench: Bench) -> bytes:
    """Build a frame that is right or wrong in one place."""
    rand = bench.rand
    me = bench.me
    to = Addresses(me.mac, me.ip, src_ip=rand.choice([0x0A000002] * 3 + [0x0A0000FE, 0x0A010002]))
    to.src_mac = rand.randrange(1 << 48)
    payload = random_payload(bench)
    pick = rand.random()
    if pick < 0.015:
        to.dst_mac = me.mac ^ 1 << rand.randrange(48)
    elif pick < 0.03:
        to.dst_mac = (1 << 48) - 1
    elif pick < 0.04:
        to.dst_ip ^= 1 << rand.randrange(32)
    elif pick < 0.05:
        to.udp_fields["dport"] = UDP_PORT ^ 1 << rand.randrange(16)
    elif pick < 0.06:
        to.ip_fields["flags"] = rand.choice([1, 3, 4, 6])
    elif pick < 0.07:
        to.ip_fields["frag"] = 1 << rand.randrange(13)
    elif pick < 0.08:
        to.ip_fields["proto"] = 17 ^ 1 << rand.randrange(8)
    elif pick < 0.09:
        to.ip_fields["chksum"] = rand.randrange(1 << 16)
    elif pick < 0.1:
        to.ip_fields["version" if rand.random() < 0.5 else "ihl"] = rand.choice([4, 5, 6, 7])
    elif pick < 0.12:
        to.udp_fields["len"] = max(0, len(payload) + 8 + rand.choice([-9, -2, -1, 1, 2, 40]))
    elif pick < 0.14:
        to.ip_fields["len"] = max(0, len(payload) + 28 + rand.choice([-30, -4, -1, 1, 4, 40]))
    elif pick < 0.17:
        # Both lengths lie alike: payload beyond the frame, or a code inside it.
        lie = rand.choice([-8, -4, -2, -1, 1, 2, 4, 6, 8, 100, 60000])
        size = min(max(len(payload) + 8 + lie, 0), 65515)
        to.udp_fields["len"] = size
        to.ip_fields["len"] = size + 20
    elif pick < 0.18:
        payload = rand.randbytes(rand.randrange(64))
    to.ip_fields.setdefault("tos", rand.choice([0, rand.randrange(256)]))
    to.udp_fields["chksum"] = rand.choice([0, rand.randrange(1 << 16)])
    frame = build(payload, to, rand.choice([60, 60, 60, rand.randrange(60, 400)]))
    other = rand.random()
    if other < 0.02:
        at = rand.randrange(len(frame))
        frame = frame[:at] + bytes([frame[at] ^ 1 << rand.randrange(8)]) + frame[at + 1 :]
    elif other < 0.04:
        frame = frame[:12] + rand.choice([b"\x08\x06", b"\x86\xdd", b"\x08\x01"]) + frame[14:]
    return frame[:1500]


class Expectation:
    """Everything that must come out, collected frame by frame."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.counts: Counter = Counter()
        self.requests: list[Result] = []
        self.answers: list[dict] = []
        self.reports: list[tuple] = []

    def add(self, result: Result) -> None:
        """Expect what one frame does."""
        self.counts[result.counter] += 1
        if result.tlp or result.load:
            self.requests.append(result)
        self.answers += result.answers
        if result.report:
            self.reports.append(result.report)

    def check(self, bench: Bench) -> None:
        """Compare with what came."""
        got = Counter({k: v for k, v in bench.net.items() if v})
        assert got == self.counts, f"got {got}, expected {self.counts}"
        assert bench.reports == self.reports
        for i, (answer, expected) in enumerate(zip(bench.deny, self.answers, strict=True)):
            part = {name: answer[name] for name in expected}
            assert part == expected, f"answer {i}: got {part}, expected {expected}"
            rest = {"compact": 0, "sequenced": 0, "tag": 0, "src_port": UDP_PORT}
            assert {name: answer[name] for name in rest} == rest


def parse_read(tlp: bytes) -> tuple[int, int, int, int, int]:
    """Address, length, first and last byte enables, tag of a DMA read."""
    length = int.from_bytes(tlp[2:4], "big") & 0x3FF
    wide = tlp[0] == 0x20
    assert len(tlp) == (16 if wide else 12)
    address = int.from_bytes(tlp[8:], "big")
    assert wide == (address >> 32 != 0)
    return address, length, tlp[7] & 0xF, tlp[7] >> 4, tlp[6]


def read_bytes(length: int, first_be: int, last_be: int) -> tuple[int, int]:
    """Byte count of a read and bits 1:0 of its first byte."""
    enables = [first_be] + [0xF] * (length - 2) + ([last_be] if length > 1 else [])
    bits = [i for i, be in enumerate(enables) for _ in (0,) if be]
    if not bits:
        return 1, 0
    every = [4 * i + j for i, be in enumerate(enables) for j in range(4) if be >> j & 1]
    return every[-1] - every[0] + 1, every[0] & 3


def root_completions(bench: Bench, tlp: bytes, split: bool = True) -> list[bytes]:
    """Completions with which the root complex answers a DMA read."""
    address, length, first_be, last_be, tag = parse_read(tlp)
    left, skip = read_bytes(length, first_be, last_be)
    at = address
    end = address + 4 * length
    out = []
    while at < end:
        stop = end
        if split and bench.rand.random() < 0.6:
            stop = min(end, (at | 63) + 1 + 64 * bench.rand.randrange(3))
        data = memory_pattern(at, stop - at)
        head = struct.pack(
            ">BBHHHHBB",
            0x4A,
            0,
            len(data) // 4,
            0,
            left & 0xFFF,
            bench.me.completer_id,
            tag,
            (at + skip) & 0x7F,
        )
        out.append(head + data)
        left -= len(data) - skip
        skip = 0
        at = stop
    return out


# ---- Tests -------------------------------------------------------------------------------------


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def every_verdict(dut) -> None:
    """Random frames, all lines of the table: counters, DMA writes, answers, reports."""
    bench = Bench(dut)
    await bench.start()
    expected = Expectation()
    total = 0
    for _ in range(3 if bench.gmii else 6):
        await random_regions(bench)
        bench.root_ready = bench.rand.choice([0.7, 1.0])
        for _ in range(40):
            for _ in range(8):
                frame = random_frame(bench)
                bad = bench.rand.random() < 0.02
                bench.send(frame, gap=bench.rand.choice([2, 3, 10]), bad=bad)
                total += not bad
                if not bad:
                    expected.add(judge(frame, bench.me, bench.table_size))
            # The queue of refusals and the DMA tags must not run over: that is another test.
            await settle(bench)
    await bench.idle()
    lines = {name for name, count in expected.counts.items() if count}
    assert lines == {n for n in NET_COUNTERS.values() if n.startswith("rx_")} - {"rx_overflow"}
    check_tlps(bench, expected)
    expected.check(bench)
    assert sum(bench.net.values()) == total == bench.mac_good
    dut._log.info("%d frames: %s", total, dict(expected.counts))


async def settle(bench: Bench) -> None:
    """Wait for the end of what was sent, answering DMA reads."""
    answered = getattr(bench, "answered", 0)
    quiet = 0
    while quiet < 60:
        await RisingEdge(bench.dut.clk_net_i)
        await ReadOnly()
        while answered < len(bench.tlps):
            tlp = bench.tlps[answered][0]
            answered += 1
            if tlp[0] in (0x00, 0x20):
                bench.to_root.extend(root_completions(bench, tlp))
        busy = bench.line or bench.to_root or bench.dut.busy_net_o.value
        quiet = 0 if busy or bench.dut.busy_pcie_o.value else quiet + 1
    bench.answered = answered
    await RisingEdge(bench.dut.clk_net_i)


def check_tlps(bench: Bench, expected: Expectation) -> None:
    """DMA writes and reads in order; replies to the reads in their order of completion."""
    assert len(bench.tlps) == len(expected.requests)
    reads: dict[int, list] = {}
    for i, ((tlp, _), want) in enumerate(zip(bench.tlps, expected.requests, strict=True)):
        if want.tlp:
            assert tlp == want.tlp, f"TLP {i}: got {tlp.hex()}, expected {want.tlp.hex()}"
        else:
            address, length, first_be, last_be, dma_tag = parse_read(tlp)
            assert (address, length, first_be, last_be) == want.load[:4], f"TLP {i}"
            assert tlp[4:6] == struct.pack(">H", bench.me.completer_id)
            reads.setdefault(i, [want.load[4], want.load[5], address, length, first_be, last_be])
    # Completions come in the order of the reads here, possibly several for one.
    replies = iter(bench.replies)
    for tag, peer, address, length, first_be, last_be in reads.values():
        left, skip = read_bytes(length, first_be, last_be)
        at = address
        while at < address + 4 * length:
            fields, data = next(replies)
            head = completion_head(True, len(data) // 4, SC, left, tag, (at + skip) & 0x7F)
            assert fields["head"] == head, f"reply {fields['head'].hex()}, expected {head.hex()}"
            assert (fields["dst_mac"], fields["dst_ip"]) == peer
            assert (fields["kind"], fields["compact"], fields["sequenced"]) == (0, 0, 0)
            assert (fields["zero_data"], fields["src_port"], fields["tag"]) == (0, UDP_PORT, 0)
            assert data == memory_pattern(at, len(data))
            left -= len(data) - skip
            skip = 0
            at += len(data)
    assert next(replies, None) is None


async def latency_of(dut, offset_ps: int) -> None:
    """Last word sampled -> first beat taken, for compact stores and all phases of this offset."""
    bench = Bench(dut, offset_ps)
    await bench.start()
    await bench.write_region(3, Region(last=0xFFF, mask=0, tag=0x5A5, valid=True, write=True))
    samples: dict[str, list[int]] = {}
    for lane4 in (False, True):
        for form in ("compact 1 DW", "compact 2 DW", "tlp 1 DW", "tlp 16 DW"):
            for _ in range(12):
                dws = int(form.split()[1])
                data = bench.rand.randbytes(4 * dws)
                if form.startswith("compact"):
                    payload = compact(3, 0x40, 0, data, 0x5A5, 7)
                else:
                    head = request_head(MWR, dws, 0, 0 if dws == 1 else 15, 15, 3, 0x40)
                    payload = tlp_payload(head, data, 0x5A5, 1, 0, 7)
                frame = build(payload, Addresses(bench.me.mac, bench.me.ip))
                bench.held.clear()
                bench.tlps.clear()
                bench.send(frame, lane4=lane4, gap=2)
                for _ in range(bench.rand.randrange(5)):
                    await RisingEdge(dut.clk_net_i)
                await bench.idle()
                assert len(bench.tlps) == 1
                assert bench.tlps[0][0][-len(data) :] == data
                # held is the edge that sampled the last word.
                samples.setdefault(form, []).append(bench.tlps[0][1] - bench.held[0])
    token = bench.net_ps
    for form, values in samples.items():
        dut._log.info("%s: %d..%d ps", form, min(values), max(values))
        for value in values:
            assert token + 2 * PCIE_PS < value <= token + 3 * PCIE_PS, f"{form}: {value} ps"


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def latency_phase_a(dut) -> None:
    """Token one network cycle after the last word, then 8 to 12 ns."""
    await latency_of(dut, 100)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def latency_phase_b(dut) -> None:
    """Shift the clocks by half of the step that the periods leave."""
    await latency_of(dut, 500)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def loads_are_served(dut) -> None:
    """Many loads in flight, answers late, split, mixed, failed, unexpected or missing."""
    bench = Bench(dut)
    await bench.start()
    rand = bench.rand
    now = 0xFFFFFF00  # the clock wraps on the way
    dut.now_us_i.value = now
    await bench.write_region(1, Region(base=5 << 12, last=0xFFFF, mask=0, valid=True, read=True))
    sent: list[tuple] = []

    def send_load() -> None:
        number = len(sent)
        length = rand.randint(1, 64)
        first_be, last_be = random_enables(rand, 1) if length == 1 else (15, rand.randrange(1, 16))
        if length == 1:
            last_be = 0
        offset = 4 * rand.randrange(1024 - length) + (rand.randrange(8) << 12)
        head = request_head(MRD, length, number & 0xFF, last_be, first_be, 1, offset)
        to = Addresses(bench.me.mac, bench.me.ip, src_mac=rand.randrange(1 << 48))
        to.src_ip = rand.randrange(1, 1 << 31)
        bench.send(build(tlp_payload(head, b"", 0, 0, 0, 0), to), gap=rand.choice([2, 40]))
        sent.append((number & 0xFF, to, offset + (5 << 12), length, first_be, last_be))

    open_reads: list[tuple[int, deque]] = []
    answered = 0
    expected: list[tuple] = []
    counts: Counter = Counter()
    quiet = 0
    missing: list[int] = []
    while quiet < 200:
        await RisingEdge(dut.clk_net_i)
        if len(sent) < 150 and len(sent) - answered < 20 and not bench.line:
            send_load()
        while answered < len(bench.tlps):
            tlp = bench.tlps[answered][0]
            tag, to, address, length, first_be, last_be = sent[answered]
            assert parse_read(tlp)[:4] == (address, length, first_be, last_be)
            pick = rand.random()
            if pick < 0.1:
                missing.append(answered)
            elif pick < 0.15:
                head = struct.pack(">BBHHHHBB", 0x0A, 0, 0, 0, 1 << 13 | 4, 0, tlp[6], 0x11)
                open_reads.append((answered, deque([head])))
            else:
                open_reads.append((answered, deque(root_completions(bench, tlp))))
            answered += 1
        if rand.random() < 0.02:
            # From another use of the tag, or none at all.
            bench.to_root.append(struct.pack(">BBHHHHBB", 0x0A, 0, 0, 0, 4, 0, 0xFF, 0))
            counts["tlp_completion_unexpected"] += 1
        if open_reads and rand.random() < 0.05:
            pick = rand.randrange(len(open_reads))
            number, parts = open_reads[pick]
            part = parts.popleft()
            if not parts:
                open_reads.pop(pick)
            bench.to_root.append(part)
            counts["tlp_completion"] += 1
            expected.append((number, part))
        # Nobody else is left: let those without an answer expire, and no others.
        if missing and not open_reads and not bench.to_root and quiet > 100:
            await Timer(500, "ns")
            now = (now + 99) & 0xFFFFFFFF
            dut.now_us_i.value = now
            await Timer(500, "ns")
            assert bench.pcie["dma_read_timeout"] == counts["dma_read_timeout"]
            now = (now + 1) & 0xFFFFFFFF
            dut.now_us_i.value = now
            # Lowest tag first.
            for number in sorted(missing, key=lambda n: bench.tlps[n][0][6] & 7):
                expected.append((number, None))
                counts["dma_read_timeout"] += 1
            missing.clear()
            quiet = 0
        # Reads without an answer may have all tags, and the rest waits behind them.
        stuck = len(missing) == 8
        busy = bench.line or bench.to_root or open_reads or (dut.busy_net_o.value and not stuck)
        quiet = 0 if busy or (dut.busy_pcie_o.value and not missing) else quiet + 1
    assert answered == len(sent)
    assert len(bench.replies) == len(expected)
    for (fields, data), (number, part) in zip(bench.replies, expected, strict=True):
        tag, to, address, length, first_be, last_be = sent[number]
        if part is None:
            count, skip = read_bytes(length, first_be, last_be)
            head = completion_head(False, 0, CA, count, tag, (address + skip) & 0x7F)
        else:
            body = part[12:]
            assert data == body
            status = struct.unpack(">H", part[6:8])[0]
            head = completion_head(
                part[0] == 0x4A, len(body) // 4, status >> 13, status & 0xFFF, tag, part[11]
            )
        assert fields["head"] == head
        assert (fields["dst_mac"], fields["dst_ip"]) == (to.src_mac, to.src_ip)
    assert counts["dma_read_timeout"] > 0
    counts["dma_read"] = len(sent)
    assert Counter({k: v for k, v in bench.pcie.items() if v}) == counts


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def completions_reach_the_cpu(dut) -> None:
    """Loads of the CPU: good, split, failed, wrong tag, wrong sender, late, missing."""
    bench = Bench(dut)
    await bench.start()
    rand = bench.rand
    now = 0
    counts: Counter = Counter()
    expected: list[bytes] = []
    errors: list[int] = []
    out: dict[int, dict] = {}
    generations = [0] * 32
    bench.root_ready = 0.6

    def reply(tag: int, ip: int, status: int, parts: list[tuple[int, int, bytes]]) -> None:
        for count, lower, data in parts:
            head = completion_head(bool(data), len(data) // 4, status, count, tag, lower)
            to = Addresses(bench.me.mac, bench.me.ip, src_ip=ip)
            bench.send(build(tlp_payload(head, data, 0, 0, 0, 0), to), gap=rand.choice([2, 9]))

    for _ in range(60):
        for _ in range(rand.randint(1, 6)):
            if len(out) == 32:
                break
            length = rand.randint(1, 64)
            first_be, last_be = rand.randrange(1, 16), rand.randrange(1, 16)
            count, skip = read_bytes(length, first_be, last_be)
            load = {
                "requester_id": rand.randrange(1 << 16),
                "tag": rand.randrange(256),
                "tc": rand.randrange(8),
                "byte_count": count,
                "lower_address": 4 * rand.randrange(32) + skip,
                "peer_ip": rand.randrange(1, 1 << 31),
            }
            tag = await bench.alloc(load)
            index = min(i for i in range(32) if i not in {t & 31 for t in out})
            assert tag == generations[index] << 5 | index
            out[tag] = {**load, "length": length}
        for tag in rand.sample(sorted(out), rand.randint(0, len(out))):
            load = out[tag]
            pick = rand.random()
            total = 4 * load["length"]
            data = rand.randbytes(total)
            skip = load["lower_address"] & 3
            parts = [(load["byte_count"], load["lower_address"], data)]
            if pick < 0.1:
                reply(tag, load["peer_ip"] ^ 1, SC, parts)
                counts["load_completion_unexpected"] += 1
                continue
            if pick < 0.2:
                reply(tag ^ 0x20, load["peer_ip"], SC, parts)
                counts["load_completion_unexpected"] += 1
                continue
            status = SC
            if pick < 0.4:
                status = rand.choice([1, 4])
                parts = [(load["byte_count"], load["lower_address"], b"")]
            elif total > 8 and pick < 0.7:
                cut = 4 * rand.randrange(1, load["length"])
                if load["byte_count"] > cut - skip:
                    parts = [
                        (load["byte_count"], load["lower_address"], data[:cut]),
                        (
                            load["byte_count"] - cut + skip,
                            (load["lower_address"] - skip + cut) & 0x7F,
                            data[cut:],
                        ),
                    ]
            reply(tag, load["peer_ip"], status, parts)
            for count, lower, body in parts:
                head = struct.pack(
                    ">BBHHHHBB",
                    0x4A if body else 0x0A,
                    load["tc"] << 4,
                    len(body) // 4,
                    bench.me.completer_id,
                    status << 13 | count,
                    load["requester_id"],
                    load["tag"],
                    lower,
                )
                expected.append(head + body)
            counts["load_completed"] += 1
            # A second answer is one too many.
            reply(tag, load["peer_ip"], SC, [(4, 0, b"late")])
            counts["load_completion_unexpected"] += 1
            generations[tag & 31] = generations[tag & 31] + 1 & 7
            del out[tag]
        await bench.idle(pcie=False)
        await Timer(1, "us")
        if rand.random() < 0.2:
            now += 100
            dut.now_us_i.value = now
            for tag in sorted(out, key=lambda t: t & 31):
                load = out.pop(tag)
                value = 0
                for field, width in (
                    (load["requester_id"], 16),
                    (load["tag"], 8),
                    (load["tc"], 3),
                    (CA, 3),
                    (load["byte_count"], 12),
                    (load["lower_address"], 7),
                ):
                    value = value << width | field
                errors.append(value)
                generations[tag & 31] = generations[tag & 31] + 1 & 7
                counts["load_timeout"] += 1
            await Timer(2, "us")
    await bench.idle(pcie=not out)
    for i, ((tlp, _), want) in enumerate(zip(bench.tlps, expected, strict=True)):
        assert tlp == want, f"completion {i}: got {tlp.hex()}, expected {want.hex()}"
    assert bench.cpu_errors == errors
    assert Counter({k: v for k, v in bench.pcie.items() if v}) == counts
    assert counts["load_timeout"] and counts["load_completed"]


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def overflow_is_counted(dut) -> None:
    """A root complex that hardly takes anything: what is accepted arrives, the rest is counted."""
    bench = Bench(dut)
    await bench.start()
    await bench.write_region(2, Region(last=0xFFFFF, mask=0, valid=True, write=True))
    bench.root_ready = 0.005 if bench.gmii else 0.05
    bench.transmit_ready = 0.001
    sent = []
    refused = 0
    for number in range(400):
        length = bench.rand.choice([1, 4, 32])
        data = struct.pack("<I", number) * length
        if bench.rand.random() < 0.2:
            payload = compact(7, 0, 0, data, 0, number)
            refused += 1
        else:
            payload = compact(2, 0x100, 0, data, 0, number)
            sent.append(data)
        bench.send(build(payload, Addresses(bench.me.mac, bench.me.ip)), gap=2)
        while len(bench.line) > 100:
            await RisingEdge(dut.clk_net_i)
        if number == 300:
            bench.root_ready = bench.transmit_ready = 0.5
    await bench.idle()
    assert bench.net["rx_store"] + bench.net["rx_overflow"] == len(sent)
    assert bench.net["rx_overflow"] > 0
    assert bench.net["rx_bad_key"] == refused
    assert bench.net["deny_dropped"] + len(bench.deny) == refused
    assert bench.net["deny_dropped"] > 0
    assert len(bench.tlps) == bench.net["rx_store"] == bench.pcie["dma_write"]
    # In order, whole, none twice.
    got = iter(sent)
    for tlp, _ in bench.tlps:
        assert tlp[12:] in got


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def regions_change_under_traffic(dut) -> None:
    """Entries change and are read while frames come: old or new, never a mixture; no read hangs."""
    bench = Bench(dut)
    await bench.start()
    bases = (0x1111_0000, 0x2222_0000)
    regions = [Region(base=b, last=0xFFF, mask=0, valid=True, write=True) for b in bases]
    await bench.write_region(5, regions[0])
    frames = 300
    for number in range(frames):
        payload = compact(5, 0x20, 0, struct.pack("<I", number), 0, 0)
        if number % 2:
            head = request_head(MWR, 1, 0, 0, 15, 5, 0x20)
            payload = tlp_payload(head, struct.pack("<I", number), 0, 0, 0, 0)
        bench.send(build(payload, Addresses(bench.me.mac, bench.me.ip)), gap=2)
    current = 0
    while bench.line:
        if bench.rand.random() < 0.3:
            current ^= 1
            await bench.write_region(5, regions[current])
        value, _ = await bench.read_region(5)
        assert value == regions[current].word()
        for _ in range(bench.rand.randrange(20)):
            await RisingEdge(dut.clk_net_i)
    await bench.idle()
    assert bench.net["rx_store"] == frames == len(bench.tlps)
    seen = Counter(int.from_bytes(tlp[8:12], "big") for tlp, _ in bench.tlps)
    assert set(seen) == {b + 0x20 for b in bases}, seen
    # Closed: from the next frame on.
    await bench.write_region(5, Region())
    bench.send(build(compact(5, 0x20, 0, b"1234", 0, 0), Addresses(bench.me.mac, bench.me.ip)))
    await bench.idle()
    assert bench.net["rx_bad_key"] == 1


@pytest.mark.parametrize("gmii", [0, 1])
def test_ipnuma_rx(gmii: int) -> None:
    """Run all tests above behind both MACs."""
    build_and_run(
        "tb_ipnuma_rx",
        __name__,
        filelists=["rtl/eth/eth.f", "rtl/ipnuma/ipnuma_rx.f"],
        sources=["rtl/pcie/tlp_rx.sv", "verif/ipnuma_rx/tb_ipnuma_rx.sv"],
        parameters={"Gmii": gmii},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
