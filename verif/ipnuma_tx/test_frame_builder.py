# SPDX-License-Identifier: Apache-2.0
"""Bench of the frame builder: five sources, sessions, acknowledgements, copies, drops."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import cocotb
import pytest
from builder_bench import (
    COMPLETIONS,
    CONTROL,
    COUNTERS,
    CPL,
    MRD,
    MWR,
    NACK,
    REFUSALS,
    REQUESTER,
    RESEND,
    VOID,
    Bench,
    Frame,
    kinds,
    mixture,
    random_frame,
    source_port,
)
from harness import build_and_run
from tx_ref import (
    crc16,
    crc32c,
)


@cocotb.test()
async def random_frames_at_full_speed(dut) -> None:
    """A transmitter as xgmii_tx: every beat at once."""
    bench = await mixture(dut, 220, ready_rate=0.8)
    seen = kinds(bench)
    dut._log.info("%s, %d dropped", dict(bench.counts), len(bench.dropped))
    assert set(COUNTERS) == set(+bench.counts), "the mixture left something out"
    assert seen[REQUESTER, True, True] and seen[REQUESTER, True, False]
    assert not any(ack for source, _, ack in seen if source != REQUESTER)
    assert bench.marks
    assert {source for source, _ in bench.dropped} == {REQUESTER, COMPLETIONS, REFUSALS}


@cocotb.test()
async def random_frames_at_one_gigabit(dut) -> None:
    """A transmitter as gmii_tx: a beat in eight cycles."""
    bench = await mixture(dut, 50, slow=True)
    assert len(bench.sent) > 150


@cocotb.test()
async def random_frames_with_random_beats(dut) -> None:
    """Beats taken whenever; marks wait."""
    bench = await mixture(dut, 120, beat_rate=0.4, ready_rate=0.3, mark_rate=0.2)
    assert len(bench.sent) > 350


@cocotb.test()
async def all_lengths(dut) -> None:
    """Every number of DWs in both formats, with and without acknowledgement, first and again."""
    bench = Bench(dut)
    await bench.start()
    sizes: dict[tuple, int] = {}
    for dw in range(65):
        for compact in (False, True):
            if compact and not dw:
                continue
            for session, pending, urgent in (
                (None, True, True),
                (5, False, True),
                (5, True, False),
                (5, True, True),
            ):
                for source in (REQUESTER, RESEND):
                    if source == RESEND and session is None:
                        continue
                    bench.pending[5], bench.urgent[5] = pending, urgent
                    frame = Frame(
                        compact=compact,
                        session=session,
                        sequenced=True,
                        pc_id=3,
                        tag=random.randrange(1 << 12),
                        head=bytes([MWR if dw else MRD]) + random.randbytes(15),
                        address=random.getrandbits(40),
                        trail=random.randrange(4),
                        data=random.randbytes(4 * dw),
                        sequence=random.getrandbits(32),
                    )
                    bench.queues[source].append(frame)
                    await bench.drain()
                    sent = bench.sent[-1]
                    key = (dw, compact, session is not None, sent.ack is not None)
                    sizes[key] = len(sent.data)
    # By the format's own arithmetic, header 42 bytes.
    for (dw, compact, _, ack), size in sizes.items():
        assert size == 42 + (10 + 2 * ack if compact else 28) + 4 * dw
    assert {key for key in sizes if key[:2] == (1, True)} == {
        (1, True, False, False),
        (1, True, True, False),
        (1, True, True, True),
    }
    # Two DWs without an acknowledgement are a minimum frame, with an urgent one two bytes more.
    assert sizes[2, True, True, False] == 60
    assert sizes[2, True, True, True] == 62


@cocotb.test()
async def bytes_by_hand(dut) -> None:
    """Frames as a reader of the wire format would write them down."""
    bench = Bench(dut)
    await bench.start()
    bench.ports[7] = 0xC000 | 0x2B << 8 | 0x11
    bench.next_sequence[7] = 0x00010203
    bench.values[7] = 0xBEEF
    bench.pending[7] = True
    port = b"\xeb\x11"
    store = Frame(
        compact=True,
        session=7,
        sequenced=True,
        port=4000,
        tag=0x123,
        address=0x0030103125,
        trail=1,
        data=bytes.fromhex("11223344"),
    )
    bench.queues[REQUESTER].append(store)
    await bench.drain()
    head = bytes.fromhex("020000000011 020000000001 0800 4500 002c 0000 4000 4011")
    text = bytes.fromhex("c9 0203 0030103125 11223344 beef")
    code = (crc16(port + text) ^ 0x123 ^ 0x0001).to_bytes(2, "big")
    data = bench.sent[-1].data
    assert data[:24] == head
    assert data[26:34] == bytes.fromhex("0a000001 0a000011")
    assert data[34:42] == port + struct.pack(">HHH", 3422, 24, 0)
    assert data[42:] == text + code

    bench.queues[CONTROL].append(
        Frame(control=True, compact=True, session=7, trail=NACK, address=0x89ABCDEF << 8)
    )
    await bench.drain()
    text = bytes.fromhex("c5 0000 89abcdef 00")
    assert bench.sent[-1].data[34:42] == port + struct.pack(">HHH", 3422, 18, 0)
    assert bench.sent[-1].data[42:] == text + crc16(port + text).to_bytes(2, "big")

    bench.queues[RESEND].append(
        Frame(
            control=True,
            compact=True,
            session=7,
            sequenced=True,
            trail=VOID,
            sequence=0xFFFE8001,
        )
    )
    await bench.drain()
    text = bytes.fromhex("c6 8001 00000000 00")
    code = (crc16(port + text) ^ 0xFFFE).to_bytes(2, "big")
    assert bench.sent[-1].data[42:] == text + code

    head = bytes.fromhex("60000001 0000000f 00000021 00000ff8")
    load = Frame(session=7, sequenced=True, tag=0xFFF, head=head, data=b"abcd")
    bench.queues[REQUESTER].append(load)
    await bench.drain()
    text = bytes.fromhex("4e4d 03 2b 0204 beef") + head + b"abcd"
    code = (crc32c(port + text) ^ 0xFFF ^ 0x0001).to_bytes(4, "little")
    assert bench.sent[-1].data[42:] == text + code


@cocotb.test()
async def long_ago_never_passes(dut) -> None:
    """The same frame 65,536 numbers, another port or another epoch away has another end code."""
    bench = Bench(dut)
    await bench.start()
    base = random.getrandbits(16)
    for compact in (True, False):
        codes = set()
        for upper in (0, 1, 2, 0x00FF, 0x0100, 0x8000, 0xFFFF):
            for port in (0xC000, 0xC001, 0xC100, 0xFFFF):
                bench.ports[1] = port
                frame = Frame(
                    compact=compact,
                    session=1,
                    sequenced=True,
                    head=bytes([MWR]) + bytes(15),
                    data=b"12345678",
                    sequence=upper << 16 | base,
                )
                bench.queues[RESEND].append(frame)
                await bench.drain()
                codes.add(bench.sent[-1].data[-2 if compact else -4 :])
        assert len(codes) == 7 * 4


@cocotb.test()
async def five_sources_take_turns(dut) -> None:
    """With all sources busy each has every fifth frame; a closed session holds up nobody else."""
    bench = Bench(dut)
    await bench.start()

    def fill() -> None:
        for source, queue in enumerate(bench.queues):
            while len(queue) < 2:
                frame = random_frame(bench, source)
                if frame.permitted:
                    queue.append(frame)

    bench.before = fill
    await bench.run(1500)
    order = [sent.source for sent in bench.sent]
    assert len(order) > 50
    for at in range(len(order) - 5):
        assert sorted(order[at : at + 5]) == [0, 1, 2, 3, 4], order
    # No cycle is lost between frames.
    for one, two in zip(bench.sent, bench.sent[1:], strict=False):
        assert two.time == one.last + 1

    # Session of source 0's frame is closed: the other four go on, then it comes at once.
    while bench.active is not None:
        await bench.cycle()
    bench.queues[REQUESTER].clear()
    bench.queues[REQUESTER].append(Frame(compact=True, session=9, sequenced=True, data=b"closed!!"))
    bench.open[9] = False
    count = len(bench.sent)
    await bench.run(1000)
    order = [sent.source for sent in bench.sent[count:]]
    assert len(order) > 20 and REQUESTER not in order
    for at in range(len(order) - 4):
        assert sorted(order[at : at + 4]) == [1, 2, 3, 4], order
    while bench.active is None:
        await bench.cycle()
    bench.open[9] = True
    count = len(bench.sent)
    while len(bench.sent) < count + 6:
        await bench.cycle()
    assert REQUESTER in [sent.source for sent in bench.sent[count : count + 6]]
    bench.before = lambda: None
    await bench.drain()


@cocotb.test()
async def start_without_delay(dut) -> None:
    """start_o comes with the valid, the first word in the cycle after it, in sessions too."""
    bench = Bench(dut)
    await bench.start()
    for source in range(5):
        for session in (None, 3):
            if session is None and source in (CONTROL, RESEND):
                continue
            for compact in (False, True):
                for wait in range(3):
                    await bench.run(2)
                    frame = random_frame(bench, source)
                    while not frame.permitted:
                        frame = random_frame(bench, source)
                    frame.session = session
                    if source == REQUESTER:
                        frame.compact = compact and bool(frame.data)
                    bench.pending[3] = random.random() < 0.5
                    bench.queues[source].append(frame)
                    bench.hold = True
                    for _ in range(wait):
                        out = await bench.cycle()
                        assert out["start"] and not out["tvalid"]
                    bench.hold = False
                    begun = bench.time
                    await bench.drain()
                    sent = bench.sent[-1]
                    assert sent.time == begun
                    # Words one a cycle, none before the first: nothing was added to a session.
                    assert sent.last - begun == (len(sent.data) + 7) // 8


@cocotb.test()
async def start_is_withdrawn(dut) -> None:
    """A session that closes, or a source that takes its frame back, leaves no trace."""
    bench = Bench(dut)
    await bench.start()
    bench.hold = True
    bench.queues[REQUESTER].append(Frame(compact=True, session=2, sequenced=True, data=b"12345678"))
    assert (await bench.cycle())["start"]
    bench.open[2] = False
    assert not (await bench.cycle())["start"]
    bench.hold = False
    await bench.run(20)
    assert not bench.sent and bench.queues[REQUESTER]
    for source in (CONTROL, RESEND):
        bench.hold = True
        bench.queues[source].append(random_frame(bench, source))
        assert (await bench.cycle())["start"]
        bench.queues[source].clear()
        assert not (await bench.cycle())["start"]
        bench.hold = False
        await bench.run(20)
    assert not bench.sent
    bench.open[2] = True
    await bench.drain()
    assert len(bench.sent) == 1


@cocotb.test()
async def session_written_around_a_start(dut) -> None:
    """A frame has the port and the seal of its session as they were at the edge of its start."""
    bench = Bench(dut)
    await bench.start()
    for source in range(5):
        for when in range(-2, 6):
            frame = random_frame(bench, source)
            while not frame.permitted:
                frame = random_frame(bench, source)
            frame.session = 4
            bench.ports[4] = old = 0xC000 | random.getrandbits(14)
            new = old ^ 0x0155
            bench.sealed[4] = False
            bench.queues[source].append(frame)
            bench.hold = True
            await bench.run(3)
            begun = bench.time

            def write(when: int = when, begun: int = begun, new: int = new) -> None:
                if bench.time == begun + 2:
                    bench.hold = False
                if bench.time == begun + 2 + when:
                    bench.ports[4] = new
                    bench.sealed[4] = True

            bench.before = write
            await bench.drain()
            bench.before = lambda: None
            sent = bench.sent[-1]
            assert sent.time == begun + 2
            assert sent.sealed == (when <= 0)
            port = source_port(source, frame, new if when <= 0 else old)
            assert sent.data[34:36] == port.to_bytes(2, "big")


@cocotb.test()
async def lost_sessions_make_room(dut) -> None:
    """Stores of a lost session go one a cycle, counted; those of others follow at once."""
    bench = Bench(dut)
    await bench.start()
    bench.lost[6], bench.open[6] = True, False
    store = Frame(compact=True, session=6, sequenced=True, data=b"12345678")
    bench.queues[REQUESTER].extend([store] * 10)
    bench.queues[REQUESTER].append(replace(store, session=7))
    begun = bench.time
    await bench.drain()
    assert bench.drop_times == list(range(begun, begun + 10))
    assert bench.counts["lost"] == 10
    assert len(bench.sent) == 1 and bench.sent[0].time == begun + 10
    # Lost while its frame is on the stream: the frame goes on to its end, the next is dropped.
    bench.queues[REQUESTER].extend([replace(store, session=7)] * 2)
    await bench.run(3)
    bench.lost[7], bench.open[7] = True, False
    await bench.drain()
    assert len(bench.sent) == 2 and bench.counts["lost"] == 11
    # A lost session still answers its peer, one that is not valid any more can't.
    answer = Frame(session=7, head=bytes([CPL]) + bytes(15))
    bench.queues[COMPLETIONS].append(answer)
    bench.queues[REFUSALS].append(replace(answer, kind=1))
    await bench.drain()
    assert len(bench.sent) == 4
    bench.valid[7] = False
    bench.queues[COMPLETIONS].append(answer)
    bench.queues[REFUSALS].append(replace(answer, kind=1))
    bench.queues[REQUESTER].append(replace(store, session=7))
    begun = bench.time
    await bench.drain()
    assert len(bench.sent) == 4 and bench.counts["lost"] == 14
    assert bench.drop_times[-3:] == [begun, begun + 1, begun + 2]


@cocotb.test()
async def marks_keep_their_place(dut) -> None:
    """A mark is handed on behind the frames before it, when it is taken, and ahead of the rest."""
    bench = Bench(dut)
    await bench.start()
    store = Frame(compact=True, session=1, sequenced=True, data=b"12345678")
    mark = Frame(permitted=False, mark=True)
    bench.mark_rate = 0.0
    bench.queues[REQUESTER].extend([store, mark, mark, replace(store, session=2)])
    bench.queues[COMPLETIONS].append(Frame(head=bytes([CPL]) + bytes(15)))
    await bench.run(60)
    # Others are not held up.
    assert [sent.source for sent in bench.sent] == [REQUESTER, COMPLETIONS]
    assert not bench.marks
    bench.mark_rate = 1.0
    begun = bench.time
    await bench.drain()
    assert len(bench.marks) == 2 and len(bench.sent) == 3
    assert bench.sent[-1].time == begun + 2


@cocotb.test()
async def sessionless_counters_stand_still(dut) -> None:
    """Frames of sessions take no number of their PC ID."""
    bench = Bench(dut)
    await bench.start()
    plain = Frame(compact=True, sequenced=True, pc_id=5, data=b"12345678")
    for _ in range(3):
        bench.queues[REQUESTER].extend([plain, replace(plain, session=5), plain])
    await bench.drain()
    numbers = [sent.sequence for sent in bench.sent if sent.frame.session is None]
    assert numbers == list(range(6))


# The tests name sessions beyond the smallest table.
BUILDS = {64: None, 2: ["random_frames_at_full_speed"]}


@pytest.mark.parametrize("sessions", BUILDS)
def test_frame_builder(sessions: int) -> None:
    """All tests, and the random ones with the fewest sessions."""
    build_and_run(
        "tb_frame_builder",
        __name__,
        filelists=["rtl/eth/eth.f", "rtl/ipnuma/ipnuma_tx.f"],
        sources=["verif/ipnuma_tx/tb_frame_builder.sv"],
        parameters={"Sessions": sessions},
        testcases=BUILDS[sessions],
        # Packages are used in part here.
        build_args=["-Wno-UNUSEDPARAM"],
    )
