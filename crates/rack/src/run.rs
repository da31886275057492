// SPDX-License-Identifier: Apache-2.0
//! A topology made ready and run.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use ipnuma_rtl::NetSpeed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::calendar::ComponentId;
use crate::error::Error;
use crate::host_port::HostSide;
use crate::model::{Hardware, NicModel, PCIE_PERIOD, SwitchModel};
use crate::nic::Effort;
use crate::pingpong::{self, Gateway, NicConfig, PingPong};
use crate::platform::{HostTiming, Platform};
use crate::rack::{HostSetup, Rack};
use crate::record::{Point, Recorder, Spread};
use crate::switch::SwitchSetup;
use crate::tables;
use crate::time::Picoseconds;
use crate::topology::{End, Format, Pair, ProgramSpec, Rate, Topology};

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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            skip_idle: true,
            keep: 0,
            waves: None,
            phases: None,
            bare: false,
        }
    }
}

/// Latency of the NICs alone, over all clock phases.
#[derive(Clone, Debug, Default)]
pub struct NicLatency {
    /// From the first beat of the store's TLP to the first beat of the DMA write.
    pub latency: Spread,
    /// The worst packet: its parts (transmit, serialisation, the hop, receive).
    pub worst: [Picoseconds; 4],
    /// Phases of that packet: PCIe and network clock of the sender, PCIe clock of the receiver.
    pub worst_phases: [Picoseconds; 3],
    /// Combinations of phases.
    pub combinations: u64,
}

/// Round trips for each combination of phases.
const LATENCY_LOOPS: u64 = 16;

/// Measures two NICs back to back, without hosts and physical layers, with the clocks in every relation in `step`s.
///
/// Both network clocks are in phase, as they are where one receives what the other sends.
pub fn nic_latency(
    rate: Rate,
    format: Format,
    bytes: usize,
    step: Picoseconds,
    hardware: &dyn Hardware,
) -> Result<NicLatency, Error> {
    let topology = Topology::pair(Pair {
        platform: "keio-2016".to_owned(),
        seed: 0,
        rate,
        format,
        metres: 0.0,
        bytes,
        loops: LATENCY_LOOPS,
        warmup: 0,
    });
    let period = NetSpeed::from(rate).net_period_ps();
    let phases = |period: u64| (0..period).step_by(step.0 as usize).map(Picoseconds);
    let mut found = NicLatency::default();
    for net in phases(period) {
        for receiver in phases(PCIE_PERIOD.0) {
            let options = Options {
                bare: true,
                keep: 2 * LATENCY_LOOPS as usize,
                phases: Some(vec![(Picoseconds::ZERO, net), (receiver, net)]),
                ..Options::default()
            };
            let outcome = run(&topology, &options, hardware)?;
            found.combinations += 1;
            for packet in &outcome.record.packets {
                let at = |point: Point| packet.at[point as usize];
                let total = at(Point::DmaOut) - at(Point::TlpIn);
                if total > found.latency.max {
                    found.worst = [
                        at(Point::FirstWordOut) - at(Point::TlpIn),
                        at(Point::LastWordIn) - at(Point::FirstWordIn),
                        at(Point::FirstWordIn) - at(Point::FirstWordOut),
                        at(Point::DmaOut) - at(Point::LastWordIn),
                    ];
                    let back = packet.from != Rack::ids(0).0;
                    let (one, two) = (Picoseconds::ZERO, receiver);
                    found.worst_phases = if back {
                        [two, net, one]
                    } else {
                        [one, net, two]
                    };
                }
                found.latency.add(total);
            }
        }
    }
    Ok(found)
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

/// Plugs all cables in; returns the constants between the two hosts of the program.
fn lay_cables(
    rack: &mut Rack,
    topology: &Topology,
    platform: &Platform,
    bare: bool,
    hosts: (usize, usize),
    path: &[(usize, usize, usize)],
) -> Result<Constants, Error> {
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
        let ends = topology.ends(cable).expect("the topology was checked");
        let metres = *cable.metres.as_ref();
        if bare {
            rack.cable(ends, [Picoseconds(1); 2]);
            continue;
        }
        let speed = NetSpeed::from(match ends[0] {
            End::Host(host) => topology.host[host].nic.rate,
            End::Switch(switch, _) => topology.switch[switch].rate,
        });
        rack.cable(ends, delays(platform, speed, ends, metres));
        if on_path.iter().any(|end| ends.contains(end)) {
            constants.cable += platform.metres_delay(metres);
        }
    }
    Ok(constants)
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
        let speed = NetSpeed::from(host.nic.rate);
        let link = host.link.unwrap_or_else(|| platform.default_link(speed));
        let timing = if options.bare {
            HostTiming::none(link)
        } else {
            platform.host_timing(link)?
        };
        timings.push(timing);
        let drawn = (
            Picoseconds(random.random_range(0..PCIE_PERIOD.0)),
            Picoseconds(random.random_range(0..speed.net_period_ps())),
        );
        let given = options.phases.as_ref().and_then(|all| all.get(number));
        rack.add_host(HostSetup {
            name: host.name.as_ref().clone(),
            timing,
            model: hardware.nic(speed)?,
            phases: given.copied().unwrap_or(drawn),
        })?;
    }
    for (number, switch) in topology.switch.iter().enumerate() {
        let speed = NetSpeed::from(switch.rate);
        rack.add_switch(SwitchSetup {
            name: switch.name.as_ref().clone(),
            model: hardware.switch(speed)?,
            phase: Picoseconds(random.random_range(0..speed.net_period_ps())),
            control: tables::control(topology, number)?,
        })?;
    }
    Ok(timings)
}

/// What the NIC of a host must know to play with another.
fn nic_config(topology: &Topology, own: usize, peer: usize) -> NicConfig {
    let gateway = topology.opposite(End::Host(own)).and_then(|end| match end {
        End::Host(_) => None,
        End::Switch(..) => Some(Gateway {
            ip: topology.address(end).to_bits(),
            mac: tables::mac(end),
        }),
    });
    NicConfig {
        mac: tables::host_mac(own),
        ip: topology.host_ip(own).to_bits(),
        peer_mac: tables::host_mac(peer),
        peer_ip: topology.host_ip(peer).to_bits(),
        netmask: u32::MAX << (32 - topology.prefix_len(own)),
        gateway,
        compact: topology.host[own].nic.format == Format::Compact,
    }
}

/// Runs the program of a topology.
pub fn run(
    topology: &Topology,
    options: &Options,
    hardware: &dyn Hardware,
) -> Result<Outcome, Error> {
    let platform = Platform::load(&topology.platform)?;
    let mut rack = Rack::new(options.skip_idle);
    rack.record.keep = options.keep;
    let timings = furnish(&mut rack, topology, &platform, options, hardware)?;
    let ProgramSpec::Pingpong {
        first,
        second,
        bytes,
        loops,
        warmup,
    } = topology.program.as_ref();
    let number = |name: &str| topology.host_index(name).expect("the topology was checked");
    let (one, two) = (number(first), number(second));
    let path = topology.path(one, two).map_err(Error::Config)?;
    let bare = options.bare;
    let constants = lay_cables(&mut rack, topology, &platform, bare, (one, two), &path)?;

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
        ..PingPong::default()
    }));
    let api = rack.host(one).api();
    let config = nic_config(topology, one, two);
    let program = pingpong::first(api, config, Rc::clone(&shared));
    rack.host(one).run(Box::pin(program));
    let api = rack.host(two).api();
    let config = nic_config(topology, two, one);
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
    let mut switches = Vec::new();
    for (number, spec) in topology.switch.iter().enumerate() {
        switches.push(SwitchReport {
            name: spec.name.as_ref().clone(),
            id: rack.switch_id(number),
            rate: spec.rate,
            host_side: rack.switch(number).host_side(),
        });
    }
    Ok(Outcome {
        round_trips: results.round_trips,
        span: results.span,
        constants,
        timing: [timings[one], timings[two]],
        names: names.collect(),
        switches,
        path: path.iter().map(|(switch, _, _)| *switch).collect(),
        effort: rack.effort(),
        simulated: rack.now(),
        record: rack.record,
        wall_seconds,
    })
}
