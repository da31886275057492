// SPDX-License-Identifier: Apache-2.0
//! Random frames from the wire: good ones, and ones with every fault that the verdict table knows.
//! The bytes are put together here from `docs/wire-format.md`; only the CRCs are the `wire` crate's.

use ipnuma_rtl::NetSpeed;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::difftest::phy::{Fault, LineFrame};
use crate::difftest::world::{Peer, World, percent, random_bytes, random_dws, random_enables};

const PAYLOAD: usize = 42;
const MAX_FRAME: usize = 1518;

/// A frame in the making; `end` is where the UDP payload ends.
#[derive(Clone, Debug)]
struct Draft {
    bytes: Vec<u8>,
    end: usize,
    tag: u16,
    /// Checks that are put right before the frame leaves.
    seal_end_code: bool,
    seal_ip: bool,
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

impl Draft {
    fn new(world: &World, from: Peer, payload: Vec<u8>, tag: u16, rng: &mut ChaCha8Rng) -> Self {
        let mut bytes = world.mac.to_be_bytes()[2..].to_vec();
        bytes.extend_from_slice(&from.mac.to_be_bytes()[2..]);
        let total = 28 + payload.len() as u16;
        bytes.extend_from_slice(&[8, 0, 0x45, rng.random()]);
        bytes.extend_from_slice(&total.to_be_bytes());
        bytes.extend_from_slice(&random_bytes(rng, 2));
        let ttl = rng.random();
        // DF and the reserved flag don't matter.
        bytes.extend_from_slice(&[rng.random::<u8>() & 0xC0, 0, ttl, 17, 0, 0]);
        bytes.extend_from_slice(&from.ip.to_be_bytes());
        bytes.extend_from_slice(&world.ip.to_be_bytes());
        bytes.extend_from_slice(&random_bytes(rng, 2));
        bytes.extend_from_slice(&3422_u16.to_be_bytes());
        bytes.extend_from_slice(&(total - 20).to_be_bytes());
        bytes.extend_from_slice(&random_bytes(rng, 2));
        bytes.extend_from_slice(&payload);
        let end = bytes.len();
        Self {
            bytes,
            end,
            tag,
            seal_end_code: true,
            seal_ip: true,
        }
    }

    /// Puts the checks right, pads and appends the FCS.
    fn finish(mut self, rng: &mut ChaCha8Rng) -> Vec<u8> {
        let end = self.end.min(self.bytes.len());
        if self.seal_end_code && end >= PAYLOAD + 10 {
            if self.bytes[PAYLOAD] >> 4 == 0xC {
                let code = wire::crc16(&self.bytes[PAYLOAD..end - 2]) ^ self.tag;
                put16(&mut self.bytes, end - 2, code);
            } else {
                let code = wire::crc32c(&self.bytes[PAYLOAD..end - 4]) ^ u32::from(self.tag);
                self.bytes[end - 4..end].copy_from_slice(&code.to_le_bytes());
            }
        }
        if self.seal_ip && self.bytes.len() >= 34 {
            put16(&mut self.bytes, 24, 0);
            let mut sum: u32 = self.bytes[14..34]
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
                .sum();
            sum = (sum & 0xFFFF) + (sum >> 16);
            sum = (sum & 0xFFFF) + (sum >> 16);
            put16(&mut self.bytes, 24, !(sum as u16));
        }
        if self.bytes.len() < 60 {
            // Padding is not looked at.
            let padding = random_bytes(rng, 60 - self.bytes.len());
            self.bytes.extend_from_slice(&padding);
        } else if percent(rng, 5) && self.bytes.len() < MAX_FRAME - 4 {
            let more = rng.random_range(1..=MAX_FRAME - 4 - self.bytes.len());
            let more = match rng.random_range(0..10) {
                // Padding up to the longest frame.
                0 => MAX_FRAME - 4 - self.bytes.len(),
                1 => more,
                _ => more.min(rng.random_range(1..=64)),
            };
            self.bytes.extend_from_slice(&random_bytes(rng, more));
        }
        with_fcs(self.bytes)
    }
}

/// Appends the FCS.
pub fn with_fcs(mut bytes: Vec<u8>) -> Vec<u8> {
    let fcs = wire::fcs(&bytes);
    bytes.extend_from_slice(&fcs);
    bytes
}

fn tlp_payload(kind: u8, sequence: u16, body: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let flags = rng.random_range(0..4);
    let mut payload = vec![0x4E, 0x4D, kind << 4 | flags, rng.random()];
    payload.extend_from_slice(&sequence.to_be_bytes());
    payload.extend_from_slice(&random_bytes(rng, 2));
    payload.extend_from_slice(body);
    payload.extend_from_slice(&[0; 4]);
    payload
}

/// A completion's fields as a peer sends them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetCompletion {
    /// Network tag.
    pub tag: u8,
    /// Status.
    pub status: u8,
    /// Byte count.
    pub byte_count: u16,
    /// Lower address.
    pub lower_address: u8,
    /// Data DWs; 0 is a Cpl.
    pub dws: u16,
}

/// A completion from a peer, with random data.
pub fn completion(world: &World, from: Peer, c: NetCompletion, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let fmt_type = if c.dws == 0 { 0x0A } else { 0x4A };
    // TC and attributes are ignored.
    let mut body = vec![
        fmt_type,
        rng.random::<u8>() & 0x70,
        rng.random::<u8>() & 0x30,
    ];
    body.push(c.dws as u8);
    let status = u16::from(c.status) << 13 | c.byte_count & 0xFFF;
    body.extend_from_slice(&[0, 0]);
    body.extend_from_slice(&status.to_be_bytes());
    body.extend_from_slice(&[0, 0, c.tag, c.lower_address, 0, 0, 0, 0]);
    body.extend_from_slice(&random_bytes(rng, 4 * usize::from(c.dws)));
    let payload = tlp_payload(0, rng.random(), &body, rng);
    Draft::new(world, from, payload, 0, rng).finish(rng)
}

/// A store or load, mostly a permitted one.
fn request(world: &World, is_load: bool, rng: &mut ChaCha8Rng) -> Draft {
    let (key, region) = *world.regions.choose(rng).expect("there are regions");
    let sharers: Vec<&Peer> = world
        .peers
        .iter()
        .filter(|peer| (peer.ip ^ region.ip) & region.mask == 0)
        .collect();
    let from = if percent(rng, 95) {
        **sharers.choose(rng).expect("a region is a peer's")
    } else {
        *world.peers.choose(rng).expect("there are peers")
    };
    let mut dws = random_dws(rng);
    let (first, last) = (region.first & !3, region.last | 3);
    let room = u64::from(last) - u64::from(first) + 1;
    if percent(rng, 90) {
        dws = dws.min((room / 4).min(64) as u16);
    }
    let bytes = 4 * u64::from(dws);
    let offset = match rng.random_range(0..40) {
        // At and around the borders.
        0 => first.wrapping_sub(4 * rng.random_range(0..3)),
        1..4 => first,
        4..7 => last.wrapping_sub(bytes as u32 - 1),
        7 => last.wrapping_sub(rng.random_range(0..0x200)),
        8 => rng.random(),
        9 => (last & !0xFFF).wrapping_sub(4 * rng.random_range(0..3)),
        _ => first + (rng.random_range(0..=room.saturating_sub(bytes)) as u32 & !3),
    } & !3;
    // Inside one page, mostly.
    let in_page = offset & 0xFFF;
    let offset = if u64::from(in_page) + bytes > 4096 && percent(rng, 90) {
        offset & !0xFFF | (4096 - bytes as u32)
    } else {
        offset
    };
    let key = match rng.random_range(0..60) {
        0 => rng.random(),
        1 => rng.random_range(0..1 << 12),
        2 => world.config.regions as u16,
        _ => key,
    };
    let tag = if percent(rng, 98) {
        region.tag
    } else {
        rng.random_range(0..1 << 12)
    };
    let data = random_bytes(rng, if is_load { 0 } else { bytes as usize });
    let compact = !is_load && key < 1 << 12 && offset < 1 << 28 && percent(rng, 60);
    let payload = if compact {
        compact_store(key, offset, &data, rng)
    } else {
        let fmt_type = if is_load { 0x20 } else { 0x60 };
        let mut body = vec![
            fmt_type,
            rng.random::<u8>() & 0x70,
            rng.random::<u8>() & 0x30,
        ];
        body.push(dws as u8);
        let enables = match percent(rng, 3) {
            true => rng.random(),
            false => random_enables(rng, dws, offset.into()),
        };
        body.extend_from_slice(&[0, 0, rng.random(), enables, 0, 0]);
        body.extend_from_slice(&key.to_be_bytes());
        body.extend_from_slice(&offset.to_be_bytes());
        body.extend_from_slice(&data);
        tlp_payload(0, rng.random(), &body, rng)
    };
    Draft::new(world, from, payload, tag, rng)
}

fn compact_store(key: u16, offset: u32, data: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let acknowledged = percent(rng, 20);
    let (lead, trail) = match rng.random_range(0..4) {
        0 => (rng.random_range(0..4), rng.random_range(0..4)),
        _ => (0, 0),
    };
    let address = u64::from(key) << 28 | u64::from(offset | lead);
    let mut payload = vec![0xC0 | u8::from(acknowledged) << 3 | trail as u8];
    payload.extend_from_slice(&random_bytes(rng, 2));
    payload.extend_from_slice(&address.to_be_bytes()[3..]);
    payload.extend_from_slice(data);
    if acknowledged {
        payload.extend_from_slice(&random_bytes(rng, 2));
    }
    payload.extend_from_slice(&[0; 2]);
    payload
}

fn error_report(world: &World, rng: &mut ChaCha8Rng) -> Draft {
    let from = *world.peers.choose(rng).expect("there are peers");
    let body = random_bytes(rng, 16);
    let payload = tlp_payload(1, rng.random(), &body, rng);
    Draft::new(world, from, payload, 0, rng)
}

fn arp(world: &World, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let from = world.peers.choose(rng).expect("there are peers");
    let broadcast: bool = rng.random();
    let to = if broadcast {
        0xFFFF_FFFF_FFFF
    } else {
        world.mac
    };
    let mut bytes = to.to_be_bytes()[2..].to_vec();
    bytes.extend_from_slice(&from.mac.to_be_bytes()[2..]);
    bytes.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    bytes.extend_from_slice(&from.mac.to_be_bytes()[2..]);
    bytes.extend_from_slice(&from.ip.to_be_bytes());
    bytes.extend_from_slice(&random_bytes(rng, 6));
    bytes.extend_from_slice(&world.ip.to_be_bytes());
    bytes.extend_from_slice(&random_bytes(rng, 18));
    if percent(rng, 40) {
        let at = rng.random_range(0..42);
        bytes[at] ^= 1 << rng.random_range(0..8);
    }
    with_fcs(bytes)
}

/// One fault for each line of the verdict table, or bytes that just flip.
fn spoil(draft: &mut Draft, world: &World, rng: &mut ChaCha8Rng) {
    // Later checks are mostly put right, so that only the fault is left; sometimes they are not.
    draft.seal_end_code = percent(rng, 85);
    let bytes = &mut draft.bytes;
    match rng.random_range(0..27) {
        0 => bytes[rng.random_range(0..6)] ^= 1 << rng.random_range(0..8),
        1 => bytes[..6].fill(0xFF),
        2 => bytes[12 + rng.random_range(0..2)] ^= 1 << rng.random_range(0..8),
        3 => bytes[14] ^= 1 << rng.random_range(0..8),
        4 => bytes[20] ^= 1 << rng.random_range(0..8),
        5 => bytes[21] ^= 1 << rng.random_range(0..8),
        6 => bytes[23] = rng.random(),
        7 => bytes[30 + rng.random_range(0..4)] ^= 1 << rng.random_range(0..8),
        8 => bytes[36 + rng.random_range(0..2)] ^= 1 << rng.random_range(0..8),
        9 => {
            draft.seal_ip = false;
            let at = rng.random_range(14..34);
            let sum = rng.random_range(0..=u16::MAX);
            put16(bytes, 24, sum);
            bytes[at] ^= 1;
        }
        // Lengths that lie: UDP, IP, both, and the frame itself.
        10 => {
            let length = rng.random_range(0..100);
            put16(bytes, 38, length);
        }
        11 => {
            let length = rng.random_range(0..100);
            put16(bytes, 16, length);
        }
        12..15 => {
            let old = draft.end - 34;
            let length = match rng.random_range(0..4) {
                0 => old.saturating_sub(rng.random_range(1..9)),
                1 => old + rng.random_range(1..9),
                2 => rng.random_range(16..50),
                _ => rng.random_range(0..0x600),
            };
            put16(bytes, 38, length as u16);
            put16(bytes, 16, length as u16 + 20);
            draft.end = 34 + length;
        }
        15 => {
            let left = rng.random_range(draft.end.saturating_sub(12).max(43)..=draft.end);
            bytes.truncate(left);
        }
        16 => bytes[PAYLOAD + rng.random_range(0..2)] ^= 1 << rng.random_range(0..8),
        17 => bytes[PAYLOAD + 2] ^= 1 << rng.random_range(0..8),
        18 => {
            let nibble = if bytes[PAYLOAD] == 0x4E { 0xC0 } else { 0x4E };
            bytes[PAYLOAD] = nibble;
            bytes[PAYLOAD + 1] = 0x4D;
            bytes[PAYLOAD + 2] &= 0x03;
        }
        19..22 => {
            let at = PAYLOAD + 8 + rng.random_range(0..16);
            if at < draft.end {
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
        }
        // The length field of the TLP.
        22 => bytes[PAYLOAD + 11] = rng.random(),
        // The end code alone.
        23 => {
            draft.seal_end_code = true;
            draft.tag ^= 1 << rng.random_range(0..12);
        }
        // The source.
        24 => {
            let peer = world.peers.choose(rng).expect("there are peers");
            bytes[26..30].copy_from_slice(&peer.ip.to_be_bytes());
            bytes[26 + rng.random_range(0..4)] ^= 1 << rng.random_range(0..8);
        }
        // Anything anywhere, under good or bad checks.
        _ => {
            draft.seal_end_code = rng.random();
            draft.seal_ip = percent(rng, 80);
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
            }
        }
    }
}

/// A random frame other than a completion of an outstanding load.
pub fn any_frame(world: &World, speed: NetSpeed, rng: &mut ChaCha8Rng) -> LineFrame {
    let mut fault = Fault::None;
    let bytes = match rng.random_range(0..100) {
        0..60 => {
            let is_load = percent(rng, 15);
            request(world, is_load, rng).finish(rng)
        }
        60..64 => error_report(world, rng).finish(rng),
        64..66 => arp(world, rng),
        66..93 => {
            let mut draft = match rng.random_range(0..20) {
                0 => error_report(world, rng),
                1..5 => request(world, true, rng),
                _ => request(world, false, rng),
            };
            spoil(&mut draft, world, rng);
            draft.finish(rng)
        }
        _ => {
            let (bytes, line_fault) = bad_line(world, speed, rng);
            fault = line_fault;
            bytes
        }
    };
    on_line(bytes, fault, speed, rng)
}

/// An ARP frame, mostly a request for the own address.
pub fn arp_frame(world: &World, speed: NetSpeed, rng: &mut ChaCha8Rng) -> LineFrame {
    let bytes = arp(world, rng);
    on_line(bytes, Fault::None, speed, rng)
}

/// A load, mostly one that a region without the right to read refuses at length.
pub fn load_frame(world: &World, speed: NetSpeed, rng: &mut ChaCha8Rng) -> LineFrame {
    let bytes = request(world, true, rng).finish(rng);
    on_line(bytes, Fault::None, speed, rng)
}

/// A frame that the MAC calls bad.
fn bad_line(world: &World, speed: NetSpeed, rng: &mut ChaCha8Rng) -> (Vec<u8>, Fault) {
    let is_load = percent(rng, 10);
    let mut bytes = request(world, is_load, rng).finish(rng);
    let mut fault = Fault::None;
    match rng.random_range(0..8) {
        0 | 1 => {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        // A runt, whatever its FCS.
        2 => {
            bytes.truncate(rng.random_range(0..64));
            if bytes.len() > 4 && rng.random() {
                bytes.truncate(bytes.len() - 4);
                bytes = with_fcs(bytes);
            }
        }
        3 => {
            let length = match rng.random_range(0..3) {
                0 => MAX_FRAME + 1,
                1 => rng.random_range(MAX_FRAME + 1..MAX_FRAME + 30),
                _ => rng.random_range(MAX_FRAME + 1..4000),
            };
            bytes.truncate(bytes.len() - 4);
            bytes.resize(length - 4, 0x5A);
            bytes = with_fcs(bytes);
        }
        4 => fault = Fault::ErrorAt(rng.random_range(0..bytes.len())),
        5 if speed == NetSpeed::TenGig => fault = Fault::CutAt(rng.random_range(0..bytes.len())),
        6 if speed == NetSpeed::TenGig => {
            // Right behind its preamble it would be a preamble that goes wrong.
            fault = Fault::CutByNext(4 * rng.random_range(1..bytes.len() / 4));
        }
        _ => fault = Fault::BadPreamble(rng.random_range(1..8)),
    }
    (bytes, fault)
}

/// Draws gap, lane and preamble.
pub fn on_line(bytes: Vec<u8>, fault: Fault, speed: NetSpeed, rng: &mut ChaCha8Rng) -> LineFrame {
    let gap = match (rng.random_range(0..10), speed) {
        (0, _) => rng.random_range(12..200),
        (1 | 2, _) => rng.random_range(12..20),
        // The shortest that a receiver must stand, with the terminate: 5 bytes, and 8.
        (3, NetSpeed::TenGig) => 4,
        (3, NetSpeed::OneGig) => 8,
        (_, NetSpeed::TenGig) => rng.random_range(8..12),
        (_, NetSpeed::OneGig) => 12,
    };
    LineFrame {
        bytes,
        fault,
        gap,
        lane_4: rng.random(),
        preamble: if percent(rng, 90) {
            7
        } else {
            rng.random_range(1..7)
        },
    }
}
