# SPDX-License-Identifier: Apache-2.0
"""selectors: epoll, poll and select with a listener, connections and a pipe in one set."""

import os
import selectors
import socket
import threading
import time


def talk(address):
    connection = socket.create_connection(address)
    for number in range(300):
        connection.sendall(b"%d" % number)
        assert connection.recv(100) == b"%d" % number
        if number % 100 == 0:
            # Long enough for both sides to fall asleep.
            time.sleep(0.01)
    connection.close()


def serve(selector):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    clients = [threading.Thread(target=talk, args=(listener.getsockname(),)) for _ in range(4)]
    for client in clients:
        client.start()
    out, into = os.pipe()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(out, selectors.EVENT_READ)
    left = len(clients)
    while left:
        ready = selector.select(30)
        assert ready, "nothing happened for half a minute"
        for key, _ in ready:
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ)
            elif data := key.fileobj.recv(1000):
                key.fileobj.sendall(data)
            else:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                left -= 1
    os.write(into, b"x")
    assert [key.fd for key, _ in selector.select(30)] == [out]
    for client in clients:
        client.join()


for kind in selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector:
    serve(kind())
