#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merge file lists without duplicates, keeping the order.

The convention: `rtl/<area>/<area>.f` lists the sources of an area, one path a line, relative to
the repository root, packages before the modules that import them. `-f other.f` includes another
list in that place; `+incdir+dir` adds a directory for `include`. `#` and `//` begin comments.
A list names everything its modules need (other areas by `-f`), so that one list is enough to
build anything in it. Tools find what a top needs themselves, so a list may hold more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class FileListError(Exception):
    """A list, or a file that a list names, is missing or malformed."""


@dataclass
class FileList:
    """Sources and include directories, relative to the repository root."""

    sources: list[str] = field(default_factory=list)
    incdirs: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)


def _relative(entry: str, where: str) -> str:
    path = Path(entry)
    if path.is_absolute():
        raise FileListError(f"{where}: {entry} is absolute; paths are relative to the repository")
    return path.as_posix()


def _read(name: str, out: FileList, where: str, root: Path) -> None:
    if name in out.lists:
        return
    out.lists.append(name)
    path = root / name
    if not path.is_file():
        raise FileListError(f"{where}: file list {name} does not exist")
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        line = raw.split("//")[0].split("#")[0].strip()
        if not line:
            continue
        here = f"{name}:{number}"
        if line.startswith("-f"):
            _read(_relative(line[2:].strip(), here), out, here, root)
        elif line.startswith("+incdir+"):
            directory = _relative(line.removeprefix("+incdir+"), here)
            if directory not in out.incdirs:
                out.incdirs.append(directory)
        elif line.startswith(("-", "+")):
            raise FileListError(f"{here}: option {line} is not part of the convention")
        else:
            source = _relative(line, here)
            if not (root / source).is_file():
                raise FileListError(f"{here}: {source} does not exist")
            if source not in out.sources:
                out.sources.append(source)


def merge(entries: Iterable[str], root: Path = ROOT) -> FileList:
    """Merge lists (`*.f`) and single sources, first occurrence first."""
    out = FileList()
    for entry in entries:
        if entry.endswith(".f"):
            _read(_relative(entry, "argument"), out, "argument", root)
        else:
            source = _relative(entry, "argument")
            if not (root / source).is_file():
                raise FileListError(f"{source} does not exist")
            if source not in out.sources:
                out.sources.append(source)
    return out


def main() -> int:
    """Print the merged list, one path a line."""
    parser = argparse.ArgumentParser(description="Merge file lists without duplicates.")
    parser.add_argument("entry", nargs="+", help="file list (*.f) or source file")
    args = parser.parse_args()
    try:
        merged = merge(args.entry)
    except FileListError as error:
        print(f"filelist: {error}", file=sys.stderr)
        return 1
    for directory in merged.incdirs:
        print(f"+incdir+{directory}")
    for source in merged.sources:
        print(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
