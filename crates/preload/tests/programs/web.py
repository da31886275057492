# SPDX-License-Identifier: Apache-2.0
"""A web server with threads and its client in one process, a file of 3 MB byte for byte."""

import http.server
import os
import tempfile
import threading
import urllib.request
from pathlib import Path


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def main():
    content = os.urandom(3_000_000)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("file").write_bytes(content)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(10):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/file") as answer:
                assert answer.read() == content
        server.shutdown()
        os.chdir("/")


main()
