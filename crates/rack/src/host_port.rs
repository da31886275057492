// SPDX-License-Identifier: Apache-2.0
//! The host side of a switch's pins: frames as beats, in both directions, and words for its tables.

use std::collections::VecDeque;

use ipnuma_rtl::{HostBeat, HostOut, SwitchInputs, SwitchOutputs, SwitchWrite};

/// A frame that the switch gave to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Punted {
    /// Port of arrival.
    pub port: u8,
    /// Why, as `fibnic_pkg::verdict_e` numbers it.
    pub verdict: u8,
    /// It ended bad.
    pub bad: bool,
    /// From the destination MAC on, without FCS.
    pub bytes: Vec<u8>,
}

/// Verdicts that lead to the host are below this.
pub const VERDICTS: usize = 10;

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSide {
    /// Frames that the hardware gave to the host.
    pub received: u64,
    /// The same by verdict, as `fibnic_pkg::verdict_e` numbers them.
    pub verdicts: [u64; VERDICTS],
    /// Frames that the host gave to the hardware.
    pub sent: u64,
    /// Words written to tables.
    pub written: u64,
}

/// What passed at an edge.
#[derive(Clone, Debug, Default)]
pub struct Exchanged {
    /// A frame that is whole with it.
    pub punted: Option<Punted>,
    /// A word that the switch took.
    pub taken: Option<SwitchWrite>,
}

/// Everything that waits for the pins, and what came out of them.
#[derive(Debug, Default)]
pub struct HostPort {
    beats: VecDeque<HostBeat>,
    writes: VecDeque<SwitchWrite>,
    arriving: Vec<u8>,
    /// What passed so far.
    pub passed: HostSide,
}

impl HostPort {
    /// Has a frame (without FCS) sent by a port.
    pub fn send(&mut self, port: u8, frame: &[u8]) {
        let chunks = frame.chunks(8);
        let last = chunks.len().saturating_sub(1);
        let beats = chunks.enumerate().map(|(index, bytes)| HostBeat {
            data: bytes.iter().rev().fold(0, |d, b| d << 8 | u64::from(*b)),
            keep: ((1_u16 << bytes.len()) - 1) as u8,
            last: index == last,
            port,
        });
        self.beats.extend(beats);
    }

    /// Has a word written.
    pub fn write(&mut self, write: SwitchWrite) {
        self.writes.push_back(write);
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.beats.is_empty() && self.writes.is_empty()
    }

    /// Offers what is next.
    pub fn offer<const N: usize>(&self, inputs: &mut SwitchInputs<N>) {
        inputs.host = self.beats.front().copied();
        inputs.host_ready = true;
        inputs.write = self.writes.front().copied();
    }

    /// Whether no word waits.
    pub fn has_written(&self) -> bool {
        self.writes.is_empty()
    }

    /// What the switch takes and gives at the coming edge.
    pub fn exchange<const N: usize>(&mut self, before: &SwitchOutputs<N>) -> Exchanged {
        let mut taken = None;
        if before.write_ready {
            taken = self.writes.pop_front();
            self.passed.written += u64::from(taken.is_some());
        }
        if before.host_in_ready
            && let Some(beat) = self.beats.pop_front()
        {
            self.passed.sent += u64::from(beat.last);
        }
        let punted = before.host.and_then(|beat| self.take(beat));
        Exchanged { punted, taken }
    }

    fn take(&mut self, beat: HostOut) -> Option<Punted> {
        let count = beat.keep.count_ones() as usize;
        self.arriving.extend(&beat.data.to_le_bytes()[..count]);
        if !beat.last {
            return None;
        }
        self.passed.received += 1;
        if let Some(count) = self.passed.verdicts.get_mut(usize::from(beat.verdict)) {
            *count += 1;
        }
        Some(Punted {
            port: beat.port,
            verdict: beat.verdict,
            bad: beat.bad,
            bytes: std::mem::take(&mut self.arriving),
        })
    }
}
