# SPDX-License-Identifier: Apache-2.0
"""Measures IP-NUMA beside the kernel's sockets, in one run on one machine, as ratios.

Every measurement is taken in pairs, right after each other and in alternating order: once as it
is, once by `ipnuma run`; nothing else differs. Two processes have a core each. A ratio is that of a
pair; the median of the ratios counts, the lowest and highest show how far they spread.
programs/bench-sockets calls it; docs/bench-sockets.md says what each figure consists of.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import io
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import programs
from programs import HOST, Network

ROOT = Path(__file__).resolve().parents[1]
# The tests' build is optimised little, and measures a fraction of what is installed.
MEASURED = ROOT / "target" / "dist" / "ipnuma"
Figures = dict[str, float]


@dataclass
class Goal:
    """What a figure has to reach: a ratio to the kernel's, in its favour."""

    figure: str
    times: float


@dataclass
class Measurement:
    """A thing to measure over both networks."""

    name: str
    what: str
    run: Callable[[Network, Settings], Figures]
    goals: list[Goal] = field(default_factory=list)
    # What is accelerated at least: of short connections, only those that are tried.
    least: dict[str, int] = field(default_factory=lambda: {"bytes": 10_000})


@dataclass
class Settings:
    """How much is measured, and where."""

    server_core: int
    client_core: int
    seconds: int
    count: int


@dataclass
class Result:
    """A figure of a measurement over both networks."""

    measurement: str
    figure: str
    unit: str
    kernel: list[float]
    ipnuma: list[float]
    ratios: list[float]
    ratio: float
    goal: float | None
    reached: bool | None


# A name says the unit by its end; less is better of times, more of everything else.
UNITS = {"_ns": "ns", "_us": "us", "_per_s": "/s", "_Gbit": "Gbit/s"}


def unit(figure: str) -> str:
    return next(u for end, u in UNITS.items() if figure.endswith(end))


def favour(figure: str, kernel: float, ipnuma: float) -> float:
    """How many times better IP-NUMA is."""
    return kernel / ipnuma if unit(figure) in ("ns", "us") else ipnuma / kernel


# What is measured over both networks ------------------------------------------------------------


def sockperf(protocol: str, size: int = 14) -> Callable[[Network, Settings], Figures]:
    """Ping-pong of small messages; sockperf prints half of the round trip."""

    def run(net: Network, settings: Settings) -> Figures:
        port = programs.free_port()
        tcp = ["--tcp"] if protocol == "tcp" else []
        argv = ["sockperf", "server", "-i", HOST, "-p", str(port), *tcp]
        with server(net, *argv, port=port, core=settings.server_core):
            # More than there can be: else sockperf gives up when it counts more than expected.
            said = net.run(
                "sockperf", "ping-pong", "-i", HOST, "-p", str(port), "-m", str(size),
                "--mps", "4000000", "-t", str(settings.seconds), *tcp, core=settings.client_core,
            )  # fmt: skip
        found = dict(re.findall(r"percentile ([0-9.]+) = +([0-9.]+)", said))
        if "dropped messages = 0" not in said:
            raise programs.ProgramError(f"sockperf lost messages:\n{said}")
        return {
            "p50_ns": float(found["50.000"]) * 1000,
            "p99_ns": float(found["99.000"]) * 1000,
        }

    return run


@contextlib.contextmanager
def server(net: Network, *argv: str, **options):
    """Run a server that need not end by itself (sockperf ends with its signal's number)."""
    process = net.start(*argv, **options)
    try:
        yield process
    finally:
        process.kill()


def memcached(port: int, threads: int = 1) -> list[str]:
    user = ["-u", "root"] if os.geteuid() == 0 else []
    return ["memcached", *user, "-l", HOST, "-p", str(port), "-U", "0", "-t", str(threads)]


def memcached_get(net: Network, settings: Settings) -> Figures:
    """Single GETs of 32 bytes by one client with blocking calls, one at a time."""
    client = programs.compile_c("memget.c")
    port = programs.free_port()
    with server(net, *memcached(port), port=port, core=settings.server_core):
        said = net.run(
            str(client), HOST, str(port), "--count", str(settings.count),
            core=settings.client_core,
        )  # fmt: skip
    report = json.loads(said[said.index("{") :])
    return {
        "p50_ns": report["p50_ns"],
        "p99_ns": report["p99_ns"],
        "gets_per_s": report["ops_per_s"],
    }


def memcaslap(net: Network, settings: Settings) -> Figures:
    """memcaslap with one thread and one connection: nine GETs to a SET, by epoll at both ends."""
    port = programs.free_port()
    with server(net, *memcached(port), port=port, core=settings.server_core):
        said = net.run(
            "memcaslap", "-s", f"{HOST}:{port}", "-T", "1", "-c", "1", "-X", "32",
            "-t", f"{settings.seconds}s", core=settings.client_core,
        )  # fmt: skip
    found = re.search(r"TPS: (\d+)", said)
    if not found:
        raise programs.ProgramError(f"memcaslap said nothing of TPS:\n{said}")
    return {"ops_per_s": float(found[1])}


def redis_get(net: Network, settings: Settings) -> Figures:
    """redis-benchmark with one client that sends GET by GET."""
    port = programs.free_port()
    argv = ["redis-server", "--port", str(port), "--bind", HOST, "--save", ""]
    where = ["--dir", str(net.directory)]
    with server(net, *argv, *where, port=port, core=settings.server_core):
        said = net.run(
            "redis-benchmark", "-h", HOST, "-p", str(port), "-c", "1", "-t", "get", "--csv",
            "-n", str(settings.count // 2), "--precision", "3", core=settings.client_core,
        )  # fmt: skip
    row = next(csv.DictReader(io.StringIO(said[said.index('"test"') :])))
    return {"p50_us": float(row["p50_latency_ms"]) * 1000, "gets_per_s": float(row["rps"])}


def nginx(net: Network) -> tuple[list[str], int]:
    """Say how one nginx worker is started that has files of 512 and of 64 bytes, and its port."""
    port = programs.free_port()
    home = Path(tempfile.mkdtemp(dir=net.directory))
    (home / "small").write_bytes(b"x" * 512)
    (home / "tiny").write_bytes(b"x" * 64)
    paths = "".join(
        f"{kind}_temp_path {home}/{kind}; "
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root; " if os.geteuid() == 0 else ""
    (home / "nginx.conf").write_text(
        f"daemon off; {user}worker_processes 1; pid {home}/pid; error_log {home}/log;"
        f"events {{ worker_connections 64; }} http {{ access_log off; sendfile on; {paths}"
        f"keepalive_requests 100000000; server {{ listen {HOST}:{port}; root {home}; }} }}"
    )
    conf = str(home / "nginx.conf")
    return ["nginx", "-p", str(home), "-c", conf, "-e", str(home / "early")], port


def nginx_wrk(net: Network, settings: Settings) -> Figures:
    """One nginx worker, one connection of wrk, a file of 512 bytes."""
    argv, port = nginx(net)
    with server(net, *argv, port=port, core=settings.server_core):
        said = net.run(
            "wrk", "-t", "1", "-c", "1", "-d", f"{settings.seconds}s", "--latency",
            f"http://{HOST}:{port}/small", core=settings.client_core,
        )  # fmt: skip
    p50 = re.search(r"50%\s+([0-9.]+)(us|ms)", said)
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    if not p50 or not rate or "Socket errors" in said:
        raise programs.ProgramError(f"wrk failed:\n{said}")
    scale = 1000 if p50[2] == "ms" else 1
    return {"p50_us": float(p50[1]) * scale, "requests_per_s": float(rate[1])}


def nginx_short(net: Network, settings: Settings) -> Figures:
    """One nginx worker, a connection for each request of ab, a file of 64 bytes."""
    argv, port = nginx(net)
    with server(net, *argv, port=port, core=settings.server_core):
        url = f"http://{HOST}:{port}/tiny"
        return short_rate(net, settings, 1, url, core=settings.client_core)


def short_rate(
    net: Network, settings: Settings, clients: int, url: str, core: int | None = None
) -> Figures:
    """Let ab make a connection for each request."""
    count = str(4000 * settings.seconds)
    said = net.run("ab", "-q", "-n", count, "-c", str(clients), url, core=core)
    rate = re.search(r"Requests per second:\s+([0-9.]+)", said)
    if not rate or "Failed requests:        0" not in said:
        raise programs.ProgramError(f"ab failed:\n{said}")
    return {"requests_per_s": float(rate[1])}


APPLICATION = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "64")])
    return [b"x" * 64]
"""


def gunicorn(net: Network, port: int) -> list[str]:
    """Four processes that are forked before they accept, each from the same listener."""
    home = Path(tempfile.mkdtemp(dir=net.directory))
    (home / "application.py").write_text(APPLICATION)
    argv = ["gunicorn", "--workers", "4", "--bind", f"{HOST}:{port}", "--chdir", str(home)]
    return [*argv, "--worker-tmp-dir", str(home), "application"]


CLUSTER = """
const cluster = require('cluster');
if (cluster.isPrimary) {
  process.on('SIGTERM', () => process.exit());
  for (let worker = 0; worker < 4; worker++) cluster.fork();
} else {
  require('http').createServer((request, answer) => answer.end('x'.repeat(64)))
    .listen(Number(process.argv[2]), process.argv[3]);
}
"""


def node_cluster(net: Network, port: int) -> list[str]:
    """Four processes that are handed the connections which their parent accepts."""
    script = Path(tempfile.mkdtemp(dir=net.directory)) / "cluster.js"
    script.write_text(CLUSTER)
    return ["node", str(script), str(port), HOST]


def short_to_many(
    start: Callable[[Network, int], list[str]],
) -> Callable[[Network, Settings], Figures]:
    """Eight clients of ab, a connection for each request, to a server of several processes."""

    def run(net: Network, settings: Settings) -> Figures:
        port = programs.free_port()
        with server(net, *start(net, port), port=port):
            return short_rate(net, settings, 8, f"http://{HOST}:{port}/")

    return run


def iperf3(net: Network, settings: Settings) -> Figures:
    """One stream of bulk data."""
    port = programs.free_port()
    argv = ["iperf3", "-s", "-1", "-B", HOST, "-p", str(port)]
    with server(net, *argv, port=port, core=settings.server_core):
        said = net.run(
            "iperf3", "-c", HOST, "-p", str(port), "-J", "-t", str(settings.seconds),
            core=settings.client_core,
        )  # fmt: skip
    report = json.loads(said[said.index("{") :])["end"]
    return {"received_Gbit": report["sum_received"]["bits_per_second"] / 1e9}


def many_datagrams(way: str) -> Callable[[Network, Settings], Figures]:
    """Eight senders, four receivers that sleep between their datagrams: on all cores."""

    def run(net: Network, settings: Settings) -> Figures:
        program = str(programs.compile_c("udp_many.c"))
        said = net.run(program, way, "4", "8", "56", str(settings.seconds))
        return {"datagrams_per_s": float(said)}

    return run


PROFILES = ("throughput", "latency")
WORK_US = 200


def call_costs(net: Network, settings: Settings) -> Figures:
    """Time single calls on a stream; experiments/library.toml has what the rack charges of it."""
    program = str(programs.compile_c("call_costs.c"))
    said = net.run(
        program, "--rounds", str(max(settings.count // 5, 100)),
        "--cores", f"{settings.client_core},{settings.server_core}",
    )  # fmt: skip
    report = json.loads(said[said.index("{") :])
    return {figure: ns for figure, ns in report.items() if figure.endswith("_ns")}


def slow_answer(profile: str) -> Callable[[Network, Settings], Figures]:
    """One that computes before it answers: longer than a wait spins, unless the profile says so."""

    def run(net: Network, settings: Settings) -> Figures:
        program = str(programs.compile_c("pingpong.c"))
        said = net.run(
            program, "tcp", "--count", str(settings.count // 50), "--work-us", str(WORK_US),
            "--cores", f"{settings.client_core},{settings.server_core}",
            env={"IPNUMA_PROFILE": profile},
        )  # fmt: skip
        report = json.loads(said[said.index("{") :])
        return {
            "beside_work_us": report["rtt_p50_ns"] / 1000 - WORK_US,
            "cpu_us": report["cpu_us"],
        }

    return run


def memcached_many(profile: str) -> Callable[[Network, Settings], Figures]:
    """Four threads at each end and sixteen connections, on all cores."""

    def run(net: Network, settings: Settings) -> Figures:
        port = programs.free_port()
        env = {"IPNUMA_PROFILE": profile}
        with server(net, *memcached(port, threads=4), port=port, env=env):
            said = net.run(
                "memcaslap", "-s", f"{HOST}:{port}", "-T", "4", "-c", "16",
                "-t", f"{settings.seconds}s", env=env,
            )  # fmt: skip
        found = re.search(r"TPS: (\d+)", said)
        if not found:
            raise programs.ProgramError(f"memcaslap said nothing of TPS:\n{said}")
        return {"ops_per_s": float(found[1])}

    return run


TRIED = {"streams": 1}
PAIRS = [
    Measurement(
        "calls",
        "single calls on a TCP stream, by what they cost who makes them; bytes of a message",
        call_costs,
    ),
    Measurement(
        "sockperf-tcp",
        "sockperf ping-pong, TCP, 14 bytes, half of the round trip",
        sockperf("tcp"),
        [Goal("p50_ns", 8)],
    ),
    Measurement(
        "sockperf-udp",
        "sockperf ping-pong, UDP, 14 bytes, half of the round trip",
        sockperf("udp"),
        [Goal("p50_ns", 8)],
    ),
    Measurement(
        "memcached",
        "memcached, one worker, one client: GET of 32 bytes, whole round trip",
        memcached_get,
        [Goal("p50_ns", 3), Goal("gets_per_s", 2)],
    ),
    Measurement("memcaslap", "memcached, memcaslap with one connection", memcaslap),
    Measurement("redis", "redis, redis-benchmark with one connection, GET", redis_get),
    Measurement("nginx", "nginx, wrk with one connection, 512 bytes", nginx_wrk),
    Measurement(
        "nginx-short",
        "nginx, ab with a connection for each request, 64 bytes",
        nginx_short,
        [Goal("requests_per_s", 0.9)],
        TRIED,
    ),
    Measurement(
        "gunicorn",
        "gunicorn, four workers, eight clients with a connection for each request, 64 bytes",
        short_to_many(gunicorn),
        [Goal("requests_per_s", 0.9)],
        TRIED,
    ),
    Measurement(
        "node-cluster",
        "Node's cluster, four workers, eight clients with a connection for each request, 64 bytes",
        short_to_many(node_cluster),
        [Goal("requests_per_s", 0.9)],
        TRIED,
    ),
    Measurement("iperf3", "iperf3, one TCP stream", iperf3),
    Measurement(
        "udp-echo",
        "UDP, eight senders that wait for an answer, four receivers, 56 bytes",
        many_datagrams("echo"),
        [Goal("datagrams_per_s", 0.9)],
    ),
    Measurement(
        "udp-flood",
        "UDP, eight senders that do not wait, four receivers, 56 bytes",
        many_datagrams("flood"),
        [Goal("datagrams_per_s", 0.9)],
    ),
]
PAIRS += [
    Measurement(
        f"slow-{profile}",
        f"pingpong over TCP, an answer after {WORK_US} us of work: the rest of the round trip, and"
        f" processor time of who waits; profile {profile}",
        slow_answer(profile),
        least={"streams": 1},
    )
    for profile in PROFILES
] + [
    Measurement(
        f"many-{profile}",
        f"memcached, memcaslap, four threads and sixteen connections; profile {profile}",
        memcached_many(profile),
    )
    for profile in PROFILES
]

# What is measured natively ----------------------------------------------------------------------

NATIVE_GOAL = 20.0


@dataclass
class Native:
    """Half round trips of a way that has no second network to be compared with."""

    name: str
    what: str
    half_ns: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.half_ns)


def library() -> list[str]:
    """Say how a C program is linked with libipnuma; cargo puts it beside the executable."""
    include = ROOT / "crates" / "libipnuma" / "include"
    directory = programs.executable().resolve().parent
    if not (directory / "libipnuma.so").is_file():
        raise programs.ProgramError(
            f"there is no {directory}/libipnuma.so: build it with "
            "`cargo build --profile dist -p libipnuma`"
        )
    # Programs look for it by the name of its interface, which an installation would give it.
    named = ROOT / ".build" / "programs" / "libipnuma.so.0"
    named.parent.mkdir(parents=True, exist_ok=True)
    named.unlink(missing_ok=True)
    named.symlink_to(directory / "libipnuma.so")
    return [f"-I{include}", f"-L{directory}", f"-Wl,-rpath,{named.parent}", "-lipnuma"]


def pingpong(net: Network, settings: Settings, way: str) -> float:
    """Half of the median round trip of a way of programs/pingpong.c."""
    flags = ["-DWITH_IPNUMA", str(ROOT / "programs" / "pingpong_ring.c")]
    binary = programs.compile_c("pingpong.c", *flags, libraries=library())
    said = subprocess.run(
        [
            str(binary), way, "--count", str(settings.count),
            "--cores", f"{settings.client_core},{settings.server_core}",
        ],
        env=net.environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if said.returncode != 0:
        raise programs.ProgramError(f"pingpong {way} failed: {said.stderr.strip()}")
    return json.loads(said.stdout)["rtt_p50_ns"] / 2


def libfabric(net: Network, settings: Settings) -> float:
    """libfabric's shm provider by its own fi_pingpong, which prints half of the mean round trip."""
    port = programs.free_port()
    argv = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", str(settings.count), "-S", "8"]
    with server(net, *argv, "-B", str(port), port=port, core=settings.server_core):
        said = net.run(*argv, "-P", str(port), HOST, core=settings.client_core)
    rows = [line.split() for line in said.splitlines() if line.startswith("8 ")]
    if not rows:
        raise programs.ProgramError(f"fi_pingpong said:\n{said}")
    return float(rows[-1][6]) * 1000


def ucx(net: Network, settings: Settings) -> float:
    """UCX by its own ucx_perftest, tag matching over shared memory; half round trip, median."""
    port = programs.free_port()
    env = {"UCX_TLS": "posix,self", "UCX_LOG_LEVEL": "error"}
    argv = ["ucx_perftest", "-p", str(port)]
    with server(net, *argv, env=env, port=port, core=settings.server_core):
        said = net.run(
            *argv, "-t", "tag_lat", "-s", "8", "-n", str(settings.count), "-w", "10000", HOST,
            env=env, core=settings.client_core,
        )  # fmt: skip
    rows = [line.split() for line in said.splitlines() if line.startswith("Final:")]
    if not rows:
        raise programs.ProgramError(f"ucx_perftest said:\n{said}")
    return float(rows[-1][2]) * 1000


NATIVES = [
    ("ring", "libipnuma, a line ring each way"),
    ("line", "libipnuma, a line stored into the other's memory"),
    ("udp", "kernel UDP, blocking"),
    ("udp-poll", "kernel UDP, both ends spinning on MSG_DONTWAIT"),
    ("tcp", "kernel TCP, blocking"),
    ("libfabric", "libfabric's shm provider (fi_pingpong; mean, not median)"),
    ("ucx", "UCX over shared memory (ucx_perftest tag_lat)"),
]


def native(name: str, net: Network, settings: Settings) -> float:
    if name == "libfabric":
        return libfabric(net, settings)
    if name == "ucx":
        return ucx(net, settings)
    return pingpong(net, settings, name)


# The run ----------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    """Say where this was measured."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    return {
        "processor": model[1] if model else platform.machine(),
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "commit": commit,
        "executable": str(programs.executable()),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def measure_pair(
    measurement: Measurement, settings: Settings, repeat: int, directory: Path
) -> list[Result]:
    """Measure over both networks, in alternating order."""
    found: dict[str, list[Figures]] = {"kernel": [], "ipnuma": []}
    for number in range(repeat):
        order = ["kernel", "ipnuma"] if number % 2 == 0 else ["ipnuma", "kernel"]
        for name in order:
            progress(f"{measurement.name} {number + 1}/{repeat} over {name}")
            with (
                tempfile.TemporaryDirectory(dir=directory) as place,
                programs.network(name, Path(place)) as net,
                net.expect(**measurement.least),
            ):
                found[name].append(measurement.run(net, settings))
    goals = {goal.figure: goal.times for goal in measurement.goals}
    results = []
    for figure in found["kernel"][0]:
        kernel = [each[figure] for each in found["kernel"]]
        ipnuma = [each[figure] for each in found["ipnuma"]]
        ratios = [favour(figure, k, i) for k, i in zip(kernel, ipnuma, strict=True)]
        ratio = statistics.median(ratios)
        goal = goals.get(figure)
        reached = None if goal is None else ratio >= goal
        results.append(
            Result(
                measurement.name, figure, unit(figure), kernel, ipnuma, ratios, ratio, goal, reached
            )
        )
    return results


def measure_pairs(
    chosen: list[Measurement],
    settings: Settings,
    repeat: int,
    directory: Path,
    failures: dict[str, str],
) -> list[Result]:
    """Take all measurements; one that fails does not keep the others from being taken."""
    results = []
    for measurement in chosen:
        try:
            results += measure_pair(measurement, settings, repeat, directory)
        except (AssertionError, programs.ProgramError) as error:
            failures[measurement.name] = str(error)
    return results


def measure_natives(
    chosen: list[str], settings: Settings, repeat: int, directory: Path, failures: dict[str, str]
) -> list[Native]:
    """Measure all ways in turn, so that a busy moment hits all alike."""
    natives = [Native(name, what) for name, what in NATIVES if name in chosen]
    with (
        tempfile.TemporaryDirectory(dir=directory) as one,
        tempfile.TemporaryDirectory(dir=directory) as two,
        programs.network("kernel", Path(one)) as plain,
        programs.network("ipnuma", Path(two)) as ipnuma,
    ):
        for number in range(repeat):
            for way in natives:
                if way.name in failures:
                    continue
                progress(f"{way.name} {number + 1}/{repeat}")
                net = ipnuma if way.name in ("ring", "line") else plain
                try:
                    way.half_ns.append(native(way.name, net, settings))
                except (programs.ProgramError, subprocess.TimeoutExpired) as error:
                    failures[way.name] = str(error)
    return [way for way in natives if way.name not in failures]


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def verdict(goal: float | None, ratio: float) -> str:
    if goal is None:
        return ""
    return f"goal {goal:g}: {'reached' if ratio >= goal else 'MISSED'}"


def show(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def report(natives: list[Native], results: list[Result], where: dict[str, str]) -> str:
    """Render both tables."""
    lines = [", ".join(f"{name}: {value}" for name, value in where.items())]
    by_name = {way.name: way for way in natives}
    if natives:
        lines += ["", "8 bytes between two processes, half of the round trip in ns"]
        lines.append(f"{'way':<12}{'median':>9}{'lowest':>9}{'highest':>9}  {'to the ring':>11}")
        base = by_name["ring"].median if "ring" in by_name else None
        for way in natives:
            ratio = f"{way.median / base:.2f}" if base else ""
            lines.append(
                f"{way.name:<12}{show(way.median):>9}{show(min(way.half_ns)):>9}"
                f"{show(max(way.half_ns)):>9}  {ratio:>11}  {way.what}"
            )
        if base and "udp" in by_name:
            ratio = by_name["udp"].median / base
            lines.append(f"ring against kernel UDP: {ratio:.1f} times, {verdict(20, ratio)}")
        marks = [by_name[name] for name in ("libfabric", "ucx") if name in by_name]
        if base and marks:
            best = min(marks, key=lambda way: way.median)
            ratio = best.median / base
            word = "beaten" if ratio > 1 else "NOT beaten"
            lines.append(f"mark to beat, {best.name}: {ratio:.2f} times the ring's time, {word}")
    if results:
        lines += ["", "over the kernel's sockets and over IP-NUMA, unmodified programs (medians)"]
        lines.append(
            f"{'measurement':<14}{'figure':<16}{'kernel':>12}{'ipnuma':>12}{'ratio':>8}"
            f"{'spread':>16}"
        )
        for each in results:
            spread = f"{min(each.ratios):.2f} - {max(each.ratios):.2f}"
            lines.append(
                f"{each.measurement:<14}{each.figure:<16}"
                f"{show(statistics.median(each.kernel)):>12}"
                f"{show(statistics.median(each.ipnuma)):>12}{each.ratio:>8.2f}{spread:>16}"
                f"  {verdict(each.goal, each.ratio)}"
            )
    return "\n".join(lines)


def main() -> int:
    names = [name for name, _ in NATIVES] + [each.name for each in PAIRS]
    parser = argparse.ArgumentParser(prog="programs/bench-sockets", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="pairs of each measurement")
    parser.add_argument("--seconds", type=int, default=2, help="length of timed runs")
    parser.add_argument("--count", type=int, default=100_000, help="rounds of counted runs")
    parser.add_argument("--only", default=",".join(names), help=f"some of {','.join(names)}")
    parser.add_argument("--cores", default="0,1", help="core of the server, core of the client")
    parser.add_argument("--json", type=Path, help="write every figure into this file")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    unknown = set(only) - set(names)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; known: {', '.join(names)}")
    cores = [int(core) for core in arguments.cores.split(",")]
    settings = Settings(cores[0], cores[1], arguments.seconds, arguments.count)
    if "IPNUMA_EXECUTABLE" not in os.environ:
        if not MEASURED.is_file():
            raise programs.ProgramError(
                f"there is no {MEASURED}: build it with "
                "`cargo build --profile dist -p preload -p cli -p libipnuma`, "
                "or name another in IPNUMA_EXECUTABLE"
            )
        os.environ["IPNUMA_EXECUTABLE"] = str(MEASURED)
    # Servers have process groups of their own: whoever ends this run ends them too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Whoever else runs here shall disturb little.
    with contextlib.suppress(OSError):
        os.nice(-5)
    where = machine()
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-sockets-") as place:
        directory = Path(place)
        chosen = [name for name, _ in NATIVES if name in only]
        natives = []
        if chosen:
            natives = measure_natives(chosen, settings, arguments.repeat, directory, failures)
        pairs = [each for each in PAIRS if each.name in only]
        results = measure_pairs(pairs, settings, arguments.repeat, directory, failures)
    progress("")
    print(report(natives, results, where))
    for name, reason in failures.items():
        print(f"\n{name} could not be measured: {reason}")
    if arguments.json:
        everything = {
            "machine": where,
            "settings": asdict(settings) | {"repeat": arguments.repeat},
            "half_round_trips": [asdict(way) | {"median": way.median} for way in natives],
            "programs": [asdict(each) for each in results],
            "failures": failures,
        }
        arguments.json.write_text(json.dumps(everything, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except programs.ProgramError as error:
        sys.exit(f"bench-sockets: {error}")
