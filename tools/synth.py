# SPDX-License-Identifier: Apache-2.0
"""Synthesise tops for ECP5, print the area of each module, compare it with the locked numbers.

The hierarchy is kept, so that the numbers belong to modules; a flattened build for a board comes
out somewhat smaller. Logs are in .build/synth/. A top of which nothing changed is not synthesised
again; --force and IPNUMA_FRESH=1 do it nevertheless. ./test leaves out most of what is as recorded:
stamps.Recorded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelist
import stamps

ROOT = filelist.ROOT
OUT = ROOT / ".build" / "synth"
LOCKED = ROOT / "rtl" / "locked.toml"
STAMPS = stamps.Stamps("synth")
RECORDED = stamps.Recorded("synth")
COLUMNS = ("lut", "ff", "bram", "dram", "dsp")
# What a cell counts for. A carry cell holds two LUTs.
CELLS = {
    "LUT4": {"lut": 1},
    "CCU2C": {"lut": 2},
    "TRELLIS_FF": {"ff": 1},
    "DP16KD": {"bram": 1},
    "PDPW16KD": {"bram": 1},
    "TRELLIS_DPR16X4": {"dram": 1},
    "MULT18X18D": {"dsp": 1},
}
# ABC's default script takes half a minute on the exclusive-ors of one CRC-32 over 64 bits and
# makes them larger; this one takes a second. Its own equivalence check is as slow, hence off.
ABC_SCRIPT = "+&sweep;&syn3;&syn3;&if,-W,300"
# Unchanged modules move by up to 6 % in LUTs when another module changes: ABC sees all at once.
TOLERANCE_PERCENT = 10
TOLERANCE_CELLS = 16

Area = dict[str, int]


def worker(job: dict) -> None:
    """Synthesise one top in this process; its output is the log."""
    from pyosys import libyosys

    design = libyosys.Design()

    def run(command: str) -> None:
        libyosys.run_pass(command, design)

    top = job["top"]
    parameters = " ".join(f"-G {k}={v}" for k, v in job["parameters"].items())
    includes = " ".join(f"-I {d}" for d in job["incdirs"])
    run("scratchpad -set abc9.verify 0")
    run(f'scratchpad -set abc9.script "{ABC_SCRIPT}"')
    run(
        f"read_slang --top {top} {parameters} {includes} --best-effort-hierarchy "
        + " ".join(job["sources"])
    )
    run(f"synth_ecp5 -noflatten -top {top}")
    run(f"tee -q -o {job['stat']} stat -json")


def digest(job: dict, root: Path = ROOT) -> str:
    """Hash everything that can change the result; where it is written to cannot."""
    names = stamps.design_files(job["sources"], job["incdirs"], root)
    return (
        stamps.Digest("synth", stamps.python_tools(root), job["top"])
        .mapping(job["parameters"])
        .text(*job["sources"], "--", *job["incdirs"])
        .files([*names, "tools/synth.py"], root)
        .hexdigest()
    )


def areas(stat: dict) -> dict[str, Area]:
    """Sum the cells by module; instances of one module are added up."""
    result: dict[str, Area] = {}
    for name, module in stat["modules"].items():
        base = name.removeprefix("\\").split("$")[0]
        area = result.setdefault(base, {"instances": 0} | dict.fromkeys(COLUMNS, 0))
        area["instances"] += 1
        for cell, count in module["num_cells_by_type"].items():
            for column, weight in CELLS.get(cell, {}).items():
                area[column] += weight * count
    return result


def synthesise(top: str, job: dict, force: bool) -> dict[str, Area]:
    """Synthesise one top, or take the result of the last time if nothing changed."""
    OUT.mkdir(parents=True, exist_ok=True)
    log = OUT / f"{top}.log"
    key = digest(job)
    kept = None if force or stamps.fresh() else STAMPS.load(key)
    if kept is not None:
        print(f"synth: {top}: unchanged", flush=True)
        return kept["modules"]
    started = time.monotonic()
    with log.open("w") as stream:
        run = subprocess.run(
            [sys.executable, __file__, "--worker", json.dumps(job)],
            cwd=ROOT,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    if run.returncode != 0:
        text = log.read_text(errors="replace").splitlines()
        complaints = [line for line in text if "error:" in line.lower()] or text[-30:]
        raise SystemExit("\n".join([*complaints[:30], f"synth: {top} failed, see {log}"]))
    modules = areas(json.loads(Path(job["stat"]).read_text()))
    if digest(job) == key:  # else a source was edited meanwhile
        STAMPS.save(key, {"top": top, "modules": modules})
    print(f"synth: {top}: {time.monotonic() - started:.0f} s", flush=True)
    return modules


def table(top: str, modules: dict[str, Area]) -> None:
    """Print the area of a top by module."""
    width = max(len(name) for name in (*modules, top))
    print(f"  {'module':<{width}}    n" + "".join(f"{c:>8}" for c in COLUMNS))
    for name, area in sorted(modules.items(), key=lambda item: -item[1]["lut"]):
        row = "".join(f"{area[c]:>8}" for c in COLUMNS)
        print(f"  {name:<{width}} {area['instances']:>4}{row}")
    total = {c: sum(area[c] for area in modules.values()) for c in COLUMNS}
    print(f"  {'all of ' + top:<{width}}     " + "".join(f"{total[c]:>8}" for c in COLUMNS))


def compare(top: str, modules: dict[str, Area], locked: dict[str, Area]) -> list[str]:
    """Say where the sizes left the locked numbers, in either direction."""
    complaints = []
    for name in sorted(modules.keys() | locked.keys()):
        if name not in locked:
            complaints.append(f"{top}: {name} is not locked")
        elif name not in modules:
            complaints.append(f"{top}: {name} is locked but gone")
        else:
            for column in COLUMNS:
                now, then = modules[name][column], locked[name].get(column, 0)
                # Block RAMs and multipliers are few and do not depend on the mapper's luck.
                slack = 0
                if column in ("lut", "ff"):
                    slack = max(then * TOLERANCE_PERCENT // 100, TOLERANCE_CELLS)
                if abs(now - then) > slack:
                    complaints.append(f"{top}: {name}: {column} {then} -> {now}")
    return complaints


def sealed(job: dict, locked: dict[str, Area]) -> str:
    """Hash the inputs of a synthesis with the sizes that are locked for it."""
    return stamps.Digest(digest(job)).mapping(locked).hexdigest()


def write_locked(all_modules: dict[str, dict[str, Area]]) -> None:
    """Write the locked numbers."""
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Size of every module in every top on ECP5, by tools/synth --update. It fails when",
        f"# one leaves its number by more than {TOLERANCE_PERCENT} % and {TOLERANCE_CELLS} LUTs or"
        " flip-flops, or by any block RAM,",
        "# distributed RAM or multiplier. All instances of a module in the top are added up.",
    ]
    for top in sorted(all_modules):
        lines += ["", f"[{top}]"]
        for name in sorted(all_modules[top]):
            area = all_modules[top][name]
            values = ", ".join(f"{k} = {area[k]}" for k in ("instances", *COLUMNS) if area.get(k))
            lines.append(f"{name} = {{ {values} }}")
    LOCKED.write_text("\n".join(lines) + "\n")


def main() -> int:
    """Synthesise the tops asked for; return 0 if their sizes are the locked ones."""
    parser = argparse.ArgumentParser(description="Synthesise and compare with the locked sizes.")
    parser.add_argument("top", nargs="*", help="tops of tools/tops.toml; default: all")
    parser.add_argument("--update", action="store_true", help="lock the sizes of this run")
    parser.add_argument("--record", action="store_true", help="record that the locked sizes held")
    parser.add_argument("--force", action="store_true", help="synthesise unchanged tops as well")
    parser.add_argument("--jobs", type=int, default=2, help="tops at a time; default: 2")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(json.loads(args.worker))
        return 0

    tops = tomllib.loads((ROOT / "tools" / "tops.toml").read_text())
    for top in args.top:
        if top not in tops:
            parser.error(f"{top} is not in tools/tops.toml")
    locked = tomllib.loads(LOCKED.read_text()) if LOCKED.is_file() else {}
    complaints: list[str] = []
    jobs: dict[str, dict] = {}
    for top in args.top or tops:
        entry = tops[top]
        try:
            merged = filelist.merge(entry["files"])
        except filelist.FileListError as error:
            complaints.append(f"{top}: {error}")
            continue
        jobs[top] = {
            "top": top,
            "parameters": entry.get("parameters", {}),
            "sources": merged.sources,
            "incdirs": merged.incdirs,
            "stat": str(OUT / f"{top}.stat.json"),
        }
    keys = {top: sealed(job, locked.get(top, {})) for top, job in jobs.items()}
    plain = not (args.top or args.update or args.force or args.record)
    for top in sorted(RECORDED.left_out(keys)) if plain else ():
        print(f"synth: {top}: recorded, and not drawn by this seed")
        del jobs[top]
    with ThreadPoolExecutor(args.jobs) as pool:
        areas = pool.map(lambda job: synthesise(job["top"], job, args.force), jobs.values())
        done = dict(zip(jobs, areas, strict=True))
    for top in done:
        table(top, done[top])
        if not args.update:
            complaints += compare(top, done[top], locked.get(top, {}))
    if args.update:
        locked |= done
        write_locked(locked)
        print(f"synth: wrote {LOCKED.relative_to(ROOT)}")
    if args.update or (args.record and not complaints):
        sizes = tomllib.loads(LOCKED.read_text())
        RECORDED.write({top: sealed(job, sizes[top]) for top, job in jobs.items()}, tops)
    for complaint in complaints:
        print(f"synth: {complaint}")
    if complaints and done and not args.update:
        print("synth: if the change is meant, lock it: tools/synth --update")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
