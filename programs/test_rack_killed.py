# SPDX-License-Identifier: Apache-2.0
"""Nothing is left of a rack that is killed while its guests compute."""

from __future__ import annotations

import os
from pathlib import Path

import programs
from rack import need_kernel

TOPOLOGY = """
platform = "keio-2016"
[[host]]
name = "a"
kind = "uml"
nic = { kind = "virtio", rate = "1g" }
command = "touch started; sh -c 'while :; do :; done' & while :; do :; done"
[[host]]
name = "b"
kind = "uml"
nic = { kind = "virtio", rate = "1g" }
[[cable]]
between = ["a", "b"]
metres = 1
[program]
kind = "uml"
"""


def inside(directory: Path) -> list[int]:
    """Processes that work in a directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                where = (process / "cwd").readlink()
            except OSError:
                continue
            if where.is_relative_to(directory):
                found.append(int(process.name))
    return found


def test_no_guest_outlives_its_rack(tmp_path: Path):
    """Neither kernels nor the programs in them."""
    need_kernel()
    file = tmp_path / "busy.toml"
    file.write_text(TOPOLOGY)
    directory = (tmp_path / "guests").resolve()
    line = [str(programs.executable()), "rack", str(file), "--directory", str(directory)]
    rack = programs.Process(line, dict(os.environ), tmp_path / "rack.log", None)
    try:
        programs.wait_until(
            lambda: (directory / "a" / "started").exists() or not rack.running, "a guest computes"
        )
        assert rack.running, rack.output()
        assert len(inside(directory)) >= 4, "two kernels and their programs"
    finally:
        rack.kill()
    programs.wait_until(lambda: not inside(directory), "all guests have ended", 60.0)
