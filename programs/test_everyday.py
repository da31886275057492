# SPDX-License-Identifier: Apache-2.0
"""Programs with habits of their own: accept late, stdio on sockets, sandboxes, io_uring."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

import programs
from programs import HOST

PAGE = b"<html>" + b"y" * 800 + b"</html>\n"


def interpreter() -> str:
    """Name the interpreter itself: what is first on the path may be a script that starts it."""
    return os.path.realpath(sys.executable)


def test_ab_and_a_server_that_accepts_late(net, port):
    """One thread serves twenty clients: those that wait for long go back to the kernel, and end."""
    files = net.directory / "files"
    files.mkdir()
    (files / "page.html").write_bytes(PAGE)
    count = 3000
    argv = [interpreter(), "-m", "http.server", "--bind", HOST, "--directory", str(files)]
    with net.server(*argv, str(port), port=port):
        url = f"http://{HOST}:{port}/page.html"
        said = net.run("ab", "-q", "-n", str(count), "-c", "20", "-l", url)
    assert f"Complete requests:      {count}" in said, said
    assert "Failed requests:        0" in said, said
    assert f"HTML transferred:       {count * len(PAGE)} bytes" in said, said


SERVICE = """#!/bin/bash
read -r name number
echo "hello $name"
for ((i = 0; i < number; i++)); do printf 'line %d\\n' "$i"; done
cat -
echo "bye"
"""


def test_a_shell_service_behind_socat(net, port):
    """A script whose standard input and output are a connection: builtins by stdio, and a child."""
    script = net.directory / "service.sh"
    script.write_text(SERVICE)
    script.chmod(0o755)
    asks = net.directory / "asks"
    asks.write_text("world 500\nand more\n")
    listen = f"TCP-LISTEN:{port},bind={HOST},reuseaddr,fork"
    lines = "".join(f"line {number}\n" for number in range(500))
    with net.server("socat", listen, f"EXEC:{script},nofork", port=port):
        for _ in range(3):
            said = net.run("socat", "-t", "30", f"OPEN:{asks}!!STDOUT", f"TCP:{HOST}:{port}")
            assert said == f"hello world\n{lines}and more\nbye\n", said[-200:]


CHILDREN = """
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
for size in (5, 5000, 300000):
    for way in ("popen", "posix_spawn", "missing"):
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        if way == "missing":
            # A child that closes all, and finds no program; the connection goes on.
            try:
                subprocess.Popen([sys.argv[1]])
            except FileNotFoundError:
                pass
        if way == "posix_spawn":
            to = [(os.POSIX_SPAWN_DUP2, server.fileno(), n) for n in (0, 1)]
            to += [(os.POSIX_SPAWN_CLOSE, client.fileno())]
            child = os.posix_spawnp("cat", ["cat"], os.environ, file_actions=to)
        else:
            child = subprocess.Popen(["cat"], stdin=server, stdout=server).pid
        server.close()
        sent = os.urandom(size)
        if os.fork() == 0:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            os._exit(0)
        got = b""
        while piece := client.recv(65536):
            got += piece
        os.waitpid(child, 0)
        os.wait()
        print(size, way, got == sent)
"""


def test_children_that_have_a_connection_for_standard_input(net):
    """By vfork and by posix_spawn, from descriptors that they do not keep."""
    with net.expect(streams=9):
        said = net.run(interpreter(), "-c", CHILDREN, str(net.directory / "no-such-program"))
    wanted = [
        f"{size} {way} True"
        for size in (5, 5000, 300000)
        for way in ("popen", "posix_spawn", "missing")
    ]
    assert said.splitlines() == wanted


def git(net: programs.Network, *argv: str) -> str:
    """Run git without its user's configuration."""
    env = {
        "HOME": str(net.directory),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    return net.run("git", *argv, env=env, cwd=net.directory)


def test_git_clones_from_its_daemon(net, port):
    """git daemon starts upload-pack on the connection, which answers by stdio."""
    source = net.directory / "source"
    source.mkdir()
    git(net, "init", "-q", str(source))
    (source / "large").write_bytes(os.urandom(300_000))
    git(net, "-C", str(source), "add", "large")
    git(net, "-C", str(source), "commit", "-q", "-m", "one")
    argv = ["git", "daemon", f"--listen={HOST}", f"--port={port}", "--export-all"]
    with net.server(*argv, f"--base-path={net.directory}", port=port), net.expect(streams=2):
        for number in range(2):
            git(
                net, "clone", "-q", f"git://{HOST}:{port}/source", str(net.directory / f"c{number}")
            )
    for number in range(2):
        assert (net.directory / f"c{number}/large").read_bytes() == (source / "large").read_bytes()


def test_busybox_wget(net, port):
    """A client that makes a FILE of its connection."""
    files = net.directory / "files"
    files.mkdir()
    (files / "page.html").write_bytes(PAGE)
    got = net.directory / "got"
    argv = [interpreter(), "-m", "http.server", "--bind", HOST, "--directory", str(files)]
    with net.server(*argv, str(port), port=port), net.expect(streams=1):
        url = f"http://{HOST}:{port}/page.html"
        net.run("busybox", "wget", "-q", "-O", str(got), url)
    assert got.read_bytes() == PAGE


SSHD = """
Port {port}
ListenAddress {host}
HostKey {directory}/host
PidFile {directory}/sshd.pid
AuthorizedKeysFile {directory}/client.pub
StrictModes no
UsePAM no
PasswordAuthentication no
SetEnv HOME={directory}
Subsystem sftp internal-sftp
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="sshd changes its user")
@pytest.mark.parametrize("policy", ["", "/dev/null"], ids=["built-in", "no-policy"])
def test_ssh_and_scp(net, port, policy):
    """sshd confines the child that talks to strangers: the kernel kills it for other calls.

    The built-in policy leaves it to the kernel; without one its connections leave their rings.
    """
    directory = net.directory
    for name in ("host", "client"):
        net.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name))
    configuration = directory / "sshd.conf"
    configuration.write_text(SSHD.format(port=port, host=HOST, directory=directory))
    Path("/run/sshd").mkdir(exist_ok=True)
    options = [
        "-F", "none", "-i", str(directory / "client"), "-o", "StrictHostKeyChecking=no",
        "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
    ]  # fmt: skip
    sent = directory / "sent"
    sent.write_bytes(os.urandom(2_000_000))
    got = directory / "got"
    argv = [programs.tool("sshd"), "-D", "-e", "-f", str(configuration)]
    with net.server(*argv, port=port, env={"IPNUMA_POLICY": policy}):
        for _ in range(3):
            said = net.run(
                "ssh", *options, "-p", str(port), f"root@{HOST}", "echo hello; exit 3", status=3
            )
            assert said == "hello\n", said
        net.run("scp", *options, "-q", "-P", str(port), str(sent), f"root@{HOST}:{got}")
    assert got.read_bytes() == sent.read_bytes()


ECHO = """
import socket, sys
port = int(sys.argv[1])
if sys.argv[2:] == ["server"]:
    listener = socket.create_server(("127.0.0.1", port))
    for _ in range(4):
        peer = listener.accept()[0]
        while got := peer.recv(65536):
            peer.sendall(got)
        peer.close()
else:
    client = socket.create_connection(("127.0.0.1", port))
    for round in range(1, 40):
        sent = bytes([round]) * (round * 100)
        client.sendall(sent)
        got = b""
        while len(got) < len(sent):
            got += client.recv(len(sent) - len(got))
        assert got == sent
print("done")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such namespaces")
@pytest.mark.parametrize("which", ["server", "client", "both", "neither"])
def test_the_library_is_preloaded_in_containers(net, port, which):
    """Plain LD_PRELOAD, in namespaces of its own but for the network's."""
    script = net.directory / "echo.py"
    script.write_text(ECHO)
    library = programs.executable().resolve().with_name("libipnuma_socket.so")
    preload = ["env", f"LD_PRELOAD={library}"] if net.accelerated else []
    container = ["unshare", "--pid", "--fork", "--mount-proc", "--ipc", "--uts", "--cgroup"]

    def started(role: str) -> list[str]:
        around = container if which in (role, "both") else []
        return [*around, *preload, interpreter(), str(script), str(port), role]

    with net.expect(streams=4, bytes=4 * 2 * 78_000):
        server = net.start(*started("server"), port=port, bare=True)
        for _ in range(4):
            assert net.run(*started("client"), bare=True) == "done\n"
        assert server.wait(programs.PATIENCE) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such namespaces")
def test_a_daemon_in_a_container_refuses_who_is_outside(tmp_path):
    """It could not see that such a process ends."""
    ipnuma, path = str(programs.executable()), tmp_path / "daemon.sock"
    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with subprocess.Popen([*container, ipnuma, "daemon", "--socket", str(path)]) as daemon:
        programs.wait_until(path.exists, "the daemon listens")
        env = os.environ | {"IPNUMA_DAEMON": str(path)}
        line = [ipnuma, "sockets"]
        asked = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
        daemon.kill()
    assert asked.returncode != 0
    assert "PID namespace" in asked.stderr


ASKS_FOR_A_RING = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
room = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 8, room)
print(ring, ctypes.get_errno())
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
client.sendall(b"x")
assert server.recv(1) == b"x"
"""


def test_why_sockets_are_the_kernels(net, port):
    """The daemon counts what was left to the kernel, by reason."""
    script = net.directory / "ring.py"
    script.write_text(ASKS_FOR_A_RING)
    said = net.run(interpreter(), str(script))
    if net.accelerated:
        assert said.split() == ["-1", str(errno.ENOSYS)], said
        assert net.fallbacks() == {"io-uring": 1}


TWICE = """
import os, select, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    while True:
        peer = listener.accept()[0]
        peer.sendall(peer.recv(1))
        peer.close()

def exchange(twice):
    client = socket.socket()
    client.setblocking(False)
    print("first", flush=True)
    client.connect_ex(listener.getsockname())
    select.select([], [client], [])
    if twice:
        print("second", flush=True)
        client.connect_ex(listener.getsockname())
    print("connected", flush=True)
    client.setblocking(True)
    client.sendall(b"x")
    assert client.recv(1) == b"x"

# The first call of one is the last that is left to the kernel, and the second were to be tried.
for _ in range(17):
    exchange(False)
for _ in range(20):
    exchange(True)
os.kill(0, 15)
"""


def test_what_is_left_to_the_kernel_stays_its(net):
    """Who calls connect again, to see what has become of it, has no channel that its peer lacks."""
    # It ends itself and its child, by a signal.
    client = net.start(interpreter(), "-c", TWICE, env={"IPNUMA_TRACE": "1"})
    assert client.wait() == -signal.SIGTERM, client.output()
    lines = client.output().splitlines()
    assert lines.count("second") == 20
    for number, line in enumerate(lines):
        assert line != "second" or lines[number + 1] == "connected", lines[number:][:3]
    assert ("accelerated" in client.output()) == net.accelerated


STUCK = """
import os, socket, sys, threading, time
print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
asking = threading.Thread(target=socket.create_server, args=(("127.0.0.1", 0),))
asking.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    time.sleep(0.01)
print("still asking" if asking.is_alive() else "asked", flush=True)
asking.join()
"""


def test_a_daemon_that_hangs_holds_up_who_asks_it_alone(tmp_path):
    """A thread waits for the daemon's answer; the process forks all the same."""
    with programs.network("ipnuma", tmp_path) as net:
        go = net.directory / "go"
        program = net.start(interpreter(), "-c", STUCK, str(go))
        programs.wait_until(lambda: "up" in program.output(), "the program is there")
        os.kill(net.daemon.pid, signal.SIGSTOP)
        try:
            go.touch()
            programs.wait_until(lambda: "ask" in program.output(), "the program has forked")
        finally:
            os.kill(net.daemon.pid, signal.SIGCONT)
        assert program.wait() == 0, program.output()
        assert program.output().split("\n") == ["up", "still asking", ""]


GOES_ON = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
while True:
    client.sendall(b"x" * 100)
    got = 0
    while got < 100:
        got += len(server.recv(100 - got))
"""


def test_rates_of_connections(net):
    """What an end sends in a second is told from the second look on."""
    if not net.accelerated:
        return
    script = net.directory / "goes_on.py"
    script.write_text(GOES_ON)
    process = net.start(interpreter(), str(script))
    argv = [str(programs.executable()), "sockets", "--watch", "--json"]
    with subprocess.Popen(argv, env=net.environment(), stdout=subprocess.PIPE, text=True) as watch:
        looks = (document["result"]["sockets"] for document in documents(watch.stdout))
        ends = (socket["ends"] for sockets in looks for socket in sockets)
        client, server = next(pair for pair in ends if pair[0].get("messages_per_s", 0) > 0)
        watch.kill()
    process.kill()
    # Rounded, and each look may come between the two counts of a message.
    assert abs(client["bytes_per_s"] - 100 * client["messages_per_s"]) <= 4 * 100
    assert (server["messages_per_s"], server["bytes_per_s"]) == (0, 0)


def documents(stream: IO[str]) -> Iterator[dict]:
    """Give each JSON document that comes."""
    decoder, text = json.JSONDecoder(), ""
    for line in stream:
        text += line
        with contextlib.suppress(json.JSONDecodeError):
            document, end = decoder.raw_decode(text)
            text = text[end:].lstrip()
            yield document


NODE = """
const net = require('net');
const server = net.createServer(peer => peer.pipe(peer)).listen(0, '127.0.0.1', () => {
  let left = 10;
  for (let number = 0; number < 10; number++) {
    const client = net.connect(server.address().port, '127.0.0.1');
    let round = 0, got = 0;
    const next = () => {
      if (round == 50) {
        client.end();
        if (--left == 0) { console.log('done'); server.close(); }
        return;
      }
      got = 0;
      client.write(Buffer.alloc(++round * 100));
    };
    client.on('data', piece => { got += piece.length; if (got == round * 100) next(); });
    next();
  }
});
"""


@pytest.mark.parametrize("rings", [False, True])
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_node(net, rings):
    """An event loop of libuv, also one that asks for an io_uring, as some versions do unasked."""
    script = net.directory / "echo.js"
    script.write_text(NODE)
    env = {"UV_USE_IO_URING": "1" if rings else "0"}
    with net.expect(streams=10, bytes=1_000_000):
        assert net.run("node", str(script), env=env) == "done\n"
    if net.accelerated and rings and libuv() >= (1, 45):
        assert net.fallbacks()["io-uring"] > 0


def libuv() -> tuple[int, int]:
    """Ask Node which version of libuv it has."""
    argv = [programs.tool("node"), "-p", "process.versions.uv"]
    major, minor, _ = subprocess.check_output(argv, text=True).split(".")
    return int(major), int(minor)


def test_short_connections(net, port):
    """Connections that are all short are left to the kernel after a while, and counted."""
    script = net.directory / "short.py"
    script.write_text(SHORT)
    net.run(interpreter(), str(script))
    if net.accelerated:
        counted = net.fallbacks()
        # Sixteen in a row, then 32, one, 128, one and the rest.
        assert counted["short"] == 200 - 16 - 2, counted
        assert net.totals().streams == 18


SHORT = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
for number in range(200):
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
    client.sendall(b"%d" % number)
    assert server.recv(10) == b"%d" % number
    server.sendall(b"back")
    assert client.recv(10) == b"back"
    server.close()
    client.close()
"""


def test_functions_with_any_number_of_arguments(net, port):
    """dprintf writes to a connection; what execl starts goes on with one, library or not."""
    script = net.directory / "many.py"
    script.write_text(MANY)
    assert net.run(interpreter(), str(script)) == "done\n"


MANY = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.execle.argtypes = None
listener = socket.create_server(("127.0.0.1", 0))
def pair():
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]
client, server = pair()
said = b"".join(b"%d " % number for number in range(9)) + b"text\\n"
assert libc.dprintf(server.fileno(), b"%d " * 9 + b"%s\\n", *range(9), b"text") == len(said)
assert client.recv(100) == said
for how in range(3):
    client, server = pair()
    client.sendall(b"ahead ")
    child = os.fork()
    if child == 0:
        os.dup2(server.fileno(), 0)
        os.dup2(server.fileno(), 1)
        words = [b"sh", b"-c", b'cat; echo "$0 $1 $2 $3 $4 $5"', b"a", b"b", b"c", b"d", b"e", b"f"]
        none = ctypes.c_char_p(None)
        if how == 0:
            libc.execl(b"/bin/sh", *words, none)
        if how == 1:
            libc.execlp(b"sh", *words, none)
        environment = (ctypes.c_char_p * 2)(b"PATH=/usr/bin:/bin", None)
        libc.execle(b"/bin/sh", *words, none, environment)
        os._exit(1)
    server.close()
    client.sendall(b"more")
    client.shutdown(socket.SHUT_WR)
    got = b""
    while piece := client.recv(1000):
        got += piece
    assert got == b"ahead morea b c d e f\\n", (how, got)
    assert os.waitpid(child, 0)[1] == 0
print("done")
"""
