# SPDX-License-Identifier: Apache-2.0
"""Try mutants of the crates that carry guarantees, which cargo-mutants lists.

It does no more: run by it, some are tried whatever it is asked for, and all tests are built for
each. Here the unit tests come first, then the crate's other tests, then those of the crates above
it; what is found early needs the rest neither built nor run.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CARGO_MUTANTS = "27.1.0"
CRATES = ("wire", "model", "fib", "shm", "ipc", "host", "socket", "daemon")
# What is built on a crate and tests it, besides its own tests.
ABOVE = {
    "wire": ("model",),
    "fib": ("control", "fibd"),
    "shm": ("ipc", "host"),
    "ipc": ("host",),
    "socket": ("preload", "conformance"),
    "daemon": ("host",),
}
# What tests of a crate run that cargo does not build for them.
NEEDS = {"conformance": ("-p", "preload"), "host": ("-p", "host", "--all-features", "--examples")}
# Tests that want more than cargo, of what only they reach; their phases run them with --ignored.
IGNORED = {
    "host": ("host", "guest"),
    "socket": ("conformance", "between"),
    "daemon": ("conformance", "between"),
}
# Seconds that the tests of a stage may take, and how many times what they take without a mutant;
# what their build may.
LEAST_LIMIT, SLOWER, BUILD_LIMIT = 60.0, 6.0, 1800.0
# The crates of the workspace are built again for each mutant: in steps, and with less optimisation.
# What they are checked for stays, as do the libraries that they use.
PROFILE = tuple(
    part
    for setting in ("incremental=true", "opt-level=1", 'package."*".opt-level=3')
    for part in ("--config", f"profile.release.{setting}")
)
PLACE = re.compile(r":\d+:\d+:")
FAILED = re.compile(r"^test (?P<test>\S+) \.\.\. FAILED", re.MULTILINE)

Run = Callable[[list[str], float], tuple[int | None, str]]


@dataclass(frozen=True)
class Mutant:
    """One change of one source, as cargo-mutants lists it."""

    name: str
    crate: str
    source: str
    start: tuple[int, int]
    end: tuple[int, int]
    replacement: str

    def apply(self, text: str) -> str:
        """Return the source with the mistake."""
        lines = text.splitlines(keepends=True)

        def offset(place: tuple[int, int]) -> int:
            line, column = place
            return sum(map(len, lines[: line - 1])) + column - 1

        return text[: offset(self.start)] + self.replacement + text[offset(self.end) :]


@dataclass(frozen=True)
class Stage:
    """Tests that are built and run together."""

    name: str
    packages: tuple[str, ...]
    targets: tuple[str, ...]
    options: tuple[str, ...] = ()

    def test(self, *options: str) -> list[str]:
        """Return a command of cargo: checks and features are those of the workspace's tests."""
        packages = [part for name in self.packages for part in ("-p", name)]
        common = ["cargo", "test", *PROFILE, "--release", "--locked", "--all-features"]
        return [*common, *packages, *self.targets, *(options or self.options)]

    def builds(self) -> list[list[str]]:
        """Return the commands that build all it needs."""
        needs = [NEEDS[name] for name in self.packages if name in NEEDS and self.name != "unit"]
        build = ["cargo", "build", *PROFILE, "--release", "--locked"]
        extra = [[*build, *what] for what in needs]
        return [*extra, self.test("--no-run")]


def stages(crate: str) -> list[Stage]:
    """Return where a crate's mutants are looked for, the quickest first."""
    out = [Stage("unit", (crate,), ("--lib",)), Stage("own", (crate,), ("--tests",))]
    if crate in ABOVE:
        out.append(Stage("above", ABOVE[crate], ("--tests",)))
    if crate in IGNORED:
        package, test = IGNORED[crate]
        out.append(Stage("ignored", (package,), ("--test", test), ("--", "--ignored")))
    return out


def install(tools: Path) -> Path:
    """Install the pinned cargo-mutants, if it is not there."""
    program = tools / "bin" / "cargo-mutants"
    version = [str(program), "mutants", "--version"]
    if not program.is_file() or CARGO_MUTANTS not in subprocess.check_output(version, text=True):
        print(f"mutate: installing cargo-mutants {CARGO_MUTANTS}", flush=True)
        subprocess.run(
            ["cargo", "install", "--quiet", "--locked", "--root", str(tools), "--force"]
            + ["--version", CARGO_MUTANTS, "cargo-mutants"],
            check=True,
        )
    return program


def sites(program: Path, tree: Path, crates: tuple[str, ...]) -> list[Mutant]:
    """List all mutants of the crates, by name."""
    packages = [part for crate in crates for part in ("--package", crate)]
    command = [str(program), "mutants", "--dir", str(tree), "--list", "--json", *packages]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tree)
    found = [
        Mutant(
            item["name"],
            item["package"],
            item["file"],
            *((item["span"][at]["line"], item["span"][at]["column"]) for at in ("start", "end")),
            item["replacement"],
        )
        for item in json.loads(listed.stdout)
    ]
    return sorted(found, key=lambda mutant: mutant.name)


def draw(found: list[Mutant], seed: int) -> list[Mutant]:
    """Put them into the order of a seed, in which most stay while the sources change.

    A mutant's place comes from its name without numbers of lines, and from which of those with that
    name it is.
    """
    same: Counter[str] = Counter()

    def place(mutant: Mutant) -> bytes:
        name = PLACE.sub(":", mutant.name, count=1)
        same[name] += 1
        return hashlib.sha256(f"{seed} {same[name]} {name}".encode()).digest()

    in_files = sorted(found, key=lambda mutant: (mutant.source, mutant.start, mutant.replacement))
    return sorted(in_files, key=place)


def built_from(tree: Path) -> dict[str, set[str]]:
    """Return for each crate the folders of the crates that its tests are built from."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"]
    packages = json.loads(subprocess.check_output(command, cwd=tree, text=True))["packages"]
    folder = {it["name"]: f"crates/{Path(it['manifest_path']).parent.name}" for it in packages}
    direct = {
        it["name"]: {other["name"] for other in it["dependencies"] if other.get("path")}
        for it in packages
    }
    result = {}
    for name in direct:
        found, todo = {name}, [name]
        while todo:
            new = direct[todo.pop()] - found
            found |= new
            todo += new
        result[name] = {folder[crate] for crate in found}
    return result


class Tests:
    """The stages of all crates, run in a copy of the sources."""

    def __init__(self, run: Run) -> None:
        """Take what runs a command there."""
        self.run = run
        # Seconds that each takes without a mutant.
        self.good: dict[Stage, float] = {}

    def prove(self, crate: str) -> None:
        """See each stage of a crate pass without a mutant, once."""
        for stage in stages(crate):
            if stage not in self.good:
                for command in (*stage.builds(), stage.test()):
                    started = time.monotonic()
                    status, said = self.run(command, 2 * 3600)
                    if status != 0:
                        failed = ", ".join(FAILED.findall(said)) or said[-3000:]
                        raise SystemExit(f"mutate: {crate}: fails without a mutant: {failed}")
                self.good[stage] = time.monotonic() - started

    def find(self, mutant: Mutant) -> tuple[str, str]:
        """Return whether a mutant that is in place is found, and by what."""
        for stage in stages(mutant.crate):
            for command in stage.builds():
                if self.run(command, BUILD_LIMIT)[0] != 0:
                    return "unviable", stage.name
            limit = max(LEAST_LIMIT, SLOWER * self.good.get(stage, 0.0))
            status, said = self.run(stage.test(), limit)
            if status is None:
                return "killed", f"{stage.name} (time)"
            if status != 0:
                test = FAILED.search(said)
                return "killed", f"{stage.name}: {test['test'] if test else 'ended early'}"
        return "survived", ""

    def one(self, mutant: Mutant, path: Path) -> tuple[str, str, float]:
        """Put a mutant in place, and look; return also the seconds."""
        original = path.read_text()
        path.write_text(mutant.apply(original))
        started = time.monotonic()
        try:
            return *self.find(mutant), time.monotonic() - started
        finally:
            path.write_text(original)
