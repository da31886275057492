// SPDX-License-Identifier: Apache-2.0
//! Gives the shared library its soname: programs ask the dynamic linker for the interface that they were built for.

/// Grows when a function changes or goes, not when one comes.
const INTERFACE: u32 = 0;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libipnuma.so.{INTERFACE}");
}
