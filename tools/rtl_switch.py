# SPDX-License-Identifier: Apache-2.0
"""Put many mutants of the RTL into one copy of the sources, each behind a number.

A simulator that is built from them reads the number once, when it starts, from IPNUMA_MUTANT: 0, or
nothing, is the design as it is. So each bench is built once for all mutants, not once for each.

A changed expression becomes `((mutant_pkg::which == N) ? (changed) : (expression))`. It is the
whole expression around the change, so that widths and signs that come from outside stay as they
are: a piece between the commas of a bracket, what stands behind a member's name, the right side of
an assignment, or what is returned. An assignment that is dropped becomes
`begin if (mutant_pkg::which != N) ... end`. Mutants may lie inside each other: only one is on.

What must be constant (labels of cases, counts of replications, conditions of generates) cannot be
put so. Some of it is seen here; Verilator refuses the rest, and `suspects` says which it means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rtl_mutants import KEYWORDS, Mutant, Token, closing, is_operand, non_blocking, tokens

VARIABLE = "IPNUMA_MUTANT"
WHICH = "mutant_pkg::which"
READ = f'std::getenv(\\"{VARIABLE}\\")'
PACKAGE = """\
`ifndef IPNUMA_MUTANT_PKG
`define IPNUMA_MUTANT_PKG
package mutant_pkg;
  {which};
endpackage
`endif
`line 1 "{source}" 0
"""
OPENERS, CLOSERS = ("(", "[", "{"), (")", "]", "}")
# Left of an expression there is an assignment; whoever meets one of these first is a label.
ENDS = frozenset([";", "begin", "end", "else", "endcase", "case", "casez", "casex", "do"])
ASSIGNS = frozenset("= += -= *= /= %= &= |= ^=".split())
NOTED = re.compile(r"(?P<source>[\w./-]+\.svh?):(?P<line>\d+):\d+:")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """What of a source is put behind a number: an expression, or a statement."""

    begin: int
    end: int
    is_statement: bool
    # A piece of a concatenation: nothing outside gives it its width.
    is_part: bool = False


def _opener(found: list[Token], index: int) -> int | None:
    """Return the bracket that a token stands in, if it stands in one."""
    depth = 0
    for at in range(index - 1, -1, -1):
        if found[at].text in CLOSERS:
            depth += 1
        elif found[at].text in OPENERS:
            if not depth:
                return at
            depth -= 1
        elif not depth and found[at].text == ";":
            return None
    return None


def _pieces(found: list[Token], first: int, last: int) -> list[tuple[int, int]]:
    """Divide tokens at their commas."""
    out, begin, at = [], first, first
    while at <= last:
        if found[at].text in OPENERS:
            at = closing(found, at)
        elif found[at].text == ",":
            out.append((begin, at - 1))
            begin = at + 1
        at += 1
    return [*out, (begin, last)]


def _outer(found: list[Token], first: int, last: int) -> list[int]:
    """Return the tokens that are in no bracket of their own, the opening brackets among them."""
    out, at = [], first
    while at <= last:
        out.append(at)
        at = closing(found, at) + 1 if found[at].text in OPENERS else at + 1
    return out


def _in_bracket(found: list[Token], opener: int, first: int, last: int) -> Place | None:
    """Return the piece of a bracket that holds some tokens."""
    if found[opener].text == "[":
        return None
    inner = (opener + 1, closing(found, opener) - 1)
    begin, end = next(p for p in _pieces(found, *inner) if p[0] <= first <= last <= p[1])
    is_brace = found[opener].text == "{"
    is_pattern = is_brace and found[opener - 1].text == "'"
    outer = _outer(found, begin, end)
    if is_pattern:
        marks = [at for at in outer if found[at].text in ("?", ":")]
        if marks and found[marks[0]].text == ":":
            if first < marks[0]:
                return None  # the index of a member
            begin = marks[0] + 1
            outer = _outer(found, begin, end)
    if is_brace:
        if found[begin].text in ("<<", ">>"):
            return None  # a stream's size
        for at in outer[1:]:
            before = found[at - 1]
            if found[at].text == "{" and is_operand(before) and before.text != "inside":
                return None  # a count of a replication
    return Place(found[begin].at, found[end].end, False, is_brace and not is_pattern)


def _right_side(found: list[Token], first: int, last: int) -> Place | None:
    """Return the right side of the assignment, or the returned value, that holds some tokens."""
    at = first - 1
    while at >= 0:
        text = found[at].text
        if text in CLOSERS:
            depth = 0
            while True:
                depth += found[at].text in CLOSERS
                depth -= found[at].text in OPENERS
                if not depth:
                    break
                at -= 1
        elif text == "return" or text in ASSIGNS:
            break
        elif text == "<=" and non_blocking(found, at):
            break
        elif text in ENDS or text in KEYWORDS - {"inside"}:
            return None
        at -= 1
    if at < 0:
        return None
    behind = last + 1
    while found[behind].text not in (";", ","):
        behind = closing(found, behind) + 1 if found[behind].text in OPENERS else behind + 1
    return Place(found[at + 1].at, found[behind - 1].end, False)


def place(found: list[Token], mutant: Mutant) -> Place | None:
    """Return what a mutant is put behind a number with, None if it cannot be."""
    behind = mutant.at + len(mutant.old)
    inside = [at for at, token in enumerate(found) if mutant.at <= token.at < behind]
    if not inside:
        return None
    first, last = inside[0], inside[-1]
    if mutant.rule == "assignment dropped":
        return Place(mutant.at, found[last + 1].end, True)
    opener = _opener(found, first)
    if opener is not None and found[opener - 1].text == "inside":
        # What a value is looked for in wants constants: all around it, then.
        first, last = opener, closing(found, opener)
        opener = _opener(found, first)
    if opener is None:
        return _right_side(found, first, last)
    return _in_bracket(found, opener, first, last)


def places(text: str, mutants: Iterable[Mutant]) -> dict[Mutant, Place]:
    """Return where the mutants of a source are put; what cannot be is left out."""
    found = tokens(text)
    pairs = ((mutant, place(found, mutant)) for mutant in mutants)
    return {mutant: it for mutant, it in pairs if it is not None}


def _changed(text: str, mutant: Mutant, it: Place) -> str:
    """Return a changed expression, on one line."""
    # Of one bit, as it was, where nothing else says so.
    new = "!!" if it.is_part and mutant.rule == "negation dropped" and mutant.old == "!" else None
    behind = mutant.at + len(mutant.old)
    changed = f"{text[it.begin : mutant.at]}{new or mutant.new}{text[behind : it.end]}"
    return " ".join(COMMENT.sub(" ", changed).split())


def package(source: str, number: int | None = None) -> str:
    """Return the package with the number, as it stands in front of a source: read, or fixed."""
    read = f'int which = $c32("({READ} ? std::atoi({READ}) : 0)")'
    which = read if number is None else f"localparam int which = {number}"
    return PACKAGE.format(which=which, source=source)


def put(text: str, numbered: Mapping[Mutant, int]) -> str:
    """Return the text of a source with mutants behind their numbers; lines stay where they are."""
    where = places(text, numbered)
    order = sorted(where, key=lambda m: (where[m].begin, -where[m].end, numbered[m]))
    inserts = []
    for at, mutant in enumerate(order):
        it, number = where[mutant], numbered[mutant]
        if it.is_statement:
            before, behind = f"begin if ({WHICH} != {number}) ", " end"
        else:
            before = f"(({WHICH} == {number}) ? ({_changed(text, mutant, it)}) : ("
            behind = "))"
        inserts += [((it.begin, 1, at), before), ((it.end, 0, -at), behind)]
    out, done = [], 0
    for (position, _, _), insert in sorted(inserts):
        out += [text[done:position], insert]
        done = position
    return "".join([*out, text[done:]])


def suspects(said: str, texts: Mapping[str, str], mutants: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants that a message points at, else those of the sources that it names."""
    noted = {(match["source"], int(match["line"])) for match in NOTED.finditer(said)}
    mutants = list(mutants)
    found = []
    for source, text in texts.items():
        where = places(text, [mutant for mutant in mutants if mutant.source == source])
        for mutant, it in where.items():
            lines = range(text.count("\n", 0, it.begin) + 1, text.count("\n", 0, it.end) + 2)
            if any((source, line) in noted for line in lines):
                found.append(mutant)
    named = {source for source, _ in noted}
    return found or [mutant for mutant in mutants if mutant.source in named]
