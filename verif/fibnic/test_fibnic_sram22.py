# SPDX-License-Identifier: Apache-2.0
"""Bench of the switch at 10G with the dissertation's lookup: an SRAM for IPv4, a TCAM for IPv6."""

from __future__ import annotations

import cocotb
from cocotb.triggers import Timer
from cocotbext.eth import XgmiiFrame
from fibnic_bench import NAMES, PERIOD_PS, PORTS, Bench, rng
from harness import build_and_run

LIMIT_MS = 5  # of simulated time, against hanging
BUILD = (0, 1, 4, 0, 4)  # as NAMES


async def setup(dut) -> Bench:
    """Start a bench with the tables of the dissertation's lookup."""
    bench = Bench(dut, rng())
    await bench.start()
    await bench.dissertation_routes()
    return bench


def frame_inside(bench: Bench, port: int, net, size: int) -> tuple[bytes, bool]:
    """Build a frame to an address of a prefix, and say whether it is of IPv6."""
    inside = str(net.network_address + bench.rand.randrange(1, net.num_addresses))
    build, least = (bench.v6, 66) if net.version == 6 else (bench.v4, 64)
    return build(port, inside, max(size, least)), net.version == 6


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def one_latency_for_each_family(dut) -> None:
    """Every size, prefix and next hop: as the model says, and as many cycles."""
    bench = await setup(dut)
    rand = bench.rand
    nets = list(bench.router.routes)
    for net in nets * 4:
        i = rand.randrange(PORTS)
        size = rand.choice([64, 65, 72, 128, 1518, 9216])
        frame, v6 = frame_inside(bench, i, net, size)
        verdict, o, expected = bench.router.decide(i, frame)
        assert verdict == "forward"
        starts: list[XgmiiFrame] = []
        sent = XgmiiFrame.from_payload(frame)
        sent.tx_complete = starts.append
        await bench.sources[i].send(sent)
        await bench.drain()
        got = bench.sinks[o].recv_nowait()
        assert got.check_fcs() and bytes(got.get_payload()) == expected
        want = bench.v6_cycles if v6 else bench.v4_cycles
        assert bench.cycles(starts[0], got) == want, (bench.cycles(starts[0], got), want, v6)
        await Timer(PERIOD_PS * rand.randint(1, 40), "ps")
    # No route is no route.
    for frame in (bench.v4(0, "9.1.2.3", 64), bench.v6(0, "2002::1", 66)):
        await bench.sources[0].send(XgmiiFrame.from_payload(frame))
    await bench.drain()
    assert (await bench.counters(0))["host_no_route"] == 2


@cocotb.test(timeout_time=LIMIT_MS, timeout_unit="ms")
async def line_rate(dut) -> None:
    """A port of shortest frames of both families in any order, to all next hops: none is lost."""
    bench = await setup(dut)
    rand = bench.rand
    nets = list(bench.router.routes)
    expected: list[list[bytes]] = [[] for _ in range(PORTS)]
    for _ in range(300):
        frame, _v6 = frame_inside(bench, 0, rand.choice(nets), 64)
        verdict, o, forwarded = bench.router.decide(0, frame)
        assert verdict == "forward"
        expected[o].append(forwarded)
        bench.sources[0].send_nowait(XgmiiFrame.from_payload(frame))
    await bench.drain()
    for o in range(PORTS):
        got = [bench.sinks[o].recv_nowait() for _ in range(bench.sinks[o].count())]
        assert all(one.check_fcs() for one in got)
        assert [bytes(one.get_payload()) for one in got] == expected[o]
    assert (await bench.counters(0))["full"] == 0


def test_fibnic_sram22() -> None:
    """Run all."""
    parameters = dict(zip(NAMES, BUILD, strict=True)) | {"Sram22": 1}
    build_and_run(
        "tb_fibnic",
        __name__,
        filelists=["rtl/fibnic/fibnic.f"],
        sources=["verif/fibnic/tb_fibnic.sv"],
        parameters=parameters,
        extra_env={name.upper(): str(value) for name, value in parameters.items()},
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
