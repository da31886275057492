# SPDX-License-Identifier: Apache-2.0
"""Unequal ends, and unusual circumstances: no library, no daemon, no spinning, in the background.

Where one end has the socket library and the other has not they meet over the kernel's sockets.
"""

from __future__ import annotations

import hashlib
import os
import signal

import pytest

import programs
from test_memcached import memcached


@pytest.fixture
def both(tmp_path, kernel):
    """Two networks in the order (server's, client's), and how many streams are accelerated."""
    directory = tmp_path / "ipnuma"
    directory.mkdir()
    with programs.network("ipnuma", directory) as ipnuma:
        yield {"server": (ipnuma, kernel), "client": (kernel, ipnuma)}, ipnuma


@pytest.mark.parametrize("end", ["server", "client"])
def test_one_end_alone(both, port, end):
    """redis serves clients of the other kind, and one of its own kind at the same time."""
    choices, ipnuma = both
    of_server, of_client = choices[end]
    argv = ["redis-server", "--port", str(port), "--bind", programs.HOST, "--save", ""]
    with of_server.server(*argv, "--dir", str(of_server.directory), port=port):
        ask = ["redis-cli", "-h", programs.HOST, "-p", str(port)]
        before = ipnuma.totals()
        assert of_client.run(*ask, "set", "key", "x" * 10_000).strip() == "OK"
        script = "return redis.sha1hex(redis.call('get', 'key'))"
        digest = hashlib.sha1(b"x" * 10_000).hexdigest()
        assert of_client.run(*ask, "eval", script, "0").strip() == digest
        said = of_client.run(
            "redis-benchmark", "-h", programs.HOST, "-p", str(port), "-c", "20", "-n", "2000",
            "-t", "set,get", "-q",
        )  # fmt: skip
        assert said.count("requests per second") >= 2, said
        assert ipnuma.totals().streams == before.streams
        same = 1 if of_server is ipnuma else 0
        with of_server.expect(streams=same, bytes=10_000 * same):
            assert of_server.run(*ask, "get", "key").strip() == "x" * 10_000


@pytest.mark.parametrize("end", ["server", "client"])
def test_datagrams_of_one_end_alone(both, port, end):
    """UDP between the two kinds: an accelerated sender must notice that nobody maps its ring."""
    choices, ipnuma = both
    of_server, of_client = choices[end]
    argv = ["-i", programs.HOST, "-p", str(port)]
    of_server.start("sockperf", "server", *argv, port=port)
    before = ipnuma.totals()
    said = of_client.run("sockperf", "ping-pong", *argv, "-t", "1")
    assert "dropped messages = 0" in said, said
    assert ipnuma.totals().datagrams == before.datagrams


def test_without_a_daemon(tmp_path, port):
    """Programs that find no daemon run over the kernel's sockets."""
    with programs.network("ipnuma", tmp_path) as net:
        net.daemon.kill()
        net.daemon = None
        argv = ["redis-server", "--port", str(port), "--bind", programs.HOST, "--save", ""]
        with net.server(*argv, "--dir", str(tmp_path), port=port):
            ask = ["redis-cli", "-h", programs.HOST, "-p", str(port), "ping"]
            assert net.run(*ask).split()[-1] == "PONG"


def test_without_spinning(tmp_path, port):
    """Ends that never spin sleep for every message, and wake each other by doorbells."""
    with programs.network("ipnuma", tmp_path, spin_us=0) as net:
        argv = ["redis-server", "--port", str(port), "--bind", programs.HOST, "--save", ""]
        with net.server(*argv, "--dir", str(tmp_path), port=port):
            before = net.totals()
            said = net.run(
                "redis-benchmark", "-h", programs.HOST, "-p", str(port), "-c", "1", "-n", "2000",
                "-t", "set,get", "-q",
            )  # fmt: skip
            assert said.count("requests per second") >= 2, said
            rung = net.totals() - before
            assert rung.streams >= 1
            # One client, one request at a time: somebody sleeps before nearly every message.
            assert rung.doorbells > 2000 and rung.sleeps > 2000, rung


def test_in_the_background(net, port):
    """memcached -d forks, lets its parent end and closes its standard files before it listens."""
    record = net.directory / "pid"
    net.run(*memcached(port, "-d", "-P", str(record)))
    programs.wait_until(lambda: programs.listening(port) and record.exists(), "memcached listens")
    pid = int(record.read_text())
    try:
        binary = programs.compile_c("memget.c")
        with net.expect(streams=1, bytes=2_000_000):
            said = net.run(str(binary), programs.HOST, str(port), "--check")
        assert "all values as stored" in said
    finally:
        os.kill(pid, signal.SIGTERM)
    programs.wait_until(lambda: not programs.listening(port), "memcached has ended")
