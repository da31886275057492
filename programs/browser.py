# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium, driven over its debugging pipe: no port, no driver, no network.

Chromium reads commands from descriptor 3 and writes answers and events to 4, JSON with a zero byte
behind each (--remote-debugging-pipe).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A machine that works needs seconds; it only keeps a hang from lasting.
PATIENCE = 100.0
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class BrowserError(RuntimeError):
    """Chromium did not start, did not answer, or refused a command."""


class Page:
    """One page; `events` has what Chromium said about it."""

    def __init__(self, commands: int, answers: int):
        self.commands = commands
        self.answers = answers
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def receive(self, deadline: float) -> dict[str, Any]:
        """Wait for the next message."""
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise BrowserError(f"Chromium said nothing for {PATIENCE:.0f} s")
            piece = os.read(self.answers, 1 << 20)
            if not piece:
                raise BrowserError("Chromium ended")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give a command and return its result; events are put aside."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(deadline)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def wait_for(self, method: str) -> None:
        """Wait until an event has come."""
        deadline = time.monotonic() + PATIENCE
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive(deadline))

    def open(self, address: str) -> None:
        """Show a page and wait until it is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise BrowserError(f"{expression}: {found['exceptionDetails']['text']}")
        return found["result"].get("value")

    def look(self, width: int, dark: bool = False) -> None:
        """Set the width of the window in pixels, and the colours that the reader prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write the whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def requests(self) -> list[str]:
        """List the addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """List errors and warnings of the page: its console, its exceptions, what Chromium logs."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            match event.get("method"):
                case "Log.entryAdded":
                    found.append(parameters["entry"]["text"])
                case "Runtime.exceptionThrown":
                    found.append(parameters["exceptionDetails"]["text"])
                case "Runtime.consoleAPICalled":
                    found.append(str(parameters["args"]))
        return found


@contextlib.contextmanager
def chromium() -> Iterator[Page]:
    """Start Chromium with a profile of its own; it ends with the block."""
    program = shutil.which("chromium")
    if program is None:
        raise BrowserError("chromium is not installed; tools/setup brings it")
    there, commands = os.pipe()
    answers, back = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Bash puts the pipes where Chromium looks for them.
        line = f'exec "$@" 3<&{there} 4>&{back}'
        arguments = [program, *FLAGS, f"--user-data-dir={profile}"]
        child = subprocess.Popen(
            ["bash", "-c", line, "bash", *arguments],
            pass_fds=(there, back),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": profile},
        )
        os.close(there)
        os.close(back)
        try:
            yield Page(commands, answers)
        finally:
            child.kill()
            child.wait()
            os.close(commands)
            os.close(answers)
