// SPDX-License-Identifier: Apache-2.0
//! A model has the same name, and so is found, whatever `PATH` is.

use std::process::Command;

#[test]
fn models_are_found_whatever_path_is() {
    let names = |path: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verilate"));
        command.args(["--paths", "ipnuma_nic_10g", "fibnic_1g"]);
        match path {
            Some(path) => command.env("PATH", path),
            None => command.env_remove("PATH"),
        };
        let output = command.output().expect("it was built for this test");
        assert!(output.status.success(), "{path:?}");
        String::from_utf8(output.stdout).expect("names")
    };
    let usual = names(Some("/usr/local/bin:/usr/bin:/bin"));
    assert_eq!(usual.lines().count(), 2);
    for path in [None, Some(""), Some("/bin"), Some("/nonexistent")] {
        assert_eq!(names(path), usual, "{path:?}");
    }
}
