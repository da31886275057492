// SPDX-License-Identifier: Apache-2.0
//! Routes that are ignored while their device has no carrier, if it is set so (`ignore_routes_with_linkdown`), and which of
//! what the kernel calls dead is no more than that.

use crate::message::{Hop, RouteMessage, Settings};
use crate::net::Net;
use crate::state::{Link, Own, Source, State};

impl State {
    /// The kernel calls next hops dead that are, and those of a device whose routes are ignored for want of a carrier. Where
    /// they are ignored, those of a device that has not been down are the latter, and alive as soon as the setting or the
    /// carrier is another. Where they are not, the kernel means what it says.
    pub(crate) fn tell_apart(&self, route: &mut RouteMessage) {
        let only_idle = |device: &u32| {
            let link = self.links.get(device);
            // Of one that is not ready the host port gets it all, dead or not.
            let is_idle = |link: &Link| !link.was_down && self.is_ignored(link, true);
            link.is_some_and(|link| link.up && is_idle(link) || self.may_ignore_six(link))
        };
        for hop in &mut route.hops {
            hop.dead &= !(route.idle.contains(&hop.device) && only_idle(&hop.device));
        }
    }

    /// A device went down, or is ready: the IPv6 next hops there are dead, or alive again.
    pub(crate) fn readiness(&mut self, device: u32, up: bool) {
        let Some(link) = self.links.get_mut(&device) else {
            return;
        };
        let was_down = std::mem::replace(&mut link.was_down, !up);
        if up && !was_down && self.seen.is_some() {
            // Nothing happened; which next hops are dead all the same the dump says of each.
            return;
        }
        let changed = self.paths.set_hops_dead(device, !up);
        // Without IPv6 they stay dead, however ready the device is.
        let unknown = up && !changed.is_empty() && !self.has_six(device);
        self.unsure |= unknown && self.seen.is_none();
        self.dirty_paths.extend(changed);
    }

    /// Whether a device has an address of IPv6, its link-local one at least: without there is no IPv6.
    pub(crate) fn has_six(&self, device: u32) -> bool {
        let of = |(at, address, ..): &Own| *at == device && address.is_ipv6();
        self.addresses.iter().any(of)
    }

    /// An IPv6 address of a device went. With the last IPv6 ends there, and next hops of routes that have others die as if it
    /// went down.
    pub(crate) fn ends_six(&mut self, device: u32) {
        let ended = !self.has_six(device);
        if let Some(link) = self.links.get_mut(&device) {
            link.was_down |= ended;
        }
    }

    /// Whether packets are forwarded: of IPv6 what stands for all devices counts alone, of IPv4 that of each does.
    pub(crate) fn set_forwards(&mut self, of: Settings, six: bool, forwards: bool) {
        match of {
            Settings::All => self.forwards[usize::from(six)] = forwards,
            Settings::Of(device) if !six => {
                if let Some(link) = self.links.get_mut(&device) {
                    link.forwards = forwards;
                }
            }
            _ => {}
        }
    }

    /// Whether the kernel forwards packets of IPv4 that come in at a port.
    pub fn port_forwards(&self, port: u8) -> bool {
        let link = self.port(port).and_then(|(it, ..)| self.links.get(&it));
        link.is_some_and(|link| link.forwards)
    }

    /// Whether routes are ignored without a carrier.
    pub(crate) fn ignores(&mut self, of: Settings, six: bool, ignores: bool) {
        match of {
            Settings::Of(device) => {
                if let Some(link) = self.links.get_mut(&device)
                    && link.ignores[usize::from(six)] != ignores
                {
                    link.ignores[usize::from(six)] = ignores;
                    // Which of its next hops are really dead, only a dump can say now.
                    let unknown = six && !ignores && (link.was_down || link.carrier) && link.idle;
                    self.unsure |= unknown && self.seen.is_none();
                    self.touch_device(device);
                }
            }
            // IPv6 sets it for each device, and says so of each.
            Settings::All if six => {}
            Settings::All if self.all_ignore == ignores => {}
            Settings::All => {
                self.all_ignore = ignores;
                let devices: Vec<_> = self.links.keys().copied().collect();
                devices.into_iter().for_each(|it| self.touch_device(it));
            }
            Settings::Default => self.unset |= self.seen.is_none(),
        }
    }

    /// Whether only the kernel knows if a next hop is ignored. It keeps of each whether its device has a carrier: of IPv4 it does
    /// not look when one with a gateway of IPv6 comes; of IPv6 a device that has a carrier and is not ready (IEEE 802.1X) is one
    /// with a carrier when a route comes, and one without when something changes.
    pub(crate) fn may_be_ignored(&self, hop: &Hop, six: bool) -> bool {
        let by_six = || hop.gateway.is_some_and(|gateway| gateway.is_ipv6());
        self.links.get(&hop.device).is_some_and(|link| match six {
            true => self.may_ignore_six(link),
            false => link.up && self.is_ignored(link, false) && by_six(),
        })
    }

    fn may_ignore_six(&self, link: &Link) -> bool {
        link.up && link.carrier && link.idle && link.ignores[1]
    }

    /// Until the next dump only the kernel knows what it does for a prefix.
    pub(crate) fn put_in_doubt(&mut self, net: Net) {
        let generation = self.generation[Source::Kernel as usize];
        self.in_doubt.insert(net, generation);
        self.unsure = true;
    }

    /// A route may be told to be ignored for want of a carrier while its device has one, for all that is known: the kernel looks at
    /// devices a second after they lost their carrier, or have it again, and only then at their other routes.
    pub(crate) fn doubt_idle(&mut self, route: &RouteMessage) {
        let six = route.net.is_ipv6();
        let is_late = |device: &u32| {
            let Some(link) = self.links.get(device).filter(|link| link.up && !link.idle) else {
                return false;
            };
            let ignores = link.ignores[usize::from(six)] || self.all_ignore && !six;
            // Without an address, and before IPv6 is there again, it is dead for another reason.
            let own = |(at, it, ..): &Own| at == device && it.is_ipv6() == six;
            ignores && !(six && link.was_down) && self.addresses.iter().any(own)
        };
        let late: Vec<u32> = route.idle.iter().copied().filter(is_late).collect();
        if !late.is_empty() {
            self.put_in_doubt(route.net);
            self.late.extend(late);
        }
    }

    /// Whether there are some.
    pub fn has_late_devices(&self) -> bool {
        !self.late.is_empty()
    }

    /// Devices whose carriers changed, perhaps without the kernel's having looked at them.
    pub fn take_late_devices(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.late).into_iter().collect()
    }

    /// Whether routes of a family at a device are ignored since it has no carrier.
    pub(crate) fn is_ignored(&self, link: &Link, six: bool) -> bool {
        let ignores = link.ignores[usize::from(six)] || self.all_ignore && !six;
        ignores && !link.carrier
    }
}
