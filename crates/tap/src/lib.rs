// SPDX-License-Identifier: Apache-2.0
//! TAP devices of Linux: Ethernet frames, without FCS, to and from the kernel.
//!
//! ```no_run
//! let tap = tap::Tap::open("port0")?;
//! let mut frame = [0; 2048];
//! match tap.receive(&mut frame) {
//!     Ok(length) => tap.send(&frame[..length])?, // back to where it came from
//!     Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
//!     Err(error) => return Err(error),
//! };
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The device is up, and has what addresses its user gives it (`ip address`). Needs /dev/net/tun and
//! CAP_NET_ADMIN.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{self, Opcode, Updater};
use rustix::net::{AddressFamily, SocketType};

/// Longest name of a network device, the zero byte behind it included.
const NAME_BYTES: usize = 16;
const TUNSETIFF: Opcode = ioctl::opcode::write::<i32>(b'T', 202);
const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCSIFFLAGS: Opcode = 0x8914;
const IFF_UP: u16 = 1;
const IFF_TAP: u16 = 0x0002;
/// Frames come without a header of the TUN driver's own.
const IFF_NO_PI: u16 = 0x1000;

/// The kernel's `struct ifreq` with flags in its union.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

impl Request {
    /// One of the operations above.
    fn ioctl<const OPERATION: Opcode>(&mut self, file: impl AsFd) -> io::Result<()> {
        // SAFETY: each of the operations reads and writes one `struct ifreq`, which `Request` is as large as, and keeps
        // no pointer.
        unsafe { ioctl::ioctl(file, Updater::<OPERATION, Self>::new(self)) }?;
        Ok(())
    }
}

/// A TAP device; it is gone when this is dropped.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

impl Tap {
    /// Makes the device `name` in the network namespace of the calling thread and brings it up. Sending and receiving never wait.
    ///
    /// # Errors
    /// What the system says: without /dev/net/tun, without the right to make devices, with a name that exists, or with
    /// one that is empty or longer than 15 bytes.
    pub fn open(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= NAME_BYTES || name.contains('\0') {
            let error = format!("{name:?} can't name a network device: 1 to 15 bytes can");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open("/dev/net/tun")?;
        let mut request = Request {
            name: [0; NAME_BYTES],
            flags: IFF_TAP | IFF_NO_PI,
            rest: [0; 22],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        request.ioctl::<TUNSETIFF>(&file)?;
        // Any socket of the namespace reaches the device's flags.
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        request.ioctl::<SIOCGIFFLAGS>(&socket)?;
        request.flags |= IFF_UP;
        request.ioctl::<SIOCSIFFLAGS>(&socket)?;
        Ok(Self { file })
    }

    /// Gives a frame to the kernel.
    ///
    /// # Errors
    /// `WouldBlock` if the kernel has no room, EIO while the device is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<usize> {
        (&self.file).write(frame)
    }

    /// Takes a frame that the kernel sends and returns its length; what `buffer` has no room for is cut off.
    ///
    /// # Errors
    /// `WouldBlock` if no frame waits, EIO while the device is down.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
