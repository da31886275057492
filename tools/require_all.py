# SPDX-License-Identifier: Apache-2.0
"""For the conftest of a folder of tests: with IPNUMA_REQUIRE_ALL=1 a test that is skipped fails.

Tests that take minutes name IPNUMA_LONG as their reason; those are left out by choice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn a skipped test into a failed one."""
    outcome = yield
    report = outcome.get_result()
    required = os.environ.get("IPNUMA_REQUIRE_ALL", "0") not in ("", "0")
    if not (required and report.skipped) or hasattr(report, "wasxfail"):
        return
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if "IPNUMA_LONG" not in why:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: {why}; IPNUMA_REQUIRE_ALL forbids it"
