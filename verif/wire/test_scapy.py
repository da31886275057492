# SPDX-License-Identifier: Apache-2.0
"""The frames of crates/wire against an independent reading of docs/wire-format.md.

Scapy builds Ethernet, IPv4 and UDP; the payload is put together here with shifts and a bitwise CRC,
without a look at the crate. Both must give the same bytes.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import checksum


def crc16_ccitt_false(data: bytes) -> int:
    crc = 0xFFFF
    for byte in data:
        for bit in range(7, -1, -1):
            out = (crc >> 15) ^ (byte >> bit & 1)
            crc = (crc << 1 & 0xFFFF) ^ (0x1021 if out else 0)
    return crc


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            out = (crc & 1) ^ (byte >> bit & 1)
            crc = crc >> 1 ^ (0x82F63B78 if out else 0)
    return crc ^ 0xFFFFFFFF


def big(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")


def port_bytes(fields: dict[str, Any]) -> bytes:
    """Return what the end code covers before the payload: a session's source port, else nothing."""
    port = fields["udp.srcport"]
    return big(port, 2) if port >> 14 == 3 else b""


def session_port(fields: dict[str, Any]) -> int:
    return 3 << 14 | fields["ipnuma.session.epoch"] << 8 | fields["ipnuma.session.index"]


def control_payload(fields: dict[str, Any]) -> bytes:
    out = big(0xC4 | fields["ipnuma.control.code"], 1)
    out += big(fields["ipnuma.control.sequence"], 2) + big(fields["ipnuma.control.expected"], 4)
    out += bytes(1)
    crc = crc16_ccitt_false(port_bytes(fields) + out)
    return out + big(crc ^ fields["ipnuma.tag"], 2)


def sealed_payload(fields: dict[str, Any]) -> bytes:
    number = fields["ipnuma.seal.packet_high"] << 32 | fields["ipnuma.seal.packet_low"]
    out = b"\xa0" + big(fields["ipnuma.seal.phase"], 1) + big(number, 6)
    out += bytes.fromhex(fields["ipnuma.seal.data"])
    return out + bytes.fromhex(fields["ipnuma.seal.tag"])


def compact_payload(fields: dict[str, Any]) -> bytes:
    has_ack = "ipnuma.acknowledgement" in fields
    address = fields["ipnuma.compact.key"] << 28 | fields["ipnuma.compact.offset"]
    out = big(0xC0 | has_ack << 3 | fields["ipnuma.compact.trail"], 1)
    out += big(fields["ipnuma.compact.sequence"], 2) + big(address, 5)
    out += bytes.fromhex(fields["ipnuma.data"])
    if has_ack:
        out += big(fields["ipnuma.acknowledgement"], 2)
    crc = crc16_ccitt_false(port_bytes(fields) + out)
    return out + big(crc ^ fields["ipnuma.tag"], 2)


def tlp_header(fields: dict[str, Any]) -> bytes:
    fmt_type = fields["ipnuma_tlp.head.fmt_type"]
    out = big(fmt_type << 24 | fields["ipnuma_tlp.head.length"], 4)
    if fmt_type in (0x0A, 0x4A):
        status = fields["ipnuma_tlp.completion.status"]
        out += big(status << 13 | fields["ipnuma_tlp.completion.byte_count"], 4)
        tag = fields["ipnuma_tlp.completion.tag"]
        return out + big(tag << 8 | fields["ipnuma_tlp.completion.lower_address"], 4) + bytes(4)
    assert fmt_type in (0x20, 0x60)
    enables = fields["ipnuma_tlp.request.last_be"] << 4 | fields["ipnuma_tlp.request.first_be"]
    out += big(fields["ipnuma_tlp.request.tag"] << 8 | enables, 4)
    return out + big(fields["ipnuma.address.key"], 4) + big(fields["ipnuma.address.offset"], 4)


def error_body(fields: dict[str, Any]) -> bytes:
    out = big(fields["ipnuma.error.code"], 1) + big(fields["ipnuma.error.fmt_type"], 1)
    out += big(fields["ipnuma.error.sequence"], 2) + big(fields["ipnuma.error.sequence_high"], 2)
    return out + big(fields["ipnuma.error.length"], 2) + big(fields["ipnuma.error.address"], 8)


def tlp_payload(fields: dict[str, Any]) -> bytes:
    flags = fields["ipnuma.tlp.acknowledged"] << 1 | fields["ipnuma.tlp.sequenced"]
    control = fields["ipnuma.tlp.kind"] << 4 | flags
    out = b"NM" + big(control, 1) + big(fields["ipnuma.tlp.epoch"], 1)
    out += big(fields["ipnuma.tlp.sequence"], 2) + big(fields["ipnuma.tlp.acknowledgement"], 2)
    out += error_body(fields) if fields["ipnuma.tlp.kind"] == 1 else tlp_header(fields)
    out += bytes.fromhex(fields.get("ipnuma.data", ""))
    crc = crc32c(port_bytes(fields) + out)
    return out + (crc ^ fields["ipnuma.tag"]).to_bytes(4, "little")


def mac(value: int) -> str:
    return big(value, 6).hex(":")


def ip(value: int) -> str:
    return ".".join(str(part) for part in big(value, 4))


def test_crcs_of_this_file() -> None:
    assert crc16_ccitt_false(b"123456789") == 0x29B1
    assert crc32c(b"123456789") == 0xE3069283


def test_frames_are_as_the_document_says(samples: dict[str, Any]) -> None:
    compared = {"compact": 0, "tlp": 0, "error": 0, "control": 0, "sealed": 0}
    makers = {"compact": compact_payload, "control": control_payload, "sealed": sealed_payload}
    for sample in samples["frames"]:
        kind = sample["name"].split()[0]
        if "spoilt" in sample["name"]:
            continue
        fields = sample["fields"]
        payload = makers.get(kind, tlp_payload)(fields)
        if "ipnuma.session.index" in fields:
            assert fields["udp.srcport"] == session_port(fields)
        packet = (
            Ether(src=mac(fields["eth.src"]), dst=mac(fields["eth.dst"]))
            / IP(src=ip(fields["ip.src"]), dst=ip(fields["ip.dst"]), id=0, flags="DF", ttl=64)
            / UDP(sport=fields["udp.srcport"], dport=3422, chksum=0)
            / Raw(payload)
        )
        wanted = bytes(packet).ljust(60, b"\0")
        assert bytes.fromhex(sample["bytes"]) == wanted, sample["name"]
        compared[kind] += 1
    assert min(compared.values()) > 10, compared


def test_another_library_opens_the_seals(samples: dict[str, Any]) -> None:
    opened = 0
    for sample in samples["frames"]:
        if "key" not in sample:
            continue
        frame = bytes.fromhex(sample["bytes"])
        length = int.from_bytes(frame[38:40], "big") - 8
        payload, port = frame[42 : 42 + length], frame[34:36]
        nonce = bytes.fromhex(sample["salt"]) + payload[2:8] + port
        cipher = AESGCM(bytes.fromhex(sample["key"]))
        plain = cipher.decrypt(nonce, payload[8:], payload[:8])
        assert plain == bytes.fromhex(sample["plain"]), sample["name"]
        opened += 1
    assert opened > 10


def test_scapy_reads_the_headers(samples: dict[str, Any]) -> None:
    for sample in samples["frames"]:
        data = bytes.fromhex(sample["bytes"])
        packet = Ether(data)
        assert checksum(data[14:34]) == 0, f"{sample['name']}: IPv4 checksum"
        assert packet[UDP].dport == 3422 and packet[UDP].chksum == 0
        assert packet[IP].len == packet[UDP].len + 20
        assert len(data) >= max(60, packet[IP].len + 14)
        assert (packet[IP].tos, packet[IP].id, packet[IP].ttl) == (0, 0, 64)
        assert packet[IP].flags == "DF" and packet[IP].ihl == 5
