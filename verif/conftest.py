# SPDX-License-Identifier: Apache-2.0
"""Makes `harness` importable from every bench, and repeats a failed run's seed last."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))

from require_all import pytest_runtest_makereport  # noqa: F401 (a hook)
