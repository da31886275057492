// SPDX-License-Identifier: Apache-2.0
//! What the user's policy says of this program's connections.
//!
//! It is read once, when the library is loaded, and only the lines about this program are kept. A child of a fork has them, too.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use host::policy::{Policy, Role};
use ipc::protocol::Fallback;

use crate::{process, reasons};

static POLICY: OnceLock<Policy> = OnceLock::new();

/// At start: while there is one thread, and before the program changes its environment or its root.
pub(crate) fn start() {
    policy();
}

fn policy() -> &'static Policy {
    POLICY.get_or_init(|| {
        if !process::is_enabled() {
            return Policy::default();
        }
        match Policy::load() {
            Ok(policy) => policy.of_program(&program()),
            Err(error) => {
                // A connection that the user wants to be the kernel's must not be accelerated because of a slip of the pen.
                process::say(&format!(
                    "ipnuma: {error}; until then sockets are the kernel's\n"
                ));
                Policy::of_the_kernel()
            }
        }
    })
}

/// The executable's file name; of a script, its interpreter's.
fn program() -> String {
    let path = rustix::fs::readlink("/proc/self/exe", Vec::new())
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_else(|_| started_as().unwrap_or_default());
    // An executable that has been replaced, as by an upgrade.
    let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
    let name = Path::new(path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The path that exec was given, for places without /proc.
fn started_as() -> Option<String> {
    // SAFETY: the kernel has put a text there, which stays.
    let path = unsafe {
        let path = libc::getauxval(libc::AT_EXECFN) as *const libc::c_char;
        if path.is_null() {
            return None;
        }
        std::ffi::CStr::from_ptr(path)
    };
    let path = PathBuf::from(path.to_string_lossy().into_owned());
    // By its true name, as the kernel has it.
    let path = path.canonicalize().unwrap_or(path);
    Some(path.to_string_lossy().into_owned())
}

/// Whether the policy leaves a connection to the kernel; then it is counted.
pub fn leaves(role: Role, address: SocketAddr) -> bool {
    let left = would_leave(role, address);
    if left {
        note();
        process::trace(|| format!("{role} {address}: the kernel's, as the policy says"));
    }
    left
}

/// Whether it would leave it.
pub fn would_leave(role: Role, address: SocketAddr) -> bool {
    policy().leaves(role, address)
}

/// Whether a line asks for acceleration: then it is done even where the kernel is faster.
pub fn asks_for(role: Role, address: SocketAddr) -> bool {
    policy().asks_for(role, address)
}

/// Whether nothing of this program can be accelerated; then it is counted.
#[must_use]
pub fn leaves_program() -> bool {
    let left = Role::ALL.iter().all(|role| policy().leaves_all(*role));
    if left {
        note();
    }
    left
}

#[cold]
fn note() {
    // The daemon is told; nothing else of this program may have asked for it.
    process::client();
    reasons::note(Fallback::Policy);
}
