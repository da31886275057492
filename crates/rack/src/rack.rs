// SPDX-License-Identifier: Apache-2.0
//! The rack itself: components, cables, and the loop that runs the calendar.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::calendar::{Calendar, ComponentId, Event, Message, Outbox};
use crate::cpu::Cpu;
use crate::engine::{EnginePort, EngineReport, EngineSetup};
use crate::error::Error;
use crate::faults::{Cut, FaultCounts, Faults, FaultyCable};
use crate::guest::{Behind, GuestNode, GuestNodeSetup, GuestPort};
use crate::host::Host;
use crate::model::NicModel;
use crate::nic::{Attachment, Effort, NicPort, NicSetup};
use crate::pcie::Lanes;
use crate::platform::HostTiming;
use crate::record::Recorder;
use crate::switch::{Node, SwitchNode, SwitchSetup};
use crate::time::Picoseconds;
use crate::topology::End;
use crate::wire_nic::WireNic;

use ipnuma_rtl::NetSpeed;

/// Simulated time without a message after which a run counts as stuck, if the NICs never sleep.
const STUCK: Picoseconds = Picoseconds::from_us(20_000);

enum Component {
    Host(Box<Host>),
    Guest(Box<GuestNode>),
    Nic(Box<NicPort>),
    /// The CPU of a host whose programs are in its engine, or that is a card of a guest.
    Absent,
    Engine(Box<EnginePort>),
    Wire(Box<WireNic>),
    Switch(Box<dyn Node>),
    Cable(Box<FaultyCable>),
}

/// Events between two whose wall-clock time is taken.
const SAMPLING: u64 = 16;

/// Where the wall-clock time of a run goes, estimated from one event in `SAMPLING`; that of guests is taken whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile {
    events: u64,
    /// What taking the time takes.
    clock: Duration,
    /// Guests: their own processes, and what passes between them and the rack.
    pub guests: Duration,
    /// NICs in RTL.
    pub nics: Duration,
    /// Switches, in RTL or not.
    pub switches: Duration,
    /// Cables, cards without RTL, and hosts that are programs of the rack.
    pub others: Duration,
}

impl Profile {
    fn new() -> Self {
        let clock = (0..64).map(|_| Instant::now().elapsed()).min();
        Self {
            clock: clock.unwrap_or_default(),
            ..Self::default()
        }
    }

    fn since(&self, began: Instant) -> Duration {
        began.elapsed().saturating_sub(self.clock)
    }

    fn begin(&mut self) -> Option<Instant> {
        self.events += 1;
        self.events.is_multiple_of(SAMPLING).then(Instant::now)
    }
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
    /// Where the time goes.
    pub profile: Profile,
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

/// The NIC of a guest.
pub enum GuestNic {
    /// Frames to the cable, without RTL: line rate, and phase of its clock.
    Wire(NetSpeed, Picoseconds),
    /// Behind PCI Express: hardware, and phases of the PCIe clock and the network clock.
    Pci(Box<dyn NicModel>, (Picoseconds, Picoseconds)),
}

/// A guest and its NIC, to be put into a rack.
pub struct GuestSetup {
    /// Name.
    pub name: String,
    /// Constants of the host.
    pub timing: HostTiming,
    /// How many guests the rack will have.
    pub hosts: usize,
    /// What its code costs.
    pub cpu: Cpu,
    /// The PCI device whose interrupts cost [`Cpu::interrupt_ns`].
    pub interrupts: usize,
    /// The guest, started.
    pub port: Box<dyn GuestPort>,
    /// Its NIC; one that is the host of a switch has a card without a cable.
    pub nic: GuestNic,
    /// The switch that it is the host of.
    pub behind: Option<Behind>,
    /// Numbers of the hosts that are further cards of it, see [`Rack::add_card`].
    pub cards: Vec<usize>,
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
            profile: Profile::new(),
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
        self.add_nic((host, nic), timing, setup.model, setup.phases)?;
        self.hosts += 1;
        Ok(number)
    }

    fn add_nic(
        &mut self,
        (host, nic): (ComponentId, ComponentId),
        timing: HostTiming,
        model: Box<dyn NicModel>,
        phases: (Picoseconds, Picoseconds),
    ) -> Result<(), Error> {
        let port = NicPort::new(NicSetup {
            id: nic,
            host,
            model,
            phases,
            up: Lanes::new(timing.link, timing.up),
            skip_idle: self.skip_idle,
            // Bus 1, device 0, function 0, as behind a root port.
            completer_id: 0x0100,
        })?;
        self.components.push(Component::Nic(Box::new(port)));
        Ok(())
    }

    /// Adds a guest with its NIC as the next host; returns the host's number.
    pub fn add_guest(&mut self, setup: GuestSetup) -> Result<usize, Error> {
        let number = self.hosts;
        assert_eq!(
            self.components.len(),
            2 * number,
            "hosts come before switches"
        );
        let (host, nic) = Self::ids(number);
        let timing = setup.timing;
        let virtio = matches!(setup.nic, GuestNic::Wire(..));
        let guest = GuestNode::new(GuestNodeSetup {
            id: host,
            name: setup.name,
            nic,
            timing,
            // The driver of a virtio card is the kernel's own and charges nothing.
            hosts: setup.hosts,
            charge: virtio.then_some((setup.cpu.kernel_send_ns, setup.cpu.kernel_receive_ns)),
            interrupt: setup.cpu.interrupt_ns.map(|ns| (setup.interrupts, ns)),
            port: setup.port,
            behind: setup.behind,
            cards: setup.cards.iter().map(|card| Self::ids(*card).1).collect(),
        });
        self.components.push(Component::Guest(Box::new(guest)));
        self.calendar.watch(host);
        match setup.nic {
            GuestNic::Wire(speed, phase) => {
                let card = WireNic::new(nic, host, speed, phase, timing.up);
                self.components.push(Component::Wire(Box::new(card)));
            }
            GuestNic::Pci(model, phases) => self.add_nic((host, nic), timing, model, phases)?,
        }
        self.hosts += 1;
        Ok(number)
    }

    /// Adds a further card of guest number `guest` as the next host; returns the host's number.
    pub fn add_card(
        &mut self,
        guest: usize,
        timing: HostTiming,
        model: Box<dyn NicModel>,
        phases: (Picoseconds, Picoseconds),
    ) -> Result<usize, Error> {
        let number = self.hosts;
        assert_eq!(
            self.components.len(),
            2 * number,
            "hosts come before switches"
        );
        self.components.push(Component::Absent);
        let ids = (Self::ids(guest).0, Self::ids(number).1);
        self.add_nic(ids, timing, model, phases)?;
        self.hosts += 1;
        Ok(number)
    }

    /// Adds a host with a TCP offload engine as the next one; returns the host's number.
    pub fn add_engine(&mut self, setup: EngineSetup) -> Result<usize, Error> {
        let number = self.hosts;
        assert_eq!(
            self.components.len(),
            2 * number,
            "hosts come before switches"
        );
        assert_eq!(setup.id, Self::ids(number).1, "it is the host's NIC");
        self.components.push(Component::Absent);
        let engine = EnginePort::new(setup)?;
        self.components.push(Component::Engine(Box::new(engine)));
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
            _ => unreachable!("host {number} has a program of the rack, and is no guest"),
        }
    }

    /// A guest.
    pub fn guest(&mut self, number: usize) -> &mut GuestNode {
        match &mut self.components[2 * number] {
            Component::Guest(guest) => guest,
            _ => unreachable!("host {number} is a guest"),
        }
    }

    /// Whether a guest has ended.
    pub fn guest_ended(&self, number: usize) -> bool {
        match &self.components[2 * number] {
            Component::Guest(guest) => guest.is_done(),
            _ => false,
        }
    }

    /// A guest's network card without RTL, if it has one.
    pub fn wire_nic(&self, number: usize) -> Option<&WireNic> {
        match &self.components[2 * number + 1] {
            Component::Wire(card) => Some(card),
            _ => None,
        }
    }

    /// What came out of all engines.
    pub fn engines(&self) -> Vec<EngineReport> {
        let reports = self
            .components
            .iter()
            .filter_map(|component| match component {
                Component::Engine(engine) => Some(engine.report()),
                _ => None,
            });
        reports.collect()
    }

    /// A NIC.
    pub fn nic(&mut self, number: usize) -> &mut NicPort {
        match &mut self.components[2 * number + 1] {
            Component::Nic(nic) => nic,
            _ => unreachable!("host {number} has a NIC with hardware"),
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
        (faults, cut): (Faults, Option<Cut>),
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
            let mut cable = FaultyCable::new(id, far, speed, faults, seed);
            // The NIC of a host has nobody to tell it to.
            let told = matches!(to, End::Switch(..));
            cable.cut(cut.map(|cut| Cut {
                carrier_us: cut.carrier_us.filter(|_| told),
                ..cut
            }));
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
            End::Host(host) => match &mut self.components[2 * host + 1] {
                Component::Nic(nic) => nic.attach(attachment),
                Component::Wire(card) => card.attach(attachment),
                Component::Engine(engine) => engine.attach(attachment),
                _ => unreachable!("odd components before the switches are NICs"),
            },
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
                Component::Host(_)
                | Component::Guest(_)
                | Component::Absent
                | Component::Wire(_)
                | Component::Cable(_) => continue,
                Component::Nic(nic) => nic.effort,
                Component::Engine(engine) => engine.effort,
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
                Component::Guest(guest) => name.clone_from(&guest.name),
                Component::Nic(nic) => nic.model().trace(&wave_file(path, &name))?,
                Component::Switch(switch) => {
                    let file = wave_file(path, switch.name());
                    switch.trace(&file)?;
                }
                // The build of the engine has no waves.
                Component::Absent
                | Component::Engine(_)
                | Component::Wire(_)
                | Component::Cable(_) => {}
            }
        }
        Ok(())
    }

    /// Ends the waves.
    pub fn trace_close(&mut self) {
        for component in &mut self.components {
            match component {
                Component::Host(_)
                | Component::Guest(_)
                | Component::Absent
                | Component::Engine(_)
                | Component::Wire(_)
                | Component::Cable(_) => {}
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
                Component::Guest(guest) => guest.start(self.now, &mut self.outbox),
                Component::Nic(nic) => nic.start(self.now, &mut self.outbox),
                Component::Switch(switch) => switch.start(self.now, &mut self.outbox),
                Component::Cable(cable) => cable.start(&mut self.outbox),
                Component::Engine(engine) => engine.start(self.now, &mut self.outbox),
                Component::Absent | Component::Wire(_) => {}
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
            Component::Guest(guest) => guest.is_done(),
            _ => true,
        })
    }

    fn stuck(&self) -> Error {
        let waiting: Vec<_> = self
            .components
            .iter()
            .filter_map(|component| match component {
                Component::Host(host) => host.describe(),
                Component::Guest(guest) => guest.describe(),
                _ => None,
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
        let mut sample = self.profile.begin();
        let mut spent: fn(&mut Profile) -> &mut Duration = |profile| &mut profile.others;
        match &mut self.components[event.to.0 as usize] {
            Component::Host(host) => {
                host.receive(self.now, event.message, out, &mut self.record)?
            }
            Component::Guest(guest) => {
                sample = None;
                let began = Instant::now();
                let message = (event.from, event.message);
                guest.receive(self.now, message, out, &mut self.record)?;
                // What it has just sent itself counts for how far it may run.
                self.calendar.post(self.now, event.to, out);
                if guest.wants_to_run(self.now) {
                    let horizon = self.calendar.horizon(event.to, guest.least_delay());
                    guest.run(self.now, horizon, out, &mut self.record)?;
                }
                guest.settle(self.now, out);
                self.profile.guests += began.elapsed();
            }
            Component::Nic(nic) => {
                spent = |profile| &mut profile.nics;
                match event.message {
                    Message::Edge => nic.edge(self.now, out, &mut self.record)?,
                    message => nic.receive(self.now, message, out),
                }
            }
            Component::Absent => unreachable!("nobody sends to a CPU that is not there"),
            Component::Engine(engine) => {
                spent = |profile| &mut profile.nics;
                match event.message {
                    Message::Edge => engine.edge(self.now, out, &mut self.record)?,
                    message => engine.receive(self.now, message, out),
                }
            }
            Component::Switch(switch) => {
                spent = |profile| &mut profile.switches;
                match event.message {
                    Message::Edge => switch.edge(self.now, out, &mut self.record)?,
                    Message::Tick => switch.tick(self.now, out),
                    message => switch.receive(self.now, message, out),
                }
            }
            Component::Wire(card) => card.receive(self.now, event.message, out, &mut self.record),
            Component::Cable(cable) => {
                cable.receive(self.now, event.message, out, &mut self.record);
            }
        }
        self.calendar.post(self.now, event.to, out);
        if let Some(began) = sample {
            let took = self.profile.since(began) * SAMPLING as u32;
            *spent(&mut self.profile) += took;
        }
        Ok(())
    }
}

/// The waves of one host's NIC, or of a switch: `waves.fst` becomes `waves.NAME.fst`.
pub fn wave_file(path: &Path, name: &str) -> PathBuf {
    path.with_extension(format!("{name}.fst"))
}
