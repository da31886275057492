// SPDX-License-Identifier: Apache-2.0
//! Other NICs, as configurations of several back ends name them, and what their tokens have in common.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A MAC address, written `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// As the registers have it: the first byte on the wire in bits 47:40.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
            .iter()
            .fold(0, |bits, byte| bits << 8 | u64::from(*byte))
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            *byte = parts
                .next()
                .filter(|part| part.len() == 2)
                .and_then(|part| u8::from_str_radix(part, 16).ok())
                .ok_or_else(|| not_a_mac(text))?;
        }
        if parts.next().is_some() {
            return Err(not_a_mac(text));
        }
        Ok(Self(bytes))
    }
}

fn not_a_mac(text: &str) -> String {
    format!("{text:?} is not a MAC address; write it as 02:00:00:00:00:01")
}

impl TryFrom<String> for MacAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(mac: MacAddress) -> Self {
        mac.to_string()
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// `[[pcie.peer]]`, `[[rack.peer]]`: another NIC, and the session with it. Both ends name the same epoch and start, and each other's
/// numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its MAC address; with `[rack]` it may be left out where the kernel knows it.
    #[serde(default)]
    pub mac: MacAddress,
    /// Our number of the session, from 1 on.
    pub session: u8,
    /// Its number of the session.
    pub peer_session: u8,
    /// Epoch of the session, below 64: another one whenever either side begins anew.
    pub epoch: u8,
    /// Sequence number of the first frame, both ways. A number that nobody knows keeps those out who cannot see the session's frames.
    #[serde(default)]
    pub start: u32,
}

/// The netmask of so many bits, as a number.
#[must_use]
pub fn netmask(network_bits: u8) -> u32 {
    u32::MAX
        .checked_shl(32 - u32::from(network_bits.min(32)))
        .unwrap_or(0)
}

/// Says what can't be: numbers out of range, or twice.
///
/// # Errors
/// A sentence about the first mistake.
pub fn check(network_bits: u8, peers: &[PeerConfig]) -> Result<(), String> {
    if network_bits > 32 {
        return Err(format!(
            "network_bits is {}, but an IPv4 address has 32 bits",
            network_bits
        ));
    }
    for (index, peer) in peers.iter().enumerate() {
        if peer.session == 0 || peer.epoch >= 64 {
            return Err(format!(
                "peer {}: session {} and epoch {} must be at least 1 and at most 63",
                peer.address, peer.session, peer.epoch
            ));
        }
        let twice =
            |other: &PeerConfig| other.session == peer.session || other.address == peer.address;
        if peers[..index].iter().any(twice) {
            return Err(format!(
                "peer {} or session {} is there twice; each peer has one address and one session",
                peer.address, peer.session
            ));
        }
    }
    Ok(())
}

/// The tag of a region's frames, from its token's secret: 12 bits, not 0, which frames without a region have.
pub(super) fn tag_of(secret: &[u8; 16]) -> u16 {
    u16::from_le_bytes([secret[0], secret[1]]) % 0xFFF + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_gives_the_tag_of_frames_without_a_region() {
        for word in 0..=u16::MAX {
            let mut secret = [0; 16];
            secret[..2].copy_from_slice(&word.to_le_bytes());
            assert!((1..=0xFFF).contains(&tag_of(&secret)));
        }
    }
}
