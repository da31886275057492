// SPDX-License-Identifier: Apache-2.0
//! Rows of chapter 5: a PC as a router, a Linux guest with two conventional NICs in RTL, and a FIBNIC that the same frames
//! pass.

use std::collections::BTreeMap;
use std::path::Path;

use rack::cpu::CpuSpec;
use rack::guests::run_uml;
use rack::run::{Options, rtl};
use rack::{Error, Topology};
use serde::Deserialize;

use super::Found;

/// `run` of a row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    of: Device,
    /// Of a frame, with its FCS.
    bytes: usize,
    #[serde(default)]
    charged: Charged,
    /// Figure of the paper that is added: a pair of PHYs, which RTL does not have.
    pub phy: Option<String>,
}

/// What the frames pass.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Device {
    PcRouter,
    Fibnic,
}

/// What the router's kernel takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Charged {
    /// Its driver.
    #[default]
    Driver,
    /// And all of its protocol stack.
    DriverAndStack,
}

const TOPOLOGY: &str = include_str!("../../../../experiments/topologies/uml-pc-router.toml");
/// Names in it.
const SENDER: &str = "a";
const ROUTER: &str = "router";
const FIBNIC: &str = "fibnic";
/// Ethernet, IPv4 and ICMP around the contents of a ping.
const AROUND_BYTES: usize = 14 + 20 + 8 + 4;
/// Pings; each passes there and back.
const PINGS: u64 = 20;

/// What came out of a run.
struct Measured {
    /// The greatest of all frames, ns.
    router_ns: f64,
    fibnic_ns: f64,
    hash: String,
}

/// Runs, each made once; with the sentence of one that failed.
#[derive(Default)]
pub struct Routers {
    known: BTreeMap<(usize, Charged), Result<Measured, String>>,
}

fn topology(bytes: usize, charged: Charged) -> Result<Topology, Error> {
    let mut topology = Topology::parse(TOPOLOGY, Path::new("uml-pc-router.toml"))?;
    let contents = bytes.checked_sub(AROUND_BYTES).ok_or_else(|| {
        Error::Config(format!(
            "bytes: no ping is in a frame of {bytes}; write {AROUND_BYTES} at least"
        ))
    })?;
    for host in &mut topology.host {
        match host.name.as_ref().as_str() {
            SENDER => {
                let ping = format!("sleep 0.1; ping -c {PINGS} -i 0.02 -s {contents} b");
                host.command = Some(ping);
            }
            ROUTER => host.cpu = CpuSpec::forwarding(charged == Charged::DriverAndStack),
            _ => {}
        }
    }
    topology.checked()
}

fn run(bytes: usize, charged: Charged) -> Result<Measured, Error> {
    let topology = topology(bytes, charged)?;
    let outcome = run_uml(&topology, &Options::default(), &rtl)?;
    let passages = outcome.passages();
    let most = |name: &str| {
        let mut of_name = passages.iter().filter(|passage| passage.name == name);
        let found = of_name.find(|passage| passage.bytes == bytes);
        let latency = found.map(|passage| passage.latency).unwrap_or_default();
        if latency.count == 2 * PINGS {
            return Ok(latency.max.as_ns());
        }
        Err(Error::Program {
            time: outcome.simulated,
            host: name.to_owned(),
            reason: format!(
                "{} of {} frames of {bytes} bytes passed it",
                latency.count,
                2 * PINGS
            ),
        })
    };
    Ok(Measured {
        router_ns: most(ROUTER)?,
        fibnic_ns: most(FIBNIC)?,
        hash: outcome.digest(),
    })
}

impl Routers {
    /// The figure of a row; `phy_ns` is what its `phy` stands for. Without the guests' kernel there is nothing to run.
    pub fn measure(&mut self, row: &Measurement, phy_ns: Option<f64>) -> Found {
        if let Err(needs) = crate::memcached::ready() {
            return Found::nothing(format!("not run: needs {needs}"));
        }
        let key = (row.bytes, row.charged);
        let known = self.known.entry(key);
        let known = known.or_insert_with(|| run(key.0, key.1).map_err(|error| error.to_string()));
        let measured = match known {
            Ok(measured) => measured,
            Err(sentence) => {
                let mut found = Found::nothing(format!("not run: it failed {sentence}"));
                found.fault = true;
                return found;
            }
        };
        let phy_ns = phy_ns.unwrap_or(0.0);
        let found = match row.of {
            Device::PcRouter => Found::new(measured.router_ns + phy_ns, "Linux, RTL and constants"),
            Device::Fibnic => {
                let value = measured.fibnic_ns + phy_ns;
                let percent = 100.0 * measured.fibnic_ns / value.max(1e-9);
                Found::new(value, "RTL + PHYs").with_rtl(Some(percent))
            }
        };
        found.of_run(&measured.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topology_has_what_its_rows_change() {
        for (charged, ns) in [(Charged::Driver, 586), (Charged::DriverAndStack, 2_683)] {
            let topology = topology(64, charged).expect("it is sound");
            let host = |name| &topology.host[topology.host_index(name).expect("it is there")];
            let command = host(SENDER).command.as_deref();
            assert_eq!(command, Some("sleep 0.1; ping -c 20 -i 0.02 -s 18 b"));
            assert_eq!(host(ROUTER).cpu.kernel_send_ns, Some(ns));
            assert!(topology.switch_index(FIBNIC).is_some());
        }
        // As it is, it is the first row's.
        let written = Topology::parse(TOPOLOGY, Path::new("uml-pc-router.toml"));
        let written = written.expect("it is sound").to_toml();
        let made = topology(64, Charged::Driver)
            .expect("it is sound")
            .to_toml();
        assert_eq!(written, made);
        let error = topology(45, Charged::Driver).expect_err("it is too short");
        assert!(error.to_string().contains("write 46 at least"), "{error}");
    }
}
