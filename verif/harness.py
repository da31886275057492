# SPDX-License-Identifier: Apache-2.0
"""Build a top with Verilator once, run cocotb tests on it many times.

A bench is `verif/<area>/test_<module>.py`. It holds the cocotb tests (coroutines marked
`@cocotb.test()`, whose names do not begin with `test_`, or pytest would take them for its own)
and one or more pytest functions that call `build_and_run`. See `verif/example/`.

Environment:
    IPNUMA_SEED   seed of every random choice; without it a new one is drawn and printed
    IPNUMA_WAVES  1 writes dump.fst beside the results (its own build, slower)
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import filelist  # noqa: E402 (needs the path above)

BUILD_ROOT = ROOT / ".build" / "cocotb"

# -fno-reorder comes after any -O: an -O3 behind it would switch reordering on again, which makes
# the verilation of XOR-heavy logic (CRC) some thirty times slower.
VERILATOR_ARGS = [
    "-Wall",
    "--assert",
    "-O3",
    "-fno-reorder",
    "--x-assign",
    "unique",
    "--x-initial",
    "unique",
    # Benches are wrappers: what a wrapper leaves open or does not read is its business.
    "-Wno-PINCONNECTEMPTY",
    "-Wno-UNUSEDSIGNAL",
    "-Wno-UNDRIVEN",
    "-Wno-DECLFILENAME",
]


@functools.cache
def tool_environment() -> dict[str, str]:
    """Return the variables that tools/env.sh sets."""
    out = subprocess.run(
        ["bash", "-c", '. "$0" && env -0', str(ROOT / "tools" / "env.sh")],
        check=True,
        capture_output=True,
    ).stdout.decode()
    pairs = (entry.split("=", 1) for entry in out.split("\0") if "=" in entry)
    names = ("PATH", "VERILATOR_ROOT", "MAKEFLAGS", "OBJCACHE", "VIRTUAL_ENV")
    return {k: v for k, v in pairs if k in names or k.startswith("CCACHE_")}


def _digest(
    top: str,
    sources: Sequence[str],
    incdirs: Sequence[str],
    parameters: Mapping[str, object],
    args: Sequence[str],
) -> str:
    """Hash everything that can change the simulator that comes out."""
    hasher = hashlib.sha256()

    def add(text: str) -> None:
        hasher.update(text.encode() + b"\0")

    for item in (top, *sorted(f"{k}={v}" for k, v in parameters.items()), *args):
        add(item)
    headers = [
        p.relative_to(ROOT).as_posix()
        for d in incdirs
        for p in sorted((ROOT / d).iterdir())
        if p.is_file()
    ]
    for source in (*sources, *headers, "tools/requirements.lock"):
        add(source)
        hasher.update((ROOT / source).read_bytes())
    return hasher.hexdigest()


def _parameter(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) and not value.startswith('"') else str(value)


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

    Returns:
        The number of cocotb tests that ran, which is never zero.

    """
    parameters = {k: _parameter(v) for k, v in (parameters or {}).items()}
    merged = filelist.merge([*filelists, *sources])
    waves = os.environ.get("IPNUMA_WAVES", "0") not in ("", "0")
    args = [*VERILATOR_ARGS, *build_args]
    if waves:
        args += ["--trace-fst", "--trace-structs"]

    os.environ.update(tool_environment())
    # cocotb's own switches would make the runner and this function disagree about the traces.
    os.environ.pop("WAVES", None)

    digest = _digest(top, merged.sources, merged.incdirs, parameters, args)
    tag = "-".join([top, *(re.sub(r"\W+", "", f"{k}{v}") for k, v in sorted(parameters.items()))])
    build_dir = BUILD_ROOT / (tag[:80] + ("-waves" if waves else ""))
    build_dir.mkdir(parents=True, exist_ok=True)
    stamp = build_dir / ".digest"

    runner = get_runner("verilator")
    # The lock lets several pytest processes use one build; it is shared while tests run, since a
    # rebuild would change the simulator under them.
    with (build_dir / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stale = not stamp.is_file() or stamp.read_text() != digest
        if stale:
            with suppress(FileNotFoundError):
                stamp.unlink()
            log = build_dir / "build.log"
            try:
                runner.build(
                    hdl_toplevel=top,
                    sources=[ROOT / s for s in merged.sources],
                    includes=[ROOT / d for d in merged.incdirs],
                    parameters=parameters,
                    build_args=args,
                    build_dir=build_dir,
                    timescale=("1ps", "1ps"),
                    waves=waves,
                    log_file=log,
                )
            except (SystemExit, RuntimeError, subprocess.CalledProcessError) as error:
                tail = "\n".join(log.read_text().splitlines()[-60:]) if log.is_file() else ""
                raise RuntimeError(f"verilating {top} failed ({log}):\n{tail}") from error
            stamp.write_text(digest)
        fcntl.flock(lock, fcntl.LOCK_SH)

        if seed is None:
            seed = int(os.environ.get("IPNUMA_SEED", random.SystemRandom().randrange(2**31)))
        name = re.sub(
            r"\W+", "_", os.environ.get("PYTEST_CURRENT_TEST", test_module).split("::")[-1]
        )
        run_dir = build_dir / "runs" / name.removesuffix("_call_")
        run_dir.mkdir(parents=True, exist_ok=True)
        results = run_dir / "results.xml"
        log = run_dir / "run.log"
        print(f"{top}: seed {seed}, log {log.relative_to(ROOT)}")
        failure = ""
        try:
            runner.test(
                hdl_toplevel=top,
                hdl_toplevel_lang="verilog",
                test_module=test_module,
                testcase=testcases,
                seed=seed,
                build_dir=build_dir,
                test_dir=run_dir,
                results_xml=str(results),
                timescale=("1ps", "1ps"),
                waves=waves,
                log_file=log,
                extra_env={"COCOTB_ANSI_OUTPUT": "0", **(extra_env or {})},
            )
        except (SystemExit, RuntimeError, subprocess.CalledProcessError) as error:
            failure = f"({error})"
        ran, failed = get_results(results) if results.is_file() else (0, 0)

    if ran == 0 and not failure:
        failure = "no test ran"
    if failed or failure:
        lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
        # Only the beginning and the end of a long log help.
        text = "\n".join(lines if len(lines) < 400 else [*lines[:40], "[...]", *lines[-340:]])
        raise AssertionError(
            f"{top}: {failed} of {ran} tests failed {failure}\n{text}\n"
            f"repeat with IPNUMA_SEED={seed}"
        )
    return ran
