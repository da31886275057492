# SPDX-License-Identifier: Apache-2.0
"""What the policy leaves to the kernel arrives like all else, over TCP and UDP, byte for byte.

Arguments: the ports of the servers, 0 for any; `ring` if an io_uring is to be asked for."""

import ctypes
import errno
import os
import socket
import sys
import threading

AMOUNT = 300_000


def echo(listener):
    connection = listener.accept()[0]
    with connection:
        while piece := connection.recv(65536):
            connection.sendall(piece)


def stream(port):
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = threading.Thread(target=echo, args=(listener,))
        server.start()
        sent = os.urandom(AMOUNT)
        with socket.create_connection(listener.getsockname()) as client:

            def send():
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            got = b""
            while piece := client.recv(65536):
                got += piece
            sender.join()
        server.join()
        assert got == sent, len(got)


def datagrams(port):
    udp = socket.SOCK_DGRAM
    with socket.socket(type=udp) as server, socket.socket(type=udp) as client:
        server.bind(("127.0.0.1", port))
        for number in range(100):
            sent = b"%d " % number * (number + 1)
            client.sendto(sent, server.getsockname())
            got, address = server.recvfrom(65536)
            assert got == sent
            server.sendto(got, address)
            assert client.recv(65536) == sent


def ring():
    libc = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(120)
    fd = libc.syscall(425, 8, room)
    print("none" if fd < 0 and ctypes.get_errno() == errno.ENOSYS else "the kernel's")


for argument in sys.argv[1:]:
    if argument == "ring":
        ring()
    else:
        stream(int(argument))
        datagrams(int(argument))
if os.fork() == 0:
    stream(0)
    os._exit(0)
assert os.wait()[1] == 0
