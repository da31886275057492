// SPDX-License-Identifier: Apache-2.0
//! This program's own file, which guests and daemons run again.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the kernel puts behind the name of a file that is no longer at its place.
const REMOVED: &[u8] = b" (deleted)";

/// This program's file. If it was replaced since the program was started, as a build does, it is what is there now.
///
/// # Errors
/// The kernel does not say which file it is.
pub fn own() -> io::Result<PathBuf> {
    std::env::current_exe().map(|path| at_its_place(&path).to_owned())
}

/// The path without the kernel's mark. A file may be called so, too.
fn at_its_place(path: &Path) -> &Path {
    match path.as_os_str().as_bytes().strip_suffix(REMOVED) {
        Some(place) if !path.exists() => Path::new(OsStr::from_bytes(place)),
        _ => path,
    }
}

/// A path as a word of a shell's command.
#[must_use]
pub fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    match text.bytes().all(plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_what_is_at_its_place_now() {
        let folder = tempfile::tempdir().expect("a directory");
        let place = folder.path().join("ipnuma");
        let marked = folder.path().join("ipnuma (deleted)");
        assert_eq!(at_its_place(&place), place);
        assert_eq!(at_its_place(&marked), place);
        // Somebody's name for a file.
        std::fs::write(&marked, "").expect("a file");
        assert_eq!(at_its_place(&marked), marked);
    }

    #[test]
    fn a_shell_reads_a_path_as_one_word() {
        for path in [
            "/a/b-1.0_c+d",
            "/my projects (1)/it's",
            "/$HOME/`x`;\"y\"",
            "",
        ] {
            let command = format!("printf %s {}", word(Path::new(path)));
            let said = std::process::Command::new("sh")
                .args(["-c", &command])
                .output()
                .expect("a shell");
            assert_eq!(String::from_utf8_lossy(&said.stdout), path, "{command}");
        }
        assert_eq!(word(Path::new("/plain/path")), "/plain/path");
    }
}
