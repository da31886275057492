# SPDX-License-Identifier: Apache-2.0
"""Bench of the RTL library: random streams against queues, CRCs against bit-serial division."""

from __future__ import annotations

import binascii
import random
import subprocess
import sys
import zlib
from collections import deque
from dataclasses import dataclass

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from harness import ROOT, build_and_run

INPUTS = (
    "clk_b_i rst_b_i crc_data_i crc_state_i crc_k_i crc_n_i arb_req_i arb_ack_i arb_lock_i "
    "ram_we_i ram_waddr_i ram_wdata_i ram_re_i ram_raddr_i ram2_re_i ram2_raddr_i"
).split()
STREAMS = ("fifo", "skid", "async", "req")
# Periods in ps of both clocks: equal, PCIe against 10G, 1G against PCIe, far apart, near-equal.
RATIOS = [(4000, 4000), (4000, 6400), (8000, 4000), (1000, 17000), (13000, 1100), (6400, 6402)]


def rng() -> random.Random:
    """Random numbers from the run's seed, which the harness prints."""
    return random.Random(random.getrandbits(64))


async def start(dut, period_a: int = 4000, period_b: int = 6400, phase: int = 0) -> list:
    """Start the clocks, put every input to rest, reset both sides; returns the clocks' tasks."""
    for name in INPUTS:
        dut[name].value = 0
    for name in STREAMS:
        dut[f"{name}_wvalid_i"].value = 0
        dut[f"{name}_wdata_i"].value = 0
        dut[f"{name}_rready_i"].value = 0
    dut.rst_i.value = 1
    dut.rst_b_i.value = 1
    tasks = [Clock(dut.clk_i, period_a, "ps").start()]
    await Timer(phase + 1, "ps")
    tasks.append(Clock(dut.clk_b_i, period_b, "ps").start())
    for _ in range(4):
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_b_i)
    dut.rst_i.value = 0
    dut.rst_b_i.value = 0
    await RisingEdge(dut.clk_i)
    await RisingEdge(dut.clk_b_i)
    return tasks


def stop(tasks: list) -> None:
    """Stop the clocks, for another pair."""
    for task in tasks:
        task.cancel()


@dataclass(frozen=True)
class Crc:
    """A CRC as the textbooks give it: polynomial, most significant term first."""

    width: int
    poly: int
    reflected: bool

    def update(self, state: int, data: bytes) -> int:
        """Register after data, bit by bit, in the reflected register where there is one."""
        mask = (1 << self.width) - 1
        if self.reflected:
            state = int(f"{state:0{self.width}b}"[::-1], 2)
        for byte in data:
            order = range(8) if self.reflected else range(7, -1, -1)
            for i in order:
                feedback = (state >> (self.width - 1)) ^ (byte >> i & 1)
                state = (state << 1) & mask ^ (self.poly if feedback else 0)
        if self.reflected:
            state = int(f"{state:0{self.width}b}"[::-1], 2)
        return state


ETH = Crc(32, 0x04C11DB7, True)
CASTAGNOLI = Crc(32, 0x1EDC6F41, True)
CCITT = Crc(16, 0x1021, False)


def check_vectors() -> None:
    """Check the reference itself against libraries and published check values."""
    text = b"123456789"
    assert ETH.update(0xFFFFFFFF, text) ^ 0xFFFFFFFF == zlib.crc32(text) == 0xCBF43926
    assert CASTAGNOLI.update(0xFFFFFFFF, text) ^ 0xFFFFFFFF == 0xE3069283
    assert CCITT.update(0xFFFF, text) == binascii.crc_hqx(text, 0xFFFF) == 0x29B1


@cocotb.test()
async def crc_functions(dut) -> None:
    """Updates, rewinds and residues of every CRC, for every number of bytes."""
    check_vectors()
    rand = rng()
    ports = {"eth": ETH, "crc32c": CASTAGNOLI, "crc16": CCITT}
    for _ in range(400):
        state, data = rand.getrandbits(32), rand.randbytes(8)
        k, n = rand.randrange(8), rand.randint(1, 8)
        # nextn wants zeros behind its n bytes.
        masked = data[:n] + bytes(8 - n)
        for used in (data, masked):
            dut.crc_data_i.value = int.from_bytes(used, "little")
            dut.crc_state_i.value = state
            dut.crc_k_i.value = k
            dut.crc_n_i.value = n
            await Timer(1, "ns")
            for name, crc in ports.items():
                seed = state & ((1 << crc.width) - 1)
                assert int(dut[f"{name}_next64_o"].value) == crc.update(seed, used), name
                before = int(dut[f"{name}_rewind_o"].value)
                assert crc.update(before, bytes(k)) == seed, name
        assert int(dut.eth_next8_o.value) == ETH.update(state, data[:1])
        assert int(dut.eth_nextn_o.value) == ETH.update(state, data[:n])
    for k in range(8):
        dut.crc_k_i.value = k
        await Timer(1, "ns")
        message = rand.randbytes(33)
        eth = message + zlib.crc32(message).to_bytes(4, "little")
        assert int(dut.eth_residue_o.value) == ETH.update(0xFFFFFFFF, eth + bytes(k))
        value = CASTAGNOLI.update(0xFFFFFFFF, message) ^ 0xFFFFFFFF
        checked = message + value.to_bytes(4, "little") + bytes(k)
        assert int(dut.crc32c_residue_o.value) == CASTAGNOLI.update(0xFFFFFFFF, checked)
        checked = message + CCITT.update(0xFFFF, message).to_bytes(2, "big") + bytes(k)
        assert int(dut.crc16_residue_o.value) == CCITT.update(0xFFFF, checked)


class Writer:
    """Offers random words; a word once offered stays until it is taken."""

    def __init__(self, dut, name: str, clock, rand: random.Random, queue: deque) -> None:
        """Attach to the write side of a stream; taken words go to `queue`."""
        self.dut, self.name, self.clock, self.rand, self.queue = dut, name, clock, rand, queue
        self.rate = 0.5
        self.taken = 0
        self.stalled = 0
        self.on = True

    async def run(self) -> None:
        """Drive until cancelled."""
        dut, name = self.dut, self.name
        offered = False
        while True:
            if not offered and self.on and self.rand.random() < self.rate:
                offered = True
                dut[f"{name}_wdata_i"].value = self.rand.getrandbits(16)
            dut[f"{name}_wvalid_i"].value = offered
            await ReadOnly()
            take = offered and bool(dut[f"{name}_wready_o"].value)
            self.stalled += offered and not take
            if take:
                self.queue.append(int(dut[f"{name}_wdata_i"].value))
                self.taken += 1
                offered = False
            await RisingEdge(self.clock)


class Reader:
    """Takes words at random and compares them."""

    def __init__(self, dut, name: str, clock, rand: random.Random, queue: deque) -> None:
        """Attach to the read side of a stream."""
        self.dut, self.name, self.clock, self.rand, self.queue = dut, name, clock, rand, queue
        self.rate = 0.5
        self.taken = 0

    async def run(self) -> None:
        """Drive until cancelled."""
        dut, name = self.dut, self.name
        held = None
        while True:
            ready = self.rand.random() < self.rate
            dut[f"{name}_rready_i"].value = ready
            await ReadOnly()
            valid = bool(dut[f"{name}_rvalid_o"].value)
            if held is not None:
                assert valid, "an offered word stays until taken"
            if valid:
                data = int(dut[f"{name}_rdata_o"].value)
                assert self.queue, "a word out of nothing"
                assert data == self.queue[0]
                held = data
                if ready:
                    self.queue.popleft()
                    self.taken += 1
                    held = None
            await RisingEdge(self.clock)


async def shake(dut, name: str, clock_b, rand: random.Random, words: int) -> None:
    """Random traffic through a stream at changing rates, then drain it."""
    queue: deque[int] = deque()
    writer = Writer(dut, name, dut.clk_i, rand, queue)
    reader = Reader(dut, name, clock_b, rand, queue)
    tasks = [cocotb.start_soon(writer.run()), cocotb.start_soon(reader.run())]
    # Full first, whatever the ratio of the clocks.
    writer.rate, reader.rate = 1, 0
    while not writer.stalled:
        await RisingEdge(dut.clk_i)
    while reader.taken < words:
        writer.rate, reader.rate = rand.choice([(1, 1), (1, 0.2), (0.2, 1), (0.5, 0.5), (1, 0.9)])
        for _ in range(40):
            await RisingEdge(clock_b)
            await RisingEdge(dut.clk_i)
    writer.on = False
    reader.rate = 1
    for _ in range(80):
        await RisingEdge(clock_b)
        await RisingEdge(dut.clk_i)
    assert not queue and reader.taken == writer.taken
    stop(tasks)


@cocotb.test()
async def sync_fifo_random(dut) -> None:
    """Random traffic."""
    await start(dut)
    await shake(dut, "fifo", dut.clk_i, rng(), 1500)


@cocotb.test()
async def sync_fifo_levels(dut) -> None:
    """Fill, count, full, drain; a word is readable right after the edge that wrote it."""
    await start(dut)
    depth = int(dut.FifoDepth.value)
    dut.fifo_wvalid_i.value = 1
    for i in range(depth):
        dut.fifo_wdata_i.value = i
        await ReadOnly()
        assert dut.fifo_wready_o.value and int(dut.fifo_count_o.value) == i
        assert bool(dut.fifo_rvalid_o.value) == (i > 0)
        await RisingEdge(dut.clk_i)
    await ReadOnly()
    assert not dut.fifo_wready_o.value and int(dut.fifo_count_o.value) == depth
    await RisingEdge(dut.clk_i)
    dut.fifo_wvalid_i.value = 0
    dut.fifo_rready_i.value = 1
    for i in range(depth):
        await ReadOnly()
        assert dut.fifo_rvalid_o.value and int(dut.fifo_rdata_o.value) == i
        await RisingEdge(dut.clk_i)
    await ReadOnly()
    assert not dut.fifo_rvalid_o.value


@cocotb.test()
async def skid_buffer_random(dut) -> None:
    """Random traffic."""
    await start(dut)
    await shake(dut, "skid", dut.clk_i, rng(), 1500)


@cocotb.test()
async def skid_buffer_throughput(dut) -> None:
    """A word every cycle, 1 edge of latency."""
    await start(dut)
    dut.skid_wvalid_i.value = 1
    dut.skid_rready_i.value = 1
    for i in range(20):
        dut.skid_wdata_i.value = i
        await ReadOnly()
        assert dut.skid_wready_o.value
        if i:
            assert dut.skid_rvalid_o.value and int(dut.skid_rdata_o.value) == i - 1
        await RisingEdge(dut.clk_i)


@cocotb.test()
async def async_fifo_random(dut) -> None:
    """Random traffic at every ratio of clocks."""
    rand = rng()
    for period_a, period_b in RATIOS:
        clocks = await start(dut, period_a, period_b, rand.randrange(period_b))
        await shake(dut, "async", dut.clk_b_i, rand, 300)
        stop(clocks)


@cocotb.test()
async def async_fifo_latency(dut) -> None:
    """A word is usable right after the second reader edge behind its write edge, at every phase."""
    rand = rng()
    for period_a, period_b in RATIOS:
        clocks = await start(dut, period_a, period_b, rand.randrange(period_b))
        for _ in range(20):
            dut.async_rready_i.value = 0
            for _ in range(rand.randint(1, 9)):
                await RisingEdge(dut.clk_i)
            dut.async_wvalid_i.value = 1
            dut.async_wdata_i.value = rand.getrandbits(16)
            await RisingEdge(dut.clk_i)
            # This edge writes; the two clocks never have an edge in one picosecond here.
            dut.async_wvalid_i.value = 0
            await ReadOnly()
            assert int(dut.async_count_o.value) == 1
            await RisingEdge(dut.clk_b_i)
            await ReadOnly()
            assert not dut.async_rvalid_o.value
            await RisingEdge(dut.clk_b_i)
            await ReadOnly()
            assert dut.async_rvalid_o.value
            assert dut.async_rdata_o.value == dut.async_wdata_i.value
            await Timer(1, "ps")
            dut.async_rready_i.value = 1
            await RisingEdge(dut.clk_b_i)
            dut.async_rready_i.value = 0
            # The writer knows two of its edges later.
            await RisingEdge(dut.clk_i)
            await RisingEdge(dut.clk_i)
            await ReadOnly()
            assert int(dut.async_count_o.value) == 0
            await RisingEdge(dut.clk_i)
        stop(clocks)


@cocotb.test()
async def req_ack_cdc_random(dut) -> None:
    """Random words at every ratio of clocks."""
    rand = rng()
    for period_a, period_b in RATIOS:
        clocks = await start(dut, period_a, period_b, rand.randrange(period_b))
        await shake(dut, "req", dut.clk_b_i, rand, 60)
        stop(clocks)


@cocotb.test()
async def arb_rr_model(dut) -> None:
    """Grants as a plain round robin gives them, with locks; nobody starves."""
    await start(dut)
    rand = rng()
    n = len(dut.arb_req_i)
    last, owner = n - 1, None
    waits = [0] * n
    for _ in range(3000):
        req = rand.getrandbits(n)
        ack, lock = rand.random() < 0.8, rand.random() < 0.3
        dut.arb_req_i.value, dut.arb_ack_i.value, dut.arb_lock_i.value = req, ack, lock
        await ReadOnly()
        order = [(last + 1 + i) % n for i in range(n)] if owner is None else [owner]
        winner = next((i for i in order if req >> i & 1), None)
        assert int(dut.arb_gnt_o.value) == (0 if winner is None else 1 << winner)
        assert bool(dut.arb_valid_o.value) == (winner is not None)
        if winner is not None:
            assert int(dut.arb_idx_o.value) == winner
            if ack:
                last, owner = winner, winner if lock else None
        await RisingEdge(dut.clk_i)
    dut.arb_req_i.value = (1 << n) - 1
    dut.arb_ack_i.value, dut.arb_lock_i.value = 1, 0
    for _ in range(20 * n):
        await ReadOnly()
        winner = int(dut.arb_idx_o.value)
        waits = [0 if i == winner else w + 1 for i, w in enumerate(waits)]
        assert max(waits) <= 2 * n
        await RisingEdge(dut.clk_i)


@cocotb.test()
async def ram_1r1w_model(dut) -> None:
    """Zeros at first, read-first on a collision, the latency of the parameter."""
    await start(dut)
    rand = rng()
    latency = int(dut.ReadLatency.value)
    memory = [0] * 20
    pipeline: deque[int | None] = deque([None] * latency)
    reads = 0
    for _ in range(1500):
        dut.ram_we_i.value = write = rand.random() < 0.4
        dut.ram_waddr_i.value = waddr = rand.randrange(20)
        dut.ram_wdata_i.value = wdata = rand.getrandbits(16)
        dut.ram_re_i.value = read = rand.random() < 0.7
        dut.ram_raddr_i.value = raddr = waddr if rand.random() < 0.3 else rand.randrange(20)
        await ReadOnly()
        due = pipeline.popleft()
        if due is not None:
            assert int(dut.ram_rdata_o.value) == due
            reads += 1
        pipeline.append(memory[raddr] if read else None)
        if write:
            memory[waddr] = wdata
        await RisingEdge(dut.clk_i)
    assert reads > 500


@cocotb.test()
async def ram_2clk_model(dut) -> None:
    """What one clock wrote, the other reads, after the latency of the parameter."""
    await start(dut)
    rand = rng()
    latency = int(dut.ReadLatency.value)
    # The other memory test has written here, too.
    memory: dict[int, int] = {}
    for _ in range(100):
        dut.ram_we_i.value = 1
        dut.ram_waddr_i.value = waddr = rand.randrange(20)
        dut.ram_wdata_i.value = memory[waddr] = rand.getrandbits(16)
        await RisingEdge(dut.clk_i)
        dut.ram_we_i.value = 0
        raddr = rand.choice(list(memory))
        await RisingEdge(dut.clk_b_i)
        dut.ram2_re_i.value = 1
        dut.ram2_raddr_i.value = raddr
        await RisingEdge(dut.clk_b_i)
        dut.ram2_re_i.value = 0
        for _ in range(latency - 1):
            await RisingEdge(dut.clk_b_i)
        await ReadOnly()
        assert int(dut.ram2_rdata_o.value) == memory[raddr]
        await RisingEdge(dut.clk_i)


def test_crc_package_is_generated() -> None:
    """The committed package is what the generator writes."""
    text = subprocess.run(
        [sys.executable, ROOT / "rtl/lib/gen_crc.py"], check=True, capture_output=True, text=True
    ).stdout
    assert text == (ROOT / "rtl/lib/crc_pkg.sv").read_text()


@pytest.mark.parametrize(
    "parameters",
    [
        {"FifoDepth": 5, "AsyncDepth": 8, "N": 4, "ReadLatency": 1},
        {"FifoDepth": 2, "AsyncDepth": 4, "N": 3, "ReadLatency": 2},
        {"FifoDepth": 16, "AsyncDepth": 16, "N": 1, "ReadLatency": 4},
    ],
    ids=["middle", "small", "large"],
)
def test_lib(parameters: dict[str, int]) -> None:
    """Run all tests above on one build for each set of parameters."""
    build_and_run(
        "tb_lib",
        __name__,
        filelists=["rtl/lib/lib.f"],
        sources=["verif/lib/tb_lib.sv"],
        parameters=parameters,
    )
