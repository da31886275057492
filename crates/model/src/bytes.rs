// SPDX-License-Identifier: Apache-2.0
//! Big-endian fields at known places. Callers have checked the length before.

#[inline]
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub fn be48(bytes: &[u8], at: usize) -> u64 {
    u64::from(be16(bytes, at)) << 32 | u64::from(be32(bytes, at + 2))
}

#[inline]
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Appends the low 48 bits.
#[inline]
pub fn put48(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes()[2..]);
}
