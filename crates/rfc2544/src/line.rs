// SPDX-License-Identifier: Apache-2.0
//! Rates and times of an Ethernet line, without rounding until the last step.

use std::fmt;

/// A line and the clock of the instrument at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Bits of frames and gaps a second.
    pub bits_per_second: u64,
    /// Unit of the instrument's stamps in picoseconds.
    pub tick_ps: u64,
    /// Stamps a clock cycle.
    pub ticks_per_cycle: u64,
    /// Bytes that cross the pins in a cycle; frames whose distance is a multiple of it all meet the
    /// clock in the same phase.
    pub bytes_per_cycle: u64,
}

/// Preamble with start delimiter, and the smallest gap: what a frame takes on the line beside itself.
const OVERHEAD: u64 = 8 + 12;
/// Parts of a byte time that [`Spacing`] counts.
const PARTS: u64 = 256;

/// Distance of the starts of two frames, in 1/256 of the time of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spacing(pub u64);

/// Share of the line rate, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct Load(u32);

impl Load {
    /// The line rate.
    pub const FULL: Self = Self(1000);

    /// A share in thousandths, none above 1000.
    pub const fn permille(permille: u32) -> Option<Self> {
        if permille <= 1000 {
            Some(Self(permille))
        } else {
            None
        }
    }

    /// In thousandths.
    pub const fn as_permille(self) -> u32 {
        self.0
    }

    /// In hundredths.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 10.0
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} %", self.0 / 10, self.0 % 10)
    }
}

impl Line {
    /// 1 Gb/s, GMII: a byte a cycle; stamps are in half cycles as those of the faster line.
    pub const ONE_GIG: Self = Self {
        bits_per_second: 1_000_000_000,
        tick_ps: 4_000,
        ticks_per_cycle: 2,
        bytes_per_cycle: 1,
    };

    /// 10 Gb/s, XGMII: a stamp each half of a cycle, as frames start in lane 0 or 4.
    pub const TEN_GIG: Self = Self {
        bits_per_second: 10_000_000_000,
        tick_ps: 3_200,
        ticks_per_cycle: 2,
        bytes_per_cycle: 8,
    };

    /// Bytes from start to start of frames of `size` bytes as close as they may be.
    pub const fn wire_bytes(size: usize) -> u64 {
        size as u64 + OVERHEAD
    }

    /// Distance of frames of `size` bytes (with FCS) at a share of the line rate, never closer.
    ///
    /// The smallest share stands in for 0, which no distance has.
    pub const fn spacing(self, size: usize, load: Load) -> Spacing {
        let permille = if load.0 == 0 { 1 } else { load.0 as u64 };
        Spacing((Self::wire_bytes(size) * PARTS * 1000).div_ceil(permille))
    }

    /// The next distance at which every frame meets the clock in the same phase.
    pub const fn aligned(self, spacing: Spacing) -> Spacing {
        Spacing(spacing.0.next_multiple_of(self.bytes_per_cycle * PARTS))
    }

    /// Frames a second at a distance.
    pub fn frames_per_second(self, spacing: Spacing) -> f64 {
        (self.bits_per_second / 8 * PARTS) as f64 / spacing.0 as f64
    }

    /// Frames of `size` bytes a second at the line rate: whole ones, as tables have it.
    pub const fn most_frames_per_second(self, size: usize) -> u64 {
        self.bits_per_second / 8 / Self::wire_bytes(size)
    }

    /// Stamps as nanoseconds.
    pub fn ns(self, ticks: f64) -> f64 {
        ticks * self.tick_ps as f64 / 1e3
    }

    /// Stamps as clock cycles.
    pub fn cycles(self, ticks: f64) -> f64 {
        ticks / self.ticks_per_cycle as f64
    }

    /// Frames a second when `frames` arrived with the last `ticks` after the first.
    pub fn rate(self, frames: u64, ticks: u64) -> Option<f64> {
        let intervals = frames.checked_sub(1).filter(|&n| n > 0 && ticks > 0)?;
        Some(intervals as f64 * 1e12 / (ticks as f64 * self.tick_ps as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 1.5 of the dissertation, and RFC 2544's appendix for 10 Mb/s times 100 and 1000.
    #[test]
    fn published_frame_rates() {
        for (line, size, rate) in [
            (Line::ONE_GIG, 64, 1_488_095),
            (Line::ONE_GIG, 1518, 81_274),
            (Line::TEN_GIG, 64, 14_880_952),
            (Line::TEN_GIG, 1518, 812_743),
        ] {
            assert_eq!(line.most_frames_per_second(size), rate);
            let full = line.frames_per_second(line.spacing(size, Load::FULL));
            assert_eq!(full.floor(), rate as f64);
        }
    }

    #[test]
    fn spacing_is_exact_and_never_too_close() {
        let line = Line::ONE_GIG;
        assert_eq!(line.spacing(64, Load::FULL), Spacing(84 * 256));
        assert_eq!(line.spacing(64, Load(500)), Spacing(2 * 84 * 256));
        for permille in 1..=1000 {
            let spacing = line.spacing(64, Load(permille)).0;
            assert!(spacing * u64::from(permille) >= 84 * 256 * 1000);
            assert!((spacing - 1) * u64::from(permille) < 84 * 256 * 1000);
        }
    }

    #[test]
    fn aligned_spacing_is_whole_cycles() {
        let ten = Line::TEN_GIG;
        assert_eq!(
            ten.aligned(ten.spacing(64, Load::FULL)),
            Spacing(11 * 8 * 256)
        );
        assert_eq!(
            ten.aligned(ten.spacing(68, Load::FULL)),
            Spacing(11 * 8 * 256)
        );
        let one = Line::ONE_GIG;
        assert_eq!(
            one.aligned(one.spacing(64, Load::FULL)),
            one.spacing(64, Load::FULL)
        );
    }

    #[test]
    fn both_lines_have_whole_picoseconds() {
        for line in [Line::ONE_GIG, Line::TEN_GIG] {
            let cycle_ps = line.tick_ps * line.ticks_per_cycle;
            let bits = line.bytes_per_cycle * 8;
            assert_eq!(
                u128::from(line.bits_per_second) * u128::from(cycle_ps),
                u128::from(bits) * 1_000_000_000_000
            );
        }
        assert_eq!(Line::TEN_GIG.ns(28.0), 89.6);
        assert_eq!(Line::TEN_GIG.cycles(28.0), 14.0);
    }

    #[test]
    fn rate_needs_two_frames() {
        assert_eq!(Line::ONE_GIG.rate(1, 0), None);
        assert_eq!(
            Line::ONE_GIG.rate(11, 1680).map(f64::floor),
            Some(1_488_095.0)
        );
    }
}
