# SPDX-License-Identifier: Apache-2.0
"""Ask Verilator whether it elaborates a top: nothing is built, and nothing runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from simulator import ROOT, tool_environment

sys.path.insert(0, str(ROOT / "tools"))

import filelist


def complaint(top: str, filelists: Sequence[str], parameters: Mapping[str, int]) -> str:
    """Return what Verilator says of a top that it refuses with these parameters, or nothing."""
    files = filelist.merge(filelists)
    command = ["verilator", "--lint-only", "-Wno-lint", "-Wno-style"]
    command += ["--top-module", top, *(f"-G{k}={v}" for k, v in parameters.items())]
    command += [f"+incdir+{ROOT / d}" for d in files.incdirs]
    command += [str(ROOT / source) for source in files.sources]
    env = os.environ | tool_environment()
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    if result.returncode == 0:
        return ""
    return result.stderr or f"verilator: {result.returncode}"
