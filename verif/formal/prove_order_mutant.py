# SPDX-License-Identifier: Apache-2.0
"""The order proof with one mistake in what it joins: it must not go through any more."""

from __future__ import annotations

import sys

from mutate_proof import Mutant, main

# What tools/formal looks at before it repeats this.
INPUTS = ["verif/formal/order_proof.sby"]

PROOF = "verif/formal/order_proof.sv"
VERDICT = "rtl/ipnuma/rx_verdict.sv"


def with_macro(macro: str, *breaks: str) -> Mutant:
    """Choose one of the mistakes that the proof's wiring has behind macros."""
    line = "module order_proof\n"
    # Of one that would break the ties of what was refused as well, these are left out.
    macros = f"`define MUTANT_OF_NUMBERS\n`define {macro}\n"
    return Mutant(PROOF, line, f"{macros}{line}", frozenset(breaks))


MUTANTS = {
    # Ahead is taken for the next.
    "order": with_macro("MUTANT_ORDER", "a_next", "a_refused"),
    # A session begins anew under a frame's last word.
    "forget": with_macro("MUTANT_FORGET", "a_current", "a_next", "i_expected", "i_next"),
    # Its numbers stay then.
    "keep": with_macro("MUTANT_KEEP", "a_next", "i_expected", "i_next"),
    # No fold.
    "fold": with_macro("MUTANT_FOLD", "a_next"),
    # Of several refusals for bad keys only the last counts.
    "several": Mutant(
        VERDICT, "(same || (refusal_i.several && op_i.is_store))", "same", frozenset({"a_refused"})
    ),
    # A refusal is remembered in a session that begins anew under its frame's last word.
    "anew": Mutant(
        VERDICT,
        "of_session && refused;",
        "last_i && op_i.session.valid && refused;",
        frozenset({"i_held", "i_refuse_certain", "i_refuse_several"}),
    ),
}

if __name__ == "__main__":
    sys.exit(main("order", MUTANTS))
