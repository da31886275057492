# SPDX-License-Identifier: Apache-2.0
"""What the tests of the receiving half share: line, root complex, transmitter, random frames."""

from __future__ import annotations

import dataclasses
import os
import random
import struct
import zlib
from collections import Counter, deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from cocotb.utils import get_sim_time
from rx_ref import (
    ACK,
    NACK,
    SC,
    Identity,
    Region,
    Result,
    Session,
    completion_head,
    read_bytes,
)

PCIE_PS = 4000
# More of what is random, in the long form.
LONG = bool(os.environ.get("IPNUMA_LONG"))
# Beside the file lists.
RULES = [
    "rtl/pcie/tlp_parse.sv",
    "rtl/pcie/pcie_rx_split.sv",
    "rtl/pcie/tlp_rx.sv",
    "verif/pcie/tlp_rules.sv",
]
FRAME_FIELDS = (
    ("compact", 1),
    ("control", 1),
    ("session", 9),  # valid, index
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
    38: "rx_bad_session",
    39: "rx_duplicate",
    40: "rx_gap",
    41: "rx_void",
    42: "rx_ack",
}
JUDGED = sum(1 << i for i, name in NET_COUNTERS.items() if name.startswith("rx_"))
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
    21: "load_completion_repeated",
}
ACK_FIELDS = (("session", 8), ("number", 32), ("short", 1), ("nack", 1), ("interval", 12))
REFUSED_FIELDS = (("session", 8), ("code", 8), ("op", 8), ("number", 32), ("address", 64))


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


@dataclasses.dataclass
class Control:
    """An ACK or NACK frame as the frame builder gets it, and when."""

    session: int
    number: int
    nack: bool
    mac: int
    ip: int
    offered: int
    sent: int

    @classmethod
    def of(cls, fields: dict, offered: int, sent: int) -> Control:
        """Take the fields of a tx_frame_t."""
        rest = ("kind", "sequenced", "tag", "head", "data_dw", "zero_data")
        assert fields["compact"] and fields["control"] and fields["session"] >> 8
        assert not any(fields[name] for name in rest)
        assert fields["address"] & 0xFF == 0 and fields["trail"] in (ACK, NACK)
        return cls(
            fields["session"] & 0xFF,
            fields["address"] >> 8,
            fields["trail"] == NACK,
            fields["dst_mac"],
            fields["dst_ip"],
            offered,
            sent,
        )


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
        self.me = Identity(session_count=int(dut.Sessions.value))
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
        self.acks: list[tuple] = []
        self.refused: list[tuple] = []
        self.controls: list[Control] = []
        self.control_ready = 0.5
        self.arrivals = 0
        self.cpu_errors: list[int] = []
        self.to_root: deque[bytes] = deque()
        self.root_ready = 1.0
        self.transmit_ready = 0.5
        self.root_gap = 0.2
        # As in the host's Device Control: 256 and 512 bytes.
        self.max_payload = 1
        self.max_read = 2

    async def start(self) -> None:
        """Reset and start everything."""
        dut = self.dut
        for name in (
            "gmii_rxd_i gmii_rx_dv_i region_cfg_write_i region_cfg_read_i region_cfg_index_i "
            "region_cfg_entry_i deny_pop_i cpl_frame_pay_idx_i cpl_frame_pop_i alloc_i "
            "alloc_load_i alloc_session_i session_cfg_write_i session_cfg_index_i "
            "session_cfg_entry_i session_cfg_read_i status_index_i tx_session_i ack_session_i "
            "ack_taken_i ctl_lock_i ctl_pop_i cpl_error_ready_i m_tlp_tready_i s_tlp_tdata_i "
            "s_tlp_tkeep_i s_tlp_tvalid_i s_tlp_tlast_i now_us_i"
        ).split():
            getattr(dut, name).value = 0
        dut.xgmii_rxd_i.value = 0x0707070707070707
        dut.xgmii_rxc_i.value = 0xFF
        dut.mac_i.value = self.me.mac
        dut.ip_i.value = self.me.ip
        dut.completer_id_i.value = self.me.completer_id
        dut.cfg_max_payload_i.value = self.max_payload
        dut.cfg_max_read_i.value = self.max_read
        dut.cfg_bus_master_i.value = 1
        dut.read_timeout_us_i.value = 100
        dut.ack_ticks_i.value = 5
        dut.ack_every_i.value = 8
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
        cocotb.start_soon(self._control())
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
                judged = counts & JUDGED
                assert judged.bit_count() <= 1, f"two verdicts at once: {counts:#x}"
                for index, name in NET_COUNTERS.items():
                    self.net[name] += counts >> index & 1
            self.mac_good += int(dut.mac_stat_o.value) >> 5
            if dut.held_last_o.value:
                self.held.append(now)
            if dut.ack_valid_o.value:
                fields = unpack(int(dut.ack_o.value), ACK_FIELDS)
                if fields["short"]:
                    fields["number"] &= 0xFFFF
                if fields["short"]:
                    # One within a data frame asks for nothing; nobody looks.
                    fields["interval"] = 0
                self.acks.append(tuple(fields[name] for name, _ in ACK_FIELDS))
            if dut.refused_valid_o.value:
                fields = unpack(int(dut.refused_o.value), REFUSED_FIELDS)
                self.refused.append(tuple(fields[name] for name, _ in REFUSED_FIELDS))
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
            self.arrivals += int(dut.arrival_o.value)
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

    async def _control(self) -> None:
        """Take ACK and NACK frames as the frame builder does: lock, and some cycles later pop."""
        dut = self.dut
        was_locked = 0  # cycles left
        offered = None
        while True:
            await Timer(1, "ns")  # what depends on registers alone has settled
            valid = bool(dut.ctl_valid_o.value)
            if valid and offered is None:
                offered = get_sim_time("ps")
            if not valid:
                assert not was_locked, "a control frame went away while it was sent"
                offered = None
            first = valid and not was_locked and self.rand.random() < self.control_ready
            if first:
                was_locked = self.rand.randint(8, 12)
                dut.ctl_lock_i.value = 1
            dut.ctl_pop_i.value = was_locked == 1
            await ReadOnly()
            if was_locked:
                fields = unpack(int(dut.ctl_frame_o.value), FRAME_FIELDS)
                if first:
                    sent = fields
                    self.controls.append(Control.of(fields, offered, get_sim_time("ps")))
                assert fields == sent, "a control frame changed while it was sent"
            await RisingEdge(dut.clk_net_i)
            if was_locked:
                was_locked -= 1
                if not was_locked:
                    dut.ctl_lock_i.value = 0
                    dut.ctl_pop_i.value = 0
                    offered = None

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

    async def write_session(self, index: int, session: Session) -> None:
        """Write an entry: the session begins anew."""
        dut = self.dut
        await RisingEdge(dut.clk_net_i)
        dut.session_cfg_index_i.value = index
        dut.session_cfg_entry_i.value = session.word()
        dut.session_cfg_write_i.value = 1
        await RisingEdge(dut.clk_net_i)
        dut.session_cfg_write_i.value = 0
        await RisingEdge(dut.clk_net_i)  # it has begun
        self.me.sessions[index] = dataclasses.replace(session, expected=session.start)

    async def read_session(self, index: int) -> int:
        """Read an entry."""
        dut = self.dut
        await RisingEdge(dut.clk_net_i)
        dut.session_cfg_index_i.value = index
        dut.session_cfg_read_i.value = 1
        await RisingEdge(dut.clk_net_i)
        dut.session_cfg_read_i.value = 0
        for _ in range(100):
            await ReadOnly()
            if dut.session_cfg_read_done_o.value:
                value = int(dut.session_cfg_entry_o.value)
                await RisingEdge(dut.clk_net_i)
                return value
            await RisingEdge(dut.clk_net_i)
        raise AssertionError("a read of the session table has no end")

    async def expected(self, index: int) -> int:
        """Read the number that a session expects next."""
        self.dut.status_index_i.value = index
        await ReadOnly()
        value = int(self.dut.status_expected_o.value)
        await RisingEdge(self.dut.clk_net_i)
        return value

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
    ("attr", 2),
    ("byte_count", 12),
    ("lower_address", 7),
    ("peer_ip", 32),
)


# ---- Random frames -----------------------------------------------------------------------------


class Expectation:
    """Everything that must come out, collected frame by frame."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.counts: Counter = Counter()
        self.requests: list[Result] = []
        self.answers: list[dict] = []
        self.reports: list[tuple] = []
        self.acks: list[tuple] = []
        self.refused: list[tuple] = []
        self.notified = 0

    def add(self, result: Result) -> None:
        """Expect what one frame does."""
        self.counts[result.counter] += 1
        if result.tlp or result.load:
            self.requests.append(result)
        self.answers += result.answers
        if result.report:
            self.reports.append(result.report)
        if result.ack:
            self.acks.append(tuple(map(int, result.ack)))
        if result.refused:
            self.refused.append(result.refused)
        self.notified += result.notify

    def check(self, bench: Bench) -> None:
        """Compare with what came."""
        got = Counter({k: v for k, v in bench.net.items() if v})
        assert got == self.counts, f"got {got}, expected {self.counts}"
        assert bench.reports == self.reports
        assert bench.acks == self.acks
        assert bench.refused == self.refused
        assert bench.arrivals == self.notified
        for i, (answer, expected) in enumerate(zip(bench.deny, self.answers, strict=True)):
            part = {name: answer[name] for name in expected}
            assert part == expected, f"answer {i}: got {part}, expected {expected}"
            rest = {"compact": 0, "control": 0, "sequenced": 0, "tag": 0}
            assert {name: answer[name] for name in rest} == rest


def parse_read(tlp: bytes) -> tuple[int, int, int, int, int]:
    """Address, length, first and last byte enables, tag of a DMA read."""
    length = int.from_bytes(tlp[2:4], "big") & 0x3FF
    wide = tlp[0] == 0x20
    assert len(tlp) == (16 if wide else 12)
    address = int.from_bytes(tlp[8:], "big")
    assert wide == (address >> 32 != 0)
    return address, length, tlp[7] & 0xF, tlp[7] >> 4, tlp[6]


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
            reads.setdefault(i, [*want.load[4:], address, length, first_be, last_be])
    # Completions come in the order of the reads here, possibly several for one.
    replies = iter(bench.replies)
    for tag, peer, session, number, port, address, length, first_be, last_be in reads.values():
        left, skip = read_bytes(length, first_be, last_be)
        at = address
        while at < address + 4 * length:
            fields, data = next(replies)
            head = completion_head(True, len(data) // 4, SC, left, tag, (at + skip) & 0x7F, number)
            assert fields["session"] == session
            assert fields["head"] == head, f"reply {fields['head'].hex()}, expected {head.hex()}"
            assert (fields["dst_mac"], fields["dst_ip"]) == peer
            assert (fields["kind"], fields["compact"], fields["sequenced"]) == (0, 0, 0)
            assert (fields["zero_data"], fields["src_port"], fields["tag"]) == (0, port, 0)
            assert data == memory_pattern(at, len(data))
            left -= len(data) - skip
            skip = 0
            at += len(data)
    assert next(replies, None) is None
