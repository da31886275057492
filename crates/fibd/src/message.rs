// SPDX-License-Identifier: Apache-2.0
//! Messages of rtnetlink, as far as forwarding needs them: bytes to structures, and requests to bytes.
//!
//! What comes in is judged by length before anything is read; attributes that nobody asked for are passed over, whatever
//! they hold, so that a newer kernel does no harm.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::entry::Entry;
use crate::identity;
use crate::net::Net;
use crate::rules;
pub use crate::rules::RuleMessage;
use crate::terms::{Preference, Terms};

/// `struct nlmsghdr`.
pub const HEADER: usize = 16;

/// Message types.
pub mod kind {
    #![allow(missing_docs)]
    pub const ERROR: u16 = 2;
    pub const DONE: u16 = 3;
    pub const OVERRUN: u16 = 4;
    pub const NEW_LINK: u16 = 16;
    pub const DEL_LINK: u16 = 17;
    pub const GET_LINK: u16 = 18;
    pub const NEW_ADDR: u16 = 20;
    pub const DEL_ADDR: u16 = 21;
    pub const GET_ADDR: u16 = 22;
    pub const NEW_ROUTE: u16 = 24;
    pub const DEL_ROUTE: u16 = 25;
    pub const GET_ROUTE: u16 = 26;
    pub const NEW_NEIGH: u16 = 28;
    pub const DEL_NEIGH: u16 = 29;
    pub const GET_NEIGH: u16 = 30;
    pub const NEW_RULE: u16 = 32;
    pub const DEL_RULE: u16 = 33;
    pub const GET_RULE: u16 = 34;
    pub const NEW_NETCONF: u16 = 80;
    pub const GET_NETCONF: u16 = 82;
    pub const NEW_NEXTHOP: u16 = 104;
    pub const DEL_NEXTHOP: u16 = 105;
    pub const GET_NEXTHOP: u16 = 106;
}

/// Flags of a message's header.
pub mod flags {
    #![allow(missing_docs)]
    pub const REQUEST: u16 = 1;
    pub const ACK: u16 = 4;
    pub const DUMP_INTERRUPTED: u16 = 0x10;
    pub const DUMP: u16 = 0x300;
    pub const REPLACE: u16 = 0x100;
    pub const EXCLUSIVE: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
}

/// Flags of a route.
pub mod route_flags {
    #![allow(missing_docs)]
    pub const CLONED: u32 = 0x200;
    pub const OFFLOAD: u32 = 0x4000;
    pub const TRAP: u32 = 0x8000;
    pub const FIB_MATCH: u32 = 0x2000;
    pub const OFFLOAD_FAILED: u32 = 0x2000_0000;
}

const AF_UNSPEC: u8 = 0;
/// Address family of IPv4.
pub const AF_INET: u8 = 2;
/// Address family of IPv6.
pub const AF_INET6: u8 = 10;

const IFF_UP: u32 = 1;
/// `IFF_RUNNING` or `IFF_LOWER_UP`, as the kernel asks.
const IFF_CARRIER: u32 = IFF_RUNNING | 1 << 16;
const IFF_RUNNING: u32 = 1 << 6;
/// Incomplete, reachable, stale, delay, probe, failed, no ARP, permanent: those in which the address is valid.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// No ARP, permanent.
const NUD_GIVEN: u16 = 0x40 | 0x80;
const NTF_EXT_MANAGED: u32 = 1;
/// `RTNH_F_DEAD`, of a next hop and, if it is the only one, of its route.
pub(crate) const DEAD: u8 = 1;
/// `RTNH_F_LINKDOWN`: no carrier.
pub(crate) const LINK_DOWN: u8 = 1 << 4;

/// Why a message can't be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A length that points outside.
    #[error("a length in the message points behind its end")]
    Length,
    /// A prefix with bits behind its length, or a length its family does not have.
    #[error("a prefix has bits behind its length, or is longer than an address")]
    Prefix,
    /// An address of a length that no family has.
    #[error("an address has neither 4 nor 16 bytes")]
    Address,
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteKind {
    /// Forwards.
    Unicast,
    /// The router itself.
    Local,
    /// The router among others: broadcast, anycast, multicast.
    Shared,
    /// Drops without a word.
    Blackhole,
    /// Drops with an ICMP error, which the kernel sends.
    Unreachable,
    /// The same, with another code.
    Prohibit,
    /// What only the kernel can do: continue in the next table, translate.
    Other,
    /// No type of Linux.
    Unknown,
}

/// One of a route's next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// Number of the device.
    pub device: u32,
    /// The neighbour; none if the destination itself is one.
    pub gateway: Option<IpAddr>,
    /// Share, from 1 on.
    pub weight: u16,
    /// Of IPv6: its device went down, and had no carrier since.
    pub dead: bool,
    /// Its own, if it is one of those that IPv6 joins.
    pub terms: Terms,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMessage {
    /// Destination.
    pub net: Net,
    /// Table.
    pub table: u32,
    /// Type of service that it is for; 0 for all.
    pub tos: u8,
    /// Lower is better.
    pub metric: u32,
    /// Who made it.
    pub protocol: u8,
    /// What it does.
    pub kind: RouteKind,
    /// Preferred source address.
    pub source: Option<IpAddr>,
    /// Next-hop object.
    pub object: Option<u32>,
    /// Next hops.
    pub hops: Vec<Hop>,
    /// Devices of those that are dead.
    pub dead: Vec<u32>,
    /// Devices of those that are dead and have no carrier: perhaps they are called dead for that alone, since the device's
    /// setting has routes ignored then.
    pub idle: Vec<u32>,
    /// Of IPv6: in so many hundredths of a second it expires; negative if it has, 0 if it does not.
    pub expires: i32,
    /// Of IPv6: the prefix of the sources for which it is alone.
    pub from: Option<Net>,
    /// Preference and longest packet.
    pub terms: Terms,
    /// Of IPv4: what else the kernel tells routes to one prefix apart by. Of IPv6, which does not, 0.
    pub identity: u64,
    /// `rtm_flags`.
    pub flags: u32,
}

/// Whose a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// Of one device.
    Of(u32),
    /// Of all: of IPv4 it counts beside each device's own.
    All,
    /// Of devices that come; of IPv4 also of those that have had no address yet, of which there is no message.
    Default,
}

/// What happened, or is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A device is there, or changed.
    Link {
        /// Number.
        device: u32,
        /// Name.
        name: String,
        /// Administratively up.
        up: bool,
        /// It has a carrier.
        carrier: bool,
        /// It can send: IPv6 takes it for ready only then, which is a little later.
        running: bool,
        /// Its own MAC address.
        mac: Option<[u8; 6]>,
        /// Bytes of the longest packet; 0 if it does not say.
        mtu: u32,
    },
    /// A device is gone.
    LinkGone {
        /// Number.
        device: u32,
    },
    /// An address is there, or gone.
    Address {
        /// Device.
        device: u32,
        /// The address.
        address: IpAddr,
        /// Its prefix length: a device may have the same address with several.
        len: u8,
        /// Of the other end, if the subnet is not the address's own.
        peer: Option<IpAddr>,
        /// It is there.
        present: bool,
    },
    /// A neighbour is known by its MAC address, or not.
    Neighbour {
        /// Device.
        device: u32,
        /// Its address.
        address: IpAddr,
        /// Its MAC address, if it is valid.
        mac: Option<[u8; 6]>,
        /// Nobody is asked for it by ARP or NDP: somebody gave it, or the kernel made it up.
        given: bool,
    },
    /// A next-hop object is there, or changed.
    Object {
        /// Number.
        id: u32,
        /// What it is.
        object: ObjectMessage,
    },
    /// A next-hop object is gone.
    ObjectGone {
        /// Number.
        id: u32,
    },
    /// A route is there.
    Route(RouteMessage),
    /// A route is gone.
    RouteGone(RouteMessage),
    /// Whether routes of a family are ignored while their device has no carrier.
    IgnoresLinkDown {
        /// Device.
        device: Settings,
        /// IPv6.
        six: bool,
        /// They are.
        ignores: bool,
        /// Whether packets are forwarded, if the same message says so.
        forwards: Option<bool>,
    },
    /// Whether the kernel forwards packets of a family.
    Forwards {
        /// Device.
        device: Settings,
        /// IPv6.
        six: bool,
        /// It does.
        forwards: bool,
    },
    /// A policy rule is there, or gone.
    Rule {
        /// What it says.
        rule: RuleMessage,
        /// It is there.
        present: bool,
    },
    /// End of a dump.
    Done,
    /// The kernel refuses a request, or acknowledges it (0).
    Error(i32),
    /// Messages were lost.
    Overrun,
    /// Nothing that matters here.
    Other,
}

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectMessage {
    /// One next hop.
    Hop(Hop),
    /// Drops.
    Blackhole,
    /// Others, with their weights.
    Group(Vec<(u32, u16)>),
}

/// A message with its header's flags and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Header's flags.
    pub flags: u16,
    /// Header's sequence number.
    pub sequence: u32,
    /// Netlink port of who asked for what happened; 0 for the kernel itself.
    pub port: u32,
    /// What it says.
    pub message: Message,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Length rounded up as netlink aligns.
pub(crate) const fn align(length: usize) -> usize {
    (length + 3) & !3
}

/// Attributes of a message; ends with an error if a length points outside.
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.len() < 4 {
            return None;
        }
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & 0x3FFF;
        let Some(value) = self.0.get(4..length) else {
            self.0 = &[];
            return Some(Err(Malformed::Length));
        };
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some(Ok((kind, value)))
    }
}

pub(crate) fn number(value: &[u8]) -> Result<u32, Malformed> {
    u32_at(value, 0).ok_or(Malformed::Length)
}

fn address(value: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(four) = <[u8; 4]>::try_from(value) {
        return Ok(Ipv4Addr::from(four).into());
    }
    if let Ok(sixteen) = <[u8; 16]>::try_from(value) {
        return Ok(Ipv6Addr::from(sixteen).into());
    }
    Err(Malformed::Address)
}

/// `struct rtvia`: a family, then its address.
fn via(value: &[u8]) -> Result<IpAddr, Malformed> {
    address(value.get(2..).ok_or(Malformed::Length)?)
}

/// Takes the messages of a buffer one by one.
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    /// The whole message, header included.
    type Item = Result<&'a [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let length = u32_at(self.0, 0).unwrap_or(0) as usize;
        if length < HEADER || length > self.0.len() {
            self.0 = &[];
            return Some(Err(Malformed::Length));
        }
        let (message, _) = self.0.split_at(length);
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some(Ok(message))
    }
}

/// Reads one whole message.
pub fn parse(bytes: &[u8]) -> Result<Event, Malformed> {
    let (Some(kind), Some(flags), Some(sequence), Some(port), Some(body)) = (
        u16_at(bytes, 4),
        u16_at(bytes, 6),
        u32_at(bytes, 8),
        u32_at(bytes, 12),
        bytes.get(HEADER..),
    ) else {
        return Err(Malformed::Length);
    };
    let message = match kind {
        kind::ERROR => Message::Error(number(body)? as i32),
        kind::DONE => Message::Done,
        kind::OVERRUN => Message::Overrun,
        kind::NEW_LINK | kind::DEL_LINK => link(kind, body)?,
        kind::NEW_ADDR | kind::DEL_ADDR => interface_address(kind, body)?,
        kind::NEW_NEIGH | kind::DEL_NEIGH => neighbour(kind, body)?,
        kind::NEW_NEXTHOP | kind::DEL_NEXTHOP => object(kind, body)?,
        kind::NEW_NETCONF => netconf(body)?,
        kind::NEW_RULE | kind::DEL_RULE => rules::read(kind, body)?,
        kind::NEW_ROUTE | kind::DEL_ROUTE => match route(body)? {
            None => Message::Other,
            Some(route) if kind == kind::NEW_ROUTE => Message::Route(route),
            Some(route) => Message::RouteGone(route),
        },
        _ => Message::Other,
    };
    Ok(Event {
        flags,
        sequence,
        port,
        message,
    })
}

/// `struct ifinfomsg`: family, type, index, flags, change.
fn link(kind: u16, body: &[u8]) -> Result<Message, Malformed> {
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_MTU: u16 = 4;
    let family = *body.first().ok_or(Malformed::Length)?;
    let device = u32_at(body, 4).ok_or(Malformed::Length)?;
    let flags = u32_at(body, 8).ok_or(Malformed::Length)?;
    let attributes = body.get(16..).ok_or(Malformed::Length)?;
    if family != AF_UNSPEC {
        // Bridges tell of their ports with the same message.
        return Ok(Message::Other);
    }
    if kind == kind::DEL_LINK {
        return Ok(Message::LinkGone { device });
    }
    let (mut name, mut mac, mut mtu) = (None, None, 0);
    for attribute in Attributes(attributes) {
        match attribute? {
            (IFLA_ADDRESS, value) => mac = value.try_into().ok(),
            (IFLA_MTU, value) => mtu = number(value)?,
            (IFLA_IFNAME, value) => {
                let end = value.iter().position(|&byte| byte == 0);
                let value = &value[..end.unwrap_or(value.len())];
                name = Some(String::from_utf8_lossy(value).into_owned());
            }
            _ => {}
        }
    }
    // Wireless events come without a name and say nothing of the device.
    Ok(name.map_or(Message::Other, |name| Message::Link {
        device,
        name,
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_CARRIER != 0,
        running: flags & IFF_RUNNING != 0,
        mac,
        mtu,
    }))
}

/// `struct ifaddrmsg`: family, length, flags, scope, index.
fn interface_address(kind: u16, body: &[u8]) -> Result<Message, Malformed> {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    let len = *body.get(1).ok_or(Malformed::Length)?;
    let device = u32_at(body, 4).ok_or(Malformed::Length)?;
    let (mut local, mut peer) = (None, None);
    for attribute in Attributes(body.get(8..).ok_or(Malformed::Length)?) {
        match attribute? {
            (IFA_LOCAL, value) => local = Some(address(value)?),
            (IFA_ADDRESS, value) => peer = Some(address(value)?),
            _ => {}
        }
    }
    Ok(local
        .or(peer)
        .map_or(Message::Other, |address| Message::Address {
            device,
            address,
            len,
            peer: peer.filter(|peer| *peer != address),
            present: kind == kind::NEW_ADDR,
        }))
}

/// `struct ndmsg`: family, index at 4, state at 8, flags at 10, type at 11.
fn neighbour(kind: u16, body: &[u8]) -> Result<Message, Malformed> {
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    let family = *body.first().ok_or(Malformed::Length)?;
    let device = u32_at(body, 4).ok_or(Malformed::Length)?;
    let state = u16_at(body, 8).ok_or(Malformed::Length)?;
    if family != AF_INET && family != AF_INET6 {
        return Ok(Message::Other);
    }
    let (mut to, mut mac) = (None, None);
    for attribute in Attributes(body.get(12..).ok_or(Malformed::Length)?) {
        match attribute? {
            (NDA_DST, value) => to = Some(address(value)?),
            (NDA_LLADDR, value) => mac = <[u8; 6]>::try_from(value).ok(),
            _ => {}
        }
    }
    let valid = kind == kind::NEW_NEIGH && state & NUD_VALID != 0;
    // A group address is nobody's; hardware would send frames of one host to all.
    let mac = mac.filter(|mac| valid && mac[0] & 1 == 0 && *mac != [0; 6]);
    Ok(to.map_or(Message::Other, |address| Message::Neighbour {
        device,
        address,
        mac,
        given: state & NUD_GIVEN != 0,
    }))
}

/// `struct nhmsg`: family, scope, protocol, reserved, flags.
fn object(kind: u16, body: &[u8]) -> Result<Message, Malformed> {
    const NHA_ID: u16 = 1;
    const NHA_GROUP: u16 = 2;
    const NHA_BLACKHOLE: u16 = 4;
    const NHA_OIF: u16 = 5;
    const NHA_GATEWAY: u16 = 6;
    const NHA_FDB: u16 = 11;
    /// `struct nexthop_grp`: id, weight - 1, its upper half, reserved.
    const MEMBER: usize = 8;
    let (mut id, mut group, mut blackhole, mut bridge) = (None, None, false, false);
    let (mut device, mut gateway) = (0, None);
    for attribute in Attributes(body.get(8..).ok_or(Malformed::Length)?) {
        match attribute? {
            (NHA_ID, value) => id = Some(number(value)?),
            (NHA_GROUP, value) => group = Some(value),
            (NHA_BLACKHOLE, _) => blackhole = true,
            (NHA_OIF, value) => device = number(value)?,
            (NHA_GATEWAY, value) => gateway = Some(address(value)?),
            (NHA_FDB, _) => bridge = true,
            _ => {}
        }
    }
    let Some(id) = id.filter(|_| !bridge) else {
        return Ok(Message::Other);
    };
    if kind == kind::DEL_NEXTHOP {
        return Ok(Message::ObjectGone { id });
    }
    let object = if let Some(group) = group {
        if group.len() % MEMBER != 0 {
            return Err(Malformed::Length);
        }
        let members = group.chunks_exact(MEMBER).map(|member| {
            let id = u32::from_ne_bytes([member[0], member[1], member[2], member[3]]);
            let weight = u16::from_be_bytes([member[5], member[4]]);
            (id, weight.saturating_add(1))
        });
        ObjectMessage::Group(members.collect())
    } else if blackhole {
        ObjectMessage::Blackhole
    } else {
        ObjectMessage::Hop(Hop {
            device,
            gateway,
            weight: 1,
            dead: false,
            terms: Terms::default(),
        })
    };
    Ok(Message::Object { id, object })
}

/// `struct netconfmsg`: family.
fn netconf(body: &[u8]) -> Result<Message, Malformed> {
    const NETCONFA_IFINDEX: u16 = 1;
    const NETCONFA_FORWARDING: u16 = 2;
    const NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
    let family = *body.first().ok_or(Malformed::Length)?;
    /// `NETCONFA_IFINDEX_ALL` and `NETCONFA_IFINDEX_DEFAULT`: what stands for all devices, and for those that come.
    const ALL: u32 = u32::MAX;
    const DEFAULT: u32 = u32::MAX - 1;
    let (mut device, mut ignores, mut forwards) = (None, None, None);
    for attribute in Attributes(body.get(4..).unwrap_or_default()) {
        match attribute? {
            (NETCONFA_IFINDEX, value) => device = Some(number(value)?),
            (NETCONFA_FORWARDING, value) => forwards = Some(number(value)? != 0),
            (NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN, value) => ignores = Some(number(value)? != 0),
            _ => {}
        }
    }
    let (AF_INET | AF_INET6, Some(device)) = (family, device) else {
        return Ok(Message::Other);
    };
    let six = family == AF_INET6;
    let of = match device {
        ALL => Settings::All,
        DEFAULT => Settings::Default,
        device => Settings::Of(device),
    };
    // A dump tells all settings of a device in one message.
    Ok(match (ignores, forwards) {
        (None, None) => Message::Other,
        (None, Some(forwards)) => Message::Forwards {
            device: of,
            six,
            forwards,
        },
        (Some(ignores), forwards) => Message::IgnoresLinkDown {
            device: of,
            six,
            ignores,
            forwards,
        },
    })
}

fn route_kind(kind: u8) -> RouteKind {
    match kind {
        1 => RouteKind::Unicast,
        2 => RouteKind::Local,
        3..=5 => RouteKind::Shared,
        6 => RouteKind::Blackhole,
        7 => RouteKind::Unreachable,
        8 => RouteKind::Prohibit,
        // Throw, NAT, one that a program resolves.
        9..=11 => RouteKind::Other,
        _ => RouteKind::Unknown,
    }
}

/// `struct rtmsg`: family, destination and source length, TOS, table, protocol, scope, type, flags.
fn route(body: &[u8]) -> Result<Option<RouteMessage>, Malformed> {
    const SCOPE_HOST: u8 = 254;
    const RTA_DST: u16 = 1;
    const RTA_SRC: u16 = 2;
    const RTA_OIF: u16 = 4;
    const RTA_GATEWAY: u16 = 5;
    const RTA_PRIORITY: u16 = 6;
    const RTA_PREFSRC: u16 = 7;
    const RTA_METRICS: u16 = 8;
    const RTA_MULTIPATH: u16 = 9;
    const RTA_CACHEINFO: u16 = 12;
    const RTA_TABLE: u16 = 15;
    const RTA_VIA: u16 = 18;
    const RTA_PREF: u16 = 20;
    const RTA_ENCAP: u16 = 22;
    const RTA_NH_ID: u16 = 30;
    let head = body.get(..12).ok_or(Malformed::Length)?;
    let six = match head[0] {
        AF_INET => false,
        AF_INET6 => true,
        _ => return Ok(None),
    };
    let flags = u32_at(head, 8).ok_or(Malformed::Length)?;
    // Not of the table but of one destination.
    if flags & route_flags::CLONED != 0 || head[2] != 0 && !six {
        return Ok(None);
    }
    let mut route = RouteMessage {
        net: Net::default_of(six),
        table: head[4].into(),
        tos: head[3],
        metric: 0,
        protocol: head[5],
        // One of IPv4 for this machine alone is kept, whatever becomes of its device, like a local one, and leads to no
        // neighbour.
        kind: match (route_kind(head[7]), head[6]) {
            (RouteKind::Unicast, SCOPE_HOST..) if !six => RouteKind::Local,
            (kind, _) => kind,
        },
        source: None,
        object: None,
        hops: Vec::new(),
        dead: Vec::new(),
        idle: Vec::new(),
        expires: 0,
        from: None,
        terms: Terms::default(),
        identity: 0,
        flags,
    };
    let (mut destination, mut from, mut device, mut gateway) = (None, None, None, None);
    for attribute in Attributes(&body[12..]) {
        match attribute? {
            (RTA_DST, value) => destination = Some(address(value)?),
            (RTA_SRC, value) if six => from = Some(address(value)?),
            (RTA_OIF, value) => device = Some(number(value)?),
            (RTA_GATEWAY, value) => gateway = Some(address(value)?),
            (RTA_VIA, value) => gateway = Some(via(value)?),
            (RTA_PRIORITY, value) => route.metric = number(value)?,
            (RTA_PREFSRC, value) => route.source = Some(address(value)?),
            (RTA_METRICS, value) => route.terms.mtu = mtu(value)?,
            (RTA_PREF, value) if six => route.terms.preference = Preference::read(value)?,
            // `struct rta_cacheinfo`: references, last use, expiry.
            (RTA_CACHEINFO, value) if six => route.expires = u32_at(value, 8).unwrap_or(0) as i32,
            (RTA_TABLE, value) => route.table = number(value)?,
            (RTA_NH_ID, value) => route.object = Some(number(value)?),
            (RTA_MULTIPATH, value) => multipath(value, &mut route)?,
            // Tunnels and labels: only the kernel can add them.
            (RTA_ENCAP, _) => route.kind = RouteKind::Other,
            _ => {}
        }
    }
    route.from = match from {
        _ if head[2] == 0 => None,
        Some(from) if from.is_ipv6() => Some(Net::new(from, head[2]).ok_or(Malformed::Prefix)?),
        _ => return Err(Malformed::Prefix),
    };
    route.net = match destination {
        None if head[1] == 0 => Net::default_of(six),
        Some(to) if to.is_ipv6() == six => Net::new(to, head[1]).ok_or(Malformed::Prefix)?,
        _ => return Err(Malformed::Prefix),
    };
    if !six {
        route.identity = identity::of(head, &body[12..], route.object.is_some())?;
    }
    if let Some(device) = device.filter(|_| route.hops.is_empty()) {
        let idle = u32::from(DEAD | LINK_DOWN);
        route.idle.extend((flags & idle == idle).then_some(device));
        route.hops.push(Hop {
            device,
            gateway,
            weight: 1,
            dead: six && flags & u32::from(DEAD) != 0,
            terms: Terms::default(),
        });
    }
    Ok(Some(route))
}

/// The longest packet of a route's metrics; 0 if they say nothing of it.
fn mtu(metrics: &[u8]) -> Result<u32, Malformed> {
    const RTAX_MTU: u16 = 2;
    let mut mtu = 0;
    for attribute in Attributes(metrics) {
        if let (RTAX_MTU, value) = attribute? {
            mtu = number(value)?;
        }
    }
    Ok(mtu)
}

/// `struct rtnexthop`.
pub(crate) const HOP: usize = 8;

/// A list of `struct rtnexthop` (length, flags, weight - 1, index), each with attributes.
fn multipath(mut list: &[u8], route: &mut RouteMessage) -> Result<(), Malformed> {
    const RTA_GATEWAY: u16 = 5;
    const RTA_VIA: u16 = 18;
    while list.len() >= HOP {
        let length = usize::from(u16_at(list, 0).ok_or(Malformed::Length)?);
        let attributes = list.get(HOP..length).ok_or(Malformed::Length)?;
        let mut hop = Hop {
            device: u32_at(list, 4).ok_or(Malformed::Length)?,
            gateway: None,
            weight: u16::from(list[3]) + 1,
            dead: route.net.is_ipv6() && list[2] & DEAD != 0,
            terms: Terms::default(),
        };
        for attribute in Attributes(attributes) {
            match attribute? {
                (RTA_GATEWAY, value) => hop.gateway = Some(address(value)?),
                (RTA_VIA, value) => hop.gateway = Some(via(value)?),
                _ => {}
            }
        }
        if list[2] & DEAD != 0 {
            route.dead.push(hop.device);
            let is_idle = list[2] & LINK_DOWN != 0;
            route.idle.extend(is_idle.then_some(hop.device));
        }
        route.hops.push(hop);
        list = list.get(align(length)..).unwrap_or_default();
    }
    Ok(())
}

// --- Requests -----------------------------------------------------------------------------------

fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | flags::REQUEST).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(align(bytes.len()), 0);
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv6() { AF_INET6 } else { AF_INET }
}

/// Asks for all of a kind, of one family (0: of all).
pub fn dump(kind: u16, family: u8, sequence: u32) -> Vec<u8> {
    // The longest of the headers, struct ifinfomsg, would make the kernel look for attributes in the shorter ones.
    let length = match kind {
        kind::GET_LINK => 16,
        kind::GET_ROUTE | kind::GET_NEIGH | kind::GET_RULE => 12,
        kind::GET_ADDR | kind::GET_NEXTHOP => 8,
        _ => 4,
    };
    let mut body = vec![0; length];
    body[0] = family;
    request(kind, flags::DUMP, sequence, &body)
}

/// Asks the kernel about a device, of which it sees to what it has put off then.
pub fn about(device: u32, sequence: u32) -> Vec<u8> {
    let mut body = vec![0; 16];
    body[4..8].copy_from_slice(&device.to_ne_bytes());
    request(kind::GET_LINK, 0, sequence, &body)
}

/// Asks the kernel what it knows of a neighbour.
pub fn whether(device: u32, address: IpAddr, sequence: u32) -> Vec<u8> {
    const NDA_DST: u16 = 1;
    let mut body = vec![family(address), 0, 0, 0];
    body.extend(device.to_ne_bytes());
    body.extend([0; 4]);
    attribute(&mut body, NDA_DST, &octets(address));
    request(kind::GET_NEIGH, 0, sequence, &body)
}

/// Asks the kernel to resolve a neighbour and to keep it known from then on.
pub fn manage(device: u32, address: IpAddr, sequence: u32) -> Vec<u8> {
    const NDA_DST: u16 = 1;
    const NDA_FLAGS_EXT: u16 = 15;
    let mut body = vec![family(address), 0, 0, 0];
    body.extend(device.to_ne_bytes());
    body.extend([0; 4]);
    attribute(&mut body, NDA_DST, &octets(address));
    attribute(&mut body, NDA_FLAGS_EXT, &NTF_EXT_MANAGED.to_ne_bytes());
    request(
        kind::NEW_NEIGH,
        flags::CREATE | flags::REPLACE | flags::ACK,
        sequence,
        &body,
    )
}

/// Asks the kernel which route of its tables it would take to an address, for a packet that comes in or for one of its own.
pub fn which(address: IpAddr, entry: Option<Entry>, sequence: u32) -> Vec<u8> {
    const RTA_DST: u16 = 1;
    const RTA_SRC: u16 = 2;
    const RTA_IIF: u16 = 3;
    let bits = if address.is_ipv6() { 128 } else { 32 };
    let mut body = vec![family(address), bits, 0, 0, 0, 0, 0, 0];
    body.extend(route_flags::FIB_MATCH.to_ne_bytes());
    attribute(&mut body, RTA_DST, &octets(address));
    if let Some(entry) = entry {
        attribute(&mut body, RTA_IIF, &entry.device.to_ne_bytes());
        if let Some(source) = entry.source {
            body[2] = bits;
            attribute(&mut body, RTA_SRC, &octets(source));
        }
    }
    request(kind::GET_ROUTE, 0, sequence, &body)
}

/// A route's message as it is handed back to who sent it, with what became of the route, whatever it said of that itself.
pub fn with_route_flags(message: &[u8], set: u32) -> Option<Vec<u8>> {
    let mut bytes = message.to_vec();
    let at = HEADER + 8;
    let all = route_flags::OFFLOAD | route_flags::OFFLOAD_FAILED | route_flags::TRAP;
    let flags = u32_at(&bytes, at)? & !all | set;
    bytes[at..at + 4].copy_from_slice(&flags.to_ne_bytes());
    Some(bytes)
}
