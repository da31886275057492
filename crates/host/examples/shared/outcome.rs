// SPDX-License-Identifier: Apache-2.0
//! How the examples end: what went wrong in one line, and the exit status, which is 2 where other input would do.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;

pub type Outcome = Result<(), Box<dyn Error>>;

/// What is wrong with what the program was given, where, and what would be right.
#[derive(Debug)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Wrong {}

/// A number of the command line.
pub fn number<T: FromStr>(name: &str, text: &str) -> Result<T, Wrong> {
    let wrong = |_| Wrong(format!("{name} is {text:?}; write a whole number"));
    text.parse().map_err(wrong)
}

/// Says what went wrong.
pub fn end(outcome: Outcome) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    ExitCode::from(if error.is::<Wrong>() { 2 } else { 1 })
}
