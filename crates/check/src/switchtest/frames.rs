// SPDX-License-Identifier: Apache-2.0
//! Random frames: valid ones for the routes there are, and everything that can be wrong with them.

use crate::difftest::phy::{Fault, LineFrame};
use ipnuma_rtl::NetSpeed;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::switchtest::world::{MAX_FRAME, PORTS, PROTOCOLS, World};

const MAC_BYTES: usize = 14;
const V4_BYTES: usize = 20;
const V6_BYTES: usize = 40;
const MIN_BODY: usize = 60;

/// How frames follow each other on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The smallest gaps.
    Line,
    /// Gaps of up to some frames.
    Some,
    /// Mostly idle.
    Idle,
}

impl Load {
    /// One of them.
    pub fn random(rng: &mut ChaCha8Rng) -> Self {
        *[
            Self::Line,
            Self::Line,
            Self::Some,
            Self::Some,
            Self::Some,
            Self::Idle,
        ]
        .choose(rng)
        .unwrap_or(&Self::Some)
    }

    fn gap(self, rng: &mut ChaCha8Rng) -> usize {
        match self {
            Self::Line => rng.random_range(9..=15),
            Self::Some => rng.random_range(12..300),
            Self::Idle => rng.random_range(12..1500),
        }
        .max(9)
    }
}

/// A random frame for a port.
pub fn random(
    world: &World,
    port: u8,
    speed: NetSpeed,
    load: Load,
    rng: &mut ChaCha8Rng,
) -> LineFrame {
    let mut bytes = body(world, port, rng);
    let mut whole = true;
    match rng.random_range(0..100) {
        // One bit, with an FCS that knows, or not.
        0..5 => flip(&mut bytes, rng),
        // Cut short.
        5 => bytes.truncate(rng.random_range(0..bytes.len())),
        6 => bytes.truncate(rng.random_range(0..=MIN_BODY.min(bytes.len()))),
        7 => whole = false,
        _ => {}
    }
    let fcs = wire::fcs(&bytes);
    bytes.extend(fcs);
    if !whole {
        if rng.random() {
            flip(&mut bytes, rng);
        } else {
            bytes.truncate(rng.random_range(1..bytes.len()));
        }
    }
    let within = bytes.len().min(MAX_FRAME);
    let fault = match rng.random_range(0..200) {
        0..2 => Fault::ErrorAt(rng.random_range(0..within)),
        2 if speed == NetSpeed::TenGig => Fault::CutAt(rng.random_range(0..within)),
        // Right behind the preamble a start makes it a bad one, or not, by its lane.
        3 if speed == NetSpeed::TenGig && within > 4 => {
            Fault::CutByNext(rng.random_range(4..within) / 4 * 4)
        }
        4 => Fault::BadPreamble(rng.random_range(1..8)),
        _ => Fault::None,
    };
    let gap = load.gap(rng);
    LineFrame {
        bytes,
        fault,
        gap: if speed == NetSpeed::OneGig {
            gap.max(12)
        } else {
            gap
        },
        lane_4: rng.random(),
        preamble: if rng.random_bool(0.9) {
            7
        } else {
            rng.random_range(1..=7)
        },
    }
}

fn flip(bytes: &mut [u8], rng: &mut ChaCha8Rng) {
    // Headers are small beside payload.
    let near = bytes.len().min(60);
    let end = if rng.random() { near } else { bytes.len() };
    bytes[rng.random_range(0..end)] ^= 1 << rng.random_range(0..8);
}

/// Length of what is behind the MAC header.
fn payload_bytes(least: usize, rng: &mut ChaCha8Rng) -> usize {
    let bytes = match rng.random_range(0..1000) {
        0..600 => rng.random_range(0..=50),
        600..900 => rng.random_range(46..=180),
        900..992 => rng.random_range(180..=600),
        992..996 => rng.random_range(600..=1500),
        996..998 => rng.random_range(1480..=1510),
        998 => rng.random_range(8990..=9010),
        _ => rng.random_range(9170..=9240),
    };
    bytes.max(least)
}

fn body(world: &World, port: u8, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let settings = world.model.port(port);
    let mut mac = settings.mac;
    match rng.random_range(0..100) {
        0..2 => mac = rng.random(),
        2 => mac = [0xFF; 6],
        3 => mac[0] |= 1,
        4 => mac[rng.random_range(0..6)] ^= 1 << rng.random_range(0..8),
        _ => {}
    }
    let mut bytes = mac.to_vec();
    bytes.extend(rng.random::<[u8; 6]>());
    let tag = match (settings.vlan_in, rng.random_range(0..100)) {
        (Some(_), 0..4) => None,
        (Some(vid), 4..8) => Some(vid ^ 1 << rng.random_range(0..12)),
        (Some(vid), _) => Some(vid),
        (None, 0..2) => Some(rng.random_range(0..4096)),
        (None, _) => None,
    };
    if let Some(vid) = tag {
        // The priority does not matter.
        let control = vid
            | if rng.random() {
                0
            } else {
                rng.random::<u16>() << 12
            };
        bytes.extend([0x81, 0x00]);
        bytes.extend(control.to_be_bytes());
    }
    match rng.random_range(0..100) {
        0..3 => {
            let kinds = [0x0806_u16, 0x86DE, 0x0801, 0x88CC, 0x8100, 46, rng.random()];
            bytes.extend(kinds.choose(rng).unwrap_or(&0).to_be_bytes());
            random_tail(&mut bytes, payload_bytes(0, rng), rng);
        }
        3..55 => {
            bytes.extend([0x08, 0x00]);
            v4(world, &mut bytes, rng);
        }
        _ => {
            bytes.extend([0x86, 0xDD]);
            v6(world, &mut bytes, rng);
        }
    }
    // Padding; with a tag, of the frame without it.
    let tag_bytes = if tag.is_some() { 4 } else { 0 };
    let least = if rng.random() {
        MIN_BODY
    } else {
        MIN_BODY + tag_bytes
    };
    let missing = least.saturating_sub(bytes.len());
    random_tail(&mut bytes, missing, rng);
    bytes
}

fn random_tail(bytes: &mut Vec<u8>, count: usize, rng: &mut ChaCha8Rng) {
    let from = bytes.len();
    bytes.resize(from + count, 0);
    rng.fill(&mut bytes[from..]);
}

/// An address that routers treat specially, or a random one.
fn special4(rng: &mut ChaCha8Rng) -> u32 {
    let low = rng.random::<u32>();
    match rng.random_range(0..9) {
        0 => low >> 8,
        1 => 127 << 24 | low >> 8,
        2 => 0xE000_0000 | low >> 4,
        3 => 0xF000_0000 | low >> 4,
        4 => u32::MAX,
        5 => 0xA9FE_0000 | low >> 16,
        _ => low,
    }
}

fn special6(rng: &mut ChaCha8Rng) -> u128 {
    let low = rng.random::<u128>();
    match rng.random_range(0..8) {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 0xFF << 120 | low >> 8,
        4 => 0xFE80 << 112 | low >> 10,
        5 => 0xFEC0 << 112 | low >> 10,
        _ => low,
    }
}

fn destination4(world: &World, rng: &mut ChaCha8Rng) -> u32 {
    let Some(prefix) = world.v4.choose(rng) else {
        return rng.random();
    };
    match rng.random_range(0..100) {
        0..5 => special4(rng),
        5..8 => rng.random(),
        8..20 => prefix.addr(),
        20..30 => prefix.last(),
        30..34 => prefix.last().wrapping_add(1),
        34..38 => prefix.addr().wrapping_sub(1),
        _ => prefix.addr() | rng.random::<u32>() & (prefix.last() - prefix.addr()),
    }
}

fn destination6(world: &World, rng: &mut ChaCha8Rng) -> u128 {
    let Some(prefix) = world.v6.choose(rng) else {
        return rng.random();
    };
    match rng.random_range(0..100) {
        0..5 => special6(rng),
        5..8 => rng.random::<u128>() >> 3 | 1 << 125,
        8..20 => prefix.addr(),
        20..30 => prefix.last(),
        30..34 => prefix.last().wrapping_add(1),
        34..38 => prefix.addr().wrapping_sub(1),
        _ => prefix.addr() | rng.random::<u128>() & (prefix.last() - prefix.addr()),
    }
}

fn protocol(rng: &mut ChaCha8Rng) -> u8 {
    if rng.random_bool(0.1) {
        return rng.random();
    }
    *PROTOCOLS.choose(rng).unwrap_or(&6)
}

fn transport(bytes: &mut Vec<u8>, count: usize, rng: &mut ChaCha8Rng) {
    let from = bytes.len();
    random_tail(bytes, count, rng);
    if count >= 4 {
        let port = |rng: &mut ChaCha8Rng| *PORTS.choose(rng).unwrap_or(&0);
        bytes[from..from + 2].copy_from_slice(&port(rng).to_be_bytes());
        bytes[from + 2..from + 4].copy_from_slice(&port(rng).to_be_bytes());
    }
}

/// A length that is right, or not.
fn length(right: usize, rng: &mut ChaCha8Rng) -> u16 {
    let wrong = match rng.random_range(0..300) {
        0 => right + 1,
        1 => right.saturating_sub(1),
        2 => right + rng.random_range(1..60),
        3 => right.saturating_sub(rng.random_range(1..60)),
        4 => usize::from(rng.random::<u16>()),
        5 => 0,
        6 => 65535,
        _ => right,
    };
    wrong.min(65535) as u16
}

fn hops(rng: &mut ChaCha8Rng) -> u8 {
    match rng.random_range(0..40) {
        0 => 0,
        1 => 1,
        2..6 => 2,
        6..10 => 255,
        _ => rng.random(),
    }
}

/// RFC 791 section 3.1.
fn v4(world: &World, bytes: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    let from = bytes.len();
    let option_words = if rng.random_bool(0.04) {
        rng.random_range(1..=10)
    } else {
        0
    };
    let header = V4_BYTES + 4 * option_words;
    let payload = payload_bytes(header, rng) - header;
    let mut first = 0x45 + option_words as u8;
    match rng.random_range(0..200) {
        0 => first = rng.random(),
        1 => first = first & 0x0F | rng.random_range(0..16) << 4,
        2 => first = 0x40 | rng.random_range(0..5),
        _ => {}
    }
    let fragment = match rng.random_range(0..20) {
        0 => rng.random(),
        1 => 0x2000,
        2 => rng.random_range(0..4),
        // Each bit of the offset alone makes a later fragment, the flags do not.
        3 => 1 << rng.random_range(0..16),
        _ => 0x4000_u16,
    };
    let src = if rng.random_bool(0.04) {
        special4(rng)
    } else {
        rng.random_range(1..127) << 24 | rng.random::<u32>() >> 8
    };
    bytes.extend([first, rng.random()]);
    bytes.extend(length(header + payload, rng).to_be_bytes());
    bytes.extend(rng.random::<[u8; 2]>());
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([hops(rng), protocol(rng), 0, 0]);
    bytes.extend(src.to_be_bytes());
    bytes.extend(destination4(world, rng).to_be_bytes());
    random_tail(bytes, 4 * option_words, rng);
    // Corners of RFC 1624: the identification makes the checksum what is wanted.
    if rng.random_bool(0.05) {
        let corners = [0x0000_u16, 0xFFFF, 0xFEFF, 0xFFFE, 0x0100, 0x00FF];
        let want = *corners.choose(rng).unwrap_or(&0);
        bytes[from + 4..from + 6].fill(0);
        let rest = sum(&bytes[from..from + header]);
        let field = !fold(u32::from(rest) + u32::from(want));
        bytes[from + 4..from + 6].copy_from_slice(&field.to_be_bytes());
        bytes[from + 10..from + 12].copy_from_slice(&want.to_be_bytes());
    } else {
        let checksum = match rng.random_range(0..150) {
            0 => rng.random(),
            1 => 0,
            2 => 0xFFFF,
            _ => !sum(&bytes[from..from + header]),
        };
        bytes[from + 10..from + 12].copy_from_slice(&checksum.to_be_bytes());
    }
    transport(bytes, payload, rng);
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// RFC 1071.
fn sum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    fold(
        words
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum(),
    )
}

/// RFC 8200 section 3.
fn v6(world: &World, bytes: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    let payload = payload_bytes(V6_BYTES, rng) - V6_BYTES;
    let first = if rng.random_bool(0.01) {
        rng.random()
    } else {
        0x60 | rng.random_range(0..16)
    };
    let next = if rng.random_bool(0.03) {
        0
    } else {
        protocol(rng)
    };
    let src = if rng.random_bool(0.04) {
        special6(rng)
    } else {
        rng.random::<u128>() >> 3 | 1 << 125
    };
    bytes.push(first);
    bytes.extend(rng.random::<[u8; 3]>());
    bytes.extend(length(payload, rng).to_be_bytes());
    bytes.extend([next, hops(rng)]);
    bytes.extend(src.to_be_bytes());
    bytes.extend(destination6(world, rng).to_be_bytes());
    transport(bytes, payload, rng);
}

/// A frame of the host: any bytes, none shorter than a MAC header.
pub fn of_host(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = payload_bytes(0, rng).min(MAX_FRAME - 4 - MAC_BYTES);
    random_tail(&mut bytes, MAC_BYTES + count, rng);
    bytes
}
