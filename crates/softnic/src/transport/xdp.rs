// SPDX-License-Identifier: Apache-2.0
//! Frames through an AF_XDP socket: past the kernel's UDP stack, in its generic mode, so that it works on every device.
//!
//! A program of a few instructions on the device hands frames for UDP port 3422 of the own address to the socket;
//! everything else goes its usual way, ARP for the own address among it. The socket serves one queue of the device: a
//! device with several must be told to use one (`ethtool -L NAME combined 1`), or to steer UDP port 3422 to it.

mod program;
mod rings;

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with};
use wire::MIN_FRAME_BYTES;

use crate::error::Error;
use crate::transport::{Identity, Transport};
use program::Redirect;
use rings::{FRAME, FRAMES, Rings};

/// Frames that are sent before the kernel is told at the latest.
const TOGETHER: u32 = 32;

/// An AF_XDP socket; its program leaves the device when this is dropped.
pub struct AfXdp {
    identity: Identity,
    rings: Rings,
    socket: OwnedFd,
    _redirect: Redirect,
    /// Frames that the kernel was not told of.
    unsaid: u32,
    lost: u64,
}

impl AfXdp {
    /// Takes the frames for the own `address` that come on a queue of a device of this thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Device`] without the device, the rights, or AF_XDP in the kernel.
    pub fn open(device: &str, queue: u32, address: Ipv4Addr) -> Result<Self, Error> {
        const RIGHTS: &str = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are needed, and no other XDP program on the device";
        const KERNEL: &str = "the kernel must have CONFIG_XDP_SOCKETS; a UDP socket does without";
        let failed = |what, remedy| {
            move |source: io::Error| Error::Device {
                device: device.to_owned(),
                what,
                source,
                remedy,
            }
        };
        let kind = SocketType::RAW;
        let socket = socket_with(AddressFamily::XDP, kind, SocketFlags::CLOEXEC, None)
            .map_err(io::Error::from)
            .map_err(failed("open an AF_XDP socket", KERNEL))?;
        // Questions about devices are asked through any other socket.
        let any = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(io::Error::from)
        .map_err(failed("open a socket", KERNEL))?;
        let index = name_to_index(&any, device)
            .map_err(io::Error::from)
            .map_err(failed("find the device", "see `ip link`"))?;
        let mac = hardware_address(&any, device).map_err(failed(
            "read its MAC address",
            "it must be an Ethernet device",
        ))?;
        let rings = Rings::new(&socket).map_err(failed("set up its rings", KERNEL))?;
        let at = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, index, queue);
        bind(&socket, &at)
            .map_err(io::Error::from)
            .map_err(failed("bind a socket to the queue", RIGHTS))?;
        let redirect = Redirect::attach(index, queue, &socket, address)
            .map_err(failed("attach the program", RIGHTS))?;
        let mut this = Self {
            identity: Identity {
                mac,
                ip: address.into(),
            },
            rings,
            socket,
            _redirect: redirect,
            unsaid: 0,
            lost: 0,
        };
        this.rings.refill();
        Ok(this)
    }

    /// Frames for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn hardware_address(socket: &OwnedFd, device: &str) -> io::Result<u64> {
    // SAFETY: all bits zero are a value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the call reads the name and writes the address into the structure it is given.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &mut request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled this member of the union.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let bytes = address.sa_data[..6].iter();
    Ok(bytes.fold(0, |mac, &byte| mac << 8 | u64::from(byte as u8)))
}

impl Transport for AfXdp {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if frame.len() > FRAME || !self.rings.send(frame) {
            self.lost += 1;
        } else {
            self.unsaid += 1;
        }
        if self.unsaid >= TOGETHER {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        // What the kernel has no room for at once stays in the ring; it takes a batch at a time.
        let most = FRAMES / TOGETHER;
        for _ in 0..most {
            if self.unsaid == 0 && !self.rings.is_sending() {
                break;
            }
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) => {}
                // The device is slower than we are, or down: the frames go with the next call, or are lost.
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::BUSY) => {}
                Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::NETDOWN) => break,
                Err(error) => return Err(error.into()),
            }
            self.unsaid = 0;
        }
        self.unsaid = 0;
        self.rings.collect();
        Ok(())
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        if !self.rings.receive(frame) {
            return Ok(false);
        }
        if frame.len() < MIN_FRAME_BYTES {
            frame.resize(MIN_FRAME_BYTES, 0);
        }
        Ok(true)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
