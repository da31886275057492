# SPDX-License-Identifier: Apache-2.0
"""Command lines of the project's programs in Python: what is wrong is said in one sentence."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import NoReturn

# What argparse says, and what this project says instead.
WORDS = (
    (r"unrecognized arguments: (.*)", r"{0}: there is no such option"),
    (
        r"argument (\S+): invalid int value: (.*)",
        r"{0}: {1} is no whole number; write one such as 2",
    ),
    (r"argument (\S+): expected one argument", r"{0}: a value is missing; write one behind it"),
    (r"argument (\S+): (.*)", r"{0}: {1}"),
)


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without its usage."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and what helps."""
        line = " ".join(message.split())
        for theirs, ours in WORDS:
            if found := re.fullmatch(theirs, line):
                line = ours.format(*found.groups())
                break
        remedy = "" if ";" in line else f"; {self.prog} --help lists what there is"
        print(f"{self.prog}: {line}{remedy}", file=sys.stderr)
        sys.exit(2)


def listed(prog: str, text: str) -> int:
    """Print a text to a reader that may go away; return the exit status."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        status = 0
    except OSError as error:
        reason = error.strerror or str(error)
        print(
            f"{prog}: cannot write the standard output: {reason}; make room where it goes",
            file=sys.stderr,
        )
        status = 1
    else:
        return 0
    # What is left in the buffer is not tried again at the end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
