// SPDX-License-Identifier: Apache-2.0
//! Asking the kernel what it does with a packet that comes in at a port: that need not be what it does with one of its own.

use std::io;
use std::net::IpAddr;

use crate::message::{self, Message, RouteMessage};
use crate::net::Net;
use crate::socket::Netlink;
use crate::state::State;

/// `ENODEV`, as the kernel writes it.
const NO_DEVICE: i32 = -19;
/// Addresses of a subnet that are tried as a source, at most.
const TRIES: u128 = 8;

/// A packet as it comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The port's device.
    pub device: u32,
    /// Its source: of IPv4 one that the kernel expects there.
    pub source: Option<IpAddr>,
}

impl State {
    /// How packets of a family may come in to be forwarded, by each port that is up and from which the kernel forwards them.
    pub fn entries(&self, six: bool) -> Vec<Entry> {
        let ports = self.config.ports.len() as u8;
        let forwards = |port: &u8| match six {
            true => self.forwards(true),
            false => self.port_forwards(*port),
        };
        let ready = (0..ports).filter(forwards).filter_map(|port| {
            let (device, up, carrier) = self.port(port)?;
            (up && carrier).then_some(device)
        });
        if six {
            let entry = |device| Entry {
                device,
                source: None,
            };
            return ready.map(entry).collect();
        }
        let entry = |device| {
            let source = Some(self.expected_at(device)?);
            Some(Entry { device, source })
        };
        ready.filter_map(entry).collect()
    }

    /// An address of another in an IPv4 subnet of a device.
    fn expected_at(&self, device: u32) -> Option<IpAddr> {
        let own = |it: IpAddr| self.addresses.iter().any(|(_, address, ..)| *address == it);
        let here = self.addresses.iter();
        let mut subnets: Vec<Net> = here
            .filter(|(at, address, ..)| *at == device && address.is_ipv4())
            .map(|(_, address, len, peer)| Net::host(peer.unwrap_or(*address)).around(*len))
            .collect();
        subnets.sort_unstable();
        subnets.into_iter().find_map(|subnet| {
            let others = (1..TRIES).map(|offset| subnet.inside(offset));
            let inner = |it: &IpAddr| *it != subnet.first() && *it != subnet.last();
            others.filter(inner).find(|address| !own(*address))
        })
    }
}

/// What the kernel does with a packet that comes in, or with one of its own if there is none, or if it takes none of IPv4 there
/// (`rp_filter`). Nothing where that is something else: of several default routes it takes for packets of its own one whose neighbour
/// it knows.
///
/// # Errors
/// If the kernel can't be asked.
pub fn ask(
    asker: &mut Netlink,
    address: IpAddr,
    entry: Option<Entry>,
) -> io::Result<Option<Message>> {
    let answer = asker.ask(|sequence| message::which(address, entry, sequence))?;
    match (&answer, entry) {
        (Message::Error(code), Some(_)) if address.is_ipv4() || *code == NO_DEVICE => {
            let own = asker.ask(|sequence| message::which(address, None, sequence))?;
            let is_default = |route: &RouteMessage| address.is_ipv4() && route.net.len() == 0;
            let may_differ = matches!(&own, Message::Route(route) if is_default(route));
            Ok((!may_differ).then_some(own))
        }
        _ => Ok(Some(answer)),
    }
}
