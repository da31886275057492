// SPDX-License-Identifier: Apache-2.0
//! Memory that stands for another machine's, with a log of what reached it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};

use trap::{Mapping, Quiet, Refused, Remote, Shape};

/// Bytes of the memory.
pub const BYTES: usize = 8192;
/// Accesses that are remembered.
const LOG: usize = 4096;

/// Another machine's memory. What is called in a handler neither allocates nor locks.
pub struct Elsewhere {
    bytes: [AtomicU8; BYTES],
    /// Offset, bytes, and whether it was a store.
    log: UnsafeCell<[(usize, usize, bool); LOG]>,
    logged: AtomicUsize,
    /// Stores and loads so far.
    pub stores: AtomicUsize,
    pub loads: AtomicUsize,
    /// Not 0: accesses are refused so.
    pub refuses: AtomicI32,
}

// SAFETY: the log is written by one access after the other: tests with several threads do not look at it.
unsafe impl Sync for Elsewhere {}

impl Elsewhere {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            bytes: [const { AtomicU8::new(0) }; BYTES],
            log: UnsafeCell::new([(0, 0, false); LOG]),
            logged: AtomicUsize::new(0),
            stores: AtomicUsize::new(0),
            loads: AtomicUsize::new(0),
            refuses: AtomicI32::new(0),
        })
    }

    pub fn map(self: &Arc<Self>, shape: Shape) -> Mapping {
        Mapping::new(Arc::clone(self) as Arc<dyn Remote>, shape).expect("addresses")
    }

    pub fn whole(self: &Arc<Self>) -> Mapping {
        self.map(Shape {
            bytes: BYTES,
            readable: true,
            writable: true,
            ..Shape::default()
        })
    }

    pub fn get(&self, offset: usize, into: &mut [u8]) {
        for (byte, from) in into.iter_mut().zip(&self.bytes[offset..]) {
            *byte = from.load(Ordering::Relaxed);
        }
    }

    pub fn set(&self, offset: usize, bytes: &[u8]) {
        for (byte, to) in bytes.iter().zip(&self.bytes[offset..]) {
            to.store(*byte, Ordering::Relaxed);
        }
    }

    pub fn word(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.get(offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// What was accessed since the last time: offset, bytes, and whether it was a store.
    pub fn log(&self) -> Vec<(usize, usize, bool)> {
        let _quiet = Quiet::begin();
        let count = self.logged.swap(0, Ordering::Relaxed);
        // SAFETY: nobody else accesses it meanwhile.
        unsafe { (&(*self.log.get()))[..count.min(LOG)].to_vec() }
    }

    fn note(&self, offset: usize, bytes: usize, store: bool) -> Result<(), Refused> {
        let count = match store {
            true => &self.stores,
            false => &self.loads,
        };
        count.fetch_add(1, Ordering::Relaxed);
        match self.refuses.load(Ordering::Relaxed) {
            0 => {}
            1 => return Err(Refused::Revoked),
            2 => return Err(Refused::Lost),
            other => return Err(Refused::Failed(other)),
        }
        let place = self.logged.fetch_add(1, Ordering::Relaxed) % LOG;
        // SAFETY: see `Sync`; with several threads each place is one thread's.
        unsafe { (*self.log.get())[place] = (offset, bytes, store) };
        Ok(())
    }
}

impl Remote for Elsewhere {
    fn store(&self, offset: usize, bytes: &[u8]) -> Result<(), Refused> {
        self.note(offset, bytes.len(), true)?;
        self.set(offset, bytes);
        Ok(())
    }

    fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), Refused> {
        self.note(offset, into.len(), false)?;
        self.get(offset, into);
        Ok(())
    }

    fn state(&self) -> Result<(), Refused> {
        match self.refuses.load(Ordering::Relaxed) {
            1 => Err(Refused::Revoked),
            2 => Err(Refused::Lost),
            _ => Ok(()),
        }
    }
}

/// The calls by which a process copies from and to memory that it may not have.
pub const COPIES: [libc::c_long; 2] = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];

/// Runs something in a thread for which some calls fail, as in a kernel without them or behind a filter.
pub fn denied(errno: i32, calls: &[libc::c_long], run: impl FnOnce() + Send) {
    let rule = |code: u32, k: u32, jt: usize, jf: u8| libc::sock_filter {
        code: code as u16,
        jt: jt as u8,
        jf,
        k,
    };
    let mut rules = vec![rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (place, call) in calls.iter().enumerate() {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        rules.push(rule(equal, *call as u32, calls.len() - place, 0));
    }
    let give = libc::BPF_RET | libc::BPF_K;
    rules.push(rule(give, libc::SECCOMP_RET_ALLOW, 0, 0));
    rules.push(rule(give, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            let program = libc::sock_fprog {
                len: rules.len() as u16,
                filter: rules.as_mut_ptr(),
            };
            // SAFETY: both are about the calling thread, and the rules are there.
            unsafe {
                assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                let mode = libc::SECCOMP_MODE_FILTER;
                let set = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program);
                assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
                for call in calls {
                    assert_eq!(libc::syscall(*call, 0, 0, 0, 0, 0, 0), -1);
                    let error = std::io::Error::last_os_error();
                    assert_eq!(error.raw_os_error(), Some(errno), "call {call}");
                }
            }
            run();
        });
        thread.expect("a thread").join().expect("no panic");
    });
}
