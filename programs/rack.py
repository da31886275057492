# SPDX-License-Identifier: Apache-2.0
"""Linux machines in the rack: their kernel, and runs of `ipnuma rack`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

import programs

KERNEL = programs.ROOT / ".build" / "uml" / "current" / "linux"


def need_kernel() -> None:
    """Skip where there is none."""
    if not KERNEL.is_file():
        # CI sets this, so that a missing kernel is no success there.
        assert "IPNUMA_UML_REQUIRED" not in os.environ, f"there is no {KERNEL}"
        pytest.skip("the guests have no kernel; tools/uml-kernel builds it, once, in some minutes")


def run(
    line: list[str],
    log: Path,
    patience: float,
    environment: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> dict:
    """Run a rack to its end; return its report. The command has --json."""
    rack = programs.Process(line, dict(environment), log, cwd)
    try:
        status = rack.wait(patience)
    finally:
        rack.kill()
    if status != 0:
        raise rack.complaint(f"ended with status {status}")
    said = rack.output()
    return json.loads(said[said.index("{") :])["result"]
