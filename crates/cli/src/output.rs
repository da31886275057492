// SPDX-License-Identifier: Apache-2.0
//! Printing.

use std::io::{ErrorKind, Write};

use rack::Error;

/// Prints; a reader that went away is no error.
pub fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output {
            path: "the standard output".to_owned(),
            reason: error.to_string(),
        }),
        _ => Ok(()),
    }
}
