# SPDX-License-Identifier: Apache-2.0
"""Prove the sender of sessions when it is small, and that its mutants fail.

Safety is bounded: ABC's bounded model checker looks at the sender of resend_proof.sv from reset on,
registers zero, for SAFE cycles, over a network that loses what it likes and with a session that is
begun anew.

Liveness is not bounded in time, but in frames: for a sender of at most so many new frames, every
state that it reaches from reset on is visited (explore.py), over a network that is fair (FAIR), or
that may lose everything (DEAF), until nothing new comes. In none have more than Bound cycles passed
without progress. By hand, a sender that meets Losses losses running sends a frame at most
(Losses + 1) ** 2 times: of so many copies, Losses + 1 arrive and are answered, and one of the
answers arrives. So many time-outs less one, of 2 x Ticks + some 18 cycles (the tick that runs, two
to be beyond the time, the scan and the offer), and some 50 cycles for the last copy and its answer
are an upper bound; the bounds below are the least that hold or a little above.

A mutant is the same design with one mistake; for each the checker has to find a network over which
a promise breaks. So it has to for the bound less one, where that is the least.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import explore
import filelist
import pyosys

ROOT = filelist.ROOT
OUT = ROOT / ".build" / "formal" / "resend"
ABC = Path(pyosys.__file__).parent / "yosys-abc"
SAFE = 30
MOST_CYCLES = 3000  # every visit ends long before
RESEND = "rtl/ipnuma/resend.sv"
# What these proofs read (see tools/formal.py).
INPUTS = ["rtl/ipnuma/ipnuma_resend.f", "verif/formal/resend_proof.sv"]
# Small senders: what the network does, and the parameters of resend_proof.
SENDERS = {
    "delivery": ("FAIR", {"Window": 2, "Slots": 2, "Ticks": 12, "Frames": 3, "Bound": 155}),
    "delivery_wide": ("FAIR", {"Window": 3, "Slots": 4, "Ticks": 12, "Frames": 4, "Bound": 176}),
    # The time-out is shorter than a round trip: it comes where nothing was lost, too.
    "delivery_hasty": ("FAIR", {"Window": 2, "Slots": 2, "Ticks": 4, "Frames": 3, "Bound": 86}),
    # The time-out is doubled until a round trip is measured, and again when one comes.
    "delivery_learns": (
        "FAIR",
        {"Window": 2, "Slots": 2, "Ticks": 4, "Frames": 3, "Stretch": 1, "Bound": 110},
    ),
    "delivery_lossy": (
        "FAIR",
        {"Window": 2, "Slots": 2, "Ticks": 12, "Frames": 2, "Losses": 2, "Bound": 298},
    ),
    "deaf": ("DEAF", {"Window": 2, "Slots": 2, "Ticks": 4, "Frames": 3, "Limit": 2, "Bound": 94}),
}
# name: the line, what it becomes, the sender whose promise breaks.
MUTANTS = {
    # More frames are in flight than the window.
    "window": ("next.count < settings.window", "next.count <= settings.window", "delivery_wide"),
    # No time-out.
    "timeout": ("late_q  <= elapsed_q > limit_q;", "late_q  <= 1'b0;", "delivery_hasty"),
    # A time-out does not go back.
    "back": ("if (back) begin\n", "if (back && op_q == OP_ACK) begin\n", "delivery_hasty"),
    # Time-outs are not counted.
    "patient": ("next.retries = state_q.retries + 1'b1;", "next.retries = 8'd0;", "deaf"),
}


def worker(name: str, defines: str, sources: list[str]) -> None:
    """Write the design as an AIG; its own process, since the front end may end it."""
    from pyosys import libyosys

    design = libyosys.Design()
    for command in (
        f"read_slang {defines} --top resend_proof {' '.join(sources)}",
        "prep -flatten -top resend_proof",
        "async2sync",
        "chformal -lower",
        "memory_map",
        "setundef -init -zero",
        "formalff -clk2ff",
        "opt -full",
        "setundef -undriven -anyseq",
        "techmap",
        "opt -fast",
        "dffunmap",
        "simplemap",
        "aigmap",
        "opt_clean",
        "stat",
        f"write_aiger -I -B -zinit {OUT / name}.aig",
    ):
        libyosys.run_pass(command, design)


def write(name: str, defines: str, source: str | None = None) -> Path:
    """Write a sender, or one whose source is another, as an AIG."""
    sources = filelist.merge(INPUTS).sources
    if source is not None:
        path = OUT / f"{name}.sv"
        path.write_text(source)
        sources = [str(path) if s == RESEND else s for s in sources]
    with (OUT / f"{name}.log").open("w") as log:
        subprocess.run(
            [sys.executable, __file__, "--worker", name, defines, *sources],
            cwd=ROOT,
            check=True,
            stdout=log,
            stderr=log,
        )
    return OUT / f"{name}.aig"


def check_safety() -> tuple[bool, str]:
    """Look for an input that breaks safety; return whether there is none, and what was seen."""
    aig = write("safety", "")
    script = f"read_aiger {aig}; fold; print_stats; bmc3 -a -F {SAFE} -v"
    run = subprocess.run([str(ABC), "-c", script], capture_output=True, text=True, cwd=OUT)
    (OUT / "safety.abc.log").write_text(run.stdout + run.stderr)
    if "was asserted in frame" in run.stdout:
        return False, f"broken:\n{run.stdout[-800:]}"
    if f"No output asserted in {SAFE} frames" in run.stdout:
        return True, f"holds for {SAFE} cycles"
    raise SystemExit(f"resend safety: the checker did not end as expected:\n{run.stdout[-2000:]}")


def check_sender(
    name: str, sender: str, source: str | None = None, less: int = 0
) -> tuple[bool, str]:
    """Visit a sender's states; return whether it is as expected, and what was seen."""
    network, values = SENDERS[sender]
    values = {**values, "Bound": values["Bound"] - less}
    parameters = " ".join(f"-G {key}={value}" for key, value in values.items())
    found = explore.visit(
        explore.read(write(name, f"-D {network} {parameters}", source)), MOST_CYCLES
    )
    if found.broken:
        said = f"broken in cycle {found.cycles}"
    elif found.complete:
        said = f"holds for {values['Bound']} cycles, at rest after {found.cycles}"
    else:
        said = f"not known after {found.cycles} cycles"
    good = found.broken if source or less else found.complete
    return good, f"{said}, up to {found.states} states a cycle"


def main() -> int:
    """Run all proofs."""
    OUT.mkdir(parents=True, exist_ok=True)
    text = (ROOT / RESEND).read_text()
    jobs: dict[str, Callable[[], tuple[bool, str]]] = {"safety": check_safety}
    for sender in SENDERS:
        jobs[sender] = partial(check_sender, sender, sender)
    jobs["least_bound"] = partial(check_sender, "least_bound", "delivery_hasty", less=1)
    for mutant, (line, wrong, sender) in MUTANTS.items():
        if text.count(line) != 1:
            raise SystemExit(f"mutant {mutant}: {RESEND} has not exactly one {line!r}")
        name = f"mutant_{mutant}"
        jobs[name] = partial(check_sender, name, sender, text.replace(line, wrong))
    bad = 0
    for name in sys.argv[1:] or jobs:
        started = time.monotonic()
        good, said = jobs[name]()
        print(f"{name}: {'as it must' if good else 'WRONG'}: {said}", end=" ")
        print(f"({time.monotonic() - started:.0f} s)", flush=True)
        bad += not good
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        sys.exit(main())
