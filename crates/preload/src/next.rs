// SPDX-License-Identifier: Apache-2.0
//! The C library's own functions, behind ours.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the C library, looked up at its first use.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<libc::c_void>,
}

impl Next {
    /// The function of that name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> *mut libc::c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            self.find()
        } else {
            address
        }
    }

    #[cold]
    fn find(&self) -> *mut libc::c_void {
        // SAFETY: a name that ends with a zero.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            // An older C library without the function: no program linked against it can have called us.
            std::process::abort();
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Calls the C library's own function: `next!(read(fd: i32, buffer: *mut c_void, count: usize) -> isize)`.
macro_rules! next {
    ($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new(
            // SAFETY: the literal ends with its only zero.
            unsafe { std::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
        );
        // SAFETY: the C library's function has this type.
        let function: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { std::mem::transmute(NEXT.address()) };
        // SAFETY: the caller of our function of the same name promised what this one demands.
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use next;
