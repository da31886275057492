// SPDX-License-Identifier: Apache-2.0
//! IPv4 fragmentation (RFC 791 section 3.2, RFC 1812 section 4.2.2.7).

use std::borrow::Cow;

use smoltcp::wire::Ipv4Packet;

/// Fixed part of the header.
const HEADER: usize = 20;
/// Fragments are in units of this many bytes.
const UNIT: usize = 8;
/// The option is to be in all fragments.
const COPIED: u8 = 0x80;

/// The packet, or what it is cut into to fit. The caller has seen that it may be cut.
pub(crate) fn fragments(bytes: &[u8], mtu: usize) -> Vec<Cow<'_, [u8]>> {
    if bytes.len() <= mtu {
        return vec![Cow::Borrowed(bytes)];
    }
    let Ok(packet) = Ipv4Packet::new_checked(bytes) else {
        return Vec::new();
    };
    let header = &bytes[..usize::from(packet.header_len())];
    let later = later_header(header);
    let (first_offset, more_behind) = (usize::from(packet.frag_offset()), packet.more_frags());
    let payload = packet.payload();

    let mut parts = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let header = if at == 0 { header } else { &later };
        let room = mtu.saturating_sub(header.len()) / UNIT * UNIT;
        if room == 0 {
            return Vec::new();
        }
        let rest = payload.len() - at;
        // The last one need not end at a unit.
        let take = if header.len() + rest <= mtu {
            rest
        } else {
            room
        };
        let mut part = [header, &payload[at..at + take]].concat();
        let length = part.len() as u16;
        let mut fragment = Ipv4Packet::new_unchecked(&mut part);
        fragment.set_total_len(length);
        fragment.set_more_frags(more_behind || take < rest);
        fragment.set_frag_offset((first_offset + at) as u16);
        fragment.fill_checksum();
        parts.push(Cow::Owned(part));
        at += take;
    }
    parts
}

/// The header of fragments behind the first: options without the copied flag are left out.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut later = header[..HEADER].to_vec();
    let mut at = HEADER;
    while at < header.len() {
        let len = match header[at] {
            0 => break,
            1 => 1,
            _ => header.get(at + 1).map_or(0, |&len| usize::from(len)),
        };
        let Some(option) = header.get(at..at + len).filter(|option| !option.is_empty()) else {
            break;
        };
        if option[0] & COPIED != 0 {
            later.extend_from_slice(option);
        }
        at += len;
    }
    later.resize(later.len().next_multiple_of(4), 0);
    later[0] = 0x40 | (later.len() / 4) as u8;
    later
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(options: &[u8], payload: usize, flags: u8) -> Vec<u8> {
        let header = HEADER + options.len();
        let mut bytes = vec![0; header];
        bytes[0] = 0x40 | (header / 4) as u8;
        bytes[6] = flags;
        bytes[8] = 64;
        bytes[9] = 17;
        bytes[12..16].copy_from_slice(&[10, 0, 0, 1]);
        bytes[16..20].copy_from_slice(&[10, 0, 0, 2]);
        bytes[HEADER..].copy_from_slice(options);
        bytes.extend((0..payload).map(|at| (at / 7) as u8));
        let length = bytes.len() as u16;
        let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
        packet.set_total_len(length);
        packet.fill_checksum();
        bytes
    }

    #[test]
    fn rfc791_fragments_add_up_to_the_packet() {
        for payload in [1480, 1481, 2960, 2961, 4000, 9178] {
            for mtu in [68, 576, 1499, 1500] {
                let whole = packet(&[], payload, 0);
                let mut together = Vec::new();
                let parts = fragments(&whole, mtu);
                for (number, part) in parts.iter().enumerate() {
                    assert!(part.len() <= mtu);
                    let part = Ipv4Packet::new_checked(&part[..]).unwrap();
                    assert!(part.verify_checksum());
                    assert_eq!(usize::from(part.frag_offset()), together.len());
                    assert_eq!(part.more_frags(), number + 1 != parts.len());
                    together.extend_from_slice(part.payload());
                }
                assert_eq!(together, whole[HEADER..], "{payload} by {mtu}");
            }
        }
    }

    #[test]
    fn a_fragment_of_a_fragment_keeps_its_place() {
        let mut whole = packet(&[], 1600, 0x20);
        whole[7] = 100; // offset 800
        let parts = fragments(&whole, 1000);
        let parts: Vec<_> = parts
            .iter()
            .map(|part| Ipv4Packet::new_checked(&part[..]).unwrap())
            .map(|part| (part.frag_offset(), part.more_frags()))
            .collect();
        assert_eq!(parts, [(800, true), (1776, true)]);
    }

    #[test]
    fn rfc791_options_are_copied_by_their_flag() {
        // No operation, record route (not copied), router alert (copied), end.
        let options = [1, 7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0];
        let parts = fragments(&packet(&options, 300, 0), 200)
            .iter()
            .map(|part| part.to_vec())
            .collect::<Vec<_>>();
        assert_eq!(parts[0][20..32], options);
        assert_eq!(parts[1][0], 0x46);
        assert_eq!(parts[1][20..24], [0x94, 4, 0, 0]);
        assert!(
            Ipv4Packet::new_checked(&parts[1][..])
                .unwrap()
                .verify_checksum()
        );
    }
}
