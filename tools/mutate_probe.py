# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for tools/mutate: writes down what each bench builds, and builds nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "verif"), str(ROOT / "tools")]

import filelist  # noqa: E402 (needs the path above)
import harness  # noqa: E402 (needs the path above)
import simulator  # noqa: E402 (needs the path above)


def record(top: str, test_module: str, **build: object) -> int:
    """Stand in for harness.build_and_run."""
    found = filelist.merge([*build.get("filelists", ()), *build.get("sources", ())])
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
    line = {"test": test, "module": test_module, "top": top, "sources": found.sources}
    recipe = simulator.Recipe(
        top=top,
        sources=found.sources,
        incdirs=found.incdirs,
        parameters={k: harness.parameter(v) for k, v in (build.get("parameters") or {}).items()},
        build_args=build.get("build_args", ()),
    )
    line["verilator"] = recipe.verilator_args()
    with Path(os.environ["IPNUMA_PROBE"]).open("a") as stream:
        stream.write(json.dumps(line) + "\n")
    return 1


harness.build_and_run = record
