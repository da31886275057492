// SPDX-License-Identifier: Apache-2.0
//! `ipnuma memcached`: chapter 6. An unmodified memcached and its client in Linux hosts, over conventional NICs or
//! IP-NUMA, through no switch, one, or four.

use std::fmt::Write as _;
use std::path::{Path as FilePath, PathBuf};
use std::process::ExitCode;

use ::mcb::{Command, Report, Transport};
use rack::guests::{UmlOutcome, run_uml};
use rack::init::mac_text;
use rack::run::{Options, rtl};
use rack::{Error, Topology, tables};
use serde::{Deserialize, Serialize};

use crate::request;
use crate::waterfall::{Kind, Waterfall};
use crate::{Failure, RateArgument, text};

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs every combination of the lists. The hosts are whole Linux machines on simulated time, and need the kernel that
tools/uml-kernel builds once, in some minutes. Times are simulated: the same arguments give the same times and hashes.

  ipnuma memcached
  ipnuma memcached --place rack --command set,get,add --length 16 --count 1000
  ipnuma memcached --place racks --transport socket --switch fibnic --loss 0.01 --protocol tcp
  ipnuma memcached --place rack --cost application_ns=5000,kernel_send_ns=1000
  ipnuma memcached --place rack --transport ipnuma --switch fibnic --print-topology")]
pub struct Arguments {
    /// Commands that are timed
    #[arg(long, value_delimiter = ',', default_value = "get")]
    command: Vec<Command>,
    /// Bytes of a value
    #[arg(long, value_delimiter = ',', default_values_t = LENGTHS)]
    length: Vec<usize>,
    /// Where client and server are
    #[arg(long, value_delimiter = ',', default_value = "direct,rack,racks")]
    place: Vec<Place>,
    /// What carries the commands
    #[arg(long, value_delimiter = ',', default_value = "socket,ipnuma")]
    transport: Vec<Path>,
    /// Switches in the rack and between racks
    #[arg(long, value_delimiter = ',', default_value = "ax3630s,fibnic")]
    switch: Vec<SwitchKind>,
    /// Line rate
    #[arg(long, default_value = "1g")]
    rate: RateArgument,
    /// Commands of each kind and length
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// How commands travel
    #[arg(long, default_value = "udp")]
    protocol: Transport,
    /// NIC of the sockets
    #[arg(long, default_value = "ring")]
    nic: Nic,
    /// Probability that a cable loses a frame
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// A CPU cost in place of the published one
    #[arg(long, value_name = "NAME=NS", value_delimiter = ',', value_parser = cost)]
    cost: Vec<(String, u64)>,
    /// Draws the phases of the clocks, and what is lost
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep what the hosts leave behind, consoles among it, in this directory
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// Print the topologies and run nothing
    #[arg(long)]
    print_topology: bool,
    /// Take one GET of 16 bytes of each arrangement apart
    #[arg(long, conflicts_with = "print_topology")]
    stages: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn cost(text: &str) -> Result<(String, u64), String> {
    let (name, ns) = text
        .split_once('=')
        .ok_or("write NAME=NS, as application_ns=1167")?;
    let ns = ns
        .parse()
        .map_err(|_| format!("{ns:?} is no number of nanoseconds"))?;
    Ok((name.to_owned(), ns))
}

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

/// NICs that the kernel's sockets can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nic {
    /// Rings of descriptors, in RTL
    Ring,
    /// No RTL and no cost: to find out what a NIC costs
    Virtio,
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

/// Bytes of a value in table 6.3.
pub const LENGTHS: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// Table 5.2: from the first bit in to the first bit out, frames of 64 bytes; the author takes it for all sizes.
const AX3630S_NS: u64 = 4_072;
/// memcached's usual port.
const PORT: u16 = 11_211;
/// Where the client is told that the server listens.
const CLIENT: &str = "client";
const SERVER: &str = "server";
/// Where a guest finds the `ipnuma` command.
const PROGRAM: &str = "/run/program";
/// The daemons' port, and the network by which they and the kernels reach each other beside the NIC.
const MANAGEMENT: u16 = 3422;
const MANAGED: &str = "10.9.0.0/24";
/// Of a ring between machines: more than a GET of 512 bytes needs.
const RING_LINES: u32 = 64;
/// Length of the subnets.
const PREFIX: u8 = 24;

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

    /// In tables.
    fn name(self) -> String {
        let switch = self
            .switch
            .map(|switch| format!(" + {}", switch.name()))
            .unwrap_or_default();
        match self.place {
            Place::Loopback => self.place.name().to_owned(),
            place => format!("{}, {}{switch}", place.name(), self.path.name()),
        }
    }

    /// All combinations that make sense, in the dissertation's order.
    fn all(arguments: &Arguments) -> Vec<Self> {
        let mut found = Vec::new();
        for place in &arguments.place {
            let switches: Vec<_> = match place.way().0 {
                0 => vec![None],
                _ => arguments.switch.iter().copied().map(Some).collect(),
            };
            let paths = match place {
                Place::Loopback => &[Path::Socket][..],
                _ => &arguments.transport,
            };
            for path in paths {
                for switch in &switches {
                    let setup = Self {
                        place: *place,
                        path: *path,
                        switch: *switch,
                        rate: arguments.rate,
                    };
                    if !found.contains(&setup) {
                        found.push(setup);
                    }
                }
            }
        }
        found
    }

    /// Address at an end of a link: the client's end of the first is `left`.
    fn address(link: usize, right: bool) -> String {
        format!("10.0.{link}.{}", 1 + u8::from(right))
    }

    /// The topology file, with the commands of the hosts.
    pub fn topology(self, batch: &Batch) -> String {
        let (switches, metres) = self.place.way();
        let rate = self.rate.name();
        let kind = match (self.path, batch.nic) {
            (Path::Ipnuma, _) => "ipnuma",
            (Path::Socket, Nic::Ring) => "ring",
            (Path::Socket, Nic::Virtio) => "virtio",
        };
        let loopback = self.place == Place::Loopback;
        let server_ip = Self::address(switches, true);
        let asked = match self.path {
            _ if loopback => "127.0.0.1",
            // By the name's address the daemons know each other's connections.
            Path::Ipnuma => SERVER,
            Path::Socket => &server_ip,
        };
        let gateways =
            (switches > 0).then(|| [tables::port_mac(0, 0), tables::port_mac(switches - 1, 1)]);
        let gateway = |end: usize| gateways.map(|gateways| mac_text(gateways[end]));
        let listens = batch.server(self.path, gateway(1));
        let asks = batch.client(self.path, gateway(0), asked);
        let [client_command, server_command] = if loopback {
            // In one host, where the command is brought only once.
            let asks = batch.asks(self.path, asked);
            // No driver sees a request here: what it would charge for memcached's work, both ways charge half of.
            let costs = "ns=$((IPNUMA_LOOPBACK_NS + IPNUMA_APPLICATION_NS / 2))\n\
                         tc qdisc change dev lo root netem limit 100000 delay $(printf %d.%03d $((ns / 1000)) $((ns % 1000)))us || exit 1";
            [
                format!("{costs}\n{} &\n{asks}", listens.replace("exec ", "")),
                "sleep 1000000".to_owned(),
            ]
        } else {
            [asks, listens]
        };
        let mut out = format!(
            "# SPDX-License-Identifier: Apache-2.0\n# memcached, {}, {rate}; made by ipnuma memcached.\n\
             platform = \"keio-2016\"\nseed = {}\n",
            self.name(),
            batch.seed
        );
        if !batch.costs.is_empty() {
            let costs = batch.costs.iter();
            let costs: Vec<_> = costs.map(|(name, ns)| format!("{name} = {ns}")).collect();
            let _ = writeln!(out, "cpu = {{ {} }}", costs.join(", "));
        }
        for (name, ip, command) in [
            (CLIENT, Self::address(0, false), client_command),
            (SERVER, server_ip, server_command),
        ] {
            let _ = write!(
                out,
                "\n[[host]]\nname = \"{name}\"\nkind = \"uml\"\nnic = {{ kind = \"{kind}\", rate = \"{rate}\", ip = \"{ip}\" }}\n\
                 command = '''\n{command}\n'''\n"
            );
        }
        let latency = match self.switch {
            Some(SwitchKind::Ax3630s) => format!("latency_ns = {AX3630S_NS}\n"),
            _ => String::new(),
        };
        for switch in 0..switches {
            let _ = write!(
                out,
                "\n[[switch]]\nname = \"sw{}\"\nrate = \"{rate}\"\nports = 2\n{latency}port = [\n  {{ number = 0, address = \"{}/{PREFIX}\" }},\n  \
                 {{ number = 1, address = \"{}/{PREFIX}\" }},\n]\n",
                switch + 1,
                Self::address(switch, true),
                Self::address(switch + 1, false),
            );
            // The hosts' own subnets, where they are not the switch's.
            let mut routes = Vec::new();
            if switch > 0 {
                routes.push((0, Self::address(switch, false)));
            }
            if switch + 1 < switches {
                routes.push((switches, Self::address(switch + 1, true)));
            }
            if !routes.is_empty() {
                out += "route = [\n";
                for (link, via) in routes {
                    let _ = writeln!(
                        out,
                        "  {{ prefix = \"10.0.{link}.0/{PREFIX}\", via = \"{via}\" }},"
                    );
                }
                out += "]\n";
            }
        }
        for link in 0..=switches {
            let left = if link == 0 {
                CLIENT.to_owned()
            } else {
                format!("sw{link}:1")
            };
            let right = if link == switches {
                SERVER.to_owned()
            } else {
                format!("sw{}:0", link + 1)
            };
            let faults = if batch.loss > 0.0 {
                format!("faults = {{ loss = {} }}\n", batch.loss)
            } else {
                String::new()
            };
            let _ = write!(
                out,
                "\n[[cable]]\nbetween = [\"{left}\", \"{right}\"]\nmetres = {}\n{faults}",
                metres / (switches + 1) as f64
            );
        }
        let _ = write!(
            out,
            "\n[program]\nkind = \"uml\"\nuntil = [\"{CLIENT}\"]\nlimit_s = {LIMIT_S}\n"
        );
        out
    }
}

/// Simulated seconds after which a run has failed: starting takes one or two.
const LIMIT_S: u32 = 600;

/// What is asked in one arrangement.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Commands and the lengths of their values, in order.
    pub commands: Vec<(Command, usize)>,
    /// Of each, timed.
    pub count: u64,
    /// Of each, before: ARP, the first packets of a connection.
    pub warmup: u64,
    /// How they travel.
    pub protocol: Transport,
    /// NIC of the sockets.
    pub nic: Nic,
    /// Probability that a cable loses a frame.
    pub loss: f64,
    /// CPU costs in place of the published ones.
    pub costs: Vec<(String, u64)>,
    /// Of the run.
    pub seed: u64,
    /// The `ipnuma` command, as the hosts find it.
    pub program: PathBuf,
    /// Where the hosts leave what they write.
    pub keep: Option<PathBuf>,
}

/// Commands that are not timed, of each kind.
const WARMUP: u64 = 4;

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
            warmup: WARMUP,
            protocol: Transport::Udp,
            nic: Nic::Ring,
            loss: 0.0,
            costs: Vec::new(),
            seed: 1,
            program: std::env::current_exe().unwrap_or_else(|_| "ipnuma".into()),
            keep: None,
        }
    }

    /// Between machines the socket library carries streams only.
    fn protocol(&self, path: Path) -> Transport {
        match path {
            Path::Socket => self.protocol,
            Path::Ipnuma => Transport::Tcp,
        }
    }

    /// Brings the `ipnuma` command, wherever it is on this machine, to a place that no guest covers with its own.
    fn mount(&self) -> String {
        let directory = self.program.parent().unwrap_or(FilePath::new("/"));
        format!(
            "mkdir -p {PROGRAM} && mount -t hostfs -o {} host {PROGRAM} || exit 1\n",
            directory.display()
        )
    }

    /// The command in a guest.
    fn ipnuma(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        format!("{PROGRAM}/{}", name.to_string_lossy())
    }

    /// Starts the daemon, whose NIC is the rack's; without IP-NUMA there is nothing to start.
    fn daemon(&self, path: Path, gateway: Option<String>) -> String {
        let gateway = gateway.map_or(String::new(), |mac| format!(",{mac}"));
        let (mount, ipnuma) = (self.mount(), self.ipnuma());
        match path {
            Path::Socket => mount,
            // Polling takes no simulated time: nobody spins, and nobody wakes up without a reason.
            Path::Ipnuma => format!(
                "{mount}export IPNUMA_SPIN_US=0 IPNUMA_HEARTBEAT=0\n\
                 cat > /tmp/daemon.toml <<END\n[remote]\nsockets = [\"{MANAGED}\"]\nring_lines = {RING_LINES}\nspin_us = 0\nEND\n\
                 {ipnuma} daemon --background --config /tmp/daemon.toml --management $IPNUMA_MANAGEMENT:{MANAGEMENT} \
                 --nic rack:/dev/ipnuma0,$IPNUMA_MAC,$IPNUMA_IP/$IPNUMA_PREFIX{gateway} \
                 > daemon.log 2>&1 || {{ cat daemon.log >&2; exit 1; }}\n"
            ),
        }
    }

    /// How programs are started.
    fn with(&self, path: Path) -> String {
        match path {
            Path::Socket => String::new(),
            Path::Ipnuma => format!("{} run -- ", self.ipnuma()),
        }
    }

    /// What the server's shell runs.
    fn server(&self, path: Path, gateway: Option<String>) -> String {
        // The daemons know the listeners of the address by which they know each other.
        let address = match path {
            Path::Socket => "0.0.0.0",
            Path::Ipnuma => "$IPNUMA_MANAGEMENT",
        };
        // Between packets and memcached there is no driver that could charge its work.
        let costs = match path {
            Path::Socket => "",
            Path::Ipnuma => "export IPNUMA_REQUEST_NS=$IPNUMA_APPLICATION_NS\n",
        };
        format!(
            "{}{costs}exec {}memcached -u root -l {address} -p {PORT} -U {PORT} -t 1 -m 64",
            self.daemon(path, gateway),
            self.with(path)
        )
    }

    /// What the client's shell runs: waits for the server, then prints a line of JSON for each command.
    fn client(&self, path: Path, gateway: Option<String>, server: &str) -> String {
        self.daemon(path, gateway) + &self.asks(path, server)
    }

    fn asks(&self, path: Path, server: &str) -> String {
        let (ipnuma, with) = (self.ipnuma(), self.with(path));
        let protocol = self.protocol(path).name().to_lowercase();
        // What is lost is sent again: at once by TCP, by mcb itself otherwise.
        let retries = if self.loss > 0.0 && self.protocol(path) == Transport::Udp {
            " --retries 100 --timeout-ms 20"
        } else {
            " --timeout-ms 10000"
        };
        let mut out = format!(
            "ask() {{ {with}{ipnuma} mcb -a {server} -p {PORT} -T {protocol} --total --json \"$@\"; }}\n\
             tries=0\n\
             until ask -c set -n 1 --prefix ready --timeout-ms 100 > ready.log 2>&1; do\n  \
             tries=$((tries + 1))\n  \
             [ $tries -lt 100 ] || {{ cat ready.log >&2; exit 1; }}\n  \
             sleep 0.1\ndone\n"
        );
        for (number, (command, length)) in self.commands.iter().enumerate() {
            let _ = writeln!(
                out,
                "ask -c {} -n {} -l {length} --warmup {} --fresh --prefix b{number}{retries} || exit 1",
                command.name(),
                self.count,
                self.warmup
            );
        }
        out.truncate(out.trim_end().len());
        out
    }
}

/// A CPU cost that was charged.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Seconds that it took, without the starting of the hosts.
    #[serde(skip)]
    pub wall_seconds: f64,
}

impl Measured {
    /// The report on a command.
    pub fn report(&self, command: Command, length: usize) -> Option<&Report> {
        let mut reports = self.reports.iter();
        reports.find(|report| report.command == command && report.length == length)
    }

    /// Reads it from an outcome.
    pub fn of(outcome: &UmlOutcome) -> Result<Self, Error> {
        let client = outcome
            .guest(CLIENT)
            .ok_or_else(|| Error::Config("the run has no client".to_owned()))?;
        let gave_up = |reason: String| Error::Program {
            time: outcome.simulated,
            host: CLIENT.to_owned(),
            reason,
        };
        if client.status != Some(0) {
            let said = String::from_utf8_lossy(&client.stderr);
            return Err(gave_up(match said.trim() {
                "" => "its command failed and said nothing".to_owned(),
                said => said.lines().last().unwrap_or(said).to_owned(),
            }));
        }
        let costs: Vec<_> = client
            .costs
            .iter()
            .map(|cost| Cost {
                name: cost.name.to_owned(),
                ns: cost.ns,
                source: cost.source.to_owned(),
            })
            .collect();
        let application = costs.iter().find(|cost| cost.name == "application_ns");
        Ok(Self {
            reports: reports(&client.stdout).map_err(gave_up)?,
            hash: outcome.digest(),
            application_ns: application.map_or(0.0, |cost| cost.ns as f64),
            costs,
            guests: kernel(&client.console),
            simulated_ns: outcome.simulated.as_ns(),
            wall_seconds: outcome.wall_seconds,
        })
    }
}

/// What the client printed.
fn reports(stdout: &[u8]) -> Result<Vec<Report>, String> {
    let lines = String::from_utf8_lossy(stdout);
    let lines = lines.lines().filter(|line| line.starts_with('{'));
    let reports: Result<Vec<Report>, _> = lines
        .map(|line| {
            serde_json::from_str(line).map_err(|error| format!("mcb's line `{line}`: {error}"))
        })
        .collect();
    reports.and_then(|reports| {
        if reports.is_empty() {
            Err("its command printed no times".to_owned())
        } else {
            Ok(reports)
        }
    })
}

/// The kernel's first line without the compiler, and memcached's version.
fn kernel(console: &str) -> String {
    let line = console.lines().find_map(|line| {
        let (_, rest) = line.split_once("Linux version ")?;
        rest.split_whitespace()
            .next()
            .map(|version| format!("Linux {version}, User-Mode Linux"))
    });
    line.unwrap_or_else(|| "Linux, User-Mode Linux".to_owned())
}

/// Whether it can be run here; else what it needs.
pub fn ready() -> Result<(), String> {
    match uml::kernel() {
        Ok(_) => Ok(()),
        Err(_) => Err(
            "the kernel of the hosts; tools/uml-kernel builds it, once, in some minutes".to_owned(),
        ),
    }
}

/// Runs one arrangement, with `keep` frames and TLPs kept.
pub fn run_setup(
    setup: Setup,
    batch: &Batch,
    keep: usize,
) -> Result<(Topology, UmlOutcome), Error> {
    if let Err(needs) = ready() {
        return Err(Error::Config(format!(
            "memcached cannot be run: it needs {needs}"
        )));
    }
    let topology = Topology::parse(&setup.topology(batch), FilePath::new("ipnuma memcached"))?;
    let options = Options {
        directory: batch.keep.as_ref().map(|keep| keep.join(setup.key())),
        keep,
        ..Options::default()
    };
    let outcome = run_uml(&topology, &options, &rtl)?;
    Ok((topology, outcome))
}

/// What one arrangement takes.
pub fn measure(setup: Setup, batch: &Batch) -> Result<Measured, Error> {
    let outcome = run_setup(setup, batch, 0)?.1;
    let measured = Measured::of(&outcome)?;
    // An answer is a DMA write at least. Without one the client went back to the kernel's sockets beside the NIC.
    let answers: u64 = measured.reports.iter().map(|report| report.count).sum();
    let arrived = outcome
        .guest(CLIENT)
        .map_or(0, |client| client.accesses.dma_write);
    if setup.path == Path::Ipnuma && arrived < answers {
        return Err(Error::Config(format!(
            "{}: {answers} answers, but {arrived} DMA writes: they did not come by IP-NUMA. Were this program and the socket \
             library built from one source? cargo build -p cli -p preload",
            setup.name()
        )));
    }
    Ok(measured)
}

/// The last of a few GETs of 16 bytes, taken apart.
pub fn take_apart(setup: Setup) -> Result<Option<Waterfall>, Error> {
    let batch = Batch {
        commands: vec![(Command::Get, LENGTHS[0])],
        count: 8,
        ..Batch::all()
    };
    let (topology, outcome) = run_setup(setup, &batch, usize::MAX)?;
    let title = format!(
        "GET of {} bytes, {}, {}",
        LENGTHS[0],
        setup.rate.name().to_uppercase(),
        setup.name()
    );
    request::of(&title, &topology, &outcome)
}

/// One arrangement in the output.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    place: Place,
    transport: Path,
    switch: Option<SwitchKind>,
    #[serde(flatten)]
    measured: Measured,
}

fn batch(arguments: &Arguments) -> Result<Batch, Error> {
    if !(0.0..1.0).contains(&arguments.loss) {
        let sentence = format!(
            "--loss: {} is no probability; write 0 to 0.99",
            arguments.loss
        );
        return Err(Error::Config(sentence));
    }
    if arguments.count == 0 {
        return Err(Error::Config("--count: write at least 1".to_owned()));
    }
    let commands = arguments.command.iter();
    let commands =
        commands.flat_map(|command| arguments.length.iter().map(|length| (*command, *length)));
    Ok(Batch {
        commands: commands.collect(),
        count: arguments.count,
        protocol: arguments.protocol,
        nic: arguments.nic,
        loss: arguments.loss,
        costs: arguments.cost.clone(),
        seed: arguments.seed,
        keep: arguments.keep.clone(),
        ..Batch::all()
    })
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let batch = batch(arguments)?;
    let setups = Setup::all(arguments);
    if arguments.print_topology {
        for setup in setups {
            text::print(&setup.topology(&batch))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.stages {
        for setup in setups {
            if let Some(waterfall) = take_apart(setup)? {
                text::print(&stages(&waterfall))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for setup in setups {
        let measured = measure(setup, &batch)?;
        rows.push(Row {
            name: setup.name(),
            place: setup.place,
            transport: setup.path,
            switch: setup.switch,
            measured,
        });
    }
    let out = if arguments.json {
        serde_json::to_string_pretty(&rows).expect("numbers and strings have JSON") + "\n"
    } else {
        show(arguments, &batch, &rows)
    };
    text::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn stages(waterfall: &Waterfall) -> String {
    let mut out = format!("{}\n", waterfall.title);
    for stage in &waterfall.stages {
        let cycles = stage
            .cycles
            .map_or(String::new(), |cycles| format!("{cycles:.0} cycles"));
        let line = format!(
            "  {:<56}{:>8.1} ns  {:<9} {cycles}",
            stage.name,
            stage.to_ns - stage.from_ns,
            stage.kind.name(),
        );
        out += line.trim_end();
        out.push('\n');
    }
    let _ = write!(out, "  {:<56}{:>8.1} ns ", "in all", waterfall.total_ns());
    for kind in [Kind::Rtl, Kind::Constant, Kind::Cpu] {
        let _ = write!(out, " {} {:.0}", kind.name(), waterfall.sum_ns(kind));
    }
    out + "\n\n"
}

/// Times, then what they were computed with, then the hashes.
fn show(arguments: &Arguments, batch: &Batch, rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut out = text::wrap(
        &format!(
            "memcached and its client in Linux hosts, {}, {} commands of each, one after the other; sockets by {}, IP-NUMA \
             by TCP; simulated time.",
            arguments.rate.name().to_uppercase(),
            batch.count,
            batch.protocol.name(),
        ),
        0,
    );
    for command in &arguments.command {
        let name = command.name().to_uppercase();
        let _ = write!(out, "\n{:<34}", format!("ns per {name} of bytes"));
        for length in &arguments.length {
            let _ = write!(out, "{length:>10}");
        }
        out.push('\n');
        for row in rows {
            let _ = write!(out, "  {:<32}", row.name);
            for length in &arguments.length {
                let report = row.measured.report(*command, *length);
                let _ = write!(
                    out,
                    "{:>10.0}",
                    report.map_or(f64::NAN, |report| report.ns.mean)
                );
            }
            out.push('\n');
        }
        out += &shares(*command, &arguments.length, rows);
    }
    out += "\nCPU costs, assumed and charged in simulated time\n";
    for cost in &first.measured.costs {
        let _ = writeln!(
            out,
            "  {:<20}{:>8} ns   {}",
            cost.name, cost.ns, cost.source
        );
    }
    let _ = writeln!(
        out,
        "\n{:<34}{:>12}{:>14}   run hash",
        "", "simulated ms", "commands/s"
    );
    for row in rows {
        let commands: u64 = row.measured.reports.iter().map(|report| report.count).sum();
        let _ = writeln!(
            out,
            "  {:<32}{:>12.1}{:>14.0}   {}",
            row.name,
            row.measured.simulated_ns / 1e6,
            commands as f64 / row.measured.wall_seconds.max(1e-9),
            row.measured.hash.get(..16).unwrap_or(&row.measured.hash)
        );
    }
    out += &text::wrap(
        "commands/s are those of a second on this machine, and say nothing of the hosts; all else is simulated.",
        2,
    );
    out
}

/// As tables 6.7 and 6.8: commands a second beside sockets and AX3630S in the same place.
fn shares(command: Command, lengths: &[usize], rows: &[Row]) -> String {
    let mut out = String::new();
    let is_base =
        |row: &&Row| row.transport == Path::Socket && row.switch == Some(SwitchKind::Ax3630s);
    for base in rows.iter().filter(is_base) {
        let _ = writeln!(out, "\n% of the commands a second of {}", base.name);
        for row in rows.iter().filter(|row| row.place == base.place) {
            let _ = write!(out, "  {:<32}", row.name);
            for length in lengths {
                let ns = |row: &Row| {
                    row.measured
                        .report(command, *length)
                        .map(|report| report.ns.mean)
                };
                let share = ns(base).zip(ns(row)).map(|(base, ns)| 100.0 * base / ns);
                let _ = write!(out, "{:>9.0} %", share.unwrap_or(f64::NAN));
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [Place; 4] = [Place::Loopback, Place::Direct, Place::Rack, Place::Racks];

    fn setups() -> Vec<Setup> {
        let mut all = Vec::new();
        for place in PLACES {
            for path in [Path::Socket, Path::Ipnuma] {
                for rate in [RateArgument::One, RateArgument::Ten] {
                    let switches = [Some(SwitchKind::Ax3630s), Some(SwitchKind::Fibnic)];
                    let switches = if place.way().0 > 0 {
                        &switches[..]
                    } else {
                        &[None]
                    };
                    all.extend(switches.iter().map(|switch| Setup {
                        place,
                        path,
                        switch: *switch,
                        rate,
                    }));
                }
            }
        }
        all
    }

    #[test]
    fn every_topology_is_one() {
        for setup in setups() {
            for (nic, loss) in [(Nic::Ring, 0.0), (Nic::Virtio, 0.01)] {
                let batch = Batch {
                    nic,
                    loss,
                    ..Batch::all()
                };
                let text = setup.topology(&batch);
                let topology = Topology::parse(&text, FilePath::new("t"))
                    .unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(topology.host.len(), 2);
                assert_eq!(topology.switch.len(), setup.place.way().0);
                let metres: f64 = topology
                    .cable
                    .iter()
                    .map(|cable| *cable.metres.as_ref())
                    .sum();
                assert!((metres - setup.place.way().1).abs() < 1e-9);
            }
        }
    }

    /// As a client printed it.
    const SAMPLE: &str = r#"{"command":"set","transport":"udp","address":"10.0.0.2","port":11211,"threads":1,"length":16,"count":20,"ns":{"mean":51251.2},"elapsed_ns":1025024,"resent":0}
{"command":"get","transport":"udp","address":"10.0.0.2","port":11211,"threads":1,"length":16,"count":20,"ns":{"mean":50546.0},"elapsed_ns":1010920,"resent":1}
"#;

    #[test]
    fn the_clients_lines_are_read() {
        let found = reports(SAMPLE.as_bytes()).expect("they are reports");
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[1].command, found[1].length, found[1].resent),
            (Command::Get, 16, 1)
        );
        assert!((found[1].ns.mean - 50_546.0).abs() < 1e-9);
        assert!(reports(b"").is_err());
        assert!(reports(b"{\"command\":\"get\"}\n").is_err());
        let console = "x\n[    0.000000] Linux version 6.1.192 (someone@somewhere) (gcc)\n";
        assert_eq!(kernel(console), "Linux 6.1.192, User-Mode Linux");
    }

    fn row(setup: Setup, ns: f64) -> Row {
        let mut reports = reports(SAMPLE.as_bytes()).expect("they are reports");
        reports[1].ns.mean = ns;
        Row {
            name: setup.name(),
            place: setup.place,
            transport: setup.path,
            switch: setup.switch,
            measured: Measured {
                reports,
                hash: "0123456789abcdef0123".to_owned(),
                costs: vec![Cost {
                    name: "application_ns".to_owned(),
                    ns: 1167,
                    source: "a table".to_owned(),
                }],
                application_ns: 1167.0,
                guests: String::new(),
                simulated_ns: 2e6,
                wall_seconds: 0.5,
            },
        }
    }

    #[test]
    fn the_tables_have_times_shares_costs_and_hashes() {
        let arguments =
            <Wrapper as clap::Parser>::parse_from(["t", "--length", "16", "--place", "rack"])
                .arguments;
        let setups = Setup::all(&arguments);
        assert_eq!(setups.len(), 4);
        let rows: Vec<_> = setups
            .into_iter()
            .zip([58_890.0, 52_698.0, 19_819.0, 13_627.0])
            .map(|(setup, ns)| row(setup, ns))
            .collect();
        let out = show(&arguments, &batch(&arguments).expect("it is right"), &rows);
        let words_only = out.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "in the rack, socket + AX3630S 58890",
            "in the rack, IP-NUMA + FIBNIC 432 %",
            "application_ns 1167 ns a table",
            "2.0 80 0123456789abcdef",
        ] {
            assert!(words_only.contains(words), "{words}\n{out}");
        }
        assert!(
            out.lines().all(|line| line.chars().count() <= text::WIDTH),
            "{out}"
        );
    }

    #[derive(clap::Parser)]
    struct Wrapper {
        #[command(flatten)]
        arguments: Arguments,
    }
}
