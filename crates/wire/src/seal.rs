// SPDX-License-Identifier: Apache-2.0
//! Sealed payloads: AES-128-GCM around a whole payload of a session.
//!
//! A sealed payload is 8 bytes in the clear (0xA0, the phase of the key, the packet number in 48 bits), the encrypted
//! payload, and a tag of 16 bytes. The nonce is salt, packet number and source port; the bytes in the clear are authenticated too.
//!
//! ```
//! use wire::seal::{Sealer, SealError};
//!
//! let sealer = Sealer::new([7; 16], [1, 2, 3, 4]);
//! let sealed = sealer.seal(b"a payload", 1, 0xC105)?;
//! assert_eq!(sealed.len(), 8 + 9 + 16);
//! assert_eq!(sealer.open(&sealed, 0xC105)?, (1, b"a payload".to_vec()));
//! assert_eq!(sealer.open(&sealed, 0xC106), Err(SealError::Forged));
//! # Ok::<(), SealError>(())
//! ```
//!
//! What it does not do: remember packet numbers. A number that is used twice with a key gives both payloads away, and
//! a receiver that does not compare them takes old frames again.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::format::{
    MIN_FRAME_BYTES, PAYLOAD_OFFSET, SEAL_HEADER, SEAL_HEADER_BYTES, SEAL_MAGIC, SEAL_TAG_BYTES,
};
use crate::frame::seal_ip;
use crate::layout::Span;

const S_MAGIC: Span = SEAL_HEADER.span("magic");
const S_PHASE: Span = SEAL_HEADER.span("phase");
const S_HIGH: Span = SEAL_HEADER.span("packet_high");
const S_LOW: Span = SEAL_HEADER.span("packet_low");

/// Bytes that a seal adds to a payload.
pub const SEAL_BYTES: usize = SEAL_HEADER_BYTES + SEAL_TAG_BYTES;
/// Highest packet number.
pub const LAST_PACKET: u64 = (1 << 48) - 1;

/// Why a payload can't be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Not a sealed payload, or shorter than a seal.
    #[error(
        "a payload of {0} bytes is not sealed: it must begin with 0xA0 and 0x00 or 0x01, and have 25 bytes or more"
    )]
    NotSealed(usize),
    /// The tag is wrong.
    #[error(
        "the seal is broken: the payload was altered, or sealed with another key, number or source port"
    )]
    Forged,
    /// Packet numbers have 48 bits.
    #[error("packet number {0} does not fit 48 bits; agree on a new key")]
    Exhausted(u64),
    /// The frame ends inside its headers, or its lengths contradict each other.
    #[error("a frame of {0} bytes has no payload to seal or open")]
    NoPayload(usize),
}

/// Seals payloads, and opens them, with one key.
#[derive(Clone)]
pub struct Sealer {
    cipher: LessSafeKey,
    salt: [u8; 4],
    phase: Phase,
}

/// Which of the two keys that a receiver may have at a time: they alternate, the first key of a session is `false`.
pub type Phase = bool;

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer { .. }")
    }
}

/// The phase of a sealed payload's key, and its packet number under that key; `None` if it is not one.
#[must_use]
pub fn packet_number(payload: &[u8]) -> Option<(Phase, u64)> {
    let sealed = payload.len() > SEAL_BYTES && payload[0] == SEAL_MAGIC && payload[1] <= 1;
    sealed.then(|| {
        let phase = S_PHASE.get(payload) == 1;
        (phase, S_HIGH.get(payload) << 32 | S_LOW.get(payload))
    })
}

impl Sealer {
    /// With this key and the first four bytes of the nonces, for phase 0.
    #[must_use]
    pub fn new(key: [u8; 16], salt: [u8; 4]) -> Self {
        Self {
            cipher: cipher(&key),
            salt,
            phase: false,
        }
    }

    /// The same as the key of a phase.
    #[must_use]
    pub fn in_phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    fn nonce(&self, header: &[u8], port: u16) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..10].copy_from_slice(&header[2..8]);
        nonce[10..].copy_from_slice(&port.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals in place: `room` is 8 bytes of any value, the payload, and 16 bytes of any value.
    fn seal_room(&self, room: &mut [u8], packet: u64, port: u16) {
        let (header, rest) = room.split_at_mut(SEAL_HEADER_BYTES);
        let (inner, tag) = rest.split_at_mut(rest.len() - SEAL_TAG_BYTES);
        header.fill(0);
        S_MAGIC.put(header, u64::from(SEAL_MAGIC));
        S_PHASE.put(header, self.phase.into());
        S_HIGH.put(header, packet >> 32);
        S_LOW.put(header, packet);
        let nonce = self.nonce(header, port);
        let sealed = self
            .cipher
            .seal_in_place_separate_tag(nonce, Aad::from(&*header), inner)
            .expect("AES-GCM takes payloads of a frame's size");
        tag.copy_from_slice(sealed.as_ref());
    }

    /// Opens in place; the payload stands between the header and the tag afterwards.
    fn open_room(&self, room: &mut [u8], port: u16) -> Result<u64, SealError> {
        let (phase, packet) = packet_number(room).ok_or(SealError::NotSealed(room.len()))?;
        if phase != self.phase {
            return Err(SealError::Forged);
        }
        let (header, rest) = room.split_at_mut(SEAL_HEADER_BYTES);
        let nonce = self.nonce(header, port);
        self.cipher
            .open_in_place(nonce, Aad::from(&*header), rest)
            .map_err(|_| SealError::Forged)?;
        Ok(packet)
    }

    /// The sealed form of a UDP payload: 24 bytes more.
    ///
    /// # Errors
    /// If the packet number has more than 48 bits.
    pub fn seal(&self, payload: &[u8], packet: u64, port: u16) -> Result<Vec<u8>, SealError> {
        if packet > LAST_PACKET {
            return Err(SealError::Exhausted(packet));
        }
        let mut out = vec![0; SEAL_HEADER_BYTES];
        out.extend_from_slice(payload);
        out.resize(out.len() + SEAL_TAG_BYTES, 0);
        self.seal_room(&mut out, packet, port);
        Ok(out)
    }

    /// Packet number and payload of a sealed payload.
    ///
    /// # Errors
    /// If it is not sealed, or not by this key for this source port.
    pub fn open(&self, payload: &[u8], port: u16) -> Result<(u64, Vec<u8>), SealError> {
        let mut room = payload.to_vec();
        let packet = self.open_room(&mut room, port)?;
        room.truncate(room.len() - SEAL_TAG_BYTES);
        room.drain(..SEAL_HEADER_BYTES);
        Ok((packet, room))
    }

    /// Seals a frame (without FCS) in place: payload, lengths and IPv4 checksum.
    ///
    /// # Errors
    /// If the packet number has more than 48 bits, or the frame no payload.
    pub fn seal_frame(&self, frame: &mut Vec<u8>, packet: u64) -> Result<(), SealError> {
        if packet > LAST_PACKET {
            return Err(SealError::Exhausted(packet));
        }
        let (end, port) = payload_end(frame)?;
        frame.resize(end, 0);
        frame.splice(PAYLOAD_OFFSET..PAYLOAD_OFFSET, [0; SEAL_HEADER_BYTES]);
        frame.resize(frame.len() + SEAL_TAG_BYTES, 0);
        self.seal_room(&mut frame[PAYLOAD_OFFSET..], packet, port);
        set_lengths(frame);
        Ok(())
    }

    /// Opens a sealed frame (without FCS) in place and returns its packet number. A frame that does not open is left in
    /// no particular state.
    ///
    /// # Errors
    /// If it is not sealed, or not by this key for this source port.
    pub fn open_frame(&self, frame: &mut Vec<u8>) -> Result<u64, SealError> {
        let (end, port) = payload_end(frame)?;
        frame.truncate(end);
        let packet = self.open_room(&mut frame[PAYLOAD_OFFSET..], port)?;
        frame.truncate(end - SEAL_TAG_BYTES);
        frame.drain(PAYLOAD_OFFSET..PAYLOAD_OFFSET + SEAL_HEADER_BYTES);
        set_lengths(frame);
        Ok(packet)
    }
}

fn cipher(key: &[u8; 16]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).expect("AES-128 takes keys of 16 bytes"))
}

/// End of the UDP payload in a frame, and the source port.
fn payload_end(frame: &[u8]) -> Result<(usize, u16), SealError> {
    let none = SealError::NoPayload(frame.len());
    if frame.len() < MIN_FRAME_BYTES {
        return Err(none);
    }
    let end = 34 + usize::from(u16::from_be_bytes([frame[38], frame[39]]));
    if end <= PAYLOAD_OFFSET || end > frame.len() {
        return Err(none);
    }
    Ok((end, u16::from_be_bytes([frame[34], frame[35]])))
}

/// Sets the IP and UDP lengths to those of a frame without padding, then pads it.
fn set_lengths(frame: &mut Vec<u8>) {
    let udp = (frame.len() - 34) as u16;
    frame[16..18].copy_from_slice(&(udp + 20).to_be_bytes());
    frame[38..40].copy_from_slice(&udp.to_be_bytes());
    seal_ip(frame);
    frame.resize(frame.len().max(MIN_FRAME_BYTES), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits"))
            .collect()
    }

    /// A published vector (test case 4 of the GCM specification by McGrew and Viega) fixes cipher and tag.
    #[test]
    fn the_cipher_is_aes_128_gcm() {
        let key = bytes("feffe9928665731c6d6a8f9467308308");
        let key = key.try_into().expect("16 bytes");
        let nonce = bytes("cafebabefacedbaddecaf888");
        let nonce = Nonce::try_assume_unique_for_key(&nonce).expect("12 bytes");
        let mut text = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let clear = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let tag = cipher(&key)
            .seal_in_place_separate_tag(nonce, Aad::from(clear), &mut text)
            .expect("a short text");
        assert_eq!(
            text,
            bytes(
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
            )
        );
        assert_eq!(*tag.as_ref(), bytes("5bc94fbc3221a5db94fae95ae7121a47")[..]);
    }

    #[test]
    fn header_and_nonce_are_where_the_document_has_them() {
        let sealer = Sealer::new([9; 16], [0xA, 0xB, 0xC, 0xD]);
        let sealed = sealer
            .seal(&[1, 2, 3], 0x0102_0304_0506, 0xC2FE)
            .expect("a number of 48 bits");
        assert_eq!(sealed[..8], [0xA0, 0, 1, 2, 3, 4, 5, 6]);
        let nonce = [0xA, 0xB, 0xC, 0xD, 1, 2, 3, 4, 5, 6, 0xC2, 0xFE];
        let mut text = sealed[8..].to_vec();
        let opened = cipher(&[9; 16])
            .open_in_place(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(&sealed[..8]),
                &mut text,
            )
            .expect("sealed with this nonce");
        assert_eq!(opened, [1, 2, 3]);
        let next = sealer.clone().in_phase(true);
        let other = next.seal(&[1, 2, 3], 7, 0xC2FE).expect("48 bits");
        assert_eq!(other[..8], [0xA0, 1, 0, 0, 0, 0, 0, 7]);
        assert_eq!(packet_number(&other), Some((true, 7)));
        assert_eq!(next.open(&other, 0xC2FE), Ok((7, vec![1, 2, 3])));
        assert_eq!(sealer.open(&other, 0xC2FE), Err(SealError::Forged));
        let mut third = other;
        third[1] = 2;
        assert_eq!(packet_number(&third), None);
        assert_eq!(
            sealer.seal(&[1], 1 << 48, 0),
            Err(SealError::Exhausted(1 << 48))
        );
        assert_eq!(sealer.open(&sealed[..24], 0), Err(SealError::NotSealed(24)));
    }

    proptest! {
        #[test]
        fn any_flipped_bit_breaks_the_seal(
            payload in prop::collection::vec(any::<u8>(), 1..300),
            packet in 0..=LAST_PACKET,
            port in any::<u16>(),
            at in any::<prop::sample::Index>(),
        ) {
            let sealer = Sealer::new([3; 16], [1; 4]);
            let mut sealed = sealer.seal(&payload, packet, port)?;
            prop_assert_eq!(sealer.open(&sealed, port)?, (packet, payload));
            let bit = at.index(8 * sealed.len());
            sealed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(sealer.open(&sealed, port).is_err());
        }

        #[test]
        fn random_bytes_never_panic(mut frame in prop::collection::vec(any::<u8>(), 0..200)) {
            let sealer = Sealer::new([3; 16], [1; 4]);
            prop_assert!(sealer.open(&frame, 0).is_err());
            prop_assert!(sealer.open_frame(&mut frame).is_err());
        }
    }
}
