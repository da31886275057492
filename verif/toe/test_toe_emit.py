# SPDX-License-Identifier: Apache-2.0
"""Bench of toe_emit: each sheet becomes the frame that Scapy makes of it, at a constant time."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from harness import build_and_run
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from toe_bench import ADDRESS, MAC, MINIMUM, PEER, PEER_MAC, PERIOD_PS, rng, start

SHEETS = 300
GAPS = 4
WORD_W = 8
# Edges from the one that takes a sheet to the one that takes the first beat, both counted.
TO_FIRST_BEAT = 4
# Edges between the last beat of a frame and the first one of the next.
BETWEEN = 3
ORDER = (
    *(("mac", 48), ("ip", 32), ("peer_port", 16), ("local_port", 16), ("conn", 10)),
    *(("seq", 32), ("ack", 32), ("flags", 8), ("window", 16)),
    *(("mss_valid", 1), ("mss", 16), ("scale_valid", 1), ("scale", 4), ("sack_ok", 1)),
    *(("times_valid", 1), ("time_value", 32), ("time_echo", 32), ("sack_valid", GAPS)),
    *((f"{side}{i}", 32) for i in reversed(range(GAPS)) for side in ("first", "behind")),
    ("bytes", 15),
)


def number(address: str, separator: str, base: int) -> int:
    """Return an address as a number, its first byte on top."""
    return int.from_bytes(bytes(int(part, base) for part in address.split(separator)), "big")


@dataclass
class Sheet:
    """What is given to the module, and the frame that is to come of it."""

    order: int
    payload: bytes
    target: int  # where in a word the payload begins
    frame: bytes

    def sum(self) -> int:
        """Return the sum of the payload's halves."""
        even = self.payload + b"\0" * (len(self.payload) % 2)
        return sum(int.from_bytes(even[i : i + 2], "big") for i in range(0, len(even), 2))


def random_sheet(rand: random.Random) -> Sheet:
    """Make an order with options that go together, and let Scapy write the same."""
    values = {name: rand.getrandbits(width) for name, width in ORDER}
    names = ("mss_valid", "scale_valid", "sack_ok", "times_valid", "sack_valid")
    values |= dict.fromkeys(names, 0)
    values |= {"mac": number(PEER_MAC, ":", 16), "ip": number(PEER, ".", 10)}
    options: list = []
    fill = [("NOP", None)]
    if rand.random() < 0.4:  # of a SYN
        if rand.random() < 0.7:
            values["mss_valid"] = 1
            options.append(("MSS", values["mss"]))
        if rand.random() < 0.7:
            values["scale_valid"] = 1
            options += [*fill, ("WScale", values["scale"])]
        if rand.random() < 0.7:
            values["sack_ok"] = 1
            options += [*fill, *fill, ("SAckOK", b"")]
    if rand.random() < 0.5:
        values["times_valid"] = 1
        options += [*fill, *fill, ("Timestamp", (values["time_value"], values["time_echo"]))]
    if not any(values[name] for name in names[:3]) and rand.random() < 0.6:
        # Beside time stamps there is room for three blocks.
        which = rand.sample(range(GAPS), rand.randrange(GAPS + 1 - values["times_valid"]))
        values["sack_valid"] = sum(1 << i for i in which)
        edges = [values[f"{side}{i}"] for i in sorted(which) for side in ("first", "behind")]
        options += [*fill, *fill, ("SAck", tuple(edges))] if which else []
    size = rand.choice((0, 0, 1, 6, rand.randrange(80), rand.randrange(1400)))
    values["bytes"] = size
    payload = rand.randbytes(size)
    tcp = TCP(
        sport=values["local_port"],
        dport=values["peer_port"],
        seq=values["seq"],
        ack=values["ack"],
        flags=values["flags"],
        window=values["window"],
        options=options,
    )
    ip = IP(src=ADDRESS, dst=PEER, id=0, flags="DF", ttl=64)
    frame = bytes(Ether(src=MAC, dst=PEER_MAC) / ip / tcp / Raw(payload))
    order = 0
    for name, width in ORDER:
        order = order << width | values[name]
    return Sheet(order, payload, (len(frame) - size) % 8, frame.ljust(MINIMUM, b"\0"))


async def fill_bank(dut, bank: int, sheet: Sheet) -> None:
    """Write a payload where toe_fetch would have put it."""
    image = bytes(sheet.target) + sheet.payload
    for at in range(0, len(image), 8):
        dut.we_i.value = 1
        dut.waddr_i.value = bank << WORD_W | at // 8
        dut.wdata_i.value = int.from_bytes(image[at : at + 8].ljust(8, b"\0"), "little")
        await RisingEdge(dut.clk_i)
    dut.we_i.value = 0


@cocotb.test()
async def sheets_become_frames_at_a_constant_time(dut) -> None:
    """Banks alternate; the next sheet often waits while a frame leaves, and beats are held up."""
    rand = rng()
    for name in ("sheet_i", "sum_i", "bank_i", "sheet_valid_i", "we_i", "waddr_i", "wdata_i"):
        getattr(dut, name).value = 0
    dut.tready_i.value = 0
    dut.mac_i.value = number(MAC, ":", 16)
    dut.ip_i.value = number(ADDRESS, ".", 10)
    await start(dut)
    taken: deque[tuple[int, bytes]] = deque()
    waits: deque[bool] = deque()
    done = 0

    def edge() -> int:
        return round(get_sim_time("ps") / PERIOD_PS)

    async def give() -> None:
        for at in range(SHEETS):
            sheet = random_sheet(rand)
            await fill_bank(dut, at % 2, sheet)
            for _ in range(rand.choice((0, 0, 5, 200))):
                await RisingEdge(dut.clk_i)
            dut.sheet_i.value = sheet.order
            dut.sum_i.value = sheet.sum()
            dut.bank_i.value = at % 2
            dut.sheet_valid_i.value = 1
            waited = False
            while True:
                await ReadOnly()
                ready = bool(dut.sheet_ready_o.value)
                await RisingEdge(dut.clk_i)
                if ready:
                    break
                waited = True
            taken.append((edge(), sheet.frame))
            waits.append(waited)
            dut.sheet_valid_i.value = 0
            # What is not offered does not matter.
            dut.sheet_i.value = rand.getrandbits(sum(width for _, width in ORDER))
            dut.sum_i.value = rand.getrandbits(32)

    cocotb.start_soon(give())
    got = bytearray()
    first, last, patient = -1, -1, 0
    while done < SHEETS:
        slow = patient % 3 == 2
        ready = int(not slow or rand.random() < 0.5)
        dut.tready_i.value = ready
        await ReadOnly()
        valid, keep = bool(dut.tvalid_o.value), int(dut.tkeep_o.value)
        data, is_last = int(dut.tdata_o.value) if valid else 0, bool(dut.tlast_o.value)
        await RisingEdge(dut.clk_i)
        if valid and first < 0:
            first = edge()
        if not (valid and ready):
            continue
        size = keep.bit_length()
        assert keep == (1 << size) - 1 and (size == 8 or is_last)
        got += data.to_bytes(8, "little")[:size]
        if not is_last:
            continue
        when, frame = taken.popleft()
        assert bytes(got) == frame, f"frame {done}: {got.hex()} instead of {frame.hex()}"
        assert first - when + 1 == TO_FIRST_BEAT, f"frame {done}: {first - when + 1} edges"
        if waits.popleft() and last >= 0:
            assert first - last - 1 == BETWEEN, f"frame {done}: {first - last - 1} edges between"
        first, last = -1, edge()
        got.clear()
        done += 1
        patient += done % 20 == 0


def test_toe_emit() -> None:
    """Run all."""
    build_and_run(
        "tb_toe_emit",
        __name__,
        filelists=["rtl/toe/toe.f"],
        sources=["verif/toe/tb_toe_emit.sv"],
        # The package has names for the other modules.
        build_args=["-Wno-UNUSEDPARAM"],
    )
