// SPDX-License-Identifier: Apache-2.0
//! What the board needs to know: `[pcie]` in the configuration.

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

/// How the board reaches memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Through an IOMMU that VFIO programs: the function is bound to `vfio-pci`.
    #[default]
    Vfio,
    /// Physical addresses of huge pages, from `/proc/self/pagemap`: root, no IOMMU.
    Hugepages,
}

/// `[pcie]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieConfig {
    /// The function, as in `/sys/bus/pci/devices`: `0000:01:00.0`.
    pub device: String,
    /// Own IPv4 address.
    pub address: Ipv4Addr,
    /// Bits of the network in the address.
    #[serde(default = "network_bits")]
    pub network_bits: u8,
    /// Own MAC address.
    pub mac: MacAddress,
    /// MAC address of the gateway to other networks.
    #[serde(default)]
    pub gateway_mac: MacAddress,
    /// How the board reaches memory.
    #[serde(default)]
    pub memory: MemoryKind,
    /// Other boards.
    #[serde(default, rename = "peer")]
    pub peers: Vec<PeerConfig>,
}

fn network_bits() -> u8 {
    24
}

/// `[[pcie.peer]]`: another board, and the session with it. Both ends name the same epoch and each other's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its MAC address.
    pub mac: MacAddress,
    /// Our number of the session, from 1 on.
    pub session: u8,
    /// Its number of the session.
    pub peer_session: u8,
    /// Epoch of the session, below 64: another one whenever either side begins anew.
    pub epoch: u8,
}

impl PcieConfig {
    /// The netmask as a number.
    #[must_use]
    pub fn netmask(&self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.network_bits.min(32)))
            .unwrap_or(0)
    }

    /// Says what can't be: numbers out of range, or twice.
    ///
    /// # Errors
    /// A sentence about the first mistake.
    pub fn check(&self) -> Result<(), String> {
        if self.network_bits > 32 {
            return Err(format!(
                "network_bits is {}, but an IPv4 address has 32 bits",
                self.network_bits
            ));
        }
        for (index, peer) in self.peers.iter().enumerate() {
            if peer.session == 0 || peer.epoch >= 64 {
                return Err(format!(
                    "peer {}: session {} and epoch {} must be at least 1 and at most 63",
                    peer.address, peer.session, peer.epoch
                ));
            }
            let twice =
                |other: &PeerConfig| other.session == peer.session || other.address == peer.address;
            if self.peers[..index].iter().any(twice) {
                return Err(format!(
                    "peer {} or session {} is there twice; each peer has one address and one session",
                    peer.address, peer.session
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        device = "0000:01:00.0"
        address = "10.0.0.1"
        mac = "02:00:00:00:00:01"
        [[peer]]
        address = "10.0.0.2"
        mac = "02:00:00:00:00:02"
        session = 1
        peer_session = 3
        epoch = 5
    "#;

    #[test]
    fn a_configuration_is_read() {
        let config: PcieConfig = toml::from_str(TEXT).expect("well-formed");
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.memory, MemoryKind::Vfio);
        assert_eq!(config.netmask(), 0xFFFF_FF00);
        assert_eq!(config.peers[0].mac.to_bits(), 0x0200_0000_0002);
        let again: PcieConfig =
            toml::from_str(&toml::to_string(&config).expect("written")).expect("read");
        assert_eq!(again, config);
    }

    #[test]
    fn mistakes_are_told() {
        for (from, to) in [
            ("session = 1\n", "session = 0\n"),
            ("epoch = 5", "epoch = 64"),
            ("10.0.0.1\"", "10.0.0.1\"\nnetwork_bits = 33"),
        ] {
            let config: PcieConfig =
                toml::from_str(&TEXT.replacen(from, to, 1)).expect("well-formed");
            assert!(config.check().is_err(), "{to}");
        }
        let mut config: PcieConfig = toml::from_str(TEXT).expect("well-formed");
        config.peers.push(config.peers[0].clone());
        assert!(config.check().is_err_and(|error| error.contains("twice")));
        for mac in [
            "02:00",
            "2:0:0:0:0:1",
            "02:00:00:00:00:0g",
            "02:00:00:00:00:01:02",
            "",
        ] {
            let error = mac.parse::<MacAddress>().expect_err("not a MAC");
            assert!(error.contains("02:00:00:00:00:01"), "{error}");
        }
        assert!(toml::from_str::<PcieConfig>(&format!("nonsense = 1\n{TEXT}")).is_err());
    }

    #[test]
    fn netmasks_of_all_lengths() {
        let mut config: PcieConfig = toml::from_str(TEXT).expect("well-formed");
        for (bits, mask) in [(0, 0), (1, 0x8000_0000), (24, 0xFFFF_FF00), (32, u32::MAX)] {
            config.network_bits = bits;
            assert_eq!(config.netmask(), mask);
        }
    }
}
