// SPDX-License-Identifier: Apache-2.0
//! ICMP errors of both families: when, and how (RFC 792, RFC 1812 section 4.3.2, RFC 4443).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::wire::{
    Icmpv4Message, Icmpv4Packet, Icmpv6Message, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet,
};

use crate::action::Action;
use crate::address::{Subnet, is_host4, is_host6, is_link_local6};
use crate::extension;
use crate::neighbours::{Key, Packet};
use crate::plane::{Control, Step};

/// Longest ICMPv4 error, IP header included (RFC 1812 section 4.3.2.3).
pub(crate) const LONGEST4: usize = 576;
/// Longest ICMPv6 error, IP header included (RFC 4443 section 2.4 c).
pub(crate) const LONGEST6: usize = 1280;
const HEADER4: usize = 20;
const HEADER6: usize = 40;
const ICMP_HEADER: usize = 8;
/// Precedence of errors: internetwork control (RFC 1812 section 4.3.2.5).
const PRECEDENCE: u8 = 6 << 3;
pub(crate) const TTL: u8 = 64;

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NoRoute,
    HostUnreachable,
    /// IPv6: a link-local source wants to leave its link.
    BeyondScope,
    Port,
    /// IPv6: where the number of the protocol stands.
    Protocol(usize),
    TooBig(usize),
    Expired,
    SourceRoute,
    /// IPv4: an option is malformed. IPv6: a header field is wrong.
    Field(usize),
    /// IPv6: an option is unknown; `always` also reports packets to groups.
    Option {
        at: usize,
        always: bool,
    },
}

impl Reason {
    /// Type, code, and the second word of the ICMP header.
    fn v4(self) -> (u8, u8, u32) {
        let unreachable = u8::from(Icmpv4Message::DstUnreachable);
        match self {
            Reason::NoRoute | Reason::BeyondScope => (unreachable, 0, 0),
            Reason::HostUnreachable => (unreachable, 1, 0),
            Reason::Protocol(_) => (unreachable, 2, 0),
            Reason::Port => (unreachable, 3, 0),
            // RFC 1191 section 4.
            Reason::TooBig(mtu) => (unreachable, 4, mtu as u32 & 0xFFFF),
            Reason::SourceRoute => (unreachable, 5, 0),
            Reason::Expired => (Icmpv4Message::TimeExceeded.into(), 0, 0),
            Reason::Field(at) | Reason::Option { at, .. } => {
                (Icmpv4Message::ParamProblem.into(), 0, (at as u32) << 24)
            }
        }
    }

    /// Type, code, and the second word of the ICMPv6 header.
    fn v6(self) -> (u8, u8, u32) {
        let unreachable = u8::from(Icmpv6Message::DstUnreachable);
        let problem = u8::from(Icmpv6Message::ParamProblem);
        match self {
            Reason::NoRoute | Reason::SourceRoute => (unreachable, 0, 0),
            Reason::BeyondScope => (unreachable, 2, 0),
            Reason::HostUnreachable => (unreachable, 3, 0),
            Reason::Port => (unreachable, 4, 0),
            Reason::TooBig(mtu) => (Icmpv6Message::PktTooBig.into(), 0, mtu as u32),
            Reason::Expired => (Icmpv6Message::TimeExceeded.into(), 0, 0),
            Reason::Field(at) => (problem, 0, at as u32),
            Reason::Protocol(at) => (problem, 1, at as u32),
            Reason::Option { at, .. } => (problem, 2, at as u32),
        }
    }
}

impl Control {
    /// Tells the source of a packet what became of it, if that is permitted. `group`: it came in a
    /// frame to a group.
    pub(crate) fn report(
        &mut self,
        now: u64,
        port: u8,
        group: bool,
        packet: &[u8],
        reason: Reason,
        out: &mut Vec<Action>,
    ) {
        let v4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
        let permitted = if v4 {
            self.may_report4(packet, group)
        } else {
            may_report6(packet, group, reason)
        };
        if !permitted {
            return;
        }
        let timers = &self.config.timers;
        let (interval, burst) = (timers.error_ns, timers.error_burst);
        if !self.limits[usize::from(port)].take(now, interval, burst) {
            self.stats.errors_limited += 1;
            return;
        }
        let sent = if v4 {
            self.report4(now, packet, reason, out)
        } else {
            self.report6(now, port, packet, reason, out)
        };
        self.stats.errors += u64::from(sent.is_some());
    }

    /// RFC 1812 section 4.3.2.7.
    fn may_report4(&self, packet: &[u8], group: bool) -> bool {
        let Ok(ip) = Ipv4Packet::new_checked(packet) else {
            return false;
        };
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        let error = ip.next_header() == IpProtocol::Icmp && !is_query4(ip.payload());
        !group
            && !error
            && ip.frag_offset() == 0
            && is_host4(src)
            && !self.is_broadcast(src)
            && !dst.is_multicast()
            && !self.is_broadcast(dst)
    }

    fn report4(
        &mut self,
        now: u64,
        packet: &[u8],
        reason: Reason,
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let about = Ipv4Packet::new_checked(packet).ok()?;
        let (dst, tos) = (about.src_addr(), about.dscp());
        let quoted = &packet[..packet.len().min(LONGEST4 - HEADER4 - ICMP_HEADER)];
        let (kind, code, word) = reason.v4();
        let mut icmp = vec![0; ICMP_HEADER];
        icmp[4..8].copy_from_slice(&word.to_be_bytes());
        icmp.extend_from_slice(quoted);
        let mut message = Icmpv4Packet::new_unchecked(&mut icmp);
        message.set_msg_type(kind.into());
        message.set_msg_code(code);
        message.fill_checksum();
        // The upper three bits of the DSCP are the precedence, the others are the type of service.
        let dscp = PRECEDENCE | tos & 7;
        self.originate4(now, None, dst, dscp, IpProtocol::Icmp, &icmp, out)
    }

    /// Sends a packet of our own; the source is the address of the egress port if none is given.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn originate4(
        &mut self,
        now: u64,
        src: Option<Ipv4Addr>,
        dst: Ipv4Addr,
        dscp: u8,
        protocol: IpProtocol,
        payload: &[u8],
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let Step::To(key) = self.step(dst.into()) else {
            return None;
        };
        let src = match src {
            Some(src) => src,
            // RFC 1812 section 4.3.2.4.
            None => self
                .source4(key.port, key.address)
                .or_else(|| self.any_own4())?,
        };
        let length = u16::try_from(HEADER4 + payload.len()).ok()?;
        let mut bytes = vec![0; HEADER4];
        bytes.extend_from_slice(payload);
        self.identification = self.identification.wrapping_add(1);
        let mut ip = Ipv4Packet::new_unchecked(&mut bytes);
        ip.set_version(4);
        ip.set_header_len(HEADER4 as u8);
        ip.set_dscp(dscp);
        ip.set_total_len(length);
        ip.set_ident(self.identification);
        ip.set_hop_limit(TTL);
        ip.set_next_header(protocol);
        ip.set_src_addr(src);
        ip.set_dst_addr(dst);
        ip.fill_checksum();
        let transit = None;
        self.send_to(now, key, Packet { bytes, transit }, out);
        Some(())
    }

    fn report6(
        &mut self,
        now: u64,
        port: u8,
        packet: &[u8],
        reason: Reason,
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let dst = Ipv6Packet::new_checked(packet).ok()?.src_addr();
        let quoted = &packet[..packet.len().min(LONGEST6 - HEADER6 - ICMP_HEADER)];
        let (kind, code, word) = reason.v6();
        let mut icmp = vec![0; ICMP_HEADER];
        icmp[4..8].copy_from_slice(&word.to_be_bytes());
        icmp.extend_from_slice(quoted);
        let mut message = Icmpv6Packet::new_unchecked(&mut icmp);
        message.set_msg_type(kind.into());
        message.set_msg_code(code);
        self.originate6(now, port, None, dst, TTL, icmp, out)
    }

    /// Sends an ICMPv6 packet of our own; `port` is the link of a link-local destination.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn originate6(
        &mut self,
        now: u64,
        port: u8,
        src: Option<Ipv6Addr>,
        dst: Ipv6Addr,
        hop_limit: u8,
        icmp: Vec<u8>,
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let key = if is_link_local6(dst) {
            let address = dst.into();
            Key { port, address }
        } else {
            match self.step(dst.into()) {
                Step::To(key) => key,
                _ => return None,
            }
        };
        let src = match src {
            Some(src) => src,
            None => self.source6(key.port, dst)?,
        };
        let bytes = packet6(src, dst, hop_limit, icmp)?;
        let transit = None;
        self.send_to(now, key, Packet { bytes, transit }, out);
        Some(())
    }

    /// The address of a port for packets to `dst`: of the same scope, of the same subnet if there is
    /// one (RFC 6724 in short).
    pub(crate) fn source6(&self, port: u8, dst: Ipv6Addr) -> Option<Ipv6Addr> {
        let local = is_link_local6(dst);
        let scope = |(address, _): &(Ipv6Addr, Subnet)| is_link_local6(*address) == local;
        let near = |(_, subnet): &(Ipv6Addr, Subnet)| subnet.contains(dst.into());
        let found = self
            .own6(port)
            .find(near)
            .or_else(|| self.own6(port).find(scope))
            .or_else(|| self.ports().find_map(|port| self.own6(port).find(scope)));
        found.map(|(address, _)| address)
    }

    fn any_own4(&self) -> Option<Ipv4Addr> {
        let mut all = self.ports().flat_map(|port| self.own4(port));
        all.next().map(|(address, _)| address)
    }

    /// Whether it is the limited broadcast or that of one of our subnets.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        address.is_broadcast()
            || self
                .ports()
                .flat_map(|port| self.own4(port))
                .filter_map(|(_, subnet)| subnet.broadcasts())
                .any(|pair| pair.contains(&address))
    }

    /// The port that has an IPv6 address, if a packet that came in by `port` means it.
    pub(crate) fn owner6(&self, port: u8, address: Ipv6Addr) -> Option<u8> {
        let has = |port: &u8| self.own6(*port).any(|(own, _)| own == address);
        if is_link_local6(address) {
            has(&port).then_some(port)
        } else {
            self.ports().find(has)
        }
    }

    /// The port with a subnet whose routers are meant by this address.
    pub(crate) fn anycast6(&self, address: Ipv6Addr) -> Option<u8> {
        self.ports().find(|&port| {
            self.own6(port)
                .filter(|(own, _)| !is_link_local6(*own))
                .any(|(_, subnet)| subnet.anycast() == Some(address))
        })
    }

    /// Whether an address is one of ours, IPv4.
    pub(crate) fn is_own4(&self, address: Ipv4Addr) -> bool {
        self.ports()
            .flat_map(|port| self.own4(port))
            .any(|(own, _)| IpAddr::V4(own) == IpAddr::V4(address))
    }
}

/// An ICMPv6 packet with its header and checksum.
pub(crate) fn packet6(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    hop_limit: u8,
    mut icmp: Vec<u8>,
) -> Option<Vec<u8>> {
    let length = u16::try_from(icmp.len()).ok()?;
    Icmpv6Packet::new_unchecked(&mut icmp).fill_checksum(&src, &dst);
    let mut bytes = vec![0; HEADER6];
    bytes.extend_from_slice(&icmp);
    let mut ip = Ipv6Packet::new_unchecked(&mut bytes);
    ip.set_version(6);
    ip.set_payload_len(length);
    ip.set_next_header(IpProtocol::Icmpv6);
    ip.set_hop_limit(hop_limit);
    ip.set_src_addr(src);
    ip.set_dst_addr(dst);
    Some(bytes)
}

/// Whether an ICMP message asks or answers, rather than reports; what is unknown may be a report.
fn is_query4(icmp: &[u8]) -> bool {
    // Echo, router discovery, timestamp, information, address mask.
    matches!(icmp.first(), Some(0 | 8 | 9 | 10 | 13..=18))
}

/// RFC 4443 section 2.4 e.
fn may_report6(packet: &[u8], group: bool, reason: Reason) -> bool {
    let Ok(ip) = Ipv6Packet::new_checked(packet) else {
        return false;
    };
    let (src, dst) = (ip.src_addr(), ip.dst_addr());
    let even_to_groups = matches!(
        reason,
        Reason::TooBig(_) | Reason::Option { always: true, .. }
    );
    if !is_host6(src) || (!even_to_groups && (group || dst.is_multicast())) {
        return false;
    }
    // Where the headers can't be followed, an error may be what they hide.
    let Some(upper) = extension::upper(packet) else {
        return false;
    };
    let icmp = upper.protocol == u8::from(IpProtocol::Icmpv6);
    if !icmp {
        return true;
    }
    let kind = packet.get(upper.at).copied().map(Icmpv6Message::from);
    // Types below 128 are errors; a redirect counts as one.
    !upper.later_fragment
        && kind.is_some_and(|kind| !kind.is_error() && kind != Icmpv6Message::Redirect)
}
