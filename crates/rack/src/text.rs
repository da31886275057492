// SPDX-License-Identifier: Apache-2.0
//! Texts of files that users name, for which nobody waits: not of a pipe, nor without end.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Error, line_of};

/// Bytes of the longest file.
const LONGEST: u64 = 1 << 20;
/// `O_NONBLOCK` of Linux: a pipe that took the file's place after the look at it must not be waited for either.
const NONBLOCK: i32 = 0o4000;

/// Reads a file; `what` says in the sentence what it is to be.
pub fn read(what: &str, path: &Path) -> Result<String, Error> {
    let place = path.display();
    let config = |sentence: String| Error::Config(sentence);
    let cannot = |error: std::io::Error| {
        config(match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                format!("there is no {what} {place}; give the path of a file that is there")
            }
            ErrorKind::PermissionDenied => {
                format!("the {what} {place} is closed to this user; permit to read it")
            }
            _ => format!("the {what} {place} cannot be read ({error}); give another file"),
        })
    };
    let kind = fs::metadata(path).map_err(cannot)?.file_type();
    // /dev/null is an empty text.
    if !kind.is_file() && !kind.is_char_device() {
        return Err(config(format!(
            "the {what} {place} is no ordinary file; give the path of one"
        )));
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(path)
        .map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    if bytes.len() as u64 > LONGEST {
        return Err(config(format!(
            "the {what} {place} is longer than {LONGEST} bytes; shorten it"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]);
        config(format!(
            "{place}, line {}: the text is not in UTF-8; write it in UTF-8",
            line_of(&text, good)
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_files_that_end_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("good"), "a = 1\n").expect("it can be written");
        fs::write(at("long"), vec![b' '; 1 + LONGEST as usize]).expect("it can be written");
        fs::write(at("bytes"), b"a = 1\nb = \xff\n").expect("it can be written");
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.expect("coreutils are there").success());
        assert_eq!(
            read("topology", &at("good")).expect("it is a file"),
            "a = 1\n"
        );
        assert_eq!(read("topology", Path::new("/dev/null")).expect("empty"), "");
        let began = Instant::now();
        for (path, sentence) in [
            (at("long"), "is longer than 1048576 bytes; shorten it"),
            (
                at("bytes"),
                "bytes, line 2: the text is not in UTF-8; write it in UTF-8",
            ),
            (at("pipe"), "is no ordinary file; give the path of one"),
            (
                folder.path().to_owned(),
                "is no ordinary file; give the path of one",
            ),
            (
                "/dev/zero".into(),
                "is longer than 1048576 bytes; shorten it",
            ),
            (
                at("nowhere"),
                "nowhere; give the path of a file that is there",
            ),
            (
                at("good").join("x"),
                "give the path of a file that is there",
            ),
        ] {
            let error = read("topology", &path).expect_err(sentence);
            assert!(error.is_usage());
            assert!(error.to_string().ends_with(sentence), "{error}");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "nothing waits");
    }
}
