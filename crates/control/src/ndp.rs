// SPDX-License-Identifier: Apache-2.0
//! Neighbour discovery: RFC 4861 section 7.

use std::net::{IpAddr, Ipv6Addr};

use smoltcp::wire::{
    EthernetAddress, EthernetProtocol, Icmpv6Packet, NdiscNeighborFlags, NdiscRepr,
};

use crate::action::Action;
use crate::address::{Mac, group_mac, is_host6, is_link_local6, is_station, solicited_node};
use crate::config::mac_of;
use crate::icmp::packet6;
use crate::neighbours::{Key, Packet};
use crate::plane::Control;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// RFC 4861 section 7.1: shows that no router was passed.
const HOP_LIMIT: u8 = 255;
/// Bytes of a solicitation or advertisement without options.
const SHORTEST: usize = 24;

impl Control {
    /// Takes a solicitation or advertisement whose checksum, code and hop limit are right.
    pub(crate) fn take_ndp(
        &mut self,
        now: u64,
        port: u8,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        message: &[u8],
        out: &mut Vec<Action>,
    ) -> Option<()> {
        if message.len() < SHORTEST {
            return None;
        }
        let packet = Icmpv6Packet::new_checked(message).ok()?;
        let repr = NdiscRepr::parse(&packet).ok()?;
        match repr {
            NdiscRepr::NeighborSolicit {
                target_addr,
                lladdr,
            } => {
                let mac = link_address(lladdr.as_ref().map(|address| address.as_bytes()))?;
                self.take_solicitation(now, port, src, dst, target_addr, mac, out)
            }
            NdiscRepr::NeighborAdvert {
                flags,
                target_addr,
                lladdr,
            } => {
                let mac = link_address(lladdr.as_ref().map(|address| address.as_bytes()))?;
                self.take_advertisement(now, port, dst, target_addr, flags, mac, out)
            }
            _ => None,
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn take_solicitation(
        &mut self,
        now: u64,
        port: u8,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        target: Ipv6Addr,
        mac: Option<Mac>,
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let nobody = src.is_unspecified();
        // Section 7.1.1.
        if target.is_multicast() || (nobody && (dst != solicited_node(target) || mac.is_some())) {
            return None;
        }
        let own = self.own6(port).any(|(own, _)| own == target);
        let any = self
            .own6(port)
            .any(|(own, subnet)| !is_link_local6(own) && subnet.anycast() == Some(target));
        if !own && !any {
            return None;
        }
        if !nobody && !self.on_link6(port, src) {
            return None;
        }
        let key = Key {
            port,
            address: src.into(),
        };
        if let Some(mac) = mac {
            self.learn(now, key, mac, false, out);
        }
        self.stats.resolved_for_others += 1;
        let mut flags = NdiscNeighborFlags::ROUTER;
        flags.set(NdiscNeighborFlags::SOLICITED, !nobody);
        // Section 7.2.7: others may have an anycast address, too.
        flags.set(NdiscNeighborFlags::OVERRIDE, own);
        let lladdr = Some(EthernetAddress(mac_of(&self.config.ports, port)).into());
        let repr = NdiscRepr::NeighborAdvert {
            flags,
            target_addr: target,
            lladdr,
        };
        // Who only checks whether the address is free has none yet: all are told that it is not
        // (section 7.2.4, RFC 4862 section 5.4.3).
        let to = if nobody { ALL_NODES } else { src };
        let source = if own { target } else { self.source6(port, to)? };
        let bytes = ndp_packet(source, to, &repr)?;
        if nobody {
            let mac = group_mac(ALL_NODES);
            self.send(port, mac, EthernetProtocol::Ipv6, &bytes, out);
        } else {
            // Without the option the sender may have to be asked first.
            let transit = None;
            self.send_to(now, key, Packet { bytes, transit }, out);
        }
        Some(())
    }

    #[allow(clippy::too_many_arguments)]
    fn take_advertisement(
        &mut self,
        now: u64,
        port: u8,
        dst: Ipv6Addr,
        target: Ipv6Addr,
        flags: NdiscNeighborFlags,
        mac: Option<Mac>,
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let solicited = flags.contains(NdiscNeighborFlags::SOLICITED);
        // Section 7.1.2.
        if target.is_multicast() || (solicited && dst.is_multicast()) {
            return None;
        }
        let key = Key {
            port,
            address: IpAddr::V6(target),
        };
        // Section 7.2.5: nothing is made of an advertisement that nobody asked for.
        if !self.neighbours.known(key) {
            return None;
        }
        let overrides = flags.contains(NdiscNeighborFlags::OVERRIDE);
        let old = self.neighbours.mac(key);
        match (mac, old) {
            (None, None) => return None,
            (Some(mac), None) => self.learn(now, key, mac, solicited, out),
            (Some(mac), Some(old)) if mac != old && !overrides => self.doubt(now, key),
            (Some(mac), Some(old)) if mac != old => self.learn(now, key, mac, solicited, out),
            _ if solicited => self.still_there(now, key),
            _ => {}
        }
        Some(())
    }

    /// Asks for an address: those who may have it, or the one that had it.
    pub(crate) fn solicit(
        &mut self,
        port: u8,
        target: Ipv6Addr,
        mac: Option<Mac>,
        out: &mut Vec<Action>,
    ) {
        let Some(source) = self.source6(port, target) else {
            return;
        };
        let own = EthernetAddress(mac_of(&self.config.ports, port));
        let repr = NdiscRepr::NeighborSolicit {
            target_addr: target,
            lladdr: Some(own.into()),
        };
        let group = solicited_node(target);
        let (dst, mac) = match mac {
            Some(mac) => (target, mac),
            None => (group, group_mac(group)),
        };
        if let Some(bytes) = ndp_packet(source, dst, &repr) {
            self.send(port, mac, EthernetProtocol::Ipv6, &bytes, out);
        }
    }

    /// Whether an address is on the link of a port.
    fn on_link6(&self, port: u8, address: Ipv6Addr) -> bool {
        is_host6(address)
            && (is_link_local6(address)
                || self
                    .own6(port)
                    .any(|(_, subnet)| subnet.contains(address.into())))
    }
}

fn ndp_packet(src: Ipv6Addr, dst: Ipv6Addr, repr: &NdiscRepr) -> Option<Vec<u8>> {
    let mut icmp = vec![0; repr.buffer_len()];
    repr.emit(&mut Icmpv6Packet::new_unchecked(&mut icmp));
    packet6(src, dst, HOP_LIMIT, icmp)
}

/// A link-layer address option: absent, or a station's address; anything else is refused.
fn link_address(option: Option<&[u8]>) -> Option<Option<Mac>> {
    match option {
        None => Some(None),
        Some(bytes) => {
            let mac: Mac = bytes.try_into().ok()?;
            is_station(mac).then_some(Some(mac))
        }
    }
}
