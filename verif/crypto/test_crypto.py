# SPDX-License-Identifier: Apache-2.0
"""Bench of AES-GCM's parts: published vectors, random blocks, time per block."""

from __future__ import annotations

import random
from pathlib import Path

import cocotb
import gcm_ref
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, ReadWrite, RisingEdge
from harness import build_and_run

VECTORS = Path(__file__).resolve().parent / "gcm_vectors.txt"
AES_CYCLES = 9
HASH_CYCLES = 2


def vectors() -> list[tuple[bytes | None, ...]]:
    """Read (key, iv, text, aad, cipher, tag); the text is None if opening must fail."""
    found = []
    for line in VECTORS.read_text().splitlines():
        if line and not line.startswith("#"):
            found.append(
                tuple(
                    None if field == "FAIL" else bytes.fromhex("" if field == "-" else field)
                    for field in line.split()
                )
            )
    return found


class Parts:
    """Drives both parts, a cycle at a time."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.cycle = 0
        self.results: list[tuple[int, int, bytes]] = []  # cycle, user, block
        self.soon: list[tuple[int, int]] = []

    async def start(self) -> None:
        """Reset."""
        dut = self.dut
        for name in ("aes_valid_i", "aes_key_i", "aes_block_i", "aes_user_i"):
            dut[name].value = 0
        for name in ("hash_valid_i", "hash_first_i", "hash_block_i", "hash_key_i"):
            dut[name].value = 0
        dut.rst_i.value = 1
        Clock(dut.clk_i, 6400, "ps").start()
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        dut.rst_i.value = 0
        await RisingEdge(dut.clk_i)

    async def step(self, block: tuple[bytes, bytes, int] | None = None) -> bool:
        """Offer (key, block, user) or nothing for a cycle; return whether it was taken."""
        dut = self.dut
        await RisingEdge(dut.clk_i)
        self.cycle += 1
        # A register's decode, but it settles after the edge.
        dut.aes_valid_i.value = 0
        await ReadWrite()
        take = block is not None and bool(dut.aes_ready_o.value)
        dut.aes_valid_i.value = int(take)
        if take:
            dut.aes_key_i.value = int.from_bytes(block[0], "big")
            dut.aes_block_i.value = int.from_bytes(block[1], "big")
            dut.aes_user_i.value = block[2]
        else:
            # Nothing may depend on what stands there.
            dut.aes_key_i.value = random.getrandbits(128)
            dut.aes_block_i.value = random.getrandbits(128)
            dut.aes_user_i.value = random.getrandbits(16)
        await ReadOnly()
        if dut.aes_done_o.value:
            result = int(dut.aes_block_o.value).to_bytes(16, "big")
            self.results.append((self.cycle, int(dut.aes_user_o.value), result))
        if dut.aes_soon_o.value:
            self.soon.append((self.cycle, int(dut.aes_soon_user_o.value)))
        return take

    async def encrypt(self, key: bytes, texts: list[bytes]) -> list[bytes]:
        """Encrypt blocks, one after the other, with no more time between than must be."""
        first = len(self.results)
        for number, text in enumerate(texts):
            while not await self.step((key, text, number)):
                pass
        while len(self.results) < first + len(texts):
            await self.step()
        assert [user for _, user, _ in self.results[first:]] == list(range(len(texts)))
        return [block for *_, block in self.results[first:]]

    async def hash(self, key: bytes, texts: list[bytes]) -> bytes:
        """Hash blocks, one every second cycle."""
        dut = self.dut
        for number, text in enumerate(texts):
            await RisingEdge(dut.clk_i)
            dut.hash_valid_i.value = 1
            dut.hash_first_i.value = int(number == 0)
            dut.hash_block_i.value = int.from_bytes(text, "big")
            dut.hash_key_i.value = int.from_bytes(key, "big")
            await RisingEdge(dut.clk_i)
            dut.hash_valid_i.value = 0
            dut.hash_key_i.value = random.getrandbits(128)
            dut.hash_block_i.value = random.getrandbits(128)
            for _ in range(random.choice((0, 0, 0, 1, 3))):
                await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        assert not dut.hash_busy_o.value
        return int(dut.hash_sum_o.value).to_bytes(16, "big")


@cocotb.test()
async def published_vectors(dut) -> None:
    """All blocks of every vector, in the parts; those that must fail do."""
    parts = Parts(dut)
    await parts.start()
    refused = 0
    for key, iv, text, aad, cipher, tag in vectors():
        counters = range(1, 2 + (len(cipher) + 15) // 16)
        asked = [bytes(16), *(iv + c.to_bytes(4, "big") for c in counters)]
        hash_key, mask, *stream = await parts.encrypt(key, asked)
        texts = [*gcm_ref.blocks(aad), *gcm_ref.blocks(cipher), gcm_ref.lengths(aad, cipher)]
        found = gcm_ref.xor(mask, await parts.hash(hash_key, texts))
        if text is None:
            refused += 1
            assert found != tag
        else:
            assert found == tag, (key.hex(), found.hex(), tag.hex())
            assert gcm_ref.xor(b"".join(stream), cipher) == text
    dut._log.info(f"{len(vectors())} vectors, {refused} of them refused")
    assert len(vectors()) > 100 and refused > 10


@cocotb.test()
async def fips_197(dut) -> None:
    """The example of FIPS 197, appendix B, and its time."""
    parts = Parts(dut)
    await parts.start()
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    text = bytes.fromhex("3243f6a8885a308d313198a2e0370734")
    (found,) = await parts.encrypt(key, [text])
    assert found.hex() == "3925841d02dc09fbdc118597196a0b32"


@cocotb.test()
async def constant_time(dut) -> None:
    """Every block takes the same time, whatever it is, whatever else is on its way."""
    parts = Parts(dut)
    await parts.start()
    taken: dict[int, tuple[int, bytes, bytes]] = {}
    corner = (bytes(16), b"\xff" * 16, b"\x52" * 16)
    for number in range(3000):
        if random.random() < (0.9 if number // 500 % 2 else 0.4):
            pick = random.choice((*corner, random.randbytes(16)))
            key = random.choice((*corner, random.randbytes(16)))
            if await parts.step((key, pick, number)):
                taken[number] = (parts.cycle, key, pick)
        else:
            await parts.step()
    for _ in range(12):
        await parts.step()
    assert not dut.aes_busy_o.value
    assert len(parts.results) == len(taken) > 1000
    for cycle, user, block in parts.results:
        start, key, text = taken[user]
        assert cycle - start == AES_CYCLES
        assert block == gcm_ref.encrypt(key, text)
    for cycle, user in parts.soon:
        assert cycle - taken[user][0] == AES_CYCLES - 1
    assert len(parts.soon) == len(taken)


@cocotb.test()
async def two_cycles_always_fit(dut) -> None:
    """A block every second cycle is never refused."""
    parts = Parts(dut)
    await parts.start()
    key = random.randbytes(16)
    for number in range(200):
        assert await parts.step((key, random.randbytes(16), number))
        await parts.step()


def test_reference() -> None:
    """The reference agrees with the published vectors."""
    for key, iv, text, aad, cipher, tag in vectors():
        assert (gcm_ref.tag(key, iv, aad, cipher) == tag) == (text is not None)
        if text is not None:
            assert gcm_ref.seal(key, iv, aad, text) == cipher + tag


def test_crypto() -> None:
    """Run the bench."""
    build_and_run(
        "tb_crypto",
        __name__,
        filelists=["rtl/crypto/crypto.f"],
        sources=["verif/crypto/tb_crypto.sv"],
    )
