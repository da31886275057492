# SPDX-License-Identifier: Apache-2.0
"""Bench of the receiving half: frames in, TLPs and answers out, every line of the verdict table."""

from __future__ import annotations

import random
import struct
from collections import Counter, deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge, Timer
from harness import build_and_run
from rx_bench import (
    LONG,
    NET_COUNTERS,
    PCIE_PS,
    RULES,
    Bench,
    Expectation,
    check_tlps,
    parse_read,
    read_bytes,
    root_completions,
    settle,
)
from rx_frames import (
    random_enables,
    random_frame,
    random_regions,
    random_sessions,
    source_mac,
)
from rx_ref import (
    CA,
    MRD,
    MWR,
    SC,
    UR,
    Addresses,
    Region,
    build,
    compact,
    completion_head,
    judge,
    request_head,
    tlp_payload,
)


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def every_verdict(dut) -> None:
    """Random frames, all lines of the table: counters, DMA writes, answers, reports."""
    bench = Bench(dut)
    await bench.start()
    expected = Expectation()
    want = {n for n in NET_COUNTERS.values() if n.startswith("rx_")} - {"rx_overflow"}
    total = rounds = 0
    # Over GMII a frame takes some ten times as many cycles. A draw may leave a line out.
    least = (3 if bench.gmii else 6) if LONG else (1 if bench.gmii else 3)
    while rounds < least or (not want <= set(+expected.counts) and rounds < 12):
        rounds += 1
        await random_regions(bench)
        await random_sessions(bench)
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
    for index, session in bench.me.sessions.items():
        assert await bench.expected(index) == session.expected
    assert set(+expected.counts) == want
    check_tlps(bench, expected)
    expected.check(bench)
    assert sum(bench.net.values()) == total == bench.mac_good
    dut._log.info("%d frames: %s", total, dict(expected.counts))


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
    token = 2 * bench.net_ps
    for form, values in samples.items():
        dut._log.info("%s: %d..%d ps", form, min(values), max(values))
        for value in values:
            assert token + 3 * PCIE_PS < value <= token + 4 * PCIE_PS, f"{form}: {value} ps"


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def latency_phase_a(dut) -> None:
    """Token two network cycles after the last word, then 8 to 12 ns."""
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
        first_be, last_be = random_enables(rand, 1)
        if length > 1:
            first_be, last_be = 15, 15 >> rand.randrange(4)
        if length == 1:
            last_be = 0
        offset = 4 * rand.randrange(1024 - length) + (rand.randrange(8) << 12)
        head = request_head(MRD, length, number & 0xFF, last_be, first_be, 1, offset)
        to = Addresses(bench.me.mac, bench.me.ip, src_mac=source_mac(rand))
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
            await Timer(1, "us")
            # No tag of theirs is used again until its completion came or it is too old for one.
            before = len(bench.tlps)
            if len(missing) == 8 or rand.random() < 0.5:
                for number in missing:
                    bench.to_root.append(root_completions(bench, bench.tlps[number][0])[-1])
                    counts["tlp_completion_unexpected"] += 1
            else:
                now = (now + 255 * 100 - 1) & 0xFFFFFFFF
                dut.now_us_i.value = now
                await Timer(1, "us")
                assert len(bench.tlps) == before, "a tag that timed out was used again"
                now = (now + 1) & 0xFFFFFFFF
                dut.now_us_i.value = now
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


def random_load(rand: random.Random) -> dict[str, int]:
    """Load of the CPU, and how many DWs it is long."""
    length = rand.randint(1, 64)
    first_be, last_be = rand.randrange(length > 1, 16), rand.randrange(1, 16)
    count, skip = read_bytes(length, first_be, last_be)
    return {
        "requester_id": rand.randrange(1 << 16),
        "tag": rand.randrange(256),
        "tc": rand.randrange(8),
        "attr": rand.randrange(4),
        "byte_count": count,
        "lower_address": 4 * rand.randrange(32) + skip,
        "peer_ip": rand.randrange(1, 1 << 31),
        "length": length,
    }


def for_the_cpu(
    bench: Bench, load: dict[str, int], status: int, count: int, lower: int, data: bytes
) -> bytes:
    """TLP with which the CPU gets a completion of its load."""
    head = struct.pack(
        ">BBHHHHBB",
        0x4A if data else 0x0A,
        load["tc"] << 4,
        load["attr"] << 12 | len(data) // 4,
        bench.me.completer_id,
        (status if status in (SC, UR) else CA) << 13 | count,
        load["requester_id"],
        load["tag"],
        lower,
    )
    return head + data


def misfit(
    rand: random.Random, count: int, lower: int, data: bytes, dws: int
) -> tuple[int, int, int, bytes]:
    """Answer with a status, byte count, lower address or data that do not fit a load.

    The others are those of a right answer, and `dws` is what the load still wants.
    """
    pick = rand.randrange(7)
    short = [n for n in range(1, dws) if ((lower >> 2) + n) % 16]
    if pick == 5 and short:
        # It stops where no completion may.
        return SC, count, lower, rand.randbytes(4 * rand.choice(short))
    if pick == 0:
        return SC, 4095, lower, rand.randbytes(256)
    if pick == 1:
        return SC, count + rand.choice([-1, 1, 4, 256]) & 0xFFF, lower, data
    if pick == 2:
        return SC, count, lower ^ 1 << rand.randrange(7), data
    if pick == 3:
        return SC, count, lower, b""
    if pick == 4 and dws < 64:
        return SC, count, lower, rand.randbytes(4 * rand.randint(dws + 1, 64))
    return rand.randrange(1, 8), count, lower, data


@cocotb.test(timeout_time=3, timeout_unit="ms")
async def completions_reach_the_cpu(dut) -> None:
    """Loads of the CPU: good, split, failed, wrong tag, wrong sender, misfits, late, missing."""
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

    def reply(tag: int, ip: int, parts: list[tuple[int, int, int, bytes]]) -> None:
        for status, count, lower, data in parts:
            head = completion_head(bool(data), len(data) // 4, status, count, tag, lower)
            to = Addresses(bench.me.mac, bench.me.ip, src_ip=ip)
            bench.send(build(tlp_payload(head, data, 0, 0, 0, 0), to), gap=rand.choice([2, 9]))

    rounds = 0
    least = 60 if LONG or not bench.gmii else 20
    while rounds < least or not (counts["load_timeout"] and counts["load_completed"]):
        rounds += 1
        assert rounds < 200, counts
        for _ in range(rand.randint(1, 6)):
            if len(out) == 32:
                break
            load = random_load(rand)
            tag = await bench.alloc(load)
            index = min(i for i in range(32) if i not in {t & 31 for t in out})
            assert tag == generations[index] << 5 | index
            out[tag] = load
        for tag in rand.sample(sorted(out), rand.randint(0, len(out))):
            load = out[tag]
            pick = rand.random()
            total = 4 * load["length"]
            data = rand.randbytes(total)
            skip = load["lower_address"] & 3
            parts = [(SC, load["byte_count"], load["lower_address"], data)]
            if pick < 0.1:
                reply(tag, load["peer_ip"] ^ 1, parts)
                counts["load_completion_unexpected"] += 1
                continue
            if pick < 0.2:
                reply(tag ^ 0x20, load["peer_ip"], parts)
                counts["load_completion_unexpected"] += 1
                continue
            if pick < 0.4:
                # Of a failure only that it is one is believed.
                status, lie = rand.randrange(1, 8), rand.randrange(1 << 12)
                parts = [(status, lie, rand.randrange(128), b"")]
            elif total > 8 and pick < 0.7:
                # Where a root complex may cut.
                begin = load["lower_address"] - skip
                cuts = [c for c in range(4, total, 4) if (begin + c) % 64 == 0]
                cut = rand.choice(cuts) if cuts else total
                if cut < total and load["byte_count"] > cut - skip:
                    parts = [
                        (SC, load["byte_count"], load["lower_address"], data[:cut]),
                        (
                            SC,
                            load["byte_count"] - cut + skip,
                            (load["lower_address"] - skip + cut) & 0x7F,
                            data[cut:],
                        ),
                    ]
            left, lower, dws = load["byte_count"], load["lower_address"], load["length"]
            for part in parts:
                status, _, _, body = part
                # What does not fit leaves the load as it was, for its answer or its time-out.
                for _ in range(rand.choice([0, 0, 1, 3])):
                    lie = misfit(rand, left, lower, body or data, dws)
                    reply(tag, load["peer_ip"], [lie])
                    counts["load_completion_unexpected"] += 1
                reply(tag, load["peer_ip"], [part])
                expected.append(for_the_cpu(bench, load, status, left, lower, body))
                left -= len(body) - (lower & 3)
                lower = (lower & 0x7C) + len(body) & 0x7F
                dws -= len(body) // 4
            counts["load_completed"] += 1
            # A second answer is one too many.
            reply(tag, load["peer_ip"], [(SC, 4, 0, b"late")])
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
                    (load["attr"], 2),
                    (0, 1),  # not of a locked read
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
        sources=[*RULES, "verif/ipnuma_rx/tb_ipnuma_rx.sv"],
        parameters={"Gmii": gmii},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
