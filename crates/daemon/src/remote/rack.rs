// SPDX-License-Identifier: Apache-2.0
//! The NIC of a guest in the virtual rack, by its driver.
//!
//! What arrives is in memory without anybody's doing, and who sleeps until it does sleeps on the memory's own descriptor. The
//! processes have the windows, too, and store by themselves. So nothing passes through this thread but connections' beginnings
//! and ends.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host::backend::peers::netmask;
use host::backend::rack::nic::{self, Part, Wanted, peer};
use host::backend::rack::{Nic as Device, WindowFile, region_bytes};
use ipc::token::Rights;
use softnic::{Error, Event, Identity, PeerAddress, Refusal, Share, Shared, Unloaded};
use wire::{KeyEntry, KeyUse};

use super::nic::{Memory, Nic, Sleeper, WindowId};
use super::options::Own;

/// The NIC.
pub struct Rack {
    device: Device,
    identity: Identity,
    /// Numbers from 1 on that are taken.
    sessions: Vec<bool>,
    windows: HashMap<WindowId, WindowFile>,
    last_window: WindowId,
    /// Memory that is shared, by its key.
    grants: HashMap<u16, Arc<OwnedFd>>,
    events: VecDeque<Event>,
    last_load: u64,
}

/// What the driver said, in this NIC's words.
fn refused<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::Device {
        device: "the rack's NIC".to_owned(),
        what,
        source: std::io::Error::other(error.to_string()),
        remedy: "see what the guest's kernel says, and docs/linux.md",
    }
}

impl Rack {
    /// Opens the driver's device; with addresses, they are given to the NIC. It must be able to seal, if sessions will be.
    pub fn open(path: &Path, own: Option<Own>, seals: bool) -> Result<Self, Error> {
        let device = Device::open(path).map_err(refused("open it"))?;
        let info = device.info().map_err(refused("ask what it is"))?;
        if seals && info.flags & nic::info::SEALS == 0 {
            return Err(Error::Device {
                device: "the rack's NIC".to_owned(),
                what: "seal sessions",
                source: std::io::ErrorKind::Unsupported.into(),
                remedy: "it was built without AES-GCM: start with --insecure, and everything goes in clear",
            });
        }
        if let Some(own) = own {
            let identity = nic::Identity {
                mac: own.mac,
                gateway_mac: own.gateway_mac,
                ip: own.address.into(),
                netmask: netmask(own.bits),
            };
            device
                .identify(&identity)
                .map_err(refused("give it its addresses"))?;
        }
        let info = device.info().map_err(refused("ask what it is"))?;
        let mut sessions = vec![false; (info.sessions as usize).min(256)];
        // Nobody has number 0; sessions that others have opened by hand stay theirs.
        for (session, taken) in sessions.iter_mut().enumerate() {
            let known = device
                .peer(session as u8)
                .map_err(refused("ask for a peer"))?;
            *taken = session == 0 || known.flags & peer::VALID != 0;
        }
        Ok(Self {
            device,
            identity: Identity {
                mac: info.mac,
                ip: info.ip,
            },
            sessions,
            windows: HashMap::new(),
            last_window: 0,
            grants: HashMap::new(),
            events: VecDeque::new(),
            last_load: 0,
        })
    }

    /// Takes what the NIC has told.
    fn take_events(&mut self) {
        while let Some(event) = self.device.next_event() {
            match event {
                nic::Event::PeerLost { session } => {
                    self.events.push_back(Event::PeerLost { session });
                }
                nic::Event::Flushed { number, delivered } => {
                    self.events.push_back(Event::Flushed {
                        cookie: number,
                        delivered,
                    });
                }
                nic::Event::Refused { session, key, code } => {
                    self.events.push_back(Event::Refused {
                        session,
                        reason: match code {
                            1 => Refusal::Key,
                            2 => Refusal::Source,
                            3 => Refusal::Rights,
                            _ => Refusal::Bounds,
                        },
                        key,
                        offset: 0,
                        load: false,
                    });
                }
                // Nobody knows whose they were: every session may have lost some.
                nic::Event::Missing => {
                    let sessions = self.sessions.iter().enumerate().skip(1);
                    let open = sessions.filter(|(_, taken)| **taken);
                    self.events.extend(open.map(|(session, _)| Event::PeerLost {
                        session: session as u8,
                    }));
                }
                nic::Event::Link { .. } => {}
            }
        }
    }

    fn give_number(&mut self, session: u8) {
        if let Some(taken) = self.sessions.get_mut(usize::from(session)) {
            *taken = false;
        }
    }
}

impl Nic for Rack {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn memory(&mut self, bytes: usize) -> Result<Option<OwnedFd>, Error> {
        let region = self
            .device
            .region(bytes)
            .map_err(refused("get memory for it"))?;
        Ok(Some(region.into_fd()))
    }

    fn reserve_session(&mut self) -> Result<u8, Error> {
        let count = self.sessions.len();
        let free = self
            .sessions
            .iter_mut()
            .enumerate()
            .find(|(_, taken)| !**taken);
        let (session, taken) = free.ok_or(Error::Full {
            what: "sessions",
            count,
        })?;
        *taken = true;
        Ok(session as u8)
    }

    fn open_session(&mut self, session: u8, peer: &PeerAddress) -> Result<(), Error> {
        let wanted = nic::Peer {
            mac: peer.identity.mac,
            ip: peer.identity.ip,
            session,
            peer_session: peer.session,
            start: peer.start,
            reserved: 0,
            epoch: peer.epoch,
            flags: peer::VALID | if peer.compact { peer::COMPACT } else { 0 },
        };
        match &peer.keys {
            Some(keys) => self.device.seal_peer(&wanted, &keys.to_dws()),
            None => self.device.set_peer(&wanted),
        }
        .map_err(refused("open a session"))
    }

    fn write_key(&mut self, session: u8, keys: &KeyEntry, what: KeyUse) -> Result<(), Error> {
        self.device
            .next_key(session, &keys.to_dws_for(what))
            .map_err(refused("give a session its next key"))
    }

    fn sealed_frames(&self, session: u8) -> u64 {
        // It cannot fail: the descriptor is the NIC's.
        self.device.frames(session).unwrap_or_default()
    }

    fn close_session(&mut self, session: u8) {
        // It may never have been opened.
        let _ = self.device.set_peer(&nic::Peer {
            session,
            ..nic::Peer::default()
        });
        self.give_number(session);
    }

    fn share(&mut self, memory: &Memory, share: &Share) -> Result<Shared, Error> {
        let Sleeper::End(..) = memory.sleeper else {
            return Err(refused("receive into memory of libipnuma's soft back end")(
                host::Error::Unsupported {
                    what: "sharing a region of the daemon's (in a guest take libipnuma's rack back end)",
                    backend: "rack",
                },
            ));
        };
        let fd = memory.memory.as_fd();
        if region_bytes(fd).is_none_or(|bytes| bytes < memory.bytes) {
            return Err(refused("receive into memory that is not its driver's")(
                shm::Error::Unsealed,
            ));
        }
        let rights = match (share.read, share.write) {
            (true, true) => Rights::ReadWrite,
            (true, false) => Rights::Read,
            _ => Rights::Write,
        };
        let random =
            crate::machine::random().map_err(|error| Error::Io(std::io::Error::other(error)))?;
        let tag = u16::from_le_bytes([random[0], random[1]]) % 0xFFF + 1;
        let (ip, mask) = share.from;
        let part = Part {
            first: share.first.into(),
            bytes: share.bytes.into(),
            rights,
            // The driver knows one machine or all; narrower than asked for is the safe side.
            peer: (mask != 0).then(|| Ipv4Addr::from(ip)),
            session: share.session,
            tag,
            sealed: share.sealed,
        };
        let key = nic::export(fd, &part).map_err(refused("share memory"))?;
        self.grants.insert(key, Arc::clone(&memory.memory));
        Ok(Shared { key, tag })
    }

    fn unshare(&mut self, key: u16) {
        if let Some(memory) = self.grants.remove(&key) {
            // It is the region's: nobody else can have taken it back.
            let _ = nic::revoke(&memory, key);
        }
    }

    fn map(
        &mut self,
        session: u8,
        shared: &Shared,
        first: u64,
        bytes: u64,
    ) -> Result<WindowId, Error> {
        let wanted = Wanted {
            peer: None,
            session: Some(session),
            key: shared.key,
            tag: shared.tag,
            first,
            bytes,
            rights: Rights::ReadWrite,
        };
        let window = self.device.window(&wanted).map_err(refused("map pages"))?;
        self.last_window += 1;
        self.windows.insert(self.last_window, window);
        Ok(self.last_window)
    }

    fn unmap(&mut self, window: WindowId) {
        if let Some(window) = self.windows.remove(&window) {
            window.unmap();
        }
    }

    fn window(&self, window: WindowId) -> Option<OwnedFd> {
        self.windows.get(&window)?.share().ok()
    }

    fn can_store(&self, _: u8) -> bool {
        true
    }

    fn store(&mut self, window: WindowId, offset: u64, data: &[u8]) -> Result<usize, Error> {
        let file = self.windows.get(&window).ok_or(Error::Missing {
            what: "window",
            number: window,
        })?;
        file.store(offset, data).map_err(refused("store"))?;
        Ok(data.len())
    }

    fn load(&mut self, window: WindowId, offset: u64, bytes: usize) -> Result<u64, Error> {
        let file = self.windows.get(&window).ok_or(Error::Missing {
            what: "window",
            number: window,
        })?;
        let mut data = vec![0; bytes];
        let loaded = file.load(offset, &mut data).and_then(|()| file.state());
        self.last_load += 1;
        self.events.push_back(Event::Loaded {
            load: self.last_load,
            data: loaded.map(|()| data).map_err(|_| Unloaded::Impossible),
        });
        Ok(self.last_load)
    }

    fn flush(&mut self, session: u8, cookie: u64) -> Result<(), Error> {
        match self.device.mark(session, cookie) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Full {
                what: "flush marks",
                count: 8,
            }),
            Err(error) => Err(refused("mark the stream of stores")(error)),
        }
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Result<bool, Error> {
        self.take_events();
        Ok(!self.events.is_empty())
    }

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn deadline(&self) -> Option<Duration> {
        None
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }

    fn polls(&self) -> bool {
        false
    }
}
