# SPDX-License-Identifier: Apache-2.0
"""redis: its benchmark with many clients and with pipelines, its own client, a save by fork."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator

import pytest

import programs


@pytest.fixture
def server(net: programs.Network, port: int) -> Iterator[programs.Process]:
    """A server that writes its snapshots into the test's directory."""
    argv = ["redis-server", "--port", str(port), "--bind", programs.HOST, "--save", ""]
    more = ["--dir", str(net.directory), "--enable-debug-command", "local"]
    with net.server(*argv, *more, port=port) as running:
        yield running


def ask(net: programs.Network, port: int, *words: str) -> str:
    """Send one command with redis-cli."""
    return net.run("redis-cli", "-h", programs.HOST, "-p", str(port), *words).strip()


@pytest.mark.parametrize(
    ("clients", "pipeline", "size"),
    [(50, 1, 3), (50, 16, 3), (4, 1, 20_000)],
    ids=["clients", "pipeline", "large"],
)
def test_benchmark(net, port, server, clients, pipeline, size):
    """Strings, lists, sets, hashes, ranges of lists: every command is answered."""
    tests = "ping,set,get,incr,lpush,rpush,lpop,sadd,hset,spop,lrange_100,mset"
    requests = 5000 if size < 1000 else 300
    with net.expect(streams=clients, bytes=requests * size):
        said = net.run(
            "redis-benchmark", "-h", programs.HOST, "-p", str(port), "-c", str(clients),
            "-n", str(requests), "-P", str(pipeline), "-d", str(size), "-t", tests, "--csv",
        )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(said)))
    assert len(rows) >= 13, said
    assert all(float(row["rps"]) > 0 for row in rows), said


def test_threads(net, port, server):
    """The benchmark's clients in two threads, each with an event loop of its own."""
    with net.expect(streams=20):
        said = net.run(
            "redis-benchmark", "-h", programs.HOST, "-p", str(port), "-c", "20", "--threads", "2",
            "-n", "20000", "-t", "set,get", "-q",
        )  # fmt: skip
    assert said.count("requests per second") >= 2, said


def test_client(net, port, server):
    """redis-cli stores a value of a megabyte, byte for byte, and reads answers of every type."""
    value = bytes(range(1, 256)) * 4112
    source = net.directory / "value"
    source.write_bytes(value)
    with net.expect(streams=7, bytes=2 * len(value)):
        name = ["redis-cli", "-h", programs.HOST, "-p", str(port)]
        # -x: the last argument comes from standard input, which a shell has to provide.
        assert net.run("sh", "-c", f"exec {' '.join(name)} -x set big <{source}").strip() == "OK"
        assert ask(net, port, "strlen", "big") == str(len(value))
        # The server's own word, by a digest that it computes over what it received.
        script = "return redis.sha1hex(redis.call('get', 'big'))"
        assert ask(net, port, "eval", script, "0") == hashlib.sha1(value).hexdigest()
        net.run("sh", "-c", f"{' '.join(name)} --raw get big >{net.directory}/back")
        assert (net.directory / "back").read_bytes() == value + b"\n"
        assert ask(net, port, "rpush", "list", "a", "b", "c") == "3"
        assert ask(net, port, "lrange", "list", "0", "-1").split() == ["a", "b", "c"]
        assert ask(net, port, "get", "nothing") == ""


def test_many_commands_by_pipe(net, port, server):
    """redis-cli --pipe: thousands of commands in one stream, answers counted by the client."""
    lines = "".join(f"SET key{i} {i * i}\r\n" for i in range(20_000))
    source = net.directory / "commands"
    source.write_text(lines)
    with net.expect(streams=1, bytes=len(lines)):
        said = net.run("sh", "-c", f"exec redis-cli -h {programs.HOST} -p {port} --pipe <{source}")
    assert "errors: 0, replies: 20000" in said, said


def test_save_by_fork(net, port, server):
    """BGSAVE forks; the child writes the snapshot while clients go on, and connections survive."""
    assert ask(net, port, "debug", "populate", "50000") == "OK"
    with net.expect(streams=10):
        load = net.start(
            "redis-benchmark", "-h", programs.HOST, "-p", str(port), "-c", "10", "-n", "30000",
            "-t", "set,get", "-q",
        )  # fmt: skip
        assert "Background saving started" in ask(net, port, "bgsave")

        def saved() -> bool:
            return "rdb_bgsave_in_progress:0" in ask(net, port, "info", "persistence")

        programs.wait_until(saved, "the snapshot is written")
        assert load.wait() == 0, load.output()
    assert "rdb_last_bgsave_status:ok" in ask(net, port, "info", "persistence")
    assert (net.directory / "dump.rdb").stat().st_size > 50_000
    assert ask(net, port, "ping") == "PONG"


def test_messages_to_subscribers(net, port, server):
    """Subscribers wait in the kernel or spin; a message reaches all of them, in order."""
    with net.expect(streams=4):
        listeners = [
            net.start("redis-cli", "-h", programs.HOST, "-p", str(port), "subscribe", "news")
            for _ in range(3)
        ]

        def subscribed() -> bool:
            return ask(net, port, "pubsub", "numsub", "news").split()[-1:] == ["3"]

        programs.wait_until(subscribed, "three clients have subscribed")
        for number in range(5):
            assert ask(net, port, "publish", "news", f"item-{number}") == "3"
        for listener in listeners:
            programs.wait_until(
                lambda listener=listener: "item-4" in listener.output(), "the last message came"
            )
            heard = [word for word in listener.output().split() if word.startswith("item-")]
            assert heard == [f"item-{number}" for number in range(5)]
            listener.kill()
    assert ask(net, port, "ping") == "PONG"


def test_replication(net, port, server):
    """A replica takes the whole data set, then every change, over a connection of its own."""
    assert ask(net, port, "debug", "populate", "10000") == "OK"
    other = programs.free_port()
    directory = net.directory / "replica"
    directory.mkdir()
    argv = ["redis-server", "--port", str(other), "--bind", programs.HOST, "--save", ""]
    link = ["--replicaof", programs.HOST, str(port), "--repl-diskless-sync-delay", "0"]
    with net.expect(streams=1, bytes=200_000):
        with net.server(*argv, *link, "--dir", str(directory), port=other):
            programs.wait_until(
                lambda: ask(net, other, "dbsize") == "10000", "the replica has every key"
            )
            assert ask(net, port, "set", "late", "value") == "OK"
            programs.wait_until(lambda: ask(net, other, "get", "late") == "value", "a change came")
