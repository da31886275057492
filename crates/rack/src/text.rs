// SPDX-License-Identifier: Apache-2.0
//! Texts of files that users name, or of pipes to which somebody writes.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, line_of};

/// Reads a file; `what` says in the sentence what it is to be.
pub fn read(what: &str, path: &Path) -> Result<String, Error> {
    let place = path.display();
    let bytes = input::bytes_or_pipe(path, input::LONGEST).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                return Error::Config(format!(
                    "there is no {what} {place}; give the path of a file that is there"
                ));
            }
            ErrorKind::PermissionDenied => "permit this user to read it",
            ErrorKind::FileTooLarge => "shorten it",
            _ => "give the path of a file",
        };
        Error::Config(format!(
            "the {what} {place}: {}; {remedy}",
            input::why(&error)
        ))
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]);
        Error::Config(format!(
            "{place}, line {}: the text is not in UTF-8; write it in UTF-8",
            line_of(&text, good)
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_files_that_end_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("good"), "a = 1\n").expect("it can be written");
        fs::write(at("long"), vec![b' '; 1 + input::LONGEST as usize]).expect("it can be written");
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
            (at("long"), "it is longer than 1048576 bytes; shorten it"),
            (
                at("bytes"),
                "bytes, line 2: the text is not in UTF-8; write it in UTF-8",
            ),
            (
                at("pipe"),
                "nobody writes to the pipe; give the path of a file",
            ),
            (
                folder.path().to_owned(),
                "it is a directory; give the path of a file",
            ),
            (
                "/dev/zero".into(),
                "it is longer than 1048576 bytes; shorten it",
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
