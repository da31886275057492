// SPDX-License-Identifier: Apache-2.0
//! The topology of an arrangement, with the commands of the hosts.

use rack::cpu::CpuSpec;
use rack::faults::Faults;
use rack::init::mac_text;
use rack::topology::{GuestRow, NicKind};
use rack::{Error, Topology, library, tables};

use super::{Batch, CLIENT, Library, Nic, Path, Place, SERVER, Setup, SwitchKind};

/// Table 5.2: from the first bit in to the first bit out, frames of 64 bytes; the author takes it for all sizes.
const AX3630S_NS: f64 = 4_072.0;
/// Simulated seconds after which a run has failed: starting takes one or two.
pub(super) const LIMIT_S: f64 = 600.0;
/// Before the commands of a host that is client and server: no driver sees a request there; what it would charge for
/// memcached's work, both ways charge half of.
const LOOPBACK_COSTS: &str = "ns=$((IPNUMA_LOOPBACK_NS + IPNUMA_APPLICATION_NS / 2))\n\
     tc qdisc change dev lo root netem limit 100000 delay $(printf %d.%03d $((ns / 1000)) $((ns % 1000)))us || exit 1";
/// Of a host that only has to be there.
const IDLE: &str = "sleep 1000000";

impl Setup {
    /// The topology, with the commands of the hosts.
    pub fn topology(self, batch: &Batch) -> Result<Topology, Error> {
        let (switches, metres) = self.place.way();
        let row = GuestRow {
            platform: self.constants.platform(),
            seed: batch.seed,
            rate: self.rate,
            nic: self.nic(batch.nic),
            names: [CLIENT, SERVER].map(str::to_owned),
            commands: self.commands(batch, switches),
            switches,
            latency_ns: self.latency_ns(),
            metres,
            faults: Faults {
                loss: batch.loss,
                ..Faults::default()
            },
            cpu: self.constants.costs(self.rate, self.costs(&batch.costs)),
            limit_s: LIMIT_S,
        };
        Topology::guests(row).checked()
    }

    /// The NICs of all hosts, where those of sockets are to be this.
    pub(super) const fn nic(self, sockets: Nic) -> NicKind {
        match (self.path, sockets) {
            (_, Nic::Shared) => NicKind::Shared,
            (Path::Ipnuma, _) => NicKind::Ipnuma,
            (Path::Socket, Nic::Ring) => NicKind::Ring,
            (Path::Socket, Nic::Virtio) => NicKind::Virtio,
        }
    }

    /// Of a switch of another make.
    pub(super) fn latency_ns(self) -> Option<f64> {
        (self.switch == Some(SwitchKind::Ax3630s)).then_some(AX3630S_NS)
    }

    /// CPU costs: those that were given; of the library's calls the others as measured, or none at all.
    pub(super) fn costs(self, given: &CpuSpec) -> CpuSpec {
        let (measured, given) = match self.library {
            Library::Charged => (library::measured(), *given),
            Library::Free => (
                CpuSpec::default(),
                CpuSpec {
                    library_send_ns: None,
                    library_send_kib_ns: None,
                    library_recv_ns: None,
                    library_recv_kib_ns: None,
                    library_epoll_wait_ns: None,
                    library_poll_ns: None,
                    ..*given
                },
            ),
        };
        CpuSpec {
            library_send_ns: given.library_send_ns.or(measured.library_send_ns),
            library_send_kib_ns: given.library_send_kib_ns.or(measured.library_send_kib_ns),
            library_recv_ns: given.library_recv_ns.or(measured.library_recv_ns),
            library_recv_kib_ns: given.library_recv_kib_ns.or(measured.library_recv_kib_ns),
            library_epoll_wait_ns: given
                .library_epoll_wait_ns
                .or(measured.library_epoll_wait_ns),
            library_poll_ns: given.library_poll_ns.or(measured.library_poll_ns),
            ..given
        }
    }

    /// As a file, with a sentence that says what it is.
    pub fn file(self, batch: &Batch) -> Result<String, Error> {
        Ok(format!(
            "# SPDX-License-Identifier: Apache-2.0\n# memcached, {}, {}; made by ipnuma memcached.\n{}",
            self.name(),
            self.rate,
            self.topology(batch)?.to_toml()
        ))
    }

    /// What the shells of client and server run.
    fn commands(self, batch: &Batch, switches: usize) -> [String; 2] {
        let loopback = self.place == Place::Loopback;
        let server_ip = format!("10.0.{switches}.2");
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
        let commands = if loopback {
            // In one host, where the command is brought only once.
            let asks = batch.asks(self.path, asked, 0);
            let listens = listens.replace("exec ", "");
            [
                format!("{LOOPBACK_COSTS}\n{listens} &\n{asks}"),
                IDLE.to_owned(),
            ]
        } else {
            [batch.client(self.path, gateway(0), asked, 0), listens]
        };
        commands.map(|command| command + "\n")
    }
}

/// Puts a CPU cost in the place of the published one; the error is a sentence.
pub fn set_cost(costs: &mut CpuSpec, name: &str, ns: u64) -> Result<(), String> {
    let place = match name {
        "kernel_send_ns" => &mut costs.kernel_send_ns,
        "kernel_receive_ns" => &mut costs.kernel_receive_ns,
        "loopback_ns" => &mut costs.loopback_ns,
        "application_ns" => &mut costs.application_ns,
        "store_ns" => &mut costs.store_ns,
        "poll_ns" => &mut costs.poll_ns,
        "library_send_ns" => &mut costs.library_send_ns,
        "library_send_kib_ns" => &mut costs.library_send_kib_ns,
        "library_recv_ns" => &mut costs.library_recv_ns,
        "library_recv_kib_ns" => &mut costs.library_recv_kib_ns,
        "library_epoll_wait_ns" => &mut costs.library_epoll_wait_ns,
        "library_poll_ns" => &mut costs.library_poll_ns,
        _ => {
            return Err(format!(
                "there is no CPU cost `{name}`; choose from kernel_send_ns, kernel_receive_ns, loopback_ns, \
                 application_ns, store_ns, poll_ns, library_send_ns, library_send_kib_ns, library_recv_ns, \
                 library_recv_kib_ns, library_epoll_wait_ns, library_poll_ns"
            ));
        }
    };
    *place = Some(ns);
    Ok(())
}
