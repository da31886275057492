# SPDX-License-Identifier: Apache-2.0
"""Netlists for tools/timing and tools/crossings: a register harness round a block, then Yosys.

A block is one module of rtl/ or several side by side. Interface ports are taken apart into signals,
so that any module can be a top. Then every input bit is driven by a register and every output bit
is sampled by one, each in the clock that tools/timing.toml gives its port: all paths are from
register to register, and the device needs a handful of pins.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import filelist
import stamps

ROOT = filelist.ROOT
OUT = ROOT / ".build" / "timing"
HARNESS = "harness"
# As in tools/synth.py: the default script is slow on wide exclusive-ors.
ABC_FAST = "+&sweep;&syn3;&syn3;&if,-W,300"
# What a module's ports are called when an interface is taken apart, by who drives them.
STREAM = (
    ("tdata", "64"),
    ("tkeep", "8"),
    ("tvalid", "1"),
    ("tlast", "1"),
    ("tuser", "USER"),
)
HEADER = re.compile(r"^module\s+(?P<name>\w+)\b(?P<head>.*?)\)\s*;", re.M | re.S)
STREAM_PORT = re.compile(r"axis_if\s*\.\s*(?P<role>src|snk|mon)\s+(?P<name>\w+)")


class FlowError(Exception):
    """A block can't be built; the text says which and why."""


@dataclass(frozen=True)
class Block:
    """What is measured: modules with their parameters and clocks."""

    name: str
    modules: list[str]
    files: list[str]
    clocks: dict[str, float]  # name of the port -> wanted MHz; ports are in the first unless said
    domains: dict[str, str] = field(default_factory=dict)  # clock -> regular expression of ports
    parameters: dict[str, object] = field(default_factory=dict)
    user: dict[str, int] = field(default_factory=dict)  # bits of tuser of a stream, default 1
    abc: str = "default"
    # What is measured of it: levels, route, crossings; `-long` behind it keeps it for --long.
    measure: list[str] = field(default_factory=list)
    # Outputs that mix clocks by contract, for simulators only.
    mixed: list[str] = field(default_factory=list)

    def sources(self) -> filelist.FileList:
        """Name its sources."""
        return filelist.merge(self.files)

    def digest(self, *what: str) -> stamps.Digest:
        """Hash everything that can change what comes out of the flow."""
        merged = self.sources()
        names = stamps.design_files(merged.sources, merged.incdirs)
        shape = [self.modules, self.files, self.clocks, self.domains, self.user, self.abc]
        return (
            stamps.Digest("timing", stamps.python_tools(), json.dumps(shape), *what)
            .mapping(self.parameters)
            .files([*names, "tools/timing_flow.py"])
        )


def blocks() -> dict[str, Block]:
    """Read the blocks of tools/timing.toml."""
    table = tomllib.loads((ROOT / "tools" / "timing.toml").read_text())
    fields = Block.__dataclass_fields__
    return {
        name: Block(
            name,
            entry.get("modules", [name]),
            **{k: v for k, v in entry.items() if k in fields and k != "modules"},
        )
        for name, entry in table.items()
    }


def wrapper(block: Block, module: str, text: str) -> str:
    """Write a module with the ports of another, streams taken apart."""
    found = HEADER.search(text)
    if not found or found["name"] != module:
        raise FlowError(f"{block.name}: no module {module} in its file")
    head, wires, links = found["head"], [], []
    for port in STREAM_PORT.finditer(head):
        name, role = port["name"], port["role"]
        user = block.user.get(name, 1)
        wires.append(f"  axis_if #(.DataW(64), .UserW({user})) {name} ();")
        links.append(f".{name}({name})")
        flat = []
        for signal, width in STREAM:
            bits = str(user) if width == "USER" else width
            way = "output" if role == "src" else "input"
            flat.append(f"{way} logic [{bits}-1:0] {name}_{signal}")
            pair = (f"{name}_{signal}", f"{name}.{signal}")
            wires.append("  assign {} = {};".format(*(pair if role == "src" else pair[::-1])))
        way = "output" if role == "snk" else "input"
        flat.append(f"{way} logic {name}_tready")
        pair = (f"{name}_tready", f"{name}.tready")
        wires.append("  assign {} = {};".format(*(pair if role == "snk" else pair[::-1])))
        head = head.replace(port[0], ",\n  ".join(flat), 1)
    given = "".join(f".{name}({name}), " for name in parameters(found["head"]))
    connect = ", ".join([".*", *links])
    values = f"#({given.rstrip(', ')}) " if given else ""
    body = [f"module flat_{module}{head});", *wires, f"  {module} {values}dut ({connect});"]
    return "\n".join([*body, "endmodule", ""])


def parameters(head: str) -> list[str]:
    """Name the parameters in a module's header, without the local ones."""
    bare = re.sub(r"//[^\n]*", "", head)
    return re.findall(r"\bparameter\s+[\w:\s\[\]\-$()]*?(\w+)\s*=", bare)


def read_ports(text: str) -> list[tuple[str, int, str]]:
    """Read Yosys' list of ports: direction, bits, name."""
    ports = []
    for line in text.splitlines():
        match = re.match(r"\s*(input|output)\s+(?:\[(\d+):(\d+)\]\s+)?(\S+)", line)
        if match:
            bits = int(match[2]) - int(match[3]) + 1 if match[2] else 1
            ports.append((match[1], bits, match[4].lstrip("\\").rstrip(",;")))
    return ports


def harness(block: Block, ports: dict[str, list[tuple[str, int, str]]]) -> str:
    """Write registers round the modules: a shift register in front, one behind, for each clock."""
    clocks = list(block.clocks)
    chains = "".join(f", input si{i}, output so{i}" for i in range(len(clocks)))
    lines = [f"module {HARNESS}({', '.join('input ' + c for c in clocks)}{chains});"]
    feed: dict[str, list[tuple[str, int]]] = {c: [] for c in clocks}
    fold: dict[str, list[tuple[str, int]]] = {c: [] for c in clocks}
    duts = []
    for module, listed in ports.items():
        links = []
        for direction, bits, name in listed:
            if name in clocks:
                links.append(f".{name}({name})")
                continue
            matching = (c for c, pattern in block.domains.items() if re.search(pattern, name))
            clock = next(matching, clocks[0])
            wire = f"{module}_{name}" if len(ports) > 1 else name
            lines.append(f"  wire [{bits - 1}:0] h_{wire};")
            links.append(f".{name}(h_{wire})")
            (feed if direction == "input" else fold)[clock].append((wire, bits))
        duts.append(f"  flat_{module} dut_{module}({', '.join(links)});")
    for i, clock in enumerate(clocks):
        length = max(sum(bits for _, bits in feed[clock]), 1)
        at = f"always @(posedge {clock})"
        lines.append(f"  reg [{length}:0] fi{i}; {at} fi{i} <= {{fi{i}, si{i}}};")
        offset = 0
        for wire, bits in feed[clock]:
            lines.append(f"  (* keep *) reg [{bits - 1}:0] pin_{wire};")
            lines.append(f"  {at} pin_{wire} <= fi{i}[{offset + bits - 1}:{offset}];")
            lines.append(f"  assign h_{wire} = pin_{wire};")
            offset += bits
        last = f"fi{i}[{length}]"
        if fold[clock]:
            bits = sum(bits for _, bits in fold[clock])
            joined = ", ".join(f"pout_{wire}" for wire, _ in fold[clock])
            for wire, width in fold[clock]:
                lines.append(f"  reg [{width - 1}:0] pout_{wire}; {at} pout_{wire} <= h_{wire};")
            lines.append(f"  reg [{bits - 1}:0] fo{i};")
            lines.append(f"  {at} fo{i} <= {{fo{i}, {last}}} ^ {{{joined}}};")
            lines.append(f"  reg x{i}; {at} x{i} <= fo{i}[{bits - 1}];")
            last = f"x{i}"
        lines.append(f"  assign so{i} = {last};")
    return "\n".join([*lines, *duts, "endmodule", ""])


# What Yosys does after the harness, by what the netlist is for.
MAPPING = {
    # Words and memories as they were written: names and hierarchy survive.
    "rtl": [
        f"hierarchy -top {HARNESS}",
        "proc",
        "flatten",
        "opt_expr",
        "opt_clean",
        "memory_collect",
        "opt_clean",
    ],
    "lut6": [f"synth_xilinx -family xcup -abc9 -flatten -noiopad -noclkbuf -top {HARNESS}"],
    "ecp5": [f"synth_ecp5 -top {HARNESS}"],
}


def worker(job: dict) -> None:
    """Write the netlist of a block in this process; its output is the log."""
    from pyosys import libyosys

    block = Block(**job["block"])
    design = libyosys.Design()
    started = time.monotonic()

    def run(command: str) -> None:
        libyosys.run_pass(command, design)
        print(f"timing: {time.monotonic() - started:.0f} s: {command[:60]}", flush=True)

    run("scratchpad -set abc9.verify 0")
    if block.abc == "fast":
        run(f'scratchpad -set abc9.script "{ABC_FAST}"')
    folder = Path(job["folder"])
    merged = block.sources()
    by_module = {Path(source).stem: source for source in merged.sources}
    wrappers = folder / "flat.sv"
    texts = []
    for module in block.modules:
        if module not in by_module:
            raise FlowError(f"{block.name}: no file {module}.sv in {', '.join(block.files)}")
        texts.append(wrapper(block, module, (ROOT / by_module[module]).read_text()))
    wrappers.write_text("\n".join(texts))
    tops = " ".join(f"--top flat_{module}" for module in block.modules)
    values = " ".join(f"-G {k}={v}" for k, v in block.parameters.items())
    includes = " ".join(f"-I {d}" for d in merged.incdirs)
    run(f"read_slang {tops} {values} {includes} {' '.join(merged.sources)} {wrappers}")
    ports = {}
    for module in block.modules:
        listing = folder / f"{module}.ports"
        run(f"tee -q -o {listing} portlist flat_{module}")
        ports[module] = read_ports(listing.read_text())
        if not ports[module]:
            raise FlowError(f"{block.name}: {module} has no ports")
        missing = block.clocks.keys() - {name for *_, name in ports[module]}
        if missing:
            raise FlowError(f"{block.name}: {module} has no port {', '.join(sorted(missing))}")
    shell = folder / "harness.v"
    shell.write_text(harness(block, ports))
    run(f"read_verilog {shell}")
    for command in MAPPING[job["mapping"]]:
        run(command)
    run(f"write_json {job['netlist']}")


def netlist(block: Block, mapping: str) -> Path:
    """Map a block, unless that was done last; return its netlist in Yosys' JSON."""
    folder = OUT / block.name / mapping
    folder.mkdir(parents=True, exist_ok=True)
    path, made_of = folder / "netlist.json", folder / "made-of"
    key = block.digest(mapping).hexdigest()
    if path.is_file() and made_of.is_file() and made_of.read_text() == key and not stamps.fresh():
        return path
    made_of.unlink(missing_ok=True)
    log = folder / "yosys.log"
    fields = {name: getattr(block, name) for name in block.__dataclass_fields__}
    job = {"block": fields, "mapping": mapping, "folder": str(folder), "netlist": str(path)}
    with log.open("w") as stream:
        run = subprocess.run(
            [sys.executable, __file__, json.dumps(job)],
            cwd=ROOT,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    if run.returncode != 0:
        text = log.read_text(errors="replace").splitlines()
        complaints = [line for line in text if re.search("error", line, re.I)] or text[-20:]
        raise FlowError("\n".join([*complaints[:20], f"{block.name}: failed, see {log}"]))
    if block.digest(mapping).hexdigest() == key:  # else a source was edited meanwhile
        made_of.write_text(key)
    return path


if __name__ == "__main__":
    worker(json.loads(sys.argv[1]))
