# SPDX-License-Identifier: Apache-2.0
"""memcached on one machine, its clients on another: two network namespaces with a cable between.

Each has a daemon of its own, with the NIC in software. They know each other by keys, and every
frame between the NICs is looked at, whether it is sealed; with IPNUMA_PLAIN=1 none is. Only root
can make namespaces.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pymemcache.test
import pytest

import programs
from test_memcached import memcached

PORT = 11211


def ip(*arguments: str) -> None:
    """Call iproute2's command."""
    subprocess.run([programs.tool("ip"), *arguments], check=True, capture_output=True, text=True)


@dataclass
class Machine:
    """A network namespace, and how programs are started in it."""

    name: str
    address: str
    directory: Path
    # Whether programs ask for the NIC in software, than which the kernel is faster.
    asks: bool = True

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self.processes: list[programs.Process] = []

    @property
    def socket(self) -> Path:
        return self.directory / "daemon.sock"

    def start(self, *argv: str, library: bool = True) -> programs.Process:
        """Start a program, over IP-NUMA unless told otherwise."""
        line = [programs.tool("ip"), "netns", "exec", self.name]
        if library:
            preload = programs.executable().with_name("libipnuma_socket.so")
            line += [programs.tool("env"), f"LD_PRELOAD={preload}", f"IPNUMA_DAEMON={self.socket}"]
            if self.asks:
                policy = self.directory / "policy"
                policy.write_text("ipnuma connect 10.8.7.0/24\n")
                line.append(f"IPNUMA_POLICY={policy}")
        first = programs.tool(argv[0]) if "/" not in argv[0] else argv[0]
        log = self.directory / f"{len(self.processes)}.log"
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {"LC_ALL": "C"}
        process = programs.Process([*line, first, *argv[1:]], environment, log, None)
        self.processes.append(process)
        return process

    def run(self, *argv: str) -> str:
        """Run a client to its end; return what it said."""
        process = self.start(*argv)
        ended = process.wait()
        if ended != 0:
            raise process.complaint(f"ended with status {ended}")
        return process.output()

    def fallbacks(self) -> str:
        """Ask the daemon why sockets were left to the kernel."""
        asked = self.start(
            str(programs.executable()), "sockets", "--fallbacks", "--daemon", str(self.socket),
            library=False,
        )  # fmt: skip
        assert asked.wait() == 0, asked.output()
        return asked.output()

    def streams(self) -> int:
        """Ask the daemon how many connections it has accelerated."""
        asked = self.start(
            str(programs.executable()), "sockets", "--json", "--daemon", str(self.socket),
            library=False,
        )  # fmt: skip
        assert asked.wait() == 0, asked.output()
        return int(json.loads(asked.output())["result"]["totals"]["streams"])


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    """Two machines with a daemon each.

    All that their NICs send to each other must be sealed.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can make network namespaces")
    here = Machine(f"ipnuma-a{os.getpid()}", "10.8.7.1", tmp_path / "a")
    there = Machine(f"ipnuma-b{os.getpid()}", "10.8.7.2", tmp_path / "b")
    both = (here, there)
    tap = None
    try:
        for machine in both:
            ip("netns", "add", machine.name)
        ip("-n", here.name, "link", "add", "cable", "type", "veth",
           "peer", "name", "cable", "netns", there.name)  # fmt: skip
        if not programs.PLAIN:
            keys = {machine.name: programs.make_key(machine.directory) for machine in both}
            programs.trust(here.directory, there.address, keys[there.name])
            programs.trust(there.directory, here.address, keys[here.name])
        tap = programs.Tap(before=[programs.tool("ip"), "netns", "exec", here.name])
        for machine in both:
            ip("-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", machine.name, "link", "set", device, "up")
            daemon = machine.start(
                str(programs.executable()), "daemon", "--socket", str(machine.socket),
                "--management", f"{machine.address}:3422", "--sockets", "10.8.7.0/24",
                *programs.believes(machine.directory), library=False,
            )  # fmt: skip
            programs.wait_until(
                lambda m=machine, d=daemon: programs.answers(m.socket) or not d.running,
                "a daemon is ready",
            )
            if not daemon.running:
                raise daemon.complaint("ended at once")
        yield both
        # Where nobody asks for it there is no session.
        tap.end(some=here.asks)
    finally:
        if tap is not None:
            tap.kill()
        for machine in both:
            for process in machine.processes:
                process.kill()
            subprocess.run([programs.tool("ip"), "netns", "del", machine.name], check=False)


@pytest.fixture
def server(machines: tuple[Machine, Machine]) -> Iterator[tuple[Machine, Machine]]:
    """memcached on the second machine."""
    _, there = machines
    line = memcached(PORT)
    line[line.index(programs.HOST)] = there.address
    running = there.start(*line)
    table = there.start("cat", "/proc/net/tcp", library=False)

    def listens() -> bool:
        nonlocal table
        table.wait()
        if f":{PORT:04X} 00000000:0000 0A" in table.output():
            return True
        table = there.start("cat", "/proc/net/tcp", library=False)
        return False

    programs.wait_until(listens, "memcached listens")
    yield machines
    if not running.running:
        raise running.complaint("died")


def until_accelerated(
    server: tuple[Machine, Machine], connections: int, run: Callable[[], None]
) -> None:
    """Run a client until both daemons have accelerated so many connections in one of its runs.

    A daemon that does not answer within 250 ms, on a busy machine, is left alone for 5 s: its
    connections are the kernel's meanwhile. What the client does has to be right in every run.
    """

    def enough() -> bool:
        before = [machine.streams() for machine in server]
        run()
        after = [machine.streams() for machine in server]
        return all(a - b >= connections for a, b in zip(after, before, strict=True))

    try:
        programs.wait_until(enough, f"{connections} connections of a client are accelerated")
    except programs.ProgramError as error:
        pytest.fail(f"{error}\n{server[0].fallbacks()}")


def test_memcaslap(server):
    """Sixteen clients in two threads; every tenth value is compared with what was stored."""
    here, there = server

    def run() -> None:
        said = here.run(
            "memcaslap", "-s", f"{there.address}:{PORT}", "-t", "1s", "-T", "2", "-c", "16",
            "-v", "0.1",
        )  # fmt: skip
        counted = {name: int(n) for name, n in re.findall(r"^(\w+): (\d+)$", said, re.MULTILINE)}
        assert counted["cmd_get"] > 1000 and counted["cmd_set"] > 100, said
        assert counted["get_misses"] == 0, said
        assert counted.get("verify_misses", 0) == 0 and counted.get("verify_failed", 0) == 0, said

    until_accelerated(server, 16, run)


def test_pymemcache(server):
    """The integration tests that come with pymemcache all pass."""
    here, there = server
    tests = Path(pymemcache.test.__file__).parent

    def run() -> None:
        said = here.run(
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null",
            "-W", "ignore", "--rootdir", str(tests), "--server", there.address,
            "--port", str(PORT), str(tests / "test_integration.py"),
        )  # fmt: skip
        assert re.search(r"^100 passed, 3 skipped in", said, re.MULTILINE), said

    until_accelerated(server, 40, run)


def test_values(server):
    """A client of ours stores and reads values of every size around the line and message sizes."""
    here, there = server
    binary = programs.compile_c("memget.c")

    def run() -> None:
        said = here.run(str(binary), there.address, str(PORT), "--check")
        assert "all values as stored" in said

    until_accelerated(server, 1, run)


def test_the_kernel_serves_where_it_is_faster(server):
    """Between machines without a NIC in hardware the kernel serves, unless somebody asks."""
    here, there = server
    here.asks = False
    here.run("memcaslap", "-s", f"{there.address}:{PORT}", "-t", "1s", "-T", "1", "-c", "4")
    assert here.streams() == 0 and there.streams() == 0
    assert "software-nic" in here.fallbacks(), here.fallbacks()
