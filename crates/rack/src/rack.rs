// SPDX-License-Identifier: Apache-2.0
//! The rack itself: components, cables, and the loop that runs the calendar.

use std::path::{Path, PathBuf};

use crate::calendar::{Calendar, ComponentId, Event, Message, Outbox};
use crate::error::Error;
use crate::faults::{FaultCounts, Faults, FaultyCable};
use crate::host::Host;
use crate::model::NicModel;
use crate::nic::{Attachment, Effort, NicPort, NicSetup};
use crate::pcie::Lanes;
use crate::platform::HostTiming;
use crate::record::Recorder;
use crate::switch::{Node, SwitchNode, SwitchSetup};
use crate::time::Picoseconds;
use crate::topology::End;

use ipnuma_rtl::NetSpeed;

/// Simulated time without a message after which a run counts as stuck, if the NICs never sleep.
const STUCK: Picoseconds = Picoseconds::from_us(20_000);

enum Component {
    Host(Box<Host>),
    Nic(Box<NicPort>),
    Switch(Box<dyn Node>),
    Cable(Box<FaultyCable>),
}

/// Hosts, NICs and switches on one calendar. Component 2k is host k, component 2k+1 its NIC; the switches follow, and
/// then the cables with faults, one for each direction.
pub struct Rack {
    components: Vec<Component>,
    hosts: usize,
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
            hosts: 0,
            calendar: Calendar::default(),
            outbox: Outbox::default(),
            now: Picoseconds::ZERO,
            last_message: Picoseconds::ZERO,
            skip_idle,
            record: Recorder::default(),
        }
    }

    /// Adds a host with its NIC; returns the host's number. Hosts come before switches.
    pub fn add_host(&mut self, setup: HostSetup) -> Result<usize, Error> {
        let number = self.hosts;
        assert_eq!(
            self.components.len(),
            2 * number,
            "hosts come before switches"
        );
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
        self.hosts += 1;
        Ok(number)
    }

    /// Adds a switch; returns its number.
    pub fn add_switch<const N: usize>(&mut self, setup: SwitchSetup<N>) -> Result<usize, Error> {
        let number = self.components.len() - 2 * self.hosts;
        let node = SwitchNode::new(self.switch_id(number), setup, self.skip_idle)?;
        self.components.push(Component::Switch(Box::new(node)));
        Ok(number)
    }

    /// Components of a host: itself and its NIC.
    pub const fn ids(number: usize) -> (ComponentId, ComponentId) {
        (
            ComponentId(2 * number as u32),
            ComponentId(2 * number as u32 + 1),
        )
    }

    /// Component of a switch, when all hosts are there.
    pub const fn switch_id(&self, number: usize) -> ComponentId {
        ComponentId((2 * self.hosts + number) as u32)
    }

    /// A host.
    pub fn host(&mut self, number: usize) -> &mut Host {
        match &mut self.components[2 * number] {
            Component::Host(host) => host,
            _ => unreachable!("even components before the switches are hosts"),
        }
    }

    /// A NIC.
    pub fn nic(&mut self, number: usize) -> &mut NicPort {
        match &mut self.components[2 * number + 1] {
            Component::Nic(nic) => nic,
            _ => unreachable!("odd components before the switches are NICs"),
        }
    }

    /// A switch.
    pub fn switch(&mut self, number: usize) -> &mut dyn Node {
        let index = 2 * self.hosts + number;
        match &mut self.components[index] {
            Component::Switch(switch) => switch.as_mut(),
            _ => unreachable!("switches are behind the hosts"),
        }
    }

    /// Joins two ends; the delays are from the first to the second and back.
    pub fn cable(&mut self, ends: [End; 2], delays: [Picoseconds; 2]) {
        let [one, two] = ends;
        for (from, to, delay) in [(one, two, delays[0]), (two, one, delays[1])] {
            let attachment = self.attachment(to, delay);
            self.attach(from, attachment);
        }
    }

    /// Joins two ends by a cable with faults; `seeds` are those of its directions. No switch may be added behind it.
    pub fn faulty_cable(
        &mut self,
        ends: [End; 2],
        delays: [Picoseconds; 2],
        speed: NetSpeed,
        faults: Faults,
        seeds: [u64; 2],
    ) {
        // To the cable, which has the rest; no message comes without taking time.
        const STEP: Picoseconds = Picoseconds(1);
        let [one, two] = ends;
        for ((from, to, delay), seed) in [(one, two, delays[0]), (two, one, delays[1])]
            .into_iter()
            .zip(seeds)
        {
            let rest = delay.saturating_sub(STEP).max(STEP);
            let far = self.attachment(to, rest);
            let id = ComponentId(self.components.len() as u32);
            let cable = FaultyCable::new(id, far, speed, faults, seed);
            self.components.push(Component::Cable(Box::new(cable)));
            let near = Attachment {
                peer: id,
                port: 0,
                delay: STEP,
            };
            self.attach(from, near);
        }
    }

    fn attachment(&self, to: End, delay: Picoseconds) -> Attachment {
        let (peer, port) = match to {
            End::Host(host) => (Self::ids(host).1, 0),
            End::Switch(switch, port) => (self.switch_id(switch), port),
        };
        Attachment { peer, port, delay }
    }

    fn attach(&mut self, from: End, attachment: Attachment) {
        match from {
            End::Host(host) => self.nic(host).attach(attachment),
            End::Switch(switch, port) => self.switch(switch).attach(port, attachment),
        }
    }

    /// What happened on all cables with faults.
    pub fn faults(&self) -> FaultCounts {
        let mut sum = FaultCounts::default();
        for component in &self.components {
            if let Component::Cable(cable) = component {
                sum.add(cable.counts);
            }
        }
        sum
    }

    /// Simulated time.
    pub fn now(&self) -> Picoseconds {
        self.now
    }

    /// What was simulated, over all NICs and switches.
    pub fn effort(&self) -> Effort {
        let mut sum = Effort::default();
        for component in &self.components {
            let effort = match component {
                Component::Host(_) | Component::Cable(_) => continue,
                Component::Nic(nic) => nic.effort,
                Component::Switch(switch) => switch.effort(),
            };
            sum.edges += effort.edges;
            sum.sleeps += effort.sleeps;
        }
        sum
    }

    /// Begins waves of all NICs and switches, one file each, see [`wave_file`].
    pub fn trace(&mut self, path: &Path) -> Result<(), Error> {
        let mut name = String::new();
        for component in &mut self.components {
            match component {
                // Its NIC is next.
                Component::Host(host) => name.clone_from(&host.name),
                Component::Nic(nic) => nic.model().trace(&wave_file(path, &name))?,
                Component::Switch(switch) => {
                    let file = wave_file(path, switch.name());
                    switch.trace(&file)?;
                }
                Component::Cable(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the waves.
    pub fn trace_close(&mut self) {
        for component in &mut self.components {
            match component {
                Component::Host(_) | Component::Cable(_) => {}
                Component::Nic(nic) => nic.model().trace_close(),
                Component::Switch(switch) => switch.trace_close(),
            }
        }
    }

    /// Starts all programs.
    pub fn start(&mut self) {
        for index in 0..self.components.len() {
            match &mut self.components[index] {
                Component::Host(host) => host.start(self.now, &mut self.outbox),
                Component::Nic(nic) => nic.start(self.now, &mut self.outbox),
                Component::Switch(switch) => switch.start(self.now, &mut self.outbox),
                Component::Cable(_) => {}
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
            let stuck = self.calendar.is_idle()
                || self.calendar.only_edges() && self.now - self.last_message > STUCK;
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
            Component::Nic(_) | Component::Switch(_) | Component::Cable(_) => true,
        })
    }

    fn stuck(&self) -> Error {
        let waiting: Vec<_> = self
            .components
            .iter()
            .filter_map(|component| match component {
                Component::Host(host) => host.describe(),
                Component::Nic(_) | Component::Switch(_) | Component::Cable(_) => None,
            })
            .collect();
        Error::Stuck {
            time: self.last_message,
            waiting: waiting.join(" and "),
        }
    }

    fn dispatch(&mut self, event: Event) -> Result<(), Error> {
        self.now = event.time;
        if !matches!(event.message, Message::Edge | Message::Tick) {
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
            Component::Switch(switch) => match event.message {
                Message::Edge => switch.edge(self.now, out, &mut self.record)?,
                Message::Tick => switch.tick(self.now, out),
                message => switch.receive(self.now, message, out),
            },
            Component::Cable(cable) => {
                cable.receive(self.now, event.message, out, &mut self.record);
            }
        }
        self.calendar.post(self.now, event.to, out);
        Ok(())
    }
}

/// The waves of one host's NIC, or of a switch: `waves.fst` becomes `waves.NAME.fst`.
pub fn wave_file(path: &Path, name: &str) -> PathBuf {
    path.with_extension(format!("{name}.fst"))
}
