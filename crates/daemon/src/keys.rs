// SPDX-License-Identifier: Apache-2.0
//! Who other daemons are: this machine's key, and those that are known of others.
//!
//! A key is an Ed25519 key in a file of its own (PKCS #8, PEM). Others know it by its fingerprint, the SHA-256 of the public
//! key's SubjectPublicKeyInfo. The file of known peers has a line for each: a network, a fingerprint, and what else helps
//! people. No authority signs anything.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
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
/// The remedy where a line of it can't be read.
const MEND: &str = "mend the line or remove it with an editor";
/// Lines about one kind of thing that are logged when the file has changed.
const MOST_NOTES: usize = 8;
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
#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    known: Vec<(Network, Fingerprint)>,
    /// What there is to be said about it.
    notes: Vec<String>,
}

/// Tells whether a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

/// A line: its number, from 1, and what it says or why it says nothing.
type Line = (usize, Result<(Network, Fingerprint), String>);

/// The lines of a file that say something; there are none in one that is not there.
fn lines(path: &Path) -> Result<Vec<Line>, String> {
    let shown = path.display();
    // Bytes that are no text spoil the line that they are in, which may be a comment, and no other.
    let text = match input::bytes(path, LONGEST_PEERS) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{shown} can't be read: {error}; {PEERS_ELSEWHERE}")),
    };
    let mut lines = Vec::new();
    // Some editors put a mark in front of a text.
    let text = text.trim_start_matches('\u{feff}');
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        let Some(network) = words.next().filter(|word| !word.starts_with('#')) else {
            continue;
        };
        let fingerprint = words.next().unwrap_or_default();
        let said = network
            .parse()
            .and_then(|network| Ok((network, fingerprint.parse()?)));
        lines.push((number + 1, said));
    }
    Ok(lines)
}

/// The address of a network of one machine.
fn single(network: Network) -> Option<Ipv4Addr> {
    let (address, mask) = network.words();
    (mask == !0).then(|| address.into())
}

impl Seen {
    fn read(path: &Path, stamp: Stamp) -> Self {
        let mut seen = Self {
            stamp,
            known: Vec::new(),
            notes: Vec::new(),
        };
        let lines = lines(path).unwrap_or_else(|why| {
            seen.notes.push(format!("nobody is trusted: {why}"));
            Vec::new()
        });
        let mut wrong = 0;
        for (number, said) in lines {
            match said {
                Ok(said) => seen.known.push(said),
                Err(why) => {
                    wrong += 1;
                    if wrong <= MOST_NOTES {
                        seen.notes.push(format!(
                            "{} line {number} is passed over, all others count: {why}; {MEND}",
                            path.display()
                        ));
                    }
                }
            }
        }
        if wrong > MOST_NOTES {
            let more = wrong - MOST_NOTES;
            let shown = path.display();
            seen.notes
                .push(format!("{more} more lines of {shown} are passed over"));
        }
        let mut keys = HashMap::new();
        let mut shared = BTreeSet::new();
        for &(network, key) in &seen.known {
            if let Some(address) = single(network)
                && *keys.entry(address).or_insert(key) != key
            {
                shared.insert(address);
            }
        }
        let shared = shared.into_iter().take(MOST_NOTES);
        seen.notes.extend(shared.map(one_party));
        seen
    }
}

/// A sentence about an address with several keys.
#[must_use]
pub fn one_party(address: Ipv4Addr) -> String {
    format!(
        "several keys are trusted for {address}: who has any of them is believed about all connections from there; tenants need \
         addresses of their own"
    )
}

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
        let wrong = |number, why| format!("{} line {number}: {why}; {MEND}", path.display());
        lines(path)?
            .into_iter()
            .map(|(number, said)| said.map_err(|why| wrong(number, why)))
            .collect()
    }

    /// Whether this is the key of a machine at this address.
    pub(crate) fn allows(&self, address: Ipv4Addr, key: Fingerprint) -> bool {
        self.any(|(network, known)| network.has(address) && *known == key)
    }

    /// Whether this is anybody's key.
    pub(crate) fn has(&self, key: Fingerprint) -> bool {
        self.any(|(_, known)| *known == key)
    }

    /// Logs what there is to be said about the file.
    pub(crate) fn look(&self) {
        self.any(|_| false);
    }

    fn any(&self, which: impl Fn(&(Network, Fingerprint)) -> bool) -> bool {
        // Trusted as soon as it is written there, and no longer than that.
        let Ok(there) = fs::metadata(&self.path) else {
            return false;
        };
        let stamp = Stamp(there.ino(), there.len(), there.mtime(), there.mtime_nsec());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref().is_none_or(|read| read.stamp != stamp) {
            let fresh = Seen::read(&self.path, stamp);
            let said = |note| seen.as_ref().is_some_and(|seen| seen.notes.contains(note));
            for note in fresh.notes.iter().filter(|note| !said(note)) {
                crate::log(note);
            }
            *seen = Some(fresh);
        }
        seen.as_ref().is_some_and(|it| it.known.iter().any(which))
    }

    /// Adds a line to the file: machines at this network have this key. What comes of it; the file is as it was, or has all of the
    /// line.
    ///
    /// # Errors
    /// If it can't be written, in a sentence.
    pub fn trust(
        path: &Path,
        network: &str,
        key: Fingerprint,
        remark: &str,
    ) -> Result<Trusted, String> {
        let wanted: Network = network.parse()?;
        let shown = path.display();
        let failed = |error| format!("{shown} can't be written: {error}; {PEERS_ELSEWHERE}");
        let path = &behind_links(path);
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed)?;
        // Who adds another line at the same time waits. It ends with `directory`.
        let directory = File::open(directory).map_err(failed)?;
        directory.lock().map_err(failed)?;
        let before = Self::read(path)?;
        if before.contains(&(wanted, key)) {
            return Ok(Trusted::Before);
        }
        let line = format!("{network} {key} {remark}");
        replace(path, line.trim_end()).map_err(failed)?;
        // The new name is there, at the latest after a crash of the machine.
        let _ = directory.sync_all();
        let shared = before.iter().any(|(network, _)| *network == wanted);
        Ok(match single(wanted).filter(|_| shared) {
            Some(address) => Trusted::Besides(address),
            None => Trusted::Now,
        })
    }
}

/// What comes of trusting a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// It is trusted now.
    Now,
    /// It was before.
    Before,
    /// It is trusted now, and another key of this address is, too.
    Besides(Ipv4Addr),
}

/// What a path leads to, also where nothing is there yet: a link stays one.
fn behind_links(path: &Path) -> PathBuf {
    /// As many as Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(next) = fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Puts a file with one more line in the place of a file: whoever reads meets the one or the other, whatever happens.
fn replace(path: &Path, line: &str) -> std::io::Result<()> {
    let (mut text, old) = match File::open(path) {
        Ok(mut file) => {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            (text, Some(file.metadata()?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (Vec::new(), None),
        Err(error) => return Err(error),
    };
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = path.with_file_name(name);
    // Of a process with the same number that was killed.
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    let written = (|| {
        if let Some(old) = old {
            let new = file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(old.permissions())?;
        }
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
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
        assert_eq!(
            Known::trust(&path, "10.0.0.2", one, "its name"),
            Ok(Trusted::Now)
        );
        assert_eq!(
            Known::trust(&path, "10.0.0.2", one, ""),
            Ok(Trusted::Before)
        );
        assert!(known.allows(at, one) && !known.allows(at, other));
        assert!(!known.allows(Ipv4Addr::new(10, 0, 0, 3), one));
        assert_eq!(
            Known::trust(&path, "10.0.0.0/24", other, ""),
            Ok(Trusted::Now)
        );
        assert!(known.allows(Ipv4Addr::new(10, 0, 0, 3), other));
        fs::write(&path, format!("# none\n\n10.0.0.2 {other}\n")).expect("it can be written");
        assert!(!known.allows(at, one) && known.allows(at, other));
        fs::write(&path, "10.0.0.2 sha256:12\n").expect("it can be written");
        assert!(!known.allows(at, other));
        // Half a line costs no other one.
        let torn = format!("\u{feff}10.0.0.3 {one}\n10.0.0.2 {other}\n10.9.");
        fs::write(&path, &torn).expect("it can be written");
        let third = Ipv4Addr::new(10, 0, 0, 3);
        assert!(known.allows(at, other) && known.allows(third, one));
        let error = Known::trust(&path, "10.0.0.4", one, "").expect_err("it is torn");
        assert!(
            error.contains("line 3: `10.9.` is no network") && error.contains(MEND),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).expect("it is there"), torn);
        let mut latin = format!("10.0.0.2 {other}\n").into_bytes();
        latin.extend(b"# Andr\xE9 was here\n10.0.0.\xE9 sha256:12\n");
        latin.extend(format!("10.0.0.3 {one}\n").into_bytes());
        fs::write(&path, &latin).expect("it can be written");
        assert!(known.allows(at, other) && known.allows(third, one));
        let error = Known::read(&path).expect_err("no network");
        assert!(error.contains("line 3"), "{error}");
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

    #[test]
    fn a_line_is_added_whole_and_the_file_stays_whose_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, link) = (directory.path().join("here"), directory.path().join("link"));
        let [one, other] = [b"one", b"two"].map(|key| Fingerprint::of(key));
        // The last line has no end.
        fs::write(&path, format!("# mine\n10.0.0.2 {one}")).expect("it can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        fs::set_permissions(&path, mode).expect("it is ours");
        let owned = std::os::unix::fs::chown(&path, Some(12345), Some(23456)).is_ok();
        std::os::unix::fs::symlink("here", &link).expect("a link");
        let second = Ipv4Addr::new(10, 0, 0, 2);
        let trusted = Known::trust(&link, "10.0.0.2", other, "");
        assert_eq!(trusted, Ok(Trusted::Besides(second)));
        let text = fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, format!("# mine\n10.0.0.2 {one}\n10.0.0.2 {other}\n"));
        let there = fs::symlink_metadata(&path).expect("it is there");
        assert_eq!(there.mode() & 0o7777, 0o640);
        assert!(!owned || (there.uid(), there.gid()) == (12345, 23456));
        let link = fs::symlink_metadata(&link).expect("it is there");
        assert!(link.is_symlink());
        // Nor does one become a file that leads to what is not there yet.
        let (there, link) = (directory.path().join("a/b"), directory.path().join("far"));
        std::os::unix::fs::symlink("a/c", &link).expect("a link");
        fs::create_dir(directory.path().join("a")).expect("a directory");
        std::os::unix::fs::symlink("b", directory.path().join("a/c")).expect("a link");
        assert_eq!(Known::trust(&link, "10.0.0.2", one, ""), Ok(Trusted::Now));
        assert!(fs::symlink_metadata(&there).expect("it is there").is_file());
        fs::remove_dir_all(directory.path().join("a")).expect("it is ours");
        fs::remove_file(&link).expect("it is ours");
        // Nothing else is left, and many at a time lose no line.
        std::thread::scope(|scope| {
            for host in 0..8 {
                let path = &path;
                let network = format!("10.1.0.{host}");
                scope.spawn(move || Known::trust(path, &network, one, ""));
            }
        });
        let lines = fs::read_to_string(&path).expect("it is there");
        assert_eq!(lines.lines().count(), 11, "{lines}");
        let files = fs::read_dir(directory.path()).expect("it is there");
        assert_eq!(files.count(), 2);
    }
}
