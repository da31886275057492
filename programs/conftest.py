# SPDX-License-Identifier: Apache-2.0
"""Runs every test of this folder twice: over the kernel's sockets and over IP-NUMA.

With IPNUMA_FAR=1 once, over IP-NUMA as between two machines, whose sessions are sealed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))

from require_all import pytest_runtest_makereport  # noqa: F401 (a hook)

import programs

# How often the long form runs a test that does not repeat what it does by itself, unless
# IPNUMA_ROUNDS says otherwise, and beside what.
ROUNDS = int(os.environ.get("IPNUMA_ROUNDS", "20"))
REPEATED = ("test_everyday", "test_nginx")
BUSY = int(os.environ.get("IPNUMA_BUSY", "0"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test of some files."""
    if "IPNUMA_LONG" in os.environ and metafunc.module.__name__ in REPEATED:
        metafunc.fixturenames.append("nth")
        metafunc.parametrize("nth", range(ROUNDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Iterator[None]:
    """Keep the machine busy, if IPNUMA_BUSY says with how many loops.

    Tests that run side by side (-n) share the loops: only who hands out the tests has any.
    """
    with programs.busy(0 if "PYTEST_XDIST_WORKER" in os.environ else BUSY):
        return (yield)


@pytest.fixture
def rounds() -> int:
    """How often a test repeats what only the long form beside busy loops repeats."""
    return ROUNDS if "IPNUMA_LONG" in os.environ and BUSY else 1


@pytest.fixture(params=["far"] if programs.FAR else ["kernel", "ipnuma"])
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
