# SPDX-License-Identifier: Apache-2.0
"""The listener has the library, but the acceptor has not: everything arrives all the same."""

import os
import select
import socket
import subprocess
import sys
import threading
import time

ECHO = """
import socket, sys
connection, _ = socket.socket(fileno=int(sys.argv[1])).accept()
while data := connection.recv(65536):
    connection.sendall(data)
"""

GREETING = """
import socket, sys
connection, _ = socket.socket(fileno=int(sys.argv[1])).accept()
connection.sendall(b"220 ready")
assert connection.recv(10) == b"quit"
"""


COLLECT = """
import socket, sys
connection, _ = socket.socket(fileno=int(sys.argv[1])).accept()
received = b""
while data := connection.recv(65536):
    received += data
assert received == b"a" * 50_000 + b"z", len(received)
"""


def blocking(client):
    client.sendall(b"hello")
    assert client.recv(10) == b"hello"
    client.sendall(b"again")
    assert client.recv(10) == b"again"


def waiting(client):
    client.setblocking(False)
    client.send(b"x" * 50_000)
    epoll = select.epoll()
    epoll.register(client, select.EPOLLIN)
    received = 0
    while received < 50_000:
        assert epoll.poll(30)
        try:
            received += len(client.recv(100_000))
        except BlockingIOError:
            pass
    client.setblocking(True)
    blocking(client)


def much(client):
    size = 3_000_000
    sender = threading.Thread(target=client.sendall, args=(b"z" * size,))
    sender.start()
    received = 0
    while received < size:
        received += len(client.recv(1 << 20))
    sender.join()


def greeted(client):
    assert client.recv(10) == b"220 ready"
    client.sendall(b"quit")
    assert client.recv(10) == b""


def run(acceptor, talk):
    listener = socket.create_server(("127.0.0.1", 0))
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    number = listener.fileno()
    process = subprocess.Popen(
        [sys.executable, "-c", acceptor, str(number)], env=environment, pass_fds=[number]
    )
    client = socket.create_connection(listener.getsockname())
    talk(client)
    client.close()
    assert process.wait(30) == 0
    listener.close()


def gone_before():
    """The client has sent and closed before anybody accepts."""
    listener = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"a" * 50_000 + b"z")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    number = listener.fileno()
    arguments = [sys.executable, "-c", COLLECT, str(number)]
    result = subprocess.run(arguments, env=environment, pass_fds=[number], timeout=30)
    assert result.returncode == 0
    listener.close()


gone_before()
for talk in blocking, waiting, much:
    run(ECHO, talk)
    time.sleep(0.01)
run(GREETING, greeted)
