# SPDX-License-Identifier: Apache-2.0
"""Bench of the sender of sessions: `resend` between a builder, a lossy network and its peers."""

from __future__ import annotations

import itertools

import cocotb
import pytest
from harness import build_and_run
from resend_bench import (
    TICK,
    Bench,
    begin,
)
from resend_ref import (
    FLUSH_FAILED,
    FLUSHED,
    MASK32,
    MRD,
    MWR,
    PEER_LOST,
    Operation,
    faster,
    fitting,
    slower,
)


@cocotb.test()
async def delivers_without_loss(dut) -> None:
    """Nothing lost: every frame goes out once, sessions close and open in time."""
    bench = begin(dut)
    bench.gaps = (0, 2)
    await bench.start()
    for session in range(4):
        await bench.open(session)
    for i in range(600):
        bench.operation(bench.rand.randrange(4))
        if i % 50 == 49:
            bench.mark(bench.rand.randrange(4), i)
    await bench.drain()
    bench.check_delivery()
    assert bench.resent == 0 and bench.timeouts == 0
    assert sum(e["code"] == FLUSHED for e in bench.events) == 12 and not bench.marks
    # Nobody touches anything: it sleeps.
    before = [int(dut.now_q.value), int(dut.part_q.value), int(dut.u_pacer.now_q.value)]
    await bench.run(100)
    assert before == [int(dut.now_q.value), int(dut.part_q.value), int(dut.u_pacer.now_q.value)]
    dut._log.info(f"600 frames in {bench.now} cycles")


@cocotb.test()
async def lossy_channel(dut) -> None:
    """Random loss, duplicates, reordering and refusals on some sessions, both directions."""
    bench = begin(dut)
    bench.any_start = True
    bench.any_order = True
    await bench.start(resend_ticks=30, resend_limit=40, pace_max=64, pace_frames=8)
    bench.intervals = (0, 0, 20, 50)
    count = min(8, bench.sessions)
    for session in range(count):
        await bench.open(session)
    cookie = 0
    for loss in (0.01, 0.1, 0.3):
        bench.loss, bench.ack_loss = loss, loss
        bench.twice, bench.reorder = 0.05, loss / 2
        bench.event_rate = bench.rand.choice((1.0, 0.05))
        for _ in range(400):
            session = bench.rand.randrange(count)
            operation = bench.operation(session)
            if bench.rand.random() < 0.05:
                bench.refuse[session, operation.wire_address] = bench.rand.randint(1, 4)
            if bench.rand.random() < 0.05:
                bench.mark(bench.rand.randrange(count), cookie)
                cookie += 1
        await bench.drain()
    bench.check_delivery()
    assert not bench.marks and not bench.lost
    assert bench.resent > 100 and bench.timeouts > 5
    assert sum(1 <= e["code"] <= 4 for e in bench.events) > 20
    dut._log.info(f"{bench.resent} frames again, {bench.timeouts} time-outs, {bench.now} cycles")


@cocotb.test()
async def all_sessions(dut) -> None:
    """Every session at once, more frames than slots, some loss."""
    bench = begin(dut)
    bench.any_order = True
    bench.loss = bench.ack_loss = 0.03
    bench.delay = (400, 500)
    await bench.start(resend_ticks=120, resend_limit=30, pace_max=40)
    for session in range(bench.sessions):
        await bench.open(session)
    full = 0
    for _ in range(6):
        for session in bench.rand.sample(range(bench.sessions), bench.sessions):
            for _ in range(bench.rand.randint(1, 6)):
                bench.operation(session, data_dw=2, is_load=False)
        await bench.run(2000)
        full = max(full, int(dut.u_slots.used_q.value))
    await bench.drain()
    bench.check_delivery()
    dut._log.info(f"at most {full} slots taken, {bench.resent} frames again, {bench.now} cycles")
    assert full >= bench.slots // 2


@cocotb.test()
async def time_outs(dut) -> None:
    """Time-outs come when the register says, double, and end in a lost peer; 3 to 40 us."""
    bench = begin(dut)
    await bench.start(pace_max=0)
    bench.black_out.add(3)
    for ticks in (30, 75, 200, 390):
        limit, backoff = bench.rand.randint(2, 4), bench.rand.randint(0, 3)
        bench.set(resend_ticks=ticks, resend_limit=limit, backoff=backoff)
        await bench.open(3)
        bench.sent.clear()
        bench.events.clear()
        bench.timeouts = 0
        for _ in range(3):
            bench.operation(3, data_dw=1, is_load=False)
        bench.mark(3, ticks)
        end = bench.now + (4 << limit) * ticks * TICK
        while len(bench.events) < 2:
            assert bench.now < end, bench.why()
            await bench.cycle()
        heads = [start for start, _, sequence, _ in bench.sent if sequence == 0]
        assert len(heads) == 1 + limit and bench.timeouts == 1 + limit
        heads.append(bench.events[0]["at"])
        for i, (before, after) in enumerate(zip(heads, heads[1:], strict=False)):
            want = (ticks << min(i, backoff)) * TICK
            assert want <= after - before <= want + 3 * TICK, (ticks, i, after - before)
        lost, failed = bench.events
        assert lost["code"] == PEER_LOST and lost["who"] == 3 and lost["number"] == 0
        assert lost["address"] == 3 << 32
        assert failed["code"] == FLUSH_FAILED and failed["number"] == ticks
        assert int(dut.lost_o.value) >> 3 & 1 and not int(dut.open_o.value) >> 3 & 1
        status = await bench.look(3)
        assert status["lost"] and not status["idle"] and status["nxt"] == 3 and status["una"] == 0
        # Late acknowledgements change nothing; later marks fail at once.
        await say(bench, "ack", {"session": 3, "sequence": 3})
        bench.mark(3, 1)
        await bench.drain()
        assert bench.events[-1]["code"] == FLUSH_FAILED and bench.events[-1]["number"] == 1
        assert (await bench.look(3))["una"] == 0


async def say(bench: Bench, kind: str, values: dict[str, int]) -> None:
    """Hand the design a reply at once."""
    bench.replies.appendleft((kind, (bench.generation[values["session"]], values)))
    bench.reply_gap = 0
    await bench.cycle()


async def acknowledge(bench: Bench, session: int, sequence: int, **more: int) -> None:
    """Hand the design an acknowledgement."""
    await say(bench, "ack", {"session": session, "sequence": sequence & MASK32, **more})


async def send(bench: Bench, session: int, count: int) -> None:
    """Send frames, and do not let them arrive."""
    bench.black_out.add(session)
    for _ in range(count):
        bench.operation(session, data_dw=2, is_load=False)
    while bench.queue or bench.current:
        await bench.cycle()
    await bench.run(12)


@cocotb.test()
async def round_trips(dut) -> None:
    """A time-out has twice the round trip; at first it is long, and each makes the next longer."""
    bench = begin(dut)
    ticks = 32
    await bench.start(pace_max=0, resend_ticks=ticks, resend_limit=200, backoff=0)
    for most, wanted in ((1, {0, 1}), (2, {2}), (4, {0, 1, 2, 3, 4}), (4, set())):
        bench.set(stretch=most)
        await bench.open(3)
        stretch, sequence, seen = most, 0, set()
        # At least so many, and until each stretch came up: a draw may miss one for long.
        for tries in itertools.count(1):
            if tries > 24 and wanted <= seen:
                break
            assert tries < 500, (most, seen)
            trip = bench.rand.choice((6, 20, 48, 100, 200))
            late = bench.rand.random() < 0.3 or trip + 3 > ticks << stretch
            bench.sent.clear()
            # The second frame finds the first in flight: it measures nothing.
            await send(bench, 3, count := bench.rand.randint(1, 2))
            first = bench.sent[0][0]
            while len(bench.sent) == count if late else bench.now < first + trip * TICK:
                await bench.cycle()
            again = [start for start, _, number, _ in bench.sent if number == sequence][1:]
            sequence += count
            if late:
                want = (ticks << stretch) * TICK
                assert want <= again[0] - first <= want + 3 * TICK, (stretch, again[0] - first)
                stretch = min(stretch + 1, most)
            else:
                assert not again
                stretch = fitting(stretch, most, trip, ticks)
            seen.add(stretch)
            # What was sent twice measures nothing: nobody knows which of the two it was.
            await acknowledge(bench, 3, sequence)
            await bench.run(12)
            assert (await bench.look(3))["idle"]


@cocotb.test()
async def numbers_wrap(dut) -> None:
    """Both wraps of the sequence number, long and short acknowledgements, with loss."""
    bench = begin(dut)
    bench.loss = bench.ack_loss = 0.1
    bench.short_acks = 0.5
    await bench.start(resend_ticks=30, resend_limit=40, pace_max=20)
    for session, number in enumerate((0xFFFFFFF0, 0xFFFF, 0x1234FFD0, 0x7FFFFFE0)):
        await bench.open(session, start=number)
    for i in range(500):
        operation = bench.operation(bench.rand.randrange(4), data_dw=1, is_load=False)
        if bench.rand.random() < 0.1:
            bench.refuse[operation.session, operation.wire_address] = 3
        if i % 40 == 39:
            bench.mark(bench.rand.randrange(4), i)
    await bench.drain()
    bench.check_delivery()
    for session in range(4):
        status = await bench.look(session)
        want = bench.first[session] + len(bench.numbers[session]) & MASK32
        assert status["una"] == status["nxt"] == want and status["idle"] and status["open"]


@cocotb.test()
async def strange_acknowledgements(dut) -> None:
    """What is behind una or beyond nxt does nothing and asks for nothing; the right one works."""
    bench = begin(dut)
    # No interval goes by its age: it must be what it was.
    await bench.start(resend_ticks=0xFFFF, pace_ticks=0xFFFF)
    await bench.open(1, start=0xFFFFFFFA)
    await send(bench, 1, 20)
    una, count = 0xFFFFFFFA, 20
    for _ in range(300):
        kind = bench.rand.random()
        offset = bench.rand.choice((0, 1, 2, -1, -2, -3, 50, count + 1, count + 2, 0x8000, 1 << 31))
        sequence = una + offset if bench.rand.random() < 0.8 else bench.rand.getrandbits(32)
        short = kind < 0.4
        nack = not short and kind < 0.6
        distance = sequence - una & (0xFFFF if short else MASK32)
        if distance == 0 and nack:
            continue
        if short:
            sequence = sequence & 0xFFFF | bench.rand.getrandbits(16) << 16
        # What a stranger asks for: an interval, too.
        interval = 0 if short or distance <= count else bench.rand.randrange(1, 1 << 12)
        pace = (await bench.look(1))["pace"]
        await acknowledge(bench, 1, sequence, short=int(short), nack=int(nack), interval=interval)
        await bench.run(40)
        if interval:
            assert (await bench.look(1))["pace"] == pace
        if distance <= count:
            una, count = una + distance & MASK32, count - distance
        status = await bench.look(1)
        assert status["una"] == una and status["nxt"] == una + count & MASK32
        assert int(dut.u_slots.used_q.value) == count
        if count < 4:
            for entry in bench.refuse:
                bench.refuse.pop(entry)
            await send(bench, 1, 20 - count)
            count = 20
    await acknowledge(bench, 1, una + count)
    await bench.run(60)
    assert int(dut.u_slots.used_q.value) == 0
    # The interval behind the last frame may be as long as its 12 bits allow.
    for _ in range(1 << 12):
        if not int(dut.busy_o.value):
            break
        await bench.run(1)
    assert not int(dut.busy_o.value)


@cocotb.test()
async def reports(dut) -> None:
    """Only a report of the session's own frame makes an event and a void, and only one."""
    bench = begin(dut)
    await bench.start(resend_ticks=0xFFFF, pace_max=0)
    await bench.open(2)
    await bench.run(10)

    async def report(operation: Operation, sequence: int, **wrong: int) -> None:
        values = {
            "session": 2,
            "code": 2,
            "op": MRD if operation.is_load else MWR,
            "sequence": sequence,
            "address": operation.wire_address,
        } | wrong
        await say(bench, "refused", values)
        await bench.run(60)

    bench.black_out.add(2)
    una = 0
    for form in ("compact", "tlp", "load") * 3:
        bench.sent.clear()
        bench.events.clear()
        fixed = {"compact": form == "compact", "is_load": form == "load"}
        fixed["data_dw"] = 0 if form == "load" else 3
        # Compact addresses are shorter.
        key, offset = bench.rand.getrandbits(12), bench.rand.getrandbits(26) << 2
        fixed["wire_address"] = key << 32 | offset
        bench.hold.discard("new")
        first = bench.operation(2, **fixed)
        second = bench.operation(2, **fixed)
        bench.operation(2, **fixed)
        await bench.run(120)
        other = first.wire_address ^ 1 << bench.rand.choice((2, 5, 27, 32, 43))
        await report(first, una, address=other)
        await report(first, una, op=MWR if first.is_load else MRD)
        await report(first, una, address=first.wire_address | 1 << 48)
        await report(first, una - 1 & MASK32)
        await report(first, una + 3)
        await report(first, una ^ 1 << 16)
        assert not bench.events and [s[3] for s in bench.sent] == ["new"] * 3
        # The second frame is refused, so the first has arrived.
        bench.peers[2].refused.add(una + 1)
        await report(second, una + 1)
        await report(second, una + 1)
        assert [e["code"] for e in bench.events] == [2]
        assert bench.events[0]["number"] == una + 1 and bench.events[0]["who"] == 2
        assert bench.events[0]["address"] == second.wire_address
        assert [(s[2], s[3]) for s in bench.sent[3:]] == [(una + 1, "void"), (una + 2, "again")]
        status = await bench.look(2)
        assert status["una"] == una + 1 and status["nxt"] == una + 3
        # The void may be lost as well.
        await acknowledge(bench, 2, una + 1, nack=1)
        await bench.run(60)
        assert [(s[2], s[3]) for s in bench.sent[5:]] == [(una + 1, "void"), (una + 2, "again")]
        await acknowledge(bench, 2, una + 3)
        await bench.run(30)
        una += 3
    assert int(dut.u_slots.used_q.value) == 0


@cocotb.test()
async def interval(dut) -> None:
    """The receiver asks for an interval: frames keep it until it asks for another, or is silent."""
    bench = begin(dut)
    bench.gaps = (0, 0)
    ticks = 40
    await bench.start(resend_ticks=0xFFFF, pace_max=200, pace_ticks=0xFFFF)
    bench.black_out |= {0, 1}
    for session in (0, 1):
        await bench.open(session)
    await bench.run(10)

    async def spacing(session: int, count: int) -> list[int]:
        bench.starts[session].clear()
        for _ in range(count):
            bench.operation(session, data_dw=2, is_load=False)
        while bench.queue or bench.current:
            await bench.cycle()
        await bench.run(12)
        starts = bench.starts[session]
        assert len(starts) == count
        return [b - a for a, b in zip(starts, starts[1:], strict=False)]

    def keeps(found: list[int], asked: int) -> bool:
        return all(asked - 2 <= cycles <= max(asked, 12) + 8 for cycles in found)

    # Longer than the pace may be: that is for losses.
    for asked in (100, 30, 300):
        await acknowledge(bench, 0, 0, interval=asked)
        assert (await bench.look(0))["pace"] == asked
        assert keeps(await spacing(0, 4), asked)
        # Others are not held, and an acknowledgement in a data frame says nothing of it.
        assert max(await spacing(1, 3)) <= 12
        await acknowledge(bench, 0, 0, short=1, interval=77)
        assert (await bench.look(0))["pace"] == asked
    # The longer one counts: of that which is asked for, and that which losses demand.
    await acknowledge(bench, 0, 0, nack=1, interval=5)
    assert (await bench.look(0))["pace"] == slower(0, 3, 200)
    await acknowledge(bench, 0, 0, interval=60)
    assert (await bench.look(0))["pace"] == 60
    await acknowledge(bench, 0, 12, interval=0)
    assert (await bench.look(0))["pace"] == slower(0, 3, 200)
    # Silence: after a look at the time that still knows of it, one that does not.
    await spacing(0, 1)
    bench.set(pace_ticks=ticks)
    await acknowledge(bench, 0, 12, interval=90)
    await bench.run(2 * ticks * TICK + 4 * TICK)
    assert (await bench.look(0))["pace"] < 90
    # A sender that is never paced is not paced by others.
    bench.set(pace_max=0)
    await acknowledge(bench, 0, 12, interval=90)
    assert (await bench.look(0))["pace"] < 90
    await acknowledge(bench, 0, 13)
    await acknowledge(bench, 1, 9)
    await bench.run(30)
    assert int(dut.u_slots.used_q.value) == 0


@cocotb.test()
async def pace(dut) -> None:
    """The pace follows losses and their absence; frames keep it, others pass."""
    bench = begin(dut)
    most, frames = 200, 8
    bench.gaps = (0, 0)
    await bench.start(resend_ticks=0xFFFF, pace_max=most, pace_frames=frames, pace_ticks=40)
    bench.black_out |= {0}
    for session in (0, 1):
        await bench.open(session)
    await bench.run(10)
    await send(bench, 0, 20)
    spacing = [b - a for a, b in zip(bench.starts[0], bench.starts[0][1:], strict=False)]
    assert max(spacing) <= 12, "without loss there is no pace"
    want, una = 0, 0
    for i in range(30):
        # The time between is shorter than 40 ticks as long as frames are few.
        bench.starts[0].clear()
        await acknowledge(bench, 0, una, nack=1)
        want = slower(want, 3, most)
        assert (await bench.look(0))["pace"] == want
        start = bench.now
        while len(bench.starts[0]) < 3 and bench.now - start < 620:
            await bench.cycle()
        spacing = [b - a for a, b in zip(bench.starts[0], bench.starts[0][1:], strict=False)]
        assert len(spacing) == 2 and all(want - 2 <= s <= max(want, 12) + 8 for s in spacing)
        if i % 5 == 4:
            await acknowledge(bench, 0, una + 1)
            await bench.run(8)
            una += 1
    assert want == most
    # Time alone makes it faster: 40 ticks a step.
    before = (await bench.look(0))["pace"]
    await bench.run(40 * TICK + 3 * TICK)
    after = (await bench.look(0))["pace"]
    assert after in (faster(before, 6), faster(faster(before, 6), 6))
    # So do acknowledgements, until there is none left.
    bench.set(pace_ticks=0xFFFF)
    await bench.run(4 * TICK)
    await acknowledge(bench, 0, 20)
    await bench.run(40)
    una = 20
    want = (await bench.look(0))["pace"]
    for _ in range(200):
        if want == 0:
            break
        await send(bench, 0, frames)
        await acknowledge(bench, 0, una + frames)
        await bench.run(20)
        una += frames
        want = faster(want, 6)
        assert (await bench.look(0))["pace"] == want
    assert want == 0
    bench.set(pace_max=0)
    await send(bench, 0, 4)
    await acknowledge(bench, 0, una, nack=1)
    await bench.run(20)
    assert (await bench.look(0))["pace"] == 0
    await acknowledge(bench, 0, una + 4)
    await bench.run(20)


@cocotb.test()
async def window(dut) -> None:
    """No more frames in flight than the register says, and not beyond 127; open in 6 cycles."""
    bench = begin(dut)
    bench.gaps = (0, 0)
    await bench.start(resend_ticks=0xFFFF)
    bench.black_out.add(0)
    for value, most in ((1, 1), (0, 1), (2, 2), (17, 17), (120, 120), (200, 127)):
        bench.set(window=value)
        await bench.open(0)
        for _ in range(140):
            bench.operation(0, data_dw=2, is_load=False)
        await bench.run(140 * 12)
        sent = len(bench.numbers[0])
        assert sent == min(most, bench.slots)
        # One acknowledged, one sent, soon.
        bench.starts[0].clear()
        at = bench.now
        await acknowledge(bench, 0, 1)
        await bench.run(12)
        assert len(bench.starts[0]) == 1 and bench.starts[0][0] - at <= 8
        bench.queue.clear()
    await bench.open(0)
    await bench.run(200)
    assert int(dut.u_slots.used_q.value) == 0


@cocotb.test()
async def resets(dut) -> None:
    """Entries rewritten at any moment, valid or not, under load: the new session is clean."""
    bench = begin(dut)
    bench.any_start = True
    bench.any_order = True
    bench.loss = bench.ack_loss = 0.08
    bench.gaps = (0, 4)
    await bench.start(resend_ticks=20, resend_limit=30, pace_max=30)
    count = min(5, bench.sessions)
    for session in range(count):
        await bench.open(session)
    cookie = 0
    answered = 0
    for _ in range(250):
        for _ in range(bench.rand.randint(0, 12)):
            session = bench.rand.randrange(count)
            if not bench.valid >> session & 1:
                continue
            operation = bench.operation(session)
            if bench.rand.random() < 0.05:
                bench.refuse[session, operation.wire_address] = 1
        if bench.rand.random() < 0.5:
            bench.mark(bench.rand.choice((*range(count), bench.sessions, 0xFFFF)), cookie)
            cookie += 1
        await bench.run(bench.rand.randint(1, 200))
        if bench.rand.random() < 0.5:
            session = bench.rand.randrange(count)
            bench.events = [e for e in bench.events if e["who"] != session or e["code"] > 15]
            await bench.open(session, bench.rand.random() < 0.8)
            if bench.rand.random() < 0.2:
                await bench.open(session)
    for session in range(count):
        if not bench.valid >> session & 1:
            await bench.open(session)
    await bench.drain()
    answered = sum(e["code"] in (FLUSHED, FLUSH_FAILED) for e in bench.events)
    assert answered == cookie and not bench.marks
    bench.check_delivery()
    assert not bench.lost


@cocotb.test()
async def given_up(dut) -> None:
    """Before a reset what waits is dropped, and no flush behind it says that it was delivered."""
    bench = begin(dut)
    await bench.start()
    for session in (0, 1, 2):
        await bench.open(session)
    await bench.run(10)
    # The first's peer answers as ever, the second's is slow, the third's does not.
    bench.delay = (400, 400)
    bench.black_out.add(2)
    for session in (0, 1, 2):
        for _ in range(bench.rand.randint(1, 4)):
            bench.operation(session)
    bench.mark(1, 1)
    while bench.queue or bench.current:
        await bench.cycle()
    bench.hold.add("new")
    for session in (2, 1):
        for _ in range(bench.rand.randint(1, 3)):
            bench.operation(session)
        bench.mark(session, 10 + session)
    bench.mark(0, 10)
    bench.put("give_up_i", 1)
    await bench.run(bench.rand.randint(2, 30))
    bench.hold.clear()
    while len(bench.events) < 4:
        assert bench.now < 5_000, bench.why()
        await bench.cycle()
    assert bench.dropped == {1, 2}
    codes = {event["number"]: event["code"] for event in bench.events}
    assert codes[1] == FLUSHED, "what was sent is waited for"
    assert codes[11] == codes[12] == FLUSH_FAILED
    # With no room left a mark is taken all the same, so that nothing waits behind it.
    for cookie in range(20, 40):
        bench.mark(2, cookie)
    bench.event_rate = 0.0
    await bench.run(100)
    assert not bench.queue


@cocotb.test()
async def lost_under_load(dut) -> None:
    """A peer that falls silent is given up; the others do not notice, and it can come again."""
    bench = begin(dut)
    bench.any_start = True
    bench.any_order = True
    bench.loss = bench.ack_loss = 0.02
    await bench.start(resend_ticks=10, resend_limit=3, backoff=2, pace_max=30)
    count = min(6, bench.sessions)
    for session in range(count):
        await bench.open(session)
    for i in range(4):
        silent = bench.rand.randrange(count)
        for _ in range(150):
            bench.operation(bench.rand.randrange(count))
        for j in range(4):
            bench.mark(silent, 100 * i + j)
        bench.set(resend_limit=40)
        await bench.run(300)
        bench.black_out = {silent}
        bench.operation(silent)
        bench.set(resend_limit=3, resend_ticks=40)
        await bench.drain()
        assert silent in bench.lost or not bench.numbers[silent]
        bench.check_delivery()
        bench.black_out = set()
        for session in sorted(bench.lost):
            bench.events = [e for e in bench.events if e["who"] != session]
            await bench.open(session)
    assert not bench.marks


@cocotb.test()
async def nack_latency(dut) -> None:
    """A frame that is asked for is offered at once; an acknowledgement takes a cycle a frame."""
    bench = begin(dut)
    await bench.start(resend_ticks=0xFFFF)
    await bench.open(0)
    await bench.run(10)
    await send(bench, 0, 40)
    bench.hold.add("resent")
    await acknowledge(bench, 0, 0, nack=1)
    cycles = 0
    while not int(dut.rs_valid_o.value):
        await bench.cycle()
        cycles += 1
    dut._log.info(f"offered {cycles + 1} cycles after the nack")
    # The engine may be in the middle of a look at the time, or two.
    assert cycles + 1 <= 18
    bench.hold.clear()
    await bench.run(800)
    await acknowledge(bench, 0, 40)
    cycles = 1
    while int(dut.u_slots.used_q.value):
        await bench.cycle()
        cycles += 1
    dut._log.info(f"40 frames acknowledged in {cycles} cycles")
    assert cycles <= 40 + 8


TOP = {
    "top": "resend",
    "filelists": ["rtl/ipnuma/ipnuma_resend.f"],
    "build_args": ["-Wno-UNUSEDPARAM"],
    "probes": {"send_slots": ["used_q"], "session_pacer": ["held_q", "now_q"]},
}
SMALL = "lossy_channel resets lost_under_load numbers_wrap".split()


def test_resend() -> None:
    """All of it, with the sizes of the NIC."""
    build_and_run(test_module=__name__, **TOP)


@pytest.mark.parametrize(("sessions", "slots"), [(8, 8), (16, 32)])
def test_resend_small(sessions: int, slots: int) -> None:
    """Few slots: sessions take them from each other."""
    parameters = {"Sessions": sessions, "SendSlots": slots}
    build_and_run(test_module=__name__, parameters=parameters, testcases=SMALL, **TOP)
