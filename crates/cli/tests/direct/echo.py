# SPDX-License-Identifier: Apache-2.0
"""Both ends of a connection that goes on while the daemons stand still.

echo.py server | client, in guests.
"""

import hashlib
import os
import random
import select
import signal
import socket
import sys
import time
from pathlib import Path

PORT = 4000
ROUNDS = 150
MOST = 6_000
KILLS = 3
KILLED = 3_000
# Longer ones do not fit into a short ring, and go by the kernel.
LONGEST = 700


def daemons(number):
    """Stops the machine's daemon, or has it go on."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [b"daemon"]:
            os.kill(int(entry.name), number)
            found.append(entry)
    assert found, "no daemon"


def take(peer, count):
    """So many bytes, however they come: asleep in poll, then in recv."""
    parts = []
    poll = select.poll()
    poll.register(peer, select.POLLIN)
    while count:
        poll.poll()
        part = peer.recv(count)
        assert part, f"{count} bytes are missing"
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve(peer):
    """Answers what comes: with epoll, in a child of who accepted."""
    epoll = select.epoll()
    epoll.register(peer, select.EPOLLIN)
    peer.setblocking(False)
    waiting = b""
    stopped = False
    got = hashlib.sha256()
    while True:
        want = select.EPOLLIN | (select.EPOLLOUT if waiting else 0)
        epoll.modify(peer, want)
        ((_, events),) = epoll.poll()
        if events & select.EPOLLIN:
            data = peer.recv(65_536)
            if not data:
                break
            if data == b"stop":
                daemons(signal.SIGSTOP)
                stopped = True
            elif data == b"cont":
                daemons(signal.SIGCONT)
                stopped = False
            else:
                got.update(data)
            waiting += data
        if waiting:
            try:
                waiting = waiting[peer.send(waiting) :]
            except BlockingIOError:
                pass
    assert not stopped
    print("served", got.hexdigest(), flush=True)


def serve_datagrams(own):
    """Sends back what comes: asleep in recvfrom."""
    stopped = False
    got = hashlib.sha256()
    while True:
        data, peer = own.recvfrom(65_536)
        if data == b"stop":
            daemons(signal.SIGSTOP)
            stopped = True
        elif data == b"cont":
            daemons(signal.SIGCONT)
            stopped = False
        elif data == b"end":
            break
        else:
            got.update(data)
        own.sendto(data, peer)
    assert not stopped
    print("sent back", got.hexdigest(), flush=True)


def ask_datagrams(draw):
    """Sends some at a time and waits for all of them: asleep in epoll."""
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server = (socket.gethostbyname("server"), PORT)
    epoll = select.epoll()
    epoll.register(own, select.EPOLLIN)
    got = hashlib.sha256()

    def round_trip(all_data):
        for data in all_data:
            own.sendto(data, server)
        for data in all_data:
            assert epoll.poll(5), f"{len(data)} bytes do not come back"
            came, peer = own.recvfrom(65_536)
            assert peer == server
            assert came == data, f"{len(came)} bytes came back of {len(data)}"

    for _ in range(3):
        got.update(b"warm")
        round_trip([b"warm"])
    round_trip([b"stop"])
    daemons(signal.SIGSTOP)
    least = 1.0
    for _ in range(ROUNDS):
        begun = time.monotonic()
        round_trip([b"short"])
        least = min(least, time.monotonic() - begun)
        got.update(b"short")
        all_data = [
            draw.randbytes(draw.choice([5, draw.randint(5, 80), draw.randint(5, LONGEST)]))
            for _ in range(draw.randint(1, 4))
        ]
        for data in all_data:
            got.update(data)
        round_trip(all_data)
    daemons(signal.SIGCONT)
    round_trip([b"cont"])
    own.sendto(b"end", server)
    print("came back", got.hexdigest(), flush=True)
    print("within ns", round(least * 1e9), flush=True)


def server():
    listener = socket.create_server((os.environ["IPNUMA_MANAGEMENT"], PORT))
    peer, _ = listener.accept()
    child = os.fork()
    if child == 0:
        serve(peer)
        os._exit(0)
    peer.close()
    _, status = os.waitpid(child, 0)
    assert status == 0
    # Some whose processes are killed: all that they had sent comes, then the end, and soon.
    witness, _ = listener.accept()
    for _ in range(KILLS):
        peer, _ = listener.accept()
        poll = select.poll()
        poll.register(peer, select.POLLIN)
        data = b""
        try:
            while (told := poll.poll(100)) and (part := peer.recv(65_536)):
                data += part
            how = "end" if told else "nothing"
        except ConnectionResetError:
            how = "reset"
        print("killed", len(data), how, flush=True)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((os.environ["IPNUMA_MANAGEMENT"], PORT))
    witness.sendall(b"x")
    serve_datagrams(datagrams)
    witness.sendall(b"x")


def connect():
    for _ in range(300):
        try:
            return socket.create_connection(("server", PORT))
        except ConnectionRefusedError:
            select.select([], [], [], 0.1)
    raise SystemExit("the server does not come")


def client():
    seed = int(os.environ.get("IPNUMA_SEED", "1"))
    draw = random.Random(seed)
    peer = connect()
    got = hashlib.sha256()

    def round_trip(data):
        peer.sendall(data)
        assert take(peer, len(data)) == data

    for _ in range(3):
        got.update(b"warm")
        round_trip(b"warm")
    round_trip(b"stop")
    daemons(signal.SIGSTOP)
    for _ in range(ROUNDS):
        size = draw.choice([1, draw.randint(5, 80), draw.randint(5, MOST)])
        data = draw.randbytes(size)
        got.update(data)
        round_trip(data)
    daemons(signal.SIGCONT)
    round_trip(b"cont")
    peer.close()
    print("asked", got.hexdigest(), flush=True)
    witness = connect()
    for _ in range(KILLS):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            witness.close()
            peer = connect()
            peer.sendall(bytes(KILLED))
            os.write(writer, b"x")
            signal.pause()
        os.read(reader, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        # The next one comes when the end of this one was told without it.
        time.sleep(1)
    # The server says when it has read all: until then this guest has to live.
    take(witness, 1)
    ask_datagrams(draw)
    take(witness, 1)


{"server": server, "client": client}[sys.argv[1]]()
