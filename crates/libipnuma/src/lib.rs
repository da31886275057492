// SPDX-License-Identifier: Apache-2.0
//! The C interface of IP-NUMA. From each of these files a header in `include/ipnuma` is generated, and `include/ipnuma.h`
//! includes them all; what a function does, and what it promises, is said at the function and appears there.
//!
//! Nothing is decided here: arguments are checked, the Rust library is called, and its errors become numbers.
#![allow(non_camel_case_types)]
// The contract of all pointers is one, and stands at the head of the header: NULL, or as C wants them.
#![allow(clippy::missing_safety_doc)]

mod device;
mod region;
mod ring;
mod status;
mod window;

pub use device::*;
pub use region::*;
pub use ring::*;
pub use status::*;
pub use window::*;
