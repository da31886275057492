// SPDX-License-Identifier: Apache-2.0
//! Configuration: a TOML file, which the environment overrides.
//!
//! ```toml
//! backend = "soft"                      # or "pcie", "rack"                  IPNUMA_BACKEND
//! daemon = "/run/ipnuma/daemon.sock"    #                                    IPNUMA_DAEMON
//! profile = "throughput"                # or "latency"                       IPNUMA_PROFILE
//! spin_us = 50                          # spin that long before sleeping     IPNUMA_SPIN_US
//! trace = false                         # say what is (not) accelerated      IPNUMA_TRACE
//!
//! [socket]                              # the socket library
//! enable = true                         #                                    IPNUMA_SOCKET
//! ports = ["11211", "8000-8099"]        # only these; all if missing         IPNUMA_PORTS
//! heartbeat = true                      # sleepers look up twice a second    IPNUMA_HEARTBEAT
//! learn = true                          # short connections: the kernel's    IPNUMA_LEARN
//!
//! [rack]                                # in a guest of the virtual rack
//! request_ns = 0                        # a program's work for a request     IPNUMA_REQUEST_NS
//! calls_ns = { send = 0, send_kib = 0 } # the socket library's calls         IPNUMA_CALLS_NS
//! ```
//!
//! The file is `$IPNUMA_CONFIG`, `$XDG_CONFIG_HOME/ipnuma/config.toml` (`~/.config`), or `/etc/ipnuma.toml`: the first
//! that exists. No file is as good as an empty one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

#[cfg(feature = "pcie")]
use crate::backend::pcie::PcieConfig;
use crate::backend::rack::RackConfig;
use crate::error::{Error, Result};

/// What carries the stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Shared memory on this machine, the daemon's software NIC between machines.
    #[default]
    Soft,
    /// A board.
    Pcie,
    /// The NIC of a guest in the rack.
    Rack,
}

/// What waits are good at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Spins as long as a sleep and a wake-up would take, less often where that was in vain: the cores do most work so.
    #[default]
    Throughput,
    /// Spins on, however long it takes: for threads with cores of their own.
    Latency,
}

impl Profile {
    /// How long waits spin before they sleep, unless something else is configured.
    #[must_use]
    pub const fn spin(self) -> Duration {
        match self {
            Self::Throughput => Duration::from_micros(50),
            Self::Latency => Duration::from_millis(100),
        }
    }
}

/// The configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// What carries the stores.
    pub backend: BackendKind,
    /// Where the daemon listens.
    pub daemon: PathBuf,
    /// What waits are good at.
    pub profile: Profile,
    /// How long waits spin before they sleep.
    pub spin: Duration,
    /// Whether the socket library says on stderr what it accelerates.
    pub trace: bool,
    /// The socket library's part.
    pub socket: SocketConfig,
    /// The guest's NIC.
    pub rack: RackConfig,
    /// The board, if there is one.
    #[cfg(feature = "pcie")]
    pub pcie: Option<PcieConfig>,
}

/// What the socket library shall do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketConfig {
    /// Whether it does anything.
    pub enable: bool,
    /// Ports of servers that are accelerated; all if empty.
    pub ports: Vec<Ports>,
    /// Whether sleepers wake now and then, to look for what nobody rings for. Not in the virtual rack, where to look at
    /// a clock takes time.
    pub heartbeat: bool,
    /// Where connections to an address are all short, the next ones are left to the kernel.
    pub learn: bool,
}

/// A range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// First one.
    pub first: u16,
    /// Last one.
    pub last: u16,
}

impl SocketConfig {
    /// Whether sockets of servers at `port` are to be accelerated.
    #[must_use]
    pub fn accelerates(&self, port: u16) -> bool {
        self.enable
            && (self.ports.is_empty()
                || self
                    .ports
                    .iter()
                    .any(|range| (range.first..=range.last).contains(&port)))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backend: BackendKind::Soft,
            daemon: ipc::client::default_path(),
            profile: Profile::default(),
            spin: Profile::default().spin(),
            trace: false,
            socket: SocketConfig {
                enable: true,
                ports: Vec::new(),
                heartbeat: true,
                learn: true,
            },
            rack: RackConfig::default(),
            #[cfg(feature = "pcie")]
            pcie: None,
        }
    }
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    backend: Option<BackendKind>,
    daemon: Option<PathBuf>,
    #[serde(default)]
    profile: Profile,
    spin_us: Option<u64>,
    trace: Option<bool>,
    #[serde(default)]
    socket: SocketTable,
    #[serde(default)]
    rack: RackConfig,
    #[cfg(feature = "pcie")]
    pcie: Option<PcieConfig>,
    /// Not understood without the back end, but not an error either.
    #[cfg(not(feature = "pcie"))]
    #[serde(rename = "pcie")]
    _pcie: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SocketTable {
    enable: Option<bool>,
    ports: Option<Vec<Spanned<String>>>,
    heartbeat: Option<bool>,
    learn: Option<bool>,
}

impl Config {
    /// The file and the environment.
    ///
    /// # Errors
    /// If one of them cannot be understood, or the file not be read.
    pub fn load() -> Result<Self> {
        let environment = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let config = match environment("IPNUMA_CONFIG") {
            Some(path) => Self::read(Path::new(&path))?,
            None => match places(environment).iter().find(|path| path.exists()) {
                Some(path) => Self::read(path)?,
                None => Self::default(),
            },
        };
        config.with_environment(|name| {
            environment(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// A file.
    ///
    /// # Errors
    /// If it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let text = input::text(path).map_err(|why| Error::Config {
            place: place.clone(),
            problem: format!("{why}; name another file with $IPNUMA_CONFIG, or leave it away"),
        })?;
        Self::parse(&text, &place)
    }

    /// A file's text; `place` is for messages.
    ///
    /// # Errors
    /// If it cannot be understood.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let wrong = |problem: String| Error::Config {
            place: place.to_owned(),
            problem,
        };
        let file: File = toml::from_str(text)
            .map_err(|error| wrong(input::at_line(text, error.span(), error.message())))?;
        let default = Self::default();
        let ports = file.socket.ports.unwrap_or_default();
        Ok(Self {
            backend: file.backend.unwrap_or(default.backend),
            daemon: file.daemon.unwrap_or(default.daemon),
            profile: file.profile,
            spin: file
                .spin_us
                .map_or(file.profile.spin(), Duration::from_micros),
            trace: file.trace.unwrap_or(default.trace),
            socket: SocketConfig {
                enable: file.socket.enable.unwrap_or(default.socket.enable),
                ports: ports
                    .iter()
                    .map(|ports| {
                        parse_ports(ports.get_ref()).map_err(|problem| {
                            wrong(input::at_line(text, Some(ports.span()), &problem))
                        })
                    })
                    .collect::<Result<_>>()?,
                heartbeat: file.socket.heartbeat.unwrap_or(default.socket.heartbeat),
                learn: file.socket.learn.unwrap_or(default.socket.learn),
            },
            rack: file.rack,
            #[cfg(feature = "pcie")]
            pcie: file.pcie,
        })
    }

    /// This configuration, overridden by variables.
    ///
    /// # Errors
    /// If one of them cannot be understood.
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let wrong = |name: &str, problem: String| Error::Config {
            place: format!("${name}"),
            problem,
        };
        let flag = |name: &str| match variable(name).as_deref() {
            None => Ok(None),
            Some("1" | "true" | "yes" | "on") => Ok(Some(true)),
            Some("0" | "false" | "no" | "off") => Ok(Some(false)),
            Some(other) => Err(wrong(name, format!("{other:?}: write 0 or 1"))),
        };
        if let Some(value) = variable("IPNUMA_BACKEND") {
            self.backend = match value.as_str() {
                "soft" => BackendKind::Soft,
                "pcie" => BackendKind::Pcie,
                "rack" => BackendKind::Rack,
                _ => {
                    return Err(wrong(
                        "IPNUMA_BACKEND",
                        format!("{value:?}: back ends are soft, pcie and rack"),
                    ));
                }
            };
        }
        if let Some(value) = variable("IPNUMA_DAEMON") {
            self.daemon = value.into();
        }
        if let Some(value) = variable("IPNUMA_PROFILE") {
            self.profile = match value.as_str() {
                "throughput" => Profile::Throughput,
                "latency" => Profile::Latency,
                _ => {
                    return Err(wrong(
                        "IPNUMA_PROFILE",
                        format!("{value:?}: profiles are throughput and latency"),
                    ));
                }
            };
            self.spin = self.profile.spin();
        }
        if let Some(value) = variable("IPNUMA_SPIN_US") {
            let micros = value.parse().map_err(|_| {
                wrong(
                    "IPNUMA_SPIN_US",
                    format!("{value:?}: write a number of microseconds"),
                )
            })?;
            self.spin = Duration::from_micros(micros);
        }
        if let Some(value) = variable("IPNUMA_REQUEST_NS") {
            self.rack.request_ns = value.parse().map_err(|_| {
                wrong(
                    "IPNUMA_REQUEST_NS",
                    format!("{value:?}: write a number of nanoseconds"),
                )
            })?;
        }
        if let Some(value) = variable("IPNUMA_CALLS_NS") {
            let costs = value.parse();
            self.rack.calls_ns = costs.map_err(|problem| wrong("IPNUMA_CALLS_NS", problem))?;
        }
        if let Some(value) = variable("IPNUMA_PORTS") {
            let ports = value.split(',').map(|ports| parse_ports(ports.trim()));
            self.socket.ports = ports
                .collect::<Result<_, _>>()
                .map_err(|problem| wrong("IPNUMA_PORTS", problem))?;
        }
        self.trace = flag("IPNUMA_TRACE")?.unwrap_or(self.trace);
        self.socket.enable = flag("IPNUMA_SOCKET")?.unwrap_or(self.socket.enable);
        self.socket.heartbeat = flag("IPNUMA_HEARTBEAT")?.unwrap_or(self.socket.heartbeat);
        self.socket.learn = flag("IPNUMA_LEARN")?.unwrap_or(self.socket.learn);
        Ok(self)
    }
}

/// Where the file may be.
fn places(environment: impl Fn(&str) -> Option<std::ffi::OsString>) -> Vec<PathBuf> {
    let home = environment("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| environment("HOME").map(|home| Path::new(&home).join(".config")));
    let mut places: Vec<PathBuf> = home
        .into_iter()
        .map(|home| home.join("ipnuma/config.toml"))
        .collect();
    places.push("/etc/ipnuma.toml".into());
    places
}

fn parse_ports(text: &str) -> Result<Ports, String> {
    let wrong = || format!("{text:?} is no port and no range of ports; write 80 or 8000-8099");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        Err(wrong())
    } else {
        Ok(Ports { first, last })
    }
}
