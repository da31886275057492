# SPDX-License-Identifier: Apache-2.0
"""Find every path between clocks in the synthesised tops; fail on those that no crossing declares.

Crossings are declared in `crossings.toml` beside the modules that make them (rtl/lib/crossings.toml
says how); from the same tables come the constraints, one file for each module beside it (XDC,
scoped to the module), and one for each top (SDC, with names and numbers). What is not declared is
listed in rtl/crossings_open.toml with its reason.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import netgraph
import stamps
import timing_flow
from netgraph import Link, Register

ROOT = timing_flow.ROOT
STAMPS = stamps.Stamps("crossings")
OPEN = ROOT / "rtl" / "crossings_open.toml"
CONSTRAINTS = ROOT / "rtl" / "constraints"
BOUNDS = ("source", "destination", "none")
TOOLS = ("tools/crossings.py", "tools/netgraph.py")


@dataclass(frozen=True)
class Arc:
    """A declared crossing of a module."""

    module: str
    area: str
    sources: tuple[str, ...]
    sink: str
    bound: str
    gray: bool
    direct: bool
    why: str

    def instance(self, link: Link) -> str | None:
        """Return the instance of the module that makes this path, or None if none does."""
        source, sink = link.source, link.sink
        if self.sources == ("*",):
            found = sink.inside(self.sink) if sink.module == self.module else None
        else:
            found = None
            for name in self.sources:
                if source.module == self.module and found is None:
                    found = source.inside(name)
            if found is not None and self.sink != "*":
                # The second register is of the same instance, or of one inside it.
                path = f"{found}.{self.sink}" if found else self.sink
                found = found if sink.path == path else None
        return found

    def label(self) -> str:
        """Name it."""
        return f"{self.module}: {' '.join(self.sources)} -> {self.sink}"


def declarations() -> list[Arc]:
    """Read all declarations, the more special ones first."""
    arcs = []
    for path in sorted((ROOT / "rtl").glob("*/crossings.toml")):
        for module, entries in tomllib.loads(path.read_text()).items():
            for entry in entries:
                sources = entry["from"]
                sources = (sources,) if isinstance(sources, str) else tuple(sources)
                if entry["bound"] not in BOUNDS:
                    raise SystemExit(f"{path}: {module}: bound is one of {', '.join(BOUNDS)}")
                arc = Arc(
                    module,
                    path.parent.name,
                    sources,
                    entry["to"],
                    entry["bound"],
                    entry.get("gray", False),
                    entry.get("direct", False),
                    entry["why"],
                )
                arcs.append(arc)
    return sorted(arcs, key=lambda arc: "*" in arc.sources)


@dataclass(frozen=True)
class Found:
    """A path between clocks in a block."""

    block: str
    link: Link

    def key(self) -> tuple[str, str, str]:
        """Name what is open: the module and register it comes from, and where it ends."""
        source, sink = self.link.source, self.link.sink
        return (f"{source.module}.{source.name}", sink.clock, self.block)


def links(name: str, block: timing_flow.Block) -> list[Link]:
    """Find the paths between clocks of a block, or take what was found the last time."""
    key = block.digest("crossings").files(TOOLS).hexdigest()
    kept = None if stamps.fresh() else STAMPS.load(key)
    if kept is None:
        graph = netgraph.Graph(timing_flow.netlist(block, "rtl"))
        kept = {"links": [link.record() for link in graph.crossings()]}
        if block.digest("crossings").files(TOOLS).hexdigest() == key:
            STAMPS.save(key, kept)
    found = [Link.of(record) for record in kept["links"]]
    return [x for x in found if x.sink.path not in {f"pout_{port}" for port in block.mixed}]


def judge(arcs: list[Arc], found: list[Found]) -> tuple[dict[Arc, list[Found]], list[Found], list]:
    """Sort paths by the arc that declares them; return those, the rest, and broken promises."""
    declared: dict[Arc, list[Found]] = {arc: [] for arc in arcs}
    rest, broken = [], []
    for one in found:
        arc = next((arc for arc in arcs if arc.instance(one.link) is not None), None)
        if arc is None:
            rest.append(one)
            continue
        declared[arc].append(one)
        if arc.direct and not one.link.direct:
            broken.append(f"{one.block}: logic in front of a synchroniser: {one.link}")
        if arc.sources == ("*",) and one.link.source.bits > 1 and one.link.sink.bits > 1:
            broken.append(f"{one.block}: a word into a synchroniser of bits: {one.link}")
    return declared, rest, broken


def compare(rest: list[Found], blocks: set[str]) -> list[str]:
    """Hold what is not declared against the list of what is known to be open."""
    listed = tomllib.loads(OPEN.read_text()) if OPEN.is_file() else {}
    known: dict[tuple[str, str, str], bool] = {}
    for register, entry in ((r, e) for r, es in listed.items() for e in es):
        for block in entry["tops"]:
            known[register, entry["to"], block] = False
    complaints: list[str] = []
    unknown: dict[tuple[str, str, str], list[Found]] = {}
    for one in rest:
        if one.key() in known:
            known[one.key()] = True
        else:
            unknown.setdefault(one.key(), []).append(one)
    for (register, clock, block), ones in unknown.items():
        complaints.append(
            f"{block}: {register} ({ones[0].link.source.clock}) reaches {len(ones)} registers of"
            f" {clock}, such as {ones[0].link.sink.path}, and no crossing declares it"
        )
    for (register, clock, block), seen in known.items():
        if not seen and block in blocks:
            complaints.append(
                f"{block}: {register} no longer reaches {clock}: take it out of"
                f" {OPEN.relative_to(ROOT)}"
            )
    return complaints


def cells(name: str, first: bool = False) -> str:
    """Write a register of a module as Vivado names its cells, relative to the module."""
    if first:  # of several stages
        return f"[get_cells -quiet -hier -regexp {{{name.replace('.', '/')}_reg\\[0\\].*}}]"
    return f"[get_cells -quiet -hier -regexp {{{name.replace('.', '/')}_reg.*}}]"


def xdc(module: str, arcs: list[Arc]) -> str:
    """Write the constraints of a module for Vivado, for `read_xdc -ref MODULE -unmanaged`."""
    area = arcs[0].area
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# Generated by tools/crossings --write from rtl/{area}/crossings.toml; do not edit.",
        f"# Constraints of {module}: read_xdc -unmanaged -ref {module} {module}.xdc",
    ]
    for arc in arcs:
        # What is direct ends in the first stage of a synchroniser.
        sink = cells(arc.sink, arc.direct) if arc.sink != "*" else ""
        lines += ["", f"# {arc.why}."]
        if arc.bound == "none":
            pins = "-filter {IS_CLEAR || IS_PRESET}"
            lines.append(f"set_false_path -to [get_pins -of {sink} {pins}]")
            continue
        if arc.sources == ("*",):
            lines += [
                f"set sink {sink}",
                "set source [all_fanin -flat -startpoints_only"
                " [get_pins -of $sink -filter {REF_PIN_NAME == D}]]",
                "set period [get_property -min PERIOD [get_clocks -of $sink]]",
                "set_max_delay -datapath_only -from $source -to $sink $period",
            ]
            continue
        for name in arc.sources:
            source = cells(name)
            lines.append(f"set source {source}")
            if arc.sink == "*":
                # Everything that it reaches in another clock; the period is that clock's.
                lines += [
                    "foreach clock [get_clocks -quiet -of [all_fanout -flat -endpoints_only"
                    " [get_pins -quiet -of $source -filter {DIRECTION == OUT}]]] {",
                    "  set_max_delay -datapath_only -from $source -to $clock"
                    " [get_property -min PERIOD $clock]",
                    "}",
                ]
                continue
            which = "source" if arc.bound == "source" else "sink"
            lines += [
                f"set sink {sink}",
                f"set period [get_property -min PERIOD [get_clocks -of ${which}]]",
                "set_max_delay -datapath_only -from $source -to $sink $period",
            ]
            if arc.gray:
                lines.append("set_bus_skew -from $source -to $sink $period")
    return "\n".join([*lines, ""])


def sdc_register(register: Register) -> str:
    """Write a register of a top for tools that read SDC."""
    if register.path.startswith("pin_"):
        return f"[get_ports {{{register.path.removeprefix('pin_')}*}}]"
    return f"[get_cells {{{register.path.replace('.', '/')}*}}]"


def sdc(name: str, block: timing_flow.Block, found: dict[Arc, list[Found]]) -> str:
    """Write the constraints of a whole top with names and numbers."""
    periods = {clock: 1000 / mhz for clock, mhz in block.clocks.items()}
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Generated by tools/crossings --write from rtl/*/crossings.toml; do not edit.",
        f"# Clocks and crossings of {name}, nanoseconds, for a flat netlist with / between"
        " instances.",
        "# A bound is on the data alone: leave the clocks' latencies out if the tool can.",
        "",
    ]
    for clock, period in periods.items():
        lines.append(f"create_clock -name {clock} -period {period:.3f} [get_ports {clock}]")
    for arc, ones in found.items():
        made: dict[str, None] = {}
        for one in (one for one in ones if one.block == name):
            source, sink = one.link.source, one.link.sink
            begin, end = sdc_register(source), sdc_register(sink)
            if arc.sink == "*":
                end = f"[get_clocks {sink.clock}]"
            if arc.bound == "none":
                made[f"set_false_path -from {begin} -to {end}"] = None
                continue
            period = periods[source.clock if arc.bound == "source" else sink.clock]
            made[f"set_max_delay {period:.3f} -from {begin} -to {end}"] = None
        if made:
            lines += ["", f"# {arc.label()}: {arc.why}.", *made]
    return "\n".join([*lines, ""])


def generated(arcs: list[Arc], found: dict[Arc, list[Found]], blocks: dict) -> dict[Path, str]:
    """Write all constraint files of the blocks at hand."""
    files = {}
    for module in dict.fromkeys(arc.module for arc in arcs):
        of_module = [arc for arc in arcs if arc.module == module]
        path = ROOT / "rtl" / of_module[0].area / "constraints" / f"{module}.xdc"
        files[path] = xdc(module, of_module)
    for name, block in blocks.items():
        if block.modules == [name] and not any(arc.module == name for arc in arcs):
            files[CONSTRAINTS / f"{name}.sdc"] = sdc(name, block, found)
    return files


def main() -> int:
    """Check the tops asked for; return 0 if every path is declared or known."""
    parser = argparse.ArgumentParser(description="Find paths between clocks that nobody declares.")
    parser.add_argument("top", nargs="*", help="of tools/timing.toml; default: all")
    parser.add_argument("--write", action="store_true", help="write the constraint files")
    parser.add_argument("--show", action="store_true", help="print every path")
    parser.add_argument("--jobs", type=int, default=2, help="tops at a time; default: 2")
    args = parser.parse_args()
    table = {n: b for n, b in timing_flow.blocks().items() if "crossings" in b.measure}
    for top in args.top:
        if top not in table:
            parser.error(f"{top} is not in tools/timing.toml with crossings to check")
    blocks = {n: b for n, b in table.items() if not args.top or n in args.top}
    arcs = declarations()
    with ThreadPoolExecutor(args.jobs) as pool:
        listed = dict(zip(blocks, pool.map(lambda n: links(n, blocks[n]), blocks), strict=True))
    found = [Found(name, link) for name, ones in listed.items() for link in ones]
    declared, rest, complaints = judge(arcs, found)
    for name in blocks:
        of = [one for one in found if one.block == name]
        clocks = sorted({f"{one.link.source.clock} -> {one.link.sink.clock}" for one in of})
        left = sum(one.block == name for one in rest)
        print(f"  {name:<16} {len(of):>5} paths, {left:>4} not declared   {', '.join(clocks)}")
    if args.show:
        for one in found:
            print(f"  {one.block}: {one.link}")
    complaints += compare(rest, set(blocks))
    if not args.top:
        for arc in arcs:
            if not declared[arc]:
                complaints.append(f"no top has the declared crossing {arc.label()}")
    for path, text in generated(arcs, declared, blocks).items():
        if args.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            complaints.append(f"{path.relative_to(ROOT)} is not what tools/crossings --write makes")
    for complaint in complaints:
        print(f"crossings: {complaint}")
    declared_paths = len(found) - len(rest)
    print(f"crossings: {declared_paths} paths declared, {len(rest)} known to be open or refused")
    return 1 if complaints else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except timing_flow.FlowError as error:
        print(error)
        sys.exit(1)
