# SPDX-License-Identifier: Apache-2.0
"""What a register of a netlist can be reached from: paths between registers, without delays.

Reads the netlist `rtl` of timing_flow.py: words and memories as they were written, flat, each
register under the name and the file of its module.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from timing_flow import HARNESS

BITWISE = {"$and", "$or", "$xor", "$xnor", "$not", "$pos", "$buf", "$bwmux"}


@dataclass(frozen=True)
class Register:
    """A register, or a memory: all bits that one statement writes."""

    path: str  # with its instance, without the harness
    module: str
    clock: str
    bits: int

    @property
    def name(self) -> str:
        """Its name in its module, without the instance."""
        return self.path.rsplit(".", 1)[-1]

    def inside(self, name: str) -> str | None:
        """Return the instance in which it has this name, or None if it has another."""
        if self.path == name:
            return ""
        return self.path[: -len(name) - 1] if self.path.endswith("." + name) else None


@dataclass(frozen=True)
class Link:
    """Some bit of a register depends on some bit of another."""

    source: Register
    sink: Register
    direct: bool  # nothing but wires between them

    def __str__(self) -> str:
        """Name both ends."""
        arrow = "->" if self.direct else "-> .. ->"
        source, sink = self.source, self.sink
        return f"{source.path} ({source.clock}) {arrow} {sink.path} ({sink.clock})"

    def record(self) -> dict:
        """Write it as plain values."""
        return asdict(self)

    @classmethod
    def of(cls, record: dict) -> Link:
        """Read what `record` wrote."""
        return cls(Register(**record["source"]), Register(**record["sink"]), record["direct"])


def plain(name: str, duts: int) -> str:
    """Take the harness and the wrapper off a name."""
    parts = name.lstrip("\\").split(".")
    if parts[0].startswith("dut_") and len(parts) > 2:
        top = parts[0].removeprefix("dut_")
        parts = ([top] if duts > 1 else []) + parts[2:]
    return ".".join(parts)


class Graph:
    """The registers of a netlist, and what reaches each."""

    def __init__(self, netlist: Path) -> None:
        """Read a netlist."""
        module = json.loads(netlist.read_text())["modules"][HARNESS]
        self.cells = module["cells"]
        self.ports = {bit: name for name, port in module["ports"].items() for bit in port["bits"]}
        self.duts = len({n.split(".")[0] for n in module["netnames"] if n.startswith("dut_")})
        self.names: dict[int, str] = {}
        self.pins: dict[int, str] = {}  # registers of the harness in front of an input
        for name, net in module["netnames"].items():
            if "$" in name:
                continue
            if name.startswith("pin_"):
                self.pins.update((bit, name) for bit in net["bits"])
            for bit in net["bits"]:
                old = self.names.get(bit)
                if old is None or self._rank(name) < self._rank(old):
                    self.names[bit] = name
        self.registers: list[Register] = []
        self.mask: dict[int, int] = {}  # bit -> registers that reach it, as a set of bits
        self.own: dict[int, int] = {}  # bit -> the register whose output it is
        self.ends: list[tuple[int, list[int]]] = []  # register, bits that it reads
        self._registers()
        self._spread()

    @staticmethod
    def _rank(name: str) -> tuple[bool, int]:
        return (not name.endswith("_q"), -name.count("."))

    def _add(self, path: str, source: str, clock: int, bits: int) -> int:
        stem = Path(source.split(":")[0]).stem
        name = self.ports.get(clock, self.names.get(clock, "?"))
        self.registers.append(Register(plain(path, self.duts), stem, name, bits))
        return len(self.registers) - 1

    def _registers(self) -> None:
        self.loads: list[tuple[dict, int]] = []  # memories read at once, with their index
        for name, cell in self.cells.items():
            kind, pins = cell["type"], cell["connections"]
            source = cell["attributes"].get("src", "")
            if kind == "$mem_v2":
                clocks = {bit for bit in pins["WR_CLK"] if isinstance(bit, int)}
                if not clocks:
                    continue  # a table of constants
                index = self._add(name, source, min(clocks), len(pins["RD_DATA"]))
                reads = pins["WR_ADDR"] + pins["WR_DATA"] + pins["WR_EN"]
                self.ends.append((index, reads))
                self.loads.append((cell, index))
            elif "ff" in kind and "Q" in pins:
                names = self.pins if pins["Q"][0] in self.pins else self.names
                path = next((names[b] for b in pins["Q"] if b in names), name)
                clock = (pins.get("CLK") or pins.get("C") or [-1])[0]
                index = self._add(path, source, clock, len(pins["Q"]))
                for bit in pins["Q"]:
                    self.own[bit] = index
                    self.mask[bit] = 1 << index
                reads = [b for pin, bits in pins.items() if pin not in ("Q", "CLK") for b in bits]
                self.ends.append((index, reads))

    def _arcs(self, cell: dict) -> list[tuple[int, list[int]]]:
        """List the outputs of a cell with the inputs that each depends on."""
        pins, ways = cell["connections"], cell["port_directions"]
        given = {pin: bits for pin, bits in pins.items() if ways[pin] == "input"}
        kind = cell["type"]
        everything = [bit for bits in given.values() for bit in bits]
        out = pins["Y"]
        if kind == "$mux" or kind == "$bwmux" or kind in BITWISE:
            arcs = []
            for i, bit in enumerate(out):
                select = pins["S"] if kind == "$mux" else []
                reads = [b[min(i, len(b) - 1)] for pin, b in given.items() if b and pin != "S"]
                if kind == "$bwmux":
                    select = [pins["S"][i]]
                arcs.append((bit, [*reads, *select]))
            return arcs
        if kind == "$pmux":
            width = len(out)
            return [(bit, [pins["A"][i], *pins["B"][i::width], *pins["S"]])
                    for i, bit in enumerate(out)]  # fmt: skip
        if kind == "$bmux":
            width = len(out)
            return [(bit, [*pins["A"][i::width], *pins["S"]]) for i, bit in enumerate(out)]
        return [(bit, everything) for bit in out]

    def _spread(self) -> None:
        arcs: list[tuple[int, list[int]]] = []
        fixed: dict[int, int] = {}
        for cell in self.cells.values():
            if "Y" in cell["connections"] and cell["port_directions"].get("Y") == "output":
                arcs += self._arcs(cell)
        for cell, index in self.loads:
            pins = cell["connections"]
            ports = int(cell["parameters"]["RD_PORTS"], 2)
            width, address = len(pins["RD_DATA"]) // ports, len(pins["RD_ADDR"]) // ports
            for port in range(ports):
                reads = pins["RD_ADDR"][port * address : (port + 1) * address]
                for bit in pins["RD_DATA"][port * width : (port + 1) * width]:
                    arcs.append((bit, [*reads]))
                    fixed[bit] = 1 << index
        writer = {bit: (reads, fixed.get(bit, 0)) for bit, reads in arcs}
        # Loops of words that are none of bits exist: those bits are visited until they stay.
        done = self.mask
        again = True
        while again:
            again = False
            seen: set[int] = set()
            for start in writer:
                stack = [start]
                while stack:
                    bit = stack[-1]
                    reads, mask = writer[bit]
                    if bit not in seen:
                        seen.add(bit)
                        ahead = [r for r in reads if r in writer and r not in seen]
                        if ahead:
                            stack += ahead
                            continue
                    stack.pop()
                    for read in reads:
                        mask |= done.get(read, 0) if isinstance(read, int) else 0
                    if mask != done.get(bit, 0):
                        again = again or bit in done
                        done[bit] = mask

    def crossings(self) -> list[Link]:
        """List the paths from a register to one of another clock."""
        by_clock: dict[str, int] = {}
        for i, register in enumerate(self.registers):
            by_clock[register.clock] = by_clock.get(register.clock, 0) | 1 << i
        found: dict[tuple[int, int], bool] = {}
        for index, reads in self.ends:
            own = by_clock[self.registers[index].clock]
            for bit in reads:
                foreign = self.mask.get(bit, 0) & ~own if isinstance(bit, int) else 0
                while foreign:
                    low = foreign & -foreign
                    source = low.bit_length() - 1
                    foreign ^= low
                    direct = self.own.get(bit) == source
                    found[source, index] = found.get((source, index), True) and direct
        return sorted(
            (
                Link(self.registers[s], self.registers[d], direct)
                for (s, d), direct in found.items()
            ),
            key=lambda p: (p.source.path, p.sink.path),
        )
