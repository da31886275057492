# SPDX-License-Identifier: Apache-2.0
"""AES-128 and GCM as FIPS 197 and NIST SP 800-38D describe them, slow and plain."""

from __future__ import annotations

from functools import cache


def _times(a: int, b: int) -> int:
    """Multiply in the field of AES."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11B
        b >>= 1
    return product


def _sbox() -> bytes:
    table = bytearray(256)
    for value in range(256):
        inverse = next((x for x in range(256) if _times(value, x) == 1), 0)
        out = 0x63
        for shift in range(5):
            out ^= (inverse << shift | inverse >> (8 - shift)) & 0xFF
        table[value] = out
    return bytes(table)


SBOX = _sbox()
TWICE = bytes(_times(2, x) for x in range(256))
THRICE = bytes(_times(3, x) for x in range(256))


@cache
def _round_keys(key: bytes) -> list[bytes]:
    keys = [key]
    rcon = 1
    for _ in range(10):
        last = keys[-1]
        word = bytes(SBOX[b] for b in (*last[13:], last[12]))
        word = bytes((word[0] ^ rcon, *word[1:]))
        out = b""
        for i in range(4):
            word = bytes(a ^ b for a, b in zip(word, last[4 * i : 4 * i + 4], strict=True))
            out += word
        keys.append(out)
        rcon = TWICE[rcon]
    return keys


def encrypt(key: bytes, block: bytes) -> bytes:
    """Encrypt one block."""
    keys = _round_keys(key)
    state = [a ^ b for a, b in zip(block, keys[0], strict=True)]
    for number in range(1, 11):
        # Column c, row r takes row r of column c + r.
        state = [SBOX[state[4 * ((c + r) % 4) + r]] for c in range(4) for r in range(4)]
        if number < 10:
            mixed = []
            for c in range(4):
                a = state[4 * c : 4 * c + 4]
                mixed += [
                    TWICE[a[r]] ^ THRICE[a[(r + 1) % 4]] ^ a[(r + 2) % 4] ^ a[(r + 3) % 4]
                    for r in range(4)
                ]
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[number], strict=True)]
    return bytes(state)


def multiply(x: int, y: int) -> int:
    """Multiply in the field of GHASH; the most significant of 128 bits is the constant term."""
    z = 0
    for i in range(127, -1, -1):
        if x >> i & 1:
            z ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return z


def blocks(data: bytes) -> list[bytes]:
    """Cut into blocks; zeros fill the last."""
    return [data[i : i + 16].ljust(16, b"\0") for i in range(0, len(data), 16)]


def lengths(aad: bytes, text: bytes) -> bytes:
    """Return the last block of the hash."""
    return (8 * len(aad)).to_bytes(8, "big") + (8 * len(text)).to_bytes(8, "big")


def ghash(hash_key: bytes, aad: bytes, text: bytes) -> bytes:
    """Return the hash of both, and of their lengths."""
    h = int.from_bytes(hash_key, "big")
    total = 0
    for block in (*blocks(aad), *blocks(text), lengths(aad, text)):
        total = multiply(total ^ int.from_bytes(block, "big"), h)
    return total.to_bytes(16, "big")


def xor(a: bytes, b: bytes) -> bytes:
    """XOR to the length of the shorter."""
    return bytes(x ^ y for x, y in zip(a, b, strict=False))


def crypt(key: bytes, nonce: bytes, text: bytes) -> bytes:
    """Apply the key stream, in either direction."""
    stream = b"".join(
        encrypt(key, nonce + (i + 2).to_bytes(4, "big")) for i in range((len(text) + 15) // 16)
    )
    return xor(text, stream)


def tag(key: bytes, nonce: bytes, aad: bytes, cipher: bytes) -> bytes:
    """Return the tag of a cipher text."""
    mask = encrypt(key, nonce + b"\0\0\0\1")
    return xor(mask, ghash(encrypt(key, bytes(16)), aad, cipher))


def seal(key: bytes, nonce: bytes, aad: bytes, text: bytes) -> bytes:
    """Encrypt; return cipher text and tag."""
    cipher = crypt(key, nonce, text)
    return cipher + tag(key, nonce, aad, cipher)
