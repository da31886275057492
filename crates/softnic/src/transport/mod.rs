// SPDX-License-Identifier: Apache-2.0
//! What carries the frames of a NIC in software.

mod faulty;
mod headers;
mod tap;
mod udp;
mod xdp;

use std::io;
use std::os::fd::BorrowedFd;

use crate::error::Error;

pub use faulty::{FaultCounts, Faults, Faulty};
pub use tap::Tap;
pub use udp::Udp;
pub use xdp::AfXdp;

/// Under which addresses a NIC is in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// MAC address; bits 47:40 are the first byte on the wire.
    pub mac: u64,
    /// IPv4 address as a number: 10.0.0.1 is 0x0A000001.
    pub ip: u32,
}

/// Carries frames, from the destination MAC to the padding, without FCS.
///
/// Nothing blocks. A frame for which there is no room is lost, as it would be on the wire; sessions send it again.
pub trait Transport: Send {
    /// The NIC's own addresses.
    fn identity(&self) -> Identity;

    /// Sends a frame, at the latest with the next [`Transport::flush`].
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Hands on what was kept together.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Puts the next frame into `frame`, of at least 60 bytes; `false` if none waits.
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool>;

    /// Frames with this UDP source port will be sent.
    fn open_port(&mut self, _port: u16) -> Result<(), Error> {
        Ok(())
    }

    /// No more frames with this source port will be sent; to be called as often as [`Transport::open_port`].
    fn close_port(&mut self, _port: u16) {}

    /// What becomes readable when frames wait.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
