// SPDX-License-Identifier: Apache-2.0
//! IPv6 extension headers (RFC 8200 section 4) and IPv4 options (RFC 791 section 3.1), as far as a
//! router looks.

/// Bytes of an IPv6 header.
pub(crate) const HEADER6: usize = 40;
/// Bytes of an IPv4 header without options.
const HEADER4: usize = 20;
const NEXT_HEADER_AT: usize = 6;

/// Protocol numbers.
pub(crate) const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;

/// What is behind the extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upper {
    pub protocol: u8,
    /// Where it begins; may be the end of the packet.
    pub at: usize,
    /// Where its number stands.
    pub named_at: usize,
    /// A fragment other than the first: it is not really there.
    pub later_fragment: bool,
    /// A fragment at all.
    pub fragment: bool,
    /// A routing header that wants the packet elsewhere, and where its type stands.
    pub routing: Option<usize>,
}

/// Walks the extension headers; `None` if they run over the end.
pub(crate) fn upper(packet: &[u8]) -> Option<Upper> {
    let mut upper = Upper {
        protocol: *packet.get(NEXT_HEADER_AT)?,
        at: HEADER6,
        named_at: NEXT_HEADER_AT,
        later_fragment: false,
        fragment: false,
        routing: None,
    };
    loop {
        let at = upper.at;
        let words = |unit: usize| packet.get(at + 1).map(|&len| usize::from(len) * unit);
        let len = match upper.protocol {
            HOP_BY_HOP | DESTINATION | MOBILITY => words(8)? + 8,
            ROUTING => {
                if *packet.get(at + 3)? != 0 {
                    upper.routing = Some(at + 2);
                }
                words(8)? + 8
            }
            FRAGMENT => {
                let field = u16::from_be_bytes([*packet.get(at + 2)?, *packet.get(at + 3)?]);
                upper.later_fragment = field >> 3 != 0;
                upper.fragment = field & !6 != 0;
                8
            }
            AUTHENTICATION => words(4)? + 8,
            _ => return Some(upper),
        };
        if packet.len() < at + len {
            return None;
        }
        upper.protocol = packet[at];
        upper.named_at = at;
        upper.at = at + len;
        if upper.later_fragment {
            return Some(upper);
        }
    }
}

/// What the hop-by-hop options say (RFC 8200 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Options {
    Continue,
    Discard,
    /// Discard and report the option at this place; `always` even if the destination is a group.
    Report {
        at: usize,
        always: bool,
    },
}

/// Reads the hop-by-hop options of a packet, if it has any.
pub(crate) fn hop_by_hop(packet: &[u8]) -> Options {
    if packet.get(NEXT_HEADER_AT) != Some(&HOP_BY_HOP) {
        return Options::Continue;
    }
    let Some(&len) = packet.get(HEADER6 + 1) else {
        return Options::Discard;
    };
    let end = HEADER6 + 8 + usize::from(len) * 8;
    let Some(options) = packet.get(..end) else {
        return Options::Discard;
    };
    let mut at = HEADER6 + 2;
    while at < end {
        let kind = options[at];
        if kind == 0 {
            at += 1;
            continue;
        }
        let Some(&len) = options.get(at + 1) else {
            return Options::Discard;
        };
        let next = at + 2 + usize::from(len);
        if next > end {
            return Options::Discard;
        }
        // PadN and router alert are known; the rest goes by the upper bits of its type.
        match (kind, kind >> 6) {
            (1 | 5, _) | (_, 0) => {}
            (_, 1) => return Options::Discard,
            (_, upper) => {
                let always = upper == 2;
                return Options::Report { at, always };
            }
        }
        at = next;
    }
    Options::Continue
}

/// What the options of an IPv4 header say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Options4 {
    Continue,
    /// The source wants its own way.
    SourceRoute,
    /// An option runs over the end of the header.
    Malformed {
        at: u8,
    },
}

/// Reads the options of an IPv4 header.
pub(crate) fn options4(header: &[u8]) -> Options4 {
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut at = HEADER4;
    while let Some(&kind) = header.get(at) {
        let malformed = Options4::Malformed { at: at as u8 };
        match kind {
            0 => break,
            1 => at += 1,
            _ => {
                let Some(&len) = header.get(at + 1) else {
                    return malformed;
                };
                let len = usize::from(len);
                if len < 2 || at + len > header.len() {
                    return malformed;
                }
                if kind == LOOSE || kind == STRICT {
                    return Options4::SourceRoute;
                }
                at += len;
            }
        }
    }
    Options4::Continue
}
