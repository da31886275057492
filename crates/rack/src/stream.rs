// SPDX-License-Identifier: Apache-2.0
//! The programs of a stream: hosts store to one host, each into a region of its own, as fast as the bus lets them or at a
//! rate, and everything that arrives is checked: what, where, in which order, how often, when.

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;
use wire::NetCounter;
use wire::registers::SESSION_STATUS_BASE;

use crate::host::{BAR2, HostApi, LINE_BYTES, Watcher};
use crate::pingpong::REGION;
use crate::setup::{Events, NicConfig, configure, read};
use crate::time::Picoseconds;

/// Pages of each sender's region.
pub const PAGES: u32 = 16;
/// Bytes of each sender's region; they follow one another.
pub const WINDOW: u64 = PAGES as u64 * wire::registers::PAGE_BYTES as u64;
/// The sink is PC ID 1 to all senders.
pub const SINK: u16 = 1;
/// When the senders begin; the NICs are ready by then.
pub const START: Picoseconds = Picoseconds::from_us(200);
/// How often the sink looks whether there is more to come.
const LOOK: Picoseconds = Picoseconds::from_us(2);
/// How long nothing must come until what is missing counts as lost, without sessions.
const QUIET: Picoseconds = Picoseconds::from_us(60);

/// PC ID of a sender at the sink, and index of its region there less [`KEY`](crate::pingpong::KEY).
pub const fn pc_id(sender: usize) -> u16 {
    sender as u16 + 1
}

/// Where a sender's region is in the sink's memory.
pub const fn region(sender: usize) -> u64 {
    REGION + sender as u64 * WINDOW
}

/// Counters that a report has.
pub const COUNTED: [NetCounter; 19] = [
    NetCounter::TxStore,
    NetCounter::TxAck,
    NetCounter::TxNack,
    NetCounter::TxVoid,
    NetCounter::TxResend,
    NetCounter::TxTimeout,
    NetCounter::TxLost,
    NetCounter::TxMerged,
    NetCounter::RxFrames,
    NetCounter::RxBadMagic,
    NetCounter::RxBadEndCode,
    NetCounter::RxBadSession,
    NetCounter::RxBadSeal,
    NetCounter::RxStore,
    NetCounter::RxDuplicate,
    NetCounter::RxGap,
    NetCounter::RxAck,
    NetCounter::RxOverflow,
    NetCounter::EventLost,
];

/// What a NIC counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    counts: [u32; COUNTED.len()],
    /// Network cycles from frame to frame that the session kept at the end; 0: as fast as it can.
    pub pace_cycles: u32,
}

impl Statistics {
    /// A counter of [`COUNTED`]; 0 for others.
    pub fn get(&self, counter: NetCounter) -> u64 {
        let index = COUNTED.iter().position(|counted| *counted == counter);
        index.map_or(0, |index| u64::from(self.counts[index]))
    }

    /// Adds the counters of another NIC, and takes the longer interval.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.pace_cycles = self.pace_cycles.max(other.pace_cycles);
    }
}

/// Reads the counters, and the state of the session with a peer.
pub async fn statistics(api: &HostApi, session: u16) -> Statistics {
    let mut found = Statistics::default();
    for (count, counter) in found.counts.iter_mut().zip(COUNTED) {
        *count = read(api, counter.offset()).await;
    }
    // The fifth word, see wire::SessionStatus.
    let status = SESSION_STATUS_BASE + 32 * u32::from(session) + 16;
    found.pace_cycles = read(api, status).await;
    found
}

/// What the sink saw of a sender, and the sender of itself.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// When each store was handed to the bus.
    pub issued: Vec<Picoseconds>,
    /// From there until it was in the sink's memory, of each store that arrived.
    pub latencies: Vec<Picoseconds>,
    /// The store that is due next.
    next: u64,
    /// Stores that others overtook, and did not come.
    pub missing: u64,
    /// Data that were wrong, in a wrong place, or not due.
    pub wrong: u64,
    /// When its last store arrived.
    pub last: Picoseconds,
    /// Whether it is done.
    finished: bool,
    /// Whether its NIC said that the sink is lost.
    pub peer_lost: bool,
    /// What its NIC counted.
    pub statistics: Statistics,
    /// Stores that had arrived when the first sender was done.
    pub in_span: u64,
}

impl Sender {
    /// Stores that arrived.
    pub const fn arrived(&self) -> u64 {
        self.next - self.missing
    }
}

/// What the programs share with the one who started them.
#[derive(Debug, Default)]
pub struct Stream {
    /// Bytes of a store.
    pub bytes: usize,
    /// Stores of each sender.
    pub stores: u64,
    /// Between two stores of a sender, if they are not to come as fast as they can.
    pub interval: Picoseconds,
    /// Whether the senders are in sessions.
    pub reliable: bool,
    /// The senders.
    pub senders: Vec<Sender>,
    /// When the first store arrived, and the last of the first sender that was done: while all of them send.
    pub span: (Option<Picoseconds>, Option<Picoseconds>),
    /// When something arrived last.
    pub last: Picoseconds,
    /// What the sink's NIC counted.
    pub sink: Statistics,
}

/// Bytes from one store to the next.
const fn stride(bytes: usize) -> u64 {
    bytes.next_power_of_two() as u64
}

/// Offset of a store in the region.
const fn offset(number: u64, bytes: usize) -> u64 {
    number * stride(bytes) % WINDOW
}

/// Data of a store: every DW has the number and its place.
fn data(number: u64, bytes: usize) -> impl Iterator<Item = u8> {
    (0..bytes as u32 / 4).flat_map(move |place| (number as u32 ^ place << 24).to_le_bytes())
}

impl Stream {
    /// A DMA write at the sink.
    fn arrive(&mut self, now: Picoseconds, address: u64, written: &[u8]) {
        let Some(place) = address.checked_sub(REGION) else {
            // The ring of events.
            return;
        };
        let index = (place / WINDOW) as usize;
        let (bytes, stores, reliable) = (self.bytes, self.stores, self.reliable);
        let Some(sender) = self.senders.get_mut(index) else {
            return;
        };
        self.last = now;
        self.span.0.get_or_insert(now);
        for (chunk, offset_here) in written.chunks(bytes).zip((place % WINDOW..).step_by(bytes)) {
            let number = chunk.first_chunk().map_or(0, |dw| u32::from_le_bytes(*dw));
            let number = u64::from(number);
            let due = number == sender.next || (!reliable && number > sender.next);
            let right = due
                && number < sender.issued.len() as u64
                && offset(number, bytes) == offset_here
                && chunk.iter().copied().eq(data(number, bytes));
            if !right {
                sender.wrong += 1;
                continue;
            }
            sender.missing += number - sender.next;
            sender.next = number + 1;
            sender.latencies.push(now - sender.issued[number as usize]);
            sender.last = now;
        }
        if sender.next == stores && self.span.1.is_none() {
            self.close(now);
        }
    }

    /// The first sender is done.
    fn close(&mut self, now: Picoseconds) {
        self.span.1 = Some(now);
        for sender in &mut self.senders {
            sender.in_span = sender.arrived();
        }
    }

    fn all_finished(&self) -> bool {
        self.senders.iter().all(|sender| sender.finished)
    }
}

/// What the sink's host is to call at each DMA write.
pub fn watcher(shared: &Rc<RefCell<Stream>>) -> Watcher {
    let shared = Rc::clone(shared);
    Box::new(move |now, address, written| shared.borrow_mut().arrive(now, address, written))
}

/// Configures the NIC and waits for the beginning.
async fn begin(api: &HostApi, config: &NicConfig) -> Result<(), String> {
    configure(api, config).await;
    if api.now() > START {
        return Err(format!("the NIC was not configured by {START}"));
    }
    api.sleep_until(START).await;
    Ok(())
}

/// A sender.
pub async fn send(
    api: HostApi,
    config: NicConfig,
    own: usize,
    shared: Rc<RefCell<Stream>>,
) -> Result<(), String> {
    begin(&api, &config).await?;
    let (bytes, stores, interval, reliable) = {
        let shared = shared.borrow();
        (
            shared.bytes,
            shared.stores,
            shared.interval,
            shared.reliable,
        )
    };
    for number in 0..stores {
        if interval > Picoseconds::ZERO {
            let due = START + Picoseconds(number * interval.0);
            api.sleep_until(due).await;
        }
        let address = BAR2 + offset(number, bytes);
        let data: Vec<u8> = data(number, bytes).collect();
        // The watcher knows only stores that were issued, and none can arrive before the bus has it.
        shared.borrow_mut().senders[own].issued.push(api.now());
        api.store_combined(address, &data).await;
        if bytes < LINE_BYTES {
            api.fence().await;
        }
        // A core that the bus holds back has not issued the store yet.
        shared.borrow_mut().senders[own].issued[number as usize] = api.now();
    }
    if reliable {
        let mut events = Events::default();
        let delivered = events.flush(&api, SINK, own as u16 + 1, |_| ()).await;
        shared.borrow_mut().senders[own].peer_lost = !delivered;
    }
    let statistics = statistics(&api, SINK).await;
    let mut shared = shared.borrow_mut();
    shared.senders[own].statistics = statistics;
    shared.senders[own].finished = true;
    Ok(())
}

/// The receiver.
pub async fn receive(
    api: HostApi,
    config: NicConfig,
    shared: Rc<RefCell<Stream>>,
) -> Result<(), String> {
    begin(&api, &config).await?;
    loop {
        api.compute(LOOK).await;
        let mut shared = shared.borrow_mut();
        let quiet = shared.reliable || api.now().saturating_sub(shared.last) > QUIET;
        if shared.all_finished() && quiet {
            // What is missing at the end was lost as well.
            let (stores, last) = (shared.stores, shared.last);
            if shared.span.1.is_none() {
                shared.close(last);
            }
            for sender in &mut shared.senders {
                sender.missing += stores - sender.next;
                sender.next = stores;
            }
            break;
        }
    }
    let found = statistics(&api, pc_id(0)).await;
    shared.borrow_mut().sink = found;
    Ok(())
}

/// Fairness of shares: 1 if all are equal, 1/n if one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

/// The part of a run in which all senders send, in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Goodput {
    /// Data that arrived, gigabits a second, all senders together; 0 if all arrived at one moment, which has no duration.
    pub total_gbps: f64,
    /// Each sender.
    pub each_gbps: Vec<f64>,
    /// Fairness of them.
    pub jain: f64,
}

impl Goodput {
    /// Of no time.
    fn none(senders: usize) -> Self {
        Self {
            total_gbps: 0.0,
            each_gbps: vec![0.0; senders],
            jain: 1.0,
        }
    }
}

impl Stream {
    /// Goodput while all senders sent.
    pub fn goodput(&self) -> Goodput {
        let (Some(begin), Some(end)) = self.span else {
            return Goodput::none(self.senders.len());
        };
        if end <= begin {
            return Goodput::none(self.senders.len());
        }
        let span = (end - begin).as_ns();
        let each: Vec<f64> = self
            .senders
            .iter()
            .map(|sender| (8 * self.bytes as u64 * sender.in_span) as f64 / span)
            .collect();
        Goodput {
            total_gbps: each.iter().sum(),
            jain: jain(&each),
            each_gbps: each,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(reliable: bool) -> Stream {
        let sender = Sender {
            issued: vec![Picoseconds(5); 4],
            ..Sender::default()
        };
        Stream {
            bytes: 64,
            stores: 4,
            reliable,
            senders: vec![sender],
            ..Stream::default()
        }
    }

    fn written(numbers: &[u64]) -> Vec<u8> {
        let chunks = numbers.iter().flat_map(|number| data(*number, 64));
        chunks.collect()
    }

    #[test]
    fn merged_stores_are_taken_apart() {
        let mut stream = stream(true);
        stream.arrive(Picoseconds(10), region(0), &written(&[0, 1, 2]));
        stream.arrive(Picoseconds(20), region(0) + 192, &written(&[3]));
        let sender = &stream.senders[0];
        assert_eq!((sender.arrived(), sender.wrong, sender.missing), (4, 0, 0));
        assert_eq!(sender.latencies, [5, 5, 5, 15].map(Picoseconds));
        assert_eq!(stream.span.1, Some(Picoseconds(20)));
        let goodput = stream.goodput();
        assert!((goodput.total_gbps - 4.0 * 512.0 / 0.01).abs() < 1e-6);
    }

    #[test]
    fn a_moment_has_no_goodput() {
        let mut stream = stream(true);
        stream.arrive(Picoseconds(10), region(0), &written(&[0, 1, 2, 3]));
        assert_eq!(stream.span, (Some(Picoseconds(10)), Some(Picoseconds(10))));
        assert_eq!(stream.goodput().total_gbps, 0.0);
        assert_eq!(stream.goodput().each_gbps, [0.0]);
    }

    #[test]
    fn what_must_not_be_is_seen() {
        for (address, numbers) in [
            (region(0) + 64, &[1][..]), // one is missing
            (region(0) + 64, &[0]),     // in a wrong place
            (region(0), &[0, 0]),       // twice
        ] {
            let mut stream = stream(true);
            stream.arrive(Picoseconds(10), address, &written(numbers));
            assert_eq!(stream.senders[0].wrong, 1, "{numbers:?}");
        }
        let mut changed = written(&[0]);
        changed[63] ^= 1;
        let mut stream = stream(true);
        stream.arrive(Picoseconds(10), region(0), &changed);
        assert_eq!(stream.senders[0].wrong, 1);
        assert_eq!(stream.senders[0].arrived(), 0);
    }

    #[test]
    fn without_sessions_stores_may_be_missing() {
        let mut stream = stream(false);
        stream.arrive(Picoseconds(10), region(0) + 128, &written(&[2]));
        stream.arrive(Picoseconds(10), region(0), &written(&[0]));
        let sender = &stream.senders[0];
        assert_eq!((sender.arrived(), sender.missing, sender.wrong), (1, 2, 1));
    }

    #[test]
    fn fairness() {
        assert!((jain(&[1.0; 8]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
    }
}
