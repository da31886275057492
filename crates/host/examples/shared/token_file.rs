// SPDX-License-Identifier: Apache-2.0
//! Tokens in files. A token is a capability: the file is for its owner only, and appears when it is whole.

use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use host::Token;

/// Writes a token.
pub fn give(path: &Path, token: &Token) -> Result<()> {
    let partial = path.with_extension("partial");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(&token.to_bytes())?;
    fs::rename(&partial, path)
}

/// Waits up to ten seconds for a token.
pub fn take(path: &Path) -> Result<Token> {
    for _ in 0..10_000 {
        match fs::read(path) {
            Ok(bytes) => return Token::parse(&bytes).map_err(Error::other),
            Err(error) if error.kind() == ErrorKind::NotFound => sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(
        ErrorKind::TimedOut,
        format!("{}: no token came in ten seconds", path.display()),
    ))
}
