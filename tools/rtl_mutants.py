# SPDX-License-Identifier: Apache-2.0
"""Make mutants of SystemVerilog sources: one small mistake each, at a place that a seed draws.

The text is taken apart into tokens, no further. Left alone are comments, what only simulation has
(`ifndef SYNTHESIS`), headers of modules, declarations, parameters, ranges and headers of
loops: a change there would mostly not build.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<directive>`\w+)
  | (?P<number>\d*'[sS]?[bodhBODH][0-9a-fA-FxXzZ_?]+|'[01xXzZ]|\d[\d_]*)
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<op><<<|>>>|===|!==|==\?|!=\?|<<|>>|<=|>=|==|!=|&&|\|\||->|\+:|-:|::|\+\+|--|\*\*
      |[-+*/%&|^]=|~&|~\||~\^|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# A statement that begins with one of these is a declaration, or not of the design.
DECLARATIONS = frozenset(
    "logic wire reg bit int integer genvar import export typedef localparam parameter enum struct"
    " assert assume cover initial automatic const byte string modport".split()
)
KEYWORDS = frozenset("return if else case begin end inside unique default assign".split())
SWAPS = {
    "==": ("!=",),
    "!=": ("==",),
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "&&": ("||",),
    "||": ("&&",),
    "+": ("-",),
    "-": ("+",),
    "&": ("|",),
    "|": ("&",),
    "^": ("|", "&"),
    "<<": (">>",),
    ">>": ("<<",),
}
PRIMARY = r"[A-Za-z_][\w$]*(?:\.[A-Za-z_]\w*|\[[^\[\]]*\])*"
COMPARISON = re.compile(
    rf"(?<![\w.\])}}'])(?P<a>{PRIMARY})\s*(?P<op>==|!=)\s*"
    rf"(?P<b>{PRIMARY}|\d*'[bodh][\w]+)(?![\w.\[(:'{{])"
)


@dataclass(frozen=True)
class Token:
    """A piece of the text that is not space."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        """Where the text goes on."""
        return self.at + len(self.text)


@dataclass(frozen=True)
class Mutant:
    """One change of one source."""

    source: str
    line: int
    rule: str
    at: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the source with the mistake."""
        assert text[self.at : self.at + len(self.old)] == self.old
        return text[: self.at] + self.new + text[self.at + len(self.old) :]

    def __str__(self) -> str:
        """Return place and change, on one line."""
        old, new = (" ".join(part.split()) or "nothing" for part in (self.old, self.new))
        return f"{self.source}:{self.line}: {self.rule}: {old} -> {new}"


def tokens(text: str) -> list[Token]:
    """Take the text apart; spaces and comments are left out."""
    found = (Token(m.lastgroup or "", m.group(), m.start()) for m in TOKEN.finditer(text))
    return [token for token in found if token.kind != "space"]


def closing(found: list[Token], index: int) -> int:
    """Return the index of the bracket that closes the one at `index`."""
    depth = 0
    for at in range(index, len(found)):
        depth += found[at].text in ("(", "[", "{")
        depth -= found[at].text in (")", "]", "}")
        if depth == 0:
            return at
    return len(found) - 1


def semicolon(found: list[Token], index: int) -> int:
    """Return the index of the semicolon that ends what begins at `index`."""
    while index < len(found) and found[index].text != ";":
        index = closing(found, index) if found[index].text in ("(", "[", "{") else index
        index += 1
    return min(index, len(found) - 1)


def protected(found: list[Token]) -> list[bool]:
    """Say of each token whether it must stay as it is."""
    keep = [False] * len(found)

    def hold(first: int, last: int) -> None:
        keep[first : last + 1] = [True] * (last + 1 - first)

    simulation = 0
    for index, token in enumerate(found):
        before = found[index - 1].text if index else ";"
        if token.kind == "directive":
            if token.text in ("`ifdef", "`ifndef"):
                simulation += 1
            elif token.text == "`endif":
                simulation -= 1
            keep[index] = True
        if simulation or keep[index]:
            keep[index] = True
        elif token.text in ("module", "interface", "package", "function", "task", "class"):
            hold(index, semicolon(found, index))
        elif token.text == "for" or token.text == "#" or token.text == "[":
            bracket = index if token.text == "[" else index + 1
            hold(index, closing(found, bracket))
        elif before in (";", "begin", "end", "endfunction", ":", ")", "generate") and (
            token.text in DECLARATIONS
            or (token.kind == "word" and re.search(r"_(t|e|pkg)$", token.text))
        ):
            hold(index, semicolon(found, index))
    return keep


def is_operand(token: Token) -> bool:
    """Whether an operator behind this token has two operands."""
    if token.kind in ("number", "string"):
        return True
    return token.text in (")", "]", "}") or (token.kind == "word" and token.text not in KEYWORDS)


def near(number: str) -> list[str]:
    """Return constants one off, within the width."""
    if number in ("'0", "'1"):
        return ["'1" if number == "'0" else "'0"]
    if "'" not in number:
        value = int(number.replace("_", ""))
        return [str(value + 1)] + ([str(value - 1)] if value else [])
    width, rest = number.split("'", 1)
    base, digits = rest[0].lower(), rest[1:].replace("_", "")
    if not width or base == "s" or re.search(r"[xXzZ?]", digits):
        return []
    value = int(digits, {"b": 2, "o": 8, "d": 10, "h": 16}[base])
    size = 1 << int(width)
    return sorted({f"{width}'d{(value + step) % size}" for step in (1, -1)})


def non_blocking(found: list[Token], index: int) -> tuple[int, int] | None:
    """Return the extent of the assignment whose `<=` is at `index`, if it is one."""
    depth = 0
    at = index - 1
    while at >= 0 and (depth or found[at].text not in (";", "begin", "end", "else", ":")):
        text = found[at].text
        depth += text in (")", "]", "}")
        depth -= text in ("(", "[", "{")
        if depth < 0 or (not depth and text in ("=", "<=", "return", "assign", "?")):
            return None
        if not depth and text == "(":
            break  # of an if
        at -= 1
    if depth or at < 0:
        return None
    # The target is one name with selections, or names in braces.
    first = index - 1
    while found[first].text in ("]", "}"):
        depth = 0
        while True:
            depth += found[first].text in ("]", "}")
            depth -= found[first].text in ("[", "{")
            if not depth:
                break
            first -= 1
        if found[first].text == "[":
            first -= 1
        else:
            break
    while found[first - 1].text in (".", "::"):
        first -= 2
        while found[first].text == "]":
            while found[first].text != "[":
                first -= 1
            first -= 1
    return first, semicolon(found, index)


def enums(text: str) -> list[list[str]]:
    """Return the names of each enumeration of the source."""
    out = []
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        body = re.sub(r"//[^\n]*", "", body)
        names = [item.split("=")[0].strip() for item in body.split(",")]
        out.append([name for name in names if re.fullmatch(r"\w+", name)])
    return [names for names in out if len(names) > 1]


def sites(source: str, text: str) -> Iterator[Mutant]:
    """Make all mutants of a source."""
    found = tokens(text)
    keep = protected(found)
    states = {name: names for names in enums(text) for name in names}

    def mutant(rule: str, at: int, old: str, new: str) -> Mutant:
        return Mutant(source, text.count("\n", 0, at) + 1, rule, at, old, new)

    free = [(token.at, token.end) for token, kept in zip(found, keep, strict=True) if not kept]
    starts = {at for at, _ in free}
    for index, token in enumerate(found[:-1]):
        if keep[index] or not index:
            continue
        before, after = found[index - 1], found[index + 1]
        if token.text == "<=" and (extent := non_blocking(found, index)):
            begin, end = found[extent[0]].at, found[extent[1]].at
            yield mutant("assignment dropped", begin, text[begin:end], "")
        elif token.text in SWAPS and is_operand(before):
            for other in SWAPS[token.text]:
                yield mutant("operator", token.at, token.text, other)
        elif token.text in ("!", "~") and not is_operand(before):
            yield mutant("negation dropped", token.at, token.text, "")
        elif token.text in ("&", "|") and after.kind == "word":
            yield mutant("operator", token.at, token.text, "|" if token.text == "&" else "&")
        elif token.kind == "number" and after.text != "'":
            for other in near(token.text):
                yield mutant("constant", token.at, token.text, other)
        elif token.text == "if" and after.text == "(":
            inner = after.end
            outer = found[closing(found, index + 1)].at
            condition = text[inner:outer]
            yield mutant("condition", inner, condition, f"!({condition})")
        elif token.text in states and after.text != ":" and before.text != ",":
            for other in states[token.text]:
                if other != token.text:
                    yield mutant("state", token.at, token.text, other)
    for match in COMPARISON.finditer(text):
        # Equal but for the lowest, or the highest, bit.
        if match.start("op") in starts and match.start("a") in starts:
            a, op, b = match.group("a", "op", "b")
            for shift in (">>", "<<"):
                wrong = f"((({a}) ^ ({b})) {shift} 1) {op} '0"
                yield mutant("bit dropped", match.start(), match.group(), wrong)


def draw(all_sites: list[Mutant], seed: int) -> Iterator[Mutant]:
    """Draw without end of luck: a rule, then one of its places, each at most once."""
    rand = random.Random(seed)
    by_rule: dict[str, list[Mutant]] = {}
    for site in all_sites:
        by_rule.setdefault(site.rule, []).append(site)
    for places in by_rule.values():
        rand.shuffle(places)
    while by_rule:
        rule = rand.choice(sorted(by_rule))
        yield by_rule[rule].pop()
        if not by_rule[rule]:
            del by_rule[rule]
