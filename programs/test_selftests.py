# SPDX-License-Identifier: Apache-2.0
"""The kernel's own socket tests (tools/testing/selftests): the same verdicts as over the kernel.

They are compiled from Debian's package of the kernel's source, of which IPNUMA_KERNEL_DEB may name
a file. Only the long form runs them. Those that need a network of their own, a second machine or a
kernel feature that is off here are left out; so is epoll_wakeup_test, which fails over the kernel,
too, where the machine is busy. LTP is not packaged in Debian 12.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import programs

PACKAGE = "linux-source-6.1"
# The source, without what surrounds it, and how many connections at least are accelerated.
TESTS = {
    "socket": 0,
    "reuseaddr_conflict": 0,
    "reuseport_addr_any": 0,
    "reuseport_dualstack": 0,
    "reuseport_bpf": 0,
    "reuseport_bpf_cpu": 0,
    "sk_bind_sendto_listen": 0,
    "sk_connect_zero_addr": 0,
    "so_netns_cookie": 0,
    "tcp_fastopen_backup_key": 0,
    "tcp_inq": 1,
    "udpgso": 0,
}
pytestmark = pytest.mark.skipif(
    "IPNUMA_LONG" not in os.environ, reason="133 MB of source; IPNUMA_LONG=1 runs it"
)


@pytest.fixture(scope="module")
def sources() -> Path:
    """Bring in the kernel's tests, once."""
    place = programs.ROOT / ".build" / "selftests"
    place.mkdir(parents=True, exist_ok=True)
    selftests = place / "tools" / "testing" / "selftests"
    done = place / "done"
    if not done.exists():
        deb = os.environ.get("IPNUMA_KERNEL_DEB")
        if deb is None:
            subprocess.run(["apt-get", "-qq", "download", PACKAGE], cwd=place, check=True)
            deb = str(next(place.glob("*.deb")))
        parts = ("net/*", "*.h")
        wanted = " ".join(f"'{PACKAGE}/{selftests.relative_to(place)}/{part}'" for part in parts)
        unpack = (
            f"set -o pipefail; dpkg-deb --fsys-tarfile '{deb}' | tar -xO ./usr/src/{PACKAGE}.tar.xz"
            f" | xz -dc | tar -x --strip-components=1 --wildcards {wanted}"
        )
        subprocess.run(["bash", "-c", unpack], cwd=place, check=True)
        for package in place.glob("*.deb"):
            package.unlink()
        done.touch()
    return selftests


@pytest.mark.parametrize("name", TESTS)
def test_same_verdict(net, sources, tmp_path, name):
    """It passes, as over the kernel."""
    source, binary = sources / "net" / f"{name}.c", tmp_path / name
    subprocess.run(
        ["cc", "-O1", "-w", "-D_GNU_SOURCE", f"-I{sources}", f"-I{source.parent}"]
        + ["-o", str(binary), str(source), "-lpthread"],
        check=True,
    )
    before = net.totals().streams if net.accelerated else 0
    said = net.run(str(binary), patience=300, env={"IPNUMA_LEARN": "0"})
    assert "not ok" not in said, said
    if net.accelerated:
        assert net.totals().streams - before >= TESTS[name]
