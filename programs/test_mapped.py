# SPDX-License-Identifier: Apache-2.0
"""Ordinary C and C++ that stores into another machine's memory: alone, and under tools.

Two network namespaces are the machines. The programs are the examples of libipnuma; the NIC is
software, so their pages trap.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import programs
from test_between import Machine, machines  # noqa: F401

LIBRARY = programs.ROOT / "crates" / "libipnuma"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the examples against the library that was built."""
    directory = tmp_path_factory.mktemp("examples")
    library = directory / "libipnuma.so.0"
    shutil.copy(programs.executable().with_name("libipnuma.so"), library)
    for source in ("figure43.c", "queue.c", "hashtable.c", "matrix.cpp"):
        path = LIBRARY / "examples" / "c" / source
        compiler = "c++" if path.suffix == ".cpp" else "cc"
        subprocess.run(
            [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-I", str(LIBRARY / "include"),
             str(path), str(library), "-Wl,-rpath,$ORIGIN", "-o", str(directory / path.stem)],
            check=True,
        )  # fmt: skip
    return directory


def play(
    both: tuple[Machine, Machine],
    program: Path,
    sides: tuple[str, str],
    count: int,
    under: tuple[str, ...] = (),
) -> list[str]:
    """Run both sides of a program, the first under a tool; return what they said."""
    tokens = both[0].directory
    started = []
    for machine, side, tool in zip(both, sides, (under, ()), strict=True):
        daemon = f"IPNUMA_DAEMON={machine.socket}"
        line = [programs.tool("env"), daemon, *tool, str(program), side, str(tokens), str(count)]
        started.append(machine.start(*line, library=False))
    for process in started:
        if process.wait() != 0:
            raise process.complaint("has not ended well")
    return [process.output() for process in started]


@pytest.mark.parametrize(
    ("program", "sides", "count", "says"),
    [
        ("figure43", ("ping", "pong"), 500, "500 loops: "),
        ("queue", ("receiver", "sender"), 2000, "2000 messages received, all whole"),
        ("hashtable", ("owner", "writer"), 300, "300 changes, every value was whole"),
        ("matrix", ("owner", "helper"), 60, "30 of them from the helper, all right"),
    ],
)
def test_alone(machines, examples, program, sides, count, says):  # noqa: F811
    """Each ends, and has found what the other machine stored."""
    said = play(machines, examples / program, sides, count)
    assert says in said[0], said


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        # Faults are the program's own, as with every program that handles them.
        (
            (
                "gdb",
                "-nx",
                "-q",
                "-batch",
                "-ex",
                "handle SIGSEGV nostop noprint pass",
                "-ex",
                "run",
                "--args",
            ),
            "exited normally",
        ),
        (("perf", "stat", "-e", "task-clock"), "task-clock"),
        (("perf", "record", "-e", "task-clock", "-o", "/dev/null"), "Captured and wrote"),
        (("strace", "-f", "-o", "/dev/null"), "200 loops: "),
    ],
    ids=["gdb", "perf-stat", "perf-record", "strace"],
)
def test_figure_4_3_under(machines, examples, tool, says):  # noqa: F811
    """A debugger and profilers leave the ping-pong alone."""
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    said = play(machines, examples / "figure43", ("ping", "pong"), 200, tool)
    assert "200 loops: " in said[0] and says in said[0], said
