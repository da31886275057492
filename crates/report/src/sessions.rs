// SPDX-License-Identifier: Apache-2.0
//! How sessions fared, and what the cables did to their frames.

use rack::faults::FaultCounts;
use rack::stream::Statistics;
use serde::Serialize;
use wire::NetCounter;

/// How the sessions fared, over all NICs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sessions {
    /// Frames sent again.
    pub resends: u64,
    /// Times without progress.
    pub timeouts: u64,
    /// Acknowledgements that had a frame of their own.
    pub acknowledgements: u64,
    /// Negative ones.
    pub negative_acknowledgements: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames that came before an earlier one.
    pub gaps: u64,
    /// Frames whose end code was wrong, or that belonged to no session.
    pub bad: u64,
    /// Sealed frames that did not open.
    pub bad_seals: u64,
    /// Stores that travelled in another's frame.
    pub merged: u64,
    /// Frames for which no receive slot was free.
    pub overflows: u64,
    /// Network cycles from frame to frame that the slowest session kept at the end.
    pub pace_cycles: u32,
}

impl Sessions {
    /// Of the sums over all NICs.
    pub fn of(sum: &Statistics) -> Self {
        let get = |counter| sum.get(counter);
        Self {
            resends: get(NetCounter::TxResend),
            timeouts: get(NetCounter::TxTimeout),
            acknowledgements: get(NetCounter::TxAck),
            negative_acknowledgements: get(NetCounter::TxNack),
            duplicates: get(NetCounter::RxDuplicate),
            gaps: get(NetCounter::RxGap),
            bad: get(NetCounter::RxBadEndCode)
                + get(NetCounter::RxBadMagic)
                + get(NetCounter::RxBadSession),
            bad_seals: get(NetCounter::RxBadSeal),
            merged: get(NetCounter::TxMerged),
            overflows: get(NetCounter::RxOverflow),
            pace_cycles: sum.pace_cycles,
        }
    }

    /// Name and number of each figure.
    pub fn rows(&self) -> [(&'static str, u64); 10] {
        [
            ("frames sent again", self.resends),
            ("time-outs", self.timeouts),
            ("acknowledgement frames", self.acknowledgements),
            ("  negative ones", self.negative_acknowledgements),
            ("duplicates received", self.duplicates),
            ("frames behind a gap", self.gaps),
            ("damaged, end code", self.bad),
            ("damaged, seal", self.bad_seals),
            ("stores merged", self.merged),
            ("no receive slot", self.overflows),
        ]
    }
}

/// What the cables did, in a line.
pub fn describe(faults: &FaultCounts) -> String {
    format!(
        "{} frames on cables with faults: {} lost, {} changed, {} doubled, {} overtaken",
        faults.frames, faults.lost, faults.corrupted, faults.duplicated, faults.reordered
    )
}
