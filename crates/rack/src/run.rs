// SPDX-License-Identifier: Apache-2.0
//! A topology made ready and run.

mod nic_latency;
mod stream;
mod waiting;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use ipnuma_rtl::NetSpeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::registers::{PAGE_BYTES, REG_ACK_TICKS, REG_PACE};

use crate::calendar::ComponentId;
use crate::cpu::Cpu;
use crate::engine::{EngineSetup, FetchSetup, pins, sockets};
use crate::error::Error;
use crate::faults::FaultCounts;
use crate::guest::Behind;
use crate::guests::Starter;
use crate::host_port::HostSide;
use crate::ideal::{IdealSwitch, Latency, OwnAddress, Way};
use crate::model::{Hardware, NARROW_PORTS, NicModel, PCIE_PERIOD, SwitchModel, WIDE_PORTS};
use crate::nic::Effort;
use crate::pingpong::{self, PingPong};
use crate::platform::{HostTiming, Platform};
use crate::rack::{GuestNic, GuestSetup, HostSetup, Rack};
use crate::record::Recorder;
use crate::setup::{Gateway, NicConfig, Pages, Peer, Region, Session, keys};
use crate::stream::Statistics;
use crate::switch::SwitchSetup;
use crate::switch_host::{GuestHost, SwitchHost};
use crate::tables;
use crate::time::Picoseconds;
use crate::topology::{
    CableSpec, End, Format, NicKind, ProgramSpec, Rate, SwitchLatency, SwitchSpec, Topology,
};

pub use nic_latency::{NicLatency, nic_latency};
pub use stream::{StreamOutcome, run_stream};
pub use waiting::{WaitingOutcome, run_waiting};

/// When the programs begin: every NIC is configured by then, over the slowest link.
const START: Picoseconds = Picoseconds::from_us(100);
/// Round trips that waves show.
const WAVE_ROUND_TRIPS: usize = 2;

/// The NICs of the project in RTL; as [`Hardware`], with the switches in RTL.
pub fn rtl(speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
    Ok(Box::new(ipnuma_rtl::Nic::new(speed)?))
}

/// A function makes the NICs; the switches are the project's RTL.
impl<F> Hardware for F
where
    F: Fn(NetSpeed) -> Result<Box<dyn NicModel>, Error>,
{
    fn nic(&self, speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
        self(speed)
    }

    fn ring_nic(&self, speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
        Ok(Box::new(ipnuma_rtl::Nic::ring(speed)?))
    }

    fn shared_nic(&self, speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
        Ok(Box::new(ipnuma_rtl::Nic::shared(speed)?))
    }

    fn uzura_nic(&self) -> Result<Box<dyn NicModel>, Error> {
        Ok(Box::new(ipnuma_rtl::Nic::uzura()?))
    }

    fn switch(&self, speed: NetSpeed) -> Result<Box<dyn SwitchModel>, Error> {
        Ok(Box::new(ipnuma_rtl::Switch::new(speed, tables::SIZE)?))
    }
}

/// How a topology is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Let idle NICs sleep; the result is the same.
    pub skip_idle: bool,
    /// Packets, frames and TLPs to keep for files.
    pub keep: usize,
    /// Where to write the waves of the first measured round trips, see [`wave_file`](crate::rack::wave_file).
    pub waves: Option<PathBuf>,
    /// Phases of (PCIe, network) clocks by host, in place of drawn ones.
    pub phases: Option<Vec<(Picoseconds, Picoseconds)>>,
    /// No host and no physical layer: the NICs alone, back to back.
    pub bare: bool,
    /// Where guests have their directories; else one that is removed at the end.
    pub directory: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            skip_idle: true,
            keep: 0,
            waves: None,
            phases: None,
            bare: false,
            directory: None,
        }
    }
}

/// Constant delays on the way from one host to the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Constants {
    /// Physical layers of the two NICs.
    pub phy: Picoseconds,
    /// Physical layers of all switches; none if there are switches and nobody publishes it.
    pub switch_phy: Option<Picoseconds>,
    /// All cables.
    pub cable: Picoseconds,
}

impl Constants {
    /// All of them.
    pub fn sum(&self) -> Picoseconds {
        self.phy + self.switch_phy.unwrap_or_default() + self.cable
    }
}

/// A switch of the run.
#[derive(Clone, Debug)]
pub struct SwitchReport {
    /// Its name.
    pub name: String,
    /// The component, as in the record.
    pub id: ComponentId,
    /// Line rate.
    pub rate: Rate,
    /// What its host side did.
    pub host_side: HostSide,
    /// Frames that the hardware forwarded, by port of arrival; of a switch whose host is a guest.
    pub forwarded: Vec<u64>,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// Round-trip times in the order in which they were measured.
    pub round_trips: Vec<Picoseconds>,
    /// When measuring began and ended.
    pub span: (Picoseconds, Picoseconds),
    /// Constant delays between the NICs.
    pub constants: Constants,
    /// Timing of the two hosts.
    pub timing: [HostTiming; 2],
    /// Everything that was seen.
    pub record: Recorder,
    /// Names of the hosts by number.
    pub names: Vec<String>,
    /// All switches by number.
    pub switches: Vec<SwitchReport>,
    /// Numbers of the switches from the first host to the second.
    pub path: Vec<usize>,
    /// What the NICs of the first and the second host counted, if a cable has faults.
    pub statistics: Option<[Statistics; 2]>,
    /// What happened on the cables.
    pub faults: FaultCounts,
    /// What was simulated.
    pub effort: Effort,
    /// Simulated time of the whole run.
    pub simulated: Picoseconds,
    /// Seconds that it took.
    pub wall_seconds: f64,
}

/// Physical layer of one end of a cable: (transmit, receive). How a pair divides is not published and not seen, for a
/// frame passes both.
fn half(pair: Picoseconds) -> (Picoseconds, Picoseconds) {
    let transmit = Picoseconds(pair.0 / 2);
    (transmit, pair - transmit)
}

/// Delays of a cable, from its first end to its second and back.
fn delays(platform: &Platform, speed: NetSpeed, ends: [End; 2], metres: f64) -> [Picoseconds; 2] {
    let pairs = ends.map(|end| match end {
        End::Host(_) => platform.phy(speed).value(),
        End::Switch(..) => platform.switch_phy(speed).value(),
    });
    let [one, two] = pairs.map(|pair| half(pair.unwrap_or_default()));
    let cable = platform.metres_delay(metres);
    // A message takes time, as the calendar wants it.
    [one.0 + two.1 + cable, two.0 + one.1 + cable].map(|delay| delay.max(Picoseconds(1)))
}

/// What a cable of a topology takes with the physical layers at its ends, from the first to the second and back.
pub fn cable_delays(
    topology: &Topology,
    platform: &Platform,
    cable: &CableSpec,
) -> [Picoseconds; 2] {
    let ends = topology.ends(cable).expect("the topology was checked");
    let speed = NetSpeed::from(match ends[0] {
        End::Host(host) => topology.host[host].nic.rate,
        End::Switch(switch, _) => topology.switch[switch].rate,
    });
    delays(platform, speed, ends, *cable.metres.as_ref())
}

/// Draws the seeds of cables, apart from the clock phases, so that faults change nothing else.
const CABLE_STREAM: u64 = 1;

/// Plugs all cables in.
pub(crate) fn lay_all_cables(rack: &mut Rack, topology: &Topology, platform: &Platform) {
    let mut random = ChaCha8Rng::seed_from_u64(topology.seed);
    random.set_stream(CABLE_STREAM);
    for cable in &topology.cable {
        lay_cable(rack, topology, platform, cable, &mut random, false);
    }
}

/// Plugs a cable in; returns its ends.
fn lay_cable(
    rack: &mut Rack,
    topology: &Topology,
    platform: &Platform,
    cable: &CableSpec,
    random: &mut ChaCha8Rng,
    bare: bool,
) -> [End; 2] {
    let ends = topology.ends(cable).expect("the topology was checked");
    let seeds = [random.random(), random.random()];
    if bare {
        rack.cable(ends, [Picoseconds(1); 2]);
        return ends;
    }
    let speed = NetSpeed::from(match ends[0] {
        End::Host(host) => topology.host[host].nic.rate,
        End::Switch(switch, _) => topology.switch[switch].rate,
    });
    let delays = delays(platform, speed, ends, *cable.metres.as_ref());
    if cable.faults.is_none() && cable.cut.is_none() {
        rack.cable(ends, delays);
    } else {
        rack.faulty_cable(ends, delays, speed, (cable.faults, cable.cut), seeds);
    }
    ends
}

/// Plugs all cables in; returns the constants between the two hosts of the program.
fn lay_cables(
    rack: &mut Rack,
    topology: &Topology,
    platform: &Platform,
    bare: bool,
    hosts: (usize, usize),
    path: &[(usize, usize, usize)],
) -> Result<Constants, Error> {
    let mut random = ChaCha8Rng::seed_from_u64(topology.seed);
    random.set_stream(CABLE_STREAM);
    let speed = NetSpeed::from(topology.host[hosts.0].nic.rate);
    let mut constants = Constants::default();
    if !bare {
        constants.phy = platform.cable_delay(speed, 0.0)?.0;
        let each = platform.switch_phy(speed).value();
        constants.switch_phy = each.map(|each| Picoseconds(each.0 * path.len() as u64));
    }
    let mut on_path = vec![End::Host(hosts.0)];
    on_path.extend(
        path.iter()
            .map(|(switch, _, output)| End::Switch(*switch, *output)),
    );
    for cable in &topology.cable {
        let ends = lay_cable(rack, topology, platform, cable, &mut random, bare);
        if bare {
            continue;
        }
        let metres = *cable.metres.as_ref();
        if on_path.iter().any(|end| ends.contains(end)) {
            constants.cable += platform.metres_delay(metres);
        }
    }
    Ok(constants)
}

/// The constants of a host, and the phases that are drawn for its clocks.
fn host_timing(
    topology: &Topology,
    platform: &Platform,
    options: &Options,
    number: usize,
    random: &mut ChaCha8Rng,
) -> Result<(HostTiming, (Picoseconds, Picoseconds)), Error> {
    let host = &topology.host[number];
    let speed = NetSpeed::from(host.nic.rate);
    let link = host.link.unwrap_or_else(|| platform.default_link(speed));
    let timing = if options.bare {
        HostTiming::none(link)
    } else {
        platform.host_timing(link)?
    };
    let drawn = (
        Picoseconds(random.random_range(0..PCIE_PERIOD.0)),
        Picoseconds(random.random_range(0..speed.net_period_ps())),
    );
    let given = options.phases.as_ref().and_then(|all| all.get(number));
    Ok((timing, given.copied().unwrap_or(drawn)))
}

/// Adds all hosts and switches; returns the timing of the hosts.
fn furnish(
    rack: &mut Rack,
    topology: &Topology,
    platform: &Platform,
    options: &Options,
    hardware: &dyn Hardware,
) -> Result<Vec<HostTiming>, Error> {
    let mut random = ChaCha8Rng::seed_from_u64(topology.seed);
    let mut timings = Vec::new();
    for (number, host) in topology.host.iter().enumerate() {
        let (timing, phases) = host_timing(topology, platform, options, number, &mut random)?;
        timings.push(timing);
        rack.add_host(HostSetup {
            name: host.name.as_ref().clone(),
            timing,
            model: hardware.nic(NetSpeed::from(host.nic.rate))?,
            phases,
        })?;
    }
    add_switches(rack, (topology, platform), &timings, hardware, &mut random)?;
    Ok(timings)
}

/// What an engine of a topology is told.
fn engine(
    topology: &Topology,
    number: usize,
    phase: Picoseconds,
    skip_idle: bool,
    random: &mut ChaCha8Rng,
) -> EngineSetup {
    let host = &topology.host[number];
    let fetch = host.fetch.as_ref().map(|text| {
        let from = topology.fetch(text).expect("the topology was checked");
        // All that is not at the other end of the cable is behind it.
        let next = topology.opposite(End::Host(number));
        FetchSetup {
            peer: sockets::Peer {
                mac: next.map_or(0, tables::mac),
                ip: topology.host_ip(from.host),
                port: from.port,
            },
            host: topology.host[from.host].name.as_ref().clone(),
            path: from.path.to_owned(),
        }
    });
    EngineSetup {
        id: Rack::ids(number).1,
        name: host.name.as_ref().clone(),
        phase,
        skip_idle,
        addresses: pins::Addresses {
            mac: tables::host_mac(number),
            ip: topology.host_ip(number).to_bits(),
            secret: random.random(),
        },
        fetch,
    }
}

/// Adds all guests, hosts with an engine, and switches; returns the guests' numbers with the costs of their CPUs.
pub(crate) fn furnish_guests(
    rack: &mut Rack,
    topology: &Topology,
    platform: &Platform,
    options: &Options,
    hardware: &dyn Hardware,
    starter: &mut dyn Starter,
) -> Result<Vec<(usize, Cpu)>, Error> {
    let mut random = ChaCha8Rng::seed_from_u64(topology.seed);
    let mut cpus = Vec::new();
    let mut timings = Vec::new();
    for (number, host) in topology.host.iter().enumerate() {
        let (timing, phases) = host_timing(topology, platform, options, number, &mut random)?;
        timings.push(timing);
        if let Some(guest) = topology.guest_of(number) {
            let model = hardware.ring_nic(NetSpeed::from(host.nic.rate))?;
            rack.add_card(guest, timing, model, phases)?;
            continue;
        }
        let mut cpu = Cpu::new(&host.cpu, &topology.cpu);
        if host.nic.interrupts {
            cpu = cpu.interrupted(&host.cpu, &topology.cpu);
        }
        let speed = NetSpeed::from(host.nic.rate);
        let nic = match host.nic.kind {
            NicKind::Toe => {
                let phase = phases.1;
                rack.add_engine(engine(
                    topology,
                    number,
                    phase,
                    options.skip_idle,
                    &mut random,
                ))?;
                continue;
            }
            NicKind::Virtio | NicKind::HostPort => GuestNic::Wire(speed, phases.1),
            NicKind::Ipnuma => GuestNic::Pci(hardware.nic(speed)?, phases),
            NicKind::Ring => GuestNic::Pci(hardware.ring_nic(speed)?, phases),
            NicKind::Shared => GuestNic::Pci(hardware.shared_nic(speed)?, phases),
            NicKind::Uzura => GuestNic::Pci(hardware.uzura_nic()?, phases),
        };
        let behind = topology.switch_of(number).map(|switch| Behind {
            // They come behind the hosts and their NICs.
            switch: ComponentId((2 * topology.host.len() + switch) as u32),
            ports: tables::guest_ports(topology, switch),
        });
        rack.add_guest(GuestSetup {
            name: host.name.as_ref().clone(),
            timing,
            hosts: topology.host.len(),
            cpu,
            interrupts: host.nic.kind.ipnuma_device(),
            port: starter.start(topology, number, &cpu)?,
            nic,
            behind,
            cards: topology.cards(number),
        })?;
        cpus.push((number, cpu));
    }
    add_switches(rack, (topology, platform), &timings, hardware, &mut random)?;
    Ok(cpus)
}

fn add_switches(
    rack: &mut Rack,
    (topology, platform): (&Topology, &Platform),
    timings: &[HostTiming],
    hardware: &dyn Hardware,
    random: &mut ChaCha8Rng,
) -> Result<(), Error> {
    let what = (topology, platform, timings);
    for (number, switch) in topology.switch.iter().enumerate() {
        let speed = NetSpeed::from(switch.rate);
        let phase = Picoseconds(random.random_range(0..speed.net_period_ps()));
        match *switch.ports.as_ref() {
            WIDE_PORTS => add_switch(rack, what, number, phase, || hardware.wide_switch(speed))?,
            NARROW_PORTS => {
                add_switch(rack, what, number, phase, || hardware.narrow_switch(speed))?
            }
            _ => add_switch(rack, what, number, phase, || hardware.switch(speed))?,
        }
    }
    Ok(())
}

/// Cycles of the RTL switches from the start of a frame in to its start out, at both rates: those of docs/fibnic.md less
/// the one at the pins. The small build has VLAN stages, which take one at 10G.
const SWITCH_CYCLES: u64 = 14;
const VLAN_CYCLES: u64 = 1;
const SWITCH_CYCLES_1G: u64 = 51;

/// Adds a switch, in RTL or ideal.
fn add_switch<const N: usize>(
    rack: &mut Rack,
    (topology, platform, timings): (&Topology, &Platform, &[HostTiming]),
    number: usize,
    phase: Picoseconds,
    hardware: impl FnOnce() -> Result<Box<dyn SwitchModel<N>>, Error>,
) -> Result<(), Error> {
    let spec = &topology.switch[number];
    let speed = NetSpeed::from(spec.rate);
    let latency = match &spec.latency_ns {
        Some(latency) => Some(other_latency(spec, latency.as_ref(), platform)?),
        None if spec.ideal => Some(Latency::Cut(match (spec.rate, N) {
            (Rate::Ten, WIDE_PORTS) => SWITCH_CYCLES,
            (Rate::Ten, _) => SWITCH_CYCLES + VLAN_CYCLES,
            (Rate::One, _) => SWITCH_CYCLES_1G,
        })),
        None => None,
    };
    let model = match latency {
        Some(latency) => {
            let mut switch = IdealSwitch::new(speed, latency, ways(topology, number)?);
            switch.answer_for(own_addresses(topology, number));
            Box::new(switch)
        }
        None => hardware()?,
    };
    rack.add_switch(SwitchSetup {
        name: spec.name.as_ref().clone(),
        model,
        phase,
        control: switch_host(topology, timings, number)?,
    })?;
    Ok(())
}

/// What is behind the host port of a switch.
fn switch_host(
    topology: &Topology,
    timings: &[HostTiming],
    number: usize,
) -> Result<SwitchHost, Error> {
    let spec = &topology.switch[number];
    let Some(guest) = &spec.control else {
        let control = tables::control(topology, number)?;
        return Ok(SwitchHost::Agent(Box::new(control)));
    };
    let guest = topology.host_index(guest.as_ref());
    let guest = guest.expect("the topology was checked");
    let image = tables::image(topology, number)?;
    let ports = *spec.ports.as_ref();
    let host = GuestHost::new(Rack::ids(guest).0, timings[guest].up, ports, &image);
    Ok(SwitchHost::Guest(Box::new(host)))
}

/// Latency of a switch of another make. The one in the topology is from pins to pins with the physical layers, which the
/// cables have here.
pub(crate) fn other_latency(
    spec: &SwitchSpec,
    latency: &SwitchLatency,
    platform: &Platform,
) -> Result<Latency, Error> {
    let speed = NetSpeed::from(spec.rate);
    let phy = platform.switch_phy(speed).value().unwrap_or_default();
    let period = speed.net_period_ps();
    let name = spec.name.as_ref();
    let cycles = |ns: f64| {
        let inside = Picoseconds::from_ns_f64(ns).0.checked_sub(phy.0);
        // One cycle is at the pins.
        let cycles = inside.and_then(|inside| (inside / period).checked_sub(1));
        cycles.ok_or_else(|| {
            Error::Config(format!(
                "switch.latency_ns: {ns} ns of `{name}` are less than its physical layers take, {phy}, and a cycle; write more"
            ))
        })
    };
    let points = latency.points().map_err(Error::Config)?;
    let mut all = Vec::new();
    for (bytes, ns) in points {
        all.push((bytes, cycles(ns)?));
    }
    if spec.store_and_forward {
        return Ok(Latency::Stored(all));
    }
    match all[..] {
        [(_, cycles)] => Ok(Latency::Cut(cycles)),
        _ => Err(Error::Config(format!(
            "switch.latency_ns: `{name}` does not store frames and cannot know their length; give one latency"
        ))),
    }
}

/// Addresses of a switch's ports.
fn own_addresses(topology: &Topology, switch: usize) -> BTreeMap<usize, OwnAddress> {
    let ports = topology.switch[switch].port.iter().map(|port| {
        let number = *port.number.as_ref();
        let own = OwnAddress {
            ip: port.address.as_ref().address,
            mac: tables::port_mac(switch, number),
        };
        (number, own)
    });
    ports.collect()
}

/// Where a switch sends frames to the hosts.
fn ways(topology: &Topology, switch: usize) -> Result<BTreeMap<Ipv4Addr, Way>, Error> {
    let mut ways = BTreeMap::new();
    for host in 0..topology.host.len() {
        let address = topology.host_ip(host);
        let Ok(port) = topology.egress(switch, address) else {
            continue;
        };
        let next = topology
            .opposite(End::Switch(switch, port))
            .expect("a cable leads there");
        let way = Way {
            port,
            own: tables::port_mac(switch, port),
            next: tables::mac(next),
        };
        ways.insert(address, way);
    }
    Ok(ways)
}

/// Registers whose reset values suit 10G. At 1G an acknowledgement of its own is on the line for 0.7 us: it waits 16
/// ticks, longer than a host takes to answer. And frames take up to 2,500 cycles: sessions may slow down as far as that.
const SLOW_LINE: [(u32, u32); 2] = [(REG_ACK_TICKS, 16), (REG_PACE, 0x0100_6FFF)];

/// What a host's NIC knows of itself.
fn nic_config(topology: &Topology, own: usize) -> NicConfig {
    let gateway = topology.opposite(End::Host(own)).and_then(|end| match end {
        End::Host(_) => None,
        End::Switch(..) => Some(Gateway {
            ip: topology.address(end).to_bits(),
            mac: tables::mac(end),
        }),
    });
    let registers = wire::registers::REGISTERS.iter();
    let registers = registers.filter_map(|register| {
        let given = topology.register.get(register.name).copied();
        let slow = (topology.host[own].nic.rate == Rate::One)
            .then(|| {
                SLOW_LINE
                    .iter()
                    .find(|(offset, _)| *offset == register.offset)
            })
            .flatten();
        let value = given.or(slow.map(|(_, value)| *value))?;
        Some((register.offset, value))
    });
    NicConfig {
        mac: tables::host_mac(own),
        ip: topology.host_ip(own).to_bits(),
        netmask: u32::MAX << (32 - topology.prefix_len(own)),
        gateway,
        merge: topology.host[own].nic.merge,
        registers: registers.collect(),
        peers: Vec::new(),
    }
}

/// What a host's NIC knows of another: PC IDs are (of the peer here, of this one there).
fn peer(topology: &Topology, own: usize, other: usize, pc_ids: (u16, u16)) -> Peer {
    let nic = [own, other].map(|host| &topology.host[host].nic);
    let reliable = nic.iter().all(|nic| nic.reliable);
    let auth = nic.iter().all(|nic| nic.auth);
    Peer {
        pc_id: pc_ids.0,
        mac: tables::host_mac(other),
        ip: topology.host_ip(other).to_bits(),
        compact: topology.host[own].nic.format == Format::Compact,
        session: reliable.then(|| Session {
            index: pc_ids.1 as u8,
            keys: auth.then(|| keys(topology.seed, own, other)),
        }),
        region: None,
        pages: None,
    }
}

/// What the NIC of a host must know to play ping-pong with another.
fn pingpong_config(topology: &Topology, own: usize, other: usize) -> NicConfig {
    let mut config = nic_config(topology, own);
    config.peers.push(Peer {
        region: Some(Region {
            key: pingpong::KEY,
            base: pingpong::REGION,
            bytes: PAGE_BYTES,
            notify: false,
        }),
        pages: Some(Pages {
            first: 0,
            count: 1,
            key: pingpong::KEY,
        }),
        ..peer(topology, own, other, (pingpong::PC_ID, pingpong::PC_ID))
    });
    config
}

/// A rack that is ready to be given programs.
struct Built {
    rack: Rack,
    timings: Vec<HostTiming>,
    constants: Constants,
    path: Vec<usize>,
}

/// Everything but the programs; the constants are those of the way between two hosts.
fn build(
    topology: &Topology,
    options: &Options,
    hardware: &dyn Hardware,
    hosts: (usize, usize),
) -> Result<Built, Error> {
    let platform = Platform::load(&topology.platform)?;
    let mut rack = Rack::new(options.skip_idle);
    rack.record.keep = options.keep;
    let timings = furnish(&mut rack, topology, &platform, options, hardware)?;
    let path = topology.path(hosts.0, hosts.1).map_err(Error::Config)?;
    let constants = lay_cables(&mut rack, topology, &platform, options.bare, hosts, &path)?;
    Ok(Built {
        rack,
        timings,
        constants,
        path: path.iter().map(|(switch, _, _)| *switch).collect(),
    })
}

/// The switches after a run.
pub(crate) fn switch_reports(
    rack: &mut Rack,
    topology: &Topology,
) -> Result<Vec<SwitchReport>, Error> {
    let mut switches = Vec::new();
    for (number, spec) in topology.switch.iter().enumerate() {
        let forwarded = match spec.control {
            Some(_) => rack.switch(number).forwarded()?,
            None => Vec::new(),
        };
        switches.push(SwitchReport {
            forwarded,
            name: spec.name.as_ref().clone(),
            id: rack.switch_id(number),
            rate: spec.rate,
            host_side: rack.switch(number).host_side(),
        });
    }
    Ok(switches)
}

/// Runs the ping-pong of a topology.
pub fn run(
    topology: &Topology,
    options: &Options,
    hardware: &dyn Hardware,
) -> Result<Outcome, Error> {
    let ProgramSpec::Pingpong {
        first,
        second,
        bytes,
        loops,
        warmup,
    } = topology.program.as_ref()
    else {
        return Err(Error::Config(
            "program.kind: this is no ping-pong; run it with ipnuma stream, or ipnuma rack if its hosts are guests"
                .to_owned(),
        ));
    };
    let number = |name: &str| topology.host_index(name).expect("the topology was checked");
    let (one, two) = (number(first), number(second));
    let Built {
        mut rack,
        timings,
        constants,
        path,
    } = build(topology, options, hardware, (one, two))?;
    let faulty = topology.cable.iter().any(|cable| !cable.faults.is_none());
    let shared = Rc::new(RefCell::new(PingPong {
        stagger: if options.bare {
            PCIE_PERIOD
        } else {
            Picoseconds::ZERO
        },
        bytes: *bytes,
        warmup: *warmup,
        loops: *loops,
        start: START,
        counters: faulty,
        ..PingPong::default()
    }));
    let api = rack.host(one).api();
    let config = pingpong_config(topology, one, two);
    let program = pingpong::first(api, config, Rc::clone(&shared));
    rack.host(one).run(Box::pin(program));
    let api = rack.host(two).api();
    let config = pingpong_config(topology, two, one);
    let program = pingpong::second(api, config, Rc::clone(&shared));
    rack.host(two).run(Box::pin(program));

    let began = Instant::now();
    rack.start();
    if let Some(path) = &options.waves {
        rack.run_until(|rack| rack.record.measuring)?;
        rack.trace(path)?;
        rack.run_until(|_| shared.borrow().round_trips.len() >= WAVE_ROUND_TRIPS)?;
        rack.trace_close();
    }
    rack.run()?;
    let wall_seconds = began.elapsed().as_secs_f64();
    let results = shared.take();
    let names = topology.host.iter().map(|host| host.name.as_ref().clone());
    Ok(Outcome {
        round_trips: results.round_trips,
        span: results.span,
        constants,
        timing: [timings[one], timings[two]],
        names: names.collect(),
        switches: switch_reports(&mut rack, topology)?,
        path,
        statistics: faulty.then_some(results.statistics),
        faults: rack.faults(),
        effort: rack.effort(),
        simulated: rack.now(),
        record: rack.record,
        wall_seconds,
    })
}
