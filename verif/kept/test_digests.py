# SPDX-License-Identifier: Apache-2.0
"""What is kept by content hash: every input counts, and nothing else does."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import filelist  # noqa: E402 (needs the path above)
import formal  # noqa: E402
import simulator  # noqa: E402
import stamps  # noqa: E402
import synth  # noqa: E402

TRIES = 12
PROOFS = sorted(formal.PROOFS.glob("*.sby"))
PROOFS += [p for p in sorted(formal.PROOFS.glob("prove_*.py")) if formal.declared(p)]
TOPS = tomllib.loads((ROOT / "tools" / "tops.toml").read_text())
# For the real lists see below: they have neither of the two ways to include.
INCLUDES = {
    "rtl/a/a.f": "+incdir+rtl/include\nrtl/a/a.sv\n",
    "rtl/a/a.sv": '`include "defines.svh"\n  `include "beside.svh"\nmodule a;\nendmodule\n',
    "rtl/a/beside.svh": '`include "deeper.svh"\n',
    "rtl/a/deeper.svh": "// nothing\n",
    "rtl/include/defines.svh": "`define X 1\n",
}


@pytest.fixture
def rand() -> random.Random:
    seed = int(os.environ.get("IPNUMA_SEED") or random.SystemRandom().randrange(2**31))
    print(f"IPNUMA_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with what every digest needs."""
    copy(["tools/requirements.lock", *simulator.BUILDERS, "tools/synth.py"], tmp_path)
    copy(["tools/formal.py", "tools/filelist.py", "tools/stamps.py"], tmp_path)
    for name, text in INCLUDES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # Its cache would hide that the lock file changes; a new process reads it anew.
    monkeypatch.setattr(stamps, "python_tools", stamps.python_tools.__wrapped__)
    return tmp_path


def copy(names: Iterable[str | Path], root: Path) -> None:
    for name in names:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)


def spoil(path: Path, rand: random.Random) -> Callable[[], None]:
    """Change one byte; return what undoes it."""
    before = path.read_bytes()
    at = rand.randrange(len(before))
    path.write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])
    return lambda: path.write_bytes(before) and None


def check(
    root: Path, digest: Callable[[], object], inputs: Iterable[str], rand: random.Random
) -> None:
    """Change inputs, one at a time, then what is no input."""
    inputs = sorted(inputs)
    first = digest()
    assert first is not None and digest() == first

    def changed() -> bool:
        try:
            return digest() != first
        except (formal.ProofError, filelist.FileListError, FileNotFoundError):
            return True  # the byte was in the name of a file

    for name in rand.sample(inputs, min(TRIES, len(inputs))):
        undo = spoil(root / name, rand)
        assert changed(), f"{name} does not count"
        undo()
        assert digest() == first
    for name in ("rtl/unrelated.sv", "verif/unrelated.py", "README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("nothing that anybody reads\n")
    assert digest() == first


def recipe(names: list[str], root: Path, **changes: object) -> simulator.Recipe:
    merged = filelist.merge(names, root)
    given = {"top": "a", "sources": merged.sources, "incdirs": merged.incdirs}
    return simulator.Recipe(**{**given, **changes})


@pytest.mark.parametrize("name", ["rtl/nic/nic.f", "rtl/fibnic/fibnic.f", "rtl/a/a.f"])
def test_a_simulator_is_of_its_inputs(name: str, root: Path, rand: random.Random) -> None:
    """Sources, what they include, the locked tools, and the program that builds."""
    if name not in INCLUDES:
        merged = filelist.merge([name])
        copy([*merged.lists, *merged.sources], root)
    merged = filelist.merge([name], root)
    inputs = {*merged.sources, "tools/requirements.lock", *simulator.BUILDERS}
    if name in INCLUDES:
        inputs |= INCLUDES.keys() - {name}
    check(root, lambda: recipe([name], root).digest(root), inputs, rand)


def test_a_simulator_is_of_its_settings(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every setting of a build gives another one."""
    base: dict[str, object] = {
        "parameters": {"Width": "8", "Depth": "1"},
        "probes": {"fifo": ["head_q"]},
        "build_args": ["-Wno-UNUSEDPARAM"],
    }
    changes = [
        {},
        {"top": "b"},
        {"parameters": {"Width": "81", "Depth": ""}},
        {"parameters": {"Width": "1", "Depth": "8"}},
        {"parameters": {"Width": "8"}},
        {"probes": {}},
        {"probes": {"fifo": ["tail_q"]}},
        {"build_args": []},
        {"optimization": "-O3"},
        {"waves": True},
        {"incdirs": []},
    ]
    found = [recipe(["rtl/a/a.f"], root, **{**base, **c}).digest(root) for c in changes]
    other_order = {**base, "parameters": {"Depth": "1", "Width": "8"}}
    assert recipe(["rtl/a/a.f"], root, **other_order).digest(root) == found[0]
    monkeypatch.setattr(simulator, "compiler", lambda: "another compiler")
    found.append(recipe(["rtl/a/a.f"], root, **base).digest(root))
    assert len(set(found)) == len(found)


def test_a_longer_list_is_another_simulator(root: Path) -> None:
    """A source that joins a list, or changes places, counts, whatever it says."""
    before = recipe(["rtl/a/a.f"], root).digest(root)
    (root / "rtl/a/b.sv").write_text("")
    assert recipe(["rtl/a/a.f"], root).digest(root) == before
    (root / "rtl/a/a.f").write_text(INCLUDES["rtl/a/a.f"] + "rtl/a/b.sv\n")
    longer = recipe(["rtl/a/a.f"], root).digest(root)
    (root / "rtl/a/a.f").write_text("rtl/a/b.sv\n" + INCLUDES["rtl/a/a.f"])
    assert len({before, longer, recipe(["rtl/a/a.f"], root).digest(root)}) == 3


@pytest.mark.parametrize("proof", PROOFS, ids=lambda p: p.stem)
def test_a_proof_is_of_its_inputs(proof: Path, root: Path, rand: random.Random) -> None:
    """Each proof says what it reads, and all of it counts."""
    name = proof.relative_to(ROOT).as_posix()
    if proof.suffix == ".sby":
        inputs = [name, *formal.sby_files(proof)]
        text = proof.read_text()
        script = text[text.index("[script]") :]
        for word in script.split("[files]")[0].split():
            if word.endswith((".sv", ".svh", ".v")):
                assert any(i.endswith(f"/{word}") for i in inputs), f"{word} is not in [files]"
    else:
        inputs = [p.relative_to(ROOT).as_posix() for p in formal.modules(proof)]
        for declared in formal.declared(proof) or []:
            if declared.endswith(".sby"):
                inputs += [declared, *formal.sby_files(ROOT / declared)]
            else:
                merged = filelist.merge([declared])
                inputs += [*merged.lists, *merged.sources]
    copy(inputs, root)
    every = {*inputs, "tools/requirements.lock", "tools/formal.py"}
    check(root, lambda: formal.digest(root / name, root), every, rand)


def test_a_proof_without_a_list_is_not_kept(root: Path) -> None:
    """What a program reads is not guessed."""
    program = root / "prove_nothing.py"
    program.write_text("print('proved')\n")
    assert formal.digest(program, root) is None
    program.write_text("INPUTS = ['rtl/a/a.f']\n")
    first = formal.digest(program, root)
    (root / "rtl/a/deeper.svh").write_text("// another\n")
    assert first is not None and formal.digest(program, root) != first
    # Those of another proof count by its name.
    (root / "rtl/a/other.sby").write_text("[files]\nrtl/a/a.sv\n")
    program.write_text("INPUTS = ['rtl/a/other.sby']\n")
    first = formal.digest(program, root)
    (root / "rtl/a/a.sv").write_text("// another\n")
    assert first is not None and formal.digest(program, root) != first


def test_a_proof_whose_file_is_gone_is_an_error(root: Path) -> None:
    """A list that names what is not there must not be taken for a shorter one."""
    proof = root / "gone.sby"
    proof.write_text("[files]\nrtl/a/a.sv\nmutant: rtl/a/gone.sv\n")
    with pytest.raises(formal.ProofError, match="gone.sv"):
        formal.digest(proof, root)


@pytest.mark.parametrize("top", TOPS)
def test_a_synthesis_is_of_its_inputs(top: str, root: Path, rand: random.Random) -> None:
    """Sources, parameters and tools count; where the result is written to does not."""
    merged = filelist.merge(TOPS[top]["files"])
    job = {"top": top, "parameters": {"N": 1}, "stat": "here"}
    job |= {"sources": merged.sources, "incdirs": merged.incdirs}
    copy(merged.sources, root)
    inputs = {*merged.sources, "tools/requirements.lock", "tools/synth.py"}
    check(root, lambda: synth.digest(job, root), inputs, rand)
    first = synth.digest(job, root)
    assert synth.digest({**job, "stat": "there"}, root) == first
    assert synth.digest({**job, "parameters": {"N": 2}}, root) != first
    assert synth.digest({**job, "incdirs": ["rtl/include"]}, root) != first
    assert synth.digest({**job, "sources": merged.sources[::-1]}, root) != first


def test_a_synthesis_is_of_what_it_includes(root: Path, rand: random.Random) -> None:
    """Included files are in no list."""
    merged = filelist.merge(["rtl/a/a.f"], root)
    job = {"top": "a", "parameters": {}, "stat": ""}
    job |= {"sources": merged.sources, "incdirs": merged.incdirs}
    check(root, lambda: synth.digest(job, root), INCLUDES.keys() - {"rtl/a/a.f"}, rand)


def test_stamps_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept comes back; a torn file is nothing; the oldest go first."""
    kept = stamps.Stamps("test", tmp_path)
    assert kept.load("a") is None
    kept.save("a", {"n": 1})
    assert kept.load("a") == {"n": 1}
    (kept.directory / "a.json").write_text('{"n": ')
    assert kept.load("a") is None
    monkeypatch.setattr(stamps, "MOST_STAMPS", 3)
    for number, name in enumerate("abcde"):
        kept.save(name, {})
        os.utime(kept.directory / f"{name}.json", ns=(number, number))
    kept.save("f", {})
    assert sorted(p.stem for p in kept.directory.iterdir()) == ["d", "e", "f"]
    kept.remove("f")
    kept.remove("f")
    assert kept.load("f") is None
