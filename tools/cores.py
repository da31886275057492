# SPDX-License-Identifier: Apache-2.0
"""Take a block out of the project: its sources and no others, a core file, constraints, a page.

A block is a module of rtl/. What it needs is read from the sources, so that nobody keeps a list:
all modules, interfaces and packages that it uses, and theirs. The folder that is written is whole:
`NAME.f` (a file list), `NAME.core` (FuseSoC), the sources, the constraints of the crossings among
them, and README.md (ports, parameters, latency, size, clocks reached), all from the headers and the
locked numbers.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import filelist

ROOT = filelist.ROOT
VENDOR = "ipnuma"
VERSION = "0.1.0"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
# A package, an interface as a port, an instance.
USE = r"\b{0}\s*(::|\.\s*\w+\s+\w|#\s*\(|\s\w+\s*\()"
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
HEADER = re.compile(r"^module\s+(\w+)\b(?P<head>.*?)\)\s*;", re.M | re.S)
PORT = re.compile(r"^\s*(?P<way>input|output|inout)\s+(?P<kind>.*?)(?P<name>\w+)\s*,?\s*$")
STREAM = re.compile(r"^\s*(?P<kind>\w+_if\s*\.\s*\w+)\s+(?P<name>\w+)\s*,?\s*$")
PARAMETER = re.compile(
    r"^\s*(?:parameter)\s+(?P<kind>.*?)\s*(?P<name>\w+)\s*=\s*(?P<value>.*?),?\s*$"
)


class CoreError(Exception):
    """A block can't be taken out; the text says why."""


@dataclass(frozen=True)
class Port:
    """A port or a parameter of a module, as its header says."""

    name: str
    kind: str
    value: str
    text: str


def sources() -> dict[str, str]:
    """Map every module, package and interface to its file; there is one a file."""
    found = {}
    for path in sorted((ROOT / "rtl").glob("*/*.sv")):
        found[path.stem] = path.relative_to(ROOT).as_posix()
    return found


def bare(text: str) -> str:
    """Take comments, strings and what synthesis does not see out of a source."""
    return re.sub(r'"[^"\n]*"', '""', COMMENT.sub("", text))


def closure(block: str) -> list[str]:
    """List the files that a block needs, each behind those that it names itself."""
    known = sources()
    if block not in known:
        raise CoreError(f"there is no module {block} in rtl/; a block is called as its file is")
    order: list[str] = []
    state: dict[str, bool] = {}

    def visit(name: str) -> None:
        if name in state:
            return
        state[name] = False
        text = bare((ROOT / known[name]).read_text())
        for other in sorted(set(WORD.findall(text)) & known.keys() - {name}):
            if re.search(USE.format(other), text):
                visit(other)
        order.append(known[name])

    visit(block)
    # Packages first: a package is named by modules in their headers already.
    packages = [source for source in order if is_package(source)]
    return packages + [source for source in order if source not in packages]


def is_package(source: str) -> bool:
    """Say whether a file holds a package."""
    return re.search(r"^package\s", (ROOT / source).read_text(), re.M) is not None


def fields(text: str) -> dict[str, str]:
    """Read the fields of a header: Latency, Clock, Handshake, Drops, Source, and the rest."""
    found: dict[str, str] = {"": ""}
    key = ""
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        line = line.removeprefix("//").strip()
        if line.startswith("SPDX"):
            continue
        match = re.match(r"(Latency|Clock|Handshake|Drops|Source)\s*:\s*(.*)", line)
        if match:
            key, line = match[1], match[2]
            found[key] = ""
        found[key] += (
            "\n" if not line else (" " if found[key] and found[key][-1] != "\n" else "") + line
        )
    return {key: value.strip() for key, value in found.items()}


def ports(text: str) -> tuple[list[Port], list[Port]]:
    """Read the parameters and ports of a module with the comments above them."""
    match = HEADER.search(text)
    if not match:
        raise CoreError("it has no module")
    told: list[str] = []
    found: tuple[list[Port], list[Port]] = ([], [])
    for line in match["head"].splitlines():
        if line.strip().startswith("///"):
            told.append(line.strip().removeprefix("///").strip())
            continue
        code = line.split("//")[0]
        parameter, port, stream = PARAMETER.match(code), PORT.match(code), STREAM.match(code)
        comment = " ".join(told)
        if parameter:
            kind = " ".join(parameter["kind"].split())
            found[0].append(Port(parameter["name"], kind, parameter["value"], comment))
        elif port:
            kind = " ".join(f"{port['way']} {port['kind']}".split())
            found[1].append(Port(port["name"], kind, "", comment))
        elif stream:
            found[1].append(Port(stream["name"], stream["kind"].replace(" ", ""), "", comment))
        if code.strip():
            told = []
    return found


def measured(block: str) -> list[str]:
    """Say how large a block is and what clocks it reaches, as far as that is locked."""
    lines = []
    areas = tomllib.loads((ROOT / "rtl" / "locked.toml").read_text())
    for top, modules in areas.items():
        if block in modules:
            area = {k: v for k, v in modules[block].items() if k != "instances"}
            number = modules[block].get("instances", 1)
            text = ", ".join(f"{v} {k.upper()}" for k, v in area.items())
            if text:
                lines.append(f"ECP5, {number} in `{top}`, without what is inside it: {text}.")
    clocks = tomllib.loads((ROOT / "rtl" / "timing.toml").read_text()).get(block, {})
    for clock, mhz in clocks.get("route", {}).items():
        lines.append(f"`{clock}` routed on ECP5-5G, speed 8, out of context: {mhz} MHz.")
    for pair, value in clocks.get("levels", {}).items():
        lines.append(f"`{pair}`: {value['levels']} levels of LUT6, {value['ns']} ns of the model.")
    return lines


def page(block: str, files: list[str]) -> str:
    """Write the page of a block."""
    text = (ROOT / sources()[block]).read_text()
    said = fields(text)
    parameters, pins = ports(text)
    lines = [f"# {block}", "", said.pop(""), ""]
    if said:
        lines += ["| | |", "|---|---|"]
        lines += [f"| {key} | {value.replace(chr(10), ' ')} |" for key, value in said.items()]
    if parameters:
        lines += ["", "| parameter | type | default | |", "|---|---|---|---|"]
        for one in parameters:
            lines.append(f"| `{one.name}` | `{one.kind}` | `{one.value}` | {one.text} |")
    lines += ["", "| port | type | |", "|---|---|---|"]
    lines += [f"| `{one.name}` | `{one.kind}` | {one.text} |" for one in pins]
    numbers = measured(block)
    if numbers:
        lines += ["", *[f"- {line}" for line in numbers]]
    lines += ["", f"Files: {', '.join(f'`{Path(name).name}`' for name in files)}.", ""]
    return "\n".join(lines)


def core(block: str, files: list[str], constraints: list[str]) -> str:
    """Write the FuseSoC core of a block."""
    text = (ROOT / sources()[block]).read_text()
    what = fields(text)[""].splitlines()[0].replace('"', "'")
    lines = [
        "CAPI=2:",
        "# SPDX-License-Identifier: Apache-2.0",
        f"name: {VENDOR}:{Path(sources()[block]).parent.name}:{block}:{VERSION}",
        f'description: "{what}"',
        "filesets:",
        "  rtl:",
        "    file_type: systemVerilogSource",
        "    files:",
        *[f"      - rtl/{Path(name).name}" for name in files],
    ]
    if constraints:
        lines += ["  constraints:", "    files:"]
        for name in constraints:
            module = Path(name).stem
            lines += [
                f"      - constraints/{Path(name).name}: {{file_type: user, tags: [{module}]}}"
            ]
    sets = "[rtl, constraints]" if constraints else "[rtl]"
    lines += ["targets:", "  default:", f"    filesets: {sets}", f"    toplevel: {block}", ""]
    return "\n".join(lines)


def export(block: str, target: Path) -> list[str]:
    """Write a block with all that it needs into a folder of its name; return the files' names."""
    files = closure(block)
    folder = target / block
    if folder.exists() and any(folder.iterdir()):
        raise CoreError(f"{folder} is there already: remove it, or name another folder with --to")
    (folder / "rtl").mkdir(parents=True, exist_ok=True)
    constraints = []
    for name in files:
        shutil.copy(ROOT / name, folder / "rtl")
        found = (ROOT / name).parent / "constraints" / f"{Path(name).stem}.xdc"
        if found.is_file():
            (folder / "constraints").mkdir(exist_ok=True)
            shutil.copy(found, folder / "constraints")
            constraints.append(found.name)
    (folder / f"{block}.f").write_text("".join(f"rtl/{Path(name).name}\n" for name in files))
    (folder / f"{block}.core").write_text(core(block, files, constraints))
    (folder / "README.md").write_text(page(block, files))
    shutil.copy(ROOT / "LICENSE", folder)
    return files


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Take blocks of rtl/ out of the project.")
    parser.add_argument("block", nargs="+", help="modules of rtl/")
    parser.add_argument("--to", type=Path, metavar="DIR", help="write each into a folder in DIR")
    parser.add_argument("--page", action="store_true", help="print their pages")
    args = parser.parse_args()
    try:
        for block in args.block:
            files = export(block, args.to) if args.to else closure(block)
            if args.page:
                print(page(block, files))
            elif args.to:
                print(f"cores: {args.to / block}: {len(files)} sources")
            else:
                print("\n".join(files))
    except CoreError as error:
        print(f"cores: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
