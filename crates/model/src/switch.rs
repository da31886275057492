// SPDX-License-Identifier: Apache-2.0
//! Functional model of the FIBNIC switch: what becomes of a frame, without any timing.
//!
//! Written from the RFCs and `docs/fibnic.md`; routes are found by a search of its own.
//!
//! ```
//! use model::switch::{NextHop, Port, SwitchConfig, SwitchModel, Target, Verdict};
//!
//! let mut switch = SwitchModel::new(SwitchConfig::default());
//! for port in 0..4 {
//!     switch.set_port(port, Port { mac: [2, 0, 0, 0, 0, port], ..Port::default() });
//! }
//! let neighbour = NextHop { target: Target::Port(2), mac: Some([2, 0, 0, 0, 1, 2]) };
//! switch.set_next_hop(7, Some(neighbour));
//! switch.set_route4(0xC000_0200, 24, Some(7)); // 192.0.2.0/24
//!
//! let mut frame = vec![0; 60];
//! frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]); // to port 1
//! frame[12..14].copy_from_slice(&[8, 0]);
//! let header = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9];
//! frame[14..34].copy_from_slice(&header);
//! frame[24..26].copy_from_slice(&[0xAE, 0xCF]); // checksum
//! frame.extend(model::switch::fcs(&frame));
//! let outcome = switch.forward(1, &frame, false).expect("the frame has a beat");
//! assert_eq!((outcome.verdict, outcome.egress), (Verdict::Forward, Some(Target::Port(2))));
//! assert_eq!(outcome.bytes[..12], [2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 0, 2]);
//! ```
//!
//! What it does not do: contention (frames that find no room are dropped whole in the hardware and
//! counted as `full`), time (frames for the host beyond their port's rate are dropped whole and counted
//! as `refused`; [`Police::most`] says how many may pass), frames without a byte or with a bad preamble, and the choice between the
//! outcomes of a runt that is or is not known to be one in time ([`Outcome::may_be_runt`]).

mod acl;
mod check;
mod headers;
mod police;
mod routes;
mod verdict;

pub use acl::{Acl, AclKey, AclPrefix, AclRule};
pub use check::{CHECK_WINDOW, Check};
pub use police::Police;
pub use routes::{NextHop, Target};
pub use verdict::Verdict;
pub use wire::fcs;

use check::CheckState;
use headers::{Destination, Headers, Packet};
use routes::{Routes, mask4, mask6};
use wire::FCS_BYTES;

/// Shortest good frame with FCS, bytes.
const MIN_FRAME: usize = 64;
/// Bytes of both MAC addresses: where a tag is.
const TAG_AT: usize = 12;
const TAG_BYTES: usize = 4;
const TAG_TYPE: [u8; 2] = [0x81, 0x00];
/// MAC addresses and type.
const MAC_BYTES: usize = 14;

/// How the ports are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Media {
    /// 10G: eight bytes a beat.
    #[default]
    Xgmii,
    /// 1G: byte by byte.
    Gmii,
}

/// What is fixed when a switch is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchConfig {
    /// Network ports.
    pub ports: u8,
    /// Longest good frame with FCS, bytes.
    pub max_frame: usize,
    /// The ports' speed.
    pub media: Media,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            ports: 4,
            max_frame: 9216,
            media: Media::Xgmii,
        }
    }
}

/// Settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Longest IP packet that leaves here.
    pub mtu: u16,
    /// Frames must come with a tag of this VLAN, which is removed.
    pub vlan_in: Option<u16>,
    /// Frames leave with a tag of this VLAN.
    pub vlan_out: Option<u16>,
    /// When frames are stored.
    pub check: Check,
    /// How many of its frames may reach the host.
    pub police: Police,
}

impl Default for Port {
    fn default() -> Self {
        Self {
            mac: [0; 6],
            mtu: 9216 - 18,
            vlan_in: None,
            vlan_out: None,
            check: Check::Never,
            police: Police::default(),
        }
    }
}

/// How the receiving MAC counts a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Received {
    /// A good frame.
    Good,
    /// FCS wrong.
    BadFcs,
    /// Shorter than 64 bytes.
    Runt,
    /// Longer than the longest frame.
    Giant,
    /// Broken or cut by the line.
    Error,
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why.
    pub verdict: Verdict,
    /// Where it goes: a port, the host, or `None` if it is dropped.
    pub egress: Option<Target>,
    /// The frame as it leaves, without FCS: to a network port with its tag and padding, to the host
    /// as it came but without the tag. Empty if it is dropped.
    pub bytes: Vec<u8>,
    /// It ended bad: it leaves with a spoiled FCS, or is marked for the host. Not if dropped.
    pub spoiled: bool,
    /// The frame is a runt whose end may or may not be known before it leaves (at 1G): the verdict may
    /// be [`Verdict::DropRunt`] instead.
    pub may_be_runt: bool,
    /// How the MAC counts it.
    pub received: Received,
    /// What the access list was asked; `None` for what is not IP or has no whole header.
    pub key: Option<AclKey>,
    /// The rule of the access list that decided, and counts it; only frames that got as far as the
    /// list have one, whatever becomes of them then. At 1G a frame that ends within its header may have
    /// got there, too, with a key of zeros.
    pub rule: Option<usize>,
    /// Store-and-check begins with the end of this frame.
    pub check_begins: bool,
}

/// Functional model of the switch.
#[derive(Clone, Debug)]
pub struct SwitchModel {
    config: SwitchConfig,
    ports: Vec<Port>,
    check: Vec<CheckState>,
    next_hops: Vec<Option<NextHop>>,
    v4: Routes<u32>,
    v6: Routes<u128>,
    /// The access list.
    pub acl: Acl,
}

impl SwitchModel {
    /// A switch after reset: no routes, no rules.
    pub fn new(config: SwitchConfig) -> Self {
        let ports = usize::from(config.ports);
        let port = Port {
            mtu: (config.max_frame - 18) as u16,
            ..Port::default()
        };
        Self {
            config,
            ports: vec![port; ports],
            check: vec![CheckState::default(); ports],
            next_hops: Vec::new(),
            v4: Routes::new(32, mask4),
            v6: Routes::new(128, mask6),
            acl: Acl::default(),
        }
    }

    /// What was fixed when it was built.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Settings of a port.
    pub fn port(&self, port: u8) -> &Port {
        &self.ports[usize::from(port)]
    }

    /// Changes the settings of a port.
    pub fn set_port(&mut self, port: u8, settings: Port) {
        self.ports[usize::from(port)] = settings;
    }

    /// Sets a next hop, or takes it out.
    pub fn set_next_hop(&mut self, id: u16, next_hop: Option<NextHop>) {
        let at = usize::from(id);
        if self.next_hops.len() <= at {
            self.next_hops.resize(at + 1, None);
        }
        self.next_hops[at] = next_hop;
    }

    /// Sets the IPv4 route to a prefix, or takes it out.
    pub fn set_route4(&mut self, address: u32, len: u8, next_hop: Option<u16>) {
        self.v4.set(address, len, next_hop);
    }

    /// Sets the IPv6 route to a prefix, or takes it out.
    pub fn set_route6(&mut self, address: u128, len: u8, next_hop: Option<u16>) {
        self.v6.set(address, len, next_hop);
    }

    /// The next hop of an IPv4 address.
    pub fn lookup4(&self, address: u32) -> Option<u16> {
        self.v4.find(address)
    }

    /// The next hop of an IPv6 address.
    pub fn lookup6(&self, address: u128) -> Option<u16> {
        self.v6.find(address)
    }

    /// Whether the next frame of a port is stored and checked.
    pub fn stores(&self, port: u8) -> bool {
        let at = usize::from(port);
        self.check[at].stores(self.ports[at].check)
    }

    /// Takes a frame from the wire: the bytes that were received from the destination MAC to the
    /// FCS inclusive, and whether the line reported an error in it (at 10G the frame ends there).
    /// `None` for a frame without a byte, which leaves no trace but the MAC's counters.
    pub fn forward(&mut self, port: u8, frame: &[u8], error: bool) -> Option<Outcome> {
        let stored = self.stores(port);
        let mut outcome = self.judge(port, frame, error, stored)?;
        let at = usize::from(port);
        let bad = outcome.received != Received::Good || self.too_short(port, frame);
        outcome.check_begins = self.check[at].ended(self.ports[at].check, bad);
        Some(outcome)
    }

    /// What would become of a frame, were it to come now, stored or not.
    pub fn judge(&self, port: u8, frame: &[u8], error: bool, stored: bool) -> Option<Outcome> {
        if frame.is_empty() {
            return None;
        }
        let (frame, received) = self.receive(frame, error);
        let (untagged, vlan_bad) = self.untag(port, frame);
        let headers = headers::read(&untagged, port, self.config.media);
        let packet = match headers {
            Headers::Ip(packet) => Some(packet),
            _ => None,
        };
        let key = packet.map(|packet| packet.key);
        let short = packet.is_some_and(|packet| is_short(&untagged, &packet));
        let bad = received != Received::Good || short;
        let runt = frame.len() < MIN_FRAME;

        let mut rule = None;
        let (planned, next_hop) = if headers == Headers::Incomplete {
            // At 1G a frame may end behind the bytes that ask for the lookup: it goes on, without a key.
            if self.config.media == Media::Gmii {
                let key = AclKey {
                    port,
                    ..AclKey::default()
                };
                rule = self.acl.decide(&key).1;
            }
            (Verdict::DropRunt, None)
        } else if vlan_bad {
            (Verdict::DropVlan, None)
        } else if let Some(verdict) = self.judge_link(port, &untagged) {
            (verdict, None)
        } else if let Some(packet) = packet {
            self.judge_packet(&packet, &mut rule)
        } else {
            (Verdict::HostNotIp, None)
        };
        // What is not forwarded waits until it is known to be no runt; what is forwarded at 1G can't.
        let leaves = planned == Verdict::Forward && self.config.media == Media::Gmii && !stored;
        let verdict = if planned == Verdict::DropRunt || runt && !leaves {
            Verdict::DropRunt
        } else if stored && bad {
            Verdict::DropBad
        } else {
            planned
        };

        let mut body = untagged;
        let without_fcs = body.len().saturating_sub(FCS_BYTES);
        let (egress, bytes) = match (verdict, next_hop) {
            (Verdict::Forward, Some((out, mac))) => {
                body[..6].copy_from_slice(&mac);
                body[6..12].copy_from_slice(&self.port(out).mac);
                // The header of a runt may reach into what turns out to be its FCS.
                headers::take_hop(&mut body);
                body.truncate(without_fcs);
                (Some(Target::Port(out)), self.transmit(out, body))
            }
            _ if verdict.to_host() => {
                body.truncate(without_fcs);
                (Some(Target::Host), body)
            }
            _ => (None, Vec::new()),
        };
        Some(Outcome {
            verdict,
            egress,
            bytes,
            spoiled: bad && egress.is_some(),
            may_be_runt: runt && leaves,
            received,
            key,
            rule,
            check_begins: false,
        })
    }

    /// A frame of the host as it leaves a port, without FCS.
    pub fn from_host(&self, port: u8, frame: &[u8]) -> Vec<u8> {
        self.transmit(port, frame.to_vec())
    }

    /// Cuts a frame that is too long, and says how the MAC counts it.
    fn receive<'a>(&self, frame: &'a [u8], error: bool) -> (&'a [u8], Received) {
        let longest = self.config.max_frame;
        let cut = match self.config.media {
            Media::Xgmii => 8 * (longest / 8 + 1),
            Media::Gmii => longest + 1,
        };
        let giant = frame.len() > longest;
        // An error behind the cut is not seen; a broken frame ends with its error at 10G.
        let error = error && !(frame.len() > cut && self.config.media == Media::Xgmii);
        let frame = &frame[..frame.len().min(cut)];
        let received = if error {
            Received::Error
        } else if giant {
            Received::Giant
        } else if frame.len() < MIN_FRAME {
            Received::Runt
        } else {
            let (body, sum) = frame.split_at(frame.len() - FCS_BYTES);
            if fcs(body) == sum {
                Received::Good
            } else {
                Received::BadFcs
            }
        };
        (frame, received)
    }

    /// The frame without its tag, and whether it is not of the port's VLAN.
    fn untag(&self, port: u8, frame: &[u8]) -> (Vec<u8>, bool) {
        let Some(vlan) = self.port(port).vlan_in else {
            return (frame.to_vec(), false);
        };
        let tagged = frame.len() >= TAG_AT + TAG_BYTES
            && frame[TAG_AT..TAG_AT + 2] == TAG_TYPE
            && u16::from_be_bytes([frame[TAG_AT + 2], frame[TAG_AT + 3]]) & 0xFFF == vlan;
        if !tagged {
            return (frame.to_vec(), true);
        }
        let without = [&frame[..TAG_AT], &frame[TAG_AT + TAG_BYTES..]].concat();
        (without, false)
    }

    /// Whether an IP packet claims more bytes than came.
    fn too_short(&self, port: u8, frame: &[u8]) -> bool {
        let (frame, _) = self.receive(frame, false);
        let (frame, _) = self.untag(port, frame);
        match headers::read(&frame, port, self.config.media) {
            Headers::Ip(packet) => is_short(&frame, &packet),
            _ => false,
        }
    }

    /// The MAC addresses.
    fn judge_link(&self, port: u8, frame: &[u8]) -> Option<Verdict> {
        if frame[0] & 1 != 0 {
            Some(Verdict::HostLink)
        } else if frame[..6] != self.port(port).mac {
            Some(Verdict::DropNotMine)
        } else {
            None
        }
    }

    /// The IP packet; with [`Verdict::Forward`] the egress port and the neighbour's MAC address.
    fn judge_packet(
        &self,
        packet: &Packet,
        rule: &mut Option<usize>,
    ) -> (Verdict, Option<(u8, [u8; 6])>) {
        let objections = packet.objections;
        if objections.bad_header {
            return (Verdict::DropHeader, None);
        }
        if objections.martian {
            return (Verdict::DropMartian, None);
        }
        let deny;
        (deny, *rule) = self.acl.decide(&packet.key);
        let before_route = [
            (deny, Verdict::DropAcl),
            (objections.local_only, Verdict::HostLocal),
            (objections.options, Verdict::HostOptions),
            (objections.expires, Verdict::HostExpires),
        ];
        if let Some((_, verdict)) = before_route.into_iter().find(|(applies, _)| *applies) {
            return (verdict, None);
        }
        let route = match packet.destination {
            Destination::V4(address) => self.v4.find(address),
            Destination::V6(address) => self.v6.find(address),
        };
        let next_hop = route.map(|id| self.next_hops.get(usize::from(id)).copied().flatten());
        let (out, mac) = match next_hop {
            None => return (Verdict::HostNoRoute, None),
            Some(None) => return (Verdict::HostNeighbour, None),
            Some(Some(next_hop)) => match (next_hop.target, next_hop.mac) {
                (Target::Host, _) => return (Verdict::HostRoute, None),
                (Target::Discard, _) => return (Verdict::DropRoute, None),
                (Target::Port(_), None) => return (Verdict::HostNeighbour, None),
                (Target::Port(out), Some(mac)) => (out, mac),
            },
        };
        if out >= self.config.ports {
            (Verdict::HostNoRoute, None)
        } else if packet.length > self.port(out).mtu {
            (Verdict::HostMtu, None)
        } else {
            (Verdict::Forward, Some((out, mac)))
        }
    }

    /// Tag and padding.
    fn transmit(&self, port: u8, mut frame: Vec<u8>) -> Vec<u8> {
        if let Some(vlan) = self.port(port).vlan_out {
            let [high, low] = (vlan & 0xFFF).to_be_bytes();
            frame.splice(TAG_AT..TAG_AT, [TAG_TYPE[0], TAG_TYPE[1], high, low]);
        }
        if frame.len() < MIN_FRAME - FCS_BYTES {
            frame.resize(MIN_FRAME - FCS_BYTES, 0);
        }
        frame
    }
}

/// Whether the packet claims more bytes than the frame has.
fn is_short(frame: &[u8], packet: &Packet) -> bool {
    frame.len() - FCS_BYTES < MAC_BYTES + usize::from(packet.length)
}
