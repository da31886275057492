# SPDX-License-Identifier: Apache-2.0
"""Logic levels and estimated delays of a flat netlist of LUT6s (UltraScale+), for tools/timing.

Levels are exact; nanoseconds are a model: a LUT, and a net in front of each, with delays that put
published MACs at the clock that their authors report on a part of speed grade 2, within a quarter.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from timing_flow import HARNESS

LUT, NET = 0.05, 0.22
MUX, CARRY, CARRY_IN = 0.07, 0.02, 0.10
FF_OUT, FF_IN, LUTRAM_OUT, BRAM_OUT = 0.08, 0.05, 0.35, 0.90
CLOCK_PINS = {"C", "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK"}
NONE = -1.0


@dataclass(frozen=True)
class Worst:
    """The longest path from one clock to another, or within one."""

    ns: float
    levels: int
    source: str
    sink: str

    def record(self) -> dict:
        """Write it as plain values."""
        return asdict(self)


def kind_of(cell: str) -> str:
    """Sort a cell type."""
    if re.match(r"FD[RSCP]E|LDCE|LDPE", cell):
        return "ff"
    if cell.startswith("RAMB"):
        return "bram"
    if re.match(r"RAM\d|SRL", cell):
        return "lutram"
    if cell.startswith("CARRY"):
        return "carry"
    if cell.startswith("MUXF"):
        return "mux"
    if cell.startswith(("LUT", "INV")):
        return "lut"
    if cell.startswith("DSP"):
        return "bram"
    return "other"


def bram_clock(pin: str, cell: dict) -> str:
    """Name the clock pin that a pin of a block RAM belongs to."""
    # With a simple dual port of full width, port A reads and port B writes, whatever the pins say.
    wide = int(str(cell["parameters"].get("READ_WIDTH_A", "0")), 2) in (36, 72)
    half = 72 if cell["type"].startswith("RAMB36") else 36
    wide = wide and int(str(cell["parameters"].get("WRITE_WIDTH_B", "0")), 2) == half
    if pin.startswith(("ADDRA", "ENA", "REGCEA", "RSTRAMA", "RSTREGA", "DOUTA")):
        return "CLKARDCLK"
    if pin.startswith("DOUTB"):
        return "CLKARDCLK" if wide else "CLKBWRCLK"
    if pin.startswith(("DINA", "DINPA", "WEA")):
        return "CLKBWRCLK" if wide else "CLKARDCLK"
    return "CLKBWRCLK"


class Levels:
    """A netlist, ready to be asked for the paths from each clock."""

    def __init__(self, netlist: Path) -> None:
        """Read a netlist."""
        module = json.loads(netlist.read_text())["modules"][HARNESS]
        self.cells = module["cells"]
        self.names: dict[int, str] = {}
        self.ports = {b: n for n, port in module["ports"].items() for b in port["bits"]}
        for name, net in module["netnames"].items():
            many = len(net["bits"]) > 1
            for i, bit in enumerate(net["bits"]):
                full = f"{name}[{i}]" if many else name
                old = self.names.get(bit)
                if old is None or self._rank(full) < self._rank(old):
                    self.names[bit] = full
        # Outputs of logic: bit -> [(input, delay, level)]; sources: bit -> (clock, delay).
        self.logic: dict[int, list[tuple[int, float, int]]] = {}
        self.sources: dict[int, tuple[str, float]] = {}
        self.ends: list[tuple[int, str, str, float]] = []  # bit, clock, name, delay to the pin
        for name, cell in self.cells.items():
            self._cell(name, cell)
        self.order = self._sorted()

    @staticmethod
    def _rank(name: str) -> tuple[bool, bool, int]:
        return ("$" in name, not name.split("[")[0].endswith("_q"), len(name))

    def _clock(self, cell: dict, pin: str) -> str:
        bits = cell["connections"].get(pin) or [-1]
        return self.ports.get(bits[0], self.names.get(bits[0], "?"))

    def _cell(self, name: str, cell: dict) -> None:
        kind, pins, ways = kind_of(cell["type"]), cell["connections"], cell["port_directions"]
        if kind == "other":
            return
        ins = [(p, b) for p, bits in pins.items() if ways[p] != "output" for b in bits]
        outs = [(p, b) for p, bits in pins.items() if ways[p] == "output" for b in bits]
        ins = [(p, b) for p, b in ins if isinstance(b, int) and p not in CLOCK_PINS]
        outs = [(p, b) for p, b in outs if isinstance(b, int)]
        shown = self.names.get(outs[0][1], name) if outs else name
        if kind == "ff":
            clock = self._clock(cell, "C")
            for _, bit in outs:
                self.sources[bit] = (clock, FF_OUT)
            self.ends += [(bit, clock, shown, NET + FF_IN) for _, bit in ins]
        elif kind == "bram":
            for pin, bit in outs:
                self.sources[bit] = (self._clock(cell, bram_clock(pin, cell)), BRAM_OUT)
            for pin, bit in ins:
                clock = self._clock(cell, bram_clock(pin, cell))
                self.ends.append((bit, clock, f"{name}.{pin}", NET + FF_IN))
        elif kind == "lutram":
            clock = self._clock(cell, "CLK" if cell["type"].startswith("SRL") else "WCLK")
            # Port D, or A where there is only one address, writes; every address reads at once.
            read = [(p, b) for p, b in ins if re.match(r"ADDR|DPRA|A\d?$", p)]
            for pin, bit in outs:
                self.sources[bit] = (clock, LUTRAM_OUT)
                own = [b for p, b in read if p.startswith("ADDR" + pin[-1:])] or [
                    b for _, b in read
                ]
                self.logic[bit] = [(b, NET + LUT, 1) for b in own]
            written = [(p, b) for p, b in ins if not re.match(r"ADDR[A-CE-G]|DPRA", p)]
            self.ends += [(bit, clock, f"{shown}.{pin}", NET + FF_IN) for pin, bit in written]
        else:
            for _, bit in outs:
                self.logic[bit] = [(b, *self._arc(kind, pin)) for pin, b in ins]

    @staticmethod
    def _arc(kind: str, pin: str) -> tuple[float, int]:
        if kind == "mux":
            return (NET + MUX, 1) if pin == "S" else (MUX, 0)
        if kind == "carry":
            return (CARRY, 0) if pin in ("CI", "CI_TOP") else (NET + CARRY_IN, 1)
        return NET + LUT, 1

    def _sorted(self) -> list[int]:
        """Order the outputs of logic so that each comes behind its inputs."""
        order: list[int] = []
        state: dict[int, bool] = {}
        for start in self.logic:
            stack = [start]
            while stack:
                bit = stack[-1]
                if bit not in state:
                    state[bit] = False
                    stack += [
                        b for b, _, _ in self.logic[bit] if b in self.logic and b not in state
                    ]
                    continue
                stack.pop()
                if not state[bit]:
                    state[bit] = True
                    order.append(bit)
        return order

    def worst(self, many: int = 1) -> dict[tuple[str, str], list[Worst]]:
        """Find the longest paths between all pairs of clocks, one for each pair of registers."""
        found: dict[tuple[str, str], list[Worst]] = {}
        for clock in sorted({clock for clock, _ in self.sources.values()}):
            arrival = {b: t for b, (own, t) in self.sources.items() if own == clock}
            before: dict[int, tuple[int, int]] = {}
            for bit in self.order:
                best = arrival.get(bit, NONE)
                for read, delay, level in self.logic[bit]:
                    at = arrival.get(read, NONE)
                    if at != NONE and at + delay > best:
                        best = at + delay
                        before[bit] = (read, level)
                if best != NONE:
                    arrival[bit] = best
            ends: dict[str, list[tuple[float, int, str]]] = {}
            for bit, into, name, delay in self.ends:
                at = arrival.get(bit, NONE)
                if at != NONE:
                    ends.setdefault(into, []).append((at + delay, bit, name))
            for into, reached in ends.items():
                found[clock, into] = self._longest(reached, before, many)
        return found

    def _longest(
        self,
        reached: list[tuple[float, int, str]],
        before: dict[int, tuple[int, int]],
        many: int,
    ) -> list[Worst]:
        chosen: list[Worst] = []
        seen: set[tuple[str, str]] = set()
        for ns, bit, name in sorted(reached, key=lambda end: (-end[0], end[2])):
            levels, at = 0, bit
            while at in before:
                at, level = before[at]
                levels += level
            path = Worst(round(ns, 2), levels, self._plain(self.names[at]), self._plain(name))
            key = (path.source.split("[")[0], path.sink.split("[")[0])
            if key not in seen:
                seen.add(key)
                chosen.append(path)
            if len(chosen) >= many:
                break
        return chosen

    @staticmethod
    def _plain(name: str) -> str:
        return re.sub(r"^\\?dut_\w+\.dut\.", "", name)
