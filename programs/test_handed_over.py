# SPDX-License-Identifier: Apache-2.0
"""A connection goes to a process that cannot have its channel: it gets all of it, or an error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import programs

# Reads all there is.
READER = """
import socket, sys
def read_all(peer):
    peer.settimeout(20)
    got = b""
    try:
        while piece := peer.recv(1000):
            got += piece
    except OSError as error:
        return f"{type(error).__name__} after {len(got)}"
    return f"end after {len(got)}" if got == b"x" * len(got) else "other bytes"
if sys.argv[1] == "inherited":
    peer = socket.socket(fileno=int(sys.argv[2]))
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen()
    way = listener.accept()[0]
    peer = socket.socket(fileno=socket.recv_fds(way, 1, 1)[1][0])
print(read_all(peer), flush=True)
"""

# Accepts a connection, and hands it over when it may.
SERVER = """
import os, socket, sys, time
python, reader, how, place, port, go = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", int(port)))
peer = listener.accept()[0]
assert peer.recv(7, socket.MSG_WAITALL) == b"welcome"
peer.sendall(b"thanks")
while not os.path.exists(go):
    time.sleep(0.01)
if how == "exec":
    os.set_inheritable(peer.fileno(), True)
    os.execv(python, [python, reader, "inherited", str(peer.fileno())])
way = socket.socket(socket.AF_UNIX)
way.connect(place)
socket.send_fds(way, [b"!"], [peer.fileno()])
"""

# Has sent a hundred bytes before, and closes after.
CLIENT = """
import os, socket, sys, time
port, go, close = sys.argv[1:]
peer = socket.create_connection(("127.0.0.1", int(port)))
peer.sendall(b"welcome")
assert peer.recv(6, socket.MSG_WAITALL) == b"thanks"
peer.sendall(b"x" * 100)
print("sent", flush=True)
while not os.path.exists(close):
    time.sleep(0.01)
"""


@contextlib.contextmanager
def receivers(name: str, net: programs.Network, directory: Path) -> Iterator[programs.Network]:
    """Where the receiving process is at home."""
    if name == "same":
        yield net
        return
    other = directory / "other"
    other.mkdir()
    with programs.network(name, other) as made:
        yield made


def wait_for(process: programs.Process, text: str) -> None:
    """Wait until a program has said something."""
    said = lambda: text in process.output() or not process.running  # noqa: E731
    programs.wait_until(said, f"the program says {text}")
    assert text in process.output(), process.output()


@pytest.mark.parametrize(
    ("how", "daemon", "receiver", "ends"),
    [
        ("send", "lives", "same", "end after 100"),
        ("send", "is dead", "same", "end after 100"),
        ("send", "is new", "same", "end after 100"),
        ("send", "lives", "kernel", "end after 100"),
        ("send", "lives", "ipnuma", "ConnectionResetError after 0"),
        ("exec", "lives", "same", "end after 100"),
        ("exec", "is dead", "same", "end after 100"),
        ("exec", "is new", "same", "end after 100"),
    ],
)
def test_handed_over(tmp_path, port, how, daemon, receiver, ends):
    """What was sent before is there for who gets the connection, or it is told that it is not."""
    python = os.path.realpath(sys.executable)
    reader, go, close, place = (tmp_path / name for name in ("reader.py", "go", "close", "place"))
    reader.write_text(READER)
    with (
        programs.network("ipnuma", tmp_path) as net,
        receivers(receiver, net, tmp_path) as other,
    ):
        learn = {"IPNUMA_LEARN": "0"}
        server = net.start(
            python, "-c", SERVER, python, str(reader), how, str(place), str(port), str(go),
            port=port, env=learn,
        )  # fmt: skip
        if how == "send":
            got = other.start(python, str(reader), "sent", str(place), env=learn)
            programs.wait_until(place.exists, "the receiver listens")
        else:
            got = server
        with net.expect(streams=1, bytes=113):
            client = net.start(python, "-c", CLIENT, str(port), str(go), str(close), env=learn)
            wait_for(client, "sent")
        renewed = contextlib.nullcontext()
        if daemon != "lives":
            net.daemon.kill()
            net.daemon = None
            net.socket.unlink(missing_ok=True)
        if daemon == "is new":
            renewed = programs.network("ipnuma", tmp_path)
        with renewed:
            go.touch()
            finish(server, client, got, close)
        assert ends in got.output(), got.output()


def finish(
    server: programs.Process, client: programs.Process, got: programs.Process, close: Path
) -> None:
    """Close the client's end once the connection is with its receiver."""
    if got is not server:
        server.wait()
    else:
        maps = Path(f"/proc/{server.pid}/cmdline")
        programs.wait_until(lambda: b"inherited" in maps.read_bytes(), "the next program is there")
    close.touch()
    assert client.wait() == 0, client.output()
    assert got.wait() == 0, got.output()


LEFT = """
import os, socket, sys, time
how = sys.argv[1]
def read(connection):
    count = 0
    while data := connection.recv(65536):
        count += len(data)
    print("end after", count, flush=True)
if how == "read":
    read(socket.socket(fileno=int(sys.argv[2])))
    sys.exit()
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    peer = socket.create_connection(listener.getsockname())
    peer.sendall(b"x" * 600_000)
    print("all is sent", flush=True)
    os._exit(0)
connection, _ = listener.accept()
# The writer has found no room for two seconds, and gone on by the kernel.
os.wait()
if how == "send":
    way, end = socket.socketpair()
    if os.fork() == 0:
        connection.close()
        _, descriptors, _, _ = socket.recv_fds(end, 1, 1)
        read(socket.socket(fileno=descriptors[0]))
        os._exit(0)
    socket.send_fds(way, [b"x"], [connection.fileno()])
    connection.close()
else:
    connection.set_inheritable(True)
    go, gone = os.pipe()
    if os.fork() == 0:
        os.read(go, 1)
        program = [sys.executable, sys.argv[2], "read", str(connection.fileno())]
        os.execv(program[0], program)
    connection.close()
    os.write(gone, b"x")
os.wait()
"""


@pytest.mark.parametrize("how", ["send", "exec"])
def test_handed_over_when_the_peer_has_left_its_rings(tmp_path, net, how):
    """The daemon keeps the channel for what is not read yet."""
    script = tmp_path / "left.py"
    script.write_text(LEFT)
    python = os.path.realpath(sys.executable)
    said = net.run(python, str(script), how, str(script), env={"IPNUMA_LEARN": "0"})
    assert "end after 600000" in said, said


# Gives one end of each of its connections to a child by message, and lives on.
MASTER = """
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
for _ in range(int(sys.argv[1])):
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
    client.sendall(b"x")
    assert server.recv(1) == b"x"
    way, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        client.close()
        server.close()
        own = socket.socket(fileno=socket.recv_fds(there, 1, 1)[1][0])
        assert own.recv(1) == b"y"
        os._exit(0)
    socket.send_fds(way, [b"!"], [server.fileno()])
    server.close()
    client.sendall(b"y")
    assert os.waitpid(child, 0)[1] == 0
    client.close()
print("all are over", flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_what_was_handed_over(tmp_path):
    """The daemon forgets a connection whose ends are gone, while who has passed it on lives."""
    rounds = 30
    with programs.network("ipnuma", tmp_path) as net:
        with net.expect(streams=rounds):
            argv = [sys.executable, "-c", MASTER, str(rounds)]
            master = net.start(*argv, env={"IPNUMA_LEARN": "0"})
            wait_for(master, "all are over")
        programs.wait_until(lambda: net.open_streams() == 0, "the daemon has forgotten them")
        assert master.running, master.output()


# A forked worker gives its connection to a program that it starts.
WORKER = """
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
client.sendall(b"x")
assert server.recv(1) == b"x"
child = os.fork()
if child == 0:
    fd = server.fileno()
    says = f"import socket; socket.socket(fileno={fd}).sendall(b'hello')"
    os._exit(subprocess.call([sys.executable, "-c", says], pass_fds=[fd]))
assert os.waitpid(child, 0)[1] == 0
print(client.recv(10))
"""


def test_a_forked_worker_starts_a_program(tmp_path):
    """It can have the library, so the connection stays in its rings."""
    with programs.network("ipnuma", tmp_path) as net, net.expect(streams=1):
        argv = [sys.executable, "-c", WORKER]
        worker = net.start(*argv, env={"IPNUMA_LEARN": "0", "IPNUMA_TRACE": "1"})
        assert worker.wait() == 0, worker.output()
        assert "b'hello'" in worker.output(), worker.output()
        assert "left" not in worker.output(), worker.output()


# Its peer has answered, and ended with bytes unread. A program without the library gets the rest.
CUT = """
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
client.sendall(b"question")
server.sendall(b"answer")
server.close()
reader = '''
import socket, sys
peer = socket.socket(fileno=int(sys.argv[1]))
for _ in range(3):
    try:
        print(peer.recv(100))
    except OSError as error:
        print(type(error).__name__)
'''
plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
fd = client.fileno()
subprocess.check_call([sys.executable, "-c", reader, str(fd)], pass_fds=[fd], env=plain)
"""


@pytest.mark.parametrize("network", ["kernel", "ipnuma"])
def test_what_was_sent_before_a_reset(tmp_path, network):
    """First the answer, then the reset, then the end."""
    with programs.network(network, tmp_path) as net, net.expect(streams=1):
        argv = [sys.executable, "-c", CUT]
        program = net.start(*argv, env={"IPNUMA_LEARN": "0"})
        assert program.wait() == 0, program.output()
        said = "b'answer'\nConnectionResetError\nb''\n"
        assert program.output().endswith(said), program.output()


# A client has sent a request, and waits for something else. A program without the library gets
# the server's end.
ELSEWHERE = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
done, says = os.pipe()
if os.fork() == 0:
    server = listener.accept()[0]
    server.sendall(b"ready")
    while server.recv(100, socket.MSG_PEEK) != b"request":
        pass
    os.dup2(server.fileno(), 0)
    os.dup2(says, 1)
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    os.execve("/usr/bin/head", ["head", "--bytes", sys.argv[1]], plain)
os.close(says)
client = socket.create_connection(listener.getsockname())
listener.close()
client.recv(5)
client.sendall(b"request")
if sys.argv[1] == "8":
    client.shutdown(socket.SHUT_WR)
print(os.read(done, 100))
client.close()
"""


@pytest.mark.parametrize("wanted", [7, 8])
def test_the_peer_makes_no_call(tmp_path, wanted):
    """What it has sent, and its end, are sent on in its place: it waits for what comes of them."""
    with programs.network("ipnuma", tmp_path) as net, net.expect(streams=1):
        argv = [sys.executable, "-c", ELSEWHERE, str(wanted)]
        program = net.start(*argv, env={"IPNUMA_LEARN": "0"})
        assert program.wait() == 0, program.output()
        assert "b'request'" in program.output(), program.output()


# Gives its connection to a program that it has started without the library, over a pair of sockets.
PAIR = """
import os, socket, subprocess, sys
reader = '''
import socket
way = socket.socket(fileno=0)
peer = socket.socket(fileno=socket.recv_fds(way, 1, 1)[1][0])
got = b""
while piece := peer.recv(1000):
    got += piece
print(got, flush=True)
peer.sendall(b"answer")
'''
plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
own, others = socket.socketpair()
program = subprocess.Popen([sys.executable, "-c", reader], stdin=others, env=plain)
others.close()
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
client.sendall(b"hello, ")
assert server.recv(2) == b"he"
client.sendall(b"world")
socket.send_fds(own, [b"!"], [server.fileno()])
server.close()
client.sendall(b"!")
client.shutdown(socket.SHUT_WR)
print(client.recv(100), program.wait())
"""


def test_a_pair_of_sockets_to_a_program_without_the_library(tmp_path):
    """The kernel does not say who has the other end; it gets all the same."""
    with programs.network("ipnuma", tmp_path) as net, net.expect(streams=1):
        argv = [sys.executable, "-c", PAIR]
        program = net.start(*argv, env={"IPNUMA_LEARN": "0"})
        assert program.wait() == 0, program.output()
        assert "b'llo, world!'" in program.output(), program.output()
        assert "b'answer' 0" in program.output(), program.output()


# Sends its connection to a child that becomes a program without the library only then.
BEFORE = """
import os, socket, sys, time
reader = '''
import socket
way = socket.socket(fileno=0)
count = len(way.recv(5))
peer = socket.socket(fileno=socket.recv_fds(way, 1, 1)[1][0])
got = b""
while piece := peer.recv(1000):
    got += piece
print(count, got, flush=True)
peer.sendall(b"answer")
'''
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
client.sendall(b"hello, ")
assert server.recv(2) == b"he"
own, others = socket.socketpair()
go, gone = os.pipe()
plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
argv = [sys.executable, "-c", reader]
def become():
    os.read(go, 1)
    os.dup2(others.fileno(), 0)
    os.execve(argv[0], argv, plain)
if sys.argv[1] == "fork" and os.fork() == 0:
    server.close()
    become()
own.sendall(b"first")
socket.send_fds(own, [b"!"], [server.fileno()])
server.close()
client.sendall(b"world!")
if sys.argv[1] == "spawn":
    way = [(os.POSIX_SPAWN_DUP2, others.fileno(), 0)]
    os.posix_spawn(argv[0], argv, plain, file_actions=way)
os.write(gone, b"x")
client.shutdown(socket.SHUT_WR)
print(client.recv(100), os.wait()[1])
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_message_waits_for_a_program_without_the_library(tmp_path, how):
    """Whoever becomes that program looks into what waits for it."""
    with programs.network("ipnuma", tmp_path) as net, net.expect(streams=1):
        argv = [sys.executable, "-c", BEFORE, how]
        program = net.start(*argv, env={"IPNUMA_LEARN": "0"})
        assert program.wait() == 0, program.output()
        assert "5 b'llo, world!'" in program.output(), program.output()
        assert "b'answer' 0" in program.output(), program.output()


# One thread waits for what the other one's question brings; the peer leaves its rings meanwhile.
ASKING = """
import os, socket, sys, threading, time
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    client = socket.create_connection(listener.getsockname())
    def ask():
        time.sleep(0.05)
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
    asker = threading.Thread(target=ask)
    asker.start()
    got = 0
    while piece := client.recv(65536):
        got += len(piece)
    asker.join()
    print("end after", got, flush=True)
    os._exit(0)
server = listener.accept()[0]
while server.recv(100):
    pass
server.sendall(b"a" * 30_000)
time.sleep(0.1)
TCP_INQ = 36
server.setsockopt(socket.IPPROTO_TCP, TCP_INQ, 1)
time.sleep(0.1)
server.sendall(b"b" * 100_000)
server.close()
os.wait()
"""


def test_the_rings_are_left_behind_an_end(tmp_path):
    """A thread that slept when another one said the end reads on."""
    with programs.network("ipnuma", tmp_path) as net, net.expect(streams=1):
        program = net.start(sys.executable, "-c", ASKING, env={"IPNUMA_LEARN": "0"})
        assert program.wait() == 0, program.output()
        assert "end after 130000" in program.output(), program.output()
