// SPDX-License-Identifier: Apache-2.0
//! Tokens in files. A token is a capability: the file is for its owner only, and appears when it is whole.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use host::Token;
use rustix::io::Errno;

use crate::outcome::{Outcome, Wrong};

/// What another token would help against.
const REFUSALS: [Errno; 4] = [Errno::INVAL, Errno::ACCESS, Errno::NOENT, Errno::KEYREVOKED];

/// Writes a token.
pub fn give(path: &Path, token: &Token) -> Outcome {
    let partial = path.with_extension("partial");
    let written = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(&token.to_bytes())?;
        fs::rename(&partial, path)
    };
    written().map_err(|error| format!("{}: {error}", partial.display()).into())
}

/// Waits up to ten seconds for a token.
pub fn take(path: &Path) -> Result<Token, Box<dyn Error>> {
    let shown = path.display();
    for _ in 0..10_000 {
        match fs::read(path) {
            Ok(bytes) => {
                let token = Token::parse(&bytes).map_err(host::Error::from);
                return accepted(path, token);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => sleep(Duration::from_millis(1)),
            Err(error) => {
                let wrong = format!("{shown}: {error}; name the file that the other side writes");
                return Err(Wrong(wrong).into());
            }
        }
    }
    Err(format!("{shown}: no token came in ten seconds; start the other side, too").into())
}

/// What was done with the token of a file; where it was refused, the file is named.
pub fn accepted<T>(path: &Path, result: host::Result<T>) -> Result<T, Box<dyn Error>> {
    result.map_err(|error| {
        let said = format!("{}: {error}", path.display());
        let refused = |errno: &Errno| errno.raw_os_error() == error.errno();
        match REFUSALS.iter().any(refused) {
            true => Wrong(said).into(),
            false => said.into(),
        }
    })
}
