# SPDX-License-Identifier: Apache-2.0
"""Runs that are skipped, and simulators that are shared and removed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest
import simulator
import stamps
from harness import ROOT

STEPS = 14


def count(root: Path, name: str) -> None:
    """Make a build, in a process of its own, and note who made it."""
    simulator.BUILD_ROOT = root

    def make() -> None:
        (root / name).mkdir()
        with (root / "made.log").open("a") as log:
            log.write(f"{os.getpid()}\n")
        (root / name / simulator.COMPLETE).write_text(json.dumps({"bytes": 1}))

    for _ in range(20):
        with simulator.made(name, make) as directory:
            assert (directory / simulator.COMPLETE).is_file()


def test_a_run_is_skipped_if_nothing_changed(tmp_path: Path) -> None:
    """A file, a module, a variable, an output or the seed: each makes a run necessary again."""
    # A checkout of its own: stamps and simulators do not depend on the place.
    for name in ("verif/example/stream_register.sv", "verif/kept/bench.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "verif/kept/steps.py", tmp_path / "verif/kept/steps.py")
    for name in ("harness", "simulator", "recorder"):
        shutil.copy(ROOT / f"verif/{name}.py", tmp_path / f"verif/{name}.py")
    (tmp_path / "tools").mkdir()
    for name in ("stamps.py", "filelist.py", "env.sh", "requirements.lock"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    run = subprocess.run(
        [sys.executable, tmp_path / "verif/kept/steps.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("\nstep ") == STEPS, run.stdout


def test_checkouts_share_simulators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest does not depend on where the repository lies."""
    sources = ["verif/example/stream_register.sv"]
    for name in (*sources, *simulator.BUILDERS, "tools/requirements.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    recipe = simulator.Recipe(top="stream_register", sources=sources)
    assert recipe.digest(tmp_path) == recipe.digest()


def test_a_simulator_is_built_once(tmp_path: Path) -> None:
    """Several processes want the same one at once."""
    context = get_context("spawn")
    workers = [context.Process(target=count, args=(tmp_path, "x")) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [w.exitcode for w in workers] == [0] * 4
    assert len((tmp_path / "made.log").read_text().split()) == 1


def test_what_a_failed_build_left_is_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that was killed has no mark of being complete."""
    monkeypatch.setattr(simulator, "BUILD_ROOT", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "half").write_text("")
    made = []

    def make() -> None:
        made.append(1)
        (tmp_path / "x" / simulator.COMPLETE).write_text(json.dumps({"bytes": 1}))

    def fail() -> None:
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError), simulator.made("x", fail):
        pass
    for _ in range(2):
        with simulator.made("x", make):
            pass
    assert made == [1]


def test_the_oldest_simulators_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used least recently, but none that is in use."""
    monkeypatch.setattr(simulator, "BUILD_ROOT", tmp_path)
    (tmp_path / "locks").mkdir()
    for age, name in enumerate("abcde"):
        (tmp_path / name).mkdir()
        complete = tmp_path / name / simulator.COMPLETE
        complete.write_text(json.dumps({"bytes": 10}))
        os.utime(complete, ns=(age, age))
    with (tmp_path / "locks" / "a").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert simulator.remove_oldest(limit=50) == []
        assert simulator.remove_oldest(limit=30) == ["b", "c"]
    assert simulator.remove_oldest(limit=29) == ["a"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d", "e", "locks"]
    # What is used becomes the youngest.
    with simulator.made("d", lambda: None):
        pass
    assert simulator.remove_oldest(limit=10) == ["e"]


def test_what_is_recorded_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changed always runs, of the rest a fourth; over some seeds everything."""
    for name in ("IPNUMA_LONG", "IPNUMA_FRESH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("IPNUMA_DRAW", "1")
    keys: dict[str, str | None] = {f"check{number}": str(number) for number in range(10)}
    gone = stamps.Recorded("synth", tmp_path)
    (tmp_path / "verif").mkdir()
    gone.write(keys | {"removed": "1"}, [*keys, "removed"])
    stamps.Recorded("synth", tmp_path).write({}, keys)
    recorded = stamps.Recorded("synth", tmp_path)
    assert recorded.known == keys
    # Of what cannot be hashed nothing is known.
    now = keys | {"check3": "other", "check4": None, "new": "1"}
    drawn = set()
    for seed in range(40):
        monkeypatch.setenv("IPNUMA_SEED", str(seed))
        left = recorded.left_out(now)
        assert len(left) == 6  # of the eight that are the same, two are drawn
        assert left.isdisjoint({"check3", "check4", "new"})
        assert left == recorded.left_out(now)
        drawn |= now.keys() - left
    assert drawn == now.keys()
    for name in ("IPNUMA_LONG", "IPNUMA_FRESH"):
        monkeypatch.setenv(name, "1")
        assert recorded.left_out(now) == set()
        monkeypatch.delenv(name)
    monkeypatch.delenv("IPNUMA_DRAW")
    assert recorded.left_out(now) == set()
    assert stamps.Recorded("formal", tmp_path).left_out(now) == set()


def test_the_cache_is_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """As crates/verilate and tools/uml-kernel read them."""
    for name in ("IPNUMA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/a")
    assert stamps.cache() == Path("/home/a/.cache/ipnuma")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert stamps.cache() == Path("/x/ipnuma")
    monkeypatch.setenv("IPNUMA_CACHE", "/own")
    assert stamps.cache() == Path("/own")
    for name in ("IPNUMA_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name)
    assert stamps.cache() == ROOT / ".build"
