# SPDX-License-Identifier: Apache-2.0
"""UDP: blocking calls, asyncio, threads in sets of their own, a socket decided under a reader."""

import asyncio
import os
import select
import socket
import sys
import threading
import time


def udp(bind=True):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(30)
    if bind:
        made.bind(("127.0.0.1", 0))
    return made


def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return child


def ended_well(child):
    assert os.waitpid(child, 0)[1] == 0


def ping_pong():
    server = udp()
    address = server.getsockname()

    def client():
        own = udp(bind=False)
        for number in range(1000):
            own.sendto(b"%d" % number, address)
            assert own.recvfrom(100) == (b"%d" % number, address)
            if number % 250 == 0:
                time.sleep(0.01)
        own.connect(address)
        for size in 0, 1, 56, 57, 1400, 20000:
            own.send(bytes(size))
            assert own.recv(65536) == bytes(size)
        own.send(b"cut off")
        assert own.recv(3) == b"cut"

    child = in_child(client)
    for _ in range(1007):
        data, source = server.recvfrom(65536)
        server.sendto(data, source)
    ended_well(child)


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, source):
        self.transport.sendto(data, source)


class Count(asyncio.DatagramProtocol):
    def __init__(self):
        self.left = 500
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.sendto(b"%d" % self.left)

    def datagram_received(self, data, source):
        assert data == b"%d" % self.left
        self.left -= 1
        if self.left:
            self.transport.sendto(b"%d" % self.left)
        else:
            self.done.set_result(None)


async def asynchronous():
    loop = asyncio.get_running_loop()
    server, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    address = server.get_extra_info("sockname")
    clients = [await loop.create_datagram_endpoint(Count, remote_addr=address) for _ in range(3)]
    for transport, protocol in clients:
        await asyncio.wait_for(protocol.done, 30)
        transport.close()
    server.close()


def many_threads():
    """As memcached does it: a duplicate for each thread, each in a set of its own."""
    server = udp()
    server.setblocking(False)
    address = server.getsockname()
    stop, stopped = os.pipe()

    def worker():
        own = socket.socket(fileno=os.dup(server.fileno()))
        own.setblocking(False)
        poll = select.epoll()
        poll.register(own, select.EPOLLIN)
        poll.register(stop, select.EPOLLIN)
        while True:
            for fd, _ in poll.poll(30):
                if fd == stop:
                    return
                try:
                    data, source = own.recvfrom(100)
                except BlockingIOError:
                    continue
                own.sendto(data, source)

    workers = [threading.Thread(target=worker) for _ in range(3)]
    for each in workers:
        each.start()

    def client():
        own = udp()
        for number in range(300):
            own.sendto(b"%d" % number, address)
            assert own.recv(100) == b"%d" % number
            if number % 60 == 0:
                time.sleep(0.01)

    children = [in_child(client) for _ in range(2)]
    for child in children:
        ended_well(child)
    os.write(stopped, b"x")
    for each in workers:
        each.join()


def decided_late():
    """A thread receives from a socket that has no address until another one sends from it."""
    server = udp()
    address = server.getsockname()
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard = []

    def listen():
        while len(heard) < 100:
            heard.append(own.recv(100))

    listener = threading.Thread(target=listen)
    listener.start()
    time.sleep(0.05)
    own.sendto(b"begin", address)
    data, source = server.recvfrom(100)
    assert data == b"begin"
    for number in range(100):
        server.sendto(b"%d" % number, source)
        if number % 10 == 0:
            time.sleep(0.002)
    listener.join(30)
    assert heard == [b"%d" % number for number in range(100)], heard


ping_pong()
asyncio.run(asynchronous())
many_threads()
decided_late()
