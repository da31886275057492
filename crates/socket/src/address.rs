// SPDX-License-Identifier: Apache-2.0
//! Socket addresses between the C library's form and the daemon's.

use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

use crate::raw;

/// Room for any address, and how much of it is used.
#[repr(C, align(8))]
pub struct Storage {
    /// The address.
    pub bytes: [u8; 128],
    /// Bytes of it.
    pub length: u32,
}

impl Storage {
    /// Nothing yet, room for all.
    pub const fn new() -> Self {
        Self {
            bytes: [0; 128],
            length: 128,
        }
    }

    /// The address, if it is an Internet one.
    pub fn address(&self) -> Option<SocketAddr> {
        parse(&self.bytes[..(self.length as usize).min(128)])
    }

    /// Copies the address to the program's buffer, as accept and recvfrom do.
    ///
    /// # Safety
    /// `into` has room for `*length` bytes; both may be null.
    pub unsafe fn give(&self, into: *mut libc::sockaddr, length: *mut libc::socklen_t) {
        if into.is_null() || length.is_null() {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let count = length.read_unaligned().min(self.length).min(128);
            std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), into.cast::<u8>(), count as usize);
            length.write_unaligned(self.length);
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads a `sockaddr_in` or `sockaddr_in6`; an IPv4 address in IPv6's clothes becomes itself.
pub fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET if bytes.len() >= size_of::<libc::sockaddr_in>() => {
            let octets: [u8; 4] = bytes[4..8].try_into().ok()?;
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), port))
        }
        // The scope at the end is optional.
        libc::AF_INET6 if bytes.len() >= offset_of!(libc::sockaddr_in6, sin6_scope_id) => {
            let octets: [u8; 16] = bytes[8..24].try_into().ok()?;
            Some(SocketAddr::new(
                IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(),
                port,
            ))
        }
        _ => None,
    }
}

/// Reads the program's address.
///
/// # Safety
/// `address` is null or has `length` readable bytes.
pub unsafe fn read(address: *const libc::sockaddr, length: libc::socklen_t) -> Option<SocketAddr> {
    if address.is_null() || length > 128 {
        return None;
    }
    // SAFETY: the caller's promise.
    parse(unsafe { std::slice::from_raw_parts(address.cast::<u8>(), length as usize) })
}

/// The family of the program's address.
///
/// # Safety
/// `address` has two readable bytes at least.
pub unsafe fn family(address: *const libc::sockaddr) -> i32 {
    // SAFETY: the caller's promise.
    i32::from(unsafe { (&raw const (*address).sa_family).read_unaligned() })
}

/// Whether the program's address is none: AF_UNSPEC, which the kernel asks for nothing but its family.
///
/// # Safety
/// `address` is null or has `length` readable bytes.
pub unsafe fn is_none(address: *const libc::sockaddr, length: libc::socklen_t) -> bool {
    !address.is_null()
        && length as usize >= size_of::<libc::sa_family_t>()
        // SAFETY: the caller's promise.
        && unsafe { family(address) } == libc::AF_UNSPEC
}

/// Where a connect to this address really goes: the unspecified address means this machine.
pub fn destination(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The socket's own address.
pub fn local(fd: RawFd) -> Option<SocketAddr> {
    ask(libc::SYS_getsockname, fd)
}

/// The peer's address.
pub fn remote(fd: RawFd) -> Option<SocketAddr> {
    ask(libc::SYS_getpeername, fd)
}

fn ask(call: libc::c_long, fd: RawFd) -> Option<SocketAddr> {
    let mut storage = Storage::new();
    // SAFETY: the kernel writes at most `length` bytes into the storage.
    let result = unsafe {
        raw::syscall(
            call as usize,
            [
                fd as usize,
                storage.bytes.as_mut_ptr() as usize,
                &raw mut storage.length as usize,
                0,
                0,
                0,
            ],
        )
    };
    if result == 0 { storage.address() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_families_and_refuses_the_rest() {
        let mut four = [0u8; 16];
        four[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        four[2..4].copy_from_slice(&80u16.to_be_bytes());
        four[4..8].copy_from_slice(&[127, 0, 0, 1]);
        assert_eq!(parse(&four), Some("127.0.0.1:80".parse().unwrap()));
        assert_eq!(parse(&four[..15]), None);
        let mut six = [0u8; 28];
        six[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        six[2..4].copy_from_slice(&443u16.to_be_bytes());
        six[23] = 1;
        assert_eq!(parse(&six), Some("[::1]:443".parse().unwrap()));
        six[18] = 0xff;
        six[19] = 0xff;
        six[20..24].copy_from_slice(&[10, 0, 0, 7]);
        assert_eq!(parse(&six), Some("10.0.0.7:443".parse().unwrap()));
        assert_eq!(parse(&[1, 0, b'/', b'x']), None);
        assert_eq!(parse(&[]), None);
        assert_eq!(
            destination("0.0.0.0:5".parse().unwrap()),
            "127.0.0.1:5".parse().unwrap()
        );
        assert_eq!(
            destination("[::]:5".parse().unwrap()),
            "[::1]:5".parse().unwrap()
        );
        for stays in ["10.0.0.7:5", "127.0.0.2:5", "[fd00::7]:5"] {
            let stays = stays.parse().unwrap();
            assert_eq!(destination(stays), stays);
        }
    }
}
