// SPDX-License-Identifier: Apache-2.0
//! Frames to words of the media interface and back, with every fault a line can have.

use std::collections::VecDeque;

use ipnuma_rtl::{NetSpeed, NetWord};
use model::LineFault;

const IDLE: u8 = 0x07;
const START: u8 = 0xFB;
const TERMINATE: u8 = 0xFD;
const ERROR: u8 = 0xFE;
const PREAMBLE: u8 = 0x55;
const SFD: u8 = 0xD5;
const FCS_BYTES: usize = 4;
const LANES: usize = 8;
/// Bytes of preamble at 10G, the start character and the delimiter included.
const PREAMBLE_BYTES: usize = 8;
/// Fewest bytes from a terminate to the next start: 12 less what the deficit idle count may borrow.
const MIN_GAP_10G: usize = 9;
const MIN_GAP_1G: usize = 12;

/// What is wrong with a frame on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// An error symbol instead of this byte.
    ErrorAt(usize),
    /// Idle instead of this byte and the rest; only at 10G.
    CutAt(usize),
    /// The start of the next frame instead of this byte, a multiple of four, and the rest; only at
    /// 10G. Idle if there is no next frame.
    CutByNext(usize),
    /// This byte of the preamble is wrong.
    BadPreamble(usize),
}

impl Fault {
    /// The fault in the model's terms.
    pub fn for_model(self) -> LineFault {
        match self {
            Self::None => LineFault::None,
            Self::ErrorAt(_) | Self::CutAt(_) | Self::CutByNext(_) => LineFault::Error,
            Self::BadPreamble(_) => LineFault::BadPreamble,
        }
    }
}

/// A frame that its sender's reset has cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutFrame {
    /// What is on the wire of it behind the preamble.
    pub bytes: Vec<u8>,
    /// It ends as a frame does, so that nothing but its FCS tells.
    pub ends: bool,
}

/// A frame on its way to the NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFrame {
    /// From the destination MAC to the FCS.
    pub bytes: Vec<u8>,
    /// What the line does to it.
    pub fault: Fault,
    /// Idle bytes in front of it, at least.
    pub gap: usize,
    /// 10G: the start is in lane 4.
    pub lane_4: bool,
    /// 1G: preamble bytes in front of the delimiter, 1 to 7.
    pub preamble: usize,
}

/// Makes words of frames.
#[derive(Debug)]
pub enum Encoder {
    /// 10G: lanes with their control bits, how many there were so far, modulo 8, and whether the
    /// next frame cuts the one before it.
    Xgmii(VecDeque<(u8, bool)>, usize, bool),
    /// 1G: byte, valid, error.
    Gmii(VecDeque<(u8, bool, bool)>),
}

impl Encoder {
    /// An idle line.
    pub fn new(speed: NetSpeed) -> Self {
        match speed {
            NetSpeed::TenGig => Self::Xgmii(VecDeque::new(), 0, false),
            NetSpeed::OneGig => Self::Gmii(VecDeque::new()),
        }
    }

    /// Bytes that wait, idle ones included.
    pub fn backlog(&self) -> usize {
        match self {
            Self::Xgmii(lanes, ..) => lanes.len(),
            Self::Gmii(bytes) => bytes.len(),
        }
    }

    /// Appends a frame.
    pub fn push(&mut self, frame: &LineFrame) {
        match self {
            Self::Xgmii(lanes, phase, cut) => push_xgmii(lanes, phase, cut, frame),
            Self::Gmii(bytes) => push_gmii(bytes, frame),
        }
    }

    /// The next word.
    pub fn word(&mut self) -> NetWord {
        match self {
            Self::Xgmii(lanes, phase, cut) => {
                if lanes.is_empty() {
                    *cut = false;
                    return NetSpeed::TenGig.idle();
                }
                let (mut data, mut control) = (0, 0);
                for lane in 0..LANES {
                    let (byte, is_control) = lanes.pop_front().unwrap_or_else(|| {
                        *phase = (*phase + 1) % LANES;
                        (IDLE, true)
                    });
                    data |= u64::from(byte) << (8 * lane);
                    control |= u8::from(is_control) << lane;
                }
                NetWord::Xgmii { data, control }
            }
            Self::Gmii(bytes) => {
                let (data, enable, error) = bytes.pop_front().unwrap_or((0, false, false));
                NetWord::Gmii {
                    data,
                    enable,
                    error,
                }
            }
        }
    }
}

fn push_xgmii(
    lanes: &mut VecDeque<(u8, bool)>,
    phase: &mut usize,
    cut: &mut bool,
    frame: &LineFrame,
) {
    let before = lanes.len();
    // Lanes of a frame that is to be cut here end at a lane where a frame may start.
    if !*cut || !phase.is_multiple_of(4) {
        lanes.extend(std::iter::repeat_n((IDLE, true), frame.gap));
        let wanted = if frame.lane_4 { 4 } else { 0 };
        while (*phase + lanes.len() - before) % LANES != wanted {
            lanes.push_back((IDLE, true));
        }
    }
    lanes.push_back((START, true));
    for index in 1..PREAMBLE_BYTES {
        let good = if index == PREAMBLE_BYTES - 1 {
            SFD
        } else {
            PREAMBLE
        };
        let wrong = frame.fault == Fault::BadPreamble(index);
        lanes.push_back((if wrong { !good } else { good }, false));
    }
    for (index, byte) in frame.bytes.iter().enumerate() {
        match frame.fault {
            Fault::ErrorAt(at) if at == index => lanes.push_back((ERROR, true)),
            Fault::CutAt(at) | Fault::CutByNext(at) if at == index => break,
            _ => lanes.push_back((*byte, false)),
        }
    }
    *cut = matches!(frame.fault, Fault::CutByNext(_));
    if !*cut && !matches!(frame.fault, Fault::CutAt(_)) {
        lanes.push_back((TERMINATE, true));
    }
    *phase = (*phase + lanes.len() - before) % LANES;
}

fn push_gmii(bytes: &mut VecDeque<(u8, bool, bool)>, frame: &LineFrame) {
    bytes.extend(std::iter::repeat_n((0, false, false), frame.gap));
    for index in 0..=frame.preamble {
        let good = if index == frame.preamble {
            SFD
        } else {
            PREAMBLE
        };
        // A wrong byte must not be the delimiter, or the frame would begin there.
        let wrong =
            matches!(frame.fault, Fault::BadPreamble(at) if at % (frame.preamble + 1) == index);
        bytes.push_back((if wrong { !good } else { good }, true, false));
    }
    for (index, byte) in frame.bytes.iter().enumerate() {
        let error = frame.fault == Fault::ErrorAt(index);
        bytes.push_back((*byte, true, error));
    }
}

/// Makes frames of words, and checks what the standard asks of a sender.
#[derive(Debug)]
pub struct Decoder {
    speed: NetSpeed,
    in_frame: bool,
    bytes: Vec<u8>,
    gap: usize,
    may_cut: bool,
    /// An error symbol stands in the frame.
    spoiled: bool,
    cut: Option<CutFrame>,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new(speed: NetSpeed) -> Self {
        Self {
            speed,
            in_frame: false,
            bytes: Vec::new(),
            gap: usize::MAX / 2,
            may_cut: false,
            spoiled: false,
            cut: None,
        }
    }

    /// Whether a frame may end without its end: its sender is being reset.
    pub fn set_may_cut(&mut self, may_cut: bool) {
        self.may_cut = may_cut;
    }

    /// A frame that was cut, once.
    pub fn take_cut(&mut self) -> Option<CutFrame> {
        self.cut.take()
    }

    /// A frame ends where it must not.
    fn cut_here(&mut self, ends: bool) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut bytes = bytes.get(PREAMBLE_BYTES..).unwrap_or(&[]).to_vec();
        if self.spoiled
            && let Some(last) = bytes.last_mut()
        {
            // Instead of the symbol: no receiver takes it for whole.
            *last = !*last;
        }
        self.spoiled = false;
        self.cut = Some(CutFrame { bytes, ends });
        (self.in_frame, self.gap) = (false, 1);
    }

    /// A frame ends as it should.
    fn end_here(&mut self, preamble: &[u8]) -> Result<Option<Vec<u8>>, String> {
        (self.in_frame, self.gap) = (false, 1);
        if !self.may_cut {
            return self.finish(preamble).map(Some);
        }
        if self.spoiled {
            self.cut_here(true);
            return Ok(None);
        }
        // Nothing but the FCS tells a frame that was cut from a whole one.
        let bytes = self.bytes.clone();
        Ok(self.finish(preamble).map(Some).unwrap_or_else(|_| {
            self.bytes = bytes;
            self.cut_here(true);
            None
        }))
    }

    /// Takes a word; returns a whole frame without FCS when one ends in it.
    pub fn word(&mut self, word: NetWord) -> Result<Option<Vec<u8>>, String> {
        match word {
            NetWord::Xgmii { data, control } => self.xgmii(data, control),
            NetWord::Gmii {
                data,
                enable,
                error,
            } => self.gmii(data, enable, error),
        }
    }

    fn xgmii(&mut self, data: u64, control: u8) -> Result<Option<Vec<u8>>, String> {
        if !self.in_frame && control == 0xFF && data == 0x0707_0707_0707_0707 {
            self.gap = self.gap.saturating_add(LANES);
            return Ok(None);
        }
        let mut frame = None;
        for lane in 0..LANES {
            let byte = (data >> (8 * lane)) as u8;
            let is_control = control >> lane & 1 == 1;
            match (self.in_frame, is_control, byte) {
                (false, true, IDLE) => self.gap = self.gap.saturating_add(1),
                (false, true, START) if lane % 4 == 0 => {
                    if self.gap < MIN_GAP_10G {
                        return Err(format!("a gap of {} bytes on the wire", self.gap));
                    }
                    self.in_frame = true;
                    self.bytes.push(byte);
                }
                (true, false, _) => self.bytes.push(byte),
                (true, true, TERMINATE) => {
                    let good = [START, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, SFD];
                    frame = self.end_here(&good)?;
                }
                (true, true, ERROR) if self.may_cut => {
                    self.bytes.push(byte);
                    self.spoiled = true;
                }
                (true, true, IDLE) if self.may_cut => self.cut_here(false),
                _ => {
                    return Err(format!(
                        "character {byte:#04x} in lane {lane} of {data:#018x}/{control:#04x}, \
                         after {} bytes of a frame",
                        self.bytes.len()
                    ));
                }
            }
        }
        Ok(frame)
    }

    fn gmii(&mut self, data: u8, enable: bool, error: bool) -> Result<Option<Vec<u8>>, String> {
        if error && !(enable && self.may_cut) {
            return Err("tx_er on the wire".to_owned());
        }
        if enable {
            self.spoiled |= error;
            if !self.in_frame && self.gap < MIN_GAP_1G {
                return Err(format!("a gap of {} bytes on the wire", self.gap));
            }
            self.in_frame = true;
            self.bytes.push(data);
            return Ok(None);
        }
        if !self.in_frame {
            self.gap = self.gap.saturating_add(1);
            return Ok(None);
        }
        self.end_here(&[0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, SFD])
    }

    fn finish(&mut self, preamble: &[u8]) -> Result<Vec<u8>, String> {
        let bytes = std::mem::take(&mut self.bytes);
        let place = format!("a frame of {} bytes with its preamble", bytes.len());
        let frame = bytes
            .strip_prefix(preamble)
            .ok_or_else(|| format!("{place} begins {:02x?}", &bytes[..bytes.len().min(8)]))?;
        if frame.len() < 64 {
            return Err(format!("{place} is too short"));
        }
        let (body, fcs) = frame.split_at(frame.len() - FCS_BYTES);
        if wire::fcs(body) != fcs {
            return Err(format!("{place} has FCS {fcs:02x?}: {body:02x?}"));
        }
        Ok(body.to_vec())
    }

    /// The line rate.
    pub fn speed(&self) -> NetSpeed {
        self.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_line() {
        for speed in [NetSpeed::TenGig, NetSpeed::OneGig] {
            let mut encoder = Encoder::new(speed);
            let mut decoder = Decoder::new(speed);
            let mut sent = Vec::new();
            for (length, lane_4) in (60..90).zip([false, true, true, false, true].iter().cycle()) {
                let mut bytes: Vec<u8> = (0..length).collect();
                sent.push(bytes.clone());
                bytes.extend_from_slice(&wire::fcs(&bytes));
                encoder.push(&LineFrame {
                    bytes,
                    fault: Fault::None,
                    gap: 12,
                    lane_4: *lane_4,
                    preamble: 7,
                });
            }
            let mut received = Vec::new();
            while encoder.backlog() > 0 {
                let word = encoder.word();
                received.extend(decoder.word(word).expect("sound frames"));
            }
            received.extend(decoder.word(encoder.word()).expect("sound frames"));
            assert_eq!(sent, received);
        }
    }
}
