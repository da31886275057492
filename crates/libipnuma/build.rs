// SPDX-License-Identifier: Apache-2.0
//! Gives the shared library its soname: programs ask the dynamic linker for the interface that they were built for. Once it is loaded
//! it stays: its handler of SIGSEGV does, and dlclose() would leave the process without the code of it.

/// Grows when a function changes or goes, not when one comes.
const INTERFACE: u32 = 0;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libipnuma.so.{INTERFACE}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
