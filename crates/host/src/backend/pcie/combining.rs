// SPDX-License-Identifier: Apache-2.0
//! The write-combining self-test: how many TLPs does a 64-byte line become?

use std::fmt;

use wire::PcieCounter;

use super::bar::{Bar, LINE};
use super::control::Control;

/// Lines that the test stores.
const LINES: usize = 64;

/// What the self-test found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteCombining {
    /// Lines stored.
    pub lines: u32,
    /// TLPs that the board saw for them.
    pub tlps: u32,
}

impl WriteCombining {
    /// Every line was one TLP: a line is one frame, and one DMA write at the peer.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.tlps == self.lines
    }
}

impl fmt::Display for WriteCombining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_line = f64::from(self.tlps) / f64::from(self.lines.max(1));
        if self.is_ok() {
            write!(f, "WC: ok (1 TLP a line)")
        } else {
            write!(
                f,
                "WC: degraded ({per_line:.2} TLPs a line; lines are not atomic, tags still tell when they are whole)"
            )
        }
    }
}

/// Stores lines to a page that is mapped to nobody, where each TLP is counted and dropped. Nobody else may store to
/// unmapped pages meanwhile.
#[must_use]
pub fn test(control: &Control, pages: &dyn Bar, page: usize) -> WriteCombining {
    let before = control.pcie_counter(PcieCounter::TlpStoreUnmapped);
    let line: [u8; LINE] = std::array::from_fn(|at| at as u8);
    for index in 0..LINES {
        pages.store(page * 4096 + index * LINE, &line);
        pages.fence();
    }
    let after = control.pcie_counter(PcieCounter::TlpStoreUnmapped);
    WriteCombining {
        lines: LINES as u32,
        tlps: after.wrapping_sub(before),
    }
}
