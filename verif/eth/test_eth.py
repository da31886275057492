# SPDX-License-Identifier: Apache-2.0
"""Bench of the MACs and the ARP responder: every beat, verdict and count, cycle by cycle."""

from __future__ import annotations

import random
import struct
from collections import Counter

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from cocotbext.eth import (
    GmiiFrame,
    GmiiSink,
    GmiiSource,
    XgmiiFrame,
    XgmiiSink,
    XgmiiSource,
)
from eth_ref import (
    ERROR,
    IDLE,
    PREAMBLE,
    RX_STATS,
    START,
    TERM,
    TX_STATS,
    Expected,
    add_fcs,
    fcs_good,
    gmii_decode,
    gmii_frame,
    gmii_rx_model,
    random_bytes,
    xgmii_decode,
    xgmii_frame,
    xgmii_line,
    xgmii_rx_model,
)
from harness import build_and_run
from scapy.layers.l2 import ARP, Ether

IDLE_WORD = int.from_bytes(bytes([IDLE] * 8), "little")
PERIOD_PS = 6400


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


async def start(dut) -> None:
    """Start the clock, put every input to rest, reset."""
    Clock(dut.clk_i, PERIOD_PS, "ps").start()
    dut.xgmii_rxd_i.value = IDLE_WORD
    dut.xgmii_rxc_i.value = 0xFF
    for name in (
        "gmii_rxd_i gmii_rx_dv_i gmii_rx_er_i xtx_start_i xtx_tvalid_i gtx_start_i gtx_tvalid_i "
        "xtx_tdata_i xtx_tkeep_i xtx_tlast_i xtx_tuser_i gtx_tdata_i gtx_tkeep_i gtx_tlast_i "
        "gtx_tuser_i ip_i mac_i arp_tready_i"
    ).split():
        getattr(dut, name).value = 0
    dut.grx_en_i.value = 1
    dut.rst_i.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_i.value = 0
    await RisingEdge(dut.clk_i)


def read_beat(dut, prefix: str) -> tuple[bytes, bool, bool] | None:
    """Beat on a stream in this cycle."""
    if not dut[f"{prefix}_tvalid_o"].value:
        return None
    keep = int(dut[f"{prefix}_tkeep_o"].value)
    count = keep.bit_count()
    assert keep == (1 << count) - 1 and count, f"tkeep {keep:#x}"
    data = int(dut[f"{prefix}_tdata_o"].value).to_bytes(8, "little")
    assert not any(data[count:]), "lanes without tkeep are zero"
    last = bool(dut[f"{prefix}_tlast_o"].value)
    assert last or count == 8
    return data[:count], last, last and bool(dut[f"{prefix}_tuser_o"].value)


def count_stats(counter: Counter[str], names: tuple[str, ...], value: int) -> None:
    """Add the pulses of one cycle."""
    for i, name in enumerate(names):
        if value >> (len(names) - 1 - i) & 1:
            counter[name] += 1


async def play_rx(dut, prefix: str, line: list, per_cycle: int) -> tuple[Expected, int]:
    """Drive a line, collect what comes out of a receiver, and its cycles not busy."""
    got = Expected()
    quiet = 0
    cycles = len(line) // per_cycle
    await RisingEdge(dut.clk_i)
    for cycle in range(cycles):
        if prefix == "xrx":
            word = line[8 * cycle : 8 * cycle + 8]
            dut.xgmii_rxd_i.value = int.from_bytes(bytes(b for b, _ in word), "little")
            dut.xgmii_rxc_i.value = sum(c << i for i, (_, c) in enumerate(word))
        else:
            byte, valid, error = line[cycle]
            dut.gmii_rxd_i.value = byte
            dut.gmii_rx_dv_i.value = valid
            dut.gmii_rx_er_i.value = error
        await ReadOnly()
        beat = read_beat(dut, prefix)
        if beat:
            got.beats.append((cycle, *beat))
        count_stats(got.stats, RX_STATS, int(dut[f"{prefix}_stat_o"].value))
        if dut[f"{prefix}_busy_o"].value:
            quiet = 0
        else:
            quiet += 1
            assert not beat, "a beat while not busy"
        await RisingEdge(dut.clk_i)
    return got, quiet


def compare(got: Expected, expected: Expected, stats: bool = True) -> None:
    """Compare beat by beat, so that a failure shows the first difference."""
    for i, (a, b) in enumerate(zip(got.beats, expected.beats, strict=False)):
        assert a == b, f"beat {i}: got {a}, expected {b}"
    assert len(got.beats) == len(expected.beats)
    if stats:
        assert got.stats == expected.stats, f"got {got.stats}, expected {expected.stats}"


def max_frame(dut) -> int:
    """Return the parameter of this build."""
    return int(dut.MaxFrame.value)


def random_length(rand: random.Random, limit: int) -> int:
    """Length with FCS: short ones, edges, and any."""
    pick = rand.random()
    if pick < 0.4:
        return rand.randint(60, 90)
    if pick < 0.5:
        return rand.randint(limit - 10, limit + 12)
    if pick < 0.6:
        return rand.randint(1, 66)
    if pick < 0.9:
        return rand.randint(64, 300)
    return rand.randint(64, limit)


def random_frame(rand: random.Random, limit: int) -> bytes:
    """Frame of any length, mostly with a right FCS."""
    length = random_length(rand, limit)
    frame = random_bytes(rand, length) if length < 5 else add_fcs(random_bytes(rand, length - 4), 0)
    if rand.random() < 0.15:
        at = rand.randrange(8 * len(frame))
        broken = bytearray(frame)
        broken[at // 8] ^= 1 << at % 8
        frame = bytes(broken)
    return frame


@cocotb.test()
async def xgmii_rx_frames(dut) -> None:
    """Random frames, both lanes, gaps from 5 bytes: cycle-exact beats, verdicts and counts."""
    await start(dut)
    rand = rng()
    limit = max_frame(dut)
    frames = [xgmii_frame(random_frame(rand, limit)) for _ in range(250)]
    gaps = [rand.choice([5, 5, 9, 12, 12, 15, rand.randint(5, 60)]) for _ in frames]
    line = xgmii_line(frames, gaps)
    expected = xgmii_rx_model(line, limit)
    assert min(expected.stats[k] for k in ("good", "bad_fcs", "runt", "giant")) > 0
    got, quiet = await play_rx(dut, "xrx", line, 8)
    compare(got, expected)
    assert quiet >= 2, "busy falls when nothing is left"


@cocotb.test()
async def xgmii_rx_every_length(dut) -> None:
    """Every length around the minimum, in both lanes, right and with each single byte broken."""
    await start(dut)
    rand = rng()
    frames, gaps = [], []
    for length in range(61, 82):
        for lane in range(2):
            good = add_fcs(random_bytes(rand, length - 4), 0)
            broken = bytearray(good)
            broken[rand.randrange(length)] ^= 1 << rand.randrange(8)
            frames += [xgmii_frame(good), xgmii_frame(bytes(broken))]
            gaps += [12 + 4 * lane, 12]
    line = xgmii_line(frames, gaps)
    got, _ = await play_rx(dut, "xrx", line, 8)
    compare(got, xgmii_rx_model(line, max_frame(dut)))


@cocotb.test()
async def xgmii_rx_nothing_behind_the_preamble(dut) -> None:
    """Frames of 0 to 8 bytes in both lanes, however they end, behind a whole one: all count.

    They leave no beat, or one.
    """
    await start(dut)
    rand = rng()
    frames, gaps = [], []
    for length in range(9):
        for end in (TERM, ERROR, IDLE):
            for _ in range(4):
                whole = add_fcs(random_bytes(rand, rand.randint(60, 75)))
                short = random_bytes(rand, length)
                frames += [xgmii_frame(whole), [*xgmii_frame(short)[:-1], (end, 1)]]
                gaps += [rand.choice((16, 20)), 24]
    line = xgmii_line(frames, gaps)
    starts = [p for p in range(0, len(line), 4) if line[p] == (START, 1)]
    lanes = Counter(p % 8 for p in starts[1::2])
    assert min(lanes[0], lanes[4]) > len(frames) // 8
    expected = xgmii_rx_model(line, max_frame(dut))
    assert expected.stats["runt"] == len(frames) // 6
    got, quiet = await play_rx(dut, "xrx", line, 8)
    compare(got, expected)
    assert quiet >= 2


@cocotb.test()
async def xgmii_rx_fuzz(dut) -> None:
    """Control characters anywhere, cut frames, bad preambles: never two frames in one."""
    await start(dut)
    rand = rng()
    limit = max_frame(dut)
    for _ in range(40):
        frames = [xgmii_frame(random_frame(rand, 200)) for _ in range(20)]
        line = xgmii_line(frames, [rand.randint(5, 24) for _ in frames])
        for _ in range(rand.randint(0, 12)):
            at = rand.randrange(16, len(line) - 32)
            kind = rand.random()
            if kind < 0.25:
                line[at] = (ERROR, 1)
            elif kind < 0.45:
                line[at] = (TERM, 1)
            elif kind < 0.6:
                line[at] = (IDLE, 1)
            elif kind < 0.7:
                line[at] = (rand.randrange(256), 1)
            elif kind < 0.85:
                line[at & ~3] = (START, 1)
            else:
                new = xgmii_frame(random_frame(rand, 100))[: len(line) - 32 - (at & ~3)]
                line[at & ~3 : (at & ~3) + len(new)] = new
        # A frame cut off at the end of the line would wait there.
        line[-32:] = [(IDLE, 1)] * 32
        starts = [p for p in range(0, len(line), 4) if line[p] == (START, 1)]
        # Starts on each other's heels share a count.
        spaced = all(b - a > 16 for a, b in zip(starts, starts[1:], strict=False))
        got, _ = await play_rx(dut, "xrx", line, 8)
        compare(got, xgmii_rx_model(line, limit), stats=spaced)


@cocotb.test()
async def xgmii_rx_source_model(dut) -> None:
    """An independent source with its own deficit idle count, back to back."""
    await start(dut)
    rand = rng()
    source = XgmiiSource(dut.xgmii_rxd_i, dut.xgmii_rxc_i, dut.clk_i)
    source.log.setLevel("WARNING")
    payloads = [random_bytes(rand, rand.randint(60, 200)) for _ in range(150)]
    for payload in payloads:
        source.send_nowait(XgmiiFrame.from_payload(payload))
    received, current = [], b""
    for _ in range(150 * 32):
        await ReadOnly()
        beat = read_beat(dut, "xrx")
        if beat:
            current += beat[0]
            if beat[1]:
                assert not beat[2]
                received.append(current[:-4])
                current = b""
        await RisingEdge(dut.clk_i)
    assert received == payloads


@cocotb.test()
async def gmii_rx_frames(dut) -> None:
    """Random frames, errors, short preambles: cycle-exact beats, verdicts and counts."""
    await start(dut)
    rand = rng()
    limit = max_frame(dut)
    line = [(0, 0, 0)] * 4
    for _ in range(90):
        preamble = PREAMBLE
        pick = rand.random()
        if pick < 0.1:
            preamble = PREAMBLE[rand.randrange(8) :]
        elif pick < 0.15:
            preamble = rand.randbytes(8)
        elif pick < 0.17:
            preamble = PREAMBLE[:5]
        frame = b"" if len(preamble) == 5 else random_frame(rand, limit)
        symbols = gmii_frame(frame, preamble)
        if rand.random() < 0.1:
            at = rand.randrange(len(symbols))
            symbols[at] = (symbols[at][0], 1, 1)
        line += symbols + [(rand.randrange(256), 0, 0)] * rand.choice([1, 2, 12, 12, 30])
    line += gmii_frame(b"") + [(0, 0, 0)] * 12
    got, quiet = await play_rx(dut, "grx", line, 1)
    compare(got, gmii_rx_model(line, limit))
    assert quiet >= 2


@cocotb.test()
async def gmii_rx_enable(dut) -> None:
    """Cycles without clock enable, anything on the pins: the rest is as if they were not there."""
    await start(dut)
    rand = rng()
    limit = max_frame(dut)
    line = [(0, 0, 0)] * 4
    for _ in range(40):
        symbols = gmii_frame(random_frame(rand, 200))
        if rand.random() < 0.1:
            at = rand.randrange(len(symbols))
            symbols[at] = (symbols[at][0], 1, 1)
        line += symbols + [(rand.randrange(256), 0, 0)] * rand.choice([1, 2, 12])
    line += [(0, 0, 0)] * 12
    got = Expected()
    held = 0
    await RisingEdge(dut.clk_i)
    for cycle, symbol in enumerate(line):
        while True:
            enabled = rand.random() < 0.8
            if enabled:
                pins = symbol
            else:
                pins = (rand.randrange(256), rand.randrange(2), rand.randrange(2))
            dut.grx_en_i.value = enabled
            dut.gmii_rxd_i.value, dut.gmii_rx_dv_i.value, dut.gmii_rx_er_i.value = pins
            await ReadOnly()
            beat = read_beat(dut, "grx")
            assert enabled or not beat
            if beat:
                got.beats.append((cycle, *beat))
            count_stats(got.stats, RX_STATS, int(dut.grx_stat_o.value))
            await RisingEdge(dut.clk_i)
            if enabled:
                break
            held += 1
    compare(got, gmii_rx_model(line, limit))
    assert held > len(line) // 8


@cocotb.test()
async def gmii_rx_source_model(dut) -> None:
    """An independent source, back to back."""
    await start(dut)
    rand = rng()
    source = GmiiSource(dut.gmii_rxd_i, dut.gmii_rx_er_i, dut.gmii_rx_dv_i, dut.clk_i)
    source.log.setLevel("WARNING")
    payloads = [random_bytes(rand, rand.randint(60, 150)) for _ in range(30)]
    for payload in payloads:
        source.send_nowait(GmiiFrame.from_payload(payload))
    received, current = [], b""
    for _ in range(30 * 190):
        await ReadOnly()
        beat = read_beat(dut, "grx")
        if beat:
            current += beat[0]
            if beat[1]:
                assert not beat[2]
                received.append(current[:-4])
                current = b""
        await RisingEdge(dut.clk_i)
    assert received == payloads


class Sender:
    """Drives a transmitter by its contract, and records the medium."""

    def __init__(self, dut, prefix: str) -> None:
        """Attach to the ports that begin with `prefix`."""
        self.dut = dut
        self.prefix = prefix
        self.line: list = []
        self.stats: Counter[str] = Counter()
        self.quiet = 0
        self.cycle = 0
        # By frame: cycle of the accepted start, cycles in which its beats were taken.
        self.starts: list[int] = []
        self.taken: list[list[int]] = []

    def _sample(self) -> None:
        """Record the medium in this cycle; the word was made in the cycle before."""
        dut = self.dut
        if self.prefix == "xtx":
            data = int(dut.xgmii_txd_o.value).to_bytes(8, "little")
            ctrl = int(dut.xgmii_txc_o.value)
            self.line += [(b, ctrl >> i & 1) for i, b in enumerate(data)]
        else:
            self.line.append(
                (
                    int(dut.gmii_txd_o.value),
                    int(dut.gmii_tx_en_o.value),
                    int(dut.gmii_tx_er_o.value),
                )
            )
        count_stats(self.stats, TX_STATS, int(dut[f"{self.prefix}_stat_o"].value))
        self.quiet = 0 if dut[f"{self.prefix}_busy_o"].value else self.quiet + 1

    async def idle(self, cycles: int) -> None:
        """Let cycles pass, in the medium's time."""
        for _ in range(cycles):
            await self._cycle()

    async def _cycle(self) -> tuple[bool, bool]:
        """One cycle with the inputs set; returns ready_start_o and tready."""
        await ReadOnly()
        self._sample()
        ready = bool(self.dut[f"{self.prefix}_ready_start_o"].value)
        taken = bool(self.dut[f"{self.prefix}_tready_o"].value)
        self.cycle += 1
        await RisingEdge(self.dut.clk_i)
        return ready, taken

    async def send(self, frame: bytes, spoil: bool = False, stall_at: int | None = None) -> None:
        """Send a frame without FCS; with stall_at the source stalls before that beat."""
        dut, p = self.dut, self.prefix
        dut[f"{p}_start_i"].value = 1
        while not (await self._cycle())[0]:
            pass
        dut[f"{p}_start_i"].value = 0
        self.starts.append(self.cycle - 1)
        taken: list[int] = []
        for k in range(0, len(frame), 8):
            if k // 8 == stall_at:
                dut[f"{p}_tvalid_i"].value = 0
                # Just long enough to meet a cycle with tready.
                for _ in range(1 if p == "xtx" else 20):
                    await self._cycle()
            beat = frame[k : k + 8]
            dut[f"{p}_tvalid_i"].value = 1
            dut[f"{p}_tdata_i"].value = int.from_bytes(beat.ljust(8, b"\xa5"), "little")
            dut[f"{p}_tkeep_i"].value = (1 << len(beat)) - 1
            dut[f"{p}_tlast_i"].value = k + 8 >= len(frame)
            dut[f"{p}_tuser_i"].value = spoil and k + 8 >= len(frame)
            while not (await self._cycle())[1]:
                pass
            taken.append(self.cycle - 1)
        dut[f"{p}_tvalid_i"].value = 0
        dut[f"{p}_tlast_i"].value = 0
        self.taken.append(taken)


def check_xgmii_latency(sender: Sender, seen: list, frames: list[bytes]) -> None:
    """Start to /S/: 1 edge; every beat: the next cycle, and 1 edge to XGMII."""
    for found, begin, taken, frame in zip(seen, sender.starts, sender.taken, frames, strict=True):
        # A symbol of the cycle after the start's; the line is recorded from cycle 0.
        assert found.start // 8 == begin + 1
        beats = (len(frame) + 7) // 8
        assert taken == list(range(begin + 1, begin + 1 + beats))
        assert (found.start + 8) // 8 == taken[0] + 1


def check_gaps(seen: list, mean_max: float | None, low: int, high: int | None = None) -> None:
    """Inter-frame gaps, terminate included."""
    gaps = [b.start - a.end for a, b in zip(seen, seen[1:], strict=False)]
    assert min(gaps) >= low, f"gap of {min(gaps)} bytes"
    if high is not None:
        assert max(gaps) <= high, f"gap of {max(gaps)} bytes"
    if mean_max is not None:
        # The deficit never exceeds 3 bytes, at any time; nor is a byte of bandwidth given away.
        total = 0
        for i, gap in enumerate(gaps):
            total += gap - 12
            assert total >= -3, f"deficit {-total} after {i + 1} gaps"
            assert total <= mean_max, f"excess {total} after {i + 1} gaps"


@cocotb.test()
async def xgmii_tx_back_to_back(dut) -> None:
    """Random lengths as fast as they go: contents, latency, gap exactly 12 on average."""
    await start(dut)
    rand = rng()
    sink = XgmiiSink(dut.xgmii_txd_o, dut.xgmii_txc_o, dut.clk_i)
    sink.log.setLevel("WARNING")
    sender = Sender(dut, "xtx")
    frames = [random_bytes(rand, rand.choice([rand.randint(1, 80), rand.randint(60, 300)]))
              for _ in range(300)]  # fmt: skip
    frames += [random_bytes(rand, 1514), random_bytes(rand, 9014)]
    for frame in frames:
        await sender.send(frame)
    await sender.idle(12)
    seen = xgmii_decode(sender.line)
    assert [s.frame for s in seen] == [add_fcs(f) for f in frames]
    assert not any(s.error for s in seen)
    for frame in frames:
        got = sink.recv_nowait()
        assert got.check_fcs() and bytes(got.get_payload()) == frame.ljust(60, b"\0")
    check_xgmii_latency(sender, seen, frames)
    dic = bool(dut.EnableDic.value)
    check_gaps(seen, 0 if dic else None, 9 if dic else 12, 15)
    assert {s.start % 8 for s in seen} == {0, 4}
    assert sender.stats == {"good": len(frames)}
    assert sender.quiet >= 2


@cocotb.test()
async def xgmii_tx_line_rate(dut) -> None:
    """64-byte frames every 84 byte times, alternating lanes."""
    await start(dut)
    sender = Sender(dut, "xtx")
    count = 100
    for i in range(count):
        await sender.send(bytes([i] * 60))
    await sender.idle(12)
    seen = xgmii_decode(sender.line)
    assert len(seen) == count
    assert [b.start - a.start for a, b in zip(seen, seen[1:], strict=False)] == [84] * (count - 1)


@cocotb.test()
async def xgmii_tx_random_gaps(dut) -> None:
    """Pauses of any length: no start waits longer than it must, no gap is short of the deficit."""
    await start(dut)
    rand = rng()
    sender = Sender(dut, "xtx")
    frames = []
    for _ in range(300):
        frames.append(random_bytes(rand, rand.randint(1, 120)))
        await sender.send(frames[-1])
        await sender.idle(rand.choice([0, 0, 0, 1, 2, 3, 4, 10]))
    await sender.idle(12)
    seen = xgmii_decode(sender.line)
    assert [s.frame for s in seen] == [add_fcs(f) for f in frames]
    check_xgmii_latency(sender, seen, frames)
    check_gaps(seen, None, 9)
    # Leaky bucket: surplus is not saved up, and the deficit stays within 3 bytes.
    deficit = 0
    for a, b in zip(seen, seen[1:], strict=False):
        deficit = max(0, deficit + 12 - (b.start - a.end))
        assert deficit <= 3


@cocotb.test()
async def xgmii_tx_spoil_and_underrun(dut) -> None:
    """Spoiled frames and broken promises end with an error, and the next frame is whole."""
    await start(dut)
    rand = rng()
    sender = Sender(dut, "xtx")
    plan = []
    for _ in range(150):
        frame = random_bytes(rand, rand.randint(1, 150))
        kind = rand.choice(["good", "good", "spoil", "stall"])
        stall_at = rand.randrange((len(frame) + 7) // 8) if kind == "stall" else None
        plan.append((frame, kind, stall_at))
        await sender.send(frame, kind == "spoil", stall_at)
    await sender.idle(12)
    seen = xgmii_decode(sender.line)
    assert len(seen) == len(plan)
    for found, (frame, kind, stall_at) in zip(seen, plan, strict=True):
        good = add_fcs(frame)
        assert found.error == (kind != "good")
        if kind == "good":
            assert found.frame == good
        elif kind == "spoil":
            bad = bytes(b ^ 0xFF for b in good[-4:-1])
            assert found.frame == good[:-4] + bad + bytes([ERROR])
        else:
            assert found.frame == frame[: 8 * stall_at] + bytes([ERROR])
    check_gaps(seen, None, 9)
    for i, (a, b) in enumerate(zip(seen, seen[1:], strict=False)):
        if plan[i][1] == "stall":
            assert b.start - a.end >= 12
    kinds = Counter(k for _, k, _ in plan)
    assert sender.stats == {
        "good": kinds["good"],
        "spoiled": kinds["spoil"],
        "underrun": kinds["stall"],
    }


@cocotb.test()
async def xgmii_loopback(dut) -> None:
    """Transmitter to receiver: every frame arrives good, spoiled ones bad."""
    await start(dut)
    rand = rng()
    sender = Sender(dut, "xtx")
    received = []

    async def wire() -> None:
        current = b""
        while True:
            await RisingEdge(dut.clk_i)
            dut.xgmii_rxd_i.value = dut.xgmii_txd_o.value
            dut.xgmii_rxc_i.value = dut.xgmii_txc_o.value
            await ReadOnly()
            beat = read_beat(dut, "xrx")
            if beat:
                current += beat[0]
                if beat[1]:
                    received.append((current, beat[2]))
                    current = b""

    cocotb.start_soon(wire())
    frames = [(random_bytes(rand, rand.randint(1, 200)), rand.random() < 0.2) for _ in range(150)]
    for frame, spoil in frames:
        await sender.send(frame, spoil)
    await sender.idle(12)
    assert [bad for _, bad in received] == [spoil for _, spoil in frames]
    for (got, bad), (frame, _) in zip(received, frames, strict=True):
        assert got == add_fcs(frame) if not bad else got[:-3] == add_fcs(frame)[:-4]


@cocotb.test()
async def gmii_tx_frames(dut) -> None:
    """Contents, latency, gap, spoiled frames and broken promises."""
    await start(dut)
    rand = rng()
    sink = GmiiSink(dut.gmii_txd_o, dut.gmii_tx_er_o, dut.gmii_tx_en_o, dut.clk_i)
    sink.log.setLevel("WARNING")
    sender = Sender(dut, "gtx")
    plan = []
    for _ in range(80):
        frame = random_bytes(rand, rand.choice([rand.randint(1, 80), rand.randint(60, 200)]))
        kind = rand.choice(["good", "good", "good", "spoil", "stall"])
        stall_at = rand.randrange((len(frame) + 7) // 8) if kind == "stall" else None
        plan.append((frame, kind, stall_at))
        await sender.send(frame, kind == "spoil", stall_at)
    await sender.idle(150)
    seen = gmii_decode(sender.line)
    assert len(seen) == len(plan)
    for i, (found, (frame, kind, stall_at)) in enumerate(zip(seen, plan, strict=True)):
        good = add_fcs(frame)
        assert found.error == (kind != "good")
        if kind == "good":
            assert found.frame == good
        elif kind == "spoil":
            assert found.frame == good[:-4] + bytes(b ^ 0xFF for b in good[-4:])
        else:
            assert found.frame[:-1] == frame[: 8 * stall_at]
        assert found.start == sender.starts[i] + 1
        if kind != "stall":
            beats = (len(frame) + 7) // 8
            assert sender.taken[i] == [sender.starts[i] + 8 * (k + 1) for k in range(beats)]
        got = sink.recv_nowait()
        assert bytes(got.get_payload(strip_fcs=False)) == found.frame
    for i, (a, b) in enumerate(zip(seen, seen[1:], strict=False)):
        if plan[i][1] == "stall":
            assert b.start - a.end >= 12
        else:
            assert b.start - a.end == 12
    kinds = Counter(k for _, k, _ in plan)
    assert sender.stats == {
        "good": kinds["good"],
        "spoiled": kinds["spoil"],
        "underrun": kinds["stall"],
    }
    assert sender.quiet >= 2


@cocotb.test()
async def gmii_loopback(dut) -> None:
    """Transmitter to receiver."""
    await start(dut)
    rand = rng()
    sender = Sender(dut, "gtx")
    received = []

    async def wire() -> None:
        current = b""
        while True:
            await RisingEdge(dut.clk_i)
            dut.gmii_rxd_i.value = dut.gmii_txd_o.value
            dut.gmii_rx_dv_i.value = dut.gmii_tx_en_o.value
            dut.gmii_rx_er_i.value = dut.gmii_tx_er_o.value
            await ReadOnly()
            beat = read_beat(dut, "grx")
            if beat:
                current += beat[0]
                if beat[1]:
                    received.append((current, beat[2]))
                    current = b""

    cocotb.start_soon(wire())
    frames = [(random_bytes(rand, rand.randint(1, 120)), rand.random() < 0.2) for _ in range(30)]
    for frame, spoil in frames:
        await sender.send(frame, spoil)
    await sender.idle(120)
    assert [bad for _, bad in received] == [spoil for _, spoil in frames]
    for (got, bad), (frame, _) in zip(received, frames, strict=True):
        assert fcs_good(got) != bad
        assert got[:-4] == add_fcs(frame)[:-4]


@cocotb.test()
async def arp_replies(dut) -> None:
    """Requests for the own address are answered, everything else is not; scapy judges."""
    await start(dut)
    rand = rng()
    own_ip, own_mac = "10.1.2.3", "02:11:22:33:44:55"
    dut.ip_i.value = int.from_bytes(bytes(map(int, own_ip.split("."))), "big")
    dut.mac_i.value = int(own_mac.replace(":", ""), 16)

    def mac(group: bool = False) -> str:
        raw = bytearray(rand.randbytes(6))
        raw[0] = raw[0] | 1 if group else (raw[0] & 0xFE) | 2
        return raw.hex(":")

    def request() -> tuple[bytes, tuple[str, str] | None]:
        src, ip = mac(), f"10.{rand.randrange(256)}.{rand.randrange(256)}.{rand.randrange(1, 255)}"
        dst = rand.choice(["ff:ff:ff:ff:ff:ff", own_mac])
        fields = dict(op=1, hwsrc=src, psrc=ip, pdst=own_ip, hwdst="00:00:00:00:00:00")
        ether = dict(src=src, dst=dst, type=0x0806)
        spoiler = rand.randrange(14)
        answer: tuple[str, str] | None = None
        if spoiler == 0:
            ether["dst"] = mac()
        elif spoiler == 1:
            fields["pdst"] = f"10.1.2.{rand.choice([2, 4, 131])}"
        elif spoiler == 2:
            fields["pdst"] = rand.choice(["10.1.3.3", "10.0.2.3", "11.1.2.3"])
        elif spoiler == 3:
            fields["op"] = 2
        elif spoiler == 4:
            fields["hwtype"] = 6
        elif spoiler == 5:
            fields["ptype"] = 0x86DD
        elif spoiler == 6:
            ether["type"] = 0x0800
        elif spoiler == 7:
            fields["hwsrc"] = mac(group=True)
        elif spoiler == 8:
            fields["hwsrc"] = "00:00:00:00:00:00"
        else:
            answer = (src, ip)
        frame = bytes(Ether(**ether) / ARP(**fields))
        return frame, answer

    ready = 0.9
    expected, frames, gaps = [], [], []
    for _ in range(200):
        frame, answer = request()
        wire = add_fcs(frame)
        if rand.random() < 0.1:
            wire = wire[:-1] + bytes([wire[-1] ^ 1])
            answer = None
        elif rand.random() < 0.05:
            # The request in a longer frame is still one.
            wire = add_fcs(frame + rand.randbytes(60))
        if answer:
            expected.append(answer)
        frames.append(xgmii_frame(wire))
        # Long enough for a reply to leave.
        gaps.append(200)
    line = xgmii_line(frames, gaps)
    replies, current, pulses = [], b"", 0
    last_request = None
    dut.arp_tready_i.value = 0
    for cycle in range(len(line) // 8):
        word = line[8 * cycle : 8 * cycle + 8]
        dut.xgmii_rxd_i.value = int.from_bytes(bytes(b for b, _ in word), "little")
        dut.xgmii_rxc_i.value = sum(c << i for i, (_, c) in enumerate(word))
        dut.arp_tready_i.value = rand.random() < ready
        await ReadOnly()
        assert not dut.arp_drop_o.value
        if dut.arp_tvalid_o.value:
            if not current:
                # First cycle of the reply: offered right after the request's last beat.
                assert last_request is not None
                if pulses == len(replies):
                    assert cycle == last_request + 1
            if dut.arp_reply_o.value:
                pulses += 1
            if dut.arp_tready_i.value:
                count = int(dut.arp_tkeep_o.value).bit_count()
                current += int(dut.arp_tdata_o.value).to_bytes(8, "little")[:count]
                if dut.arp_tlast_o.value:
                    replies.append(current)
                    current = b""
        if dut.xrx_tvalid_o.value and dut.xrx_tlast_o.value:
            last_request = cycle
        await RisingEdge(dut.clk_i)
    assert len(replies) == len(expected) == pulses
    for reply, (src, ip) in zip(replies, expected, strict=True):
        assert len(reply) == 42
        packet = Ether(reply)
        assert (packet.dst, packet.src, packet.type) == (src, own_mac, 0x0806)
        arp = packet[ARP]
        assert (arp.hwtype, arp.ptype, arp.hwlen, arp.plen, arp.op) == (1, 0x0800, 6, 4, 2)
        assert (arp.hwsrc, arp.psrc, arp.hwdst, arp.pdst) == (own_mac, own_ip, src, ip)


@cocotb.test()
async def arp_drops_are_counted(dut) -> None:
    """One reply waits; requests meanwhile are dropped and counted, and do not disturb it."""
    await start(dut)
    dut.ip_i.value = 0x0A010203
    dut.mac_i.value = 0x021122334455
    requests = [
        add_fcs(
            bytes(
                Ether(dst="ff:ff:ff:ff:ff:ff", src=f"02:00:00:00:00:{i:02x}")
                / ARP(op=1, hwsrc=f"02:00:00:00:00:{i:02x}", psrc=f"10.1.2.{i}", pdst="10.1.2.3")
            )
        )
        for i in range(10, 14)
    ]
    line = xgmii_line([xgmii_frame(r) for r in requests], [12] * 4)
    drops = 0
    for cycle in range(len(line) // 8):
        word = line[8 * cycle : 8 * cycle + 8]
        dut.xgmii_rxd_i.value = int.from_bytes(bytes(b for b, _ in word), "little")
        dut.xgmii_rxc_i.value = sum(c << i for i, (_, c) in enumerate(word))
        await ReadOnly()
        drops += int(dut.arp_drop_o.value)
        await RisingEdge(dut.clk_i)
    assert drops == 3
    dut.arp_tready_i.value = 1
    reply = b""
    for _ in range(6):
        await ReadOnly()
        assert dut.arp_tvalid_o.value
        reply += int(dut.arp_tdata_o.value).to_bytes(8, "little")
        await RisingEdge(dut.clk_i)
    await ReadOnly()
    assert not dut.arp_tvalid_o.value
    assert reply[:6] == bytes.fromhex("02000000000a")
    assert reply[38:42] == struct.pack("!I", 0x0A01020A)


@pytest.mark.parametrize(
    ("limit", "dic"), [(1518, 1), (9018, 0)], ids=["standard", "jumbo-no-deficit"]
)
def test_eth(limit: int, dic: int) -> None:
    """Run all tests above on one build for each set of parameters."""
    cases = None
    if not dic:
        cases = ["xgmii_rx_frames", "xgmii_tx_back_to_back", "xgmii_tx_random_gaps"]
    build_and_run(
        "tb_eth",
        __name__,
        filelists=["rtl/eth/eth.f"],
        sources=["verif/eth/tb_eth.sv"],
        parameters={"MaxFrame": limit, "EnableDic": dic},
        testcases=cases,
    )
