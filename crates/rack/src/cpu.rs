// SPDX-License-Identifier: Apache-2.0
//! What a guest's code costs. A guest computes in no time; drivers and the rack charge these instead.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::library;
use crate::waiting::Costs;

/// Costs in a topology; what is absent is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuSpec {
    /// The kernel's way of a packet that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_send_ns: Option<u64>,
    /// The kernel's way of a packet that is received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_receive_ns: Option<u64>,
    /// The kernel's way of a packet within the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loopback_ns: Option<u64>,
    /// The application's own work for a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_ns: Option<u64>,
    /// One posted store to the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_ns: Option<u64>,
    /// From the moment a polling core sees a store to its next instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_ns: Option<u64>,
    /// From an interrupt of the IP-NUMA NIC (`interrupts = true` of a guest's `nic`) to the woken program's next instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<u64>,
    /// A call of the socket library that sends on a stream, without its data; absent: nothing, as of all that begins so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_send_ns: Option<u64>,
    /// More for each KiB that it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_send_kib_ns: Option<u64>,
    /// A call of the socket library that receives from a stream, without its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_recv_ns: Option<u64>,
    /// More for each KiB that it receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_recv_kib_ns: Option<u64>,
    /// epoll_wait in the socket library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_epoll_wait_ns: Option<u64>,
    /// poll or select in the socket library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_poll_ns: Option<u64>,
}

impl CpuSpec {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One cost with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Its name in topologies.
    pub name: &'static str,
    /// Nanoseconds.
    pub ns: u64,
    /// Where it stands.
    pub source: String,
}

/// All costs of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// See [`CpuSpec::kernel_send_ns`].
    pub kernel_send_ns: u64,
    /// See [`CpuSpec::kernel_receive_ns`].
    pub kernel_receive_ns: u64,
    /// See [`CpuSpec::loopback_ns`].
    pub loopback_ns: u64,
    /// See [`CpuSpec::application_ns`].
    pub application_ns: u64,
    /// See [`CpuSpec::store_ns`].
    pub store_ns: u64,
    /// See [`CpuSpec::poll_ns`].
    pub poll_ns: u64,
    /// See [`CpuSpec::interrupt_ns`]; of a NIC whose interrupts wake nobody none.
    pub interrupt_ns: Option<u64>,
    /// See [`CpuSpec::library_send_ns`].
    pub library_send_ns: u64,
    /// See [`CpuSpec::library_send_kib_ns`].
    pub library_send_kib_ns: u64,
    /// See [`CpuSpec::library_recv_ns`].
    pub library_recv_ns: u64,
    /// See [`CpuSpec::library_recv_kib_ns`].
    pub library_recv_kib_ns: u64,
    /// See [`CpuSpec::library_epoll_wait_ns`].
    pub library_epoll_wait_ns: u64,
    /// See [`CpuSpec::library_poll_ns`].
    pub library_poll_ns: u64,
}

/// The published costs; of the socket library none is.
const PUBLISHED: Cpu = Cpu {
    kernel_send_ns: 2_861,
    kernel_receive_ns: 2_861,
    loopback_ns: 4_550,
    application_ns: 1_167,
    store_ns: 223,
    poll_ns: 0,
    interrupt_ns: None,
    library_send_ns: 0,
    library_send_kib_ns: 0,
    library_recv_ns: 0,
    library_recv_kib_ns: 0,
    library_epoll_wait_ns: 0,
    library_poll_ns: 0,
};

/// The source gives sending and receiving together; how they share it is not published.
const KERNEL: &str =
    "half of 5,722, dissertation sec. 3.2.1: driver 1172, application 356, protocol stack 4194";
/// The driver's part of a packet that is sent and received.
pub const DRIVER_NS: u64 = 1_172;
/// The protocol stack's part. What of it is forwarding is not published.
pub const STACK_NS: u64 = 4_194;
const DRIVER: &str = "half of the driver's 1172, dissertation sec. 3.2.1";
const DRIVER_AND_STACK: &str =
    "half of the driver's 1172 and the protocol stack's 4194, dissertation sec. 3.2.1";
/// No driver, and the rest of the same way: 5,722 less 1,172.
const LOOPBACK: &str =
    "dissertation sec. 3.2.1, without a driver: application 356, protocol stack 4194";
const APPLICATION: &str = "dissertation tables 6.3 and 4.5: GET 50,546 less round trip 49,379";
const STORE: &str = "dissertation table 3.4: 4 B CPU write";
const POLL: &str = "not published";
const GIVEN: &str = "given in the topology";
const INTERRUPT: &str = "UZURA sec. 3.2.3, and a wake-up as measured: experiments/waiting.toml";

impl CpuSpec {
    /// What a router's kernel takes for a frame that it receives and sends: the driver's part, and, as the most that it can
    /// be, all of the protocol stack's. How sending and receiving share it is not published.
    pub fn forwarding(stack: bool) -> Self {
        let both = DRIVER_NS + if stack { STACK_NS } else { 0 };
        Self {
            kernel_send_ns: Some(both / 2),
            kernel_receive_ns: Some(both / 2),
            ..Self::default()
        }
    }
}

/// Where what a kernel takes one way stands.
fn kernel_source(ns: u64) -> &'static str {
    let is = |stack| CpuSpec::forwarding(stack).kernel_send_ns == Some(ns);
    match ns {
        _ if ns == PUBLISHED.kernel_send_ns => KERNEL,
        _ if is(false) => DRIVER,
        _ if is(true) => DRIVER_AND_STACK,
        _ => GIVEN,
    }
}

impl Cpu {
    /// Those of a host: its own, else the rack's, else the published ones.
    pub fn new(host: &CpuSpec, rack: &CpuSpec) -> Self {
        let pick = |pick: fn(&CpuSpec) -> Option<u64>, default: u64| {
            pick(host).or(pick(rack)).unwrap_or(default)
        };
        Self {
            kernel_send_ns: pick(|spec| spec.kernel_send_ns, PUBLISHED.kernel_send_ns),
            kernel_receive_ns: pick(|spec| spec.kernel_receive_ns, PUBLISHED.kernel_receive_ns),
            loopback_ns: pick(|spec| spec.loopback_ns, PUBLISHED.loopback_ns),
            application_ns: pick(|spec| spec.application_ns, PUBLISHED.application_ns),
            store_ns: pick(|spec| spec.store_ns, PUBLISHED.store_ns),
            poll_ns: pick(|spec| spec.poll_ns, PUBLISHED.poll_ns),
            interrupt_ns: None,
            library_send_ns: pick(|spec| spec.library_send_ns, PUBLISHED.library_send_ns),
            library_send_kib_ns: pick(
                |spec| spec.library_send_kib_ns,
                PUBLISHED.library_send_kib_ns,
            ),
            library_recv_ns: pick(|spec| spec.library_recv_ns, PUBLISHED.library_recv_ns),
            library_recv_kib_ns: pick(
                |spec| spec.library_recv_kib_ns,
                PUBLISHED.library_recv_kib_ns,
            ),
            library_epoll_wait_ns: pick(
                |spec| spec.library_epoll_wait_ns,
                PUBLISHED.library_epoll_wait_ns,
            ),
            library_poll_ns: pick(|spec| spec.library_poll_ns, PUBLISHED.library_poll_ns),
        }
    }

    /// Those of a host whose NIC's interrupts wake who waits.
    pub fn interrupted(self, host: &CpuSpec, rack: &CpuSpec) -> Self {
        let given = host.interrupt_ns.or(rack.interrupt_ns);
        Self {
            interrupt_ns: Some(given.unwrap_or_else(|| Costs::published().woken_ns())),
            ..self
        }
    }

    /// What the socket library's calls cost: name in a topology, name in its configuration, ns.
    pub const fn library(&self) -> [(&'static str, &'static str, u64); 6] {
        [
            ("library_send_ns", "send", self.library_send_ns),
            ("library_send_kib_ns", "send_kib", self.library_send_kib_ns),
            ("library_recv_ns", "recv", self.library_recv_ns),
            ("library_recv_kib_ns", "recv_kib", self.library_recv_kib_ns),
            (
                "library_epoll_wait_ns",
                "epoll_wait",
                self.library_epoll_wait_ns,
            ),
            ("library_poll_ns", "poll", self.library_poll_ns),
        ]
    }

    /// All of them with their sources; the socket library's calls where they cost anything.
    pub fn table(&self) -> Vec<Cost> {
        let mut table = self.published();
        table.extend(self.interrupt_ns.map(|ns| {
            Cost {
                name: "interrupt_ns",
                ns,
                source: match ns == Costs::published().woken_ns() {
                    true => INTERRUPT,
                    false => GIVEN,
                }
                .to_owned(),
            }
        }));
        table.extend(self.charged_calls());
        table
    }

    /// Those of the socket library's calls that are not free.
    fn charged_calls(&self) -> impl Iterator<Item = Cost> {
        let measured = Self::new(&library::measured(), &CpuSpec::default()).library();
        let calls = self.library().into_iter().zip(measured);
        let charged = calls.filter(|((_, _, ns), _)| *ns > 0);
        charged.map(|((name, _, ns), (_, _, measured))| Cost {
            name,
            ns,
            source: if ns == measured {
                library::source()
            } else {
                GIVEN.to_owned()
            },
        })
    }

    fn published(&self) -> Vec<Cost> {
        let cost = |name, ns: u64, published: u64, source: &str| Cost {
            name,
            ns,
            source: if ns == published { source } else { GIVEN }.to_owned(),
        };
        let kernel = |name, ns| cost(name, ns, ns, kernel_source(ns));
        vec![
            kernel("kernel_send_ns", self.kernel_send_ns),
            kernel("kernel_receive_ns", self.kernel_receive_ns),
            cost(
                "loopback_ns",
                self.loopback_ns,
                PUBLISHED.loopback_ns,
                LOOPBACK,
            ),
            cost(
                "application_ns",
                self.application_ns,
                PUBLISHED.application_ns,
                APPLICATION,
            ),
            cost("store_ns", self.store_ns, PUBLISHED.store_ns, STORE),
            cost("poll_ns", self.poll_ns, PUBLISHED.poll_ns, POLL),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_s_costs_go_before_those_of_the_rack() {
        let host = CpuSpec {
            store_ns: Some(1),
            ..CpuSpec::default()
        };
        let rack = CpuSpec {
            store_ns: Some(2),
            kernel_send_ns: Some(3),
            ..CpuSpec::default()
        };
        let cpu = Cpu::new(&host, &rack);
        assert_eq!((cpu.store_ns, cpu.kernel_send_ns), (1, 3));
        assert_eq!(cpu.kernel_receive_ns, 2_861);
        let table = cpu.table();
        assert_eq!(table[0].source, GIVEN);
        assert_eq!(table[1].source, KERNEL);
        assert_eq!(table.len(), 6, "{table:?}");
    }

    #[test]
    fn a_router_s_kernel_takes_the_driver_s_part_of_a_packet_or_the_stack_s_too() {
        let none = CpuSpec::default();
        for (stack, both, source) in [
            (false, DRIVER_NS, DRIVER),
            (true, DRIVER_NS + STACK_NS, DRIVER_AND_STACK),
        ] {
            let cpu = Cpu::new(&CpuSpec::forwarding(stack), &none);
            assert_eq!(cpu.kernel_send_ns + cpu.kernel_receive_ns, both);
            assert_eq!(
                (
                    cpu.table()[0].source.as_str(),
                    cpu.table()[1].source.as_str()
                ),
                (source, source)
            );
        }
    }

    #[test]
    fn interrupts_cost_where_they_wake() {
        let rack = CpuSpec {
            interrupt_ns: Some(5),
            ..CpuSpec::default()
        };
        let none = CpuSpec::default();
        assert_eq!(Cpu::new(&none, &rack).interrupt_ns, None);
        let given = Cpu::new(&none, &rack).interrupted(&none, &rack);
        assert_eq!(given.interrupt_ns, Some(5));
        assert_eq!(given.table()[6].source, GIVEN);
        let known = Cpu::new(&none, &none).interrupted(&none, &none);
        assert_eq!(known.interrupt_ns, Some(7_790));
        assert_eq!(known.table()[6].source, INTERRUPT);
    }

    #[test]
    fn calls_of_the_library_are_shown_where_they_cost_anything() {
        let rack = CpuSpec {
            library_poll_ns: Some(1),
            ..library::measured()
        };
        let cpu = Cpu::new(&CpuSpec::default(), &rack);
        let table = cpu.table();
        assert_eq!(table.len(), 12, "{table:?}");
        assert_eq!(table[6].source, library::source());
        assert_eq!((table[11].ns, table[11].source.as_str()), (1, GIVEN));
    }
}
