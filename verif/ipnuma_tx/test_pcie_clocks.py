# SPDX-License-Identifier: Apache-2.0
"""The transmit chain at the usual clocks of PCI Express blocks, steady and with spread spectrum.

A store's token is ahead of its look-ups by as much as the clocks allow. If that is too much, its
frame goes out with the address of the slot's former store: to the wrong peer.
"""

from __future__ import annotations

import os

import cocotb
import pytest
from elaboration import complaint
from harness import build_and_run
from test_ipnuma_tx import FILELISTS, mixture

# Spread spectrum is 0.5 % down, the tolerance 300 ppm both ways.
LONGEST, SHORTEST = 1.0053, 0.9997
MHZ = (62.5, 125.0, 250.0)


def period(mhz: float, factor: float) -> int:
    """Return a period in picoseconds, away from the nominal one and never inside."""
    return int(1e6 / mhz * factor) + (factor > 1)


@cocotb.test()
async def all_reach_the_right_peer(dut) -> None:
    """Random TLPs against the reference, which knows the peer of each."""
    mhz = float(os.environ["IPNUMA_PCIE_MHZ"])
    steady = period(mhz, 1.0)
    spread = (period(mhz, SHORTEST), period(mhz, LONGEST))
    await mixture(dut, None, spread if os.environ["IPNUMA_SPREAD"] == "1" else (steady, steady))


# A build for a slow clock is safe with a faster one too: a link may come up slower, never faster.
@pytest.mark.parametrize(
    ("built", "mhz", "spread"),
    [(62.5, 62.5, 0), (62.5, 250.0, 1), (125.0, 125.0, 0), (125.0, 125.0, 1), (250.0, 250.0, 1)],
)
def test_clocks(built: float, mhz: float, spread: int) -> None:
    """All that is sent reaches its peer."""
    build_and_run(
        "tb_ipnuma_tx",
        __name__,
        filelists=FILELISTS,
        sources=["verif/ipnuma_tx/tb_ipnuma_tx.sv"],
        parameters={"PcieLongestPs": period(built, LONGEST)},
        build_args=["-Wno-UNUSEDPARAM"],
        extra_env={"IPNUMA_PCIE_MHZ": str(mhz), "IPNUMA_SPREAD": str(spread)},
    )


@pytest.mark.parametrize(
    ("parameters", "safe"),
    [
        ({"PcieLongestPs": 4263}, True),
        ({"PcieLongestPs": 4264, "TokenDelay": 0}, False),
        ({"PcieLongestPs": period(125.0, LONGEST), "TokenDelay": 1}, False),
        ({"PcieLongestPs": period(125.0, LONGEST), "TokenDelay": 2}, True),
        ({"PcieLongestPs": 0}, False),
        # Megahertz instead of picoseconds.
        ({"PcieLongestPs": 250}, False),
    ],
)
def test_elaboration(parameters: dict[str, int], safe: bool) -> None:
    """A token that would be ahead of the look-ups is refused before anything runs."""
    said = complaint("requester", ["rtl/ipnuma/ipnuma_tx.f"], parameters)
    assert (said == "") == safe, said
    if not safe:
        assert "requester: " in said
