# SPDX-License-Identifier: Apache-2.0
"""Put small mistakes into copies of the sources, and look whether the tests notice.

RTL: mutants of rtl_mutants.py, drawn by a seed over all of rtl/. All are built together, each
behind a number (rtl_switch.py), into the benches of verif/ whose tops contain their modules; a
bench must pass with the number 0, and then runs once for each mutant that no smaller bench has
found. What cannot be put behind a number is built by itself, as is what no bench finds: into the
proofs that read its source, with --formal. A mutant that does not build is drawn anew. Of those
that nothing finds, one is equivalent if Verilator makes the same program of it as of the original,
and does not count. Rust: mutants that cargo-mutants lists of the crates that carry guarantees
(rust_mutants.py).

All work is done in a copy of the tracked files, in .build/mutate or where IPNUMA_MUTATE_DIR says;
nothing here is changed. One run at a time works there.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "verif"))

import rtl_mutants
import rtl_switch
import rust_mutants
import sharing
import stamps
from rtl_mutants import Mutant

ROOT = Path(__file__).resolve().parent.parent
WORK = Path(os.environ.get("IPNUMA_MUTATE_DIR") or ROOT / ".build" / "mutate").resolve()
TREE = WORK / "tree"
GOAL_PERCENT = 95.0
# A bench may take so many seconds, and so many times what it takes on an idle core.
LEAST_LIMIT, SLOWER = 120.0, 6.0
# The same for one that is built, in processor time, so that a busy machine finds no mutants: by
# what it took without a mutant, its build included. The clock only ends what waits for ever.
LEAST_CPU, SLOWER_CPU = 15.0, 2.0
WAITS = 3600.0
OUT_OF_TIME = re.compile(rf"tests failed \([^)]*-{int(signal.SIGXCPU)}\)|SIGXCPU")
# Survivors that change nothing that could be seen, each with the reason.
EQUIVALENT = "tools/equivalent_mutants.toml"
PLACE = re.compile(r"^(?P<source>[^:]+):(?P<line>\d+)(:\d+)?: ")
# To be raised when a mutant is judged in another way: earlier outcomes count no more.
JUDGED = "1"
# What decides the outcome of a mutant of the RTL; of one of a crate, besides crates.
BENCH_TOOLS = (
    *("env.sh", "filelist.py", "formal.py", "requirements.lock"),
    *("rtl_mutants.py", "rtl_switch.py"),
)
BENCH_FILES = ("rtl", "verif", *(f"tools/{name}" for name in (*BENCH_TOOLS, "stamps.py")))
# What was found before decides nothing, these outcomes among it.
RECORDED = "verif/recorded/"
CRATE_FILES = ("Cargo.toml", "Cargo.lock", "rtl", "experiments")
# Verilator's opinions of style: a mutant is to be found by what it does.
LINT = (
    "WIDTHEXPAND WIDTHTRUNC WIDTHXZEXPAND UNUSEDSIGNAL UNUSEDPARAM UNDRIVEN UNSIGNED CMPCONST"
    " CASEINCOMPLETE CASEOVERLAP LATCH ENUMVALUE SELRANGE BLKSEQ"
).split()
NO_BENCH = "no bench contains it"
BUILD_FAILED = re.compile(r"(verilating|building) \w+ failed")


@dataclass
class Bench:
    """A pytest function of verif/, and the sources that its tops contain."""

    test: str
    tops: list[tuple[str, list[str]]] = field(default_factory=list)
    # Verilator's options for each top.
    options: list[list[str]] = field(default_factory=list)
    contains: set[str] = field(default_factory=set)
    lines: int = 0


@dataclass
class Outcome:
    """What became of a mutant."""

    mutant: str
    status: str  # killed, survived, equivalent, unviable
    by: str
    seconds: float

    def show(self) -> None:
        """Print it."""
        by = f"  [{self.by}]" if self.by else ""
        print(f"{self.status:10} {self.seconds:5.0f} s  {self.mutant}{by}", flush=True)


def copy_tree() -> None:
    """Bring the copy to the state of the tracked files, edits that are not committed included."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    names = {name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file()}
    TREE.mkdir(parents=True, exist_ok=True)
    kept = {".build", ".venv", "target", "mutants.out"}
    for path in [p for p in TREE.rglob("*") if p.is_file() or p.is_symlink()]:
        inner = path.relative_to(TREE)
        if inner.parts[0] not in kept and "__pycache__" not in inner.parts:
            if inner.as_posix() not in names:
                path.unlink()
    for name in names:
        source, target = ROOT / name, TREE / name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            # With the time of now: a file that is older than its build is unchanged for cargo.
            shutil.copy(source, target)
    (TREE / ".build").mkdir(exist_ok=True)
    # Benches that passed with the same sources and seed need not show again that they do.
    shared = {".venv": ROOT / ".venv", ".build/models": stamps.cache() / "models"}
    shared |= {name: ROOT / name for name in (".build/ccache", ".build/stamps", ".build/uml")}
    for name, place in shared.items():
        link = TREE / name
        if not link.exists():
            place.mkdir(parents=True, exist_ok=True)
            link.symlink_to(place)


class Kept:
    """Outcomes of earlier runs: one mutant in one state of all that could decide it."""

    def __init__(self, kind: str, state: Callable[[Outcome], str], place: Path) -> None:
        """Read them from a directory; the state is a hash of what decides an outcome."""
        self.path = place / f"{kind}.jsonl"
        self.state = state
        self.known: dict[str, Outcome] = {}
        for line in self.path.read_text().splitlines() if self.path.is_file() else ():
            item = json.loads(line)
            was = item.pop("state")
            outcome = Outcome(**item)
            if was == state(outcome):
                self.known[outcome.mutant] = outcome

    def keep(self, outcome: Outcome) -> None:
        """Write one down, unless it was only slow: that may have been the machine."""
        if outcome.by.endswith("time") or outcome.by.endswith("(time)"):
            return
        with self.path.open("a") as stream:
            stream.write(json.dumps({"state": self.state(outcome)} | asdict(outcome)) + "\n")


class Files:
    """The tracked files of the copy below some folders, as they were at the start."""

    def __init__(self, *roots: str) -> None:
        """Hash each."""
        command = ["git", "ls-files", "-z", *roots]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        self.hashes = {
            name: hashlib.sha256((TREE / name).read_bytes()).hexdigest()
            for name in sorted(listed.stdout.decode().split("\0"))
            if name and not name.startswith(RECORDED) and (TREE / name).is_file()
        }

    def state(self, but: Callable[[str], bool] = lambda _: False) -> str:
        """Hash all but some."""
        lines = [f"{name} {content}" for name, content in self.hashes.items() if not but(name)]
        return hashlib.sha256("\n".join([JUDGED, *lines]).encode()).hexdigest()


def decides(bench: Bench, name: str) -> bool:
    """Whether a file decides what a bench finds: its sources, and the Python of verif but tests."""
    path = Path(name)
    if path.suffix == ".sv":
        return name in bench.contains
    if path.parts[0] == "rtl":
        return path.suffix in (".svh", ".f")
    if path.name.startswith("test_") and path.suffix == ".py":
        return name == f"verif/{bench.test.split('::')[0]}"
    return path.suffix != ".sby" and path.name not in ("README.md", "costs.toml")


def bench_state(files: Files, formal: bool, benches: Iterable[Bench]) -> Callable[[Outcome], str]:
    """Return what hashes that which decides an outcome of the RTL.

    Who was found by a bench is found whatever the other benches are, and all sources that it does
    not contain; who was not must be tried again when anything is another.
    """
    everything = files.state() + (" and proofs" if formal else "")
    by_test = {bench.test: bench for bench in benches}

    @functools.cache
    def found_by(test: str) -> str:
        return files.state(lambda name: not decides(by_test[test], name))

    def state(outcome: Outcome) -> str:
        if outcome.status == "killed" and outcome.by in by_test:
            return found_by(outcome.by)
        return everything

    return state


def text_of(source: str) -> str:
    """Return a source of the copy."""
    return (TREE / source).read_text()


class Equivalents:
    """The mutants that somebody has looked at and found to change nothing."""

    def __init__(self) -> None:
        """Read them."""
        listed = tomllib.loads((ROOT / EQUIVALENT).read_text())["mutant"]
        self.reasons = {(item["mutant"], item["line"]): item["reason"] for item in listed}

    @staticmethod
    def key(mutant: str) -> tuple[str, str]:
        """Return what names a mutant while lines move: its change, and the text of its line."""
        place = PLACE.match(mutant)
        if place is None:
            raise ValueError(f"no place in {mutant}")
        text = text_of(place["source"]).splitlines()[int(place["line"]) - 1]
        return f"{place['source']}: {mutant[place.end() :]}", " ".join(text.split())

    def judge(self, outcome: Outcome) -> Outcome:
        """Return the outcome, a survivor that is listed as equivalent."""
        reason = self.reasons.get(self.key(outcome.mutant))
        if outcome.status != "survived" or reason is None:
            return outcome
        return replace(outcome, status="equivalent", by=reason)

    def check(self, mutants: Iterable[str], prefix: str) -> None:
        """Refuse entries that name no mutant of today's sources."""
        there = {self.key(mutant) for mutant in mutants}
        stale = sorted(e for e in self.reasons.keys() - there if e[0].startswith(prefix))
        if stale:
            names = "\n".join(f"  {mutant!r} in the line {line!r}" for mutant, line in stale)
            raise SystemExit(
                f"mutate: {EQUIVALENT}: no mutants of today's sources; take these entries out, or"
                f" write them as they are printed now:\n{names}"
            )


def environment(seed: int) -> dict[str, str]:
    """Return the environment of the copy's tools."""
    own = {"IPNUMA_ROOT", "CCACHE_BASEDIR"}
    out = {k: v for k, v in os.environ.items() if k not in own and not k.startswith("PYTEST")}
    # What is built of a mutant is of no use to anybody else.
    own_cache = {"IPNUMA_CACHE": str(TREE / ".build")}
    return out | own_cache | {"IPNUMA_SEED": str(seed), "PYTHONPATH": str(TREE / "tools")}


def processor_time() -> float:
    """Return the seconds that all ended children took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(
    command: list[str],
    limit: float,
    env: dict[str, str],
    cpu: float = resource.RLIM_INFINITY,
) -> tuple[int | None, str]:
    """Run a command in the copy; the status is None if it took too long. Nothing of it stays.

    Args:
        command: to be run there.
        limit: of its time, by the clock.
        env: its environment.
        cpu: limit of the processor time of each of its processes.

    """

    def limited() -> None:
        if cpu != resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 5))

    with subprocess.Popen(
        command,
        cwd=TREE,
        env=env,
        preexec_fn=limited,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return None, said


def uses(names: dict[str, str]) -> dict[str, set[str]]:
    """Return for each source the sources whose modules and packages it names."""
    words = {path: set(re.findall(r"\w+", (TREE / path).read_text())) for path in names.values()}
    return {path: {names[w] for w in words[path] & names.keys()} - {path} for path in words}


def benches(env: dict[str, str]) -> list[Bench]:
    """Ask every bench what it builds; the quickest come first, of equals the smallest."""
    record = WORK / "benches.jsonl"
    record.unlink(missing_ok=True)
    files = [
        str(path.relative_to(TREE))
        for path in sorted((TREE / "verif").rglob("test_*.py"))
        if "build_and_run" in path.read_text()
    ]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "mutate_probe", *files]
    status, said = run(pytest, 600, env | {"IPNUMA_PROBE": str(record)})
    if not record.is_file():
        raise SystemExit(f"mutate: the benches could not be listed ({status}):\n{said[-2000:]}")
    found: dict[str, Bench] = {}
    names: dict[str, str] = {}
    for line in record.read_text().splitlines():
        item = json.loads(line)
        bench = found.setdefault(item["test"], Bench(item["test"]))
        bench.tops.append((item["top"], item["sources"]))
        bench.options.append(item["verilator"])
        for source in item["sources"]:
            for name in re.findall(
                r"^\s*(?:module|package|interface)\s+(?:automatic\s+)?(\w+)",
                (TREE / source).read_text(),
                re.MULTILINE,
            ):
                names[name] = source
    graph = uses(names)
    for bench in found.values():
        for top, sources in bench.tops:
            todo = [names[top]] if top in names else list(sources)
            while todo:
                source = todo.pop()
                if source in sources and source not in bench.contains:
                    bench.contains.add(source)
                    todo += graph[source]
        bench.lines = sum((TREE / s).read_text().count("\n") for s in bench.contains)
    costs = tomllib.loads((TREE / "verif" / "costs.toml").read_text())

    def order(bench: Bench) -> tuple[float, int, str]:
        return sharing.cost(bench.test, costs), bench.lines, bench.test

    return sorted(found.values(), key=order)


def proofs(source: str) -> list[str]:
    """Return the proofs that read a source."""
    return [
        path.stem
        for path in sorted((TREE / "verif" / "formal").glob("*.sby"))
        if source in path.read_text().splitlines()
    ]


def with_lint_off(text: str) -> str:
    """Let the copy be built whatever Verilator thinks of its style; lines keep their numbers."""
    return "".join(f"/* verilator lint_off {name} */" for name in LINT) + text


def refused(bench: Bench, env: dict[str, str]) -> str:
    """Return what Verilator says if it does not take the sources of a bench."""
    for (_, sources), options in zip(bench.tops, bench.options, strict=True):
        command = ["verilator", "--lint-only", *(o for o in options if o != "--cc")]
        status, said = run([*command, "-Mdir", str(WORK / "lint"), *sources], 600, env)
        if status != 0:
            return said
    return ""


def program(bench: Bench, env: dict[str, str]) -> str:
    """Hash what Verilator makes of a bench's tops; empty if it fails."""
    digest = hashlib.sha256()
    for top, sources in bench.tops:
        out = WORK / "verilated"
        shutil.rmtree(out, ignore_errors=True)
        options = "--cc -O3 -fno-reorder --prefix Vtop -Wno-fatal -Wno-lint --no-assert --no-timing"
        command = ["verilator", *options.split(), "--Mdir", str(out), "--top-module", top]
        status, _ = run([*command, *sources], 600, env)
        if status != 0:
            return ""
        for path in sorted(out.glob("Vtop*.[ch]*")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def pytest(bench: Bench) -> list[str]:
    """Return the command that runs a bench."""
    return [sys.executable, "-m", "pytest", "-q", "-x", f"verif/{bench.test}"]


class Switch:
    """Mutants of the RTL that are in the copy together, each behind a number."""

    def __init__(self, benches: list[Bench], mutants: list[Mutant], env: dict[str, str]) -> None:
        """Read the sources; `fit` and `next` do the rest."""
        self.benches = benches
        self.env = env | {"IPNUMA_FRESH": "1"}
        self.texts = {name: (TREE / name).read_text() for name in {m.source for m in mutants}}
        where: dict[Mutant, rtl_switch.Place] = {}
        for name, text in self.texts.items():
            where |= rtl_switch.places(text, [m for m in mutants if m.source == name])
        self.numbers = {mutant: at for at, mutant in enumerate(mutants, 1) if mutant in where}
        self.todo = list(self.numbers)
        self.alone = [mutant for mutant in mutants if mutant not in where]
        # Benches that pass with these sources and the number 0, and what a run may then take.
        self.limits: dict[str, float] = {}

    def write(self) -> None:
        """Put the mutants into the copy."""
        for name, text in self.texts.items():
            numbered = {mutant: at for mutant, at in self.numbers.items() if mutant.source == name}
            switched = with_lint_off(rtl_switch.put(text, numbered))
            (TREE / name).write_text(rtl_switch.package(name) + switched)

    def restore(self) -> None:
        """Put the sources back."""
        for name, text in self.texts.items():
            (TREE / name).write_text(text)

    def fit(self) -> None:
        """Leave out what Verilator refuses, in the smallest bench of each source."""
        self.write()
        checked: set[str] = set()
        for bench in self.benches:
            if (bench.contains & self.texts.keys()) - checked:
                while said := refused(bench, self.env):
                    self.drop(bench, said)
                checked |= bench.contains

    def drop(self, bench: Bench, said: str) -> None:
        """Take out what a message of Verilator, or of the compiler, is about."""
        inside = [mutant for mutant in self.numbers if mutant.source in bench.contains]
        refused = rtl_switch.suspects(said, self.texts, inside) or inside
        if not refused:
            raise SystemExit(f"mutate: {bench.test} does not build:\n{said[-3000:]}")
        for mutant in refused:
            print(f"mutate: built by itself: {mutant}", flush=True)
            del self.numbers[mutant]
        self.alone += [mutant for mutant in refused if mutant in self.todo]
        self.todo = [mutant for mutant in self.todo if mutant in self.numbers]
        self.limits.clear()
        self.write()

    def good(self, bench: Bench) -> bool:
        """See a bench pass without a mutant, once; false if mutants had to be taken out for it."""
        if bench.test in self.limits:
            return True
        started = processor_time()
        status, said = run(pytest(bench), WAITS, self.env | {rtl_switch.VARIABLE: "0"})
        if status == 1 and BUILD_FAILED.search(said):
            self.drop(bench, said)
            return False
        if status != 0:
            raise SystemExit(f"mutate: {bench.test} fails without a mutant:\n{said[-3000:]}")
        seconds = processor_time() - started
        self.limits[bench.test] = LEAST_CPU + SLOWER_CPU * seconds
        print(f"mutate: {bench.test} passes without a mutant, {seconds:.0f} s", flush=True)
        return True

    def next(self) -> Outcome | None:
        """Look for one mutant in the benches; none if it has to be built by itself."""
        mutant = self.todo.pop(0)
        seconds = 0.0
        tried = False
        for bench in self.benches:
            if mutant.source not in bench.contains:
                continue
            while not self.good(bench):
                if mutant not in self.numbers:
                    self.alone.append(mutant)
                    return None
            number = {rtl_switch.VARIABLE: str(self.numbers[mutant])}
            started = time.monotonic()
            status, said = run(pytest(bench), WAITS, self.env | number, self.limits[bench.test])
            seconds += time.monotonic() - started
            if status is None or (status == 1 and OUT_OF_TIME.search(said)):
                return Outcome(str(mutant), "killed", f"{bench.test} (time)", seconds)
            if status == 1:
                return Outcome(str(mutant), "killed", bench.test, seconds)
            if status != 0:
                raise SystemExit(f"mutate: {bench.test} ended with {status}:\n{said[-3000:]}")
            tried = True
        return Outcome(str(mutant), "survived", "" if tried else NO_BENCH, seconds)


class Rtl:
    """Mutants of the RTL."""

    def __init__(self, args: argparse.Namespace) -> None:
        """List sources, sites and benches."""
        self.args = args
        self.env = environment(args.seed)
        self.benches = benches(self.env)
        self.good: set[str] = set()
        self.costs = tomllib.loads((TREE / "verif" / "costs.toml").read_text())
        self.limits: dict[str, float] = {}
        self.sites: list[Mutant] = []
        for path in sorted((TREE / "rtl").rglob("*.sv")):
            source = path.relative_to(TREE).as_posix()
            self.sites += rtl_mutants.sites(source, path.read_text())
        self.listed = Equivalents()
        self.listed.check(map(str, self.sites), "rtl/")
        self.sites = [site for site in self.sites if site.source.startswith(tuple(args.only))]
        print(f"mutate: {len(self.sites)} places in rtl/, {len(self.benches)} benches", flush=True)

    def test(self, bench: Bench, limit: float) -> tuple[int | None, str]:
        """Run one bench."""
        return run(pytest(bench), limit, self.env)

    def limit(self, bench: Bench) -> float:
        """Return the time that a bench may take: it must be good as it is, which is tried once."""
        if bench.test not in self.good:
            status, said = self.test(bench, 3600)
            if status != 0:
                raise SystemExit(f"mutate: {bench.test} fails without a mutant:\n{said[-3000:]}")
            self.good.add(bench.test)
        return LEAST_LIMIT + SLOWER * sharing.cost(bench.test, self.costs)

    def find(self, mutant: Mutant) -> tuple[str, str]:
        """Return whether a mutant that is in place is found, and by what."""
        builds = False
        for bench in self.benches:
            if mutant.source not in bench.contains:
                continue
            status, said = self.test(bench, self.limits[bench.test])
            if status is None:
                return "killed", f"{bench.test} (time)"
            if status == 1 and BUILD_FAILED.search(said):
                return "unviable", bench.test
            if status == 1:
                return "killed", bench.test
            if status != 0:
                raise SystemExit(f"mutate: {bench.test} ended with {status}:\n{said[-3000:]}")
            builds = True
        found = self.prove(mutant)
        return found if builds or found[0] == "killed" else ("survived", NO_BENCH)

    def prove(self, mutant: Mutant) -> tuple[str, str]:
        """Return whether a proof finds a mutant that is in place."""
        for proof in proofs(mutant.source) if self.args.formal else []:
            status, _ = run(["tools/formal", proof], 1800, self.env)
            if status != 0:
                return "killed", f"proof {proof}"
        return "survived", ""

    def equivalent(self, mutant: Mutant, path: Path, original: str) -> bool:
        """Whether a mutant that is in place makes the same programs as the original."""
        for bench in self.benches:
            if mutant.source in bench.contains:
                wrong = program(bench, self.env)
                path.write_text(with_lint_off(original))
                right = program(bench, self.env)
                path.write_text(with_lint_off(mutant.apply(original)))
                return bool(wrong) and wrong == right
        return False

    def one(self, mutant: Mutant) -> Outcome:
        """Try a mutant by itself."""
        # Before the mutant is there: the limits come from good runs.
        self.limits = {
            bench.test: self.limit(bench)
            for bench in self.benches
            if mutant.source in bench.contains
        }
        return self.in_place(mutant, self.find)

    def in_place(self, mutant: Mutant, find: Callable[[Mutant], tuple[str, str]]) -> Outcome:
        """Put a mutant into the copy, and look for it."""
        path = TREE / mutant.source
        original = path.read_text()
        started = time.monotonic()
        before = {p for d in ("bench", "cocotb") for p in (TREE / ".build" / d).glob("*")}
        path.write_text(with_lint_off(mutant.apply(original)))
        try:
            status, by = find(mutant)
            if status == "survived" and self.equivalent(mutant, path, original):
                status = "equivalent"
        finally:
            path.write_text(original)
            # Where builds are kept by content, those of a mutant are of no more use.
            for made in {p for d in ("bench",) for p in (TREE / ".build" / d).glob("*")} - before:
                shutil.rmtree(made, ignore_errors=True)
        return Outcome(str(mutant), status, by, time.monotonic() - started)

    def batch(self, mutants: list[Mutant]) -> Iterator[Outcome]:
        """Try mutants, together as far as they can be."""
        switch = Switch(self.benches, mutants, self.env)
        left: list[Outcome] = []
        try:
            switch.fit()
            while switch.todo:
                outcome = switch.next()
                if outcome is not None and outcome.status == "survived":
                    left.append(outcome)
                elif outcome is not None:
                    yield outcome
        finally:
            switch.restore()
        by_name = {str(mutant): mutant for mutant in mutants}
        for was in left:
            looked = self.in_place(by_name[was.mutant], self.prove)
            yield replace(looked, by=looked.by or was.by, seconds=looked.seconds + was.seconds)
        for mutant in switch.alone:
            yield self.one(mutant)

    def run(self, count: int, until: float | None) -> list[Outcome]:
        """Try so many mutants that build, or as many as the time allows."""
        out: list[Outcome] = []
        files, place = Files(*BENCH_FILES), self.args.kept
        kept = Kept("rtl", bench_state(files, self.args.formal, self.benches), place)
        counted = 0

        def take(outcome: Outcome) -> None:
            nonlocal counted
            out.append(self.listed.judge(outcome))
            counted += out[-1].status in ("killed", "survived")
            out[-1].show()

        drawn = rtl_mutants.draw(self.sites, self.args.seed)
        while batch := list(islice(drawn, count - counted)):
            new = [mutant for mutant in batch if str(mutant) not in kept.known]
            for mutant in batch:
                if mutant not in new:
                    take(kept.known[str(mutant)])
            for outcome in self.batch(new):
                kept.keep(outcome)
                take(outcome)
                if until is not None and time.monotonic() > until:
                    return out
        return out


def crate_state(crate: str, folders: dict[str, set[str]]) -> Callable[[Outcome], str]:
    """Return what hashes that which decides an outcome of a crate: the sources of its tests."""
    states = {}
    needed: set[str] = set()
    for stage in rust_mutants.stages(crate):
        needed |= set().union(*(folders[name] for name in stage.packages))
        files = Files(*CRATE_FILES, *sorted(needed))
        unit = stage.name == "unit"
        states[stage.name] = files.state(lambda name, unit=unit: unit and "/tests/" in name)
    last = states[rust_mutants.stages(crate)[-1].name]
    return lambda outcome: states.get(re.split(r"\W", outcome.by)[0], last)


def rust(args: argparse.Namespace, until: float | None) -> list[Outcome]:
    """Try so many mutants of crates that build, or as many as the time allows."""
    env = environment(args.seed)
    env |= {"CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(WORK / "target"))}
    tests = rust_mutants.Tests(lambda command, limit: run(command, limit, env))
    program = rust_mutants.install(ROOT / ".build" / "tools")
    found = rust_mutants.sites(program, TREE, tuple(args.crates))
    listed = Equivalents()
    if tuple(args.crates) == rust_mutants.CRATES:
        listed.check((mutant.name for mutant in found), "crates/")
    print(f"mutate: {len(found)} places in {', '.join(args.crates)}", flush=True)
    folders = rust_mutants.built_from(TREE)
    kept = {crate: Kept("rust", crate_state(crate, folders), args.kept) for crate in args.crates}
    out: list[Outcome] = []
    for mutant in rust_mutants.draw(found, args.seed):
        counted = sum(outcome.status in ("killed", "survived") for outcome in out)
        if counted == args.rust or (until is not None and time.monotonic() > until):
            break
        outcome = kept[mutant.crate].known.get(mutant.name)
        if outcome is None:
            tests.prove(mutant.crate)
            outcome = Outcome(mutant.name, *tests.one(mutant, TREE / mutant.source))
            kept[mutant.crate].keep(outcome)
        out.append(listed.judge(outcome))
        out[-1].show()
    return out


def summary(what: str, outcomes: list[Outcome]) -> tuple[int, int]:
    """Print the score and the survivors; return killed and total."""
    count = {s: 0 for s in ("killed", "survived", "equivalent", "unviable")}
    for outcome in outcomes:
        count[outcome.status] += 1
    total = count["killed"] + count["survived"]
    percent = 100 * count["killed"] / total if total else 0.0
    print(
        f"mutate: {what}: {count['killed']} of {total} killed ({percent:.1f} %);"
        f" {count['equivalent']} equivalent and {count['unviable']} that do not build left out"
    )
    for outcome in outcomes:
        if outcome.status == "survived":
            print(f"  survived: {outcome.mutant}{' (' + outcome.by + ')' if outcome.by else ''}")
    return count["killed"], total


def report(outcomes: dict[str, list[Outcome]]) -> int:
    """Print the scores; return 0 if enough are found."""
    if into := os.environ.get("IPNUMA_MUTATE_OUTCOMES"):
        every = {what: [asdict(outcome) for outcome in found] for what, found in outcomes.items()}
        Path(into).write_text(json.dumps(every))
        return 0
    scores = [summary(what, found) for what, found in outcomes.items()]
    killed, total = (sum(score[at] for score in scores) for at in (0, 1))
    percent = 100 * killed / total if total else 0.0
    print(f"mutate: {killed} of {total} mutants killed, {percent:.1f} % (goal {GOAL_PERCENT} %)")
    return 0 if total and percent >= GOAL_PERCENT else 1


def side_by_side(args: argparse.Namespace) -> dict[str, list[Outcome]]:
    """Try both kinds at once, each in a copy of its own: one uses one core most of the time."""
    common = ["--seed", str(args.seed), "--crates", *args.crates]
    common += [] if args.minutes is None else ["--minutes", str(args.minutes)]
    common += ["--formal"] if args.formal else []
    common += ["--kept", str(args.kept), "--only", *args.only]
    children = []
    for kind, counts in (("rtl", (args.rtl, 0)), ("rust", (0, args.rust))):
        place = WORK / kind
        place.mkdir(parents=True, exist_ok=True)
        into = place / "outcomes.json"
        into.unlink(missing_ok=True)
        env = {"IPNUMA_MUTATE_DIR": str(place), "IPNUMA_MUTATE_OUTCOMES": str(into)}
        count = ["--rtl", str(counts[0]), "--rust", str(counts[1])]
        command = [sys.executable, __file__, *count, *common]
        children.append((subprocess.Popen(command, env=os.environ | env), into))
    outcomes: dict[str, list[Outcome]] = {}
    for child, into in children:
        child.wait()
        if not into.is_file():
            raise SystemExit(f"mutate: a part ended with {child.returncode} and no outcome")
        for what, found in json.loads(into.read_text()).items():
            outcomes[what] = [Outcome(**item) for item in found]
    return outcomes


def main() -> int:
    """Try mutants; return 0 if enough are found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rtl", type=int, default=60, metavar="N", help="mutants of rtl/")
    parser.add_argument("--rust", type=int, default=60, metavar="N", help="mutants of crates")
    parser.add_argument(
        "--crates",
        nargs="+",
        default=rust_mutants.CRATES,
        help=f"default: {' '.join(rust_mutants.CRATES)}",
    )
    parser.add_argument("--seed", type=int, help="draws the mutants; default: IPNUMA_SEED or new")
    parser.add_argument("--minutes", type=float, help="begin no more mutants after so long")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="PREFIX",
        help="of the RTL only sources whose names begin so, e.g. rtl/eth; default: all",
    )
    parser.add_argument(
        "--kept",
        type=lambda text: Path(text).resolve(),
        default=WORK,
        metavar="DIR",
        help="where outcomes are kept; other runs and machines may go on from there",
    )
    parser.add_argument("--formal", action="store_true", help="proofs also look for RTL mutants")
    parser.add_argument("--list", action="store_true", help="print the RTL mutants, try none")
    args = parser.parse_args()
    if args.seed is None:
        drawn = random.SystemRandom().randrange(2**31)
        args.seed = int(os.environ.get("IPNUMA_SEED", drawn))
    print(f"mutate: seed {args.seed}", flush=True)
    args.kept.mkdir(parents=True, exist_ok=True)
    if args.rtl and args.rust and not args.list:
        return report(side_by_side(args))
    WORK.mkdir(parents=True, exist_ok=True)
    lock = (WORK / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        parser.error(f"another run works in {WORK}; set IPNUMA_MUTATE_DIR to another directory")
    copy_tree()
    if args.list:
        rtl = Rtl(args)
        for mutant, _ in zip(rtl_mutants.draw(rtl.sites, args.seed), range(args.rtl), strict=False):
            at = [bench.test for bench in rtl.benches if mutant.source in bench.contains]
            print(f"{mutant}  [{len(at)} benches, first {at[0] if at else 'none'}]")
        return 0
    until = None if args.minutes is None else time.monotonic() + 60 * args.minutes
    if args.rtl:
        return report({"RTL": Rtl(args).run(args.rtl, until)})
    return report({"Rust": rust(args, until)})


if __name__ == "__main__":
    sys.exit(main())
