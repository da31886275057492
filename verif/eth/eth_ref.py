# SPDX-License-Identifier: Apache-2.0
"""Models of what the Ethernet MACs must do, written from the standard and not from the RTL.

Media are flat lists: XGMII is a list of (byte, control) by byte time, eight to a cycle; GMII is a
list of (byte, valid, error) by cycle.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from dataclasses import dataclass, field

IDLE, START, TERM, ERROR = 0x07, 0xFB, 0xFD, 0xFE
PREAMBLE = bytes([0x55] * 7 + [0xD5])

# Bits of rx_stat_t and tx_stat_t, most significant first.
RX_STATS = ("good", "bad_fcs", "runt", "giant", "error", "bad_preamble")
TX_STATS = ("good", "spoiled", "underrun")

Symbol = tuple[int, int]
Beat = tuple[int, bytes, bool, bool]  # cycle, bytes, last, bad


def add_fcs(frame: bytes, min_len: int = 60) -> bytes:
    """Pad a frame and append its FCS."""
    frame = frame.ljust(min_len, b"\0")
    return frame + zlib.crc32(frame).to_bytes(4, "little")


def fcs_good(frame: bytes) -> bool:
    """Whether a frame ends with its FCS."""
    return len(frame) >= 4 and zlib.crc32(frame[:-4]).to_bytes(4, "little") == frame[-4:]


def random_bytes(rng: random.Random, count: int) -> bytes:
    """Random bytes; randbytes would do, were it not for long zero runs worth having."""
    if rng.random() < 0.1:
        return bytes(count)
    return rng.randbytes(count)


def xgmii_frame(frame: bytes) -> list[Symbol]:
    """Symbols of a frame (FCS included), start to terminate."""
    body = [(b, 0) for b in PREAMBLE[1:] + frame]
    return [(START, 1), *body, (TERM, 1)]


def xgmii_line(frames: list[list[Symbol]], gaps: list[int]) -> list[Symbol]:
    """Frames behind each other; gaps[i] bytes from terminate on, or up to 3 more."""
    line: list[Symbol] = [(IDLE, 1)] * 16
    for frame, gap in zip(frames, gaps, strict=True):
        line += frame
        line += [(IDLE, 1)] * max(gap - 1, 0)
        line += [(IDLE, 1)] * (-len(line) % 4)
    line += [(IDLE, 1)] * 32
    return line + [(IDLE, 1)] * (-len(line) % 8)


@dataclass
class Expected:
    """What a receiver makes of a line."""

    beats: list[Beat] = field(default_factory=list)
    stats: Counter[str] = field(default_factory=Counter)


def classify(frame: bytes, broken: bool, max_frame: int) -> str:
    """Name of the counter of a frame."""
    if broken:
        return "error"
    if len(frame) > max_frame:
        return "giant"
    if len(frame) < 64:
        return "runt"
    return "good" if fcs_good(frame) else "bad_fcs"


def xgmii_rx_model(line: list[Symbol], max_frame: int) -> Expected:
    """Beats and counts of a line whose starts are in lanes 0 and 4."""
    out = Expected()
    starts = [p for p in range(0, len(line), 4) if line[p] == (START, 1)]
    for p in starts:
        if line[p + 1 : p + 8] != [(b, 0) for b in PREAMBLE[1:]]:
            out.stats["bad_preamble"] += 1
            continue
        end = next(q for q in range(p + 8, len(line)) if line[q][1])
        frame = bytes(b for b, _ in line[p + 8 : end])
        kind = classify(frame, line[end][0] != TERM, max_frame)
        if len(frame) > max_frame:
            # Cut at the beat that exceeds the limit: what comes behind it goes unseen.
            cut = frame[: 8 * (max_frame // 8 + 1)]
            if len(cut) < len(frame):
                kind = "giant"
            frame = cut
        out.stats[kind] += 1
        for k in range(0, len(frame), 8):
            beat = frame[k : k + 8]
            last = k + 8 >= len(frame)
            cycle = (p + 8 + k + 7) // 8 + 1
            out.beats.append((cycle, beat, last, last and kind != "good"))
    return out


def gmii_frame(frame: bytes, preamble: bytes = PREAMBLE) -> list[tuple[int, int, int]]:
    """Symbols of a frame (FCS included)."""
    return [(b, 1, 0) for b in preamble + frame]


def gmii_rx_model(line: list[tuple[int, int, int]], max_frame: int) -> Expected:
    """Beats and counts of a line that begins and ends idle."""
    out = Expected()
    p = 0
    while p < len(line):
        if not line[p][1]:
            p += 1
            continue
        end = next(q for q in range(p, len(line)) if not line[q][1])
        symbols = line[p:end]
        first, p = p, end
        body = next((i for i, s in enumerate(symbols) if s != (0x55, 1, 0)), None)
        if body is None or symbols[body] != (0xD5, 1, 0):
            out.stats["bad_preamble"] += 1
            continue
        data = symbols[body + 1 :]
        cut = data[: max_frame + 1]
        frame = bytes(s[0] for s in cut)
        kind = classify(frame, any(s[2] for s in cut), max_frame)
        out.stats[kind] += 1
        for k in range(0, len(frame), 8):
            beat = frame[k : k + 8]
            last = k + 8 >= len(frame)
            cycle = first + body + 1 + k + len(beat)
            out.beats.append((cycle, beat, last, last and kind != "good"))
    return out


@dataclass
class Seen:
    """A frame found on a medium."""

    start: int  # byte time of /S/ or of the first preamble byte
    end: int  # byte time behind the last FCS byte
    frame: bytes  # without preamble, with FCS
    error: bool


def xgmii_decode(line: list[Symbol]) -> list[Seen]:
    """Frames on a line; every symbol must make sense."""
    out = []
    p = 0
    while p < len(line):
        if line[p] == (IDLE, 1):
            p += 1
            continue
        assert line[p] == (START, 1), f"stray symbol {line[p]} at {p}"
        assert p % 4 == 0, f"start in lane {p % 8}"
        assert bytes(b for b, _ in line[p + 1 : p + 8]) == PREAMBLE[1:]
        assert not any(c for _, c in line[p + 1 : p + 8])
        start = p
        data = bytearray()
        error = False
        p += 8
        while line[p] != (TERM, 1):
            byte, ctrl = line[p]
            assert not ctrl or byte == ERROR, f"control {byte:#x} inside a frame at {p}"
            error |= bool(ctrl)
            data.append(byte)
            p += 1
        out.append(Seen(start, p, bytes(data), error))
        p += 1
    return out


def gmii_decode(line: list[tuple[int, int, int]]) -> list[Seen]:
    """Frames on a line."""
    out = []
    p = 0
    while p < len(line):
        if not line[p][1]:
            assert not line[p][2], "TX_ER outside a frame"
            p += 1
            continue
        end = next(q for q in range(p, len(line)) if not line[q][1])
        data = bytes(s[0] for s in line[p:end])
        assert data[:8] == PREAMBLE
        out.append(Seen(p, end, data[8:], any(s[2] for s in line[p:end])))
        p = end
    return out
