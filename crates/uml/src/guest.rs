// SPDX-License-Identifier: Apache-2.0
//! A guest: one thread, one wait for all its sockets. The guest stands still whenever it has said something that wants an
//! answer, so the order of all that happens is the guest's own, and the same in every run.

mod hear;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
use crate::memory::Memory;
use crate::network;
use crate::pci::{self, Pci};
use crate::process::Process;
use crate::spec::{DeviceSpec, GuestEvent, GuestSpec, Next, Timed};
use crate::time_travel::{Link, Operation};
use crate::vhost_user::Port;

/// How long a guest may compute before it is said to hang.
const PATIENCE: Duration = Duration::from_secs(300);
/// The kernel asks for the end of time when it waits for a device, and panics if it ever gets there.
const NEVER: u64 = i64::MAX as u64;

/// What is behind a socket of the guest.
enum Kind {
    Network,
    /// With a link: its address.
    Linked([u8; 6]),
    Pci(Box<Pci>),
}

struct Device {
    port: Port,
    kind: Kind,
}

/// A running guest.
pub struct Guest {
    name: String,
    process: Process,
    link: Link,
    devices: Vec<Device>,
    memory: Option<Memory>,
    /// Its time, as far as it was told.
    now: u64,
    /// When it wants to run next.
    request: u64,
    waiting: bool,
    /// It schedules itself up to here, so its time may be anywhere before this; nothing may reach it earlier.
    limit: u64,
    /// After something that it does, it may go on for so long.
    lookahead: u64,
    /// Messages to it that it has not acknowledged.
    unanswered: u32,
    tag: u64,
    events: Vec<Timed>,
    exited: Option<i32>,
    told_exit: bool,
    patience: Duration,
}

impl Guest {
    /// Starts a guest and lets it boot until it waits for the first time, at 0 ns.
    pub fn start(spec: GuestSpec) -> Result<Guest, Error> {
        let mut kinds = Vec::new();
        for (index, device) in spec.devices.iter().enumerate() {
            kinds.push(match device {
                DeviceSpec::Network { mac } => (Kind::Network, network::FEATURES, mac.to_vec()),
                DeviceSpec::NetworkWithLink { mac } => (
                    Kind::Linked(*mac),
                    network::FEATURES | network::LINK_FEATURE,
                    network::configuration(*mac, true),
                ),
                DeviceSpec::Pci(pci) => {
                    let pci = Pci::new(pci).map_err(|reason| Error::Spec {
                        guest: spec.name.clone(),
                        reason: format!("device {index}: {reason}"),
                    })?;
                    (Kind::Pci(Box::new(pci)), pci::FEATURES, Vec::new())
                }
            });
        }
        let (mut process, listener, sockets) = Process::start(&spec)?;
        let system = |what: &str, source| Error::System {
            guest: spec.name.clone(),
            what: what.into(),
            source,
        };
        let ready = wait(&[listener.as_fd(), process.end()], PATIENCE)
            .map_err(|source| system("wait", source))?;
        if ready != Some(0) {
            return match ready {
                Some(_) => Err(stillborn(&spec.name, &mut process)?),
                None => Err(silent(&spec.name, 0, PATIENCE, &process)),
            };
        }
        let (socket, _) = listener
            .accept()
            .map_err(|source| system("take its connection", source))?;
        let devices = kinds
            .into_iter()
            .zip(sockets)
            .map(|((kind, features, configuration), socket)| Device {
                port: Port::new(socket, features, configuration),
                kind,
            })
            .collect();
        let mut guest = Guest {
            name: spec.name,
            process,
            link: Link::new(socket),
            devices,
            memory: None,
            now: 0,
            request: 0,
            waiting: false,
            limit: 0,
            lookahead: 0,
            unanswered: 0,
            tag: 0,
            events: Vec::new(),
            exited: None,
            told_exit: false,
            patience: PATIENCE,
        };
        match guest.pump() {
            Err(Error::Exited { .. }) => Err(stillborn(&guest.name, &mut guest.process)?),
            other => other.map(|()| guest),
        }
    }

    /// How long the guest may compute before [`Error::Silent`]; five minutes unless this is called.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its time in ns, as far as it has told: it is not behind this.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// What it waits for.
    pub fn next(&self) -> Next {
        match self.exited {
            Some(status) => Next::Exited(status),
            None if self.request >= NEVER => Next::Never,
            None => Next::At(self.request),
        }
    }

    /// Lets the guest run from `now`, which must be the time of [`Guest::next`], on its own until `free_until` at most, and
    /// until `lookahead` after each thing it does. Adds what it did to `events`, in order of time, and returns when it waits.
    ///
    /// If it does not want to run yet, nothing happens.
    pub fn run(
        &mut self,
        now: u64,
        free_until: u64,
        lookahead: u64,
        events: &mut Vec<Timed>,
    ) -> Result<Next, Error> {
        match self.next() {
            Next::At(request) if request == now => {}
            Next::At(request) if request < now => {
                return Err(self.order(now, format!("wants to run at {request} ns already")));
            }
            Next::Exited(status) => {
                self.tell_exit(status, events);
                return Ok(Next::Exited(status));
            }
            next => return Ok(next),
        }
        let result = self
            .release(now, free_until, lookahead)
            .and_then(|()| self.pump());
        events.append(&mut self.events);
        match result {
            Err(Error::Exited { status, .. }) => {
                self.tell_exit(status, events);
                Ok(Next::Exited(status))
            }
            other => other.map(|()| self.next()),
        }
    }

    fn tell_exit(&mut self, status: i32, events: &mut Vec<Timed>) {
        events.append(&mut self.events);
        if !self.told_exit {
            self.told_exit = true;
            events.push(Timed {
                ns: self.now,
                event: GuestEvent::Exited { status },
            });
        }
    }

    fn release(&mut self, now: u64, free_until: u64, lookahead: u64) -> Result<(), Error> {
        self.now = now;
        self.lookahead = lookahead;
        // Its wait has ended what it was allowed before. Both messages go at once: it wakes once.
        self.limit = free_until.min(NEVER - 1).max(now);
        if self.limit > now {
            self.say(Operation::FreeUntil, self.limit);
        }
        self.say(Operation::Run, now);
        self.waiting = false;
        self.flush()
    }

    /// Puts a frame (without FCS) into the guest's network card at `now`. False if it had no buffer for it, and the frame is
    /// lost.
    pub fn receive(&mut self, now: u64, device: usize, frame: &[u8]) -> Result<bool, Error> {
        self.arrive(now)?;
        if matches!(self.device(device)?.kind, Kind::Pci(_)) {
            return Err(self.missing("network card", device as u64));
        }
        let (false, Some(memory)) = (self.exited.is_some(), &self.memory) else {
            return Ok(false);
        };
        let port = &mut self.devices[device].port;
        let taken = network::put_received(port, memory, frame);
        let tell = port.rings[network::RECEIVE].wants_interrupt(memory);
        let taken = taken.map_err(|reason| self.protocol(reason))?;
        if taken && tell {
            let told = self.call(device, network::RECEIVE);
            Guest::or_exited(told)?;
        }
        Ok(taken)
    }

    /// The link of a [`DeviceSpec::NetworkWithLink`] is lost or comes back at `now`; the guest's kernel sees it as the carrier.
    pub fn set_link(&mut self, now: u64, device: usize, up: bool) -> Result<(), Error> {
        self.arrive(now)?;
        let Kind::Linked(mac) = self.device(device)?.kind else {
            return Err(self.missing("network card with a link", device as u64));
        };
        if self.exited.is_some() {
            return Ok(());
        }
        let configuration = network::configuration(mac, up);
        let told = self.devices[device].port.configure(configuration);
        if told.map_err(|reason| self.protocol(reason))? {
            let taken = self.answered(device);
            Guest::or_exited(taken)?;
        }
        Ok(())
    }

    /// Answers a [`GuestEvent::MmioRead`] at `now`. The guest looks for it every microsecond.
    pub fn complete_read(&mut self, now: u64, tag: u64, bytes: &[u8]) -> Result<(), Error> {
        self.arrive(now)?;
        if self.exited.is_some() {
            return Ok(());
        }
        for device in &mut self.devices {
            let Kind::Pci(pci) = &mut device.kind else {
                continue;
            };
            let Some(at) = pci.reads.iter().position(|read| read.tag == tag) else {
                continue;
            };
            let length = pci.reads[at].length;
            if bytes.len() != length {
                return Err(Error::Spec {
                    guest: self.name.clone(),
                    reason: format!("{} bytes answer a read of {length}", bytes.len()),
                });
            }
            let chain = pci.reads.swap_remove(at).chain;
            let memory = self
                .memory
                .as_ref()
                .expect("a chain comes out of the memory");
            let given = device.port.rings[pci::COMMANDS].give(memory, &chain, bytes);
            return given.map_err(|reason| self.protocol(reason));
        }
        Err(self.missing("read with the tag", tag))
    }

    /// Raises an interrupt vector of a PCI device at `now`, with the data that the guest programmed. While the vector is
    /// masked it is pending, as in hardware.
    pub fn interrupt(&mut self, now: u64, device: usize, vector: u8) -> Result<(), Error> {
        self.arrive(now)?;
        let Kind::Pci(pci) = &mut self.device(device)?.kind else {
            return Err(self.missing("PCI device", device as u64));
        };
        if !pci.raise(vector) {
            return Err(self.missing("interrupt vector", u64::from(vector)));
        }
        if self.exited.is_some() {
            return Ok(());
        }
        let told = self.deliver(device);
        Guest::or_exited(told)
    }

    /// The vector that a device's memory write is, if it is one; then [`Guest::interrupt`] is how to deliver it.
    pub fn msi_vector(&self, device: usize, address: u64, data: u32) -> Option<u8> {
        match &self.devices.get(device)?.kind {
            Kind::Pci(pci) => pci.vector(address, data),
            Kind::Network | Kind::Linked(_) => None,
        }
    }

    /// Reads guest memory at a physical address, as a device's DMA does.
    pub fn read_memory(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        match self
            .memory
            .as_ref()
            .is_some_and(|memory| memory.read(address, bytes))
        {
            true => Ok(()),
            false => Err(self.outside(address, bytes.len())),
        }
    }

    /// Writes guest memory at a physical address, as a device's DMA does.
    pub fn write_memory(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        match self
            .memory
            .as_ref()
            .is_some_and(|memory| memory.write(address, bytes))
        {
            true => Ok(()),
            false => Err(self.outside(address, bytes.len())),
        }
    }

    /// The last lines of its console, for messages.
    pub fn console_tail(&self) -> String {
        self.process.tail()
    }

    /// Something reaches the guest at `now`: it must wait, and must not have been due before.
    fn arrive(&mut self, now: u64) -> Result<(), Error> {
        if self.exited.is_some() {
            return Ok(());
        }
        if now < self.now.max(self.limit) {
            return Err(self.order(
                now,
                format!(
                    "was told that nothing would reach it before {} ns (free_until, lookahead)",
                    self.limit
                ),
            ));
        }
        if now > self.request {
            return Err(self.order(
                now,
                format!("wants to run at {} ns before that", self.request),
            ));
        }
        self.now = now;
        Ok(())
    }

    /// A guest that ends while something is delivered to it has ended, and that is no error of the delivery:
    /// [`Guest::next`] says it.
    fn or_exited(result: Result<(), Error>) -> Result<(), Error> {
        match result {
            Err(Error::Exited { .. }) => Ok(()),
            other => other,
        }
    }

    fn device(&mut self, device: usize) -> Result<&mut Device, Error> {
        match self.devices.get_mut(device) {
            Some(device) => Ok(device),
            None => Err(Error::Missing {
                guest: self.name.clone(),
                what: "device",
                number: device as u64,
            }),
        }
    }

    // What is said to the guest -----------------------------------------------------------------------------------------

    fn say(&mut self, operation: Operation, time: u64) {
        self.link.say(operation, time);
        self.unanswered += 1;
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.link
            .flush()
            .map_err(|source| self.system("answer its calendar", source))
    }

    // Errors ------------------------------------------------------------------------------------------------------------

    fn protocol(&self, reason: String) -> Error {
        protocol(&self.name, self.now, reason)
    }

    fn order(&self, now: u64, reason: String) -> Error {
        Error::Order {
            guest: self.name.clone(),
            ns: self.now,
            now,
            reason,
        }
    }

    fn missing(&self, what: &'static str, number: u64) -> Error {
        Error::Missing {
            guest: self.name.clone(),
            what,
            number,
        }
    }

    fn system(&self, what: &str, source: std::io::Error) -> Error {
        Error::System {
            guest: self.name.clone(),
            what: what.into(),
            source,
        }
    }

    fn outside(&self, address: u64, bytes: usize) -> Error {
        let remedy = match self.memory {
            Some(_) => "the driver must give an address from the DMA interface of its kernel",
            None => "no device of it has been set up yet",
        };
        Error::Memory {
            guest: self.name.clone(),
            address,
            bytes,
            remedy,
        }
    }
}

fn protocol(name: &str, ns: u64, reason: String) -> Error {
    Error::Protocol {
        guest: name.into(),
        ns,
        reason,
    }
}

fn silent(name: &str, ns: u64, patience: Duration, process: &Process) -> Error {
    Error::Silent {
        guest: name.into(),
        ns,
        seconds: patience.as_secs(),
        console: process.console(),
    }
}

fn stillborn(name: &str, process: &mut Process) -> Result<Error, Error> {
    let status = process.status()?;
    Ok(Error::Stillborn {
        guest: name.into(),
        status,
        console: process.console(),
        tail: process.tail(),
    })
}

/// Waits until one of the sockets is readable or closed: the index of the first; none after `patience`.
fn wait(sockets: &[BorrowedFd<'_>], patience: Duration) -> std::io::Result<Option<usize>> {
    let timeout = Timespec::try_from(patience).map_err(std::io::Error::other)?;
    let mut polled: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|socket| PollFd::from_borrowed_fd(*socket, PollFlags::IN))
        .collect();
    rustix::io::retry_on_intr(|| poll(&mut polled, Some(&timeout)))?;
    Ok(polled
        .iter()
        .position(|socket| !socket.revents().is_empty()))
}
