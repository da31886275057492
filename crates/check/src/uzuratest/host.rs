// SPDX-License-Identifier: Apache-2.0
//! The host around the RTL: memory behind its DMA ports, registers, and frames. Reads are answered late, and in any order
//! between cookies; a write must lie where the driver has said that it may.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use ipnuma_rtl::{Uzura, UzuraAccess, UzuraBeat, UzuraSpan, UzuraWord};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Bytes of memory.
const MEMORY: usize = 1 << 23;
/// No DMA crosses a page.
pub const PAGE: usize = 4096;
const COOKIES: usize = 8;
const WORD: usize = 8;
/// 156.25 MHz.
const CYCLE_PS: u64 = 6400;
/// Cycles without anything at the ports after which an engine that waits for a clock does nothing else. The longest
/// look of the engine at something inside takes less than a hundred.
const STILL: u32 = 160;
/// Cycles from a port to the engine's saying that it is busy.
const LATE: u32 = 8;
/// Cycles in which the engine looks at the clock of each of its 64 queue pairs, and some.
pub const SCAN_CYCLES: u64 = 64 * 64 + 64;
/// Cycles in which something that was begun must end.
const PATIENCE: u64 = 200_000;

/// How a host answers.
#[derive(Clone, Debug)]
pub struct Manners {
    /// Cycles of a DMA read.
    pub read_cycles: RangeInclusive<u64>,
    /// A port is not ready in so many of 1000 cycles.
    pub stalls: u32,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            read_cycles: 1..=4,
            stalls: 0,
        }
    }
}

/// A read that is not answered yet.
struct Read {
    due: u64,
    span: UzuraSpan,
}

/// An answer under way.
struct Answer {
    beats: VecDeque<UzuraBeat>,
}

/// The RTL with its host.
pub struct Host {
    /// How it answers.
    pub manners: Manners,
    /// Frames that have come out.
    pub frames: Vec<Vec<u8>>,
    /// Cycles so far.
    pub cycle: u64,
    /// Microseconds, as the engine sees them.
    pub now_us: u32,
    engine: Uzura,
    rng: ChaCha8Rng,
    memory: Vec<u8>,
    may_write: Vec<bool>,
    next_page: usize,
    accesses: VecDeque<UzuraAccess>,
    register: Option<u64>,
    reads: [VecDeque<Read>; COOKIES],
    answer: Option<Answer>,
    /// Reads behind a write whose data are not all there.
    behind: Vec<UzuraSpan>,
    writing: Option<(usize, usize)>,
    tx: Vec<u8>,
    rx: VecDeque<UzuraWord>,
    still: u32,
    busy: bool,
}

impl Host {
    /// One with empty memory, its engine out of reset.
    pub fn new(rng: ChaCha8Rng) -> Result<Self, String> {
        let mut engine = Uzura::new().map_err(|error| error.to_string())?;
        engine.reset().map_err(|error| error.to_string())?;
        Ok(Self {
            manners: Manners::default(),
            frames: Vec::new(),
            cycle: 0,
            now_us: 0,
            engine,
            rng,
            memory: vec![0; MEMORY],
            may_write: vec![false; MEMORY],
            next_page: PAGE,
            accesses: VecDeque::new(),
            register: None,
            reads: Default::default(),
            answer: None,
            behind: Vec::new(),
            writing: None,
            tx: Vec::new(),
            rx: VecDeque::new(),
            still: 0,
            busy: true,
        })
    }

    /// Takes whole pages of physical memory.
    pub fn take(&mut self, bytes: usize) -> Result<usize, String> {
        let at = self.next_page;
        self.next_page += bytes.div_ceil(PAGE).max(1) * PAGE;
        if self.next_page > MEMORY {
            return Err(format!("the bench's memory of {MEMORY} bytes is full"));
        }
        Ok(at)
    }

    /// The engine may write there.
    pub fn permit(&mut self, at: usize, bytes: usize) {
        self.may_write[at..at + bytes].fill(true);
    }

    /// Reads memory.
    pub fn read(&self, at: usize, bytes: usize) -> &[u8] {
        &self.memory[at..at + bytes]
    }

    /// Writes memory, as the host does.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        self.memory[at..at + data.len()].copy_from_slice(data);
    }

    /// Writes a register when its turn comes.
    pub fn store(&mut self, address: u32, value: u64) {
        self.accesses.push_back(UzuraAccess {
            address,
            write: Some(value),
        });
    }

    /// Reads a register, behind all that was stored.
    pub fn load(&mut self, address: u32) -> Result<u64, String> {
        self.register = None;
        self.accesses.push_back(UzuraAccess {
            address,
            write: None,
        });
        let end = self.cycle + PATIENCE;
        loop {
            self.step()?;
            if let Some(value) = self.register.take() {
                return Ok(value);
            }
            if self.cycle > end {
                return Err(format!("no answer from register {address:#x}"));
            }
        }
    }

    /// Lets a frame arrive.
    pub fn arrive(&mut self, frame: &[u8]) {
        let count = frame.len().div_ceil(WORD);
        for (n, part) in frame.chunks(WORD).enumerate() {
            let mut word = [0; WORD];
            word[..part.len()].copy_from_slice(part);
            self.rx.push_back(UzuraWord {
                data: u64::from_le_bytes(word),
                keep: ((1_u16 << part.len()) - 1) as u8,
                last: n + 1 == count,
            });
        }
    }

    /// Whether nothing is under way but what a clock ends.
    pub fn is_quiet(&self) -> bool {
        let owed = self.answer.is_some()
            || !self.behind.is_empty()
            || self.reads.iter().any(|queue| !queue.is_empty());
        let given = !self.rx.is_empty() || !self.accesses.is_empty();
        let still = if self.busy { STILL } else { LATE };
        !owed && !given && self.still > still
    }

    /// Goes on until nothing is under way.
    pub fn settle(&mut self) -> Result<(), String> {
        self.still = 0;
        let end = self.cycle + PATIENCE;
        while !self.is_quiet() {
            self.step()?;
            if self.cycle > end {
                return Err("the engine does not come to rest".into());
            }
        }
        Ok(())
    }

    fn ready(&mut self) -> bool {
        let stalls = self.manners.stalls;
        stalls == 0 || !self.rng.random_ratio(stalls, 1000)
    }

    /// One cycle.
    pub fn step(&mut self) -> Result<(), String> {
        self.begin_answer();
        let mut inputs = self.engine.inputs;
        inputs.now_us = self.now_us;
        inputs.access = self.accesses.front().copied();
        inputs.read_ready = self.ready();
        inputs.write_ready = self.ready();
        inputs.write_data_ready = self.ready();
        inputs.tx_ready = self.ready();
        inputs.data = self.answer.as_ref().and_then(|a| a.beats.front().copied());
        inputs.rx = self.rx.front().copied();
        self.engine.inputs = inputs;
        self.engine.set_time(self.cycle * CYCLE_PS);
        let out = self.engine.settle().map_err(|error| error.to_string())?;
        let moves = inputs.access.is_some()
            || inputs.data.is_some()
            || inputs.rx.is_some()
            || out.read.is_some()
            || out.write.is_some()
            || out.write_data.is_some()
            || out.tx.is_some();
        self.still = if moves { 0 } else { self.still + 1 };
        self.busy = out.busy;
        if inputs.access.is_some() {
            self.accesses.pop_front();
        }
        if inputs.rx.is_some() {
            self.rx.pop_front();
        }
        if inputs.data.is_some()
            && out.data_ready
            && let Some(answer) = &mut self.answer
        {
            answer.beats.pop_front();
            if answer.beats.is_empty() {
                self.answer = None;
            }
        }
        if let Some(span) = out.read.filter(|_| inputs.read_ready) {
            check_span(span, "read")?;
            if self.writing.is_some() {
                self.behind.push(span);
            } else {
                self.ask(span);
            }
        }
        if let Some(span) = out.write.filter(|_| inputs.write_ready) {
            self.begin_write(span)?;
        }
        if let Some((data, last)) = out.write_data.filter(|_| inputs.write_data_ready) {
            self.write_word(data, last)?;
        }
        if let Some(word) = out.tx.filter(|_| inputs.tx_ready) {
            let count = word.keep.count_ones() as usize;
            self.tx.extend_from_slice(&word.data.to_le_bytes()[..count]);
            if word.last {
                self.frames.push(std::mem::take(&mut self.tx));
            }
        }
        if let Some(value) = out.register {
            self.register = Some(value);
        }
        self.engine.edge().map_err(|error| error.to_string())?;
        self.cycle += 1;
        Ok(())
    }

    fn ask(&mut self, span: UzuraSpan) {
        let due = self.cycle + self.rng.random_range(self.manners.read_cycles.clone());
        self.reads[usize::from(span.cookie) % COOKIES].push_back(Read { due, span });
    }

    /// Chooses a read whose time has come.
    fn begin_answer(&mut self) {
        if self.answer.is_some() {
            return;
        }
        let is_due = |queue: &VecDeque<Read>| queue.front().is_some_and(|r| r.due <= self.cycle);
        let due: Vec<_> = (0..COOKIES).filter(|&n| is_due(&self.reads[n])).collect();
        if due.is_empty() {
            return;
        }
        let choice = due[self.rng.random_range(0..due.len())];
        let Some(Read { span, .. }) = self.reads[choice].pop_front() else {
            return;
        };
        let (at, bytes) = (span.address as usize, usize::from(span.bytes));
        let count = bytes.div_ceil(WORD);
        let beats = (0..count).map(|n| {
            let mut word = [0; WORD];
            let from = at + n * WORD;
            let here = WORD.min(at + bytes - from);
            if let Some(found) = self.memory.get(from..from + here) {
                word[..here].copy_from_slice(found);
            }
            UzuraBeat {
                data: u64::from_le_bytes(word),
                cookie: span.cookie,
                last: n + 1 == count,
                bad: false,
            }
        });
        self.answer = Some(Answer {
            beats: beats.collect(),
        });
    }

    fn begin_write(&mut self, span: UzuraSpan) -> Result<(), String> {
        check_span(span, "write")?;
        if self.writing.is_some() {
            return Err("a write begins before the one before has its data".into());
        }
        let (at, bytes) = (span.address as usize, usize::from(span.bytes));
        if !self.may_write[at..at + bytes].iter().all(|may| *may) {
            return Err(format!(
                "the engine writes {bytes} bytes to {at:#x}, where it must not"
            ));
        }
        self.writing = Some((at, bytes));
        Ok(())
    }

    fn write_word(&mut self, data: u64, last: bool) -> Result<(), String> {
        let Some((at, left)) = self.writing else {
            return Err("data without a write".into());
        };
        let count = left.min(WORD);
        self.memory[at..at + count].copy_from_slice(&data.to_le_bytes()[..count]);
        if last != (left <= WORD) {
            return Err(format!("a write's data have another length: {left} left"));
        }
        self.writing = (!last).then(|| (at + count, left - count));
        if last {
            for span in std::mem::take(&mut self.behind) {
                self.ask(span);
            }
        }
        Ok(())
    }
}

fn check_span(span: UzuraSpan, what: &str) -> Result<(), String> {
    let (at, bytes) = (span.address as usize, usize::from(span.bytes));
    if bytes == 0 || at % PAGE + bytes > PAGE {
        return Err(format!(
            "a {what} of {bytes} bytes at {at:#x} is empty or crosses a page"
        ));
    }
    if at > MEMORY - bytes {
        return Err(format!(
            "a {what} of {bytes} bytes at {at:#x} is outside memory"
        ));
    }
    Ok(())
}
