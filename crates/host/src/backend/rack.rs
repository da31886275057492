// SPDX-License-Identifier: Apache-2.0
//! The `rack` back end: the NIC of a guest in the virtual rack, by its driver (`linux/ipnuma`, `docs/linux.md`).
//!
//! Tokens are those of the `pcie` back end: the address is the NIC's own, the region `{region 48, key 16}`, and the tag on
//! the wire comes from the secret. No daemon is needed; the peers are in the configuration, and whoever opens the device
//! first and may do it (CAP_NET_ADMIN) tells the NIC of them:
//!
//! ```toml
//! [rack]
//! device = "/dev/ipnuma0"
//! address = "10.0.0.1"
//! mac = "02:00:00:00:00:01"
//! [[rack.peer]]
//! address = "10.0.0.2"
//! mac = "02:00:00:00:00:02"
//! session = 1
//! peer_session = 1
//! epoch = 1
//! ```
//!
//! Without `mac` the NIC has that of the interface with its address, and peers, which need no `mac` then either, are reached as
//! the kernel's routes and neighbours say.
//!
//! A guest's code takes no simulated time: [`Polling::Blocks`]. Stores cost what the driver charges. On a board neither is so.

mod calls;
pub mod nic;
mod sys;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ipc::token::{Rights, Token};
use rustix::rand::GetRandomFlags;
use serde::Deserialize;
use shm::memory::Mapping;
use shm::ring::LINE;

pub use calls::CallCosts;
pub use nic::{Nic, RegionFile, WindowFile, charge, map_channel, region_bytes};

use super::peers::{MacAddress, PeerConfig, check, netmask, tag_of};
use super::{Backend, Flush, Info, Polling, RegionMemory, WindowAccess, refused};
use crate::clock::Deadline;
use crate::error::{Error, Result};

const KEY_BITS: u32 = 16;

/// `[rack]` in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RackConfig {
    /// The driver's device.
    pub device: PathBuf,
    /// Own IPv4 address; without one the NIC is left as it is.
    pub address: Option<Ipv4Addr>,
    /// What a program's own work from a request to its answer is taken to cost, by the socket library; IPNUMA_REQUEST_NS.
    pub request_ns: u32,
    /// What the socket library's own calls are taken to cost; IPNUMA_CALLS_NS.
    pub calls_ns: CallCosts,
    /// Bits of the network in the address.
    pub network_bits: u8,
    /// Own MAC address; without one that of the interface with the address, and the kernel knows those of peers.
    pub mac: MacAddress,
    /// MAC address of the gateway to other networks; not without `mac`.
    pub gateway_mac: MacAddress,
    /// Other NICs.
    #[serde(rename = "peer")]
    pub peers: Vec<PeerConfig>,
}

impl Default for RackConfig {
    fn default() -> Self {
        Self {
            device: "/dev/ipnuma0".into(),
            address: None,
            request_ns: 0,
            calls_ns: CallCosts::default(),
            network_bits: 24,
            mac: MacAddress::default(),
            gateway_mac: MacAddress::default(),
            peers: Vec::new(),
        }
    }
}

/// The back end.
#[derive(Debug)]
pub struct Rack {
    nic: Arc<Nic>,
    address: Ipv4Addr,
    polling: Polling,
}

impl Rack {
    /// Opens the NIC, and tells it of its peers, if it does not know them yet.
    ///
    /// # Errors
    /// If it is not there, or may not be told.
    pub fn open(config: &RackConfig) -> Result<Self> {
        check(config.network_bits, &config.peers).map_err(|problem| Error::Config {
            place: "[rack] in the configuration".to_owned(),
            problem,
        })?;
        let nic = Nic::open(&config.device)?;
        if let Some(address) = config.address {
            introduce(&nic, config, address)?;
        }
        let info = nic.info()?;
        let polling = match info.flags & nic::info::FROZEN {
            0 => Polling::Free,
            _ => Polling::Blocks,
        };
        Ok(Self {
            nic: Arc::new(nic),
            address: info.ip.into(),
            polling,
        })
    }
}

/// Gives the NIC its addresses and peers. What it has already is left alone: to write a session again begins it anew.
fn introduce(nic: &Nic, config: &RackConfig, address: Ipv4Addr) -> Result<()> {
    let info = nic.info()?;
    let mask = netmask(config.network_bits);
    let from_kernel = config.mac == MacAddress::default();
    let mac = match from_kernel {
        true => info.mac,
        false => config.mac.to_bits(),
    };
    if (info.ip, info.netmask, info.mac) != (address.into(), mask, mac) {
        nic.identify(&nic::Identity {
            mac: config.mac.to_bits(),
            gateway_mac: config.gateway_mac.to_bits(),
            ip: address.into(),
            netmask: mask,
        })?;
    }
    for peer in &config.peers {
        let wanted = session_of(peer);
        if !is_begun(nic.peer(peer.session)?, &wanted, from_kernel) {
            nic.set_peer(&wanted)?;
        }
    }
    Ok(())
}

/// The session with a peer, as the driver takes it.
fn session_of(peer: &PeerConfig) -> nic::Peer {
    nic::Peer {
        mac: peer.mac.to_bits(),
        ip: peer.address.into(),
        session: peer.session,
        peer_session: peer.peer_session,
        epoch: peer.epoch,
        start: peer.start,
        reserved: 0,
        flags: nic::peer::VALID | nic::peer::COMPACT,
    }
}

/// Whether what the driver knows of a session is what is wanted; that it was lost since changes nothing, and a daemon may have
/// sealed it. With which number it started the driver does not tell.
fn is_begun(known: nic::Peer, wanted: &nic::Peer, from_kernel: bool) -> bool {
    let told = nic::Peer {
        flags: known.flags & !(nic::peer::LOST | nic::peer::SEALED),
        start: wanted.start,
        // Whatever the kernel has said.
        mac: if from_kernel { wanted.mac } else { known.mac },
        ..known
    };
    told == *wanted
}

impl Backend for Rack {
    fn info(&self) -> Info {
        let info = self.nic.info().unwrap_or_default();
        let peers = (1..=u8::MAX).take_while(|&session| u32::from(session) < info.sessions);
        let there = |peer: &nic::Peer| {
            peer.flags & (nic::peer::VALID | nic::peer::LOST) == nic::peer::VALID
        };
        let mut peers: Vec<Ipv4Addr> = peers
            .filter_map(|session| self.nic.peer(session).ok())
            .filter(there)
            .map(|peer| peer.ip.into())
            .collect();
        peers.sort_unstable();
        peers.dedup();
        Info {
            backend: "rack",
            max_store: LINE,
            line_atomic: true,
            mappable: cfg!(target_arch = "x86_64"),
            link_up: info.flags & nic::info::LINK_UP != 0,
            peers,
        }
    }

    fn polls(&self) -> Polling {
        self.polling
    }

    fn alloc(&self, bytes: usize) -> Result<Box<dyn RegionMemory>> {
        let file = self.nic.region(bytes)?;
        Ok(Box::new(Memory {
            mapping: file.map()?,
            file,
            address: self.address,
            exports: Mutex::default(),
        }))
    }

    fn connect(&self, token: &Token) -> Result<Arc<dyn WindowAccess>> {
        let file = self.nic.window(&nic::Wanted {
            peer: Some(*token.management.ip()),
            session: None,
            key: token.region as u16,
            tag: tag_of(&token.secret),
            first: token.first,
            bytes: token.bytes,
            rights: token.rights,
        })?;
        Ok(Arc::new(Access {
            file,
            first: token.first,
            bytes: token.bytes,
            rights: token.rights,
        }))
    }
}

#[derive(Debug)]
struct Memory {
    file: RegionFile,
    mapping: Mapping,
    address: Ipv4Addr,
    /// Valid tokens by their keys.
    exports: Mutex<HashMap<u16, Token>>,
}

impl RegionMemory for Memory {
    fn id(&self) -> u64 {
        self.file.id()
    }

    fn as_ptr(&self) -> *mut u8 {
        self.mapping.as_ptr()
    }

    fn len(&self) -> usize {
        self.mapping.len()
    }

    fn export(
        &self,
        first: u64,
        bytes: u64,
        rights: Rights,
        peer: Option<Ipv4Addr>,
    ) -> Result<Token> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret, GetRandomFlags::empty()).map_err(|source| {
            Error::System {
                what: "getting random bytes",
                source,
            }
        })?;
        let key = self.file.export(&nic::Part {
            first,
            bytes,
            rights,
            peer,
            tag: tag_of(&secret),
            sealed: false,
            session: None,
        })?;
        let token = Token {
            rights,
            management: SocketAddrV4::new(self.address, 0),
            region: self.file.id() << KEY_BITS | u64::from(key),
            first,
            bytes,
            secret,
        };
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        exports.insert(key, token);
        Ok(token)
    }

    fn revoke(&self, token: &Token) -> Result<()> {
        let key = token.region as u16;
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        if exports.get(&key) != Some(token) {
            return Err(Error::OtherRegion);
        }
        exports.remove(&key);
        self.file.revoke(key)
    }

    fn event_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn arm(&self, armed: bool) {
        // It cannot fail: the descriptor is a region's.
        let _ = self.file.arm(armed);
    }
}

#[derive(Debug)]
struct Access {
    file: WindowFile,
    first: u64,
    bytes: u64,
    rights: Rights,
}

impl WindowAccess for Access {
    fn first(&self) -> u64 {
        self.first
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn rights(&self) -> Rights {
        self.rights
    }

    fn mapped(&self) -> Option<*mut u8> {
        None
    }

    fn trapped(self: Arc<Self>) -> Option<Arc<dyn trap::Remote>> {
        Some(self)
    }

    fn coherent(&self) -> bool {
        false
    }

    fn store(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        // Callers stay inside, and ask for faults. The kernel cannot read what only trapped loads reach.
        let brought = trap::traps(bytes).then(|| bytes.to_vec());
        let bytes = brought.as_deref().unwrap_or(bytes);
        let _ = self.file.store(offset as u64, bytes);
        Ok(())
    }

    fn store_line(&self, offset: usize, line: &[u8; LINE]) -> Result<()> {
        self.store(offset, line)
    }

    fn store_used(&self, offset: usize, line: &[u8; LINE], begin: usize) -> Result<()> {
        self.store(offset + begin, &line[begin..])
    }

    fn store64(&self, offset: usize, value: u64) -> Result<()> {
        self.store(offset, &value.to_le_bytes())
    }

    // Stores are transactions on the bus when the call returns, and the session keeps their order.
    fn fence(&self) {}

    // What arrives wakes the owner that sleeps.
    fn signal(&self) {}

    fn load(&self, offset: usize, into: &mut [u8], _: Deadline) -> Result<()> {
        if trap::traps(into) {
            let mut bytes = vec![0; into.len()];
            self.file.load(offset as u64, &mut bytes)?;
            into.copy_from_slice(&bytes);
        } else {
            self.file.load(offset as u64, into)?;
        }
        self.state()
    }

    fn flush(&self, how: Flush, deadline: Deadline) -> Result<()> {
        match how {
            Flush::Local => Ok(()),
            Flush::Delivered => self.file.flush(deadline),
        }
    }

    fn faults(&self) -> u64 {
        self.file.faults()
    }

    fn state(&self) -> Result<()> {
        self.file.state()
    }
}

/// System calls of the driver, and loads of its page: nothing that a handler of signals may not do.
impl trap::Remote for Access {
    fn store(&self, offset: usize, bytes: &[u8]) -> Result<(), trap::Refused> {
        trap::Remote::state(self)?;
        let stored = self.file.store(offset as u64, bytes);
        stored.map_err(|error| refused(&error))
    }

    fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), trap::Refused> {
        let loaded = self.file.load(offset as u64, into);
        loaded.map_err(|error| refused(&error))?;
        trap::Remote::state(self)
    }

    fn state(&self) -> Result<(), trap::Refused> {
        self.file.state().map_err(|error| refused(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_configuration() {
        let page = include_str!("rack.rs");
        let lines = page.lines().skip_while(|line| *line != "//! ```toml");
        let text: String = lines
            .skip(1)
            .take_while(|line| *line != "//! ```")
            .map(|line| format!("{}\n", line.trim_start_matches("//! ")))
            .collect();
        let config = crate::Config::parse(&text, "the example").expect("it is right");
        assert_eq!(config.rack.peers.len(), 1);
        assert_eq!(config.rack.address, Some(Ipv4Addr::new(10, 0, 0, 1)));
        let session = session_of(&config.rack.peers[0]);
        let lost = nic::Peer {
            flags: nic::peer::VALID | nic::peer::COMPACT | nic::peer::LOST,
            ..session
        };
        assert!(is_begun(lost, &session, false));
        let elsewhere = nic::Peer {
            mac: 0x0200_0000_0009,
            ..lost
        };
        assert!(!is_begun(elsewhere, &session, false) && is_begun(elsewhere, &session, true));
        let other = nic::Peer {
            epoch: session.epoch.wrapping_add(1),
            ..lost
        };
        assert!(!is_begun(other, &session, true));
        assert!(!is_begun(nic::Peer::default(), &session, true));
    }

    #[test]
    fn channels_are_mapped_in_sealed_memory_and_in_no_other_that_is_not_the_drivers() {
        let (_, sealed) = shm::channel::Channel::create(8).expect("there is memory");
        assert_eq!(map_channel(&sealed).expect("a channel").lines(), 8);
        let unsealed = tempfile::tempfile().expect("there is a directory for temporary files");
        unsealed
            .set_len(shm::channel::bytes(8) as u64)
            .expect("there is room");
        let error = map_channel(&unsealed).expect_err("it could shrink");
        assert!(matches!(error, shm::Error::Unsealed), "{error}");
    }

    #[test]
    fn without_the_device_the_error_says_where_it_would_be() {
        let config = RackConfig {
            device: "/nowhere/ipnuma0".into(),
            ..RackConfig::default()
        };
        let error = Rack::open(&config).expect_err("there is none").to_string();
        assert!(
            error.contains("/nowhere/ipnuma0") && error.contains("ipnuma.ko"),
            "{error}"
        );
    }
}
