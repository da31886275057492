// SPDX-License-Identifier: Apache-2.0
//! Calls of the driver, as `linux/ipnuma/ipnuma_uapi.h` has them; a test compares the two.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io;
use rustix::ioctl::{self, Getter, Opcode, Setter, Updater, opcode};

/// The driver's letter.
pub const MAGIC: u8 = b'N';
/// Version of these calls.
pub const ABI: u32 = 3;

/// Bits of [`Info::flags`].
pub mod info {
    /// The link is up.
    pub const LINK_UP: u32 = 1;
    /// The clock stands still while a program computes.
    pub const FROZEN: u32 = 2;
    /// It can seal sessions.
    pub const SEALS: u32 = 4;
    /// Time can be charged and asked for to the nanosecond: it is the rack's, and no board's.
    pub const CHARGES: u32 = 8;
}

/// Bits of [`Peer::flags`].
pub mod peer {
    /// The entry is in use.
    pub const VALID: u8 = 1;
    /// Stores are sent in the compact format.
    pub const COMPACT: u8 = 2;
    /// It does not answer any more.
    pub const LOST: u8 = 4;
    /// Its session is sealed.
    pub const SEALED: u8 = 8;
}

/// Only for frames that came sealed: a bit of [`Export::flags`].
pub const EXPORT_SEALED: u32 = 1;

/// Words of an entry of the NIC's table of keys.
pub const KEY_DWS: usize = 16;
/// Those of them that are keys.
pub const KEY_WORDS: usize = 10;

/// Bits of a window's state.
pub mod status {
    /// Where the 64-bit count of faults is.
    pub const FAULTS: usize = 0;
    /// Where the 32-bit state is.
    pub const STATE: usize = 8;
    /// The peer is lost.
    pub const LOST: u32 = 1;
    /// The peer has no such region any more.
    pub const REVOKED: u32 = 2;
}

/// Codes of events.
pub mod event {
    /// The peer refused a store: its key is not valid.
    pub const BAD_KEY: u32 = 1;
    /// The last of the reasons to refuse.
    pub const BAD_BOUNDS: u32 = 4;
    /// A peer is lost.
    pub const LOST: u32 = 16;
    /// Stores before a mark have arrived.
    pub const FLUSHED: u32 = 17;
    /// Stores before a mark are lost.
    pub const FLUSH_FAILED: u32 = 18;
    /// The link is down.
    pub const LINK_DOWN: u32 = 19;
    /// The link is up.
    pub const LINK_UP: u32 = 20;
    /// Some events are missing.
    pub const EVENTS_LOST: u32 = 21;
}

/// What the NIC is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    /// `ABI`.
    pub abi: u32,
    /// Version of the NIC's registers.
    pub version: u32,
    /// Pages of BAR 2.
    pub pages: u32,
    /// Entries of the PC ID table.
    pub pc_ids: u32,
    /// Entries of the shared-region table.
    pub regions: u32,
    /// Sessions.
    pub sessions: u32,
    /// [`info()`].
    pub flags: u32,
    /// Own IPv4 address.
    pub ip: u32,
    /// Netmask.
    pub netmask: u32,
    /// What 64 bytes that are stored cost a processor, nanoseconds.
    pub store_ns: u32,
    /// Own MAC address.
    pub mac: u64,
    /// Bytes of the largest region.
    pub most_region: u64,
}

/// Who the NIC is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Own MAC address.
    pub mac: u64,
    /// MAC address of the gateway to other networks.
    pub gateway_mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
    /// Netmask.
    pub netmask: u32,
}

/// How a peer is reached.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its MAC address.
    pub mac: u64,
    /// Its IPv4 address.
    pub ip: u32,
    /// Own number of the session, from 1 on.
    pub session: u8,
    /// Its number of the session.
    pub peer_session: u8,
    /// Epoch of the session, below 64.
    pub epoch: u8,
    /// [`peer()`].
    pub flags: u8,
    /// Sequence number of the first frame, both ways.
    pub start: u32,
    /// 0.
    pub reserved: u32,
}

/// A peer, and the keys of its session. Nobody shows them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct SealedPeer {
    pub peer: Peer,
    pub words: [u32; KEY_WORDS],
}

/// The next key of a session. Nobody shows it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Keys {
    pub session: u32,
    pub r#use: u32,
    pub words: [u32; KEY_WORDS],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Frames {
    pub session: u32,
    pub reserved: u32,
    pub frames: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Region {
    pub bytes: u64,
    pub id: u64,
    pub fd: i32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    pub first: u64,
    pub bytes: u64,
    pub peer: u32,
    pub session: u32,
    pub key: u16,
    pub tag: u16,
    pub rights: u32,
    pub fd: i32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    pub number: u64,
    pub session: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Export {
    pub first: u64,
    pub bytes: u64,
    pub peer: u32,
    pub rights: u32,
    pub tag: u16,
    pub key: u16,
    pub flags: u32,
    pub session: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    pub offset: u64,
    pub seen: u64,
    pub timeout_ns: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Flush {
    pub timeout_ns: i64,
}

/// Bytes of an event.
pub const EVENT_BYTES: usize = 16;

pub const INFO: Opcode = opcode::read::<Info>(MAGIC, 0);
pub const NOW: Opcode = opcode::read::<u64>(MAGIC, 1);
pub const IDENTITY: Opcode = opcode::write::<Identity>(MAGIC, 2);
pub const PEER: Opcode = opcode::write::<Peer>(MAGIC, 3);
pub const PEER_GET: Opcode = opcode::read_write::<Peer>(MAGIC, 4);
pub const REGION: Opcode = opcode::read_write::<Region>(MAGIC, 5);
pub const WINDOW: Opcode = opcode::read_write::<Window>(MAGIC, 6);
pub const MARK: Opcode = opcode::write::<Mark>(MAGIC, 7);
pub const CHARGE: Opcode = opcode::write::<u32>(MAGIC, 8);
pub const SEALED_PEER: Opcode = opcode::write::<SealedPeer>(MAGIC, 9);
pub const KEYS: Opcode = opcode::write::<Keys>(MAGIC, 10);
pub const FRAMES: Opcode = opcode::read_write::<Frames>(MAGIC, 11);
pub const EXPORT: Opcode = opcode::read_write::<Export>(MAGIC, 16);
pub const REVOKE: Opcode = opcode::write::<u32>(MAGIC, 17);
pub const ARM: Opcode = opcode::write::<u32>(MAGIC, 18);
pub const WAIT: Opcode = opcode::write::<Wait>(MAGIC, 19);
pub const BYTES: Opcode = opcode::read::<u64>(MAGIC, 20);
pub const FLUSH: Opcode = opcode::write::<Flush>(MAGIC, 32);
pub const UNMAP: Opcode = opcode::none(MAGIC, 33);

macro_rules! calls {
    ($($(#[$doc:meta])* $kind:ident $name:ident($opcode:ident, $argument:ty);)*) => {
        $(calls!(@$kind $(#[$doc])* $name, $opcode, $argument);)*
    };
    (@get $(#[$doc:meta])* $name:ident, $opcode:ident, $argument:ty) => {
        $(#[$doc])*
        pub fn $name(fd: impl AsFd) -> io::Result<$argument> {
            // SAFETY: the call writes the structure that its number names, every value of which is valid.
            unsafe { ioctl::ioctl(fd, Getter::<$opcode, $argument>::new()) }
        }
    };
    (@set $(#[$doc:meta])* $name:ident, $opcode:ident, $argument:ty) => {
        $(#[$doc])*
        pub fn $name(fd: impl AsFd, argument: $argument) -> io::Result<()> {
            // SAFETY: the call reads the structure that its number names.
            unsafe { ioctl::ioctl(fd, Setter::<$opcode, $argument>::new(argument)) }
        }
    };
    (@update $(#[$doc:meta])* $name:ident, $opcode:ident, $argument:ty) => {
        $(#[$doc])*
        pub fn $name(fd: impl AsFd, argument: &mut $argument) -> io::Result<()> {
            // SAFETY: the call reads and writes the structure that its number names, every value of which is valid.
            unsafe { ioctl::ioctl(fd, Updater::<$opcode, $argument>::new(argument)) }
        }
    };
}

calls! {
    /// What the NIC is.
    get info(INFO, Info);
    /// Simulated time, nanoseconds.
    get now(NOW, u64);
    /// Says who the NIC is.
    set identity(IDENTITY, Identity);
    /// Says how a peer is reached.
    set peer(PEER, Peer);
    /// How the peer of a session is reached.
    update peer_get(PEER_GET, Peer);
    /// Says how a peer is reached, and with which keys its session is sealed.
    set sealed_peer(SEALED_PEER, SealedPeer);
    /// Gives a sealed session its next key.
    set keys(KEYS, Keys);
    /// What was sent to a peer with one key.
    update frames(FRAMES, Frames);
    /// Asks for an event when all stores so far have arrived.
    set mark(MARK, Mark);
    /// Has the processor be busy, nanoseconds.
    set charge(CHARGE, u32);
    /// Shares a part of a region.
    update export(EXPORT, Export);
    /// Takes a key back.
    set revoke(REVOKE, u32);
    /// Whether arrivals are counted.
    set arm(ARM, u32);
    /// Waits for a change.
    set wait(WAIT, Wait);
    /// Size of a region.
    get bytes(BYTES, u64);
    /// Waits until all stores so far have arrived.
    set flush(FLUSH, Flush);
}

/// Gives a window's pages back.
pub fn unmap(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: the call has no argument.
    unsafe { ioctl::ioctl(fd, ioctl::NoArg::<UNMAP>::new()) }
}

fn taken(fd: i32) -> OwnedFd {
    // SAFETY: the driver has just made it for this process, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// New memory: the descriptor, its number and its size.
pub fn region(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<(OwnedFd, u64, u64)> {
    let mut region = Region {
        bytes,
        ..Region::default()
    };
    // SAFETY: as for the calls above.
    unsafe { ioctl::ioctl(fd, Updater::<REGION, Region>::new(&mut region)) }?;
    Ok((taken(region.fd), region.id, region.bytes))
}

/// A window as `wanted`.
pub fn window(fd: BorrowedFd<'_>, mut wanted: Window) -> io::Result<OwnedFd> {
    // SAFETY: as for the calls above.
    unsafe { ioctl::ioctl(fd, Updater::<WINDOW, Window>::new(&mut wanted)) }?;
    Ok(taken(wanted.fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const HEADER: &str = include_str!("../../../../../linux/ipnuma/ipnuma_uapi.h");

    /// Bytes of a type of the header.
    fn size(name: &str, structures: &HashMap<String, usize>) -> usize {
        match name.trim_start_matches("__") {
            "u8" => 1,
            "u16" => 2,
            "u32" | "s32" => 4,
            "u64" | "s64" => 8,
            other => structures[other.trim_start_matches("struct ")],
        }
    }

    /// The header's structures; none of them has holes, or this would find other numbers than the compiler.
    fn structures() -> HashMap<String, usize> {
        let mut all = HashMap::new();
        let mut lines = HEADER.lines();
        while let Some(line) = lines.next() {
            let Some(name) = line
                .strip_prefix("struct ")
                .and_then(|rest| rest.strip_suffix(" {"))
            else {
                continue;
            };
            let fields = lines.by_ref().take_while(|line| *line != "};");
            let bytes = fields
                .filter_map(|line| line.trim_start().split_once(';'))
                .filter_map(|(field, _)| field.rsplit_once(' '))
                .map(|(kind, name)| {
                    let many = name.split_once('[').map_or(1, |(_, count)| {
                        let count = count.trim_end_matches(']');
                        count.parse().expect("a number")
                    });
                    many * size(kind, &all)
                })
                .sum();
            all.insert(name.to_owned(), bytes);
        }
        all
    }

    #[test]
    fn calls_are_those_of_the_driver() {
        let structures = structures();
        let ours = HashMap::from([
            ("INFO", INFO),
            ("NOW", NOW),
            ("IDENTITY", IDENTITY),
            ("PEER", PEER),
            ("PEER_GET", PEER_GET),
            ("REGION", REGION),
            ("WINDOW", WINDOW),
            ("MARK", MARK),
            ("CHARGE", CHARGE),
            ("SEALED_PEER", SEALED_PEER),
            ("KEYS", KEYS),
            ("FRAMES", FRAMES),
            ("EXPORT", EXPORT),
            ("REVOKE", REVOKE),
            ("ARM", ARM),
            ("WAIT", WAIT),
            ("BYTES", BYTES),
            ("FLUSH", FLUSH),
            ("UNMAP", UNMAP),
        ]);
        let mut seen = 0;
        for line in HEADER.lines() {
            let Some(rest) = line.strip_prefix("#define IPNUMA_") else {
                continue;
            };
            let Some((name, call)) = rest.split_once(" _IO") else {
                continue;
            };
            let (direction, arguments) = call.split_once('(').expect("a call");
            let arguments = arguments.trim_end_matches(')');
            let (number, bytes) = match arguments.split(", ").collect::<Vec<_>>()[..] {
                [_, number] => (number, 0),
                [_, number, kind] => (number, size(kind, &structures) as u32),
                _ => panic!("{line}"),
            };
            // As linux/ioctl.h has it on x86-64 and aarch64.
            let direction: u32 = match direction {
                "" => 0,
                "W" => 1,
                "R" => 2,
                "WR" => 3,
                other => panic!("_IO{other}"),
            };
            let number: u32 = number.parse().expect("a number");
            let wanted = direction << 30 | bytes << 16 | u32::from(MAGIC) << 8 | number;
            assert_eq!(ours[name], wanted, "{line}");
            seen += 1;
        }
        assert_eq!(seen, ours.len());
    }

    #[test]
    fn numbers_are_those_of_the_driver() {
        let lines = HEADER
            .lines()
            .filter_map(|line| line.strip_prefix("#define IPNUMA_"));
        let theirs: HashMap<_, _> = lines
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                Some((words.next()?, words.next()?.parse::<u32>().ok()?))
            })
            .collect();
        for (name, ours) in [
            ("ABI", ABI),
            ("LINK_UP", info::LINK_UP),
            ("FROZEN", info::FROZEN),
            ("SEALS", info::SEALS),
            ("PEER_VALID", peer::VALID.into()),
            ("PEER_COMPACT", peer::COMPACT.into()),
            ("PEER_LOST", peer::LOST.into()),
            ("PEER_SEALED", peer::SEALED.into()),
            ("EXPORT_SEALED", EXPORT_SEALED),
            ("KEY_WORDS", KEY_WORDS as u32),
            ("STATE_LOST", status::LOST),
            ("STATE_REVOKED", status::REVOKED),
            ("BAD_KEY", event::BAD_KEY),
            ("BAD_BOUNDS", event::BAD_BOUNDS),
            ("LOST", event::LOST),
            ("FLUSHED", event::FLUSHED),
            ("FLUSH_FAILED", event::FLUSH_FAILED),
            ("LINK_IS_DOWN", event::LINK_DOWN),
            ("LINK_IS_UP", event::LINK_UP),
            ("EVENTS_LOST", event::EVENTS_LOST),
        ] {
            assert_eq!(theirs.get(name), Some(&ours), "IPNUMA_{name}");
        }
    }
}
