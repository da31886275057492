// SPDX-License-Identifier: Apache-2.0
//! A bulk sender: slow start, congestion avoidance, fast retransmit and recovery with SACK (RFC 5681, 6582, 6675), time-out
//! of RFC 6298 with a floor that the caller states. It decides what is sent; bytes and packets are the caller's.

use std::collections::VecDeque;
use std::ops::Range;

use serde::Serialize;

use crate::Picoseconds;

/// Duplicates after which a segment is taken for lost.
const DUPLICATES: u32 = 3;
/// Segments that the first flight has (RFC 6928).
const FIRST_FLIGHT: u64 = 10;
/// The longest time-out, RFC 6298 2.5.
const LONGEST: Picoseconds = Picoseconds::from_us(60_000_000);
/// Doublings of the time-out.
const MOST_BACKOFF: u32 = 8;

/// A segment of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub from: u64,
    /// Bytes.
    pub len: u32,
    /// Whether it is sent for the first time.
    pub first: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    from: u64,
    len: u32,
    at: Picoseconds,
    times: u32,
    sacked: bool,
    lost: bool,
}

impl Sent {
    const fn to(&self) -> u64 {
        self.from + self.len as u64
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Segments sent, all.
    pub segments: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Times that the timer ran out.
    pub timeouts: u64,
    /// Times that duplicates began a recovery.
    pub recoveries: u64,
    /// Acknowledgements that came.
    pub acks: u64,
}

/// The sender.
#[derive(Debug)]
pub struct Sender {
    mss: u64,
    una: u64,
    next: u64,
    /// First byte that the receiver has no room for.
    edge: u64,
    sent: VecDeque<Sent>,
    cwnd: u64,
    ssthresh: u64,
    duplicates: u32,
    sack_seen: bool,
    /// Until this is acknowledged, what is lost belongs to the same loss.
    recovery: Option<u64>,
    /// Bytes believed to be in the network.
    pipe: u64,
    srtt: Option<(Picoseconds, Picoseconds)>,
    floor: Picoseconds,
    backoff: u32,
    timer: Option<Picoseconds>,
    counts: Counts,
}

impl Sender {
    /// Of segments of at most `mss` bytes; `floor` is the least time-out; `window` the receiver's first.
    pub fn new(mss: u32, floor: Picoseconds, window: u64) -> Self {
        Self {
            mss: mss as u64,
            una: 0,
            next: 0,
            edge: window,
            sent: VecDeque::new(),
            cwnd: FIRST_FLIGHT * mss as u64,
            ssthresh: u64::MAX,
            duplicates: 0,
            sack_seen: false,
            recovery: None,
            pipe: 0,
            srtt: None,
            floor,
            backoff: 0,
            timer: None,
            counts: Counts::default(),
        }
    }

    /// What was counted.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The first byte that is not acknowledged.
    pub const fn una(&self) -> u64 {
        self.una
    }

    /// The first byte that was never sent.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The first byte that the receiver has no room for.
    pub const fn edge(&self) -> u64 {
        self.edge
    }

    /// Whether everything that was sent is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    /// When the timer runs out.
    pub fn timer(&self) -> Picoseconds {
        self.timer.unwrap_or(Picoseconds::NEVER)
    }

    /// The time-out without doublings.
    fn timeout(&self) -> Picoseconds {
        let measured = self
            .srtt
            .map_or(Picoseconds::from_us(1_000_000), |(mean, deviation)| {
                mean + deviation.times(4)
            });
        measured.max(self.floor)
    }

    fn start_timer(&mut self, now: Picoseconds) {
        let time = self.timeout().times(1 << self.backoff).min(LONGEST);
        self.timer = (!self.sent.is_empty()).then_some(now + time);
    }

    /// Without SACK each duplicate says that a segment has left the network.
    fn left_by_duplicates(&self) -> u64 {
        match self.sack_seen {
            true => 0,
            false => u64::from(self.duplicates) * self.mss,
        }
    }

    /// The segment that may be sent now: a lost one, else a new one of `len` bytes.
    pub fn send(&mut self, now: Picoseconds, len: Option<u32>) -> Option<Segment> {
        let pipe = self.pipe.saturating_sub(self.left_by_duplicates());
        let room = self.cwnd.saturating_sub(pipe);
        let lost = self.sent.iter_mut().find(|sent| sent.lost && !sent.sacked);
        let segment = if let Some(lost) = lost {
            // The first lost one goes at once, whatever is in the network: RFC 6675 (4.3).
            if room < u64::from(lost.len) && lost.from != self.una {
                return None;
            }
            lost.lost = false;
            lost.times += 1;
            lost.at = now;
            self.counts.retransmissions += 1;
            Segment {
                from: lost.from,
                len: lost.len,
                first: false,
            }
        } else {
            let len = len?;
            let fits = self.next + u64::from(len) <= self.edge;
            let alone = self.sent.is_empty();
            if !fits || (room < u64::from(len) && !alone) {
                return None;
            }
            let segment = Segment {
                from: self.next,
                len,
                first: true,
            };
            self.sent.push_back(Sent {
                from: segment.from,
                len,
                at: now,
                times: 1,
                sacked: false,
                lost: false,
            });
            self.next += u64::from(len);
            segment
        };
        self.counts.segments += 1;
        self.pipe += u64::from(segment.len);
        if self.timer.is_none() {
            self.start_timer(now);
        }
        Some(segment)
    }

    /// A byte beyond the window, to hear whether there is room again.
    pub fn probe(&mut self, now: Picoseconds) -> Option<Segment> {
        if !self.sent.is_empty() {
            return None;
        }
        let edge = std::mem::replace(&mut self.edge, u64::MAX);
        let probe = self.send(now, Some(1));
        self.edge = edge;
        probe
    }

    /// An acknowledgement: all before `ack` is there, and so are `sack`; what is before `edge` may be sent.
    pub fn ack(&mut self, now: Picoseconds, ack: u64, sack: &[Range<u64>], edge: u64) {
        self.counts.acks += 1;
        if ack > self.next {
            return;
        }
        let same_window = edge == self.edge;
        self.edge = self.edge.max(edge);
        let news = self.mark_sacked(sack);
        if ack > self.una {
            self.advance(now, ack);
        } else if !self.sent.is_empty() && ack == self.una && (same_window || news) {
            self.duplicates += 1;
        }
        self.mark_lost();
        self.count_pipe();
        let lost = self.sent.iter().any(|sent| sent.lost);
        let enough = self.duplicates >= DUPLICATES && !self.sack_seen;
        if self.recovery.is_none() && (lost || enough) {
            self.begin_recovery();
        }
    }

    /// Whether the blocks said something new.
    fn mark_sacked(&mut self, sack: &[Range<u64>]) -> bool {
        self.sack_seen |= !sack.is_empty();
        let mut news = false;
        for sent in &mut self.sent {
            let in_block = |block: &Range<u64>| block.start <= sent.from && sent.to() <= block.end;
            if !sent.sacked && sack.iter().any(in_block) {
                sent.sacked = true;
                sent.lost = false;
                news = true;
            }
        }
        news
    }

    fn advance(&mut self, now: Picoseconds, ack: u64) {
        let acked = ack - self.una;
        self.una = ack;
        self.backoff = 0;
        let mut sample = None;
        while let Some(first) = self.sent.front_mut() {
            if first.to() > ack {
                if first.from < ack {
                    first.len -= (ack - first.from) as u32;
                    first.from = ack;
                }
                break;
            }
            // Karn: what was sent twice measures nothing.
            if first.times == 1 {
                sample = Some(now.since(first.at));
            }
            self.sent.pop_front();
        }
        if let Some(sample) = sample {
            self.measure(sample);
        }
        match self.recovery {
            Some(point) if ack >= point => {
                self.recovery = None;
                self.duplicates = 0;
                self.cwnd = self.ssthresh;
                self.start_timer(now);
            }
            Some(_) => {
                if !self.sack_seen {
                    // A partial acknowledgement: the next one is lost as well (RFC 6582). The timer goes on, so that many
                    // losses end in a time-out: the impatient variant.
                    let left = (acked / self.mss).max(1) as u32;
                    self.duplicates = self.duplicates.saturating_sub(left);
                    if let Some(first) = self.sent.front_mut() {
                        first.lost = true;
                    }
                } else {
                    self.start_timer(now);
                }
            }
            None => {
                self.duplicates = 0;
                self.grow(acked);
                self.start_timer(now);
            }
        }
    }

    fn grow(&mut self, acked: u64) {
        // A window that is not used does not grow (RFC 7661).
        if self.cwnd > 2 * (self.pipe + acked) {
            return;
        }
        self.cwnd += if self.cwnd < self.ssthresh {
            acked.min(2 * self.mss)
        } else {
            (self.mss * acked / self.cwnd).max(1)
        };
    }

    /// A round trip took that long; the caller measures the one that opened the connection.
    pub fn measure(&mut self, sample: Picoseconds) {
        self.srtt = Some(match self.srtt {
            None => (sample, Picoseconds(sample.0 / 2)),
            Some((mean, deviation)) => (
                Picoseconds((7 * mean.0 + sample.0) / 8),
                Picoseconds((3 * deviation.0 + mean.0.abs_diff(sample.0)) / 4),
            ),
        });
    }

    /// RFC 6675, IsLost: three segments beyond, or more than two segments' bytes, are there.
    fn mark_lost(&mut self) {
        if !self.sack_seen {
            return;
        }
        let mut segments = 0;
        let mut bytes = 0;
        for sent in self.sent.iter_mut().rev() {
            if sent.sacked {
                segments += 1;
                bytes += u64::from(sent.len);
            } else if sent.times == 1
                && !sent.lost
                && (segments >= DUPLICATES || bytes > u64::from(DUPLICATES - 1) * self.mss)
            {
                sent.lost = true;
            }
        }
    }

    fn count_pipe(&mut self) {
        let in_network = self.sent.iter().filter(|sent| !sent.sacked && !sent.lost);
        self.pipe = in_network.map(|sent| u64::from(sent.len)).sum();
    }

    fn begin_recovery(&mut self) {
        self.counts.recoveries += 1;
        self.recovery = Some(self.next);
        let flight = self.next - self.una;
        self.ssthresh = (flight / 2).max(2 * self.mss);
        self.cwnd = self.ssthresh;
        if !self.sack_seen
            && let Some(first) = self.sent.front_mut()
        {
            first.lost = true;
            self.pipe = self.pipe.saturating_sub(u64::from(first.len));
        }
    }

    /// The timer has run out: all that is not there is lost, and the window opens anew.
    pub fn time_out(&mut self, now: Picoseconds) {
        if self.sent.is_empty() {
            self.timer = None;
            return;
        }
        self.counts.timeouts += 1;
        let flight = self.next - self.una;
        if self.backoff == 0 {
            self.ssthresh = (flight / 2).max(2 * self.mss);
        }
        self.cwnd = self.mss;
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
        self.recovery = None;
        self.duplicates = 0;
        for sent in &mut self.sent {
            sent.lost = !sent.sacked;
        }
        // Losses of this flight begin no recovery of their own.
        self.recovery = Some(self.next);
        self.count_pipe();
        self.start_timer(now);
    }
}
