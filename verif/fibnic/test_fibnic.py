# SPDX-License-Identifier: Apache-2.0
"""Bench of the switch at 10G: every frame against the model, its latency in cycles, losses."""

from __future__ import annotations

import os
from collections import Counter

import cocotb
import pytest
from cocotb.triggers import RisingEdge, Timer
from cocotbext.eth import XgmiiFrame
from fibnic_bench import (
    CHECK_ALWAYS,
    CHECK_AUTO,
    CHECK_WINDOW,
    FIELD_CHECK,
    FIELD_MTU,
    FIELD_VLAN,
    LATENCIES,
    MAX_FRAME,
    MEM_ACL,
    MEM_DRAIN,
    NAMES,
    PERIOD_PS,
    PORTS,
    PREFIXED4,
    PREFIXED6,
    RULES,
    VLAN,
    Bench,
    damage,
    in_rule,
    make_frame,
    near_hop_by_hop,
    rng,
    rule_words,
    setup,
    special_and_near,
    special_frame,
    with_fcs,
)
from harness import build_and_run, drawn
from router_ref import ip_length

LIMIT_MS = 5  # of simulated time, against hanging; the longest takes 0.22
# Tests of builds that need not run all.
BRIEFLY = {
    (0, 2, 4, 0, 1): [
        "latency_is_constant",
        "line_rate",
        "both_families_at_line_rate",
        "contention_is_fair",
        "some_wait_and_the_next_is_dropped",
    ]
}


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def latency_is_constant(dut) -> None:
    """Frames of all sizes between all ports, one at a time: one number for each family."""
    bench = await setup(dut)
    sizes = [64, 65, 70, 71, 72, 73, 127, 128, 512, 1518, 9216]
    sizes += [bench.rand.randint(64, 9216) for _ in range(4)]
    rand = bench.rand
    pairs = [(i, o) for i in range(PORTS) for o in range(PORTS)]
    runs = [(s, 0, 1) for s in sizes] + [(bench.rand.randint(64, 200), i, o) for i, o in pairs]
    for size, i, o in runs:
        for v6 in (False, True):
            if v6:
                target = rand.choice([f"2001:db8:{o}::1", PREFIXED6[o]])
                frame = bench.v6(i, target, max(size, 66))
            else:
                frame = bench.v4(i, rand.choice([f"10.{o}.0.1", PREFIXED4[o]]), size)
            sent = XgmiiFrame.from_payload(frame)
            starts = []
            sent.tx_complete = starts.append
            await bench.sources[i].send(sent)
            got = await bench.sinks[o].recv()
            verdict, port, expected = bench.router.decide(i, frame)
            assert (verdict, port) == ("forward", o)
            assert got.check_fcs() and not any(got.ctrl or [])
            assert bytes(got.get_payload()) == expected
            want = bench.v6_cycles if v6 else bench.v4_cycles
            assert bench.cycles(starts[0], got) == want, (size, i, o, v6)
            await Timer(PERIOD_PS * bench.rand.randint(3, 6), "ps")
    dut._log.info(f"preamble to preamble: IPv4 {bench.v4_cycles}, IPv6 {bench.v6_cycles} cycles")


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def line_rate(dut) -> None:
    """All ports at line rate, a permutation: no loss, and the latency stays."""
    bench = await setup(dut)
    shift = bench.rand.randint(1, PORTS - 1)
    fixed = bench.rand.choice([64, 65, 1518])
    sent: list[list[XgmiiFrame]] = [[] for _ in range(PORTS)]
    expected: list[list[bytes]] = [[] for _ in range(PORTS)]
    for i in range(PORTS):
        o = (i + shift) % PORTS
        for n in range(120):
            size = fixed if n < 60 else bench.rand.randint(64, 200)
            frame = bench.v4(i, bench.rand.choice([f"10.{o}.0.1", f"198.51.100.{o}"]), size)
            expected[o].append(bench.router.decide(i, frame)[2])
            out = XgmiiFrame.from_payload(frame)
            out.tx_complete = sent[o].append
            bench.sources[i].send_nowait(out)
    await bench.drain()
    want = bench.v4_cycles
    seen = Counter()
    for o in range(PORTS):
        got = [bench.sinks[o].recv_nowait() for _ in range(bench.sinks[o].count())]
        assert [bytes(g.get_payload()) for g in got] == expected[o]
        assert all(g.check_fcs() for g in got)
        for a, b in zip(sent[o], got, strict=True):
            cycles = bench.cycles(a, b)
            seen[a.start_lane, b.start_lane, cycles] += 1
            # Gaps of the sender (9 to 15 bytes) and ours, and the lanes, differ by a word at most.
            assert want <= cycles <= want + 1, (a.start_lane, b.start_lane, cycles)
        assert (await bench.counters(o))["full"] == 0
    dut._log.info(f"lane in, lane out, cycles: {dict(seen)}")


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def both_families_at_line_rate(dut) -> None:
    """IPv4 right behind IPv6 on all ports: nothing overtakes, all hit a rule, loss is counted."""
    bench = await setup(dut)
    rand = bench.rand
    anything = {"deny": 0, "family": None, "src": None, "dst": None, "dport": None}
    for word, data in enumerate(rule_words(anything | {"ports": set(range(PORTS))})):
        await bench.write(MEM_ACL, word, data)
    await bench.write(MEM_DRAIN, 0, 0)
    shift = rand.randint(1, PORTS - 1)
    expected: list[list[bytes]] = [[] for _ in range(PORTS)]
    for i in range(PORTS):
        o = (i + shift) % PORTS
        for n in range(100):
            v6 = n % 2 == 0 if n < 50 else rand.random() < 0.5
            size = 66 if n < 50 else rand.randint(66, 150)
            if v6:
                frame = bench.v6(i, f"2001:db8:{o}::1", size)
            else:
                frame = bench.v4(i, f"10.{o}.0.1", size)
            expected[o].append(bench.router.decide(i, frame)[2])
            bench.sources[i].send_nowait(XgmiiFrame.from_payload(frame))
    await bench.drain()
    for o in range(PORTS):
        got = [bench.sinks[o].recv_nowait() for _ in range(bench.sinks[o].count())]
        assert all(g.check_fcs() for g in got)
        loads = [bytes(g.get_payload()) for g in got]
        # Frames that waited behind IPv6 follow each other without gaps. Behind a lookup that is
        # 10 cycles longer for each that may wait they can be more than an output's FIFO takes.
        if bench.v6_cycles - bench.v4_cycles < 10 * bench.waiting:
            assert loads == expected[o]
        rest = iter(expected[o])
        assert all(load in rest for load in loads), "a frame overtook another"
        i = (o - shift) % PORTS
        assert (await bench.counters(i))["full"] == len(expected[o]) - len(loads)
        # Plans that waited for one before them are made in cycles running.
        assert await bench.count(1 << 11 | o << 7) == 100


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def contention_is_fair(dut) -> None:
    """Three ports at line rate to the fourth: whole frames only are lost, equal shares."""
    bench = await setup(dut)
    for size, count in ((64, 600), (512, 100)):
        out = bench.rand.randrange(PORTS)
        ins = [p for p in range(PORTS) if p != out]
        before = {i: await bench.counters(i) for i in ins}
        expected: dict[bytes, int] = {}
        for i in ins:
            # Frames that differ in their identification.
            base = bytearray(bench.v4(i, f"10.{out}.0.1", size, id=0))
            check = int.from_bytes(base[24:26], "big")
            for n in range(count):
                base[18:20] = n.to_bytes(2, "big")
                base[24:26] = ((check - n) % 0xFFFF or 0xFFFF).to_bytes(2, "big")
                expected[bench.router.decide(i, bytes(base))[2]] = i
                bench.sources[i].send_nowait(XgmiiFrame.from_payload(base))
        await bench.drain()
        shares = Counter()
        while not bench.sinks[out].empty():
            got = bench.sinks[out].recv_nowait()
            assert got.check_fcs() and not any(got.ctrl or [])
            shares[expected.pop(bytes(got.get_payload()))] += 1
        for i in ins:
            found = (await bench.counters(i)) - before[i]
            assert found["full"] + shares[i] == count
            assert found["forward"] == count
            # A third each, and what waits when the last one comes; the first frame is an exception.
            assert abs(shares[i] - sum(shares.values()) / 3) <= max(1, count / 300), shares
            assert -4 <= shares[i] - count / 3 - bench.waiting <= 3, shares
        loss = 1 - sum(shares.values()) / (3 * count)
        dut._log.info(f"{size} bytes: {dict(shares)} of {count} each, {100 * loss:.1f} % lost")
        assert abs(loss - (2 / 3 - bench.waiting / count)) < 0.012


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def some_wait_and_the_next_is_dropped(dut) -> None:
    """While others hold an output as many frames wait as may and as there is room for, no more."""
    bench = await setup(dut)
    out = bench.rand.randrange(PORTS)
    first, second, last = (p for p in range(PORTS) if p != out)
    longest = (MAX_FRAME + 7) // 8 + 1  # beats, of one that is cut
    for size in (64, 65, 600, 2400, 3200, 4700, MAX_FRAME):
        beats = (size - 4 + 7) // 8
        # One more is taken while the longest fits behind it, in a memory for two of those.
        fitting = min(bench.waiting, longest // beats + 1)
        frames = [bench.v4(last, f"10.{out}.0.1", size) for _ in range(fitting + 2)]
        kept = frames[:fitting]
        if size == MAX_FRAME:
            # When the third one comes the first is leaving.
            frames = frames[:3]
            kept = [frames[0], frames[1 if bench.waiting > 1 else 2]]
        before = await bench.counters(last)
        expected = []
        # The turn is the second one's when the first has left.
        for p, some in ((first, [None]), (second, [None]), (last, frames)):
            for frame in some:
                whole = frame or bench.v4(p, f"10.{out}.0.1", MAX_FRAME)
                if frame is None or frame in kept:
                    expected.append(bench.router.decide(p, whole)[2])
                bench.sources[p].send_nowait(XgmiiFrame.from_payload(whole))
            for _ in range(20):
                await RisingEdge(dut.clk_i)
        await bench.drain()
        got = [bench.sinks[out].recv_nowait() for _ in range(bench.sinks[out].count())]
        assert all(g.check_fcs() and not any(g.ctrl or []) for g in got)
        assert [bytes(g.get_payload()) for g in got] == expected, size
        found = (await bench.counters(last)) - before
        assert found["full"] == len(frames) - len(kept) > 0, (size, found)
        assert found["forward"] == len(frames)


@cocotb.test(skip=os.environ.get("ASYNCRX") == "0", timeout_time=LIMIT_MS, timeout_unit="ms")
async def receive_clocks_drift(dut) -> None:
    """Receivers on clocks of their own: all frames arrive, the crossing costs what it may."""
    bench = Bench(dut, rng())
    await bench.start(one_clock=False)
    await bench.routes()
    seen = Counter()
    for n in range(60):
        i, o = bench.rand.randrange(PORTS), bench.rand.randrange(PORTS)
        size = 9216 if n % 10 == 0 else bench.rand.randint(64, 1518)
        frame = bench.v4(i, f"10.{o}.0.1", size)
        sent = XgmiiFrame.from_payload(frame)
        starts = []
        sent.tx_complete = starts.append
        await bench.sources[i].send(sent)
        got = await bench.sinks[o].recv()
        assert got.check_fcs() and not any(got.ctrl or [])
        assert bytes(got.get_payload()) == bench.router.decide(i, frame)[2]
        cycles = bench.cycles(starts[0], got)
        # The crossing takes its edge plus up to one more cycle of the core clock, by phase.
        assert -1.01 <= cycles - bench.v4_cycles <= 0.01, cycles
        seen[round(cycles, 1)] += 1
        await Timer(bench.rand.randint(2, 6) * PERIOD_PS, "ps")
    dut._log.info(f"cycles: {dict(seen)}")
    for p in range(PORTS):
        found = await bench.counters(p)
        assert found["full"] == 0 and found["tx_underrun"] == 0


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def routes_as_the_model(dut) -> None:
    """Frames of all kinds, whole and damaged, on all ports against the model; all counters."""
    bench = await setup(dut)
    rand = bench.rand
    hits: Counter[tuple[int, int]] = Counter()

    def denies(port: int, packet: bytes) -> bool:
        for index, rule in enumerate(RULES):
            if in_rule(rule, port, packet):
                hits[port, index] += 1
                return bool(rule["deny"])
        return False

    bench.router.denies = denies
    for index, rule in enumerate(RULES):
        for word, data in enumerate(rule_words(rule)):
            await bench.write(MEM_ACL, index << 3 | word, data)
    bench.router.mtus = [9198, 300, 500, 9198]
    for p, mtu in enumerate(bench.router.mtus[:PORTS]):
        await bench.set_field(p, FIELD_MTU, mtu)
    storing = rand.randrange(PORTS)
    await bench.set_field(storing, FIELD_CHECK, CHECK_ALWAYS)
    await bench.write(MEM_DRAIN, 0, 0)
    forwarded: list[Counter[tuple[bytes, bool]]] = [Counter() for _ in range(PORTS)]
    hosted: Counter[tuple[bytes, str, int, bool]] = Counter()
    wanted = [Counter() for _ in range(PORTS)]
    short = Counter()
    for n in range(700):
        port = rand.randrange(PORTS)
        frame = make_frame(bench, port)
        sent, rx = XgmiiFrame.from_payload(frame), "rx_good"
        if rand.random() < 0.25:
            sent, seen, rx = damage(bench, frame)
            frame = seen[:-4]
        bad = rx != "rx_good" or ip_length(frame) > len(frame) - 14
        verdict, out, expected = bench.router.decide(port, frame)
        if verdict == "drop_runt":
            short[port] += 1
        elif bad and port == storing:
            verdict = "drop_bad"
        wanted[port][verdict] += 1
        wanted[port][rx] += 1
        if verdict == "forward":
            forwarded[out][expected, bad] += 1
        elif verdict.startswith("host"):
            hosted[expected, verdict, port, bad] += 1
        await bench.sources[port].send(sent)
        # Often on each other's heels.
        if n % 4 == 3 or rand.random() < 0.4:
            await bench.drain()
    await bench.drain()
    # A frame may find another waiting before the same output: dropped whole and counted.
    sent, spoiled = [Counter() for _ in range(PORTS)], 0
    for p in range(PORTS):
        while not bench.sinks[p].empty():
            got = bench.sinks[p].recv_nowait()
            bad = any(got.ctrl or [])
            assert got.check_fcs() != bad
            forwarded[p][bytes(got.get_payload()), bad] -= 1
            sent[p]["tx_spoiled" if bad else "tx_good"] += 1
            spoiled += bad
    for item in bench.host:
        hosted[item] -= 1
        spoiled += item[3]
    left = [n for counts in (*forwarded, hosted) for n in counts.values()]
    assert min(left) >= 0, "a frame that the model does not know"
    dropped = 0
    for p in range(PORTS):
        found = await bench.counters(p)
        dropped += found.pop("full", 0)
        spoiled -= found.pop("spoiled", 0)
        assert found == +(wanted[p] + sent[p]), (p, found, wanted[p], sent[p])
        for index in range(len(RULES)):
            extra = await bench.count(1 << 11 | p << 7 | index) - hits[p, index]
            # A runt is known as one after the list has judged it.
            assert 0 <= extra <= short[p], (p, index, extra)
    assert spoiled == 0
    assert dropped == sum(left)
    assert dropped < 40
    assert len({i for _, i in hits}) == len(RULES)


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def special_addresses(dut) -> None:
    """Every bit of special prefixes counts, in both addresses; of the next header, too."""
    bench = await setup(dut)
    wanted = [Counter() for _ in range(PORTS)]
    frames = []
    for address in special_and_near(bench.rand):
        for field in ("src", "dst"):
            port = bench.rand.randrange(PORTS)
            frames.append((port, special_frame(bench, port, address, field)))
    port = bench.rand.randrange(PORTS)
    frames += [(port, frame) for frame in near_hop_by_hop(bench, port)]
    for port, frame in frames:
        wanted[port][bench.router.decide(port, frame)[0]] += 1
        await bench.sources[port].send(XgmiiFrame.from_payload(frame))
        await bench.drain()
    for port in range(PORTS):
        found = await bench.counters(port)
        assert found - wanted[port] == Counter(
            rx_good=sum(wanted[port].values()), tx_good=found["tx_good"]
        )
        assert not wanted[port] - found, (port, found, wanted[port])
    assert len(set().union(*wanted)) > 3


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def fragments_have_no_ports(dut) -> None:
    """A rule about ports takes first fragments only: each bit of the offset alone makes another."""
    bench = await setup(dut)
    rule = {"deny": 1, "family": 4, "src": None, "dst": None, "dport": (7, 7), "ports": {0}}
    for word, data in enumerate(rule_words(rule)):
        await bench.write(MEM_ACL, word, data)
    await bench.write(MEM_DRAIN, 0, 0)
    later = 0
    for bit in range(17):
        word = 1 << bit & 0xFFFF
        frame = bench.v4(0, "10.1.0.1", 64, flags=word >> 13, frag=word & 0x1FFF)
        frame = frame[:36] + (7).to_bytes(2, "big") + frame[38:]
        await bench.sources[0].send(XgmiiFrame.from_payload(frame))
        await bench.drain()
        if word & 0x1FFF:
            expected = bench.router.decide(0, frame)[2]
            assert bytes(bench.sinks[1].recv_nowait().get_payload()) == expected, hex(word)
            later += 1
        assert bench.sinks[1].empty(), f"flags and offset {word:#06x}"
    found = await bench.counters(0)
    assert (later, found["forward"], found["drop_acl"]) == (13, 13, 4)


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def frames_of_the_host(dut) -> None:
    """The host's frames leave where it says, beside forwarded ones, also when it is slow."""
    bench = await setup(dut)
    rand = bench.rand
    expected = [[] for _ in range(PORTS)]
    flows = [[] for _ in range(PORTS)]
    for _ in range(30):
        # Some for ports that are not there.
        port = rand.randrange(PORTS + 2)
        frame = rand.randbytes(rand.randint(60, 400))
        if port < PORTS:
            expected[port].append(frame)
        for _ in range(rand.randint(0, 2)):
            i = rand.randrange(PORTS)
            out = rand.randrange(PORTS)
            other = bench.v4(i, f"10.{out}.0.1", rand.randint(64, 300))
            flows[out].append(bench.router.decide(i, other)[2])
            await bench.sources[i].send(XgmiiFrame.from_payload(other))
        await bench.host_send(port, frame)
        if rand.random() < 0.5:
            await bench.drain()
    await bench.drain()
    lost = 0
    for p in range(PORTS):
        lost += (await bench.counters(p))["full"]
        got = []
        while not bench.sinks[p].empty():
            frame = bench.sinks[p].recv_nowait()
            assert frame.check_fcs()
            got.append(bytes(frame.get_payload()))
        mine = [f for f in got if f in set(expected[p])]
        assert mine == expected[p]
        rest = Counter(flows[p])
        rest.subtract(f for f in got if f not in set(expected[p]))
        assert min(rest.values(), default=0) >= 0
        lost -= sum(rest.values())
    assert lost == 0
    # The longest frame leaves whole; a longer one is cut and spoiled, the next one is whole again.
    for size in (MAX_FRAME - 4, MAX_FRAME + rand.randint(1, 100), 60):
        frame = rand.randbytes(size)
        await bench.host_send(1, frame)
        got = await bench.sinks[1].recv()
        cut = size > MAX_FRAME
        assert got.check_fcs() != cut and any(got.ctrl or []) == cut
        assert bytes(got.get_payload()) == frame[:MAX_FRAME]


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def slow_host(dut) -> None:
    """A host slower than its frames gets whole frames; what finds no room is counted."""
    bench = await setup(dut)
    rand = bench.rand
    bench.host_rate = 0.3
    wanted: Counter[tuple[bytes, str, int, bool]] = Counter()
    for n in range(60):
        port = rand.randrange(PORTS)
        if n < 12:
            # Too long: cut, and as long as a FIFO must take.
            frame = bench.v4(0, "10.9.0.1", 1500)
            frame += rand.randbytes(MAX_FRAME + rand.randint(1, 90) - len(frame))
            raw = b"\1" + frame[1:]
            frame = raw[: MAX_FRAME // 8 * 8 + 8][:-4]
            wanted[frame, "host_link", 0, True] += 1
            bench.sources[0].send_nowait(XgmiiFrame.from_raw_payload(raw))
        else:
            frame = bench.v4(port, "10.9.0.1", rand.randint(64, 600))
            wanted[frame, "host_route", port, False] += 1
            bench.sources[port].send_nowait(XgmiiFrame.from_payload(frame))
    await bench.drain()
    for item in bench.host:
        wanted[item] -= 1
    assert min(wanted.values()) >= 0
    full = sum([(await bench.counters(p))["full"] for p in range(PORTS)])
    assert full == sum(wanted.values()) and 0 < full < 60
    assert sum(item[3] for item in bench.host) >= 2


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def mtu_decides(dut) -> None:
    """The longest packet that an egress takes is forwarded, one byte more goes to the host."""
    bench = await setup(dut)
    for mtu in (576, 1500, 9198):
        bench.router.mtus[2] = mtu
        await bench.set_field(2, FIELD_MTU, mtu)
        for v6 in (False, True):
            for size in (mtu, mtu + 1) if mtu < 9198 else (mtu,):
                build, target = (bench.v6, "2001:db8:2::1") if v6 else (bench.v4, "10.2.0.1")
                frame = build(1, target, size + 18)
                verdict, _, expected = bench.router.decide(1, frame)
                assert verdict == ("forward" if size == mtu else "host_mtu")
                await bench.sources[1].send(XgmiiFrame.from_payload(frame))
                await bench.drain()
                if verdict == "forward":
                    assert bytes(bench.sinks[2].recv_nowait().get_payload()) == expected
                else:
                    assert bench.host.pop() == (frame, verdict, 1, False)


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def stores_and_checks(dut) -> None:
    """A port with many bad frames switches to store-and-check by itself, and back."""
    bench = await setup(dut)
    rand = bench.rand
    limit = rand.randint(1, 6)
    await bench.set_field(0, FIELD_CHECK, 0 << 10 | limit << 2 | CHECK_AUTO)
    wanted = Counter()

    async def send(bad: bool, size: int = 64) -> tuple[XgmiiFrame | None, float]:
        frame = bench.v4(0, "10.1.0.1", size)
        raw = bytearray(with_fcs(frame))
        if bad:
            raw[-1] ^= 1
        sent = XgmiiFrame.from_raw_payload(raw)
        starts: list[XgmiiFrame] = []
        sent.tx_complete = starts.append
        await bench.sources[0].send(sent)
        await bench.sources[0].wait()
        for _ in range(size // 8 + 40):
            await RisingEdge(dut.clk_i)
        if bench.sinks[1].empty():
            return None, 0
        got = bench.sinks[1].recv_nowait()
        assert bytes(got.get_payload()) == bench.router.decide(0, frame)[2]
        assert got.check_fcs() != bad
        return got, bench.cycles(starts[0], got)

    # Cut-through: bad frames leave spoiled.
    for _ in range(limit + 1):
        assert not int(dut.check_o.value)
        got, cycles = await send(bad=True, size=1000)
        assert got and any(got.ctrl) and cycles == bench.v4_cycles
        wanted["spoiled"] += 1
        wanted["forward"] += 1
    assert int(dut.check_o.value) == 1
    # Store-and-check: they are dropped whole, and good ones leave when their end is known.
    for size in (64, 999, MAX_FRAME):
        assert (await send(bad=True, size=size))[0] is None
        wanted["drop_bad"] += 1
        got, cycles = await send(bad=False, size=size)
        wanted["forward"] += 1
        assert got and max(bench.v4_cycles, size // 8) <= cycles <= size // 8 + bench.v4_cycles
    # A window without a bad frame ends it; the one under way has some.
    count = 0
    while int(dut.check_o.value):
        for _ in range(8):
            bench.sources[0].send_nowait(XgmiiFrame.from_payload(bench.v4(0, "10.1.0.1", 64)))
        await bench.drain()
        count += 8
        assert count <= 2 * CHECK_WINDOW
    assert count > CHECK_WINDOW
    wanted["forward"] += count
    assert bench.sinks[1].count() == count
    bench.sinks[1].clear()
    got, cycles = await send(bad=False, size=1000)
    assert got and cycles == bench.v4_cycles
    wanted["forward"] += 1
    found = await bench.counters(0)
    assert found["changes"] == 1
    assert Counter({n: found[n] for n in ("spoiled", "forward", "drop_bad")}) == wanted


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def junk_on_the_line(dut) -> None:
    """As many frames of a few bytes as fit behind the longest, stored: all counted, none lost."""
    bench = await setup(dut)
    rand = bench.rand
    for p in range(PORTS):
        await bench.set_field(p, FIELD_CHECK, (p % 2) * CHECK_ALWAYS)
    good: list[bytes] = []
    wanted = [Counter() for _ in range(PORTS)]
    for p in range(PORTS):
        for size in (MAX_FRAME, 64):
            frame = bench.v4(p, f"10.{p}.0.1", size)
            good.append(bench.router.decide(p, frame)[2])
            bench.sources[p].send_nowait(XgmiiFrame.from_payload(frame))
            # Each ends the one before with its start.
            data, ctrl = bytearray(), []
            for n in range(400):
                load = rand.choice((1, 4)) if p < 2 else rand.randint(1, 70)
                data += b"\xfb" + b"\x55" * 6 + b"\xd5" + rand.randbytes(load) + b"\xfd"
                ctrl += [1] + [0] * (7 + load) + [1]
                gap = -len(data) % (4 if p % 2 else 8) + (4 * (n % 5 == 0 and p > 2))
                data += b"\x07" * gap
                ctrl += [1] * gap
                wanted[p]["rx_runt" if load < 64 else "rx_bad_fcs"] += 1
                short = "drop_runt" if load < 64 else "drop_not_mine"
                wanted[p][short] += 1
            data[0], ctrl[0] = 0x55, 0
            junk = XgmiiFrame(data, ctrl)
            bench.sources[p].send_nowait(junk)
            frame = bench.v4(p, f"10.{p}.0.1", 100)
            good.append(bench.router.decide(p, frame)[2])
            bench.sources[p].send_nowait(XgmiiFrame.from_payload(frame))
    await bench.drain()
    got = []
    for p in range(PORTS):
        while not bench.sinks[p].empty():
            got.append(bytes(bench.sinks[p].recv_nowait().get_payload()))
    assert Counter(got) == Counter(good)
    for p in range(PORTS):
        found = await bench.counters(p)
        # A longer one may look like anything.
        judged = found["drop_not_mine"] + found["host_link"] + found["drop_bad"]
        assert found["drop_runt"] == wanted[p]["drop_runt"]
        assert judged == wanted[p]["drop_not_mine"]
        assert found["rx_runt"] == wanted[p]["rx_runt"]
        assert found["rx_bad_fcs"] == wanted[p]["rx_bad_fcs"]
        assert found["rx_good"] == found["forward"] == 4
    bench.host.clear()


@cocotb.test(skip=not VLAN, timeout_time=LIMIT_MS, timeout_unit="ms")
async def vlans(dut) -> None:
    """Tags are wanted and taken off, or put on, as the ports are set; other tags drop a frame."""
    bench = await setup(dut)
    rand = bench.rand
    vid_in, vid_out = rand.randrange(1, 4095), rand.randrange(1, 4095)
    await bench.set_field(0, FIELD_VLAN, 1 << 12 | vid_in)
    await bench.set_field(1, FIELD_VLAN, 1 << 25 | vid_out << 13)
    await bench.write(MEM_DRAIN, 0, 0)
    wanted = Counter()
    for _ in range(60):
        i, o = rand.randrange(2), rand.randrange(2)
        v6 = rand.random() < 0.3
        size = rand.choice((64, 68, 70, 1518, rand.randint(64, 200)))
        # A tagged frame of 64 bytes holds 4 less.
        least = 66 if v6 else 64
        build, target = (bench.v6, f"2001:db8:{o}::1") if v6 else (bench.v4, f"10.{o}.0.1")
        frame = build(i, target, max(size, least))
        vid = vid_in if rand.random() < 0.8 else rand.randrange(4096)
        tag = b"\x81\x00" + (rand.randrange(16) << 12 | vid).to_bytes(2, "big")
        raw = frame[:12] + tag + frame[12:] if i == 0 and rand.random() < 0.9 else frame
        tagged = raw != frame
        starts: list[XgmiiFrame] = []
        sent = XgmiiFrame.from_payload(raw)
        sent.tx_complete = starts.append
        await bench.sources[i].send(sent)
        await bench.drain()
        if i == 0 and not (tagged and vid == vid_in):
            wanted["drop_vlan"] += 1
            assert bench.sinks[o].empty()
            continue
        verdict, port, expected = bench.router.decide(i, frame)
        assert (verdict, port) == ("forward", o)
        if o == 1:
            expected = expected[:12] + b"\x81\x00" + vid_out.to_bytes(2, "big") + expected[12:]
        got = bench.sinks[o].recv_nowait()
        assert got.check_fcs() and bytes(got.get_payload()) == expected
        # A tag costs nothing: without one a beat waits as long for the beat behind it.
        assert bench.cycles(starts[0], got) == (bench.v6_cycles if v6 else bench.v4_cycles)
        wanted["forward"] += i == 0
    found = await bench.counters(0)
    assert found["drop_vlan"] == wanted["drop_vlan"] and found["forward"] == wanted["forward"]
    # Tagged frames shorter than 64 bytes are runts; 64 bytes with the tag are not.
    frame = bench.v4(0, "10.0.0.1", 64)[:-4]
    tag = b"\x81\x00" + vid_in.to_bytes(2, "big")
    for size in (59, 60):
        raw = frame[:12] + tag + frame[12 : size - 4]
        await bench.sources[0].send(XgmiiFrame.from_raw_payload(with_fcs(raw)))
    await bench.drain()
    found = await bench.counters(0)
    assert found["drop_runt"] == 1
    assert found["forward"] == wanted["forward"] + 1


@pytest.mark.parametrize(NAMES, drawn("fibnic", LATENCIES, 2))
def test_fibnic(AsyncRx: int, ReadLatency: int, Lookups: int, Vlan: int, Waiting: int) -> None:
    """Run all: with the crossing of the receive clocks, with one clock, and with one lookup."""
    build = (AsyncRx, ReadLatency, Lookups, Vlan, Waiting)
    parameters = dict(zip(NAMES, build, strict=True))
    build_and_run(
        "tb_fibnic",
        __name__,
        filelists=["rtl/fibnic/fibnic.f"],
        sources=["verif/fibnic/tb_fibnic.sv"],
        parameters=parameters,
        testcases=BRIEFLY.get(build),
        extra_env={name.upper(): str(value) for name, value in parameters.items()},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
