# SPDX-License-Identifier: Apache-2.0
"""TLPs of all classes, mixed, against the rules of order of pcie_rx_split; and nothing starves.

What the users of tlp_rx see of each TLP is written down with the cycle; the rules are checked on
what was written down.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from harness import build_and_run

REGISTERS, PAGES_BAR, NONE = 0, 2, 7
PAGES = 64
# As tb_tlp_rx has them.
POSTED_HEADERS, POSTED_DATA, NON_POSTED = 8, 16, 4
# Cycles from a TLP's last beat to its user.
BOUND = 8


@dataclass
class Sent:
    """A TLP, and what is to come of it."""

    kind: str  # store, load, write, read, completion, refused or nothing
    raw: bytes
    bar: int
    what: tuple = ()
    sent: int = -1  # cycle of its last beat
    seen: int = -1


def fields(value: int, *widths: int) -> tuple[int, ...]:
    """Split a packed struct, first member first."""
    out = []
    for width in reversed(widths):
        out.append(value & (1 << width) - 1)
        value >>= width
    return tuple(reversed(out))


def request(fmt: int, length: int, tag: int, be: int, address: int, data: bytes = b"") -> bytes:
    """Make a request; a digest if the data are longer than it says."""
    td = len(data) > 4 * length if fmt & 0x40 else bool(data)
    head = bytes([fmt, 0, td << 7 | length >> 8 & 3, length & 255, 1, 2, tag, be])
    return head + address.to_bytes(8 if fmt & 0x20 else 4, "big") + data


def draw(kind: str, number: int, longest: int = 64) -> Sent:
    """Make a random TLP of this kind; its number can be found in it."""
    wide = random.choice((0, 0x20))
    base = random.getrandbits(28) << 32 if wide else 0
    tag = number & 255
    digest = b"DIGE" if random.random() < 0.2 else b""
    if kind in ("store", "load"):
        length = random.choice((1, 1, 2, 3, random.randint(1, longest), longest))
        page, dw = random.randrange(PAGES), random.randrange(1024 - length + 1)
        address = base | 1 << 30 | page << 12 | dw << 2
        be = 0x0F if length == 1 else 0xFF
        if kind == "store":
            data = random.randbytes(4 * length)
            raw = request(0x40 | wide, length, tag, be, address, data + digest)
            return Sent(kind, raw, PAGES_BAR, (page, dw << 2, length, tag, data))
        return Sent(kind, request(wide, length, tag, be, address, digest), PAGES_BAR,
                    (page, dw << 2, length, tag, b""))
    if kind in ("write", "read"):
        length, offset = random.choice((1, 2)), random.randrange(1 << 20) << 2
        address, be = base | offset, 0x0F if length == 1 else 0xFF
        if kind == "write":
            data = random.randbytes(4 * length)
            raw = request(0x40 | wide, length, tag, be, address, data + digest)
            return Sent(kind, raw, REGISTERS, (1, offset, length, tag, data))
        return Sent(kind, request(wide, length, tag, be, address, digest), REGISTERS,
                    (0, offset, length, tag, b""))
    if kind == "completion":
        length = random.choice((0, 1, 2, random.randint(1, longest)))
        data = random.randbytes(4 * length)
        head = bytes([0x4A if length else 0x0A, 0, 0, length, 0, 0, 0, 4, 0, 0, tag, 0])
        return Sent(kind, head + data, NONE, (length, tag, data))
    if kind == "refused":
        raw = random.choice((
            request(wide, 1, tag, 0x0F, base | 64),  # to no BAR
            request(0x02, 1, tag, 0x0F, 64, digest),  # I/O
            request(0x45, 1, tag, 0x0F, 64, random.randbytes(4)),  # configuration
            request(0x4D | wide, 2, tag, 0, base | 64, random.randbytes(8)),  # atomic
        ))
        return Sent(kind, raw, NONE, (tag,))
    # Nothing comes of these: a message, a write to no BAR, a poisoned store, one of a wrong length.
    raw, bar = random.choice((
        (request(0x74, 1, tag, 0, base, random.randbytes(4)), NONE),
        (request(0x40 | wide, 3, tag, 0xFF, base | 64, random.randbytes(12)), NONE),
        (b"\x40\x00\x40\x01" + bytes(4) + bytes(4) + b"pois", PAGES_BAR),
        (request(0x40 | wide, 3, tag, 0xFF, base | 64, random.randbytes(8)), PAGES_BAR),
        (request(wide, 1, tag, 0xFF, base | 64, random.randbytes(8)), PAGES_BAR),
        (request(0x40, 1, tag, 0xFF, 0xFFC, random.randbytes(4))[:8], REGISTERS),
    ))
    return Sent("nothing", raw, bar)


@dataclass
class Bench:
    """Drives tlp_rx and writes down what its users see."""

    dut: object
    tlps: list[Sent] = field(default_factory=list)
    waiting: dict[str, list[Sent]] = field(default_factory=dict)
    # Probabilities of ready inputs.
    store: float = 1.0
    load: float = 1.0
    register: float = 1.0
    room: float = 1.0
    cpl: float = 1.0
    gap: float = 0.0
    under_way: Sent | None = None  # a register write
    counts: int = 0

    @property
    def cycle(self) -> int:
        """Edges of the clock so far."""
        return int(get_sim_time("ns")) // 4

    async def start(self) -> Bench:
        """Reset."""
        dut = self.dut
        Clock(dut.clk_i, 4, "ns").start()
        dut.rst_i.value = 1
        for name in ("s_tlp_tvalid_i", "s_tlp_tlast_i", "s_tlp_tdata_i", "s_tlp_tkeep_i",
                     "s_tlp_tuser_i", "reg_op_ready_i", "reg_read_ok_i", "page_store_ready_i",
                     "page_load_ready_i", "cpl_ready_i"):
            getattr(dut, name).value = 0
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        cocotb.start_soon(self.watch())
        return self

    async def send(self, tlp: Sent) -> None:
        """Drive a TLP."""
        dut = self.dut
        self.tlps.append(tlp)
        self.waiting.setdefault(tlp.kind, []).append(tlp)
        for at in range(0, len(tlp.raw), 8):
            while random.random() < self.gap:
                dut.s_tlp_tvalid_i.value = 0
                await RisingEdge(dut.clk_i)
            beat = tlp.raw[at : at + 8]
            dut.s_tlp_tvalid_i.value = 1
            dut.s_tlp_tdata_i.value = int.from_bytes(beat, "little")
            dut.s_tlp_tkeep_i.value = (1 << len(beat)) - 1
            dut.s_tlp_tlast_i.value = at + 8 >= len(tlp.raw)
            dut.s_tlp_tuser_i.value = tlp.bar if at == 0 else random.randrange(8)
            while True:
                await ReadOnly()
                taken = int(dut.s_tlp_tready_o.value)
                await RisingEdge(dut.clk_i)
                if taken:
                    break
        tlp.sent = self.cycle
        dut.s_tlp_tvalid_i.value = 0

    def see(self, kind: str, what: tuple) -> None:
        """Write down that the next of this kind was seen: it must be this one."""
        assert self.waiting.get(kind), f"a {kind} that nobody sent: {what}"
        tlp = self.waiting[kind].pop(0)
        assert tlp.what == what, (kind, tlp.what, what)
        tlp.seen = self.cycle
        if kind == "write":
            self.under_way = tlp

    async def watch(self) -> None:
        """Write down all that comes, and move the ready inputs."""
        dut = self.dut
        page, completion = bytearray(256), bytearray(256)
        busy, op = 0, None
        while True:
            await ReadOnly()
            for name, memory in (("page", page), ("cpl", completion)):
                for half, shift in (("even", 0), ("odd", 4)):
                    if int(getattr(dut, f"{name}_pay_{half}_we_o").value):
                        at = 8 * int(getattr(dut, f"{name}_pay_{half}_idx_o").value) + shift
                        data = int(getattr(dut, f"{name}_pay_{half}_data_o").value)
                        memory[at : at + 4] = data.to_bytes(4, "little")
            if int(dut.page_first_o.value):
                op = fields(int(dut.page_op_o.value), 1, 18, 12, 7, 4, 4, 16, 8, 3, 2, 5)
                ready = dut.page_load_ready_i if op[0] else dut.page_store_ready_i
                assert int(ready.value) and int(dut.page_look_o.value)
            if int(dut.page_end_o.value):
                kind = "load" if op[0] else "store"
                data = b"" if op[0] else bytes(page[: 4 * op[3]])
                self.see(kind, (op[1], op[2], op[3], op[7], data))
            if int(dut.rx_error_valid_o.value):
                assert int(dut.page_load_ready_i.value)
                self.see("refused", (fields(int(dut.rx_error_o.value), 16, 8, 28)[1],))
            if int(dut.cpl_valid_o.value):
                head = fields(int(dut.cpl_head_o.value), 1, 3, 12, 7, 10, 8)
                data = bytes(completion[: 4 * head[4]]) if head[0] else b""
                self.see("completion", (head[4], head[5], data))
            if int(dut.reg_op_valid_o.value) and int(dut.reg_op_ready_i.value):
                reg = fields(int(dut.reg_op_o.value), 1, 23, 1, 64, 4, 4, 16, 8, 3, 2)
                length = reg[2] + 1
                data = reg[3].to_bytes(8, "little")[: 4 * length] if reg[0] else b""
                self.see("write" if reg[0] else "read", (reg[0], reg[1], length, reg[7], data))
                busy = random.randrange(1, 9)
            self.counts += int(dut.cnt_o.value).bit_count()
            await RisingEdge(dut.clk_i)
            busy = max(0, busy - 1)
            if not busy and self.under_way:
                self.under_way.seen = self.cycle  # it has taken effect
                self.under_way = None
            dut.reg_op_ready_i.value = not busy and random.random() < self.register
            dut.reg_read_ok_i.value = random.random() < self.room
            dut.page_store_ready_i.value = random.random() < self.store
            dut.page_load_ready_i.value = random.random() < self.load
            dut.cpl_ready_i.value = random.random() < self.cpl

    async def quiet(self, cycles: int) -> None:
        """Let time pass."""
        for _ in range(cycles):
            await RisingEdge(self.dut.clk_i)

    async def idle(self, cycles: int = 5000) -> None:
        """Wait until all that was sent is done."""
        for _ in range(cycles):
            await RisingEdge(self.dut.clk_i)
            await ReadOnly()
            if not int(self.dut.busy_o.value):
                break
        else:
            raise AssertionError(f"not idle after {cycles} cycles")
        await RisingEdge(self.dut.clk_i)
        left = {k: len(v) for k, v in self.waiting.items() if v and k != "nothing"}
        assert not left, left

    def check_order(self) -> None:
        """Check what passed what; within a kind `see` has."""
        page_seen = write_seen = -1
        for tlp in self.tlps:
            if tlp.kind in ("store", "load", "refused"):
                # A load passes no store, and a register write holds for what follows.
                assert tlp.seen > page_seen
                assert tlp.kind == "refused" or tlp.seen >= write_seen
                page_seen = tlp.seen
            elif tlp.kind == "write":
                assert tlp.seen > max(page_seen, write_seen)
                write_seen = tlp.seen
            elif tlp.kind == "read":
                assert tlp.seen >= write_seen


KINDS = ("store", "load", "write", "read", "completion", "refused", "nothing")


@cocotb.test()
async def random_mixes(dut) -> None:
    """All kinds in any order, users that take their time, no credits: the order holds."""
    b = await Bench(dut).start()
    number = 0
    for _ in range(30):
        b.tlps.clear()
        weights = [random.choice((1, 5, 20)) for _ in KINDS]
        b.gap = random.choice((0, 0.3))
        for name in ("store", "load", "register", "room", "cpl"):
            setattr(b, name, random.choice((0.05, 0.5, 1)))
        before, nothing = b.counts, 0
        for _ in range(60):
            kind = random.choices(KINDS, weights)[0]
            await b.send(draw(kind, number))
            number += 1
            nothing += kind in ("refused", "nothing")
        for name in ("store", "load", "register", "room", "cpl"):
            setattr(b, name, max(getattr(b, name), 0.5))
        await b.idle()
        b.check_order()
        assert b.counts - before == nothing
        b.waiting.clear()


@cocotb.test()
async def reads_and_completions_are_served_while_stores_wait(dut) -> None:
    """With all posted and non-posted credits in use, the classes do not feel each other."""
    b = await Bench(dut).start()
    number = 0
    for _ in range(40):
        b.tlps.clear()
        b.store = b.load = 0.0
        credits = {"header": POSTED_HEADERS, "data": POSTED_DATA, "other": NON_POSTED}
        quick: list[Sent] = []
        for _ in range(40):
            kind = random.choice(("store", "load", "refused", "read", "completion", "nothing"))
            tlp = draw(kind, number, 16)
            if kind == "completion":
                # As many as have been asked for; they are done by now.
                quick.append(tlp)
            elif kind == "read":
                quick.append(tlp)
                if sum(t.seen < 0 for t in quick if t.kind == "read") >= NON_POSTED:
                    await b.quiet(40)
            elif kind in ("store", "nothing"):
                data = -(-len(tlp.raw) // 16)
                if credits["header"] < 1 or credits["data"] < data:
                    continue
                if kind == "store":
                    credits["header"] -= 1
                    credits["data"] -= data
            elif credits["other"] < 1:
                continue
            else:
                credits["other"] -= 1
            number += 1
            began = b.cycle
            await b.send(tlp)
            assert b.cycle - began <= 1 + len(tlp.raw) // 8, "the stream was stopped"
            if random.random() < 0.5:
                await b.quiet(12)
        await b.quiet(80)
        for tlp in quick:
            assert tlp.seen >= 0, f"a {tlp.kind} waits behind stores"
            # Register operations take up to 8 cycles each, and are done one at a time.
            bound = BOUND if tlp.kind == "completion" else BOUND + 9 * (NON_POSTED + 1)
            assert tlp.seen - tlp.sent <= bound, (tlp.kind, tlp.seen - tlp.sent)
        waiting = sum(len(b.waiting.get(k, [])) for k in ("store", "load", "refused"))
        assert waiting == sum(t.kind in ("store", "load", "refused") for t in b.tlps)
        b.store = b.load = random.choice((0.3, 1.0))
        await b.idle()
        b.check_order()
        b.waiting.clear()


@cocotb.test()
async def a_write_waits_for_stores_and_not_for_reads(dut) -> None:
    """What is posted stays in order; it goes on without room for the answers to reads."""
    b = await Bench(dut).start()
    number = 0
    for _ in range(30):
        b.tlps.clear()
        b.store, b.room = 0.0, 0.0
        for kind in random.sample(("store", "read", "read"), 3):
            await b.send(draw(kind, number, 4))
            number += 1
        write = draw("write", number)
        late = draw("read", number + 1)
        number += 2
        await b.send(write)
        await b.send(late)
        await b.quiet(30)
        assert write.seen < 0 and late.seen < 0
        b.store = 1.0
        await b.quiet(40)
        assert write.seen >= 0 and late.seen < 0
        b.room = 1.0
        await b.idle()
        assert late.seen > write.seen
        b.waiting.clear()


@cocotb.test()
async def a_store_is_one_cycle_late(dut) -> None:
    """The slice in front of its lane costs one cycle, no more."""
    b = await Bench(dut).start()
    await b.quiet(4)
    for number in range(200):
        tlp = draw("store", number)
        await b.send(tlp)
        # Taken with the edge after that of its last beat.
        await b.quiet(2)
        assert tlp.seen - tlp.sent == 0, tlp.seen - tlp.sent
        await b.quiet(random.choice((0, 1, 5)))


def test_tlp_rx() -> None:
    """All tests above."""
    build_and_run(
        "tb_tlp_rx",
        __name__,
        filelists=["rtl/pcie/pcie.f"],
        sources=["verif/pcie/tb_tlp_rx.sv"],
        build_args=["-Wno-UNUSEDPARAM"],
    )
