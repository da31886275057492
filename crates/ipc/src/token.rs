// SPDX-License-Identifier: Apache-2.0
//! The 64 bytes with which a server lets a requester use a range of its memory.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | `IPNT` |
//! | 4 | version, 1 |
//! | 5 | rights: 1 read, 2 write |
//! | 8..12 | IPv4 address of the server's daemon for other machines, or 0 |
//! | 12..14 | its TCP port, big-endian |
//! | 16..24 | region, little-endian |
//! | 24..32 | first byte of the range, little-endian |
//! | 32..40 | bytes of the range, little-endian |
//! | 40..56 | secret |
//! | 60..64 | CRC-32C of bytes 0..60, little-endian |
//!
//! All other bytes are zero. A token is a capability: whoever has it can use it, so it travels as a password does.
//! The check sum tells a damaged token from a refused one; what protects the range is the secret, which the daemon
//! compares.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

/// Bytes of a token.
pub const BYTES: usize = 64;

const MAGIC: &[u8; 4] = b"IPNT";
const VERSION: u8 = 1;

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rights {
    /// Load.
    Read = 1,
    /// Store. (Over memory of the same machine it can be loaded, too: mappings that are only written do not exist.)
    Write = 2,
    /// Load and store.
    ReadWrite = 3,
}

impl Rights {
    /// From the bits of a token: 1 read, 2 write.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            1 => Some(Rights::Read),
            2 => Some(Rights::Write),
            3 => Some(Rights::ReadWrite),
            _ => None,
        }
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether it includes loads.
    #[must_use]
    pub const fn can_read(self) -> bool {
        self.bits() & 1 != 0
    }

    /// Whether it includes stores.
    #[must_use]
    pub const fn can_write(self) -> bool {
        self.bits() & 2 != 0
    }
}

/// Why bytes are no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not 64 bytes.
    #[error(
        "it has {0} bytes instead of 64; pass on all that the server exported, and nothing else"
    )]
    Length(usize),
    /// Does not begin as one.
    #[error(
        "it does not begin with IPNT; pass on the bytes that the server exported, and no text of them"
    )]
    Magic,
    /// Of another version.
    #[error(
        "it is of version {0}, and this library knows version 1; install the same IP-NUMA on both machines"
    )]
    Version(u8),
    /// Damaged on the way.
    #[error("its check sum is wrong, so it was damaged on the way; fetch it again")]
    Checksum,
    /// Rights that there are not.
    #[error(
        "its rights are {0}, where 1 (read), 2 (write) and 3 (both) exist; have it exported anew"
    )]
    Rights(u8),
    /// Something in bytes that are zero.
    #[error("its byte {0} must be zero; have it exported anew")]
    Reserved(usize),
    /// A range that has no bytes or ends beyond the last address.
    #[error("its range of {bytes} bytes from {first} on does not exist; have it exported anew")]
    Range {
        /// Begin of the range.
        first: u64,
        /// Its length.
        bytes: u64,
    },
}

/// A token; see the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Token {
    /// What it allows.
    pub rights: Rights,
    /// Where the server's daemon listens for other machines' daemons; 0.0.0.0:0 if it does not.
    pub management: SocketAddrV4,
    /// The region, as its daemon numbers them.
    pub region: u64,
    /// First byte of the range.
    pub first: u64,
    /// Bytes of the range.
    pub bytes: u64,
    /// What makes it this token and no other.
    pub secret: [u8; 16],
}

impl Token {
    /// The 64 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..4].copy_from_slice(MAGIC);
        out[4] = VERSION;
        out[5] = self.rights.bits();
        out[8..12].copy_from_slice(&self.management.ip().octets());
        out[12..14].copy_from_slice(&self.management.port().to_be_bytes());
        out[16..24].copy_from_slice(&self.region.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.to_le_bytes());
        out[32..40].copy_from_slice(&self.bytes.to_le_bytes());
        out[40..56].copy_from_slice(&self.secret);
        let sum = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the 64 bytes.
    ///
    /// # Errors
    /// If they are no token.
    pub fn parse(from: &[u8]) -> Result<Self, TokenError> {
        let from: &[u8; BYTES] = from
            .try_into()
            .map_err(|_| TokenError::Length(from.len()))?;
        if &from[..4] != MAGIC {
            return Err(TokenError::Magic);
        }
        if from[4] != VERSION {
            return Err(TokenError::Version(from[4]));
        }
        if crc32c::crc32c(&from[..60]) != u32::from_le_bytes(field(from, 60)) {
            return Err(TokenError::Checksum);
        }
        let rights = Rights::from_bits(from[5]).ok_or(TokenError::Rights(from[5]))?;
        for at in [6, 7, 14, 15, 56, 57, 58, 59] {
            if from[at] != 0 {
                return Err(TokenError::Reserved(at));
            }
        }
        let [first, bytes] = [24, 32].map(|at| u64::from_le_bytes(field(from, at)));
        if bytes == 0 || first.checked_add(bytes).is_none() {
            return Err(TokenError::Range { first, bytes });
        }
        Ok(Self {
            rights,
            management: SocketAddrV4::new(
                Ipv4Addr::from(field::<4>(from, 8)),
                u16::from_be_bytes(field(from, 12)),
            ),
            region: u64::from_le_bytes(field(from, 16)),
            first,
            bytes,
            secret: field(from, 40),
        })
    }
}

/// `N` bytes from `at` on; callers stay inside.
fn field<const N: usize>(from: &[u8; BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| from[at + index])
}

impl TryFrom<Vec<u8>> for Token {
    type Error = TokenError;

    fn try_from(from: Vec<u8>) -> Result<Self, TokenError> {
        Self::parse(&from)
    }
}

impl From<Token> for Vec<u8> {
    fn from(token: Token) -> Self {
        token.to_bytes().to_vec()
    }
}

impl fmt::Debug for Token {
    // The secret stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("rights", &self.rights)
            .field("management", &self.management)
            .field("region", &self.region)
            .field("first", &self.first)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
