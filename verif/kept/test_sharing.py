# SPDX-License-Identifier: Apache-2.0
"""Every test is in one share, and the shares are about equally long."""

from __future__ import annotations

import os
import random
import tomllib

import pytest
import sharing
from harness import ROOT

COSTS = tomllib.loads((ROOT / "verif" / "costs.toml").read_text())


@pytest.mark.parametrize("shares", [1, 2, 3, 6, 100])
def test_every_test_is_in_one_share(shares: int) -> None:
    """Whatever the costs are, and in whatever order the tests were found."""
    seed = int(os.environ.get("IPNUMA_SEED") or random.SystemRandom().randrange(2**31))
    print(f"IPNUMA_SEED={seed}")
    rand = random.Random(seed)
    names = [f"a/test_{n}.py::test[{n}]" for n in range(50)]
    costs = {name: rand.expovariate(0.1) for name in names[:40]}
    found = sharing.divide(names, costs, shares)
    assert sorted(name for share in found for name in share) == sorted(names)
    assert found == sharing.divide(rand.sample(names, len(names)), costs, shares)
    loads = [sum(sharing.cost(name, costs) for name in share) for share in found]
    assert max(loads) - min(loads) <= max(sharing.cost(name, costs) for name in names)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "-1/2", "1/2/3", "a/b", "1/0"])
def test_wrong_shares_are_refused(text: str) -> None:
    """One sentence, instead of a share without tests that passes."""
    with pytest.raises(ValueError):
        sharing.parse(text)
    assert sharing.parse("2/3") == (2, 3)


def test_the_table_names_tests_that_exist() -> None:
    """A test that was renamed would count as unknown."""
    for name in COSTS:
        path, _, function = name.partition("::")
        assert f"def {function.partition('[')[0]}(" in (ROOT / "verif" / path).read_text(), name
