// SPDX-License-Identifier: Apache-2.0
//! The three checks of a frame.

use crc::{CRC_16_IBM_3740, CRC_32_ISCSI, CRC_32_ISO_HDLC, Crc};

static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_3740);
static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
static FCS: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// CRC-16/CCITT-FALSE, the end code of the `compact` format before the tag is folded in.
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    CRC16.checksum(bytes)
}

/// CRC-32C (Castagnoli), the end code of the `tlp` format before the tag is folded in.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    CRC32C.checksum(bytes)
}

/// The same over the source port of a frame of a session, big-endian, and then `bytes`.
#[must_use]
pub fn crc16_from(port: u16, bytes: &[u8]) -> u16 {
    let mut digest = CRC16.digest();
    digest.update(&port.to_be_bytes());
    digest.update(bytes);
    digest.finalize()
}

/// The same over the source port of a frame of a session, big-endian, and then `bytes`.
#[must_use]
pub fn crc32c_from(port: u16, bytes: &[u8]) -> u32 {
    let mut digest = CRC32C.digest();
    digest.update(&port.to_be_bytes());
    digest.update(bytes);
    digest.finalize()
}

/// The four bytes that Ethernet appends to `frame`, in the order they are sent.
#[must_use]
pub fn fcs(frame: &[u8]) -> [u8; 4] {
    FCS.checksum(frame).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_catalogue() {
        assert_eq!(crc16(b"123456789"), 0x29B1);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc16_from(0x3132, b"3456789"), 0x29B1);
        assert_eq!(crc32c_from(0x3132, b"3456789"), 0xE306_9283);
        assert_eq!(fcs(b"123456789"), 0xCBF4_3926_u32.to_le_bytes());
    }
}
