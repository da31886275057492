// SPDX-License-Identifier: Apache-2.0
//! A socket for which nothing is decided yet.

/// A TCP or UDP socket before listen, connect or bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// AF_INET or AF_INET6.
    pub family: i32,
    /// SOCK_STREAM or SOCK_DGRAM.
    pub kind: i32,
}

impl Pending {
    /// The socket that `socket(family, kind, protocol)` makes, if it is one that can be accelerated.
    pub fn of(family: i32, kind: i32, protocol: i32) -> Option<Self> {
        let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        let usual = match kind {
            libc::SOCK_STREAM => protocol == 0 || protocol == libc::IPPROTO_TCP,
            libc::SOCK_DGRAM => protocol == 0 || protocol == libc::IPPROTO_UDP,
            _ => false,
        };
        let internet = family == libc::AF_INET || family == libc::AF_INET6;
        (internet && usual).then_some(Self { family, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tcp_and_udp() {
        let tcp = Pending {
            family: libc::AF_INET,
            kind: libc::SOCK_STREAM,
        };
        assert_eq!(
            Pending::of(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0),
            Some(tcp)
        );
        assert_eq!(
            Pending::of(libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 17).map(|p| p.kind),
            Some(libc::SOCK_DGRAM)
        );
        assert_eq!(Pending::of(libc::AF_UNIX, libc::SOCK_STREAM, 0), None);
        assert_eq!(Pending::of(libc::AF_INET, libc::SOCK_RAW, 1), None);
        assert_eq!(
            Pending::of(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
            None
        );
        assert_eq!(
            Pending::of(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
            None
        );
    }
}
