// SPDX-License-Identifier: Apache-2.0
//! What the board needs to know: `[pcie]` in the configuration.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

pub use crate::backend::peers::{MacAddress, PeerConfig};
use crate::backend::peers::{check, netmask};

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

impl PcieConfig {
    /// The netmask as a number.
    #[must_use]
    pub fn netmask(&self) -> u32 {
        netmask(self.network_bits)
    }

    /// Says what can't be: numbers out of range, or twice.
    ///
    /// # Errors
    /// A sentence about the first mistake.
    pub fn check(&self) -> Result<(), String> {
        check(self.network_bits, &self.peers)?;
        let nowhere = |peer: &&PeerConfig| peer.mac == MacAddress::default();
        match self.peers.iter().find(nowhere) {
            Some(peer) => Err(format!(
                "peer {} has no MAC address: write mac = \"02:00:00:00:00:01\" as its NIC has it",
                peer.address
            )),
            None => Ok(()),
        }
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
