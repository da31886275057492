// SPDX-License-Identifier: Apache-2.0
//! IPv6 packets that hardware left to software (RFC 8200, RFC 4443).

use std::net::Ipv6Addr;

use smoltcp::wire::{Icmpv6Message, Icmpv6Packet, IpProtocol, Ipv6Packet};

use crate::action::Action;
use crate::address::{is_host6, is_link_local6, solicited_node};
use crate::extension::{self, Options};
use crate::icmp::{Reason, TTL};
use crate::neighbours::Packet;
use crate::plane::{Control, Step};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2);
const NO_NEXT_HEADER: u8 = 59;

/// Decrements the hop limit, which the caller has seen to be above 1.
pub(crate) fn take_hop(bytes: &mut [u8]) {
    let mut ip = Ipv6Packet::new_unchecked(bytes);
    ip.set_hop_limit(ip.hop_limit().saturating_sub(1));
}

impl Control {
    pub(crate) fn take_v6(
        &mut self,
        now: u64,
        port: u8,
        group: bool,
        payload: &[u8],
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let ip = Ipv6Packet::new_checked(payload).ok()?;
        if ip.version() != 6 {
            return None;
        }
        let bytes = &payload[..ip.total_len()];
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        // The unspecified address is the source of those who have none yet (RFC 4862).
        let nobody = src.is_unspecified();
        let ours = self.owner6(port, src).is_some();
        if (!is_host6(src) && !nobody) || ours || dst.is_loopback() || dst.is_unspecified() {
            return None;
        }
        if dst.is_multicast() {
            let listens = dst == ALL_NODES
                || dst == ALL_ROUTERS
                || self.own6(port).any(|(own, subnet)| {
                    solicited_node(own) == dst
                        || subnet
                            .anycast()
                            .is_some_and(|any| solicited_node(any) == dst)
                });
            return listens
                .then(|| self.deliver6(now, port, group, bytes, out))
                .flatten();
        }
        if self.owner6(port, dst).is_some() || self.anycast6(dst).is_some() {
            return self.deliver6(now, port, group, bytes, out);
        }
        if group || nobody || is_link_local6(dst) {
            return None;
        }
        self.forward6(now, port, bytes, out)
    }

    fn forward6(&mut self, now: u64, port: u8, bytes: &[u8], out: &mut Vec<Action>) -> Option<()> {
        let ip = Ipv6Packet::new_checked(bytes).ok()?;
        // RFC 4291 section 2.5.6; RFC 4443 section 3.1 code 2.
        let reason = if is_link_local6(ip.src_addr()) {
            Some(Reason::BeyondScope)
        } else {
            match extension::hop_by_hop(bytes) {
                Options::Discard => return None,
                Options::Report { at, always } => Some(Reason::Option { at, always }),
                Options::Continue if ip.hop_limit() <= 1 => Some(Reason::Expired),
                Options::Continue => None,
            }
        };
        if let Some(reason) = reason {
            self.report(now, port, false, bytes, reason, out);
            return Some(());
        }
        let key = match self.step(ip.dst_addr().into()) {
            Step::To(key) => key,
            Step::NoRoute => {
                self.report(now, port, false, bytes, Reason::NoRoute, out);
                return Some(());
            }
            Step::Discard | Step::Nobody => return None,
        };
        let mtu = self.mtu(key.port);
        if bytes.len() > mtu {
            self.report(now, port, false, bytes, Reason::TooBig(mtu), out);
            return Some(());
        }
        let packet = Packet {
            bytes: bytes.to_vec(),
            transit: Some(port),
        };
        self.send_to(now, key, packet, out);
        Some(())
    }

    /// For us, or for a group that we are in.
    fn deliver6(
        &mut self,
        now: u64,
        port: u8,
        group: bool,
        bytes: &[u8],
        out: &mut Vec<Action>,
    ) -> Option<()> {
        match extension::hop_by_hop(bytes) {
            Options::Discard => return None,
            Options::Report { at, always } => {
                let reason = Reason::Option { at, always };
                self.report(now, port, group, bytes, reason, out);
                return Some(());
            }
            Options::Continue => {}
        }
        let upper = extension::upper(bytes)?;
        if let Some(at) = upper.routing {
            // RFC 5095: nobody is sent on from here.
            self.report(now, port, group, bytes, Reason::Field(at), out);
            return Some(());
        }
        if upper.fragment {
            return None;
        }
        match IpProtocol::from(upper.protocol) {
            IpProtocol::Icmpv6 => self.take_icmp6(now, port, bytes, upper.at, out),
            IpProtocol::Udp => {
                self.report(now, port, group, bytes, Reason::Port, out);
                Some(())
            }
            IpProtocol::Tcp => None,
            _ if upper.protocol == NO_NEXT_HEADER => None,
            _ => {
                let reason = Reason::Protocol(upper.named_at);
                self.report(now, port, group, bytes, reason, out);
                Some(())
            }
        }
    }

    fn take_icmp6(
        &mut self,
        now: u64,
        port: u8,
        bytes: &[u8],
        at: usize,
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let ip = Ipv6Packet::new_checked(bytes).ok()?;
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        let message = bytes.get(at..)?;
        let icmp = Icmpv6Packet::new_checked(message).ok()?;
        if !icmp.verify_checksum(&src, &dst) {
            return None;
        }
        match icmp.msg_type() {
            Icmpv6Message::EchoRequest if icmp.msg_code() == 0 => {
                if src.is_unspecified() {
                    return None;
                }
                let mut reply = message.to_vec();
                Icmpv6Packet::new_unchecked(&mut reply).set_msg_type(Icmpv6Message::EchoReply);
                self.stats.echo_replies += 1;
                // RFC 4443 section 4.2: from the address that was asked, if it is one host's.
                let own = self.owner6(port, dst).map(|_| dst);
                let own = match own {
                    None => self.source6(port, src),
                    own => own,
                };
                self.originate6(now, port, own, src, TTL, reply, out)
            }
            Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert => {
                // RFC 4861 section 7.1: nothing from beyond the link.
                if ip.hop_limit() != 255 || icmp.msg_code() != 0 {
                    return None;
                }
                self.take_ndp(now, port, src, dst, message, out)
            }
            _ => None,
        }
    }
}
