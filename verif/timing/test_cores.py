# SPDX-License-Identifier: Apache-2.0
"""What tools/cores takes out of the project is whole, and no more than is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import cores  # noqa: E402 (needs the path above)

ELABORATE = (
    "import sys; from pyosys import libyosys; libyosys.run_pass(sys.argv[1], libyosys.Design())"
)


def elaborate(folder: Path, block: str, sources: list[str]) -> subprocess.CompletedProcess:
    front = "read_slang --allow-toplevel-iface-ports -D WITHOUT_MEMORY_INIT"
    command = f"{front} --top {block} {' '.join(sources)}"
    return subprocess.run(
        [sys.executable, "-c", ELABORATE, command], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize("block", ["async_fifo", "slot_ring", "xgmii_tx", "port_rx_10g"])
def test_a_block_alone_is_whole_and_minimal(block, tmp_path):
    cores.export(block, tmp_path)
    folder = tmp_path / block
    sources = (folder / f"{block}.f").read_text().split()
    run = elaborate(folder, block, sources)
    assert run.returncode == 0, run.stdout + run.stderr
    if block == "port_rx_10g":
        return  # what it needs follows from its parameters
    for left in sources:
        if not cores.is_package(f"{ROOT}/{cores.sources()[Path(left).stem]}"):
            rest = [name for name in sources if name != left]
            assert elaborate(folder, block, rest).returncode != 0, f"{left} is not needed"


def test_its_page_says_what_the_header_says(tmp_path):
    cores.export("async_fifo", tmp_path)
    page = (tmp_path / "async_fifo" / "README.md").read_text()
    assert "| `Depth` | `int unsigned` | `8` | Words; a power of two from 4. |" in page
    assert "| `wcount_o` | `output logic [AddrW:0]` |" in page
    assert "| Drops | never. |" in page
    constraints = sorted(p.name for p in (tmp_path / "async_fifo" / "constraints").iterdir())
    assert constraints == ["async_fifo.xdc", "sync_ff.xdc"]


def test_a_second_export_destroys_nothing(tmp_path):
    cores.export("sync_ff", tmp_path)
    with pytest.raises(cores.CoreError, match="is there already"):
        cores.export("sync_ff", tmp_path)
    with pytest.raises(cores.CoreError, match="no module no_such"):
        cores.export("no_such", tmp_path)
