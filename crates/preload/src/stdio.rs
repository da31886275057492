// SPDX-License-Identifier: Apache-2.0
//! stdio on sockets.
//!
//! The C library's streams call its own `read` and `write` from within, which no preloaded library sees. So a stream that is
//! made of a socket (`fdopen`) is one whose transfers are ours (`fopencookie`), and standard input, output and error are
//! exchanged for such streams when a socket comes under their numbers: at start in a program that was started with one
//! (inetd, socat, git daemon), and by `dup2`. They work by number, as the C library's do: when another file comes under the
//! number, they write to that one.
//!
//! What it does not do: wide characters (`fwide`) on such a stream, and a `FILE *stdout` that a program has copied into a
//! variable of its own before a socket came under its number.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use libc::{FILE, off64_t, size_t, ssize_t};
use socket::latch::Latch;
use socket::object::Object;
use socket::table;

use crate::next::next;
#[cfg(target_arch = "x86_64")]
use crate::variadic::variadic;
use crate::{data, descriptors, set_errno};

/// What `fopencookie` takes.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// The streams that are ours, with their descriptors.
static OURS: Latch<Vec<(usize, c_int)>> = Latch::new(Vec::new());
/// There is one.
static ANY: AtomicBool = AtomicBool::new(false);
/// The standard streams of 0, 1 and 2 that are ours.
static STANDARD: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];
/// Numbers whose standard streams are being exchanged.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// A cookie is the descriptor itself; one more, for null is none.
fn cookie(fd: c_int) -> *mut c_void {
    ptr::without_provenance_mut(fd as usize + 1)
}

fn number(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int - 1
}

unsafe extern "C" fn read(cookie: *mut c_void, buffer: *mut c_char, count: size_t) -> ssize_t {
    // SAFETY: the C library's buffer.
    unsafe { data::read(number(cookie), buffer.cast(), count) }
}

/// All of it, as the C library's own streams write; 0 is an error to it.
unsafe extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, count: size_t) -> ssize_t {
    let mut done = 0;
    while done < count {
        // SAFETY: inside of the C library's buffer.
        let more = unsafe { data::write(number(cookie), buffer.add(done).cast(), count - done) };
        if more <= 0 {
            break;
        }
        done += more as usize;
    }
    done as ssize_t
}

/// A socket has no place. What stands under a standard stream's number may be a file by now, and have one.
unsafe extern "C" fn seek(cookie: *mut c_void, place: *mut off64_t, whence: c_int) -> c_int {
    // SAFETY: the C library's word; the call says what is wrong with the rest.
    unsafe {
        let at = libc::lseek64(number(cookie), *place, whence);
        if at < 0 {
            return -1;
        }
        *place = at;
    }
    0
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    let fd = number(cookie);
    OURS.lock().retain(|(_, other)| *other != fd);
    if let Some(standard) = STANDARD.get(fd as usize) {
        standard.store(ptr::null_mut(), Ordering::Relaxed);
    }
    // SAFETY: as fclose(3).
    unsafe { descriptors::close(fd) }
}

/// A stream whose transfers are ours.
unsafe fn open(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions = Functions {
        read,
        write,
        seek,
        close,
    };
    // SAFETY: the mode is a text; the functions stay loaded as long as the process lives.
    let file = unsafe { fopencookie(cookie(fd), mode, functions) };
    if !file.is_null() {
        OURS.lock().push((file.addr(), fd));
        ANY.store(true, Ordering::Relaxed);
    }
    file
}

/// Whether the number is a TCP socket: connected ones are used by stdio, and one may become that later.
fn is_stream(fd: c_int) -> bool {
    table::get(fd).is_some_and(|description| match description.object() {
        Object::Stream(stream) => !stream.is_kernel(),
        Object::Pending(pending) => pending.kind == libc::SOCK_STREAM,
        Object::Lost(_) => true,
        _ => false,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if is_stream(fd) {
        // SAFETY: as fdopen(3).
        return unsafe { open(fd, mode) };
    }
    next!(fdopen(fd: c_int, mode: *const c_char) -> *mut FILE)
}

fn of(file: *mut FILE) -> Option<c_int> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let ours = OURS.lock();
    let found = ours.iter().find(|(other, _)| *other == file.addr());
    found.map(|(_, fd)| *fd)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fileno(file: *mut FILE) -> c_int {
    match of(file) {
        Some(fd) => fd,
        None => next!(fileno(file: *mut FILE) -> c_int),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fileno_unlocked(file: *mut FILE) -> c_int {
    match of(file) {
        Some(fd) => fd,
        None => next!(fileno_unlocked(file: *mut FILE) -> c_int),
    }
}

/// What `open` is told by a mode of `fopen`.
fn flags(mode: &[u8]) -> Option<c_int> {
    let has = |letter| mode.contains(&letter);
    let way = match (mode.first()?, has(b'+')) {
        (b'r' | b'w' | b'a', true) => libc::O_RDWR,
        (b'r', false) => libc::O_RDONLY,
        (b'w' | b'a', false) => libc::O_WRONLY,
        _ => return None,
    };
    let fresh = match mode[0] {
        b'w' => libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_CREAT | libc::O_APPEND,
        _ => 0,
    };
    let option = |letter, flag| if has(letter) { flag } else { 0 };
    Some(way | fresh | option(b'x', libc::O_EXCL) | option(b'e', libc::O_CLOEXEC))
}

/// Another file comes under the number of a stream of ours. The C library's own function takes no stream that it did not make of
/// a file; ours works by number, and stays what it is.
unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
    fd: c_int,
) -> *mut FILE {
    unsafe extern "C" {
        fn __fpurge(file: *mut FILE);
        fn __freadable(file: *mut FILE) -> c_int;
        fn __fwritable(file: *mut FILE) -> c_int;
    }
    // SAFETY: as freopen(3).
    unsafe {
        libc::fflush(file);
        __fpurge(file);
        let flags = flags(std::ffi::CStr::from_ptr(mode).to_bytes());
        let new = match flags {
            // A socket is not opened anew.
            Some(_) if path.is_null() => {
                set_errno(libc::ENXIO);
                -1
            }
            Some(flags) => libc::open(path, flags | libc::O_CLOEXEC, 0o666),
            None => {
                set_errno(libc::EINVAL);
                -1
            }
        };
        let way = flags.unwrap_or(0);
        let reads = way & libc::O_ACCMODE != libc::O_WRONLY;
        let writes = way & libc::O_ACCMODE != libc::O_RDONLY;
        if new < 0 {
            let why = *libc::__errno_location();
            descriptors::close(fd);
            set_errno(why);
            return ptr::null_mut();
        }
        if reads && __freadable(file) == 0 || writes && __fwritable(file) == 0 {
            // It goes the other way than the stream was made for.
            libc::fclose(file);
            return libc::fdopen(new, mode);
        }
        descriptors::dup3(new, fd, way & libc::O_CLOEXEC);
        libc::close(new);
        libc::clearerr(file);
        file
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    match of(file) {
        // SAFETY: as freopen(3).
        Some(fd) => unsafe { reopen(path, mode, file, fd) },
        None => {
            next!(freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    // SAFETY: as freopen(3); a file's length has 64 bits in any case.
    unsafe { freopen(path, mode, file) }
}

/// A descriptor has come under the number `fd`: if it is a socket and the number that of a standard stream, that one's
/// transfers are ours from now on.
pub fn came(fd: c_int) {
    let Some(standard) = STANDARD.get(fd as u32 as usize) else {
        return;
    };
    if !is_stream(fd)
        || !standard.load(Ordering::Relaxed).is_null()
        || socket::process::is_borrowed()
    {
        return;
    }
    let bit = 1 << fd;
    if BUSY.fetch_or(bit, Ordering::Acquire) & bit != 0 {
        return;
    }
    // SAFETY: the C library's variables, which programs may set, too.
    unsafe {
        let (place, mode) = match fd {
            0 => (&raw mut stdin, c"r"),
            1 => (&raw mut stdout, c"w"),
            _ => (&raw mut stderr, c"w"),
        };
        let file = open(fd, mode.as_ptr());
        if !file.is_null() {
            if fd == 2 {
                libc::setvbuf(file, ptr::null_mut(), libc::_IONBF, 0);
            }
            if fd > 0 {
                pass_on(*place, file);
            }
            standard.store(file, Ordering::Relaxed);
            *place = file;
        }
    }
    BUSY.fetch_and(!bit, Ordering::Release);
}

/// What the old stream has not written yet goes where the number leads now, as it would with the C library's.
unsafe fn pass_on(old: *mut FILE, new: *mut FILE) {
    unsafe extern "C" {
        fn __fpending(file: *mut FILE) -> size_t;
        fn __fpurge(file: *mut FILE);
    }
    if old.is_null() {
        return;
    }
    // SAFETY: the C library's stream, whose first words are the same in all its versions: programs of the first ones, whose
    // macros used them, still run.
    unsafe {
        let count = __fpending(old);
        if count > 0 {
            let base = *old.cast::<*const c_void>().add(WRITE_BASE);
            libc::fwrite(base, 1, count, new);
            __fpurge(old);
        }
    }
}

/// Words of a `FILE` before the beginning of what is to be written.
const WRITE_BASE: usize = 4;

/// At start: sockets that the program was started with.
pub fn start() {
    (0..3).for_each(came);
}

/// What is formatted goes by our write.
unsafe fn formatted(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    let mut text = ptr::null_mut();
    // SAFETY: as vdprintf(3).
    let length = unsafe { vasprintf(&raw mut text, format, arguments) };
    if length < 0 {
        return length;
    }
    // SAFETY: the text has that length.
    let written = unsafe { write(cookie(fd), text, length as usize) };
    // SAFETY: made by vasprintf.
    unsafe { libc::free(text.cast()) };
    if written == length as ssize_t {
        length
    } else {
        -1
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if fd < 0 {
        set_errno(libc::EBADF);
        return -1;
    }
    // SAFETY: as vdprintf(3): on the processors here a list of arguments is passed by its address.
    unsafe { formatted(fd, format, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    _how: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    // SAFETY: as vdprintf(3).
    unsafe { vdprintf(fd, format, arguments) }
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dprintf() -> c_int {
    variadic!(2, "rdx", vdprintf)
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __dprintf_chk() -> c_int {
    variadic!(3, "rcx", __vdprintf_chk)
}
