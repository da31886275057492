# SPDX-License-Identifier: Apache-2.0
"""Connections and listeners that another program with the library inherits or is sent."""

import array
import os
import socket
import subprocess
import sys

ECHO = """
import socket, sys
connection = socket.socket(fileno=int(sys.argv[1]))
while data := connection.recv(65536):
    connection.sendall(data.upper())
"""

ACCEPT = """
import socket, sys
connection, _ = socket.socket(fileno=int(sys.argv[1])).accept()
while data := connection.recv(65536):
    connection.sendall(data.upper())
"""


def pair(listener):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    return client, server


def talk(client):
    for number in range(100):
        client.sendall(b"line %d" % number)
        assert client.recv(100) == b"LINE %d" % number
    client.sendall(b"x" * 1_000)
    received = 0
    while received < 1_000:
        received += len(client.recv(10_000))


def start(code, number):
    return subprocess.Popen([sys.executable, "-c", code, str(number)], pass_fds=[number])


def end(client, process):
    client.close()
    assert process.wait(30) == 0


def acceptors_end(listener):
    client, server = pair(listener)
    process = start(ECHO, server.fileno())
    server.close()
    talk(client)
    end(client, process)


def connectors_end(listener):
    client, server = pair(listener)
    process = start(ECHO, client.fileno())
    client.close()
    talk(server)
    end(server, process)


def listening(listener):
    process = start(ACCEPT, listener.fileno())
    client = socket.create_connection(listener.getsockname())
    talk(client)
    end(client, process)


def exec_itself(listener):
    client, server = pair(listener)
    child = os.fork()
    if child == 0:
        client.close()
        os.set_inheritable(server.fileno(), True)
        os.execv(sys.executable, [sys.executable, "-c", ECHO, str(server.fileno())])
    server.close()
    talk(client)
    client.close()
    assert os.waitpid(child, 0)[1] == 0


def sent_in_a_message(listener):
    client, server = pair(listener)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        client.close()
        server.close()
        _, control, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
        connection = socket.socket(fileno=array.array("i", control[0][2])[0])
        while data := connection.recv(65536):
            connection.sendall(data.upper())
        os._exit(0)
    rights = array.array("i", [server.fileno()])
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    server.close()
    talk(client)
    client.close()
    assert os.waitpid(child, 0)[1] == 0


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    acceptors_end(listener)
    connectors_end(listener)
    listening(listener)
    exec_itself(listener)
    sent_in_a_message(listener)


main()
