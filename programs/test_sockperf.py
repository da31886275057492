# SPDX-License-Identifier: Apache-2.0
"""sockperf: ping-pong, load and throughput, TCP and UDP, with every way to wait that it has.

A client spends two seconds of its life asleep, so each test runs many of them at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import programs

PROTOCOLS = ("udp", "tcp")


@dataclass
class Pair:
    """A client and its server."""

    name: str
    client: programs.Process

    def said(self) -> str:
        """Wait for the client; return its report without colours."""
        status = self.client.wait()
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.client.output())
        assert status == 0, f"{self.name}: status {status}\n{text}"
        assert "fail" not in text.lower(), f"{self.name}:\n{text}"
        return text


def serve(net: programs.Network, port: int, *more: str) -> None:
    """Start a server; the network ends it."""
    net.start("sockperf", "server", "-i", programs.HOST, "-p", str(port), *more, port=port)


def call(net: programs.Network, port: int, mode: str, *more: str) -> Pair:
    """Start a client that measures for a second."""
    argv = ["sockperf", mode, "-i", programs.HOST, "-p", str(port), "-t", "1", *more]
    return Pair(" ".join([mode, *more]), net.start(*argv))


def flag(protocol: str) -> list[str]:
    return ["--tcp"] if protocol == "tcp" else []


def test_ping_pong(net):
    """Every message comes back once, in order, with the contents it was sent with."""
    with net.expect(streams=4, datagrams=8, bytes=1_000_000):
        pairs = []
        for protocol in PROTOCOLS:
            for size in (14, 57, 1400, 20_000):
                port = programs.free_port()
                serve(net, port, *flag(protocol))
                more = ["-m", str(size), "--data-integrity", *flag(protocol)]
                pairs.append(call(net, port, "ping-pong", *more))
        for pair in pairs:
            said = pair.said()
            lost = re.search(
                r"dropped messages = (\d+); # duplicated messages = (\d+); "
                r"# out-of-order messages = (\d+)",
                said,
            )
            assert lost and lost.groups() == ("0", "0", "0"), f"{pair.name}:\n{said}"
            counted = re.search(r"Valid Duration.*ReceivedMessages=(\d+)", said)
            assert counted and int(counted[1]) > 100, f"{pair.name}:\n{said}"


def test_ways_to_wait(net):
    """Servers of two sockets that wait in select, poll and epoll, and of one in recvfrom."""
    with net.expect(streams=7, datagrams=14, bytes=100_000):
        pairs = []
        for protocol in PROTOCOLS:
            for way, count in (("select", 2), ("poll", 2), ("epoll", 2), ("recvfrom", 1)):
                ports = [programs.free_port() for _ in range(count)]
                feed = net.directory / f"{way}-{protocol}"
                letter = protocol[0].upper()
                feed.write_text("".join(f"{letter}:{programs.HOST}:{p}\n" for p in ports))
                net.start("sockperf", "server", "-f", str(feed), "-F", way, port=ports[-1])
                for port in ports:
                    pairs.append(call(net, port, "ping-pong", *flag(protocol), "-m", "64"))
                    pairs[-1].name += f" to {way}"
        for pair in pairs:
            said = pair.said()
            assert "dropped messages = 0" in said, f"{pair.name}:\n{said}"


def test_modes(net):
    """O_NONBLOCK at both ends; one way as fast as it goes; two threads on one socket."""
    with net.expect(streams=3, datagrams=5, bytes=1_000_000):
        pairs = {}
        for protocol in PROTOCOLS:
            tcp = flag(protocol)
            for name, of_server, of_client in (
                ("nonblocked", ["--nonblocked"], ["ping-pong", "--nonblocked"]),
                ("throughput", [], ["throughput", "-m", "1400"]),
                ("under-load", [], ["under-load", "--mps", "5000"]),
            ):
                port = programs.free_port()
                serve(net, port, *tcp, *of_server)
                pairs[name, protocol] = call(net, port, *of_client, *tcp)
        for (name, _), pair in pairs.items():
            said = pair.said()
            if name == "throughput":
                rate = re.search(r"Message Rate is (\d+)", said)
                assert rate and int(rate[1]) > 1000, f"{pair.name}:\n{said}"
            else:
                assert re.search(r"percentile 50\.000 = +[0-9.]+", said), f"{pair.name}:\n{said}"
                if name == "nonblocked":
                    assert "dropped messages = 0" in said, f"{pair.name}:\n{said}"
