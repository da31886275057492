# SPDX-License-Identifier: Apache-2.0
"""The 10G switch with as many ports as it may have, and with other room in its FIFOs."""

from __future__ import annotations

import os
from collections import Counter

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from cocotbext.eth import XgmiiFrame
from elaboration import complaint
from fibnic_bench import rng
from harness import build_and_run, drawn
from ports_bench import HOST4, PortsBench

LIMIT_MS = 5  # of simulated time, against hanging
FILELISTS = ["rtl/fibnic/fibnic.f"]
LONG = bool(os.environ.get("IPNUMA_LONG"))
# The shortest frame with an IPv6 header and UDP, and the longest of Ethernet.
SHORTEST, ETHERNET = 66, 1518
INCAST = 200 if LONG else 40  # frames of each port


async def begin(dut) -> PortsBench:
    """Start a bench."""
    bench = PortsBench(dut, rng())
    await bench.start()
    return bench


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def every_port_reaches_every_port(dut) -> None:
    """All ports send at once, in turn to each port: byte-exact, in time, and nothing is lost."""
    bench = await begin(dut)
    ports, rand = bench.ports, bench.rand
    # In one of the turns all are long.
    long_turn = rand.randrange(ports)
    for distance in rand.sample(range(ports), ports):
        flows = []
        for i in range(ports):
            o = (i + distance) % ports
            times: list[XgmiiFrame] = []
            for v6 in rand.sample((False, True), 2):
                shortest = SHORTEST if v6 else 64
                size = rand.choice((shortest, rand.randint(shortest, 300)))
                size = ETHERNET if distance == long_turn else size
                sent, left = bench.frame(i, o, size, v6=v6)
                bench.send(i, sent, times)
                flows.append((o, v6, left, times))
        await bench.drain()
        got = [bench.received(p) for p in range(ports)]
        for n, (o, v6, left, times) in enumerate(flows):
            frame = got[o].pop(0)
            assert bytes(frame.get_payload()) == left, (distance, o)
            # A port's second frame may wait for the first one's lookup.
            if n % 2 == 0:
                assert times[0].start_lane == 0
                wanted = bench.v6_cycles if v6 else bench.v4_cycles
                assert bench.cycles(times[0], frame) == wanted, (distance, o, v6)
        assert not any(got), "a frame that nobody sent"
    count = 2 * ports
    for p, found in enumerate(await bench.all_counters()):
        assert found == Counter(forward=count, rx_good=count, tx_good=count), (p, found)


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def all_to_one_loses_what_is_counted(dut) -> None:
    """All other ports at line rate to one: equal shares of whole frames in order, the rest counted.

    The one sends to another meanwhile, and nothing of that is lost.
    """
    bench = await begin(dut)
    ports, rand = bench.ports, bench.rand
    out = rand.randrange(ports)
    ins = [p for p in range(ports) if p != out]
    apart = rand.choice(ins)
    wanted: dict[int, list[bytes]] = {i: [] for i in ins}
    source: dict[bytes, int] = {}
    for n in range(INCAST):
        # One length at a time: shares are of frames.
        size = (64, 300)[n >= INCAST // 2]
        for i in ins:
            sent, left = bench.frame(i, out, size)
            assert left not in source
            bench.send(i, sent)
            wanted[i].append(left)
            source[left] = i
    away = [bench.frame(out, apart, rand.randint(64, 600)) for _ in range(INCAST)]
    for sent, _ in away:
        bench.send(out, sent)
    await bench.drain()
    shares = Counter()
    rest = {i: iter(wanted[i]) for i in ins}
    for frame in bench.received(out):
        data = bytes(frame.get_payload())
        shares[source[data]] += 1
        assert data in rest[source[data]], "not in order, or twice"
    assert [bytes(g.get_payload()) for g in bench.received(apart)] == [left for _, left in away]
    assert all(bench.sinks[p].empty() for p in range(ports))
    found = await bench.all_counters()
    for i in ins:
        lost = INCAST - shares[i]
        want = Counter(forward=INCAST, rx_good=INCAST, full=lost)
        want["tx_good"] = INCAST if i == apart else 0
        assert found[i] == +want, (i, found[i], shares)
        assert lost > 0, (i, shares)
    assert max(shares.values()) - min(shares.values()) <= 2, shares
    want = Counter(forward=INCAST, rx_good=INCAST, tx_good=sum(shares.values()))
    assert found[out] == want, found[out]
    dut._log.info(f"{sum(shares.values())} of {len(ins) * INCAST}: {dict(shares)}")


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def the_host_and_every_port(dut) -> None:
    """Each port's frame reaches the host with the port's number, and the host's each port."""
    bench = await begin(dut)
    ports = bench.ports
    sent = {p: bench.v4(p, HOST4, 64 + 8 * p) for p in range(ports)}
    for p, frame in sent.items():
        bench.send(p, frame)
    await bench.drain()
    assert sorted(bench.host, key=lambda item: item[2]) == [
        (frame, "host_route", p, False) for p, frame in sent.items()
    ]
    answers = {p: bench.rand.randbytes(60 + p) for p in range(ports)}
    for p in bench.rand.sample(range(ports), ports):
        await bench.host_send(p, answers[p])
    await bench.drain()
    for p in range(ports):
        assert [bytes(g.get_payload()) for g in bench.received(p)] == [answers[p]]


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def as_many_wait_as_may_and_fit(dut) -> None:
    """While others hold an output so many wait as the threshold and the memory let, no more."""
    bench = await begin(dut)
    # The output may be any port, since one may send to itself. The turn goes round by number.
    out, first = bench.rand.randrange(bench.ports), bench.rand.randrange(bench.ports)
    second, last = ((first + n) % bench.ports for n in (1, 2))
    longest = (bench.max_frame + 7) // 8 + 1  # beats, of one that is cut
    for size in (64, 65, 600, ETHERNET):
        beats = (size - 4 + 7) // 8
        # One more is taken while the longest fits behind what is stored.
        spare = (bench.fifo_frames - 1) * longest
        fitting = min(bench.waiting, spare // beats + 1)
        before = await bench.counters(last)
        expected = []
        # The turn is the second one's when the first has left.
        for p in (first, second):
            sent, left = bench.frame(p, out, bench.max_frame)
            expected.append(left)
            bench.send(p, sent)
            for _ in range(20):
                await RisingEdge(dut.clk_i)
        for n in range(fitting + 2):
            sent, left = bench.frame(last, out, size)
            bench.send(last, sent)
            if n < fitting:
                expected.append(left)
        await bench.drain()
        assert [bytes(g.get_payload()) for g in bench.received(out)] == expected, size
        found = (await bench.counters(last)) - before
        del found["tx_good"]  # of the output, where that is its own
        assert found == Counter(forward=fitting + 2, rx_good=fitting + 2, full=2), (size, found)


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def a_frame_behind_the_longest(dut) -> None:
    """The longest frame waited and leaves; the next one is taken with memory for two, else not."""
    bench = await begin(dut)
    out, first, last = bench.rand.sample(range(bench.ports), 3)
    taken = bench.fifo_frames > 1
    sent, left = bench.frame(first, out, bench.max_frame)
    expected = [left]
    bench.send(first, sent)
    # So much later the frame that holds the output has ended when the short one comes.
    for _ in range(20):
        await RisingEdge(dut.clk_i)
    for size in (bench.max_frame, 64):
        sent, left = bench.frame(last, out, size)
        bench.send(last, sent)
        if taken or size != 64:
            expected.append(left)
    await bench.drain()
    # It has left: there is room again.
    sent, left = bench.frame(last, out, 64)
    expected.append(left)
    bench.send(last, sent)
    await bench.drain()
    assert [bytes(g.get_payload()) for g in bench.received(out)] == expected
    want = Counter(forward=3, rx_good=3, full=not taken)
    assert await bench.counters(last) == +want


PAIRS = ["every_port_reaches_every_port", "the_host_and_every_port"]
LOSSES = ["all_to_one_loses_what_is_counted"]
FIFOS = ["as_many_wait_as_may_and_fit", "a_frame_behind_the_longest"]


def run(parameters: dict[str, int], testcases: list[str]) -> None:
    """Build and run the switch with these sizes."""
    build_and_run(
        "tb_fibnic_ports",
        __name__,
        filelists=FILELISTS,
        sources=["verif/fibnic/tb_fibnic_ports.sv"],
        parameters=parameters,
        testcases=testcases,
        # Packages are used in part. Parts that are there several times keep their own class: a
        # fraction of the C++.
        build_args=["-Wno-UNUSEDPARAM", "--inline-mult", "1", "--unroll-count", "16"],
        # Sixteen ports take longer to compile than to run.
        optimization="-O0",
    )


@pytest.mark.parametrize("ports", [2, 11, 16] if LONG else [2, 16])
def test_ports(ports: int) -> None:
    """Run with the fewest ports and with the most; in the long form with a number between them."""
    run({"N": ports}, PAIRS if ports == 2 else PAIRS + LOSSES)


def test_shared_lookup() -> None:
    """Run with as many ports as one lookup can serve."""
    run({"N": 7, "Lookups": 1}, PAIRS + LOSSES)


# The smallest: one waits, where nothing else is stored. The dissertation's: one waits, in memory
# for two. Then more may wait than fit, and as many as always fit.
FIFO_SIZES = [(1, 1), (1, 2), (4, 1), (8, 2), (2, 3)]


@pytest.mark.parametrize(("waiting", "frames"), drawn("fibnic_fifos", FIFO_SIZES, 2))
def test_fifos(waiting: int, frames: int) -> None:
    """Run with other thresholds and other memories."""
    run({"N": 3, "Waiting": waiting, "FifoFrames": frames}, PAIRS + FIFOS)


SMALL = {"Lookups": 1, "AclRules": 0, "StoreAndCheck": 0, "AsyncRx": 0}


@pytest.mark.parametrize(
    ("top", "parameters", "why"),
    [
        ("fibnic_10g", SMALL | {"N": 1}, "fibnic_core: 2 to 16 ports"),
        ("fibnic_10g", SMALL | {"N": 17}, "fibnic_core: 2 to 16 ports"),
        ("fibnic_10g", SMALL | {"N": 8}, "fibnic_core: at 10G no more than 7 ports share a lookup"),
        ("fibnic_10g", SMALL | {"N": 3, "Lookups": 2}, "fibnic_core: one lookup, or one for each"),
        ("forward_fifo", {"Waiting": 0}, "forward_fifo: one frame or more waits"),
        ("forward_fifo", {"Frames": 0}, "forward_fifo.sv"),
    ],
)
def test_elaboration(top: str, parameters: dict[str, int], why: str) -> None:
    """Sizes that cannot be are refused before anything runs."""
    assert why in complaint(top, FILELISTS, parameters)
