# SPDX-License-Identifier: Apache-2.0
"""Run the checks of the project, two at a time; ./test calls this.

Every phase is a command with a budget in seconds on two free cores. Phases that wait for nothing
run side by side, one a core, longest first; each writes a log, and is reported when it ends: what
it counted, the time it took beside its budget, and its processor time. The first that fails ends
the others.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from options import Parser, listed

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".build" / "test"
STAMPS = ROOT / ".build" / "stamps" / "phases"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# What is shown of the log of a phase that failed (around its complaints, and its end), and of one
# that passed.
LINES_COMPLAINT = 240
LINES_FAILED = 60
LINES_PASSED = 12
# How cargo, pytest and the tools say that something is wrong; how much is shown around it.
COMPLAINT = re.compile(
    r"panicked at|^---- .* stdout ----|^E   |^(FAILED|ERROR) |^error\b|\bFAIL\b|^WRONG|Traceback"
)
BEFORE, AFTER = 4, 24
# Between two lines that say what is running.
BEAT_SECONDS = 60
# Its settings say -q already; once more, and it says no sums.
PYTEST = ".venv/bin/pytest"
# With --workspace also where one crate is tested: alone it would be built once more, with fewer
# features of its dependencies, and its programs would replace those that other phases run.
CARGO = "cargo test --release --locked -q"


@dataclass(frozen=True)
class Phase:
    """One check."""

    name: str
    budget: int
    what: str
    command: str
    # Phases that must have passed before, where they are run as well.
    after: Sequence[str] = ()
    # Files besides the models that a random run with a fixed seed is a function of.
    inputs: Sequence[str] = ()
    # Whether only --long runs it, or who names it.
    long: bool = False
    env: dict[str, str] = field(default_factory=dict)


def pure(name: str, budget: int, what: str, command: str, program: str, **more: object) -> Phase:
    """Make a phase that a program and a seed decide: it is not repeated while both stay."""
    inputs = (f"{TARGET}/release/{program}",)
    return Phase(name, budget, what, command, ("build", "models"), inputs, **more)


# What draws no other seed when it changes, besides documents anywhere: no test reads it.
UNTESTED = ("docs/", ".ci/", "verif/recorded/mutants/")

GUESTS = {"IPNUMA_UML_REQUIRED": "1"}
LONG = {"IPNUMA_LONG": "1"}
DRAW = {"IPNUMA_DRAW": "1"}

# Brings in the compilers, wheels and programs; it is part of every run.
TOOLS = Phase("tools", 120, "Debian packages, Python wheels (tools/setup)", "tools/setup")
# What Rust's own tools and a C compiler do needs nothing of it.
WITHOUT_TOOLS = ("builder", "build", "clippy", "format")

# In the order in which they are begun, as far as what they wait for allows.
PHASES = [
    TOOLS,
    # By itself: cargo builds one thing after the other, and models need not wait for all crates.
    Phase(
        "builder",
        120,
        "the program that builds models (crates/verilate)",
        "cargo build --release --locked -q -p verilate",
    ),
    Phase(
        "models",
        600,
        "the Verilated models, each once for all crates",
        f"{TARGET}/release/verilate --jobs 1",
        ("builder",),
    ),
    Phase(
        "build",
        900,
        "all crates, their tests and examples, one profile for all phases",
        "cargo build --release --workspace --all-targets --locked -q",
        ("builder",),
    ),
    Phase(
        "cocotb",
        1200,
        "module benches (pytest verif), of some only the builds that the seed draws",
        f"{PYTEST} verif -n 1 --dist loadfile",
        env=DRAW,
    ),
    Phase(
        "formal",
        900,
        "proofs (tools/formal): what changed, and of what is recorded every fourth",
        "tools/formal --jobs 1",
        env=DRAW,
    ),
    Phase(
        "synth",
        600,
        "area of every module on ECP5 against rtl/locked.toml (tools/synth), drawn likewise",
        "tools/synth",
        env=DRAW,
    ),
    Phase(
        "timing",
        300,
        "paths between clocks, logic levels, MACs routed (tools/crossings, tools/timing), drawn"
        " likewise",
        "tools/crossings && tools/timing --jobs 1",
        env=DRAW,
    ),
    Phase("kernel", 400, "the guests' kernel and drivers (tools/uml-kernel)", "tools/uml-kernel"),
    Phase(
        "rdma-kernel",
        600,
        "the kernel of guests with verbs, drivers and provider",
        "tools/uml-kernel --rdma",
        ("kernel",),
    ),
    Phase(
        "guests",
        400,
        "Linux hosts in the rack: every test that needs their kernel",
        f"{CARGO} --workspace --test boot --test network --test pci --test ring_nic --test guest"
        " --test guests --test ipnuma_guests --test rdma_guests --test mpi_guests"
        " --test rdma_core_guests"
        " --test engine_guests --test memcached --test sealed_guests --test direct_guests"
        " -- --ignored && "
        f"{PYTEST} programs/test_rack_*.py",
        ("build", "models", "kernel", "rdma-kernel"),
        env=GUESTS,
    ),
    Phase(
        "drivers",
        150,
        "the drivers against the headers of Debian's kernels, x86-64 and aarch64 (tools/drivers)",
        "tools/drivers",
    ),
    Phase(
        "rust",
        400,
        "cargo test, all crates",
        f"{CARGO} --workspace --no-fail-fast",
        ("build", "models"),
    ),
    pure(
        "differential",
        200,
        "RTL of the NIC against the reference model, random traffic",
        f"{TARGET}/release/difftest --ops 500000",
        "difftest",
    ),
    pure(
        "switches",
        200,
        "RTL of the switch against the reference model, random traffic, large tables; resets of its"
        " ports and its core",
        f"{TARGET}/release/switchtest --frames 500000 --changes 50000"
        f" && {TARGET}/release/switchtest --resets",
        "switchtest",
    ),
    pure(
        "faults",
        450,
        "pairs of NICs over channels with every fault, resets of one side, then half a million"
        " fuzzed frames of each format",
        f"{TARGET}/release/faulttest && {TARGET}/release/faulttest --resets"
        f" && {TARGET}/release/faulttest --fuzz 250000",
        "faulttest",
    ),
    pure(
        "rdma",
        60,
        "RTL of UZURA against its model: queue pairs over faults, altered packets and requests",
        f"{TARGET}/release/uzuratest --packets 3000",
        "uzuratest",
    ),
    Phase(
        "programs",
        300,
        "memcached, redis, nginx, iperf3, sockperf, curl: the kernel's sockets and IP-NUMA",
        f"{PYTEST} programs --ignore programs/test_between.py --ignore programs/test_mapped.py"
        " --ignore-glob '*/test_rack_*.py'",
        ("build", "models", "kernel"),
    ),
    Phase(
        "machines",
        260,
        "sockets, mapped memory and programs between machines, sealed; Linux behind the switch",
        f"{CARGO} --workspace --test between --test tap -- --ignored && "
        f"{PYTEST} programs/test_between.py programs/test_mapped.py && IPNUMA_FAR=1 {PYTEST}"
        " programs/test_{memcached,redis,nginx}.py -k 'not large'",
        ("build", "models"),
    ),
    Phase("demo", 200, "a short run of ./demo", "./demo --short", ("build", "models", "kernel")),
    Phase(
        "clippy",
        300,
        "cargo clippy and cargo doc, warnings are errors",
        "cargo clippy --release --workspace --all-targets --locked -q -- -D warnings &&"
        " RUSTDOCFLAGS='-D warnings' cargo doc --release --workspace --no-deps --locked -q",
    ),
    Phase("fuzz", 300, "parsers of everything that comes from outside (tools/fuzz)", "tools/fuzz"),
    Phase(
        "lint",
        120,
        "licence headers, file lists, Verilator, slang, Verible, ruff (tools/lint)",
        "tools/lint",
    ),
    Phase("format", 20, "cargo fmt --check", "cargo fmt --all --check"),
    Phase(
        "long-guests",
        3600,
        "10 MB by curl with loss, long forms of memcached's clients, the hash, routing",
        f"{CARGO} --workspace --test guests --test engine_guests -- --ignored && "
        f"{PYTEST} programs/test_rack_*.py",
        ("build", "models", "kernel"),
        env=GUESTS | LONG,
        long=True,
    ),
    Phase(
        "long-programs",
        3600,
        "CPython's and the kernel's own tests, servers in front of others or replaced under load,"
        " each many times",
        f"{PYTEST} programs/test_{{servers,postgres,cpython,selftests,leaving}}.py",
        ("build", "models"),
        env=LONG,
        long=True,
    ),
    Phase(
        "long-busy",
        7200,
        "nginx, shells, servers and clients, each twenty times beside eight busy loops",
        f"{PYTEST} programs/test_{{everyday,nginx,servers,postgres}}.py",
        ("build", "models"),
        env=LONG | {"IPNUMA_BUSY": "8"},
        long=True,
    ),
    Phase(
        "long-cpython",
        7200,
        "CPython's own tests, each module twenty times beside eight busy loops",
        f"{PYTEST} programs/test_cpython.py -n 4 --maxschedchunk 1",
        ("build",),
        env=LONG | {"IPNUMA_BUSY": "8"},
        long=True,
    ),
    Phase(
        "long-sockets",
        7200,
        "a million connections that race with their ends beside eight busy loops, ten thousand"
        " random sequences beside the kernel's",
        f"IPNUMA_RACES=1000000 {CARGO} --workspace --test races -- --nocapture && "
        f"{TARGET}/release/conformance --compare --library {TARGET}/release/libipnuma_socket.so"
        " --sequences 10000 property",
        ("build",),
        long=True,
    ),
    Phase(
        "long-demo",
        600,
        "./demo, whole: every table and figure as its experiment expects",
        "./demo",
        ("build", "models", "kernel"),
        long=True,
    ),
    Phase(
        "long-routes",
        600,
        "the Internet's table, IPv6 grown to 281,516, and one of 1.2 million routes against"
        " another implementation",
        "crates/fib/tools/fetch-routes && crates/fib/tools/grow-routes &&"
        f" {CARGO} --workspace --test tables -- --ignored",
        ("build",),
        long=True,
    ),
    Phase(
        "long-agent",
        5400,
        "fibd beside the kernel, BIRD and FRR, in namespaces; the Internet's table from both, what"
        " goes wrong with it, and full flaps of it",
        f"crates/fib/tools/fetch-routes && {CARGO} -p fibd --no-fail-fast -- --include-ignored",
        ("build",),
        env=LONG,
        long=True,
    ),
    Phase(
        "long-benches",
        1800,
        "module benches with a long form: receiver, resets of the switch's ports, GMII, UZURA with"
        " loss, PC IDs, all builds of the switch, its tester and the offload engine",
        f"{PYTEST} -n 1 --dist loadfile verif/fibnic/test_gmii_elastic.py"
        " verif/fibnic/test_fibnic_resets.py verif/uzura/test_uzura_loss.py"
        " verif/ipnuma_rx/test_ipnuma_rx.py verif/ipnuma_rx/test_ipnuma_rx_sessions.py"
        " verif/fibnic/test_fibnic.py verif/toe/test_toe.py verif/tester/test_rfc2544.py"
        " verif/fibnic/test_fibnic_ports.py verif/nic/test_pc_ids.py verif/nic/test_slots.py",
        env=LONG,
        long=True,
    ),
    Phase(
        "long-crates",
        1800,
        "ten million trapped accesses, a million segments beside smoltcp and the RTL, a thousand"
        " dying daemons, incast over eight trees, the whole model of two ends of a socket, stores"
        " by the million with keys that change",
        f"{CARGO} --workspace --no-fail-fast --test forms --test fuzz --test engine_fuzz"
        " --test between --test stream --test protocol --test rekey --test keys --"
        " --include-ignored",
        ("build", "models"),
        env=LONG,
        long=True,
    ),
    Phase(
        "long-differential",
        900,
        "a million operations of the NIC and a million frames of the switch against their models",
        f"{TARGET}/release/difftest && {TARGET}/release/switchtest",
        ("build", "models"),
        long=True,
    ),
    Phase(
        "long-faults",
        900,
        "two million fuzzed frames of each format (faulttest --fuzz)",
        f"{TARGET}/release/faulttest --fuzz 1000000",
        ("build", "models"),
        long=True,
    ),
    Phase(
        "long-resets",
        3600,
        "a million stores while one side of a NIC is reset (faulttest --resets --full)",
        f"{TARGET}/release/faulttest --resets --full",
        ("build", "models"),
        long=True,
    ),
    Phase(
        "long-switch-resets",
        3600,
        "a million frames while ports of a switch and its core are reset and links fail"
        " (switchtest --resets --full)",
        f"{TARGET}/release/switchtest --resets --full",
        ("build", "models"),
        long=True,
    ),
    Phase(
        "long-rdma",
        21600,
        "a million packets of UZURA over faults, and a million altered ones (uzuratest)",
        f"{TARGET}/release/uzuratest --packets 1000000",
        ("build", "models"),
        long=True,
    ),
    Phase(
        "long-rekey",
        1800,
        "a million stores between NICs in RTL whose keys change every thousand frames, of which one"
        " in a hundred is lost (faulttest --cell rekey)",
        f"{TARGET}/release/faulttest --full --cell rekey-rtl-rtl --stores 1000000",
        ("build", "models"),
        long=True,
    ),
    Phase(
        "long-mutants",
        14400,
        "small mistakes in RTL and crates, and how many the tests find (tools/mutate)",
        "tools/mutate --formal",
        long=True,
    ),
    Phase("long-synth", 900, "the area of all tops (tools/synth)", "tools/synth", long=True),
    Phase(
        "long-timing",
        7200,
        "levels of NICs, shells, the TCP engine, the switch's port; routed MACs (tools/timing)",
        "tools/timing --long",
        long=True,
    ),
    Phase(
        "long-proofs",
        7200,
        "proofs that take too long for every run (verif/formal/long)",
        "tools/formal --long",
        long=True,
    ),
]
PHASES = [
    phase
    if phase is TOOLS or phase.name in WITHOUT_TOOLS
    else replace(phase, after=(TOOLS.name, *phase.after))
    for phase in PHASES
]
NAMES = [phase.name for phase in PHASES]


def commit_seed() -> str:
    """Draw a seed from the commit's files, so that an unchanged tree repeats its run.

    Documents do not count: a commit that says how a run went does not ask for another one.
    """
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        print("./test: this is no git repository, so its seed is 1; --seed says another")
        return "1"
    tested = [
        line
        for line in listed.stdout.splitlines()
        if not (name := line.split("\t")[1]).startswith(UNTESTED) and not name.endswith(".md")
    ]
    return str(int(hashlib.sha256("\n".join(tested).encode()).hexdigest()[:8], 16))


class Run:
    """A run of several phases."""

    def __init__(self, phases: list[Phase], cores: int, seed: str, going: bool) -> None:
        """Take the phases in the order in which they are to begin."""
        self.waiting = list(phases)
        self.selected = {phase.name for phase in phases}
        self.of = len(phases)
        self.cores = cores
        self.going = going
        self.passed_phases: set[str] = set()
        self.failed_phases: list[str] = []
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.rows: list[tuple[str, float, int, float, str]] = []
        self.changed = threading.Condition()
        self.begun = time.monotonic()
        self.environment = {**os.environ, "IPNUMA_SEED": seed}

    def ready(self, phase: Phase) -> bool:
        """Say whether all that a phase waits for has passed."""
        return all(name in self.passed_phases for name in phase.after if name in self.selected)

    def blocked(self, phase: Phase) -> bool:
        """Say whether something that a phase waits for has failed."""
        return any(name in self.failed_phases for name in phase.after)

    def stamp(self, phase: Phase) -> Path | None:
        """Name the run of a phase by what decides it."""
        if not phase.inputs:
            return None
        hasher = hashlib.sha256(f"{phase.command}\0{self.environment['IPNUMA_SEED']}".encode())
        for name in phase.inputs:
            path = Path(name)
            if not path.is_file():
                return None
            hasher.update(path.read_bytes())
        models = subprocess.run(
            [f"{TARGET}/release/verilate", "--paths"], capture_output=True, check=False
        )
        if models.returncode != 0:
            return None
        hasher.update(models.stdout)
        return STAMPS / f"{phase.name}-{hasher.hexdigest()[:32]}"

    def work(self) -> None:
        """Run phases one after the other until none is left, as one of the lanes."""
        while True:
            with self.changed:
                phase = None
                while phase is None:
                    if self.failed_phases and not self.going:
                        return
                    for one in [one for one in self.waiting if self.blocked(one)]:
                        self.waiting.remove(one)
                        self.failed_phases.append(one.name)
                        self.rows.append((one.name, 0.0, one.budget, 0.0, "not run"))
                    if not self.waiting:
                        return
                    phase = next((one for one in self.waiting if self.ready(one)), None)
                    if phase is None:
                        if not self.running:
                            raise SystemExit("test: the phases wait for each other")
                        self.changed.wait()
                self.waiting.remove(phase)
            self.one(phase)
            with self.changed:
                self.changed.notify_all()

    def one(self, phase: Phase) -> None:
        """Run a phase and report it."""
        log = LOGS / f"{phase.name}.log"
        stamp = self.stamp(phase)
        if stamp and stamp.is_file():
            log.write_bytes(stamp.read_bytes())
            self.report(phase, log, 0, 0.0, 0.0, "unchanged")
            return
        started = time.monotonic()
        with log.open("wb") as stream, self.changed:
            process = subprocess.Popen(
                ["bash", "-c", phase.command],
                cwd=ROOT,
                env={**self.environment, **phase.env},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.running[phase.name] = process
        _, status, usage = os.wait4(process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        took = time.monotonic() - started
        with self.changed:
            del self.running[phase.name]
            ended = bool(self.failed_phases) and not self.going
        if ended:
            return
        if code == 0 and stamp:
            STAMPS.mkdir(parents=True, exist_ok=True)
            stamp.write_bytes(log.read_bytes())
        self.report(phase, log, code, took, usage.ru_utime + usage.ru_stime, "")

    def report(
        self, phase: Phase, log: Path, code: int, took: float, cpu: float, note: str
    ) -> None:
        """Count what a phase says, and print how it went."""
        lines = log.read_text(errors="replace").splitlines()
        counts = count(lines, code)
        good = code == 0
        with self.changed:
            for name, number in counts.items():
                self.counts[name] += number
            if good:
                self.passed_phases.add(phase.name)
            else:
                self.failed_phases.append(phase.name)
            done = len(self.passed_phases) + len(self.failed_phases)
            self.rows.append((phase.name, took, phase.budget, cpu, note or tell(counts)))
            verb = "passed" if good else "FAILED"
            print(
                f"== [{done}/{self.of}] {phase.name} {verb}: {note or tell(counts)}; {took:.0f} s"
                f" (budget {phase.budget} s), {cpu:.0f} s of processor time",
                flush=True,
            )
            for line in lines[-LINES_PASSED:] if good else excerpt(lines):
                print(f"   {line}")
            for line in lines:
                if line.lstrip().startswith(("skipped: ", "SKIPPED [")):
                    print(f"   {line.strip()}")
            if not good:
                print(f"== log: {log.relative_to(ROOT)}; to run it alone: ./test {phase.name}")
                if not self.going:
                    for process in self.running.values():
                        os.killpg(process.pid, signal.SIGTERM)
            sys.stdout.flush()

    def beat(self, stop: threading.Event) -> None:
        """Say now and then what is running."""
        while not stop.wait(BEAT_SECONDS):
            with self.changed:
                names = ", ".join(self.running)
            print(f".. {time.monotonic() - self.begun:.0f} s: {names}", flush=True)

    def all(self) -> int:
        """Run everything; return the exit status."""
        LOGS.mkdir(parents=True, exist_ok=True)
        stop = threading.Event()
        threading.Thread(target=self.beat, args=(stop,), daemon=True).start()
        lanes = [threading.Thread(target=self.work) for _ in range(self.cores)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        stop.set()
        took = time.monotonic() - self.begun
        print("\n phase           took   budget  processor")
        for name, seconds, budget, cpu, note in self.rows:
            over = " over" if seconds > budget else ""
            print(f" {name:<14} {seconds:5.0f} s  {budget:5} s  {cpu:7.0f} s  {note}{over}")
        cpu = sum(row[3] for row in self.rows)
        print(
            f"== {took:.0f} s, {cpu:.0f} s of processor time, "
            f"IPNUMA_SEED={self.environment['IPNUMA_SEED']}"
        )
        if self.failed_phases:
            print(f"== failed: {', '.join(self.failed_phases)}")
        print(
            f"{self.counts['passed']} passed, {self.counts['failed']} failed, "
            f"{self.counts['skipped']} skipped"
        )
        return 1 if self.failed_phases else 0


def excerpt(lines: list[str]) -> list[str]:
    """Choose what explains a failure: what stands around complaints, then the end."""
    chosen: set[int] = set()
    for at, line in enumerate(lines[:-LINES_FAILED]):
        if len(chosen) >= LINES_COMPLAINT:
            break
        if COMPLAINT.search(line):
            chosen.update(range(max(0, at - BEFORE), min(len(lines), at + AFTER)))
    chosen.update(range(max(0, len(lines) - LINES_FAILED), len(lines)))
    shown: list[str] = []
    last = -1
    for at in sorted(chosen):
        if at != last + 1:
            shown.append(f"... {at - last - 1} lines")
        shown.append(lines[at])
        last = at
    return shown


def count(lines: list[str], code: int) -> dict[str, int]:
    """Add up what pytest, cargo and the tools report; what counts nothing is one check."""
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    for line in lines:
        for number, name in re.findall(r"(\d+) (passed|failed|skipped)\b", line):
            counts[name] += int(number)
    # Tests in Rust that could not run say so (crates/skip), and their runner takes them for passed.
    unable = {line.strip() for line in lines if line.lstrip().startswith("skipped: ")}
    counts["skipped"] += len(unable)
    counts["passed"] = max(0, counts["passed"] - len(unable))
    if code == 0:
        counts["passed"] = counts["passed"] or 1
    else:
        counts["failed"] = counts["failed"] or 1
    return counts


def tell(counts: dict[str, int]) -> str:
    """Write counts as words."""
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    width = max(map(len, NAMES))
    table = "\n".join(
        f"  {phase.name:<{width}}  {phase.what}{' (--long)' if phase.long else ''}"
        for phase in PHASES
    )
    parser = Parser(
        prog="./test",
        description="Runs all phases, or those that are named and what they need.",
        epilog=f"phases:\n{table}\n\nThe seed of random tests is drawn from the commit."
        " Tests that cannot run here are named\nand counted as skipped; with IPNUMA_REQUIRE_ALL=1"
        " they fail.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("phase", nargs="*", help="one of those below")
    parser.add_argument("--list", action="store_true", help="print the names of the phases")
    parser.add_argument("--long", action="store_true", help="the long forms as well")
    parser.add_argument("--from", dest="start", metavar="PHASE", help="leave out those before")
    parser.add_argument("--keep-going", action="store_true", help="a failure ends only itself")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", help="of random tests: a number, or `random`")
    args = parser.parse_args()
    for name in [*args.phase, *([args.start] if args.start else [])]:
        if name not in NAMES:
            parser.error(f"there is no phase {name!r}; choose from {', '.join(NAMES)}")
    if args.jobs < 1:
        parser.error(f"--jobs: {args.jobs} is too few; write at least 1")
    if args.seed not in {None, "random"} and not args.seed.isdecimal():
        parser.error(f"--seed: {args.seed!r} is not a number; write one, or `random`")
    return args


def with_needs(names: Sequence[str]) -> set[str]:
    """Return phases and all that must have passed before them."""
    after = {phase.name: phase.after for phase in PHASES}
    found, todo = set(names), list(names)
    while todo:
        new = set(after[todo.pop()]) - found
        found |= new
        todo += new
    return found


def main() -> int:
    """Run the phases asked for."""
    args = arguments()
    if args.list:
        return listed("./test", "\n".join(NAMES))
    if args.check:
        return 0
    phases = [phase for phase in PHASES if args.long or not phase.long]
    if args.start:
        phases = phases[[phase.name for phase in phases].index(args.start) :]
    if args.phase:
        wanted = with_needs(args.phase)
        phases = [phase for phase in PHASES if phase.name in wanted]
    phases = [TOOLS, *(phase for phase in phases if phase is not TOOLS)]
    seed = args.seed or os.environ.get("IPNUMA_SEED") or commit_seed()
    if seed == "random":
        seed = str(secrets.randbelow(2**32))
    if not seed.isdecimal():
        print(
            f"./test: $IPNUMA_SEED: {seed!r} is not a number; write one, or `random`",
            file=sys.stderr,
        )
        return 2
    print(f"== {len(phases)} phases, {args.jobs} at a time, IPNUMA_SEED={seed}", flush=True)
    return Run(phases, args.jobs, seed, args.keep_going).all()


if __name__ == "__main__":
    sys.exit(main())
