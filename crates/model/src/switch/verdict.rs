// SPDX-License-Identifier: Apache-2.0
//! What may happen to a frame in the switch.

/// What happens to a frame, and why; the numbers are those of `fibnic_pkg::verdict_e`, of the host
/// stream's tuser and of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verdict {
    /// To a network port.
    Forward,
    /// To the host: neither IPv4 nor IPv6.
    HostNotIp,
    /// To the host: to a group MAC address.
    HostLink,
    /// To the host: multicast, broadcast or link-local IP address.
    HostLocal,
    /// To the host: options.
    HostOptions,
    /// To the host: TTL or hop limit.
    HostExpires,
    /// To the host: the route says so.
    HostRoute,
    /// To the host: no route.
    HostNoRoute,
    /// To the host: MAC address of the next hop not known.
    HostNeighbour,
    /// To the host: longer than the MTU of its egress port.
    HostMtu,
    /// Dropped: to another MAC address.
    DropNotMine,
    /// Dropped: bad IP header.
    DropHeader,
    /// Dropped: impossible address.
    DropMartian,
    /// Dropped: the route says so.
    DropRoute,
    /// Dropped: the access list says so.
    DropAcl,
    /// Dropped: not of the port's VLAN.
    DropVlan,
    /// Dropped: shorter than 64 bytes, known before it left.
    DropRunt,
    /// Dropped whole: stored, checked and found bad.
    DropBad,
}

impl Verdict {
    /// All verdicts, by number.
    pub const ALL: [Verdict; 18] = [
        Verdict::Forward,
        Verdict::HostNotIp,
        Verdict::HostLink,
        Verdict::HostLocal,
        Verdict::HostOptions,
        Verdict::HostExpires,
        Verdict::HostRoute,
        Verdict::HostNoRoute,
        Verdict::HostNeighbour,
        Verdict::HostMtu,
        Verdict::DropNotMine,
        Verdict::DropHeader,
        Verdict::DropMartian,
        Verdict::DropRoute,
        Verdict::DropAcl,
        Verdict::DropVlan,
        Verdict::DropRunt,
        Verdict::DropBad,
    ];

    /// The number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The verdict of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the frame goes to the host.
    pub const fn to_host(self) -> bool {
        let number = self.number();
        number >= Verdict::HostNotIp.number() && number <= Verdict::HostMtu.number()
    }
}
