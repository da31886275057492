#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generate crc_pkg.sv: CRC updates as constant XOR masks.

The masks are computed here, once, because simulators and synthesis tools are slow at deriving them
from a bit-serial loop. Usage: gen_crc.py [OUTPUT]; without it the text goes to standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Step = Callable[[int, int], int]


@dataclass(frozen=True)
class Crc:
    """One CRC: a name, its width, and how to add one byte to the register."""

    name: str
    const: str
    title: str
    width: int
    poly: int
    reflected: bool
    init: int
    # Register value after a message followed by its own check value.
    magic: int
    byte_ports: tuple[int, ...]

    def step(self, state: int, byte: int) -> int:
        """Register after one more byte."""
        if self.reflected:
            state ^= byte
            for _ in range(8):
                state = (state >> 1) ^ (self.poly if state & 1 else 0)
            return state
        state ^= byte << (self.width - 8)
        for _ in range(8):
            top = state >> (self.width - 1)
            state = ((state << 1) & ((1 << self.width) - 1)) ^ (self.poly if top else 0)
        return state

    def zeros(self, state: int, count: int) -> int:
        """Register after `count` zero bytes."""
        for _ in range(count):
            state = self.step(state, 0)
        return state


CRCS = (
    Crc("crc32_eth", "CRC32_ETH", "Ethernet CRC-32, 0x04C11DB7, reflected", 32, 0xEDB88320, True,
        0xFFFFFFFF, 0xDEBB20E3, (64, 8)),
    Crc("crc32c", "CRC32C", "CRC-32C (Castagnoli), 0x1EDC6F41, reflected", 32, 0x82F63B78, True,
        0xFFFFFFFF, 0xB798B438, (64,)),
    Crc("crc16", "CRC16", "CRC-16/CCITT-FALSE, 0x1021, not reflected", 16, 0x1021, False,
        0xFFFF, 0x0000, (64,)),
)  # fmt: skip


def rows_of(columns: list[int], width: int) -> list[int]:
    """Transpose: columns[j] is the output for input j; row i says which inputs feed output i."""
    return [sum(((col >> i) & 1) << j for j, col in enumerate(columns)) for i in range(width)]


def data_rows(crc: Crc, bits: int) -> list[int]:
    """Rows of the update of a zero register by `bits` data bits, byte 0 first in the low lane."""
    columns = []
    for j in range(bits):
        state = 0
        for lane in range(bits // 8):
            state = crc.step(state, ((1 << j) >> (8 * lane)) & 0xFF)
        columns.append(state)
    return rows_of(columns, crc.width)


def invert(columns: list[int], width: int) -> list[int]:
    """Columns of the inverse of a square matrix over GF(2)."""
    work = [(col, 1 << j) for j, col in enumerate(columns)]
    for bit in range(width):
        pivot = next(j for j in range(bit, width) if (work[j][0] >> bit) & 1)
        work[bit], work[pivot] = work[pivot], work[bit]
        for j in range(width):
            if j != bit and (work[j][0] >> bit) & 1:
                work[j] = (work[j][0] ^ work[bit][0], work[j][1] ^ work[bit][1])
    return [origin for _, origin in work]


def rewind_rows(crc: Crc, count: int) -> list[int]:
    """Rows of the map that undoes `count` zero bytes."""
    forward = [crc.zeros(1 << j, count) for j in range(crc.width)]
    return rows_of(invert(forward, crc.width), crc.width)


def table(name: str, rows: list[int], bits: int) -> list[str]:
    """A packed constant with element 0 last, as a concatenation wants it."""
    out = [f"  localparam logic [{len(rows) - 1}:0][{bits - 1}:0] {name} = {{"]
    per_line = 3 if bits > 32 else 5 if bits > 16 else 7
    items = [f"{bits}'h{row:0{bits // 4}x}" for row in reversed(rows)]
    for k in range(0, len(items), per_line):
        tail = "," if k + per_line < len(items) else ""
        out.append("    " + ", ".join(items[k : k + per_line]) + tail)
    out.append("  };")
    return out


def fold(crc: Crc, bits: int) -> str:
    """How the register joins the first data bytes."""
    if crc.reflected:
        return "data ^ {32'd0, state}" if bits == 64 else "data ^ state[7:0]"
    return "data ^ {48'd0, state[7:0], state[15:8]}"


def emit(crc: Crc) -> list[str]:
    """Constants and functions of one CRC."""
    w = crc.width
    out = ["", f"  // {crc.title}."]
    out.append(f"  localparam logic [{w - 1}:0] {crc.const}_INIT = {w}'h{crc.init:0{w // 4}x};")
    out.append("")
    out.append("  /// Register after a message, its check value and k zero bytes, element k.")
    residues = [crc.zeros(crc.magic, k) for k in range(8)]
    out += table(f"{crc.const}_RESIDUE", residues, w)
    for bits in crc.byte_ports:
        name = f"{crc.const}_ROWS{bits}"
        out += ["", *table(name, data_rows(crc, bits), bits)]
        out += [
            "",
            f"  /// Register after {bits // 8} more byte{'s' if bits > 8 else ''}.",
            f"  function automatic logic [{w - 1}:0] {crc.name}_next{bits}(",
            f"      logic [{w - 1}:0] state, logic [{bits - 1}:0] data);",
            f"    logic [{bits - 1}:0] x;",
            f"    x = {fold(crc, bits)};",
            f"    for (int unsigned i = 0; i < {w}; i++) begin",
            f"      {crc.name}_next{bits}[i] = ^(x & {name}[i]);",
            "    end",
        ]
        if bits < w:
            out.append(f"    {crc.name}_next{bits} ^= state >> {bits};")
        out.append("  endfunction")
    for count in (1, 2, 4):
        out += ["", *table(f"{crc.const}_BACK{count}", rewind_rows(crc, count), w)]
    out += [
        "",
        "  /// Register before k zero bytes, from the register after them; k = 0..7.",
        f"  function automatic logic [{w - 1}:0] {crc.name}_rewind(",
        f"      logic [{w - 1}:0] state, logic [2:0] k);",
        f"    logic [{w - 1}:0] four, two;",
        f"    for (int unsigned i = 0; i < {w}; i++) begin",
        f"      four[i] = k[2] ? ^(state & {crc.const}_BACK4[i]) : state[i];",
        "    end",
        f"    for (int unsigned i = 0; i < {w}; i++) begin",
        f"      two[i] = k[1] ? ^(four & {crc.const}_BACK2[i]) : four[i];",
        "    end",
        f"    for (int unsigned i = 0; i < {w}; i++) begin",
        f"      {crc.name}_rewind[i] = k[0] ? ^(two & {crc.const}_BACK1[i]) : two[i];",
        "    end",
        "  endfunction",
    ]
    return out


def emit_nextn() -> list[str]:
    """The variable-length Ethernet update."""
    return [
        "",
        "  /// Register after the first n bytes of data; n = 1..8, the bytes beyond must be zero.",
        "  /// The bytes move to the end of the word: zeros in front leave a zero register zero,",
        "  /// so one XOR network serves every n.",
        "  function automatic logic [31:0] crc32_eth_nextn(",
        "      logic [31:0] state, logic [63:0] data, logic [3:0] n);",
        "    logic [63:0] x, mask;",
        "    logic [31:0] rest;",
        "    // Register bytes that no data byte reaches stay as they are, shifted down.",
        "    mask = 64'hffff_ffff_ffff_ffff >> {4'd8 - n, 3'd0};",
        "    x = ((data ^ {32'd0, state}) & mask) << {4'd8 - n, 3'd0};",
        "    rest = n[3:2] == 2'd0 ? state >> {n[1:0], 3'd0} : 32'd0;",
        "    return crc32_eth_next64(32'd0, x) ^ rest;",
        "  endfunction",
    ]


def generate() -> str:
    """The whole package."""
    out = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Generated by rtl/lib/gen_crc.py; do not edit.",
        "//",
        "// CRC updates, checks and zero-byte undo as XORs of constants.",
        "//",
        "// Byte 0 of data is in bits 7:0 and is the first on the wire. The functions work on the",
        "// raw register: start with *_INIT. The Ethernet and Castagnoli values on the wire are",
        "// its complement, low byte first; the CRC-16 is the register itself, high byte first.",
        "// To check a message whose last word has n bytes: zero the other bytes, do the 64-bit",
        "// update, compare with *_RESIDUE[8 - n]. To generate: the same update, then",
        "// *_rewind(state, 8 - n).",
        "//",
        "// Latency : none, combinational.",
        "// Source  : IEEE 802.3 clause 3.2.9; RFC 3720 appendix B.4; ITU-T V.41.",
        "// verilog_format: off",
        "package crc_pkg;",
        "  // A package is used in part.",
        "  // verilator lint_off UNUSEDPARAM",
    ]
    for crc in CRCS:
        out += emit(crc)
        if crc.name == "crc32_eth":
            out += emit_nextn()
    out += ["  // verilator lint_on UNUSEDPARAM", "endpackage", "// verilog_format: on", ""]
    return "\n".join(out)


def main() -> None:
    """Write the package."""
    text = generate()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="ascii")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
