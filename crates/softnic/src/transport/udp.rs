// SPDX-License-Identifier: Apache-2.0
//! Frames through the kernel's UDP sockets: no rights are needed, ARP and routes are the kernel's.
//!
//! Only payloads travel through a socket, so headers are taken off and put back on. A frame's source port says to which
//! session it belongs; so each that is used has a socket of its own beside that of port 3422, at which all frames come.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use wire::UDP_PORT;

use crate::error::Error;
use crate::transport::headers::{mac_of, rebuild, strip};
use crate::transport::{Identity, Transport};

/// Longest payload that can come: a longer one is none of ours.
const LONGEST: usize = 2048;
/// Bytes that the kernel may keep of what comes: all that peers have in flight.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A socket that frames with one source port are sent from.
struct Port {
    port: u16,
    users: u32,
    socket: UdpSocket,
}

/// UDP sockets of one address.
pub struct Udp {
    identity: Identity,
    address: Ipv4Addr,
    main: UdpSocket,
    ports: Vec<Port>,
    buffer: Vec<u8>,
    lost: u64,
}

impl Udp {
    /// Takes UDP port 3422 of an own address.
    ///
    /// # Errors
    /// [`Error::Port`] if another program has it, or the address is another machine's.
    pub fn bind(address: Ipv4Addr) -> Result<Self, Error> {
        let main = bind(address, UDP_PORT)?;
        // What the system does not grant is not needed to work.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&main, RECEIVE_BUFFER);
        let ip = u32::from(address);
        Ok(Self {
            identity: Identity {
                mac: mac_of(ip),
                ip,
            },
            address,
            main,
            ports: Vec::new(),
            buffer: vec![0; LONGEST],
            lost: 0,
        })
    }

    /// Frames that the kernel had no room for, or that had no way to go.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn bind(address: Ipv4Addr, port: u16) -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind((address, port)).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    socket.map_err(|source| Error::Port {
        address,
        port,
        source,
    })
}

/// Whether an error is about one frame, or about one that was sent before, and not about the socket.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        error.kind(),
        K::WouldBlock
            | K::Interrupted
            | K::ConnectionRefused
            | K::ConnectionReset
            | K::HostUnreachable
            | K::NetworkUnreachable
            | K::NetworkDown
            | K::PermissionDenied
            | K::OutOfMemory
    ) || error.raw_os_error() == Some(libc::ENOBUFS)
}

impl Transport for Udp {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some((port, to, payload)) = strip(frame) else {
            return Ok(());
        };
        let of_port = self.ports.iter().find(|open| open.port == port);
        let socket = of_port.map_or(&self.main, |open| &open.socket);
        let to = SocketAddrV4::new(Ipv4Addr::from(to), UDP_PORT);
        match socket.send_to(payload, to) {
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => {
                self.lost += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            match self.main.recv_from(&mut self.buffer) {
                Ok((length, SocketAddr::V4(from))) if length < LONGEST => {
                    let from = (u32::from(*from.ip()), from.port());
                    rebuild(frame, self.identity, from, &self.buffer[..length]);
                    return Ok(true);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // Told about a frame that was sent before: the session notices by itself.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn open_port(&mut self, port: u16) -> Result<(), Error> {
        if let Some(open) = self.ports.iter_mut().find(|open| open.port == port) {
            open.users += 1;
            return Ok(());
        }
        let socket = bind(self.address, port)?;
        // Nobody reads it: what strangers send there shall not pile up.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 0);
        self.ports.push(Port {
            port,
            users: 1,
            socket,
        });
        Ok(())
    }

    fn close_port(&mut self, port: u16) {
        if let Some(at) = self.ports.iter().position(|open| open.port == port) {
            self.ports[at].users -= 1;
            if self.ports[at].users == 0 {
                self.ports.swap_remove(at);
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.main.as_fd())
    }
}
