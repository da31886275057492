# SPDX-License-Identifier: Apache-2.0
"""The whole NIC, 10G and 1G, between models that nobody here wrote.

The root complex is cocotbext-pcie's, the PHY side cocotbext-eth's, frames are Scapy's; payloads
are read by nic_ref from docs/wire-format.md.
"""

from __future__ import annotations

import random
import struct

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpType
from harness import build_and_run
from nic_bench import (
    FAR,
    GATEWAY_MAC,
    NIC,
    PAGE,
    PAGE_MAP,
    PC_IDS,
    PEER,
    REG_EPOCH,
    REG_FEATURES,
    REG_GATEWAY_IP,
    REG_GATEWAY_MAC_HI,
    REG_GATEWAY_MAC_LO,
    REG_ID,
    REG_IP,
    REG_LAST_ERROR,
    REG_LAST_ERROR_ADDR_HI,
    REG_LAST_ERROR_ADDR_LO,
    REG_LAST_ERROR_IP,
    REG_MAC_HI,
    REG_MAC_LO,
    REG_NETMASK,
    REG_READ_TIMEOUT_US,
    REG_VERSION,
    REGIONS,
    Bench,
)
from nic_ref import (
    CPLD,
    MRD,
    MWR,
    Peer,
    compact,
    error_report,
    frame,
    ip_text,
    mac_text,
    tlp_completion,
    tlp_request,
)
from scapy.layers.l2 import ARP, Ether

UR, CA = CplStatus.UR, CplStatus.CA
# Behind the last register.
UNUSED = 0x88


async def refused_read(b: Bench, address: int, length: int) -> CplStatus:
    """Read as the CPU does and return the completion's status; it must carry no data."""
    request = Tlp()
    request.fmt_type = TlpType.MEM_READ_64 if address >> 32 else TlpType.MEM_READ
    request.requester_id = 0
    request.set_addr_be(address, length)
    completions = await b.rc.perform_nonposted_operation(request, 400, "us")
    assert len(completions) == 1
    cpl = completions[0]
    assert cpl.fmt_type == TlpType.CPL
    assert cpl.byte_count == length
    assert cpl.lower_address == address & 0x7F
    return cpl.status


@cocotb.test()
async def registers_and_tables_read_back(dut) -> None:
    """Every register and table entry gives back what was written; the rest is refused."""
    b = await Bench(dut).start()
    assert await b.bar0.read_dword(REG_ID) == 0x49504E4D
    assert await b.bar0.read_dword(REG_VERSION) == 0x00020000
    assert await b.bar0.read_dword(REG_FEATURES) == 0x67080812
    assert await b.bar0.read_dword(REG_READ_TIMEOUT_US) == 100
    widths = {
        REG_MAC_LO: 32,
        REG_MAC_HI: 16,
        REG_IP: 32,
        REG_NETMASK: 32,
        REG_GATEWAY_IP: 32,
        REG_GATEWAY_MAC_LO: 32,
        REG_GATEWAY_MAC_HI: 16,
        REG_READ_TIMEOUT_US: 32,
        REG_EPOCH: 8,
    }
    before = await b.counters()
    values = {r: random.getrandbits(32) for r in widths}
    for register, value in values.items():
        await b.bar0.write_dword(register, value)
    for register, value in values.items():
        assert await b.bar0.read_dword(register) == value & (1 << widths[register]) - 1
    # Two DWs at once.
    both = random.randbytes(8)
    await b.bar0.write(REG_GATEWAY_IP, both)
    assert bytes(await b.bar0.read(REG_GATEWAY_IP, 8)) == both
    for base, dws, indices in (
        (PAGE_MAP, 2, (0, 1, 262143, random.randrange(262144))),
        (PC_IDS, 4, (0, 255)),
        (REGIONS, 8, (0, 255)),
    ):
        entries = {i: [random.getrandbits(32) for _ in range(dws)] for i in indices}
        for i, entry in entries.items():
            await b.write_entry(base, i, entry)
        for i, entry in entries.items():
            assert await b.read_entry(base, i, dws) == entry
    # Only an entry's last DW changes it.
    entry = await b.read_entry(PAGE_MAP, 0, 2)
    await b.bar0.write_dword(PAGE_MAP, entry[0] ^ 1)
    assert await b.read_entry(PAGE_MAP, 0, 2) == entry
    assert await b.changed(before) == {}
    # Refused: read-only, unknown, behind a table, byte enables.
    for address in (REG_ID, UNUSED, 0x1060, 0x20B4, PC_IDS + 16 * 256, REGIONS + 32 * 256):
        await b.bar0.write_dword(address, 1)
    for address in (UNUSED, 0x1060, 0x20B4, PC_IDS + 16 * 256, REGIONS + 32 * 256):
        assert await b.bar0.read_dword(address) == 0
    await b.bar0.write(REG_NETMASK, b"\x55")
    assert await b.bar0.read_dword(REG_NETMASK) == values[REG_NETMASK]
    assert await b.changed(before) == {"register_refused": 12}


@cocotb.test()
async def stores_become_frames(dut) -> None:
    """CPU stores of every size and alignment leave as the right frames, in order."""
    b = await Bench(dut).start()
    await b.bar0.write_dword(REG_EPOCH, 0x5A)
    await b.set_peer(1, PEER, compact=True, port=40001)
    await b.set_peer(2, PEER, compact=False, port=40002)
    pages = {}
    for page, pc_id, key, offset, tag in (
        (3, 1, 7, 0x2345000, 0x123),
        (262143, 1, 4095, 0xFFFF000, 0),
        (5, 2, 0xFFFF, 0xFFFFF000, 0xFFF),
        (6, 1, 4096, 0, 1),  # no compact form: key too large
        (7, 1, 1, 0x10000000, 2),  # no compact form: offset too large
    ):
        await b.map_page(page, pc_id, key, offset, tag)
        pages[page] = (pc_id, key, offset, tag)
    before = await b.counters()
    sequence = {1: 0, 2: 0}
    count = 0
    for size in [1, 2, 3, 4, 5, 8, 12, 63, 64, *(random.randint(1, 64) for _ in range(40))]:
        page = random.choice(list(pages))
        pc_id, key, offset, tag = pages[page]
        at = random.randrange(PAGE - size + 1)
        data = random.randbytes(size)
        await b.bar2.write(page * PAGE + at, data)
        m = await b.receive()
        count += 1
        first, last = at & ~3, at + size - 1
        dws = (last - first) // 4 + 1
        assert m.format == ("compact" if pc_id == 1 and page not in (6, 7) else "tlp")
        assert (m.fmt_type, m.length, m.key, m.offset) == (MWR, dws, key, offset + first)
        assert m.sequenced and m.sequence == sequence[pc_id]
        sequence[pc_id] += 1
        assert m.epoch == (0x5A if m.format == "tlp" else 0)
        assert m.tag == tag and m.sport == 40000 + pc_id
        # Byte enables and data: exactly the bytes written.
        enables = [m.first_be] + [0xF] * (dws - 2) + ([m.last_be] if dws > 1 else [])
        written = {
            first + 4 * i + k: m.data[4 * i + k]
            for i, be in enumerate(enables)
            for k in range(4)
            if be >> k & 1
        }
        assert written == {at + i: byte for i, byte in enumerate(data)}
    await b.nothing_more()
    assert await b.changed(before) == {"tlp_store": count, "tx_store": count}


@cocotb.test()
async def another_subnet_goes_to_the_gateway(dut) -> None:
    """A peer behind the gateway gets the gateway's MAC; a table change holds for the next store."""
    b = await Bench(dut).start()
    await b.set_peer(1, FAR, compact=True)
    await b.map_page(0, 1, 1, 0)
    await b.bar2.write(0, b"abcd")
    m = await b.receive(Peer(GATEWAY_MAC, FAR.ip))
    assert m.data == b"abcd"
    # Posted writes back to back: the store behind the change sees it.
    await b.set_peer(1, PEER, compact=True)
    await b.bar2.write(0, b"efgh")
    assert (await b.receive()).data == b"efgh"
    await b.map_page(0, 1, 1, 0x5000)
    await b.bar2.write(8, b"ijkl")
    m = await b.receive()
    assert (m.offset, m.data) == (0x5008, b"ijkl")
    await b.nothing_more()


@cocotb.test()
async def frames_become_dma_writes(dut) -> None:
    """Stores from the network land in the region's memory, byte by byte."""
    b = await Bench(dut).start()
    base, mem = b.rc.alloc_region(2 * PAGE)
    await b.set_region(9, base, 2 * PAGE - 1, ip=PEER.ip, mask=0xFFFFFFFF, rights="w", tag=0xABC)
    before = await b.counters()
    expected = bytearray(2 * PAGE)
    count = 0
    for i in range(40):
        dws = random.choice([1, 2, random.randint(1, 64), 64])
        at = random.randrange(PAGE // 4 - dws + 1) * 4 + random.randrange(2) * PAGE
        data = random.randbytes(4 * dws)
        skip, trail = random.randrange(4), random.randrange(4)
        if dws == 1 and skip + trail > 3:
            trail = 0
        if i % 2:
            payload = compact(9, at, data, i, skip, trail, tag=0xABC)
        else:
            first, last = 0xF << skip & 0xF, 0xF >> trail
            if dws == 1:
                first, last = first & last, 0
            payload = tlp_request(
                MWR, 9, at, data, first_be=first, last_be=last, sequence=i, tag=0xABC
            )
        # The highest quarter of the source ports belongs to sessions.
        await b.send(frame(payload, PEER, NIC, sport=random.randrange(0xC000)))
        expected[at + skip : at + 4 * dws - trail] = data[skip : 4 * dws - trail]
        count += 1
    await ClockCycles(dut.clk_net_i, 100)
    await b.source.wait()
    await b.settle(200)
    await ClockCycles(dut.clk_pcie_i, 500)
    assert bytes(mem[: 2 * PAGE]) == bytes(expected)
    assert await b.changed(before) == {"rx_frames": count, "rx_store": count, "dma_write": count}


@cocotb.test()
async def loads_from_the_network_are_served(dut) -> None:
    """A load frame becomes a DMA read, its completions become frames to the asker."""
    b = await Bench(dut).start()
    base, mem = b.rc.alloc_region(PAGE)
    mem[:PAGE] = random.randbytes(PAGE)
    await b.set_region(0, base, PAGE - 1, rights="r")
    before = await b.counters()
    frames = 0
    b.rc.split_on_all_rcb = True
    for _ in range(20):
        dws = random.choice([1, 2, random.randint(1, 64), 64])
        at = random.randrange(PAGE // 4 - dws + 1) * 4
        net_tag = random.getrandbits(8)
        await b.send(frame(tlp_request(MRD, 0, at, length=dws, net_tag=net_tag), PEER, NIC))
        left, got = 4 * dws, b""
        while left:
            m = await b.receive()
            frames += 1
            assert (m.format, m.fmt_type, m.status, m.net_tag) == ("tlp", CPLD, 0, net_tag)
            assert not m.sequenced and m.tag == 0 and m.sport == 3422
            assert m.byte_count == left
            assert m.lower_address == (base + at + len(got)) & 0x7F
            got += m.data
            left -= len(m.data)
        assert got == bytes(mem[at : at + 4 * dws])
    await b.nothing_more()
    assert await b.changed(before) == {
        "rx_frames": 20,
        "rx_load": 20,
        "dma_read": 20,
        "tlp_completion": frames,
        "tx_completion": frames,
    }


@cocotb.test()
async def a_read_behind_a_revocation_is_a_fence(dut) -> None:
    """Once a register is read behind the end of a region, no store to the region comes any more."""
    b = await Bench(dut).start()
    base, _ = b.rc.alloc_region(PAGE)
    frame_ns = 2400 if b.gigabit else 260
    landed = 0
    for _ in range(30):
        await b.set_region(3, base, PAGE - 1)
        assert await b.bar0.read_dword(REG_ID) == 0x49504E4D
        b.device.sink.pause = random.choice([0, 0.5, 0.9])
        # Loads that take all tags, and one that waits for a tag in front of the stores.
        loads = random.choice([0, 0, 9])
        b.device.withhold = loads != 0
        for _ in range(loads):
            await b.send(frame(tlp_request(MRD, 3, 0, length=1), PEER, NIC))
        stores = random.randint(1, 5)
        for i in range(stores):
            await b.send(frame(compact(3, 0, random.randbytes(256), i), PEER, NIC))
        await Timer(random.randrange(1, frame_ns * (stores + loads)), "ns")
        await b.bar0.write_dword(REGIONS + 32 * 3 + 28, 0)
        read = cocotb.start_soon(b.bar0.read_dword(REG_ID))
        await Timer(random.randrange(1, 4000), "ns")
        await b.device.release()
        assert await read == 0x49504E4D
        await b.source.wait()
        await b.settle(200)
        b.sink.clear()
        kinds = [tlp[0] for tlp in b.device.sent]
        b.device.sent.clear()
        last_answer = len(kinds) - 1 - kinds[::-1].index(CPLD)
        writes = [at for at, kind in enumerate(kinds) if kind | 0x20 == MWR]
        assert not writes or writes[-1] < last_answer
        landed += len(writes)
    assert landed > 20


@cocotb.test()
async def cpu_loads_are_answered(dut) -> None:
    """A CPU load becomes a load frame; the completion reaches the CPU, in one or several parts."""
    b = await Bench(dut).start()
    await b.set_peer(1, PEER, compact=True, port=5000)
    await b.map_page(2, 1, 3, 0x7000, tag=0x111)
    before = await b.counters()
    parts = 0
    for i in range(20):
        size = random.choice([1, 4, 8, 64, random.randint(1, 64)])
        at = random.randrange(PAGE - size + 1)
        data = random.randbytes(size)
        read = cocotb.start_soon(b.bar2.read(2 * PAGE + at, size))
        left, sent = size, 0
        # The root complex may cut a read at its own borders: answer all that come.
        while left:
            m = await b.receive()
            assert (m.format, m.fmt_type, m.key, m.tag) == ("tlp", MRD, 3, 0x111)
            assert m.sequenced and m.sequence == i or left != size
            skip = (m.first_be & -m.first_be).bit_length() - 1
            end_be = m.first_be if m.length == 1 else m.last_be
            trail = 4 - end_be.bit_length()
            want = 4 * m.length - skip - trail
            address = m.offset + skip
            assert address == 0x7000 + at + sent
            dws = bytes(skip) + data[sent : sent + want] + bytes(trail)
            # One completion, or two cut at a 64-byte border.
            cut = 64 - (m.offset & 63)
            pieces = [dws] if cut >= len(dws) else [dws[:cut], dws[cut:]]
            remaining = want
            lower = address & 0x7F
            for piece in pieces:
                await b.send(
                    frame(tlp_completion(m.net_tag, 0, remaining, lower, piece), PEER, NIC)
                )
                remaining -= len(piece) - (lower & 3)
                lower = (lower + len(piece) - (lower & 3)) & 0x7F
                parts += 1
            sent += want
            left -= want
        assert bytes(await read) == data
    await b.nothing_more()
    delta = await b.changed(before)
    loads = delta["tlp_load"]
    assert delta == {
        "tlp_load": loads,
        "tx_load": loads,
        "rx_frames": parts,
        "rx_completion": parts,
        "load_completed": loads,
    }


@cocotb.test()
async def refused_operations_are_reported(dut) -> None:
    """What a region does not permit changes nothing and comes back as an error packet."""
    b = await Bench(dut).start()
    base, mem = b.rc.alloc_region(PAGE)
    await b.set_region(1, base, PAGE - 1, rights="w", ip=PEER.ip, mask=0xFFFFFFFF)
    await b.set_region(2, base, 0x0FF, first=0x80, rights="r", ip=PEER.ip, mask=0xFFFFFFFF)
    await b.set_region(3, base, PAGE - 1, ip=PEER.ip ^ 1, mask=0xFFFFFFFF)
    await b.set_region(4, base, PAGE - 1, valid=False)
    await b.set_region(5, base, 4 * PAGE - 1)
    data = random.randbytes(8)
    cases = [
        # payload, code, counter, fmt/type, key, offset, DWs
        (compact(4, 8, data, 7), 1, "rx_bad_key", MWR, 4, 8, 2, 7),
        (compact(4095, 8, data, 8), 1, "rx_bad_key", MWR, 4095, 8, 2, 8),
        (tlp_request(MWR, 3, 8, data, sequence=9), 2, "rx_bad_source", MWR, 3, 8, 2, 9),
        (compact(2, 0x80, data, 10), 3, "rx_bad_rights", MWR, 2, 0x80, 2, 10),
        (compact(1, PAGE - 4, data, 11), 4, "rx_bad_bounds", MWR, 1, PAGE - 4, 2, 11),
        (compact(5, PAGE - 4, data, 12), 4, "rx_bad_bounds", MWR, 5, PAGE - 4, 2, 12),
        (tlp_request(MRD, 1, 0, length=3, net_tag=77), 3, "rx_bad_rights", MRD, 1, 0, 3, 0),
        (tlp_request(MRD, 2, 0x7C, length=1, net_tag=78), 4, "rx_bad_bounds", MRD, 2, 0x7C, 1, 0),
        (tlp_request(MRD, 2, 0xFC, length=2, net_tag=79), 4, "rx_bad_bounds", MRD, 2, 0xFC, 2, 0),
    ]
    for payload, code, counter, op, key, offset, dws, sequence in cases:
        before = await b.counters()
        await b.send(frame(payload, PEER, NIC))
        delta = {"rx_frames": 1, counter: 1, "tx_error": 1}
        if op == MRD:
            m = await b.receive()
            assert (m.fmt_type, m.status, m.length) == (CPLD, 0, dws)
            assert m.data == bytes(4 * dws)
            assert (m.byte_count, m.lower_address) == (4 * dws, offset & 0x7F)
            assert m.net_tag == payload[14]
            delta["tx_completion"] = 1
        m = await b.receive()
        assert m.error == (code, op, sequence, 0, dws, key << 32 | offset)
        assert not m.sequenced and m.tag == 0
        await b.nothing_more()
        assert await b.changed(before) == delta
    # Wrong end code (or tag): no report.
    before = await b.counters()
    await b.send(frame(compact(1, 0, data, tag=1), PEER, NIC))
    await b.nothing_more()
    assert await b.changed(before) == {"rx_frames": 1, "rx_bad_end_code": 1}
    assert bytes(mem[:PAGE]) == bytes(PAGE)
    # Revoked: the next frame is refused.
    await b.send(frame(compact(1, 0, data), PEER, NIC))
    await b.nothing_more()
    await b.set_region(1, base, PAGE - 1, valid=False)
    await b.bar0.read_dword(REG_ID)
    await b.send(frame(compact(1, 0, bytes(8)), PEER, NIC))
    assert (await b.receive()).error[0] == 1
    await b.nothing_more()
    assert bytes(mem[:8]) == data


@cocotb.test()
async def error_reports_are_kept(dut) -> None:
    """The last error report can be read from the registers."""
    b = await Bench(dut).start()
    assert await b.bar0.read_dword(REG_LAST_ERROR) == 0
    before = await b.counters()
    address = 0x0000_0007_1234_5678
    await b.send(frame(error_report(3, MWR, 0x1234, 2, address), PEER, NIC))
    await b.nothing_more()
    assert await b.bar0.read_dword(REG_LAST_ERROR) == 0x1234_60_03
    assert await b.bar0.read_dword(REG_LAST_ERROR_ADDR_LO) == 0x12345678
    assert await b.bar0.read_dword(REG_LAST_ERROR_ADDR_HI) == 7
    assert await b.bar0.read_dword(REG_LAST_ERROR_IP) == PEER.ip
    assert await b.changed(before) == {"rx_frames": 1, "rx_error_report": 1}


@cocotb.test()
async def arp_requests_are_answered(dut) -> None:
    """Who has the NIC's address? Others' addresses are not our business."""
    b = await Bench(dut).start()
    before = await b.counters()
    for target in (NIC.ip, NIC.ip + 5, NIC.ip):
        ask = Ether(src=mac_text(PEER.mac), dst="ff:ff:ff:ff:ff:ff") / ARP(
            op=1, hwsrc=mac_text(PEER.mac), psrc=ip_text(PEER.ip), pdst=ip_text(target)
        )
        await b.send(bytes(ask).ljust(60, b"\0"))
        if target == NIC.ip:
            raw = await b.receive_raw()
            reply = Ether(raw)
            assert (reply.src, reply.dst) == (mac_text(NIC.mac), mac_text(PEER.mac))
            assert (reply[ARP].op, reply[ARP].psrc) == (2, ip_text(NIC.ip))
            assert (reply[ARP].hwsrc, reply[ARP].hwdst) == (mac_text(NIC.mac), mac_text(PEER.mac))
            assert reply[ARP].pdst == ip_text(PEER.ip)
            assert len(raw) == 60
    await b.nothing_more()
    assert await b.changed(before) == {"rx_frames": 3, "rx_arp": 3, "tx_arp": 2}


@cocotb.test()
async def unmapped_pages_and_odd_tlps_are_refused(dut) -> None:
    """Unmapped pages, PC IDs without entry, requests the NIC does not take: counted, UR."""
    b = await Bench(dut).start()
    bar2 = b.bar2.get_absolute_address(0)
    bar0 = b.bar0.get_absolute_address(0)
    await b.set_peer(1, PEER, compact=True, valid=False)
    await b.map_page(1, 1, 0, 0)  # not valid
    await b.map_page(2, 256, 0, 0)  # beyond the table
    before = await b.counters()
    for page in (0, 1, 2):
        await b.bar2.write(page * PAGE, b"none")
        assert await refused_read(b, bar2 + page * PAGE + 5, 3) == UR
    await b.nothing_more()
    assert await b.changed(before) == {"tlp_store_unmapped": 3, "tlp_load_unmapped": 3}
    before = await b.counters()
    assert await refused_read(b, bar0, 16) == UR
    assert await refused_read(b, bar2 + 64, 260) == UR
    await b.bar0.write(0x10, bytes(12))
    assert await b.changed(before) == {"tlp_unsupported": 3}
    before = await b.counters()
    poisoned = Tlp()
    poisoned.fmt_type = TlpType.MEM_WRITE_64
    poisoned.requester_id = 0
    poisoned.ep = True
    poisoned.set_addr_be_data(bar2, b"data")
    await b.device.source.send(poisoned.pack(), 2)
    whole = Tlp()
    whole.fmt_type = TlpType.MEM_WRITE_64
    whole.requester_id = 0
    whole.set_addr_be_data(bar2, bytes(16))
    await b.device.source.send(whole.pack()[:-4], 2)  # shorter than its header says
    await b.device.source.send(whole.pack() + bytes(8), 2)  # longer
    await b.settle()
    assert await b.changed(before) == {"tlp_poisoned": 1, "tlp_malformed": 2}
    # It still works.
    await b.set_peer(1, PEER, compact=True)
    await b.bar2.write(PAGE, b"alive...")
    assert (await b.receive()).data == b"alive..."
    await b.nothing_more()


def odd_request(fmt_type: int, tag: int, address: int, length: int, enables: int) -> bytes:
    """A request of the CPU with a traffic class, both attributes and a digest, whatever it is."""
    head = struct.pack(">BBHHBB", fmt_type, 5 << 4, 0xB000 | length, 0x0123, tag, enables)
    # The NIC reads the offset in the BAR alone.
    wide = fmt_type & 0x20
    head += struct.pack(">Q", address) if wide else struct.pack(">I", address & 0xFFFFFFFF)
    return head + bytes(4 * length if fmt_type & 0x40 else 0) + b"DIGE"


def answer_to(b: Bench, request: bytes, fmt_type: int, status: int, count: int, low: int) -> bytes:
    """Header of its completion, without or with one DW of data."""
    length = 1 if fmt_type & 0x40 else 0
    head = struct.pack(">BBH", fmt_type, 5 << 4, 0x3000 | length)
    head += struct.pack(">HH", int(b.dut.completer_id_i.value), status << 13 | count)
    return head + request[4:7] + bytes([low])


@cocotb.test()
async def every_request_that_wants_an_answer_gets_one(dut) -> None:
    """Locked reads, I/O, configuration, atomic operations: UR; class and attributes come back."""
    b = await Bench(dut).start()
    bar2 = b.bar2.get_absolute_address(0)
    before = await b.counters()
    cases = [
        # fmt/type, DWs, byte enables, completion, byte count, lower address
        (0x01, 1, 0x06, 0x0B, 2, 0x41),
        (0x21, 3, 0x7C, 0x0B, 9, 0x42),
        (0x02, 1, 0x0F, 0x0A, 4, 0),
        (0x42, 1, 0x08, 0x0A, 4, 0),
        (0x04, 1, 0x0F, 0x0A, 4, 0),
        (0x44, 1, 0x0F, 0x0A, 4, 0),
        (0x05, 1, 0x0F, 0x0A, 4, 0),
        (0x45, 1, 0x01, 0x0A, 4, 0),
        (0x4C, 1, 0x00, 0x0A, 4, 0),
        (0x6C, 2, 0x00, 0x0A, 8, 0),
        (0x4D, 2, 0x00, 0x0A, 8, 0),
        (0x6D, 1, 0x00, 0x0A, 4, 0),
        (0x4E, 2, 0x00, 0x0A, 4, 0),
        (0x6E, 8, 0x00, 0x0A, 16, 0),
    ]
    b.device.sent.clear()
    for tag, (fmt_type, length, enables, answer, count, low) in enumerate(cases):
        request = odd_request(fmt_type, tag, bar2 + 0x1040, length, enables)
        await b.device.source.send(request, 2)
        await b.settle()
        want = answer_to(b, request, answer, 1, count, low)
        assert [t.hex() for t in b.device.sent] == [want.hex()], f"{fmt_type:02x}"
        b.device.sent.clear()
    # Messages and what does not exist are dropped.
    for fmt_type in (0x34, 0x74, 0x10, 0x41, 0x0C, 0x4B):
        await b.device.source.send(odd_request(fmt_type, 9, bar2, 1, 0x0F), 2)
    await b.settle()
    assert not b.device.sent
    assert await b.changed(before) == {"tlp_unsupported": len(cases) + 6}


@cocotb.test()
async def a_digest_is_no_data(dut) -> None:
    """Register and page TLPs with a digest are taken without it; their answers have their class."""
    b = await Bench(dut).start()
    bar0, bar2 = b.bar0.get_absolute_address(0), b.bar2.get_absolute_address(0)
    await b.set_peer(1, PEER, compact=True)
    await b.map_page(0, 1, 0x77, 0)
    b.device.sent.clear()
    for fmt_type in (0x00, 0x20):
        request = odd_request(fmt_type, 7, bar0 + REG_ID, 1, 0x0F)
        await b.device.source.send(request, 0)
        await b.settle()
        want = answer_to(b, request, 0x4A, 0, 4, REG_ID) + struct.pack("<I", 0x49504E4D)
        assert [t.hex() for t in b.device.sent] == [want.hex()]
        b.device.sent.clear()
        # A load, in a beat less or more.
        request = odd_request(fmt_type, 8, bar2 + 0x44, 1, 0x0F)
        await b.device.source.send(request, 2)
        m = await b.receive()
        assert (m.fmt_type, m.length) == (MRD, 1)
        await b.send(frame(tlp_completion(m.net_tag, 0, 4, 0x44, b"abcd"), PEER, NIC))
        await b.settle()
        want = answer_to(b, request, 0x4A, 0, 4, 0x44) + b"abcd"
        assert [t.hex() for t in b.device.sent] == [want.hex()]
        b.device.sent.clear()
    for fmt_type, length in ((0x40, 1), (0x60, 1), (0x40, 63), (0x40, 64), (0x60, 64)):
        data = random.randbytes(4 * length)
        head = odd_request(fmt_type, 0, bar2, length, 0x0F if length == 1 else 0xFF)
        size = 16 if fmt_type & 0x20 else 12
        await b.device.source.send(head[:size] + data + b"DIGE", 2)
        assert (await b.receive()).data == data
    await b.nothing_more()


@cocotb.test()
async def loads_time_out(dut) -> None:
    """A load that nobody answers ends with CA; an answer that comes too late reaches nobody."""
    b = await Bench(dut).start()
    await b.bar0.write_dword(REG_READ_TIMEOUT_US, 5)
    await b.set_peer(1, PEER, compact=False)
    await b.map_page(0, 1, 0, 0)
    before = await b.counters()
    assert await refused_read(b, b.bar2.get_absolute_address(0x123), 9) == CA
    m = await b.receive()
    await b.send(frame(tlp_completion(m.net_tag, 0, 9, 0x23, bytes(12)), PEER, NIC))
    await b.nothing_more()
    assert await b.changed(before) == {
        "tlp_load": 1,
        "tx_load": 1,
        "load_timeout": 1,
        "rx_frames": 1,
        "rx_completion": 1,
        "load_completion_unexpected": 1,
    }
    # A completion with an error status ends a load at once, with that status.
    read = cocotb.start_soon(refused_read(b, b.bar2.get_absolute_address(0x40), 4))
    m = await b.receive()
    await b.send(frame(tlp_completion(m.net_tag, 4, 4, 0x40), PEER, NIC))
    assert await read == CA
    await b.nothing_more()


@cocotb.test()
async def foreign_and_broken_frames_are_counted(dut) -> None:
    """Each frame that is not for this NIC ends in exactly one counter, and nothing else happens."""
    b = await Bench(dut).start()
    base, mem = b.rc.alloc_region(PAGE)
    await b.set_region(1, base, PAGE - 1)
    good = compact(1, 0, random.randbytes(8))
    raw = bytearray(frame(good, PEER, NIC))
    bad_checksum = raw.copy()
    bad_checksum[24] ^= 1
    cases = {
        "rx_not_mine": frame(good, PEER, Peer(NIC.mac ^ 1, NIC.ip)),
        "rx_not_ipnuma": frame(good, PEER, NIC, dport=3423),
        "rx_bad_ip_checksum": bytes(bad_checksum),
        "rx_bad_magic": frame(b"\x12" + good[1:], PEER, NIC),
        "rx_bad_length": frame(good[:-1], PEER, NIC),
        "rx_bad_tlp": frame(tlp_request(0x61, 1, 0, bytes(4)), PEER, NIC),
    }
    for counter, bad in cases.items():
        before = await b.counters()
        await b.send(bad)
        await b.nothing_more()
        assert await b.changed(before) == {"rx_frames": 1, counter: 1}, counter
    assert bytes(mem[:PAGE]) == bytes(PAGE)


@cocotb.test()
async def both_directions_under_pressure(dut) -> None:
    """Stores out and in at once, with pauses and a slow root complex: all arrive, in order."""
    b = await Bench(dut).start()
    base, mem = b.rc.alloc_region(PAGE)
    await b.set_region(1, base, PAGE - 1)
    await b.set_peer(1, PEER, compact=True)
    await b.map_page(0, 1, 2, 0)
    before = await b.counters()
    b.device.sink.pause = 0.5
    b.device.source.gap = 0.3
    count = 200

    async def out() -> None:
        for i in range(count):
            await b.bar2.write(8 * (i % 512), i.to_bytes(8, "little"))

    async def into() -> None:
        for i in range(count):
            await b.send(frame(compact(1, 8 * (i % 512), i.to_bytes(8, "big")), PEER, NIC))

    async def registers() -> None:
        # Completions and DMA writes share the way to the root complex.
        for _ in range(30):
            assert await b.bar0.read_dword(REG_ID) == 0x49504E4D
            assert await b.bar0.read_dword(UNUSED) == 0

    tasks = [cocotb.start_soon(c()) for c in (out, into, registers)]
    for i in range(count):
        m = await b.receive()
        assert (m.sequence, m.offset) == (i, 8 * (i % 512))
        assert m.data == i.to_bytes(8, "little")
    for task in tasks:
        await task
    await b.source.wait()
    await b.settle(200)
    await ClockCycles(dut.clk_pcie_i, 500)
    assert bytes(mem[: 8 * count]) == b"".join(i.to_bytes(8, "big") for i in range(count))
    assert await b.changed(before) == {
        "tlp_store": count,
        "tx_store": count,
        "rx_frames": count,
        "rx_store": count,
        "dma_write": count,
        "register_refused": 30,
    }


@cocotb.test()
async def a_reset_of_one_side_is_one_of_both(dut) -> None:
    """Nothing from before a reset comes after it, and nothing is out of step."""
    b = await Bench(dut).start()
    base, mem = b.rc.alloc_region(PAGE)
    old, new = b"\xdd" * 64, b"\x11" * 64
    for turn in range(24):
        await b.set_peer(1, PEER, compact=True)
        await b.map_page(0, 1, 2, 0)
        b.device.sink.pause = random.choice([0, 0.8])
        for i in range(random.randint(0, 12)):
            await b.send(frame(compact(5, 0, old, i), PEER, NIC))
        await Timer(random.randrange(1, 3000), "ns")
        # The last one that crossed to the network side: done twice, it would open the region.
        await b.set_region(5, base, PAGE - 1)
        assert await b.bar0.read_dword(REG_ID) == 0x49504E4D
        net_side = turn % 2
        reads = []
        if net_side:
            # What was asked for is answered.
            for _ in range(random.randint(1, 40)):
                await b.bar2.write(8 * random.randrange(500), random.randbytes(64))
            reads = [cocotb.start_soon(b.bar0.read_dword(REG_ID)) for _ in range(4)]
            await Timer(random.randrange(1, 600), "ns")
        reset = dut.rst_net_i if net_side else dut.rst_pcie_i
        clock = dut.clk_net_i if net_side else dut.clk_pcie_i
        await RisingEdge(clock)
        reset.value = 1
        await ClockCycles(clock, random.choice([1, 1, 2, 30]))
        reset.value = 0
        for read in reads:
            assert await with_timeout(read, 400, "us") == 0x49504E4D
        await b.settle(200)
        await b.source.wait()
        await b.settle(200)
        b.sink.clear()
        b.device.sent.clear()
        mem[:64] = bytes(64)
        await b.set_addresses()
        before = await b.counters()
        assert not {"rx_store", "dma_write", "tlp_store", "tx_store"} & set(before), before

        async def store_arrives(shared: bool) -> None:
            assert await b.bar0.read_dword(REG_ID) == 0x49504E4D
            await b.send(frame(compact(5, 0, new), PEER, NIC))
            await b.source.wait()
            await b.settle(200)
            await ClockCycles(dut.clk_pcie_i, 200)
            assert bytes(mem[:64]) == (new if shared else bytes(64))

        await store_arrives(shared=False)
        await b.set_region(5, base, PAGE - 1)
        await store_arrives(shared=True)
        b.sink.clear()
        await b.set_peer(1, PEER, compact=True)
        await b.map_page(0, 1, 2, 0)
        await b.bar2.write(64, new)
        m = await b.receive()
        assert (m.key, m.offset, m.data) == (2, 64, new)


@pytest.mark.parametrize("top", ["ipnuma_nic_10g", "ipnuma_nic_1g"])
def test_ipnuma_nic(top: str) -> None:
    """Run all tests above on one build for each speed."""
    build_and_run(
        top,
        __name__,
        filelists=["rtl/nic/nic.f"],
        sources=["verif/pcie/tlp_rules.sv", "verif/pcie/tlp_rules_ipnuma.sv"],
        build_args=["-Wno-UNUSEDPARAM"],
    )
