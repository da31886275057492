// SPDX-License-Identifier: Apache-2.0
//! The host port as one TAP device for each port, so that Linux is the host: its kernel answers ARP,
//! neighbour solicitations and ICMP, its daemons speak routing protocols.
//!
//! Give each device the MAC address of its port and bring it up (`ip link set NAME address MAC
//! up`); it may be moved into a network namespace while it is open. What the kernel learns reaches
//! the lookup's tables only if someone brings it there.
//!
//! Needs /dev/net/tun and the right to make devices.

use std::io;

use tap::Tap;
use thiserror::Error;

use crate::action::HostFrame;

/// Longest frame without FCS.
const LONGEST: usize = 9216;

/// Why there is no TAP device.
#[derive(Debug, Error)]
#[error(
    "can't open the TAP device {name}: {source}; /dev/net/tun must be there, and CAP_NET_ADMIN"
)]
pub struct TapError {
    /// Name asked for.
    pub name: String,
    /// What the system said.
    pub source: io::Error,
}

/// TAP devices of a switch's ports; they are gone when this is dropped.
pub struct Taps {
    taps: Vec<Tap>,
    /// The port to be asked next.
    next: usize,
    buffer: Vec<u8>,
}

impl Taps {
    /// Makes a device for each name; the first is port 0.
    pub fn open(names: &[&str]) -> Result<Self, TapError> {
        let taps = names
            .iter()
            .map(|name| {
                Tap::open(name).map_err(|source| TapError {
                    name: (*name).to_owned(),
                    source,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            taps,
            next: 0,
            buffer: vec![0; LONGEST],
        })
    }

    /// Gives a frame of the switch to the kernel: it arrives on the device of its port. Frames that
    /// ended bad are dropped, as are those the kernel has no room for, or while the device is down.
    pub fn give(&self, frame: &HostFrame) -> io::Result<()> {
        if frame.bad {
            return Ok(());
        }
        match self.taps.get(usize::from(frame.port)) {
            Some(tap) => self.write(tap, frame.bytes),
            None => Ok(()),
        }
    }

    fn write(&self, tap: &Tap, bytes: &[u8]) -> io::Result<()> {
        /// The device is down.
        const EIO: i32 = 5;
        match tap.send(bytes) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.raw_os_error() == Some(EIO) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes a frame that the kernel sends, and its port; `None` if none waits. Ports take turns.
    pub fn take(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        for _ in 0..self.taps.len() {
            let port = self.next;
            self.next = (self.next + 1) % self.taps.len();
            match self.taps[port].receive(&mut self.buffer) {
                Ok(length) => return Ok(Some((port as u8, self.buffer[..length].to_vec()))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
