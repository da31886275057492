// SPDX-License-Identifier: Apache-2.0
//! The switch's access list: rules as text, as hardware words, and what they decide.
//!
//! The first rule that matches decides; what no rule matches is permitted unless the default says
//! deny. A rule is one line: action, family, protocol, source, destination, and what else it asks
//! for:
//!
//! ```text
//! deny   v4  tcp 10.0.0.0/8 any dport 22-23 in 0,2
//! permit v6  udp any 2001:db8::53 dport 53
//! deny   any any any any in 3
//! ```
//!
//! `sport` and `dport` take a port or a range, and only frames whose ports hardware knows (TCP, UDP
//! or SCTP right behind the header, first fragment) can match them. `in` lists ports of arrival.
//!
//! ```
//! use fib::acl::{Acl, Addresses, Key};
//!
//! let mut acl = Acl::parse("deny v4 tcp any 192.0.2.0/24 dport 22-23\ndefault permit", 64)?;
//! let key = Key {
//!     addresses: Addresses::V4("198.51.100.1".parse()?, "192.0.2.7".parse()?),
//!     protocol: 6,
//!     ports: Some((40000, 22)),
//!     ingress: 0,
//! };
//! assert_eq!(acl.decide(&key).rule, Some(0));
//! // One rule at a time; each changes at once in the hardware, with its last word.
//! for write in acl.set(0, Some("permit v4 any any any".parse()?))? {
//!     // to memory `fib::acl::MEMORY`
//!     assert!(write.addr < 5);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It does not look at frames: who has a frame makes the key.

use crate::layout::{Bits, Field};
use crate::prefix::{Prefix4, Prefix6};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// The memory's id in the switch's write channel.
pub const MEMORY: u8 = 25;
/// Words of a rule.
pub const RULE_WORDS: usize = 5;
/// Rules that addresses can name.
pub const MAX_RULES: usize = 256;
/// Ports of arrival a rule can name.
pub const INGRESS_PORTS: u8 = 16;
/// Address bits that select a word of a rule.
pub const WORD_BITS: u32 = 3;
/// Word that puts a whole rule in place; the four words before it are kept until then.
pub const WORD_TERMS: u32 = 4;
/// Word of the default, whatever the rule in the address.
pub const WORD_DEFAULT: u32 = 5;

/// Words 0 to 3: source value, source mask, destination value, destination mask. An IPv4 address
/// is in the upper 32 bits.
pub const ADDRESS: Field = Field::new("address", 0, 128);
/// Ports of arrival, one bit each.
pub const INGRESS: Field = Field::new("ingress", 0, 16);
/// Lowest destination port.
pub const DST_LO: Field = Field::new("dst_lo", 16, 16);
/// Highest destination port.
pub const DST_HI: Field = Field::new("dst_hi", 32, 16);
/// Any destination port, or none.
pub const DST_EVERY: Field = Field::new("dst_every", 48, 1);
/// Lowest source port.
pub const SRC_LO: Field = Field::new("src_lo", 49, 16);
/// Highest source port.
pub const SRC_HI: Field = Field::new("src_hi", 65, 16);
/// Any source port, or none.
pub const SRC_EVERY: Field = Field::new("src_every", 81, 1);
/// Protocol, or first next header.
pub const PROTOCOL: Field = Field::new("protocol", 82, 8);
/// Any protocol.
pub const EVERY_PROTOCOL: Field = Field::new("every_protocol", 90, 1);
/// The rule matches IPv4.
pub const V4: Field = Field::new("v4", 91, 1);
/// The rule matches IPv6.
pub const V6: Field = Field::new("v6", 92, 1);
/// The rule denies.
pub const DENY: Field = Field::new("deny", 93, 1);
/// There is a rule.
pub const VALID: Field = Field::new("valid", 94, 1);

/// The fields of [`WORD_TERMS`], from the least significant one.
pub const TERMS: [Field; 13] = [
    INGRESS,
    DST_LO,
    DST_HI,
    DST_EVERY,
    SRC_LO,
    SRC_HI,
    SRC_EVERY,
    PROTOCOL,
    EVERY_PROTOCOL,
    V4,
    V6,
    DENY,
    VALID,
];

/// Protocols with names, and whether they have ports.
const PROTOCOLS: [(&str, u8, bool); 5] = [
    ("icmp", 1, false),
    ("tcp", 6, true),
    ("udp", 17, true),
    ("icmp6", 58, false),
    ("sctp", 132, true),
];

const EXAMPLE: &str = "deny v4 tcp 10.0.0.0/8 any dport 22-23 in 0,2";

/// Why a rule or a list was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// There are more rules than the hardware holds.
    #[error(
        "the access list has {rules} rules and the switch has room for {capacity}; remove some"
    )]
    TooMany {
        /// Rules asked for.
        rules: usize,
        /// Rules there is room for.
        capacity: usize,
    },
    /// The hardware has no such rule.
    #[error("there is no rule {index}; rules go from 0 to {}", capacity - 1)]
    NoSuchRule {
        /// The number asked for.
        index: usize,
        /// Rules there is room for.
        capacity: usize,
    },
    /// No such build.
    #[error("an access list of {capacity} rules can't be built; it has 1 to {MAX_RULES}")]
    Capacity {
        /// Rules asked for.
        capacity: usize,
    },
    /// A line of a list was refused.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Why.
        reason: Box<Error>,
    },
    /// The rule is too short.
    #[error("the rule ends where its {what} should be; write it as in \"{EXAMPLE}\"")]
    Missing {
        /// What comes next.
        what: &'static str,
    },
    /// A word can't be understood.
    #[error("\"{text}\" is not {wanted}")]
    Word {
        /// The word.
        text: String,
        /// What should be there.
        wanted: &'static str,
    },
    /// A condition is there twice.
    #[error("\"{keyword}\" is there twice; a rule has room for one, so write two rules")]
    Twice {
        /// The condition.
        keyword: &'static str,
    },
    /// The range is empty.
    #[error("the ports {first}-{last} run backwards; write the lower one first")]
    Backwards {
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
    /// An address of the other family.
    #[error("{text} is not an address of {family}, which the rule is for; write a rule for each")]
    MixedFamilies {
        /// The address.
        text: String,
        /// The rule's family.
        family: &'static str,
    },
    /// An address in a rule for both families.
    #[error("{text} in a rule for any family matches only one of them; write v4 or v6 instead")]
    FamilyNeeded {
        /// The address.
        text: String,
    },
    /// Ports of a protocol without ports.
    #[error("protocol {protocol} has no ports, so that the rule would never match; leave them out")]
    NoPorts {
        /// The protocol's name or number.
        protocol: String,
    },
    /// Not a prefix.
    #[error(transparent)]
    Prefix(#[from] crate::Error),
    /// A word that no rule has.
    #[error("word {word} of a rule, {what}, is none that this crate writes")]
    Decode {
        /// The word.
        word: u32,
        /// What is wrong.
        what: &'static str,
    },
}

/// One word for the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Address in [`MEMORY`].
    pub addr: u32,
    /// The word.
    pub data: Bits,
}

/// Which addresses a rule is about. A prefix of length 0 is any address of its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prefixes {
    /// IPv4: source and destination.
    V4(Prefix4, Prefix4),
    /// IPv6: source and destination.
    V6(Prefix6, Prefix6),
    /// Everything, of both families.
    Any,
}

/// Ports from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Ports from `first` to `last`, both included.
    pub fn new(first: u16, last: u16) -> Result<Self, Error> {
        if first > last {
            return Err(Error::Backwards { first, last });
        }
        Ok(Self { first, last })
    }

    /// First port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// Last port.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether the port is one of them.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Drop what matches; else let it pass.
    pub deny: bool,
    /// Addresses, and with them the family.
    pub prefixes: Prefixes,
    /// Protocol (IPv6: first next header); `None` is any.
    pub protocol: Option<u8>,
    /// Source ports; `None` is any, and frames without ports.
    pub src_ports: Option<Ports>,
    /// Destination ports; `None` is any, and frames without ports.
    pub dst_ports: Option<Ports>,
    /// Ports of arrival, one bit each.
    pub ingress: u16,
}

/// Source and destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6.
    V6(Ipv6Addr, Ipv6Addr),
}

/// What the list is asked about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source and destination address.
    pub addresses: Addresses,
    /// Protocol (IPv6: first next header).
    pub protocol: u8,
    /// Source and destination port, if the packet has them.
    pub ports: Option<(u16, u16)>,
    /// Port of arrival.
    pub ingress: u8,
}

/// What the list says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Drop the packet.
    pub deny: bool,
    /// The rule that decided; `None` is the default.
    pub rule: Option<usize>,
}

impl Rule {
    /// Whether the rule is about this packet.
    pub fn matches(&self, key: &Key) -> bool {
        let addresses = match (self.prefixes, key.addresses) {
            (Prefixes::Any, _) => true,
            (Prefixes::V4(src, dst), Addresses::V4(from, to)) => {
                src.contains(from.into()) && dst.contains(to.into())
            }
            (Prefixes::V6(src, dst), Addresses::V6(from, to)) => {
                src.contains(from.into()) && dst.contains(to.into())
            }
            _ => false,
        };
        let takes = |range: Option<Ports>, port: Option<u16>| {
            range.is_none_or(|range| port.is_some_and(|port| range.contains(port)))
        };
        addresses
            && self.protocol.is_none_or(|wanted| wanted == key.protocol)
            && takes(self.src_ports, key.ports.map(|(src, _)| src))
            && takes(self.dst_ports, key.ports.map(|(_, dst)| dst))
            && u32::from(self.ingress) >> key.ingress & 1 != 0
    }

    /// Refuses what could never match by mistake.
    fn check(&self) -> Result<(), Error> {
        let ports = self.src_ports.is_some() || self.dst_ports.is_some();
        match self.protocol {
            Some(number) if ports && !PROTOCOLS.iter().any(|p| p.1 == number && p.2) => {
                Err(Error::NoPorts {
                    protocol: protocol_name(number),
                })
            }
            _ => Ok(()),
        }
    }

    /// The rule's words, in the order in which they are written.
    pub fn words(&self) -> [Bits; RULE_WORDS] {
        let mut words = [[0; 3]; RULE_WORDS];
        let addresses = match self.prefixes {
            Prefixes::V4(src, dst) => [value4(src), mask4(src), value4(dst), mask4(dst)],
            Prefixes::V6(src, dst) => [src.addr(), mask(src.len()), dst.addr(), mask(dst.len())],
            Prefixes::Any => [0; 4],
        };
        for (word, address) in words.iter_mut().zip(addresses) {
            ADDRESS.set_wide(word, address);
        }
        let terms = &mut words[WORD_TERMS as usize];
        let mut set = |field: Field, value: u64| field.set(terms, value);
        set(INGRESS, self.ingress.into());
        for (range, lo, hi, every) in [
            (self.dst_ports, DST_LO, DST_HI, DST_EVERY),
            (self.src_ports, SRC_LO, SRC_HI, SRC_EVERY),
        ] {
            match range {
                Some(range) => {
                    set(lo, range.first.into());
                    set(hi, range.last.into());
                }
                None => set(every, 1),
            }
        }
        match self.protocol {
            Some(number) => set(PROTOCOL, number.into()),
            None => set(EVERY_PROTOCOL, 1),
        }
        set(V4, (!matches!(self.prefixes, Prefixes::V6(..))).into());
        set(V6, (!matches!(self.prefixes, Prefixes::V4(..))).into());
        set(DENY, self.deny.into());
        set(VALID, 1);
        words
    }

    /// The rule that five words stand for; `None` if they remove it.
    pub fn from_words(words: &[Bits; RULE_WORDS]) -> Result<Option<Self>, Error> {
        let terms = &words[WORD_TERMS as usize];
        if VALID.get(terms) == 0 {
            return Ok(None);
        }
        let ports = |lo: Field, hi: Field, every: Field| {
            if every.get(terms) != 0 {
                return Ok(None);
            }
            Ports::new(lo.get(terms) as u16, hi.get(terms) as u16).map(Some)
        };
        let prefix = |word: u32| {
            let value = ADDRESS.get_wide(&words[word as usize]);
            let mask_word = ADDRESS.get_wide(&words[word as usize + 1]);
            let len = mask_word.leading_ones() as u8;
            if mask_word != mask(len) {
                let what = "a mask that is no prefix";
                return Err(Error::Decode {
                    word: word + 1,
                    what,
                });
            }
            Ok((value, len))
        };
        let ((src, src_len), (dst, dst_len)) = (prefix(0)?, prefix(2)?);
        let prefixes = match (V4.get(terms), V6.get(terms)) {
            (1, 0) => Prefixes::V4(prefix4(src, src_len)?, prefix4(dst, dst_len)?),
            (0, 1) => Prefixes::V6(Prefix6::new(src, src_len)?, Prefix6::new(dst, dst_len)?),
            (1, 1) if src_len == 0 && dst_len == 0 => Prefixes::Any,
            _ => {
                return Err(Error::Decode {
                    word: WORD_TERMS,
                    what: "its families",
                });
            }
        };
        Ok(Some(Self {
            deny: DENY.get(terms) != 0,
            prefixes,
            protocol: (EVERY_PROTOCOL.get(terms) == 0).then(|| PROTOCOL.get(terms) as u8),
            src_ports: ports(SRC_LO, SRC_HI, SRC_EVERY)?,
            dst_ports: ports(DST_LO, DST_HI, DST_EVERY)?,
            ingress: INGRESS.get(terms) as u16,
        }))
    }
}

/// Mask of the upper bits.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

fn value4(prefix: Prefix4) -> u128 {
    u128::from(prefix.addr()) << 96
}

fn mask4(prefix: Prefix4) -> u128 {
    mask(prefix.len())
}

fn prefix4(value: u128, len: u8) -> Result<Prefix4, Error> {
    if value as u32 != 0 || (value >> 32) as u64 != 0 {
        return Err(Error::Decode {
            word: 0,
            what: "an IPv4 address with more than 32 bits",
        });
    }
    Ok(Prefix4::new((value >> 96) as u32, len)?)
}

fn protocol_name(number: u8) -> String {
    PROTOCOLS
        .iter()
        .find(|p| p.1 == number)
        .map_or_else(|| number.to_string(), |p| p.0.to_owned())
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn prefix(len: u8, text: &dyn fmt::Display) -> String {
            if len == 0 {
                "any".to_owned()
            } else {
                text.to_string()
            }
        }
        let any = || "any".to_owned();
        let (family, src, dst) = match &self.prefixes {
            Prefixes::V4(src, dst) => ("v4", prefix(src.len(), src), prefix(dst.len(), dst)),
            Prefixes::V6(src, dst) => ("v6", prefix(src.len(), src), prefix(dst.len(), dst)),
            Prefixes::Any => ("any", any(), any()),
        };
        let action = if self.deny { "deny" } else { "permit" };
        let protocol = self.protocol.map_or_else(any, protocol_name);
        write!(f, "{action} {family} {protocol} {src} {dst}")?;
        if let Some(ports) = self.src_ports {
            write!(f, " sport {ports}")?;
        }
        if let Some(ports) = self.dst_ports {
            write!(f, " dport {ports}")?;
        }
        match self.ingress {
            u16::MAX => Ok(()),
            0 => write!(f, " in none"),
            set => {
                let listed = (0..INGRESS_PORTS).filter(|port| set >> port & 1 != 0);
                let names: Vec<_> = listed.map(|port| port.to_string()).collect();
                write!(f, " in {}", names.join(","))
            }
        }
    }
}

fn word(text: &str, wanted: &'static str) -> Error {
    let text = text.to_owned();
    Error::Word { text, wanted }
}

fn parse_ports(text: &str) -> Result<Ports, Error> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => Ports::new(first, last),
        _ => Err(word(
            text,
            "a port or a range of ports from 0 to 65535, as in 22-23",
        )),
    }
}

fn parse_ingress(text: &str) -> Result<u16, Error> {
    if text == "none" {
        return Ok(0);
    }
    text.split(',')
        .try_fold(0, |set, name| match name.parse::<u8>() {
            Ok(port) if port < INGRESS_PORTS => Ok(set | 1 << port),
            _ => Err(word(
                text,
                "a list of ports of arrival from 0 to 15, as in 0,2",
            )),
        })
}

fn parse_action(text: &str) -> Result<bool, Error> {
    match text {
        "deny" => Ok(true),
        "permit" => Ok(false),
        _ => Err(word(text, "an action; write permit or deny")),
    }
}

/// A prefix or an address, by itself.
fn parse_prefix<A: FromStr, P: FromStr<Err = crate::Error>>(
    text: &str,
    bits: u8,
) -> Result<P, crate::Error> {
    if text.parse::<A>().is_ok() {
        format!("{text}/{bits}").parse()
    } else {
        text.parse()
    }
}

fn parse_prefixes(family: &str, src: &str, dst: &str) -> Result<Prefixes, Error> {
    fn one<P>(
        text: &str,
        family: &'static str,
        own: impl Fn(&str) -> Result<P, crate::Error>,
        other: impl Fn(&str) -> bool,
        any: P,
    ) -> Result<P, Error> {
        if text == "any" {
            return Ok(any);
        }
        own(text).map_err(|error| match error {
            crate::Error::NotAPrefix { text } if other(&text) => {
                Error::MixedFamilies { text, family }
            }
            crate::Error::NotAPrefix { text } => word(
                &text,
                "an address, a prefix as in 192.0.2.0/24 or 2001:db8::/32, or any",
            ),
            error => error.into(),
        })
    }
    let own4 = parse_prefix::<Ipv4Addr, Prefix4>;
    let own6 = parse_prefix::<Ipv6Addr, Prefix6>;
    // A refusal for another reason than its form says that it is of that family.
    let is4 = |text: &str| !matches!(own4(text, 32), Err(crate::Error::NotAPrefix { .. }));
    let is6 = |text: &str| !matches!(own6(text, 128), Err(crate::Error::NotAPrefix { .. }));
    match family {
        "v4" => {
            let parse = |text| one(text, "IPv4", |t| own4(t, 32), is6, Prefix4::around(0, 0));
            Ok(Prefixes::V4(parse(src)?, parse(dst)?))
        }
        "v6" => {
            let parse = |text| one(text, "IPv6", |t| own6(t, 128), is4, Prefix6::around(0, 0));
            Ok(Prefixes::V6(parse(src)?, parse(dst)?))
        }
        "any" => match [src, dst].into_iter().find(|text| *text != "any") {
            Some(text) => Err(Error::FamilyNeeded {
                text: text.to_owned(),
            }),
            None => Ok(Prefixes::Any),
        },
        _ => Err(word(family, "a family; write v4, v6 or any")),
    }
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut words = text.split_whitespace();
        let mut next = |what: &'static str| words.next().ok_or(Error::Missing { what });
        let deny = parse_action(next("action")?)?;
        let family = next("family")?;
        let protocol = match next("protocol")? {
            "any" => None,
            name => match PROTOCOLS.iter().find(|p| p.0 == name) {
                Some(known) => Some(known.1),
                None => Some(name.parse().map_err(|_| {
                    word(
                        name,
                        "a protocol; write tcp, udp, sctp, icmp, icmp6, any or a number up to 255",
                    )
                })?),
            },
        };
        let (src, dst) = (next("source")?, next("destination")?);
        let prefixes = parse_prefixes(family, src, dst)?;
        let (mut src_ports, mut dst_ports, mut ingress) = (None, None, None);
        let twice = |keyword| Error::Twice { keyword };
        while let Some(keyword) = words.next() {
            let mut value = |what: &'static str| words.next().ok_or(Error::Missing { what });
            match keyword {
                "sport" => {
                    let ports = parse_ports(value("source port")?)?;
                    if src_ports.replace(ports).is_some() {
                        return Err(twice("sport"));
                    }
                }
                "dport" => {
                    let ports = parse_ports(value("destination port")?)?;
                    if dst_ports.replace(ports).is_some() {
                        return Err(twice("dport"));
                    }
                }
                "in" => {
                    let ports = parse_ingress(value("list of ports of arrival")?)?;
                    if ingress.replace(ports).is_some() {
                        return Err(twice("in"));
                    }
                }
                _ => return Err(word(keyword, "a condition; write sport, dport or in")),
            }
        }
        let rule = Self {
            deny,
            prefixes,
            protocol,
            src_ports,
            dst_ports,
            ingress: ingress.unwrap_or(u16::MAX),
        };
        rule.check()?;
        Ok(rule)
    }
}

/// The list of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl {
    rules: Vec<Option<Rule>>,
    default_deny: bool,
}

impl Acl {
    /// The list after reset: no rules, everything permitted. `capacity` is the hardware's.
    pub fn new(capacity: usize) -> Result<Self, Error> {
        if !(1..=MAX_RULES).contains(&capacity) {
            return Err(Error::Capacity { capacity });
        }
        Ok(Self {
            rules: vec![None; capacity],
            default_deny: false,
        })
    }

    /// A list from text: a rule a line, in order, `default permit` or `default deny`; `#` begins a
    /// comment.
    pub fn parse(text: &str, capacity: usize) -> Result<Self, Error> {
        let mut acl = Self::new(capacity)?;
        let mut rules = Vec::new();
        let mut default = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let mut words = line.split_whitespace();
            let parsed = match words.next() {
                None => continue,
                Some("default") => match (words.next(), words.next()) {
                    (None, _) => Err(Error::Missing { what: "action" }),
                    (Some(_), Some(more)) => Err(word(more, "wanted behind a default")),
                    (Some(action), None) => parse_action(action).and_then(|deny| {
                        let keyword = "default";
                        default
                            .replace(deny)
                            .map_or(Ok(()), |_| Err(Error::Twice { keyword }))
                    }),
                },
                Some(_) => line.parse().map(|rule| rules.push(Some(rule))),
            };
            parsed.map_err(|reason| Error::Line {
                line: number + 1,
                reason: Box::new(reason),
            })?;
        }
        if rules.len() > capacity {
            return Err(Error::TooMany {
                rules: rules.len(),
                capacity,
            });
        }
        acl.rules[..rules.len()].copy_from_slice(&rules);
        acl.default_deny = default.unwrap_or(false);
        Ok(acl)
    }

    /// The rules, by number.
    pub fn rules(&self) -> &[Option<Rule>] {
        &self.rules
    }

    /// Whether the default denies.
    pub const fn default_deny(&self) -> bool {
        self.default_deny
    }

    /// Puts a rule in place, or removes it; returns the words for the hardware, in order.
    pub fn set(&mut self, index: usize, rule: Option<Rule>) -> Result<Vec<Write>, Error> {
        let capacity = self.rules.len();
        if index >= capacity {
            return Err(Error::NoSuchRule { index, capacity });
        }
        if let Some(rule) = rule {
            rule.check()?;
        }
        self.rules[index] = rule;
        Ok(self.rule_writes(index))
    }

    /// Sets the default; returns the word for the hardware.
    pub fn set_default(&mut self, deny: bool) -> Write {
        self.default_deny = deny;
        self.default_write()
    }

    fn default_write(&self) -> Write {
        Write {
            addr: WORD_DEFAULT,
            data: [self.default_deny.into(), 0, 0],
        }
    }

    fn rule_writes(&self, index: usize) -> Vec<Write> {
        let base = (index as u32) << WORD_BITS;
        match self.rules[index] {
            Some(rule) => (0..)
                .zip(rule.words())
                .map(|(word, data)| Write {
                    addr: base | word,
                    data,
                })
                .collect(),
            None => vec![Write {
                addr: base | WORD_TERMS,
                data: [0; 3],
            }],
        }
    }

    /// The words of the whole list, whatever the hardware held. Rules change one after the other:
    /// in between the hardware has the first rules of this list and the others of its own.
    pub fn writes(&self) -> Vec<Write> {
        let rules = (0..self.rules.len()).flat_map(|index| self.rule_writes(index));
        rules.chain([self.default_write()]).collect()
    }

    /// What the list says about a packet.
    pub fn decide(&self, key: &Key) -> Decision {
        let rule = self
            .rules
            .iter()
            .position(|rule| rule.is_some_and(|rule| rule.matches(key)));
        let deny = match rule.and_then(|index| self.rules[index]) {
            Some(rule) => rule.deny,
            None => self.default_deny,
        };
        Decision { deny, rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_fill_their_word_without_gap() {
        let mut next = 0;
        for field in TERMS {
            assert_eq!(field.lsb, next, "{}", field.name);
            next += field.width;
        }
        assert_eq!(next, 95);
    }

    #[test]
    fn masks() {
        assert_eq!(mask(0), 0);
        assert_eq!(mask(1), 1 << 127);
        assert_eq!(mask(127), !1);
        assert_eq!(mask(128), u128::MAX);
    }
}
