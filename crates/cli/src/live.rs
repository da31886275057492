// SPDX-License-Identifier: Apache-2.0
//! `ipnuma switch`: the switch in RTL between TAP devices.

use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use control::tap::Taps;
use control::{Control, HostFrame, Police, PortConfig};
use ipnuma_rtl::Switch;
use rack::Error;
use rack::live::{Agent, LiveRouter, Output};
use rack::model::Hardware;
use rack::run::rtl;
use rack::tables;

use crate::{RateArgument, output};

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A port N is the device NAMEN; what is plugged in there is up to you, for example another namespace:

  ipnuma switch --tap sw --port 10.0.0.254/24 --port 10.0.1.254/24 &
  for n in 0 1; do
    ip netns add pc$n; ip link set sw$n netns pc$n
    ip -n pc$n addr add 10.0.$n.1/24 dev sw$n; ip -n pc$n link set sw$n up
    ip -n pc$n route add default via 10.0.$n.254
  done
  ip netns exec pc0 ping 10.0.1.1

With --linux the host port of the switch is the devices NAMEh0 and up: give them the MAC and IP addresses of the
ports (ip link set NAMEh0 address MAC up; ip addr add ...), and the kernel answers ARP, ICMP and neighbour
discovery. Neighbours that were seen there are written to the tables of the switch.")]
pub struct Arguments {
    /// Beginning of the names of the TAP devices
    #[arg(long, value_name = "NAME")]
    tap: String,
    /// Addresses of the next port with prefix length, between commas: 10.0.0.254/24,2001:db8::1/64
    #[arg(long = "port", value_name = "ADDRESSES", required = true)]
    ports: Vec<String>,
    /// A route, such as "192.0.2.0/24 via 10.0.0.1"
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
    /// Line rate
    #[arg(long, default_value = "10g")]
    rate: RateArgument,
    /// The kernel answers for the switch, and not the project's own agent
    #[arg(long)]
    linux: bool,
    /// Frames of each port that may reach what is behind the host port, a second, and at once; off unless given,
    /// since these seconds are the switch's, whose clock stands while nothing is under way
    #[arg(long, value_name = "FRAMES[:BURST]")]
    host_rate: Option<String>,
    /// End after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
}

/// Longest name of a device.
const LONGEST_NAME: usize = 15;
/// Frames that are taken from the devices at once.
const AT_ONCE: usize = 64;
/// How long the command sleeps when there is nothing to do.
const PAUSE: Duration = Duration::from_micros(200);

fn config(arguments: &Arguments) -> Result<control::Config, Error> {
    if arguments.ports.len() > Switch::PORTS {
        return Err(Error::Config(format!(
            "--port: the switch has {} ports; give at most as many",
            Switch::PORTS
        )));
    }
    fibd::command::device(&arguments.tap, LONGEST_NAME - "h0".len()).map_err(|remedy| {
        Error::Config(format!(
            "--tap: {} is no beginning of a device's name; {remedy}",
            input::quoted(&arguments.tap)
        ))
    })?;
    let police = match &arguments.host_rate {
        None => Police::OFF,
        Some(text) => text
            .parse()
            .map_err(|error| Error::Config(format!("--host-rate: {error}")))?,
    };
    let mut config = control::Config {
        fib: tables::sizes(),
        ..control::Config::default()
    };
    for number in 0..Switch::PORTS {
        let mut port = PortConfig {
            mac: tables::mac_bytes(tables::port_mac(0, number)),
            police,
            ..PortConfig::default()
        };
        let addresses = arguments.ports.get(number).into_iter();
        for text in addresses.flat_map(|all| all.split(',')) {
            let address = text.parse();
            port.addresses
                .push(address.map_err(|error| Error::Config(format!("--port: {error}")))?);
        }
        config.ports.push(port);
    }
    for text in &arguments.routes {
        let route = text.parse();
        config
            .routes
            .push(route.map_err(|error| Error::Config(format!("--route: {error}")))?);
    }
    Ok(config)
}

/// The devices of some ports.
fn open(name: &str, ports: usize) -> Result<Taps, Error> {
    let names: Vec<_> = (0..ports).map(|port| format!("{name}{port}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    Taps::open(&names).map_err(|error| Error::Config(error.to_string()))
}

fn failed(error: io::Error) -> Error {
    Error::Output {
        path: "a TAP device".to_owned(),
        reason: error.to_string(),
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let config = config(arguments)?;
    let macs: Vec<_> = config.ports.iter().map(|port| port.mac).collect();
    let control = Control::new(config).map_err(|error| Error::Config(error.to_string()))?;
    let agent = if arguments.linux {
        Agent::Outside
    } else {
        Agent::Own
    };
    let count = arguments.ports.len();
    let model = rtl.switch(rack::topology::Rate::from(arguments.rate).into())?;
    let mut router = LiveRouter::new(model, control, agent)?;
    let mut network = open(&arguments.tap, count)?;
    let kernel = arguments.linux.then(|| format!("{}h", arguments.tap));
    let mut kernel = kernel.map(|name| open(&name, count)).transpose()?;

    let mut out = "functional only: the timing of these frames says nothing\n".to_owned();
    for (port, (mac, addresses)) in macs.iter().zip(&arguments.ports).enumerate() {
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        out += &format!("{}{port}  port {port}, {mac}, {addresses}\n", arguments.tap);
    }
    output::print(&out)?;

    let began = Instant::now();
    let end = arguments.seconds.map(Duration::from_secs);
    let (mut came, mut went) = (0_u64, 0_u64);
    while end.is_none_or(|end| began.elapsed() < end) {
        let mut idle = true;
        for _ in 0..AT_ONCE {
            let Some((port, bytes)) = network.take().map_err(failed)? else {
                break;
            };
            came += 1;
            router.receive(usize::from(port), &bytes);
            idle = false;
        }
        if let Some(kernel) = &mut kernel {
            for _ in 0..AT_ONCE {
                let Some((port, bytes)) = kernel.take().map_err(failed)? else {
                    break;
                };
                router.send(usize::from(port), &bytes);
                idle = false;
            }
        }
        let now = began.elapsed().as_nanos() as u64;
        for output in router.run(now)? {
            idle = false;
            let given = match &output {
                Output::Network { port, bytes } => {
                    went += 1;
                    network.give(&HostFrame {
                        port: *port as u8,
                        verdict: 0,
                        bad: false,
                        bytes,
                    })
                }
                Output::Host(frame) => match &kernel {
                    Some(kernel) => kernel.give(&HostFrame {
                        port: frame.port,
                        verdict: frame.verdict,
                        bad: frame.bad,
                        bytes: &frame.bytes,
                    }),
                    None => Ok(()),
                },
            };
            given.map_err(failed)?;
        }
        if idle && router.is_idle() {
            thread::sleep(PAUSE);
        }
    }
    let side = router.switch().host_side();
    output::print(&format!(
        "{came} frames came in, {went} went out; {} went to the host port, {} came from it; {} clock edges\n",
        side.received,
        side.sent,
        router.switch().edges,
    ))?;
    Ok(ExitCode::SUCCESS)
}
