# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests of sockets and what is built on them: verdicts as over the kernel.

Debian's package libpython3.11-testsuite has them. IPNUMA_LONG=1 runs all; else the quick ones.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest

import programs

PYTHON = "/usr/bin/python3.11"
LONG = "IPNUMA_LONG" in os.environ
QUICK = ["test_socketserver", "test_httplib", "test_ftplib"]
ALL = [
    *QUICK,
    *("test_socket", "test_ssl", "test_asyncio", "test_httpservers", "test_select", "test_poll"),
    *("test_epoll", "test_selectors", "test_smtplib", "test_poplib", "test_imaplib"),
    *("test_telnetlib", "test_urllib2_localnet", "test_xmlrpc", "test_asyncore", "test_asynchat"),
    *("test_logging", "test_multiprocessing_fork", "test_wsgiref"),
]
# It calls itself a user of the network, and stays on this machine.
MORE = {"test_socketserver": ["-u", "network"]}
# All tests of a module together; the slowest takes minutes on a busy machine.
PATIENCE = 1200.0
# Their sockets are all of Unix, or pairs.
NO_STREAMS = ("test_poll", "test_select", "test_selectors")


def verdicts(net: programs.Network, module: str) -> dict[str, str]:
    """Run the tests of a module; return what became of each."""
    directory = net.directory / f"of-{module}"
    directory.mkdir()
    report = directory / "verdicts.xml"
    argv = [PYTHON, "-m", "test", "--junit-xml", str(report), "--tempdir", str(directory)]
    # Virtual machines' sockets are nobody's here, and wait for a host that answers.
    argv += ["-i", "*VSOCK*", *MORE.get(module, []), module]
    running = net.start(*argv, cwd=directory, env={"IPNUMA_LEARN": "0"})
    running.wait(PATIENCE)
    if not report.is_file():
        raise running.complaint("reported nothing")
    found = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
        found[case.attrib["name"]] = kinds[0] if kinds else "passed"
    return found


@pytest.mark.timeout(2.5 * PATIENCE)
@pytest.mark.parametrize("module", ALL if LONG else QUICK)
def test_same_verdicts(tmp_path, kernel, module):
    """No test fails that does not fail over the kernel, and none is skipped."""
    directory = tmp_path / "ipnuma"
    directory.mkdir()
    expected = verdicts(kernel, module)
    assert any(verdict == "passed" for verdict in expected.values()), expected
    with programs.network("ipnuma", directory) as net:
        found = verdicts(net, module)
        assert net.totals().streams > 0 or module in NO_STREAMS
    other = {
        name: (verdict, found.get(name, "not run"))
        for name, verdict in expected.items()
        if found.get(name) != verdict
    }
    assert not other, other
