// SPDX-License-Identifier: Apache-2.0
//! What the tests of preloaded programs share.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library beside the test: `target/PROFILE/deps/TEST-...` and `target/PROFILE/libipnuma_socket.so`.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let library = profile.join("libipnuma_socket.so");
    assert!(
        library.exists(),
        "{} is missing: build it with 'cargo build -p preload'",
        library.display()
    );
    library
}

/// The interpreter itself: `python3` may be a script that starts it, with other programs in between.
pub fn python() -> PathBuf {
    let output = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}
