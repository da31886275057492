// SPDX-License-Identifier: Apache-2.0
//! A process that shares an end of a channel dies in the middle of a call, after any of its instructions; another one that
//! shares the end goes on. No message is lost, doubled or made up, and nobody stalls.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use shm::channel::{Channel, End, attach};
use shm::memory::{Access, Mapping, PAGE};

/// Lines of the rings: the fewest, so that little is needed to come to their end.
const LINES: u32 = 8;
/// The longest message, two lines of such a ring.
const LONG: usize = 64;

/// Sends as the socket library does; whether there was room.
fn send(end: &End, message: &[u8]) -> bool {
    let _guard = end.lock_sender().expect("not held by this thread");
    end.sender().try_send(0, &[message]).is_ok()
}

/// Reads as it does; how much there was.
fn read(end: &End, into: &mut [u8]) -> usize {
    let _guard = end.lock_receiver().expect("not held by this thread");
    end.receiver().read(0, into).0
}

/// What a death leaves: the channel's memory, and a word of the test's.
#[derive(PartialEq, Clone)]
struct Left {
    memory: Vec<u8>,
    word: u64,
    /// The call was over.
    ended: bool,
}

impl Left {
    /// The ends of a channel as it was left. Who held its locks is dead by now.
    fn ends(&self) -> [End; 2] {
        let memory = shm::memory::create("test", self.memory.len()).expect("there is memory");
        rustix::io::pwrite(&memory, &self.memory, 0).expect("it has room");
        [0, 1].map(|half| attach(memory.as_fd(), half).expect("it is a channel"))
    }
}

/// Lets a child do something and looks at what it would leave if it died, after each of its instructions.
fn deaths(ends: &[End; 2], word: &AtomicU64, act: impl FnOnce()) -> Vec<Left> {
    let memory = || {
        let channel = ends[0].channel();
        let mut bytes = vec![0; shm::channel::bytes(channel.lines())];
        let first = std::ptr::from_ref(channel.control(0)).cast();
        // SAFETY: the channel's memory begins with its first half; the child is stopped.
        unsafe { shm::ring::copy_out(first, bytes.as_mut_ptr(), bytes.len()) };
        bytes
    };
    // SAFETY: the child makes no use of what other threads may hold: `act` works on shared memory alone.
    let child = unsafe { libc::fork() };
    if child == 0 {
        shm::channel::forked();
        // SAFETY: the child's parent is this test; it stops itself until it is let on.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::kill(libc::getpid(), libc::SIGSTOP);
        }
        act();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let wait = || {
        let mut status = 0;
        // SAFETY: the child is ours and was not waited for.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status
    };
    assert!(libc::WIFSTOPPED(wait()), "the child stops itself");
    let mut all: Vec<Left> = Vec::new();
    loop {
        let left = Left {
            memory: memory(),
            word: word.load(Ordering::Relaxed),
            ended: false,
        };
        if all.last() != Some(&left) {
            all.push(left);
        }
        // SAFETY: the child is stopped.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) };
        if !libc::WIFSTOPPED(wait()) {
            break;
        }
    }
    assert!(
        all.len() >= 4,
        "{} states: the child did nothing",
        all.len()
    );
    if let Some(last) = all.last_mut() {
        last.ended = true;
    }
    all
}

/// A channel in which so many lines of the ring from client to server have been used; two of each end.
fn channel(used: u32) -> [End; 2] {
    let (_, memory) = Channel::create(LINES).expect("there is memory");
    let ends = [0, 1].map(|half| attach(memory.as_fd(), half).expect("it is a channel"));
    for _ in 0..used {
        assert!(send(&ends[0], b"used"));
        assert_eq!(read(&ends[1], &mut [0; 8]), 4);
    }
    ends
}

/// Bytes that look like the tags of the lines in which they lie, wherever that is.
fn imitation(line: u32) -> Vec<u8> {
    let tag = u64::from(line + 1) | 8 << 32 | 0x5A << 56;
    tag.to_le_bytes().repeat(LONG / 8)
}

fn all(end: &End) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let _guard = end.lock_receiver().expect("not held by this thread");
    let mut receiver = end.receiver();
    while let Some(message) = receiver.peek() {
        all.push(message.to_vec());
        receiver.release();
    }
    assert!(!receiver.is_corrupt());
    all
}

/// The ring goes on, round for round.
fn goes_on(ends: &[End; 2], what: &str) {
    for round in 0..3 * LINES as u8 {
        let message = vec![round; if round % 3 == 0 { LONG } else { 5 }];
        assert!(send(&ends[0], &message), "{what}: no room in round {round}");
        assert_eq!(all(&ends[1]), [message], "{what}: round {round}");
    }
}

#[test]
fn a_sender_dies_anywhere() {
    for used in [0, 2, 5, 6, 7] {
        // The line in which a long message's body would be taken for a header, if its own is missing.
        let body = if used == 7 { 9 } else { used + 1 };
        for (message, taken_first) in [
            (b"dying".to_vec(), false),
            (b"dying".to_vec(), true),
            (imitation(body), false),
            (imitation(body), true),
        ] {
            let word = AtomicU64::new(0);
            let ends = channel(used);
            let all_left = deaths(&ends, &word, || {
                send(&ends[0], &message);
            });
            for (number, left) in all_left.iter().enumerate() {
                let ends = left.ends();
                let what = format!("{} bytes, line {used}, state {number}", message.len());
                let mut got = if taken_first {
                    all(&ends[1])
                } else {
                    Vec::new()
                };
                assert!(send(&ends[0], b"next"), "{what}");
                got.extend(all(&ends[1]));
                let (last, before) = got.split_last().expect("a message");
                assert_eq!(last, b"next", "{what}: {got:?}");
                assert!(
                    before.is_empty() && !left.ended || before == [message.clone()],
                    "{what}: {got:?}"
                );
                goes_on(&ends, &what);
            }
        }
    }
}

/// What a receiver that dies has taken, another does not get again; all that it has not, another gets.
#[test]
fn a_receiver_dies_anywhere() {
    let shared = shm::memory::create("test", PAGE).expect("there is memory");
    let shared = Mapping::whole(&shared, Access::ReadWrite).expect("it is sealed");
    // SAFETY: mapped as long as `shared` lives, and aligned.
    let before = unsafe { AtomicU64::from_ptr(shared.as_ptr().cast()) };
    for used in [0, 5, 7] {
        for bytes in [1, 30, 64, 100, 1000] {
            let ends = channel(used);
            let mut sent = Vec::new();
            for number in 0u8.. {
                let message: Vec<u8> = (0..if number % 2 == 0 { LONG } else { 20 })
                    .map(|index| index as u8 ^ (number << 6))
                    .collect();
                if !send(&ends[0], &message) {
                    break;
                }
                sent.extend(message);
            }
            // A call that is over: what it took is gone.
            let mut first = [0; 10];
            assert_eq!(read(&ends[1], &mut first), 10);
            before.store(10, Ordering::Relaxed);
            let all_left = deaths(&ends, before, || {
                let mut into = [0; 1000];
                let count = read(&ends[1], &mut into[..bytes]);
                before.store(10 + count as u64, Ordering::Relaxed);
            });
            for (number, left) in all_left.iter().enumerate() {
                let ends = left.ends();
                let what = format!("{bytes} bytes, line {used}, state {number}");
                let mut rest = vec![0; 2000];
                let count = read(&ends[1], &mut rest);
                let from = sent.len() - count;
                assert!(sent.ends_with(&rest[..count]), "{what}: other bytes");
                let least = left.word as usize;
                assert!(
                    (least..=sent.len().min(10 + bytes)).contains(&from),
                    "{what}: goes on at {from}, {least} were taken"
                );
                goes_on(&ends, &what);
            }
        }
    }
}
