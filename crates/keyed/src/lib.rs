// SPDX-License-Identifier: Apache-2.0
//! For tests of several machines: daemons that know each other by keys, and a look at what travels between their NICs.
//!
//! ```no_run
//! # fn talk() {}
//! # let (here, there) = ([127, 3, 1, 4].into(), [127, 3, 1, 5].into());
//! let directory = tempfile::tempdir().expect("a directory");
//! let mut options = daemon::Options::default();
//! // Believes all machines of this process that are in the network.
//! keyed::among(&mut options.remote, directory.path(), "127.0.0.0/8");
//! // Once the machines have addresses, and before they speak.
//! let tap = keyed::Tap::start(&[here, there]).expect("only root may look");
//! talk();
//! tap.end().verify().expect("every frame was sealed");
//! ```
//!
//! `IPNUMA_PLAIN=1` has the same tests run in the clear, with `--insecure`; then the look demands that nothing was sealed, so
//! that one sees that it can tell. It makes no certificate of a machine that others do not know: `crates/daemon/tests/keys.rs`
//! has those.

mod tap;

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

use daemon::keys::{Key, Known};
use daemon::remote::Options;

pub use tap::{Seen, Tap};

/// Set to 1 where tests of several machines are to run in the clear.
pub const PLAIN: &str = "IPNUMA_PLAIN";

/// Whether tests run in the clear.
#[must_use]
pub fn plain() -> bool {
    std::env::var_os(PLAIN).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Gives a daemon the key in a directory, which is made if there is none, and has it believe all machines of the network that
/// have the same.
///
/// # Errors
/// If a key can't be made or written, in a sentence.
pub fn by_directory(remote: &mut Options, directory: &Path, network: &str) -> Result<(), String> {
    if plain() {
        remote.insecure = true;
        return Ok(());
    }
    let [key, known] = ["key", "known_peers"].map(|name| directory.join(name));
    let own = match Key::load(&key)? {
        Some(own) => own,
        None => Key::make(&key)?,
    };
    Known::trust(&known, network, own.fingerprint(), "")?;
    remote.key = Some(key);
    remote.known_peers = Some(known);
    Ok(())
}

/// The same for machines of one process: all have one key, of which each has a copy in a directory of its own.
///
/// # Panics
/// If a key can't be made or written.
pub fn among(remote: &mut Options, directory: &Path, network: &str) {
    static PEM: OnceLock<Vec<u8>> = OnceLock::new();
    let pem = PEM.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        Key::make(&path).expect("a key");
        fs::read(path).expect("it was made")
    });
    let mut file = fs::OpenOptions::new();
    let file = file.write(true).create_new(true).mode(0o600);
    match file.open(directory.join("key")) {
        Ok(mut file) => std::io::Write::write_all(&mut file, pem).expect("room for a key"),
        // The directory has had a daemon before.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}"),
    }
    by_directory(remote, directory, network).expect("the key is right");
}
