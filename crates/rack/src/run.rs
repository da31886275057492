// SPDX-License-Identifier: Apache-2.0
//! A topology made ready and run.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use ipnuma_rtl::NetSpeed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::Error;
use crate::model::{NicModel, PCIE_PERIOD};
use crate::nic::Effort;
use crate::pingpong::{self, NicConfig, PingPong};
use crate::platform::{HostTiming, Platform};
use crate::rack::{HostSetup, Rack};
use crate::record::{Point, Recorder, Spread};
use crate::time::Picoseconds;
use crate::topology::{Format, Pair, ProgramSpec, Rate, Topology};

/// When the programs begin: every NIC is configured by then, over the slowest link.
const START: Picoseconds = Picoseconds::from_us(100);
/// Round trips that waves show.
const WAVE_ROUND_TRIPS: usize = 2;

/// What makes the hardware of a NIC.
pub type ModelFactory<'a> = &'a dyn Fn(NetSpeed) -> Result<Box<dyn NicModel>, Error>;

/// The RTL of the project.
pub fn rtl(speed: NetSpeed) -> Result<Box<dyn NicModel>, Error> {
    Ok(Box::new(ipnuma_rtl::Nic::new(speed)?))
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
    factory: ModelFactory<'_>,
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
            let outcome = run(&topology, &options, factory)?;
            found.combinations += 1;
            for packet in &outcome.record.packets {
                let at = |point: Point| packet.at[point as usize];
                let total = at(Point::DmaOut) - at(Point::TlpIn);
                if total > found.latency.max {
                    found.worst = [
                        at(Point::FirstWordOut) - at(Point::TlpIn),
                        at(Point::LastWordOut) - at(Point::FirstWordOut),
                        at(Point::LastWordIn) - at(Point::LastWordOut),
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

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// Round-trip times in the order in which they were measured.
    pub round_trips: Vec<Picoseconds>,
    /// When measuring began and ended.
    pub span: (Picoseconds, Picoseconds),
    /// Constant delays of the cable: physical layers, metres.
    pub cable: (Picoseconds, Picoseconds),
    /// Timing of the two hosts.
    pub timing: [HostTiming; 2],
    /// Everything that was seen.
    pub record: Recorder,
    /// Names of the hosts by number.
    pub names: Vec<String>,
    /// What was simulated.
    pub effort: Effort,
    /// Simulated time of the whole run.
    pub simulated: Picoseconds,
    /// Seconds that it took.
    pub wall_seconds: f64,
}

/// Runs the program of a topology.
pub fn run(
    topology: &Topology,
    options: &Options,
    factory: ModelFactory<'_>,
) -> Result<Outcome, Error> {
    let platform = Platform::load(&topology.platform)?;
    let mut random = ChaCha8Rng::seed_from_u64(topology.seed);
    let mut rack = Rack::new(options.skip_idle);
    rack.record.keep = options.keep;
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
            model: factory(speed)?,
            phases: given.copied().unwrap_or(drawn),
        })?;
    }
    let ProgramSpec::Pingpong {
        first,
        second,
        bytes,
        loops,
        warmup,
    } = topology.program.as_ref();
    let number = |name: &str| topology.host_index(name).expect("the topology was checked");
    let (one, two) = (number(first), number(second));
    let mut delays = (Picoseconds::ZERO, Picoseconds::ZERO);
    for cable in &topology.cable {
        let ends = cable.between.as_ref();
        let (a, b) = (number(&ends[0]), number(&ends[1]));
        let speed = NetSpeed::from(topology.host[a].nic.rate);
        let (phy, metres) = if options.bare {
            (Picoseconds(1), Picoseconds::ZERO)
        } else {
            platform.cable_delay(speed, *cable.metres.as_ref())?
        };
        rack.cable(a, b, (phy + metres).max(Picoseconds(1)));
        if [a, b].contains(&one) && [a, b].contains(&two) {
            delays = (phy, metres);
        }
    }

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
    let config = |own: usize, peer: usize| NicConfig {
        mac: mac(own),
        ip: ip(topology, own),
        peer_mac: mac(peer),
        peer_ip: ip(topology, peer),
        compact: topology.host[own].nic.format == Format::Compact,
    };
    let api = rack.host(one).api();
    let program = pingpong::first(api, config(one, two), Rc::clone(&shared));
    rack.host(one).run(Box::pin(program));
    let api = rack.host(two).api();
    let program = pingpong::second(api, config(two, one), Rc::clone(&shared));
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
        cable: delays,
        timing: [timings[one], timings[two]],
        names: names.collect(),
        effort: rack.effort(),
        simulated: rack.now(),
        record: rack.record,
        wall_seconds,
    })
}

/// A locally administered address for each host.
const fn mac(number: usize) -> u64 {
    0x0200_0000_0001 + number as u64
}

fn ip(topology: &Topology, number: usize) -> u32 {
    let given = topology.host[number].nic.ip.map(u32::from);
    given.unwrap_or(0x0A00_0001 + number as u32)
}
