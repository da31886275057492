# SPDX-License-Identifier: Apache-2.0
"""Keep what a pure function of its inputs gave, by a hash of all of them.

A stamp says that a check passed with exactly these inputs. Its name is the hash of their contents,
so that checkouts may share a directory of stamps, and stamps of several branches lie side by side.
Only what passed leaves one. `IPNUMA_FRESH=1` makes every check run again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Stamps are small; what was not used for the longest time goes first.
MOST_STAMPS = 4096
INCLUDE = re.compile(r'^\s*`include\s+"([^"]+)"', re.MULTILINE)
DIRECTIVE = re.compile(r"`include\b")


def fresh() -> bool:
    """Return whether everything is to run again."""
    return os.environ.get("IPNUMA_FRESH", "0") not in ("", "0")


class Digest:
    """A hash of texts and files; each item is delimited, so that no two lists look alike."""

    def __init__(self, *texts: str) -> None:
        self._hasher = hashlib.sha256()
        self.text(*texts)

    def _item(self, kind: bytes, content: bytes) -> None:
        self._hasher.update(b"%s%d:" % (kind, len(content)))
        self._hasher.update(content)

    def text(self, *texts: str) -> Digest:
        """Add texts."""
        for text in texts:
            self._item(b"t", text.encode())
        return self

    def mapping(self, values: Mapping[str, object]) -> Digest:
        """Add names with their values, in any order."""
        return self.text(json.dumps({k: str(v) for k, v in values.items()}, sort_keys=True))

    def files(self, names: Iterable[str | Path], root: Path = ROOT) -> Digest:
        """Add files by their names, relative to the root, and contents."""
        for name in names:
            path = root / name
            shown = path.relative_to(root) if path.is_relative_to(root) else path
            self._item(b"f", shown.as_posix().encode())
            self._item(b"c", path.read_bytes())
        return self

    def hexdigest(self) -> str:
        """Return the hash of all that was added."""
        return self._hasher.hexdigest()


def design_files(sources: Iterable[str], incdirs: Iterable[str], root: Path = ROOT) -> list[str]:
    """Name every file that a design of these sources can read, the included ones too.

    Every file in an include directory counts, and what lies beside a source that includes it.
    """
    found = list(dict.fromkeys(sources))
    for directory in incdirs:
        inside = sorted(p for p in (root / directory).rglob("*") if p.is_file())
        found += [p.relative_to(root).as_posix() for p in inside]
    found = list(dict.fromkeys(found))
    for name in found:  # grows while it is walked: included files include others
        text = (root / name).read_text(errors="replace")
        if DIRECTIVE.search(text):
            for included in INCLUDE.findall(text):
                for base in (Path(name).parent, Path()):
                    path = (base / included).as_posix()
                    if (root / path).is_file() and path not in found:
                        found.append(path)
    return found


@functools.cache
def python_tools(root: Path = ROOT) -> str:
    """Identify the Python tools: the locked packages and the interpreter."""
    lock = (root / "tools" / "requirements.lock").read_bytes()
    return f"{hashlib.sha256(lock).hexdigest()} {platform.python_version()} {platform.machine()}"


@functools.cache
def version(tool: str) -> str:
    """Return what a tool says of its version."""
    run = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True)
    return run.stdout.strip()


class Stamps:
    """The stamps of one kind of check, in `.build/stamps/KIND`."""

    def __init__(self, kind: str, root: Path = ROOT) -> None:
        self.directory = root / ".build" / "stamps" / kind

    def load(self, key: str) -> dict | None:
        """Return what was kept under a key, if anything was."""
        path = self.directory / f"{key}.json"
        try:
            kept = json.loads(path.read_text())
            os.utime(path)
        except (OSError, ValueError):
            return None
        return kept

    def save(self, key: str, content: dict) -> None:
        """Keep something under a key. Others see all of it or nothing."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.directory, delete=False) as stream:
            json.dump(content, stream, indent=1, sort_keys=True)
        Path(stream.name).replace(self.directory / f"{key}.json")
        self._prune()

    def remove(self, key: str) -> None:
        """Forget what was kept under a key."""
        (self.directory / f"{key}.json").unlink(missing_ok=True)

    def _prune(self) -> None:
        """Remove the oldest stamps; another process may be doing the same."""
        aged = []
        for path in self.directory.glob("*.json"):
            try:
                aged.append((path.stat().st_mtime_ns, path))
            except FileNotFoundError:
                continue
        for _, path in sorted(aged)[: max(0, len(aged) - MOST_STAMPS)]:
            path.unlink(missing_ok=True)
