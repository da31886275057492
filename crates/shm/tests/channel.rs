// SPDX-License-Identifier: Apache-2.0
//! Channels: two ends, their rings, flags and locks; and memory that is none.

use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use std::sync::Arc;

use shm::channel::{Carrier, Channel, End, Reentered, armed, attach, bytes, flags};
use shm::memory::{Access, Mapping, PAGE};

#[test]
fn both_ways() {
    let (_, fd) = Channel::create(64).expect("there is memory");
    let client = attach(fd.as_fd(), 0).expect("it is a channel");
    let server = attach(fd.as_fd(), 1).expect("it is a channel");
    assert_eq!(client.channel().lines(), 64);
    for round in 0..1000u32 {
        let long = vec![round as u8; round as usize % 900];
        client
            .sender()
            .try_send(0, &[&long])
            .expect("there is room");
        server
            .sender()
            .try_send(1, &[&round.to_le_bytes()])
            .expect("there is room");
        let mut into = vec![0; 1000];
        let (count, _) = server.receiver().read(0, &mut into);
        assert_eq!(&into[..count], &long[..]);
        if long.is_empty() {
            server.receiver().release();
        }
        let receiver = client.receiver();
        let message = receiver.peek().expect("there is one");
        assert_eq!(
            (message.kind(), message.to_vec()),
            (1, round.to_le_bytes().to_vec())
        );
        client.receiver().release();
    }
    assert_eq!(server.peer().sender.messages.load(Ordering::Relaxed), 1000);
}

#[test]
fn both_ends_are_armed_at_first() {
    let (_, fd) = Channel::create(8).expect("there is memory");
    let end = attach(fd.as_fd(), 0).expect("it is a channel");
    assert!(end.peer_armed(armed::DATA) && end.peer_armed(armed::SPACE));
    let peer = attach(fd.as_fd(), 1).expect("it is a channel");
    peer.disarm(armed::DATA);
    assert!(!end.peer_armed(armed::DATA) && end.peer_armed(armed::SPACE));
    peer.arm(armed::DATA);
    assert!(end.peer_armed(armed::DATA));
    assert_eq!(end.peer_flags().load(Ordering::Relaxed), flags::ATTACHED);
    assert_eq!(end.peer().pid.load(Ordering::Relaxed), std::process::id());
}

#[test]
fn the_other_machine_is_told_a_reset_of_an_end_that_was_broken_off_and_that_had_not_ended_by_itself()
 {
    let channel = Arc::new(Channel::create(8).expect("there is memory").0);
    let (end, carrier) = (End::new(channel.clone(), 1), Carrier::new(channel, 1));
    let told = |own: u32| {
        end.flags().store(own, Ordering::Release);
        carrier.words().flags
    };
    let (came, gone) = (flags::ATTACHED, flags::CLOSED);
    assert_eq!(told(came), came);
    assert_eq!(told(came | flags::REVOKED), came | flags::RESET);
    assert_eq!(
        told(came | gone | flags::REVOKED),
        came | gone | flags::RESET
    );
    // What it has said in order stays said, whatever came afterwards.
    let ended = came | flags::FIN;
    assert_eq!(told(ended | flags::REVOKED), ended);
}

#[test]
fn other_memory_is_refused() {
    for size in [PAGE, bytes(8) + PAGE, bytes(8) - 64, 2 * PAGE] {
        let fd = shm::memory::create("test", size).expect("there is memory");
        assert!(Channel::map(&fd).is_err(), "{size} bytes");
    }
    assert!(
        Channel::create(7).is_err()
            && Channel::create(0).is_err()
            && Channel::create(1 << 30).is_err()
    );
    // What could shrink under its mapping is refused whatever its size.
    let unsealed = tempfile::tempfile().expect("there is a directory for temporary files");
    unsealed.set_len(bytes(8) as u64).expect("there is room");
    assert!(Channel::map(&unsealed).is_err());
}

#[test]
fn mappings_stay_inside() {
    let fd = shm::memory::create("test", 2 * PAGE).expect("there is memory");
    assert!(Mapping::new(&fd, PAGE, PAGE + 1, Access::Read).is_err());
    assert!(Mapping::new(&fd, 0, 0, Access::Read).is_err());
    assert!(Mapping::new(&fd, usize::MAX - 1, 4, Access::Read).is_err());
    let mapping = Mapping::reserve(2 * PAGE).expect("there are addresses");
    assert!(mapping.place(PAGE, &fd, 0, 2 * PAGE, Access::Read).is_err());
    mapping
        .place(PAGE, &fd, 0, PAGE, Access::ReadWrite)
        .expect("it fits");
    // SAFETY: just mapped writable.
    unsafe { mapping.as_ptr().add(PAGE).write(5) };
    let other = Mapping::whole(&fd, Access::Read).expect("it is sealed");
    // SAFETY: mapped readable.
    assert_eq!(unsafe { other.as_ptr().read() }, 5);
}

#[test]
fn a_read_only_descriptor_cannot_be_written_however_it_is_opened() {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    let fd = shm::memory::create_sealable("test", PAGE).expect("there is memory");
    let owner = Mapping::whole(&fd, Access::ReadWrite).expect("it is not sealed yet");
    let weak = shm::memory::read_only(&fd).expect("/proc is there");
    let seen = Mapping::whole(&weak, Access::Read).expect("it may be read");
    let error = Mapping::whole(&weak, Access::ReadWrite).expect_err("it is read-only");
    assert!([1, 13].contains(&error.errno()), "{error}");
    // The attack: the same file, opened anew.
    let path = format!("/proc/self/fd/{}", weak.as_raw_fd());
    if let Ok(strong) = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Mapping::whole(&strong, Access::ReadWrite).expect_err("a reader could write");
        let written = rustix::io::pwrite(&strong, b"x", 0);
        assert_eq!(
            written,
            Err(rustix::io::Errno::PERM),
            "a reader could write"
        );
        rustix::fs::fallocate(
            &strong,
            rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE,
            0,
            PAGE as u64,
        )
        .expect_err("a reader could empty it");
    }
    // Who had mapped it before goes on.
    // SAFETY: mapped writable above, and as long as `owner` lives.
    unsafe { owner.as_ptr().add(8).write(7) };
    // SAFETY: mapped readable.
    assert_eq!(unsafe { seen.as_ptr().add(8).read() }, 7);
    shm::memory::read_only(&fd).expect("a second reader is welcome");
}

#[test]
fn the_lock_excludes() {
    let (_, fd) = Channel::create(8).expect("there is memory");
    let end = attach(fd.as_fd(), 0).expect("it is a channel");
    let busy = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5000 {
                    let guard = end.lock_sender().expect("not held by this thread");
                    assert!(!busy.swap(true, Ordering::Relaxed));
                    busy.store(false, Ordering::Relaxed);
                    drop(guard);
                }
            });
        }
    });
    let held = end.lock_sender().expect("nobody holds it");
    assert_eq!(end.lock_sender().err(), Some(Reentered));
    drop(held);
    assert!(!end.own().tx.is_locked());
}

#[test]
fn the_lock_of_a_dead_thread_is_taken_over() {
    let (_, fd) = Channel::create(8).expect("there is memory");
    let end = attach(fd.as_fd(), 0).expect("it is a channel");
    std::thread::scope(|scope| {
        let dying = scope.spawn(|| std::mem::forget(end.lock_receiver()));
        dying.join().expect("it forgets the guard and ends");
    });
    assert!(end.own().rx.is_locked());
    drop(end.lock_receiver().expect("its owner is dead"));
    assert!(!end.own().rx.is_locked());
}

/// A word in memory that a child shares.
struct Shared(Mapping);

impl Shared {
    fn new() -> Self {
        let fd = shm::memory::create("test", PAGE).expect("there is memory");
        Self(Mapping::whole(&fd, Access::ReadWrite).expect("it is sealed"))
    }

    fn word(&self) -> &std::sync::atomic::AtomicU32 {
        // SAFETY: mapped as long as `self` lives, and aligned.
        unsafe { std::sync::atomic::AtomicU32::from_ptr(self.0.as_ptr().cast()) }
    }

    fn set(&self, value: u32) {
        self.word().store(value, Ordering::SeqCst);
    }

    fn until(&self, value: u32) {
        while self.word().load(Ordering::SeqCst) != value {
            std::thread::yield_now();
        }
    }
}

/// Makes a child in a pid namespace of its own, as in a container, which does something and waits to be killed. `None`: this
/// machine lets nobody make one.
fn contained(act: impl FnOnce()) -> Option<impl FnOnce()> {
    let state = Shared::new();
    // SAFETY: the children make no use of what other threads of this process may hold.
    unsafe {
        let outer = libc::fork();
        if outer == 0 {
            let alone = libc::unshare(libc::CLONE_NEWPID) == 0
                || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) == 0;
            state.set(if alone { 1 } else { 2 });
            if !alone {
                libc::_exit(0);
            }
            let inner = libc::fork();
            if inner == 0 {
                // In two steps from the process that runs the test.
                shm::channel::forked();
                shm::channel::forked();
                assert_eq!(libc::getpid(), 1);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                act();
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(inner, &raw mut status, 0);
            libc::_exit(0);
        }
        while state.word().load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let refused = state.word().load(Ordering::SeqCst) == 2;
        let end = move || {
            let mut status = 0;
            libc::kill(outer, libc::SIGKILL);
            libc::waitpid(outer, &raw mut status, 0);
        };
        if refused {
            end();
            eprintln!("skipped: this machine gives nobody a pid namespace");
            return None;
        }
        Some(end)
    }
}

/// Nobody outside has the owner's number there, and nobody there the one of an owner outside.
#[test]
fn who_holds_a_lock_lives_whatever_its_number_is_elsewhere() {
    let (_, fd) = Channel::create(8).expect("there is memory");
    let end = attach(fd.as_fd(), 0).expect("it is a channel");
    let (tells, asks) = (Shared::new(), Shared::new());
    let guard = end.lock_sender().expect("nobody holds it");
    let Some(kill) = contained(|| {
        tells.set(1);
        let taken = end.lock_sender().expect("not held by this thread");
        // Only once it was let go.
        tells.set(if asks.word().load(Ordering::SeqCst) == 1 {
            2
        } else {
            3
        });
        drop(taken);
        asks.until(2);
    }) else {
        return;
    };
    tells.until(1);
    // Long enough for it to look some times.
    std::thread::sleep(std::time::Duration::from_millis(50));
    asks.set(1);
    drop(guard);
    while tells.word().load(Ordering::SeqCst) == 1 {
        std::thread::yield_now();
    }
    assert_eq!(
        tells.word().load(Ordering::SeqCst),
        2,
        "the lock was taken from a process that lives"
    );
    kill();
}

#[test]
fn the_lock_of_a_dead_container_is_taken_over() {
    let (_, fd) = Channel::create(8).expect("there is memory");
    let end = attach(fd.as_fd(), 0).expect("it is a channel");
    let (tells, never) = (Shared::new(), Shared::new());
    let Some(kill) = contained(|| {
        let _held = end.lock_sender().expect("nobody holds it");
        tells.set(1);
        never.until(1);
    }) else {
        return;
    };
    tells.until(1);
    kill();
    // Its number, 1, is that of a living process here.
    let taken = end.lock_sender().expect("not held by this thread");
    assert!(taken.is_inherited());
}

#[test]
fn a_child_is_no_stand_in_for_its_parent() {
    // A process holds the lock and dies; its child lives on, with all the descriptors.
    let (_, fd) = Channel::create(8).expect("there is memory");
    let end = attach(fd.as_fd(), 0).expect("it is a channel");
    let tells = Shared::new();
    drop(end.lock_sender().expect("nobody holds it"));
    // SAFETY: the children make no use of what other threads of this process may hold.
    unsafe {
        let parent = libc::fork();
        if parent == 0 {
            shm::channel::forked();
            let held = end.lock_sender().expect("nobody holds it");
            if libc::fork() == 0 {
                shm::channel::forked();
                tells.set(1);
                tells.until(2);
                libc::_exit(0);
            }
            tells.until(1);
            std::mem::forget(held);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(parent, &raw mut status, 0);
    }
    assert!(
        end.lock_sender()
            .expect("not held by this thread")
            .is_inherited()
    );
    tells.set(2);
}
