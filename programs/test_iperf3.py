# SPDX-License-Identifier: Apache-2.0
"""iperf3: bulk data both ways, several streams at once, UDP. It waits in select."""

from __future__ import annotations

import json

import pytest

import programs


def measure(net: programs.Network, port: int, *more: str) -> dict:
    """Run a server for one client; return what the client reports."""
    server = net.start("iperf3", "-s", "-1", "-B", programs.HOST, "-p", str(port), port=port)
    said = net.run("iperf3", "-c", programs.HOST, "-p", str(port), "-J", "-t", "1", *more)
    assert server.wait() == 0, server.output()
    # Standard error is in the same file; what the loader says comes before the first brace.
    report = json.loads(said[said.index("{") :])
    assert "error" not in report, report["error"]
    return report["end"]


@pytest.mark.parametrize(
    ("more", "streams"),
    [([], 1), (["-R"], 1), (["--bidir"], 2), (["-P", "4"], 4), (["-P", "2", "-R"], 2)],
    ids=["up", "down", "both", "parallel", "parallel-down"],
)
def test_stream(net, port, more, streams):
    """What was received is what was sent, within what may be under way at the end."""
    # One connection more for the control of the test.
    with net.expect(streams=streams + 1, bytes=50_000_000):
        end = measure(net, port, *more)
    sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
    assert received > 50_000_000
    assert sent - received < 64 << 20
    assert received <= sent


@pytest.mark.parametrize(
    ("size", "rate", "more"),
    [("56", "5M", []), ("1400", "100M", []), ("16000", "400M", []), ("1400", "100M", ["-R"])],
    ids=["line", "packet", "message", "down"],
)
def test_datagrams(net, port, size, rate, more):
    """Datagrams at a rate that the receiver stands: most arrive, none overtakes another."""
    with net.expect(datagrams=1, bytes=300_000):
        end = measure(net, port, "-u", "-b", rate, "-l", size, *more)
    assert end["sum"]["packets"] > 500
    # A machine whose two cores are busy stalls a receiver for longer than its buffer lasts.
    assert end["sum"]["lost_percent"] < 50
    assert all(stream["udp"]["out_of_order"] == 0 for stream in end["streams"])
