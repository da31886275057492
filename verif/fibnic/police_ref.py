# SPDX-License-Identifier: Apache-2.0
"""Independent model of a port's token bucket before the host port, in exact fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

RATE_BITS = 24
# After reset: frames a second, and at once (docs/fibnic.md).
RATE, BURST = 10_000, 1024


def word(rate: int, burst: int) -> int:
    """Lay out the setting of a port; a rate of 0 is off."""
    return burst << RATE_BITS | rate


@dataclass
class Policer:
    """The bucket of a port; `hz` is the clock."""

    hz: int
    rate: int = RATE
    burst: int = BURST
    tokens: int = BURST
    part: Fraction = Fraction(0)  # of the next token

    @property
    def passes(self) -> bool:
        """Whether a frame would pass now."""
        return not self.rate or self.tokens > 0

    def cycle(self, taken: bool, setting: tuple[int, int]) -> None:
        """Go on by a cycle in which a frame was taken, or none, and the setting is as given."""
        if self.rate:
            self.part += Fraction(self.rate, self.hz)
            come = self.part.numerator // self.part.denominator
            self.part -= come
            self.tokens = min(self.tokens - taken + come, self.burst)
        else:
            self.tokens = setting[1]
        self.rate, self.burst = setting
