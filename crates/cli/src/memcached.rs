// SPDX-License-Identifier: Apache-2.0
//! `ipnuma memcached`: chapter 6. An unmodified memcached and its client in Linux hosts, over conventional NICs or
//! IP-NUMA, through no switch, one, or four.

use mcb::{Command, Report};
use serde::{Deserialize, Serialize};

use crate::{Failure, RateArgument};

/// Where client and server are.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In one host
    Loopback,
    /// A cable of 1 m
    Direct,
    /// One switch, 20 m of cable
    Rack,
    /// Four switches, 200 m of cable
    Racks,
}

/// What carries the commands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// The kernel's sockets and a NIC with descriptor rings
    Socket,
    /// The socket library and the IP-NUMA NIC
    Ipnuma,
}

impl Path {
    /// In tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Ipnuma => "IP-NUMA",
        }
    }
}

/// The switches.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum SwitchKind {
    /// A model that stores frames and takes 4,072 ns
    Ax3630s,
    /// The project's, in RTL
    Fibnic,
}

impl SwitchKind {
    /// In tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ax3630s => "AX3630S",
            Self::Fibnic => "FIBNIC",
        }
    }
}

/// One arrangement of chapter 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    /// Where client and server are.
    pub place: Place,
    /// What carries the commands.
    pub path: Path,
    /// The switches, where there are some.
    pub switch: Option<SwitchKind>,
    /// Line rate.
    pub rate: RateArgument,
}

impl Setup {
    /// Name of the published times of a GET in `paper.toml`.
    pub fn key(self) -> String {
        let place = match self.place {
            Place::Loopback => return "memcached_loopback_get".to_owned(),
            Place::Direct => "direct",
            Place::Rack => "rack",
            Place::Racks => "racks",
        };
        let path = self.path.name().to_lowercase().replace('-', "");
        let switch = self
            .switch
            .map(|switch| format!("_{}", switch.name().to_lowercase()));
        format!("memcached_{place}_{path}{}", switch.unwrap_or_default())
    }
}

/// What is asked in one arrangement.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Commands and the lengths of their values, in order.
    pub commands: Vec<(Command, usize)>,
    /// Of each, timed.
    pub count: u64,
    /// Of each, before.
    pub warmup: u64,
}

/// Lengths of table 6.3.
pub const LENGTHS: [usize; 6] = [16, 32, 64, 128, 256, 512];

impl Batch {
    /// Everything that chapter 6 asks.
    pub fn all() -> Self {
        let commands = [Command::Set, Command::Get, Command::Add];
        let commands = commands
            .into_iter()
            .flat_map(|command| LENGTHS.map(|length| (command, length)));
        Self {
            commands: commands.collect(),
            count: 20,
            warmup: 2,
        }
    }
}

/// A CPU cost that was charged.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Its name.
    pub name: String,
    /// Nanoseconds.
    pub ns: u64,
    /// Where it is from.
    pub source: String,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// In the order of the batch.
    pub reports: Vec<Report>,
    /// Of all frames and TLPs with their times.
    pub hash: String,
    /// CPU costs that were charged.
    pub costs: Vec<Cost>,
    /// memcached's own part of a GET among them.
    pub application_ns: f64,
    /// Kernel and programs.
    pub guests: String,
    /// Simulated.
    pub simulated_ns: f64,
    /// Seconds that it took.
    #[serde(skip)]
    pub wall_seconds: f64,
}

impl Measured {
    /// The report on a command.
    pub fn report(&self, command: Command, length: usize) -> Option<&Report> {
        let mut reports = self.reports.iter();
        reports.find(|report| report.command == command && report.length == length)
    }
}

/// Whether it can be run here; else what it needs.
pub fn ready() -> Result<(), String> {
    Err("hosts of kind uml in the rack, which are not in this build".to_owned())
}

/// Runs one arrangement.
pub fn measure(_setup: Setup, _batch: &Batch) -> Result<Measured, Failure> {
    let needs = ready().err().unwrap_or_default();
    Err(rack::Error::Config(format!("memcached cannot be run: it needs {needs}")).into())
}
