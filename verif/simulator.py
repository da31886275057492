# SPDX-License-Identifier: Apache-2.0
"""Build the simulator of a top: Verilator, the C++ compiler and cocotb's main program.

A simulator lies in `cocotb/NAME-HASH/` of the cache (stamps.cache); the hash is of everything that
can change it, so that builds of all branches and checkouts live side by side and none is replaced.
Only the program, what it was built from and the log are kept. What was used least recently goes
when all together exceed a limit.

The generated C++ is compiled as two files, what runs often and what runs once: most of a small
model's build is reading the same headers again for each of its files. Verilator's run-time library
is compiled once for all, and so are its headers (`runtime-HASH`). clang++ takes a third less time
for it than g++; IPNUMA_CXX names another compiler.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import cocotb_tools.config

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import stamps  # noqa: E402 (needs the path above)

BUILD_ROOT = stamps.cache() / "cocotb"
MOST_BYTES = 4 << 30
COMPLETE = "complete.json"
COCOTB_MAIN = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"

# -fno-reorder comes after any -O: an -O3 behind it would switch reordering on again, which makes
# the verilation of XOR-heavy logic (CRC) some thirty times slower.
VERILATOR_ARGS = (
    *("--cc", "--vpi", "--prefix", "Vtop", "--timescale", "1ps/1ps"),
    *("-Wall", "--assert", "-O3", "-fno-reorder"),
    *("--x-assign", "unique", "--x-initial", "unique"),
    # Benches are wrappers: what a wrapper leaves open or does not read is its business.
    *("-Wno-PINCONNECTEMPTY", "-Wno-UNUSEDSIGNAL", "-Wno-UNDRIVEN", "-Wno-DECLFILENAME"),
)
WAVES_ARGS = ("--trace-fst", "--trace-structs")
SLOW_OPTIMIZATION = "-O0"
RUNTIME_OPTIMIZATION = "-O2"
# For which Verilator's headers are compiled in advance.
OPTIMIZATIONS = ("-O0", "-O1")
HEADERS = "headers.hpp"
RUNTIME_HEADERS = ("verilated.h", "verilated_dpi.h", "verilated_vpi.h")


@functools.cache
def tool_environment() -> dict[str, str]:
    """Return the variables that tools/env.sh sets."""
    out = subprocess.run(
        ["bash", "-c", '. "$0" && env -0', str(ROOT / "tools" / "env.sh")],
        check=True,
        capture_output=True,
    ).stdout.decode()
    pairs = (entry.split("=", 1) for entry in out.split("\0") if "=" in entry)
    names = ("PATH", "VERILATOR_ROOT", "MAKEFLAGS", "OBJCACHE", "VIRTUAL_ENV")
    return {k: v for k, v in pairs if k in names or k.startswith("CCACHE_")}


@dataclass(frozen=True)
class Recipe:
    """What a simulator is built from."""

    top: str
    sources: Sequence[str]
    incdirs: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    # Signals below the top that a bench reads or writes: module, then names.
    probes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    build_args: Sequence[str] = ()
    optimization: str = "-O1"
    waves: bool = False

    def config(self) -> str:
        """Return Verilator's configuration: what cocotb can see below the top's own signals."""
        lines = ["`verilator_config"]
        for module, names in sorted(self.probes.items()):
            lines += [f'public_flat_rw -module "{module}" -var "{n}"' for n in sorted(names)]
        return "\n".join(lines) + "\n"

    def verilator_args(self) -> list[str]:
        """Return Verilator's arguments but for sources and directories."""
        return [
            *VERILATOR_ARGS,
            *("--public-depth", "1"),
            *self.build_args,
            *(WAVES_ARGS if self.waves else ()),
            *("--top-module", self.top),
            *(f"-I{directory}" for directory in self.incdirs),
            *(f"-G{name}={value}" for name, value in sorted(self.parameters.items())),
        ]

    def digest(self, root: Path = ROOT) -> str:
        """Hash everything that can change the simulator that comes out."""
        return (
            stamps.Digest("simulator", *self.verilator_args(), self.config())
            .text(self.optimization, SLOW_OPTIMIZATION, RUNTIME_OPTIMIZATION)
            .text(stamps.python_tools(root), compiler(), *python_library())
            .files(stamps.design_files(self.sources, self.incdirs, root), root)
            .text(*self.sources, "--", *self.incdirs)
            .text(COCOTB_MAIN.read_text())
            .text(program(root))
            .hexdigest()
        )

    def name(self) -> str:
        """Return a name that a reader recognises."""
        values = (re.sub(r"\W+", "", f"{k}{v}") for k, v in sorted(self.parameters.items()))
        return "-".join([self.top, *values])[:80] + ("-waves" if self.waves else "")


# What of the repository takes part in a build.
BUILDERS = ("verif/simulator.py",)


def program(root: Path = ROOT) -> str:
    """Identify the program that builds."""
    return LOADED if root == ROOT else stamps.Digest().files(BUILDERS, root).hexdigest()


# Of the program that runs, not of what was edited since.
LOADED = stamps.Digest().files(BUILDERS).hexdigest()


@functools.cache
def compiler() -> str:
    """Identify the C++ compiler: its version and what the environment hands to it."""
    names = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CXXFLAGS", "LDFLAGS")
    values = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    return "\n".join([stamps.version(compiler_name()), *values])


@functools.cache
def compiler_name() -> str:
    """Name the C++ compiler: the one that is asked for, clang++, or g++."""
    return os.environ.get("IPNUMA_CXX") or ("clang++" if shutil.which("clang++") else "g++")


@functools.cache
def python_library() -> list[str]:
    """Return the options that link Python into a simulator, or none if it has no such library.

    Most of a bench's time is Python's, and the static library is faster by a sixth than the shared
    one, which cocotb loads in any case: what the program exports comes before it.
    """
    config = sysconfig.get_config_vars()
    name = f"libpython{config['LDVERSION']}.a"
    if not (archive := Path(config["LIBPL"], name)).is_file():
        return []
    libraries = shlex.split(f"{config['LOCALMODLIBS']} {config['LIBS']} {config['SYSLIBS']}")
    whole = ["-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive"]
    return ["-no-pie", "-Wl,--export-dynamic", *whole, *libraries]


@contextmanager
def made(name: str, make: Callable[[], None]) -> Iterator[Path]:
    """Let `make` fill a directory of BUILD_ROOT, in one process at a time, unless it is there.

    While the context lasts, nobody removes it.
    """
    locks = BUILD_ROOT / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    complete = BUILD_ROOT / name / COMPLETE
    with (locks / name).open("a") as lock:
        while True:
            # To ask for the shared lock may let another process have the exclusive one in between;
            # hence the second look.
            fcntl.flock(lock, fcntl.LOCK_SH)
            if complete.is_file():
                break
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.is_file():
                make()
        complete.touch()
        yield complete.parent


def build(recipe: Recipe, digest: str, directory: Path) -> None:
    """Build a simulator into a directory, whose lock the caller holds."""
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "cpp").mkdir(parents=True)
    os.environ.update(tool_environment())
    log = directory / "build.log"
    try:
        with log.open("w") as stream:
            _verilate(recipe, directory, stream)
            _compile(recipe, directory, stream)
    except subprocess.CalledProcessError as error:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:])
        raise RuntimeError(f"building {recipe.top} failed ({log}):\n{tail}") from error
    if recipe.digest() != digest:
        raise RuntimeError(f"{recipe.top}: a source changed while it was read; run the test again")
    shutil.rmtree(directory / "cpp")
    size = sum(p.stat().st_size for p in directory.iterdir())
    (directory / COMPLETE).write_text(json.dumps({"bytes": size, "digest": digest}))
    remove_oldest()


def _run(command: Sequence[str], cwd: Path, stream) -> None:
    print(shlex.join(command), file=stream, flush=True)
    subprocess.run(command, cwd=cwd, check=True, stdout=stream, stderr=subprocess.STDOUT)


def _verilate(recipe: Recipe, directory: Path, stream) -> None:
    """Write the C++. Names of sources are relative, so that every checkout builds the same."""
    config = directory / "probes.vlt"
    config.write_text(recipe.config())
    verilator = Path(os.environ["VERILATOR_ROOT"]) / "bin" / "verilator"
    command = [str(verilator), *recipe.verilator_args(), "-Mdir", str(directory / "cpp")]
    _run([*command, str(config), *recipe.sources], ROOT, stream)


def _classes(text: str) -> dict[str, list[str]]:
    """Read the lists of C++ files and the switches that Verilator writes for make."""
    joined = text.replace("\\\n", " ")
    return {
        name: values.split()
        for name, values in re.findall(r"^(VM_\w+) \+?= *(.*)$", joined, re.MULTILINE)
    }


def _defines(classes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the options that every C++ file of a model and its library needs."""
    switches = ("COVERAGE", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")
    include = Path(os.environ["VERILATOR_ROOT"]) / "include"
    return [
        *("-std=gnu++20", f"-I{include}", f"-I{include / 'vltstd'}", "-DVERILATOR=1", "-DVM_SC=0"),
        *(f"-DVM_{name}={''.join(classes.get(f'VM_{name}', '0'))}" for name in switches),
    ]


def _compiler_command() -> list[str]:
    cache, name = os.environ.get("OBJCACHE", ""), compiler_name()
    # Verilator writes expressions as deep as the design has them.
    deep = ["-fbracket-depth=4096"] if "clang" in Path(name).name else []
    return [*([cache] if cache else []), name, *deep]


def _compile(recipe: Recipe, directory: Path, stream) -> None:
    """Compile the C++ and link it with cocotb's main program and the run-time library."""
    cpp = directory / "cpp"
    classes = _classes((cpp / "Vtop_classes.mk").read_text())
    flags = _defines(classes)
    halves = {
        "often": (recipe.optimization, ["VM_CLASSES_FAST", "VM_SUPPORT_FAST"], []),
        "once": (SLOW_OPTIMIZATION, ["VM_CLASSES_SLOW", "VM_SUPPORT_SLOW"], [COCOTB_MAIN]),
    }
    # What clang leaves to a library; FST compression.
    libraries = ["-latomic", *(["-lz", "-llz4"] if classes.get("VM_TRACE_FST") == ["1"] else [])]
    libs_dir = cocotb_tools.config.libs_dir
    with _runtime(classes, flags, stream) as runtime:
        for half, (optimization, lists, more) in halves.items():
            files = [f"{name}.cpp" for key in lists for name in classes.get(key, [])]
            text = "".join(f'#include "{name}"\n' for name in [*files, *more])
            (cpp / f"{half}.cpp").write_text(text)
            command = [*_compiler_command(), optimization, *flags, "-I."]
            if optimization in OPTIMIZATIONS:
                command += ["-include", str(runtime / optimization.lstrip("-") / HEADERS)]
            _run([*command, "-c", f"{half}.cpp", "-o", f"{half}.o"], cpp, stream)
        link = [compiler_name(), *(f"{half}.o" for half in halves), str(runtime / "lib.a")]
        link += ["-o", str(directory / recipe.top), f"-L{libs_dir}", "-lcocotbvpi_verilator"]
        link += python_library()
        _run([*link, "-pthread", *libraries], cpp, stream)


@contextmanager
def _runtime(classes: Mapping[str, Sequence[str]], flags: Sequence[str], stream) -> Iterator[Path]:
    """Give the directory of Verilator's run-time library with these switches, made if need be.

    Beside it are the headers that every model includes, precompiled for each optimization: to read
    them takes longer than to compile the rest of a small model.
    """
    names = sorted([*classes.get("VM_GLOBAL_FAST", []), *classes.get("VM_GLOBAL_SLOW", [])])
    options = [o for o in flags if not o.startswith("-I")]
    include = Path(os.environ["VERILATOR_ROOT"]) / "include"
    digest = (
        stamps.Digest("runtime", RUNTIME_OPTIMIZATION, *names, "--", *options)
        # clang reads again what a precompiled header was made of, which goes with its checkout.
        .text(stamps.python_tools(), compiler(), str(include.resolve()))
        .text(program())
        .hexdigest()
    )
    name = f"runtime-{digest[:16]}"
    directory = BUILD_ROOT / name

    def compile_all() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for source in names:
            command = [*_compiler_command(), RUNTIME_OPTIMIZATION, *flags, "-c"]
            _run([*command, str(include / f"{source}.cpp")], directory, stream)
        _run(["ar", "rcs", "lib.a", *(f"{n}.o" for n in names)], directory, stream)
        for source in names:
            (directory / f"{source}.o").unlink()
        headers = "".join(f'#include "{name}"\n' for name in RUNTIME_HEADERS)
        for optimization in OPTIMIZATIONS:
            folder = directory / optimization.lstrip("-")
            folder.mkdir()
            (folder / HEADERS).write_text(headers)
            command = [*_compiler_command(), optimization, *flags, "-x", "c++-header", HEADERS]
            if "clang" in compiler_name():  # headers that are installed again are the same ones
                command += ["-Xclang", "-fno-pch-timestamp"]
            _run([*command, "-o", f"{HEADERS}.gch"], folder, stream)
        size = sum(p.stat().st_size for p in directory.rglob("*"))
        (directory / COMPLETE).write_text(json.dumps({"bytes": size, "digest": digest}))

    with made(name, compile_all):
        yield directory


def remove_oldest(limit: int | None = None) -> list[str]:
    """Remove the simulators used least recently until the rest is within the limit.

    One that somebody uses is locked and stays. Returns the names of what was removed.
    """
    limit = MOST_BYTES if limit is None else limit
    found = []
    for complete in BUILD_ROOT.glob(f"*/{COMPLETE}"):
        try:
            size = json.loads(complete.read_text())["bytes"]
            found.append((complete.stat().st_mtime_ns, size, complete.parent))
        except (OSError, ValueError):
            continue  # another process removes it
    total = sum(size for _, size, _ in found)
    removed = []
    for _, size, directory in sorted(found):
        if total <= limit:
            break
        with (BUILD_ROOT / "locks" / directory.name).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            (directory / COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(directory, ignore_errors=True)
        total -= size
        removed.append(directory.name)
    return removed


@contextmanager
def ready(recipe: Recipe) -> Iterator[tuple[Path, str]]:
    """Build a simulator if it is not there; it stays while the context lasts.

    Yields:
        Its directory and its digest.

    """
    digest = recipe.digest()
    name = f"{recipe.name()}-{digest[:16]}"
    with made(name, lambda: build(recipe, digest, BUILD_ROOT / name)) as directory:
        yield directory, digest
