# SPDX-License-Identifier: Apache-2.0
"""Build the project and tell what the dissertation found, on one screen; ./demo calls this.

What is shown first is built first: the ping-pong waits for one model, chapter 6 for the guests'
kernel and the rest. The programs are compiled while the tools are brought in, which they do not
need. While something is built a line on standard error says what, how much of it is there, and how
long it has taken.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from options import Parser

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BIN = TARGET / "release"
LOGS = ROOT / ".build" / "demo"
REPORT = Path("out") / "report.html"
CARGO = ["cargo", "build", "--release", "--locked", "-p"]
# What the ping-pong runs.
FIRST_MODEL = "ipnuma_nic_10g"
# Between two lines of progress where they are not written over each other.
QUIET_SECONDS = 15.0


class Failed(Exception):
    """A step failed; the text says which, and where its output is."""


class Step:
    """Something that is built by a command while others are."""

    def __init__(self, name: str, *commands: list[str], after: Sequence[Step] = ()) -> None:
        """Take the commands, which run one after the other, and the steps that must end before."""
        self.name = name
        self.commands = commands
        self.after = after
        # What tools/setup says: it may ask for something that only the user can do.
        self.said: list[str] = []
        self.state = "waits"
        self.part = ""
        self.failure: str | None = None
        self.seen: set[str] = set()
        self.ended = threading.Event()
        self.changed = threading.Condition()

    def run(self) -> None:
        """Run the commands; what they print goes to a log, what they count to the progress line."""
        for step in self.after:
            step.ended.wait()
            self.failure = self.failure or step.failure
        log = LOGS / f"{self.name.replace(' ', '-')}.log"
        self.state = "runs"
        with log.open("w") as stream:
            for command in [] if self.failure else self.commands:
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
                for line in process.stdout or ():
                    stream.write(line)
                    self.notice(line)
                if process.wait() != 0:
                    told = "".join(f"{line}\n" for line in self.said)
                    self.failure = f"{told}{' '.join(command)} failed; its output is in {log}"
                    break
        self.state = "done"
        self.ended.set()
        with self.changed:
            self.changed.notify_all()

    def notice(self, line: str) -> None:
        """Read how far a command is from what it prints."""
        model = re.match(r"models: (\d+ of \d+): (\w+)", line)
        crate = re.match(r"\s*Compiling (\S+)", line)
        setup = re.match(r"setup: (.*)", line)
        if model:
            self.part = model[1]
            with self.changed:
                self.seen.add(model[2])
                self.changed.notify_all()
        elif crate:
            self.part = crate[1]
        elif setup:
            self.said.append(line.rstrip())
            self.part = setup[1].split(":")[0]

    def need(self, model: str | None = None) -> None:
        """Wait for the end, or for one model."""
        with self.changed:
            while not self.ended.is_set() and model not in self.seen:
                self.changed.wait()
        if self.failure:
            raise Failed(self.failure)


class Progress:
    """One line on standard error: what runs, how much of it is there, how long it has taken."""

    def __init__(self, steps: list[Step]) -> None:
        """Show the given steps, and what is named later."""
        self.steps = steps
        self.shown = ""
        self.begun = time.monotonic()
        # Commands that said all, and that not all of it is as expected.
        self.unexpected: list[str] = []
        self.terminal = sys.stderr.isatty()
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def text(self) -> str:
        """Put the line together."""
        done = sum(step.state == "done" for step in self.steps)
        parts = [f"{step.name} {step.part}".strip() for step in self.steps if step.state == "runs"]
        if self.shown:
            parts.insert(0, self.shown)
        elapsed = int(time.monotonic() - self.begun)
        what = "; ".join(parts) or "begins"
        return f"{elapsed // 60}:{elapsed % 60:02} · built {done} of {len(self.steps)} · {what}"

    def clear(self) -> None:
        """Take the line away."""
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def loop(self) -> None:
        """Write the line until the end."""
        last = -QUIET_SECONDS
        while not self.stop.wait(0.5 if self.terminal else 1.0):
            with self.lock:
                if self.terminal:
                    width = os.get_terminal_size(sys.stderr.fileno()).columns
                    line = self.text()[: width - 1]
                    print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
                elif time.monotonic() - last >= QUIET_SECONDS:
                    last = time.monotonic()
                    print(f"demo: {self.text()}", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a part of the story."""
        with self.lock:
            self.clear()
            print(text, flush=True)

    def show(self, *arguments: str, until: str | None = None, judged: bool = False) -> str:
        """Run the command `ipnuma`; return what it prints, up to a line that begins so.

        A command that judges what it has found ends with 1 where that is not as expected; the
        story goes on.
        """
        self.shown = f"ipnuma {arguments[0]}"
        done = subprocess.run(
            [BIN / "ipnuma", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.shown = ""
        command = f"$ {BIN.relative_to(ROOT) if BIN.is_relative_to(ROOT) else BIN}/ipnuma "
        command += " ".join(arguments)
        if judged and done.returncode == 1 and done.stdout:
            self.unexpected.append(command)
        elif done.returncode != 0:
            raise Failed(f"{command}\n{done.stdout}{done.stderr}exit status {done.returncode}")
        told = done.stdout
        if until:
            told = re.split(rf"^{re.escape(until)}", told, maxsplit=1, flags=re.MULTILINE)[0]
        return f"{command}\n{told.rstrip()}\n"

    def end(self) -> None:
        """Take the line away for good."""
        self.stop.set()
        self.thread.join()
        self.clear()


def tell(progress: Progress, steps: list[Step], short: bool) -> None:
    """Tell the story in the order in which its parts get ready."""
    tools, _, models, cli, kernel = steps
    tools.need()
    cli.need()
    models.need(FIRST_MODEL)
    loops = "20" if short else "200"
    pingpong = progress.show("pingpong", "--rate", "10g", "--loops", loops, until="one way, ns")
    progress.say(pingpong)
    models.need()
    kernel.need()
    paper = ("paper", "--brief")
    where = "Everything, with plots"  # the last line of all says it again
    if short:
        progress.say(progress.show(*paper, "--only", "table-3.2,figure-3.8,table-5.3", judged=True))
        progress.say(progress.show("stream", "--short", "--loss", "0.001"))
        count = "10"
    else:
        progress.say(progress.show(*paper, "--html", str(REPORT), until=where, judged=True))
        count = "100"
    more = ["--transport", "socket", "--switch", "fibnic"] if short else []
    memcached = ["memcached", "--place", "rack", "--length", "16", "--count", count, *more]
    progress.say(progress.show(*memcached, until="% of the commands").rstrip())


def main() -> int:
    """Build, and tell."""
    parser = Parser(prog="./demo", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="less of everything, for tests")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.check:
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    (ROOT / REPORT.parent).mkdir(exist_ok=True)
    tools = Step("tools", ["tools/setup"])
    # By itself: cargo builds one thing after the other, and models need not wait for the programs.
    builder = Step("builder of models", [*CARGO, "verilate"])
    # The programs come before the models that are wanted later.
    verilate = str(BIN / "verilate")
    first = [verilate, "--jobs", "1", FIRST_MODEL]
    models = Step("models", first, ["nice", "-n", "15", verilate], after=(tools, builder))
    cli = Step("programs", [*CARGO, "cli", "-p", "preload"])
    kernel = Step("kernel of the guests", ["tools/uml-kernel"], after=(tools,))
    steps = [tools, builder, models, cli, kernel]

    def second() -> None:
        builder.run()
        cli.run()
        kernel.run()

    progress = Progress(steps)
    for body in (tools.run, models.run, second):
        threading.Thread(target=body, daemon=True).start()
    try:
        tell(progress, steps, args.short)
    except Failed as failure:
        progress.end()
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    progress.end()
    took = time.monotonic() - progress.begun
    print(f"{took:.0f} s. The report: {REPORT}" if not args.short else f"{took:.0f} s")
    for command in progress.unexpected:
        print(f"demo: {command.removeprefix('$ ')}: not all is as expected", file=sys.stderr)
    return 1 if progress.unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
