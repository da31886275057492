# SPDX-License-Identifier: Apache-2.0
"""Writes down what a simulation's Python reads of the repository, for the stamp of its run.

It is loaded inside the simulator before cocotb and any bench. Each line of the record is a kind and
a value: a file that was opened, a top-level module that was imported, a variable of the environment
that code of the repository read, or a process that was started, whose inputs nobody knows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "IPNUMA_RECORD"


class Recorder:
    """Appends to the record, each line once."""

    def __init__(self, record: Path, root: Path) -> None:
        self._out = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._root = f"{root}{os.sep}"
        self._seen: set[tuple[str, str]] = set()

    def note(self, kind: str, value: str) -> None:
        """Write a line down if it is new."""
        if (kind, value) not in self._seen:
            self._seen.add((kind, value))
            os.write(self._out, f"{kind} {value}\n".encode())

    def inside(self, path: str) -> str | None:
        """Return a path relative to the repository, if it is one of its files."""
        if not path.startswith(self._root):
            return None
        inner = path.removeprefix(self._root)
        return None if inner.startswith((".venv/", ".build/", ".git/")) else inner

    def audit(self, event: str, args: tuple) -> None:
        """Look at what the interpreter is about to do."""
        if event == "open":
            self._opened(*args)
        elif event == "import":
            self.note("import", args[0].partition(".")[0])
        elif event in ("os.listdir", "os.scandir") and self._by_repository():
            directory = os.path.realpath(args[0] if isinstance(args[0], str) else ".")
            if (inner := self.inside(directory)) is not None:
                self.note("list", inner)
        elif event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork"):
            self.note("process", str(args[0] if args else event).replace("\n", " "))

    def _opened(self, path: object, mode: str | None, flags: int) -> None:
        if not isinstance(path, str | bytes | os.PathLike) or flags & (os.O_WRONLY | os.O_RDWR):
            return
        # No pathlib here: it would be slow, and the hook sees what the hook does.
        name = os.path.realpath(os.fsdecode(path))
        inner = self.inside(name)
        if inner is None:
            return
        if inner.endswith(".pyc"):  # of Python or of pytest: verif/x/__pycache__/name.TAG.pyc
            directory, _, compiled = inner.rpartition("/__pycache__/")
            inner = f"{directory}/{compiled.partition('.')[0]}.py"
        self.note("file", inner)

    def _by_repository(self) -> bool:
        """Return whether code of the repository is at work here, and not a library for itself."""
        frame = sys._getframe(2)
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith("<frozen importlib") or name.endswith("/linecache.py"):
                return False
            if not name.startswith("<") and not name.startswith(os.path.dirname(os.__file__)):  # noqa: PTH120
                return name != __file__ and self.inside(name) is not None
            frame = frame.f_back
        return False

    def watch_environment(self) -> None:
        """Note the variables that code of the repository reads."""
        plain = type(os.environ).__getitem__

        def getitem(environ: os._Environ, key: str) -> str:
            if self._by_repository():
                self.note("variable", str(key))
            return plain(environ, key)

        type(os.environ).__getitem__ = getitem


def start() -> None:
    """Begin to record, then let cocotb start as it does without this."""
    import pygpi.entry

    recorder = Recorder(Path(os.environ[VARIABLE]), Path(__file__).resolve().parent.parent)
    recorder.note("file", "verif/recorder.py")
    sys.addaudithook(recorder.audit)
    recorder.watch_environment()
    del os.environ["PYGPI_USERS"]
    pygpi.entry.load_entry()
