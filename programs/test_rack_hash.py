# SPDX-License-Identifier: Apache-2.0
"""A run of Linux machines has one hash of all frames and TLPs, whatever machine and day it is.

Each topology runs as it is, and again where much differs that must not matter. Then its hash is
compared with that of an earlier day, in locked_runs.toml; the lock holds for one kernel and one set
of programs of this machine. IPNUMA_LOCK=1 writes it anew, after changes of hardware, drivers, rack
or socket library that are meant to change what is on the cables.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import programs
import rack
from rack import KERNEL, need_kernel

LOCK = Path(__file__).with_name("locked_runs.toml")
PATIENCE = 900.0

pytestmark = pytest.mark.timeout(int(PATIENCE) + 60)

# Debian's packages whose programs run in the guests, or are loaded by those.
PACKAGES = (
    "coreutils", "dash", "iproute2", "kmod", "libc6", "libevent-2.1-7", "libmemcached-tools",
    "libmemcached11", "memcached", "mount", "util-linux",
)  # fmt: skip

# memcached over the kernel's sockets, with loss, and over IP-NUMA, sealed: NICs and switch are RTL.
TOPOLOGIES = {
    "socket": ["--transport", "socket", "--loss", "0.02"],
    "ipnuma": ["--transport", "ipnuma", "--count", "5", *([] if programs.PLAIN else ["--seal"])],
}
# Its guests run programs of Debian only. Where programs of this project run, the pages of the guest
# lie elsewhere with every build, and the NIC's transactions have other addresses.
LOCKED = "socket"


def topology(name: str, executable: Path) -> str:
    """Make a topology; its guests find the command where `executable` is, if they need it."""
    printed = subprocess.run(
        [str(executable), "memcached", "--print-topology", "--place", "rack", "--switch", "fibnic",
         "--rate", "10g", "--length", "16,512", "--library", "free", *TOPOLOGIES[name]],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    if name == LOCKED:
        commands = iter(
            ["sleep 1; memccapable -h server -p 11211", "exec memcached -u root -l 0.0.0.0 -t 1"]
        )
        printed, count = re.subn(
            r'command = """\n.*?\n"""',
            lambda _: f"command = '''\n{next(commands)}\n'''",
            printed,
            flags=re.DOTALL,
        )
        assert count == 2 and "hostfs" not in printed, printed
    return printed


@dataclass
class Way:
    """How a run is started."""

    directory: Path
    executable: Path = field(default_factory=programs.executable)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    before: list[str] = field(default_factory=list)
    cwd: Path | None = None
    seed: int = 1

    def run(self, name: str) -> str:
        """Run a topology; return the hash."""
        file = self.directory / f"{name}.toml"
        # In the guests the command is where it was: the topology is the same text.
        file.write_text(topology(name, programs.executable()))
        line = [*self.before, str(self.executable), "rack", str(file), "--json"]
        line += ["--seed", str(self.seed)]
        log = self.directory / f"{name}.log"
        report = rack.run(line, log, PATIENCE, self.environment, self.cwd)
        assert report["frames"] > 50 and report["tlps"] > 500, report
        return report["run_hash"]


def elsewhere(way: Way) -> None:
    """Start it from another directory, with temporary files in one with a long name."""
    way.cwd = Path("/")
    temporary = way.directory / ("a-long-name-" * 5)
    temporary.mkdir()
    way.environment["TMPDIR"] = str(temporary)


def environment(way: Way) -> None:
    """Give it another user's environment, but not another cache: nothing is built again."""
    way.environment.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    way.environment |= {
        "TZ": "Asia/Tokyo", "LANG": "de_DE.UTF-8", "LC_ALL": "C",
        "HOME": str(way.directory / "no-home"), "USER": "somebody", "EDITOR": "ed",
        "IPNUMA_SPIN_US": "3", "STUFF": "x" * 50_000,
    }  # fmt: skip


def copied(way: Way) -> None:
    """Take copies of command, library, kernel and drivers, with other paths and times."""
    programs_of = way.directory / "copied" / "programs"
    kernel = way.directory / "copied" / "kernel"
    for place, files in (
        (programs_of, [way.executable, way.executable.with_name("libipnuma_socket.so")]),
        (kernel, [KERNEL, *KERNEL.parent.glob("*.ko")]),
    ):
        place.mkdir(parents=True)
        for file in files:
            shutil.copy(file, place / file.name)
    way.executable = programs_of / way.executable.name
    way.environment["IPNUMA_UML_KERNEL"] = str(kernel / KERNEL.name)


def another_day(way: Way) -> None:
    """Show rack and kernel another day, later times of all files and another name of the machine.

    The machine's clock cannot be set, so that what they ask the C library for is changed.
    """
    library = programs.compile_c("other_day.c", "-shared", "-fPIC")
    real = Path(way.environment.get("IPNUMA_UML_KERNEL", KERNEL)).resolve()
    kernel = way.directory / "another-day"
    kernel.mkdir()
    for file in real.parent.glob("*.ko"):
        shutil.copy(file, kernel / file.name)
    script = kernel / "linux"
    script.write_text(f'#!/bin/sh\nLD_PRELOAD="$LD_PRELOAD:{library}" exec {real} "$@"\n')
    script.chmod(0o755)
    way.environment |= {"IPNUMA_UML_KERNEL": str(script), "LD_PRELOAD": str(library)}


def another_machine(way: Way) -> None:
    """Run it with other process numbers and another name of the machine; only root can."""
    inner = 'hostname another-machine; for i in 1 2 3; do true & done; wait; "$@"'
    way.before = [
        programs.tool("unshare"), "--uts", "--pid", "--fork", "--mount-proc",
        "sh", "-c", inner, "sh",
    ]  # fmt: skip


def everything(way: Way) -> None:
    """Change all of that at once."""
    for change in CHANGES:
        change(way)


CHANGES: list[Callable[[Way], None]] = [
    elsewhere, environment, copied, another_day, *([another_machine] if os.geteuid() == 0 else [])
]  # fmt: skip


@pytest.fixture(scope="module")
def kernel() -> None:
    """Skip where there is none."""
    need_kernel()


@pytest.fixture(scope="module", params=TOPOLOGIES)
def first(request: pytest.FixtureRequest, kernel: None, tmp_path_factory) -> tuple[str, str]:
    """Name of a topology, and the hash of its first run."""
    return request.param, Way(tmp_path_factory.mktemp(request.param)).run(request.param)


def test_the_hash_stays(first: tuple[str, str], tmp_path: Path):
    """What differs makes no difference, nor does what else runs."""
    name, expected = first
    way = Way(tmp_path)
    everything(way)
    with programs.busy(os.cpu_count() or 1):
        assert way.run(name) == expected


@pytest.mark.skipif("IPNUMA_LONG" not in os.environ, reason="minutes; IPNUMA_LONG=1 runs it")
@pytest.mark.parametrize("change", CHANGES)
def test_by_one_change(first: tuple[str, str], tmp_path: Path, change: Callable[[Way], None]):
    """The same one by one, to find out which it is."""
    name, expected = first
    way = Way(tmp_path)
    change(way)
    assert way.run(name) == expected


def test_another_seed(first: tuple[str, str], tmp_path: Path):
    """The hash says what happens: with other phases of clocks, and other losses, it is another."""
    name, expected = first
    assert Way(tmp_path, seed=2).run(name) != expected


def machine() -> dict[str, str]:
    """What a lock depends on beside the project's sources: the kernel, and guests' programs."""
    found = subprocess.run(
        [programs.tool("dpkg-query"), "-W", "-f", "${Package} ${Version}\n", *PACKAGES],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = (line.split(" ") for line in found.stdout.splitlines())
    return {"kernel": KERNEL.resolve().parent.name} | dict(lines)


@pytest.mark.parametrize("first", [LOCKED], indirect=True)
def test_another_day(first: tuple[str, str]):
    """It is the hash of an earlier day."""
    name, found = first
    today = datetime.date.today().isoformat()
    locked = tomllib.loads(LOCK.read_text()) if LOCK.exists() else {}
    here = machine()
    if os.environ.get("IPNUMA_LOCK") == "1":
        locked["machine"] = here
        locked[name] = {"hash": found, "day": today}
        LOCK.write_text(written(locked))
        return
    differ = [key for key, value in here.items() if locked.get("machine", {}).get(key) != value]
    if differ:
        pytest.skip(f"{LOCK.name} was made with another {', '.join(differ)}")
    print(f"locked on {locked[name]['day']}, and today is {today}")
    assert found == locked[name]["hash"], (
        f"the run of {name} is not that of {locked[name]['day']}; if that is meant, IPNUMA_LOCK=1"
    )


def written(locked: dict[str, dict[str, str]]) -> str:
    """Write the lock as TOML."""
    out = "# SPDX-License-Identifier: Apache-2.0\n"
    out += "# Hashes of runs of Linux machines; written by test_rack_hash.py with IPNUMA_LOCK=1.\n"
    for table in sorted(locked):
        out += f"\n[{table}]\n"
        out += "".join(f'"{key}" = "{value}"\n' for key, value in locked[table].items())
    return out
