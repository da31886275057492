# SPDX-License-Identifier: Apache-2.0
"""Counts what NICs in software send to each other in this network namespace: sealed, in the clear.

    frames.py [ADDRESS...]      # only of those at these addresses

Says "looking" once it does; when its standard input ends it says what it saw, as JSON. Only root
may look. Started by programs.py.
"""

from __future__ import annotations

import ctypes
import json
import select
import socket
import struct
import sys
import time

ALL = 3
ATTACH_FILTER = 26
UDP = 17
PORT = 3422
# IPv4 without options, UDP; where protocol, sender and port are in them.
HEADERS = 28
PROTOCOL = 9
SENDER = 12
PORT_AT = 22
SEALED = 0xA0
# Shows what was on its way when the input ended.
LATE = 0.1

LOAD_BYTE, LOAD_HALF, UNLESS, ANSWER = 0x30, 0x28, 0x15, 0x06


def only_ours(tap: socket.socket) -> None:
    """Have the kernel leave out all but UDP to the NICs' port."""
    steps = [
        (LOAD_BYTE, 0, PROTOCOL),
        (UNLESS, 3, UDP),
        (LOAD_HALF, 0, PORT_AT),
        (UNLESS, 1, PORT),
        (ANSWER, 0, HEADERS + 1),
        (ANSWER, 0, 0),
    ]
    program = b"".join(struct.pack("HBBI", code, 0, skip, k) for code, skip, k in steps)
    held = ctypes.create_string_buffer(program)
    tap.setsockopt(
        socket.SOL_SOCKET, ATTACH_FILTER, struct.pack("HP", len(steps), ctypes.addressof(held))
    )


def main() -> None:
    """Count."""
    seen = {"sealed": 0, "clear": 0}
    wanted = {socket.inet_aton(address) for address in sys.argv[1:]}
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL)) as tap:
        only_ours(tap)
        tap.setblocking(False)
        print("looking", flush=True)
        over = None
        while over is None or time.monotonic() < over:
            watched = [tap, sys.stdin] if over is None else [tap]
            ready, _, _ = select.select(watched, [], [], None if over is None else LATE)
            if tap in ready:
                packet = tap.recv(HEADERS + 1)
                if not wanted or packet[SENDER : SENDER + 4] in wanted:
                    seen["sealed" if packet[HEADERS] == SEALED else "clear"] += 1
            if sys.stdin in ready:
                over = time.monotonic() + LATE
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
