// SPDX-License-Identifier: Apache-2.0
//! How a case says what went wrong, and where.

use super::errno::Errno;
use std::panic::Location;

/// One sentence about what was not as expected, with the line of the case.
#[derive(Debug)]
pub struct Failure(pub String);

/// Nothing, or what was not as expected.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// A failure with a sentence of the caller's.
    #[track_caller]
    pub fn new(text: impl std::fmt::Display) -> Failure {
        let place = Location::caller();
        let file = place.file().rsplit('/').next().unwrap_or_default();
        Failure(format!("{file}:{}: {text}", place.line()))
    }
}

// A call that a case expects to work is followed by `?`; the place is that of the `?`.
impl From<Errno> for Failure {
    #[track_caller]
    fn from(errno: Errno) -> Failure {
        Failure::new(format!("the call failed with {errno:?}"))
    }
}

impl From<std::io::Error> for Failure {
    #[track_caller]
    fn from(error: std::io::Error) -> Failure {
        Failure::new(error)
    }
}

/// The expression is true.
#[macro_export]
macro_rules! holds {
    ($condition:expr) => {
        if !$condition {
            return Err($crate::support::outcome::Failure::new(concat!(
                stringify!($condition),
                " does not hold"
            )));
        }
    };
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::support::outcome::Failure::new(format!($($text)+)));
        }
    };
}

/// The first is equal to the second, which is what Linux does.
#[macro_export]
macro_rules! same {
    ($actual:expr, $expected:expr) => {{
        let (actual, expected) = (&$actual, &$expected);
        if *actual != *expected {
            return Err($crate::support::outcome::Failure::new(format!(
                "{} is {:?}, expected {:?}",
                stringify!($actual),
                actual,
                expected
            )));
        }
    }};
}

/// The call fails with this error.
#[macro_export]
macro_rules! fails {
    ($call:expr, $errno:expr) => {
        match $call {
            Err($crate::support::errno::Errno(errno)) if errno == $errno => {}
            other => {
                return Err($crate::support::outcome::Failure::new(format!(
                    "{} gave {}, expected {:?}",
                    stringify!($call),
                    $crate::support::outcome::short(&other),
                    $crate::support::errno::Errno($errno)
                )));
            }
        }
    };
}

/// The call gives these bytes.
#[macro_export]
macro_rules! gets {
    ($call:expr, $bytes:expr) => {
        match $call {
            Ok(bytes) if bytes[..] == $bytes[..] => {}
            other => {
                return Err($crate::support::outcome::Failure::new(format!(
                    "{} gave {}, expected {:?}",
                    stringify!($call),
                    $crate::support::outcome::short(&other),
                    String::from_utf8_lossy(&$bytes[..])
                )));
            }
        }
    };
}

/// The value as text, cut where it gets long.
pub fn short(value: &impl std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > 200 {
        text.truncate(200);
        text.push_str("...");
    }
    text
}
