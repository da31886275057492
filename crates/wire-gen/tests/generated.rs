// SPDX-License-Identifier: Apache-2.0
//! The committed files must be what the tables give.

use std::process::Command;

#[test]
fn committed_files_agree_with_the_tables() {
    let run = Command::new(env!("CARGO_BIN_EXE_wire-gen"))
        .arg("--check")
        .output()
        .expect("wire-gen starts");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
fn unknown_arguments_get_the_usage() {
    let run = Command::new(env!("CARGO_BIN_EXE_wire-gen"))
        .arg("--chekc")
        .output()
        .expect("wire-gen starts");
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("usage:"));
}
