// SPDX-License-Identifier: Apache-2.0
//! What a test says that cannot run on this machine, so that it does not count as passed.
//!
//! The test runner knows no skipping while a test runs, and keeps what passing tests print to itself. So a test that
//! finds that it cannot run says so here, and ends:
//!
//! ```no_run
//! # fn root() -> bool { false }
//! #[test]
//! fn another_user_is_refused() {
//!     if !root() {
//!         skip::skip!("only root can become another user");
//!         return;
//!     }
//! }
//! ```
//!
//! `./test` shows and counts the line `skipped: NAME: why`. With `IPNUMA_REQUIRE_ALL=1`, which is for machines that can
//! run everything, the test fails instead. Tests that take minutes ask [`long!`] and run with `IPNUMA_LONG=1`.

use std::fmt::Display;
use std::io::Write;

/// Set to 1 where a test that cannot run is a failure.
pub const REQUIRE_ALL: &str = "IPNUMA_REQUIRE_ALL";
/// Set to 1 where long tests run, too.
pub const LONG: &str = "IPNUMA_LONG";

/// Says that the running test is skipped, and why; see the crate's page.
///
/// The test's name is the thread's: a thread that a test starts must have the name of the test's own.
#[macro_export]
macro_rules! skip {
    ($($why:tt)+) => {
        $crate::skipped(env!("CARGO_CRATE_NAME"), &format!($($why)+))
    };
}

/// Whether long tests run; says that the running one is skipped if not.
#[macro_export]
macro_rules! long {
    () => {
        $crate::runs_long(env!("CARGO_CRATE_NAME"))
    };
}

fn on(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

fn name(of: &str) -> String {
    let thread = std::thread::current();
    format!("{of}::{}", thread.name().unwrap_or("?"))
}

/// Not by a macro of the standard library, whose text the test runner keeps back.
fn say(line: &str) {
    // One write, so that lines of tests side by side stay whole.
    let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
}

/// What [`skip!`] calls.
///
/// # Panics
///
/// With `IPNUMA_REQUIRE_ALL=1`.
pub fn skipped(of: &str, why: &dyn Display) {
    let line = format!("skipped: {}: {why}", name(of));
    assert!(!on(REQUIRE_ALL), "{line}; {REQUIRE_ALL} forbids it");
    say(&line);
}

/// What [`long!`] calls.
pub fn runs_long(of: &str) -> bool {
    if !on(LONG) {
        say(&format!(
            "skipped: {}: takes minutes; {LONG}=1 runs it",
            name(of)
        ));
    }
    on(LONG)
}
