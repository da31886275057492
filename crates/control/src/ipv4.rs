// SPDX-License-Identifier: Apache-2.0
//! IPv4 packets that hardware left to software (RFC 1812).

use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, IpProtocol, Ipv4Packet};

use crate::action::Action;
use crate::address::is_host4;
use crate::extension::{Options4, options4};
use crate::icmp::Reason;
use crate::neighbours::Packet;
use crate::plane::{Control, Step};

/// Decrements the TTL, which the caller has seen to be above 1.
pub(crate) fn take_hop(bytes: &mut [u8]) {
    let mut ip = Ipv4Packet::new_unchecked(bytes);
    ip.set_hop_limit(ip.hop_limit().saturating_sub(1));
    ip.fill_checksum();
}

impl Control {
    pub(crate) fn take_v4(
        &mut self,
        now: u64,
        port: u8,
        group: bool,
        payload: &[u8],
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let ip = Ipv4Packet::new_checked(payload).ok()?;
        // smoltcp's length check lets header_len be anything up to the buffer's end.
        if ip.version() != 4 || ip.header_len() < 20 || !ip.verify_checksum() {
            return None;
        }
        let bytes = &payload[..usize::from(ip.total_len())];
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        if !is_host4(src) || self.is_own4(src) || self.is_broadcast(src) {
            return None;
        }
        if self.is_own4(dst) {
            return self.deliver4(now, port, group, bytes, out);
        }
        // RFC 2644, RFC 1812 sections 5.3.4 and 5.3.7: neither broadcasts nor what came as one;
        // RFC 3927 section 7: nor link-local addresses.
        if group
            || !is_host4(dst)
            || self.is_broadcast(dst)
            || src.is_link_local()
            || dst.is_link_local()
        {
            return None;
        }
        self.forward4(now, port, bytes, out)
    }

    fn forward4(&mut self, now: u64, port: u8, bytes: &[u8], out: &mut Vec<Action>) -> Option<()> {
        let ip = Ipv4Packet::new_checked(bytes).ok()?;
        let reason = match options4(&bytes[..usize::from(ip.header_len())]) {
            Options4::Malformed { at } => Some(Reason::Field(at.into())),
            // RFC 7126 section 4.3: source routes are not followed.
            Options4::SourceRoute => Some(Reason::SourceRoute),
            Options4::Continue if ip.hop_limit() <= 1 => Some(Reason::Expired),
            Options4::Continue => None,
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
        if bytes.len() > mtu && ip.dont_frag() {
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

    /// For us.
    fn deliver4(
        &mut self,
        now: u64,
        port: u8,
        group: bool,
        bytes: &[u8],
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let ip = Ipv4Packet::new_checked(bytes).ok()?;
        if ip.frag_offset() != 0 || ip.more_frags() {
            return None;
        }
        match ip.next_header() {
            IpProtocol::Icmp => {
                let icmp = Icmpv4Packet::new_checked(ip.payload()).ok()?;
                let asks = icmp.msg_type() == Icmpv4Message::EchoRequest && icmp.msg_code() == 0;
                if !asks || !icmp.verify_checksum() || group {
                    return None;
                }
                // RFC 1812 section 4.3.3.6: data and type of service as they came, from the address
                // that was asked.
                let mut reply = ip.payload().to_vec();
                let mut message = Icmpv4Packet::new_unchecked(&mut reply);
                message.set_msg_type(Icmpv4Message::EchoReply);
                message.fill_checksum();
                self.stats.echo_replies += 1;
                let (own, dst) = (Some(ip.dst_addr()), ip.src_addr());
                let protocol = IpProtocol::Icmp;
                self.originate4(now, own, dst, ip.dscp(), protocol, &reply, out)
            }
            IpProtocol::Udp => {
                self.report(now, port, group, bytes, Reason::Port, out);
                Some(())
            }
            IpProtocol::Tcp => None,
            _ => {
                self.report(now, port, group, bytes, Reason::Protocol(0), out);
                Some(())
            }
        }
    }
}
