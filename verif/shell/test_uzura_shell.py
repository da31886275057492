# SPDX-License-Identifier: Apache-2.0
"""The network interface beside the RDMA engine: a reset of one function leaves the other alone.

What the engines do has benches of its own; between guests both run over one cable.
"""

from __future__ import annotations

import random
import struct

import cocotb
from cocotb.triggers import Timer
from harness import build_and_run
from shell_bench import BAR_REGISTERS, FN_IPNUMA, FN_RING, NIC, Shell, hit
from test_nic_shell import ordinary, outgoing

FN_UZURA = FN_IPNUMA  # the function beside the ring
MAC, MSI_DATA, RING_MAC_LO = 0x08, 0x1018, 0x10
RESETS = 8


class UzuraShell(Shell):
    """The host of function 0; function 1 has its registers alone."""

    async def start(self, pause: float = 0.0, gap: float = 0.0) -> UzuraShell:
        """Start clocks and root complex, and reset."""
        self.dut.flr_i.value = 0
        await super(Shell, self).start(pause, gap)
        self.wire_out.clear()
        cocotb.start_soon(self._wire())
        return self

    async def set_engine(self) -> None:
        """Write a register on each side of the engine."""
        for offset, data in ((MAC, struct.pack("<Q", NIC.mac)), (MSI_DATA, b"\x55\0\0\0")):
            dws = len(data) // 4
            head = bytes([0x40, 0, 0, dws, 0, 0, 0, 0xFF if dws > 1 else 0x0F])
            tlp = head + struct.pack(">I", offset) + data
            await self.source.send(tlp, hit(FN_UZURA, BAR_REGISTERS))
        assert await self.engine() == (NIC.mac & 0xFFFFFFFF, 0x55)

    async def engine(self) -> tuple[int, int]:
        """Read them."""
        at = hit(FN_UZURA, BAR_REGISTERS)
        return await self.read(MAC, at), await self.read(MSI_DATA, at)


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def the_interface_goes_on_while_the_engine_is_reset(dut) -> None:
    """Every frame of the interface arrives, both ways; the engine has forgotten its registers."""
    s = await UzuraShell(dut).start()
    d = await s.drive()
    await d.fill(40)
    await s.set_engine()
    over = False

    async def sends() -> None:
        while not over:
            out = outgoing(random.choice((60, 1514)))
            await d.send(out)
            assert await s.from_nic() == out

    async def receives() -> None:
        while not over:
            into = ordinary(random.choice((60, 1514)))
            await s.to_nic(into)
            assert await d.receive() == into
            await d.fill(1)

    work = [cocotb.start_soon(sends()), cocotb.start_soon(receives())]
    for _ in range(RESETS):
        await Timer(random.randrange(1, 5000), "ns")
        await s.function_reset(FN_UZURA)
        assert await s.engine() == (0, 0)
        await s.set_engine()
    over = True
    for task in work:
        await task
    await s.settle()


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def the_engine_stays_while_the_interface_is_reset(dut) -> None:
    """Its registers are as they were; the interface is as after power-up, and works."""
    s = await UzuraShell(dut).start()
    await s.set_engine()
    for _ in range(RESETS):
        d = await s.drive()
        await d.fill(4)
        out = outgoing(200)
        await d.send(out)
        assert await s.from_nic() == out
        await s.function_reset(FN_RING)
        assert await s.read(RING_MAC_LO) == 0
        assert await s.engine() == (NIC.mac & 0xFFFFFFFF, 0x55)


def test_uzura_shell() -> None:
    """All of the above."""
    build_and_run(
        "uzura_shell_10g",
        __name__,
        filelists=["rtl/shell/uzura_shell.f"],
        build_args=["-Wno-UNUSEDPARAM"],  # packages are used in part
    )
