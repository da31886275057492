// SPDX-License-Identifier: Apache-2.0
//! Who other daemons are: this machine's key, and those that are known of others.
//!
//! A key is an Ed25519 key in a file of its own (PKCS #8, PEM). Others know it by its fingerprint, the SHA-256 of the public
//! key's SubjectPublicKeyInfo. The file of known peers has a line for each: a network, a fingerprint, and what else helps
//! people. No authority signs anything.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use sha2::{Digest, Sha256};

use crate::remote::Network;

/// Begins a fingerprint.
const PREFIX: &str = "sha256:";
/// More than a file with a key has.
const LONGEST_KEY: u64 = 1 << 16;
/// Longest file of known peers: some ten thousand lines.
const LONGEST_PEERS: u64 = 4 << 20;
/// The remedy where a key's file can't be used.
const ELSEWHERE: &str = "say with --key where it is to be";
/// The same for the file of known peers.
const PEERS_ELSEWHERE: &str = "say with --known-peers where they are to be";
/// Characters of a line of a PEM file.
const LINE: usize = 64;

/// What a key is known by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of a public key, as its SubjectPublicKeyInfo has it.
    #[must_use]
    pub fn of(public: &[u8]) -> Self {
        Self(Sha256::digest(public).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix(PREFIX).filter(|digits| {
            digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        let digits = digits.ok_or_else(|| {
            let text = input::quoted(text);
            format!("{text} is no fingerprint; it is `{PREFIX}` and 64 hexadecimal digits, as `ipnuma key` shows it")
        })?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .unwrap_or_default();
        }
        Ok(Self(bytes))
    }
}

/// Where keys are unless told otherwise: /etc/ipnuma for root, else ~/.config/ipnuma.
#[must_use]
pub fn default_directory() -> PathBuf {
    let root = rustix::process::geteuid().is_root();
    match std::env::var_os("HOME").filter(|home| !root && !home.is_empty()) {
        Some(home) => Path::new(&home).join(".config/ipnuma"),
        None => "/etc/ipnuma".into(),
    }
}

/// This machine's key.
#[derive(Clone, Debug)]
pub struct Key {
    pub(crate) signing: std::sync::Arc<dyn SigningKey>,
    public: Vec<u8>,
}

impl Key {
    /// Reads a key that nobody else may read.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence; `None` if there is none.
    pub fn load(path: &Path) -> Result<Option<Self>, String> {
        let shown = path.display();
        let failed = |error| format!("the key {shown} can't be read: {error}; {ELSEWHERE}");
        let file = match input::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let there = file.metadata().map_err(failed)?;
        let own = rustix::process::geteuid().as_raw();
        if there.mode() & 0o077 != 0 || ![own, 0].contains(&there.uid()) {
            return Err(format!(
                "others can read or change the key {shown}: make it its user's alone with `chmod 600`, or, if anybody \
                 may have seen it, remove it and make another with `ipnuma key`"
            ));
        }
        let mut text = Vec::new();
        file.take(LONGEST_KEY)
            .read_to_end(&mut text)
            .map_err(failed)?;
        let wrong = || format!("{shown} is no key; remove it, and make one with `ipnuma key`");
        let key = PrivatePkcs8KeyDer::from_pem_slice(&text).map_err(|_| wrong())?;
        Self::new(key).ok_or_else(wrong).map(Some)
    }

    fn new(key: PrivatePkcs8KeyDer<'static>) -> Option<Self> {
        let signing = rustls::crypto::ring::sign::any_eddsa_type(&key).ok()?;
        let public = signing.public_key()?.as_ref().to_vec();
        Some(Self { signing, public })
    }

    /// Makes a key and its file, in which there must be none.
    ///
    /// # Errors
    /// If it can't be made or written, in a sentence.
    pub fn make(path: &Path) -> Result<Self, String> {
        let random = ring::rand::SystemRandom::new();
        let key = ring::signature::Ed25519KeyPair::generate_pkcs8(&random)
            .map_err(|_| "the system has no random bytes for a key".to_owned())?;
        let shown = path.display();
        let failed = |error| format!("the key {shown} can't be written: {error}; {ELSEWHERE}");
        if let Some(directory) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(failed)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let written = file.write_all(pem(key.as_ref()).as_bytes());
        if let Err(error) = written.and_then(|()| file.sync_all()) {
            // Half a key would be in the way of the next one.
            let _ = fs::remove_file(path);
            return Err(failed(error));
        }
        Self::new(key.as_ref().to_vec().into())
            .ok_or_else(|| "a key that was just made can't be used".to_owned())
    }

    /// What others know it by.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.public)
    }

    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }
}

fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut body = String::new();
    for (number, three) in der.chunks(3).enumerate() {
        if number % (LINE / 4) == 0 {
            body.push('\n');
        }
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | u32::from(three.get(at).copied().unwrap_or(0))
        });
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 0x3F;
            let padding = digit > three.len();
            body.push(if padding {
                '='
            } else {
                DIGITS[value as usize].into()
            });
        }
    }
    format!("-----BEGIN PRIVATE KEY-----{body}\n-----END PRIVATE KEY-----\n")
}

/// The known keys of other machines, as their file has them at the moment.
#[derive(Debug)]
pub struct Known {
    path: PathBuf,
    seen: Mutex<Option<Seen>>,
}

/// What the file had when it was read last.
type Seen = (Stamp, Vec<(Network, Fingerprint)>);

/// Tells whether a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

impl Known {
    /// Those of a file, which need not exist.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: Mutex::default(),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence that names the line.
    pub fn read(path: &Path) -> Result<Vec<(Network, Fingerprint)>, String> {
        let shown = path.display();
        let text = match input::text_of(path, LONGEST_PEERS) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("{shown} can't be read: {error}; {PEERS_ELSEWHERE}")),
        };
        let mut known = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_ascii_whitespace();
            let Some(network) = words.next().filter(|word| !word.starts_with('#')) else {
                continue;
            };
            let wrong = |why| format!("{} line {}: {why}", path.display(), number + 1);
            let network = network.parse().map_err(wrong)?;
            let fingerprint = words.next().unwrap_or_default().parse().map_err(wrong)?;
            known.push((network, fingerprint));
        }
        Ok(known)
    }

    /// Whether this is the key of a machine at this address.
    pub(crate) fn allows(&self, address: Ipv4Addr, key: Fingerprint) -> bool {
        self.any(|(network, known)| network.has(address) && *known == key)
    }

    /// Whether this is anybody's key.
    pub(crate) fn has(&self, key: Fingerprint) -> bool {
        self.any(|(_, known)| *known == key)
    }

    fn any(&self, which: impl Fn(&(Network, Fingerprint)) -> bool) -> bool {
        // Trusted as soon as it is written there, and no longer than that.
        let Ok(there) = fs::metadata(&self.path) else {
            return false;
        };
        let stamp = Stamp(there.ino(), there.len(), there.mtime(), there.mtime_nsec());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref().is_none_or(|(read, _)| *read != stamp) {
            let known = Self::read(&self.path).unwrap_or_else(|why| {
                crate::log(&format!("nobody is trusted: {why}"));
                Vec::new()
            });
            *seen = Some((stamp, known));
        }
        seen.as_ref()
            .is_some_and(|(_, known)| known.iter().any(which))
    }

    /// Adds a line to the file: machines at this network have this key. `false` if it is there already.
    ///
    /// # Errors
    /// If it can't be written, in a sentence.
    pub fn trust(
        path: &Path,
        network: &str,
        key: Fingerprint,
        remark: &str,
    ) -> Result<bool, String> {
        let wanted: Network = network.parse()?;
        if Self::read(path)?.contains(&(wanted, key)) {
            return Ok(false);
        }
        let shown = path.display();
        let failed = |error| format!("{shown} can't be written: {error}; {PEERS_ELSEWHERE}");
        if let Some(directory) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(failed)?;
        }
        let line = format!("{network} {key} {remark}");
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(format!("{}\n", line.trim_end()).as_bytes()))
            .map_err(failed)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_and_is_the_users_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("own/key");
        assert!(Key::load(&path).expect("nothing is wrong").is_none());
        let made = Key::make(&path).expect("a key");
        let read = Key::load(&path).expect("it is right").expect("it is there");
        assert_eq!(made.fingerprint(), read.fingerprint());
        let shown = made.fingerprint().to_string();
        assert_eq!(shown.parse(), Ok(made.fingerprint()));
        assert!(Key::make(&path).is_err(), "a key is never overwritten");
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&path, open).expect("it is ours");
        let error = Key::load(&path).expect_err("others can read it");
        assert!(error.contains("chmod 600"), "{error}");
        fs::write(directory.path().join("other"), "no key").expect("it can be written");
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(directory.path().join("other"), closed).expect("it is ours");
        let error = Key::load(&directory.path().join("other")).expect_err("it is no key");
        assert!(error.contains("is no key"), "{error}");
        let error = Key::load(directory.path()).expect_err("it is a directory");
        assert!(
            error.contains("it is a directory; say with --key"),
            "{error}"
        );
    }

    #[test]
    fn keys_are_trusted_as_the_file_says_at_the_moment() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("known_peers");
        let known = Known::new(path.clone());
        let [one, other] = [b"one", b"two"].map(|key| Fingerprint::of(key));
        let at = Ipv4Addr::new(10, 0, 0, 2);
        assert!(!known.allows(at, one) && !known.has(one));
        assert_eq!(Known::trust(&path, "10.0.0.2", one, "its name"), Ok(true));
        assert_eq!(Known::trust(&path, "10.0.0.2", one, ""), Ok(false));
        assert!(known.allows(at, one) && !known.allows(at, other));
        assert!(!known.allows(Ipv4Addr::new(10, 0, 0, 3), one));
        assert_eq!(Known::trust(&path, "10.0.0.0/24", other, ""), Ok(true));
        assert!(known.allows(Ipv4Addr::new(10, 0, 0, 3), other));
        fs::write(&path, format!("# none\n\n10.0.0.2 {other}\n")).expect("it can be written");
        assert!(!known.allows(at, one) && known.allows(at, other));
        fs::write(&path, "10.0.0.2 sha256:12\n").expect("it can be written");
        assert!(!known.allows(at, other));
        fs::write(&path, vec![0; 3 << 20]).expect("it can be written");
        let error = Known::read(&path).expect_err("no fingerprint");
        assert!(error.len() < 400 && error.contains("..."), "{error}");
        fs::write(&path, "10.0.0.2 sha256:12\n").expect("it can be written");
        let error = Known::read(&path).expect_err("no fingerprint");
        assert!(
            error.contains("line 1: `sha256:12` is no fingerprint"),
            "{error}"
        );
        assert!(Known::trust(&path, "nowhere", one, "").is_err());
    }
}
