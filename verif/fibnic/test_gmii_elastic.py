# SPDX-License-Identifier: Apache-2.0
"""Bench of the elastic FIFO: every byte of every frame, once, in order, whatever the clocks."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, Timer
from cocotb.utils import get_sim_time
from harness import build_and_run

# Ten times the real period, so that a picosecond is 12.5 ppm. Nothing here depends on it.
PERIOD_PS = 80000
PPM_PS = PERIOD_PS / 1e6
GAP = 12
OPENING = 80  # cycles from the end of a reset to where frames are taken
RESETS = 3000 if os.environ.get("IPNUMA_LONG") else 150


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


@dataclass
class Frame:
    """A frame on one side: (byte, error), and the time of the edge its bytes began at."""

    symbols: list[tuple[int, int]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    holes: list[int] = field(default_factory=list)  # bytes in front of cycles without one


class Bench:
    """Plays frames on the pins and collects what comes out."""

    def __init__(self, dut, rand: random.Random) -> None:
        self.dut, self.rand = dut, rand
        self.sent: list[Frame] = []
        self.got: list[Frame] = []
        self.quiet = 0

    async def start(self, ppm: float, phase: float) -> None:
        """Clocks, reset; the receive clock is faster by `ppm`."""
        dut = self.dut
        dut.gmii_rxd_i.value = dut.gmii_rx_dv_i.value = dut.gmii_rx_er_i.value = 0
        dut.rst_rx_i.value = dut.rst_i.value = 1
        Clock(dut.clk_i, PERIOD_PS, "ps").start()
        await Timer(1 + int(phase * PERIOD_PS), "ps")
        period = round(PERIOD_PS - ppm * PPM_PS)
        Clock(dut.clk_rx_i, period, "ps", period_high=period // 2).start()
        for _ in range(4):
            await RisingEdge(dut.clk_i)
            await RisingEdge(dut.clk_rx_i)
        dut.rst_rx_i.value = dut.rst_i.value = 0
        cocotb.start_soon(self._watch())
        for _ in range(40):
            await RisingEdge(dut.clk_rx_i)

    async def send(self, length: int, gap: int, errors: float = 0.0) -> None:
        """Play a frame and the gap behind it, with anything on the data pins there."""
        dut, rand = self.dut, self.rand
        frame = Frame()
        edge = RisingEdge(dut.clk_rx_i)
        dut.gmii_rx_dv_i.value = 1
        for _ in range(length):
            symbol = rand.randrange(256), int(rand.random() < errors)
            dut.gmii_rxd_i.value, dut.gmii_rx_er_i.value = symbol
            frame.symbols.append(symbol)
            frame.times.append(get_sim_time("ps"))
            await edge
        dut.gmii_rx_dv_i.value = 0
        for _ in range(gap):
            dut.gmii_rxd_i.value, dut.gmii_rx_er_i.value = rand.randrange(256), rand.randrange(2)
            await edge
        self.sent.append(frame)

    async def _watch(self) -> None:
        dut = self.dut
        edge = RisingEdge(dut.clk_i)
        frame: Frame | None = None
        while True:
            await edge
            valid, dv = bool(dut.valid_o.value), bool(dut.rx_dv_o.value)
            if dv:
                assert valid
                frame = frame or Frame()
                frame.symbols.append((int(dut.rxd_o.value), int(dut.rx_er_o.value)))
                # The byte stood here since the edge before.
                frame.times.append(get_sim_time("ps") - PERIOD_PS)
            elif not valid:
                assert frame is not None, "a cycle without a byte between frames"
                frame.holes.append(len(frame.symbols))
            elif frame is not None:
                self.got.append(frame)
                frame = None
            if dv or not valid:
                assert dut.busy_o.value
            self.quiet = 0 if dut.busy_o.value else self.quiet + 1

    async def settle(self) -> None:
        """Wait until all is through."""
        for _ in range(40):
            await RisingEdge(self.dut.clk_i)
        assert self.quiet > 10

    def delays(self) -> list[float]:
        """Cycles from the pins to the core, of all bytes."""
        return [
            (b - a) / PERIOD_PS
            for sent, got in zip(self.sent, self.got, strict=True)
            for a, b in zip(sent.times, got.times, strict=True)
        ]


async def frames_at(dut, ppm: float) -> None:
    """Long and short frames, gaps of 12 bytes: nothing lost, nothing twice, holes far apart."""
    bench = Bench(dut, rng())
    await bench.start(ppm, bench.rand.random())
    lengths = [9224, 9224] + [bench.rand.choice([72, 72, 73, 80, 1526, 9]) for _ in range(25)]
    for length in lengths:
        await bench.send(length, GAP, errors=0.01)
    await bench.settle()
    assert [f.symbols for f in bench.got] == [f.symbols for f in bench.sent]
    delays = bench.delays()
    # Latency: 2 to 3 cycles by the phase; a slower core falls behind, by no more than it is slower.
    behind = max(ppm, 0) * 1e-6 * max(lengths)
    # Of the 2 cycles one is the receive clock's, from the pins to its edge.
    least = 2 - max(ppm, 0) * 1e-6
    assert min(delays) >= least and max(delays) <= 3 + behind + 0.01, (min(delays), max(delays))
    for frame in bench.got:
        # A slower core never waits; another at most once in 2,000 bytes.
        assert ppm < 0 or len(frame.holes) <= 1
        assert all(b - a >= 2000 for a, b in zip(frame.holes, frame.holes[1:], strict=False))
    holes = sum(len(f.holes) for f in bench.got)
    if ppm <= -200:
        assert holes > 0
    dut._log.info("%g ppm: delay %.2f to %.2f, holes %d", ppm, min(delays), max(delays), holes)


@cocotb.test()
async def receiver_much_slower(dut) -> None:
    """200 ppm below and the core 200 ppm above."""
    await frames_at(dut, -400)


@cocotb.test()
async def receiver_slower(dut) -> None:
    """100 ppm each."""
    await frames_at(dut, -200)


@cocotb.test()
async def receiver_equal(dut) -> None:
    """Two clocks of one frequency."""
    await frames_at(dut, 0)


@cocotb.test()
async def receiver_faster(dut) -> None:
    """100 ppm each."""
    await frames_at(dut, 200)


@cocotb.test()
async def receiver_much_faster(dut) -> None:
    """200 ppm above and the core 200 ppm below."""
    await frames_at(dut, 400)


@cocotb.test()
async def one_clock(dut) -> None:
    """The receiver on the core's own edges: always the same delay, and no hole."""
    bench = Bench(dut, rng())
    await bench.start(0, 0)
    for _ in range(20):
        await bench.send(bench.rand.randint(1, 100), bench.rand.choice([1, 2, GAP]))
    await bench.settle()
    assert [f.symbols for f in bench.got] == [f.symbols for f in bench.sent]
    assert not any(f.holes for f in bench.got)
    assert len({round(d, 2) for d in bench.delays()}) == 1


@cocotb.test()
async def jabber(dut) -> None:
    """A frame without end on a clock that is far too fast: marked bad; the next is whole."""
    bench = Bench(dut, rng())
    limit = int(dut.MaxFrame.value)
    await bench.start(30000, bench.rand.random())
    seen = Counter()
    for _ in range(30):
        jabbers = bench.rand.random() < 0.5
        await bench.send(bench.rand.randint(800, 1500) if jabbers else limit, 2 * GAP)
    await bench.settle()
    # Every frame ends, so that there are as many as were sent.
    for sent, got in zip(bench.sent, bench.got, strict=True):
        if len(sent.symbols) <= limit:
            assert got.symbols == sent.symbols
        elif got.symbols != sent.symbols:
            assert len(got.symbols) < len(sent.symbols)
            first = next(i for i, s in enumerate(got.symbols) if s != sent.symbols[i])
            # From the loss on every byte is marked.
            assert first > limit and all(er for _, er in got.symbols[first:])
            seen["lost"] += 1
    assert seen["lost"] > 5, seen


@cocotb.test()
async def resets_in_frames(dut) -> None:
    """A reset ends the frame on the pins with an error; those before and behind it are whole."""
    bench = Bench(dut, rng())
    rand = bench.rand
    await bench.start(rand.choice([-100, 0, 100]), rand.random())
    ended = 0
    for _ in range(RESETS):
        before, length = len(bench.got), rand.randint(20, 200)
        frame = cocotb.start_soon(bench.send(length, GAP))
        for _ in range(rand.randint(10, length - 2)):
            await RisingEdge(dut.clk_rx_i)
        dut.rst_rx_i.value = 1
        for _ in range(rand.choice([1, 1, 2, 10, 60])):
            await RisingEdge(dut.clk_rx_i)
        dut.rst_rx_i.value = 0
        await frame
        for _ in range(OPENING):
            await RisingEdge(dut.clk_rx_i)
        assert len(bench.got) == before + 1, "a frame came again, or in parts"
        got, sent = bench.got[-1].symbols, bench.sent[-1].symbols
        assert got[:-1] == sent[: len(got) - 1] and len(got) <= len(sent)
        assert got[-1][1], "a frame that was cut without an error"
        ended += len(got) > 10
        for _ in range(rand.randint(0, 2)):
            await bench.send(rand.randint(20, 200), GAP)
            await bench.settle()
            assert bench.got[-1].symbols == bench.sent[-1].symbols
    assert ended > RESETS // 2


PPM = ["much_slower", "slower", "equal", "faster", "much_faster"]


def test_gmii_elastic() -> None:
    """Run the tests of all differences of clocks."""
    build_and_run(
        "tb_gmii_elastic",
        __name__,
        filelists=["rtl/lib/lib.f"],
        sources=[
            "rtl/fibnic/port_reset.sv",
            "rtl/fibnic/gmii_elastic.sv",
            "verif/fibnic/tb_gmii_elastic.sv",
        ],
        testcases=[*(f"receiver_{p}" for p in PPM), "one_clock", "resets_in_frames"],
    )


@pytest.mark.parametrize(
    ("parameters", "testcase"),
    [({"MaxFrame": 64}, "jabber"), ({"AsyncRx": 0}, "one_clock")],
    ids=["jabber", "one-clock"],
)
def test_gmii_elastic_corners(parameters: dict[str, int], testcase: str) -> None:
    """Run what is beyond the standard, and what has nothing to cross."""
    build_and_run(
        "tb_gmii_elastic",
        __name__,
        filelists=["rtl/lib/lib.f"],
        sources=[
            "rtl/fibnic/port_reset.sv",
            "rtl/fibnic/gmii_elastic.sv",
            "verif/fibnic/tb_gmii_elastic.sv",
        ],
        parameters=parameters,
        testcases=[testcase],
    )
