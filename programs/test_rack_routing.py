# SPDX-License-Identifier: Apache-2.0
"""Switches in RTL whose routes come from BIRD and FRR: hosts reach each other, a cable is cut.

Two switches and the form with everything in it twice; IPNUMA_LONG=1 has four switches instead.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import programs
import rack

PATIENCE = 3000.0
DAEMONS = ("/usr/sbin/bird", "/usr/lib/frr/zebra", "/usr/lib/frr/ospfd", "/usr/lib/frr/bgpd")

pytestmark = pytest.mark.timeout(2 * int(PATIENCE) + 60)


def need_daemons() -> None:
    """Skip where they are not installed."""
    missing = [daemon for daemon in DAEMONS if not Path(daemon).is_file()]
    if missing:
        assert "IPNUMA_UML_REQUIRED" not in os.environ, f"missing: {missing}"
        pytest.skip(f"{', '.join(missing)} missing: install the packages bird2 and frr")


@dataclass
class Run:
    """What came out of one."""

    report: dict

    def said(self, guest: str) -> str:
        """Return what a guest's command printed."""
        return next(it["stdout"] for it in self.report["guests"] if it["name"] == guest)

    def forwarded_by_kernel(self, guest: str) -> dict[str, int]:
        """Return what a switch's host has forwarded, by the time."""
        found = re.findall(r"at (\S+) s the kernel has forwarded (\d+) packets", self.said(guest))
        return {second: int(count) for second, count in found}

    def silences(self, guest: str) -> list[tuple[int, int, float]]:
        """Return packets that came, packets lost, and seconds without one, of each stream."""
        found = re.findall(
            r"phase \d+: (\d+) packets came, (\d+) did not; longest without one (\d+) us",
            self.said(guest),
        )
        return [(int(came), int(lost), int(us) / 1e6) for came, lost, us in found]

    def names(self, begin: str) -> list[str]:
        """Return the guests whose names begin so."""
        return [it["name"] for it in self.report["guests"] if it["name"].startswith(begin)]


def run(topology: str, directory: Path) -> Run:
    """Run a topology of the repository."""
    file = programs.ROOT / "experiments" / "topologies" / f"{topology}.toml"
    line = [str(programs.executable()), "rack", str(file), "--json"]
    return Run(rack.run(line, directory / f"{topology}.log", PATIENCE))


def check(run: Run, settled: list[tuple[str, str]]) -> None:
    """What holds in all runs.

    Between the `settled` times hosts send, in all phases but the last, and no kernel forwards.
    """
    for host in run.names("h"):
        said = run.said(host)
        assert "all others answer the second time" in said, said
        for came, lost, _ in run.silences(host)[:-1]:
            assert came >= 60 and lost == 0, said
    for router in run.names("r"):
        said = run.said(router)
        assert "\nno difference\n" in said, said
        forwarded = run.forwarded_by_kernel(router)
        for begin, end in settled:
            assert forwarded[begin] == forwarded[end], said
    for switch in run.report["switches"]:
        # The rest is what the daemons tell each other, and what came while there was no way.
        assert sum(switch["forwarded"]) > 2 * switch["to_host"], switch


def check_outage(outage: dict, seen: list[str]) -> None:
    """Check when what happened, at the switches that see the cut (10 us after it) and at others."""
    for share in outage["switches"]:
        carrier, link = share["carrier_ns"], share["link_ns"]
        assert (carrier is not None) == (share["switch"] in seen), share
        if carrier is not None:
            # The bus takes some 200 ns; the kernel's clock has microseconds.
            assert 10_000 < carrier < 12_000, share
            assert carrier - 1_000 < link < carrier + 100_000, share
        assert share["changes"] and not share["more"], share
        for change in share["changes"]:
            route, stored, taken = (change[f"{key}_ns"] for key in ("route", "stored", "taken"))
            assert route >= (link or 0), share
            # Code takes no time. Words are stored as soon as the kernel has changed the route, 223
            # ns each; of two readers of one message either may be the first. Behind the last word
            # is the bus only.
            assert stored is not None and route - 200_000 < stored < route + 100_000, share
            assert 200 < taken - stored < 200_000, share


def check_silence(run: Run, outage: dict, host: str, prefix: str, period: float) -> None:
    """Check that packets came again when the last switch on the way led past the cut."""
    came, lost, silence = run.silences(host)[-1]
    ends = [
        change["taken_ns"] / 1e9
        for share in outage["switches"]
        for change in share["changes"]
        if change["route"].startswith(f"{prefix} ") and " via " in change["route"]
    ]
    assert came > 100 and lost <= silence / period + 1, run.said(host)
    assert min(ends) - period < silence < max(ends) + 2.5 * period, (run.said(host), outage)


def test_two_switches(tmp_path: Path) -> None:
    """Two switches with two cables: the same frames twice, and traffic moves to the other."""
    rack.need_kernel()
    need_daemons()
    first = run("uml-routing-two", tmp_path)
    check(first, [("9", "9.8")])
    (outage,) = first.report["outages"]
    check_outage(outage, ["s1", "s2"])
    check_silence(first, outage, "h2b", "10.2.1.0/24", 0.001)
    check_silence(first, outage, "h1a", "10.1.0.0/24", 0.001)
    second = run("uml-routing-two", tmp_path)
    assert second.report["run_hash"] == first.report["run_hash"]


@pytest.mark.skipif("IPNUMA_LONG" not in os.environ, reason="the long form: IPNUMA_LONG=1")
def test_four_switches(tmp_path: Path) -> None:
    """A ring of four with eight hosts, OSPF and BGP; a cut that is seen, and one that is not."""
    rack.need_kernel()
    need_daemons()
    first = run("uml-routing", tmp_path)
    check(first, [("11", "14"), ("24", "25")])
    seen, unseen = first.report["outages"]
    check_outage(seen, ["s1", "s2"])
    check_silence(first, seen, "h2a", "10.2.0.0/24", 0.001)
    check_silence(first, seen, "h2b", "10.2.1.0/24", 0.001)
    # Only timers tell: four seconds without a hello, three without a word of the other.
    check_outage(unseen, [])
    check_silence(first, unseen, "h4a", "10.4.0.0/24", 0.01)
    check_silence(first, unseen, "h4b", "10.4.1.0/24", 0.01)
    for host in ("h4a", "h4b"):
        _, _, silence = first.silences(host)[-1]
        assert 1.5 < silence < 5.0, first.said(host)
    second = run("uml-routing", tmp_path)
    assert second.report["run_hash"] == first.report["run_hash"]
