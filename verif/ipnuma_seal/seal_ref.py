# SPDX-License-Identifier: Apache-2.0
"""Sealed frames as docs/wire-format.md describes them, and what is to become of one."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PORT = 3422
HEAD = 42  # bytes before the payload
MAGIC = 0xA0


def checksum(header: bytes) -> int:
    """Return the checksum of an IP header whose own is 0."""
    total = sum(struct.unpack(">10H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(dst: bytes, src: bytes, src_ip: bytes, dst_ip: bytes, port: int, payload: bytes) -> bytes:
    """Return a frame without FCS or padding."""
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, 17, 0, src_ip, dst_ip
    )
    ip = ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:]
    udp = struct.pack(">HHHH", port, PORT, 8 + len(payload), 0)
    return dst + src + b"\x08\x00" + ip + udp + payload


@dataclass
class Key:
    """A key with its salt, and the last number used or accepted."""

    key: bytes
    salt: bytes
    number: int = 0
    phase: int = 0


def seal(plain: bytes, key: Key, number: int) -> bytes:
    """Seal a frame."""
    port = plain[34:36]
    head = bytes((MAGIC, key.phase)) + number.to_bytes(6, "big")
    nonce = key.salt + head[2:] + port
    payload = head + AESGCM(key.key).encrypt(nonce, plain[HEAD:], head)
    return frame(
        plain[0:6], plain[6:12], plain[26:30], plain[30:34], int.from_bytes(port, "big"), payload
    )


@dataclass
class Receiver:
    """What unseal knows."""

    mac: bytes
    ip: bytes
    sessions: int
    keys: dict[int, Key] = field(default_factory=dict)
    valid: set[int] = field(default_factory=set)
    sealed: set[int] = field(default_factory=set)
    odd_keys: dict[int, Key] = field(default_factory=dict)  # those of phase 1

    def is_sealed(self, data: bytes) -> bool:
        """Say whether a good frame (with FCS) is one that unseal opens."""
        if len(data) < 50 or data[0:6] != self.mac or data[12:15] != b"\x08\x00\x45":
            return False
        total = sum(struct.unpack(">10H", data[14:34]))
        total = (total & 0xFFFF) + (total >> 16)
        ip_length, udp_length = (int.from_bytes(data[i : i + 2], "big") for i in (16, 38))
        return (
            data[20] & 0x3F == 0
            and data[21] == 0
            and data[23] == 17
            and data[30:34] == self.ip
            and data[36:38] == PORT.to_bytes(2, "big")
            and total == 0xFFFF
            and udp_length + 20 == ip_length
            and udp_length >= 18
            and data[42] == MAGIC
        )

    def open(self, data: bytes) -> bytes | None:
        """Open a sealed good frame (with FCS) up to the end of its payload; None if it does not."""
        port = int.from_bytes(data[34:36], "big")
        udp_length = int.from_bytes(data[38:40], "big")
        index = port & 0xFF
        keys = self.odd_keys if data[43] == 1 else self.keys
        if (
            udp_length < 8 + 34
            or data[43] > 1
            or len(data) < 34 + udp_length + 4
            or port >> 14 != 3
            or index not in keys
            or index not in self.valid
            or index not in self.sealed
        ):
            return None
        key = keys[index]
        number = int.from_bytes(data[44:50], "big")
        payload = data[HEAD : 34 + udp_length]
        nonce = key.salt + payload[2:8] + data[34:36]
        try:
            inner = AESGCM(key.key).decrypt(nonce, payload[8:], payload[:8])
        except InvalidTag:
            return None
        if number <= key.number:
            return None
        key.number = number
        # The header keeps everything but its lengths; a checksum follows by its own rules.
        ip = data[14:16] + (20 + udp_length - 24).to_bytes(2, "big") + data[18:24] + bytes(2)
        ip += data[26:34]
        ip = ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:]
        udp = data[34:38] + (udp_length - 24).to_bytes(2, "big") + data[40:42]
        return data[:14] + ip + udp + inner
