// SPDX-License-Identifier: Apache-2.0
//! The `ipnuma` command.
fn main() {}
