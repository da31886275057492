// SPDX-License-Identifier: Apache-2.0
//! Errors as numbers, and what was said about the last one.

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

thread_local! {
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Why a call failed.
pub(crate) struct Failure {
    errno: c_int,
    message: String,
}

impl From<host::Error> for Failure {
    fn from(error: host::Error) -> Self {
        let errno = error.errno();
        // Told often, and not worth the memory.
        let message = match errno {
            libc::EAGAIN => String::new(),
            _ => error.to_string(),
        };
        Self { errno, message }
    }
}

impl Failure {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            errno: libc::EINVAL,
            message: message.into(),
        }
    }

    pub(crate) fn again() -> Self {
        Self {
            errno: libc::EAGAIN,
            message: String::new(),
        }
    }

    pub(crate) fn new(errno: c_int, message: impl Into<String>) -> Self {
        Self {
            errno,
            message: message.into(),
        }
    }
}

/// Runs a call: its result as 0 or a negative errno. A panic does not reach C.
#[inline]
pub(crate) fn run(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => fail(failure),
        Err(_) => fail(Failure::new(
            libc::EIO,
            "libipnuma met a mistake of its own; what it printed belongs into a report",
        )),
    }
}

#[cold]
fn fail(failure: Failure) -> c_int {
    // The last one counts.
    if failure.errno != libc::EAGAIN {
        trap::forget_fault();
    }
    // A thread that is being taken down has no place for it any more.
    let _ = SAID.try_with(|said| *said.borrow_mut() = failure.message);
    -failure.errno
}

/// The object behind a handle.
#[inline]
pub(crate) unsafe fn object<'a, T>(handle: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: handles are NULL or what we gave out, by the contract of the interface.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

/// Where a result goes.
#[inline]
pub(crate) unsafe fn result<'a, T>(place: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: NULL or room for one, by the contract of the interface.
    unsafe { place.as_mut() }.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

/// The caller's bytes.
#[inline]
pub(crate) unsafe fn bytes<'a>(
    data: *const std::ffi::c_void,
    size: usize,
) -> Result<&'a [u8], Failure> {
    if size == 0 {
        return Ok(&[]);
    }
    if data.is_null() || size > isize::MAX as usize {
        return Err(Failure::invalid(format!(
            "data is NULL, or {size} bytes are more than there can be"
        )));
    }
    // SAFETY: that many bytes, by the contract of the interface.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), size) })
}

/// Room of the caller's.
#[inline]
pub(crate) unsafe fn room<'a>(
    data: *mut std::ffi::c_void,
    size: usize,
) -> Result<&'a mut [u8], Failure> {
    if size == 0 {
        return Ok(&mut []);
    }
    if data.is_null() || size > isize::MAX as usize {
        return Err(Failure::invalid(format!(
            "data is NULL, or {size} bytes are more than there can be"
        )));
    }
    // SAFETY: room for that many bytes, by the contract of the interface.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), size) })
}

/// A string of the caller's; `None` for NULL.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: a string that ends with a zero, by the contract of the interface.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Failure::invalid(format!("{name} is not UTF-8"))),
    }
}

/// A timeout in nanoseconds; negative: none.
#[inline]
pub(crate) fn timeout(nanoseconds: i64) -> Option<Duration> {
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}

/// Version of the library, as a number.
///
/// # Description
/// Major version in bits 31:16, minor in bits 15:0. A program that was built for a minor version runs with every later one.
///
/// # Return
/// The version; compare it with IPN_VERSION, that of the header.
///
/// # Errors
/// None.
///
/// # Threads
/// Any thread, at any time.
///
/// # Example
/// @code
/// if (ipn_version() < IPN_VERSION) puts("libipnuma is older than this program");
/// @endcode
#[unsafe(no_mangle)]
pub extern "C" fn ipn_version() -> u32 {
    IPN_VERSION
}

/// Version of this header: major in bits 31:16, minor in bits 15:0.
pub const IPN_VERSION: u32 = 1;

/// What an error number means.
///
/// # Description
/// As strerror(3), for what the functions of this library return: 0 or a negative errno. A positive number is taken as the
/// errno itself. More about the calling thread's last error: ipn_error_message().
///
/// # Return
/// A string that stays valid for ever.
///
/// # Errors
/// None: an unknown number gives "unknown error".
///
/// # Threads
/// Any thread, at any time.
///
/// # Example
/// @code
/// int status = ipn_open(NULL, &device);
/// if (status != 0) fprintf(stderr, "ipn_open: %s\n", ipn_strerror(status));
/// @endcode
#[unsafe(no_mangle)]
pub extern "C" fn ipn_strerror(status: c_int) -> *const c_char {
    let text = match status.unsigned_abs() as c_int {
        0 => c"success",
        libc::EPERM => c"not permitted",
        libc::ENOENT => c"no such file",
        libc::EINTR => c"interrupted by a signal",
        libc::EIO => c"a mistake inside the library, or of the device",
        libc::EAGAIN => c"nothing there yet, or no room yet",
        libc::ENOMEM => c"no memory",
        libc::EACCES => c"the token is refused, or gives no right to it",
        libc::EBUSY => c"in use",
        libc::ENODEV => c"no such device",
        libc::EINVAL => c"a wrong argument",
        libc::ENOSPC => c"used up",
        libc::ENOBUFS => c"the daemon allows no more",
        libc::EMFILE => c"too many open files",
        libc::ERANGE => c"the result does not fit",
        libc::EPROTO => c"daemon and library are of different versions",
        libc::EBADMSG => c"the ring holds what no sender writes",
        libc::EMSGSIZE => c"the message is too long",
        libc::EOPNOTSUPP => c"the back end cannot do it",
        libc::ECONNRESET => c"the daemon no longer answers",
        libc::ECONNREFUSED => c"there is no daemon",
        libc::EHOSTUNREACH => c"the peer cannot be reached",
        libc::ETIMEDOUT => c"not in the time given",
        libc::EKEYREVOKED => c"the token was revoked",
        _ => c"unknown error",
    };
    text.as_ptr()
}

/// What was wrong with the calling thread's last call that failed, as a sentence.
///
/// # Description
/// Copies a sentence that names the thing, the place and the remedy to `buffer`, cut to `size` bytes with the zero at its
/// end. Calls that succeed, and those that return -EAGAIN, leave or empty it. A plain access to a mapped window that ended in SIGBUS
/// (ipn_window_map()) is such a call, too, and the handler of SIGBUS may ask.
///
/// # Units
/// `size` in bytes.
///
/// # Return
/// Bytes of the whole sentence without the zero, as snprintf(3); 0 if nothing is known.
///
/// # Errors
/// None: a NULL `buffer` is taken as `size` 0.
///
/// # Threads
/// Any thread; each sees its own.
///
/// # Example
/// @code
/// char why[256];
/// if (ipn_connect(device, &token, &window) != 0 && ipn_error_message(why, sizeof why) > 0) puts(why);
/// @endcode
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ipn_error_message(buffer: *mut c_char, size: usize) -> usize {
    let mut sentence = [0; 256];
    let known = trap::last_fault(&mut sentence);
    if known > 0 {
        // SAFETY: as below.
        unsafe { give(&sentence[..known], buffer, size) };
        return known;
    }
    let copied = SAID.try_with(|said| {
        let said = said.borrow();
        // SAFETY: room for `size` bytes, by the contract of the interface.
        unsafe { give(said.as_bytes(), buffer, size) };
        said.len()
    });
    copied.unwrap_or(0)
}

/// Copies a sentence, and a zero behind it, as far as there is room.
unsafe fn give(sentence: &[u8], buffer: *mut c_char, size: usize) {
    if buffer.is_null() || size == 0 {
        return;
    }
    let count = sentence.len().min(size - 1);
    // SAFETY: the caller's buffer has `size` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(sentence.as_ptr(), buffer.cast(), count);
        buffer.add(count).write(0);
    }
}
