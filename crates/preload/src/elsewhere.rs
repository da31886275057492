// SPDX-License-Identifier: Apache-2.0
//! Whether a program that is about to be started can have the library: what is linked statically, gets other rights, or is
//! started without the variable that names the library, cannot.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// A part of the library's name, by which the variable is known to name it.
const NAME: &[u8] = b"libipnuma_socket";
/// Interpreters that are scripts themselves, as deep as the kernel goes.
const DEPTH: u32 = 4;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The program's own environment.
pub fn own() -> *const *const c_char {
    // SAFETY: the C library's variable.
    unsafe { environ }
}

/// Whether the program at `path` would run without the library. A program that cannot be read is taken for one that has it: the
/// kernel will say what is wrong with it.
///
/// # Safety
/// As execve(2) says of its arguments.
pub unsafe fn is_foreign(path: *const c_char, environment: *const *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: by the caller.
    let (path, preloads) = unsafe { (CStr::from_ptr(path), preloads(environment)) };
    !preloads || cannot(Path::new(OsStr::from_bytes(path.to_bytes())), DEPTH)
}

/// The same of a file that is looked for in the search path.
///
/// # Safety
/// As execvpe(3) says of its arguments.
pub unsafe fn is_foreign_file(file: *const c_char, environment: *const *const c_char) -> bool {
    if file.is_null() {
        return false;
    }
    // SAFETY: by the caller.
    let name = unsafe { CStr::from_ptr(file) };
    if name.to_bytes().contains(&b'/') {
        // SAFETY: by the caller.
        return unsafe { is_foreign(file, environment) };
    }
    let found = std::env::var_os("PATH").and_then(|places| {
        std::env::split_paths(&places)
            .map(|place| place.join(OsStr::from_bytes(name.to_bytes())))
            .find(|path: &PathBuf| path.is_file())
    });
    match found.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok()) {
        // SAFETY: by the caller.
        Some(path) => unsafe { is_foreign(path.as_ptr(), environment) },
        None => false,
    }
}

unsafe fn preloads(environment: *const *const c_char) -> bool {
    if environment.is_null() {
        return false;
    }
    let mut at = environment;
    // SAFETY: a list of texts that ends with null.
    unsafe {
        loop {
            let text = at.read_unaligned();
            if text.is_null() {
                return false;
            }
            let text = CStr::from_ptr(text).to_bytes();
            if let Some(value) = text.strip_prefix(b"LD_PRELOAD=") {
                return value.windows(NAME.len()).any(|part| part == NAME);
            }
            at = at.add(1);
        }
    }
}

/// Whether the file cannot have the library.
fn cannot(path: &Path, depth: u32) -> bool {
    // By system calls alone: a child of vfork may have closed a connection, and get its number here, which the C library's calls,
    // that is ours, would take for the connection.
    let Ok(file) = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    if let Ok(status) = rustix::fs::fstat(&file) {
        let user = status.st_mode & libc::S_ISUID != 0
            && status.st_uid != rustix::process::geteuid().as_raw();
        let group = status.st_mode & libc::S_ISGID != 0
            && status.st_gid != rustix::process::getegid().as_raw();
        if user || group {
            return true;
        }
    }
    let mut head = [0; 256];
    let Ok(count) = rustix::io::read(&file, &mut head) else {
        return false;
    };
    let head = &head[..count];
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| byte.is_ascii_whitespace());
        let interpreter = words.find(|word| !word.is_empty());
        return depth > 0
            && interpreter
                .is_some_and(|path| cannot(Path::new(OsStr::from_bytes(path)), depth - 1));
    }
    head.starts_with(b"\x7fELF") && is_static(&file, head).unwrap_or(false)
}

/// Whether no dynamic loader is named, or the program is of another kind than the library.
fn is_static(file: &OwnedFd, head: &[u8]) -> Option<bool> {
    const CLASS_64: u8 = 2;
    const INTERPRETER: u32 = 3;
    if *head.get(4)? != CLASS_64 {
        return Some(true);
    }
    let place = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
    let size = u16::from_le_bytes(head.get(54..56)?.try_into().ok()?);
    let count = u16::from_le_bytes(head.get(56..58)?.try_into().ok()?);
    if size < 4 {
        return None;
    }
    let mut table = vec![0; usize::from(size) * usize::from(count)];
    if rustix::io::pread(file, &mut table[..], place).ok()? < table.len() {
        return None;
    }
    let named = table
        .chunks_exact(usize::from(size))
        .any(|entry| entry[..4] == INTERPRETER.to_le_bytes());
    Some(!named)
}
