// SPDX-License-Identifier: Apache-2.0
//! Which connections a program that is about to be started takes along, and under which number.

use std::os::fd::RawFd;

use crate::stream::borrow;
use crate::{hand_over, inherit, process};

/// The descriptors that a program will find.
pub(crate) enum Along {
    /// The process becomes another program: those that stay open.
    Own,
    /// A child that will be made gets copies of those that stay open, and of these.
    Spawned(Vec<RawFd>),
    /// A child of vfork becomes another program. Its descriptors are its own, while the table is its parent's: sockets by their
    /// inodes.
    Vforked(Vec<(u64, RawFd)>),
}

impl Along {
    /// Before an exec.
    pub(crate) fn to_exec() -> Self {
        if !process::is_borrowed() {
            return Self::Own;
        }
        let numbers = inherit::open_numbers().into_iter();
        let sockets = numbers.filter(|fd| stays(*fd)).filter_map(|fd| {
            let status = rustix::fs::fstat(borrow(fd)).ok()?;
            Some((socket(&status)?, fd))
        });
        Self::Vforked(sockets.collect())
    }

    /// Before a posix_spawn.
    pub(crate) fn to_spawn() -> Self {
        Self::Spawned(hand_over::planned())
    }

    /// Whether the program finds what the process that asks has at `fd`.
    pub(crate) fn takes(&self, fd: RawFd) -> bool {
        stays(fd) || matches!(self, Self::Spawned(planned) if planned.contains(&fd))
    }

    /// The number under which the program will find what the table has at `fd`.
    pub(crate) fn number(&self, fd: RawFd) -> Option<RawFd> {
        match self {
            Self::Own => stays(fd).then_some(fd),
            Self::Spawned(planned) => (stays(fd) || planned.contains(&fd)).then_some(fd),
            Self::Vforked(sockets) if sockets.is_empty() => None,
            Self::Vforked(sockets) => {
                let path = format!("/proc/{}/fd/{fd}", process::owner());
                let inode = socket(&rustix::fs::stat(path).ok()?)?;
                let found = sockets.iter().find(|(other, _)| *other == inode);
                found.map(|(_, number)| *number)
            }
        }
    }
}

fn stays(fd: RawFd) -> bool {
    rustix::io::fcntl_getfd(borrow(fd))
        .is_ok_and(|flags| !flags.contains(rustix::io::FdFlags::CLOEXEC))
}

/// The inode of what is a socket.
fn socket(status: &rustix::fs::Stat) -> Option<u64> {
    let kind = rustix::fs::FileType::from_raw_mode(status.st_mode);
    (kind == rustix::fs::FileType::Socket).then_some(status.st_ino)
}
