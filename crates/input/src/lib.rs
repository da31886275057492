// SPDX-License-Identifier: Apache-2.0
//! Files and words that people give. Files are read without waiting for them, whatever lies at their path; what is wrong with
//! them is said in one line, in this project's words, with a remedy.
//!
//! ```
//! use std::path::Path;
//!
//! let path = Path::new("/nowhere/rack.toml");
//! let why = input::text(path).expect_err("it is not there");
//! assert_eq!(why, "it cannot be read: No such file or directory (os error 2)");
//! assert_eq!(input::quoted("a\nb"), "`a\\nb`");
//! let theirs = "unknown field `cabel`, expected `cable` or `host`";
//! assert_eq!(input::own_words(theirs), "there is no key `cabel`; the keys are cable, host");
//! ```
//!
//! It knows no format: who reads one has its parser's message and place for [`at_line`]. It does not read standard input.

#![forbid(unsafe_code)]

#[cfg(feature = "command-line")]
pub mod command_line;
mod words;

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
pub use words::{one_line, own_words, quoted};

/// Longest file of [`text`]: what people write by hand is far shorter.
pub const LONGEST: u64 = 1 << 20;

/// Opens a file for reading, for which nobody waits: no pipe, no directory, no socket. /dev/null is an empty file.
///
/// # Errors
/// What the system says.
pub fn open(path: &Path) -> std::io::Result<File> {
    let (file, pipe) = opened(path)?;
    match pipe {
        true => Err(Error::other("it is no ordinary file")),
        false => Ok(file),
    }
}

/// A file that nobody waits for, and whether it is a pipe.
fn opened(path: &Path) -> std::io::Result<(File, bool)> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a directory"));
    }
    match kind.is_file() || kind.is_char_device() || kind.is_fifo() {
        true => Ok((file, kind.is_fifo())),
        false => Err(Error::other("it is no ordinary file")),
    }
}

/// The bytes of a file of at most so many.
///
/// # Errors
/// What the system says, or that it is longer.
pub fn bytes(path: &Path, longest: u64) -> std::io::Result<Vec<u8>> {
    limited(open(path)?, longest)
}

/// The bytes of a file, or of a pipe such as a shell makes of `<(...)`, of at most so many. Whoever writes to the pipe is
/// waited for.
///
/// # Errors
/// What the system says, that it is longer, or that nobody writes to the pipe.
pub fn bytes_or_pipe(path: &Path, longest: u64) -> std::io::Result<Vec<u8>> {
    let (file, pipe) = opened(path)?;
    if pipe {
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    }
    let bytes = limited(file, longest)?;
    match pipe && bytes.is_empty() {
        true => Err(Error::new(
            ErrorKind::UnexpectedEof,
            "nobody writes to the pipe",
        )),
        false => Ok(bytes),
    }
}

fn limited(file: File, longest: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        length if length > longest => {
            let text = format!("it is longer than {longest} bytes");
            Err(Error::new(ErrorKind::FileTooLarge, text))
        }
        _ => Ok(bytes),
    }
}

/// The text of a file of at most so many bytes.
///
/// # Errors
/// What the system says, that it is longer, or that it is no text.
pub fn text_of(path: &Path, longest: u64) -> std::io::Result<String> {
    String::from_utf8(bytes(path, longest)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text in UTF-8"))
}

/// The text of a file that people write by hand.
///
/// # Errors
/// The begin of a sentence about the file, which wants a remedy.
pub fn text(path: &Path) -> Result<String, String> {
    text_of(path, LONGEST).map_err(|error| why(&error))
}

/// The begin of a sentence about a file that could not be read.
#[must_use]
pub fn why(error: &Error) -> String {
    match error.raw_os_error() {
        Some(_) => format!("it cannot be read: {error}"),
        None => error.to_string(),
    }
}

/// The key of a line `KEY = VALUE`.
fn key_of(line: &str) -> Option<&str> {
    let key = line.split_once('=')?.0.trim();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (!key.is_empty() && key.bytes().all(allowed)).then_some(key)
}

/// What the parser of a text says, with the line, in one line of this project's words. It ends with a remedy.
#[must_use]
pub fn at_line(text: &str, place: Option<Range<usize>>, message: &str) -> String {
    let start = place.map_or(0, |place| place.start.min(text.len()));
    let before = &text.as_bytes()[..start];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let mut words = own_words(&one_line(message.trim()));
    if let Some(key) = text.lines().nth(line - 1).and_then(key_of) {
        // A parser of values does not know whose they are.
        if !words.contains(&format!("`{key}`")) {
            words = format!("{key}: {words}");
        }
    }
    match words.contains("; ") {
        true => format!("line {line}: {words}"),
        false => format!("line {line}: {words}; correct it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
        let binary = directory.path().join("binary");
        std::fs::write(&binary, [0xFF]).expect("it can be written");
        for (path, words) in [
            (pipe.as_path(), "no ordinary file"),
            (Path::new("/dev/zero"), "longer than 1048576 bytes"),
            (directory.path(), "a directory"),
            (&binary, "no text in UTF-8"),
            (Path::new("/nowhere"), "No such file"),
        ] {
            let why = text(path).expect_err("it is no text");
            assert!(why.contains(words), "{path:?}: {why}");
        }
        assert_eq!(text(Path::new("/dev/null")).as_deref(), Ok(""));
    }

    #[test]
    fn a_pipe_is_read_where_somebody_writes() {
        use std::io::Write;
        use std::process::{Command, Stdio};

        let directory = tempfile::tempdir().expect("a directory");
        let nobody = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &nobody, 0o600.into()).expect("a pipe");
        let error = bytes_or_pipe(&nobody, LONGEST).expect_err("it is empty");
        assert_eq!(error.to_string(), "nobody writes to the pipe");
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let late = std::thread::spawn(move || {
            let child = Command::new("true").stdin(Stdio::null()).status();
            child.expect("coreutils are there");
            writer.write_all(b"some").expect("it is read");
            std::thread::yield_now();
            writer.write_all(b" words").expect("it is read");
        });
        let read = bytes_or_pipe(Path::new(&path), LONGEST).expect("somebody writes");
        assert_eq!(read, b"some words");
        late.join().expect("it wrote");
    }

    #[test]
    fn lines_are_counted_from_1() {
        let said = at_line("a\nb\n", Some(2..3), "missing field `x`");
        assert_eq!(said, "line 2: the key `x` is missing; add it");
        let said = at_line(
            "a = 1\nb = -1",
            Some(10..12),
            "invalid value: integer `-1`, expected u64",
        );
        assert_eq!(
            said,
            "line 2: b: the number -1 is out of place; write a whole number from 0 to 18446744073709551615"
        );
        assert_eq!(at_line("", Some(9..10), "x"), "line 1: x; correct it");
    }
}
