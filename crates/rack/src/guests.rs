// SPDX-License-Identifier: Apache-2.0
//! A topology of guests made ready and run: whole Linux machines, their NICs and the network between them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cpu::{Cost, Cpu};
use crate::engine::EngineReport;
use crate::error::Error;
use crate::faults::FaultCounts;
use crate::guest::{GuestPort, GuestReport, POLL_CLOCK};
use crate::init;
use crate::model::Hardware;
use crate::nic::Effort;
use crate::outage::{self, Outage, Said};
use crate::passage::{Passage, Passages};
use crate::platform::Platform;
use crate::rack::{Profile, Rack};
use crate::record::{BusAccesses, Recorder};
use crate::run::{Options, SwitchReport, furnish_guests, lay_all_cables, switch_reports};
use crate::scratch::Scratch;
use crate::tables;
use crate::time::Picoseconds;
use crate::topology::{NicKind, NicSpec, ProgramSpec, Topology};
use crate::wire_nic::WireCounts;

/// Starts the guests of a topology; tests put scripts in the place of kernels.
pub trait Starter {
    /// Starts guest number `host`, whose costs are `cpu`.
    fn start(
        &mut self,
        topology: &Topology,
        host: usize,
        cpu: &Cpu,
    ) -> Result<Box<dyn GuestPort>, Error>;
}

/// What came out of a guest.
#[derive(Debug)]
pub struct GuestOutcome {
    /// Its name.
    pub name: String,
    /// Exit status of its command; none if it had not ended when the run ended.
    pub status: Option<i32>,
    /// What its command printed.
    pub stdout: Vec<u8>,
    /// What its command printed to its standard error.
    pub stderr: Vec<u8>,
    /// What its kernel printed.
    pub console: String,
    /// What its kernel said of links and routes, if it is the host of a switch.
    pub said: Vec<Said>,
    /// What it did.
    pub report: GuestReport,
    /// What passed its network card, if that is no RTL.
    pub wire: Option<WireCounts>,
    /// Accesses over its bus.
    pub accesses: BusAccesses,
    /// What its code cost.
    pub costs: Vec<Cost>,
}

/// What came out.
#[derive(Debug)]
pub struct UmlOutcome {
    /// All guests in their order.
    pub guests: Vec<GuestOutcome>,
    /// All hosts with a TCP offload engine, in their order.
    pub engines: Vec<EngineReport>,
    /// Names of all hosts by number.
    hosts: Vec<String>,
    /// All switches by number.
    pub switches: Vec<SwitchReport>,
    /// What happened on the cables.
    pub faults: FaultCounts,
    /// Everything that was seen.
    pub record: Recorder,
    /// What was simulated.
    pub effort: Effort,
    /// Simulated time of the whole run.
    pub simulated: Picoseconds,
    /// Seconds that it took, without the starting of the guests.
    pub wall_seconds: f64,
    /// Seconds that the guests ran and were spoken to.
    pub guest_seconds: f64,
    /// Seconds until all guests were started.
    pub start_seconds: f64,
    /// Where the rest of the time went, estimated.
    pub profile: Profile,
}

impl UmlOutcome {
    /// The hash of the run.
    pub fn digest(&self) -> String {
        self.record.digest()
    }

    /// The outcome of a guest.
    pub fn guest(&self, name: &str) -> Option<&GuestOutcome> {
        self.guests.iter().find(|guest| guest.name == name)
    }

    /// What happened after each cut of a cable.
    pub fn outages(&self, topology: &Topology) -> Vec<Outage> {
        let said: Vec<_> = self.guests.iter().map(|guest| guest.said.clone()).collect();
        outage::outages(topology, &self.record.timeline, &said)
    }

    /// What switches and routers took for frames, of a topology with routers.
    pub fn passages(&self) -> Vec<Passage> {
        self.record.passages.found()
    }

    /// Names of all hosts by number.
    pub fn names(&self) -> Vec<String> {
        self.hosts.clone()
    }

    /// The outcome of a host with a TCP offload engine.
    pub fn engine(&self, name: &str) -> Option<&EngineReport> {
        self.engines.iter().find(|engine| engine.name == name)
    }
}

/// PCI vendor of the project's NICs in a guest; no vendor has this number.
pub const PCI_VENDOR: u16 = 0x1F3D;
const IPNUMA_DEVICE: u16 = 0x0001;
const RING_DEVICE: u16 = 0x0002;
const UZURA_DEVICE: u16 = 0x0003;
const SWITCH_DEVICE: u16 = 0x0004;
const CLASS_OTHER: u32 = 0xFF_0000;
const CLASS_ETHERNET: u32 = 0x02_0000;
const MB: u64 = 1 << 20;
/// Bytes of BAR 2 in a guest: the kernel's limit.
pub const GUEST_BAR2_BYTES: u64 = 16 * MB;

/// Guests that are whole Linux machines.
struct Linux {
    directory: PathBuf,
}

impl Linux {
    fn of(&self, topology: &Topology, host: usize) -> PathBuf {
        self.directory.join(topology.host[host].name.as_ref())
    }
}

/// What a guest finds of a NIC in RTL: device number, class, and writes that may be posted before an interrupt.
type Function = (u16, u32, u16);
const IPNUMA: Function = (IPNUMA_DEVICE, CLASS_OTHER, 64);
/// Its driver reads a register for each packet.
const RING: Function = (RING_DEVICE, CLASS_ETHERNET, 1);
/// Its driver reads a register for each command.
const UZURA: Function = (UZURA_DEVICE, CLASS_OTHER, 1);

fn function((device, class, posted_before_interrupt): Function) -> uml::PciSpec {
    uml::PciSpec {
        vendor: PCI_VENDOR,
        device,
        subsystem: 0,
        class,
        bars: [8 * MB, 0, GUEST_BAR2_BYTES, 0, 4096, 0],
        msi_vectors: 2,
        clock: Some((4, POLL_CLOCK)),
        posted_before_interrupt,
    }
}

/// The IP-NUMA NIC's function, without BAR 4 if its driver is to do as on a board.
fn ipnuma(nic: &NicSpec) -> uml::DeviceSpec {
    let mut spec = function(IPNUMA);
    if nic.interrupts {
        spec.bars[4] = 0;
        spec.msi_vectors = 1;
        spec.clock = None;
    }
    uml::DeviceSpec::Pci(spec)
}

/// What the host of a switch finds: a network device for each of its ports, and the switch's registers.
fn switch_devices(topology: &Topology, switch: usize) -> Vec<uml::DeviceSpec> {
    let ports = tables::guest_ports(topology, switch).into_iter();
    let mut devices: Vec<_> = ports
        .map(|port| uml::DeviceSpec::NetworkWithLink {
            mac: tables::mac_bytes(tables::port_mac(switch, usize::from(port))),
        })
        .collect();
    devices.push(uml::DeviceSpec::Pci(uml::PciSpec {
        vendor: PCI_VENDOR,
        device: SWITCH_DEVICE,
        subsystem: 0,
        class: CLASS_OTHER,
        bars: [fib::device::BAR_BYTES, 0, 0, 0, 0, 0],
        msi_vectors: 0,
        clock: None,
        posted_before_interrupt: 64,
    }));
    devices
}

/// The NIC, each of its functions a device of its own, and beside an IP-NUMA NIC an ordinary card.
fn devices(topology: &Topology, host: usize) -> Vec<uml::DeviceSpec> {
    let card = |mac| uml::DeviceSpec::Network {
        mac: tables::mac_bytes(mac),
    };
    let nic = &topology.host[host].nic;
    let other = |which| uml::DeviceSpec::Pci(function(which));
    match nic.kind {
        NicKind::HostPort => topology
            .switch_of(host)
            .map_or_else(Vec::new, |switch| switch_devices(topology, switch)),
        NicKind::Virtio => vec![card(tables::host_mac(host))],
        NicKind::Ipnuma => vec![ipnuma(nic), card(tables::management_mac(host))],
        NicKind::Ring => vec![other(RING); 1 + topology.cards(host).len()],
        // In the order of their numbers.
        NicKind::Shared => vec![other(RING), ipnuma(nic)],
        NicKind::Uzura => vec![other(RING), other(UZURA)],
        NicKind::Toe => unreachable!("no guest has a TCP offload engine"),
    }
}

impl Starter for Linux {
    fn start(
        &mut self,
        topology: &Topology,
        host: usize,
        cpu: &Cpu,
    ) -> Result<Box<dyn GuestPort>, Error> {
        let config = |error: uml::Error| Error::Config(error.to_string());
        let spec = &topology.host[host];
        let directory = self.of(topology, host);
        let verbs = init::has_verbs(spec);
        let kernel = if verbs {
            uml::rdma_kernel()
        } else {
            uml::kernel()
        };
        let kernel = kernel.map_err(config)?;
        init::prepare(topology, host, cpu, &directory, kernel.parent())?;
        let guest = uml::Guest::start(uml::GuestSpec {
            name: spec.name.as_ref().clone(),
            kernel,
            memory_mb: spec.memory_mb,
            init: directory.join(init::INIT),
            directory,
            parameters: Vec::new(),
            devices: devices(topology, host),
            // perftest times with it. Runs of other guests are locked to the nanosecond.
            counter: verbs,
            // Random numbers of guests differ with the seed of the topology, and among them.
            id: topology.seed << 8 | (host as u64 + 1),
        });
        Ok(Box::new(guest.map_err(config)?))
    }
}

/// Runs the guests of a topology, as Linux.
pub fn run_uml(
    topology: &Topology,
    options: &Options,
    hardware: &dyn Hardware,
) -> Result<UmlOutcome, Error> {
    // Guests and rack take turns all the time; on one processor a turn is several times shorter.
    let _one = uml::OneCpu::here().map_err(|error| {
        Error::Config(format!("cannot keep the guests on one processor: {error}"))
    })?;
    let scratch = Scratch::new(options.directory.as_deref())?;
    let mut linux = Linux {
        directory: scratch.path.clone(),
    };
    let mut outcome = match run_with(topology, options, hardware, &mut linux) {
        Ok(outcome) => outcome,
        Err(error) => {
            // What the sentence sends its reader to stays: a console.
            if error.to_string().contains(&*scratch.path.to_string_lossy()) {
                scratch.keep();
            }
            return Err(error);
        }
    };
    for guest in &mut outcome.guests {
        read_results(&linux.directory.join(&guest.name), guest)?;
    }
    Ok(outcome)
}

/// What a guest left in its directory.
fn read_results(directory: &Path, guest: &mut GuestOutcome) -> Result<(), Error> {
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap_or_default();
    guest.stdout = read(init::STDOUT);
    guest.stderr = read(init::STDERR);
    guest.said = outage::parse(&String::from_utf8_lossy(&read(init::KERNEL_LOG)));
    guest.console = String::from_utf8_lossy(&read("console.log")).into_owned();
    let ended = guest.status.is_some();
    guest.status = String::from_utf8_lossy(&read(init::STATUS))
        .trim()
        .parse()
        .ok();
    if ended && guest.status.is_none() {
        let lines: Vec<_> = guest.console.lines().collect();
        let last = lines[lines.len().saturating_sub(15)..].join("\n");
        return Err(Error::Config(format!(
            "guest {} ended before its command did; the end of its console:\n{last}",
            guest.name
        )));
    }
    Ok(())
}

/// Runs the guests of a topology, started by `starter`.
pub fn run_with(
    topology: &Topology,
    options: &Options,
    hardware: &dyn Hardware,
    starter: &mut dyn Starter,
) -> Result<UmlOutcome, Error> {
    let ProgramSpec::Uml { until, limit_s } = topology.program.as_ref() else {
        return Err(Error::Config(
            "program.kind: this is no topology of guests; run it with ipnuma pingpong or stream"
                .to_owned(),
        ));
    };
    let platform = Platform::load(&topology.platform)?;
    let began = Instant::now();
    let mut rack = Rack::new(options.skip_idle);
    rack.record.keep = options.keep;
    // A guest's stores have no single reader whose poll would end their way.
    rack.record.tracing = false;
    rack.record.measuring = true;
    let cpus = furnish_guests(&mut rack, topology, &platform, options, hardware, starter)?;
    lay_all_cables(&mut rack, topology, &platform);
    rack.record.passages = Passages::of(topology, &platform, &rack);
    let start_seconds = began.elapsed().as_secs_f64();

    let numbers = 0..topology.host.len();
    let awaited: Vec<usize> = numbers
        .filter(|host| {
            let spec = &topology.host[*host];
            match until[..] {
                [] => spec.command.is_some(),
                _ => until.contains(spec.name.as_ref()),
            }
        })
        .collect();
    let limit = Picoseconds::from_ns_f64(limit_s * 1e9);
    let began = Instant::now();
    rack.start();
    rack.run_until(|rack| {
        rack.now() > limit || awaited.iter().all(|host| rack.guest_ended(*host))
    })?;
    let wall_seconds = began.elapsed().as_secs_f64();
    if let Some(late) = awaited.iter().find(|host| !rack.guest_ended(**host)) {
        return Err(Error::Program {
            time: rack.now(),
            host: topology.host[*late].name.as_ref().clone(),
            reason: format!(
                "its command has not ended after {limit_s} simulated seconds (program.limit_s)"
            ),
        });
    }
    let mut guests = Vec::new();
    for (host, cpu) in &cpus {
        let host = *host;
        let id = Rack::ids(host).0;
        let accesses = rack.record.accesses.get(&id).copied().unwrap_or_default();
        let wire = rack.wire_nic(host).map(|card| card.counts);
        let guest = rack.guest(host);
        guests.push(GuestOutcome {
            name: guest.name.clone(),
            status: guest.exit(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            console: String::new(),
            said: Vec::new(),
            report: guest.report,
            wire,
            accesses,
            costs: cpu.table(),
        });
    }
    Ok(UmlOutcome {
        guest_seconds: rack.profile.guests.as_secs_f64(),
        guests,
        engines: rack.engines(),
        hosts: topology
            .host
            .iter()
            .map(|host| host.name.as_ref().clone())
            .collect(),
        switches: switch_reports(&mut rack, topology)?,
        faults: rack.faults(),
        effort: rack.effort(),
        simulated: rack.now(),
        record: std::mem::take(&mut rack.record),
        wall_seconds,
        start_seconds,
        profile: rack.profile,
    })
}
