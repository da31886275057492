# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests of sockets and what is built on them: verdicts as over the kernel.

Debian's package libpython3.11-testsuite has them. IPNUMA_LONG=1 runs all; else the quick ones. With
IPNUMA_BUSY as well, each module runs ROUNDS times over the library (conftest.py).
"""

from __future__ import annotations

import os
import threading
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import programs

PYTHON = "/usr/bin/python3.11"
LONG = "IPNUMA_LONG" in os.environ
QUICK = ["test_socketserver", "test_httplib", "test_ftplib"]
# The longest first, where several run side by side; of four who run them each takes two at first.
ALL = [
    *("test_asyncio", "test_wsgiref", "test_multiprocessing_fork", "test_telnetlib"),
    *("test_ssl", "test_epoll", "test_imaplib", "test_asyncore", "test_socket", "test_logging"),
    *("test_xmlrpc", "test_selectors", "test_poll", *QUICK, "test_poplib", "test_smtplib"),
    *("test_urllib2_localnet", "test_httpservers", "test_select", "test_asynchat"),
]
# It calls itself a user of the network, and stays on this machine.
MORE = {"test_socketserver": ["-u", "network"]}
# All tests of a module together; the slowest takes minutes on a busy machine.
PATIENCE = 1200.0
# Before that, Python itself says where it hangs.
DUMP = PATIENCE - 60
# Their sockets are all of Unix, or pairs.
NO_STREAMS = ("test_poll", "test_select", "test_selectors")
# How many runs over the kernel there may be, for each over the library, to show a verdict as often.
TRIES = 3
UNKNOWN = "no verdict"
# So many rounds of a module run side by side: most of them sleep.
BESIDE = 5
# They bind one name, which the machine has once: only one of the rounds runs them.
ALONE = "test.test_socket.TestLinuxAbstractNamespace"
# Its server decodes each piece that it reads by itself: a character that lies across two counts
# twice, over the kernel as well (35 of 18,000 beside busy loops). `test_storbinary` sends it, too.
PIECES = ".test_storlines"
STARTING = threading.Lock()


def verdicts(net: programs.Network, module: str, run: str, only: list[str]) -> dict[str, str]:
    """Run the tests of a module, or some of them; return what became of each."""
    directory = net.directory / f"{module}-{run}"
    directory.mkdir()
    report = directory / "verdicts.xml"
    argv = [PYTHON, "-m", "test", "--junit-xml", str(report), "--tempdir", str(directory)]
    argv += ["--timeout", str(DUMP), *(word for name in only for word in ("-m", name))]
    # Virtual machines' sockets are nobody's here, and wait for a host that answers.
    argv += ["-i", "*VSOCK*", *MORE.get(module, [])]
    if run.startswith("round ") and run != "round 1":
        argv += ["-i", f"{ALONE}.*"]
    argv.append(module)
    with STARTING:
        running = net.start(*argv, cwd=directory, env={"IPNUMA_LEARN": "0"})
    where = f"{module} over {net.name}, {run}"
    try:
        status = running.wait(PATIENCE)
    except programs.ProgramError as error:
        raise programs.ProgramError(f"{where}: {error}") from None
    if not 0 <= status < 128 or not report.is_file():
        said = "a" if report.is_file() else "no"
        raise running.complaint(f"{where}: ended with status {status} and {said} report")
    found = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
        # It has no name if a part of it failed (subTest); then it is missed below.
        if "name" in case.attrib:
            found[case.attrib["name"]] = kinds[0] if kinds else "passed"
    return found


def show(kernel: programs.Network, module: str, missing: Counter, runs: int) -> None:
    """Take from what is missing what the kernel shows in so many runs of those cases alone."""
    for nth in range(runs):
        if not missing:
            break
        names = sorted({name for name, _ in missing})
        found = verdicts(kernel, module, f"again {nth + 1}", names)
        for name in names:
            missing[name, found.get(name, UNKNOWN)] -= 1
        for case in [case for case, count in missing.items() if count <= 0]:
            del missing[case]


# Each run has a limit of its own.
@pytest.mark.timeout(0)
@pytest.mark.parametrize("module", ALL if LONG else QUICK)
def test_same_verdicts(tmp_path, kernel, rounds, module):
    """No test fails that does not fail over the kernel, and none is skipped.

    Once: every verdict is the kernel's. In several rounds beside busy loops, some of these tests
    fail over the kernel too, now and then. So the kernel, beside the same loops, has to show every
    verdict of the library that is not its own first one, and every failure, as often as the library
    did, in TRIES runs for each of the library's at most (of those cases alone). That what it failed
    first can pass, it has to show once. So what happens to both is forgiven, and what happens to
    the library TRIES times as often as to the kernel is not, but for PIECES. What does not end,
    crashes, or reports nothing is never forgiven, and ends the test at once.
    """
    directory = tmp_path / "ipnuma"
    directory.mkdir()
    expected = verdicts(kernel, module, "once", [])
    assert any(verdict == "passed" for verdict in expected.values()), expected
    missing: Counter[tuple[str, str]] = Counter()
    seen: dict[tuple[str, str], list[int]] = {}
    with programs.network("ipnuma", directory) as net, ThreadPoolExecutor(BESIDE) as pool:
        runs = [f"round {nth + 1}" for nth in range(rounds)]
        all_found = list(pool.map(lambda run: verdicts(net, module, run, []), runs))
        assert net.totals().streams >= rounds or module in NO_STREAMS
    for nth, found in enumerate(all_found, 1):
        for name in expected.keys() | found.keys():
            if nth > 1 and name.startswith(f"{ALONE}."):
                continue
            case = (name, found.get(name, UNKNOWN))
            if rounds > 1 and name.endswith(PIECES) and case[1] == "failure":
                continue
            same = expected.get(name, UNKNOWN) == case[1]
            if not same or (rounds > 1 and case[1] not in ("passed", "skipped")):
                seen.setdefault(case, []).append(nth)
                missing[case] += 1
    for case in missing:
        if case[1] == "passed":
            missing[case] = 1
        elif expected.get(case[0], UNKNOWN) == case[1]:
            missing[case] -= 1
    missing = +missing
    if rounds > 1:
        show(kernel, module, missing, TRIES * rounds)
    other = [
        f"{name}: {verdict} in the rounds {seen[name, verdict]} of {rounds}; over the kernel"
        f" {expected.get(name, UNKNOWN)} at first, then {count} times too seldom so"
        for (name, verdict), count in missing.items()
    ]
    assert not other, f"{module}: " + "\n".join(other)
