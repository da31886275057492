// SPDX-License-Identifier: Apache-2.0
//! Chapter 6: an unmodified memcached and its client in Linux hosts, over conventional NICs or IP-NUMA, through no
//! switch, one, or four.

use rack::topology::Rate;
use serde::{Deserialize, Serialize};

use crate::fitted::Constants;

mod batch;
mod load;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod topology;

pub use batch::Batch;
pub(crate) use batch::{ipnuma, mount};
pub use load::{Busy, Load, Loaded, MOST_THREADS};
pub use run::{Cost, Measured, measure, ready, run_setup, take_apart};
pub use table::{Asked, LoadRow, Row, show, show_loads, stages};
pub use topology::set_cost;

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

impl Place {
    /// In tables.
    const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Direct => "direct",
            Self::Rack => "in the rack",
            Self::Racks => "between racks",
        }
    }

    /// Switches in a row, and metres of all cables together.
    const fn way(self) -> (usize, f64) {
        match self {
            Self::Loopback | Self::Direct => (0, 1.0),
            Self::Rack => (1, 20.0),
            Self::Racks => (4, 200.0),
        }
    }
}

/// What carries the commands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// The kernel's sockets and a conventional NIC
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

/// What the socket library's own calls cost the processor; code takes no time in a guest.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Library {
    /// Nothing, as the dissertation has it
    #[default]
    Free,
    /// What was measured (experiments/library.toml)
    Charged,
}

/// NICs that the kernel's sockets can have, and whether IP-NUMA shares one with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nic {
    /// Rings of descriptors, in RTL
    Ring,
    /// No RTL and no cost: to find out what a NIC costs
    Virtio,
    /// Rings and IP-NUMA as two functions of one NIC with one cable, in RTL
    Shared,
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
    pub rate: Rate,
    /// What the socket library's calls cost; of sockets nothing, as they have none.
    pub library: Library,
    /// What hosts take.
    pub constants: Constants,
}

/// Bytes of a value in table 6.3.
pub const LENGTHS: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// Where the client is told that the server listens.
const CLIENT: &str = "client";
const SERVER: &str = "server";

impl Setup {
    /// Name of the published times of a GET in `paper.toml`; with the library's calls charged, or fitted constants, there are none.
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
        let library = match self.library {
            Library::Free => "",
            Library::Charged => "_library",
        };
        let constants = match self.constants {
            Constants::Published => "",
            Constants::Fitted => "_fitted",
        };
        format!(
            "memcached_{place}_{path}{}{library}{constants}",
            switch.unwrap_or_default()
        )
    }

    /// In tables.
    pub fn name(self) -> String {
        let switch = self
            .switch
            .map(|switch| format!(" + {}", switch.name()))
            .unwrap_or_default();
        match self.place {
            Place::Loopback => self.place.name().to_owned(),
            place => {
                let library = match self.library {
                    Library::Free => "",
                    Library::Charged => ", calls charged",
                };
                let constants = match self.constants {
                    Constants::Published => "",
                    Constants::Fitted => ", fitted",
                };
                format!(
                    "{}, {}{switch}{library}{constants}",
                    place.name(),
                    self.path.name()
                )
            }
        }
    }

    /// All combinations that make sense, in the dissertation's order; an arrangement with the library's calls charged comes
    /// behind the same without.
    pub fn all(
        places: &[Place],
        transports: &[Path],
        switches: &[SwitchKind],
        libraries: &[Library],
        rate: Rate,
    ) -> Vec<Self> {
        let mut found = Vec::new();
        for place in places {
            let between: Vec<_> = match place.way().0 {
                0 => vec![None],
                _ => switches.iter().copied().map(Some).collect(),
            };
            let paths = match place {
                Place::Loopback => &[Path::Socket][..],
                _ => transports,
            };
            for path in paths {
                let libraries = match path {
                    Path::Socket => &[Library::Free][..],
                    Path::Ipnuma => libraries,
                };
                for (switch, library) in between
                    .iter()
                    .flat_map(|switch| libraries.iter().map(move |library| (switch, library)))
                {
                    let setup = Self {
                        place: *place,
                        path: *path,
                        switch: *switch,
                        rate,
                        library: *library,
                        constants: Constants::Published,
                    };
                    if !found.contains(&setup) {
                        found.push(setup);
                    }
                }
            }
        }
        found
    }
}
