// SPDX-License-Identifier: Apache-2.0
//! What `ipnuma doctor` reads in the library's file, without loading it.

/// Version of the daemon's protocol that the library speaks.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name of C's")]
pub static ipnuma_socket_protocol: u16 = ipc::protocol::VERSION;
