// SPDX-License-Identifier: Apache-2.0
//! What the hosts' shells run.

use std::fmt::Write as _;
use std::path::{Path as FilePath, PathBuf};

use mcb::{Command, Transport};
use sha2::{Digest, Sha256};

use rack::cpu::CpuSpec;

use super::{LENGTHS, Nic, Path};
use crate::program::{self, word};

/// memcached's usual port.
const PORT: u16 = 11_211;
/// Where a guest finds the `ipnuma` command.
const PROGRAM: &str = "/run/program";
/// The daemons' port.
const MANAGEMENT: u16 = 3422;
/// Of a ring between machines: more than a GET of 512 bytes needs.
const RING_LINES: u32 = 64;

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
    /// The daemons know each other by keys, and sessions are sealed. Otherwise all is in clear, as in the dissertation.
    pub seal: bool,
    /// Threads of each client, where all clients begin at the same moment; none: there is one client, which does not wait.
    pub together: Option<usize>,
    /// Probability that a cable loses a frame.
    pub loss: f64,
    /// CPU costs in place of the published ones.
    pub costs: CpuSpec,
    /// Of the run.
    pub seed: u64,
    /// The `ipnuma` command, as the hosts find it.
    pub program: PathBuf,
    /// Where the hosts leave what they write.
    pub keep: Option<PathBuf>,
}

/// Brings a program, wherever it is on this machine, to a place that no guest covers with its own.
pub(crate) fn mount(program: &FilePath) -> String {
    let directory = program.parent().unwrap_or(FilePath::new("/"));
    format!(
        "mkdir -p {PROGRAM} && mount -t hostfs -o {} host {PROGRAM} || exit 1\n",
        word(directory)
    )
}

/// The program in a guest.
pub(crate) fn ipnuma(program: &FilePath) -> String {
    let name = program.file_name().unwrap_or_default();
    word(&FilePath::new(PROGRAM).join(name))
}

/// A key that everybody can draw who knows the seed, for hosts that are simulated: PEM of a PKCS #8 document of an Ed25519 key,
/// which is 16 bytes that are always the same and 32 of the key. In base64 the first are 21 digits and a part of the next.
fn key(seed: u64, host: usize) -> String {
    let drawn = Sha256::digest(format!("ipnuma memcached, seed {seed}, host {host}"));
    let digits = drawn.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    format!(
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA{}\n-----END PRIVATE KEY-----\n",
        &digits[..42]
    )
}

/// Commands that are not timed, of each kind.
const WARMUP: u64 = 4;
/// Simulated seconds after which clients begin together: all have found the server by then.
const TOGETHER_S: u64 = 2;

/// How the keys of a client begin that is one of several.
pub(super) fn prefix(client: usize) -> String {
    format!("c{client}")
}

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
            seal: false,
            together: None,
            loss: 0.0,
            costs: CpuSpec::default(),
            seed: 1,
            program: program::own().unwrap_or_else(|_| "ipnuma".into()),
            keep: None,
        }
    }

    fn mount(&self) -> String {
        mount(&self.program)
    }

    /// The command in a guest.
    fn ipnuma(&self) -> String {
        ipnuma(&self.program)
    }

    /// Starts the daemon, whose NIC is the rack's; without IP-NUMA there is nothing to start.
    fn daemon(&self, path: Path, host: usize, gateway: Option<String>) -> String {
        let network = "$IPNUMA_IP/$IPNUMA_PREFIX";
        let gateway = gateway.map_or(String::new(), |mac| format!(",{mac}"));
        let addresses = match self.nic {
            // The kernel's interface is on the same cable, and knows its neighbours.
            Nic::Shared => network.to_owned(),
            Nic::Ring | Nic::Virtio => format!("$IPNUMA_MAC,{network}{gateway}"),
        };
        let (mount, ipnuma) = (self.mount(), self.ipnuma());
        let (own, managed) = self.management();
        let (keys, believes) = self.keys(host, managed);
        match path {
            Path::Socket => mount,
            // Polling takes no simulated time: nobody spins, and nobody wakes up without a reason.
            Path::Ipnuma => format!(
                "{mount}{keys}export IPNUMA_SPIN_US=0 IPNUMA_HEARTBEAT=0\n\
                 cat > /tmp/daemon.toml <<END\n[remote]\nsockets = [\"{managed}\"]\nring_lines = {RING_LINES}\nspin_us = 0\nEND\n\
                 {ipnuma} daemon --background --config /tmp/daemon.toml --management {own}:{MANAGEMENT} {believes} --no-sandbox \
                 --nic rack:/dev/ipnuma0,{addresses} \
                 > daemon.log 2>&1 || {{ cat daemon.log >&2; exit 1; }}\n"
            ),
        }
    }

    /// What makes the keys of a host, and how its daemon is told of them. They are a function of the seed, so that two runs
    /// are the same: each host makes the other one's, too, whose fingerprint it is to trust.
    fn keys(&self, host: usize, managed: &str) -> (String, &'static str) {
        if !self.seal {
            return (String::new(), "--insecure");
        }
        let ipnuma = self.ipnuma();
        let [own, other] = [host, 1 - host].map(|host| key(self.seed, host));
        let lines = format!(
            "umask 077\ncat > /tmp/key <<END\n{own}END\ncat > /tmp/other_key <<END\n{other}END\numask 022\n\
             {ipnuma} key trust {managed} $({ipnuma} key --key /tmp/other_key) --known-peers /tmp/known_peers || exit 1\n"
        );
        (lines, "--key /tmp/key --known-peers /tmp/known_peers")
    }

    /// By which address, and in which network, daemons and kernels reach each other: beside the IP-NUMA NIC or over the same cable.
    fn management(&self) -> (&'static str, &'static str) {
        match self.nic {
            Nic::Shared => ("$IPNUMA_IP", "10.0.0.0/16"),
            Nic::Ring | Nic::Virtio => ("$IPNUMA_MANAGEMENT", "10.9.0.0/24"),
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
    pub(super) fn server(&self, path: Path, gateway: Option<String>) -> String {
        // The daemons know the listeners of the address by which they know each other.
        let address = match path {
            Path::Socket => "0.0.0.0",
            Path::Ipnuma => self.management().0,
        };
        // Between packets and memcached there is no driver that could charge its work.
        let costs = match path {
            Path::Socket => "",
            Path::Ipnuma => "export IPNUMA_REQUEST_NS=$IPNUMA_APPLICATION_NS\n",
        };
        format!(
            "{}{costs}exec {}memcached -u root -l {address} -p {PORT} -U {PORT} -t 1 -m 64",
            self.daemon(path, 1, gateway),
            self.with(path)
        )
    }

    /// What the client's shell runs: waits for the server, then prints a line of JSON for each command.
    pub(super) fn client(
        &self,
        path: Path,
        gateway: Option<String>,
        server: &str,
        client: usize,
    ) -> String {
        self.daemon(path, 0, gateway) + &self.asks(path, server, client)
    }

    pub(super) fn asks(&self, path: Path, server: &str, client: usize) -> String {
        let (ipnuma, with) = (self.ipnuma(), self.with(path));
        let protocol = self.protocol.name().to_lowercase();
        // What is lost is sent again: at once by TCP, by mcb itself otherwise.
        let retries = if self.loss > 0.0 && self.protocol == Transport::Udp {
            " --retries 100 --timeout-ms 20"
        } else {
            // A guest's kernel reads its clock to say how much of a time-out is left, which takes it 256 ns.
            " --timeout-ms 0"
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
            let (count, keys) = match self.together {
                None => (self.count, format!("b{number}")),
                Some(threads) => {
                    let at = uml::WALL_CLOCK_NS / 1_000_000_000 + TOGETHER_S;
                    let keys = format!("{} -t {threads} --at {at}", prefix(client));
                    (self.count * threads as u64, keys)
                }
            };
            let _ = writeln!(
                out,
                "ask -c {} -n {count} -l {length} --warmup {} --fresh --prefix {keys}{retries} || exit 1",
                command.name(),
                self.warmup
            );
        }
        out.truncate(out.trim_end().len());
        out
    }
}
