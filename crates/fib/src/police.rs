// SPDX-License-Identifier: Apache-2.0
//! How many frames of a port may reach the switch's host: the setting of `host_policer`.
//!
//! ```
//! use fib::police::Police;
//!
//! let police: Police = "20000:256".parse()?;
//! assert_eq!((police.rate, police.burst), (20_000, 256));
//! // What the hardware has after reset.
//! assert_eq!("10000".parse::<Police>()?, Police::default());
//! assert_eq!("off".parse::<Police>()?.word(), 1024 << 24);
//! # Ok::<(), fib::police::NotAPolice>(())
//! ```
//!
//! It tells no frames apart: whom to refuse is the access list's ([`crate::acl`]).

use std::str::FromStr;

use thiserror::Error;

/// The field's number among the settings of a port (`MemPort` of `fib_pkg`).
pub const FIELD: u32 = 4;
/// Highest rate, frames a second.
pub const MAX_RATE: u32 = (1 << RATE_BITS) - 1;
/// Largest burst, frames.
pub const MAX_BURST: u16 = (1 << 12) - 1;
const RATE_BITS: u32 = 24;

/// Frames of one port that may reach the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Police {
    /// Frames a second; 0: all of them, whatever the burst.
    pub rate: u32,
    /// Frames at once; with a rate and without a burst none passes.
    pub burst: u16,
}

impl Default for Police {
    /// The hardware's after reset (`fibnic_pkg::PoliceReset`, which says why).
    fn default() -> Self {
        Self {
            rate: 10_000,
            burst: 1024,
        }
    }
}

impl Police {
    /// All frames pass.
    pub const OFF: Self = Self {
        rate: 0,
        burst: 1024,
    };

    /// The word of the field.
    pub const fn word(self) -> u64 {
        (self.burst as u64) << RATE_BITS | self.rate as u64
    }

    /// Whether hardware has room for it.
    pub const fn fits(self) -> bool {
        self.rate <= MAX_RATE && self.burst <= MAX_BURST
    }
}

/// A text that says no rate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no rate; write frames a second from 1 to {MAX_RATE}, and behind a colon how many may come at once, 0 to \
     {MAX_BURST}, such as 10000:1024, or off"
)]
pub struct NotAPolice(pub String);

impl FromStr for Police {
    type Err = NotAPolice;

    fn from_str(text: &str) -> Result<Self, NotAPolice> {
        let wrong = || NotAPolice(text.escape_debug().to_string());
        if text == "off" {
            return Ok(Self::OFF);
        }
        let (rate, burst) = match text.split_once(':') {
            Some((rate, burst)) => (rate, Some(burst)),
            None => (text, None),
        };
        let police = Self {
            rate: rate.parse().map_err(|_| wrong())?,
            burst: burst.map_or(Ok(Self::default().burst), |burst| {
                burst.parse().map_err(|_| wrong())
            })?,
        };
        // A rate of 0 would be off: who means that says so.
        if police.rate == 0 || !police.fits() {
            return Err(wrong());
        }
        Ok(police)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_as_text() {
        for (text, rate, burst) in [
            ("1", 1, 1024),
            ("16777215:4095", MAX_RATE, MAX_BURST),
            ("5:0", 5, 0),
        ] {
            assert_eq!(text.parse(), Ok(Police { rate, burst }), "{text}");
        }
        for text in [
            "", "0", "0:5", "16777216", "5:4096", "5:", ":5", "5:6:7", "-1", "a", "5 :6",
        ] {
            let error = text.parse::<Police>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is no rate")),
                "{error}"
            );
        }
    }
}
