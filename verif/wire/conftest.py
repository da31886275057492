# SPDX-License-Identifier: Apache-2.0
"""Samples of frames and TLPs, made by crates/wire, with the values that a reader must find."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def seed() -> int:
    value = int(os.environ.get("IPNUMA_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"IPNUMA_SEED={value}")
    return value


@pytest.fixture(scope="session")
def sample_dir(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with frames.pcap, tlps.pcap and samples.json."""
    directory = tmp_path_factory.mktemp("samples")
    command = ["cargo", "run", "-q", "-p", "wire-gen", "--"]
    subprocess.run([*command, "--samples", str(directory), str(seed)], cwd=ROOT, check=True)
    return directory


@pytest.fixture(scope="session")
def samples(sample_dir: Path) -> dict[str, Any]:
    """Return lists `frames` and `tlps`; each sample has name, bytes (hex), fields and experts."""
    return json.loads((sample_dir / "samples.json").read_text())
