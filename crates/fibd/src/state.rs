// SPDX-License-Identifier: Apache-2.0
//! What the kernel forwards by, as far as it says so, and what follows where it does not.
//!
//! The kernel takes routes out without a message when their device goes down, when the address that they prefer as source
//! goes, when a next-hop object goes. Each of these has a message of its own, and what it implies is done here.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use crate::counters::Counters;
use crate::expiry::Expiries;
use crate::message::{Event, Hop, Malformed, Message, RouteKind};
use crate::net::Net;
use crate::objects::Objects;
use crate::paths::{Paths, Via};
use crate::rules::Rules;
use crate::sourced::Sourced;
use crate::unsettled::Unsettled;

/// Who says that a route is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The kernel, by rtnetlink.
    Kernel,
    /// A routing daemon, by FPM.
    Fpm,
}

/// What is fixed.
#[derive(Clone, Debug)]
pub struct Config {
    /// Names of the devices that are ports of the switch, in order.
    pub ports: Vec<String>,
    /// The table that is followed, beside that of local addresses.
    pub table: u32,
    /// Routes of FRR are taken from FPM, and not from the kernel.
    pub fpm: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            table: 254,
            fpm: false,
        }
    }
}

/// Whether a routing protocol's number is one of FRR's.
pub const fn is_frr(protocol: u8) -> bool {
    protocol == 11 || protocol >= 186 && protocol <= 198
}

/// Where the packets to a prefix are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// To the kernel.
    Host,
    /// Nowhere.
    Discard,
    /// To a neighbour.
    Neighbour {
        /// The port it is at.
        port: u8,
        /// Its address.
        address: IpAddr,
    },
}

/// What a usable route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Target(Target),
    /// The destination is a neighbour at this device.
    Connected(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) carrier: bool,
    /// It has no carrier, or is not ready for all that (IEEE 802.1X).
    pub(crate) idle: bool,
    /// Routes are ignored without a carrier: IPv4, IPv6.
    pub(crate) ignores: [bool; 2],
    /// It was down, or may have been, and was not ready since: IPv6 next hops that outlived that are dead.
    pub(crate) was_down: bool,
    /// Its own MAC address.
    pub(crate) mac: Option<[u8; 6]>,
    /// Bytes of its longest packet.
    pub(crate) mtu: u32,
    /// The same of IPv6.
    pub(crate) mtu_six: u32,
    /// IPv4 packets that come in there are forwarded.
    pub(crate) forwards: bool,
}

/// A route to a prefix; there may be several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) path: u32,
    pub(crate) metric: u32,
    /// 0: of the local table.
    pub(crate) rank: u8,
    pub(crate) generation: u8,
    /// Which of its path's next hops are at this place of the kernel's order, as bits, or one of the two below.
    pub(crate) run: u8,
    pub(crate) source: Source,
}

/// How many next hops [`Route::run`] has bits for.
pub(crate) const RUNS: usize = 7;
/// All next hops are at one place.
pub(crate) const WHOLE: u8 = 0xFF;
/// A dump said so: it says nothing of routes between the next hops.
pub(crate) const MAY_HIDE: u8 = 0;

impl Route {
    /// Whether a next hop of its path, by its number, is at this place.
    pub(crate) const fn has(&self, hop: usize) -> bool {
        matches!(self.run, WHOLE | MAY_HIDE) || hop < RUNS && self.run >> hop & 1 != 0
    }
}

/// Nearly all prefixes have one route.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    One([Route; 1]),
    #[allow(clippy::box_collection)] // A vector itself would make every slot longer.
    Many(Box<Vec<Route>>),
}

impl Slot {
    pub(crate) fn routes(&self) -> &[Route] {
        match self {
            Self::One(route) => route,
            Self::Many(routes) => routes,
        }
    }

    pub(crate) fn routes_mut(&mut self) -> &mut [Route] {
        match self {
            Self::One(route) => route,
            Self::Many(routes) => routes,
        }
    }

    pub(crate) fn from(mut routes: Vec<Route>) -> Option<Self> {
        match routes.len() {
            0 => None,
            1 => routes.pop().map(|route| Self::One([route])),
            _ => Some(Self::Many(Box::new(routes))),
        }
    }
}

/// An address of the router's: its device, its length, and its peer, with each of which it may be there once.
pub(crate) type Own = (u32, IpAddr, u8, Option<IpAddr>);

/// What a full dump has had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) links: HashSet<u32>,
    pub(crate) addresses: HashSet<Own>,
    pub(crate) neighbours: HashSet<(IpAddr, u32)>,
    pub(crate) objects: HashSet<u32>,
}

/// What changed: prefixes and neighbours that are to be looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Prefixes.
    pub nets: Vec<Net>,
    /// Neighbours.
    pub neighbours: Vec<(u8, IpAddr)>,
}

/// What the kernel forwards by.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) config: Config,
    pub(crate) links: HashMap<u32, Link>,
    pub(crate) ports: HashMap<u32, u8>,
    pub(crate) addresses: HashSet<Own>,
    pub(crate) neighbours: BTreeMap<Net, Vec<(u32, [u8; 6])>>,
    /// Neighbours that nobody is asked for.
    pub(crate) given: HashSet<(u32, IpAddr)>,
    /// Those that were, and are not any more.
    pub(crate) released: Vec<(u32, IpAddr)>,
    pub(crate) objects: Objects,
    pub(crate) paths: Paths,
    pub(crate) routes: HashMap<Net, Slot>,
    /// Subnets of the local table of IPv6, and of IPv4 where it is looked into first: they hide longer prefixes of the main
    /// one.
    pub(crate) wide: HashSet<Net>,
    /// Prefixes for which the kernel, asked, named another route than those that its dump has.
    pub(crate) outdone: HashSet<Net>,
    /// Prefixes of which a dump has not said all, and which have changed since, with the generation in which they did: until the next
    /// one the kernel alone knows.
    pub(crate) in_doubt: HashMap<Net, u8>,
    /// Prefixes whose routes expire, or come of advertisements.
    pub(crate) unsettled: Unsettled,
    /// The last full telling of each source.
    pub(crate) generation: [u8; 2],
    /// Routes of earlier tellings that a daemon told again.
    pub(crate) renewed: u64,
    pub(crate) seen: Option<Seen>,
    /// Routes for one source prefix.
    pub(crate) sourced: Sourced,
    pub(crate) rules: Rules,
    /// The kernel looks into the local table of IPv4 before the main one, and not into both as one.
    pub(crate) split: bool,
    /// Who asked the kernel for the last change of an object, and by which request.
    pub(crate) object_request: (u32, u32),
    /// The dump that goes on makes up for lost messages: the order that is known may be an old one.
    pub(crate) lost: bool,
    pub(crate) doubt: bool,
    /// Only a dump can say what there is.
    pub(crate) unsure: bool,
    /// The kernel forwards at all: IPv4, IPv6.
    pub(crate) forwards: [bool; 2],
    /// IPv4 routes are ignored without a carrier at all devices, whatever is set for each.
    pub(crate) all_ignore: bool,
    /// Settings of devices are to be asked for: no message says what a device took over when it came.
    pub(crate) unset: bool,
    /// When routes expire.
    pub(crate) expiries: Expiries,
    pub(crate) dirty: Vec<Net>,
    pub(crate) dirty_paths: HashSet<u32>,
    /// By the port at which they were when they changed: at the end another device may be there.
    pub(crate) dirty_neighbours: Vec<(u8, IpAddr)>,
    /// Ports at which another device is.
    moved: BTreeSet<u8>,
    /// Devices whose carriers the kernel may not have looked at since they changed.
    pub(crate) late: BTreeSet<u32>,
    /// What was counted.
    pub counters: Counters,
}

impl State {
    /// Nothing is known yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            links: HashMap::new(),
            ports: HashMap::new(),
            addresses: HashSet::new(),
            neighbours: BTreeMap::new(),
            given: HashSet::new(),
            released: Vec::new(),
            objects: Objects::default(),
            paths: Paths::default(),
            routes: HashMap::new(),
            wide: HashSet::new(),
            outdone: HashSet::new(),
            in_doubt: HashMap::new(),
            unsettled: Unsettled::default(),
            generation: [0; 2],
            renewed: 0,
            seen: None,
            sourced: Sourced::default(),
            rules: Rules::default(),
            split: false,
            object_request: (0, 0),
            lost: false,
            doubt: false,
            unsure: false,
            forwards: [true; 2],
            all_ignore: false,
            unset: false,
            expiries: Expiries::default(),
            dirty: Vec::new(),
            dirty_paths: HashSet::new(),
            dirty_neighbours: Vec::new(),
            moved: BTreeSet::new(),
            late: BTreeSet::new(),
            counters: Counters::default(),
        }
    }

    /// What is fixed.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Prefixes with a route.
    pub fn nets(&self) -> impl Iterator<Item = Net> {
        self.routes.keys().copied()
    }

    /// Whether the kernel forwards packets of a family: of IPv4 each port has a setting of its own, which that for all only
    /// sets.
    pub fn forwards(&self, six: bool) -> bool {
        let mut ports = self.ports.keys().filter_map(|it| self.links.get(it));
        match six || self.ports.is_empty() {
            true => self.forwards[usize::from(six)],
            false => ports.any(|link| link.forwards),
        }
    }

    /// How many prefixes have a route.
    pub fn net_count(&self) -> usize {
        self.routes.len()
    }

    /// How many neighbours have a MAC address.
    pub fn neighbour_count(&self) -> usize {
        self.neighbours.len()
    }

    /// How many different paths routes have.
    pub fn path_count(&self) -> usize {
        self.paths.count()
    }

    /// The device of a port, and whether it is up and has a carrier.
    pub fn port(&self, port: u8) -> Option<(u32, bool, bool)> {
        let device = *self.ports.iter().find(|(_, number)| **number == port)?.0;
        let link = self.links.get(&device)?;
        Some((device, link.up, link.carrier))
    }

    /// A device's name.
    pub fn name(&self, device: u32) -> Option<&str> {
        self.links.get(&device).map(|link| link.name.as_str())
    }

    /// Takes in what someone says.
    pub fn take(&mut self, mut event: Event, source: Source) {
        let request = (event.port, event.sequence);
        if let Message::Route(route) | Message::RouteGone(route) = &mut event.message {
            self.tell_apart(route);
            self.share_terms(route, source);
        }
        if source == Source::Kernel {
            match &event.message {
                Message::Route(route) => {
                    self.note_unsettled(route);
                    if !self.lasts(route) {
                        return;
                    }
                }
                Message::RouteGone(route) => self.unsettled_gone(route),
                _ => {}
            }
        }
        match event.message {
            Message::Route(route) if source == Source::Kernel && self.is_note(&route, request) => {
                self.note(&route);
            }
            Message::Route(route) => self.route(route, event.flags, source),
            Message::RouteGone(route) => self.route_gone(&route, source, request != (0, 0)),
            Message::Object { id, object } => {
                if source == Source::Kernel {
                    self.object_request = request;
                }
                self.object((source, id), object);
            }
            Message::ObjectGone { id } => self.object_gone((source, id)),
            // A daemon knows no devices of its own.
            _ if source == Source::Fpm => {}
            Message::Link {
                device,
                name,
                up,
                carrier,
                running,
                mac,
                mtu,
            } => {
                self.link(device, name, (up, carrier, running), mac, mtu);
                if !up || running {
                    self.readiness(device, up);
                }
            }
            Message::LinkGone { device } => self.link_gone(device),
            Message::Address {
                device,
                address,
                len,
                peer,
                present,
            } => self.address((device, address, len, peer), present),
            Message::Neighbour {
                device,
                address,
                mac,
                given,
            } => {
                // Where there is no ARP the kernel gives a neighbour the device's own MAC address, and says nothing; what it
                // sends there, nobody takes.
                let own = self.links.get(&device).and_then(|link| link.mac);
                let mac = mac.filter(|mac| !(given && own == Some(*mac)));
                self.neighbour(device, address, mac);
                if given && mac.is_some() {
                    self.given.insert((device, address));
                } else if self.given.remove(&(device, address)) {
                    self.released.push((device, address));
                }
            }
            Message::IgnoresLinkDown {
                device,
                six,
                ignores,
                forwards,
            } => {
                self.ignores(device, six, ignores);
                if let Some(forwards) = forwards {
                    self.set_forwards(device, six, forwards);
                }
            }
            Message::Rule { rule, present } => self.rule(rule, present),
            Message::Forwards {
                device,
                six,
                forwards,
            } => self.set_forwards(device, six, forwards),
            Message::Done | Message::Error(_) | Message::Overrun | Message::Other => {}
        }
    }

    // --- Links and addresses --------------------------------------------------------------------

    fn link(
        &mut self,
        device: u32,
        name: String,
        (up, carrier, running): (bool, bool, bool),
        mac: Option<[u8; 6]>,
        mtu: u32,
    ) {
        if let Some(seen) = &mut self.seen {
            seen.links.insert(device);
        }
        let port = self.config.ports.iter().position(|port| *port == name);
        let before = self.ports.get(&device).copied();
        let port = port.map(|port| port as u8);
        if before != port {
            // Neighbours leave one port and come to the other.
            self.touch_neighbours(device);
            match port {
                Some(port) => self.ports.insert(device, port),
                None => self.ports.remove(&device),
            };
            self.touch_neighbours(device);
            self.moved.extend(port);
        }
        // The message with its settings came before this one, when nothing was known of it.
        self.unset |= self.seen.is_none() && !self.links.contains_key(&device);
        let link = self.links.entry(device).or_insert_with(|| Link {
            name: String::new(),
            up: false,
            carrier: false,
            idle: true,
            ignores: [false; 2],
            was_down: true,
            mac: None,
            mtu,
            mtu_six: mtu,
            forwards: true,
        });
        link.name = name;
        link.mac = mac.or(link.mac);
        let old_mtu = std::mem::replace(&mut link.mtu, mtu);
        let (was_up, had_carrier) = (link.up, link.carrier);
        (link.up, link.carrier) = (up, carrier);
        let down = was_up && !up;
        let was_idle = std::mem::replace(&mut link.idle, !running);
        if up && !was_up || mtu != old_mtu {
            link.mtu_six = mtu;
        }
        if mtu != old_mtu {
            self.doubt_mtu(device);
        }
        if up && !was_up {
            self.revive(device);
        }
        self.doubt |= (was_up, had_carrier) != (up, carrier) && self.seen.is_none();
        if carrier && !running || had_carrier && was_idle && !carrier {
            self.late.insert(device);
        }
        if down {
            self.doubt_sourced();
        }
        if down || had_carrier && !carrier {
            self.flush_objects(device);
        }
        if down {
            self.flush_paths(device, false, &[false, true]);
        }
        if (was_up, had_carrier, before, old_mtu) != (up, carrier, port, mtu) || was_idle == running
        {
            self.touch_device(device);
        }
    }

    /// Whether the settings of devices are to be asked for.
    pub fn take_unset(&mut self) -> bool {
        std::mem::take(&mut self.unset)
    }

    fn link_gone(&mut self, device: u32) {
        self.doubt_sourced();
        self.flush_objects(device);
        self.links.remove(&device);
        self.flush_paths(device, true, &[false, true]);
        // Of a device that is no more, IPv4 takes out whole routes, whatever other next hops they have.
        let whole = self.paths_over(device, false);
        self.doom(&whole);
        self.addresses.retain(|(of, ..)| *of != device);
        self.given.retain(|(at, _)| *at != device);
        let addresses: Vec<_> = self.neighbours_at(device).collect();
        for address in addresses {
            self.neighbour(device, address, None);
        }
        self.ports.remove(&device);
    }

    fn neighbours_at(&self, device: u32) -> impl Iterator<Item = IpAddr> {
        self.neighbours
            .iter()
            .filter(move |(_, known)| known.iter().any(|(at, _)| *at == device))
            .map(|(net, _)| net.first())
    }

    fn touch_neighbours(&mut self, device: u32) {
        let addresses: Vec<_> = self.neighbours_at(device).collect();
        for address in addresses {
            self.dirty.push(Net::host(address));
            self.touch_neighbour(device, address);
        }
    }

    fn touch_neighbour(&mut self, device: u32, address: IpAddr) {
        let port = self.ports.get(&device);
        self.dirty_neighbours
            .extend(port.map(|port| (*port, address)));
    }

    fn address(&mut self, key: Own, present: bool) {
        let (device, address, ..) = key;
        if present {
            if let Some(seen) = &mut self.seen {
                seen.addresses.insert(key);
            }
            let first = address.is_ipv6() && self.seen.is_none() && !self.has_six(device);
            self.addresses.insert(key);
            if address.is_ipv4() {
                self.revive(device);
            } else if first {
                // IPv6 begins there anew, and has its next hops live again without a message.
                self.unsure |= self.is_up(device);
            }
            return;
        }
        if !self.addresses.remove(&key) {
            return;
        }
        self.doubt = true;
        self.doubt_sourced();
        // Only IPv4 takes routes along without a message, unless IPv6 ends at a device that stays up, with
        // skip_notify_on_dev_down: then the same messages come as for an address that is taken out.
        if address.is_ipv6() {
            // Of one that is down what went with it is gone already; what has come since may go so as well.
            self.unsure |= self.is_up(device) || !self.paths_over(device, true).is_empty();
            self.ends_six(device);
            return;
        }
        if !self
            .addresses
            .iter()
            .any(|(_, other, ..)| *other == address)
        {
            let with_source = self.paths.all().filter_map(|(number, path)| {
                (path.source == Some(address) && !path.six).then_some(number)
            });
            let with_source: Vec<_> = with_source.collect();
            self.doom(&with_source);
        }
        let left = |(of, other, ..): &Own| *of == device && other.is_ipv4();
        if !self.addresses.iter().any(left) {
            self.bury(device);
            self.flush_paths(device, true, &[false]);
            self.touch_device(device);
        }
    }

    /// The IPv4 next hops of routes at a device are dead. Those of objects, and of routes that come later, are not.
    fn bury(&mut self, device: u32) {
        for number in self.paths_over(device, false) {
            if self.paths.set_dead(number, device, true) {
                self.dirty_paths.insert(number);
            }
        }
    }

    /// They live again: the device has an address, or went up.
    fn revive(&mut self, device: u32) {
        for number in self.paths_over(device, false) {
            if self.paths.set_dead(number, device, false) {
                self.dirty_paths.insert(number);
            }
        }
    }

    /// Paths of a family with a next hop of their own at a device.
    fn paths_over(&self, device: u32, six: bool) -> Vec<u32> {
        let over = self
            .paths
            .all()
            .filter_map(|(number, path)| match &path.via {
                Via::Hops(hops) if path.six == six => hops
                    .iter()
                    .any(|hop| hop.device == device)
                    .then_some(number),
                _ => None,
            });
        over.collect()
    }

    pub(crate) fn is_up(&self, device: u32) -> bool {
        self.links.get(&device).is_some_and(|link| link.up)
    }

    /// Whether packets go to a next hop; `dead` are the devices at which they do not for other reasons.
    pub(crate) fn is_usable(&self, hop: &Hop, six: bool, dead: &[u32]) -> bool {
        !hop.dead
            && !dead.contains(&hop.device)
            && self.links.get(&hop.device).is_some_and(|link| {
                link.up && (!self.is_ignored(link, six) || self.may_be_ignored(hop, six))
            })
    }

    /// Takes out the paths all of whose next hops are dead, after those at this device died. Unless forced, the router's
    /// own IPv4 addresses stay its own, and what is between next hops of another route stays.
    fn flush_paths(&mut self, device: u32, forced: bool, families: &[bool]) {
        let dead = self.paths.all().filter_map(|(number, path)| {
            let Via::Hops(hops) = &path.via else {
                return None;
            };
            let stays = path.between || path.kind == RouteKind::Local && !path.six;
            let dead = hops.iter().any(|hop| hop.device == device)
                && hops.iter().all(|hop| {
                    let dead = self.paths.dead(number);
                    hop.dead || !self.is_up(hop.device) || dead.contains(&hop.device)
                });
            (dead && (forced || !stays) && families.contains(&path.six)).then_some(number)
        });
        let dead: Vec<_> = dead.collect();
        self.doom(&dead);
        let at_device = |hop: &Hop| hop.device == device;
        // If all that they were between is gone, they are, too.
        self.unsure |= self
            .paths
            .all()
            .any(|(_, path)| path.between && path.via.hops().iter().any(at_device));
    }

    pub(crate) fn doom(&mut self, paths: &[u32]) {
        for &path in paths {
            self.counters.implied += u64::from(self.paths.doom(path));
            self.dirty_paths.insert(path);
        }
    }

    /// Paths over a device may lead elsewhere now.
    pub(crate) fn touch_device(&mut self, device: u32) {
        let over = self.paths.all().filter(|(_, path)| match &path.via {
            Via::Hops(hops) => hops.iter().any(|hop| hop.device == device),
            Via::Object(key) => self
                .members(*key)
                .iter()
                .any(|(hop, _)| matches!(hop, Some(hop) if hop.device == device)),
        });
        let over: Vec<_> = over.map(|(number, _)| number).collect();
        self.dirty_paths.extend(over);
    }

    // --- Neighbours -----------------------------------------------------------------------------

    /// Neighbours that somebody had given, and took back: their ports and addresses.
    pub fn take_released(&mut self) -> Vec<(u8, IpAddr)> {
        let released = std::mem::take(&mut self.released).into_iter();
        let at_port = |(device, address)| Some((*self.ports.get(&device)?, address));
        released.filter_map(at_port).collect()
    }

    /// Ports at which another device is than when this was last asked.
    pub fn take_moved(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.moved).into_iter().collect()
    }

    fn neighbour(&mut self, device: u32, address: IpAddr, mac: Option<[u8; 6]>) {
        if let (Some(seen), Some(_)) = (&mut self.seen, mac) {
            seen.neighbours.insert((address, device));
        }
        let net = Net::host(address);
        let known = self.neighbours.entry(net).or_default();
        let old = known
            .iter()
            .find(|(at, _)| *at == device)
            .map(|(_, mac)| *mac);
        if old != mac {
            known.retain(|(at, _)| *at != device);
            known.extend(mac.map(|mac| (device, mac)));
            self.touch_neighbour(device, address);
            if old.is_some() != mac.is_some() {
                self.dirty.push(net);
            }
        }
        if self.neighbours.get(&net).is_some_and(Vec::is_empty) {
            self.neighbours.remove(&net);
        }
    }

    /// A neighbour's MAC address.
    pub fn mac(&self, port: u8, address: IpAddr) -> Option<[u8; 6]> {
        let known = self.neighbours.get(&Net::host(address))?;
        let at = known
            .iter()
            .find(|(at, _)| self.ports.get(at) == Some(&port));
        at.map(|(_, mac)| *mac)
    }

    // --- Full dumps -----------------------------------------------------------------------------

    /// A full dump of the kernel begins, perhaps since messages were lost.
    pub fn begin_resync(&mut self, lost: bool) {
        self.lost = lost;
        if lost {
            self.links.values_mut().for_each(|it| it.was_down = true);
        }
        self.unsure = false;
        self.unset = false;
        self.begin_expiries();
        self.begin_generation(Source::Kernel);
        self.begin_rules();
        self.seen = Some(Seen::default());
        self.counters.resyncs += 1;
    }

    /// The dump is whole: what it did not have is not there.
    pub fn end_resync(&mut self) {
        // What the dump itself has said of devices leaves nothing in doubt.
        self.find_dirty();
        let Some(seen) = self.seen.take() else { return };
        // But for what this one has left in doubt.
        let generation = self.generation[Source::Kernel as usize];
        let old = self.in_doubt.extract_if(|_, since| *since != generation);
        self.dirty.extend(old.map(|(net, _)| net));
        self.end_expiries(true);
        self.settle();
        let mut swept = 0;
        let objects: Vec<_> = self.objects.keys().collect();
        for key in objects {
            if key.0 == Source::Kernel && !seen.objects.contains(&key.1) {
                swept += 1;
                self.object_gone(key);
            }
        }
        let neighbours: Vec<(IpAddr, u32)> = self
            .neighbours
            .iter()
            .flat_map(|(net, known)| known.iter().map(|(at, _)| (net.first(), *at)))
            .filter(|key| !seen.neighbours.contains(key))
            .collect();
        for (address, device) in neighbours {
            swept += 1;
            self.neighbour(device, address, None);
            if self.given.remove(&(device, address)) {
                self.released.push((device, address));
            }
        }
        let links: Vec<_> = self.links.keys().copied().collect();
        for device in links {
            if !seen.links.contains(&device) {
                swept += 1;
                self.link_gone(device);
            }
        }
        self.addresses.retain(|key| seen.addresses.contains(key));
        self.counters.swept += swept;
        self.sweep_rules();
        self.sweep(Source::Kernel);
    }

    /// A dump can't be had whole: what it did not have may still be there.
    pub fn abandon_resync(&mut self) {
        self.seen = None;
        self.end_expiries(false);
        self.unsure = true;
    }

    /// A message that could not be read.
    pub fn refused(&mut self, error: Malformed) {
        match error {
            Malformed::Prefix => self.counters.host_bits += 1,
            Malformed::Length | Malformed::Address => self.counters.malformed += 1,
        }
    }

    /// Whether something happened after which the kernel may do more than it says, or than is foreseen here.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubt)
    }

    /// A daemon begins to tell everything anew.
    pub fn begin_generation(&mut self, source: Source) {
        let generation = &mut self.generation[source as usize];
        *generation = generation.wrapping_add(1);
    }

    /// How many routes of earlier tellings a daemon has told again.
    pub const fn renewed(&self) -> u64 {
        self.renewed
    }

    /// Takes out the routes of a source that are older than the last generation.
    pub fn sweep(&mut self, source: Source) {
        let generation = self.generation[source as usize];
        let sourced = self.sourced.sweep(source, generation);
        self.counters.swept += sourced.len() as u64;
        self.dirty.extend(sourced);
        let paths = &mut self.paths;
        let (dirty, counters) = (&mut self.dirty, &mut self.counters);
        self.routes.retain(|net, slot| {
            let old = |route: &Route| route.source == source && route.generation != generation;
            if !slot.routes().iter().any(old) {
                return true;
            }
            let mut routes = slot.routes().to_vec();
            for route in routes.iter().filter(|route| old(route)) {
                if !paths.is_doomed(route.path) {
                    counters.swept += 1;
                }
                paths.release(route.path);
            }
            routes.retain(|route| !old(route));
            dirty.push(*net);
            match Slot::from(routes) {
                Some(left) => {
                    *slot = left;
                    true
                }
                None => false,
            }
        });
    }
}
