# SPDX-License-Identifier: Apache-2.0
"""memcached: the protocol's conformance test, load by TCP and UDP, and a client's own tests.

memcached is started with `-u root` where the tests run as root: by default it would change to
another user before it opens its sockets, to whom the daemon does not talk.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pymemcache.test
import pytest

import programs


def memcached(port: int, *more: str, udp: bool = False) -> list[str]:
    """Command line of a server with four worker threads."""
    # On a quiet machine a second of writing is more than the 64 MB that it has by itself: it
    # would drop what is looked for later.
    options = ["-m", "2048", *(["-u", "root"] if os.geteuid() == 0 else [])]
    options += ["-l", programs.HOST, "-p", str(port), "-U", str(port) if udp else "0"]
    return ["memcached", *options, "-t", "4", *more]


@pytest.fixture
def server(net: programs.Network, port: int) -> Iterator[programs.Process]:
    """memcached by TCP and UDP on one port."""
    with net.server(*memcached(port, udp=True), port=port) as running:
        yield running


def verdicts(running: programs.Process) -> dict[str, str]:
    """Wait for memccapable; return the verdict on each of its tests."""
    assert running.wait() == 0, running.output()
    found = re.findall(r"^((?:ascii|binary) .*?)\s*\[(\w+)\]$", running.output(), re.MULTILINE)
    assert "All tests passed" in running.output(), running.output()
    return dict(found)


def test_memccapable(net, kernel, port, server):
    """Ascii and binary protocol pass the tests that they pass over the kernel's sockets."""
    other = programs.free_port()
    with kernel.server(*memcached(other), port=other), net.expect(streams=2, bytes=1000):
        # Both at once: it waits out five timeouts of a second each.
        here = net.start("memccapable", "-h", programs.HOST, "-p", str(port))
        there = kernel.start("memccapable", "-h", programs.HOST, "-p", str(other))
        found = verdicts(here)
        assert found == verdicts(there)
    assert len(found) > 50
    assert set(found.values()) == {"pass"}


def memcaslap(net: programs.Network, *arguments: str, udp: bool) -> str:
    """Run memcaslap; return what it said.

    By UDP it takes an answer to an earlier question for a mistake of its own, and ends. Over the
    kernel's sockets, beside six busy loops, that was one run of a hundred. So it may, twice.
    """
    for left in (2, 1, 0) if udp else (0,):
        try:
            return net.run("memcaslap", *arguments)
        except programs.ProgramError as error:
            if not left or "ms_sort_udp_packet: Assertion `req_id ==" not in str(error):
                raise
    raise AssertionError("the last attempt returns or raises")


@pytest.mark.parametrize("protocol", ["ascii", "binary", "udp", "multiget", "reconnect"])
def test_memcaslap(net, port, server, protocol):
    """Sixteen clients in two threads; every tenth value is compared with what was stored."""
    udp = protocol == "udp"
    more = {
        "ascii": [],
        "binary": ["-B"],
        "udp": ["-U"],
        "multiget": ["-d", "20"],
        "reconnect": ["-R"],
    }[protocol]
    expected = {"datagrams": 1} if udp else {"streams": 16}
    with net.expect(bytes=1_000_000, **expected):
        said = memcaslap(
            net, "-s", f"{programs.HOST}:{port}", "-t", "1s", "-T", "2", "-c", "16",
            "-v", "0.1", *more, udp=udp,
        )  # fmt: skip
    counted = {name: int(n) for name, n in re.findall(r"^(\w+): (\d+)$", said, re.MULTILINE)}
    assert counted["cmd_get"] > 1000 and counted["cmd_set"] > 100, said
    assert counted["get_misses"] == 0, said
    assert counted.get("verify_misses", 0) == 0, said
    assert counted.get("verify_failed", 0) == 0, said


def test_pymemcache(net, port, server):
    """The integration tests that come with pymemcache all pass, as its own wheel has them."""
    tests = Path(pymemcache.test.__file__).parent
    with net.expect(streams=40, bytes=2_000_000):
        said = net.run(
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null",
            "-W", "ignore", "--rootdir", str(tests), "--server", programs.HOST, "--port", str(port),
            str(tests / "test_integration.py"),
            # All its connections are short, and all are to be accelerated.
            env={"IPNUMA_LEARN": "0"},
        )  # fmt: skip
    # Its authors skip their test of TLS, with each of three client classes.
    assert re.search(r"^100 passed, 3 skipped in", said, re.MULTILINE), said


def test_values(net, port, server):
    """A client of ours stores and reads values of every size around the line and message sizes."""
    binary = programs.compile_c("memget.c")
    with net.expect(streams=1, bytes=2_000_000):
        said = net.run(str(binary), programs.HOST, str(port), "--check")
    assert "all values as stored" in said
