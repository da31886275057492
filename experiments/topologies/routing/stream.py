# SPDX-License-Identifier: Apache-2.0
"""Sends numbered packets at times of the simulated clock, and says how long none of them came.

stream.py END [ADDRESS FROM:TO:PERIOD...]
"""

import os
import socket
import struct
import sys
import time

BEGIN = 1767225600  # 2026-01-01, when guests' clocks begin
PORT = 4000
# Of a packet: its phase, its number, how many the phase has, and seconds between them.
PACKET = struct.Struct("!IIId")


def now():
    """Simulated seconds."""
    return time.time() - BEGIN


def wait(until):
    """Sleeps until then."""
    while (left := until - now()) > 0:
        time.sleep(left)


def send(address, phases):
    """Sends in each phase."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for index, phase in enumerate(phases):
        begin, until, period = (float(word) for word in phase.split(":"))
        count = round((until - begin) / period)
        for number in range(count):
            wait(begin + number * period)
            try:
                out.sendto(PACKET.pack(index, number, count, period), (address, PORT))
            except OSError:
                pass  # an ICMP error for an earlier packet


def receive(end):
    """Receives, and says of each phase what was missing."""
    into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.bind(("", PORT))
    came = {}
    while (left := end - now()) > 0:
        into.settimeout(left)
        try:
            index, number, count, period = PACKET.unpack(into.recv(2048))
        except TimeoutError:
            break
        came.setdefault((index, count, period), []).append((now(), number))
    for (index, count, period), packets in sorted(came.items()):
        if packets[-1][1] + 1 < count:
            packets.append((end, count))
        gaps = [
            (after[0] - before[0], before[0], after[0])
            for before, after in zip(packets, packets[1:], strict=False)
        ]
        gap, before, after = max(gaps)
        received = sum(number < count for _, number in packets)
        print(
            f"phase {index}: {received} packets came, {count - received} did not; "
            f"longest without one {gap * 1e6:.0f} us, from {before:.6f} to {after:.6f} s, "
            f"of which {period * 1e6:.0f} are the period"
        )


if len(sys.argv) > 2 and os.fork() == 0:
    send(sys.argv[2], sys.argv[3:])
else:
    receive(float(sys.argv[1]))
