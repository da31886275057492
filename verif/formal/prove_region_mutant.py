# SPDX-License-Identifier: Apache-2.0
"""The region proof with one mistake put into the check: it must not go through any more."""

from __future__ import annotations

import sys

from mutate_proof import Mutant, main

# What tools/formal looks at before it repeats this.
INPUTS = ["verif/formal/region_proof.sby"]

CHECK = "rtl/ipnuma/region_check.sv"
BOUNDS = frozenset({"a_bounds", "i_bounds_ok"})
RIGHTS = frozenset({"a_rights", "a_session", "a_sealed", "i_rights_ok"})
MUTANTS = {
    # The last DW may lie one beyond the region.
    "bounds": Mutant(
        CHECK, "30'(op_i.length) - 30'd1;", "30'(op_i.length) - 30'd2;", BOUNDS, long=True
    ),
    # One DW may lie in the next page.
    "page": Mutant(CHECK, "> 11'd1024;", "> 11'd1025;", BOUNDS, long=True),
    # A key without an entry is one.
    "valid": Mutant(
        CHECK,
        "result_o.key_ok = exists_i;",
        "result_o.key_ok = 1'b1;",
        frozenset({"a_entry", "a_in_table", "i_key_ok", "i_no_key"}),
        long=True,
    ),
    # Two sources are taken for one.
    "source": Mutant(
        CHECK,
        "& entry_i.mask) == '0 &&",
        "& entry_i.mask & 32'hFFFF_FFFE) == '0 &&",
        frozenset({"a_source", "i_source_ok"}),
    ),
    # A region that is one session's is any session's of the same peer.
    "bound": Mutant(
        CHECK,
        "op_i.number == entry_i.number",
        "entry_i.valid",
        frozenset({"a_source", "i_source_ok"}),
    ),
    # Any right is as good as the one that is needed.
    "rights": Mutant(
        CHECK,
        "(op_i.is_load ? entry_i.read : entry_i.write) &&",
        "(entry_i.read || entry_i.write) &&",
        RIGHTS,
        long=True,
    ),
    # Open frames reach regions that want sealed ones.
    "sealed": Mutant(CHECK, " && (op_i.sealed || !entry_i.sealed);", ";", RIGHTS),
}

if __name__ == "__main__":
    sys.exit(main("region", MUTANTS))
