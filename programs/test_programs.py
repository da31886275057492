# SPDX-License-Identifier: Apache-2.0
"""The harness itself ends what it started and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

from programs import Process

PATIENCE_MS = 10_000


def alive(pid: int) -> bool:
    """Say whether a process is there and no zombie, for whoever adopts it to wait for."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def start(directory: Path, name: str, *argv: str) -> Process:
    return Process(list(argv), dict(os.environ), directory / name, None)


def test_a_number_that_was_given_again_is_spared(tmp_path: Path) -> None:
    ended = start(tmp_path, "ended", "true")
    ended.wait()
    other = start(tmp_path, "other", "sleep", "0.2")
    # What the kernel does when its numbers come round.
    ended.child.pid = other.pid
    ended.kill()
    assert other.wait() == 0, "a program that had ended took another's group with it"


def test_the_rest_of_a_group_ends_with_its_program(tmp_path: Path) -> None:
    program = start(tmp_path, "program", "sh", "-c", "sleep 60 & echo $!")
    program.wait()
    left = int(program.output())
    os.kill(left, 0)
    program.kill()
    for _ in range(PATIENCE_MS):
        if not alive(left):
            return
        time.sleep(0.001)
    raise AssertionError(f"process {left} of an ended program's group lives on")
