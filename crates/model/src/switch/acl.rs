// SPDX-License-Identifier: Apache-2.0
//! The access list: the first rule that matches decides.

/// What the list looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AclKey {
    /// Port of arrival.
    pub port: u8,
    /// IPv6, else IPv4.
    pub v6: bool,
    /// Source address; an IPv4 address is in the upper 32 bits.
    pub src: u128,
    /// Destination address, likewise.
    pub dst: u128,
    /// IPv4 protocol, or the first next header of IPv6.
    pub protocol: u8,
    /// Source and destination port, if TCP, UDP or SCTP comes right behind the header.
    pub ports: Option<(u16, u16)>,
}

/// Addresses that agree with `value` where `mask` has ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AclPrefix {
    /// The bits.
    pub value: u128,
    /// Where they matter; 0 takes every address.
    pub mask: u128,
}

impl AclPrefix {
    fn takes(self, address: u128) -> bool {
        address & self.mask == self.value & self.mask
    }
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AclRule {
    /// Drop what matches, else let it pass.
    pub deny: bool,
    /// Applies to IPv4.
    pub v4: bool,
    /// Applies to IPv6.
    pub v6: bool,
    /// Source addresses.
    pub src: AclPrefix,
    /// Destination addresses.
    pub dst: AclPrefix,
    /// Protocol; `None` for every one.
    pub protocol: Option<u8>,
    /// Source ports from, to; `None` for all frames, those without ports too.
    pub src_ports: Option<(u16, u16)>,
    /// Destination ports, likewise.
    pub dst_ports: Option<(u16, u16)>,
    /// Ports of arrival, one bit each.
    pub ingress: u16,
}

impl AclRule {
    /// Whether the rule is about this frame.
    pub fn matches(&self, key: &AclKey) -> bool {
        let family = if key.v6 { self.v6 } else { self.v4 };
        let within = |range: Option<(u16, u16)>, port: Option<u16>| match (range, port) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some((from, to)), Some(port)) => (from..=to).contains(&port),
        };
        family
            && self.ingress & 1 << key.port != 0
            && self
                .protocol
                .is_none_or(|protocol| protocol == key.protocol)
            && self.src.takes(key.src)
            && self.dst.takes(key.dst)
            && within(self.src_ports, key.ports.map(|ports| ports.0))
            && within(self.dst_ports, key.ports.map(|ports| ports.1))
    }
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// Rules by number; `None` matches nothing.
    pub rules: Vec<Option<AclRule>>,
    /// Drop what no rule matches.
    pub default_deny: bool,
}

impl Acl {
    /// Whether the frame is dropped, and the rule that said so or let it pass.
    pub fn decide(&self, key: &AclKey) -> (bool, Option<usize>) {
        for (number, rule) in self.rules.iter().enumerate() {
            if let Some(rule) = rule
                && rule.matches(key)
            {
                return (rule.deny, Some(number));
            }
        }
        (self.default_deny, None)
    }
}
