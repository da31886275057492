// SPDX-License-Identifier: Apache-2.0
//! The rack itself: components, cables, and the loop that runs the calendar.

use std::path::{Path, PathBuf};

use crate::calendar::{Calendar, ComponentId, Event, Message, Outbox};
use crate::error::Error;
use crate::host::Host;
use crate::model::NicModel;
use crate::nic::{Attachment, Effort, NicPort, NicSetup};
use crate::pcie::Lanes;
use crate::platform::HostTiming;
use crate::record::Recorder;
use crate::time::Picoseconds;

/// Simulated time without a message after which a run counts as stuck, if the NICs never sleep.
const STUCK: Picoseconds = Picoseconds::from_us(20_000);

enum Component {
    Host(Box<Host>),
    Nic(Box<NicPort>),
}

/// Hosts and NICs on one calendar. Component 2k is host k, component 2k+1 its NIC.
pub struct Rack {
    components: Vec<Component>,
    calendar: Calendar,
    outbox: Outbox,
    now: Picoseconds,
    last_message: Picoseconds,
    skip_idle: bool,
    /// What was seen.
    pub record: Recorder,
}

/// A host and its NIC, to be put into a rack.
pub struct HostSetup {
    /// Name.
    pub name: String,
    /// Constants of the host.
    pub timing: HostTiming,
    /// The NIC's hardware.
    pub model: Box<dyn NicModel>,
    /// Phases of the PCIe clock and the network clock.
    pub phases: (Picoseconds, Picoseconds),
}

impl Rack {
    /// An empty rack; `skip_idle` lets idle NICs sleep.
    pub fn new(skip_idle: bool) -> Self {
        Self {
            components: Vec::new(),
            calendar: Calendar::default(),
            outbox: Outbox::default(),
            now: Picoseconds::ZERO,
            last_message: Picoseconds::ZERO,
            skip_idle,
            record: Recorder::default(),
        }
    }

    /// Adds a host with its NIC; returns the host's number.
    pub fn add_host(&mut self, setup: HostSetup) -> Result<usize, Error> {
        let number = self.components.len() / 2;
        let (host, nic) = Self::ids(number);
        let timing = setup.timing;
        self.components.push(Component::Host(Box::new(Host::new(
            host, setup.name, nic, timing,
        ))));
        let port = NicPort::new(NicSetup {
            id: nic,
            host,
            model: setup.model,
            phases: setup.phases,
            up: Lanes::new(timing.link, timing.up),
            skip_idle: self.skip_idle,
            // Bus 1, device 0, function 0, as behind a root port.
            completer_id: 0x0100,
        })?;
        self.components.push(Component::Nic(Box::new(port)));
        Ok(number)
    }

    /// Components of a host: itself and its NIC.
    pub const fn ids(number: usize) -> (ComponentId, ComponentId) {
        (
            ComponentId(2 * number as u32),
            ComponentId(2 * number as u32 + 1),
        )
    }

    /// Name of the host that a component belongs to.
    pub fn host_name(&self, component: ComponentId) -> &str {
        match &self.components[component.0 as usize & !1] {
            Component::Host(host) => &host.name,
            Component::Nic(_) => unreachable!("even components are hosts"),
        }
    }

    /// A host.
    pub fn host(&mut self, number: usize) -> &mut Host {
        match &mut self.components[2 * number] {
            Component::Host(host) => host,
            Component::Nic(_) => unreachable!("even components are hosts"),
        }
    }

    /// A NIC.
    pub fn nic(&mut self, number: usize) -> &mut NicPort {
        match &mut self.components[2 * number + 1] {
            Component::Nic(nic) => nic,
            Component::Host(_) => unreachable!("odd components are NICs"),
        }
    }

    /// Joins the NICs of two hosts.
    pub fn cable(&mut self, one: usize, two: usize, delay: Picoseconds) {
        for (from, to) in [(one, two), (two, one)] {
            let peer = Self::ids(to).1;
            self.nic(from).attach(Attachment { peer, delay });
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Picoseconds {
        self.now
    }

    /// What was simulated, over all NICs.
    pub fn effort(&self) -> Effort {
        let mut sum = Effort::default();
        for component in &self.components {
            if let Component::Nic(nic) = component {
                sum.edges += nic.effort.edges;
                sum.sleeps += nic.effort.sleeps;
            }
        }
        sum
    }

    /// Begins waves of all NICs, one file each: `waves.fst` becomes `waves.HOST.fst`.
    pub fn trace(&mut self, path: &Path) -> Result<(), Error> {
        for number in 0..self.components.len() / 2 {
            let file = wave_file(path, self.host_name(Self::ids(number).0));
            self.nic(number).model().trace(&file)?;
        }
        Ok(())
    }

    /// Ends the waves.
    pub fn trace_close(&mut self) {
        for number in 0..self.components.len() / 2 {
            self.nic(number).model().trace_close();
        }
    }

    /// Starts all programs.
    pub fn start(&mut self) {
        for index in 0..self.components.len() {
            match &mut self.components[index] {
                Component::Host(host) => host.start(self.now, &mut self.outbox),
                Component::Nic(nic) => nic.start(self.now, &mut self.outbox),
            }
            self.calendar
                .post(self.now, ComponentId(index as u32), &mut self.outbox);
        }
    }

    /// Runs until all programs are done.
    pub fn run(&mut self) -> Result<(), Error> {
        self.run_until(|_| false)
    }

    /// Runs until all programs are done or `stop` says so.
    pub fn run_until(&mut self, mut stop: impl FnMut(&Self) -> bool) -> Result<(), Error> {
        while !self.is_done() && !stop(self) {
            let stuck = self.calendar.only_edges() && self.now - self.last_message > STUCK;
            match self.calendar.take() {
                Some(event) if !stuck => self.dispatch(event)?,
                _ => return Err(self.stuck()),
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.components.iter().all(|component| match component {
            Component::Host(host) => host.is_done(),
            Component::Nic(_) => true,
        })
    }

    fn stuck(&self) -> Error {
        let waiting: Vec<_> = self
            .components
            .iter()
            .filter_map(|component| match component {
                Component::Host(host) => host.describe(),
                Component::Nic(_) => None,
            })
            .collect();
        Error::Stuck {
            time: self.last_message,
            waiting: waiting.join(" and "),
        }
    }

    fn dispatch(&mut self, event: Event) -> Result<(), Error> {
        self.now = event.time;
        if !matches!(event.message, Message::Edge) {
            self.last_message = self.now;
        }
        let out = &mut self.outbox;
        match &mut self.components[event.to.0 as usize] {
            Component::Host(host) => {
                host.receive(self.now, event.message, out, &mut self.record)?
            }
            Component::Nic(nic) => match event.message {
                Message::Edge => nic.edge(self.now, out, &mut self.record)?,
                message => nic.receive(self.now, message, out),
            },
        }
        self.calendar.post(self.now, event.to, out);
        Ok(())
    }
}

/// The waves of one host's NIC: `waves.fst` becomes `waves.HOST.fst`.
pub fn wave_file(path: &Path, host: &str) -> PathBuf {
    path.with_extension(format!("{host}.fst"))
}
