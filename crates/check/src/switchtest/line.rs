// SPDX-License-Identifier: Apache-2.0
//! What leaves a port, as frames, with everything that the standard asks of a sender checked.

use ipnuma_rtl::{NetSpeed, NetWord};
use wire::FCS_BYTES;

const IDLE: u8 = 0x07;
const START: u8 = 0xFB;
const TERMINATE: u8 = 0xFD;
const ERROR: u8 = 0xFE;
/// Begins an ordered set: a link fault.
const SEQUENCE: u8 = 0x9C;
const SEQUENCE_DATA: usize = 3;
const PREAMBLE_BYTES: usize = 8;
const LANES: usize = 8;
/// Fewest bytes from a terminate to the next start: 12 less what the deficit idle count may borrow.
const MIN_GAP_10G: usize = 9;
const MIN_GAP_1G: usize = 12;
const MIN_FRAME: usize = 64;

/// A frame on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireFrame {
    /// From the destination MAC to the last byte in front of the FCS.
    pub bytes: Vec<u8>,
    /// The FCS is spoiled, and the line says so.
    pub spoiled: bool,
    /// When its first preamble byte came, in bytes of the line's time.
    pub start: u64,
}

/// Makes frames of words.
#[derive(Debug)]
pub struct Decoder {
    speed: NetSpeed,
    in_frame: bool,
    bytes: Vec<u8>,
    /// Bytes of the frame that the line marks as errors.
    errors: usize,
    gap: usize,
    start: u64,
    /// Bytes that the line carried so far.
    now: u64,
    may_cut: bool,
    cut: Option<Vec<u8>>,
    /// Bytes of an ordered set that are still to come.
    sequence: usize,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new(speed: NetSpeed) -> Self {
        Self {
            speed,
            in_frame: false,
            bytes: Vec::new(),
            errors: 0,
            gap: usize::MAX / 2,
            start: 0,
            now: 0,
            may_cut: false,
            cut: None,
            sequence: 0,
        }
    }

    /// Whether a frame may end without its end, and link faults may be told: the sender is being reset, or has lost
    /// its link.
    pub fn set_may_cut(&mut self, may_cut: bool) {
        self.may_cut = may_cut;
    }

    /// The bytes behind the preamble of a frame that was cut, once: a receiver refuses it.
    pub fn take_cut(&mut self) -> Option<Vec<u8>> {
        self.cut.take()
    }

    fn cut_here(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.cut = Some(bytes.get(PREAMBLE_BYTES..).unwrap_or(&[]).to_vec());
        (self.in_frame, self.gap) = (false, 1);
    }

    /// Whether a frame has begun and not ended.
    pub fn in_frame(&self) -> bool {
        self.in_frame
    }

    /// Takes the word of a cycle; returns the frame that ends in it.
    #[inline]
    pub fn word(&mut self, word: NetWord) -> Result<Option<WireFrame>, String> {
        if !self.in_frame && word == self.speed.idle() {
            let bytes = match self.speed {
                NetSpeed::TenGig => LANES,
                NetSpeed::OneGig => 1,
            };
            self.gap = self.gap.saturating_add(bytes);
            self.now += bytes as u64;
            return Ok(None);
        }
        match word {
            NetWord::Xgmii { data, control } => self.xgmii(data, control),
            NetWord::Gmii {
                data,
                enable,
                error,
            } => self.gmii(data, enable, error),
        }
    }

    fn xgmii(&mut self, data: u64, control: u8) -> Result<Option<WireFrame>, String> {
        let mut frame = None;
        for lane in 0..LANES {
            let byte = (data >> (8 * lane)) as u8;
            let is_control = control >> lane & 1 == 1;
            match (self.in_frame, is_control, byte) {
                (false, true, IDLE) => self.gap = self.gap.saturating_add(1),
                (false, true, START) if lane % 4 == 0 => {
                    self.begin(MIN_GAP_10G)?;
                    self.bytes.push(byte);
                }
                (false, false, _) if self.sequence > 0 => {
                    self.sequence -= 1;
                    self.gap = self.gap.saturating_add(1);
                }
                (_, true, SEQUENCE) if self.may_cut && lane % 4 == 0 => {
                    if self.in_frame {
                        self.cut_here();
                    }
                    (self.sequence, self.gap) = (SEQUENCE_DATA, self.gap.saturating_add(1));
                }
                (true, true, IDLE) if self.may_cut => self.cut_here(),
                (true, false, _) => self.bytes.push(byte),
                (true, true, ERROR) => {
                    self.bytes.push(byte);
                    self.errors += 1;
                }
                (true, true, TERMINATE) => {
                    frame = Some(self.finish(START)?);
                }
                _ => {
                    return Err(format!(
                        "character {byte:#04x} in lane {lane} of {data:#018x}/{control:#04x}, \
                         after {} bytes of a frame",
                        self.bytes.len()
                    ));
                }
            }
            self.now += 1;
        }
        Ok(frame)
    }

    fn gmii(&mut self, data: u8, enable: bool, error: bool) -> Result<Option<WireFrame>, String> {
        let mut frame = None;
        if enable {
            if !self.in_frame {
                self.begin(MIN_GAP_1G)?;
            }
            self.bytes.push(data);
            self.errors += usize::from(error);
        } else if error {
            return Err("tx_er without tx_en".into());
        } else if self.in_frame {
            let bytes = self.may_cut.then(|| self.bytes.clone());
            match (self.finish(0x55), bytes) {
                (Ok(whole), _) => frame = Some(whole),
                // Nothing but the FCS tells a frame that was cut from a whole one.
                (Err(_), Some(bytes)) => {
                    self.bytes = bytes;
                    self.cut_here();
                }
                (Err(error), None) => return Err(error),
            }
        } else {
            self.gap = self.gap.saturating_add(1);
        }
        self.now += 1;
        Ok(frame)
    }

    fn begin(&mut self, min_gap: usize) -> Result<(), String> {
        if self.gap < min_gap {
            return Err(format!("a gap of {} bytes on the wire", self.gap));
        }
        (self.in_frame, self.start, self.errors) = (true, self.now, 0);
        Ok(())
    }

    fn finish(&mut self, first: u8) -> Result<WireFrame, String> {
        (self.in_frame, self.gap) = (false, 1);
        let bytes = std::mem::take(&mut self.bytes);
        let place = format!("a frame of {} bytes with its preamble", bytes.len());
        let preamble = [first, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xD5];
        let frame = bytes
            .strip_prefix(&preamble)
            .ok_or_else(|| format!("{place} begins {:02x?}", &bytes[..bytes.len().min(8)]))?;
        if frame.len() < MIN_FRAME {
            return Err(format!("{place} is too short"));
        }
        let (body, fcs) = frame.split_at(frame.len() - FCS_BYTES);
        let right = wire::fcs(body);
        let spoiled = self.errors > 0;
        // A spoiled frame ends with its FCS inverted; at 10G its last byte is an error character.
        let (compared, errors) = match self.speed {
            NetSpeed::TenGig => (FCS_BYTES - 1, 1),
            NetSpeed::OneGig => (FCS_BYTES, FCS_BYTES),
        };
        let as_must_be = if spoiled {
            let inverted = right.map(|byte| !byte);
            self.errors == errors && fcs[..compared] == inverted[..compared]
        } else {
            fcs == right
        };
        if !as_must_be {
            return Err(format!(
                "{place} has FCS {fcs:02x?} and {} errors where {right:02x?} is right: {body:02x?}",
                self.errors
            ));
        }
        Ok(WireFrame {
            bytes: body.to_vec(),
            spoiled,
            start: self.start,
        })
    }
}
