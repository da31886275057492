# SPDX-License-Identifier: Apache-2.0
"""Independent model of the switch: what becomes of one frame, from its bytes (RFC 1812 subset).

`Router.decide` looks at one untagged frame alone, cut-through, and of full length or shorter than
64 bytes. Time, contention and store-and-check are the bench's to reckon with.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

# Counters of a port by index; the first 18 are the verdicts.
COUNTERS = (
    "forward host_not_ip host_link host_local host_options host_expires host_route host_no_route "
    "host_neighbour host_mtu drop_not_mine drop_header drop_martian drop_route drop_acl drop_vlan "
    "drop_runt drop_bad full spoiled tx_underrun tx_spoiled tx_good rx_bad_preamble rx_error "
    "rx_giant rx_runt rx_bad_fcs rx_good changes refused"
).split()

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def ip_length(frame: bytes) -> int:
    """Return the length of the IP packet as its header has it, at most 65535; 0 for others."""
    kind = frame[12:14]
    if kind == b"\x08\x00":
        return int.from_bytes(frame[16:18], "big")
    return min(int.from_bytes(frame[18:20], "big") + 40, 65535) if kind == b"\x86\xdd" else 0


@dataclass
class NextHop:
    """Neighbour behind a route; a MAC address of None is not resolved."""

    port: int
    mac: bytes | None


@dataclass
class Router:
    """Ports, their MTUs, and routes. A route is a next hop, "host" or "discard"."""

    port_macs: list[bytes]
    routes: dict[Network, NextHop | str] = field(default_factory=dict)
    mtus: list[int] = field(default_factory=lambda: [9216 - 18] * 16)
    # Says whether the access list denies: port of arrival, IP packet.
    denies: Callable[[int, bytes], bool] = lambda _port, _packet: False

    def decide(self, port: int, frame: bytes) -> tuple[str, int, bytes]:
        """Return the verdict, the egress port and the frame as it leaves, both without FCS."""
        if len(frame) < 60:
            return "drop_runt", -1, frame
        dst = frame[:6]
        if dst[0] & 1:
            return "host_link", -1, frame
        if dst != self.port_macs[port]:
            return "drop_not_mine", -1, frame
        kind = int.from_bytes(frame[12:14], "big")
        if kind not in (0x0800, 0x86DD):
            return "host_not_ip", -1, frame
        verdict, target = (self._v4 if kind == 0x0800 else self._v6)(frame[14:])
        if verdict not in ("drop_header", "drop_martian") and self.denies(port, frame[14:]):
            return "drop_acl", -1, frame
        if verdict:
            return verdict, -1, frame
        route = self.lookup(target)
        if route is None:
            return "host_no_route", -1, frame
        if route == "host":
            return "host_route", -1, frame
        if route == "discard":
            return "drop_route", -1, frame
        assert isinstance(route, NextHop)
        if route.mac is None:
            return "host_neighbour", -1, frame
        if route.port >= len(self.port_macs):
            return "host_no_route", -1, frame
        if ip_length(frame) > self.mtus[route.port]:
            return "host_mtu", -1, frame
        return "forward", route.port, self._send(frame, route)

    def lookup(self, target: Address) -> NextHop | str | None:
        """Return the route of the longest prefix that holds the address."""
        for length in range(target.max_prefixlen, -1, -1):
            route = self.routes.get(ipaddress.ip_network((target, length), strict=False))
            if route is not None:
                return route
        return None

    def _send(self, frame: bytes, hop: NextHop) -> bytes:
        # Scapy takes the packet apart and computes the checksum anew, over all of the header.
        packet = Ether(frame)
        packet.src = ":".join(f"{b:02x}" for b in self.port_macs[hop.port])
        packet.dst = ":".join(f"{b:02x}" for b in hop.mac)
        if IPv6 in packet:
            packet[IPv6].hlim -= 1
        else:
            packet[IP].ttl -= 1
            # Only the header's checksum changes, so only the header is built anew.
            head = IP(bytes(packet[IP])[:20])
            del head.chksum
            return bytes(packet)[:14] + bytes(head)[:20] + frame[34:]
        return bytes(packet)[:54] + frame[54:]

    @staticmethod
    def _v4(ip: bytes) -> tuple[str, Address | None]:
        ihl = ip[0] & 15
        if ip[0] >> 4 != 4 or ihl < 5 or int.from_bytes(ip[2:4], "big") < 20:
            return "drop_header", None
        if ihl == 5 and sum(int.from_bytes(ip[i : i + 2], "big") for i in range(0, 20, 2)) % 0xFFFF:
            return "drop_header", None
        source = ipaddress.IPv4Address(ip[12:16])
        target = ipaddress.IPv4Address(ip[16:20])
        everyone = ipaddress.IPv4Address("255.255.255.255")
        link = ipaddress.IPv4Network("169.254.0.0/16")
        nets = [ipaddress.IPv4Network(n) for n in ("0.0.0.0/8", "127.0.0.0/8", "240.0.0.0/4")]
        if source.is_multicast or any(source in n for n in nets):
            return "drop_martian", None
        if target != everyone and any(target in n for n in nets):
            return "drop_martian", None
        if target.is_multicast or target == everyone or target in link or source in link:
            return "host_local", None
        if ihl > 5:
            return "host_options", None
        if ip[8] <= 1:
            return "host_expires", None
        return "", target

    @staticmethod
    def _v6(ip: bytes) -> tuple[str, Address | None]:
        if ip[0] >> 4 != 6:
            return "drop_header", None
        source = ipaddress.IPv6Address(ip[8:24])
        target = ipaddress.IPv6Address(ip[24:40])
        if source.is_multicast or int(source) <= 1 or int(target) <= 1:
            return "drop_martian", None
        if target.is_multicast or target.is_link_local or source.is_link_local:
            return "host_local", None
        if ip[6] == 0:
            return "host_options", None
        if ip[7] <= 1:
            return "host_expires", None
        return "", target
