# SPDX-License-Identifier: Apache-2.0
"""memcached in one Linux machine of the rack, its clients in another; NICs and switch are RTL.

Once over the kernel's sockets and ring NICs, once over the socket library and IP-NUMA NICs. The
same clients run against a memcached of this machine, and their verdicts must be the same. Every
link is captured: tshark finds it sound, and it shows that the commands went that way. Over IP-NUMA
the daemons have keys, so that commands are to be seen on the buses, and not on the cables; with
IPNUMA_PLAIN=1 they have none, and commands are on both.

Between machines the socket library carries TCP only. So clients by UDP run over the kernel's
sockets alone: with IP-NUMA NICs their datagrams would take the network for setting up, which is no
part of the rack, and show nothing. memcaslap that opens its connections again (-R) is missing here:
when commands are counted, and not seconds, it never ends, nor does it on this machine.

The guests need the kernel of tools/uml-kernel. IPNUMA_KEEP=DIRECTORY keeps logs and captures there;
IPNUMA_LONG=1 adds what moves megabytes: minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pymemcache.test
import pytest

import programs
import rack
from test_memcached import memcached

DISSECTOR = programs.ROOT / "tools" / "wireshark" / "ipnuma.lua"
PORT = 11211
LONG = "IPNUMA_LONG" in os.environ
# Guests have memory of their own there: what lies there on this machine must be brought.
OWN = ("/tmp/", "/run/", "/var/tmp/", "/var/log/")
# Only a hang takes that long.
PATIENCE = 3000.0

pytestmark = pytest.mark.timeout(int(PATIENCE) + 600)


def capable(said: str) -> dict[str, str]:
    """Verdict of memccapable on each of its tests."""
    assert "All tests passed" in said, said
    found = re.findall(r"^((?:ascii|binary) .*?)\s*\[(\w+)\]$", said, re.MULTILINE)
    assert len(found) > 50, said
    return dict(found)


def loaded(said: str) -> dict[str, int]:
    """What memcaslap counted: commands, values that were missing or not as stored."""
    found = {name: int(n) for name, n in re.findall(r"^(\w+): (\d+)$", said, re.MULTILINE)}
    wrong = ("get_misses", "verify_misses", "verify_failed")
    assert found["cmd_get"] > found["cmd_set"] > 0, said
    # How many are SETs depends on which thread was the faster.
    return {"commands": found["cmd_get"] + found["cmd_set"]} | {name: found[name] for name in wrong}


def outcomes(said: str) -> dict[str, str]:
    """Outcome of each of pymemcache's tests."""
    found = re.findall(r"(\S+\.py::.+?) (PASSED|SKIPPED|FAILED|ERROR|XFAIL)", said)
    # Its authors skip their test of TLS, with each of three client classes.
    assert re.search(rf"\b{100 if LONG else 94} passed, 3 skipped\b", said), said
    return {name.rpartition("/")[2]: outcome for name, outcome in found}


def timed(said: str) -> dict[str, object]:
    """What `ipnuma mcb` counted; it compares every byte of the answers."""
    found = json.loads(said.splitlines()[-1])["result"]
    return {name: found[name] for name in ("command", "transport", "length", "count")}


def stored(said: str) -> str:
    """Last line of memget."""
    assert "all values as stored" in said, said
    return said.splitlines()[-1]


@dataclass(frozen=True)
class Client:
    """A client, and what it must have moved at least if it is accelerated."""

    argv: Callable[[str, int], list[str]]
    verdict: Callable[[str], object]
    streams: int = 1
    bytes: int = 1000
    udp: bool = False


def slap(*more: str, udp: bool = False) -> Client:
    """Make a memcaslap of eight clients in two threads, which compares every tenth value.

    Its threads ask and ask until the other is ready. In a guest only reading the clock makes time
    pass meanwhile, and not the coarse clock, which its event library reads unless told otherwise.
    It writes its settings to its home, unless it did so before.
    """

    def argv(host: str, port: int) -> list[str]:
        environment = ["env", "HOME=/tmp", "EVENT_PRECISE_TIMER=1"]
        return [*environment, programs.tool("memcaslap"), "-s", f"{host}:{port}",
                "-T", "2", "-c", "8", "-x", "160", "-v", "0.1", *more]  # fmt: skip

    return Client(argv, loaded, streams=8, bytes=20_000, udp=udp)


def mcb(*more: str, udp: bool = False) -> Client:
    """Make `ipnuma mcb`, the client of chapter 6."""

    def argv(host: str, port: int) -> list[str]:
        return [str(programs.executable()), "mcb", "-a", host, "-p", str(port), "--json", *more]

    return Client(argv, timed, udp=udp)


def suite(host: str, port: int) -> list[str]:
    """Command line of the integration tests that come with pymemcache's own wheel.

    Those with values of five megabytes, two for each class of clients, take minutes.
    """
    short = [] if LONG else ["-k", "not large"]
    tests = Path(pymemcache.test.__file__).parent
    return [
        sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider",
        "-c", "/dev/null", "-W", "ignore", "--rootdir", str(tests),
        "--server", host, "--port", str(port), *short, str(tests / "test_integration.py"),
    ]  # fmt: skip


CLIENTS = {
    "memccapable": Client(
        lambda host, port: [programs.tool("memccapable"), "-h", host, "-p", str(port)], capable, 2
    ),
    "memcaslap": slap(),
    "memcaslap-binary": slap("-B"),
    "memcaslap-multiget": slap("-d", "20"),
    "memcaslap-udp": slap("-U", udp=True),
    "pymemcache": Client(suite, outcomes, 40, 2_000_000 if LONG else 10_000),
    "mcb": mcb("-c", "get", "-n", "50", "-l", "500", "-T", "tcp"),
    "mcb-udp": mcb("-c", "set", "-n", "50", "-l", "500", "-T", "udp", udp=True),
}

if LONG:
    CLIENTS["values"] = Client(
        lambda host, port: [str(programs.compile_c("memget.c")), host, str(port), "--check"],
        stored,
        bytes=500_000,
    )


def bring() -> str:
    """Shell lines that bring what a guest needs and covers with memory of its own."""
    needed = {programs.executable().parent, programs.ROOT, Path(sys.base_prefix)}
    lines = []
    for path in sorted({path.resolve() for path in needed}):
        if f"{path}/".startswith(OWN):
            place = shlex.quote(str(path))
            lines.append(f"mkdir -p {place} && mount -t hostfs -o {place} host {place} || exit 1")
    return "\n".join(lines)


# The server in the topology that `ipnuma memcached` prints: its NIC's address, and where the NIC is
# no network device, that of the network for setting up, by which programs name the machine.
ADDRESS = {"socket": "10.0.1.2", "ipnuma": "10.9.0.2"}


def topology(transport: str) -> str:
    """Make the topology of `ipnuma memcached`, with other clients in the place of its own."""
    printed = subprocess.run(
        [str(programs.executable()), "memcached", "--print-topology", "--transport", transport,
         "--place", "rack", "--switch", "fibnic", "--rate", "10g", "--protocol", "tcp",
         "--library", "free", *([] if programs.PLAIN else ["--seal"])],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    ipnuma = shlex.quote(str(programs.executable()))
    accelerated = transport == "ipnuma"
    lines = [
        bring(),
        # Every connection goes by the NICs, those of a test suite that are all short, too.
        "export LC_ALL=C IPNUMA_LEARN=0",
        "try() {",
        "  name=$1; shift",
        '  "$@" > $name.log 2>&1',
        "  echo $? > $name.status",
        # The daemon counts a connection when both ends have left it.
        f"  sleep 0.1; {ipnuma} sockets --json > $name.sockets" if accelerated else "  true",
        "}",
        "try nothing true",
    ]
    for name, client in CLIENTS.items():
        if not (accelerated and client.udp):
            argv = client.argv(ADDRESS[transport], PORT)
            line = [str(programs.executable()), "run", "--", *argv] if accelerated else argv
            lines.append(f"try {name} {shlex.join(line)}")
    # What it asks itself is between its waiting for the server and the end of the command.
    made, asked = re.subn(r"(?m)(^ask -c .*\n)+", lambda _: "\n".join(lines) + "\n", printed)
    # As many threads as on this machine.
    made, threads = re.subn(r"-t 1 -m 64", "-t 4 -m 64", made)
    assert (asked, threads) == (1, 1), printed
    return made


@dataclass
class Run:
    """What a run of the rack left behind."""

    transport: str
    directory: Path
    report: dict
    packets: int = 0

    @property
    def capture(self) -> Path:
        return self.directory / "links.pcapng"

    def file(self, name: str) -> str:
        return (self.directory / "guests" / "client" / name).read_text(errors="replace")

    def totals(self, name: str) -> programs.Totals:
        """What had gone by the NICs when a client had ended."""
        counted = json.loads(self.file(f"{name}.sockets"))["result"]["totals"]
        return programs.Totals(**{key: int(counted[key]) for key in vars(programs.Totals())})

    def split(self) -> int:
        """Make a capture of each link from that of all; return how many packets there were."""
        count = 0
        with contextlib.ExitStack() as stack:
            files = {}
            for link, interfaces in LINKS.items():
                files |= dict.fromkeys(interfaces, stack.enter_context(self.link(link).open("wb")))
            numbered = []
            for kind, block in blocks(self.capture):
                if kind == PACKET:
                    count += 1
                    files[numbered[struct.unpack_from("<I", block, 8)[0]]].write(block)
                    continue
                if kind == INTERFACE:
                    numbered.append(name_of(block))
                for file in set(files.values()):
                    file.write(block)
        assert sorted(name for name in numbered if name in files) == sorted(files)
        return count

    def link(self, name: str) -> Path:
        """Where the capture of a link is."""
        return self.directory / f"{name.replace(' ', '-')}.pcapng"

    def tshark(self, link: str, *arguments: str) -> list[str]:
        """Let tshark look at a link, with the project's dissector and with checksums."""
        line = [programs.tool("tshark"), "-n", "-X", f"lua_script:{DISSECTOR}"]
        for protocol in ("ip", "tcp", "udp"):
            line += ["-o", f"{protocol}.check_checksum:TRUE"]
        line += ["-r", str(self.link(link)), *arguments]
        environment = os.environ | {"HOME": str(self.directory)}
        done = subprocess.run(line, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


# Blocks of pcapng files.
INTERFACE = 1
PACKET = 6
NAME_OPTION = 2


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Kind and bytes of each block of a capture."""
    with path.open("rb") as file:
        while head := file.read(8):
            kind, length = struct.unpack("<II", head)
            yield kind, head + file.read(length - 8)


def name_of(block: bytes) -> str:
    """Name of an interface."""
    at = 16
    while at < len(block) - 4:
        option, length = struct.unpack_from("<HH", block, at)
        if option == NAME_OPTION:
            return block[at + 4 : at + 4 + length].decode()
        at += 4 + (length + 3) // 4 * 4
    raise AssertionError("an interface of the capture has no name")


LINKS = {
    "cable of the client": ("client cable", "sw1:0 cable"),
    "cable of the server": ("server cable", "sw1:1 cable"),
    "bus of the client": ("client pcie",),
    "bus of the server": ("server pcie",),
}


@pytest.fixture(scope="module", params=["socket", "ipnuma"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run all clients in the rack, once for all tests."""
    rack.need_kernel()
    keep = os.environ.get("IPNUMA_KEEP")
    directory = tmp_path_factory.mktemp(request.param)
    if keep:
        directory = Path(keep).resolve() / request.param
        directory.mkdir(parents=True, exist_ok=True)
    made = Run(request.param, directory, {})
    file = directory / "memcached.toml"
    file.write_text(topology(request.param))
    made.report = rack.run(
        [str(programs.executable()), "rack", str(file), "--directory", str(directory / "guests"),
         "--pcap", str(made.capture), "--keep", "5000000", "--json"],
        directory / "rack.log", PATIENCE,
    )  # fmt: skip
    made.packets = made.split()
    return made


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[programs.Network]:
    """The kernel's sockets of this machine."""
    with programs.network("kernel", tmp_path_factory.mktemp("here")) as made:
        yield made


@pytest.mark.parametrize("name", CLIENTS)
def test_verdicts(run: Run, here: programs.Network, name: str):
    """A client says of the memcached in the rack what it says of that on this machine."""
    client = CLIENTS[name]
    if client.udp and run.transport == "ipnuma":
        pytest.skip(
            "between machines the socket library carries TCP only; UDP would not go by the NICs"
        )
    said = run.file(f"{name}.log")
    assert run.file(f"{name}.status").strip() == "0", said
    port = programs.free_port()
    with here.server(*memcached(port, udp=True), port=port):
        expected = client.verdict(here.run(*client.argv(programs.HOST, port)))
    assert client.verdict(said) == expected
    if run.transport == "ipnuma":
        names = [name for name, client in CLIENTS.items() if not client.udp]
        before = ["nothing", *names][names.index(name)]
        moved = run.totals(name) - run.totals(before)
        assert moved.streams >= client.streams and moved.bytes >= client.bytes, moved


# Of tshark's expert information.
WARNING = 0x600000
# What it warns of and is as it should be: clients that close without reading what came reset the
# connection; values that are no text; an empty value.
EXPECTED = {"Connection reset (RST)", "Trailing stray characters", "Set Request must have Value"}


def known(severities: str, messages: str) -> bool:
    """Whether all that tshark remarks of a packet is usual where nothing is lost."""
    if "retransmission" in messages:
        return False
    remarks = zip(severities.split(","), messages.split(","), strict=False)
    return all(
        severity == "" or int(severity) < WARNING or message in EXPECTED
        for severity, message in remarks
    )


# TLPs are many and alike: of a bus so many are looked at.
MOST_TLPS = 40_000


@pytest.mark.parametrize("link", LINKS)
def test_captures(run: Run, link: str):
    """Tshark finds nothing wrong on a link."""
    columns = ("frame.interface_name", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message")
    arguments = ["-T", "fields", "-E", "separator=/t"]
    for column in columns:
        arguments += ["-e", column]
    if "bus" in link:
        arguments += ["-c", str(MOST_TLPS)]
    rows = [line.split("\t") for line in run.tshark(link, *arguments)]
    assert {row[0] for row in rows} == set(LINKS[link])
    # Malformed, a wrong checksum, a gap in a sequence, a full window, something sent twice.
    wrong = [row for row in rows if row[1] or not known(*row[2:])]
    assert not wrong, wrong[:20]


def test_all_was_captured(run: Run):
    """The captures leave out no frame and no TLP of the run."""
    assert run.packets == run.report["frames"] + run.report["tlps"]


@pytest.mark.parametrize("cable", [name for name in LINKS if "cable" in name])
def test_the_way(run: Run, cable: str):
    """Commands and answers are on the cables, in TCP and UDP or in stores of IP-NUMA, sealed."""

    def count(what: str, link: str = cable) -> int:
        few = ("-c", str(MOST_TLPS)) if "bus" in link else ()
        return len(run.tshark(link, "-Y", what, *few))

    if run.transport == "socket":
        assert count(f"tcp.port == {PORT} && tcp.len > 0") > 1000
        assert count(f"udp.port == {PORT}") > 100
        return
    sealed, has = "udp.dstport == 3422 && udp.payload[0] == a0", "frame contains"
    if programs.PLAIN:
        assert count(f"tcp || udp.port == 11211 || {sealed}") == 0
        assert count(f'ipnuma && {has} "VALUE "') > 100
        assert count(f'ipnuma && {has} "get "') > 100
        return
    assert count(sealed) > 200
    assert count(f'(ip && !({sealed})) || {has} "VALUE " || {has} "get "') == 0
    bus = cable.replace("cable", "bus")
    assert count(f'{has} "VALUE "', bus) > 100 and count(f'{has} "get "', bus) > 100
