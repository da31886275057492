# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: a process for each connection, forked behind accept; pgbench, psql, COPY, a cancel.

The server refuses to run as root: then all of a network, the daemon too, is another user's.
IPNUMA_LONG=1 makes each of them do more, and repeats it.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import programs
from programs import HOST

LONG = "IPNUMA_LONG" in os.environ
ROUNDS = range(20 if LONG else 1)
pytestmark = pytest.mark.timeout(1800 if LONG else 300)
CLIENTS = 8
# All connections are to be accelerated, although short ones gain nothing.
ALL = {"IPNUMA_LEARN": "0"}
USER = "postgres"
# Nothing of a test's data outlives it, and nothing but its sockets is looked at.
SETTINGS = {
    "fsync": "off",
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "50",
}
# Every one of a transaction's four sums is the same as the others.
SUMS = """
select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches),
       (select sum(tbalance) from pgbench_tellers), (select sum(delta) from pgbench_history),
       (select count(*) from pgbench_history)
"""


def tool(name: str) -> str:
    """Find a program of the newest server; Debian puts them on nobody's path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not found:
        raise programs.ProgramError(f"PostgreSQL's {name} is not installed; tools/setup brings it")
    return str(found[-1])


@pytest.fixture(params=["kernel", "ipnuma"])
def net(request, monkeypatch) -> Iterator[programs.Network]:
    """A network whose programs are not root's, in a directory that they can get to."""
    user = USER if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="ipnuma-postgres-") as name:
        directory = Path(name)
        if user is not None:
            own = pwd.getpwnam(user)
            os.chown(directory, own.pw_uid, own.pw_gid)
            # The checkout may lie where only root can go.
            if request.param == "ipnuma":
                command = programs.executable()
                for file in (command, command.with_name("libipnuma_socket.so")):
                    shutil.copy(file, directory)
                monkeypatch.setenv("IPNUMA_EXECUTABLE", str(directory / command.name))
        with programs.network(request.param, directory, user=user) as made:
            yield made


@pytest.fixture
def server(net: programs.Network, port: int) -> Iterator[programs.Process]:
    """A server with an empty database."""
    data = net.directory / "data"
    net.run(tool("initdb"), "-D", str(data), "-A", "trust", "-U", USER, "--no-sync")
    settings = [part for item in SETTINGS.items() for part in ("-c", "=".join(item))]
    argv = [tool("postgres"), "-D", str(data), "-p", str(port), *settings]
    with net.server(*argv, port=port, env=ALL) as process:
        until_ready(net, port)
        yield process


def until_ready(net: programs.Network, port: int) -> None:
    """Wait for a server that listens already, but refuses clients while it starts up."""
    ready = [tool("pg_isready"), "-q", "-h", HOST, "-p", str(port)]
    programs.wait_until(lambda: net.start(*ready, env=ALL).wait() == 0, "the server is ready")


def where(port: int) -> list[str]:
    """Return the options that name the server."""
    return ["-h", HOST, "-p", str(port), "-U", USER]


def ask(net: programs.Network, port: int, query: str) -> str:
    """Return what psql says of a query."""
    argv = [tool("psql"), *where(port), "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", query, USER]
    return net.run(*argv, env=ALL).strip()


def test_pgbench(net, port, server):
    """Transactions of eight clients in every protocol, then one for each: they add up."""
    bench = [tool("pgbench"), *where(port)]
    count, done = 60, 0
    kinds = [["-M", mode] for mode in ("simple", "extended", "prepared")] + [["-C"]]
    with net.expect(streams=CLIENTS):
        net.run(*bench, "-i", "-q", "-s", "2", USER, env=ALL)
        for _ in ROUNDS:
            for kind in kinds:
                argv = [*bench, *kind, "-n", "-c", str(CLIENTS), "-j", "2", "-t", str(count), USER]
                said = net.run(*argv, env=ALL)
                done += CLIENTS * count
                assert f"processed: {CLIENTS * count}/{CLIENTS * count}" in said, said
                assert "failed transactions: 0 " in said, said
    *sums, transactions = ask(net, port, SUMS).split("|")
    assert len(set(sums)) == 1 and int(transactions) == done


def test_much_both_ways(net, port, server):
    """Ten megabytes by COPY in and out again: the same lines."""
    rows = 100_000
    sent = net.directory / "rows"
    sent.write_text("".join(f"{i}\t{hashlib.sha256(b'%d' % i).hexdigest()}\n" for i in range(rows)))
    got = net.directory / "back"
    for _ in ROUNDS:
        with net.expect(streams=2, bytes=sent.stat().st_size):
            ask(net, port, "drop table if exists t; create table t (n int, text text)")
            ask(net, port, f"\\copy t from '{sent}'")
            assert (
                ask(net, port, "select count(*), sum(length(text)) from t") == f"{rows}|{64 * rows}"
            )
            ask(net, port, f"\\copy (select * from t order by n) to '{got}'")
        assert got.read_bytes() == sent.read_bytes()


def test_cancel(net, port, server):
    """A client that is interrupted cancels by a second connection, which nobody answers."""
    argv = [tool("psql"), *where(port), "-XAtq", "-c", "select pg_sleep(1000)", USER]
    active = (
        "select count(*) from pg_stat_activity"
        " where state = 'active' and query like 'select pg_sleep%'"
    )
    for _ in ROUNDS:
        client = net.start(*argv, env=ALL)
        programs.wait_until(lambda: ask(net, port, active) == "1", "the server is busy")
        os.kill(client.pid, signal.SIGINT)
        assert client.wait() == 1 and "canceling statement due to user request" in client.output()
        programs.wait_until(lambda: ask(net, port, active) == "0", "the server has stopped")


def test_server_is_killed(net, port, server):
    """One process of the server dies: clients are told, and the server begins anew."""
    argv = [tool("psql"), *where(port), "-XAtq", "-c", "select pg_sleep(1000)", USER]
    asleep = "select pid from pg_stat_activity where query like 'select pg_sleep%'"
    count = 3
    for _ in ROUNDS:
        clients = [net.start(*argv, env=ALL) for _ in range(count)]
        programs.wait_until(
            lambda: len(ask(net, port, asleep).split()) == count, "all have connected"
        )
        os.kill(int(ask(net, port, asleep).split()[0]), signal.SIGKILL)
        for client in clients:
            assert client.wait() != 0
            assert "server closed the connection unexpectedly" in client.output()
        until_ready(net, port)
        assert ask(net, port, "select 1") == "1"
