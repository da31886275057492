# SPDX-License-Identifier: Apache-2.0
"""Connections shared by processes and descriptors, and how they end."""

import os
import signal
import socket
import subprocess
import time


def pair(listener):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    return client, server


def echo_until_end(connection, change):
    while data := connection.recv(1000):
        connection.sendall(change(data))


def expect(error, call, *arguments):
    try:
        result = call(*arguments)
    except error:
        return
    raise AssertionError(f"{error.__name__} expected, got {result!r}")


def child_accepts(listener):
    child = os.fork()
    if child == 0:
        connection, _ = listener.accept()
        echo_until_end(connection, bytes.upper)
        os._exit(0)
    client = socket.create_connection(listener.getsockname())
    client.sendall(b"abc")
    assert client.recv(10) == b"ABC"
    client.shutdown(socket.SHUT_WR)
    assert client.recv(10) == b""
    assert os.waitpid(child, 0)[1] == 0


def child_serves_and_is_killed(listener):
    client, server = pair(listener)
    child = os.fork()
    if child == 0:
        client.close()
        echo_until_end(server, lambda data: data[::-1])
        os._exit(0)
    server.close()
    client.sendall(b"hello")
    assert client.recv(10) == b"olleh"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert client.recv(10) == b""


def killed_with_unread_data(listener):
    client, server = pair(listener)
    child = os.fork()
    if child == 0:
        client.close()
        time.sleep(100)
        os._exit(0)
    server.close()
    client.sendall(b"x" * 1000)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    expect(ConnectionResetError, client.recv, 10)


def write_after_close(listener):
    client, server = pair(listener)
    server.close()
    assert client.recv(1) == b""
    client.send(b"1")
    time.sleep(0.05)
    expect(BrokenPipeError, client.send, b"2")


def duplicates(listener):
    client, server = pair(listener)
    copy = server.dup()
    server.close()
    client.sendall(b"dup")
    assert copy.recv(3, socket.MSG_PEEK) == b"dup"
    assert copy.recv(3) == b"dup"
    copy.close()
    assert client.recv(1) == b""


def full_and_empty(listener):
    client, server = pair(listener)
    client.setblocking(False)
    expect(BlockingIOError, client.recv, 1)
    sent = 0
    try:
        while True:
            sent += client.send(b"z" * 100_000)
    except BlockingIOError:
        pass
    server.settimeout(20)
    received = 0
    while received < sent:
        received += len(server.recv(100_000))
    server.settimeout(0.05)
    expect(TimeoutError, server.recv, 1)


def others_come_and_go(listener):
    client, server = pair(listener)
    subprocess.run(["true"], check=True)
    subprocess.run("true", shell=True, check=True, close_fds=True)
    os.system("true")
    client.sendall(b"1")
    assert server.recv(10) == b"1"
    server.close()
    assert client.recv(1) == b""


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    child_accepts(listener)
    child_serves_and_is_killed(listener)
    killed_with_unread_data(listener)
    write_after_close(listener)
    duplicates(listener)
    full_and_empty(listener)
    others_come_and_go(listener)


main()
