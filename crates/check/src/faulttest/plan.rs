// SPDX-License-Identifier: Apache-2.0
//! What one run of a pair is made of.

use ipnuma_rtl::NetSpeed;

use crate::faulttest::channel::Faults;
use crate::faulttest::end::Kind;
use crate::faulttest::fuzz::Target;

/// In which format stores travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// All that have a compact form in it.
    Compact,
    /// All as TLPs.
    Tlp,
    /// Each session as it falls.
    Mixed,
}

/// What begins anew during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    /// Nothing, but for sessions whose peer was lost.
    None,
    /// Sessions get new epochs at both ends, at different moments.
    Sessions,
    /// A NIC is reset, and its sessions get new epochs.
    Nics,
}

/// When a session sends again, and gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Ticks until it sends again.
    pub resend_ticks: u32,
    /// Time-outs until it gives up.
    pub limit: u32,
    /// How often the time-out doubles at most.
    pub max_shift: u32,
    /// The same for the sake of the round trip.
    pub stretch: u32,
}

impl Timers {
    /// As after reset.
    pub const RESET: Self = Self {
        resend_ticks: 200,
        limit: 10,
        max_shift: 6,
        stretch: 3,
    };
    /// Gives up after about 250 us.
    pub const SHORT: Self = Self {
        resend_ticks: 100,
        limit: 5,
        max_shift: 3,
        stretch: 0,
    };
    /// Waits longer than any black-out.
    pub const PATIENT: Self = Self {
        resend_ticks: 200,
        limit: 255,
        max_shift: 6,
        stretch: 3,
    };
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What the two NICs are.
    pub ends: [Kind; 2],
    /// Line rate.
    pub speed: NetSpeed,
    /// Format of stores.
    pub format: Format,
    /// Whether stores that wait may travel together.
    pub merge: bool,
    /// Chance in percent that a session is sealed.
    pub sealed: u32,
    /// Sealed sessions get new keys after so many frames of one end; 0: never. No session may begin anew then.
    pub rekey: u64,
    /// Sessions between the two NICs; 0 for one connection without any.
    pub sessions: usize,
    /// What the channels do.
    pub faults: Faults,
    /// Shortest and longest black-out in picoseconds.
    pub outage_ps: Option<(u64, u64)>,
    /// Black-outs come with the link signal going down.
    pub flaps: bool,
    /// What begins anew.
    pub restarts: Restarts,
    /// One side of a NIC is reset, or both with skew, about once in so many stores; 0: never.
    pub one_sided: u64,
    /// Bus-master enable goes and comes, about once in so many stores; 0: never.
    pub masters: u64,
    /// Maximum payload, read request and completion boundary are drawn for each end.
    pub draw_bus: bool,
    /// Loads, flushes and operations that will be refused; in thousandths. Without refusals no right is taken away either.
    pub others: [u32; 3],
    /// When sessions send again.
    pub timers: Timers,
    /// Mostly stores of one DW to ascending addresses.
    pub small: bool,
    /// Stores to be issued.
    pub stores: u64,
    /// Only end 0 stores.
    pub one_way: bool,
    /// Long enough for sequence numbers to come again: old frames must have come in their places.
    pub wraps: bool,
    /// Frames that nobody should send go to end 0 as well: what they began as, and how many.
    pub fuzz: Option<(Target, u64)>,
}

impl Plan {
    /// A faultless run.
    pub fn new(name: impl Into<String>, ends: [Kind; 2], speed: NetSpeed, stores: u64) -> Self {
        Self {
            name: name.into(),
            ends,
            speed,
            format: Format::Mixed,
            merge: false,
            sealed: 0,
            rekey: 0,
            sessions: 4,
            faults: Faults::default(),
            outage_ps: None,
            flaps: false,
            restarts: Restarts::None,
            one_sided: 0,
            masters: 0,
            draw_bus: false,
            others: [30, 3, 10],
            timers: Timers::RESET,
            small: false,
            stores,
            one_way: false,
            wraps: false,
            fuzz: None,
        }
    }

    /// Whether a session may be lost or begin anew.
    pub fn may_lose_peers(&self) -> bool {
        self.outage_ps
            .is_some_and(|_| self.timers != Timers::PATIENT)
            || self.restarts != Restarts::None
            || self.one_sided > 0
            || self.masters > 0
            || self.faults.loss >= 100_000
    }
}
