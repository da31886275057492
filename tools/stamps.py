# SPDX-License-Identifier: Apache-2.0
"""Keep what a pure function of its inputs gave, by a hash of all of them.

A stamp says that a check passed with exactly these inputs. Its name is the hash of their contents,
so that checkouts may share a directory of stamps, and stamps of several branches lie side by side.
Only what passed leaves one. `IPNUMA_FRESH=1` makes every check run again.

The slowest of them are also written down in the repository, by `--record` of their tools: see
Recorded.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import random
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Stamps are small; what was not used for the longest time goes first.
MOST_STAMPS = 4096
INCLUDE = re.compile(r'^\s*`include\s+"([^"]+)"', re.MULTILINE)
DIRECTIVE = re.compile(r"`include\b")
# Of so many checks that are recorded a run that draws repeats one.
SHARE = 4


def cache(root: Path = ROOT) -> Path:
    """Return where what is built once by its content lies, for all checkouts of this user.

    As crates/verilate and tools/uml-kernel have it.
    """
    if own := os.environ.get("IPNUMA_CACHE"):
        return Path(own).absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "ipnuma"
    home = os.environ.get("HOME")
    return Path(home) / ".cache" / "ipnuma" if home else root / ".build"


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


class Recorded:
    """Checks that passed before their commit: name and hash of inputs, `verif/recorded/KIND.toml`.

    A fresh clone has no stamps, and these checks take minutes each. Where IPNUMA_DRAW=1, as ./test
    sets it, one whose inputs are those recorded is left out, but for every fourth, which the seed
    draws: so what is recorded wrongly is found. Everywhere else, and in the long form, all run.
    """

    def __init__(self, kind: str, root: Path = ROOT) -> None:
        """Read what is recorded of a kind of check."""
        self.kind = kind
        self.path = root / "verif" / "recorded" / f"{kind}.toml"
        self.known = tomllib.loads(self.path.read_text()) if self.path.is_file() else {}

    def left_out(self, keys: Mapping[str, str | None]) -> set[str]:
        """Choose what needs not run of these checks, each with the hash of its inputs."""
        draws = os.environ.get("IPNUMA_DRAW") and not os.environ.get("IPNUMA_LONG")
        if not draws or fresh():
            return set()
        same = sorted(name for name, key in keys.items() if key and self.known.get(name) == key)
        seed = os.environ.get("IPNUMA_SEED", "1")
        again = random.Random(f"{self.kind} {seed}").sample(same, -(-len(same) // SHARE))
        return set(same) - set(again)

    def write(self, keys: Mapping[str, str | None], all_names: Iterable[str]) -> None:
        """Record checks that passed; of others only names that are still there stay."""
        kept = {name: key for name, key in self.known.items() if name in set(all_names)}
        kept |= {name: key for name, key in keys.items() if key}
        lines = [
            "# SPDX-License-Identifier: Apache-2.0",
            f"# What passed before its commit, by tools/{self.kind} --record, and the hash of its",
            "# inputs: Recorded in tools/stamps.py.",
            *(f'"{name}" = "{key}"' for name, key in sorted(kept.items())),
        ]
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("\n".join(lines) + "\n")
