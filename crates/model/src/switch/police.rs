// SPDX-License-Identifier: Apache-2.0
//! How many frames of a port may reach the host: a bucket of tokens for each port of arrival.

/// Setting of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Police {
    /// Frames a second; 0: all.
    pub rate: u32,
    /// Frames at once.
    pub burst: u16,
}

impl Default for Police {
    fn default() -> Self {
        Self {
            rate: 10_000,
            burst: 1024,
        }
    }
}

impl Police {
    /// Most frames that may pass in a window of so many cycles of a clock, wherever it begins; `None` if all may.
    pub fn most(&self, cycles: u64, clock_hz: u64) -> Option<u64> {
        let periods = (u128::from(cycles) * u128::from(self.rate)).div_ceil(clock_hz.into());
        (self.rate != 0).then(|| u64::from(self.burst).saturating_add(periods as u64))
    }

    /// Frames that must have passed, of a port that began with a full bucket so many cycles ago, before one may
    /// be refused.
    pub fn least(&self) -> u64 {
        self.burst.into()
    }
}

#[cfg(test)]
mod tests {
    use super::Police;

    #[test]
    fn a_burst_and_the_periods_that_have_begun() {
        let police = Police { rate: 4, burst: 3 };
        for (cycles, most) in [(0, 3), (1, 4), (25, 4), (26, 5), (100, 7), (101, 8)] {
            assert_eq!(police.most(cycles, 100), Some(most), "{cycles}");
        }
        assert_eq!(Police { rate: 0, burst: 3 }.most(1, 100), None);
    }
}
