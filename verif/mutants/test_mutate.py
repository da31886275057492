# SPDX-License-Identifier: Apache-2.0
"""tools/mutate: where a crate's mutants are put and looked for, and how long an outcome is kept."""

from __future__ import annotations

from pathlib import Path

import mutate
import pytest
import rust_mutants
from mutate import Files, Kept, Outcome

SOURCE = "fn a() -> bool {\n    let t = 1;\n    t == 1\n}\n"


@pytest.mark.parametrize(
    ("start", "end", "replacement", "result"),
    [
        ((3, 7), (3, 9), "!=", SOURCE.replace("==", "!=")),
        ((2, 5), (3, 11), "true", "fn a() -> bool {\n    true\n}\n"),
        ((1, 1), (1, 1), "", SOURCE),
    ],
)
def test_a_mutant_of_a_crate_is_put_where_its_span_says(start, end, replacement, result) -> None:
    """Lines and columns count from 1; the end is behind the last letter."""
    mutant = rust_mutants.Mutant("", "wire", "", start, end, replacement)
    assert mutant.apply(SOURCE) == result


@pytest.mark.parametrize("crate", rust_mutants.CRATES)
def test_unit_tests_come_first_and_all_are_of_the_workspaces_profile(crate: str) -> None:
    """Every stage names packages that there are."""
    stages = rust_mutants.stages(crate)
    assert [stage.name for stage in stages[:2]] == ["unit", "own"]
    for stage in stages:
        assert {"--release", "--locked", "--all-features"} <= set(stage.test())
        # Another profile for one of them would have everything built twice.
        for command in (*stage.builds(), stage.test()):
            assert set(rust_mutants.PROFILE) <= set(command)
        for package in stage.packages:
            manifest = mutate.ROOT / "crates" / package / "Cargo.toml"
            assert f'name = "{package}"' in manifest.read_text()


def test_the_draw_of_a_seed_changes_little_with_the_sources() -> None:
    """Lines that move change nothing; what is new comes in between, what is gone leaves a place."""

    def places(first: int, gone: int, more: int) -> list[rust_mutants.Mutant]:
        return [
            rust_mutants.Mutant(
                f"crates/shm/src/a.rs:{line}:9: replace + with - in f{line // 10 - first}",
                "shm",
                "crates/shm/src/a.rs",
                (line, 9),
                (line, 10),
                "-",
            )
            for line in range(10 * (first + gone), 10 * (first + 60 + more))
        ]

    def drawn(seed: int, *which: int) -> list[str]:
        return [
            rust_mutants.PLACE.sub(":", mutant.name)
            for mutant in rust_mutants.draw(places(*which), seed)
        ]

    before = drawn(1, 0, 0, 0)
    assert drawn(1, 7, 0, 0) == before != drawn(2, 0, 0, 0)
    assert drawn(1, 0, 1, 0) == [name for name in before if not name.endswith(" f0")]
    assert [name for name in drawn(1, 0, 0, 1) if not name.endswith(" f60")] == before
    # Of one name there are ten, which do not come one behind the other.
    assert any(a != b for a, b in zip(before[:10], before[1:10], strict=False))


def found(**tests: tuple[int | None, str]) -> tuple[str, str]:
    """Look for a mutant of shm with tests that end as given; `builds` stands for their builds."""

    def run(command: list[str], _: float) -> tuple[int | None, str]:
        kind = "builds" if "--no-run" in command else "unit" if "--lib" in command else "tests"
        return tests.get(kind, (0, ""))

    mutant = rust_mutants.Mutant("", "shm", "", (1, 1), (1, 1), "")
    return rust_mutants.Tests(run).find(mutant)


def test_what_cargo_says_of_a_mutant() -> None:
    """A mutant that does not build is no mutant; one that hangs is found."""
    said = "test a::b ... ok\ntest a::c ... FAILED\n"
    assert found(unit=(101, said)) == ("killed", "unit: a::c")
    assert found(tests=(101, "killed by a signal")) == ("killed", "own: ended early")
    assert found(unit=(None, "")) == ("killed", "unit (time)")
    assert found(builds=(101, "")) == ("unviable", "unit")
    assert found() == ("survived", "")


def test_tests_that_fail_without_a_mutant_find_none() -> None:
    """They would find everything."""
    tests = rust_mutants.Tests(lambda *_: (101, "test x::y ... FAILED\n"))
    with pytest.raises(SystemExit, match=r"wire: fails without a mutant: x::y"):
        tests.prove("wire")


def test_what_a_bench_found_is_kept_until_that_bench_changes(tmp_path: Path, monkeypatch) -> None:
    """A survivor is tried again when anything is another."""
    monkeypatch.setattr(mutate, "TREE", mutate.ROOT)
    test = "lib/test_lib.py::test_lib[small]"
    benches = [mutate.Bench(test, contains={"rtl/lib/sync_ff.sv", "verif/lib/tb_lib.sv"})]
    killed = Outcome("rtl/a.sv:1: x", "killed", test, 1.0)
    left = Outcome("rtl/a.sv:2: y", "survived", "", 1.0)
    slow = Outcome("rtl/a.sv:3: z", "killed", f"{test} (time)", 1.0)
    proved = Outcome("rtl/a.sv:4: z", "killed", "proof lib_sync_fifo", 1.0)

    def kept(*changed: str) -> Kept:
        files = Files(*mutate.BENCH_FILES)
        for name in changed:
            assert name in files.hashes
            files.hashes[name] = "another"
        return Kept("rtl", mutate.bench_state(files, True, benches), tmp_path)

    before = kept()
    for outcome in (killed, left, slow, proved):
        before.keep(outcome)
    found = {killed.mutant, left.mutant, proved.mutant}
    assert set(kept().known) == found
    for other in ("verif/eth/test_eth.py", "rtl/eth/gmii_rx.sv", "rtl/locked.toml"):
        assert set(kept(other).known) == {killed.mutant}
    for own in ("verif/lib/test_lib.py", "verif/lib/tb_lib.sv", "rtl/lib/sync_ff.sv"):
        assert kept(own).known == {}
    for common in ("verif/harness.py", "tools/rtl_switch.py", "verif/toe/toe_bench.py"):
        assert kept(common).known == {}


def test_a_mutant_that_was_left_behind_is_built_over(tmp_path: Path, monkeypatch) -> None:
    """Whoever is killed leaves a mutant in the copy: what replaces it is newer than its build."""
    monkeypatch.setattr(mutate, "TREE", tmp_path / "tree")
    mutate.copy_tree()
    left = mutate.TREE / "crates/shm/src/lib.rs"
    before = left.stat().st_mtime_ns
    left.write_text("a mutant")
    mutated = left.stat().st_mtime_ns
    mutate.copy_tree()
    assert left.read_bytes() == (mutate.ROOT / "crates/shm/src/lib.rs").read_bytes()
    assert left.stat().st_mtime_ns >= mutated >= before


def test_equivalent_mutants_are_named_with_a_reason_and_their_line(monkeypatch) -> None:
    """What is no mutant of today's sources is an entry to be taken out."""
    monkeypatch.setattr(mutate, "TREE", mutate.ROOT)
    listed = mutate.Equivalents()
    assert all(listed.reasons.values())
    sources = {mutant.partition(":")[0] for mutant, _ in listed.reasons}
    rtl = (name for name in sources if name.startswith("rtl/"))
    sites = [m for name in rtl for m in mutate.rtl_mutants.sites(name, mutate.text_of(name))]
    listed.check(map(str, sites), "rtl/")
    # Those of crates are checked where cargo-mutants lists them; here their lines are looked for.
    for mutant, line in listed.reasons:
        source = mutant.partition(":")[0]
        lines = [" ".join(text.split()) for text in mutate.text_of(source).splitlines()]
        assert line in lines, f"{source} has no line {line!r}"
