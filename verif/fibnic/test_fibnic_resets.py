# SPDX-License-Identifier: Apache-2.0
"""Bench of the switch whose receive sides are reset, or lose their clocks, under traffic."""

from __future__ import annotations

import itertools
import os

import cocotb
import pytest
import test_fibnic
import test_fibnic_1g
from cocotb.simtime import get_sim_time
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from cocotbext.eth import GmiiFrame, XgmiiFrame
from fibnic_bench import CHECK_ALWAYS, FIELD_CHECK, FIELD_MAC, PERIOD_PS, PORTS, Bench, rng
from harness import build_and_run
from reset_bench import LONG, Disturber, Port, one_sided_resets

LIMIT_MS = 200 if LONG else 5  # of simulated time, against hanging
LOCAL_FAULT, REMOTE_FAULT = 1, 2
SPEED = os.environ.get("SPEED", "10g")
START_CTRL = {0x01: 0, 0x1F: PERIOD_PS // 2}  # of a frame's first word; the start's time in it
STOP_CYCLES = 100
BURST = 40  # frames, of which a fault in their middle leaves some
NO_IDLE_WORD = 85  # a gap of 11 bytes leads from lane 1 to lane 4; three of four are as small
REST_CYCLES = 300  # from a frame's end to where nothing of it is left
FAULT_COLUMNS = 128  # without a sequence, until the fault is over
ROUNDING_PS = 8  # of the source's times


async def setup(dut) -> tuple[Bench, list, tuple]:
    """Start a switch whose receive clocks are its own."""
    if SPEED == "10g":
        bench = Bench(dut, rng())
        await bench.start(one_clock=False)
        await bench.routes()
        return bench, bench.rx_clocks, (XgmiiFrame, PERIOD_PS, "ctrl")
    bench = await test_fibnic_1g.setup(dut, one_clock=False)
    phases = [bench.rand.randint(1, test_fibnic_1g.PERIOD_PS - 1) for _ in range(PORTS)]
    await bench.retime(phases, [bench.rand.choice([-1, 0, 1]) for _ in range(PORTS)])
    await Timer(100 * test_fibnic_1g.PERIOD_PS, "ps")
    # retime() starts them in the order of their phases.
    order = sorted(range(PORTS), key=lambda p: phases[p])
    clocks = [bench.clocks[order.index(p)] for p in range(PORTS)]
    return bench, clocks, (GmiiFrame, test_fibnic_1g.PERIOD_PS, "error")


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def receive_sides(dut) -> None:
    """Nothing comes twice, late or mixed; the other ports do not notice."""
    bench, clocks, kit = await setup(dut)
    await one_sided_resets(bench, clocks, kit)


@cocotb.test(skip=SPEED != "10g", timeout_time=LIMIT_MS, timeout_unit="ms")
async def link_faults(dut) -> None:
    """A port that receives nothing says so; what it should send is gone; others forward."""
    bench, _, _ = await setup(dut)

    async def cycles(count: int) -> None:
        for _ in range(count):
            await RisingEdge(dut.clk_i)

    async def passes(i: int, o: int, size: int = 80) -> None:
        frame = bench.v4(i, f"10.{o}.0.1", size)
        await bench.sources[i].send(XgmiiFrame.from_payload(frame))
        got = await bench.sinks[o].recv()
        assert got.check_fcs() and not any(got.ctrl or [])
        assert bytes(got.get_payload()) == bench.router.decide(i, frame)[2]

    for fault, told in ((LOCAL_FAULT, REMOTE_FAULT), (REMOTE_FAULT, None)):
        p = bench.rand.randrange(PORTS)
        i, o = bench.rand.sample([q for q in range(PORTS) if q != p], 2)
        source, sink, pins = bench.sources[p], bench.sinks[p], dut[f"xgmii_txc_{p}_o"]
        flag = dut.local_fault_o if fault == LOCAL_FAULT else dut.remote_fault_o
        await passes(i, p)
        sink.get_os()  # the sink keeps what the port has told in an earlier round
        # A frame is leaving when the fault comes: it is cut with an error.
        frame = XgmiiFrame.from_payload(bench.v4(i, f"10.{p}.0.1", 1500))
        await bench.sources[i].send(frame)
        await cycles(40)
        source.os = fault
        source.active_event.set()
        got = await sink.recv()
        assert any(got.ctrl or []) and not got.check_fcs()
        assert int(flag.value) == 1 << p
        for _ in range(5):
            await bench.sources[i].send(XgmiiFrame.from_payload(bench.v4(i, f"10.{p}.0.1", 80)))
            await passes(o, i)
        await cycles(40)
        assert sink.empty() and sink.os == told
        assert int(pins.value) == (0x11 if told else 0xFF)
        # Nor does the rest of a frame leave that was under way when the fault ended.
        await bench.sources[i].send(XgmiiFrame.from_payload(bench.v4(i, f"10.{p}.0.1", 3000)))
        source.os = None
        await cycles(100)
        assert not int(flag.value)
        await bench.drain()
        assert sink.empty()
        await passes(i, p)
        await passes(p, o)


@cocotb.test(skip=SPEED != "10g", timeout_time=LIMIT_MS, timeout_unit="ms")
async def frames_behind_a_fault(dut) -> None:
    """What arrives when a fault is over leaves, in either lane, however small the gaps are."""
    bench, clocks, kit = await setup(dut)
    run = Disturber(bench, *kit)
    run.ports = [Port(clock, v6=False, storing=False) for clock in clocks]
    checked = 0
    for fault in (LOCAL_FAULT, REMOTE_FAULT) * 8:
        p, i = bench.rand.sample(range(PORTS), 2)
        sent = run.ports[i].sent
        sent.clear()
        for _ in range(BURST):
            frame = bench.v4(i, f"10.{p}.0.1", NO_IDLE_WORD)
            run.queue(i, frame, bench.router.decide(i, frame)[2])
        for _ in range(bench.rand.randint(30, 60)):
            await RisingEdge(dut.clk_i)
        flag = dut.local_fault_o if fault == LOCAL_FAULT else dut.remote_fault_o
        bench.sources[p].os = fault
        bench.sources[p].active_event.set()
        while not int(flag.value):
            await RisingEdge(dut.clk_i)
        bench.sources[p].os = None
        while int(flag.value):
            await RisingEdge(dut.clk_i)
        over = get_sim_time("ps")
        await bench.drain()
        came = set()
        while not bench.sinks[p].empty():
            got = bench.sinks[p].recv_nowait()
            if got.check_fcs() and not any(got.ctrl or []):
                came.add(bytes(got.get_payload()))
        behind = [expected for frame, expected in sent if frame.sim_time_start > over]
        checked += len(behind)
        assert all(expected in came for expected in behind), "a frame behind a fault is lost"
    assert checked > BURST


@cocotb.test(skip=SPEED != "10g", timeout_time=LIMIT_MS, timeout_unit="ms")
async def counted_faults_are_no_rest(dut) -> None:
    """While a port counts fault sequences, or columns behind them, it says that it is busy."""
    bench, _, _ = await setup(dut)
    await bench.drain()
    p = bench.rand.randrange(PORTS)
    pins = dut[f"xgmii_rxd_{p}_i"], dut[f"xgmii_rxc_{p}_i"]
    rest = [int(pin.value) for pin in pins]
    for count in (1, 3, 4):
        for _ in range(count):
            pins[0].value, pins[1].value = rest[0] >> 32 << 32 | 0x0100009C, 0xF1
            await RisingEdge(dut[f"clk_rx_{p}_i"])
        pins[0].value, pins[1].value = rest
        for _ in range(8):
            await RisingEdge(dut.clk_i)
        # Two columns a word; some of them have gone by.
        for _ in range(FAULT_COLUMNS // 2 - 10):
            await RisingEdge(dut.clk_i)
            assert dut.busy_o.value, f"rests behind {count} sequences"
            assert int(dut.local_fault_o.value) == (count > 3) << p
        for _ in range(30):
            await RisingEdge(dut.clk_i)
        assert not dut.busy_o.value and not int(dut.local_fault_o.value)


@cocotb.test(skip=SPEED != "10g", timeout_time=LIMIT_MS, timeout_unit="ms")
async def core_reset_near_a_port_s(dut) -> None:
    """The core's reset comes with a port's, or some cycles apart: nothing is counted of either."""
    bench, _, _ = await setup(dut)
    p = bench.rand.randrange(PORTS)
    for behind in range(-10, 14):
        bench.sources[p].send_nowait(XgmiiFrame.from_payload(bench.v4(p, "10.0.0.1", 800)))
        for cycle in range(60):
            await RisingEdge(dut.clk_i)
            dut.rst_rx_i.value = (cycle >= 40) << p
            dut.rst_i.value = 0 <= cycle - 40 - behind < 4
        dut.rst_rx_i.value = 0
        await bench.drain()
        assert not await bench.counters(p), f"{behind} cycles behind"


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def core_reset_of_an_edge(dut) -> None:
    """A reset of the core of one edge or two leaves nothing of a frame, whatever had come of it."""
    bench, _, kit = await setup(dut)
    p = bench.rand.randrange(PORTS)
    for edges, moment in itertools.product((1, 2), range(8, 80, 3)):
        bench.sources[p].send_nowait(kit[0].from_payload(bench.v4(p, "10.0.0.1", 150)))
        for _ in range(moment):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 1
        for _ in range(edges):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        await bench.sources[p].wait()
        for _ in range(REST_CYCLES):
            await RisingEdge(dut.clk_i)
        assert not dut.busy_o.value, f"something is left of {edges} edges after {moment} cycles"
        # Without its address nothing of the next frame would get into the core.
        await bench.set_field(p, FIELD_MAC, int.from_bytes(bench.router.port_macs[p], "big"))


@cocotb.test(skip=SPEED != "10g", timeout_time=LIMIT_MS, timeout_unit="ms")
async def stopped_starts(dut) -> None:
    """The bench knows when a frame began, if the clock stood before or in its first words, too."""
    bench, clocks, kit = await setup(dut)
    run = Disturber(bench, *kit)
    run.ports = [Port(clock, v6=False, storing=False) for clock in clocks]
    p = bench.rand.randrange(PORTS)
    sent, clock = run.ports[p].sent, dut[f"clk_rx_{p}_i"]
    starts: list[float] = []

    async def watch() -> None:
        before = 0.0
        while True:
            await RisingEdge(clock)
            # What is on the pins came with the edge before.
            ctrl = int(dut[f"xgmii_rxc_{p}_i"].value)
            if ctrl in START_CTRL:
                starts.append(before + START_CTRL[ctrl])
            before = get_sim_time("ps")

    cocotb.start_soon(watch())
    for edges in range(4):
        # Behind a frame that ends with a whole word the next one begins in the middle of one.
        for _ in range(2):
            run.queue(p, bench.v4(p, f"10.{p}.0.1", 80), b"")
        first = len(sent)
        while len(sent) == first:
            await FallingEdge(clock)
        for _ in range(edges):
            await FallingEdge(clock)
        clocks[p].stop()
        await Timer(STOP_CYCLES * PERIOD_PS, "ps")
        clocks[p].start()
        await bench.drain()
        assert sent[-1][0].start_lane
    assert len(starts) == len(sent)
    for wanted, (frame, _) in zip(starts, sent, strict=True):
        assert abs(frame.sim_time_start - wanted) <= ROUNDING_PS


@cocotb.test(skip=SPEED != "10g", timeout_time=LIMIT_MS, timeout_unit="ms")
async def stored_stops(dut) -> None:
    """A frame that is stored leaves whole, wherever in it or behind it the clock has stood."""
    bench, clocks, _ = await setup(dut)
    p, out = bench.rand.sample(range(PORTS), 2)
    await bench.set_field(p, FIELD_CHECK, CHECK_ALWAYS)
    edge = RisingEdge(dut[f"clk_rx_{p}_i"])
    # The last beat follows the end, which is cut off, or the end is FCS alone.
    for size, edges in itertools.product((80, 84), range(6, 20)):
        frame = bench.v4(p, f"10.{out}.0.1", size)
        await bench.sources[p].send(XgmiiFrame.from_payload(frame))
        for _ in range(edges):
            await edge
        clocks[p].stop()
        await Timer(STOP_CYCLES * PERIOD_PS, "ps")
        clocks[p].start()
        await bench.drain()
        got = bench.sinks[out].recv_nowait()
        assert got.check_fcs() and not any(got.ctrl or []), f"{size} bytes, {edges} edges"
        assert bytes(got.get_payload()) == bench.router.decide(p, frame)[2]
        assert bench.sinks[out].empty()


@pytest.mark.parametrize("speed", ["10g", "1g"])
def test_fibnic_resets(speed: str) -> None:
    """Run all, on builds that the other benches have, too."""
    if speed == "10g":
        names, values = test_fibnic.NAMES, next(iter(test_fibnic.LATENCIES))
        flags, suffix = [], ""
    else:
        names, values = ("AsyncRx", "Lookups", "Sram22"), next(iter(test_fibnic_1g.LATENCIES))
        flags, suffix = ["--inline-mult", "1", "--unroll-count", "16"], "_1g"
    parameters = dict(zip(names, values, strict=True))
    variables = names if speed == "10g" else ("ASYNC_RX", "LOOKUPS", "SRAM22")
    build_and_run(
        f"tb_fibnic{suffix}",
        __name__,
        filelists=[f"rtl/fibnic/fibnic{suffix}.f"],
        sources=[f"verif/fibnic/tb_fibnic{suffix}.sv"],
        parameters=parameters,
        extra_env={
            "SPEED": speed,
            **{n.upper(): str(v) for n, v in zip(variables, values, strict=True)},
        },
        build_args=["-Wno-UNUSEDPARAM", *flags],  # packages are used in part
    )
