# SPDX-License-Identifier: Apache-2.0
"""Wireshark reads what crates/wire wrote, with the dissector that crates/wire generated."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "wireshark" / "ipnuma.lua"

pytestmark = pytest.mark.skipif(
    shutil.which("tshark") is None and not os.environ.get("CI"),
    reason="tshark is not installed (tools/setup as root installs it)",
)


def walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of tshark's JSON with its name, lists and subtrees unfolded."""
    for name, value in tree.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield name, None
                yield from walk(item)
            else:
                yield name, item


def read_back(capture: Path, scratch: Path) -> list[list[tuple[str, Any]]]:
    """Dissect a capture; one list of (field, value) per packet."""
    environment = os.environ | {"WIRESHARK_CONFIG_DIR": str(scratch), "HOME": str(scratch)}
    run = subprocess.run(
        ["tshark", "-n", "-r", str(capture), "-X", f"lua_script:{SCRIPT}", "-T", "json"]
        + ["--no-duplicate-keys", "-o", "ip.check_checksum:TRUE"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "lua" not in run.stderr.lower(), run.stderr
    packets = [list(walk(packet["_source"]["layers"])) for packet in json.loads(run.stdout)]
    for number, packet in enumerate(packets):
        trouble = [item for item in packet if "malformed" in item[0].lower()]
        trouble += [item for item in packet if "Lua Error" in f"{item[0]} {item[1]}"]
        assert not trouble, f"packet {number}: {trouble}"
    return packets


def as_expected(value: str, wanted: int | str, name: str) -> int | str:
    """Bring what tshark prints into the form of the samples."""
    if isinstance(wanted, str):
        return value.replace(":", "")
    if name in ("eth.dst", "eth.src"):
        return int(value.replace(":", ""), 16)
    if name in ("ip.src", "ip.dst"):
        return int.from_bytes(bytes(int(part) for part in value.split(".")), "big")
    return int(value, 0)


def compare(sample: dict[str, Any], packet: list[tuple[str, Any]]) -> None:
    spoilt = "spoilt" in sample["name"]
    for name, wanted in sample["fields"].items():
        found = [as_expected(value, wanted, name) for field, value in packet if field == name]
        assert found == [wanted], f"{sample['name']} {sample['bytes']}: {name}"
    own = {name for name, _ in packet if name.startswith(("ipnuma.", "ipnuma_tlp."))}
    experts = own & EXPERTS
    wanted_experts = set(sample["experts"])
    if spoilt:
        # A spoilt packet may earn other remarks as well.
        assert wanted_experts <= experts, f"{sample['name']} {sample['bytes']}"
    else:
        assert experts == wanted_experts, f"{sample['name']} {sample['bytes']}"
        # Nothing may be shown that the sample does not know of, but for these: the end code is
        # checked through the tag, reserved bits through the absence of an expert.
        known = set(sample["fields"]) | EXPERTS
        unknown = {n for n in own - known if not n.endswith((".end_code", "_tree"))}
        unknown = {n for n in unknown if not n.rsplit(".", 1)[1].startswith(("zero", "at"))}
        assert not unknown, f"{sample['name']} {sample['bytes']}"


EXPERTS = {
    f"{protocol}.{name}"
    for protocol, names in {
        "ipnuma": "bad_magic bad_length bad_tlp bad_end_code bad_session reserved refused",
        "ipnuma_tlp": "bad_length unknown poisoned failed reserved",
    }.items()
    for name in names.split()
}


@pytest.mark.parametrize("kind", ["frames", "tlps"])
def test_every_field(kind: str, samples: dict[str, Any], sample_dir: Path, tmp_path: Path) -> None:
    packets = read_back(sample_dir / f"{kind}.pcap", tmp_path)
    wanted = samples[kind]
    assert len(packets) == len(wanted)
    for sample, packet in zip(wanted, packets, strict=True):
        compare(sample, packet)
    seen = {expert for sample in wanted for expert in sample["experts"]}
    assert len(seen) >= 3, "the samples must include packets that earn a remark"


def write_capture(path: Path, link_type: int, packets: list[tuple[bytes, int]]) -> None:
    """Write a pcap of (captured bytes, length on the wire)."""
    out = [struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type)]
    for number, (data, length) in enumerate(packets):
        out.append(struct.pack("<IIII", number, 0, len(data), length) + data)
    path.write_bytes(b"".join(out))


def test_nothing_stops_the_dissector(samples: dict[str, Any], seed: int, tmp_path: Path) -> None:
    """Damaged and cut packets are shown with remarks; the script itself never fails."""
    chance = random.Random(seed)
    for kind, link_type, start in (("frames", 1, 42), ("tlps", 147, 0)):
        packets = []
        for sample in samples[kind]:
            data = bytearray.fromhex(sample["bytes"])
            for _ in range(chance.randrange(4)):
                data[chance.randrange(start, min(len(data), start + 32))] = chance.randrange(256)
            whole = len(data)
            keep = whole if chance.randrange(2) else chance.randrange(min(whole, start + 8), whole)
            # Half of the short ones were cut by the capture, the others arrived so.
            length = whole if link_type == 1 or chance.randrange(2) else keep
            packets.append((bytes(data[:keep]), length))
        capture = tmp_path / f"{kind}.pcap"
        write_capture(capture, link_type, packets)
        assert len(read_back(capture, tmp_path)) == len(packets)
