// SPDX-License-Identifier: Apache-2.0
//! A host: memory, root complex, and a CPU whose program is a coroutine.
//!
//! A program is an `async fn` over a [`HostApi`]. It runs in no time until it asks for something that takes time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use wire::tlp::{Completion, CompletionStatus};

use crate::calendar::{ComponentId, Message, Outbox, Tlp};
use crate::error::Error;
use crate::memory::Memory;
use crate::platform::HostTiming;
use crate::record::{PacketId, Recorder};
use crate::root::{FromNic, RootComplex};
use crate::time::Picoseconds;

pub use crate::root::{BAR0, BAR2, LINE_BYTES};

const BAR0_BYTES: u64 = 1 << wire::registers::BAR0_ADDR_W;
const BAR2_BYTES: u64 = 1 << wire::registers::BAR2_ADDR_W;
/// Where a write is an interrupt: the local interrupt controllers of x86.
pub const MSI_FIRST: u64 = 0xFEE0_0000;
const MSI_END: u64 = 0xFEF0_0000;
/// Stores that the root complex holds back for want of credits before the core stalls.
const STORE_QUEUE: usize = 16;

/// Is told of every DMA write: when it is in memory, where, and what.
pub type Watcher = Box<dyn FnMut(Picoseconds, u64, &[u8])>;

/// A program: it ends, or gives up with a sentence.
pub type Program = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// What a program may ask of its host.
#[derive(Debug)]
enum Request {
    Store {
        address: u64,
        data: Vec<u8>,
    },
    StoreCombined {
        address: u64,
        data: Vec<u8>,
    },
    Fence,
    Load {
        address: u64,
        bytes: usize,
    },
    Poll {
        address: u64,
        old: Vec<u8>,
        until: Option<Picoseconds>,
    },
    Interrupt {
        address: u64,
    },
    SleepUntil(Picoseconds),
    ReadMemory {
        address: u64,
        bytes: usize,
    },
    WriteMemory {
        address: u64,
        data: Vec<u8>,
    },
    Measure(bool),
}

#[derive(Debug, Default)]
struct Port {
    now: Picoseconds,
    request: Option<Request>,
    answer: Option<Vec<u8>>,
}

/// The CPU as a program sees it.
#[derive(Clone, Debug)]
pub struct HostApi {
    port: Rc<RefCell<Port>>,
}

struct Answer {
    port: Rc<RefCell<Port>>,
}

impl Future for Answer {
    type Output = Vec<u8>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Vec<u8>> {
        match self.port.borrow_mut().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl HostApi {
    async fn ask(&self, request: Request) -> Vec<u8> {
        self.port.borrow_mut().request = Some(request);
        Answer {
            port: Rc::clone(&self.port),
        }
        .await
    }

    /// Simulated time.
    pub fn now(&self) -> Picoseconds {
        self.port.borrow().now
    }

    /// An uncached store of whole DWs (4 or 8 bytes): one TLP. Takes no time of its own, but the next one has to keep
    /// the platform's interval.
    pub async fn store(&self, address: u64, data: &[u8]) {
        let data = data.to_vec();
        self.ask(Request::Store { address, data }).await;
    }

    /// A store of 4 bytes.
    pub async fn store4(&self, address: u64, value: u32) {
        self.store(address, &value.to_le_bytes()).await;
    }

    /// A store of 8 bytes.
    pub async fn store8(&self, address: u64, value: u64) {
        self.store(address, &value.to_le_bytes()).await;
    }

    /// A copy to write-combining memory: leaves as one TLP when the line is full, another line is begun, or a fence comes.
    pub async fn store_combined(&self, address: u64, data: &[u8]) {
        let data = data.to_vec();
        self.ask(Request::StoreCombined { address, data }).await;
    }

    /// Sends what the write-combining buffer holds.
    pub async fn fence(&self) {
        self.ask(Request::Fence).await;
    }

    /// Loads whole DWs, at most a line, from the NIC.
    pub async fn load(&self, address: u64, bytes: usize) -> Vec<u8> {
        self.ask(Request::Load { address, bytes }).await
    }

    /// Loads 4 bytes.
    pub async fn load4(&self, address: u64) -> u32 {
        let bytes = self.load(address, 4).await;
        u32::from_le_bytes(bytes.try_into().unwrap_or([0xFF; 4]))
    }

    /// Polls memory until it differs from `old`; returns what is there then.
    pub async fn poll(&self, address: u64, old: &[u8]) -> Vec<u8> {
        let old = old.to_vec();
        let until = None;
        self.ask(Request::Poll {
            address,
            old,
            until,
        })
        .await
    }

    /// The same until that time at most; then what is there may be what was.
    pub async fn poll_until(&self, address: u64, old: &[u8], until: Picoseconds) -> Vec<u8> {
        let old = old.to_vec();
        let until = Some(until);
        self.ask(Request::Poll {
            address,
            old,
            until,
        })
        .await
    }

    /// Sleeps until an interrupt has come that was not slept for: the NIC's write to the address of its MSI. It goes on
    /// at the moment of the write; what a processor takes from there on is for the caller to compute.
    pub async fn interrupt(&self, address: u64) {
        self.ask(Request::Interrupt { address }).await;
    }

    /// Computes for a while.
    pub async fn compute(&self, time: Picoseconds) {
        self.sleep_until(self.now() + time).await;
    }

    /// Does nothing until then; returns at once if it is later already.
    pub async fn sleep_until(&self, time: Picoseconds) {
        self.ask(Request::SleepUntil(time)).await;
    }

    /// Reads the host's memory; no time passes.
    pub async fn read_memory(&self, address: u64, bytes: usize) -> Vec<u8> {
        self.ask(Request::ReadMemory { address, bytes }).await
    }

    /// Writes the host's memory; no time passes.
    pub async fn write_memory(&self, address: u64, data: &[u8]) {
        let data = data.to_vec();
        self.ask(Request::WriteMemory { address, data }).await;
    }

    /// Begins or ends the part of the run that is reported.
    pub async fn measure(&self, on: bool) {
        self.ask(Request::Measure(on)).await;
    }
}

/// What the CPU is waiting for.
#[derive(Debug)]
enum Waiting {
    Nothing,
    /// To issue this request at the time of the wake-up.
    Retry(Request),
    /// For credits, to issue this request.
    Credits(Request),
    /// For the time of the wake-up, to go on with this answer.
    Time(Vec<u8>),
    Completion {
        tag: u8,
        bytes: usize,
        data: Vec<u8>,
    },
    Memory {
        address: u64,
        old: Vec<u8>,
        since: Picoseconds,
        until: Option<Picoseconds>,
        packet: Option<PacketId>,
        /// When the program goes on, once the memory is another one.
        due: Option<Picoseconds>,
    },
    /// For an interrupt by a write to this address.
    Interrupt {
        address: u64,
    },
}

#[derive(Debug)]
struct CombiningBuffer {
    line: u64,
    data: [u8; LINE_BYTES],
    mask: u64,
    /// When the first of the bytes was stored.
    since: Picoseconds,
}

/// The component.
pub struct Host {
    id: ComponentId,
    /// Its name in the topology.
    pub name: String,
    root: RootComplex,
    memory: Memory,
    port: Rc<RefCell<Port>>,
    program: Option<Program>,
    waiting: Waiting,
    buffer: CombiningBuffer,
    next_store: Picoseconds,
    /// DMA writes that nobody has polled for yet: the last packet for each line.
    landed: BTreeMap<u64, PacketId>,
    watcher: Option<Watcher>,
    /// Interrupts that have come and nobody has slept for, by the address of the MSI.
    interrupts: BTreeMap<u64, u64>,
    /// Why a poll or a completion came to nothing.
    failure: Option<String>,
}

impl Host {
    /// A host without a program.
    pub fn new(id: ComponentId, name: String, nic: ComponentId, timing: HostTiming) -> Self {
        Self {
            id,
            name,
            root: RootComplex::new(id, nic, timing),
            memory: Memory::default(),
            port: Rc::default(),
            program: None,
            waiting: Waiting::Nothing,
            buffer: CombiningBuffer {
                line: 0,
                data: [0; LINE_BYTES],
                mask: 0,
                since: Picoseconds::ZERO,
            },
            next_store: Picoseconds::ZERO,
            landed: BTreeMap::new(),
            watcher: None,
            interrupts: BTreeMap::new(),
            failure: None,
        }
    }

    /// What its programs use.
    pub fn api(&self) -> HostApi {
        HostApi {
            port: Rc::clone(&self.port),
        }
    }

    /// Gives the CPU a program, to be started by [`Host::start`].
    pub fn run(&mut self, program: Program) {
        self.program = Some(program);
    }

    /// Has somebody told of every DMA write.
    pub fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    /// Whether there is nothing more to do for the CPU.
    pub fn is_done(&self) -> bool {
        self.program.is_none()
    }

    /// What the CPU is waiting for, as part of a sentence.
    pub fn describe(&self) -> Option<String> {
        self.program.as_ref()?;
        let what = match &self.waiting {
            Waiting::Memory { address, since, .. } => {
                format!("polls address {address:#x} since {since}")
            }
            Waiting::Interrupt { .. } => "sleeps until the NIC interrupts".to_owned(),
            Waiting::Completion { tag, .. } => format!("waits for the completion of load {tag}"),
            Waiting::Credits(_) => "waits for PCI Express credits".to_owned(),
            Waiting::Nothing | Waiting::Retry(_) | Waiting::Time(_) => "computes".to_owned(),
        };
        Some(format!("host {} {what}", self.name))
    }

    /// Starts the program.
    pub fn start(&mut self, now: Picoseconds, out: &mut Outbox) {
        out.send(now, self.id, Message::Wake);
    }

    /// Something arrives.
    pub fn receive(
        &mut self,
        now: Picoseconds,
        message: Message,
        out: &mut Outbox,
        record: &mut Recorder,
    ) -> Result<(), Error> {
        match message {
            Message::Wake => self.wake(now, out, record),
            Message::Credits(count) => {
                self.root.credits(now, count, out, record);
                if let Waiting::Credits(_) = self.waiting {
                    let Waiting::Credits(request) =
                        std::mem::replace(&mut self.waiting, Waiting::Nothing)
                    else {
                        unreachable!("matched above")
                    };
                    self.serve(now, request, out, record);
                    self.step(now, out, record);
                }
            }
            Message::Tlp(tlp) => self.take_tlp(now, &tlp, out, record),
            Message::Word { .. }
            | Message::Frame(_)
            | Message::Management(_)
            | Message::HostSide(_)
            | Message::Tick
            | Message::Edge => {
                unreachable!("a host is sent TLPs, credits and wake-ups only")
            }
        }
        match self.failure.take() {
            None => Ok(()),
            Some(reason) => Err(Error::Program {
                time: now,
                host: self.name.clone(),
                reason,
            }),
        }
    }

    fn wake(&mut self, now: Picoseconds, out: &mut Outbox, record: &mut Recorder) {
        let memory = &self.memory;
        let read = |address: u64, bytes: &mut [u8]| {
            memory.read(address, bytes);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = self.root.answer_reads(now, read, out, record);
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => self.step(now, out, record),
            Waiting::Retry(request) if self.next_store <= now => {
                self.serve(now, request, out, record);
                self.step(now, out, record);
            }
            Waiting::Time(answer) if self.port.borrow().now <= now => {
                // The time that was slept for is kept in the port.
                self.answer(answer);
                self.step(now, out, record);
            }
            memory @ Waiting::Memory { .. } => {
                self.waiting = memory;
                if self.look(now, out, record) {
                    self.step(now, out, record);
                }
            }
            // A wake-up for something else.
            other => self.waiting = other,
        }
    }

    fn answer(&self, answer: Vec<u8>) {
        self.port.borrow_mut().answer = Some(answer);
    }

    /// Runs the program until it waits.
    fn step(&mut self, now: Picoseconds, out: &mut Outbox, record: &mut Recorder) {
        while matches!(self.waiting, Waiting::Nothing) && self.failure.is_none() {
            let Some(program) = &mut self.program else {
                return;
            };
            self.port.borrow_mut().now = now;
            let mut context = Context::from_waker(Waker::noop());
            match program.as_mut().poll(&mut context) {
                Poll::Ready(result) => {
                    self.program = None;
                    self.failure = result.err();
                    return;
                }
                Poll::Pending => {
                    let request = self.port.borrow_mut().request.take();
                    let request = request.expect("a program waits only for its host");
                    self.serve(now, request, out, record);
                }
            }
        }
    }

    fn serve(
        &mut self,
        now: Picoseconds,
        request: Request,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let is_store = matches!(
            request,
            Request::Store { .. } | Request::StoreCombined { .. } | Request::Fence
        );
        if is_store && self.next_store > now {
            out.send(self.next_store, self.id, Message::Wake);
            self.waiting = Waiting::Retry(request);
            return;
        }
        if is_store && self.root.waiting() >= STORE_QUEUE {
            self.waiting = Waiting::Credits(request);
            return;
        }
        match request {
            Request::Store { address, data } => {
                self.flush(now, out, record);
                self.send_store(now, now, address, &data, out, record);
                self.next_store = now + self.root.timing.store_interval;
                self.answer(Vec::new());
            }
            Request::StoreCombined { address, data } => {
                self.combine(now, address, &data, out, record);
                self.next_store = now + self.root.timing.combined_store;
                self.answer(Vec::new());
            }
            Request::Fence => {
                self.flush(now, out, record);
                self.answer(Vec::new());
            }
            Request::Load { address, bytes } => self.load(now, address, bytes, out, record),
            Request::Poll {
                address,
                old,
                until,
            } => {
                let packet = self.landed.remove(&(address / LINE_BYTES as u64));
                self.waiting = Waiting::Memory {
                    address,
                    old,
                    since: now,
                    until,
                    packet,
                    due: None,
                };
                if !self.look(now, out, record)
                    && let Some(until) = until
                {
                    out.send(until.max(now), self.id, Message::Wake);
                }
            }
            Request::Interrupt { address } => {
                self.waiting = Waiting::Interrupt { address };
                self.take_interrupt();
            }
            Request::SleepUntil(time) if time > now => {
                self.port.borrow_mut().now = time;
                out.send(time, self.id, Message::Wake);
                self.waiting = Waiting::Time(Vec::new());
            }
            Request::SleepUntil(_) => self.answer(Vec::new()),
            Request::ReadMemory { address, bytes } => {
                let mut data = vec![0; bytes];
                self.memory.read(address, &mut data);
                self.answer(data);
            }
            Request::WriteMemory { address, data } => {
                self.memory.write(address, &data);
                self.answer(Vec::new());
            }
            Request::Measure(on) => {
                record.measuring = on;
                self.answer(Vec::new());
            }
        }
    }

    /// Looks at polled memory, now or at the next look of the polling loop; true if the program may go on.
    fn look(&mut self, now: Picoseconds, out: &mut Outbox, record: &mut Recorder) -> bool {
        let Waiting::Memory {
            address,
            old,
            since,
            until,
            packet,
            due,
        } = &mut self.waiting
        else {
            return false;
        };
        let mut data = vec![0; old.len()];
        self.memory.read(*address, &mut data);
        if data == *old {
            *due = None;
            if until.is_none_or(|until| until > now) {
                return false;
            }
            self.waiting = Waiting::Nothing;
            self.answer(data);
            return true;
        }
        let timing = &self.root.timing;
        let at = *due.get_or_insert_with(|| {
            let look = match timing.poll_period {
                Picoseconds::ZERO => now,
                period => period.next_edge(*since, now),
            };
            look + timing.unexplained
        });
        if at > now {
            out.send(at, self.id, Message::Wake);
            return false;
        }
        if let Some(id) = *packet {
            record.seen(id, now, self.id);
        }
        self.waiting = Waiting::Nothing;
        self.answer(data);
        true
    }

    /// Goes on, if an interrupt is there that was slept for.
    fn take_interrupt(&mut self) -> bool {
        let Waiting::Interrupt { address } = self.waiting else {
            return false;
        };
        match self.interrupts.get_mut(&address) {
            Some(count) if *count > 0 => *count -= 1,
            _ => return false,
        }
        self.waiting = Waiting::Nothing;
        self.answer(Vec::new());
        true
    }

    fn bar(address: u64) -> Option<u8> {
        if (BAR0..BAR0 + BAR0_BYTES).contains(&address) {
            Some(0)
        } else if (BAR2..BAR2 + BAR2_BYTES).contains(&address) {
            Some(2)
        } else {
            None
        }
    }

    #[allow(clippy::too_many_arguments)] // the two times differ for combined stores only
    fn send_store(
        &mut self,
        now: Picoseconds,
        issued: Picoseconds,
        address: u64,
        data: &[u8],
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let Some(bar) = Self::bar(address) else {
            self.failure = Some(format!("a store to {address:#x}, where no BAR is"));
            return;
        };
        let sent = self
            .root
            .store(now, issued, bar, address, data, out, record);
        if let Err(reason) = sent {
            self.failure = Some(reason);
        }
    }

    fn combine(
        &mut self,
        now: Picoseconds,
        address: u64,
        data: &[u8],
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let line = address / LINE_BYTES as u64;
        let start = (address % LINE_BYTES as u64) as usize;
        if start + data.len() > LINE_BYTES {
            self.failure = Some(format!("a combined store to {address:#x} crosses a line"));
            return;
        }
        if line != self.buffer.line {
            self.flush(now, out, record);
            self.buffer.line = line;
        }
        if self.buffer.mask == 0 {
            self.buffer.since = now;
        }
        for (offset, byte) in (start..).zip(data) {
            self.buffer.data[offset] = *byte;
            self.buffer.mask |= 1 << offset;
        }
        if self.buffer.mask == u64::MAX {
            self.flush(now, out, record);
        }
    }

    /// Sends the write-combining buffer, one TLP for each run of DWs.
    fn flush(&mut self, now: Picoseconds, out: &mut Outbox, record: &mut Recorder) {
        let mask = std::mem::take(&mut self.buffer.mask);
        let base = self.buffer.line * LINE_BYTES as u64;
        let data = self.buffer.data;
        let mut dw = 0;
        while dw < LINE_BYTES / 4 {
            let start = dw;
            while dw < LINE_BYTES / 4 && mask >> (4 * dw) & 0xF == 0xF {
                dw += 1;
            }
            if dw > start {
                let address = base + 4 * start as u64;
                let issued = self.buffer.since;
                self.send_store(now, issued, address, &data[4 * start..4 * dw], out, record);
            } else {
                dw += 1;
            }
        }
    }

    fn load(
        &mut self,
        now: Picoseconds,
        address: u64,
        bytes: usize,
        out: &mut Outbox,
        record: &mut Recorder,
    ) {
        let Some(bar) = Self::bar(address) else {
            self.failure = Some(format!("a load from {address:#x}, where no BAR is"));
            return;
        };
        match self.root.load(now, bar, address, bytes, out, record) {
            Ok(tag) => {
                self.waiting = Waiting::Completion {
                    tag,
                    bytes,
                    data: Vec::new(),
                };
            }
            Err(reason) => self.failure = Some(reason),
        }
    }

    /// A TLP from the NIC is at the root complex, and a write in memory.
    fn take_tlp(&mut self, now: Picoseconds, tlp: &Tlp, out: &mut Outbox, record: &mut Recorder) {
        match self.root.take(now, tlp, out, record) {
            Ok(FromNic::Write(request, data)) => {
                let (first_be, last_be) = (request.first_be, request.last_be);
                self.memory
                    .write_enabled(request.address, data, first_be, last_be);
                if let Some(watcher) = &mut self.watcher {
                    watcher(now, request.address, data);
                }
                if (MSI_FIRST..MSI_END).contains(&request.address) {
                    *self.interrupts.entry(request.address).or_default() += 1;
                }
                if let Some(id) = tlp.packet {
                    self.land(request.address / LINE_BYTES as u64, id, record);
                }
                if self.look(now, out, record) || self.take_interrupt() {
                    self.step(now, out, record);
                }
            }
            Ok(FromNic::Read) => {}
            Ok(FromNic::Completion(completion, data)) => {
                self.completed(now, &completion, data, out);
            }
            Err(reason) => self.failure = Some(reason),
        }
    }

    fn land(&mut self, line: u64, id: PacketId, record: &mut Recorder) {
        if let Waiting::Memory {
            address, packet, ..
        } = &mut self.waiting
            && *address / LINE_BYTES as u64 == line
        {
            packet.replace(id);
        } else if let Some(older) = self.landed.insert(line, id) {
            record.forget(older);
        }
    }

    fn completed(
        &mut self,
        now: Picoseconds,
        completion: &Completion,
        data: &[u8],
        out: &mut Outbox,
    ) {
        let Waiting::Completion {
            tag,
            bytes,
            data: so_far,
        } = &mut self.waiting
        else {
            self.failure = Some("a completion that nobody waits for".to_owned());
            return;
        };
        if *tag != completion.tag {
            self.failure = Some(format!(
                "a completion with tag {} where {tag} was expected",
                completion.tag
            ));
            return;
        }
        so_far.extend_from_slice(data);
        let failed = completion.status != CompletionStatus::Successful;
        if failed {
            // What a failed load reads on a PC.
            so_far.clear();
            so_far.resize(*bytes, 0xFF);
        }
        if so_far.len() >= *bytes {
            let answer = std::mem::take(so_far);
            let due = now + self.root.timing.load.unwrap_or_default();
            self.port.borrow_mut().now = due;
            self.waiting = Waiting::Time(answer);
            out.send(due, self.id, Message::Wake);
        }
    }
}
