// SPDX-License-Identifier: Apache-2.0
//! Puts frames together from the words of a MAC's interface, and takes them apart into words.

use ipnuma_rtl::{NetSpeed, NetWord};

use crate::time::Picoseconds;

const START: u8 = 0xFB;
const TERMINATE: u8 = 0xFD;
/// Preamble and start delimiter that remain after the start character took the first byte's place.
const PREAMBLE_BYTES: usize = 7;

/// A frame with the times of its first and last word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// From the destination address to the FCS.
    pub bytes: Vec<u8>,
    /// When the word with the start was there.
    pub first: Picoseconds,
    /// When the word with the last byte of the FCS was there.
    pub last: Picoseconds,
}

/// Collects words; see [`Framer::word`].
#[derive(Clone, Debug, Default)]
pub struct Framer {
    bytes: Vec<u8>,
    first: Picoseconds,
    last: Picoseconds,
    inside: bool,
}

impl Framer {
    /// Takes the next word; returns the frame that ends in it.
    pub fn word(&mut self, time: Picoseconds, word: NetWord) -> Option<Frame> {
        match word {
            NetWord::Xgmii { data, control } => {
                let mut done = None;
                for (lane, byte) in data.to_le_bytes().into_iter().enumerate() {
                    if control >> lane & 1 == 0 {
                        self.byte(time, byte);
                    } else if byte == START {
                        self.begin(time);
                    } else if byte == TERMINATE && self.inside {
                        done = self.end(PREAMBLE_BYTES);
                    } else {
                        // Idle or an error character: no whole frame.
                        self.inside = false;
                    }
                }
                done
            }
            NetWord::Gmii { data, enable, .. } => match (self.inside, enable) {
                (false, true) => {
                    self.begin(time);
                    self.byte(time, data);
                    None
                }
                (true, true) => {
                    self.byte(time, data);
                    None
                }
                (true, false) => self.end(PREAMBLE_BYTES + 1),
                (false, false) => None,
            },
        }
    }

    fn begin(&mut self, time: Picoseconds) {
        self.bytes.clear();
        self.first = time;
        self.inside = true;
    }

    fn byte(&mut self, time: Picoseconds, byte: u8) {
        if self.inside {
            self.bytes.push(byte);
            self.last = time;
        }
    }

    fn end(&mut self, preamble: usize) -> Option<Frame> {
        self.inside = false;
        let bytes = self.bytes.get(preamble..)?.to_vec();
        Some(Frame {
            bytes,
            first: self.first,
            last: self.last,
        })
    }
}

/// Shortest frame without its FCS.
const SHORTEST: usize = 60;
/// Idle bytes between frames at least.
const GAP_BYTES: usize = 12;
const IDLE: u8 = 0x07;
const PREAMBLE: u8 = 0x55;
const DELIMITER: u8 = 0xD5;

/// A frame (without FCS) as a MAC sends it: preamble, padding, FCS, and the gap behind it.
pub fn words(speed: NetSpeed, frame: &[u8]) -> Vec<NetWord> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(SHORTEST), 0);
    let fcs = wire::fcs(&frame);
    frame.extend(fcs);
    match speed {
        NetSpeed::TenGig => {
            let mut lanes = vec![(START, true)];
            lanes.extend([(PREAMBLE, false); PREAMBLE_BYTES - 1]);
            lanes.push((DELIMITER, false));
            lanes.extend(frame.into_iter().map(|byte| (byte, false)));
            lanes.push((TERMINATE, true));
            let end = (lanes.len() + GAP_BYTES - 1).next_multiple_of(8);
            lanes.resize(end, (IDLE, true));
            let word = |lanes: &[(u8, bool)]| NetWord::Xgmii {
                data: lanes.iter().rev().fold(0, |d, l| d << 8 | u64::from(l.0)),
                control: lanes.iter().rev().fold(0, |c, l| c << 1 | u8::from(l.1)),
            };
            lanes.chunks(8).map(word).collect()
        }
        NetSpeed::OneGig => {
            let preamble = [PREAMBLE; PREAMBLE_BYTES].into_iter().chain([DELIMITER]);
            let word = |data| NetWord::Gmii {
                data,
                enable: true,
                error: false,
            };
            let words = preamble.chain(frame).map(word);
            words.chain([speed.idle(); GAP_BYTES]).collect()
        }
    }
}

/// Offset of the UDP payload in the frames that the NIC builds.
const PAYLOAD: usize = wire::PAYLOAD_OFFSET;

/// Bit of the first byte of a compact payload that says that it is a control frame.
const CONTROL_BIT: u8 = 4;
/// UDP payload of a sealed control frame, which is shorter than any other.
const SEALED_CONTROL: usize = wire::CONTROL_BYTES + wire::seal::SEAL_BYTES;
/// Where the UDP length is in a frame.
const UDP_LENGTH: usize = 38;
/// Bytes of the UDP header.
const UDP_BYTES: usize = 8;

/// Whether the frame carries a store: compact, or tlp with a memory write. Of a sealed frame only the length is known:
/// between hosts that do nothing but store, what is longer than an acknowledgement is a store.
pub fn is_store(frame: &[u8]) -> bool {
    let udp = frame.get(12..14) == Some(&[8, 0])
        && frame.get(36..38) == Some(&wire::UDP_PORT.to_be_bytes());
    let Some(&[first, second]) = frame.get(PAYLOAD..PAYLOAD + 2) else {
        return false;
    };
    if !udp {
        return false;
    }
    if first == wire::SEAL_MAGIC {
        let length = usize::from(u16::from_be_bytes([
            frame[UDP_LENGTH],
            frame[UDP_LENGTH + 1],
        ]));
        return length > UDP_BYTES + SEALED_CONTROL;
    }
    if first >> 4 == wire::COMPACT_NIBBLE {
        return first & CONTROL_BIT == 0;
    }
    u16::from_be_bytes([first, second]) == wire::TLP_MAGIC
        && frame.get(PAYLOAD + wire::HEADER_BYTES) == Some(&wire::FMT_MWR64)
}

/// Whether the frame has these data in it, or hides what it has.
pub fn carries(frame: &[u8], data: Option<&[u8]>) -> bool {
    let (Some(payload), Some(data)) = (frame.get(PAYLOAD..), data) else {
        return false;
    };
    payload[0] == wire::SEAL_MAGIC || payload.windows(data.len()).any(|window| window == data)
}

/// Where the source address of an IPv4 packet is: what is before it changes from hop to hop.
const IP_SOURCE: usize = 26;
/// Bytes of the FCS.
pub const FCS_BYTES: usize = 4;

/// What routers leave as it is: a frame has the same on each of its cables.
pub fn flow_key(frame: &[u8]) -> &[u8] {
    let end = frame.len().saturating_sub(FCS_BYTES);
    frame.get(IP_SOURCE..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_back() {
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            for length in [14, 59, 60, 61, 62, 63, 64, 65, 66, 67, 1514] {
                let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
                let mut framer = Framer::default();
                let mut frames = Vec::new();
                // Twice, one right behind the other.
                let all = [words(speed, &bytes), words(speed, &bytes)].concat();
                for (index, word) in all.into_iter().enumerate() {
                    frames.extend(framer.word(Picoseconds(index as u64), word));
                }
                assert_eq!(frames.len(), 2);
                let (body, fcs) = frames[1].bytes.split_at(frames[1].bytes.len() - FCS_BYTES);
                assert_eq!(body[..length], bytes);
                assert_eq!(body.len(), length.max(SHORTEST));
                assert!(body[length..].iter().all(|byte| *byte == 0));
                assert_eq!(fcs, wire::fcs(body));
            }
        }
    }

    #[test]
    fn xgmii_in_both_start_lanes() {
        for lead in [0, 4] {
            let mut stream: Vec<(u8, bool)> = vec![(7, true); lead];
            stream.push((START, true));
            stream.extend([(0x55, false); 6]);
            stream.push((0xD5, false));
            stream.extend((0..61).map(|byte| (byte, false)));
            stream.push((TERMINATE, true));
            stream.resize(stream.len().next_multiple_of(8), (7, true));
            let mut framer = Framer::default();
            let mut frames = Vec::new();
            for (index, lanes) in stream.chunks(8).enumerate() {
                let data = lanes.iter().rev().fold(0, |d, l| d << 8 | u64::from(l.0));
                let control = lanes.iter().rev().fold(0, |c, l| c << 1 | u8::from(l.1));
                let word = NetWord::Xgmii { data, control };
                frames.extend(framer.word(Picoseconds(index as u64), word));
            }
            assert_eq!(frames.len(), 1);
            assert_eq!(frames[0].bytes, (0..61).collect::<Vec<u8>>());
            assert_eq!(frames[0].first, Picoseconds(0));
            assert_eq!(frames[0].last.0 as usize, (lead + 8 + 61 - 1) / 8);
        }
    }
}
