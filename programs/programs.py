# SPDX-License-Identifier: Apache-2.0
"""Starts real servers and clients, over the kernel's sockets or over IP-NUMA.

A `Network` says how a program is started (as it is, or by `ipnuma run`), and what the daemon
counted meanwhile; everything else is the same for both. Used by the tests of this folder and by
programs/bench-sockets.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOST = "127.0.0.1"
# Between machines daemons have keys, unless this asks for --insecure.
PLAIN = os.environ.get("IPNUMA_PLAIN", "0") not in ("", "0")
# Programs run as on two machines, whatever else they would run over.
FAR = os.environ.get("IPNUMA_FAR", "0") not in ("", "0")
# Nothing here takes longer on a machine that works; it only keeps a hang from lasting.
PATIENCE = 60.0


class ProgramError(RuntimeError):
    """A program did not start, did not end, or ended with an error."""


def executable() -> Path:
    """Find the `ipnuma` command; cargo puts the socket library beside it."""
    named = os.environ.get("IPNUMA_EXECUTABLE")
    places = [Path(named)] if named else [ROOT / "target" / b / "ipnuma" for b in PROFILES]
    for place in places:
        if place.is_file():
            return place
    raise ProgramError(
        f"there is no {' nor '.join(str(place) for place in places)}: build it with "
        "`cargo build --release -p preload -p cli`, or name one in IPNUMA_EXECUTABLE"
    )


PROFILES = ("release", "debug")


def tool(name: str) -> str:
    """Find a program of the system; servers live in sbin, which is not on everybody's path."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise ProgramError(f"{name} is not installed; tools/setup brings it")
    return found


def free_port() -> int:
    """Find a port number that is free for TCP and UDP alike (memcaslap wants one for both)."""
    for _ in range(100):
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
            stream.bind((HOST, 0))
            port = stream.getsockname()[1]
            with contextlib.suppress(OSError):
                datagram.bind((HOST, port))
                return port
    raise ProgramError("found no port that is free for TCP and UDP")


def listening(port: int) -> bool:
    """Say whether a server listens, without connecting: it shall see none but its own clients."""
    wanted = f":{port:04X}"
    for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        with contextlib.suppress(OSError), (Path("/proc/net") / table).open() as lines:
            for line in lines:
                cells = line.split()
                if len(cells) > 3 and cells[1].endswith(wanted) and cells[3] == state:
                    return True
    return False


def answers(path: Path) -> bool:
    """Say whether a daemon listens at a path: its file is there a moment before."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stream:
        with contextlib.suppress(OSError):
            stream.connect(str(path))
            return True
    return False


def wait_until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise ProgramError(f"waited {patience:.0f} s in vain until {what}")
        time.sleep(0.01)


@dataclass
class Totals:
    """What went through all channels since the daemon started."""

    streams: int = 0
    datagrams: int = 0
    bytes: int = 0
    messages: int = 0
    doorbells: int = 0
    sleeps: int = 0

    def __sub__(self, other: Totals) -> Totals:
        return Totals(**{name: getattr(self, name) - getattr(other, name) for name in vars(self)})


class Process:
    """A program in a process group of its own, its output in a file."""

    def __init__(self, argv: Sequence[str], env: dict[str, str], log: Path, cwd: Path | None):
        self.argv = list(argv)
        self.log = log
        with log.open("wb") as output:
            self.child = subprocess.Popen(
                self.argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def running(self) -> bool:
        return self.child.poll() is None

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def complaint(self, what: str) -> ProgramError:
        """Say what was started and how its output ended."""
        tail = "\n".join(self.output().splitlines()[-30:])
        return ProgramError(f"{' '.join(self.argv)}: {what}; its output ends with:\n{tail}")

    def wait(self, patience: float = PATIENCE) -> int:
        try:
            return self.child.wait(patience)
        except subprocess.TimeoutExpired:
            error = self.complaint(f"did not end within {patience:.0f} s")
            self.kill()
            raise error from None

    def stop(self, patience: float = 10.0) -> int:
        """End the server as an administrator would, and insist that it does end."""
        if self.running:
            self.child.send_signal(signal.SIGTERM)
        status = self.wait(patience)
        self.kill()
        return status

    def kill(self) -> None:
        """End the program and all of its group."""
        # While a group has members, the kernel gives its number to nobody. Once the program has
        # been waited for, a process of its number is somebody else's.
        reused = self.child.returncode is not None and Path(f"/proc/{self.pid}").exists()
        if not reused:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.child.wait()


@dataclass
class Network:
    """How programs reach each other."""

    name: str
    directory: Path
    daemon: Process | None = None
    spin_us: int | None = None
    # Whose all its processes are, if not the caller's.
    user: str | None = None
    processes: list[Process] = field(default_factory=list)

    @property
    def accelerated(self) -> bool:
        return self.name in ("ipnuma", "far")

    @property
    def socket(self) -> Path:
        return self.directory / "daemon.sock"

    def environment(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        env["LC_ALL"] = "C"
        # A shell whose input is a connection reads its user's startup files, whatever they do.
        env["HOME"] = str(self.directory)
        if self.accelerated:
            env["IPNUMA_DAEMON"] = str(self.socket)
            if self.spin_us is not None:
                env["IPNUMA_SPIN_US"] = str(self.spin_us)
        return env

    def as_user(self, line: list[str]) -> list[str]:
        """Say how a command is started as the network's user."""
        if self.user is None:
            return line
        ids = pwd.getpwnam(self.user)
        who = [f"--reuid={ids.pw_uid}", f"--regid={ids.pw_gid}", "--init-groups"]
        return [tool("setpriv"), *who, "--", *line]

    def command(
        self, argv: Sequence[str], core: int | None = None, bare: bool = False
    ) -> list[str]:
        """Say how a program is started on this network, on one core if one is given.

        A bare one preloads the library by itself, if it does.
        """
        line = [tool(argv[0]) if "/" not in argv[0] else argv[0], *argv[1:]]
        if self.accelerated and not bare:
            line = [str(executable()), "run", "--", *line]
        if core is not None:
            line = [tool("taskset"), "-c", str(core), *line]
        return self.as_user(line)

    def start(
        self,
        *argv: str,
        core: int | None = None,
        bare: bool = False,
        port: int | None = None,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Process:
        """Start a server and wait until it listens."""
        log = self.directory / f"{len(self.processes)}-{Path(argv[0]).name}.log"
        environment = self.environment() | (env or {})
        process = Process(self.command(argv, core, bare), environment, log, cwd)
        self.processes.append(process)
        if port is not None:
            wait_until(lambda: listening(port) or not process.running, f"{argv[0]} listens")
            if not process.running:
                raise process.complaint(f"ended with status {process.child.returncode} at once")
        return process

    @contextlib.contextmanager
    def server(self, *argv: str, **options) -> Iterator[Process]:
        """Run a server while a block runs; afterwards it must end when it is asked to."""
        process = self.start(*argv, **options)
        try:
            yield process
            if not process.running:
                raise process.complaint(f"died with status {process.child.returncode}")
            process.stop()
        finally:
            process.kill()

    def run(self, *argv: str, patience: float = PATIENCE, status: int = 0, **options) -> str:
        """Run a client to its end; return what it said."""
        process = self.start(*argv, **options)
        ended = process.wait(patience)
        if ended != status:
            raise process.complaint(f"ended with status {ended}")
        return process.output()

    def _sockets(self) -> dict[str, object]:
        """Ask the daemon about its connections."""
        answer = subprocess.run(
            self.as_user([str(executable()), "sockets", "--json"]),
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if answer.returncode != 0:
            raise ProgramError(f"`ipnuma sockets --json` failed: {answer.stderr.strip()}")
        return json.loads(answer.stdout)["result"]

    def open_streams(self) -> int:
        """Ask the daemon how many accelerated connections it knows."""
        return len(self._sockets()["sockets"])

    def totals(self) -> Totals:
        """Ask the daemon what went through the accelerated connections."""
        if not self.accelerated:
            return Totals()
        counted = self._sockets()["totals"]
        return Totals(**{name: int(counted[name]) for name in vars(Totals())})

    def fallbacks(self) -> dict[str, int]:
        """Ask the daemon how many sockets were left to the kernel, by reason."""
        argv = [str(executable()), "sockets", "--fallbacks", "--json"]
        said = subprocess.check_output(argv, env=self.environment(), timeout=PATIENCE)
        rows = json.loads(said)["result"]["fallbacks"]
        return {row["reason"]: row["sockets"] for row in rows}

    @contextlib.contextmanager
    def expect(self, streams: int = 0, datagrams: int = 0, bytes: int = 0) -> Iterator[None]:
        """Demand that a block opens so many accelerated connections and moves so many bytes.

        Without this a test would pass over the kernel's sockets alone and prove nothing.
        """
        before = self.totals()
        yield
        if not self.accelerated:
            return
        wanted = {"streams": streams, "datagrams": datagrams, "bytes": bytes}
        deadline = time.monotonic() + 2.0
        while True:
            seen = vars(self.totals() - before)
            missing = [name for name, least in wanted.items() if seen[name] < least]
            if not missing:
                return
            if time.monotonic() > deadline:
                found = ", ".join(f"{seen[name]} {name}, not {wanted[name]}" for name in missing)
                raise AssertionError(f"not accelerated: the daemon counted {found}")
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.processes:
            process.kill()


class Tap:
    """Looks at what the NICs in software of some machines send to each other; only root may."""

    def __init__(self, *addresses: str, before: Sequence[str] = ()) -> None:
        script = ROOT / "programs" / "frames.py"
        self.process = subprocess.Popen(
            [*before, sys.executable, str(script), *addresses],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self.process.stdout.readline() != "looking\n":
            self.kill()
            raise ProgramError(f"{script.name} cannot look at packets")

    def end(self, some: bool) -> None:
        """Demand that all frames were sealed, or in the clear with IPNUMA_PLAIN; and some."""
        said, _ = self.process.communicate(timeout=PATIENCE)
        seen = json.loads(said)
        wanted, other = ("clear", "sealed") if PLAIN else ("sealed", "clear")
        assert seen[other] == 0, seen
        assert (seen[wanted] > 0) == some, seen

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def make_key(directory: Path) -> str:
    """Make a machine's key; return what others know it by."""
    line = [str(executable()), "key", "--key", str(directory / "key")]
    return subprocess.check_output(line, text=True, timeout=PATIENCE).strip()


def trust(directory: Path, network: str, fingerprint: str) -> None:
    """Let a machine's daemon believe another machine's."""
    known = str(directory / "known_peers")
    line = [str(executable()), "key", "trust", network, fingerprint, "--known-peers", known]
    subprocess.check_call(line, timeout=PATIENCE)


def believes(directory: Path) -> list[str]:
    """Options of a daemon that say whom it believes."""
    if PLAIN:
        return ["--insecure"]
    return ["--key", str(directory / "key"), "--known-peers", str(directory / "known_peers")]


def two_machines(net: Network) -> tuple[list[str], str]:
    """Make a daemon two machines at once.

    What would be on one machine goes through its NIC. Return its options, and its address.
    """
    directory = net.directory / "machines"
    directory.mkdir()
    file = directory / "daemon.toml"
    file.write_text("[remote]\nloopback = true\npatience = 15\n")
    if not PLAIN:
        trust(directory, "127.0.0.0/8", make_key(directory))
    # An address that no other run has.
    while True:
        address = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
        with socket.socket() as stream, contextlib.suppress(OSError):
            stream.bind((address, 3422))
            break
    options = ["--config", str(file), "--management", f"{address}:3422", *believes(directory)]
    return options, address


@contextlib.contextmanager
def network(
    name: str, directory: Path, spin_us: int | None = None, user: str | None = None
) -> Iterator[Network]:
    """Provide a network; that of IP-NUMA has a daemon of its own.

    "far" is IP-NUMA as between two machines, whose sessions are sealed.
    """
    net = Network(name, directory, spin_us=spin_us, user=user)
    tap = None
    if net.accelerated:
        options: list[str] = []
        if name == "far":
            options, address = two_machines(net)
            tap = Tap(address) if os.geteuid() == 0 else None
        argv = net.as_user([str(executable()), "daemon", "--socket", str(net.socket), *options])
        net.daemon = Process(argv, net.environment(), directory / "daemon.log", directory)
        daemon = net.daemon
        try:
            wait_until(lambda: answers(net.socket) or not daemon.running, "the daemon is ready")
            if not daemon.running:
                raise daemon.complaint(f"ended with status {daemon.child.returncode} at once")
        except BaseException:
            daemon.kill()
            if tap is not None:
                tap.kill()
            raise
    try:
        yield net
        if tap is not None:
            carried = net.totals()
            tap.end(some=carried.streams + carried.datagrams > 0)
        if net.daemon is not None and not net.daemon.running:
            raise net.daemon.complaint(f"died with status {net.daemon.child.returncode}")
    finally:
        net.close()
        if net.daemon is not None:
            net.daemon.kill()
        if tap is not None:
            tap.kill()


def compile_c(source: str, *flags: str, libraries: Sequence[str] = ()) -> Path:
    """Compile a client of this folder; once is enough for a version of its source."""
    path = ROOT / "programs" / source
    binary = ROOT / ".build" / "programs" / path.stem
    if not binary.exists() or binary.stat().st_mtime < path.stat().st_mtime or flags or libraries:
        binary.parent.mkdir(parents=True, exist_ok=True)
        fresh = binary.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        warnings = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
        subprocess.run(
            ["cc", *warnings, *flags, "-o", str(fresh), str(path), *libraries], check=True
        )
        fresh.rename(binary)
    return binary


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep that many processes running all the time."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()
