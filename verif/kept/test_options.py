# SPDX-License-Identifier: Apache-2.0
"""./test and ./demo: what is wrong with their options is one sentence, and status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def run(tool: str, *words: str, out: str | None = None) -> tuple[int, list[str]]:
    """Return the exit status, and the lines of the standard error."""
    command = [sys.executable, str(TOOLS / tool), *words]
    with Path(out or "/dev/null").open("w") as stdout:
        done = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("tool", "words", "place"),
    [
        ("phases.py", ["--nonsense"], "--nonsense"),
        ("phases.py", ["nonsense"], "nonsense"),
        ("phases.py", ["--jobs", "0"], "--jobs"),
        ("phases.py", ["--jobs", "x"], "--jobs"),
        ("phases.py", ["--from"], "--from"),
        ("phases.py", ["--seed", "x"], "--seed"),
        ("demo.py", ["--nonsense"], "--nonsense"),
    ],
)
def test_what_is_wrong_is_one_sentence(tool: str, words: list[str], place: str) -> None:
    """The place and a remedy, and no usage."""
    status, lines = run(tool, "--check", *words)
    assert status == 2
    assert len(lines) == 1
    assert place in lines[0]
    assert ";" in lines[0]


def test_a_list_that_cannot_be_written_is_an_error() -> None:
    """Said in one line, not by a traceback."""
    status, lines = run("phases.py", "--list", out="/dev/full")
    assert status == 1
    assert len(lines) == 1
    assert "cannot write" in lines[0]
