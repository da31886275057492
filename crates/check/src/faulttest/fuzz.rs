// SPDX-License-Identifier: Apache-2.0
//! Frames that nobody should send: genuine ones that were altered, with and without right end
//! codes, forged acknowledgements, replays, and noise.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use wire::seal::Sealer;
use wire::{
    COMPACT_NIBBLE, Control, EndCode, FrameView, MIN_FRAME_BYTES, PAYLOAD_OFFSET, Payload,
    PayloadView, SEAL_MAGIC, SessionPort, UDP_PORT, seal_ip, seal_payload_with,
};

/// What a fuzzed frame began as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Stores in the `compact` format.
    Compact,
    /// Stores, loads, completions and reports in the `tlp` format.
    Tlp,
    /// Acknowledgements and voids.
    Control,
    /// Sealed payloads.
    Sealed,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Compact, Self::Tlp, Self::Control, Self::Sealed];

    /// For names of cells.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compact => "compact",
            Self::Tlp => "tlp",
            Self::Control => "control",
            Self::Sealed => "sealed",
        }
    }

    /// The target that a genuine frame belongs to.
    fn of(frame: &[u8]) -> Option<Self> {
        let first = *frame.get(PAYLOAD_OFFSET)?;
        Some(match first {
            SEAL_MAGIC => Self::Sealed,
            _ if first >> 4 == COMPACT_NIBBLE && first & 4 != 0 => Self::Control,
            _ if first >> 4 == COMPACT_NIBBLE => Self::Compact,
            _ => Self::Tlp,
        })
    }
}

/// Genuine frames that are kept, of the target and of any kind.
const KEPT: usize = 256;
/// Longest payload that is made up.
const MAX_PAYLOAD: usize = 320;

/// Makes frames.
#[derive(Debug)]
pub struct Fuzzer {
    target: Target,
    rng: ChaCha8Rng,
    of_target: Vec<Vec<u8>>,
    any: Vec<Vec<u8>>,
    next: usize,
    next_any: usize,
}

impl Fuzzer {
    /// Altered frames of `target`.
    pub fn new(target: Target, rng: ChaCha8Rng) -> Self {
        Self {
            target,
            rng,
            of_target: Vec::new(),
            any: Vec::new(),
            next: 0,
            next_any: 0,
        }
    }

    /// Keeps a genuine frame.
    pub fn observe(&mut self, frame: &[u8]) {
        keep(&mut self.any, &mut self.next_any, frame);
        if Target::of(frame) == Some(self.target) {
            keep(&mut self.of_target, &mut self.next, frame);
        }
    }

    /// The next frame, without FCS; `None` before anything genuine was seen.
    pub fn frame(&mut self) -> Option<Vec<u8>> {
        let any = self.any.choose(&mut self.rng)?;
        let original = match self.of_target.choose(&mut self.rng) {
            Some(frame) if self.rng.random_range(0..20) > 0 => frame,
            // In the other format, if the peer does not speak this one.
            _ => any,
        };
        let mut frame = original.clone();
        let rng = &mut self.rng;
        if Target::of(&frame) != Some(self.target) {
            disguise(&mut frame, self.target, rng);
        }
        match rng.random_range(0..16) {
            // As it was: a replay.
            0 => {}
            1 => flip_bits(&mut frame, 0, rng),
            2 | 3 => flip_bits(&mut frame, PAYLOAD_OFFSET, rng),
            4 => {
                let from = rng.random_range(PAYLOAD_OFFSET..frame.len());
                rng.fill(&mut frame[from..]);
            }
            5 => noise_payload(&mut frame, self.target, rng),
            6 => {
                let from = rng.random_range(12..frame.len());
                rng.fill(&mut frame[from..]);
            }
            7 => change_length(&mut frame, rng),
            // Right end codes under wrong contents.
            8 => resealed(&mut frame, change_port, rng),
            9 => {
                let at = 26 + rng.random_range(0..4);
                frame[at] ^= 1 << rng.random_range(0..8);
                seal_ip(&mut frame);
            }
            10 => control(&mut frame, rng),
            11..14 => resealed(&mut frame, change_fields, rng),
            14 => {
                // Out of its session.
                resealed(
                    &mut frame,
                    |frame, rng| {
                        let port = if rng.random() { UDP_PORT } else { rng.random() };
                        frame[34..36].copy_from_slice(&port.to_be_bytes());
                    },
                    rng,
                );
            }
            _ => {
                // Sealed by somebody else.
                let sealer = Sealer::new(rng.random(), rng.random());
                let packet = rng.random_range(1..1 << 40);
                let sealed = sealer.seal_frame(&mut frame, packet);
                debug_assert!(sealed.is_ok() || frame.len() < MIN_FRAME_BYTES);
            }
        }
        frame.resize(frame.len().clamp(MIN_FRAME_BYTES, 1514), 0);
        Some(frame)
    }
}

fn keep(kept: &mut Vec<Vec<u8>>, next: &mut usize, frame: &[u8]) {
    if kept.len() < KEPT {
        kept.push(frame.to_vec());
    } else {
        let place = &mut kept[*next % KEPT];
        place.clear();
        place.extend_from_slice(frame);
        *next += 1;
    }
}

fn payload_end(frame: &[u8]) -> usize {
    let udp = usize::from(u16::from_be_bytes([frame[38], frame[39]]));
    (34 + udp).clamp(PAYLOAD_OFFSET, frame.len())
}

fn set_length(frame: &mut [u8], payload: usize) {
    let udp = 8 + payload as u16;
    frame[16..18].copy_from_slice(&(udp + 20).to_be_bytes());
    frame[38..40].copy_from_slice(&udp.to_be_bytes());
    seal_ip(frame);
}

fn replace_payload(frame: &mut Vec<u8>, payload: &[u8]) {
    frame.truncate(PAYLOAD_OFFSET);
    frame.extend_from_slice(payload);
    frame.resize(frame.len().max(MIN_FRAME_BYTES), 0);
    set_length(frame, payload.len());
}

fn flip_bits(frame: &mut [u8], first: usize, rng: &mut ChaCha8Rng) {
    for _ in 0..rng.random_range(1..9) {
        let at = rng.random_range(first..frame.len());
        frame[at] ^= 1 << rng.random_range(0..8);
    }
}

/// Gives a frame the looks of the target.
fn disguise(frame: &mut Vec<u8>, target: Target, rng: &mut ChaCha8Rng) {
    match target {
        Target::Control => control(frame, rng),
        _ => noise_payload(frame, target, rng),
    }
}

/// Noise that begins as the target does, often with a right end code.
fn noise_payload(frame: &mut Vec<u8>, target: Target, rng: &mut ChaCha8Rng) {
    // Mostly short, so that many come in a time.
    let most = if rng.random_range(0..10) == 0 {
        MAX_PAYLOAD
    } else {
        36
    };
    let mut payload = vec![0; rng.random_range(10..most)];
    rng.fill(&mut payload[..]);
    match target {
        Target::Compact => {
            payload[0] = 0xC0 | rng.random_range(0..4) | if rng.random() { 8 } else { 0 };
            payload.truncate(10 + 4 * (payload.len() / 4));
        }
        Target::Control => {
            payload[0] = 0xC4 | rng.random_range(0..4);
            payload.truncate(10);
        }
        Target::Tlp => {
            payload[0] = 0x4E;
            payload[1] = 0x4D;
            payload[2] = rng.random_range(0..4);
            if let Some(header) = payload.get_mut(8..20) {
                header[0] = *[0x60, 0x20, 0x0A, 0x4A].choose(rng).unwrap_or(&0x60);
                header[2] = 0;
            }
        }
        Target::Sealed => {
            payload[0] = SEAL_MAGIC;
            payload[1] = 0;
        }
    }
    let port = u16::from_be_bytes([frame[34], frame[35]]);
    if rng.random() {
        let code = EndCode {
            port,
            tag: if rng.random() { 0 } else { rng.random() },
            sequence_high: 0,
        };
        seal_payload_with(&mut payload, code);
    }
    replace_payload(frame, &payload);
}

/// More or less payload, with or without the lengths that belong to it.
fn change_length(frame: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    let end = payload_end(frame);
    let length = end - PAYLOAD_OFFSET;
    match rng.random_range(0..3) {
        0 => {
            frame.truncate(rng.random_range(PAYLOAD_OFFSET..=end));
            if rng.random() {
                let left = frame.len() - PAYLOAD_OFFSET;
                set_length(frame, left);
            }
        }
        1 => set_length(frame, rng.random_range(0..1480)),
        _ => {
            let more = rng.random_range(1..64);
            frame.truncate(end);
            frame.resize(end + more, 0x5A);
            set_length(frame, length + more);
        }
    }
}

fn change_port(frame: &mut [u8], rng: &mut ChaCha8Rng) {
    let port = u16::from_be_bytes([frame[34], frame[35]]);
    let mut session = SessionPort::from_port(port).unwrap_or(SessionPort { epoch: 0, index: 0 });
    match rng.random_range(0..3) {
        0 => session.epoch = session.epoch.wrapping_sub(rng.random_range(1..4)) & 0x3F,
        1 => session.epoch = rng.random_range(0..64),
        _ => session.index = rng.random(),
    }
    frame[34..36].copy_from_slice(&session.to_port().to_be_bytes());
}

/// A forged control frame with a right end code.
fn control(frame: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    let port = u16::from_be_bytes([frame[34], frame[35]]);
    let number = match rng.random_range(0..3) {
        0 => rng.random(),
        1 => rng.random_range(0..1000),
        _ => {
            let near = [frame[PAYLOAD_OFFSET + 1], frame[PAYLOAD_OFFSET + 2]];
            let near = u32::from(u16::from_be_bytes(near));
            near.wrapping_add(rng.random_range(0..16)).wrapping_sub(8)
        }
    };
    let control = match rng.random_range(0..3) {
        0 => Control::Acknowledgement {
            expected: number,
            interval: rng.random(),
        },
        1 => Control::Missing {
            expected: number,
            interval: rng.random(),
        },
        _ => Control::Void(number as u16),
    };
    let code = EndCode {
        port,
        ..EndCode::default()
    };
    if let Ok(payload) = Payload::Control(control).emit_with(code) {
        replace_payload(frame, &payload);
    }
}

/// Changes a frame and makes its end code right again for the tag and number that it had.
fn resealed(
    frame: &mut [u8],
    change: impl FnOnce(&mut [u8], &mut ChaCha8Rng),
    rng: &mut ChaCha8Rng,
) {
    let port = u16::from_be_bytes([frame[34], frame[35]]);
    let payload = FrameView::new(frame).and_then(|view| view.payload());
    let tag = payload
        .and_then(PayloadView::new)
        .map_or(0, |payload| payload.tag_from(port));
    change(frame, rng);
    let end = payload_end(frame);
    let code = EndCode {
        port: u16::from_be_bytes([frame[34], frame[35]]),
        tag: tag as u16,
        sequence_high: 0,
    };
    seal_payload_with(&mut frame[PAYLOAD_OFFSET..end], code);
}

/// Other numbers, addresses, data.
fn change_fields(frame: &mut [u8], rng: &mut ChaCha8Rng) {
    let end = payload_end(frame);
    let payload = &mut frame[PAYLOAD_OFFSET..end];
    if payload.len() < 10 {
        return;
    }
    let number = if payload[0] >> 4 == COMPACT_NIBBLE {
        1
    } else {
        4
    };
    for _ in 0..rng.random_range(1..4) {
        match rng.random_range(0..4) {
            0 => {
                // The next numbers are the dangerous ones.
                let old = u16::from_be_bytes([payload[number], payload[number + 1]]);
                let new = old.wrapping_add(rng.random_range(0..64));
                payload[number..number + 2].copy_from_slice(&new.to_be_bytes());
            }
            1 => payload[rng.random_range(0..8)] ^= 1 << rng.random_range(0..8),
            2 => {
                let at = rng.random_range(3..payload.len());
                payload[at] = rng.random();
            }
            _ => {
                let at = rng.random_range(3..payload.len());
                payload[at] ^= 1 << rng.random_range(0..8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use wire::{Compact, Frame, Mac};

    fn genuine() -> Vec<u8> {
        let frame = Frame {
            dst_mac: Mac([2, 0, 0, 0, 0, 2]),
            src_mac: Mac([2, 0, 0, 0, 0, 1]),
            src_ip: [10, 0, 0, 1].into(),
            dst_ip: [10, 0, 0, 2].into(),
            src_port: SessionPort { epoch: 5, index: 9 }.to_port(),
            dst_port: UDP_PORT,
            payload: Payload::Compact(Compact {
                sequence: 7,
                key: 3,
                data: vec![1, 2, 3, 4, 5, 6, 7, 8],
                ..Compact::default()
            }),
        };
        frame.emit(0x5A5).expect("a sound frame")
    }

    #[test]
    fn frames_of_every_kind_and_some_with_right_end_codes() {
        for target in Target::ALL {
            let mut fuzzer = Fuzzer::new(target, ChaCha8Rng::seed_from_u64(1));
            assert_eq!(fuzzer.frame(), None);
            fuzzer.observe(&genuine());
            let mut looks = 0;
            let mut others = 0;
            for _ in 0..2000 {
                let frame = fuzzer.frame().expect("a frame was seen");
                assert!((MIN_FRAME_BYTES..=1514).contains(&frame.len()));
                looks += u32::from(Target::of(&frame) == Some(target));
                others += u32::from(frame != genuine());
            }
            assert!(looks > 700, "{target:?}: {looks}");
            assert!(others > 1500, "{target:?}: {others}");
        }
    }

    #[test]
    fn a_resealed_frame_keeps_its_tag() {
        let mut frame = genuine();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        resealed(
            &mut frame,
            |frame, _| frame[PAYLOAD_OFFSET + 9] ^= 1,
            &mut rng,
        );
        assert_ne!(frame, genuine());
        assert_eq!(Frame::parse(&frame).expect("sound").tag, 0x5A5);
    }
}
