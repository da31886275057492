// SPDX-License-Identifier: Apache-2.0
//! A look at what NICs in software send to each other.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with};
use wire::{SEAL_MAGIC, TLP_MAGIC, UDP_PORT};

/// IPv4 without options, and UDP.
const HEADERS: usize = 28;
/// Of an IPv4 header: the protocol, the sender; of a UDP header behind it: the port.
const PROTOCOL: usize = 9;
const SENDER: usize = 12;
const PORT: usize = 22;
const UDP: u8 = 17;
/// First byte of a payload in the clear: the compact format has its upper four bits, the other one the letters NM.
const COMPACT: u8 = 0xC0;
const COMPACT_LAST: u8 = 0xCF;
const TLP: u8 = TLP_MAGIC.to_be_bytes()[0];
/// Of so many frames one may be bent so that it looks like the other kind.
const BENT: u64 = 10_000;
/// How soon it is seen that nobody wants to look any more.
const SOON: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// How long a frame may be on its way from the sender to whoever looks.
const LATE: Duration = Duration::from_millis(50);

/// Looks at every frame of some machines, from its start to its end.
pub struct Tap {
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Seen>>,
}

/// Frames that were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Sealed.
    pub sealed: u64,
    /// In the clear.
    pub clear: u64,
    /// Neither: a network of a test bends some.
    pub bent: u64,
}

impl Tap {
    /// Looks from now on at what machines at these addresses send, in the network namespace of this thread.
    ///
    /// # Errors
    /// If this is not allowed.
    pub fn start(machines: &[Ipv4Addr]) -> io::Result<Self> {
        let machines = machines.to_vec();
        let socket = socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(eth::ALL),
        )?;
        only_ours(&socket)?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || look(&socket, &machines, &ends));
        Ok(Self { over, thread })
    }

    /// What was seen.
    ///
    /// # Panics
    /// If the kernel has nothing to see any more.
    #[must_use]
    pub fn end(self) -> Seen {
        std::thread::sleep(LATE);
        self.over.store(true, Ordering::Release);
        let seen = self.thread.join().expect("it does not panic");
        seen.expect("the socket was good before")
    }
}

impl Seen {
    /// The same without those of a network that bends one frame in two hundred: of two hundred thousand one looks like the other
    /// kind now and then.
    #[must_use]
    pub fn without_bent(self) -> Self {
        let Self { sealed, clear, .. } = self;
        Self {
            sealed: sealed.saturating_sub(clear / BENT),
            clear: clear.saturating_sub(sealed / BENT),
            bent: 0,
        }
    }

    /// Whether all was sealed, or, where tests run in the clear, nothing.
    ///
    /// # Errors
    /// A sentence that says what was seen.
    pub fn verify(self) -> Result<(), String> {
        let Self { sealed, clear, .. } = self;
        let (wanted, other) = match crate::plain() {
            false => (sealed, clear),
            true => (clear, sealed),
        };
        if wanted == 0 || other > 0 {
            return Err(format!(
                "{sealed} frames between the machines were sealed, and {clear} in the clear"
            ));
        }
        Ok(())
    }
}

/// Has the kernel leave out all but UDP to the NICs' port: this machine may be busy with other things.
fn only_ours(socket: &OwnedFd) -> io::Result<()> {
    let load = |size: u32, at: usize| (libc::BPF_LD | size | libc::BPF_ABS, 0, at as u32);
    let unless = |value: u32, skip: u8| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip, value);
    let answer = |bytes: u32| (libc::BPF_RET | libc::BPF_K, 0, bytes);
    let program = [
        load(libc::BPF_B, PROTOCOL),
        unless(u32::from(UDP), 3),
        load(libc::BPF_H, PORT),
        unless(u32::from(UDP_PORT), 1),
        answer(HEADERS as u32 + 1),
        answer(0),
    ];
    let mut program = program.map(|(code, jf, k)| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    });
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the socket is open, the filter and its program are lent to the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn look(socket: &OwnedFd, machines: &[Ipv4Addr], over: &AtomicBool) -> io::Result<Seen> {
    let (mut seen, mut bytes) = (Seen::default(), [0; HEADERS + 1]);
    loop {
        // Before what is there is taken: nothing that came earlier is left.
        let last = over.load(Ordering::Acquire);
        loop {
            match recv(socket, &mut bytes, RecvFlags::empty()) {
                Ok((count, _)) => count_in(&mut seen, &bytes[..count], machines),
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if last {
            return Ok(seen);
        }
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&SOON)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn count_in(seen: &mut Seen, packet: &[u8], machines: &[Ipv4Addr]) {
    let Some(first) = packet.get(HEADERS) else {
        return;
    };
    if !machines
        .iter()
        .any(|it| packet[SENDER..SENDER + 4] == it.octets())
    {
        return;
    }
    match *first {
        SEAL_MAGIC => seen.sealed += 1,
        COMPACT..=COMPACT_LAST | TLP => seen.clear += 1,
        _ => seen.bent += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Ipv4Addr = Ipv4Addr::new(127, 88, 1, 7);

    #[test]
    fn what_is_in_the_clear_is_told_from_what_is_sealed() {
        let tap = match Tap::start(&[US]) {
            Ok(tap) => tap,
            Err(error) => {
                skip::skip!("no right to look at packets: {error}");
                return;
            }
        };
        let socket = std::net::UdpSocket::bind((US, 0)).expect("an address of this machine");
        let to = (Ipv4Addr::new(127, 88, 1, 8), UDP_PORT);
        let other = (Ipv4Addr::new(127, 88, 1, 8), UDP_PORT + 1);
        for (payload, to) in [
            (&[SEAL_MAGIC, 0, 1][..], to),
            (&[0xC0, 0][..], to),
            (b"NM", other),
        ] {
            // Nobody has the port, which the second one is told of.
            let _ = socket.send_to(payload, to);
            let _ = socket.send_to(payload, to);
        }
        let seen = tap.end();
        // Loopback shows what goes out, and what comes in.
        assert!(seen.sealed > 0 && seen.sealed == seen.clear, "{seen:?}");
        assert!(seen.verify().is_err());
        let sealed = Seen { clear: 0, ..seen };
        assert_eq!(sealed.verify().is_ok(), !crate::plain());
        assert!(Seen::default().verify().is_err());
    }
}
