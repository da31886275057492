// SPDX-License-Identifier: Apache-2.0
//! Frames through a TAP device: the NIC is at the other end of the device's cable, with addresses of its own. It answers
//! ARP itself.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use wire::MIN_FRAME_BYTES;

use crate::error::Error;
use crate::transport::{Identity, Transport};

/// Longest frame without FCS that is taken.
const LONGEST: usize = 2048;

/// A TAP device; it is gone when this is dropped.
pub struct Tap {
    identity: Identity,
    device: tap::Tap,
    buffer: Vec<u8>,
    lost: u64,
}

impl Tap {
    /// Makes the device `name` in the network namespace of the calling thread. The NIC is a machine beyond it, with these
    /// addresses; the device itself gets whatever addresses its user gives it.
    ///
    /// # Errors
    /// [`Error::Device`] without /dev/net/tun or the right to make devices.
    pub fn open(name: &str, mac: u64, address: Ipv4Addr) -> Result<Self, Error> {
        let device = tap::Tap::open(name).map_err(|source| Error::Device {
            device: name.to_owned(),
            what: "open the TAP device",
            source,
            remedy: "/dev/net/tun must be there, and CAP_NET_ADMIN",
        })?;
        Ok(Self {
            identity: Identity {
                mac,
                ip: address.into(),
            },
            device,
            buffer: vec![0; LONGEST],
            lost: 0,
        })
    }

    /// Frames that the kernel had no room for, or that came while the device was down.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Transport for Tap {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match self.device.send(frame) {
            Ok(_) => Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || matches!(error.raw_os_error(), Some(libc::EIO | libc::ENOBUFS)) =>
            {
                self.lost += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        match self.device.receive(&mut self.buffer) {
            Ok(length) => {
                frame.clear();
                frame.extend_from_slice(&self.buffer[..length]);
                if length < MIN_FRAME_BYTES {
                    frame.resize(MIN_FRAME_BYTES, 0);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            // The device is down; it may come up again.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }
}
