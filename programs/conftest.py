# SPDX-License-Identifier: Apache-2.0
"""Runs every test of this folder twice: over the kernel's sockets and over IP-NUMA."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))

from require_all import pytest_runtest_makereport  # noqa: F401 (a hook)

import programs


@pytest.fixture(params=["kernel", "ipnuma"])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[programs.Network]:
    """How the programs of a test reach each other."""
    with programs.network(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[programs.Network]:
    """The kernel's sockets, to compare with."""
    directory = tmp_path / "kernel"
    directory.mkdir()
    with programs.network("kernel", directory) as made:
        yield made


@pytest.fixture
def port() -> int:
    """A port that is free for TCP and UDP."""
    return programs.free_port()
