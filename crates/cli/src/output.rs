// SPDX-License-Identifier: Apache-2.0
//! Printing: text, and JSON of one shape for all commands ([docs/json.md](../../../docs/json.md)).

use std::io::{ErrorKind, Write};

use rack::Error;
use serde::Serialize;

/// Counts changes of the shape that a reader must know of.
const FORMAT: u32 = 1;

/// What every command prints with `--json`.
#[derive(Serialize)]
struct Envelope<'a, T> {
    format: u32,
    command: &'a str,
    version: &'a str,
    result: &'a T,
}

impl<'a, T> Envelope<'a, T> {
    const fn of(command: &'a str, result: &'a T) -> Self {
        Self {
            format: FORMAT,
            command,
            version: env!("CARGO_PKG_VERSION"),
            result,
        }
    }
}

const PLAIN: &str = "results are plain data";

/// The result of a command, an object, as JSON for people and programs.
pub fn json<T: Serialize>(command: &str, result: &T) -> String {
    let text = serde_json::to_string_pretty(&Envelope::of(command, result));
    text.expect(PLAIN) + "\n"
}

/// The same in one line, for commands that print a line for each of several results.
pub fn json_line<T: Serialize>(command: &str, result: &T) -> String {
    let text = serde_json::to_string(&Envelope::of(command, result));
    text.expect(PLAIN) + "\n"
}

/// Prints; a reader that went away is no error.
pub fn print(text: &str) -> Result<(), Error> {
    flushed(std::io::stdout().lock().write_all(text.as_bytes()))
}

/// What was written is on its way, or an error says why not; a reader that went away is no error.
pub fn flushed(written: std::io::Result<()>) -> Result<(), Error> {
    match written.and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output {
            path: "the standard output".to_owned(),
            reason: error.to_string(),
        }),
        _ => Ok(()),
    }
}
