# SPDX-License-Identifier: Apache-2.0
"""nginx: static files by sendfile and by writev, plain and by TLS, to wrk, ab and curl."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import programs

CONFIGURATION = """
daemon off;
{user}
worker_processes 2;
pid {directory}/nginx.pid;
error_log {directory}/error.log info;
events {{ worker_connections 512; {events} }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  keepalive_requests 1000000;
  client_max_body_size 10m;
  client_body_buffer_size 16k;
  sendfile on;
  server {{
    listen {host}:{port} {listen};
    listen {host}:{tls} ssl;
    ssl_certificate {directory}/server.crt;
    ssl_certificate_key {directory}/server.key;
    root {directory}/files;
    location /copied/ {{ sendfile off; alias {directory}/files/; }}
    location /through/ {{ proxy_pass http://{host}:{port}/; proxy_http_version 1.1; }}
    location /stored/ {{ dav_methods PUT DELETE; create_full_put_path on; }}
    location /said {{ return 200 "{said}"; }}
  }}
}}
"""


def certificate(directory: Path) -> None:
    """Make a certificate for localhost that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / "server.crt").write_bytes(made.public_bytes(pem))
    (directory / "server.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@dataclass
class Site:
    """A running nginx."""

    port: int
    tls: int
    files: Path

    def url(self, path: str) -> str:
        return f"http://{programs.HOST}:{self.port}/{path}"


SAID = "by a worker\\n"
SMALL = b"<html>" + b"x" * 500 + b"</html>\n"
LARGE = os.urandom(1 << 20)
HUGE = os.urandom(1 << 20) * 16


@pytest.fixture
def site(request, net: programs.Network, port: int) -> Iterator[Site]:
    """nginx with two workers that share its listener, have one each, or are another user."""
    kind = getattr(request, "param", "shared")
    user = "www-data" if kind == "other" else "root"
    directory = net.directory / "nginx"
    files = directory / "files"
    (files / "stored").mkdir(parents=True)
    (files / "small.html").write_bytes(SMALL)
    (files / "large.bin").write_bytes(LARGE)
    (files / "huge.bin").write_bytes(HUGE)
    certificate(directory)
    shared = kind != "reuseport"
    made = Site(port, programs.free_port(), files)
    configuration = directory / "nginx.conf"
    configuration.write_text(
        CONFIGURATION.format(
            directory=directory,
            host=programs.HOST,
            port=port,
            tls=made.tls,
            said=SAID,
            # The daemon talks only to its own user: workers stay that.
            user=f"user {user};" if os.geteuid() == 0 else "",
            events="accept_mutex on; multi_accept on;" if shared else "",
            listen="" if shared else "reuseport",
        )
    )
    argv = ["nginx", "-p", str(directory), "-c", str(configuration), "-e", f"{directory}/early.log"]
    with net.server(*argv, port=port):
        yield made
    log = (directory / "error.log").read_text()
    bad = [line for line in log.splitlines() if re.search(r"\[(alert|crit|emerg|error)\]", line)]
    assert not bad, "\n".join(bad[:20])


@pytest.mark.parametrize("path", ["small.html", "large.bin"], ids=["small", "large"])
@pytest.mark.parametrize("site", ["shared", "reuseport"], indirect=True)
def test_wrk(net, site, path):
    """Sixteen connections that stay open, from two threads: no socket error, only status 200."""
    with net.expect(streams=16, bytes=1_000_000):
        said = net.run("wrk", "-t", "2", "-c", "16", "-d", "1s", "--timeout", "10s", site.url(path))
    requests = re.search(r"(\d+) requests in", said)
    assert requests and int(requests[1]) > 50, said
    assert "Socket errors" not in said, said
    assert "Non-2xx" not in said, said


@pytest.mark.parametrize("keep", [True, False], ids=["keepalive", "fresh"])
def test_ab(net, site, keep):
    """Connections that stay, and one connection a request, ended by the server's FIN."""
    count = 5000 if keep else 2000
    # All are to be accelerated, although short ones gain nothing.
    env = {"IPNUMA_LEARN": "0"}
    with net.expect(streams=8 if keep else count, bytes=count * len(SMALL)):
        said = net.run(
            "ab", "-q", "-n", str(count), "-c", "8", *(["-k"] if keep else []), "-l",
            site.url("small.html"), env=env,
        )  # fmt: skip
    assert f"Complete requests:      {count}" in said, said
    assert "Failed requests:        0" in said, said
    assert f"HTML transferred:       {count * len(SMALL)} bytes" in said, said


def test_ab_large(net, site):
    """Files of a megabyte by sendfile, one connection each: the last byte comes before the FIN."""
    with net.expect(streams=100, bytes=100 * len(LARGE)):
        said = net.run("ab", "-q", "-n", "100", "-c", "4", site.url("large.bin"))
    assert "Complete requests:      100" in said, said
    assert "Failed requests:        0" in said, said
    assert f"HTML transferred:       {100 * len(LARGE)} bytes" in said, said


def curl(net: programs.Network, *argv: str) -> str:
    """Run curl; any error is a failure."""
    return net.run("curl", "--fail", "--silent", "--show-error", "--max-time", "30", *argv)


@pytest.mark.parametrize("how", ["", "copied/", "through/"], ids=["sendfile", "writev", "proxy"])
def test_curl_gets_files(net, site, how):
    """Files come byte for byte: by sendfile, by writev, through a second server."""
    with net.expect(streams=2, bytes=len(HUGE)):
        for name, content in (("small.html", SMALL), ("huge.bin", HUGE)):
            got = net.directory / f"got-{name}"
            curl(net, "--output", str(got), site.url(how + name))
            assert got.read_bytes() == content, name


def test_curl_slow_reader(net, site):
    """A reader that takes 4 MB a second holds the server back and still gets every byte."""
    got = net.directory / "got"
    with net.expect(streams=1, bytes=len(LARGE)):
        curl(net, "--limit-rate", "4M", "--output", str(got), site.url("large.bin"))
    assert got.read_bytes() == LARGE


def test_curl_part_of_a_file(net, site):
    """A range is answered by sendfile from the middle of a file."""
    got = net.directory / "got"
    with net.expect(streams=1, bytes=100_000):
        curl(net, "--range", "300000-399999", "--output", str(got), site.url("large.bin"))
    assert got.read_bytes() == LARGE[300000:400000]


def test_curl_sends_a_file(net, site):
    """A file of a megabyte is sent with Expect: 100-continue, and read back."""
    source = net.directory / "source"
    source.write_bytes(LARGE)
    with net.expect(streams=1, bytes=len(LARGE)):
        curl(net, "--upload-file", str(source), site.url("stored/sent"))
    assert (site.files / "stored" / "sent").read_bytes() == LARGE


def test_curl_by_tls(net, site):
    """TLS records pass as any other bytes."""
    got = net.directory / "got"
    authority = net.directory / "nginx" / "server.crt"
    with net.expect(streams=1, bytes=len(HUGE)):
        curl(
            net, "--cacert", str(authority), "--resolve", f"localhost:{site.tls}:{programs.HOST}",
            "--output", str(got), f"https://localhost:{site.tls}/huge.bin",
        )  # fmt: skip
    assert got.read_bytes() == HUGE


def test_curl_many_at_once(net, site):
    """Eight transfers at once in one process, and a reused connection afterwards."""
    urls = []
    for number in range(8):
        urls += ["--output", str(net.directory / f"got{number}"), site.url("large.bin")]
    with net.expect(streams=2, bytes=8 * len(LARGE)):
        curl(net, "--parallel", "--parallel-immediate", "--parallel-max", "8", *urls)
    for number in range(8):
        assert (net.directory / f"got{number}").read_bytes() == LARGE


def test_reload(net, site):
    """SIGHUP: new workers take over the listeners, old ones end; requests are served throughout."""
    with net.expect(streams=20):
        for number in range(20):
            if number % 7 == 3:
                net.run("kill", "-HUP", (net.directory / "nginx" / "nginx.pid").read_text().strip())
            assert "<html>" in curl(net, site.url("small.html"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start workers of another user")
@pytest.mark.parametrize("site", ["other"], indirect=True)
def test_workers_of_another_user(net, site):
    """Workers to whom the daemon does not talk serve clients by the kernel, whole and in order."""
    before = net.totals()
    for _ in range(5):
        assert curl(net, site.url("said")) == SAID.replace("\\n", "\n")
    # What a client had announced before it found out is all that may be on a ring.
    assert (net.totals() - before).bytes < 1000
