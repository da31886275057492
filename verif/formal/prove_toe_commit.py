# SPDX-License-Identifier: Apache-2.0
"""The TCP offload engine commits no segment before its own checksum has passed.

Bounded: for every order of events in the first cycles behind reset, with four slots, for the
per-packet scoreboard, epochs of two, and the document's counter. The hazard of that counter, as a
mutant of it, must be found within the same number of cycles.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

INPUTS = [
    "rtl/lib/ram_1r1w.sv",
    "rtl/lib/sync_fifo.sv",
    "rtl/toe/toe_pkg.sv",
    "rtl/toe/toe_scoreboard.sv",
    "verif/formal/toe_commit_proof.sv",
]
ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / ".build" / "formal" / "toe_commit"
SCOREBOARD = "rtl/toe/toe_scoreboard.sv"
CYCLES = 10
POLICIES = {"scoreboard": "", "epochs": "-D EPOCHS", "counter": "-D COUNTER"}
RIGHT = "count_q <= count_q +"
WRONG = (
    "count_q <= result_valid_i && (!result_i.ok || count_q == '0 && !header_valid_i) ? '0 : "
    "count_q +"
)


def worker(defines: str, sources: list[str]) -> None:
    """Look for a run that breaks a claim; its own process, since the front end may end it."""
    from pyosys import libyosys

    design = libyosys.Design()
    for command in (
        f"read_slang -j 1 {defines} --top toe_commit_proof {' '.join(sources)}",
        "prep -flatten -top toe_commit_proof",
        "async2sync",
        "memory_map",
        "opt -full",
        "techmap",
        "opt",
        "sat -verify -prove-asserts -set-assumes -set-def-inputs -set-init-undef -set-at 1 rst_i 1"
        f" -seq 1 -tempinduct-baseonly -maxsteps {CYCLES}",
    ):
        libyosys.run_pass(command, design)


def check(name: str, defines: str, source: str | None = None) -> tuple[bool, bool]:
    """Return whether the claims hold, and whether a run was found that breaks one."""
    OUT.mkdir(parents=True, exist_ok=True)
    sources = list(INPUTS)
    if source is not None:
        path = OUT / f"{name.replace(' ', '_')}.sv"
        path.write_text(source)
        sources[sources.index(SCOREBOARD)] = str(path)
    run = subprocess.run(
        [sys.executable, __file__, "--worker", defines, *sources],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    text = run.stdout + run.stderr
    (OUT / f"{name.replace(' ', '_')}.log").write_text(text)
    held = run.returncode == 0 and f"proved base case for {CYCLES} steps: SUCCESS" in text
    return held, "Called with -verify and proof did fail" in text


def main() -> int:
    """Prove the policies, and find the mutant."""
    bad = 0
    for name, defines in POLICIES.items():
        held, _ = check(name, defines)
        print(f"{name}: {'holds' if held else 'DOES NOT HOLD'} for {CYCLES} cycles", flush=True)
        bad += not held
    text = (ROOT / SCOREBOARD).read_text()
    if text.count(RIGHT) != 1:
        raise SystemExit(f"{SCOREBOARD} has {text.count(RIGHT)} times {RIGHT!r}, not once")
    held, found = check("hazard", POLICIES["counter"], text.replace(RIGHT, WRONG))
    print(f"hazard of the counter: {'found' if found and not held else 'NOT FOUND'}")
    return 1 if bad or held or not found else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
