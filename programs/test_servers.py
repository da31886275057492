# SPDX-License-Identifier: Apache-2.0
"""Servers that fork first, stand in front of others, or are replaced while they serve.

IPNUMA_LONG=1 makes each of them do more, and repeats it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import programs
from programs import HOST

LONG = "IPNUMA_LONG" in os.environ
# Repetitions of what could hang.
ROUNDS = range(20 if LONG else 1)
pytestmark = pytest.mark.timeout(1800 if LONG else 300)
MANY = 5 if LONG else 1
# All connections are to be accelerated, although short ones gain nothing.
ALL = {"IPNUMA_LEARN": "0"}
# Connections that must be accelerated, even if at first the server came too late to some: then the
# client leaves it to the kernel for two seconds.
FEW = 8
SMALL = b"<html>" + b"z" * 700 + b"</html>\n"
LARGE = os.urandom(1 << 20)

CONFIGURATION = """
daemon {daemon};
{user}
# Or the program that replaces it would be without the library.
env LD_PRELOAD;
env IPNUMA_DAEMON;
worker_processes 2;
pid {directory}/nginx.pid;
error_log {directory}/error.log info;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  keepalive_requests 1000000;
  server {{
    listen {host}:{port} {listen};
    root {directory}/files;
  }}
}}
"""


@dataclass
class Nginx:
    """Files and command line of an nginx."""

    directory: Path
    port: int
    argv: list[str]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def pid(self, name: str = "nginx.pid") -> str:
        """Read the number of a first process, once it is written; empty if there is no file."""
        path = self.directory / name

        def said() -> str | None:
            try:
                return path.read_text().strip()
            except FileNotFoundError:
                return None

        programs.wait_until(lambda: said() != "", "nginx says it")
        return said() or ""


def nginx(net: programs.Network, listen: str = "", daemon: str = "off") -> Nginx:
    """Write the configuration and the files of an nginx at a port of its own."""
    directory = net.directory / "nginx"
    files = directory / "files"
    files.mkdir(parents=True)
    (files / "small.html").write_bytes(SMALL)
    (files / "large.bin").write_bytes(LARGE)
    port = programs.free_port()
    configuration = directory / "nginx.conf"
    configuration.write_text(
        CONFIGURATION.format(
            directory=directory,
            host=HOST,
            port=port,
            listen=listen,
            daemon=daemon,
            # The daemon talks only to its own user: workers stay that.
            user="user root;" if os.geteuid() == 0 else "",
        )
    )
    early = f"{directory}/early.log"
    argv = ["nginx", "-p", str(directory), "-c", str(configuration), "-e", early]
    return Nginx(directory, port, argv)


def ab(url: str, count: int, *more: str) -> list[str]:
    """Return the command line of so many requests by eight clients."""
    return ["ab", "-q", "-n", str(count), "-c", "8", "-l", *more, url]


def check(said: str, count: int, length: int) -> None:
    """Demand that ab had every answer, whole."""
    assert f"Complete requests:      {count}" in said, said
    assert "Failed requests:        0" in said, said
    assert f"HTML transferred:       {count * length} bytes" in said, said


def test_h2load(net):
    """HTTP/2: many streams on few connections, both ways at once."""
    made = nginx(net, listen="http2")
    count = 2000 * MANY
    with net.server(*made.argv, port=made.port), net.expect(streams=8, bytes=count * 100):
        for _ in ROUNDS:
            said = net.run(
                "h2load", "-n", str(count), "-c", "8", "-m", "10", f"{made.url}small.html"
            )
            sums = f"{count} done, {count} succeeded, 0 failed, 0 errored, 0 timeout"
            assert sums in said, said


HAPROXY = """
global
  maxconn 200
  nbthread 2
defaults
  mode http
  timeout connect 10s
  timeout client 30s
  timeout server 30s
  {option}
frontend front
  bind {host}:{port}
  default_backend back
backend back
  server one {host}:{back}
"""


@pytest.mark.parametrize("option", ["", "option splice-auto"], ids=["copied", "spliced"])
def test_haproxy_in_front_of_nginx(net, port, option):
    """A proxy of two threads: files byte for byte, connections that stay, one a request."""
    made = nginx(net)
    configuration = net.directory / "haproxy.cfg"
    text = HAPROXY.format(host=HOST, port=port, back=made.port, option=option)
    configuration.write_text(text)
    count = 500 * MANY
    with (
        net.server(*made.argv, port=made.port),
        net.server("haproxy", "-db", "-f", str(configuration), port=port),
        net.expect(streams=18, bytes=len(LARGE) + count * len(SMALL)),
    ):
        got = net.directory / "got"
        url = f"http://{HOST}:{port}/"
        net.run("curl", "-fsS", "--max-time", "30", "-o", str(got), f"{url}large.bin")
        assert got.read_bytes() == LARGE
        for _ in ROUNDS:
            for more in (["-k"], []):
                check(net.run(*ab(f"{url}small.html", count, *more), env=ALL), count, len(SMALL))


APPLICATION = """
def application(environ, start_response):
    length = int(environ["PATH_INFO"].strip("/") or 0)
    start_response("200 OK", [("Content-Length", str(length))])
    return [b"a" * length]
"""


def test_gunicorn_forks_before_it_accepts(net, port):
    """Four processes accept from one listener."""
    (net.directory / "application.py").write_text(APPLICATION)
    argv = ["gunicorn", "--workers", "4", "--bind", f"{HOST}:{port}"]
    argv += ["--chdir", str(net.directory), "--worker-tmp-dir", str(net.directory), "application"]
    count = 500 * MANY
    with net.server(*argv, port=port), net.expect(streams=FEW):
        for _ in ROUNDS:
            for length in (0, 100, 100_000):
                url = f"http://{HOST}:{port}/{length}"
                check(net.run(*ab(url, count), env=ALL), count, length)


MOSQUITTO = """
listener {port} {host}
allow_anonymous true
max_queued_messages 0
{user}
"""


@pytest.mark.parametrize("quality", [0, 2])
def test_mosquitto(net, port, quality):
    """A broker between publishers and subscribers: every message once, in order."""
    configuration = net.directory / "mosquitto.conf"
    user = "user root" if os.geteuid() == 0 else ""
    configuration.write_text(MOSQUITTO.format(host=HOST, port=port, user=user))
    count = 300 * MANY
    where = ["-h", HOST, "-p", str(port), "-t", "topic", "-q", str(quality)]
    argv = ["mosquitto", "-v", "-c", str(configuration)]
    with net.server(*argv, port=port) as broker, net.expect(streams=4):
        for round in ROUNDS:
            readers = [
                net.start("mosquitto_sub", *where, "-C", str(count), "-F", "%t is %p")
                for _ in range(3)
            ]
            wanted = (round + 1) * len(readers)
            programs.wait_until(
                lambda wanted=wanted: broker.output().count("Sending SUBACK") >= wanted,
                "all have subscribed",
            )
            numbers = net.directory / "numbers"
            numbers.write_text("".join(f"{number}\n" for number in range(count)))
            line = f"{programs.tool('mosquitto_pub')} -l {' '.join(where)} < {numbers}"
            net.run("bash", "-c", line)
            for reader in readers:
                assert reader.wait() == 0, reader.output()[-2000:]
                heard = re.findall(r"^topic is (\d+)$", reader.output(), re.MULTILINE)
                assert heard == [str(number) for number in range(count)]


UVLOOP = """
import asyncio, sys, uvloop

async def serve(reader, writer):
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()

async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(1, 60):
        piece = bytes([number]) * (number * 200)
        writer.write(piece)
        assert await reader.readexactly(len(piece)) == piece
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(ask(port) for _ in range(10)))
    print(type(asyncio.get_running_loop()).__module__)

uvloop.install()
asyncio.run(main())
"""


@pytest.mark.parametrize("rings", [False, True])
def test_uvloop(net, rings):
    """asyncio on libuv's loop: Debian's, too old to ask for an io_uring, and one that does."""
    script = net.directory / "echo.py"
    script.write_text(UVLOOP)
    python = sys.executable if rings else "/usr/bin/python3"
    with net.expect(streams=10, bytes=1_000_000):
        for _ in ROUNDS:
            said = net.run(python, str(script), env={"UV_USE_IO_URING": "1"})
            assert said == "uvloop\n"
    if net.accelerated and rings:
        assert net.fallbacks()["io-uring"] > 0


def terminated(made: Nginx) -> bool:
    """Say whether nothing listens any more; tell all first processes, of which one may be new."""
    for number in map(made.pid, ("nginx.pid", "nginx.pid.oldbin")):
        if number:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGTERM)
    return not programs.listening(made.port)


@contextlib.contextmanager
def in_background(net: programs.Network) -> Iterator[Nginx]:
    """Run an nginx as systems do: its first process ends when it serves."""
    made = nginx(net, daemon="on")
    net.run(*made.argv)
    try:
        programs.wait_until(lambda: programs.listening(made.port), "nginx listens")
        programs.wait_until(made.pid, "nginx runs in the background")
        yield made
    finally:
        programs.wait_until(lambda: terminated(made), "nginx ends")
    log = (made.directory / "error.log").read_text()
    bad = [line for line in log.splitlines() if re.search(r"\[(alert|crit|emerg|error)\]", line)]
    assert not bad, "\n".join(bad[:20])


def reload(net: programs.Network, made: Nginx) -> None:
    """Give nginx new workers."""
    net.run("kill", "-HUP", made.pid())


def lives(number: str) -> bool:
    """Say whether a process has not ended yet, waited for or not."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def upgrade(net: programs.Network, made: Nginx) -> None:
    """Let another nginx take over its listeners, and end it."""
    old = made.directory / "nginx.pid.oldbin"
    number = made.pid()

    def begun() -> bool:
        """Ask for it, and say whether the new one is there soon.

        nginx writes its number before it waits for signals: one that comes between is seen only
        together with the next.
        """
        net.run("kill", "-USR2", number)
        with contextlib.suppress(programs.ProgramError):
            programs.wait_until(lambda: old.is_file() and made.pid(), "it runs", patience=2)
            return True
        return False

    programs.wait_until(begun, "the new nginx runs")
    net.run("kill", "-QUIT", number)
    # While its parent lives the new one would not be replaced.
    programs.wait_until(lambda: not (old.is_file() or lives(number)), "the old nginx has ended")


@pytest.mark.parametrize("change", [reload, upgrade])
def test_nginx_is_replaced_under_load(
    net: programs.Network, change: Callable[[programs.Network, Nginx], None]
):
    """New workers or a new program take over the listeners: no request fails meanwhile."""
    count = 2000 * MANY
    before = net.totals()

    def rounds() -> Iterator[int]:
        """Yield rounds, and more while too few were accelerated.

        A client leaves a server alone for 2 s that came late.
        """
        yield from ROUNDS
        for more in range(20):
            if not net.accelerated or (net.totals() - before).streams >= FEW:
                return
            yield more

    with in_background(net) as made, net.expect(streams=FEW):
        for _ in rounds():
            load = net.start(*ab(f"{made.url}small.html", count), env=ALL)
            changes = 0
            while load.running:
                change(net, made)
                changes += 1
            assert load.wait() == 0, load.output()
            check(load.output(), count, len(SMALL))
            assert changes > 0
