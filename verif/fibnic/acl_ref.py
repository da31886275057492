# SPDX-License-Identifier: Apache-2.0
"""What an access list decides, and the words of its rules, written from the description alone.

Addresses and prefixes are those of the standard library's ipaddress; nothing here is taken from
the RTL or from crates/fib.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

MEM_ACL = 25
WORD_TERMS = 4
WORD_DEFAULT = 5
ALL_PORTS = 0xFFFF

Network = IPv4Network | IPv6Network
Write = tuple[int, int, int]  # memory, address, word


@dataclass(frozen=True)
class Key:
    """What the access list is asked."""

    src: IPv4Address | IPv6Address
    dst: IPv4Address | IPv6Address
    protocol: int
    ports: tuple[int, int] | None  # source, destination
    arrival: int

    def packed(self) -> int:
        """Return fibnic_pkg::acl_key_t."""
        value = self.src.version == 6
        for addr in (self.src, self.dst):
            value = value << 128 | int(addr) << (96 if addr.version == 4 else 0)
        src_port, dst_port = self.ports or (0, 0)
        value = value << 8 | self.protocol
        value = value << 1 | (self.ports is not None)
        return value << 32 | src_port << 16 | dst_port


@dataclass(frozen=True)
class Rule:
    """One rule; None is "any"."""

    deny: bool
    families: frozenset[int]
    src: Network | None = None
    dst: Network | None = None
    protocol: int | None = None
    src_ports: tuple[int, int] | None = None
    dst_ports: tuple[int, int] | None = None
    arrivals: int = ALL_PORTS

    def takes(self, key: Key) -> bool:
        """Whether the rule matches."""
        if key.src.version not in self.families or not self.arrivals >> key.arrival & 1:
            return False
        if self.protocol is not None and key.protocol != self.protocol:
            return False
        for want, got in ((self.src_ports, 0), (self.dst_ports, 1)):
            if want is not None and not (
                key.ports is not None and want[0] <= key.ports[got] <= want[1]
            ):
                return False
        return (self.src is None or key.src in self.src) and (
            self.dst is None or key.dst in self.dst
        )


def decide(rules: Sequence[Rule | None], default_deny: bool, key: Key) -> tuple[bool, int | None]:
    """Return whether a key is denied, and the rule that decided, if any."""
    for index, rule in enumerate(rules):
        if rule is not None and rule.takes(key):
            return rule.deny, index
    return default_deny, None


def _prefix(network: Network | None) -> tuple[int, int]:
    if network is None:
        return 0, 0
    shift = 96 if network.version == 4 else 0
    return int(network.network_address) << shift, int(network.netmask) << shift


def _range(ports: tuple[int, int] | None) -> int:
    if ports is None:
        return 1 << 32
    return ports[1] << 16 | ports[0]


def words(index: int, rule: Rule | None) -> list[Write]:
    """Return the writes that put a rule in place; without one, those that remove it."""
    if rule is None:
        return [(MEM_ACL, index << 3 | WORD_TERMS, 0)]
    terms = rule.arrivals
    terms |= _range(rule.dst_ports) << 16 | _range(rule.src_ports) << 49
    terms |= (rule.protocol or 0) << 82 | (rule.protocol is None) << 90
    terms |= (4 in rule.families) << 91 | (6 in rule.families) << 92
    terms |= rule.deny << 93 | 1 << 94
    values = (*_prefix(rule.src), *_prefix(rule.dst), terms)
    return [(MEM_ACL, index << 3 | word, value) for word, value in enumerate(values)]


def default_word(deny: bool) -> Write:
    """Return the write that says what happens without a matching rule."""
    return MEM_ACL, WORD_DEFAULT, int(deny)


PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmp6": 58, "sctp": 132}


def parse(text: str) -> Rule:
    """Read a rule as crates/fib writes it."""
    action, family, protocol, src, dst, *rest = text.split()
    more = dict(zip(rest[::2], rest[1::2], strict=True))

    def ports(name: str) -> tuple[int, int] | None:
        if name not in more:
            return None
        first, _, last = more[name].partition("-")
        return int(first), int(last or first)

    arrivals = ALL_PORTS
    if "in" in more:
        names = more["in"].replace("none", "").split(",")
        arrivals = sum(1 << int(name) for name in names if name)
    families = {"v4": (4,), "v6": (6,), "any": (4, 6)}[family]
    known = PROTOCOLS.get(protocol, protocol)
    return Rule(
        deny={"deny": True, "permit": False}[action],
        families=frozenset(families),
        src=None if src == "any" else ip_network(src),
        dst=None if dst == "any" else ip_network(dst),
        protocol=None if known == "any" else int(known),
        src_ports=ports("sport"),
        dst_ports=ports("dport"),
        arrivals=arrivals,
    )


class Maker:
    """Makes rules that overlap, and keys at and beside their edges."""

    PROTOCOLS = (1, 6, 17, 58, 132, 255, 0)
    PORTS = (0, 1, 22, 53, 80, 443, 1023, 1024, 49152, 65534, 65535)

    def __init__(self, rand: random.Random) -> None:
        self.rand = rand

    def network(self, version: int) -> Network:
        """Return a prefix, likely to lie in another."""
        rand = self.rand
        width = 32 if version == 4 else 128
        top = rand.choice((0x0A, 0x0A, 0xC0) if version == 4 else (0x2001, 0x2001, 0xFD00))
        addr = top << (width - (8 if version == 4 else 16))
        # Few bits differ, so that prefixes nest.
        for bit in rand.sample(range(width), 3):
            if rand.random() < 0.3:
                addr ^= 1 << bit
        lengths = (0, 1, 8, 9, 16, 24, 31, 32) if version == 4 else (0, 3, 16, 32, 48, 64, 127, 128)
        length = rand.choice(lengths) if rand.random() < 0.8 else rand.randint(0, width)
        address = IPv4Address(addr) if version == 4 else IPv6Address(addr)
        return ip_network((address, length), strict=False)

    def port_range(self) -> tuple[int, int]:
        """Return a range of ports, often of one."""
        rand = self.rand
        lo = rand.choice(self.PORTS) if rand.random() < 0.7 else rand.getrandbits(16)
        hi = rand.choice((lo, lo, min(lo + 1, 65535), rand.randint(lo, 65535), 65535))
        return lo, hi

    def rule(self) -> Rule:
        """Return a random rule."""
        rand = self.rand
        version = rand.choice((4, 6))
        families = frozenset((version,))
        src = self.network(version) if rand.random() < 0.6 else None
        dst = self.network(version) if rand.random() < 0.6 else None
        if src is None and dst is None and rand.random() < 0.5:
            families = frozenset((4, 6))
        return Rule(
            deny=rand.random() < 0.5,
            families=families,
            src=src,
            dst=dst,
            protocol=rand.choice(self.PROTOCOLS) if rand.random() < 0.6 else None,
            src_ports=self.port_range() if rand.random() < 0.3 else None,
            dst_ports=self.port_range() if rand.random() < 0.4 else None,
            arrivals=ALL_PORTS if rand.random() < 0.5 else rand.getrandbits(16),
        )

    def _address(self, version: int, network: Network | None) -> IPv4Address | IPv6Address:
        rand = self.rand
        if network is None or rand.random() < 0.1:
            network = self.network(version)
        size = network.num_addresses
        offset = rand.choice((0, size - 1, rand.randrange(size), rand.randrange(size)))
        if rand.random() < 0.1:
            offset = rand.choice((-1, size))
        addr = (int(network.network_address) + offset) % (1 << network.max_prefixlen)
        return IPv4Address(addr) if version == 4 else IPv6Address(addr)

    def _port(self, ports: tuple[int, int] | None) -> int:
        rand = self.rand
        if ports is None or rand.random() < 0.1:
            return rand.getrandbits(16)
        lo, hi = ports
        edge = rand.choice((lo, hi, rand.randint(lo, hi), rand.choice((lo - 1, hi + 1))))
        return edge & 0xFFFF

    def key(self, rules: Sequence[Rule | None]) -> Key:
        """Return a key that some rule takes, or all but takes."""
        rand = self.rand
        rule = rand.choice(rules) if rules else None
        if rule is None:
            rule = self.rule()
        version = rand.choice(sorted(rule.families))
        if rand.random() < 0.05:
            version = 10 - version
            rule = replace(rule, src=None, dst=None)
        arrivals = [port for port in range(16) if rule.arrivals >> port & 1] or [0]
        if rand.random() < 0.1:
            arrivals = range(16)
        protocol = rule.protocol
        if protocol is None or rand.random() < 0.1:
            protocol = rand.choice(self.PROTOCOLS)
        ports = None
        wants = rule.src_ports is not None or rule.dst_ports is not None
        if rand.random() < (0.95 if wants else 0.5):
            ports = self._port(rule.src_ports), self._port(rule.dst_ports)
        return Key(
            src=self._address(version, rule.src),
            dst=self._address(version, rule.dst),
            protocol=protocol,
            ports=ports,
            arrival=rand.choice(arrivals),
        )
