// SPDX-License-Identifier: Apache-2.0
//! What a guest's code costs. A guest computes in no time; drivers and the rack charge these instead.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    pub source: &'static str,
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
}

/// The published costs.
const PUBLISHED: Cpu = Cpu {
    kernel_send_ns: 2_861,
    kernel_receive_ns: 2_861,
    loopback_ns: 4_550,
    application_ns: 1_167,
    store_ns: 223,
    poll_ns: 0,
};

/// The source gives sending and receiving together; how they share it is not published.
const KERNEL: &str =
    "half of 5,722, dissertation sec. 3.2.1: driver 1172, application 356, protocol stack 4194";
/// No driver, and the rest of the same way: 5,722 less 1,172.
const LOOPBACK: &str =
    "dissertation sec. 3.2.1, without a driver: application 356, protocol stack 4194";
const APPLICATION: &str = "dissertation tables 6.3 and 4.5: GET 50,546 less round trip 49,379";
const STORE: &str = "dissertation table 3.4: 4 B CPU write";
const POLL: &str = "not published";
const GIVEN: &str = "given in the topology";

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
        }
    }

    /// All of them with their sources.
    pub fn table(&self) -> [Cost; 6] {
        let cost = |name, ns: u64, published: u64, source| Cost {
            name,
            ns,
            source: if ns == published { source } else { GIVEN },
        };
        [
            cost(
                "kernel_send_ns",
                self.kernel_send_ns,
                PUBLISHED.kernel_send_ns,
                KERNEL,
            ),
            cost(
                "kernel_receive_ns",
                self.kernel_receive_ns,
                PUBLISHED.kernel_receive_ns,
                KERNEL,
            ),
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
    }
}
