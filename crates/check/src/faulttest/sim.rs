// SPDX-License-Identifier: Apache-2.0
//! Two machines, their NICs, and the two channels between them, in one run of a plan.

mod issue;
mod play;
mod rekey;
mod resets;
mod root;
mod setup;
mod time;

pub use resets::Resets;

use std::path::Path;

use crate::difftest::dut::Pace;
use crate::difftest::world::{CompletionFields, TlpFields};
use ipnuma_rtl::{BusSettings, NetSpeed};
use model::Config;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::counters::Counts;
use wire::{
    EVENT_FLUSH_FAILED, EVENT_FLUSHED, EVENT_LINK_DOWN, EVENT_LINK_UP, EVENT_OVERFLOW,
    EVENT_PEER_LOST, EventEntry, FMT_CPL, FMT_CPLD, FMT_MRD32, FMT_MRD64, FMT_MWR32, FMT_MWR64,
    KeyEntry, NetCounter, PageMapEntry, PcIdEntry, PcieCounter, RegionEntry, SessionEntry,
    SessionPort, SessionStatus, TlpView, first_byte, read_byte_count, registers as reg,
};

use wire::seal::Sealer;

use crate::faulttest::channel::{Channel, Stats};
use crate::faulttest::end::{End, Kind, ModelEnd, Outputs, RtlEnd};
use crate::faulttest::fuzz::Fuzzer;
use crate::faulttest::host::{
    Answer, BOUND, BOUNDED, FOREIGN, HIGH, Host, Load, NO_KEY, NOTIFY, PLAIN, READ_ONLY, REVOCABLE,
    RING_LOG2, RegisterRead, SESSION_PAGES, WRITE_ONLY,
};
use crate::faulttest::ledger::{IDENTIFIED, Ledger};
use crate::faulttest::plan::{Format, Plan, Restarts};
use crate::faulttest::sim::resets::Care;
use crate::faulttest::stream::{Entry, Fate, PAGE, Stream, Tally, What, Write};

/// Time from one look at everything to the next.
const WINDOW_PS: u64 = 400_000;
/// The same if both ends are models.
const MODEL_WINDOW_PS: u64 = 1_000_000;
/// Bytes of TLPs that wait for a NIC at most, for new operations.
const BACKLOG: usize = 1_600;
/// Bytes that wait for the line to a NIC at most, for forged frames.
const LINE_BACKLOG: usize = 1_000;
/// Bytes of TLPs that wait for a NIC at most, for answers to its reads.
const ANSWER_BACKLOG: usize = 400;
/// Picoseconds after which a root complex drops an answer that it could not give.
const ANSWER_PS: u64 = 300_000_000;
/// Who an error report outside of sessions is about.
const NO_SESSION: u16 = 0xFFFF;
/// CPU loads of a machine that wait at most.
const MAX_LOADS: usize = 6;
/// Microseconds until the NIC gives a load up.
const READ_TIMEOUT_US: u32 = 400;
/// Operations that the receiver's slots may hold when a flush succeeds: 32 frames of 64 stores.
const UNDER_WAY: usize = 32 * 64;
/// Acknowledgements and pace as after reset.
const WINDOW: u32 = 0x0320_0800;
/// Simulated time without any progress after which something hangs.
const HANG_PS: u64 = 5_000_000_000;
/// The same between models, whose black-outs are longer.
const MODEL_HANG_PS: u64 = 300_000_000_000;
const US: u64 = 1_000_000;

/// How a machine works for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// As much as goes.
    Flood,
    /// One operation in a window with this chance in percent.
    Trickle(u32),
    /// Nothing.
    Silent,
}

/// What happens later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Outage { direction: Option<usize>, ps: u64 },
    LinkUp,
    BeginAnew { pair: usize },
    WriteSession { end: usize, pair: usize, last: bool },
    ResetNic { end: usize },
    Disturb { end: usize },
    Probe { end: usize, turn: u32 },
    Sound { end: usize, turn: u32 },
    MasterOff { end: usize },
    MasterOn { end: usize },
    Toggle { end: usize, pair: usize },
}

/// A session and what belongs to it at both ends.
#[derive(Clone, Debug)]
struct Pair {
    /// PC ID of the peer at either end, which is the session's number there.
    ids: [u16; 2],
    epoch: u8,
    /// Sequence number with which both ends begin.
    start: u32,
    sealed: bool,
    compact: bool,
    /// New operations may be issued, at either end.
    up: [bool; 2],
    /// It is being written anew.
    changing: bool,
    /// Page of BAR 2 at either end.
    first_page: [usize; 2],
    /// At either end, for operations that go there: keys and offsets of its pages, and tags.
    routes: [[Route; SESSION_PAGES]; 2],
    /// The right to write comes and goes, at either end: it is given now.
    granted: [bool; 2],
    /// It changes in this phase.
    toggles: [bool; 2],
    /// Where the next small store goes, at either end: page and offset.
    cursor: [(usize, usize); 2],
    keys: [KeyEntry; 2],
}

/// How a page is reached over the network.
#[derive(Clone, Copy, Debug, Default)]
struct Route {
    key: u16,
    offset: u32,
    tag: u16,
}

/// The sums of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Stores, both directions.
    pub tally: Tally,
    /// Frames, both directions.
    pub channel: Stats,
    /// Frames sent again.
    pub resends: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Frames that came too early.
    pub gaps: u64,
    /// Frames whose end code or seal was wrong.
    pub broken: u64,
    /// Stores that travelled in another's frame.
    pub merged: u64,
    /// Peers that were reported lost.
    pub lost_peers: u64,
    /// Sessions that began anew.
    pub anew: u64,
    /// Loads that ended with data, without, and refused.
    pub loads: (u64, u64, u64),
    /// Frames of the fuzzer.
    pub fuzzed: u64,
    /// Quiet moments at which memories were compared.
    pub quiet: u64,
    /// Keys of sessions that were replaced by the next ones.
    pub rekeyed: u64,
    /// What was reset or taken away, and what was seen of it.
    pub resets: Resets,
    /// Simulated picoseconds.
    pub time_ps: u64,
}

/// A run.
pub struct Sim {
    plan: Plan,
    now_ps: u64,
    window_ps: u64,
    ends: [Box<dyn End>; 2],
    hosts: [Host; 2],
    /// From end 0 to end 1, and back.
    channels: [Channel; 2],
    pairs: Vec<Pair>,
    /// `streams[end][pair]`: what the CPU at `end` asked for.
    streams: [Vec<Stream>; 2],
    rng: ChaCha8Rng,
    out: Outputs,
    actions: Vec<(u64, Action)>,
    styles: [Style; 2],
    quota: u64,
    /// The pair that an end works on, and for how many more operations.
    focus: [(usize, u32); 2],
    cookie: u16,
    flushes: [usize; 2],
    progress: (u64, u64),
    report: Report,
    flaps: u32,
    /// When the link last came up.
    link_up_ps: Option<u64>,
    /// Frames that a NIC has got since its last reset.
    arrived: [u64; 2],
    was_reset: [bool; 2],
    tlp: Vec<u8>,
    fuzzer: Option<Fuzzer>,
    /// Frames of the fuzzer that are still to be sent in this batch.
    inject: u64,
    /// Forged frames may do what genuine ones may: only permissions are checked.
    loose: bool,
    ledger: Ledger,
    /// What the drivers do about resets.
    care: [Care; 2],
    /// What the hosts have set.
    bus: [BusSettings; 2],
    /// They have taken bus-master enable away.
    masters_off: [bool; 2],
    /// Until then they may be told that events were lost for want of it.
    starved_ps: [u64; 2],
    /// The run has failed: what its NICs still do is for its report alone.
    failed: bool,
    rekey: rekey::Rekey,
}

fn fork(rng: &mut ChaCha8Rng) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(rng.random())
}

fn percent(rng: &mut ChaCha8Rng, chance: u32) -> bool {
    rng.random_range(0..100) < chance
}

fn thousandths(rng: &mut ChaCha8Rng, chance: u32) -> bool {
    rng.random_range(0..1000) < chance
}

impl Sim {
    /// Builds both machines.
    pub fn new(plan: Plan, seed: u64) -> Result<Self, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = plan.sessions.max(1);
        let hosts = [0, 1].map(|index| {
            let high = rng.random();
            Host::new(index, count, high, fork(&mut rng))
        });
        let mut ends = Vec::new();
        for (kind, host) in plan.ends.iter().zip(&hosts) {
            let end: Box<dyn End> = match kind {
                Kind::Rtl | Kind::Shell => {
                    let shell = *kind == Kind::Shell;
                    let id = host.completer_id;
                    Box::new(RtlEnd::new(plan.speed, shell, id, fork(&mut rng))?)
                }
                Kind::Model => {
                    let config = Config {
                        pages: 1024,
                        completer_id: host.completer_id,
                        ..Config::default()
                    };
                    // With RTL at the other end its line has the RTL's rate.
                    let fast = !plan.ends.iter().any(|kind| kind.is_rtl());
                    Box::new(ModelEnd::new(plan.speed, fast, config))
                }
            };
            ends.push(end);
        }
        let Ok(ends) = <[Box<dyn End>; 2]>::try_from(ends) else {
            return Err("a pair has two ends".to_owned());
        };
        let models = plan.ends == [Kind::Model, Kind::Model];
        let window_ps = if models { MODEL_WINDOW_PS } else { WINDOW_PS };
        let cable = window_ps + 100_000;
        let channels = [0, 1].map(|_| Channel::new(cable, plan.faults, fork(&mut rng)));
        let pairs = setup::draw_pairs(&plan, count, &mut rng);
        let stream = |_: &Pair| Stream::new(plan.merge);
        let streams = [0, 1].map(|_| pairs.iter().map(stream).collect());
        let fuzzer = plan
            .fuzz
            .map(|(target, _)| Fuzzer::new(target, fork(&mut rng)));
        let mut sim = Self {
            now_ps: 0,
            window_ps,
            ends,
            hosts,
            channels,
            pairs,
            streams,
            rng,
            out: Outputs::default(),
            actions: Vec::new(),
            styles: [Style::Silent; 2],
            quota: 0,
            focus: [(0, 0); 2],
            cookie: 0,
            flushes: [0; 2],
            progress: (0, 0),
            report: Report::default(),
            flaps: 0,
            link_up_ps: None,
            arrived: [0; 2],
            was_reset: [false; 2],
            tlp: Vec::new(),
            fuzzer,
            inject: 0,
            loose: false,
            ledger: Ledger::new(match plan.speed {
                NetSpeed::TenGig => 800,
                NetSpeed::OneGig => 8_000,
            }),
            care: [Care::default(), Care::default()],
            bus: [BusSettings::default(); 2],
            masters_off: [false; 2],
            starved_ps: [0; 2],
            failed: false,
            rekey: rekey::Rekey::default(),
            plan,
        };
        for end in 0..2 {
            if sim.plan.draw_bus && sim.plan.ends[end].is_rtl() {
                sim.set_bus(end);
            }
            sim.ends[end].set_link(true);
            sim.set_up(end, true);
        }
        Ok(sim)
    }

    /// Sends this direction's frames through `channel` instead.
    pub fn set_channel(&mut self, direction: usize, channel: Channel) {
        self.channels[direction] = channel;
    }

    /// Writes waves of the first end that is RTL.
    pub fn trace(&mut self, file: &Path) -> Result<(), String> {
        let index = usize::from(self.plan.ends[0] == Kind::Model);
        self.ends[index].trace(file)
    }

    fn reliable(&self) -> bool {
        self.plan.sessions > 0
    }
}

/// Line rate for people.
pub fn speed_name(speed: NetSpeed) -> &'static str {
    match speed {
        NetSpeed::TenGig => "10G",
        NetSpeed::OneGig => "1G",
    }
}
