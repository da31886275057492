// SPDX-License-Identifier: Apache-2.0
//! The headers around a payload, for transports that carry payloads only.

use wire::{MIN_FRAME_BYTES, PAYLOAD_OFFSET, UDP_PORT, seal_ip};

use crate::transport::Identity;

/// Source port, destination address and payload of a frame of the NIC; `None` for other frames than UDP ones to port
/// 3422, which a payload can't stand for (the NIC's answers to ARP).
pub fn strip(frame: &[u8]) -> Option<(u16, u32, &[u8])> {
    let be16 = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    if frame.len() < MIN_FRAME_BYTES || be16(12) != 0x0800 || frame[23] != 17 {
        return None;
    }
    let end = 14 + usize::from(be16(16));
    let payload = frame.get(PAYLOAD_OFFSET..end)?;
    let to = u32::from_be_bytes([frame[30], frame[31], frame[32], frame[33]]);
    (be16(36) == UDP_PORT).then_some((be16(34), to, payload))
}

/// A MAC address that stands for an IPv4 address where frames have none.
pub const fn mac_of(ip: u32) -> u64 {
    0x0200_0000_0000 | ip as u64
}

/// Puts headers around a payload that came in a datagram.
pub fn rebuild(frame: &mut Vec<u8>, me: Identity, from: (u32, u16), payload: &[u8]) {
    let (ip, port) = from;
    let udp = payload.len() as u16 + 8;
    frame.clear();
    frame.extend_from_slice(&me.mac.to_be_bytes()[2..]);
    frame.extend_from_slice(&mac_of(ip).to_be_bytes()[2..]);
    frame.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame.extend_from_slice(&(udp + 20).to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend_from_slice(&ip.to_be_bytes());
    frame.extend_from_slice(&me.ip.to_be_bytes());
    frame.extend_from_slice(&port.to_be_bytes());
    frame.extend_from_slice(&UDP_PORT.to_be_bytes());
    frame.extend_from_slice(&udp.to_be_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(payload);
    if frame.len() < MIN_FRAME_BYTES {
        frame.resize(MIN_FRAME_BYTES, 0);
    }
    seal_ip(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stripped_is_rebuilt() {
        let me = Identity {
            mac: mac_of(0x0A00_0001),
            ip: 0x0A00_0001,
        };
        for length in [10, 18, 19, 256] {
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut frame = Vec::new();
            rebuild(&mut frame, me, (0x0A00_0002, 0xC102), &payload);
            let view = wire::FrameView::new(&frame).expect("a frame");
            assert!(view.is_ipnuma() && view.ip_checksum_ok());
            assert_eq!(view.payload().expect("a payload"), payload);
            assert_eq!(strip(&frame), Some((0xC102, me.ip, &payload[..])));
        }
    }

    #[test]
    fn other_frames_have_no_payload() {
        let mut arp = vec![0; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(strip(&arp), None);
        assert_eq!(strip(&[0; 20]), None);
        let me = Identity { mac: 1, ip: 2 };
        let mut frame = Vec::new();
        rebuild(&mut frame, me, (3, 4), &[0; 10]);
        frame[16..18].copy_from_slice(&[0xFF, 0xFF]);
        assert_eq!(strip(&frame), None, "longer than it is");
        frame[16..18].copy_from_slice(&[0, 5]);
        assert_eq!(strip(&frame), None, "shorter than its headers");
    }
}
