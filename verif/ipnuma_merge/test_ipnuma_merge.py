# SPDX-License-Identifier: Apache-2.0
"""Bench of the requester: stores that are sent together, flush marks, loads that are sent again."""

from __future__ import annotations

import random
import struct
from collections import deque

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from harness import build_and_run
from merge_bench import (
    CA,
    PCIE_PS,
    Bench,
    Request,
    bytes_of,
    groups,
    random_store,
    same,
    spoil,
)


@cocotb.test()
async def waiting_stores_are_sent_together(dut) -> None:
    """All stores wait before the first frame starts: the frames are those that the rules allow."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    slots = int(dut.Slots.value)
    largest = 0
    for round_ in range(1000):
        # Large groups are rare: go on until one was seen.
        if round_ >= 80 and largest > 3:
            break
        dut.merge_i.value = int(round_ % 5 != 4)
        bench.hold = True
        bench.frames.clear()
        bench.items.clear()
        bench.merged = 0
        requests: list[Request] = []
        at = None
        for _ in range(random.randint(1, slots)):
            request = random_store(at)
            if bench.pages[request.page][0] in (0, 4):
                request.page = 0
            if random.random() < 0.1:
                await bench.send(spoil(random_store(at)), gap=random.choice((0, 0.3)))
            await bench.send(request, gap=random.choice((0, 0, 0.3)))
            requests.append(request)
            at = (request.page, request.offset + 4 * request.dws)
        # One group is built up in the slots, one slot a cycle.
        for _ in range(slots + 8):
            await RisingEdge(dut.clk_net_i)
        bench.hold = False
        await bench.idle()
        expected = groups(requests) if round_ % 5 != 4 else [[r] for r in requests]
        same(bench.items, bytes_of(bench, requests))
        assert bench.frames[0].fields["data_dw"] == sum(r.dws for r in expected[0])
        # Groups behind the first may start before their last slot was joined: never the other way.
        assert len(bench.frames) >= len(expected)
        assert bench.merged == len(requests) - len(bench.frames)
        if round_ % 5 == 4:
            assert len(bench.frames) == len(requests)
        largest = max(largest, *(len(g) for g in expected))
    assert largest > 3


@cocotb.test()
async def no_byte_is_lost_or_moved(dut) -> None:
    """Long random streams, the reader at every pace: the bytes come as they were written."""
    joined = 0
    for stall in (0.0, 0.9, 0.98):
        bench = Bench(dut, offset=random.randrange(6400))
        await bench.start()
        await bench.tables()
        bench.stall = stall
        dut.merge_i.value = 1
        requests: list[Request] = []
        at = None
        for _ in range(250):
            if random.random() < 0.05:
                bench.stall = random.choice((0.0, stall, 1.0))
                if bench.stall == 1.0:
                    bench.stall = 0.995
            if random.random() < 0.06:
                await bench.send(spoil(random_store(at)), gap=random.choice((0, 0.3)))
            if random.random() < 0.03:
                await bench.settings()
            request = random_store(at)
            await bench.send(request, gap=random.choice((0, 0, 0.2)))
            requests.append(request)
            at = (request.page, request.offset + 4 * request.dws)
        bench.stall = 0.0
        await bench.idle()
        same(bench.items, bytes_of(bench, requests))
        sent = [r for r in requests if bench.pages[r.page][0] not in (0, 4)]
        assert bench.merged == len(sent) - len(bench.frames)
        assert bench.counters["store"] == len(sent)
        assert bench.counters["store_unmapped"] == len(requests) - len(sent)
        joined += bench.merged
        bench.stop()
    assert joined


@cocotb.test()
async def single_dws_in_a_row(dut) -> None:
    """Single DWs in a row through many turns of the ring: groups of 64 DWs share one place."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    requests = [Request(0, 4 * (7 + i), 1, 15, 0, random.randbytes(4)) for i in range(4 * 64 + 30)]
    bench.hold = True
    for request in requests[: int(dut.Slots.value)]:
        await bench.send(request)
    bench.hold = False
    for request in requests[int(dut.Slots.value) :]:
        bench.stall = random.choice((0.0, 0.9, 0.99))
        await bench.send(request)
    bench.stall = 0.0
    await bench.idle()
    same(bench.items, bytes_of(bench, requests))
    assert bench.merged == len(requests) - len(bench.frames) > 0
    # No frame reaches across the group's end.
    for frame in bench.frames:
        at = frame.written()[0][0] - bench.base(0)
        first = at // 4 - 7
        assert first // 64 == (first + frame.fields["data_dw"] - 1) // 64


@cocotb.test()
async def exactly_64_dws(dut) -> None:
    """Groups that fill their place, from each position, malformed TLPs behind them."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    for start in (0, 1, 2, 31, 62, 63, 64, 65, 1024 - 65):
        for sizes in (
            (1, 63),
            (63, 1),
            (32, 32),
            (5, 40, 19),
            (64,),
            (2, 1, 61),
            (21, 22, 21),
            (62, 2),
        ):
            bench.hold = True
            bench.items.clear()
            bench.frames.clear()
            requests = []
            at = start
            for number, size in enumerate(sizes):
                # Longer than it says, just before the place is full: must not reach its first DW.
                for extra in (1, 2) if number == len(sizes) - 1 else ():
                    bad = Request(1, 4 * at, size, 15, 15, random.randbytes(4 * size))
                    bad.extra, bad.wide = extra, random.random() < 0.5
                    await bench.send(bad)
                requests.append(
                    Request(1, 4 * at, size, 15, 15, random.randbytes(4 * size), wide=at % 3 == 0)
                )
                # Behind the last DW of the place, a digest must not reach its first one, either.
                requests[-1].digest = (start + number) % 2 == 1
                await bench.send(requests[-1])
                at += size
            for extra in (1, 2):
                bad = Request(1, 4 * at, 1, 15, 0, random.randbytes(4), extra=extra)
                bad.wide = random.random() < 0.5
                await bench.send(bad)
            bad = Request(1, 4 * at, 1, 15, 0, random.randbytes(4), digest=True, extra=1)
            await bench.send(bad)
            requests.append(Request(1, 4 * at, 1, 15, 0, random.randbytes(4)))
            await bench.send(requests[-1])
            for _ in range(16):
                await RisingEdge(dut.clk_net_i)
            bench.hold = False
            await bench.idle()
            same(bench.items, bytes_of(bench, requests))
            assert [f.fields["data_dw"] for f in bench.frames] == [64, 1]


@cocotb.test()
async def nothing_reaches_across(dut) -> None:
    """Register write, table change, mark, load, page end, other page: each ends the group."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1

    async def change() -> None:
        await bench.write_page(0, 1, 0x3_0000_1, 0x77)

    async def load() -> None:
        await bench.send(Request(0, 0, 1, 15, 0, tag=9))

    actions = (
        (bench.settings, 2),
        (change, 2),
        (lambda: bench.mark(3, 0x1234), 2),
        (load, 3),
        (lambda: bench.write_peer(1, session=False, compact=True), 2),
    )
    for action, frames in actions:
        await bench.idle_net()
        bench.frames.clear()
        bench.hold = True
        await bench.send(Request(0, 16, 1, 15, 0, random.randbytes(4)))
        await action()
        await bench.send(Request(0, 20, 1, 15, 0, random.randbytes(4)))
        for _ in range(30):
            await RisingEdge(dut.clk_net_i)
        bench.hold = False
        await bench.idle_net()
        total = [f for f in bench.frames if not f.is_load]
        assert [f.fields["data_dw"] for f in total] == [1, 1], action
        assert len(bench.frames) == frames or frames == 2
    # The end of a page, and the same place in another page.
    for second in (Request(1, 0, 1, 15, 0, b"abcd"), Request(4, 24, 1, 15, 0, b"efgh")):
        bench.frames.clear()
        bench.hold = True
        offset = 4092 if second.offset == 0 else 20
        await bench.send(Request(0, offset, 1, 15, 0, random.randbytes(4)))
        await bench.send(second)
        for _ in range(30):
            await RisingEdge(dut.clk_net_i)
        bench.hold = False
        await bench.idle_net()
        assert [f.fields["data_dw"] for f in bench.frames] == [1, 1]


@cocotb.test()
async def a_lone_store_waits_for_nobody(dut) -> None:
    """A store is offered right after the second network edge, merge on or off."""
    # The network side's two edges, or when the look-ups are done.
    looks = (int(dut.PageMapLatency.value), int(dut.PcIdLatency.value))
    net_ps = 8000 if int(dut.Slow.value) else 6400
    # How many edges that is follows from the longest and the shortest period, as in requester_pkg.
    longest, shortest = 4025, net_ps - 5
    page = (looks[0] + 1) * longest - 2 * shortest
    peer = (sum(looks) + 1) * longest - 3 * shortest
    delay = -(-max(page, peer, 0) // longest) * PCIE_PS
    for merge in (0, 1):
        for offset in range(100, 6400, 700):
            bench = Bench(dut, offset=offset)
            await bench.start()
            await bench.tables()
            dut.merge_i.value = merge
            for number in range(6):
                bench.valid_edges.clear()
                bench.taken_beats.clear()
                await bench.send(Request(0, 4 * number, 1, 15, 0, random.randbytes(4)))
                await bench.idle()
                last, offered = bench.taken_beats[0], bench.valid_edges[0]
                # One edge more for the lane of posted requests.
                assert offered - last <= PCIE_PS + 2 * bench.net_ps + delay
                assert bench.frames[-1].time == offered
            bench.stop()


@cocotb.test()
async def marks_keep_their_place(dut) -> None:
    """Marks, stores and dropped stores: each mark comes behind all that was before it."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    expected: list[tuple] = []
    at = None
    for number in range(300):
        bench.stall = random.choice((0.0, 0.5, 0.97))
        if random.random() < 0.3:
            await bench.mark(number % 20, number)
            expected.append(("mark", number % 20, number))
            if random.random() < 0.3:
                await bench.mark(7, 0xFFFF - number)
                expected.append(("mark", 7, 0xFFFF - number))
        request = random_store(at)
        request.wide = False
        await bench.send(request)
        expected += bytes_of(bench, [request])
        at = (request.page, request.offset + 4 * request.dws)
    bench.stall = 0.0
    await bench.idle()
    same(bench.items, expected)


@cocotb.test()
async def drops_take_one_slot(dut) -> None:
    """A pop without a lock drops one store of a group, however large it is."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    dut.merge_i.value = 1
    count = 0
    for _ in range(20):
        bench.hold = True
        size = random.randint(1, int(dut.Slots.value))
        for i in range(size):
            await bench.send(Request(2, 4 * i, 1, 15, 0, random.randbytes(4)))
        count += size
        for _ in range(24):
            await RisingEdge(dut.clk_net_i)
        bench.drop = random.choice((1.0, 0.5))
        bench.hold = False
        await bench.idle()
    in_frames = sum(f.fields["data_dw"] for f in bench.frames)
    assert in_frames + bench.dropped == count
    assert bench.merged == in_frames - len(bench.frames)


@cocotb.test()
async def sessions_go_by_the_table(dut) -> None:
    """The session is that of the PC ID, if its entry says so and there is one."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    for page, session in ((0, None), (1, None), (2, 3), (3, None)):
        bench.frames.clear()
        await bench.send(Request(page, 0, 1, 15, 0, b"abcd"))
        await bench.idle()
        got = bench.frames[0].fields["session"]
        assert got >> 8 == int(session is not None)
        assert session is None or got & 0xFF == session
        assert bench.frames[0].fields["pc_id"] == bench.pages[page][0]


# ---- Loads --------------------------------------------------------------------------------------


class Clockwork:
    """Moves now_us_i on."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.now = random.getrandbits(32)
        dut.now_us_i.value = self.now

    async def wait(self, microseconds: int) -> None:
        for _ in range(microseconds):
            self.now = (self.now + 1) & 0xFFFFFFFF
            self.dut.now_us_i.value = self.now
            for _ in range(60):
                await RisingEdge(self.dut.clk_pcie_i)


def load_of(item: tuple) -> tuple[int, int, int]:
    """Tag, number and address of a load's frame."""
    head = item[1].to_bytes(16, "little")
    return head[6], head[4] << 8 | head[5], int.from_bytes(head[8:], "big")


@cocotb.test()
async def loads_of_sessions_are_sent_again(dut) -> None:
    """At each interval, the same tag and number, until the answer or the time-out; others never."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.load_retry_us_i.value = 30
    dut.read_timeout_us_i.value = 100
    # A session's load.
    await bench.send(Request(2, 0x40, 4, 15, 15, tag=0x51))
    await clock.wait(29)
    assert len(bench.items) == 1
    await clock.wait(3)
    assert len(bench.items) == 2 and bench.items[0] == bench.items[1]
    await clock.wait(31)
    assert len(bench.items) == 3 and bench.items[2] == bench.items[0]
    tag, number, address = load_of(bench.items[0])
    assert address == bench.base(2) + 0x40 and bench.items[0][2] == 0x103
    assert (tag, number) == (0, 0)
    await bench.complete(tag, number, 16, 4, 0x103, base=0x1000, lower=0x40)
    assert len(bench.completions) == 1
    assert bench.completions[0][12:] == struct.pack("<4I", 0x1000, 0x1001, 0x1002, 0x1003)
    assert bench.completions[0][10] == 0x51
    await bench.idle()
    assert bench.counters == {"load": 1, "retry": 2, "completed": 1}
    # A sessionless load is sent once; it ends in a time-out, as a session's without answer.
    bench.items.clear()
    await bench.send(Request(0, 0, 1, 15, 0, tag=0x52))
    await clock.wait(103)
    assert len(bench.items) == 1 and bench.errors == [(CA, 0x52)]
    bench.items.clear()
    await bench.send(Request(2, 0, 1, 15, 0, tag=0x53))
    await clock.wait(103)
    assert len(bench.items) == 4 and bench.errors[-1] == (CA, 0x53)
    await bench.idle()
    assert bench.counters["timeout"] == 2
    # Switched off, and with the page gone in between.
    bench.items.clear()
    dut.load_retry_us_i.value = 0
    await bench.send(Request(2, 0, 1, 15, 0, tag=0x54))
    await clock.wait(60)
    assert len(bench.items) == 1
    dut.load_retry_us_i.value = 30
    await bench.write_page(2, 0, 0, 0)
    await clock.wait(20)
    assert len(bench.items) == 1
    await clock.wait(25)
    assert bench.errors[-1] == (CA, 0x54)


@cocotb.test()
async def a_completion_counts_once(dut) -> None:
    """Parts go on where the last one ended, or are dropped; others are not for it."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.load_retry_us_i.value = 30
    await bench.send(Request(2, 0xA0, 16, 15, 15, tag=0x61))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[0])
    await bench.complete(tag, number, 64, 8, 0x103, base=0, lower=0x20)
    await bench.complete(tag, number, 64, 8, 0x103, base=0, lower=0x20)  # repeated
    await bench.complete(tag, number ^ 1, 32, 8, 0x103, lower=0x40)  # another load's
    await bench.complete(tag, number, 32, 8, 0, lower=0x40)  # outside the session
    await bench.complete(tag, number, 32, 8, 0x105, lower=0x40)  # of another one
    await bench.complete(tag ^ 0x20, number, 32, 8, 0x103, lower=0x40)
    await bench.complete(tag, number, 32, 8, 0x103, lower=0)  # from elsewhere
    await bench.complete(tag, number, 32, 9, 0x103, lower=0x40)  # more than it asked for
    await bench.complete(tag, number, 32, 0, 0x103, lower=0x40)  # no data, and no failure
    await bench.complete(tag, number, 32, 8, 0x103, status=CA, lower=0x40)  # both
    assert len(bench.completions) == 1
    await bench.complete(tag, number, 32, 8, 0x103, base=8, lower=0x40)
    assert len(bench.completions) == 2
    await bench.complete(tag, number, 32, 8, 0x103, base=8, lower=0x40)  # the load is done
    await bench.idle()
    assert bench.counters == {"load": 1, "completed": 1, "repeated": 1, "unexpected": 9}
    data = b"".join(c[12:] for c in bench.completions)
    assert data == struct.pack("<16I", *range(16))
    # The last part alone, its first one lost.
    await bench.send(Request(2, 0x80, 16, 15, 15, tag=0x64))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 32, 8, 0x103, base=8, lower=0x20)
    assert bench.counters["repeated"] == 2
    await bench.complete(tag, number, 64, 16, 0x103)
    await bench.idle()
    assert bench.counters["completed"] == 2
    # The bytes that were asked for count, not whole DWs; nor do those in the middle of an answer.
    await bench.send(Request(2, 0x80, 2, 12, 3, tag=0x65))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 8, 2, 0x103)
    assert bench.counters["repeated"] == 3
    await bench.complete(tag, number, 4, 2, 0x103, lower=2)
    await bench.idle()
    assert bench.counters["completed"] == 3
    await bench.send(Request(2, 0xB8, 4, 12, 15, tag=0x66))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 14, 1, 0x103, lower=0x3A)  # it stops where nobody cuts
    await bench.complete(tag, number, 14, 2, 0x103, lower=0x3A)
    await bench.complete(tag, number, 16, 4, 0x103)
    assert bench.counters["repeated"] == 4
    await bench.complete(tag, number, 8, 2, 0x103, lower=0x40)
    await bench.idle()
    assert bench.counters["completed"] == 4
    # What is sent again asks for what has not come; the answer may be split elsewhere.
    for last_be, rest in ((15, 15), (3, 3), (4, 7)):
        done = bench.counters["completed"]
        bench.completions.clear()
        await bench.send(Request(2, 0xB8, 19, 8, last_be, tag=0x67))
        await clock.wait(2)
        tag, number, address = load_of(bench.items[-1])
        whole = 76 - 3 - (4 - last_be.bit_length())
        await bench.complete(tag, number, whole, 2, 0x103, lower=0x3B, base=1)
        await clock.wait(30)
        assert load_of(bench.items[-1]) == (tag, number, address + 8)
        assert bench.items[-1][1] >> 56 & 0xFF == last_be << 4 | 15
        await bench.complete(tag, number, whole - 5, 16, 0x103, lower=0x40, base=3)
        await clock.wait(31)
        assert load_of(bench.items[-1]) == (tag, number, address + 72)
        assert bench.items[-1][1] >> 24 & 0xFF == 1
        assert bench.items[-1][1] >> 56 & 0xFF == rest
        assert bench.counters["completed"] == done
        await bench.complete(tag, number, whole - 69, 1, 0x103, lower=0, base=19)
        await bench.idle()
        assert bench.counters["completed"] == done + 1
        data = b"".join(c[12:] for c in bench.completions)
        assert data == struct.pack("<19I", *range(1, 20))
    # A failure ends the load whatever was left of it.
    await bench.send(Request(2, 0xA0, 16, 15, 15, tag=0x62))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    await bench.complete(tag, number, 64, 8, 0x103, lower=0x20)
    await bench.complete(tag, number, 64, 0, 0x103, status=CA)
    await bench.idle()
    assert bench.counters["completed"] == 8
    # A sessionless load takes what fits it, in a session or not: nobody looks at the number.
    await bench.send(Request(0, 0xA0, 16, 15, 15, tag=0x63))
    await clock.wait(2)
    tag, number, _ = load_of(bench.items[-1])
    assert number == 0
    await bench.complete(tag, 0x4711, 64, 8, 0, ip=0x0A000001, lower=0x20)
    before = bench.counters["unexpected"]
    await bench.complete(tag, 0, 64, 8, 0, ip=0x0A000001, lower=0x20)  # repeated
    assert bench.counters["unexpected"] == before + 1
    await bench.complete(tag, 0, 32, 8, 0x103, ip=0x0A000001, lower=0x40)
    await bench.idle()
    assert bench.counters["completed"] == 9


@cocotb.test()
async def numbers_go_on_after_eight(dut) -> None:
    """The number beside the tag counts on when the tag's three bits are used up."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    for turn in range(40):
        await bench.send(Request(2, 4 * turn, 1, 15, 0, tag=turn))
        for _ in range(30):
            await RisingEdge(dut.clk_net_i)
        tag, number, _ = load_of(bench.items[-1])
        tags = int(dut.LoadTags.value)
        assert (tag, number) == (turn % 8 * tags, turn // 8)
        if turn >= 8:
            await bench.complete(tag, number - 1, 4, 1, 0x103, base=0xBAD, lower=4 * turn % 128)
        await bench.complete(tag, number, 4, 1, 0x103, base=turn, lower=4 * turn % 128)
    assert [c[12:] for c in bench.completions] == [struct.pack("<I", t) for t in range(40)]
    assert bench.counters["unexpected"] == 32


@cocotb.test()
async def loads_and_stores_at_random(dut) -> None:
    """Loads whose frames and answers get lost or doubled: each answered once, whole."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.merge_i.value = 1
    dut.load_retry_us_i.value = 3
    dut.read_timeout_us_i.value = 2000
    bench.stall = 0.3
    waiting: deque[tuple[int, int, int, int]] = deque()
    seen = 0
    done = False

    async def answer() -> None:
        """Answer loads that were sent, in parts, some never, some twice."""
        nonlocal seen
        while not done:
            await RisingEdge(dut.clk_pcie_i)
            while seen < len(bench.items):
                item = bench.items[seen]
                seen += 1
                if item[0] != "load" or random.random() < 0.4:
                    continue
                waiting.append(item)
                if random.random() < 0.5:
                    waiting.append(item)
            if waiting and random.random() < 0.05:
                item = waiting.popleft()
                tag, number, address = load_of(item)
                dws = item[1] >> 24 & 0xFF
                # The host splits answers as it likes, each time.
                cut = random.randrange(dws)
                base = address >> 2 & 0xFFFFFFFF
                for first, size in ((0, cut), (cut, dws - cut)) if cut else ((0, dws),):
                    if random.random() < 0.8:
                        low = address + 4 * first & 0x7F
                        left, data = 4 * (dws - first), base + first
                        await bench.complete(tag, number, left, size, 0x103, base=data, lower=low)

    task = cocotb.start_soon(answer())
    ticking = cocotb.start_soon(clock.wait(10**9))
    stores: list[Request] = []
    loads: dict[int, Request] = {}
    at = None
    for number in range(150):
        if random.random() < 0.4:
            for _ in range(100000):
                answered = bench.counters.get("completed", 0)
                if len(loads) - answered < int(dut.LoadTags.value):
                    break
                await RisingEdge(dut.clk_pcie_i)
            else:
                raise AssertionError("loads are not answered")
            dws = random.choice((1, 2, 7, 16))
            load = Request(2, 4 * random.randrange(1000), dws, 15, 15, tag=number)
            loads[number] = load
            await bench.send(load)
        else:
            request = random_store(at)
            stores.append(request)
            await bench.send(request)
            at = (request.page, request.offset + 4 * request.dws)
    for _ in range(200000):
        if bench.counters.get("completed", 0) == len(loads):
            break
        await RisingEdge(dut.clk_pcie_i)
    done = True
    await task
    ticking.cancel()
    await bench.idle()
    assert [i for i in bench.items if i[0] == "byte"] == bytes_of(bench, stores)
    got: dict[int, bytes] = {}
    for completion in bench.completions:
        got[completion[10]] = got.get(completion[10], b"") + completion[12:]
    for number, load in loads.items():
        base = (bench.base(2) + load.offset) >> 2 & 0xFFFFFFFF
        assert got[number] == struct.pack(f"<{load.dws}I", *range(base, base + load.dws))
    assert len(got) == len(loads) and bench.counters["retry"] > 10
    assert bench.counters["repeated"] > 3
    assert not bench.errors


@cocotb.test()
async def stores_do_not_starve_a_load(dut) -> None:
    """Slots that are always full: a load is sent again in time all the same."""
    bench = Bench(dut)
    await bench.start()
    await bench.tables()
    clock = Clockwork(dut)
    dut.load_retry_us_i.value = 5
    dut.read_timeout_us_i.value = 1000
    bench.stall = 0.8
    ticking = cocotb.start_soon(clock.wait(10**9))
    await bench.send(Request(2, 0, 1, 15, 0, tag=1))
    begin = clock.now
    at = 0
    stores = []
    while (clock.now - begin) % 2**32 < 60:
        stores.append(Request(0, 4 * at, 1, 15, 0, random.randbytes(4)))
        await bench.send(stores[-1])
        at = (at + 2) % 1024
    ticking.cancel()
    loads = [i for i in bench.items if i[0] == "load"]
    assert 8 <= len(loads) <= 12 and len(set(loads)) == 1
    await bench.idle_net(limit=4000)
    same([i for i in bench.items if i[0] == "byte"], bytes_of(bench, stores))


FILELISTS = ["rtl/ipnuma/ipnuma_tx.f", "rtl/ipnuma/ipnuma_rx.f"]


@pytest.mark.parametrize(("slots", "slow", "latencies"), [(16, 0, (2, 1)), (4, 1, (4, 2))])
def test_ipnuma_merge(slots: int, slow: int, latencies: tuple[int, int]) -> None:
    """All tests: the slots of the NIC, and few of them with slow memories at the 1G clock."""
    build_and_run(
        "tb_ipnuma_merge",
        __name__,
        filelists=FILELISTS,
        sources=["verif/ipnuma_merge/tb_ipnuma_merge.sv"],
        parameters={
            "Slots": slots,
            "Slow": slow,
            "PageMapLatency": latencies[0],
            "PcIdLatency": latencies[1],
        },
        # Packages are used in part here.
        build_args=["-Wno-UNUSEDPARAM"],
    )
