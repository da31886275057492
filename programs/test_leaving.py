# SPDX-License-Identifier: Apache-2.0
"""Random connections that leave their rings, and sets of two processes, beside the kernel.

IPNUMA_LONG=1 does twenty times as much. IPNUMA_SEED repeats a run.
"""

from __future__ import annotations

import os
import random

import pytest

import programs

TIMES = 20 if "IPNUMA_LONG" in os.environ else 1
pytestmark = pytest.mark.timeout(900 if TIMES > 1 else 300)


@pytest.fixture
def seed() -> int:
    """A seed, which is said where a test fails."""
    chosen = int(os.environ.get("IPNUMA_SEED", random.SystemRandom().randrange(1 << 31)))
    print(f"IPNUMA_SEED={chosen}")
    return chosen


@pytest.mark.parametrize("name", ["kernel", "ipnuma"])
def test_both_ends_leave(tmp_path, seed, name):
    """Whatever both ends do, each reads every byte, and the end."""
    leaving = programs.compile_c("leaving.c")
    plain = programs.compile_c("leaving_plain.c", "-static")
    with programs.network(name, tmp_path) as net:
        said = net.run(str(leaving), str(seed % 2**31), str(600 * TIMES), str(plain), patience=800)
        assert f"0 of {600 * TIMES} rounds wrong" in said
        if net.accelerated:
            assert {"option", "seccomp", "exec"} <= net.fallbacks().keys()


def test_a_set_of_two_processes(tmp_path, seed):
    """A parent and its child are told of their set what the kernel would tell them."""
    shared = programs.compile_c("shared_set.c")
    said = {}
    for name in ("kernel", "ipnuma"):
        (tmp_path / name).mkdir()
        with programs.network(name, tmp_path / name) as net:
            rounds = str(40 * TIMES)
            said[name] = net.run(str(shared), str(seed % 2**31), rounds, patience=800).splitlines()
            if net.accelerated:
                assert "shared-set" in net.fallbacks()
    assert said["ipnuma"] == said["kernel"]


@pytest.mark.parametrize("name", ["kernel", "ipnuma"])
def test_workers_of_one_set(tmp_path, seed, name):
    """Of workers in several processes and threads one is told of each one-shot event."""
    workers = programs.compile_c("shared_workers.c", "-pthread")
    with programs.network(name, tmp_path) as net:
        rounds = 60 * TIMES
        said = net.run(str(workers), str(seed % 2**31), str(rounds), patience=800)
        assert f"0 of {rounds} rounds wrong" in said
        if net.accelerated:
            assert "shared-set" in net.fallbacks()
