# SPDX-License-Identifier: Apache-2.0
"""Change what a bench reads, step by step, and see whether it runs; for `test_stamps.py`.

It runs in a checkout of its own. Each step prints its name when it went as it must.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
EARLY = HERE / "early"
sys.path[:0] = [str(EARLY), str(HERE), str(HERE.parent)]

import harness  # noqa: E402 (needs the path above)

OUT = harness.ROOT / ".build" / "out.txt"
LOG = HERE / "runs.log"
FAILURES: list[str] = []


def run(seed: int | None = 1) -> str:
    """Run the bench; return what became of it."""
    before = len(LOG.read_text()) if LOG.is_file() else 0
    try:
        passed = harness.build_and_run(
            "stream_register",
            "bench",
            sources=["verif/example/stream_register.sv"],
            parameters={"Width": 8},
            seed=seed,
            extra_env={"BENCH_OUT": str(OUT)},
            outputs=[OUT],
        )
    except AssertionError as error:
        FAILURES.append(str(error))
        return "failed"
    assert passed == 1
    return "ran" if len(LOG.read_text()) > before else "unchanged"


def settle() -> None:
    """Wait for the next tick of the file system's clock.

    A run that begins in the tick of a change leaves no stamp: it may have read the old content.
    """
    probe = HERE / "probe"
    probe.touch()
    now = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == now:
        probe.touch()


def step(name: str, wanted: list[str], change: Callable[[], object], undo: Callable | None) -> None:
    """Make a change, run twice or more, take the change back."""
    change()
    settle()
    found = [run() for _ in wanted]
    assert found == wanted, f"{name}: {found}, not {wanted}\n{FAILURES[-1:]}"
    if undo:
        undo()
        settle()
    print(f"step {name}")


def write(name: str, text: str) -> Callable[[], object]:
    """Return what writes a file beside this one."""
    return lambda: (HERE / name).write_text(text)


def variable(name: str, value: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return what sets a variable, and what takes it back."""
    return lambda: os.environ.__setitem__(name, value), lambda: os.environ.pop(name)


def main() -> None:
    """Take all steps."""
    os.environ.pop("IPNUMA_SEED", None)
    os.environ.pop("IPNUMA_FRESH", None)
    nothing = lambda: None  # noqa: E731
    for name, text in {"data.txt": "good\n", "helper.py": "NAME = 'a'\n"}.items():
        (HERE / name).write_text(text)
    OUT.parent.mkdir(exist_ok=True)
    EARLY.mkdir()
    step("twice", ["ran", "unchanged"], nothing, None)
    step("unrelated file", ["unchanged"], write("unrelated.txt", "x"), None)
    step("data", ["failed", "failed"], write("data.txt", "bad\n"), write("data.txt", "good\n"))
    step("after a failure", ["ran", "unchanged"], nothing, None)
    step("helper", ["ran", "unchanged"], write("helper.py", "NAME = 'b'\n"), None)
    step("module before another", ["ran"], write("early/helper.py", "NAME = 'c'\n"), None)
    step("without that", ["ran", "unchanged"], (EARLY / "helper.py").unlink, None)
    step("variable", ["failed", "failed"], *variable("IPNUMA_BENCH_MOOD", "bad"))
    step("without it", ["ran", "unchanged"], nothing, None)
    step("variable that nobody reads", ["unchanged"], *variable("IPNUMA_BENCH_HUE", "blue"))
    step("fresh", ["ran", "ran"], *variable("IPNUMA_FRESH", "1"))
    step("output", ["ran", "unchanged"], OUT.unlink, None)
    assert OUT.read_text() == "b"
    assert [run(2), run(2), run(1)] == ["ran", "unchanged", "unchanged"]
    print("step seed")
    assert [run(None), run(None)] == ["ran", "ran"]
    print("step drawn seed")


if __name__ == "__main__":
    main()
