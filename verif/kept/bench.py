# SPDX-License-Identifier: Apache-2.0
"""A bench whose result depends on a file, a helper and a variable; `steps.py` runs it."""

from __future__ import annotations

import os
from pathlib import Path

import cocotb
import helper
from cocotb.triggers import Timer

HERE = Path(__file__).resolve().parent


@cocotb.test()
async def reads(dut) -> None:
    """Pass as long as the data say so, and leave a trace of having run."""
    await Timer(1, "ns")
    with (HERE / "runs.log").open("a") as log:
        log.write("run\n")
    Path(os.environ["BENCH_OUT"]).write_text(helper.NAME)
    assert (HERE / "data.txt").read_text() == "good\n"
    assert os.environ.get("IPNUMA_BENCH_MOOD", "good") != "bad"
    assert len(dut.data_i) == 8
