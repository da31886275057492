// SPDX-License-Identifier: Apache-2.0
//! From descriptor numbers to open descriptions.
//!
//! A look-up of a number that is not ours is one load. One that is ours takes a user count, so that a concurrent close
//! never frees what another thread works with: descriptions live in memory that is used again but never given back, and
//! a count is only raised from above zero.
//!
//! As in the kernel, several numbers may refer to one description (dup), and what the description is may be decided
//! late: a socket is [`Object::Pending`] until listen, connect or bind says what it becomes, and epoll sets that it was
//! added to before see the change, because the description stays the same.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::inside::Inside;
use crate::latch::Latch;
use crate::object::Object;
use crate::ready::Waiters;

/// Numbers above this are passed through (the kernel's own usual limit, fs.nr_open).
pub const LIMIT: usize = 1 << 20;

static TABLE: [AtomicPtr<Description>; LIMIT] = [const { AtomicPtr::new(ptr::null_mut()) }; LIMIT];
/// One more than the largest number ever installed: bounds walks over the table.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static FREE: Latch<FreeList> = Latch::new(FreeList(ptr::null_mut()));

/// Threads that are changing the table or what a description is; with [`FORK`], they wait for a fork.
static CHANGES: AtomicU32 = AtomicU32::new(0);
const FORK: u32 = 1 << 31;

/// Changes something that a forked child gets a copy of. A fork counts the child on for each connection in the table: so
/// none may come or go between the counting and the copy.
#[inline]
fn change<R>(what: impl FnOnce() -> R) -> R {
    let mut now = CHANGES.load(Ordering::Relaxed);
    loop {
        if now & FORK != 0 {
            rustix::thread::sched_yield();
            now = CHANGES.load(Ordering::Relaxed);
            continue;
        }
        let next = now + 1;
        match CHANGES.compare_exchange_weak(now, next, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => now = other,
        }
    }
    let result = what();
    CHANGES.fetch_sub(1, Ordering::Release);
    result
}

struct FreeList(*mut Description);
// SAFETY: descriptions on the list belong to nobody else; the list is behind a lock.
unsafe impl Send for FreeList {}

/// An open file description that the library knows.
#[repr(align(128))]
pub struct Description {
    count: AtomicU32,
    fds: AtomicU32,
    stage: AtomicU8,
    id: AtomicU64,
    first: UnsafeCell<Option<Object>>,
    second: UnsafeCell<Option<Object>>,
    next_free: UnsafeCell<*mut Description>,
    /// Who sleeps on it.
    pub waiters: Waiters,
    /// Calls that wait while it may be closed.
    pub inside: Inside,
}

// SAFETY: the cells are written only while nobody else can see them: `first` before the description is published,
// `second` before the stage says that it is there, both cleared when the count has gone to zero.
unsafe impl Sync for Description {}
// SAFETY: as above; objects are Send.
unsafe impl Send for Description {}

const FIRST: u8 = 0;
const CHANGING: u8 = 1;
const SECOND: u8 = 2;

impl Description {
    /// Unique in this process, never used again: tells a description from a later one under the same number.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// What the description is now.
    #[inline]
    pub fn object(&self) -> &Object {
        let cell = if self.stage.load(Ordering::Acquire) == SECOND {
            &self.second
        } else {
            &self.first
        };
        // SAFETY: see the Sync implementation; a caller holds a count, so the cells are not cleared meanwhile.
        match unsafe { &*cell.get() } {
            Some(object) => object,
            None => unreachable!("a counted description has an object"),
        }
    }

    /// Number of descriptors of this process that refer to it.
    #[inline]
    pub fn fds(&self) -> u32 {
        self.fds.load(Ordering::Relaxed)
    }

    /// Decides what a pending socket is. Only the first decision counts; a later one is given back.
    #[allow(
        clippy::result_large_err,
        reason = "it is the caller's own object that comes back"
    )]
    pub fn decide(&self, object: Object) -> Result<&Object, Object> {
        change(|| {
            if self
                .stage
                .compare_exchange(FIRST, CHANGING, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                return Err(object);
            }
            // SAFETY: only the winner of the exchange writes, and nobody reads before the store below.
            unsafe { *self.second.get() = Some(object) };
            self.stage.store(SECOND, Ordering::Release);
            Ok(self.object())
        })
    }
}

/// A counted reference to a description.
pub struct Ref(*const Description);

// SAFETY: a description is Sync.
unsafe impl Send for Ref {}
// SAFETY: as above.
unsafe impl Sync for Ref {}

impl Deref for Ref {
    type Target = Description;
    #[inline]
    fn deref(&self) -> &Description {
        // SAFETY: descriptions are never deallocated, and the count keeps this one in use.
        unsafe { &*self.0 }
    }
}

impl Clone for Ref {
    #[inline]
    fn clone(&self) -> Self {
        self.count.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            recycle(self.0);
        }
    }
}

#[cold]
fn recycle(description: *const Description) {
    // SAFETY: the count is zero, so nobody can obtain a reference any more until the description is used again.
    let (first, second) = unsafe {
        let description = &*description;
        let objects = (
            (*description.first.get()).take(),
            (*description.second.get()).take(),
        );
        description.stage.store(FIRST, Ordering::Relaxed);
        description.waiters.reset();
        description.inside.reset();
        objects
    };
    drop(second);
    drop(first);
    let mut free = FREE.lock();
    // SAFETY: as above.
    unsafe { *(*description).next_free.get() = free.0 };
    free.0 = description.cast_mut();
}

fn fresh(object: Object) -> *mut Description {
    let recycled = {
        let mut free = FREE.lock();
        let top = free.0;
        if !top.is_null() {
            // SAFETY: descriptions on the list are ours while the lock is held.
            free.0 = unsafe { *(*top).next_free.get() };
        }
        top
    };
    if recycled.is_null() {
        return Box::into_raw(Box::new(Description {
            count: AtomicU32::new(1),
            fds: AtomicU32::new(0),
            stage: AtomicU8::new(FIRST),
            id: AtomicU64::new(NEXT_ID.fetch_add(1, Ordering::Relaxed)),
            first: UnsafeCell::new(Some(object)),
            second: UnsafeCell::new(None),
            next_free: UnsafeCell::new(ptr::null_mut()),
            waiters: Waiters::new(),
            inside: Inside::new(),
        }));
    }
    // SAFETY: taken from the list, so it has no users: its count is zero and is raised last.
    unsafe {
        let description = &*recycled;
        *description.first.get() = Some(object);
        description.fds.store(0, Ordering::Relaxed);
        description
            .id
            .store(NEXT_ID.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        description.count.store(1, Ordering::Release);
    }
    recycled
}

#[inline]
fn slot(fd: RawFd) -> Option<&'static AtomicPtr<Description>> {
    TABLE.get(fd as u32 as usize)
}

/// The description behind a number, if it is one of ours.
#[inline]
pub fn get(fd: RawFd) -> Option<Ref> {
    let slot = slot(fd)?;
    if slot.load(Ordering::Relaxed).is_null() {
        return None;
    }
    counted(slot)
}

/// Whether a number is one of ours: one load.
#[inline]
pub fn known(fd: RawFd) -> bool {
    slot(fd).is_some_and(|slot| !slot.load(Ordering::Relaxed).is_null())
}

#[inline]
fn counted(slot: &AtomicPtr<Description>) -> Option<Ref> {
    loop {
        let pointer = slot.load(Ordering::Acquire);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: descriptions are never deallocated.
        let description = unsafe { &*pointer };
        let mut count = description.count.load(Ordering::Relaxed);
        while count != 0 {
            match description.count.compare_exchange_weak(
                count,
                count + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let reference = Ref(pointer);
                    // It may have been closed and used again between the two loads.
                    if slot.load(Ordering::Acquire) == pointer {
                        return Some(reference);
                    }
                    break;
                }
                Err(now) => count = now,
            }
        }
    }
}

/// Whether `fd` still refers to this description; asked after each sleep, for another thread may have closed it.
#[inline]
pub fn still(fd: RawFd, description: &Description) -> bool {
    slot(fd).is_some_and(|slot| ptr::eq(slot.load(Ordering::Relaxed), description))
}

/// What [`remove`] took out of the table.
pub struct Removed {
    /// The description.
    pub description: Ref,
    /// No other descriptor of this process refers to it.
    pub last: bool,
}

/// Enters a new description. A stale entry (the number was closed behind the library's back) is given back.
pub fn install(fd: RawFd, object: Object) -> (Option<Ref>, Option<Removed>) {
    let Some(slot) = slot(fd) else {
        return (None, None);
    };
    let pointer = fresh(object);
    let description = Ref(pointer);
    description.fds.store(1, Ordering::Relaxed);
    // One count for the table, one for the caller.
    std::mem::forget(description.clone());
    HIGHEST.fetch_max(fd as u32 + 1, Ordering::Relaxed);
    let displaced = taken(change(|| slot.swap(pointer, Ordering::AcqRel)));
    (Some(description), displaced)
}

/// A description that no descriptor of the table refers to.
pub(crate) fn detached(object: Object) -> Ref {
    Ref(fresh(object))
}

/// Makes `new` refer to the description behind `old`, as dup does. Gives back what `new` referred to.
pub fn duplicate(old: RawFd, new: RawFd) -> Option<Removed> {
    let slot = slot(new)?;
    let Some(description) = get(old) else {
        return taken(change(|| slot.swap(ptr::null_mut(), Ordering::AcqRel)));
    };
    description.fds.fetch_add(1, Ordering::Relaxed);
    let pointer = description.0.cast_mut();
    std::mem::forget(description);
    HIGHEST.fetch_max(new as u32 + 1, Ordering::Relaxed);
    taken(change(|| slot.swap(pointer, Ordering::AcqRel)))
}

/// Takes a number out of the table.
#[inline]
pub fn remove(fd: RawFd) -> Option<Removed> {
    let slot = slot(fd)?;
    if slot.load(Ordering::Relaxed).is_null() {
        return None;
    }
    taken(change(|| slot.swap(ptr::null_mut(), Ordering::AcqRel)))
}

fn taken(pointer: *mut Description) -> Option<Removed> {
    if pointer.is_null() {
        return None;
    }
    // The table's count goes over to this reference.
    let description = Ref(pointer);
    let last = description.fds.fetch_sub(1, Ordering::AcqRel) == 1;
    Some(Removed { description, last })
}

/// Calls `visit` for each number in the table.
pub fn each(mut visit: impl FnMut(RawFd, Ref)) {
    for fd in 0..HIGHEST.load(Ordering::Relaxed) as RawFd {
        if let Some(description) = get(fd) {
            visit(fd, description);
        }
    }
}

/// Before a fork: nobody is inside the table's lock when the child is made, and nothing changes until then.
pub fn before_fork() {
    FREE.acquire();
    CHANGES.fetch_or(FORK, Ordering::Acquire);
    while CHANGES.load(Ordering::Acquire) != FORK {
        rustix::thread::sched_yield();
    }
}

/// After a fork, in both processes.
pub fn after_fork() {
    CHANGES.fetch_and(!FORK, Ordering::Release);
    FREE.release();
}
