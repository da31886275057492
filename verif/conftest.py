# SPDX-License-Identifier: Apache-2.0
"""Makes `harness` importable from every bench, and shares the benches out among jobs.

`--share K/N` runs the K-th of N shares that take about equally long, by the times in `costs.toml`.
Every test is in exactly one of the N shares. With or without it, the longest tests come first, so
that several workers end at about the same time.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent / "tools"))

import sharing  # noqa: E402 (needs the paths above)
from require_all import pytest_runtest_makereport  # noqa: E402, F401 (a hook)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --share."""
    parser.addoption("--share", metavar="K/N", help="run the K-th of N shares of equal length")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests, the longest first, and keep those of the share."""
    costs = tomllib.loads((HERE / "costs.toml").read_text())
    names = {item.nodeid: item for item in items}
    order = sharing.longest_first(names, costs)
    asked = config.getoption("share")
    if asked is None:
        items[:] = [names[name] for name in order]
        return
    try:
        number, shares = sharing.parse(asked)
    except ValueError as error:
        raise pytest.UsageError(f"--share {asked}: {error}") from error
    mine = sharing.divide(order, costs, shares)[number - 1]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in mine])
    items[:] = [names[name] for name in order if name in mine]
