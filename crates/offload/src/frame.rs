// SPDX-License-Identifier: Apache-2.0
//! IPv4 packets with TCP in them: what a header says, whether the checksums are right, and how they are written.

/// Flags of a TCP header.
pub mod flags {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// The first sequence number.
    pub const SYN: u8 = 0x02;
    /// The connection is gone.
    pub const RST: u8 = 0x04;
    /// The acknowledgement counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
}

const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const TTL: u8 = 64;
/// Greatest shift of a window (RFC 7323); more is taken as this.
const MOST_SCALE: u8 = 14;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Socket {
    /// IPv4 address.
    pub address: [u8; 4],
    /// Port.
    pub port: u16,
}

/// Options that are understood; others are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Greatest segment that the other end takes.
    pub mss: Option<u16>,
    /// Shift of windows.
    pub scale: Option<u8>,
    /// SACK blocks may be sent.
    pub sack_permitted: bool,
    /// What is there behind gaps.
    pub sack: Vec<(u32, u32)>,
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sender.
    pub from: Socket,
    /// Receiver.
    pub to: Socket,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement.
    pub ack: u32,
    /// Of [`flags`].
    pub flags: u8,
    /// As it stands there, without shift.
    pub window: u16,
    /// Options.
    pub options: TcpOptions,
}

impl Header {
    /// Whether any of these flags is set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// What an analyzer knows of a packet's header, and where its payload begins and ends; nothing if it is no TCP.
///
/// Checksums are not looked at: the header result comes before the payload has been read.
pub fn parse(packet: &[u8]) -> Option<(Header, std::ops::Range<usize>)> {
    let byte = |at: usize| packet.get(at).copied();
    let word = |at: usize| Some(u16::from_be_bytes([byte(at)?, byte(at + 1)?]));
    let double = |at: usize| Some(u32::from(word(at)?) << 16 | u32::from(word(at + 2)?));
    let version = byte(0)?;
    let ip = usize::from(version & 15) * 4;
    let total = usize::from(word(2)?);
    // A fragment has no whole segment.
    let is_fragment = word(6)? & 0x3FFF != 0;
    if version >> 4 != 4 || ip < IP_HEADER || is_fragment || byte(9)? != PROTOCOL_TCP {
        return None;
    }
    let offset = usize::from(byte(ip + 12)? >> 4) * 4;
    if offset < TCP_HEADER || ip + offset > total || total > packet.len() {
        return None;
    }
    let address = |at: usize| packet.get(at..at + 4)?.try_into().ok();
    let header = Header {
        from: Socket {
            address: address(12)?,
            port: word(ip)?,
        },
        to: Socket {
            address: address(16)?,
            port: word(ip + 2)?,
        },
        seq: double(ip + 4)?,
        ack: double(ip + 8)?,
        flags: byte(ip + 13)?,
        window: word(ip + 14)?,
        options: options(packet.get(ip + TCP_HEADER..ip + offset)?),
    };
    Some((header, ip + offset..total))
}

/// Options at any alignment; a length that can't be ends them.
fn options(mut rest: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    while let [kind, after @ ..] = rest {
        match kind {
            0 => break,
            1 => {
                rest = after;
                continue;
            }
            _ => {}
        }
        let length = usize::from(after.first().copied().unwrap_or(0));
        let (Some(body), Some(next)) = (rest.get(2..length), rest.get(length..)) else {
            break;
        };
        match (kind, body) {
            (2, [high, low]) => options.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => options.scale = Some((*shift).min(MOST_SCALE)),
            (4, []) => options.sack_permitted = true,
            (5, blocks) if blocks.len() % 8 == 0 => {
                let edges = |b: &[u8]| {
                    let edge = |b: &[u8]| b.iter().fold(0, |sum, b| sum << 8 | u32::from(*b));
                    (edge(&b[..4]), edge(&b[4..]))
                };
                options.sack = blocks.chunks_exact(8).map(edges).collect();
            }
            _ => {}
        }
        rest = next;
    }
    options
}

/// The sum of the words in ones' complement.
fn sum(bytes: &[u8], start: u32) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    words.fold(start, |sum, word| {
        let sum = sum + word;
        (sum & 0xFFFF) + (sum >> 16)
    })
}

fn pseudo(packet: &[u8], length: usize) -> u32 {
    sum(&packet[12..20], u32::from(PROTOCOL_TCP) + length as u32)
}

/// Whether both checksums are right: the payload result.
pub fn is_good(packet: &[u8]) -> bool {
    let Some(ip) = packet.first().map(|first| usize::from(first & 15) * 4) else {
        return false;
    };
    if ip < IP_HEADER || packet.len() < ip + TCP_HEADER {
        return false;
    }
    let total = usize::from(packet[2]) << 8 | usize::from(packet[3]);
    if total > packet.len() || total < ip + TCP_HEADER {
        return false;
    }
    sum(&packet[..ip], 0) == 0xFFFF && sum(&packet[ip..total], pseudo(packet, total - ip)) == 0xFFFF
}

/// Writes a packet with right checksums.
pub fn emit(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some(mss) = header.options.mss {
        options.extend([2, 4]);
        options.extend(mss.to_be_bytes());
    }
    if let Some(scale) = header.options.scale {
        options.extend([1, 3, 3, scale]);
    }
    if header.options.sack_permitted {
        options.extend([1, 1, 4, 2]);
    }
    if !header.options.sack.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * header.options.sack.len() as u8]);
        for (from, to) in &header.options.sack {
            options.extend(from.to_be_bytes());
            options.extend(to.to_be_bytes());
        }
    }
    emit_with(header, &options, payload)
}

/// Writes a packet with these options as they are, padded to whole words.
pub fn emit_with(header: &Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let offset = TCP_HEADER + options.len().next_multiple_of(4);
    let total = (IP_HEADER + offset + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, TTL, PROTOCOL_TCP, 0, 0]);
    packet.extend(header.from.address);
    packet.extend(header.to.address);
    let check = !sum(&packet, 0) as u16;
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(header.from.port.to_be_bytes());
    packet.extend(header.to.port.to_be_bytes());
    packet.extend(header.seq.to_be_bytes());
    packet.extend(header.ack.to_be_bytes());
    packet.extend([((offset / 4) << 4) as u8, header.flags]);
    packet.extend(header.window.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(options);
    packet.resize(IP_HEADER + offset, 0);
    packet.extend(payload);
    let check = !sum(
        &packet[IP_HEADER..],
        pseudo(&packet, packet.len() - IP_HEADER),
    ) as u16;
    packet[IP_HEADER + 16..IP_HEADER + 18].copy_from_slice(&check.to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            from: Socket {
                address: [10, 0, 0, 1],
                port: 1234,
            },
            to: Socket {
                address: [10, 0, 0, 2],
                port: 80,
            },
            seq: 0xFFFF_FFF0,
            ack: 7,
            flags: flags::ACK,
            window: 500,
            options: TcpOptions {
                mss: Some(1460),
                scale: Some(3),
                sack_permitted: true,
                sack: vec![(1, 2), (3, 0xFFFF_FFFF)],
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let packet = emit(&header(), b"abc");
        let (read, payload) = parse(&packet).expect("it is TCP");
        assert_eq!((read, &packet[payload]), (header(), &b"abc"[..]));
        assert!(is_good(&packet));
    }

    #[test]
    fn every_bit_that_is_turned_is_found() {
        let packet = emit(&header(), b"abcde");
        for bit in 0..packet.len() * 8 {
            let mut changed = packet.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // The length of the header decides what is summed, and parsing looks at it.
            assert!(!is_good(&changed) || parse(&changed).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn options_at_any_alignment_and_wrong_lengths() {
        let parsed = |bytes: &[u8]| options(bytes);
        assert_eq!(parsed(&[1, 2, 4, 5, 6]).mss, Some(0x0506));
        assert_eq!(parsed(&[3, 3, 200]).scale, Some(MOST_SCALE));
        for wrong in [
            &[2][..],
            &[2, 0, 4, 2],
            &[2, 1, 4, 2],
            &[2, 40, 4, 2],
            &[254, 0],
        ] {
            assert_eq!(parsed(wrong), TcpOptions::default(), "{wrong:?}");
        }
        // Of a kind that is not known the length is believed.
        assert!(parsed(&[254, 4, 0, 0, 4, 2]).sack_permitted);
        assert_eq!(parsed(&[0, 4, 2]), TcpOptions::default());
    }
}
