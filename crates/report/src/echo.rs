// SPDX-License-Identifier: Apache-2.0
//! Ping-pong over the kernel's sockets: two Linux hosts, conventional NICs in RTL, a cable or switches (tables 4.5
//! and 4.6, figure 4.4).

use std::path::PathBuf;

use rack::cpu::CpuSpec;
use rack::faults::Faults;
use rack::guests::run_uml;
use rack::run::{Options, rtl};
use rack::topology::{GuestRow, NicKind, Rate};
use rack::{Error, Topology};

use crate::fitted::Constants;
use crate::memcached::{ipnuma, mount};
use crate::program;

const CLIENT: &str = "client";
const SERVER: &str = "server";
/// Where the server listens.
const PORT: u16 = 7000;
/// Round trips that are not timed: ARP, the first packets.
const WARMUP: u64 = 4;
/// Simulated seconds after which a run has failed.
const LIMIT_S: f64 = 60.0;

/// What is between the hosts.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Line rate.
    pub rate: Rate,
    /// FIBNICs in RTL, in a row.
    pub switches: usize,
    /// Of all cables together.
    pub metres: f64,
    /// What the hosts take.
    pub constants: Constants,
}

impl Way {
    /// A cable of a metre.
    pub const fn direct(rate: Rate) -> Self {
        Self {
            rate,
            switches: 0,
            metres: 1.0,
            constants: Constants::Published,
        }
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Of a round trip.
    pub round_trip_ns: f64,
    /// Of all frames and TLPs with their times.
    pub hash: String,
}

/// The hosts and their commands.
fn topology(way: Way, count: u64) -> Result<Topology, Error> {
    let program = program::own().unwrap_or_else(|_| PathBuf::from("ipnuma"));
    let (mount, ipnuma) = (mount(&program), ipnuma(&program));
    // Each switch begins a network.
    let address = format!("10.0.{}.2:{PORT}", way.switches);
    let ask = format!("{ipnuma} echo {address} --total --json");
    let client = format!(
        "{mount}tries=0\n\
         until {ask} -n 1 --warmup 0 --timeout-ms 100 > ready.log 2>&1; do\n  \
         tries=$((tries + 1))\n  \
         [ $tries -lt 100 ] || {{ cat ready.log >&2; exit 1; }}\n  \
         sleep 0.1\ndone\n\
         {ask} -n {count} --warmup {WARMUP} --timeout-ms 10000\n"
    );
    let server = format!("{mount}exec {ipnuma} echo --serve 0.0.0.0:{PORT}\n");
    let row = GuestRow {
        platform: way.constants.platform(),
        seed: 1,
        rate: way.rate,
        nic: NicKind::Ring,
        names: [CLIENT, SERVER].map(str::to_owned),
        commands: [client, server],
        switches: way.switches,
        latency_ns: None,
        metres: way.metres,
        faults: Faults::default(),
        // Who answers does nothing else: what memcached does is not charged.
        cpu: way.constants.costs(
            way.rate,
            CpuSpec {
                application_ns: Some(0),
                ..CpuSpec::default()
            },
        ),
        limit_s: LIMIT_S,
    };
    Topology::guests(row).checked()
}

/// A line of `ipnuma echo --json` (docs/json.md).
#[derive(serde::Deserialize)]
struct Line {
    result: echo::Report,
}

/// Runs it.
pub fn measure(way: Way, count: u64) -> Result<Measured, Error> {
    let topology = topology(way, count)?;
    let outcome = run_uml(&topology, &Options::default(), &rtl)?;
    let failed = |reason: String| Error::Program {
        time: outcome.simulated,
        host: CLIENT.to_owned(),
        reason,
    };
    let client = outcome.guest(CLIENT);
    let client = client.ok_or_else(|| failed("it is not there".to_owned()))?;
    let (said, errors) = (
        String::from_utf8_lossy(&client.stdout),
        String::from_utf8_lossy(&client.stderr),
    );
    let line = said.lines().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| failed(format!("it printed no times: {}", errors.trim())))?;
    let line: Line = serde_json::from_str(line)
        .map_err(|error| failed(format!("its line `{line}`: {error}")))?;
    Ok(Measured {
        round_trip_ns: line.result.ns.mean,
        hash: outcome.digest(),
    })
}
