# SPDX-License-Identifier: Apache-2.0
"""Build a top with Verilator once, run cocotb tests on it many times.

A bench is `verif/<area>/test_<module>.py`. It holds the cocotb tests (coroutines marked
`@cocotb.test()`, whose names do not begin with `test_`, or pytest would take them for its own)
and one or more pytest functions that call `build_and_run`. See `verif/example/`.

A run is a function of the simulator, the Python that it loads, the seed and the variables that its
tests read. With a given seed, one that passed before with all of these is not repeated.

Environment:
    IPNUMA_SEED   seed of every random choice; without it a new one is drawn and printed
    IPNUMA_FRESH  1 repeats runs of which nothing changed
    IPNUMA_WAVES  1 writes dump.fst beside the results (its own build, slower)
    IPNUMA_DRAW   1, as ./test has it, runs of some benches only the builds that the seed draws
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.config import libs_dir
from cocotb_tools.runner import get_runner

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import filelist  # noqa: E402 (needs the path above)
import simulator  # noqa: E402
import stamps  # noqa: E402

OUT = ROOT / ".build" / "bench"
DRAW = "IPNUMA_DRAW"
RECORD = "inputs.txt"
STAMPS = stamps.Stamps("cocotb")


def parameter(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) and not value.startswith('"') else str(value)


def _portable(value: str) -> str:
    """Return a value without the place of this checkout."""
    return value.replace(str(ROOT), "$ROOT")


def _content(path: Path) -> str:
    return stamps.Digest().files([path]).hexdigest() if path.is_file() else "none"


def _listing(path: Path) -> str:
    return " ".join(sorted(p.name for p in path.iterdir())) if path.is_dir() else "none"


@dataclass
class Inputs:
    """What a run read, by kind: `verif/recorder.py` wrote it down."""

    found: dict[str, list[str]]

    @classmethod
    def recorded(cls, record: Path) -> Inputs:
        """Read the record of a run."""
        found: dict[str, set[str]] = {}
        for line in record.read_text().splitlines():
            kind, _, value = line.partition(" ")
            found.setdefault(kind, set()).add(value)
        return cls({kind: sorted(values) for kind, values in found.items()})

    def state(self, search: Iterable[Path], given: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Describe the inputs as they are now; `given` are variables that the call sets."""
        directories = [d for d in search if d.is_relative_to(ROOT)]
        # A file of that name in a directory that is searched earlier would be imported instead.
        providers = {}
        for name in self.found.get("import", []):
            places = (d / entry for d in directories for entry in (f"{name}.py", name))
            first = next((p for p in places if p.exists()), None)
            providers[name] = first.relative_to(ROOT).as_posix() if first else ""
        variables = (n for n in self.found.get("variable", []) if n not in given)
        return {
            "file": {n: _content(ROOT / n) for n in self.found.get("file", [])},
            "list": {n: _listing(ROOT / n) for n in self.found.get("list", [])},
            "import": providers,
            "variable": {n: _portable(os.environ.get(n, "(unset)")) for n in variables},
        }

    def known(self, since_ns: int) -> bool:
        """Return whether these are all inputs, and none changed after the run had begun."""
        if "process" in self.found or "file" not in self.found:
            return False
        paths = (ROOT / n for n in self.found["file"])
        return all(p.is_file() and p.stat().st_ctime_ns < since_ns for p in paths)


@dataclass
class Run:
    """One run of a bench, and the stamp that it leaves."""

    build: str
    module: str
    testcases: Sequence[str] | None
    seed: int
    env: Mapping[str, str]
    outputs: Sequence[Path]

    def key(self) -> str:
        """Hash what is known of a run before it."""
        # The last one is read by a simulator with mutants (tools/rtl_switch.py).
        names = ("COCOTB_", "PYGPI_", "GPI_", "PYTHON", "IPNUMA_MUTANT")
        switches = {
            k: _portable(v)
            for k, v in os.environ.items()
            if k.startswith(names) and k != "PYTHONPATH"
        }
        return (
            stamps.Digest("run", self.build, self.module, str(self.seed))
            .text("all" if self.testcases is None else "these", *(self.testcases or ()))
            .mapping({k: _portable(v) for k, v in self.env.items()})
            .mapping(switches)
            .text(*(_portable(str(p)) for p in self.outputs), stamps.python_tools())
            .hexdigest()
        )

    def _search(self) -> list[Path]:
        return [Path(p).resolve() for p in sys.path]

    def passed_before(self) -> int:
        """Return the number of tests that passed with these inputs; 0 if that is not known."""
        kept = STAMPS.load(self.key())
        if kept is None:
            return 0
        inputs = Inputs(kept["found"])
        same = inputs.state(self._search(), self.env) == kept["state"]
        outputs = {_portable(str(p)): _content(p) for p in self.outputs}
        return kept["ran"] if same and outputs == kept["outputs"] else 0

    def keep(self, ran: int, record: Path, since_ns: int) -> None:
        """Leave a stamp, if all inputs of the run are known."""
        inputs = Inputs.recorded(record)
        if inputs.known(since_ns):
            content = {
                "ran": ran,
                "found": inputs.found,
                "state": inputs.state(self._search(), self.env),
                "outputs": {_portable(str(p)): _content(p) for p in self.outputs},
                "what": f"{self.module}, seed {self.seed}",
            }
            STAMPS.save(self.key(), content)


def _seed(seed: int | None) -> tuple[int, bool]:
    """Return the seed, and whether it was given rather than drawn."""
    text = os.environ.get("IPNUMA_SEED") if seed is None else str(seed)
    return (random.SystemRandom().randrange(2**31), False) if text is None else (int(text), True)


def _simulate(run: Run, top: str, build_dir: Path, run_dir: Path, waves: bool) -> tuple[int, str]:
    """Run the tests; return how many ran, and what went wrong."""
    results, log = run_dir / "results.xml", run_dir / "run.log"
    results.unlink(missing_ok=True)
    libraries = [str(libs_dir), os.environ.get("LD_LIBRARY_PATH", "")]
    env = {
        "COCOTB_ANSI_OUTPUT": "0",
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        # The order of a set of strings is an input too.
        "PYTHONHASHSEED": str(run.seed % 2**32),
        "IPNUMA_RECORD": str(run_dir / RECORD),
        "PYGPI_USERS": "recorder:start",
    }
    failure = ""
    try:
        get_runner("verilator").test(
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            test_module=run.module,
            testcase=run.testcases,
            seed=run.seed,
            build_dir=build_dir,
            test_dir=run_dir,
            results_xml=str(results),
            timescale=("1ps", "1ps"),
            waves=waves,
            log_file=log,
            extra_env={**run.env, **env},
        )
    except (SystemExit, RuntimeError, subprocess.CalledProcessError) as error:
        failure = f"({error})"
    ran, failed = get_results(results) if results.is_file() else (0, 0)
    if ran == 0 and not failure:
        failure = "no test ran"
    if not (failed or failure):
        return ran, ""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    # Only the beginning and the end of a long log help.
    text = "\n".join(lines if len(lines) < 400 else [*lines[:40], "[...]", *lines[-340:]])
    return ran, f"{top}: {failed} of {ran} tests failed {failure}\n{text}"


def drawn(name: str, variants: Iterable[object], most: int) -> list[object]:
    """Return the variants of a test for pytest, of which a run of ./test makes so many.

    Which ones its seed draws; the others are skipped there, and are in the long form. Without
    IPNUMA_DRAW all are run.
    """
    found = list(variants)
    if not os.environ.get(DRAW) or os.environ.get("IPNUMA_LONG"):
        return found
    seed = os.environ.get("IPNUMA_SEED", "1")
    chosen = random.Random(f"{name} {seed}").sample(range(len(found)), most)
    left = pytest.mark.skip(reason="this seed draws other builds; IPNUMA_LONG=1 runs all")
    return [
        one
        if at in chosen
        else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=left)
        for at, one in enumerate(found)
    ]


def build_and_run(
    top: str,
    test_module: str,
    *,
    sources: Sequence[str] = (),
    filelists: Sequence[str] = (),
    parameters: Mapping[str, object] | None = None,
    testcases: Sequence[str] | None = None,
    seed: int | None = None,
    build_args: Sequence[str] = (),
    extra_env: Mapping[str, str] | None = None,
    probes: Mapping[str, Sequence[str]] | None = None,
    optimization: str = "-O1",
    outputs: Sequence[Path] = (),
) -> int:
    """Verilate `top` if need be, run the cocotb tests of `test_module`; raise if one fails.

    Args:
        top: name of the top module. Its ports are flat, or it has none: Verilator takes no
            interface ports there.
        test_module: Python module of the cocotb tests; usually `__name__`.
        sources: SystemVerilog files, relative to the repository root, after those of `filelists`.
        filelists: file lists (see tools/filelist.py), relative to the repository root.
        parameters: of the top; one build for each set.
        testcases: names of the tests to run; all of the module without it.
        seed: instead of IPNUMA_SEED or a drawn one.
        build_args: more options for Verilator.
        extra_env: more variables for the tests.
        probes: signals below the top that the tests read or write, by module. All others there are
            hidden from cocotb: a model is smaller and faster by every signal that it may change.
        optimization: of the C++ that runs in every cycle; a long run may repay a higher one.
        outputs: files that the tests write for the caller.

    Returns:
        The number of cocotb tests that passed, which is never zero.

    """
    merged = filelist.merge([*filelists, *sources])
    waves = os.environ.get("IPNUMA_WAVES", "0") not in ("", "0")
    # cocotb's own switches would make the runner and this function disagree about the traces.
    os.environ.pop("WAVES", None)
    recipe = simulator.Recipe(
        top=top,
        sources=merged.sources,
        incdirs=merged.incdirs,
        parameters={k: parameter(v) for k, v in (parameters or {}).items()},
        probes=probes or {},
        build_args=build_args,
        optimization=optimization,
        waves=waves,
    )
    seed, given = _seed(seed)
    run = Run(recipe.digest(), test_module, testcases, seed, dict(extra_env or {}), outputs)
    may_skip = given and not waves and not stamps.fresh()
    if may_skip and (passed := run.passed_before()):
        print(f"{top}: seed {seed}: unchanged, {passed} tests passed before")
        return passed

    name = re.sub(r"\W+", "_", os.environ.get("PYTEST_CURRENT_TEST", test_module).split("::")[-1])
    run_dir = OUT / recipe.name() / name.removesuffix("_call_")
    run_dir.mkdir(parents=True, exist_ok=True)
    print(f"{top}: seed {seed}, log {(run_dir / 'run.log').relative_to(ROOT)}")
    for path in outputs:
        path.unlink(missing_ok=True)
    STAMPS.remove(run.key())
    record = run_dir / RECORD
    with simulator.ready(recipe) as (build_dir, digest):
        # The time of the file system, whose clock ticks more slowly than the machine's.
        record.unlink(missing_ok=True)
        record.touch()
        since = record.stat().st_ctime_ns
        run.build = digest
        ran, failure = _simulate(run, top, build_dir, run_dir, waves)
    if failure:
        raise AssertionError(f"{failure}\nrepeat with IPNUMA_SEED={seed}")
    run.keep(ran, record, since)
    return ran
