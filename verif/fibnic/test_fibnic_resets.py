# SPDX-License-Identifier: Apache-2.0
"""Bench of the switch whose receive sides are reset one by one, or lose their clocks, under traffic."""

from __future__ import annotations

import os

import cocotb
import pytest
import test_fibnic
import test_fibnic_1g
from cocotb.triggers import Timer
from cocotbext.eth import GmiiFrame, XgmiiFrame
from fibnic_bench import PERIOD_PS, PORTS, Bench, rng
from harness import build_and_run
from reset_bench import LONG, one_sided_resets

LIMIT_MS = 200 if LONG else 0.6  # of simulated time, against hanging
SPEED = os.environ.get("SPEED", "10g")


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
