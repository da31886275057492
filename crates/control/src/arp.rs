// SPDX-License-Identifier: Apache-2.0
//! ARP: RFC 826, with RFC 5227 for probes.

use std::net::{IpAddr, Ipv4Addr};

use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol};

use crate::action::Action;
use crate::address::{Mac, is_host4, is_station};
use crate::neighbours::Key;
use crate::plane::Control;

const BROADCAST: Mac = [0xFF; 6];

impl Control {
    pub(crate) fn take_arp(
        &mut self,
        now: u64,
        port: u8,
        payload: &[u8],
        out: &mut Vec<Action>,
    ) -> Option<()> {
        let packet = ArpPacket::new_checked(payload).ok()?;
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(mac),
            source_protocol_addr: sender,
            target_protocol_addr: target,
            ..
        } = ArpRepr::parse(&packet).ok()?
        else {
            return None;
        };
        let own = |address| self.own4(port).any(|(own, _)| own == address);
        let for_us = own(target);
        // Someone with our address is not believed; a probe (RFC 5227) says nothing of its sender.
        let probe = sender.is_unspecified();
        if !is_station(mac) || own(sender) {
            return None;
        }
        let on_link = self.own4(port).any(|(_, subnet)| {
            let broadcast = subnet.broadcasts();
            subnet.contains(sender.into()) && !broadcast.is_some_and(|pair| pair.contains(&sender))
        });
        let believable = probe || (is_host4(sender) && on_link);
        if !believable {
            return None;
        }
        let key = Key {
            port,
            address: sender.into(),
        };
        // RFC 826: merge what is known already; add only those who talk to us.
        let asks = operation == ArpOperation::Request;
        let answers = operation == ArpOperation::Reply;
        let knows = self.neighbours.known(key);
        if !probe && ((knows && (asks || answers)) || (asks && for_us)) {
            self.learn(now, key, mac, answers && for_us, out);
        }
        if asks && for_us {
            self.stats.resolved_for_others += 1;
            let reply = ArpRepr::EthernetIpv4 {
                operation: ArpOperation::Reply,
                source_hardware_addr: self.mac(port),
                source_protocol_addr: target,
                target_hardware_addr: EthernetAddress(mac),
                target_protocol_addr: sender,
            };
            self.send_arp(port, mac, &reply, out);
        }
        Some(())
    }

    /// Asks for an address: all of the subnet, or the one that had it.
    pub(crate) fn request_arp(
        &mut self,
        port: u8,
        address: Ipv4Addr,
        mac: Option<Mac>,
        out: &mut Vec<Action>,
    ) {
        let Some(source) = self.source4(port, address.into()) else {
            return;
        };
        let request = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: self.mac(port),
            source_protocol_addr: source,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: address,
        };
        self.send_arp(port, mac.unwrap_or(BROADCAST), &request, out);
    }

    /// The address of a port for packets to a neighbour.
    pub(crate) fn source4(&self, port: u8, neighbour: IpAddr) -> Option<Ipv4Addr> {
        self.own4(port)
            .find(|(_, subnet)| subnet.contains(neighbour))
            .or_else(|| self.own4(port).next())
            .map(|(address, _)| address)
    }

    fn mac(&self, port: u8) -> EthernetAddress {
        EthernetAddress(self.config.ports[usize::from(port)].mac)
    }

    fn send_arp(&mut self, port: u8, mac: Mac, repr: &ArpRepr, out: &mut Vec<Action>) {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut ArpPacket::new_unchecked(&mut bytes));
        self.send(port, mac, EthernetProtocol::Arp, &bytes, out);
    }
}
