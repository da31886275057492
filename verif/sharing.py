# SPDX-License-Identifier: Apache-2.0
"""Divide tests into shares that take about equally long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# Seconds of a test that the table does not name.
UNKNOWN = 8.0


def cost(name: str, costs: Mapping[str, float]) -> float:
    """Return the seconds that a test takes: of itself or of its function."""
    return costs.get(name, costs.get(name.partition("[")[0], UNKNOWN))


def longest_first(names: Iterable[str], costs: Mapping[str, float]) -> list[str]:
    """Sort tests by what they take; of equals, by name, so that every process sorts alike."""
    return sorted(names, key=lambda name: (-cost(name, costs), name))


def parse(text: str) -> tuple[int, int]:
    """Read K/N."""
    parts = text.split("/")
    if len(parts) != 2 or not all(p.isdecimal() for p in parts):
        raise ValueError("not of the form K/N")
    number, shares = map(int, parts)
    if not 1 <= number <= shares:
        raise ValueError(f"there is no share {number} of {shares}")
    return number, shares


def divide(names: Sequence[str], costs: Mapping[str, float], shares: int) -> list[list[str]]:
    """Give each test, the longest first, to the share that has least to do."""
    found: list[list[str]] = [[] for _ in range(shares)]
    load = [0.0] * shares
    for name in longest_first(names, costs):
        least = min(range(shares), key=lambda s: (load[s], s))
        found[least].append(name)
        load[least] += cost(name, costs)
    return found
