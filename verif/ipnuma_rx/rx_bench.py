# SPDX-License-Identifier: Apache-2.0
"""What the tests of the receiving half share: line, root complex, transmitter, random frames."""

from __future__ import annotations

import dataclasses
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
    MRD,
    MWR,
    NACK,
    SC,
    UDP_PORT,
    VOID,
    Addresses,
    Identity,
    Region,
    Result,
    Session,
    build,
    compact,
    completion_head,
    control_frame,
    error_body,
    request_head,
    tlp_payload,
)

PCIE_PS = 4000
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
ACK_FIELDS = (("session", 8), ("number", 32), ("short", 1), ("nack", 1))
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
        self.me.sessions[index] = dataclasses.replace(session)

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
            notify=rand.random() < 0.3,
            session=rand.random() < 0.1,
            sealed=rand.random() < 0.1,
        )
        await bench.write_region(key, region)
        if rand.random() < 0.2:
            value, _ = await bench.read_region(key)
            assert value == region.word()


async def random_sessions(bench: Bench) -> None:
    """Fill the table; some sessions begin close to the wraps of their numbers."""
    rand = bench.rand
    for index in range(bench.me.session_count):
        session = Session(
            ip=rand.choice([0x0A000002, 0x0A0000FE, 0x0A010002]),
            mac=rand.randrange(1 << 48),
            port=0xC000 | rand.randrange(1 << 14),
            epoch=rand.randrange(64),
            valid=rand.random() < 0.9,
            sealed=rand.random() < 0.3,
        )
        await bench.write_session(index, session)
        if rand.random() < 0.2:
            assert await bench.read_session(index) == session.word()
        if rand.random() < 0.5:
            await set_expected(bench, index, rand.choice(STARTS))


STARTS = [0xFFFD, 0x1_0000, 0x7FFF, 0xFFFF_FFFC, 0xFFFF_FFFF, 0x1234_FFFE, 0x1235_0000, 0x8000_0003]


# What `set_expected` reaches into. The benches that use this file share their builds.
PROBES = {"rx_sequence": ["number_q", "used_q"]}


async def set_expected(bench: Bench, index: int, number: int) -> None:
    """Put the receiver behind that many frames."""
    sequence = bench.dut.u_server.u_sequence
    sequence.number_q[index].value = number
    await RisingEdge(bench.dut.clk_net_i)
    sequence.used_q.value = int(sequence.used_q.value) | 1 << index
    await RisingEdge(bench.dut.clk_net_i)
    assert await bench.expected(index) == number
    bench.me.sessions[index].expected = number


def random_number(rand: random.Random, expected: int) -> int:
    """Draw the number of a frame, mostly the expected one."""
    pick = rand.random()
    if pick < 0.7:
        step = 0
    elif pick < 0.8:
        step = -rand.randint(1, 4)
    elif pick < 0.9:
        step = rand.randint(1, 4)
    elif pick < 0.95:
        step = rand.choice([-65536, 65536, -65537, -65535, 1 << 20])
    else:
        step = rand.choice([-32768, 32767, rand.randrange(1 << 32)])
    return (expected + step) & 0xFFFFFFFF


def random_enables(rand: random.Random, length: int) -> tuple[int, int]:
    """First and last byte enables, mostly as PCI Express has them."""
    if rand.random() < 0.05:
        return rand.randrange(16), rand.randrange(16)
    if length == 1:
        return rand.randrange(16), 0
    return rand.randrange(1, 16), rand.randrange(1, 16)


def random_payload(bench: Bench, port: int) -> bytes:
    """Payload of an operation that is right or nearly so."""
    rand = bench.rand
    in_session = port >> 14 == 3
    session = bench.me.sessions.get(port & 0xFF, Session())
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
    tag = region.tag if region.valid and rand.random() < 0.95 else rand.randrange(1 << 12)
    data = rand.randbytes(4 * length)
    sequence = random_number(rand, session.expected) if in_session else rand.randrange(1 << 16)
    # The end code may be for another port.
    cover = port ^ 1 << rand.randrange(14) if in_session and rand.random() < 0.05 else port
    lie = rand.random()
    kind = rand.random()
    if rand.random() < (0.25 if in_session else 0.03):
        code = rand.choice([ACK, NACK, VOID, VOID, 3] if lie < 0.1 else [ACK, NACK, VOID, VOID])
        number = sequence if code == VOID else rand.randrange(1 << 32)
        rest = rand.randbytes(rand.choice([1, 2, 4, 8])) if lie > 0.95 else b""
        payload = control_frame(code, number, cover, rest)
        if lie < 0.03:
            payload = bytes([payload[0] | 8]) + payload[1:]
        elif lie < 0.06:
            payload = payload[:-1] + bytes([payload[-1] ^ 1 << rand.randrange(8)])
        return payload
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
            cover,
        )
    control, epoch = rand.choice([0, 1, 2, 3]), rand.randrange(256)
    if in_session and rand.random() < 0.9:
        control |= 1
    load_number = rand.choice([0, rand.randrange(1 << 16)])
    first_be, last_be = random_enables(rand, length)
    net_tag = rand.randrange(256)
    if kind < 0.6:
        head = request_head(MWR, length, net_tag, last_be, first_be, key, offset)
    elif kind < 0.8:
        head = request_head(MRD, length, net_tag, last_be, first_be, key, offset, load_number)
        data = b""
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
            load_number,
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
    return tlp_payload(head, data, tag, control, epoch, sequence, rand.randrange(1 << 16), cover)


def source_mac(rand: random.Random, sealed: bool = False) -> int:
    """Draw a source address; the wrapper takes a group's for that of a sealed frame."""
    return rand.randrange(1 << 48) & ~(1 << 40) | sealed << 40


def random_frame(bench: Bench) -> bytes:
    """Build a frame that is right or wrong in one place."""
    rand = bench.rand
    me = bench.me
    to = Addresses(me.mac, me.ip, src_ip=rand.choice([0x0A000002] * 3 + [0x0A0000FE, 0x0A010002]))
    sealed = False
    if rand.random() < 0.5:
        index = rand.randrange(me.session_count)
        session = me.sessions.get(index, Session())
        to.src_port = 0xC000 | session.epoch << 8 | index
        to.src_ip = session.ip
        sealed = session.sealed
        lie = rand.random()
        if lie < 0.02:
            to.src_port ^= 1 << rand.randrange(14)
        elif lie < 0.04:
            to.src_ip ^= 1 << rand.randrange(32)
        elif lie < 0.06:
            sealed = not sealed
    elif rand.random() < 0.02:
        sealed = True
    to.src_mac = source_mac(rand, sealed)
    payload = random_payload(bench, to.src_port)
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
    elif other < 0.1:
        # The key, after the end code was made.
        at = rand.choice([60, 61] if frame[42:44] == b"NM" else [45, 46])
        frame = frame[:at] + bytes([frame[at] ^ 1 << rand.randrange(8)]) + frame[at + 1 :]
    return frame[:1500]


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
            rest = {"compact": 0, "control": 0, "sequenced": 0, "tag": 0, "src_port": UDP_PORT}
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
    for tag, peer, session, number, address, length, first_be, last_be in reads.values():
        left, skip = read_bytes(length, first_be, last_be)
        at = address
        while at < address + 4 * length:
            fields, data = next(replies)
            head = completion_head(True, len(data) // 4, SC, left, tag, (at + skip) & 0x7F, number)
            assert fields["session"] == session
            assert fields["head"] == head, f"reply {fields['head'].hex()}, expected {head.hex()}"
            assert (fields["dst_mac"], fields["dst_ip"]) == peer
            assert (fields["kind"], fields["compact"], fields["sequenced"]) == (0, 0, 0)
            assert (fields["zero_data"], fields["src_port"], fields["tag"]) == (0, UDP_PORT, 0)
            assert data == memory_pattern(at, len(data))
            left -= len(data) - skip
            skip = 0
            at += len(data)
    assert next(replies, None) is None
