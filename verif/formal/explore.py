# SPDX-License-Identifier: Apache-2.0
"""Visit every state that a small AIG (AIGER, binary) reaches from registers zero.

All values of the inputs are tried in each state; a variable of the graph is a long number with a
bit per state, so a gate is one operation for all. States are compared bit by bit, so the answer
is exact. Where the design comes to rest for all inputs the visit ends and
nothing is left open: what it says holds for runs of any length.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from pathlib import Path


@dataclass
class Aig:
    """An and-inverter graph; literals are twice a variable, and one more for its inverse."""

    inputs: int
    nexts: list[int]  # what the registers become
    bad: list[int]
    gates: list[tuple[int, int]]

    @property
    def first(self) -> int:
        """Variable of the first gate."""
        return 1 + self.inputs + len(self.nexts)


def read(path: Path) -> Aig:
    """Read a binary AIGER file whose registers begin at zero; outputs count as bad."""
    data = path.read_bytes()
    at = data.index(b"\n")
    head = [int(word) for word in data[:at].split()[1:]]
    _, inputs, latches, outputs, ands, *rest = head
    if any(rest[1:]):
        raise ValueError(f"{path}: constraints, justice and fairness are not supported")
    lines = []
    for _ in range(latches + outputs + (rest[0] if rest else 0)):
        end = data.index(b"\n", at + 1)
        lines.append([int(word) for word in data[at + 1 : end].split()])
        at = end
    if any(len(line) > 1 and line[1] != 0 for line in lines[:latches]):
        raise ValueError(f"{path}: a register does not begin at zero")
    at += 1

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    gates = []
    for gate in range(ands):
        left = 2 * (1 + inputs + latches + gate) - number()
        gates.append((left, left - number()))
    nexts = [line[0] for line in lines[:latches]]
    return Aig(inputs, nexts, [line[0] for line in lines[latches:]], gates)


class Step:
    """One cycle of an AIG for many states at once."""

    def __init__(self, aig: Aig, ones: list[int]) -> None:
        """Prepare; registers `ones` are known to be 1, and inputs that do not count are found."""
        self.aig = aig
        value = list(range(0, 2 * aig.first, 2))  # the literal that each variable stands for
        for one in ones:
            value[1 + aig.inputs + one] = 1
        gates: list[tuple[int, int]] = []
        for left, right in aig.gates:
            a, b = sorted((value[left >> 1] ^ (left & 1), value[right >> 1] ^ (right & 1)))
            mine = 2 * len(value)
            if a == 0 or (a > 1 and a == b ^ 1):
                mine = 0
            elif a in (1, b):
                mine = b
            value.append(mine)
            gates.append((a, b))
        self.nexts = [value[lit >> 1] ^ (lit & 1) for lit in aig.nexts]
        self.bad = [value[lit >> 1] ^ (lit & 1) for lit in aig.bad]
        needed = {lit >> 1 for lit in self.nexts + self.bad}
        self.gates = []
        for var in range(len(value) - 1, aig.first - 1, -1):
            if var in needed:
                a, b = gates[var - aig.first]
                needed |= {a >> 1, b >> 1}
                self.gates.append((2 * var, a, b))
        self.gates.reverse()
        self.used = [i for i in range(aig.inputs) if 1 + i in needed]

    def run(self, columns: list[int], count: int) -> tuple[list[int], int, bool]:
        """Return the states that follow, a number per register, how many, and whether one is bad.

        The states come once for each value of the inputs.
        """
        many = 1 << len(self.used)
        every = (1 << count * many) - 1
        copies = sum(1 << count * copy for copy in range(many))
        value = [0] * (2 * (self.aig.first + len(self.aig.gates)))
        value[1] = every
        for bit, position in enumerate(self.used):
            block = (1 << count) - 1
            lanes = sum(block << count * copy for copy in range(many) if copy >> bit & 1)
            value[2 + 2 * position] = lanes
            value[3 + 2 * position] = lanes ^ every
        for at, column in enumerate(columns, 1 + self.aig.inputs):
            value[2 * at] = column * copies
            value[2 * at + 1] = value[2 * at] ^ every
        for gate, left, right in self.gates:
            value[gate] = both = value[left] & value[right]
            value[gate + 1] = both ^ every
        return [value[lit] for lit in self.nexts], count * many, any(value[b] for b in self.bad)


def distinct(columns: list[int], count: int) -> tuple[list[int], int]:
    """Keep each state once."""
    names = {column: format(column, f"0{count}b") for column in set(columns)}
    keep = [0] * count
    seen = set()
    for at, row in enumerate(zip(*names.values(), strict=True)):
        if row not in seen:
            seen.add(row)
            keep[at] = 1
    fewer = {column: int("".join(compress(name, keep)), 2) for column, name in names.items()}
    return [fewer[column] for column in columns], len(seen)


def rows(columns: list[int], count: int) -> set[tuple[str, ...]]:
    """Return the states themselves."""
    return set(zip(*(format(column, f"0{count}b") for column in columns), strict=True))


@dataclass
class Visit:
    """What was found."""

    broken: bool  # a promise breaks in the last cycle
    complete: bool  # the states of the last cycles lead to nothing new
    cycles: int
    states: int  # most in one cycle


def visit(aig: Aig, cycles: int, most: int = 50_000) -> Visit:
    """Visit the states of the first cycles, until a promise breaks or nothing new comes."""
    ones = [i for i, lit in enumerate(aig.nexts) if lit == 1]  # from the second cycle on
    first, later = Step(aig, []), Step(aig, ones)
    columns, count, widest = [0] * len(aig.nexts), 1, 1
    for cycle in range(cycles):
        after, copies, bad = (later if cycle else first).run(columns, count)
        if bad:
            return Visit(True, False, cycle, widest)
        before, had = columns, count
        columns, count = distinct(after, copies)
        widest = max(widest, count)
        if count > most:
            break
        if cycle % 16 == 15 and count == had and rows(columns, count) <= rows(before, had):
            return Visit(False, True, cycle, widest)
    return Visit(False, False, cycle + 1, widest)
